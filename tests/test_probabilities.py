"""Protected attributes as probabilities, from call to file: inputs, streams, files, refusals, warnings."""

import re

import numpy as np
import pandas as pd
import pytest

from fairspan import (
    BoostedLeaves,
    DataWarning,
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.exceptions import FairspanWarning
from fairspan.plotting import GroupDistributionDisplay

FEW = {"n_components": 30, "gamma": 0.1, "random_state": 0}
QUIET = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


def frame(n=400, seed=0, classes=False):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.9, 2.1, n)
    s = rng.random(n) < p
    X = rng.normal(size=(n, 3)) + 0.7 * s[:, None]
    y = X.sum(axis=1) + rng.normal(size=n)
    out = pd.DataFrame(X, columns=["u", "v", "w"])
    out["race_a"], out["race_b"] = p, 1.0 - p
    out["y"] = np.where(y > 0.6, "yes", "no") if classes else y
    return out


RACE = ["race_a", "race_b"]
ROLES = {"sensitive_features": RACE}


def fit(model, table, **options):
    return model.fit(table.drop(columns="y"), table["y"], **ROLES, **options)


def test_a_warning_states_the_assumptions_once():
    with pytest.warns(DataWarning) as seen:
        fit(FairRidge(**FEW, sensitive_kind="probabilities"), frame())
    told = [str(w.message) for w in seen if "calibrated" in str(w.message)]
    assert len(told) == 1
    assert "only through the group" in told[0]
    assert "each class" not in told[0]


@QUIET
def test_the_certificate_says_how_much_the_rows_tell():
    model = fit(FairRidge(**FEW, sensitive_kind="probabilities"), frame())
    assert model.sensitive_kinds_ == {"race": "probabilities"}
    text = str(model.certificate_)
    size = model.certificate_.blocks[0].n_equivalent
    assert f"race: 400 rows with probabilities tell as much as {size:,.0f} with a known" in text
    assert model.certificate_.to_dict()["blocks"][0]["n_equivalent"] == size
    assert size < 200


def test_probabilities_of_0_and_1_assume_nothing():
    table = frame()
    table[RACE] = np.round(table[RACE])
    model = fit(FairRidge(**FEW, sensitive_kind="probabilities"), table)  # a warning is an error
    assert "tell as much as 400" in str(model.certificate_)


@QUIET
@pytest.mark.parametrize(
    "make",
    [
        FairRidgeClassifier,
        FairGPClassifier,
        lambda **k: FairGPClassifier(likelihood="gaussian", **k),
    ],
)
@pytest.mark.parametrize("criterion", ["sp", "eo"])
def test_classifiers(make, criterion):
    table = frame(1500, classes=True)
    kinds = {"sensitive_kind": {"race": "probabilities"}, "n_sensitive_directions": "all"}
    model = fit(make(**FEW, **kinds, criterion=criterion), table)
    X = table[["u", "v", "w"]]
    assert model.certificate_.new_rows.correlation < 1e-6
    assert model.at(0.0).certificate_.new_rows.correlation > 0.2
    assert set(model.predict(X)) <= {"yes", "no"}
    with pytest.raises(ValueError, match="does not go with equalize='decisions'"):
        model.at(max_gap=0.1)


@QUIET
def test_other_estimators():
    table = frame()
    options = {"sensitive_kind": "probabilities"}
    for model in (FairGPRegressor(**FEW, **options), FairRepresentation(**FEW, **options)):
        assert fit(model, table).certificate_.new_rows.correlation < 1e-6
    fair = fit(FairRepresentation(**FEW, **options, subspace="fair"), table)
    assert fair.certificate_.supremum < 1e-8
    learner = FairClassifier("linear", sensitive_kind="probabilities")
    assert fit(learner, frame(classes=True)).certificate_.new_rows.correlation < 1e-6


@QUIET
def test_another_attribute_beside_probabilities():
    table = frame()
    table["age"] = np.random.default_rng(1).normal(size=len(table)) + table["u"]
    table["sex"] = np.where(table["v"] + np.random.default_rng(2).normal(size=400) > 0, "f", "m")
    kinds = {"race": "probabilities", "age": "continuous"}
    model = FairRidge(**FEW, sensitive_kind=kinds, n_sensitive_directions="all", n_slices=3)
    X, S = table[["u", "v", "w"]], table[["age", *RACE, "sex"]]
    model.fit(X, table["y"], sensitive_features=S)
    wanted = {"age": "continuous", "race": "probabilities", "sex": "categorical"}
    assert model.sensitive_kinds_ == wanted
    for block in model.certificate_.new_rows.blocks:
        assert not block.constrained or block.correlation < 1e-6


@QUIET
def test_missing_probabilities_are_left_out():
    table = frame()
    gaps = np.arange(400) % 4 == 0
    table.loc[gaps, RACE] = np.nan
    with pytest.raises(ValueError, match=r"'race' is missing .* in 100 rows"):
        fit(FairRidge(**FEW, sensitive_kind="probabilities"), table)
    model = FairRidge(**FEW, sensitive_kind="probabilities", missing_sensitive="omit")
    assert fit(model, table).certificate_.blocks[0].n_rows == 300


