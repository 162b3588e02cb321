"""Fair PCA: no covariance with S, and as much variance as that allows."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA, KernelPCA
from tests.support.small import table

from fairspan_lab.baselines import FairPCA

X3, LABELS, GROUPS = table(100)
RNG = np.random.default_rng(0)
X = np.c_[X3, X3 @ RNG.normal(size=(3, 3)) + RNG.normal(size=(100, 3))]
AGE = X[:, 0] + X[:, 4]
WORDS = np.array(["a", "b", "c"])[np.arange(100) % 3]
ALL = {"sex": GROUPS, "age": AGE, "word": WORDS}


def cross_cov(Z, S):
    return (Z - Z.mean(axis=0)).T @ (S - S.mean(axis=0)) / len(Z)


def columns(rows=slice(None)):
    """ALL as numbers: indicators of the levels, and the age itself."""
    return np.c_[GROUPS, AGE, WORDS[:, None] == ["b", "c"]].astype(float)[rows]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_no_covariance_with_any_attribute(kernel):
    Z = FairPCA(2, kernel=kernel).fit_transform(X, sensitive_features=ALL)
    assert np.abs(cross_cov(Z, columns())).max() < 1e-10
    plain = PCA(2).fit_transform(X)
    assert np.abs(cross_cov(plain, columns())).max() > 0.05


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_equal_opportunity_is_within_the_favourable_class(kernel):
    model = FairPCA(2, kernel=kernel, criterion="equal_opportunity")
    Z = model.fit(X, LABELS, sensitive_features=ALL).transform(X)
    good = LABELS == 1
    assert np.abs(cross_cov(Z[good], columns(good))).max() < 1e-10
    assert np.abs(cross_cov(Z[~good], columns(~good))).max() > 1e-3
    other = FairPCA(2, kernel=kernel, criterion="eop", pos_label=0)
    Z = other.fit(X, LABELS, sensitive_features=ALL).transform(X)
    assert np.abs(cross_cov(Z[~good], columns(~good))).max() < 1e-10


def test_equal_opportunity_needs_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        FairPCA(2, criterion="equal_opportunity").fit(X, sensitive_features=GROUPS)


def test_components_are_those_of_the_null_space():
    """Another road: an orthonormal basis of the null space of N', then ordinary PCA in it."""
    model = FairPCA(2).fit(X, sensitive_features=ALL)
    null = scipy.linalg.null_space(cross_cov(X, columns()).T)
    assert null.shape[1] == 6 - model.n_removed_ == 2
    expected = PCA(2).fit(X @ null)
    np.testing.assert_allclose(
        model.explained_variance_, expected.explained_variance_ * 99 / 100, rtol=1e-9
    )
    found = np.abs(model.components_ @ (expected.components_ @ null.T).T)
    np.testing.assert_allclose(found, np.eye(2), atol=1e-7)
    np.testing.assert_allclose(model.transform(X).var(axis=0), model.explained_variance_)


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_no_fair_direction_has_more_variance(seed, size):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 5)) * rng.lognormal(size=5)
    s = rng.integers(0, 2, 30)
    s[:2] = 0, 1
    model = FairPCA(size).fit(rows, sensitive_features=s)
    Z = model.transform(rows)
    scale = rows.std()
    assert np.abs(cross_cov(Z, s[:, None].astype(float))).max() < 1e-10 * scale
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(size), atol=1e-9)
    gap = rows[s == 1].mean(axis=0) - rows[s == 0].mean(axis=0)
    others = rng.normal(size=(50, 5))
    others -= np.outer(others @ gap, gap) / (gap @ gap)
    others /= np.linalg.norm(others, axis=1)[:, None]
    assert (rows @ others.T).var(axis=0).max() <= Z[:, 0].var() * (1 + 1e-9)


def test_with_all_rows_it_is_kernel_pca_of_the_fair_kernel():
    """S unrelated to X: nothing to remove but a direction of chance; compare after removing it."""
    model = FairPCA(3, kernel="rbf", gamma=0.2, n_landmarks="all").fit(X, sensitive_features=GROUPS)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    centre = np.eye(100) - 1.0 / 100
    K = centre @ K @ centre
    t = K @ (GROUPS - GROUPS.mean())
    deflated = K - np.outer(t, t) / ((GROUPS - GROUPS.mean()) @ t)
    twin = KernelPCA(3, kernel="precomputed").fit_transform(deflated)
    Z = model.transform(X)
    signs = np.sign((Z * twin).sum(axis=0))
    np.testing.assert_allclose(Z, twin * signs, atol=1e-6)


def test_an_attribute_without_covariance_removes_nothing():
    s = np.repeat([0, 1], 100)
    rows = np.concatenate([X, X])
    model = FairPCA(6).fit(rows, sensitive_features=s)
    assert model.n_removed_ == 0
    np.testing.assert_allclose(
        np.abs(model.transform(rows)), np.abs(PCA(6).fit_transform(rows)), atol=1e-8
    )


def test_names_of_the_output():
    model = FairPCA(2).fit(X, sensitive_features=GROUPS)
    assert list(model.get_feature_names_out()) == ["fairpca0", "fairpca1"]
