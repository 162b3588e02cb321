"""What a user should know and would not see: one warning each, by name, at the user's own line."""

import warnings

import numpy as np
import pytest

from fairspan import DataWarning, FairRepresentation, FairspanWarning, NumericalWarning
from tests.support.small import FIXED, fitted, table

X, y, s = table()
N = len(X)


def heard(call):
    """Messages of the warnings that a call raises; all are ours and point here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(w.category, FairspanWarning) for w in caught)
    assert all(w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


def fit_messages(X=X, y=y, s=s, control_features=None, **params):
    est = FairRepresentation(**{**FIXED, **params})
    return heard(lambda: est.fit(X, y, sensitive_features=s, control_features=control_features))


def test_an_ordinary_fit_is_silent():
    assert fit_messages() == []
    assert heard(fitted().at(0.3).at(1.0).solve) == []


@pytest.mark.parametrize("group", [s, s * 7.0 - 3.0, np.where(s, "b", "a"), s.astype(bool)])
def test_s_among_the_columns(group):
    (message,) = fit_messages(np.c_[X, -2.0 * s], s=group)
    assert "X holds the protected attribute 'sensitive_feature_0'" in message
    assert "column 3." in message
    assert "S-blind" in message


def test_a_continuous_s_among_the_columns():
    (message,) = fit_messages(s=X[:, 1])
    assert "column 1." in message


def test_scales_far_apart_are_said_once_and_only_where_they_matter():
    wide = X * [1.0, 1.0, 1e4]
    (message,) = fit_messages(wide, removal="training_rows")
    assert "standard deviations" in message
    assert "StandardScaler" in message
    assert fit_messages(X * [1.0, 1.0, 50.0]) == []
    assert fit_messages(wide, kernel="cosine", gamma="cv") == []


def test_scales_are_not_said_again_for_every_block():
    wide = X * [1.0, 1.0, 1e4]
    est = FairRepresentation(**FIXED, removal="training_rows")
    assert len(heard(lambda: est.prepare(wide, y, sensitive_features=s))) == 1
    assert heard(lambda: est.partial_fit(wide, y, sensitive_features=s)) == []


def test_many_groups():
    X, y, _ = table(400)
    group = np.array([f"county {i % 25}" for i in range(400)])
    (message,) = fit_messages(X, y, group)
    assert "'sensitive_feature_0' has 25 groups" in message
    assert "sensitive_kind={'sensitive_feature_0': 'continuous'}" in message


def test_a_group_of_fewer_than_five_rows():
    group = np.where(np.arange(N) < 3, "few", np.where(s, "a", "b"))
    messages = fit_messages(s=group)
    assert any("'sensitive_feature_0'" in m and "'few' (3 rows)" in m for m in messages)
    assert all("left out" in m for m in messages)


def test_crossed_groups_of_fewer_than_five_rows():
    both = {"sex": s, "region": np.where(np.arange(N) < 20, "north", "south")}
    north, south = (np.flatnonzero((s == 1) & (both["region"] == r)) for r in ("north", "south"))
    keep = np.setdiff1d(np.arange(N), north[3:])
    rows = {name: column[keep] for name, column in both.items()}
    assert len(south) > 5
    (message,) = fit_messages(X[keep], y[keep], rows, intersectional=True)
    assert "'sex x region' has groups of fewer than 5 rows, which are left out" in message
    assert "'1 & north' (3 rows)" in message


def test_the_paper_keeps_small_groups_and_does_not_warn_of_them():
    both = {"sex": s, "region": np.where(np.arange(N) < 3, "north", "south")}
    est = FairRepresentation(gamma=0.5, eta=1e-3, method="paper", intersectional=True)
    assert heard(lambda: est.fit(X, y, sensitive_features=both)) == []
    (report,) = est.blocks_
    assert report.left_out == ()
    assert report.n_rows == N
    assert report.rank == len(set(zip(both["sex"], both["region"], strict=True))) - 1


def test_the_paper_names_its_own_smallest_level():
    one_sex = np.where(y == 1, 0, s)  # all rows of class 1 have the same sex
    est = FairRepresentation(gamma=0.5, eta=1e-3, method="paper", criterion="eo")
    (message,) = heard(lambda: est.fit(X, y, sensitive_features={"sex": one_sex}))
    assert (
        "'sex' is not constrained in 1 of 2 cells, which do not hold two levels of 1 row,"
        in message
    )


def test_an_unprepared_partial_fit_says_that_it_prepares():
    est = FairRepresentation(**FIXED)
    (message,) = heard(lambda: est.partial_fit(X, y, sensitive_features=s))
    assert "prepares on its first block" in message
    assert f"these {N} rows" in message
    assert "`prepare`" in message
    assert heard(lambda: est.partial_fit(X, y, sensitive_features=s)) == []


def test_a_skipped_block_names_cell_and_attribute():
    target = (np.arange(N) >= N - 8).astype(int)
    group = {"sex": np.where(target, np.arange(N) >= N - 2, s)}
    (message,) = fit_messages(y=target, s=group, criterion="eo")
    assert "'sex' is not constrained in 1 of 2 cells" in message
    assert message.endswith("y=1.")


def test_a_level_left_out_of_a_cell_is_named_with_it():
    target = (np.arange(N) >= N - 14).astype(int)
    group = np.where(target, np.arange(N) // 6, np.arange(N) % 3)
    group = {"race": np.array(["a", "b", "c"])[np.where(target, np.clip(group - 11, 0, 2), group)]}
    assert [(group["race"][target == 1] == level).sum() for level in "abc"] == [6, 6, 2]
    (message,) = fit_messages(y=target, s=group, criterion="eo")
    assert "'race'" in message
    assert message.endswith("'c' in y=1.")


@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_too_many_sensitive_directions_are_capped_and_said_once(subspace):
    est = FairRepresentation(n_sensitive_directions=3, subspace=subspace, **FIXED)
    (message,) = heard(lambda: est.fit(X, y, sensitive_features={"sex": s}))
    assert "n_sensitive_directions=3 is capped at 1 for 'sex' in 1 cells" in message
    assert est.n_directions_ == {"all rows": {"sex": 1}}
    assert heard(lambda: est.at(0.5)) == []


def test_nothing_left_of_the_fair_subspace():
    est = FairRepresentation("linear", eta=1e-3, alpha=1.0, removal="training_rows")
    with pytest.warns(NumericalWarning) as caught:
        est.fit(X[:, :1], y, sensitive_features=s)
    assert any("nothing is left of the fair subspace" in str(w.message) for w in caught)
    assert est.transform(X[:, :1]).shape == (N, 0)


def test_a_correlation_that_cannot_be_reached():
    age = X[:, 0] + X[:, 1] ** 2
    est = FairRepresentation(
        n_sensitive_directions=1, dial="correlation", removal="training_rows", **FIXED
    )
    with pytest.warns(NumericalWarning, match="A correlation of 0 cannot be reached"):
        est.fit(X, y, sensitive_features=age)
    with pytest.warns(NumericalWarning, match="n_sensitive_directions='all' reaches 0"):
        est.at(max_correlation=0.0)


def test_a_correlation_that_is_not_expected_at_any_dial_value():
    age = X[:, 0] + X[:, 1] ** 2
    est = FairRepresentation(n_sensitive_directions=1, dial="correlation", **FIXED)
    with pytest.warns(NumericalWarning, match=r"A correlation of 0 is not expected .* X predicts"):
        est.fit(X, y, sensitive_features=age)
    with pytest.warns(NumericalWarning, match="at fairness 1 the estimate is"):
        est.at(max_correlation=0.0)


def test_one_filter_reaches_them_all():
    assert issubclass(DataWarning, FairspanWarning)
    assert issubclass(NumericalWarning, FairspanWarning)
    assert issubclass(FairspanWarning, UserWarning)


def test_the_indicator_of_a_level_among_the_columns():
    race = np.array(["a", "b", "c"])[np.arange(N) % 3]
    (message,) = fit_messages(np.c_[X, race == "b"], s={"race": race})
    assert "X holds the protected attribute 'race'" in message
    assert "column 3." in message
