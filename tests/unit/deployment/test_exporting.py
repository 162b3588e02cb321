"""Arguments of export, and what it says."""

import json
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fairspan import ExportError, FairRidge, FairRidgeClassifier, export
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


def test_metadata_say_what_was_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 3)) + 1.5 * s[:, None]
    other = rng.normal(size=400) + X[:, 1]
    y = (X[:, 0] + rng.normal(size=400) > 0.7).astype(int)
    rule = FairRidgeClassifier(equalize="decisions", random_state=0)
    rule = rule.fit(X, y, sensitive_features={"SECRET": s})
    score = FairRidge(random_state=0).fit(
        X, other + X[:, 0], sensitive_features={"SECRET": s, "SECRET2": other}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [
            (rule, 1.0, None),
            (rule.at(0.5), 0.5, None),
            (rule.at(max_gap=0.05), None, ("max_gap", [0.05])),
            (rule.at(max_gap={"SECRET": 0.05}), None, ("max_gap", [0.05])),
            (rule.at(min_ratio=0.9), None, ("min_ratio", [0.9])),
            (score.at(0.5), 0.5, None),
            (score.at(max_correlation=0.3), 0.7, ("max_correlation", [0.3])),
            (
                score.at(max_correlation={"SECRET": 0.6, "SECRET2": 0.4}),
                None,
                ("max_correlation", [0.4, 0.6]),
            ),
        ]
    for model, fairness, asked in cases:
        export(model, tmp_path / "model.npz")
        with np.load(tmp_path / "model.npz") as archive:
            text = archive["plan"].tobytes().decode()
        facts = json.loads(text)["metadata"]
        assert facts["fairness"] == fairness
        assert (facts["dial"] is None) == (fairness is None)
        limit = None if asked is None else dict(zip(("kind", "numbers"), asked, strict=True))
        assert facts["limit"] == limit
        assert "SECRET" not in text
