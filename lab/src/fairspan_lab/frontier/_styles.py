"""Looks of the methods, and the limit that one price per method is shown at."""

from __future__ import annotations

__all__ = ["STYLES", "compared_at"]

# The limit that one number per method is shown for; 1/sqrt(n) is larger on the smallest data set.
_LIMIT = 0.03
_LIMITS = {"Communities": 0.05}

# Colour and marker. Okabe-Ito colours, a family each, and a marker of its own within the family:
# distinguishable in print and with any colour vision. Only fairspan is blue.
STYLES = {
    "fairspan": ("#0072B2", "o"),
    "fairspan-correlation": ("#0072B2", "s"),
    "fairspan-limits": ("#0072B2", "v"),
    "fairspan-past": ("#0072B2", "X"),
    "fairspan-decisions": ("#56B4E9", "D"),
    "fairspan-leaves": ("#56B4E9", "^"),
    "fairspan-aware": ("#0072B2", "P"),
    "fairspan-aware-correlation": ("#56B4E9", "P"),
    "fgp": ("#D55E00", "s"),
    "gp": ("#000000", "*"),
    "linear-ferm": ("#009E73", "^"),
    "ferm": ("#009E73", "v"),
    "hsic": ("#CC79A7", "X"),
    "fair-pca": ("#CC79A7", "h"),
    "boosting": ("#6E6E6E", "d"),
    "eg-logistic": ("#E69F00", "<"),
    "eg-psi": ("#E69F00", ">"),
    "eg-boosting": ("#E69F00", "D"),
    "ncfr": ("#D55E00", "o"),
    "ncfr-rff": ("#D55E00", "^"),
    "laftr-gp": ("#CC79A7", "D"),
    "threshold": ("#000000", "v"),
    "correlation-remover": ("#009E73", "s"),
}


def compared_at(data: str) -> float:
    """The limit on |corr| that a data set's prices are shown at."""
    return _LIMITS.get(data, _LIMIT)
