"""Command explore: its table of numbers, its code, and the model that it saves."""

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
