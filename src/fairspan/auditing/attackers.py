"""Attackers: models that recover a protected attribute from a representation or a score."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import nan, sqrt
from typing import Literal

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression

from fairspan.auditing.cross_fit import (
    Estimate,
    bins,
    deal,
    r_squared,
    ridge,
    sample_rows,
    summary,
    too_few_for_folds,
    trees,
    unit_range,
)
from fairspan.auditing.reading import Protected
from fairspan.method.kernels import median_distance
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import (
    bootstrap_counts,
    count_clusters,
    renumbered,
    standardize,
    unit_of,
)

ATTACKERS = ("linear", "kernel", "boosted")
Measure = Literal["auc", "r2"]

_MAX_ITER = 500
_LANDMARKS = 200
_WIDTH_ROWS = 500  # rows whose median distance is the kernel's width


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Out-of-fold performance of one attacker.

    Attributes
    ----------
    attacker : "linear", "kernel" or "boosted"
    measure : "auc" (categories; .5 is guessing) or "r2" (numbers; 0 is guessing, below 0 is worse)
    value, low, high : the measure and its bootstrap interval.
    n_rows : rows used.
    note : limitations of the number, or the reason why there is none.
    p_value : probability that guessing does as well (normal approximation).
    """

    attacker: str
    measure: Measure
    value: float = nan
    low: float = nan
    high: float = nan
    n_rows: int
    note: str = ""
    p_value: float = nan

    @property
    def blind(self) -> float:
        """Value of an attacker that guesses."""
        return 0.5 if self.measure == "auc" else 0.0

    @property
    def sees(self) -> bool:
        """Whether the whole interval is better than guessing."""
        return self.low > self.blind


def attack(
    Z: Array,
    protected: Protected,
    *,
    attackers: Sequence[str] = ATTACKERS,
    n_folds: int = 5,
    max_rows: int = 10_000,
    weight: Array,
    level: float = 0.95,
    n_boot: int = 200,
    rng: np.random.Generator,
    clusters: Codes | None = None,
) -> list[Attack]:
    """Let models recover a protected attribute from the columns of Z, cross-fitted.

    Parameters
    ----------
    Z : (n, d) or (n,)
        Input of the attackers: a representation, a score, or the raw features.
    protected : Protected
        The attribute to recover.
    attackers : subset of ``ATTACKERS``
        "linear": logistic or ridge regression on standardised columns. "kernel": ridge regression on
        at most 200 landmarks of a Gaussian kernel with the median width and a penalty chosen by
        leave-one-out; levels by their indicators. "boosted": a hundred small trees.
    n_folds : int
        Each row is attacked by models fitted on the other folds. Folds are balanced over the levels.
    max_rows : int
        Rows beyond this number are left out at random.
    weight : (n,)
        Positive; used in the fits and in the measure.
    level, n_boot : level and resamples of the intervals, a bootstrap over the held-out rows, within
        levels. Attackers are not refitted, so the intervals do not cover their training.
    rng : source of all randomness.
    clusters : (n,) cluster of each row; None if rows are independent. A fold has whole clusters, and
        so has a resample.

    Returns
    -------
    list of Attack
        One for each attacker. Categories: AUC; with several levels the mean over them of one level
        against the rest, weighted by their mass. Levels with fewer than ``2 * n_folds`` rows are left
        out, with a note. Numbers: R^2 of the out-of-fold predictions.

    Notes
    -----
    The AUC is the share of pairs *of the same fold* in the right order: models of different folds
    have different offsets, so pairs across folds are not comparable. If the attribute cannot be
    recovered, the AUC is a little below .5 on few rows or few columns: a level that is frequent in the
    training rows by chance is rare in the held-out rows.
    """
    unknown = [name for name in attackers if name not in ATTACKERS]
    if unknown:
        raise ValueError(f"Attackers {unknown} are unknown. Allowed: {', '.join(ATTACKERS)}.")
    rows = sample_rows(len(Z), max_rows, rng)
    note = ""
    if protected.values is None:
        rows, note = _common_levels(rows, protected, 2 * n_folds, clusters)
    measure: Measure
    measure, blind = ("auc", 0.5) if protected.values is None else ("r2", 0.0)
    seen = protected.take(rows)
    attacked = partial(Attack, measure=measure, n_rows=len(rows))
    together = renumbered(clusters, rows)
    task = None
    if not (reason := _reason_not_to_attack(seen, n_folds, together)):
        task = _task(Z[rows], seen, weight[rows], n_folds, rng, together)
        reason = task.reason_not_to_fit()
    if task is None or reason:
        note = "; ".join(filter(None, (reason, note)))
        return [attacked(attacker=name, note=note) for name in attackers]
    counts = bootstrap_counts(len(rows), n_boot, rng, task.levels, together)
    masses = np.vstack([task.weight, task.weight * counts.T])
    out = []
    for name in attackers:
        scores, not_converged = _out_of_fold(name, task)
        values = _measured(task, scores, masses)
        interval = asdict(_reach_blind(summary(values, level), blind))
        notes = "; ".join(filter(None, (note, not_converged)))
        p_value = _p_value(values, blind)
        out.append(attacked(attacker=name, note=notes, p_value=p_value, **interval))
    return out


