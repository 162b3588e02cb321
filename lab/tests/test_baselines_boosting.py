"""Penalised boosting: derivatives by finite differences, the dial, the number of trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.problem import Attribute
from fairspan_lab.baselines._penalty import whitened_codes
from fairspan_lab.baselines.penalised_boosting import gradients, penalised_loss


def attribute(values, name="s"):
    values = np.asarray(values)
    text = values.astype(str) if values.dtype.kind in "iu" else values
    return {name: Attribute(name, text, np.zeros(len(values), bool), text.dtype.kind)}


def planted(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + 0.7 * s[:, None] * [1.0, 0.0, 1.0, 0.0]
    signal = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n)
    return X, signal, (signal > 1.0).astype(int), s


# ------------------------------------------------------------------ codes and the loss


@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity", "equalized_odds"])
def test_codes_are_whitened_in_each_cell(criterion):
    _, _, y, s = planted()
    C = whitened_codes(attribute(s), criterion, y == 1)
    q = 4 if criterion == "equalized_odds" else 2
    assert C.shape[1] == q
    np.testing.assert_allclose(C.T @ C / len(C), np.eye(q), atol=1e-9)
    np.testing.assert_allclose(C.mean(axis=0), 0.0, atol=1e-12)
    # No covariance with them means equal means in the cells.
    f = np.random.default_rng(1).normal(size=len(y)) + s
    f = f - C @ (C.T @ f) / len(y)
    cells = {"statistical_parity": [y >= 0], "equal_opportunity": [y == 1]}
    for cell in cells.get(criterion, [y == 1, y == 0]):
        assert np.ptp([f[cell & (s == j)].mean() for j in range(3)]) < 1e-9


def test_numbers_are_their_own_code():
    x = np.random.default_rng(0).normal(size=500)
    C = whitened_codes(attribute(x), "statistical_parity")
    np.testing.assert_allclose(np.abs(C[:, 0]), np.abs((x - x.mean()) / x.std()))
    with pytest.raises(ValueError, match="needs two classes"):
        whitened_codes(attribute(x), "equal_opportunity")


@given(st.integers(0, 10_000), st.booleans(), st.floats(0.0, 20.0))
def test_gradients_are_those_of_the_loss(seed, classes, mu):
    rng = np.random.default_rng(seed)
    n = 12
    f, codes = rng.normal(size=n), rng.normal(size=(n, 2))
    y = rng.integers(0, 2, n).astype(float) if classes else rng.normal(size=n)
    gradient, curvature = gradients(f, y, codes, mu, classes=classes)
    assert (curvature > 0).all()
    for i in range(n):
        step = np.zeros(n)
        step[i] = 1e-5
        up, down = (penalised_loss(f + d, y, codes, mu, classes=classes) for d in (step, -step))
        assert n * (up - down) / 2e-5 == pytest.approx(gradient[i], abs=1e-5 * (1 + mu))


# ------------------------------------------------------------------ the estimators


@pytest.fixture
def models():
    pytest.importorskip("lightgbm")
    from fairspan_lab.baselines import PenalisedBoosting, PenalisedBoostingClassifier

    return PenalisedBoosting, PenalisedBoostingClassifier


def spread(f, s, cell=slice(None)):
    f, s = f[cell], s[cell]
    return np.std([f[s == j].mean() for j in range(3)]) / f.std()


@pytest.mark.filterwarnings("ignore")
def test_along_the_dial_dependence_on_new_rows_falls(models):
    X, signal, y, s = planted(3000)
    new, more, _, s_new = planted(3000, 1)
    for model, target in zip(models, (signal, y), strict=True):
        found = []
        for mu in (0.0, 0.3, 3.0):
            fitted = model(mu, max_trees=120, random_state=0).fit(X, target, sensitive_features=s)
            found.append(fitted.decision_function(new) if target is y else fitted.predict(new))
        parities = [spread(f, s_new) for f in found]
        assert parities[0] > parities[1] > parities[2]
        assert parities[2] < 0.55 * parities[0]
        assert abs(np.corrcoef(found[0], more)[0, 1]) > (0.9 if target is signal else 0.75)


def test_without_a_penalty_it_is_plain_lightgbm(models):
    import lightgbm as lgb

    X, signal, _, s = planted(800)
    model = models[0](0.0, max_trees=10, random_state=0).fit(X, signal, sensitive_features=s)
    assert model.n_trees_ == 10
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state

    fit, _ = train_test_split(np.arange(800), test_size=0.2, random_state=check_random_state(0))
    params = {"objective": "l2", "num_leaves": 15, "learning_rate": 0.1, "verbosity": -1,
              "boost_from_average": False, "num_threads": 1}  # fmt: skip
    scaled = (signal[fit] - signal[fit].mean()) / signal[fit].std()
    twin = lgb.train(params, lgb.Dataset(X[fit], scaled), num_boost_round=10).predict(X)
    expected = signal[fit].mean() + signal[fit].std() * twin
    # LightGBM's own derivatives are rounded to 32 bits and may split otherwise on ties.
    assert np.corrcoef(model.predict(X), expected)[0, 1] > 0.999
    np.testing.assert_allclose(model.predict(X), expected, atol=0.05 * signal.std())


def test_the_number_of_trees_is_the_best_on_rows_held_out(models):
    X, _, y, s = planted(400)
    noise = np.random.default_rng(0).permutation(y)
    model = models[1](0.0, max_trees=200, random_state=0).fit(X, noise, sensitive_features=s)
    assert model.n_trees_ < 60  # nothing to learn
    again = models[1](0.0, max_trees=200, random_state=0).fit(X, noise, sensitive_features=s)
    np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))
