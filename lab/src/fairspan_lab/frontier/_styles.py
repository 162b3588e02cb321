"""Colours and markers of the methods, and the limit of the price charts."""

from __future__ import annotations

__all__ = ["STYLES", "compared_at"]

# Limit on |corr| of the price charts; sampling noise is larger on the smallest data set.
_LIMIT = 0.03
_LIMITS = {"Communities": 0.05}

# Colour and marker. Each family has an Okabe-Ito colour, and each of its methods another marker, so
# they are distinct in print and for any colour vision. Only our methods are blue.
STYLES = {
    "fairspan": ("#0072B2", "o"),
    "fairspan-correlation": ("#0072B2", "s"),
    "fairspan-limits": ("#0072B2", "v"),
    "fairspan-past": ("#0072B2", "X"),
    "fairspan-decisions": ("#56B4E9", "D"),
    "fairspan-leaves": ("#56B4E9", "^"),
    "fairspan-aware": ("#0072B2", "P"),
    "fairspan-aware-correlation": ("#56B4E9", "P"),
    "fairspan-new-rows": ("#56B4E9", "o"),
    "fairspan-auto": ("#0072B2", "h"),
    "fairspan-rule": ("#56B4E9", "s"),
    "fairspan-rule-boosting": ("#56B4E9", "v"),
    "fairspan-rule-logistic": ("#56B4E9", "X"),
    "fairspan-promise": ("#0072B2", "d"),
    "fairspan-rule-promise": ("#56B4E9", "d"),
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
    "linear-post": ("#F0E442", "o"),
    "linear-post-logistic": ("#F0E442", "s"),
    "penalised-boosting": ("#6E6E6E", "o"),
    "penalised-network": ("#6E6E6E", "s"),
    "fairret": ("#6E6E6E", "^"),
    "ktopt": ("#CC79A7", "o"),
    "leace": ("#009E73", "D"),
    "barycentre": ("#000000", "P"),
}


def compared_at(data: str) -> float:
    """The limit on |corr| that a data set's prices are shown at."""
    return _LIMITS.get(data, _LIMIT)
