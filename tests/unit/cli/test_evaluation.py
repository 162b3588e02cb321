"""Commands predict and audit: models that do not fit the table, scores, warnings."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import fairspan
from fairspan.cli import evaluation
from fairspan.cli.common import AuditFiles
from fairspan.exceptions import DataWarning, warn_user


def test_a_model_of_an_array_has_no_columns_to_look_for(call, table, tmp_path):
    model = fairspan.FairRidgeClassifier(random_state=0)
    model.fit(
        table[["income", "debt"]].to_numpy(), table["repaid"], sensitive_features=table["sex"]
    )
    fairspan.save_model(model, tmp_path / "array.skops")
    done = call("predict", "people.csv", "--model", "array.skops")
    assert done.code == 2
    assert "array.skops was fitted on an array" in done.err


def test_a_model_that_only_makes_features_predicts_nothing(call, table, tmp_path):
    model = fairspan.FairRepresentation(random_state=0)
    model.fit(table[["income", "debt"]], table["repaid"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "features.skops")
    done = call("predict", "people.csv", "--model", "features.skops")
    assert done.code == 2
    assert "FairRepresentation, which makes features and predicts nothing" in done.err


@pytest.mark.parametrize("target", ["repaid", "grade"])
def test_scores_of_classes_are_the_models_own(call, table, target, tmp_path):
    model = fairspan.FairRidgeClassifier(random_state=0)
    X = table[["income", "debt"]]
    model.fit(X, table[target], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops")
    found = json.loads(call("predict", "people.csv", "--model", "m.skops", "--json", "-").out)
    assert found["row"] == list(range(1, 241))
    assert found["prediction"] == model.predict(X).tolist()
    scores = model.decision_function(X)
    names = [f"score of {label}" for label in model.classes_]
    if scores.ndim == 1:
        scores, names = scores[:, None], names[-1:]
    assert list(found) == ["row", "prediction", *names]
    np.testing.assert_allclose(np.transpose([found[n] for n in names]), scores, rtol=1e-9)


@pytest.mark.parametrize("target", ["repaid", "grade"])
def test_receipts_are_columns_of_the_predictions(call, table, target, tmp_path):
    model = fairspan.FairRidgeClassifier(random_state=0)
    X = table[["income", "debt"]]
    model.fit(X, table[target], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops", keep_moments=False)
    done = call("predict", "people.csv", "--model", "m.skops", "--receipts", "--out", "p.csv")
    assert "not the reason for a decision" in done.err
    found = pytest.importorskip("pandas").read_csv(tmp_path / "p.csv")
    receipt = model.explain_fairness(X)
    expected = receipt.to_dict()
    assert list(found)[-len(expected) :] == list(expected)
    assert ("part_sex" in found) == (target == "repaid")
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12)
    plain = call("predict", "people.csv", "--model", "m.skops", "--out", "-")
    assert "part_sex" not in plain.out


def test_a_model_without_receipts_is_an_error_of_the_option(call, table, tmp_path):
    model = fairspan.FairRidge(random_state=0, method="rkhs", alpha=1.0, eta=0.01)
    X = table[["income", "debt"]]
    model.fit(X, table["income"], sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops")
    done = call("predict", "people.csv", "--model", "m.skops", "--receipts")
    assert done.code == 2
    assert "Error: --receipts: m.skops has none." in done.err


def test_another_fairness_is_that_of_the_path(call, table, tmp_path, monkeypatch):
    model = fairspan.FairRidge(random_state=0)
    X = table[["debt"]].assign(income=table["income"])
    noise = np.random.default_rng(1).normal(size=len(X))
    model.fit(X, table["income"] + noise, sensitive_features=table["sex"])
    fairspan.save_model(model, tmp_path / "m.skops")
    at = type(model).at

    def warned(self, fairness):
        warn_user(f"at {fairness}", DataWarning)
        return at(self, fairness)

    monkeypatch.setattr(type(model), "at", warned)
    done = call("predict", "people.csv", "--model", "m.skops", "--fairness", "0.25", "--json", "-")
    assert "Warning: at 0.25" in done.err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        expected = model.at(0.25).predict(X)
    np.testing.assert_allclose(json.loads(done.out)["prediction"], expected, rtol=1e-9)
    assert np.abs(expected - model.predict(X)).max() > 1e-3


def test_what_an_audit_warns_of_is_said_unless_it_is_written(monkeypatch, capsys):
    def audit(*_, **__):
        warn_user("known", DataWarning)
        warn_user("new", DataWarning)
        return SimpleNamespace(warnings=("known",), to_json=str, to_markdown=str)

    monkeypatch.setattr("fairspan.auditing.audit", audit)
    evaluation.write_audit(AuditFiles(None, None, None), None)
    err = capsys.readouterr().err
    assert "Warning: new" in err
    assert "known" not in err


def test_limits_for_any_classifier_are_those_of_the_audit(call, table, tmp_path):
    scored = table.assign(score=np.linspace(0.0, 1.0, len(table)))
    scored.to_csv(tmp_path / "scored.csv", index=False)
    audit = ("audit", "scored.csv", "--scores", "score", "--protected", "sex", "--no-features")
    audit = (*audit, "--parts", "scores")
    done = call(*audit, "--any-classifier", "3", "--json", "a.json")
    assert done.code == 0, done.err
    found = fairspan.audit(
        scored["score"].to_numpy(), sensitive_features=scored[["sex"]], parts=["scores"]
    ).any_classifier(3)
    assert f"\n\n{found}\n" in done.out
    written = json.loads((tmp_path / "a.json").read_text())["settings"]["any_classifier"]
    assert written == found.to_dict()
    assert str(found) in call(*audit, "--any-classifier", "3", "--markdown", "-").err
    assert "any_classifier" not in call(*audit, "--json", "-").out


def test_cells_that_cannot_be_are_refused_in_the_words_of_commands(call, table, tmp_path):
    scored = table.assign(score=np.linspace(0.0, 1.0, len(table)))
    scored.to_csv(tmp_path / "scored.csv", index=False)
    audit = ("audit", "scored.csv", "--scores", "score", "--protected", "sex", "--no-features")
    audit = (*audit, "--parts", "scores")
    done = call(*audit, "--any-classifier", "1")
    assert done.code == 2
    assert "--any-classifier 1 is not allowed; give 2 or more cells" in done.err
    # What the rows do not allow is said after the audit, which is written all the same.
    done = call(*audit, "--any-classifier", "40", "--json", "a.json")
    assert done.code == 2
    assert "--any-classifier 40: k=40 cells need at least 1,000 rows" in done.err
    assert "Use fewer cells." in done.err
    assert "statistical parity correlation" in done.out
    assert (tmp_path / "a.json").exists()
