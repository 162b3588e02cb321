"""What the page says, against the model that the code on the page trains: no number is taken from it."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from fairspan.exceptions import FairspanWarning
from tests.browser.test_explorer import move, shown, table_numbers

PLACES = ((0, 0.0), (5, 0.5), (10, 1.0))
# The page has six digits.
NEAR = {"rel": 2e-5, "abs": 2e-6}


def near(values):
    return pytest.approx([float(v) for v in values], **NEAR)


def trained(page, folder, monkeypatch):
    """Run the code that the page shows: its model, the held-out rows, and its predictions for them."""
    monkeypatch.chdir(folder)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)  # the page shows them
        exec(page.inner_text("#view-snippet pre"), names)
    return names["model"], names["table"][names["held_out"]], np.asarray(names["predictions"])


def rows_of(page, card):
    """First cells and numbers of a card's table."""
    return page.locator(f"{card} tbody tr").evaluate_all(
        "rows => rows.map(r => [r.querySelector('th').textContent,"
        " [...r.querySelectorAll('[data-value]')].map(c => Number(c.dataset.value))])"
    )


def largest_ks(score, groups, least=30):
    parts = [score[groups == g] for g in np.unique(groups)]
    return max(
        ks_2samp(a, b).statistic for a, b in combinations([p for p in parts if len(p) >= least], 2)
    )


@pytest.mark.parametrize(("i", "fairness"), PLACES)
def test_classification(opened, examples, monkeypatch, i, fairness):
    page = opened("loans")
    move(page, i)
    model, held, predictions = trained(page, examples["loans"].path.parent, monkeypatch)
    assert float(page.get_attribute("#place", "data-value")) == fairness
    truth = held["repaid"].to_numpy()
    yes, right = predictions == "yes", truth == "yes"
    first = model.at(0.0).predict(held)
    error, before = np.mean(predictions != truth), np.mean(first != truth)
    assert shown(page, "#headline", "error") == near([error])
    assert shown(page, "#tiles", "error") == near([error])
    assert shown(page, "#tiles", "error_extra") == near([error - before])
    assert shown(page, "#tiles", "changed") == [np.sum(predictions != first)]
    selected = {}
    score = model.predict_proba(held)[:, list(model.classes_).index("yes")]
    for attribute in ("group", "sex"):
        page.select_option("#attribute", value=attribute)
        move(page, i)
        groups = held[attribute].to_numpy()
        labels = sorted(set(groups))
        rates = rows_of(page, "#view-rates")
        confusion = rows_of(page, "#view-confusion")
        means = rows_of(page, "#view-scores")
        assert [name for name, _ in rates] == [name for name, _ in confusion] == labels
        assert shown(page, "#view-scores", "ks") == near([largest_ks(score, groups)])
        selected[attribute] = []
        for g, found, counts, mean in zip(labels, rates, confusion, means, strict=True):
            mine = groups == g
            a, b = yes[mine], right[mine]
            selected[attribute].append(a.mean())
            expected = [
                mine.sum(),
                a.mean(),
                a[b].mean(),
                a[~b].mean(),
                b[a].mean(),
                np.mean(a == b),
            ]
            assert found[1] == near(expected)
            assert counts[1] == [
                mine.sum(),
                np.sum(a & b),
                np.sum(a & ~b),
                np.sum(~a & ~b),
                np.sum(~a & b),
            ]
            assert mean[1][:1] == near([score[mine].mean()])
    gaps = [max(rates) - min(rates) for rates in selected.values()]
    assert shown(page, "#headline", "gap") == near(gaps)


