"""A monitor: alarms, order of rows, late groups, small and new groups, refusals, and its file."""

import json

import numpy as np
import pytest

from fairspan import DataWarning, FairnessMonitor
from fairspan.monitoring.monitor import REMEMBERED

LIMITS = ["gap=0.1", "ratio=0.8", "correlation=0.1"]


def people(n=2000, gap=0.3, seed=0, groups=("F", "M"), shares=None):
    rng = np.random.default_rng(seed)
    s = rng.choice(groups, n, p=shares)
    rate = np.where(s == groups[1], 0.5 + gap / 2, 0.5 - gap / 2)
    score = np.clip(rate + rng.normal(0, 0.2, n), 0, 1)
    return {
        "decisions": (rng.random(n) < rate).astype(int),
        "scores": score,
        "sensitive_features": {"sex": s},
    }


def some(rows, start, end):
    s = {name: column[start:end] for name, column in rows["sensitive_features"].items()}
    return {
        "decisions": rows["decisions"][start:end],
        "scores": rows["scores"][start:end],
        "sensitive_features": s,
    }


def alarms(monitor):
    return {(each.metric, each.groups): each.row for each in monitor.alarms_}


def test_a_gap_beyond_all_limits_raises_an_alarm_for_each():
    monitor = FairnessMonitor(LIMITS).update(**people())
    assert [each.metric for each in monitor.comparisons_] == ["gap", "ratio", "correlation"]
    found = {each.metric: each for each in monitor.alarms_}
    assert set(found) == {"gap", "ratio", "correlation"}
    gap = found["gap"]
    rows = people()
    s, d = rows["sensitive_features"]["sex"], rows["decisions"]
    assert gap.groups == ("M", "F")
    assert gap.estimate == pytest.approx(d[s == "M"].mean() - d[s == "F"].mean())
    assert gap.n_people == ((s == "M").sum(), (s == "F").sum())
    assert gap.low >= 0.1
    assert gap.low < 0.3 < gap.high
    ratio = d[s == "F"].mean() / d[s == "M"].mean()
    assert found["ratio"].estimate == pytest.approx(ratio)
    assert ratio < found["ratio"].high <= 0.8
    correlation = found["correlation"]
    expected = np.corrcoef(rows["scores"], s == correlation.groups[0])[0, 1]
    assert correlation.estimate == pytest.approx(expected)
    assert max(correlation.low, -correlation.high) >= 0.1


def test_no_alarm_inside_the_limits_and_a_constant_gap_is_between_the_ends():
    monitor = FairnessMonitor(LIMITS).update(**people(6000, 0.02))
    assert monitor.alarms_ == []
    gap = monitor.comparisons_[0]
    assert -1 < gap.low < 0.02 < gap.high < 0.1


def test_an_alarm_stays_until_a_reset_which_keeps_it():
    monitor = FairnessMonitor("gap=0.1").update(**people())
    monitor.update(**people(3000, 0.0, seed=1))
    (alarm,) = monitor.alarms_
    assert alarm.batch == 1
    monitor.reset("new model")
    assert monitor.alarms_ == []
    assert monitor.n_people_ == monitor.n_batches_ == 0
    assert monitor.resets_[0]["alarms"][0]["row"] == alarm.row
    assert "new model" in repr(monitor)
    monitor.update(**people(3000, 0.0, seed=2))
    assert monitor.alarms_ == []
    with pytest.raises(ValueError, match="reason is empty"):
        monitor.reset(" ")


def test_a_change_against_the_first_people():
    limits = {"limits": "change=0.05", "reference_rows": 3000}
    same = FairnessMonitor(**limits).update(**people(9000, 0.3))
    assert same.alarms_ == []
    changed = FairnessMonitor(**limits).update(**people(3000, 0.0))
    assert not changed.comparisons_[0].tested
    changed.update(**people(5000, 0.4, seed=1))
    (alarm,) = changed.alarms_
    assert (alarm.groups, alarm.batch) == (("M", "F"), 2)
    assert alarm.low >= 0.05
    assert alarm.estimate == pytest.approx(0.4, abs=0.06)
    # The other way round: from a gap to none.
    less = FairnessMonitor(**limits).update(**people(3000, 0.4)).update(**people(5000, 0.0, seed=1))
    assert less.alarms_[0].groups == ("F", "M")


