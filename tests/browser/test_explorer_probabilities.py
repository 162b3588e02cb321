"""A protected attribute known as probabilities: its numbers, and a sentence where views need each group."""

import warnings

import numpy as np
import pytest

from tests.browser.reports import Example, _people, read_study
from tests.browser.test_explorer import move, settle, shown


@pytest.fixture(scope="module")
def likely(tmp_path_factory):
    from fairspan.exceptions import FairspanWarning
    from fairspan.report import explore

    rng = np.random.default_rng(4)
    table, income, lift = _people(rng, 800)
    table["repaid"] = np.where(income + lift + rng.normal(size=800) > 0.5, "yes", "no")
    p = np.clip(0.15 + 0.7 * (lift > 0) + rng.uniform(-0.14, 0.14, 800), 0.0, 1.0)
    table["race_north"], table["race_other"] = p, 1.0 - p
    path = tmp_path_factory.mktemp("likely") / "likely.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        explore(
            table,
            target="repaid",
            sensitive_features=["race_north", "race_other", "sex"],
            sensitive_kind={"race": "probabilities"},
            features=["income", "debt"],
            pos_label="yes",
            n_points=3,
            n_boot=40,
            audit_parts=["scores"],
            name="people.csv",
        ).to_html(path)
    return Example(path, read_study(path))


@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_and_sentences_of_probabilities(opened, likely, width):
    page = opened("loans", path=likely.path, width=width)
    (race,) = [a for a in likely.study["attributes"] if a["kind"] == "probabilities"]
    assert page.is_hidden("#switch")  # rules need the group of each row
    # The attribute's own card states what its numbers are worth and rest on.
    card = page.locator("article", has=page.locator("h3", has_text="By race"))
    assert race["words"] in card.inner_text()
    assert "People, expected" in card.inner_text()
    assert "Gained" not in card.inner_text()
    other = page.locator("article", has=page.locator("h3", has_text="By sex"))
    assert "Gained" in other.inner_text()
    for i, at in enumerate(likely.study["positions"]):
        move(page, i)
        wanted = [number["value"] for number in at["selected"]]
        assert shown(page, "#headline", "correlation") == wanted
        rates = [row["selection_rate"]["value"] for row in at["rates"]["race"]]
        cells = card.locator("td[data-value]").evaluate_all(
            "all => all.map(td => Number(td.dataset.value))"
        )
        assert [x for x in cells if x < 1.0] == rates
    # Views that need the group of each row give way to a sentence.
    views = ("scores", "calibration", "confusion")
    page.select_option("#attribute", "race")
    settle(page)
    assert "need the group of each person" in page.inner_text("#likely")
    assert all(page.is_hidden(f"#view-{view}") for view in views)
    assert page.is_visible("#view-rates")
    assert page.is_hidden("#crossed")
    page.select_option("#attribute", "sex")
    settle(page)
    assert page.is_hidden("#likely")
    assert all(page.is_visible(f"#view-{view}") for view in views)
    assert "whose groups are known as probabilities" in page.inner_text("#view-changed")
