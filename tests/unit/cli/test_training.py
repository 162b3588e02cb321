"""Command fit: its JSON, refused labels and rows, and the chosen model."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from tests.support.borrowers import people

import fairspan
from fairspan.cli import training

FIT = ("fit", "people.csv", "--target", "repaid", "--protected", "sex", "--model")


@pytest.mark.usefixtures("table")
def test_a_fit_for_machines_is_the_model_that_was_written(call, tmp_path):
    done = call(*FIT, "ridge-classifier", "--drop", "grade", "--json", "-")
    found = json.loads(done.out)
    model = fairspan.load_model(tmp_path / found["model"])
    assert found["estimator"] == type(model).__name__
    assert found["features"] == model.feature_names_in_.tolist() == ["income", "debt"]
    assert found["protected"] == {"sex": "categorical"}
    assert found["rows"] == 240
    assert found["certificate"] == json.loads(json.dumps(model.certificate_.to_dict()))
    assert "Model written" in done.err
    to_file = call(*FIT, "ridge-classifier", "--drop", "grade", "--json", "fit.json")
    assert "Numbers written to fit.json" in to_file.out
    assert json.loads((tmp_path / "fit.json").read_text(encoding="utf-8")) == found


@pytest.mark.parametrize(
    "command",
    [("data", "list"), ("data", "fetch", "loans"), ("reproduce",), ("bench", "frontier")],
)
def test_json_that_has_nowhere_to_go_is_refused_before_the_work(call, command):
    done = call(*command, "--json", "nowhere/a.json")
    assert (done.code, done.out) == (2, "")
    assert "there is no folder nowhere" in done.err


@pytest.mark.usefixtures("table")
def test_more_labels_than_classes_can_be_are_refused(call, tmp_path):
    frame = people().assign(repaid=[f"remark {i}" for i in range(240)])
    frame.to_csv(tmp_path / "people.csv", index=False)
    done = call(*FIT, "auto")
    assert done.code == 2
    assert "The target 'repaid' holds 240 different texts, as 'remark 0': no classes" in done.err


def test_a_row_that_cannot_be_used_is_counted_as_in_the_file(call, tmp_path):
    frame = people().assign(weight=1.0)
    frame.loc[2, "sex"] = None  # left out, which must not shift the count
    frame.loc[6, "weight"] = -1.0
    frame.to_csv(tmp_path / "people.csv", index=False)
    done = call(*FIT, "ridge-classifier", "--weight", "weight", "--drop-missing")
    assert done.code == 2
    assert "people.csv, row 7: sample_weight holds 1 negative values" in " ".join(done.err.split())


def test_numbers_that_are_not_known_are_a_dash():
    curve = {"value": [None, 0.5, 0.25], "low": [None, None, 0.125], "high": [None, 1.0, 0.5]}
    shown = [training._interval(curve, i) for i in range(3)]
    assert shown == ["-", "0.5", "0.25 (0.125 to 0.5)"]


def test_the_chosen_model_is_of_the_kind_that_was_said():
    frame = people().assign(code=np.arange(240) % 5)
    for kind, name in (("continuous", "FairGPRegressor"), ("categorical", "FairGPClassifier")):
        assert type(training.make_estimator("auto", frame, "code", kind)).__name__ == name
