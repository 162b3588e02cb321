"""fit_stream and predict_stream: every estimator, encoders, errors, and fits that are interrupted."""

import copy
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairspan import (
    CheckpointError,
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    RowError,
    load_model,
    save_model,
    table_encoder,
)
from fairspan.method import accumulate as _accumulate
from fairspan.method.accumulate import Accumulator
from fairspan.method.pilot import fingerprint
from fairspan.streaming import fit as _stream_fit
from fairspan.streaming import predict as _stream_predict
from fairspan.streaming.checkpoint import SavedPass
from tests.support.expected import expected_warnings
from tests.support.strategies import gap
from tests.support.stream_data import (
    BLOCK,
    FEATURES,
    FIXED,
    NAMED,
    N,
    arrays,
    cut,
    in_memory,
    labelled,
    one_parquet,
    parquet_files,
    ridge,
    small_blocks,
    table,
)

pytest.importorskip("pyarrow")

ROWS, CLASSES = table(), labelled()
X = ROWS[FEATURES]


@pytest.fixture(scope="module", autouse=True)
def small():
    with small_blocks() as patch:
        yield patch


def output(model, rows=X):
    """The finest output there is."""
    for name in ("predict_proba", "decision_function", "predict", "transform"):
        if hasattr(model, name):
            return getattr(model, name)(rows)
    raise AssertionError


# --------------------------------------------------------------------------- estimators

MODELS = {
    "representation": (FairRepresentation, {}, ROWS),
    "fair subspace": (FairRepresentation, {"subspace": "fair"}, ROWS),
    "ridge": (FairRidge, {}, ROWS),
    "ridge classifier": (FairRidgeClassifier, {}, CLASSES),
    "GP": (FairGPRegressor, {}, ROWS),
    "GP classifier": (FairGPClassifier, {}, CLASSES),
    "GP classifier, constant": (FairGPClassifier, {"curvature": "constant"}, CLASSES),
    "GP classifier, Gaussian": (FairGPClassifier, {"likelihood": "gaussian"}, CLASSES),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_estimator_equals_its_sample_and_rows_in_memory(kind):
    model, params, frame = MODELS[kind]
    est = model(**{**FIXED, **params})
    with expected_warnings():
        stream = clone(est).fit_stream(cut(frame, [100, 777]), **NAMED)
        memory = in_memory(est, *(frame[c] for c in (FEATURES, "y", ["sex"])))
        if getattr(est, "likelihood", "") == "logistic":
            memory.fit_head([tuple(frame[c] for c in (FEATURES, "y", ["sex"]))])
            assert stream.calibration_ == memory.calibration_
    assert gap(output(stream), output(memory)) < 1e-7
    assert stream.n_samples_seen_ == N
    with expected_warnings():
        assert gap(output(stream.at(0.3)), output(memory.at(0.3))) < 1e-7
        assert str(stream.certificate_).split() == str(stream.at(1.0).certificate_).split()


@pytest.mark.parametrize("kind", ["ridge", "GP classifier", "representation"])
def test_the_path_of_a_streamed_fit(kind):
    model, params, frame = MODELS[kind]
    fitted = model(**{**FIXED, **params}).fit_stream(frame, **NAMED)
    if kind == "representation":
        fitted = model(**{**FIXED, **params}).fit_stream(CLASSES, **NAMED)
        frame = CLASSES
    path = FairnessPath.from_estimator(fitted, X, frame["y"], sensitive_features=frame["sex"])
    assert np.isfinite(path.error).all()


def test_held_out_calibration_needs_no_second_call():
    model = FairGPClassifier(**{**FIXED, "alpha": "auto"}).fit_stream(cut(CLASSES, [500]), **NAMED)
    assert model.calibration_ == "held-out"


RICH = ROWS.assign(
    region=np.where(np.arange(N) % 3 == 0, "north", "south"),
    age=np.random.default_rng(2).normal(size=N),
    w=np.random.default_rng(3).choice([0.0, 1.0, 2.5], N),
    gap=[None if i % 17 == 0 else "uv"[i % 2] for i in range(N)],
)
SETTINGS = {
    "eo": ({"criterion": "eo", "n_slices": 3}, {}),
    "eop": ({"criterion": "eop"}, {}),
    "conditional": (
        {"criterion": "conditional_statistical_parity"},
        {"control_features": "region"},
    ),
    "several attributes": ({}, {"sensitive_features": ["sex", "age"]}),
    "intersectional": ({"intersectional": True}, {"sensitive_features": ["sex", "region"]}),
    "weights": ({}, {"sample_weight": "w"}),
    "weights, automatic": ({"alpha": "auto"}, {"sample_weight": "w"}),
    "missing S": ({"missing_sensitive": "omit"}, {"sensitive_features": ["gap"]}),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_criteria_attributes_weights_and_gaps(kind):
    params, roles = SETTINGS[kind]
    model, frame = (FairRidge, RICH)
    if kind == "eop":
        model, frame = FairRidgeClassifier, RICH.assign(y=(RICH["y"] > 0.3).astype(int))
    est = model(**{**FIXED, **params})
    given = {**NAMED, **roles, "features": FEATURES}
    names = given["sensitive_features"]
    control, weight = (given.get(role) for role in ("control_features", "sample_weight"))
    with expected_warnings():
        whole = clone(est).fit_stream(frame, **given)
        stream = clone(est).fit_stream(cut(frame, [3, 400, 1001]), **given)
        memory = in_memory(
            est,
            X,
            frame["y"],
            frame[[names] if isinstance(names, str) else names],
            None if control is None else frame[[control]],
            None if weight is None else frame[weight],
        )
    np.testing.assert_array_equal(output(stream), output(whole))
    assert gap(output(stream), output(memory)) < 1e-8
    assert stream.alpha_ == pytest.approx(memory.alpha_, rel=1e-8)


def test_weight_zero_is_as_if_the_row_were_not_there():
    frame = ROWS.assign(w=1.0)
    junk = frame.assign(y=1e3, w=0.0, a=50.0)
    both = pd.concat([frame, junk])
    model = ridge(landmarks=X[:30].to_numpy(), n_components="auto")
    with small_blocks(sample=10 * N):
        plain = clone(model).fit_stream(frame, **NAMED, sample_weight="w")
        full = clone(model).fit_stream(cut(both, [50, 1300]), **NAMED, sample_weight="w")
    assert full.moments_.n_rows == N
    assert gap(output(full), output(plain)) < 1e-9


def test_without_y_where_none_is_needed():
    model = FairRepresentation(**{**FIXED, "subspace": "fair"})
    one = clone(model).fit_stream(ROWS.drop(columns="y"), sensitive_features="sex")
    two = clone(model).fit_stream(cut(ROWS, [300]), sensitive_features="sex", features=FEATURES)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))


