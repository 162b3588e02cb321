"""Every way to say what the features are: kernels, callables, Gram matrices, transformers, landmarks."""

import numpy as np
import pytest
import scipy.sparse
import scipy.spatial.distance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels, rbf_kernel
from sklearn.preprocessing import PolynomialFeatures

from fairspan import FairRepresentation
from tests.support.small import FIXED, table

X, y, s = table()
NEW = table(30, seed=1).X
RIDGES = {"eta": 1e-3, "alpha": 1.0}


def fit(kernel="rbf", X=X, y=y, s=s, sample_weight=None, **params):
    est = FairRepresentation(kernel, **{"random_state": 0, **RIDGES, **params})
    return est.fit(X, y, sensitive_features=s, sample_weight=sample_weight)


def assert_fair(est, X=X, s=s):
    """At fairness 1 every score is uncorrelated with S in sample."""
    scores = est.transform(X)
    assert scores.shape[1] >= 1
    centred = s - s.mean()
    covariance = centred @ (scores - scores.mean(axis=0)) / len(s)
    assert np.abs(covariance / (scores.std(axis=0) * s.std())).max() < 1e-8


# --------------------------------------------------------------------------- kernels by name

GRAMS = {
    "rbf": ({"gamma": 0.5}, {"gamma": 0.5}),
    "laplacian": ({"gamma": 0.5}, {"gamma": 0.5}),
    "poly": ({"gamma": 0.3, "kernel_params": {"degree": 2, "coef0": 0.5}}, None),
    "polynomial": ({"gamma": 0.3, "kernel_params": {"degree": 2}}, None),
    "chi2": ({"gamma": 0.4}, {"gamma": 0.4}),
    "cosine": ({}, {}),
    "linear": ({}, {}),
}
REFUSED = {"additive_chi2": "negative", "sigmoid": "not positive semidefinite"}


@pytest.mark.parametrize("kernel", GRAMS)
def test_every_kernel_by_name(kernel):
    params, reference = GRAMS[kernel]
    if reference is None:
        reference = {"gamma": params["gamma"], **params["kernel_params"]}
    rows = np.abs(X) if kernel == "chi2" else X
    est = fit(kernel, rows, **params, removal="training_rows")
    assert_fair(est, rows)
    psi = est.pilot_.features.coordinates(rows)
    gram = pairwise_kernels(rows, metric=kernel, **reference)
    np.testing.assert_allclose(psi @ psi.T, gram, atol=1e-8 * np.abs(gram).max())
    assert est.n_components_ == np.linalg.matrix_rank(gram, tol=1e-9 * np.abs(gram).max())


@pytest.mark.parametrize("kernel", REFUSED)
def test_kernels_that_are_not_positive_are_refused(kernel):
    with pytest.raises(ValueError, match=f"The kernel '{kernel}' is.*{REFUSED[kernel]}"):
        fit(kernel, np.abs(X))


def test_no_kernel_of_scikit_learn_is_forgotten():
    assert GRAMS.keys() | REFUSED.keys() == kernel_metrics().keys()


# --------------------------------------------------------------------------- callables


def matrix_form(A, B, width=1.0):
    return np.exp(-scipy.spatial.distance.cdist(A, B, "sqeuclidean") / width)


def row_form(a, b, width=1.0):
    return float(np.exp(-((a - b) ** 2).sum() / width))


class Matrix:
    def __call__(self, A, B):
        return matrix_form(A, B, 2.0)


@pytest.mark.parametrize("kernel", [matrix_form, row_form])
@pytest.mark.parametrize("size", ["auto", 20])
def test_callables_are_the_kernel_they_compute(kernel, size):
    est = fit(kernel, kernel_params={"width": 2.0}, n_components=size)
    named = fit("rbf", gamma=0.5, n_components=size)
    assert est.gamma_ is None
    np.testing.assert_allclose(est.transform(NEW), named.transform(NEW), atol=1e-8)


def test_an_object_that_can_be_called():
    np.testing.assert_allclose(
        fit(Matrix()).transform(NEW), fit("rbf", gamma=0.5).transform(NEW), atol=1e-8
    )


