"""Fair kernel models: functions that protected attributes do not shift, with a dial and a certificate."""

from typing import TYPE_CHECKING

from fairspan._lazy import lazy_names
from fairspan._moved import forward_old_imports

if TYPE_CHECKING:
    from fairspan import datasets, metrics, plotting
    from fairspan.auditing import Audit, audit
    from fairspan.deployment import Exported, export
    from fairspan.encoding import table_encoder
    from fairspan.estimators import (
        BoostedLeaves,
        FairClassifier,
        FairEraser,
        FairGPClassifier,
        FairGPRegressor,
        FairnessPath,
        FairnessReceipt,
        FairPostprocessor,
        FairPostprocessorRegressor,
        FairRegressor,
        FairRepresentation,
        FairRidge,
        FairRidgeClassifier,
        fairness_path,
        load_pilot,
    )
    from fairspan.exceptions import (
        CheckpointError,
        DatasetError,
        DataWarning,
        DecisionRuleError,
        ExportError,
        FairspanWarning,
        IncompatibleMomentsError,
        MomentsFileError,
        NumericalError,
        NumericalWarning,
        RowError,
    )
    from fairspan.inputs.probabilities import sensitive_probabilities
    from fairspan.method.certificates import Certificate
    from fairspan.monitoring import FairnessMonitor
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
    "ExportError",
    "Exported",
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
    "FairnessMonitor",
    "FairnessPath",
    "FairnessReceipt",
    "FairspanWarning",
    "IncompatibleMomentsError",
    "MomentsFileError",
    "NumericalError",
    "NumericalWarning",
    "RowError",
    "__version__",
    "audit",
    "datasets",
    "export",
    "fairness_path",
    "load_model",
    "load_pilot",
    "metrics",
    "plotting",
    "save_model",
    "sensitive_probabilities",
    "table_encoder",
]

_MODULES = {
    "fairspan.auditing": ("Audit", "audit"),
    "fairspan.deployment": ("Exported", "export"),
    "fairspan.encoding": ("table_encoder",),
    "fairspan.estimators": (
        *("BoostedLeaves", "FairClassifier", "FairGPClassifier", "FairGPRegressor", "FairnessPath"),
        *("FairPostprocessor", "FairPostprocessorRegressor", "FairRegressor", "FairRepresentation"),
        *("FairRidge", "FairRidgeClassifier", "FairnessReceipt", "fairness_path", "load_pilot"),
        "FairEraser",
    ),
    "fairspan.exceptions": (
        *("CheckpointError", "DatasetError", "DataWarning", "DecisionRuleError", "ExportError"),
        "FairspanWarning",
        *("IncompatibleMomentsError", "MomentsFileError", "NumericalError", "NumericalWarning"),
        "RowError",
    ),
    "fairspan.inputs.probabilities": ("sensitive_probabilities",),
    "fairspan.method.certificates": ("Certificate",),
    "fairspan.monitoring": ("FairnessMonitor",),
    "fairspan.persistence": ("load_model", "save_model"),
}
# Attributes of `import fairspan` without further import statements.
_SUBMODULES = (
    *(
        "auditing",
        "datasets",
        "deployment",
        "device",
        "encoding",
        "estimators",
        "exceptions",
        "inputs",
        "method",
    ),
    *("metrics", "monitoring", "persistence", "plotting", "streaming", "unseen"),
)
__getattr__, __dir__ = lazy_names(
    __name__, {name: module for module, names in _MODULES.items() for name in names}, _SUBMODULES
)
