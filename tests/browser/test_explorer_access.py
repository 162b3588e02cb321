"""The explorer for everyone: keyboard, screen reader, phone, paper; and names that attack."""

import json
from itertools import pairwise

import pytest

from tests.browser.reports import BOLD, ENDING, EXAMPLES, LINK, PICTURE, PLOTLY, SCRIPT, with_study
from tests.browser.test_explorer import move, settle

ALL = sorted(EXAMPLES)
WIDTHS = (1280, 768, 390)
# What a hand with a mouse could use, and is in sight.
USABLE = """() => [...document.querySelectorAll(
    'a[href], button, input, select, summary, [tabindex="0"]')]
    .filter(e => e.checkVisibility() && !e.closest('details:not([open]) > :not(summary)'))"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing_serious(opened, axe, name, width):
    page = opened(name, width=width, hash="#fairness=0.5")
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    settle(page)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 20
    bad = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in bad] == []
    assert [v["id"] for v in found["violations"]] == []


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
    page.evaluate(f"window.usable = ({USABLE})(); window.visited = new Set()")
    total = page.evaluate("usable.length")
    assert total > 20
    for _ in range(total + 5):
        page.keyboard.press("Tab")
        page.evaluate("visited.add(document.activeElement)")
    missed = page.evaluate("usable.filter(e => !visited.has(e)).map(e => e.outerHTML.slice(0, 90))")
    assert missed == []


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
    assert SCRIPT[:21] + "…" in labels
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


def test_nothing_moves_for_those_who_ask(opened):
    durations = """() => [document.documentElement, ...document.querySelectorAll('body *')].map(e => {
        const s = getComputedStyle(e);
        return [s.scrollBehavior === 'smooth', parseFloat(s.transitionDuration) > 0 && !e.closest('svg'),
                parseFloat(s.animationDuration) > 0].some(Boolean);
    }).filter(Boolean).length"""
    assert opened("loans", reduced_motion="reduce").evaluate(durations) == 0
    assert opened("loans", reduced_motion="no-preference").evaluate(durations) > 0  # it can be seen
