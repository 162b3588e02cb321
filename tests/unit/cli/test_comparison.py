"""Saved models of `fairspan explore --compare`: files, rows as each model reads them, the table."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import pandas as pd

import fairspan
from fairspan.cli.comparison import comparison_table

QUICK = ("--points", "2", "--parts", "scores", "--seed", "0")
GIVEN = ("people.csv", "--target", "repaid", "--protected", "sex", *QUICK)


@pytest.fixture
def codes():
    """A table with codes that are text to one model and numbers to another."""
    rng = np.random.default_rng(0)
    n = 400
    sex, code = rng.choice(["f", "m"], n), rng.integers(1, 4, n)
    income = rng.normal(size=n) + 0.7 * (sex == "m") + 0.3 * code
    frame = pd.DataFrame({"income": income.round(3), "code": code, "sex": sex})
    frame["repaid"] = np.where(income + rng.normal(size=n) > 0.6, "yes", "no")
    frame.to_csv("people.csv", index=False)
    return frame


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_two_saved_models_are_shown_beside_the_new_one(call, codes):
    a = call("explore", *GIVEN, "--save-model", "a.skops", "--fairness", "0")
    b = call("explore", *GIVEN, "--save-model", "b.skops", "--kind", "code=categorical")
    assert (a.code, b.code) == (0, 0), a.err + b.err
    done = call(
        "explore", *GIVEN, "--compare", "a.skops", "--compare", "b.skops", "--json", "all.json"
    )
    assert done.code == 0, done.err
    with open("all.json", encoding="utf-8") as file:
        comparison = json.load(file)["comparison"]
    assert comparison["names"] == ["a.skops", "b.skops", "this report, fairness 1"]
    assert comparison["n_rows"] + comparison["n_left_out"] == 100
    assert comparison["n_left_out"] <= 8  # by chance: both held out these rows
    assert f"The same {comparison['n_rows']} held-out rows for every model" in done.out
    assert "minus a.skops" in done.out
    # b reads the code as text, and gets it so.
    held = fairspan.report.held_out_rows(codes, ["repaid", "sex"])
    model = fairspan.load_model("b.skops")
    rows = codes.assign(code=codes["code"].astype(str))[held]
    wrong = np.mean(model.predict(rows[["income", "code"]]) != rows["repaid"])
    error = comparison["measures"][0]["models"][1]["value"]
    assert error == pytest.approx(wrong, abs=0.04)  # but for the rows that are left out
    if not comparison["n_left_out"]:
        assert error == pytest.approx(wrong, abs=2e-6)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_what_cannot_be_compared_is_one_line(call, codes):
    assert call("fit", *GIVEN[:5], "--out", "all.skops").code == 0
    for given, says in [
        (["none.skops"], "--compare none.skops is no file"),
        (["all.skops", "all.skops"], "--compare all.skops is given twice"),
        (["all.skops"], "0 of the 100 held-out rows are left"),
    ]:
        options = [part for path in given for part in ("--compare", path)]
        done = call("explore", *GIVEN, *options)
        assert done.code == 2
        assert done.err.splitlines()[-1].startswith("Error: ")
        assert says in done.err
    codes.drop(columns="code").to_csv("fewer.csv", index=False)
    done = call("explore", "fewer.csv", *GIVEN[1:], "--compare", "all.skops")
    assert done.code == 2
    assert "all.skops" in done.err.splitlines()[-1]
    assert "'code'" in done.err.splitlines()[-1]
    done = call("explore", *GIVEN, "--compare", "all.skops", "--save-model", "all.skops")
    assert done.code == 2
    assert "are one file" in done.err


def test_numbers_that_are_not_known_are_a_dash():
    unknown = {"value": None, "low": None, "high": None}
    small = {"value": -0.0001, "low": -0.2, "high": None}
    measure = {"measure": "gap", "words": "x", "attribute": "sex", "models": [unknown, small]}
    text = comparison_table(
        {
            "names": ["a", "b"],
            "n_rows": 50,
            "measures": [measure | {"differences": [None, unknown]}],
            "notes": ["A note."],
        },
        0.95,
    )
    lines = text.splitlines()
    assert lines[2].split() == ["gap", "sex", "-", "0.000"]
    assert lines[5].split() == ["gap", "sex", "-"]
    assert lines[-1] == "A note."
