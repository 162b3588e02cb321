"""An incumbent beside models of fairspan: what is chosen where, rows left out, and input that is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fairspan import FairGPClassifier, FairGPRegressor, FairRidgeClassifier, audit, metrics
from fairspan.auditing import alternatives
from fairspan.auditing.alternatives_result import NO_PROOF
from fairspan.auditing.alternatives_rows import held_out, may_be_fitted
from fairspan.auditing.reading import read_audit
from fairspan.exceptions import DataWarning
from fairspan.inputs.config import read_seed

pd = pytest.importorskip("pandas")

QUICK = {"n_points": 6, "n_boot": 100}


def people(n: int = 1000, seed: int = 0):
    rng = np.random.default_rng(seed)
    s = np.where(rng.random(n) < 0.5, "m", "f")
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["income", "debt", "proxy"])
    X["proxy"] += 2.0 * (s == "m")
    y = np.where(X["income"] - X["debt"] + 0.7 * rng.normal(size=n) > 0, "yes", "no")
    return X, y, pd.DataFrame({"sex": s})


def careless(X):
    """An incumbent that uses the proxy for nothing."""
    score = X["income"] - X["debt"] + X["proxy"] - 1.0
    return np.where(score > 0, "yes", "no")


def search(incumbent, X, y, s, **options):
    return alternatives(
        incumbent, X, y, sensitive_features=s, **QUICK | {"pos_label": "yes"} | options
    )


def test_a_careless_incumbent_has_alternatives_that_are_better_in_both_numbers():
    X, y, s = people(2000)
    found = search(careless(X), X, y, s)
    at_error, at_gap = found.alternatives
    assert at_error.at == "error"
    assert at_error.reached
    assert at_error.gaps[0].change.high < 0.0
    assert at_gap.error_change.high < 0.0
    assert at_error.better
    assert "falls from" in found.sentences[0]
    assert found.sentences[-1] == NO_PROOF
    assert NO_PROOF in repr(found)
    # The printed numbers of the incumbent are those of the metrics on the rows held out.
    assert found.n_train + found.n_test == found.n_rows == 2000
    assert found.n_test == 500


def test_a_good_incumbent_has_none():
    X, y, s = people()
    found = search(np.where(X["income"] > X["debt"], "yes", "no"), X, y, s)
    assert not any(a.better for a in found.alternatives)
    assert "no model was shown" in found.sentences[-2]


def test_nothing_is_chosen_on_the_rows_held_out():
    X, y, s = people()
    incumbent = careless(X)
    first = search(incumbent, X, y, s)
    data = read_audit(
        incumbent,
        X,
        y,
        sensitive_features=s,
        control_features=None,
        sample_weight=None,
        pos_label="yes",
        sensitive_kind="auto",
        intersectional=False,
    )
    test = held_out(data, may_be_fitted(data), 0.25, read_seed(0))
    turned = incumbent.copy()
    turned[test] = np.where(incumbent[test] == "yes", "no", "yes")
    second = search(turned, X, y, s)
    assert second.error.value == pytest.approx(1.0 - first.error.value)  # these are the rows
    for a, b in zip(first.alternatives, second.alternatives, strict=True):
        assert (a.fairness, a.reached, a.error) == (b.fairness, b.reached, b.error)
    for p, q in zip(first.frontier, second.frontier, strict=True):
        assert p == q
    # And the numbers are those of metrics on these rows.
    gap = metrics.demographic_parity_difference(
        y[test], incumbent[test], sensitive_features=s.iloc[test], pos_label="yes"
    )
    assert first.gap.value == pytest.approx(gap)
    assert first.error.value == pytest.approx(np.mean(incumbent[test] != y[test]))
    for a in first.alternatives:
        predicted = first.model.at(a.fairness).predict(X.iloc[test])
        assert a.error.value == pytest.approx(np.mean(predicted != y[test]))
        gap = metrics.demographic_parity_difference(
            y[test], predicted, sensitive_features=s.iloc[test], pos_label="yes"
        )
        assert a.gaps[0].alternative.value == pytest.approx(gap)
        assert a.gaps[0].change.value == pytest.approx(gap - first.gap.value)


def test_scores_are_compared_by_ranking_and_correlation():
    X, y, s = people()
    score = X["income"] - X["debt"] + X["proxy"]
    found = search(score, X, y, s)
    assert (found.compares, found.selected) == ("scores", None)
    assert found.error.value == pytest.approx(1 - roc_auc_score(y == "yes", score), abs=0.05)
    assert all(a.selected is None for a in found.alternatives)
    decided = search(score, X, y, s, threshold=1.0)
    assert decided.compares == "decisions"
    same = search(np.where(score >= 1.0, "yes", "no"), X, y, s)
    assert decided.error == same.error
    assert decided.gap == same.gap


def test_numbers_are_compared_by_their_errors():
    X, _, s = people()
    y = X["income"] - X["debt"] + 0.1 * np.random.default_rng(0).normal(size=len(X))
    options = QUICK | {"sensitive_features": s}
    found = alternatives(X["income"] - X["debt"] + X["proxy"], X, y, **options)
    assert (found.compares, found.error_name) == ("numbers", "RMSE")
    assert isinstance(found.model, FairGPRegressor)
    assert found.alternatives[1].error_change.high < 0.0
    with pytest.raises(ValueError, match="no decisions to compare"):
        alternatives(y, X, y, threshold=0.0, **options)
    with pytest.raises(ValueError, match="the target holds numbers"):
        alternatives(y, X, y, criterion="equalized_odds", **options)


@pytest.mark.parametrize("criterion", ["equalized_odds", "equal_opportunity"])
def test_groups_are_compared_within_classes(criterion):
    X, y, s = people()
    found = search(careless(X), X, y, s, criterion=criterion)
    assert "class" in found.gap_name
    assert found.alternatives[0].gaps[0].change.value < 0.0


def test_rows_of_an_incumbent_of_fairspan_are_left_out_and_counted():
    X, y, s = people()
    model = FairRidgeClassifier(fairness=0.0, random_state=0).fit(
        X[:600], y[:600], sensitive_features=s[:600]
    )
    found = search(model, X, y, s, pos_label="yes")
    assert found.n_fitted == pytest.approx(600, abs=10)  # a few of the others match by chance
    assert found.n_test == (1000 - found.n_fitted) // 2
    assert any("rows match rows that the incumbent was fitted on" in t for t in found.notes)
    with pytest.raises(ValueError, match="rows are left to hold out"):
        search(model, X[:620], y[:620], s[:620])
    new = search(model, X[600:], y[600:], s[600:])
    assert new.n_fitted == 0
    assert "None of these rows was recognised" in new.notes[-1]


def test_a_column_that_is_the_incumbent_is_no_feature():
    X, y, s = people()
    incumbent = careless(X)
    given = X.assign(
        flag=(incumbent == "yes").astype(int), level=np.where(incumbent == "yes", 3, 9)
    )
    found = search(incumbent, given, y, s)
    assert "'flag', 'level'" in found.notes[0]
    assert list(found.model.feature_names_in_) == ["income", "debt", "proxy"]
    array = search(incumbent, given.to_numpy(), y, s)
    assert "column 3" in array.notes[0]
    assert array.error == found.error
    score = X["income"] + X["proxy"]
    found = search(score, X.assign(percent=100 * score), y, s)
    assert "'percent'" in found.notes[0]
    with pytest.raises(ValueError, match="nothing but the incumbent's output"):
        search(score, pd.DataFrame({"again": score}), y, s)


def test_a_column_that_decides_the_incumbent_is_named():
    X, y, s = people()
    decile = pd.qcut(X["income"] + X["proxy"], 10, labels=False)
    incumbent = np.where(decile >= 5, "yes", "no")
    with pytest.warns(DataWarning, match="Each value of 'decile' goes with one decision"):
        found = search(incumbent, X.assign(decile=decile), y, s)
    assert "decile" in found.model.feature_names_in_


def test_an_attribute_whose_gap_grows_is_named_and_is_no_success():
    X, y, s = people(2000)
    rng = np.random.default_rng(1)
    # Few rows tell old and young apart in X, so the incumbent's equal rates are lost by accuracy.
    s["age"] = np.where(X["income"] + rng.normal(size=2000) > 0, "old", "young")
    incumbent = np.where(X["proxy"] - X["debt"] > 1.0, "yes", "no")
    found = search(incumbent, X, y, s)
    at_gap = found.alternatives[1]
    assert [g.attribute for g in at_gap.larger] == ["age"]
    assert not at_gap.better
    assert "the selection-rate gap by age rises" in found.sentences[1]


def test_an_audit_finds_the_same():
    X, y, s = people()
    incumbent = careless(X)
    result = audit(
        incumbent.astype(object),
        X,
        y.astype(object),
        sensitive_features=s,
        pos_label="yes",
        parts=["decisions"],
        n_boot=50,
        random_state=3,
    )
    found = result.alternatives(**QUICK)
    same = search(incumbent, X, y, s)
    assert found.alternatives == same.alternatives
    assert found.frontier == same.frontier
    with pytest.raises(ValueError, match="needs X"):
        audit(
            X["income"], y=y, sensitive_features=s, pos_label="yes", parts=["scores"]
        ).alternatives()
    with pytest.raises(ValueError, match="needs the true labels"):
        audit(X["income"], X, sensitive_features=s, parts=["scores"]).alternatives()


def test_weights_and_clusters():
    X, y, s = people()
    w, clusters = np.ones(1000), np.repeat(np.arange(250), 4)
    w[::2] = 3.0
    found = search(careless(X), X, y, s, sample_weight=w, groups=clusters)
    assert found.n_test % 4 == 0  # whole clusters
    assert found.error.low < found.error.value < found.error.high


def test_results_are_written_in_every_form(tmp_path):
    X, y, s = people()
    found = search(careless(X), X, y, s)
    record = json.loads(found.to_json(tmp_path / "a.json"))
    assert record["sentences"] == list(found.sentences)
    assert record["alternatives"][0]["gaps"][0]["change"]["value"] == pytest.approx(
        found.alternatives[0].gaps[0].change.value
    )
    assert "model" not in record
    text = found.to_markdown(tmp_path / "a.md")
    assert NO_PROOF in text
    assert len(found.table()) == 4
    assert "<table" in found._repr_html_()


def test_the_same_seed_gives_the_same_result():
    X, y, s = people()
    a, b = (search(careless(X), X, y, s, random_state=4) for _ in range(2))
    assert a.to_dict() == b.to_dict()


def test_scores_of_the_other_class_are_warned_of():
    X, y, s = people()
    with pytest.warns(DataWarning, match="smaller for the favourable class 'yes'"):
        search(X["debt"] - X["income"], X, y, s)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"search": "trees"}, "search='trees'"),
        ({"search": FairGPRegressor()}, "does not suit a target of classes"),
        ({"criterion": "conditional_statistical_parity"}, "criterion="),
        ({"compare": "rates"}, "compare='rates'"),
        ({"compare": "scores"}, None),
        ({"test_share": 1.0}, "test_share"),
        ({"n_points": 1}, "n_points"),
        ({"level": 2.0}, "level"),
        ({"threshold": "high"}, "threshold"),
        ({"min_rows": 10_000}, "min_rows=10000"),
        ({"test_share": 0.01}, "rows are left to hold out"),
    ],
)
def test_options_that_are_refused(options, match):
    X, y, s = people(400)
    if match is None:  # decisions are scores of 0 and 1
        assert search(careless(X), X, y, s, **options).compares == "scores"
        return
    with pytest.raises(ValueError, match=match):
        search(careless(X), X, y, s, **options)


def test_input_that_is_refused():
    X, y, s = people(400)
    with pytest.raises(ValueError, match="needs X"):
        search(careless(X), None, y, s)
    with pytest.raises(ValueError, match="missing"):
        search(np.where(X["income"] > 2, None, "yes"), X, y, s)
    with pytest.raises(ValueError, match="NaN"):
        search(X["income"].where(X["income"] < 2), X, y, s)
    with pytest.raises(ValueError, match="same in every row"):
        search(careless(X), X, np.full(400, "yes"), s)
    with pytest.warns(DataWarning, match="labels that y does not have"):
        search(np.where(X["income"] > 0, "yes", "perhaps"), X, y, s)


def test_three_classes_need_the_favourable_one():
    X, _, s = people()
    y = np.digitize(X["income"], [-0.5, 0.5]).astype(str).astype(object)
    incumbent = np.digitize(X["income"] + X["proxy"] - 1, [-0.5, 0.5]).astype(str).astype(object)
    with pytest.raises(ValueError, match="3 classes; name the favourable one"):
        alternatives(incumbent, X, y, sensitive_features=s, **QUICK)
    found = search(incumbent, X, y, s, pos_label="2")
    assert found.alternatives[1].error_change.value < 0.0


def test_an_estimator_of_your_own():
    X, y, s = people()
    model = FairGPClassifier(n_components=20, random_state=1, equalize="scores")
    found = search(careless(X), X, y, s, search=model)
    assert found.model.n_components == 20
    assert not hasattr(model, "classes_")  # a clone was fitted
