"""Decision rules of streams: all rows, a sample, or histograms."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.estimators.test_decision_fit import PARAMS, people

from fairspan import FairGPClassifier, FairRidgeClassifier, load_model, save_model
from fairspan.estimators import rule_stream
from fairspan.estimators.decision_fit import predict_rows
from fairspan.estimators.rule_stream import RuleSample, stream_rules


def cut(X, y, s, *ends):
    edges = [0, *ends, len(y)]
    return [(X[a:b], y[a:b], s[a:b]) for a, b in pairwise(edges)]


@pytest.fixture(scope="module")
def rows():
    return people(4000, 0)


@pytest.fixture
def small(monkeypatch):
    """Only 1,000 rows may be kept, and 40 x 40 counts."""
    monkeypatch.setattr(rule_stream, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(rule_stream, "BINS", 40)


def same_decisions(one, other, X):
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=0.0, atol=1e-8
    )
    assert str(one.decision_rule_) == str(other.decision_rule_)


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
def test_few_rows_give_the_rules_of_rows_in_memory(kind):
    X, y, s = people(600, 0)
    fresh, _, _ = people(300, 1)
    whole, parts = (
        kind(**PARAMS).fit_stream(blocks) for blocks in ([(X, y, s)], lambda: cut(X, y, s, 200))
    )
    same_decisions(parts, whole, fresh)
    assert whole.at(max_gap=0.1).certificate_.decisions.met
    # The rows of the stream, given as rows in memory, have the same rules.
    data = whole._read(X, y, s, None, None, reset=False)
    state = whole._with_rows(whole._fit_state, data)
    np.testing.assert_array_equal(
        state.decisions.path.smallest.rule.code_coef,
        whole._fit_state.decisions.path.smallest.rule.code_coef,
    )
    scores = whole.at(equalize="scores")
    same_decisions(scores.at(equalize="decisions"), whole, fresh)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity"])
def test_histograms_count_the_rates_of_all_rows_within_the_printed_error(rows, criterion):
    X, y, s = rows
    params = {**PARAMS, "criterion": criterion, "pos_label": "yes"}
    model = FairRidgeClassifier(**params).fit_stream(cut(X, y, s, 1500))
    other = FairRidgeClassifier(**params).fit_stream(cut(X, y, s, 700, 2900))
    same_decisions(other, model, X[:100])
    fit = model._fit_state.decisions
    assert fit.n_rows == 4000
    assert len(fit.scores) == 1000
    # All rows, decided by functions that did not see them.
    every = predict_rows(model._fit_state, model._read(X, y, s, None, None, reset=False))
    p = rule_stream.probabilities(every.scores, fit.contrasts, fit.slope, fit.intercepts)[:, 1]
    codes = rule_stream.apply_by_fold(every.scores, every.folds, fit.fold_matrices)
    inside = y == "yes" if criterion == "equal_opportunity" else np.ones(4000, dtype=bool)
    for chosen in (model, model.at(0.5), model.at(max_gap=0.05), model.at(min_ratio=0.9)):
        decided = chosen._fit_state.rule.rule.margin(p, codes) > 0.0
        found = chosen.certificate_.decisions
        error = chosen._fit_state.rule.rate_error
        assert 0.0 < error < 0.06
        for rate in found.rates:
            members = inside & (s == rate.group)
            assert rate.n_rows == members.sum()
            assert abs(decided[members].mean() - rate.rate) <= error + 1e-9
        assert f"known to within {error:.4f}" in str(chosen.decision_rule_)
        assert found.gap_high > found.gap + 2.0 * error
    exact = FairRidgeClassifier(**params).fit(X, y, sensitive_features=s)
    gaps = [m.at(max_gap=0.05).certificate_.decisions.error for m in (model, exact)]
    assert abs(gaps[0] - gaps[1]) < 0.02


@pytest.mark.usefixtures("small")
def test_several_groups_are_sampled(rows):
    X, y, _ = rows
    s = np.random.default_rng(2).choice(["a", "b", "c"], 4000)
    X = X + 0.5 * (s == "b")[:, None]
    model, other = (
        FairRidgeClassifier(**PARAMS).fit_stream(cut(X, y, s, end)) for end in (1500, 3000)
    )
    same_decisions(model, other, X[:100])
    assert "a uniform sample of 1,000 of 4,000 rows" in str(model.decision_rule_)
    assert sum(rate.n_rows for rate in model.certificate_.decisions.rates) == 1000
    with pytest.raises(ValueError, match="decision rules need the training"):
        model.at(equalize="scores").at(equalize="decisions")


@pytest.mark.usefixtures("small")
def test_files_keep_the_error_of_the_rates(rows, tmp_path):
    pytest.importorskip("skops")
    model = FairRidgeClassifier(**PARAMS).fit_stream(cut(*rows, 1500))
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    assert loaded._fit_state.decisions.histogram is None
    assert str(loaded.certificate_) == str(model.certificate_)
    assert loaded.decision_rule_.source == model.decision_rule_.source


def test_a_sample_does_not_depend_on_blocks(rows):
    model = FairRidgeClassifier(**PARAMS).fit(*rows[:2], sensitive_features=rows[2])
    every = replace(model._fit_state.rule_rows, weight=np.arange(4000.0))  # positions
    samples = []
    for ends in ((4000,), (10, 2500, 4000)):
        sample, start = RuleSample(300, seed=3), 0
        for end in ends:
            index = np.arange(start, end)
            sample.add(index, rule_stream._take(every, index))
            start = end
        samples.append(sample.rows())
    for name in ("scores", "of_average", "folds", "weight"):
        np.testing.assert_array_equal(*(getattr(one, name) for one in samples))
    assert len(samples[0].folds) == 300
    # Every row is drawn with the same probability: no fold and no part of the data is preferred.
    assert np.bincount(samples[0].folds).min() > 35
    assert np.histogram(samples[0].weight, 4, (0, 4000))[0].min() > 50


def test_an_iterator_cannot_be_read_again(rows):
    with pytest.raises(ValueError, match="equalize='decisions' reads the rows again"):
        FairRidgeClassifier(**PARAMS).fit_stream(iter([rows]))


def test_a_stream_without_removal_on_new_rows_has_no_rules(rows):
    X, y, s = rows
    model = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features=s)
    state = model._fit_state
    without = type(state)(**{**vars(state), "classes": None})
    data = model._read(X[:50], y[:50], s[:50], None, None, reset=False)
    assert stream_rules(without, lambda: [data]) is None
