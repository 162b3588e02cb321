"""Laws of an audit's intervals that a broken core would otherwise get away with."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fairspan import audit
from fairspan.auditing.attack import _p_value
from fairspan.auditing.findings import measure, summarise
from fairspan.auditing.scores import distance_interval

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.sampled_from(["largest", "range", "length", "sum"]))
def test_an_interval_reaches_as_far_down_as_up(seed, size):
    """The truth is as far off on either side: no end is drawn out beyond the quantile."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=4) + np.array([-9.0, 9.0, 9.0, 9.0])
    draws = parts[:, None] + rng.normal(size=(4, 200))
    value, low, high = summarise(parts, draws, size, 0.9, top=np.inf)
    reach = np.quantile(measure(draws - parts[:, None], size), 0.9)
    assert value - low == pytest.approx(reach)
    assert high - value == pytest.approx(reach)


def test_equalized_odds_pays_for_two_ranges():
    """Two ranges at once at level .9 are each held at .95."""
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 2000))
    decided = (rng.random(2000) < np.where(y == 1, 0.3 + 0.4 * s, 0.4)).astype(int)

    def found(level, metric):
        report = audit(
            decided.astype(float), decisions=decided, y=y, sensitive_features=s,
            parts=["decisions"], n_boot=200, random_state=0, level=level,
        )  # fmt: skip
        (one,) = [f for f in report.findings if f.metric == metric]
        return one.value, one.low, one.high

    both = found(0.9, "equalized_odds_difference")
    assert both == pytest.approx(found(0.95, "equal_opportunity_difference"))
    assert both != pytest.approx(found(0.9, "equal_opportunity_difference"))


@given(SEEDS, st.floats(0.4, 0.8))
def test_the_p_value_of_an_attack_has_twice_the_variance(seed, value):
    """Rows attack each other: a bootstrap of fitted models shows half the variance of being blind."""
    drawn = np.random.default_rng(seed).normal(value, 0.05, 300)
    away = (value - 0.5) / (np.sqrt(2.0) * drawn.std())
    p_value = _p_value(np.append(value, drawn), 0.5)
    assert p_value == pytest.approx(scipy.stats.norm.sf(away))


def test_the_interval_of_a_distance_narrows_with_the_rows():
    """It is made from some of the rows, and is the interval of all of them: half as wide for four times."""

    def width(n):
        rng = np.random.default_rng(1)
        s = rng.normal(size=n)
        f = s + 1.5 * rng.normal(size=n)
        _, value, low, high = distance_interval(f[:, None], s, np.ones(n), 0.9, 100, rng)
        assert 0.0 < low < value < high < 1.0
        return high - low

    assert width(1000) / width(4000) == pytest.approx(2.0, rel=0.2)
