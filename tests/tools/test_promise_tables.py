"""Tables about new rows: a stopped run goes on, and dependence is measured as promised."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tools import promise_tables
from tools.promise_limits import correlation, gap
from tools.promise_tables import Found, Part


def test_rows_of_the_same_commit_are_not_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeds: list[int] = []

    def measure(seed: int) -> Found:
        seeds.append(seed)
        return {"a": {"value": float(seed)}, "b": {"value": 1.0}}

    def table(draws: int) -> Iterator[Part]:
        yield Part(names=["a", "b"], measure=measure, draws=draws)

    out = tmp_path / "table.csv"
    monkeypatch.setitem(promise_tables.TABLES, "limits", table)
    monkeypatch.setattr(promise_tables, "_commit", lambda: "abc")
    for draws, made in (("3", [0, 1, 2]), ("3", []), ("2", [0, 1])):
        seeds.clear()
        monkeypatch.setattr(sys, "argv", ["", "limits", "--draws", draws, "--out", str(out)])
        promise_tables.main()
        assert seeds == made
    with out.open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert (first["name"], first["value"], first["commit"]) == ("a", "0.5", "abc")
    assert second["draws"] == "2"
    assert second["command"].endswith("limits --draws 2")


def test_the_worst_attribute_counts() -> None:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, size=(400, 3))
    f = s[:, 1] + rng.normal(size=400)
    assert correlation(f, s) == abs(np.corrcoef(f, s[:, 1])[0, 1])
    chosen = s[:, 2] == 1
    assert gap(chosen, s) == 1.0
    assert gap(chosen, s[:, 0]) < 0.3
    assert correlation(np.ones(400), s) == 0.0
