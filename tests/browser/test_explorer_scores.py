"""Which score the page draws, over which axis, and what it tells of a group of a few people."""

import numpy as np
import pytest

import fairspan
from tests.browser.reports import SMALL, loans, read_study, small_group
from tests.browser.test_explorer import move

CARDS = ("#view-scores", "#view-rates", "#view-confusion", "#view-changed")


@pytest.fixture(scope="module")
def margins(tmp_path_factory):
    """Scores that are no probabilities, a continuous attribute, and a group of a few held-out rows."""
    path = tmp_path_factory.mktemp("margins") / "margins.html"
    return small_group(path, model=fairspan.FairRidgeClassifier())


@pytest.mark.parametrize("i", [0, 5, 10])
def test_scores_that_are_no_probabilities_lie_on_their_axis(opened, margins, i):
    page = opened("loans", path=margins.path)
    move(page, i)
    drawn = [s["edges"] for p in margins.study["positions"] for s in p["scores"].values()]
    assert min(map(min, drawn)) < -0.05  # there is something to cut off
    low, high = page.evaluate("document.querySelector('#view-scores .plot').layout.xaxis.range")
    assert low <= min(edges[0] for edges in drawn)
    assert high >= max(edges[-1] for edges in drawn)
    assert page.is_hidden("#view-calibration")  # such a score promises no share
    assert "raw score" not in page.inner_text("main")
    page.select_option("#attribute", value="age")
    move(page, i)
    said = np.concatenate([p["continuous"]["age"]["scores"] for p in margins.study["positions"]])
    low, high = page.evaluate("document.querySelector('#view-continuous .plot').layout.yaxis.range")
    assert low <= said.min()
    assert high >= said.max()


def test_probabilities_are_told_from_the_score_that_the_slider_works_on(opened, tmp_path):
    page = opened("loans", path=loans(tmp_path / "scores.html", equalize="scores").path)
    move(page, 10)
    for card in ("#view-scores", "#view-certificate"):
        text = page.inner_text(card)
        assert "raw score" in text
        assert "averages of the probabilities" in text.lower()
        assert "can still differ" in text
    assert "averages of the probabilities can still differ" in page.inner_text("#facts")
    low, high = page.evaluate("document.querySelector('#view-scores .plot').layout.xaxis.range")
    assert (low, high) == pytest.approx((-0.01, 1.01))


def test_of_a_few_people_the_page_tells_only_their_number(opened, margins):
    page = opened("loans", path=margins.path)
    move(page, 10)
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    n = next(g["n"] for g in margins.study["attributes"][0]["groups"] if g["label"] == SMALL)
    assert 0 < n < 5
    for card in CARDS:
        rows = page.locator(f"{card} tbody tr").filter(has_text=SMALL)
        told = rows.first.evaluate(
            "r => [...r.querySelectorAll('[data-value]')].map(c => c.dataset.value)"
        )
        assert [v for v in told if v not in ("", str(n))] == []
        assert f"too few rows ({n})" in rows.first.inner_text()
    text = page.inner_text("main").replace(page.inner_text("#view-snippet"), "")
    assert not any(word in text for word in ("NaN", "undefined", "[object", "Infinity", "null"))
    assert "only the number of rows is shown: group: few" in text
    assert "score of every single row of a scatter plot" in text


def test_the_largest_is_said_to_be_chosen(opened):
    page = opened("loans")
    assert "largest" not in page.inner_text("#tiles")  # every attribute has a number of its own
    assert "largest of several, so it tends to look bigger" in page.inner_text("#terms")


def test_rows_of_weight_zero_are_counted_in_the_header(opened, tmp_path):
    example = small_group(tmp_path / "zero.html", sample_weight="weight")
    page = opened("loans", path=example.path)
    about = read_study(example.path)["about"]
    assert about["n_weightless"] > 0
    assert about["n_train"] + about["n_test"] + about["n_weightless"] == about["n_rows"]
    assert f"{about['n_weightless']} of weight zero" in page.inner_text("#facts")
