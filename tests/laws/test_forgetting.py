"""Forgetting: the model as if those rows had never been there, for any partition into days and rows."""

import copy
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from tests.support.strategies import gap

TOL = 1e-9
LANDMARKS = np.random.default_rng(7).normal(size=(12, 3))
PUBLIC = {"landmarks": LANDMARKS, "gamma": 0.3}


def rows(n, seed=0, groups=2):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, groups, n)
    X = rng.normal(size=(n, 3)) + 0.7 * s[:, None]
    y = X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=n)
    return X, y, np.array(["a", "b", "c"])[s]


def classes(y):
    return np.where(y > 0.6, "yes", "no")


def prepared(est, X, y, s, **options):
    return est.prepare(X, y, sensitive_features=s, folds="hash", **options)


def outputs(est, X):
    for name in ("decision_function", "predict", "transform"):
        if hasattr(est, name):
            return getattr(est, name)(X)
    raise AssertionError


def assert_same(a, b, X):
    assert gap(outputs(a, X), outputs(b, X)) <= TOL
    assert a.fairness_ == pytest.approx(b.fairness_, abs=TOL)
    for mine, theirs in zip(a.certificate_.blocks, b.certificate_.blocks, strict=True):
        assert mine.n_rows == theirs.n_rows
        assert mine.score == pytest.approx(theirs.score, abs=1e-8)
    one, two = a.certificate_.new_rows, b.certificate_.new_rows
    assert (one is None) == (two is None)
    if one is not None:
        assert one.high == pytest.approx(two.high, abs=1e-8)


