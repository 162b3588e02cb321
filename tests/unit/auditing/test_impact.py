"""Impact of a selection on groups: by hand, and coverage of ratios to the highest rate."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.auditing.test_paired import rows

from fairspan.auditing.impact import all_groupings, impacts
from fairspan.auditing.reading import Protected
from fairspan.auditing.small_groups import exact_interval


def table(*groups: tuple[int, int], **more):
    """Rows with (selected, people) of each group, and who is selected."""
    s = np.repeat(np.arange(len(groups)), [n for _, n in groups])
    chosen = np.concatenate([np.arange(n) < k for k, n in groups])
    return rows(s, chosen.astype(int), **more), chosen


OPTIONS = {"level": 0.95, "n_boot": 200}


def test_rates_ratios_and_shortfalls_by_hand():
    data, chosen = table((60, 100), (45, 100), (8, 40))
    (found,) = impacts(data, chosen, **OPTIONS)
    assert found.reference == "g0"
    rates = [g.rate.value for g in found.groups]
    assert rates == pytest.approx([0.6, 0.45, 0.2])
    assert [g.ratio.value for g in found.groups] == pytest.approx([1.0, 0.75, 1 / 3])
    assert [g.shortfall.value for g in found.groups] == pytest.approx([0.0, 15.0, 16.0])
    assert [g.test is None for g in found.groups] == [True, False, False]
    assert found.groups[1].p_adjusted == pytest.approx(found.groups[1].test.p_value)  # the larger
    assert found.groups[2].p_adjusted == pytest.approx(2 * found.groups[2].test.p_value)
    for g in found.groups:
        assert g.ratio.low <= g.ratio.value <= g.ratio.high <= 1.0
        assert 0.0 <= g.shortfall.low <= g.shortfall.value <= g.shortfall.high


def test_small_groups_are_listed_and_not_compared():
    data, chosen = table((60, 100), (45, 100), (3, 3))
    (found,) = impacts(data, chosen, **OPTIONS)
    assert found.reference == "g0"  # and not the group of three with the rate 1
    assert found.groups[2].left_out == "fewer than 30 effective rows"
    assert np.isnan(found.groups[2].ratio.value)
    (found,) = impacts(data, chosen, min_rows=0, min_share=0.02, **OPTIONS)
    assert found.groups[2].left_out == "below 2% of the people"


def test_few_rows_get_exact_limits():
    data, chosen = table((8, 10), (3, 10))
    (found,) = impacts(data, chosen, **OPTIONS)
    tail = 0.05 / 4.0
    (low_0, high_0), (low_1, high_1) = (exact_interval(r, 10.0, tail) for r in (0.8, 0.3))
    ratio = found.groups[1].ratio
    assert (ratio.low, ratio.high) == pytest.approx((low_1 / high_0, min(high_1 / low_0, 1.0)))
    assert found.groups[1].shortfall.high == pytest.approx(10 * (high_0 - low_1))


def test_nobody_selected_is_a_ratio_of_one():
    data, chosen = table((0, 50), (0, 50))
    (found,) = impacts(data, chosen, **OPTIONS)
    assert [g.ratio.value for g in found.groups] == [1.0, 1.0]
    assert found.groups[1].ratio.low == 0.0


def test_combinations_are_compared_though_the_audit_left_them_out():
    data, chosen = table((20, 50), (30, 50))
    sex = Protected("t", "categorical", np.tile([0, 1], 50), ("f", "m"))
    data = rows(data.attributes[0].codes, chosen.astype(int), attributes=(*data.attributes, sex))
    assert [g.name for g in all_groupings(data)] == ["s", "t", "s x t"]
    assert len(impacts(data, chosen, **OPTIONS)[2].groups) == 4


def test_clusters_are_tested_by_effective_numbers():
    data, chosen = table((20, 50), (30, 50))
    (alone,) = impacts(data, chosen, **OPTIONS)
    data = rows(data.attributes[0].codes, chosen.astype(int), clusters=np.arange(100) // 2)
    (found,) = impacts(data, chosen, **OPTIONS, min_rows=10)
    assert "z-test" in found.groups[0].test.test
    assert found.groups[0].test.p_value > alone.groups[0].test.p_value


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.5, 0.4), (0.5, 0.5), (0.5, 0.5, 0.5, 0.3)])
def test_ratios_to_the_highest_rate_are_covered(rates):
    rates, draws, hits = np.array(rates), 200, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        s = rng.integers(0, len(rates), 150 * len(rates))
        chosen = rng.random(len(s)) < rates[s]
        (found,) = impacts(rows(s, chosen.astype(int)), chosen, **OPTIONS)
        ratio = found.groups[1].ratio
        hits += ratio.low <= rates[1] / rates.max() <= ratio.high + 1e-12
    assert hits / draws >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / draws)