def _common_levels(
    rows: Codes, protected: Protected, least: int, clusters: Codes | None
) -> tuple[Codes, str]:
    """Drop levels with fewer than ``least`` rows, or clusters; also return a note that names these."""
    some = None if clusters is None else clusters[rows]
    counts = count_clusters(protected.codes[rows], len(protected.labels), some)
    rare = [h for h in np.unique(protected.codes) if counts[h] < least]
    if not rare:
        return rows, ""
    names = ", ".join(protected.labels[h] for h in rare)
    note = f"left out, fewer than {least} {unit_of(clusters)}: {names}"
    return rows[~np.isin(protected.codes[rows], rare)], note


def _reach_blind(interval: Estimate, blind: float) -> Estimate:
    """Extend the interval to guessing (``blind``) unless a wider interval excludes it.

    Two rows of different folds are each used in the attack on the other. If nothing can be recovered,
    the measure is a sum over such pairs, each counted twice, so its variance is twice that of a
    bootstrap of fitted models. Otherwise single rows dominate, and the bootstrap is right.
    """
    reach = sqrt(2.0) * (interval.value - interval.low)
    if interval.low > blind >= interval.value - reach:
        return replace(interval, low=blind)
    return interval


def _p_value(values: Array, blind: float) -> float:
    """P-value of the sample (first value), with twice the variance of the resamples (the others).

    Without any variance it is at least one over the number of resamples.
    """
    drawn = values[1:][np.isfinite(values[1:])]
    if len(drawn) < 2 or not np.isfinite(values[0]):
        return nan
    error = sqrt(2.0) * float(drawn.std())
    away = float(values[0]) - blind
    if error <= 0.0:
        return 1.0 / (1.0 + len(drawn)) if away > 0.0 else 1.0
    return float(scipy.stats.norm.sf(away / error))


def _reason_not_to_attack(seen: Protected, n_folds: int, clusters: Codes | None) -> str:
    """Reason why there is nothing to recover; "" if there is none."""
    if seen.values is None:
        return "" if len(np.unique(seen.codes)) > 1 else "fewer than two levels with enough rows"
    if reason := too_few_for_folds(len(seen.values), n_folds, clusters):
        return reason
    return "" if unit_range(seen.values[:, None]).any() else "the attribute is constant"


@dataclass(frozen=True, kw_only=True)
class _Task:
    """Rows to attack: columns, the attribute as levels 0, 1, ... or as numbers, weights, folds."""

    Z: Array
    levels: Codes  # all 0 for a numeric attribute
    numbers: Array | None
    weight: Array
    fold: Codes
    seed: int

    @property
    def n_levels(self) -> int:
        return 0 if self.numbers is not None else int(self.levels.max()) + 1

    def take(self, rows: NDArray[np.bool_]) -> _Task:
        numbers = None if self.numbers is None else self.numbers[rows]
        weight, fold = self.weight[rows], self.fold[rows]
        Z, levels = self.Z[rows], self.levels[rows]
        return replace(self, Z=Z, levels=levels, numbers=numbers, weight=weight, fold=fold)

    def reason_not_to_fit(self) -> str:
        """Reason why attackers cannot be fitted; "" if there is none."""
        if self.numbers is not None:
            return ""
        folds = np.unique(self.fold)
        training = [np.unique(self.levels[self.fold != k]) for k in folds]
        whole = all(len(levels) == self.n_levels for levels in training)
        return "" if whole else "the clusters of a level are all in one fold"

    def target(self) -> Array:
        """Numbers, or an indicator for each level (for two levels, of the second one)."""
        if self.numbers is not None:
            return self.numbers[:, None]
        shown = np.arange(self.n_levels)[1 if self.n_levels == 2 else 0 :]
        return np.asarray(self.levels[:, None] == shown, dtype=np.float64)


def _task(
    Z: Array,
    seen: Protected,
    weight: Array,
    n_folds: int,
    rng: np.random.Generator,
    clusters: Codes | None,
) -> _Task:
    weight = weight / weight.mean()  # their unit must not change the regularisation
    columns = Z.reshape(len(Z), -1).astype(np.float64)
    if columns.shape[1] == 0:  # attackers need at least one column
        columns = np.zeros((len(Z), 1))
    columns = standardize(columns, weight)
    fold = deal(seen.codes, n_folds, rng, clusters)
    seed = int(rng.integers(2**31))
    if seen.values is None:
        numbers, levels = None, np.unique(seen.codes, return_inverse=True)[1].ravel()
    else:
        numbers = unit_range(seen.values[:, None])[:, 0]
        levels = np.zeros(len(Z), dtype=np.intp)
    return _Task(Z=columns, levels=levels, numbers=numbers, weight=weight, fold=fold, seed=seed)


