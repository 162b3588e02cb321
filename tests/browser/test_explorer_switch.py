"""The switch between decisions and scores, and the cheapest setting for a limit."""

import copy

import numpy as np
import pytest

from fairspan.method.promises import keep_limit, rows_needed
from tests.browser.reports import with_study
from tests.browser.test_explorer import move, settle, shown
from tests.browser.test_explorer_numbers import near, trained


def switch(page, side):
    page.check(f"#switch input[value={side}]")
    settle(page)


def find(page, limit, measure=None):
    """Type a limit: the sentence of the answer."""
    if measure:
        page.select_option("#limit-measure", value=measure)
    page.fill("#limit", limit)
    page.press("#limit", "Enter")
    return page.inner_text("#limit-answer")


def test_everything_follows_the_switch(opened, examples, monkeypatch):
    page = opened("loans", hash="#fairness=0.5")
    settle(page)
    before = page.inner_text("main")
    switch(page, "scores")
    assert page.evaluate("fairspan.current()") == 5
    assert page.evaluate("location.hash") == "#fairness=0.5&equalize=scores"
    assert page.evaluate("document.activeElement.value") == "scores"
    study = examples["loans"].study["other"]
    for i in (0, 5, 10):
        move(page, i)
        at = study["positions"][i]
        numbers = [number["value"] for number in at["selected"]]
        assert shown(page, "#headline", "correlation") == numbers
        assert shown(page, "#headline", "error") == [at["headline"]["error"]["value"]]
        assert page.inner_text("#view-snippet pre") == at["snippet"]
        assert page.evaluate("fairspan.current()") == i
        # The code trains the model that is shown.
        model, held, predictions = trained(page, examples["loans"].path.parent, monkeypatch)
        assert model.equalize == "scores"
        wrong = np.mean(predictions != held["repaid"].to_numpy())
        assert shown(page, "#tiles", "error") == near([wrong])
        raw = model.decision_function(held)
        sex = np.corrcoef(raw, held["sex"] == "f")[0, 1]
        assert shown(page, "#tiles", "correlation")[1] == pytest.approx(abs(sex), abs=2e-6)
    assert "mean score" in page.inner_text("#facts")
    for view in ("#view-importance", "#view-audit"):
        assert "This view is about equal decisions" in page.inner_text(view)
    move(page, 5)
    switch(page, "decisions")
    assert page.inner_text("main") == before
    assert page.evaluate("location.hash") == "#fairness=0.5"


def test_keys_move_the_switch_and_the_attribute_stays(opened):
    page = opened("loans")
    page.select_option("#attribute", value="sex")
    page.focus("#switch input:checked")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.evaluate("fairspan.equalize") == "scores"
    assert page.input_value("#attribute") == "sex"
    page.keyboard.press("ArrowUp")
    settle(page)
    assert page.evaluate("fairspan.equalize") == "decisions"


def test_a_link_names_the_side(opened):
    page = opened("loans", hash="#fairness=0.3&equalize=scores")
    assert page.evaluate("[fairspan.equalize, fairspan.current()]") == ["scores", 3]
    page.evaluate("location.hash = '#fairness=0.7'")
    settle(page)
    assert page.evaluate("[fairspan.equalize, fairspan.current()]") == ["decisions", 7]
    page.evaluate("location.hash = '#fairness=0.2&equalize=scores'")
    settle(page)
    assert page.evaluate("[fairspan.equalize, fairspan.current()]") == ["scores", 2]


def test_the_page_stays_where_it_is(opened):
    page = opened("loans")
    page.evaluate("scrollTo(0, 200)")
    y = page.evaluate("scrollY")
    switch(page, "scores")
    assert page.evaluate("scrollY") == y
    assert page.locator("#bar").count() == 1


@pytest.mark.parametrize("name", ["numbers", "hostile"])
def test_one_side_has_no_switch(opened, name):
    page = opened(name, hash="#fairness=0.5&equalize=decisions")
    assert not page.is_visible("#switch")
    assert page.evaluate("fairspan.current()") == 5


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_after_the_switch(opened, axe, width):
    page = opened("loans", width=width)
    switch(page, "scores")
    find(page, "0.01")
    page.evaluate(axe)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("tags => axe.run({ runOnly: tags })", tags)
    assert [one["id"] for one in found["violations"]] == []


# ------------------------------------------------------------------ limits

CASES = [
    ("decisions", "gap", [f"{x:g}" for x in (3, 10, 20, 30, 40, 50, 60, 90)]),
    ("decisions", "ratio", ["0.95", "0.8", "0.6", "0.4", "0,2", "80 %"]),
    ("scores", "correlation", ["0.01", "0.1", "0.2", "0.3", "0.4", "0.5", "0.9"]),
]


