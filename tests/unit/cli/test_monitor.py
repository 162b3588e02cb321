"""`fairspan monitor`: first use, later batches, late groups, resets, exit codes and refusals."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")

from typer.testing import CliRunner  # noqa: E402

from fairspan import FairnessMonitor  # noqa: E402
from fairspan.cli import app  # noqa: E402


def run(*arguments):
    return CliRunner().invoke(app, ["monitor", *map(str, arguments)])


def fails(*arguments):
    result = run(*arguments)
    assert result.exit_code not in (0, 3)
    return str(result.exception) + result.output


@pytest.fixture
def batches():
    rng = np.random.default_rng(0)
    for day, gap in (("monday", 0.0), ("tuesday", 0.5)):
        n = 800
        s = rng.choice(["F", "M"], n)
        rate = np.where(s == "M", 0.5 + gap / 2, 0.5 - gap / 2)
        decision = np.where(rng.random(n) < rate, "approved", "denied")
        frame = pd.DataFrame({"id": [f"{day} {i}" for i in range(n)], "sex": s})
        frame.assign(decision=decision, score=rate).to_csv(f"{day}.csv", index=False)
    return pd.read_csv("tuesday.csv")


ROLES = ("--decisions", "decision", "--protected", "sex")


def test_the_exit_code_is_3_while_an_alarm_holds(batches):
    first = run("state.json", "--new", "monday.csv", *ROLES, "--limit", "gap=0.1")
    assert first.exit_code == 0, first.output
    assert "'approved' reads as favourable" in first.output
    second = run("state.json", "--new", "tuesday.csv", *ROLES, "--json", "out.json")
    assert second.exit_code == 3
    assert "1 alarm; 1,600 people in 2 batches" in second.output
    assert json.loads(Path("out.json").read_text())["alarm"] is True
    again = run("state.json", "--plot", "p.png")
    assert again.exit_code == 3
    assert Path("p.png").stat().st_size > 1000
    reset = run("state.json", "--reset", "new model")
    assert reset.exit_code == 0
    assert "Before a reset (new model): 1,600 people, 1 alarm." in reset.output
    assert run("state.json").exit_code == 0


def test_the_library_has_the_same_numbers(batches):
    run("state.json", "--new", "tuesday.csv", *ROLES, "--scores", "score", "--limit", "gap=0.1,")
    run("state.json", "--new", "tuesday.csv", *ROLES, "--scores", "score", "--limit", "gap=0.1")
    monitor = FairnessMonitor("gap=0.1", pos_label="approved")
    monitor.update(
        decisions=batches["decision"],
        scores=batches["score"],
        sensitive_features={"sex": batches["sex"]},
    )
    assert FairnessMonitor.load("state.json").comparisons_ == monitor.comparisons_


def test_groups_that_come_later(batches):
    batches.assign(sex=batches["sex"].where(batches.index >= 200)).to_csv("holes.csv", index=False)
    batches[["id", "sex"]][:150].to_csv("late.csv", index=False)
    assert "200 people have no group. Give --id COLUMN" in fails(
        "state.json", "--new", "holes.csv", *ROLES
    )
    assert not Path("state.json").exists()
    run("state.json", "--new", "holes.csv", *ROLES, "--id", "id")
    assert FairnessMonitor.load("state.json").n_waiting_ == 200
    late = ("--new", "late.csv", "--id", "id", "--late")
    assert run("state.json", *late).exit_code == 3
    assert FairnessMonitor.load("state.json").n_waiting_ == 50
    before = Path("state.json").read_bytes()
    assert "its groups were counted already" in fails("state.json", *late)
    assert "an earlier batch had" in fails("state.json", "--new", "holes.csv", *ROLES, "--id", "id")
    assert Path("state.json").read_bytes() == before


def test_out_leaves_the_state_as_it_is(batches):
    run("state.json", "--new", "monday.csv", *ROLES)
    before = Path("state.json").read_bytes()
    assert run("state.json", "--new", "tuesday.csv", *ROLES, "--out", "try.json").exit_code == 3
    assert Path("state.json").read_bytes() == before
    assert FairnessMonitor.load("try.json").n_batches_ == 2


def test_a_batch_may_lack_one_of_the_decisions(batches):
    batches.assign(decision="denied").to_csv("none.csv", index=False)
    assert "name the favourable one" in fails("a.json", "--new", "none.csv", *ROLES)
    assert run("a.json", "--new", "none.csv", *ROLES, "--positive", "approved").exit_code == 0
    assert run("a.json", "--new", "tuesday.csv", *ROLES).exit_code == 3
    batches.assign(decision=0).to_csv("zeros.csv", index=False)
    assert run("b.json", "--new", "zeros.csv", *ROLES).exit_code == 0
    assert FairnessMonitor.load("b.json").pos_label == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no file; the first use needs --new"),
        (("--reset", "x"), "no file; the first use needs --new"),
        (("--new", "monday.csv"), "--decisions COLUMN, --scores COLUMN"),
        (("--new", "monday.csv", "--decisions", "decision"), "--protected COLUMN"),
        (("--new", "monday.csv", *ROLES[:3], "sx"), "--protected names the column 'sx'"),
        (("--new", "monday.csv", *ROLES, "--limit", "gap=2"), "between 0 and 1"),
        (("--new", "monday.csv", *ROLES, "--alpha", "2"), "--alpha 2"),
        (("--new", "monday.csv", *ROLES, "--limit", "correlation=.1"), "needs --scores COLUMN"),
        (("--new", "monday.csv", *ROLES, "--limit", "change=.1"), "--reference-rows"),
        (("--new", "monday.csv", *ROLES, "--score-range", "1"), "--score-range 1"),
        (("--new", "monday.csv", *ROLES, "--positive", "yes"), "--positive 'yes' is no label"),
        (("--new", "monday.csv", *ROLES, "--out", "x.pdf"), ".pdf files are not written"),
        (("--new", "monday.csv", *ROLES, "--json", "monday.csv"), "are one file"),
        (("--new", "monday.csv", "--late"), "--late needs --id"),
        (("--new", "monday.csv", "--late", "--decisions", "decision"), "leave --decisions"),
        (("--new", "tuesday.csv", "--decisions", "score", "--protected", "sex"), "decimals"),
    ],
)
def test_what_is_refused(arguments, message, batches):
    assert message in fails("state.json", *arguments)
    assert not Path("state.json").exists()


def test_settings_stay_those_of_the_first_use(batches):
    options = ("--limit", "gap=0.2", "--alpha", "0.1", "--window", "50")
    run("state.json", "--new", "monday.csv", *ROLES, *options)
    assert run("state.json", "--new", "monday.csv", *ROLES, *options).exit_code in (0, 3)
    for option, value in (("--limit", "gap=0.1"), ("--alpha", "0.2"), ("--reference-rows", "5")):
        assert f"{option} differs" in fails(
            "state.json", "--new", "tuesday.csv", *ROLES, option, value
        )
    assert "differs from that of the state, approved" in fails(
        "state.json", "--new", "tuesday.csv", *ROLES, "--positive", "denied"
    )
