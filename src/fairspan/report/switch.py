"""The switch of the page: the same fit with scores or with decisions made equal."""

from __future__ import annotations

from fairspan.estimators.predictors import FairPredictor, RuleClassifier
from fairspan.exceptions import DecisionRuleError
from fairspan.inputs.checks import without_decisions_form
from fairspan.inputs.config import read_config

__all__ = ["other_side"]


def other_side(model: FairPredictor) -> FairPredictor | None:
    """The same fit at fairness 1 with decisions equal instead of scores, or the other way round.

    None if the fit has one of them only: numbers have no decisions, a fit of a stream for scores keeps no
    rows to choose rules from, and rows may be too few for rules.
    """
    if not isinstance(model, RuleClassifier):
        return None
    if model.equalize == "decisions":
        return model.at(1.0, equalize="scores")
    if without_decisions_form(read_config(model)) is not None:
        return None
    if model._fit_state.rule_rows is None:
        return None
    try:
        return model.at(1.0, dial="share", equalize="decisions")
    except DecisionRuleError:  # too few rows in a group
        return None
