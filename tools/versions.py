"""Other versions: saved models as fixtures, and test results under each scikit-learn.

python -m tools.versions --write-fixture              write models that later versions must load
python -m tools.versions --python DIR/bin/python ...  run the routing tests with these interpreters
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "robust_numerics" / "fixtures"
SUITES = ("tests/test_routing.py", "tests/test_estimator_checks.py")
DIALS = (0.0, 0.5, 1.0)


# --------------------------------------------------------------------------- the fixture


def fixture_rows(seed: int = 7, n: int = 90) -> dict[str, Any]:
    """A small table with text, numbers and weights."""
    rng = np.random.default_rng(seed)
    region = np.array(["north", "süd", "east"])[rng.integers(0, 3, n)]
    X = rng.normal(size=(n, 3)) + (region == "north")[:, None] * [1.0, 0.5, 0.0]
    y = np.sin(X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n)
    s = {"region": region, "age": X[:, 2] + rng.normal(size=n)}
    return {
        "X": X.round(6),
        "y": y.round(6),
        "sensitive_features": s,
        "sample_weight": 1.0 + (y > 0),
    }


def fixture_models(landmarks: dict[str, Any] | None = None) -> dict[str, Any]:
    """One model of each class, with every hyper-parameter fixed, fitted to one block.

    ``landmarks``, by class, repeats models of a version that drew others.
    """
    from fairspan import (
        FairGPClassifier,
        FairGPRegressor,
        FairRepresentation,
        FairRidge,
        FairRidgeClassifier,
    )

    given = fixture_rows()
    labels = {**given, "y": np.array(["no", "yes"])[(given["y"] > 0).astype(int)]}
    fixed: dict[str, Any] = {"gamma": 0.2, "alpha": 1.0, "eta": 1e-2, "n_components": 12}
    fixed |= {"random_state": 0, "n_sensitive_directions": "all", "n_slices": 4}
    fixed |= {"removal": "training_rows"}
    models: list[Any] = [
        FairRepresentation(subspace="fair", **fixed),
        FairRidge(**fixed),
        FairRidgeClassifier(criterion="eo", **fixed),
        FairGPRegressor(**fixed),
        FairGPClassifier(**fixed),
    ]
    out = {}
    for model in models:
        name = type(model).__name__
        if landmarks is not None:
            model.set_params(landmarks=landmarks[name])
        rows = labels if name.endswith("Classifier") else given
        out[name] = model.prepare(**rows).partial_fit(**rows)
    out["FairGPClassifier"].fit_head([labels])
    return out


def answers(model: Any, X: np.ndarray) -> dict[str, list[Any]]:
    """Predictions by dial value, which a later version must reproduce."""
    out: dict[str, list[Any]] = {}
    for dial in DIALS:
        at = model.at(dial)
        if hasattr(at, "predict_proba"):
            values = at.predict_proba(X)
        elif hasattr(at, "decision_function"):
            values = at.decision_function(X)
        elif hasattr(at, "predict"):
            values = at.predict(X)
        else:
            values = at.transform(X) @ at.score_coef_ + at.score_intercept_
        out[str(dial)] = np.asarray(values).tolist()
    return out


def write_fixture(folder: Path = FIXTURES) -> Path:
    """Write model files of this version, rows and the expected predictions to one archive.

    The archive compresses the model files to a tenth of their size.
    """
    from fairspan import __version__, save_model

    folder.mkdir(parents=True, exist_ok=True)
    X = fixture_rows(seed=8, n=20)["X"]
    target, models = folder / f"{__version__}.zip", {}
    with (
        tempfile.TemporaryDirectory() as temporary,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, model in fixture_models().items():
            archive.write(save_model(model, Path(temporary, f"{name}.skops")), f"{name}.skops")
            models[name] = {"answers": answers(model, X), "certificate": str(model.certificate_)}
        expected = {"fairspan": __version__, "X": X.tolist(), "models": models}
        archive.writestr("answers.json", json.dumps(expected))
    return target


# --------------------------------------------------------------------------- environments


@dataclass(frozen=True)
class Outcome:
    """Test counts in one environment."""

    versions: str
    suite: str
    passed: int
    failed: int
    skipped: int
    tail: str


def versions_of(python: str) -> str:
    """The four core dependencies of an environment."""
    code = "import sklearn, numpy, scipy, narwhals; print(sklearn.__version__, numpy.__version__, "
    code += "scipy.__version__, narwhals.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    names = ("scikit-learn", "numpy", "scipy", "narwhals")
    return ", ".join(f"{a} {b}" for a, b in zip(names, done.stdout.split(), strict=True))


def run_suite(python: str, suite: str, *more: str) -> Outcome:
    """Run one test file with the interpreter of an environment."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", suite, *more]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    count = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    failed = count.get("failed", 0) + count.get("error", 0)
    if done.returncode not in (0, 1):  # nothing ran: an import failed, or the file is not there
        failed = max(failed, 1)
    return Outcome(
        versions_of(python), suite, count.get("passed", 0), failed, count.get("skipped", 0), last
    )


def main(argv: list[str] | None = None) -> int:
    """Write the fixture, or run the suites in the environments given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write-fixture", action="store_true")
    parser.add_argument("--python", nargs="*", default=[], help="interpreters of environments")
    parser.add_argument("--suite", nargs="*", default=list(SUITES))
    given = parser.parse_args(argv)
    if given.write_fixture:
        path = write_fixture()
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1024:.0f} kB")
    failed = 0
    for python in given.python:
        for suite in given.suite:
            outcome = run_suite(python, suite)
            failed += outcome.failed
            counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
            print(f"{outcome.versions}: {suite}: {counts}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
