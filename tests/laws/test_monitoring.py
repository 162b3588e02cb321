"""Monitors: bets are fair under the hypothesis, and batches, names of groups and stops do not matter."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import FairnessMonitor
from fairspan.monitoring.comparisons import GapTest, Neighbours, RatioTest

LIMITS = ["gap=0.1", "ratio=0.8", "correlation=0.1", "change=0.05"]
OPTIONS = {"limits": LIMITS, "reference_rows": 150, "min_rows": 10}


@pytest.mark.parametrize(
    ("test", "rates"),
    [
        (GapTest(0.1), (0.6, 0.5)),
        (GapTest(0.1), (0.1, 0.0)),
        (GapTest(0.1), (0.3, 0.4)),
        (GapTest(0.3), (0.2, 0.2)),
        (RatioTest(0.8), (0.5, 0.4)),
        (RatioTest(0.5), (0.25, 0.5)),
    ],
)
@given(order=st.lists(st.booleans(), min_size=2, max_size=7))
@settings(max_examples=15, deadline=None)
def test_the_mean_wealth_on_the_limit_is_at_most_one_in_any_order_of_the_people(test, rates, order):
    """Over all decisions of up to seven people whose groups come in any order."""
    place = int(np.argmin(np.abs(test.ends.grid - (test.limit if test.limit in (0.1, 0.3) else 0))))
    if isinstance(test, RatioTest):
        place = int(np.argmin(np.abs(test.ends.grid + test.limit)))
    n = len(test.ends.grid)
    mean = np.zeros(2)
    for decisions in itertools.product([0, 1], repeat=len(order)):
        fresh, rows = type(test)(test.limit), Neighbours()
        last = np.ones(2 * n)
        for row, (second, favourable) in enumerate(zip(order, decisions, strict=True), 1):
            block = rows.add(int(second), bool(favourable), row)
            if block is not None:
                last = fresh.ends.wealth.step(fresh.payoffs.at(block.first, block.second))
        chance = 1.0
        for second, favourable in zip(order, decisions, strict=True):
            rate = rates[int(second)]
            chance *= rate if favourable else 1.0 - rate
        mean += chance * last[[place, n + place]]
    assert (mean <= 1.0 + 1e-12).all()


@st.composite
def streams(draw):
    """People with two to four groups, and where batches end."""
    n = draw(st.integers(180, 320))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    groups = ["a", "b", "c", "d"][: draw(st.integers(2, 4))]
    s = rng.choice(groups, n)
    gap = draw(st.sampled_from([0.0, 0.3, 0.8]))
    rate = 0.5 + gap * ((s == "b") - 0.5)
    rows = {
        "decisions": (rng.random(n) < rate).astype(int),
        "scores": np.clip(rate + 0.1 * rng.normal(size=n), 0, 1),
        "s": s,
    }
    cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=6)))
    return rows, [0, *cuts, n]


def fed(rows, cuts, *, stops=False, **options):
    monitor = FairnessMonitor(**{**OPTIONS, **options})
    with tempfile.TemporaryDirectory() as folder:
        for start, end in itertools.pairwise(cuts):
            batch = {name: column[start:end] for name, column in rows.items()}
            monitor.update(
                decisions=batch["decisions"],
                scores=batch["scores"],
                sensitive_features={"s": batch["s"]},
            )
            if stops:
                monitor = FairnessMonitor.load(monitor.save(Path(folder) / "state.json"))
    return monitor


def results(monitor, names=None):
    """All but the number of the batch."""
    names = names or {}
    return [
        (
            c.metric,
            *(names.get(g, g) for g in c.groups),
            c.estimate,
            c.low,
            c.high,
            c.n_people,
            c.row,
        )
        for c in monitor.comparisons_
    ]


@given(stream=streams())
@settings(max_examples=15, deadline=None)
def test_cutting_into_batches_changes_nothing_but_the_number_of_the_batch(stream):
    rows, cuts = stream
    whole, parts = fed(rows, [0, cuts[-1]]), fed(rows, cuts)
    assert repr(results(whole)) == repr(results(parts))
    assert whole.window_rates() == parts.window_rates()
    for alarm in parts.alarms_:
        assert cuts[alarm.batch - 1] < alarm.row <= cuts[alarm.batch]


@given(stream=streams(), names=st.permutations(["a", "b", "c", "d"]))
@settings(max_examples=15, deadline=None)
def test_names_of_groups_do_not_matter(stream, names):
    rows, cuts = stream
    new = dict(zip("abcd", [f"group {name}" for name in names], strict=True))
    renamed = {**rows, "s": np.array([new[label] for label in rows["s"]])}
    old = {value: key for key, value in new.items()}
    assert repr(results(fed(rows, cuts))) == repr(results(fed(renamed, cuts), old))


@given(stream=streams())
@settings(max_examples=5, deadline=None)
def test_a_stop_after_every_batch_changes_nothing(stream):
    rows, cuts = stream
    whole, parts = fed(rows, cuts), fed(rows, cuts, stops=True)
    assert repr(whole.comparisons_) == repr(parts.comparisons_)
    with tempfile.TemporaryDirectory() as folder:
        files = [m.save(Path(folder) / f"{i}") for i, m in enumerate((whole, parts))]
        assert files[0].read_bytes() == files[1].read_bytes()


@given(stream=streams())
@settings(max_examples=15, deadline=None)
def test_the_other_decision_and_turned_scores_mirror_gaps_and_correlations(stream):
    rows, cuts = stream
    limits = ["gap=0.1", "correlation=0.1"]
    options = {"limits": limits, "reference_rows": None}
    turned = {**rows, "decisions": 1 - rows["decisions"], "scores": 1 - rows["scores"]}
    a, b = fed(rows, cuts, **options), fed(turned, cuts, **options)
    assert [c.row for c in a.comparisons_] == [c.row for c in b.comparisons_]
    for one, other in zip(a.comparisons_, b.comparisons_, strict=True):
        assert abs(one.estimate) == pytest.approx(abs(other.estimate), abs=1e-9, nan_ok=True)