def test_two_rows_and_two_features_do_not_confuse_the_forms():
    """Matrices of two rows look like rows to a careless test of shapes."""
    named = fit("rbf", X[:, :2], gamma=0.5).transform(NEW[:, :2])
    for kernel in (matrix_form, row_form):
        est = fit(kernel, X[:, :2], kernel_params={"width": 2.0})
        np.testing.assert_allclose(est.transform(NEW[:, :2]), named, atol=1e-8)


def test_a_callable_with_another_shape_is_refused():
    def wrong(A, B):
        return np.ones(7)

    with pytest.raises(
        ValueError, match=r"kernel 'wrong' must return an array of shape .* returned shape \(7,\)"
    ):
        fit(wrong)


def test_a_callable_that_gives_nan_is_refused():
    def broken(A, B):
        return np.full((len(A), len(B)), np.nan)

    with pytest.raises(ValueError, match=r"kernel 'broken'.*not finite"):
        fit(broken)


WRONG_SHAPE = pytest.mark.regression("kernel callable of the wrong shape")


@WRONG_SHAPE
@pytest.mark.parametrize(
    ("returned", "described"),
    [
        (lambda *_: None, "no numbers"),
        (lambda *_: "similar", "no numbers"),
        (lambda *_: [[1.0], [2.0, 3.0]], "no numbers"),
        (lambda A, _: np.array(1.0) if A.ndim == 2 else np.ones(2), r"shape \(\)"),
        (lambda A, B: (A @ B.T).ravel(), r"shape \(12,\)"),
        (lambda A, B: (A @ B.T)[None], r"shape \(1, 3, 4\)"),
    ],
    ids=["none", "text", "ragged", "number", "flat", "three dimensions"],
)
def test_what_a_callable_must_return_is_said_with_its_shape(returned, described):
    expected = r"must return an array of shape \(3, 4\) for matrices of 3 and 4 rows, or one number"
    with pytest.raises(ValueError, match=f"{expected}.* It returned {described} for the matrices"):
        fit(returned)


@WRONG_SHAPE
def test_a_shape_that_is_wrong_for_other_rows_only_is_refused():
    def cut(A, B):  # right on few rows
        return (A @ B.T)[:, :10]

    with pytest.raises(ValueError, match=r"must return an array of shape \(20, 20\).*\(20, 10\)"):
        fit(cut, n_components=20)


@WRONG_SHAPE
@pytest.mark.parametrize("value", [np.ones(2), None, "far"])
def test_a_function_of_two_rows_must_keep_to_one_number(value):
    def changing(a, b):
        return value if (a > 0).all() else float(a @ b)

    with pytest.raises(ValueError, match="'changing' must return one number for two rows"):
        fit(changing)


@WRONG_SHAPE
def test_a_function_of_two_rows_must_be_finite():
    def broken(a, b):
        return np.nan if (a > 0).all() else float(a @ b)

    with pytest.raises(ValueError, match=r"'broken' returned 1 values that are not finite"):
        fit(broken)


def test_a_callable_that_fails_says_why():
    def failing(A, B):
        raise RuntimeError("my own bug")

    with pytest.raises(RuntimeError, match="my own bug"):
        fit(failing)


# --------------------------------------------------------------------------- precomputed


def test_precomputed_is_the_kernel_it_holds():
    est = fit("precomputed", rbf_kernel(X, gamma=0.5))
    assert_fair(est, rbf_kernel(X, gamma=0.5))
    named = fit("rbf", gamma=0.5, removal="training_rows")
    np.testing.assert_allclose(
        est.transform(rbf_kernel(NEW, X, gamma=0.5)), named.transform(NEW), atol=1e-8
    )
    assert est.__sklearn_tags__().input_tags.pairwise
    assert not named.__sklearn_tags__().input_tags.pairwise


def test_precomputed_with_fewer_landmarks():
    gram = rbf_kernel(X, gamma=0.5)
    est = fit("precomputed", gram, n_components=25)
    assert est.landmarks_.shape == (25, 1)
    assert est.transform(gram).shape == (80, 1)
    assert_fair(est, gram)
    with pytest.raises(ValueError, match="'rpcholesky' needs a kernel it can evaluate"):
        fit("precomputed", gram, n_components=25, landmarks="rpcholesky")


