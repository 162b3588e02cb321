"""Predicted rate codes: what a decision rule subtracts in place of S (METHOD 13).

Out-of-fold predictions b of the whitened codes are recalibrated on the other folds, projected on the
canonical pairs that X predicts (METHOD 12), and turned into rate codes. All of it is linear, so new rows
need one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.method.directions import ROUNDING, canonical_pairs, removal_weights
from fairspan.method.folds import centre_within
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["CodeBlock", "RatePredictions", "predict_rate_codes"]

# Ridge of the recalibration, in units of 1 / sqrt(n).
_RIDGE = 3.0


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """Whitened codes of one attribute in one cell, and the rates that they stand for."""

    codes: Array  # (n, r), centred within folds; 0 for rows without a code
    to_rates: Array  # (r, Q): to the rate codes of all blocks, 0 for other blocks


@dataclass(frozen=True, kw_only=True)
class RatePredictions:
    """Out-of-fold predictions of rate codes, and the map for new rows."""

    codes: Array  # (n, Q)
    matrix: Array  # (functions, Q), of the average over the folds
    strength: tuple[Array, ...]  # of the canonical pairs of each block
    weight: tuple[Array, ...]  # share of each pair that is used


def predict_rate_codes(
    scores: Array, folds: Codes, weight: Array, blocks: list[CodeBlock], n_effective: float
) -> RatePredictions:
    """Predict the rate codes of every block out of fold.

    Parameters
    ----------
    scores : (n, q + L) out-of-fold predictions of the whitened codes of all blocks, then of y.
    folds : (n,)
    weight : (n,)
    blocks : q codes in all.
    n_effective : effective number of rows, or of clusters.
    """
    C = np.concatenate([block.codes for block in blocks], axis=1)
    Z = centre_within(scores, folds, weight)
    share = weight / weight.sum()
    sd = np.sqrt(share @ Z**2)
    varies = sd > ROUNDING * np.sqrt(share @ scores**2)
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=varies)
    Z = Z * unit
    own = [folds == k for k in range(int(folds.max()) + 1)]
    pi = np.array([share[rows].sum() for rows in own])
    products = np.stack([(Z[rows] * share[rows, None]).T @ Z[rows] for rows in own])
    crosses = np.stack([(Z[rows] * share[rows, None]).T @ C[rows] for rows in own])
    ridge = _RIDGE / np.sqrt(n_effective) * np.eye(Z.shape[1])
    recalibrations = np.stack(
        [
            scipy.linalg.solve(
                (products.sum(axis=0) - products[k]) / (1.0 - pi[k]) + ridge,
                (crosses.sum(axis=0) - crosses[k]) / (1.0 - pi[k]),
                assume_a="pos",
            )
            for k in range(len(pi))
        ]
    )
    # Moments of the recalibrated predictions with the codes, out of fold.
    cov_b = np.einsum("kzq,kzy,kyr->qr", recalibrations, products, recalibrations)
    cov_cb = np.einsum("kzc,kzq->cq", crosses, recalibrations)
    cov_c = (C * share[:, None]).T @ C
    start, maps, strengths, weights = 0, [], [], []
    for block in blocks:
        r = block.codes.shape[1]
        part = slice(start, start + r)
        P = cov_cb[part, part]
        left, right, rho = canonical_pairs(P, cov_c[part, part], cov_b[part, part])
        strength = np.sqrt(n_effective) * rho
        used = removal_weights(strength, r, "auto")
        used[np.einsum("ij,ij->j", left, P @ left) <= 0.0] = 0.0
        # The regression of the codes on each pair, as far as it is used.
        project = (right * (used * rho)) @ (cov_c[part, part] @ left).T
        maps.append(project @ block.to_rates)
        strengths.append(strength)
        weights.append(used)
        start += r
    to_rates = np.concatenate(maps)
    codes = np.empty((len(scores), to_rates.shape[1]))
    for k, rows in enumerate(own):
        codes[rows] = (scores[rows] * unit) @ recalibrations[k] @ to_rates
    averaged = np.einsum("k,kzq->zq", pi, recalibrations)
    return RatePredictions(
        codes=codes,
        matrix=unit[:, None] * (averaged @ to_rates),
        strength=tuple(strengths),
        weight=tuple(weights),
    )
