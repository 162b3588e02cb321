"""Tables about equal decisions: paths are read at the achieved gap, and a small group promises nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tools import acceptance_decisions
from tools.decisions_tables import LIMITS, error_at, kept_draw, limit_names, ratio
from tools.promise_populations import people, planted


def test_the_error_of_a_path_is_read_where_its_gap_first_reaches_the_one_wanted() -> None:
    gaps, errors = np.array([0.3, 0.2, 0.1, 0.15, 0.0]), np.array([0.1, 0.2, 0.4, 0.3, 0.5])
    assert error_at(gaps, errors, 0.3) == 0.1
    assert error_at(gaps, errors, 0.15) == pytest.approx(0.3)
    assert error_at(gaps, errors, 0.1) == pytest.approx(0.4)
    assert np.isnan(error_at(gaps, errors, -0.1))


def test_the_smallest_ratio_of_all_attributes_counts() -> None:
    s = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert ratio(np.array([True, False, True, False]), s[:, 0]) == 1.0
    assert ratio(np.array([True, False, True, False]), s) == 0.0


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
@pytest.mark.parametrize("share", [0.4, 0.05])
def test_a_draw_fills_its_rows(share: float) -> None:
    draw = planted(lambda n, rng: people(n, share, rng), 300, 2000)
    found = kept_draw("a", draw, 0)
    assert list(found) == limit_names("a")
    for (kind, limit), row in zip(LIMITS, found.values(), strict=True):
        broken = row["value"] > limit if kind == "max_gap" else row["value"] < limit
        assert row["promised_and_broken"] == float(bool(row["promised"]) and broken)
        assert share > 0.1 or (row["promised"] == 0.0 and np.isnan(row["value"]))


def test_tables_that_were_not_made_are_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance_decisions, "read", lambda *_: [])
    assert not all(row.passed for row in acceptance_decisions.measurements())
