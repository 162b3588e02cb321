"""The frontier of error against parity: `fairspan bench frontier`, or :func:`frontier` from Python."""

from fairspan_lab.frontier._methods import METHODS
from fairspan_lab.frontier._run import FailedCellsError, frontier

__all__ = ["METHODS", "FailedCellsError", "frontier"]
