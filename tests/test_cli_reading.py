"""Tables as people have them, through the commands: what is read, left out, named and written."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

import fairspan  # noqa: E402
from fairspan.cli import read  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
MODEL = ("--model", "ridge-classifier")
FIT = ("--target", "repaid", "--protected", "sex", *MODEL, "--out", "m.skops")


def people(n=150, seed=0):
    rng = np.random.default_rng(seed)
    sex, income = rng.choice(["f", "m"], n), rng.normal(2000, 500, n).round(2)
    days = rng.integers(0, 9000, n)
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "born": (np.datetime64("1970-01-01") + days).astype(str),
            "repaid": np.where(income + days / 10 + rng.normal(0, 300, n) > 2400, "Ja", "Nein"),
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(call, *arguments):
    done = call(*arguments)
    assert done.code == 0, done.err
    return done


def predicted(call, *arguments):
    run(call, "predict", *arguments, "--model", "m.skops", "--out", "p.csv")
    return pd.read_csv("p.csv", dtype=str, keep_default_na=False)["prediction"].tolist()


def test_a_file_in_another_dialect_gives_the_same_decisions(call):
    table = people()
    table.to_csv("a.csv", index=False)
    run(call, "fit", "a.csv", *FIT)
    expected = predicted(call, "a.csv")
    assert set(expected) == {"Ja", "Nein"}
    table.to_csv("b.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    done = run(call, "fit", "b.csv", *FIT)
    assert (
        done.err.count("b.csv was read with: semicolons between fields, decimal commas, encoding")
        == 1
    )
    assert "--sep, --decimal, --encoding change it." in done.err
    assert predicted(call, "b.csv") == expected
    with closing(sqlite3.connect("c.db")) as connection:
        table.to_sql("people", connection, index=False)
    query = ("--sql", "SELECT * FROM people", "--database", "sqlite:///c.db")
    assert predicted(call, *query) == expected


def test_dates_are_days_and_parts_are_made_again_for_new_rows(call):
    people().to_csv("a.csv", index=False)
    run(call, "fit", "a.csv", *FIT, "--date-parts", "month,weekday")
    model = fairspan.load_model("m.skops")
    names = ["income", "born", "born (month)", "born (weekday)"]
    assert model.feature_names_in_.tolist() == names
    assert len(predicted(call, "a.csv")) == 150
    done = call("fit", "a.csv", *FIT, "--drop", "born", "--date-parts", "year")
    assert "--date-parts" in done.err
    people().drop(columns="born").to_csv("n.csv", index=False)
    done = call("fit", "n.csv", *FIT, "--date-parts", "month")
    assert "no feature holds dates" in done.err


@pytest.mark.parametrize("name", ["sex", pytest.param("repaid", marks=pytest.mark.slow)])
def test_a_date_with_a_role_is_a_number_of_days(call, name):
    table = people().assign(other=np.resize(["x", "y"], 150))
    table = table.drop(columns=name).rename(columns={"born": name})
    table.to_csv("a.csv", index=False)
    model = "ridge" if name == "repaid" else "ridge-classifier"
    done = run(call, "fit", "a.csv", *FIT[:4], "--model", model, "--out", "m.skops")
    assert "continuous" in done.out or "a number" in done.out


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (("01", "02"), True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(("1.0", "2.0"), False), (("1.00", "2.00"), True), (("1", "2"), False)]
        ),
    ],
)
@pytest.mark.parametrize("gap", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_labels_are_written_as_the_file_has_them(call, labels, text, gap):
    table = people()
    table["repaid"] = np.where(table["repaid"] == "Ja", *labels)
    if gap:
        table.loc[:3, "repaid"] = None
    table.to_csv("a.csv", index=False)
    run(call, "fit", "a.csv", *FIT, "--drop-missing", "--positive", labels[1])
    assert set(predicted(call, "a.csv")) == set(labels)
    classes = fairspan.load_model("m.skops").classes_
    assert (classes.dtype.kind in "UO") == (text or (gap and labels[0] == "1.0"))
    done = run(
        call, "audit", "a.csv", "--model", "m.skops", "--target", "repaid", "--protected", "sex",
        "--parts", "decisions", "--drop-missing",
    )  # fmt: skip
    assert "accuracy" in done.out


@pytest.mark.slow
def test_booleans_are_labels_in_the_spelling_of_the_file(call):
    table = people()
    table["repaid"] = np.where(table["repaid"] == "Ja", "TRUE", "FALSE")
    table.to_csv("a.csv", index=False)
    run(call, "fit", "a.csv", *FIT, "--positive", "true")
    assert set(predicted(call, "a.csv")) == {"TRUE", "FALSE"}


def test_identifiers_and_free_text_are_left_out_unless_they_are_kept(call):
    table = people().assign(
        number=[f"k{i}" for i in range(150)], remark=[f"was late on day {i}" for i in range(150)]
    )
    table.to_csv("a.csv", index=False)
    done = run(call, "fit", "a.csv", *FIT)
    assert "look like identifiers: 'number'. To use them: --keep number\n" in done.err
    assert "look like free text: 'remark'. To use them: --keep remark\n" in done.err
    assert fairspan.load_model("m.skops").feature_names_in_.tolist() == ["income", "born"]
    run(call, "fit", "a.csv", *FIT, "--keep", "number")
    assert "number" in fairspan.load_model("m.skops").feature_names_in_
    done = call("fit", "a.csv", *FIT, "--keep", "number", "--drop", "number")
    assert done.code == 2
    done = call("fit", "a.csv", *FIT, "--drop", "income,born")
    assert "--keep NAME uses a column all the same" in done.err


def test_a_dictionary_sets_kinds_and_labels(call):
    table = people().assign(zip=np.resize([10115, 20095, 80331], 150), number=range(150))
    table["number"] *= 7
    table.to_csv("a.csv", index=False)
    text = "name,label,description,kind\nsex,Gender of applicant,,\nincome,Income per month,In euros,\n"
    (read.Path("c.csv")).write_text(f"{text}zip,,,code\nnumber,,,id\nother,,,\n", encoding="utf-8")
    done = run(
        call, "explore", "a.csv", *FIT[:4], *MODEL, "--dictionary", "c.csv", "--points", "3",
        "--parts", "scores", "--json", "s.json",
    )  # fmt: skip
    assert "--dictionary c.csv names columns that the table lacks: 'other'." in done.err
    assert "look like identifiers: 'number'" in done.err
    study = json.loads(read.Path("s.json").read_text("utf-8"))
    columns = {c["column"]: c for c in study["columns"]}
    assert columns["income"]["name"] == "Income per month"
    assert columns["income"]["description"] == "In euros"
    assert columns["zip"]["note"].startswith("one column per category")
    assert "Income per month" in {f["name"] for f in study["importance"]["features"]}
    assert [a["name"] for a in study["attributes"]] == ["Gender of applicant"]
    assert "Gender of applicant" in study["about"]["criterion_words"]
    assert list(study["tradeoff"]["parity"]) == ["Gender of applicant"]
    assert all("sex" in point["snippet"] for point in study["positions"])
    done = run(
        call, "fit", "a.csv", *FIT, "--dictionary", "c.csv", "--audit", "--parts", "scores",
    )  # fmt: skip
    assert "\n  Gender of applicant\n" in done.out
    assert fairspan.load_model("m.skops").feature_names_in_.tolist() == ["income", "born", "zip"]
    run(
        call,
        "audit",
        "a.csv",
        "--model",
        "m.skops",
        *FIT[:4],
        "--dictionary",
        "c.csv",
        "--parts",
        "scores",
    )


def test_groups_of_one_row_are_no_groups(call):
    table = people()
    table.loc[:4, "sex"] = list("uvxyz")
    table.to_csv("a.csv", index=False)
    done = run(call, "fit", "a.csv", *FIT)
    assert (
        "'sex': 5 groups of one row joined the group 'other': 'u', 'v', 'x', 'y', 'z'." in done.err
    )
    assert "Protected: sex (categorical: 'f', 'm', 'other')" in done.out
    done = run(
        call,
        "explore",
        "a.csv",
        *FIT[:4],
        *MODEL,
        "--points",
        "2",
        "--parts",
        "scores",
        "--json",
        "-",
    )
    study = json.loads(done.out)
    assert [g["label"] for g in study["attributes"][0]["groups"]] == ["f", "m", "other"]
    names = {}
    exec(study["positions"][0]["snippet"], names)
    assert set(names["table"]["sex"]) == {"f", "m", "other"}


@pytest.mark.slow
def test_codes_that_begin_with_0_are_groups(call):
    table = people().assign(zip=np.resize(["01067", "10115", "20095"], 150))
    table.to_csv("a.csv", index=False)
    fit = ("fit", "a.csv", "--target", "repaid", "--protected", "zip", *FIT[4:], "--drop", "sex")
    done = run(call, *fit)
    assert "'zip' is read as text, because values begin with 0, as '01067'" in done.err
    assert "zip (categorical: '01067', '10115', '20095')" in done.out
    done = run(call, *fit, "--kind", "zip=continuous")
    assert "zip (continuous)" in done.out
    audit = ("audit", "a.csv", "--model", "m.skops", "--protected", "zip", "--parts", "scores")
    assert "protected zip (categorical: '01067'," in run(call, *audit).err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": None}, "DATA is missing"),
        ({"data": "a.csv", "sql": "SELECT 1"}, "go together"),
        ({"data": "a.csv", "sql": "SELECT 1", "database": "sqlite:///a"}, "exclude each other"),
        (
            {"data": None, "sql": "SELECT 1", "database": "sqlite:///a", "sep": ";"},
            "--sep is for files",
        ),
        (
            {"data": "loans", "encoding": "utf-8"},
            "--encoding is for files, not for the data set loans",
        ),
    ],
)
def test_options_about_reading_that_do_not_go_together_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        read.Input(**options)


def test_messages_name_options():
    text = (
        "t: Pass decimal='.' or decimal=',', sep=';' or sep='\\t', or encoding='cp1252' (sheet=)."
    )
    expected = "t: Pass --decimal . or --decimal ,, --sep ';' or --sep tab, or --encoding cp1252 (--sheet)."
    assert read.as_options(text) == expected


def test_labels_that_are_dates_are_predicted_as_they_are(call, tmp_path):
    from tests.support.borrowers import people

    frame = people().drop(columns="grade")
    cohort = np.where(frame["repaid"] == "yes", "2024-01-01", "2024-02-01")
    frame.assign(repaid=cohort).to_csv(tmp_path / "cohorts.csv", index=False)
    roles = ("--target", "repaid", "--protected", "sex")
    assert call("fit", "cohorts.csv", *roles, "--model", "ridge-classifier").code == 0
    done = call("predict", "cohorts.csv", "--model", "model.skops", "--json", "-")
    assert set(json.loads(done.out)["prediction"]) == {"2024-01-01", "2024-02-01"}


def test_signs_of_training_are_required_of_new_files(call, tmp_path):
    from tests.support.borrowers import people

    frame = people().drop(columns="grade").assign(share=np.linspace(0.01, 0.4, 240))
    percent = frame.assign(share=[f"{100 * value:.3f} %" for value in frame["share"]])
    percent.to_csv(tmp_path / "train.csv", index=False)
    frame.to_csv(tmp_path / "fraction.csv", index=False)
    frame.assign(share=(100 * frame["share"]).round(3)).to_csv(tmp_path / "plain.csv", index=False)
    roles = ("--target", "repaid", "--protected", "sex")
    assert call("fit", "train.csv", *roles, "--model", "ridge-classifier").code == 0
    for command in (("predict",), ("audit", *roles, "--parts", "scores")):
        given = ("--model", "model.skops")
        done = call(command[0], "fraction.csv", *command[1:], *given)
        assert done.code == 2
        said = " ".join(done.err.split())
        assert "'share' had the sign % in training, and has no sign here" in said
        assert "--unit share=%." in said
        assert "Python" not in said
    found = call("predict", "plain.csv", *given, "--unit", "share=%", "--json", "-")
    expected = call("predict", "train.csv", *given, "--json", "-")
    for name, column in json.loads(expected.out).items():
        if name != "prediction":
            np.testing.assert_allclose(json.loads(found.out)[name], column, rtol=0, atol=1e-9)
    for unit, says in (
        ("share", "--unit 'share' is not allowed"),
        ("shar=%", "--unit names the column 'shar'"),
        ("sex=%", "--unit names 'sex', which holds no numbers"),
    ):
        done = call("predict", "plain.csv", *given, "--unit", unit)
        assert done.code == 2
        assert says in " ".join(done.err.split())
