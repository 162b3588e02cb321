"""Files that can be read in two ways: the same answer as the plain form, a clear error, or a warning."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairRidgeClassifier, FairspanWarning, load_model, save_model

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


FIXED = {"gamma": 0.3, "alpha": 1.0, "eta": 1e-3, "n_components": 20, "random_state": 0}
NAMED = {"target": "repaid", "sensitive_features": "sex"}
FEATURES = ["income", "grade", "member", "city"]
FIT = ("--target", "repaid", "--protected", "sex", "--model", "ridge-classifier", "--out")


def people(n, seed):
    """Four features that all matter, two groups, two classes."""
    rng = np.random.default_rng(seed)
    income, grade = (2.0 * rng.normal(size=n) + 3.0).round(1), rng.integers(1, 6, n)
    member, city = rng.random(n) < 0.5, rng.choice(["Bonn", "Ulm"], n)
    latent = income + grade + 2.0 * member + 2.0 * (city == "Ulm")
    return pd.DataFrame(
        {
            "income": income,
            "grade": grade,
            "member": member,
            "city": city,
            "sex": rng.choice(["f", "m"], n),
            "repaid": np.where(latent > 8.0, "yes", "no"),
        }
    )


TRAIN, NEW = people(120, 0), people(40, 1)


def csv(frame):
    return frame.to_csv(index=False)


def write(name, content, encoding="utf-8"):
    data = csv(content) if isinstance(content, pd.DataFrame) else content
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
    return name


def texts(column):
    return NEW[column].astype(str)


def comma(column):
    return column.map(lambda value: str(value).replace(".", ","))


def lines(change):
    """The new file with every line changed."""
    return "\n".join(change(i, line) for i, line in enumerate(csv(NEW).splitlines())) + "\n"


@pytest.fixture(scope="module")
def model():
    return FairRidgeClassifier(**FIXED).fit_stream(
        TRAIN, **NAMED, features=FEATURES, encoder="table"
    )


@pytest.fixture(scope="module")
def scores(model):
    return model.decision_function(NEW)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("train.csv", TRAIN)
    write("new.csv", NEW)


def seen(action):
    """What a call returns, and its warnings as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairspanWarning)
        out = action()
    return out, "\n".join(str(w.message) for w in caught)


# ------------------------------------------------------------------ new files: predictions

