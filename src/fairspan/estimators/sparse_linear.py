"""Linear regressions with few columns, for all folds at once, from sums of products."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, enet_path

from fairspan.method.fold_codes import Flags
from fairspan.method.laplace import softmax
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["LinearModels", "Link", "fit_linear", "out_of_fold"]

# Shares of the absolute values in the penalty (the rest are squares), and penalties relative to the
# smallest one that leaves no column.
_L1_SHARES = (1.0, 0.1)
_PENALTIES = np.logspace(0.0, -3.5, 20)
# Relative size of a spread or an eigenvalue that is rounding.
_ROUNDING = 1e-10
# Of coordinate descent and of logistic regressions.
_MAX_ITER, _TOLERANCE = 1000, 1e-5
# Most classes whose expectations are fitted, and a penalty that only keeps the slopes finite.
_MOST_CLASSES, _WEAK = 6, 1e3


@dataclass(frozen=True, kw_only=True)
class Link:
    """Expectation of the outputs given their linear scores, for outputs that are codes of few classes."""

    slopes: Array  # (K, m, classes)
    shifts: Array  # (K, classes)
    vectors: Array  # (classes, m): outputs of each class

    def __call__(self, fold: int, scores: Array) -> Array:
        """Outputs, (n, m)."""
        return softmax(scores @ self.slopes[fold] + self.shifts[fold]) @ self.vectors


@dataclass(frozen=True, kw_only=True)
class LinearModels:
    """Linear functions of the columns for every output of one task, each fitted without one fold."""

    coef: Array  # (K, p, m)
    intercept: Array  # (K, m)
    share: Array  # weight of each fold
    link: Link | None

    def predict(self, fold: int, X: Array) -> Array:
        """Columns predicted by the functions that were fitted without a fold."""
        scores = np.asarray(X @ self.coef[fold] + self.intercept[fold])
        return scores if self.link is None else self.link(fold, scores)

    def average(self, X: Array) -> Array:
        """Average over the folds."""
        each = (share * self.predict(k, X) for k, share in enumerate(self.share))
        return np.asarray(sum(each))

    def of_training_rows(self, X: Array, folds: Codes) -> tuple[Array, Array]:
        """Out-of-fold columns and averages."""
        return out_of_fold(self.predict, X, folds, self.coef.shape[2]), self.average(X)

    def for_new_rows(self) -> LinearModels:
        """Itself: functions are small."""
        return self


def out_of_fold(
    predict: Callable[[int, Array], Array], X: Array, folds: Codes, n_columns: int
) -> Array:
    """Predictions of every row by the model that was fitted without its fold, (n, n_columns)."""
    out = np.empty((len(X), n_columns))
    for k in range(int(folds.max()) + 1):
        out[folds == k] = predict(k, X[folds == k])
    return out


def fit_linear(
    X: Array,
    values: Array,
    labels: Codes | None,
    vectors: Array | None,
    known: Flags | None,
    folds: Codes,
    weight: Array | None,
    share: Array,
) -> LinearModels:
    """Fit least squares with a penalty that leaves columns out, without each fold.

    All outputs share their columns and the penalty, which is that of the least out-of-fold squared error.
    So the functions do not depend on the basis in which the codes of several groups are written. Outputs of
    few classes are then turned into expectations by a logistic regression on the scores of the other folds.

    Parameters
    ----------
    X : (n, p)
    values : (n, m) outputs.
    labels, vectors : class of each row, and the outputs of each class; None for numbers.
    known : (n,) rows to learn from; None: all.
    folds : (n,)
    weight : (n,) or None
    share : (K,) weight of each fold.
    """
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale <= _ROUNDING * np.abs(centre)] = np.inf  # a constant has coefficient 0
    Z, K = (X - centre) / scale, len(share)
    used = np.ones(len(X)) if weight is None else weight
    if known is not None and all((known & (folds != k)).any() for k in range(K)):
        used = np.where(known, used, 0.0)
    W, b = _fit_task(Z, values, folds, used, K)
    link = None
    if labels is not None and vectors is not None and len(vectors) <= _MOST_CLASSES:
        scores = out_of_fold(lambda k, rows: rows @ W[k] + b[k], Z, folds, values.shape[1])
        link = _fit_link(scores, labels, vectors, folds, used, K)
    return LinearModels(
        coef=W / scale[:, None], intercept=b - (centre / scale) @ W, share=share, link=link
    )


def _fit_link(
    scores: Array, labels: Codes, vectors: Array, folds: Codes, weight: Array, K: int
) -> Link | None:
    """Logistic regressions on the scores of all folds but one; None where one of them has no two classes."""
    n_classes, m = vectors.shape
    slopes, shifts = np.zeros((K, m, n_classes)), np.full((K, n_classes), -np.inf)
    for k in range(K):
        rows = (folds != k) & (weight > 0.0)
        seen = np.unique(labels[rows])
        if len(seen) < 2:
            return None
        model = LogisticRegression(C=_WEAK, tol=_TOLERANCE, max_iter=_MAX_ITER)
        model.fit(scores[rows], labels[rows], sample_weight=weight[rows] / weight[rows].mean())
        coef, intercept = model.coef_, model.intercept_
        if len(seen) == 2:
            coef, intercept = np.array([[-0.5], [0.5]]) * coef, np.array([-0.5, 0.5]) * intercept
        slopes[k][:, seen], shifts[k, seen] = coef.T, intercept
    return Link(slopes=slopes, shifts=shifts, vectors=vectors)


def _fit_task(Z: Array, values: Array, folds: Codes, weight: Array, K: int) -> tuple[Array, Array]:
    """Coefficients, (K, p, m), and intercepts, (K, m), of one task."""
    p = Z.shape[1]
    rows = np.column_stack([np.ones(len(Z)), Z, values])
    products = np.stack(
        [rows[folds == k].T @ (rows[folds == k] * weight[folds == k, None]) for k in range(K)]
    )
    total = products.sum(axis=0)
    largest = float(np.linalg.norm(_about_mean(total, p)[1], axis=1).max(initial=0.0))
    means = [_about_mean(total - of_fold, p)[2:] for of_fold in products]
    best, least = [np.zeros((p, values.shape[1]))] * K, np.inf
    for l1_share in _L1_SHARES if largest > 0.0 else ():
        paths = [
            _path(total - of_fold, p, largest * _PENALTIES / l1_share, l1_share)
            for of_fold in products
        ]
        for functions in zip(*paths, strict=True):
            error = sum(
                _squared_error(of_fold, W, mean_x, mean_y)
                for of_fold, W, (mean_x, mean_y) in zip(products, functions, means, strict=True)
            )
            if error < least:
                best, least = list(functions), error
    intercepts = [mean_y - mean_x @ W for W, (mean_x, mean_y) in zip(best, means, strict=True)]
    return np.stack(best), np.stack(intercepts)


def _about_mean(products: Array, p: int) -> tuple[Array, Array, Array, Array]:
    """Covariance of the columns, theirs with the outputs, and both means, from sums of products."""
    mean = products[0, 1:] / products[0, 0]
    cov = products[1:, 1:] / products[0, 0] - np.outer(mean, mean)
    return cov[:p, :p], cov[:p, p:], mean[:p], mean[p:]


def _path(products: Array, p: int, penalties: Array, l1_share: float) -> list[Array]:
    """Coefficients, (p, m), for each penalty, from the largest."""
    cov, cross, _, _ = _about_mean(products, p)
    values, vectors = np.linalg.eigh(cov)
    kept = values > _ROUNDING * values.max(initial=0.0)
    # As many rows as columns give the same squared error, up to a constant.
    root = np.sqrt(values[kept] * kept.sum())
    rows = np.asfortranarray(root[:, None] * vectors[:, kept].T)
    targets = np.asfortranarray((vectors[:, kept].T @ cross) * (kept.sum() / root)[:, None])
    with (
        warnings.catch_warnings()
    ):  # small penalties may stop early; the error on other rows decides
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefs, _ = enet_path(
            rows, targets, l1_ratio=l1_share, alphas=penalties, max_iter=_MAX_ITER, tol=_TOLERANCE
        )
    return [np.asarray(W).T for W in np.moveaxis(coefs, 2, 0)]


def _squared_error(products: Array, W: Array, mean_x: Array, mean_y: Array) -> float:
    """Squared error of ``mean_y + (x - mean_x)'W``, summed over the rows of some products."""
    residual = np.concatenate([(mean_x @ W - mean_y)[None], -W, np.eye(W.shape[1])])
    return float(np.einsum("im,ij,jm->", residual, products, residual))
