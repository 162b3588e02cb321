"""The groups of one attribute: what is known before a block, limits, and correlations."""

import math

import numpy as np
import pytest

from fairspan.monitoring.comparisons import BLOCK_ROWS, CorrelationTest
from fairspan.monitoring.groups import Counts, GroupMonitor, Limit


def monitor(*limits, **options):
    settings = {"errors": 0.05, "min_rows": 5, "reference_rows": 0, **options}
    return GroupMonitor("s", [Limit.read(text) for text in limits], **settings)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    return rng.choice(["a", "b"], n, p=[0.3, 0.7]).tolist(), rng.uniform(0.2, 0.9, n).tolist()


def test_bets_on_a_block_use_only_people_before_it(monkeypatch):
    tilts = []
    step = CorrelationTest.step

    def record(self, block, inside, tilt, errors):
        tilts.append(tilt)
        step(self, block, inside, tilt, errors)

    monkeypatch.setattr(CorrelationTest, "step", record)
    labels, scores = rows()
    groups = monitor("correlation=0.1", known=["a", "b"])
    for row, (label, score) in enumerate(zip(labels, scores, strict=True), 1):
        groups.add(label, False, score, row, 1)
    expected = []
    for end in range(0, len(labels), BLOCK_ROWS):
        inside = np.array(labels[:end]) == "a"
        if inside.any():
            ratio = np.inf if inside.all() else inside.std() / np.std(scores[:end])
            expected.append(1.0 if inside.all() else np.clip(ratio, 0.1, 10.0))
    np.testing.assert_allclose(tilts, expected)


def test_the_correlation_is_that_of_numpy():
    labels, scores = rows()
    groups = monitor("correlation=0.1")
    for row, (label, score) in enumerate(zip(labels, scores, strict=True), 1):
        groups.add(label, False, score, row, 1)
    inside = np.array(labels) == "a"
    expected = np.corrcoef(inside, scores)[0, 1]
    assert groups.correlation(groups.codes["a"]) == pytest.approx(expected)
    assert groups.correlation(groups.codes["b"]) == pytest.approx(-expected)
    constant = monitor("correlation=0.1")
    for row, label in enumerate(labels, 1):
        constant.add(label, False, 0.5, row, 1)
    assert constant.correlation(0) == 0.0


@pytest.mark.parametrize("text", ["gap=0.1", "ratio=0.8", "correlation=0.05", "change=0.02"])
def test_words_of_limits(text):
    assert str(Limit.read(text)) == text
    assert Limit.read(Limit.read(text)) == Limit.read(text)


@pytest.mark.parametrize("text", ["change", "change=2", "gap", "other=1", ""])
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match=r"limit|not allowed"):
        Limit.read(text)


def test_a_group_without_people_has_no_rate():
    assert math.isnan(Counts().rate)
    assert Counts(people=4, favourable=1).rate == 0.25