# --------------------------------------------------------------------------- afterwards


def test_a_streamed_fit_goes_on_with_partial_fit():
    more = table(300, seed=5)
    stream = ridge(alpha="auto").fit_stream(ROWS, **NAMED)
    stream.partial_fit(more[FEATURES], more["y"], sensitive_features=more[["sex"]])
    memory = in_memory(ridge(alpha="auto"), X, ROWS["y"], ROWS[["sex"]])
    memory.partial_fit(more[FEATURES], more["y"], sensitive_features=more[["sex"]])
    assert stream.moments_.n_rows == N + 300
    assert gap(output(stream), output(memory)) < 1e-9


def test_rows_seen_are_counted_on():
    more = table(300, seed=5)
    stream = ridge().fit_stream(ROWS, **NAMED)
    stream.partial_fit(more[FEATURES], more["y"], sensitive_features=more[["sex"]])
    assert stream.n_samples_seen_ == N + 300


def test_a_new_fit_forgets_the_stream():
    model = ridge().fit_stream(TEXT, **NAMED)
    assert hasattr(model, "encoder_")
    assert not hasattr(clone(model), "encoder_")
    model.fit(X, ROWS["y"], sensitive_features=ROWS["sex"])
    assert not hasattr(model, "encoder_")
    plain = ridge().fit(X, ROWS["y"], sensitive_features=ROWS["sex"])
    np.testing.assert_array_equal(output(model), output(plain))
    model.fit_stream(TEXT, **NAMED).fit_stream(ROWS, **NAMED)
    assert not hasattr(model, "encoder_")
    assert list(model.get_params()) == list(clone(model).get_params())


@pytest.mark.parametrize(
    "encoder",
    ["auto", "table"],
)
def test_predictions_take_the_table_as_it_is(encoder):
    """As after ``fit(frame, sensitive_features="sex")``, S may be there or not."""
    model = ridge().fit_stream(ROWS, **NAMED, encoder=encoder)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(ROWS.drop(columns="y")), expected)
    np.testing.assert_array_equal(model.predict(ROWS[["sex", *FEATURES]]), expected)


def test_a_model_file_without_an_encoder(tmp_path):
    pytest.importorskip("skops")
    model = ridge(alpha="auto").fit_stream(ROWS, **NAMED)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    more = table(50, seed=5)
    for one in (model, loaded):
        one.partial_fit(more[FEATURES], more["y"], sensitive_features=more[["sex"]])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_model_file_with_the_table_encoder(tmp_path):
    pytest.importorskip("skops")
    model = ridge().fit_stream(TEXT, **NAMED)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict(TEXT), model.predict(TEXT))


def test_pickle_keeps_the_encoder():
    model = ridge().fit_stream(TEXT, **NAMED)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(TEXT), model.predict(TEXT))


# --------------------------------------------------------------------------- encoders

TEXT = ROWS.assign(job=np.array(["clerk", "smith", "baker"])[np.arange(N) % 3])
GAPS = ROWS.assign(b=ROWS["b"].where(np.arange(N) % 11 > 0))


def encoded(frame):
    return frame[[name for name in frame.columns if name not in ("y", "sex")]]


@pytest.mark.parametrize("encoder", ["auto", "table", "own"])
def test_an_encoder_is_the_model_of_what_it_makes(encoder):
    features = encoded(TEXT)
    own = table_encoder(features) if encoder == "own" else encoder
    model = ridge().fit_stream(cut(TEXT, [10, 600]), **NAMED, encoder=own)
    assert model.encoder_ is not own
    assert model.feature_names_in_.tolist() == [*FEATURES, "job"]
    numbers = model.encoder_.transform(features)
    assert numbers.shape[1] == 6
    plain = in_memory(ridge(), numbers, TEXT["y"].to_numpy(), TEXT[["sex"]])
    np.testing.assert_array_equal(model.landmarks_, plain.landmarks_)
    assert gap(model.predict(features), plain.predict(numbers)) < 1e-9


def test_auto_leaves_numbers_alone():
    assert not hasattr(ridge().fit_stream(ROWS, **NAMED), "encoder_")
    assert not hasattr(ridge().fit_stream(ROWS.astype({"c": bool}), **NAMED), "encoder_")
    assert hasattr(ridge().fit_stream(TEXT, **NAMED), "encoder_")


def test_an_encoder_of_ones_own():
    own = make_pipeline(StandardScaler())
    model = ridge().fit_stream(cut(ROWS, [4]), **NAMED, encoder=own)
    with pytest.raises(Exception, match="not fitted"):
        own.transform(X)
    plain = in_memory(ridge(), model.encoder_.transform(X), ROWS["y"].to_numpy(), ROWS[["sex"]])
    assert gap(output(model), plain.predict(model.encoder_.transform(X))) < 1e-9


