"""Merge = batch: any partition of a prepared estimator's rows gives the same moments and model."""

import copy
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import IncompatibleMomentsError
from fairspan.method.row_sketch import RowSketch
from tests.support.strategies import gap, make_problem, predict, problems, solved

# The stated tolerance, relative to the largest entry of each field.
TOL = 1e-10
ANY = problems(missing=(False, True), fairness=(0.0, 0.6, 1.0))
SEEDS = st.integers(0, 2**32 - 1)


def worst_field(a, b, *, skip=()):
    """Largest relative difference over the fields of two sets of moments."""
    assert a.fingerprint == b.fingerprint
    assert a.row_sketch == b.row_sketch
    other = str | tuple | RowSketch | None
    numbers = [f.name for f in fields(a) if not isinstance(getattr(a, f.name), other)]
    numbers = [name for name in numbers if name not in skip and getattr(b, name) is not None]
    return max(gap(getattr(a, name), getattr(b, name)) for name in numbers)


def partition(problem, seed):
    """Rows cut into one to five parts of any size in any way, none empty."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(rng.integers(1, 6), 0.5))
    label = rng.choice(len(share), size=problem.n, p=share)
    return [problem.take(np.flatnonzero(label == h)) for h in np.unique(label)]


def one_batch(problem, prepared):
    return problem.feed(copy.deepcopy(prepared))


def same_model(a, b, problem):
    a, b = solved(a), solved(b)
    rows = np.concatenate([problem.X, problem.new])
    return max(gap(a.transform(rows), b.transform(rows)), gap(predict(a, rows), predict(b, rows)))


@given(ANY, SEEDS)
def test_blocks_in_sequence_equal_one_batch(problem, seed):
    prepared = problem.prepare()
    batch, stream = one_batch(problem, prepared), copy.deepcopy(prepared)
    for part in partition(problem, seed):
        part.feed(stream)
    # Which row came first differs by design, and only the sign rule of the paper reads it.
    assert worst_field(stream.moments_, batch.moments_, skip=["first_row"]) <= TOL
    assert same_model(stream, batch, problem) <= TOL


@given(ANY, SEEDS, st.data())
def test_copies_merged_in_any_order_and_tree_equal_one_batch(problem, seed, data):
    prepared = problem.prepare()
    workers = [part.feed(copy.deepcopy(prepared)) for part in partition(problem, seed)]
    while len(workers) > 1:
        left = workers.pop(data.draw(st.integers(0, len(workers) - 1)))
        right = workers.pop(data.draw(st.integers(0, len(workers) - 1)))
        workers.append(left.merge(right, solve=False))
    batch = one_batch(problem, prepared)
    assert worst_field(workers[0].moments_, batch.moments_, skip=["first_row"]) <= TOL
    assert same_model(workers[0], batch, problem) <= TOL


@given(problems(alpha="auto"), st.data())
def test_folds_go_on_across_blocks_so_automatic_alpha_is_that_of_the_batch(problem, data):
    prepared = problem.prepare()
    batch, stream = one_batch(problem, prepared), copy.deepcopy(prepared)
    cuts = sorted(data.draw(st.sets(st.integers(1, problem.n - 1), max_size=4)))
    for rows in np.split(np.arange(problem.n), cuts):
        problem.take(rows).feed(stream)
    assert worst_field(stream.moments_, batch.moments_) <= TOL
    assert same_model(stream, batch, problem) <= TOL
    assert stream.alpha_ == pytest.approx(batch.alpha_, rel=TOL)


@given(problems(methods=("paper",), kinds=("binary", "integer"), alpha="auto", eta=1e-3))
def test_the_paper_variant_merges_in_order_with_its_sign(problem):
    prepared = problem.prepare()
    half = problem.n // 2
    first, second = problem.take(np.arange(half)), problem.take(np.arange(half, problem.n))
    merged = first.feed(copy.deepcopy(prepared)).merge(second.feed(copy.deepcopy(prepared)))
    assert same_model(merged, one_batch(problem, prepared), problem) <= TOL


def three_parts(problem, seed):
    """Moments of three workers, one of which may have seen nothing."""
    prepared = problem.prepare()
    label = np.random.default_rng(seed).choice(3, size=problem.n, p=[0.6, 0.38, 0.02])
    parts = []
    for h in range(3):
        rows = np.flatnonzero(label == h)
        worker = copy.deepcopy(prepared)
        parts.append((problem.take(rows).feed(worker) if len(rows) else worker).moments_)
    return parts


@given(ANY, SEEDS)
def test_addition_is_associative(problem, seed):
    a, b, c = three_parts(problem, seed)
    assert worst_field((a + b) + c, a + (b + c)) <= TOL


@given(ANY, SEEDS)
def test_addition_is_commutative(problem, seed):
    a, b, _ = three_parts(problem, seed)
    # Two workers both start at row 0; the left one's first row is kept.
    assert worst_field(a + b, b + a, skip=["first_row"]) <= TOL


@given(ANY)
def test_no_rows_are_the_neutral_element(problem):
    prepared = problem.prepare()
    moments = one_batch(problem, prepared).moments_
    assert worst_field(moments + prepared.moments_, moments) == 0.0
    assert worst_field(prepared.moments_ + moments, moments) == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"gamma": 1.0}, {"n_slices": 3}, {"criterion": "eo"}, {"alpha": "auto"}, {"n_components": 20}],
    ids=lambda c: next(iter(c)),
)
def test_moments_of_another_pilot_are_refused(changes):
    problem = make_problem(seed=0, kinds=("slices",), task="binary")
    a, b = (problem.feed(problem.prepare(**c)) for c in ({}, changes))
    before = a.moments_
    with pytest.raises(IncompatibleMomentsError, match="another pilot"):
        a.merge(b)
    assert a.moments_ is before


def test_an_estimator_without_moments_is_refused():
    problem = make_problem(seed=0)
    with pytest.raises(IncompatibleMomentsError, match="the other estimator has none"):
        problem.feed(problem.prepare()).merge(problem.estimator())
