"""Regression with equal distributions: the Wasserstein barycentre of the groups' predictions.

Chzhen, Denis, Hebiri, Oneto and Pontil (2020), "Fair regression with Wasserstein barycenters", NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_seed
from fairspan.method.codes import Coder, CrossedCoder, infer_kind
from fairspan.method.linalg import Array
from fairspan.method.problem import Attribute, Codes
from fairspan_lab.baselines._common import (
    BaselineRegressor,
    check_count,
    check_number,
    read_numbers,
    read_rows,
)
from fairspan_lab.baselines._sensitive import SensitiveCoding, align, read_sensitive

__all__ = ["BarycentreRegression", "barycentre"]


@dataclass(frozen=True)
class Quantiles:
    """Distribution function of a sample and its inverse, continuous between the values."""

    values: Array  # sorted, distinct
    ranks: Array  # the middle of the ranks of each

    @classmethod
    def of(cls, sample: Array) -> Quantiles:
        """Ties share the middle of their ranks."""
        values, counts = np.unique(sample, return_counts=True)
        return cls(values, (np.cumsum(counts) - counts / 2.0) / len(sample))

    def rank(self, t: Array) -> Array:
        """Share of the sample below t."""
        return np.interp(t, self.values, self.ranks)

    def value(self, u: Array) -> Array:
        """Value below which the share u of the sample is."""
        return np.interp(u, self.ranks, self.values)


class BarycentreRegression(BaselineRegressor):
    """Move each prediction to the barycentre of the groups' distributions (Chzhen et al. 2020).

    With a base regression f(x, s), the groups' distribution functions F_j of f and their quantile functions
    Q_j::

        F(x, s) = sum_j P(j) Q_j(F_s(f(x, s)))

    has the same distribution in every group, and among all such predictions it changes f the least. The
    distributions are those of rows that f was not trained on; their targets are not read.

    Limits: S is read at prediction time. Numbers with many values are cut into slices, and several
    attributes become one of their combinations, each of which needs rows.

    Parameters
    ----------
    share : float, default=1.0
        ``(1 - share) f + share F``: 0 is the base regression, 1 has equal distributions; its dial.
    estimator : regressor, default=None
        Base regression on X and indicators of S; ``HistGradientBoostingRegressor(random_state=...)`` if
        None.
    n_slices : int, default=4
        Slices of an attribute with many values.
    holdout : float, default=0.3
        Share of the rows for the distributions.
    random_state : int, RandomState or None, default=None
        Of the division of the rows, and of the base regression if it is not given.

    Attributes
    ----------
    estimator_ : regressor
        The base regression.
    groups_ : list of Quantiles
        Distributions of the groups.
    shares_ : ndarray of shape (n_groups,)
        P(j).
    """

    reads_sensitive_at_predict: ClassVar[bool] = True
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        share: float = 1.0,
        *,
        estimator: Any = None,
        n_slices: int = 4,
        holdout: float = 0.3,
        random_state: Any = None,
    ) -> None:
        self.share = share
        self.estimator = estimator
        self.n_slices = n_slices
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Numbers.
        sensitive_features : array-like, series or frame
            One or several attributes.

        Returns
        -------
        self
        """
        check_number("share", self.share, 0.0, 1.0)
        slices = check_count("n_slices", self.n_slices, 2)
        holdout = check_number("holdout", self.holdout, 0.05, 0.95)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        target = read_numbers(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        self._coder = CrossedCoder.learn(
            [_coder(a, slices) for a in attributes.values()], attributes
        )
        self._coding = SensitiveCoding.learn(attributes, "auto")
        groups = self._coder.codes(attributes)
        first, second = _divide(groups, holdout, self.random_state)
        base = self.estimator
        if base is None:
            base = HistGradientBoostingRegressor(random_state=self.random_state)
        both = np.column_stack([rows, self._coding.columns(attributes)])
        self.estimator_ = clone(base).fit(both[first], target[first])
        f = np.asarray(self.estimator_.predict(both[second]))
        counts = np.bincount(groups[second], minlength=self._coder.n_levels)
        self.groups_ = [Quantiles.of(f[groups[second] == j]) for j in range(len(counts))]
        self.shares_ = counts / counts.sum()
        return self

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """Predictions from X and the protected attributes."""
        rows = self._read_new(X)
        attributes = align(
            read_sensitive(self, X, sensitive_features, len(rows), "predict"), self._coding.names
        )
        both = np.column_stack([rows, self._coding.columns(attributes)])
        f = np.asarray(self.estimator_.predict(both))
        moved = barycentre(f, self._coder.codes(attributes), self.groups_, self.shares_)
        return np.asarray((1.0 - self.share) * f + self.share * moved)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Coefficient of determination of :meth:`predict`."""
        found = self.predict(X, sensitive_features=sensitive_features)
        return float(r2_score(y, found, sample_weight=sample_weight))


# --------------------------------------------------------------------------- the problem


def barycentre(f: Array, groups: Codes, quantiles: list[Quantiles], shares: Array) -> Array:
    """``sum_j P(j) Q_j(F_s(f))`` for each row."""
    out = np.empty(len(f))
    for j, own in enumerate(quantiles):
        mine = groups == j
        rank = own.rank(f[mine])
        moved = [share * q.value(rank) for share, q in zip(shares, quantiles, strict=True)]
        out[mine] = np.sum(moved, axis=0)
    return out


def _coder(attribute: Attribute, slices: int) -> Coder:
    if infer_kind(attribute) == "continuous":
        return Coder.learn(attribute, "continuous", slices)
    return Coder.learn(attribute, "categorical", None)


def _divide(groups: Codes, share: float, random_state: Any) -> tuple[Codes, Codes]:
    """Rows for the regression and rows for the distributions, with every group in both."""
    counts = np.bincount(groups)
    if counts.min() < 2:
        msg = (
            f"BarycentreRegression needs two rows of every combination of the protected attributes; "
            f"{int(np.sum(counts < 2))} of {len(counts)} have one. Give fewer slices, or merge groups."
        )
        raise ValueError(msg)
    n_second = min(max(round(share * len(groups)), len(counts)), len(groups) - len(counts))
    first, second = train_test_split(
        np.arange(len(groups)),
        test_size=n_second,
        random_state=read_seed(random_state),
        stratify=groups,
    )
    return np.sort(first), np.sort(second)
