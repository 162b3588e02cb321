"""Codes of protected attributes and the target, and cells of the criterion (METHOD 3).

Categories, slice edges and strata are fixed before the first moment is computed. Codes are integers in
the order of the rows, -1 where the value is missing.
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
from fairspan.method.linalg import Array, is_tensor, to_home, to_numpy
from fairspan.method.problem import Attribute, Codes, Kind

# Integers with at most this many distinct values are categories.
MAX_INTEGER_CATEGORIES = 20
# Numbers with fewer distinct values may stand for groups (1 = "white", ...).
_FEW_VALUES = 50
# Number of labels listed in a warning.
_SHOWN = 5
# Missing values converted by `str`, and empty text.
_MISSING_AS_TEXT = frozenset(("", "nan", "NaN", "None", "<NA>", "NaT"))


def infer_kind(attribute: Attribute) -> Kind:
    """Infer whether an attribute is categorical or continuous.

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


def kinds_by_name(given: Any, names: Sequence[str]) -> dict[str, str]:
    """Kind of each attribute by the parameter ``sensitive_kind``, "auto" if it is to be inferred."""
    if isinstance(given, str):
        kinds = dict.fromkeys(names, given)
    elif isinstance(given, Mapping):
        kinds = {**dict.fromkeys(names, "auto"), **given}
    else:
        fits = isinstance(given, list | tuple) and len(given) == len(names)
        kinds = dict(zip(names, given, strict=True)) if fits else {}
    allowed = ("auto", "categorical", "continuous", "probabilities")
    if set(kinds) != set(names) or any(kind not in allowed for kind in kinds.values()):
        raise ValueError(
            f"sensitive_kind={given!r} does not fit the attributes {list(names)}. Give 'auto', "
            f"'categorical' or 'continuous', or one of them per attribute (a list in order, or a "
            f"dict by name); or 'probabilities' for a table with one column per group."
        )
    return kinds


def infer_kinds(attributes: Mapping[str, Attribute]) -> dict[str, Kind]:
    """Infer the kinds of protected attributes; warn once if numbers may stand for groups.

    The warning lists continuous attributes with few distinct values, some of which repeat. Such numbers
    may be codes of groups, such as ZIP codes.
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
    """Warn of numbers with few distinct values if some of these would be in the same slice.

    This is for columns without a ``sensitive_kind``: control features, and the target of a metric.
    """
    for name, attribute in attributes.items():
        if n_slices is None or infer_kind(attribute) == "categorical":
            continue
        known = attribute.values[~attribute.missing]
        n_distinct = len(np.unique(known))
        if n_slices < n_distinct < min(_FEW_VALUES, len(known)):
            warn_user(
                f"{role} {name!r} is read as a number and cut into {n_slices} slices, which merges some of "
                f"its {n_distinct} distinct values. If the values name groups or classes, give them as text "
                f"(--kind NAME=categorical; in Python, .astype(str)). If they are amounts, cut them into "
                f"intervals yourself.",
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
                f"text, and counts it as a label like any other. If the value is missing, leave it "
                f"empty (in Python, give None); otherwise give it another name, e.g. 'unknown'.",
                DataWarning,
                key=f"missing values of {role} {name!r}",
            )


def _warn_of_similar_labels(labels: list[str], column: str) -> None:
    """Warn of labels that differ only in case, blanks or the encoding of the same characters."""
    by_spelling: dict[str, list[str]] = {}
    for label in labels:
        by_spelling.setdefault(_normalised(label), []).append(label)
    groups = [", ".join(map(_quoted, same)) for same in by_spelling.values() if len(same) > 1]
    if groups:
        more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
        warn_user(
            f"{column} has labels that differ only in case, blanks or the encoding of characters, and "
            f"counts them as different: {'; '.join(groups[:_SHOWN])}{more}. If they mean the same, "
            f'make them equal first (in Python, .str.normalize("NFKC").str.strip().str.lower()).',
            DataWarning,
            key=f"labels of {column}",
        )


def _normalised(label: str) -> str:
    """Remove case, blanks, invisible characters and the zeros of "1.0", and normalise Unicode.

    Leading zeros stay, because "01" may be another code than "1".
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).casefold())
    text = "".join(c for c in text if not c.isspace() and unicodedata.category(c) != "Cf")
    return re.sub(r"^([-+]?\d+)\.0*$", r"\1", text)


