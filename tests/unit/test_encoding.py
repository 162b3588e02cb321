"""The policy that `table_encoder` states, one test for each sentence of its Notes."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from fairspan import DataWarning
from fairspan.encoding import table_encoder

pd = pytest.importorskip("pandas")


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "income": [10.0, 20.0, np.nan, 60.0, 30.0, 20.0],
            "dependents": [0, 1, 2, 0, 3, 1],
            "married": [True, False, True, True, False, True],
            "home": ["own", "rent", "own", None, "rent", "own"],
            "region": pd.Categorical(["n", "s", "n", "s", "n", "e"]),
        }
    )


def encode(train, test=None, **options):
    """Encoded `test` (or `train`) as a pandas frame, with the encoder's feature names."""
    encoder = table_encoder(train, **options).set_output(transform="pandas").fit(train)
    return encoder.transform(train if test is None else test)


def test_the_encoder_comes_unfitted(table):
    encoder = table_encoder(table)
    assert not hasattr(encoder, "transformers_")
    # Only the kinds of columns matter: a few rows build the same encoder.
    few, many = table_encoder(table.head(1), min_frequency=1), table_encoder(table, min_frequency=1)
    np.testing.assert_array_equal(few.fit(table).transform(table), many.fit(table).transform(table))


def test_output_is_dense_float_and_complete(table):
    Z = table_encoder(table, min_frequency=1).fit_transform(table)
    assert type(Z) is np.ndarray
    assert Z.dtype == np.float64
    assert np.isfinite(Z).all()


def test_feature_names_are_readable(table):
    names = table_encoder(table, min_frequency=2).fit(table).get_feature_names_out().tolist()
    assert names == [
        *("income", "dependents", "married"),
        "income=missing",
        *("home=own", "home=rent", "home=(infrequent)"),
        *("region=n", "region=s", "region=(infrequent)"),
    ]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(table, container):
    library = pytest.importorskip(container)
    encoder = table_encoder(table, min_frequency=1).fit(table)
    plain = encoder.transform(table)
    framed = clone(encoder).set_output(transform=container).fit_transform(table)
    assert isinstance(framed, library.DataFrame)
    assert list(framed.columns) == encoder.get_feature_names_out().tolist()
    assert len({str(dtype) for dtype in framed.dtypes}) == 1  # indicators are floats like the rest
    np.testing.assert_array_equal(framed.to_numpy(), plain)


def test_missing_number_takes_the_median_and_an_indicator(table):
    Z = encode(table, min_frequency=1)
    assert Z["income=missing"].tolist() == [0, 0, 1, 0, 0, 0]
    assert Z["income"][2] == Z["income"][1]  # the median, 20, occurs in row 1


def test_numbers_are_standardised_after_imputation_and_indicators_are_not(table):
    Z = encode(table, min_frequency=1)
    for name in ("income", "dependents", "married"):
        assert Z[name].mean() == pytest.approx(0, abs=1e-15)
        assert Z[name].std(ddof=0) == pytest.approx(1)
    assert set(Z["income=missing"]) == {0.0, 1.0}


def test_scale_of_disagreement(table):
    # Standardised columns: mean squared distance of two random rows is 2. Categories: exactly 2.
    Z = encode(table, min_frequency=1)
    income = Z["income"].to_numpy()
    assert np.mean((income[:, None] - income) ** 2) == pytest.approx(2)
    home = Z.filter(like="home=").to_numpy()
    assert np.sum((home[0] - home[1]) ** 2) == 2


def test_boolean_and_integer_storage_encode_alike(table):
    as_integer = table.assign(married=table["married"].astype(int))
    as_nullable = table.assign(married=table["married"].astype("boolean"))
    expected = encode(table, min_frequency=1)
    assert encode(as_integer, min_frequency=1).equals(expected)
    assert encode(as_nullable, min_frequency=1).equals(expected)