SAME = {
    "byte order mark": b"\xef\xbb\xbf" + csv(NEW).encode(),
    "CRLF": csv(NEW).replace("\n", "\r\n"),
    "CR": csv(NEW).replace("\n", "\r"),
    "blank lines": csv(NEW).replace("\n", "\n\n"),
    "all quoted": lines(lambda _, line: ",".join(f'"{v}"' for v in line.split(","))),
    "comma at the end of each line": lines(lambda _, line: f"{line},"),
    "columns in another order": NEW[NEW.columns[::-1]],
    "extra column": NEW.assign(extra=1),
    "TRUE": csv(NEW).replace("True", "TRUE").replace("False", "FALSE"),
    "true": csv(NEW).replace("True", "true").replace("False", "false"),
    "1 and 0 for booleans": NEW.assign(member=NEW["member"].astype(int)),
    "1.0 and 0.0 for booleans": NEW.assign(member=NEW["member"].astype(float)),
    "integers as floats": NEW.assign(grade=NEW["grade"].astype(float)),
    "scientific notation": NEW.assign(income=NEW["income"].map("{:e}".format)),
    "header that differs in case beside": NEW.assign(Income=0.0),
    "header with a blank beside": NEW.assign(**{"income ": 0.0}),
}
REFUSED = {
    "comment line": f"# exported\n{csv(NEW)}",
    "comment in the middle": lines(lambda i, line: f"# half\n{line}" if i == 5 else line),
    "no header": csv(NEW).split("\n", 1)[1],
    "second header": csv(NEW) + csv(NEW).split("\n", 1)[0] + "\n",
    "row with a field too many": lines(lambda i, line: f"{line},x" if i == 5 else line),
    "column twice": csv(NEW).replace("repaid", "income", 1),
    "header in another case": csv(NEW).replace("income", "Income", 1),
    "header with a blank": csv(NEW).replace("income", "income ", 1),
    "missing column": NEW.drop(columns="city"),
    "infinity": NEW.assign(income=texts("income").mask(NEW["income"] > 5, "inf")),
    "dates for numbers": NEW.assign(grade="2024-01-02"),
    "yes and no for booleans": NEW.assign(member=np.where(NEW["member"], "yes", "no")),
    "numbers for text": NEW.assign(city=(NEW["city"] == "Ulm").astype(int)),
}
GAPS = NEW["income"].where(NEW["income"] <= 5)
# The file, and the plain table that the command reads it as, with what it says about that. Streams refuse.
READ = {
    "UTF-16": (csv(NEW).encode("utf-16"), NEW, "encoding utf-16"),
    "latin-1 values": (
        csv(NEW).replace("Bonn", "Köln").encode("latin-1"),
        NEW.assign(city=NEW["city"].replace("Bonn", "Köln")),
        "cp1252",
    ),
    "semicolons": (csv(NEW).replace(",", ";"), NEW, "semicolons"),
    "tabs": (csv(NEW).replace(",", "\t"), NEW, "tab"),
    "semicolons and decimal commas": (
        csv(NEW).replace(",", ";").replace(".", ","),
        NEW,
        "decimal commas",
    ),
    "decimal commas": (NEW.assign(income=comma(NEW["income"])), NEW, "decimal commas"),
    "thousands": (
        NEW.assign(income=(1000 * NEW["income"]).map("{:,.1f}".format)),
        NEW.assign(income=1000 * NEW["income"]),
        "",
    ),
    "percent": (NEW.assign(income=texts("income") + "%"), NEW, "without their signs in income (%)"),
    "currency": (NEW.assign(income="€" + texts("income")), NEW, "without their signs in income"),
    "question marks": (
        NEW.assign(income=texts("income").mask(NEW["income"] > 5, "?")),
        NEW.assign(income=GAPS),
        "missing values in income ('?')",
    ),
    "None for a number": (
        NEW.assign(income=texts("income").mask(NEW["income"] > 5, "None")),
        NEW.assign(income=GAPS),
        "missing values in income ('None')",
    ),
}
REPAIRED = {
    "underscores in numbers": NEW.assign(income=texts("income").mask(NEW["income"] > 5, "1_0")),
    "booleans for numbers": NEW.assign(income=NEW["income"] > 3),
}
TOLD = {
    "other case": (NEW.assign(city=NEW["city"].replace("Ulm", "ULM")), "not in the training data"),
    "blank at the end": (
        NEW.assign(city=NEW["city"].replace("Ulm", "Ulm ")),
        "not in the training data",
    ),
    "None for text": (
        NEW.assign(city=NEW["city"].replace("Ulm", "None")),
        "not in the training data",
    ),
}
EMPTY = {
    "numbers all missing": NEW.assign(income=""),
    "text all missing": NEW.assign(city="NA"),
}


def streamed(model, path, **options):
    model.predict_stream(path, "out.parquet", method="decision_function", **options)
    return pq.read_table("out.parquet").to_pandas()


@pytest.mark.parametrize("name", SAME)
def test_another_form_of_the_same_file_has_the_same_predictions(model, scores, name):
    write("form.csv", SAME[name])
    np.testing.assert_allclose(streamed(model, "form.csv")["score"], scores, atol=1e-10)


@pytest.mark.parametrize("name", SAME)
def test_the_command_line_predicts_the_same_from_another_form(call, model, scores, name):
    save_model(model, "m.skops")
    write("form.csv", SAME[name])
    done = call("predict", "form.csv", "--model", "m.skops", "--json", "p.json")
    assert done.code == 0, done.err
    found = json.loads(Path("p.json").read_text())["score of yes"]
    np.testing.assert_allclose(found, scores, atol=1e-10)


@pytest.mark.parametrize("name", READ)
def test_the_command_reads_what_streams_refuse_and_says_so(call, model, name):
    content, plain, says = READ[name]
    save_model(model, "m.skops")
    write("plain.csv", plain)
    write("other.csv", content)
    results = []
    for file in ("plain.csv", "other.csv"):
        done = call("predict", file, "--model", "m.skops", "--json", "p.json")
        assert done.code == 0, done.err
        results.append(json.loads(Path("p.json").read_text())["score of yes"])
    np.testing.assert_allclose(results[1], results[0], atol=1e-10)
    assert says in done.err
    with pytest.raises((ValueError, OSError)):
        streamed(model, "other.csv")


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_read_otherwise_is_refused(call, model, name):
    save_model(model, "m.skops")
    write("other.csv", REFUSED[name])
    done = call("predict", "other.csv", "--model", "m.skops")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    with pytest.raises((ValueError, OSError)):
        streamed(model, "other.csv")


