"""Tables about equal decisions: ``python -m tools.decisions_tables kept | price | loans | time``.

*kept*: limits on gaps and ratios of rates that ``at(max_gap= | min_ratio=, confidence=0.95)`` promises, and
whether new rows keep them. *price*: error and gap on test rows, beside those of the path of scores, which
goes past fairness 1, at the same achieved gap. *loans*: the gap between white and black applicants at
fairness 1. *time*: seconds of a path of 31 rules, and of the fit with equal scores. Options and files are
those of ``tools.promise_tables``; ``make acceptance-decisions`` compares the files with their limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from fairspan import FairnessPath, FairRidgeClassifier, datasets
from fairspan.estimators.decision_fit import N_LIMITS
from fairspan.estimators.dial_predictor import score_rows
from fairspan.method.decision_rule import gap_limits, rule_path
from tools.promise_limits import COMPONENTS, above_median, gap, populations
from tools.promise_populations import Draw, people, planted, splits
from tools.promise_tables import Found, Part, main

DRAWS = {"kept": 300, "price": 10, "loans": 20, "time": 5}
# Limits on the gap of rates, and on their ratio.
LIMITS = [("max_gap", 0.05), ("max_gap", 0.1), ("min_ratio", 0.8), ("min_ratio", 0.9)]
# Criterion and limit of the rows of prices.
PRICES = [
    ("statistical_parity", 0.02),
    ("statistical_parity", 0.05),
    ("equalized_odds", 0.05),
]
POINTS, MOST_FAIRNESS = 151, 1.5


def fitted(rows: Draw, **params: Any) -> Any:
    """Model of the training rows."""
    model = FairRidgeClassifier(**{"equalize": "decisions", "random_state": 0, **params})
    return model.fit(rows.X, rows.y, sensitive_features=rows.s)


def means(columns: dict[str, Any]) -> dict[str, float]:
    """Mean of every column over the draws where it is known."""
    known = {key: values[~np.isnan(values)] for key, values in columns.items()}
    return {key: float(v.mean()) if len(v) else float("nan") for key, v in known.items()}


# ------------------------------------------------------------------ limits that are kept


def limit_names(name: str) -> list[str]:
    """Rows of the table that one draw of a population fills."""
    words = {"max_gap": "gap <=", "min_ratio": "ratio >="}
    return [f"{name}, {words[kind]} {limit:g}" for kind, limit in LIMITS]


def ratio(chosen: Any, s: Any) -> float:
    """Smallest ratio of the rates of two groups, over attributes."""
    columns = s.reshape(len(s), -1).T
    rates = [[float(chosen[c == group].mean()) for group in np.unique(c)] for c in columns]
    return min(min(each) / max(max(each), 1e-12) for each in rates)


def kept_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """All limits on one draw of a population."""
    rows, out = above_median(draw(seed)), {}
    try:
        model = fitted(rows, n_components=COMPONENTS)
    except ValueError as error:
        if "at least 30 rows" not in str(error):
            raise
        unknown = dict.fromkeys(("value", "error", "extra_error"), float("nan"))
        nothing = {"promised": 0.0, "promised_and_broken": 0.0, **unknown}
        return dict.fromkeys(limit_names(name), nothing)
    scored = score_rows(model, model._read_new(rows.X_new))
    for (kind, limit), label in zip(LIMITS, limit_names(name), strict=True):
        chosen, plain = (model.at(**{kind: limit}, confidence=c) for c in (0.95, None))
        decided, otherwise = (np.asarray(m.predict(scored)) for m in (chosen, plain))
        value = (gap if kind == "max_gap" else ratio)(decided == 1, rows.s_new)
        promised = chosen.certificate_.decisions.kept
        broken = value > limit if kind == "max_gap" else value < limit
        error = float(np.mean(decided != rows.y_new))
        out[label] = {
            "promised": float(promised),
            "promised_and_broken": float(promised and broken),
            "value": value,
            "error": error,
            "extra_error": error - float(np.mean(otherwise != rows.y_new)),
        }
    return out


def kept(draws: int) -> Iterator[Part]:
    """Limits promised and kept; a third of the draws at 8,000 rows."""
    for name, n, draw in populations():
        yield Part(
            names=limit_names(name),
            measure=partial(kept_draw, name, draw),
            draws=draws if n < 8000 else max(draws // 3, 1),
            summary=means,
        )


# ------------------------------------------------------------------ what decisions cost


def real_tables() -> Iterator[tuple[str, Callable[[int], Draw]]]:
    """Name and splits of every table."""
    yield "Adult sex", splits(datasets.fetch_adult, "sex")
    yield "Adult sex and race", splits(datasets.fetch_adult, ["sex", "race"])
    compas = splits(datasets.fetch_compas, "race", "African-American")
    yield "COMPAS race, black against the rest", compas
    yield "loans, black against the rest", splits(datasets.load_loans, "race", "black")


def price_names(name: str) -> list[str]:
    """Rows of the table that one split fills."""
    return [f"{name}, {criterion} <= {limit:g}" for criterion, limit in PRICES]


def error_at(gaps: Any, errors: Any, wanted: float) -> float:
    """Error of a path where its gap first reaches the one wanted, between two points; NaN if nowhere."""
    reached = np.flatnonzero(gaps <= wanted)
    if not len(reached):
        return float("nan")
    i = int(reached[0])
    if i == 0:
        return float(errors[0])
    share = (gaps[i - 1] - wanted) / (gaps[i - 1] - gaps[i])
    return float(errors[i - 1] + share * (errors[i] - errors[i - 1]))


def price_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """Rules under all limits on one split, and the path of scores of the same fits."""
    rows, out = draw(seed), {}
    for criterion in dict.fromkeys(criterion for criterion, _ in PRICES):
        model = fitted(rows, criterion=criterion)
        path = FairnessPath.from_estimator(
            *(model.at(equalize="scores"), rows.X_new, rows.y_new),
            sensitive_features=rows.s_new,
            n_points=POINTS,
            max_fairness=MOST_FAIRNESS,
        )
        gaps = _worst_gap(path, criterion)
        free = float(np.mean(model.at(0.0).predict(rows.X_new) != rows.y_new))
        for limit in (limit for c, limit in PRICES if c == criterion):
            chosen = model.at(max_gap=limit)
            predicted = chosen.predict(rows.X_new)
            achieved = _gap_of(predicted, rows, criterion)
            error, scores = (
                float(np.mean(predicted != rows.y_new)),
                error_at(gaps, path.error, achieved),
            )
            out[f"{name}, {criterion} <= {limit:g}"] = {
                "error": error,
                "gap": achieved,
                "free_error": free,
                "score_error": scores,
                "score_reached": float(not np.isnan(scores)),
                "difference": error - scores,
            }
    return out


def _gap_of(predicted: Any, rows: Draw, criterion: str) -> float:
    """Gap of the rates of the larger label; for equalized odds, the larger one of both classes of y."""
    chosen = predicted == np.unique(rows.y_new)[-1]
    if criterion == "statistical_parity":
        return gap(chosen, rows.s_new)
    return max(
        gap(chosen[at], rows.s_new[at]) for at in (rows.y_new == k for k in np.unique(rows.y_new))
    )


def _worst_gap(path: FairnessPath, criterion: str) -> Any:
    """Largest gap of decisions over attributes along a path."""
    metric = {
        "statistical_parity": "demographic_parity_difference",
        "equalized_odds": "equalized_odds_difference",
    }[criterion]
    return np.max([path.curve(metric, name) for name in path.attributes], axis=0)


def price(draws: int) -> Iterator[Part]:
    """Error and gap on test rows."""
    for name, draw in real_tables():
        yield Part(
            names=price_names(name),
            measure=partial(price_draw, name, draw),
            draws=draws,
            summary=means,
        )


# ------------------------------------------------------------------ loans, time


def loans_draw(seed: int) -> Found:
    """Rates of white and black applicants at fairness 1 on one split."""
    rows = splits(datasets.load_loans, "race")(seed)
    predicted = fitted(rows).predict(rows.X_new)
    white, black = (float(np.mean(predicted[rows.s_new == g] == "1")) for g in ("white", "black"))
    error = float(np.mean(predicted != rows.y_new))
    return {"loans": {"gap": white - black, "white": white, "black": black, "error": error}}


def loans(draws: int) -> Iterator[Part]:
    """Loans at fairness 1."""
    yield Part(names=["loans"], measure=loans_draw, draws=draws)


def time_draw(seed: int) -> Found:
    """Seconds of the path of rules, and of the fit of scores."""
    rows = above_median(planted(lambda n, rng: people(n, 0.3, rng), 8000, 1000)(seed))
    start = time.perf_counter()
    fitted(rows, equalize="scores")
    fit = time.perf_counter() - start
    problem = fitted(rows)._fit_state.decisions.problem
    start = time.perf_counter()
    rule_path(problem, gap_limits(problem, N_LIMITS))
    path = time.perf_counter() - start
    return {"people(8000, 0.3)": {"fit": fit, "path": path, "share": path / fit}}


def times(draws: int) -> Iterator[Part]:
    """Time of a path."""
    yield Part(names=["people(8000, 0.3)"], measure=time_draw, draws=draws)


TABLES = {"kept": kept, "price": price, "loans": loans, "time": times}

if __name__ == "__main__":
    main(TABLES, DRAWS, "decisions", __doc__)
