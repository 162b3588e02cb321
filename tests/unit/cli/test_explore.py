"""Command explore: its table of numbers, its code, and the model that it saves."""

import hashlib
import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from tests.support.borrowers import people
from tests.support.printed import command_lines

import fairspan
from fairspan.cli import explore

FIT = ("fit", "people.csv", "--target", "repaid", "--protected", "sex", "--model")


def test_numbers_that_are_not_known_are_a_dash():
    curve = {"value": [None, 0.5, 0.25], "low": [None, None, 0.125], "high": [None, 1.0, 0.5]}
    shown = [explore._interval(curve, i) for i in range(3)]
    assert shown == ["-", "0.50", "0.25 (0.12 to 0.50)"]


@pytest.mark.usefixtures("few_trees")
def test_the_stack_is_explored_and_its_code_uses_the_class(call):
    people(160).to_csv("few.csv", index=False)
    given = (
        "--points",
        "3",
        "--parts",
        "scores",
        "--save-model",
        "stack.skops",
        "--json",
        "n.json",
    )
    done = call("explore", "few.csv", *FIT[2:], "auto", *given)
    assert done.code == 0, done.err
    with open("n.json", encoding="utf-8") as file:
        study = json.load(file)
    snippet = study["positions"][0]["snippet"]
    assert "model = fairspan.FairClassifier(" in snippet
    assert "model.fit(" in snippet
    _, python = command_lines(done.out)
    assert type(eval(python, {"fairspan": fairspan})).__name__ == "FairClassifier"


@pytest.mark.usefixtures("table")
def test_the_report_saves_its_model_without_moments(call, tmp_path):
    said = call(
        "explore", *FIT[1:], "ridge-classifier", "--parts", "scores", "--save-model", "m.skops"
    )
    assert said.code == 0
    assert not hasattr(fairspan.load_model(tmp_path / "m.skops"), "moments_")


@pytest.mark.usefixtures("table")
def test_verdicts_are_printed_and_the_page_names_its_files(call, tmp_path):
    given = ("--points", "2", "--parts", "scores", "--date", "2024-05-31", "--json", "n.json")
    stated = ("--limit", "ratio=0.8,gap=0.5", "--limit", "correlation=0.9")
    done = call("explore", *FIT[1:-1], *given, *stated, "--save-model", "m.skops")
    assert done.code == 0, done.err
    study = json.loads((tmp_path / "n.json").read_text(encoding="utf-8"))
    assert study["limits"]["given"] == ["ratio=0.8", "gap=0.5", "correlation=0.9"]
    verdicts = study["positions"][study["start"]]["verdicts"]
    assert f"Limits at fairness 1, with 95% intervals:\n{verdicts[0]['words']}" in done.out
    assert all(verdict["words"] in done.out for verdict in verdicts)
    origin = study["provenance"]
    for key, file in (("data", "people.csv"), ("model", "m.skops")):
        assert origin[f"{key}_file"] == file
        digest = hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()
        assert origin[f"{key}_digest"] == digest
    assert origin["date"] == "2024-05-31"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--limit", "gap"), "--limit: 'gap' is no limit; write gap=0.05, ratio=0.8"),
        (("--limit", "gap=5"), "--limit: gap=5 is not allowed; give a number between 0 and 1."),
        (("--date", "tomorrow"), "--date: 'tomorrow' is no date; give one such as 2024-05-31."),
    ],
)
def test_wrong_limits_and_dates_are_refused(call, given, words):
    done = call("explore", *FIT[1:-1], *given)
    assert done.code == 2
    assert words in done.err