@pytest.mark.parametrize("kind", ["frames", "Parquet", "CSV"])
def test_gaps_are_imputed_by_the_table_encoder_and_named_without(kind, tmp_path):
    source = cut(GAPS, [300])
    if kind == "Parquet":
        source = one_parquet(GAPS, tmp_path, 250)
    elif kind == "CSV":
        source = tmp_path / "rows.csv"
        GAPS.to_csv(source, index=False)
    model = ridge().fit_stream(source, **NAMED, encoder="table")
    whole = ridge().fit_stream(GAPS, **NAMED, encoder="table")
    np.testing.assert_array_equal(output(model, encoded(GAPS)), output(whole, encoded(GAPS)))
    for encoder in ("auto", None):
        with pytest.raises(RowError, match=r"NaN.*column 'b'") as caught:
            ridge().fit_stream(source, **NAMED, encoder=encoder)
        assert caught.value.row == 0
        assert caught.value.name == ("block 0" if kind == "frames" else str(source))


def test_text_without_an_encoder_is_refused():
    with pytest.raises(ValueError, match=r"not numbers: 'job'"):
        ridge().fit_stream(TEXT, **NAMED, encoder=None)


def test_a_category_not_in_the_sample_is_ignored_by_the_table_encoder(small):
    rare = TEXT.assign(job=np.where(np.arange(N) == 1100, "pope", TEXT["job"]))
    model = ridge().fit_stream(rare, **NAMED)
    assert model.moments_.n_rows == N


def test_an_encoder_that_makes_nonsense_is_named_by_row():
    def bad(frame):
        out = frame.to_numpy(copy=True)
        out[frame["a"] == ROWS["a"][700], 1] = np.inf
        return out

    with pytest.raises(ValueError, match="encoder FunctionTransformer gave"):
        ridge().fit_stream(ROWS, **NAMED, encoder=FunctionTransformer(bad))


@pytest.mark.parametrize("encoder", ["table", StandardScaler()])
def test_an_encoder_needs_a_table(encoder):
    with pytest.raises(ValueError, match="needs data frames, and the blocks are arrays"):
        ridge().fit_stream([arrays(ROWS)], encoder=encoder)


# --------------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def models(small):
    return {
        "ridge": ridge().fit_stream(ROWS, **NAMED),
        "classifier": FairGPClassifier(**FIXED).fit_stream(CLASSES, **NAMED),
        "representation": FairRepresentation(**FIXED).fit_stream(ROWS, **NAMED),
        "text": ridge().fit_stream(TEXT, **NAMED),
    }


@pytest.fixture(autouse=True)
def small_predictions(monkeypatch):
    monkeypatch.setattr(_stream_predict, "_BLOCK_ROWS", BLOCK)


METHODS = [
    ("ridge", "predict", ["prediction"]),
    ("classifier", "predict", ["prediction"]),
    ("classifier", "predict_proba", ["probability_no", "probability_yes"]),
    ("classifier", "decision_function", ["score"]),
    ("representation", "transform", ["score_0"]),
]


@pytest.mark.parametrize("kind", ["frames", "Parquet", "dicts of arrays"])
@pytest.mark.parametrize(("model", "method", "columns"), METHODS, ids=lambda m: str(m))
def test_predictions_are_those_in_memory_in_order(model, method, columns, kind, models, tmp_path):
    model = models[model]
    source = {
        "frames": cut(ROWS, [5, 500]),
        "Parquet": parquet_files(ROWS, tmp_path) if kind == "Parquet" else None,
        "dicts of arrays": [{"X": piece.to_numpy()} for piece in cut(X, [400])],
    }[kind]
    if kind == "dicts of arrays":
        model = copy.copy(model)
        del model.feature_names_in_
    path = model.predict_stream(source, tmp_path / "found.pq", method=method)
    found = pd.read_parquet(path)
    assert list(found.columns) == columns
    rows = X if kind != "dicts of arrays" else X.to_numpy()
    expected = getattr(model, method)(rows).reshape(N, -1)
    if expected.dtype.kind == "f":
        assert gap(found.to_numpy(), expected) < 1e-12
    else:
        np.testing.assert_array_equal(found.to_numpy(), expected)


def test_predictions_from_an_array_and_with_an_encoder(models, tmp_path):
    model = models["text"]
    found = pd.read_parquet(model.predict_stream(cut(TEXT, [31]), tmp_path / "a.parquet"))
    assert gap(found["prediction"].to_numpy(), model.predict(encoded(TEXT))) < 1e-12
    plain = ridge().fit_stream(XA, target=YA, sensitive_features=SA)
    found = pd.read_parquet(plain.predict_stream(X.to_numpy(), tmp_path / "a.parquet"))
    assert gap(found["prediction"].to_numpy(), plain.predict(X.to_numpy())) < 1e-12


def test_kept_columns_stand_beside_the_predictions(models, tmp_path):
    frame = ROWS.assign(id=np.arange(N), name=[f"n{i}" for i in range(N)])
    path = models["ridge"].predict_stream(
        cut(frame, [7]), tmp_path / "p.parquet", keep=["id", "name"]
    )
    found = pd.read_parquet(path)
    assert list(found.columns) == ["id", "name", "prediction"]
    np.testing.assert_array_equal(found["id"], frame["id"])
    np.testing.assert_array_equal(found["name"], frame["name"])


