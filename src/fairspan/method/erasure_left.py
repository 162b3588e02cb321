"""What an erasure leaves about S, on the training rows and on new rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.stats
from numpy.typing import NDArray

from fairspan._html import table as html_table
from fairspan.method.erasure_directions import Removed, Whitening, find_removed
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.sdr import column_block

__all__ = ["ErasureBlock", "ErasureCertificate", "left_over"]

# Correlations below this are rounding, and so is noise below this share of what it is the noise of.
_ROUNDING = 1e-10
_NO_NOISE = 1e-8


@dataclass(frozen=True, kw_only=True)
class ErasureBlock:
    """What linear predictors find out about one attribute from the vectors.

    Correlations are multiple ones: the root of the mean of the squared canonical correlations of the vectors
    with the codes, from 0 to 1. With two groups there is one; with k groups there are k - 1 (or the rank of
    the vectors, if that is less), so that one group alone that is found perfectly counts
    ``(k - 1)^-1/2``. Those of new rows are what the best linear predictor reaches that is trained
    on any number of new vectors; NaN if there are too few rows to estimate it.
    """

    attribute: str
    coding: str  # "levels", "slices" or "value"
    n_rows: int
    before: float  # of the original vectors, on new rows
    training_rows: float  # of the transformed training rows
    new_rows: float  # of transformed new rows, estimated out of fold
    low: float  # interval of ``new_rows``
    high: float


@dataclass(frozen=True, kw_only=True)
class ErasureCertificate:
    """What is left about S in transformed vectors, for linear predictors."""

    fairness: float
    confidence: float
    blocks: tuple[ErasureBlock, ...]
    # Largest difference of a group's variance from that within groups, in units of a direction's variance,
    # on the training rows; NaN where group covariances were not computed.
    covariance_gap_before: float
    covariance_gap: float

    def _lines(self) -> list[tuple[str, ...]]:
        """Head and one line for each block."""
        head = (
            "attribute",
            "compared by",
            "before",
            "training rows",
            "new rows",
            "interval",
            "rows",
        )
        coding = {"levels": "group means", "slices": "means of slices", "value": "correlation"}
        return [
            head,
            *(
                (
                    b.attribute,
                    coding[b.coding],
                    _shown(b.before),
                    "<1e-10" if b.training_rows < 1e-10 else _shown(b.training_rows),
                    _shown(b.new_rows),
                    "unknown" if np.isnan(b.high) else f"{b.low:.3f} to {b.high:.3f}",
                    str(b.n_rows),
                )
                for b in self.blocks
            ),
        ]

    def table(self) -> str:
        """The blocks as text, one line each."""
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        head, *rows = self._lines()
        caption = f"What linear predictors find of S in the vectors (fairness {self.fairness:g})"
        return html_table(caption, head, rows)

    def __str__(self) -> str:
        """The table."""
        return self.table()


def _shown(correlation: float) -> str:
    return "unknown" if np.isnan(correlation) else f"{correlation:.3f}"


def left_over(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    total: Removed,
    order: int,
    n_directions: int | str,
    confidence: float,
) -> tuple[tuple[ErasureBlock, ...], tuple[ErasureBlock, ...]]:
    """Blocks of the original and of the transformed vectors, on training rows and out of fold."""
    before: dict[tuple[str, str], list[_FoldSum]] = {}
    after: dict[tuple[str, str], list[_FoldSum]] = {}
    fold_of = np.arange(moments.n_folds)
    for first in range(0, moments.n_folds - 1, 2):
        halves = [fold_of == first, fold_of == first + 1]
        training = ~(halves[0] | halves[1])
        train = moments.pool(folds=training, scatter=False)
        size = kish(train.weight, train.weight2)
        tests = [moments.pool(folds=half, scatter=False) for half in halves]
        removed = None
        if size > total.white.rank + 3.0 and all(test.rows for test in tests):
            removed = find_removed(
                moments, pilot, config, order, n_directions, training, total.levels
            )
        if removed is None or removed.white.rank != total.white.rank:
            before, after = {}, {}  # too few rows to know
            break
        # The inverse of a covariance of normal rows is too large by this factor.
        shrink = (size - removed.white.rank - 2.0) / size
        # What is left is the sampling error of Delta, whose square falls as 1/n; the map has all rows.
        share = size / kish(total.pooled.weight, total.pooled.weight2)
        for key, pair in _half_covariances(tests, pilot, config, total.levels).items():
            for basis, sums, factor in (
                (removed.basis[:, :0], before, shrink),
                (removed.basis, after, shrink * share),
            ):
                sums.setdefault(key, []).append(_fold_sum(pair, removed.white, basis, factor))
    out: tuple[list[ErasureBlock], list[ErasureBlock]] = ([], [])
    for each in total.codes:
        key = (each.attribute, each.coding)
        most = max(min(each.block.rank, total.white.rank), 1)  # canonical correlations
        intervals = [_interval(sums.get(key, []), most, confidence) for sums in (before, after)]
        delta = total.white.whiten(each.block.delta_known)
        left = delta - total.basis @ (total.basis.T @ delta)
        parts = zip(out, (delta, left), intervals, strict=True)
        for blocks, covariance, (estimate, low, high) in parts:
            blocks.append(
                ErasureBlock(
                    attribute=each.attribute,
                    coding=each.coding,
                    n_rows=each.block.n_rows,
                    before=intervals[0][0],
                    training_rows=min(float(np.linalg.norm(covariance) / np.sqrt(most)), 1.0),
                    new_rows=estimate,
                    low=low,
                    high=high,
                )
            )
    return tuple(out[0]), tuple(out[1])


@dataclass(frozen=True, kw_only=True)
class _Half:
    """Covariances of half of the held-out rows with the codes of an attribute, of rank ``rank``."""

    delta: Array
    n: float
    rank: int


def _half_covariances(
    tests: list[Pooled],
    pilot: Pilot,
    config: FitConfig,
    kept: tuple[NDArray[np.bool_], ...],
) -> dict[tuple[str, str], tuple[_Half, _Half]]:
    """Covariances of both halves with the same codes, by attribute and coding.

    With levels, column h of delta is ``sqrt(p_h) (mean_h - mean)``, which has the length of the covariances
    with whitened codes.
    """
    out: dict[tuple[str, str], tuple[_Half, _Half]] = {}
    column = 0
    for j, coder in enumerate(pilot.coders):
        ordered = coder.kind == "continuous"
        if coder.kind == "probabilities":
            continue  # their noise is not that of groups, so new rows stay unknown
        if not config.removes_correlation_only(coder.kind):
            levels = [test.levels[j] for test in tests]
            found = np.flatnonzero(kept[j] & (levels[0].weight > 0.0) & (levels[1].weight > 0.0))
            weight = levels[0].weight[found] + levels[1].weight[found]
            if len(found) > 1:
                p = weight / weight.sum()
                first, second = (
                    _Half(
                        delta=((part.mean[found] - p @ part.mean[found]) * np.sqrt(p)[:, None]).T,
                        n=kish(float(part.weight.sum()), float(part.weight2.sum())),
                        rank=len(found) - 1,
                    )
                    for part in levels
                )
                out[coder.name, "slices" if ordered else "levels"] = first, second
        if ordered:
            blocks = [column_block(test.columns[column], test.weight) for test in tests]
            column += 1
            if blocks[0] is not None and blocks[1] is not None:
                first, second = (
                    _Half(delta=block.delta_known, n=block.n_effective, rank=1)
                    for block in (blocks[0], blocks[1])
                )
                out[coder.name, "value"] = first, second
    return out


@dataclass(frozen=True)
class _FoldSum:
    """Squared mean and squared half difference of the covariances of two halves of the held-out rows.

    Both contain the same noise, whatever the covariances of the groups are.
    """

    n: float  # rows whose covariance has the noise of the mean
    squared: float
    noise: float
    degrees: float


def _fold_sum(
    pair: tuple[_Half, _Half], white: Whitening, removed: Array, factor: float
) -> _FoldSum:
    """Measure what is left on held-out rows, by directions of the other rows."""
    one, other = (white.whiten(half.delta) for half in pair)
    squares = [
        factor * float((part**2).sum() - ((removed.T @ part) ** 2).sum())
        for part in ((one + other) / 2.0, (one - other) / 2.0)
    ]
    return _FoldSum(
        n=4.0 / (1.0 / pair[0].n + 1.0 / pair[1].n),
        squared=max(squares[0], 0.0),
        noise=max(squares[1], 0.0),
        degrees=float(pair[0].rank * (white.rank - removed.shape[1])),
    )


def _interval(sums: list[_FoldSum], most: int, confidence: float) -> tuple[float, float, float]:
    """Estimate a correlation on new rows, and its interval from a noncentral F distribution.

    It is the root of the mean of ``most`` squared canonical correlations.
    """
    if not sums:
        return float("nan"), float("nan"), float("nan")
    degrees, n = sum(each.degrees for each in sums), sum(each.n for each in sums)
    squared = sum(each.n * each.squared for each in sums)
    noise = sum(each.n * each.noise for each in sums)
    if degrees == 0.0 or max(squared, noise) <= _ROUNDING**2 * n:
        return 0.0, 0.0, 0.0  # no direction is left
    if noise <= _NO_NOISE * squared:  # vectors are functions of S
        estimates = (squared / n,) * 3
    else:
        tail = (1.0 - confidence) / 2.0
        low, high = (_noncentrality(squared / noise, degrees, q) for q in (1.0 - tail, tail))
        scale = noise / degrees / n
        estimates = ((squared - noise) / n, low * scale, high * scale)
    first, second, third = (float(np.sqrt(min(max(v / most, 0.0), 1.0))) for v in estimates)
    return first, second, third


def _noncentrality(ratio: float, degrees: float, probability: float) -> float:
    """Find the noncentrality with which F is below the observed ratio with this probability."""

    def gap(value: float) -> float:
        if value == 0.0:
            return float(scipy.stats.f.cdf(ratio, degrees, degrees) - probability)
        below = float(scipy.stats.ncf.cdf(ratio, degrees, degrees, value))
        if np.isnan(below):  # SciPy's series ends; Patnaik's F has the same mean and variance above
            top = (degrees + value) ** 2 / (degrees + 2.0 * value)
            below = float(scipy.stats.f.cdf(ratio / (1.0 + value / degrees), top, degrees))
        return below - probability

    if gap(0.0) <= 0.0:
        return 0.0
    top = degrees * max(ratio, 1.0)
    while gap(top) > 0.0:
        top *= 2.0
    return float(scipy.optimize.brentq(gap, 0.0, top, xtol=1e-6 * top))
