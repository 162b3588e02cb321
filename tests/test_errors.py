"""Bad input: one clear error that names the culprit, and nothing half-written is left behind."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairRepresentation,
    IncompatibleMomentsError,
)
from tests.support.small import FIXED, fitted, table

X, y, s = table()
N = len(X)
NUMERIC = X[:, 0] + X[:, 1]


def replaced(array, value, *where):
    out = np.array(array, dtype=object if isinstance(value, str) else float)
    out[where] = value
    return out


def state(est):
    """Everything an estimator holds, down to the last byte."""
    return pickle.dumps(vars(est))


def refused(est, says, X=X, y=y, error=ValueError, method="fit", **given):
    """The call fails, every word of ``says`` is in the message, and ``est`` is as it was."""
    before, bytes_before = dict(vars(est)), state(est)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # what is said before the refusal
        with pytest.raises(error) as caught:
            getattr(est, method)(X, y, **{"sensitive_features": s, **given})
    for word in (says,) if isinstance(says, str) else says:
        assert word in str(caught.value)
    after = vars(est)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert state(est) == bytes_before


def refused_fresh_and_fitted(params, *args, **kwargs):
    """On a new estimator, and on one that holds a good fit."""
    refused(FairRepresentation(**{**FIXED, **params}), *args, **kwargs)
    refused(fitted().set_params(**params), *args, **kwargs)


# --------------------------------------------------------------------------- S

THREE_WAYS = (
    "model.fit(X, y, sensitive_features=s)",
    "enable_metadata_routing=True",
    'params={"sensitive_features": s}',
    "pipeline.fit(X, y, stepname__sensitive_features=s)",
    "never fitted silently",
)


@pytest.mark.parametrize("method", ["fit", "prepare", "partial_fit"])
def test_missing_s_shows_the_three_ways(method):
    refused_fresh_and_fitted({}, THREE_WAYS, sensitive_features=None, method=method)


def test_missing_s_in_a_pipeline_shows_the_three_ways():
    pipeline = make_pipeline(FairRepresentation(**FIXED), LogisticRegression())
    with pytest.raises(ValueError, match="Three ways") as caught:
        pipeline.fit(X, y)
    assert all(way in str(caught.value) for way in THREE_WAYS)
    assert not hasattr(pipeline[0], "pilot_")


@pytest.mark.filterwarnings("ignore:Scoring failed")  # some versions warn before they raise
def test_missing_s_in_cross_validate_shows_the_three_ways():
    pipeline = make_pipeline(FairRepresentation(**FIXED), LogisticRegression())
    with pytest.raises(ValueError, match="Three ways"):
        cross_validate(pipeline, X, y, error_score="raise")
    with pytest.raises(ValueError, match=r"(?s)All the 5 fits failed.*Three ways"):
        cross_validate(pipeline, X, y)


S_NAME = "'sensitive_feature_0'"
S_CASES = {
    "length": (s[:-1], (S_NAME, "79 rows", "X has 80")),
    "NaN": (replaced(s, np.nan, 3), (S_NAME, "missing", "1 rows", "missing_sensitive='omit'")),
    "None": ([None, *s[1:]], (S_NAME, "missing", "1 rows", "missing_sensitive='omit'")),
    "constant": (np.full(N, "woman"), (S_NAME, "constant", "'woman'", "Leave it out")),
    "one level of 5 rows": (np.arange(N) < 3, (S_NAME, "two levels of at least 5 rows", "Merge")),
    "infinite": (replaced(s, np.inf, 3), (S_NAME, "infinity", "1 rows")),
    "dates": (s.astype("datetime64[D]"), (S_NAME, "datetime64", "years")),
    "no columns": (np.empty((N, 0)), ("sensitive_features", "no columns")),
    "three dimensions": (np.zeros((N, 2, 2)), ("sensitive_features", "(80, 2, 2)")),
    "scalar": (3, ("sensitive_features", "one column or a table")),
    "name without frame": ("sex", ("sensitive_features='sex'", "not a data frame")),
    "sequences": ([[1], [1, 2]] * (N // 2), (S_NAME,)),
}


@pytest.mark.parametrize("case", S_CASES)
def test_bad_sensitive_features(case):
    given, says = S_CASES[case]
    refused_fresh_and_fitted({}, says, sensitive_features=given)


@pytest.mark.parametrize(
    ("criterion", "cells"), [("eop", "(y=1)"), ("eo", "(y=0, y=1)")], ids=["eop", "eo"]
)
def test_no_cell_with_two_levels_names_the_cells(criterion, cells):
    target = np.arange(N) % 2
    refused(
        FairRepresentation(criterion=criterion, **FIXED),
        (S_NAME, "two levels of at least 5 rows", cells, "another criterion"),
        y=target,
        sensitive_features=np.arange(N) < 8,  # eight rows, four in each class
    )


@pytest.mark.parametrize("kind", ["ordinal", ["auto", "auto"], {"sex": "auto"}, 3, None])
def test_bad_sensitive_kind(kind):
    says = ("sensitive_kind=", repr(kind), "sensitive_feature_0", "'categorical' or 'continuous'")
    refused_fresh_and_fitted({"sensitive_kind": kind}, says)


def test_text_cannot_be_continuous():
    refused_fresh_and_fitted(
        {"sensitive_kind": "continuous"},
        (S_NAME, "text", "sensitive_kind='categorical'"),
        sensitive_features=np.where(s, "a", "b"),
    )


def test_slices_of_single_rows():
    says = ("n_slices='distinct'", S_NAME, "80 slices for 80 rows", "integer n_slices")
    refused_fresh_and_fitted({"n_slices": "distinct"}, says, sensitive_features=X[:, 0])


# --------------------------------------------------------------------------- criterion and y

CONDITIONAL = "conditional_statistical_parity"


@pytest.mark.parametrize("criterion", ["eo", "eop"])
def test_one_class(criterion):
    says = ("y holds one class only", "'yes'", "two or more")
    refused_fresh_and_fitted({"criterion": criterion}, says, y=np.full(N, "yes"))


def test_pos_label_not_in_y():
    says = ("pos_label=7", "not in y", "[0, 1]")
    refused_fresh_and_fitted({"criterion": "eop", "pos_label": 7}, says)


def test_three_classes_need_a_pos_label():
    says = ("3 classes", "pass pos_label")
    refused_fresh_and_fitted({"criterion": "eop"}, says, y=np.arange(N) % 3)


def test_equal_opportunity_of_a_number_names_equalized_odds():
    says = ("equal_opportunity", "y is numeric", "criterion='equalized_odds'")
    refused_fresh_and_fitted({"criterion": "eop"}, says, y=NUMERIC)


def test_control_features_missing_superfluous_or_incomplete():
    refused_fresh_and_fitted({"criterion": CONDITIONAL}, (CONDITIONAL, "needs control_features"))
    says = ("control_features was given", "criterion='sp'", CONDITIONAL)
    refused_fresh_and_fitted({"criterion": "sp"}, says, control_features=s)
    for control, words in (
        (s[:-1], ("'control_feature_0'", "79 rows", "X has 80")),
        (replaced(s, np.nan, 3), ("'control_feature_0'", "missing in 1 rows", "category")),
    ):
        refused_fresh_and_fitted({"criterion": CONDITIONAL}, words, control_features=control)


Y_CASES = {
    "length": (y[:-1], ("inconsistent numbers of samples", "79 rows", "X has 80")),
    "NaN": (replaced(y, np.nan, 3), ("y contains NaN",)),
    "missing": (None, ("y is None", "subspace='fair'")),
    "two columns": (np.c_[y, y], ("1d array",)),
}


@pytest.mark.parametrize("case", Y_CASES)
def test_bad_target(case):
    given, says = Y_CASES[case]
    refused_fresh_and_fitted({}, says, y=given)


def test_a_dial_between_needs_y():
    est = FairRepresentation(gamma=0.5, subspace="fair", fairness=0.5)
    refused(est, ("fairness=0.5", "subspace='fair' needs y", "fairness=1"), y=None)


WEIGHTS = {
    "negative": (-np.ones(N), "80 negative values"),
    "negative scalar": (-1.0, "negative values"),
    "zero": (np.zeros(N), "zero for every row"),
    "length": (np.ones(3), "(3,), expected (80,)"),
    "NaN": (replaced(np.ones(N), np.nan, 3), "contains NaN"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_sample_weight(case):
    given, says = WEIGHTS[case]
    refused_fresh_and_fitted({}, ("ample_weight", says), sample_weight=given)


# --------------------------------------------------------------------------- X

X_CASES = {
    "NaN": (replaced(X, np.nan, 5, 1), ("NaN", "column 1", "row 5", "table_encoder")),
    "infinity": (replaced(X, np.inf, 5, 1), ("infinity", "column 1", "row 5")),
    "text": (replaced(X, "home", 5, 1), ("Column 1 of X", "'home'", "table_encoder")),
    "one dimension": (X[:, 0], ("2D array",)),
    "no rows": (X[:0], ("0 sample",)),
    "one row": (X[:1], ("n_samples=1",)),
}


@pytest.mark.parametrize("case", X_CASES)
def test_bad_features(case):
    given, says = X_CASES[case]
    rows = slice(len(given))
    refused_fresh_and_fitted({}, says, X=given, y=y[rows], sensitive_features=s[rows])


@pytest.mark.parametrize("container", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_features(container):
    refused_fresh_and_fitted({}, ("Sparse", "X", "toarray"), X=container(X), error=TypeError)


def test_transform_says_what_fit_says():
    est = fitted()
    with pytest.raises(ValueError, match=r"column 1, 1 rows, the first at row 5.*table_encoder"):
        est.transform(X_CASES["NaN"][0])
    with pytest.raises(ValueError, match=r"Column 1 of X holds text: 'home'.*table_encoder"):
        est.transform(X_CASES["text"][0])
    with pytest.raises(ValueError, match="X has 2 features, but FairRepresentation is expecting 3"):
        est.transform(X[:, :2])


# --------------------------------------------------------------------------- parameters

GAMMA = "'cv', 'median', 'scale'"
POSITIVE = "'auto' or a positive number"
BAD = {
    "fairness": ([1.5, -0.1, np.nan, "much", None, True], "from 0 (unconstrained) to 1 (fairest)"),
    "criterion": (["parity", None, ["sp"]], "'equalized_odds' (also 'eo')"),
    "n_components": ([0, -3, 1.5, "many", True], "'auto', 'all', or an integer of at least 1"),
    "gamma": ([0, -1.0, np.inf, "wide", None, True, [1.0]], GAMMA),
    "n_slices": ([1, 0, 2.5, "few", True], "'distinct', or an integer of at least 2"),
    "alpha": ([0, -1.0, np.nan, "small", None], POSITIVE),
    "eta": ([0, -1.0, np.inf, "small", None], POSITIVE),
    "method": (["best", None, 1], "'optimal', 'rkhs', 'paper'"),
    "subspace": (["all", None], "'model' or 'fair'"),
    "dial": (["speed", None], "'angle', 'cosine', 'correlation'"),
    "dependence": (["all", None], "'mean' or 'correlation'"),
    "missing_sensitive": (["drop", None], "'raise' or 'omit'"),
    "landmarks": (["random"], "'stratified' or 'rpcholesky'"),
    "kernel": (["gauss", None, 3], "'rbf', 'sigmoid', or a callable"),
    "intersectional": (["yes", None], "True or False"),
    "n_sensitive_directions": ([0, 1.5, "some"], "'auto', 'test', 'all', or an integer of at"),
    "n_predictive_directions": ([0, 1.5, "all"], "'auto', 'test', or an integer of at"),
    "kernel_params": ([3], "a dict"),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (values, _) in BAD.items() for value in values]
)
def test_bad_parameter(name, value):
    refused_fresh_and_fitted({name: value}, (f"{name}={value!r}", BAD[name][1]))


PARAMETER_CASES = {
    "gamma='auto'": ({"gamma": "auto"}, ("gamma='auto'", "1/n_features", "'median'", "'scale'")),
    "n_components > rows": ({"n_components": 81}, ("n_components=81", "80 rows", "at most 80")),
    "directions of classes": (
        {"n_predictive_directions": 2},
        ("n_predictive_directions=2", "2 classes have 1 directions", "at most 1"),
    ),
    "components of F": (
        {"n_predictive_directions": 100, "subspace": "fair"},
        ("n_predictive_directions=100", "the fair subspace has", "Give at most"),
    ),
    "gamma of a kernel without": ({"kernel": "cosine"}, ("gamma=0.5", "'cosine'", "gamma='cv'")),
    "gamma of a feature map": (
        {"feature_map": PCA()},
        ("gamma=0.5", "feature_map", "gamma='cv'"),
    ),
    "feature_map without transform": (
        {"feature_map": 3, "gamma": "cv"},
        ("feature_map=3", "scikit-learn transformer"),
    ),
    "gamma twice": ({"kernel_params": {"gamma": 2.0}}, ("kernel_params", "'gamma'", "gamma=")),
    "kernel_params misspelt": (
        {"kernel": "poly", "kernel_params": {"degre": 2}},
        ("kernel_params", "'degre'", "'poly'", "'degree'"),
    ),
    "landmarks of another width": (
        {"landmarks": np.ones((5, 2))},
        ("landmarks", "(m, 3)", "(5, 2)"),
    ),
    "landmarks not a table": ({"landmarks": [[1, 2], [3]]}, ("landmarks", "(m, 3)")),
    "landmarks with NaN": ({"landmarks": np.full((5, 3), np.nan)}, ("landmarks", "finite")),
    "landmarks and n_components": (
        {"landmarks": X[:10], "n_components": 5},
        ("n_components=5", "10 landmarks", "'auto'"),
    ),
    "paper with alpha": ({"method": "paper"}, ("method='paper'", "alpha=1.0", "method='rkhs'")),
    "paper with test": (
        {"method": "paper", "alpha": "auto", "n_sensitive_directions": "test"},
        ("n_sensitive_directions='test'", "method='paper'"),
    ),
    "paper with missing S": (
        {"method": "paper", "alpha": "auto", "missing_sensitive": "omit"},
        ("missing_sensitive='omit'", "method='paper'"),
    ),
    "paper with correlation": (
        {"method": "paper", "alpha": "auto", "dependence": "correlation"},
        ("method='paper'", "dependence='correlation' has no effect", "method='rkhs'"),
    ),
}


@pytest.mark.parametrize("case", PARAMETER_CASES)
def test_parameters_that_do_not_go_together(case):
    params, says = PARAMETER_CASES[case]
    refused_fresh_and_fitted(params, says)


def test_a_file_of_the_paper_with_correlation_still_loads(monkeypatch):
    params = {"gamma": 0.5, "eta": 1e-3, "method": "paper", "dependence": "correlation"}
    with monkeypatch.context() as older:  # version 0.1.0 fitted it, without an effect
        older.setattr("fairspan.estimators.base.check_new_fit", lambda _: None)
        model = FairRepresentation(**params).fit(X, y, sensitive_features=X[:, 1] ** 2)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.at(0.5).transform(X), model.at(0.5).transform(X))
    refused(loaded, "dependence='correlation' has no effect")


def test_the_correlation_alone_is_removed_in_the_geometry_of_the_paper():
    fits = [
        FairRepresentation(**FIXED, method="rkhs", dependence=dependence)
        for dependence in ("mean", "correlation")
    ]
    slices, value = (
        next(
            block
            for block in fit.fit(X, y, sensitive_features=X[:, 1] ** 2).blocks_
            if block.constrained
        )
        for fit in fits
    )
    assert (slices.coding, value.coding) == ("slices", "value")


def test_more_directions_than_slices():
    says = ("n_predictive_directions=10", "10 slices of y have 9 directions", "raise n_slices")
    refused_fresh_and_fitted({"n_predictive_directions": 10}, says, y=NUMERIC)


# --------------------------------------------------------------------------- precomputed kernels

K = X @ X.T


@pytest.mark.parametrize("method", ["prepare", "partial_fit"])
def test_a_precomputed_kernel_cannot_stream(method):
    est = FairRepresentation("precomputed")
    refused(est, ("kernel='precomputed' cannot stream", "`fit`"), X=K, method=method)


@pytest.mark.parametrize("gram", [K[:, :50], K[:, [*range(N), 0]]], ids=["narrow", "wide"])
def test_a_precomputed_kernel_is_square(gram):
    says = ("kernel='precomputed'", "square", str(gram.shape))
    refused(FairRepresentation("precomputed"), says, X=gram)


@pytest.mark.parametrize("gram", [-K, np.zeros((N, N))], ids=["negative", "zero"])
def test_a_precomputed_kernel_is_positive(gram):
    refused(FairRepresentation("precomputed"), ("The kernel 'precomputed' is",), X=gram)


# --------------------------------------------------------------------------- blocks, merging, dial


def prepared(sensitive_features=s, **params):
    est = FairRepresentation(**{**FIXED, **params})
    return est.prepare(X, y, sensitive_features=sensitive_features)


def block(est, says, rows=slice(20), **given):
    """A later block is refused, before and after an earlier good one."""
    refused(est, says, X=X[rows], y=y[rows], method="partial_fit", **given)


def test_unseen_category_in_a_later_block():
    group = np.where(s, "man", "woman")
    est = prepared(group)
    strange = np.where(np.arange(20) == 3, "other", group[:20])
    says = (S_NAME, "never seen", "'other'", "'man', 'woman'", "Prepare on rows")
    block(est, says, sensitive_features=strange)
    est.partial_fit(X, y, sensitive_features=group)
    block(est, says, sensitive_features=strange)


def test_unseen_combination_in_a_later_block():
    both = np.c_[s, s]
    est = prepared(both, intersectional=True).partial_fit(X, y, sensitive_features=both)
    says = ("combination", "0 & 1", "Prepare on rows that contain every combination")
    block(est, says, sensitive_features=np.c_[np.zeros(20), np.ones(20)])


def test_unseen_class_in_a_later_block():
    est = prepared()
    refused(est, ("'y'", "never seen", "'7'"), y=np.full(N, 7), method="partial_fit")


def test_other_columns_in_a_later_block():
    est = prepared({"sex": s}).partial_fit(X, y, sensitive_features={"sex": s})
    for given in (s[:20], {"race": s[:20]}, {"sex": s[:20], "race": s[:20]}):
        block(est, ("sensitive_features", "prepared with ['sex']"), sensitive_features=given)


def test_a_later_block_without_y():
    est = prepared(subspace="fair")
    refused(est, ("prepared with y",), y=None, method="partial_fit")


def test_other_features_in_a_later_block():
    refused(prepared(), "X has 2 features", X=X[:, :2], method="partial_fit")


@pytest.mark.parametrize("other", [{"gamma": 0.6}, {"n_components": 20}, {"n_slices": 4}])
def test_merge_with_another_pilot(other):
    age = X[:, 2] + X[:, 1]
    mine, theirs = (
        prepared(age, **params).partial_fit(X, y, sensitive_features=age) for params in ({}, other)
    )
    before = state(mine)
    with pytest.raises(IncompatibleMomentsError, match=r"another pilot.*`prepare` once and copy"):
        mine.merge(theirs)
    assert state(mine) == before


def test_merge_without_moments():
    for mine, theirs, who in (
        (FairRepresentation(), fitted(), "this estimator"),
        (fitted(), FairRepresentation(), "the other estimator"),
    ):
        before = state(mine)
        with pytest.raises(IncompatibleMomentsError, match=f"{who} has none: call partial_fit"):
            mine.merge(theirs)
        assert state(mine) == before


@pytest.mark.parametrize("est", [FairRepresentation(), prepared()], ids=["fresh", "prepared"])
def test_nothing_to_solve_or_transform_yet(est):
    before = state(est)
    with pytest.raises(NotFittedError, match="no rows yet; call `fit` or `partial_fit`"):
        est.solve()
    for call in (est.transform, est.kernel_, est.deviation_bound):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        est.at(0.5)
    assert state(est) == before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "either `fairness` or `max_correlation`"),
        ({"fairness": 0.5, "max_correlation": 0.1}, "either `fairness` or `max_correlation`"),
        ({"fairness": 1.2}, "fairness=1.2 is not allowed"),
        ({"fairness": 0.5, "dial": "speed"}, "dial='speed' is not allowed"),
        ({"max_correlation": 2}, "max_correlation=2 is not allowed; give a number from 0 to 1"),
        ({"max_correlation": "low"}, "max_correlation='low' is not allowed"),
        ({"max_correlation": 0.1, "dial": "angle"}, "dial='correlation', not 'angle'"),
    ],
)
def test_bad_place_on_the_dial(given, says):
    est = fitted()
    before = state(est)
    with pytest.raises(ValueError, match=says):
        est.at(**given)
    assert state(est) == before


# --------------------------------------------------------------------------- interrupts


@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("prepare", "build_pilot"),
        ("partial_fit", "build_pilot"),
        *((method, step) for method in ("fit", "partial_fit") for step in ("accumulate", "solve")),
        ("fit", "build_pilot"),
        ("fit", "locate"),
    ],
)
def test_an_interrupt_leaves_everything_as_it_was(method, function, monkeypatch):
    fresh, used = FairRepresentation(**FIXED), fitted()
    if function == "build_pilot" and method == "partial_fit":
        used = fresh  # one that was prepared builds no other pilot

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt("enough")

    monkeypatch.setattr(f"fairspan.estimators.base.{function}", interrupt)
    for est in (fresh, used):
        refused(est, "enough", error=KeyboardInterrupt, method=method)


def test_an_interrupted_merge_or_solve_leaves_everything_as_it_was(monkeypatch):
    est, other = fitted(random_state=0), fitted(random_state=0)
    before = state(est)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt("enough")

    monkeypatch.setattr("fairspan.estimators.base.solve", interrupt)
    for call in (lambda: est.merge(other), est.solve):
        with pytest.raises(KeyboardInterrupt, match="enough"):
            call()
        assert state(est) == before


def test_text_labels_need_a_positive_one_for_equal_opportunity():
    labels = np.where(X[:, 0] > np.median(X[:, 0]), "approved", "denied")
    est = FairRepresentation(criterion="eop", **FIXED)
    with pytest.raises(ValueError, match="pass pos_label"):
        est.fit(X, labels, sensitive_features=s)
    est.set_params(pos_label="approved").fit(X, labels, sensitive_features=s)
    assert est.cells_ == ["y=approved"]


@pytest.mark.regression("FairGPClassifier with 100 classes takes minutes")
def test_too_many_classes_are_refused_before_any_pass_over_the_rows(rng):
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 100
    words = r"100 classes with 99 functions.*FairRidgeClassifier.*n_predictive_directions=39 or"
    with pytest.raises(ValueError, match=words):
        FairGPClassifier(random_state=0).prepare(X, y, sensitive_features=rng.integers(0, 2, 400))
