"""The reader: 60 lines, numpy alone, no pickle."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairGPClassifier, export
from fairspan.deployment import read_npz_model

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


def test_a_matrix_of_another_width_is_an_error(model_and_rows, tmp_path):
    model, X = model_and_rows
    export(model, tmp_path / "model.npz", check=X)
    with pytest.raises(ValueError, match="cannot reshape"):
        read_npz_model.load(tmp_path / "model.npz")(X[:, :2])
