"""The explorer for everyone: keyboard, screen reader, phone, paper; and names that attack."""

import json
import re
from itertools import pairwise

import pytest

from tests.browser.reports import BOLD, ENDING, EXAMPLES, LINK, PICTURE, PLOTLY, SCRIPT, with_study
from tests.browser.test_explorer import move, settle

ALL = sorted(EXAMPLES)
WIDTHS = (1280, 768, 390)
# What a hand with a mouse could use, and is in sight.
USABLE = """() => [...document.querySelectorAll(
    'a[href], button, input:not([type=radio]:not(:checked)), select, summary, [tabindex="0"]')]
    .filter(e => e.checkVisibility() && !e.closest('details:not([open]) > :not(summary)'))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing(opened, axe, examples, name, width, scheme):
    """At three places of the slider; with every table open, and with another attribute, in the middle."""
    page = opened(name, width=width, color_scheme=scheme, reduced_motion="reduce")
    page.evaluate(axe)
    for i in (0, 10, 5):
        if i == 5:
            page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
            page.select_option("#attribute", index=len(examples[name].study["attributes"]) - 1)
        move(page, i)
        found = page.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then(r => [r.passes.length, "
            "r.violations.map(v => [v.id, v.impact, v.nodes.slice(0, 5).map(n => n.target.join())])])"
        )
        assert found[0] > 20
        assert found[1] == []


# Of text on the ground of its chart, and of its lines and marks.
CONTRAST = """all => {
  const light = (c) => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort();
    return (y + 0.05) / (x + 0.05);
  };
  return all.map(plot => {
    const ground = getComputedStyle(plot.querySelector('.main-svg')).backgroundColor;
    const of = (what, part) => [...plot.querySelectorAll(what)]
      .map(e => getComputedStyle(e)[part]).filter(c => c.startsWith('rgb('));
    return [ground, of('text', 'fill').map(c => ratio(c, ground)),
            of('.js-line, .point', 'stroke').filter(c => c !== ground).map(c => ratio(c, ground))];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_stand_out_in_light_and_dark(opened, scheme):
    """axe does not look into pictures."""
    page = opened("loans", color_scheme=scheme)
    move(page, 5)
    found = page.locator(".card:not([hidden]) .plot").evaluate_all(CONTRAST)
    assert len(found) >= 7
    assert {ground for ground, *_ in found} == {
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 26, 33)"
    }
    assert all(min(texts) >= 4.5 for _, texts, _ in found)
    assert all(min(lines) >= 3.0 for _, _, lines in found if lines)
    assert sum(len(lines) for *_, lines in found) > 20


def test_the_page_follows_the_scheme_of_the_system_and_paper_is_light(opened):
    page = opened("loans", color_scheme="light")
    settle(page)
    ground = "getComputedStyle(document.querySelector('#view-tradeoff .main-svg')).backgroundColor"
    body = "getComputedStyle(document.body).backgroundColor"
    white, black = "rgb(255, 255, 255)", "rgb(20, 26, 33)"
    assert page.evaluate(f"[{ground}, {body}]") == [white, white]
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert page.evaluate(f"[{ground}, {body}]") == [black, black]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(f"[{ground}, {body}]") == [white, white]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(color_scheme="dark", media="screen")
    settle(page)
    assert page.evaluate(f"[{ground}, {body}]") == [black, black]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["loans", "numbers"])
def test_nothing_jumps_while_the_slider_moves(opened, name, width):
    page = opened(name, width=width)
    bar = """[document.getElementById('bar').offsetHeight, document.getElementById('tiles').offsetHeight,
              document.getElementById('tradeoff').offsetTop]"""
    seen = []
    for i in (0, 3, 5, 8, 10):
        move(page, i)
        seen.append(page.evaluate(bar))
    assert all(one == seen[0] for one in seen)
    tops = "[...document.querySelectorAll('.card:not([hidden])')].map(c => c.offsetTop)"
    again = []
    for i in (0, 5, 10):  # all words have been seen once, and keep their room
        move(page, i)
        again.append(page.evaluate(tops))
    assert again[0] == again[1] == again[2]


def test_axe_would_find_something(opened, axe):
    page = opened("loans")
    page.evaluate(axe)
    page.evaluate("document.querySelector('label[for=slider]').remove()")
    page.evaluate("document.getElementById('headline').style.color = '#bbb'")
    found = page.evaluate("axe.run(document)")
    assert {"color-contrast", "label"} <= {v["id"] for v in found["violations"]}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_nothing_sticks_out_at_the_side(opened, name, width):
    page = opened(name, width=width)
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    for i in (0, 5, 10):
        move(page, i)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        out = page.evaluate(
            """w => [...document.querySelectorAll('.card, .plot, .tiles div, h1, h2, p, select')]
            .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > w + 1).length""",
            width,
        )
        assert out == 0


