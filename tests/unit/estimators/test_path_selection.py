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
from fairspan.estimators.path_bounds import resample_limits
from fairspan.method.decision_certificate import wilson
from fairspan.method.promises import rows_needed


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
    # The order of a budget begins at fairness 0, wherever the error is least.
    allowed = np.cumprod(one_sided <= 0.25).astype(bool)
    assert 0 < allowed.sum() < len(decided)
    assert selection.value == decided.curve()[allowed].min()
    accurate = decided.select("correlation", min_accuracy=0.75).selection_
    assert accurate.fairness == selection.fairness
    bolder = decided.select("correlation", max_error=0.25, confidence=None).selection_
    assert bolder.value <= selection.value
    with pytest.warns(DataWarning, match=r"accuracy of at least 0\.999 .* cannot be promised"):
        nothing = decided.select(min_accuracy=0.999).selection_
    assert (nothing.met, nothing.fairness, nothing.rows_needed) == (False, 0.0, None)
    assert nothing.upper == pytest.approx(one_sided[0])


def test_a_budget_that_more_rows_would_keep_is_explained(decided):
    bounds = decided.bounds("error")
    limit = float(bounds.value[0] + bounds.upper[0]) / 2.0
    with pytest.warns(DataWarning, match="cannot be promised") as seen:
        selection = decided.select(max_error=limit).selection_
    text = str(seen[0].message)
    assert text.startswith(f"An error of at most {limit:.4g} on new rows cannot be promised")
    assert f"with 800 rows; the least that can is {selection.upper:.4g}, at fairness 0." in text
    # Half the margin takes four times the rows.
    assert selection.rows_needed == pytest.approx(3200, abs=1)
    assert text.endswith(f"About {selection.rows_needed:,} rows would be needed.")
    with pytest.raises(ValueError, match=r"An accuracy of at least 0\.99.*more rows alone"):
        decided.select(min_accuracy=0.99, strict=True)


@pytest.mark.regression("a cross-fitted model's own folds counted as rows that it has not seen")
def test_own_folds_are_out_of_fold():
    """The model's certificate bounds the correlation, and other bounds are two-sided."""
    X, y, s = rows(n=600)
    model = FairRidge(gamma=0.2, random_state=0)
    path = fairness_path(model, X, y, sensitive_features=s, n_points=3)
    assert path.rows == "out of fold"
    assert not path.bounds("error").one_sided
    fitted = model.fit(X, y, sensitive_features=s)
    expected = [fitted.at(float(t)).certificate_.new_rows for t in path.fairness]
    bounds = path.bounds("correlation")
    assert bounds.value == pytest.approx([each.correlation for each in expected], abs=1e-12)
    assert bounds.upper == pytest.approx([each.high for each in expected])


def test_an_error_of_numbers_is_a_budget_too(out_of_fold):
    """RMSE out of fold: the two-sided bound of the mean square."""
    assert out_of_fold.rows == "out of fold"
    X, y, _ = rows(n=600)
    chosen = out_of_fold.select("correlation", max_error=0.8).selection_
    i = int(np.flatnonzero(out_of_fold.fairness == chosen.fairness)[0])
    squares = (out_of_fold.predictions(i) - y) ** 2
    expected = np.sqrt(squares.mean() + 1.959964 * squares.std() / np.sqrt(len(X)))
    assert chosen.met
    assert chosen.upper == pytest.approx(expected)
    assert chosen.upper <= 0.8 < out_of_fold.bounds("error").upper[i + 1]


def test_a_limit_that_cannot_be_promised_is_explained(decided):
    metric = "demographic_parity_difference"
    with pytest.warns(DataWarning, match="cannot be promised") as seen:
        selection = decided.select(metric, at_most=0.01, attribute="sex").selection_
    text = str(seen[0].message)
    assert not selection.met
    assert selection.fairness == 1.0
    counts = np.bincount(labelled(1, 800)[2])
    smallest, n = int(np.argmin(counts)), int(counts.min())
    needed = int(np.ceil(selection.rows_needed * n / 800))
    assert selection.rows_needed > 800
    assert text == (
        f"A selection-rate gap ({metric}) of at most 0.01 by sex on new rows cannot be promised with 95 % "
        f"confidence with {n} rows of sex = {smallest}; the least that can is {selection.upper:.4g}, at "
        f"fairness 1. About {needed:,} rows of that group, {selection.rows_needed:,} in all, would be needed."
    )
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


def test_a_share_cannot_be_set_aside_after_the_fit(out_of_fold):
    with pytest.raises(
        ValueError, match=r"fairness_path\(\.\.\., holdout=0\.3\), which sets rows aside"
    ):
        out_of_fold.select(at_most=0.2, holdout=0.3)


def test_a_holdout_of_strata_is_a_path_of_its_own():
    X, y, s = rows(n=200)
    strata = np.arange(200) % 2
    model = FairRidge(criterion="conditional_statistical_parity", **FEW)
    given = {"sensitive_features": s, "control_features": strata}
    path = fairness_path(model, X, y, **given, n_points=3)
    with pytest.raises(ValueError, match=r"from_estimator\(path.estimator.*control_features"):
        path.select("correlation", at_most=0.5, holdout=(X, y, s))


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


def test_a_metric_that_resamples_leave_undefined_promises_nothing():
    draws = np.array([[0.1, 0.2, np.nan, 0.3]])
    for one_sided in (False, True):
        limits = resample_limits(draws, 0.95, one_sided=one_sided)
        assert limits.upper.tolist() == [np.inf]
        assert limits.lower.tolist() == [-np.inf]
    whole = resample_limits(np.arange(400.0)[None], 0.95, one_sided=True)
    assert (whole.lower[0], whole.upper[0]) == (19.0, 380.0)


