"""Command fit: its JSON, refused labels and rows, and limits."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from tests.support.borrowers import people
from tests.support.printed import command_lines

import fairspan

FIT = ("fit", "people.csv", "--target", "repaid", "--protected", "sex", "--model")


@pytest.mark.usefixtures("table")
def test_a_fit_for_machines_is_the_model_that_was_written(call, tmp_path):
    done = call(*FIT, "ridge-classifier", "--drop", "grade", "--json", "-")
    found = json.loads(done.out)
    model = fairspan.load_model(tmp_path / found["model"])
    assert found["estimator"] == type(model).__name__
    assert found["features"] == model.feature_names_in_.tolist() == ["income", "debt"]
    assert found["protected"] == {"sex": "categorical"}
    assert found["rows"] == 240
    assert found["certificate"] == json.loads(json.dumps(model.certificate_.to_dict()))
    assert "Model written" in done.err
    to_file = call(*FIT, "ridge-classifier", "--drop", "grade", "--json", "fit.json")
    assert "Numbers written to fit.json" in to_file.out
    assert json.loads((tmp_path / "fit.json").read_text(encoding="utf-8")) == found


@pytest.mark.parametrize(
    "command",
    [("data", "list"), ("data", "fetch", "loans"), ("reproduce",), ("bench", "frontier")],
)
def test_json_that_has_nowhere_to_go_is_refused_before_the_work(call, command):
    done = call(*command, "--json", "nowhere/a.json")
    assert (done.code, done.out) == (2, "")
    assert "there is no folder nowhere" in done.err


@pytest.mark.usefixtures("table")
def test_more_labels_than_classes_can_be_are_refused(call, tmp_path):
    frame = people().assign(repaid=[f"remark {i}" for i in range(240)])
    frame.to_csv(tmp_path / "people.csv", index=False)
    done = call(*FIT, "auto")
    assert done.code == 2
    assert "The target 'repaid' holds 240 different texts, as 'remark 0': no classes" in done.err


def test_a_row_that_cannot_be_used_is_counted_as_in_the_file(call, tmp_path):
    frame = people().assign(weight=1.0)
    frame.loc[2, "sex"] = None  # left out, which must not shift the count
    frame.loc[6, "weight"] = -1.0
    frame.to_csv(tmp_path / "people.csv", index=False)
    done = call(*FIT, "ridge-classifier", "--weight", "weight", "--drop-missing")
    assert done.code == 2
    assert "people.csv, row 7: --weight holds 1 negative values" in " ".join(done.err.split())


# ------------------------------------------------------------------ decisions

DECIDE = (*FIT, "ridge-classifier", "--drop", "grade", "--equalize", "decisions")


@pytest.mark.usefixtures("table")
def test_a_limit_on_rates_is_kept_and_shown(call, tmp_path):
    done = call(*DECIDE, "--max-gap", "sex=0.1")
    model = fairspan.load_model(tmp_path / "model.skops")
    rates = model.certificate_.decisions
    assert rates.limit == {"sex": 0.1}
    assert rates.met
    for rate in rates.rates:
        text = f"sex={rate.group}: yes for {rate.rate:.3f} ({rate.low:.3f} to {rate.high:.3f})"
        assert text in done.out
    assert f"Limit on the gap: sex 0.1; {rates.verdict}" in done.out
    predicted = json.loads(
        call("predict", "people.csv", "--model", "model.skops", "--json", "-").out
    )
    decided = np.array(predicted["prediction"])
    assert np.array_equal(decided == "yes", np.array(predicted["margin of the rule"]) > 0.0)
    X = people()[["income", "debt"]]
    assert np.array_equal(decided, model.predict(X))
    np.testing.assert_allclose(predicted["probability of yes"], model.predict_proba(X)[:, 1])


@pytest.mark.usefixtures("table")
def test_a_limit_that_cannot_be_promised_is_named_by_its_option(call):
    done = call(*DECIDE, "--min-ratio", "0.99", "--confidence", "0.95")
    assert done.code == 0
    assert "Warning: --min-ratio 0.99 cannot be promised with 95 % confidence" in done.err


@pytest.mark.usefixtures("table")
def test_a_share_to_select_is_selected(call):
    done = call(*DECIDE, "--selection-rate", "0.25", "--json", "-")
    rates = json.loads(done.out)["certificate"]["decisions"]["rates"]
    n = np.array([rate["n_rows"] for rate in rates])
    assert abs(n @ [rate["rate"] for rate in rates] / n.sum() - 0.25) < 0.03


@pytest.mark.parametrize(
    ("options", "made_equal"),
    [
        ((), "decisions"),
        (("--equalize", "scores"), "scores"),
        (("--max-correlation", "0.5"), "scores"),
        (("--max-gap", "0.3"), "decisions"),
        (("--selection-rate", "0.4"), "decisions"),
    ],
)
@pytest.mark.usefixtures("table")
def test_decisions_are_made_equal_for_two_classes(call, tmp_path, options, made_equal):
    done = call(*FIT, "ridge-classifier", "--drop", "grade", *options)
    assert done.code == 0, done.err
    assert f"Made equal between groups: {made_equal} (equalize='{made_equal}')" in done.out
    assert fairspan.load_model(tmp_path / "model.skops").equalize == made_equal


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-gap", "2"), "--max-gap 2 is not allowed"),
        (("--max-gap", "sex"), "--max-gap sex is not allowed"),
        (("--max-gap", "sex=0.1,sex=0.2"), "is not allowed"),
        (("--max-gap", "debt=0.1"), "--max-gap names 'debt', which is no protected attribute"),
        (("--max-gap", "0.1", "--min-ratio", "0.8"), "--max-gap and --min-ratio exclude"),
        (("--fairness", "0.5", "--max-gap", "0.1"), "--fairness and --max-gap exclude"),
        (("--confidence", "0.9"), "--confidence goes with a limit"),
        (("--max-gap", "0.1", "--confidence", "0.3"), "--confidence 0.3 is not allowed"),
        (("--selection-rate", "2"), "--selection-rate 2.0 is not allowed"),
        (("--equalize", "scores", "--max-gap", "0.1"), "leave --equalize scores out"),
        (("--equalize", "scores", "--selection-rate", "0.2"), "--selection-rate is for --equalize"),
        (("--equalize", "both"), "--equalize both is not allowed"),
        (("--model", "ridge"), "are for classes, but ridge predicts"),
        (("--max-correlation", "0.1"), "use --max-gap"),
    ],
)
@pytest.mark.usefixtures("table")
def test_options_about_decisions_that_do_not_go_together(call, tmp_path, options, words):
    done = call(*DECIDE, *options)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert not (tmp_path / "model.skops").exists()


@pytest.mark.usefixtures("table")
def test_a_correlation_is_limited_with_confidence(call, tmp_path):
    arguments = (*FIT, "ridge-classifier", "--drop", "grade", "--max-correlation", "0.5")
    call(*arguments, "--confidence", "0.95")
    assert fairspan.load_model(tmp_path / "model.skops").certificate_.new_rows.high <= 0.5 + 1e-8


@pytest.mark.usefixtures("few_trees")
def test_boosted_models_load_by_the_lines_that_are_printed(call, table):
    done = call(*FIT, "boosting", "--out", "trees.skops", "--audit", "--parts", "scores")
    assert done.code == 0, done.err
    assert "FairClassifier of repaid" in done.out
    shell, python = command_lines(done.out)
    model = eval(python, {"fairspan": fairspan})
    predict = ["people.csv" if word == "DATA" else word for word in shell]
    found = call(*predict, "--json", "-")
    assert found.code == 0, found.err
    numbers = json.loads(found.out)
    assert numbers["prediction"] == model.predict(table).tolist()
    np.testing.assert_allclose(numbers["probability of yes"], model.predict_proba(table)[:, 1])
    assert "'margin of the rule'" in found.err
    without = call(*predict[: predict.index("--trust")])
    assert without.code == 2
    assert predict[-1] in without.err
    audited = (
        "audit",
        "people.csv",
        "--protected",
        "sex",
        "--target",
        "repaid",
        "--parts",
        "scores",
    )
    assert call(*audited, *predict[2:]).code == 0


@pytest.mark.usefixtures("table")
def test_the_kernel_is_the_default_and_needs_no_trust(call):
    done = call(*FIT[:-1], "--drop", "grade")
    assert "FairGPClassifier of repaid" in done.out
    assert "trust" not in done.out + done.err


@pytest.mark.usefixtures("table")
def test_moments_are_saved_only_if_asked_for(call, tmp_path):
    fit = (*FIT, "ridge-classifier", "--out")
    said = call(*fit, "small.skops").out
    assert "Model written to small.skops (" in said
    call(*fit, "large.skops", "--with-moments")
    small, large = (fairspan.load_model(tmp_path / f"{n}.skops") for n in ("small", "large"))
    assert not hasattr(small, "moments_")
    assert large.moments_.n_rows == 240
    X = people()[small.feature_names_in_]
    np.testing.assert_array_equal(small.decision_function(X), large.decision_function(X))