@pytest.mark.parametrize(("side", "measure", "limits"), CASES)
def test_the_setting_is_that_of_the_library(opened, examples, side, measure, limits):
    study = examples["loans"].study
    place = study if side == "decisions" else study["other"]
    sign = -1.0 if measure == "ratio" else 1.0
    ats = [at["promise"] for at in place["positions"]]
    upper = sign * np.array([at[measure]["bound"] for at in ats])
    errors, grid = np.array([at["error"] for at in ats]), np.array(study["fairness"])
    page = opened("loans")
    switch(page, side)
    seen = set()
    for text in limits:
        move(page, 1)
        answer = find(page, text, measure)
        number = float(text.replace(",", ".").strip(" %"))
        limit = number / 100 if measure == "gap" or number > 1 else number
        i, allowed = keep_limit(grid, errors, upper, sign * limit)
        bound = ats[i][measure]["bound"]
        assert shown(page, "#limit-answer", "bound") == [bound]
        if len(allowed):
            assert answer.startswith(f"Can be promised for new people at fairness {grid[i]:g}")
            assert page.evaluate("fairspan.current()") == i
            assert shown(page, "#limit-answer", "setting") == [grid[i]]
        else:
            assert answer.startswith("Not provable with these rows.")
            assert page.evaluate("fairspan.current()") == 1  # the slider does not move
            of = (lambda x: 1 - x) if measure == "ratio" else (lambda x: x)
            value, n = of(ats[i][measure]["value"]), place["promise"]["n"]
            needed = rows_needed(n, value, of(bound), of(limit))
            assert shown(page, "#limit-answer", "needed") == ([] if needed is None else [needed])
            assert ("more rows alone would not be enough" in answer) == (needed is None)
        seen.add((i, len(allowed) > 0))
    assert {met for _, met in seen} == {True, False}


def test_what_cannot_be_a_limit_is_refused(opened):
    page = opened("loans")
    for measure, wrong, said in (
        ("gap", "0.05", "5 for a gap of at most 5 points"),
        ("gap", "", "5 for a gap of at most 5 points"),
        ("gap", "120", "from 1 to 99"),
        ("ratio", "0", "0.8 for four fifths"),
        ("ratio", "four fifths", "0.8 for four fifths"),
    ):
        assert said in find(page, wrong, measure)
        assert page.get_attribute("#limit", "aria-invalid") == "true"
    assert "Can be promised" in find(page, "99", "gap")
    assert page.get_attribute("#limit", "aria-invalid") == "false"
    switch(page, "scores")
    assert "such as 0.05" in find(page, "5")


def test_the_box_says_what_the_promise_is_about(opened, examples):
    page = opened("loans")
    text, study = page.inner_text("#limit-about"), examples["loans"].study
    assert f"the {study['about']['n_train']} training rows" in text
    assert "decisions by group and sex" in text
    assert "one limit that was chosen beforehand" in text
    end = study["positions"][-1]["promise"]["gap"]["value"]
    assert f"a gap of {100 * end:.1f} points is expected among new people" in text
    switch(page, "scores")
    text = page.inner_text("#limit-about")
    end = study["other"]["positions"][-1]["promise"]["correlation"]["value"]
    assert f"a correlation of {end:.3f} is expected among new people" in text
    assert "scores by group and sex" in text


def test_the_box_says_whether_dependence_is_expected_at_the_end(opened, examples, tmp_path):
    study = copy.deepcopy(examples["numbers"].study)
    end = study["positions"][-1]["promise"]["correlation"]
    text = opened("numbers").inner_text("#limit-about")
    assert f"a correlation of {end['value']:.3f} is expected among new people: the least" in text
    end["value"] = 1e-9
    path = with_study(examples["numbers"], study, tmp_path / "end.html")
    text = opened("numbers", path=path).inner_text("#limit-about")
    assert "no correlation with sex and age is expected among new people" in text


def test_a_page_without_promises_has_no_box(opened, examples, tmp_path):
    study = examples["numbers"].study
    bare = study | {
        "promise": None,
        "positions": [at | {"promise": None} for at in study["positions"]],
    }
    page = opened("numbers", path=with_study(examples["numbers"], bare, tmp_path / "bare.html"))
    assert not page.is_visible("#setting")
    assert "Find the cheapest" not in page.inner_text("#contents")


def test_a_numeric_attribute_has_a_slope(opened, examples):
    page = opened("numbers", hash="#fairness=0.5")
    number = examples["numbers"].study["positions"][5]["selected"][1]
    sign = "+" if number["value"] > 0 else "\N{MINUS SIGN}"
    assert f"age higher by 10: mean prediction {sign}" in page.inner_text("#headline")
    tile = page.locator("#tiles > div", has_text="age higher by 10")
    assert tile.count() == 1
    assert shown(page, "#tiles", "slope") == [number["value"]]


def test_the_answer_and_the_page_to_sign_follow_the_slider(opened):
    page = opened("loans")
    find(page, "60", "gap")
    here = page.locator("#limit-answer [data-at]")
    assert here.is_visible()
    i = page.evaluate("fairspan.current()")
    move(page, i + 1 if i == 0 else i - 1)
    assert not here.is_visible()
    fairness = page.evaluate("fairspan.study.fairness[fairspan.current()]")
    setting = page.locator("#origin-setting")
    assert setting.text_content() == f"fairness {fairness:g}, equal decisions"
    switch(page, "scores")
    assert setting.text_content().endswith(", equal scores")
