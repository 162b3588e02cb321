"""Join the out-of-fold predictions of several learners (METHOD 12).

The predictions of y are added with weights of at least 0, those of the codes are recalibrated. The result
is one matrix per fold, from the columns of all learners to one prediction of y and of every code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from fairspan.method.decision_codes import recalibrate
from fairspan.method.folds import centre_within
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["Stack", "stack"]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Matrices from the columns of all learners to predictions of y and of the codes."""

    functions: Array  # (K, M, L + q)
    weights: Array  # of the learners of y, at least 0


def stack(
    targets: Array,
    codes: Array,
    y_columns: Array,
    code_columns: Array,
    folds: Codes,
    weight: Array,
    n_effective: Array | float,
    blocks: Codes,
) -> Stack:
    """Join learners by their out-of-fold predictions.

    Parameters
    ----------
    targets : (n, L) contrasts of y.
    codes : (n, q) whitened codes, centred within folds and cells.
    y_columns : (n, learners * L) predictions of the contrasts, learner by learner.
    code_columns : (n, learners of S * q) predictions of the codes, learner by learner.
    folds, weight : (n,)
    n_effective : (q,) effective number of rows, or of clusters, of each code.
    blocks : (q,) number of the attribute and cell of each code.
    """
    L, q, K = targets.shape[1], codes.shape[1], int(folds.max()) + 1
    n_y, n_s = y_columns.shape[1] // L, code_columns.shape[1] // q
    weights = np.ones(1)
    if n_y > 1:
        weights = _weights(targets, y_columns, folds, weight)
    M = y_columns.shape[1] + code_columns.shape[1]
    functions = np.zeros((K, M, L + q))
    functions[:, : n_y * L, :L] = np.kron(weights[:, None], np.eye(L))
    if n_y == n_s == 1:  # recalibration would only add noise
        functions[:, n_y * L :, L:] = np.eye(q)
        return Stack(functions=functions, weights=weights)
    columns = np.concatenate([y_columns, code_columns], axis=1)
    n_blocks = int(blocks.max()) + 1
    of_codes = n_y + np.concatenate([blocks + i * n_blocks for i in range(n_s)])
    parts = np.concatenate([np.repeat(np.arange(n_y), L), of_codes]).astype(np.intp)
    found = recalibrate(columns, codes, folds, weight, n_effective, parts)
    functions[:, :, L:] = found.matrices
    return Stack(functions=functions, weights=weights)


def _weights(targets: Array, columns: Array, folds: Codes, weight: Array) -> Array:
    """Weights of least squared error, at least 0, one for all contrasts of a learner."""
    L = targets.shape[1]
    Y, A = centre_within(targets, folds, weight), centre_within(columns, folds, weight)
    n_learners = A.shape[1] // L
    by_learner = A.reshape(len(A), n_learners, L)
    share = weight / weight.sum()
    products = np.einsum("n,nil,njl->ij", share, by_learner, by_learner)
    cross = np.einsum("n,nil,nl->i", share, by_learner, Y)
    scale = np.sqrt(np.diag(products))
    varies = scale > 1e-10 * max(float(np.sqrt(share @ (Y**2).sum(axis=1))), 1e-300)
    out = np.zeros(n_learners)
    if not varies.any():
        return np.full(n_learners, 1.0 / n_learners)
    unit = scale[varies]
    gram = products[np.ix_(varies, varies)] / np.outer(unit, unit)
    # |Rw - R^-T b|^2 differs from the squared error by a constant; the ridge keeps R invertible.
    root = scipy.linalg.cholesky(gram + 1e-9 * np.eye(len(unit)))
    right = scipy.linalg.solve_triangular(root, cross[varies] / unit, trans="T")
    out[varies] = scipy.optimize.nnls(root, right)[0] / unit
    if not out.any():  # no learner predicts y
        return np.full(n_learners, 1.0 / n_learners)
    return out
