"""What is expected of a score on new rows: correlations with S, with intervals (METHOD 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.stats

from fairspan.method.certificates import Direction, ExpectedDependence, NewRowsCertificate
from fairspan.method.fold_codes import Flags, FoldCodes
from fairspan.method.folds import PositionFolds, centre_within
from fairspan.method.linalg import Array, psd_eigh, take, to_numpy
from fairspan.method.moments import kish
from fairspan.method.new_rows import CrossFit
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.refits import Functions, Refits
from fairspan.method.subspaces import PathMoments, PrincipalPair, blend, on_basis, supremum

Folds = TypeVar("Folds", CrossFit, Refits)

# Confidence of the intervals of a certificate.
CONFIDENCE = 0.95
# Rows from which the joint spread of codes and scores is measured.
SPREAD_ROWS = 10_000
# The same for refits, which are only reported; 10,000 rows would slow a fit by 9 %.
REFIT_ROWS = 4_000
# Intervals of a Gaussian process that are compared with out-of-fold errors, and points of the dial at which.
COVERAGE = 0.9
_TAIL_POINTS = 11
# Of the order in which rows are drawn for it.
_SALT = 17
# Most entries of one spread.
_MOST_ENTRIES = 10**6


@dataclass(frozen=True, kw_only=True)
class OutOfFoldScores:
    """Values of the basis of each fold on its rows, up to a constant in each fold."""

    scores: Array  # (n, m)
    folds: Codes
    encoded: Encoded


def measure_spread(
    fit: Folds,
    pilot: Pilot,
    data: Data,
    most_rows: int = SPREAD_ROWS,
    known: OutOfFoldScores | None = None,
) -> Folds:
    """Measure the joint spread of codes and out-of-fold scores on the training rows, or on some of them.

    ``known`` are scores of all rows of ``data``, if another pass has made them.
    """
    chosen: Any = slice(None)
    counter = pilot.counter()
    few = data.n > most_rows and data.clusters is None
    if few and isinstance(counter, PositionFolds):
        some = np.sort(np.random.default_rng(0).choice(data.n, most_rows, replace=False))
        if known is not None:
            chosen = some
        else:  # the fold of a row does not depend on the other rows, so these need not be encoded
            data = data.take(some)
    if known is not None:
        encoded, folds = known.encoded, known.folds
    else:
        encoded = pilot.encode(data)
        folds = to_numpy(pilot.folds(data, encoded, counter))
    if few and isinstance(chosen, slice) and len(folds) > most_rows:
        chosen = np.sort(pilot.row_keys(data, encoded).shuffled(_SALT)[:most_rows])
    folds = folds[chosen]
    if known is not None:
        scores = known.scores[chosen]
    else:
        bases, X = fit.fold_bases, take(data.X, chosen)
        K, D, m = bases.shape
        columns = pilot.features.scores(X, bases.transpose(1, 0, 2).reshape(D, K * m))
        scores = to_numpy(columns).reshape(len(folds), K, m)[np.arange(len(folds)), folds]
    cells, levels, values = (
        to_numpy(part)[chosen] for part in (encoded.cells, encoded.levels, encoded.values)
    )
    p = encoded.probabilities[chosen]
    weight = np.ones(data.n) if data.weights is None else to_numpy(data.weights)
    codes = []
    for block in fit.blocks:
        cell = block.codes.cell
        inside = np.ones(len(folds), dtype=bool) if cell is None else cells == cell
        codes.append(
            (
                block.codes.of_rows(levels, values, inside, p),
                block.codes.has_code(levels, values, inside),
            )
        )
    scores = np.asarray(scores, dtype=np.float64)
    if isinstance(fit, CrossFit):
        y = values[:, -1] if pilot.target_is_numeric else None
        fit = _with_tails(fit, scores, y, folds, weight[chosen])
    return with_spread(fit, scores, folds, weight[chosen], codes, data.clusters)


def _with_tails(
    fit: CrossFit, scores: Array, y: Array | None, folds: Codes, weight: Array
) -> CrossFit:
    """Add quantiles of out-of-fold errors, which only Gaussian processes use."""
    if fit.leverage is None or y is None:
        return fit
    both = centre_within(np.column_stack([y, scores]), folds, weight)
    n_rows = kish(float(weight.sum()), float(weight @ weight))
    level = min(COVERAGE * (n_rows + 1.0) / n_rows, 1.0)
    normal = float(scipy.stats.norm.isf((1.0 - COVERAGE) / 2.0))
    out = []
    for share in np.linspace(0.0, 1.0, _TAIL_POINTS):
        error = np.abs(both[:, 0] - both[:, 1:] @ fit.coefficients(share)[:, 0])
        size = float(np.sqrt(weight @ error**2 / weight.sum()))
        if size == 0.0:
            return fit
        order = np.argsort(error)
        reached = np.cumsum(weight[order]) / weight.sum()
        place = min(int(np.searchsorted(reached, level * (1.0 - 1e-12))), len(order) - 1)
        out.append(float(error[order[place]]) / (normal * size))
    return replace(fit, tails=np.array(out))


def with_spread(
    fit: Folds,
    scores: Array,
    folds: Codes,
    weight: Array,
    codes: list[tuple[Array, Flags]],
    clusters: Codes | None = None,
) -> Folds:
    """Add ``E[c c' f f']`` of every block, measured on rows; for refits, the part of each fold.

    With clusters, the products of c and f are summed over the rows of each.

    Parameters
    ----------
    scores : out-of-fold values of the basis, (n, m).
    folds, weight, clusters : of the rows, (n,).
    codes : for every block the codes of the rows, (n, r), and which rows have one, (n,).
    """
    centred = centre_within(scores, folds, weight)
    n_parts = fit.n_folds if fit.spread_by_fold else 1
    blocks = []
    for block, (values, known) in zip(fit.blocks, codes, strict=True):
        f, w = centred[known], weight[known]
        c = centre_within(values[known], folds[known], w)
        r, m = c.shape[1], f.shape[1]
        spread = None
        if n_parts * r**2 * m**2 <= _MOST_ENTRIES and w.sum() > 0.0:
            pairs = np.einsum("na,ni->nai", c, f).reshape(len(c), -1)
            scaled = pairs * (w / w.sum())[:, None]
            if clusters is not None:
                _, cluster = np.unique(clusters[known], return_inverse=True)
            spread = np.zeros((n_parts, r, r, m, m))
            for k, part in enumerate(spread):
                rows = folds[known] == k if n_parts > 1 else slice(None)
                if clusters is None:
                    moments = scaled[rows].T @ pairs[rows]
                else:
                    sums = np.zeros((int(cluster.max()) + 1, r * m))
                    np.add.at(sums, cluster[rows], scaled[rows])
                    moments = block.n_effective * (sums.T @ sums)
                part[:] = moments.reshape(r, m, r, m).transpose(0, 2, 1, 3)
        if spread is not None and n_parts == 1:
            spread = spread[0]
        blocks.append(replace(block, spread=spread))
    return replace(fit, blocks=tuple(blocks))


@dataclass(frozen=True, kw_only=True)
class _Estimate:
    """Out-of-fold moments of one block and L functions."""

    codes: FoldCodes
    cov: Array  # of codes and functions, (r, L)
    within: Array  # covariance of the functions in the cell, (L, L)
    spread: Array | None  # E[c c' f^2] of one function, (r, r); None: not known
    at_zero: Array  # covariance of the codes with the unconstrained functions, (r, L)
    n_effective: float
    directions: tuple[Direction, ...] = ()
    noise: float = 0.0  # variance of the noise that was added to each covariance


def expect(
    fit: CrossFit,
    C: Array,
    path_cov: Array,
    block_cov: tuple[Array, ...],
    *,
    confidence: float = CONFIDENCE,
    attribute: str | None = None,
) -> NewRowsCertificate:
    """Estimate the dependence on new rows of the functions with coefficients C on the basis.

    ``path_cov`` and ``block_cov`` are covariances of the averaged functions on the training rows, over all
    rows and in the cell of every block. With ``attribute``, only its blocks are used.
    """
    estimates = []
    for block in fit.blocks:
        if attribute not in (None, block.codes.report.attribute):
            continue
        spread = None
        if block.spread is not None and C.shape[1] == 1:
            spread = np.einsum("abij,i,j->ab", block.spread, C[:, 0], C[:, 0])
        estimates.append(
            _Estimate(
                codes=block.codes,
                cov=block.cov @ C,
                within=C.T @ block_cov[block.index] @ C,
                spread=spread,
                at_zero=block.cov @ fit.first,
                n_effective=block.n_effective,
                directions=block.directions,
                noise=0.0
                if block.noise is None
                else float(np.linalg.eigvalsh(C.T @ block.noise @ C)[-1]),
            )
        )
    averaged, out_of_fold = (float(np.trace(C.T @ cov @ C)) for cov in (path_cov, fit.cov))
    return _certificate(estimates, "new_rows", averaged, out_of_fold, fit.n_folds, confidence)


def expect_refitted(
    refits: Refits, functions: Functions, pair: PrincipalPair, path: PathMoments
) -> NewRowsCertificate:
    """Estimate the dependence on new rows of a model that removes it on the training rows.

    ``pair`` and ``path`` are of the fit on all rows. A moment of the model on new rows is estimated by
    that on its own rows, plus the difference between left-out and own rows of the refits. That difference
    is of order 1/n, and a refit has the share 1 - pi_k of the rows, so it is multiplied by 1 - pi_k
    (Burman 1989). At the fair end, covariances with the codes are 0 on own rows, and those on other rows
    are of order 1/n after multiplication with P = N'R^-1 N, so they are multiplied by its growth.
    """
    C = refits.score(functions, pair, path)
    first = refits.score(lambda pair, path: on_basis(path, blend(pair, pair.angles)), pair, path)
    scores = [refits.score(functions, fold.pair, fold.path) for fold in refits.folds]
    both = list(zip(refits.folds, scores, strict=True))
    estimates = []
    for i, block in enumerate(refits.blocks):
        own = C.T @ path.block_cov[block.index] @ C
        cov, within, left_out = block.cross @ C, own.copy(), np.zeros_like(own)
        for share, (fold, W) in zip(block.share, both, strict=True):
            on_fold, on_own = fold.blocks[i], fold.path.block_cov[block.index]
            factor = share * (1.0 - share)
            cov += factor * block.growth * ((on_fold.cross - on_fold.own_cross) @ W)
            within += factor * (W.T @ (on_fold.cov - on_own) @ W)
            left_out += share * (W.T @ on_fold.cov @ W)
        spread = None
        if block.spread is not None and C.shape[1] == 1:
            spread = sum(
                np.einsum("abij,i,j->ab", part[..., : len(W), : len(W)], W[:, 0], W[:, 0])
                for part, W in zip(block.spread, scores, strict=True)
            )
        estimates.append(
            _Estimate(
                codes=block.codes,
                cov=cov,
                # A difference of covariances need not be one; that of the left-out rows is.
                within=within if np.linalg.eigvalsh(within)[0] > 0.0 else left_out,
                spread=spread,
                at_zero=block.cross @ first,
                n_effective=block.n_effective,
            )
        )
    averaged = float(np.trace(C.T @ path.cov @ C))
    out_of_fold = sum(
        share * float(np.trace(W.T @ fold.cov @ W))
        for share, (fold, W) in zip(refits.share, both, strict=True)
    )
    return _certificate(
        estimates, "training_rows", averaged, float(out_of_fold), refits.n_folds, CONFIDENCE
    )


def _certificate(
    estimates: list[_Estimate],
    removal: str,
    averaged: float,
    out_of_fold: float,
    n_folds: int,
    confidence: float,
) -> NewRowsCertificate:
    """Correlations with intervals; the variances are of the model on its rows and out of fold."""
    n_constrained = max(sum(e.codes.report.constrained for e in estimates), 1)
    level = 1.0 - (1.0 - confidence) / n_constrained
    # Functions of the folds vary more than their average; so does the estimate.
    kappa = out_of_fold / averaged if averaged > 0.0 else 1.0
    inflation = float(np.sqrt(1.0 + n_folds * max(kappa - 1.0, 0.0)))
    blocks = []
    for e in estimates:
        report, (r, L) = e.codes.report, e.cov.shape
        correlation, _ = supremum(e.within, e.cov.T)
        variance = float(np.trace(e.within)) / L
        error = 0.0
        if variance > 0.0:
            independent = out_of_fold / L * e.codes.largest_variance
            spread = independent if e.spread is None else float(psd_eigh(e.spread)[0][0])
            error = float(np.sqrt(spread / variance / e.n_effective)) * inflation
            error = float(np.hypot(error, np.sqrt(e.noise / variance)))
        z = float(np.sqrt(scipy.stats.chi2.ppf(level, r * L)))
        signed = None
        if r == 1 and L == 1 and variance > 0.0:
            sign = 1.0 if e.at_zero[0, 0] >= 0.0 else -1.0
            signed = float(e.cov[0, 0]) / np.sqrt(variance) * sign
        blocks.append(
            ExpectedDependence(
                cell=report.cell,
                attribute=report.attribute,
                coding=report.coding,
                constrained=report.constrained,
                correlation=correlation,
                signed=signed,
                standard_error=error,
                low=max(correlation - z * error, 0.0),
                high=min(correlation + z * error, 1.0),
                n_effective=e.n_effective,
                directions=e.directions,
                independent_spread=e.spread is None,
            )
        )
    return NewRowsCertificate(
        removal=removal, blocks=tuple(blocks), confidence=confidence, n_folds=n_folds
    )
