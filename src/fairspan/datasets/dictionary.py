"""Dictionaries of the columns of data sets, made of what their sources say about each column."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

from fairspan.datasets._files import require
from fairspan.tables.dictionary import ColumnWords, read_dictionary

# Sources of the other data sets do not describe every column.
_WITH_DICTIONARY = ("diabetes", "law_school", "loans", "nlsy79")
_WITHOUT = ("adult", "communities_crime", "compas")


def load_dictionary(name: str) -> dict[str, ColumnWords]:
    """Load labels and descriptions of the columns of a data set, for ``explore(dictionary=...)``.

    Descriptions quote the source of the data, or say what ``DESCR`` says. The commands and
    :func:`fairspan.report.explore` use them for data sets by themselves.

    Parameters
    ----------
    name : {"adult", "communities_crime", "compas", "diabetes", "law_school", "loans", "nlsy79"}
        The data set, as in ``load_loans``.

    Returns
    -------
    dict
        By name of the column, a record with ``label``, ``description`` and ``kind``. Empty for adult,
        communities_crime and compas, whose sources do not describe every column.

    Raises
    ------
    ValueError
        There is no data set of this name.
    ImportError
        The extra ``data`` is not installed.

    Examples
    --------
    >>> from fairspan.datasets import load_dictionary
    >>> load_dictionary("loans")["obrat"].label
    'Other obligations, % of total income'
    """
    if name in _WITHOUT:
        return {}
    if name not in _WITH_DICTIONARY:
        known = ", ".join(sorted((*_WITH_DICTIONARY, *_WITHOUT)))
        raise ValueError(f"There is no data set {name!r}; known are {known}.")
    require("pandas", "load_dictionary")
    folder = resources.files("fairspan.datasets") / "descr"
    with resources.as_file(folder / f"{name}.csv") as path:
        return read_dictionary(path)


def dictionary_of(name: str, columns: Iterable[str]) -> dict[str, ColumnWords]:
    """The dictionary of a data set for a table of that name; empty if a column is not of the data set."""
    if name not in _WITH_DICTIONARY:
        return {}
    words, names = load_dictionary(name), list(columns)
    return {n: words[n] for n in names} if set(names) <= set(words) else {}
