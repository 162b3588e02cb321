"""Paired comparisons: hand-made tables, other libraries, and coverage where groups tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fairspan import metrics
from fairspan.auditing.paired import (
    ModelRows,
    PairedRows,
    Ranking,
    comparable_groups,
    error_change,
    gap_change,
    gap_interval,
    largest_interval,
)
from fairspan.auditing.reading import Audited, Protected


def rows(s: np.ndarray, y: np.ndarray, **more) -> Audited:
    """Rows of one protected attribute and a target of two classes."""
    labels = tuple(f"g{h}" for h in range(int(s.max()) + 1))
    given = {
        "name": "x",
        "weight": np.ones(len(s)),
        "attributes": (Protected("s", "categorical", s, labels),),
        "crossed": None,
        "strata": None,
        "target": Protected("y", "categorical", y, ("0", "1")),
        "classes": np.array([0, 1]),
        "positive": (1,),
        "scores": None,
        "decided": None,
        "probability": None,
        "features": None,
        "representation": None,
    }
    return Audited(**given | more)


def drawn(n: int, groups: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    s, y = rng.integers(0, groups, n), rng.integers(0, 2, n)
    return s, y, (rng.random(n) < 0.3 + 0.1 * s).astype(int), rng.normal(size=n) + 0.3 * s + y


def paired(data: Audited, criterion: str = "statistical_parity") -> PairedRows:
    compared = comparable_groups(data, criterion, 1)
    return PairedRows(data=data, criterion=criterion, compared=compared)


CRITERIA = {
    "statistical_parity": metrics.demographic_parity_difference,
    "equalized_odds": metrics.equalized_odds_difference,
    "equal_opportunity": metrics.equal_opportunity_difference,
}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("weighted", [False, True])
def test_gaps_of_decisions_are_those_of_the_metrics(criterion, weighted):
    s, y, decided, _ = drawn(400)
    w = np.random.default_rng(1).integers(1, 4, 400).astype(float) if weighted else np.ones(400)
    (found,) = paired(rows(s, y, weight=w), criterion).measure([ModelRows(decided=decided)])
    gap = CRITERIA[criterion](y, decided, sensitive_features=s, sample_weight=w)
    assert found.gap() == pytest.approx(gap)
    assert found.error[0] == pytest.approx(w @ (decided != y) / w.sum())
    assert found.selected[0] == pytest.approx(w @ decided / w.sum())


@pytest.mark.parametrize("criterion", ["statistical_parity", "equalized_odds"])
@pytest.mark.parametrize("numbers", [False, True])
def test_correlations_of_scores_are_those_of_the_metrics(criterion, numbers):
    s, y, _, score = drawn(400)
    data, kind = rows(s, y), "categorical"
    if numbers:
        attribute = replace(data.attributes[0], kind="continuous", values=s.astype(float))
        data, kind = replace(data, attributes=(attribute,)), "continuous"
    (found,) = paired(data, criterion).measure([ModelRows(scores=score)])
    options = {"sensitive_features": s, "sensitive_kind": kind}
    expected = metrics.statistical_parity_correlation(score, **options)
    if criterion == "equalized_odds":
        expected = metrics.equalized_odds_correlation(y, score, **options)
    assert found.gap() == pytest.approx(expected)
    assert found.error[0] == pytest.approx(1.0 - roc_auc_score(y, score))


def test_the_ranking_counts_ties_half_and_takes_weights():
    rng = np.random.default_rng(0)
    score, y, w = rng.integers(0, 5, 200), rng.integers(0, 2, 200), rng.random(200)
    found = Ranking(score, y == 1).auc(np.stack([np.ones(200), w], axis=1))
    assert found == pytest.approx(
        [roc_auc_score(y, score), roc_auc_score(y, score, sample_weight=w)]
    )


def test_numbers_are_compared_by_their_root_mean_squared_error():
    s, _, _, score = drawn(200)
    values = score + 1.0
    target = Protected("y", "continuous", np.zeros(200, dtype=np.intp), ("",), values)
    data = rows(s, s, target=target, classes=None, positive=())
    (found,) = paired(data).measure([ModelRows(scores=score)])
    assert found.error[0] == pytest.approx(1.0)


def test_a_model_does_not_differ_from_itself():
    s, y, decided, _ = drawn(300)
    model = ModelRows(decided=decided)
    a, b = paired(rows(s, y)).measure([model, model], 50, np.random.default_rng(0))
    assert error_change(a, b, 0.95) == error_change(b, a, 0.95)
    change = error_change(a, b, 0.95)
    assert (change.value, change.low, change.high) == (0.0, 0.0, 0.0)
    gap = gap_change(a, b, None, 0.95)
    assert gap.value == 0.0
    assert gap.low <= 0.0 <= gap.high


def test_exchanged_models_exchange_the_limits():
    s, y, decided, _ = drawn(300)
    other = np.random.default_rng(5).integers(0, 2, 300)
    models = [ModelRows(decided=decided), ModelRows(decided=other)]
    a, b = paired(rows(s, y)).measure(models, 60, np.random.default_rng(0))
    one, two = gap_change(a, b, None, 0.95), gap_change(b, a, None, 0.95)
    assert (one.value, one.low, one.high) == pytest.approx((-two.value, -two.high, -two.low))


def test_groups_of_too_few_rows_are_left_out():
    s = np.repeat([0, 1, 2], [50, 50, 5])
    y = np.tile([0, 1], 53)[:105]
    (mask,) = comparable_groups(rows(s, y), "statistical_parity", 30).values()
    assert mask.tolist() == [True, True, False]
    assert comparable_groups(rows(s, y), "equalized_odds", 30) == {}


def test_a_rate_that_never_varies_still_has_limits():
    s, y = np.repeat([0, 1], 40), np.tile([0, 1], 40)
    none, some = np.zeros(80, dtype=int), (np.arange(80) % 2).astype(int)
    models = [ModelRows(decided=none), ModelRows(decided=some)]
    a, b = paired(rows(s, y)).measure(models, 50, np.random.default_rng(0))
    assert gap_interval(a, None, 0.95).high > 0.05
    assert gap_change(a, b, None, 0.95).high > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates_a", "rates_b"),
    [
        ((0.3, 0.5), (0.4, 0.42)),
        ((0.4, 0.4), (0.4, 0.4)),
        ((0.3, 0.5, 0.45, 0.5), (0.4, 0.42, 0.41, 0.4)),
    ],
)
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_changes_of_gaps_are_covered_where_contrasts_tie(rates_a, rates_b, shared):
    rates_a, rates_b = np.array(rates_a), np.array(rates_b)
    truth, n, hits, draws = np.ptp(rates_b) - np.ptp(rates_a), 250 * len(rates_a), 0, 200
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        s, u = rng.integers(0, len(rates_a), n), rng.random(n)
        v = np.where(rng.random(n) < shared, u, rng.random(n))
        models = [
            ModelRows(decided=(x < rate[s]).astype(int)) for x, rate in ((u, rates_a), (v, rates_b))
        ]
        a, b = paired(rows(s, rng.integers(0, 2, n))).measure(models, 200, rng)
        found = gap_change(a, b, None, 0.95)
        hits += found.low <= truth <= found.high
    assert hits / draws >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / draws)


def test_the_largest_of_clear_numbers_has_its_usual_interval():
    rng = np.random.default_rng(0)
    draws = rng.normal([[1.0], [0.0]], 0.1, size=(2, 4000))
    parts = np.concatenate([np.array([[1.0], [0.0]]), draws], axis=1)
    found = largest_interval(parts, 0.95)
    assert found.value == 1.0
    assert (found.low, found.high) == pytest.approx((1 - 0.196, 1 + 0.196), abs=0.01)
