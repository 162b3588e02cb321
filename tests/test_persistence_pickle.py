"""pickle, clone, copy and deepcopy: the same model, and copies that do not disturb each other."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler

from fairspan import FairRepresentation
from tests.support.small import FIXED, table

X, y, s = table()
NEW = table(20, seed=1).X


def inverse_distance(A, B):
    return 1.0 / (1.0 + ((A[:, None] - B[None]) ** 2).sum(axis=2))


VARIANTS = {
    "default": {},
    "fixed": FIXED,
    "nystrom": {**FIXED, "n_components": 30},
    "fair": {**FIXED, "subspace": "fair"},
    "paper": {"gamma": 0.5, "method": "paper"},
    "eo": {**FIXED, "criterion": "eo", "dial": "correlation", "fairness": 0.8},
    "callable": {"kernel": inverse_distance, "alpha": 1.0},
    "feature map": {"feature_map": RBFSampler(n_components=20, random_state=0), "alpha": 1.0},
    "landmarks": {**FIXED, "landmarks": X[:12]},
}
EVERY = pytest.mark.parametrize("variant", VARIANTS)


def fit(variant, **params):
    est = FairRepresentation(random_state=0, **VARIANTS[variant], **params)
    return est.fit(X, y, sensitive_features=s)


def assert_same(a, b):
    np.testing.assert_array_equal(a.transform(NEW), b.transform(NEW))
    np.testing.assert_array_equal(a.at(0.3).transform(NEW), b.at(0.3).transform(NEW))
    np.testing.assert_array_equal(a.kernel_(NEW), b.kernel_(NEW))
    assert str(a.certificate_) == str(b.certificate_)
    assert a.get_params().keys() == b.get_params().keys()
    assert a.pilot_.fingerprint == b.pilot_.fingerprint


@EVERY
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(variant, protocol):
    est = fit(variant)
    assert_same(est, pickle.loads(pickle.dumps(est, protocol)))


@EVERY
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies(variant, how):
    est = fit(variant)
    assert_same(est, how(est))


@EVERY
def test_clone_is_unfitted_and_fits_alike(variant):
    est = fit(variant)
    twin = clone(est)
    assert vars(twin).keys() == twin.get_params(deep=False).keys()
    assert_same(est, twin.fit(X, y, sensitive_features=s))


def test_clone_keeps_what_the_dial_shows():
    assert clone(fit("fixed").at(0.25)).fairness == 0.25
    moved = clone(fit("fixed", removal="training_rows").at(max_correlation=0.1))
    assert (moved.dial, moved.fairness) == ("correlation", 0.9)


def test_an_unfitted_estimator_pickles():
    est = FairRepresentation(kernel=inverse_distance, fairness=0.5)
    again = pickle.loads(pickle.dumps(est))
    assert again.get_params() == est.get_params()


@pytest.mark.parametrize(
    "how", [copy.copy, copy.deepcopy, lambda est: pickle.loads(pickle.dumps(est))]
)
def test_a_copy_that_goes_on_leaves_the_original_alone(how):
    est = fit("fixed")
    before = pickle.dumps(vars(est))
    other = how(est)
    other.partial_fit(X[:40], y[:40], sensitive_features=s[:40])
    other.merge(est)
    assert pickle.dumps(vars(est)) == before
    assert other.moments_.n_rows == len(X) + 40 + len(X)


@pytest.mark.parametrize(
    "how", [copy.copy, copy.deepcopy, lambda est: pickle.loads(pickle.dumps(est))]
)
def test_workers_that_were_copied_merge(how):
    prepared = FairRepresentation(**FIXED, removal="training_rows").prepare(
        X, y, sensitive_features=s
    )
    workers = [how(prepared) for _ in range(3)]
    for worker, rows in zip(workers, np.array_split(np.arange(len(X)), 3), strict=True):
        worker.partial_fit(X[rows], y[rows], sensitive_features=s[rows], solve=False)
    first, *others = workers
    for other in others:
        first.merge(other, solve=False)
    np.testing.assert_allclose(
        first.solve().transform(NEW),
        fit("fixed", removal="training_rows").transform(NEW),
        rtol=1e-8,
        atol=1e-10,
    )


def test_the_dial_never_changes_the_fit():
    est = fit("fixed")
    before = pickle.dumps(vars(est))
    moved = est.at(0.5)
    assert pickle.dumps(vars(est)) == before
    assert moved.moments_ is est.moments_
    assert moved.get_params() == {**est.get_params(), "fairness": 0.5}
