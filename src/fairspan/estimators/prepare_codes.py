"""Freezing category lists, slice edges and cells on the pilot rows (METHOD 3)."""

from __future__ import annotations

import numpy as np

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.codes import (
    MAX_INTEGER_CATEGORIES,
    Cells,
    Coder,
    CrossedCoder,
    infer_kind,
    infer_kinds,
    kinds_by_name,
    warn_of_doubtful_labels,
    warn_of_few_values,
)
from fairspan.method.config import FitConfig
from fairspan.method.data import Codes, Data
from fairspan.method.linalg import Array
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.removal import refuse_attribute
from fairspan.method.sdr import MIN_ROWS, usable_levels

_MAX_GROUPS = 20


def _kinds(config: FitConfig, data: Data) -> dict[str, str]:
    wanted = kinds_by_name(config.sensitive_kind, list(data.sensitive))
    auto = {name: data.sensitive[name] for name, kind in wanted.items() if kind == "auto"}
    if not config.variant.exact and config.max_slices is None:  # every value is a level in any case
        guessed = {name: infer_kind(attribute) for name, attribute in auto.items()}
    else:
        guessed = infer_kinds(auto)
    return {name: guessed.get(name, kind) for name, kind in wanted.items()}


def learn_coders(config: FitConfig, data: Data) -> list[Coder | CrossedCoder]:
    """One coder per protected attribute, and one for their combinations if these are asked for."""
    warn_of_doubtful_labels(data.sensitive, "sensitive_features")
    coders: list[Coder] = []
    for name, kind in _kinds(config, data).items():
        attribute = data.sensitive[name]
        distinct = np.unique(attribute.values[~attribute.missing])
        if len(distinct) < 2:
            only = f"only {distinct[0].item()!r}" if len(distinct) else "no value at all"
            msg = (
                f"sensitive_features {name!r} is constant ({only}); there is nothing to be fair "
                f"about. Leave it out."
            )
            raise ValueError(msg)
        if config.max_slices is None and kind == "continuous" and len(distinct) > data.n / 2:
            msg = (
                f"n_slices='distinct' would cut sensitive_features {name!r} into {len(distinct)} "
                f"slices for {data.n} rows; more than half of them single. Give an integer n_slices."
            )
            raise ValueError(msg)
        coder = Coder.learn(attribute, kind, config.max_slices, data.weights)  # type: ignore[arg-type]
        if kind == "categorical" and config.variant.exact:
            counts = np.bincount(
                coder.codes(data.sensitive)[~attribute.missing], minlength=coder.n_levels
            )
            _warn_groups(name, coder, counts)
        coders.append(coder)
    if config.intersectional and len(coders) > 1:
        crossed = CrossedCoder.learn(coders, data.sensitive)
        codes = crossed.codes(data.sensitive)
        _warn_groups(
            crossed.name, crossed, np.bincount(codes[codes >= 0], minlength=crossed.n_levels)
        )
        return [crossed]
    return list(coders)


def _warn_groups(name: str, coder: Coder | CrossedCoder, counts: Codes) -> None:
    labels = coder.labels  # made anew at every look
    small = [f"{labels[h]!r} ({n} rows)" for h, n in enumerate(counts) if n < MIN_ROWS]
    if small:
        warn_user(
            f"Attribute {name!r} has groups of fewer than {MIN_ROWS} rows, which are left out of its "
            f"constraint: {', '.join(small[:5])}{', ...' if len(small) > 5 else ''}. Merge them with "
            f"others, or collect more.",
            DataWarning,
        )
    if coder.n_levels > _MAX_GROUPS:
        warn_user(
            f"Attribute {name!r} has {coder.n_levels} groups; parity between so many costs accuracy "
            f"and is estimated from few rows each. If it is a number, pass "
            f"sensitive_kind={ {name: 'continuous'} }.",
            DataWarning,
        )


