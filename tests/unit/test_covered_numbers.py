"""The ends of the core: nothing to measure, too many combinations, what a message must say."""

import sys
import warnings

import numpy as np
import pytest
import scipy.linalg

from fairspan import (
    DataWarning,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from fairspan.estimators.path_selection import choose
from fairspan.inputs.config import read_config
from fairspan.method.certificates import supremum
from fairspan.method.codes import Coder, _row_keys
from fairspan.method.features import LandmarkMap, pivoted_cholesky_landmarks
from fairspan.method.folds import _single_key
from fairspan.method.kernels import Kernel
from fairspan.method.laplace import _Factor
from fairspan.method.linalg import Tridiagonal
from fairspan.method.sdr import CodeBlock, gcv_ridge
from fairspan.method.spaces import FairComponents

FEW = {"gamma": 0.3, "alpha": 1.0, "eta": 1e-3, "n_components": 30, "random_state": 0}
N = 160


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 0.8 * s[:, None]
    return X, X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n), s


# ------------------------------------------------------------------ codes and keys


def same_partition(a, b):
    return (
        len(np.unique(a)) == len(np.unique(b)) == len(set(zip(a.tolist(), b.tolist(), strict=True)))
    )


def test_folds_tell_any_number_of_combinations_apart(rng):
    small = rng.integers(-1, 3, (80, 5))
    large = np.where(small < 0, -1, small * 2**30)  # more combinations than integers
    assert same_partition(_single_key(small), _single_key(large))


def test_cells_tell_any_number_of_combinations_apart(rng):
    rows, step = rng.integers(0, 3, (60, 4)), 2**20
    known = np.unique(rows[:50], axis=0)
    keys, found = _row_keys(known, rows)
    far, far_found = _row_keys(known * step, rows * step)
    assert (np.diff(keys) > 0).all()
    assert (np.diff(far) > 0).all()
    for k in range(len(rows)):
        np.testing.assert_array_equal(found[k] == keys, far_found[k] == far)


def test_slices_have_names():
    assert Coder("age", "continuous", np.array([])).labels == ("all values",)
    assert Coder("age", "continuous", np.array([3.0, 5.0])).labels == ("< 3", "[3, 5)", ">= 5")


# ------------------------------------------------------------------ linear algebra


@pytest.mark.parametrize("d", [1, 3])
def test_without_codes_there_is_no_correlation(d):
    found, weights = supremum(np.eye(d), np.zeros((d, 0)))
    assert found == 0.0
    np.testing.assert_array_equal(weights, np.zeros(d))


def test_a_curvature_without_full_rank_is_solved_as_far_as_it_goes(rng):
    """Separated classes leave directions without curvature; the others have their answer."""
    A = rng.normal(size=(5, 3))
    curvature, right = A @ A.T, A @ rng.normal(size=3)
    found = _Factor(curvature).solve(right)
    np.testing.assert_allclose(curvature @ found, right, atol=1e-8 * np.abs(right).max())
    whole = curvature + np.diag(np.geomspace(1e-3, 1e6, 5))
    np.testing.assert_allclose(
        _Factor(whole).solve(right), scipy.linalg.solve(whole, right), rtol=1e-6
    )


def test_where_no_ridge_leaves_freedom_the_largest_is_taken(rng):
    """Fewer effective rows than one direction needs: every score is infinite."""
    cov = np.eye(6)
    tri = Tridiagonal.of(cov)
    eta, edge = gcv_ridge(
        tri, tri.eigenvalues(), CodeBlock(delta=rng.normal(size=(6, 1)), n_effective=0.5, n_rows=2)
    )
    larger, _ = gcv_ridge(
        tri,
        tri.eigenvalues(),
        CodeBlock(delta=0.1 * np.eye(6)[:, :1], n_effective=500.0, n_rows=500),
    )
    assert edge
    assert eta >= larger


