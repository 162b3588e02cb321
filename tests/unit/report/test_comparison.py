"""Saved models beside a report: the library's numbers on rows that no model was fitted on."""

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import fairspan
from fairspan import audit
from fairspan.report import explore, held_out_rows
from fairspan.report.comparison import SavedModel, read_models

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
FAST = {"n_points": 2, "n_boot": 40, "audit_parts": ["scores"], "random_state": 0}


def people(n=480, seed=0):
    rng = np.random.default_rng(seed)
    sex, region = rng.choice(["f", "m"], n), rng.choice(["east", "west", "south"], n)
    income = rng.normal(size=n) + 0.8 * (sex == "m")
    frame = pd.DataFrame(
        {"income": income, "debt": rng.normal(size=n), "region": region, "sex": sex}
    )
    latent = income - 0.5 * frame["debt"] + rng.normal(size=n)
    frame["repaid"] = np.where(latent > 0.3, "yes", "no")
    frame["amount"] = 10.0 * latent
    frame["age"] = rng.integers(18, 80, n)
    frame["grade"] = np.select([latent < -0.4, latent < 0.8], ["c", "b"], "a")
    return frame


TABLE = people()
FEATURES = ["income", "debt"]
HELD = held_out_rows(TABLE, ["repaid", "sex", "region"])


def fit(rows, features=FEATURES, **options):
    """A model of these rows of the table."""
    frame = TABLE[rows]
    model = fairspan.FairRidgeClassifier(random_state=0, pos_label="yes", **options)
    return model.fit(frame[features], frame["repaid"], sensitive_features=frame[["sex", "region"]])


def report(compare, table=TABLE, **options):
    given = {"target": "repaid", "sensitive_features": ["sex", "region"], "features": FEATURES,
             "model": fairspan.FairRidgeClassifier(pos_label="yes"), **FAST}  # fmt: skip
    return explore(table, **given | options, compare=compare)


@pytest.fixture(scope="module")
def models():
    return {"old": fit(~HELD, fairness=0.0), "new": fit(~HELD, fairness=1.0)}


@pytest.fixture(scope="module")
def found(models):
    made = report(models)
    return made, made.study["comparison"]


def measure(comparison, kind, attribute):
    (one,) = (
        m for m in comparison["measures"] if m["measure"] == kind and m["attribute"] == attribute
    )
    return one


def test_the_numbers_are_those_of_audits_of_the_same_rows(models, found):
    made, comparison = found
    assert comparison["names"] == ["old", "new", "this report, fairness 1"]
    held = TABLE[HELD]
    assert comparison["n_rows"] + comparison["n_left_out"] == len(held)
    assert comparison["n_left_out"] == 0  # hashes of models in memory are whole
    for k, model in enumerate([*models.values(), made.model]):
        of_rows = audit(
            model,
            held[FEATURES],
            held["repaid"],
            sensitive_features=held[["sex", "region"]],
            pos_label="yes",
            parts=["scores", "decisions"],
            intersectional=False,
            n_boot=40,
        )
        numbers = {(f.metric, f.attribute): f for f in of_rows.findings if not f.group}
        right = numbers["accuracy", ""]
        error = measure(comparison, "error", "")["models"][k]
        assert error["value"] == pytest.approx(1.0 - right.value, abs=2e-6)
        assert error["low"] == pytest.approx(1.0 - right.high, abs=0.03)
        for name in ("sex", "region"):
            for kind, metric in (
                ("gap", "demographic_parity_difference"),
                ("correlation", "statistical_parity_correlation"),
            ):
                shown = measure(comparison, kind, name)["models"][k]["value"]
                assert shown == pytest.approx(numbers[metric, name].value, abs=2e-6)


def test_differences_are_from_the_first_model_and_have_intervals(found):
    _, comparison = found
    for one in comparison["measures"]:
        assert one["differences"][0] is None
        first = one["models"][0]["value"]
        for e, difference in zip(one["models"][1:], one["differences"][1:], strict=True):
            assert difference["value"] == pytest.approx(e["value"] - first, abs=2e-6)
            assert difference["low"] <= difference["value"] <= difference["high"]
    gap = measure(comparison, "gap", "sex")
    assert gap["models"][0]["value"] > 0.15  # planted
    assert gap["differences"][1]["value"] < -0.05


