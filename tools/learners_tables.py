"""Tables about learners: ``python -m tools.learners_tables fair | time | refit | post``.

*fair*: error (0/1, or root mean squared for numbers) and signed dependence of the score on S on test rows, at
fairness 1 and 0, for the learners "auto", "boosting" and "kernel", and for the default kernel estimator with
the library's encoder. *time*: seconds of a fit with one thread, over those of plain boosting. *refit*: signed
dependence and error at fairness 1 with ``refit=True``, minus those of the averages over the folds, for
"boosting" and "auto". *post*: half of the training rows train histogram boosting, the other half correct it
as a frozen model. ``FairClassifier`` over the same learner, with the same predictors of S, learns from all
training rows, and from the second half alone. All settings are defaults. Options and files are those of
``tools.promise_tables``;
``make acceptance-learners`` compares the files with their limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairspan import (
    FairClassifier,
    FairPostprocessor,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
    datasets,
    table_encoder,
)
from tools.calibration import data_home
from tools.promise_populations import MOST_ROWS, Draw, people, planted, wide
from tools.promise_tables import Found, Part, main

DRAWS = {"fair": 10, "time": 3, "refit": 10, "post": 10}
REFITTED = ("boosting", "auto")
LEARNERS = ("auto", "boosting", "kernel")


def frames(
    fetch: Callable[..., Any], attribute: str, group: str | None = None, numeric: bool = False
) -> Callable[[int], Draw]:
    """Random splits of a table, X as a frame; S is one attribute, or one group of it against the rest."""

    def draw(seed: int) -> Draw:
        table = fetch(data_home=data_home()) if "loans" not in fetch.__name__ else fetch()
        y = table.target.to_numpy(dtype=float) if numeric else table.target.astype(str).to_numpy()
        s = np.asarray(table.sensitive_features[attribute])
        s = s if group is None else np.where(s == group, group, "others")
        strata = None if s.dtype.kind == "f" else s
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed, stratify=strata
        )
        train = train[:MOST_ROWS]
        return Draw(
            table.data.iloc[train], y[train], s[train], table.data.iloc[test], y[test], s[test]
        )

    return draw


def rows_of_fair() -> Iterator[tuple[str, Callable[[int], Draw]]]:
    """Name and draws of every table."""
    yield "Adult sex", frames(datasets.fetch_adult, "sex")
    yield "loans race", frames(datasets.load_loans, "race", "black")
    yield "wide(1500, 50)", planted(lambda n, rng: wide(n, 50, rng), 1500)
    yield "law school race", frames(datasets.fetch_law_school, "race1", "white", numeric=True)
    yield "COMPAS race", frames(datasets.fetch_compas, "race", "African-American")


def models(rows: Draw) -> Iterator[tuple[str, Any]]:
    """Fitted models by name."""
    numeric = np.asarray(rows.y).dtype.kind == "f"
    for name in LEARNERS:
        model = (FairRegressor if numeric else FairClassifier)(name, random_state=0)
        yield name, model.fit(rows.X, rows.y, sensitive_features=rows.s)
    kernel = (FairRidge if numeric else FairRidgeClassifier)(random_state=0)
    encoded = rows.X
    if hasattr(rows.X, "columns"):
        encoder = table_encoder(rows.X).fit(rows.X)
        encoded = encoder.transform(rows.X)
        fitted = kernel.fit(encoded, rows.y, sensitive_features=rows.s)
        yield "ridge", (encoder, fitted)
    else:
        yield "ridge", (None, kernel.fit(encoded, rows.y, sensitive_features=rows.s))


def measure(model: Any, rows: Draw, fairness: float) -> tuple[float, Any]:
    """Error on new rows, and the score."""
    X = rows.X_new
    if isinstance(model, tuple):
        encoder, model = model
        X = X if encoder is None else encoder.transform(X)
    model = model.at(fairness)
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
    """All learners on one split."""
    rows, out = draw(seed), {}
    for learner, model in models(rows):
        free_error, free = measure(model, rows, 0.0)
        error, score = measure(model, rows, 1.0)
        out[f"{name}, {learner}"] = {
            "error": error,
            "signed": dependence(score, free, rows.s_new),
            "free_error": free_error,
            "free_signed": dependence(free, free, rows.s_new),
        }
    return out


def summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means over draws, and standard errors of the plain kind."""
    out = {}
    for key, values in columns.items():
        out[key] = float(np.mean(values))
        out[f"{key}_se"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return out


def fair(draws: int) -> Iterator[Part]:
    """Error and dependence at both ends of the dial."""
    for name, draw in rows_of_fair():
        yield Part(
            names=[f"{name}, {learner}" for learner in (*LEARNERS, "ridge")],
            measure=partial(fair_draw, name, draw),
            draws=draws,
            summary=summary,
        )


def time_draw(seed: int) -> Found:
    """Seconds of a fit on Adult."""
    rows = frames(datasets.fetch_adult, "sex")(seed)
    plain = make_pipeline(table_encoder(rows.X), HistGradientBoostingClassifier(random_state=0))
    start = time.perf_counter()
    plain.fit(rows.X, rows.y)
    middle = time.perf_counter()
    FairClassifier(random_state=0).fit(rows.X, rows.y, sensitive_features=rows.s)
    end = time.perf_counter()
    return {"Adult sex": {"seconds": end - middle, "share": (end - middle) / (middle - start)}}


def seconds(draws: int) -> Iterator[Part]:
    """Time of a fit."""
    yield Part(names=["Adult sex"], measure=time_draw, draws=draws)


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
    for name, draw in list(rows_of_fair())[:2]:
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
