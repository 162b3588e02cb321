"""Validate hyper-parameters before any computation, and keep those of a fit."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Mapping, Sized
from types import FrameType
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS

from fairspan.exceptions import FairspanWarning, warn_user
from fairspan.method.kernels import GAMMA_KERNELS, WIDTH_KERNELS, kernel_names
from fairspan.method.linalg import is_tensor, to_numpy

__all__ = ["FitConfig", "canonical_criterion", "check_choice", "check_parameters", "check_search"]

CRITERIA = {
    "statistical_parity": ("demographic_parity", "sp", "proxy_nondiscrimination"),
    "equalized_odds": ("eo",),
    "equal_opportunity": ("eop", "true_positive_rate_parity"),
    "conditional_statistical_parity": (),
}


def canonical_criterion(name: object) -> str:
    """The criterion's full name; aliases of fairlearn and the paper are accepted."""
    for canonical, aliases in CRITERIA.items():
        if isinstance(name, str) and name in (canonical, *aliases):
            return canonical
    allowed = "; ".join(
        f"{k!r}" + (f" (also {', '.join(map(repr, v))})" if v else "") for k, v in CRITERIA.items()
    )
    msg = f"criterion={name!r} is unknown. Allowed: {allowed}."
    raise ValueError(msg)


def _refuse(name: str, value: object, allowed: str) -> None:
    msg = f"{name}={value!r} is not allowed; give {allowed}."
    raise ValueError(msg)


def _is_number(value: object) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        return False
    try:
        float(value)
    except OverflowError:  # an integer of hundreds of digits
        return False
    return True


