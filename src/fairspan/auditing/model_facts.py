"""What a fitted model says about itself, in plain texts for documents."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from fairspan.estimators.base import FairKernelEstimator

_LIBRARIES = ("fairspan", "scikit-learn", "numpy", "scipy")


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about a model; empty where it has none.

    Attributes
    ----------
    kind : class of the model, with the steps of a pipeline before it.
    features : names of the columns that it reads.
    classes : labels that it predicts.
    parameters : parameter -> its value, for those that are not at their default.
    n_train : rows that it was fitted on; None if unknown.
    protected : protected attribute -> kind, of a fairspan model.
    criterion, equalizes : what a fairspan model makes equal between groups.
    dial : its position between accuracy and fairness.
    promises : sentences of its certificate.
    """

    kind: str
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    n_train: int | None = None
    protected: tuple[tuple[str, str], ...] = ()
    criterion: str = ""
    equalizes: str = ""
    dial: str = ""
    promises: tuple[str, ...] = ()


def model_facts(model: Any) -> ModelFacts | None:
    """Read the facts of a fitted model, a pipeline or a search; None without a model."""
    if model is None:
        return None
    whole = getattr(model, "best_estimator_", model)
    steps = [part for _, part in getattr(whole, "steps", ())]
    last = steps[-1] if steps else whole
    kind = " after ".join(type(part).__name__ for part in [*steps[::-1]] or [whole])
    names = getattr(whole, "feature_names_in_", None)
    classes = getattr(last, "classes_", None)
    common: dict[str, Any] = {
        "kind": f"{kind} ({type(last).__module__.partition('.')[0]})",
        "features": () if names is None else tuple(map(str, names)),
        "classes": () if classes is None else tuple(map(str, classes.tolist())),
        "parameters": _changed(last),
    }
    if not isinstance(last, FairKernelEstimator):
        return ModelFacts(**common)
    certificate: Any = getattr(last, "certificate_", None)
    moments = getattr(last, "moments_", None)
    sketch = last._fitted_rows
    n_train = None if sketch is None or sketch.rows < 0 else sketch.rows
    promises: list[str] = []
    dial = ""
    if certificate is not None:
        promises = str(certificate).removesuffix(certificate.table()).splitlines()[1:]
        dial = f"fairness {certificate.fairness:g} of 1 ({certificate.dial} dial)"
        if certificate.limits is not None:
            limits = ", ".join(f"{name} {value:g}" for name, value in certificate.limits.items())
            dial = f"largest correlations {limits}"
    return ModelFacts(
        **common,
        n_train=n_train if moments is None else int(moments.n_rows),
        protected=tuple(getattr(last, "sensitive_kinds_", {}).items()),
        criterion="" if certificate is None else certificate.criterion.replace("_", " "),
        equalizes=str(getattr(last, "equalize", "scores")),
        dial=dial,
        promises=tuple(text.strip() for text in promises),
    )


def _changed(model: Any) -> tuple[tuple[str, str], ...]:
    """Parameters that differ from the default of the class."""
    if not hasattr(model, "get_params"):
        return ()
    given = model.get_params(deep=False)
    try:
        default = type(model)().get_params(deep=False)
    except TypeError:  # parameters without a default
        default = {}
    return tuple(
        (name, _short(value))
        for name, value in given.items()
        if name not in default or repr(value) != repr(default[name])
    )


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def software() -> tuple[tuple[str, str], ...]:
    """Library -> version, and Python."""
    found = [(name, metadata.version(name)) for name in _LIBRARIES]
    return (("Python", platform.python_version()), *found)
