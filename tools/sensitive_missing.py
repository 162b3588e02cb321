"""S known for some rows: ``python -m tools.sensitive_missing missing`` and ``... level``.

*missing* compares, at fairness 1, a fit on all rows (S left out where it is missing) with a fit on the rows
that have S, on splits of law school and Adult; and counts how often the intervals of the certificate cover
the correlation on new people of people(2000, .3). *level* counts how often the test of missingness rejects
where it should not, and where it should. Both write a table under benchmarks/results, as
``tools.promise_tables`` does and with its options, and print it against its limits.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fairspan import FairRidge, FairRidgeClassifier, datasets
from tools.promise_populations import Draw, people, planted, splits
from tools.promise_tables import RESULTS, Found, Part, Tables, main
from tools.table import Measurement, at_least, at_most, show

SHARES = (0.1, 0.3, 1.0)
DRAWS = {"missing": 20, "level": 300}
# Draws of planted rows per split of a real table.
_PLANTED = 10
# Rows, and shares of them that have S, for the test of missingness.
LEVEL_SHARES = (0.05, 0.1, 0.5, 0.9)
_LEVEL_ROWS, _COVER_ROWS = 1_000, 2_000


def tables() -> Iterator[tuple[str, Any]]:
    """Name and draws of the real tables."""
    law = partial(splits, datasets.fetch_law_school)
    yield "law school race", law("race1", "white", numeric=True)
    yield "law school gender", law("gender", numeric=True)
    yield "Adult sex", splits(datasets.fetch_adult, "sex")
    yield "Adult race", splits(datasets.fetch_adult, "race", "White")


def missing(draws: int) -> Iterator[Part]:
    """Comparisons with a fit on the rows that have S, and coverage."""
    for name, draw in tables():
        for share in SHARES:
            row = f"{name}, S for {100 * share:.0f} %"
            yield Part(
                names=[row],
                measure=partial(_compare, row, draw, share),
                draws=draws,
                summary=paired,
            )
    for share in SHARES:
        for fairness in (1.0, 0.5):
            row = f"coverage at fairness {fairness:g}, S for {100 * share:.0f} %"
            yield Part(
                names=[row],
                measure=partial(_covers, row, share, fairness),
                draws=_PLANTED * draws,
            )


def level(draws: int) -> Iterator[Part]:
    """Rejections at 1 % and 5 %."""
    for share in LEVEL_SHARES:
        for depends in (False, True):
            how = "depends on X" if depends else "at random"
            row = f"people({_LEVEL_ROWS}, .3), S for {100 * share:.0f} %, {how}"
            yield Part(names=[row], measure=partial(_rejects, row, share, depends), draws=draws)


TABLES: Tables = {"missing": missing, "level": level}


def _compare(name: str, draw: Any, share: float, seed: int) -> Found:
    """Test dependence and errors of both fits."""
    rows: Draw = draw(seed)
    rng = np.random.default_rng(1_000 + seed)
    known = rng.random(len(rows.y)) < share
    S = np.where(known, rows.s.astype(str).astype(object), None)
    kind = FairRidge if rows.y.dtype.kind == "f" else FairRidgeClassifier
    contrast = (rows.s_new == np.unique(rows.s_new)[0]).astype(float)
    out: dict[str, float] = {}
    for fit, used in (("ours", np.ones(len(S), dtype=bool)), ("only", known)):
        model = kind(missing_sensitive="omit", gamma="median", random_state=0)
        model.fit(rows.X[used], rows.y[used], sensitive_features={"s": S[used]})
        for fairness in (0.0, 1.0):
            at = model.at(fairness)
            error, score = _error_and_score(at, rows)
            out[f"error{fairness:.0f}_{fit}"] = error
            correlation = float(np.corrcoef(score, contrast)[0, 1]) if score.std() > 1e-9 else 0.0
            out[f"dependence{fairness:.0f}_{fit}"] = abs(correlation)
    return {name: out}


def _error_and_score(model: Any, rows: Draw) -> tuple[float, Any]:
    predicted = model.predict(rows.X_new)
    if rows.y.dtype.kind == "f":
        return float(np.sqrt(np.mean((predicted - rows.y_new) ** 2))), predicted
    return float(np.mean(predicted != rows.y_new)), model.decision_function(rows.X_new)


def paired(columns: dict[str, Any]) -> dict[str, float]:
    """Means over draws, paired differences (errors relative to that of the other fit), and prices."""
    out = {key: float(np.mean(values)) for key, values in columns.items()}
    relative = columns["error1_ours"] / columns["error1_only"] - 1.0
    gap = columns["dependence1_ours"] - columns["dependence1_only"]
    for name, values in (("error", relative), ("dependence", gap)):
        out[f"{name}_paired"] = float(values.mean())
        out[f"{name}_paired_se"] = (
            float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        )
    # Both prices are counted from the unconstrained model of all rows.
    for fit in ("ours", "only"):
        out[f"price_{fit}"] = out[f"error1_{fit}"] - out["error0_ours"]
    return out


def _covers(name: str, share: float, fairness: float, seed: int) -> Found:
    """Whether the interval of the signed correlation covers that of new people."""
    draw = planted(lambda n, rng: people(n, 0.3, rng), _COVER_ROWS)
    rows = draw(seed)
    known = np.random.default_rng(1_000 + seed).random(_COVER_ROWS) < share
    S = np.where(known, rows.s.astype(object), None)
    model = FairRidge(missing_sensitive="omit", gamma="median", random_state=0, fairness=fairness)
    model.fit(rows.X, rows.y, sensitive_features={"s": S})
    (block,) = model.certificate_.new_rows.blocks
    score = model.predict(rows.X_new)
    # A model that predicts the mean has no dependence.
    true = abs(float(np.corrcoef(score, rows.s_new)[0, 1])) if score.std() > 1e-9 else 0.0
    low, high = block.low, block.high
    return {name: {"covered": float(low <= true <= high), "width": high - low, "true": true}}


def _rejects(name: str, share: float, depends: bool, seed: int) -> Found:
    """Whether the test rejects."""
    rng = np.random.default_rng(seed)
    X, y, s = people(_LEVEL_ROWS, 0.3, rng)
    # A log odds that moves by .5 with a standard deviation of the second feature.
    odds = share / (1.0 - share) * np.exp(0.5 * X[:, 1] if depends else 0.0)
    known = rng.random(_LEVEL_ROWS) < odds / (1.0 + odds)
    S = np.where(known, s.astype(object), None)
    options = {"gamma": "median", "n_components": 150, "random_state": 0}
    model = FairRidge(missing_sensitive="omit", removal="training_rows", **options)
    model.fit(X, y, sensitive_features={"s": S})
    (found,) = model.certificate_.missing
    p = 1.0 if found.p_value is None else found.p_value
    return {name: {"rejected_01": float(p < 0.01), "rejected_05": float(p < 0.05)}}


def measurements(table: str, path: Any) -> Iterator[Measurement]:
    """The rows of a table against their limits."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    if table == "level":
        for name, row in rows.items():
            if name.endswith("at random"):
                for size in ("01", "05"):
                    limit = int(size) / 100
                    noise = 2.0 * np.sqrt(limit * (1.0 - limit) / int(row["draws"]))
                    rate = float(row[f"rejected_{size}"])
                    # Twice the level is the most that is tolerated, up to the noise of the draws.
                    yield at_most(f"{name}: rejected at {limit:g}", rate, 2.0 * limit + noise)
            else:
                yield Measurement(f"{name}: rejected at 0.01", float(row["rejected_01"]), "-", True)
        return
    cells = {name: row for name, row in rows.items() if row.get("error_paired")}
    cells = {name: row for name, row in cells.items() if not name.endswith("100 %")}
    for what in ("dependence", "error"):
        means = np.array([float(row[f"{what}_paired"]) for row in cells.values()])
        errors = np.array([float(row[f"{what}_paired_se"]) for row in cells.values()])
        se = float(np.sqrt((errors**2).sum()) / len(errors))
        yield at_most(f"mean paired difference of {what}, in SE", float(means.mean() / se), 1.0)
        for name, mean, error in zip(cells, means, errors, strict=True):
            yield at_most(f"{name}: {what}, paired, in SE", float(mean / max(error, 1e-12)), 2.0)
    for name, row in cells.items():
        ratio = float(row["price_ours"]) / float(row["price_only"])
        yield Measurement(f"{name}: price, ours / rows with S only", ratio, "-", True)
    for name, row in rows.items():
        if name.startswith("coverage"):
            yield at_least(name, float(row["covered"]), 0.93)


if __name__ == "__main__":
    main(TABLES, DRAWS, "sensitive", __doc__, "tools.sensitive_missing")
    chosen = sys.argv[1]
    out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
    path = RESULTS / f"sensitive_{chosen}.csv"
    sys.exit(show(measurements(chosen, path if out is None else type(path)(out))))
