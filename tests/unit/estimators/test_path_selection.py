"""Choices on a path: metrics of the user, missing numbers, intervals."""

import warnings

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRidge,
    FairRidgeClassifier,
    fairness_path,
)
from fairspan.estimators.path_bounds import promised, wilson
from fairspan.estimators.path_selection import choose


def test_a_metric_of_ones_own_gets_s_by_name_or_by_place():
    X, y, s = rows()
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)

    def gap(y_true, y_pred, groups):
        return abs(y_pred[groups == 1].mean() - y_pred[groups == 0].mean())

    def named(y_true, y_pred, *, sensitive_features):
        return gap(y_true, y_pred, sensitive_features)

    by_place, by_name = path.curve(gap), path.curve(named)
    np.testing.assert_array_equal(by_name, by_place)
    for k, fairness in enumerate(path.fairness):
        assert by_name[k] == pytest.approx(gap(y, model.at(fairness).predict(X), s))


def test_a_choice_needs_a_number_everywhere():
    value = np.array([0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match="ks is not defined on these rows"):
        choose("ks", value, np.ones(3), "metric", 0.2)
    assert choose("ks", np.array([0.1, 0.2, 0.3]), np.array([3.0, 2.0, 1.0]), "metric", 0.2) == (
        1,
        True,
    )


def test_a_cell_that_no_row_judges_has_no_noise():
    """A stratum that only training rows have says nothing about new rows."""
    X, y, s = rows()
    labels = np.where(y > 1.5, "c", np.where(y > 0.0, "b", "a"))
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    seen = labels != "c"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        path = FairnessPath.from_estimator(
            model, X[seen], labels[seen], sensitive_features=s[seen], n_points=3
        )
    assert np.isfinite(path.error).all()
    assert np.isfinite(path.noise)


def test_an_interval_within_classes_holds_its_curve():
    X, y, s = rows()
    labels = (y > 1.0).astype(int)
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, labels, sensitive_features=s, n_points=3)
    low, high = path.interval("correlation", 0.9, 40, random_state=0)
    assert (low <= high).all()
    assert low[0] <= path.curve("correlation")[0] <= high[0]


# ------------------------------------------------------------------ limits with a confidence


def labelled(seed=0, n=600):
    X, y, s = rows(seed, n)
    return X, (y > 0.8).astype(int), s


@pytest.fixture(scope="module")
def out_of_fold():
    X, y, s = rows(n=600)
    return fairness_path(FairRidge(**FEW), X, y, sensitive_features={"sex": s}, cv=3, n_points=21)


@pytest.fixture(scope="module")
def decided():
    """The path of a classifier on rows of its own."""
    X, y, s = labelled()
    model = FairRidgeClassifier(**FEW).fit(X, y, sensitive_features={"sex": s})
    X, y, s = labelled(1, 800)
    return FairnessPath.from_estimator(model, X, y, sensitive_features={"sex": s}, n_points=21)


def test_out_of_fold_the_bound_of_a_correlation_is_the_certificates(out_of_fold):
    chosen = out_of_fold.select(at_most=0.2)
    selection = chosen.selection_
    assert selection.met
    assert selection.confidence == 0.95
    assert selection.value < selection.upper <= 0.2
    expected = chosen.certificate_.new_rows
    assert selection.upper == pytest.approx(expected.high, abs=1e-9)
    assert selection.value == pytest.approx(expected.correlation, abs=1e-9)
    # The next value towards fairness 0 is not promised, and all fairer ones are.
    model, step = out_of_fold.estimator, out_of_fold.fairness[1]
    assert model.at(selection.fairness - step).certificate_.new_rows.high > 0.2
    fairer = out_of_fold.fairness[out_of_fold.fairness >= selection.fairness]
    assert all(model.at(t).certificate_.new_rows.high <= 0.2 for t in fairer)


