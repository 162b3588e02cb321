"""FairEraser as an estimator: scikit-learn's checks, routing, streams, files and errors."""

import copy
from unittest import SkipTest

import numpy as np
import pytest
import scipy.stats
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from tests.support.hashed import hashed_groups
from tests.test_estimator_checks import EQUIVALENCE, TINY, run_checks

from fairspan import FairEraser, load_model, save_model
from fairspan.estimators import prepare
from fairspan.exceptions import DataWarning, IncompatibleMomentsError, NumericalWarning
from fairspan.method.erasure_left import _noncentrality


class HashedFairEraser(FairEraser):
    """S from a hash of each row, for checks that know no S."""

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = hashed_groups(X)
        return super().fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def partial_fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = hashed_groups(X)
        return super().partial_fit(
            X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
        )


def table(n=400, d=5, seed=0):
    rng = np.random.default_rng(seed)
    s = np.where(rng.permutation(np.arange(n) % 2), "a", "b")
    age = rng.normal(size=n)
    X = rng.normal(size=(n, d)) * (1.0 + (s == "a")[:, None]) + (s == "a")[:, None] * rng.normal(
        size=d
    )
    return X + age[:, None] * rng.normal(size=d), (X[:, 0] > 0).astype(int), s, age


X, y, S, AGE = table()
# Without keep_target: in the tables of scikit-learn's checks, S and y often have the same predictor.
VARIANTS = {
    "means": {},
    "half": {"fairness": 0.5},
    "covariances": {"order": 2, "n_directions": 1},
}


@TINY
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_check_passes(variant):
    outcome = run_checks(HashedFairEraser(**VARIANTS[variant]))
    failed = {name: error for name, error in outcome.items() if error is not None}
    # Without pandas, checks of its series skip.
    assert not {name: error for name, error in failed.items() if not isinstance(error, SkipTest)}
    assert len(outcome) >= 50
    assert "check_transformer_preserve_dtypes" in outcome or "check_transformer_general" in outcome


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@TINY
@pytest.mark.parametrize(
    "check",
    [
        "check_dataframe_column_names_consistency",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_global_output_transform_pandas",
        "check_transformer_get_feature_names_out",
    ],
)
def test_checks_that_scikit_learn_keeps_for_its_own(check):
    getattr(estimator_checks, check)("HashedFairEraser", HashedFairEraser())


@TINY
def test_weights_are_copies():
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = FairEraser().fit(X, sensitive_features=S, sample_weight=weight)
    copies = FairEraser().fit(X.repeat(weight, 0), sensitive_features=S.repeat(weight))
    np.testing.assert_allclose(weighted.transform(X), copies.transform(X), rtol=1e-9, atol=1e-9)
    assert EQUIVALENCE  # the check itself leaves too few rows of a group


def test_s_is_routed_through_a_pipeline():
    model = make_pipeline(StandardScaler(), FairEraser(), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(X, y, sensitive_features=S)
        scores = model.decision_function(X)
    plain = make_pipeline(StandardScaler(), FairEraser(), LogisticRegression())
    plain.fit(X, y, faireraser__sensitive_features=S)
    np.testing.assert_allclose(scores, plain.decision_function(X))
    means = [scores[g == S].mean() for g in "ab"]
    assert abs(means[0] - means[1]) < 1e-12


def test_columns_of_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(sex=S)
    eraser = FairEraser().fit(frame, sensitive_features="sex").set_output(transform="pandas")
    out = eraser.transform(frame)  # the column of S may be there, and is not used
    assert out.columns.tolist() == list("vwxyz")
    np.testing.assert_array_equal(out, eraser.transform(frame[list("vwxyz")]))
    np.testing.assert_allclose(out, FairEraser().fit(X, sensitive_features=S).transform(X))


@pytest.mark.parametrize("variant", ["half", "covariances"])
@pytest.mark.parametrize("keep_moments", [True, False])
def test_files(variant, keep_moments, tmp_path):
    pytest.importorskip("skops")
    eraser = FairEraser(**VARIANTS[variant]).fit(X, y, sensitive_features=S)
    loaded = load_model(save_model(eraser, tmp_path / "e.skops", keep_moments=keep_moments))
    np.testing.assert_array_equal(loaded.transform(X), eraser.transform(X))
    np.testing.assert_array_equal(loaded.at(0.3).transform(X), eraser.at(0.3).transform(X))
    assert str(loaded.certificate_) == str(eraser.certificate_)
    assert loaded.certificate_.blocks == eraser.certificate_.blocks
    if keep_moments:
        loaded.solve()
    else:
        with pytest.raises(ValueError, match="needs the moments"):
            loaded.solve()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("order", [1, 2])
def test_streams_give_the_same_map(order, tmp_path):
    pytest.importorskip("pyarrow")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({**columns, "sex": S}), path, row_group_size=64)
    fitted = FairEraser(order, n_directions=1).fit(X, sensitive_features=S)
    streamed = FairEraser(order, n_directions=1).fit_stream(path, sensitive_features="sex")
    np.testing.assert_allclose(streamed.transform(X), fitted.transform(X), rtol=1e-9, atol=1e-10)
    blocks = [(X[:150], None, S[:150]), (X[150:], None, S[150:])]
    again = FairEraser(order, n_directions=1).fit_stream(blocks)
    np.testing.assert_allclose(again.transform(X), fitted.transform(X), rtol=1e-9, atol=1e-10)


