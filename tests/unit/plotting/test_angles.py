"""The display of angles draws those of the certificate."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib import pyplot
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tests.unit.estimators.test_path import FIXED, binary, make

from fairspan import FairRepresentation
from fairspan.estimators import FairGPRegressor, FairRidge
from fairspan.estimators.dial_predictor import move
from fairspan.plotting import (
    SubspaceAngleDisplay,
)
from fairspan.plotting import angles as _angles


def read_off(ax, label):
    """Angle of an arrow, from where its tip is drawn."""
    found = [one for one in ax.get_lines() if one.get_label().startswith(label)]
    return [float(np.arctan2(one.get_ydata()[1], one.get_xdata()[1])) for one in found]


ANGLED = [
    FairRidge(**FIXED, removal="training_rows", fairness=0.6),
    FairRidge(**FIXED, removal="training_rows", fairness=0.0, n_predictive_directions=2),
    FairRidge(**FIXED, removal="training_rows", fairness=1.0, n_predictive_directions=3),
    FairRidge(
        **FIXED, removal="training_rows", fairness=0.3, method="rkhs", n_predictive_directions=3
    ),
    FairRidge(
        gamma=0.2, eta=1e-3, fairness=0.9, dial="cosine", method="paper", n_predictive_directions=2
    ),
    FairRidge(**FIXED, removal="training_rows", fairness=0.8, dial="correlation"),
    FairGPRegressor(**FIXED, fairness=0.5, subspace="fair"),
    FairRepresentation(**FIXED, removal="training_rows", fairness=0.5),
]


@pytest.mark.filterwarnings("ignore:A correlation of")
@pytest.mark.parametrize("model", ANGLED)
def test_angles_read_off_are_the_certificates(model):
    X, y, s = make()
    model = type(model)(**model.get_params()).fit(X, y, sensitive_features=s)
    shown = SubspaceAngleDisplay.from_estimator(model)
    certificate = model.certificate_
    order = np.argsort(-model.angles_, kind="stable")
    assert len(shown.axes_) == min(4, len(order))
    fans = list(zip(shown.axes_, order, strict=False))
    for ax, i in fans:
        assert read_off(ax, "F") == [0.0]
        assert read_off(ax, "G") == pytest.approx([model.angles_[i]], abs=1e-12)
        assert np.cos(read_off(ax, "G")[0]) == pytest.approx(certificate.cosines[i], abs=1e-9)
        assert read_off(ax, "M") == pytest.approx([certificate.angles[i]], abs=1e-12)
        feet = [one.get_xdata()[0] for one in ax.get_lines() if one.get_marker() == "|"]
        assert sorted(feet) == pytest.approx(
            sorted([np.cos(certificate.angles[i]), certificate.cosines[i]]), abs=1e-9
        )
        words = [t.get_text() for t in ax.texts]
        theta, a = np.degrees(model.angles_[i]), np.degrees(certificate.angles[i])
        assert f"$\\theta$ = {theta:.1f}°, cos {certificate.cosines[i]:.3f}" in words
        assert f"a = {a:.1f}°, cos {np.cos(certificate.angles[i]):.3f}" in words
    # The gaps are those of the fans: as angles, they can be read off too.
    drawn = [read_off(ax, "M")[0] for ax, _ in fans]
    away = [read_off(ax, "G")[0] - read_off(ax, "M")[0] for ax, _ in fans]
    if len(fans) == len(order):
        assert np.abs(np.sin(drawn)).max() == pytest.approx(certificate.containment_gap, abs=1e-9)
        assert np.abs(np.sin(away)).max() == pytest.approx(certificate.accuracy_gap, abs=1e-9)
    said = shown.figure_.get_suptitle()
    for name in ("containment_gap", "accuracy_gap"):
        value = getattr(certificate, name)
        shown_value = "0" if value < 1e-10 else f"{value:.3f}"
        assert f"{name.replace('_', ' ')} {shown_value}" in said
    assert ("RKHS" if model.method != "optimal" else "correlation geometry") in said


def test_past_the_fair_end_the_model_is_on_the_other_side():
    X, y, s = binary()
    model = move(FairRidge(**FIXED, removal="training_rows").fit(X, y, sensitive_features=s), 1.5)
    shown = SubspaceAngleDisplay.from_estimator(model)
    (a,) = read_off(shown.ax_, "M")
    assert a == pytest.approx(-0.5 * model.angles_[0])
    assert shown.ax_.get_ylim()[0] < np.sin(a)


def test_a_lost_direction_is_not_drawn():
    theta = np.array([0.3, np.pi / 2])
    from fairspan.plotting.angles import _with_lost

    angles = _with_lost(np.cos(theta), np.array([0.1]))
    assert angles[0] == 0.1
    assert np.isnan(angles[1])
    shown = SubspaceAngleDisplay(
        np.cos(theta), theta, angles, containment_gap=0.1, accuracy_gap=1.0, fairness=0.5
    ).plot()
    assert read_off(shown.axes_[0], "M") == []
    assert "M has no direction" in [t.get_text() for t in shown.axes_[0].texts]
    assert len(read_off(shown.axes_[1], "M")) == 1
    names = [t.get_text() for t in shown.figure_.legends[0].get_texts()]
    assert sum(name.startswith("M") for name in names) == 1


@pytest.mark.filterwarnings("ignore:Limits on correlations are not expected")
def test_a_model_off_the_planes_says_so():
    X, y, s = make()
    limits = FairRidge(**FIXED, dependence="correlation").fit(X, y, sensitive_features=s)
    at = limits.at(max_correlation={"group": 0.05, "age": 0.02})
    said = SubspaceAngleDisplay.from_estimator(at).figure_.get_suptitle()
    assert "outside the plane" in said
    rep = FairRepresentation(**FIXED, subspace="fair", fairness=0.5)
    rep.fit(X, y, sensitive_features=s)
    shown = SubspaceAngleDisplay.from_estimator(rep)
    assert f"{rep.certificate_.n_functions} functions" in shown.figure_.get_suptitle()
    assert shown.containment_gap == rep.certificate_.containment_gap


GEOMETRIES = {
    "optimal": ({**FIXED}, "correlation"),
    "rkhs": ({**FIXED, "method": "rkhs"}, "RKHS"),
    "all of F": ({**FIXED, "method": "rkhs", "subspace": "fair"}, "correlation"),
    "paper": ({"gamma": 0.2, "eta": 1e-3, "method": "paper"}, "RKHS"),
    "paper, all of F": ({"gamma": 0.2, "method": "paper", "subspace": "fair"}, "RKHS"),
}


@pytest.mark.parametrize("case", GEOMETRIES)
def test_the_geometry_named_is_that_of_the_angles(case):
    params, geometry = GEOMETRIES[case]
    X, y, s = binary()
    model = FairRepresentation(**params).fit(X, y, sensitive_features=s)
    shown = SubspaceAngleDisplay.from_estimator(model)
    assert f"{geometry} geometry" in shown.figure_.get_suptitle()


def test_all_of_f_has_the_angles_of_the_correlation_geometry():
    X, y, s = binary()
    optimal, rkhs = (
        FairRepresentation(**FIXED, method=method, subspace="fair").fit(X, y, sensitive_features=s)
        for method in ("optimal", "rkhs")
    )
    np.testing.assert_allclose(rkhs.angles_, optimal.angles_)


def test_fans_on_axes_of_the_user():
    X, y, s = make()
    model = FairRidge(**FIXED, n_predictive_directions=3).fit(X, y, sensitive_features=s)
    figure, axes = pyplot.subplots(1, 2)
    shown = SubspaceAngleDisplay.from_estimator(model, ax=axes)
    assert shown.figure_ is figure
    assert shown.axes_ == tuple(axes)
    assert not figure.legends
    SubspaceAngleDisplay.from_estimator(model, ax=axes[1], title="one")
    assert axes[1].get_title(loc="left") == "one"
    few = SubspaceAngleDisplay.from_estimator(model, max_pairs=1)
    assert f"{len(model.angles_) - 1} pairs of smaller angles" in few.figure_.get_suptitle()


def test_no_geometry_without_a_fit_or_a_direction():
    with pytest.raises(NotFittedError):
        SubspaceAngleDisplay.from_estimator(FairRidge())
    with pytest.raises(TypeError, match="its fairspan step"):
        SubspaceAngleDisplay.from_estimator(make_pipeline(FairRidge()))
    X, _, s = binary()
    rep = FairRepresentation(**FIXED, subspace="fair").fit(X, sensitive_features=s)
    with pytest.raises(ValueError, match="no predictive direction"):
        SubspaceAngleDisplay.from_estimator(rep)
    with pytest.raises(ValueError, match="one length"):
        SubspaceAngleDisplay([1.0], [], [], containment_gap=0, accuracy_gap=0, fairness=1)


def test_directions_without_a_fair_part_need_no_word_about_planes():
    certificate = SimpleNamespace(limits=None)
    theta = np.array([0.3, 0.5])
    assert _angles._off_the_planes(certificate, theta, np.array([0.1, np.nan])) == ""
