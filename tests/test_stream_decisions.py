"""Decision rules after partial_fit and merge: the rows are read again by fit_head."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fairspan import FairGPClassifier, FairRidgeClassifier
from tests.unit.estimators.test_decision_fit import PARAMS, people
from tests.unit.estimators.test_rule_stream import cut, same_decisions, small  # noqa: F401

X, Y, S = people(600, 0)
FRESH = people(300, 1)[0]
KINDS = [FairRidgeClassifier, FairGPClassifier]


def prepared(kind=FairRidgeClassifier, folds="position", rows=(X, Y, S), **params):
    X, y, s = rows
    return kind(**{**PARAMS, **params}).prepare(X, y, sensitive_features=s, folds=folds)


def added(model, blocks, **options):
    for x, y, s in blocks:
        model.partial_fit(x, y, sensitive_features=s, solve=False, **options)
    return model.solve()


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_pass_gives_the_rules_of_a_stream(kind):
    whole = kind(**PARAMS).fit_stream([(X, Y, S)])
    model = added(prepared(kind), cut(X, Y, S, 100, 350)).fit_head(cut(X, Y, S, 200))
    same_decisions(model, whole, FRESH)
    assert str(model.certificate_.decisions) == str(whole.certificate_.decisions)
    for limited in (model, whole):
        assert limited.at(max_gap=0.1).certificate_.decisions.met
    same_decisions(model.at(max_gap=0.1), whole.at(max_gap=0.1), FRESH)
    scores = model.at(equalize="scores")
    same_decisions(scores.at(equalize="decisions"), whole, FRESH)
    np.testing.assert_allclose(
        scores.decision_function(FRESH),
        whole.at(equalize="scores").decision_function(FRESH),
        atol=1e-8,
    )


def test_without_rules_there_is_no_model():
    model = added(prepared(), cut(X, Y, S))
    for call in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError, match=r"rules are not chosen yet.*fit_head"):
            call(FRESH)
    with pytest.raises(NotFittedError, match="rules are not chosen yet"):
        model.at(0.5)
    assert not hasattr(model, "certificate_")
    assert not hasattr(model, "decision_rule_")
    model = pickle.loads(pickle.dumps(model)).fit_head([(X, Y, S)])
    model.predict(FRESH)
    # More rows need the second pass again.
    model.partial_fit(X[:50], Y[:50], sensitive_features=S[:50])
    with pytest.raises(NotFittedError, match="rules are not chosen yet"):
        model.predict(FRESH)
    both = [(X, Y, S), (X[:50], Y[:50], S[:50])]
    model.fit_head(both)
    same_decisions(model, added(prepared(), both).fit_head(both), FRESH)


@pytest.mark.parametrize("folds", ["position", "hash"])
def test_merged_workers_give_the_rules_of_one_machine(folds):
    start = prepared(folds=folds)
    whole = added(copy.deepcopy(start), [(X, Y, S)]).fit_head([(X, Y, S)])
    ends, parts = [0, 250, 400, 600], []
    for a, b in pairwise(ends):
        where = {"start": a} if folds == "position" else {}
        parts.append(added(copy.deepcopy(start), [(X[a:b], Y[a:b], S[a:b])], **where))
    merged = parts[2].merge(parts[0], solve=False).merge(parts[1])
    blocks = cut(X, Y, S, 99)
    if folds == "hash":
        order = np.random.default_rng(0).permutation(600)
        blocks = cut(X[order], Y[order], S[order], 99)
    same_decisions(merged.fit_head(blocks), whole, FRESH)


def test_workers_without_a_common_order_are_refused():
    """Folds begin anew in every worker, so a pass over all rows would judge rows by what they taught."""
    start = prepared(folds="strata")
    parts = [added(copy.deepcopy(start), [block]) for block in cut(X, Y, S, 233)]
    merged = parts[0].merge(parts[1])
    with pytest.raises(ValueError, match=r"not those of the moments.*folds='hash'"):
        merged.fit_head([(X, Y, S)])
    with pytest.raises(NotFittedError, match="rules are not chosen yet"):
        merged.predict(FRESH)


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ([(X[::-1], Y[::-1], S[::-1])], "in another order"),
        ([(X[:-1], Y[:-1], S[:-1])], "599 rows that are not those of the moments"),
        ([(X + 0.01, Y, S)], "not those of the moments"),
        ([], "no rows"),
        (iter([(X, Y, S)]), r"equalize='decisions' reads the blocks more than once.*an iterator"),
        ([(X, Y)], r"A block of fit_head is \(X, y, sensitive_features\)"),
        ([{"X": X, "rows": Y}], "has 'rows'"),
    ],
)
def test_other_rows_are_refused(blocks, says):
    model = added(prepared(), [(X, Y, S)])
    with pytest.raises(ValueError, match=says):
        model.fit_head(blocks)
    assert model._fit_state.decisions is None


def test_calls_in_the_wrong_order_are_refused():
    with pytest.raises(NotFittedError, match="fit_head comes after partial_fit"):
        prepared().fit_head([(X, Y, S)])
    scores = added(prepared(equalize="scores"), [(X, Y, S)])
    with pytest.raises(ValueError, match="fit_head has nothing to do"):
        scores.fit_head([(X, Y, S)])
    model = added(prepared(), [(X, Y, S)])
    model.partial_fit(X[:9], Y[:9], sensitive_features=S[:9], solve=False)
    with pytest.raises(ValueError, match=r"call solve\(\) before fit_head"):
        model.fit_head([(X, Y, S)])


@pytest.mark.usefixtures("small")
def test_many_rows_are_counted_in_a_histogram():
    rows = people(3000, 2)
    model = added(prepared(rows=rows), cut(*rows, 700)).fit_head(cut(*rows, 1100, 2000))
    whole = FairRidgeClassifier(**PARAMS).fit_stream([rows])
    same_decisions(model, whole, FRESH)
    assert "Chosen from histograms of 3,000 rows" in str(model.decision_rule_)


def test_weights_and_rows_without_weight():
    weight = np.arange(600) % 3.0
    blocks = [
        {"X": X[i], "y": Y[i], "sensitive_features": S[i], "sample_weight": weight[i]}
        for i in np.split(np.arange(600), [70, 71, 500])
    ]
    whole = FairRidgeClassifier(**PARAMS).fit_stream(blocks)
    model = FairRidgeClassifier(**PARAMS)
    model.prepare(X, Y, sensitive_features=S, sample_weight=weight, folds="position")
    for block in blocks[::-1]:
        first = int(np.flatnonzero((block["X"][0] == X).all(axis=1))[0])
        model.partial_fit(**block, start=first, solve=False)
    same_decisions(model.solve().fit_head(blocks), whole, FRESH)