def test_three_groups_and_a_new_one():
    rows = people(1500, 0.0, groups=("a", "b", "c"))
    monitor = FairnessMonitor("gap=0.1").update(**rows)
    assert len(monitor.comparisons_) == 3
    assert monitor.alarms_ == []
    late = people(3000, 0.0, seed=3, groups=("a", "b", "c", "new"))
    new = late["sensitive_features"]["sex"] == "new"
    late["decisions"][new] = 0
    monitor.update(**late)
    assert len(monitor.comparisons_) == 6
    assert {each.groups for each in monitor.alarms_} == {("a", "new"), ("b", "new"), ("c", "new")}


def test_groups_share_the_errors_and_new_ones_have_a_reserve():
    for declared in (None, {"sex": ["a", "b", "c"]}):
        monitor = FairnessMonitor(["gap=0.1", "correlation=0.1"], groups=declared)
        monitor.update(**people(1000, 0.0, groups=("a", "b", "c")))
        monitor.update(**people(1000, 0.0, groups=("x", "a")))
        monitor.update(**people(1000, 0.0, groups=("y", "a")))
        (each,) = monitor._monitors
        for errors in (
            [each._pair_errors(second) for _, second in each.pairs],
            [each._score_errors(group) for group in each.correlations],
        ):
            assert sum(errors) <= 0.05 / 2 + 1e-12
            assert errors[0] == max(errors)
            assert sum(errors[:3]) == pytest.approx(0.05 / 2 * 0.9)
            assert min(errors) > 0


def test_two_groups_share_one_indicator_until_there_is_a_third():
    monitor = FairnessMonitor("correlation=0.1").update(**people(500))
    assert len(monitor.comparisons_) == 1
    (each,) = monitor._monitors
    assert each._score_errors(0) == pytest.approx(0.9 * 0.05)
    monitor.update(**people(500, groups=("M", "X")))
    assert len(monitor.comparisons_) == 3
    assert each._score_errors(1) + each._score_errors(2) == pytest.approx(0.1 * 0.05 / 2)


def test_small_groups_are_named_and_raise_no_alarm():
    rows = people(2000, 0.0, groups=("a", "b", "c"), shares=[0.5, 0.495, 0.005])
    tiny = rows["sensitive_features"]["sex"] == "c"
    rows["decisions"][tiny] = 1
    assert 0 < tiny.sum() < 30
    monitor = FairnessMonitor("gap=0.1", min_rows=30).update(**rows)
    assert "Not tested, fewer than 30 people: sex c" in monitor.summary()
    assert not [each for each in monitor.alarms_ if "c" in each.groups]
    assert monitor.to_dict()["small_groups"] == {"sex": ["c"]}


def test_no_alarm_before_the_groups_are_settled():
    rows = people(99, 1.0)
    monitor = FairnessMonitor("gap=0.1", min_rows=5).update(**rows)
    assert monitor.alarms_ == []
    assert "alarms begin after 100 people" in monitor.summary()
    named = FairnessMonitor("gap=0.1", min_rows=5, groups={"sex": ["F", "M"]}).update(**rows)
    assert named.alarms_[0].row < 99


# ------------------------------------------------------------------ late groups


def test_people_who_wait_count_in_the_order_in_which_their_groups_come():
    rows = people(1200)
    ids = [f"p{i}" for i in range(1200)]
    without = {**rows, "sensitive_features": None}
    late = FairnessMonitor(LIMITS).update(**without, ids=ids)
    assert (late.n_waiting_, late.n_people_) == (1200, 0)
    order = np.random.default_rng(0).permutation(1200)
    s = rows["sensitive_features"]["sex"]
    late.update_sensitive([ids[i] for i in order], {"sex": s[order]})
    shuffled = {name: rows[name][order] for name in ("decisions", "scores")}
    known = FairnessMonitor(LIMITS).update(**shuffled, sensitive_features={"sex": s[order]})
    assert late.n_waiting_ == 0
    assert alarms(late) == alarms(known)
    assert late.comparisons_[0].low == known.comparisons_[0].low


