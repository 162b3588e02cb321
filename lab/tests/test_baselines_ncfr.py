"""NCFR: the closed forms are the optimum of the nonconvex problem, and keep its bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from tests.golden.baselines import ncfr_closed_form, ncfr_convex_form

from fairspan_lab.baselines import NCFR


def data(seed=0, n=150, p=4, q=2):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n, q)) * rng.lognormal(size=q) + 3.0
    X = rng.normal(size=(n, p)) + S @ rng.normal(size=(q, p))
    y = X @ rng.normal(size=p) + S @ rng.normal(size=q) + rng.normal(size=n) + 5.0
    return X, S, y


X, S, Y = data()


def fit(**params):
    return NCFR(**params).fit(X, Y, sensitive_features=S)


def predict(model):
    return model.predict(X, sensitive_features=S)


def share(prediction, columns=S):
    """R^2 of the prediction on S."""
    return LinearRegression().fit(columns, prediction).score(columns, prediction)


def covariances(seed, p=4, q=2):
    """Vs, vs, Vu, vu of a problem as the estimator sees it."""
    columns, sensitive, y = data(seed, p=p, q=q)
    sensitive = (sensitive - sensitive.mean(axis=0)) / sensitive.std(axis=0)
    residuals = columns - LinearRegression().fit(sensitive, columns).predict(sensitive)
    y, n = (y - y.mean()) / y.std(), len(y)
    residuals /= residuals.std(axis=0)
    return tuple(
        part / n
        for part in (
            sensitive.T @ sensitive, sensitive.T @ y, residuals.T @ residuals, residuals.T @ y
        )
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("eta", [0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    ("penalty", "ridge"), [("both", 0.0), ("both", 0.3), ("objective", 0.01), ("objective", 0.3)]
)
def test_closed_forms_are_the_convex_optimum(seed, eta, penalty, ridge):
    Vs, vs, Vu, vu = covariances(seed)
    pytest.importorskip("cvxpy")
    found = ncfr_closed_form(Vs, vs, Vu, vu, eta, ridge, penalty)
    expected = ncfr_convex_form(Vs, vs, Vu, vu, eta, ridge, penalty)
    np.testing.assert_allclose(found, expected, atol=1e-4)  # the solver's accuracy


@given(st.integers(0, 1000), st.floats(0.0, 1.0), st.floats(-3.0, 1.0))
def test_no_feasible_point_nearby_is_better(seed, eta, log_ridge):
    """Local optimality, without a solver: random feasible moves never lower the objective."""
    ridge = 10.0**log_ridge
    Vs, vs, Vu, vu = covariances(seed % 20)
    a, b = np.split(ncfr_closed_form(Vs, vs, Vu, vu, eta, ridge, "objective"), [len(vs)])

    def value(a, b):
        fit = a @ Vs @ a + b @ Vu @ b - 2 * vs @ a - 2 * vu @ b
        return fit + ridge * (a @ a + b @ b)

    def excess(a, b):
        return (1 - eta) * a @ Vs @ a - eta * b @ Vu @ b

    scale = max(1.0, abs(value(a, b)))
    assert excess(a, b) <= 1e-9 * scale
    rng = np.random.default_rng(seed)
    for step in 10.0 ** rng.uniform(-4, 0, size=20):
        a2, b2 = a + step * rng.normal(size=len(a)), b + step * rng.normal(size=len(b))
        if excess(a2, b2) > 0:  # back to the bound along a
            a2 = a2 * np.sqrt(eta * (b2 @ Vu @ b2) / ((1 - eta) * (a2 @ Vs @ a2)))
        assert value(a2, b2) >= value(a, b) - 1e-8 * scale


@pytest.mark.parametrize("penalty", ["objective", "both"])
@pytest.mark.parametrize("eta", [0.0, 0.01, 0.1, 0.3])
def test_the_share_is_the_bound(eta, penalty):
    model = fit(eta=eta, ridge=0.0, penalty=penalty)
    assert share(predict(model)) == pytest.approx(eta, abs=1e-9)
    assert model.explained_share_ == pytest.approx(eta, abs=1e-9)
    for column in S.T:
        assert abs(np.corrcoef(predict(model), column)[0, 1]) <= np.sqrt(eta) + 1e-9


def test_with_a_ridge_the_objective_form_keeps_the_bound_of_its_own_covariances():
    assert fit(eta=0.1, ridge=5.0).explained_share_ == pytest.approx(0.1, abs=1e-9)
    assert fit(eta=0.1, ridge=5.0, penalty="both").explained_share_ != pytest.approx(0.1, abs=1e-4)


def test_eta_one_is_least_squares():
    model = fit(eta=1.0, ridge=0.0)
    expected = LinearRegression().fit(np.c_[X, S], Y).predict(np.c_[X, S])
    np.testing.assert_allclose(predict(model), expected, atol=1e-8)


@pytest.mark.parametrize("penalty", ["objective", "both"])
def test_eta_one_with_a_ridge_is_two_ridge_regressions(penalty):
    ridge, Z = 3.0, (S - S.mean(axis=0)) / S.std(axis=0)
    U = X - Ridge(ridge).fit(Z, X).predict(Z)
    U /= U.std(axis=0)
    expected = Y.mean() + sum(
        Ridge(ridge, fit_intercept=False).fit(part, Y - Y.mean()).predict(part) for part in (Z, U)
    )
    np.testing.assert_allclose(predict(fit(eta=1.0, ridge=ridge, penalty=penalty)), expected)


def test_a_wider_bound_never_fits_worse():
    errors = [np.mean((predict(fit(eta=e, ridge=0.0)) - Y) ** 2) for e in np.linspace(0, 1, 11)]
    assert np.all(np.diff(errors) <= 1e-10)
    assert errors[0] > errors[-1] + 0.1


def test_units_of_the_attributes_and_the_target_do_not_matter():
    base = predict(fit(eta=0.05, ridge=2.0))
    scaled = NCFR(0.05, ridge=2.0).fit(X, 10 * Y + 1, sensitive_features=S * [100.0, 0.01] - 7)
    found = scaled.predict(X, sensitive_features=S * [100.0, 0.01] - 7)
    np.testing.assert_allclose(found, 10 * base + 1, rtol=1e-7)


def test_a_hopeless_target_stays_within_the_bound():
    """Y follows S alone: b has nothing to pay with, so a must go."""
    for penalty in ("objective", "both"):
        # U is made exactly uncorrelated with y: no direction of it helps.
        residual = X - LinearRegression().fit(np.c_[S, Y], X).predict(np.c_[S, Y])
        model = NCFR(0.1, ridge=1.0, penalty=penalty).fit(residual, Y, sensitive_features=S)
        found = model.predict(residual, sensitive_features=S)
        assert np.abs(found - Y.mean()).max() < np.abs(Y - Y.mean()).max()
        assert model.explained_share_ <= 0.1 + 1e-6
        assert (model.explained_share_ == 0.0) == (penalty == "both")


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_features_that_are_s_or_constant_or_twice_there(ridge):
    wide = np.c_[X, S[:, 0], np.ones(len(X)), X[:, 0]]
    found = NCFR(0.05, ridge=ridge).fit(wide, Y, sensitive_features=S)
    prediction = found.predict(wide, sensitive_features=S)
    assert np.isfinite(prediction).all()
    if ridge == 0.0:
        np.testing.assert_allclose(prediction, predict(fit(eta=0.05, ridge=0.0)), atol=1e-7)


def test_text_attributes_become_indicators():
    group = np.array(["a", "b", "c"])[np.arange(150) % 3]
    model = NCFR(0.02, ridge=0.0).fit(X, Y + (group == "b"), sensitive_features=group)
    prediction = model.predict(X, sensitive_features=group)
    dummies = (group[:, None] == ["b", "c"]).astype(float)
    assert share(prediction, dummies) <= 0.02 + 1e-9
    with pytest.raises(ValueError, match="never seen"):
        model.predict(X[:1], sensitive_features=np.array(["d"]))


def test_kernel_is_two_kernel_ridge_regressions_scaled():
    ridge, gamma, eta = 0.7, 0.2, 0.3
    Z = (S - S.mean(axis=0)) / S.std(axis=0)
    U = X - Ridge(ridge).fit(Z, X).predict(Z)
    U /= U.std(axis=0)
    y = Y - Y.mean()
    parts = [
        KernelRidge(alpha=ridge, kernel="rbf", gamma=gamma).fit(part, y).predict(part)
        for part in (Z, U)
    ]
    na, nb = (np.sqrt(part @ y) for part in parts)  # y'K(K + ridge)^-1 y
    tau = np.sqrt(eta / (1 - eta))
    assert na > tau * nb  # the bound is active
    rb = (nb + tau * na) / (1 + tau**2)
    model = fit(eta=eta, ridge=ridge, features="kernel", gamma=gamma)
    expected = Y.mean() + tau * rb / na * parts[0] + rb / nb * parts[1]
    np.testing.assert_allclose(predict(model), expected, atol=1e-8)
    assert model.explained_share_ == pytest.approx(eta)


def test_kernel_is_not_fair_at_eta_zero():
    """The documented limit: a kernel of linear residuals still carries S."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=400)
    x = s**2 + 0.1 * rng.normal(size=400)  # uncorrelated with s, not independent
    y = np.abs(s)
    rows, kernel = x[:, None], NCFR(0.0, ridge=0.1, features="kernel", gamma=1.0)
    found = kernel.fit(rows, y, sensitive_features=s).predict(rows, sensitive_features=s)
    assert abs(np.corrcoef(found, s**2)[0, 1]) > 0.5


def test_random_features():
    model = fit(eta=0.0, ridge=0.0, features="rff", gamma=0.1, expansion=3, random_state=0)
    assert model.coef_residual_.shape == (12,)
    assert share(predict(model)) < 1e-8
    same = fit(eta=0.0, ridge=0.0, features="rff", gamma=0.1, expansion=3, random_state=0)
    assert np.array_equal(predict(model), predict(same))
    # Without a ridge the scale of a residual cannot matter; with one it does.
    for ridge, equal in ((0.0, True), (10.0, False)):
        both = [
            predict(fit(ridge=ridge, features="rff", gamma=0.1, standardise=how, random_state=0))
            for how in ("all", "authors")
        ]
        assert np.allclose(*both, atol=1e-6) == equal


def test_a_target_of_text_is_refused_with_its_type(rng):
    X, s = rng.normal(size=(60, 2)), np.arange(60) % 2
    with pytest.raises(ValueError, match="NCFR needs numbers"):
        NCFR().fit(X, np.where(s == 1, "a", "b").astype(object), sensitive_features=s)
