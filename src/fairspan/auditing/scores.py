"""Dependence of scores on protected attributes: the paper's correlations, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairspan.auditing.findings import Finding, summarise
from fairspan.auditing.reading import Audited, Protected
from fairspan.method.linalg import Array
from fairspan.metrics.groups import STRATA, TARGET, GroupSums
from fairspan.metrics.scores import standardize

__all__ = ["score_columns", "score_findings"]

# Variances are differences of sums of standardised squares; below this they are rounding.
_FLAT = 1e-12


def score_columns(data: Audited) -> dict[str, Array]:
    """What must be summed for the correlations of every score with every attribute."""
    assert data.scores is not None
    out: dict[str, Array] = {}
    f = standardize(data.scores, data.weight)
    for j in range(f.shape[1]):
        out[f"f{j}"], out[f"ff{j}"] = f[:, j], f[:, j] ** 2
    for one in data.attributes:
        if one.values is None:
            continue
        s = standardize(one.values[:, None], data.weight)[:, 0]
        out[f"s {one.name}"], out[f"ss {one.name}"] = s, s**2
        for j in range(f.shape[1]):
            out[f"f{j}s {one.name}"] = f[:, j] * s
    return out


def score_findings(
    data: Audited,
    groupings: Sequence[Protected],
    sums: GroupSums,
    level: float,
    min_rows: int,
) -> Iterator[Finding]:
    """Statistical parity, equal opportunity and equalized odds of scores; the correlation ratio."""
    for one in groupings:
        mine = sums.over(one.name, TARGET, STRATA)
        yield from _in_rows(data, *_large(mine, one, min_rows), one, "", level)
        if data.strata is None:
            continue
        for code, label in enumerate(data.strata.labels):
            some = mine.where(mine.factors[STRATA] == code)
            yield from _in_rows(data, *_large(some, one, min_rows), one, label, level)


def _large(sums: GroupSums, one: Protected, min_rows: int) -> tuple[GroupSums, str]:
    """Without levels too small for a statement, and what they are; a number needs no levels."""
    if one.values is not None:
        return sums, ""
    n = sums.effective(one.name, len(one.labels))
    small = [one.labels[h] for h in np.flatnonzero((n > 0.0) & (n < min_rows))]
    if not small:
        return sums, ""
    note = f"without {', '.join(small[:5])}{', ...' if len(small) > 5 else ''}: too few rows"
    return sums.where((n >= min_rows)[sums.factors[one.name]]), note


def _in_rows(
    data: Audited, sums: GroupSums, left_out: str, one: Protected, where: str, level: float
) -> Iterator[Finding]:
    assert data.scores is not None
    n, k = int(sums.rows.sum()), data.scores.shape[1]

    def finding(metric: str, found: list[Array], size: str, note: str, n_rows: int) -> Finding:
        if not found:
            note = note or left_out or f"{one.name} is constant in these rows"
            return Finding("scores", metric, one.name, where=where, n_rows=n_rows, note=note)
        parts = np.concatenate(found)
        note = "; ".join(filter(None, (left_out, note)))
        value, low, high = summarise(parts[:, 0], parts[:, 1:], size, level)  # type: ignore[arg-type]
        return Finding(
            "scores", metric, one.name, "", where, value, low, high, n_rows=n_rows, note=note
        )

    each = [_correlations(sums, one, j) for j in range(k)]
    found = [parts for parts in each if parts is not None]
    yield finding("statistical_parity_correlation", found, "largest", "", n)
    ratios = [_ratio_parts(sums, one, j) for j in range(k)]
    known = [parts for parts in ratios if parts is not None]
    # Over several outputs the longest counts.
    if known:
        known = [max(known, key=lambda parts: float((parts[:, 0] ** 2).sum()))]
    yield finding("correlation_ratio", known, "length", "", n)
    if data.target is None:
        return
    inside: list[Array] = []
    constant = []
    for code, label in enumerate(data.target.labels):
        cell = sums.where(sums.factors[TARGET] == code)
        rows = int(cell.rows.sum())
        each = [_correlations(cell, one, j) for j in range(k)] if rows else []
        parts = [p for p in each if p is not None]
        if rows and not parts:
            constant.append(label)
        inside += parts
        if code in data.positive:
            extra = "" if len(data.positive) == 1 else f" ({label})"
            yield finding(f"equal_opportunity_correlation{extra}", parts, "largest", "", rows)
    note = f"{one.name} is constant where y is {', '.join(constant)}" if constant else ""
    yield finding("equalized_odds_correlation", inside, "largest", note, n)


def _moments(sums: GroupSums, j: int) -> tuple[Array, Array, Array]:
    """Total weight, mean and variance of a score, (1 + B,) each."""
    total = sums.columns[""].sum(axis=0)
    safe = np.where(total > 0.0, total, 1.0)
    mean = sums.columns[f"f{j}"].sum(axis=0) / safe
    return safe, mean, _spread(sums.columns[f"ff{j}"].sum(axis=0) / safe, mean)


def _spread(square: Array, mean: Array) -> Array:
    """Variance, and 0 where it is rounding."""
    found = square - mean**2
    return np.where(found > _FLAT * np.maximum(1.0, mean**2), found, 0.0)


def _quotient(a: Array, b: Array) -> Array:
    """``a / sqrt(b)``, and 0 where b is rounding: a constant tells nothing."""
    alive = b > 0.0
    return np.where(alive, a / np.sqrt(np.where(alive, b, 1.0)), 0.0)


def _correlations(sums: GroupSums, one: Protected, j: int) -> Array | None:
    """Signed correlations with the number, or with each level: (k, 1 + B); None if S is constant."""
    total, mean, variance = _moments(sums, j)
    if one.values is not None:
        s = sums.columns[f"s {one.name}"].sum(axis=0) / total
        spread = _spread(sums.columns[f"ss {one.name}"].sum(axis=0) / total, s)
        joint = sums.columns[f"f{j}s {one.name}"].sum(axis=0) / total - mean * s
        return (
            None if spread[0] <= 0.0 else np.clip(_quotient(joint, spread * variance), -1, 1)[None]
        )
    cov, share = _level_covariances(sums, one, j, total, mean)
    alive = (share[:, 0] > 0.0) & (share[:, 0] < 1.0 - 1e-14)
    if not alive.any():
        return None
    cov, share = cov[alive], share[alive]
    return np.clip(_quotient(cov, share * (1.0 - share) * variance), -1.0, 1.0)


def _ratio_parts(sums: GroupSums, one: Protected, j: int) -> Array | None:
    """``Cov(f, 1[h]) / sqrt(p_h Var f)``, whose length is the correlation ratio."""
    total, mean, variance = _moments(sums, j)
    cov, share = _level_covariances(sums, one, j, total, mean)
    if (share[:, 0] > 0.0).sum() < 2:
        return None
    return _quotient(cov, share * variance)


def _level_covariances(
    sums: GroupSums, one: Protected, j: int, total: Array, mean: Array
) -> tuple[Array, Array]:
    n_levels = len(one.labels)
    share = sums.by(one.name, n_levels) / total
    return sums.by(one.name, n_levels, f"f{j}") / total - mean * share, share
