"""Checks of parameters that depend on each other."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS

from fairspan.inputs.probabilities import has_probabilities
from fairspan.method.kernels import GAMMA_KERNELS, WIDTH_KERNELS, kernel_names
from fairspan.method.problem import FitConfig


def refuse(name: str, value: object, allowed: str) -> None:
    """Raise the error for a value that is not allowed."""
    raise ValueError(f"{name}={value!r} is not allowed; give {allowed}.")


def is_number(value: object) -> bool:
    """Whether it is a real number, not a boolean, within the range of floats."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        return False
    try:
        float(value)
    except OverflowError:  # an integer of hundreds of digits
        return False
    return True


def check_fairness(config: FitConfig) -> None:
    """Raise for a dial value that is not allowed."""
    fairness = config.fairness
    if not isinstance(fairness, Mapping):
        if not is_number(fairness) or not 0.0 <= fairness <= 1.0:
            refuse("fairness", fairness, "a number from 0 (unconstrained) to 1 (fairest)")
        return
    if config.dial != "correlation":
        raise ValueError(
            f"fairness={fairness!r} gives every attribute a value of its own, which only "
            f"dial='correlation' can read (1 - fairness is the largest correlation), not {config.dial!r}."
        )
    if not fairness or not all(is_number(v) and 0.0 <= v <= 1.0 for v in fairness.values()):
        refuse("fairness", fairness, "a number from 0 to 1 for each attribute that it names")
    for name, only in (("method", "optimal"), ("subspace", "model")):
        if getattr(config, name) != only:
            raise ValueError(
                f"Separate limits for attributes are derived for {name}={only!r}, not "
                f"{getattr(config, name)!r}. Give one number for all attributes instead."
            )


def check_removal(config: FitConfig) -> None:
    """Raise for a removal or a dial that has no form with the other parameters."""
    obstacle = config.without_new_rows_form
    if config.removal == "new_rows" and obstacle is not None:
        raise ValueError(
            f"removal='new_rows' has no form with {obstacle}. Use removal='training_rows' (or 'auto', "
            f"which chooses it), or the default of that parameter."
        )
    if config.dial == "share" and not config.removes_on_new_rows:
        reason = obstacle or "removal='training_rows'"
        raise ValueError(
            f"dial='share' is for removal='new_rows', but with {reason} the dependence is removed on the "
            f"training rows. Use dial='angle', or 'auto'."
        )


def check_private(config: FitConfig) -> None:
    """Raise for parameters that a fit which is private in S has no form for."""
    epsilon, delta, state = config.epsilon_sensitive, config.delta_sensitive, config.noise_state
    if epsilon is None:
        for name, value in (("sensitive_groups", config.sensitive_groups), ("noise_state", state)):
            if value is not None:
                raise ValueError(f"{name} is for epsilon_sensitive; without it, it has no effect.")
        return
    if not is_number(epsilon) or not 0.0 < epsilon < math.inf:
        refuse("epsilon_sensitive", epsilon, "a positive number, e.g. 1.0, or None")
    if not is_number(delta) or not 0.0 < delta < 0.1:
        refuse("delta_sensitive", delta, "a small positive number, far below 1/n, e.g. 1e-6")
    if state is not None and (isinstance(state, bool) or not isinstance(state, int) or state < 0):
        refuse("noise_state", state, "None, or for tests a whole number of at least 0")
    if config.sensitive_groups is None:
        raise ValueError(
            "epsilon_sensitive needs sensitive_groups, the names of all groups that there can be, e.g. "
            "sensitive_groups=['female', 'male'], or a dict by attribute. The rows cannot tell them, because "
            "that would reveal which groups occur."
        )
    if not config.removes_on_new_rows:
        obstacle = config.without_new_rows_form or "removal='training_rows'"
        raise ValueError(
            f"epsilon_sensitive has a form for removal on new rows only, which {obstacle} excludes."
        )
    kinds = config.sensitive_kind
    if not isinstance(kinds, str) or kinds not in ("auto", "categorical"):
        raise ValueError(
            f"sensitive_kind={kinds!r}: with epsilon_sensitive, attributes are groups that "
            f"sensitive_groups names. Cut numbers into intervals first, at edges chosen without the rows."
        )
    if config.missing_sensitive != "raise":
        raise ValueError(
            f"missing_sensitive={config.missing_sensitive!r} is not possible with epsilon_sensitive: it "
            f"would reveal which rows have S. Give the others a group of their own, e.g. 'unknown'."
        )
    if config.curvature == "likelihood":
        raise ValueError(
            "curvature='likelihood' has no form with epsilon_sensitive; use 'constant'."
        )


