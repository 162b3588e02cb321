"""Metrics per attribute, the sampling noise of a correlation, and scikit-learn scorers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sklearn
from sklearn.metrics import make_scorer

from fairspan.exceptions import each_warning_once
from fairspan.inputs.columns import align_rows
from fairspan.method.problem import GroupProbabilities
from fairspan.metrics.decisions import (
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from fairspan.metrics.inputs import SensitiveKind, read_rows
from fairspan.metrics.probabilities import NEEDS_GROUPS
from fairspan.metrics.scores import (
    correlation_ratio,
    equal_opportunity_correlation,
    equalized_odds_correlation,
    ks_distance,
    statistical_parity_correlation,
)


class _Entry(NamedTuple):
    """A metric and the properties that a scorer needs."""

    metric: Callable[..., float]
    uses_target: bool
    on_scores: bool
    greater_is_better: bool = False


_METRICS = {
    entry.metric.__name__: entry
    for entry in (
        _Entry(statistical_parity_correlation, uses_target=False, on_scores=True),
        _Entry(equal_opportunity_correlation, uses_target=True, on_scores=True),
        _Entry(equalized_odds_correlation, uses_target=True, on_scores=True),
        _Entry(correlation_ratio, uses_target=False, on_scores=True),
        _Entry(ks_distance, uses_target=False, on_scores=True),
        _Entry(demographic_parity_difference, uses_target=True, on_scores=False),
        _Entry(demographic_parity_ratio, True, on_scores=False, greater_is_better=True),
        _Entry(equalized_odds_difference, uses_target=True, on_scores=False),
        _Entry(equal_opportunity_difference, uses_target=True, on_scores=False),
    )
}

# Methods that give real-valued scores; a regressor has `predict` alone.
_SCORE_METHODS = ("decision_function", "predict_proba", "predict")


def _look_up(metric: str | Callable[..., float]) -> _Entry:
    """Entry of a metric of this package; any other callable is a metric of decisions."""
    if callable(metric):
        ours = _METRICS.get(getattr(metric, "__name__", ""))
        return ours if ours and ours.metric is metric else _Entry(metric, True, on_scores=False)
    if metric in _METRICS:
        return _METRICS[metric]
    raise ValueError(f"metric={metric!r} is unknown. Known names: {', '.join(sorted(_METRICS))}")


def by_attribute(
    metric: str | Callable[..., float],
    *args: Any,
    sensitive_features: Any,
    sensitive_kind: SensitiveKind = "auto",
    **kwargs: Any,
) -> dict[str, float]:
    """Compute a metric for each protected attribute alone; the metric itself gives the worst.

    Parameters
    ----------
    metric : str or callable
        Name of a metric of this module, or a callable ``metric(*args, sensitive_features=s)``.
    *args
        Positional arguments of the metric: ``scores``, or ``y_true`` and ``scores`` or ``y_pred``.
    sensitive_features, sensitive_kind
        As in :func:`statistical_parity_correlation`.
    **kwargs
        Further keyword arguments of the metric.

    Returns
    -------
    dict
        Attribute name -> value, in the order of the columns.

    Examples
    --------
    >>> from fairspan.metrics import by_attribute
    >>> s = {"sex": ["F", "M", "F", "M"], "age": [20.0, 20.0, 50.0, 35.0]}
    >>> each = by_attribute(
    ...     "statistical_parity_correlation",
    ...     [1, 2, 1, 2],
    ...     sensitive_features=s,
    ...     sensitive_kind={"age": "continuous"},
    ... )
    >>> {name: round(value, 3) for name, value in each.items()}
    {'sex': 1.0, 'age': 0.302}
    """
    function = _look_up(metric).metric
    is_ours = "sensitive_kind" in inspect.signature(function).parameters
    if not args:
        raise ValueError("by_attribute needs the arguments of the metric, e.g. the scores")
    names = [f"argument {i + 1}" for i in range(len(args))]
    columns = dict(zip(names, args, strict=True))
    weight = {"sample_weight": kwargs["sample_weight"]} if "sample_weight" in kwargs else {}
    given = align_rows(
        **{names[-1]: args[-1], **columns}, sensitive_features=sensitive_features, **weight
    )
    columns = {name: given[name] for name in names}
    kwargs |= {name: given[name] for name in weight}
    sizes = {name: len(column) for name, column in columns.items()}
    out = {}
    with each_warning_once():
        rows = read_rows(
            given["sensitive_features"], sensitive_kind, kwargs.get("sample_weight"), sizes
        )
        for name, attribute in rows.attributes.items():
            options: dict[str, Any] = kwargs
            if isinstance(attribute, GroupProbabilities):
                if not is_ours:
                    raise ValueError(NEEDS_GROUPS.format(what=repr(metric), name=name))
                each = zip(attribute.groups, attribute.values.T, strict=True)
                column: Any = {f"{name}_{group}": values for group, values in each}
                options = {**kwargs, "sensitive_kind": {name: "probabilities"}}
            elif is_ours:
                column = {name: attribute.values}
                options = {"sensitive_kind": rows.kinds[name], **kwargs}
            else:
                column = attribute.as_given()
            out[name] = function(*columns.values(), sensitive_features=column, **options)
    return out


@dataclass(frozen=True)
class _ScorerMetric:
    """Adapter of a metric to the signature of scikit-learn's scorers; a class, so that it pickles."""

    metric: Callable[..., float]
    uses_target: bool

    def __call__(self, y_true: Any, predicted: Any, **kwargs: Any) -> float:
        """Align y_true, S and weights with the predictions, then compute the metric."""
        rows = {k: kwargs[k] for k in ("sensitive_features", "sample_weight") if k in kwargs}
        given = align_rows(y_pred=predicted, y_true=y_true, **rows)
        predicted, y_true = given.pop("y_pred"), given.pop("y_true")
        args = (y_true, predicted) if self.uses_target else (predicted,)
        return self.metric(*args, **kwargs | given)

    @property
    def __name__(self) -> str:  # scikit-learn prints a scorer by it
        return self.metric.__name__