def test_rows_with_a_missing_group_wait_and_the_others_count():
    rows = people(400)
    s = rows["sensitive_features"]["sex"].astype(object)
    s[::4] = None
    monitor = FairnessMonitor("gap=0.1")
    monitor.update(**{**rows, "sensitive_features": {"sex": s}}, ids=np.arange(400))
    assert (monitor.n_waiting_, monitor.n_people_) == (100, 300)
    assert "100 people wait" in monitor.summary()
    with pytest.raises(ValueError, match=r"100 people have no group\. Give ids="):
        FairnessMonitor("gap=0.1").update(**{**rows, "sensitive_features": {"sex": s}})


def test_ids_occur_once_and_late_ones_must_wait():
    rows = people(10)
    monitor = FairnessMonitor("gap=0.1").update(**rows, ids=range(10))
    with pytest.raises(ValueError, match="'3', which an earlier batch had"):
        monitor.update(**people(2), ids=["3", "x"])
    with pytest.raises(ValueError, match="holds '7' twice"):
        monitor.update(**people(2), ids=["7", "7"])
    with pytest.raises(ValueError, match="its groups were counted already"):
        monitor.update_sensitive([3], {"sex": ["F"]})
    with pytest.raises(ValueError, match="no earlier batch had it"):
        monitor.update_sensitive(["never"], {"sex": ["F"]})
    assert (monitor.n_people_, monitor.n_batches_) == (10, 1)


def test_the_memory_for_people_who_wait_is_bounded():
    monitor = FairnessMonitor("gap=0.1", max_waiting=5)
    without = {**people(8), "sensitive_features": None}
    with pytest.warns(DataWarning, match="3 people were dropped"):
        monitor.update(**without, ids=range(8))
    assert (monitor.n_waiting_, monitor.n_dropped_) == (5, 3)
    with pytest.raises(ValueError, match=r"'0'.*or it was dropped"):
        monitor.update_sensitive([0], {"sex": ["F"]})
    assert monitor._finished.maxlen == REMEMBERED


# ------------------------------------------------------------------ windows, text, refusals


def test_the_window_is_that_of_the_last_people_only():
    rows = people(700)
    monitor = FairnessMonitor("gap=0.1", window=100)
    for start in range(0, 700, 35):
        monitor.update(**some(rows, start, start + 35))
    last = some(rows, 600, 700)
    s = last["sensitive_features"]["sex"]
    for group in ("F", "M"):
        counts = monitor.window_rates()["sex"][group]
        inside = s == group
        assert counts["people"] == inside.sum()
        assert counts["rate"] == last["decisions"][inside].mean()
        assert counts["score"] == pytest.approx(last["scores"][inside].mean(), abs=1e-11)


