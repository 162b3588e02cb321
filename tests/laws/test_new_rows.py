"""Cross-fitted removal from moments equals regressions on rows, fold by fold (METHOD 12)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import FairRidge, FairRidgeClassifier
from fairspan.method.pilot import N_FOLDS
from tests.support.out_of_fold import out_of_fold

# Relative to the scale of y and of the codes, which is 1.
TOL = 1e-9

CASES = [
    ("statistical_parity", 0, "one"),
    ("statistical_parity", 2, "one"),
    ("statistical_parity", 3, "two"),
    ("statistical_parity", 0, "two"),
    ("equalized_odds", 2, "two"),
    ("equalized_odds", 0, "one"),
    ("equal_opportunity", 2, "one"),
]


def make(seed, classes, attributes, n=300):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.8 * group
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    y = y / y.std()
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    S = pd.DataFrame({"group": np.array(["a", "b", "c"])[group]})
    if attributes == "two":
        S["age"] = X[:, 1] + rng.normal(size=n)
    return X, y, S, rng.uniform(0.3, 2.0, n)


def fit(criterion, classes, X, y, S, w, **options):
    kind = FairRidgeClassifier if classes else FairRidge
    params = {"gamma": 0.2, "n_components": 25, "n_slices": 4, "random_state": 0, **options}
    est = kind(criterion=criterion, removal="new_rows", **params)
    return est.fit(X, y, sensitive_features=S, sample_weight=w)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(seed=st.integers(0, 2**16))
@settings(max_examples=4)
@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
def test_moments_of_folds_equal_regressions_on_rows(case, seed):
    criterion, classes, attributes = case
    X, y, S, w = make(seed, classes, attributes)
    est = fit(criterion, classes, X, y, S, w)
    fitted, rows = est._solution.new_rows, out_of_fold(est, X, y, S, w)
    A, L = rows.predictions, fitted.n_functions
    np.testing.assert_allclose(rows.scores[:, :L], A, atol=TOL)
    weight = w / w.sum()
    cov = (rows.scores * weight[:, None]).T @ rows.scores
    np.testing.assert_allclose(fitted.cov, cov, atol=TOL)
    np.testing.assert_allclose(
        fitted.cov_target, (rows.scores * weight[:, None]).T @ rows.target, atol=TOL
    )
    for block, codes, known in zip(fitted.blocks, rows.codes, rows.known, strict=True):
        inside = w[known].sum()
        expected = (codes * w[:, None]).T @ rows.scores / inside
        np.testing.assert_allclose(block.cov, expected, atol=TOL)
    for share in (0.0, 0.4, 1.0):
        errors = rows.errors(fitted.coefficients(share))
        assert fitted.error(share) == pytest.approx(float(weight @ errors), abs=TOL)


@given(seed=st.integers(0, 2**16), classes=st.sampled_from([0, 2, 3]))
@settings(max_examples=12)
@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
def test_the_share_of_the_expected_dependence_is_gone(seed, classes):
    """Cov(f_t, c) = (1 - t) Cov(f_0, c) where directions are removed whole; the error rises by t^2."""
    X, y, S, w = make(seed, classes, "one")
    est = fit("statistical_parity", classes, X, y, S, w, n_sensitive_directions="all")
    fitted = est._solution.new_rows
    (block,) = fitted.blocks
    scale = np.abs(block.cov @ fitted.first).max() + 1e-3
    if all(direction.weight == 1.0 for direction in block.directions):
        for share in (0.25, 0.7, 1.0, 1.3):
            np.testing.assert_allclose(
                block.cov @ fitted.coefficients(share),
                (1.0 - share) * (block.cov @ fitted.first),
                atol=1e-8 * scale,
            )
    first, last = fitted.centred_error(0.0), fitted.centred_error(1.0)
    for share in (0.3, 0.8):
        assert fitted.centred_error(share) == pytest.approx(first + share**2 * (last - first))


@given(seed=st.integers(0, 2**16))
@settings(max_examples=6)
@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
def test_names_and_order_of_groups_do_not_matter(seed):
    X, y, S, w = make(seed, 0, "one")
    renamed = S.replace({"group": {"a": "z", "b": "y", "c": "x"}})
    one, other = (fit("statistical_parity", 0, X, y, T, w) for T in (S, renamed))
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-8)


def test_the_model_is_the_average_of_the_models_of_the_folds():
    X, y, S, w = make(3, 0, "one")
    est = fit("statistical_parity", 0, X, y, S, w)
    fitted = est._solution.new_rows
    assert fitted.n_folds == N_FOLDS
    average = np.einsum("k,kdm->dm", fitted.share, fitted.fold_bases)
    weights = average @ fitted.coefficients(1.0)
    psi = est.pilot_.features.coordinates(X) - est._solution.mean
    np.testing.assert_allclose(est.predict(X), np.average(y, weights=w) + (psi @ weights)[:, 0])