def test_charts_keep_to_their_cards_when_the_window_changes(opened):
    page = opened("loans")
    for width in (390, 1000, 600):
        page.set_viewport_size({"width": width, "height": 800})
        settle(page)
        page.wait_for_timeout(200)
        wide = page.locator(".card:not([hidden]) .plot").evaluate_all(
            "all => all.map(p => p.querySelector('svg').getBoundingClientRect().width - p.clientWidth)"
        )
        assert max(map(abs, wide)) <= 1


@pytest.mark.parametrize("name", ALL)
def test_tab_reaches_everything(opened, name):
    page = opened(name)
    settle(page)
    page.evaluate(f"window.usable = ({USABLE})(); window.visited = new Set()")
    total = page.evaluate("usable.length")
    assert total > 20
    for _ in range(total + 5):
        page.keyboard.press("Tab")
        page.evaluate("visited.add(document.activeElement)")
    missed = page.evaluate("usable.filter(e => !visited.has(e)).map(e => e.outerHTML.slice(0, 90))")
    assert missed == []
    order = page.evaluate(
        "[...visited].filter(e => usable.includes(e)).map(e => usable.indexOf(e))"
    )
    assert order == list(range(total))  # as it is read


def test_everything_is_done_by_keys_alone(opened):
    """From the top of the page with Tab, arrows, Enter: slider, chooser, numbers of a chart, copy."""
    page = opened("loans")

    def tab_to(selector):
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        pytest.fail(f"Tab does not reach {selector}")

    tab_to("#slider")
    page.keyboard.press("Home")
    assert page.evaluate("fairspan.current()") == 0
    settle(page)
    tab_to("#view-tradeoff summary")
    page.keyboard.press("Enter")
    assert page.is_visible("#view-tradeoff details table")
    tab_to("#attribute")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.input_value("#attribute") == "sex"
    tab_to("#metric")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.evaluate("document.getElementById('metric').selectedIndex") == 1
    tab_to("#copy")
    page.keyboard.press("Enter")
    page.locator(".copy [role=status]", has_text="Copied.").wait_for()


def test_the_skip_link_comes_first_and_leads_to_the_results(opened):
    page = opened("loans")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_focus_can_be_seen(opened):
    page = opened("loans")
    for _ in range(14):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid"


def test_keys_move_the_slider(opened):
    page = opened("loans", hash="#fairness=0.5")
    page.focus("#slider")
    for key, place in (
        ("ArrowRight", 6),
        ("ArrowUp", 7),
        ("ArrowLeft", 6),
        ("Home", 0),
        ("PageUp", 1),
        ("PageUp", 2),
        ("PageDown", 1),
        ("End", 10),
    ):
        page.keyboard.press(key)
        assert page.evaluate("fairspan.current()") == place
        words = page.get_attribute("#slider", "aria-valuetext")
        assert words.startswith("1," if place == 10 else "0," if place == 0 else f"0.{place},")
    page.focus("#less")
    page.keyboard.press("Enter")
    assert page.evaluate("fairspan.current()") == 9
    page.focus("#more")
    page.keyboard.press("Space")
    assert page.evaluate("fairspan.current()") == 10
    page.keyboard.press("Space")
    assert page.evaluate("fairspan.current()") == 10
    assert page.get_attribute("#more", "aria-disabled") == "true"
    assert page.evaluate("document.activeElement.id") == "more"  # focus is not lost at the end


def test_keys_move_choices_details_and_copy(opened, examples):
    page = opened("loans")
    for chooser in ("#attribute", "#metric", "#section"):
        page.focus(chooser)
        before = page.input_value(chooser)
        page.keyboard.press("ArrowDown")
        settle(page)
        assert page.input_value(chooser) != before
    assert "sex" in page.get_attribute("#view-scores .plot", "aria-label")
    page.focus("#view-rates summary")
    page.keyboard.press("Enter")
    assert page.is_visible("#view-rates details table")
    page.focus("#copy")
    page.keyboard.press("Enter")
    page.locator(".copy [role=status]", has_text="Copied.").wait_for()


def test_structure_for_screen_readers(opened):
    page = opened("loans")
    settle(page)
    levels = page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for landmark in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(landmark).count() == 1
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    tables = page.locator("table")
    assert tables.count() >= 8
    assert tables.evaluate_all("all => all.every(t => t.caption && t.caption.textContent)")
    assert page.locator("th:not([scope])").count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_names_are_text(opened, examples, width):
    """Dialogs, requests and errors fail in the fixture."""
    page = opened("hostile", width=width)
    study = examples["hostile"].study
    for metric in range(page.locator("#metric option").count()):
        page.select_option("#metric", index=metric)
        settle(page)
    for i in (0, 5, 10):
        move(page, i)
    for chart in page.locator(".card:not([hidden]) .plot").all():
        chart.hover()
        page.wait_for_timeout(60)
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    assert page.evaluate("window.stolen") is None
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, embed, main i, main b").count() == 0
    links = page.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    assert page.locator("svg a").count() == 0
    text = page.inner_text("main")
    for name in (SCRIPT, PICTURE, LINK, PLOTLY):
        assert name in text
    assert study["target"]["name"] == PLOTLY
    assert study["attributes"][0]["name"] == ENDING
    assert ENDING in page.inner_text("h1")


