"""Published rivals of the fair kernel models, under one interface.

`fit(X, y, sensitive_features=s)` for all. `reads_sensitive_at_predict` says whether S is needed again
to predict: by :class:`NCFR` and :class:`BarycentreRegression` always, by LAFTR unless told otherwise, by no
other. LAFTR and the penalised networks need torch and are imported when they are asked for.
"""

import importlib
from typing import Any

from fairspan_lab.baselines.barycentre import BarycentreRegression
from fairspan_lab.baselines.fair_pca import FairPCA
from fairspan_lab.baselines.ferm import FERM, LinearFERM
from fairspan_lab.baselines.hsic import HSICRidge, HSICRidgeClassifier
from fairspan_lab.baselines.ktopt import KTOpt
from fairspan_lab.baselines.linear_post import LinearPost
from fairspan_lab.baselines.ncfr import NCFR
from fairspan_lab.baselines.penalised_boosting import (
    PenalisedBoosting,
    PenalisedBoostingClassifier,
)
from fairspan_lab.baselines.standard_gp import StandardGP, StandardGPClassifier

_LAZY = {
    "LAFTR": "laftr",
    "LAFTRGP": "laftr",
    "laftr_sweep": "laftr",
    "PenalisedNetwork": "penalised_network",
    "PenalisedNetworkClassifier": "penalised_network",
}

__all__ = [
    "FERM",
    "LAFTR",
    "LAFTRGP",
    "NCFR",
    "BarycentreRegression",
    "FairPCA",
    "HSICRidge",
    "HSICRidgeClassifier",
    "KTOpt",
    "LinearFERM",
    "LinearPost",
    "PenalisedBoosting",
    "PenalisedBoostingClassifier",
    "PenalisedNetwork",
    "PenalisedNetworkClassifier",
    "StandardGP",
    "StandardGPClassifier",
    "laftr_sweep",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"fairspan_lab.baselines.{_LAZY[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
