"""Model files: the same model after a round trip, and nothing runs that is not on the list."""

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

from fairspan import FairGPRegressor, FairRepresentation, load_model, save_model

pytest.importorskip("skops")


def squared(X, Z):
    """A kernel of the user's own."""
    return (1.0 + X @ Z.T) ** 2


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 6))
    s = {"group": np.array(["a", "b", "c"])[rng.integers(0, 3, 150)], "age": rng.normal(size=150)}
    y = X[:, 0] + np.sin(X[:, 1]) + 0.2 * rng.normal(size=150)
    return X, y, s


def fitted(rows, **params):
    X, y, s = rows
    given = {"alpha": 0.5, "eta": 1e-2, "random_state": 0, **params}
    return FairRepresentation(**given).fit(X, y, sensitive_features=s)


VARIANTS = {
    "default": {},
    "fair": {"subspace": "fair"},
    "linear": {"kernel": "linear"},
    "laplacian": {"kernel": "laplacian", "n_components": 40},
    "conditional on y": {"criterion": "eo", "n_slices": 3},
    "feature map": {"feature_map": RBFSampler(n_components=20, random_state=0)},
    "paper": {"method": "paper", "alpha": "auto", "n_slices": 5, "dial": "cosine"},
}


@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())
def test_round_trip_keeps_scores_dial_and_certificate(rows, params, tmp_path):
    model = fitted(rows, **params)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    X = rows[0]
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.at(0.4).transform(X), model.at(0.4).transform(X))
    assert str(loaded.certificate_) == str(model.certificate_)
    assert loaded.get_params().keys() == model.get_params().keys()


def test_a_loaded_model_goes_on_learning(rows, tmp_path):
    X, y, s = rows
    model = fitted(rows)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    for one in (model, loaded):
        one.partial_fit(X[:50], y[:50], sensitive_features={k: v[:50] for k, v in s.items()})
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))


def test_without_moments_the_file_is_smaller_and_says_what_it_cannot_do(rows, tmp_path):
    X, y, s = rows
    model = fitted(rows)
    full = save_model(model, tmp_path / "full.skops")
    small = save_model(model, tmp_path / "small.skops", keep_moments=False)
    assert small.stat().st_size < full.stat().st_size
    assert hasattr(model, "moments_")
    loaded = load_model(small)
    np.testing.assert_array_equal(loaded.at(0.2).transform(X), model.at(0.2).transform(X))
    with pytest.raises(ValueError, match=r"partial_fit needs the moments.*keep_moments=False"):
        loaded.partial_fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="has none"):
        loaded.merge(model)


def test_a_users_kernel_is_named_and_refused_unless_trusted(rows, tmp_path):
    model = fitted(rows, kernel=squared)
    path = save_model(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"contains '.*squared', which fairspan does not trust"):
        load_model(path)
    name = f"{squared.__module__}.squared"
    loaded = load_model(path, trusted=[name])
    np.testing.assert_array_equal(loaded.transform(rows[0]), model.transform(rows[0]))


def test_an_unfitted_or_foreign_object_is_refused(tmp_path):
    for thing in (FairRepresentation(), RBFSampler(), {"a": 1}):
        with pytest.raises(ValueError, match="takes a fitted fairspan estimator"):
            save_model(thing, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_is_refused(rows, tmp_path):
    path = save_model(fitted(rows), tmp_path / "model.skops")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(ValueError, match="not a fairspan model file, or it is damaged"):
        load_model(path)


def test_a_newer_format_and_a_foreign_skops_file_are_refused(rows, tmp_path, monkeypatch):
    import skops.io

    import fairspan.persistence as persistence

    monkeypatch.setattr(persistence, "FORMAT", 3)
    path = save_model(fitted(rows), tmp_path / "model.skops")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"has format 3.*reads formats 1 to 2. Upgrade"):
        load_model(path)
    skops.io.dump({"model": 1}, tmp_path / "other.skops")
    with pytest.raises(ValueError, match="not one written by"):
        load_model(tmp_path / "other.skops")


def test_a_tampered_type_is_named_and_runs_nothing(rows, tmp_path):
    path = save_model(fitted(rows), tmp_path / "model.skops")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])

    def swap(node):
        if isinstance(node, dict):
            if node.get("__class__") == "Kernel":
                node["__class__"], node["__module__"] = "Popen", "subprocess"
            for value in node.values():
                swap(value)
        elif isinstance(node, list):
            for value in node:
                swap(value)

    swap(schema)
    parts["schema.json"] = json.dumps(schema).encode()
    evil = tmp_path / "evil.skops"
    with zipfile.ZipFile(evil, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"subprocess\.Popen"):
        load_model(evil)


def test_a_failed_save_leaves_the_old_file(rows, tmp_path, monkeypatch):
    import skops.io

    path = save_model(fitted(rows), tmp_path / "model.skops")
    before = path.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(skops.io, "dump", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_model(fitted(rows, gamma=0.3), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]


def test_a_file_of_an_earlier_version_still_loads():
    folder = Path(__file__).parent / "golden" / "inputs"
    expected = json.loads((folder / "saved_gp.json").read_text(encoding="utf-8"))
    model, X = load_model(folder / "saved_gp.skops"), np.array(expected["X"])
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(std, expected["std"], rtol=1e-12)
    np.testing.assert_allclose(model.at(0.5).predict(X), expected["half"], rtol=1e-12)


def test_a_factor_of_another_length_is_named_as_damage(rows, tmp_path):
    X, y, s = rows
    model = FairGPRegressor(n_components=20, random_state=0)
    model.fit(X, y, sensitive_features={"group": s["group"]})
    solution = model._state.solution
    wrong = dataclasses.replace(solution, factor=solution.factor[0, :5])
    model._state = dataclasses.replace(model._state, solution=wrong)
    with pytest.raises(ValueError, match="triangle"):
        load_model(save_model(model, tmp_path / "model.skops", keep_moments=False))
