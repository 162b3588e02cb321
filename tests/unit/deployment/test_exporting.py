"""Arguments of export, and what it says."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fairspan import ExportError, FairRidge, export
from fairspan.deployment import exporting


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 100)
    X = rng.normal(size=(100, 2)) + s[:, None]
    return FairRidge(alpha=1.0, random_state=0).fit(X, X[:, 0] ** 2, sensitive_features=s)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("model.pkl", {}, "ends neither in .onnx nor in .npz"),
        ("model.npz", {"dtype": "float16"}, "dtype='float16' is not allowed; give 'float32' or"),
        ("model.onnx", {"reader": True}, "give False, or True for an .npz file"),
        ("model.npz", {"check": np.zeros((0, 2))}, "check has no rows"),
        ("model.npz", {"check": np.zeros((3, 5))}, "X has 5 features"),
    ],
)
def test_bad_arguments(model, path, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(model, tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_or_changed_model_is_refused(model, tmp_path):
    with pytest.raises(NotFittedError):
        export(FairRidge(), tmp_path / "model.npz")
    changed = model.at(0.5).set_params(gamma=3.0)
    with pytest.raises(ValueError, match="gamma was changed after the fit"):
        export(changed, tmp_path / "model.npz")


def test_a_file_that_predicts_otherwise_is_not_written(model, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    path.write_text("the file before")
    write = exporting.write_program

    def wrong(model):
        program = write(model)
        for name, constant in program.constants.items():
            program.constants[name] = constant * 1.001
        return program

    monkeypatch.setattr(exporting, "write_program", wrong)
    with pytest.raises(ExportError, match=r"was not written.*numbers differ by"):
        export(model, path)
    assert path.read_text() == "the file before"


def test_what_it_says(model, tmp_path):
    written = export(model, tmp_path / "model.npz")
    assert written.rows_checked == 64
    assert "model.npz" in str(written)
    assert "inputs X, outputs variable. Checked on 64 rows: the largest difference" in str(written)


def test_without_onnx(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "fairspan\[onnx\]"'):
        export(model, tmp_path / "model.onnx")


def test_without_onnxruntime_it_says_that_it_did_not_check(model, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    written = export(model, tmp_path / "model.onnx")
    assert written.rows_checked == 0
    assert written.largest_difference is None
    assert "Not checked: onnxruntime is not installed." in str(written)


def test_rounding_of_rows_to_float32_is_reported(tmp_path):
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 100)
    X = 1e6 + rng.normal(size=(100, 2)) + s[:, None]
    model = FairRidge(alpha=1.0, random_state=0).fit(X, X[:, 0] - 1e6, sensitive_features=s)
    from fairspan.exceptions import DataWarning

    with pytest.warns(DataWarning, match="Rounding these rows to float32 moves numbers by up to"):
        written = export(model, tmp_path / "model.onnx", check=X)
    assert written.largest_difference < 1e-5 < written.rounding_difference