def test_constant_and_never_observed_columns_are_zero():
    table = pd.DataFrame({"constant": [1e9 + 0.1] * 4, "never": [np.nan] * 4, "x": [1, 2, 3, 4]})
    Z = encode(table)
    assert (Z["constant"] == 0).all()
    assert (Z["never"] == 0).all()
    assert (Z["never=missing"] == 1).all()
    later = encode(table, pd.DataFrame({"constant": [1e9 + 0.1], "never": [5.0], "x": [9]}))
    assert np.isfinite(later.to_numpy()).all()


def test_missing_category_is_a_category(table):
    Z = encode(table, min_frequency=1)
    assert Z["home=missing"].tolist() == [0, 0, 0, 1, 0, 0]
    assert (Z.filter(like="home=").sum(axis="columns") == 1).all()


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT], ids=repr)
def test_every_kind_of_missing_category(nothing):
    table = pd.DataFrame({"home": pd.Series(["own", nothing, "rent"], dtype=object)})
    assert encode(table, min_frequency=1)["home=missing"].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, None, 3], dtype="Int64"),
        pd.array([1, None, 3], dtype="Float64"),
        pd.array([True, None, False], dtype="boolean"),
        np.array([1, np.nan, 3], dtype=np.float32),
    ],
    ids=lambda values: str(values.dtype),
)
def test_every_kind_of_missing_number(values):
    Z = encode(pd.DataFrame({"x": values}))
    assert Z["x=missing"].tolist() == [0, 1, 0]
    assert np.isfinite(Z["x"]).all()


def test_mixed_objects_are_categories_by_their_text():
    table = pd.DataFrame({"o": pd.Series(["a", 1, True, 2.5, None], dtype=object)})
    assert sorted(encode(table, min_frequency=1).columns) == [
        *("o=1", "o=2.5", "o=True", "o=a", "o=missing")
    ]


def test_rare_categories_are_merged():
    table = pd.DataFrame({"c": ["a"] * 20 + ["b"] * 10 + ["c"] * 9 + ["d"]})
    Z = encode(table)
    assert Z.columns.tolist() == ["c=a", "c=b", "c=(infrequent)"]
    assert Z["c=(infrequent)"].tolist() == [0] * 30 + [1] * 10
    assert encode(table, min_frequency=0.5).columns.tolist() == ["c=a", "c=(infrequent)"]
    assert encode(table, min_frequency=None).shape[1] == 4


def test_max_categories_bounds_the_width():
    table = pd.DataFrame({"id": [f"id{i % 100}" for i in range(2000)]})
    assert encode(table).shape[1] == 50
    assert encode(table, max_categories=5).shape[1] == 5
    assert encode(table, max_categories=None).shape[1] == 100


def test_unseen_category_joins_the_infrequent_one():
    table = pd.DataFrame({"c": ["a"] * 10 + ["b"] * 10 + ["rare"]})
    with pytest.warns(DataWarning, match="column 'c': 1 of 2 values were not in the training data"):
        Z = encode(table, pd.DataFrame({"c": ["unseen", None, "rare"]}))
    assert (Z["c=(infrequent)"] == 1).all()
    assert (Z.sum(axis="columns") == 1).all()


def test_unseen_category_without_an_infrequent_one_is_zero():
    table = pd.DataFrame({"c": ["a"] * 10 + ["b"] * 10})
    with pytest.warns(DataWarning, match="column 'c': 1 of 1 values were not in the training data"):
        Z = encode(table, pd.DataFrame({"c": ["unseen", None]}))
    assert Z.columns.tolist() == ["c=a", "c=b"]
    assert (Z == 0).all(axis=None)


def test_new_missing_number_takes_the_median_without_a_trace(table):
    row = table.head(1).assign(dependents=np.nan)
    Z = encode(table, row, min_frequency=1)
    assert "dependents=missing" not in Z.columns
    known = encode(table, table.head(1).assign(dependents=1), min_frequency=1)
    assert Z.equals(known)  # the training median of dependents is 1