ESTIMATORS = {
    "ridge": lambda **p: FairRidge(**PUBLIC, **p),
    "linear": lambda **p: FairRidge(kernel="linear", **p),
    "training rows": lambda **p: FairRidge(removal="training_rows", **PUBLIC, **p),
    "fair": lambda **p: FairRidge(subspace="fair", removal="training_rows", **PUBLIC, **p),
    "gp": lambda **p: FairGPRegressor(**PUBLIC, **p),
    "representation": lambda **p: FairRepresentation(**PUBLIC, **p),
    "classifier": lambda **p: FairRidgeClassifier(**PUBLIC, **p),
    "odds": lambda **p: FairRidgeClassifier(criterion="equalized_odds", **PUBLIC, **p),
    "gaussian labels": lambda **p: FairGPClassifier(likelihood="gaussian", **PUBLIC, **p),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("n_forgotten", [1, 100])
def test_the_model_is_the_one_without_the_rows(name, n_forgotten):
    X, y, s = rows(600)
    est = ESTIMATORS[name]()
    target = classes(y) if name in ("classifier", "odds", "gaussian labels") else y
    gone = np.zeros(600, dtype=bool)
    gone[np.random.default_rng(1).choice(600, n_forgotten, replace=False)] = True
    start = prepared(est, X, target, s)
    full = copy.deepcopy(start).partial_fit(X, target, sensitive_features=s)
    without = copy.deepcopy(start).partial_fit(X[~gone], target[~gone], sensitive_features=s[~gone])
    full.forget(X[gone], target[gone], sensitive_features=s[gone])
    assert full.moments_.n_rows == 600 - n_forgotten
    assert_same(full, without, X[:50])
    assert full._fitted_rows == without._fitted_rows


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_any_partition_and_order(seed, n_parts, weighted):
    rng = np.random.default_rng(seed)
    X, y, s = rows(150, seed % 1000, groups=3)
    w = rng.exponential(size=150) + 0.1 if weighted else None
    label = rng.integers(0, n_parts + 1, 150)  # the rows of part 0 stay

    def give(part):
        weights = {} if w is None else {"sample_weight": w[part]}
        return (X[part], y[part]), {"sensitive_features": s[part], **weights}

    start = prepared(FairRidge(**PUBLIC), X, y, s)
    est = copy.deepcopy(start)
    arguments, options = give(np.arange(150))
    est.partial_fit(*arguments, **options, solve=False)
    for part in rng.permutation(np.arange(1, n_parts + 1)):
        if (label == part).any():
            arguments, options = give(label == part)
            est.forget(*arguments, **options, solve=False)
    arguments, options = give(label == 0)
    if not (label == 0).any():
        assert est.moments_.n_rows == 0
        return
    direct = copy.deepcopy(start).partial_fit(*arguments, **options, solve=False)
    for f in fields(direct.moments_):
        a, b = getattr(est.moments_, f.name), getattr(direct.moments_, f.name)
        if isinstance(a, np.ndarray) and f.name not in ("first_row", "rounding", "level_mean"):
            if f.name.startswith("column"):
                a, b = np.where(np.isfinite(a), a, 0), b
            if f.name in ("mean", "column_centre", "column_mean"):
                weight = (
                    direct.moments_.weight if f.name == "mean" else direct.moments_.column_weight
                )
                shape = weight.shape + (1,) * (a.ndim - weight.ndim)
                a, b = a * weight.reshape(shape), b * weight.reshape(shape)
            assert gap(a, b) <= TOL, f.name


def test_a_window_of_thirty_days():
    """Each day is added and the oldest one subtracted; after 30 turns it is the fit of the last 30 days."""
    days = [rows(30, seed) for seed in range(60)]
    X, y, s = (np.concatenate(part) for part in zip(*days, strict=True))
    start = prepared(FairRidge(**PUBLIC), X, y, s)
    window = copy.deepcopy(start)
    for X, y, s in days[:30]:
        window.partial_fit(X, y, sensitive_features=s, solve=False)
    for today, oldest in zip(days[30:], days[:30], strict=True):
        window.partial_fit(*today[:2], sensitive_features=today[2], solve=False)
        window.forget(*oldest[:2], sensitive_features=oldest[2], solve=False)
    window.solve()
    X, y, s = (np.concatenate(part) for part in zip(*days[30:], strict=True))
    direct = start.partial_fit(X, y, sensitive_features=s)
    assert_same(window, direct, X[:50])
    assert window._fitted_rows == direct._fitted_rows


def test_folds_by_position_need_the_place():
    X, y, s = rows(300)
    start = FairRidge(**PUBLIC).prepare(X, y, sensitive_features=s, folds="position")
    full = copy.deepcopy(start).partial_fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="needs start"):
        full.forget(X[200:], y[200:], sensitive_features=s[200:])
    full.forget(X[200:], y[200:], sensitive_features=s[200:], start=200)
    direct = start.partial_fit(X[:200], y[:200], sensitive_features=s[:200])
    assert_same(full, direct, X[:20])


def test_heads_that_need_rows_wait_for_them():
    X, y, s = rows(400)
    target = classes(y)
    for est in (
        FairGPClassifier(**PUBLIC),
        FairRidgeClassifier(equalize="decisions", **PUBLIC),
    ):
        start = prepared(est, X, target, s)
        full = copy.deepcopy(start).partial_fit(X, target, sensitive_features=s)
        full.fit_head([(X, target, s)])
        full.forget(X[:50], target[:50], sensitive_features=s[:50])
        with pytest.raises(ValueError, match="fit_head"):
            full.predict(X)
        full.fit_head([(X[50:], target[50:], s[50:])])
        direct = start.partial_fit(X[50:], target[50:], sensitive_features=s[50:])
        direct.fit_head([(X[50:], target[50:], s[50:])])
        assert gap(full.predict_proba(X), direct.predict_proba(X)) <= 1e-8


# --------------------------------------------------------------------------- refusals


