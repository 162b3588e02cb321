"""Limits on the experiments: data matrices, FGP as published, baselines, the command."""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.golden import baselines, compare

from fairspan import datasets
from fairspan_lab.reproduce import METHODS
from fairspan_lab.reproduce._cells import judge
from fairspan_lab.reproduce._methods import Task
from fairspan_lab.reproduce._problems import load
from tools.table import ROOT, Measurement, at_least, at_most, suite

SHARED = Path(os.environ.get("FAIRSPAN_SHARED") or ROOT.parent / "shared")


def measurements() -> Iterator[Measurement]:
    """All rows; they need the reference data, and the last ones an environment with torch."""
    if not SHARED.is_dir():
        msg = f"The reference data are absent: put them at {SHARED}, or set FAIRSPAN_SHARED."
        raise SystemExit(msg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from matrix_rows()
        yield from fgp_rows()
        yield from figure_rows()
        yield from baseline_rows()
    yield from command_rows()
    loaders = ["tests/unit/test_datasets.py", "tests/unit/datasets/test_files.py"]
    yield from suite("loaders and downloads", loaders, 90)
    yield from suite(
        "experiments and command", ["lab/tests/test_experiments.py", "tests/test_cli.py"], 35
    )
    yield from laftr_rows()


def matrix_rows() -> Iterator[Measurement]:
    """Largest difference from the authors' processed files."""

    def reference(name: str) -> pd.DataFrame:
        return pd.read_csv(SHARED / "data" / "reference" / f"{name}.csv.gz")

    def gap(a: Any, b: Any) -> float:
        return float(np.abs(np.asarray(a, dtype=float) - np.asarray(b, dtype=float)).max())

    home = SHARED / "data"
    adult = datasets.fetch_adult(protocol="paper", data_home=home)
    compas = datasets.fetch_compas(protocol="paper", data_home=home)
    for part in ("train", "test"):
        expected, rows = reference(f"adult_{part}"), getattr(adult, part)
        features = expected.drop(columns=["y", expected.columns[9]])
        yield at_most(f"Adult {part}: X", gap(adult.data.iloc[rows], features), 2e-15)
        yield at_most(f"Adult {part}: y", gap(adult.target.iloc[rows], expected["y"]), 0.0)
        expected, rows = reference(f"compas_{part}"), getattr(compas, part)
        features = expected.drop(columns=["y", "sex_male"])
        yield at_most(f"COMPAS {part}: X", gap(compas.data.iloc[rows], features), 1.5e-12)
        sex = compas.sensitive_features["sex_male"].iloc[rows]
        yield at_most(f"COMPAS {part}: S", gap(sex, expected["sex_male"]), 0.0)
        yield at_most(f"COMPAS {part}: y", gap(compas.target.iloc[rows], expected["y"]), 0.0)
    nlsy, expected = datasets.fetch_nlsy79(protocol="paper", data_home=home), reference("nlsy")
    yield at_most("NLSY79: X", gap(nlsy.data, expected.iloc[:, :20]), 0.0)
    yield at_most("NLSY79: S", gap(nlsy.sensitive_features, expected[["s_gender", "s_age"]]), 0.0)
    yield at_most("NLSY79: y", gap(nlsy.target, expected["y_income"]), 0.0)
    for name, fetch, file in (
        ("Communities", datasets.fetch_communities_crime, "cc_sy"),
        ("Law school", datasets.fetch_law_school, "lsac_sy"),
    ):
        found, expected = fetch(protocol="paper", data_home=home), reference(file)
        yield at_most(f"{name}: S", gap(found.sensitive_features, expected.iloc[:, :2]), 0.0)
        yield at_most(f"{name}: y", gap(found.target, expected.iloc[:, 2]), 0.0)


def fgp_rows() -> Iterator[Measurement]:
    """FGP as published against the tables of the authors' code."""
    for label, check in compare.REAL.items():
        worst = max(gap / atol for gap, atol in check(SHARED).values())
        yield at_most(f"golden real, {label}: worst deviation / atol", worst, 1.0)
    for name, file in (("Adult", "adult"), ("COMPAS", "compas")):
        problem = load(name, SHARED / "data")
        y = problem.y[problem.test]
        golden = compare.golden_rows(SHARED, f"{file}_tradeoff")
        for criterion in problem.bands:
            points = dict(METHODS["fgp"].run(Task(problem, criterion, 0, quick=False)))
            worst = 0.0
            for epsilon in (0.0, 1.0):
                row = next(
                    r
                    for r in golden
                    if r["criterion"] == criterion and abs(float(r["eps"]) - epsilon) < 1e-12
                )
                error, found = judge(problem, points[epsilon], y)
                worst = max(worst, abs(error - float(row["err_test"])))
                worst = max(worst, *(abs(found[m] - float(row[f"{m}_test"])) for m in found))
            yield at_most(f"reproduced curve, {name} {criterion}: ends from golden", worst, 1e-6)


def figure_rows() -> Iterator[Measurement]:
    """Linear-FERM and GP of the figures against the reference numbers of the same settings."""
    for name, file in (("Adult", "adult"), ("COMPAS", "compas")):
        problem = load(name, SHARED / "data")
        y = problem.y[problem.test]
        task = Task(problem, "sp", 0, quick=False)
        row = next(
            r
            for r in baselines.table(SHARED, "ferm", dataset=file, s_in_x="0", select="acc")
            if r["method"] == "Linear-FERM (orth. proj.)"
        )
        ((_, scores),) = METHODS["linear-ferm"].run(task)
        error, found = judge(problem, scores, y)
        gap = max(abs(error - float(row["error"])), *(abs(found[m] - float(row[m])) for m in found))
        yield at_most(f"figure's Linear-FERM, {name}: from golden", gap, 1e-3)


def baseline_rows() -> Iterator[Measurement]:
    """The row of each group with the largest value relative to its limit."""
    for group, check in {**baselines.DEFAULT, **baselines.SLOW}.items():
        rows = list(check(SHARED))
        name, measured, limit = max(rows, key=lambda row: row[1] / row[2] if row[2] else row[1])
        yield at_most(f"{group}: {name} (worst of {len(rows)})", measured, limit)


def command_rows() -> Iterator[Measurement]:
    """`fairspan reproduce all --quick` from scratch."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "fairspan",
                "reproduce",
                "all",
                "--quick",
                "--out",
                folder,
                "--data-home",
                str(SHARED / "data"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield at_most("fairspan reproduce all --quick: exit code", done.returncode, 0)
        yield at_most("fairspan reproduce all --quick: CPU seconds", seconds, 120)
        yield at_least("fairspan reproduce all --quick: files", len(done.stdout.splitlines()), 6)
        if done.returncode != 0:
            print(done.stderr)
            return
        with (Path(folder) / "results-quick.csv").open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        reads = {row["method"] for row in rows if row["reads_sensitive"] == "True"}
        page = (Path(folder) / "reproduction-quick.md").read_text(encoding="utf-8")
        bare = (page.replace(METHODS[m].name, "").count(METHODS[m].label) for m in reads)
        unmarked = sum(bare)
        yield at_least("methods in the run that read S at prediction", len(reads), 1)
        yield at_most("of them not marked in the tables", unmarked, 0)


def laftr_rows() -> Iterator[Measurement]:
    """LAFTR against its reference, in the environment with torch; a quarter of an hour."""
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        yield at_most("LAFTR-GP: environments with torch that are missing (make test-torch)", 1, 0)
        return
    done = subprocess.run(
        [python, "-m", "tools.laftr_reference"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    yield at_most("LAFTR-GP: exit code", done.returncode, 0)
    for line in done.stdout.splitlines():
        name, measured, limit = line.split("\t")
        yield at_most(name, float(measured), float(limit))
