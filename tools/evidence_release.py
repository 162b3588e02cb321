"""The distributions in clean environments: ``python -m tools.evidence_release``.

Builds the distributions (or takes those of ``--dist``), and makes two new environments for every Python from
3.11 on that the machine has, or those of ``--python``. Pip takes the newest versions of everything, not
those of constraints.txt.

- The wheels of fairspan (with the extra "cli", as the README says) and fairspan-lab are installed, and the
  README's first example is run in an empty folder. It must print what the README shows.
- The source distribution is installed without extras, and its unit tests run from the unpacked archive.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.table import ROOT, Measurement, at_least, at_most, show

EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
# What the unit tests need beside the library.
TEST_TOOLS = ("hypothesis", "pytest", "pytest-xdist")
# Well below their number; without extras some files skip as a whole.
UNIT_TESTS = 1_000
UNIT_TESTS_S = 1_800
OLDEST, NEWEST = 11, 14


def pythons() -> list[Path]:
    """One interpreter for each version from 3.11 on: on the path, or where pyenv installs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in range(OLDEST, NEWEST + 1):
        candidates = sorted(pyenv.glob(f"3.{minor}.*/bin/python"), reverse=True)
        if on_path := shutil.which(f"python3.{minor}"):
            candidates.insert(0, Path(on_path))
        # A name on the path may be a placeholder for a version that is not switched on.
        works = [path for path in candidates if version_of(path) == f"3.{minor}"]
        found += works[:1]
    return found


def version_of(python: Path) -> str:
    """Its version, as "3.11"; nothing if it does not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def new_environment(python: Path, folder: Path, *wanted: str, wheels: Path) -> Path:
    """A new environment with what pip installs; its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The project's own distributions are those of the folder; an index may have others of this name.
    env = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run(
        [*pip, "--find-links", str(wheels), *wanted],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{version_of(python)}: pip could not install {wanted}:\n{done.stderr[-2000:]}")
    return inside


def example() -> tuple[str, list[str]]:
    """The first Python block of the README, and the lines that it prints."""
    found = EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[1], found[2].strip().splitlines()


def run(command: list[str | Path], folder: Path, limit: float) -> subprocess.CompletedProcess[str]:
    """Run a command with one BLAS thread, and without the variables that lead to this checkout."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "FAIRSPAN"))}
    env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as late:
        printed = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        return subprocess.CompletedProcess(command, 124, printed, f"stopped after {limit:g} s")


def wheels(python: Path, dist: Path, folder: Path) -> Iterator[Measurement]:
    """Rows about the installed wheels."""
    name = f"Python {version_of(python)}: wheels"
    (library,) = dist.glob("fairspan-*.whl")
    (lab,) = dist.glob("fairspan_lab-*.whl")
    inside = new_environment(
        python, folder / "wheels", f"fairspan[cli] @ {library.as_uri()}", str(lab), wheels=dist
    )
    empty = folder / "empty"
    empty.mkdir()
    code, expected = example()
    began = time.perf_counter()
    done = run([inside, "-c", code], empty, 600)
    seconds = time.perf_counter() - began
    printed = done.stdout.strip().splitlines()
    differ = sum(a != b for a, b in zip(printed, expected, strict=False))
    differ += abs(len(printed) - len(expected))
    if differ:
        print(done.stdout, done.stderr[-2000:], sep="\n", file=sys.stderr)
    yield at_most(f"{name}: README's first example, exit code", done.returncode, 0)
    yield at_most(f"{name}: its lines that differ, of {len(expected)}", differ, 0)
    yield at_most(f"{name}: its seconds", seconds, 120)
    helped = run([inside, "-m", "fairspan", "--help"], empty, 120)
    commands = sum(word in helped.stdout for word in ("reproduce", "bench"))
    yield at_least(f"{name}: commands of fairspan-lab", commands, 2)


def source(python: Path, dist: Path, folder: Path, workers: str) -> Iterator[Measurement]:
    """Rows about the source distribution and its tests."""
    name = f"Python {version_of(python)}: source distribution"
    (archive,) = dist.glob("fairspan-*.tar.gz")
    inside = new_environment(python, folder / "source", str(archive), *TEST_TOOLS, wheels=dist)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (root,) = folder.glob("fairspan-*/")
    pytest = [inside, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider"]
    began = time.perf_counter()
    done = run([*pytest, "tests/unit", "tests/test_no_extras.py"], root, 2 * UNIT_TESTS_S)
    seconds = time.perf_counter() - began
    last = done.stdout.strip().splitlines()[-1:] or [""]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", last[0])}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    yield at_most(f"{name}: pytest's exit code", done.returncode, 0)
    yield at_most(f"{name}: unit tests failed", failed, 0)
    yield at_least(f"{name}: unit tests passed", counts.get("passed", 0), UNIT_TESTS)
    yield at_most(f"{name}: seconds of the tests", seconds, UNIT_TESTS_S)


def measurements(
    dist: Path | None = None, interpreters: list[Path] | None = None, workers: str = "2"
) -> Iterator[Measurement]:
    """All rows; without ``dist`` the distributions are built first."""
    with tempfile.TemporaryDirectory() as temporary:
        if dist is None:
            dist = Path(temporary, "dist")
            tools = new_environment(
                Path(sys.executable), Path(temporary, "tools"),
                "build", "check-wheel-contents", "twine", wheels=Path(temporary),
            )  # fmt: skip
            command = [tools, "-m", "tools.distributions", "--out", str(dist)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
            yield at_most("twine, check-wheel-contents, contents: exit code", done.returncode, 0)
        for archive in sorted(dist.iterdir()):
            if archive.name.endswith((".whl", ".tar.gz")):
                kind = "wheel" if archive.suffix == ".whl" else "source"
                name = f"{archive.name.split('-')[0]}, {kind}: megabytes"
                yield at_most(name, archive.stat().st_size / 1e6, 4)
        for python in pythons() if interpreters is None else interpreters:
            folder = Path(temporary, version_of(python))
            folder.mkdir()
            yield from wheels(python, dist.resolve(), folder)
            yield from source(python, dist.resolve(), folder, workers)


def main() -> int:
    """Print the rows; exit code 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, help="folder of distributions that are built already")
    parser.add_argument("--python", type=Path, action="append", help="an interpreter to test with")
    parser.add_argument("--workers", default="2", help="processes of the tests")
    given = parser.parse_args()
    for python in given.python or []:
        if not version_of(python):
            parser.error(f"--python {python}: this is no Python that starts")
    return show(measurements(given.dist, given.python, given.workers))


if __name__ == "__main__":
    raise SystemExit(main())
