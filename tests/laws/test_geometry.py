"""Where the model space lies between G and F: projectors built by brute force (METHOD 5 to 8)."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.laws import raw
from tests.strategies import at, problems

# Projectors of ill-conditioned bases (the roots of a covariance with eigenvalues down to 1e-13).
TOL = 1e-7
GRID = np.linspace(0.0, 1.0, 9)
SPACES = problems(weights=("none", "positive"), missing=(False, True))


@dataclass(frozen=True)
class Space:
    """The problem in coordinates where the metric R is the identity: ``u = R^1/2 w``."""

    psi: np.ndarray  # centred rows
    R: np.ndarray
    root: np.ndarray
    fair: np.ndarray  # projector on F
    predictive: np.ndarray  # projector on G

    def model(self, est):
        """Projector on the model space of an estimator."""
        return projector(self.root @ est._position.directions)


def projector(columns):
    """Orthogonal projector on a column span, with the rank cut of METHOD 7."""
    norms = np.linalg.norm(columns, axis=0)
    left, singular, _ = np.linalg.svd(columns / np.where(norms > 0, norms, 1), full_matrices=False)
    left = left[:, singular > 1e-10 * singular.max(initial=0.0)]
    return left @ left.T


def brute_force_space(problem, est):
    """F and G from the rows alone: covariances, codes and kernel ridge regression by hand."""
    psi = est.pilot_.features.coordinates(problem.X)
    share = problem.w / problem.w.sum()
    psi = psi - share @ psi
    cov = psi.T @ (share[:, None] * psi)
    ridge = cov + problem.params["alpha"] / problem.w.sum() * np.eye(len(cov))
    R = ridge if est.method == "optimal" else np.eye(len(cov))
    values, vectors = np.linalg.eigh(R)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    removed = np.concatenate([covectors(block, psi) for block in raw.blocks(problem)], axis=1)
    y = problem.y
    Y = (y[:, None] == np.unique(y)).astype(float) if problem.classes else y[:, None]
    G = np.linalg.solve(ridge, psi.T @ (share[:, None] * (Y - share @ Y)))
    if problem.classes:
        G = G[:, 1:]  # one-hot columns sum to one, so their regressions to zero
    left_out = projector(inverse_root @ removed)
    return Space(psi, R, root, np.eye(len(R)) - left_out, projector(root @ G))


def covectors(block, psi):
    """Covariances in the cell of psi with the codes, one column per code (not whitened)."""
    rows = block.used
    w = block.w[rows] / block.w[rows].sum()
    codes = block.codes()[rows]
    return psi[rows].T @ (w[:, None] * (codes - w @ codes))


def norm(matrix):
    return float(np.linalg.norm(matrix, 2))


@given(SPACES)
def test_fairness_zero_spans_g(problem):
    est = problem.fit(fairness=0.0)
    space = brute_force_space(problem, est)
    assert norm(space.model(est) - space.predictive) <= TOL


@given(SPACES)
def test_fairness_one_lies_in_f(problem):
    est = problem.fit(fairness=1.0)
    space = brute_force_space(problem, est)
    model = space.model(est)
    assert norm(model - space.fair @ model) <= TOL


@given(SPACES, st.sampled_from(["angle", "cosine", "correlation"]), st.floats(0.0, 1.0))
def test_gaps_equal_their_closed_forms(problem, dial, fairness):
    est = at(problem.fit(), fairness, dial=dial)
    space = brute_force_space(problem, est)
    model, certificate = space.model(est), est.certificate_
    outside = norm(model - space.fair @ model)
    lost = norm(space.predictive - model @ space.predictive)
    assert abs(certificate.containment_gap - outside) <= TOL
    assert abs(certificate.accuracy_gap - lost) <= TOL


@given(SPACES, st.sampled_from(["angle", "cosine", "correlation"]))
def test_gaps_are_monotone_in_the_dial(problem, dial):
    est = problem.fit()
    found = [at(est, t, dial=dial).certificate_ for t in GRID]
    # Zero to rounding at either end.
    assert np.all(np.diff([c.containment_gap for c in found]) <= 1e-9)
    assert np.all(np.diff([c.accuracy_gap for c in found]) >= -1e-9)


@given(SPACES, st.floats(0.0, 1.0))
def test_every_model_lies_between_g_and_its_fair_projection(problem, fairness):
    est = at(problem.fit(), fairness)
    space = brute_force_space(problem, est)
    model = space.model(est)
    between = projector(np.concatenate([space.predictive, space.fair @ space.predictive], axis=1))
    assert norm(model - between @ model) <= TOL


@given(SPACES, st.integers(0, 2**32 - 1))
def test_no_member_strays_further_from_its_fair_projection_than_the_bound(problem, seed):
    est = at(problem.fit(), 0.5)
    space = brute_force_space(problem, est)
    E = est._position.directions
    h = E @ np.random.default_rng(seed).normal(size=(E.shape[1], 25))
    h = h / np.sqrt(np.einsum("ij,ij->j", h, space.R @ h))
    projected = np.linalg.solve(space.root, space.fair @ (space.root @ h))
    rows = np.concatenate([problem.X, problem.new])
    share = problem.w / problem.w.sum()
    psi = est.pilot_.features.coordinates(rows)
    stray = np.abs((psi - share @ psi[: problem.n]) @ (h - projected)).max(axis=1)
    bound = est.deviation_bound(rows)
    assert np.all(stray <= bound * (1.0 + TOL) + 1e-12)
