"""Linear heads on the scores ``Pi(x) = E'(psi(x) - mu)``, and the search on the dial (METHOD 7, 9).

All models of a path lie in one space of 2d functions B. A model is given by coefficients C on B (its
basis is E = BC) and a head, so everything here needs only the small moments of B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.method.linalg import Array

__all__ = [
    "PathMoments",
    "line_head",
    "line_keep",
    "multiple_correlation",
    "on_basis",
    "ridge_head",
    "smallest_fairness",
]


@dataclass(frozen=True, kw_only=True)
class PathMoments:
    """Moments of the functions B, whose span ``span[P_F G, G]`` contains all models of the path.

    B has 2d columns, and some more for separate limits if there are several codes. The moments are
    small, so a whole path costs as much as one model. ``block_cov`` and ``block_delta`` have one entry
    per block of the certificate.
    """

    gram: Array  # B'B: RKHS inner products
    cov: Array  # B'Sig B
    cov_target: Array  # B'Cov(psi, y), (2d, outputs)
    first: Array  # B'(psi(first row) - mu), (2d,)
    block_cov: tuple[Array, ...]  # covariance of B in the cell
    block_delta: tuple[Array, ...]  # covariance of B with the codes in the cell


def ridge_head(path: PathMoments, C: Array, eta_y: float) -> Array:
    """Minimise the penalised squared error: ``beta = (E'(Sig + eta_y I)E)^-1 E'Cov(psi, y)``, E = BC.

    At fairness 0 this is kernel ridge regression in both geometries. At fairness 1 it is constrained
    kernel ridge regression, in the correlation geometry. ``eta_y = 0`` is least squares, the paper's
    head. C has shape (2d, k), beta (k, outputs).
    """
    if 0 in (C.shape[1], path.cov_target.shape[1]):
        return np.zeros((C.shape[1], path.cov_target.shape[1]))
    normal = C.T @ (path.cov + eta_y * path.gram) @ C
    if len(normal) == 1:  # the usual case, computed a hundred times along a path
        scale = normal[0, 0] if normal[0, 0] > 0.0 else np.inf
        return np.asarray(C.T @ path.cov_target / scale)
    beta, *_ = scipy.linalg.lstsq(normal, C.T @ path.cov_target, cond=1e-14)
    return np.asarray(beta)


def multiple_correlation(cov: Array, delta: Array, w: Array) -> float:
    """Compute the multiple correlation with the codes of a block: the largest over the columns of w.

    ``R_cj = |Delta'w| / sqrt(w'Sig_c w)``, and 0 if the function is constant in the cell.
    """
    variance = np.einsum("ij,ij->j", w, cov @ w)
    explained = ((delta.T @ w) ** 2).sum(axis=0)
    scale = float(np.abs(variance).max(initial=0.0))
    ok = variance > 1e-24 * max(scale, 1e-300)
    ratio = np.divide(explained, variance, out=np.zeros_like(variance), where=ok)
    return float(np.sqrt(np.clip(ratio, 0.0, 1.0).max(initial=0.0)))


def on_basis(path: PathMoments, C: Array) -> Array:
    """Pad coefficients on [fair, removed], (2d, k), with zeros for the further columns of B."""
    return np.pad(C, ((0, len(path.cov) - len(C)), (0, 0)))


def line_head(path: PathMoments, d: int, fairness: float) -> Array:
    """Compute the posterior mean ``P_F g + (1-t)(I-P_F) g`` of METHOD 9's prior on all of F.

    There is one t per output. Since B is orthonormal in the correlation geometry, the coordinates of g
    are ``B'Cov(psi, y)``. Returns coefficients on B, of shape (2d, outputs).
    """
    g = path.cov_target.copy()
    fair, removed = np.linalg.norm(g[:d], axis=0), np.linalg.norm(g[d:], axis=0)
    g[d:] *= line_keep(fair, removed, fairness)
    return g


def line_keep(fair: Array, removed: Array, fairness: float) -> Array:
    """Compute ``1 - t = tan((1-fairness) theta)/tan(theta)``, with theta the angle of a function to F.

    ``fair`` and ``removed``, of shape (outputs,), are the lengths of its parts inside and outside F.
    """
    theta = np.arctan2(removed, fair)
    keep = np.full(len(theta), 1.0 - fairness)
    wide = theta >= 1e-8
    keep[wide] = np.tan((1.0 - fairness) * theta[wide]) / np.tan(theta[wide])
    keep[np.cos(theta) <= 1e-7] = float(fairness == 0.0)  # without a fair part t is 0 or 1
    return keep


def smallest_fairness(
    worst: Callable[[float], float], limit: float, n_scan: int = 201, tol: float = 1e-14
) -> tuple[float, float]:
    """Find the smallest fairness f with ``worst <= limit`` on all of [f, 1]; return f and ``worst(f)``.

    Scan ``n_scan`` values down from 1 to the first violation, then bisect. If ``worst(1)`` exceeds the
    limit, f is 1.
    """
    at_one = worst(1.0)
    if at_one > limit:
        return 1.0, at_one
    good = 1.0
    for fairness in np.linspace(1.0, 0.0, n_scan)[1:]:
        if worst(float(fairness)) > limit:
            bad = float(fairness)
            break
        good = float(fairness)
    else:
        return 0.0, worst(0.0)
    while good - bad > tol:
        middle = (good + bad) / 2.0
        if worst(middle) > limit:
            bad = middle
        else:
            good = middle
    return good, worst(good)