def test_rows_without_s_are_left_out():
    some = S.astype(object).copy()
    some[::5] = None
    known = np.array([value is not None for value in some])
    eraser = FairEraser(missing_sensitive="omit").fit(X, sensitive_features=some)
    Z = eraser.transform(X[known])
    assert np.abs(Z[S[known] == "a"].mean(0) - Z[S[known] == "b"].mean(0)).max() < 1e-12
    with pytest.raises(ValueError, match="missing_sensitive='omit'"):
        FairEraser().fit(X, sensitive_features=some)
    with pytest.raises(ValueError, match="order=2 needs the groups of all rows"):
        FairEraser(2, missing_sensitive="omit").fit(X, sensitive_features=some)


def test_combinations_of_attributes():
    other = np.where(AGE > 0, "old", "young")
    both = {"sex": S, "age": other}
    crossed = FairEraser(intersectional=True, order=2, n_directions=1)
    Z = crossed.fit(X, sensitive_features=both).transform(X)
    assert list(crossed.sensitive_kinds_) == ["sex x age"]
    means = [Z[(a == S) & (other == b)].mean(0) for a in "ab" for b in ("old", "young")]
    assert max(np.abs(mean - means[0]).max() for mean in means) < 1e-12
    each = FairEraser().fit(X, sensitive_features=both)
    assert each.n_removed_ == 2 < crossed.n_removed_


def test_the_certificate_covers_what_is_left_for_new_people():
    """Intervals cover the correlation that the best linear predictor reaches, with unequal covariances."""
    rng = np.random.default_rng(0)
    covered, draws, d = 0, 60, 6
    for _ in range(draws):
        shift, scale = rng.normal(size=d), 1.0 + rng.random(d)
        s = rng.random(300) < 0.25
        rows = rng.normal(size=(300, d)) * np.where(s[:, None], scale, 1.0) + s[:, None] * shift
        eraser = FairEraser().fit(rows, sensitive_features=s)
        left = np.eye(d) - eraser.removed_
        delta = left @ shift * np.sqrt(0.25 * 0.75)
        within = np.diag(0.25 * scale**2 + 0.75) + 0.25 * 0.75 * np.outer(shift, shift)
        inverse = np.linalg.pinv(left @ within @ left.T, rcond=1e-9)
        true = float(np.sqrt(delta @ inverse @ delta))
        (block,) = eraser.certificate_.blocks
        covered += block.low <= true <= block.high
        assert block.training_rows < 1e-10
    # Binomial: at least 52 of 60 with probability .99 if the intervals hold 95 %.
    assert covered >= 52


