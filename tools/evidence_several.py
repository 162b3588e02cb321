"""Several protected attributes at once, on Adult: ``python -m tools.evidence_several adult``.

Protected are the first 2, 3 or 4 of: sex; race (White, Black, others); age (under 30, 30 to 49, 50 and over);
marital status (married, never married, married before). Neither of them is a feature in any fit, and
the feature ``relationship``, which names husbands and wives, stays.

In each of ten random divisions of the rows (or ``--draws``), 5,600 rows train
``FairRidgeClassifier(n_components=300)``: for equal scores at fairness 1, for equal decisions at fairness 1
and with ``max_gap=0.05``; with each attribute by itself and with all of them crossed
(``intersectional=True``). All other rows, about 43,000, are audited. A row of the table has means over
divisions, for one attribute or for the intersections of all of them: the error, the largest gap of selection
rates and the correlation of the score, with the mean limits of their 95 % intervals, of that model and
(ending in 0) of the same fit at fairness 0. *judged* is the mean number of groups with at least 30
audited rows, *not_judged* that of smaller ones, which no number includes; *smallest* is the mean number of
rows of the smallest group that is judged. The gap of many small groups is too large by chance: the lower
limit of its interval says what is more than that.

Options are those of ``tools.promise_tables``.
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
from tools.calibration import data_home
from tools.promise_populations import MOST_ROWS
from tools.promise_tables import RESULTS, Found, Part, Tables, main
from tools.table import Measurement, at_most, show

NAMES = ("sex", "race", "age", "marital status")
DRAWS = {"adult": 10}
MOST_GAP = MOST_CORRELATION = 0.05
# What a fit equalizes -> models of it, and how they are chosen.
MODELS: dict[str, dict[str, dict[str, float]]] = {
    "scores": {"scores": {"fairness": 1.0}},
    "decisions": {"decisions": {"fairness": 1.0}, "decisions within .05": {"max_gap": 0.05}},
}
_COMPONENTS, _N_BOOT, _MIN_ROWS = 300, 200, 30
_METRICS = {
    "gap": "demographic_parity_difference",
    "correlation": "statistical_parity_correlation",
}


def row_name(n: int, kind: str, crossed: bool, attribute: str) -> str:
    """Name of a row of the table."""
    how = "crossed" if crossed else "each"
    return f"{n} attributes, {kind}, {how}: {attribute}"


def adult(draws: int) -> Iterator[Part]:
    """One part for each number of attributes, kind of fit and way to protect."""
    for n in (2, 3, 4):
        for kind in ("scores", "decisions"):
            for crossed in (False, True):
                names = [
                    row_name(n, model, crossed, name)
                    for model in MODELS[kind]
                    for name in (*NAMES[:n], "intersections")
                ]
                measure = partial(measured, n, kind, crossed)
                yield Part(names=names, measure=measure, draws=draws)


@cache
def _adult() -> tuple[Any, Any, dict[str, Any]]:
    """Features, classes and the four attributes."""
    table = datasets.fetch_adult(data_home=data_home())
    race = table.sensitive_features["race"].astype(str).to_numpy()
    age = table.sensitive_features["age"].to_numpy(dtype=float)
    status = table.data["marital_status"].astype(str).to_numpy()
    married = np.char.startswith(status.astype(str), "Married")
    protected = {
        "sex": table.sensitive_features["sex"].astype(str).to_numpy(),
        "race": np.where(np.isin(race, ("White", "Black")), race, "others"),
        "age": np.array(["under 30", "30 to 49", "50 and over"])[np.digitize(age, (30, 50))],
        "marital status": np.where(
            married, "married", np.where(status == "Never-married", "never", "before")
        ),
    }
    return table.data.drop(columns="marital_status"), table.target.astype(str).to_numpy(), protected


def measured(n: int, kind: str, crossed: bool, seed: int) -> Found:
    """Rows of the table for one fit on one division."""
    data, y, protected = _adult()
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:MOST_ROWS], order[MOST_ROWS:]
    encoder = table_encoder(data).fit(data.iloc[train])
    X, Z = (encoder.transform(data.iloc[rows]) for rows in (train, test))
    model = FairRidgeClassifier(
        equalize=kind, intersectional=crossed, n_components=_COMPONENTS, random_state=0
    )
    model.fit(X, y[train], sensitive_features={name: protected[name][train] for name in NAMES[:n]})
    groups = {name: protected[name][test] for name in NAMES[:n]}
    audited = partial(_audited, groups=groups, Z=Z, y=y[test])
    plain = audited(model.at(0.0), ending="0")
    out: dict[str, dict[str, Any]] = {}
    for name, how in MODELS[kind].items():
        with_limit = audited(model.at(**how), ending="")
        for attribute, row in with_limit.items():
            out[row_name(n, name, crossed, attribute)] = row | plain[attribute]
    return out


def _audited(
    model: Any, *, groups: dict[str, Any], Z: Any, y: Any, ending: str
) -> dict[str, dict[str, float]]:
    """Numbers of one model for each attribute and for their intersections."""
    result = audit(
        *(model, Z, y),
        sensitive_features=groups,
        parts=["scores", "decisions"],
        n_boot=_N_BOOT,
        min_rows=_MIN_ROWS,
    )
    out = {}
    for attribute in (*groups, "intersections"):
        column = " x ".join(groups) if attribute == "intersections" else attribute
        row = {f"error{ending}": 1.0 - result.value("accuracy")}
        for short, metric in _METRICS.items():
            (found,) = result.select(metric=metric, attribute=column, where="")
            row[f"{short}{ending}"] = found.value
            row[f"{short}_low{ending}"], row[f"{short}_high{ending}"] = found.low, found.high
        sizes = np.array(list(result.group_sizes[column].values()))
        judged = sizes >= _MIN_ROWS
        row |= {"judged": float(judged.sum()), "not_judged": float((~judged).sum())}
        out[attribute] = row | {"smallest": float(sizes[judged].min())}
    return out


TABLES: Tables = {"adult": adult}


def measurements(path: Path | None = None) -> Iterator[Measurement]:
    """The rows of the table; what each attribute was protected against has a limit.

    Where attributes are protected one by one, each has a limit of .05. Intersections have none: their
    gaps and correlations, and those of attributes where intersections are protected, are information. So is
    the gap of a model within .05 out of fold, which new rows keep about half of the time.
    """
    path = path or RESULTS / "evidence_several_adult.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = row["name"]
        what = "gap" if "decisions" in name else "correlation"
        value, limit = float(row[what]), MOST_GAP if what == "gap" else MOST_CORRELATION
        if ", each: " in name and "within" not in name and not name.endswith("intersections"):
            yield at_most(f"{name}: {what}", value, limit)
        else:
            yield Measurement(f"{name}: {what}", value, "-", True)
        if name.endswith("intersections"):
            yield Measurement(f"{name}: {what}, unconstrained", float(row[f"{what}0"]), "-", True)
            yield Measurement(f"{name}: error", float(row["error"]), "-", True)
            yield Measurement(f"{name}: error, unconstrained", float(row["error0"]), "-", True)
            left_out = Measurement(f"{name}: not judged", float(row["not_judged"]), "-", True)
            yield left_out


if __name__ == "__main__":
    main(TABLES, DRAWS, "evidence_several", __doc__, "tools.evidence_several")
    out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
    sys.exit(show(measurements(None if out is None else Path(out))))