@pytest.mark.regression("two readings: text or booleans taken for numbers")
@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_no_number_of_the_column_is_refused(call, model, name):
    save_model(model, "m.skops")
    write("other.csv", REPAIRED[name])
    assert call("predict", "other.csv", "--model", "m.skops").code == 2
    with pytest.raises(ValueError, match="column 'income'"):
        streamed(model, "other.csv")


def test_booleans_stand_for_numbers_0_and_1_only(scores):
    train = TRAIN.assign(member=TRAIN["member"].astype(int))
    fitted = FairRidgeClassifier(**FIXED).fit_stream(
        train, **NAMED, features=FEATURES, encoder="table"
    )
    np.testing.assert_allclose(fitted.decision_function(NEW), scores, atol=1e-10)


@pytest.mark.parametrize("name", TOLD)
def test_values_written_in_another_way_are_told_of(model, name):
    frame, says = TOLD[name]
    write("other.csv", frame)
    assert says in seen(lambda: streamed(model, "other.csv"))[1]


@pytest.mark.regression("two readings: a column without any value")
@pytest.mark.parametrize("name", EMPTY)
def test_a_column_without_any_value_is_told_of(model, name):
    write("other.csv", EMPTY[name])
    assert "No row has a value of" in seen(lambda: streamed(model, "other.csv"))[1]


def test_single_gaps_and_few_rows_are_not_told_of(model):
    write("other.csv", NEW.assign(income=NEW["income"].where(NEW.index > 2))[:9])
    assert seen(lambda: streamed(model, "other.csv"))[1] == ""
    write("other.csv", NEW.assign(income=NEW["income"].where(NEW.index > 2)))
    assert seen(lambda: streamed(model, "other.csv"))[1] == ""


# ------------------------------------------------------------------ new files: kept columns


@pytest.mark.regression("two readings: identifiers of CSV files")
@pytest.mark.parametrize(
    "ids",
    [
        [f"{i:04d}" for i in range(40)],
        [str(2**64 + i) for i in range(40)],
        ["", *(str(2**53 + i) for i in range(39))],
        [f"{i}e5" for i in range(40)],
    ],
    ids=["leading zeros", "beyond 64 bits", "beyond 2^53 beside a gap", "with an e"],
)
def test_kept_columns_of_a_csv_file_are_copied_as_they_are_written(model, scores, ids):
    write("ids.csv", NEW.assign(id=ids))
    found = streamed(model, "ids.csv", keep="id")
    assert found["id"].fillna("").tolist() == ids
    np.testing.assert_allclose(found["score"], scores, atol=1e-10)


def test_a_kept_feature_stays_a_number(model, scores):
    found = streamed(model, "new.csv", keep=["income", "city"])
    assert found["income"].tolist() == NEW["income"].tolist()
    np.testing.assert_allclose(found["score"], scores, atol=1e-10)


@pytest.mark.parametrize("name", ["score", "prediction"])
def test_a_kept_column_with_the_name_of_an_output_is_refused(model, name):
    write("ids.csv", NEW.assign(**{name: 1}))
    method = "predict" if name == "prediction" else "decision_function"
    with pytest.raises(ValueError, match="rename that column"):
        model.predict_stream("ids.csv", "out.parquet", method=method, keep=name)


# ------------------------------------------------------------------ Parquet

TABLE = pa.Table.from_pandas(NEW, preserve_index=False).replace_schema_metadata(None)


def with_column(name, values):
    return TABLE.set_column(TABLE.schema.get_field_index(name), name, values)


PARQUET = {
    "dictionary": with_column("city", TABLE["city"].dictionary_encode()),
    "dictionary of integers": with_column("grade", TABLE["grade"].dictionary_encode()),
    "large string": with_column("city", TABLE["city"].cast(pa.large_string())),
    "unsigned": with_column("grade", TABLE["grade"].cast(pa.uint8())),
    "numbers as text": with_column("grade", TABLE["grade"].cast(pa.string())),
    "other order": TABLE.select(TABLE.schema.names[::-1]),
}
NO_PARQUET = {
    "binary": with_column("city", TABLE["city"].cast(pa.binary())),
    "timestamp": with_column("grade", TABLE["grade"].cast(pa.timestamp("s"))),
    "duration": with_column("grade", TABLE["grade"].cast(pa.duration("s"))),
    "date": with_column("grade", TABLE["grade"].cast(pa.int32()).cast(pa.date32())),
    "list": with_column("income", pa.array([[v] for v in NEW["income"]])),
    "text with commas": with_column("income", pa.array(comma(NEW["income"]).tolist())),
}


