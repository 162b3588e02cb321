"""Choice of the favourable class: named by the user, or guessed from the words of the labels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Favourable", "choose_favourable"]


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
_YES, _NO = _listed("yes, y, true, t, +"), _listed("no, n, false, f, -")
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
    """The favourable class.

    Attributes
    ----------
    label : the class, of the target's type.
    named : whether the user has named it.
    reason : reason for the choice.
    """

    label: Any
    named: bool
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
            msg = (
                f"Equal opportunity needs the favourable class, and the labels of {target!r}, {small!r} and "
                f"{large!r}, do not say which one it is. Name it with --positive (in Python, pos_label)."
            )
            raise ValueError(msg)
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
