"""Edges where a formula meets data it was not written for; each was once wrong."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import (
    DataWarning,
    FairRepresentation,
    IncompatibleMomentsError,
    NumericalWarning,
    load_model,
    save_model,
)

FIXED = {"alpha": 0.5, "gamma": 0.2, "random_state": 0}


def test_fewer_features_than_codes_do_not_make_the_test_reject(rng):
    found = []
    for _ in range(40):
        X, s = rng.normal(size=(200, 2)), rng.normal(size=200)
        est = FairRepresentation(
            kernel="linear", subspace="fair", n_sensitive_directions="test", eta=1e-3
        ).fit(X, sensitive_features=s)
        found.append(est.n_directions_["all rows"]["sensitive_feature_0"])
    assert np.mean(np.array(found) == 0) > 0.8  # nominal 95 %; it was 3 %


def test_a_test_that_cannot_be_made_removes_everything_and_says_so(rng):
    X = rng.normal(size=(60, 3))
    s = np.digitize(X[:, 0], [-0.5, 0.5])
    est = FairRepresentation(
        n_sensitive_directions="test", eta=1e-12, **FIXED, removal="training_rows"
    )
    with pytest.warns(NumericalWarning, match="cannot be tested"):
        est.fit(X, X[:, 0] + X[:, 1], sensitive_features={"s": s})
    assert est.n_directions_ == {"all rows": {"s": 2}}
    assert est.certificate_.supremum < 1e-8


def test_nested_transformers_are_part_of_the_pilot(rng):
    X, y, s = rng.normal(size=(80, 3)), rng.normal(size=80), np.arange(80) % 2

    def prepared(seed):
        features = make_pipeline(StandardScaler(), RBFSampler(n_components=20, random_state=seed))
        est = FairRepresentation(
            feature_map=features, alpha=1.0, eta=1e-2, random_state=0, removal="training_rows"
        )
        return est.prepare(X, y, sensitive_features=s).partial_fit(X, y, sensitive_features=s)

    with pytest.raises(IncompatibleMomentsError, match="another pilot"):
        prepared(1).merge(prepared(2))
    assert prepared(1).merge(prepared(1)).moments_.n_rows == 160


def test_gaps_count_only_directions_that_are_in_the_model(rng):
    n = 400
    s, o = rng.integers(0, 2, n), rng.integers(0, 2, n)
    X = np.c_[s, o, rng.normal(size=n)]
    est = FairRepresentation(kernel="linear", alpha=1e-6, eta=1e-3, fairness=0.5)
    with pytest.warns((DataWarning, NumericalWarning)) as caught:
        est.fit(X, 2 * s + o, sensitive_features=s)
    certificate = est.certificate_
    if any("no fair part" in str(w.message) for w in caught):
        assert certificate.accuracy_gap == 1.0
    assert len(certificate.angles) == certificate.n_functions
    assert certificate.containment_gap == pytest.approx(
        np.abs(np.sin(certificate.angles)).max(initial=0.0)
    )


def test_a_cell_in_which_the_features_do_not_vary_is_skipped_by_name(rng):
    n = 120
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 2)) * y[:, None]
    s = rng.integers(0, 2, n)
    est = FairRepresentation(
        kernel="linear", criterion="eo", alpha=1.0, eta=1e-3, removal="training_rows"
    )
    with pytest.warns(DataWarning, match="not constrained in 1 of 2 cells"):
        est.fit(X, y, sensitive_features={"s": s})
    assert "NOT constrained, too few rows or no variation: s in y=0." in str(est.certificate_)
    assert est.certificate_.supremum < 1e-9


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_constant_features_are_refused(kernel):
    with pytest.raises(ValueError, match="X is constant"):
        FairRepresentation(kernel=kernel).fit(
            np.ones((30, 2)), np.arange(30.0), sensitive_features=np.arange(30) % 2
        )


@pytest.mark.parametrize("dependence", ["mean", "correlation"])
def test_an_attribute_that_is_mostly_zero_can_be_constrained(dependence, rng):
    n = 300
    s = np.where(np.arange(n) % 12 == 0, rng.exponential(size=n) + 1.0, 0.0)
    X = rng.normal(size=(n, 3)) + s[:, None]
    est = FairRepresentation(
        dependence=dependence,
        sensitive_kind="continuous",
        eta=1e-3,
        **FIXED,
        removal="training_rows",
    )
    est.fit(X, X[:, 0] + X[:, 1], sensitive_features={"s": s})
    assert est.certificate_.supremum < 1e-9


def test_one_extreme_row_does_not_spoil_the_kernel_of_the_others(rng):
    X = rng.normal(size=(60, 3))
    y, s = X[:, 0] + X[:, 1], np.arange(60) % 2
    plain = FairRepresentation(eta=1e-3, **FIXED).fit(X, y, sensitive_features=s)
    far = np.r_[X, [[1e9, 0, 0]]]
    with pytest.warns(DataWarning, match="standard deviations"):
        est = FairRepresentation(eta=1e-3, **FIXED).fit(
            far, np.r_[y, 0.0], sensitive_features=np.r_[s, 0]
        )
    assert est.n_components_ == plain.n_components_ + 1


def test_many_crossed_attributes_do_not_overflow(rng):
    n = 200
    base = rng.integers(0, 2, n)
    s = {f"s{j}": (base + (j % 3 == 0)) % 3 for j in range(50)}
    X = rng.normal(size=(n, 3)) + base[:, None]
    est = FairRepresentation(intersectional=True, eta=1e-3, **FIXED, removal="training_rows")
    est.fit(X, X[:, 0], sensitive_features=s)
    assert est.certificate_.supremum < 1e-9
    assert est.pilot_.coders[0].n_levels == 2


def test_a_file_without_moments_holds_no_row_of_s(rng, tmp_path):
    pytest.importorskip("skops")
    n = 200
    s = {f"s{j}": rng.integers(0, 3, n) for j in range(12)}
    X = rng.normal(size=(n, 3))
    est = FairRepresentation(eta=1e-3, gamma=0.2, random_state=0)
    y = X[:, 0] + rng.normal(size=n)
    est.prepare(X, y, sensitive_features=s).partial_fit(X, y, sensitive_features=s)
    assert 0 < len(est._state.counter.counts) <= 4096
    path = save_model(est, tmp_path / "small.skops", keep_moments=False)
    loaded = load_model(path)
    assert loaded._state.counter is None
    assert not hasattr(loaded, "moments_")


def test_tiny_ridges_keep_in_sample_covariance_at_zero(rng):
    X = rng.normal(size=(300, 3))
    s = (X[:, 0] > 0).astype(int)
    est = FairRepresentation(
        alpha=1e-9, eta=1e-3, gamma=0.2, random_state=0, removal="training_rows"
    )
    with pytest.warns(NumericalWarning, match="so wide that rounding hides functions"):
        est.fit(X, np.sin(X[:, 0]) + X[:, 1], sensitive_features=s)
    scores = est.transform(X)[:, 0]
    assert abs(np.corrcoef(scores, s)[0, 1]) < 1e-9
