"""Error and parity of the models of a path on some rows, and the selection of one of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from fairspan.estimators.base import FairKernelEstimator
from fairspan.method.codes import Coder, CrossedCoder, infer_kind
from fairspan.method.decision_rule import decide
from fairspan.method.linalg import Array
from fairspan.method.probabilities import information, inverse_products, most_likely
from fairspan.method.problem import Attribute, Codes, Data, GroupProbabilities
from fairspan.metrics.groups import correlation_noise, standardize

# Slices of a continuous attribute, as many as in `fairspan.metrics`.
N_BINS = 10
DECISION_CURVES = ("demographic_parity_difference", "equalized_odds_difference")
CURVES = (
    *("error", "correlation", "statistical_parity_correlation", "correlation_ratio"),
    *DECISION_CURVES,
)

# Bootstrap weights held at once: 32 MiB.
_BATCH_NUMBERS = 4 * 2**20


@dataclass(frozen=True)
class Levels:
    """Levels of one attribute on the rows of a path."""

    codes: Codes  # (n,), negative where unknown
    n_levels: int
    values: Array | None  # standardised numbers of a continuous attribute
    labels: tuple[str, ...] = ()  # names of the levels
    # (n, levels) where groups are known as probabilities; codes are then the most likely group.
    probabilities: Array | None = None


@dataclass(frozen=True)
class CellGroups:
    """One attribute within the cells of a criterion; a sum over its groups is one sparse product."""

    onehot: Any  # (cells * levels, n); probabilities of the groups, if only these are known
    n_cells: int
    n_levels: int
    values: Array | None  # standardised, for a continuous attribute
    pairs: Any = None  # (cells * levels * levels, n) products of two probabilities

    @classmethod
    def of(cls, cells: Codes, n_cells: int, attribute: Levels) -> CellGroups:
        """Group the rows; rows without a cell or a known level belong to no group."""
        levels, n_levels = attribute.codes, attribute.n_levels
        known = np.flatnonzero((cells >= 0) & (cells < n_cells) & (levels >= 0))
        if attribute.probabilities is not None:
            p, inside, n = attribute.probabilities[known], cells[known], len(cells)
            products = (p[:, :, None] * p[:, None, :]).reshape(len(p), -1)
            onehot, pairs = (_spread(part, inside, known, n_cells, n) for part in (p, products))
            return cls(onehot, n_cells, n_levels, None, pairs)
        where = (cells[known] * n_levels + levels[known], known)
        shape = (n_cells * n_levels, len(cells))
        onehot = scipy.sparse.csr_array((np.ones(len(known)), where), shape=shape)
        return cls(onehot, n_cells, n_levels, attribute.values)

    def sums(self, columns: Array) -> Array:
        """Sums of (n, B) columns, (cells, levels, B)."""
        return np.asarray(self.onehot @ columns).reshape(self.n_cells, self.n_levels, -1)

    def members(self, columns: Array, W: Array) -> Array:
        """Sums of W times (n, B) columns over the members of each group, (cells, levels, B).

        Where groups are known as probabilities, these are estimates: the number of members times the mean
        of METHOD 14, NaN where the probabilities of a cell do not tell its groups apart.
        """
        sums = self.sums(W * columns)
        if self.pairs is None:
            return sums
        shape = (self.n_cells, self.n_levels, self.n_levels, -1)
        products = np.moveaxis(np.asarray(self.pairs @ W).reshape(shape), -1, 1)
        means = inverse_products(products) @ np.moveaxis(sums, -1, 1)[..., None]
        return np.asarray(np.moveaxis(means[..., 0], 1, -1) * self.sums(W))

    def dependence(self, F: Array, W: Array) -> tuple[Array, Array]:
        """``|corr(f, S)|``, the largest over levels, and the correlation ratio: (cells, columns).

        Either F has several columns and W one, or the other way round. The result is NaN where the
        attribute is constant in the cell, and 0 where f is. F has mean 0 and variance 1.
        """
        WF = W * F
        mass, first = self.sums(W), self.members(F, W)
        total = mass.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = first.sum(axis=1) / total
            variance = self.sums(WF * F).sum(axis=1) / total - mean**2
            flat = variance <= 1e-22
            share = mass / total[:, None]
            cov = first / total[:, None] - mean[:, None] * share
            spread = share * (1.0 - share)
            alive = spread > 1e-14
            between = np.where(share > 0.0, cov**2 / share, 0.0).sum(axis=1)
            ratio = np.where(alive.any(axis=1), between / variance, np.nan)
            if self.values is None:
                largest = np.where(alive, cov**2 / spread, -1.0).max(axis=1)
                squared = np.where(alive.any(axis=1), largest / variance, np.nan)
            else:
                s = self.values[:, None]
                centre = self.sums(W * s).sum(axis=1) / total
                scale = self.sums(W * s**2).sum(axis=1) / total - centre**2
                joint = self.sums(WF * s).sum(axis=1) / total - mean * centre
                squared = np.where(scale > 1e-20, joint**2 / (scale * variance), np.nan)
            undefined = ~alive.any(axis=1) | ~(total > 0.0)
        known = (np.where(undefined, np.nan, np.where(flat, 0.0, v)) for v in (squared, ratio))
        correlation, ratio = (np.sqrt(np.clip(v, 0.0, 1.0)) for v in known)
        return correlation, ratio

    def gap(self, decided: Array, W: Array) -> Array:
        """Largest minus smallest rate over levels, (cells, columns); NaN where a level has no rows."""
        mass = self.sums(W)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(mass > 0.0, self.members(decided, W) / mass, np.nan)
        if self.pairs is not None:
            rate = np.clip(rate, 0.0, 1.0)
        return np.asarray(rate.max(axis=1) - rate.min(axis=1))


def _spread(columns: Array, cells: Codes, rows: Codes, n_cells: int, n: int) -> Any:
    """Columns of some rows as a sparse matrix, (cells * columns, n), whose products sum them by cell."""
    width = columns.shape[1]
    where = (cells[:, None] * width + np.arange(width)).ravel(), np.repeat(rows, width)
    return scipy.sparse.csr_array((columns.ravel(), where), shape=(n_cells * width, n))


class PathEvaluator:
    """Error and parity of predictions on given rows, under any weights (bootstrap counts included)."""

    def __init__(self, est: FairKernelEstimator, data: Data) -> None:
        pilot = est.pilot_
        assert data.y is not None
        assert pilot.target is not None
        self.n = data.n
        self.weight = np.ones(self.n) if data.weights is None else data.weights
        self.weighted = data.weights is not None
        self.classes: np.ndarray | None = None if pilot.target_is_numeric else est.classes_
        if self.classes is None and data.y.values.dtype.kind != "f":
            raise ValueError(f"y holds text, but this {type(est).__name__} was fitted on numbers.")
        codes = pilot.target.codes({"y": data.y})
        self.target = data.y.values.astype(np.float64) if self.classes is None else codes
        self.unseen: set[int] = set()  # classes that the training rows of some fold lack
        self.cell_names = list(pilot.cells.names)
        self.one_cell = pilot.cells.rule == "all"
        self.cells = pilot.cells.assign(codes, data.control, self.n)
        self.positive = self._positive_class(est.pos_label)
        self.sensitive = {name: _as_given(a) for name, a in data.sensitive.items()}
        self._levels = _read_levels(est, data, self.weight)
        self.attributes = list(self._levels)
        everything = (np.zeros(self.n, dtype=np.intp), 1)
        self._groups = {
            "cells": self._split(self.cells, len(self.cell_names)),
            "all": self._split(*everything),
        }
        if self.positive is not None:
            self._groups["label"] = self._split((self.target == self.positive).astype(np.intp), 2)

    @property
    def curves(self) -> list[str]:
        """Names of the metrics that are defined on these rows."""
        return [c for c in CURVES if self.positive is not None or c not in DECISION_CURVES]

    def measure(self, wanted: Sequence[str], outputs: Array, W: Array) -> dict[str, Array]:
        """Compute metrics at several points under one weight, or at one point under several weights.

        ``outputs`` is (n, outputs, points) and W (n, weights), one of the two with a single column;
        each metric is returned as (attributes, cells, columns).
        """
        out: dict[str, Array] = {}
        decided = None if self.classes is None else decide(outputs)
        if "error" in wanted:
            if decided is None:
                out["error"] = np.sqrt(self._mean((outputs[:, 0] - self.target[:, None]) ** 2, W))
            else:
                out["error"] = self._mean(decided != self.target[:, None], W)
            out["error"] = out["error"].reshape(1, 1, -1)
        for metric, part in zip(DECISION_CURVES, ("all", "label"), strict=True):
            if metric in wanted:
                chosen = np.asarray(decided == self.positive, dtype=np.float64)
                out[metric] = np.array([groups.gap(chosen, W) for groups in self._groups[part]])
        if not {"correlation", "correlation_ratio", "statistical_parity_correlation"} & {*wanted}:
            return out
        standard = [standardize(column, self.weight) for column in self.scores_of(outputs)]
        out["correlation"], out["correlation_ratio"] = self._dependence("cells", standard, W)
        if self.one_cell:
            out["statistical_parity_correlation"] = out["correlation"]
        elif "statistical_parity_correlation" in wanted:
            out["statistical_parity_correlation"], _ = self._dependence("all", standard, W)
        return out

    def scores_of(self, outputs: Array) -> list[Array]:
        """Scores that may depend on S, (n, points) each; of two classes, which mirror each other, one."""
        first = 1 if self.classes is not None and outputs.shape[1] == 2 else 0
        return [outputs[:, k] for k in range(first, outputs.shape[1]) if k not in self.unseen]

    @property
    def levels(self) -> dict[str, Levels]:
        """Levels of every attribute on the rows."""
        return self._levels

    def _dependence(self, part: str, standard: list[Array], W: Array) -> Array:
        """Correlation and correlation ratio, the largest over outputs."""
        each = [[groups.dependence(F, W) for groups in self._groups[part]] for F in standard]
        return np.asarray(np.moveaxis(np.fmax.reduce(np.array(each)), 1, 0))

    @staticmethod
    def _mean(columns: np.ndarray, W: Array) -> Array:
        return np.asarray((W.T @ columns if W.shape[1] == 1 else columns.T @ W) / W.sum(axis=0))

    def worst(self, metric: str, values: Array, attribute: str | None) -> Array:
        """The largest of (..., attributes, cells), over one attribute if it is named."""
        if attribute is not None and metric != "error":
            self.check_attribute(attribute, self.attributes)
            values = values[..., [self.attributes.index(attribute)], :]
        # A cell where S is constant has no correlation and is left out of the maximum; a group
        # without rows makes a gap of rates unknown.
        largest = np.maximum if metric in DECISION_CURVES else np.fmax
        return np.asarray(largest.reduce(largest.reduce(values, axis=-1), axis=-1))

    def call(self, metric: Any, attribute: str | None, predicted: np.ndarray, rows: Codes) -> float:
        """Call a user's ``metric(y_true, predictions, sensitive_features)`` on some of the rows."""
        actual = self.target if self.classes is None else self.classes[self.target]
        sensitive: Any = {name: values[rows] for name, values in self.sensitive.items()}
        if attribute is not None:
            self.check_attribute(attribute, list(sensitive))
            sensitive = sensitive[attribute]
        elif len(sensitive) == 1:
            (sensitive,) = sensitive.values()
        parameters = inspect.signature(metric).parameters
        options = {"sample_weight": self.weight[rows]} if self.weighted else {}
        options = {name: value for name, value in options.items() if name in parameters}
        if "sensitive_features" in parameters:
            options["sensitive_features"] = sensitive
            return float(metric(actual[rows], predicted[rows], **options))
        return float(metric(actual[rows], predicted[rows], sensitive, **options))

    def resamples(self, n_boot: int, rng: Any) -> Iterator[tuple[slice, Codes, Array]]:
        """Yield batches of resampled rows (B, n) and their weights (n, B).

        The draws are those of numpy's ``RandomState``, so a seed gives the same intervals as ever.
        """
        step = max(1, _BATCH_NUMBERS // self.n)
        for start in range(0, n_boot, step):
            batch = slice(start, min(start + step, n_boot))
            rows = rng.randint(0, self.n, size=(batch.stop - start, self.n))
            counts = [np.bincount(r, minlength=self.n) for r in rows]
            yield batch, rows, np.stack(counts, axis=1) * self.weight[:, None]

    @staticmethod
    def check_attribute(attribute: str, known: list[str]) -> None:
        """Raise if no attribute has this name."""
        if attribute not in known:
            msg = f"attribute={attribute!r} is unknown. Known: {', '.join(map(repr, known))}."
            raise ValueError(msg)

    def check_curve(self, metric: Any) -> str:
        """Raise if no metric has this name, or if it is not defined on these rows."""
        if metric not in CURVES:
            msg = f"metric={metric!r} is unknown. Known: {', '.join(CURVES)}; or give a callable."
            raise ValueError(msg)
        if metric not in self.curves:
            raise ValueError(
                f"{metric} needs decisions of two classes (or pos_label, of more); this target has "
                + ("numbers." if self.classes is None else f"{len(self.classes)} classes.")
            )
        return str(metric)

    def _positive_class(self, pos_label: Any) -> int | None:
        """The favourable decision: ``pos_label``, or the larger of two labels."""
        if self.classes is None:
            return None
        if pos_label is not None:
            matches = np.flatnonzero(self.classes == pos_label)
            return int(matches[0]) if len(matches) else None
        return 1 if len(self.classes) == 2 else None

    def _split(self, cells: Codes, n_cells: int) -> list[CellGroups]:
        return [CellGroups.of(cells, n_cells, levels) for levels in self._levels.values()]


def _as_given(attribute: Attribute) -> np.ndarray:
    """The values that a user gave, or the table of probabilities."""
    if isinstance(attribute, GroupProbabilities):
        return np.where(attribute.missing[:, None], np.nan, attribute.values)
    return attribute.as_given()


def _read_levels(est: FairKernelEstimator, data: Data, weight: Array) -> dict[str, Levels]:
    """Levels of every attribute; with ``intersectional``, of their combinations as well."""
    out: dict[str, Levels] = {}
    parts = []
    for name, attribute in data.sensitive.items():
        if isinstance(attribute, GroupProbabilities):
            p = np.where(attribute.missing[:, None], np.nan, attribute.values.astype(np.float64))
            size = len(attribute.groups)
            out[name] = Levels(most_likely(p), size, None, attribute.groups, np.nan_to_num(p))
            continue
        kind = est.sensitive_kinds_.get(name)
        if kind is None or (kind == "continuous" and attribute.values.dtype.kind != "f"):
            kind = infer_kind(attribute)
        coder = Coder.learn(attribute, kind, N_BINS, weight)
        parts.append(coder)
        values = None
        if kind == "continuous":
            known = ~attribute.missing
            values = np.zeros(data.n)
            column = attribute.values[known, None].astype(np.float64)
            values[known] = standardize(column, weight[known])[:, 0]
        out[name] = Levels(coder.codes(data.sensitive), coder.n_levels, values, coder.labels)
    if est.intersectional and len(parts) > 1:
        crossed = CrossedCoder.learn(parts, data.sensitive)
        codes = crossed.codes(data.sensitive)
        out[crossed.name] = Levels(codes, crossed.n_levels, None, crossed.labels)
    return out


@dataclass(frozen=True)
class Selection:
    """The dial value that :meth:`FairnessPath.select` has chosen, and the numbers behind the choice.

    All numbers are estimates from the rows of the path.

    Attributes
    ----------
    fairness : float
        Dial value on the native scale of the model: the share of the expected dependence that is gone, or,
        if dependence is removed on the training rows, the share of the angle.
    error : float
        RMSE, or share of wrong classes.
    metric : str
        Name of the parity metric.
    value : float
        Value of the metric at this dial value.
    attribute : str or None
        The protected attribute of the metric; None is the worst of all.
    bound : float
        The bound that was given.
    bound_on : {"metric", "error", "accuracy"}
        The quantity that the bound is on.
    met : bool
        Whether the bound is kept: with a confidence by ``upper``, else by the value itself. If not, this is
        the nearest dial value.
    noise : float
        Sampling noise of a correlation on these rows.
    upper : float or None
        Upper confidence bound, on new rows, of the bounded quantity (for ``min_accuracy``, of the error);
        None without a confidence.
    confidence : float or None
        Confidence of ``upper``.
    rows_needed : int or None
        If the bound cannot be promised: about how many rows would be needed, with the same share of each
        group; None if more rows would not be enough, because the value itself exceeds the bound.
    """

    fairness: float
    error: float
    metric: str
    value: float
    attribute: str | None
    bound: float
    bound_on: str
    met: bool
    noise: float
    upper: float | None = None
    confidence: float | None = None
    rows_needed: int | None = None


def one_bound(
    at_most: float | None, min_accuracy: float | None, max_error: float | None, *, classes: bool
) -> tuple[str, float]:
    """Return the bounded quantity and the bound; raise unless exactly one was given."""
    bounds = {"metric": at_most, "accuracy": min_accuracy, "error": max_error}
    given = [(on, float(bound)) for on, bound in bounds.items() if bound is not None]
    if len(given) != 1:
        raise ValueError(
            "select takes exactly one bound: at_most (on the metric), min_accuracy or max_error, e.g. "
            "select('correlation', at_most=0.05) or select(min_accuracy=0.8)."
        )
    if given[0][0] == "accuracy" and not classes:
        msg = "min_accuracy is for classes; for a numeric target give max_error, an RMSE."
        raise ValueError(msg)
    return given[0]


# Metrics in the words of a sentence.
_WORDS = {
    "correlation": "A correlation",
    "statistical_parity_correlation": "A correlation over all rows",
    "correlation_ratio": "A correlation ratio",
    "demographic_parity_difference": "A selection-rate gap (demographic_parity_difference)",
    "equalized_odds_difference": "An error-rate gap (equalized_odds_difference)",
    "error": "An error",
    "accuracy": "An accuracy",
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """The smallest group that rates are compared in."""

    name: str
    n_rows: int


def unmet(selection: Selection, by: str, n_rows: int, group: Group | None = None) -> str:
    """Sentence about a bound that no dial value keeps, with the nearest one.

    Parameters
    ----------
    by : names of the protected attributes, for a metric.
    n_rows : rows of the path.
    group : the smallest group that rates are compared in.
    """
    if selection.confidence is not None:
        return cannot_promise(selection, by, n_rows, group)
    on = selection.metric if selection.bound_on == "metric" else selection.bound_on
    sign = ">=" if on == "accuracy" else "<="
    error = selection.error
    nearest = {"metric": selection.value, "error": error, "accuracy": 1.0 - error}
    return (
        f"No dial value has {on} {sign} {selection.bound:.4g}; the nearest, fairness "
        f"{selection.fairness:.4g}, has {nearest[selection.bound_on]:.4g}."
    )


def cannot_promise(selection: Selection, by: str, n_rows: int, group: Group | None = None) -> str:
    """Sentence about a limit that cannot be promised: what can, and how many rows it would take."""
    is_metric, accuracy = selection.bound_on == "metric", selection.bound_on == "accuracy"
    on = selection.metric if is_metric else selection.bound_on
    upper = float("nan") if selection.upper is None else selection.upper
    estimate = selection.value if is_metric else selection.error
    if accuracy:
        upper, estimate = 1.0 - upper, 1.0 - estimate
    rows = f"{n_rows:,} rows" if group is None else f"{group.n_rows:,} rows of {group.name}"
    least = f"the {'most' if accuracy else 'least'} that can is {upper:.4g}"
    if not np.isfinite(upper):
        least = "no limit can"
    if selection.rows_needed is None:
        needed = f"The estimate itself is {estimate:.4g}, so more rows alone would not be enough."
    elif group is None:
        needed = f"About {selection.rows_needed:,} rows would be needed."
    else:
        share = int(np.ceil(selection.rows_needed * group.n_rows / n_rows))
        needed = f"About {share:,} rows of that group, {selection.rows_needed:,} in all, would be needed."
    return (
        f"{_WORDS.get(on, on)} of at {'least' if accuracy else 'most'} {selection.bound:.4g}"
        f"{f' by {by}' if by and is_metric else ''} on new rows cannot be promised with "
        f"{100.0 * float(selection.confidence or 0.0):.4g} % confidence with {rows}; {least}, at fairness "
        f"{selection.fairness:.4g}. {needed}"
    )


def sampling_noise(
    est: FairKernelEstimator, evaluator: PathEvaluator, train_share: float = 1.0
) -> float:
    """Noise of a held-out correlation in the smallest cell of the criterion (METHOD 10).

    Of attributes that some rows lack, the rows that have them count; rows with probabilities of groups
    count as those with a known group that tell as much. NaN if no cell of the criterion has
    rows.
    """
    noise = []
    missing = {each.attribute for each in est._solution.missing}
    partial = [
        name
        for name, one in evaluator.levels.items()
        if one.probabilities is not None or (one.codes < 0).any()
    ]
    for c, cell in enumerate(evaluator.cell_names):
        reports = [r for r in est._solution.reports if r.cell == cell]
        for name in (None, *dict.fromkeys([*partial, *missing & {*evaluator.levels}])):
            inside = evaluator.cells == c
            fitted = [r.n_rows for r in reports if name in (None, r.attribute)]
            share = 1.0  # of the rows that probabilities are worth
            if name is not None:
                levels = evaluator.levels[name]
                inside = inside & (levels.codes >= 0)
                if levels.probabilities is not None and inside.any():
                    share = information(levels.probabilities[inside], evaluator.weight[inside])
            w = evaluator.weight[inside]
            if len(w) and share > 0.0:
                n_train = max([*fitted, 1]) * train_share
                noise.append(correlation_noise(share * w.sum() ** 2 / (w @ w), share * n_train))
    return max(noise, default=float("nan"))
