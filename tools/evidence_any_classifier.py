"""Limits for any classifier of a score: ``python -m tools.evidence_any_classifier adult | planted``.

*adult* prints the accuracy of classifiers of the cells of our score whose gap of selection rates between
men and women, and that of every other classifier of the same cells, is certified to be at most .05, .10 or
.15. The protocol, for each of ten random divisions of the rows of Adult:

1. 5,600 rows train ``FairRidgeClassifier(n_components=300)``, once for equal scores and once for equal
   decisions. Half of the other rows certify, half test.
2. Cells: the decision (two cells, cut at 0), fourths and tenths. Fourths and tenths are cut at quantiles of
   1,000 certifying rows, which do not count afterwards. The rule for equal decisions has two cells only.
3. Dial values 1, .95, ..., 0 are tried in this order. The last one before the first whose upper limit
   (95 %, ``AnyClassifier.bound``) exceeds the wanted gap is taken. Nothing is promised if that at 1 does.
   Trying values in a fixed order needs no correction for their number.
4. The classifier of the cells predicts, in each cell, the more frequent class among the training and the
   certifying rows.
5. Test rows show its accuracy, its gap, and the gap of the worst set of cells: the set is found on one half
   of the test rows and its gap measured on the other half, both ways, so that the mean is not too large. A
   promise is broken if that gap exceeds the limit. With *thresholds* only sets above or below an edge count.

*planted* draws two or three groups from known distributions of cells. It counts how often the limits hold
and compares their size with those of three other valid limits: *hoeffding* replaces exact binomial chances
by Hoeffding's inequality; *each cell* adds up exact intervals of all cells, which hold together
(Bonferroni); *l1* adds the deviations of both groups (Weissman et al. 2003). Two more populations have
weights that go with the cell in one group; *kish* is the limit with Kish's effective number of rows alone.

Options are those of ``tools.promise_tables``; both tables are written under benchmarks/results.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fairspan import FairRidgeClassifier, audit, datasets, table_encoder
from fairspan.auditing.cell_bounds import Cells, upper_limit
from fairspan.auditing.small_groups import exact_interval
from tools.calibration import data_home
from tools.promise_populations import MOST_ROWS
from tools.promise_tables import RESULTS, Found, Part, Tables, main
from tools.table import Measurement, at_least, at_most, show

# The last one is a reference: the unconstrained score.
LIMITS = (0.05, 0.1, 0.15, 1.0)
DIAL = np.round(np.linspace(1.0, 0.0, 21), 2)
# Model, number of cells, whether only thresholds count.
SETTINGS = (
    ("scores", 2, False),
    ("scores", 4, False),
    ("scores", 4, True),
    ("scores", 10, False),
    ("scores", 10, True),
    ("decisions", 2, False),
)
DRAWS = {"adult": 10, "planted": 300}
_EDGE_ROWS, _TAIL = 1_000, 0.05
_COMPONENTS = 300

# Shares of the cells in each group, and rows of each group.
PLANTED: dict[str, tuple[list[list[float]], list[int]]] = {
    "2 cells, equal, 60 and 200 rows": ([[0.5, 0.5], [0.5, 0.5]], [60, 200]),
    "2 cells, .04 and .1, 100 and 1,000 rows": ([[0.04, 0.96], [0.1, 0.9]], [100, 1_000]),
    "5 cells, equal, 150 and 300 rows": ([[0.2] * 5, [0.2] * 5], [150, 300]),
    "5 cells, far apart, 150 and 300 rows": (
        [[0.4, 0.3, 0.1, 0.1, 0.1], [0.2, 0.1, 0.2, 0.2, 0.3]],
        [150, 300],
    ),
    "10 cells, rising, 1,000 and 2,000 rows": (
        [[0.055 + 0.01 * i for i in range(10)], [0.1] * 10],
        [1_000, 2_000],
    ),
    "4 cells, three groups of 80, 200 and 500 rows": (
        [[0.4, 0.2, 0.2, 0.2], [0.3, 0.3, 0.2, 0.2], [0.25] * 4],
        [80, 200, 500],
    ),
}
# Shares of the cells among the drawn rows of both groups, weights of rows of the first group by cell, and
# rows of each group.
WEIGHTED: dict[str, tuple[list[list[float]], list[float], list[int]]] = {
    "2 cells, weights 1 and 20, 2,000 and 20,000 rows": (
        [[0.99, 0.01], [0.98, 0.02]],
        [1.0, 20.0],
        [2_000, 20_000],
    ),
    "12 cells, weights 1 and 20, 2,000 and 20,000 rows": (
        [[*[0.09] * 11, 0.01], [*[0.98 / 11] * 11, 0.02]],
        [*[1.0] * 11, 20.0],
        [2_000, 20_000],
    ),
}


# ------------------------------------------------------------------ Adult


def row_name(model: str, k: int, thresholds: bool, limit: float) -> str:
    """Name of a row of the table."""
    return (
        f"{model}, {k} cells, {'thresholds' if thresholds else 'any classifier'}, gap <= {limit:g}"
    )


def adult(draws: int) -> Iterator[Part]:
    """Classifiers with a certified gap."""
    names = [row_name(*setting, limit) for setting in SETTINGS for limit in LIMITS]
    yield Part(names=names, measure=certified, draws=draws, summary=of_promises)


@cache
def _adult() -> tuple[Any, Any, Any]:
    table = datasets.fetch_adult(data_home=data_home())
    y = (table.target.astype(str) == ">50K").to_numpy()
    return table.data, y, table.sensitive_features["sex"].astype(str).to_numpy()


def certified(seed: int) -> Found:
    """All rows of the table on one division of Adult."""
    data, y, s = _adult()
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[:MOST_ROWS], order[MOST_ROWS:]
    certify, test = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    encoder = table_encoder(data).fit(data.iloc[train])
    X = encoder.transform(data.iloc[order])
    labels = np.where(y, ">50K", "<=50K")
    out: dict[str, dict[str, Any]] = {}
    for kind in ("scores", "decisions"):
        model = FairRidgeClassifier(equalize=kind, n_components=_COMPONENTS, random_state=0)
        model.fit(X[: len(train)], labels[train], sensitive_features=s[train])
        scores = cache(partial(_scores, model, X))
        for _, k, thresholds in (setting for setting in SETTINGS if setting[0] == kind):
            n_edge = 0 if k == 2 else _EDGE_ROWS
            cells_at = cache(partial(_cells, scores, len(train), k))
            bounds = cache(partial(_bound, cells_at, s[order], len(train), len(certify), n_edge))
            for limit in LIMITS:
                dial = _cheapest(bounds, limit, thresholds)
                row: dict[str, Any] = {"promised": float(dial is not None)}
                if dial is not None:
                    cell = cells_at(dial)
                    known = len(train) + len(certify)
                    row |= {"fairness": dial, "bound": bounds(dial)[int(thresholds)]}
                    row |= _on_test(cell, y[order], s[order], known, thresholds)
                    row["broken"] = float(row["worst_gap"] > limit)
                    row["gap_above"] = float(row["gap"] > limit)
                out[row_name(kind, k, thresholds, limit)] = _filled(row)
    assert len(test) + len(certify) + len(train) == len(y)
    return out


_COLUMNS = "promised", "fairness", "bound", "accuracy", "gap", "worst_gap", "broken", "gap_above"


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name, float("nan")) for name in _COLUMNS}


def _scores(model: Any, X: Any, dial: float) -> Any:
    """Scores of all rows at a dial value."""
    return model.at(float(dial)).decision_function(X)


def _cells(scores: Any, n_train: int, k: int, dial: float) -> Any:
    """Cell of every row: cut at 0, or at quantiles of the first certifying rows."""
    f = scores(dial)
    if k == 2:
        return np.asarray(f > 0.0, dtype=int)
    edges = np.quantile(f[n_train : n_train + _EDGE_ROWS], np.arange(1, k) / k)
    return np.searchsorted(edges, f, side="left")


def _bound(
    cells_at: Any, s: Any, n_train: int, n_certify: int, n_edge: int, dial: float
) -> tuple[float, float]:
    """Limits for any classifier and for thresholds, of the certifying rows that set no edge."""
    rows = slice(n_train + n_edge, n_train + n_certify)
    cell = cells_at(dial)[rows]
    # Cells in place of scores: their numbers are cut halfway.
    result = audit(
        cell + 0.25,
        sensitive_features={"sex": s[rows]},
        parts=["scores"],
        n_boot=20,
        random_state=0,
    )
    found = result.any_classifier(edges=np.arange(cells_at(dial).max()) + 0.5)
    return found.bound(), found.bound(thresholds=True)


def _cheapest(bounds: Any, limit: float, thresholds: bool) -> float | None:
    """The last dial value before the first whose limit is too large; None if the first one's is."""
    if limit >= 1.0:
        return 0.0
    chosen = None
    for dial in DIAL.tolist():
        if bounds(dial)[int(thresholds)] > limit:
            break
        chosen = dial
    return chosen


