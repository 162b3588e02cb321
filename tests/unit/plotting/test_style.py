"""All displays: names from data are only names, sizes fit a paper, lines are the user's."""

import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.colors import to_rgb
from tests.support.drawn import line, texts, three_groups
from tests.support.plotting_pictures import an_audit
from tests.unit.estimators.test_path import FIXED, binary, path_of

from fairspan.auditing import Audit, AuditDisplay, Finding
from fairspan.estimators import FairRidge
from fairspan.plotting import (
    GroupDistributionDisplay,
    PriceDisplay,
    SubspaceAngleDisplay,
    TradeoffDisplay,
    plain_label,
)
from fairspan.plotting.style import number

HOSTILE = (
    "$\\frac{1}{",
    "_hidden",
    "<script>alert(1)</script>",
    "a\nb",
    "\x1b[31mred",
    "\u202egnp",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_from_data_are_inert(name):
    f, group = three_groups()
    labels = np.array([name, "b", "c"])[group]
    found = [
        Finding(section, metric, name, who, value=0.2, low=0.1, high=0.3, small=bool(who))
        for section, metric, who in (
            ("scores", "correlation_ratio", ""),
            ("decisions", "selection_rate", name),
            ("decisions", "accuracy", name),
        )
    ]
    audited = Audit(name, 90, 0.95, {name: {name: 90}}, tuple(found))
    displays = [
        AuditDisplay.from_audit(audited),
        AuditDisplay.from_audit(audited, kind="rates"),
        GroupDistributionDisplay.from_predictions(f, sensitive_features={name: labels}),
        GroupDistributionDisplay.from_predictions(
            f, sensitive_features={name: labels}, kind="histogram", score_name=name
        ),
        GroupDistributionDisplay.from_predictions(
            f, sensitive_features={name: f + np.arange(90)}, score_name=name
        ),
        PriceDisplay([0, 1], [0, 0.1], parity=[0.3, 0.1], at_most=0.2, parity_name=name).plot(),
        PriceDisplay([0, 1], [0, 0.1], parity=[0.3, 0.1], at_most=0.0, parity_name=name).plot(),
        TradeoffDisplay([0, 1], [0.1, 0.2], {name: [0.3, 0.1]}).plot(),
    ]
    for shown in displays:
        found = texts(shown.figure_)
        assert any(plain_label(name) in text for text in found)
        for text in found:
            assert text.count("$") == text.count(r"\$")
            assert all(c.isprintable() or c == "\n" for c in text)
            assert name not in text or "\n" not in name


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    f, group = three_groups()
    for call in (
        TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]}).plot,
        GroupDistributionDisplay(f, group, list("abc")).plot,
        PriceDisplay([0, 1], [0, 1]).plot,
        SubspaceAngleDisplay(
            [0.5], [1.0], [0.5], containment_gap=0, accuracy_gap=0, fairness=1
        ).plot,
        AuditDisplay(an_audit()).plot,
    ):
        with pytest.raises(ImportError, match=r"fairspan\[plot\]"):
            call()


def test_properties_of_lines_are_the_users():
    f, group = three_groups()
    path, _ = path_of(FairRidge(**FIXED))
    X, y, s = binary()
    model = FairRidge(**FIXED, fairness=0.4).fit(X, y, sensitive_features=s)
    # Both spellings of a property, as matplotlib has them.
    for look in ({"lw": 4.0, "c": "k"}, {"linewidth": 4.0, "color": "k"}):
        by_group = {"sensitive_features": group, "title": "t", **look}
        lines = [
            line(TradeoffDisplay.from_path(path, title="t", **look).ax_, "group"),
            line(PriceDisplay.from_path(path, n_boot=2, title="t", **look).ax_, "price"),
            GroupDistributionDisplay.from_predictions(f, **by_group).ax_.get_lines()[0],
            GroupDistributionDisplay.from_predictions(f, kind="histogram", **by_group).ax_.patches[
                0
            ],
            GroupDistributionDisplay.from_predictions(
                f, **{**by_group, "sensitive_features": f + np.arange(90)}
            )
            .ax_.containers[0]
            .lines[0],
            line(SubspaceAngleDisplay.from_estimator(model, **look).ax_, "M: model, fairness 0.4"),
            AuditDisplay.from_audit(an_audit(), **look).ax_.containers[0].lines[0],
        ]
        for one in lines:
            colour = one.get_edgecolor() if hasattr(one, "get_edgecolor") else one.get_color()
            assert to_rgb(colour) == (0.0, 0.0, 0.0)
            assert one.get_linewidth() == 4.0
    with pytest.raises(AttributeError, match="colour_of_nothing"):
        TradeoffDisplay.from_path(path, colour_of_nothing=1)


def test_numbers_on_pictures_are_short_and_hide_nothing():
    given = (0.0, 1e-12, 4e-4, -4e-4, 0.12345, -0.5, 12.3456, 12345.6)
    said = ("0", "0", "4e-4", "\u22124e-4", "0.123", "\u22120.500", "12.346", "1.235e+04")
    assert tuple(map(number, given)) == said


def test_displays_fit_a_paper():
    """On a new figure: from a column to a page wide."""
    f, group = three_groups()
    theta = np.linspace(0.1, 1.0, 6)
    for shown in (
        TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]}).plot(title="t"),
        GroupDistributionDisplay(f, group, list("abc")).plot(title="t"),
        PriceDisplay([0, 1], [0, 1]).plot(title="t"),
        *(
            SubspaceAngleDisplay(
                np.cos(theta[:d]),
                theta[:d],
                theta[:d] / 2,
                containment_gap=0,
                accuracy_gap=0,
                fairness=0.5,
            ).plot(title="t")
            for d in (1, 2, 6)
        ),
        AuditDisplay.from_audit(an_audit()),
    ):
        width, height = shown.figure_.get_size_inches()
        assert 3.39 <= width <= 7.0
        assert height <= 5.0
        figure = shown.figure_
        figure.canvas.draw()
        box = figure.get_tightbbox()
        assert box.x0 >= -0.02
        assert box.y0 >= -0.02
        assert box.x1 <= width + 0.02
        assert box.y1 <= height + 0.02
