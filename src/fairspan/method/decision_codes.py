"""Predicted rate codes: what a decision rule subtracts in place of S (METHOD 13).

Out-of-fold predictions b of the whitened codes are recalibrated on the other folds, projected on the
canonical pairs that X predicts (METHOD 12), and turned into rate codes. All of it is linear, so new rows
need one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.method.directions import ROUNDING, canonical_pairs, noise_size, removal_weights
from fairspan.method.fold_codes import Flags
from fairspan.method.folds import centre_within
from fairspan.method.linalg import Array
from fairspan.method.moments import kish
from fairspan.method.problem import Codes

__all__ = [
    "CodeBlock",
    "CodeSize",
    "RatePredictions",
    "Recalibration",
    "apply_by_fold",
    "code_size",
    "predict_rate_codes",
    "recalibrate",
]

# Ridge of the recalibration, in units of 1 / sqrt(n).
_RIDGE = 3.0


@dataclass(frozen=True, kw_only=True)
class CodeSize:
    """Effective numbers of rows behind the codes of one attribute in one cell, and their weight."""

    n_rows: float  # all rows, with clusters as those that have a code
    n_known: float  # rows with a code
    share: float  # weight of the rows with a code
    share_of_cell: float  # the same within the cell

    @property
    def n_regression(self) -> float:
        """All rows, as many of them as have S: noise of a regression of the codes."""
        return self.n_rows * self.share_of_cell

    @property
    def n_strength(self) -> float:
        """Rows for which correlations with zero-filled codes have their noise."""
        return noise_size(self.n_known, self.share)


def code_size(known: Flags, inside: Flags, weight: Array, clusters_per_row: float) -> CodeSize:
    """Count the rows of a cell that have a code."""
    own, total = weight[known], float(weight.sum())
    return CodeSize(
        n_rows=kish(total, float(weight @ weight)) * clusters_per_row,
        n_known=kish(float(own.sum()), float(own @ own)) * clusters_per_row,
        share=float(own.sum()) / total,
        share_of_cell=float(own.sum() / weight[inside].sum()),
    )


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """Whitened codes of one attribute in one cell, and the rates that they stand for."""

    codes: Array  # (n, r), centred within folds; 0 for rows without a code
    to_rates: Array  # (r, Q): to the rate codes of all blocks, 0 for other blocks
    size: CodeSize


@dataclass(frozen=True, kw_only=True)
class RatePredictions:
    """Out-of-fold predictions of rate codes, and the map for new rows."""

    codes: Array  # (n, Q)
    matrix: Array  # (functions, Q), of the average over the folds
    fold_matrices: Array  # (K, functions, Q), of each fold
    strength: tuple[Array, ...]  # of the canonical pairs of each block
    weight: tuple[Array, ...]  # share of each pair that is used


@dataclass(frozen=True, kw_only=True)
class Recalibration:
    """Regressions of the codes on out-of-fold predictions, each fitted on the other folds."""

    matrices: Array  # (K, functions, q), for predictions that are not scaled
    share: Array  # weight of each fold, (K,)
    cov: Array  # of the recalibrated predictions out of fold, (q, q)
    cov_codes: Array  # of the codes with them, (q, q)


def recalibrate(
    scores: Array,
    codes: Array,
    folds: Codes,
    weight: Array,
    n_effective: Array | float,
    parts: Codes | None = None,
) -> Recalibration:
    """Regress the codes on all predictions, with a small ridge, for every fold on the rows of the others.

    ``scores`` are out-of-fold predictions, (n, functions); ``codes`` are centred within folds, (n, q).
    ``n_effective`` is the number of rows of all codes or of each, (q,), from which the ridge follows.
    Every function is divided by its standard deviation, or by that of its part: ``parts`` numbers the
    part of each function. One scale for all codes of an attribute does not depend on the order of its
    groups.
    """
    Z = centre_within(scores, folds, weight)
    share = weight / weight.sum()
    sd = np.sqrt(share @ Z**2)
    if parts is not None:
        sd = np.sqrt(np.bincount(parts, sd**2) / np.bincount(parts))[parts]
    varies = sd > ROUNDING * np.sqrt(share @ scores**2)
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=varies)
    Z = Z * unit
    own = [folds == k for k in range(int(folds.max()) + 1)]
    pi = np.array([share[rows].sum() for rows in own])
    products = np.stack([(Z[rows] * share[rows, None]).T @ Z[rows] for rows in own])
    crosses = np.stack([(Z[rows] * share[rows, None]).T @ codes[rows] for rows in own])
    matrices = np.empty((len(pi), Z.shape[1], codes.shape[1]))
    n_effective = np.broadcast_to(n_effective, codes.shape[1])
    for n in np.unique(n_effective):
        ridge, same = _RIDGE / np.sqrt(n) * np.eye(Z.shape[1]), n_effective == n
        for k in range(len(pi)):
            matrices[k][:, same] = scipy.linalg.solve(
                (products.sum(axis=0) - products[k]) / (1.0 - pi[k]) + ridge,
                (crosses.sum(axis=0) - crosses[k])[:, same] / (1.0 - pi[k]),
                assume_a="pos",
            )
    return Recalibration(
        matrices=unit[:, None] * matrices,
        share=pi,
        cov=np.einsum("kzq,kzy,kyr->qr", matrices, products, matrices),
        cov_codes=np.einsum("kzc,kzq->cq", crosses, matrices),
    )


def apply_by_fold(scores: Array, folds: Codes, matrices: Array) -> Array:
    """Multiply the rows of each fold by its matrix."""
    out = np.empty((len(scores), matrices.shape[2]))
    for k, matrix in enumerate(matrices):
        rows = folds == k
        out[rows] = scores[rows] @ matrix
    return out


def predict_rate_codes(
    scores: Array, folds: Codes, weight: Array, blocks: list[CodeBlock]
) -> RatePredictions:
    """Predict the rate codes of every block out of fold.

    Parameters
    ----------
    scores : (n, q + L) out-of-fold predictions of the whitened codes of all blocks, then of y.
    folds : (n,)
    weight : (n,)
    blocks : q codes in all.
    """
    C = np.concatenate([block.codes for block in blocks], axis=1)
    sizes = np.repeat(
        [block.size.n_regression for block in blocks], [block.codes.shape[1] for block in blocks]
    )
    found = recalibrate(scores, C, folds, weight, sizes)
    cov_b, cov_cb = found.cov, found.cov_codes
    share = weight / weight.sum()
    cov_c = (C * share[:, None]).T @ C
    start, maps, strengths, weights = 0, [], [], []
    for block in blocks:
        r = block.codes.shape[1]
        part = slice(start, start + r)
        P = cov_cb[part, part]
        left, right, rho = canonical_pairs(P, cov_c[part, part], cov_b[part, part])
        strength = np.sqrt(block.size.n_strength) * rho
        used = removal_weights(strength, r, "auto")
        used[np.einsum("ij,ij->j", left, P @ left) <= 0.0] = 0.0
        # The regression of the codes on each pair, as far as it is used.
        project = (right * (used * rho)) @ (cov_c[part, part] @ left).T
        maps.append(project @ block.to_rates)
        strengths.append(strength)
        weights.append(used)
        start += r
    to_rates = np.concatenate(maps)
    averaged = np.einsum("k,kzq->zq", found.share, found.matrices)
    return RatePredictions(
        codes=apply_by_fold(scores, folds, found.matrices) @ to_rates,
        matrix=averaged @ to_rates,
        fold_matrices=found.matrices @ to_rates,
        strength=tuple(strengths),
        weight=tuple(weights),
    )
