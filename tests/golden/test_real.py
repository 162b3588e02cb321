"""The library reproduces the golden tables on real data, wherever the shared folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import compare

# The two longest; `make acceptance-core` compares all of them.
SLOW = {"adult eo", "adult eop"}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=[pytest.mark.slow] if label in SLOW else [])
        for label in compare.REAL
    ],
)
def test_table(shared: Path, label: str) -> None:
    assert compare.misses(compare.REAL[label](shared)) == []


def test_every_row_belongs_to_a_test(shared: Path) -> None:
    """Only the rows that carry the authors' slicing error (``asis``) are left out."""

    def keys(table: str, *columns: str, **where: str) -> set[tuple[str | float, ...]]:
        rows = compare.golden_rows(shared, table, **where)
        return {tuple(_number(row[column]) for column in columns) for row in rows}

    tables = {(f"{dataset}_tradeoff", criterion) for dataset, criterion in compare.BANDS}
    for table in ("adult_tradeoff", "compas_tradeoff"):
        criteria = {criterion for name, criterion in tables if name == table}
        assert keys(table, "criterion") == {(criterion,) for criterion in criteria}
    both = keys("conditional_covariance_variant", "dataset", "criterion")
    assert both == set(compare.BANDS)
    income = {
        ("nlsy_tradeoff", *key) for key in keys("nlsy_tradeoff", "band", "m", variant="fixed")
    }
    income |= {("nlsy_effect_of_m", *key) for key in keys("nlsy_effect_of_m", "band", "m")}
    assert income == compare.INCOME
    assert keys("cv_bandwidth", "band", dataset="compas") == {(b,) for b in compare.CV_BANDS}
    assert keys("small_predictions", "case") - {("nlsy150_asis",)} == {
        (case,) for case in compare.SMALL
    }


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
