"""``at(max_correlation={...})``: a limit of its own for every attribute."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.base import clone

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from fairspan.exceptions import DataWarning, NumericalWarning
from fairspan.method.limits import keep_limits
from fairspan.persistence import load_model, save_model

rng = np.random.default_rng(0)
n = 400
sex, age, region = rng.integers(0, 2, n), rng.normal(size=n), rng.integers(0, 3, n)
X = rng.normal(size=(n, 4)) + 0.8 * np.c_[sex, age, 0.7 * (region == 1), 0.0 * sex]
y = X @ [1.0, 0.8, 0.6, 1.0] + rng.normal(size=n)
labels = (y > y.mean()).astype(int)
S = {"sex": sex, "age": age, "region": np.array(["a", "b", "c"])[region]}
LIMITS = {"sex": 0.05, "age": 0.1, "region": 0.02}
NEW_ROWS = {"gamma": 0.1, "eta": 1e-2, "alpha": 1.0, "n_components": 60, "random_state": 0}
FIXED = {**NEW_ROWS, "removal": "training_rows"}
MODELS = {
    "ridge": (FairRidge, y, {}),
    "process": (FairGPRegressor, y, {}),
    "labels": (FairGPClassifier, labels, {}),
    "constant": (FairGPClassifier, labels, {"curvature": "constant"}),
    "column": (FairRidge, y, {"dependence": "correlation"}),
}
models = pytest.mark.parametrize("name", MODELS)


def fitted(name, **params):
    cls, target, own = MODELS[name]
    return cls(**FIXED, **own, **params).fit(X, target, sensitive_features=S)


def score(est, rows=X):
    return est.decision_function(rows) if hasattr(est, "decision_function") else est.predict(rows)


def ratio(f, codes):
    """Multiple correlation with the levels of a column."""
    levels = [codes == k for k in np.unique(codes)]
    between = sum(c.sum() * (f[c].mean() - f.mean()) ** 2 for c in levels)
    return np.sqrt(between / ((f - f.mean()) ** 2).sum())


def deciles(values):
    edges = np.quantile(values, np.arange(1, 10) / 10, method="inverted_cdf")
    return np.searchsorted(edges, values, side="right")


@models
def test_correlations_on_the_rows_are_within_the_limits(name):
    f = score(fitted(name).at(max_correlation=LIMITS))
    of_age = abs(np.corrcoef(f, age)[0, 1]) if name == "column" else ratio(f, deciles(age))
    assert ratio(f, sex) <= 0.05 + 1e-8
    assert ratio(f, region) <= 0.02 + 1e-8
    assert of_age <= 0.1 + 1e-8
    # They cost something, so at least one of them is met.
    assert max(ratio(f, sex) / 0.05, ratio(f, region) / 0.02, of_age / 0.1) > 1 - 1e-6


@models
def test_the_certificate_is_that_of_the_rows(name):
    est = fitted(name).at(max_correlation=LIMITS)
    found = {b.attribute: b for b in est.certificate_.blocks if b.constrained}
    assert found["sex"].score == pytest.approx(ratio(score(est), sex), abs=1e-9)
    assert found["sex"].supremum == pytest.approx(found["sex"].score, abs=1e-9)
    assert 0.0 < est.fairness_ < 1.0
    assert est._position.blend.shape[1] == 1


@models
def test_it_is_cheaper_than_the_line_at_the_same_correlations(name):
    """Also where every limit is the worst correlation of the line's model: it is the optimum."""
    est = fitted(name, n_sensitive_directions="all")
    target = MODELS[name][1]
    for fairness in (0.5, 0.8, 0.95):
        line = est.at(fairness)
        own = {b.attribute: b.score for b in line.certificate_.blocks if b.constrained}
        other = est.at(max_correlation=own)
        if name in ("labels", "constant"):
            losses = [
                np.logaddexp(0.0, -(2 * target - 1) * score(one)).mean() for one in (other, line)
            ]
        else:
            losses = [np.mean((target - score(one)) ** 2) for one in (other, line)]
        assert losses[0] <= losses[1] + 1e-3 * abs(losses[1])
        uniform = est.at(max_correlation=dict.fromkeys(own, max(own.values())))
        assert uniform.certificate_.supremum <= max(own.values()) + 1e-8