@pytest.mark.parametrize(("i", "fairness"), PLACES)
def test_regression_with_a_continuous_attribute(opened, examples, monkeypatch, i, fairness):
    page = opened("numbers")
    move(page, i)
    model, held, predictions = trained(page, examples["numbers"].path.parent, monkeypatch)
    truth = held["pay"].to_numpy()

    def rmse(said):
        return np.sqrt(np.mean((said - truth) ** 2))

    first = model.at(0.0).predict(held)
    assert shown(page, "#headline", "error") == near([rmse(predictions)])
    assert shown(page, "#tiles", "error_extra") == near([rmse(predictions) - rmse(first)])
    per_decade = 10 * np.polyfit(held["age"], predictions, 1)[0]
    assert shown(page, "#headline", "slope") == near([per_decade])
    means = [predictions[held["sex"] == sex].mean() for sex in ("f", "m")]
    assert shown(page, "#headline", "gap") == near([abs(means[0] - means[1])])
    rates = rows_of(page, "#view-rates")
    for (_, found), g in zip(rates, ("f", "m"), strict=True):
        mine = held["sex"].to_numpy() == g
        off = (predictions - truth)[mine]
        expected = [mine.sum(), predictions[mine].mean(), off.mean(), np.sqrt(np.mean(off**2))]
        assert found == near(expected)
    assert shown(page, "#view-scores", "ks") == near(
        [largest_ks(predictions, held["sex"].to_numpy())]
    )
    page.select_option("#attribute", value="age")
    move(page, i)
    correlation = abs(np.corrcoef(predictions, held["age"])[0, 1])
    assert shown(page, "#view-tradeoff .say", "parity")[1] == pytest.approx(correlation, **NEAR)
    assert shown(page, "#view-continuous .say", "parity") == near([correlation])
    slices = table_numbers(page, "#view-continuous")
    assert sum(n for *_, n in slices) == len(held)
    at, means, weights = np.array(slices).T
    assert np.average(means, weights=weights) == pytest.approx(predictions.mean(), **NEAR)
    assert np.average(at, weights=weights) == pytest.approx(held["age"].mean(), **NEAR)


def test_the_slider_moves_every_view(opened):
    """Each card but the audit and the notes is another at the other end."""
    page = opened("loans")
    cards = "section:not([hidden]) .card:not([hidden])"
    read = f"""() => Object.fromEntries([...document.querySelectorAll('{cards}')].map(card => [
        card.id, card.textContent + (card.querySelector('.plot')?.getAttribute('aria-label') ?? '')
          + JSON.stringify(card.querySelector('.plot')?.data?.map(t => [t.x, t.y]) ?? '')]))"""
    seen = []
    for i, _ in PLACES:
        move(page, i)
        seen.append(page.evaluate(read))
    still = {"view-audit", "view-notes", "view-columns", "view-setting", "view-reading"}
    assert {card for card in seen[0] if seen[0][card] == seen[2][card]} == still
    # The order of importance changes in the middle.
    between = {card for card in seen[0] if seen[0][card] == seen[1][card]}
    assert still <= between <= {*still, "view-importance"}
    charts = {"verdict-0", "verdict-1", "view-tradeoff", "view-price", "view-changed", "view-scores",
              "view-rates", "view-calibration", "view-confusion", "view-parity", "view-certificate",
              "view-snippet", "view-importance", "view-origin"}  # fmt: skip
    assert charts | still == set(seen[0])


def test_importance_is_that_of_both_ends(opened, examples, monkeypatch):
    """The sign and the size of the strongest column, by shuffles of our own."""
    page = opened("loans")
    model, held, _ = trained(page, examples["loans"].path.parent, monkeypatch)
    truth = held["repaid"].to_numpy()
    rows = dict(rows_of(page, "#view-importance"))
    assert set(rows) == {"income", "debt", "job", "age"}
    rng = np.random.default_rng(0)
    for end, place in ((0, 0.0), (1, 1.0)):
        at = model.at(place)
        before = np.mean(at.predict(held) != truth)
        extra = []
        for _ in range(20):
            mixed = held.assign(income=rng.permutation(held["income"].to_numpy()))
            extra.append(np.mean(at.predict(mixed) != truth) - before)
        spread = np.std(extra) * np.sqrt(1 / 5 + 1 / 20)
        assert abs(rows["income"][end] - np.mean(extra)) < 5 * spread + 1e-3


def test_both_kinds_of_wrong_decisions_are_counted(opened, examples, monkeypatch):
    """People who got the favourable class wrongly, and people who wrongly did not."""
    page = opened("loans")
    for i, _ in PLACES:
        move(page, i)
        _, held, predictions = trained(page, examples["loans"].path.parent, monkeypatch)
        truth = held["repaid"].to_numpy()
        wrong = [np.sum((predictions == k) & (truth != k)) for k in ("yes", "no")]
        assert shown(page, "#tiles", "wrong") == wrong
