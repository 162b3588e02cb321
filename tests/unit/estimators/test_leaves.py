"""BoostedLeaves: out-of-fold leaves, rows of the fit and others, targets, and as a feature map."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from tests.support.shifted import table
from tests.test_estimator_checks import TINY, run_checks

from fairspan import BoostedLeaves, FairRidge, FairRidgeClassifier, load_model, save_model
from fairspan.exceptions import DataWarning

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
SMALL = {"n_trees": 5}


def test_trees_do_not_see_the_rows_of_their_fold():
    X, _, _ = table(300)
    # The target has no relation to X: only trees that saw a row can predict it.
    noise = np.random.default_rng(0).normal(size=300)
    leaves = BoostedLeaves(cv=2, max_depth=12, n_trees=20, subsample=1.0).fit(X, noise)
    folds = leaves._fold_of(X)
    for k, (model,) in enumerate(leaves.models_):
        predicted = model.predict(X)
        own, others = (np.corrcoef(predicted[r], noise[r])[0, 1] for r in (folds == k, folds != k))
        assert abs(own) < 0.25
        assert others > 0.9


def test_blocks_of_columns():
    X, y, s = table(200)
    Z, _, _ = table(50, seed=1)
    leaves = BoostedLeaves(cv=3, **SMALL).fit(X, y, sensitive_features=s)
    sizes = [(places >= 0).sum() for places in leaves._places]
    ends = np.cumsum([0, *sizes])
    own, new, folds = leaves.transform(X), leaves.transform(Z), leaves._fold_of(X)
    assert (leaves._fold_of(Z) == -1).all()
    assert np.bincount(folds).tolist() == [67, 67, 66]
    for k in range(3):
        block = slice(ends[k], ends[k + 1])
        np.testing.assert_allclose((own[folds == k][:, block] ** 2).sum(axis=1), 1.0)
        assert not own[folds != k][:, block].any()
        np.testing.assert_allclose((new[:, block] ** 2).sum(axis=1), 1.0 / 9.0)
    assert new.shape[1] == ends[-1] == leaves.get_feature_names_out().size
    # On average, rows of the fit have the columns of new rows.
    many = BoostedLeaves(cv=2, **SMALL).fit(*table(4000)[:2])
    gap = many.transform(table(4000)[0]).mean(axis=0) - many.transform(table(4000, 1)[0]).mean(
        axis=0
    )
    assert np.abs(gap).max() < 0.02


def test_inner_products_are_shares_of_trees_with_a_common_leaf():
    X, y, _ = table(100)
    leaves = BoostedLeaves(cv=None, n_trees=20).fit(X, y)
    nodes = leaves.models_[0][0].apply(X).reshape(100, -1)
    share = (nodes[:, None] == nodes[None]).mean(axis=2)
    Z = leaves.transform(X)
    np.testing.assert_allclose(Z @ Z.T, share)


def test_copies_of_a_row_share_a_fold_and_row_order_does_not_matter():
    X, y, s = table(120)
    X = np.repeat(X[:40], 3, axis=0)
    leaves = BoostedLeaves(**SMALL).fit(X, y, sensitive_features=s)
    folds = leaves._fold_of(X)
    assert (folds.reshape(40, 3) == folds[::3, None]).all()
    order = np.random.default_rng(0).permutation(120)
    other = BoostedLeaves(**SMALL).fit(X[order], y[order], sensitive_features=s[order])
    np.testing.assert_array_equal(leaves.transform(X), other.transform(X))


def test_targets():
    X, y, s = table(200)
    age = X[:, 0] + s
    S = {"group": np.where(s == 1, "a", "b").astype(object), "age": age}
    S["group"][:30] = None
    kinds = {
        "auto": ["Classifier", "Classifier", "Regressor"],
        "y": ["Classifier"],
        "sensitive": ["Classifier", "Regressor"],
    }
    for targets, wanted in kinds.items():
        leaves = BoostedLeaves(targets=targets, **SMALL).fit(X, y, sensitive_features=S)
        names = [
            type(model).__name__.removeprefix("GradientBoosting") for model in leaves.models_[0]
        ]
        assert names == wanted
    alone = BoostedLeaves(targets="sensitive", **SMALL).fit(X, sensitive_features=s)
    assert alone.transform(X).shape[0] == 200
    number = BoostedLeaves(target_kind="continuous", **SMALL).fit(X, y)
    assert "Regressor" in type(number.models_[0][0]).__name__


def test_sparse_output_is_the_same():
    X, y, _ = table(100)
    dense, sparse = (BoostedLeaves(sparse_output=flag, **SMALL).fit(X, y) for flag in (False, True))
    out = sparse.transform(X)
    assert out.format == "csr"
    np.testing.assert_array_equal(out.toarray(), dense.transform(X))
    assert (out.getnnz(axis=1) == 5).all()


# ------------------------------------------------------------------ as a feature map


def test_a_feature_map_gets_y_and_s():
    X, y, s = table(600, classes=3)
    group = np.where(s == 1, "a", "b").astype(object)
    group[:40] = None
    leaves = BoostedLeaves(**SMALL)
    model = FairRidgeClassifier(feature_map=leaves, missing_sensitive="omit")
    model.fit(X, y, sensitive_features=pd.DataFrame({"g": group}))
    fitted = model.pilot_.features.transformer
    assert [len(m.estimators_.ravel()) for m in fitted.models_[0]] == [15, 5]
    assert set(fitted.models_[0][1].classes_) == {"a", "b"}
    numbers = FairRidge(feature_map=leaves).fit(X, y.astype(int), sensitive_features=s)
    assert "Regressor" in type(numbers.pilot_.features.transformer.models_[0][0]).__name__


def test_dependence_on_new_rows_falls():
    X, y, s = table(1500)
    Z, _, groups = table(10_000, seed=1)
    model = FairRidgeClassifier(feature_map=BoostedLeaves(n_trees=20))
    model.fit(X, y, sensitive_features=s)
    free, fair = (np.corrcoef(model.at(t).decision_function(Z), groups)[0, 1] for t in (0, 1))
    assert abs(fair) < 0.1 < 0.25 < free


def test_files(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y, s = table(200)
    model = FairRidge(feature_map=BoostedLeaves(**SMALL)).fit(X, y, sensitive_features=s)
    path = save_model(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match="does not trust"):
        load_model(path)
    loaded = load_model(path, trusted=skops.get_untrusted_types(file=path))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_routing_in_a_pipeline():
    X, y, s = table(200)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(BoostedLeaves(**SMALL), RidgeClassifier())
        pipe.fit(X, y, sensitive_features=s)
    assert len(pipe[0].models_[0]) == 2


@TINY
def test_every_check_passes():
    outcome = run_checks(BoostedLeaves(**SMALL))
    assert {name: error for name, error in outcome.items() if error is not None} == {}
    assert len(outcome) >= 40


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize(
    "check",
    [
        "check_dataframe_column_names_consistency",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
    ],
)
def test_checks_that_scikit_learn_keeps_for_its_own(check):
    estimator = BoostedLeaves(**SMALL)
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"targets": "both"}, "targets='both' is not allowed"),
        ({"cv": 1}, "cv=1 is not allowed; give a whole number from 2 up"),
        ({"n_trees": 0}, "n_trees=0 is not allowed"),
        ({"subsample": 0.0}, "subsample=0.0 is not allowed"),
        ({"cv": 99}, "99 folds need at least 198"),
        ({"targets": "sensitive"}, "requires sensitive_features to be passed"),
    ],
)
def test_what_is_not_allowed(params, text):
    X, y, _ = table(100)
    with pytest.raises(ValueError, match=text):
        BoostedLeaves(**params).fit(X, y)


def test_targets_that_cannot_be_learnt():
    X, y, _ = table(20)
    with pytest.raises(ValueError, match="one value only"):
        BoostedLeaves().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="y has 10 rows, X has 20"):
        BoostedLeaves().fit(X, y[:10])
    with pytest.raises(ValueError, match="NaN or None in 1 rows"):
        BoostedLeaves().fit(X, [None, *["a"] * 9, *["b"] * 10])


def test_groups_and_weights_of_a_fit_are_not_ignored_silently():
    X, y, s = table(200)
    model = FairRidgeClassifier(feature_map=BoostedLeaves(**SMALL))
    with pytest.raises(ValueError, match="groups was given, but BoostedLeaves"):
        model.fit(X, y, sensitive_features=s, groups=np.arange(200) // 2)
    with pytest.warns(DataWarning, match="BoostedLeaves does not use sample_weight"):
        model.fit(X, y, sensitive_features=s, sample_weight=1.0 + (np.arange(200) % 2))
