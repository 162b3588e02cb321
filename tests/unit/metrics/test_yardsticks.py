"""Limits that a person states, and verdicts on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.metrics.yardsticks import Yardstick, read_yardstick

nan = float("nan")


@pytest.mark.parametrize(
    ("text", "low", "high", "verdict"),
    [
        ("gap=0.05", 0.0, 0.05, "kept"),
        ("gap=0.05", 0.06, 0.2, "broken"),
        ("gap=0.05", 0.04, 0.06, "not provable"),
        ("ratio=0.8", 0.8, 1.0, "kept"),
        ("ratio=0.8", 0.5, 0.79, "broken"),
        ("ratio=0.8", 0.7, 0.9, "not provable"),
        ("correlation=0.1", nan, 0.2, "not provable"),
    ],
)
def test_an_interval_keeps_or_breaks_a_limit(
    text: str, low: float, high: float, verdict: str
) -> None:
    assert read_yardstick(text).judge(low, high) == verdict


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.sampled_from(["gap", "ratio", "correlation"]))
def test_a_wider_interval_proves_no_more(middle: float, width: float, measure: str) -> None:
    yardstick = Yardstick(measure=measure, limit=0.5)
    narrow = yardstick.judge(middle - width / 2, middle + width / 2)
    wide = yardstick.judge(middle - width, middle + width)
    assert wide in (narrow, "not provable")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gap", "is no limit; write gap=0.05"),
        ("gap=small", "is no limit"),
        ("gap=nan", "is no limit"),
        ("gap=5", "give a number between 0 and 1"),
        ("speed=0.1", "give one of: ratio, gap, correlation"),
    ],
)
def test_another_form_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_yardstick(text)


def test_a_yardstick_prints_as_it_is_written() -> None:
    assert str(read_yardstick("ratio=0.80")) == "ratio=0.8"
    assert read_yardstick(Yardstick(measure="gap", limit=0.1)).limit == 0.1
