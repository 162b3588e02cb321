"""Hyper-parameters: one table with their documentation and checks, and the frozen record of a fit.

Invalid values raise ValueError before any computation.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS
from sklearn.utils import check_random_state

from fairspan.method.kernels import GAMMA_KERNELS, WIDTH_KERNELS, kernel_names
from fairspan.method.problem import FitConfig, Kind, canonical_criterion

__all__ = [
    "PARAMETERS",
    "Configurable",
    "check_confidence",
    "check_new_fit",
    "document_parameters",
    "read_config",
    "read_seed",
]

Check = Callable[[str, object], None]


@dataclass(frozen=True)
class Parameter:
    """One hyper-parameter: its name, allowed values and default, what it means, and how it is checked."""

    name: str
    allowed: str
    text: str
    check: Check | None = None  # parameters without one are checked together with others

    @property
    def sentence(self) -> str:
        """First sentence of the text, for short helps."""
        return re.split(r"(?<=[.;:]) ", self.text, maxsplit=1)[0].rstrip(".;:") + "."

    @property
    def entry(self) -> str:
        """Entry of the section "Parameters" of a docstring."""
        lines = inspect.cleandoc(self.text)
        return f"{self.name} : {self.allowed}\n" + _wrapped(lines)


def _wrapped(text: str, width: int = 92) -> str:
    out, line = [], "   "
    for word in text.split():
        if len(line) + 1 + len(word) > width:
            out.append(line)
            line = "   "
        line += f" {word}"
    return "\n".join([*out, line])


# ------------------------------------------------------------------ checks of single values


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


def _words(*words: str) -> Check:
    """Allow one of these words."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, str) or value not in words:
            listed = ", ".join(map(repr, words))
            _refuse(
                name, value, f"one of {listed}" if len(words) > 2 else listed.replace(", ", " or ")
            )

    return check


def _word_or_array(*words: str) -> Check:
    """Allow one of these words, or anything that is not text."""
    check_words = _words(*words)

    def check(name: str, value: object) -> None:
        if isinstance(value, str):
            check_words(name, value)

    return check


def _count(*words: str, low: int) -> Check:
    """Allow one of these words, or an integer of at least ``low``."""

    def check(name: str, value: object) -> None:
        ok_word = isinstance(value, str) and value in words
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not (ok_word or (is_integer and value >= low)):  # type: ignore[operator]
            listed = "".join(f"{word!r}, " for word in words)
            _refuse(name, value, f"{listed}or an integer of at least {low}")

    return check


def _ridge(name: str, value: object) -> None:
    positive = _is_number(value) and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]
    if not (positive or (isinstance(value, str) and value == "auto")):
        _refuse(name, value, "'auto' or a positive number")


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        _refuse(name, value, "True or False")


def _criterion(name: str, value: object) -> None:  # noqa: ARG001
    canonical_criterion(value)


def _prior(name: str, value: object) -> None:
    if isinstance(value, str) and value not in ("isotropic", "ard"):
        _refuse(name, value, "'isotropic', 'ard' or an array")


def _class_weight(name: str, value: object) -> None:
    named = isinstance(value, str) and value == "balanced"
    if not (value is None or isinstance(value, Mapping) or named):
        _refuse(name, value, "a dict, 'balanced' or None")


# ------------------------------------------------------------------ the table

