"""Bounds on the page: those of the library, so that the page finds what the library selects."""

import numpy as np
import pytest

pytest.importorskip("pandas")

from tests.support.report_data import people, roles_of

import fairspan
from fairspan import fairness_path
from fairspan.method.promises import keep_limit
from fairspan.report import explore
from fairspan.report.promises import path_of_rows
from fairspan.report.table import held_out_rows

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
OPTIONS = {
    "sensitive_features": ["sex"],
    "features": ["income", "debt"],
    "n_points": 11,
    "n_boot": 20,
    "audit_parts": ["scores"],
}
FEATURES = ["income", "debt"]


def split(table, target):
    held = held_out_rows(table, [target, "sex"], kinds={}, share=0.25, seed=0)
    return table[~held], table[held]


def found(side, fairness, measure, limit):
    """Position that the page finds, as `cheapest` in 09-setting.js: (fairness, kept)."""
    ats = [at["promise"] for at in side["positions"]]
    sign = -1.0 if measure == "ratio" else 1.0
    upper = sign * np.array([at[measure]["bound"] for at in ats])
    errors = np.array([at["error"] for at in ats])
    i, allowed = keep_limit(np.array(fairness), errors, upper, sign * limit)
    return fairness[i], len(allowed) > 0


LIMITS = np.linspace(0.03, 0.6, 30)


def test_the_setting_for_a_correlation_is_the_one_that_select_takes():
    table = people(800)
    noise = np.random.default_rng(1).normal(size=800)
    table["repaid"] = np.where(table["income"] + 2 * table["debt"] + noise > 0, "yes", "no")
    options = {**OPTIONS, "model": "boosting", "equalize": "scores"}
    study = explore(table, target="repaid", **options).study
    train, _ = split(table, "repaid")
    fresh = fairspan.FairClassifier("boosting", random_state=0)
    path = fairness_path(
        fresh, train[FEATURES], train["repaid"], sensitive_features=train[["sex"]], n_points=11
    )
    kept = set()
    for limit in LIMITS:
        chosen = path.select("correlation", at_most=limit).selection_
        assert found(study, study["fairness"], "correlation", limit) == (
            pytest.approx(chosen.fairness, abs=1e-12),  # linspace rounds as its version does
            chosen.met,
        )
        kept.add((chosen.fairness, chosen.met))
    assert len(kept) > 2  # some limits cannot be promised, and others at several positions
    bounds = path.bounds("correlation")
    stored = [at["promise"]["correlation"]["bound"] for at in study["positions"]]
    np.testing.assert_allclose(stored, bounds.upper, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("measure", "name"), [("gap", "max_gap"), ("ratio", "min_ratio")])
def test_the_setting_for_a_limit_on_rates_is_the_one_that_the_model_takes(measure, name):
    options = {**OPTIONS, "n_points": 31}  # the rules that `at` tests
    report = explore(people(800), target="repaid", **options)
    study = report.study
    errors = {at["promise"]["error"] for at in study["positions"]}
    assert len(errors) > 5
    kept = set()
    for limit in LIMITS if measure == "gap" else 1.0 - LIMITS:
        rates = report.model.at(**{name: limit}, confidence=0.95).certificate_.decisions
        fairness, met = found(study, study["fairness"], measure, limit)
        at = study["positions"][study["fairness"].index(fairness)]["promise"]
        assert met == rates.kept
        if met:
            assert at["error"] == pytest.approx(rates.error, abs=1e-6)
            bound = rates.gap_high if measure == "gap" else rates.ratio_low
            assert at[measure]["bound"] == pytest.approx(bound, abs=2e-6)
        kept.add((fairness, met))
    assert len(kept) > 2


def test_a_ratio_has_the_bounds_of_the_certificate():
    report = explore(people(800), target="repaid", **OPTIONS)
    for fairness, at in zip(report.study["fairness"], report.study["positions"], strict=True):
        rates = report.model.at(fairness).certificate_.decisions
        promise = at["promise"]
        assert promise["ratio"]["bound"] == pytest.approx(rates.ratio_low, abs=1e-6)
        assert promise["gap"]["bound"] == pytest.approx(rates.gap_high, abs=1e-6)
        assert promise["error"] == pytest.approx(rates.error, abs=1e-6)
    about = report.study["promise"]
    assert about["smallest"]["n"] == min(rate.n_rows for rate in rates.rates)
    assert about["n"] == 600 == report.study["about"]["n_train"]
    assert about["confidence"] == rates.confidence


def test_numbers_have_correlations_and_the_error_out_of_fold():
    table = people(400)
    model = fairspan.FairRegressor("boosting", random_state=0)
    study = explore(table, target="amount", model=model, **OPTIONS).study
    train, _ = split(table, "amount")
    given = train[FEATURES], train["amount"]
    path = fairness_path(model, *given, sensitive_features=train[["sex"]], n_points=11)
    errors = [at["promise"]["error"] for at in study["positions"]]
    np.testing.assert_allclose(errors, path.error, rtol=1e-5)
    assert study["promise"]["rows"] == "out of fold"
    end = study["positions"][-1]["promise"]["correlation"]
    assert end["value"] == pytest.approx(0, abs=1e-6)  # no dependence is expected at fairness 1
    assert end["bound"] > 0.02


def test_rows_of_a_stream_keep_the_folds_of_its_fit():
    table = people(400).assign(weight=np.resize([1.0, 2.0, 0.0], 400))
    model = fairspan.FairRidgeClassifier(equalize="decisions", random_state=0)
    given = {"target": "repaid", "sensitive_features": ["sex"], "features": FEATURES}
    model.fit_stream([table], **given, sample_weight="weight", encoder="table")
    roles = roles_of(sensitive=("sex",), weight="weight")
    scores = model.at(1.0, equalize="scores")
    path = path_of_rows(scores, table, table, roles, [0.0, 1.0])
    folds = model._fit_state.rule_rows.folds
    for k, part in enumerate(path._predictions):
        np.testing.assert_array_equal(part.rows, np.flatnonzero(folds == k))


def test_a_model_without_folds_is_judged_on_held_out_rows():
    table = people(400)
    model = fairspan.FairRidge(removal="training_rows", random_state=0)
    report = explore(table, target="amount", model=model, **OPTIONS)
    _, held = split(table, "amount")
    path = fairspan.FairnessPath.from_estimator(
        report.model, held[FEATURES], held["amount"], sensitive_features=held[["sex"]], n_points=11
    )
    assert report.study["promise"]["rows"] == "held-out"
    assert report.study["promise"]["n"] == len(held)
    stored = [at["promise"]["correlation"]["bound"] for at in report.study["positions"]]
    np.testing.assert_allclose(stored, path.bounds("correlation").upper, rtol=1e-5, atol=2e-6)


def test_without_rows_nothing_is_promised():
    table = people(100)
    model = fairspan.FairRidge(removal="training_rows", random_state=0)
    model.fit(table[FEATURES], table["amount"], sensitive_features=table[["sex"]])
    roles = roles_of("amount", sensitive=("sex",))
    assert path_of_rows(model, table, table[:0], roles, [0.0, 1.0]) is None
