"""The rivals reproduce the tables that were measured with independent code."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("pandas")

from tests.golden import baselines


def check(shared: Path, label: str) -> None:
    if label in baselines.NEEDS_SOLVER:
        pytest.importorskip("cvxpy")
    bars = list({**baselines.DEFAULT, **baselines.SLOW}[label](shared))
    assert bars
    assert [bar for bar in bars if not bar[1] <= bar[2]] == []


@pytest.mark.parametrize("label", baselines.DEFAULT)
def test_table(shared: Path, label: str) -> None:
    check(shared, label)


@pytest.mark.slow
@pytest.mark.parametrize("label", baselines.SLOW)
def test_large_table(shared: Path, label: str) -> None:
    check(shared, label)


def test_every_row_of_ncfr_belongs_to_a_test(shared: Path) -> None:
    with (shared / "golden" / "baselines" / "ncfr.csv").open(encoding="utf-8") as handle:
        rows = {(row["variant"], row["dataset"], row["protocol"]) for row in csv.DictReader(handle)}
    labels = {
        f"ncfr {variant} {name}" + (" 5 folds" if protocol == "komiyama5fold" else "")
        for variant, name, protocol in rows
    }
    known = {**baselines.DEFAULT, **baselines.SLOW}
    assert labels == {label for label in known if label.startswith("ncfr")}