@pytest.mark.parametrize(
    "metric",
    [
        "correlation",
        "correlation_ratio",
        "demographic_parity_difference",
        "equalized_odds_difference",
    ],
)
def test_more_confidence_is_never_less_fair(decided, metric):
    limit = 0.35 if metric == "equalized_odds_difference" else 0.25
    chosen = [
        decided.select(metric, at_most=limit, confidence=confidence).selection_
        for confidence in (None, 0.6, 0.8, 0.95)
    ]
    assert all(selection.met for selection in chosen)
    fairness = [selection.fairness for selection in chosen]
    assert fairness == sorted(fairness)
    if metric != "equalized_odds_difference":  # this gap hardly changes along the dial
        assert fairness[0] < fairness[-1]
    assert chosen[0].upper is None
    assert all(selection.upper <= limit for selection in chosen[1:])


def test_the_confidence_of_a_budget_is_about_the_error(decided):
    selection = decided.select("correlation", max_error=0.25).selection_
    assert (selection.bound_on, selection.met) == ("error", True)
    i = int(np.flatnonzero(decided.fairness == selection.fairness)[0])
    assert selection.error == decided.error[i]
    # One-sided Wilson bound of the error rate.
    one_sided = wilson(decided.error, 800, 1.6448536269514722)[1]
    assert selection.upper == pytest.approx(one_sided[i])
    assert selection.upper <= 0.25
    allowed = promised(one_sided, int(np.argmin(one_sided)), 1, 0.25)
    assert selection.value == decided.curve()[allowed].min()
    accurate = decided.select("correlation", min_accuracy=0.75).selection_
    assert accurate.fairness == selection.fairness
    bolder = decided.select("correlation", max_error=0.25, confidence=None).selection_
    assert bolder.value <= selection.value
    with pytest.warns(DataWarning, match=r"accuracy of at least 0\.999 .* cannot be promised"):
        nothing = decided.select(min_accuracy=0.999).selection_
    assert not nothing.met
    assert nothing.upper == pytest.approx(one_sided.min())


def test_a_limit_that_cannot_be_promised_is_explained(decided):
    metric = "demographic_parity_difference"
    with pytest.warns(DataWarning, match="cannot be promised") as seen:
        selection = decided.select(metric, at_most=0.01, attribute="sex").selection_
    text = str(seen[0].message)
    assert not selection.met
    assert selection.fairness == 1.0
    assert text.startswith(f"{metric} by sex of at most 0.01 on new rows cannot be promised")
    assert "with 95 % confidence" in text
    smallest = int(np.bincount(labelled(1, 800)[2]).min())
    assert f"(smallest group: {smallest} rows)" in text
    assert f"; at most {selection.upper:.4g} can, at fairness 1." in text
    assert selection.rows_needed > 800
    assert text.endswith(f" About {selection.rows_needed:,} rows would be needed.")
    # What the sentence offers instead is accepted.
    assert decided.select(metric, at_most=selection.upper, attribute="sex").selection_.met


def test_strict_raises_the_same_sentence(decided):
    metric = "demographic_parity_difference"
    with pytest.warns(DataWarning, match="cannot be promised") as seen:
        decided.select(metric, at_most=0.01)
    with pytest.raises(ValueError, match="cannot be promised") as raised:
        decided.select(metric, at_most=0.01, strict=True)
    assert str(raised.value) == str(seen[0].message)
    with pytest.raises(ValueError, match="No dial value has correlation <= -1"):
        decided.select(at_most=-1.0, confidence=None, strict=True)
    kept = decided.select(metric, at_most=0.3, strict=True).selection_
    assert kept == decided.select(metric, at_most=0.3).selection_


def test_a_holdout_is_judged_instead_of_the_rows_of_the_path(out_of_fold):
    X, y, s = rows(5, 900)
    holdout = (X, y, {"sex": s})
    chosen = out_of_fold.select(at_most=0.2, holdout=holdout)
    own = FairnessPath.from_estimator(
        out_of_fold.estimator, X, y, sensitive_features={"sex": s}, n_points=21
    )
    assert chosen.selection_ == own.select(at_most=0.2).selection_
    assert chosen.selection_ != out_of_fold.select(at_most=0.2).selection_
    assert chosen.selection_.value in own.curve()
    with pytest.raises(ValueError, match="cannot be promised"):
        out_of_fold.select(at_most=1e-4, holdout=holdout, strict=True)
    budget = out_of_fold.select(max_error=1.5, holdout=list(holdout), confidence=None)
    assert budget.selection_ == own.select(max_error=1.5, confidence=None).selection_