def _quoted(label: str) -> str:
    """Quote a label; with escapes if it would look like another one."""
    return repr(label) if unicodedata.is_normalized("NFKC", label) else ascii(label)


def slice_edges(values: Array, n_slices: int | None, weights: Array | None = None) -> Array:
    """Compute the inner edges of the slices of a continuous variable.

    If there are at most ``n_slices`` distinct values, or ``n_slices`` is None, each value is a slice.
    Otherwise the edges are the distinct quantiles at i/n_slices (inverse of the weighted CDF), without
    edges equal to the smallest value, below which there would be an empty slice.
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
    # `side="left"` inverts the CDF. The tolerance makes the result independent of the order in which
    # weights are summed, so that weight k equals k copies.
    levels = np.arange(1, n_slices) / n_slices
    edges = np.unique(distinct[np.searchsorted(cdf, levels - 1e-12)])
    edges = edges[edges > distinct[0]]
    # If nearly all weight is on the smallest value, the other values form one slice.
    return np.asarray(edges if len(edges) else distinct[1:2])


def code_slices(values: Array, edges: Array) -> Codes:
    """Return the slice of each value; a value equal to an edge is in the slice above it."""
    return np.searchsorted(edges, values, side="right").astype(np.intp)


@dataclass(frozen=True)
class Coder:
    """Fixed rule that turns one attribute into level codes: its categories or slices."""

    name: str
    kind: Kind
    table: NDArray[np.generic]  # sorted categories, or inner slice edges

    @classmethod
    def learn(
        cls,
        attribute: Attribute,
        kind: Kind,
        n_slices: int | None,
        weights: Array | None = None,
    ) -> Coder:
        """Find the categories or the slice edges of an attribute."""
        present = ~attribute.missing
        values = attribute.values[present]
        if kind == "categorical":
            return cls(attribute.name, kind, np.unique(values))
        if values.dtype.kind != "f":
            raise ValueError(
                f"Attribute {attribute.name!r} holds text, so it cannot be continuous. Pass "
                f"sensitive_kind='categorical', or give numbers."
            )
        w = None if weights is None else weights[present]
        return cls(attribute.name, kind, slice_edges(values.astype(np.float64), n_slices, w))

    @property
    def n_levels(self) -> int:
        """Number of categories or slices."""
        return len(self.table) + (self.kind == "continuous")

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the levels, for reports and warnings."""
        if self.kind == "categorical":
            return _labels(self.table)
        if len(self.table) == 0:
            return ("all values",)
        inner = _labels(self.table)
        between = [f"[{a}, {b})" for a, b in pairwise(inner)]
        return (f"< {inner[0]}", *between, f">= {inner[-1]}")

    def codes(self, attributes: Mapping[str, Attribute]) -> Codes:
        """Return the level of each row, -1 where missing; raise if a category is not in the table."""
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
            return out  # without any value the type of the column is unknown
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
        """Return the values of a continuous attribute, NaN where missing."""
        attribute = attributes[self.name]
        if is_tensor(attribute.values):
            values: Any = attribute.values
            return values.masked_fill(attribute.missing, np.nan)  # type: ignore[no-any-return]
        out = attribute.values.astype(np.float64)
        out[attribute.missing] = np.nan
        return out

    def _tensor_codes(self, attribute: Attribute) -> Any:
        """Compute :meth:`codes` of a tensor on its device; the check for unseen categories waits for it."""
        import torch  # a tensor was passed, so torch is installed

        values: Any = attribute.values
        missing: Any = attribute.missing
        if self.kind == "continuous":
            edges = to_home(self.table.astype(np.float64), values.device)
            codes = torch.searchsorted(edges, values, right=True)
            return codes.masked_fill_(missing, -1)
        boolean = attribute.dtype_kind == "b"  # with the categories 'False' and 'True'
        if (self.table.dtype.kind == "U") != boolean:
            if bool(missing.all()):
                return torch.full(values.shape, -1, device=values.device)
            first = attribute.take(~missing).on_host().values[:1]
            raise ValueError(_unseen_message(self, first))
        if boolean:
            known = self.table.tolist()
            code_of = [known.index(v) if v in known else -1 for v in ("False", "True")]
            codes = to_home(np.array(code_of), values.device)[values.long()]
            unseen = (codes < 0) & ~missing
        else:
            table = to_home(self.table.astype(np.float64), values.device)
            codes = torch.searchsorted(table, values).clamp_(max=len(table) - 1)
            unseen = (table[codes] != values) & ~missing
        if bool(unseen.any()):
            new_values = attribute.take(unseen).on_host().values
            raise ValueError(_unseen_message(self, np.unique(new_values)))
        return codes.masked_fill_(missing, -1)


