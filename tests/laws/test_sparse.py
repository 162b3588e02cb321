"""A fit of sparse X is that of the same rows as an array, in every step and at every dial value."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.kernel_approximation import AdditiveChi2Sampler

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    export,
    fairness_path,
    load_model,
    save_model,
)
from fairspan.deployment import read_npz_model
from fairspan.estimators import prepare
from fairspan.method.sparse_rows import SparseRows
from tests.support.sparse import as_sparse, words

TOL = 1e-10
MODELS = {
    "ridge": (FairRidge, {}),
    "ridge, training rows": (FairRidge, {"removal": "training_rows"}),
    "ridge, fair prior": (FairRidge, {"subspace": "fair"}),
    "classifier": (FairRidgeClassifier, {}),
    "decisions": (FairRidgeClassifier, {"equalize": "decisions"}),
    "equalized odds": (FairRidgeClassifier, {"criterion": "equalized_odds"}),
    "representation": (FairRepresentation, {}),
    "process": (FairGPRegressor, {}),
    "log odds": (FairGPClassifier, {}),
    "log odds, likelihood": (
        FairGPClassifier,
        {"removal": "training_rows", "curvature": "likelihood"},
    ),
    "singular vectors": (
        FairRidge,
        {"feature_map": TruncatedSVD(5, algorithm="arpack", random_state=0)},
    ),
    "additive chi2": (FairRidgeClassifier, {"feature_map": AdditiveChi2Sampler()}),
}


def outputs(model, X):
    for method in ("predict_proba", "decision_function", "transform", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)
    raise AssertionError


def both(name, X, target, s, **given):
    """The model fitted on an array, and on sparse rows."""
    estimator, params = MODELS[name]
    kernel = {} if "feature_map" in params else {"kernel": "linear"}
    return [
        estimator(**kernel, **params).fit(rows, target, sensitive_features=s, **given)
        for rows in (X, as_sparse(X))
    ]


def target_of(name, y, score):
    return score if MODELS[name][0] in (FairRidge, FairGPRegressor) else y


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_equals_the_fit_of_an_array(name):
    X, y, score, s = words()
    X_new = words(50, seed=1)[0]
    dense, sparse = both(name, X, target_of(name, y, score), s)
    for fairness in (0.0, 0.4, 1.0):
        a, b = dense.at(fairness), sparse.at(fairness)
        for rows in (X_new, as_sparse(X_new, "csc_matrix"), as_sparse(X_new, "messy")):
            np.testing.assert_allclose(outputs(b, rows), outputs(a, X_new), atol=TOL)
    if dense.feature_map is None:  # a transformer may round in another way
        assert sparse.pilot_.fingerprint == dense.pilot_.fingerprint
    assert repr(sparse.certificate_.table()) == repr(dense.certificate_.table())


@settings(max_examples=15)
@given(
    st.sampled_from(["ridge", "classifier", "ridge, training rows"]),
    st.integers(80, 300),
    st.integers(3, 40),
    st.booleans(),
    st.integers(0, 2**16),
)
def test_any_table_and_weights_give_the_fit_of_an_array(name, n, p, weighted, seed):
    X, y, score, s = words(n, p, seed)
    given_weights = {}
    if weighted:
        given_weights = {"sample_weight": np.random.default_rng(seed).integers(0, 3, n) * 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense, sparse = both(name, X, target_of(name, y, score), s, **given_weights)
    np.testing.assert_allclose(outputs(sparse, as_sparse(X)), outputs(dense, X), atol=TOL)


def test_paths_and_audits_equal_those_of_an_array():
    X, y, _, s = words()
    dense, sparse = both("classifier", X, y, s)
    for a, b in (
        (
            FairnessPath.from_estimator(dense, X, y, sensitive_features=s, n_points=5),
            FairnessPath.from_estimator(sparse, as_sparse(X), y, sensitive_features=s, n_points=5),
        ),
        (
            fairness_path(dense, X, y, sensitive_features=s, n_points=5),
            fairness_path(sparse, as_sparse(X), y, sensitive_features=s, n_points=5),
        ),
    ):
        np.testing.assert_allclose(b.error, a.error, atol=TOL)
        np.testing.assert_allclose(b.curve(), a.curve(), atol=TOL)
    X, y, _, s = words(300, seed=1)
    parts = {"sensitive_features": s, "random_state": 0, "parts": ["tests", "attacks"]}
    of_sparse, of_array = (audit(m, r, y, **parts) for m, r in ((sparse, as_sparse(X)), (dense, X)))
    assert str(of_sparse) == str(of_array)
    receipts = dense.explain_fairness(X[:9]), sparse.explain_fairness(as_sparse(X[:9]))
    np.testing.assert_allclose(receipts[1].columns, receipts[0].columns, atol=TOL)


# --------------------------------------------------------------------------- wide tables


@pytest.fixture
def wide(monkeypatch):
    """A table that counts as wide: 60 columns, where 40 are the most whose moments are taken."""
    monkeypatch.setattr(prepare, "MOST_LINEAR", 40)
    monkeypatch.setattr(prepare, "_keeps_columns", lambda *_: False)  # as if memory were small
    return words(300, 60)


def test_all_rows_as_landmarks_give_the_fit_on_the_columns(wide, monkeypatch):
    """The representer theorem: with more columns than rows nothing is lost."""
    X, _, score, s = words(50, 60)
    fixed = {"alpha": 1.0, "eta": 1e-3, "removal": "training_rows"}
    by_rows = FairRidge("linear", **fixed).fit(as_sparse(X), score, sensitive_features=s)
    assert by_rows.landmarks_.shape == (50, 60)
    monkeypatch.setattr(prepare, "MOST_LINEAR", 60)
    by_columns = FairRidge("linear", **fixed).fit(X, score, sensitive_features=s)
    assert by_columns.landmarks_ is None
    X_new = words(40, 60, seed=1)[0]
    np.testing.assert_allclose(by_rows.predict(X_new), by_columns.predict(X_new), atol=1e-8)
    np.testing.assert_allclose(by_rows.predict(as_sparse(X_new)), by_rows.predict(X_new), atol=TOL)


@pytest.mark.parametrize("landmarks", ["stratified", "rpcholesky"])
def test_landmarks_of_sparse_rows_are_those_of_the_array(wide, landmarks, tmp_path):
    X, y, _, s = wide
    params = {"kernel": "linear", "n_components": 20, "landmarks": landmarks}
    with pytest.warns(UserWarning, match=r"60 columns, more than 40.* 20 of the 300 rows"):
        sparse = FairRidgeClassifier(**params).fit(as_sparse(X), y, sensitive_features=s)
    with pytest.warns(UserWarning, match="more than 40"):
        dense = FairRidgeClassifier(**params).fit(X, y, sensitive_features=s)
    assert scipy.sparse.issparse(sparse.landmarks_)
    np.testing.assert_array_equal(sparse.landmarks_.toarray(), dense.landmarks_)
    for rows in (X, as_sparse(X)):
        for model in (dense, sparse):
            expected = dense.decision_function(X)
            np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-9)
    pytest.importorskip("skops")
    for keep in (True, False):
        again = load_model(save_model(sparse, tmp_path / "model", keep_moments=keep))
        np.testing.assert_allclose(
            again.decision_function(as_sparse(X)), sparse.decision_function(X), atol=TOL
        )


def test_dense_rows_keep_their_columns_as_long_as_memory_allows(monkeypatch):
    """Landmarks of a wide table lose what is outside of their span."""
    X, _, score, s = words(300, 60)
    fits = []
    for most in (60, 40):
        monkeypatch.setattr(prepare, "MOST_LINEAR", most)
        fits.append(FairRidge("linear", n_components=20).fit(X, score, sensitive_features=s))
    assert fits[1].landmarks_ is None
    np.testing.assert_array_equal(fits[1].predict(X), fits[0].predict(X))


def test_the_warning_of_landmarks_has_the_largest_share_that_they_leave_out(wide):
    X, _, score, s = wide
    model = FairRidge("linear", n_components=20)
    with pytest.warns(UserWarning, match="may be much less accurate") as found:
        model.fit(as_sparse(X), score, sensitive_features=s)
    ((name, shares),) = model.approximation_residual_.items()
    worst = max(shares, key=shares.get)
    assert f"leave out {shares[worst]:.0%} of the squared length of rows with {name}={worst}" in (
        str(found[0].message)
    )


@pytest.mark.filterwarnings("ignore:X has 60 columns")
def test_sparse_landmarks_are_taken_exported_and_shared(wide, tmp_path):
    X, _, score, s = wide
    sparse = as_sparse(X)
    model = FairRidge("linear", n_components=20).fit(sparse, score, sensitive_features=s)
    again = FairRidge("linear", landmarks=model.landmarks_)
    again.fit(sparse, score, sensitive_features=s)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-9)
    again.at(0.5).predict(sparse)
    with pytest.raises(ValueError, match=r"landmarks must be finite rows.*\(20, 59\)"):
        clone(again).set_params(landmarks=model.landmarks_[:, :59]).fit(
            sparse, score, sensitive_features=s
        )
    outputs = read_npz_model.load(export(model, tmp_path / "model.npz").path)(X)
    np.testing.assert_allclose(np.ravel(next(iter(outputs.values()))), model.predict(X), atol=1e-9)
    prepared = FairRidge("linear", n_components=20, n_slices=2)
    prepared.prepare(sparse, score, sensitive_features=s, folds="hash")
    with pytest.raises(ValueError, match="public points \\(or X with fewer columns\\)"):
        prepared.export_pilot(tmp_path / "pilot")
    prepared.export_pilot(tmp_path / "pilot", public=True)


def test_more_landmarks_than_columns_are_not_used(wide):
    X, _, score, s = wide
    model = FairRidge("linear", n_components=100).fit(as_sparse(X), score, sensitive_features=s)
    assert model.landmarks_ is None
    assert model.n_components_ == 60


def test_rows_to_forget_are_found_among_sparse_landmarks(wide):
    X, _, score, s = wide
    model = FairRidge("linear", n_components=20, alpha=1.0, eta=1e-3)
    with pytest.warns(UserWarning, match="more than 40"):
        model.prepare(as_sparse(X), score, sensitive_features=s, folds="hash")
    model.partial_fit(as_sparse(X), score, sensitive_features=s)
    landmarks = {row.tobytes() for row in model.landmarks_.toarray()}
    among = np.array([row.tobytes() in landmarks for row in X])
    with pytest.raises(ValueError, match=f"{among.sum()} of the rows to forget are landmarks"):
        model.forget(as_sparse(X), score, sensitive_features=s)
    some = np.flatnonzero(~among)[:30]
    rest = np.setdiff1d(np.arange(300), some)
    model.forget(as_sparse(X[some]), score[some], sensitive_features=s[some])
    assert model.moments_.n_rows == len(rest)


# --------------------------------------------------------------------------- memory


def test_no_dense_copy_of_the_table_is_made(monkeypatch):
    """The table would take 160 MB as an array; a fit takes its moments and one block of rows."""
    n, p = 100_000, 200
    rng = np.random.default_rng(0)
    table = scipy.sparse.random(n, p, density=0.01, random_state=0, format="csr")
    s = rng.integers(0, 2, n)
    score = table @ rng.normal(size=p) + rng.normal(size=n)
    largest = []
    toarray = SparseRows.toarray

    def counted(rows):
        largest.append(len(rows))
        return toarray(rows)

    monkeypatch.setattr(SparseRows, "toarray", counted)
    tracemalloc.start()
    model = FairRidge("linear").fit(table, score, sensitive_features=s)
    model.predict(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(largest) <= 2048
    assert peak < 0.5 * 8 * n * p


# --------------------------------------------------------------------------- beside other options


@pytest.mark.filterwarnings("ignore:noise_state=", "ignore:This is private fit number")
def test_private_fits_draw_the_same_noise():
    X, _, score, s = words()
    private = {"epsilon_sensitive": 3.0, "sensitive_groups": [0, 1], "noise_state": 1}
    dense, sparse = (
        FairRidge("linear", **private).fit(rows, score, sensitive_features=s)
        for rows in (X, as_sparse(X))
    )
    np.testing.assert_allclose(sparse.predict(as_sparse(X)), dense.predict(X), atol=TOL)


def test_conformal_intervals_equal_those_of_an_array():
    X, _, score, s = words()
    X_new, _, score_new, _ = words(200, seed=1)
    dense, sparse = both("ridge", X, score, s)
    expected = dense.conformalize(X_new, score_new).predict_interval(X_new)
    found = sparse.conformalize(as_sparse(X_new), score_new).predict_interval(as_sparse(X_new))
    np.testing.assert_allclose(found, expected, atol=TOL)


def test_landmarks_of_the_user_are_those_of_a_wide_table(wide):
    X, _, score, s = wide
    with pytest.warns(UserWarning, match="more than 40"):
        drawn = FairRidge("linear", n_components=20).fit(X, score, sensitive_features=s)
    given_rows = FairRidge("linear", landmarks=drawn.landmarks_)
    given_rows.fit(as_sparse(X), score, sensitive_features=s)
    np.testing.assert_array_equal(np.sort(given_rows.landmarks_, 0), np.sort(drawn.landmarks_, 0))
    assert given_rows.n_components_ == drawn.n_components_


def test_receipts_of_a_wide_table_say_why_they_have_no_columns(wide):
    X, _, score, s = wide
    model = FairRidge("linear", n_components=50)
    with pytest.warns(UserWarning, match="more than 40"):
        model.fit(as_sparse(X), score, sensitive_features=s)
    assert "uses landmarks" in model.explain_fairness(as_sparse(X[:3])).columns_reason


def test_sparse_landmarks_are_refused_on_a_device(wide):
    torch = pytest.importorskip("torch")
    X, _, score, s = wide
    with pytest.warns(UserWarning, match="more than 40"):
        model = FairRidge("linear", n_components=20).fit(as_sparse(X), score, sensitive_features=s)
    with pytest.raises(ValueError, match="sparse rows as landmarks cannot be computed on tensors"):
        model.predict(torch.tensor(X))


def test_files_whose_sparse_landmarks_do_not_fit_together_are_refused(wide, tmp_path):
    """SciPy would read memory outside of the arrays."""
    pytest.importorskip("skops")
    X, _, score, s = wide
    with pytest.warns(UserWarning, match="more than 40"):
        model = FairRidge("linear", n_components=20).fit(as_sparse(X), score, sensitive_features=s)
    landmarks = model.pilot_.features.landmarks
    landmarks.columns[3] = 10**6
    file = save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match="damaged"):
        load_model(file)
