"""Dependence on new rows of models that remove it on the training rows, estimated from refits."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.estimators.likelihood_metric import LikelihoodMetric
from fairspan.method.accumulate import MomentsPass, accumulate
from fairspan.method.solution import solve
from fairspan.method.spaces import locate

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")

TRAINING = {"removal": "training_rows", "gamma": 0.1, "random_state": 0}


def people(n, rng, share=0.5):
    s = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s[:, None]
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n), s


def folds_of(est, X, y, S, w=None):
    data = est._read(X, y, S, None, w, reset=False)
    encoded = est.pilot_.encode(data)
    return data, encoded, est.pilot_.folds(data, encoded, est.pilot_.counter())


# ------------------------------------------------------------------ against refits on rows


@pytest.mark.parametrize("fairness", [0.0, 0.4, 1.0])
def test_the_estimate_is_that_of_models_refitted_on_rows(fairness):
    """One code, weights: every number of the formula from FairRidge on the rows of each complement."""
    rng = np.random.default_rng(1)
    X, y, s = people(300, rng)
    w = rng.uniform(0.5, 2.0, 300)
    params = {**TRAINING, "landmarks": X[:40], "n_components": 40}
    est = FairRidge(fairness=fairness, **params).fit(X, y, sensitive_features=s, sample_weight=w)
    eta = est._solution.eta_y
    _, _, folds = folds_of(est, X, y, s, w)
    group = np.where(s == 1, 1.0, -1.0)

    def moments(model, rows):
        """Covariance with the code, and variance."""
        share, f = w[rows] / w[rows].sum(), model.predict(X[rows])
        f = f - share @ f
        c = code[rows] - share @ code[rows]
        return share @ (c * f), share @ f**2

    p = w[s == 1].sum() / w.sum()
    code = group / (2.0 * np.sqrt(p * (1.0 - p)))
    every = np.ones(300, dtype=bool)
    cov, variance = moments(est, every)
    gaps, predicted = [], []
    for k in range(5):
        out = folds == k
        pi = w[out].sum() / w.sum()
        model = FairRidge(fairness=fairness, alpha=eta * w[~out].sum(), **params)
        model.fit(X[~out], y[~out], sensitive_features=s[~out], sample_weight=w[~out])
        left_out, own = moments(model, out), moments(model, ~out)
        gaps.append(pi * (1.0 - pi) * (np.array(left_out) - own))
        predicted.append(pi * explained(est, X[~out], code[~out], w[~out], eta))
    growth = np.clip(sum(predicted) / explained(est, X, code, w, eta), 1.0, 1.25)
    cov = cov + growth * sum(gaps)[0]
    variance = variance + sum(gaps)[1]
    (block,) = est.certificate_.new_rows.blocks
    assert block.correlation == pytest.approx(abs(cov) / np.sqrt(variance), abs=1e-8)
    assert block.low < block.correlation < block.high
    assert est.certificate_.new_rows.removal == "training_rows"


def explained(est, X, code, w, eta):
    """N'R^-1 N of one code on rows, whitened on them."""
    share = w / w.sum()
    psi = est.pilot_.features.coordinates(X)
    psi = psi - share @ psi
    c = code - share @ code
    c = c / np.sqrt(share @ c**2)
    N = (psi * share[:, None]).T @ c
    R = (psi * share[:, None]).T @ psi + eta * np.eye(psi.shape[1])
    return float(N @ np.linalg.solve(R, N))


CASES = {
    "two attributes": (FairRidge, {}, 1.0),
    "some directions": (FairRidge, {"n_sensitive_directions": 1, "eta": 0.05}, 1.0),
    "cells": (FairRidgeClassifier, {"criterion": "equalized_odds"}, 0.6),
    "directions of cells": (
        FairRidgeClassifier,
        {"criterion": "equalized_odds", "n_sensitive_directions": 1, "eta": 0.05},
        1.0,
    ),
    "three classes": (FairRidgeClassifier, {"n_classes": 3}, 0.7),
    "likelihood": (FairGPClassifier, {"curvature": "likelihood"}, 1.0),
    "likelihood of three classes": (
        FairGPClassifier,
        {"curvature": "likelihood", "n_classes": 3, "criterion": "equalized_odds"},
        0.7,
    ),
    "cosine": (FairRidge, {"dial": "cosine"}, 0.9),
    "limits": (FairRidge, {"dial": "correlation"}, {"group": 0.9, "age": 0.97}),
    "predictive directions": (FairRidge, {"n_predictive_directions": 1}, 0.5),
}