def fairness_scorer(
    metric: str | Callable[..., float],
    *,
    response_method: str | tuple[str, ...] | None = None,
    greater_is_better: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Make a scikit-learn scorer that already requests ``sensitive_features``.

    For cross_validate, GridSearchCV and similar tools with metadata routing enabled. Greater is
    better, as everywhere in scikit-learn, so gaps and correlations are negated. If weights are passed
    too, scikit-learn requires the scorer to request or refuse them; request them with
    ``scorer.set_score_request(sensitive_features=True, sample_weight=True)``.

    Parameters
    ----------
    metric : str or callable
        Name of a metric of this module, or a callable
        ``metric(y_true, y_pred, *, sensitive_features, **kwargs)``, such as those of fairlearn.
    response_method : str or tuple of str, default=None
        Method of the estimator to call. None: ``predict`` for metrics of decisions and for callables;
        for metrics of scores, the first that exists of ``decision_function``, ``predict_proba`` and
        ``predict``.
    greater_is_better : bool, default=None
        None: True for ``demographic_parity_ratio``, False for the other names and for callables.
    **kwargs
        Fixed arguments of the metric, such as ``pos_label`` or ``n_bins``.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sensitive_features=s)``.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from fairspan.metrics import fairness_scorer
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     result = cross_validate(
    ...         LogisticRegression(),
    ...         X,
    ...         y,
    ...         params={"sensitive_features": s},
    ...         scoring=fairness_scorer("demographic_parity_difference"),
    ...     )
    >>> bool((result["test_score"] <= 0).all())
    True
    """
    entry = _look_up(metric)
    parameters = inspect.signature(entry.metric).parameters
    for name in kwargs:
        if name in ("sensitive_features", "sample_weight"):
            raise ValueError(f"{name} belongs to the call of the scorer, not to its construction")
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if name not in parameters and not takes_any:
            raise ValueError(f"{entry.metric.__name__} has no argument {name!r}")
    if response_method is None:
        response_method = _SCORE_METHODS if entry.on_scores else "predict"
    if greater_is_better is None:
        greater_is_better = entry.greater_is_better
    request: dict[str, bool | None] = {"sensitive_features": True}
    if "sample_weight" in parameters:
        request["sample_weight"] = None  # scikit-learn raises if weights are passed unrequested
    with sklearn.config_context(enable_metadata_routing=True):
        return make_scorer(
            _ScorerMetric(entry.metric, entry.uses_target),
            response_method=response_method,
            greater_is_better=greater_is_better,
            **kwargs,
        ).set_score_request(**request)
