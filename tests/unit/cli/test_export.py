"""Command export: a saved model as an ONNX or npz file."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import fairspan
from fairspan.deployment import read_npz_model


@pytest.fixture
def model(table, tmp_path):
    model = fairspan.FairRidgeClassifier(equalize="decisions", random_state=0)
    model.fit(table[["income", "debt"]], table["repaid"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "fair.skops")
    return model


def test_an_npz_file_at_another_fairness_with_its_reader(call, table, model, tmp_path):
    done = call(
        *("export", "fair.skops", "model.npz", "--fairness", "0", "--check", "people.csv"),
        *("--reader", "--json", "facts.json"),
    )
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["rows_checked"] == len(table)
    assert facts["largest_difference"] < 1e-9
    assert facts["inputs"] == {"income": "number", "debt": "number"}
    assert "Reader written to" in done.err
    assert (tmp_path / "read_npz_model.py").is_file()
    X = table[["income", "debt"]]
    found = read_npz_model.load(tmp_path / "model.npz")(X)
    assert (found["label"] == model.at(0.0).predict(X)).all()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-9)


def test_an_onnx_file(call, model, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    done = call("export", "fair.skops", "model.onnx", "--dtype", "float64")
    assert done.code == 0, done.err
    assert "Checked on 64 rows" in done.err
    assert (tmp_path / "model.onnx").stat().st_size > 1000


def test_a_model_of_an_array(call, table, tmp_path):
    X = table[["income", "debt"]].to_numpy()
    model = fairspan.FairRidgeClassifier(random_state=0)
    model.fit(X, table["repaid"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "array.skops")
    assert call("export", "array.skops", "model.npz").code == 0
    done = call("export", "array.skops", "model.npz", "--check", "people.csv")
    assert done.code == 2
    assert (
        "array.skops was fitted on an array, whose columns have no names. Leave --check" in done.err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["fair.skops", "model.pkl"], "OUT model.pkl must end in .onnx or .npz"),
        (["fair.skops", "model.onnx", "--reader"], "--reader is for .npz files"),
        (["fair.skops", "m.npz", "--dtype", "half"], "--dtype 'half' is not allowed; give float32"),
        (["fair.skops", "m.npz", "--fairness", "2"], "--fairness"),
        (["absent.skops", "m.npz"], "MODEL absent.skops is no file"),
        (["fair.skops", "m.npz", "--check", "absent.csv"], "absent.csv"),
    ],
)
def test_errors_speak_of_options(call, model, options, message, tmp_path):
    done = call("export", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "m.npz").exists()


def test_generated_rows_with_one_output_are_reported_as_not_checked(call, table, tmp_path):
    from sklearn.ensemble import HistGradientBoostingRegressor

    stump = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=len(table), random_state=0)
    model = fairspan.FairRegressor(stump, sensitive_estimator=stump, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table[["income", "debt"]], table["income"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "fair.skops")
    tree = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
    done = call("export", "fair.skops", "model.npz", "--trust", tree)
    assert done.code == 0, done.err
    assert "Give rows of yours, as --check rows." in done.err
    assert "Not checked: the generated rows all get the same output." in done.err