@pytest.mark.slow
def test_a_bootstrap_bound_of_a_callable_holds_in_about_95_percent_of_draws():
    """Mean difference of the predictions of a fixed model, whose population value is 0.8 of a slope."""
    X, y, s = rows(n=600)
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)

    def gap(y_true, predictions, groups):
        return abs(predictions[groups == 1].mean() - predictions[groups == 0].mean())

    X, y, s = rows(10_000, 200_000)
    truth, held, n_draws = gap(y, model.at(0.0).predict(X), s), 0, 120
    for seed in range(n_draws):
        X, y, s = rows(seed + 1, 200)
        path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=2)
        held += path.bounds(gap).upper[0] >= truth
    # Three standard errors of a share of 95 % in 120 draws are 6 %.
    assert held / n_draws >= 0.89


def test_a_callable_may_be_the_metric_of_a_budget(decided):
    def gap(y_true, predictions, groups):
        return abs(predictions[groups == 1].mean() - predictions[groups == 0].mean())

    found = decided.select(gap, max_error=0.25).selection_
    by_name = decided.select("demographic_parity_difference", max_error=0.25).selection_
    assert (found.metric, found.bound_on, found.met) == ("gap", "error", True)
    assert (found.fairness, found.upper) == (by_name.fairness, by_name.upper)
    assert found.value == pytest.approx(by_name.value)


# ------------------------------------------------------------------ intervals on new rows


@pytest.mark.parametrize(
    "metric", ["error", "correlation", "correlation_ratio", "demographic_parity_difference"]
)
def test_the_bounds_are_those_that_select_compares(decided, metric):
    bounds = decided.bounds(metric, None if metric == "error" else "sex")
    assert (bounds.lower <= bounds.value).all()
    assert (bounds.value <= bounds.upper).all()
    assert (bounds.lower >= 0.0).all()
    assert bounds.one_sided
    assert bounds.words == "95 % each side"
    np.testing.assert_array_equal(bounds.value, decided.curve(metric))
    limit = float(np.median(bounds.upper))
    given = {"max_error": limit} if metric == "error" else {"metric": metric, "at_most": limit}
    chosen = decided.select(**given).selection_
    i = int(np.flatnonzero(decided.fairness == chosen.fairness)[0])
    assert chosen.met
    assert chosen.upper == bounds.upper[i]


def test_out_of_fold_bounds_are_about_the_refitted_model(out_of_fold):
    bounds = out_of_fold.bounds()
    for i in (0, 10, 20):
        expected = out_of_fold.estimator.at(out_of_fold.fairness[i]).certificate_.new_rows
        found = [v[i] for v in (bounds.value, bounds.lower, bounds.upper)]
        assert found == pytest.approx([expected.correlation, expected.low, expected.high], abs=1e-9)
    assert bounds.words == "95 %"
    assert not bounds.one_sided
    pytest.importorskip("pandas")
    table = out_of_fold.table()
    np.testing.assert_array_equal(table["correlation[sex] expected"], bounds.value)
    np.testing.assert_array_equal(table["correlation[sex] low"], bounds.lower)
    np.testing.assert_array_equal(table["correlation[sex] high"], bounds.upper)
    np.testing.assert_array_equal(table["error high"], out_of_fold.bounds("error").upper)
    assert "error expected" not in table
    assert not [name for name in out_of_fold.table(confidence=None) if name.endswith("high")]


def test_an_attribute_without_a_constraint_of_its_own_is_bounded_on_the_rows():
    """With crossed attributes only the combinations are constrained; the certificate has no other block."""
    X, y, s = rows(n=300)
    other = np.random.default_rng(1).integers(0, 2, 300)
    model = FairRidge(**FEW, intersectional=True)
    path = fairness_path(model, X, y, sensitive_features={"sex": s, "old": other}, cv=2, n_points=3)
    for name in ("sex", "old", "sex x old"):
        assert (path.bounds("correlation", name).upper > 0.05).all()  # not the 0 of no constraint
    assert path.bounds("correlation", "sex").upper[0] > path.curve("correlation", "sex")[0]


def test_beyond_fairness_1_both_limits_are_joint(decided):
    X, y, s = labelled(1, 800)
    beyond = FairnessPath.from_estimator(
        decided.estimator, X, y, sensitive_features={"sex": s}, n_points=31, max_fairness=1.5
    )
    metric = "demographic_parity_difference"
    within, joint = decided.bounds(metric), beyond.bounds(metric)
    np.testing.assert_allclose(joint.value[:21], within.value)
    assert (joint.upper[:21] > within.upper).all()
    assert not joint.one_sided
    # A budget begins at fairness 0, so its bound stays one-sided.
    upper = [path.select(max_error=0.25).selection_.upper for path in (decided, beyond)]
    assert upper[0] == pytest.approx(upper[1])


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
    ) as seen:
        at = model.at(max_correlation=0.001, confidence=0.95)
    assert at.fairness == 1.0
    found = at.certificate_.new_rows
    needed = rows_needed(600, found.correlation, found.high, 0.001)
    text = str(seen[0].message)
    assert f"with 600 rows; the least that can is {found.high:.3g}, at fairness 1." in text
    assert text.endswith(f"About {needed:,} rows would be needed.")
    named = FairRidge(**FEW).fit(X, y, sensitive_features={"sex": s})
    with pytest.warns(DataWarning, match=r"at most 0\.001 by sex on new rows"):
        named.at(max_correlation=0.001, confidence=0.95)
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
    assert path.rows == "in-sample"
    with pytest.raises(ValueError, match="training rows"):
        path.bounds()
    names = [*path.table()[0]] if isinstance(path.table(), list) else [*path.table()]
    assert not [name for name in names if name.endswith(("low", "high"))]
