"""All rows as landmarks = the dense n x n oracle, which never forms psi."""

from dataclasses import replace

import numpy as np
from hypothesis import given

from tests.golden import oracle
from tests.laws import raw
from tests.support.strategies import gap, predict, problems

# The stated tolerance on predictions.
TOL = 1e-8
FAIRNESS = (0.0, 0.25, 0.7, 1.0)


def exact(**options):
    """Problems with all rows as landmarks whose kernel matrix has full rank in double precision.

    On a line the Gaussian kernel does not: psi then leaves out directions below rounding, which rows
    far from the data would have seen at the 1e-8 level. The Laplacian kernel takes its place there.
    """
    drawn = problems(features=("all rows",), **options)
    return drawn.map(lambda q: q.with_params(kernel="laplacian") if q.X.shape[1] == 1 else q)


def gram(problem, rows):
    """Kernel between any rows and the fitted ones, from explicit differences."""
    gamma = problem.params["gamma"]
    if problem.params["kernel"] == "laplacian":
        return np.exp(-gamma * np.abs(rows[:, None] - problem.X[None]).sum(axis=2))
    return oracle.rbf(rows, problem.X, gamma)


def everywhere(problem):
    return np.concatenate([problem.X, problem.new])


def dense(problem, est):
    """The oracle's fit, codes straight from the rows."""
    blocks = [oracle.CodeBlock(block.used, block.codes()) for block in raw.blocks(problem)]
    return oracle.dense_optimal(
        gram(problem, problem.X),
        problem.y,
        blocks,
        eta_y=problem.params["alpha"] / problem.w.sum(),
        fairness=est.fairness,
        geometry=est.method,
        classes=problem.classes,
        sample_weight=problem.weights,
    )


@given(exact(fairness=FAIRNESS, missing=(False, True)))
def test_predictions_equal_the_dense_oracle(problem):
    est, problem = problem.fit(), raw.positive_weight(problem)
    model, rows = dense(problem, est), everywhere(problem)
    found = predict(est, rows)
    assert est.n_removed_ == model.n_removed
    assert gap(found, model.predict(gram(problem, rows)).reshape(found.shape)) <= TOL


@given(exact(fairness=(0.4,)))
def test_principal_angles_equal_the_dense_oracle(problem):
    est = problem.fit()
    model = dense(raw.positive_weight(problem), est)
    assert gap(est.cosines_, model.sigma) <= TOL
    assert gap(est.angles_, model.theta) <= TOL


def brute_force(problem, rows, *, constrained):
    """(Constrained) kernel ridge regression by its optimality conditions."""
    blocks = [oracle.CodeBlock(block.used, block.codes()) for block in raw.blocks(problem)]
    fit = oracle.constrained_kernel_ridge_kkt(
        gram(problem, problem.X),
        oracle.level_codes(problem.y) if problem.classes else problem.y[:, None],
        oracle.code_covectors(blocks if constrained else [], problem.w, problem.n),
        problem.params["alpha"] / problem.w.sum(),
        problem.w,
    )
    return fit.predict(gram(problem, rows))


@given(exact(methods=("optimal",), fairness=(1.0,), missing=(False, True)))
def test_the_fair_end_is_constrained_kernel_ridge_regression(problem):
    est, rows = problem.fit(), everywhere(problem)
    expected = brute_force(raw.positive_weight(problem), rows, constrained=True)
    assert gap(predict(est, rows), expected) <= TOL


@given(exact(fairness=(0.0,), missing=(False, True)))
def test_the_unfair_end_is_kernel_ridge_regression_in_both_geometries(problem):
    est, rows = problem.fit(), everywhere(problem)
    expected = brute_force(raw.positive_weight(problem), rows, constrained=False)
    assert gap(predict(est, rows), expected) <= TOL


@given(exact(weights=("none", "positive"), fairness=(0.0, 1.0)))
def test_a_precomputed_kernel_is_the_kernel_it_holds(problem):
    by_matrix = replace(
        problem.with_params(kernel="precomputed", gamma="cv"), X=gram(problem, problem.X)
    ).fit()
    rows = everywhere(problem)
    found = predict(by_matrix, gram(problem, rows))
    assert gap(found, predict(problem.fit(), rows)) <= TOL
