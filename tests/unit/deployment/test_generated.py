"""Generated rows: near what the model knows of its training rows, so that a check on them says something."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

from fairspan import (
    BoostedLeaves,
    ExportError,
    FairClassifier,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
    export,
)
from fairspan.deployment import exporting
from fairspan.deployment.checking import expected, rows_to_check
from fairspan.deployment.models import write_program
from fairspan.exceptions import DataWarning

N = 300


@pytest.fixture(scope="module")
def people():
    """Columns of very different sizes."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    X = np.column_stack(
        [rng.normal(5e4, 1e4, N) + 3e3 * s, rng.integers(18, 90, N), rng.integers(300, 850, N)]
    ).astype(float)
    y = (X[:, 0] / 1e4 + X[:, 2] / 100 + rng.normal(size=N) > 11).astype(int)
    return X, y, s


def fitted(model, people, **more):
    X, y, s = people
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, sensitive_features=s, **more)


FEW = HistGradientBoostingClassifier(max_iter=10, random_state=0)
MODELS = [
    FairClassifier(FEW, random_state=0),
    FairClassifier([FEW, "kernel", "linear"], random_state=0),
    FairClassifier("linear", random_state=0),
    FairClassifier("kernel", random_state=0),
    FairClassifier(LogisticRegression(), random_state=0),
    FairRidge(feature_map=BoostedLeaves(n_trees=4, random_state=0), random_state=0),
    FairRidgeClassifier("linear", random_state=0),
    FairRidgeClassifier(random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model!r}"[:50])
def test_outputs_of_generated_rows_spread_as_those_of_training_rows(model, people):
    model = fitted(model, people)
    rows = rows_to_check(model, write_program(model), None)
    name = "decision_function" if hasattr(model, "classes_") else "variable"
    generated, training = (expected(model, X)[name] for X in (rows, people[0]))
    assert len(np.unique(generated.round(6))) > 20
    assert np.ptp(generated) > 0.1 * np.ptp(training)


def test_wrong_thresholds_are_noticed_without_check(people, tmp_path, monkeypatch):
    model = fitted(FairClassifier(FEW, random_state=0), people)
    write = exporting.write_program

    def wrong(model):
        program = write(model)
        (step,) = (step for step in program.steps if step.operation == "trees")
        nodes = program.constants[step.arguments[3]].copy()
        nodes[nodes[:, 2] != np.arange(len(nodes)), 1] *= 1.2
        program.constants[step.arguments[3]] = nodes
        return program

    assert export(model, tmp_path / "model.npz").rows_checked == 64
    monkeypatch.setattr(exporting, "write_program", wrong)
    with pytest.raises(ExportError, match="was not written"):
        export(model, tmp_path / "wrong.npz")


def test_generated_rows_with_one_output_are_not_reported_as_checked(people, tmp_path):
    X, y, s = people
    stump = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=len(y), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairRegressor(stump, sensitive_estimator=stump, random_state=0)
        model.fit(X, y, sensitive_features=s)
    with pytest.warns(DataWarning, match=r"the generated rows all get the same output.*check="):
        written = export(model, tmp_path / "model.npz")
    assert written.rows_checked == 0
    assert written.largest_difference is None
    assert "Not checked: the generated rows all get the same output." in str(written)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert export(model, tmp_path / "model.npz", check=X[:5]).rows_checked == 5