# --- the attackers: out-of-fold scores, a column for each column of the target -------------------


def _out_of_fold(name: str, task: _Task) -> tuple[Array, str]:
    attacker = {"linear": _linear, "kernel": _kernel, "boosted": _boosted}[name]
    if name == "boosted":
        task = replace(task, Z=bins(task.Z))
    folds = np.unique(task.fold)
    out, stuck = np.empty_like(task.target()), 0
    for k in folds:
        held = task.fold == k
        scores, converged = attacker(task.take(~held), task.Z[held])
        if task.numbers is not None:  # the range of the attribute is known to an attacker
            scores = np.clip(scores, task.numbers[~held].min(), task.numbers[~held].max())
        out[held] = scores.reshape(int(held.sum()), -1)
        stuck += not converged
    return out, f"not converged in {stuck} of {len(folds)} folds" if stuck else ""


def _linear(train: _Task, new: Array) -> tuple[Array, bool]:
    if train.numbers is not None:
        return ridge(train.Z, train.target(), train.weight, new), True
    model = LogisticRegression(max_iter=_MAX_ITER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported in the note
        model.fit(train.Z, train.levels, sample_weight=train.weight)
    converged = bool(np.max(model.n_iter_) < _MAX_ITER)
    return _scores(model, new), converged


def _kernel(train: _Task, new: Array) -> tuple[Array, bool]:
    few = np.random.default_rng(train.seed).permutation(len(train.Z))[:_WIDTH_ROWS]
    gamma = median_distance(train.Z[few], "rbf") ** -2.0
    size = min(_LANDMARKS, len(train.Z))
    coordinates = Nystroem(gamma=gamma, n_components=size, random_state=train.seed)
    psi = coordinates.fit_transform(train.Z)
    return ridge(psi, train.target(), train.weight, coordinates.transform(new)), True


def _boosted(train: _Task, new: Array) -> tuple[Array, bool]:
    model = trees(len(train.Z), train.n_levels, train.seed)
    if train.numbers is not None:
        model.fit(train.Z, train.numbers, sample_weight=train.weight)
        return np.asarray(model.predict(new)), True
    model.fit(train.Z, train.levels, sample_weight=train.weight)
    return _scores(model, new), True


def _scores(model: LogisticRegression, new: Array) -> Array:
    """Scores of each level against the rest; log odds for two levels (probabilities may tie at 1)."""
    if len(model.classes_) == 2:
        return np.asarray(model.decision_function(new))
    return np.asarray(model.predict_proba(new))


# --- measures -----------------------------------------------------------------------------------


def _measured(task: _Task, scores: Array, masses: Array) -> Array:
    """AUC or R^2 for each row of masses."""
    target = task.target()
    if task.numbers is not None:
        return r_squared(((target - scores) ** 2).sum(axis=1), target, masses)
    share = task.weight @ target / (task.weight @ target).sum()
    aucs = [
        weighted_auc(column, positive > 0.0, masses, task.fold)
        for column, positive in zip(scores.T, target.T, strict=True)
    ]
    return np.asarray(share @ np.stack(aucs))


def weighted_auc(score: Array, positive: NDArray[np.bool_], masses: Array, fold: Codes) -> Array:
    """Share of pairs (positive, negative) of one fold that the score orders rightly, ties half.

    Parameters
    ----------
    score : (n,) should be larger for positive rows.
    positive : (n,) booleans.
    masses : (b, n) weights; the weight of a pair is the product of its two weights.
    fold : (n,)

    Returns
    -------
    (b,), NaN where no fold has a pair.
    """
    right, pairs = np.zeros(len(masses)), np.zeros(len(masses))
    for k in np.unique(fold):
        rows = np.flatnonzero(fold == k)
        rows = rows[np.argsort(score[rows], kind="stable")]
        ordered = score[rows]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of each set of ties
        mass = masses[:, rows]
        up = np.add.reduceat(mass * positive[rows], first, axis=1)
        down = np.add.reduceat(mass * ~positive[rows], first, axis=1)
        below = np.cumsum(down, axis=1)
        right += np.einsum("ij,ij->i", up, below - down / 2.0)
        pairs += up.sum(axis=1) * below[:, -1]
    share = np.divide(right, pairs, out=np.full(len(masses), np.nan), where=pairs > 0.0)
    return np.asarray(share)