def penalised_error(est):
    """Penalised squared error of a model on the training rows."""
    function = est._position.directions @ est._position.coef
    return np.mean((y - est.predict(X)) ** 2) + est._solution.eta_y * float((function**2).sum())


def lower_bound(est, limits):
    """A bound on the error within the limits, for all combinations of the functions the fit keeps.

    Any multipliers prove a bound by duality. The best ones make the model's function stationary.
    """
    solution, path = est._solution, est._solution.path
    R, cross = path.cov + solution.eta_y * path.gram, path.cov_target[:, 0]
    blocks = zip(solution.reports, path.block_delta, path.block_cov, strict=True)
    Q = np.stack(
        [
            delta @ delta.T / limits[report.attribute] ** 2 - cov
            for report, delta, cov in blocks
            if report.constrained and report.attribute in limits
        ]
    )
    w = (est._position.blend @ est._position.coef)[:, 0]
    multipliers, _ = scipy.optimize.nnls((Q @ w).T, cross - R @ w)
    H = R + np.tensordot(multipliers, Q, 1)
    assert np.linalg.eigvalsh(H)[0] > 0.0
    return y.var() - cross @ np.linalg.solve(H, cross)


@pytest.mark.regression("at(max_correlation={...}) is not the cheapest")
@pytest.mark.parametrize("limits", [LIMITS, {"sex": 0.05, "age": 0.1}])
@pytest.mark.parametrize("alpha", [1.0, 10.0, 100.0])
def test_no_combination_of_the_functions_that_the_fit_keeps_has_a_lower_error(alpha, limits):
    est = FairRidge(**{**FIXED, "alpha": alpha}).fit(X, y, sensitive_features=S)
    at = est.at(max_correlation=limits)
    assert penalised_error(at) == pytest.approx(lower_bound(at, limits), rel=1e-9)


@pytest.mark.parametrize("limits", [LIMITS, {"sex": 0.2, "age": 0.3, "region": 0.1}])
@pytest.mark.parametrize(("alpha", "most"), [(1e-4, 1e-6), (1.0, 5e-3), (100.0, 5e-3)])
def test_functions_outside_their_span_are_hardly_cheaper(alpha, most, limits):
    """Without a ridge penalty not at all: the share of the error they save goes to 0 with alpha."""
    est = FairRidge(**{**FIXED, "alpha": alpha}).fit(X, y, sensitive_features=S)
    psi = est._coordinates(X)
    cov, cross = psi.T @ psi / n, psi.T @ (y - y.mean()) / n
    L = np.linalg.cholesky(cov + est._solution.eta_y * np.eye(len(cov)))
    deltas = []
    for codes in (sex, deciles(age), region):
        one_hot = (codes[:, None] == np.unique(codes)).astype(float)
        share = one_hot.mean(axis=0)
        # Centred indicators, divided by the roots of their shares, give the covariances of whitened
        # codes up to a rotation.
        deltas.append(np.linalg.solve(L, psi.T @ ((one_hot - share) / np.sqrt(share)) / n))
    whitened = np.linalg.solve(L, np.linalg.solve(L, cov).T)
    g = np.linalg.solve(L, cross)
    found = keep_limits(g, deltas, [whitened] * 3, [limits[k] for k in S])
    assert found.gap <= 1e-9
    lowest = y.var() - (g @ found.function) ** 2 / (found.function @ found.function)
    at = est.at(max_correlation=limits)
    assert -1e-9 <= penalised_error(at) / lowest - 1.0 <= most


