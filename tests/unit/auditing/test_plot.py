"""The display of an audit draws its numbers."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib import pyplot
from tests.support.plotting_pictures import an_audit
from tests.unit.estimators.test_path import FIXED, make

from fairspan import audit
from fairspan.auditing import AuditDisplay
from fairspan.estimators import FairRidgeClassifier


@pytest.fixture(autouse=True)
def no_figures_left():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def drawn_intervals(ax):
    out = []
    for one in ax.containers:
        values, (bars,) = one.lines[0].get_xdata(), one.lines[2]
        ends = [segment[:, 0] for segment in bars.get_segments()]
        out += [(round(float(v), 9), *np.round(e, 9)) for v, e in zip(values, ends, strict=True)]
    return sorted(out)


def test_an_audits_numbers_are_drawn():
    found = an_audit()
    shown = AuditDisplay.from_audit(found)
    assert shown.ax_ is shown.axes_[0]
    for ax, section in zip(shown.axes_, ("scores", "attacks"), strict=True):
        expected = [(f.value, f.low, f.high) for f in found.select(section)]
        assert drawn_intervals(ax) == sorted(tuple(np.round(e, 9)) for e in expected)
    rates = AuditDisplay.from_audit(found, kind="rates")
    expected = [(f.value, f.low, f.high) for f in found.select("decisions")]
    assert drawn_intervals(rates.ax_) == sorted(tuple(np.round(e, 9)) for e in expected)
    assert [t.get_text() for t in rates.ax_.get_yticklabels()] == ["F", "M"]


def test_a_model_is_audited_and_drawn():
    X, y, s = make("two", 300)
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    new = make("two", 300, seed=1)
    options = {"parts": ["scores", "decisions"], "n_boot": 20, "random_state": 0}
    shown = AuditDisplay.from_estimator(
        model, *new[:2], sensitive_features=new[2], kind="rates", attribute="group", **options
    )
    expected = audit(model, *new[:2], sensitive_features=new[2], **options)
    assert shown.audit.findings == expected.findings
    assert shown.ax_.get_ylabel() == "group"
    with pytest.raises(ValueError, match="kind='x'"):
        shown.plot(kind="x")
    numbers = audit(X[:, 0], sensitive_features=s, parts=["scores"], n_boot=20, random_state=0)
    with pytest.raises(ValueError, match="no rates"):
        AuditDisplay.from_audit(numbers, kind="rates")


def test_one_attribute_of_an_audit_and_axes_of_the_user():
    found = an_audit()
    with pytest.raises(ValueError, match="known are sex, age"):
        AuditDisplay.from_audit(found, attribute="race")
    figure, (left, right) = pyplot.subplots(1, 2)
    gaps = AuditDisplay.from_audit(found, attribute="age", ax=left, title="ages")
    # One panel, so gaps alone; one attribute, so nothing to tell apart.
    assert (gaps.axes_, gaps.figure_) == ((left,), figure)
    expected = [(f.value, f.low, f.high) for f in found.select("scores", attribute="age")]
    assert drawn_intervals(left) == sorted(tuple(np.round(e, 9)) for e in expected)
    assert left.get_legend() is None
    assert left.get_title(loc="left") == "ages"
    rates = AuditDisplay(found).plot(right, kind="rates")
    assert rates.ax_ is right
    assert len(drawn_intervals(right)) == len(found.select("decisions"))
    assert figure.get_suptitle() == right.get_title(loc="left") == ""


def test_an_attribute_that_one_panel_lacks():
    found = an_audit()
    kept = [f for f in found.findings if f.section != "attacks" or f.attribute == "sex"]
    shown = AuditDisplay.from_audit(replace(found, findings=tuple(kept)), title="whose")
    panels = [[h.get_label() for h in ax.containers] for ax in shown.axes_]
    assert panels == [["sex", "age"], ["sex"]]
    assert [one.lines[0].get_color() for one in shown.axes_[1].containers] == ["#0072B2"]
    assert shown.figure_.get_suptitle() == "whose"
