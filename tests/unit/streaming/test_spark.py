"""Spark without Spark: passes over partitions in this process, and what an installation lacks."""

import pickle
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from fairspan import DataWarning, FairRidge, RowError
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
    assert chosen == ["CAST(`a``b` AS DOUBLE) AS c0", "`d` AS c1", "`c` AS c2"]


def test_columns_without_single_values_are_refused():
    with pytest.raises(TypeError, match="'v' is of type array"):
        spark._chosen(frame(v="array", y="double"), roles("v", "y", target="y"))
    kept = roles("v", "y", features=["y"], control=["v"])
    assert spark._chosen(frame(v="array", y="double"), kept) == ["`y` AS c0", "`v` AS c1"]


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
        (PySparkError("[SESSION_OR_CONTEXT_NOT_EXISTS] create one"), RuntimeError, "has ended.*Java"),
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


# --------------------------------------------------------------------------- a frame in this process


class Frame:
    """What is used of a Spark data frame; partitions are lists of record batches."""

    numbers: ClassVar = []  # partition that a task computes
    sparkSession = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))  # noqa: N815
    __module__ = "pyspark.sql.dataframe"

    def __init__(self, partitions, kinds=None):
        self.partitions, self._kinds = partitions, kinds or {}

    @property
    def columns(self):
        return list(self._kinds)

    @property
    def schema(self):
        return frame(**self._kinds).schema

    def selectExpr(self, *columns):  # noqa: N802
        import pyarrow.compute as pc

        if columns[-1].endswith("AS parent"):
            n = int(columns[-1].split()[2])
            return Frame(
                [
                    [b.append_column("parent", pc.divide(b["key"], n)) for b in part]
                    for part in self.partitions
                ]
            )
        old, new = zip(*(column.split(" AS ") for column in columns), strict=True)
        names = [name.strip("`") for name in old]
        return Frame(
            [[b.select(names).rename_columns(new) for b in part] for part in self.partitions]
        )

    def limit(self, n):
        return Frame([[batch.slice(0, n) for batch in part] for part in self.partitions[:1]])

    def coalesce(self, n):
        return self if n >= len(self.partitions) else pytest.fail("more partitions than expected")

    def repartition(self, n, by):
        out = [[] for _ in range(n)]
        for batch in [batch for part in reversed(self.partitions) for batch in part]:
            for i, parent in enumerate(batch[by].to_pylist()):
                out[parent % n].append(batch.slice(i, 1).select(["key", "body"]))
        return Frame(out)

    def mapInArrow(self, function, schema):  # noqa: N802
        out = []
        for number, part in enumerate(self.partitions):
            self.numbers[:] = [number]
            out.append(list(function(iter(part))))
        return Frame(out, schema if isinstance(schema, dict) else None)

    def collect(self):
        return [row for part in self.partitions for batch in part for row in batch.to_pylist()]

    def toLocalIterator(self, _prefetch):  # noqa: N802
        return iter([[row["body"]] for row in self.collect()])


Frame.__name__ = "DataFrame"


