"""A value means the same in every file: "01" stays text, and unseen values are never silent."""

import copy
import json
import warnings

import numpy as np
import pytest

from fairspan import DataWarning, FairRidgeClassifier, audit, table_encoder
from tests.support.stream_data import FIXED, small_blocks

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

DEFECT = "a decision depends on the other rows of the file"
NAMED = {"target": "repaid", "sensitive_features": "sex"}
SCHEMES = np.array(["01", "02", "1A"])


def people(n=400, seed=0):
    """The code decides nearly alone; a file without 1A looks like one of whole numbers."""
    rng = np.random.default_rng(seed)
    code = rng.choice(SCHEMES, n, p=[0.45, 0.45, 0.1])
    income = rng.normal(size=n).round(3)
    latent = 2.0 * (code == "01") + 0.3 * income + 0.2 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "code": code,
            "income": income,
            "sex": rng.choice(["f", "m"], n),
            "repaid": np.where(latent > 1.0, "yes", "no"),
        }
    )


TRAIN, NEW = people(), people(200, seed=1)
DIGITS = NEW[NEW["code"] != "1A"].reset_index(drop=True)


@pytest.fixture(scope="module")
def model():
    return FairRidgeClassifier(**FIXED).fit_stream(TRAIN, **NAMED)


@pytest.fixture(scope="module")
def decided(model):
    """The right decisions for the people of DIGITS, and that the code matters."""
    found = model.predict(DIGITS)
    assert np.mean(found == DIGITS["repaid"]) > 0.9
    assert 30 < (found == "yes").sum() < len(found) - 30
    return found


def as_csv(folder, frame, name):
    frame.to_csv(folder / name, index=False)
    return folder / name


# --------------------------------------------------------------------------- files: command line


@pytest.fixture
def cli(call, tmp_path, monkeypatch):
    """The command line in a folder with a model that was fitted there."""
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    as_csv(tmp_path, TRAIN, "train.csv")
    as_csv(tmp_path, NEW, "all.csv")
    as_csv(tmp_path, DIGITS, "digits.csv")
    options = ("--target", "repaid", "--protected", "sex", "--model", "ridge-classifier")

    def run(*arguments):
        done = call(*arguments)
        assert done.code == 0, done.err
        return done

    run("fit", "train.csv", *options, "--out", "m.skops")
    return run


def predictions(cli, name):
    cli("predict", name, "--model", "m.skops", "--out", "p.csv")
    return pd.read_csv("p.csv")["prediction"].to_numpy()


@pytest.mark.regression(DEFECT)
def test_predict_decides_alike_with_and_without_the_other_rows(cli):
    alone, among = predictions(cli, "digits.csv"), predictions(cli, "all.csv")
    np.testing.assert_array_equal(alone, among[(NEW["code"] != "1A").to_numpy()])


def test_a_file_to_predict_that_is_not_there_is_named(cli, call):
    done = call("predict", "nothing.csv", "--model", "m.skops")
    assert (done.code, done.out) == (2, "")
    assert "nothing.csv does not exist" in done.err


@pytest.mark.regression(DEFECT)
def test_an_audit_of_a_csv_file_is_that_of_the_parquet_file(cli, tmp_path):
    DIGITS.to_parquet("digits.parquet")
    found = []
    for name in ("digits.csv", "digits.parquet"):
        cli(
            "audit", name, "--model", "m.skops", "--protected", "sex", "--target", "repaid",
            "--parts", "decisions", "--json", "a.json",
        )  # fmt: skip
        study = json.loads((tmp_path / "a.json").read_text())
        found.append([(one["metric"], one["value"]) for one in study["findings"]])
    assert found[0] == found[1]


@pytest.mark.regression(DEFECT)
def test_labels_that_look_like_numbers_are_audited_as_text(call, tmp_path, monkeypatch):
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    labels = np.where(TRAIN["repaid"] == "yes", "01", "02").astype(object)
    labels[TRAIN["code"] == "1A"] = "1A"
    TRAIN.assign(repaid=labels).to_csv("train.csv", index=False)
    fit = ("fit", "train.csv", "--target", "repaid", "--protected", "sex", "--out", "m.skops")
    assert call(*fit, "--model", "ridge-classifier").code == 0
    new = DIGITS.assign(repaid=np.where(DIGITS["repaid"] == "yes", "01", "02"))
    new.to_csv("new.csv", index=False)
    done = call(
        "audit", "new.csv", "--model", "m.skops", "--protected", "sex", "--target", "repaid",
        "--parts", "decisions",
    )  # fmt: skip
    assert done.code == 0, done.err


