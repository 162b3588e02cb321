"""The input of the method: validated rows, and the parameters of one fit.

Every layer takes these records instead of the arguments and the estimator of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array, is_tensor, row_numbers, take, to_numpy

if TYPE_CHECKING:
    from fairspan.method.codes import Coder

Kind = Literal["categorical", "continuous", "probabilities"]
Codes = NDArray[np.intp]

# Levels with fewer rows in a cell are merged or left out, see `fairspan.method.sdr.usable_levels`.
MIN_ROWS = 5


@dataclass(frozen=True)
class Attribute:
    """A validated column.

    If X is a tensor, numbers and booleans (as 0 and 1) are tensors too, and text is an array.
    """

    name: str
    values: NDArray[np.generic]  # (n,), float64 or text
    missing: NDArray[np.bool_]  # (n,)
    dtype_kind: str  # "b", "i", "f" or "U": the type that the user gave, for `infer_kind`

    def take(self, rows: NDArray[np.generic]) -> Attribute:
        """Select rows by index or mask."""
        return replace(self, values=take(self.values, rows), missing=take(self.missing, rows))

    def as_given(self) -> NDArray[np.generic]:
        """Return the values in the type that the user gave; missing ones are NaN or empty text."""
        if self.dtype_kind == "b" and not self.missing.any():
            return np.asarray(self.values == "True")
        if self.dtype_kind == "i" and not self.missing.any():
            return self.values.astype(np.int64)  # floats would be read as continuous
        if self.values.dtype.kind == "f":
            return np.where(self.missing, np.nan, self.values.astype(np.float64))
        return np.asarray(self.values)

    def on_host(self) -> Attribute:
        """Return the column with numpy arrays instead of tensors."""
        values, missing = to_numpy(self.values), to_numpy(self.missing)
        if self.dtype_kind == "b" and values.dtype.kind != "U":
            values = np.where(values > 0.0, "True", "False")
        return replace(self, values=values, missing=missing)


@dataclass(frozen=True)
class GroupProbabilities(Attribute):
    """A validated table with the probability of each group: ``values`` is (n, J), 0 in missing rows."""

    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClassLabels:
    """Class labels as the user gave them, with the validated value of each.

    ``classes_`` must have the order of a coder's table, because the codes have it. Sorting the user's
    labels can give another order.
    """

    values: NDArray[np.generic]  # (K,): validated values, sorted
    given: NDArray[Any]  # (K,): the user's label of each

    @classmethod
    def of(cls, attribute: Attribute, y: NDArray[Any]) -> ClassLabels:
        """Collect the labels of a target column and of the array ``y`` it was read from."""
        values, first = np.unique(attribute.values, return_index=True)
        return cls(values, y[first])

    def in_order_of(self, coder: Coder) -> NDArray[Any]:
        """Return the labels in the order of the coder's categories: the label at index k has the code k."""
        return np.asarray(self.given[np.searchsorted(self.values, coder.table)])


@dataclass(frozen=True, kw_only=True)
class Data:
    """Validated rows."""

    X: Array  # (n, p)
    y: Attribute | None
    classes: ClassLabels | None  # of a target with classes
    sensitive: dict[str, Attribute]
    control: dict[str, Attribute]
    weights: Array | None  # (n,)
    clusters: NDArray[np.int64] | None = None  # (n,): rows of one number belong together
    sensitive_columns: tuple[str, ...] = ()  # columns of X that were S or control features
    index: NDArray[np.intp] | None = None  # of these rows in the user's table; None if all are used
    given: int | None = None  # number of rows of the user's table; None if all are used

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, rows: NDArray[np.generic]) -> Data:
        """Select rows by index or mask."""
        return replace(
            self,
            index=take(row_numbers(self.X) if self.index is None else self.index, rows),
            X=take(self.X, rows),
            y=None if self.y is None else self.y.take(rows),
            sensitive={k: a.take(rows) for k, a in self.sensitive.items()},
            control={k: a.take(rows) for k, a in self.control.items()},
            weights=None if self.weights is None else take(self.weights, rows),
            clusters=None if self.clusters is None else self.clusters[to_numpy(rows)],
        )

    def on_host(self) -> Data:
        """Return the rows with numpy arrays instead of tensors."""
        if not is_tensor(self.X):
            return self
        return replace(
            self,
            index=to_numpy(self.index),
            X=np.ascontiguousarray(to_numpy(self.X), dtype=np.float64),
            y=None if self.y is None else self.y.on_host(),
            sensitive={k: a.on_host() for k, a in self.sensitive.items()},
            control={k: a.on_host() for k, a in self.control.items()},
            weights=to_numpy(self.weights),
        )


# Names of the criteria, with the aliases of fairlearn and the paper.
CRITERIA = {
    "statistical_parity": ("demographic_parity", "sp", "proxy_nondiscrimination"),
    "equalized_odds": ("eo",),
    "equal_opportunity": ("eop", "true_positive_rate_parity"),
    "conditional_statistical_parity": (),
}