def test_kept_columns_may_have_gaps_in_some_blocks(models, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    ids = pa.array([None if i == 700 else i for i in range(N)], pa.int64())
    source = tmp_path / "rows.parquet"
    pa.parquet.write_table(
        pa.Table.from_pandas(X).append_column("id", ids), source, row_group_size=200
    )
    path = models["ridge"].predict_stream(source, tmp_path / "p.parquet", keep="id")
    assert pa.parquet.read_table(path)["id"].to_pylist() == ids.to_pylist()


def failing(model, source, folder, error, says, **more):
    """The call is refused, the old file stays, and nothing else is left."""
    path = folder / "out" / "p.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"old")
    with pytest.raises(error, match=says):
        model.predict_stream(source, path, **more)
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["p.parquet"]


def test_an_error_midway_leaves_the_old_file(models, tmp_path):
    def stops():
        yield ROWS[:600]
        raise OSError("cable pulled")

    failing(models["ridge"], stops, tmp_path, OSError, "cable pulled")


def test_bad_requests_for_predictions(models, tmp_path):
    model = models["ridge"]
    failing(model, ROWS, tmp_path, ValueError, r"method='score' is not allowed", method="score")
    failing(model, ROWS, tmp_path, ValueError, "give one of", method="predict_proba")
    failing(
        model, ROWS.drop(columns="b"), tmp_path, ValueError, "the column 'b', which is not there"
    )
    failing(model, ROWS, tmp_path, ValueError, "names the column 'nobody'", keep="nobody")
    failing(model, [], tmp_path, ValueError, "no rows")
    failing(model, tmp_path / "absent.parquet", tmp_path, FileNotFoundError, "absent.parquet")
    bad = ROWS.assign(b=ROWS["b"].where(np.arange(N) != 901))
    failing(model, cut(bad, [900]), tmp_path, RowError, r"block 1, row 1: .*'b'.*Row 901 of all")
    with pytest.raises(ValueError, match=r"folder '.*absent' does not exist"):
        model.predict_stream(ROWS, tmp_path / "absent" / "p.parquet")


def test_a_folder_as_destination_is_refused_before_anything_is_read(models, tmp_path):
    def never():
        raise AssertionError("read")
        yield

    with pytest.raises((ValueError, IsADirectoryError)):
        models["ridge"].predict_stream(never, tmp_path)


def test_the_file_of_predictions_has_the_usual_permissions(models, tmp_path):
    (tmp_path / "usual").write_text("")
    path = models["ridge"].predict_stream(ROWS, tmp_path / "p.parquet")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


# --------------------------------------------------------------------------- errors


def refused(says, source=ROWS, error=ValueError, est=None, **given):
    """One error, all words in it; the estimator is as it was, a good fit included."""
    for model in (ridge() if est is None else est, ridge().fit_stream(ROWS[:200], **NAMED)):
        if est is not None and model is not est:
            continue
        before = dict(vars(model))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            with pytest.raises(error) as caught:
                model.fit_stream(source() if callable(source) else source, **{**NAMED, **given})
        for word in (says,) if isinstance(says, str) else says:
            assert word in str(caught.value)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)


UNNAMED = {"target": None, "sensitive_features": None}
XA, YA, SA = arrays(ROWS)
A5 = ROWS[[*FEATURES, "sex", "y"]].to_numpy(dtype=float)


def broken(frame, column, row, value):
    out = frame.copy()
    out[column] = out[column].astype(object) if isinstance(value, str | None) else out[column] * 1.0
    out.loc[row, column] = value
    return out


