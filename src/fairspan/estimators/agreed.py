"""Prepare an estimator on an agreement about columns, without any row."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.exceptions import FairspanWarning
from fairspan.federated.agreement import Agreement
from fairspan.inputs.rows import ColumnSchema

if TYPE_CHECKING:
    from fairspan.estimators.base import FairKernelEstimator

__all__ = ["prepare_agreed"]

_MODELS = {
    "ridge": "FairRidge",
    "ridge-classifier": "FairRidgeClassifier",
    "gp": "FairGPRegressor",
    "gp-classifier": "FairGPClassifier",
}
_FOR_NUMBERS = ("ridge", "gp")


def prepare_agreed(given: Any) -> FairKernelEstimator:
    """Prepare an estimator on rows that are made up from an agreement.

    Parameters
    ----------
    given : dict
        See :mod:`fairspan.federated.agreement`.

    Returns
    -------
    estimator
        Prepared with ``folds="hash"``; it takes data frames with the columns that were agreed on.

    Raises
    ------
    ValueError
        The message is the second half of a sentence about the agreement.
    """
    from fairspan import estimators  # that package imports this module's neighbours

    agreement = Agreement.of(given)
    numeric = agreement.numeric_target
    model = agreement.model or ("ridge" if numeric else "ridge-classifier")
    if model not in _MODELS:
        raise ValueError(f"'model' is {model!r}; known are {', '.join(_MODELS)}")
    if (model in _FOR_NUMBERS) != numeric:
        kind = "a number" if numeric else "classes"
        raise ValueError(f"the model {model!r} does not predict {kind}, which the target is")
    X, y, sensitive = agreement.rows()
    parameters = {
        "gamma": "median",
        "n_slices": agreement.n_slices,
        "sensitive_kind": agreement.kinds,
        **agreement.parameters,
    }
    if parameters.get("kernel") != "linear":
        parameters["landmarks"] = np.unique(X[: agreement.n_landmarks], axis=0)
    if model == "gp-classifier":
        parameters.setdefault("likelihood", "gaussian")
    try:
        est: FairKernelEstimator = getattr(estimators, _MODELS[model])(**parameters)
    except TypeError as error:
        raise ValueError(f"its parameters do not fit {_MODELS[model]}: {error}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)  # about rows that nobody has
        est.prepare(X, y, sensitive_features=sensitive, folds="hash")
    columns = agreement.columns
    est.feature_names_in_ = np.array(list(columns.features), dtype=object)
    est.n_features_in_ = len(columns.features)
    text = tuple(name for name in columns.features if name in columns.text)
    est._schema = ColumnSchema(encoder=columns, text_features=text)
    return est
