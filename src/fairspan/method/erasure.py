"""Erasure: the least change of vectors that leaves no linear predictor of S (METHOD 17).

Vectors x have mean mu, covariance Sig and covariances Delta with whitened codes of S. A linear predictor
of the codes from Ax does no better than a constant if and only if ``A Delta = 0`` (Belrose et al., LEACE:
perfect linear concept erasure in closed form, NeurIPS 2023, theorem 3.4). Whiten: ``W Sig W' = I`` on the
range of Sig, with inverse ``W^-``. With Q an orthonormal basis of ``W Delta`` the map

    A = I - W^- Q Q' W

changes x least among all such maps, in every norm: the change ``(A - I) W^-`` has to send ``W Delta`` to
``-Delta``, and this one is zero on everything orthogonal to it. Two constraints can be added.

*The target keeps its covariance* ``Gamma = Cov(x, y)``, so that ``A Gamma = Gamma`` (Holstege, Ravfogel and
Wouters, SPLINCE, 2025). With P = I - QQ' and G an orthonormal basis of ``W Gamma``, the least change is

    A = I - W^- Q (Q' W - Q'G (P G)^+ W),

which has the functions of ``P W x`` too, so an unpenalised linear model predicts the same from both.

*Second order.* A function ``v'PWx`` has the same variance in all groups if ``v'(S_h - S)v = 0`` with
``S_h = W Sig_h W'``. No affine map that does not read S makes different covariances of full rank equal: it
must remove directions. For two groups let ``S_1 - S_0 = sum_i l_i v_i v_i'``. One direction is enough for
two eigenvalues of opposite sign: without ``sqrt(l_i) v_i - sqrt(-l_j) v_j`` only
``sqrt(-l_j) v_i + sqrt(l_i) v_j`` is left of both, whose variance is the same in both groups. With more
groups, or several attributes, the leading eigenvectors of ``sum_h p_h (S_h - S)^2`` are removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.erasure_directions import Removed, find_removed
from fairspan.method.erasure_left import ErasureBlock, ErasureCertificate, left_over
from fairspan.method.linalg import Array, orthonormal_columns
from fairspan.method.moments import ColumnStats, LevelStats, Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import MIN_ROWS, FitConfig
from fairspan.method.removal import refuse_attribute
from fairspan.method.sdr import target_covariance

__all__ = ["Erasure", "solve_erasure"]

# Smallest part of a direction that predicts y, outside of those that are erased.
_SMALLEST_KEPT = 1e-6
# Stretching of vectors by keep_target from which a warning is given.
_LARGE_STRETCH = 10.0


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The map ``x -> x - t left right'(x - mean)`` at fairness t, and what it leaves."""

    mean: Array  # (D,)
    left: Array  # (D, q)
    right: Array  # (D, q)
    n_means: int  # directions removed because of means of groups
    n_covariances: int  # and because of their covariances
    blocks: tuple[ErasureBlock, ...]  # at fairness 1
    blocks_before: tuple[ErasureBlock, ...]  # at lower values
    confidence: float
    covariance_gap_before: float
    covariance_gap: float

    def certificate(self, fairness: float) -> ErasureCertificate:
        """What holds at a dial value.

        Below 1 the map is invertible, so a linear predictor that may rescale the vectors undoes it.
        """
        whole = fairness == 1.0
        return ErasureCertificate(
            fairness=fairness,
            confidence=self.confidence,
            blocks=self.blocks if whole else self.blocks_before,
            covariance_gap_before=self.covariance_gap_before,
            covariance_gap=self.covariance_gap if whole else self.covariance_gap_before,
        )


def solve_erasure(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    *,
    order: int,
    keep_target: bool,
    n_directions: int | str,
    confidence: float = 0.95,
) -> Erasure:
    """Solve for the map from the moments, and estimate out of fold what it leaves on new rows."""
    total = find_removed(moments, pilot, config, order, n_directions, None)
    names = {codes.attribute for codes in total.codes}
    for coder in pilot.coders:
        if coder.name not in names:
            refuse_attribute(coder.name, pilot.cells, MIN_ROWS)
    white, Q = total.white, total.basis
    if Q.shape[1] == white.rank:
        warn_user(
            f"Nothing is left of the vectors: all {white.rank} directions in which they vary are removed. "
            f"Use fewer n_directions or n_slices, or vectors of more numbers.",
            NumericalWarning,
        )
    before, after = left_over(moments, pilot, config, total, order, n_directions, confidence)
    right = white.functions(Q)
    if keep_target:
        target = total.pooled.stats(pilot.target_position())
        right = right - white.functions(_kept_target(total, target))
    return Erasure(
        mean=total.pooled.mean,
        left=white.vectors(Q),
        right=right,
        n_means=total.n_means,
        n_covariances=Q.shape[1] - total.n_means,
        blocks=after,
        blocks_before=before,
        confidence=confidence,
        covariance_gap_before=total.gap_before,
        covariance_gap=total.gap,
    )


def _kept_target(total: Removed, target: LevelStats | ColumnStats) -> Array:
    """Compute ``(Q'G (PG)^+)'``, with which vectors keep their covariance with y."""
    gamma, _, _ = target_covariance(total.pooled, target)
    Q = total.basis
    G = orthonormal_columns(total.white.whiten(gamma))
    inside = Q.T @ G
    outside = G - Q @ inside
    smallest = float(np.linalg.svd(outside, compute_uv=False).min(initial=1.0))
    if smallest < _SMALLEST_KEPT:
        raise ValueError(
            "keep_target=True is not possible: a direction that predicts y is one that is erased, because "
            "y and the protected attributes have the same linear predictor. Use keep_target=False, or "
            "another y."
        )
    kept = np.linalg.pinv(outside).T @ inside.T
    stretch = float(np.linalg.norm(kept, 2)) if kept.size else 0.0
    if stretch > _LARGE_STRETCH:
        warn_user(
            f"keep_target=True stretches vectors up to {stretch:.2g} times along directions that predict y, "
            f"because the predictors of y and of the protected attributes are nearly the same. Compare "
            f"with keep_target=False.",
            NumericalWarning,
        )
    return np.asarray(kept)
