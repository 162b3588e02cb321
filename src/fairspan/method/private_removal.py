"""Cross-fitted removal from noisy sums of S (METHOD 15).

The budget buys three sums, in this order. (1) Weights of the levels of S. (2) Sums of the leading k
coordinates of psi by level, which give the direction of ``b = H'psi``, the regression of the codes. (3) Sums,
by level, of the few functions that the removal is solved from: the out-of-fold predictions A of y, which
do not use S, and b, which is known by then. So the noise of (2) only makes b a worse prediction of the codes,
which costs accuracy; the dependence that is left comes from the noise of (3), of q (L + q) numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.codes import Coder, CrossedCoder
from fairspan.method.fold_codes import CodeSums, FoldCodes, Outputs, make_codes
from fairspan.method.fold_systems import FoldSystems
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.new_rows import CrossFit, MeasuredCodes, fold_regressions, remove_out_of_fold
from fairspan.method.pilot import Pilot
from fairspan.method.privacy import NoisySums, SensitiveRows
from fairspan.method.problem import FitConfig
from fairspan.method.removal import BlockReport

# Shares of the budget for the weights of the levels, and for the direction of b; (3) takes the rest.
WEIGHTS_SHARE, DIRECTION_SHARE = 0.05, 0.5
# Share of the variance of a code that X is taken to explain, before anything of S is known.
_EXPLAINED = 0.1
# Groups are constrained if their weight is above this many standard deviations of its noise.
_LARGER = 2.0


@dataclass(frozen=True, kw_only=True)
class PrivateRemoval:
    """Noisy sums (1) and (2), and the access to (3).

    ``basis`` are the leading principal directions of psi, (D, k), ``variance`` their variances.
    """

    rows: SensitiveRows
    basis: Array
    variance: Array
    first: NoisySums

    @classmethod
    def open(
        cls,
        rows: SensitiveRows,
        moments: Moments,
        pilot: Pilot,
        coders: tuple[Coder | CrossedCoder, ...],
        budget: float,
    ) -> tuple[PrivateRemoval, Moments]:
        """Spend the shares of (1) and (2); return also the moments with noisy sums of S.

        Parameters
        ----------
        moments : per cell and fold, of a pilot without protected attributes.
        pilot : without protected attributes.
        coders : of the protected attributes.
        budget : mu of all sums.
        """
        pending = pilot.features.pending
        total = moments.pool()
        cov = total.cov if pending is None else pending.T @ total.cov @ pending
        variance, basis = psd_eigh((cov + cov.T) / 2.0)
        most = max(coder.n_levels for coder in coders)
        # Noise of one covariance with a whitened code of equal groups, if functions have length 1.
        mu = budget * np.sqrt(DIRECTION_SHARE / len(coders))
        k = n_coordinates(variance, np.sqrt(2.0 * most) / mu / kish(total.weight, total.weight2))
        basis, variance = basis[:, :k], variance[:k]
        means = moments.mean if pending is None else moments.mean @ pending
        weights, sd = rows.weights(WEIGHTS_SHARE)
        first = rows.sums(basis[None], means @ basis, DIRECTION_SHARE)
        out = cls(rows=rows, basis=basis, variance=variance, first=first)
        return out, out._with_levels(moments, pilot, coders, weights, sd)

    def _with_levels(
        self,
        moments: Moments,
        pilot: Pilot,
        coders: tuple[Coder | CrossedCoder, ...],
        weights: tuple[Array, ...],
        sd: float,
    ) -> Moments:
        """Add the noisy sums of the levels to moments, the same shares and shifts in all folds of a cell."""
        pending, K = pilot.features.pending, moments.n_folds
        # From coordinates of psi to the columns of the moments, whose product with the whitening they are.
        back = self.basis.T
        if pending is not None:
            back = back @ (pending / (pending**2).sum(axis=0)).T
        sizes = tuple(coder.n_levels for coder in coders)
        G, H = len(moments.weight), sum(sizes)
        share = np.zeros((G, H))
        mean = np.repeat(moments.mean[:, None], H, axis=1)
        start = 0
        hidden = np.zeros((G, H), dtype=np.int64)
        for coder, noisy, sums in zip(coders, weights, self.first.sums, strict=True):
            levels = slice(start, start + noisy.shape[1])
            start = levels.stop
            visible = _visible(coder, pilot, noisy, sd)
            for c in range(self.rows.n_cells):
                groups, large = slice(c * K, (c + 1) * K), visible[c]
                weight = np.where(large, noisy[c], 0.0)
                share[groups, levels] = weight / max(float(weight.sum()), 1e-300)
                hidden[groups, levels] = ~large
                shift = np.where(large[:, None], sums[c], 0.0)
                mean[groups, levels] += shift / np.where(large, noisy[c], 1.0)[:, None] @ back
        # One row: too few to constrain, and not none, so that reports name the group.
        of_rows = np.maximum(np.rint(share * moments.rows[:, None]).astype(np.int64), hidden)
        return replace(
            moments,
            level_sizes=(*sizes, *moments.level_sizes),
            level_weight=np.concatenate(
                [share * moments.weight[:, None], moments.level_weight], axis=1
            ),
            level_weight2=np.concatenate(
                [share * moments.weight2[:, None], moments.level_weight2], axis=1
            ),
            level_rows=np.concatenate([of_rows, moments.level_rows], axis=1),
            level_mean=np.concatenate([mean, moments.level_mean], axis=1),
        )

    def cross_fit(
        self,
        by_cell: Moments,
        moments: Moments,
        pilot: Pilot,
        config: FitConfig,
        reports: list[BlockReport],
        eta_y: float,
        systems: FoldSystems,
        curvature: RowCurvature | None = None,
    ) -> CrossFit:
        """Spend the rest of the budget, and solve for the removal; see :func:`cross_fit` of new_rows."""
        assert curvature is None
        sums, target = CodeSums(by_cell, pilot), Outputs(pilot)
        every = make_codes(reports, pilot, sums, config.variant.min_rows)
        blocks = [codes for codes in every if codes is not None]
        total = moments.pool()
        n = kish(total.weight, total.weight2) * pilot.cluster_share
        folds = list(
            fold_regressions(
                moments, sums, [], target, eta_y, np.zeros(1), systems, config.ridge_by_evidence
            )
        )
        g = np.stack([fold.functions for fold in folds])  # (K, D, L)
        found = [
            self._regression(codes, sums.pool(codes.cell), config, total.weight, n)
            for codes in blocks
        ]
        b = np.concatenate([functions for functions, _ in found], axis=1)
        both = np.concatenate([g, np.repeat(b[None], len(g), axis=0)], axis=2)
        # Every function counts alike in the length of what a row adds.
        variance = np.einsum("kdm,de,kem->m", both, total.cov, both) / len(both)
        unit = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0.0)
        means = by_cell.mean
        if pilot.features.pending is not None:
            means = means @ pilot.features.pending
        fold_of = np.arange(len(means)) % by_cell.n_folds
        centres = np.einsum("gd,gdm->gm", means, both[fold_of] * unit)
        noisy = self.rows.sums(both * unit, centres, 1.0 - WEIGHTS_SHARE - DIRECTION_SHARE)
        sd = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0.0)
        cross, code_cov, noise, unit_noise = [], [], [], []
        start = g.shape[2]
        for codes, (functions, dof) in zip(blocks, found, strict=True):
            r = functions.shape[1]
            pooled = sums.pool(codes.cell)
            levels = _level_sums(codes, noisy, pooled)
            products = codes.whitening.T @ levels * sd / total.weight  # (r, L + q)
            of_codes = codes.sums(pooled)[1] / total.weight
            # A row's own code is part of its b: on average tr(A Sig) / n of the code's variance.
            products[:, start : start + r] -= of_codes * (dof / n)
            start += r
            # Variance of the noise, the mean over codes.
            size = float((codes.whitening**2).sum(axis=0).mean()) * (noisy.sd / total.weight) ** 2
            cross.append(products)
            code_cov.append(of_codes)
            noise.append(np.diag(size * sd**2))
            unit_noise.append(size / float(np.trace(of_codes) / r))
        measured = MeasuredCodes(
            cross=cross,
            code_cov=code_cov,
            noise=noise,
            n_effective=1.0 / (1.0 / n + max(unit_noise)),
        )
        etas = [float("nan")] * len(blocks)
        return remove_out_of_fold(
            both, folds, every, etas, sums, target, total, pilot, config, measured=measured
        )

    def _regression(
        self, codes: FoldCodes, pooled: Pooled, config: FitConfig, weight: float, n: float
    ) -> tuple[Array, Array]:
        """Regression of the codes of a block on psi, (D, r), and its degrees of freedom, (r,)."""
        N = codes.whitening.T @ _level_sums(codes, self.first, pooled) / weight  # (r, k)
        noise = (codes.whitening**2).sum(axis=0) * (self.first.sd / weight) ** 2
        # Codes are 0 outside their cell, so their covariances have its share as a factor.
        share = codes.weight(pooled)[0] / weight
        if not isinstance(config.eta, str):
            shrink = np.tile(self.variance / (self.variance + float(config.eta)), (len(N), 1))
        else:
            shrink = wiener(self.variance, noise / share**2, n * share)
        return self.basis @ (shrink * N / self.variance).T, shrink.sum(axis=1)


def _level_sums(codes: FoldCodes, noisy: NoisySums, pooled: Pooled) -> Array:
    """Sums of the levels of a block, about the mean of the rows of these levels; (levels, functions)."""
    assert codes.level is not None
    used = list(codes.used)
    weight = pooled.levels[codes.level].weight[used]
    sums = noisy.sums[codes.level][codes.cell or 0][used]
    return np.asarray(sums - (weight / weight.sum())[:, None] * sums.sum(axis=0))


def _visible(
    coder: Coder | CrossedCoder, pilot: Pilot, noisy: Array, sd: float
) -> NDArray[np.bool_]:
    """Mark the groups that are larger than the noise of their size, (cells, levels); warn of others."""
    visible = np.asarray(noisy > _LARGER * sd)
    enough = visible.sum(axis=1) >= 2
    if not enough.any():
        raise ValueError(
            f"The noise of epsilon_sensitive hides the groups of {coder.name!r}: no cell of the criterion "
            f"has two whose size with noise is above {_LARGER * sd:.0f}. Use more rows, a larger "
            f"epsilon_sensitive, fewer attributes, or larger groups."
        )
    hidden = [
        f"{coder.labels[h]!r} in {pilot.cells.names[c]}" for c, h in np.argwhere(~visible).tolist()
    ]
    if hidden:
        warn_user(
            f"Attribute {coder.name!r}: groups that the noise of epsilon_sensitive hides (size with noise "
            f"at most {_LARGER * sd:.0f}) are left out of the constraint: {', '.join(hidden[:5])}"
            f"{', ...' if len(hidden) > 5 else ''}.",
            DataWarning,
        )
    return visible


def n_coordinates(variance: Array, noise: float) -> int:
    """Number of coordinates whose covariance with a code may exceed the noise; chosen without S.

    ``variance`` are those of the principal coordinates, ``noise`` is the standard deviation of the noise
    of a covariance. If the regression of the code has the same expected squared coefficient everywhere,
    the covariance with coordinate i has the standard deviation ``variance_i sqrt(tau)``.
    """
    tau = _EXPLAINED / float(variance.sum())
    return max(int(np.sum(variance * np.sqrt(tau) > noise)), 1)


def wiener(variance: Array, noise: Array, n: float) -> Array:
    """Factor of each covariance with a code at which the expected squared error is least, (r, k).

    Of the square of an estimate, the part ``tau variance^2`` is signal, ``variance / n`` sampling, and
    ``noise``, of every code, is the noise that was added.
    """
    tau = _EXPLAINED / float(variance.sum())
    signal = tau * variance**2
    return np.asarray(signal / (signal + variance / n + noise[:, None]))
