"""Sparse X as it is given: what is taken, what is refused, and which error names what to do."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import get_tags
from tests.support.sparse import as_sparse, words

from fairspan import FairClassifier, FairEraser, FairRidge, FairRidgeClassifier
from fairspan.inputs.sparse import takes_sparse

X, classes, y, s = words(120, 12)
SPARSE = as_sparse(X)


def replaced(value):
    out = SPARSE.copy()
    out.data[5] = value
    return out, int(out.indices[5]), int(np.searchsorted(out.indptr, 5, side="right") - 1)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (FairRidge(), False),
        (FairRidge("linear"), True),
        (FairRidge(feature_map=TruncatedSVD(3)), True),
        (FairRidge("linear", feature_map=PowerTransformer()), False),
        (FairRidge(lambda X, Z: X @ Z.T), False),
        (FairClassifier("linear"), False),
    ],
)
def test_tags_say_what_fit_does(model, expected):
    assert takes_sparse(model) == expected == get_tags(model).input_tags.sparse
    target = classes if isinstance(model, FairClassifier) else y
    if expected:
        model.fit(SPARSE, target, sensitive_features=s).predict(SPARSE)
        return
    with pytest.raises(TypeError, match=r"Sparse X.*\(120, 12\).*X\.toarray\(\), of 0\.0 MiB"):
        model.fit(SPARSE, target, sensitive_features=s)


@pytest.mark.parametrize("name", ["y", "sensitive_features", "sample_weight", "groups"])
@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_only_x_may_be_sparse(name, make):
    given = {"y": y, "sensitive_features": s, name: make(s[:, None])}
    with pytest.raises(
        TypeError, match=rf"^{name} is sparse, of shape \(120, 1\).*{name}\.toarray"
    ):
        FairRidge("linear").fit(SPARSE, **given)
    with pytest.raises(TypeError, match="sensitive_features is sparse"):
        FairRidge("linear").fit(X, y, sensitive_features={"group": make(s[:, None])})


def test_erasers_refuse_sparse_rows():
    eraser = FairEraser()
    assert not get_tags(eraser).input_tags.sparse
    message = r"FairEraser does not take. It changes vectors into others that have no zeros"
    with pytest.raises(TypeError, match=message):
        eraser.fit(SPARSE, sensitive_features=s)
    eraser.fit(X, sensitive_features=s)
    with pytest.raises(TypeError, match=message):
        eraser.at(0.0).transform(SPARSE)


def test_refusals_name_the_model_and_what_takes_sparse_rows():
    with pytest.raises(
        TypeError, match=r"FairClassifier does not take.*FairRidgeClassifier take it"
    ):
        FairClassifier("linear").fit(SPARSE, classes, sensitive_features=s)
    with pytest.raises(TypeError, match=r"kernel='rbf' does not take.*kernel='linear'"):
        FairRidge().fit(SPARSE, y, sensitive_features=s)
    with pytest.raises(TypeError, match=r"feature_map='PowerTransformer'"):
        FairRidge(feature_map=PowerTransformer()).fit(SPARSE, y, sensitive_features=s)
    fitted = FairRidge(gamma=0.1).fit(X, y, sensitive_features=s)
    with pytest.raises(TypeError, match=r"kernel='rbf' does not take"):
        fitted.predict(SPARSE)


@pytest.mark.parametrize(("value", "says"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_numbers_that_are_not_finite_are_named(value, says):
    bad, column, row = replaced(value)
    message = rf"contains {says}.*column {column}, 1 rows, the first at row {row}\."
    with pytest.raises(ValueError, match=message):
        FairRidge("linear").fit(bad, y, sensitive_features=s)
    fitted = FairRidge("linear").fit(SPARSE, y, sensitive_features=s)
    with pytest.raises(ValueError, match=message):
        fitted.predict(bad)


def test_numbers_whose_square_is_infinite_are_named():
    bad, column, _ = replaced(-1e200)
    with pytest.raises(ValueError, match=rf"Column {column} of X holds 1e\+200"):
        FairRidge("linear").fit(bad, y, sensitive_features=s)


def test_other_numbers_of_columns_are_refused():
    fitted = FairRidge("linear").fit(SPARSE, y, sensitive_features=s)
    with pytest.raises(ValueError, match="12 features"):
        fitted.predict(SPARSE[:, :5])


def test_a_column_that_repeats_s_is_warned_of():
    more = scipy.sparse.hstack([SPARSE, scipy.sparse.csr_array(2.0 * s[:, None])])
    with pytest.warns(UserWarning, match=r"holds the protected attribute.*column 12\."):
        FairRidge("linear").fit(more, y, sensitive_features=s)


def test_streams_refuse_sparse_rows_and_blocks_are_taken():
    model = FairRidge("linear", alpha=1.0, eta=1e-3)
    with pytest.raises(TypeError, match=r"Streams take dense rows.*partial_fit"):
        model.fit_stream(SPARSE)
    block = {"X": SPARSE, "y": y, "sensitive_features": s}
    with pytest.raises(ValueError, match=r"block 0: Streams take dense rows"):
        model.fit_stream([block])
    blocks = FairRidge("linear").prepare(SPARSE, y, sensitive_features=s, folds="hash")
    arrays = FairRidge("linear").prepare(X, y, sensitive_features=s, folds="hash")
    for rows in (slice(70), slice(70, None)):
        blocks.partial_fit(SPARSE[rows], y[rows], sensitive_features=s[rows])
        arrays.partial_fit(X[rows], y[rows], sensitive_features=s[rows])
    np.testing.assert_allclose(blocks.predict(X), arrays.predict(X), atol=1e-10)


# --------------------------------------------------------------------------- frames


@pytest.fixture
def frame():
    pd = pytest.importorskip("pandas")
    names = [f"word {j}" for j in range(12)]
    return pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(SPARSE), columns=names)


def test_frames_with_sparse_columns_keep_their_names(frame):
    model = FairRidgeClassifier("linear").fit(frame, classes, sensitive_features=s)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    plain = FairRidgeClassifier("linear").fit(X, classes, sensitive_features=s)
    expected = plain.decision_function(X)
    np.testing.assert_allclose(model.decision_function(frame), expected, atol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"word 0": "other"}))


def test_sparse_and_dense_columns_of_a_frame_go_together(frame):
    mixed = frame.assign(sex=s, age=np.arange(120) % 7, known=True)
    mixed.loc[3, "known"] = False
    model = FairRidge("linear").fit(mixed, y, sensitive_features="sex")
    table = mixed.drop(columns="sex").to_numpy(dtype=float)
    plain = FairRidge("linear").fit(table, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict(mixed), plain.predict(table), atol=1e-10)
    without = model.predict(mixed.drop(columns="sex"))
    np.testing.assert_array_equal(model.predict(mixed), without)


def test_sparse_columns_beside_text_are_refused(frame):
    with pytest.raises(TypeError, match=r"columns that are not numbers: 'city'.*OneHotEncoder"):
        FairRidge("linear").fit(frame.assign(city="Graz"), y, sensitive_features=s)
    with pytest.raises(TypeError, match=r"X\.sparse\.to_dense\(\)"):
        FairRidge().fit(frame, y, sensitive_features=s)
