"""Commands run in an empty folder."""

import pytest


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path):
    """`people.csv` in that folder."""
    from tests.support.borrowers import people

    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    return frame


@pytest.fixture
def few_trees(monkeypatch):
    """Boosted trees that are quick to fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    from fairspan.estimators import learner_fit

    def boosting(n, *, classes):
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        return kind(max_iter=2)

    monkeypatch.setattr(learner_fit, "boosting", boosting)
