"""Removal on new rows: which directions are removed, ends of the dial, dials, limits, streams, files."""

import json
import pickle
import warnings

import numpy as np
import pytest

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.exceptions import DataWarning, NumericalWarning

FIXED = {"gamma": 0.2, "n_components": 40, "random_state": 0}


def people(n, seed, noise=0.0):
    """Group s shifts x_0 only; y depends on all of x. ``noise`` adds a column that s does not touch."""
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, 3))
    X[:, 0] += s
    return X, X.sum(axis=1) + rng.normal(size=n), s


def correlation(model, X, s):
    score = model.predict(X) if hasattr(model, "predict") else model.transform(X)[:, 0]
    return float(np.corrcoef(score, s)[0, 1])


# ------------------------------------------------------------------ what is removed


def test_an_attribute_that_x_does_not_predict_is_kept_and_named():
    X, y, _ = people(400, 0)
    s = np.random.default_rng(9).choice(["u", "v"], 400)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features={"coin": s})
    (left,) = model.certificate_.new_rows.directions_left()
    assert "coin, u against v: 0 % removed, X does not predict it" in left
    np.testing.assert_allclose(model.predict(X), model.at(0.0).predict(X))
    assert "NOT removed whole" in str(model.certificate_)


def test_a_direction_that_is_left_is_in_the_table_of_a_notebook():
    X, y, s = people(400, 0)
    coin = np.random.default_rng(9).choice(["u", "v"], 400)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features={"sex": s, "coin": coin})
    (left,) = model.certificate_.new_rows.directions_left()
    assert left.startswith("coin, u against v: 0 % removed")
    page = model._repr_html_()
    assert page.count("not removed whole") == 1
    assert "coin, u against v: 0 % removed" in page


def test_two_names_for_one_attribute_do_not_blow_up():
    X, y, s = people(500, 1)
    once = FairRidge(**FIXED).fit(X, y, sensitive_features={"s": s})
    twice = FairRidge(**FIXED).fit(X, y, sensitive_features={"s": s, "t": 1 - s})
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=1e-6)


@pytest.mark.slow
def test_less_dependence_is_left_on_new_rows_than_by_removal_on_the_training_rows():
    fresh, _, group = people(40_000, 99)
    left = {"training_rows": [], "new_rows": []}
    for seed in range(24):
        X, y, s = people(200, seed)
        for removal, found in left.items():
            model = FairRidge(gamma=0.2, random_state=0, removal=removal)
            found.append(correlation(model.fit(X, y, sensitive_features=s), fresh, group))
    means = {removal: np.mean(found) for removal, found in left.items()}
    error = np.std(left["new_rows"], ddof=1) / np.sqrt(24)
    assert means["training_rows"] > 0.1
    assert abs(means["new_rows"]) <= max(0.02, 2.5 * error)


@pytest.mark.parametrize("kind", [FairGPRegressor, FairRepresentation])
def test_other_estimators_have_the_same_score(kind):
    X, y, s = people(300, 2)
    params = {**FIXED, "alpha": 1.0}
    score = FairRidge(**params).fit(X, y, sensitive_features=s).predict(X)
    other = kind(**params).fit(X, y, sensitive_features=s)
    found = other.predict(X) if kind is FairGPRegressor else other._outputs(X)[:, 0]
    np.testing.assert_allclose(found, score, atol=1e-10)


# ------------------------------------------------------------------ dials


def test_dials_are_scales_of_one_line():
    X, y, s = people(300, 3)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    assert model.certificate_.dial == "share"
    ends = [model.at(v).predict(X) for v in (0.0, 1.0)]
    for dial in ("share", "angle", "cosine"):
        values = [model.at(v, dial=dial).fairness_ for v in (0.0, 0.3, 0.7, 1.0)]
        assert values == sorted(values)
        assert values[-1] == pytest.approx(1.0)
        share = values[1]
        expected = (1.0 - share) * ends[0] + share * ends[1]
        np.testing.assert_allclose(model.at(0.3, dial=dial).predict(X), expected, atol=1e-10)
    assert model.at(0.0, dial="angle").fairness_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.2])
