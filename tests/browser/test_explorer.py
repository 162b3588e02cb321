"""The explorer in a real browser: right numbers everywhere, at once, without a network."""

import copy
import json

import pytest

from tests.browser.reports import EXAMPLES, inherited_names, several_classes, with_study

ALL = sorted(EXAMPLES)
CSP = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


# Everything by which a page can reach out, and which part of the policy stopped it.
FORBIDDEN = """async () => {
  const found = new Set(), far = 'https://example.org/x';
  addEventListener('securitypolicyviolation', e => found.add(e.effectiveDirective));
  const make = (tag, given) => document.body.append(Object.assign(document.createElement(tag), given));
  make('img', { src: far });
  make('script', { src: far });
  make('link', { rel: 'stylesheet', href: far });
  make('iframe', { src: far });
  make('object', { data: far });
  make('video', { src: far });
  try { new WebSocket('wss://example.org/'); } catch { }
  new FontFace('far', `url(${far})`).load().catch(() => {});
  await new Promise(r => setTimeout(r, 400));
  return [...found];
}"""


def settle(page):
    """Wait until charts out of sight have been drawn, too."""
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r, 260)))")


def move(page, i):
    page.evaluate("i => fairspan.show(i)", i)
    settle(page)


def shown(page, where, metric):
    """Numbers under a heading, as the page holds them for machines."""
    found = page.locator(f"{where} [data-metric='{metric}']").evaluate_all(
        "all => all.map(one => one.dataset.value)"
    )
    return [float(x) if x else None for x in found]


def table_numbers(page, card):
    """Values of a chart's table, row by row, without its names."""
    return page.locator(f"{card} details tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('[data-value]')].map(c => Number(c.dataset.value)))"
    )


@pytest.mark.parametrize("name", ALL)
def test_the_slider_shows_the_numbers_of_the_study(opened, examples, name):
    study = examples[name].study
    page = opened(name)
    seen = []
    for i, fairness in ((0, 0.0), (5, 0.5), (10, 1.0)):
        move(page, i)
        headline = study["positions"][i]["headline"]
        selected = study["positions"][i]["selected"]
        assert page.evaluate("fairspan.current()") == i
        assert float(page.get_attribute("#place", "data-value")) == fairness
        for metric in ("error", "error_extra"):
            assert shown(page, "#tiles", metric) == [headline[metric]["value"]]
        for what in ("slope", "gap", "correlation"):  # every attribute, not the largest alone
            expected = [number["value"] for number in selected if number["what"] == what]
            assert shown(page, "#tiles", what) == expected
            assert shown(page, "#headline", what) == expected
        if (
            study["about"]["equalize"] == "decisions"
        ):  # the rates of the attribute whose gap is the largest without fairness
            attribute = study["positions"][0]["headline"]["gap_attribute"]
            rates = [row["selection_rate"] for row in study["positions"][i]["rates"][attribute]]
            assert shown(page, "#tiles", "selection_rate") == [rate["value"] for rate in rates]
            assert page.inner_text("#tiles").count(" to ") >= len(rates)
        assert shown(page, "#headline", "error") == [headline["error"]["value"]]
        seen.append(page.inner_text("#headline"))
    assert len(set(seen)) == 3


def test_words_of_the_headline(opened, examples):
    at = examples["loans"].study["positions"][5]
    headline = at["headline"]
    page = opened("loans", hash="#fairness=0.5")
    text = page.inner_text("#headline")
    assert text.startswith(f"At fairness 0.5: error rate {100 * headline['error']['value']:.1f}%")
    assert (
        f"{100 * abs(headline['error_extra']['value']):.1f} points" in text or "as much as" in text
    )
    group, sex = (f"{100 * number['value']:.1f} points (" for number in at["selected"])
    assert f"; difference of selection rates by group {group}" in text
    assert f", by sex {sex}" in text


@pytest.mark.parametrize("name", ALL)
def test_all_views_follow_the_slider_and_the_attribute(opened, examples, name):
    study = examples[name].study
    page = opened(name)
    for attribute in (one["name"] for one in study["attributes"]):
        page.select_option("#attribute", value=attribute)
        for i in (0, 10):
            move(page, i)
            at = study["positions"][i]
            said = [p for group in at["calibration"].get(attribute, []) for p in group["points"]]
            assert table_numbers(page, "#view-calibration") == [
                [p["predicted"], p["actual"], p["n"]] for p in said
            ]
            scores = at["scores"].get(attribute, {"means": []})
            assert [row[0] for row in table_numbers(page, "#view-scores")] == scores["means"]
            assert page.is_visible("#view-scores") == bool(scores["means"])
            check_rates(page, study, at, attribute)
            binned = at["continuous"].get(attribute, {}).get("binned", [])
            assert page.is_visible("#view-continuous") == bool(binned)
            if binned:
                rows = table_numbers(page, "#view-continuous")
                assert rows == [[b["at"], b["mean"], b["n"]] for b in binned]


