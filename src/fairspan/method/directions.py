"""Directions of the codes that cross-fitted removal takes out, and how much of each (METHOD 12)."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from fairspan.method.certificates import Direction
from fairspan.method.fold_codes import FoldCodes
from fairspan.method.linalg import Array, orthonormal_columns, psd_eigh

# Eigenvalues below this share of the largest are regarded as 0.
ROUNDING = 1e-12
# Strength from which a direction of q codes is removed whole: 2 sqrt(q) + _RAMP.
_RAMP = 2.0


def inverse_root(matrix: Array) -> Array:
    """``M^-1/2`` on the eigenvectors whose eigenvalue is not rounding."""
    values, vectors = psd_eigh((matrix + matrix.T) / 2.0)
    keep = values > ROUNDING * max(float(values[0]), 1e-300)
    root = np.zeros(len(values))
    root[keep] = values[keep] ** -0.5
    return np.asarray((vectors * root) @ vectors.T)


def canonical_pairs(cross: Array, cov_c: Array, cov_b: Array) -> tuple[Array, Array, Array]:
    """Combinations of the codes, of their predictions, and the correlation of each pair.

    ``cross`` is the covariance of the codes with the predictions.
    """
    root_c, root_b = inverse_root(cov_c), inverse_root(cov_b)
    U, rho, Vt = scipy.linalg.svd(root_c @ cross @ root_b)
    return root_c @ U, root_b @ Vt.T, rho


def find_removal(
    blocks: list[FoldCodes],
    cross: list[Array],
    code_cov: list[Array],
    cov: Array,
    L: int,
    sizes: list[float],
    wanted: str | int,
) -> tuple[Array, list[list[Direction]], dict[int, Array], Array]:
    """Coefficients lambda, (q, L), of ``u = b lambda``, and the directions of every block.

    Also returned are the combinations of codes that are removed, by the identity of their block, and the
    combinations of b that predict them. The codes are 0 on rows without one, and ``sizes`` are the numbers
    of rows for which covariances with such codes have their noise, see :func:`noise_size`.

    A direction that cannot be predicted out of fold is kept: to remove it would cost much accuracy and
    gain nothing (its weight rises with the squared strength from 2 sqrt(q) to 2 sqrt(q) + 2).
    """
    starts = np.cumsum([0, *(codes.rank for codes in blocks)])
    q = int(starts[-1])
    left, right, weights, directions = np.zeros((q, q)), np.zeros((q, q)), np.zeros(q), []
    removed = {}
    root_n = np.sqrt(np.repeat(sizes, [codes.rank for codes in blocks]))
    for codes, cov_cb, cov_c, n, start in zip(blocks, cross, code_cov, sizes, starts, strict=False):
        part = slice(start, start + codes.rank)
        P = cov_cb[:, L + start : L + start + codes.rank]
        of_b = slice(L + start, L + start + codes.rank)
        combos, b_combos, rho = canonical_pairs(P, cov_c, cov[of_b, of_b])
        strength = np.sqrt(n) * rho
        weight = removal_weights(strength, codes.rank, wanted)
        failed = np.einsum("ij,ij->j", combos, P @ combos) <= 0.0
        weight[failed] = 0.0
        left[part, part], right[part, part], weights[part] = combos, b_combos, weight
        removed[id(codes)] = orthonormal_columns(combos[:, weight > 0.0])
        directions.append(
            [
                Direction(
                    name=_name(codes, combos[:, i]),
                    correlation=float(rho[i]),
                    strength=float(strength[i]),
                    weight=float(weight[i]),
                    reason=_reason(codes, float(strength[i]), float(weight[i]), bool(failed[i])),
                )
                for i in range(codes.rank)
            ]
        )
    # Covariance of the code combinations with A, and with the directions of b.
    all_cross = np.concatenate(cross)
    v = left.T @ all_cross[:, :L]
    M = left.T @ all_cross[:, L:] @ right
    active = weights > 0.0
    lam = np.zeros((q, L))
    if active.any():
        lam = right[:, active] @ _solve_joint(
            M[np.ix_(active, active)],
            weights[active, None] * v[active],
            len(blocks),
            root_n[active, None],
        )
    return lam, directions, removed, right[:, active]


def noise_size(n_effective: float, share: float) -> float:
    """Number of rows for which correlations with zero-filled codes have their noise.

    Among ``n_effective`` rows with a code, a correlation rho has the strength sqrt(n_effective) rho. With
    codes that are 0 on the other rows it is smaller by the root of the share of the weight with a code.
    """
    return n_effective / share


def _solve_joint(M: Array, wanted: Array, n_blocks: int, root_n: Array) -> Array:
    """Solve ``M x = wanted``; with several blocks, leave out combinations that are not identified."""
    if n_blocks == 1:  # M is diagonal
        return np.asarray(wanted / np.diag(M)[:, None])
    U, strength, Vt = scipy.linalg.svd(root_n * M)
    keep = strength > 2.0
    return np.asarray((Vt[keep].T / strength[keep]) @ (U[:, keep].T @ (root_n * wanted)))


def removal_weights(strength: Array, q: int, wanted: str | int) -> Array:
    """Share of each of q directions that is removed; ``wanted`` is ``n_sensitive_directions``."""
    if wanted == "all":
        return np.ones(len(strength))
    if not isinstance(wanted, str):
        return (np.arange(len(strength)) < int(wanted)).astype(np.float64)
    low = 2.0 * np.sqrt(q)
    ramp = (strength**2 - low**2) / ((low + _RAMP) ** 2 - low**2)
    return np.asarray(np.clip(ramp, 0.0, 1.0))


def _name(codes: FoldCodes, combination: Array) -> str:
    """Groups that a combination of codes separates, e.g. "black against the others"."""
    if codes.column is not None:
        return codes.report.attribute
    values = codes.group_codes @ combination
    if len(values) == 2:
        return f"{codes.names[0]} against {codes.names[1]}"
    top, bottom = int(np.argmax(values)), int(np.argmin(values))
    return f"{codes.names[top]} against {codes.names[bottom]}"


def _reason(codes: FoldCodes, strength: float, weight: float, failed: bool) -> str:
    if weight == 1.0:
        return ""
    if failed:
        return "X does not predict it out of fold"
    need = 2.0 * np.sqrt(codes.rank) + _RAMP
    return f"X predicts it too weakly out of fold (strength {strength:.1f}; {need:.1f} is needed)"