def test_a_limit_is_on_the_expected_correlation(limit):
    X, y, s = people(400, 4)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    found = model.at(max_correlation=limit).certificate_.new_rows.correlation
    assert found == pytest.approx(limit, abs=1e-8)


def test_a_limit_with_confidence_is_stricter():
    X, y, s = people(2000, 5)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    plain = model.at(max_correlation=0.2)
    sure = model.at(max_correlation=0.2, confidence=0.95)
    assert sure.fairness_ > plain.fairness_
    assert sure.certificate_.new_rows.high == pytest.approx(0.2, abs=1e-6)
    np.testing.assert_allclose(
        sure.predict(X), model.at(sure.fairness, dial="share").predict(X), atol=1e-12
    )
    with pytest.warns(DataWarning, match="cannot be promised with 95 % confidence"):
        assert model.at(max_correlation=0.001, confidence=0.95).fairness_ == 1.0


def test_a_limit_that_no_dial_value_reaches_warns():
    X, y, _ = people(400, 0)
    s = np.random.default_rng(9).choice(["u", "v"], 400)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.warns(NumericalWarning, match="X predicts too little of"):
        model.at(max_correlation=0.0)


# ------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    "params",
    [
        {"method": "rkhs"},
        {"method": "paper"},
        {"subspace": "fair"},
        {"n_predictive_directions": 1},
    ],
    ids=str,
)
def test_without_a_form_new_rows_is_refused_and_auto_takes_the_training_rows(params):
    X, y, s = people(120, 6)
    with pytest.raises(ValueError, match=next(iter(params))):
        FairRepresentation(removal="new_rows", **params).fit(X, y, sensitive_features=s)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairRepresentation(gamma=0.2, **params).fit(X, y, sensitive_features=s)
    found = model.certificate_.new_rows
    assert found is None or found.removal == "training_rows"
    assert model.certificate_.dial == "angle"


def test_few_rows():
    X, y, s = people(40, 7)
    with pytest.warns(DataWarning, match="10 rows in each of 5 folds"):
        model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    assert model.certificate_.dial == "angle"
    assert model.certificate_.supremum < 1e-9
    with pytest.raises(ValueError, match="10 rows in each of 5 folds"):
        FairRidge(removal="new_rows", **FIXED).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"removal": "both"}, "removal='both'"),
        ({"removal": "training_rows", "dial": "share"}, "dial='share' is for removal='new_rows'"),
    ],
    ids=str,
)
def test_wrong_parameters(params, text):
    X, y, s = people(120, 6)
    with pytest.raises(ValueError, match=text):
        FairRidge(**params).fit(X, y, sensitive_features=s)


def test_confidence_needs_new_rows_and_one_limit():
    X, y, s = people(200, 8)
    old = FairRidge(removal="training_rows", **FIXED).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="removes dependence on the training rows"):
        old.at(max_correlation=0.1, confidence=0.9)
    new = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="one max_correlation"):
        new.at(0.5, confidence=0.9)
    with pytest.raises(ValueError, match="confidence=2"):
        new.at(max_correlation=0.1, confidence=2)


# ------------------------------------------------------------------ streams, workers, files


