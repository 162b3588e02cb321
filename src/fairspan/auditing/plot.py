"""An audit as a picture: every gap with its interval, and what attackers recover."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from fairspan.auditing.findings import Finding
from fairspan.plotting import COLOURS, MARKERS, plain_label, require_pyplot
from fairspan.plotting.style import LABEL, NOTE, PAGE, TICK, styled

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

__all__ = ["AuditDisplay"]

# What a picture has room for; the tables have the rest.
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
)
_KINDS = ("gaps", "rates")
# Characters on a line of a legend.
_WIDE = 54


class AuditDisplay:
    """Gaps, leaks and rates of an audit, with their intervals.

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
        cls, audit: Audit, *, attribute: str | None = None, kind: str = "gaps", ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw an audit.

        Parameters
        ----------
        audit : Audit
        attribute, kind, ax, **kwargs
            As in :meth:`plot`.
        """
        return cls(audit).plot(ax, attribute=attribute, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any = None, *, sensitive_features: Any,
        attribute: str | None = None, kind: str = "gaps", ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Audit a model and draw what was found; the audit is kept as ``audit``.

        Parameters
        ----------
        model : fitted model
        X, y, sensitive_features
            Rows it was not fitted on, as in :func:`fairspan.audit`.
        attribute, kind, ax
            As in :meth:`plot`.
        **options
            Of :func:`fairspan.audit`; to change the look, call :meth:`plot` with its options.
        """
        from fairspan.auditing.results import audit

        found = audit(model, X, y, sensitive_features=sensitive_features, **options)
        return cls.from_audit(found, attribute=attribute, kind=kind, ax=ax)

    def plot(
        self, ax: Any = None, *, attribute: str | None = None, kind: str = "gaps",
        title: str | None = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw gaps on ``ax``; on a new figure, gaps and, beside them, what attackers recover.

        Parameters
        ----------
        ax : matplotlib axes, optional
        attribute : str, optional
            One protected attribute; all of them if not given (of rates, the first).
        kind : {"gaps", "rates"}, default="gaps"
            Comparisons of all groups, or the rates of decisions of each group of one attribute.
        title : str, optional
            On a new figure, what was audited if not given.
        **kwargs
            Properties of points and intervals, as in ``matplotlib.axes.Axes.errorbar``.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind={kind!r} is unknown: one of {', '.join(_KINDS)}")
        names = list(self.audit.groups) if attribute is None else [attribute]
        if attribute is not None and attribute not in self.audit.groups:
            known = ", ".join(self.audit.groups)
            raise ValueError(f"attribute={attribute!r} is not in the audit; known are {known}.")
        if kind == "rates":
            return self._plot_rates(ax, names, title, kwargs)
        gaps = [
            f for f in self.audit.findings
            if f.metric in _SHOWN and not f.group and f.attribute in names and math.isfinite(f.value)
            and (not f.where or f.section == "certificate")
        ]  # fmt: skip
        attacks = [f for f in self.audit.select("attacks") if f.attribute in names]
        attacks = [f for f in attacks if math.isfinite(f.value)]
        names = [name for name in names if any(f.attribute == name for f in (*gaps, *attacks))]
        axes: tuple[Any, ...] = (ax,) if ax is not None else self._new_figure(gaps, attacks)
        self._gaps(axes[0], gaps, names, kwargs)
        if len(axes) > 1:
            self._attacks(axes[1], attacks, names, kwargs)
        return self._drawn(axes, title, new=ax is None)

    def _drawn(self, axes: tuple[Any, ...], title: str | None, *, new: bool) -> Self:
        self.axes_: tuple[Any, ...] = axes
        self.ax_, self.figure_ = axes[0], axes[0].figure
        if new:
            said = self._title() if title is None else title
            self.figure_.suptitle(said, x=0.01, ha="left", fontsize=LABEL)
        elif title:
            self.ax_.set_title(title, loc="left", fontsize=LABEL)
        return self

    def _plot_rates(
        self, ax: Any, names: list[str], title: str | None, theirs: dict[str, Any]
    ) -> Self:
        found = [
            f for f in self.audit.select("decisions")
            if f.metric in _RATES and f.group and not f.where and f.attribute in names
        ]  # fmt: skip
        mine = [f for f in found if f.attribute == found[0].attribute]
        if not mine:
            msg = "The audit has no rates of decisions of two classes to draw; see its table()."
            raise ValueError(msg)
        groups = list({f.group: None for f in mine})
        metrics = [m for m in _RATES if any(f.metric == m for f in mine)]
        new = ax is None
        if new:
            height = 1.2 + 0.16 * len(groups) * len(metrics)
            _, ax = require_pyplot().subplots(figsize=(4.8, height), layout="constrained")
        small = {f.group for f in mine if f.small}
        labels = [plain_label(g) + (" †" if g in small else "") for g in groups]
        place = {group: i for i, group in enumerate(groups)}
        points = [(place[f.group], f.metric, f) for f in mine if math.isfinite(f.value)]
        self._draw(ax, points, metrics, labels, [m.replace("_", " ") for m in metrics], theirs)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xlabel("rate in the group" + (" († too few rows)" if small else ""), fontsize=LABEL)
        ax.set_ylabel(plain_label(mine[0].attribute), fontsize=LABEL)
        return self._drawn((ax,), title, new=new)

    def _title(self) -> str:
        name = plain_label(self.audit.model)
        return f"{name}, {self.audit.n_rows:,} audited rows, {self.audit.level:.0%} intervals"

    def _new_figure(self, gaps: list[Finding], attacks: list[Finding]) -> tuple[Any, ...]:
        rows = max(len({(f.metric, f.where) for f in gaps}), len({f.metric for f in attacks}), 3)
        _, axes = require_pyplot().subplots(
            1, 2 if attacks else 1, figsize=(PAGE if attacks else 4.8, 1.0 + 0.3 * rows),
            layout="constrained", squeeze=False,
        )  # fmt: skip
        return tuple(axes[0])

    def _gaps(self, ax: Any, gaps: list[Finding], names: list[str], theirs: dict[str, Any]) -> None:
        lines = list(
            {(m, f.where): None for m in _SHOWN for f in gaps if f.metric == m}
        )  # in the order of the tables, whoever has them
        labels = [
            m.replace("_", " ") + (f"\n({plain_label(where)})" if where else "")
            for m, where in lines
        ]
        place = {line: i for i, line in enumerate(lines)}
        points = [(place[f.metric, f.where], f.attribute, f) for f in gaps]
        self._draw(ax, points, names, labels, [plain_label(name) for name in names], theirs)
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_xlim(left=-0.02)
        ax.set_xlabel("gap or correlation (0 is parity)", fontsize=LABEL)

    def _attacks(
        self, ax: Any, attacks: list[Finding], names: list[str], theirs: dict[str, Any]
    ) -> None:
        lines = list({_attack_line(f): None for f in attacks})
        place = {line: i for i, line in enumerate(lines)}
        points = [(place[_attack_line(f)], f.attribute, f) for f in attacks]
        self._draw(ax, points, names, lines, [plain_label(name) for name in names], theirs)
        blind = {0.5: "AUC", 0.0: "$R^2$"}
        shown = [b for b in blind if any((" auc " in f.metric) == (b == 0.5) for f in attacks)]
        for b in shown:
            ax.axvline(b, color="0.6", lw=0.8, ls=":", zorder=0)
        measures = ", ".join(blind[b] for b in shown)
        ax.set_xlabel(f"recovered {measures}\n(dotted: guessing)", fontsize=LABEL)

    def _draw(
        self, ax: Any, points: list[tuple[int, str, Finding]], names: list[str], lines: list[str],
        legend: list[str], theirs: dict[str, Any],
    ) -> None:  # fmt: skip
        """Findings by line and, within it, by name; one colour and marker for each name."""
        step = 0.7 / max(len(names), 1)
        for j, (name, said) in enumerate(zip(names, legend, strict=True)):
            mine = [(i, f) for i, key, f in points if key == name]
            if not mine:
                continue
            at = [i + (j - (len(names) - 1) / 2) * step for i, _ in mine]
            values = [f.value for _, f in mine]
            low = [f.value - f.low if math.isfinite(f.low) else 0.0 for _, f in mine]
            high = [f.high - f.value if math.isfinite(f.high) else 0.0 for _, f in mine]
            look = {
                "marker": MARKERS[j % len(MARKERS)], "ls": "none", "color": COLOURS[j % len(COLOURS)],
                "ms": 3.5, "lw": 1.2, "capsize": 2, "label": said,
            }  # fmt: skip
            ax.errorbar(values, at, xerr=(_positive(low), _positive(high)), **styled(look, theirs))
        ax.set_yticks(range(len(lines)), lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.tick_params(axis="y", labelsize=NOTE)
        ax.tick_params(axis="x", labelsize=TICK)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.93", lw=0.8)
        ax.set_axisbelow(True)
        if len(names) > 1:
            # Above: intervals may be anywhere inside.
            longest = max(len(said) for said in legend)
            ax.legend(
                frameon=False, fontsize=NOTE, loc="lower left", bbox_to_anchor=(0.0, 1.0),
                ncols=max(1, min(3, _WIDE // longest)), borderpad=0.2, columnspacing=1.0, handletextpad=0.3,
            )  # fmt: skip


def _positive(lengths: list[float]) -> list[float]:
    return [max(length, 0.0) for length in lengths]


def _attack_line(f: Finding) -> str:
    attacker, measure, _, source = f.metric.split(" ", 3)
    return f"{source}, {attacker} ({'AUC' if measure == 'auc' else '$R^2$'})"
