"""Warnings and errors that are ours; everything else is a plain ``ValueError`` or ``TypeError``."""

__all__ = [
    "DataWarning",
    "FairspanWarning",
    "IncompatibleMomentsError",
    "NumericalWarning",
]


class FairspanWarning(UserWarning):
    """Base class of every warning fairspan raises, so that one filter reaches them all."""


class DataWarning(FairspanWarning):
    """The data limit what can be promised: a tiny group, a skipped cell, S among the features."""


class NumericalWarning(FairspanWarning):
    """A numerical rescue took place; the message and a fitted attribute carry its amount."""


class IncompatibleMomentsError(ValueError):
    """Moments taken with another pilot (landmarks, edges, levels, folds) cannot be merged."""