def test_landmarks_are_not_drawn_twice_where_rounding_leaves_a_rest(rng):
    """Copies of a row are spanned by it: what is left of them is rounding, and is no landmark."""
    X = np.repeat(rng.normal(size=(6, 2)), 20, axis=0) + 1e-8 * rng.normal(size=(120, 2))
    chosen = pivoted_cholesky_landmarks(Kernel("rbf", {"gamma": 1.0}), X, 60, rng)
    assert len(chosen) == len(set(chosen.tolist()))
    assert {i // 20 for i in chosen.tolist()} == set(range(6))


def test_a_precomputed_kernel_has_no_diagonal_of_new_rows():
    features = LandmarkMap.build(
        Kernel("precomputed"), np.arange(3.0)[:, None], np.eye(3), exact=True
    )
    with pytest.raises(ValueError, match="not part of a precomputed kernel"):
        features.residual(np.ones((2, 3)))


# ------------------------------------------------------------------ dials


class Angles:
    def __init__(self, *angles):
        self.pair = type("Pair", (), {"angles": np.array(angles)})


def shrinkage(solution, est, fairness):
    return FairComponents(solution, read_config(est))._shrinkage(fairness)


@pytest.mark.parametrize(
    ("angle", "expected"),
    [(0.0, lambda f: f), (np.pi / 2, lambda f: float(f > 0.0)), (0.6, None)],
)
def test_the_shrinkage_of_a_fair_prior_runs_from_0_to_1(angle, expected):
    est = FairRepresentation(subspace="fair")
    dial = np.linspace(0.0, 1.0, 11)
    found = np.array([shrinkage(Angles(0.0, angle), est, f) for f in dial])
    assert found[0] == pytest.approx(0.0)
    assert found[-1] == 1.0
    assert (np.diff(found) >= 0.0).all()
    if expected is not None:
        np.testing.assert_allclose(found, [expected(f) for f in dial])


def test_half_way_needs_something_to_predict():
    X, _, s = rows()
    model = FairRepresentation(**FEW, subspace="fair", fairness=0.5)
    with pytest.raises(ValueError, match="needs y"):
        model.fit(X, sensitive_features=s)


def test_the_paper_has_all_of_f_at_the_fair_end_alone():
    est = FairRepresentation(subspace="fair", method="paper")
    with pytest.raises(ValueError, match=r"only at the fair end.*fairness=1"):
        shrinkage(Angles(0.3), est, 0.5)
    assert shrinkage(Angles(0.3), est, 1.0) == 1.0


@pytest.mark.parametrize("subspace", ["model", "fair"])
@pytest.mark.parametrize("fairness", [0.2, 0.9])
def test_the_cosine_dial_turns_the_predictor_by_its_angle(fairness, subspace):
    X, y, s = rows()
    fit = {"X": X, "y": y, "sensitive_features": s}
    few = {**FEW, "subspace": subspace}
    cosine = FairRidge(**few, dial="cosine", fairness=fairness).fit(**fit)
    theta = float(cosine._solution.pair.angles.max())
    share = 1.0 - min(theta, np.arccos(fairness)) / theta
    angle = FairRidge(**few, fairness=share).fit(**fit)
    np.testing.assert_allclose(cosine.predict(X), angle.predict(X), rtol=1e-8, atol=1e-10)


def test_n_slices_of_distinct_values_need_values_that_repeat():
    X, y, s = rows()
    model = FairRidge(**FEW, criterion="eo", n_slices="distinct")
    with pytest.raises(ValueError, match=rf"{N} slices for {N} rows.*round y"):
        model.fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("wanted", ["auto", "test", 1])
def test_directions_of_a_target_that_does_not_vary_are_none(wanted):
    X, _, s = rows()
    model = FairRidge(**FEW, n_predictive_directions=wanted)
    with pytest.warns(DataWarning, match="y is constant") as said:
        model.fit(X, np.full(N, 7.0), sensitive_features=s)
    assert len(said) == 1
    np.testing.assert_array_equal(model.predict(X), np.full(N, 7.0))


@pytest.mark.parametrize("constant", [False, True])
def test_evidence_is_the_same_with_its_gradient(constant):
    X, y, s = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = FairGPRegressor(**FEW).fit(X, np.ones(N) if constant else y, sensitive_features=s)
    value, slope = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(), rel=1e-9)
    theta = np.log([model.prior_precision_, model.noise_])
    for k, step in enumerate(1e-5 * np.eye(2)):
        up, down = (model.log_marginal_likelihood(theta + side * step) for side in (1.0, -1.0))
        assert slope[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)


# ------------------------------------------------------------------ paths


def test_a_metric_of_ones_own_gets_s_by_name_or_by_place():
    X, y, s = rows()
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)

    def gap(y_true, y_pred, groups):
        return abs(y_pred[groups == 1].mean() - y_pred[groups == 0].mean())

    def named(y_true, y_pred, *, sensitive_features):
        return gap(y_true, y_pred, sensitive_features)

    by_place, by_name = path.curve(gap), path.curve(named)
    np.testing.assert_array_equal(by_name, by_place)
    for k, fairness in enumerate(path.fairness):
        assert by_name[k] == pytest.approx(gap(y, model.at(fairness).predict(X), s))