def test_rows_that_either_model_was_fitted_on_are_left_out(models):
    some, others = np.flatnonzero(HELD)[:20], np.flatnonzero(HELD)[15:35]
    rows = [~HELD, ~HELD]
    for mask, more in zip(rows, (some, others), strict=True):
        mask[more] = True
    given = {"a": fit(rows[0]), "b": fit(rows[1])}
    comparison = report(given).study["comparison"]
    assert comparison["n_left_out"] == 35
    assert [one["n_left_out"] for one in comparison["models"]] == [20, 20, 0]
    assert "(a 20, b 20)" in comparison["notes"][0]
    kept = TABLE.drop(index=np.flatnonzero(HELD)[:35])[np.delete(HELD, np.flatnonzero(HELD)[:35])]
    wrong = np.mean(given["a"].predict(kept[FEATURES]) != kept["repaid"])
    error = measure(comparison, "error", "")["models"][0]["value"]
    assert error == pytest.approx(wrong, abs=2e-6)


def test_models_fitted_on_all_rows_are_refused():
    with pytest.raises(ValueError, match=r"0 of the 120 held-out rows are left .*\(all 120\)"):
        report({"all": fit(np.ones(len(TABLE), dtype=bool))})


def test_of_a_large_fit_the_rows_of_a_sample_are_compared(monkeypatch):
    from fairspan.method import row_sketch

    monkeypatch.setattr(row_sketch, "SIZE", 256)
    rows = ~HELD
    rows[np.flatnonzero(HELD)[::4]] = True  # a quarter of the held-out rows are not new
    comparison = report({"big": fit(rows)}).study["comparison"]
    assert 30 < comparison["n_rows"] < 60  # half of the other 90 can be looked up
    assert "random sample that can be looked up" in " ".join(comparison["notes"])


def test_a_model_of_unknown_rows_is_compared_with_a_warning():
    train = TABLE[~HELD]
    model = LogisticRegression().fit(train[FEATURES], train["repaid"])
    with pytest.warns(fairspan.FairspanWarning, match="which rows theirs was fitted on"):
        made = report({"theirs": model})
    assert any("theirs" in text for text in made.study["about"]["warnings"])
    comparison = made.study["comparison"]
    assert comparison["models"][0]["fairness"] is None
    shown = measure(comparison, "error", "")["models"][0]["value"]
    held = TABLE[HELD]
    assert shown == pytest.approx(
        np.mean(model.predict(held[FEATURES]) != held["repaid"]), abs=2e-6
    )


def test_models_of_other_columns_read_their_own(models):
    fewer = fit(~HELD, ["income"])
    comparison = report({"old": models["old"], "fewer": fewer}).study["comparison"]
    assert comparison["models"][1]["columns_missing"] == ["debt"]
    assert comparison["models"][1]["columns_added"] == []
    assert comparison["models"][1]["n_features"] == 1


def test_a_model_may_read_its_rows_in_its_own_types(models):
    rows = TABLE.assign(income=TABLE["income"] * 100)[FEATURES]  # of the same people
    scaled = TABLE.assign(income=TABLE["income"] * 100)[~HELD]
    model = fairspan.FairRidgeClassifier(random_state=0).fit(
        scaled[FEATURES], scaled["repaid"], sensitive_features=scaled["sex"]
    )
    given = [SavedModel(name="scaled", model=model, rows=rows)]
    comparison = report(given).study["comparison"]
    held = rows[HELD]
    wrong = np.mean(model.predict(held) != TABLE["repaid"][HELD])
    assert measure(comparison, "error", "")["models"][0]["value"] == pytest.approx(wrong, abs=2e-6)