@pytest.mark.parametrize("case", CASES)
def test_refits_from_moments_are_fits_of_the_other_rows(case):
    """The scores of the refits on their own and on left-out rows; the moments of the rows are exact."""
    kind, options, fairness = CASES[case]
    rng = np.random.default_rng(2)
    X, y, _ = people(400, rng)
    group = np.array(["a", "b", "c"])[rng.integers(0, 3, 400)]
    X[:, 0] += group == "b"
    S = {"group": group, "age": X[:, 1] + rng.normal(size=400)}
    options = dict(options)
    if kind is not FairRidge:
        classes = options.pop("n_classes", 2)
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    options = {"n_sensitive_directions": "all", **options}
    params = {**TRAINING, "n_components": 25, "n_slices": 3, **options}
    est = kind(fairness=fairness, **params).fit(X, y, sensitive_features=S)
    data, encoded, folds = folds_of(est, X, y, S)
    refits, pilot, config = est._solution.refits, est.pilot_, est._fit_state.config
    psi = pilot.features.coordinates(X)
    calls = {}
    space = est._space(est._fit_state)
    object.__setattr__(space, "_expected", lambda functions: calls.update(functions=functions))
    locate(space, config)
    for k, fold in enumerate(refits.folds):
        out = folds == k
        part = data.take(np.flatnonzero(~out))
        moments, _ = accumulate(
            MomentsPass(pilot, pilot.empty_moments()), part, pilot.counter(), verbose=0
        )
        same = replace(config, alpha=refits.eta_y * (~out).sum())
        metric = LikelihoodMetric(pilot, lambda part=part: [part])
        other = solve(moments, pilot, same, metric if config.uses_likelihood_metric else None)
        position = locate(type(space)(other, same), same)
        expected = position.weights @ refits.contrasts
        found = fold.basis @ refits.score(calls["functions"], fold.pair, fold.path)
        scale = np.abs(psi @ expected).max()
        np.testing.assert_allclose(psi @ found, psi @ expected, atol=1e-8 * scale)
        for block, of_block in zip(refits.blocks, fold.blocks, strict=True):
            inside = np.ones(400, dtype=bool)
            if block.codes.cell is not None:
                inside = encoded.cells == block.codes.cell
            values = block.codes.of_rows(encoded.levels, encoded.values, inside)
            for rows, cross in ((out, of_block.cross), (~out, of_block.own_cross)):
                known = rows & block.codes.has_code(encoded.levels, encoded.values, inside)
                c = values[known] - values[known].mean(axis=0)
                f = psi[known] @ fold.basis
                np.testing.assert_allclose(cross, c.T @ f / known.sum(), atol=1e-9)
            here = psi[out & inside] @ fold.basis
            cov = np.cov(here.T, bias=True).reshape(of_block.cov.shape)
            np.testing.assert_allclose(of_block.cov, cov, atol=1e-9)


# ------------------------------------------------------------------ in the population


def test_the_estimate_is_what_new_rows_show():
    """Fairness 1 on the training rows leaves a dependence on new rows, and the estimate finds it."""
    estimates, truths, covered = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, s = people(500, rng)
        fresh, _, group = people(50_000, rng)
        model = FairRidge(removal="training_rows", gamma="median", n_components=200, random_state=0)
        (block,) = model.fit(X, y, sensitive_features=s).certificate_.new_rows.blocks
        estimates.append(block.signed)
        truths.append(np.corrcoef(model.predict(fresh), group)[0, 1])
        covered.append(abs(truths[-1] - block.signed) <= 1.96 * block.standard_error)
    difference = np.subtract(estimates, truths)
    error = difference.std(ddof=1) / np.sqrt(20)
    assert abs(difference.mean()) <= 2.0 * error
    assert np.mean(estimates) >= 10.0 * np.std(estimates, ddof=1) / np.sqrt(20)
    assert np.mean(estimates) > 0.1
    assert np.mean(covered) >= 0.85


# ------------------------------------------------------------------ where there is one, and why not


