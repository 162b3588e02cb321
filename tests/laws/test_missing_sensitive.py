"""S known for some rows: everything about S counts the rows that have it, the rest uses all rows."""

import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fairspan import FairClassifier, FairnessPath, FairRidge, FairRidgeClassifier
from fairspan.exceptions import DataWarning
from fairspan.metrics import demographic_parity_difference
from tests.support.out_of_fold import out_of_fold

# Relative to the scale of y and of the codes, which is 1.
TOL = 1e-9
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


def make(seed, classes=0, n=400, share=0.5):
    """Two attributes, each missing in rows of its own, and weights."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.8 * group
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y / y.std()
    S = pd.DataFrame(
        {
            "group": np.array(["a", "b"])[group].astype(object),
            "age": X[:, 1] + rng.normal(size=n),
        }
    )
    S.loc[rng.random(n) > share, "group"] = None
    S.loc[rng.random(n) > 0.8, "age"] = np.nan
    return X, y, S, rng.uniform(0.3, 2.0, n)


def fit(X, y, S, w=None, classes=0, groups=None, **options):
    kind = FairRidgeClassifier if classes else FairRidge
    params = {"gamma": 0.2, "n_components": 25, "n_slices": 4, "random_state": 0, **options}
    est = kind(missing_sensitive="omit", **params)
    return est.fit(X, y, sensitive_features=S, sample_weight=w, groups=groups)


CASES = [("statistical_parity", 0), ("statistical_parity", 3), ("equalized_odds", 2)]


@pytest.mark.parametrize(("criterion", "classes"), CASES)
@given(seed=st.integers(0, 2**16))
@settings(max_examples=3)
def test_moments_of_folds_equal_regressions_on_rows(criterion, classes, seed):
    X, y, S, w = make(seed, classes)
    est = fit(X, y, S, w, classes, criterion=criterion)
    fitted, rows = est._solution.new_rows, out_of_fold(est, X, y, S, w)
    weight = w / w.sum()
    np.testing.assert_allclose(rows.scores[:, : fitted.n_functions], rows.predictions, atol=TOL)
    np.testing.assert_allclose(
        fitted.cov, (rows.scores * weight[:, None]).T @ rows.scores, atol=TOL
    )
    for block, codes, known in zip(fitted.blocks, rows.codes, rows.known, strict=True):
        assert known.sum() < len(X)
        v = w[known]
        np.testing.assert_allclose(
            block.cov, (codes[known] * v[:, None]).T @ rows.scores[known] / v.sum(), atol=TOL
        )
        assert block.n_effective == pytest.approx(v.sum() ** 2 / (v @ v))
        spread = np.einsum("n,na,nb,ni,nj->abij", v, *[codes[known]] * 2, *[rows.scores[known]] * 2)
        np.testing.assert_allclose(block.spread, spread / v.sum(), atol=1e-8)


@given(seed=st.integers(0, 2**16))
@settings(max_examples=5)
def test_strength_is_that_of_the_rows_with_s(seed):
    """Strength: the correlation with the prediction of the code, times the root of the rows with S."""
    X, y, S, w = make(seed)
    w[S["group"].isna().to_numpy()] *= 5.0  # weights of rows without S say nothing about S
    est = fit(X, y, S[["group"]], w)
    fitted, rows = est._solution.new_rows, out_of_fold(est, X, y, S[["group"]], w)
    pilot, (block,) = est.pilot_, fitted.blocks
    data = est._read(X, y, S[["group"]], None, w, reset=False)
    folds = pilot.folds(data, pilot.encode(data), pilot.counter())
    psi, c, known = pilot.features.coordinates(data.X), rows.codes[0][:, 0], rows.known[0]
    raw = np.where(known, (S["group"] == "b").to_numpy(dtype=float), 0.0)
    b = np.zeros(len(X))
    for k in range(fitted.n_folds):
        test, train = folds == k, folds != k
        mean = np.average(psi[train], axis=0, weights=w[train])
        cov = np.cov(psi[train].T, aweights=w[train], ddof=0)
        own = train & known
        centred = raw[own] - np.average(raw[own], weights=w[own])
        cross = (psi[own] - mean).T @ (w[own] * centred) / w[train].sum()
        h = np.linalg.solve(cov + block.eta * np.eye(len(cov)), cross)
        b[test] = (psi[test] - np.average(psi[test], axis=0, weights=w[test])) @ h
    v = w[known]
    products = v @ (c[known] * b[known]) / v.sum()
    rho = abs(products) / np.sqrt((v @ c[known] ** 2 / v.sum()) * np.average(b**2, weights=w))
    size = v.sum() ** 2 / (v @ v)
    assert block.directions[0].strength == pytest.approx(np.sqrt(size) * rho, rel=1e-7)


def test_without_missing_values_omit_changes_nothing():
    X, y, S, w = make(0)
    S = S.assign(group=np.where(X[:, 2] > 0, "a", "b"), age=X[:, 1])
    one = fit(X, y, S, w)
    other = FairRidge(gamma=0.2, n_components=25, n_slices=4, random_state=0)
    other.fit(X, y, sensitive_features=S, sample_weight=w)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.certificate_.missing == ()


@given(seed=st.integers(0, 2**16), removal=st.sampled_from(["new_rows", "training_rows"]))
@settings(max_examples=6)
def test_a_limit_holds_among_the_rows_with_s(seed, removal):
    """Exact statements about the training rows are about the people who gave S, not about zeros."""
    X, y, S, _ = make(seed, n=600, share=0.3)
    est = fit(X, y, S[["group"]], removal=removal, fairness=0.0)
    known = S["group"].notna().to_numpy()
    f = est.predict(X)
    code = (S["group"] == "b").to_numpy(dtype=float)[known]
    code = (code - code.mean()) / code.std()
    expected = abs(np.mean(code * (f[known] - f[known].mean()))) / f.std()
    (block,) = est.certificate_.blocks
    assert block.score == pytest.approx(expected, rel=1e-6)
    assert block.n_rows == known.sum()
    if removal == "training_rows":
        limited = est.at(max_correlation=expected / 2)
        f = limited.predict(X)
        now = abs(np.mean(code * (f[known] - f[known].mean()))) / f.std()
        assert now == pytest.approx(expected / 2, rel=1e-5)


@given(seed=st.integers(0, 2**16))
@settings(max_examples=4)
def test_any_partition_and_any_merge_give_the_model_of_one_pass(seed):
    X, y, S, w = make(seed)
    params = {"gamma": 0.2, "n_components": 25, "n_slices": 4, "random_state": 0}
    start = FairRidge(missing_sensitive="omit", **params)
    start.prepare(X, y, sensitive_features=S, sample_weight=w, folds="position")

    def add(est, rows, **options):
        given = {"sensitive_features": S.iloc[rows], "sample_weight": w[rows], "solve": False}
        return est.partial_fit(X[rows], y[rows], start=int(rows[0]), **given, **options)

    order = np.arange(len(X))
    whole = add(copy.deepcopy(start), order).solve()
    parts = [add(copy.deepcopy(start), rows) for rows in np.split(order, [50, 90, 300])]
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part, solve=False)
    merged.solve()
    np.testing.assert_allclose(merged.predict(X), whole.predict(X), atol=1e-8)
    one, other = whole.certificate_.missing, merged.certificate_.missing
    assert [(m.attribute, m.n_known, m.n_rows) for m in one] == [
        ("group", int(S["group"].notna().sum()), len(X)),
        ("age", int(S["age"].notna().sum()), len(X)),
    ]
    for a, b in zip(one, other, strict=True):
        assert (a.n_known, a.share) == (b.n_known, pytest.approx(b.share))
        assert a.correlation == pytest.approx(b.correlation, abs=1e-8)


@given(seed=st.integers(0, 2**16))
@settings(max_examples=4)
def test_missingness_is_predicted_as_by_regressions_on_rows(seed):
    X, y, S, w = make(seed)
    est = fit(X, y, S, w)
    data = est._read(X, y, S, None, w, reset=False)
    pilot = est.pilot_
    folds = pilot.folds(data, pilot.encode(data), pilot.counter())
    psi, eta = pilot.features.coordinates(data.X), est._solution.eta_y
    for found in est.certificate_.missing:
        has = S[found.attribute].notna().to_numpy(dtype=float)
        b, m = np.zeros(len(X)), np.zeros(len(X))
        for k in range(5):
            test, train = folds == k, folds != k
            v = w[train] / w[train].sum()
            centred = psi[train] - v @ psi[train]
            cov = (centred * v[:, None]).T @ centred
            h = np.linalg.solve(cov + eta * np.eye(len(cov)), centred.T @ (v * has[train]))
            b[test] = (psi[test] - np.average(psi[test], axis=0, weights=w[test])) @ h
            m[test] = has[test] - np.average(has[test], weights=w[test])
        correlation = (w @ (b * m)) / np.sqrt((w @ b**2) * (w @ m**2))
        assert found.correlation == pytest.approx(correlation, abs=1e-7)
        assert found.share == pytest.approx(np.average(has, weights=w))


def test_rows_that_lack_s_because_of_x_warn_and_the_certificate_says_so():
    X, y, S, _ = make(3, n=600)
    S = S[["group"]].copy()
    S["group"] = np.where(X[:, 0] > 0, "a", "b")
    S.loc[X[:, 2] > 0.3, "group"] = None
    with pytest.warns(DataWarning, match="it is not missing at random"):
        est = fit(X, y, S)
    (found,) = est.certificate_.missing
    assert found.depends_on_x
    assert "X predicts which (p < 0.001" in str(est.certificate_)
    assert "X predicts which (p &lt; 0.001" in est.certificate_._repr_html_()
    assert est.certificate_.to_dict()["missing"][0]["n_known"] == found.n_known


@given(seed=st.integers(0, 2**16))
@settings(max_examples=2)
def test_rules_count_the_rows_with_s(seed):
    X, y, S, w = make(seed, classes=2)
    est = fit(X, y, S[["group"]], w, 2, equalize="decisions", fairness=0.5)
    known = S["group"].notna().to_numpy()
    fit_ = est._state.decisions
    margin = fit_.training_margins(fit_.at_share(0.5))[:, 0]
    rates = {
        g: np.average(
            margin[(S["group"] == g).to_numpy()] > 0, weights=w[(S["group"] == g).to_numpy()]
        )
        for g in ("a", "b")
    }
    for rate in est.certificate_.decisions.rates:
        assert rate.rate == pytest.approx(rates[rate.group], abs=1e-12)
        assert rate.n_rows == (S["group"] == rate.group).sum()
    assert sum(r.n_rows for r in est.certificate_.decisions.rates) == known.sum()


def test_predicted_rate_codes_have_the_scale_of_those_with_all_s():
    """The codes of a rule estimate 1[s=j]/P(j) - 1: a smaller share of rows with S does not shrink them."""
    X, y, S, _ = make(1, classes=2, n=2000, share=2.0)
    full = S[["group"]].fillna("a")
    some = full.copy()
    some.loc[np.random.default_rng(0).random(len(X)) > 0.4, "group"] = None
    spread = [
        fit(X, y, each, None, 2, equalize="decisions")._state.decisions.problem.codes.std(axis=0)
        for each in (full, some)
    ]
    np.testing.assert_allclose(spread[1], spread[0], rtol=0.15)


def test_groups_are_counted_among_the_rows_with_s():
    X, y, S, _ = make(5, n=600)
    people = np.repeat(np.arange(120), 5)
    S = S[["group"]].assign(group=np.where(X[:, 0] > 0, "a", "b").astype(object))
    S.loc[np.arange(600) % 5 != 0, "group"] = None  # one row of each person
    est = fit(X, y, S, groups=people)
    (block,) = est._solution.new_rows.blocks
    assert block.n_effective == pytest.approx(120.0)
    S.loc[:, "group"] = np.where(X[:, 0] > 0, "a", "b")
    (block,) = fit(X, y, S, groups=people)._solution.new_rows.blocks
    assert block.n_effective == pytest.approx(120.0)


def test_learners_predict_s_for_all_rows_and_compare_on_those_with_s():
    X, y, S, w = make(2, classes=2)
    known = S["group"].notna().to_numpy()
    est = FairClassifier(LogisticRegression(), missing_sensitive="omit", random_state=0)
    est.fit(X, y, sensitive_features=S[["group"]], sample_weight=w)
    (block,) = est._solution.new_rows.blocks
    assert block.n_effective == pytest.approx(w[known].sum() ** 2 / (w[known] @ w[known]))
    (found,) = est.certificate_.missing
    assert (found.n_known, found.n_rows) == (known.sum(), len(X))
    # With S of the other rows set to anything else that is missing, nothing changes.
    again = FairClassifier(LogisticRegression(), missing_sensitive="omit", random_state=0)
    other = S[["group"]].where(S[["group"]].notna(), np.nan)
    again.fit(X, y, sensitive_features=other, sample_weight=w)
    np.testing.assert_array_equal(again.predict_proba(X), est.predict_proba(X))


def test_too_few_rows_with_s_are_refused_by_name():
    X, y, S, _ = make(4, n=400)
    S = S[["group"]].copy()
    S.iloc[30:] = None
    with pytest.raises(
        ValueError, match=r"10 rows with 'group' in each of 5 folds, and there are \d+"
    ):
        fit(X, y, S, removal="new_rows")
    with pytest.warns(DataWarning, match="10 rows with 'group' in each of 5 folds"):
        assert "rows with 'group'" in fit(X, y, S).certificate_.no_estimate
    with pytest.raises(ValueError, match="'group' is known for"):
        FairClassifier(LogisticRegression(), missing_sensitive="omit", random_state=0).fit(
            X, (y > 0).astype(int), sensitive_features=S
        )


def test_paths_compare_the_rows_with_s_and_know_their_noise():
    X, y, S, _ = make(6, n=600, share=0.2)
    est = fit(X, y, S[["group"]], fairness=0.0)
    known = S["group"].notna().to_numpy()
    path = FairnessPath.from_estimator(est, X, y, sensitive_features=S[["group"]], n_points=3)
    f, code = est.predict(X)[known], (S["group"] == "b").to_numpy()[known]
    assert path.curve("correlation", "group")[0] == pytest.approx(
        abs(np.corrcoef(f, code)[0, 1]), rel=1e-6
    )
    full = S[["group"]].assign(group=np.where(X[:, 0] > 0, "a", "b"))
    other = FairnessPath.from_estimator(fit(X, y, full), X, y, sensitive_features=full, n_points=3)
    # On training rows: 1 / sqrt(n) twice, with n the rows that have S.
    assert path.noise / other.noise == pytest.approx(np.sqrt(600 / known.sum()), rel=0.01)


def test_metrics_take_rows_without_s_at_weight_zero():
    X, y, S, w = make(7, classes=2)
    known = S["group"].notna().to_numpy()
    given = {"sensitive_features": S[["group"]], "sample_weight": np.where(known, w, 0.0)}
    gap = demographic_parity_difference(y, (X[:, 0] > 0).astype(int), **given)
    assert gap == pytest.approx(
        demographic_parity_difference(
            y[known],
            (X[known, 0] > 0).astype(int),
            sensitive_features=S.loc[known, ["group"]],
            sample_weight=w[known],
        )
    )
    with pytest.raises(ValueError, match="give them the sample_weight 0"):
        demographic_parity_difference(
            y, (X[:, 0] > 0).astype(int), sensitive_features=S[["group"]], sample_weight=w
        )
