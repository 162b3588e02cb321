"""Models refitted without each fold: what removal on the training rows leaves on new rows (METHOD 12).

The fair end of METHOD 6 has no covariance with the codes of S on its own rows, and a bias on others. The
same model, fitted without fold k, shows this bias on fold k. Everything is computed from the moments of
the folds, with the ridges and the numbers of directions of the fit on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairspan.method.directions import inverse_root
from fairspan.method.fold_codes import CodeSums, Flags, FoldCodes, Outputs, make_codes
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.removal import Block, without_rounding
from fairspan.method.sdr import canonical_directions
from fairspan.method.subspaces import Metric, PathMoments, PrincipalPair, path_moments, ridge_head

__all__ = ["BlockFit", "Functions", "Refit", "RefitBlock", "Refits", "refit_folds"]

# From the geometry of a fit to the functions of a model, as coefficients on the basis, (m, k).
Functions = Callable[[PrincipalPair, PathMoments], Array]
# From pooled rows, their removed covectors and the codes of constrained blocks to a fit of these rows.
FitRows = Callable[[Pooled, list[Array], list[Array]], tuple[Metric, PrincipalPair, Array]]


@dataclass(frozen=True, kw_only=True)
class RefitBlock:
    """One attribute in one cell."""

    index: int  # of the block among all reports
    codes: FoldCodes
    cross: Array  # covariance of the codes with the basis of the fit on all rows, (r, m)
    share: Array  # of each fold in the weight of the rows with a code, (K,)
    n_effective: float  # Kish size of the rows with a code
    # Sum over the rows of each fold of w c c' f f', over all weight, (K, r, r, m, m); None: not known.
    spread: Array | None = None


@dataclass(frozen=True, kw_only=True)
class BlockFit:
    """Moments of one block with the basis of a refit; those of the codes are 0 without rows."""

    cov: Array  # covariance of the basis in the cell and the fold, (m, m)
    cross: Array  # covariance of the codes with the basis in the fold, (r, m)
    own_cross: Array  # the same on the rows of the refit
    # tr(P) of the refit over that of the fit on all rows, P = N'R^-1 N.
    predicted: float


@dataclass(frozen=True, kw_only=True)
class Refit:
    """The fit without one fold, and its moments on that fold."""

    basis: Array  # (D, m)
    pair: PrincipalPair  # without its vectors
    path: PathMoments  # on the rows of the refit
    cov: Array  # covariance of the basis on the fold, (m, m)
    blocks: tuple[BlockFit, ...]


@dataclass(frozen=True, kw_only=True)
class Refits:
    """The fits without each fold."""

    folds: tuple[Refit, ...]
    blocks: tuple[RefitBlock, ...]
    share: Array  # weight of each fold, (K,)
    contrasts: Array  # of the outputs of y, (outputs, L), orthonormal
    eta_y: float
    spread_by_fold: ClassVar[bool] = True  # refits have their own coefficients

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    @property
    def fold_bases(self) -> Array:
        """Bases of the refits, (K, D, m), with columns of zeros where a refit has fewer functions."""
        bases = [fold.basis for fold in self.folds]
        m = max(basis.shape[1] for basis in bases)
        return np.stack([np.pad(basis, ((0, 0), (0, m - basis.shape[1]))) for basis in bases])

    def score(self, functions: Functions, pair: PrincipalPair, path: PathMoments) -> Array:
        """Contrasts of the scores of a model, as coefficients on the basis of its fit, (m, L).

        A ridge head fits the scores. Correlations do not depend on the head, because all functions of
        one or of all outputs count.
        """
        C = functions(pair, path)
        return np.asarray(C @ ridge_head(path, C, self.eta_y) @ self.contrasts)


def refit_folds(
    by_cell: Moments,
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    blocks: list[Block],
    eta_y: float,
    basis: Array,
    metric: Metric,
    fit_rows: FitRows,
) -> Refits:
    """Refit without each fold, from the moments of the folds.

    Parameters
    ----------
    by_cell : moments per cell and fold, in the coordinates of the pass.
    moments : moments per fold, in the coordinates of psi.
    blocks : of all cells and attributes.
    eta_y : ridge of the regression of y.
    basis, metric : of the fit on all rows.
    fit_rows : computes the geometry of a fit.
    """
    sums, target = CodeSums(by_cell, pilot), Outputs(pilot)
    every = make_codes([b.report for b in blocks], pilot, sums, config.variant.min_rows)
    explained = [_explained(metric, block.delta) for block in blocks]
    known = [(i, codes) for i, codes in enumerate(every) if codes is not None]
    rows = _CellRows(by_cell, pilot)
    of_all, weights = [], []
    for i, codes in known:
        weight, weight2 = codes.weight(sums.pool(codes.cell))
        in_fold = [codes.weight(sums.pool(codes.cell, k))[0] for k in range(moments.n_folds)]
        weights.append(np.array(in_fold))
        of_all.append(
            RefitBlock(
                index=i,
                codes=codes,
                cross=codes.sums(sums.pool(codes.cell))[0].T @ basis / weight,
                share=weights[-1] / weight,
                n_effective=kish(weight, weight2),
            )
        )
    folds = []
    for k in range(moments.n_folds):
        mask = np.arange(moments.n_folds) == k
        train, test = moments.pool(folds=~mask), moments.pool(folds=mask)
        own = {i: codes.sums(sums.pool(codes.cell, k, others=True)) for i, codes in known}
        deltas, covectors = {}, []
        for i, codes in known:
            in_cell = sums.pool(codes.cell, k, others=True).weight
            deltas[i] = own[i][0] @ inverse_root(own[i][1]) / np.sqrt(max(in_cell, 1e-300))
            if codes.report.constrained:
                covectors.append(_covectors(codes, deltas[i], train, rows, ~mask))
        constrained = [deltas[i] for i, codes in known if codes.report.constrained]
        own_metric, pair, B = fit_rows(train, covectors, constrained)
        path = path_moments(B, train.cov, target.outputs(train), np.zeros(len(B)), (), ())
        path = replace(
            path,
            block_cov=tuple(
                path.cov if codes is None else rows.on(codes.cell, ~mask, B, train)
                for codes in every
            ),
            block_delta=tuple(B.T @ deltas.get(i, B[:, :0]) for i in range(len(every))),
        )
        of_blocks = []
        for (i, codes), in_folds in zip(known, weights, strict=True):
            cross, _ = codes.sums(sums.pool(codes.cell, k))
            here, others = float(in_folds[k]), float(in_folds[~mask].sum())
            of_blocks.append(
                BlockFit(
                    cov=rows.on(codes.cell, mask, B, test),
                    cross=cross.T @ B / max(here, 1e-300),
                    own_cross=own[i][0].T @ B / max(others, 1e-300),
                    predicted=_explained(own_metric, deltas[i]) / max(explained[i], 1e-300),
                )
            )
        folds.append(
            Refit(
                basis=B,
                pair=replace(pair, fair=pair.fair[:0], removed=pair.removed[:0]),
                path=path,
                cov=B.T @ test.cov @ B,
                blocks=tuple(of_blocks),
            )
        )
    return Refits(
        folds=tuple(folds),
        blocks=tuple(of_all),
        share=moments.weight / moments.weight.sum(),
        contrasts=target.contrasts,
        eta_y=eta_y,
    )


def _explained(metric: Metric, delta: Array) -> float:
    """``tr(N'R^-1 N)``: what X predicts of the codes on the rows of a fit."""
    return float((metric.covectors(delta) ** 2).sum())


class _CellRows:
    """Second moments of psi in the rows of a cell and some folds."""

    def __init__(self, by_cell: Moments, pilot: Pilot) -> None:
        self._moments, self._pending = by_cell, pilot.features.pending

    def on(self, cell: int | None, folds: Flags, B: Array | None, every: Pooled) -> Array:
        """Covariance of the functions B, or of psi; ``every`` are the rows of all cells in the folds."""
        if cell is None:
            return every.cov if B is None else np.asarray(B.T @ every.cov @ B)
        pooled = self._moments.pool(cell=cell, folds=folds)
        cov = pooled.scatter / max(pooled.weight, 1e-300)
        if self._pending is not None:
            B = self._pending if B is None else self._pending @ B
        return cov if B is None else np.asarray(B.T @ cov @ B)


def _covectors(
    codes: FoldCodes, delta: Array, train: Pooled, rows: _CellRows, folds: Flags
) -> Array:
    """Covariances that the refit makes 0: as many directions of the codes as the fit on all rows."""
    report, cov = codes.report, train.cov
    if report.n_directions < report.rank:
        cov = rows.on(codes.cell, folds, None, train)
        combinations = canonical_directions(cov, delta, report.eta).codes
        delta = delta @ combinations[:, : report.n_directions]
    return without_rounding(delta, cov)