_TABLE = (
    Parameter(
        "kernel",
        'str or callable, default="rbf"',
        'Kernel: "rbf", "laplacian", "polynomial", "linear", any scikit-learn pairwise '
        'kernel name, "precomputed", or a callable (two matrices -> Gram matrix, or two '
        "rows -> number).",
    ),
    Parameter(
        "gamma",
        '{"cv", "median", "scale"} or float, default="cv"',
        'Width of the kernel. "cv" picks 1/(m median)^2 by 5-fold error over m in (0.7, '
        '1.5, 3) on a subsample; "median" uses m = 1.5 (also when y is not given).',
    ),
    Parameter(
        "kernel_params",
        "dict, optional",
        "Further parameters of the kernel (degree, coef0, ...).",
    ),
    Parameter(
        "feature_map",
        "transformer, optional",
        "Coordinates of your own instead of a kernel: random features, tree embeddings, a "
        "network's last layer. Cloned and fitted on X (and y).",
    ),
    Parameter(
        "n_components",
        '"auto", "all" or int, default="auto"',
        'Number of landmarks. "auto": all distinct rows (the exact method) up to 1000 rows, '
        '1000 landmarks beyond. "all": exact at any size, O(n^3).',
        check=_count("auto", "all", low=1),
    ),
    Parameter(
        "landmarks",
        '{"stratified", "rpcholesky"} or array, default="stratified"',
        "How landmarks are chosen: an equal quota for every combination of S and y, "
        "randomly pivoted Cholesky, or rows of your own.",
        check=_word_or_array("stratified", "rpcholesky"),
    ),
    Parameter(
        "criterion",
        'str, default="statistical_parity"',
        'Fairness criterion: "statistical_parity" ("demographic_parity", "sp", '
        '"proxy_nondiscrimination"), "equalized_odds" ("eo"), "equal_opportunity" ("eop", '
        '"true_positive_rate_parity"), or "conditional_statistical_parity".',
        check=_criterion,
    ),
    Parameter(
        "fairness",
        "float in [0, 1] or dict, default=1.0",
        "Fairness of the model, from 0 (unconstrained) to 1 (fairest). A dict, on "
        '``dial="correlation"`` only, has one value for each attribute it names: see '
        ":meth:`at`.",
    ),
    Parameter(
        "dial",
        '{"auto", "share", "angle", "cosine", "correlation"}, default="auto"',
        'Scale of ``fairness``. "share": share of the dependence expected on new rows that is gone '
        '(only if it is removed on new rows). "angle": share of the angle to the fairest model that '
        'is closed. "cosine": the paper\'s epsilon. "correlation": 1 - the largest correlation '
        'allowed, expected on new rows or in sample as ``removal`` asks. "auto" is "share" if the '
        'dependence is removed on new rows, else "angle".',
        check=_words("auto", "share", "angle", "cosine", "correlation"),
    ),
    Parameter(
        "sensitive_kind",
        'str, list or dict, default="auto"',
        'Kind of the protected attributes, "categorical" or "continuous", for all or for '
        'each. With "auto", booleans, text, two values and integers with at most 20 values '
        "are categorical, the rest continuous.",
    ),
    Parameter(
        "dependence",
        '{"mean", "correlation"}, default="mean"',
        "For a continuous S: remove E[f | S] on quantile slices, or only the linear correlation "
        '(not with ``method="paper"``).',
        check=_words("mean", "correlation"),
    ),
    Parameter(
        "n_slices",
        'int or "distinct", default=10',
        'Quantile slices of a continuous S and of a numeric y; "distinct" is one per value.',
        check=_count("distinct", low=2),
    ),
    Parameter(
        "intersectional",
        "bool, default=False",
        "Constrain the crossed categories as one attribute instead of each attribute by itself.",
        check=_flag,
    ),
    Parameter(
        "pos_label",
        "label, optional",
        "Positive class for equal opportunity; the larger of two labels by default.",
    ),
    Parameter(
        "n_sensitive_directions",
        '{"auto", "test", "all"} or int, default="auto"',
        'Directions removed per attribute and cell. "auto": all for categories, a '
        "sequential test for slices (at least one).",
        check=_count("auto", "test", "all", low=1),
    ),
    Parameter(
        "n_predictive_directions",
        '{"auto", "test"} or int, default="auto"',
        'Predictive directions. "auto": the ridge direction for a numeric y, all K - 1 for '
        "classes. An integer asks for that many sliced-inverse-regression directions, with "
        'the ridge direction appended. With ``subspace="fair"`` it is the number of '
        "components.",
        check=_count("auto", "test", low=1),
    ),
    Parameter(
        "eta",
        '"auto" or float, default="auto"',
        'Ridge of the regressions of S (covariance units); "auto" is generalised cross- '
        "validation.",
        check=_ridge,
    ),
    Parameter(
        "alpha",
        '"auto" or float, default="auto"',
        'Ridge of the prediction of y, in the units of scikit-learn\'s ``Ridge``; "auto" is '
        "5-fold.",
        check=_ridge,
    ),
    Parameter(
        "subspace",
        '{"model", "fair"}, default="model"',
        'Space of the models. "model": the d functions of the model space. "fair": the '
        "leading principal components of all of F, as many as carry 99 % of its variance "
        "(or ``n_predictive_directions`` of them). Every *linear* model on them has zero "
        "in-sample covariance with the codes of S at ``fairness=1``; nonlinear models on "
        'them may recover S. Then y is optional for statistical parity (with ``gamma="cv"`` '
        'replaced by "median").',
        check=_words("model", "fair"),
    ),
    Parameter(
        "method",
        '{"optimal", "rkhs", "paper"}, default="optimal"',
        'Geometry and removal. "optimal": exact removal, distance between predictions. '
        '"rkhs": exact removal, distance in the RKHS. "paper": Algorithms 1 and 2 as '
        "printed, for reproduction.",
        check=_words("optimal", "rkhs", "paper"),
    ),
    Parameter(
        "removal",
        '{"auto", "new_rows", "training_rows"}, default="auto"',
        'Rows on which the fairest model has no dependence on S. "new_rows": none is expected on '
        "rows that the model has not seen, by regressions of y and S that are fitted and compared "
        'on different folds. "training_rows": exactly none on the training rows, which leaves a '
        'bias on new rows. "auto" is "new_rows" with ``method="optimal"`` and '
        '``subspace="model"``, unless the kernel is precomputed, ``n_predictive_directions`` is '
        'given or a fold has fewer than 10 rows; else "training_rows".',
        check=_words("auto", "new_rows", "training_rows"),
    ),
    Parameter(
        "missing_sensitive",
        '{"raise", "omit"}, default="raise"',
        "What to do with rows without S: raise an error, or leave them out of that "
        "attribute's constraint.",
        check=_words("raise", "omit"),
    ),
    Parameter(
        "random_state",
        "int, RandomState or None",
        "Seed of the landmarks, the subsample for the bandwidth, and the folds.",
    ),
    Parameter(
        "verbose",
        "int, default=0",
        "Print memory and progress if 1.",
    ),
)

