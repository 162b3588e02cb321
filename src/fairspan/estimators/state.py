"""The fitted state of an estimator: one frozen record, replaced as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from numpy.typing import NDArray

from fairspan.method.moments import Moments
from fairspan.method.pilot import Counter, Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.row_sketch import RowSketch
from fairspan.method.solution import Solution
from fairspan.method.spaces import Position

if TYPE_CHECKING:
    from fairspan.estimators.likelihood_rows import TrainingRows

__all__ = ["FittedAttribute", "FittedState", "read_old_state"]


@dataclass(frozen=True, kw_only=True)
class FittedState:
    """Everything a fit has produced so far; steps that have not run yet are None."""

    config: FitConfig  # parameters of the fit, at the dial value of the model
    given: Mapping[str, Any]  # snapshot of the parameters, to notice changes
    pilot: Pilot
    moments: Moments | None  # None: saved without moments
    counter: Counter | None
    classes: NDArray[Any] | None = None
    row_sketch: RowSketch | None = None  # of a model that was saved without moments
    n_samples_seen: int | None = None  # only after `fit_stream`
    smallest_eigenvalue: float | None = None  # only after a pass on a device
    merged: bool = False  # moments of workers without a common order of rows were added
    solution: Solution | None = None
    rows: TrainingRows | None = None  # scores of the training rows, for likelihoods of labels
    position: Position | None = None
    head: Any = None  # what a Gaussian process adds to the head: noise, posterior, link

    @property
    def solved(self) -> Solution:
        """The solution, which must exist."""
        assert self.solution is not None
        return self.solution

    @property
    def located(self) -> Position:
        """The model at its dial value, which must exist."""
        assert self.position is not None
        return self.position

    @property
    def fitted_rows(self) -> RowSketch | None:
        """Sketch of the rows of the fit; None for a model that was saved without it."""
        return self.row_sketch if self.moments is None else self.moments.row_sketch


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """Public read-only attribute of an estimator, computed from its fitted state.

    It does not exist before the step named by ``after``, nor where its value is None, unless
    ``optional`` allows None as a value.
    """

    def __init__(
        self,
        read: Callable[[FittedState], Value | None],
        *,
        after: str = "solution",
        optional: bool = False,
    ) -> None:
        self._read, self._after, self._optional = read, after, optional

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...

    @overload
    def __get__(self, estimator: object, owner: type) -> Value: ...

    def __get__(self, estimator: Any, owner: type) -> Self | Value:
        if estimator is None:
            return self
        state = estimator._state
        if state is not None and getattr(state, self._after) is not None:
            value = self._read(state)
            if value is not None or self._optional:
                return value  # type: ignore[return-value]
        msg = f"{type(estimator).__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(msg)

    def __set__(self, estimator: Any, value: Value) -> None:
        msg = f"{self._name} belongs to the fit and cannot be set."
        raise AttributeError(msg)


def read_old_state(attributes: dict[str, Any], config: FitConfig) -> FittedState:
    """Build the state from the attributes that version 0.1.0 kept on an estimator.

    The attributes that become part of the state are taken out of the dict.
    """
    take = attributes.pop
    position, fair_space = take("_position", None), take("_fair_space", None)
    if position is not None:
        # A posterior with another prior than the isotropic one has coefficients of its own.
        coef = {"coef": take("score_coef_", position.coef), "fair_space": fair_space}
        vars(position).update(coef)
    if fair_space is None and position is not None:
        vars(position)["fair_space"] = None
    return FittedState(
        config=config,
        given={},
        pilot=take("pilot_"),
        moments=take("moments_", None),
        counter=take("_counter", None),
        classes=take("classes_", None),
        row_sketch=take("_row_sketch", None),
        n_samples_seen=take("n_samples_seen_", None),
        smallest_eigenvalue=take("smallest_eigenvalue_", None),
        merged=take("_merged", False),
        solution=take("_solution", None),
        rows=take("_rows", None),
        position=position,
    )
