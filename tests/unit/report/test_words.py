"""Sentences of a report about the certificate and the criterion."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pandas")

from tests.support.report_data import people

import fairspan
from fairspan.method.certificates import (
    BlockCertificate,
    Certificate,
    Direction,
    ExpectedDependence,
    NewRowsCertificate,
)
from fairspan.report import explore
from fairspan.report.words import ReportContext, certificate_words, criterion_words

BLOCK = BlockCertificate(
    cell="all rows",
    attribute="sex",
    coding="levels",
    constrained=True,
    supremum=0.0,
    score=0.0,
    n_rows=100,
    n_removed=1,
    n_codes=1,
)


PROMISE = Certificate(
    criterion="statistical_parity",
    fairness=1.0,
    dial="angle",
    blocks=(BLOCK,),
    cosines=np.ones(1),
    angles=np.zeros(1),
    containment_gap=0.0,
    accuracy_gap=0.0,
    n_functions=1,
)


def words(fairness=1.0, blocks=(BLOCK,), end=None, latent=False, noise=0.2, unmet=(), **changed):
    found = replace(PROMISE, blocks=tuple(blocks), **changed)
    context = ReportContext(
        criterion=found.criterion,
        n_train=100,
        n_test=50,
        noise=noise,
        end=found if end is None else end,
        latent=latent,
        unseen_groups=unmet,
    )
    return " ".join(certificate_words(found, fairness, context))


def expected(correlation, high, *directions):
    block = ExpectedDependence(
        cell="all rows",
        attribute="sex",
        coding="levels",
        constrained=True,
        correlation=correlation,
        signed=correlation,
        standard_error=high / 2.0,
        low=0.0,
        high=high,
        n_effective=100.0,
        directions=directions,
        independent_spread=False,
    )
    return NewRowsCertificate(removal="new_rows", blocks=(block,), confidence=0.95, n_folds=5)


MEASURED = "estimated on the 100 training rows, each by functions that were not fitted on it"


@pytest.mark.parametrize(
    ("fairness", "correlation", "says"),
    [
        (0.0, 0.3, "its score is expected to correlate with sex by 0.300; with 95 %"),
        (0.5, 0.15, "the score is expected to correlate with sex by 0.150; with 95 %"),
        (1.0, 0.0, "Among new people no correlation of the score with sex is expected; with 95 %"),
        (1.0, 0.05, "the score is expected to correlate with sex by 0.050; with 95 %"),
    ],
)
def test_what_is_expected_among_new_people(fairness, correlation, says):
    text = words(fairness, new_rows=expected(correlation, correlation + 0.1))
    assert says in text
    assert f"confidence it is at most {correlation + 0.1:.3f}. This was {MEASURED}." in text
    assert ("Fairness 0 promises nothing" in text) == (fairness == 0.0)
    share = "50 % of the dependence that was expected at fairness 0 is gone."
    assert (share in text) == (fairness == 0.5)
    assert "some dependence remains" not in text
    assert "Not removed whole" not in text


def test_directions_that_are_not_removed_are_named_with_the_reason():
    weak = Direction(name="a against b", correlation=0.1, strength=1.0, weight=0.25, reason="weak")
    whole = replace(weak, name="c against d", weight=1.0, reason="")
    text = words(new_rows=expected(0.1, 0.2, whole, weak), blocks=[replace(BLOCK, n_codes=2)])
    says = "even at fairness 1: sex, a against b: 25 % removed, weak."
    assert f"Not removed whole, {says}" in text
    assert "c against d" not in text
    assert "so zero is not reached" not in text


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_an_estimate_for_removal_on_the_training_rows(fairness):
    found = replace(expected(0.17, 0.29), removal="training_rows")
    text = words(fairness, new_rows=found, end=PROMISE)
    assert (
        "expected to correlate with sex by 0.170; with 95 % confidence it is at most 0.290." in text
    )
    assert "This is an estimate for new people, from models that were refitted without" in text
    assert "of the dependence that was expected at fairness 0 is gone" not in text
    assert ("On the 100 training rows" in text) == (fairness > 0.0)
    assert ("Most of it is systematic" in text) == (fairness > 0.0)
    assert text.index("Among new people") < text.find("On the 100 training rows") or not fairness


def test_why_nothing_is_estimated_is_said():
    assert "was not estimated, because of this." in words(no_estimate="of this")
    assert "was not estimated" not in words()


def test_without_an_estimate_the_promise_is_about_the_training_rows():
    assert "On the 100 training rows the mean score is the same" in words()
    assert "some dependence remains. Most of it is systematic" in words()


def test_nothing_left_to_predict_with_is_said():
    assert "everybody gets the same score" in words(n_functions=0)
    assert "everybody gets the same score" not in words()


def test_groups_without_a_promise_are_named():
    text = words(blocks=[replace(BLOCK, left_out=tuple(f"g{i}" for i in range(8)))])
    assert "too few training rows: sex: g0, sex: g1" in text
    assert "sex: g5 and 2 more." in text
    assert "too few training rows" not in words()


def test_cells_without_a_constraint_are_named():
    free = replace(BLOCK, cell="y = yes", attribute="age", constrained=False)
    assert "Not constrained, for too few rows or no variation: age in y = yes." in words(
        blocks=[BLOCK, free]
    )
    # Another coding of it is constrained there: it is not free.
    assert "Not constrained" not in words(blocks=[BLOCK, replace(BLOCK, constrained=False)])


def test_directions_that_were_left_are_said_where_zero_is_promised():
    part = replace(BLOCK, supremum=0.3, n_codes=3)
    says = "Not all directions of the attributes were removed"
    assert says in words(blocks=[part])
    assert says not in words(fairness=0.5, blocks=[part])
    assert says not in words()


def test_fairness_1_removes_the_rest_only_where_all_directions_go():
    half = replace(BLOCK, supremum=0.3)
    left = replace(PROMISE, blocks=(replace(BLOCK, supremum=0.123, n_codes=3),))
    rest = "fairness 1 removes the rest"
    assert rest in words(0.5, [half], end=PROMISE)
    assert rest not in words(0.5, [half], end=left)
    assert "at fairness 1 the correlation is at most 0.123." in words(0.5, [half], end=left)


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_the_promise_is_about_the_score_before_it_is_a_probability(fairness):
    supremum = 0.0 if fairness == 1.0 else 0.3
    blocks = [replace(BLOCK, supremum=supremum)]
    text = words(fairness, blocks, latent=True)
    assert "raw score" in text.partition(". ")[0] or fairness == 0.0
    assert "its raw score correlates" in text or fairness > 0.0
    assert "Averages of the probabilities, which this page draws, can still differ" in text
    assert "raw score" not in words(fairness, blocks)
    assert "probabilit" not in words(fairness, blocks)


def test_groups_that_were_never_met_have_no_promise():
    says = "Nothing is promised for groups with too few training rows: sex: x."
    assert says in words(unmet=("sex: x",))
    assert "within sampling noise" not in words(noise=float("nan"))


def test_every_criterion_has_its_sentence():
    said = {
        name: criterion_words(name, ["sex", "age"], ["region"], "repaid", "yes")
        for name in (
            "statistical_parity",
            "equalized_odds",
            "equal_opportunity",
            "conditional_statistical_parity",
        )
    }
    assert all("must not depend on sex and age" in " ".join(text.split()) for text in said.values())
    assert "whose true repaid is yes" in said["equal_opportunity"]
    assert "of the same region" in said["conditional_statistical_parity"]
    assert len(set(said.values())) == 4
    latent = criterion_words("statistical_parity", ["sex"], [], "repaid", "yes", latent=True)
    assert latent.endswith("averages of the probabilities can still differ a little.")
    assert "probabilit" not in " ".join(said.values())
    assert json.dumps(said).isascii()


def _words(table, seed=0, control=None, **given):
    model = fairspan.FairRidgeClassifier(gamma=0.3, alpha=1.0, eta=0.1, n_components=20, **given)
    report = explore(
        table, target="repaid", sensitive_features=["sex"], features=["income", "debt"],
        control_features=control, model=model, n_points=2, n_boot=20, audit_parts=["scores"],
        random_state=seed,
    )  # fmt: skip
    return " ".join(report.study["positions"][-1]["certificate"]["words"])


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_nothing_is_promised_for_a_group_without_a_favourable_row():
    """Of equal opportunity only the favourable class counts; others of the group were met."""
    table = people(300)
    table["sex"] = np.where(np.arange(300) < 12, "x", table["sex"])
    table["repaid"] = np.where(table["sex"] == "x", "no", table["repaid"])
    table.loc[0, "repaid"] = "yes"
    out = {
        bool(
            fairspan.report.held_out_rows(table, ["repaid", "sex"], share=0.25, seed=seed)[0]
        ): seed
        for seed in range(60)
    }
    for is_out in (True, False):
        words = _words(table, out[is_out], criterion="equal_opportunity", pos_label="yes")
        assert ("sex: x where repaid is yes" in words) == is_out


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_strata_that_are_slices_of_a_number_have_no_groups_to_name():
    table = people(300).assign(height=np.random.default_rng(1).normal(size=300))
    words = _words(table, control=["height"], criterion="conditional_statistical_parity")
    assert "where height is" not in words
