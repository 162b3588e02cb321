"""Tables about learners: ``python -m tools.learners_tables fair | time | refit | post``.

*fair*: error (0/1, or root mean squared for numbers) and signed dependence of the score on S on test rows, at
fairness 1 and 0, at limits on the expected correlation and on the gap of decisions, for "auto", its members,
and the default kernel estimator ("ridge"). "auto" is compared with the member that training folds would
choose, with plain boosting, and with boosting under fairlearn's reductions, if it is installed. Two tables
are read from ``FAIRSPAN_EXTRA_DATA``, as in ``tools.decisions_tables``. *time*: seconds of a fit with one
thread, over those of plain boosting, and over those of reductions for one limit. *refit*: signed
dependence and error at fairness 1 with ``refit=True``, minus those of the averages over the folds, for
"boosting" and "auto". *post*: half of the training rows train histogram boosting, the other half correct it
as a frozen model. ``FairClassifier`` over the same learner, with the same predictors of S, learns from all
training rows, and from the second half alone. All settings are defaults. Options and files are those of
``tools.promise_tables``;
``make acceptance-learners`` compares the files with their limits.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from fairspan import (
    FairClassifier,
    FairPostprocessor,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
    datasets,
    table_encoder,
)
from fairspan.encoding import column_kinds as table_kinds
from fairspan.estimators.dial_predictor import score_rows
from tools import decision_rivals
from tools.calibration import data_home
from tools.decisions_tables import EG_BOUNDS, EXTRA, error_at, extra_file, extra_table
from tools.promise_limits import gap
from tools.promise_populations import (
    MOST_ROWS,
    Draw,
    people,
    planted,
    sample_of_adult,
    wide,
)
from tools.promise_tables import Found, Part, main

DRAWS = {"fair": 10, "time": 3, "refit": 10, "post": 10}
REFITTED = ("boosting", "auto")
MEMBERS = ("boosting", "kernel", "linear")
LEARNERS = ("auto", *MEMBERS)
# Limits on the expected correlation, and on the gap of decisions.
LIMITS, GAPS = (0.03, 0.05, 0.1), (0.02, 0.05)


def frames(
    fetch: Callable[..., Any], attribute: str, group: str | None = None, numeric: bool = False
) -> Callable[[int], Draw]:
    """Random splits of a table, X as a frame.

    S is one attribute, one group of it against the rest, or a number cut at its median.
    """

    def draw(seed: int) -> Draw:
        table = fetch() if fetch is datasets.load_loans else fetch(data_home=data_home())
        y = table.target.to_numpy(dtype=float) if numeric else table.target.astype(str).to_numpy()
        s = np.asarray(table.sensitive_features[attribute])
        s = s if group is None else np.where(s == group, group, "others")
        if s.dtype.kind == "f":
            s = np.where(s > np.median(s), "above the median", "below")
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed, stratify=s
        )
        train = train[:MOST_ROWS]
        return Draw(
            table.data.iloc[train], y[train], s[train], table.data.iloc[test], y[test], s[test]
        )

    return draw


def rows_of_fair() -> Iterator[tuple[str, Callable[[int], Draw]]]:
    """Name and draws of every table."""
    yield "Adult sex", frames(datasets.fetch_adult, "sex")
    yield "Adult sex, sample", frames(sample_of_adult, "sex")
    yield "loans race", frames(datasets.load_loans, "race", "black")
    yield "wide(1500, 50)", planted(lambda n, rng: wide(n, 50, rng), 1500)
    yield "law school race", frames(datasets.fetch_law_school, "race1", "white", numeric=True)
    yield "COMPAS race", frames(datasets.fetch_compas, "race", "African-American")
    yield "NLSY79 gender", frames(datasets.fetch_nlsy79, "gender", numeric=True)
    crime = datasets.fetch_communities_crime
    yield "Communities race", frames(crime, "racepctblack", numeric=True)
    for name, files, y, s, left_out in EXTRA:
        if (path := extra_file(files)) is not None:
            numeric = name.startswith("admissions")
            fetch = partial(extra_table, path, y, s, left_out, numeric=numeric)
            yield name, frames(fetch, s, numeric=numeric)


def plain_boosting(X: Any) -> Any:
    """Histogram boosting with scikit-learn's settings; text columns are native categories."""
    text = [] if not hasattr(X, "columns") else table_kinds(X)[1]
    if not text:
        return HistGradientBoostingClassifier(random_state=0)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, max_categories=250)
    encoder = make_column_transformer((codes, text), remainder="passthrough")
    mask = np.arange(X.shape[1]) < len(text)
    return make_pipeline(
        encoder, HistGradientBoostingClassifier(categorical_features=mask, random_state=0)
    )


