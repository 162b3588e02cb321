"""Differences between models on shared resamples: laws, and coverage where the truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.auditing.contrasts import (
    Contrasts,
    correlation_contrasts,
    difference_of_errors,
    difference_of_gaps,
    error_values,
    gap_contrasts,
    resampled_sums,
)
from fairspan.auditing.parts import Case, Settings, resample_source, sums
from fairspan.auditing.reading import read_audit

NAN = float("nan")


def contrasts(values, beyond=0.0, fewest=NAN):
    return Contrasts(values=values, beyond=beyond, fewest=fewest)


def ordered_pairs(rates):
    first, second = np.nonzero(~np.eye(len(rates), dtype=bool))
    return rates[first] - rates[second]


def audited(decisions, S, y=None, scores=None, **options):
    given = {"sensitive_features": S, "control_features": None, "sample_weight": None}
    given |= {"pos_label": None, "sensitive_kind": "auto"} | options
    y = decisions if y is None else y
    if scores is None:
        return read_audit(decisions.astype(str), None, y.astype(str), **given)
    return read_audit(scores, None, y, decisions=decisions, **given)


@pytest.mark.parametrize("n_groups", [2, 4])
def test_the_gap_is_the_largest_contrast_and_equals_the_audit(n_groups):
    rng = np.random.default_rng(0)
    S, scores = rng.integers(0, n_groups, 900).astype(str), rng.normal(size=900)
    scores += (S == "1") * 0.5
    y, decisions = (scores + rng.normal(size=900) > 0).astype(int), (scores > 0.2).astype(int)
    data = audited(decisions, S, y, scores, pos_label=1)
    (attribute,) = data.attributes
    case = Case(data=data, settings=Settings(n_boot=30, parts=("scores", "decisions")))
    sums(case, resample_source(data.weight, 0))
    found = {f.metric: f.value for f in case.findings if f.attribute and not f.group}
    part = resampled_sums(data, attribute, 30, 1)
    for gap in ("demographic_parity_difference", "equalized_odds_difference",
                "equal_opportunity_difference"):  # fmt: skip
        ours = gap_contrasts(data, attribute, part, gap, level=0.95, min_rows=30)
        assert ours.values[:, 0].max() == pytest.approx(found[gap], abs=1e-12)
    for metric in ("statistical_parity_correlation", "equalized_odds_correlation",
                   "equal_opportunity_correlation"):  # fmt: skip
        ours = correlation_contrasts(data, attribute, part, metric, min_rows=30)
        assert ours.values[:, 0].max() == pytest.approx(found[metric], abs=1e-12)
    error, n = error_values(data, part)
    assert error[0] == pytest.approx(np.mean(decisions != y))
    assert n == 900
    assert error.shape == (31,)


def test_groups_that_are_too_small_are_not_compared():
    S = np.repeat(["a", "b"], [200, 5])
    data = audited(np.arange(205) % 2, S)
    (attribute,) = data.attributes
    part = resampled_sums(data, attribute, 20, 0)
    gap = "demographic_parity_difference"
    assert gap_contrasts(data, attribute, part, gap, level=0.95, min_rows=30) is None


def test_models_share_their_resamples():
    rng = np.random.default_rng(1)
    S, decisions = rng.choice(["a", "b"], 300), rng.integers(0, 2, 300)
    one, other = (audited(d, S) for d in (decisions, 1 - decisions))
    parts = [resampled_sums(data, data.attributes[0], 25, 7) for data in (one, other)]
    rates = [error_values(d, p)[0] for d, p in zip((one, other), parts, strict=True)]
    assert np.array_equal(rates[0], rates[1])  # both are always right
    weights = [p.over(one.attributes[0].name).columns[""] for p in parts]
    assert np.array_equal(*weights)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 4))
def test_laws_of_a_difference(seed, k):
    rng = np.random.default_rng(seed)
    centre_a, centre_b = rng.random((2, k, 1)) * 0.5
    noise = 0.05 * rng.normal(size=(2, k, 100))
    a, b = (
        contrasts(ordered_pairs(np.concatenate([c, c + e], axis=1)))
        for c, e in zip((centre_a, centre_b), noise, strict=True)
    )
    found, reverse = difference_of_gaps(a, b, 0.9), difference_of_gaps(b, a, 0.9)
    assert found.value == pytest.approx(np.ptp(centre_a) - np.ptp(centre_b))
    assert found.low <= found.value <= found.high
    wider = difference_of_gaps(a, b, 0.99)
    assert wider.low <= found.low + 1e-12
    assert wider.high >= found.high - 1e-12
    # Reversed, the interval is the same one with the other sign.
    assert reverse.value == pytest.approx(-found.value)
    assert (reverse.low, reverse.high) == pytest.approx((-found.high, -found.low))
    same = difference_of_gaps(a, a, 0.9)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_pairing_makes_the_interval_narrow():
    """The noise that both models share is no doubt about their difference."""
    rng = np.random.default_rng(3)
    shared, own = rng.normal(size=(2, 300)) * 0.05, rng.normal(size=(2, 300)) * 0.002
    rates = np.array([[0.6], [0.2]])
    a = contrasts(ordered_pairs(np.concatenate([rates, rates + shared], axis=1)))
    rates_b = np.array([[0.5], [0.2]])
    b = contrasts(ordered_pairs(np.concatenate([rates_b, rates_b + shared + own], axis=1)))
    found = difference_of_gaps(a, b, 0.95)
    assert found.value == pytest.approx(0.1)
    assert found.high - found.low < 0.02
    alone = b.values.copy()
    alone[:, 1:] = np.roll(alone[:, 1:], 1, axis=1)  # other resamples: no longer paired
    loose = difference_of_gaps(a, contrasts(alone), 0.95)
    assert loose.high - loose.low > 0.2


def test_models_that_agree_on_all_rows_may_differ_on_others():
    rates = np.array([[0.5] * 50, [0.4] * 50])
    same = contrasts(ordered_pairs(rates), fewest=100.0)
    found = difference_of_gaps(same, same, 0.95)
    assert found.value == 0.0
    assert found.high == -found.low > 0.03
    error = difference_of_errors(np.full(50, 0.2), np.full(50, 0.2), 0.95, 0.03)
    assert (error.low, error.high) == (-0.03, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one fair", "both fair", "three groups", "alike"])
def test_intervals_cover_the_true_difference(case):
    """400 draws of 800 people, two models whose decisions are correlated."""
    rng = np.random.default_rng(5)
    rates_a, rates_b = {
        "one fair": ([0.6, 0.4], [0.5, 0.5]),
        "both fair": ([0.5, 0.5], [0.5, 0.5]),
        "three groups": ([0.6, 0.5, 0.45], [0.55, 0.5, 0.5]),
        "alike": ([0.6, 0.5], [0.58, 0.5]),
    }[case]
    truth = np.ptp(rates_a) - np.ptp(rates_b)
    hits, n_draws = 0, 400
    for draw in range(n_draws):
        s = rng.integers(0, len(rates_a), 800)
        u = rng.random(800)
        v = np.where(rng.random(800) < 0.7, u, rng.random(800))
        models = [audited((x < np.array(r)[s]).astype(int), s.astype(str))
                  for x, r in ((u, rates_a), (v, rates_b))]  # fmt: skip
        a, b = (
            gap_contrasts(
                data,
                data.attributes[0],
                resampled_sums(data, data.attributes[0], 200, draw),
                "demographic_parity_difference",
                level=0.95,
                min_rows=30,
            )
            for data in models
        )
        found = difference_of_gaps(a, b, 0.95)
        hits += found.low <= truth <= found.high
    assert hits / n_draws >= 0.93
