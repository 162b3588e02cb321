"""SHAP's model-agnostic explainers: ``make test-shap`` installs shap."""

import numpy as np
import pytest

from fairspan import FairClassifier, FairRidge, FairRidgeClassifier

shap = pytest.importorskip("shap")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

rng = np.random.default_rng(0)
s = rng.integers(0, 2, 200)
X = rng.normal(size=(200, 4)) + s[:, None] * [1.0, 0.5, 0.0, 0.0]
score = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=200)
y = (score > 0.0).astype(int)
BACKGROUND, ROWS = X[:30], X[30:36]


def models():
    yield FairRidge(gamma=0.2, random_state=0).fit(X, score, sensitive_features=s).predict
    classifier = FairRidgeClassifier(gamma=0.2, random_state=0).fit(X, y, sensitive_features=s)
    yield classifier.decision_function
    learner = FairClassifier("linear", random_state=0).fit(X, y, sensitive_features=s)
    yield lambda rows: learner.predict_proba(rows)[:, 1]


EXPLAINERS = {
    "KernelExplainer": lambda f: shap.KernelExplainer(f, BACKGROUND)(ROWS, silent=True),
    "PermutationExplainer": lambda f: shap.PermutationExplainer(f, BACKGROUND, seed=0)(ROWS),
    "Explainer": lambda f: shap.Explainer(f, shap.maskers.Independent(BACKGROUND), seed=0)(ROWS),
}


@pytest.mark.parametrize("name", EXPLAINERS)
def test_values_add_up_to_the_fair_score(name):
    for model in models():
        found = EXPLAINERS[name](model)
        total = found.base_values + found.values.sum(axis=1)
        np.testing.assert_allclose(total, model(ROWS), atol=1e-6)
        np.testing.assert_allclose(found.base_values, model(BACKGROUND).mean(), atol=1e-6)


def test_values_of_a_linear_model_are_its_weights():
    """They explain the score at the dial value of the model, not the unconstrained one."""
    fitted = FairRidge("linear").fit(X, score, sensitive_features=s)
    for fairness in (0.0, 1.0):
        model = fitted.at(fairness)
        weights = model.predict(np.eye(4)) - model.predict(np.zeros((1, 4)))
        expected = weights * (ROWS - BACKGROUND.mean(axis=0))
        found = EXPLAINERS["Explainer"](model.predict).values
        np.testing.assert_allclose(found, expected, atol=1e-8)