def models(rows: Draw) -> Iterator[tuple[str, Any]]:
    """Fitted models by name."""
    numeric = np.asarray(rows.y).dtype.kind == "f"
    for name in LEARNERS:
        model = (FairRegressor if numeric else FairClassifier)(name, random_state=0)
        yield name, model.fit(rows.X, rows.y, sensitive_features=rows.s)
    kernel = (FairRidge if numeric else FairRidgeClassifier)(random_state=0)
    yield "ridge", kernel.fit(rows.X, rows.y, sensitive_features=rows.s)


def measure(
    model: Any, rows: Draw, fairness: float | None = None, **limit: Any
) -> tuple[float, Any]:
    """Error on new rows, and the score, at a dial value or at a limit."""
    X, model = rows.X_new, model.at(fairness, **limit)
    if not hasattr(model, "classes_"):
        score = model.predict(X)
        return float(np.sqrt(np.mean((score - rows.y_new) ** 2))), score
    wrong = np.asarray(model.predict(X)) != rows.y_new
    return float(np.mean(wrong)), model.decision_function(X)


def dependence(score: Any, free: Any, s: Any) -> float:
    """Correlation with the groups along the contrast in which the unconstrained score differs."""
    labels, code = np.unique(s, return_inverse=True)
    count = np.bincount(code, minlength=len(labels))
    means = np.bincount(code, free, minlength=len(labels)) / count
    contrast = (means - free.mean())[code]
    if score.std() == 0.0 or contrast.std() == 0.0:
        return 0.0
    return float(np.corrcoef(score, contrast)[0, 1])


def fair_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """All learners on one split, and "auto" beside what it is compared with."""
    rows, out = draw(seed), {}
    classes = np.asarray(rows.y).dtype.kind != "f"
    for learner, model in models(rows):
        scored = replace(rows, X_new=score_rows(model, model._read_new(rows.X_new)))
        free_error, free = measure(model, scored, 0.0)
        error, score = measure(model, scored, 1.0)
        row = {
            "error": error,
            "signed": dependence(score, free, rows.s_new),
            "free_error": free_error,
            "free_signed": dependence(free, free, rows.s_new),
            "out_of_fold": float(model._solution.new_rows.error(1.0)),
            "free_out_of_fold": float(model._solution.new_rows.error(0.0)),
        }
        for limit in LIMITS:
            row[f"error_{limit:g}"] = measure(model, scored, max_correlation=limit)[0]
        if classes:
            model = model.at(equalize="decisions")
            X_new = score_rows(model, model._read_new(rows.X_new))
        for limit in GAPS:
            decided = model.at(max_gap=limit).predict(X_new) if classes else None
            row[f"rule_gap_{limit:g}"], row[f"rule_error_{limit:g}"] = _rates(decided, rows)
        out[f"{name}, {learner}"] = row
    _compare(out, name, rows, classes=classes)
    return out


def _rates(decided: Any, rows: Draw) -> tuple[float, float]:
    """Gap of the rates of the larger label, and error; NaN without decisions."""
    if decided is None:
        return float("nan"), float("nan")
    chosen = np.asarray(decided) == np.unique(rows.y_new)[-1]
    return gap(chosen, rows.s_new), float(np.mean(np.asarray(decided) != rows.y_new))


