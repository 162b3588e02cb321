"""Correlations of scores with protected attributes, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairspan.auditing.findings import Finding, Size, listed, summarise
from fairspan.auditing.reading import Audited, Protected
from fairspan.method.linalg import Array
from fairspan.metrics.groups import STRATA, TARGET, GroupSums
from fairspan.metrics.scores import standardize

__all__ = ["score_columns", "score_findings"]

# Variances are differences of sums of standardised squares; smaller ones are rounding.
_FLAT = 1e-12


def score_columns(data: Audited) -> dict[str, Array]:
    """Columns to sum for the correlations of every score with every attribute."""
    assert data.scores is not None
    f = standardize(data.scores, data.weight)
    out: dict[str, Array] = {}
    for j, column in enumerate(f.T):
        out[f"f{j}"], out[f"ff{j}"] = column, column**2
    for attribute in data.attributes:
        if attribute.values is None:
            continue
        s = standardize(attribute.values[:, None], data.weight)[:, 0]
        out[f"s {attribute.name}"], out[f"ss {attribute.name}"] = s, s**2
        for j, column in enumerate(f.T):
            out[f"f{j}s {attribute.name}"] = column * s
    return out


def score_findings(
    data: Audited, groupings: Sequence[Protected], sums: GroupSums, level: float, min_rows: int
) -> Iterator[Finding]:
    """Statistical parity, equal opportunity and equalized odds of scores; the correlation ratio."""
    for attribute in groupings:
        joint = sums.over(attribute.name, TARGET, STRATA)
        for where, some in data.in_strata(joint):
            large, note = _without_small(some, attribute, min_rows)
            yield from _in_rows(data, large, note, attribute, where, level)


def _without_small(sums: GroupSums, attribute: Protected, min_rows: int) -> tuple[GroupSums, str]:
    """Drop levels that are too small for a statement, with a note; numbers need no levels."""
    if attribute.values is not None:
        return sums, ""
    n = sums.effective(attribute.name, len(attribute.labels))
    small = [attribute.labels[h] for h in np.flatnonzero((n > 0.0) & (n < min_rows))]
    if not small:
        return sums, ""
    large = (n >= min_rows)[sums.factors[attribute.name]]
    return sums.where(large), f"without {listed(small)}: too few rows"


def _in_rows(
    data: Audited, sums: GroupSums, left_out: str, attribute: Protected, where: str, level: float
) -> Iterator[Finding]:
    assert data.scores is not None
    n, outputs = int(sums.rows.sum()), range(data.scores.shape[1])

    def finding(
        metric: str, parts: list[Array], size: Size = "largest", note: str = "", n_rows: int = n
    ) -> Finding:
        if not parts:
            note = note or left_out or f"{attribute.name} is constant in these rows"
            return Finding("scores", metric, attribute.name, where=where, n_rows=n_rows, note=note)
        joined = np.concatenate(parts)
        value, low, high = summarise(joined[:, 0], joined[:, 1:], size, level)
        note = "; ".join(filter(None, (left_out, note)))
        return Finding(
            "scores", metric, attribute.name, "", where, value, low, high, n_rows=n_rows, note=note
        )

    def correlations(cell: GroupSums) -> list[Array]:
        each = (_correlations(cell, attribute, j) for j in outputs)
        return [parts for parts in each if parts is not None]

    yield finding("statistical_parity_correlation", correlations(sums))
    ratios = [_ratio_parts(sums, attribute, j) for j in outputs]
    known = [parts for parts in ratios if parts is not None]
    if known:  # of several outputs, the one with the largest ratio
        known = [max(known, key=lambda parts: float((parts[:, 0] ** 2).sum()))]
    yield finding("correlation_ratio", known, "length")
    if data.target is None:
        return
    in_classes: list[Array] = []
    constant = []
    for code, label in enumerate(data.target.labels):
        cell = sums.where(sums.factors[TARGET] == code)
        n_cell = int(cell.rows.sum())
        parts = correlations(cell) if n_cell else []
        if n_cell and not parts:
            constant.append(label)
        in_classes += parts
        if code in data.positive:
            extra = "" if len(data.positive) == 1 else f" ({label})"
            yield finding(f"equal_opportunity_correlation{extra}", parts, n_rows=n_cell)
    note = f"{attribute.name} is constant where y is {', '.join(constant)}" if constant else ""
    yield finding("equalized_odds_correlation", in_classes, note=note)


def _moments(sums: GroupSums, j: int) -> tuple[Array, Array, Array]:
    """Total weight, mean and variance of a score, (1 + B,) each."""
    total = sums.columns[""].sum(axis=0)
    safe = np.where(total > 0.0, total, 1.0)
    mean = sums.columns[f"f{j}"].sum(axis=0) / safe
    return safe, mean, _variance(sums.columns[f"ff{j}"].sum(axis=0) / safe, mean)


def _variance(square: Array, mean: Array) -> Array:
    """``square - mean^2``, and 0 where that is rounding."""
    variance = square - mean**2
    return np.where(variance > _FLAT * np.maximum(1.0, mean**2), variance, 0.0)


def _quotient(a: Array, b: Array) -> Array:
    """``a / sqrt(b)``, and 0 where b is 0: the correlation of a constant."""
    positive = b > 0.0
    return np.where(positive, a / np.sqrt(np.where(positive, b, 1.0)), 0.0)


def _correlations(sums: GroupSums, attribute: Protected, j: int) -> Array | None:
    """Signed correlations with the number, or with each level: (k, 1 + B); None if S is constant."""
    total, mean, variance = _moments(sums, j)
    if attribute.values is not None:
        name = attribute.name
        s = sums.columns[f"s {name}"].sum(axis=0) / total
        spread = _variance(sums.columns[f"ss {name}"].sum(axis=0) / total, s)
        joint = sums.columns[f"f{j}s {name}"].sum(axis=0) / total - mean * s
        if spread[0] <= 0.0:
            return None
        return np.clip(_quotient(joint, spread * variance), -1.0, 1.0)[None]
    cov, share = _level_covariances(sums, attribute, j, total, mean)
    varies = (share[:, 0] > 0.0) & (share[:, 0] < 1.0 - 1e-14)
    if not varies.any():
        return None
    cov, share = cov[varies], share[varies]
    return np.clip(_quotient(cov, share * (1.0 - share) * variance), -1.0, 1.0)


def _ratio_parts(sums: GroupSums, attribute: Protected, j: int) -> Array | None:
    """``Cov(f, 1[h]) / sqrt(p_h Var f)``, whose length is the correlation ratio."""
    total, mean, variance = _moments(sums, j)
    cov, share = _level_covariances(sums, attribute, j, total, mean)
    if (share[:, 0] > 0.0).sum() < 2:
        return None
    return _quotient(cov, share * variance)


def _level_covariances(
    sums: GroupSums, attribute: Protected, j: int, total: Array, mean: Array
) -> tuple[Array, Array]:
    """``Cov(f, 1[h])`` and ``p_h`` of every level h."""
    name, n_levels = attribute.name, len(attribute.labels)
    share = sums.by(name, n_levels) / total
    return sums.by(name, n_levels, f"f{j}") / total - mean * share, share
