"""The reader: 60 lines, numpy alone, no pickle."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairGPClassifier, FairRidge, export
from fairspan.deployment import npz, read_npz_model

READER = Path(read_npz_model.__file__)


@pytest.fixture(scope="module")
def model_and_rows():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 3)) + s[:, None]
    y = (X[:, 0] + rng.normal(size=150) > 0.5).astype(int)
    return FairGPClassifier(random_state=0).fit(X, y, sensitive_features=s), X


def test_it_has_at_most_60_lines_and_imports_numpy_alone():
    text = READER.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    imports = [line for line in text.splitlines() if line.startswith(("import", "from"))]
    assert imports == ["import json", "from typing import Any", "import numpy as np"]


def test_it_reads_a_file_where_fairspan_is_not_installed(model_and_rows, tmp_path):
    model, X = model_and_rows
    written = export(model, tmp_path / "model.npz", check=X, reader=True)
    assert written.largest_difference < 1e-10
    np.save(tmp_path / "rows.npy", X)
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['fairspan', 'sklearn', 'scipy', 'pandas']));"
        "import numpy as np; from read_npz_model import load;"
        "out = load('model.npz')(np.load('rows.npy')); np.save('out.npy', out['probabilities'])"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), model.predict_proba(X), rtol=0.0, atol=1e-10
    )


def test_nothing_in_a_file_is_pickled_and_the_same_model_gives_the_same_bytes(
    model_and_rows, tmp_path
):
    model, X = model_and_rows
    files = tmp_path / "a.npz", tmp_path / "b.npz"
    for path in files:
        export(model, path, check=X)
    assert files[0].read_bytes() == files[1].read_bytes()
    with zipfile.ZipFile(files[0]) as archive:
        for name in archive.namelist():
            with archive.open(name) as part:
                np.lib.format.read_array(part, allow_pickle=False)


def test_blocks_of_rows_change_nothing(model_and_rows, tmp_path):
    model, X = model_and_rows
    export(model, tmp_path / "model.npz", check=X)
    score = read_npz_model.load(tmp_path / "model.npz")
    whole = score(X)["decision_function"]
    np.testing.assert_allclose(score(X, block=7)["decision_function"], whole, atol=1e-12)
    assert score(X[:0])["label"].shape == (0,)


@pytest.fixture
def score(model_and_rows, tmp_path):
    model, X = model_and_rows
    export(model, tmp_path / "model.npz", check=X)
    return read_npz_model.load(tmp_path / "model.npz")


def test_a_matrix_of_another_width_is_an_error(model_and_rows, score):
    with pytest.raises(ValueError, match=r"'X' has the shape \(150, 2\); give 3 value"):
        score(model_and_rows[1][:, :2])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_the_model_refuses_are_an_error(number, model_and_rows, score):
    model, X = model_and_rows
    X = X[:4].copy()
    X[2, 1] = number
    with pytest.raises(ValueError, match=r"NaN|infinit"):
        model.predict(X)
    with pytest.raises(ValueError, match="'X' has missing or infinite numbers"):
        score(X)


def test_a_file_of_another_format_is_an_error(model_and_rows, tmp_path, score):
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    plan = json.loads(arrays["plan"].tobytes())
    assert plan["format"] == npz.FORMAT
    plan["format"] += 1
    arrays["plan"] = np.frombuffer(json.dumps(plan).encode(), np.uint8)
    np.savez(tmp_path / "later.npz", **arrays)
    with pytest.raises(ValueError, match="The file has format 2"):
        read_npz_model.load(tmp_path / "later.npz")


def test_a_column_has_one_axis(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 150)
    frame = pd.DataFrame({"age": rng.normal(40.0, 9.0, 150), "job": rng.choice(["a", "b"], 150)})
    y = frame["age"] + 9.0 * (frame["job"] == "a") + s
    model = FairRidge(alpha=1.0, random_state=0).fit(frame, y, sensitive_features=s)
    export(model, tmp_path / "model.npz", check=frame)
    score = read_npz_model.load(tmp_path / "model.npz")
    for name in frame.columns:
        for wrong in (frame[[name]].to_numpy(), frame[name][0]):
            with pytest.raises(ValueError, match=f"{name}.*has the shape"):
                score(dict(frame) | {name: wrong})
    texts = {"age": [40.0] * 4, "job": ["a", None, float("nan"), pd.NA]}
    found = score(texts)["variable"].ravel()
    wanted = model.predict(pd.DataFrame(texts))
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert found[0] != found[1]
