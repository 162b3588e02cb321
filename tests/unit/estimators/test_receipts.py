"""Receipts of every estimator: inputs, files, streams, printed forms and errors."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairnessReceipt,
    FairPostprocessor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
FIXED = {"gamma": 0.2, "n_components": 40, "random_state": 0}


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    s = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b", "c"], n)})
    X = rng.normal(size=(n, 3))
    X[:, 0] += s["sex"] == "m"
    X[:, 1] += s["race"] == "a"
    y = np.where(X.sum(axis=1) + rng.normal(size=n) > 0.5, "yes", "no")
    return X, y, s


def people(n=300):
    X, _, s = rows(n)
    town = pd.Series(X[:, 1]).gt(0.3).map({True: "north", False: "south"})
    frame = pd.DataFrame({"pay": X[:, 0], "town": town, "debt": X[:, 2]})
    frame.loc[::7, "debt"] = np.nan
    frame.index = [f"p{i}" for i in range(n)]
    return frame, X.sum(axis=1), s.set_axis(frame.index)


def assert_sums(receipt):
    total = receipt.parts.sum(axis=1) + receipt.rescaling
    np.testing.assert_allclose(total, receipt.change, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (FairRidge(**FIXED), "prediction"),
        (FairRidgeClassifier(**FIXED), "score"),
        (FairGPClassifier(**FIXED), "log odds"),
        (FairGPClassifier(**FIXED, likelihood="gaussian"), "score"),
        (FairClassifier(LogisticRegression()), "log odds"),
        (FairRidgeClassifier(**FIXED, equalize="decisions"), "margin of the rule"),
    ],
    ids=str,
)
def test_scales(model, scale):
    X, y, s = rows()
    y = X.sum(axis=1) if scale == "prediction" else y
    receipt = model.fit(X, y, sensitive_features=s).explain_fairness(X)
    assert isinstance(receipt, FairnessReceipt)
    assert receipt.scale == scale
    assert receipt.classes is None
    assert receipt.fairness == 1.0
    assert_sums(receipt)


def test_a_frozen_model():
    X, y, s = rows()
    frozen = LogisticRegression().fit(X[:150], y[:150])
    model = FairPostprocessor(frozen, sensitive_estimator="linear")
    model.fit(X[150:], y[150:], sensitive_features=s[150:])
    receipt = model.explain_fairness(X)
    np.testing.assert_allclose(receipt.after, model.decision_function(X), atol=1e-12)
    assert_sums(receipt)


@pytest.mark.parametrize(
    ("removal", "equalize"),
    [("new_rows", "scores"), ("new_rows", "decisions"), ("training_rows", "scores")],
)
@pytest.mark.parametrize("keep_moments", [True, False])
def test_files(tmp_path, removal, equalize, keep_moments):
    X, y, s = rows()
    model = FairGPClassifier(**FIXED, removal=removal, equalize=equalize, fairness=0.7)
    model.fit(X, y, sensitive_features=s)
    save_model(model, tmp_path / "m.skops", keep_moments=keep_moments)
    loaded = load_model(tmp_path / "m.skops")
    for a, b in ((loaded, model), (loaded.at(1.0), model.at(1.0))):
        found, expected = a.explain_fairness(X), b.explain_fairness(X)
        np.testing.assert_allclose(found.parts, expected.parts, atol=1e-9)
        np.testing.assert_allclose(found.rescaling, expected.rescaling, atol=1e-9)


def test_blocks_and_workers():
    X, y, s = rows()
    y = X.sum(axis=1)
    whole = FairRidge(kernel="linear", random_state=0)
    whole.prepare(X, y, sensitive_features=s, folds="position")
    first, second = (FairRidge(kernel="linear", random_state=0) for _ in range(2))
    for est in (first, second):
        est.prepare(X, y, sensitive_features=s, folds="position")
    whole.partial_fit(X, y, sensitive_features=s)
    first.partial_fit(X[:100], y[:100], sensitive_features=s[:100], solve=False)
    second.partial_fit(X[100:], y[100:], sensitive_features=s[100:], solve=False, start=100)
    merged = first.merge(second)
    found, expected = merged.explain_fairness(X), whole.explain_fairness(X)
    np.testing.assert_allclose(found.parts, expected.parts, atol=1e-8)
    np.testing.assert_allclose(found.rescaling, expected.rescaling, atol=1e-8)
    assert np.abs(expected.parts).max() > 0.1


def test_a_stream_of_blocks():
    X, y, s = rows()
    model = FairRidgeClassifier(**FIXED).fit_stream([(X, y, s)])
    assert_sums(model.explain_fairness(X))


def test_frames_with_text_are_divided_by_their_own_columns():
    frame, y, s = people()
    model = FairRidge(kernel="linear").fit(frame, y, sensitive_features=s)
    receipt = model.explain_fairness(frame)
    assert receipt.column_names == ("pay", "debt", "town")
    assert receipt.columns.shape == (len(frame), 2, 3)
    np.testing.assert_allclose(receipt.columns.sum(axis=2), receipt.parts, atol=1e-10)
    # Where only the town differs, only its column differs.
    moved = frame.assign(town="north")
    change = model.explain_fairness(moved).columns - receipt.columns
    assert np.abs(change[:, :, :2]).max() == 0.0 < np.abs(change[:, :, 2]).max()


def test_to_frame_keeps_the_index_and_names_columns():
    frame, y, s = people()
    receipt = FairRidge(**FIXED).fit(frame, y, sensitive_features=s).explain_fairness(frame[5:20])
    table = receipt.to_frame()
    assert list(table) == ["before", "after", "part_sex", "part_race", "rescaling"]
    assert table.index.tolist() == frame.index[5:20].tolist()
    total = table[["part_sex", "part_race", "rescaling"]].sum(axis=1)
    np.testing.assert_allclose(total, table["before"] - table["after"], atol=1e-10)
    assert receipt.columns is None
    assert "kernel='linear'" in receipt.columns_reason


def test_a_frame_of_polars_has_no_index():
    pl = pytest.importorskip("polars")
    frame, y, s = people()
    frame = pl.from_pandas(frame.reset_index(drop=True))
    receipt = FairRidge(**FIXED).fit(frame, y, sensitive_features=s.to_numpy()[:, 0])
    receipt = receipt.explain_fairness(frame)
    assert receipt.index is None
    assert_sums(receipt)


def test_tensors_are_explained_like_arrays():
    torch = pytest.importorskip("torch")
    X, y, s = rows()
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    found, expected = model.explain_fairness(torch.tensor(X)), model.explain_fairness(X)
    np.testing.assert_allclose(found.parts, expected.parts, atol=1e-10)
    np.testing.assert_allclose(found.columns, expected.columns, atol=1e-10)


def test_three_classes_have_one_split_each():
    X, _, s = rows()
    y = np.digitize(X.sum(axis=1), [-0.5, 0.8])
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    receipt = model.explain_fairness(X)
    assert receipt.classes == (0, 1, 2)
    assert receipt.parts.shape == (len(X), 2, 3)
    assert receipt.columns.shape == (len(X), 2, 3, 3)
    np.testing.assert_allclose(receipt.after, model.decision_function(X), atol=1e-12)
    assert "part_sex of 1" in receipt.to_dict()
    assert_sums(receipt)


def test_printed_forms():
    X, y, s = rows()
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    receipt = model.explain_fairness(X)
    text = repr(receipt)
    assert "300 rows at fairness 1: score, the 5 that change most" in text
    largest = int(np.argmax(np.abs(receipt.change)))
    assert text.splitlines()[2].split()[0] == str(largest)
    assert "<table" in receipt._repr_html_()
    assert "part_race" in receipt._repr_html_()
    assert len(repr(model.explain_fairness(X[:2])).splitlines()) == 4
    assert len(model.explain_fairness(X[:2])) == 2


def test_columns_can_be_left_out():
    X, y, s = rows()
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    receipt = model.explain_fairness(X, columns=False)
    assert receipt.columns is None
    assert "columns=False" in receipt.columns_reason


def test_a_limit_on_ratios_in_classes_has_no_columns():
    X, y, s = rows(500)
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    receipt = model.at(min_ratio=0.95).explain_fairness(X)
    assert receipt.columns is None
    assert "ratios" in receipt.columns_reason
    assert_sums(receipt)


@pytest.mark.parametrize(
    "params",
    [{"method": "paper", "eta": 1e-3}, {"method": "rkhs"}, {"subspace": "fair"}],
    ids=str,
)
def test_models_without_a_form(params):
    X, _, s = rows(100)
    name = next(iter(params))
    model = FairRidge(**FIXED, **params).fit(X, X.sum(axis=1), sensitive_features=s["sex"])
    with pytest.raises(ValueError, match=f"explain_fairness has no form for {name}="):
        model.explain_fairness(X)


def test_a_precomputed_kernel_has_no_form():
    X, _, s = rows(100)
    model = FairRidge(kernel="precomputed").fit(X @ X.T, X[:, 0], sensitive_features=s["sex"])
    with pytest.raises(ValueError, match="no form for kernel='precomputed'"):
        model.explain_fairness(X @ X.T)


def test_a_file_of_an_earlier_version():
    X, y, s = rows()
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    vars(model._solution.new_rows)["parts"] = None
    with pytest.raises(ValueError, match=r"saved by a version .* Fit it again"):
        model.explain_fairness(X)


def test_rows_of_other_columns():
    frame, y, s = people()
    model = FairRidge(**FIXED).fit(frame, y, sensitive_features=s)
    with pytest.raises(ValueError, match="debt"):
        model.explain_fairness(frame.drop(columns="debt"))
    X, y, s = rows()
    model = FairRidge(**FIXED).fit(X, X[:, 0], sensitive_features=s)
    with pytest.raises(ValueError, match="2 features"):
        model.explain_fairness(X[:, :2])


def test_parameters_that_changed_after_the_fit():
    X, y, s = rows()
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    model.gamma = 1.0
    with pytest.raises(ValueError, match="gamma was changed"):
        model.explain_fairness(X)


def test_a_representation_predicts_nothing_to_explain():
    assert not hasattr(FairRepresentation(), "explain_fairness")


def test_a_constant_target_has_parts_of_zero():
    X, _, s = rows(60)
    receipt = FairRidge(**FIXED).fit(X, np.ones(60), sensitive_features=s).explain_fairness(X)
    assert not receipt.parts.any()
    np.testing.assert_allclose(receipt.before, receipt.after)