@pytest.fixture
def people(monkeypatch):
    """600 rows with a column of text, and a way to put them into partitions."""
    pd, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace())
    monkeypatch.setattr(spark, "_partition_number", lambda: Frame.numbers[0])
    rng = np.random.default_rng(0)
    s, x = rng.integers(0, 2, 600), rng.normal(size=(600, 2))
    table = pd.DataFrame({"a": x[:, 0] + s, "b": x[:, 1], "home": rng.choice(["own", "rent"], 600)})
    table = table.assign(s=np.where(s, "m", "f"), y=table["a"] + rng.normal(size=600))

    def frame_of(rows, cuts):
        parts = [rows.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        batches = [pyarrow.RecordBatch.from_pandas(part, preserve_index=False) for part in parts]
        return Frame([[batch] for batch in batches], dict.fromkeys(rows.columns, "double"))

    return table, frame_of


def fitted(source, **given):
    est = FairRidge(n_components=20, gamma=0.3, random_state=0)
    return est.fit_stream(source, target="y", sensitive_features="s", **given)


@pytest.mark.parametrize("children", [2, 32])
def test_partitions_add_up_to_all_rows(people, children, monkeypatch):
    monkeypatch.setattr(spark, "_MOST_CHILDREN", children)
    table, frame_of = people
    here = fitted(table, folds="hash")
    X = table[["a", "b", "home"]]
    shuffled = table.sample(frac=1.0, random_state=1)
    for rows, cuts in ((table, [100, 100, 420]), (shuffled, [1, 300])):
        there = fitted(frame_of(rows, cuts))
        np.testing.assert_allclose(there.predict(X), here.predict(X), rtol=0.0, atol=1e-9)
        assert str(there.certificate_) == str(here.certificate_)
        assert there.n_samples_seen_ == there.moments_.n_rows == 600


def test_a_bad_row_and_no_rows(people):
    table, frame_of = people
    bad = table.assign(b=table["b"].where(np.arange(600) != 421), home=1.0)
    with pytest.raises(RowError, match=r"partition 2, row 21: .*'b'"):
        fitted(frame_of(bad, [100, 400]))
    with pytest.raises(ValueError, match="no rows"):
        fitted(frame_of(table.iloc[:0], []))


def test_rows_that_are_lost_between_the_passes(people, monkeypatch):
    table, frame_of = people
    source, read = frame_of(table, [300]), spark.moments_of
    monkeypatch.setattr(
        spark, "moments_of", lambda *args: read(*args) if args[-1] == 0 else lose(*args)
    )

    def lose(*args):
        args[-3].batches = [batch.slice(1) for batch in args[-3].batches]
        return read(*args)

    with pytest.raises(ValueError, match="had 600 rows in the first pass and 599 in the second"):
        fitted(source)


def test_a_partition_is_predicted_with_the_columns_to_keep(people):
    pyarrow = pytest.importorskip("pyarrow")
    table, frame_of = people
    model = fitted(table)
    features = roles(*table.columns, features=["a", "b", "home"])

    def outputs(rows, _):
        return {"prediction": model.predict(rows.X), "label": rows.X["home"].to_numpy()}

    work = spark._PredictionPass(outputs, features, tuple(table.columns), ("y", "s"))
    Frame.numbers[:] = [3]
    (part,) = frame_of(table, []).partitions
    empty = part[0].slice(0, 0)
    (found,) = work(iter([empty, *part, empty]))
    assert found.schema.names == ["y", "s", "prediction", "label"]
    assert found.schema.field("label").type == pyarrow.string()
    expected = model.predict(table[["a", "b", "home"]])
    np.testing.assert_allclose(found["prediction"], expected, rtol=0.0, atol=1e-12)
    assert found["y"].to_pylist() == table["y"].tolist()


def test_a_partition_with_other_values_is_a_warning(people):
    """All rows together may have known ones."""
    table, frame_of = people
    model = fitted(table)
    features = roles(*table.columns, features=["a", "b", "home"])
    other = table.assign(home=np.where(table["home"] == "own", "OWN", "RENT"))
    (part,) = frame_of(other, []).partitions
    work = spark._PredictionPass(
        lambda rows, _: {"prediction": model.predict(rows.X)}, features, tuple(other.columns), ()
    )
    Frame.numbers[:] = [3]
    with pytest.warns(DataWarning, match="partition 3: .*'home'.* none of its 600 values"):
        list(work(iter(part)))


def test_predictions_have_the_types_of_spark(people, monkeypatch):
    """Kept columns keep theirs; numbers, labels and texts have one each."""
    kinds = SimpleNamespace(
        StructType=dict,
        StructField=lambda name, kind: (name, kind),
        **{f"{k}Type": lambda k=k: k for k in ("Double", "Long", "Boolean", "String")},
    )
    monkeypatch.setitem(sys.modules, "pyspark.sql.types", kinds)
    table, frame_of = people
    model = fitted(table)
    found = model.predict_stream(frame_of(table, [100, 250]), keep=["y"])
    assert found.schema.fields[1].dataType.typeName() == "Double"
    assert [field.name for field in found.schema.fields] == ["y", "prediction"]
    numbers = np.array([list(row.values()) for row in found.collect()])
    expected = model.predict(table[["a", "b", "home"]])
    np.testing.assert_allclose(
        numbers, np.stack([table["y"], expected], axis=1), rtol=0.0, atol=1e-12
    )
    with pytest.raises(ValueError, match="keep names 'prediction'"):
        model.predict_stream(frame_of(table.assign(prediction=1.0), []), keep=["prediction"])
    with pytest.raises(ValueError, match="no rows"):
        model.predict_stream(frame_of(table.iloc[:0], []))
    with pytest.raises(ValueError, match="destination, device and units are not for Spark"):
        model.predict_stream(frame_of(table, []), "scores.parquet")
    with pytest.raises(ValueError, match="destination is missing"):
        model.predict_stream(table)


def test_a_session_without_a_context_has_a_bound_too():
    conf = SimpleNamespace(get=lambda *_: "17")
    assert spark._n_partitions(SimpleNamespace(sparkSession=SimpleNamespace(conf=conf))) == 17
