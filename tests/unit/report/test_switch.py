"""Both sides of the switch are one fit, and the code of the page follows it."""

import copy

import numpy as np
import pytest

pytest.importorskip("pandas")

from tests.support.report_data import people

import fairspan
from fairspan.report import explore, switch
from fairspan.report.switch import other_side

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
OPTIONS = {
    "sensitive_features": ["sex"],
    "features": ["income", "debt"],
    "n_points": 3,
    "n_boot": 20,
    "audit_parts": ["scores"],
}


def arrays(n=240):
    table = people(n)
    return table[["income", "debt"]], table["repaid"], table["sex"]


def test_a_report_of_two_classes_has_both_sides():
    table = people(400)
    study = explore(table, target="repaid", **OPTIONS).study
    other = study["other"]
    assert study["about"]["equalize"] == "decisions"
    assert other["about"]["equalize"] == "scores"
    assert "each decision" in study["about"]["criterion_words"]
    assert "mean score" in other["about"]["criterion_words"]
    assert "rates" in study["tradeoff"]["parity_name"]
    assert "correlation" in other["tradeoff"]["parity_name"]
    assert [*study["positions"][0]] == [*other["positions"][0]]  # full positions, of the same parts
    for at, also in zip(study["positions"], other["positions"], strict=True):
        assert "equalize='scores'" not in at["snippet"]
        line = next(line for line in also["snippet"].splitlines() if ".at(" in line)
        assert line.endswith(", equalize='scores')")
        assert at["snippet"] == also["snippet"].replace(", equalize='scores'", "")


@pytest.mark.parametrize(
    "given",
    [
        {"target": "amount"},  # numbers have no decisions
        {"target": "repaid", "equalize": "scores"},  # a fit of a stream keeps no rows
        {"target": "repaid", "model": fairspan.FairRidgeClassifier(removal="training_rows")},
    ],
)
def test_a_report_of_one_side_has_no_switch(given):
    assert explore(people(400), **OPTIONS, **given).study["other"] is None


def test_the_other_side_is_the_same_fit():
    X, y, s = arrays()
    model = fairspan.FairRidgeClassifier(equalize="decisions", random_state=0)
    model.fit(X, y, sensitive_features=s)
    scores = other_side(model)
    alone = fairspan.FairRidgeClassifier(random_state=0).fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(scores.decision_function(X), alone.decision_function(X))
    back = other_side(scores)
    assert back.equalize == "decisions"
    assert list(back.predict(X)) == list(model.predict(X))
    assert list(other_side(alone).predict(X)) == list(model.predict(X))


def test_without_rules_there_is_no_other_side():
    X, y, s = arrays()
    ridge = fairspan.FairRidge(random_state=0).fit(X, X["income"], sensitive_features=s)
    assert other_side(ridge) is None
    model = fairspan.FairRidgeClassifier(random_state=0).fit(X, y, sensitive_features=s)
    assert other_side(copy.deepcopy(model)) is None or model._fit_state.rule_rows is not None
    few = ["f"] * 20 + ["m"] * (len(y) - 20)
    assert (
        other_side(fairspan.FairRidgeClassifier(random_state=0).fit(X, y, sensitive_features=few))
        is None
    )


def test_no_rows_have_no_noise():
    assert np.isnan(switch._noise(None, people(0), None))
