"""What displays of a path read from it, and the parts that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.method.linalg import Array

Metric = str | Callable[..., float]
# Correlations of held-out rows are never as small as this.
_EXACT = 1e-9


class Interval(Protocol):
    """The parts of the ``Bounds`` of a path that displays read."""

    @property
    def value(self) -> Array:
        """Estimates on new rows."""

    @property
    def lower(self) -> Array:
        """Lower limits."""

    @property
    def upper(self) -> Array:
        """Upper limits."""

    @property
    def words(self) -> str:
        """The confidence in words."""


class Path(Protocol):
    """The parts of a ``FairnessPath`` that displays read; its package is above this one."""

    fairness: Array
    error: Array
    error_name: str
    attributes: list[str]
    noise: float
    in_sample: bool

    @property
    def rows(self) -> str:
        """Name of the rows."""

    def curve(self, metric: Metric = ..., attribute: str | None = ...) -> Array:
        """A metric at every dial value."""

    def bounds(
        self, metric: Metric = ..., attribute: str | None = ..., *, confidence: float = ...
    ) -> Interval:
        """A metric on new rows, with its interval, at every dial value."""

    def _resampled(self, metric: Metric, n_boot: int, random_state: Any) -> Array: ...


@runtime_checkable
class _Predictor(Protocol):
    def _path(self, X: Any, y: Any, **options: Any) -> Path: ...


def name_of_rows(path: Path, rows: str | None) -> str:
    """Name of the rows of a path; warn if they are training rows and nobody said so."""
    if rows == "in-sample":
        return rows
    ends = np.flatnonzero(np.isclose(path.fairness, 1.0))
    correlation = path.curve("correlation")
    exact = len(ends) > 0 and correlation[ends[0]] < _EXACT < correlation[0]
    if not exact and not path.in_sample:
        return path.rows if rows is None else rows
    why = (
        "no correlation is left at fairness 1, as on the rows a model was fitted on"
        if exact
        else "some of them are training rows"
    )
    warn_user(
        f"The display is about held-out rows, but {why}: they say little about new rows, so no interval is "
        f"drawn. Give held-out rows, or rows='in-sample'.",
        DataWarning,
    )
    return "in-sample"


class PathDisplay:
    """What the displays of a path share."""

    @classmethod
    @abstractmethod
    def from_path(cls, path: Path, metric: Metric = "correlation", **kwargs: Any) -> Self:
        """Draw a path."""

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        metric: Metric = "correlation",
        n_points: int = 21,
        **kwargs: Any,
    ) -> Self:
        """Draw a fitted model along its dial: the path of ``FairnessPath.from_estimator``.

        Parameters
        ----------
        model : fitted fairspan model that predicts
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        metric : str or callable, default="correlation"
            As in ``FairnessPath.curve``.
        n_points : int, default=21
            Number of dial values, equally spaced; all share one pass over the rows.
        **kwargs
            Of :meth:`from_path` and :meth:`plot`.
        """
        if not isinstance(model, _Predictor):
            raise TypeError(
                f"{type(model).__name__} is not a fairspan model that predicts. Give one; for a "
                f"FairRepresentation make a FairnessPath and use `from_path`."
            )
        with each_warning_once():
            path = model._path(
                X,
                y,
                sensitive_features=sensitive_features,
                control_features=control_features,
                sample_weight=sample_weight,
                n_points=n_points,
            )
            return cls.from_path(path, metric, **kwargs)


def on_rows(rows: str) -> str:
    """Name of the rows in an axis label."""
    return "training rows (in-sample)" if rows == "in-sample" else f"new rows ({rows})"


def name_of(metric: Metric) -> str:
    """A metric in words."""
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    return name.replace("_", " ")
