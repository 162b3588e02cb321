"""float32 and float64 tables: the same values are the same model, and rounding to float32 moves little."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import is_regressor

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    metrics,
)
from fairspan_lab.baselines import (
    FERM,
    NCFR,
    FairPCA,
    HSICRidge,
    HSICRidgeClassifier,
    LinearFERM,
    StandardGP,
    StandardGPClassifier,
)

# A unit in the last place of float32, times what a fit may make of it.
FLOAT32 = 100.0 * np.finfo(np.float32).eps
MODELS = {
    "representation": FairRepresentation(random_state=0),
    "representation, all of F": FairRepresentation(subspace="fair", random_state=0),
    "representation, rkhs": FairRepresentation(method="rkhs", random_state=0),
    "representation, landmarks": FairRepresentation(n_components=40, random_state=0),
    "ridge": FairRidge(random_state=0),
    "ridge, linear": FairRidge(kernel="linear"),
    "ridge, laplacian": FairRidge(kernel="laplacian", random_state=0),
    "ridge, equalized odds": FairRidge(criterion="eo", n_slices=3, random_state=0),
    "ridge classifier": FairRidgeClassifier(random_state=0),
    "gp": FairGPRegressor(random_state=0),
    "gp, linear mean": FairGPRegressor(mean="linear", random_state=0),
    "gp classifier": FairGPClassifier(random_state=0),
}
RIVALS = {
    "FERM": FERM(),
    "LinearFERM": LinearFERM(),
    "NCFR": NCFR(0.1),
    "FairPCA": FairPCA(2),
    "HSICRidge": HSICRidge(),
    "HSICRidgeClassifier": HSICRidgeClassifier(),
    "StandardGP": StandardGP(n_restarts=0, random_state=0),
    "StandardGPClassifier": StandardGPClassifier(n_restarts=0, random_state=0),
}


def rows(seed=5, n=160):
    """X, a numeric y, labels, a continuous S and weights, all in float64."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + group[:, None] * [1.0, 0.3, 0.0]
    y = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    age = 40.0 + 10.0 * X[:, 2] + 5.0 * rng.normal(size=n)
    return X, y, group, age, rng.exponential(size=n) + 0.3


X, Y, GROUP, AGE, WEIGHT = rows()
NEW, _, NEW_GROUP, *_ = rows(seed=6)


def single(values):
    return values.astype(np.float32)


def double(values):
    return values.astype(np.float32).astype(np.float64)


def target(model, cast):
    return cast(Y) if is_regressor(model) else (Y > 0).astype(int)


def outputs(model, new):
    """Everything a fitted model says about rows."""
    out = {}
    aware = {"sensitive_features": NEW_GROUP} if isinstance(model, NCFR) else {}
    for name in ("transform", "predict", "decision_function", "predict_proba", "deviation_bound"):
        if hasattr(model, name):
            found = getattr(model, name)(new, **aware)
            if found.dtype.kind == "f":
                out[name] = found
    if isinstance(model, FairGPRegressor | StandardGP):
        out["std"] = model.predict(new, return_std=True)[1]
    return out


def fitted(model, cast, weighted):
    model = type(model)(**model.get_params())
    given = {"sample_weight": cast(WEIGHT)} if weighted else {}
    s = {"group": GROUP, "age": cast(AGE)} if weighted else GROUP
    return model.fit(cast(X), target(model, cast), sensitive_features=s, **given)


def certified(model):
    certificate = model.certificate_
    return np.array([[b.supremum, b.score] for b in certificate.blocks])


pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")


@pytest.mark.parametrize("name", MODELS)
def test_the_same_values_in_float32_are_the_same_model(name):
    a, b = (fitted(MODELS[name], cast, weighted=True) for cast in (single, double))
    found, expected = outputs(a, single(NEW)), outputs(b, double(NEW))
    for what in expected:
        np.testing.assert_allclose(
            found[what], expected[what], rtol=1e-12, atol=1e-12, err_msg=what
        )
    np.testing.assert_allclose(certified(a), certified(b), atol=1e-12)


@pytest.mark.parametrize("name", RIVALS)
def test_the_same_values_in_float32_are_the_same_rival(name):
    a, b = (fitted(RIVALS[name], cast, weighted=False) for cast in (single, double))
    found, expected = outputs(a, single(NEW)), outputs(b, double(NEW))
    for what in expected:
        np.testing.assert_allclose(found[what], expected[what], rtol=1e-9, atol=1e-9, err_msg=what)


@pytest.mark.parametrize("name", MODELS)
def test_rounding_to_float32_moves_a_model_by_float32_precision(name):
    """Every choice is fixed: a choice (a grid's, a fold's) may jump, a model may not."""
    fixed = {"alpha": 0.5, "eta": 1e-2}
    if MODELS[name].kernel != "linear":
        fixed["gamma"] = 0.1
    model = type(MODELS[name])(**{**MODELS[name].get_params(), **fixed})
    a, b = (fitted(model, cast, weighted=False) for cast in (single, np.asarray))
    found, expected = outputs(a, single(NEW)), outputs(b, NEW)
    for what, value in expected.items():
        if what == "transform":  # the sign and the basis of a space are nobody's choice
            continue
        assert np.abs(found[what] - value).max() <= FLOAT32 * max(np.abs(value).max(), 1.0), what
    np.testing.assert_allclose(certified(a), certified(b), atol=FLOAT32)


def test_a_chosen_model_moves_by_float32_precision_too():
    for name in ("ridge", "ridge classifier", "gp"):
        a, b = (fitted(MODELS[name], cast, weighted=True) for cast in (single, np.asarray))
        assert a.alpha_ == pytest.approx(b.alpha_, rel=1e-4)
        for what, value in outputs(b, NEW).items():
            moved = np.abs(outputs(a, single(NEW))[what] - value).max()
            assert moved <= 10.0 * FLOAT32 * np.abs(value).max(), (name, what)


def test_streams_of_float32_blocks_are_streams_of_float64_blocks():
    def streamed(cast):
        est = FairRidge(gamma=0.1, alpha=1.0, eta=1e-2, random_state=0)
        given = {"y": cast(Y), "sensitive_features": GROUP}
        est.prepare(cast(X), **given)
        for part in np.array_split(np.arange(len(X)), 4):
            est.partial_fit(
                cast(X)[part], cast(Y)[part], sensitive_features=GROUP[part], solve=False
            )
        return est.solve().predict(cast(NEW))

    np.testing.assert_allclose(streamed(single), streamed(double), rtol=1e-12)


@pytest.mark.parametrize("name", ["statistical_parity_correlation", "correlation_ratio"])
def test_metrics_of_float32_scores(name):
    metric = getattr(metrics, name)
    a, b = (metric(cast(Y), sensitive_features=cast(AGE)) for cast in (single, double))
    assert a == pytest.approx(b, rel=1e-12)


def test_audits_and_paths_of_float32_scores():
    a, b = (
        audit(cast(Y), y=GROUP, sensitive_features={"group": GROUP}, random_state=0)
        for cast in (single, double)
    )
    assert str(a) == str(b)

    def path(cast):
        est = FairRidge(gamma=0.1, alpha=1.0, eta=1e-2, random_state=0)
        found = fairness_path(est, cast(X), cast(Y), cv=3, sensitive_features=GROUP)
        return found.curve()

    np.testing.assert_allclose(path(single), path(double), rtol=1e-12)
