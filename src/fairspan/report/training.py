"""The one fit of a report: favourable class, model, training, warnings, and code that repeats it."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from fairspan.estimators.learners import FairLearner
from fairspan.estimators.named import named_model, set_equalize
from fairspan.estimators.predictors import FairPredictor
from fairspan.estimators.private_fit import refuse_private
from fairspan.exceptions import (
    DataWarning,
    DecisionRuleError,
    FairspanWarning,
    RowError,
    warn_user,
)
from fairspan.inputs.columns import read_attribute
from fairspan.inputs.config import read_config
from fairspan.inputs.probabilities import has_probabilities, probability_columns
from fairspan.method.codes import kinds_by_name
from fairspan.method.problem import canonical_criterion
from fairspan.report.table import Roles, is_continuous

# A target with more different values is a name or a remark rather than a class.
_MAX_CLASSES = 100


class WarningLog:
    """Warnings of fairspan, each once: recorded for the report, and given when it is complete."""

    def __init__(self) -> None:
        self.texts: dict[str, type[FairspanWarning]] = {}

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record warnings of fairspan; give warnings of other packages at the end."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FairspanWarning)
            yield
        for w in caught:
            if issubclass(w.category, FairspanWarning):
                self.texts.setdefault(str(w.message), w.category)
            else:
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)

    def give(self) -> None:
        """Give all recorded warnings."""
        for text, category in self.texts.items():
            warn_user(text, category)


def read_kinds(given: Any, sensitive: Sequence[str]) -> dict[str, str]:
    """Kinds of protected columns by name, for those whose kind was given; probabilities are numbers."""
    owned = probability_columns(given, sensitive)
    probable = [column for columns in owned.values() for column in columns]
    kinds = {}
    if not isinstance(given, str) or not owned:
        others = [name for name in sensitive if name not in probable]
        if isinstance(given, Mapping):
            given = {name: kind for name, kind in given.items() if name not in owned}
        kinds = {n: kind for n, kind in kinds_by_name(given, others).items() if kind != "auto"}
    return kinds | dict.fromkeys(probable, "continuous")


def kinds_parameter(given: Any, sensitive: Sequence[str]) -> Any:
    """The parameter ``sensitive_kind`` of models and audits: by name, and "auto" if no kind was given."""
    if isinstance(given, str) and has_probabilities(given):
        return given
    owned = probability_columns(given, sensitive)
    probable = {column for columns in owned.values() for column in columns}
    kinds = {n: kind for n, kind in read_kinds(given, sensitive).items() if n not in probable}
    return kinds | dict.fromkeys(owned, "probabilities") or "auto"


def choose_model(
    model: Any,
    table: Any,
    roles: Roles,
    *,
    criterion: str,
    pos_label: Any,
    sensitive_kind: Any,
    random_state: int,
    equalize: str | None = None,
) -> FairPredictor:
    """An unfitted predictor at fairness 1: the one given, or the default for the target."""
    criterion = canonical_criterion(criterion)
    kinds = kinds_parameter(sensitive_kind, roles.sensitive)
    if isinstance(model, str) and model in ("kernel", "auto", "boosting"):
        given = {"criterion": criterion, "pos_label": pos_label, "random_state": random_state}
        out = named_model(model, numeric=is_continuous(table, roles.target), **given)
    elif isinstance(model, FairPredictor):
        out = clone(model)
        _check_agreement(out, criterion, pos_label)
        if out.random_state is None:
            out.set_params(random_state=random_state)
        out.set_params(fairness=1.0, dial="auto")
    else:
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ValueError(
            f"model={name} is not allowed; give 'kernel', 'auto', 'boosting' or an unfitted predictor of "
            f"fairspan, such as FairGPClassifier(), FairRidge() or FairClassifier(LogisticRegression())."
        )
    reason = "its page shows rates of the groups of single rows, without noise"
    refuse_private(read_config(out), "explore", reason)
    if kinds != "auto":
        out.set_params(sensitive_kind=kinds)
    _check_target(out, table, roles)
    if equalize is not None:
        set_equalize(out, equalize, int(table[roles.target].nunique()))
    return out


def _check_agreement(model: FairPredictor, criterion: str, pos_label: Any) -> None:
    """Raise if an option was given both to the report and to the model, with different values."""
    for name, value, default, of_model in (
        ("criterion", criterion, "statistical_parity", canonical_criterion(model.criterion)),
        ("pos_label", pos_label, None, model.pos_label),
    ):
        if value not in (default, of_model):
            raise ValueError(
                f"{name}={value!r}, but the model was given {name}={of_model!r}. Leave {name} out, or give "
                f"it to the model."
            )


def _check_target(model: FairPredictor, table: Any, roles: Roles) -> None:
    """Raise if the model cannot learn the target."""
    column, name = table[roles.target], roles.target
    n = int(column.nunique())
    if n < 2:
        raise ValueError(f"The target {name!r} is the same in every row: nothing can be learned.")
    if not is_classifier(model):
        if model.pos_label is not None and column.dtype.kind == "f":
            raise ValueError(f"pos_label is for classes, but the target {name!r} is numeric.")
        return
    if n > _MAX_CLASSES:
        raise ValueError(
            f"The target {name!r} has {n:,} different values, such as {str(column.iloc[0])!r}; a class "
            f"target can have at most {_MAX_CLASSES}."
        )
    if model.pos_label is not None and model.pos_label not in column.unique().tolist():
        shown = ", ".join(repr(v) for v in column.unique().tolist()[:6])
        raise ValueError(f"pos_label={model.pos_label!r} is no value of {name!r}: {shown}.")


def by_stratum(model: FairPredictor) -> bool:
    """Whether the model's criterion uses the control features."""
    return canonical_criterion(model.criterion) == "conditional_statistical_parity"