@pytest.mark.regression(DEFECT)
def test_a_column_that_is_declared_categorical_is_text_in_every_file(call, tmp_path, monkeypatch):
    """Digits alone in training, and another code in one row of the new file."""
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    as_csv(tmp_path, TRAIN[TRAIN["code"] != "1A"], "train.csv")
    fit = ("fit", "train.csv", "--target", "repaid", "--protected", "sex", "--out", "m.skops")
    done = call(*fit, "--model", "ridge-classifier", "--kind", "code=categorical")
    assert done.code == 0, done.err
    found = []
    for frame in (DIGITS, pd.concat([DIGITS, NEW[NEW["code"] == "1A"][:1]])):
        as_csv(tmp_path, frame, "new.csv")
        done = call("predict", "new.csv", "--model", "m.skops", "--out", "p.csv")
        assert done.code == 0, done.err
        found.append(pd.read_csv("p.csv")["prediction"][: len(DIGITS)].tolist())
    assert found[0] == found[1]
    assert np.mean(np.array(found[0]) == DIGITS["repaid"]) > 0.9


def test_the_report_reads_a_declared_category_as_the_command_did(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_csv(tmp_path, TRAIN[TRAIN["code"] != "1A"], "train.csv")
    done = call(
        "explore", "train.csv", "--target", "repaid", "--protected", "sex", "--points", "2",
        "--model", "ridge-classifier", "--parts", "scores", "--kind", "code=categorical",
        "--json", "-",
    )  # fmt: skip
    assert done.code == 0, done.err
    snippet = json.loads(done.out)["positions"][0]["snippet"]
    names = {}
    exec(snippet.split("table = complete_rows")[0], names)
    assert names["table"]["code"].cat.categories.tolist() == ["01", "02"]


@pytest.mark.regression(DEFECT)
@pytest.mark.filterwarnings("ignore::pandas.errors.DtypeWarning")
def test_a_long_csv_file_is_not_read_in_pieces_of_several_types(tmp_path):
    from fairspan.tables import read_table

    code = np.resize(["01", "02"], 300_000).astype(object)
    code[-1] = "1A"
    path = as_csv(tmp_path, pd.DataFrame({"code": code, "n": np.arange(len(code))}), "long.csv")
    assert set(read_table(path)["code"]) == {"01", "02", "1A"}


# --------------------------------------------------------------------------- files: streams


@pytest.mark.regression(DEFECT)
@pytest.mark.parametrize("kind", ["file", "dataset", "compressed"])
def test_predict_stream_reads_text_as_text(kind, model, decided, tmp_path):
    import pyarrow.dataset
    import pyarrow.parquet

    source = as_csv(tmp_path, DIGITS, "new.csv.gz" if kind == "compressed" else "new.csv")
    if kind == "dataset":
        source = pyarrow.dataset.dataset([str(source)], format="csv")
    path = model.predict_stream(source, tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(path)["prediction"].to_pylist() == decided.tolist()


@pytest.mark.parametrize(
    "first", [pytest.param("digits", marks=pytest.mark.regression(DEFECT)), "letters"]
)
def test_several_csv_files_have_the_types_of_all(first, tmp_path):
    order = TRAIN["code"].eq("1A").sort_values(ascending=first == "digits", kind="stable").index
    rows = TRAIN.loc[order].reset_index(drop=True)
    cut = (
        int(rows["code"].ne("1A").sum()) if first == "digits" else int(rows["code"].eq("1A").sum())
    )
    as_csv(tmp_path, rows[:cut], "part0.csv")
    as_csv(tmp_path, rows[cut:], "part1.csv")
    with pytest.warns(DataWarning, match="CSV files differ in the column 'code'"):
        fitted = FairRidgeClassifier(**FIXED).fit_stream(str(tmp_path / "part*.csv"), **NAMED)
    whole = FairRidgeClassifier(**FIXED).fit_stream(rows, **NAMED)
    np.testing.assert_array_equal(fitted.decision_function(DIGITS), whole.decision_function(DIGITS))
    assert fitted.text_features_ == ["code"]


def test_whole_numbers_here_and_decimals_there_are_numbers(tmp_path):
    rows = TRAIN.drop(columns="code").assign(n=np.arange(400), empty=np.nan)
    as_csv(tmp_path, rows[:200], "part0.csv")
    rest = rows[200:].assign(n=rows["n"][200:] + 0.5, empty=1.5)
    as_csv(tmp_path, rest, "part1.csv")
    fitted = FairRidgeClassifier(**FIXED, removal="training_rows").fit_stream(
        str(tmp_path / "*.csv"), **NAMED, encoder="table"
    )
    assert fitted.text_features_ == []
    assert fitted.encoder_.get_feature_names_out().tolist()[:3] == ["income", "n", "empty"]


def test_a_type_that_changes_inside_a_csv_file_is_named(tmp_path):
    """Arrow infers types from the first megabyte."""
    many = pd.concat([DIGITS] * 500)
    path = as_csv(tmp_path, pd.concat([many, NEW]), "rows.csv")
    assert path.stat().st_size > 2**20
    with pytest.warns(DataWarning, match=r"rows\.csv: .*'1A' later.*read as text in all files"):
        model = FairRidgeClassifier(**FIXED).fit_stream(path, **NAMED)
    assert "code" in model.text_features_
    numbers = {"column_types": {"code": "number"}}
    with pytest.raises(OSError, match=r"rows\.csv: .*'code' is read as double, and '1A' is none"):
        FairRidgeClassifier(**FIXED).fit_stream(path, **NAMED, **numbers)


@pytest.mark.regression(DEFECT)
def test_the_missing_words_of_csv_files_are_those_of_the_command_line(tmp_path):
    from fairspan.streaming import open_source
    from fairspan.tables import read_table

    words = ["", "NA", "NaN", "nan", "NULL", "null", "None", "n/a", "N/A", "#N/A", "-nan", "x"]
    path = as_csv(tmp_path, pd.DataFrame({"word": words, "n": range(len(words))}), "words.csv")
    (rows,) = open_source(path, features=["word"]).parts[0].read()
    expected = read_table(path)["word"]
    assert rows.X["word"].isna().tolist() == expected.isna().tolist()
    assert rows.X["word"].dropna().tolist() == expected.dropna().tolist()


@pytest.mark.regression(DEFECT)
@pytest.mark.parametrize("where", ["in one block", "in the sample", "after the sample"])
def test_blocks_with_numbers_where_others_have_text_are_refused(where):
    """As pandas reads a file in pieces."""
    numbers = pd.concat([DIGITS] * 4).assign(code=lambda rows: rows["code"].astype(int))
    pieces = {
        "in one block": [TRAIN, numbers[:100]],
        "in the sample": [TRAIN[:256], *(numbers[i : i + 256] for i in (0, 256))],
        "after the sample": iter([pd.concat([TRAIN] * 3)[:1024], numbers[:256]]),
    }[where]
    rest = "holds numbers" if where == "after the sample" else "numbers in one block and text"
    with (
        small_blocks(block=256, sample=1000 if where == "in the sample" else 400),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", DataWarning)  # the source can be read only once
        with pytest.raises(ValueError, match=f"olumn 'code' {rest}|{rest}"):
            FairRidgeClassifier(**FIXED).fit_stream(pieces, **NAMED)


def test_blocks_of_arrays_with_numbers_and_text_are_refused():
    X, s = NEW[["income"]].to_numpy(), (NEW["sex"] == "m").to_numpy()
    y = (NEW["repaid"] == "yes").to_numpy().astype(int)
    for other in (y.astype(str), np.where(y == 1, "01", "02")):
        with pytest.raises(ValueError, match="numbers in some blocks and text in others"):
            FairRidgeClassifier(**FIXED).fit_stream([(X, y, s), (X, other, s)])


# --------------------------------------------------------------------------- unseen values

ENCODED = pd.DataFrame({"code": [*["01"] * 20, *["02"] * 20, *["1A"] * 20], "n": np.arange(60.0)})


@pytest.fixture(scope="module")
def encoder():
    return table_encoder(ENCODED).fit(ENCODED)


def with_codes(codes, **options):
    return pd.DataFrame({"code": pd.Series(codes, **options), "n": 1.0})


@pytest.mark.regression(DEFECT)
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_numbers_where_training_had_text_are_refused(encoder, n, library):
    new = with_codes(np.resize([1, 2], n))
    if library == "polars":
        new = pytest.importorskip("polars").from_pandas(new)
    says = r"column 'code' holds numbers or booleans \(Int64\), and held text in training, such as '01', '02'"
    with pytest.raises(ValueError, match=says):
        encoder.transform(new)


@pytest.mark.regression(DEFECT)
def test_a_column_of_unseen_values_is_refused(encoder):
    says = r"none of its 12 values was in the training data. It holds '1', '2'; known are '01', '02', '1A'"
    with pytest.raises(ValueError, match=says):
        encoder.transform(with_codes(["1", "2"] * 6))


@pytest.mark.regression(DEFECT)
@pytest.mark.parametrize(
    ("codes", "counted"),
    [
        (["01"] * 9 + ["03", "3B", None], "2 of 11 values"),
        (["03"], "1 of 1"),
        (["03"] * 30, "30 of 30"),
        (["03", "04"] * 4, "8 of 8"),
    ],
    ids=["some", "one row", "one new value", "few rows"],
)
def test_unseen_values_are_counted_in_one_warning(encoder, codes, counted):
    with pytest.warns(DataWarning, match=f"column 'code': {counted}.* e.g. '03'") as caught:
        out = encoder.transform(with_codes(codes))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    "codes", [["01", "1A"], [None, None], ["02", None]], ids=["known", "missing", "both"]
)
def test_known_and_missing_values_are_silent(encoder, codes):
    encoder.transform(with_codes(codes, dtype=object))


def test_unseen_values_of_a_column_without_frequent_ones_are_silent():
    """An identifier: every value is rare in training, so a new one is encoded alike."""
    train = pd.DataFrame({"id": [f"u{i}" for i in range(50)], "n": np.arange(50.0)})
    encoder = table_encoder(train).fit(train)
    new = pd.DataFrame({"id": [f"v{i}" for i in range(50)], "n": np.arange(50.0)})
    np.testing.assert_array_equal(encoder.transform(new), encoder.transform(train))


def test_a_whole_number_is_one_category_however_it_is_written(encoder):
    """pandas writes 1 as 1.0 where its column has a gap."""
    train = ENCODED.assign(code=np.resize(["1", "2", "01", "2.5"], 60))
    encoder = table_encoder(train, min_frequency=1).fit(train)
    expected = encoder.transform(with_codes(["1", "2", "01", "2.5"]))
    assert encoder.get_feature_names_out().tolist()[1:] == [
        "code=01",
        "code=1",
        "code=2",
        "code=2.5",
    ]
    found = encoder.transform(with_codes(["1.0", 2.0, "01", 2.5], dtype=object))
    np.testing.assert_array_equal(found, expected)
    with pytest.warns(DataWarning, match=r"3 of 3 values .* e.g. '01.0', '2.50', 'v1.0'"):
        encoder.transform(with_codes(["01.0", "2.50", "v1.0"]))


def test_numbers_that_are_known_as_categories_are_no_mismatch():
    train = ENCODED.assign(code=pd.Categorical(np.resize([1, 2, 3], 60)))
    encoder = table_encoder(train).fit(train)
    known = encoder.transform(with_codes([1, 2, 3]))
    np.testing.assert_array_equal(encoder.transform(with_codes([1.0, 2.0, 3.0])), known)
    np.testing.assert_array_equal(encoder.transform(with_codes(["1", "2", "3"])), known)
    with pytest.warns(DataWarning, match="1 of 1 values"):
        encoder.transform(with_codes([7]))


def test_values_of_a_column_that_was_empty_in_training_are_counted():
    train = ENCODED.assign(code=pd.Series([None] * 60, dtype=object))
    encoder = table_encoder(train).fit(train)
    with pytest.warns(DataWarning, match="column 'code': 12 of 12 values"):
        encoder.transform(with_codes(["a", "b"] * 6))


def test_numbers_as_text_are_the_same_numbers(encoder):
    new = with_codes(["01", "02"]).assign(n=["1.5", "2"])
    same = with_codes(["01", "02"]).assign(n=[1.5, 2.0])
    np.testing.assert_array_equal(encoder.transform(new), encoder.transform(same))
    with pytest.raises(ValueError, match="column 'n' held numbers in training"):
        encoder.transform(new.assign(n=["1.5", "two"]))


def test_a_frame_keeps_its_index_and_names(encoder):
    framed = table_encoder(ENCODED).set_output(transform="pandas").fit(ENCODED)
    out = framed.transform(with_codes(["01", "1A"]).set_axis([7, 9]))
    assert out.index.tolist() == [7, 9]
    assert out.columns.tolist() == ["n", "code=01", "code=02", "code=1A"]


def test_many_columns_are_named_in_one_warning():
    train = pd.DataFrame({f"c{j}": ["a"] * 20 for j in range(8)})
    encoder = table_encoder(train).fit(train)
    with pytest.warns(DataWarning, match=r"column 'c4': 1 of 2 .*; and 3 more\.") as caught:
        encoder.transform(pd.DataFrame({name: ["a", "b"] for name in train}))
    assert len(caught) == 1


# --------------------------------------------------------------------------- unseen values, by path


def unseen(n, every):
    """Codes of which every so many-th is new."""
    return np.where(np.arange(n) % every == 0, "new", DIGITS["code"].iloc[0])


def test_an_audit_warns_once(model):
    new = NEW.assign(code=unseen(200, 50))
    with pytest.warns(DataWarning, match="column 'code': 4 of 200 values") as caught:
        audit(model, new, new["repaid"], sensitive_features="sex", parts=["decisions"])
    assert len([one for one in caught if "not in the training" in str(one.message)]) == 1


@pytest.mark.regression(DEFECT)
def test_predict_stream_counts_over_all_rows(model, tmp_path):
    pieces = [NEW.assign(code="new"), NEW.assign(code="newer"), NEW]
    with pytest.warns(DataWarning, match="column 'code': 400 of 600 values") as caught:
        path = model.predict_stream(pieces, tmp_path / "out.parquet")
    assert len(caught) == 1
    assert path.exists()
    with pytest.raises(ValueError, match="'code': none of its 400 values"):
        model.predict_stream(pieces[:2], tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


def test_rare_values_beyond_the_sample_do_not_warn_in_training():
    rows = pd.concat([TRAIN] * 4, ignore_index=True)
    rows.loc[rows.index % 301 == 0, "code"] = "rare"
    with small_blocks(sample=100):
        fitted = FairRidgeClassifier(**FIXED).fit_stream(rows, **NAMED)
    assert "rare" not in fitted.encoder_.named_transformers_["categories"].categories_[0]


def test_rows_that_are_added_later_are_counted(model):
    """They are training rows, but the encoder stays as it was fitted."""
    later = copy.deepcopy(model)
    added = {"y": NEW["repaid"], "sensitive_features": NEW[["sex"]]}
    with pytest.warns(DataWarning, match="column 'code': 4 of 200 values"):
        later.partial_fit(NEW[["code", "income"]].assign(code=unseen(200, 50)), **added)
    with pytest.raises(ValueError, match="none of its 200 values"):
        later.partial_fit(NEW[["code", "income"]].assign(code=np.resize(["1", "2"], 200)), **added)


def test_a_saved_model_knows_its_text_columns(model, decided, tmp_path):
    pytest.importorskip("skops")
    from fairspan import load_model, save_model

    loaded = load_model(save_model(model, tmp_path / "m.skops"))
    assert loaded.text_features_ == ["code"]
    np.testing.assert_array_equal(loaded.predict(DIGITS), decided)
    with pytest.raises(ValueError, match="column 'code' holds numbers"):
        loaded.predict(DIGITS.assign(code=DIGITS["code"].astype(int)))