@pytest.mark.parametrize("name", PARQUET)
def test_another_type_of_the_same_values_has_the_same_predictions(model, scores, name):
    pq.write_table(PARQUET[name], "form.parquet")
    np.testing.assert_allclose(streamed(model, "form.parquet")["score"], scores, atol=1e-10)


@pytest.mark.parametrize("name", NO_PARQUET)
def test_a_type_that_is_no_number_or_category_is_refused(call, model, name):
    save_model(model, "m.skops")
    pq.write_table(NO_PARQUET[name], "other.parquet")
    assert call("predict", "other.parquet", "--model", "m.skops").code == 2
    with pytest.raises(ValueError, match="olumn"):
        streamed(model, "other.parquet")


@pytest.mark.parametrize("column", ["grade", "member", "repaid", "sex"])
def test_parquet_files_of_different_types_are_refused(column):
    TRAIN[:60].to_parquet("q1.parquet")
    TRAIN[60:].assign(**{column: pd.Timestamp("2024-01-01")}).to_parquet("q2.parquet")
    with pytest.raises(OSError, match="incompatible types"):
        FairRidgeClassifier(**FIXED).fit_stream(["q1.parquet", "q2.parquet"], **NAMED)


# ------------------------------------------------------------------ training files


def fitted(source, **options):
    return FairRidgeClassifier(**FIXED).fit_stream(source, **{**NAMED, **options})


OTHER_TYPES = {
    "decimal commas": ("income", comma(TRAIN["income"])[60:]),
    "booleans and integers": ("member", TRAIN["member"][60:].astype(int)),
    "labels": ("repaid", (TRAIN["repaid"][60:] == "yes").astype(int)),
    "groups": ("sex", (TRAIN["sex"][60:] == "f").astype(int)),
}


@pytest.mark.regression("two readings: CSV files of different types")
@pytest.mark.parametrize("name", OTHER_TYPES)
def test_csv_files_that_differ_in_a_column_are_told_of(name):
    column, values = OTHER_TYPES[name]
    write("part1.csv", TRAIN[:60])
    write("part2.csv", TRAIN[60:].assign(**{column: values}))
    said = seen(lambda: fitted("part*.csv"))[1]
    assert f"The CSV files differ in the column {column!r}: " in said
    assert "part1.csv" in said
    assert "part2.csv" in said


def test_integers_and_decimals_in_several_files_are_numbers():
    write("part1.csv", TRAIN[:60])
    write("part2.csv", TRAIN[60:].assign(grade=TRAIN["grade"][60:].astype(float)))
    several, said = seen(lambda: fitted("part*.csv"))
    assert said == ""
    np.testing.assert_allclose(
        several.decision_function(NEW), fitted("train.csv").decision_function(NEW), atol=1e-8
    )


def test_files_with_their_columns_in_another_order_are_the_same():
    write("part1.csv", TRAIN[:60])
    write("part2.csv", TRAIN[60:][TRAIN.columns[::-1]])
    np.testing.assert_allclose(
        fitted("part*.csv").decision_function(NEW),
        fitted("train.csv").decision_function(NEW),
        atol=1e-8,
    )


@pytest.mark.parametrize(
    "second",
    [
        TRAIN[60:].drop(columns="grade"),
        TRAIN[60:].assign(extra=1),
        TRAIN[60:].rename(columns={"grade": "Grade"}),
        csv(TRAIN[60:]).split("\n", 1)[1],
        csv(TRAIN[60:]).replace(",", ";"),
        "",
    ],
    ids=["a column less", "a column more", "other case", "no header", "semicolons", "empty"],
)
def test_files_with_other_columns_are_refused(second):
    write("part1.csv", TRAIN[:60])
    write("part2.csv", second)
    with pytest.raises((ValueError, OSError), match=r"part\d\.csv"):
        fitted("part*.csv")


def test_a_file_that_is_listed_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        fitted(["train.csv", "./train.csv"])


