"""Our models against a rival, split by split, at the same limit or at equal parity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.frontier._price import (
    AWARE,
    BLIND,
    Choice,
    Curve,
    Row,
    Runs,
    choose,
    limits_of,
    mean_se,
    worst,
)

__all__ = ["draw", "paired", "paired_table", "partner"]

_OF_DECISIONS = ("dp", "eod", "ir")
# Gaps of rates: a draw between two models has at most the mean of theirs. A ratio does not.
_GAPS = ("dp", "eod")
# Rivals that limit only the covariance with an attribute of many values.
_BIND_CORRELATIONS = (
    *("hsic", "fair-pca", "ncfr", "ncfr-rff", "correlation-remover"),
    *("ktopt", "leace", "penalised-boosting", "penalised-network"),
)
# Model of decisions that later rivals are compared with.
_LATER = {
    "linear-post": "fairspan-rule-boosting",
    "linear-post-logistic": "fairspan-rule-logistic",
    "penalised-boosting": "fairspan-rule-boosting",
    "penalised-network": "fairspan-rule",
    "fairret": "fairspan-rule",
    "ktopt": "fairspan-rule",
    "leace": "fairspan-rule-logistic",
}
# Smallest number of splits for a useful standard error.
_FEWEST = 3
# Smaller differences of two errors are rounding.
_ROUNDING = 1e-12


def partner(rival: str, measure: str, *, many_valued: bool = False) -> str:
    """Name the model of ours that a rival is compared with: the one with the same prerequisites.

    Rivals differ in whether they use boosted trees, read S, or equalize decisions. For an attribute
    with many values, some limit its correlation only; our default limits the mean in every slice.
    """
    only_correlations = many_valued and rival in _BIND_CORRELATIONS
    if rival in _LATER:  # compared with today's defaults, on the same base learner
        return _LATER[rival] if measure in _OF_DECISIONS else "fairspan-auto"
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
    that exceeds it would win by being unfair: with fewer than three such splits the verdict is "not
    reached". `both_*` are over the splits on which ours kept it too. `reached_*` are over all splits,
    with both chosen at the limit or at the validation measure of the rival's choice, if that is larger:
    equal parity on validation rows. For decisions both are then a :func:`draw`. `ours_measure` and
    `rival_measure` are the measures of that comparison on test rows.
    """
    our_curves, rival_curves = runs.of(data, ours, criterion), runs.of(data, rival, criterion)
    splits = [split for split in our_curves if split in rival_curves]
    if not splits:
        return None
    met, both, everywhere, equal_met, measures = [], [], [], 0, []
    for split in splits:
        rival_choice = choose(rival_curves[split], measure, limit)
        our_choice = choose(our_curves[split], measure, limit)
        equal_limit = max(limit, rival_choice.measure)
        our_error, our_measure, kept = _at_parity(our_curves[split], measure, equal_limit)
        rival_error, rival_measure, _ = _at_parity(rival_curves[split], measure, equal_limit)
        if rival_choice.met:
            met.append(_difference(our_choice, rival_choice))
            if our_choice.met:
                both.append(met[-1])
        everywhere.append(_clean(our_error - rival_error))
        measures.append((our_measure, rival_measure))
        equal_met += kept
    mean, se = mean_se(met)
    both_mean, both_se = mean_se(both)
    reached, reached_se = mean_se(everywhere)
    ours_measure, theirs_measure = np.mean(measures, axis=0)
    return {
        "data": data,
        "criterion": criterion,
        "measure": measure,
        "limit": limit,
        "ours": ours,
        "rival": rival,
        "splits": len(splits),
        "met": len(met),
        "ours_met": len(both),
        "mean": mean,
        "se": se,
        "z": _z(mean, se),
        "verdict": _verdict(mean, se, len(met), "not reached"),
        "reached_mean": reached,
        "reached_se": reached_se,
        "reached_z": _z(reached, reached_se),
        "reached_verdict": _verdict(reached, reached_se, len(everywhere), "too few splits"),
        "reached_ours_met": equal_met,
        "both_mean": both_mean,
        "both_se": both_se,
        "both_z": _z(both_mean, both_se),
        "both_verdict": _verdict(both_mean, both_se, len(both), "too few splits"),
        "ours_measure": float(ours_measure),
        "rival_measure": float(theirs_measure),
    }


def _at_parity(curve: Curve, measure: str, limit: float) -> tuple[float, float, bool]:
    """Test error and measure at a limit, and whether it is kept on validation rows."""
    if measure in _GAPS:
        return draw(curve, measure, limit)
    choice = choose(curve, measure, limit)
    return float(choice.row["test_error"]), worst(choice.row, measure), choice.met


def _difference(ours: Choice, theirs: Choice) -> float:
    return _clean(float(ours.row["test_error"]) - float(theirs.row["test_error"]))


def _clean(gap: float) -> float:
    return gap if abs(gap) >= _ROUNDING else 0.0


def _z(mean: float, se: float) -> float:
    if mean == 0.0:
        return 0.0
    return mean / se if se != 0.0 else float(np.copysign(np.inf, mean))


def _verdict(mean: float, se: float, n: int, too_few: str) -> str:
    if n < _FEWEST:
        return too_few
    # The larger multiple first: a positive difference with zero spread exceeds both.
    for times in (2, 1):
        if mean > times * se:
            return f"worse > {times} SE"
    return "ok"


def paired_table(
    runs: Runs,
    data: str,
    criterion: str,
    measure: str,
    rivals: Sequence[str] = BLIND,
    limits: Sequence[float] | None = None,
) -> list[Row]:
    """Compare every rival with its partner among our models, at every limit."""
    limits = limits_of(measure) if limits is None else limits
    many_valued = bool(runs.of(data, "fairspan-correlation", criterion))  # else it is not run
    found = (
        paired(
            runs,
            data,
            criterion,
            measure,
            limit,
            partner(rival, measure, many_valued=many_valued),
            rival,
        )
        for rival in rivals
        for limit in limits
    )
    return [row for row in found if row is not None]


def draw(curve: Curve, measure: str, limit: float) -> tuple[float, float, bool]:
    """Test error and measure of the cheapest random draw between two models within the limit.

    Both models and the odds are chosen on validation rows. Rates of decisions are linear in the odds,
    so the gap of a draw is at most the weighted mean of the two gaps, which is returned. A draw uses
    the limit fully, where the values of a dial stay below it by part of a step. The third value is
    whether any single model keeps the limit.
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
