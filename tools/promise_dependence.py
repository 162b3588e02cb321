"""Dependence on S that is left on new rows at fairness 1, with both kinds of removal.

Errors are compared with those of today's path, which goes past fairness 1, at equal dependence, in two ways.
*At equal parity*: the dial value whose signed correlation on the new rows of a draw is that of the new model
on the same rows; no user could make this choice. *At equal mean parity*: one dial value for all draws of a
row of the table, at which the mean signed correlation is that of the new model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fairspan import FairRidge, FairRidgeClassifier, datasets
from fairspan.estimators.dial_predictor import move, score_rows
from tools.promise_populations import Draw, people, planted, splits, wide

TODAY, NEW = "training_rows", "new_rows"
# Dial values of today's path; on wide tables it needs 1.6 to 2.5 to be as fair to new rows.
DIAL = np.linspace(0.7, 3.0, 47)


def rows_of_dependence() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, draws and parameters of every row of the table."""
    black = "African-American"
    yield "COMPAS race, black against the rest", splits(datasets.fetch_compas, "race", black), {}
    yield "COMPAS sex", splits(datasets.fetch_compas, "sex"), {}
    yield "COMPAS six races", splits(datasets.fetch_compas, "race"), {}
    yield "loans, black against the rest", splits(datasets.load_loans, "race", "black"), {}
    yield "loans, three races", splits(datasets.load_loans, "race"), {}
    yield "Adult sex", splits(datasets.fetch_adult, "sex"), {}
    yield "NLSY79 gender", splits(datasets.fetch_nlsy79, "gender", numeric=True), {}
    law = splits(datasets.fetch_law_school, "race1", "white", numeric=True)
    yield "law school, white against the rest", law, {}
    crime = splits(datasets.fetch_communities_crime, "racepctblack", numeric=True)
    yield "Communities, share of black people", crime, {"dependence": "correlation"}
    for share in (0.05, 0.5):
        for n in (300, 1000, 3000):
            name = f"people({n}, {share:g})"
            yield name, planted(lambda m, rng, share=share: people(m, share, rng), n), {}
    yield "direct", planted(lambda m, rng: people(m, 0.5, rng, 0.5), 1000), {}
    for k in (0, 20, 50, 200):
        yield f"wide(1500, {k})", planted(lambda m, rng, k=k: wide(m, k, rng), 1500), {}
    odds = {"criterion": "equalized_odds"}
    yield "COMPAS race, equalized odds", splits(datasets.fetch_compas, "race", black), odds
    yield (
        "Adult sex, equal opportunity",
        splits(datasets.fetch_adult, "sex"),
        {"criterion": "equal_opportunity", "pos_label": ">50K"},
    )


def summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means over draws, with standard errors, and paired differences of errors."""
    out: dict[str, float] = {}
    for key, values in columns.items():
        if values.ndim > 1:  # along today's path
            continue
        out[key] = float(np.nanmean(values))
        if key.startswith(("correlation", "error")):
            out[f"{key}_se"] = float(np.nanstd(values, ddof=1) / np.sqrt(len(values)))
    paired = columns["error_new"] - columns["error_today_at_equal_parity"]
    out["paired"] = float(np.nanmean(paired))
    out["paired_se"] = float(np.nanstd(paired, ddof=1) / np.sqrt(len(paired)))
    return out | _at_equal_mean_parity(columns) | _at_equal_mean_error(columns)


def _at_equal_mean_parity(columns: dict[str, Any]) -> dict[str, float]:
    """Compare errors with today's path at one dial value for all draws.

    Values between those of the grid are interpolated. If the path has the mean correlation of the new model
    at several dial values, that of the least mean error is taken; if at none, the nearest one of the grid.
    """
    reached, errors = columns["path_correlation"], columns["path_error"]
    value = equal_parity_value(
        reached.mean(axis=0), errors.mean(axis=0), float(np.mean(columns["correlation_new"]))
    )
    at_value = [np.array([np.interp(value, DIAL, one) for one in v]) for v in (reached, errors)]
    paired = columns["error_new"] - at_value[1]
    return {
        "dial_today_at_equal_mean_parity": value,
        "correlation_today_at_equal_mean_parity": float(at_value[0].mean()),
        "error_today_at_equal_mean_parity": float(at_value[1].mean()),
        "paired_at_mean_parity": float(paired.mean()),
        "paired_at_mean_parity_se": float(paired.std(ddof=1) / np.sqrt(len(paired))),
    }


def _at_equal_mean_error(columns: dict[str, Any]) -> dict[str, float]:
    """Correlation of today's path at the dial value for all draws with the mean error of the new model.

    If several have it, the one of the least correlation is taken; if none, that of the nearest error.
    """
    reached, errors = columns["path_correlation"], columns["path_error"]
    least = np.abs(reached.mean(axis=0))
    value = equal_parity_value(errors.mean(axis=0), least, float(np.mean(columns["error_new"])))
    today = np.array([np.interp(value, DIAL, one) for one in reached])
    new = columns["correlation_new"]
    # Their mean is the difference of the absolute mean correlations.
    paired = np.sign(new.mean()) * new - np.sign(today.mean()) * today
    return {
        "correlation_today_at_equal_mean_error": float(today.mean()),
        "paired_correlation": float(paired.mean()),
        "paired_correlation_se": float(paired.std(ddof=1) / np.sqrt(len(paired))),
    }


def equal_parity_value(reached: Any, errors: Any, wanted: float) -> float:
    """Value of :data:`DIAL` at which the correlations ``reached`` have the value ``wanted``."""
    off = reached - wanted
    crossings = [
        DIAL[i] + (DIAL[i + 1] - DIAL[i]) * off[i] / (off[i] - off[i + 1])
        for i in range(len(DIAL) - 1)
        if off[i] != off[i + 1] and off[i] * off[i + 1] <= 0.0
    ]
    if not crossings:
        return float(DIAL[np.argmin(np.abs(off))])
    return float(min(crossings, key=lambda value: np.interp(value, DIAL, errors)))


def compare(draw: Draw, params: dict[str, Any]) -> dict[str, Any]:
    """Signed correlation and error on new rows at fairness 1, today's removal and the new one."""
    numeric = draw.y.dtype.kind == "f"
    kind = FairRidge if numeric else FairRidgeClassifier
    out: dict[str, Any] = {}
    new = kind(random_state=0, removal=NEW, **params).fit(draw.X, draw.y, sensitive_features=draw.s)
    old = kind(random_state=0, removal=TODAY, **params).fit(
        draw.X, draw.y, sensitive_features=draw.s
    )
    cells = _cells(draw, params)
    scored = {id(model): score_rows(model, model._read_new(draw.X_new)) for model in (new, old)}
    start = _correlation(_score(new.at(0.0), scored[id(new)]), draw.s_new, cells)
    sign = 1.0 if start >= 0.0 else -1.0
    values = {}
    for label, model in (("today", old), ("new", new)):
        rows = scored[id(model)]
        values[label] = sign * _correlation(_score(model, rows), draw.s_new, cells)
        out[f"correlation_{label}"] = values[label]
        out[f"error_{label}"] = _error(model, rows, draw.y_new)
    # Today's path, also past fairness 1, at the signed dependence that the new model reaches.
    path, rows = [move(old, fairness) for fairness in DIAL], scored[id(old)]
    reached = np.array([sign * _correlation(_score(m, rows), draw.s_new, cells) for m in path])
    errors = np.array([_error(m, rows, draw.y_new) for m in path])
    value = equal_parity_value(reached, errors, values["new"])
    out["correlation_today_at_equal_parity"] = float(np.interp(value, DIAL, reached))
    out["error_today_at_equal_parity"] = float(np.interp(value, DIAL, errors))
    out["path_correlation"], out["path_error"] = reached, errors
    out["left"] = float(len(new.certificate_.new_rows.directions_left()) > 0)
    return out


def _cells(draw: Draw, params: dict[str, Any]) -> list[Any]:
    """Masks of the cells of the criterion on the new rows."""
    if "criterion" not in params:
        return [np.ones(len(draw.y_new), dtype=bool)]
    labels = [params["pos_label"]] if "pos_label" in params else np.unique(draw.y_new)
    return [draw.y_new == label for label in labels]


def _score(model: Any, X: Any) -> Any:
    return model.predict(X) if isinstance(model, FairRidge) else model.decision_function(X)


def _correlation(f: Any, s: Any, cells: list[Any]) -> float:
    """Correlation with a number or two groups, the largest over cells.

    With q + 1 groups it is the multiple correlation, less the part q/n of its square that chance adds. A
    constant score has a correlation of 0.
    """
    found = []
    for inside in cells:
        g, t = f[inside], s[inside]
        if np.ptp(g) <= 1e-12 * np.abs(g).max():
            found.append(0.0)
            continue
        if t.dtype.kind == "f":
            found.append(float(np.corrcoef(g, t)[0, 1]))
            continue
        groups = np.unique(t)
        if len(groups) == 2:
            found.append(float(np.corrcoef(g, t == groups[0])[0, 1]))
            continue
        means = np.array([g[t == group].mean() for group in groups])
        shares = np.array([np.mean(t == group) for group in groups])
        square = shares @ (means - g.mean()) ** 2 / g.var() - (len(groups) - 1) / len(g)
        found.append(float(np.sign(square) * np.sqrt(np.abs(square))))
    return max(found, key=abs)


def _error(model: Any, X: Any, y: Any) -> float:
    if isinstance(model, FairRidge):
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    return float(np.mean(model.predict(X) != y))
