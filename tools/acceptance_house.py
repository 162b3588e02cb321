"""Size and shape of the library, counted on the tree: ``make acceptance-house``.

A second table compares the counts with version 0.1.0, taken from git without running its code. Speed
relative to an earlier commit takes long to measure and has its own command,
``python -m benchmarks.refactoring``.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fairspan
from fairspan import FairRidge
from fairspan.report import explore
from tools.table import ROOT, Measurement, at_most

FIRST_VERSION = "df597bd"  # the commit of version 0.1.0
PACKAGE = Path("src") / "fairspan"
FORMAT_SKIP = re.compile(r"[ \t]*# fmt: skip\b")
# Largest count allowed, in the order of the table.
LIMITS = {
    "lines of Python, formatted": 25_000,
    "Python files": 115,
    "`est: Any`": 0,
    "`# fmt: skip`": 10,
    "imports of another package's private names": 0,
    "overrides of mypy": 2,
    "lines of `make help`": 16,
    "lines of the README": 110,
    "words of the README": 900,
}
FIT_FILES, EXPLORE_FILES = 20, 55


def measurements() -> Iterator[Measurement]:
    """Counts of the tree, then the files that a fit and a report pass through."""
    now = counts(ROOT)
    for name, limit in LIMITS.items():
        yield at_most(name, now[name], limit)
    yield at_most("files that FairRidge().fit passes through", len(files_of_fit()), FIT_FILES)
    yield at_most(
        "files that report.explore passes through", len(files_of_explore()), EXPLORE_FILES
    )
    _print_change(now)


def _print_change(now: dict[str, int]) -> None:
    before = counts_at(FIRST_VERSION)
    if before is None:
        print(f"\n(no comparison with version 0.1.0: git has no commit {FIRST_VERSION} here)")
        return
    print(f"\n{'':<64} {'0.1.0':>11}  {'now':>9}")
    for name in LIMITS:
        print(f"{name:<64} {before[name]:>11}  {now[name]:>9}")


# --- counts of a tree ---------------------------------------------------------------------------


def counts(tree: Path) -> dict[str, int]:
    """Every count of :data:`LIMITS` in a checkout or an extracted archive."""
    texts = {
        path: path.read_text(encoding="utf-8") for path in sorted((tree / PACKAGE).rglob("*.py"))
    }
    source = "\n".join(texts.values())
    settings = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    readme = (tree / "README.md").read_text(encoding="utf-8")
    found = [
        formatted_lines(texts),
        len(texts),
        len(re.findall(r"\best: Any\b", source)),
        len(FORMAT_SKIP.findall(source)),
        sum(len(private_imports(path.relative_to(tree / PACKAGE), texts[path])) for path in texts),
        len(settings["tool"]["mypy"].get("overrides", [])),
        len(make_help(tree)),
        len(readme.splitlines()),
        len(readme.split()),
    ]
    return dict(zip(LIMITS, found, strict=True))


def counts_at(commit: str) -> dict[str, int] | None:
    """Counts at a commit; None where git or the commit is missing."""
    paths = [PACKAGE.as_posix(), "pyproject.toml", "README.md", "Makefile"]
    try:
        archive = subprocess.run(
            ["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(folder, filter="data")
        return counts(Path(folder))


def formatted_lines(texts: dict[Path, str]) -> int:
    """Lines after ``ruff format`` with today's settings, every ``# fmt: skip`` removed."""
    with tempfile.TemporaryDirectory() as folder:
        for i, text in enumerate(texts.values()):
            (Path(folder) / f"file_{i}.py").write_text(FORMAT_SKIP.sub("", text), encoding="utf-8")
        settings = ["--config", str(ROOT / "pyproject.toml")]
        ruff = [sys.executable, "-m", "ruff", "format", "-q", "--no-cache", *settings, folder]
        subprocess.run(ruff, check=True)
        return sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in Path(folder).glob("*.py")
        )


def private_imports(path: Path, text: str) -> list[str]:
    """Private names that a file imports from another package of the library.

    Parameters
    ----------
    path : Path
        The file, relative to the library's folder; its first part is its package.
    text : str
        Content of the file.
    """
    package = path.parts[0].removesuffix(".py")
    out = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            other, *inner = rest.split(".")
            private = any(re.match(r"_[^_]", part) for part in inner)
            if root == "fairspan" and other != package and private:
                out.append(name)
    return out


def make_help(tree: Path) -> list[str]:
    """Lines that ``make help`` prints with the Makefile of a tree."""
    command = ["make", "--no-print-directory", "help"]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line.strip()]


# --- files that a call passes through -----------------------------------------------------------


def files_of_fit() -> set[str]:
    """Source files of the library whose functions a small fit of FairRidge calls."""
    frame = small_table()
    X, y = frame[["a", "b", "c"]], frame["income"]
    return files_called(
        lambda: FairRidge(random_state=0).fit(X, y, sensitive_features=frame["sex"])
    )


def files_of_explore() -> set[str]:
    """Source files of the library whose functions a report on a small table calls."""
    frame = small_table()
    return files_called(
        lambda: explore(frame, target="income", sensitive_features="sex", n_boot=20)
    )


def small_table() -> pd.DataFrame:
    """Three features, a numeric target and two groups, in 200 rows."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 200)
    frame = pd.DataFrame(rng.normal(size=(200, 3)) + sex[:, None], columns=["a", "b", "c"])
    frame["income"] = frame["a"] + rng.normal(size=200)
    frame["sex"] = np.where(sex, "f", "m")
    return frame


def files_called(call: Callable[[], Any]) -> set[str]:
    """Source files of the library with a function that the call runs; imports are done before."""
    library = str(Path(fairspan.__file__).parent)
    files: set[str] = set()

    def note(frame: Any, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(library):
            files.add(code.co_filename)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()  # imports what is imported on first use
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return files