def test_precomputed_without_the_rows_of_weight_zero():
    weight = (np.arange(len(X)) % 4 > 0).astype(float)
    kept = weight > 0
    gram = rbf_kernel(X, gamma=0.5)
    weighted = fit("precomputed", gram, sample_weight=weight)
    part = fit("precomputed", gram[np.ix_(kept, kept)], y[kept], s[kept])
    np.testing.assert_allclose(
        weighted.transform(rbf_kernel(NEW, X, gamma=0.5)),
        part.transform(rbf_kernel(NEW, X[kept], gamma=0.5)),
        atol=1e-8,
    )


# --------------------------------------------------------------------------- feature maps

MAPS = {
    "random features": RBFSampler(gamma=0.5, n_components=40, random_state=0),
    "trees": RandomTreesEmbedding(n_estimators=10, max_depth=3, random_state=0),
    "polynomial": PolynomialFeatures(degree=2, include_bias=False),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("method", ["optimal", "rkhs"])
def test_any_transformer_is_a_feature_map(name, method):
    est = fit(feature_map=MAPS[name], method=method, removal="training_rows")
    assert_fair(est)
    own = MAPS[name].fit(X).transform(X)
    own = own.toarray() if scipy.sparse.issparse(own) else own
    np.testing.assert_allclose(est.pilot_.features.coordinates(X), own)
    assert est.gamma_ is None
    assert est.landmarks_ is None
    assert est.transform(NEW).shape[0] == len(NEW)


def test_the_map_given_is_cloned_and_stays_unfitted():
    given = RBFSampler(random_state=0)
    est = fit(feature_map=given)
    assert not hasattr(given, "random_weights_")
    assert est.feature_map is given


def test_a_supervised_map_sees_the_labels_as_given():
    target = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    est = fit(
        feature_map=LinearDiscriminantAnalysis(), y=target, fairness=0.0, removal="training_rows"
    )
    assert est.pilot_.features.transformer.classes_.tolist() == ["a", "b", "c"]


def test_a_feature_map_streams():
    one, three = (
        FairRepresentation(feature_map=MAPS["trees"], **RIDGES).prepare(X, y, sensitive_features=s)
        for _ in range(2)
    )
    one.partial_fit(X, y, sensitive_features=s)
    for rows in np.array_split(np.arange(len(X)), 3):
        three.partial_fit(X[rows], y[rows], sensitive_features=s[rows], solve=False)
    np.testing.assert_allclose(three.solve().transform(NEW), one.transform(NEW), atol=1e-8)


# --------------------------------------------------------------------------- landmarks


@pytest.mark.parametrize("landmarks", ["stratified", "rpcholesky"])
def test_landmarks_are_rows_and_follow_the_seed(landmarks):
    est = fit(gamma=0.5, n_components=20, landmarks=landmarks, removal="training_rows")
    assert est.landmarks_.shape == (20, 3)
    assert {tuple(row) for row in est.landmarks_} <= {tuple(row) for row in X}
    again = fit(gamma=0.5, n_components=20, landmarks=landmarks, removal="training_rows")
    other = fit(
        gamma=0.5, n_components=20, landmarks=landmarks, random_state=1, removal="training_rows"
    )
    np.testing.assert_array_equal(est.landmarks_, again.landmarks_)
    assert not np.array_equal(est.landmarks_, other.landmarks_)
    assert_fair(est)


def test_stratified_landmarks_see_a_small_group():
    rng = np.random.default_rng(0)
    group = (np.arange(600) < 10).astype(int)
    rows = rng.normal(size=(600, 3)) + 5.0 * group[:, None]
    target = rng.normal(size=600)
    est = fit(X=rows, y=target, s=group, gamma=0.5, n_components=40, removal="training_rows")
    assert (est.landmarks_.mean(axis=1) > 2.5).sum() == 10
    residual = est.approximation_residual_["sensitive_feature_0"]
    assert residual["1"] < 1e-6 < residual["0"]  # all of its rows are landmarks


def test_the_residual_is_reported_by_group():
    residual = fit(gamma=0.5, n_components=10).approximation_residual_
    assert set(residual["sensitive_feature_0"]) == {"0", "1"}
    assert all(0.0 < share < 1.0 for share in residual["sensitive_feature_0"].values())
    exact = fit(gamma=0.5).approximation_residual_
    assert max(exact["sensitive_feature_0"].values()) < 1e-8


def test_pivoted_cholesky_stops_at_the_rank():
    few = np.repeat(X[:8], 10, axis=0)
    est = fit(X=few, gamma=0.5, n_components=30, landmarks="rpcholesky")
    assert len(est.landmarks_) <= 8


@pytest.mark.parametrize("container", [np.asarray, np.ndarray.tolist])
def test_landmarks_of_your_own(container):
    own = NEW[:15]
    est = fit(gamma=0.5, landmarks=container(own), removal="training_rows")
    np.testing.assert_array_equal(est.landmarks_, np.unique(own, axis=0))
    shuffled = fit(gamma=0.5, landmarks=own[::-1].repeat(2, axis=0), removal="training_rows")
    np.testing.assert_allclose(est.transform(NEW), shuffled.transform(NEW), atol=1e-10)
    assert_fair(est)


# --------------------------------------------------------------------------- n_components


@pytest.mark.parametrize("size", ["auto", "all", 80])
def test_all_rows_is_the_exact_method(size):
    est = fit(gamma=0.5, n_components=size)
    np.testing.assert_array_equal(est.landmarks_, np.unique(X, axis=0))
    assert est.pilot_.features.exact
    assert est.dropped_mass_ < 1e-10


def test_equal_rows_are_one_landmark():
    est = fit(X=np.round(X), gamma=0.5)
    np.testing.assert_array_equal(est.landmarks_, np.unique(np.round(X), axis=0))
    assert est.n_components_ <= len(est.landmarks_)


def test_auto_stops_at_a_thousand():
    X, y, s = table(1001)
    est = fit(X=X, y=y, s=s, gamma=0.5, removal="training_rows")
    assert len(est.landmarks_) == 1000
    assert not est.pilot_.features.exact
    assert 0.0 <= est.dropped_mass_ < 1e-4
    assert_fair(est, X, s)


# --------------------------------------------------------------------------- gamma


@pytest.mark.parametrize(("kernel", "metric"), [("rbf", "euclidean"), ("laplacian", "cityblock")])
def test_gamma_from_the_median_distance(kernel, metric):
    median = np.median(scipy.spatial.distance.pdist(X, metric))
    power = 2 if kernel == "rbf" else 1
    assert fit(kernel, gamma="median").gamma_ == pytest.approx(1.0 / (1.5 * median) ** power)
    grid = [1.0 / (m * median) ** power for m in (0.7, 1.5, 3.0)]
    assert min(abs(fit(kernel, gamma="cv").gamma_ / g - 1.0) for g in grid) < 1e-12


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
def test_gamma_scale_is_that_of_scikit_learn(kernel):
    assert fit(kernel, gamma="scale").gamma_ == pytest.approx(1.0 / (X.shape[1] * X.var()))


def test_gamma_by_number_and_by_default():
    assert fit(gamma=0.37).gamma_ == 0.37
    assert FairRepresentation().gamma == "cv"
    assert fit("cosine").gamma_ is None


def test_cross_validation_of_gamma_tells_narrow_from_wide():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3, 3, size=(400, 1))
    group = rng.integers(0, 2, 400)
    narrow = fit(X=rows, y=np.sin(9 * rows[:, 0]), s=group, gamma="cv").gamma_
    wide = fit(X=rows, y=0.1 * rows[:, 0] + rng.normal(size=400), s=group, gamma="cv").gamma_
    assert narrow > wide


def test_without_y_the_width_is_the_median():
    est = FairRepresentation(subspace="fair", random_state=0, **RIDGES)
    est.fit(X, sensitive_features=s)
    assert est.gamma_ == fit(gamma="median").gamma_


def test_constant_features_have_a_width():
    assert fit(X=np.column_stack([X[:, 0], np.ones(len(X))])).gamma_ > 0
    with pytest.raises(ValueError, match="X is constant"):
        fit(X=np.ones((80, 2)), gamma="scale")


def test_fixed_parameters_are_what_they_say():
    est = fit(**FIXED)
    assert (est.gamma_, est.alpha_) == (0.5, pytest.approx(1.0))
    assert {block.eta for block in est.blocks_} == {1e-3}
