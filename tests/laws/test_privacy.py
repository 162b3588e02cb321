"""Fits that are private in S: what leaves the fit depends on S through noisy sums alone (METHOD 15)."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairspan import FairGPClassifier, FairGPRegressor, FairRidge, FairRidgeClassifier
from fairspan.estimators import private_fit
from fairspan.exceptions import DataWarning
from fairspan.inputs.rows import read_training_data
from fairspan.method.folds import centre_within
from fairspan.method.privacy import NoisySums, SensitiveRows

pytestmark = pytest.mark.filterwarnings("ignore:noise_state=:fairspan.exceptions.DataWarning")

GROUPS = {"group": ["a", "b", "c"]}
KINDS = [FairRidge, FairRidgeClassifier, FairGPRegressor, FairGPClassifier]
CRITERIA = ["statistical_parity", "equalized_odds", "equal_opportunity"]


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch):
    monkeypatch.setattr(private_fit, "_SPENT", {})


def make(classes, n=600, seed=0):
    rng = np.random.default_rng(seed)
    S = pd.DataFrame({"group": np.array(["a", "b", "c"])[rng.integers(0, 3, n)]})
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.8 * (S["group"] == "a")
    y = X.sum(axis=1) + rng.normal(size=n)
    return X, (y > 0.5).astype(int) if classes else y, S


def fit(kind, X, y, S, **options):
    params = {
        "gamma": 0.1,
        "n_components": 30,
        "random_state": 0,
        "epsilon_sensitive": 4.0,
        "sensitive_groups": GROUPS,
        "noise_state": 5,
        **options,
    }
    return kind(**params).fit(X, y, sensitive_features=S)


def has_classes(kind):
    return kind in (FairRidgeClassifier, FairGPClassifier)


def of_no_group(model):
    """Every fitted number that the noisy sums do not enter, as bytes."""
    pilot, moments = model.pilot_, model.moments_
    parts = {
        "landmarks": model.landmarks_,
        "gamma": model.gamma_,
        "alpha": model.alpha_,
        "folds": moments.weight,
        "rows": moments.rows,
        "mean": moments.mean,
        "scatter": moments.scatter,
        "sketch": moments.row_sketch,
        "fingerprint": pilot.fingerprint,
        "residual": pilot.residual,
        "cells": pilot.cells,
        "coders": pilot.coders,
        "mean of y": model._solution.target_mean,
        "fold regressions of y": model._solution.new_rows.fold_bases[:, :, 0],
        "schema": model._schema,
        "parameters": model.get_params(),
    }
    return {name: pickle.dumps(value) for name, value in parts.items()}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
def test_nothing_but_noisy_sums_depends_on_s(kind, criterion):
    X, y, S = make(classes=True)
    other = pd.DataFrame({"group": np.repeat(["c", "b", "a"], [250, 250, 100])})
    found = []
    for values in (S, other):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            private_fit._SPENT.clear()
            model = fit(kind, X, y, values, criterion=criterion, epsilon_sensitive=20.0)
        about_noise = [w for w in log if "epsilon_sensitive hides" not in str(w.message)]
        found.append((of_no_group(model), [str(w.message) for w in about_noise]))
    assert found[0] == found[1]


def sums_without_s(monkeypatch):
    """Replace the noisy sums by numbers that do not depend on S."""

    def weights(self, share):
        return tuple(np.full((self.n_cells, n), 100.0) for n in self._sizes), 1.0

    def sums(self, functions, centres, share):
        rng = np.random.default_rng(functions.shape[2])
        parts = [rng.normal(size=(self.n_cells, n, functions.shape[2])) for n in self._sizes]
        return NoisySums(sums=tuple(s - s.mean(axis=1, keepdims=True) for s in parts), sd=1.0)

    monkeypatch.setattr(SensitiveRows, "weights", weights)
    monkeypatch.setattr(SensitiveRows, "sums", sums)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_noisy_sums_give_equal_models(kind, monkeypatch):
    sums_without_s(monkeypatch)
    X, y, S = make(has_classes(kind))
    other = S.iloc[::-1].reset_index(drop=True)
    models = []
    for values in (S, other):
        private_fit._SPENT.clear()
        models.append(fit(kind, X, y, values))
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_fitted_model_does_not_hold_the_codes(kind):
    X, y, _ = make(has_classes(kind))
    codes = np.arange(len(X)) % 3
    model = fit(kind, X, y, pd.DataFrame({"group": np.array(["a", "b", "c"])[codes]}))
    seen = set()

    def walk(value):
        if id(value) in seen or isinstance(value, str | bytes | int | float | type(None)):
            return
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            few = value.shape == codes.shape and 1 < len(np.unique(value)) < 20
            if few:  # groups could be told apart by them
                pairs = np.unique(np.column_stack([value, codes]), axis=0)
                assert len(pairs) > max(len(np.unique(value)), 3), "the codes can be read off"
        elif isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, list | tuple):
            for part in value:
                walk(part)
        elif hasattr(value, "__dict__"):
            assert not isinstance(value, SensitiveRows)
            walk(vars(value))

    walk(vars(model))


def folds_of(model, X, y, S, w):
    """Folds of the rows, which a pilot without S deals."""
    rows = read_training_data(model, model._config, X, y, S, None, w, reset=False)
    rows, pilot = replace(rows, sensitive={}), replace(model.pilot_, coders=())
    return pilot.folds(rows, pilot.encode(rows), pilot.counter())


@pytest.mark.parametrize("criterion", CRITERIA)
def test_without_noise_the_covariances_are_those_of_the_rows(criterion, monkeypatch):
    monkeypatch.setattr(SensitiveRows, "_noise", lambda _self, shape, _sd: np.zeros(shape))
    X, y, S = make(classes=True)
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    private = {"epsilon_sensitive": 4.0, "sensitive_groups": GROUPS, "random_state": 0}
    model = FairRidgeClassifier(gamma=0.1, n_components=30, criterion=criterion, **private)
    model.fit(X, y, sensitive_features=S, sample_weight=w)
    fitted, folds = model._solution.new_rows, folds_of(model, X, y, S, w)
    psi = model.pilot_.features.coordinates(X)
    A = np.einsum("nd,nd->n", psi, fitted.fold_bases[folds, :, 0])
    code = np.searchsorted(["a", "b", "c"], S["group"])
    cells = {"statistical_parity": [y >= 0], "equalized_odds": [y == 0, y == 1]}
    for block, cell in zip(fitted.blocks, cells.get(criterion, [y == 1]), strict=True):
        c = block.codes.whitening[code[cell]]
        weight = w[cell] / w[cell].sum()
        np.testing.assert_allclose((c * weight[:, None]).T @ c, np.eye(2), atol=1e-9)
        centred = centre_within(A[cell][:, None], folds[cell], w[cell])
        np.testing.assert_allclose(block.cov[:, :1], c.T @ (weight[:, None] * centred), atol=1e-10)


def test_no_dependence_is_expected_over_rows_and_noise():
    X, _, S = make(classes=False, n=20_000, seed=9)
    rng = np.random.default_rng(3)
    left = []
    for seed in range(40):
        private_fit._SPENT.clear()
        rows = np.zeros(len(X), dtype=bool)
        rows[rng.choice(len(X), 1000, replace=False)] = True
        y = X[rows].sum(axis=1) + rng.normal(size=1000)
        groups = S[rows].reset_index(drop=True)
        model = fit(FairRidge, X[rows], y, groups, noise_state=seed, epsilon_sensitive=2.0)
        left.append(np.corrcoef(model.predict(X[~rows]), S["group"][~rows] == "a")[0, 1])
    before = np.corrcoef(model.at(0).predict(X), S["group"] == "a")[0, 1]
    assert before > 0.15
    # Three standard errors of the mean; the correlation of 20,000 rows has one of .007 itself.
    assert abs(np.mean(left)) < 3 * np.hypot(np.std(left) / np.sqrt(len(left)), 0.007)


def test_a_second_fit_warns_of_the_sum_of_the_budgets():
    X, y, S = make(classes=False)
    fit(FairRidge, X, y, S, epsilon_sensitive=2.0)
    with pytest.warns(DataWarning, match=r"number 2 .* \(5, 2e-06\)-private by the sum"):
        fit(FairRidge, X, y, S, epsilon_sensitive=3.0)


def test_the_noise_is_new_in_every_fit_and_random_state_does_not_seed_it():
    X, y, S = make(classes=False)
    models = []
    for _ in range(2):
        private_fit._SPENT.clear()
        models.append(fit(FairRidge, X, y, S, noise_state=None, random_state=0))
    assert np.array_equal(models[0].landmarks_, models[1].landmarks_)
    assert not np.array_equal(models[0].predict(X), models[1].predict(X))