# Parameters that one estimator has; its docstring describes them.
_OWN_CHECKS: dict[str, Check] = {
    "prior": _prior,
    "inference": _words("evidence", "em-paper"),
    "mean": _words("constant", "linear"),
    "likelihood": _words("logistic", "gaussian"),
    "calibrate": _flag,
    "curvature": _words("likelihood", "constant"),
    "class_weight": _class_weight,
}

PARAMETERS = {parameter.name: parameter for parameter in _TABLE}

Class = TypeVar("Class", bound=type)

_SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=\n\n\S[^\n]*\n-+$)", re.M | re.S)
_ENTRY = re.compile(r"^\S.*?(?=^\S|\Z)", re.M | re.S)


def document_parameters(cls: Class) -> Class:
    """Class decorator: fill the section "Parameters" of a docstring from the table.

    Entries of the docstring itself replace those of the table. The order is that of the signature.
    """
    if not cls.__doc__:  # python -OO
        return cls
    doc = inspect.cleandoc(cls.__doc__)
    section = _SECTION.search(doc)
    assert section is not None
    own = {text.partition(":")[0].strip(): text.rstrip() for text in _ENTRY.findall(section[0])}
    entries = [
        own[name] if name in own else PARAMETERS[name].entry
        for name in inspect.signature(cls).parameters
    ]
    cls.__doc__ = _SECTION.sub(lambda _: "\n".join(entries), doc, count=1)
    return cls


