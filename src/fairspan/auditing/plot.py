"""Plot of an audit: gaps and rates with their intervals, and the performance of attackers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from fairspan.auditing.findings import COVERED, Finding
from fairspan.auditing.outputs import COVERAGE
from fairspan.plotting import COLOURS, MARKERS, plain_label
from fairspan.plotting.style import LABEL, NOTE, PAGE, TICK, new_axes, styled

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

# Gaps that are plotted; the tables have all of them.
_SHOWN = (
    "statistical_parity_correlation",
    "equal_opportunity_correlation",
    "equalized_odds_correlation",
    "correlation_ratio",
    "distance_correlation",
    "demographic_parity_difference",
    "equal_opportunity_difference",
    "equalized_odds_difference",
    "predictive_parity_difference",
    "accuracy_difference",
    "calibration_difference",
    "largest_correlation_of_any_function",
)

_RATES = (
    "selection_rate",
    "true_positive_rate",
    "false_positive_rate",
    "accuracy",
    "positive_predictive_value",
    COVERED,
)
_KINDS = ("gaps", "rates")
# Characters on a line of a legend.
_WIDE = 54

# Findings to draw: line, name of the series, finding.
_Points = list[tuple[int, str, Finding]]


class AuditDisplay:
    """Plot of the gaps, attacks and rates of an audit, with their intervals.

    Parameters
    ----------
    audit : Audit

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and first axes, after :meth:`plot`.
    axes_ : tuple of matplotlib axes.
    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        attribute: str | None = None,
        kind: str = "gaps",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot an audit.

        Parameters
        ----------
        audit : Audit
        attribute, kind, ax, **kwargs
            As in :meth:`plot`.
        """
        return cls(audit).plot(ax, attribute=attribute, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any,
        attribute: str | None = None,
        kind: str = "gaps",
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Audit a model and plot the result; the audit is kept as ``audit``.

        Parameters
        ----------
        model : fitted model
        X, y, sensitive_features
            Rows it was not fitted on, as in :func:`fairspan.audit`.
        attribute, kind, ax
            As in :meth:`plot`.
        **options
            Options of :func:`fairspan.audit`; to change the look, call :meth:`plot` with its options.
        """
        from fairspan.auditing.results import audit

        audited = audit(model, X, y, sensitive_features=sensitive_features, **options)
        return cls.from_audit(audited, attribute=attribute, kind=kind, ax=ax)

    def plot(
        self,
        ax: Any = None,
        *,
        attribute: str | None = None,
        kind: str = "gaps",
        title: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot gaps on ``ax``; on a new figure, gaps and, next to them, attacks.

        Parameters
        ----------
        ax : matplotlib axes, optional
        attribute : str, optional
            One protected attribute. Default: all of them (the first one for rates).
        kind : {"gaps", "rates"}, default="gaps"
            Comparisons of all groups, or the rates of decisions of each group of one attribute.
        title : str, optional
            Default on a new figure: the name of the model, the number of rows and the level.
        **kwargs
            Properties of points and intervals, as in ``matplotlib.axes.Axes.errorbar``.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind={kind!r} is unknown: one of {', '.join(_KINDS)}")
        names = list(self.audit.group_sizes) if attribute is None else [attribute]
        if attribute is not None and attribute not in self.audit.group_sizes:
            groups = ", ".join(self.audit.group_sizes)
            raise ValueError(f"attribute={attribute!r} is not in the audit; known are {groups}.")
        if kind == "rates":
            return self._plot_rates(ax, names, title, kwargs)
        known = [f for f in self.audit.findings if f.attribute in names and math.isfinite(f.value)]
        gaps = [
            f
            for f in known
            if f.metric in _SHOWN and not f.group and (not f.where or f.section == "certificate")
        ]
        attacks = [f for f in known if f.section == "attacks"]
        names = [name for name in names if any(f.attribute == name for f in (*gaps, *attacks))]
        axes: tuple[Any, ...] = (ax,) if ax is not None else self._new_figure(gaps, attacks)
        self._gaps(axes[0], gaps, names, kwargs)
        if len(axes) > 1:
            self._attacks(axes[1], attacks, names, kwargs)
        return self._finish(axes, title, new=ax is None)

    def _finish(self, axes: tuple[Any, ...], title: str | None, *, new: bool) -> Self:
        """Set the title and the attributes of a plotted display."""
        self.axes_: tuple[Any, ...] = axes
        self.ax_, self.figure_ = axes[0], axes[0].figure
        if new:
            if title is None:
                audit = self.audit
                clusters = "" if audit.n_clusters is None else f" in {audit.n_clusters:,} clusters"
                rows = f"{audit.n_rows:,} audited rows{clusters}"
                level = f"{audit.level:.0%} intervals"
                title = f"{plain_label(audit.model)}, {rows}, {level}"
            self.figure_.suptitle(title, x=0.01, ha="left", fontsize=LABEL)
        elif title:
            self.ax_.set_title(title, loc="left", fontsize=LABEL)
        return self

    def _plot_rates(
        self, ax: Any, names: list[str], title: str | None, kwargs: dict[str, Any]
    ) -> Self:
        rates = [
            f
            for f in self.audit.select("decisions", where="")
            if f.metric in _RATES and f.group and f.attribute in names
        ]
        if not rates:
            raise ValueError(
                "The audit has no rates of decisions of two classes, and no coverage of intervals, to "
                "draw; see its table()."
            )
        rates = [f for f in rates if f.attribute == rates[0].attribute]
        groups = list({f.group: None for f in rates})
        metrics = [m for m in _RATES if any(f.metric == m for f in rates)]
        new = ax is None
        if new:
            (ax,) = new_axes(4.8, 1.2 + 0.16 * len(groups) * len(metrics))
        small = {f.group for f in rates if f.small}
        lines = [plain_label(g) + (" †" if g in small else "") for g in groups]
        points = [(groups.index(f.group), f.metric, f) for f in rates if math.isfinite(f.value)]
        self._draw(ax, points, {m: m.replace("_", " ") for m in metrics}, lines, kwargs)
        if COVERED in metrics:  # the nominal coverage
            ax.axvline(COVERAGE, color="0.6", lw=0.8, ls=":", zorder=0)
        ax.set_xlim(-0.02, 1.02)
        shown = "rate in the group" if metrics != [COVERED] else "share inside 90 % intervals"
        ax.set_xlabel(shown + (" († too few rows)" if small else ""), fontsize=LABEL)
        ax.set_ylabel(plain_label(rates[0].attribute), fontsize=LABEL)
        return self._finish((ax,), title, new=new)

    def _new_figure(self, gaps: list[Finding], attacks: list[Finding]) -> tuple[Any, ...]:
        rows = max(len({(f.metric, f.where) for f in gaps}), len({f.metric for f in attacks}), 3)
        size = (PAGE if attacks else 4.8, 1.0 + 0.3 * rows)
        return new_axes(*size, 2 if attacks else 1)

    def _gaps(self, ax: Any, gaps: list[Finding], names: list[str], kwargs: dict[str, Any]) -> None:
        # Lines are in the order of the tables, for any order of the attributes.
        lines = list({(m, f.where): None for m in _SHOWN for f in gaps if f.metric == m})
        labels = [
            m.replace("_", " ") + (f"\n({plain_label(where)})" if where else "")
            for m, where in lines
        ]
        points = [(lines.index((f.metric, f.where)), f.attribute, f) for f in gaps]
        self._draw(ax, points, {name: plain_label(name) for name in names}, labels, kwargs)
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_xlim(left=-0.02)
        ax.set_xlabel("gap or correlation (0 is parity)", fontsize=LABEL)

    def _attacks(
        self, ax: Any, attacks: list[Finding], names: list[str], kwargs: dict[str, Any]
    ) -> None:
        lines = list({_attack_line(f): None for f in attacks})
        points = [(lines.index(_attack_line(f)), f.attribute, f) for f in attacks]
        self._draw(ax, points, {name: plain_label(name) for name in names}, lines, kwargs)
        blind = {0.5: "AUC", 0.0: "$R^2$"}
        shown = [b for b in blind if any((" auc " in f.metric) == (b == 0.5) for f in attacks)]
        for b in shown:
            ax.axvline(b, color="0.6", lw=0.8, ls=":", zorder=0)
        measures = ", ".join(blind[b] for b in shown)
        ax.set_xlabel(f"recovered {measures}\n(dotted: guessing)", fontsize=LABEL)

    def _draw(
        self,
        ax: Any,
        points: _Points,
        legend: dict[str, str],
        lines: list[str],
        kwargs: dict[str, Any],
    ) -> None:
        """Draw findings by line and, within it, by series: series name -> label in the legend."""
        step = 0.7 / max(len(legend), 1)
        for j, (name, label) in enumerate(legend.items()):
            series = [(i, f) for i, key, f in points if key == name]
            if not series:
                continue
            y = [i + (j - (len(legend) - 1) / 2) * step for i, _ in series]
            low = [_length(f.value - f.low) for _, f in series]
            high = [_length(f.high - f.value) for _, f in series]
            marker, colour = MARKERS[j % len(MARKERS)], COLOURS[j % len(COLOURS)]
            look: dict[str, Any] = {"marker": marker, "color": colour, "label": label}
            look |= {"ls": "none", "ms": 3.5, "lw": 1.2, "capsize": 2}
            values = [f.value for _, f in series]
            ax.errorbar(values, y, xerr=(low, high), **styled(look, kwargs))
        ax.set_yticks(range(len(lines)), lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.tick_params(axis="y", labelsize=NOTE)
        ax.tick_params(axis="x", labelsize=TICK)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.93", lw=0.8)
        ax.set_axisbelow(True)
        if len(legend) > 1:
            # The legend is above the axes, because intervals may be anywhere inside.
            longest = max(map(len, legend.values()))
            spacing = {"borderpad": 0.2, "columnspacing": 1.0, "handletextpad": 0.3}
            where = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
            n_columns = max(1, min(3, _WIDE // longest))
            ax.legend(frameon=False, fontsize=NOTE, ncols=n_columns, **where, **spacing)


def _length(length: float) -> float:
    """Length of one side of an interval: 0 if it is unknown or negative by rounding."""
    return max(length, 0.0) if math.isfinite(length) else 0.0


def _attack_line(f: Finding) -> str:
    attacker, measure, _, source = f.metric.split(" ", 3)
    return f"{source}, {attacker} ({'AUC' if measure == 'auc' else '$R^2$'})"