def test_text_html_and_dict_have_the_comparisons():
    monitor = FairnessMonitor(LIMITS).update(**people())
    text = repr(monitor)
    assert text.startswith("FairnessMonitor: 3 alarms; 2,000 people in 1 batch\n")
    assert "sex: M - F" in text
    assert "a description, no test" in text
    assert "<table" in monitor._repr_html_()
    evil = people(300, groups=("<b>x</b>", "M"))
    assert "<b>x" not in FairnessMonitor("gap=0.1").update(**evil)._repr_html_()
    content = json.loads(json.dumps(monitor.to_dict(), allow_nan=False))
    assert content["alarm"] is True
    assert [each["metric"] for each in content["comparisons"]] == ["gap", "ratio", "correlation"]
    assert "no alarm; 0 people in 0 batches" in repr(FairnessMonitor())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": "gap=2"}, "between 0 and 1"),
        ({"limits": "gip=0.1"}, "no measure of a limit"),
        ({"limits": []}, "at least one limit"),
        ({"limits": ["gap=0.1", "gap=0.10"]}, "each once"),
        ({"limits": "change=x", "reference_rows": 5}, "no limit on a change"),
        ({"limits": "change=0.1"}, "reference_rows= .* together"),
        ({"reference_rows": 100}, "together"),
        ({"alpha": 0.0}, "alpha=0.0 is not allowed"),
        ({"window": 0}, "window=0 is not allowed"),
        ({"min_rows": 1.5}, "whole number"),
        ({"score_range": (1, 0)}, "score_range"),
        ({"groups": {"sex": ["F"]}}, "2 to 50 different groups"),
        ({"groups": {"sex": ["F", "F"]}}, "2 to 50 different groups"),
        ({"groups": {"sex": "FM"}}, "list of groups"),
        ({"pos_label": ["a"]}, "is no label"),
    ],
)
def test_parameters_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FairnessMonitor(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decisions": None, "scores": None}, "Give decisions=, scores= or both"),
        ({"decisions": None}, "gap=0.1 need decisions="),
        ({"scores": None}, "do not|does not have the columns"),
        ({"scores": [0.5, 1.5]}, "outside of 0 to 1.*score_range="),
        ({"scores": [0.5, np.nan]}, "NaN"),
        ({"decisions": [0, 2]}, "name the favourable label with pos_label="),
        ({"decisions": ["no", "yes"]}, "name the favourable label with pos_label="),
        ({"decisions": [0.5, 0.7]}, "pos_label="),
        ({"decisions": [1, 1, 0]}, "numbers of rows differ"),
        ({"sensitive_features": {"age": ["F", "M"]}}, "those of the monitor sex"),
        ({"sensitive_features": {"sex": [0.5, 0.7]}}, "cut the numbers into slices"),
        ({"sensitive_features": None}, "2 people have no group"),
    ],
)
def test_batches_that_are_refused_change_nothing(change, message):
    monitor = FairnessMonitor("gap=0.1").update(**people(50))
    before = json.dumps(monitor.to_dict())
    good = {"decisions": [0, 1], "scores": [0.2, 0.3], "sensitive_features": {"sex": ["F", "M"]}}
    with pytest.raises(ValueError, match=message):
        monitor.update(**{**good, **change})
    assert json.dumps(monitor.to_dict()) == before
    monitor.update(**good)


def test_too_many_groups_are_refused():
    rows = people(100)
    rows["sensitive_features"] = {"age": np.arange(100)}
    with pytest.raises(ValueError, match="more than 50 groups"):
        FairnessMonitor("gap=0.1").update(**rows)


def test_a_named_favourable_label_and_a_range_of_scores():
    rows = people()
    words = np.where(rows["decisions"] == 1, "yes", "no")
    named = FairnessMonitor(LIMITS, pos_label="yes", score_range=(-10, 10))
    named.update(**{**rows, "decisions": words, "scores": rows["scores"] * 20 - 10})
    plain = FairnessMonitor(LIMITS).update(**rows)
    assert alarms(named) == alarms(plain)
    with pytest.raises(ValueError, match="never equals pos_label='yes'"):
        named.update(**rows)
    with pytest.raises(ValueError, match="give two labels"):
        named.update(**{**rows, "decisions": np.where(rows["decisions"] == 1, "oui", "no")})


def test_frames_are_matched_by_their_index():
    pd = pytest.importorskip("pandas")
    rows = people(300)
    index = [f"p{i}" for i in range(300)]
    order = np.random.default_rng(0).permutation(300)
    decisions = pd.Series(rows["decisions"], index=index)
    s = pd.Series(rows["sensitive_features"]["sex"], index=index, name="sex")
    monitor = FairnessMonitor("gap=0.1")
    monitor.update(decisions=decisions, sensitive_features=s.iloc[order])
    expected = FairnessMonitor("gap=0.1")
    expected.update(decisions=rows["decisions"], sensitive_features=rows["sensitive_features"])
    assert monitor.comparisons_ == expected.comparisons_