@dataclass(frozen=True)
class CrossedCoder:
    """Fixed rule that turns several attributes into one: a level is a combination of their levels."""

    parts: tuple[Coder, ...]
    combinations: Codes  # (n_levels, n_parts): codes of each combination
    kind: Kind = "categorical"

    @classmethod
    def learn(cls, parts: Sequence[Coder], attributes: Mapping[str, Attribute]) -> CrossedCoder:
        """Find the combinations that occur in rows without missing values."""
        codes = np.stack([part.codes(attributes) for part in parts], axis=1)
        complete = codes[(codes >= 0).all(axis=1)]
        return cls(tuple(parts), np.unique(complete, axis=0))

    @property
    def name(self) -> str:
        """Names of the attributes, joined by " x "."""
        return " x ".join(part.name for part in self.parts)

    @property
    def n_levels(self) -> int:
        """Number of combinations."""
        return len(self.combinations)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the combinations, for reports and warnings."""
        names = [part.labels for part in self.parts]
        rows = self.combinations
        return numbered([" & ".join(names[j][code] for j, code in enumerate(row)) for row in rows])

    def codes(self, attributes: Mapping[str, Attribute]) -> Codes:
        """Return the combination of each row, -1 where a value is missing; raise if one is unknown."""
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
            raise ValueError(
                f"{self.name!r} has the combination {combination!r}, which the rows given to "
                f"`prepare` (or to the first `partial_fit`) did not have. Prepare on rows that "
                f"contain every combination."
            )
        out[complete] = position
        return out


@dataclass(frozen=True)
class Cells:
    """Cells of the criterion: sets of rows within which scores must be independent of S.

    The rule is "all" (one cell of all rows), "class" (one cell, the rows of class ``positive``),
    "target" (one cell per class or slice of y) or "strata" (one cell per stratum of the control
    features). Rows in none of these cells form a further cell "rest", which is not constrained.
    """

    rule: Literal["all", "class", "target", "strata"]
    names: tuple[str, ...]  # of the constrained cells
    positive: int = -1  # code of the positive class, for "class"
    strata: CrossedCoder | None = None  # for "strata"

    @property
    def n_constrained(self) -> int:
        """Number of constrained cells."""
        return len(self.names)

    @property
    def n_groups(self) -> int:
        """Number of cells that cover all rows: the constrained ones, and "rest" if there is one."""
        return len(self.names) + (self.rule == "class")

    def assign(
        self, target_codes: Codes | None, control: Mapping[str, Attribute], n: int, home: Any = None
    ) -> Codes:
        """Return the cell of each row, (n,); rows of the cell "rest" get the last index.

        ``home`` is the device of the codes if X is a tensor.
        """
        if self.rule == "all" and home is not None:
            import torch  # X is a tensor, so torch is installed

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
    """Return one integer per row of both tables, equal for equal rows and increasing along ``known``."""
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
    """Format categories or edges: 3.0 becomes "3"; more digits are used only for distinct texts."""
    if values.dtype.kind != "f":
        return tuple(map(str, values.tolist()))
    for digits in (6, 9, 12, 15):
        labels = tuple(f"{value:.{digits}g}" for value in values.tolist())
        if len(set(labels)) == len(labels):
            return labels
    return tuple(map(repr, values.tolist()))


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """Append their numbers to the labels if two of them are equal."""
    if len(set(labels)) == len(labels):
        return tuple(labels)
    return tuple(f"{label} (#{i})" for i, label in enumerate(labels))


def _unseen_message(coder: Coder, values: NDArray[np.generic]) -> str:
    shown = ", ".join(map(repr, _labels(values[:3])))
    known = ", ".join(repr(label) for label in coder.labels[:5])
    more = ", ..." if coder.n_levels > 5 else ""
    return (
        f"Attribute {coder.name!r} has a category that was never seen when the estimator was "
        f"prepared: {shown}. Known: {known}{more}. Prepare on rows that contain every category."
    )
