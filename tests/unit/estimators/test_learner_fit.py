"""Folds of learners by splitters, and what reaches the learners of each fold."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    TimeSeriesSplit,
)
from tests.support.shifted import table

from fairspan import FairClassifier, FairRegressor

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
LOGISTIC = LogisticRegression()


@pytest.mark.parametrize("cv", [KFold(3), PredefinedSplit(np.arange(500) % 3)])
def test_rows_of_weight_zero_count_for_splitters(cv):
    """The folds of the other rows are those of the splitter on all rows."""
    X, y, s = table()
    weight = np.ones(len(X))
    weight[::7] = 0.0
    model = FairClassifier(LOGISTIC, cv=cv)
    model.fit(X, y, sensitive_features=s, sample_weight=weight)
    expected = np.empty(len(X), dtype=int)
    for k, (_, test) in enumerate(cv.split(X, y)):
        expected[test] = k
    np.testing.assert_array_equal(model._fit_state.folds, expected[weight > 0])


def test_groups_of_a_splitter_stay_together():
    X, y, s = table()
    groups = np.arange(len(X)) // 5
    weight = np.where(np.arange(len(X)) < 50, 0.0, 1.0)
    for cv in (GroupKFold(4), 4):
        model = FairClassifier(LOGISTIC, cv=cv)
        model.fit(X, y, sensitive_features=s, groups=groups, sample_weight=weight)
        for group in np.unique(groups[50:]):
            assert len(np.unique(model._fit_state.folds[groups[50:] == group])) == 1
    whole = FairClassifier(LOGISTIC, cv=LeaveOneGroupOut())
    whole.fit(X, y, sensitive_features=s, groups=groups // 25)
    assert whole._solution.new_rows.n_folds == 4


@pytest.mark.parametrize("cv", [TimeSeriesSplit(3), PredefinedSplit(np.arange(900) % 3)])
def test_splitters_must_test_every_row_once(cv):
    X, y, s = table()
    with pytest.raises(ValueError, match=r"every row into exactly one test fold.*KFold,"):
        FairClassifier(LOGISTIC, cv=cv).fit(X, y, sensitive_features=s)


def test_fairness_within_strata():
    X, y, s = table(3000, classes=0)
    stratum = np.where(X[:, 2] > 0, "a", "b")
    criterion = "conditional_statistical_parity"
    model = FairRegressor(Ridge(), criterion=criterion)
    model.fit(X, y, sensitive_features=s, control_features=stratum)
    Z, _, groups = table(20_000, seed=1, classes=0)
    cells = np.where(Z[:, 2] > 0, "a", "b")
    for cell in "ab":
        rows = cells == cell
        free, fair = (
            abs(np.corrcoef(model.at(t).predict(Z)[rows], groups[rows])[0, 1]) for t in (0, 1)
        )
        assert fair < 0.06 < 0.4 < free
    with pytest.raises(ValueError, match="needs control_features"):
        FairRegressor(Ridge(), criterion=criterion).fit(X, y, sensitive_features=s)


def test_progress_counts_models(capsys):
    X, y, s = table(200)
    FairClassifier([LOGISTIC, "kernel"], verbose=1, cv=3).fit(X, y, sensitive_features=s)
    assert "models of folds: 6 of 6" in capsys.readouterr().err
    FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s)
    assert capsys.readouterr().err == ""
