"""The geometry of a fit: fair subspace, predictive subspace, and the model space between them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairspan.method.linalg import Array
from fairspan.plotting.style import (
    COLOURS,
    LABEL,
    NOTE,
    PAGE,
    TICK,
    Numbers,
    dress,
    new_axes,
    number,
    styled,
)

# Vermilion, blue and green: apart for every kind of colour vision; dashes and widths differ too.
_G, _M, _F = COLOURS[1], COLOURS[0], COLOURS[2]
# Smallest distance between the names at the tips of the arrows, in degrees.
_APART = 11.0


class SubspaceAngleDisplay:
    """Principal angles between the fair, predictive and model spaces, one fan per principal pair.

    F is the fair subspace, G the predictive subspace, M the model space. Each principal pair spans a
    plane. In it, theta is the angle of the direction of G to that of F, and a is the angle of M to F.
    The dial moves a from theta (fairness 0) to 0 (fairness 1).

    Parameters
    ----------
    cosines : sequence of float, of shape (d,)
        Principal cosines of F and G.
    predictive_angles : sequence of float, of shape (d,)
        Principal angles theta of F and G, radians.
    model_angles : sequence of float, of shape (d,)
        Angles a of M to F, radians; NaN for a direction that the model has lost.
    containment_gap, accuracy_gap : float
        Largest distance of M from F and from G, as in the certificate.
    fairness : float
        Dial value on the scale of the removal.
    geometry : str, default=""
        Geometry of the angles, for the line above the fans.
    note : str, default=""
        Remark for the line above the fans.

    Attributes
    ----------
    order_ : ndarray of shape (d,)
        Pairs in the order in which they are drawn, largest angle first.
    figure_, ax_ : matplotlib figure and first axes, after :meth:`plot`.
    axes_ : tuple of matplotlib axes, one for each pair drawn.
    """

    def __init__(
        self,
        cosines: Numbers,
        predictive_angles: Numbers,
        model_angles: Numbers,
        *,
        containment_gap: float,
        accuracy_gap: float,
        fairness: float,
        geometry: str = "",
        note: str = "",
    ) -> None:
        self.cosines = np.asarray(cosines, dtype=np.float64)
        self.predictive_angles = np.asarray(predictive_angles, dtype=np.float64)
        self.model_angles = np.asarray(model_angles, dtype=np.float64)
        if not len(self.cosines) == len(self.predictive_angles) == len(self.model_angles) > 0:
            msg = "cosines, predictive_angles and model_angles are of one length, at least 1."
            raise ValueError(msg)
        self.containment_gap, self.accuracy_gap = containment_gap, accuracy_gap
        self.fairness, self.geometry, self.note = fairness, geometry, note
        self.order_ = np.argsort(-self.predictive_angles, kind="stable")

    @classmethod
    def from_estimator(
        cls, model: Any, *, max_pairs: int = 4, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the geometry of a fitted fairspan model, with the numbers of its certificate.

        Parameters
        ----------
        model : fitted fairspan estimator
        max_pairs, ax, **kwargs
            As in :meth:`plot`.
        """
        if not hasattr(model, "at"):
            raise TypeError(
                f"A {type(model).__name__} has no fair subspace to draw; give a fairspan model, of a "
                f"pipeline its fairspan step."
            )
        check_is_fitted(model, "certificate_")
        certificate, theta = model.certificate_, np.asarray(model.angles_)
        if len(theta) == 0:
            raise ValueError("The model has no predictive direction: y is constant, or not given.")
        angles = _with_lost(certificate.cosines, certificate.angles)
        display = cls(
            certificate.cosines,
            theta,
            angles,
            containment_gap=certificate.containment_gap,
            accuracy_gap=certificate.accuracy_gap,
            fairness=float(model.fairness_),
            geometry="correlation" if model._config.correlation_metric else "RKHS",
            note=_off_the_planes(certificate, theta, angles),
        )
        return display.plot(ax, max_pairs=max_pairs, **kwargs)

    def plot(
        self, ax: Any = None, *, max_pairs: int = 4, title: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw one fan for each pair, largest angle first.

        Parameters
        ----------
        ax : matplotlib axes, or sequence of them, optional
            One pair is drawn on each of them; a new figure if None.
        max_pairs : int, default=4
            Largest number of pairs on a new figure.
        title : str, optional
        **kwargs
            Properties of the arrow of M, as in ``matplotlib.axes.Axes.plot``.
        """
        given = ax is not None
        if ax is None:
            shown = max(1, min(max_pairs, len(self.order_)))
            width = min(PAGE, 1.2 + 2.2 * shown)
            # A fan is a square; the text above and below needs the rest of the height.
            words = 1.3 + 0.15 * ((title is not None) + (self.note != ""))
            axes = new_axes(width, words + 0.95 * (width - 0.7) / shown, shown)
        else:
            axes = tuple(np.ravel(np.asarray(ax, dtype=object)))
        drawn = self.order_[: len(axes)]
        # Beyond fairness 1 M is below F. All fans share the lowest angle, and so one scale.
        lowest = min(0.0, float(np.nanmin(self.model_angles[drawn], initial=0.0)))
        for i, (fan, pair) in enumerate(zip(axes, drawn, strict=False)):
            self._fan(fan, int(pair), lowest, kwargs, first=i == 0)
        self.axes_ = axes
        self.ax_, self.figure_ = axes[0], axes[0].figure
        if not given:
            self._words(title, min(len(axes), len(self.order_)))
        elif title:
            self.ax_.set_title(title, loc="left", fontsize=LABEL)
        return self

    def _words(self, title: str | None, shown: int) -> None:
        """Write the gaps above the fans, and the legend below."""
        lines = [title] if title else []
        where = f"training rows, {self.geometry} geometry" if self.geometry else "training rows"
        gaps = f"containment gap {number(self.containment_gap)}, "
        gaps += f"accuracy gap {number(self.accuracy_gap)}"
        lines += [f"{gaps} ({where})"] if shown > 1 else [gaps, f"({where})"]
        if shown < len(self.order_):
            lines.append(f"{len(self.order_) - shown} pairs of smaller angles not drawn")
        if self.note:
            lines.append(self.note)
        self.figure_.suptitle("\n".join(lines), x=0.02, ha="left", fontsize=NOTE)
        handles = {
            h.get_label(): h for fan in self.axes_ for h in fan.get_legend_handles_labels()[0]
        }
        look: dict[str, Any] = {
            "frameon": False,
            "fontsize": NOTE,
            "handlelength": 2.4,
            "columnspacing": 1.2,
        }
        look |= {"loc": "outside lower center", "ncols": 4 if shown > 2 else 2}
        self.figure_.legend(handles=list(handles.values()), **look)

    def _fan(self, ax: Any, pair: int, low: float, given: dict[str, Any], *, first: bool) -> None:
        theta, a = float(self.predictive_angles[pair]), float(self.model_angles[pair])
        lost = bool(np.isnan(a))
        _arc(ax, low, np.pi / 2, 1.0, color="0.85", lw=0.8, zorder=1)
        dial: dict[str, Any] = {
            "color": _M,
            "lw": 5.0,
            "alpha": 0.22,
            "zorder": 1,
            "solid_capstyle": "butt",
        }
        _arc(ax, 0.0, theta, 1.0, label="range of the dial", **dial)
        _arrow(ax, 0.0, color=_F, ls=(0, (1.2, 1.2)), lw=2.0, zorder=4, label="F: fair")
        _arrow(ax, theta, color=_G, ls=(0, (5, 1.6)), lw=1.6, zorder=4, label="G: predictive")
        if not lost:
            label = f"M: model, fairness {self.fairness:.3g}"
            look = {"color": _M, "ls": "-", "lw": 3.0, "zorder": 3, "label": label}
            _arrow(ax, a, **styled(look, given))
            _arc(ax, 0.0, a, 0.52, color=_M, lw=1.2)
            _letter(ax, "a", 0.0, a, 0.58, _M)
            _foot(ax, a, _M)
        _arc(ax, 0.0, theta, 0.36, color=_G, lw=1.0)
        # The letter is above the arrow of M where M is below G.
        _letter(ax, "$\\theta$", 0.0 if lost else min(max(a, 0.0), theta), theta, 0.43, _G)
        _foot(ax, theta, _G)
        _tips(ax, theta, a)
        of_model = "M has no direction" if lost else f"a = {_degrees(a)}, cos {np.cos(a):.3f}"
        text = f"$\\theta$ = {_degrees(theta)}, cos {self.cosines[pair]:.3f}"
        words = {"x": 1.28, "ha": "right", "fontsize": NOTE}
        ax.text(y=1.22, s=text, va="bottom", color=_G, **words)
        ax.text(y=1.2, s=of_model, va="top", color=_M, **words)
        ax.set_aspect("equal")
        ax.set_xlim(-0.05, 1.28)
        ax.set_ylim(min(-0.05, 1.12 * np.sin(low) - 0.1), 1.32)
        ticks = [0.0, 0.5, 1.0]
        ax.set_xticks(ticks, ["0", "0.5", "1"])
        ax.set_yticks(ticks, ["0", "0.5", "1"] if first else [""] * 3)
        dress(ax, "cosine with F", "sine: part outside F" if first else "")
        ax.spines["left"].set_bounds(min(0.0, np.sin(low)), 1.0)
        ax.spines["bottom"].set_bounds(0.0, 1.0)
        ax.tick_params(labelsize=TICK)


def _degrees(angle: float) -> str:
    return f"{np.degrees(angle):.1f}°".replace("-", "\N{MINUS SIGN}")


def _with_lost(cosines: Array, angles: Array) -> Array:
    """Angles of M for all pairs, NaN for directions without a fair part, which M has lost."""
    out = np.full(len(cosines), np.nan)
    out[: len(angles)] = angles  # pairs are ordered by cosine, so lost directions come last
    return out


def _off_the_planes(certificate: Any, theta: Array, angles: Array) -> str:
    """Explain gaps that differ from those of the directions drawn; "" if they agree."""
    if certificate.limits is not None:
        return "a limit for each attribute: M may lie outside the plane drawn"
    if np.isnan(angles).any():
        return ""
    drawn = np.abs(np.sin(angles)).max(), np.abs(np.sin(theta - angles)).max()
    certified = certificate.containment_gap, certificate.accuracy_gap
    if np.allclose(drawn, certified, rtol=0.0, atol=1e-6):
        return ""
    return f"M has {certificate.n_functions} functions: the gaps are of all of them"


def _arc(ax: Any, start: float, end: float, radius: float, **look: Any) -> None:
    at = np.linspace(start, end, 60)
    ax.plot(radius * np.cos(at), radius * np.sin(at), **look)


def _letter(ax: Any, name: str, start: float, end: float, radius: float, colour: str) -> None:
    """Write the name of an angle inside it, if there is room."""
    if abs(end - start) > np.radians(10.0):
        at = (start + end) / 2.0
        look = {"color": colour, "fontsize": NOTE, "ha": "center", "va": "center"}
        ax.text(radius * np.cos(at), radius * np.sin(at), name, **look)


def _arrow(ax: Any, angle: float, **look: Any) -> None:
    """Draw a direction from the origin; the last point of its line is the unit vector."""
    x, y = np.cos(angle), np.sin(angle)
    ax.plot([0.0, x], [0.0, y], **look)
    tip = {"marker": (3, 0, np.degrees(angle) - 90.0), "ms": 6.5, "ls": "none"}
    ax.plot([x], [y], color=look["color"], zorder=look["zorder"], **tip)


def _foot(ax: Any, angle: float, colour: str) -> None:
    """Draw the perpendicular from the tip to the axis of cosines."""
    x = np.cos(angle)
    ax.plot([x, x], [np.sin(angle), 0.0], color=colour, lw=0.7, ls=(0, (1, 1.5)), zorder=2)
    ax.plot([x], [0.0], marker="|", color=colour, ms=7, mew=1.4, ls="none", zorder=5, clip_on=False)


def _tips(ax: Any, theta: float, a: float) -> None:
    """Write the names at the tips; directions that coincide share one name."""
    names: dict[float, str] = {0.0: "F"}
    colours = {"F": _F, "G": _G, "M": _M}
    for name, angle in (("G", np.degrees(theta)), ("M", np.degrees(a))):
        if np.isnan(angle):
            continue
        same = next((other for other in names if abs(other - angle) < 0.05), None)
        if same is None:
            names[float(angle)] = name
        else:
            names[same] += f" = {name}"
    line = {"arrowstyle": "-", "color": "0.6", "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
    look: dict[str, Any] = {"ha": "left", "va": "center", "fontsize": LABEL, "fontweight": "bold"}
    for angle, shown in zip(sorted(names), _spread(sorted(names)), strict=True):
        name, at, to = names[angle], np.radians(shown), np.radians(angle)
        text = 1.1 * np.cos(at), 1.1 * np.sin(at)
        look["color"] = colours.get(name, "0.15")
        ax.annotate(name, (np.cos(to), np.sin(to)), xytext=text, arrowprops=line, **look)


def _spread(angles: list[float]) -> list[float]:
    """Move sorted angles up until neighbours are at least ``_APART`` from each other."""
    out: list[float] = []
    for angle in angles:
        out.append(angle if not out else max(angle, out[-1] + _APART))
    return out