def test_a_file_without_rows_changes_nothing():
    write("zero.csv", csv(TRAIN).split("\n", 1)[0] + "\n")
    np.testing.assert_allclose(
        fitted(["train.csv", "zero.csv"]).decision_function(NEW),
        fitted("train.csv").decision_function(NEW),
        atol=1e-8,
    )


AS_TEXT = {
    "decimal commas": comma(TRAIN["income"]),
    "percent": TRAIN["income"].astype(str) + "%",
    "thousands": (1000 * TRAIN["income"]).map("{:,.0f}".format),
    "question marks": TRAIN["income"].astype(str).where(TRAIN.index % 5 != 0, "?"),
    "dates": [f"{i % 28 + 1:02d}/01/2024" for i in range(120)],
}


@pytest.mark.regression("two readings: numbers as text in a stream")
@pytest.mark.parametrize("name", AS_TEXT)
def test_a_stream_tells_of_numbers_and_dates_as_text(name):
    write("text.csv", TRAIN.assign(income=AS_TEXT[name]))
    said = seen(lambda: fitted("text.csv"))[1]
    kind = "dates" if name == "dates" else "numbers"
    assert f"Column 'income' holds {kind} as text, such as" in said


READ_AS = {
    "decimal commas": "read with: decimal commas",
    "percent": "read with: numbers without their signs in income (%)",
    "question marks": "read with: missing values in income ('?')",
}


@pytest.mark.parametrize("name", READ_AS)
def test_the_command_line_says_how_it_read_numbers(call, name):
    write("text.csv", TRAIN.assign(income=AS_TEXT[name]))
    done = call("fit", "text.csv", *FIT, "m.skops")
    assert done.code == 0, done.err
    assert READ_AS[name] in done.err
    assert "as text" not in done.err


def test_thousands_that_may_be_decimals_are_refused(call):
    write("text.csv", TRAIN.assign(income=AS_TEXT["thousands"]))
    done = call("fit", "text.csv", *FIT, "m.skops")
    assert done.code == 2
    assert "--decimal" in done.err


def test_the_command_line_tells_of_dates_as_text(call):
    write("text.csv", TRAIN.assign(income=AS_TEXT["dates"]))
    done = call("fit", "text.csv", *FIT, "m.skops")
    assert done.code == 0, done.err
    assert "'income': " in done.err
    assert "as text" in done.err


def codes(frame):
    return frame.assign(grade=frame["grade"].map("{:05d}".format))


@pytest.mark.regression("two readings: codes with leading zeros")
def test_codes_with_leading_zeros_are_told_of(call):
    write("codes.csv", codes(TRAIN))
    done = call("fit", "codes.csv", *FIT, "m.skops")
    assert done.code == 0, done.err
    assert "'grade': read as numbers, although values begin with 0, as '0000" in done.err
    assert "--kind grade=categorical" in done.err
    assert "Column 'grade' is read as numbers" in seen(lambda: fitted("codes.csv"))[1]


def test_codes_that_are_declared_text_are_not_told_of(call):
    write("codes.csv", codes(TRAIN))
    done = call("fit", "codes.csv", *FIT, "m.skops", "--kind", "grade=categorical")
    assert done.code == 0, done.err
    assert "begin with 0" not in done.err


@pytest.mark.parametrize("value", ["0", "0.5", "10", "-0.5"])
def test_plain_numbers_are_no_codes(call, value):
    write("plain.csv", TRAIN.assign(income=[value, *TRAIN["income"].astype(str)[1:]]))
    done = call("fit", "plain.csv", *FIT, "m.skops")
    assert done.code == 0, done.err
    assert "Warning" not in done.err


# ------------------------------------------------------------------ labels and groups


@pytest.mark.regression("two readings: labels of one class in two spellings")
@pytest.mark.parametrize(
    "labels",
    [
        TRAIN["repaid"].where(TRAIN.index % 5 != 0, TRAIN["repaid"].str.upper()),
        TRAIN["repaid"].where(TRAIN.index % 5 != 0, TRAIN["repaid"] + " "),
        TRAIN["repaid"].map({"yes": "1", "no": "x"}).where(TRAIN.index % 2 != 0, "1.0"),
    ],
    ids=["case", "blank", "1 and 1.0"],
)
def test_labels_of_one_class_in_two_spellings_are_told_of(call, labels):
    write("labels.csv", TRAIN.assign(repaid=labels))
    assert "target 'y' has labels that differ only" in seen(lambda: fitted("labels.csv"))[1]
    assert "target 'y' has labels that differ only" in call("fit", "labels.csv", *FIT, "m").err


