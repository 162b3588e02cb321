"""Weights of rows: finite, not negative, and enough of them in every group that is certified."""

import numpy as np
import pytest
import sklearn

from fairspan import (
    DataWarning,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    metrics,
)
from tests.support.small import FIXED, table

X, y, s = table(120)
N = len(X)


def weights(value):
    out = np.ones(N)
    out[3] = value
    return out


def stream(w):
    block = {"X": X, "y": y, "sensitive_features": s, "sample_weight": w}
    return FairRidge(n_components=20, **FIXED).fit_stream([block])


def prepared():
    return FairRepresentation(**FIXED).prepare(X, y, sensitive_features=s)


FITS = {
    "fit": lambda w: FairRepresentation(**FIXED).fit(X, y, sensitive_features=s, sample_weight=w),
    "prepare": lambda w: FairRepresentation(**FIXED).prepare(
        X, y, sensitive_features=s, sample_weight=w
    ),
    "partial_fit": lambda w: prepared().partial_fit(X, y, sensitive_features=s, sample_weight=w),
    "fit_stream": stream,
    "fairness_path": lambda w: fairness_path(
        FairRidgeClassifier(**FIXED), X, y, sensitive_features=s, sample_weight=w, cv=2, n_points=2
    ),
    "from_estimator": lambda w: FairnessPath.from_estimator(
        FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s),
        X,
        y,
        sensitive_features=s,
        sample_weight=w,
    ),
}
READERS = FITS | {
    "audit": lambda w: audit(X[:, 0], sensitive_features=s, sample_weight=w, parts=["scores"]),
    "metric": lambda w: metrics.ks_distance(X[:, 0], sensitive_features=s, sample_weight=w),
    "scorer": lambda w: metrics.by_attribute(
        "correlation_ratio", X[:, 0], sensitive_features=s, sample_weight=w
    ),
}


@pytest.mark.regression("NaN weights pass under assume_finite")
@pytest.mark.parametrize("reader", FITS)
def test_a_nan_among_the_weights_is_refused_without_the_checks_of_scikit_learn(reader):
    with sklearn.config_context(assume_finite=True), pytest.raises(ValueError, match="NaN"):
        FITS[reader](weights(np.nan))


@pytest.mark.parametrize("assumed", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("reader", READERS)
def test_weights_that_cannot_be_are_refused_everywhere(reader, value, assumed):
    with (
        sklearn.config_context(assume_finite=assumed),
        pytest.raises(ValueError, match=r"NaN|inf|negative"),
    ):
        READERS[reader](weights(value))


# ------------------------------------------------------------------ groups that weigh nothing

VANISHING = pytest.mark.regression("group with vanishing weight is certified")
GROUP = np.array(["a", "b", "c"])[np.arange(N) % 3]


def light(share):
    """Weights that give group "c" this share of the total, about."""
    return np.where(GROUP == "c", 2.0 * share, 1.0)


@VANISHING
@pytest.mark.parametrize("share", [1e-50, 1e-12])
@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_a_group_with_next_to_no_weight_is_left_out_by_name(share, subspace):
    est = FairRepresentation(subspace=subspace, **FIXED)
    with pytest.warns(DataWarning, match="at most 1e-10 of the weight") as caught:
        est.fit(X, y, sensitive_features={"race": GROUP}, sample_weight=light(share))
    assert len(caught) == 1
    assert "'c' in all rows" in str(caught[0].message)
    (block,) = est.certificate_.blocks
    assert block.left_out == ("c",)
    assert block.n_rows == (GROUP != "c").sum()
    assert "NOT covered, too few rows or too little weight: race=c in all rows" in str(
        est.certificate_
    )


@VANISHING
def test_two_groups_of_which_one_weighs_nothing_are_refused():
    w = np.where(s, 1.0, 1e-50)
    with pytest.raises(ValueError, match="each with more than 1e-10 of the weight"):
        FairRepresentation(**FIXED).fit(X, y, sensitive_features={"sex": s}, sample_weight=w)


@VANISHING
def test_moments_of_later_blocks_count():
    est = FairRepresentation(**FIXED).prepare(X, y, sensitive_features={"race": GROUP})
    est.partial_fit(
        X, y, sensitive_features={"race": GROUP}, sample_weight=light(1e-50), solve=False
    )
    with pytest.warns(DataWarning, match="'c' in all rows"):
        est.solve()


@VANISHING
def test_a_cell_names_the_group_that_weighs_nothing_in_it():
    w = np.where((GROUP == "c") & (y == 1), 1e-50, 1.0)
    est = FairRepresentation(criterion="equalized_odds", **FIXED)
    with pytest.warns(DataWarning, match="at most 1e-10 of the weight") as caught:
        est.fit(X, y, sensitive_features={"race": GROUP}, sample_weight=w)
    assert [str(one.message).count("'c' in y=1") for one in caught] == [1]
    assert "'c' in y=0" not in str(caught[0].message)


@VANISHING
def test_the_bound_of_an_audit_does_not_cover_such_a_group():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 2)) + (GROUP == "c")[:, None]
    found = audit(
        Z[:, 0],
        representation=Z,
        sensitive_features={"race": GROUP},
        sample_weight=light(1e-50),
        parts=["certificate"],
    )
    (bound,) = found.bounds
    assert bound.n_codes == 2
    assert "levels left out, too few rows or too little weight: c" in bound.note


def test_a_small_share_above_the_limit_is_constrained_in_full():
    est = FairRepresentation(**FIXED, removal="training_rows")
    est.fit(X, y, sensitive_features={"race": GROUP}, sample_weight=light(2e-9))
    (block,) = est.certificate_.blocks
    assert (block.left_out, block.n_removed) == ((), 2)
    f = est.transform(X)[:, 0]
    means = [f[one == GROUP].mean() for one in "abc"]
    np.testing.assert_allclose(means, means[0], atol=1e-6 * f.std())
