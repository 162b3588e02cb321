"""The certificate: an exact in-sample supremum over every function of the model space (METHOD 7)."""

import numpy as np
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from tests.laws import raw
from tests.support.strategies import predict, problems

# The stated tolerance for the function that attains the supremum.
TOL = 1e-10
SEEDS = st.integers(0, 2**32 - 1)
# More than one function, so that a supremum is over something.
MODELS = problems(
    tasks=("regression", "classes"),
    fairness=(0.0, 0.3, 0.8, 1.0),
    missing=(False, True),
    max_attributes=2,
    weights=("none", "positive"),
    n_predictive_directions=2,
)
FAIR = problems(
    fairness=(0.0, 0.3, 0.8, 1.0),
    max_attributes=2,
    weights=("none", "positive"),
    subspace="fair",
    n_predictive_directions=4,
)


def certified(problem, est):
    """Pairs of a block from the raw rows and what the certificate says about it."""
    claims = [claim for claim in est.certificate_.blocks if claim.constrained]
    blocks = list(raw.blocks(problem))
    assert [b.attribute for b in blocks] == [c.attribute for c in claims]
    assert [int(b.used.sum()) for b in blocks] == [c.n_rows for c in claims]
    return zip(blocks, claims, strict=True)


def maximiser(block, scores):
    """Coefficients of the most correlated function: canonical correlation from the rows."""
    w, rows = block.w[block.cell], scores[block.cell]
    rows = rows - w @ rows / w.sum()
    cov = rows.T @ (w[:, None] * rows) / w.sum()
    used, codes = block.used, block.codes()[block.used]
    v = block.w[used] / block.w[used].sum()
    codes, part = codes - v @ codes, scores[used] - v @ scores[used]
    cross = part.T @ (v[:, None] * codes)
    explained = cross @ np.linalg.pinv(codes.T @ (v[:, None] * codes)) @ cross.T
    return scipy.linalg.eigh(explained, cov)[1][:, -1]


def no_function_exceeds(problem, seed):
    est = problem.fit()
    scores = est.transform(problem.X)
    draws = np.random.default_rng(seed).normal(size=(scores.shape[1], 40))
    for block, claim in certified(problem, est):
        worst = max(block.correlation(f) for f in (scores @ draws).T)
        assert worst - claim.supremum <= TOL


def the_maximiser_attains(problem):
    est = problem.fit()
    scores = est.transform(problem.X)
    for block, claim in certified(problem, est):
        attained = block.correlation(scores @ maximiser(block, scores))
        assert abs(attained - claim.supremum) <= TOL


@given(MODELS, SEEDS)
def test_no_function_of_the_model_space_exceeds_the_supremum(problem, seed):
    no_function_exceeds(problem, seed)


@given(MODELS)
def test_the_maximiser_attains_the_supremum(problem):
    the_maximiser_attains(problem)


@given(FAIR, SEEDS)
def test_no_function_of_the_fair_components_exceeds_the_supremum(problem, seed):
    no_function_exceeds(problem, seed)


@given(FAIR)
def test_the_maximiser_on_the_fair_components_attains_the_supremum(problem):
    the_maximiser_attains(problem)


@given(MODELS)
def test_the_score_of_the_certificate_is_the_correlation_of_the_fitted_score(problem):
    est = problem.fit()
    outputs = predict(est, problem.X).T
    for block, claim in certified(problem, est):
        found = max(block.correlation(f) for f in outputs)
        assert abs(found - claim.score) <= TOL


@given(MODELS)
def test_the_whole_certificate_is_its_worst_block(problem):
    certificate = problem.fit().certificate_
    constrained = [block for block in certificate.blocks if block.constrained]
    assert certificate.supremum == max(block.supremum for block in constrained)
    assert certificate.score == max(block.score for block in constrained)
    assert certificate.score <= certificate.supremum + TOL
