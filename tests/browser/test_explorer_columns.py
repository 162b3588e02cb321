"""Columns on the page: their importance at both ends, and what a dictionary says about them."""

import copy

import pytest

from tests.browser.reports import with_study
from tests.browser.test_explorer import move, settle

WORDS = {
    "group": ("Region", "Where the person lives."),
    "income": ("Income per year", "Before tax."),
    "repaid": ("", "Whether the loan was repaid."),
    "sex": ("", ""),
}


@pytest.fixture
def described(examples, tmp_path):
    """The page of loans with a dictionary, and twelve columns of known importance."""
    from fairspan.report.labels import relabel
    from fairspan.tables.dictionary import ColumnWords

    study = copy.deepcopy(examples["loans"].study)
    (income,) = (f for f in study["importance"]["features"] if f["name"] == "income")
    near = lambda x: {"value": x, "low": x - 0.001, "high": x + 0.001}  # noqa: E731
    study["importance"]["features"] = [
        income | {"at_0": near(0.1), "at_1": near(0.05)},
        *({"name": f"x{k}", "at_0": near(0.02 * k), "at_1": near(-0.03 * k)} for k in (3, 2, 1)),
        *({"name": f"tiny{k}", "at_0": near(0.001 * k), "at_1": near(0.0)} for k in range(8)),
    ]
    words = {n: ColumnWords(label=a, description=b) for n, (a, b) in WORDS.items()}
    return with_study(examples["loans"], relabel(study, words), tmp_path / "described.html")


def names(page, where):
    return page.locator(f"#view-importance details tbody {where} th[scope=row]").all_inner_texts()


def drawn(page):
    return page.locator("#view-importance .yaxislayer-above text, #view-importance .ytick text")


def test_columns_are_in_the_order_of_their_effect_at_the_nearer_end(opened, described):
    page = opened("loans", path=described)
    page.locator("#view-importance summary").click()
    move(page, 2)
    assert names(page, "tr")[:4] == ["Income per year", "x3", "x2", "x1"]
    say = page.inner_text("#view-importance .say").replace("\u2212", "-")
    assert say.startswith("At fairness 0 the model relies most on Income per year: 10.0 points")
    assert "Most changed: x3, from 6.0 points to -9.0 points" in say
    move(page, 8)
    assert names(page, "tr")[:4] == ["x3", "x2", "Income per year", "x1"]
    say = page.inner_text("#view-importance .say").replace("\u2212", "-")
    assert say.startswith("At fairness 1 the model relies most on x3: -9.0 points")


def test_small_effects_are_folded_and_the_keyboard_unfolds_them(opened, described):
    page = opened("loans", path=described)
    page.locator("#view-importance summary").click()
    assert page.locator("#view-importance .part").all_inner_texts() == [
        "Largest effects",
        "Smaller effects",
    ]
    assert drawn(page).count() == 5
    button = page.locator("#view-importance .fold")
    assert button.inner_text() == "Show 7 more columns: each moves the error rate less"
    assert button.get_attribute("aria-expanded") == "false"
    button.focus()
    page.keyboard.press("Enter")
    settle(page)
    assert drawn(page).count() == 12
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    settle(page)
    assert drawn(page).count() == 5


def test_a_description_is_shown_where_a_column_is_named(opened, described):
    page = opened("loans", path=described)
    where = ["#facts", "h1", "#tiles", "#view-tradeoff", "#view-changed", "#view-parity",
             "#view-importance", "#view-confusion", "#view-audit"]  # fmt: skip
    for place in where:
        assert page.locator(f"{place} .column").count() > 0, place
    linked = set(page.locator("[data-hint]").all_text_contents())
    assert linked == {"Region", "Region x sex", "Income per year", "repaid"}  # sex has none
    assert page.inner_text("#attribute-note") == "Where the person lives."
    page.select_option("#attribute", value="Region x sex")
    settle(page)
    assert page.inner_text("#attribute-note") == "Region: Where the person lives."
    row = page.locator("#view-columns tr", has=page.locator("th", has_text="Income per year"))
    assert row.locator("th").inner_text() == "Income per year (income)"
    assert row.locator("td").first.inner_text() == "Before tax."


def test_the_hint_is_there_for_pointer_and_keyboard(opened, described):
    page = opened("loans", path=described)
    link = page.locator("#facts a.column").first
    hint = page.locator("#hint")
    assert not hint.is_visible()
    link.hover()
    assert hint.inner_text() == "Where the person lives."
    page.mouse.move(0, 0)
    assert not hint.is_visible()
    page.evaluate("document.querySelector('.skip').focus()")
    page.keyboard.press("Tab")  # the target, in the title
    assert hint.inner_text() == "Whether the loan was repaid."
    page.keyboard.press("Tab")
    assert hint.inner_text() == "Where the person lives."
    assert link.get_attribute("aria-describedby") == "hint"
    box, room = hint.bounding_box(), page.viewport_size
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= room["width"]
    page.keyboard.press("Escape")
    assert not hint.is_visible()
    page.keyboard.press("Enter")
    settle(page)
    target = page.evaluate("document.querySelector(location.hash).textContent")
    assert target == "Region (group)"


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_on_a_page_with_a_dictionary(opened, axe, described, width):
    page = opened("loans", path=described, width=width, reduced_motion="reduce")
    page.evaluate(axe)
    page.locator("#view-tradeoff a.column").first.focus()
    assert page.locator("#hint").is_visible()
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    settle(page)
    found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] })"
        ".then(r => r.violations.map(v => [v.id, v.nodes.slice(0, 5).map(n => n.html)]))"
    )
    assert found == []


def test_a_page_without_a_dictionary_has_no_hints(opened):
    page = opened("loans")
    assert page.locator("[data-hint]").count() == 0
    assert page.inner_text("#attribute-note") == ""
