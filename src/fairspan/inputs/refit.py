"""Parameters that were changed after a fit, and searches that ignore fairness."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sized
from types import FrameType
from typing import Any

import numpy as np

from fairspan.exceptions import FairspanWarning, warn_user
from fairspan.inputs.config import Configurable
from fairspan.method.linalg import is_tensor, to_numpy

# A fitted model can be moved to another value of these without a new fit.
_FREE = frozenset(("fairness", "dial", "verbose"))


def changed_parameters(fitted: Mapping[str, Any], estimator: Configurable) -> list[str]:
    """Names of parameters that differ from the snapshot of the fit and would need another fit."""
    now = snapshot(estimator.get_params(deep=False))
    return [k for k, v in fitted.items() if k not in _FREE and not equal_values(v, now.get(k))]


def snapshot(value: Any) -> Any:
    """Copy parameters so that later changes in place are found.

    Arrays, dicts and lists are copied; a nested estimator is kept as its type and its parameters;
    functions and random generators are kept as they are.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value), snapshot(value.get_params(deep=False))
    if isinstance(value, Mapping):
        return {key: snapshot(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(part) for part in value]
    if is_tensor(value) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        return np.array(to_numpy(value))
    return value


def equal_values(a: Any, b: Any) -> bool:
    """Whether two snapshots are equal, arrays included."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_values(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal_values, a, b))
    try:
        return bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
    except (TypeError, ValueError):  # values without a truth value, such as an array and a list
        return False


def check_search() -> None:
    """Warn if this fit is the refit of a search that chose ``fairness`` by accuracy.

    Only the search knows how candidates are scored, and no argument carries that to an estimator, so
    look for the search among the callers. The refit runs once per search, in the process of the user,
    and after the choice; fits of single candidates are left alone.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if module == "sklearn.model_selection._validation" and function == "_fit_and_score":
            return
        if module == "sklearn.model_selection._search" and function == "fit":
            _warn_unfair_search(frame.f_locals.get("self"))
            return
        frame = frame.f_back


def _warn_unfair_search(search: Any) -> None:
    chosen = getattr(search, "best_params_", {})
    names = [name for name in chosen if name.rpartition("__")[2] == "fairness"]
    names = [name for name in names if _n_candidates(search, name) > 1]
    if not names or not _ignores_groups(search.scoring, search.refit):
        return
    score = "the default score" if search.scoring is None else f"scoring={search.scoring!r:.80}"
    warn_user(
        f"{type(search).__name__} chose {names[0]}={chosen[names[0]]!r} by {score}, which does not "
        f"measure fairness: less fairness wins wherever it is more accurate. Score with "
        f"fairspan.metrics.fairness_scorer, or choose from one fit: "
        f"fairspan.fairness_path(model, X, y, sensitive_features=s).select(at_most=0.05).",
        FairspanWarning,
    )


def _n_candidates(search: Any, name: str) -> int:
    """Values that a search tries for a parameter; 2 for a distribution or where it is not known."""
    space = getattr(search, "param_grid", getattr(search, "param_distributions", None))
    if space is None:
        return 2
    grids = [space] if isinstance(space, Mapping) else space
    values = [grid[name] for grid in grids if name in grid]
    return sum(len(value) if isinstance(value, Sized) else 2 for value in values)


def _ignores_groups(scoring: Any, refit: Any) -> bool:
    """Whether candidates are ranked by a metric of scikit-learn, none of which sees groups."""
    if isinstance(scoring, Mapping):
        scoring = scoring.get(refit) if isinstance(refit, str) else refit
    elif isinstance(scoring, list | tuple | set):
        scoring = refit  # the name of one of them, or a function
    if scoring is None or isinstance(scoring, str):
        return True
    metric = getattr(scoring, "_score_func", scoring)  # of a scorer
    return str(getattr(metric, "__module__", "")).partition(".")[0] == "sklearn"
