"""Fair kernel models: functions that protected attributes do not shift, with a dial and a certificate."""

from fairspan import datasets, metrics, plotting
from fairspan._moved import forward_old_imports
from fairspan.auditing import Audit, audit
from fairspan.encoding import table_encoder
from fairspan.estimators import (
    BoostedLeaves,
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairPostprocessor,
    FairPostprocessorRegressor,
    FairRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    fairness_path,
)
from fairspan.exceptions import (
    CheckpointError,
    DatasetError,
    DataWarning,
    DecisionRuleError,
    FairspanWarning,
    IncompatibleMomentsError,
    NumericalError,
    NumericalWarning,
    RowError,
)
from fairspan.method.certificates import Certificate
from fairspan.persistence import load_model, save_model

__version__ = "0.2.0.dev0"

forward_old_imports()
del forward_old_imports

__all__ = [
    "Audit",
    "BoostedLeaves",
    "Certificate",
    "CheckpointError",
    "DataWarning",
    "DatasetError",
    "DecisionRuleError",
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
    "FairspanWarning",
    "IncompatibleMomentsError",
    "NumericalError",
    "NumericalWarning",
    "RowError",
    "__version__",
    "audit",
    "datasets",
    "fairness_path",
    "load_model",
    "metrics",
    "plotting",
    "save_model",
    "table_encoder",
]