def test_a_number_to_predict_and_a_number_that_is_protected():
    held = held_out_rows(TABLE, ["amount", "sex", "age"])
    train = TABLE[~held]
    model = fairspan.FairRidge(random_state=0, fairness=0.0).fit(
        train[FEATURES], train["amount"], sensitive_features=train[["sex", "age"]]
    )
    options = {"target": "amount", "sensitive_features": ["sex", "age"]}
    made = report([model], model=fairspan.FairRidge(), **options)
    comparison = made.study["comparison"]
    assert comparison["names"][0] == "model 1"
    kinds = [(m["measure"], m["attribute"]) for m in comparison["measures"]]
    assert kinds == [("error", ""), ("gap", "sex"), ("correlation", "sex"), ("correlation", "age")]
    rmse = np.sqrt(np.mean((model.predict(TABLE[held][FEATURES]) - TABLE["amount"][held]) ** 2))
    shown = measure(comparison, "error", "")
    assert shown["words"] == "RMSE"
    assert shown["models"][0]["value"] == pytest.approx(rmse, rel=1e-5)


@pytest.mark.parametrize("criterion", ["equalized_odds", "conditional_statistical_parity"])
def test_three_classes_and_other_criteria(criterion):
    held = held_out_rows(TABLE, ["grade", "sex"], share=0.7)
    train = TABLE[~held]
    control = train["region"] if criterion.startswith("conditional") else None
    model = fairspan.FairRidgeClassifier(criterion=criterion, fairness=0.0, random_state=0).fit(
        train[FEATURES], train["grade"], sensitive_features=train["sex"], control_features=control
    )
    made = report(
        {"old": model},
        target="grade",
        sensitive_features="sex",
        control_features="region",
        test_share=0.7,
        model=fairspan.FairRidgeClassifier(criterion=criterion),
    )
    comparison = made.study["comparison"]
    (gap,) = (m for m in comparison["measures"] if m["measure"] == "gap")
    own, other = gap["models"][1], gap["models"][0]
    assert gap["differences"][1]["value"] == pytest.approx(own["value"] - other["value"], abs=1e-5)
    audited = audit(
        model,
        TABLE[held][FEATURES],
        TABLE["grade"][held],
        sensitive_features=TABLE["sex"][held],
        control_features=TABLE["region"][held],
        parts=["decisions"],
        n_boot=20,
    )
    inside = criterion.startswith("conditional")
    largest = max(
        f.value
        for f in audited.findings
        if f.metric.startswith(gap["metric"]) and not f.group and bool(f.where) == inside
    )
    assert other["value"] == pytest.approx(largest, abs=1e-5)


def test_labels_of_a_dictionary_are_used():
    from fairspan.tables.dictionary import ColumnWords

    words = {"sex": ColumnWords(label="Gender")}
    comparison = report({"old": fit(~HELD)}, dictionary=words).study["comparison"]
    assert {m["attribute"] for m in comparison["measures"]} == {"", "Gender", "region"}


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("m.skops", TypeError, "give fitted models by name"),
        ({"a": "m.skops"}, TypeError, "compare has str as 'a', which predicts nothing"),
        ({"a": LinearRegression}, TypeError, "which predicts nothing"),
        ([SavedModel(name="a", model=LinearRegression())] * 2, ValueError, "two models named 'a'"),
        ([LinearRegression()] * 7, ValueError, "has 7 models; give at most 6"),
    ],
)
def test_what_is_no_model_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        read_models(given)


def test_models_that_do_not_fit_the_table_are_refused_before_a_fit(monkeypatch, models):
    from fairspan.report import pipeline

    def never(*given, **options):
        raise AssertionError("fitted")

    monkeypatch.setattr(pipeline, "fit_model", never)
    with pytest.raises(ValueError, match="the table does not have 'debt'"):
        report(models, TABLE.drop(columns="debt"), features=["income"])
    with pytest.raises(ValueError, match="predicts classes, and the target 'amount' holds numbers"):
        report(models, target="amount", model=fairspan.FairRidge())
    with pytest.raises(ValueError, match="predicts 'no', which is no value of the target 'grade'"):
        report(models, target="grade", model=fairspan.FairRidgeClassifier())
    with pytest.raises(ValueError, match="it reads 'debt', which is the target"):
        report({"old": fit(~HELD)}, target="debt", model=fairspan.FairRidge(),
               features=["income"])  # fmt: skip
