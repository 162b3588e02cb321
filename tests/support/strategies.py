"""Random fair learning problems for hypothesis: rows, protected attributes and a way to fit them.

Hypothesis draws the shape of a problem (task, criterion, kinds of S, sizes) and a seed; numpy draws
the rows. So a failing example shrinks to the smallest shape, and printing it is enough to rerun it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fairspan import FairRepresentation
from tests.support.expected import expected_warnings, no_small_cells

TASKS = ("regression", "binary", "classes")
CRITERIA = ("sp", "eo", "eop", "conditional_statistical_parity")
KINDS = ("binary", "text", "integer", "slices", "column")
FEATURES = ("all rows", "landmarks")
# Narrow enough that the kernel has far more directions than S can remove: where next to nothing is
# left of F, its functions are sums of huge terms that cancel, and no digits of theirs are to be had.
GAMMA = {1: 20.0, 2: 2.0, 3: 0.7, 4: 0.4}


@dataclass(frozen=True)
class Problem:
    """Rows to learn from, and the parameters of the estimator that go with them."""

    X: np.ndarray
    y: np.ndarray
    sensitive: dict[str, np.ndarray]
    control: dict[str, np.ndarray] | None
    weights: np.ndarray | None
    params: dict[str, Any]
    new: np.ndarray  # rows that were not fitted
    recipe: str  # the call that made it

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(self.recipe)

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def w(self) -> np.ndarray:
        """Weights, ones if there are none."""
        return np.ones(self.n) if self.weights is None else self.weights

    @property
    def classes(self) -> bool:
        return self.y.dtype.kind != "f"

    def with_params(self, **changes: Any) -> Problem:
        return replace(self, params={**self.params, **changes})

    def take(self, rows: np.ndarray) -> Problem:
        """The same problem on other rows (indices, repeats allowed, or a mask)."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            sensitive={k: v[rows] for k, v in self.sensitive.items()},
            control=None if self.control is None else {k: v[rows] for k, v in self.control.items()},
            weights=None if self.weights is None else self.weights[rows],
        )

    def estimator(self, **changes: Any) -> FairRepresentation:
        return FairRepresentation(**{**self.params, "removal": "training_rows", **changes})

    def arguments(self) -> dict[str, Any]:
        """What `fit`, `prepare` and `partial_fit` take."""
        return {
            "X": self.X,
            "y": self.y,
            "sensitive_features": self.sensitive,
            "control_features": self.control,
            "sample_weight": self.weights,
        }

    def prepare(self, **changes: Any) -> FairRepresentation:
        """An estimator with a pilot frozen on these rows and no moments."""
        with expected_warnings(), no_small_cells():
            return self.estimator(**changes).prepare(**self.arguments())

    def feed(self, est: FairRepresentation) -> FairRepresentation:
        """Add these rows to an estimator, without solving."""
        return est.partial_fit(**self.arguments(), solve=False)

    def fit(self, **changes: Any) -> FairRepresentation:
        with expected_warnings(), no_small_cells():
            return self.estimator(**changes).fit(**self.arguments())


def solved(est: FairRepresentation) -> FairRepresentation:
    """Solve from the moments gathered so far."""
    with expected_warnings():
        return est.solve()


def at(est: FairRepresentation, *args: Any, **kwargs: Any) -> FairRepresentation:
    """``est.at(...)``, letting expected warnings pass."""
    with expected_warnings():
        return est.at(*args, **kwargs)


def predict(est: FairRepresentation, X: np.ndarray) -> np.ndarray:
    """The ridge head that certificates speak about: one column per class, or one."""
    return est.transform(X) @ est.score_coef_ + est.score_intercept_


