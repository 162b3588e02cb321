"""Trees of scikit-learn as operations."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from fairspan import BoostedLeaves, FairClassifier, FairRegressor, FairRidge, export
from fairspan.deployment.models import write_program
from fairspan.deployment.trees import exact_threshold
from fairspan.exceptions import ExportError

N = 300


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    threshold=st.floats(-1e30, 1e30, allow_subnormal=False),
    steps=st.integers(-3, 3),
    scale=st.sampled_from([1.0, 1e-9, 1e-5, 1e-7, 3e-8]),
)
def test_thresholds_of_single_precision_trees_are_exact(threshold, steps, scale):
    """A number goes left exactly if it does so after rounding to float32, also next to the threshold."""
    exact = exact_threshold(threshold)
    near = [exact, threshold * (1.0 + steps * scale), threshold]
    for direction in (-np.inf, np.inf):
        near += [np.nextafter(exact, direction), np.nextafter(threshold, direction)]
        near.append(float(np.nextafter(np.float32(threshold), np.float32(direction))))
    for x in near:
        assert (x <= exact) == (float(np.float32(x)) <= threshold)


def data():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + s[:, None] * [1.0, 0.0, 0.5]
    return rng, X, X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.1 * rng.normal(size=N), s


def check(model, X, tmp_path):
    assert export(model, tmp_path / "model.npz", check=X).largest_difference < 1e-10
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    for dtype, limit in (("float64", 1e-10), ("float32", 1e-6)):
        written = export(model, tmp_path / "model.onnx", check=X, dtype=dtype)
        assert written.largest_difference < limit


@pytest.mark.parametrize("refit", [False, True])
def test_boosting(refit, tmp_path):
    rng, X, y, s = data()
    few = HistGradientBoostingRegressor(max_iter=8, random_state=0)
    counts = HistGradientBoostingRegressor(loss="poisson", max_iter=8, random_state=0)
    positive = FairRegressor([few, counts], sensitive_estimator=few, refit=refit, random_state=0)
    check(
        positive.fit(X, np.exp(0.3 * y), sensitive_features=s), rng.normal(size=(40, 3)), tmp_path
    )
    classes = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = FairClassifier(classes, refit=refit, random_state=0)
    for labels in (y > 0, np.digitize(y, [-1.0, 1.0])):
        check(model.fit(X, labels, sensitive_features=s), rng.normal(size=(40, 3)), tmp_path)


def test_boosting_of_a_constant_is_a_tree_of_one_leaf(tmp_path):
    rng, X, y, s = data()
    few = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=N, random_state=0)
    model = FairRegressor([few, "linear"], random_state=0).fit(X, y, sensitive_features=s)
    check(model, rng.normal(size=(10, 3)), tmp_path)


def test_boosting_reads_categories_as_sets(tmp_path):
    pd = pytest.importorskip("pandas")
    rng, X, y, s = data()
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        job=rng.choice(list("pqrstuvw"), N), city=rng.choice(["x", "y", None], N)
    )
    y = y + 2.0 * frame["job"].isin(["q", "t", "w"]) - 1.0 * (frame["city"] == "y")
    new = frame.sample(60, random_state=0).reset_index(drop=True)
    new.loc[:10, "job"] = "unknown"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rare in (0, 9):  # rows of a category that is merged with others
            frame.loc[: rare - 1, "job"] = "rare"
            few = HistGradientBoostingRegressor(max_iter=15, random_state=0)
            model = FairRegressor(few, random_state=0).fit(frame, y, sensitive_features=s)
            forest = write_program(model)
            sets = [step for step in forest.steps if step.operation == "trees"]
            assert len(sets) == 1
            assert forest.constants[sets[0].arguments[4]].any()  # some split is one of categories
            check(model, new, tmp_path)


def test_categories_by_position_are_refused():
    rng, X, y, s = data()
    X[:, 2] = rng.integers(0, 4, N)
    few = HistGradientBoostingRegressor(max_iter=3, categorical_features=[2], random_state=0)
    model = FairRegressor(few, random_state=0).fit(X, y, sensitive_features=s)
    with pytest.raises(ExportError, match=r"categorical_features on an array. Fit on a frame"):
        write_program(model)


def test_boosted_leaves(tmp_path):
    rng, X, y, s = data()
    leaves = BoostedLeaves(n_trees=4, random_state=0)
    model = FairRidge(feature_map=leaves, random_state=0).fit(X, y, sensitive_features=s)
    new = rng.normal(size=(50, 3))
    # Numbers next to thresholds.
    tree = model._pilot.features.transformer.models_[0][0].estimators_.ravel()[0].tree_
    new[:6, tree.feature[0]] = np.float32(tree.threshold[0])
    new[:3, tree.feature[0]] *= 1.0 + np.array([-1e-9, 0.0, 1e-9])
    check(model, new, tmp_path)
    with pytest.raises(ExportError, match="Check with other rows than those of the fit"):
        export(model, tmp_path / "other.npz", check=X)
    assert not (tmp_path / "other.npz").exists()
