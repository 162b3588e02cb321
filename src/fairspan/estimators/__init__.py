"""Scikit-learn estimators on top of the moments."""

from fairspan.estimators.representation import FairRepresentation

__all__ = ["FairRepresentation"]