def learn_target(config: FitConfig, data: Data) -> Coder | None:
    """The coder of y; None without y."""
    if data.y is None:
        return None
    wanted = config.target_kind
    kind = wanted or infer_kind(data.y)
    warn_of_doubtful_labels({"y": data.y}, "target")
    distinct = np.unique(data.y.values)
    numbers = distinct.dtype.kind == "f"
    if wanted == "continuous" and not numbers:
        msg = (
            f"y does not hold numbers (its first value is {distinct[0].item()!r}), which "
            f"{config.estimator} needs. For classes use a classifier, e.g. FairRidgeClassifier."
        )
        raise ValueError(msg)
    if wanted == "categorical" and numbers and (distinct != np.floor(distinct)).any():
        msg = (
            f"Unknown label type: continuous. y holds numbers with decimals, and {config.estimator} "
            f"needs classes. Use a regressor, e.g. FairRidge, or turn y into text."
        )
        raise ValueError(msg)
    few = numbers and len(distinct) <= MAX_INTEGER_CATEGORIES
    if wanted is None and kind == "continuous" and few and (distinct == np.floor(distinct)).all():
        warn_user(
            f"y holds {len(distinct)} distinct whole numbers as floats, and {config.estimator} reads "
            f"floats as amounts. If they are classes, give integers or text, e.g. y.astype(int).",
            DataWarning,
        )
    if len(distinct) < 2 and kind == "categorical":
        msg = f"y holds one class only ({distinct[0].item()!r}); two or more are needed to learn from it."
        raise ValueError(msg)
    if config.max_slices is None and kind == "continuous" and len(distinct) > data.n / 2:
        msg = (
            f"n_slices='distinct' would cut y into {len(distinct)} slices for {data.n} rows. Give an "
            f"integer n_slices, or round y."
        )
        raise ValueError(msg)
    return Coder.learn(data.y, kind, config.max_slices, data.weights)


def learn_cells(config: FitConfig, data: Data, target: Coder | None) -> Cells:
    """The cells in which the criterion asks for parity."""
    criterion = config.criterion_name
    if config.pos_label is not None and target is not None and target.kind == "categorical":
        _positive_class(
            config, data, target
        )  # a class that y does not have is an error in any case
    if criterion == "statistical_parity":
        return Cells("all", ("all rows",))
    if criterion == "conditional_statistical_parity":
        warn_of_doubtful_labels(data.control, "control_features")
        warn_of_few_values(data.control, config.max_slices, "control_features")
        parts = [
            Coder.learn(attribute, infer_kind(attribute), config.max_slices, data.weights)
            for attribute in data.control.values()
        ]
        strata = CrossedCoder.learn(parts, data.control)
        prefix = " x ".join(data.control)
        return Cells("strata", tuple(f"{prefix}={label}" for label in strata.labels), strata=strata)
    assert target is not None
    if criterion == "equalized_odds":
        sign = "=" if target.kind == "categorical" else " "
        return Cells("target", tuple(f"y{sign}{label}" for label in target.labels))
    if target.kind == "continuous":
        msg = (
            "criterion='equal_opportunity' needs classes: y is numeric. For a numeric y use "
            "criterion='equalized_odds', which asks for independence within slices of y."
        )
        raise ValueError(msg)
    positive = _positive_class(config, data, target)
    return Cells("class", (f"y={target.labels[positive]}",), positive=positive)


def _positive_class(config: FitConfig, data: Data, target: Coder) -> int:
    assert data.classes is not None
    classes = data.classes.in_order_of(target).tolist()
    if config.pos_label is not None:
        if config.pos_label not in classes:
            msg = f"pos_label={config.pos_label!r} is not in y, whose classes are {classes}."
            raise ValueError(msg)
        return int(classes.index(config.pos_label))
    if len(classes) == 2 and not isinstance(classes[0], str):
        return 1  # scikit-learn's convention: the larger label is the positive one
    msg = f"y has {len(classes)} classes ({classes[:5]}); pass pos_label to say which one is the opportunity."
    raise ValueError(msg)


def check_levels(pilot: Pilot, encoded: Encoded, config: FitConfig, weights: Array | None) -> None:
    """Raise if no cell can constrain an attribute, before the pass over the data."""
    min_rows = config.variant.min_rows
    numeric = [coder.name for coder in pilot.numeric]
    for j, coder in enumerate(pilot.coders):
        usable = False
        by_value = config.removes_correlation_only(coder.kind)
        for c in range(pilot.cells.n_constrained):
            inside = encoded.cells == c
            if by_value:
                v = encoded.values[inside, numeric.index(coder.name)]
                v = v[np.isfinite(v)]
                usable |= len(v) >= 2 * min_rows and np.ptp(v) > 0.0
                continue
            codes = encoded.levels[inside, j]
            known = codes >= 0
            rows = np.bincount(codes[known], minlength=coder.n_levels)
            weight = rows
            if weights is not None:
                weight = np.bincount(codes[known], weights[inside][known], coder.n_levels)
            groups = usable_levels(
                rows.tolist(),
                weight.tolist(),
                ordered=coder.kind == "continuous",
                min_rows=min_rows,
            )
            usable |= len(groups) >= 2
        if not usable:
            refuse_attribute(coder.name, pilot.cells, min_rows)
