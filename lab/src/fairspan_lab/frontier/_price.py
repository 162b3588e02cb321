"""The price of parity from the rows of the frontier benchmark.

A row is one model: data set, split, method, criterion, index on the dial, and its error and parity
measures on validation and test rows. Models are chosen on validation rows and evaluated on test rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "AWARE",
    "BLIND",
    "LIMITS",
    "OURS",
    "PROMISED",
    "SETS",
    "TABLES",
    "Choice",
    "Curve",
    "Row",
    "Runs",
    "attributes",
    "choose",
    "has_measure",
    "limits_of",
    "mean_se",
    "price_table",
    "worst",
]

Row = dict[str, Any]
Curve = Sequence[Row]

# In the order of tables and pictures.
SETS = (
    *("Adult", "COMPAS", "COMPAS (paper's columns)", "Communities", "NLSY79", "Law school"),
    *("Health", "Happiness"),
)
OURS = (
    "fairspan",
    "fairspan-correlation",
    "fairspan-limits",
    "fairspan-past",
    "fairspan-decisions",
    "fairspan-leaves",
    "fairspan-aware",
    "fairspan-aware-correlation",
    "fairspan-new-rows",
    "fairspan-auto",
    "fairspan-rule",
    "fairspan-rule-boosting",
    "fairspan-rule-logistic",
    "fairspan-promise",
    "fairspan-rule-promise",
)
# Models of ours that are chosen by a limit that is promised on the training rows: each dial value is one.
PROMISED = ("fairspan-promise", "fairspan-rule-promise")
# Rivals that predict from X alone, and those that read S as well.
BLIND = (
    *("fgp", "gp", "linear-ferm", "ferm", "hsic", "fair-pca"),
    *("boosting", "eg-logistic", "eg-psi", "eg-boosting"),
    *("linear-post", "linear-post-logistic", "penalised-boosting", "penalised-network", "fairret"),
    *("ktopt", "leace"),
)
AWARE = ("ncfr", "ncfr-rff", "laftr-gp", "threshold", "correlation-remover", "barycentre")
LIMITS = (0.02, 0.03, 0.05, 0.1)
# Limits on one less the impact ratio: 0.2 is the rule of four fifths.
_OWN_LIMITS = {"ir": (0.05, 0.1, 0.2)}
# Criterion that models are fitted for, and the measure with a limit; decisions first.
TABLES = (
    *(("sp", "dp"), ("eo", "eod"), ("sp", "ir")),
    *(("sp", "sp"), ("eop", "eop"), ("eo", "eo")),
)
_BY_ATTRIBUTE = ("sp", "eop", "eo", "ratio")


class Runs:
    """Rows by data set, method, criterion and split; each curve in the order of its dial."""

    def __init__(self, rows: Iterable[Row]) -> None:
        curves: dict[tuple[str, str, str], dict[int, list[Row]]] = {}
        for row in rows:
            key = (row["data"], row["method"], row["criterion"])
            curves.setdefault(key, {}).setdefault(row["split"], []).append(_with_worst(row))
        self._curves = {
            key: {k: sorted(splits[k], key=lambda row: int(row["index"])) for k in sorted(splits)}
            for key, splits in curves.items()
        }
        present = {data for data, _, _ in self._curves}
        self.sets = [s for s in SETS if s in present] + sorted(present.difference(SETS))

    def of(self, data: str, method: str, criterion: str) -> dict[int, list[Row]]:
        """Curves by split; a method that is not fitted by criterion has one for all criteria."""
        own = self._curves.get((data, method, criterion))
        return own if own is not None else self._curves.get((data, method, "none"), {})

    def methods(self, data: str, criterion: str) -> list[str]:
        """Methods that were run, in the order of the tables."""
        known = (*OURS, *BLIND, *AWARE)
        present = {m for d, m, c in self._curves if d == data and c in (criterion, "none")}
        return [m for m in known if m in present] + sorted(present.difference(known))

    def criteria(self, data: str) -> list[str]:
        """Criteria that some method was fitted for."""
        return [
            c for c in ("sp", "eop", "eo") if any((data, c) == (d, k) for d, _, k in self._curves)
        ]

    def unconstrained(self, data: str) -> dict[int, float]:
        """Reference error of all prices by split: that of fairspan at its first dial value.

        It is the same for all methods and criteria, so that differences of prices are differences of
        errors. Empty if fairspan was not run.
        """
        for criterion in ("sp", "eop", "eo"):
            if curves := self._curves.get((data, "fairspan", criterion)):
                return {split: float(curve[0]["test_error"]) for split, curve in curves.items()}
        return {}


@dataclass(frozen=True)
class Choice:
    """A chosen row of a curve, its measure on the rows of the choice, and whether it keeps the limit."""

    row: Row
    met: bool
    measure: float


def attributes(row: Row) -> list[str]:
    """Names of the protected attributes."""
    start = "test_sp["
    return [k[len(start) : -1] for k, v in row.items() if k.startswith(start) and v is not None]


def has_measure(row: Row, measure: str) -> bool:
    """Whether a row has this measure; some are for classes only."""
    return _with_worst(row).get(f"test_{measure}") is not None


def worst(row: Row, measure: str, part: str = "test") -> float:
    """A measure, the largest over the attributes."""
    key = f"{part}_{measure}"
    value = row[key] if key in row else _with_worst(row).get(key)
    # NaN is neither within a limit nor above it.
    if value is None or not math.isfinite(value):
        where = ", ".join(str(row[k]) for k in ("data", "split", "method", "criterion", "index"))
        msg = f"{part} {measure} is missing or not a number: {where}."
        raise ValueError(msg)
    return float(value)


def _with_worst(row: Row) -> Row:
    """Add the largest value over the attributes under `PART_MEASURE`, which is read often."""
    names, out = attributes(row), dict(row)
    for key in (f"{part}_{m}" for part in ("validation", "test") for m in _BY_ATTRIBUTE):
        values: list[Any] = [row.get(f"{key}[{name}]") for name in names]
        if values and None not in values:
            out[key] = float(np.max(values))  # NaN if one is
    return out


def choose(curve: Curve, measure: str, limit: float, *, part: str = "validation") -> Choice:
    """Choose the row of lowest error among those within the limit in every attribute.

    If there is none, choose the fairest. Ties go to the fairer row, then to the earlier dial value. A model
    that was promised for a limit is the one of this limit; without one, the one of the nearest below.

    Parameters
    ----------
    curve : sequence of rows
        One method on one split.
    measure : {"sp", "eop", "eo", "ratio", "dp", "eod"}
        Measure with the limit; measures by attribute count in the worst attribute.
    limit : float
        Largest value allowed.
    part : {"validation", "test"}, default="validation"
        Rows that error and measure are computed on. A choice on "test" is optimistic.
    """

    def error(pair: tuple[float, Row]) -> float:
        return float(pair[1][f"{part}_error"])

    pairs = [(worst(row, measure, part), row) for row in curve]
    if curve[0]["method"] in PROMISED:
        below = [pair for pair in pairs if pair[1]["value"] <= limit]
        value, row = max(below or pairs, key=lambda p: p[1]["value"] if below else -p[1]["value"])
        return Choice(row, value <= limit, value)
    within = [pair for pair in pairs if pair[0] <= limit]
    if within:
        value, row = min(within, key=lambda p: (error(p), p[0], p[1]["index"]))
    else:
        value, row = min(pairs, key=lambda p: (p[0], error(p), p[1]["index"]))
    return Choice(row, bool(within), value)


def mean_se(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error; NaN where there are too few values."""
    x = np.array(list(values), dtype=np.float64)
    mean = float(x.mean()) if len(x) else float("nan")
    return mean, float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("nan")


