"""Types of CSV columns: the same rows give the same types, wherever in the files a value is."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

from fairspan import FairRidge  # noqa: E402
from fairspan.exceptions import DataWarning  # noqa: E402
from fairspan.streaming import open_source  # noqa: E402
from fairspan.streaming.csv_types import arrow_types, conversion_error, kept_types  # noqa: E402

LONG = 300_000  # lines, more than one block of Arrow's


def write(path, values, name="x"):
    lines = "\n".join(f"{value},{i % 7},{i % 2}" for i, value in enumerate(values))
    path.write_text(f"{name},y,s\n{lines}\n" if lines else f"{name},y,s\n", encoding="utf-8")
    return path


def values(source):
    return pd.concat([rows.X for part in source.parts for rows in part.read()])["x"]


def opened(files, **given):
    return open_source([str(f) for f in files], target="y", sensitive="s", **given)


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [(7, "1.5", "double"), ("", "8", "int64"), ("", "2.5", "double"), ("", "007", "string")],
)
def test_a_late_value_widens_its_column(tmp_path, first, last, kind):
    source = opened([write(tmp_path / "a.csv", [first] * LONG + [last])])
    assert str(source.types()["x"]) == kind
    assert str(values(source).iloc[-1]) == last


def test_a_late_letter_among_codes_makes_all_of_them_text_with_a_warning(tmp_path):
    with pytest.warns(DataWarning, match="'x' begins as int64 and has '12A' later.*column_types"):
        source = opened([write(tmp_path / "a.csv", ["012"] * LONG + ["12A"])])
    found = values(source)
    assert set(found) == {"012", "12A"}


@pytest.mark.parametrize(
    "files",
    [([1, 2], ["1.5", 2]), (["", ""], [1, "1.5"]), ([], [3, "2.5"])],
    ids=["decimal", "empty", "header"],
)
def test_files_agree_on_a_type_that_holds_all_values(tmp_path, files):
    paths = [write(tmp_path / f"{i}.csv", rows) for i, rows in enumerate(files)]
    for order in (paths, paths[::-1]):
        source = opened(order)
        assert source.types()["x"] == pa.float64()
        expected = sorted(float(v) for rows in files for v in rows if v != "")
        assert sorted(values(source).dropna()) == expected


def test_given_types_are_used_and_a_value_of_another_type_is_named(tmp_path):
    path = write(tmp_path / "a.csv", [1] * LONG + ["b"])
    source = opened([path], types={"x": "text"})
    assert set(values(source)) == {"1", "b"}
    source = opened([path], types={"x": "number"})
    with pytest.raises(
        OSError, match=r"a\.csv: rows from .*'x' is read as double, and 'b' is none"
    ):
        values(source)


@pytest.mark.parametrize(
    ("given", "says"),
    [({"x": "words"}, "give one of number"), ({"z": "text"}, "no column"), ("text", "give a dict")],
)
def test_types_that_do_not_exist_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        arrow_types(given, ["x"])


def test_types_are_for_csv_files(tmp_path):
    pd.DataFrame({"x": [1, 2], "y": [1, 2], "s": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column_types is for CSV files"):
        opened([tmp_path / "a.parquet"], types={"x": "text"})
    with pytest.raises(ValueError, match="column_types is for CSV files"):
        open_source([pd.DataFrame({"x": [1]})], types={"x": "text"})


def test_words_of_kept_types():
    types = {"a": pa.int8(), "b": pa.string(), "c": pa.timestamp("s"), "d": pa.null()}
    kept = kept_types(types, ["a", "b", "c", "d"])
    assert kept == (("a", "number"), ("b", "text"))
    assert conversion_error("another", ["a"]) is None


def table(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.integers(0, 9, n), "code": rng.choice(["1", "2", "A"], n)})
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame["day"], frame["s"] = days.strftime("%Y-%m-%d"), rng.integers(0, 2, n)
    return frame.assign(y=frame["a"] + 0.002 * (days - days.min()).days + rng.normal(size=n))


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_new_files_are_read_with_the_types_of_the_fit(tmp_path):
    table(300, 0).to_csv(tmp_path / "train.csv", index=False)
    model = FairRidge(n_components=20, random_state=0)
    model.fit_stream(str(tmp_path / "train.csv"), target="y", sensitive_features="s")
    new = table(40, 1)
    new["code"] = "1"  # alone, this would be numbers
    new.loc[1:, "a"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    new.iloc[:1].to_csv(tmp_path / "one.csv", index=False)
    whole, one = (
        pd.read_parquet(model.predict_stream(str(tmp_path / f"{n}.csv"), tmp_path / f"{n}.parquet"))
        for n in ("new", "one")
    )
    np.testing.assert_allclose(whole["prediction"].iloc[0], one["prediction"].iloc[0], rtol=1e-9)
    new.iloc[1:].to_csv(tmp_path / "empty.csv", index=False)  # `a` has no value
    rest = pd.read_parquet(
        model.predict_stream(str(tmp_path / "empty.csv"), tmp_path / "e.parquet")
    )
    np.testing.assert_allclose(rest["prediction"], whole["prediction"].iloc[1:], rtol=1e-9)
    assert dict(model._schema.column_types)["code"] == "text"
