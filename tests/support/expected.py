"""Warnings and refusals that small random data deserve; every other warning is an error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import reject

from fairspan import DataWarning, NumericalWarning

EXPECTED_WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    (".* left out there: ", DataWarning),  # a category under five rows in a cell
    (".* are merged with a neighbour there: ", DataWarning),  # a slice under five rows in a cell
    (".* left out of its constraint", DataWarning),
    (".* is not constrained in ", DataWarning),  # a cell without two usable levels
    (".* is capped at ", DataWarning),  # fewer usable levels than directions asked for
    (".* have no fair part ", NumericalWarning),
    ("Nothing that predicts y is left at fairness 1", DataWarning),
    (".* is at an end of its grid", NumericalWarning),
    (".* cannot be tested in ", NumericalWarning),
    ("Cross-validation chose the ", NumericalWarning),
)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Let pass the warnings that random data deserve."""
    with warnings.catch_warnings():
        for message, category in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message, category)
        yield


@contextmanager
def no_small_cells() -> Iterator[None]:
    """Draw again where no cell holds two levels of five rows: such an S is refused, and rightly."""
    try:
        yield
    except ValueError as error:
        if "does not have two levels" not in str(error):
            raise
        reject()
