"""Linear heads on the scores ``Pi(x) = E'(psi(x) - mu)``, from 2d x 2d moments (METHOD 7, 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.method.linalg import Array
from fairspan.method.subspaces import PrincipalPair, blend, dial_angles

__all__ = [
    "PathMoments",
    "correlation_dial",
    "multiple_correlation",
    "on_basis",
    "ridge_head",
    "smallest_fairness",
]


@dataclass(frozen=True)
class PathMoments:
    """Everything a model on the path needs: all of them lie in ``span[P_F G, G]``, which B spans.

    With more than one code B has further columns, for separate limits. One small moment matrix, so a
    whole path costs what one model costs. ``blocks`` are aligned with the certificate's blocks:
    covariance of B in the cell, and of B with the codes.
    """

    gram: Array  # B'B: RKHS inner products
    cov: Array  # B'Sig B
    cov_target: Array  # B'Cov(psi, y), (2d, outputs)
    first: Array  # B'(psi(first row) - mu)
    block_cov: tuple[Array, ...]
    block_delta: tuple[Array, ...]


def ridge_head(path: PathMoments, C: Array, eta_y: float) -> Array:
    """``beta = (E'(Sig + eta_y I)E)^-1 E'Cov(psi, y)``: the penalised loss over the model space.

    Fairness 0 is kernel ridge regression in both geometries; fairness 1 is constrained kernel ridge
    in the correlation geometry. ``eta_y = 0`` is least squares, the paper's head.
    """
    if 0 in (C.shape[1], path.cov_target.shape[1]):
        return np.zeros((C.shape[1], path.cov_target.shape[1]))
    normal = C.T @ (path.cov + eta_y * path.gram) @ C
    if len(normal) == 1:  # the usual case, met a hundred times along a path
        scale = normal[0, 0] if normal[0, 0] > 0.0 else np.inf
        return np.asarray(C.T @ path.cov_target / scale)
    beta, *_ = scipy.linalg.lstsq(normal, C.T @ path.cov_target, cond=1e-14)
    return np.asarray(beta)


def multiple_correlation(cov: Array, delta: Array, w: Array) -> float:
    """Largest, over the columns of w, multiple correlation of a function with a block's codes.

    ``R_cj = |Delta'w| / sqrt(w'Sig_c w)``; a function constant in the cell has none (0).
    """
    variance = np.einsum("ij,ij->j", w, cov @ w)
    explained = ((delta.T @ w) ** 2).sum(axis=0)
    scale = float(np.abs(variance).max(initial=0.0))
    ok = variance > 1e-24 * max(scale, 1e-300)
    ratio = np.divide(explained, variance, out=np.zeros_like(variance), where=ok)
    return float(np.sqrt(np.clip(ratio, 0.0, 1.0).max(initial=0.0)))


def on_basis(path: PathMoments, C: Array) -> Array:
    """Coefficients on [fair, removed] as coefficients on all of B, which may have more columns."""
    return np.pad(C, ((0, len(path.cov) - len(C)), (0, 0)))


def correlation_dial(
    path: PathMoments,
    pair: PrincipalPair,
    head: Callable[[Array], Array],
    blocks: list[int],
    limit: float,
) -> tuple[float, float]:
    """Place on the angle scale whose score keeps ``limit``, and its ``R = max_{c,j} R_cj``.

    ``head`` gives the fitted score's coefficients on the columns of C. (``sin a = v/rho`` is wrong:
    asked .05, it gave .086.)
    """

    def worst(fairness: float) -> float:
        C = on_basis(path, blend(pair, dial_angles(pair, fairness, "angle")))
        w = C @ head(C)
        return max(
            (multiple_correlation(path.block_cov[i], path.block_delta[i], w) for i in blocks),
            default=0.0,
        )

    return smallest_fairness(worst, limit)


def line_head(path: PathMoments, d: int, fairness: float) -> Array:
    """Posterior mean under METHOD 9's prior on all of F: coefficients on B, (2d, outputs).

    ``P_F g + (1-t)(I-P_F) g``, one t per output. B is orthonormal in the correlation geometry, so
    ``B'Cov(psi, y)`` are the coordinates of g there.
    """
    g = path.cov_target.copy()
    fair, removed = np.linalg.norm(g[:d], axis=0), np.linalg.norm(g[d:], axis=0)
    g[d:] *= line_keep(fair, removed, fairness)
    return g


def line_keep(fair: Array, removed: Array, fairness: float) -> Array:
    """``1 - t = tan((1-fairness) theta)/tan(theta)``, theta the angle of functions to F.

    Given by the lengths of their fair and their removed parts.
    """
    theta = np.arctan2(removed, fair)
    keep = np.full(len(theta), 1.0 - fairness)
    wide = theta >= 1e-8
    keep[wide] = np.tan((1.0 - fairness) * theta[wide]) / np.tan(theta[wide])
    keep[np.cos(theta) <= 1e-7] = float(fairness == 0.0)  # no fair part: all or nothing
    return keep


def smallest_fairness(
    worst: Callable[[float], float], limit: float, n_scan: int = 201, tol: float = 1e-14
) -> tuple[float, float]:
    """Smallest fairness that stays within ``limit`` on all of [fairness, 1]; and ``worst`` there.

    By scanning down from 1 to the first violation and bisecting that bracket. If even fairness 1
    exceeds the limit, that is what comes back.
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
