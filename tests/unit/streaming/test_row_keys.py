"""Keys of rows: of their content, except for copies."""

import numpy as np
import pytest

from fairspan.method.linalg import mix
from fairspan.method.problem import Attribute, Data
from fairspan.streaming.row_keys import content_keys, numbers_of

pd = pytest.importorskip("pandas")
pytest.importorskip("polars")

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "number": RNG.normal(size=60),
        "code": RNG.integers(0, 4, 60),
        "text": RNG.choice(["a", "b", "None"], 60),
        "gap": np.where(np.arange(60) % 7 == 0, np.nan, 1.5),
        "sure": np.arange(60) % 2 == 0,
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) % 50, "D"),
    }
)
TABLE.loc[::5, "text"] = None


def data(X, y=None, index=None):
    missing = np.zeros(len(X), dtype=bool)
    target = None if y is None else Attribute("y", y, missing, "f")
    S = {"s": Attribute("s", np.zeros(len(X)), missing, "f")}
    out = Data(X=X, y=target, classes=None, sensitive=S, control={}, weights=None)
    return out if index is None else out.take(index)


def keys(X, y=None, table=None):
    return content_keys(data(X, y), table, np.arange(len(X)))[1]


def test_keys_go_with_their_rows():
    X, y, order = RNG.normal(size=(50, 3)), RNG.normal(size=50), RNG.permutation(50)
    np.testing.assert_array_equal(keys(X, y)[order], keys(X[order], y[order]))
    assert len(np.unique(keys(X, y))) == 50


def test_any_column_makes_another_row():
    """A row that differs from another in y, in a text or in what is missing has another key."""
    X = np.ones((2, 1))
    assert len(np.unique(keys(X, np.array([0.0, 1.0])))) == 2
    for values in (["a", "b"], [None, ""], [None, "None"], [1.0, np.nan], [True, False]):
        numbers = numbers_of(pd.DataFrame({"x": np.ones(2), "other": values}))
        assert len({row.tobytes() for row in numbers}) == 2, values


def test_copies_have_the_keys_of_their_positions():
    X = np.array([[1.0], [2.0], [1.0], [3.0]])
    found, positions = keys(X), np.arange(4)
    order, _ = content_keys(data(X), None, positions)
    assert order[0] == order[2]  # so copies are side by side, wherever they were
    np.testing.assert_array_equal(found[[0, 2]], mix(positions, 5)[[0, 2]])
    np.testing.assert_array_equal(found[[1, 3]], keys(X[[1, 3]]))


def test_a_table_is_the_same_in_any_order_and_library():
    polars = pytest.importorskip("polars")
    numbers, order = numbers_of(TABLE), RNG.permutation(60)
    np.testing.assert_array_equal(numbers[order], numbers_of(TABLE.iloc[order]))
    np.testing.assert_array_equal(numbers, numbers_of(polars.from_pandas(TABLE)))
    zoned = TABLE.assign(day=TABLE["day"].astype("datetime64[ns]").dt.tz_localize("UTC"))
    np.testing.assert_array_equal(numbers, numbers_of(zoned))


def test_rows_without_weight_are_left_out():
    index = np.array([1, 4, 5])
    some = data(np.zeros((60, 1)), index=index)
    np.testing.assert_array_equal(
        content_keys(some, TABLE, index),
        content_keys(data(np.zeros((3, 1))), TABLE.iloc[index], index),
    )
