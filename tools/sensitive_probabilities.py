"""Groups known as probabilities: ``python -m tools.sensitive_probabilities COMMAND``.

The commands are probabilities, paths and check.

Populations have calibrated probabilities. *two groups*: p ~ Beta(.6, 1.4), s ~ Bernoulli(p), and x, y as in
people(n, .3) of `tools.promise_populations`. *three groups*: p ~ Dirichlet(2.4, 1.2, .4), the second and the
third group shift x by 1/2 in three coordinates each (one is shared). In *depends on p* x depends on p, given
s, and in *overconfident* the log odds of p are doubled before they are given.

Rows "fair end": correlation ratio of the score at fairness 1 with the true groups of 50,000 new rows, for
20,000 training rows, fitted with the true groups, with probabilities, and with the most likely group. Rows
"coverage": how often the intervals for the true groups, of the certificate at fairness 0, .5 and 1 and of
an audit at fairness 0 (gap of the rates of scores above the median), contain the truth. Settings were fixed
before the first run. "probabilities" writes benchmarks/results/sensitive_probabilities.csv, with the options
of `tools.promise_tables`; "check" compares the files with the limits.

"paths" writes sensitive_paths.csv: how often a limit of a path at fairness 0 is above the truth (lower limit)
or below it (upper limit), each with 95 % confidence, on 2,000 new rows for each draw and one linear model. In
*small group* p ~ Beta(.1, 1.9), and the features of the second group vary three times as much.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from fairspan import FairnessPath, FairRidge, FairRidgeClassifier, audit, metrics
from tools.promise_tables import RESULTS, Found, Part, main
from tools.table import Measurement, at_least, at_most, show

N_FAIR, N_NEW, COMPONENTS = 20_000, 50_000, 300
SIZES, SHARES, N_TRUTH = (1_000, 4_000), (0.0, 0.5, 1.0), 200_000
COVERAGE_DRAWS = 10  # for each draw of the fair end
BETA, SMALL, DIRICHLET = (0.6, 1.4), (0.1, 1.9), (2.4, 1.2, 0.4)
BROKEN = ("depends on p", "overconfident")
N_PATH, PATH_DRAWS, MISSED = 2_000, 600, 0.075  # 5 % and nearly three standard errors
PATHS = ("two groups", "three groups", "small group")
METRICS = {"gap": "demographic_parity_difference", "ratio": "correlation_ratio"}
NAMES = {"two groups": 2, "three groups": 3}
WAYS = ("true", "probabilities", "most likely")
# Noise of a correlation with one code that is 0, of these numbers of training and new rows.
NOISE = metrics.correlation_noise(N_NEW, N_FAIR)


def population(name: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """X, y, the true group, and the probabilities."""
    X = rng.normal(size=(n, 5))
    if name == "three groups":
        P = rng.dirichlet(DIRICHLET, n)
        s = (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(max=2)
        X[:, :3] += 0.5 * (s == 1)[:, None]
        X[:, 2:] += 0.5 * (s == 2)[:, None]
    else:
        p = rng.beta(*(SMALL if name == "small group" else BETA), n)
        s = (rng.random(n) < p).astype(int)
        if name == "small group":
            X *= np.where(s == 1, 3.0, 1.0)[:, None]
        X += 0.5 * s[:, None]
        if name == "depends on p":
            X[:, 0] += p
        if name == "overconfident":
            p = p**2 / (p**2 + (1.0 - p) ** 2)
        P = np.column_stack([1.0 - p, p])
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    return X, y, s, pd.DataFrame(P, columns=[f"group_{j}" for j in range(P.shape[1])])


def fair_end(name: str, seed: int) -> Found:
    """Dependence on the true groups and error at fairness 1, for three ways to give the groups."""
    rng = np.random.default_rng(seed)
    X, y, s, P = population(name, N_FAIR, rng)
    X_new, y_new, s_new, _ = population(name, N_NEW, rng)
    given = {"true": s, "probabilities": P, "most likely": P.to_numpy().argmax(axis=1)}
    out = {}
    for way, S in given.items():
        kind = "probabilities" if way == "probabilities" else "categorical"
        model = FairRidge(n_components=COMPONENTS, sensitive_kind=kind)
        f = model.fit(X, y, sensitive_features=S).predict(X_new)
        left = metrics.correlation_ratio(f, sensitive_features=s_new, sensitive_kind="categorical")
        out[way] = {"left": left, "error": float(np.mean((f - y_new) ** 2))}
    columns = {f"{what}, {way}": out[way][what] for way in WAYS for what in ("left", "error")}
    return {f"fair end, {name}": columns}


def summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means over draws, and paired differences of what is left with their standard errors."""
    out = {key: float(np.mean(values)) for key, values in columns.items()}
    own = columns["left, probabilities"]
    for way in ("true", "most likely"):
        more = own - columns[f"left, {way}"]
        out[f"more than {way}"] = float(more.mean())
        out[f"more than {way}, se"] = (
            float(more.std(ddof=1) / np.sqrt(len(more))) if len(more) > 1 else float("nan")
        )
    return out


