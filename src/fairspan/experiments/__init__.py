"""The paper's experiments: `fairspan reproduce`, or :func:`reproduce` from Python."""

from fairspan.experiments._methods import METHODS
from fairspan.experiments._reproduce import reproduce

__all__ = ["METHODS", "reproduce"]
