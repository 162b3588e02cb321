"""Whole audits: refused arguments, notes, sampled rows, absent packages, and the page."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairspan import FairnessPath, FairRidge, audit
from fairspan.auditing.markdown import _number, _rate, interval_text
from fairspan.exceptions import DataWarning

N = 240


QUICK = {"n_boot": 20, "n_permutations": 19, "random_state": 0}


def rows(seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + 0.7 * s[:, None]
    score = X[:, 0] + 0.3 * rng.normal(size=N)
    y = (score + rng.normal(size=N) > 0.3).astype(int)
    return X, y, s, score


def numbers(found, section):
    """Everything that the findings of a section say, in order."""
    return [
        (one.metric, one.attribute, one.group, one.value, one.low, one.high)
        for one in found.select(section)
    ]


def test_a_path_is_not_one_model():
    X, y, s, _ = rows()
    model = FairRidge(gamma=0.3, alpha=1.0, eta=1e-3, n_components=30, random_state=0)
    model.fit(X, y.astype(float), sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y.astype(float), sensitive_features=s, n_points=3)
    with pytest.raises(ValueError, match=r"audit one of them.*path\.select"):
        audit(path, X, y, sensitive_features=s)


def test_decisions_beside_a_target_of_numbers_are_refused():
    _, y, s, score = rows()
    with pytest.raises(ValueError, match=r"y holds numbers.*the decisions are labels"):
        audit(score, y=score + 0.1, decisions=y, sensitive_features=s, **QUICK)


def test_one_label_alone_needs_the_positive_class_by_name():
    _, _, s, score = rows()
    nobody = np.zeros(N, dtype=int)
    given = {"y": nobody, "decisions": nobody, "sensitive_features": s, "parts": ["decisions"]}
    with pytest.raises(ValueError, match=r"only one label.*pos_label"):
        audit(score, **given, **QUICK)
    found = audit(score, **given, pos_label=1, **QUICK)
    rates = [one.value for one in found.select(metric="selection_rate")]
    assert len(rates) >= 2
    assert set(rates) == {0.0}


def test_what_cannot_be_made_of_nothing_is_named():
    """Labels of the truth alone show nothing about a model."""
    _, y, s, _ = rows()
    with pytest.raises(ValueError, match=r"certificate.*needs a representation"):
        audit(np.where(y == 1, "yes", "no"), sensitive_features=s, parts=["certificate"], **QUICK)


def test_without_its_rows_an_audit_has_no_metric_frame():
    _, y, s, score = rows()
    found = audit(score, y=y, sensitive_features=s, parts=["scores"], **QUICK)
    with pytest.raises(ValueError, match="needs the rows"):
        replace(found, rows=None).metric_frame()


def test_what_fairlearn_is_needed_for_is_said(monkeypatch):
    _, y, s, score = rows()
    found = audit(score, y=y, sensitive_features=s, parts=["scores"], **QUICK)
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    with pytest.raises(ImportError, match=r"metric_frame needs fairlearn: pip install"):
        found.metric_frame()


def test_two_numbers_per_row_are_no_prediction(monkeypatch):
    names = ("MetricFrame", "false_positive_rate", "selection_rate", "true_positive_rate")
    fake = SimpleNamespace(**dict.fromkeys(names))
    monkeypatch.setitem(sys.modules, "fairlearn", fake)
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", fake)
    X, _, s, score = rows()
    found = audit(X[:, :2], y=score, sensitive_features=s, parts=["scores"], **QUICK)
    with pytest.raises(ValueError, match="one prediction per row"):
        found.metric_frame()


def test_a_constant_attribute_is_left_out_and_said():
    _, y, s, score = rows()
    both = {"sex": s, "planet": np.full(N, "earth")}
    with pytest.warns(DataWarning, match="Left out, the same in every row: planet"):
        found = audit(score, y=y, sensitive_features=both, parts=["scores"], **QUICK)
    alone = audit(score, y=y, sensitive_features={"sex": s}, parts=["scores"], **QUICK)
    assert numbers(found, "scores") == numbers(alone, "scores")


def test_two_columns_that_sum_to_one_are_probabilities():
    X, y, s, _ = rows()
    labels = np.where(y == 1, "yes", "no")
    model = LogisticRegression().fit(X, labels)
    p = model.predict_proba(X)
    given = {"y": labels, "sensitive_features": s, "parts": ["scores"], "pos_label": "yes"}
    found, column = audit(p, **given, **QUICK), audit(p[:, 1], **given, **QUICK)
    alike = [one for one in numbers(column, "scores") if one in numbers(found, "scores")]
    assert alike == numbers(column, "scores")


def test_a_representation_that_is_given_is_the_one_attacked():
    X, _, s, score = rows()
    blind = np.random.default_rng(5).normal(size=(N, 2))
    telling = np.column_stack([s + 0.1 * blind[:, 0], blind[:, 1]])
    auc = {}
    for name, Z in (("blind", blind), ("telling", telling)):
        found = audit(
            score,
            X,
            sensitive_features=s,
            representation=Z,
            parts=["attacks"],
            attackers=["linear"],
            **QUICK,
        )
        (one,) = found.select("attacks", metric="linear auc from representation")
        auc[name] = one.value
    assert auc["telling"] > 0.95
    assert auc["blind"] < 0.7


def test_weighted_rows_are_drawn_for_the_tests_and_it_is_said():
    _, y, s, score = rows()
    weight = np.where(np.arange(N) < 30, 20.0, 1.0)
    given = {"sensitive_features": s, "parts": ["tests"], **QUICK}
    equal = audit(score, **given).select("tests")
    drawn = audit(score, sample_weight=weight, **given).select("tests")
    assert not any("drawn by their weights" in one.note for one in equal)
    assert all("drawn by their weights" in one.note for one in drawn)
    assert y.any()


@pytest.mark.filterwarnings("ignore:About 100% of these rows were used for fitting")
def test_a_certificate_within_strata_names_them():
    X, y, s, _ = rows()
    where = np.where(X[:, 2] > 0.3, "north", "south")
    model = FairRidge(
        criterion="conditional_statistical_parity",
        gamma=0.3,
        alpha=1.0,
        eta=1e-3,
        n_components=30,
        random_state=0,
    ).fit(X, y.astype(float), sensitive_features=s, control_features=where)
    found = audit(
        model,
        X,
        y.astype(float),
        sensitive_features=s,
        control_features=where,
        parts=["certificate"],
        **QUICK,
    )
    cells = {one.cell for one in found.bounds}
    assert {any(place in cell for cell in cells) for place in ("north", "south")} == {True}


def test_without_pandas_the_table_is_a_list(monkeypatch):
    _, y, s, score = rows()
    found = audit(score, y=y, sensitive_features=s, parts=["scores"], **QUICK)
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = found.table("scores")
    assert [row["metric"] for row in table] == [one.metric for one in found.select("scores")]


def test_columns_that_are_neither_numbers_nor_text_are_not_attacked_with():
    pd = pytest.importorskip("pandas")
    X, y, s, score = rows()
    frame = pd.DataFrame(X, columns=list("abc"))
    given = {"y": y, "sensitive_features": s, "parts": ["attacks"], "attackers": ["linear"]}
    other = frame.assign(stay=pd.to_timedelta(np.arange(N), unit="D"))
    with pytest.warns(DataWarning, match="Attackers do not see the columns 'stay'"):
        found = audit(score, other, **given, **QUICK)
    without = numbers(audit(score, frame, **given, **QUICK), "attacks")
    assert numbers(found, "attacks") == without
    day = pd.to_datetime(10.0 * s + np.arange(N), unit="D")
    assert numbers(audit(score, frame.assign(day=day), **given, **QUICK), "attacks") != without


@pytest.mark.parametrize("X", [np.ones(N), np.ones((N, 2, 2))])
def test_features_are_a_table(X):
    _, y, s, score = rows()
    with pytest.raises(ValueError, match="X must be a table of features"):
        audit(score, X, y, sensitive_features=s, parts=["attacks"], **QUICK)


def test_text_in_an_array_needs_pandas(monkeypatch):
    _, y, s, score = rows()
    X = np.where(s[:, None] == 1, "a", "b").astype(object)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"holds text.*needs pandas"):
        audit(score, X, y, sensitive_features=s, parts=["attacks"], **QUICK)


def test_numbers_on_a_page():
    _, y, s, score = rows()
    (one, *_) = audit(score, y=y, sensitive_features=s, parts=["scores"], **QUICK).select("scores")
    assert _number(math.nan) == _number(math.inf) == "-"
    assert interval_text(replace(one, value=math.nan, low=math.nan)) == "-"
    assert interval_text(replace(one, value=math.nan, low=0.0, high=1.0)) == "- [0.000, 1.000]"
    assert interval_text(replace(one, value=0.25, low=0.0, high=math.inf)) == "0.250 [0.000, inf]"
    assert interval_text(replace(one, value=0.25, low=math.nan)) == "0.250"
    assert interval_text(replace(one, value=0.25, low=0.0, high=1.0)) == "0.250 [0.000, 1.000]"
    assert _rate(None) == "-"
