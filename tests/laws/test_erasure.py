"""Erasure: no linear predictor of S is left, the change is least, and blocks and units do not matter."""

import copy

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairspan import FairEraser

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
SEEDS = st.integers(0, 2**32 - 1)


class Table:
    """Vectors that depend on two attributes, in mean and covariance, and a target."""

    def __init__(self, seed, n=240, d=8, groups=3):
        rng = np.random.default_rng(seed)
        self.group = rng.permutation(np.arange(n) % groups)
        self.age = rng.normal(size=n) + 0.3 * self.group
        # Well conditioned up to units, so that rounding stays far below the tolerances.
        mix = np.linalg.qr(rng.normal(size=(d, d)))[0] * 10.0 ** rng.uniform(-1, 1, size=d)
        spread = 1.0 + 0.5 * self.group[:, None] * rng.random(d)
        shift = rng.normal(size=(groups, d))[self.group] + self.age[:, None] * rng.normal(size=d)
        self.X = (rng.normal(size=(n, d)) * spread + shift) @ mix + 10.0 * rng.normal(size=d)
        self.y = self.X @ rng.normal(size=d) + rng.normal(size=n)
        self.weight = rng.exponential(size=n) + 0.1
        self.mix = np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.3, 3.0, size=d)

    @property
    def both(self):
        return {"group": self.group, "age": self.age}


def codes(labels):
    return (labels[:, None] == np.unique(labels)).astype(float)


def correlations(Z, columns, weight=None):
    """Correlations of all columns with all codes; those of constant columns are 0."""
    weight = np.ones(len(Z)) if weight is None else weight
    Z = Z - np.average(Z, axis=0, weights=weight)
    columns = columns - np.average(columns, axis=0, weights=weight)
    cross = Z.T @ (columns * weight[:, None])
    squares = [(weight[:, None] * part**2).sum(axis=0) for part in (Z, columns)]
    return cross / np.sqrt(np.maximum(np.outer(*squares), 1e-300))


def gap(a, b):
    scale = max(np.abs(b - b.mean(axis=0)).max(), 1e-300)
    return np.abs(a - b).max() / scale


@given(SEEDS, st.booleans(), st.sampled_from([1, 2]))
def test_no_linear_predictor_of_the_codes_beats_a_constant(seed, weighted, order):
    t = Table(seed)
    weight = t.weight if weighted else None
    eraser = FairEraser(order, n_directions=1, n_slices=2)
    eraser.fit(t.X, sensitive_features=t.both, sample_weight=weight)
    Z = eraser.transform(t.X)
    assert Z.shape == t.X.shape
    columns = np.column_stack([codes(t.group), t.age])
    # Relative to the vectors as they were: what is left of an erased direction is rounding.
    scale = t.X.std(axis=0)
    w = np.ones(len(Z)) if weight is None else weight
    centred = columns - np.average(columns, axis=0, weights=w)
    assert np.abs((Z / scale).T @ (centred * w[:, None])).max() / w.sum() < 1e-10
    # The least-squares predictor itself, on the directions that are left.
    U, singular, _ = np.linalg.svd(
        (Z - np.average(Z, axis=0, weights=w)) * np.sqrt(w)[:, None] / scale
    )
    U = U[:, : len(singular)][:, singular > 1e-6 * singular[0]]
    assert np.abs(U.T @ (centred * np.sqrt(w)[:, None])).max() / np.sqrt(w.sum()) < 1e-10


@given(SEEDS)
def test_the_map_is_the_closed_form(seed):
    t = Table(seed)
    eraser = FairEraser().fit(t.X, sensitive_features=t.group)
    X = t.X - t.X.mean(axis=0)
    cov, delta = X.T @ X, X.T @ codes(t.group)
    inverse = scipy.linalg.inv(cov)
    projector = delta @ scipy.linalg.pinv(delta.T @ inverse @ delta, rtol=1e-9) @ delta.T @ inverse
    assert gap(eraser.transform(t.X), t.X - X @ projector.T) < 1e-7