@models
def test_the_ends(name):
    est = fitted(name, n_sensitive_directions="all")
    none = est.at(max_correlation={"sex": 1.0, "age": 1.0})
    np.testing.assert_allclose(score(none), score(est.at(0.0)), atol=1e-7)
    all_of_it = est.at(max_correlation=dict.fromkeys(S, 0.0))
    np.testing.assert_allclose(score(all_of_it), score(est.at(1.0)), atol=1e-6)
    assert all_of_it.fairness_ == pytest.approx(1.0, abs=1e-6)


@models
def test_attributes_without_a_limit_are_free(name):
    est = fitted(name)
    one = est.at(max_correlation={"region": 0.01})
    free = {b.attribute: b.score for b in est.at(0.0).certificate_.blocks if b.constrained}
    kept = {b.attribute: b.score for b in one.certificate_.blocks if b.constrained}
    assert kept["region"] <= 0.01 + 1e-8
    assert kept["sex"] > 0.5 * free["sex"]


def test_one_code_is_the_line():
    est = FairRidge(**FIXED).fit(X, y, sensitive_features={"sex": sex})
    for limit in (0.2, 0.05, 0.0):
        a, b = est.at(max_correlation=limit), est.at(max_correlation={"sex": limit})
        assert a.fairness_ == pytest.approx(b.fairness_, abs=1e-6)
        np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-6)


def test_equalized_odds_keeps_them_in_every_cell():
    est = FairGPClassifier(**FIXED, criterion="eo").fit(X, labels, sensitive_features=S)
    f = est.at(max_correlation={"sex": 0.05, "region": 0.1}).decision_function(X)
    for k in (0, 1):
        assert ratio(f[labels == k], sex[labels == k]) <= 0.05 + 1e-8
        assert ratio(f[labels == k], S["region"][labels == k]) <= 0.1 + 1e-8


@models
def test_parameters_say_it_and_a_new_fit_repeats_it(name, tmp_path):
    est = fitted(name)
    at = est.at(max_correlation=LIMITS)
    assert at.dial == "correlation"
    assert at.fairness == {k: 1.0 - v for k, v in LIMITS.items()}
    again = clone(at).fit(X, MODELS[name][1], sensitive_features=S)
    np.testing.assert_allclose(score(again), score(at), atol=1e-9)
    back = at.at(1.0, dial="angle")
    np.testing.assert_allclose(score(back), score(est), atol=1e-9)
    save_model(at, tmp_path / "model")
    np.testing.assert_array_equal(score(load_model(tmp_path / "model")), score(at))
    if "labels" in name or name == "constant":
        p = at.predict_proba(X)
        assert np.isfinite(p).all()
        assert at.calibration_ == "held-out"


def test_a_representation_and_its_path_start_from_it():
    est = FairRepresentation(**FIXED).fit(X, y, sensitive_features=S)
    at = est.at(max_correlation=LIMITS)
    assert at.transform(X).shape == (n, 1)
    path = FairnessPath.from_estimator(at, X, y, sensitive_features=S, n_points=3)
    whole = FairnessPath.from_estimator(est, X, y, sensitive_features=S, n_points=3)
    np.testing.assert_allclose(path.error, whole.error)


BAD = {
    "unknown": ({"gender": 0.1}, "'gender', which is no attribute here.*'sex', 'age', 'region'"),
    "range": ({"sex": 1.5}, "max_correlation=.*1.5.*a number from 0 to 1, or a dict"),
    "text": ({"sex": "low"}, "max_correlation=.*low.*is not allowed"),
    "empty": ({}, "fairness={} is not allowed"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_limits(kind):
    limits, says = BAD[kind]
    with pytest.raises(ValueError, match=says):
        fitted("ridge").at(max_correlation=limits)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"method": "rkhs"}, "derived for method='optimal', not 'rkhs'"),
        ({"subspace": "fair"}, "derived for subspace='model', not 'fair'"),
    ],
)
def test_where_they_are_not_derived(params, says):
    est = FairRidge(**FIXED, **params).fit(X, y, sensitive_features=S)
    with pytest.raises(ValueError, match=says):
        est.at(max_correlation=LIMITS)


