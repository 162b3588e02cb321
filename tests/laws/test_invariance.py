"""What must not matter: the order of rows, the names of groups, the unit of X, copies or weights."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws import raw
from tests.support.strategies import gap, make_problem, predict, problems

# Sums taken in another order differ by rounding; solving amplifies it by the condition of the ridge
# system, about 1e4 here.
TOL = 1e-9
# A sum over other numbers (scaled, repeated) rounds the kernel itself, not only its sums.
LOOSE = 1e-8
SEEDS = st.integers(0, 2**32 - 1)
FAIRNESS = (0.0, 0.5, 1.0)


def same_model(a, b, problem, scale=1.0):
    """Largest difference of scores and predictions, on fitted and on new rows."""
    X = np.concatenate([problem.X, problem.new])
    left, right = a.transform(X), b.transform(scale * X)
    return max(gap(right, left), gap(predict(b, scale * X), predict(a, X)))


@given(problems(fairness=FAIRNESS, missing=(False, True)), SEEDS)
def test_row_order_changes_nothing(problem, seed):
    shuffled = problem.take(np.random.default_rng(seed).permutation(problem.n))
    assert same_model(problem.fit(), shuffled.fit(), problem) <= TOL


def renamed(values, rng):
    """The same groups under other names, in another sorting order (missing stays missing)."""
    known = raw.present(values)
    old = np.unique(np.array(values[known].tolist()))
    if values.dtype.kind in "if":
        new = rng.permutation(np.arange(len(old))) + 100
        out = np.full(len(values), np.nan) if values.dtype.kind == "f" else values.copy()
    else:
        new = rng.permutation([f"{chr(97 + h)}..." for h in range(len(old))])
        out = np.full(len(values), None, dtype=object)
    out[known] = new[np.searchsorted(old, np.array(values[known].tolist()))]
    return out


@given(
    problems(
        kinds=("binary", "text", "integer"),
        max_attributes=2,
        missing=(False, True),
        fairness=FAIRNESS,
    ),
    st.sampled_from([0.3, "auto"]),
    st.booleans(),
    SEEDS,
)
def test_group_names_change_nothing(problem, alpha, intersectional, seed):
    rng = np.random.default_rng(seed)
    other = replace(problem, sensitive={k: renamed(v, rng) for k, v in problem.sensitive.items()})
    a, b = (q.fit(alpha=alpha, intersectional=intersectional) for q in (problem, other))
    assert same_model(a, b, problem) <= TOL
    assert a.alpha_ == pytest.approx(b.alpha_, rel=1e-12)


@given(problems(kinds=("slices",), missing=(False, True), fairness=FAIRNESS))
def test_an_increasing_transformation_of_a_sliced_attribute_changes_nothing(problem):
    other = replace(problem, sensitive={k: np.exp(v) for k, v in problem.sensitive.items()})
    assert same_model(problem.fit(), other.fit(), problem) <= TOL


@given(problems(kinds=("column",), fairness=FAIRNESS), st.floats(-5.0, 5.0), st.floats(0.01, 100.0))
def test_unit_and_sign_of_a_numeric_attribute_change_nothing(problem, shift, unit):
    other = replace(problem, sensitive={k: shift - unit * v for k, v in problem.sensitive.items()})
    assert same_model(problem.fit(), other.fit(), problem) <= LOOSE


@given(problems(fairness=FAIRNESS), st.floats(-3.0, 3.0))
def test_scaling_x_with_gamma_is_neutral(problem, decades):
    c = 10.0**decades
    changes = {"gamma": problem.params["gamma"] / c**2}
    if "landmarks" in problem.params:
        changes["landmarks"] = c * problem.params["landmarks"]
    other = replace(problem, X=c * problem.X)
    assert same_model(problem.fit(), other.fit(**changes), problem, scale=c) <= LOOSE


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("gamma", ["cv", "median", "scale"])
def test_an_automatic_gamma_follows_the_unit_of_x(kernel, gamma):
    problem = make_problem(seed=3, task="binary", p=3, params={"kernel": kernel, "gamma": gamma})
    small, large = problem.fit(), replace(problem, X=1000.0 * problem.X).fit()
    # scikit-learn's "scale" is one over a variance, whatever the kernel measures distance with.
    power = 1 if kernel == "laplacian" and gamma != "scale" else 2
    assert large.gamma_ * 1000.0**power == pytest.approx(small.gamma_, rel=1e-9)


@given(problems(weights=("counts",), kinds=("binary", "slices", "column"), fairness=FAIRNESS))
def test_integer_weights_equal_repeated_rows(problem):
    repeated = np.repeat(np.arange(problem.n), problem.weights.astype(int))
    copies = replace(problem, weights=None).take(repeated)
    # The five-row rule counts rows, so it must not have anything to say here.
    assume(_group_sizes(problem) == _group_sizes(copies))
    assert same_model(problem.fit(), copies.fit(), problem) <= LOOSE


def _group_sizes(problem):
    """Groups of every block and their total weight."""
    return [
        (
            block.attribute,
            [float(block.w[block.groups == h].sum()) for h in np.unique(block.groups)],
        )
        if block.groups is not None
        else (block.attribute, [float(block.w[block.used].sum())])
        for block in raw.blocks(problem)
    ]


@given(problems(weights=("zeros",), missing=(False, True), fairness=FAIRNESS))
def test_a_row_of_weight_zero_is_a_row_not_there(problem):
    assert same_model(problem.fit(), raw.positive_weight(problem).fit(), problem) <= TOL


@given(problems(weights=("positive",), fairness=FAIRNESS), st.floats(-3.0, 3.0))
def test_only_relative_weights_matter(problem, decades):
    c = 10.0**decades
    heavier = replace(problem, weights=c * problem.weights)
    # alpha = T eta_y: the ridge is stated against the total weight.
    other = heavier.fit(alpha=c * problem.params["alpha"])
    assert same_model(problem.fit(), other, problem) <= TOL
