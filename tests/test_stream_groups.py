"""Streams of rows that belong together: a group is never divided between folds."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairGPClassifier, FairRidge, FairRidgeClassifier
from fairspan.method.pilot import Pilot
from tests.support.stream_data import FEATURES, FIXED, cut, labelled, small_blocks, table

ROLES = {"target": "y", "sensitive_features": "sex", "groups": "person"}
CHOSEN = {**FIXED, "alpha": "auto"}  # the folds choose the ridge
PERSONS = np.random.default_rng(3).integers(0, 300, 1200)


def visits(make=table):
    return make().assign(person=np.char.add("p", PERSONS.astype(str)))


def same(one, other):
    X = table()[FEATURES]
    for est in (one, other):
        assert est.pilot_.fold_rule == "hash"
    first, second = (
        est.predict(X if hasattr(est, "feature_names_in_") else X.to_numpy())
        for est in (one.at(0.5), other.at(0.5))
    )
    np.testing.assert_allclose(first, second, rtol=0.0, atol=1e-10)
    assert one.pilot_.cluster_share == other.pilot_.cluster_share
    blocks = (est.certificate_.new_rows.blocks for est in (one, other))
    for a, b in zip(*blocks, strict=True):
        assert a.n_effective == pytest.approx(b.n_effective, rel=1e-12)
        assert a.correlation == pytest.approx(b.correlation, abs=1e-9)
        if a.independent_spread == b.independent_spread:  # measured on a stream of one block
            assert a.high == pytest.approx(b.high, rel=1e-8)


@pytest.fixture(scope="module")
def batch():
    """Rows in memory with the same rule of folds."""
    frame = visits()
    X, y, s = (frame[names].to_numpy() for names in (FEATURES, "y", "sex"))
    given = {"sensitive_features": s, "groups": frame["person"].to_numpy()}
    model = FairRidge(**CHOSEN).prepare(X, y, **given, folds="hash").partial_fit(X, y, **given)
    data = model._read(X, y, s, None, None, reset=False, groups=given["groups"])
    model._state = model._with_spread(model._fit_state, data)
    model._locate()
    return model


@pytest.mark.parametrize("kind", ["frames", "shuffled", "dicts", "array", "files", "dask"])
def test_any_source_gives_the_model_of_rows_in_memory(kind, batch, tmp_path):
    frame, given = visits(), ROLES
    source = cut(frame, [100, 777])
    if kind == "shuffled":
        order = np.random.default_rng(0).permutation(len(frame))
        source = cut(frame.iloc[order], [10, 500])
    elif kind == "dicts":
        given = {}
        source = [
            {
                "X": part[FEATURES].to_numpy(),
                "y": part["y"].to_numpy(),
                "sensitive_features": part["sex"].to_numpy(),
                "groups": part["person"].to_numpy(),
            }
            for part in source
        ]
    elif kind == "array":
        source = frame[FEATURES].to_numpy()
        given = {name: frame[column].to_numpy() for name, column in ROLES.items()}
    elif kind == "files":
        pytest.importorskip("pyarrow")
        for i, part in enumerate(source):
            part.to_parquet(tmp_path / f"{i}.parquet")
        source = str(tmp_path / "*.parquet")
    elif kind == "dask":
        source = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=5)
    model = FairRidge(**CHOSEN).fit_stream(source, **given)
    same(model, batch)
    assert model.pilot_.cluster_share == len(np.unique(PERSONS)) / 1200
    assert model.n_features_in_ == 3
    assert "person" not in getattr(model, "feature_names_in_", ())


def test_no_group_is_divided_and_all_rows_are_counted(monkeypatch):
    """The sample has a third of the rows, but every group is counted."""
    dealt, deal = [], Pilot.folds

    def folds(self, data, encoded, counter):
        out = deal(self, data, encoded, counter)
        dealt.extend(zip(data.clusters.tolist(), np.asarray(out).tolist(), strict=True))
        return out

    monkeypatch.setattr(Pilot, "folds", folds)
    with small_blocks():
        model = FairRidge(**CHOSEN).fit_stream(cut(visits(), [300]), **ROLES)
    found = pd.DataFrame(dealt, columns=["person", "fold"])
    assert len(found) == 1200
    assert found.groupby("person")["fold"].nunique().max() == 1
    assert found["fold"].nunique() == 5
    assert model.pilot_.cluster_share == len(np.unique(PERSONS)) / 1200
    (block,) = model.certificate_.new_rows.blocks
    assert block.n_effective == pytest.approx(len(np.unique(PERSONS)))


def test_merged_parts_are_the_stream():
    frame = visits()
    with small_blocks(sample=5000):
        whole = FairRidge(**CHOSEN).fit_stream([frame], **ROLES)
    X, y, s, person = (frame[names].to_numpy() for names in (FEATURES, "y", "sex", "person"))
    first = FairRidge(**CHOSEN).prepare(X, y, sensitive_features=s, groups=person, folds="hash")
    parts = []
    for rows in np.array_split(np.arange(1200), 3):
        part = FairRidge(**CHOSEN)
        part.__dict__.update(first.__dict__)
        parts.append(
            part.partial_fit(
                X[rows], y[rows], sensitive_features=s[rows], groups=person[rows], solve=False
            )
        )
    same(parts[2].merge(parts[0], solve=False).merge(parts[1]), whole)


@pytest.mark.filterwarnings("ignore::fairspan.DataWarning")
@pytest.mark.parametrize(
    "model",
    [FairGPClassifier(**FIXED), FairRidgeClassifier(**FIXED, equalize="decisions")],
    ids=["likelihood", "decisions"],
)
def test_later_passes_use_the_folds_of_groups(model):
    frame = visits(labelled)
    model.fit_stream(cut(frame, [300, 301]), **ROLES)
    if model.equalize == "scores":
        assert model.calibration_ == "held-out"
        return
    folds = model._fit_state.rule_rows.folds
    of_person = pd.DataFrame({"person": PERSONS, "fold": folds}).groupby("person")["fold"]
    assert of_person.nunique().max() == 1


def test_killed_fits_with_groups_go_on(tmp_path):
    path, frame = tmp_path / "fit.ckpt", visits()
    with small_blocks():
        whole = FairRidge(**CHOSEN).fit_stream([frame], **ROLES, checkpoint=path)
        again = FairRidge(**CHOSEN).fit_stream([frame], **ROLES, checkpoint=path)
        X = frame[FEATURES]
        np.testing.assert_array_equal(again.predict(X), whole.predict(X))
        frame["person"] = frame["person"].to_numpy()[::-1]
        with pytest.raises(ValueError, match="the rows, and with them landmarks"):
            FairRidge(**CHOSEN).fit_stream([frame], **ROLES, checkpoint=path)


def test_inputs_that_cannot_be():
    frame = visits()
    with pytest.raises(ValueError, match="groups names"):
        FairRidge(**FIXED).fit_stream([frame], **{**ROLES, "groups": "nobody"})
    with pytest.raises(ValueError, match="cannot be both sensitive_features and groups"):
        FairRidge(**FIXED).fit_stream([frame], **{**ROLES, "groups": "sex"})
    with pytest.raises(ValueError, match="'person' is given as groups, so it cannot be a feature"):
        FairRidge(**FIXED).fit_stream([frame], **ROLES, features=["a", "person"])
    gone = frame.assign(person=frame["person"].where(np.arange(1200) != 5))
    with pytest.raises(ValueError, match="groups is missing in 1 rows"):
        FairRidge(**FIXED).fit_stream([gone], **ROLES)
    with small_blocks(), pytest.raises(ValueError, match="groups are counted over all rows"):
        FairRidge(**FIXED).fit_stream(iter(cut(frame, [300, 500])), **ROLES)


def test_blocks_have_groups_if_the_prepared_rows_have():
    X, y, s = (table()[names].to_numpy() for names in (FEATURES, "y", "sex"))
    given = {"sensitive_features": s, "groups": PERSONS}
    model = FairRidge(**FIXED).prepare(X, y, **given, folds="hash")
    with pytest.raises(ValueError, match="every block of rows needs groups"):
        model.partial_fit(X, y, sensitive_features=s)
    model = FairRidge(**FIXED).prepare(X, y, sensitive_features=s, folds="hash")
    with pytest.raises(ValueError, match="the estimator was prepared without"):
        model.partial_fit(X, y, **given)
    model = FairRidge(**FIXED).fit(X, y, **given)
    with pytest.raises(ValueError, match="a group with rows in a later block would be divided"):
        model.partial_fit(X, y, **given)


@pytest.mark.filterwarnings("ignore::fairspan.DataWarning")
def test_fit_head_takes_groups():
    frame = visits(labelled)
    X, y, s, person = (frame[names].to_numpy() for names in (FEATURES, "y", "sex", "person"))
    given = {"sensitive_features": s, "groups": person}
    model = FairGPClassifier(**FIXED).prepare(X, y, **given, folds="hash")
    model.partial_fit(X, y, **given)
    with pytest.raises(ValueError, match="every block of rows needs groups"):
        model.fit_head([(X, y, s)])
    blocks = [
        {"X": X[i], "y": y[i]} | {k: v[i] for k, v in given.items()}
        for i in (PERSONS < 99, PERSONS >= 99)
    ]
    assert model.fit_head(blocks).calibration_ == "held-out"
