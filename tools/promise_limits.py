"""Limits that are promised with 95 % confidence, and whether new rows keep them.

A correlation is that of a regression, ``at(max_correlation=, confidence=0.95)``; a gap of selection rates is
that of a classifier of y above its median, chosen by ``select`` on the out-of-fold path, which goes past
fairness 1, where gaps of decisions close. One fit and one path serve both limits. Models have 300 components
(the default takes up to 1,000), which makes a draw 2 to 7 times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fairspan import FairRidge, FairRidgeClassifier, datasets
from fairspan.estimators.dial_predictor import score_rows
from fairspan.estimators.path import fairness_path
from tools.promise_populations import (
    Draw,
    Maker,
    many_columns,
    people,
    planted,
    splits,
    three_attributes,
)

LIMITS = (0.05, 0.1)
CORRELATION, GAP = "correlation", "demographic_parity_difference"
COMPONENTS = 300
POINTS, MOST_FAIRNESS = 101, 1.25
SIZES = (500, 2000, 8000)

Found = dict[str, dict[str, float]]  # columns of the rows of one draw


def populations() -> Iterator[tuple[str, int, Callable[[int], Draw]]]:
    """Name, rows and draws of every planted population."""
    makers: dict[str, Maker] = {
        "people({n}, 0.3)": lambda m, rng: people(m, 0.3, rng),
        "people({n}, 0.3), three attributes": three_attributes,
        "people({n}, 0.3), 100 columns": many_columns,
        "people({n}, 0.05)": lambda m, rng: people(m, 0.05, rng),
    }
    for n in SIZES:
        for name, make in makers.items():
            # A small group needs more new rows, for its rate to be known as well.
            new_rows = 200_000 if "0.05" in name else 50_000
            yield name.format(n=n), n, planted(make, n, new_rows)


def tables() -> Iterator[tuple[str, Callable[[int], Draw], tuple[str, ...], dict[str, Any]]]:
    """Name, splits, metrics and parameters of every real table."""
    both, one = (CORRELATION, GAP), (CORRELATION,)
    compas = splits(datasets.fetch_compas, "race", "African-American")
    yield "COMPAS race, black against the rest", compas, both, {}
    yield "Adult sex", splits(datasets.fetch_adult, "sex"), both, {}
    yield "loans, black against the rest", splits(datasets.load_loans, "race", "black"), both, {}
    law = splits(datasets.fetch_law_school, "race1", "white", numeric=True)
    yield "law school, white against the rest", law, one, {}
    yield "NLSY79 gender", splits(datasets.fetch_nlsy79, "gender", numeric=True), one, {}
    crime = splits(datasets.fetch_communities_crime, "racepctblack", numeric=True)
    yield "Communities, share of black people", crime, one, {"dependence": "correlation"}


def row_names(name: str, metrics: tuple[str, ...] = (CORRELATION, GAP)) -> list[str]:
    """Rows of the table that one draw of a population fills."""
    return [f"{name}, {metric} <= {limit:g}" for metric in metrics for limit in LIMITS]


def planted_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """Both metrics and limits on one draw of a population."""
    rows = draw(seed)
    return _correlations(name, rows, {}) | _choices(name, above_median(rows), (GAP,))


def above_median(rows: Draw) -> Draw:
    """The rows with classes: 1 for y above its median."""
    median = np.median(rows.y_new)
    y, y_new = ((values > median).astype(int) for values in (rows.y, rows.y_new))
    return Draw(rows.X, y, rows.s, rows.X_new, y_new, rows.s_new)


def real_draw(
    name: str,
    draw: Callable[[int], Draw],
    metrics: tuple[str, ...],
    params: dict[str, Any],
    seed: int,
) -> Found:
    """The limits on one split of a table; for classes both metrics, from one path."""
    rows = draw(seed)
    return _choices(name, rows, metrics) if GAP in metrics else _correlations(name, rows, params)


def _correlations(name: str, rows: Draw, params: dict[str, Any]) -> Found:
    model = FairRidge(random_state=0, n_components=COMPONENTS, **params)
    model.fit(rows.X, rows.y, sensitive_features=rows.s)
    scored, out = score_rows(model, model._read_new(rows.X_new)), {}
    for limit, label in zip(LIMITS, row_names(name, (CORRELATION,)), strict=True):
        chosen = model.at(max_correlation=limit, confidence=0.95)
        f, plain = (m.predict(scored) for m in (chosen, model.at(max_correlation=limit)))
        errors = [float(np.sqrt(np.mean((p - rows.y_new) ** 2))) for p in (f, plain)]
        met = chosen.certificate_.new_rows.high <= limit + 1e-8
        out[label] = _row(met, correlation(f, rows.s_new), limit, errors, f)
    return out


def _choices(name: str, rows: Draw, metrics: tuple[str, ...]) -> Found:
    model = FairRidgeClassifier(random_state=0, n_components=COMPONENTS)
    path = fairness_path(
        *(model, rows.X, rows.y),
        sensitive_features=rows.s,
        n_points=POINTS,
        max_fairness=MOST_FAIRNESS,
    )
    scored, out = score_rows(path.estimator, path.estimator._read_new(rows.X_new)), {}
    for metric in metrics:
        for limit, label in zip(LIMITS, row_names(name, (metric,)), strict=True):
            chosen = path.select(metric, at_most=limit)
            plain = path.select(metric, at_most=limit, confidence=None)
            decided = [m.predict(scored) for m in (chosen, plain)]
            errors = [float(np.mean(d != rows.y_new)) for d in decided]
            if metric == GAP:
                value = gap(decided[0] == rows.y_new.max(), rows.s_new)
            else:
                value = correlation(chosen.decision_function(scored), rows.s_new)
            out[label] = _row(chosen.selection_.met, value, limit, errors, decided[0])
    return out


def _row(
    met: bool, value: float, limit: float, errors: list[float], predicted: Any
) -> dict[str, float]:
    return {
        "promised": float(met),
        "promised_and_broken": float(met and value > limit),
        "value": value,
        "error": errors[0],
        "extra_error": errors[0] - errors[1],
        "constant": float(bool(np.all(predicted == predicted[0]))),
    }


def correlation(f: Any, s: Any) -> float:
    """Largest absolute correlation with a number or with two groups, over attributes."""
    columns = s.reshape(len(s), -1).T
    codes = [c if c.dtype.kind in "if" else (c == c[0]).astype(float) for c in columns]
    return max(abs(float(np.corrcoef(f, code)[0, 1])) for code in codes) if np.ptp(f) > 0.0 else 0.0


def gap(chosen: Any, s: Any) -> float:
    """Largest difference of rates between two groups, over attributes."""
    rates = [
        [float(chosen[c == group].mean()) for group in np.unique(c)]
        for c in s.reshape(len(s), -1).T
    ]
    return max(max(each) - min(each) for each in rates)
