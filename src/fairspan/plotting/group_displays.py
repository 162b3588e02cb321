"""Distributions of scores by group, or means along a continuous attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.stats
from sklearn.base import is_classifier

from fairspan.inputs.columns import align_rows, as_frame, named_columns_of
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics import correlation_ratio, ks_distance, statistical_parity_correlation
from fairspan.metrics.inputs import Rows, SensitiveKind, read
from fairspan.plotting.style import (
    COLOURS,
    LABEL,
    NOTE,
    TICK,
    Numbers,
    dress,
    line_look,
    new_axes,
    number,
    plain_label,
    styled,
)

# Points of a curve; more of them would coincide in print.
_MOST_POINTS = 2000
_KINDS = ("ecdf", "histogram")


class GroupDistributionDisplay:
    """Distribution of a score in each group; for a continuous attribute, means along it.

    Parameters
    ----------
    scores : sequence of float, of shape (n,)
        One score per row.
    groups : sequence of int, of shape (n,)
        Group of each row, as an index into ``labels``.
    labels : sequence of str
        Names of the groups.
    weight : sequence of float, optional
        Weights of the rows.
    values : sequence of float, optional
        Values of a continuous attribute whose slices are the groups; means are drawn along them.
    attribute : str, default="group"
        Name of the attribute.
    score_name : str, default="score"
        Name of the score, with its unit.
    rows : str, default="held-out"
        Name of the rows in the axis label; "in-sample" for those of the fit.

    Attributes
    ----------
    ks_ : float
        Largest Kolmogorov distance between two groups (or slices).
    figure_, ax_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(
        self,
        scores: Numbers,
        groups: Sequence[int] | Codes,
        labels: Sequence[str],
        *,
        weight: Numbers | None = None,
        values: Numbers | None = None,
        attribute: str = "group",
        score_name: str = "score",
        rows: str = "held-out",
    ) -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        self.groups = np.asarray(groups, dtype=np.intp)
        self.labels = [str(label) for label in labels]
        n = len(self.scores)
        self.weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        self.values = None if values is None else np.asarray(values, dtype=np.float64)
        self.attribute, self.score_name, self.rows = attribute, score_name, rows
        self.ks_ = ks_distance(self.scores, **self._by_group)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        *,
        sensitive_features: Any,
        attribute: str | None = None,
        sample_weight: Any = None,
        sensitive_kind: SensitiveKind = "auto",
        n_bins: int = 10,
        score_name: str = "score",
        rows: str = "held-out",
        kind: str = "ecdf",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw scores by the groups of one attribute.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
        sensitive_features : array-like, frame or mapping
            Protected attributes, as in :mod:`fairspan.metrics`.
        attribute : str, optional
            Which of several attributes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; weight k is k copies of the row.
        sensitive_kind : str, sequence or mapping, default="auto"
            "auto", "categorical" or "continuous".
        n_bins : int, default=10
            Slices of a continuous attribute.
        score_name : str, default="score"
            Name of the score, with its unit.
        rows : str, default="held-out"
            Name of the rows in the axis label; "in-sample" for those of the fit.
        kind : {"ecdf", "histogram"}, default="ecdf"
            As in :meth:`plot`.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        read_in, (f,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
        if f.shape[1] != 1:
            raise ValueError(f"scores has {f.shape[1]} columns; give one of them.")
        chosen = _one_attribute(read_in, attribute)
        ((name, codes, labels),) = chosen.groups(n_bins)
        values = None
        if chosen.kinds[name] == "continuous":
            values = chosen.attributes[name].values.astype(np.float64)
        display = cls(
            f[:, 0],
            codes,
            labels,
            weight=chosen.weight,
            values=values,
            attribute=name,
            score_name=score_name,
            rows=rows,
        )
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        sensitive_features: Any,
        attribute: str | None = None,
        sample_weight: Any = None,
        sensitive_kind: SensitiveKind = "auto",
        n_bins: int = 10,
        pos_label: Any = None,
        rows: str = "held-out",
        kind: str = "ecdf",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the scores of a fitted model: its decision function, probability or prediction.

        Parameters
        ----------
        model : fitted model
            Any with ``decision_function``, ``predict_proba`` or ``predict``, as in scikit-learn.
        X : array-like or frame of shape (n_samples, n_features)
            Rows to evaluate on; held-out ones for honest numbers.
        sensitive_features : array-like, frame, mapping, or column names of X
            Protected attributes.
        pos_label : label, optional
            Of more than two classes, the one whose score is drawn.
        attribute, sample_weight, sensitive_kind, n_bins, rows, kind, ax, **kwargs
            As in :meth:`from_predictions`.
        """
        scores, name = _response(model, X, pos_label)
        frame = as_frame(X, "X")
        columns = named_columns_of(frame, sensitive_features, "sensitive_features")
        if columns is not None and frame is not None:
            sensitive_features = frame.select(columns).to_native()
        _, sensitive_features, sample_weight = align_rows(
            X=X, sensitive_features=sensitive_features, sample_weight=sample_weight
        ).values()
        kwargs |= {"attribute": attribute, "sensitive_kind": sensitive_kind, "n_bins": n_bins}
        kwargs |= {"rows": rows, "kind": kind, "ax": ax}
        return cls.from_predictions(
            scores,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            score_name=name,
            **kwargs,
        )

    # ------------------------------------------------------------------ numbers

    def ecdf(self, group: int) -> tuple[Array, Array]:
        """Distinct scores of a group, and the weighted share of the group at or below each."""
        rows = self.groups == group
        values, at = np.unique(self.scores[rows], return_inverse=True)
        below = np.cumsum(np.bincount(at, self.weight[rows], minlength=len(values)))
        return values, below / below[-1]

    def slice_means(self, level: float = 0.95) -> tuple[Array, Array, Array]:
        """Per group: mean of the attribute, mean of the score, half length of its interval.

        The interval is normal, from the weighted variance and Kish's size; NaN for a single row.
        """
        if self.values is None:
            raise ValueError("slice_means needs a continuous attribute.")
        reach = float(scipy.stats.norm.ppf(0.5 + level / 2.0))
        k = len(self.labels)
        mass = np.bincount(self.groups, self.weight, k)
        centre = np.bincount(self.groups, self.weight * self.values, k) / mass
        mean = np.bincount(self.groups, self.weight * self.scores, k) / mass
        away = self.scores - mean[self.groups]
        size = mass**2 / np.bincount(self.groups, self.weight**2, k)
        spread = np.bincount(self.groups, self.weight * away**2, k) / mass
        many = size > 1.0 + 1e-9
        half = np.full(k, np.nan)
        half[many] = reach * np.sqrt(spread[many] / (size[many] - 1.0))
        return centre, mean, half

    # ------------------------------------------------------------------ picture

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str = "ecdf",
        bins: int = 30,
        max_groups: int = 8,
        level: float = 0.95,
        title: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw on ``ax`` (a new figure if None).

        Parameters
        ----------
        ax : matplotlib axes, optional
        kind : {"ecdf", "histogram"}, default="ecdf"
            Distribution functions, or densities. Ignored for a continuous attribute.
        bins : int, default=30
            Number of bins of a histogram.
        max_groups : int, default=8
            Largest number of groups drawn, by size; the distance is that of all groups.
        level : float, default=0.95
            Confidence level of the intervals of means.
        title : str, optional
        **kwargs
            Properties of the lines, as in ``matplotlib.axes.Axes.plot``; for a continuous attribute,
            as in ``errorbar``.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind={kind!r} is unknown: one of {', '.join(_KINDS)}")
        if ax is None:
            (ax,) = new_axes(4.2, 3.0)
        if self.values is not None:
            self._means(ax, level, kwargs)
        else:
            self._distributions(ax, kind, bins, max_groups, kwargs)
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @property
    def _by_group(self) -> dict[str, Any]:
        """The groups, as the functions of `metrics` take them."""
        options = {"sensitive_kind": "categorical", "sample_weight": self.weight}
        return {"sensitive_features": self.groups, **options}

    def _distributions(
        self, ax: Any, kind: str, bins: int, max_groups: int, given: dict[str, Any]
    ) -> None:
        mass = np.bincount(self.groups, self.weight, len(self.labels))
        count = np.bincount(self.groups, minlength=len(self.labels))
        largest = np.argsort(-mass, kind="stable")[:max_groups]
        edges = np.histogram_bin_edges(self.scores, bins)
        for i, group in enumerate(sorted(largest.tolist())):
            look = {**line_look(i), "lw": 1.5}
            look["label"] = f"{plain_label(self.labels[group])} (n = {count[group]:,})"
            look = styled(look, given)
            if kind == "ecdf":
                ax.step(*_thinned(*self.ecdf(group)), where="post", **look)
            else:
                rows = self.groups == group
                weights = self.weight[rows]
                height, _ = np.histogram(self.scores[rows], edges, weights=weights, density=True)
                ax.stairs(height, edges, **look)
        left_out = len(self.labels) - len(largest)
        name = plain_label(self.score_name)
        if kind == "ecdf":
            self._bar(ax)
            ax.set_ylim(0.0, 1.02)
            dress(ax, name, f"share of the group at or below\n({self.rows} rows)")
        else:
            lines = 1 + len(largest) + (left_out > 0)
            ax.set_ylim(0.0, _headroom(0.0, ax.get_ylim()[1], lines))
            dress(ax, name, f"density in the group\n({self.rows} rows)")
        title = f"{plain_label(self.attribute)}: KS = {number(self.ks_)}"
        if left_out:
            title += f"\n{left_out} smaller groups not drawn"
        where = {"loc": "best" if kind == "ecdf" else "upper left", "alignment": "left"}
        legend = ax.legend(frameon=False, fontsize=TICK, title=title, title_fontsize=TICK, **where)
        legend.set_zorder(5)

    def _bar(self, ax: Any) -> None:
        """Draw a bar between the two groups that differ most, where they differ most."""
        at = np.unique(self.scores)
        shares = np.zeros((len(self.labels), len(at)))
        for group in range(len(self.labels)):
            values, share = self.ecdf(group)
            below = np.searchsorted(values, at, side="right")
            shares[group] = np.concatenate(([0.0], share))[below]
        low, high = shares.min(axis=0), shares.max(axis=0)
        i = int(np.argmax(high - low))
        ax.plot([at[i], at[i]], [low[i], high[i]], "-", color="0.25", lw=1.0, marker="_", ms=6)

    def _means(self, ax: Any, level: float, given: dict[str, Any]) -> None:
        centre, mean, half = self.slice_means(level)
        overall = float(self.weight @ self.scores / self.weight.sum())
        ax.axhline(overall, color="0.5", lw=0.8, ls=(0, (1, 2)), label="mean of all rows")
        look = {"marker": "o", "ls": "-", "color": COLOURS[0], "ms": 4, "lw": 1.2, "capsize": 2}
        look["label"] = f"mean of a slice, {level:.0%} interval"
        ax.errorbar(centre, mean, yerr=np.nan_to_num(half), **styled(look, given))
        ratio = correlation_ratio(self.scores, **self._by_group)
        numbers = {"sensitive_features": self.values, "sensitive_kind": "continuous"}
        linear = statistical_parity_correlation(self.scores, **self._by_group | numbers)
        name = f"mean {plain_label(self.score_name)}\n({self.rows} rows)"
        dress(ax, plain_label(self.attribute), name)
        low, high = ax.get_ylim()
        ax.set_ylim(top=_headroom(low, high, 3))
        title = f"|corr| = {number(linear)}, correlation ratio = {number(ratio)}"
        where = {"loc": "upper left", "alignment": "left"}
        ax.legend(frameon=False, fontsize=NOTE, title=title, title_fontsize=NOTE, **where)


def _headroom(low: float, high: float, lines: int) -> float:
    """Upper limit of an axis that leaves room for a legend of so many lines."""
    return high + 0.11 * lines * (high - low)


def _one_attribute(rows: Rows, attribute: str | None) -> Rows:
    known = list(rows.attributes)
    if attribute is None and len(known) > 1:
        raise ValueError(
            f"A display shows one attribute; give attribute=, one of {', '.join(map(repr, known))}."
        )
    name = known[0] if attribute is None else attribute
    if name not in known:
        raise ValueError(f"attribute={name!r} is unknown. Known: {', '.join(map(repr, known))}.")
    return Rows({name: rows.attributes[name]}, rows.kinds, rows.weight)


def _response(model: Any, X: Any, pos_label: Any) -> tuple[Array, str]:
    """One column of real-valued output of any model, and its name."""
    methods = ("decision_function", "predict_proba") if is_classifier(model) else ("predict",)
    method = next((name for name in methods if hasattr(model, name)), None)
    if method is None:
        raise TypeError(
            f"{type(model).__name__} has none of {', '.join(methods)}. Use `from_predictions` with "
            f"scores of your own."
        )
    out = np.asarray(getattr(model, method)(X), dtype=np.float64)
    names = {"decision_function": "score (decision function)", "predict_proba": "probability"}
    name = names.get(method, "prediction")
    if out.ndim == 1 or out.shape[1] == 1:
        return out.reshape(-1), name
    classes = list(getattr(model, "classes_", range(out.shape[1])))
    if pos_label is None and len(classes) > 2:
        msg = f"The model has {len(classes)} classes; give pos_label, the one whose score to draw."
        raise ValueError(msg)
    label = classes[-1] if pos_label is None else pos_label
    if label not in classes:
        raise ValueError(f"pos_label={pos_label!r} is not among the classes {classes!r}.")
    return out[:, classes.index(label)], f"{name} of {label}"


def _thinned(values: Array, share: Array) -> tuple[Array, Array]:
    """Thin out a step function that starts at 0; the points that stay are exact."""
    if len(values) > _MOST_POINTS:
        keep = np.unique(np.linspace(0, len(values) - 1, _MOST_POINTS).round().astype(np.intp))
        values, share = values[keep], share[keep]
    return np.concatenate((values[:1], values)), np.concatenate(([0.0], share))