def test_labels_of_charts_are_text(opened):
    page = opened("hostile")
    settle(page)
    labels = page.locator("#view-importance svg text").evaluate_all(
        "all => all.map(t => t.textContent)"
    )
    assert BOLD in labels
    assert SCRIPT in labels
    assert page.locator("#view-importance svg tspan, svg a").count() == 0


def test_signs_that_turn_the_line_are_spelled_out(opened, examples, tmp_path):
    spelled = json.dumps(examples["hostile"].study)  # the study has them so already
    raw = spelled.replace("\\\\u202e", "\\u202e").replace("\\\\u001b", "\\u001b")
    study = json.loads(raw)
    assert "abc\u202edef\x1b[31m" in study["target"]["classes"]
    page = opened("hostile", path=with_study(examples["hostile"], study, tmp_path / "turned.html"))
    settle(page)
    labels = "all => all.map(e => e.getAttribute('aria-label')).join()"
    shown = page.evaluate("document.body.innerText") + page.locator("[aria-label]").evaluate_all(
        labels
    )
    assert "abc\\u202edef\\u001b[31m" in shown
    assert not {"\u202e", "\x1b"} & set(shown)


@pytest.mark.parametrize("name", ALL)
def test_paper(opened, name):
    page = opened(name, hash="#fairness=0.5")
    settle(page)
    page.emulate_media(media="print")
    for hidden in ("#slider", "#less", "#more", "nav", "#copy", "details >> nth=0", ".skip"):
        assert not page.is_visible(hidden)
    assert page.is_visible("#place")
    words = "el => getComputedStyle(el, '::before').content + el.textContent + el.dataset.words"
    said = page.locator("#place").evaluate(words)
    assert said == '"Fairness "0.5, between accuracy first and fairness first'
    assert page.evaluate("getComputedStyle(document.getElementById('bar')).position") == "static"
    assert page.locator("#headline .more").first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = "all => all.map(p => p.querySelector('svg').getBoundingClientRect().width)"
    assert set(page.locator(".card:not([hidden]) .plot").evaluate_all(widths)) == {620}
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert 620 not in page.locator(".card:not([hidden]) .plot").evaluate_all(widths)
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 4


def test_nothing_moves_for_those_who_ask(opened):
    durations = """() => [document.documentElement, ...document.querySelectorAll('body *')].map(e => {
        const s = getComputedStyle(e);
        return [s.scrollBehavior === 'smooth', parseFloat(s.transitionDuration) > 0 && !e.closest('svg'),
                parseFloat(s.animationDuration) > 0].some(Boolean);
    }).filter(Boolean).length"""
    assert opened("loans", reduced_motion="reduce").evaluate(durations) == 0
    assert opened("loans", reduced_motion="no-preference").evaluate(durations) > 0  # it can be seen


PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("name", ALL)
def test_the_bar_takes_at_most_12_percent_of_a_phone_and_shows_its_numbers(opened, name):
    page = opened(name, width=PHONE["width"], has_touch=True)
    page.set_viewport_size(PHONE)
    last = int(page.get_attribute("#slider", "max"))
    for i in (0, last // 2, last):
        move(page, i)
        bar = page.locator("#bar").bounding_box()
        assert bar["height"] <= 0.12 * PHONE["height"]
        words = page.locator("#headline").bounding_box()
        numbers = [n for n in page.locator("#headline [data-metric]").all() if n.is_visible()]
        assert numbers
        for number in numbers:
            box = number.bounding_box()
            assert box["y"] + box["height"] <= words["y"] + words["height"] + 1
    page.evaluate("scrollTo({ top: 3000, behavior: 'instant' })")
    settle(page)
    assert page.evaluate("scrollY") > 1000
    assert page.locator("#bar").bounding_box()["y"] == 0
    page.locator("#less").tap()
    assert page.evaluate("window.fairspan.current()") == last - 1
    for button in ("#less", "#more"):
        box = page.locator(button).bounding_box()
        assert min(box["width"], box["height"]) >= 40
    assert page.locator("#slider").bounding_box()["width"] >= 150


def test_on_a_low_screen_the_slider_alone_stays(opened):
    page = opened("loans")
    page.set_viewport_size({"width": 844, "height": 390})
    assert not page.is_visible("#headline")
    assert page.locator("#bar").bounding_box()["height"] <= 0.2 * 390
