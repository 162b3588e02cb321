"""Scikit-learn estimators on top of the moments."""

from fairspan.estimators.gp_classifier import FairGPClassifier
from fairspan.estimators.gp_regressor import FairGPRegressor
from fairspan.estimators.learners import FairClassifier, FairRegressor
from fairspan.estimators.leaves import BoostedLeaves
from fairspan.estimators.path import FairnessPath, fairness_path
from fairspan.estimators.postprocessors import FairPostprocessor, FairPostprocessorRegressor
from fairspan.estimators.representation import FairRepresentation
from fairspan.estimators.ridge import FairRidge, FairRidgeClassifier

__all__ = [
    "BoostedLeaves",
    "FairClassifier",
    "FairGPClassifier",
    "FairGPRegressor",
    "FairPostprocessor",
    "FairPostprocessorRegressor",
    "FairRegressor",
    "FairRepresentation",
    "FairRidge",
    "FairRidgeClassifier",
    "FairnessPath",
    "fairness_path",
]
