"""Points of the dial: the shrinkage of the fair prior, and the cosine dial."""

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import FairRepresentation, FairRidge
from fairspan.inputs.config import read_config
from fairspan.method.fair_prior import FairComponents


class Angles:
    def __init__(self, *angles):
        self.pair = type("Pair", (), {"angles": np.array(angles)})


def shrinkage(solution, est, fairness):
    return FairComponents(solution, read_config(est))._shrinkage(fairness)


@pytest.mark.parametrize(
    ("angle", "expected"),
    [(0.0, lambda f: f), (np.pi / 2, lambda f: float(f > 0.0)), (0.6, None)],
)
def test_the_shrinkage_of_a_fair_prior_runs_from_0_to_1(angle, expected):
    est = FairRepresentation(subspace="fair")
    dial = np.linspace(0.0, 1.0, 11)
    found = np.array([shrinkage(Angles(0.0, angle), est, f) for f in dial])
    assert found[0] == pytest.approx(0.0)
    assert found[-1] == 1.0
    assert (np.diff(found) >= 0.0).all()
    if expected is not None:
        np.testing.assert_allclose(found, [expected(f) for f in dial])


def test_half_way_needs_something_to_predict():
    X, _, s = rows()
    model = FairRepresentation(**FEW, subspace="fair", fairness=0.5)
    with pytest.raises(ValueError, match="needs y"):
        model.fit(X, sensitive_features=s)


def test_the_paper_has_all_of_f_at_the_fair_end_alone():
    est = FairRepresentation(subspace="fair", method="paper")
    with pytest.raises(ValueError, match=r"only at the fair end.*fairness=1"):
        shrinkage(Angles(0.3), est, 0.5)
    assert shrinkage(Angles(0.3), est, 1.0) == 1.0


@pytest.mark.parametrize("subspace", ["model", "fair"])
@pytest.mark.parametrize("fairness", [0.2, 0.9])
def test_the_cosine_dial_turns_the_predictor_by_its_angle(fairness, subspace):
    X, y, s = rows()
    fit = {"X": X, "y": y, "sensitive_features": s}
    few = {**FEW, "subspace": subspace}
    cosine = FairRidge(**few, dial="cosine", fairness=fairness, removal="training_rows").fit(**fit)
    theta = float(cosine._solution.pair.angles.max())
    share = 1.0 - min(theta, np.arccos(fairness)) / theta
    angle = FairRidge(**few, fairness=share, removal="training_rows").fit(**fit)
    np.testing.assert_allclose(cosine.predict(X), angle.predict(X), rtol=1e-8, atol=1e-10)
