"""Figures are drawn without a screen and closed."""

import pytest


@pytest.fixture(autouse=True)
def no_figures_left():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
