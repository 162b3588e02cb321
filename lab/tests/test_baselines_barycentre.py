"""Barycentre regression: two normal groups by hand, equal distributions, the dial."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from fairspan_lab.baselines import BarycentreRegression
from fairspan_lab.baselines.barycentre import Quantiles


class FirstColumn(RegressorMixin, BaseEstimator):
    """Predicts its first column, so that the distribution of predictions is known."""

    def fit(self, X, y):  # noqa: ARG002
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return X[:, 0]


def two_normals(n=40_000, seed=0):
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.3).astype(int)
    z = rng.normal(size=n)
    return np.where(s == 1, 2.0 + 3.0 * z, -1.0 + z), s, z


def test_two_normal_groups_meet_at_the_mean_of_their_quantile_functions():
    f, s, z = two_normals()
    model = BarycentreRegression(estimator=FirstColumn(), holdout=0.5, random_state=0)
    model.fit(f[:, None], f, sensitive_features=s)
    middle = np.abs(z) < 1.5  # tails of a sample are rough
    expected = 0.7 * (-1.0 + z) + 0.3 * (2.0 + 3.0 * z)
    found = model.predict(f[:, None], sensitive_features=s)
    assert np.abs(found - expected)[middle].max() < 0.1
    assert np.abs(found - expected)[middle].mean() < 0.03
    assert stats.ks_2samp(found[s == 1], found[s == 0]).statistic < 0.02
    assert stats.ks_2samp(f[s == 1], f[s == 0]).statistic > 0.5


def test_the_dial_is_a_convex_combination():
    f, s, _ = two_normals(2000)
    outputs = [
        BarycentreRegression(share, estimator=FirstColumn(), random_state=0)
        .fit(f[:, None], f, sensitive_features=s)
        .predict(f[:, None], sensitive_features=s)
        for share in (0.0, 0.25, 1.0)
    ]
    np.testing.assert_array_equal(outputs[0], f)
    np.testing.assert_allclose(outputs[1], 0.75 * outputs[0] + 0.25 * outputs[2])


def test_order_within_a_group_stays():
    f, s, _ = two_normals(3000, 1)
    model = BarycentreRegression(estimator=FirstColumn(), random_state=0)
    found = model.fit(f[:, None], f, sensitive_features=s).predict(f[:, None], sensitive_features=s)
    for j in (0, 1):
        order = np.argsort(f[s == j])
        assert (np.diff(found[s == j][order]) >= -1e-12).all()


def test_ranks_of_ties_are_their_middle():
    q = Quantiles.of(np.array([1.0, 1.0, 1.0, 2.0]))
    np.testing.assert_allclose(q.rank(np.array([0.0, 1.0, 2.0, 3.0])), [0.375, 0.375, 0.875, 0.875])
    np.testing.assert_allclose(q.value(np.array([0.0, 0.375, 0.625, 1.0])), [1.0, 1.0, 1.5, 2.0])


def test_attributes_with_many_values_are_cut_and_combined():
    rng = np.random.default_rng(3)
    s, age = rng.integers(0, 2, 3000), rng.normal(size=3000)
    X = rng.normal(size=(3000, 2)) + s[:, None] + age[:, None]
    y = X[:, 0] + 0.5 * rng.normal(size=3000)
    S = {"sex": s, "age": age}
    model = BarycentreRegression(estimator=LinearRegression(), n_slices=3, random_state=0)
    found = model.fit(X, y, sensitive_features=S).predict(X, sensitive_features=S)
    assert len(model.groups_) == 6
    assert model.shares_.sum() == pytest.approx(1.0)
    free = BarycentreRegression(0.0, estimator=LinearRegression(), n_slices=3, random_state=0)
    plain = free.fit(X, y, sensitive_features=S).predict(X, sensitive_features=S)
    assert abs(np.corrcoef(plain, age)[0, 1]) > 0.5
    assert abs(np.corrcoef(found, s)[0, 1]) < 0.05
    # Within a slice age still varies.
    assert abs(np.corrcoef(found, age)[0, 1]) < 0.4
    alone = np.r_[0, np.ones(2999, int)]
    with pytest.raises(ValueError, match="two rows of every combination"):
        model.fit(X, y, sensitive_features=alone)