def canonical_criterion(name: object) -> str:
    """Full name of a criterion; raise ValueError if it is neither a name nor an alias."""
    for canonical, aliases in CRITERIA.items():
        if isinstance(name, str) and name in (canonical, *aliases):
            return canonical
    allowed = "; ".join(
        f"{k!r}" + (f" (also {', '.join(map(repr, v))})" if v else "") for k, v in CRITERIA.items()
    )
    raise ValueError(f"criterion={name!r} is unknown. Allowed: {allowed}.")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Differences between the three values of ``method``."""

    # All codes of S are removed exactly and the head is a ridge; else Algorithms 1 and 2 as printed.
    exact: bool
    # Distances are between predictions; else between functions in the RKHS.
    correlation_metric: bool

    @property
    def min_rows(self) -> int:
        """Rows that a group or slice needs in a cell."""
        return MIN_ROWS if self.exact else 1


VARIANTS = {
    "optimal": Variant(exact=True, correlation_metric=True),
    "rkhs": Variant(exact=True, correlation_metric=False),
    "paper": Variant(exact=False, correlation_metric=False),
}


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Checked parameters of a fit. Parameters that an estimator does not have keep their defaults."""

    estimator: str  # class name, for messages
    target_kind: Kind | None  # what the estimator predicts; None: it reads y as it is
    kernel: str | Callable[..., Any]
    gamma: str | float
    kernel_params: Mapping[str, Any] | None
    feature_map: Any
    n_components: str | int
    landmarks: str | Array
    criterion: str
    fairness: float | Mapping[str, float]
    dial: str
    sensitive_kind: str | list[str] | tuple[str, ...] | Mapping[str, str]
    dependence: str
    n_slices: str | int
    intersectional: bool
    pos_label: Any
    n_sensitive_directions: str | int
    n_predictive_directions: str | int
    eta: str | float
    alpha: str | float
    subspace: str
    method: str
    missing_sensitive: str
    random_state: Any
    verbose: int
    # Gaussian processes. A likelihood of None stands for penalised least squares.
    likelihood: Literal["gaussian", "logistic"] | None = None
    prior: str | Array = "isotropic"
    inference: str = "evidence"
    mean: str = "constant"
    calibrate: bool = False
    curvature: str = "constant"
    class_weight: str | Mapping[Any, float] | None = None
    # Classifiers: what is made equal, the share of rows to select, and costs of decisions.
    equalize: str = "scores"
    selection_rate: float | None = None
    cost_matrix: Any = None
    # Where no dependence on S is left: in files of version 0.1.0, on the training rows.
    removal: str = "training_rows"
    # Frames with text, dates or missing values are encoded by `fit`; else they are an error.
    encoder: str | None = "auto"
    # Differential privacy of S: the budget, the names of groups, and a seed of the noise for tests.
    epsilon_sensitive: float | None = None
    delta_sensitive: float = 1e-6
    sensitive_groups: Any = None
    noise_state: Any = None

    @property
    def private(self) -> bool:
        """Read S only through sums with noise."""
        return self.epsilon_sensitive is not None

    @property
    def privacy(self) -> str:
        """What holds about S, as a sentence; empty if its sums have no noise."""
        if not self.private:
            return ""
        if self.noise_state is not None:
            return "The noise in sums of S has a known seed (noise_state), so the model is not private."
        return (
            f"The model is ({self.epsilon_sensitive:g}, {self.delta_sensitive:g})-differentially private in "
            f"the protected attributes."
        )

    @property
    def without_new_rows_form(self) -> str | None:
        """The parameter for which removal on new rows has no form, as "name=value"; None if it has one."""
        if self.kernel == "precomputed" and self.feature_map is None:
            return "kernel='precomputed'"
        only = {"method": "optimal", "subspace": "model", "n_predictive_directions": "auto"}
        for name, value in only.items():
            if getattr(self, name) != value:
                return f"{name}={getattr(self, name)!r}"
        if not (isinstance(self.prior, str) and self.prior == "isotropic"):
            return "prior" if not isinstance(self.prior, str) else f"prior={self.prior!r}"
        return None

    @property
    def removes_on_new_rows(self) -> bool:
        """Remove the dependence that is expected on new rows; else that of the training rows."""
        if self.removal == "auto":
            return self.without_new_rows_form is None
        return self.removal == "new_rows"

    @property
    def criterion_name(self) -> str:
        """Full name of the criterion."""
        return canonical_criterion(self.criterion)

    @property
    def variant(self) -> Variant:
        """What the parameter ``method`` stands for."""
        return VARIANTS[self.method]

    @property
    def correlation_metric(self) -> bool:
        """Measure distances between predictions. A prior on all of F (METHOD 9) always does."""
        variant = self.variant
        return variant.correlation_metric or (variant.exact and self.subspace == "fair")

    @property
    def max_slices(self) -> int | None:
        """Slices of a continuous variable; None is one for each distinct value."""
        return None if isinstance(self.n_slices, str) else int(self.n_slices)

    @property
    def ridge_by_evidence(self) -> bool:
        """Choose ``alpha="auto"`` by maximum evidence; else by 5-fold error."""
        return self.likelihood == "gaussian"

    @property
    def needs_held_out_scores(self) -> bool:
        """The probabilities are calibrated on scores of functions that did not see the row."""
        return self.likelihood == "logistic" and bool(self.calibrate) and self.variant.exact

    @property
    def needs_folds(self) -> bool:
        """Moments are kept by fold."""
        by_error = self.alpha == "auto" and not self.ridge_by_evidence
        held_out = self.needs_held_out_scores or self.removes_on_new_rows
        return self.variant.exact and (by_error or held_out)

    @property
    def uses_likelihood_metric(self) -> bool:
        """Weigh rows by the curvature of the likelihood when distances are measured."""
        by_default = self.curvature == "auto" and not self.removes_on_new_rows
        return (
            self.likelihood == "logistic"
            and (self.curvature == "likelihood" or by_default)
            and self.variant.correlation_metric
            and self.subspace == "model"
        )

    def removes_correlation_only(self, kind: str) -> bool:
        """Whether only the linear correlation with an attribute of this kind is removed."""
        return kind == "continuous" and self.dependence == "correlation" and self.variant.exact
