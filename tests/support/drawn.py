"""Rows for displays, models moved by hand, and what a figure shows."""

import numpy as np
from matplotlib.text import Text

from fairspan import FairRepresentation
from fairspan.estimators import FairRidge, FairRidgeClassifier
from tests.unit.estimators.test_path import CASES, FIXED

MOVED = [
    *[case for case in CASES if not isinstance(case[0], FairRepresentation)],
    (FairRidgeClassifier(**FIXED, criterion="equalized_odds"), "two"),
    (FairRidgeClassifier(**FIXED, criterion="equal_opportunity", pos_label="yes"), "two"),
    (FairRidge(**FIXED, dial="cosine"), "numeric"),
]


def three_groups(n=90, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    return np.round(rng.normal(size=n) + 0.5 * group, 1), group


def line(ax, label):
    (found,) = [one for one in ax.get_lines() if one.get_label() == label]
    return found


def texts(figure):
    figure.canvas.draw()
    return [t.get_text() for t in figure.findobj(Text) if t.get_text()]
