"""The plot of a monitor draws its numbers, limits and alarms."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib import pyplot
from tests.unit.monitoring.test_monitor import LIMITS, people

from fairspan import FairnessMonitor
from fairspan.monitoring import FairnessMonitorDisplay


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def line(ax, label):
    return next(one for one in ax.get_lines() if one.get_label() == label)


def test_each_comparison_has_a_panel_with_its_estimates_limit_and_alarm():
    monitor = FairnessMonitor(LIMITS)
    for seed in range(4):
        monitor.update(**people(500, 0.3, seed=seed))
    display = monitor.plot()
    assert isinstance(display, FairnessMonitorDisplay)
    assert len(display.axes_) == len(monitor.comparisons_) == 3
    for ax, comparison in zip(display.axes_, display.comparisons_, strict=True):
        x, y = line(ax, "estimate since the start").get_data()
        np.testing.assert_array_equal(x, [500, 1000, 1500, 2000])
        assert y[-1] == comparison.estimate
        assert line(ax, "limit").get_ydata()[0] == comparison.limit
        assert line(ax, "first alarm").get_xdata()[0] == comparison.row
        assert f"alarm: batch {comparison.batch}" in [text.get_text() for text in ax.texts]
    assert display.figure_.get_suptitle() == "FairnessMonitor: 3 alarms; 2,000 people in 4 batches"


def test_ends_are_drawn_in_the_order_of_the_groups():
    for groups in (("F", "M"), ("M", "F")):
        monitor = FairnessMonitor("gap=0.1").update(**people(1500, 0.3, groups=groups))
        (comparison,) = monitor.comparisons_
        ax = monitor.plot().ax_
        drawn = sorted(float(one.get_ydata()[-1]) for one in ax.get_lines()[:2])
        assert drawn == [comparison.low, comparison.high]


def test_an_axis_of_the_user_and_nothing_to_draw():
    monitor = FairnessMonitor(LIMITS).update(**people(300))
    _, ax = pyplot.subplots()
    assert monitor.plot(ax, title="Mine", color="black").ax_ is ax
    assert ax.get_title(loc="left") == "Mine"
    with pytest.raises(ValueError, match="nothing to draw"):
        FairnessMonitor().plot()
    many = FairnessMonitor("gap=0.1").update(**people(800, groups=("a", "b", "c", "d", "e")))
    display = many.plot(max_panels=3)
    assert len(display.axes_) == 3
    assert "7 comparisons not drawn" in display.figure_.get_suptitle()
