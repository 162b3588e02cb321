"""Spark without Spark: sums of partitions, names of columns, what an installation lacks."""

import pickle
import sys
from types import SimpleNamespace

import pytest

from fairspan.streaming import spark
from fairspan.streaming.sources import GivenRoles, Roles


def records(results):
    pyarrow = pytest.importorskip("pyarrow")
    batches = [spark._record(key, result) for key, result in results]
    return pyarrow.Table.from_batches(batches).to_batches(max_chunksize=2)


def summed(results, n_children):
    """(key, result) of every sum, in order."""
    found = [batch.to_pylist()[0] for batch in spark._SumOfChildren(n_children)(records(results))]
    return [(row["key"], pickle.loads(row["body"])) for row in found]


def test_children_are_added_in_the_order_of_partitions():
    """They arrive in any order, and sums of floats depend on it: here texts."""
    found = summed([(5, "f"), (1, "b"), (8, "i"), (0, "a"), (4, "e"), (3, "d")], 4)
    assert found == [(0, "abd"), (1, "ef"), (2, "i")]


def test_a_repeated_partition_counts_once():
    assert summed([(1, "b"), (0, "a"), (1, "b")], 2) == [(0, "ab")]


def test_the_first_error_is_the_result():
    ((key, error),) = summed([(2, "c"), (1, ValueError("second")), (0, "a")], 8)
    assert key == 0
    assert isinstance(error, ValueError)
    assert str(error) == "second"
    ((_, error),) = summed([(3, ValueError("later")), (1, TypeError("earlier"))], 8)
    assert str(error) == "earlier"


def frame(**kinds):
    fields = [
        SimpleNamespace(name=name, dataType=SimpleNamespace(typeName=lambda kind=kind: kind))
        for name, kind in kinds.items()
    ]
    return SimpleNamespace(
        schema=SimpleNamespace(fields=fields), selectExpr=lambda *columns: list(columns)
    )


def roles(*columns, **given):
    return Roles.of(list(columns), GivenRoles(**given))


def test_decimals_are_numbers_unless_they_are_only_copied():
    given = roles("a`b", "c", "d", control=["c", "d"], features=["a`b", "d"])
    chosen = spark._chosen(frame(**{"a`b": "decimal", "c": "decimal", "d": "double"}), given)
    assert chosen == ["CAST(`a``b` AS DOUBLE) AS `a``b`", "`d`", "`c`"]


def test_columns_without_single_values_are_refused():
    with pytest.raises(TypeError, match="'v' is of type array"):
        spark._chosen(frame(v="array", y="double"), roles("v", "y", target="y"))
    kept = roles("v", "y", features=["y"], control=["v"])
    assert spark._chosen(frame(v="array", y="double"), kept) == ["`y`", "`v`"]


def test_what_is_no_spark_data_frame():
    pandas = pytest.importorskip("pandas")
    assert not spark.is_spark(pandas.DataFrame({"a": [1]}))
    assert not spark.is_spark(object())


def test_a_pandas_on_spark_frame_is_refused(monkeypatch):
    monkeypatch.setattr(spark, "_require_spark", lambda: None)
    kind = type("DataFrame", (), {"__module__": "pyspark.pandas.frame"})
    assert spark.is_spark(kind())
    with pytest.raises(TypeError, match=r"to_spark\(\)"):
        spark.SparkSource(kind(), GivenRoles())


def test_a_missing_pyspark_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r'pip install "fairspan\[spark\]".*Java 17'):
        spark._require_spark()


class PySparkError(Exception):
    """As far as its module goes."""


PySparkError.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (PySparkError("No module named 'fairspan'"), ImportError, "executors of Spark cannot import"),
        (PySparkError("Cannot call methods on a stopped SparkContext."), RuntimeError, "has ended.*Java"),
        (ConnectionRefusedError(111, "refused"), RuntimeError, "has ended.*Java 17"),
        (PySparkError("a column is missing"), PySparkError, "a column is missing"),
        (ValueError("ours"), ValueError, "ours"),
    ],
)  # fmt: skip
def test_errors_of_spark(raised, expected, words):
    with pytest.raises(expected, match=words), spark._spark_errors():
        raise raised


@pytest.mark.parametrize("argument", ["client", "device", "checkpoint"])
def test_arguments_that_spark_does_not_take(argument):
    given = {"client": None, "device": None, "checkpoint": None, argument: "x"}
    with pytest.raises(ValueError, match=f"^{argument} is"):
        spark.SparkEngine().check(None, **given)
