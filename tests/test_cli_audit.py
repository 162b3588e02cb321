"""`fairspan fit` and `fairspan audit`: what they compute, where they write it, what they refuse."""

import json

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import pandas as pd
from typer.testing import CliRunner

import fairspan
from fairspan import cli
from fairspan.cli import column_kinds, tables
from fairspan.cli import common as options
from fairspan.report import held_out_rows

FAST = ("--parts", "scores,decisions")
FEATURES = ["income", "job", "debt"]


def make_table(n=400):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, n)
    income = 50_000 + 8_000 * s + 10_000 * rng.normal(size=n)
    job = rng.choice(["clerk", "cook", "nurse"], n)
    latent = (income - 54_000) / 10_000 + (job == "nurse") + rng.normal(size=n)
    table = pd.DataFrame(
        {
            "id": rng.permutation(n),
            "sex": np.where(s, "male", "female"),
            "age": rng.integers(20, 70, n),
            "region": rng.choice(["north", "south"], n),
            "income": income,
            "job": job,
            "debt": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "weight": rng.integers(1, 4, n),
            "repaid": np.where(latent + rng.normal(size=n) > 0, "yes", "no"),
            "score": 1 / (1 + np.exp(-latent)),
            "amount": latent,
        }
    )
    table["decided"] = np.where(table["score"] > 0.5, "yes", "no")
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the table as CSV and as Parquet, and a model that was fitted on three quarters."""
    out = tmp_path_factory.mktemp("cli")
    table = make_table()
    table.to_csv(out / "people.csv", index=False)
    done = CliRunner().invoke(
        cli.app,
        [
            *("fit", str(out / "people.csv"), "--target", "repaid", "--sensitive", "sex,age"),
            *("--features", ",".join(FEATURES), "--out", str(out / "model.skops"), "--audit"),
            *FAST,
            *("--json", str(out / "audit.json"), "--markdown", str(out / "audit.md")),
        ],
    )
    assert done.exit_code == 0, done.stderr
    (out / "fit.txt").write_text(done.stdout, encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def split(folder):
    """Training and held-out rows of that fit."""
    table = pd.read_csv(folder / "people.csv")
    held_out = held_out_rows(table, ["repaid", "sex", "age"], share=0.25, seed=0)
    return table[~held_out], table[held_out]


def same(text, found):
    """JSON of the command line and an audit of the Python interface are about the same numbers."""
    written = json.loads(text)
    written["settings"].pop("favourable", None)  # the command line chooses it, and says why
    assert written == json.loads(found.to_json())


# ------------------------------------------------------------------ fit


def test_fit_says_what_it_did(folder):
    text = (folder / "fit.txt").read_text(encoding="utf-8")
    assert "400 rows, 100 of them held out" in text
    assert "FairGPClassifier of repaid (2 classes: 'no', 'yes')\n" in text
    assert "Features (3): income, job, debt\nColumns not used (6): id, region, weight, " in text
    assert "Protected: sex (categorical: 'female', 'male'), age (continuous)" in text
    assert "no function of the model space correlates" in text
    assert f"Model written to {folder / 'model.skops'}" in text
    assert "Audit of FairGPClassifier on 100 rows" in text
    assert f"Audit written to {folder / 'audit.json'}, {folder / 'audit.md'}" in text


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_the_model_is_that_of_the_python_interface(folder, split):
    train, test = split
    model = fairspan.FairGPClassifier(equalize="decisions", random_state=0).fit_stream(
        [train],
        target="repaid",
        sensitive_features=["sex", "age"],
        features=FEATURES,
        encoder="table",
    )
    loaded = fairspan.load_model(folder / "model.skops")
    np.testing.assert_array_equal(model.predict_proba(test), loaded.predict_proba(test))


def test_the_audit_is_of_rows_held_out_and_that_of_the_python_interface(folder, split):
    found = fairspan.audit(
        fairspan.load_model(folder / "model.skops"),
        split[1][[*FEATURES, "sex", "age"]],
        split[1]["repaid"],
        sensitive_features=["sex", "age"],
        parts=["scores", "decisions"],
        random_state=0,
    )
    same((folder / "audit.json").read_text(encoding="utf-8"), found)
    assert (folder / "audit.md").read_text(encoding="utf-8") == found.to_markdown()


def test_all_rows_are_fitted_without_an_audit_and_a_limit_is_kept(call, folder, tmp_path):
    out = tmp_path / "ridge.skops"
    done = call(
        "fit", folder / "people.csv", "--target", "amount", "--sensitive", "sex", "--model",
        "ridge", "--features", "income", "--features", "debt", "--weight", "weight",
        "--max-correlation", "0.1", "--out", out, "--with-moments",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "people.csv: 400 rows\n" in done.out
    model = fairspan.load_model(out)
    assert type(model).__name__ == "FairRidge"
    assert model.certificate_.new_rows.correlation == pytest.approx(0.1, abs=1e-6)
    assert model.moments_.n_rows == 400


def test_strata_are_for_the_criterion_or_for_the_audit(call, folder, tmp_path):
    common = (
        "fit", folder / "people.csv", "--target", "repaid", "--sensitive", "sex", "--features",
        "income,job", "--control", "region", "--model", "ridge-classifier", "--out",
        tmp_path / "m.skops",
    )  # fmt: skip
    done = call(*common, "--criterion", "conditional_statistical_parity")
    assert "region=north" in done.out
    done = call(*common, "--audit", *FAST)
    assert (done.code, "region=north" in done.out) == (0, False)
    done = call(*common)
    assert (done.code, "--control is for --audit" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("yes no yes no", "FairGPClassifier"),
        ([True, False, True, True], "FairGPClassifier"),
        ([0.5, 1.5, 0.5, 0.5], "FairGPClassifier"),
        ([1, 2, 3, 1], "FairGPClassifier"),
        ([1.0, 2.0, 3.5, 1.0], "FairGPRegressor"),
        (range(100), "FairGPRegressor"),
    ],
)
def test_the_target_chooses_the_model(column, kind):
    from fairspan.cli.training import make_estimator

    values = column.split() if isinstance(column, str) else list(column)
    assert type(make_estimator("kernel", pd.DataFrame({"y": values}), "y")).__name__ == kind


def test_a_warning_is_a_line(call, tmp_path):
    table = make_table()
    table.loc[:3, "sex"] = "other"
    table.to_csv(tmp_path / "t.csv")  # with row numbers, as pandas does by default
    done = call(
        "fit", tmp_path / "t.csv", "--target", "amount", "--sensitive", "sex", "--model", "ridge",
        "--drop", "repaid,score,decided,id", "--out", tmp_path / "m.skops",
    )  # fmt: skip
    assert done.code == 0
    assert "Features (6): age, region, income, job, debt, weight\n" in done.out
    assert "Left out the first column" in done.err
    assert "Warning: Attribute 'sex' has groups of fewer than" in done.err
    assert ".py" not in done.err


def test_rows_without_a_target_or_a_group_are_left_out_if_asked(call, tmp_path):
    table = make_table()
    table["points"] = np.digitize(table["amount"], [0.0, 1.0]).astype(float)
    table.loc[:9, "points"] = np.nan
    table.loc[5:11, "sex"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = (
        "fit", tmp_path / "t.csv", "--target", "points", "--sensitive", "sex", "--features",
        "income,job", "--out", tmp_path / "m.skops",
    )  # fmt: skip
    done = call(*arguments)
    assert done.code == 2
    assert "12 of 400 rows miss a value of 'points' (10), 'sex' (7)" in done.err
    assert "--drop-missing" in done.err
    done = call(*arguments, "--drop-missing")
    assert "Left out 12 rows" in done.err
    assert "388 rows" in done.out
    # Labels are those of the file, which has 0.0 because of the gaps.
    assert fairspan.load_model(tmp_path / "m.skops").classes_.tolist() == ["0.0", "1.0", "2.0"]


# ------------------------------------------------------------------ audit


def test_audit_of_a_saved_model(call, folder, split):
    test = split[1]
    test.to_csv(folder / "test.csv", index=False)
    arguments = (
        "audit", folder / "test.csv", "--model", folder / "model.skops", "--target", "repaid",
        "--sensitive", "sex", "--control", "region", "--weight", "weight", "--pos-label", "no",
        "--level", ".9", "--min-rows", "20", *FAST,
    )  # fmt: skip
    done = call(*arguments, "--json", "-", "--seed", "3")
    assert done.code == 0, done.err
    found = fairspan.audit(
        fairspan.load_model(folder / "model.skops"), test[[*FEATURES, "sex", "region"]],
        test["repaid"], sensitive_features=["sex"], control_features=["region"], level=0.9,
        sample_weight=test["weight"], pos_label="no", parts=["scores", "decisions"], min_rows=20,
        random_state=3,
    )  # fmt: skip
    same(done.out, found)
    done = call(*arguments, "--seed", "3")
    assert done.out == repr(found) + "\n"


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_audit_of_scores_and_decisions(call, tmp_path, ending):
    table = make_table()
    file = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(file)
    else:
        table.to_csv(file, index=False)
    done = call(
        "audit", file, "--scores", "score", "--decisions", "decided", "--target", "repaid",
        "--sensitive", "sex", "--sensitive", "age", "--kind", "age=continuous", *FAST,
        "--markdown", "-",
    )  # fmt: skip
    found = fairspan.audit(
        table["score"].to_numpy(),
        y=table["repaid"],
        decisions=table["decided"],
        sensitive_features=table[["sex", "age"]],
        parts=["scores", "decisions"],
        random_state=0,
    )
    assert done.out == found.to_markdown()
    for title in ("## Fairness audit", "### Groups", "### Gaps between groups", "### By group"):
        assert title in done.out


def test_decisions_alone_numbers_too(call, tmp_path):
    table = make_table()
    table["granted"] = (table["score"] > 0.5).astype(int)
    table["good"] = (table["repaid"] == "yes").astype(int)
    table.to_csv(tmp_path / "t.csv", index=False)
    start = ("audit", tmp_path / "t.csv", "--sensitive", "sex", *FAST, "--no-features", "--json")
    as_text = json.loads(call(*start, "-", "--decisions", "decided", "--target", "repaid").out)
    as_number = json.loads(call(*start, "-", "--decisions", "granted", "--target", "good").out)
    values = [
        [
            (f["metric"], f["group"], f["value"])
            for f in one["findings"]
            if f["section"] != "performance"
        ]
        for one in (as_text, as_number)
    ]
    assert values[0] == values[1]
    assert len(values[0]) > 5
    other = json.loads(
        call(*start, "-", "--decisions", "granted", "--target", "good", "--pos-label", "0").out
    )
    rate = [
        next(
            f["value"]
            for f in one["findings"]
            if (f["metric"], f["group"]) == ("selection_rate", "male")
        )
        for one in (as_number, other)
    ]
    assert sum(rate) == pytest.approx(1.0)


def test_features_are_the_columns_without_a_role(call, folder):
    start = (
        "audit", folder / "people.csv", "--scores", "score", "--sensitive", "sex", "--parts",
        "attacks", "--attackers", "linear", "--json", "-", "--target", "repaid", "--drop",
        "amount,decided,id",
    )  # fmt: skip
    with_features = {f["metric"] for f in json.loads(call(*start).out)["findings"]}
    without = {f["metric"] for f in json.loads(call(*start, "--no-features").out)["findings"]}
    assert with_features - without == {"linear auc from features"}


def test_files_and_a_picture(call, folder, tmp_path):
    pytest.importorskip("matplotlib")
    done = call(
        "audit", folder / "people.csv", "--decisions", "decided", "--sensitive", "sex", *FAST,
        "--json", "-", "--markdown", tmp_path / "a.md", "--plot", tmp_path / "a.png",
    )  # fmt: skip
    assert json.loads(done.out)["model"] == "decisions"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.md").read_text(encoding="utf-8").startswith("## Fairness audit")
    assert f"Audit written to {tmp_path / 'a.md'}, {tmp_path / 'a.png'}" in " ".join(
        done.err.split()
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.md", "a.png"]


def test_labels_cannot_steer_the_terminal(call, tmp_path):
    table = make_table()
    table["sex"] = table["sex"].replace("male", "\x1b[31mmale")
    table.rename(columns={"sex": "s\x07x"}).to_csv(tmp_path / "t.csv", index=False)
    done = call("audit", tmp_path / "t.csv", "--scores", "score", "--sensitive", "s\x07x", *FAST)
    assert done.code == 0
    assert not {"\x1b", "\x07"} & set(done.out + done.err)


# ------------------------------------------------------------------ what is refused

FIT = ("fit", "people.csv", "--target", "repaid", "--sensitive", "sex")
AUDIT = ("audit", "people.csv", "--target", "repaid", "--sensitive", "sex")
SCORED = (*AUDIT, "--scores", "score")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit", "no.csv", "--target", "a", "--sensitive", "b"), "no.csv does not exist"),
        (("fit", ".", "--target", "a", "--sensitive", "b"), "is a folder"),
        (
            ("fit", "note.txt", "--target", "a", "--sensitive", "b"),
            "note.txt cannot be read: it has no rows",
        ),
        (("fit", "empty.csv", "--target", "a", "--sensitive", "b"), "empty.csv cannot be read"),
        (
            ("fit", "head.csv", "--target", "a", "--sensitive", "b"),
            "head.csv cannot be read: it has no rows",
        ),
        (("fit", "bad.parquet", "--target", "a", "--sensitive", "b"), "bad.parquet cannot be read"),
        (
            ("fit", "people.csv", "--target", "Repayed", "--sensitive", "sex"),
            "--target names the column 'Repayed', which is not there. Did you mean 'repaid'?",
        ),
        (
            ("fit", "people.csv", "--target", "repaid", "--sensitive", "sex,zzz"),
            "--protected names the column 'zzz', which is not there. Its columns: 'id', 'sex'",
        ),
        (
            ("fit", "people.csv", "--target", "repaid", "--sensitive", ","),
            "--protected: give at least one column name",
        ),
        ((*FIT, "--drop", "Income"), "Did you mean 'income'?"),
        ((*FIT, "--control", "sex"), "'sex' cannot be both --protected and --control"),
        ((*FIT, "--weight", "job"), "--weight names the column 'job', which holds no numbers"),
        ((*FIT, "--features", "repaid"), "'repaid', which is the target"),
        (
            (*FIT, "--model", "svm"),
            "--model 'svm' is unknown; known are kernel, auto, boosting, ridge",
        ),
        ((*FIT, "--criterion", "luck"), "--criterion luck is unknown"),
        ((*FIT, "--fairness", "2"), "--fairness 2 is not allowed"),
        ((*FIT, "--max-correlation", "-1"), "--max-correlation -1 is not allowed"),
        (
            (*FIT, "--fairness", "1", "--max-correlation", "0.1"),
            "exclude each other; give one of them",
        ),
        ((*FIT, "--pos-label", "maybe"), "--positive 'maybe' is no label of 'repaid': 'no', 'yes'"),
        ((*FIT, "--kind", "sex"), "--kind 'sex' is not allowed; write NAME=categorical"),
        ((*FIT, "--kind", "sex=often"), "write NAME=categorical"),
        ((*FIT, "--kind", "agr=continuous"), "which is not there"),
        ((*FIT, "--kind", "sex=continuous"), "'sex', which holds no numbers"),
        ((*FIT, "--markdown", "a.md"), "pass --audit too"),
        ((*FIT, "--audit", "--test-share", "1"), "--test-share 1 is not allowed"),
        ((*FIT, "--audit", "--parts", "luck"), "--parts has 'luck'; known are scores"),
        ((*FIT, "--out", "nowhere/m.skops"), "there is no folder nowhere"),
        ((*FIT, "--out", "."), "is a folder"),
        (("fit", "gaps.csv", "--target", "repaid", "--sensitive", "sex"), "rows miss a value of"),
        (
            ("fit", "gaps.csv", "--target", "none", "--sensitive", "sex", "--drop-missing"),
            "no rows are left",
        ),
        (
            ("fit", "gaps.csv", "--target", "id", "--sensitive", "age"),
            "infinity (1 in all), first in row 5",
        ),
        (
            ("fit", "gaps.csv", "--target", "text", "--sensitive", "age", "--features", "income"),
            "400 different texts, as 'person 0'",
        ),
        (
            ("fit", "gaps.csv", "--target", "age", "--sensitive", "one", "--features", "income"),
            "'one' is constant",
        ),
        (AUDIT, "There is nothing to audit"),
        ((*AUDIT, "--model", "m.skops", "--scores", "score"), "--model brings its own scores"),
        ((*AUDIT, "--model", "m.skops"), "--model m.skops is no file"),
        ((*AUDIT, "--model", "note.txt"), "note.txt is not a fairspan model file"),
        (("audit", "short.csv", "--sensitive", "sex", "--model", "model.skops"), "fitted with"),
        ((*AUDIT, "--scores", "job"), "--scores names the column 'job', which holds no numbers"),
        ((*AUDIT, "--decisions", "amount"), "try --scores"),
        ((*AUDIT, "--decisions", "job"), "Decisions need the labels of the target"),
        ((*SCORED, "--parts", "luck"), "--parts has 'luck'"),
        ((*SCORED, "--attackers", "luck"), "attackers has 'luck'"),
        ((*SCORED, "--level", "95"), "--level 95.0 is not allowed"),
        ((*SCORED, "--json", "-", "--markdown", "-"), "cannot both have standard output"),
        ((*SCORED, "--plot", "a.doc"), "give a file that ends in .png"),
        (
            ("audit", "people.csv", "--sensitive", "sex", "--scores", "score", "--pos-label", "1"),
            "--positive needs labels",
        ),
        (("audit", "people.csv", "--sensitive", "sex,region", "--scores", "sex"), "cannot be both"),
    ],
)
def test_an_error_is_a_line_with_the_remedy(call, folder, monkeypatch, arguments, says):
    monkeypatch.chdir(folder)
    done = call(*arguments)
    assert done.code == 2
    assert done.err.startswith("Error: ")
    assert says in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.fixture(scope="module", autouse=True)
def broken_files(folder):
    (folder / "note.txt").write_text("no table", encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "head.csv").write_text("a,b\n", encoding="utf-8")
    (folder / "bad.parquet").write_text("no Parquet", encoding="utf-8")
    table = make_table()
    table[["sex", "age"]].to_csv(folder / "short.csv", index=False)
    table.loc[3, "sex"] = None
    table.loc[4, "debt"] = np.inf
    table["none"], table["one"] = np.nan, 1
    table["text"] = [f"person {i}" for i in range(len(table))]
    table.to_csv(folder / "gaps.csv", index=False)


def test_help_names_both_commands(call):
    text = call("--help").out
    assert "fit" in text
    assert "audit" in text
    for command in ("fit", "audit"):
        done = call(command, "--help")
        assert (done.code, "--sensitive" in done.out) == (0, True)


# ------------------------------------------------------------------ small things


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=12, max_size=80),
    st.floats(0.1, 0.9),
    st.integers(0, 100),
)
def test_every_class_and_group_is_held_out_alike(rows, share, seed):
    table = pd.DataFrame(rows, columns=["y", "s"])
    try:
        held_out = held_out_rows(table, ["y", "s"], share=share, seed=seed)
    except ValueError:  # one row out, and that one the only one of its group
        reject()
    assert set(table.y[~held_out]) == set(table.y)
    assert set(table.s[~held_out]) == set(table.s)
    # A class or group that would be held out as a whole keeps a row, which its share then lacks.
    size = table.groupby(["y", "s"])["y"].transform("size") * (1.0 - share)
    spared = sum((size.groupby(table[name]).max() < 1.0).sum() for name in ("y", "s"))
    for keys in (["y"], ["y", "s"]):
        for _, mask in table.assign(held_out=held_out).groupby(keys)["held_out"]:
            assert abs(mask.sum() - share * len(mask)) < 1.0 + spared + 1e-9
    again = held_out_rows(table, ["y", "s"], share=share, seed=seed)
    np.testing.assert_array_equal(held_out, again)


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("1", [0, 1], 1),
        ("1", [0.0, 1.0], 1.0),
        ("1.0", [0, 1], 1),
        ("1", ["0", "1"], "1"),
        ("true", [False, True], True),
        ("yes", ["no", "yes"], "yes"),
    ],
)
def test_a_label_has_the_type_of_the_column(text, labels, label):
    found = column_kinds.match_label(text, labels, "y")
    assert found == label
    assert type(found) is type(label)


def test_a_name_may_hold_a_comma():
    table = pd.DataFrame({"a,b": [1], "c": [2]})
    assert tables.pick_columns(table, ["a,b", "c"], "--drop") == ["a,b", "c"]
    assert options.split_commas([" a , b", "c"]) == ["a", "b", "c"]
