"""Wrong verdicts of the explorer's first page: ``python -m tools.people_verdicts``.

The truth lies at the limit, where a wrong verdict is most likely: selection rates of .60 and .48 (their
ratio is .8, their gap 12 points), and a score whose correlation with the group is .1. Each draw is a new
sample of 1,000 people, judged by the intervals of an audit with 200 resamples as in ``explore``. At the
limit "kept" and "broken" are both claims that these people cannot support; each may be made in at most 5 %
of the draws.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairspan import audit
from fairspan.metrics.yardsticks import read_yardstick
from tools.table import Measurement, at_most, show

DRAWS, N = 600, 1_000
RATES = (0.60, 0.48)
CORRELATION = 0.1
# Shares of the groups, and the rate of each: the last group has the lowest rate.
POPULATIONS = {
    "two equal groups": ((0.5, 0.5), RATES),
    "a group of 8 %": ((0.92, 0.08), RATES),
    "three groups": ((0.5, 0.3, 0.2), (RATES[0], 0.54, RATES[1])),
    "four groups": ((0.4, 0.3, 0.2, 0.1), (0.60, 0.60, 0.48, 0.48)),
}
METRICS = {"ratio=0.8": "demographic_parity_ratio", "gap=0.12": "demographic_parity_difference"}


def _judged(limits: dict[str, str], scores: Any, group: Any, **given: Any) -> Iterator[str]:
    found = audit(
        scores,
        sensitive_features={"group": group},
        parts=["scores", "decisions"],
        intersectional=False,
        n_boot=200,
        **given,
    )
    by_metric = {f.metric: f for f in found.findings if not f.group}
    for limit, metric in limits.items():
        f = by_metric[metric]
        yield f"{limit} {read_yardstick(limit).judge(f.low, f.high)}"


def _shares(counts: Counter[str], limit: str, name: str) -> Iterator[Measurement]:
    for verdict in ("kept", "broken"):
        share = counts[f"{limit} {verdict}"] / DRAWS
        yield at_most(f"{limit} at the limit, {name}: said {verdict}", share, 0.05)


def measurements() -> Iterator[Measurement]:
    """Shares of draws with each claim."""
    rng = np.random.default_rng(0)
    for name, (shares, rates) in POPULATIONS.items():
        counts: Counter[str] = Counter()
        for draw in range(DRAWS):
            group = rng.choice(len(shares), N, p=shares)
            chosen = (rng.random(N) < np.array(rates)[group]).astype(int)
            counts.update(
                _judged(METRICS, chosen, group.astype(str), decisions=chosen, random_state=draw)
            )
        for limit in METRICS:
            yield from _shares(counts, limit, name)
    limit, counts = f"correlation={CORRELATION}", Counter()
    slope = 2.0 * CORRELATION / np.sqrt(1.0 - CORRELATION**2)
    for draw in range(DRAWS):
        half = rng.integers(0, 2, N)
        score = rng.normal(size=N) + slope * half
        metric = {limit: "statistical_parity_correlation"}
        counts.update(_judged(metric, score, half.astype(str), random_state=draw))
    yield from _shares(counts, limit, "two equal groups")


if __name__ == "__main__":
    sys.exit(show(measurements()))