@pytest.mark.regression("two readings: groups 1 and 1.0")
def test_groups_1_and_1_0_are_told_of():
    sex = TRAIN["sex"].map({"f": "1", "m": "x"}).where(TRAIN.index % 3 != 0, "1.0")
    write("groups.csv", TRAIN.assign(sex=sex))
    assert "'1', '1.0'" in seen(lambda: fitted("groups.csv"))[1]


@pytest.mark.regression("two readings: a missing value or a group")
@pytest.mark.parametrize("word", ["?", "-", "None", "N/A"])
def test_groups_are_printed_by_name(call, word):
    write("groups.csv", TRAIN.assign(sex=TRAIN["sex"].where(TRAIN.index % 3 != 0, word)))
    done = call("fit", "groups.csv", *FIT, "m.skops")
    assert done.code == 0, done.err
    listed = ", ".join(map(repr, sorted(["f", "m", word])))
    assert f"Protected: sex (categorical: {listed})" in done.out


@pytest.mark.parametrize("word", ["", "NA", "null", "nan"])
def test_missing_groups_are_refused(call, word):
    write("groups.csv", TRAIN.assign(sex=TRAIN["sex"].where(TRAIN.index % 3 != 0, word)))
    done = call("fit", "groups.csv", *FIT, "m.skops")
    assert done.code == 2
    assert "rows miss a value of 'sex' (40)" in done.err


@pytest.mark.regression("two readings: large integers beside gaps")
@pytest.mark.parametrize("column", ["sex", "repaid"])
def test_large_integers_beside_gaps_are_refused(call, column):
    """As floats, two of the three values are equal."""
    values = np.array(["5", str(2**53), str(2**53 + 1), ""])[[*np.arange(119) % 3, 3]]
    write("large.csv", TRAIN.assign(**{column: values}))
    done = call("fit", "large.csv", *FIT, "m.skops", "--drop-missing")
    assert done.code == 2
    assert f"{column!r} has whole numbers beyond 2^53 and missing values" in done.err


def audited(call, *arguments):
    options = (
        "--target",
        "repaid",
        "--protected",
        "sex",
        "--parts",
        "decisions",
        "--json",
        "a.json",
    )
    done = call("audit", *arguments, *options)
    if done.code:
        return done, None
    study = json.loads(Path("a.json").read_text())
    return done, [(one["metric"], one["value"]) for one in study["findings"]]


YES = {
    "int": lambda labels: (labels == "yes").astype(int),
    "float": lambda labels: (labels == "yes").astype(float),
    "bool": lambda labels: labels == "yes",
    "TRUE": lambda labels: np.where(labels == "yes", "TRUE", "FALSE"),
    "01": lambda labels: np.where(labels == "yes", "01", "00"),
}


@pytest.mark.parametrize("first", ["int", "float", "bool"])
def test_an_audit_knows_the_labels_0_and_1_in_every_form(call, first):
    model = fitted(TRAIN.assign(repaid=YES[first](TRAIN["repaid"])))
    save_model(model, "m.skops")
    found = []
    for change in YES.values():
        write("labels.csv", NEW.assign(repaid=change(NEW["repaid"])))
        done, values = audited(call, "labels.csv", "--model", "m.skops")
        assert done.code == 0, done.err
        found.append(values)
    assert all(values == found[0] for values in found)


NO_LABELS = {
    "upper case": NEW["repaid"].str.upper(),
    "blank at the end": NEW["repaid"] + " ",
    "numbers": (NEW["repaid"] == "yes").astype(int),
    "booleans": NEW["repaid"] == "yes",
    "other words": NEW["repaid"].map({"yes": "good", "no": "bad"}),
}


@pytest.mark.regression("two readings: labels of an audit that the model does not have")
@pytest.mark.parametrize("name", NO_LABELS)
def test_an_audit_with_labels_that_the_model_does_not_have_is_refused(call, model, name):
    """They would all count as wrong: an accuracy of 0."""
    save_model(model, "m.skops")
    write("labels.csv", NEW.assign(repaid=NO_LABELS[name]))
    done, _ = audited(call, "labels.csv", "--model", "m.skops")
    assert done.code == 2
    assert "no label in common" in done.err