def check_rates(page, study, at, attribute):
    rows = at["rates"][attribute]
    first = "mean_prediction" if study["task"] == "regression" else "selection_rate"
    found = table_numbers(page, "#view-rates")
    for row, cells in zip(rows, found, strict=True):
        one = row["classes"][0] if "classes" in row else row
        assert cells[:2] == [row["n"], one[first]["value"]]
    if study["task"] != "regression":
        counts = [(row["classes"][0] if "classes" in row else row)["confusion"] for row in rows]
        for part in ("tp", "fp", "tn", "fn"):
            assert shown(page, "#view-confusion", part) == [c[part] for c in counts]


@pytest.mark.parametrize("name", ALL)
def test_parity_certificate_and_snippet_follow_the_slider(opened, examples, name):
    study = examples[name].study
    page = opened(name)
    snippets = set()
    for i in (0, 5, 10):
        move(page, i)
        at = study["positions"][i]
        assert [row[0] if row else None for row in table_numbers(page, "#view-parity")] == [
            line["value"] for line in at["parity"]
        ]
        for sentence in at["certificate"]["words"]:
            assert sentence.rstrip(".")[:40] in page.inner_text("#view-certificate").replace(
                "\\u", "\\u"
            )
        assert page.inner_text("#view-snippet pre").strip() == at["snippet"].strip()
        snippets.add(at["snippet"])
    assert len(snippets) == 3


def has_numbers(study, line):
    """Anywhere on the slider: a line without any is named, and not drawn."""
    keys = ("attribute", "where", "metric")
    return any(
        one["value"] is not None
        for position in study["positions"]
        for one in position["parity"]
        if [one[k] for k in keys] == [line[k] for k in keys]
    )


def test_other_measures_and_sections_can_be_chosen(opened, examples):
    study = examples["loans"].study
    page = opened("loans", hash="#fairness=0.5")
    lines = study["positions"][5]["parity"]
    for metric in dict.fromkeys(line["metric"] for line in lines):
        page.select_option("#metric", value=metric)
        settle(page)
        found = [line for line in lines if line["metric"] == metric]
        some = [line for line in found if has_numbers(study, line)]
        assert shown(page, "#view-parity .say", "parity_gap") == [
            line["value"] for line in (some or found)
        ]
        missing = "; ".join(line["attribute"] for line in found if line not in some)
        said = page.inner_text("#view-parity .say").partition(" Too few rows to say: ")[2]
        assert said == (f"{missing}." if some and missing else "")
    audit = study["audit"]["lines"]
    assert page.locator("#view-audit tbody tr").count() == len(audit)
    page.select_option("#section", value="scores")
    assert page.locator("#view-audit tbody tr").count() == sum(
        x["section"] == "scores" for x in audit
    )


@pytest.mark.parametrize("name", ALL)
def test_charts_are_drawn_and_axes_stay(opened, name):
    page = opened(name)
    ranges = []
    for i in (0, 5, 10):
        move(page, i)
        charts = page.locator(".card:not([hidden]) .plot")
        assert charts.count() >= 5
        read = (
            "all => all.map(p => [p.layout.xaxis.range, p.layout.yaxis.range, p.data.length > 0])"
        )
        found = charts.evaluate_all(read)
        assert all(one[2] for one in found)
        ranges.append([one[:2] for one in found])
    assert ranges[0] == ranges[1] == ranges[2]


def test_labels_of_charts_read_out_the_current_place(opened):
    page = opened("numbers")
    page.select_option("#attribute", value="age")
    read = "all => all.map(p => [p.closest('article').id, p.getAttribute('aria-label')])"
    labels = []
    for i in (0, 10):
        move(page, i)
        labels.append(dict(page.locator(".card:not([hidden]) .plot").evaluate_all(read)))
    assert labels[0].keys() == labels[1].keys()
    same = {card for card in labels[0] if labels[0][card] == labels[1][card]}
    assert same == set()
    assert "At fairness 0:" in labels[0]["view-tradeoff"]
    assert "At fairness 1:" in labels[1]["view-tradeoff"]


