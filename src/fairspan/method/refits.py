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
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.removal import Block, without_rounding
from fairspan.method.sdr import canonical_directions
from fairspan.method.subspaces import Metric, PathMoments, PrincipalPair, path_moments, ridge_head

# From the geometry of a fit to the functions of a model, as coefficients on the basis, (m, k).
Functions = Callable[[PrincipalPair, PathMoments], Array]
# From pooled rows, the covariance of their metric (None: their own), their removed covectors and the codes
# of constrained blocks to a fit of these rows.
FitRows = Callable[
    [Pooled, Array | None, list[Array], list[Array]], tuple[Metric, PrincipalPair, Array]
]


@dataclass(frozen=True, kw_only=True)
class RefitBlock:
    """One attribute in one cell."""

    index: int  # of the block among all reports
    codes: FoldCodes
    cross: Array  # covariance of the codes with the basis of the fit on all rows, (r, m)
    share: Array  # of each fold in the weight of the rows with a code, (K,)
    n_effective: float  # Kish size of the rows with a code
    # tr(N'R^-1 N), of the refits over that of the fit on all rows: from 1 to 1/(1 - pi_k).
    growth: float
    # Sum over the rows of each fold of w c c' f f', over all weight, (K, r, r, m, m); None: not known.
    spread: Array | None = None


