"""Error and parity of scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array
from fairspan.metrics import (
    by_attribute,
    correlation_ratio,
    equal_opportunity_correlation,
    equalized_odds_correlation,
    ks_distance,
    statistical_parity_correlation,
)

__all__ = ["measure"]

# Slices of an attribute with many values, for its correlation ratio.
_SLICES = 10


def measure(
    scores: Array, y: Array, S: Mapping[str, Array], *, classifies: bool, random: bool = False
) -> dict[str, float | None]:
    """Error and every parity score of one model on some rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Numbers; for classes, above 0 decides for class 1.
    y : ndarray of shape (n,)
        Truth: numbers, or classes 0 and 1.
    S : mapping of str to ndarray
        Protected attributes. Those with two values are groups, the others numbers.
    classifies : bool
        Whether y is classes.
    random : bool, default=False
        The scores are probabilities with which a row is decided for class 1: rates and the error are
        then expectations over that draw, and correlations are those of the probability.

    Returns
    -------
    dict
        ``error``, ``dp``, ``eod``, ``ir`` (one less the impact ratio: the smaller selection rate over the
        larger one), ``ks``, and by attribute ``sp[a]``, ``ratio[a]`` (and for classes
        ``eop[a]``, ``eo[a]``). None where a score is not defined: differences of rates for numbers, or
        without an attribute that has two values.
    """
    if not np.isfinite(scores).all():
        msg = f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are not finite."
        raise ValueError(msg)
    groups = {name: s == s.max() for name, s in S.items() if len(np.unique(s)) == 2}
    kinds = {name: "categorical" if name in groups else "continuous" for name in S}
    found: dict[str, float | None] = dict.fromkeys(("dp", "eod", "ir", "ks"))
    if classifies:
        p = scores if random else (scores > 0.0).astype(np.float64)
        found["error"] = float(np.mean(np.where(y == 1, 1.0 - p, p)))
        if groups:
            found["dp"] = max(_gap(p, group) for group in groups.values())
            found["ir"] = max(_shortfall(p, group) for group in groups.values())
            found["eod"] = max(
                _gap(p[y == label], group[y == label])
                for group in groups.values()
                for label in (0, 1)
            )
    else:
        found["error"] = float(np.sqrt(np.mean((scores - y) ** 2)))
    if groups:
        both = {name: S[name] for name in groups}
        found["ks"] = ks_distance(scores, sensitive_features=both, sensitive_kind="categorical")
    each = {
        "sp": by_attribute(
            statistical_parity_correlation, scores, sensitive_features=S, sensitive_kind=kinds
        ),
        "ratio": by_attribute(
            correlation_ratio, scores, sensitive_features=S, sensitive_kind=kinds, n_bins=_SLICES
        ),
    }
    if classifies:
        for name, metric in (
            ("eop", equal_opportunity_correlation),
            ("eo", equalized_odds_correlation),
        ):
            each[name] = by_attribute(metric, y, scores, sensitive_features=S, sensitive_kind=kinds)
    for name, values in each.items():
        found |= {f"{name}[{attribute}]": value for attribute, value in values.items()}
    return found


def _gap(p: Array, group: NDArray[np.bool_]) -> float:
    """Difference between two groups in the rate of decisions for class 1."""
    return float(abs(p[group].mean() - p[~group].mean()))


def _shortfall(p: Array, group: NDArray[np.bool_]) -> float:
    """How far the ratio of the groups' rates is from 1; 0 if nobody is selected."""
    rates = float(p[group].mean()), float(p[~group].mean())
    return 1.0 - min(rates) / max(rates) if max(rates) > 0.0 else 0.0