def test_order_and_company_of_columns_do_not_matter(table):
    encoder = table_encoder(table, min_frequency=1).fit(table)
    other = table.assign(extra="?", when=pd.Timestamp(0))[
        ["when", "region", "home", "extra", "married", "income", "dependents"]
    ]
    np.testing.assert_array_equal(encoder.transform(other), encoder.transform(table))
    # In training too: only the columns of the frame that built the encoder are encoded.
    np.testing.assert_array_equal(clone(encoder).fit_transform(other), encoder.transform(table))


def test_absent_column_is_named(table):
    with pytest.raises(ValueError, match="income"):
        table_encoder(table).fit(table).transform(table.drop(columns="income"))


@pytest.mark.parametrize("value", [np.inf, "plenty"])
def test_bad_number_at_transform_names_the_column(table, value):
    bad = table.assign(income=[value] * len(table))
    with pytest.raises(ValueError, match="column 'income'"):
        table_encoder(table).fit(table).transform(bad)


def test_rows_are_encoded_one_by_one(table):
    encoder = table_encoder(table, min_frequency=1).fit(table)
    rows = [encoder.transform(table.iloc[[i]]) for i in range(len(table))]
    np.testing.assert_array_equal(np.vstack(rows), encoder.transform(table))


def test_pandas_and_polars_agree(table):
    pl = pytest.importorskip("polars")
    twin = pl.DataFrame(
        {
            "income": [10.0, 20.0, None, 60.0, 30.0, 20.0],
            "dependents": [0, 1, 2, 0, 3, 1],
            "married": [True, False, True, True, False, True],
            "home": ["own", "rent", "own", None, "rent", "own"],
            "region": pl.Series(["n", "s", "n", "s", "n", "e"], dtype=pl.Categorical),
        }
    )
    from_pandas = table_encoder(table, min_frequency=1).fit(table)
    from_polars = table_encoder(twin, min_frequency=1).fit(twin)
    expected = from_pandas.transform(table)
    np.testing.assert_array_equal(from_polars.transform(twin), expected)
    np.testing.assert_array_equal(from_pandas.transform(twin), expected)
    np.testing.assert_array_equal(from_polars.transform(table), expected)


@pytest.mark.parametrize("columns", [["income", "married"], ["home", "region"], ["dependents"]])
def test_tables_of_one_kind(table, columns):
    Z = encode(table[columns], min_frequency=1)
    assert all(name.partition("=")[0] in columns for name in Z.columns)


def test_pickle_and_clone(table):
    encoder = table_encoder(table, min_frequency=1).fit(table)
    again = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))
    fresh = clone(encoder)
    assert not hasattr(fresh, "transformers_")
    np.testing.assert_array_equal(fresh.fit_transform(table), encoder.transform(table))


def test_decimals_of_a_database_are_numbers():
    income = [1.5, None, 3.25]
    floats = pd.DataFrame({"income": income, "n": [1, 2, 3]})
    decimals = floats.assign(income=[None if v is None else Decimal(str(v)) for v in income])
    decimals["income"] = decimals["income"].astype(object).where(floats["income"].notna(), None)
    np.testing.assert_array_equal(
        table_encoder(decimals).fit_transform(decimals),
        table_encoder(floats).fit_transform(floats),
    )


@pytest.mark.parametrize(
    "values",
    [
        pd.to_timedelta([1, 2], unit="D"),
        pd.period_range("2020-01", periods=2, freq="M"),
        [datetime.time(1), None],
        [[1], [2]],
        [1j, 2j],
    ],
    ids=lambda values: getattr(getattr(values, "dtype", None), "name", None),
)
def test_other_kinds_are_refused_by_name(table, values):
    bad = pd.DataFrame({"income": [1.0, 2.0], "opened": values})
    with pytest.raises(TypeError, match="or drop them: 'opened'"):
        table_encoder(bad)


