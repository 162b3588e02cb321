"""The option ``--protected-probability``: columns with the probability of each group."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairspan.cli.common import quoted, split_commas
from fairspan.inputs.columns import require_columns

OPTION = "--protected-probability"


@dataclass(frozen=True)
class ProbabilityColumns:
    """Columns by attribute, in the order of the table."""

    by_attribute: Mapping[str, tuple[str, ...]]

    @property
    def columns(self) -> list[str]:
        """All of them."""
        return [name for names in self.by_attribute.values() for name in names]

    @property
    def as_numbers(self) -> dict[str, str]:
        """Kinds of the columns in the table: numbers, also if they are all 0 and 1."""
        return dict.fromkeys(self.columns, "continuous")

    def sensitive_kind(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """The parameter of the model, from kinds by column."""
        known = {name: kind for name, kind in kinds.items() if name not in self.columns}
        return known | dict.fromkeys(self.by_attribute, "probabilities")


def read_probability_columns(
    given: Sequence[str] | None, columns: Sequence[str]
) -> ProbabilityColumns:
    """Columns that ``NAME=PATTERN`` or ``NAME=COLUMN,COLUMN`` stands for."""
    out: dict[str, tuple[str, ...]] = {}
    for text in given or ():
        name, sign, listed = text.partition("=")
        patterns = split_commas([listed]) or []
        if not sign or not name or not patterns:
            raise ValueError(
                f"{OPTION} {text!r} is not allowed; write NAME=PATTERN, as 'race=race_*', or "
                f"NAME=COLUMN,COLUMN."
            )
        if name in out:
            raise ValueError(f"{OPTION} names {name!r} twice; list all of its columns once.")
        found: list[str] = []
        for pattern in patterns:
            some = [c for c in columns if fnmatch.fnmatchcase(c, pattern)]
            if not some:
                require_columns([pattern], columns, f"{OPTION} {text!r} names")
            found += some
        found = [c for c in columns if c in found]
        other = [c for c in columns if c.startswith(f"{name}_")]
        if found != other:
            raise ValueError(
                f"{OPTION} {text!r}: the columns of {name!r} are {quoted(found)}, and those named {name}_* "
                f"are {quoted(other)}. Name the columns of an attribute ATTRIBUTE_GROUP, as race_white, and "
                f"list all of them."
            )
        out[name] = tuple(found)
    return ProbabilityColumns(out)