def test_more_than_one_direction():
    three = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    est = FairGPClassifier(**FIXED).fit(X, three, sensitive_features=S)
    with pytest.raises(ValueError, match=r"one predictive direction.*this model has 2"):
        est.at(max_correlation=LIMITS)


def test_a_dict_needs_the_correlation_dial():
    with pytest.raises(ValueError, match=r"only dial='correlation' can read"):
        FairRidge(**FIXED, fairness={"sex": 0.9}).fit(X, y, sensitive_features=S)


def test_a_limit_is_never_exceeded_where_no_function_meets_it():
    """y is S: on the way to nothing the correlation stays 1, so the block goes altogether."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # S is among the columns; no fair part at the default dial
        est = FairRidge("linear", removal="training_rows").fit(
            np.c_[sex, age], sex, sensitive_features={"sex": sex}
        )
    with pytest.warns(NumericalWarning, match=r"1 blocks cannot be met|no fair part"):
        at = est.at(max_correlation={"sex": 0.5})
    np.testing.assert_allclose(at.predict(np.c_[sex, age]), sex.mean())
    assert at.certificate_.supremum == 0.0
    assert at.certificate_.n_functions == 0


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.NumericalWarning")
@pytest.mark.parametrize("seed", range(5))
def test_limits_hold_where_codes_fill_the_space(seed):
    r = np.random.default_rng(seed)
    a, b = r.integers(0, 2, 200), r.integers(0, 3, 200)
    few = r.normal(size=(200, 3)) + np.c_[a, b == 1, b == 2]
    target = few @ r.normal(size=3) + r.normal(size=200)
    groups = {"a": a, "b": b.astype(str)}
    est = FairRidge("linear", removal="training_rows").fit(few, target, sensitive_features=groups)
    for limit in (0.3, 0.1, 0.02):
        at = est.at(max_correlation={"a": limit, "b": limit})
        assert at.certificate_.supremum <= limit + 1e-6


def test_the_certificate_names_the_limits():
    text = str(fitted("ridge").at(max_correlation={"sex": 0.05, "age": 0.1}).certificate_)
    assert "limits on correlations (sex 0.05, age 0.1):\n" in text
    assert "\nTraining rows: " in text
    assert "reaches 0" not in text


def test_a_constant_target_has_nothing_to_limit():
    est = FairRidge(**FIXED, dial="correlation", fairness={"sex": 0.95})
    with pytest.warns(DataWarning, match="y is constant"):
        est.fit(X, np.ones(n), sensitive_features=S)
    np.testing.assert_allclose(est.predict(X), 1.0)


def test_too_many_codes():
    many = np.arange(n) % 40
    est = FairRidge(**FIXED, sensitive_kind="categorical")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        est.fit(X, y, sensitive_features={"many": many})
    with pytest.raises(ValueError, match=r"39 codes in all cells.*at most 32"):
        est.at(max_correlation={"many": 0.1})
    assert est.at(max_correlation=0.1).certificate_.score <= 0.1 + 1e-9


def test_a_truth_value_is_no_limit():
    with pytest.raises(ValueError, match="is not allowed"):
        fitted("ridge").at(max_correlation={"sex": True})


# ------------------------------------------------------------------ limits on new rows


DEFAULT = {
    **{name: case for name, case in MODELS.items() if name != "constant"},
    "gaussian": (FairGPClassifier, labels, {"likelihood": "gaussian"}),
    "ridge labels": (FairRidgeClassifier, labels, {}),
}
defaults = pytest.mark.parametrize("name", DEFAULT)


def for_new_rows(name, sensitive=None, **params):
    cls, target, own = DEFAULT[name]
    est = cls(**NEW_ROWS, **own, **params)
    return est.fit(X, target, sensitive_features=S if sensitive is None else sensitive)


def at_limits(est, limits):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Limits on correlations are not expected")
        return est.at(max_correlation=limits)


def removed_correlations(est):
    """Expected correlation of the score with the removed directions of each attribute."""
    cross, C = est._solution.new_rows, est._position.blend
    out = {}
    for block in cross.blocks:
        if block.codes.report.constrained:
            variance = (C.T @ est._solution.path.block_cov[block.index] @ C).item()
            cov = block.removed.T @ block.cov @ C
            out[block.codes.report.attribute] = np.linalg.norm(cov) / np.sqrt(variance)
    return out


@defaults
def test_expected_correlations_of_removed_directions_are_within_the_limits(name):
    est = for_new_rows(name)
    free, at = est.at(0.0), at_limits(est, LIMITS)
    found = removed_correlations(at)
    assert all(found[k] <= LIMITS[k] + 1e-7 for k in LIMITS)
    assert max(found[k] / LIMITS[k] for k in LIMITS) > 1 - 1e-4
    assert max(removed_correlations(free)[k] / LIMITS[k] for k in LIMITS) > 2.0
    assert 0.0 < at.fairness_ < 1.0


@defaults
def test_an_attribute_that_is_removed_whole_keeps_its_limit_on_new_rows(name):
    est = for_new_rows(name, {"sex": sex})
    for limit in (0.1, 0.05):
        at = est.at(max_correlation={"sex": limit})
        (block,) = at.certificate_.new_rows.blocks
        assert all(direction.weight == 1.0 for direction in block.directions)
        assert block.correlation == pytest.approx(limit, abs=1e-6)
        same = est.at(max_correlation=limit)
        assert abs(np.corrcoef(score(at), score(same))[0, 1]) > 0.999


@defaults
def test_the_order_of_the_attributes_does_not_matter(name):
    limits = {k: LIMITS[k] for k in reversed(LIMITS)}
    a = at_limits(for_new_rows(name), LIMITS)
    b = at_limits(for_new_rows(name, {k: S[k] for k in reversed(S)}), limits)
    np.testing.assert_allclose(score(b), score(a), rtol=1e-5, atol=1e-6)


@defaults
def test_attributes_without_a_limit_are_free_on_new_rows(name):
    est = for_new_rows(name)
    at = at_limits(est, {"age": 0.01})
    free, found = removed_correlations(est.at(0.0)), removed_correlations(at)
    assert found["age"] <= 0.01 + 1e-7
    assert found["sex"] > 0.5 * free["sex"]


def test_a_limit_that_is_not_expected_to_be_kept_is_named():
    est = for_new_rows("ridge")
    with pytest.warns(NumericalWarning, match="not expected to be kept on new rows") as seen:
        at = est.at(max_correlation=LIMITS)
    expected = {
        b.attribute: b.correlation for b in at.certificate_.new_rows.blocks if b.constrained
    }
    (text,) = {str(warning.message) for warning in seen}
    for attribute, limit in LIMITS.items():
        part = f"{attribute} (limit {limit:.3g}, estimate {expected[attribute]:.3g})"
        assert (part in text) == (expected[attribute] > limit + 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est.at(max_correlation={"sex": 0.05})


@defaults
def test_a_new_fit_and_a_saved_model_repeat_the_limits_of_new_rows(name, tmp_path):
    at = at_limits(for_new_rows(name), LIMITS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Limits on correlations are not expected")
        again = clone(at).fit(X, DEFAULT[name][1], sensitive_features=S)
    np.testing.assert_allclose(score(again), score(at), atol=1e-9)
    save_model(at, tmp_path / "model")
    np.testing.assert_array_equal(score(load_model(tmp_path / "model")), score(at))