@pytest.mark.regression("two readings: labels of an audit that the model does not have")
def test_an_audit_tells_of_some_labels_that_the_model_does_not_have(call, model):
    save_model(model, "m.skops")
    write(
        "labels.csv",
        NEW.assign(repaid=NEW["repaid"].where(NEW.index % 4 != 0, NEW["repaid"] + ".")),
    )
    done, _ = audited(call, "labels.csv", "--model", "m.skops")
    assert done.code == 0, done.err
    assert "labels that the model cannot predict: 'no.', 'yes.' (10 of 40 rows)" in done.err


@pytest.mark.regression("two readings: decisions that the target does not have")
@pytest.mark.parametrize(
    ("decisions", "label"),
    [
        (NEW["repaid"].where(NEW.index % 4 != 0, NEW["repaid"].str.upper()), "'NO', 'YES'"),
        (NEW["repaid"].replace("yes", "yes "), "'yes '"),
    ],
    ids=["case", "blank"],
)
def test_an_audit_tells_of_decisions_that_the_target_does_not_have(call, decisions, label):
    write("decided.csv", NEW.assign(decided=decisions))
    done, _ = audited(call, "decided.csv", "--decisions", "decided", "--no-features")
    assert done.code == 0, done.err
    assert f"decisions has labels that y does not have: {label}" in done.err


def test_a_class_that_is_never_decided_or_never_true_is_not_told_of(call):
    always = NEW.assign(decided="yes")
    write("decided.csv", always)
    done, _ = audited(call, "decided.csv", "--decisions", "decided", "--no-features")
    assert done.code == 0, done.err
    assert "Warning" not in done.err


# ------------------------------------------------------------------ roles and options


@pytest.mark.regression("two readings: one column for two roles")
@pytest.mark.parametrize(
    "roles",
    [
        {"sensitive_features": "repaid"},
        {"sensitive_features": "grade", "sample_weight": "grade"},
    ],
    ids=["target", "weight"],
)
def test_one_column_has_one_role_in_a_stream(roles):
    with pytest.raises(ValueError, match="cannot be both"):
        fitted("train.csv", **roles)


@pytest.mark.parametrize(
    "options",
    [
        ("--protected", "repaid"),
        ("--weight", "repaid"),
        ("--features", "sex,income"),
        ("--features", "income", "--drop", "income"),
        ("--kind", "absent=categorical"),
        ("--positive", "1"),
    ],
)
def test_options_that_contradict_the_table_are_refused(call, options):
    done = call("fit", "train.csv", *FIT, "m.skops", *options)
    assert (done.code, done.out) == (2, "")


@pytest.mark.regression("two readings: two kinds of one column")
def test_two_kinds_of_one_column_are_refused(call):
    kinds = ("--kind", "grade=categorical", "--kind", "grade=continuous")
    done = call("fit", "train.csv", *FIT, "m.skops", *kinds)
    assert done.code == 2
    assert (
        "--kind gives the column 'grade' two kinds, categorical and continuous; give one"
        in done.err
    )


@pytest.mark.regression("two readings: a name with a comma")
def test_a_name_with_a_comma_that_also_reads_as_two_names_is_refused(call):
    write("commas.csv", TRAIN.assign(**{"income,grade": 1.0}))
    done = call("fit", "commas.csv", *FIT, "m.skops", "--drop", "income,grade")
    assert done.code == 2
    assert "names one column, and also the columns 'income', 'grade'" in done.err


@pytest.mark.parametrize("name", ["a,b", "-x", "1", "a=categorical"])
def test_odd_names_mean_their_column(call, name):
    write("odd.csv", TRAIN.rename(columns={"grade": name}))
    done = call("fit", "odd.csv", *FIT, "m.skops", f"--drop={name}")
    assert done.code == 0, done.err
    assert f"Columns not used (1): {name}\n" in done.out


@pytest.mark.parametrize(
    ("form", "positive", "label"),
    [("int", "0", "0"), ("float", "0", "0.0"), ("bool", "false", "False"), ("bool", "0", "False")],
)
def test_a_favourable_class_is_named_in_every_form(call, form, positive, label):
    write("labels.csv", TRAIN.assign(repaid=YES[form](TRAIN["repaid"])))
    done = call("fit", "labels.csv", *FIT, "m.skops", "--positive", positive)
    assert done.code == 0, done.err
    assert f"Favourable class: {label} (as you asked)." in done.err


