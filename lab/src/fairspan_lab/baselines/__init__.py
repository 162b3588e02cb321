"""Published rivals of the fair kernel models, under one interface.

`fit(X, y, sensitive_features=s)` for all. `reads_sensitive_at_predict` says whether S is needed again
to predict: by :class:`NCFR` always, by LAFTR unless told otherwise, by no other. LAFTR needs torch and
is imported when it is asked for.
"""

import importlib
from typing import Any

from fairspan_lab.baselines.fair_pca import FairPCA
from fairspan_lab.baselines.ferm import FERM, LinearFERM
from fairspan_lab.baselines.hsic import HSICRidge, HSICRidgeClassifier
from fairspan_lab.baselines.ncfr import NCFR
from fairspan_lab.baselines.standard_gp import StandardGP, StandardGPClassifier

_LAZY = ("LAFTR", "LAFTRGP", "laftr_sweep")

__all__ = [
    "FERM",
    "LAFTR",
    "LAFTRGP",
    "NCFR",
    "FairPCA",
    "HSICRidge",
    "HSICRidgeClassifier",
    "LinearFERM",
    "StandardGP",
    "StandardGPClassifier",
    "laftr_sweep",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("fairspan_lab.baselines.laftr"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
