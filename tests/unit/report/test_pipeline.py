"""A whole report: columns left out, and small tables."""

import hashlib

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from tests.support.report_data import people  # noqa: E402

import fairspan  # noqa: E402
from fairspan.report import dial_points as _dial_points  # noqa: E402
from fairspan.report import explore  # noqa: E402
from fairspan.report import pipeline as _explore  # noqa: E402


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_what_is_left_out_of_a_report_is_said_in_it(monkeypatch):
    monkeypatch.setattr(_dial_points, "MOST_SHOWN", 2)
    table = people().assign(stay=pd.Timedelta(1, "D"))
    report = explore(
        table.drop(columns="amount"),
        target="repaid",
        sensitive_features=["sex"],
        n_points=3,
        n_boot=20,
        audit_parts=["scores"],
    )
    study = report.study
    notes = " ".join(study["about"]["notes"])
    assert (
        "Columns left out, because they are neither numbers, dates nor categories: 'stay'." in notes
    )
    shown = study["importance"]
    assert len(shown["features"]) == 2
    assert "The 2 columns with the largest effects are shown, of 4." in shown["note"]
    effects = [max(abs(f[end]["value"]) for end in ("at_0", "at_1")) for f in shown["features"]]
    assert effects == sorted(effects, reverse=True)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_thin_slice_of_a_number_shows_no_mean_of_a_regression():
    table = people(48)
    report = explore(
        table,
        target="amount",
        sensitive_features=["age"],
        features=["income", "debt"],
        n_points=2,
        model=fairspan.FairRidge(gamma=0.3, alpha=1.0, eta=0.1, n_components=10),
        n_boot=20,
        audit_parts=["scores"],
        sensitive_kind={"age": "continuous"},
    )
    binned = report.study["positions"][0]["continuous"]["age"]["binned"]
    thin = [row for row in binned if row["n"] < 5]
    assert thin
    assert all(row["mean"] is None for row in thin)


OPTIONS = {"target": "repaid", "sensitive_features": ["sex"], "n_points": 2, "n_boot": 20}


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
@pytest.mark.parametrize(
    ("given", "made_equal"),
    [
        ({}, "decisions"),
        ({"equalize": "scores"}, "scores"),
        ({"model": fairspan.FairRidgeClassifier()}, "scores"),
        ({"model": fairspan.FairRidgeClassifier(), "equalize": "auto"}, "decisions"),
        ({"target": "grade"}, "scores"),  # three classes
        (
            {"criterion": "conditional_statistical_parity", "control_features": "region"},
            "scores",
        ),
        ({"target": "amount"}, "scores"),
    ],
)
def test_decisions_are_made_equal_for_two_classes(given, made_equal):
    table = people().assign(
        grade=np.resize(["a", "b", "c"], 240), region=np.resize(["n", "s"], 240)
    )
    report = explore(table, **{**OPTIONS, "audit_parts": ["scores"], **given})
    assert report.study["about"]["equalize"] == made_equal
    for at in report.study["positions"]:
        assert ("equalize='decisions'" in at["snippet"]) == (made_equal == "decisions")


