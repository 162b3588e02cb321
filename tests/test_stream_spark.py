"""Streams on Spark: two executors in processes of their own, one of which is killed."""

import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fairspan import (
    FairGPClassifier,
    FairRidge,
    FairRidgeClassifier,
    RowError,
)
from tests.support.spark_data import SlowPartitions, executors, kill_an_executor, spark_session
from tests.support.stream_data import (
    FEATURES,
    FIXED,
    NAMED,
    N,
    labelled,
    ridge,
    small_blocks,
    table,
)

pytest.importorskip("pyspark", reason="installed by make test-spark")
# Spark warns of a pandas that is newer than itself.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")

ROWS = table()
HASH = {**NAMED, "folds": "hash"}
HOMES = np.random.default_rng(5).choice(["own", "rent", "none", "shared"], N)
PERSONS = np.random.default_rng(3).integers(0, 300, N)
TEXT = ROWS.assign(
    home=np.where(np.arange(N) % 41 == 0, None, HOMES),
    sure=np.arange(N) % 3 == 0,
    since=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) % 900, "D"),
    weight=np.random.default_rng(6).choice([0.0, 1.0, 2.5], N),
)


@pytest.fixture(scope="module")
def spark():
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(ROWS).repartition(5).cache()


@pytest.fixture(scope="module")
def whole():
    return ridge(alpha="auto").fit_stream(ROWS, **HASH)


def same_model(model, whole, frame=ROWS, atol=1e-9):
    """Predictions, alpha and the certificate are those of one machine."""
    X = frame[list(model.feature_names_in_)]
    for level in (0.0, 0.5, 1.0):
        one, other = model.at(level), whole.at(level)
        method = "decision_function" if hasattr(one, "decision_function") else "predict"
        found, expected = (getattr(est, method)(X) for est in (one, other))
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)
    assert model.n_samples_seen_ == whole.n_samples_seen_
    assert model.moments_.n_rows == whole.moments_.n_rows
    assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-9)
    assert str(model.certificate_) == str(whole.certificate_)
    pairs = zip(model.certificate_.new_rows.blocks, whole.certificate_.new_rows.blocks, strict=True)
    for a, b in pairs:
        assert a.correlation == pytest.approx(b.correlation, abs=1e-9)
        assert a.high == pytest.approx(b.high, abs=1e-9)
        assert a.n_effective == pytest.approx(b.n_effective, rel=1e-9)
    sketches = (est.moments_.row_sketch for est in (model, whole))
    first, second = (np.sort(sketch.hashes) for sketch in sketches)
    np.testing.assert_array_equal(first, second)


def pandas_of(frame):
    """Not by toPandas, which uses what pandas 3 warns of."""
    return pd.DataFrame([row.asDict() for row in frame.collect()], columns=frame.columns)


# --------------------------------------------------------------------------- fits


def test_executors_end_in_the_model_of_one_machine(rows, whole):
    """Of a stream on one machine, and of all rows at once with the same folds."""
    model = ridge(alpha="auto").fit_stream(rows, **NAMED)
    same_model(model, whole)
    X, y, s = ROWS[FEATURES], ROWS["y"], ROWS[["sex"]]
    memory = ridge(alpha="auto").prepare(X, y, sensitive_features=s, folds="hash")
    memory.partial_fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict(X), memory.predict(X), rtol=0.0, atol=1e-9)


def test_partitions_do_not_matter_beyond_the_sample(spark):
    """The sample is a third of the rows; shuffled rows in 1 and 40 partitions, some empty."""
    with small_blocks():
        expected = ridge(alpha="auto").fit_stream(ROWS, **HASH)
    frame = spark.createDataFrame(ROWS)
    with small_blocks():  # the driver chooses the sizes
        for n in (1, 40):
            frame_n = frame.repartition(n, "sex") if n == 40 else frame.repartition(n)
            model = ridge(alpha="auto").fit_stream(frame_n, **NAMED)
            np.testing.assert_array_equal(model.landmarks_, expected.landmarks_)
            assert "homoscedastic" in str(model.certificate_)
            same_model(model, expected)