def test_workers_and_blocks_end_in_one_model():
    X, y, s = people(900, 9)
    start = FairRidge(**FIXED)
    start.prepare(X[:300], y[:300], sensitive_features=s[:300], folds="position")
    whole = pickle.loads(pickle.dumps(start))
    whole.partial_fit(X, y, sensitive_features=s, start=0)
    parts = []
    for rows in (slice(0, 250), slice(250, 700), slice(700, 900)):
        worker = pickle.loads(pickle.dumps(start))
        worker.partial_fit(
            X[rows], y[rows], sensitive_features=s[rows], start=rows.start, solve=False
        )
        parts.append(worker)
    merged = parts[2]
    merged.merge(parts[0], solve=False).merge(parts[1])
    np.testing.assert_allclose(merged.predict(X), whole.predict(X), atol=1e-10)
    expected, found = (m.certificate_.new_rows.blocks[0] for m in (whole, merged))
    assert found.independent_spread
    assert found.high == pytest.approx(expected.high)
    assert "Standard errors are homoscedastic" in str(merged.certificate_)
    assert "Standard errors are homoscedastic" in merged.certificate_._repr_html_()
    in_memory = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    assert "homoscedastic" not in str(in_memory.certificate_)


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier, FairGPRegressor])
def test_saved_models_come_back(kind, tmp_path):
    pytest.importorskip("skops")
    X, y, s = people(300, 10)
    target = y if kind is FairGPRegressor else np.where(y > 0.5, "yes", "no")
    model = kind(**FIXED).fit(X, target, sensitive_features=s)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    for fairness in (0.3, 1.0):
        np.testing.assert_array_equal(loaded.at(fairness).predict(X), model.at(fairness).predict(X))
    assert str(loaded.certificate_) == str(model.certificate_)
    json.dumps(model.certificate_.to_dict(), allow_nan=False)


# ------------------------------------------------------------------ classes


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_classes_have_no_expected_dependence(kind, n_classes):
    X, y, s = people(600, 11)
    target = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = kind(**FIXED).fit(X, target, sensitive_features=s)
    assert model.certificate_.new_rows.correlation < 1e-9
    assert model.at(0.0).certificate_.new_rows.correlation > 0.2
    half = model.at(0.5)
    np.testing.assert_allclose(
        half.decision_function(X),
        (model.decision_function(X) + model.at(0.0).decision_function(X)) / 2.0,
        atol=1e-9,
    )
    fresh, _, group = people(20_000, 12)
    scores = model.decision_function(fresh).reshape(len(fresh), -1)
    worst = max(abs(np.corrcoef(column, group)[0, 1]) for column in scores.T)
    assert worst <= 0.12  # against 0.35 at fairness 0


def test_probabilities_are_calibrated_on_new_rows():
    fresh, target, _ = people(20_000, 14)
    gaps = []
    for seed in range(6):
        X, y, s = people(800, seed)
        model = FairGPClassifier(**FIXED).fit(X, y > 0.5, sensitive_features=s)
        p = model.predict_proba(fresh)[:, 1]
        parts = np.array_split(np.argsort(p), 5)
        gaps.append([p[part].mean() - np.mean(target[part] > 0.5) for part in parts])
    np.testing.assert_allclose(np.mean(gaps, axis=0), 0.0, atol=0.05)


# ------------------------------------------------------------------ intervals


@pytest.mark.parametrize("fairness", [0.0, 1.0])
def test_intervals_of_the_process_cover_new_rows(fairness):
    covered = []
    for seed in range(10):
        X, y, s = people(150, seed)
        model = FairGPRegressor(random_state=0, fairness=fairness)
        fresh, target, _ = people(4000, 1000 + seed)
        mean, std = model.fit(X, y, sensitive_features=s).predict(fresh, return_std=True)
        covered.append(np.mean(np.abs(target - mean) <= 1.645 * std))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_the_noise_reads_the_tails_of_out_of_fold_errors():
    """Errors of t_3 have a 90 % quantile below that of normal errors with the same mean square."""
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(800, 2)), rng.integers(0, 2, 800)
    tails = {}
    for name, noise in (("normal", rng.normal(size=800)), ("t", rng.standard_t(3, size=800))):
        y = X[:, 0] + 2.0 * noise
        model = FairGPRegressor(gamma=0.2, random_state=0).fit(X, y, sensitive_features=s)
        tails[name] = model._solution.new_rows.tail(0.5)
        ten = FairGPRegressor(gamma=0.2, random_state=0).fit(X, 10.0 * y, sensitive_features=s)
        assert ten._solution.new_rows.tail(0.5) == pytest.approx(tails[name], rel=1e-6)
        assert ten.noise_ == pytest.approx(100.0 * model.noise_, rel=1e-6)
    assert tails["normal"] == pytest.approx(1.0, abs=0.06)
    assert tails["t"] < 0.9
