"""FERM: the problem it states is the problem it solves, and the groups are equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from tests.golden.baselines import Rows, objective, primal_objective
from tests.support.small import table

from fairspan_lab.baselines import FERM, LinearFERM
from fairspan_lab.baselines.ferm import _reduction

X, Y, S = table(120)
SIGNS = 2.0 * Y - 1.0
ROWS = Rows(X, S[:, None].astype(float), SIGNS)


def gap(scores, y=Y, s=S, positive=1):
    """Difference of mean scores between groups among the positives."""
    rows = y == positive
    return scores[rows & (s == 1)].mean(axis=0) - scores[rows & (s == 0)].mean(axis=0)


def fit(model, y=Y):
    return model.fit(X, y, sensitive_features=S)


@pytest.mark.parametrize("model", [LinearFERM(), LinearFERM(reduction="authors"), FERM(gamma=0.5)])
def test_equal_means_among_the_positives_and_not_without(model):
    assert abs(gap(fit(model).decision_function(X))) < 1e-10
    plain = SVC(kernel="linear" if isinstance(model, LinearFERM) else "rbf", gamma=0.5)
    assert abs(gap(plain.fit(X, Y).decision_function(X))) > 1e-2


@given(st.integers(0, 10_000), st.floats(-3, 1), st.floats(-4, 1))
def test_equal_means_whatever_the_data(seed, log_c, log_gamma):
    rng = np.random.default_rng(seed)
    s = np.arange(30) % 2
    rows = rng.normal(size=(30, 2)) + s[:, None] * rng.normal(size=2)
    y = np.where(np.arange(30) < 8, 1, rng.integers(0, 2, 30))
    y[-1] = 0
    for model in (LinearFERM(10**log_c), FERM(10**log_c, gamma=10**log_gamma)):
        scores = model.fit(rows, y, sensitive_features=s).decision_function(rows)
        scale = max(1.0, float(np.abs(scores).max()))
        assert abs(gap(scores, y, s)) < 1e-7 * scale


@pytest.mark.parametrize("reduction", ["projection", "authors"])
def test_linear_weights_are_orthogonal_to_the_difference(reduction):
    model = fit(LinearFERM(reduction=reduction))
    u = model.mean_difference_
    np.testing.assert_allclose(u, gap(X), atol=1e-12)
    assert abs(model.coef_[0] @ u) < 1e-12 * np.linalg.norm(u)
    by_hand = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), by_hand)


def test_the_authors_reduction_is_their_change_of_features():
    model = fit(LinearFERM(reduction="authors"))
    u = gap(X)
    i = np.argmax(np.abs(u))
    changed = np.delete(X - np.outer(X[:, i], u / u[i]), i, axis=1)
    plain = SVC(kernel="linear", tol=1e-5).fit(changed, Y)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(changed), atol=1e-8
    )


def test_the_authors_reduction_takes_the_largest_entry_in_size():
    # The one positive entry is tiny: their argmax would divide by it.
    matrix = _reduction(np.array([-4.0, 1e-9, -5.0]), "authors", tiny=0.0)
    np.testing.assert_allclose(matrix, [[1.0, 0.0], [0.0, 1.0], [-0.8, 2e-10]])


def test_linear_is_the_kernel_machine_with_a_linear_kernel():
    linear, kernel = fit(LinearFERM(tol=1e-8)), fit(FERM(kernel="linear", tol=1e-8))
    np.testing.assert_allclose(linear.decision_function(X), kernel.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(("C", "gamma"), [(1.0, 0.5), (30.0, 0.1)])
def test_the_objective_is_the_primal_minimum(C, gamma, tolerance):
    pytest.importorskip("cvxpy")
    model = fit(FERM(C, gamma=gamma, tolerance=tolerance, tol=1e-7))
    primal = primal_objective(ROWS, C, gamma, tolerance)
    assert objective(model, ROWS) == pytest.approx(primal, rel=1e-5)
    assert abs(model.disparity_) <= tolerance * (1 + 1e-3) + 1e-9
    assert model.disparity_ == pytest.approx(gap(model.decision_function(X)), abs=1e-9)


def test_a_tolerance_is_used_up_or_not_needed():
    plain = fit(FERM(gamma=0.5, tolerance=10.0))
    assert plain.deflation_ == 0.0
    expected = SVC(gamma=0.5, tol=1e-5).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(plain.decision_function(X), expected, atol=1e-9)
    open_gap = abs(plain.disparity_)
    found = [fit(FERM(gamma=0.5, tolerance=t * open_gap)) for t in (0.0, 0.25, 0.5, 0.75)]
    shares = [abs(model.disparity_) / open_gap for model in found]
    np.testing.assert_allclose(shares, [0.0, 0.25, 0.5, 0.75], atol=1e-3)
    deflations = [model.deflation_ for model in found]
    assert deflations == sorted(deflations, reverse=True)
    assert deflations[0] == 1.0


def test_the_authors_dual():
    cp = pytest.importorskip("cvxpy")
    C, gamma = 1.0, 0.5
    model = fit(FERM(C, gamma=gamma, solver="authors"))
    assert abs(gap(model.decision_function(X))) < 1e-6
    exact = fit(FERM(C, gamma=gamma, tol=1e-7))
    assert objective(model, ROWS) > objective(exact, ROWS) * (1 + 1e-4)
    # Their problem by another solver.
    K = rbf_kernel(X, gamma=gamma)
    positive = Y == 1
    first, second = positive & (S == 0), positive & (S == 1)
    t = K[:, second].mean(axis=1) - K[:, first].mean(axis=1)
    alpha = cp.Variable(len(Y))
    value = 0.5 * cp.quad_form(alpha, cp.psd_wrap(K * np.outer(SIGNS, SIGNS))) - cp.sum(alpha)
    limits = [alpha >= 0, alpha <= C, SIGNS @ alpha == 0, (SIGNS * t) @ alpha == 0]
    cp.Problem(cp.Minimize(value), limits).solve(solver=cp.OSQP, eps_abs=1e-9, eps_rel=1e-9)
    raw = model.decision_function(X) - model.intercept_
    np.testing.assert_allclose(raw, K @ (SIGNS * alpha.value), atol=1e-4)
    # Intercept: over 0 < alpha < C only.
    share = np.abs(model.dual_coef_) / C
    free = share < 1.0
    assert 0 < free.sum() < len(free)
    left = np.sign(model.dual_coef_) - (model.decision_function(model.X_fit_) - model.intercept_)
    assert model.intercept_ == pytest.approx(left[free].mean())
    assert model.intercept_ != pytest.approx(left.mean(), abs=1e-3)


def test_the_favourable_class_can_be_the_other():
    y = np.where(Y == 1, "good", "bad")  # "good" is the second in sorted order
    as_default, other = fit(FERM(gamma=0.5), y), fit(FERM(gamma=0.5, pos_label="bad"), y)
    assert list(other.classes_) == ["bad", "good"]
    scores = other.decision_function(X)
    assert abs(gap(scores, y, positive="bad")) < 1e-10
    assert abs(gap(scores, y, positive="good")) > 1e-3
    assert abs(gap(as_default.decision_function(X), y, positive="good")) < 1e-10


@pytest.mark.parametrize("model", [LinearFERM(), LinearFERM(reduction="authors"), FERM(gamma=0.5)])
def test_without_disparity_it_is_the_plain_machine(model):
    half = X[:40]
    rows, y = np.concatenate([half, half]), np.concatenate([Y[:40], Y[:40]])
    s = np.repeat([0, 1], 40)
    found = model.fit(rows, y, sensitive_features=s)
    plain = SVC(kernel="linear" if isinstance(model, LinearFERM) else "rbf", gamma=0.5, tol=1e-5)
    expected = plain.fit(rows, y).decision_function(rows)
    np.testing.assert_allclose(found.decision_function(rows), expected, atol=1e-4)
    assert getattr(found, "deflation_", 0.0) == 0.0


def test_what_it_cannot_handle_is_said():
    with pytest.raises(ValueError, match=r"handles two groups; .* 3 distinct values"):
        FERM().fit(X, Y, sensitive_features=np.arange(120) % 3)
    with pytest.raises(ValueError, match=r"handles one protected attribute; .* has 2"):
        LinearFERM().fit(X, Y, sensitive_features=np.c_[S, 1 - S])
    with pytest.raises(
        ValueError, match="No row of the favourable class has 'sensitive_feature_0'"
    ):
        LinearFERM().fit(X, Y, sensitive_features=np.where(Y == 1, 1, S * 0))
    with pytest.raises(ValueError, match="n_features=1"):
        LinearFERM(reduction="authors").fit(X[:, :1], Y, sensitive_features=S)


def test_other_kernels():
    def product(A, B):
        return (1.0 + A @ B.T) ** 2

    named = fit(FERM(kernel="poly", gamma=1.0, kernel_params={"degree": 2, "coef0": 1.0}))
    own = fit(FERM(kernel=product))
    np.testing.assert_allclose(named.decision_function(X), own.decision_function(X), atol=1e-6)
