"""The paper's experiments: `fairspan reproduce`, or :func:`reproduce` from Python."""

from fairspan_lab.reproduce._methods import METHODS
from fairspan_lab.reproduce._reproduce import reproduce

__all__ = ["METHODS", "reproduce"]