def _on_test(cell: Any, y: Any, s: Any, known: int, thresholds: bool) -> dict[str, float]:
    """Accuracy and gaps of the classifier, and of the worst one, on the rows that are not ``known``."""
    k = int(cell.max()) + 1
    n = np.bincount(cell[:known], minlength=k)
    decides = 2.0 * np.bincount(cell[:known], y[:known], minlength=k) > n
    cell, y, s = cell[known:], y[known:], s[known:]
    d = decides[cell]
    women = s == "Female"
    halves = [_differences(cell[half::2], women[half::2], k) for half in (0, 1)]
    worst = np.mean([b[_worst_set(a, thresholds)].sum() for a, b in (halves, halves[::-1])])
    return {
        "accuracy": float(np.mean(d == y)),
        "gap": float(abs(d[women].mean() - d[~women].mean())),
        "worst_gap": float(worst),
    }


def _differences(cell: Any, women: Any, k: int) -> Any:
    """Share of each cell among women minus that among men."""
    shares = [np.bincount(cell[of], minlength=k) / of.sum() for of in (women, ~women)]
    return shares[0] - shares[1]


def _worst_set(difference: Any, thresholds: bool) -> Any:
    """Cells whose share differs the most, larger among women."""
    if not thresholds:
        return difference > 0.0
    sums = np.cumsum(difference)[:-1]
    edge = int(np.argmax(np.abs(sums)))
    lower = np.arange(len(difference)) <= edge
    return lower if sums[edge] > 0.0 else ~lower