ERRORS = {
    "no file": {"source": "absent/*.parquet", "error": FileNotFoundError, "says": "No file is at"},
    "no such thing": {"source": 5, "error": TypeError, "says": "A stream cannot come from int"},
    "column of y": {"target": "z", "says": ("target names the column 'z'", "'a'")},
    "column of S": {"sensitive_features": ["sex", "z"], "says": "sensitive_features names"},
    "column of control": {"control_features": "z", "says": "control_features names the column 'z'"},
    "column of X": {"features": ["a", "z"], "says": "features names the column 'z'"},
    "column of weight": {"sample_weight": "z", "says": "sample_weight names the column 'z'"},
    "two targets": {"target": ["y", "a"], "says": "give a column name"},
    "the same twice": {"features": ["a", "a"], "says": "a list of different ones"},
    "target among X": {"features": ["a", "y"], "says": "'y' is given as target"},
    "nothing left": {"source": ROWS[["sex", "y"]], "says": "No column is left"},
    "values for a name": {"target": YA, "says": "target="},
    "names for blocks": {"source": [(XA, YA, SA)], "says": "block 0 has no column names"},
    "unknown role": dict(source=[{"X": XA, "Y": YA}], says="block 0 has 'Y'", **UNNAMED),
    "pairs": dict(source=[(XA, YA)], says="block 0 is a tuple", **UNNAMED),
    "one array": dict(source=[XA], says="`sensitive_features` was not given", **UNNAMED),
    "empty list": {"source": [], "says": "no rows"},
    "empty iterator": {"source": lambda: iter([]), "says": "no rows"},
    "empty frame": {"source": ROWS[:0], "says": "no rows"},
    "empty Arrow table": {"source": lambda: _arrow_table(ROWS[:0]), "says": "no rows"},
    "empty array": {"source": A5[:0], "says": "no rows", "target": 4, "sensitive_features": 3},
    "all of no weight": {"source": ROWS.assign(w=0.0), "sample_weight": "w", "says": "none with a weight"},
    "one row": {"source": ROWS[:1], "says": "at least two rows"},
    "no S": {"sensitive_features": None, "says": "fit needs the protected attributes"},
    "no y": dict(source=[(XA, None, SA)], says="FairRidge requires y", **UNNAMED),
    "no y in one block": dict(
        source=[(XA, YA, SA), (XA, None, SA)], says="block 1: y is nothing", **UNNAMED
    ),
    "a column less": {
        "source": [ROWS[:500], ROWS[500:].drop(columns="b")], "says": "block 1: the column 'b' is missing"
    },
    "NaN in X": {
        "source": cut(broken(ROWS, "b", 801, np.nan), [500]), "error": RowError,
        "says": ("block 1, row 301", "'b'", "Row 801 of all"),
    },
    "infinity in X": {
        "source": broken(ROWS, "b", 801, np.inf), "error": RowError, "says": ("block 0, row 801", "infinity")
    },
    "NaN in y": {
        "source": broken(ROWS, "y", 801, np.nan), "error": RowError,
        "says": ("block 0, row 801", "y contains NaN"),
    },
    "NaN in S": {
        "source": broken(ROWS, "sex", 801, np.nan), "error": RowError, "says": ("row 801", "'sex'", "missing")
    },
    "negative weight": {
        "source": broken(ROWS.assign(w=1.0), "w", 801, -1.0), "sample_weight": "w", "error": RowError,
        "says": ("row 801", "negative"),
    },
    "NaN weight": {
        "source": broken(ROWS.assign(w=1.0), "w", 801, np.nan), "sample_weight": "w", "error": RowError,
        "says": ("row 801", "NaN"),
    },
    "control for nothing": {"control_features": "a", "says": "control_features was given, but"},
    "precomputed": {"est": ridge(kernel="precomputed", gamma="cv"), "says": "cannot stream"},
    "all rows": {"est": ridge(n_components="all"), "says": "n_components='all'"},
    "encoder": {"encoder": "one-hot", "says": "encoder='one-hot' is not allowed"},
    "logistic iterator": {
        "source": lambda: iter(cut(CLASSES, [500])), "est": FairGPClassifier(**FIXED),
        "says": ("likelihood='logistic'", "iterator", "function"),
    },
    "array of three": {"source": np.zeros((4, 3, 2)), "says": "must be a matrix"},
    "no such number": {"source": A5, "target": 5, "sensitive_features": 3, "says": "5 is not one of the 5"},
    "parameters": {"est": ridge(fairness=2.0), "says": "fairness"},
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_is_refused_by_one_clear_error(case):
    refused(**ERRORS[case])


def test_workers_and_a_device_exclude_each_other(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())  # as if torch were there
    refused("exclude each other", client=object(), device="cpu")


SLIPS = {  # each of these went through once, or failed obscurely
    "y longer than the array": {
        "source": XA, "target": np.r_[YA, YA], "sensitive_features": SA, "says": "rows",
    },
    "target among the numbers of X": {
        "source": A5, "target": 4, "sensitive_features": 3, "features": [0, 1, 4],
        "says": "cannot be a feature",
    },
    "names with an array": {"source": A5, "says": "column"},
    "names of features with an array": {
        "source": A5, "target": 4, "sensitive_features": 3, "features": ["a"], "says": "features",
    },
    "one number for features": {
        "source": A5, "target": 4, "sensitive_features": 3, "features": 0, "says": "features",
    },
    "X of another width": dict(
        source=[(XA, YA, SA), (XA[:, :2], YA, SA)], says="block 1", **UNNAMED,
    ),
    "y of another length in a block": dict(
        source=[(XA[:700], YA[:699], SA[:700]), (XA[700:], YA[699:], SA[700:])], says="block 0",
        **UNNAMED,
    ),
    "S of other names": dict(
        source=[(XA, YA, {"s": SA}), (XA, YA, {"t": SA})], says="block 1", **UNNAMED
    ),
    "S with one more column": dict(
        source=[(XA, YA, {"s": SA}), (XA, YA, {"s": SA, "t": SA})], says="block 1", **UNNAMED,
    ),
    "S as dict, then as array": dict(
        source=[(XA, YA, {"s": SA}), (XA, YA, SA)], says="block 1", **UNNAMED
    ),
    "iterator with a client": {
        "source": lambda: iter(cut(ROWS, [500])), "client": object(), "says": "read by themselves",
    },
}  # fmt: skip


def _arrow_table(frame):
    import pyarrow

    return pyarrow.Table.from_pandas(frame)


def test_columns_of_a_dask_array_by_number():
    dask_array = pytest.importorskip("dask.array")
    numbers = {"target": 4, "sensitive_features": 3}
    here = ridge().fit_stream(A5, **numbers)
    there = ridge().fit_stream(dask_array.from_array(A5, chunks=(300, 5)), **numbers)
    assert gap(there.predict(A5[:, :3]), here.predict(A5[:, :3])) < 1e-9


@pytest.mark.parametrize("case", SLIPS)
def test_bad_input_that_slipped_through_is_refused(case):
    refused(**SLIPS[case])


def test_polars_blocks_whose_numbers_are_of_two_types():
    polars = pytest.importorskip("polars")
    blocks = [polars.from_pandas(ROWS[:500].assign(b=1)), polars.from_pandas(ROWS[500:])]
    ridge().fit_stream(blocks, **NAMED)


def test_scalar_weights_that_are_all_the_same():
    blocks = [
        dict(zip(("X", "y", "sensitive_features"), arrays(p), strict=True))
        for p in cut(ROWS, [500])
    ]
    plain = ridge().fit_stream(blocks)
    weighed = ridge().fit_stream([{**block, "sample_weight": 1.0} for block in blocks])
    assert gap(weighed.predict(XA), plain.predict(XA)) < 1e-12


def test_scalar_weights_that_differ():
    roles = ("X", "y", "sensitive_features")
    blocks = [dict(zip(roles, arrays(p), strict=True)) for p in cut(ROWS, [500])]
    one = [{**block, "sample_weight": w} for block, w in zip(blocks, (1.0, 9.0), strict=True)]
    many = [
        {**block, "sample_weight": np.full(len(block["y"]), w)}
        for block, w in zip(blocks, (1.0, 9.0), strict=True)
    ]
    given = ridge().fit_stream(one), ridge().fit_stream(many)
    assert gap(given[0].predict(XA), given[1].predict(XA)) < 1e-9


def test_mixed_and_unknown_suffixes(tmp_path):
    one_parquet(ROWS, tmp_path)
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "rows.xyz").write_text("")
    refused((".csv, .parquet", "one kind"), source=str(tmp_path / "*s.[cp]*"))
    refused(".xyz", source=tmp_path / "rows.xyz")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused("No file is at", source=empty, error=FileNotFoundError)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really PAR1")
    refused("bad.parquet cannot be opened", source=tmp_path / "bad.parquet", error=OSError)


