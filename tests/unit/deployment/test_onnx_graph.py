"""Every operation is the same in numpy and in ONNX; files do not depend on how rows are divided."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairspan
from fairspan.deployment import read_npz_model
from fairspan.deployment.checking import run_onnx
from fairspan.deployment.onnx_graph import onnx_model, output_names
from fairspan.deployment.program import Program

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def in_numpy(program, given_values):
    known = dict(given_values) | program.constants
    for step in program.steps:
        values = [known[a] if isinstance(a, str) else a for a in step.arguments]
        known[step.result] = read_npz_model.OPS[step.operation](*values)
    return {name: known[value] for name, value in program.outputs.items()}


def in_onnx(program, feed, tmp_path, dtype="float64"):
    path = tmp_path / "program.onnx"
    path.write_bytes(onnx_model(program, dtype, {}, "0").SerializeToString())
    found = run_onnx(path, feed)
    return {name: found[shown] for name, shown in output_names(program).items()}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), n=st.integers(0, 6))
def test_operations(seed, n, tmp_path_factory):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.2] = np.nan
    Z = np.abs(rng.normal(size=(5, 4)))
    program = Program()
    x = program.input("X", "matrix", 4).fill(np.array([0.1, 0.2, 0.3, 0.4]))
    gap = program.input("gap", "number")
    text = program.input("text", "text")
    table = rng.normal(size=(3, 2))
    size = x.abs()
    results = {
        "arithmetic": (x * 2.0 + 1.0 - x / 3.0) @ rng.normal(size=(4, 2)),
        "functions": (size + 1.0).log().exp().sqrt() + x.tanh(),
        "rows": program.concat([x.sum(), x.max(), gap.is_missing()]),
        "bounds": x.maximum(-0.5).minimum(0.5),
        "where": (x > 0.0).where(x, -x * 7.0),
        "columns": x.columns([3, 0]),
        "city": program.distance("city", x, Z),
        "chi2": program.distance("chi2", size, Z),
        "look_up": program.look_up(text, {"a": 0, "": 1, "ü": 1}, table),
        "softmax": program.softmax(x),
    }
    for name, value in results.items():
        assert isinstance(value.width, int)
        program.output(name, value)
    program.output("flat", x.columns([2]), flat=True)
    texts = np.array(rng.choice(["a", "", "ü", "other", "A"], n), dtype=object)
    gaps = np.where(rng.random((n, 1)) < 0.5, np.nan, 1.0)
    wanted = in_numpy(program, {"i0": X, "i1": gaps, "i2": texts.tolist()})
    feed = {"X": X, "gap": gaps, "text": texts[:, None]}
    found = in_onnx(program, feed, tmp_path_factory.mktemp("onnx"))
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-13, atol=1e-13, err_msg=name)
        if name in results:
            assert value.shape == (n, results[name].width)
        else:
            assert value.shape == (n,)


@pytest.mark.parametrize(
    "classes", [["no", "yés\n"], [False, True], [3, -1], [0.5, 1.5, 2.5]], ids=str
)
def test_labels_keep_their_type(classes, tmp_path):
    program = Program()
    program.label(program.input("X", "matrix", len(classes)), classes)
    X = np.eye(len(classes))[[1, 0, 1]]
    X[2] = 0.0  # of equal columns the first
    found = in_onnx(program, {"X": X}, tmp_path)["label"].tolist()
    assert (
        found
        == [classes[1], classes[0], classes[0]]
        == in_numpy(program, {"i0": X})["label"].tolist()
    )
    assert [type(label) for label in found] == [type(label) for label in classes[:1]] * 3


def test_metadata_and_rows_in_any_division(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 3)) + s[:, None]
    y = np.where(X[:, 0] + rng.normal(size=150) > 0.5, "yes", "no")
    model = fairspan.FairRidgeClassifier("laplacian", random_state=0).fit(
        X, y, sensitive_features={"sex": s}
    )
    path = tmp_path / "model.onnx"
    fairspan.export(model.at(0.25), path, dtype="float64")
    first = path.read_bytes()
    fairspan.export(model.at(0.25), path, dtype="float64")
    assert path.read_bytes() == first  # the same model gives the same file
    facts = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert facts["fairspan.version"] == fairspan.__version__
    assert float(facts["fairspan.fairness"]) == 0.25
    assert facts["fairspan.model"] == "FairRidgeClassifier"
    assert json.loads(facts["fairspan.classes"]) == ["no", "yes"]
    feature = {"name": "X", "kind": "matrix", "complete": True}
    assert json.loads(facts["fairspan.features"]) == [feature]
    assert not any("sex" in text for text in facts.values())
    whole = run_onnx(path, {"X": X})["decision_function"]
    order = rng.permutation(len(X))
    np.testing.assert_allclose(
        run_onnx(path, {"X": X[order]})["decision_function"], whole[order], atol=1e-12
    )
    one = np.concatenate([run_onnx(path, {"X": X[[i]]})["decision_function"] for i in range(9)])
    np.testing.assert_allclose(one, whole[:9], atol=1e-12)


def test_arithmetic_is_in_float64_for_both_types(tmp_path):
    """Two large numbers that float32 cannot tell apart inside are subtracted exactly."""
    program = Program()
    x = program.input("X", "matrix", 1)
    program.output("variable", x + 1e9 - 1e9)
    found = in_onnx(program, {"X": np.array([[0.25]], np.float32)}, tmp_path, "float32")["variable"]
    assert found.dtype == np.float32
    assert found[0, 0] == 0.25
