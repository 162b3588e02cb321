"""Protected attributes become codes, criteria become cells (METHOD 3).

Everything here is frozen before the first moment is taken: category lists, slice edges, strata.
Codes come back in SAMPLE order, -1 where the value is missing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.data import Attribute, Codes, Kind
from fairspan.method.linalg import Array, is_tensor, to_home, to_numpy

__all__ = [
    "Cells",
    "Coder",
    "CrossedCoder",
    "code_slices",
    "infer_kind",
    "infer_kinds",
    "numbered",
    "slice_edges",
    "warn_of_doubtful_labels",
    "warn_of_few_values",
]

MAX_INTEGER_CATEGORIES = 20
# Numbers with fewer distinct values may be codes of groups (1 = "white", ...).
_FEW_VALUES = 50
# Labels shown in a warning.
_SHOWN = 5
# What `str` makes of missing values, and empty text.
_MISSING_AS_TEXT = frozenset(("", "nan", "NaN", "None", "<NA>", "NaT"))


def infer_kind(attribute: Attribute) -> Kind:
    """Categorical or continuous, by the stated rule.

    Booleans, strings and anything with two distinct values are categorical; integers with at most
    20 distinct values too; other integers and other floats are continuous.
    """
    if attribute.dtype_kind in "bU":
        return "categorical"
    n_distinct = len(np.unique(attribute.values[~attribute.missing]))
    if n_distinct <= 2:
        return "categorical"
    if attribute.dtype_kind == "i" and n_distinct <= MAX_INTEGER_CATEGORIES:
        return "categorical"
    return "continuous"


def infer_kinds(attributes: Mapping[str, Attribute]) -> dict[str, Kind]:
    """Kinds of protected attributes whose kind was not given, with one warning about doubtful ones.

    Numbers are doubtful if they have few distinct values and some of them repeat: such numbers may
    be codes of groups, such as ZIP codes.
    """
    kinds = {name: infer_kind(attribute) for name, attribute in attributes.items()}
    few: dict[str, int] = {}
    for name, attribute in attributes.items():
        known = attribute.values[~attribute.missing]
        n_distinct = len(np.unique(known)) if kinds[name] == "continuous" else len(known)
        if n_distinct < min(_FEW_VALUES, len(known)):
            few[name] = n_distinct
    if few:
        listed = ", ".join(f"{name!r} ({n} distinct values)" for name, n in few.items())
        warn_user(
            f"Protected attributes read as continuous numbers: {listed}. If the values name groups, pass "
            f"sensitive_kind={dict.fromkeys(few, 'categorical')}. If they are amounts, pass "
            f"sensitive_kind={dict.fromkeys(few, 'continuous')}, which also silences this warning.",
            DataWarning,
            key=f"kinds of {list(few)}",
        )
    return kinds


def warn_of_few_values(
    attributes: Mapping[str, Attribute], n_slices: int | None, role: str
) -> None:
    """Warn of numbers with few distinct values, some of which would share a slice.

    For columns that have no ``sensitive_kind``: control features, and the target of a metric.
    """
    for name, attribute in attributes.items():
        if n_slices is None or infer_kind(attribute) == "categorical":
            continue
        known = attribute.values[~attribute.missing]
        n_distinct = len(np.unique(known))
        if n_slices < n_distinct < min(_FEW_VALUES, len(known)):
            warn_user(
                f"{role} {name!r} is read as a number and cut into {n_slices} slices, which merges some of "
                f"its {n_distinct} distinct values. If the values name groups or classes, give them as text, "
                f"e.g. with .astype(str); if they are amounts, cut them into intervals yourself.",
                DataWarning,
                key=f"values of {role} {name!r}",
            )


def warn_of_doubtful_labels(attributes: Mapping[str, Attribute], role: str) -> None:
    """Warn of labels that look like one label in two spellings, or like a missing value."""
    for name, attribute in attributes.items():
        if attribute.values.dtype.kind != "U":
            continue
        labels = np.unique(attribute.values[~attribute.missing]).tolist()
        _warn_of_similar_labels(labels, f"{role} {name!r}")
        missing = [label for label in labels if label.strip() in _MISSING_AS_TEXT]
        if missing:
            warn_user(
                f"{role} {name!r} has the label {missing[0]!r}, which looks like a missing value written as "
                f"text, and counts it as a label like any other. If the value is missing, give None; "
                f"otherwise give it another name, e.g. 'unknown'.",
                DataWarning,
                key=f"missing values of {role} {name!r}",
            )


def _warn_of_similar_labels(labels: list[str], what: str) -> None:
    """Warn of labels that differ only in case, blanks or the encoding of the same characters."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(_spelling(label), []).append(label)
    groups = [", ".join(map(_quoted, same)) for same in alike.values() if len(same) > 1]
    if groups:
        more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
        warn_user(
            f"{what} has labels that differ only in case, blanks or the encoding of characters, and "
            f"counts them as different: {'; '.join(groups[:_SHOWN])}{more}. If they mean the same, "
            f'make them equal first, e.g. with .str.normalize("NFKC").str.strip().str.lower().',
            DataWarning,
            key=f"labels of {what}",
        )


