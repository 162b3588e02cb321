"""Limits on the explorer's page: size, bar on a phone, columns, and comparison of saved models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import explorer

from tools.table import ROOT, Measurement, at_most, suite

BROWSER = "tests/browser"
VENDOR = ROOT / "src" / "fairspan" / "report" / "page" / "vendor"


def measurements() -> Iterator[Measurement]:
    """All rows; ten minutes on two cores, for a report on 50,000 rows and for tests in a browser."""
    bundle = VENDOR / "plotly-basic.min.js"
    yield at_most("chart library in the page, MB", bundle.stat().st_size / 1e6, 1.25)
    cost = explorer.measure()
    yield at_most(f"page of {explorer.ROWS:,} rows, MB", cost.size / 1e6, 3.0)
    bar = [f"{BROWSER}/test_explorer_access.py", "-k", "12_percent or low_screen"]
    yield from suite("bar: at most 12 % of a phone, numbers in sight", bar, 4)
    columns = [f"{BROWSER}/test_explorer_columns.py"]
    yield from suite("columns: order, fold, descriptions, axe", columns, 7)
    saved = [f"{BROWSER}/test_explorer_saved.py", "tests/unit/report/test_comparison.py"]
    yield from suite("saved models: numbers, rows left out, axe", saved, 25)
    laws = ["tests/unit/auditing/test_paired.py", "tests/unit/auditing/test_contrasts.py", "-m", ""]
    yield from suite("paired intervals: laws, and coverage of 400 draws", laws, 11)