def limits_of(measure: str) -> tuple[float, ...]:
    """Limits of the tables of a measure."""
    return _OWN_LIMITS.get(measure, LIMITS)


def price_table(
    runs: Runs,
    data: str,
    criterion: str,
    measure: str,
    limits: Sequence[float] | None = None,
) -> list[Row]:
    """Error, price, test parity and number of splits within the limit, per limit and method.

    `price` is the error less the common unconstrained one; `own_price` is the error less that of the
    method's own least constrained model, its first dial value. `test_chosen_error` is the error if
    the model is chosen on the test rows: optimistic, for comparison only. `met` counts the splits on which
    the chosen model keeps the limit on validation rows, `kept` those on which it keeps it on test rows.
    """
    limits = limits_of(measure) if limits is None else limits
    free = runs.unconstrained(data)
    out = []
    for limit in limits:
        for method in runs.methods(data, criterion):
            curves = runs.of(data, method, criterion)
            chosen = {split: choose(curve, measure, limit) for split, curve in curves.items()}
            peeked = [choose(curve, measure, limit, part="test") for curve in curves.values()]
            error = {split: float(c.row["test_error"]) for split, c in chosen.items()}
            price, price_se = mean_se(error[k] - free.get(k, float("nan")) for k in error)
            own, own_se = mean_se(error[k] - float(curves[k][0]["test_error"]) for k in error)
            mean, se = mean_se(error.values())
            parity, parity_se = mean_se(worst(c.row, measure) for c in chosen.values())
            out.append(
                {
                    "data": data,
                    "criterion": criterion,
                    "measure": measure,
                    "limit": limit,
                    "method": method,
                    "splits": len(error),
                    "error": mean,
                    "error_se": se,
                    "price": price,
                    "price_se": price_se,
                    "own_price": own,
                    "own_price_se": own_se,
                    "test_measure": parity,
                    "test_measure_se": parity_se,
                    "met": sum(c.met for c in chosen.values()),
                    "kept": sum(worst(c.row, measure) <= limit for c in chosen.values()),
                    "test_chosen_error": mean_se(float(c.row["test_error"]) for c in peeked)[0],
                    "test_chosen_met": sum(c.met for c in peeked),
                }
            )
    return out
