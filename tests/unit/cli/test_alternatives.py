"""Command alternatives: the incumbent's column, files, and options that do not go together."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from fairspan.auditing.alternatives_result import NO_PROOF

pd = pytest.importorskip("pandas")

COLUMNS = ("--target", "repaid", "--protected", "sex")


@pytest.fixture
def scored(table, tmp_path):
    """`scored.csv`: people with a score and a decision of a model in use."""
    rng = np.random.default_rng(0)
    frame = pd.concat([table] * 3, ignore_index=True)
    frame["income"] = frame["income"] + rng.normal(scale=0.1, size=len(frame))
    frame["debt"] = frame["debt"] + rng.normal(scale=0.1, size=len(frame))
    frame["score"] = frame["income"] - frame["debt"] + (frame["sex"] == frame["sex"].iloc[0])
    labels = sorted(frame["repaid"].unique())
    middle = frame["score"] > frame["score"].median()
    frame["decision"] = np.where(middle, labels[1], labels[0])
    frame.to_csv(tmp_path / "scored.csv", index=False)
    return frame


def test_a_column_of_decisions_is_compared_and_no_feature(call, scored):
    done = call(
        *("alternatives", "scored.csv", *COLUMNS, "--decisions", "decision", "--drop", "score"),
        *("--json", "a.json", "--markdown", "a.md"),
    )
    assert done.code == 0, done.err
    assert "decision is the model in use, so it is not among the features." in done.err
    assert "Alternatives to decision: FairGPClassifier" in done.out
    assert NO_PROOF in done.out
    with open("a.json", encoding="utf-8") as file:
        record = json.load(file)
    assert record["compares"] == "decisions"
    assert record["n_train"] + record["n_test"] == len(scored)
    with open("a.md", encoding="utf-8") as file:
        assert NO_PROOF in file.read()


def test_scores_are_compared_and_json_to_standard_output(call, scored):
    done = call(
        *("alternatives", "scored.csv", *COLUMNS, "--scores", "score", "--drop", "decision"),
        *("--json", "-"),
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["compares"] == "scores"


def test_a_saved_model_is_compared_on_rows_it_was_not_fitted_on(call, scored):
    scored[:400].to_csv("old.csv", index=False)
    done = call(
        *("fit", "old.csv", *COLUMNS, "--drop", "score,decision", "--out", "m.skops"),
        *("--fairness", "0", "--equalize", "scores"),
    )
    assert done.code == 0, done.err
    done = call("alternatives", "scored.csv", *COLUMNS, "--model", "m.skops", "--json", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["n_fitted"] >= 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "pass --scores COLUMN, --decisions COLUMN or --model FILE"),
        (
            ("--scores", "score", "--decisions", "decision"),
            "--scores and --decisions exclude each other",
        ),
        (("--scores", "score", "--model", "m.skops"), "--scores and --model exclude each other"),
        (("--decisions", "decision", "--threshold", "1"), "pass --scores COLUMN too"),
        (("--decisions", "sex"), "--decisions"),
        (("--scores", "sex"), "--scores"),
        (("--decisions", "grade"), "Decisions need the labels of the target"),
        (("--scores", "score", "--search", "x"), "--search x is not allowed"),
        (("--scores", "score", "--test-share", "2"), "--test-share"),
        (("--scores", "score", "--criterion", "x"), "--criterion"),
        (("--scores", "score", "--min-rows", "9999"), "--min-rows"),
        (("--scores", "score", "--json", "-", "--markdown", "-"), "cannot both"),
    ],
)
def test_options_that_are_refused(call, scored, options, message):
    done = call("alternatives", "scored.csv", *COLUMNS, *options)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_missing_score_is_named(call, scored):
    scored.loc[3, "score"] = np.nan
    scored.to_csv("gaps.csv", index=False)
    done = call("alternatives", "gaps.csv", *COLUMNS, "--scores", "score", "--drop", "decision")
    assert done.code == 2
    assert "'score' (1)" in done.err
    assert "--drop-missing" in done.err


def test_scores_of_the_other_class_are_warned_of(call, scored):
    scored["score"] *= -1
    scored.to_csv("turned.csv", index=False)
    done = call("alternatives", "turned.csv", *COLUMNS, "--scores", "score", "--drop", "decision")
    assert "are smaller for the favourable class" in done.err
    assert "--positive" in done.err


def test_an_audit_writes_a_document(call, scored):
    given = ("audit", "scored.csv", *COLUMNS, "--decisions", "decision", "--no-features")
    done = call(*given, "--parts", "decisions", "--template", "adverse-impact", "--out", "a.html")
    assert done.code == 0, done.err
    assert "Audit written to a.html" in done.out
    with open("a.html", encoding="utf-8") as file:
        assert file.read().startswith("<!DOCTYPE html>")
    for options, message in (
        (("--template", "x", "--out", "a.md"), "--template x is not allowed"),
        (("--template", "ll144"), "--template needs --out FILE"),
        (("--out", "a.md"), "--out needs --template NAME"),
        (("--template", "ll144", "--out", "a.pdf"), ".pdf files are not written"),
    ):
        done = call(*given, *options)
        assert done.code == 2
        assert message in done.err