def test_too_few_rows_for_decisions_are_said_and_scores_are_made_equal():
    table, options = people(90), {**OPTIONS, "audit_parts": ["scores"]}
    table["sex"] = ["f"] * 20 + ["m"] * 70
    with pytest.warns(UserWarning, match="Scores are made equal, not decisions"):
        report = explore(table, **options)
    assert report.study["about"]["equalize"] == "scores"
    assert any("Scores are made equal" in text for text in report.study["about"]["warnings"])
    with pytest.raises(fairspan.DecisionRuleError, match="at least 30 rows each"):
        explore(table, **options, equalize="decisions")
    with pytest.raises(ValueError, match="'auto', 'scores' or 'decisions'"):
        explore(table, **options, equalize="both")
    with pytest.raises(ValueError, match="is for classes"):
        explore(table, **{**options, "target": "amount"}, equalize="decisions")


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_report_of_equal_decisions_is_about_decisions():
    options = {"target": "repaid", "sensitive_features": ["sex"], "n_points": 3, "n_boot": 20}
    model = fairspan.FairRidgeClassifier(equalize="decisions")
    report = explore(people(), **options, model=model)
    study, curves = report.study, report.study["tradeoff"]
    assert study["about"]["equalize"] == "decisions"
    assert "the share of people who get each decision must not depend on sex" in str(report)
    assert curves["parity_name"] == "difference of selection rates"
    assert curves["noise"] is None
    for i, at in enumerate(study["positions"]):
        assert curves["parity"]["sex"]["value"][i] == at["headline"]["gap"]["value"]
        assert at["parity"][0]["metric"] == "demographic_parity_difference"
        cells = [row["confusion"] for row in at["rates"]["sex"]]
        wrong = [sum(cell[kind] for cell in cells) for kind in ("fp", "fn")]
        assert at["headline"]["wrong"] == wrong
        errors = at["headline"]["error"]["value"] * study["about"]["n_test"]
        assert sum(wrong) == pytest.approx(errors, rel=1e-4)  # the study has six digits
        words = " ".join(at["certificate"]["words"])
        fitted = report.model.at(study["fairness"][i]).certificate_.decisions
        assert f"by at most {fitted.gap_high:.3f} with 95 % confidence" in words
        assert "correlat" not in words
        assert at["certificate"]["held_out"] == []
        assert at["certificate"]["in_sample_supremum"] is None
        assert "equalize='decisions'" in at["snippet"]
    assert "correlation of the rule's margin" in str(study["positions"][0]["parity"])
    assert "certificate: the model equalizes decisions" in study["audit"]["summary"]
    assert not any("predicts the mean of y" in text for text in study["about"]["warnings"])


# ------------------------------------------------------------------ verdicts and provenance

SMALL = {**OPTIONS, "audit_parts": ["decisions"], "model": fairspan.FairRidgeClassifier()}


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_report_judges_limits_at_every_position(tmp_path):
    table, path = people(), tmp_path / "people.csv"
    table.to_csv(path, index=False)
    given = {"limits": ["ratio=0.8", "gap=0.3", "correlation=0.9"], "date": "2024-05-31"}
    options = {**SMALL, "sensitive_features": ["sex", "job"], "audit_parts": ["scores"]}
    report = explore(table, **options, **given, data_file=path)
    study = report.study
    assert study["limits"] == {"stated": True, "given": given["limits"]}
    assert len(study["reading"]) == 10
    for at in study["positions"]:
        judged = [(v["attribute"], v["limit"]) for v in at["verdicts"]]
        assert judged == [(name, limit) for name in ("sex", "job") for limit in given["limits"]]
        by = {(p["attribute"], p["metric"]): p for p in at["parity"] if not p["where"]}
        for v in at["verdicts"]:
            metric = {
                "ratio": "demographic_parity_ratio",
                "gap": "demographic_parity_difference",
                "correlation": "statistical_parity_correlation",
            }[v["limit"].partition("=")[0]]
            row = by[v["attribute"], metric]
            assert all(v[key] == row[key] for key in ("value", "low", "high"))
    start = study["positions"][study["start"]]["verdicts"]
    assert all(v["words"] in repr(report) for v in start)
    origin = study["provenance"]
    assert (origin["date"], origin["data_file"]) == ("2024-05-31", "people.csv")
    assert origin["options"]["sensitive_features"] == ["sex", "job"]
    again = explore(table, **options, **given, data_file=path)
    assert again.to_json() == report.to_json()


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_the_page_names_the_file_of_the_model(tmp_path):
    pytest.importorskip("skops")
    report = explore(people(), **SMALL)
    path = fairspan.save_model(report.model, tmp_path / "fair.skops")
    named = report.with_model_file(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert named.study["provenance"]["model_file"] == "fair.skops"
    assert named.study["provenance"]["model_digest"] == digest
    assert report.study["provenance"]["model_file"] is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"limits": "gap"}, "is no limit"),
        ({"date": "today"}, "is no date"),
        ({"data_file": "nowhere.csv"}, "is no file"),
        ({"limits": "gap=0.1", "target": "amount", "model": "kernel"}, "is a number"),
        ({"limits": "gap=0.1", "target": "grade"}, "3 classes, and none is named"),
    ],
)
def test_wrong_limits_are_refused_before_the_fit(changed, words, monkeypatch):
    monkeypatch.setattr(_explore, "fit_model", lambda *_, **__: pytest.fail("fitted"))
    table = people().assign(grade=np.resize(["a", "b", "c"], 240))
    with pytest.raises(ValueError, match=words):
        explore(table, **{**SMALL, **changed})