def known_rows(model: FairPredictor, fitted: Any, held: Any, roles: Roles) -> NDArray[np.bool_]:
    """Held-out rows whose class, groups and stratum occur among the rows fitted on."""
    kinds = read_kinds(model.sensitive_kind, roles.sensitive)
    names = [
        name
        for name in roles.sensitive
        if kinds.get(name, "") == "categorical"
        or (name not in kinds and not is_continuous(fitted, name))
    ]
    strata = model.pilot_.cells.strata if by_stratum(model) else None
    if strata is not None:
        names += [part.name for part in strata.parts if part.kind == "categorical"]
    if is_classifier(model):
        names.append(roles.target)
    out = np.ones(len(held), dtype=bool)
    for name in names:
        out &= held[name].isin(fitted[name].unique()).to_numpy()
    if strata is not None:
        rows = {p.name: read_attribute(p.name, held[out][p.name], "table") for p in strata.parts}
        codes = np.stack([part.codes(rows) for part in strata.parts], axis=1)
        fitted_strata = set(map(tuple, strata.combinations.tolist()))
        out[out] = [tuple(row) in fitted_strata for row in codes.tolist()]
    return out


def fit_model(
    model: FairPredictor, train: Any, roles: Roles, data: str, *, or_scores: bool = False
) -> None:
    """Fit on a table; an error names the row as the table counts it, from 1.

    With ``or_scores``, scores are made equal if the rows do not allow decision rules; a warning says so.
    """
    if by_stratum(model) and not roles.control:
        msg = "criterion='conditional_statistical_parity' needs control_features: the strata."
        raise ValueError(msg)
    try:
        _fit_rows(model, train, roles, data)
    except DecisionRuleError as error:
        if not or_scores:
            raise
        warn_user(f"Scores are made equal, not decisions. {error}", DataWarning)
        model.set_params(equalize="scores")
        _fit_rows(model, train, roles, data)


def _fit_rows(model: FairPredictor, train: Any, roles: Roles, data: str) -> None:
    if isinstance(model, FairLearner):
        model.fit(
            train[list(roles.features)],
            train[roles.target],
            sensitive_features=train[list(roles.sensitive)],
            control_features=train[list(roles.control)] if by_stratum(model) else None,
            sample_weight=None if roles.weight is None else train[roles.weight],
        )
        return
    try:
        # Not encoder="auto", which would leave missing values and scales of numeric tables as they are.
        model.fit_stream(
            [train],
            target=roles.target,
            sensitive_features=list(roles.sensitive),
            control_features=list(roles.control) if by_stratum(model) else None,
            features=list(roles.features),
            sample_weight=roles.weight,
            encoder="table",
        )
    except RowError as error:
        raise ValueError(f"{data}, row {train.index[error.row] + 1}: {error.why}") from error


def _listed(text: str) -> frozenset[str]:
    return frozenset(" ".join(label.split()) for label in text.split(","))


# Whole labels, in the form that `_words` returns.
_UNFAVOURABLE = _listed(
    """arrested, at risk, bad, bad loan, bad risk, bankrupt, canceled, cancelled, charge off, charged off,
    chargeoff, churn, churned, convicted, dead, deceased, decline, declined, default, defaulted,
    delinquent, denial, denied, deny, did not pay, died, dropout, dropped out, evicted, expelled, fail,
    failed, fails, failure, false, fired, foreclosed, fraud, fraudulent, guilty, high risk, ineligible,
    laid off, late, loss, no, overdue, past due, poor, recidivated, refuse, refused, reject, rejected,
    rejection, reoffended, spam, suspended, terminated, unemployed, unpaid, wait listed, waitlisted,
    withdrawn, write off, written off"""
)
_FAVOURABLE = _listed(
    """accept, accepted, admit, admitted, approval, approve, approved, award, awarded, eligible, employed,
    fully paid, good, good loan, good risk, graduated, grant, granted, hire, hired, low risk, offer,
    offered, on time, paid, paid back, paid in full, paid off, pass, passed, passes, promoted, qualified,
    repaid, selected, success, successful, survived, true, yes"""
)
_YES = _listed("yes, y, true, t, +, ja, j, oui, o, sí, si, sim, s, sì, tak, да")
_NO = _listed("no, n, false, f, -, nein, nej, nee, non, não, nao, nie, нет")
_NOT = ("not ", "no ", "non ", "never ")
_OPPOSITE = ("un", "in", "dis", "non")
# Words in the name of a target whose "yes" is the unfavourable answer.
_BAD_OUTCOMES = _listed(
    """arrest, arrested, attrition, bad, bankrupt, bankruptcy, chargeoff, churn, churned, convicted,
    conviction, death, declined, default, defaulted, defaults, delinquency, delinquent, denial, denied,
    died, dropout, evicted, eviction, fail, failed, failure, foreclosed, foreclosure, fraud, fraudulent,
    late, mortality, overdue, readmission, readmitted, rearrest, rearrested, recid, recidivated,
    recidivism, refused, rejected, rejection, reoffend, reoffended, spam, terminated, unpaid"""
)
_BAD_PAIRS = ("at risk", "charged off", "dropped out", "high risk", "past due", "written off")


