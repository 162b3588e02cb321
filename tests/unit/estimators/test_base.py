"""Frames with text, dates and missing values go straight into every estimator."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairspan import (
    DataWarning,
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    load_model,
    save_model,
    table_encoder,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

FIXED = {"gamma": 0.5, "eta": 1e-3, "alpha": 1.0}
KERNEL = [
    FairRepresentation(**FIXED),
    FairRidge(**FIXED),
    FairRidgeClassifier(**FIXED),
    FairGPRegressor(gamma=0.5, eta=1e-3),
    FairGPClassifier(gamma=0.5, eta=1e-3),
]
LEARNERS = [FairClassifier("kernel"), FairRegressor("kernel")]
EVERY = pytest.mark.parametrize("model", KERNEL + LEARNERS, ids=lambda m: type(m).__name__)
N = 160


def people(n=N, seed=0):
    """A table with every kind of column, a target of two classes, and groups."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    x = rng.normal(size=n) + 0.7 * s
    table = pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, x),
            "town": rng.choice(["north", "south", "west"], n),
            "grade": pd.Categorical(np.where(x > 0.5, "high", "low")),
            "owner": rng.random(n) < 0.5,
            "opened": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "visits": rng.integers(0, 9, n),
        }
    )
    y = (x + 0.5 * table["visits"] - 2.0 + rng.normal(size=n) > 0.4).to_numpy().astype(int)
    return table, y, np.where(s, "a", "b")


TABLE, Y, S = people()
FRAMES = {"pandas": TABLE, "polars": pl.DataFrame(TABLE.to_dict("list"))}


def out(model, X):
    for name in ("decision_function", "transform", "predict"):
        if hasattr(model, name):
            return getattr(model, name)(X)
    raise AssertionError


@EVERY
@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_is_encoded_as_by_a_pipeline(model, library):
    table = FRAMES[library]
    direct = clone(model).fit(table, Y, sensitive_features=S)
    encoder = table_encoder(table).fit(table)
    by_hand = clone(model).fit(encoder.transform(table), Y, sensitive_features=S)
    expected = out(by_hand, encoder.transform(table))
    np.testing.assert_allclose(out(direct, table), expected, rtol=0, atol=1e-12)
    assert direct.feature_names_in_.tolist() == list(table.columns)
    assert direct.text_features_ == ["town", "grade"]


@EVERY
def test_frames_of_numbers_and_arrays_stay_as_they_are(model):
    X = np.c_[TABLE["visits"], TABLE["owner"], TABLE["income"].fillna(0.0)].astype(float)
    frame = pd.DataFrame(X, columns=list("abc"))
    given = {"sensitive_features": S}
    from_array = clone(model).set_params(encoder=None).fit(X, Y, **given)
    for table in (frame, frame.astype({"b": bool}), frame.astype({"a": object})):
        direct = clone(model).fit(table, Y, **given)
        assert not hasattr(direct, "encoder_")
        np.testing.assert_array_equal(out(direct, table), out(from_array, X))
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(np.where(X == 1.0, np.nan, X), Y, **given)
    with pytest.raises(ValueError, match="NaN"):
        out(direct, frame.replace(1.0, np.nan))


@pytest.mark.parametrize("model", [KERNEL[1], KERNEL[4], LEARNERS[0]], ids=str)
def test_new_rows_may_have_other_orders_columns_and_categories(model):
    table = TABLE.assign(sex=S)
    fitted = clone(model).fit(table, Y, sensitive_features="sex")
    expected = out(fitted, table)
    np.testing.assert_array_equal(out(fitted, table[table.columns[::-1]]), expected)
    np.testing.assert_array_equal(out(fitted, TABLE.assign(more=1.0)), expected)
    with pytest.warns(DataWarning, match="'town': 1 of 9 values were not in the training data"):
        unknown = out(fitted, TABLE[:9].assign(town=["moon", *TABLE["town"][1:9]]))
    np.testing.assert_array_equal(unknown[1:], out(fitted, TABLE[:9])[1:])
    with pytest.raises(ValueError, match="X has no column 'town'"):
        out(fitted, TABLE.drop(columns="town"))
    with pytest.raises(ValueError, match="needs a data frame"):
        out(fitted, np.zeros((3, 6)))


@pytest.mark.parametrize("model", [KERNEL[2], KERNEL[4], LEARNERS[0]], ids=str)
def test_dial_paths_audits_and_files_take_the_frame(model, tmp_path):
    fitted = clone(model).fit(TABLE, Y, sensitive_features=S)
    new, labels, groups = people(seed=1)
    path = FairnessPath.from_estimator(fitted, new, labels, sensitive_features=groups)
    errors = [np.mean(fitted.at(t).predict(new) != labels) for t in (0.0, 1.0)]
    np.testing.assert_allclose(path.table()["error"].iloc[[0, -1]], errors)
    own = fairness_path(clone(model), TABLE, Y, sensitive_features=S)
    assert own.table()["error"].between(0, 1).all()
    found = audit(fitted, new, labels, sensitive_features=groups, parts=["scores", "decisions"])
    assert found.select("decisions")
    pytest.importorskip("skops")
    loaded = load_model(save_model(fitted, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.at(0.4).predict(new), fitted.at(0.4).predict(new))


def test_searches_and_pipelines_take_the_frame():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(FairRidgeClassifier(**FIXED), {"alpha": [0.1, 10.0]}, cv=2)
        search.fit(TABLE, Y, sensitive_features=S)
        assert search.best_estimator_.encoder_ is not None
        steps = make_pipeline(FunctionTransformer(), FairRidgeClassifier(**FIXED))
        steps.fit(TABLE, Y, sensitive_features=S)
    alone = FairRidgeClassifier(**FIXED).fit(TABLE, Y, sensitive_features=S)
    np.testing.assert_array_equal(steps.predict(TABLE), alone.predict(TABLE))


def test_weights_of_zero_and_groups_by_name():
    weight = np.ones(N)
    weight[:20] = 0.0
    table = TABLE.assign(family=np.arange(N) // 4)
    model = FairRidge(**FIXED)
    model.fit(table, Y, sensitive_features=S, groups="family", sample_weight=weight)
    assert model.pilot_.cluster_share == 0.25
    assert "family" not in model.feature_names_in_


def test_what_is_not_encoded():
    given = {"sensitive_features": S}
    with pytest.raises(ValueError, match="encoder='table' is not allowed; give 'auto' or None"):
        FairRidge(encoder="table").fit(TABLE, Y, **given)
    for method in ("partial_fit", "prepare"):
        with pytest.raises(ValueError, match=r"not numbers: 'town'.*let `fit` or `fit_stream`"):
            getattr(FairRidge(**FIXED), method)(TABLE, Y, **given)
    with pytest.raises(TypeError, match=r"drop them: 'stay' \(Duration"):
        FairRidge(**FIXED).fit(TABLE.assign(stay=pd.Timedelta(1, "D")), Y, **given)
    with pytest.raises(ValueError, match=r"column names must be strings, got \[0, 1.*rename"):
        FairRidge(**FIXED).fit(TABLE.set_axis(range(6), axis=1), Y, **given)
    with pytest.raises(ValueError, match="sensitive_features"):
        FairRidge(**FIXED).fit(TABLE, Y)
    kernel = pd.DataFrame(np.eye(N), columns=[f"k{i}" for i in range(N)])
    kernel.iloc[3, 4] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        FairRidge("precomputed", removal="training_rows").fit(kernel, Y, **given)
