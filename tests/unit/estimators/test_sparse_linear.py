from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from fairspan.estimators import sparse_linear
from fairspan.estimators.sparse_linear import fit_linear

K = 4


def problem(n=240, p=8, m=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 10.0, p) + rng.normal(size=p)
    Y = (X[:, :2] - X[:, :2].mean(0)) / X[:, :2].std(0) @ rng.normal(size=(2, m))
    return X, Y + rng.normal(size=(n, m)), np.arange(n) % K


def fit(X, Y, folds, *, labels=None, vectors=None, known=None, weight=None):
    used = np.ones(len(X)) if weight is None else weight
    share = np.bincount(folds, used) / used.sum()
    return fit_linear(X, Y, labels, vectors, known, folds, weight, share)


def test_a_fold_is_an_elastic_net_of_the_other_rows(monkeypatch):
    X, Y, folds = problem(m=1)
    penalty = 0.05
    monkeypatch.setattr(sparse_linear, "_L1_SHARES", (0.5,))
    monkeypatch.setattr(sparse_linear, "_TOLERANCE", 1e-12)
    Z = (X - X.mean(0)) / X.std(0)
    largest = np.abs(Z.T @ (Y[:, 0] - Y[:, 0].mean()) / len(Y)).max()
    monkeypatch.setattr(sparse_linear, "_PENALTIES", np.array([0.5 * penalty / largest]))
    models = fit(X, Y, folds)
    for k in range(K):
        rows = folds != k
        net = ElasticNet(alpha=penalty, l1_ratio=0.5, tol=1e-12).fit(Z[rows], Y[rows, 0])
        predicted = models.predict(k, X)[:, 0]
        np.testing.assert_allclose(predicted, net.predict(Z), atol=1e-8)


def test_columns_of_noise_are_left_out():
    X, Y, folds = problem(n=800, p=40)
    models = fit(X, Y, folds)
    used = np.abs(models.coef * X.std(0)[:, None]) > 1e-8
    assert used[:, :2].any(axis=2).all()
    assert used[:, 2:].any(axis=2).mean() < 0.4


def test_a_rotation_of_the_outputs_rotates_the_predictions():
    X, Y, folds = problem()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0]
    one, other = fit(X, Y, folds), fit(X, Y @ turn, folds)
    np.testing.assert_allclose(one.average(X) @ turn, other.average(X), atol=1e-4)


def test_whole_weights_are_copies_of_rows():
    X, Y, folds = problem()
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    again = np.repeat(np.arange(len(X)), weight)
    one, other = (
        fit(X, Y, folds, weight=weight.astype(float)),
        fit(X[again], Y[again], folds[again]),
    )
    # Columns are scaled by all rows, which changes the penalty a little.
    assert np.corrcoef(one.average(X).ravel(), other.average(X).ravel())[0, 1] > 0.999


def test_rows_that_are_not_known_do_not_count():
    X, Y, folds = problem()
    known = np.random.default_rng(3).random(len(X)) < 0.7
    other = np.where(known[:, None], Y, 1e3)
    one, two = fit(X, Y, folds, known=known), fit(X, other, folds, known=known)
    np.testing.assert_array_equal(one.average(X), two.average(X))


def test_outputs_that_nothing_explains_are_their_mean():
    X, Y, folds = problem()
    models = fit(np.ones((len(X), 3)), Y, folds)
    for k in range(K):
        np.testing.assert_allclose(models.predict(k, np.ones((1, 3)))[0], Y[folds != k].mean(0))


def test_two_classes_are_predicted_by_their_probability():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 3))
    labels = (rng.random(4000) < 1.0 / (1.0 + np.exp(-4.0 * X[:, 0]))).astype(np.intp)
    vectors, folds = np.array([[-1.0], [2.0]]), np.arange(4000) % K
    models = fit(X, vectors[labels], folds, labels=labels, vectors=vectors)
    probability = (models.average(X)[:, 0] + 1.0) / 3.0
    assert probability.min() > 0.0
    assert probability.max() < 1.0
    np.testing.assert_allclose(
        probability, 1.0 / (1.0 + np.exp(-4.0 * X[:, 0])), atol=0.08
    )  # 4,000 rows


def test_a_class_that_a_complement_lacks_has_probability_zero():
    X, _, folds = problem(n=40, m=1)
    labels = np.where(folds == 0, 2, (X[:, 0] > np.median(X[:, 0])).astype(int)).astype(np.intp)
    vectors = np.array([[0.0], [1.0], [50.0]])
    models = fit(X, vectors[labels], folds, labels=labels, vectors=vectors)
    assert models.link is not None
    assert models.predict(0, X).max() <= 1.0


@pytest.mark.parametrize("linked", [True, False])
def test_training_rows_are_read_by_models_that_did_not_see_them(linked):
    X, Y, folds = problem()
    labels = (Y[:, 0] > 0.0).astype(np.intp)
    vectors = np.array([[0.0, 1.0], [1.0, 0.0]])
    models = fit(X, vectors[labels], folds, labels=labels, vectors=vectors)
    models = models if linked else replace(models, link=None)
    unseen, average = models.of_training_rows(X, folds)
    for k in range(K):
        np.testing.assert_allclose(unseen[folds == k], models.predict(k, X[folds == k]))
    np.testing.assert_allclose(average, models.average(X))
