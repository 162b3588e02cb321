"""The spread of codes and scores: from scores of another pass, or from one of its own."""

import numpy as np
import pytest
from tests.unit.estimators.test_decision_fit import PARAMS, people

from fairspan import FairGPClassifier, FairRidgeClassifier
from fairspan.method import expected
from fairspan.method.expected import measure_spread

SCORES = {**PARAMS, "equalize": "scores"}


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
@pytest.mark.parametrize("case", ["plain", "weights", "groups", "odds", "classes", "several"])
@pytest.mark.filterwarnings("ignore::fairspan.DataWarning")
def test_scores_of_another_pass_give_the_same_spread(kind, case):
    X, y, s = people(400, 3)
    rng, given, options = np.random.default_rng(0), {}, {}
    if case == "weights":
        given = {"sample_weight": rng.integers(0, 3, 400) / 2.0}
    elif case == "groups":
        given = {"groups": rng.integers(0, 100, 400)}
    elif case == "odds":
        options = {"criterion": "equalized_odds"}
    elif case == "classes":
        y = np.where(X[:, 1] > 0.7, "later", y)
    elif case == "several":
        s = np.where(X[:, 2] + rng.normal(size=400) > 0.5, "c", s)
    model = kind(**SCORES, **options).fit(X, y, sensitive_features=s, **given)
    state = model._fit_state
    weight, groups = given.get("sample_weight"), given.get("groups")
    data = model._read(X, y, s, None, weight, reset=False, groups=groups)
    known = model._scores_out_of_fold(state)
    assert known is not None
    for most in (10_000, 150):
        fit = state.solved.new_rows
        one, other = (
            measure_spread(fit, state.pilot, data, most, known=scores) for scores in (None, known)
        )
        for a, b, fitted in zip(one.blocks, other.blocks, fit.blocks, strict=True):
            size = np.abs(a.spread).max()
            np.testing.assert_allclose(b.spread, a.spread, rtol=0.0, atol=1e-12 * size)
            if most == 10_000:
                np.testing.assert_array_equal(fitted.spread, b.spread)


def test_a_fit_has_one_pass_for_rules_and_spread(monkeypatch):
    calls = []
    monkeypatch.setattr(
        expected, "take", lambda X, rows: calls.append(len(X)) or X[rows]
    )  # rows whose scores are computed
    X, y, s = people(300, 0)
    FairRidgeClassifier(**SCORES).fit(X, y, sensitive_features=s)
    assert calls == []
    FairGPClassifier(**SCORES, curvature="likelihood").fit(X, y, sensitive_features=s)
    assert calls == [300]  # the direction that is removed is no combination of those of the rules