def of_promises(columns: dict[str, Any]) -> dict[str, float]:
    """Share of divisions with a promise; means over these, and the standard error of the accuracy."""
    promised = columns["promised"] > 0.0
    out = {"promised": float(promised.mean())}
    for name in _COLUMNS[1:]:
        values = columns[name][promised]
        out[name] = float(values.mean()) if len(values) else float("nan")
        if name == "accuracy" and len(values) > 1:
            out["accuracy_sd"] = float(values.std(ddof=1))
    out.setdefault("accuracy_sd", float("nan"))
    return out


# ------------------------------------------------------------------ planted


def planted(draws: int) -> Iterator[Part]:
    """Coverage and size of limits."""
    for name in PLANTED:
        yield Part(names=[name], measure=partial(_planted, name), draws=draws)
    for name in WEIGHTED:
        yield Part(names=[name], measure=partial(_weighted, name), draws=draws)


def _planted(name: str, seed: int) -> Found:
    shares, n = PLANTED[name]
    rng = np.random.default_rng(50_000 + seed)
    table = np.array([rng.multinomial(m, p) for m, p in zip(n, shares, strict=True)])
    cells = Cells(shares=table / table.sum(axis=1, keepdims=True), n=tuple(n))
    true, true_thresholds = Cells(shares=np.array(shares), n=tuple(n)).distances()
    any_rule = upper_limit(cells.of_any_rule(_TAIL))
    thresholds = upper_limit(cells.of_thresholds(_TAIL))
    return {
        name: {
            "true": true,
            "estimate": cells.distances()[0],
            "bound": any_rule,
            "hoeffding": hoeffding(cells, _TAIL),
            "each_cell": each_cell(cells, _TAIL),
            "l1": l1(cells, _TAIL),
            "thresholds": thresholds,
            "true_thresholds": true_thresholds,
            "covered": float(any_rule >= true - 1e-12),
            "covered_hoeffding": float(hoeffding(cells, _TAIL) >= true),
            "covered_thresholds": float(thresholds >= true_thresholds - 1e-12),
        }
    }


def _weighted(name: str, seed: int) -> Found:
    shares, by_cell, n = WEIGHTED[name]
    rng = np.random.default_rng(60_000 + seed)
    k = len(by_cell)
    cell = np.concatenate([rng.choice(k, m, p=p) for m, p in zip(n, shares, strict=True)])
    group = np.repeat(["a", "b"], n)
    weight = np.where(group == "a", np.array(by_cell)[cell], 1.0)
    result = audit(
        cell.astype(float),
        sensitive_features={"group": group},
        sample_weight=weight,
        parts=["scores"],
        n_boot=20,
        random_state=0,
    )
    (gap,) = result.any_classifier(edges=np.arange(k - 1.0)).gaps
    weighted = np.array([np.multiply(shares[0], by_cell), shares[1]])
    population = Cells(shares=weighted / weighted.sum(axis=1, keepdims=True), n=tuple(n))
    true, true_thresholds = population.distances()
    parts = [weight[group == one] for one in ("a", "b")]
    sums = [np.bincount(cell[group == h], weight[group == h], minlength=k) for h in ("a", "b")]
    one_number = Cells(
        shares=np.array([row / row.sum() for row in sums]),
        n=tuple(int(w.sum() ** 2 / (w @ w)) for w in parts),
    )
    kish = upper_limit(one_number.of_any_rule(_TAIL))
    return {
        name: {
            "true": true,
            "estimate": gap.value,
            "bound": gap.bound,
            "thresholds": gap.threshold_bound,
            "true_thresholds": true_thresholds,
            "covered": float(gap.bound >= true - 1e-12),
            "covered_thresholds": float(gap.threshold_bound >= true_thresholds - 1e-12),
            "kish": kish,
            "covered_kish": float(kish >= true - 1e-12),
        }
    }


