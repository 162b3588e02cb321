"""What a limit on the correlation costs on real rows: the optimum, the dial, the RKHS dial."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.optimize

from tools.table import Measurement, at_least, at_most
from tools.technical_note._rows import Array, Moments, fitted_ridge, pair
from tools.technical_note.optimum import ridge_optimum

LIMITS = (0.0, 0.02, 0.05, 0.1, 0.2)


def on_line(m: Moments, metric: Array, limit: float) -> Array:
    """The fitted function of least angle closed with ``|Corr(f, S)| <= limit`` in a geometry."""
    p = pair(m.g, m.delta, metric)

    def function(fairness: float) -> Array:
        e = p.at((1.0 - fairness) * p.theta)
        return np.asarray(e * (e @ m.metric @ m.g) / (e @ m.metric @ e))

    if limit <= 0.0:
        return function(1.0)
    return function(
        scipy.optimize.brentq(lambda t: m.correlation(function(t)) - limit, 0.0, 1.0, xtol=1e-14)
    )


def excesses(m: Moments, limit: float) -> dict[str, float]:
    """Loss above that of g, in percent of the variance of y: optimum, both geometries."""
    functions = {
        "optimum": on_line(m, m.metric, 0.0) if limit == 0.0 else ridge_optimum(m, limit),
        "correlation": on_line(m, m.metric, limit),
        "rkhs": on_line(m, np.eye(len(m.g)), limit),
    }
    base = m.loss(m.g)
    return {name: 100.0 * (m.loss(w) - base) / float(m.y.var()) for name, w in functions.items()}


def table() -> list[str]:
    """What a limit on the correlation costs: the optimum, the dial, the RKHS dial."""
    _, m = fitted_ridge()
    lines = [
        "| limit on the correlation with sex | optimum | dial, correlation geometry | dial, RKHS "
        "geometry |",
        "|---|---|---|---|",
    ]
    for limit in LIMITS:
        x = excesses(m, limit)
        lines.append(
            f"| {limit:g} | {x['optimum']:.3f} | {x['correlation']:.3f} | {x['rkhs']:.3f} |"
        )
    return lines


def claims() -> Iterator[Measurement]:
    """With a ridge the dial is near the optimum; in the RKHS geometry it is not."""
    _, m = fitted_ridge()
    # At limit 0 the dial is the optimum by theorem 3, and so it is computed.
    found = [excesses(m, limit) for limit in LIMITS[1:]]
    over = [100.0 * (x["correlation"] / x["optimum"] - 1.0) for x in found]
    yield at_least("theorem 5: dial over optimum, least, percent", min(over), -1e-6)
    yield at_most("dial over optimum, most, percent", max(over), 1.0)
    rkhs = [100.0 * (x["rkhs"] / x["optimum"] - 1.0) for x in found]
    yield at_least("RKHS dial over optimum, least, percent", min(rkhs), 20.0)
    yield at_least("RKHS dial over optimum, most, percent", max(rkhs), 20.0)
