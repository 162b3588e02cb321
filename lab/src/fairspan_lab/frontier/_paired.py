"""Ours against a rival, split by split, at the same limit or at equal parity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.frontier._price import (
    AWARE,
    BLIND,
    LIMITS,
    Choice,
    Curve,
    Row,
    Runs,
    choose,
    mean_se,
    worst,
)

__all__ = ["draw", "paired", "paired_table", "partner"]

_OF_DECISIONS = ("dp", "eod")
# Rivals that know of an attribute with many values its covariance alone.
_BIND_CORRELATIONS = ("hsic", "fair-pca", "ncfr", "ncfr-rff", "correlation-remover")
# Fewer splits than this have no standard error worth the name.
_FEWEST = 3
# Below this, two errors are the same number computed in another order.
_DUST = 1e-12


def partner(rival: str, measure: str, *, many_valued: bool = False) -> str:
    """Which of our models a rival is compared with: the one built on the same ground.

    That is the boosted trees, the reading of S, the parity of decisions; and where an attribute has many
    values, whether its correlation is bound or, as by default, the mean in every slice of it.
    """
    only_correlations = many_valued and rival in _BIND_CORRELATIONS
    if rival in AWARE:
        return "fairspan-aware-correlation" if only_correlations else "fairspan-aware"
    if rival in ("boosting", "eg-boosting"):
        return "fairspan-leaves"
    if measure in _OF_DECISIONS:
        return "fairspan-decisions"
    return "fairspan-correlation" if only_correlations else "fairspan"


def paired(
    runs: Runs, data: str, criterion: str, measure: str, limit: float, ours: str, rival: str
) -> Row | None:
    """Test error of ours less the rival's, split by split; None where they share no split.

    `mean` and `se` are over the splits on which the rival kept the limit on validation rows. A rival
    that cannot would win by not being fair: with fewer than three such splits the verdict is "not
    reached". `both_*` are over the splits on which ours kept it too. `reached_*` are over all splits,
    with both chosen at the limit or at the validation measure of the rival's choice, if that is larger:
    equal parity on validation rows, whatever was reached. For decisions both are then a :func:`draw`.
    `ours_measure` and `rival_measure` are what that comes to on test rows.
    """
    mine, theirs = runs.of(data, ours, criterion), runs.of(data, rival, criterion)
    splits = [split for split in mine if split in theirs]
    if not splits:
        return None
    met, both, everywhere, equal_met, measures = [], [], [], 0, []
    for split in splits:
        their = choose(theirs[split], measure, limit)
        own = choose(mine[split], measure, limit)
        limit_here = max(limit, their.measure)
        equal, own_measure, kept = _at_parity(mine[split], measure, limit_here)
        rival_error, rival_measure, _ = _at_parity(theirs[split], measure, limit_here)
        if their.met:
            met.append(_difference(own, their))
            if own.met:
                both.append(met[-1])
        everywhere.append(_clean(equal - rival_error))
        measures.append((own_measure, rival_measure))
        equal_met += kept
    mean, se = mean_se(met)
    both_mean, both_se = mean_se(both)
    reached, reached_se = mean_se(everywhere)
    ours_measure, theirs_measure = np.mean(measures, axis=0)
    return {
        "data": data, "criterion": criterion, "measure": measure, "limit": limit, "ours": ours,
        "rival": rival, "splits": len(splits), "met": len(met), "ours_met": len(both),
        "mean": mean, "se": se, "z": _z(mean, se),
        "verdict": _verdict(mean, se, len(met), "not reached"),
        "reached_mean": reached, "reached_se": reached_se, "reached_z": _z(reached, reached_se),
        "reached_verdict": _verdict(reached, reached_se, len(everywhere), "too few splits"),
        "reached_ours_met": equal_met,
        "both_mean": both_mean, "both_se": both_se, "both_z": _z(both_mean, both_se),
        "both_verdict": _verdict(both_mean, both_se, len(both), "too few splits"),
        "ours_measure": float(ours_measure), "rival_measure": float(theirs_measure),
    }  # fmt: skip


def _at_parity(curve: Curve, measure: str, limit: float) -> tuple[float, float, bool]:
    """Test error and measure at a limit, and whether it is kept on validation rows."""
    if measure in _OF_DECISIONS:
        return draw(curve, measure, limit)
    found = choose(curve, measure, limit)
    return float(found.row["test_error"]), worst(found.row, measure), found.met


def _difference(ours: Choice, theirs: Choice) -> float:
    return _clean(float(ours.row["test_error"]) - float(theirs.row["test_error"]))


def _clean(gap: float) -> float:
    return gap if abs(gap) >= _DUST else 0.0


def _z(mean: float, se: float) -> float:
    if mean == 0.0:
        return 0.0
    return mean / se if se != 0.0 else float(np.copysign(np.inf, mean))


def _verdict(mean: float, se: float, n: int, too_few: str) -> str:
    if n < _FEWEST:
        return too_few
    # One after the other, so that a difference without any spread counts in full.
    for times in (2, 1):
        if mean > times * se:
            return f"worse > {times} SE"
    return "ok"


def paired_table(
    runs: Runs, data: str, criterion: str, measure: str, rivals: Sequence[str] = BLIND,
    limits: Sequence[float] = LIMITS,
) -> list[Row]:  # fmt: skip
    """Every rival against its partner among ours, at every limit."""
    many_valued = bool(runs.of(data, "fairspan-correlation", criterion))  # else it is not run
    found = (
        paired(
            runs, data, criterion, measure, limit,
            partner(rival, measure, many_valued=many_valued), rival,
        )
        for rival in rivals for limit in limits
    )  # fmt: skip
    return [row for row in found if row is not None]


def draw(curve: Curve, measure: str, limit: float) -> tuple[float, float, bool]:
    """Test error and measure of the cheapest draw between two models that is just within the limit.

    Both models and the odds are chosen on validation rows. Rates of decisions are linear in the odds,
    so the gap of a draw is at most the mean of the two gaps, which is what is given. It meets any limit
    exactly, where the values of a dial stay below it by part of a step. Also whether any model keeps
    the limit.
    """

    def numbers(row: Row) -> Array:
        errors = float(row["validation_error"]), float(row["test_error"])
        return np.array([*errors, worst(row, measure)])

    points = [(worst(row, measure, "validation"), numbers(row)) for row in curve]
    best = choose(curve, measure, limit)
    found = numbers(best.row)
    for low, inside in points:
        for high, outside in points:
            if low <= limit < high:
                odds = (high - limit) / (high - low)
                mixed = odds * inside + (1.0 - odds) * outside
                found = mixed if mixed[0] < found[0] else found
    return float(found[1]), float(found[2]), best.met