def test_a_row_of_the_second_file_is_named(tmp_path):
    parquet_files(broken(ROWS, "c", 1001, np.nan), tmp_path)
    with pytest.raises(RowError) as caught:
        ridge().fit_stream(tmp_path, **NAMED)
    assert caught.value.name == str(tmp_path / "part2.parquet")
    assert caught.value.row == 101
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.name, copied.row, str(copied)) == (
        caught.value.name,
        101,
        str(caught.value),
    )


def test_an_error_is_one_even_in_the_last_row_and_in_many(tmp_path):
    frame = broken(ROWS, "b", N - 1, np.nan)
    with pytest.raises(RowError) as caught:
        ridge().fit_stream(one_parquet(frame, tmp_path, 100), **NAMED)
    assert caught.value.row == N - 1
    frame = frame.assign(b=frame["b"].where(np.arange(N) < 333))
    with pytest.raises(RowError) as caught:
        ridge().fit_stream(one_parquet(frame, tmp_path, 100), **NAMED)
    assert caught.value.row == 333


def test_no_reader_is_left_behind_by_an_error():
    def stops(*args):
        raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Accumulator, "add", stops)
        with pytest.raises(StopError) as caught:
            ridge().fit_stream(ROWS, **NAMED)
    assert caught.tb is not None
    assert not [t for t in threading.enumerate() if t.name == "fairspan-reader"]


# --------------------------------------------------------------------------- checkpoints


class StopError(Exception):
    """What interrupts a fit."""


def stop_after(k, error=StopError):
    """Interrupt when the k-th block has been added."""
    seen = []
    whole = SavedPass.save_if_due

    def save(self, *args):
        whole(self, *args)
        seen.append(1)
        if len(seen) == k:
            raise error

    return save


def interrupted(source, path, k, error=StopError, est=None, **given):
    """A fit that is stopped after its k-th block; the estimator is as it was."""
    save = stop_after(k, error)
    model = ridge(alpha="auto") if est is None else est
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SavedPass, "save_if_due", save)
        with pytest.raises(error):
            model.fit_stream(source, **{**NAMED, **given}, checkpoint=path)
    assert not hasattr(model, "pilot_")
    return path


def assert_equal_fits(model, other, rows=X):
    """Moments and predictions, bit for bit."""
    for name, value in vars(model.moments_).items():
        np.testing.assert_equal(value, getattr(other.moments_, name), err_msg=name)
    np.testing.assert_array_equal(output(model, rows), output(other, rows))
    assert model.alpha_ == other.alpha_
    assert model.n_samples_seen_ == other.n_samples_seen_


BLOCKS = -(-N // BLOCK)


@pytest.mark.parametrize("k", range(1, BLOCKS + 1))
def test_resumed_after_any_block_it_is_the_same_model(k, tmp_path):
    source, path = parquet_files(ROWS, tmp_path), tmp_path / "fit.ckpt"
    whole = ridge(alpha="auto").fit_stream(source, **NAMED)
    interrupted(source, path, k, (StopError, KeyboardInterrupt, MemoryError)[k % 3])
    resumed = ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path)
    assert_equal_fits(resumed, whole)
    again = ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path)
    assert_equal_fits(again, whole)
    assert {p.name for p in tmp_path.iterdir() if p.suffix != ".parquet"} == {"fit.ckpt"}


@pytest.mark.parametrize("source", ["frames", "memmap", "text"])
def test_resumed_from_other_sources(source, tmp_path):
    frame, path = (TEXT if source == "text" else ROWS), tmp_path / "fit.ckpt"
    given = dict(NAMED)
    rows = cut(frame, [3, 700])
    if source == "memmap":
        rows, given = A5, {"target": 4, "sensitive_features": 3}
    whole = ridge(alpha="auto").fit_stream(rows, **given)
    interrupted(rows, path, 2, **given)
    resumed = ridge(alpha="auto").fit_stream(rows, **given, checkpoint=path)
    assert_equal_fits(resumed, whole, XA if source == "memmap" else encoded(frame))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_inside_a_block_it_is_still_the_same_model(error, tmp_path, monkeypatch):
    monkeypatch.setattr(_accumulate, "_BLOCK_ROWS", 64)
    whole = ridge().fit_stream(ROWS, **NAMED)
    add, calls = Accumulator.add, []

    def stops(self, *args):
        calls.append(1)
        if len(calls) == 11:  # the third piece of the third block
            raise error
        return add(self, *args)

    path = tmp_path / "fit.ckpt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Accumulator, "add", stops)
        with pytest.raises(error):
            ridge().fit_stream(ROWS, **NAMED, checkpoint=path)
    assert_equal_fits(ridge().fit_stream(ROWS, **NAMED, checkpoint=path), whole)