def check_paper(config: FitConfig) -> None:
    """Raise for parameters that the paper's algorithms do not have."""
    if config.variant.exact:
        return
    if config.alpha != "auto":
        raise ValueError(
            f"method='paper' has a least-squares head, so alpha={config.alpha!r} has no meaning. "
            f"Leave alpha='auto', or use method='rkhs' for a ridge head in the paper's geometry."
        )
    for name in ("n_sensitive_directions", "n_predictive_directions"):
        if getattr(config, name) == "test":
            refuse(name, "test", "'auto' or an integer with method='paper'")
    if config.missing_sensitive != "raise":
        refuse("missing_sensitive", config.missing_sensitive, "'raise' with method='paper'")


def check_probabilities(config: FitConfig) -> None:
    """Raise for parameters that need the group of each row, if S is given as probabilities."""
    if not has_probabilities(config.sensitive_kind):
        return
    if not config.variant.exact:
        raise ValueError(
            "sensitive_kind='probabilities' does not go with method='paper', whose codes are groups. Use "
            "method='optimal' or 'rkhs'."
        )
    if config.intersectional:
        raise ValueError(
            "intersectional=True needs the probability of each combination of groups, which those of single "
            "attributes do not tell. Give one table with a column for each combination."
        )
    if config.equalize == "decisions":
        raise ValueError(without_decisions_form(config))


def check_confidence(confidence: Any) -> None:
    """Raise unless it is a probability above one half."""
    if not is_number(confidence) or not 0.5 < confidence < 1.0:
        refuse("confidence", confidence, "a number above 0.5 and below 1, e.g. 0.95, or None")


def check_new_fit(config: FitConfig) -> None:
    """Raise for a parameter without effect. Only a new fit is checked: version 0.1.0 saved such models."""
    if config.dependence != "mean" and not config.variant.exact:
        raise ValueError(
            f"method='paper' takes slices of a continuous S, so dependence={config.dependence!r} has no "
            f"effect. Leave dependence='mean', or use method='rkhs', which has the paper's geometry."
        )


def check_kernel(config: FitConfig, *, evidence: bool) -> None:
    """Check kernel, width and kernel parameters, which depend on each other."""
    kernel: Any = config.kernel  # not checked yet, so of any type
    gamma = config.gamma
    params: Any = config.kernel_params
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in kernel_names()):
        names = ", ".join(map(repr, kernel_names()))
        refuse("kernel", kernel, f"one of {names}, or a callable")
    if isinstance(gamma, str) and gamma == "auto":
        raise ValueError(
            "gamma='auto' is refused: in scikit-learn it means 1/n_features, which is not a choice "
            "made from the data. Give 'cv' (default), 'median', 'scale' or a positive number."
        )
    words = ("cv", "median", "scale", *(("evidence",) if evidence else ()))
    allowed = ", ".join(map(repr, words)) + " or a positive number"
    if isinstance(gamma, str) and gamma not in words:
        refuse("gamma", gamma, allowed + (" (FairGPRegressor has it)" * (gamma == "evidence")))
    owner = "feature_map" if config.feature_map is not None else f"kernel {kernel!r}"
    if isinstance(gamma, str):
        if gamma == "evidence" and (config.feature_map is not None or kernel not in WIDTH_KERNELS):
            msg = f"gamma='evidence' chooses a width, and the {owner} has none. Leave gamma='cv'."
            raise ValueError(msg)
    elif not (is_number(gamma) and math.isfinite(gamma) and gamma > 0):
        refuse("gamma", gamma, allowed)
    elif config.feature_map is not None or kernel not in GAMMA_KERNELS:
        raise ValueError(
            f"gamma={gamma!r} was given, but the {owner} has no gamma. Leave gamma='cv' (it is then "
            f"ignored), or pass the kernel's own parameters in kernel_params."
        )
    if params is not None and not isinstance(params, Mapping):
        refuse("kernel_params", params, "a dict of the kernel's parameters, or None")
    if params and "gamma" in params:
        msg = "kernel_params holds 'gamma'; pass it as gamma= so that there is one place for it."
        raise ValueError(msg)
    if params and not callable(kernel):
        known = sorted(set(KERNEL_PARAMS.get(kernel, ())) - {"gamma"})
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ValueError(
                f"kernel_params holds {unknown[0]!r}, which kernel {kernel!r} does not read; it "
                f"reads {', '.join(map(repr, known)) or 'nothing'}."
            )
    if config.feature_map is not None and not hasattr(config.feature_map, "transform"):
        refuse("feature_map", config.feature_map, "a scikit-learn transformer, or None")


