"""Scores by group: distributions, or means along a continuous attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.stats
from sklearn.base import is_classifier

from fairspan.inputs.alignment import align_rows
from fairspan.method.linalg import Array
from fairspan.metrics import correlation_ratio, ks_distance, statistical_parity_correlation
from fairspan.metrics.inputs import Rows, SensitiveKind, read
from fairspan.plotting.dialled import values_of
from fairspan.plotting.style import (
    COLOURS,
    LABEL,
    NOTE,
    TICK,
    dress,
    line_look,
    new_axes,
    number,
    plain_label,
    styled,
)

__all__ = ["GroupDistributionDisplay"]

# A curve of more points than this has several in each dot of a printer.
_MOST_POINTS = 2000
_KINDS = ("ecdf", "histogram")


class GroupDistributionDisplay:
    """How a score is distributed in each group; along a continuous attribute, its mean.

    Parameters
    ----------
    scores : sequence of float, of shape (n,)
        One score per row.
    groups : sequence of int, of shape (n,)
        Group of each row, a place in ``labels``.
    labels : sequence of str
        Names of the groups.
    weight : sequence of float, optional
        Weights of the rows.
    values : sequence of float, optional
        Numbers of a continuous attribute, of which the groups are slices: means are drawn over them.
    attribute : str, default="group"
        Name of the attribute.
    score_name : str, default="score"
        What the score is, with its unit.
    rows : str, default="held-out"
        What the rows are, for the axis label; "in-sample" for those of the fit.

    Attributes
    ----------
    ks_ : float
        Largest Kolmogorov distance between two groups (or slices).
    figure_, ax_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(
        self, scores: Sequence[float], groups: Sequence[int], labels: Sequence[str], *,
        weight: Sequence[float] | None = None, values: Sequence[float] | None = None,
        attribute: str = "group", score_name: str = "score", rows: str = "held-out",
    ) -> None:  # fmt: skip
        self.scores = np.asarray(scores, dtype=np.float64)
        self.groups = np.asarray(groups, dtype=np.intp)
        self.labels = [str(label) for label in labels]
        n = len(self.scores)
        self.weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        self.values = None if values is None else np.asarray(values, dtype=np.float64)
        self.attribute, self.score_name, self.rows = attribute, score_name, rows
        self.ks_ = ks_distance(
            self.scores, sensitive_features=self.groups, sensitive_kind="categorical",
            sample_weight=self.weight,
        )  # fmt: skip

    @classmethod
    def from_predictions(
        cls, scores: Any, *, sensitive_features: Any, attribute: str | None = None,
        sample_weight: Any = None, sensitive_kind: SensitiveKind = "auto", n_bins: int = 10,
        score_name: str = "score", rows: str = "held-out", kind: str = "ecdf", ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
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
            What the score is, with its unit.
        rows : str, default="held-out"
            What the rows are, for the axis label; "in-sample" for those of the fit.
        kind : {"ecdf", "histogram"}, default="ecdf"
            As in :meth:`plot`.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        read_in, (f,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
        if f.shape[1] != 1:
            msg = f"scores has {f.shape[1]} columns; give one of them."
            raise ValueError(msg)
        one = _one_attribute(read_in, attribute)
        ((name, codes, labels),) = one.groups(n_bins)
        values = one.attributes[name].values if one.kinds[name] == "continuous" else None
        display = cls(
            f[:, 0].tolist(), codes.tolist(), labels, weight=one.weight.tolist(),
            values=None if values is None else values.astype(np.float64).tolist(),
            attribute=name, score_name=score_name, rows=rows,
        )  # fmt: skip
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, *, sensitive_features: Any, attribute: str | None = None,
        sample_weight: Any = None, sensitive_kind: SensitiveKind = "auto", n_bins: int = 10,
        pos_label: Any = None, rows: str = "held-out", kind: str = "ecdf", ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
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
        _, sensitive_features, sample_weight = align_rows(
            X=X, sensitive_features=values_of(X, sensitive_features), sample_weight=sample_weight
        ).values()
        return cls.from_predictions(
            scores, sensitive_features=sensitive_features, attribute=attribute,
            sample_weight=sample_weight, sensitive_kind=sensitive_kind, n_bins=n_bins,
            score_name=name, rows=rows, kind=kind, ax=ax, **kwargs,
        )  # fmt: skip

    # ------------------------------------------------------------------ numbers

    def ecdf(self, group: int) -> tuple[Array, Array]:
        """Distinct scores of a group, and the weighted share of it at or below each."""
        mine = self.groups == group
        values, at = np.unique(self.scores[mine], return_inverse=True)
        below = np.cumsum(np.bincount(at, self.weight[mine], minlength=len(values)))
        return values, below / below[-1]

    def slice_means(self, level: float = 0.95) -> tuple[Array, Array, Array]:
        """Per group: mean of the attribute, mean of the score, half length of its interval.

        The interval is normal, from the weighted variance and Kish's size; NaN for a single row.
        """
        if self.values is None:
            raise ValueError("slice_means is of a continuous attribute.")
        reach = float(scipy.stats.norm.ppf(0.5 + level / 2.0))
        k = len(self.labels)
        mass = np.bincount(self.groups, self.weight, k)
        place = np.bincount(self.groups, self.weight * self.values, k) / mass
        mean = np.bincount(self.groups, self.weight * self.scores, k) / mass
        away = self.scores - mean[self.groups]
        size = mass**2 / np.bincount(self.groups, self.weight**2, k)
        spread = np.bincount(self.groups, self.weight * away**2, k) / mass
        many = size > 1.0 + 1e-9
        half = np.full(k, np.nan)
        half[many] = reach * np.sqrt(spread[many] / (size[many] - 1.0))
        return place, mean, half

    # ------------------------------------------------------------------ picture

    def plot(
        self, ax: Any = None, *, kind: str = "ecdf", bins: int = 30, max_groups: int = 8,
        level: float = 0.95, title: str | None = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw on ``ax`` (a new figure if None).

        Parameters
        ----------
        ax : matplotlib axes, optional
        kind : {"ecdf", "histogram"}, default="ecdf"
            Distribution functions, or densities. A continuous attribute has means instead.
        bins : int, default=30
            Of a histogram.
        max_groups : int, default=8
            The largest groups are drawn; the distance is that of all.
        level : float, default=0.95
            Of the intervals of means.
        title : str, optional
        **kwargs
            Properties of the lines, as in ``matplotlib.axes.Axes.plot``; of a continuous attribute,
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
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _distributions(
        self, ax: Any, kind: str, bins: int, max_groups: int, theirs: dict[str, Any]
    ) -> None:
        mass = np.bincount(self.groups, self.weight, len(self.labels))
        count = np.bincount(self.groups, minlength=len(self.labels))
        largest = np.argsort(-mass, kind="stable")[:max_groups]
        edges = np.histogram_bin_edges(self.scores, bins)
        for i, group in enumerate(sorted(largest.tolist())):
            look = {**line_look(i), "lw": 1.5}
            look["label"] = f"{plain_label(self.labels[group])} (n = {count[group]:,})"
            look = styled(look, theirs)
            if kind == "ecdf":
                ax.step(*_thinned(*self.ecdf(group)), where="post", **look)
            else:
                mine = self.groups == group
                height, _ = np.histogram(
                    self.scores[mine], edges, weights=self.weight[mine], density=True
                )
                ax.stairs(height, edges, **look)
        said = f"KS = {number(self.ks_)}"
        if kind == "ecdf":
            self._bar(ax)
            ax.set_ylim(0.0, 1.02)
            dress(
                ax,
                plain_label(self.score_name),
                f"share of the group at or below\n({self.rows} rows)",
            )
        else:
            lines = 1 + len(largest) + (len(largest) < len(self.labels))
            ax.set_ylim(0.0, _headroom(0.0, ax.get_ylim()[1], lines))
            dress(ax, plain_label(self.score_name), f"density in the group\n({self.rows} rows)")
        left_out = len(self.labels) - len(largest)
        more = f"\n{left_out} smaller groups not drawn" if left_out else ""
        legend = ax.legend(
            frameon=False, fontsize=TICK, title=f"{plain_label(self.attribute)}: {said}{more}",
            title_fontsize=TICK, loc="best" if kind == "ecdf" else "upper left", alignment="left",
        )  # fmt: skip
        legend.set_zorder(5)

    def _bar(self, ax: Any) -> None:
        """Where two groups are farthest apart, and how far."""
        at = np.unique(self.scores)
        shares = np.zeros((len(self.labels), len(at)))
        for group in range(len(self.labels)):
            values, share = self.ecdf(group)
            place = np.searchsorted(values, at, side="right")
            shares[group] = np.concatenate(([0.0], share))[place]
        low, high = shares.min(axis=0), shares.max(axis=0)
        i = int(np.argmax(high - low))
        ax.plot([at[i], at[i]], [low[i], high[i]], "-", color="0.25", lw=1.0, marker="_", ms=6)

    def _means(self, ax: Any, level: float, theirs: dict[str, Any]) -> None:
        place, mean, half = self.slice_means(level)
        overall = float(self.weight @ self.scores / self.weight.sum())
        ax.axhline(overall, color="0.5", lw=0.8, ls=(0, (1, 2)), label="mean of all rows")
        look = {
            "marker": "o", "ls": "-", "color": COLOURS[0], "ms": 4, "lw": 1.2, "capsize": 2,
            "label": f"mean of a slice, {level:.0%} interval",
        }  # fmt: skip
        ax.errorbar(place, mean, yerr=np.nan_to_num(half), **styled(look, theirs))
        options: dict[str, Any] = {"sample_weight": self.weight}
        ratio = correlation_ratio(
            self.scores, sensitive_features=self.groups, sensitive_kind="categorical", **options
        )
        linear = statistical_parity_correlation(
            self.scores, sensitive_features=self.values, sensitive_kind="continuous", **options
        )
        dress(
            ax,
            plain_label(self.attribute),
            f"mean {plain_label(self.score_name)}\n({self.rows} rows)",
        )
        low, high = ax.get_ylim()
        ax.set_ylim(top=_headroom(low, high, 3))
        ax.legend(
            frameon=False, fontsize=NOTE, loc="upper left", alignment="left", title_fontsize=NOTE,
            title=f"|corr| = {number(linear)}, correlation ratio = {number(ratio)}",
        )  # fmt: skip


def _headroom(low: float, high: float, lines: int) -> float:
    """Room for a legend above what is drawn, whatever is drawn."""
    return high + 0.11 * lines * (high - low)


def _one_attribute(rows: Rows, attribute: str | None) -> Rows:
    known = list(rows.attributes)
    if attribute is None and len(known) > 1:
        msg = (
            f"A display shows one attribute; give attribute=, one of {', '.join(map(repr, known))}."
        )
        raise ValueError(msg)
    name = known[0] if attribute is None else attribute
    if name not in known:
        raise ValueError(f"attribute={name!r} is unknown. Known: {', '.join(map(repr, known))}.")
    return Rows({name: rows.attributes[name]}, rows.kinds, rows.weight)


def _response(model: Any, X: Any, pos_label: Any) -> tuple[Array, str]:
    """The real-valued output a model has, one column, and what it is."""
    asked = ("decision_function", "predict_proba") if is_classifier(model) else ("predict",)
    method = next((name for name in asked if hasattr(model, name)), None)
    if method is None:
        msg = (
            f"{type(model).__name__} has none of {', '.join(asked)}. Use `from_predictions` with the "
            f"scores you mean."
        )
        raise TypeError(msg)
    out = np.asarray(getattr(model, method)(X), dtype=np.float64)
    name = {"decision_function": "score (decision function)", "predict_proba": "probability"}
    said = name.get(method, "prediction")
    if out.ndim == 1 or out.shape[1] == 1:
        return out.reshape(-1), said
    classes = list(getattr(model, "classes_", range(out.shape[1])))
    if pos_label is None and len(classes) > 2:
        msg = f"The model has {len(classes)} classes; give pos_label, the one whose score to draw."
        raise ValueError(msg)
    label = classes[-1] if pos_label is None else pos_label
    if label not in classes:
        raise ValueError(f"pos_label={pos_label!r} is not among the classes {classes!r}.")
    return out[:, classes.index(label)], f"{said} of {label}"


def _thinned(values: Array, share: Array) -> tuple[Array, Array]:
    """A step function from 0, with no more points than can be seen; each kept one is exact."""
    if len(values) > _MOST_POINTS:
        keep = np.unique(np.linspace(0, len(values) - 1, _MOST_POINTS).round().astype(np.intp))
        values, share = values[keep], share[keep]
    return np.concatenate((values[:1], values)), np.concatenate(([0.0], share))
