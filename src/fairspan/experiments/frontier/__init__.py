"""The frontier of error against parity: `fairspan bench frontier`, or :func:`frontier` from Python."""

from fairspan.experiments.frontier._methods import METHODS
from fairspan.experiments.frontier._run import FailedCellsError, frontier

__all__ = ["METHODS", "FailedCellsError", "frontier"]
