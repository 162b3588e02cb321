"""What DATA may be on the command line: a file, or the name of a data set that fairspan knows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier

from fairspan.cli import tables
from fairspan.cli.read import read_table
from fairspan.inputs.config import canonical_criterion
from fairspan.report.favourable import Favourable, choose_favourable

__all__ = ["OFFLINE", "SETS", "Asked", "Source", "load_set", "read_asked", "read_data"]

# Name on the command line -> function of fairspan.datasets.
SETS = {
    "adult": "fetch_adult",
    "compas": "fetch_compas",
    "communities_crime": "fetch_communities_crime",
    "nlsy79": "fetch_nlsy79",
    "law_school": "fetch_law_school",
    "loans": "load_loans",
    "diabetes": "load_diabetes",
}
# They come with an installed package: nothing to look for.
OFFLINE = ("loans", "diabetes")


@dataclass(frozen=True)
class Source:
    """A table, and the roles of its columns where the data set says so."""

    name: str
    frame: Any
    target: str | None = None
    protected: tuple[str, ...] = ()

    def roles(self, target: str | None, protected: list[str] | None) -> tuple[str, list[str]]:
        """The columns asked for; of a known data set, its own where none are."""
        target = target or self.target
        if target is None:
            msg = "--target is missing: name the column to predict, as --target repaid."
            raise ValueError(msg)
        protected = protected or list(self.protected)
        if not protected:
            msg = "--protected is missing: name the protected attributes, as --protected sex,age."
            raise ValueError(msg)
        return target, protected


def read_data(
    data: str, data_home: Path | None, say: Callable[[str], None], text: Collection[str] = ()
) -> Source:
    """Read the table of a file, or of a known data set; a file of such a name goes first.

    ``text`` names columns of a CSV file to read as text.
    """
    if not data.strip():
        msg = "DATA is empty: give a CSV or Parquet file, or the name of a data set."
        raise ValueError(msg)
    path = Path(data)
    if data not in SETS or path.is_file():
        near = difflib.get_close_matches(data, SETS, n=1)
        if not path.exists() and not path.suffix:
            hint = f"Did you mean {near[0]!r}?" if near else f"Data sets: {', '.join(SETS)}."
            raise ValueError(f"{data} is neither a file nor the name of a data set. {hint}")
        return Source(data, read_table(path, say, text))
    table = load_set(data, data_home)
    frame, s, y = table.data, table.sensitive_features, table.target
    beside = [name for name in s.columns if name not in frame.columns]
    import pandas as pd  # the extra of the command line has it

    whole = pd.concat([frame, s[beside], y], axis=1).reset_index(drop=True)
    return Source(data, whole, str(y.name), tuple(s.columns))


def load_set(name: str, data_home: Path | None) -> Any:
    """A data set by its name."""
    from fairspan import datasets

    if name not in SETS:
        msg = f"Data set {name!r} is unknown. Known: {', '.join(SETS)}."
        raise ValueError(msg)
    load: Any = getattr(datasets, SETS[name])
    return load() if name in OFFLINE else load(data_home=data_home)


@dataclass(frozen=True)
class Asked:
    """A table to learn from, as the options ask for it.

    Attributes
    ----------
    whole : the table, with columns of the kinds asked for.
    frame : the same without rows that miss a value they need.
    roles : columns by option: target, protected, control, weight.
    names : the features.
    kinds : what ``--kind`` has said.
    label : the class that ``--positive`` names, of the target's type; None if it was not given.
    text : columns that were read as text because of ``--kind NAME=categorical``.
    """

    whole: Any
    frame: Any
    roles: dict[str, list[str]]
    names: list[str]
    kinds: tables.Kinds
    label: Any
    text: list[str]

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.roles["target"][0]

    def favourable(self, estimator: Any) -> Favourable | None:
        """The favourable class of a classifier's target; None for numbers and for many classes."""
        if not is_classifier(estimator):
            return None
        labels = self.frame[self.target].unique().tolist()
        criterion = canonical_criterion(estimator.criterion)
        return choose_favourable(labels, self.target, self.label, criterion)


def read_asked(
    data: str, data_home: Path | None, say: Callable[[str], None], *, target: str | None,
    protected: list[str] | None, control: list[str] | None, weight: str | None,
    features: list[str] | None, drop: list[str] | None, kind: list[str] | None,
    drop_missing: bool, positive: str | None,
) -> Asked:  # fmt: skip
    """Read DATA and find in it what the options name; every refusal is made here, before a fit."""
    source = read_data(data, data_home, say)
    target, protected = source.roles(target, protected)
    roles = tables.find_roles(
        source.frame, target=target, protected=protected, control=control, weight=weight
    )
    names = tables.find_features(source.frame, roles, features, drop)
    text = tables.categories(source.frame, kind, roles)
    if text:
        # Now that the columns are known: as numbers, "01" would be the category "1".
        source = read_data(data, data_home, lambda _: None, text)
    whole, kinds = tables.set_kinds(source.frame, kind, roles)
    frame = tables.complete_rows(whole, roles, drop=drop_missing, say=say)
    tables.check_features(frame, names)
    label = None if positive is None else tables.label_like(positive, frame[target], repr(target))
    return Asked(whole, frame, roles, names, kinds, label, text)
