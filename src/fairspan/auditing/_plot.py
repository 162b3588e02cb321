"""An audit as a picture: every gap with its interval, and what attackers recover."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fairspan.auditing._findings import Finding
from fairspan.plotting import COLOURS, MARKERS, plain_label, require_pyplot

if TYPE_CHECKING:
    from fairspan.auditing._audit import Audit

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


class AuditDisplay:
    """Gaps and leaks of an audit, with their intervals.

    Parameters
    ----------
    audit : Audit

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    def plot(self, ax: Any = None, *, attribute: str | None = None) -> AuditDisplay:
        """Draw gaps on ``ax``; on a new figure, gaps and, beside them, what attackers recover.

        Parameters
        ----------
        ax : matplotlib axes, optional
        attribute : str, optional
            One protected attribute; all of them if not given.
        """
        names = list(self.audit.groups) if attribute is None else [attribute]
        if attribute is not None and attribute not in self.audit.groups:
            known = ", ".join(self.audit.groups)
            raise ValueError(f"attribute={attribute!r} is not in the audit; known are {known}.")
        gaps = [
            f for f in self.audit.findings
            if f.metric in _SHOWN and not f.group and f.attribute in names and math.isfinite(f.value)
            and (not f.where or f.section == "certificate")
        ]  # fmt: skip
        attacks = [f for f in self.audit.select("attacks") if f.attribute in names]
        attacks = [f for f in attacks if math.isfinite(f.value)]
        names = [name for name in names if any(f.attribute == name for f in (*gaps, *attacks))]
        self.axes_: tuple[Any, ...] = (ax,) if ax is not None else self._new_figure(gaps, attacks)
        self._gaps(self.axes_[0], gaps, names)
        if len(self.axes_) > 1:
            self._attacks(self.axes_[1], attacks, names)
        self.figure_ = self.axes_[0].figure
        return self

    def _new_figure(self, gaps: list[Finding], attacks: list[Finding]) -> tuple[Any, ...]:
        rows = max(len({(f.metric, f.where) for f in gaps}), len({f.metric for f in attacks}), 3)
        figure, axes = require_pyplot().subplots(
            1, 2 if attacks else 1, figsize=(11.0 if attacks else 6.0, 1.4 + 0.36 * rows),
            layout="constrained", squeeze=False,
        )  # fmt: skip
        name = plain_label(self.audit.model)
        title = f"{name}, {self.audit.n_rows:,} rows, {self.audit.level:.0%} intervals"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        return tuple(axes[0])

    def _gaps(self, ax: Any, gaps: list[Finding], names: list[str]) -> None:
        lines = list(
            {(m, f.where): None for m in _SHOWN for f in gaps if f.metric == m}
        )  # in the order of the tables, whoever has them
        labels = [
            m.replace("_", " ") + (f"\n({plain_label(where)})" if where else "")
            for m, where in lines
        ]
        place = {line: i for i, line in enumerate(lines)}
        self._draw(ax, [(place[f.metric, f.where], f) for f in gaps], names, labels)
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_xlim(left=-0.02)
        ax.set_xlabel("gap or correlation (0 is parity)")

    def _attacks(self, ax: Any, attacks: list[Finding], names: list[str]) -> None:
        lines = list({_attack_line(f): None for f in attacks})
        place = {line: i for i, line in enumerate(lines)}
        self._draw(ax, [(place[_attack_line(f)], f) for f in attacks], names, lines)
        blind = {0.5: "AUC (0.5 is guessing)", 0.0: "$R^2$ (0 is guessing)"}
        shown = [b for b in blind if any((" auc " in f.metric) == (b == 0.5) for f in attacks)]
        for b in shown:
            ax.axvline(b, color="0.6", lw=0.8, ls=":", zorder=0)
        ax.set_xlabel("recovered: " + ", ".join(blind[b] for b in shown))

    def _draw(
        self, ax: Any, points: list[tuple[int, Finding]], names: list[str], labels: list[str]
    ) -> None:
        step = 0.7 / max(len(names), 1)
        for j, name in enumerate(names):
            mine = [(i, f) for i, f in points if f.attribute == name]
            if not mine:
                continue
            at = [i + (j - (len(names) - 1) / 2) * step for i, _ in mine]
            values = [f.value for _, f in mine]
            low = [f.value - f.low if math.isfinite(f.low) else 0.0 for _, f in mine]
            high = [f.high - f.value if math.isfinite(f.high) else 0.0 for _, f in mine]
            ax.errorbar(
                values, at, xerr=(_positive(low), _positive(high)),
                fmt=MARKERS[j % len(MARKERS)], color=COLOURS[j % len(COLOURS)], ms=4, lw=1.2,
                capsize=2, label=plain_label(name),
            )  # fmt: skip
        ax.set_yticks(range(len(labels)), labels, fontsize=8)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.93", lw=0.8)
        ax.set_axisbelow(True)
        if len(names) > 1:
            ax.legend(frameon=False, fontsize=8, loc="best")


def _positive(lengths: list[float]) -> list[float]:
    return [max(length, 0.0) for length in lengths]


def _attack_line(f: Finding) -> str:
    attacker, measure, _, source = f.metric.split(" ", 3)
    return f"{source}, {attacker} ({'AUC' if measure == 'auc' else '$R^2$'})"
