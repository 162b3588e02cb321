"""Models by name, and what they make equal."""

from __future__ import annotations

from typing import Any

from fairspan.estimators.gp_classifier import FairGPClassifier
from fairspan.estimators.gp_regressor import FairGPRegressor
from fairspan.estimators.learners import FairClassifier, FairRegressor
from fairspan.estimators.predictors import FairPredictor, RuleClassifier
from fairspan.inputs.checks import refuse, without_decisions_form
from fairspan.inputs.config import read_config


def named_model(name: str, *, numeric: bool, **parameters: Any) -> FairPredictor:
    """A Gaussian process for "kernel"; a stack of learners for "auto", boosted trees for "boosting"."""
    if name == "kernel":
        return (FairGPRegressor if numeric else FairGPClassifier)(**parameters)
    return (FairRegressor if numeric else FairClassifier)(name, **parameters)


def set_equalize(model: FairPredictor, equalize: str, n_classes: int) -> None:
    """Set what a classifier makes equal; "auto" is decisions for two classes, where they have a form."""
    if equalize not in ("auto", "scores", "decisions"):
        refuse("equalize", equalize, "'auto', 'scores' or 'decisions'")
    if not isinstance(model, RuleClassifier):
        if equalize == "decisions":
            raise ValueError("equalize='decisions' is for classes, and the model predicts numbers.")
        return
    if equalize == "auto":
        decides = n_classes == 2 and without_decisions_form(read_config(model)) is None
        equalize = "decisions" if decides else "scores"
    model.set_params(equalize=equalize)