def test_a_killed_executor_costs_time_and_nothing_else(spark, whole, tmp_path):
    """It dies in the second pass, while the partitions of the moments are computed."""
    path, killed = tmp_path / "begun", []
    slow = spark.createDataFrame(ROWS).repartition(6)
    slow = slow.mapInArrow(SlowPartitions(path, 0.5), slow.schema)
    before = set(executors())
    assert len(before) == 2
    thread = threading.Thread(target=kill_an_executor, args=(path, 6 + 3, killed))
    thread.start()
    try:
        model = ridge(alpha="auto").fit_stream(slow, **NAMED)
    finally:
        thread.join()
    assert len(killed) == 1
    assert killed[0] in before
    assert killed[0] not in executors()
    same_model(model, whole)


@pytest.mark.filterwarnings("ignore::fairspan.DataWarning")
def test_tables_weights_and_groups(spark):
    """Text, booleans, dates, missing values and weights of 0 are read as on one machine."""
    given = {**NAMED, "sample_weight": "weight"}
    expected = FairRidge(**FIXED).fit_stream(TEXT, **given, folds="hash")
    frame = spark.createDataFrame(TEXT).repartition(3)
    model = FairRidge(**FIXED).fit_stream(frame, **given)
    names, others = (est.encoder_.get_feature_names_out().tolist() for est in (model, expected))
    assert names == others
    assert model.text_features_ == expected.text_features_
    same_model(model, expected, TEXT)
    given = {**NAMED, "groups": "person", "features": FEATURES}
    visits = ROWS.assign(person=np.char.add("p", PERSONS.astype(str)))
    expected = FairRidge(**FIXED).fit_stream(visits, **given)
    model = FairRidge(**FIXED).fit_stream(spark.createDataFrame(visits), **given)
    assert model.pilot_.cluster_share == expected.pilot_.cluster_share < 0.3
    same_model(model, expected, visits)


@pytest.mark.filterwarnings("ignore::fairspan.DataWarning")
def test_rows_that_are_read_again(spark):
    """A likelihood, and rules for decisions."""
    frame = labelled()
    rows = spark.createDataFrame(frame).repartition(2).cache()
    X = frame[FEATURES]
    for est in (FairRidgeClassifier(**FIXED, equalize="decisions"), FairGPClassifier(**FIXED)):
        expected, model = clone(est).fit_stream(frame, **HASH), est.fit_stream(rows, **NAMED)
        np.testing.assert_allclose(
            model.predict_proba(X), expected.predict_proba(X), rtol=0.0, atol=1e-6
        )
        assert (model.predict(X) == expected.predict(X)).all()
    assert model.calibration_ == expected.calibration_
    found = pandas_of(model.predict_stream(rows, method="predict_proba", keep="a"))
    found = found.set_index("a").loc[frame["a"], ["probability_no", "probability_yes"]]
    np.testing.assert_allclose(found.to_numpy(), model.predict_proba(X), rtol=0.0, atol=1e-12)


# --------------------------------------------------------------------------- predictions


def test_predictions_are_a_data_frame(spark, rows, whole):
    frame = spark.createDataFrame(TEXT).repartition(3)
    found = whole.predict_stream(frame, keep=["a", "home", "since", "sure"])
    assert found.columns == ["a", "home", "since", "sure", "prediction"]
    assert [f.dataType for f in found.schema][:-1] == [
        frame.schema[name].dataType for name in found.columns[:-1]
    ]
    found = pandas_of(found).sort_values("a")
    expected = TEXT.sort_values("a")
    np.testing.assert_allclose(
        found["prediction"], whole.predict(expected[FEATURES]), rtol=0.0, atol=1e-12
    )
    assert found["home"].fillna("").tolist() == expected["home"].fillna("").tolist()
    assert found["since"].tolist() == expected["since"].tolist()


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_predictions_of_classes(method, spark):
    frame = labelled().assign(home=HOMES)
    model = FairRidgeClassifier(**FIXED).fit_stream(frame, **NAMED)
    found = model.predict_stream(spark.createDataFrame(frame), method=method, keep="a")
    found = pandas_of(found)
    expected = np.asarray(getattr(model, method)(frame[[*FEATURES, "home"]]))
    order = np.argsort(found["a"].to_numpy())
    names = [name for name in found.columns if name != "a"]
    assert names == (["prediction"] if method == "predict" else ["score"])
    values = found[names].to_numpy()[order]
    expected = expected.reshape(N, -1)[np.argsort(frame["a"].to_numpy())]
    if method == "predict":
        assert values.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(values, expected, rtol=0.0, atol=1e-12)


