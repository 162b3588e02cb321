"""Scikit-learn estimators on top of the moments."""

from typing import TYPE_CHECKING

from fairspan._lazy import lazy_names

if TYPE_CHECKING:
    from fairspan.estimators.eraser import FairEraser
    from fairspan.estimators.federation import load_pilot
    from fairspan.estimators.gp_classifier import FairGPClassifier
    from fairspan.estimators.gp_regressor import FairGPRegressor
    from fairspan.estimators.learners import FairClassifier, FairRegressor
    from fairspan.estimators.leaves import BoostedLeaves
    from fairspan.estimators.path import FairnessPath, fairness_path
    from fairspan.estimators.postprocessors import FairPostprocessor, FairPostprocessorRegressor
    from fairspan.estimators.receipts import FairnessReceipt
    from fairspan.estimators.representation import FairRepresentation
    from fairspan.estimators.ridge import FairRidge, FairRidgeClassifier

__all__ = [
    "BoostedLeaves",
    "FairClassifier",
    "FairEraser",
    "FairGPClassifier",
    "FairGPRegressor",
    "FairPostprocessor",
    "FairPostprocessorRegressor",
    "FairRegressor",
    "FairRepresentation",
    "FairRidge",
    "FairRidgeClassifier",
    "FairnessPath",
    "FairnessReceipt",
    "fairness_path",
    "load_pilot",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BoostedLeaves": "fairspan.estimators.leaves",
        "FairClassifier": "fairspan.estimators.learners",
        "FairEraser": "fairspan.estimators.eraser",
        "FairGPClassifier": "fairspan.estimators.gp_classifier",
        "FairGPRegressor": "fairspan.estimators.gp_regressor",
        "FairPostprocessor": "fairspan.estimators.postprocessors",
        "FairPostprocessorRegressor": "fairspan.estimators.postprocessors",
        "FairRegressor": "fairspan.estimators.learners",
        "FairRepresentation": "fairspan.estimators.representation",
        "FairRidge": "fairspan.estimators.ridge",
        "FairRidgeClassifier": "fairspan.estimators.ridge",
        "FairnessPath": "fairspan.estimators.path",
        "FairnessReceipt": "fairspan.estimators.receipts",
        "fairness_path": "fairspan.estimators.path",
        "load_pilot": "fairspan.estimators.federation",
    },
)