@pytest.mark.parametrize(
    ("kind", "params", "reason"),
    [
        (FairRidge, {"subspace": "fair"}, "subspace='fair' has no out-of-fold form"),
        (FairRepresentation, {"method": "rkhs"}, "method='rkhs' has no out-of-fold form"),
        (FairRidge, {"alpha": 1.0}, "the fit keeps no folds"),
        (FairGPRegressor, {}, "the fit keeps no folds"),
        (FairRidge, {"rows": 40}, "it needs 10 rows in each of 5 folds, and there are 40 rows"),
        (FairRidge, {"constant": True}, "there is no y, or it is constant"),
    ],
    ids=str,
)
def test_without_an_estimate_the_certificate_gives_the_reason(kind, params, reason):
    params = dict(params)
    X, y, s = people(params.pop("rows", 200), np.random.default_rng(3))
    if params.pop("constant", False):
        y = np.ones_like(y)
    y = y > 1.0 if kind is FairGPClassifier else y
    found = kind(**TRAINING, **params).fit(X, y, sensitive_features=s).certificate_
    assert found.new_rows is None
    assert reason in found.no_estimate
    if found.n_functions:
        assert f"New rows: no estimate, because {found.no_estimate}." in str(found)


@pytest.mark.parametrize("kind", [FairRidge, FairRidgeClassifier, FairGPClassifier])
def test_the_estimate_is_shown_saved_and_written(kind, tmp_path):
    pytest.importorskip("skops")
    X, y, s = people(300, np.random.default_rng(4))
    y = y if kind is FairRidge else np.where(y > 1.0, "yes", "no")
    extra = {"curvature": "constant"} if kind is FairGPClassifier else {}
    model = kind(**TRAINING, **extra).fit(X, y, sensitive_features=s)
    found = model.certificate_
    assert found.no_estimate == ""
    assert found.new_rows.correlation > 0.02
    text = str(found)
    assert "This is an estimate for new people." in text
    assert "leaves a bias on other rows" in text
    assert f"by {found.new_rows.correlation:.3f}, and by at most {found.new_rows.high:.3f}" in text
    for word in ("chance", "noise"):
        assert word not in text
    assert "expected on new rows" in model._repr_html_()
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["new_rows"]["removal"] == "training_rows"
    assert written["new_rows"]["blocks"][0]["correlation"] == found.new_rows.correlation
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert str(loaded.at(0.5).certificate_) == str(model.at(0.5).certificate_)


def test_without_rows_the_standard_error_takes_code_and_score_as_independent():
    X, y, s = people(300, np.random.default_rng(5))
    whole = FairRidge(**TRAINING).fit(X, y, sensitive_features=s)
    once = FairRidge(**TRAINING).prepare(X, y, sensitive_features=s)
    once.partial_fit(X, y, sensitive_features=s)
    parts = FairRidge(**TRAINING).prepare(X, y, sensitive_features=s)
    parts.partial_fit(X[:150], y[:150], sensitive_features=s[:150], solve=False)
    parts.partial_fit(X[150:], y[150:], sensitive_features=s[150:])
    (one,), (same,), (other,) = (m.certificate_.new_rows.blocks for m in (whole, once, parts))
    assert other.independent_spread
    assert not one.independent_spread
    assert other.correlation == pytest.approx(same.correlation, abs=1e-9)
    assert other.standard_error == pytest.approx(one.standard_error, rel=0.3)


def test_a_second_pass_has_an_estimate_if_the_folds_of_its_rows_are_known():
    X, y, s = people(300, np.random.default_rng(7))
    y, order = y > 1.0, np.arange(300)
    params = {**TRAINING, "curvature": "likelihood", "n_components": 30}
    whole = FairGPClassifier(**params).prepare(X, y, sensitive_features=s, folds="hash")
    streamed = whole.partial_fit(X, y, sensitive_features=s)
    by_hash = [
        streamed.fit_head([(X[rows], y[rows], s[rows])]).certificate_
        for rows in (order, order[::-1])
    ]
    by_position = FairGPClassifier(**params).prepare(X, y, sensitive_features=s)
    by_position.partial_fit(X, y, sensitive_features=s)
    one = by_position.fit_head([(X[:120], y[:120], s[:120]), (X[120:], y[120:], s[120:])])
    (first,), (second,) = (found.new_rows.blocks for found in by_hash)
    assert first.correlation == pytest.approx(second.correlation, abs=1e-9)
    assert one.certificate_.new_rows.correlation > 0.02
    other = by_position.fit_head([(X[::-1], y[::-1], s[::-1])]).certificate_
    assert other.new_rows is None
    assert other.no_estimate == "fit_head was given other rows than partial_fit, or another order"


def test_a_class_without_rows_in_a_complement():
    X, y, s = people(120, np.random.default_rng(6))
    target = np.digitize(y, np.quantile(y, [0.4, 0.8]))
    target[0] = 3
    for directions in ("auto", 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FairRidgeClassifier(**TRAINING, n_predictive_directions=directions)
            found = model.fit(X, target, sensitive_features=s).certificate_.new_rows
        assert np.isfinite(found.high)
