"""Reports on protected attributes whose groups are known as probabilities."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fairspan
from fairspan import FairClassifier, audit
from fairspan.report import explore

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
RACE = ["race_a", "race_b", "race_c"]
MIXED = {"sensitive_features": [*RACE, "sex"], "sensitive_kind": {"race": "probabilities"}}
FAST = {"n_points": 3, "n_boot": 40, "random_state": 3, "audit_parts": ["scores", "decisions"]}
KEYS = ("value", "low", "high")


def frame(n=700, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5, 0.4, 0.3], n)
    code = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    sex = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 3)) + 0.6 * code[:, None] + 0.3 * (sex == "m")[:, None]
    latent = X.sum(axis=1) + rng.normal(size=n)
    table = pd.DataFrame(X, columns=["income", "debt", "tenure"])
    table[RACE] = p
    return table.assign(
        sex=sex,
        known=np.array(["a", "b", "c"])[code],
        weight=rng.uniform(0.5, 1.5, n),
        place=rng.choice(["town", "village"], n),
        repaid=np.where(latent > 1.5, "yes", "no"),
        grade=pd.cut(latent, [-99, 0.5, 3.0, 99], labels=["low", "mid", "top"]).astype(str),
        amount=latent,
    )


def held_out(table, report, target, columns):
    """The held-out rows, as the code on the page finds them."""
    names = {"table": table}
    lines = report.study["positions"][0]["snippet"].replace("table = ...", "pass").split("# Fitted")
    exec(lines[0], names)
    return names["table"], names["held_out"]


def numbers(part):
    return [np.nan if part[key] is None else part[key] for key in KEYS]


CASES = {
    "classes": ("repaid", {}),
    "equalized odds": ("repaid", {"criterion": "equalized_odds"}),
    "weights": ("repaid", {"sample_weight": "weight"}),
    "strata": (
        "repaid",
        {"criterion": "conditional_statistical_parity", "control_features": "place"},
    ),
    "number": ("amount", {}),
    "three classes": ("grade", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_page_has_the_numbers_of_the_audit_at_every_position(case):
    target, more = CASES[case]
    table = frame()
    features = {"features": ["income", "debt", "tenure"]}
    report = explore(table, target=target, **MIXED, **features, **FAST, **more)
    table, out = held_out(table, report, target, more)
    held = table[out]
    given = {
        "sensitive_features": held[MIXED["sensitive_features"]],
        "sensitive_kind": MIXED["sensitive_kind"],
        "control_features": held[["place"]] if "control_features" in more else None,
        "sample_weight": held["weight"] if "sample_weight" in more else None,
        "pos_label": "yes" if target == "repaid" else None,
        "n_boot": FAST["n_boot"],
        "parts": ["scores", "decisions"],
        "random_state": FAST["random_state"],
    }
    assert report.study["other"] is None  # rules need the group of each row
    n_checked = 0
    for at, fairness in zip(report.study["positions"], report.study["fairness"], strict=True):
        model = report.model.at(fairness)
        wanted = audit(model, held[features["features"]], held[target], **given)
        found = {(f.metric, f.attribute, f.group, f.where): f for f in wanted.findings}
        for row in at["parity"]:
            f = found[row["metric"], row["attribute"], "", row["where"]]
            if row["where"] and f.small and row["value"] is None:
                continue  # about the few people of a group in a stratum
            np.testing.assert_allclose(numbers(row), [f.value, f.low, f.high], rtol=1e-5)
            n_checked += row["attribute"] == "race"
        for attribute in ("race", "sex"):
            for row in at["rates"][attribute]:
                for metric, part in row.items():
                    f = found.get((metric, attribute, row["group"], ""))
                    if f is not None:
                        np.testing.assert_allclose(
                            numbers(part), [f.value, f.low, f.high], rtol=1e-5
                        )
                        n_checked += attribute == "race"
    assert n_checked >= 12
    (race,) = [a for a in report.study["attributes"] if a["kind"] == "probabilities"]
    expected = held[RACE].to_numpy().sum(axis=0)
    assert [g["n"] for g in race["groups"]] == np.rint(expected).astype(int).tolist()
    assert 0.0 < race["n_equivalent"] < 0.8 * len(held)
    assert f"as much as {race['n_equivalent']:,.0f} with a known group" in race["words"]
    for at in report.study["positions"]:
        assert set(at["scores"]) == {"sex"}  # race needs the group of each row there
        assert set(at["rates"]) == {"sex", "race"}
        assert {v["attribute"] for v in at["verdicts"]} == {"sex", "race"}
        assert [s["attribute"] for s in at["selected"]] == ["sex", "race"]
        assert not any("confusion" in row for row in at["rates"]["race"])
    json.loads(report.to_json())
    assert "sensitive_kind={'race': 'probabilities'}" in report.study["positions"][0]["snippet"]


def test_probabilities_of_0_and_1_have_the_numbers_of_categories():
    table = frame()
    # Names in the order in which rows of 0 and 1 are sorted, so that the same rows are held out.
    table["race"] = table["known"].map({"a": "z", "b": "y", "c": "x"})
    hot = table.assign(**{f"race_{g}": (table["race"] == g).astype(float) for g in "zyx"})
    options = {"target": "repaid", "features": ["income", "debt", "tenure"], "equalize": "scores"}
    columns = ["race_z", "race_y", "race_x"]
    given = {"sensitive_features": columns, "sensitive_kind": "probabilities"}
    found = explore(hot, **given, **options, **FAST)
    wanted = explore(table, sensitive_features="race", **options, **FAST)
    groups, others = (r.study["attributes"][0]["groups"] for r in (found, wanted))
    assert groups == others[::-1]
    for at, other in zip(found.study["positions"], wanted.study["positions"], strict=True):
        for a, b in zip(at["selected"], other["selected"], strict=True):
            np.testing.assert_allclose(a["value"], b["value"], atol=1e-5)
            assert a["words"] == b["words"]
        for a, b in zip(at["rates"]["race"], other["rates"]["race"][::-1], strict=True):
            assert a["group"] == b["group"]
            np.testing.assert_allclose(a["selection_rate"]["value"], b["selection_rate"]["value"])
            np.testing.assert_allclose(a["accuracy"]["value"], b["accuracy"]["value"])
        bounds = [p["promise"]["correlation"]["bound"] for p in (at, other)]
        np.testing.assert_allclose(*bounds, rtol=1e-5)
    assert found.study["attributes"][0]["words"].endswith("0 or 1: the groups are known.")
    assert found.study["promise"]["attributes"] == ["race"]
    np.testing.assert_allclose(
        found.study["tradeoff"]["noise"], wanted.study["tradeoff"]["noise"], rtol=1e-5
    )


@pytest.mark.parametrize("learner", [False, True])
@pytest.mark.parametrize("kind", ["probabilities", {"race": "probabilities"}])
def test_the_code_on_the_page_trains_the_same_model(kind, learner):
    table = frame(500)
    options = {"features": ["income", "debt", "tenure"]}
    if learner:
        learner = FairClassifier(LogisticRegression(), sensitive_estimator=Ridge(), random_state=0)
        options["model"] = learner
    report = explore(
        table, target="repaid", sensitive_features=RACE, sensitive_kind=kind, **options, **FAST
    )
    names = {"table": table}
    exec(report.study["positions"][1]["snippet"].replace("table = ...", "pass"), names)
    rest = table[names["held_out"]][options["features"]]
    np.testing.assert_array_equal(names["predictions"], report.model.at(0.5).predict(rest))
    assert names["model"].sensitive_kinds_ == {"race": "probabilities"}


def test_rows_without_probabilities_are_fitted_on_and_not_held_out():
    table = frame()
    table.loc[:199, RACE] = np.nan
    options = {"target": "repaid", "features": ["income", "debt"], **MIXED, **FAST}
    report = explore(table, missing_sensitive="omit", **options)
    about = report.study["about"]
    assert about["n_train"] + about["n_test"] == len(table)
    assert about["n_test"] <= 0.25 * 500 + 1
    assert any("race" in text and "375 of 575" in text for text in about["notes"])
    left_out = explore(table, **options).study["about"]
    assert left_out["n_train"] + left_out["n_test"] == 500


def test_known_groups_and_probabilities_add_up_in_one_report():
    table = frame()
    known = table["known"].where(table.index < 300)
    table[RACE] = fairspan.sensitive_probabilities(known, table[RACE])
    options = {"target": "repaid", "features": ["income", "debt", "tenure"], **FAST}
    kinds = {"sensitive_features": RACE, "sensitive_kind": "probabilities"}
    report = explore(table, **options, **kinds)
    (race,) = report.study["attributes"]
    alone = explore(frame(), **options, **kinds)
    assert race["n_equivalent"] > 1.2 * alone.study["attributes"][0]["n_equivalent"]


def test_saved_models_are_compared_by_the_same_groups():
    table = frame(2000)
    options = {"target": "repaid", "features": ["income", "debt", "tenure"], **FAST, **MIXED}
    first = explore(table, **options)
    both = {"off": first.model.at(0.0), "on": first.model}
    study = explore(table, **options, compare=both, fairness=0.0).study
    measures = {(m["measure"], m["attribute"]): m for m in study["comparison"]["measures"]}
    assert set(measures) == {
        ("error", ""),
        *((m, a) for m in ("gap", "correlation") for a in ("sex", "race")),
    }
    at = study["positions"][0]
    one = measures["correlation", "race"]
    np.testing.assert_allclose(one["models"][0]["value"], at["selected"][1]["value"], rtol=1e-5)
    assert one["differences"][1]["value"] < 0.0  # fairness 1 depends less on race
    assert one["differences"][1]["low"] < one["differences"][1]["value"]
    np.testing.assert_allclose(one["differences"][2]["value"], 0.0, atol=1e-9)


def test_receipts_have_a_part_of_each_attribute():
    options = {"target": "amount", "features": ["income", "debt"], **FAST, **MIXED}
    study = explore(frame(400), people=True, **options).study
    assert set(study["people"]["names"]) == {"race", "sex"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"sensitive_kind": {"race": "probabilities"}, "equalize": "decisions"},
            "equalize='scores'",
        ),
        ({"sensitive_kind": {"rase": "probabilities"}}, "stands for the columns rase_"),
        ({"sensitive_kind": ["probabilities"] * 3}, "a list in the order of columns is not clear"),
        ({"sensitive_kind": {"race": "probabilities", "x": "categorical"}}, "does not fit"),
        ({"sensitive_features": ["race_a", "race_b"]}, "do not add up to 1"),
        ({"sensitive_features": ["race_a"]}, "one column of probabilities"),
    ],
)
def test_what_cannot_be_is_refused(changed, says):
    given = {"sensitive_features": RACE, "sensitive_kind": {"race": "probabilities"}} | changed
    with pytest.raises(ValueError, match=says):
        explore(frame(300), target="repaid", **given, **FAST)


def test_each_number_has_what_it_is_worth_and_what_it_rests_on():
    options = {"target": "repaid", "features": ["income", "debt", "tenure"], **FAST, **MIXED}
    report = explore(frame(), **options)
    for at in report.study["positions"]:
        for row in at["parity"]:
            worth = "groups known as probabilities, worth" in row.get("note", "")
            assert worth == (row["attribute"] == "race")
        words = " ".join(at["certificate"]["words"])
        assert "training rows tell as much as" in words
        assert "the probabilities are calibrated" in words
        about_race = [v["words"] for v in at["verdicts"] if v["attribute"] == "race"]
        assert all("of about" in words for words in about_race)
    assert "calibrated" in repr(report)
    assert any("Scores are made equal, not decisions" in n for n in report.study["about"]["notes"])
    columns = {c["name"]: c for c in report.study["columns"]}
    assert columns["race_a"]["kind"] == "probability"
    assert columns["race_a"]["note"] == "the probability of a group of race"
    assert columns["sex"]["kind"] == "yes/no"
    assert "race and sex" in report.study["about"]["criterion_words"]
