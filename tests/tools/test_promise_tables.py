"""Tables about new rows: a stopped run goes on, and dependence is measured as promised."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tools import promise_tables
from tools.acceptance_promise import MEAN_PARITY, _dependence, explanation
from tools.promise_dependence import DIAL, _correlation, equal_parity_value, summary
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
    monkeypatch.setattr(promise_tables, "commit_name", lambda: "abc")
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


def test_a_constant_score_has_a_correlation_of_zero() -> None:
    s, cells = np.arange(6) % 2, [np.ones(6, dtype=bool)]
    assert _correlation(np.full(6, 0.3), s, cells) == 0.0
    assert _correlation(np.full(6, 0.3), np.arange(6) % 3, cells) == 0.0
    assert _correlation(np.full(6, 0.3), np.arange(6.0), cells) == 0.0
    assert _correlation(s.astype(float), s, cells) == pytest.approx(-1.0)


def test_one_dial_value_for_all_draws_at_equal_mean_parity() -> None:
    noise = np.array([-0.1, 0.0, 0.1])
    reached = 1.0 - DIAL + noise[:, None]  # 0 at fairness 1 on average
    errors = DIAL**2 + noise[:, None]
    found = summary(
        {
            "correlation_new": np.array([-0.11, -0.1, -0.09]),
            "error_new": np.array([1.3, 1.31, 1.35]),
            "error_today_at_equal_parity": np.array([1.0, 1.0, 1.0]),
            "path_correlation": reached,
            "path_error": errors,
        }
    )
    assert found["dial_today_at_equal_mean_parity"] == pytest.approx(1.1)
    assert found["correlation_today_at_equal_mean_parity"] == pytest.approx(-0.1)
    differences = np.array([1.3, 1.31, 1.35]) - 1.21 - noise
    assert found["paired_at_mean_parity"] == pytest.approx(differences.mean())
    expected = differences.std(ddof=1) / np.sqrt(3)
    assert found["paired_at_mean_parity_se"] == pytest.approx(expected)
    # The mean error 1.32 is that of the path at the root of 1.32.
    at_error = 1.0 - np.sqrt(1.32) + noise
    assert found["correlation_today_at_equal_mean_error"] == pytest.approx(
        at_error.mean(), abs=1e-3
    )
    difference = -np.array([-0.11, -0.1, -0.09]) + at_error
    assert found["paired_correlation"] == pytest.approx(difference.mean(), abs=1e-3)
    assert found["paired_correlation_se"] == pytest.approx(
        difference.std(ddof=1) / np.sqrt(3), abs=1e-3
    )


def test_a_path_that_has_the_correlation_twice_or_never() -> None:
    reached = (DIAL - 1.2) ** 2
    assert equal_parity_value(reached, DIAL, 0.04) == pytest.approx(1.0)  # also at 1.4
    assert equal_parity_value(reached, -DIAL, 0.04) == pytest.approx(1.4)
    assert equal_parity_value(reached, DIAL, -1.0) == pytest.approx(1.2)


def test_a_miss_passes_only_with_an_explanation_that_its_row_shows() -> None:
    row = {"name": "loans, three races", "correlation_today": 0.08, "correlation_new": 0.06}
    assert "named as left in 100 % of draws: hispan" in explanation(row | {"left": 1.0}, 0.03)
    assert explanation(row | {"left": 0.0}, 0.03) == ""
    assert explanation(row | {"left": 1.0, "name": "another"}, 0.03) == ""
    near = {"name": "any", "correlation_today": 0.1, "correlation_new": -0.018, "left": 0.0}
    assert explanation(near, 0.015) == "0.003 above the limit, from 0.100 today"
    assert explanation(near | {"correlation_today": 0.03}, 0.015) == ""
    assert explanation(near | {"correlation_new": 0.021}, 0.015) == ""


def test_more_misses_than_allowed_fail() -> None:
    made = [
        {
            "name": f"row {i}",
            "correlation_today": 0.1,
            "correlation_new": 0.018,
            "correlation_new_se": 0.005,
            "left": 0.0,
            "draws": 20.0,
            "paired": 0.0,
            "paired_se": 1.0,
            MEAN_PARITY: 0.0,
            f"{MEAN_PARITY}_se": 1.0,
        }
        for i in range(5)
    ]
    counted = "rows of |correlation| that miss, each explained"
    for n, passed in ((4, True), (5, False)):
        table = list(_dependence(made[:n]))
        assert "(explained) 0.003 above" in table[0].line()
        assert [m.passed for m in table if m.name == counted] == [passed]