def test_resumed_where_eigenvectors_come_out_otherwise(tmp_path, monkeypatch):
    """Another number of threads, or another machine: those that the moments were taken with count."""
    whole = ridge(alpha="auto").fit_stream(ROWS, **NAMED)
    path, prepare = interrupted(ROWS, tmp_path / "fit.ckpt", 2), _stream_fit._prepare

    def turned(*args):
        pilot = prepare(*args)
        features = replace(pilot.features, whitening=-pilot.features.whitening)
        pilot = replace(pilot, features=features)
        return replace(pilot, fingerprint=fingerprint(pilot))

    monkeypatch.setattr(_stream_fit, "_prepare", turned)
    assert_equal_fits(ridge(alpha="auto").fit_stream(ROWS, **NAMED, checkpoint=path), whole)


def test_a_fit_that_read_nothing_new_goes_on_from_where_it_was(tmp_path):
    """Stopped twice, the second time before any block."""
    path = interrupted(ROWS, tmp_path / "fit.ckpt", 2)
    interrupted(ROWS, path, 1)
    interrupted(ROWS, path, 1, KeyboardInterrupt)
    resumed = ridge(alpha="auto").fit_stream(ROWS, **NAMED, checkpoint=path)
    assert_equal_fits(resumed, ridge(alpha="auto").fit_stream(ROWS, **NAMED))


def test_a_finished_checkpoint_does_not_read_for_the_moments_again(tmp_path, monkeypatch):
    source, path = parquet_files(ROWS, tmp_path), tmp_path / "fit.ckpt"
    whole = ridge().fit_stream(source, **NAMED, checkpoint=path)

    def never(*args, **kwargs):
        raise AssertionError("rows were added again")

    before = path.read_bytes()
    monkeypatch.setattr(_accumulate.MomentsPass, "add", never)
    assert_equal_fits(ridge().fit_stream(source, **NAMED, checkpoint=path), whole)
    assert path.read_bytes() == before


def test_a_finished_checkpoint_is_every_place_on_the_dial(tmp_path, monkeypatch):
    path = tmp_path / "fit.ckpt"
    whole = ridge().fit_stream(ROWS, **NAMED, checkpoint=path)
    monkeypatch.setattr(_accumulate.MomentsPass, "add", None)
    for params in ({"fairness": 0.3}, {"fairness": 0.6, "dial": "cosine"}):
        again = ridge(**params).fit_stream(ROWS, **NAMED, checkpoint=path)
        np.testing.assert_array_equal(output(again), output(whole.at(**params)))


@pytest.mark.parametrize("curvature", ["likelihood", "constant"])
def test_a_likelihood_is_resumed_too(curvature, tmp_path):
    est = FairGPClassifier(**FIXED, curvature=curvature)
    whole = clone(est).fit_stream(CLASSES, **NAMED)
    path = interrupted(CLASSES, tmp_path / "fit.ckpt", 3, est=clone(est))
    resumed = clone(est).fit_stream(CLASSES, **NAMED, checkpoint=path)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_weights_and_strata_are_resumed_too(tmp_path):
    est = ridge(criterion="conditional_statistical_parity", alpha="auto")
    given = {"control_features": "region", "sample_weight": "w", "features": FEATURES}
    with expected_warnings():
        whole = clone(est).fit_stream(RICH, **NAMED, **given)
        path = interrupted(RICH, tmp_path / "fit.ckpt", 2, est=clone(est), **given)
        resumed = clone(est).fit_stream(RICH, **NAMED, **given, checkpoint=path)
    assert_equal_fits(resumed, whole)


@pytest.mark.parametrize("given", [None, np.random.RandomState(3)], ids=["None", "RandomState"])
def test_without_a_fixed_seed_the_stored_one_is_drawn_with(given, tmp_path):
    est = ridge(random_state=given)
    path = interrupted(ROWS, tmp_path / "fit.ckpt", 2, est=est)
    resumed = ridge(random_state=given).fit_stream(ROWS, **NAMED, checkpoint=path)
    assert resumed.random_state is given
    again = ridge(random_state=given).fit_stream(ROWS, **NAMED, checkpoint=path)
    np.testing.assert_array_equal(resumed.landmarks_, again.landmarks_)
    assert_equal_fits(again, resumed)
    assert resumed.moments_.n_rows == N


CHANGED = {
    "parameter": ({"alpha": 2.0}, {}, "parameters differs (alpha: '1.0' there, '2.0' here)"),
    "landmarks": ({"n_components": 20}, {}, "n_components"),
    "seed": ({"random_state": 1}, {}, "random_state: '0' there, '1' here"),
    "role": ({}, {"features": ["a", "b"]}, "source differs"),
    "target": ({}, {"target": "c", "features": ["a", "b"]}, "source differs"),
    "encoder": ({}, {"encoder": "table"}, "encoder differs"),
}


