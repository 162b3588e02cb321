"""The authors' EM: ``inference="em-paper"`` reproduces their noise, variances and posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairspan import FairGPRegressor, FairRepresentation
from fairspan.estimators.gp_regressor import _evidence
from fairspan.method.gp import Evidence, paper_em
from tests.golden.cases import CASES, Case, load_case
from tests.golden.compare import Deviations, misses, note, worst_ratio

# An estimator of numbers has no positive class: there the scores come from the representation.
BY_SCORES = [name for name in CASES if load_case(name).settings["criterion"] == "eop"]
BY_ESTIMATOR = [name for name in CASES if name not in BY_SCORES]


def estimator(case: Case, **changes: Any) -> FairGPRegressor:
    settings = case.settings
    params = {
        "method": "paper",
        "inference": "em-paper",
        "gamma": case.gamma,
        "n_components": "all",
        "n_slices": "distinct",
        "n_sensitive_directions": settings["m"],
        "n_predictive_directions": settings["d"],
        "dial": "cosine",
        "criterion": settings["criterion"],
        "eta": settings["eta"],
        **changes,
    }
    est = FairGPRegressor(**params)
    return est.fit(case.X_train, case.y_train, sensitive_features=case.S_train)


def by_estimator(case: Case, **changes: Any) -> Deviations:
    est = estimator(case, **changes)
    found: Deviations = {}
    for row in case.reference["by_eps"]:
        model = est.at(row["eps"])
        mean, std = model.predict(case.X_test, return_std=True)
        _, cov = model.predict(case.X_test, return_cov=True)
        note(found, "s2", model.noise_, row["s2"], case.atol["s2"])
        note(found, "var_test", std**2, row["var_test"], case.atol["var_test"])
        note(found, "var_test", np.diag(cov), row["var_test"], case.atol["var_test"])
        note(found, "nlp", model.negative_log_posterior_, row["nlp"], case.atol["nlp"])
        note(found, "mean_test", mean, row["mean_test"], case.atol["mean_test"])
    return found


def by_scores(case: Case) -> Deviations:
    """The same d x d algebra on the scores of ``FairRepresentation.paper``."""
    settings = case.settings
    rep = FairRepresentation.paper(
        settings["band"],
        settings["m"],
        settings["d"],
        criterion=settings["criterion"],
        eta=settings["eta"],
    )
    rep.fit(case.X_train, case.y_train, sensitive_features=case.S_train)
    y, n = case.y_train, len(case.y_train)
    centred = y - y.mean()
    found: Deviations = {}
    for row in case.reference["by_eps"]:
        model = rep.at(row["eps"])
        Pi, Pi_test = model.transform(case.X_train), model.transform(case.X_test)
        stats = Evidence(
            gram=Pi.T @ Pi,
            cross=Pi.T @ centred,
            square=float(centred @ centred),
            n=n,
            weight=float(n),
            sum_log_weight=0.0,
        )
        em = paper_em(stats, float(y.mean()), settings["eta"])
        variance = np.einsum("ij,jk,ik->i", Pi_test, em.cov, Pi_test) + em.noise
        note(found, "s2", em.noise, row["s2"], case.atol["s2"])
        note(found, "var_test", variance, row["var_test"], case.atol["var_test"])
        note(found, "nlp", em.nlp, row["nlp"], case.atol["nlp"])
    return found


@pytest.mark.parametrize("name", BY_ESTIMATOR)
def test_authors_numbers_by_the_estimator(name: str) -> None:
    assert misses(by_estimator(load_case(name))) == []


@pytest.mark.parametrize("name", CASES)
def test_authors_numbers_by_the_scores(name: str) -> None:
    assert misses(by_scores(load_case(name))) == []


@pytest.mark.parametrize("name", BY_SCORES)
def test_a_positive_class_is_refused_for_numbers(name: str) -> None:
    with pytest.raises(ValueError, match="needs classes: y is numeric"):
        estimator(load_case(name))


@pytest.mark.parametrize("name", BY_ESTIMATOR)
def test_notices_another_ridge(name: str) -> None:
    case = load_case(name)
    assert worst_ratio(by_estimator(case, eta=case.settings["eta"] * (1 + 1e-4))) > 10


@pytest.mark.parametrize("n_steps", [19, 21])
def test_notices_another_number_of_steps(n_steps: int) -> None:
    """The variance is where the EM was stopped, not where it leads."""
    case = load_case("reg_sp_m1_d2")
    model = estimator(case, fairness=1.0)
    em = paper_em(
        _evidence(model._solution, model._position),
        float(case.y_train.mean()),
        case.settings["eta"],
        n_steps=n_steps,
    )
    drift = np.abs(em.cov - model._posterior.cov).max()
    assert drift > 1e-3 * np.abs(em.cov).max()


def test_the_random_effect_is_nothing_and_the_mean_is_least_squares() -> None:
    case = load_case("reg_sp_m2_d2")
    model = estimator(case, fairness=1.0)
    Pi = model._scores(case.X_train)
    design = np.column_stack([np.ones(len(Pi)), Pi])
    coef = np.linalg.lstsq(design, case.y_train, rcond=None)[0]
    np.testing.assert_allclose(model.predict(case.X_train), design @ coef, atol=1e-9)
