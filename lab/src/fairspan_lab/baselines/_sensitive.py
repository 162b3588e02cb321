"""Protected attributes for the rivals: read, aligned, and as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.inputs.columns import align_rows, as_frame, named_columns_of, read_attributes
from fairspan.method.codes import MAX_INTEGER_CATEGORIES, Coder, infer_kind
from fairspan.method.linalg import Array
from fairspan.method.problem import Attribute
from fairspan_lab.baselines._common import Baseline, Labels

_FIT_NEEDS_S = """\
{name}.fit needs the protected attributes: `sensitive_features` was not given. Pass values, one per \
row of X: fit(X, y, sensitive_features=s); in a pipeline, stepname__sensitive_features=s, or route \
it (sklearn.set_config(enable_metadata_routing=True))."""

_PREDICT_NEEDS_S = """\
{name} reads the protected attributes when it predicts: `sensitive_features` was not given. Call \
{method}(X, sensitive_features=s) with the same attributes as in fit. Where S is not known at \
prediction time this method cannot be used."""


def read_sensitive(
    est: Baseline, X: Any, sensitive_features: Any, n: int, method: str = "fit"
) -> dict[str, Attribute]:
    """Clean attributes by name, without gaps."""
    if sensitive_features is None:
        text = _FIT_NEEDS_S if method == "fit" else _PREDICT_NEEDS_S
        raise ValueError(text.format(name=type(est).__name__, method=method))
    if named_columns_of(as_frame(X, "X"), sensitive_features, "sensitive_features") is not None:
        msg = (
            f"sensitive_features={sensitive_features!r} names columns of X. {type(est).__name__} "
            f"takes the values, one per row, and X without them."
        )
        raise ValueError(msg)
    _, sensitive_features = align_rows(X=X, sensitive_features=sensitive_features).values()
    attributes = read_attributes(sensitive_features, n, "sensitive_features", "sensitive_feature")
    for attribute in attributes.values():
        if attribute.missing.any():
            msg = (
                f"sensitive_features {attribute.name!r} is missing (NaN or None) in "
                f"{int(attribute.missing.sum())} rows. Drop those rows, or give them a category of "
                f"their own."
            )
            raise ValueError(msg)
        if method == "fit" and len(np.unique(attribute.values)) < 2:
            msg = (
                f"sensitive_features {attribute.name!r} has one value only, "
                f"{attribute.values[0]!r}: there is nothing to be fair about. Leave it out."
            )
            raise ValueError(msg)
    return attributes


def align(attributes: dict[str, Attribute], names: tuple[str, ...]) -> dict[str, Attribute]:
    """The attributes of `predict` under the names of `fit`: by name, or an array's by position."""
    if set(attributes) == set(names):
        return {name: attributes[name] for name in names}
    unnamed = all(name.startswith("sensitive_feature_") for name in attributes)
    if unnamed and len(attributes) == len(names):
        return dict(zip(names, attributes.values(), strict=True))
    msg = (
        f"sensitive_features has the attributes {', '.join(map(repr, attributes))}; fit had "
        f"{', '.join(map(repr, names))}. Give the same ones."
    )
    raise ValueError(msg)


def read_two_groups(
    est: Baseline, attributes: Mapping[str, Attribute]
) -> tuple[NDArray[np.bool_], Labels]:
    """Membership of the second of two groups, and the two values."""
    if len(attributes) != 1:
        msg = (
            f"{type(est).__name__} handles one protected attribute; sensitive_features has "
            f"{len(attributes)}: {', '.join(map(repr, attributes))}. Give one of them."
        )
        raise ValueError(msg)
    attribute = next(iter(attributes.values()))
    values, codes = np.unique(attribute.values, return_inverse=True)
    if len(values) != 2:
        msg = (
            f"{type(est).__name__} handles two groups; sensitive_features {attribute.name!r} has "
            f"{len(values)} distinct value{'s' if len(values) != 1 else ''}. Make it binary first, e.g. one "
            f"group against the rest."
        )
        raise ValueError(msg)
    return codes == 1, values


@dataclass(frozen=True)
class SensitiveCoding:
    """Frozen rule that turns attributes into numeric columns.

    ``numbers`` are used as they are, the ``coders``' levels as 0/1 indicators (without the first
    level if ``drop_first``).
    """

    names: tuple[str, ...]
    coders: tuple[Coder, ...]
    drop_first: bool

    @classmethod
    def learn(
        cls, attributes: Mapping[str, Attribute], coding: str, *, drop_first: bool = False
    ) -> SensitiveCoding:
        """``linear``: numbers stay; ``one-hot``: levels of all; ``auto``: numbers with many values stay."""
        coders = tuple(
            Coder.learn(attribute, "categorical", None)
            for attribute in attributes.values()
            if not _stays_a_number(attribute, coding)
        )
        return cls(tuple(attributes), coders, drop_first)

    def columns(self, attributes: Mapping[str, Attribute]) -> Array:
        """One column per number, one per level, in the order of the attributes."""
        coders = {coder.name: coder for coder in self.coders}
        blocks = []
        for name in self.names:
            if name not in coders:
                blocks.append(attributes[name].values.astype(np.float64)[:, None])
                continue
            codes = coders[name].codes(attributes)
            levels = np.arange(int(self.drop_first), coders[name].n_levels)
            blocks.append((codes[:, None] == levels).astype(np.float64))
        return np.concatenate(blocks, axis=1)

    def is_number(self) -> NDArray[np.bool_]:
        """Which columns are numbers rather than indicators."""
        sizes = {coder.name: coder.n_levels - int(self.drop_first) for coder in self.coders}
        parts = [np.full(sizes.get(name, 1), name not in sizes) for name in self.names]
        return np.concatenate(parts)


def _stays_a_number(attribute: Attribute, coding: str) -> bool:
    if attribute.values.dtype.kind != "f":
        return False
    if coding == "auto":
        return infer_kind(attribute) == "continuous"
    if coding == "linear":
        return True
    if (size := len(np.unique(attribute.values))) > MAX_INTEGER_CATEGORIES:
        msg = (
            f"sensitive_features {attribute.name!r} has {size} distinct values, too many for "
            f"indicators ({MAX_INTEGER_CATEGORIES} at most). Use 'linear' or 'rbf', or make groups."
        )
        raise ValueError(msg)
    return False
