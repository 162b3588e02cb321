"""Laws of receipts: what the dial takes from a score is the sum of its parts (METHOD 16)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
)

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")

FIXED = {"gamma": 0.2, "n_components": 30, "random_state": 0}
TRAINING = {**FIXED, "removal": "training_rows", "eta": 1e-3, "alpha": 1.0}
# Name: estimator, number of classes (0: a number).
MODELS = {
    "ridge": (lambda **k: FairRidge(**FIXED, **k), 0),
    "linear kernel": (lambda **k: FairRidge(kernel="linear", **k), 0),
    "training rows": (lambda **k: FairRidge(**TRAINING, **k), 0),
    "process": (lambda **k: FairGPRegressor(**FIXED, **k), 0),
    "classes": (lambda **k: FairRidgeClassifier(**FIXED, **k), 2),
    "three classes": (lambda **k: FairRidgeClassifier(**FIXED, **k), 3),
    "log odds": (lambda **k: FairGPClassifier(**FIXED, **k), 2),
    "three log odds": (lambda **k: FairGPClassifier(**FIXED, **k), 3),
    "log odds, training rows": (lambda **k: FairGPClassifier(**TRAINING, **k), 2),
    "learner": (lambda **k: FairRegressor(LinearRegression(), **k), 0),
    "two learners": (lambda **k: FairClassifier(["linear", "kernel"], **k), 2),
    "decisions": (lambda **k: FairRidgeClassifier(equalize="decisions", **FIXED, **k), 2),
    "decisions of three": (lambda **k: FairRidgeClassifier(equalize="decisions", **FIXED, **k), 3),
}
SCORES = [name for name in MODELS if "decisions" not in name]


def rows(seed, classes=0, n=240):
    rng = np.random.default_rng(seed)
    race, sex = rng.integers(0, 3, n), rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 0.9 * race
    X[:, 1] += 1.1 * sex
    y = X.sum(axis=1) + X[:, 0] * X[:, 2] + rng.normal(size=n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    S = pd.DataFrame({"race": np.array(list("abc"))[race], "sex": np.array(list("fm"))[sex]})
    return X, y, S


def scores_of(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def assert_same(a, b, tol=1e-10):
    """Relative to the largest number of the receipt ``b``."""
    size = max(np.abs(b.before).max(), np.abs(b.after).max())
    for name in ("before", "after", "parts", "rescaling"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=tol * size)


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**16), fairness=st.floats(0.0, 1.0))
@settings(max_examples=3)
def test_parts_and_rescaling_sum_to_the_change(name, seed, fairness):
    make, classes = MODELS[name]
    X, y, S = rows(seed, classes)
    model = make().fit(X, y, sensitive_features=S).at(fairness)
    new = rows(seed + 1)[0]
    receipt = model.explain_fairness(new)
    size = max(np.abs(receipt.before).max(), np.abs(receipt.after).max())
    total = receipt.parts.sum(axis=1) + receipt.rescaling
    np.testing.assert_allclose(total, receipt.before - receipt.after, rtol=0, atol=1e-10 * size)
    for values, at in ((receipt.after, model), (receipt.before, model.at(0.0))):
        np.testing.assert_allclose(values, scores_of(at, new), rtol=0, atol=1e-10 * size)
    assert receipt.names == ("race", "sex")
    assert receipt.parts.shape == (len(new), 2, *receipt.before.shape[1:])


@pytest.mark.parametrize("name", MODELS)
def test_fairness_0_changes_nothing(name):
    make, classes = MODELS[name]
    X, y, S = rows(1, classes)
    model = make().fit(X, y, sensitive_features=S)
    receipt = model.at(0.0).explain_fairness(X)
    np.testing.assert_array_equal(receipt.parts, 0.0)
    np.testing.assert_array_equal(receipt.rescaling, 0.0)
    fair = model.explain_fairness(X)
    assert (np.abs(fair.parts).reshape(len(X), 2, -1).max(axis=(0, 2)) > 1e-3).all()


@pytest.mark.parametrize("name", SCORES)
def test_parts_grow_with_the_share(name):
    make, classes = MODELS[name]
    X, y, S = rows(2, classes)
    model = make().fit(X, y, sensitive_features=S)
    half, whole = (model.at(t).explain_fairness(X) for t in (0.5, 1.0))
    if "training" in name:  # an angle is no share
        assert np.abs(half.parts).mean() < np.abs(whole.parts).mean()
        return
    np.testing.assert_allclose(2.0 * half.parts, whole.parts, rtol=0, atol=1e-9)
    np.testing.assert_allclose(2.0 * half.rescaling, whole.rescaling, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["ridge", "training rows", "log odds", "two learners", "decisions"]
)
def test_names_of_groups_and_order_of_rows_do_not_matter(name):
    make, classes = MODELS[name]
    X, y, S = rows(3, classes)
    if name == "decisions":  # multipliers of three groups are not unique
        S = S[["sex"]]
    # Logistic regressions of the learner "linear" stop at a tolerance.
    tol = 1e-4 if name == "two learners" else 1e-7
    model = make().fit(X, y, sensitive_features=S)
    receipt = model.explain_fairness(X)
    renamed = S.replace({"a": "z", "b": "y", "f": "q"})
    other = make().fit(X, y, sensitive_features=renamed)
    assert_same(other.explain_fairness(X), receipt, tol)
    order = np.random.default_rng(0).permutation(len(X))
    other = make().fit(X[order], y[order], sensitive_features=S.iloc[order])
    assert_same(other.explain_fairness(X), receipt, tol)
    permuted = model.explain_fairness(X[order])
    np.testing.assert_allclose(permuted.parts, receipt.parts[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_the_order_of_attributes_does_not_matter(name):
    make, classes = MODELS[name]
    X, y, S = rows(4, classes)
    a = make().fit(X, y, sensitive_features=S).explain_fairness(X)
    b = make().fit(X, y, sensitive_features=S[["sex", "race"]]).explain_fairness(X)
    assert b.names == ("sex", "race")
    # Strata of several attributes are dealt into folds alike, whatever their order.
    tol = 1e-4 if name == "two learners" else 1e-7
    assert_same(replace(b, parts=b.parts[:, ::-1]), a, tol)


# ------------------------------------------------------------------ new rows


@pytest.mark.parametrize("name", ["ridge", "three classes", "learner", "two learners"])
def test_rescaling_has_no_expected_dependence(name):
    """The parts carry all the dependence that goes; the rescaling is a multiple of the fair score."""
    make, classes = MODELS[name]
    X, y, S = rows(5, classes, n=400)
    # One attribute: of several, combinations that the rows cannot tell apart are left.
    model = make(n_sensitive_directions="all").fit(X, y, sensitive_features=S["race"])
    fit, solution = model._solution.new_rows, model._solution
    L, share = fit.n_functions, 0.7
    change = fit.coefficients(0.0) - fit.coefficients(share)
    fair, own = solution.parts.split(solution.basis, change)
    # Coefficients on [A, u] of the two parts.
    on_basis = np.concatenate([change[:L], -change[:L]])
    np.testing.assert_allclose(solution.basis[:, : 2 * L] @ on_basis, fair, atol=1e-10)
    rest = change[: 2 * L] - on_basis
    np.testing.assert_allclose(solution.basis[:, : 2 * L] @ rest, own.sum(axis=0), atol=1e-9)
    before = 0.0
    for block in (b for b in fit.blocks if b.codes.report.constrained):
        cov = block.cov[:, : 2 * L]
        assert np.abs(cov @ on_basis).max() < 1e-9
        np.testing.assert_allclose(cov @ rest, share * block.cov @ fit.first, atol=1e-9)
        before = max(before, np.abs(block.cov @ fit.first).max())
    assert before > 0.02


@pytest.mark.parametrize("name", ["ridge", "two learners"])
def test_parts_are_multiples_of_predicted_codes(name):
    make, classes = MODELS[name]
    X, y, S = rows(6, classes)
    model = make().fit(X, y, sensitive_features=S)
    solution, fit = model._solution, model._solution.new_rows
    codes = np.einsum("k,kdq->dq", fit.share, fit.code_functions)
    u = solution.basis[:, 1]
    lam = np.linalg.lstsq(codes, u, rcond=None)[0]
    owner = np.concatenate([[b.codes.report.attribute] * b.codes.rank for b in fit.blocks])
    b = model.pilot_.features.scores(model._read_new(X), codes) - solution.mean @ codes
    receipt = model.explain_fairness(X)
    position, free = model._position, model.at(0.0)._position
    weight = (free.blend @ free.coef - position.blend @ position.coef)[:2].sum()
    for a, attribute in enumerate(receipt.names):
        expected = weight * b[:, owner == attribute] @ lam[owner == attribute]
        np.testing.assert_allclose(receipt.parts[:, a], expected, atol=1e-8)


def test_crossed_attributes_are_one_part():
    X, y, S = rows(7)
    model = FairRidge(intersectional=True, **FIXED).fit(X, y, sensitive_features=S)
    receipt = model.explain_fairness(X)
    assert receipt.names == ("race x sex",)
    expected = receipt.before - receipt.after - receipt.rescaling
    np.testing.assert_allclose(receipt.parts[:, 0], expected, atol=1e-10)


# ------------------------------------------------------------------ training rows


def test_training_rows_by_hand():
    """Parts are regressions of the codes on X, with the multipliers of the constrained regression."""
    X, y, S = rows(8)
    alpha = 3.0
    model = FairRidge(kernel="linear", removal="training_rows", alpha=alpha)
    model.fit(X, y, sensitive_features=S)
    receipt = model.explain_fairness(X)
    psi, n = X - X.mean(axis=0), len(X)
    R = psi.T @ psi / n + alpha / n * np.eye(4)
    codes = [pd.get_dummies(S[name]).to_numpy(float)[:, 1:] for name in ("race", "sex")]
    N = np.concatenate([psi.T @ (C - C.mean(axis=0)) / n for C in codes], axis=1)
    g = np.linalg.solve(R, psi.T @ y / n)
    nu = np.linalg.solve(N.T @ np.linalg.solve(R, N), N.T @ g)
    H = np.linalg.solve(R, N) * nu
    np.testing.assert_allclose(receipt.before, y.mean() + psi @ g, atol=1e-9)
    np.testing.assert_allclose(receipt.parts[:, 0], psi @ H[:, :2].sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(receipt.parts[:, 1], psi @ H[:, 2], atol=1e-8)
    np.testing.assert_allclose(receipt.rescaling, 0.0, atol=1e-9)


@pytest.mark.parametrize("fairness", [0.4, {"race": 0.9, "sex": 0.95}])
def test_rescaling_has_no_covariance_on_the_training_rows(fairness):
    X, y, S = rows(9)
    limits = {"dial": "correlation"} if isinstance(fairness, dict) else {}
    model = FairRidge(**TRAINING, **limits, fairness=fairness).fit(X, y, sensitive_features=S)
    receipt = model.explain_fairness(X)
    assert np.abs(receipt.rescaling).max() > 1e-3
    for name in S:
        for label in S[name].unique():
            inside = S[name] == label
            gap = receipt.rescaling[inside].mean() - receipt.rescaling.mean()
            assert abs(gap) < 1e-8


def test_limits_of_attributes_on_new_rows():
    X, y, S = rows(10, n=600)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=S)
    limited = model.at(max_correlation={"sex": 0.02, "race": 1.0})
    receipt = limited.explain_fairness(X)
    race, sex = np.abs(receipt.parts).mean(axis=0)
    assert race < 0.3 * sex  # race has no limit of its own
    total = receipt.parts.sum(axis=1) + receipt.rescaling
    np.testing.assert_allclose(total, receipt.before - limited.predict(X), atol=1e-9)


# ------------------------------------------------------------------ columns


@pytest.mark.parametrize("removal", ["new_rows", "training_rows"])
@pytest.mark.parametrize("classes", [0, 3])
def test_columns_sum_to_the_part_of_each_attribute(removal, classes):
    X, y, S = rows(11, classes)
    kind = FairRidgeClassifier if classes else FairRidge
    model = kind(kernel="linear", removal=removal).fit(X, y, sensitive_features=S)
    receipt = model.explain_fairness(X)
    assert receipt.column_names == ("x0", "x1", "x2", "x3")
    np.testing.assert_allclose(receipt.columns.sum(axis=2), receipt.parts, atol=1e-10)
    # A column that does not vary changes nothing.
    constant = X.copy()
    constant[:, 0] = X[:, 0].mean()
    assert np.abs(model.explain_fairness(constant).columns[:, :, 0]).max() < 1e-10


# ------------------------------------------------------------------ decisions


@pytest.mark.parametrize("criterion", ["statistical_parity", "equalized_odds"])
@pytest.mark.parametrize("limit", [{"max_gap": 0.05}, {"min_ratio": 0.9}])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_part_of_an_attribute_is_its_multipliers(criterion, limit, classes):
    """Without the multipliers of an attribute, the margin differs by its part."""
    X, y, S = rows(12, classes, n=500)
    model = FairRidgeClassifier(criterion=criterion, **FIXED).fit(X, y, sensitive_features=S)
    model = model.at(**limit)
    fit, rule = model._fit_state.decisions, model._fit_state.rule.rule
    free = fit.path.points[0].rule
    receipt = model.explain_fairness(X)
    p, codes = fit.predictions(model._decision_scores(X))
    features = rule.features(p if classes == 3 else p[:, 1], codes)
    owner = np.concatenate([[g.block.attribute] * g.block.n_groups for g in fit.judged])
    cells = [None if g.block.cell is None else g.block.cell for g in fit.judged]
    sizes = [g.block.n_groups for g in fit.judged]
    base = np.repeat([0 if c is None else 1 + rule.cells.index(c) for c in cells], sizes)
    change = rule.code_coef - free.code_coef
    moves = np.any(rule.base_coef)
    for a, attribute in enumerate(receipt.names):
        coef = np.zeros((len(codes.T) + len(rule.base_coef), *change.shape[1:]))
        own = np.flatnonzero(owner == attribute)
        coef[own] = change[own]
        if moves:
            np.add.at(coef, len(codes.T) + base[own], change[own])
        expected = features @ coef
        found = receipt.parts[:, a]
        # They differ by the constant of the mean of the predicted codes, which counts as rescaling.
        np.testing.assert_allclose(
            found - found.mean(axis=0), expected - expected.mean(axis=0), atol=1e-10
        )
    assert np.ptp(receipt.rescaling, axis=0).max() < 1e-9
    total = receipt.parts.sum(axis=1) + receipt.rescaling
    np.testing.assert_allclose(total, receipt.before - receipt.after, atol=1e-9)


def test_the_favourable_class_may_be_the_first():
    X, y, S = rows(13, 2, n=400)
    model = FairRidgeClassifier(kernel="linear", equalize="decisions", pos_label=0)
    model.fit(X, y, sensitive_features=S)
    b = model.explain_fairness(X)
    np.testing.assert_allclose(b.after, model.decision_function(X), atol=1e-12)
    assert np.ptp(b.rescaling) < 1e-12
    total = b.parts.sum(axis=1) + b.rescaling
    np.testing.assert_allclose(total, b.before - b.after, atol=1e-10)
    np.testing.assert_allclose(b.columns.sum(axis=2), b.parts, atol=1e-10)
