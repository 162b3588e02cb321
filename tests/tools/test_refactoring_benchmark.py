"""The comparison of speed with an earlier commit: its verdicts, and one run at a tiny size."""

import csv
import subprocess

import numpy as np
import pytest
from benchmarks import refactoring


def comparison(ratio, low, high):
    return refactoring.Comparison(
        name="fit",
        before="a",
        after="b",
        runs=3,
        seconds_before=1.0,
        seconds_after=ratio,
        ratio=ratio,
        low=low,
        high=high,
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high", "passed"),
    [
        (1.04, 1.01, 1.06, True),
        (1.2, 0.9, 1.5, True),
        (1.2, 1.1, 1.3, False),
        (0.5, 0.4, 0.6, True),
    ],
)
def test_a_slowdown_is_missed_only_if_it_is_large_and_sure(ratio, low, high, passed):
    row = comparison(ratio, low, high).row
    assert row.passed == passed
    assert row.measured == ratio
    assert f"({low:.3f} to {high:.3f})" in row.name


def test_the_interval_is_of_the_ratio_of_medians():
    rng = np.random.default_rng(1)
    before = 1.0 + 0.05 * rng.normal(size=15)
    assert refactoring.ratio_interval(before, 1.2 * before) == pytest.approx((1.2, 1.2))
    low, high = refactoring.ratio_interval(before, 1.0 + 0.05 * rng.normal(size=15))
    assert 0.9 < low < 1.0 < high < 1.1


@pytest.mark.slow
def test_a_run_of_both_versions(tmp_path, capsys):
    if subprocess.run(["git", "-C", refactoring.ROOT, "rev-parse"], capture_output=True).returncode:
        pytest.skip("no git checkout")
    small = ["--rows=120", "--landmarks=20", "--audit-rows=120", "--report-rows=120"]
    out = tmp_path / "refactoring.csv"
    status = refactoring.main(["--before=HEAD", "--runs=1", f"--out={out}", *small])
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    names = [row["name"].partition(",")[0] for row in rows]
    assert names == ["import fairspan", "fit", "audit", "explore"]
    assert all(float(row["ratio"]) > 0.0 for row in rows)
    printed = capsys.readouterr().out
    assert status == ("MISS" in printed)
    assert all(row["name"] in printed for row in rows)
    left = subprocess.run(
        ["git", "-C", refactoring.ROOT, "worktree", "list"], capture_output=True, text=True
    )
    assert "/before " not in left.stdout