def coverage(name: str, n: int, seed: int) -> Found:
    """Whether intervals contain the correlation and the gap of rates of the true groups."""
    rng = np.random.default_rng([seed, n])
    X, y, _, P = population(name, n, rng)
    X_new, _, s_new, _ = population(name, N_TRUTH, rng)
    model = FairRidge(n_components=COMPONENTS // 3, sensitive_kind="probabilities")
    model.fit(X, y, sensitive_features=P)
    out: dict[str, Any] = {}
    for share in SHARES:
        at = model.at(share)
        f = at.predict(X_new)
        true = metrics.correlation_ratio(f, sensitive_features=s_new, sensitive_kind="categorical")
        (block,) = at.certificate_.new_rows.blocks
        out[f"certificate at {share:g}"] = float(block.low <= true <= block.high)
        out[f"truth at {share:g}"] = true
        out[f"estimate at {share:g}"] = block.correlation
    (block,) = model.certificate_.blocks
    out["rows that tell as much"] = block.n_equivalent
    # Rows that the model has not seen, as an audit needs them.
    X_audit, _, _, P_audit = population(name, n, rng)
    free = model.at(0.0)
    scores, middle = free.predict(X_audit), float(np.median(free.predict(X_new)))
    found = audit(
        scores,
        decisions=(scores > middle).astype(int),
        sensitive_features=P_audit,
        sensitive_kind="probabilities",
        parts=["decisions"],
        n_boot=200,
        random_state=seed,
    )
    (gap,) = (f for f in found.findings if f.metric == "demographic_parity_difference")
    above = free.predict(X_new) > middle
    rates = [above[s_new == j].mean() for j in np.unique(s_new)]
    out["audit"] = float(gap.low <= max(rates) - min(rates) <= gap.high)
    return {f"coverage, {name}, n={n}": out}


@lru_cache
def fitted(name: str) -> tuple[FairRidgeClassifier, dict[str, float]]:
    """A model of a population at fairness 0, and what is true of it for the true groups."""
    rng = np.random.default_rng([len(PATHS), PATHS.index(name)])
    X, y, _, P = population(name, 2 * N_PATH, rng)
    model = FairRidgeClassifier(kernel="linear", sensitive_kind="probabilities", random_state=0)
    model.fit(X, (y > 1.0).astype(int), sensitive_features=P)
    X, _, s, _ = population(name, 2 * N_TRUTH, rng)
    free = model.at(0.0)
    decided = free.predict(X)
    rates = [decided[s == j].mean() for j in np.unique(s)]
    score = free.decision_function(X)
    ratio = metrics.correlation_ratio(score, sensitive_features=s, sensitive_kind="categorical")
    return model, {"gap": max(rates) - min(rates), "ratio": ratio}


def path_limits(name: str, seed: int) -> Found:
    """Whether limits on new rows are on the wrong side of the truth."""
    model, truth = fitted(name)
    X, y, _, P = population(name, N_PATH, np.random.default_rng([seed, N_PATH]))
    y = (y > 1.0).astype(int)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=P, n_points=2)
    # These are new rows, though the sketch of the training rows takes a table for known by chance.
    path.in_sample = False
    out = {}
    for key, metric in METRICS.items():
        bounds = path.bounds(metric, confidence=0.95)
        if not bounds.one_sided:
            raise RuntimeError("The confidence is not that of each limit.")
        out[f"{key}, too high"] = float(bounds.lower[0] > truth[key])
        out[f"{key}, too low"] = float(bounds.upper[0] < truth[key])
        out[f"{key}, truth"] = truth[key]
        out[f"{key}, width"] = float(bounds.upper[0] - bounds.lower[0])
    return {f"path, {name}, n={N_PATH}": out}


def paths(draws: int) -> Iterator[Part]:
    """Rows of the limits of paths."""
    for name in PATHS:
        yield Part(
            names=[f"path, {name}, n={N_PATH}"], measure=partial(path_limits, name), draws=draws
        )


def probabilities(draws: int) -> Iterator[Part]:
    """All rows of the table."""
    for name in NAMES:
        measure = partial(fair_end, name)
        yield Part(names=[f"fair end, {name}"], measure=measure, draws=draws, summary=summary)
    for name in (*NAMES, *BROKEN):
        for n in SIZES:
            yield Part(
                names=[f"coverage, {name}, n={n}"],
                measure=partial(coverage, name, n),
                draws=draws * COVERAGE_DRAWS,
            )


def check() -> Iterator[Measurement]:
    """Compare the tables with their limits."""
    rows = {}
    for table in ("probabilities", "paths"):
        with (RESULTS / f"sensitive_{table}.csv").open(newline="", encoding="utf-8") as file:
            rows |= {row["name"]: row for row in csv.DictReader(file)}
    for name in NAMES:
        row = {k: float(v) for k, v in rows[f"fair end, {name}"].items() if k.startswith("more")}
        title = f"left at fairness 1, {name}, more than with"
        # J groups have J - 1 codes, whose squared correlations add up.
        noise = NOISE * (NAMES[name] - 1) ** 0.5
        yield at_most(f"{title} the true groups", row["more than true"], round(noise, 4))
        spare = 2.0 * row["more than most likely, se"]
        yield at_most(f"{title} the most likely", row["more than most likely"], round(spare, 4))
    for name in NAMES:
        for n in SIZES:
            row = rows[f"coverage, {name}, n={n}"]
            for column in (*(f"certificate at {share:g}" for share in SHARES), "audit"):
                yield at_least(f"coverage, {name}, n={n}, {column}", float(row[column]), 0.93)
    for name in BROKEN:  # an assumption does not hold, and neither do the intervals
        row = rows[f"coverage, {name}, n={SIZES[-1]}"]
        found = float(row["certificate at 0"])
        title = f"coverage, {name}, n={SIZES[-1]}, certificate at 0"
        yield Measurement(title, found, "< 0.93", found < 0.93)
    for name in PATHS:
        title = f"path, {name}, n={N_PATH}"
        for column in (f"{key}, too {side}" for key in METRICS for side in ("high", "low")):
            yield at_most(f"{title}, {column}", float(rows[title][column]), MISSED)


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(show(check()))
    main(
        {"probabilities": probabilities, "paths": paths},
        {"probabilities": 20, "paths": PATH_DRAWS},
        "sensitive",
        __doc__,
        "tools.sensitive_probabilities",
    )