def check_regression_process(config: FitConfig) -> None:
    """Raise for parameters of a process for numbers that do not go together."""
    if config.mean == "linear" and (
        config.feature_map is not None or config.kernel in ("linear", "precomputed")
    ):
        owner = "a feature_map" if config.feature_map is not None else f"kernel={config.kernel!r}"
        msg = f"mean='linear' adds a trend to a kernel on X; with {owner} it has no meaning."
        raise ValueError(msg)
    if (config.inference == "em-paper") == config.variant.exact:
        raise ValueError(
            f"inference={config.inference!r} with method={config.method!r}: 'em-paper' and "
            f"method='paper' go together, as the authors' EM belongs to their algorithm only."
        )
    isotropic = isinstance(config.prior, str) and config.prior == "isotropic"
    if config.subspace == "fair" and not isotropic:
        msg = "subspace='fair' has an isotropic prior on all of F; use prior='isotropic'."
        raise ValueError(msg)


def check_label_process(config: FitConfig) -> None:
    """Raise for parameters of a process for labels that do not go together."""
    if config.likelihood == "gaussian" and config.class_weight is not None:
        msg = "class_weight is for likelihood='logistic'; pass sample_weight with 'gaussian'."
        raise ValueError(msg)
    if config.likelihood == "logistic" and not config.variant.exact:
        msg = "method='paper' classifies by regression on -1 and 1; use likelihood='gaussian'."
        raise ValueError(msg)


def one_minus(max_correlation: Any) -> Any:
    """Fairness on the correlation dial for a limit, or for one limit per attribute."""
    limits = max_correlation if isinstance(max_correlation, Mapping) else {"": max_correlation}
    for limit in limits.values():
        number = isinstance(limit, int | float | np.number) and not isinstance(limit, bool)
        if not number or not 0.0 <= limit <= 1.0:
            raise ValueError(
                f"max_correlation={max_correlation!r} is not allowed; give a number from 0 to 1, or a "
                f"dict with one for each attribute that is to have a limit."
            )
    if isinstance(max_correlation, Mapping):
        return {name: 1.0 - float(limit) for name, limit in max_correlation.items()}
    return 1.0 - max_correlation


def without_decisions_form(config: FitConfig) -> str | None:
    """Why a fit cannot equalize decisions, whatever the dial value; None if it can."""
    if has_probabilities(config.sensitive_kind):
        return (
            "sensitive_kind='probabilities' does not go with equalize='decisions': rates by group are "
            "counted on rows whose group is known. Use equalize='scores'."
        )
    if config.private:
        return (
            "equalize='decisions' chooses rules by the rates of groups in the rows, and has no form that "
            "keeps epsilon_sensitive. Use equalize='scores'."
        )
    if not config.removes_on_new_rows:
        reason = config.without_new_rows_form or "removal='training_rows'"
        return f"equalize='decisions' needs removal on new rows, which {reason} excludes."
    if config.criterion_name == "conditional_statistical_parity":
        return (
            "equalize='decisions' has no form for criterion='conditional_statistical_parity'. Use "
            "'statistical_parity', 'equal_opportunity' or 'equalized_odds', or equalize='scores'."
        )
    if config.dependence != "mean":
        return (
            f"equalize='decisions' compares rates of groups or slices, so dependence="
            f"{config.dependence!r} has no meaning. Leave dependence='mean'."
        )
    if config.class_weight is not None:
        return "class_weight changes scores only; with equalize='decisions' give a cost_matrix."
    return None


def check_decisions(config: FitConfig) -> None:
    """Raise for parameters that do not go together with what is equalized."""
    rate, costs = config.selection_rate, config.cost_matrix
    if config.equalize == "scores":
        for name, value in (("selection_rate", rate), ("cost_matrix", costs)):
            if value is not None:
                msg = f"{name} is for equalize='decisions'; with 'scores' it has no effect."
                raise ValueError(msg)
        return
    if (obstacle := without_decisions_form(config)) is not None:
        raise ValueError(obstacle)
    if isinstance(config.fairness, Mapping) or config.dial not in ("auto", "share"):
        raise ValueError(
            "With equalize='decisions' fairness is the share of the gap between groups that is gone "
            "(dial='share'). For limits use at(max_gap=...) or at(min_ratio=...)."
        )
    if rate is not None and not (is_number(rate) and 0.0 < rate < 1.0):
        refuse("selection_rate", rate, "a number between 0 and 1, e.g. 0.2, or None")
    if costs is None:
        return
    try:
        matrix = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        refuse("cost_matrix", costs, "a square matrix: rows are classes, columns decisions")