def test_the_headline_is_announced_once_the_slider_rests(opened):
    page = opened("loans")
    page.evaluate("""() => {
        window.heard = [];
        const live = document.getElementById('live');
        new MutationObserver(() => live.textContent && heard.push(live.textContent))
            .observe(live, { childList: true });
    }""")
    page.wait_for_timeout(900)
    page.evaluate("heard.length = 0")
    page.evaluate("for (let i = 0; i < 5; i++) setTimeout(() => fairspan.show(i), 40 * i)")
    while not page.evaluate("heard.length"):  # not wait_for_function: the policy forbids its eval
        page.wait_for_timeout(100)
    page.wait_for_timeout(900)
    heard = page.evaluate("heard")
    assert heard == [page.evaluate("document.getElementById('headline').textContent")]
    assert heard[0].startswith("At fairness 0.4:")
    assert len(heard[0]) < 260  # one sentence


def test_the_file_is_complete_and_forbids_the_network(opened, examples):
    page = opened("loans")  # requests and messages of the console fail in the fixture
    move(page, 3)
    assert page.get_attribute("meta[http-equiv='Content-Security-Policy']", "content") == CSP
    assert opened.troubles == []
    assert page.evaluate("fetch('https://example.org/').then(() => false, () => true)")
    asked, stopped, answers = [], [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("requestfailed", lambda r: stopped.append(r.failure))
    page.on("response", lambda r: answers.append(r.url))
    assert sorted(page.evaluate(FORBIDDEN)) == [
        "connect-src",
        "font-src",
        "frame-src",
        "img-src",
        "media-src",
        "object-src",
        "script-src-elem",
        "style-src-elem",
    ]
    assert stopped == ["csp"] * len(asked)  # by the page itself, before any was sent
    assert answers == []
    opened.troubles.clear()
    assert examples["loans"].path.stat().st_size < 3_000_000


@pytest.mark.parametrize(
    ("hash", "place"),
    [("", 10), ("#fairness=0.5", 5), ("#fairness=0", 0), ("#fairness=0.31", 3), ("#fairness=7", 10),
     ("#fairness=x", 10), ("#fairness=<img src=x>", 10)],
)  # fmt: skip
def test_a_link_sets_the_slider(opened, hash, place):
    page = opened("loans", hash=hash)
    assert page.evaluate("fairspan.current()") == place
    assert page.input_value("#slider") == str(place)


def test_the_link_follows_the_slider_and_the_slider_the_link(opened):
    page = opened("loans")
    move(page, 2)
    assert page.evaluate("location.hash") == "#fairness=0.2"
    page.evaluate("location.hash = '#fairness=0.7'")
    settle(page)
    assert page.evaluate("fairspan.current()") == 7
    page.click("nav a >> nth=2")
    assert page.evaluate("fairspan.current()") == 7


def test_places_beyond_the_slider_are_its_ends(opened):
    page = opened("loans")
    for asked, place in ((-3, 0), (99, 10), (4.4, 4), (None, 0)):
        page.evaluate("i => fairspan.show(i)", asked)
        assert page.evaluate("fairspan.current()") == place


def test_what_is_not_known_is_said(opened, examples, tmp_path):
    """A study of nothing but gaps opens, moves, and claims nothing."""
    study = emptied(copy.deepcopy(examples["loans"].study))
    page = opened("loans", path=with_study(examples["loans"], study, tmp_path / "gaps.html"))
    for i in (0, 10):
        move(page, i)
        assert "not known" in page.inner_text("#headline")
        text = page.inner_text("main").replace(page.inner_text("#view-snippet"), "")
        assert not any(word in text for word in ("NaN", "undefined", "null", "[object", "Infinity"))


def emptied(one):
    if isinstance(one, dict):
        gaps = {"value", "low", "high", "noise", "p_adjusted", "in_sample_supremum"}
        return {k: blank(v) if k in gaps else emptied(v) for k, v in one.items()}
    return [emptied(v) for v in one] if isinstance(one, list) else one


def blank(value):
    return [None] * len(value) if isinstance(value, list) else None


@pytest.mark.parametrize("name", ALL)
def test_no_number_is_shown_raw(opened, name):
    page = opened(name)
    move(page, 5)
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    text = page.inner_text("main").replace(page.inner_text("#view-snippet"), "")
    assert not any(word in text for word in ("NaN", "undefined", "[object", "Infinity", "null"))


def test_the_study_is_there_for_machines(opened, examples):
    page = opened("loans")
    study = {key: value for key, value in examples["loans"].study.items() if key != "other"}
    assert json.loads(page.evaluate("JSON.stringify(fairspan.study)")) == study


def test_a_model_that_decides_alike_for_everyone_is_called_so(opened, examples, tmp_path):
    """Its gap is nought, which would look like the best of all."""
    study = copy.deepcopy(examples["loans"].study)
    study["positions"][10]["headline"]["alike"] = True
    page = opened("loans", path=with_study(examples["loans"], study, tmp_path / "alike.html"))
    for i, said in ((10, True), (5, False)):
        move(page, i)
        text = page.inner_text("#headline")
        assert text.endswith("Everyone held out is decided alike: repaid = yes.") == said


# ------------------------------------------------------------------ names that JavaScript knows, too


@pytest.fixture(scope="module")
def inherited(browser, tmp_path_factory):
    """A page about columns whose names every JavaScript object has."""
    return inherited_names(tmp_path_factory.mktemp("inherited") / "names.html")


@pytest.mark.regression("charts die for a protected column named constructor or __proto__")
def test_a_column_may_be_named_as_a_part_of_every_object(opened, inherited):
    page = opened("", path=inherited.path)
    names = [one["name"] for one in inherited.study["attributes"]]
    assert names[:3] == ["constructor", "__proto__", "toString"]
    for attribute in names:
        page.select_option("#attribute", value=attribute)
        for i in (0, 10):
            move(page, i)
            at = inherited.study["positions"][i]
            check_rates(page, inherited.study, at, attribute)
            means = at["scores"].get(attribute, {"means": []})["means"]
            assert [row[0] for row in table_numbers(page, "#view-scores")] == means
            assert page.is_visible("#view-continuous") == (attribute in at["continuous"])
    drawn = page.locator(".plot .main-svg").evaluate_all("all => all.length")
    assert drawn > 0
    assert page.locator(".failed").count() == 0


def test_a_view_that_fails_says_so_and_the_others_go_on(opened, examples, tmp_path):
    study = copy.deepcopy(examples["loans"].study)
    for at in study["positions"]:
        at["calibration"] = {name: [{"group": "x", "points": None}] for name in at["calibration"]}
        at["certificate"]["held_out"] = [{"attribute": None, "value": None}, None]
    page = opened("loans", path=with_study(examples["loans"], study, tmp_path / "broken.html"))
    for i in (0, 5):
        move(page, i)
        for view in ("#view-calibration", "#view-certificate"):
            assert page.locator(f"{view} .failed").count() == 1
            assert page.inner_text(f"{view} .failed").startswith("This view could not be drawn (")
        assert page.locator(".failed").count() == 2
        assert shown(page, "#tiles", "error") == [
            study["positions"][i]["headline"]["error"]["value"]
        ]
        assert table_numbers(page, "#view-rates")
    assert any("error" in text for text in opened.troubles)
    opened.troubles.clear()


def test_a_page_that_fails_as_a_whole_says_so(browser, examples, tmp_path):
    study = copy.deepcopy(examples["loans"].study)
    study["tradeoff"]["error"] = None
    path = with_study(examples["loans"], study, tmp_path / "none.html")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert "This page could not be drawn" in page.inner_text("main")
    page.close()


# ------------------------------------------------------------------ the favourable class


def test_a_guessed_class_is_announced_at_the_top(opened, examples, tmp_path):
    study = copy.deepcopy(examples["loans"].study)
    for named in (True, False):
        study["target"] |= {"named": named, "reason": "the larger of the two labels"}
        page = opened("loans", path=with_study(examples["loans"], study, tmp_path / "guess.html"))
        facts = page.inner_text("#facts")
        assert "repaid = yes" in facts
        assert ("This is a guess (the larger of the two labels)" in facts) != named
        assert ("--positive CLASS" in facts) != named
        text = page.inner_text("body")
        assert ("Gained repaid = yes" in text) == ("Lost repaid = yes" in text) == named
        assert ("Changed to repaid = no" in text) != named
        assert "Now predicted repaid = yes" in text


def test_the_named_class_of_several_is_the_one_in_the_texts(opened, tmp_path):
    example = several_classes(tmp_path / "classes.html", pos_label="mid")
    page = opened("", path=example.path)
    assert page.is_hidden("#class-choice")
    assert "mid" in page.inner_text("#facts")
    assert "Now predicted mid" in page.inner_text("#view-changed")
    assert example.study["limits"]["given"] == ["ratio=0.8"]
    assert "Gained mid" in page.inner_text("#verdict-0")
    assert "Decided mid" in page.inner_text("#view-confusion")