DAYS = np.array(["1970-01-02T06:00", "2020-01-01", "NaT", "1969-12-31"], dtype="M8[s]")
DATES = {
    "timestamps": lambda: pd.DataFrame({"opened": DAYS}),
    "UTC": lambda: pd.DataFrame({"opened": pd.Series(DAYS).dt.tz_localize("UTC")}),
    "another zone": lambda: pd.DataFrame(
        {"opened": pd.Series(DAYS).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}
    ),
    "objects": lambda: pd.DataFrame({"opened": np.array(DAYS.tolist(), dtype=object)}),
    "objects in a zone": lambda: pd.DataFrame(
        {"opened": pd.Series(DAYS).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo").astype(object)}
    ),
    "polars": lambda: pytest.importorskip("polars").DataFrame({"opened": DAYS.astype("M8[ms]")}),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_are_days_since_1970(name):
    table = DATES[name]()
    encoder = table_encoder(table).fit(table)
    to_numbers = encoder.named_transformers_["numbers"].steps[0][1]
    np.testing.assert_allclose(to_numbers.transform(table).ravel(), [1.25, 18262, np.nan, -1])
    assert encoder.get_feature_names_out().tolist() == ["opened", "opened=missing"]
    values = np.array([1.25, 18262, 1.25, -1])
    expected = (values - values.mean()) / values.std()
    np.testing.assert_allclose(encoder.transform(table)[:, 0], expected)


def test_dates_alone_have_no_time_of_day():
    pl = pytest.importorskip("polars")
    days = [datetime.date(1970, 1, 3), datetime.date(2000, 1, 1)]
    for table in (pl.DataFrame({"born": days}), pd.DataFrame({"born": days})):
        to_numbers = table_encoder(table).fit(table).named_transformers_["numbers"].steps[0][1]
        assert to_numbers.transform(table).ravel().tolist() == [2.0, 10957.0]


def test_dates_and_numbers_do_not_take_each_others_place():
    dated = pd.DataFrame({"x": [1.0, 2.0], "day": pd.to_datetime(["2020-01-01", "2020-02-01"])})
    encoder = table_encoder(dated).fit(dated)
    with pytest.raises(ValueError, match=r"'day' held dates .* none now \(Int64, such as 1\)"):
        encoder.transform(dated.assign(day=[1, 2]))
    with pytest.raises(ValueError, match="'day' held dates"):
        encoder.transform(dated.assign(day=["2020-01-01", "2020-02-01"]))
    with pytest.raises(ValueError, match="'x' held numbers in training"):
        encoder.transform(dated.assign(x=dated["day"]))
    gone = encoder.transform(dated.assign(day=pd.NaT))
    np.testing.assert_allclose(gone[:, 1], 0.0)  # the median of two is their mean


@pytest.mark.parametrize("bad", [np.eye(2), [[1, 2]], None], ids=["ndarray", "list", "None"])
def test_not_a_frame(bad):
    with pytest.raises(TypeError, match=f"DataFrame, got {type(bad).__name__}"):
        table_encoder(bad)


def test_bad_column_names(table):
    with pytest.raises(ValueError, match="no columns"):
        table_encoder(table[[]])
    with pytest.raises(ValueError, match=r"must be strings, got \[0\]"):
        table_encoder(table.rename(columns={"income": 0}))


numbers = hnp.arrays(
    np.float64,
    st.integers(2, 30),
    elements=st.one_of(st.just(np.nan), st.floats(-1e6, 1e6, width=32)),
)


@given(x=numbers, data=st.data())
def test_any_table_encodes_to_finite_features(x, data):
    labels = st.one_of(st.none(), st.text(max_size=3), st.booleans(), st.integers(-3, 3))
    c = data.draw(st.lists(labels, min_size=len(x), max_size=len(x)))
    table = pd.DataFrame({"x": x, "c": pd.Series(c, dtype=object)})
    encoder = table_encoder(table, min_frequency=2)
    Z = encoder.fit_transform(table)
    assert np.isfinite(Z).all()
    assert Z.shape == (len(x), len(encoder.get_feature_names_out()))
    order = data.draw(st.permutations(range(len(x))))
    np.testing.assert_array_equal(encoder.transform(table.iloc[order]), Z[order])


def test_complex_numbers_are_no_numbers():
    """A cast would drop their imaginary part without a word."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    encoder = table_encoder(table).fit(table)
    with pytest.raises(ValueError, match="'a' held numbers in training, and holds none now"):
        encoder.transform(table * (1.0 + 2.0j))
