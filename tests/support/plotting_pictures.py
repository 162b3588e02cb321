"""The pictures that displays are compared with; ``python -m tests.support.plotting_pictures`` remakes them.

Made of plain numbers, no fit: a picture changes only if its drawing does. They have no text, and axes
in fixed places: letters, and the room a layout gives them, differ from one build of freetype to the
next by more than a lost curve does (root mean square 35 of 255, against 15). What is written is
compared as text. With a folder, ``python -m tests.support.plotting_pictures FOLDER`` draws them there as
users see them: look at those before you keep the new ones, and set ``MADE_WITH``.
"""

import sys
from pathlib import Path

import numpy as np

from fairspan.auditing import Audit, AuditDisplay, Finding
from fairspan.plotting import (
    GroupDistributionDisplay,
    PriceDisplay,
    SubspaceAngleDisplay,
    TradeoffDisplay,
)

FOLDER = Path(__file__).resolve().parents[1] / "images"
MADE_WITH = (3, 11)  # matplotlib
DPI = 80


def tradeoff():
    t = np.linspace(0.0, 1.0, 21)
    parity = {"sex": 0.4 * (1 - t) ** 2, "age": 0.2 * np.abs(0.7 - t)}
    words = "on new rows (out of fold), 95 %"
    return TradeoffDisplay(
        t,
        0.1 + 0.05 * t**3,
        parity,
        low={name: np.maximum(v - 0.04, 0.0) for name, v in parity.items()},
        high={name: v + 0.04 for name, v in parity.items()},
        noise=0.05,
        error_name="misclassification on new rows (out of fold)",
        parity_name=f"correlation {words}",
        band_name=words,
    ).plot()


def scores():
    t = (np.arange(60) + 0.5) / 60
    group = np.arange(60) % 3
    return t + 0.15 * group, group


def ecdf():
    f, group = scores()
    labels = ["first", "second", "third"]
    return GroupDistributionDisplay(f, group, labels, attribute="group").plot()


def histogram():
    f, group = scores()
    labels = ["first", "second", "third"]
    display = GroupDistributionDisplay(f, group, labels, attribute="group", rows="in-sample")
    return display.plot(kind="histogram", bins=8)


def means():
    f, _ = scores()
    age = np.linspace(20, 70, 60)
    part = np.arange(60) // 12
    return GroupDistributionDisplay(
        np.sin(6 * f), part, list("abcde"), values=age, attribute="age (years)"
    ).plot()


def angles():
    theta = np.radians([8.0, 40.0, 62.0])
    a = 0.4 * theta
    return SubspaceAngleDisplay(
        np.cos(theta),
        theta,
        a,
        containment_gap=np.sin(a).max(),
        accuracy_gap=np.sin(theta - a).max(),
        fairness=0.6,
        geometry="correlation",
    ).plot()


def angles_ends():
    """Past the fair end, and a direction that is lost."""
    theta = np.radians([50.0, 90.0])
    return SubspaceAngleDisplay(
        np.cos(theta),
        theta,
        [np.radians(-15.0), np.nan],
        containment_gap=0.2588,
        accuracy_gap=1.0,
        fairness=1.3,
        geometry="RKHS",
    ).plot()


def price():
    t = np.linspace(0.0, 1.0, 21)
    cost = 0.04 * t**2 - 0.005 * t
    return PriceDisplay(
        t,
        cost,
        low=cost - 0.01 * t,
        high=cost + 0.012 * t,
        parity=0.3 * (1 - t),
        upper=0.3 * (1 - t) + 0.03,
        at_most=0.08,
        error_name="misclassification",
        level=0.9,
        confidence="95 %",
        rows="out of fold",
    ).plot()


def an_audit():
    gaps = ("statistical_parity_correlation", "correlation_ratio", "demographic_parity_difference")
    rates = ("selection_rate", "true_positive_rate", "false_positive_rate")
    found = [
        Finding("scores", metric, name, value=v, low=v - 0.05, high=v + 0.1, n_rows=400)
        for i, metric in enumerate(gaps)
        for name, v in (("sex", 0.1 + 0.1 * i), ("age", 0.05 + 0.05 * i))
    ]
    found += [
        Finding("decisions", metric, "sex", group, "", v, v - 0.06, v + 0.06, n_rows=200)
        for i, metric in enumerate(rates)
        for group, v in (("F", 0.2 + 0.2 * i), ("M", 0.3 + 0.2 * i))
    ]
    found += [
        Finding("attacks", f"{who} auc from score", "sex", value=v, low=v - 0.03, high=v + 0.03)
        for who, v in (("linear", 0.6), ("boosted", 0.56))
    ]
    found.append(Finding("attacks", "linear r2 from score", "age", value=0.2, low=0.1, high=0.3))
    groups = {"sex": {"F": 200, "M": 200}, "age": {"young": 200, "old": 200}}
    return Audit("a model", 400, 0.95, groups, tuple(found))


def audit_gaps():
    return AuditDisplay.from_audit(an_audit())


def audit_rates():
    return AuditDisplay.from_audit(an_audit(), kind="rates", attribute="sex")


PICTURES = {
    make.__name__: make
    for make in (
        *(tradeoff, ecdf, histogram, means, angles, angles_ends, price, audit_gaps, audit_rates),
    )
}


def draw(name, path, *, words=False):
    """One picture, whatever the user's settings are; what is written on it."""
    import matplotlib as mpl
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    same = {"font.family": "DejaVu Sans", "text.hinting": "none"}
    with mpl.style.context(["default", same], after_reset=True):
        figure = PICTURES[name]().figure_
        if not words:
            figure.set_layout_engine("none")
            n = len(figure.axes)
            for k, ax in enumerate(figure.axes):
                ax.set_position([(k + 0.11) / n, 0.12, 0.8 / n, 0.763])
        figure.canvas.draw()  # ticks are chosen here
        texts = [t for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_visible()]
        said = sorted({t.get_text() for t in texts})
        if not words:
            for one in (*texts, *figure.findobj(mpl.legend.Legend)):
                one.set_visible(False)
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        pyplot.close(figure)
    return said


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(exist_ok=True)
    for each in PICTURES:
        texts = draw(each, folder / f"{each}.png", words=len(sys.argv) > 1)
        print(folder / f"{each}.png")
        if len(sys.argv) == 1:
            (folder / f"{each}.txt").write_text("\n".join(map(repr, texts)) + "\n", "utf-8")
