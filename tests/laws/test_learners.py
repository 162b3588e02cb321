"""Laws of removal over any learner: the dial, the fair end, row order, and the kernel as a learner."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from fairspan import FairClassifier, FairRegressor, FairRidge
from fairspan.estimators.learner_fit import fit_learners

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
SHARES = (0.0, 0.3, 0.8, 1.0)


def make(seed=0, n=400, classes=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 0.8 * group
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    S = pd.DataFrame(
        {"group": np.array(["a", "b", "c"])[group], "age": X[:, 1] + rng.normal(size=n)}
    )
    return X, y, S


ALL = {"n_sensitive_directions": "all"}
TWO = [LinearRegression(), DecisionTreeRegressor(max_depth=3)]
MODELS = {
    "linear": ("group", lambda: FairRegressor(LinearRegression(), **ALL)),
    "two learners": ("group", lambda: FairRegressor(TWO, **ALL)),
    "auto": ("group", lambda: FairRegressor(**ALL)),
    "slices": ("age", lambda: FairRegressor(TWO, n_slices=3, **ALL)),
    "value": ("age", lambda: FairRegressor(TWO, dependence="correlation", **ALL)),
}


@pytest.mark.parametrize("name", MODELS)
def test_covariance_and_error_follow_the_share(name):
    X, y, S = make()
    attribute, model = MODELS[name]
    fit = model().fit(X, y, sensitive_features=S[attribute])._solution.new_rows
    (block,) = [block for block in fit.blocks if block.codes.report.constrained]
    errors = [fit.centred_error(t) for t in SHARES]
    for t, error in zip(SHARES, errors, strict=True):
        expected = errors[0] + t**2 * (errors[-1] - errors[0])
        np.testing.assert_allclose(error, expected, rtol=1e-9)
        C = fit.coefficients(t)
        np.testing.assert_allclose(block.cov @ C, (1.0 - t) * block.cov @ fit.first, atol=1e-9)
    assert np.abs(block.cov @ fit.first).max() > 0.05


def test_moments_are_those_of_rows():
    X, y, S = make()
    S, model = S[["group"]], FairRegressor(TWO, **ALL)
    data = model.fit(X, y, sensitive_features=S)._read(X, y, S, None, None, reset=False)
    learners, sensitive = model._learners()
    found = fit_learners(model._config, data, learners, sensitive, None, 5, None)
    fit, f = found.solution.new_rows, found.on_basis
    centred = f.copy()
    for k in range(5):
        centred[found.folds == k] -= f[found.folds == k].mean(axis=0)
    np.testing.assert_allclose(centred.T @ centred / len(f), fit.cov, atol=1e-10)
    last = centred @ fit.last[:, 0]
    for label in "abc":
        indicator = (S["group"] == label).to_numpy(dtype=float)
        for k in range(5):
            indicator[found.folds == k] -= indicator[found.folds == k].mean()
        assert abs(indicator @ last / len(f)) < 1e-10
    error = np.mean((y - y.mean() - f @ fit.last[:, 0]) ** 2)
    np.testing.assert_allclose(error, fit.error(1.0), rtol=1e-9)


def test_fairness_0_is_the_average_of_fold_models():
    X, y, S = make()
    S = S[["group"]]
    model = FairRegressor(LinearRegression()).fit(X, y, sensitive_features=S).at(0.0)
    columns = model.pilot_.features.transformer
    A = np.column_stack([columns.transform(X), np.ones(len(X))])
    coef, *_ = np.linalg.lstsq(A, model.predict(X), rcond=None)
    np.testing.assert_allclose(A @ coef, model.predict(X), atol=1e-9)
    average = np.mean([m[0].predict(X) for m in columns.learners[0].models], axis=0)
    np.testing.assert_allclose(columns.transform(X)[:, 0], average, atol=1e-12)
    assert np.corrcoef(average, model.predict(X))[0, 1] > 0.999


def test_the_kernel_as_a_learner_is_the_kernel_estimator():
    X, y, S = make()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ridge = FairRidge("laplacian", random_state=0).fit(X, y, sensitive_features=S["group"])
    learner = FairRegressor("kernel", random_state=0).fit(X, y, sensitive_features=S["group"])
    for t in SHARES:
        np.testing.assert_allclose(
            learner.at(t).predict(X), ridge.at(t, dial="share").predict(X), atol=0.02 * y.std()
        )


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_row_order_and_group_names_do_not_matter(kind):
    X, y, S = make(classes=2 if kind == "classifier" else 0)
    order = np.random.default_rng(1).permutation(len(X))
    renamed = S["group"].map({"a": "z", "b": "a", "c": "k"})
    make_model = (
        (lambda: FairClassifier([LogisticRegression(), "kernel"]))
        if kind == "classifier"
        else (lambda: FairRegressor(["kernel", LinearRegression()]))
    )
    one = make_model().fit(X, y, sensitive_features=S["group"])
    other = make_model().fit(X[order], y[order], sensitive_features=renamed.to_numpy()[order])
    score = "decision_function" if kind == "classifier" else "predict"
    np.testing.assert_allclose(getattr(one, score)(X), getattr(other, score)(X), atol=1e-5)
