"""Populations and splits of the tables about new rows.

*people(n, share)*: s ~ Bernoulli(share), x = N(0, I_5) + s/2 in every coordinate, y = sum of x + x_0 x_1 +
N(0, 1). *three attributes*: two more s like it, independent, each with its own shift. *100 columns*: 95 more
of noise. *heavy*: people with t_3 noise. *steps*: y as in people, then x cut near its quartiles into 0..3.
*direct*: people with s/2 added to y. *wide(n, k)*: s ~ Bernoulli(1/2), a = N(0, 1) + s/2, b = N(0, 1),
y = 1[a + b + N(0, 1) > 1/4], X = [a, b, k columns of noise].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from fairspan import datasets, table_encoder
from tools.calibration import data_home

# Training rows of a split of a large table.
MOST_ROWS = 5_600
NEW_ROWS = 50_000

Rows = tuple[Any, Any, Any]  # X, y, s
Maker = Callable[[int, np.random.Generator], Rows]


@dataclass(frozen=True)
class Draw:
    """Training rows and new rows of one draw or split."""

    X: Any
    y: Any
    s: Any
    X_new: Any
    y_new: Any
    s_new: Any  # the contrast that a signed correlation is about, or the groups


def people(n: int, share: float, rng: np.random.Generator, direct: float = 0.0) -> Rows:
    """Rows of the population people, or direct."""
    s = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s[:, None]
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n) + direct * s, s


def three_attributes(n: int, rng: np.random.Generator) -> Rows:
    """Rows of people with three attributes, (n, 3)."""
    s = (rng.random((n, 3)) < 0.3).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s.sum(axis=1, keepdims=True)
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n), s


def many_columns(n: int, rng: np.random.Generator) -> Rows:
    """Rows of people(n, .3) with 95 columns of noise."""
    X, y, s = people(n, 0.3, rng)
    return np.column_stack([X, rng.normal(size=(n, 95))]), y, s


def noisy(name: str, n: int, rng: np.random.Generator) -> Rows:
    """Rows of people(n, .3), heavy, steps or direct."""
    X, y, s = people(n, 0.3, rng, 0.5 if name == "direct" else 0.0)
    if name == "heavy":
        y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.standard_t(3, size=n)
    if name == "steps":
        edges = 0.15 + 1.026 * np.array([-0.674, 0.0, 0.674])
        X = np.digitize(X, edges).astype(float)
    return X, y, s


def wide(n: int, k: int, rng: np.random.Generator) -> Rows:
    """Rows of the population wide."""
    s = (rng.random(n) < 0.5).astype(int)
    a, b = rng.normal(size=n) + 0.5 * s, rng.normal(size=n)
    y = np.where(a + b + rng.normal(size=n) > 0.25, "yes", "no")
    X = np.column_stack([a, b, rng.normal(size=(n, k))])
    return (X - X.mean(axis=0)) / X.std(axis=0), y, s


def planted(make: Maker, n: int, new_rows: int = NEW_ROWS) -> Callable[[int], Draw]:
    """Draws of a population, each with new rows of its own."""

    def draw(seed: int) -> Draw:
        fresh = np.random.default_rng(10_000 + seed)
        return Draw(*make(n, np.random.default_rng(seed)), *make(new_rows, fresh))

    return draw


def sample_of_adult(data_home: object = None) -> SimpleNamespace:
    """8,000 rows of Adult, of which 70 % are 5,600 training rows.

    It is easier than the whole table for every method; ``python -m tools.learners_tables fair`` prints the
    error of plain boosting on both.
    """
    table = datasets.fetch_adult(data_home=data_home)
    rows = table.data.sample(8_000, random_state=0).index
    return SimpleNamespace(
        data=table.data.loc[rows],
        target=table.target.loc[rows],
        sensitive_features=table.sensitive_features.loc[rows],
    )


def splits(
    fetch: Callable[..., Any],
    attribute: str | list[str],
    group: str | None = None,
    numeric: bool = False,
) -> Callable[[int], Draw]:
    """Random splits of a table; S is one attribute, one group of it against the rest, or several."""

    def draw(seed: int) -> Draw:
        table = (
            fetch(data_home=data_home())
            if "loans" not in getattr(fetch, "__name__", "")
            else fetch()
        )
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
