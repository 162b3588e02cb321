"""The models of a path: their predictions from one pass over the rows (METHOD 7); its rows and folds."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples

from fairspan._system import track
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.path_selection import Judge
from fairspan.exceptions import each_warning_once
from fairspan.inputs.alignment import align_rows
from fairspan.inputs.columns import as_frame, named_columns_of, take_rows
from fairspan.inputs.rows import read_training_data
from fairspan.method.data import Codes, Data
from fairspan.method.folds import FoldCounter
from fairspan.method.linalg import Array
from fairspan.metrics import correlation_noise

# ------------------------------------------------------------------ predictions


def move(est: Any, fairness: float) -> Any:
    """The fit at a place on the angle scale, which may lie past 1: ``at`` without its check."""
    out = copy.copy(est)
    out.fairness, out.dial = float(fairness), "angle"
    out._locate()
    return out


# Log odds below any that a likelihood gives.
_NEVER = -1e3


@dataclass(frozen=True)
class Strand:
    """Predictions of one fit at every dial value, kept as scores (2d numbers a row) and heads."""

    rows: Codes  # places of these rows among all that are judged
    scores: Array  # (n, m)
    coef: Array  # (points, m, outputs)
    intercept: Array  # (points, outputs)

    def outputs(self, points: slice) -> Array:
        """Fitted scores at some dial values, (n, outputs, points)."""
        coef = np.moveaxis(self.coef[points], 0, 2)
        flat = self.scores @ coef.reshape(coef.shape[0], -1)
        return np.asarray(flat.reshape(-1, *coef.shape[1:]) + self.intercept[points].T)


def gather(strands: list[Strand], points: slice) -> Array:
    """Fitted scores of all rows, whichever fit predicts them: (n, outputs, points)."""
    if len(strands) == 1:
        return strands[0].outputs(points)
    parts = [strand.outputs(points) for strand in strands]
    out = np.empty((sum(map(len, parts)), *parts[0].shape[1:]))
    for strand, part in zip(strands, parts, strict=True):
        out[strand.rows] = part
    return out


@dataclass(frozen=True)
class Heads:
    """The model at every dial value as coefficients on one basis; needs no rows."""

    basis: Array  # (D, m), in psi coordinates
    coef: Array
    intercept: Array
    supremum: Array  # the certificate's, (points,)

    @classmethod
    def of(cls, est: FairKernelEstimator, grid: Array) -> Heads:
        """Move along the dial; a warning that every place repeats is given once."""
        solution = est._solution
        coef, weights, intercept, supremum = [], [], [], []
        earlier: list[Any] = []
        with each_warning_once():
            for fairness in grid:
                at = copy.copy(est)
                at.fairness, at.dial = float(fairness), "angle"
                at._follow(earlier)
                earlier = [*earlier[-1:], at]
                position, head, shift = at._path_head()
                coef.append(position.blend @ head)
                intercept.append(np.broadcast_to(shift, head.shape[1]))
                supremum.append(position.certificate.supremum)
                if hasattr(at, "_fair_space"):  # components of all of F: no blend of the basis
                    weights.append(position.directions @ head)
        basis, heads = solution.basis, coef
        if weights:
            basis = np.concatenate(weights, axis=1)
            eye = np.eye(basis.shape[1])
            heads = np.split(eye, np.cumsum([w.shape[1] for w in weights])[:-1], axis=1)
        return cls(basis, np.array(heads), np.array(intercept), np.array(supremum))

    def strand(self, est: Any, X: Array, rows: Codes, classes: np.ndarray | None) -> Strand:
        """One pass over the kernel columns of clean rows X."""
        scores = est.pilot_.features.scores(X, self.basis) - self.basis.T @ est._solution.mean
        coef, intercept = self.coef, self.intercept
        if classes is not None and len(est.classes_) < len(classes):
            if coef.shape[2] == 1:  # log odds of two classes
                coef, intercept = (
                    np.concatenate([-v, v], axis=-1) / 2.0 for v in (coef, intercept)
                )
            # A fold that never saw a class gives it the share 0, or a latent of "never".
            never = _NEVER if getattr(est, "likelihood", None) == "logistic" else 0.0
            known = np.searchsorted(classes, est.classes_)
            seen, shift = coef, intercept
            coef = np.zeros((*seen.shape[:2], len(classes)))
            intercept = np.full((len(seen), len(classes)), never)
            coef[:, :, known], intercept[:, known] = seen, shift
        return Strand(rows, scores, coef, intercept)


# ------------------------------------------------------------------ rows and folds


def read_grid(est: Any, n_points: Any, max_fairness: Any) -> Array:
    """Dial values from 0, after checking what cannot be."""
    if not isinstance(est, FairKernelEstimator):
        msg = (
            f"A path is made of a fairspan estimator; got {type(est).__name__}. For a pipeline, pass its "
            f"last step and the rows as the steps before transform them."
        )
        raise TypeError(msg)
    if not isinstance(n_points, int | np.integer) or n_points < 2:
        msg = f"n_points={n_points!r} is not allowed; give an integer of at least 2."
        raise ValueError(msg)
    if not isinstance(max_fairness, int | float | np.number) or not 0.0 < max_fairness <= 2.0:
        msg = f"max_fairness={max_fairness!r} is not allowed; give a number above 0, at most 2."
        raise ValueError(msg)
    if max_fairness > 1.0 and est.subspace == "fair":
        msg = "subspace='fair' ends at fairness 1, where its prior is on F alone; use subspace='model'."
        raise ValueError(msg)
    return np.linspace(0.0, float(max_fairness), int(n_points))


def read_rows(est: Any, X: Any, y: Any, sensitive: Any, control: Any, weight: Any) -> Data:
    """Clean rows to evaluate on, without those of weight zero."""
    if y is None or est.pilot_.target is None:
        msg = "A path needs y, both when the estimator is fitted and on the rows to evaluate on."
        raise ValueError(msg)
    config = est._config
    if est.kernel == "precomputed":  # only training rows make a square matrix
        config = replace(config, kernel="linear")
    data = read_training_data(est, config, X, y, sensitive, control, weight, reset=False)
    if data.n == 0:
        msg = "sample_weight is zero for every row; nothing is left to evaluate on."
        raise ValueError(msg)
    return data.on_host()


def split(est: Any, data: Data, n_rows: int, cv: Any) -> list[tuple[Codes, Codes]]:
    """Training rows (of those given) and test rows (of those of positive weight), fold by fold.

    A number of folds is balanced over y and S, as the estimator's own folds are.
    """
    places = np.arange(n_rows) if data.index is None else data.index
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= data.n:
            msg = f"cv={cv} is not allowed for {data.n} rows; give 2 folds or more, at most one per row."
            raise ValueError(msg)
        counter = FoldCounter(int(cv), est.pilot_.fold_offset)
        fold = counter.assign(est.pilot_.encode(data).strata)
        found = [(places[fold != k], np.flatnonzero(fold == k)) for k in range(int(cv))]
    else:
        assert data.y is not None
        labels = np.zeros(n_rows, dtype=data.y.values.dtype)
        labels[places] = data.y.values
        given = list(check_cv(cv).split(np.zeros((n_rows, 1)), labels))
        tested = np.sort(np.concatenate([test for _, test in given]))
        if not np.array_equal(tested, np.arange(n_rows)):
            msg = "cv must put every row into exactly one test fold, as KFold does."
            raise ValueError(msg)
        found = [(train, np.flatnonzero(np.isin(places, test))) for train, test in given]
    return [(train, test) for train, test in found if len(test)]


def out_of_fold(
    estimator: Any, grid: Array, cv: Any, X: Any, y: Any, sensitive: Any, control: Any, weight: Any
) -> tuple[FairKernelEstimator, Judge, list[Strand], float]:
    """The refit on all rows, its judge, each fold's predictions, and the share of rows trained on."""
    square = estimator.kernel == "precomputed" and estimator.feature_map is None
    # Before the folds: they take rows by position.
    X, y, sensitive, control, weight = align_rows(
        X=X, y=y, sensitive_features=sensitive, control_features=control, sample_weight=weight
    ).values()
    n_rows, frame = _num_samples(X), as_frame(X, "X")

    def fit(rows: Codes | None) -> Any:
        some = [X, y, sensitive, control, weight]
        if rows is not None:
            named = [named_columns_of(frame, raw, "sensitive_features") for raw in some[2:4]]
            some[:2] = take_rows(X, rows), take_rows(y, rows)
            some[2:4] = [
                r if k else take_rows(r, rows) for r, k in zip(some[2:4], named, strict=True)
            ]
            some[4] = take_rows(weight, rows)
            if square:
                some[0] = np.asarray(some[0])[:, rows]
        roles = ("X", "y", "sensitive_features", "control_features", "sample_weight")
        one = clone(estimator)
        if rows is not None:
            one.verbose = 0  # the folds have a bar of their own
        return one.fit(**dict(zip(roles, some, strict=True)))

    final = fit(None)
    data = read_rows(final, X, y, sensitive, control, weight)
    judge = Judge(final, data)
    places = np.arange(n_rows) if data.index is None else data.index
    folds = split(final, data, n_rows, cv)
    strands = []
    for train, test in track(folds, len(folds), "folds of the path", verbose=estimator.verbose):
        fold = fit(train)
        held_out = take_rows(X, places[test])
        checked = fold._read_new(np.asarray(held_out)[:, train] if square else held_out)
        if judge.classes is not None:  # such a class's scores would tell folds apart
            judge.unseen.update(np.flatnonzero(~np.isin(judge.classes, fold.classes_)).tolist())
        strands.append(Heads.of(fold, grid).strand(fold, checked, test, judge.classes))
    if judge.classes is not None and len(judge.unseen) == len(judge.classes):
        msg = (
            f"None of the {len(judge.classes)} classes of y is in the training rows of every fold, so "
            f"no score can be compared across folds. Merge rare classes, or give fewer folds."
        )
        raise ValueError(msg)
    share = float(np.mean([len(train) for train, _ in folds])) / n_rows
    return final, judge, strands, share


def sampling_noise(est: Any, judge: Judge, train_share: float = 1.0) -> float:
    """Noise of a held-out correlation in the smallest cell of the criterion (METHOD 10)."""
    worst = 0.0
    for c, cell in enumerate(judge.cell_names):
        w = judge.weight[judge.cells == c]
        train = [r.n_rows for r in est._solution.reports if r.cell == cell]
        if len(w):
            n_train = max([*train, 1]) * train_share
            worst = max(worst, correlation_noise(w.sum() ** 2 / (w @ w), n_train))
    return worst
