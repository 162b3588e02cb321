"""The parameters of one fit, frozen: what every layer takes instead of the estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairspan.method.data import Kind
from fairspan.method.linalg import Array
from fairspan.method.sdr import MIN_ROWS

__all__ = ["CRITERIA", "FitConfig", "Variant", "canonical_criterion"]

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
    msg = f"criterion={name!r} is unknown. Allowed: {allowed}."
    raise ValueError(msg)


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
    # Where no dependence on S is left: in files of version 0.1.0, on the training rows.
    removal: str = "training_rows"

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
        return (
            self.likelihood == "logistic"
            and self.curvature == "likelihood"
            and self.variant.correlation_metric
            and self.subspace == "model"
            and not self.removes_on_new_rows
        )

    def removes_correlation_only(self, kind: str) -> bool:
        """Whether only the linear correlation with an attribute of this kind is removed."""
        return kind == "continuous" and self.dependence == "correlation" and self.variant.exact
