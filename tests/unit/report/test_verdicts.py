"""Verdicts: the audit's numbers, judged and put into sentences that name groups and people."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import audit
from fairspan.auditing import Protected
from fairspan.auditing.parts import Settings
from fairspan.metrics import demographic_parity_difference, demographic_parity_ratio
from fairspan.metrics.yardsticks import Yardstick, read_yardstick
from fairspan.report.dial_points import hide_few
from fairspan.report.training import Favourable
from fairspan.report.verdicts import (
    SMALL_CORRELATION,
    Limits,
    choose_limits,
    group_words,
    how_to_read,
    limit_words,
    read_limits,
    verdicts,
)

YES = Favourable("yes", True, "as you asked")
CONTEXT: Any = SimpleNamespace(decides=True, criterion="statistical_parity")


def limits(*given: str) -> Limits:
    return Limits(yardsticks=read_limits(given), stated=True)


def case(counts: dict[str, tuple[int, int]], score: Any = None) -> tuple[Any, Any, Any, Any]:
    """Decisions of people: group -> how many there are, and how many are selected."""
    labels = tuple(counts)
    codes = np.repeat(np.arange(len(labels)), [n for n, _ in counts.values()])
    chosen = np.concatenate([np.arange(n) < k for n, k in counts.values()]).astype(int)
    group = np.array(labels)[codes]
    options: dict[str, Any] = {"sensitive_features": {"race": group}, "n_boot": 60}
    found = audit(
        chosen.astype(float) if score is None else score,
        decisions=chosen,
        y=np.arange(len(chosen)) % 2,  # both classes occur
        parts=["decisions", "scores"],
        intersectional=False,
        **options,
    )
    few = {("race", label) for label, (n, _) in counts.items() if n < 5}
    findings = {(f.metric, f.attribute, f.group, f.where): hide_few(f, few) for f in found.findings}
    data = SimpleNamespace(
        attributes=(Protected("race", "categorical", codes, labels),), n=len(codes)
    )
    held_out = SimpleNamespace(
        data=data, attributes=data.attributes, settings=Settings(), task="binary"
    )
    return SimpleNamespace(findings=findings), held_out, chosen, group


# ------------------------------------------------------------------ the limits


def test_limits_are_read_in_every_form_and_each_once() -> None:
    ratio, gap = read_yardstick("ratio=0.8"), read_yardstick("gap=0.05")
    assert read_limits(None) == ()
    assert read_limits("ratio=0.80") == (ratio,)
    assert read_limits(["ratio=0.8", "gap=0.05", ratio]) == (ratio, gap)
    assert read_limits({"ratio": 0.8, "gap": 0.05}) == (ratio, gap)
    with pytest.raises(ValueError, match=r"is no limit; write gap=0\.05"):
        read_limits(["0.8"])


def test_the_default_follows_what_can_be_compared() -> None:
    four_fifths = choose_limits((), "repaid", 2, YES)
    assert list(map(str, four_fifths.yardsticks)) == ["ratio=0.8"]
    assert not four_fifths.stated
    for classes in (None, 3):
        (only,) = choose_limits((), "grade", classes, None).yardsticks
        assert only == Yardstick(measure="correlation", limit=SMALL_CORRELATION)
    stated = choose_limits(read_limits("gap=0.1"), "repaid", 2, YES)
    assert stated == limits("gap=0.1")


@pytest.mark.parametrize("text", ["gap=0.1", "ratio=0.8"])
def test_rates_need_a_favourable_class(text: str) -> None:
    given = read_limits(["correlation=0.1", text])
    with pytest.raises(ValueError, match=r"'pay' is a number\. Limit the correlation"):
        choose_limits(given, "pay", None, None)
    with pytest.raises(ValueError, match=r"'grade' has 3 classes.*Name it with --positive"):
        choose_limits(given, "grade", 3, None)


def test_a_limit_in_words() -> None:
    words = [limit_words(read_yardstick(t)) for t in ("ratio=.8", "ratio=.9", "gap=.05")]
    assert words == [
        "four-fifths ratio",
        "limit of 0.9 on the ratio",
        "limit of 5 points on the gap",
    ]


# ------------------------------------------------------------------ verdicts

sizes = st.tuples(st.integers(30, 300), st.floats(0.0, 1.0)).map(lambda t: (t[0], int(t[0] * t[1])))


@settings(max_examples=25, deadline=None)
@given(st.lists(sizes, min_size=2, max_size=4), st.floats(0.5, 0.95), st.floats(0.01, 0.4))
def test_the_sentence_has_the_numbers_of_the_metrics(
    groups: list[tuple[int, int]], ratio: float, gap: float
) -> None:
    counts = {f"group {'abcd'[i]}": size for i, size in enumerate(groups)}
    point, held_out, chosen, group = case(counts)
    of_ratio, of_gap = verdicts(
        point, held_out, limits(f"ratio={ratio:.3f}", f"gap={gap:.3f}"), CONTEXT
    )
    rates = {label: k / n for label, (n, k) in counts.items()}
    given, y = {"sensitive_features": group, "pos_label": 1}, np.arange(len(chosen)) % 2
    assert of_gap["value"] == pytest.approx(
        demographic_parity_difference(y, chosen, **given), abs=1e-12
    )
    if max(rates.values()) > 0.0:
        expected = demographic_parity_ratio(y, chosen, **given)
        assert of_ratio["value"] == pytest.approx(expected, abs=1e-12)
    for found in (of_ratio, of_gap):
        yardstick = read_yardstick(found["limit"])
        assert found["verdict"] == yardstick.judge(found["low"], found["high"])
        start = {
            "kept": r"^The .* is kept on these people: ",
            "broken": r"^The .* is broken on these people: ",
            "not provable": r"^Whether the .* is kept is not provable with this many people: ",
        }[found["verdict"]]
        assert re.match(start, found["words"])
        named = re.findall(r"\((group \w), ([\d.]+)% of ([\d,]+) people\)", found["words"])
        if not named:
            assert "nobody is selected in any group" in found["words"]
            assert max(rates.values()) == 0.0
            continue
        (low, *low_numbers), (high, *high_numbers) = named
        assert low != high
        assert rates[low] == min(rates.values())
        assert rates[high] == max(rates.values())
        for label, (percent, n) in ((low, low_numbers), (high, high_numbers)):
            assert float(percent) == pytest.approx(100 * rates[label], abs=0.051)
            assert int(n.replace(",", "")) == counts[label][0]
        if found["verdict"] == "not provable":
            assert "The least certain rate is that of group" in found["words"]


def test_a_wide_interval_names_the_small_group_and_its_size() -> None:
    point, held_out, *_ = case({"white": (4000, 3000), "black": (35, 25), "asian": (12, 3)})
    (found,) = verdicts(point, held_out, limits("ratio=0.8"), CONTEXT)
    assert found["verdict"] == "not provable"
    assert "The least certain rate is that of black, with 35 people." in found["words"]
    assert found["words"].endswith("Too few people to judge: asian (12 people).")


def test_small_groups_are_named_once() -> None:
    point, held_out, *_ = case({"a": (400, 300), "b": (350, 250), "c": (12, 3)})
    found = verdicts(point, held_out, limits("ratio=0.8", "gap=0.05"), CONTEXT)
    assert [one["words"].count("c (12 people)") for one in found] == [1, 0]


def test_of_a_few_people_no_rate_is_told() -> None:
    point, held_out, *_ = case({"white": (400, 300), "few": (3, 2)})
    for found in verdicts(point, held_out, limits("ratio=0.8", "gap=0.05"), CONTEXT):
        assert found["verdict"] == "not provable"
        assert np.isnan([found["value"], found["low"], found["high"]]).all()
        assert "few has only 3 people" in found["words"]
        assert "%" not in found["words"]


def test_one_group_cannot_be_compared() -> None:
    point, held_out, *_ = case({"white": (400, 300), "black": (400, 300)})
    held_out.attributes = (Protected("age", "categorical", np.zeros(800, int), ("all",)),)
    (found,) = verdicts(point, held_out, limits("ratio=0.8"), CONTEXT)
    assert found["verdict"] == "not provable"
    assert "there are not two groups of people to compare" in found["words"]


@pytest.mark.parametrize(
    ("task", "decides", "words"),
    [
        ("binary", True, "of the rule's margin with race"),
        ("binary", False, "of the score with race"),
        ("regression", False, "of the prediction with race"),
    ],
)
@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, "kept"), (1.0, "broken"), (0.2, "not provable")]
)
def test_a_correlation_is_judged(
    task: str, decides: bool, words: str, shift: float, verdict: str
) -> None:
    n = 3000 if verdict != "not provable" else 200
    group = np.repeat([0.0, 1.0], n)
    score = np.tile(np.linspace(-1, 1, n), 2) + shift * group
    point, held_out, *_ = case({"a": (n, 10), "b": (n, 10)}, score)
    held_out.task = task
    context: Any = SimpleNamespace(decides=decides)
    (found,) = verdicts(point, held_out, limits("correlation=0.1"), context)
    assert found["verdict"] == verdict
    assert words in found["words"]
    assert f"{2 * n:,} people" in found["words"]
    assert found["value"] == pytest.approx(abs(np.corrcoef(score, group)[0, 1]), abs=1e-12)
    assert f"it is {found['value']:.3f}" in found["words"]
    assert ("The smallest group is a" in found["words"]) == (verdict == "not provable")


def test_a_number_that_rounds_to_the_limit_gets_more_digits() -> None:
    point, held_out, *_ = case({"a": (1000, 1000), "b": (1000, 900)})
    (found,) = verdicts(point, held_out, limits("ratio=0.8"), CONTEXT)
    high = f"{found['high']:.3f}"
    close = float(high)
    (again,) = verdicts(point, held_out, limits(f"ratio={close}"), CONTEXT)
    if found["high"] != close:
        assert f"and {high}," not in again["words"]


# ------------------------------------------------------------------ reading


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("criterion", ["statistical_parity", "equalized_odds"])
def test_ten_sentences_say_how_to_read_the_page(task: str, stated: bool, criterion: str) -> None:
    favourable = YES if task == "binary" else None
    held_out: Any = SimpleNamespace(
        task=task, data=SimpleNamespace(n=1234), settings=Settings(level=0.9)
    )
    context: Any = SimpleNamespace(decides=task == "binary", criterion=criterion)
    given = read_limits("correlation=0.2") if stated else ()
    chosen = choose_limits(given, "repaid", None if task == "regression" else 3, favourable)
    found = how_to_read(held_out, context, chosen, "repaid", favourable)
    assert len(found) == 10
    for sentence in found:
        assert sentence.endswith(".")
        assert not re.search(r"[.!?] [A-Z]", sentence)
    text = " ".join(found)
    assert "1,234 held-out people" in text
    assert "90% interval" in text
    assert "not a legal conclusion" in text
    assert ("whereas the verdicts are about all people" in text) == (
        criterion != "statistical_parity"
    )
    assert ("stated by the person" in text) == stated
    assert "comply" not in text
    if favourable:
        assert "“repaid = yes”" in text


def test_a_guessed_class_is_said_to_be_one() -> None:
    held_out: Any = SimpleNamespace(task="binary", data=SimpleNamespace(n=100), settings=Settings())
    guess = Favourable("approved", False, "'approved' reads as favourable")
    limit = choose_limits((), "decision", 2, guess)
    text = " ".join(how_to_read(held_out, CONTEXT, limit, "decision", guess))
    assert "“approved”, a class that was guessed and not named" in text
    assert "four-fifths rule of the US Uniform Guidelines of 1978" in text


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("black", "black"),
        ("1", "age = 1"),
        ("Yes", "age = Yes"),
        ("< 25", "age under 25"),
        (">= 62.5", "age 62.5 and over"),
        ("[25, 32)", "age 25 to under 32"),
        ("x" * 90, "x" * 39 + "…"),
    ],
)
def test_names_of_groups_are_clear_by_themselves(label: str, words: str) -> None:
    assert group_words("age", label) == words
