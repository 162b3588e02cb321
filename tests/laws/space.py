"""F, G and the model space as projectors, by brute force in the coordinates of psi."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairspan import FairRepresentation
from tests.laws import raw
from tests.support.strategies import Problem


@dataclass(frozen=True)
class Space:
    """The problem in coordinates where the metric R is the identity: ``u = R^1/2 w``."""

    psi: np.ndarray  # centred rows
    R: np.ndarray
    root: np.ndarray
    fair: np.ndarray  # projector on F
    predictive: np.ndarray  # projector on G

    def model(self, est: FairRepresentation) -> np.ndarray:
        """Projector on the model space of an estimator."""
        return projector(self.root @ est._position.directions)


def projector(columns: np.ndarray) -> np.ndarray:
    """Orthogonal projector on a column span, with the rank cut of METHOD 7."""
    norms = np.linalg.norm(columns, axis=0)
    left, singular, _ = np.linalg.svd(columns / np.where(norms > 0, norms, 1), full_matrices=False)
    left = left[:, singular > 1e-10 * singular.max(initial=0.0)]
    return left @ left.T


def brute_force_space(problem: Problem, est: FairRepresentation) -> Space:
    """F and G from the rows alone: covariances, codes and kernel ridge regression by hand."""
    psi = est.pilot_.features.coordinates(problem.X)
    share = problem.w / problem.w.sum()
    psi = psi - share @ psi
    cov = psi.T @ (share[:, None] * psi)
    ridge = cov + problem.params["alpha"] / problem.w.sum() * np.eye(len(cov))
    # All of F is a prior in the correlation geometry, whatever the method.
    optimal = est.method == "optimal" or est.subspace == "fair"
    R = ridge if optimal else np.eye(len(cov))
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


def covectors(block: raw.Block, psi: np.ndarray) -> np.ndarray:
    """Covariances in the cell of psi with the codes, one column per code (not whitened)."""
    rows = block.used
    w = block.w[rows] / block.w[rows].sum()
    codes = block.codes()[rows]
    return psi[rows].T @ (w[:, None] * (codes - w @ codes))


def norm(matrix: np.ndarray) -> float:
    """Largest singular value."""
    return float(np.linalg.norm(matrix, 2))


def largest_stray(
    problem: Problem, est: FairRepresentation, rows: np.ndarray, seed: int
) -> np.ndarray:
    """How far random members of the model space, of metric norm one, are from F at each row."""
    space, E = brute_force_space(problem, est), est._position.directions
    h = E @ np.random.default_rng(seed).normal(size=(E.shape[1], 25))
    h = h / np.sqrt(np.einsum("ij,ij->j", h, space.R @ h))
    projected = np.linalg.solve(space.root, space.fair @ (space.root @ h))
    features = est.pilot_.features
    centre = problem.w @ features.coordinates(problem.X) / problem.w.sum()
    return np.abs((features.coordinates(rows) - centre) @ (h - projected)).max(axis=1)