# ------------------------------------------------------------------ from an estimator to a record


class Configurable(Protocol):
    """An estimator with parameters, and what its class fixes."""

    _target_kind: Kind | None
    _likelihood: str | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""


def read_config(estimator: Configurable) -> FitConfig:
    """Check the parameters of an estimator and freeze them."""
    params = estimator.get_params(deep=False)
    fixed = {"estimator": type(estimator).__name__, "target_kind": estimator._target_kind}
    config = FitConfig(**{"likelihood": estimator._likelihood, **params, **fixed})
    _check_kernel(config, evidence="prior" in params and config.likelihood == "gaussian")
    for name, value in params.items():
        check = PARAMETERS[name].check if name in PARAMETERS else _OWN_CHECKS.get(name)
        if check is not None:
            check(name, value)
    _check_fairness(config)
    _check_removal(config)
    _check_paper(config)
    if "prior" in params:
        _check_regression_process(config)
    if "class_weight" in params:
        _check_label_process(config)
    return config


def _check_fairness(config: FitConfig) -> None:
    fairness = config.fairness
    if not isinstance(fairness, Mapping):
        if not _is_number(fairness) or not 0.0 <= fairness <= 1.0:
            _refuse("fairness", fairness, "a number from 0 (unconstrained) to 1 (fairest)")
        return
    if config.dial != "correlation":
        msg = (
            f"fairness={fairness!r} gives every attribute a value of its own, which only "
            f"dial='correlation' can read (1 - fairness is the largest correlation), not {config.dial!r}."
        )
        raise ValueError(msg)
    if not fairness or not all(_is_number(v) and 0.0 <= v <= 1.0 for v in fairness.values()):
        _refuse("fairness", fairness, "a number from 0 to 1 for each attribute that it names")
    for name, only in (("method", "optimal"), ("subspace", "model")):
        if getattr(config, name) != only:
            msg = (
                f"Separate limits for attributes are derived for {name}={only!r}, not "
                f"{getattr(config, name)!r}. Give one number for all attributes instead."
            )
            raise ValueError(msg)


def _check_removal(config: FitConfig) -> None:
    obstacle = config.without_new_rows_form
    if config.removal == "new_rows" and obstacle is not None:
        msg = (
            f"removal='new_rows' has no form with {obstacle}. Use removal='training_rows' (or 'auto', "
            f"which chooses it), or the default of that parameter."
        )
        raise ValueError(msg)
    if config.dial == "share" and not config.removes_on_new_rows:
        reason = obstacle or "removal='training_rows'"
        msg = (
            f"dial='share' is for removal='new_rows', but with {reason} the dependence is removed on the "
            f"training rows. Use dial='angle', or 'auto'."
        )
        raise ValueError(msg)


def _check_paper(config: FitConfig) -> None:
    """Raise for parameters that the paper's algorithms do not have."""
    if config.variant.exact:
        return
    if config.alpha != "auto":
        msg = (
            f"method='paper' has a least-squares head, so alpha={config.alpha!r} has no meaning. "
            f"Leave alpha='auto', or use method='rkhs' for a ridge head in the paper's geometry."
        )
        raise ValueError(msg)
    for name in ("n_sensitive_directions", "n_predictive_directions"):
        if getattr(config, name) == "test":
            _refuse(name, "test", "'auto' or an integer with method='paper'")
    if config.missing_sensitive != "raise":
        _refuse("missing_sensitive", config.missing_sensitive, "'raise' with method='paper'")


def check_confidence(confidence: Any) -> None:
    """Raise unless it is a probability above one half."""
    if not _is_number(confidence) or not 0.5 < confidence < 1.0:
        _refuse("confidence", confidence, "a number above 0.5 and below 1, e.g. 0.95, or None")