@pytest.mark.parametrize("kind", ["Parquet", "frames"])
@pytest.mark.parametrize("case", CHANGED)
def test_a_checkpoint_of_another_fit_is_refused(case, kind, tmp_path):
    params, given, says = CHANGED[case]
    source = one_parquet(ROWS, tmp_path) if kind == "Parquet" else [ROWS]
    path = interrupted(source, tmp_path / "fit.ckpt", 2, est=ridge())
    before = path.read_bytes()
    model = ridge(**params)
    with pytest.raises(CheckpointError, match=re.escape(says)) as caught:
        model.fit_stream(source, **{**NAMED, **given}, checkpoint=path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert not hasattr(model, "pilot_")


def test_a_checkpoint_of_another_estimator_or_source_is_refused(tmp_path):
    path = interrupted(one_parquet(ROWS, tmp_path), tmp_path / "fit.ckpt", 2, est=ridge())
    with pytest.raises(CheckpointError, match="estimator differs"):
        FairGPRegressor(**FIXED).fit_stream(tmp_path / "rows.parquet", **NAMED, checkpoint=path)
    (tmp_path / "rows.parquet").rename(tmp_path / "others.parquet")
    for source in (tmp_path / "others.parquet", ROWS, A5):
        given = {"target": 4, "sensitive_features": 3} if source is A5 else NAMED
        with pytest.raises(CheckpointError, match="source differs"):
            ridge().fit_stream(source, **given, checkpoint=path)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    path = interrupted(one_parquet(ROWS, tmp_path), tmp_path / "fit.ckpt", 2, est=ridge())
    source = one_parquet(table(seed=1), tmp_path)
    with pytest.raises(CheckpointError, match=r"the rows, .* are others"):
        ridge().fit_stream(source, **NAMED, checkpoint=path)


def test_another_column_of_an_array_as_target_is_refused(tmp_path):
    rows = np.column_stack([XA, SA, YA > 0.3, XA[:, 2] > 0.0]).astype(float)
    est = FairRidgeClassifier(**{**FIXED, "landmarks": XA[:30], "n_components": "auto"})
    given = {"sensitive_features": 3, "features": [0, 1, 2], "checkpoint": tmp_path / "fit.ckpt"}
    clone(est).fit_stream(rows, target=4, **given)
    with pytest.raises(CheckpointError):
        clone(est).fit_stream(rows, target=5, **given)


def test_another_y_in_the_same_file_is_refused(tmp_path):
    est = FairRidgeClassifier(**{**FIXED, "landmarks": XA[:30], "n_components": "auto"})
    path = tmp_path / "fit.ckpt"
    clone(est).fit_stream(one_parquet(CLASSES, tmp_path), **NAMED, checkpoint=path)
    swapped = CLASSES.assign(y=np.where(CLASSES["y"] == "no", "yes", "no"))
    with pytest.raises(CheckpointError):
        clone(est).fit_stream(one_parquet(swapped, tmp_path), **NAMED, checkpoint=path)


def own_kernel(A, B):
    return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=-1))


def test_a_kernel_of_ones_own_is_the_same_in_another_process(tmp_path):
    path = tmp_path / "fit.ckpt"
    ridge(kernel=own_kernel, gamma="cv").fit_stream(ROWS, **NAMED, checkpoint=path)
    script = (
        "from tests import test_streams as t\n"
        "with t.small_blocks():\n"
        "    model = t.ridge(kernel=t.own_kernel, gamma='cv')\n"
        f"    model.fit_stream(t.ROWS, **t.NAMED, checkpoint={str(path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_damaged_checkpoint_is_refused_before_anything_is_read(tmp_path):
    path = interrupted(ROWS, tmp_path / "fit.ckpt", 2, est=ridge())
    whole = path.read_bytes()

    def never():
        raise AssertionError("read")
        yield

    for damaged in (whole[:100], whole[: len(whole) // 2], whole[:-1], b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=re.escape(str(path))):
            ridge().fit_stream(never, **NAMED, checkpoint=path)
    with pytest.raises(ValueError, match="is a folder"):
        ridge().fit_stream(never, **NAMED, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        ridge().fit_stream(never, **NAMED, checkpoint=tmp_path / "absent" / "fit.ckpt")


def test_a_checkpoint_that_cannot_be_written_costs_nothing_but_itself(tmp_path, monkeypatch):
    whole = ridge().fit_stream(ROWS, **NAMED)
    path = interrupted(ROWS, tmp_path / "fit.ckpt", 2, est=ridge())
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(
        DataWarning, match=r"No space left.*the last one, of 512 rows, is kept"
    ) as said:
        model = ridge().fit_stream(ROWS, **NAMED, checkpoint=path)
    assert len(said) == 1
    assert_equal_fits(model, whole)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fit.ckpt"]


def unseen():
    """An attribute with a third level, from row 1000 on."""
    return ROWS.assign(sex=np.where(np.arange(N) == 1000, "other", np.where(ROWS["sex"], "f", "m")))


@pytest.mark.filterwarnings("ignore:The source can be read only once")
def test_a_category_that_an_iterator_did_not_show_at_first(tmp_path):
    path, bad = tmp_path / "fit.ckpt", unseen()
    with pytest.raises(RowError, match="other") as caught:
        ridge().fit_stream(iter(cut(bad, [400, 900])), **NAMED, checkpoint=path)
    assert (caught.value.name, caught.value.row) == ("block 2", 100)
    with np.load(path) as file:
        assert b'"place": 768' in file["header.json"].tobytes()
    mended = bad.assign(sex=bad["sex"].replace("other", "f"))
    resumed = ridge().fit_stream(iter(cut(mended, [400, 900])), **NAMED, checkpoint=path)
    assert_equal_fits(resumed, ridge().fit_stream(iter(cut(mended, [400, 900])), **NAMED))


def test_a_source_that_can_be_read_twice_shows_all_its_categories():
    with expected_warnings():
        model = ridge().fit_stream(unseen(), **NAMED)
    assert model.moments_.n_rows == N


@pytest.mark.parametrize("rows", [N - 100, N + 100])
def test_rows_that_come_and_go_between_the_passes(rows):
    reads = []

    def changing():
        reads.append(1)
        yield from cut(table(N if len(reads) == 1 else rows), [500])

    with pytest.raises(ValueError, match=f"had {N} rows and now has {rows}: it changed"):
        ridge().fit_stream(changing, **NAMED)


def test_progress_is_shown_when_asked_for(capsys):
    ridge(verbose=1).fit_stream(ROWS, **NAMED)
    said = capsys.readouterr()
    assert "moments" in said.err + said.out