@dataclass(frozen=True, kw_only=True)
class BlockFit:
    """Moments of one block with the basis of a refit; those of the codes are 0 without rows."""

    cov: Array  # covariance of the basis in the cell and the fold, (m, m)
    cross: Array  # covariance of the codes with the basis in the fold, (r, m)
    own_cross: Array  # the same on the rows of the refit
    predicted: float  # tr(N'R^-1 N) of the refit


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
    curvature: RowCurvature | None = None,
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
    curvature : metric of a likelihood, computed from the rows; None: least squares.
    """
    rows = _Rows(by_cell, moments, pilot)
    codes = make_codes([b.report for b in blocks], pilot, rows.sums, config.variant.min_rows)
    covs: list[Array | None] = [None] * moments.n_folds
    if curvature is not None:
        covs = list(_likelihood_covs(rows, eta_y, curvature))
    folds = [_refit(rows, k, codes, cov, fit_rows) for k, cov in enumerate(covs)]
    share = moments.weight / moments.weight.sum()
    reported, known = (
        [],
        [(i, of_block) for i, of_block in enumerate(codes) if of_block is not None],
    )
    for j, (i, of_block) in enumerate(known):
        pooled = rows.sums.pool(of_block.cell)
        weight, weight2 = of_block.weight(pooled)
        in_fold = [of_block.weight(rows.sums.pool(of_block.cell, k))[0] for k in range(len(folds))]
        predicted = share @ [fold.blocks[j].predicted for fold in folds]
        whitened = blocks[i].delta / of_block.to_groups
        growth = predicted / max(_predicted(metric, whitened), 1e-300)
        reported.append(
            RefitBlock(
                index=i,
                codes=of_block,
                cross=of_block.sums(pooled)[0].T @ basis / weight,
                share=np.array(in_fold) / weight,
                n_effective=kish(weight, weight2)
                * pilot.clusters_per_row(of_block.report.attribute),
                growth=float(np.clip(growth, 1.0, len(folds) / (len(folds) - 1.0))),
            )
        )
    return Refits(
        folds=tuple(folds),
        blocks=tuple(reported),
        share=share,
        contrasts=Outputs(pilot).contrasts,
        eta_y=eta_y,
    )


class _Rows:
    """Moments of the rows of a fold, or of the others, over all cells and in one cell."""

    def __init__(self, by_cell: Moments, moments: Moments, pilot: Pilot) -> None:
        self._by_cell, self._moments, self._pending = by_cell, moments, pilot.features.pending
        self.sums, self.target = CodeSums(by_cell, pilot), Outputs(pilot)
        self.n_folds = moments.n_folds

    def pool(self, fold: int) -> tuple[Pooled, Array]:
        """The rows of the other folds, and the covariance of psi in this one."""
        others = self._moments.pool(folds=self._mask(fold, others=True))
        return others, self._moments.scatter[fold] / self._moments.weight[fold]

    def cell_cov(self, cell: int, fold: int, B: Array | None, *, others: bool = False) -> Array:
        """Covariance of the functions B, or of psi, in a cell; 0 without rows."""
        pooled = self._by_cell.pool(cell=cell, folds=self._mask(fold, others=others))
        cov = pooled.scatter / max(pooled.weight, 1e-300)
        if self._pending is not None:
            B = self._pending if B is None else self._pending @ B
        return cov if B is None else np.asarray(B.T @ cov @ B)

    def _mask(self, fold: int, *, others: bool) -> Flags:
        return np.asarray((np.arange(self._moments.n_folds) == fold) != others)


def _likelihood_covs(rows: _Rows, eta_y: float, curvature: RowCurvature) -> Array:
    """Covariances of the metric of a likelihood on the rows of every refit, (K, D, D)."""
    means, functions, shares = [], [], []
    for k in range(rows.n_folds):
        train, _ = rows.pool(k)
        means.append(train.mean)
        ridge = Metric.correlation(train.cov, eta_y)
        functions.append(ridge.solve(rows.target.outputs(train)))
        shares.append(rows.target.shares(train))
    return curvature.without_folds(np.stack(means), np.stack(functions), np.stack(shares))


def _refit(
    rows: _Rows, k: int, codes: list[FoldCodes | None], metric_cov: Array | None, fit_rows: FitRows
) -> Refit:
    """Fit without fold k; ``codes`` are those of all blocks."""
    sums, (train, test_cov) = rows.sums, rows.pool(k)
    known = {i: of_block for i, of_block in enumerate(codes) if of_block is not None}
    own = {i: c.sums(sums.pool(c.cell, k, others=True)) for i, c in known.items()}
    deltas, known_deltas, covectors, constrained = {}, {}, [], []
    for i, c in known.items():
        weight = sums.pool(c.cell, k, others=True).weight
        deltas[i] = own[i][0] @ inverse_root(own[i][1]) / np.sqrt(max(weight, 1e-300))
        with_code = c.weight(sums.pool(c.cell, k, others=True))[0]
        known_deltas[i] = deltas[i] * np.sqrt(weight / max(with_code, 1e-300))
        if c.report.constrained:
            covectors.append(_covectors(rows, k, c, deltas[i], train))
            constrained.append(deltas[i])
    metric, pair, B = fit_rows(train, metric_cov, covectors, constrained)
    path = path_moments(B, train.cov, rows.target.outputs(train), np.zeros(len(B)), (), ())
    cov = B.T @ test_cov @ B
    own_cov, blocks = [path.cov] * len(codes), []
    for i, c in known.items():
        in_fold, others = sums.pool(c.cell, k), sums.pool(c.cell, k, others=True)
        if c.cell is not None:
            own_cov[i] = rows.cell_cov(c.cell, k, B, others=True)
        blocks.append(
            BlockFit(
                cov=cov if c.cell is None else rows.cell_cov(c.cell, k, B),
                cross=c.sums(in_fold)[0].T @ B / max(c.weight(in_fold)[0], 1e-300),
                own_cross=own[i][0].T @ B / max(c.weight(others)[0], 1e-300),
                predicted=_predicted(metric, deltas[i]),
            )
        )
    delta = tuple(
        B.T @ known_deltas[i] * known[i].to_groups if i in known else B.T @ B[:, :0]
        for i in range(len(codes))
    )
    return Refit(
        basis=B,
        pair=replace(pair, fair=pair.fair[:0], removed=pair.removed[:0]),
        path=replace(path, block_cov=tuple(own_cov), block_delta=delta),
        cov=cov,
        blocks=tuple(blocks),
    )


def _covectors(rows: _Rows, k: int, codes: FoldCodes, delta: Array, train: Pooled) -> Array:
    """Covariances that the refit makes 0: as many directions of the codes as the fit on all rows."""
    report, cov = codes.report, train.cov
    if report.n_directions < report.rank:
        if codes.cell is not None:
            cov = rows.cell_cov(codes.cell, k, None, others=True)
        combinations = canonical_directions(cov, delta, report.eta).codes
        delta = delta @ combinations[:, : report.n_directions]
    return without_rounding(delta, cov)


def _predicted(metric: Metric, delta: Array) -> float:
    """``tr(N'R^-1 N)``: what X predicts of the codes on the rows of a fit."""
    return float((metric.covectors(delta) ** 2).sum())