@given(SEEDS, st.booleans())
def test_keep_target_is_the_closed_form_and_keeps_the_covariance(seed, classes):
    t = Table(seed)
    y = (t.y > np.median(t.y)).astype(int) if classes else t.y
    eraser = FairEraser(keep_target=True).fit(t.X, y, sensitive_features=t.group)
    Z = eraser.transform(t.X)
    found, expected = ((part - part.mean(0)).T @ (y - y.mean()) for part in (Z, t.X))
    scale = t.X.std(axis=0) * y.std() * len(y)
    assert np.abs((found - expected) / scale).max() < 1e-10
    X = t.X - t.X.mean(axis=0)
    delta, gamma = X.T @ codes(t.group)[:, 1:], X.T @ (y - y.mean())[:, None]
    scale = X.std(axis=0)
    white = scipy.linalg.cholesky(np.linalg.inv(np.cov((X / scale).T))) / scale
    both = white @ np.column_stack([delta, gamma])
    lost = np.column_stack([delta, 0.0 * gamma])
    oracle = t.X - X @ (lost @ np.linalg.pinv(both) @ white).T
    assert gap(Z, oracle) < 1e-7
    assert np.abs(correlations(Z, codes(t.group))).max() < 1e-9


@given(SEEDS, st.booleans())
def test_no_other_erasure_changes_the_vectors_less(seed, keep):
    t = Table(seed, groups=2)
    eraser = FairEraser(keep_target=keep).fit(t.X, t.y, sensitive_features=t.group)
    X = t.X - t.X.mean(axis=0)
    removed = eraser.removed_
    fixed = X.T @ np.column_stack([codes(t.group)[:, 0], t.y - t.y.mean()])[:, : 2 if keep else 1]
    null = scipy.linalg.null_space((fixed / np.linalg.norm(fixed, axis=0)).T)
    rng = np.random.default_rng(seed)
    metric = t.mix @ t.mix.T
    for _ in range(3):
        # Another map that sends the same vectors to the same places.
        step = rng.normal(size=(len(removed), null.shape[1])) @ null.T * np.abs(removed).max()
        for M in (np.eye(len(removed)), metric):
            changes = [X @ part.T for part in (removed, removed + 1e-3 * step)]
            least, other = (np.einsum("ij,jk,ik->", c, M, c) for c in changes)
            assert least <= other * (1.0 + 1e-9)


@given(SEEDS, st.sampled_from([1, 2]), st.booleans())
def test_erasing_twice_changes_nothing(seed, order, keep):
    t = Table(seed)
    eraser = FairEraser(order, keep_target=keep, n_directions=2 if order == 2 else "auto")
    Z = eraser.fit(t.X, t.y, sensitive_features=t.group).transform(t.X)
    assert gap(eraser.transform(Z), Z) < 1e-8


@given(SEEDS, st.sampled_from([1, 2]))
def test_names_of_groups_units_of_s_and_coordinates_do_not_matter(seed, order):
    t = Table(seed)
    eraser = FairEraser(order, dependence="correlation") if order == 1 else FairEraser(order)
    first = eraser.fit(t.X, sensitive_features=t.both if order == 1 else t.group).transform(t.X)
    names = np.array(["c", "a", "b"])[t.group]
    other = {"group": names, "age": 7.0 - 3.0 * t.age} if order == 1 else names
    again = copy.deepcopy(eraser).fit(t.X, sensitive_features=other).transform(t.X)
    assert gap(again, first) < 1e-8
    moved = copy.deepcopy(eraser).fit(
        t.X @ t.mix + 1.0, sensitive_features=t.both if order == 1 else t.group
    )
    assert gap(moved.transform(t.X @ t.mix + 1.0), first @ t.mix + 1.0) < 1e-6


