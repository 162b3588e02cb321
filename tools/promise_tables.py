"""Tables about new rows: ``python -m tools.promise_tables dependence | limits | intervals``.

Each command writes a CSV file under benchmarks/results; every row names the commit it was made with. Rows of
a later run replace those of the same name.
``make acceptance-promise`` compares the files with their limits. ``--only PATTERN``
makes some rows, ``--draws N`` fewer draws, ``--out`` writes elsewhere.

Populations: *people(n, share)*: s ~ Bernoulli(share), x = N(0, I_5) + s/2 in every coordinate,
y = sum of x + x_0 x_1 + N(0, 1). *wide(n, k)*: s ~ Bernoulli(1/2), a = N(0, 1) + s/2, b = N(0, 1),
y = 1[a + b + N(0, 1) > 1/4], X = [a, b, k columns of noise]. *direct*: people with s/2 added to y.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from fairspan import FairGPRegressor, FairRidge, FairRidgeClassifier, datasets, table_encoder
from fairspan.estimators.dial_predictor import move, score_rows
from fairspan.estimators.path import fairness_path
from tools.calibration import data_home
from tools.table import ROOT

RESULTS = ROOT / "benchmarks" / "results"
TODAY, NEW = "training_rows", "new_rows"
# Training rows of a split of a large table.
MOST_ROWS = 5_600
NEW_ROWS = 50_000


@dataclass(frozen=True)
class Draw:
    """Training rows and new rows of one draw or split."""

    X: Any
    y: Any
    s: Any
    X_new: Any
    y_new: Any
    s_new: Any  # the contrast that a signed correlation is about, or the groups


def people(n: int, share: float, rng: np.random.Generator, direct: float = 0.0) -> tuple[Any, ...]:
    """Rows of the population people, or direct."""
    s = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s[:, None]
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n) + direct * s, s


def wide(n: int, k: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """Rows of the population wide."""
    s = (rng.random(n) < 0.5).astype(int)
    a, b = rng.normal(size=n) + 0.5 * s, rng.normal(size=n)
    y = np.where(a + b + rng.normal(size=n) > 0.25, "yes", "no")
    X = np.column_stack([a, b, rng.normal(size=(n, k))])
    return (X - X.mean(axis=0)) / X.std(axis=0), y, s


def planted(make: Callable[[int, np.random.Generator], tuple[Any, ...]], n: int) -> Any:
    """Draws of a population."""

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng(seed)
        return Draw(*make(n, rng), *make(NEW_ROWS, np.random.default_rng(10_000 + seed)))

    return draw


def splits(
    fetch: Callable[..., Any], attribute: str, group: str | None = None, numeric: bool = False
) -> Any:
    """Random splits of a table; S is one attribute, or one group of it against the rest."""

    def draw(seed: int) -> Draw:
        table = fetch(data_home=data_home()) if "loans" not in fetch.__name__ else fetch()
        y = table.target.to_numpy(dtype=float) if numeric else table.target.astype(str).to_numpy()
        s = np.asarray(table.sensitive_features[attribute])
        s = s if group is None else np.where(s == group, group, "others")
        strata = None if s.dtype.kind == "f" else s
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed, stratify=strata
        )
        if len(train) > MOST_ROWS:
            train = train[:MOST_ROWS]
        encoder = table_encoder(table.data).fit(table.data.iloc[train])
        X, Z = (encoder.transform(table.data.iloc[rows]) for rows in (train, test))
        return Draw(X, y[train], s[train], Z, y[test], s[test])

    return draw


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


def dependence(draws: int, only: str) -> Iterator[dict[str, Any]]:
    """Signed correlation and error on new rows at fairness 1, today's removal and the new one."""
    for name, draw, params in rows_of_dependence():
        if not re.search(only, name):
            continue
        found = [_compare(draw(seed), params) for seed in range(draws)]
        columns = {key: np.array([one[key] for one in found]) for key in found[0]}
        out: dict[str, Any] = {"name": name, "draws": draws}
        for key, values in columns.items():
            out[key] = float(np.nanmean(values))
            if key.startswith(("correlation", "error")):
                out[f"{key}_se"] = float(np.nanstd(values, ddof=1) / np.sqrt(len(values)))
        paired = columns["error_new"] - columns["error_today_at_equal_parity"]
        out["paired"] = float(np.nanmean(paired))
        out["paired_se"] = float(np.nanstd(paired, ddof=1) / np.sqrt(len(paired)))
        yield out