def hoeffding(cells: Cells, tail: float) -> float:
    """The same argument with Hoeffding's inequality for each set."""
    reach = -np.log(tail) / 2.0
    return max(
        min(
            np.abs(cells.shares[i] - cells.shares[j]).sum() / 2.0
            + float(np.sqrt(reach * (1.0 / cells.n[i] + 1.0 / cells.n[j]))),
            1.0,
        )
        for i, j in cells.pairs()
    )


def each_cell(cells: Cells, tail: float) -> float:
    """Largest sum of differences that exact intervals of all cells in all groups allow."""
    k = cells.shares.shape[1]
    part = tail / (2.0 * k * len(cells.n))
    limits = np.array(
        [
            [exact_interval(float(share), n, part) for share in row]
            for row, n in zip(cells.shares, cells.n, strict=True)
        ]
    )
    low, high = limits[..., 0], limits[..., 1]
    return max(
        min(float(np.maximum(high[i] - low[j], 0.0).sum()) for i, j in (pair, pair[::-1]))
        for pair in cells.pairs()
    )


def l1(cells: Cells, tail: float) -> float:
    """Observed distance plus the deviation of both groups, over all sets of cells."""
    sets = 2.0 ** cells.shares.shape[1] - 2.0
    reach = [np.sqrt(np.log(sets * len(cells.n) / tail) / (2.0 * n)) for n in cells.n]
    return max(
        min(np.abs(cells.shares[i] - cells.shares[j]).sum() / 2.0 + float(reach[i] + reach[j]), 1.0)
        for i, j in cells.pairs()
    )


TABLES: Tables = {"adult": adult, "planted": planted}


# ------------------------------------------------------------------ limits


def measurements(table: str | None = None, path: Path | None = None) -> Iterator[Measurement]:
    """The rows of the tables against their limits; of both if none is named."""
    for name in TABLES if table is None else (table,):
        file = path or RESULTS / f"evidence_any_{name}.csv"
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        yield from _of_adult(rows) if name == "adult" else _of_planted(rows)


def _of_adult(rows: list[dict[str, str]]) -> Iterator[Measurement]:
    promises = broken = 0.0
    for row in rows:
        n = float(row["promised"]) * int(row["draws"])
        wanted = not row["name"].endswith("<= 1")
        if wanted:
            yield Measurement(f"{row['name']}: share promised", float(row["promised"]), "-", True)
        if n and wanted:
            promises, broken = promises + n, broken + n * float(row["broken"])
        if n:
            yield Measurement(f"{row['name']}: accuracy", float(row["accuracy"]), "-", True)
    yield at_most("certified gaps broken on test rows, share", broken / max(promises, 1.0), 0.07)


def _of_planted(rows: list[dict[str, str]]) -> Iterator[Measurement]:
    for row in rows:
        noise = 2.0 * float(np.sqrt(_TAIL * (1.0 - _TAIL) / int(row["draws"])))
        for column in ("covered", "covered_thresholds"):
            name = f"{row['name']}: {column.replace('_', ', ')}"
            yield at_least(name, float(row[column]), 1.0 - _TAIL - noise)
        if not row.get("hoeffding"):  # weighted rows: the simpler limits are for equal weights
            continue
        others = min(float(row[name]) for name in ("hoeffding", "each_cell", "l1"))
        ratio = (float(row["bound"]) - float(row["true"])) / (others - float(row["true"]))
        yield at_most(f"{row['name']}: excess, ours / best other", ratio, 1.0)


if __name__ == "__main__":
    main(TABLES, DRAWS, "evidence_any", __doc__, "tools.evidence_any_classifier")
    out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
    sys.exit(show(measurements(sys.argv[1], None if out is None else Path(out))))