def unchanged(est, X):
    return outputs(est, X), est.moments_


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, y, s: (X + 0.5, y, s), "were not part of the fit"),
        (
            lambda X, y, s: (np.repeat(X[:1], 3, 0), np.repeat(y[:1], 3), np.repeat(s[:1], 3)),
            "not p",
        ),
        (lambda X, y, s: (X, y + 1e3, s), "not all part of the fit"),
    ],
)
def test_rows_that_were_never_there(change, match):
    X, y, s = rows(200)
    est = prepared(FairRidge(**PUBLIC), X, y, s).partial_fit(X, y, sensitive_features=s)
    before = outputs(est, X)
    A, b, c = change(X[:20], y[:20], s[:20])
    with pytest.raises(ValueError, match=match):
        est.forget(A, b, sensitive_features=c)
    np.testing.assert_array_equal(outputs(est, X), before)
    assert est.moments_.n_rows == 200


def test_rows_of_another_group_are_noticed_when_the_group_has_none():
    X, y, s = rows(200)
    s = s.copy()
    s[:] = "a"
    s[:20] = "b"
    est = prepared(FairRidge(**PUBLIC), X, y, s).partial_fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="more to forget than were fitted"):
        est.forget(X[20:60], y[20:60], sensitive_features=np.full(40, "b"))


def test_landmarks_that_must_go_are_named():
    X, y, s = rows(300)
    est = FairRidge(n_components=20, gamma=0.3, random_state=0)
    prepared(est, X, y, s).partial_fit(X, y, sensitive_features=s)
    is_landmark = (X[:, None] == est.landmarks_).all(axis=2).any(axis=1)
    row = int(np.flatnonzero(is_landmark)[0])
    landmark = int(np.flatnonzero((est.landmarks_ == X[row]).all(axis=1))[0])
    with pytest.raises(ValueError, match=rf"row {row} is landmark {landmark} \(of landmarks_\)"):
        est.forget(X[: row + 1], y[: row + 1], sensitive_features=s[: row + 1])
    others = np.flatnonzero(~is_landmark)[:10]
    est.forget(X[others], y[others], sensitive_features=s[others])
    assert est.moments_.n_rows == 290


def test_what_cannot_forget_says_so():
    X, y, s = rows(200)
    fitted = FairRidge(**PUBLIC).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="folds='hash'"):
        fitted.forget(X[:5], y[:5], sensitive_features=s[:5])
    with pytest.raises(ValueError, match="are landmarks of the kernel"):
        FairRidge(gamma=0.3).fit(X, y, sensitive_features=s).forget(X, y, sensitive_features=s)
    paper = FairRidge(method="paper", removal="training_rows", **PUBLIC)
    paper.fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="sign"):
        paper.forget(X[:5], y[:5], sensitive_features=s[:5])
    with pytest.raises(AttributeError, match="cannot forget"):
        FairClassifier().forget(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="needs the moments"):
        FairRidge().forget(X, y, sensitive_features=s)


def test_rows_of_a_transformer_that_saw_them_are_refused():
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import RBFSampler

    X, y, s = rows(200)
    blind = FairRidge(feature_map=RBFSampler(n_components=20, random_state=0))
    start = prepared(blind, X, y, s)
    direct = copy.deepcopy(start).partial_fit(X[5:], y[5:], sensitive_features=s[5:])
    start.partial_fit(X, y, sensitive_features=s).forget(X[:5], y[:5], sensitive_features=s[:5])
    assert_same(start, direct, X[:20])
    seeing = FairRidge(feature_map=PCA(2))
    prepared(seeing, X, y, s).partial_fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="feature_map PCA"):
        seeing.forget(X[:5], y[:5], sensitive_features=s[:5])


def test_forgetting_everything_leaves_a_prepared_estimator():
    X, y, s = rows(120)
    est = prepared(FairRidge(**PUBLIC), X, y, s).partial_fit(X, y, sensitive_features=s)
    expected = est.predict(X)
    est.forget(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="not fitted"):
        est.predict(X)
    est.partial_fit(X, y, sensitive_features=s)
    assert gap(est.predict(X), expected) <= TOL
