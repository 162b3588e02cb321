"""Models and environments of other versions: the fixture of this one, and routing under each scikit-learn.

python -m tools.robust_numerics --write-fixture              the model file that later versions must read
python -m tools.robust_numerics --python DIR/bin/python ...  pass counts of the routing tests there
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
    """Rows small enough to keep, with what a model file has to remember: text, numbers, weights."""
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


def fixture_models() -> dict[str, Any]:
    """One fitted model of each class, all choices fixed."""
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
    return {
        "FairRepresentation": FairRepresentation(subspace="fair", **fixed).fit(**given),
        "FairRidge": FairRidge(**fixed).fit(**given),
        "FairRidgeClassifier": FairRidgeClassifier(criterion="eo", **fixed).fit(**labels),
        "FairGPRegressor": FairGPRegressor(**fixed).fit(**given),
        "FairGPClassifier": FairGPClassifier(**fixed).fit(**labels),
    }


def answers(model: Any, X: np.ndarray) -> dict[str, list[Any]]:
    """What a model says about rows, by dial value: the promise a later version has to keep."""
    out: dict[str, list[Any]] = {}
    for dial in DIALS:
        at = model.at(dial)
        if hasattr(at, "predict_proba"):
            found = at.predict_proba(X)
        elif hasattr(at, "decision_function"):
            found = at.decision_function(X)
        elif hasattr(at, "predict"):
            found = at.predict(X)
        else:
            found = at.transform(X) @ at.score_coef_ + at.score_intercept_
        out[str(dial)] = np.asarray(found).tolist()
    return out


def write_fixture(folder: Path = FIXTURES) -> Path:
    """Model files of this version, the rows to ask about and the answers, in one archive.

    Model files are stored as they are; the archive around them makes them a tenth as large.
    """
    from fairspan import __version__, save_model

    folder.mkdir(parents=True, exist_ok=True)
    X = fixture_rows(seed=8, n=20)["X"]
    target, said = folder / f"{__version__}.zip", {}
    with (
        tempfile.TemporaryDirectory() as place,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, model in fixture_models().items():
            archive.write(save_model(model, Path(place, f"{name}.skops")), f"{name}.skops")
            said[name] = {"answers": answers(model, X), "certificate": str(model.certificate_)}
        told = {"fairspan": __version__, "X": X.tolist(), "models": said}
        archive.writestr("answers.json", json.dumps(told))
    return target


# --------------------------------------------------------------------------- environments


@dataclass(frozen=True)
class Outcome:
    """What the tests said in one environment."""

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
            one = run_suite(python, suite)
            failed += one.failed
            print(f"{one.versions}: {suite}: {one.passed} passed, {one.failed} failed, "
                  f"{one.skipped} skipped", flush=True)  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
