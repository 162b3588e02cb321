"""Hyper-parameters: one table with their documentation and checks, and the frozen record of a fit.

Invalid values raise ValueError before any computation.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from fairspan.inputs.checks import (
    check_decisions,
    check_fairness,
    check_kernel,
    check_label_process,
    check_paper,
    check_private,
    check_probabilities,
    check_regression_process,
    check_removal,
    is_number,
    refuse,
)
from fairspan.method.problem import FitConfig, Kind, canonical_criterion

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
        indent = "    "
        text = textwrap.fill(
            self.text,
            92,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return f"{self.name} : {self.allowed}\n{text}"


# ------------------------------------------------------------------ checks of single values


def _allow(is_allowed: Callable[[Any], bool], words: str) -> Check:
    """Refuse values for which the function is False; ``words`` say what is allowed."""

    def check(name: str, value: object) -> None:
        if not is_allowed(value):
            refuse(name, value, words)

    return check


def _is_word(value: object, words: Collection[str]) -> bool:
    return isinstance(value, str) and value in words  # an array has no truth value


def _words(*words: str) -> Check:
    """Allow one of these words."""
    listed = ", ".join(map(repr, words))
    listed = f"one of {listed}" if len(words) > 2 else listed.replace(", ", " or ")
    return _allow(lambda value: _is_word(value, words), listed)


def _word_or_array(*words: str) -> Check:
    """Allow one of these words, or anything that is not text."""
    check = _words(*words)
    return lambda name, value: check(name, value) if isinstance(value, str) else None


def _count(*words: str, low: int) -> Check:
    """Allow one of these words, or an integer of at least ``low``."""

    def is_count(value: Any) -> bool:
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return _is_word(value, words) or bool(is_integer and value >= low)

    listed = "".join(f"{word!r}, " for word in words)
    return _allow(is_count, f"{listed}or an integer of at least {low}")


def _is_ridge(value: Any) -> bool:
    positive = is_number(value) and math.isfinite(value) and value > 0
    return positive or _is_word(value, ("auto",))


_ridge = _allow(_is_ridge, "'auto' or a positive number")
_flag = _allow(lambda value: isinstance(value, bool | np.bool_), "True or False")
_encoder = _allow(lambda value: value is None or _is_word(value, ("auto",)), "'auto' or None")
_prior = _allow(
    lambda value: not isinstance(value, str) or value in ("isotropic", "ard"),
    "'isotropic', 'ard' or an array",
)
_class_weight = _allow(
    lambda value: value is None or isinstance(value, Mapping) or _is_word(value, ("balanced",)),
    "a dict, 'balanced' or None",
)


def _criterion(name: str, value: object) -> None:  # noqa: ARG001
    canonical_criterion(value)


# ------------------------------------------------------------------ the table

_TABLE = (
    Parameter(
        "kernel",
        'str or callable, default="rbf"',
        'Kernel: "rbf", "laplacian", "polynomial", "linear", any scikit-learn pairwise '
        'kernel name, "precomputed", or a callable (two matrices -> Gram matrix, or two '
        'rows -> number). "linear" takes sparse X.',
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
        "network's last layer, :class:`BoostedLeaves`. Cloned and fitted on X (and y, and S if it takes "
        "``sensitive_features``).",
    ),
    Parameter(
        "n_components",
        '"auto", "all" or int, default="auto"',
        'Number of landmarks. "auto": all distinct rows (the exact method) up to 1000 rows, '
        '1000 landmarks beyond. "all": exact at any size, O(n^3). A linear kernel has landmarks only if '
        "X has more than 4000 columns and is sparse, or too wide for the memory.",
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
        'are categorical, the rest continuous. "probabilities": all columns are the groups of one '
        'attribute, with the probability of each in every row; ``{"race": "probabilities"}`` stands for '
        "the columns race_*. Then everything is about the true groups, if the probabilities are calibrated "
        "and the features depend on them only through the group.",
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
        "equalize",
        '{"scores", "decisions"}, default="scores"',
        'What is made equal between groups. "scores": the mean of ``decision_function``. "decisions": '
        "the rates at which groups get each class, by the rule of least error that does not use S; "
        "``decision_function`` is then its margin, and ``predict_proba`` is about y alone.",
        check=_words("scores", "decisions"),
    ),
    Parameter(
        "selection_rate",
        "float or None, default=None",
        "Share of the rows to select, of two classes; None selects by cost. Only with "
        '``equalize="decisions"``, e.g. 0.2.',
    ),
    Parameter(
        "cost_matrix",
        "array-like of shape (n_classes, n_classes) or None, default=None",
        'With ``equalize="decisions"``: cost of each decision (column) for each class (row), in the '
        "order of ``classes_``. Without it, every error costs 1.",
    ),
    Parameter(
        "missing_sensitive",
        '{"raise", "omit"}, default="raise"',
        "What to do with rows without S: raise an error, or leave them out of that "
        "attribute's constraint.",
        check=_words("raise", "omit"),
    ),
    Parameter(
        "encoder",
        '{"auto", None}, default="auto"',
        '"auto": :meth:`fit` turns a frame with text, categories, dates or missing values into numbers, '
        "with :func:`fairspan.table_encoder`, and predictions take such frames. Arrays and frames of "
        "numbers stay as they are. None: such frames are an error.",
        check=_encoder,
    ),
    Parameter(
        "epsilon_sensitive",
        "float or None, default=None",
        "Makes the fitted model, and everything computed from it, differentially private in the protected "
        "attributes of a row: smaller is more private. X and y are not protected. None adds no noise.",
    ),
    Parameter(
        "delta_sensitive",
        "float, default=1e-06",
        "Probability with which the bound of ``epsilon_sensitive`` may fail; far below 1/n.",
    ),
    Parameter(
        "sensitive_groups",
        "list or dict, optional",
        "With ``epsilon_sensitive``: the names of all groups that there can be, as a list for one attribute "
        "or a dict of lists by attribute. They are not taken from the rows.",
    ),
    Parameter(
        "noise_state",
        "int, optional",
        "For tests: a seed of the noise of ``epsilon_sensitive``. Anyone who knows it can take the noise "
        "away, so a model with a seed is not private. None draws the noise anew in every fit, whatever "
        "``random_state`` is.",
    ),
    Parameter(
        "random_state",
        "int, RandomState or None",
        "Seed of the landmarks, the subsample for the bandwidth, and the folds. None is 0: the same "
        "rows give the same model, in any order.",
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
    "curvature": _words("auto", "likelihood", "constant"),
    "class_weight": _class_weight,
    "refit": _flag,
    "order": _allow(lambda v: is_number(v) and v in (1, 2), "1 (means) or 2 (covariances too)"),
    "keep_target": _flag,
    "n_directions": _count("auto", low=0),
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
    _own_parameters: frozenset[str]
    _fixed_parameters: Mapping[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""


def read_config(estimator: Configurable) -> FitConfig:
    """Check the parameters of an estimator and freeze them."""
    params = estimator.get_params(deep=False)
    fixed = {"estimator": type(estimator).__name__, "target_kind": estimator._target_kind}
    of_kernel = {k: v for k, v in params.items() if k not in estimator._own_parameters}
    config = FitConfig(
        **{
            "likelihood": estimator._likelihood,
            **estimator._fixed_parameters,
            **of_kernel,
            **fixed,
        }
    )
    check_kernel(config, evidence="prior" in params and config.likelihood == "gaussian")
    for name, value in params.items():
        check = PARAMETERS[name].check if name in PARAMETERS else _OWN_CHECKS.get(name)
        if check is not None:
            check(name, value)
    check_fairness(config)
    check_removal(config)
    check_paper(config)
    check_private(config)
    check_probabilities(config)
    if "prior" in params:
        check_regression_process(config)
    if "class_weight" in params:
        check_label_process(config)
    if "equalize" in params:
        check_decisions(config)
    return config


def read_seed(random_state: Any) -> np.random.RandomState:
    """Random generator of a seed, with an error that names the parameter and the value."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state={random_state!r} is not allowed; give None, a RandomState, or a whole number "
            f"from 0 to 2^32 - 1."
        ) from error
    return generator


def draw_seed(random_state: Any) -> int:
    """A whole number from a seed; None counts as 0, so the same rows always give the same model."""
    return int(read_seed(0 if random_state is None else random_state).randint(2**31 - 1))