@given(SEEDS, st.sampled_from([1, 2]))
def test_blocks_and_merged_copies_equal_one_fit(seed, order):
    t = Table(seed)
    whole = FairEraser(order, n_directions=2, n_slices=2).fit(t.X, t.y, sensitive_features=t.both)
    prepared = FairEraser(order, n_directions=2, n_slices=2).prepare(t.X, sensitive_features=t.both)
    cut = int(np.random.default_rng(seed).integers(20, 200))
    parts = [slice(None, cut), slice(cut, None)]
    blocks, copies = copy.deepcopy(prepared), [copy.deepcopy(prepared) for _ in parts]
    for part, worker in zip(parts, copies, strict=True):
        for each in (blocks, worker):
            sensitive = {name: values[part] for name, values in t.both.items()}
            each.partial_fit(t.X[part], sensitive_features=sensitive, solve=False)
    blocks.solve()
    merged = copies[0].merge(copies[1])
    for other in (blocks, merged):
        assert gap(other.transform(t.X), whole.transform(t.X)) < 1e-10


@given(SEEDS, st.floats(0.0, 1.0))
def test_the_dial_is_a_share_of_the_change(seed, fairness):
    t = Table(seed)
    eraser = FairEraser().fit(t.X, sensitive_features=t.group)
    np.testing.assert_array_equal(eraser.at(0.0).transform(t.X), t.X)
    expected = t.X + fairness * (eraser.transform(t.X) - t.X)
    assert gap(eraser.at(fairness).transform(t.X), expected) < 1e-12
    direct = FairEraser(fairness=fairness).fit(t.X, sensitive_features=t.group)
    np.testing.assert_array_equal(direct.transform(t.X), eraser.at(fairness).transform(t.X))


@given(SEEDS, st.integers(2, 3))
def test_covariances_are_equal_when_directions_suffice(seed, groups):
    t = Table(seed, groups=groups)
    eraser = FairEraser(2, n_directions=8).fit(t.X, sensitive_features=t.group)
    Z = eraser.transform(t.X) / t.X.std(axis=0)
    covs = [np.cov(Z[t.group == g].T, bias=True) for g in range(groups)]
    assert max(np.abs(cov - covs[0]).max() for cov in covs) < 1e-8
    assert eraser.certificate_.covariance_gap < 1e-8


@given(SEEDS)
def test_between_two_groups_a_direction_takes_two_differences(seed):
    """Variances that differ upwards in two directions and downwards in two: two directions suffice."""
    rng = np.random.default_rng(seed)
    white = rng.normal(size=(4, 400))
    factor = scipy.linalg.cholesky(np.cov(white, bias=True), lower=True)
    white = scipy.linalg.solve_triangular(factor, white - white.mean(1)[:, None], lower=True).T
    ratios = np.array([4.0, 0.25, 2.0, 0.3])
    X = np.concatenate([white, white * np.sqrt(ratios) + [1.0, 0.0, 0.0, 0.0]]) @ np.diag(
        [1, 2, 3, 4]
    )
    s = np.repeat([0, 1], 400)
    eraser = FairEraser(2, n_directions=2).fit(X, sensitive_features=s)
    Z = eraser.transform(X)
    assert np.abs(np.cov(Z[s == 0].T) - np.cov(Z[s == 1].T)).max() < 1e-9
    assert np.linalg.matrix_rank(Z - Z.mean(axis=0), tol=1e-8) == 1
    one = FairEraser(2, n_directions=1).fit(X, sensitive_features=s)
    assert one.certificate_.covariance_gap > 0.01


@given(SEEDS, st.sampled_from([0.1, 1.0, 3.7, -0.3, 1e3]), st.sampled_from([1, 2]))
def test_a_constant_column_does_not_matter(seed, constant, order):
    """Its variance is rounding, which is no direction; new rows may have another value there."""
    t = Table(seed)
    eraser = FairEraser(order, n_directions=1).fit(t.X, sensitive_features=t.group)
    wide = np.column_stack([t.X[:, :3], np.full(len(t.X), constant), t.X[:, 3:]])
    with_it = FairEraser(order, n_directions=1).fit(wide, sensitive_features=t.group)
    expected = eraser.transform(t.X)
    for added in (0.0, 7.0):
        wide[:, 3] = constant + added
        Z = with_it.transform(wide)
        assert gap(np.delete(Z, 3, axis=1), expected) < 1e-8
        np.testing.assert_allclose(Z[:, 3], constant + added, rtol=1e-12)
    assert with_it.n_removed_ == eraser.n_removed_