def _compare(draw: Draw, params: dict[str, Any]) -> dict[str, float]:
    numeric = draw.y.dtype.kind == "f"
    kind = FairRidge if numeric else FairRidgeClassifier
    out = {}
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
    path, rows = [move(old, fairness) for fairness in np.linspace(0.7, 1.7, 21)], scored[id(old)]
    reached = [sign * _correlation(_score(m, rows), draw.s_new, cells) for m in path]
    errors = [_error(m, rows, draw.y_new) for m in path]
    nearest = int(np.argmin(np.abs(np.array(reached) - values["new"])))
    out["error_today_at_equal_parity"] = errors[nearest]
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

    With q + 1 groups it is the multiple correlation, less the part q/n of its square that chance adds.
    """
    found = []
    for inside in cells:
        g, t = f[inside], s[inside]
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


def limits(draws: int, only: str) -> Iterator[dict[str, Any]]:
    """Limits asked for, promised and kept on new rows."""
    for n in (500, 2000, 8000):
        for limit in (0.05, 0.1):
            for metric in ("correlation", "demographic_parity_difference"):
                name = f"people({n}, 0.3), {metric} <= {limit:g}"
                if not re.search(only, name):
                    continue
                found = [
                    _promise(n, limit, metric, seed)
                    for seed in range(draws if n < 8000 else max(draws // 3, 1))
                ]
                table = np.array(found, dtype=float)
                promised, kept = table[:, 0] == 1.0, table[:, 1] == 1.0
                yield {
                    "name": name,
                    "draws": len(table),
                    "promised": float(promised.mean()),
                    "promised_and_broken": float((promised & ~kept).mean()),
                    "extra_error": float(np.mean(table[:, 2])),
                }


def _promise(n: int, limit: float, metric: str, seed: int) -> tuple[bool, bool, float]:
    X, y, s = people(n, 0.3, np.random.default_rng(seed))
    Z, z, t = people(NEW_ROWS, 0.3, np.random.default_rng(10_000 + seed))
    threshold = 0.75  # about the median of y
    scores = metric == "correlation"
    model: Any = FairRidge(random_state=0) if scores else FairRidgeClassifier(random_state=0)
    target, truth = (y, z) if scores else ((y > threshold).astype(int), (z > threshold).astype(int))
    path = fairness_path(model, X, target, sensitive_features=s, n_points=51)
    chosen = path.select(metric, at_most=limit)
    plain = path.select(metric, at_most=limit, confidence=None)
    f = chosen.predict(Z)
    value = np.corrcoef(f, t)[0, 1] if scores else f[t == 1].mean() - f[t == 0].mean()

    def error(fitted: Any) -> float:
        p = fitted.predict(Z)
        return float(np.sqrt(np.mean((p - truth) ** 2)) if scores else np.mean(p != truth))

    return chosen.selection_.met, bool(abs(value) <= limit), error(chosen) - error(plain)


def intervals(draws: int, only: str) -> Iterator[dict[str, Any]]:
    """Coverage of 90 % intervals of the Gaussian process, and of conformal ones by group."""
    for n in (60, 120, 250, 500):
        for name in ("people", "heavy", "steps", "direct"):
            for fairness in (0.0, 1.0):
                label = f"{name}({n}), fairness {fairness:g}"
                if not re.search(only, label):
                    continue
                hits = []
                for seed in range(draws):
                    X, y, s = _noisy(name, n, np.random.default_rng(seed))
                    Z, z, _ = _noisy(name, 2000, np.random.default_rng(10_000 + seed))
                    model = FairGPRegressor(fairness=fairness, random_state=0)
                    mean, std = model.fit(X, y, sensitive_features=s).predict(Z, return_std=True)
                    hits.append(np.mean(np.abs(z - mean) <= 1.6449 * std))
                yield {"name": label, "draws": draws, "coverage": float(np.mean(hits))}
    if re.search(only, "conformal"):
        X, y, s = people(1000, 0.3, np.random.default_rng(0))
        model = FairRidge(random_state=0).fit(X, y, sensitive_features=s)
        by_group: dict[int, list[float]] = {0: [], 1: []}
        Z, z, t = people(20_000, 0.3, np.random.default_rng(1))
        for seed in range(200):
            rows = people(200, 0.3, np.random.default_rng(2 + seed))
            calibrated = model.conformalize(rows[0], rows[1], sensitive_features=rows[2])
            low, high = calibrated.predict_interval(Z, 0.9, sensitive_features=t).T
            for group, found in by_group.items():
                found.append(float(np.mean((low <= z)[t == group] & (z <= high)[t == group])))
        for group, found in by_group.items():
            name = f"conformal, group {group}"
            yield {"name": name, "draws": 200, "coverage": float(np.mean(found))}


def _noisy(name: str, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    X, y, s = people(n, 0.3, rng, 0.5 if name == "direct" else 0.0)
    if name == "heavy":
        y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.standard_t(3, size=n)
    if name == "steps":
        edges = 0.15 + 1.02 * np.array([-0.674, 0.0, 0.674])  # about the quartiles of x
        X = np.digitize(X, edges).astype(float)
    return X, y, s


TABLES = {"dependence": dependence, "limits": limits, "intervals": intervals}


def main() -> None:
    """Write a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    out = options.out or RESULTS / f"promise_{options.table}.csv"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    rows: dict[str, dict[str, Any]] = {}
    if out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            rows = {row["name"]: row for row in csv.DictReader(file)}
    for row in TABLES[options.table](options.draws, options.only):
        rows[row["name"]] = {**row, "commit": commit}
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()))
        sys.stdout.flush()
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=[*row, "commit"])
            writer.writeheader()
            writer.writerows(rows.values())


if __name__ == "__main__":
    main()
