"""Whitened codes of the protected attributes: what covariance penalties are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.problem import Attribute, canonical_criterion
from fairspan_lab.baselines._common import refuse
from fairspan_lab.baselines._sensitive import SensitiveCoding

__all__ = ["CRITERIA", "check_criterion", "covariance", "whitened_codes"]

CRITERIA = ("statistical_parity", "equal_opportunity", "equalized_odds")
# Share of the largest variance below which a direction of the codes is rounding.
_RANK = 1e-10


def check_criterion(value: object, allowed: tuple[str, ...] = CRITERIA) -> str:
    """The long name of a criterion that a method has."""
    criterion = canonical_criterion(value)
    if criterion not in allowed:
        raise refuse("criterion", value, "one of " + ", ".join(map(repr, allowed)))
    return criterion


def whitened_codes(
    attributes: dict[str, Attribute], criterion: str, positive: NDArray[np.bool_] | None = None
) -> Array:
    """Columns C of mean 0 with ``C'C / n = I`` for every attribute and cell.

    A score without covariance with them has the same mean in every group (numbers: no correlation), among
    all rows, those of the favourable class, or those of each class.

    Parameters
    ----------
    attributes : dict
        Numbers with many values are used as they are, everything else as indicators.
    criterion : {"statistical_parity", "equal_opportunity", "equalized_odds"}
    positive : array of bool, optional
        Rows of the favourable class; not read for statistical parity.
    """
    n = len(next(iter(attributes.values())).values)
    cells = [np.ones(n, dtype=bool)]
    if criterion != "statistical_parity":
        if positive is None:
            msg = (
                f"criterion={criterion!r} needs two classes; for numbers give 'statistical_parity'."
            )
            raise ValueError(msg)
        cells = [positive] if criterion == "equal_opportunity" else [positive, ~positive]
    blocks = []
    for name, attribute in attributes.items():
        columns = SensitiveCoding.learn({name: attribute}, "auto").columns({name: attribute})
        for cell in cells:
            codes = np.where(cell[:, None], columns - columns[cell].mean(axis=0), 0.0)
            values, vectors = psd_eigh(codes.T @ codes / n)
            keep = values > _RANK * max(float(values.max()), 1e-300)
            blocks.append(codes @ (vectors[:, keep] / np.sqrt(values[keep])))
    return np.concatenate(blocks, axis=1)


def covariance(scores: Array, codes: Array) -> Array:
    """``Cov(codes, scores)``: one number per code."""
    return np.asarray(codes.T @ (scores - scores.mean()) / len(scores))