def check_new_fit(config: FitConfig) -> None:
    """Raise for a parameter without effect. Only a new fit is checked: version 0.1.0 saved such models."""
    if config.dependence != "mean" and not config.variant.exact:
        msg = (
            f"method='paper' takes slices of a continuous S, so dependence={config.dependence!r} has no "
            f"effect. Leave dependence='mean', or use method='rkhs', which has the paper's geometry."
        )
        raise ValueError(msg)


def _check_kernel(config: FitConfig, *, evidence: bool) -> None:
    """Check kernel, width and kernel parameters, which depend on each other."""
    kernel: Any = config.kernel  # not checked yet, so of any type
    gamma = config.gamma
    params: Any = config.kernel_params
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in kernel_names()):
        names = ", ".join(map(repr, kernel_names()))
        _refuse("kernel", kernel, f"one of {names}, or a callable")
    if isinstance(gamma, str) and gamma == "auto":
        msg = (
            "gamma='auto' is refused: in scikit-learn it means 1/n_features, which is not a choice "
            "made from the data. Give 'cv' (default), 'median', 'scale' or a positive number."
        )
        raise ValueError(msg)
    words = ("cv", "median", "scale", *(("evidence",) if evidence else ()))
    allowed = ", ".join(map(repr, words)) + " or a positive number"
    if isinstance(gamma, str) and gamma not in words:
        _refuse("gamma", gamma, allowed + (" (FairGPRegressor has it)" * (gamma == "evidence")))
    owner = "feature_map" if config.feature_map is not None else f"kernel {kernel!r}"
    if isinstance(gamma, str):
        if gamma == "evidence" and (config.feature_map is not None or kernel not in WIDTH_KERNELS):
            msg = f"gamma='evidence' chooses a width, and the {owner} has none. Leave gamma='cv'."
            raise ValueError(msg)
    elif not (_is_number(gamma) and math.isfinite(gamma) and gamma > 0):
        _refuse("gamma", gamma, allowed)
    elif config.feature_map is not None or kernel not in GAMMA_KERNELS:
        msg = (
            f"gamma={gamma!r} was given, but the {owner} has no gamma. Leave gamma='cv' (it is then "
            f"ignored), or pass the kernel's own parameters in kernel_params."
        )
        raise ValueError(msg)
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
    if config.feature_map is not None and not hasattr(config.feature_map, "transform"):
        _refuse("feature_map", config.feature_map, "a scikit-learn transformer, or None")


def _check_regression_process(config: FitConfig) -> None:
    if config.mean == "linear" and (
        config.feature_map is not None or config.kernel in ("linear", "precomputed")
    ):
        owner = "a feature_map" if config.feature_map is not None else f"kernel={config.kernel!r}"
        msg = f"mean='linear' adds a trend to a kernel on X; with {owner} it has no meaning."
        raise ValueError(msg)
    if (config.inference == "em-paper") == config.variant.exact:
        msg = (
            f"inference={config.inference!r} with method={config.method!r}: 'em-paper' and "
            f"method='paper' go together, as the authors' EM belongs to their algorithm only."
        )
        raise ValueError(msg)
    isotropic = isinstance(config.prior, str) and config.prior == "isotropic"
    if config.subspace == "fair" and not isotropic:
        msg = "subspace='fair' has an isotropic prior on all of F; use prior='isotropic'."
        raise ValueError(msg)


def _check_label_process(config: FitConfig) -> None:
    if config.likelihood == "gaussian" and config.class_weight is not None:
        msg = "class_weight is for likelihood='logistic'; pass sample_weight with 'gaussian'."
        raise ValueError(msg)
    if config.likelihood == "logistic" and not config.variant.exact:
        msg = "method='paper' classifies by regression on -1 and 1; use likelihood='gaussian'."
        raise ValueError(msg)


def read_seed(random_state: Any) -> np.random.RandomState:
    """Random generator of a seed, with an error that names the parameter and the value."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        msg = (
            f"random_state={random_state!r} is not allowed; give None, a RandomState, or a whole number "
            f"from 0 to 2^32 - 1."
        )
        raise ValueError(msg) from error
    return generator