def left_to_find(eraser, shift, share):
    """Root of the mean squared canonical correlation of new vectors with groups, of unit covariances."""
    delta = (shift - share @ shift).T * np.sqrt(share)
    left = np.eye(len(delta)) - eraser.removed_
    cov = left @ (np.eye(len(delta)) + delta @ delta.T) @ left.T
    values, vectors = np.linalg.eigh(cov)
    seen = values > 1e-9 * values[-1]
    squares = ((vectors[:, seen].T @ left @ delta) ** 2).sum(axis=1) / values[seen]
    return float(np.sqrt(squares.sum() / min(len(share) - 1, len(delta))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
@pytest.mark.parametrize(
    "counts", [(994, 6), (494, 500, 6), (100, 100, 100, 100, 100, 100), (900, 12, 50), (200, 5)]
)
def test_the_certificate_covers_small_and_many_groups(counts):
    rng = np.random.default_rng(0)
    share = np.array(counts) / sum(counts)
    s = np.repeat(np.arange(len(counts)), counts)
    covered = known = 0
    for _ in range(60):
        shift = rng.normal(size=(len(counts), 8)) * 2.0
        eraser = FairEraser().fit(rng.normal(size=(len(s), 8)) + shift[s], sensitive_features=s)
        true = left_to_find(eraser, shift, share)
        (block,) = eraser.certificate_.blocks
        known += not np.isnan(block.high)
        covered += block.low <= true <= block.high
    # Binomial: at most 8 of 60 are missed with probability .99 if the intervals hold 95 %.
    assert known - covered <= 8
    assert known >= 20


def test_a_group_that_some_folds_leave_short_is_still_removed_there():
    rng = np.random.default_rng(0)
    s = (np.arange(2000) < 6).astype(int)
    rows = rng.normal(size=(2000, 5)) + s[:, None] * np.array([6.0, 0, 0, 0, 0])
    (block,) = FairEraser().fit(rows, sensitive_features=s).certificate_.blocks
    assert block.before > 0.2
    assert np.isnan(block.high) or block.new_rows < 0.15


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
@pytest.mark.parametrize(
    "means", [[[0, 1], [2, 0], [1, 3]], [[0.1, 1.7], [2.3, 0.9], [1.1, 3.3]], [[0], [1]]]
)
def test_vectors_that_are_functions_of_s(means):
    """There is no noise then, and S is known from them."""
    s = np.random.default_rng(0).integers(0, len(means), 600)
    eraser = FairEraser().fit(np.array(means, dtype=float)[s], sensitive_features=s)
    (whole,), (half,) = eraser.certificate_.blocks, eraser.at(0.5).certificate_.blocks
    assert (whole.new_rows, whole.low, whole.high) == (0.0, 0.0, 0.0)
    assert half.training_rows == pytest.approx(1.0, abs=1e-9)
    assert 0.99 < half.low <= half.new_rows <= half.high <= 1.0


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
@pytest.mark.parametrize("order", [1, 2])
def test_rare_flags_have_a_certificate(order):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        flags, s = (rng.random((1000, 2)) < 0.03) * 1.0, rng.random(1000) < 0.5
        (block,) = FairEraser(order).fit(flags, sensitive_features=s).certificate_.blocks
        assert not block.high > 1.0


def test_noncentralities_beyond_the_series_of_scipy():
    for ratio in (1e4, 1e7):
        for degrees in (10.0, 5e4):
            low, high = (_noncentrality(ratio, degrees, q) for q in (0.975, 0.025))
            assert low < ratio * degrees < high
            # The ratio of the noncentrality and the sum of squares of the noise.
            expected = ratio * scipy.stats.chi2.ppf([0.025, 0.975], degrees)
            np.testing.assert_allclose([low, high], expected, rtol=0.02)


def test_the_correlation_of_several_groups_is_a_mean():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 11, 3000)
    rows = rng.normal(size=(3000, 12)) + 1.2 * np.eye(11, 12)[s]
    eraser = FairEraser().fit(rows, sensitive_features=s)
    bases = [
        np.linalg.svd(part - part.mean(axis=0), full_matrices=False)[0][:, :rank]
        for part, rank in ((rows, 12), (np.eye(11)[s], 10))
    ]
    squares = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False) ** 2
    assert squares.sum() > 1.0  # a sum is no correlation
    (block,) = eraser.at(0.5).certificate_.blocks
    assert block.training_rows == pytest.approx(np.sqrt(squares.mean()), abs=1e-9)
    assert block.low < np.sqrt(squares.mean()) < block.high < 0.5
    (block,) = eraser.certificate_.blocks
    assert block.high < 0.15


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
@pytest.mark.parametrize("groups", [2, 10])
def test_directions_of_covariances_are_removed_where_they_differ_only(groups):
    removed = {1.0: [], 1.8: []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        s = np.arange(3000) % groups
        rows = rng.normal(size=(3000, 20))
        for ratio, found in removed.items():
            scaled = rows * np.where((s == 0)[:, None] & (np.arange(20) == 0), ratio, 1.0)
            eraser = FairEraser(2).fit(scaled, sensitive_features=s)
            found.append(eraser.n_removed_ - (groups - 1))
    # Of equal normal covariances a direction is removed in about one fit of twenty.
    assert sum(n > 0 for n in removed[1.0]) <= 2
    assert np.median(removed[1.8]) == 1


def test_the_certificate_below_fairness_one_is_that_of_the_vectors():
    eraser = FairEraser().fit(X, sensitive_features=S)
    (half,), (whole,) = eraser.at(0.5).certificate_.blocks, eraser.certificate_.blocks
    assert half.new_rows == half.before == whole.before > whole.new_rows
    lines = str(eraser.certificate_).splitlines()
    assert lines[0].split() == [
        *("attribute", "compared", "by", "before", "training", "rows"),
        *("new", "rows", "interval", "rows"),
    ]
    assert "<1e-10" in lines[1]


def test_a_wide_table_keeps_its_columns(monkeypatch):
    expected = FairEraser().fit(X, sensitive_features=S).transform(X)
    monkeypatch.setattr(prepare, "MOST_LINEAR", 3)
    monkeypatch.setattr(prepare, "AUTO_COMPONENTS", 2)
    np.testing.assert_array_equal(FairEraser().fit(X, sensitive_features=S).transform(X), expected)
    monkeypatch.setattr(prepare, "memory_bytes", lambda: 1000)
    with pytest.raises(ValueError, match="5 feature columns"):
        FairEraser().fit(X, sensitive_features=S)


def test_a_parameter_set_after_the_fit_does_not_change_the_map():
    eraser = FairEraser().fit(X, sensitive_features=S)
    expected, certificate = eraser.transform(X), str(eraser.certificate_)
    for fairness in (0.5, 0.0, 3.0):
        eraser.set_params(fairness=fairness)
        np.testing.assert_array_equal(eraser.transform(X), expected)
        assert str(eraser.certificate_) == certificate


def test_too_few_rows_for_a_certificate():
    few = np.random.default_rng(0).normal(size=(60, 70))
    eraser = FairEraser().fit(few, sensitive_features=np.arange(60) % 2)
    Z = eraser.transform(few)
    assert np.abs(Z[::2].mean(0) - Z[1::2].mean(0)).max() < 1e-12
    (block,) = eraser.certificate_.blocks
    assert np.isnan([block.new_rows, block.low, block.high]).all()
    assert "unknown" in str(eraser.certificate_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"order": 3}, "order=3 is not allowed"),
        ({"n_directions": -1}, "n_directions=-1 is not allowed"),
        ({"keep_target": "yes"}, "keep_target='yes' is not allowed"),
        ({"fairness": 1.5}, "fairness=1.5 is not allowed"),
        ({"keep_target": True}, "keep_target=True needs y"),
        ({"order": 2, "sensitive_kind": "probabilities"}, "order=2 needs the groups"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        FairEraser(**params).fit(X, sensitive_features=S)


def test_a_target_with_the_same_predictor_is_refused():
    with pytest.raises(ValueError, match="keep_target=True is not possible"):
        FairEraser(keep_target=True).fit(X, S, sensitive_features=S)
    nearly = (S == "a") + 1e-3 * np.random.default_rng(0).normal(size=len(S))
    with pytest.warns(NumericalWarning, match="stretches vectors"):
        FairEraser(keep_target=True).fit(X, nearly, sensitive_features=S)


def test_what_an_eraser_cannot_do():
    eraser = FairEraser().fit(X, sensitive_features=S)
    assert not hasattr(eraser, "export_moments")
    with pytest.raises(ValueError, match="fairness"):
        eraser.at(2.0)
    with pytest.raises(ValueError, match="order was changed after the fit"):
        copy.copy(eraser).set_params(order=2).at(0.5)
    with pytest.raises(IncompatibleMomentsError):
        eraser.merge(FairEraser(2, n_directions=1).fit(X, sensitive_features=S))
    with pytest.warns(NumericalWarning, match="Nothing is left"):
        FairEraser(2, n_directions=5).fit(X, sensitive_features=S)
    with pytest.warns(DataWarning, match="first block"):
        clone(eraser).partial_fit(X, sensitive_features=S)


@TINY
def test_probabilities_of_groups():
    """Means of the true groups are equal, if the probabilities are calibrated; new rows stay unknown."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 1.0, size=20_000)
    group = rng.random(len(p)) < p
    rows = rng.normal(size=(len(p), 3)) + group[:, None] * [1.0, 0.0, 2.0]
    eraser = FairEraser(sensitive_kind="probabilities")
    eraser.fit(rows, sensitive_features={"a": p, "b": 1.0 - p})
    Z = eraser.transform(rows)
    assert np.abs(Z[group].mean(0) - Z[~group].mean(0)).max() < 0.1  # 2.0 before
    (block,) = eraser.certificate_.blocks
    assert np.isnan(block.high)


def test_notebooks_show_the_certificate():
    eraser = FairEraser()
    assert "linear predictors" not in eraser._repr_html_inner()
    eraser.fit(X, sensitive_features={"<b>": S})
    page = eraser._repr_html_inner()
    assert "What linear predictors find of S" in page
    assert "&lt;b&gt;" in page
    assert "transform" in dir(eraser)  # scikit-learn asks for every attribute


def test_rows_can_be_forgotten():
    prepared = FairEraser().prepare(X, sensitive_features=S, folds="hash")
    prepared.partial_fit(X, sensitive_features=S).forget(X[:100], sensitive_features=S[:100])
    expected = FairEraser().fit(X[100:], sensitive_features=S[100:]).transform(X)
    np.testing.assert_allclose(prepared.transform(X), expected, atol=1e-10)
