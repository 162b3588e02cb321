"""Output of the command line where the system's encoding lacks characters of the data."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

MAIN = "from fairspan.cli import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoding")
    rng = np.random.default_rng(0)
    table = {
        "income": rng.normal(size=120),
        "city": rng.choice(["Łódź", "北京"], 120),
        "result": rng.choice(["tak", "nie ≤ 3"], 120),
    }
    pd.DataFrame(table).to_csv(folder / "people.csv", index=False, encoding="utf-8")
    return folder


def run(folder, *arguments):
    """Run the command as Windows does when its output is redirected: in an 8-bit code page."""
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True)


@pytest.mark.regression("redirected output fails on Windows for most scripts")
def test_redirected_output_is_utf8(folder):
    fit = "fit people.csv --target result --protected city --out m.skops --audit --markdown -"
    fitted = run(folder, *fit.split())
    assert fitted.returncode == 0, fitted.stderr
    assert "Łódź" in fitted.stdout.decode("utf-8")
    predicted = run(folder, "predict", "people.csv", "--model", "m.skops")
    assert predicted.returncode == 0, predicted.stderr
    assert "nie ≤ 3" in predicted.stdout.decode("utf-8")