@dataclass(frozen=True)
class Favourable:
    """The favourable class."""

    label: Any  # the class, of the target's type
    named: bool  # whether the user has named it
    reason: str

    def sentence(self, change: str) -> str:
        """The choice in words; ``change`` names the option that changes a guess."""
        text = f"Favourable class: {self.label!r} ({self.reason})."
        return text if self.named else f"{text} {change} changes it."


def choose_favourable(
    labels: Sequence[Any], target: str, given: Any = None, criterion: str = ""
) -> Favourable | None:
    """Take the class that the user names, or guess from the words of the labels and of the target.

    Known words of the labels decide first: of "approved" and "denied", "approved" is favourable. If
    the labels are yes and no, or numbers, yes or the larger number is favourable, unless the name of
    the target is that of an unfavourable outcome: for ``default``, "no" and 0 are favourable. If no
    word is known, the larger label is favourable, as in scikit-learn.

    Parameters
    ----------
    labels : classes of the target, each once.
    target : name of the column.
    given : the class that the user has named.
    criterion : full name of the criterion of a fit. Equal opportunity is refused if only the
        alphabetical order could decide.

    Returns
    -------
    Favourable or None
        None if there are not exactly two classes and the user has named none.

    Raises
    ------
    ValueError
        For equal opportunity, if no known word decides which class is favourable.
    """
    if given is not None:
        return Favourable(given, True, "as you asked")
    if len(labels) != 2:
        return None
    numbers = [_number(label) for label in labels]
    if all(math.isfinite(x) for x in numbers):
        no, yes = sorted(labels, key=_number)
        return _answer(no, yes, target, "the larger of the two labels")
    small, large = sorted(labels, key=str)
    words = _words(small), _words(large)
    for no, yes, order in ((small, large, words), (large, small, words[::-1])):
        if order[0] in _NO and order[1] in _YES:
            return _answer(no, yes, target, f"{yes!r} reads as favourable")
    senses = _sense(*words), _sense(*words[::-1])
    if senses[0] == senses[1]:
        if criterion == "equal_opportunity":
            raise ValueError(
                f"Equal opportunity needs the favourable class, and the labels of {target!r}, {small!r} and "
                f"{large!r}, do not say which one it is. Name it with --positive (in Python, pos_label)."
            )
        both = {-1: "; both read as unfavourable", 1: "; both read as favourable"}
        return Favourable(large, False, f"the larger of the two labels{both.get(senses[0], '')}")
    best, other = (small, large) if senses[0] > senses[1] else (large, small)
    if max(senses) > 0:
        return Favourable(best, False, f"{best!r} reads as favourable")
    return Favourable(best, False, f"the other class, {other!r}, reads as unfavourable")


def _answer(no: Any, yes: Any, target: str, reason: str) -> Favourable:
    """Choose between yes and no by the name of the target."""
    if _is_bad_outcome(target):
        return Favourable(no, False, f"the target's name, {target!r}, reads as unfavourable")
    return Favourable(yes, False, reason)


def _number(label: Any) -> float:
    try:
        return float(label)
    except (TypeError, ValueError):
        return math.nan


def _words(label: Any) -> str:
    """A label in lower case, with single spaces for other signs: "Charged_Off" is "charged off"."""
    text = str(label).casefold()
    return " ".join(re.findall(r"[^\W_]+", text)) or text.strip()


def _sense(words: str, other: str) -> int:
    """1 for a favourable label, -1 for an unfavourable one, 0 if the words are not known."""
    if words in _UNFAVOURABLE:
        return -1
    if words in _FAVOURABLE:
        return 1
    for prefix in _NOT:
        if words.startswith(prefix):  # "not late" is favourable, "not hired" is not
            return -_sense(words.removeprefix(prefix), "") or -1
    return -1 if any(words == prefix + other for prefix in _OPPOSITE) else 0


def _is_bad_outcome(target: str) -> bool:
    """Whether the name of a column is that of an unfavourable outcome, such as "loan_default"."""
    words = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", target))
    tokens = set(words.split())
    if tokens & {"no", "not", "non", "never", "without"}:
        return False
    return bool(tokens & _BAD_OUTCOMES) or any(pair in words for pair in _BAD_PAIRS)
