"""Fair kernel models: representations that carry no information about protected attributes."""

from fairspan.certificates import Certificate
from fairspan.encoding import table_encoder
from fairspan.estimators import FairRepresentation
from fairspan.exceptions import (
    DataWarning,
    FairspanWarning,
    IncompatibleMomentsError,
    NumericalWarning,
)
from fairspan.persistence import load_model, save_model

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "DataWarning",
    "FairRepresentation",
    "FairspanWarning",
    "IncompatibleMomentsError",
    "NumericalWarning",
    "__version__",
    "load_model",
    "save_model",
    "table_encoder",
]