def _spelling(label: str) -> str:
    """The label without case, blanks, invisible characters and the zeros of 1.0, in one Unicode form.

    "01" stays another code than "1".
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).casefold())
    text = "".join(c for c in text if not c.isspace() and unicodedata.category(c) != "Cf")
    return re.sub(r"^([-+]?\d+)\.0*$", r"\1", text)


def _quoted(label: str) -> str:
    """The label as a user reads it; with escapes where it would look like another one."""
    return repr(label) if unicodedata.is_normalized("NFKC", label) else ascii(label)


def slice_edges(values: Array, n_slices: int | None, weights: Array | None = None) -> Array:
    """Inner edges of the slices of a continuous variable.

    One slice per value if there are at most ``n_slices`` distinct ones (or ``n_slices`` is None);
    otherwise the unique inner quantiles, inverted weighted CDF at i/n_slices, without edges equal
    to the smallest value (they would cut off an empty slice).
    """
    if weights is None:
        distinct, mass = np.unique(values, return_counts=True)
    else:
        distinct, inverse = np.unique(values, return_inverse=True)
        mass = np.bincount(inverse, weights=weights, minlength=len(distinct))
    if n_slices is None or len(distinct) <= n_slices:
        return distinct[1:]
    cdf = np.cumsum(mass)
    cdf = cdf / cdf[-1]
    # `side="left"` inverts the CDF; the tolerance keeps i/n_slices stable when the weights of a
    # value are summed in another order (weight k must equal k copies).
    levels = np.arange(1, n_slices) / n_slices
    edges = np.unique(distinct[np.searchsorted(cdf, levels - 1e-12)])
    edges = edges[edges > distinct[0]]
    # Nearly all weight on the smallest value: the rest is a slice of its own rather than none.
    return np.asarray(edges if len(edges) else distinct[1:2])


def code_slices(values: Array, edges: Array) -> Codes:
    """Slice of each value: a value equal to an edge opens the slice above it."""
    return np.searchsorted(edges, values, side="right").astype(np.intp)


@dataclass(frozen=True)
class Coder:
    """Frozen rule that turns one attribute into level codes (and, if continuous, a column)."""

    name: str
    kind: Kind
    table: NDArray[np.generic]  # categories (sorted) or inner slice edges

    @classmethod
    def learn(
        cls,
        attribute: Attribute,
        kind: Kind,
        n_slices: int | None,
        weights: Array | None = None,
    ) -> Coder:
        """Freeze the category list or the slice edges on the pilot rows."""
        present = ~attribute.missing
        values = attribute.values[present]
        if kind == "categorical":
            return cls(attribute.name, kind, np.unique(values))
        if values.dtype.kind != "f":
            msg = (
                f"Attribute {attribute.name!r} holds text, so it cannot be continuous. Pass "
                f"sensitive_kind='categorical', or give numbers."
            )
            raise ValueError(msg)
        w = None if weights is None else weights[present]
        return cls(attribute.name, kind, slice_edges(values.astype(np.float64), n_slices, w))

    @property
    def n_levels(self) -> int:
        """Number of categories or slices."""
        return len(self.table) + (self.kind == "continuous")

    @property
    def labels(self) -> tuple[str, ...]:
        """Readable level names, for reports and warnings."""
        if self.kind == "categorical":
            return _labels(self.table)
        if len(self.table) == 0:
            return ("all values",)
        inner = _labels(self.table)
        between = [f"[{a}, {b})" for a, b in pairwise(inner)]
        return (f"< {inner[0]}", *between, f">= {inner[-1]}")

    def codes(self, attributes: Mapping[str, Attribute]) -> Codes:
        """Level of each row, -1 where missing; an unseen category is an error that names it."""
        attribute = attributes[self.name]
        if is_tensor(attribute.values):
            return self._tensor_codes(attribute)  # type: ignore[no-any-return]
        out = np.full(len(attribute.values), -1, dtype=np.intp)
        present = ~attribute.missing
        values = attribute.values[present]
        if self.kind == "continuous":
            out[present] = code_slices(values.astype(np.float64), self.table.astype(np.float64))
            return out
        if len(values) == 0:
            return out  # a block where nothing is known says nothing about its type either
        if values.dtype.kind != self.table.dtype.kind:
            raise ValueError(_unseen_message(self, values[:1]))
        position = np.searchsorted(self.table, values)
        position[position == len(self.table)] = 0
        unseen = self.table[position] != values
        if unseen.any():
            raise ValueError(_unseen_message(self, np.unique(values[unseen])))
        out[present] = position
        return out

    def column(self, attributes: Mapping[str, Attribute]) -> Array:
        """The numbers themselves, NaN where missing (continuous attributes only)."""
        attribute = attributes[self.name]
        if is_tensor(attribute.values):
            values: Any = attribute.values
            return values.masked_fill(attribute.missing, np.nan)  # type: ignore[no-any-return]
        out = attribute.values.astype(np.float64)
        out[attribute.missing] = np.nan
        return out

    def _tensor_codes(self, attribute: Attribute) -> Any:
        """The same on a tensor, where it lives; the host waits once, to see if all were known."""
        import torch  # there is a tensor, so it is installed

        values: Any = attribute.values
        missing: Any = attribute.missing
        if self.kind == "continuous":
            edges = to_home(self.table.astype(np.float64), values.device)
            codes = torch.searchsorted(edges, values, right=True)
            return codes.masked_fill_(missing, -1)
        text = attribute.dtype_kind == "b"  # booleans are the categories 'False' and 'True'
        if (self.table.dtype.kind == "U") != text:
            if bool(missing.all()):
                return torch.full(values.shape, -1, device=values.device)
            first = attribute.take(~missing).on_host().values[:1]
            raise ValueError(_unseen_message(self, first))
        if text:
            known = self.table.tolist()
            place = [known.index(v) if v in known else -1 for v in ("False", "True")]
            codes = to_home(np.array(place), values.device)[values.long()]
            unseen = (codes < 0) & ~missing
        else:
            table = to_home(self.table.astype(np.float64), values.device)
            codes = torch.searchsorted(table, values).clamp_(max=len(table) - 1)
            unseen = (table[codes] != values) & ~missing
        if bool(unseen.any()):
            found = attribute.take(unseen).on_host().values
            raise ValueError(_unseen_message(self, np.unique(found)))
        return codes.masked_fill_(missing, -1)


@dataclass(frozen=True)
class CrossedCoder:
    """Several attributes as one: a level is a combination seen in the pilot (intersectional S)."""

    parts: tuple[Coder, ...]
    combinations: Codes  # (n_levels, n_parts)

    @classmethod
    def learn(cls, parts: Sequence[Coder], attributes: Mapping[str, Attribute]) -> CrossedCoder:
        """Freeze the combinations that occur among rows with nothing missing."""
        codes = np.stack([part.codes(attributes) for part in parts], axis=1)
        complete = codes[(codes >= 0).all(axis=1)]
        return cls(tuple(parts), np.unique(complete, axis=0))

    kind: Kind = "categorical"

    @property
    def name(self) -> str:
        """Names of the parts, crossed."""
        return " x ".join(part.name for part in self.parts)

    @property
    def n_levels(self) -> int:
        """Number of combinations seen."""
        return len(self.combinations)

    @property
    def labels(self) -> tuple[str, ...]:
        """Readable combinations."""
        names = [part.labels for part in self.parts]
        rows = self.combinations
        return numbered([" & ".join(names[j][code] for j, code in enumerate(row)) for row in rows])

    def codes(self, attributes: Mapping[str, Attribute]) -> Codes:
        """Combination of each row; -1 where any part is missing; an unseen one is an error."""
        codes = np.stack([to_numpy(part.codes(attributes)) for part in self.parts], axis=1)
        out = np.full(len(codes), -1, dtype=np.intp)
        complete = (codes >= 0).all(axis=1)
        known, flat = _row_keys(self.combinations, codes[complete])
        position = np.searchsorted(known, flat)
        position[position == len(known)] = 0
        unseen = known[position] != flat
        if unseen.any():
            row = codes[complete][unseen][0]
            combination = " & ".join(p.labels[c] for p, c in zip(self.parts, row, strict=True))
            msg = (
                f"{self.name!r} has the combination {combination!r}, which the rows given to "
                f"`prepare` (or to the first `partial_fit`) did not have. Prepare on rows that "
                f"show every combination."
            )
            raise ValueError(msg)
        out[complete] = position
        return out


@dataclass(frozen=True)
class Cells:
    """On which rows must scores be independent of S? One cell per condition, then "rest".

    ``rule``: "all" (one cell), "class" (rows of class ``positive``), "target" (one cell per class
    or slice of y), "strata" (one cell per stratum of the control features).
    """

    rule: Literal["all", "class", "target", "strata"]
    names: tuple[str, ...]
    positive: int = -1
    strata: CrossedCoder | None = None

    @property
    def n_constrained(self) -> int:
        """Cells that the criterion constrains."""
        return len(self.names)

    @property
    def n_groups(self) -> int:
        """Cells that cover all rows: the constrained ones and, if any row is in none, "rest"."""
        return len(self.names) + (self.rule == "class")

    def assign(
        self, target_codes: Codes | None, control: Mapping[str, Attribute], n: int, home: Any = None
    ) -> Codes:
        """Cell of each row; rows in no constrained cell get the last index ("rest").

        Beside rows in a tensor ``home`` is the device of their codes.
        """
        if self.rule == "all" and home is not None:
            import torch  # there is a tensor, so it is installed

            return torch.zeros(n, dtype=torch.int64, device=home)  # type: ignore[no-any-return]
        if self.rule == "all":
            return np.zeros(n, dtype=np.intp)
        if self.rule == "strata":
            assert self.strata is not None
            return to_home(self.strata.codes(control), home)  # type: ignore[no-any-return]
        assert target_codes is not None
        if self.rule == "class":
            rest = to_home(target_codes, home) != self.positive
            return rest.long() if is_tensor(rest) else rest.astype(np.intp)  # type: ignore[no-any-return]
        return to_home(target_codes, home)  # type: ignore[no-any-return]


def _row_keys(known: Codes, rows: Codes) -> tuple[Codes, Codes]:
    """One integer per row of both tables, equal where the rows are; increasing along ``known``."""
    sizes = np.maximum(known.max(axis=0, initial=0), rows.max(axis=0, initial=0)) + 1
    if np.prod(sizes.astype(float)) < 2**62:
        dims = tuple(int(size) for size in sizes)
        return (
            np.ravel_multi_index(tuple(known.T), dims),
            np.ravel_multi_index(tuple(rows.T), dims),
        )
    _, keys = np.unique(np.concatenate([known, rows]), axis=0, return_inverse=True)
    keys = keys.ravel().astype(np.intp)
    return keys[: len(known)], keys[len(known) :]


def _labels(values: NDArray[np.generic]) -> tuple[str, ...]:
    """Short texts of categories or edges: 3.0 reads "3"; more digits only to tell numbers apart."""
    if values.dtype.kind != "f":
        return tuple(map(str, values.tolist()))
    for digits in (6, 9, 12, 15):
        labels = tuple(f"{value:.{digits}g}" for value in values.tolist())
        if len(set(labels)) == len(labels):
            return labels
    return tuple(map(repr, values.tolist()))


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, with their numbers if two of them are the same text."""
    if len(set(labels)) == len(labels):
        return tuple(labels)
    return tuple(f"{label} (#{i})" for i, label in enumerate(labels))


def _unseen_message(coder: Coder, values: NDArray[np.generic]) -> str:
    shown = ", ".join(map(repr, _labels(values[:3])))
    known = ", ".join(repr(label) for label in coder.labels[:5])
    more = ", ..." if coder.n_levels > 5 else ""
    return (
        f"Attribute {coder.name!r} has a category that was never seen when the estimator was "
        f"prepared: {shown}. Known: {known}{more}. Prepare on rows that show every category."
    )