def gap(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference, relative to the largest expected value."""
    assert np.shape(actual) == np.shape(expected)
    if np.size(expected) == 0:
        return 0.0
    scale = float(np.max(np.abs(expected)))
    return float(np.max(np.abs(np.subtract(actual, expected)))) / (scale or 1.0)


def draw_attribute(kind: str, latent: np.ndarray) -> np.ndarray:
    """Values of a protected attribute that goes with a latent score (levels are balanced)."""
    if kind in ("slices", "column"):
        return latent.copy()
    rank = np.argsort(np.argsort(latent, kind="stable"), kind="stable")
    n_levels = 2 if kind == "binary" else 3
    level = rank * n_levels // len(latent)
    if kind == "binary":
        return level
    if kind == "integer":
        return np.array([7, -2, 3])[level]
    return np.array(["north", "south", "east"])[level]


def draw_target(task: str, latent: np.ndarray) -> np.ndarray:
    """Numbers, or balanced classes of the latent score."""
    if task == "regression":
        return latent
    rank = np.argsort(np.argsort(latent, kind="stable"), kind="stable")
    if task == "binary":
        return rank * 2 // len(latent)
    return np.array(["good", "bad", "fair"])[rank * 3 // len(latent)]


def spread_rows(size: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Rows far from each other (farthest point first), so that their kernel matrix is well posed."""
    pool = rng.normal(size=(300, p))
    chosen = [0]
    distance = np.full(len(pool), np.inf)
    while len(chosen) < size:
        distance = np.minimum(distance, ((pool - pool[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(distance)))
    return pool[chosen]


def _weights(kind: str, n: int, rng: np.random.Generator) -> np.ndarray | None:
    if kind == "none":
        return None
    if kind == "counts":
        return rng.integers(1, 4, n).astype(float)
    weights = rng.exponential(size=n) + 0.2
    if kind == "zeros":
        weights[rng.permutation(n)[: n // 10]] = 0.0
    return weights


def make_problem(
    *,
    seed: int,
    n: int = 60,
    p: int = 2,
    task: str = "regression",
    criterion: str = "sp",
    kinds: Sequence[str] = ("binary",),
    weights: str = "none",
    features: str = "all rows",
    missing: bool = False,
    params: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem of the given shape; everything else follows from the seed."""
    recipe = ", ".join(f"{k}={v!r}" for k, v in locals().items())
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    mixing = rng.normal(size=(p, len(kinds))) / np.sqrt(p)
    latent = X @ mixing + 1.5 * rng.normal(size=(n, len(kinds)))
    sensitive = {f"s{j}": draw_attribute(kind, latent[:, j]) for j, kind in enumerate(kinds)}
    score = np.sin(X[:, 0]) + X[:, -1] + 0.4 * latent.sum(axis=1) + rng.normal(size=n)
    if missing:
        sensitive = {k: _with_gaps(v, rng) for k, v in sensitive.items()}
    control = None
    if criterion == "conditional_statistical_parity":
        control = {"region": rng.permutation(np.arange(n) % 2)}
    fixed = {
        "kernel": "rbf",
        "gamma": GAMMA[p],
        "n_components": "all",
        "criterion": criterion,
        "alpha": 0.3,
        "eta": 1e-3,
        "n_slices": 3 if criterion == "eo" and task == "regression" else 4,
        "n_sensitive_directions": "all",
        "sensitive_kind": {
            f"s{j}": "continuous" if kind in ("slices", "column") else "categorical"
            for j, kind in enumerate(kinds)
        },
        "dependence": "correlation" if "column" in kinds else "mean",
        "missing_sensitive": "omit" if missing else "raise",
        "random_state": 0,
    }
    if task == "classes" and criterion == "eop":
        fixed["pos_label"] = "good"
    if features == "landmarks":
        fixed |= {"landmarks": spread_rows(40, p, rng), "n_components": "auto"}
    return Problem(
        X,
        draw_target(task, score),
        sensitive,
        control,
        _weights(weights, n, rng),
        {**fixed, **(params or {})},
        rng.normal(size=(20, p)),
        f"make_problem({recipe})",
    )


def _with_gaps(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    gaps = rng.random(len(values)) < 0.15
    out = values.astype(float) if values.dtype.kind in "if" else values.astype(object)
    out[gaps] = np.nan if out.dtype.kind == "f" else None
    return out


@st.composite
def problems(
    draw: st.DrawFn,
    tasks: Sequence[str] = TASKS,
    criteria: Sequence[str] = CRITERIA,
    kinds: Sequence[str] = KINDS,
    max_attributes: int = 3,
    weights: Sequence[str] = ("none", "counts", "positive", "zeros"),
    features: Sequence[str] = FEATURES,
    missing: Sequence[bool] = (False,),
    methods: Sequence[str] = ("optimal", "rkhs"),
    fairness: Sequence[float] = (1.0,),
    min_rows: int = 30,
    max_rows: int = 120,
    dimensions: tuple[int, int] = (1, 4),
    **params: Any,
) -> Problem:
    """Problems small enough to be solved by brute force as well."""
    task = draw(st.sampled_from(tasks))
    # Equal opportunity needs a positive class.
    allowed = [c for c in criteria if c != "eop" or task != "regression"]
    criterion = draw(st.sampled_from(allowed))
    # Cells times levels times eight rows: most groups pass the five-row rule, not all of them.
    cells = {"sp": 1, "eo": 2 if task == "binary" else 3, "eop": 2 if task == "binary" else 3}
    low = max(min_rows, 24 * cells.get(criterion, 2))
    n = draw(st.integers(low, max(low, max_rows)))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=max_attributes))
    return make_problem(
        seed=draw(st.integers(0, 2**32 - 1)),
        n=n,
        p=draw(st.integers(*dimensions)),
        task=task,
        criterion=criterion,
        kinds=tuple(chosen),
        weights=draw(st.sampled_from(weights)),
        features=draw(st.sampled_from(features)),
        missing=draw(st.sampled_from(missing)),
        params={
            "method": draw(st.sampled_from(methods)),
            "fairness": draw(st.sampled_from(fairness)),
            **params,
        },
    )
