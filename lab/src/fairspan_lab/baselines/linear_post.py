"""LinearPost: decisions with equal rates, by a linear program on predicted probabilities.

Xian and Zhao (2024), "A unified post-processing framework for group fairness in classification",
arXiv:2405.04025; the version that does not read S.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_seed
from fairspan.method.codes import Coder
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan_lab.baselines._common import (
    BaselineClassifier,
    check_number,
    positive_rows,
    read_rows,
    read_two_classes,
)
from fairspan_lab.baselines._penalty import check_criterion
from fairspan_lab.baselines._sensitive import read_sensitive

__all__ = ["LinearPost", "best_multipliers"]


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """Predicted rate codes of one attribute: a model of the groups, or of the groups and y."""

    model: Any
    blocks: tuple[Codes, ...]  # classes of the model whose rates shall be equal
    scale: Array  # (classes,) share of each, so that deciding 1 for all has the rate 1

    def codes(self, rows: Array) -> Array:
        """Probability of each class over its share; their means times decisions are rates."""
        p = np.asarray(self.model.predict_proba(rows))
        return np.asarray((p / self.scale)[:, np.concatenate(self.blocks)])


class LinearPost(BaselineClassifier):
    """Decide ``1[2 p(x) - 1 - psi'c(x) > 0]``, psi from a linear program (Xian and Zhao 2024).

    Part of the rows trains models of ``p(x) = P(y=1|x)`` and of the groups, ``P(s=j|x)`` or
    ``P(s=j, y=k|x)``. On the others, decisions d between 0 and 1 with the least expected error are
    sought whose predicted rates ``mean(d P(s=j|x)) / P(j)`` differ by at most ``tolerance``; the
    multipliers of these limits are psi, and ``c_j(x) = P(s=j|x) / P(j)``. The labels and groups of the
    second part are not read.

    Limits: the rates that are equal are predicted ones, and nothing compares them with real rates: where
    the model of the groups is poor or not calibrated the gap on new rows is larger than ``tolerance``.
    Decisions only: the score is a margin, no probability.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest difference between the predicted rates of two groups; its dial.
    criterion : {"statistical_parity", "equal_opportunity", "equalized_odds"}, default="statistical_parity"
        Rates of decisions among all rows, those of the favourable class, or those of each class.
    pos_label : label, default=None
        The favourable class; the second in sorted order if None.
    estimator : classifier, default=None
        Model of y; ``HistGradientBoostingClassifier(random_state=...)`` if None.
    group_estimator : classifier, default=None
        Model of the groups (and of y for the other criteria); as ``estimator`` if None.
    holdout : float, default=0.5
        Share of the rows for the linear program.
    random_state : int, RandomState or None, default=None
        Of the division of the rows, and of the models if they are not given.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    multipliers_ : ndarray of shape (n_codes,)
        psi.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairspan_lab.baselines import LinearPost
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 2)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=2000) > 0.5).astype(int)
    >>> free = LinearPost(1.0, estimator=LogisticRegression(), random_state=0)
    >>> d = free.fit(X, y, sensitive_features=s).predict(X)
    >>> round(float(d[s == 1].mean() - d[s == 0].mean()), 1)
    0.4
    >>> d = free.at(0.0).predict(X)
    >>> round(abs(float(d[s == 1].mean() - d[s == 0].mean())), 1)
    0.0
    """

    def __init__(
        self,
        tolerance: float = 0.0,
        *,
        criterion: str = "statistical_parity",
        pos_label: Any = None,
        estimator: Any = None,
        group_estimator: Any = None,
        holdout: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.tolerance = tolerance
        self.criterion = criterion
        self.pos_label = pos_label
        self.estimator = estimator
        self.group_estimator = group_estimator
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame
            One or several attributes with a few values each. Not needed again.

        Returns
        -------
        self
        """
        criterion = check_criterion(self.criterion)
        share = check_number("holdout", self.holdout, 0.05, 0.95)
        tolerance = check_number("tolerance", self.tolerance)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        signs, classes = read_two_classes(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        good = positive_rows(signs, classes, self.pos_label)
        coders = [Coder.learn(each, "categorical", None) for each in attributes.values()]
        groups = [coder.codes(attributes) for coder in coders]
        first, second = _divide(signs, groups, share, self.random_state)
        self._base = self._model(self.estimator).fit(rows[first], (signs[first] > 0.0).astype(int))
        group_model = self.group_estimator if self.group_estimator is not None else self.estimator
        self._rates = [
            _learn_rates(
                self._model(group_model), name, group, good, criterion, rows, first, second
            )
            for name, group in zip(attributes, groups, strict=True)
        ]
        self._post = (self._utility(rows[second]), self._codes(rows[second]))
        sizes = [len(block) for rates in self._rates for block in rates.blocks]
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self.classes_ = classes
        self._solve(tolerance)
        return self

    def at(self, tolerance: float) -> Self:
        """The same models under another limit: only the linear program is solved again."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.tolerance = tolerance
        other._solve(check_number("tolerance", tolerance))
        return other

    def decision_function(self, X: Any) -> Array:
        """``2 p(x) - 1 - psi'c(x)``; positive means ``classes_[1]``. No protected attribute is read."""
        rows = self._read_new(X)
        return np.asarray(self._utility(rows) - self._codes(rows) @ self.multipliers_)

    def _model(self, given: Any) -> Any:
        if given is not None:
            return clone(given)
        return HistGradientBoostingClassifier(random_state=self.random_state)

    def _utility(self, rows: Array) -> Array:
        return np.asarray(2.0 * self._base.predict_proba(rows)[:, 1] - 1.0)

    def _codes(self, rows: Array) -> Array:
        return np.concatenate([rates.codes(rows) for rates in self._rates], axis=1)

    def _solve(self, tolerance: float) -> None:
        utility, codes = self._post
        weight = np.full(len(utility), 1.0 / len(utility))
        self.multipliers_ = best_multipliers(utility, codes, self._block, weight, tolerance)


# --------------------------------------------------------------------------- the problem


def best_multipliers(
    utility: Array, codes: Array, block: Codes, weight: Array, limit: float
) -> Array:
    """Multipliers of the codes, (Q,), of the best decisions whose predicted rates differ by at most a limit.

    Maximise ``weight @ (utility * d)`` over 0 <= d <= 1, where in each block all ``weight @ (codes * d)``
    are between x and x + limit for some x: then every two of them differ by at most the limit.

    Parameters
    ----------
    utility : (n,) gain of deciding 1.
    codes : (n, Q) predicted rate codes.
    block : (Q,) number of the block of each code.
    weight : (n,) with the sum 1.
    limit : float
    """
    n, Q = codes.shape
    means = (codes * weight[:, None]).T
    own = (np.asarray(block)[:, None] == np.arange(int(np.max(block)) + 1)).astype(float)
    solved = scipy.optimize.linprog(
        np.concatenate([-weight * utility, np.zeros(own.shape[1])]),
        A_ub=np.block([[-means, own], [means, -own]]),
        b_ub=np.concatenate([np.zeros(Q), np.full(Q, limit)]),
        bounds=[(0.0, 1.0)] * n + [(None, None)] * own.shape[1],
        method="highs",
    )
    if not solved.success:
        msg = f"The linear program was not solved: {solved.message}"
        raise RuntimeError(msg)
    prices = -solved.ineqlin.marginals
    return np.asarray(prices[Q:] - prices[:Q])


def _divide(
    signs: Array, groups: list[Codes], share: float, random_state: Any
) -> tuple[Codes, Codes]:
    """Rows for the models and rows for the linear program, alike in y and S.

    Shuffled rows are sorted by class and groups, and dealt in turn: train_test_split refuses cells of one
    row, and without strata small groups can be in one part only.
    """
    cells = np.unique(np.column_stack([signs, *groups]), axis=0, return_inverse=True)[1].ravel()
    order = read_seed(random_state).permutation(len(signs))
    order = order[np.argsort(cells[order], kind="stable")]
    dealt = np.floor(np.arange(len(order) + 1) * share + 0.5)
    second = np.sort(order[np.diff(dealt) > 0.0])
    first = np.setdiff1d(order, second)
    if len(np.unique(signs[first])) < 2 or not len(second):
        msg = (
            f"LinearPost divides the rows in two, and trains on a part with both classes; y has "
            f"{len(signs)} rows, {int((signs > 0.0).sum())} of them of the second class. Give more rows."
        )
        raise ValueError(msg)
    return first, second


def _learn_rates(
    model: Any,
    name: str,
    group: Codes,
    good: NDArray[np.bool_],
    criterion: str,
    rows: Array,
    first: Codes,
    second: Codes,
) -> _Rates:
    """Fit the model of the groups on the first part; shares are mean probabilities of the second."""
    # The model's classes tell whether y is the favourable class where rates depend on it.
    labels = group if criterion == "statistical_parity" else 2 * group + good
    if len(np.unique(group[first])) < 2:
        msg = (
            f"sensitive_features {name!r}: the rows that LinearPost trains on have one group only. "
            f"Give more rows, or a smaller holdout."
        )
        raise ValueError(msg)
    model.fit(rows[first], labels[first])
    known = np.asarray(model.classes_)
    blocks = [known >= 0] if criterion == "statistical_parity" else [known % 2 == 1]
    if criterion == "equalized_odds":
        blocks.append(known % 2 == 0)
    return _Rates(
        model=model,
        blocks=tuple(np.flatnonzero(block) for block in blocks if block.any()),
        scale=np.asarray(model.predict_proba(rows[second])).mean(axis=0),
    )