def test_unseen_values_are_errors_of_the_first_rows(spark):
    model = FairRidge(**FIXED).fit_stream(ROWS.assign(home=HOMES), **NAMED)
    other = ROWS.assign(home=np.char.upper(HOMES.astype(str)))
    with pytest.raises(ValueError, match="none of its 1,000 values was in the training data"):
        model.predict_stream(spark.createDataFrame(other))


# --------------------------------------------------------------------------- errors


def test_wrong_columns_and_arguments(spark, rows, whole):
    fit = ridge().fit_stream
    with pytest.raises(ValueError, match="'z'"):
        fit(rows, target="z", sensitive_features="sex")
    with pytest.raises(ValueError, match=r"checkpoint is not for Spark"):
        fit(rows, **NAMED, checkpoint="fit.npz")
    with pytest.raises(ValueError, match=r"client is for Dask"):
        fit(rows, **NAMED, client=object())
    with pytest.raises(ValueError, match=r"folds='position' is not for the Spark data frame"):
        fit(rows, **NAMED, folds="position")
    with pytest.raises(ValueError, match="destination, device and units are not for Spark"):
        whole.predict_stream(rows, "out.parquet")
    with pytest.raises(ValueError, match="'b'"):
        whole.predict_stream(rows.drop("b"))
    with pytest.raises(TypeError, match="'v' is of type array"):
        fit(rows.selectExpr("*", "array(a, b) AS v"), **NAMED)
    with pytest.raises(ValueError, match="two columns 'a'"):
        fit(rows.select("*", "a"), **NAMED)
    with pytest.raises(ValueError, match="no rows"):
        fit(rows.where("a > 99"), **NAMED)
    with pytest.raises(ValueError, match="no rows"):
        whole.predict_stream(rows.where("a > 99"))


def test_a_bad_row_is_named_at_once(spark, whole):
    """By partition and row, and Spark does not repeat the task."""
    bad = ROWS.assign(b=ROWS["b"].where(np.arange(N) != 701))
    frame = spark.createDataFrame(bad).coalesce(1)  # a shuffle would order rows anew
    (row,) = (i for i, b in enumerate(pandas_of(frame)["b"]) if b != b)
    with pytest.raises(RowError, match=rf"partition 0, row {row}: .*'b'"):
        ridge().fit_stream(frame, **NAMED)
    with pytest.raises(RowError, match=r"the Spark data frame, row \d+: .*'b'"):
        whole.predict_stream(frame)


def test_rows_that_change_between_passes_are_noticed(spark):
    from pyspark.sql import functions

    frame = spark.createDataFrame(ROWS).repartition(2)
    some = functions.udf(lambda _: __import__("random").random() < 0.5, "boolean")
    frame = frame.where(some.asNondeterministic()("a"))
    with pytest.raises(ValueError, match=r"gives other rows. Cache it"):
        ridge().fit_stream(frame, **NAMED)


def test_decimals_and_strange_names(spark, whole):
    frame = spark.createDataFrame(ROWS).selectExpr(
        "a AS `a.1 ``x```", "b", "CAST(c AS DECIMAL(12, 6)) AS c", "sex", "y"
    )
    here = pandas_of(frame).astype({"c": float})
    expected = FairRidge(**FIXED).fit_stream(here, **HASH)
    same_model(FairRidge(**FIXED).fit_stream(frame, **NAMED), expected, here)


def test_a_session_that_has_ended_is_named(spark, rows, whole):
    """The last test: the others share the session."""
    spark.stop()
    with pytest.raises(RuntimeError, match=r"has ended.*Java"):
        ridge().fit_stream(rows, **NAMED)