def test_a_choice_needs_a_number_everywhere():
    value = np.array([0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match="ks is not defined on these rows"):
        choose("ks", value, np.ones(3), "metric", 0.2)
    assert choose("ks", np.array([0.1, 0.2, 0.3]), np.array([3.0, 2.0, 1.0]), "metric", 0.2) == (
        1,
        True,
    )


def test_a_cell_that_no_row_judges_has_no_noise():
    """A stratum that only training rows have says nothing about new rows."""
    X, y, s = rows()
    labels = np.where(y > 1.5, "c", np.where(y > 0.0, "b", "a"))
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    seen = labels != "c"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        path = FairnessPath.from_estimator(
            model, X[seen], labels[seen], sensitive_features=s[seen], n_points=3
        )
    assert np.isfinite(path.error).all()
    assert np.isfinite(path.noise)


# ------------------------------------------------------------------ words


def test_text_beside_a_column_named_as_the_protected_one_is_explained():
    pd = pytest.importorskip("pandas")
    X, y, s = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(sex=s, town="x")
    with pytest.raises(ValueError, match=r"'sex' has the name of a protected.*table_encoder"):
        FairRidge(**FEW).fit(frame, y, sensitive_features=pd.Series(s, name="sex"))


def test_a_model_with_an_encoder_needs_the_table_it_knows():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y, s = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        sex=s, y=y, town=np.where(X[:, 0] > 0, "x", "z")
    )
    model = FairRidge(**FEW).fit_stream(frame, target="y", sensitive_features="sex")
    with pytest.raises(ValueError, match="needs a data frame with the same columns; got ndarray"):
        model.predict(X)
    with pytest.raises(ValueError, match="no column 'town', which the model was fitted with"):
        model.predict(frame[list("abc")])


def test_two_rows_are_too_few_to_recognise_a_protected_column():
    """Any two columns of two rows are alike; three rows can differ."""
    from fairspan.inputs.rows import _warn_sensitive_columns

    est = FairRepresentation(**FEW)
    s = np.arange(6.0) % 2
    X = np.column_stack([s, np.arange(6.0) ** 2])
    data = est._read(X, np.arange(6.0), s, None, None, reset=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_sensitive_columns(est, data.take(np.arange(2)))
    with pytest.warns(DataWarning, match="protected"):
        _warn_sensitive_columns(est, data)


def test_a_data_file_that_cannot_be_read_is_named(tmp_path):
    from fairspan.datasets import _files
    from fairspan.exceptions import DatasetError

    with pytest.raises(DatasetError, match=r"data cannot be read"):
        _files.read(None, tmp_path / "data")


def test_a_warning_from_the_top_of_a_program_has_a_place(monkeypatch):
    """Where every caller is the library's own, the outermost is named rather than none."""
    import types

    from fairspan.exceptions import NumericalWarning, warn_user

    frame = None
    for name in ("fairspan.cli", "fairspan.a"):
        frame = types.SimpleNamespace(f_back=frame, f_globals={"__name__": name})
    monkeypatch.setattr(sys, "_getframe", lambda _: frame)
    with pytest.warns(NumericalWarning, match="mind this"):
        warn_user("mind this", NumericalWarning)


def test_a_stream_that_brought_one_group_alone_is_refused_until_the_other_comes():
    X, y, s = rows()
    model = FairRidge(**FEW).prepare(X, y, sensitive_features=s)
    first, rest = s == 0, s == 1
    model.partial_fit(X[first], y[first], sensitive_features=s[first], solve=False)
    with pytest.raises(ValueError, match="does not have two levels"):
        model.solve()
    model.partial_fit(X[rest], y[rest], sensitive_features=s[rest], solve=False)
    whole = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.solve().predict(X), whole.predict(X), rtol=1e-6, atol=1e-8)


def test_an_interval_within_classes_holds_its_curve():
    X, y, s = rows()
    labels = (y > 1.0).astype(int)
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, labels, sensitive_features=s, n_points=3)
    low, high = path.interval("correlation", 0.9, 40, random_state=0)
    assert (low <= high).all()
    assert low[0] <= path.curve("correlation")[0] <= high[0]


@pytest.mark.parametrize("there", [True, False])
def test_a_download_that_fails_leaves_folders_as_they_were(there, tmp_path, monkeypatch):
    from types import SimpleNamespace

    from fairspan.datasets import _files

    def fails(*_):
        raise OSError("no way out")

    monkeypatch.setattr(_files, "_download_into", fails)
    folder = tmp_path / "data"
    if there:
        folder.mkdir()
    with pytest.raises(OSError, match="no way out"):
        _files._download(SimpleNamespace(convert=len), folder, None)
    assert folder.exists() == there


def test_a_generator_is_no_part_of_a_saved_model(tmp_path):
    pytest.importorskip("skops")
    from fairspan import load_model, save_model

    X, y, s = rows()
    generator = np.random.RandomState(0)
    model = FairRidge(**{**FEW, "random_state": generator}).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    assert model.random_state is generator
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