def check_choice(est: Any, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of these words."""
    value = getattr(est, name)
    if not isinstance(value, str) or value not in choices:
        shown = ("one of " if len(choices) > 2 else "") + ", ".join(map(repr, choices))
        _refuse(name, value, shown if len(choices) > 2 else shown.replace(", ", " or "))


def _check_count(est: Any, name: str, words: tuple[str, ...], low: int) -> None:
    value = getattr(est, name)
    ok_word = isinstance(value, str) and value in words
    ok_int = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= low
    if not (ok_word or ok_int):
        shown = "".join(f"{w!r}, " for w in words)
        _refuse(name, value, f"{shown}or an integer of at least {low}")


def _check_ridge(est: Any, name: str) -> None:
    value = getattr(est, name)
    ok = (isinstance(value, str) and value == "auto") or (
        _is_number(value) and math.isfinite(value) and value > 0
    )
    if not ok:
        _refuse(name, value, "'auto' or a positive number")


def _check_fairness(est: Any) -> None:
    if not isinstance(est.fairness, Mapping):
        if not _is_number(est.fairness) or not 0.0 <= est.fairness <= 1.0:
            _refuse("fairness", est.fairness, "a number from 0 (unconstrained) to 1 (fairest)")
        return
    if est.dial != "correlation":
        msg = (
            f"fairness={est.fairness!r} gives every attribute a place of its own, which only "
            f"dial='correlation' can read (1 - fairness is the largest correlation), not {est.dial!r}."
        )
        raise ValueError(msg)
    if not est.fairness or not all(
        _is_number(v) and 0.0 <= v <= 1.0 for v in est.fairness.values()
    ):
        _refuse("fairness", est.fairness, "a number from 0 to 1 for each attribute that it names")
    for name, only in (("method", "optimal"), ("subspace", "model")):
        if getattr(est, name) != only:
            msg = (
                f"Separate limits for attributes are derived for {name}={only!r}, not "
                f"{getattr(est, name)!r}. Give one number for all attributes instead."
            )
            raise ValueError(msg)


def check_parameters(est: Any) -> None:
    """Refuse every hyper-parameter that cannot be, before any work is done."""
    _check_kernel(est)
    canonical_criterion(est.criterion)
    check_choice(est, "dial", ("angle", "cosine", "correlation"))
    _check_fairness(est)
    check_choice(est, "dependence", ("mean", "correlation"))
    check_choice(est, "subspace", ("model", "fair"))
    check_choice(est, "method", ("optimal", "rkhs", "paper"))
    check_choice(est, "missing_sensitive", ("raise", "omit"))
    _check_count(est, "n_slices", ("distinct",), 2)
    _check_count(est, "n_components", ("auto", "all"), 1)
    _check_count(est, "n_sensitive_directions", ("auto", "test", "all"), 1)
    _check_count(est, "n_predictive_directions", ("auto", "test"), 1)
    _check_ridge(est, "eta")
    _check_ridge(est, "alpha")
    if not isinstance(est.intersectional, bool | np.bool_):
        _refuse("intersectional", est.intersectional, "True or False")
    if isinstance(est.landmarks, str):
        check_choice(est, "landmarks", ("stratified", "rpcholesky"))
    if est.method == "paper":
        if est.alpha != "auto":
            msg = (
                f"method='paper' has a least-squares head, so alpha={est.alpha!r} has no meaning. "
                f"Leave alpha='auto', or use method='rkhs' for a ridge head in the paper's geometry."
            )
            raise ValueError(msg)
        for name in ("n_sensitive_directions", "n_predictive_directions"):
            if getattr(est, name) == "test":
                _refuse(name, "test", "'auto' or an integer with method='paper'")
        if est.missing_sensitive != "raise":
            _refuse("missing_sensitive", est.missing_sensitive, "'raise' with method='paper'")


def _check_kernel(est: Any) -> None:
    kernel, gamma = est.kernel, est.gamma
    named = isinstance(kernel, str) and kernel in kernel_names()
    if not callable(kernel) and not named:
        _refuse(
            "kernel", kernel, "one of " + ", ".join(map(repr, kernel_names())) + ", or a callable"
        )
    if isinstance(gamma, str) and gamma == "auto":
        msg = (
            "gamma='auto' is refused: in scikit-learn it means 1/n_features, which is not a choice "
            "made from the data. Give 'cv' (default), 'median', 'scale' or a positive number."
        )
        raise ValueError(msg)
    words: tuple[str, ...] = ("cv", "median", "scale")
    if hasattr(est, "log_marginal_likelihood"):
        words = (*words, "evidence")
    allowed = ", ".join(map(repr, words)) + " or a positive number"
    if isinstance(gamma, str) and gamma not in words:
        _refuse("gamma", gamma, allowed + (" (FairGPRegressor has it)" * (gamma == "evidence")))
    if isinstance(gamma, str):
        if gamma == "evidence" and (est.feature_map is not None or kernel not in WIDTH_KERNELS):
            what = "feature_map" if est.feature_map is not None else f"kernel {kernel!r}"
            msg = f"gamma='evidence' chooses a width, and the {what} has none. Leave gamma='cv'."
            raise ValueError(msg)
    elif not (_is_number(gamma) and math.isfinite(gamma) and gamma > 0):
        _refuse("gamma", gamma, allowed)
    elif est.feature_map is not None or kernel not in GAMMA_KERNELS:
        what = "feature_map" if est.feature_map is not None else f"kernel {kernel!r}"
        msg = (
            f"gamma={gamma!r} was given, but the {what} has no gamma. Leave gamma='cv' (it is then "
            f"ignored), or pass the kernel's own parameters in kernel_params."
        )
        raise ValueError(msg)
    params = est.kernel_params
    if params is not None and not isinstance(params, Mapping):
        _refuse("kernel_params", params, "a dict of the kernel's parameters, or None")
    if params and "gamma" in params:
        msg = "kernel_params holds 'gamma'; pass it as gamma= so that there is one place for it."
        raise ValueError(msg)
    if params and not callable(kernel):
        known = sorted(set(KERNEL_PARAMS.get(kernel, ())) - {"gamma"})
        unknown = sorted(set(params) - set(known))
        if unknown:
            msg = (
                f"kernel_params holds {unknown[0]!r}, which kernel {kernel!r} does not read; it "
                f"reads {', '.join(map(repr, known)) or 'nothing'}."
            )
            raise ValueError(msg)
    if est.feature_map is not None and not hasattr(est.feature_map, "transform"):
        _refuse("feature_map", est.feature_map, "a scikit-learn transformer, or None")


# A fitted model can be moved to another value of these without a new fit.
_FREE = frozenset(("fairness", "dial", "verbose"))


class FitConfig:
    """The parameters of an estimator at the time of its fit, one attribute each.

    Arrays, dicts and lists are copied, and a nested estimator is kept as its type and its parameters,
    so later changes in place are found too. Functions and random generators are kept as they are.
    """

    def __init__(self, est: Any) -> None:
        vars(self).update(_snapshot(est.get_params(deep=False)))

    def changes(self, est: Any) -> list[str]:
        """Names of the parameters that differ now and would need another fit."""
        now = _snapshot(est.get_params(deep=False))
        return [k for k, v in vars(self).items() if k not in _FREE and not _equal(v, now.get(k))]


def _snapshot(value: Any) -> Any:
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value), _snapshot(value.get_params(deep=False))
    if isinstance(value, Mapping):
        return {key: _snapshot(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_snapshot(part) for part in value]
    if is_tensor(value) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        return np.array(to_numpy(value))
    return value


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
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
