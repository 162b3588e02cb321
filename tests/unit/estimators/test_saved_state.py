"""What model files contain: small where nothing is lost, and the same model afterwards."""

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.method.folded import FoldedMap

pytest.importorskip("skops")

MODELS = {
    "ridge": FairRidge(**FEW),
    "training rows": FairRidge(**FEW, removal="training_rows"),
    "fair subspace": FairRidge(**FEW, removal="training_rows", subspace="fair"),
    "classifier": FairRidgeClassifier(**FEW),
    "decisions": FairRidgeClassifier(**FEW, equalize="decisions"),
    "process": FairGPRegressor(n_components=30, random_state=0),
    "logistic": FairGPClassifier(n_components=30, random_state=0),
}
N = 400


@pytest.fixture(scope="module", params=MODELS.items(), ids=MODELS.keys())
def saved(request, tmp_path_factory):
    name, model = request.param
    X, y, s = rows(n=N)
    y = (
        y
        if name in ("ridge", "training rows", "fair subspace", "process")
        else (y > 0.8).astype(int)
    )
    model.fit(X, y, sensitive_features=s)
    path = save_model(model, tmp_path_factory.mktemp("m") / "model.skops", keep_moments=False)
    return name, model, load_model(path), X


def outputs(model, X):
    names = ("predict", "decision_function", "predict_proba")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


def test_the_saved_model_predicts_the_same_numbers(saved):
    _, model, loaded, X = saved
    for name, values in outputs(model, X).items():
        np.testing.assert_array_equal(getattr(loaded, name)(X), values, err_msg=name)
    if isinstance(model, FairGPRegressor):
        pairs = zip(
            model.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
        )
        for before, after in pairs:
            np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("fairness", [0.0, 0.4, 1.0])
def test_the_dial_gives_the_same_models(saved, fairness):
    _, model, loaded, X = saved
    before, after = model.at(fairness), loaded.at(fairness)
    for name, values in outputs(before, X).items():
        scale = max(float(np.abs(values).max()), 1.0)
        found = getattr(after, name)(X)
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-9 * scale, err_msg=name)
    assert str(after.certificate_) == str(before.certificate_)


def test_attributes_of_the_kernel_stay(saved):
    name, model, loaded, X = saved
    folded = name not in ("fair subspace", "process")
    assert isinstance(loaded.pilot_.features, FoldedMap) == folded
    assert loaded.n_components_ == model.n_components_
    np.testing.assert_array_equal(loaded.landmarks_, model.landmarks_)
    psi, again = (m._coordinates(m._read_new(X[:50])) for m in (model, loaded))
    np.testing.assert_allclose(again @ again.T, psi @ psi.T, atol=1e-6)


def test_a_saved_model_is_saved_again(saved, tmp_path):
    _, model, loaded, X = saved
    again = load_model(save_model(loaded, tmp_path / "again.skops"))
    for name, values in outputs(model, X).items():
        np.testing.assert_array_equal(getattr(again, name)(X), values, err_msg=name)


def test_a_model_with_moments_and_a_representation_keep_all_coordinates(tmp_path):
    X, y, s = rows()
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.pilot_.features.whitening, model.pilot_.features.whitening)
    model = FairRepresentation(**FEW).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops", keep_moments=False))
    np.testing.assert_array_equal(loaded.kernel_(X[:9]), model.kernel_(X[:9]))
