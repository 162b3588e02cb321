"""The methods of the frontier: names, data sets they apply to, and requirements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairspan_lab.cells import MethodLabel
from fairspan_lab.frontier import _defaults, _fairlearn, _later, _margins, _ours, _rivals
from fairspan_lab.frontier._task import Point, Task

__all__ = ["CRITERIA", "METHODS", "QUICK_METHODS", "Method"]

CRITERIA = ("sp", "eop", "eo")
QUICK_METHODS = ("fairspan", "fgp", "hsic", "ncfr")


@dataclass(frozen=True)
class Method(MethodLabel):
    """A method; `run` yields points along its dial, the least constrained first."""

    label: str
    run: Callable[[Task], Iterator[Point]]
    parameter: str = ""  # name of the dial; empty: the method has none
    criteria: tuple[str, ...] = ()  # empty: the method takes no criterion
    classes_only: bool = False
    numbers_only: bool = False  # some protected attribute must have many values
    no_classes: bool = False
    one_attribute: bool = False
    reads_sensitive: bool = False  # at prediction time
    needs: str | None = None  # package beyond the core

    def cells(
        self, *, classifies: bool, all_binary: bool, several: bool = False
    ) -> tuple[str, ...]:
        """Criteria to fit for on such a data set; "none": one fit serves all of them."""
        if (self.classes_only and not classifies) or (self.numbers_only and all_binary):
            return ()
        if (self.no_classes and classifies) or (self.one_attribute and several):
            return ()
        if not self.criteria:
            return ("none",)
        return tuple(c for c in self.criteria if classifies or c == "sp")


METHODS = {
    "fairspan": Method("fairspan", _ours.fairspan, "fairness", CRITERIA),
    "fairspan-correlation": Method(
        "fairspan, correlations only", _ours.correlation, "fairness", CRITERIA, numbers_only=True
    ),
    "fairspan-limits": Method(
        "fairspan, one limit each", _ours.limits, "limit", CRITERIA, numbers_only=True
    ),
    "fairspan-past": Method("fairspan, past the fair end", _ours.past, "fairness", CRITERIA),
    "fairspan-decisions": Method(
        "fairspan, for decisions", _ours.decisions, "fairness", CRITERIA, classes_only=True
    ),
    "fairspan-leaves": Method("fairspan, boosted leaves", _ours.leaves, "fairness", CRITERIA),
    "fairspan-aware": Method(
        "fairspan with S", _ours.aware, "fairness", CRITERIA, reads_sensitive=True
    ),
    "fairspan-aware-correlation": Method(
        "fairspan with S, correlations only", _ours.aware_correlation, "fairness", CRITERIA,
        numbers_only=True, reads_sensitive=True,
    ),
    "fairspan-new-rows": Method("fairspan, new rows", _defaults.new_rows, "fairness", CRITERIA),
    "fairspan-auto": Method("fairspan, three learners", _defaults.auto, "fairness", CRITERIA),
    "fairspan-rule": Method(
        "fairspan, decision rule", _defaults.rule, "fairness", CRITERIA, classes_only=True
    ),
    "fairspan-rule-boosting": Method(
        "fairspan, decision rule, boosting", _defaults.rule_boosting, "fairness", CRITERIA,
        classes_only=True,
    ),
    "fairspan-rule-logistic": Method(
        "fairspan, decision rule, logistic", _defaults.rule_logistic, "fairness", CRITERIA,
        classes_only=True,
    ),
    "fairspan-promise": Method(
        "fairspan, correlation promised", _defaults.promise, "limit", CRITERIA
    ),
    "fairspan-rule-promise": Method(
        "fairspan, gap promised", _defaults.rule_promise, "limit", CRITERIA, classes_only=True
    ),
    "fgp": Method("FGP (as published)", _ours.fgp, "epsilon", CRITERIA),
    "gp": Method("GP", _rivals.gp),
    # Both constrain equal opportunity, whatever criterion they are evaluated for.
    "linear-ferm": Method("Linear-FERM", _margins.linear_ferm, classes_only=True, one_attribute=True),
    "ferm": Method("FERM", _margins.ferm, "tolerance", classes_only=True, one_attribute=True),
    # It supports statistical parity only.
    "hsic": Method("HSIC ridge", _rivals.hsic, "mu"),
    "fair-pca": Method("Fair kernel PCA", _rivals.fair_pca, "components", ("sp", "eop")),
    "boosting": Method("Boosting", _rivals.boosting),
    "eg-logistic": Method(
        "EG, logistic", _fairlearn.eg_logistic, "bound", CRITERIA, classes_only=True,
        needs="fairlearn",
    ),
    "eg-psi": Method(
        "EG, kernel coordinates", _fairlearn.eg_psi, "bound", CRITERIA, classes_only=True,
        needs="fairlearn",
    ),
    "eg-boosting": Method(
        "EG, boosting", _fairlearn.eg_boosting, "bound", CRITERIA, classes_only=True,
        needs="fairlearn",
    ),
    "linear-post": Method(
        "LinearPost, boosting", _later.linear_post, "tolerance", CRITERIA, classes_only=True
    ),
    "linear-post-logistic": Method(
        "LinearPost, logistic", _later.linear_post_logistic, "tolerance", CRITERIA, classes_only=True
    ),
    "penalised-boosting": Method(
        "Penalised boosting", _later.penalised_boosting, "mu", CRITERIA, needs="lightgbm"
    ),
    "penalised-network": Method(
        "Penalised network", _later.penalised_network, "mu", CRITERIA, needs="torch"
    ),
    # The package has no term for equalized odds, and its groups are no numbers.
    "fairret": Method(
        "fairret network", _later.fairret, "mu", ("sp", "eop"), classes_only=True, needs="fairret"
    ),
    # These three support statistical parity only.
    "ktopt": Method("K-TOpt", _later.ktopt, "tau"),
    "leace": Method("LEACE", _later.leace, needs="concept_erasure"),
    "barycentre": Method(
        "Barycentre", _later.barycentre, "share", no_classes=True, reads_sensitive=True
    ),
    # Both support statistical parity only.
    "ncfr": Method("NCFR", _rivals.ncfr, "eta", reads_sensitive=True),
    "ncfr-rff": Method("NCFR, random features", _rivals.ncfr_rff, "eta", reads_sensitive=True),
    "laftr-gp": Method(
        f"LAFTR-GP ({_rivals.LAFTR_EPOCHS} epochs)", _rivals.laftr_gp, "gamma", CRITERIA,
        classes_only=True, one_attribute=True, reads_sensitive=True, needs="torch",
    ),
    "threshold": Method(
        "Thresholds by group", _fairlearn.threshold, "", CRITERIA, classes_only=True,
        reads_sensitive=True, needs="fairlearn",
    ),
    "correlation-remover": Method(
        "Correlation remover", _fairlearn.correlation_remover, "alpha", reads_sensitive=True,
        needs="fairlearn",
    ),
}  # fmt: skip