@pytest.mark.parametrize("holdout", [np.zeros((4, 3)), (1, 2), "rows"])
def test_a_holdout_is_a_tuple_of_three(out_of_fold, holdout):
    with pytest.raises(ValueError, match=r"holdout takes rows .* as a tuple \(X, y, "):
        out_of_fold.select(at_most=0.2, holdout=holdout)


@pytest.mark.parametrize("confidence", [0.5, 1.0, 95, "high", True, np.nan])
def test_a_confidence_is_a_number_above_one_half_and_below_one(out_of_fold, confidence):
    with pytest.raises(ValueError, match=r"confidence=.* is not allowed.*above 0\.5 and below 1"):
        out_of_fold.select(at_most=0.2, confidence=confidence)
    with pytest.raises(ValueError, match=r"confidence=.* is not allowed.*above 0\.5 and below 1"):
        out_of_fold.estimator.at(max_correlation=0.2, confidence=confidence)


def test_a_metric_of_ones_own_is_bounded_by_resamples(decided):
    def gap(y_true, predictions, groups):
        return abs(predictions[groups == 1].mean() - predictions[groups == 0].mean())

    selection = decided.select(gap, at_most=0.25).selection_
    assert selection.met
    assert selection.value < selection.upper <= 0.25
    by_name = decided.select("demographic_parity_difference", at_most=0.25).selection_
    assert selection.upper == pytest.approx(by_name.upper, abs=0.05)
    assert (selection.metric, by_name.metric) == ("gap", "demographic_parity_difference")


# ------------------------------------------------------------------ at(max_correlation=, confidence=)


MODELS = [FairRidge, FairRidgeClassifier, FairGPRegressor, FairGPClassifier]


@pytest.mark.parametrize("cls", MODELS)
def test_a_correlation_that_is_promised_is_the_largest_within_the_limit(cls):
    X, y, s = rows(n=600)
    if "Classifier" in cls.__name__:
        y = (y > 0.8).astype(int)
    model = cls(**FEW).fit(X, y, sensitive_features=s)
    shares = []
    for confidence in (0.8, 0.95, 0.99):
        at = model.at(max_correlation=0.2, confidence=confidence)
        assert at.dial == "share"
        share = at.fairness
        space = model._space(model._current_state)
        assert space.bound(share, confidence)[1] <= 0.2 + 1e-9
        assert space.bound(share - 0.01, confidence)[1] > 0.2
        shares.append(share)
    assert shares == sorted(set(shares))
    assert at.certificate_.new_rows.high < 0.2
    measured = model.at(max_correlation=0.2)
    assert measured.certificate_.new_rows.correlation == pytest.approx(0.2, abs=1e-8)
    assert measured.fairness_ < shares[0]


def test_a_correlation_that_fairness_1_cannot_promise():
    X, y, s = rows(n=600)
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    with pytest.warns(
        DataWarning, match=r"at most 0\.001 on new rows cannot be promised with 95 %"
    ):
        at = model.at(max_correlation=0.001, confidence=0.95)
    assert at.fairness == 1.0
    np.testing.assert_array_equal(at.predict(X), model.at(1.0).predict(X))


def test_errors_of_a_confidence_at_a_dial_value():
    X, y, s = rows(n=600)
    model = FairRidge(**FEW).fit(X, y, sensitive_features={"sex": s})
    says = "confidence goes with one max_correlation"
    with pytest.raises(ValueError, match=says):
        model.at(max_correlation={"sex": 0.1}, confidence=0.95)
    with pytest.raises(ValueError, match=says):
        model.at(0.5, confidence=0.95)
    with pytest.raises(ValueError, match=r"max_correlation=2.* is not allowed"):
        model.at(max_correlation=2, confidence=0.95)
    old = FairRidge(**FEW, removal="training_rows").fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match=r"removes dependence on the training rows.*'new_rows'"):
        old.at(max_correlation=0.1, confidence=0.95)


def test_training_rows_promise_nothing():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 3)) + s[:, None] * [1.0, 0.0, 0.0]
    y = X.sum(axis=1) + rng.normal(size=300)
    model = FairRidge(gamma=0.2, n_components=40, random_state=0).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=5)
    with pytest.warns(DataWarning, match="training rows"):
        path.select(at_most=0.5)
    path.select(at_most=0.5, confidence=None)