def _compare(out: Found, name: str, rows: Draw, *, classes: bool) -> None:
    """Add differences of "auto" from the member that training folds would choose, and from rivals.

    The member is that of the least out-of-fold squared error at the same end of the dial. Rivals of its
    unconstrained error are that member and plain boosting. Boosting under fairlearn's reductions is compared
    at the gap that "auto" reaches on new rows.
    """
    auto, members = out[f"{name}, auto"], [out[f"{name}, {member}"] for member in MEMBERS]
    fair, free = (
        min(members, key=lambda m, k=k: m[k]) for k in ("out_of_fold", "free_out_of_fold")
    )
    for key in ("error", *(f"error_{limit:g}" for limit in LIMITS)):
        auto[f"{key}_difference"] = auto[key] - fair[key]
    plain = float("nan")
    if classes:
        fitted = plain_boosting(rows.X).fit(rows.X, rows.y)
        decided = fitted.predict(rows.X_new)
        plain_gap, plain = _rates(decided, rows)
    auto["plain_error"] = plain
    auto["free_difference"] = auto["free_error"] - np.nanmin([free["free_error"], plain])
    for limit in GAPS:
        auto[f"eg_difference_{limit:g}"] = float("nan")
    if classes and importlib.util.find_spec("fairlearn") is not None:
        *steps, last = fitted.steps if hasattr(fitted, "steps") else [("", fitted)]
        X, X_new = rows.X, rows.X_new
        for _, step in steps:
            X, X_new = step.transform(X), step.transform(X_new)
        y = (rows.y == np.unique(rows.y)[-1]).astype(int)
        y_new = rows.y_new == np.unique(rows.y)[-1]
        points = [(plain_gap, plain)]
        for chance in decision_rivals.reductions(
            clone(last[1]), X, y, rows.s, X_new, "statistical_parity", EG_BOUNDS
        ):
            error = float(np.mean(np.where(y_new, 1.0 - chance, chance)))
            points.append((gap(chance, rows.s_new), error))
        gaps, errors = np.array(points).T
        for limit in GAPS:
            at_gap = error_at(gaps, errors, auto[f"rule_gap_{limit:g}"])
            auto[f"eg_difference_{limit:g}"] = auto[f"rule_error_{limit:g}"] - at_gap
    # All rows of a table have the same columns.
    for row in out.values():
        row.update({key: float("nan") for key in auto if key not in row})


def summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means over draws where they are known, and standard errors of the plain kind."""
    out = {}
    for key, values in columns.items():
        known = values[~np.isnan(values)]
        out[key] = float(np.mean(known)) if len(known) else float("nan")
        out[f"{key}_se"] = float("nan")
        if len(known) > 1:
            out[f"{key}_se"] = float(np.std(known, ddof=1) / np.sqrt(len(known)))
    return out


def fair(draws: int) -> Iterator[Part]:
    """Error and dependence at both ends of the dial, and at limits."""
    for name, draw in rows_of_fair():
        yield Part(
            names=[f"{name}, {learner}" for learner in (*LEARNERS, "ridge")],
            measure=partial(fair_draw, name, draw),
            draws=draws,
            summary=summary,
        )


def time_draw(seed: int) -> Found:
    """Seconds of a fit on 32,000 rows of Adult; reductions of plain boosting for one limit, if installed."""
    table = datasets.fetch_adult(data_home=data_home())
    rows = np.random.default_rng(seed).permutation(len(table.target))[:32_000]
    X, y = table.data.iloc[rows], table.target.astype(str).to_numpy()[rows]
    s = table.sensitive_features["sex"].to_numpy()[rows]
    plain, *_, start = plain_boosting(X), time.perf_counter()
    plain.fit(X, y)
    middle = time.perf_counter()
    FairClassifier(random_state=0).fit(X, y, sensitive_features=s)
    end = time.perf_counter()
    out = {"seconds": end - middle, "share": (end - middle) / (middle - start)}
    out["share_of_reductions"] = float("nan")
    if importlib.util.find_spec("fairlearn") is not None:
        Z, binary = plain[:-1].transform(X), (y == np.unique(y)[-1]).astype(int)
        start = time.perf_counter()
        list(
            decision_rivals.reductions(
                clone(plain[-1]), Z, binary, s, Z[:10], "statistical_parity", (0.02,)
            )
        )
        out["share_of_reductions"] = out["seconds"] / (time.perf_counter() - start)
    return {"Adult sex, 32,000 rows": out}


def seconds(draws: int) -> Iterator[Part]:
    """Time of a fit."""
    yield Part(names=["Adult sex, 32,000 rows"], measure=time_draw, draws=draws)


def post_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """A frozen model and its correction, and a fair model over the same learner, on one split."""
    rows = draw(seed)
    half = len(rows.y) // 2
    X, y, s = rows.X.iloc[half:], rows.y[half:], rows.s[half:]
    boosting = HistGradientBoostingClassifier(random_state=0)
    frozen = make_pipeline(table_encoder(rows.X), boosting).fit(rows.X.iloc[:half], rows.y[:half])
    post = FairPostprocessor(frozen, random_state=0).fit(X, y, sensitive_features=s)
    learner = FairClassifier(boosting, sensitive_estimator="auto", random_state=0)
    trained = clone(learner).fit(rows.X, rows.y, sensitive_features=rows.s)
    on_half = clone(learner).fit(X, y, sensitive_features=s)
    free = frozen.predict_proba(rows.X_new)[:, 1]
    out = {
        "frozen_error": float(np.mean(frozen.predict(rows.X_new) != rows.y_new)),
        "frozen_signed": dependence(free, free, rows.s_new),
    }
    for key, model in (("post", post), ("trained", trained), ("half", on_half)):
        error, score = measure(model, rows, 1.0)
        out[f"{key}_error"] = error
        out[f"{key}_signed"] = dependence(score, free, rows.s_new)
    out["difference"] = out["post_error"] - out["trained_error"]
    out["half_difference"] = out["post_error"] - out["half_error"]
    out["test_share"] = len(rows.y_new) / len(rows.y)
    return {name: out}


def post_summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means, plain standard errors, and corrected ones of the paired differences."""
    out = summary(columns)
    del out["test_share_se"]
    for key in ("difference", "half_difference"):
        sd, n = float(np.std(columns[key], ddof=1)), len(columns[key])
        out[f"{key}_corrected_se"] = sd * np.sqrt(1.0 / n + out["test_share"])
    return out


def post(draws: int) -> Iterator[Part]:
    """A frozen model that is corrected; the small table needs more splits for the same precision."""
    tables = dict(rows_of_fair())
    for name, draw in ((each, tables[each]) for each in ("Adult sex", "loans race")):
        yield Part(
            names=[name],
            measure=partial(post_draw, name, draw),
            draws=draws if name.startswith("Adult") else 3 * draws,
            summary=post_summary,
        )


def refit_draw(name: str, draw: Callable[[int], Draw], seed: int) -> Found:
    """Learners fitted on all rows, beside the averages over the folds, on one draw."""
    rows, out = draw(seed), {}
    kind = FairRegressor if np.asarray(rows.y).dtype.kind == "f" else FairClassifier
    for learner in REFITTED:
        found = []
        for refit in (False, True):
            model = kind(learner, refit=refit, random_state=0)
            model.fit(rows.X, rows.y, sensitive_features=rows.s)
            free_error, free = measure(model, rows, 0.0)
            error, score = measure(model, rows, 1.0)
            found.append([dependence(score, free, rows.s_new), error, free_error])
        average, again = found
        signed, error, free_error = np.subtract(again, average).tolist()
        out[f"{name}, {learner}"] = {
            "signed_more": signed,
            "error_more": error,
            "free_error_more": free_error,
            "signed": again[0],
        }
    return out


def refitted(draws: int) -> Iterator[Part]:
    """Over-correction of learners that are fitted on all rows."""
    populations = {
        "people(3000, .3)": planted(lambda n, rng: people(n, 0.3, rng), 3000),
        "wide(1500, 50)": planted(lambda n, rng: wide(n, 50, rng), 1500),
    }
    for name, draw in populations.items():
        yield Part(
            names=[f"{name}, {learner}" for learner in REFITTED],
            measure=partial(refit_draw, name, draw),
            draws=draws,
            summary=summary,
        )


if __name__ == "__main__":
    tables = {"fair": fair, "time": seconds, "refit": refitted, "post": post}
    main(tables, DRAWS, "learners", __doc__)
