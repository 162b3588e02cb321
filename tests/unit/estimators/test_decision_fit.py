"""Classifiers that equalize decisions: rules from cross-fitted predictions."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairRidgeClassifier,
    fairness_path,
    load_model,
    save_model,
)

PARAMS = {"equalize": "decisions", "gamma": 0.1, "n_components": 60, "random_state": 0}


def people(n, seed, share=0.4):
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 4)) + 0.6 * s[:, None] * np.array([1.0, 0.5, 0.0, 0.0])
    y = np.where(X.sum(axis=1) + 0.7 * rng.normal(size=n) > 0.3, "yes", "no")
    return X, y, np.where(s == 1, "b", "a")


def gap(decisions, s, label="yes"):
    return abs(np.mean(decisions[s == "a"] == label) - np.mean(decisions[s == "b"] == label))


@pytest.fixture(scope="module")
def fitted():
    X, y, s = people(1500, 0)
    return FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features={"group": s})


# ------------------------------------------------------------------ the dial


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
def test_rates_on_new_rows_come_together_along_the_dial(kind):
    X, y, s = people(1500, 0)
    fresh, truth, group = people(40_000, 1)
    model = kind(**PARAMS).fit(X, y, sensitive_features=s)
    gaps = [gap(model.at(f).predict(fresh), group) for f in (0.0, 0.5, 1.0)]
    assert gaps[0] > 0.15
    assert gaps[1] < 0.75 * gaps[0]
    assert gaps[2] < 0.05
    errors = [np.mean(model.at(f).predict(fresh) != truth) for f in (0.0, 1.0)]
    assert errors[0] < errors[1] < 0.4


def test_fairness_0_is_the_unconstrained_rule(fitted):
    X, _, _ = people(500, 2)
    free = fitted.at(0.0)
    p = free.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(free.decision_function(X), 2.0 * p[:, 1] - 1.0)
    assert np.array_equal(free.predict(X) == "yes", p[:, 1] > 0.5)
    np.testing.assert_array_equal(fitted.predict_proba(X), p)  # about y alone, at any dial value
    assert np.array_equal(free.at(max_gap=1.0).predict(X), free.predict(X))


def test_decisions_are_the_sign_of_the_margin(fitted):
    X, _, _ = people(500, 3)
    for model in (fitted, fitted.at(0.4), fitted.at(max_gap=0.05)):
        assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0.0)


def test_limits_are_kept_by_the_counted_rates(fitted):
    for limit in (0.02, 0.05, 0.1):
        found = fitted.at(max_gap=limit).certificate_.decisions
        assert found.met
        assert found.gap <= limit
        assert found.gap < found.gap_high
    found = fitted.at(min_ratio=0.9).certificate_.decisions
    assert found.ratio >= 0.9
    errors = [fitted.at(max_gap=x).certificate_.decisions.error for x in (0.02, 0.1, 1.0)]
    assert errors[0] >= errors[1] >= errors[2]


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
def test_errors_and_rates_are_counted_on_rows_that_the_functions_did_not_see():
    """A flexible fit predicts noise well where it saw it, and not better than a coin elsewhere."""
    rng = np.random.default_rng(26)
    X, y, s = rng.normal(size=(600, 4)), rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    model = FairRidgeClassifier(**{**PARAMS, "gamma": 2.0, "n_components": 300})
    model.fit(X, y, sensitive_features=s)
    free = model.at(0.0)
    assert free.certificate_.decisions.error > 0.43
    assert np.mean(free.predict(X) != y) < 0.35


def test_a_limit_with_confidence_has_a_bound_that_keeps_it(fitted):
    model = fitted.at(max_gap=0.1, confidence=0.95)
    found = model.certificate_.decisions
    assert found.kept
    assert found.verdict == "kept"
    assert found.gap_high <= 0.1
    assert found.error >= fitted.at(max_gap=0.1).certificate_.decisions.error
    with pytest.warns(UserWarning, match=r"max_gap=0.001 cannot be promised with 95 % confidence"):
        model = fitted.at(max_gap=0.001, confidence=0.95)
    assert model.certificate_.decisions.verdict == "not kept"


def test_limits_by_attribute():
    X, y, s = people(1500, 4)
    other = np.random.default_rng(5).choice(["u", "v"], 1500)
    X[:, 1] += (other == "u") * 0.8
    model = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features={"group": s, "other": other})
    found = model.at(max_gap={"group": 0.03}).certificate_.decisions
    assert found.met
    rates = {(r.attribute, r.group): r.rate for r in found.rates}
    assert abs(rates["group", "a"] - rates["group", "b"]) <= 0.03
    with pytest.raises(ValueError, match=r"'age'; attributes with rates are \['group', 'other'\]"):
        model.at(max_gap={"age": 0.03})


@pytest.mark.parametrize("criterion", ["equal_opportunity", "equalized_odds"])
def test_rates_within_classes_of_y(criterion):
    X, y, s = people(3000, 6)
    fresh, truth, group = people(40_000, 7)
    # Half of what separates the groups has nothing to do with y.
    X, fresh = (
        np.column_stack([Z[:, 1:], Z[:, 0] + 2.0 * (g == "b")]) for Z, g in ((X, s), (fresh, group))
    )
    model = FairRidgeClassifier(**PARAMS, criterion=criterion, pos_label="yes")
    model.fit(X, y, sensitive_features=s)
    labels = ["yes"] if criterion == "equal_opportunity" else ["no", "yes"]

    def worst(decisions):
        return max(gap(decisions[truth == k], group[truth == k]) for k in labels)

    before, after = (worst(model.at(f).predict(fresh)) for f in (0.0, 1.0))
    assert after < 0.5 * before
    assert {r.cell for r in model.certificate_.decisions.rates} == set(labels)


def test_the_favourable_label_may_be_the_smaller_one():
    X, y, s = people(1500, 8)
    fresh, _, _ = people(2000, 9)
    one = FairRidgeClassifier(**PARAMS, pos_label="yes").fit(X, y, sensitive_features=s)
    names = np.where(y == "yes", "approve", "refuse")
    other = FairRidgeClassifier(**PARAMS, pos_label="approve").fit(X, names, sensitive_features=s)
    same = (one.predict(fresh) == "yes") == (other.predict(fresh) == "approve")
    assert same.mean() > 0.97  # folds depend on the codes of y
    assert {r.decision for r in other.certificate_.decisions.rates} == {"approve"}
    margin = other.decision_function(fresh)
    assert np.array_equal(margin > 0.0, other.predict(fresh) == "refuse")


def test_a_selection_rate_selects_that_share():
    X, y, s = people(2000, 10)
    fresh, _, group = people(40_000, 11)
    model = FairRidgeClassifier(**PARAMS, selection_rate=0.2).fit(X, y, sensitive_features=s)
    for fairness in (0.0, 1.0):
        decided = model.at(fairness).predict(fresh)
        assert abs(np.mean(decided == "yes") - 0.2) < 0.03
    assert gap(model.predict(fresh), group) < 0.04


def test_costs_move_the_threshold():
    X, y, s = people(1500, 12)
    fresh, truth, _ = people(5000, 13)
    costs = [[0.0, 5.0], [1.0, 0.0]]  # a wrong "yes" costs five times a wrong "no"
    plain = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features=s).at(0.0)
    costly = (
        FairRidgeClassifier(**PARAMS, cost_matrix=costs).fit(X, y, sensitive_features=s).at(0.0)
    )

    def cost(model):
        decided = model.predict(fresh)
        return np.mean(
            5.0 * ((truth == "no") & (decided == "yes")) + ((truth == "yes") & (decided == "no"))
        )

    assert cost(costly) < 0.8 * cost(plain)
    p = costly.predict_proba(fresh)[:, 1]
    assert np.array_equal(costly.predict(fresh) == "yes", p > 5.0 / 6.0)


def test_three_classes():
    X, y, s = people(2500, 14)
    score = X.sum(axis=1) + np.random.default_rng(15).normal(size=2500)
    y = np.digitize(score, [-0.5, 1.0])
    fresh, _, group = people(30_000, 16)
    model = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features=s)
    gaps = [max(gap(model.at(f).predict(fresh), group, k) for k in range(3)) for f in (0.0, 1.0)]
    assert gaps[1] < 0.5 * gaps[0]
    assert model.decision_function(fresh[:5]).shape == (5, 3)
    assert model.predict_proba(fresh[:5]).shape == (5, 3)


# ------------------------------------------------------------------ the rule in words


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({}, {"max_gap": 0.05}),
        ({"selection_rate": 0.3}, {"max_gap": 0.05}),
        ({"cost_matrix": [[0.0, 2.0], [1.0, 0.0]]}, {"min_ratio": 0.9}),
        ({"criterion": "equal_opportunity", "pos_label": "yes"}, {"min_ratio": 0.95}),
        ({"pos_label": "no"}, {"max_gap": 0.05}),
    ],
)
def test_the_words_of_a_rule_give_its_decisions(params, limit):
    X, y, s = people(1200, 23)
    model = FairRidgeClassifier(**PARAMS, **params).fit(X, y, sensitive_features=s).at(**limit)
    words, fit = model.decision_rule_, model._fit_state.decisions
    p, codes = fit.predictions(model._decision_scores(X))
    p = dict(zip(model.classes_, p.T, strict=True))
    reject, select = words.classes
    (c00, c01), (c10, c11) = words.costs
    margin = (c10 - c11) * p[select] - (c01 - c00) * p[reject] - words.constants[0]
    margin = margin - codes @ [m.multiplier for m in words.multipliers]
    means = dict(zip(words.classes, (0.0, *model._fit_state.rule.rule.cell_mean), strict=False))
    for label, _, value in words.cell_multipliers:
        margin = margin - value * p[label] / means[label]
    assert np.any(codes @ [m.multiplier for m in words.multipliers])
    assert np.array_equal(model.predict(X) == select, margin > 0.0)
    assert {m.decision for m in words.multipliers} == {select}
    assert str(words).startswith(f"Decide {select} if ")
    json.dumps(words.to_dict(), allow_nan=False)


def test_the_words_count_what_averaging_changes(fitted):
    X, _, s = people(1500, 0)
    model = fitted.at(max_gap=0.05)
    found, fit = model.decision_rule_.difference, model._fit_state.decisions
    averaged = model.predict(X) == "yes"
    out_of_fold = fit.training_margins(model._fit_state.rule)[:, 0] > 0.0
    assert found.changed > 0.0
    assert found.changed == pytest.approx(np.mean(averaged != out_of_fold))
    rates = {f"group={g}": abs(averaged[s == g].mean() - out_of_fold[s == g].mean()) for g in "ab"}
    assert found.rate == pytest.approx(max(rates.values()))
    assert found.rate == pytest.approx(rates[found.group])
    text = str(model.decision_rule_)
    assert "Decide yes if 2 P(y=yes) - 1 > " in text
    assert "excess(group=a)" in text
    assert "% of decisions differ from the out-of-fold ones" in text
    assert model.certificate_.decisions.difference == found
    assert found.in_words in str(model.certificate_)
    assert model.certificate_.to_dict()["decisions"]["difference"]["rate"] == found.rate
    assert str(fitted.at(0.0).decision_rule_).startswith("Decide yes if 2 P(y=yes) - 1 > 0.")


def test_a_rule_of_three_classes_in_words():
    X, _, s = people(1000, 24)
    y = np.digitize(X.sum(axis=1) + np.random.default_rng(25).normal(size=1000), [-0.5, 1.0])
    model = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features={"group": s})
    words = model.decision_rule_
    assert len(words.multipliers) == 3 * 2
    text = str(words).splitlines()
    assert text[0] == "Decide for the class with the largest value of"
    assert [line.split(" - ")[0] for line in text[1:4]] == [f"  {k}: P(y={k})" for k in range(3)]


# ------------------------------------------------------------------ the rest of the library


def test_scores_of_the_same_fit(fitted):
    X, y, s = people(1500, 0)
    other = FairRidgeClassifier(**{**PARAMS, "equalize": "scores"})
    other.fit(X, y, sensitive_features={"group": s})
    scores = fitted.at(equalize="scores")
    np.testing.assert_allclose(scores.decision_function(X), other.decision_function(X))
    assert scores.get_params() == other.get_params()
    assert not hasattr(scores, "predict_proba")


def of_kind(kind, **params):
    if kind is FairClassifier:
        return kind(LogisticRegression(), random_state=0, **params)
    return kind(**{**PARAMS, **params})


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier, FairClassifier])
def test_switching_to_decisions_is_a_fit_for_decisions(kind):
    X, y, s = people(600, 30)
    fresh, _, _ = people(300, 31)
    weight = np.random.default_rng(32).uniform(0.5, 2.0, 600)
    given = {"sensitive_features": {"group": s}, "sample_weight": weight}
    scores = of_kind(kind, equalize="scores", fairness=0.7).fit(X, y, **given)
    decisions = of_kind(kind, equalize="decisions", fairness=0.7).fit(X, y, **given)
    before = scores.decision_function(fresh)
    pairs = [
        (scores.at(equalize="decisions"), decisions),
        (scores.at(0.4, equalize="decisions"), decisions.at(0.4)),
        (scores.at(max_gap=0.05), decisions.at(max_gap=0.05)),
        (decisions.at(equalize="scores").at(min_ratio=0.9), decisions.at(min_ratio=0.9)),
    ]
    for switched, fitted in pairs:
        assert str(switched) == str(fitted)
        for method in ("decision_function", "predict_proba"):
            values = (getattr(model, method)(fresh) for model in (switched, fitted))
            np.testing.assert_allclose(*values, rtol=0.0, atol=1e-12)
        assert str(switched.certificate_) == str(fitted.certificate_)
        assert str(switched.decision_rule_) == str(fitted.decision_rule_)
    for model in (scores, pairs[0][0].at(equalize="scores")):
        np.testing.assert_allclose(model.decision_function(fresh), before, rtol=0.0, atol=1e-12)


def test_rules_are_solved_once_and_only_when_asked_for():
    X, y, s = people(600, 30)
    model = FairRidgeClassifier(**{**PARAMS, "equalize": "scores"}).fit(X, y, sensitive_features=s)
    rows = model._fit_state.rule_rows
    assert rows.solved == []
    rules = [
        model.at(**limit)._fit_state.decisions for limit in ({"max_gap": 0.1}, {"min_ratio": 0.9})
    ]
    assert rules[0] is rules[1] is rows.solved[0]


def test_models_without_rows_cannot_switch_to_decisions(tmp_path):
    pytest.importorskip("skops")
    X, y, s = people(300, 0)
    params = {**PARAMS, "equalize": "scores"}
    model = FairRidgeClassifier(**params).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    assert loaded._solution.new_rows.code_functions is None
    prepared = FairRidgeClassifier(**params).prepare(X, y, sensitive_features=s)
    added = prepared.partial_fit(X, y, sensitive_features=s)
    for other in (loaded, pickle.loads(pickle.dumps(model)), added):
        assert other._fit_state.rule_rows is None
        for switch in ({"equalize": "decisions"}, {"max_gap": 0.1}):
            with pytest.raises(ValueError, match="Fit with equalize='decisions'"):
                other.at(**switch)
    model.partial_fit(X, y, sensitive_features=s)
    assert model._fit_state.rule_rows is None


def test_a_fit_that_has_no_form_for_decisions_says_why():
    X, y, s = people(300, 0)
    for params, words in (
        ({"removal": "training_rows"}, "needs removal on new rows"),
        ({"dependence": "correlation"}, "compares rates"),
    ):
        model = FairRidgeClassifier(**{**PARAMS, "equalize": "scores", **params})
        model.fit(X, y, sensitive_features=s)
        assert model._fit_state.rule_rows is None
        with pytest.raises(ValueError, match=words):
            model.at(equalize="decisions")
    model = FairRidgeClassifier(**{**PARAMS, "equalize": "scores", "dial": "angle"})
    model.fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="share of the gap"):
        model.at(equalize="decisions")
    assert model.at(0.5, dial="share", equalize="decisions").equalize == "decisions"


def test_the_certificate_is_about_rates(fitted):
    text = str(fitted.at(max_gap=0.05).certificate_)
    assert "Decisions, new rows: the rates of groups differ by" in text
    assert "Limit on the gap: 0.05" in text
    assert any(line.startswith("  group=a: yes for") for line in text.splitlines())
    written = json.loads(json.dumps(fitted.certificate_.to_dict(), allow_nan=False))
    assert written["decisions"]["verdict"] == "no limit"  # the dial asks for none
    assert "Limit on the" not in str(fitted.certificate_)


def test_the_path_counts_the_decisions_of_the_rules(fitted):
    X, y, s = people(1500, 0)
    path = fairness_path(clone(fitted), X, y, sensitive_features={"group": s}, n_points=11)
    curve = path.curve("demographic_parity_difference", "group")
    for i in (0, 5, 10):
        found = fitted.at(path.fairness[i]).certificate_.decisions
        assert curve[i] == pytest.approx(found.gap)
        assert path.error[i] == pytest.approx(found.error)
    chosen = path.select("demographic_parity_difference", at_most=0.1)
    assert chosen.selection_.met
    assert chosen.equalize == "decisions"


def test_files_keep_the_rule_but_no_rows(fitted, tmp_path):
    pytest.importorskip("skops")
    X, _, _ = people(300, 20)
    model = fitted.at(max_gap=0.05)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded._fit_state.decisions.problem is None
    assert loaded._fit_state.decisions.scores is None
    assert loaded.decision_rule_.multipliers == model.decision_rule_.multipliers
    assert loaded.decision_rule_.difference == model.decision_rule_.difference is not None
    for fairness in (0.0, 1.0):  # the certificate is that of the new dial value
        assert str(loaded.at(fairness).certificate_) == str(fitted.at(fairness).certificate_)
    assert str(loaded.certificate_) == str(model.certificate_)
    assert np.array_equal(loaded.at(0.0).predict(X), fitted.at(0.0).predict(X))
    assert str(loaded.at(0.0).certificate_) == str(fitted.at(0.0).certificate_)
    assert np.array_equal(loaded.at(1.0).predict(X), fitted.at(1.0).predict(X))
    with pytest.raises(ValueError, match="needs the rows of the fit"):
        loaded.at(max_gap=0.1)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_shuffled_rows_and_renamed_groups_give_the_same_rule(fitted):
    X, y, s = people(1500, 0)
    fresh, _, _ = people(2000, 21)
    order = np.random.default_rng(22).permutation(1500)
    names = np.where(s == "a", "z", "y")
    other = FairRidgeClassifier(**PARAMS)
    other.fit(X[order], y[order], sensitive_features={"group": names[order]})
    for f in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(
            other.at(f).decision_function(fresh), fitted.at(f).decision_function(fresh), atol=1e-6
        )


def test_a_group_of_one_row_does_not_move_the_rule():
    X, y, s = people(1500, 0)
    rare = s.astype(object)
    rare[7] = "c"
    with pytest.warns(UserWarning, match="fewer than"):
        model = FairRidgeClassifier(**PARAMS).fit(X, y, sensitive_features=rare)
    found = model.certificate_.decisions
    assert {r.group for r in found.rates} == {"a", "b"}
    assert "sensitive_feature_0=c" in found.left_out


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"removal": "training_rows"}, "needs removal on new rows"),
        ({"kernel": "precomputed", "gamma": "cv"}, "kernel='precomputed' excludes"),
        ({"criterion": "conditional_statistical_parity"}, "has no form"),
        ({"dependence": "correlation"}, "compares rates of groups"),
        ({"dial": "angle"}, "share of the gap"),
        ({"selection_rate": 1.5}, "selection_rate=1.5 is not allowed"),
        ({"cost_matrix": [1.0, 2.0]}, "square matrix"),
        ({"equalize": "scores", "selection_rate": 0.2}, "is for equalize='decisions'"),
        ({"equalize": "both"}, "'scores' or 'decisions'"),
    ],
)
def test_parameters_that_do_not_go_together(params, words):
    X, y, s = people(200, 0)
    with pytest.raises(ValueError, match=words):
        FairRidgeClassifier(**{**PARAMS, **params}).fit(X, y, sensitive_features=s)


def test_limits_of_rates_need_decisions(fitted):
    with pytest.raises(ValueError, match="at\\(\\) takes one of"):
        fitted.at(0.5, max_gap=0.1)
    with pytest.raises(ValueError, match="max_gap=2 is not allowed"):
        fitted.at(max_gap=2)
    with pytest.raises(ValueError, match="confidence goes with max_gap"):
        fitted.at(0.5, confidence=0.95)
    with pytest.raises(ValueError, match="leave equalize out"):
        fitted.at(max_gap=0.1, equalize="scores")
    with pytest.raises(ValueError, match="'scores' or 'decisions'"):
        fitted.at(equalize="both")


def test_a_selection_rate_survives_the_switch_to_scores_and_back():
    X, y, s = people(600, 0)
    model = FairRidgeClassifier(**PARAMS, selection_rate=0.2).fit(X, y, sensitive_features=s)
    back = model.at(equalize="scores").at(equalize="decisions")
    assert back.selection_rate == 0.2
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_a_limit_on_rates_is_no_dial_value_of_scores():
    X, y, s = people(600, 0)
    model = FairRidgeClassifier(**PARAMS, fairness=0.7).fit(X, y, sensitive_features=s)
    assert model.at(max_gap=0.1).at(equalize="scores").fairness == 0.7
    assert model.at(0.4).at(equalize="scores").fairness == 0.4