@QUIET
@pytest.mark.parametrize("form", ["blocks", "csv", "parquet"])
def test_a_stream_is_the_batch(form, tmp_path):
    table = frame()
    if form == "blocks":
        source = [table[:150], table[150:]]
    elif form == "csv":
        table[:150].to_csv(tmp_path / "1.csv", index=False)
        table[150:].to_csv(tmp_path / "2.csv", index=False)
        source = str(tmp_path / "*.csv")
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / "all.parquet")
        source = str(tmp_path / "all.parquet")
    options = {
        **FEW,
        "sensitive_kind": {"race": "probabilities"},
        "landmarks": frame(20).iloc[:, :3],
    }
    del options["n_components"]
    roles = {"target": "y", "sensitive_features": RACE}
    streamed = FairRidge(**options).fit_stream(source, **roles)
    whole = FairRidge(**options)
    X, S = table[["u", "v", "w"]], table[RACE]
    whole.prepare(X, table["y"], sensitive_features=S, folds="position")
    whole.partial_fit(X, table["y"], sensitive_features=S)
    np.testing.assert_allclose(streamed.predict(X), whole.predict(X), atol=1e-8)
    wanted = whole.certificate_.blocks[0].n_equivalent
    np.testing.assert_allclose(streamed.certificate_.blocks[0].n_equivalent, wanted, rtol=1e-9)


@QUIET
def test_a_saved_model_goes_on(tmp_path):
    pytest.importorskip("skops")
    table = frame()
    model = fit(FairRidge(**FEW, sensitive_kind="probabilities"), table)
    loaded = load_model(save_model(model, tmp_path / "model.fairspan"))
    X = table[["u", "v", "w"]]
    for t in (0.0, 0.5, 1.0):
        np.testing.assert_array_equal(loaded.at(t).predict(X), model.at(t).predict(X))
    assert str(loaded.certificate_) == str(model.certificate_)
    more = frame(100, seed=3)
    for each in (loaded, model):
        each.partial_fit(more[["u", "v", "w"]], more["y"], sensitive_features=more[RACE])
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-12)


@QUIET
def test_a_checkpoint_has_the_second_moments(tmp_path):
    table = frame(3000)
    options = {**FEW, "sensitive_kind": "probabilities"}
    path = tmp_path / "half"
    roles = {"target": "y", "sensitive_features": RACE}

    def blocks(stop):
        for start in range(0, 3000, 500):
            if start == stop:
                raise KeyboardInterrupt
            yield table[start : start + 500]

    wanted = FairRidge(**options).fit_stream(lambda: blocks(None), **roles)
    with pytest.raises(KeyboardInterrupt):
        FairRidge(**options).fit_stream(lambda: blocks(1500), **roles, checkpoint=path)
    found = FairRidge(**options).fit_stream(lambda: blocks(None), **roles, checkpoint=path)
    assert str(found.certificate_) == str(wanted.certificate_)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "paper"}, "does not go with method='paper'"),
        ({"intersectional": True}, "probability of each combination"),
        ({"feature_map": BoostedLeaves()}, "BoostedLeaves uses the groups of rows"),
    ],
)
@pytest.mark.filterwarnings("ignore::fairspan.exceptions.DataWarning")
def test_refused(options, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        fit(FairRidge(sensitive_kind="probabilities", **options), frame())


def test_decisions_are_refused_before_the_rows_are_read():
    for model in (FairRidgeClassifier, FairClassifier):
        with pytest.raises(ValueError, match="equalize='decisions'"):
            model(sensitive_kind="probabilities", equalize="decisions").fit(None, None)


@QUIET
def test_what_needs_groups_of_rows_is_refused():
    kinds = {"sensitive_features": frame(classes=True)[RACE], "sensitive_kind": "probabilities"}
    with pytest.raises(ValueError, match="needs the group of each row"):
        GroupDistributionDisplay.from_predictions(np.arange(400.0), **kinds)


def test_probabilities_that_tell_nothing():
    table = frame()
    table["race_a"], table["race_b"] = 0.3, 0.7
    with pytest.raises(ValueError, match="same probabilities in every row"):
        fit(FairRidge(sensitive_kind="probabilities"), table)


def test_tensors_are_refused():
    torch = pytest.importorskip("torch")
    table = frame()
    X, S = (torch.as_tensor(table[c].to_numpy()) for c in (["u", "v", "w"], RACE))
    with pytest.raises(ValueError, match="torch tensor"):
        FairRidge(sensitive_kind="probabilities").fit(X, table["y"], sensitive_features=S)


def test_groups_that_are_not_told_apart_are_named():
    table = frame()
    S = pd.DataFrame(
        {"g_a": table["race_a"], "g_b": table["race_b"] / 2, "g_c": table["race_b"] / 2}
    )
    model = FairRidge(**FEW, sensitive_kind="probabilities")
    with pytest.warns(FairspanWarning) as seen:
        model.fit(table[["u", "v", "w"]], table["y"], sensitive_features=S)
    assert any("do not tell these groups apart" in str(w.message) for w in seen)
    assert any("b, c in all rows" in str(w.message) for w in seen)
    assert model.certificate_.blocks[0].n_codes == 1
