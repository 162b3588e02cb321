"""What the commands choose by themselves: each choice is printed once, with the option that changes it."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

import fairspan  # noqa: E402

SILENT = pytest.mark.regression("explore and fit read a class label silently")
PREDICT = pytest.mark.regression("predict does not say what its columns mean")
QUICK = ("--parts", "scores,decisions")
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """A CSV file with gaps, classes, a number and an identifier in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    n = 240
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    frame = pd.DataFrame(
        {
            "id": [f"p{i}" for i in rng.permutation(n)],
            "sex": sex,
            "age": rng.integers(20, 70, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "job": np.where(rng.random(n) < 0.1, None, rng.choice(["cook", "nurse"], n)),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
            "grade": np.select([income > 1.0, income > 0.0], ["a", "b"], "c"),
            "amount": income + rng.normal(size=n),
        }
    )
    frame.to_csv("people.csv", index=False)
    return frame


def fit(call, *options, target="repaid", out="m.skops"):
    done = call(
        "fit", "people.csv", "--target", target, "--protected", "sex,age", "--features",
        "income,job", "--out", out, *options,
    )  # fmt: skip
    assert done.code == 0, done.err
    return done


def gaps(frame):
    return f"income ({frame['income'].isna().sum()}), job ({frame['job'].isna().sum()})"


@SILENT
def test_fit_prints_how_it_reads_the_columns(call, table):
    done = fit(call)
    assert "FairGPClassifier of repaid (2 classes: 'no', 'yes')\n" in done.out
    assert "Protected: sex (categorical: 'f', 'm'), age (continuous)\n" in done.out
    assert "Columns not used (3): id, grade, amount\n" in done.out
    assert done.out.count("--kind NAME=categorical or NAME=continuous") == 1
    assert done.err.count(f"Missing values of {gaps(table)} are filled in") == 1
    done = fit(call, target="amount")
    assert "FairGPRegressor of amount (a number)\n" in done.out


@SILENT
def test_fit_prints_the_share_of_held_out_rows(call):
    done = fit(call, "--audit", *QUICK, "--test-share", "0.3")
    assert "240 rows, 72 of them held out (--test-share 0.3)" in done.out


@SILENT
def test_explore_prints_how_it_reads_the_columns(call, table):
    done = call(
        "explore", "people.csv", "--target", "repaid", "--protected", "sex,age", "--features",
        "income,job", "--points", "3", *QUICK,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "target repaid (2 classes), protected sex (2 groups), protected age (number)" in done.out
    assert "Columns not used (3): id, grade, amount\n" in done.out
    assert "--test-share 0.25" in done.out
    assert done.err.count(f"Missing values of {gaps(table)} are filled in") == 1


@SILENT
@pytest.mark.parametrize("target", ["repaid", "amount"])
def test_audit_prints_how_it_reads_the_columns(call, target):
    fit(call, target=target)
    done = call(
        "audit", "people.csv", "--model", "m.skops", "--target", target, "--protected", "sex,age",
        *QUICK,
    )  # fmt: skip
    assert done.code == 0, done.err
    kind = "categorical: 'no', 'yes'" if target == "repaid" else "continuous"
    read = f"target {target} ({kind}), protected sex (categorical: 'f', 'm'), protected age (continuous)"
    assert f"Columns read as: {read}." in done.err


@SILENT
def test_audit_of_scores_prints_what_it_takes_for_features(call):
    command = ("audit", "people.csv", "--scores", "amount", "--target", "repaid", "--protected",
               "sex", *QUICK)  # fmt: skip
    done = call(*command, "--drop", "id")
    assert done.code == 0, done.err
    assert "Features that attackers may compare with (4): age, income, job, grade." in done.err
    done = call(*command)
    assert "look like identifiers: 'id'. To use them: --keep id" in done.err
    assert "Features that attackers may compare with (4): age, income, job, grade." in done.err
    done = call(*command, "--keep", "id")
    assert "Features that attackers may compare with (5): id, age, income, job, grade." in done.err
    done = call(*command, "--no-features")
    assert "Features that attackers" not in done.err


def test_a_kind_that_was_given_is_printed_as_given(call):
    done = call(
        "audit", "people.csv", "--scores", "amount", "--target", "repaid", "--protected", "age",
        "--kind", "age=categorical", "--no-features", *QUICK,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "protected age (categorical: 20, 21, " in done.err


# ------------------------------------------------------------------ predict


@PREDICT
@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            "gp-classifier",
            "'prediction' is 'yes' where 'probability of yes' is above 0.5, and 'no'",
        ),
        ("ridge-classifier", "'prediction' is 'yes' where 'score of yes' is above 0, and 'no'"),
    ],
)
def test_predict_prints_which_class_a_column_is_about_and_the_threshold(call, model, says):
    fit(call, "--model", model, "--fairness", "0.5", "--equalize", "scores")
    done = call("predict", "people.csv", "--model", "m.skops", "--json", "-")
    assert done.code == 0, done.err
    assert says in done.err
    assert "Favourable class when the model was fitted: 'yes'." in done.err
    found = json.loads(done.out)
    (column,) = [name for name in found if name.endswith("of yes")]
    threshold = 0.5 if column.startswith("probability") else 0.0
    above = np.array(found[column]) > threshold
    assert np.where(above, "yes", "no").tolist() == found["prediction"]
    assert 0 < above.sum() < len(above)


@PREDICT
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("grade", "'prediction' is the class with the largest probability."),
        ("amount", "'prediction' is the predicted number."),
    ],
)
def test_predict_prints_what_other_predictions_are(call, target, says):
    fit(call, target=target)
    done = call(
        "predict", "people.csv", "--model", "m.skops", "--out", "p.csv", "--fairness", "0.5"
    )
    assert done.code == 0, done.err
    assert says in done.err
    assert "statistical_parity, fairness 0.5 (share dial)." in done.err
    assert "Favourable" not in done.err


def test_a_model_made_in_python_has_no_favourable_class(call, table):
    X = table[["age"]].assign(n=np.arange(len(table)))
    model = fairspan.FairRidgeClassifier(gamma=0.5, alpha=1.0, eta=0.1, random_state=0)
    fairspan.save_model(model.fit(X, table["repaid"], sensitive_features=table["sex"]), "p.skops")
    X.to_csv("x.csv", index=False)
    done = call("predict", "x.csv", "--model", "p.skops")
    assert done.code == 0, done.err
    assert "'score of yes' is above 0" in done.err
    assert "Favourable" not in done.err