@pytest.mark.regression("two readings: the wrong name of a column that repeats S")
def test_a_feature_that_repeats_s_is_named_as_it_is_encoded():
    """The names of the table were used for the columns that the encoder makes of it."""
    rows = TRAIN.assign(city=TRAIN["sex"])[["city", "income", "grade", "sex", "repaid"]]
    write("same.csv", rows)
    said = seen(lambda: fitted("same.csv"))[1]
    assert "X holds the protected attribute 'sex' itself" in said
    assert "column 'city=f', 'city=m'" in said


# ------------------------------------------------------------------ folders, checkpoints, model files


@pytest.mark.parametrize("form", ["{}", "0{}"])
def test_folders_named_after_values_give_a_column(form):
    for value, rows in TRAIN.groupby("grade"):
        place = Path("hive") / f"grade={form.format(value)}"
        place.mkdir(parents=True)
        rows.drop(columns="grade").to_parquet(place / "rows.parquet", index=False)
    model = fitted("hive")
    assert set(model.feature_names_in_) == set(FEATURES)
    assert "grade" not in model.text_features_


def test_text_in_training_and_numbers_as_folders_are_refused():
    train = TRAIN.assign(code=np.where(TRAIN["repaid"] == "yes", "01", "02"))
    model = FairRidgeClassifier(**FIXED).fit_stream([train], **NAMED, features=["code", "income"])
    for value, rows in train.groupby("code"):
        (Path("hive") / f"code={value}").mkdir(parents=True)
        rows.drop(columns="code").to_parquet(f"hive/code={value}/rows.parquet", index=False)
    with pytest.raises(ValueError, match="column 'code'"):
        streamed(model, "hive")


def test_folders_and_files_with_the_same_column_are_refused():
    for value in (1, 2):
        Path(f"hive/grade={value}").mkdir(parents=True)
        TRAIN.to_parquet(f"hive/grade={value}/rows.parquet", index=False)
    with pytest.raises(OSError, match="grade has incompatible types"):
        fitted("hive")


def test_files_are_read_in_the_order_of_their_names_or_as_listed(model):
    names = [f"part-{i}.csv" for i in (1, 2, 10)]
    for name, rows in zip(names, (NEW[:10], NEW[10:20], NEW[20:]), strict=True):
        write(name, rows)
    listed = streamed(model, names, keep="income")["income"]
    assert listed.tolist() == NEW["income"].tolist()
    by_name = streamed(model, "part-*.csv", keep="income")["income"]
    assert by_name.tolist() == pd.concat([NEW[:10], NEW[20:], NEW[10:20]])["income"].tolist()


@pytest.mark.parametrize(
    "changed",
    [
        {"source": ["part2.csv", "part1.csv"]},
        {"sensitive_features": "city"},
        {"features": ["grade", "income"]},
        {"features": ["income", "grade"], "encoder": "table"},
        {"sample_weight": "grade"},
        {"swap": "repaid"},
        {"swap": "sex"},
        {"swap": "city"},
    ],
    ids=str,
)
def test_a_checkpoint_of_something_else_is_refused(changed):
    write("part1.csv", TRAIN[:60])
    write("part2.csv", TRAIN[60:])
    options = {"source": ["part1.csv", "part2.csv"], **NAMED, "checkpoint": "c.npz"}
    FairRidgeClassifier(**FIXED).fit_stream(**options)
    changed = dict(changed)
    if column := changed.pop("swap", None):
        a, b = TRAIN[column].unique()
        for i in (0, 1):
            rows = TRAIN[60 * i : 60 * i + 60]
            write(f"part{i + 1}.csv", rows.assign(**{column: rows[column].map({a: b, b: a})}))
    with pytest.raises(ValueError, match="cannot be used"):
        FairRidgeClassifier(**FIXED).fit_stream(**{**options, **changed})


@pytest.mark.parametrize("form", ["columns in another order", "TRUE", "integers as floats"])
def test_a_loaded_model_reads_files_as_the_saved_one(model, scores, form):
    save_model(model, "m.skops")
    write("form.csv", SAME[form])
    found = streamed(load_model("m.skops"), "form.csv")["score"]
    np.testing.assert_allclose(found, scores, atol=1e-10)


def test_a_file_goes_before_a_data_set_of_its_name(call):
    shutil.copy("train.csv", "loans")
    done = call("fit", "loans", *FIT, "m.skops")
    assert done.code == 2
    assert "loans is of no known kind" in done.err
