"""Laws of groups known as probabilities: 0 and 1 are categories, others stand for the true groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from fairspan import FairRegressor, FairRidge, FairRidgeClassifier
from tests.support.out_of_fold import out_of_fold

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
FEW = {"n_components": 40, "gamma": 0.1, "n_sensitive_directions": "all"}
GROUPS = np.array(["a", "b", "c"])


def make(seed=0, n=500, sharp=1.0):
    """Rows with calibrated probabilities of three groups."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.5 / sharp, 1.0 / sharp, 0.8 / sharp], n)
    code = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.9 * code
    X[:, 1] += 0.7 * (code == 1)
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    return X, y, pd.DataFrame(p, columns=["race_a", "race_b", "race_c"]), code


def one_hot(code, missing=None):
    table = np.eye(3)[code]
    if missing is not None:
        table[missing] = np.nan
    return pd.DataFrame(table, columns=["race_a", "race_b", "race_c"])


@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@pytest.mark.parametrize("removal", ["new_rows", "training_rows"])
@pytest.mark.parametrize("kind", ["plain", "weights and gaps"])
def test_probabilities_of_0_and_1_are_categories(criterion, removal, kind):
    X, y, _, code = make()
    y = (y > np.median(y)).astype(int)
    rng = np.random.default_rng(1)
    weight, missing = None, None
    if kind != "plain":
        weight, missing = rng.uniform(0.5, 2.0, len(X)), rng.random(len(X)) < 0.2
    options = {**FEW, "criterion": criterion, "removal": removal, "missing_sensitive": "omit"}
    S = pd.Series(GROUPS[code], dtype=object, name="race")
    known = FairRidgeClassifier(**options).fit(
        X, y, sensitive_features=S.mask(missing) if missing is not None else S, sample_weight=weight
    )
    model = FairRidgeClassifier(**options, sensitive_kind="probabilities").fit(
        X, y, sensitive_features=one_hot(code, missing), sample_weight=weight
    )
    for t in (0.0, 0.6, 1.0):
        a, b = known.at(t), model.at(t)
        np.testing.assert_allclose(
            b.decision_function(X), a.decision_function(X), rtol=0, atol=1e-10
        )
        new, old = b.certificate_.new_rows, a.certificate_.new_rows
        for found, wanted in zip(new.blocks, old.blocks, strict=True):
            got = [found.correlation, found.standard_error, found.low, found.high]
            want = [wanted.correlation, wanted.standard_error, wanted.low, wanted.high]
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)
        for found, wanted in zip(b.certificate_.blocks, a.certificate_.blocks, strict=True):
            np.testing.assert_allclose(
                [found.supremum, found.score], [wanted.supremum, wanted.score], rtol=1e-7, atol=1e-9
            )
            assert found.n_rows == wanted.n_rows
            if kind == "plain":
                np.testing.assert_allclose(found.n_equivalent, found.n_rows, rtol=1e-12)


def test_learners_know_categories_in_probabilities_of_0_and_1():
    X, y, _, code = make()
    known = FairRegressor(LinearRegression()).fit(X, y, sensitive_features=GROUPS[code])
    model = FairRegressor(LinearRegression(), sensitive_kind="probabilities")
    model.fit(X, y, sensitive_features=one_hot(code))
    np.testing.assert_allclose(model.predict(X), known.predict(X), rtol=0, atol=1e-8)


def means_by_regression(f, p, weight):
    """E[f | group] = E[f p'] E[p p']^-1, by the definition."""
    return np.linalg.solve((p * weight[:, None]).T @ p, p.T @ (weight * f))


def true_correlation(f, p, weight):
    """Multiple correlation of f with the true groups, by the definition."""
    share = weight @ p / weight.sum()
    means = means_by_regression(f, p, weight)
    sd = np.sqrt(np.cov(f, aweights=weight, bias=True))
    return np.sqrt(share @ (means - share @ means) ** 2) / sd


@pytest.mark.parametrize("weighted", [False, True])
def test_the_certificate_of_training_rows_is_about_the_regression_on_probabilities(weighted):
    X, y, P, _ = make()
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = FairRidge(**FEW, removal="training_rows", sensitive_kind="probabilities")
    model.fit(X, y, sensitive_features=P, sample_weight=weight if weighted else None)
    for t in (0.0, 0.5):
        (block,) = model.at(t).certificate_.blocks
        wanted = true_correlation(model.at(t).predict(X), P.to_numpy(), weight)
        np.testing.assert_allclose(block.score, wanted, rtol=1e-9)
        assert wanted > 0.1
    means = means_by_regression(model.at(1.0).predict(X), P.to_numpy(), weight)
    np.testing.assert_allclose(means, means[0], atol=1e-9)


def test_moments_of_folds_are_those_of_rows():
    X, y, P, _ = make()
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    model = FairRidge(**FEW, sensitive_kind="probabilities")
    model.fit(X, y, sensitive_features=P, sample_weight=weight)
    fit, rows = model._solution.new_rows, out_of_fold(model, X, y, P, weight)
    (block,), (codes,) = fit.blocks, rows.codes
    cov = np.einsum("n,nr,nm->rm", weight, codes, rows.scores) / weight.sum()
    np.testing.assert_allclose(block.cov, cov, atol=1e-12)
    # At fairness 1 none is left, at share t the share 1 - t.
    np.testing.assert_allclose(block.cov @ fit.last, 0.0, atol=1e-12)
    (expected,) = model.at(0.4).certificate_.new_rows.blocks
    (first,) = model.at(0.0).certificate_.new_rows.blocks
    assert 0.0 < expected.correlation < first.correlation


def test_covariances_with_the_codes_are_those_with_the_true_groups():
    # Probabilities of a grid of cells in which the groups are exactly as likely as they say.
    rng = np.random.default_rng(5)
    cells = rng.multinomial(10, [0.5, 0.3, 0.2], 60) / 10.0
    p = np.repeat(cells, 10, axis=0)
    code = np.concatenate([np.repeat(np.arange(3), np.rint(10 * c).astype(int)) for c in cells])
    X = np.column_stack([code == 0, code == 1, code]).astype(float)
    X = X + 1e-3 * np.tile(rng.permuted(np.linspace(-1, 1, 10)), 60)[:, None]
    model = FairRidge(kernel="linear", alpha=1.0, removal="training_rows", fairness=0.0)
    y = X @ [1.0, -1.0, 0.5]
    known = model.fit(X, y, sensitive_features=GROUPS[code]).certificate_.blocks[0].score
    model.set_params(sensitive_kind="probabilities")
    found = model.fit(X, y, sensitive_features=pd.DataFrame(p)).certificate_.blocks[0].score
    # psi depends on p through the group alone, up to the small noise.
    np.testing.assert_allclose(found, known, rtol=1e-2)
    assert known > 0.9


def test_two_groups_tell_as_much_as_the_variance_of_their_probability():
    X, y, P, _ = make()
    p = P["race_a"].to_numpy()
    two = pd.DataFrame({"sex_f": p, "sex_m": 1.0 - p})
    model = FairRidge(**FEW, sensitive_kind="probabilities").fit(X, y, sensitive_features=two)
    (block,) = model.certificate_.blocks
    np.testing.assert_allclose(
        block.n_equivalent, len(X) * p.var() / (p.mean() * (1 - p.mean())), rtol=1e-9
    )


def test_the_order_of_columns_and_names_of_groups_do_not_matter():
    X, y, P, _ = make()
    model = FairRidge(**FEW, sensitive_kind="probabilities")
    wanted = model.fit(X, y, sensitive_features=P).predict(X)
    for other in (P[["race_c", "race_a", "race_b"]], P.set_axis(["x_3", "x_1", "x_2"], axis=1)):
        found = model.fit(X, y, sensitive_features=other).predict(X)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    order = np.random.default_rng(0).permutation(len(X))
    found = model.fit(X[order], y[order], sensitive_features=P.iloc[order]).predict(X)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_moments_add_up():
    X, y, P, _ = make()
    whole, blocks, left, right = (
        FairRidge(**FEW, sensitive_kind="probabilities").prepare(
            X, y, sensitive_features=P, folds="position"
        )
        for _ in range(4)
    )
    whole.partial_fit(X, y, sensitive_features=P)
    for part in np.split(np.arange(len(X)), [7, 130, 131, 400]):
        rows = {"sensitive_features": P.iloc[part], "start": int(part[0])}
        blocks.partial_fit(X[part], y[part], **rows, solve=False)
    blocks.solve()
    left.partial_fit(X[:200], y[:200], sensitive_features=P[:200], start=0, solve=False)
    right.partial_fit(X[200:], y[200:], sensitive_features=P[200:], start=200, solve=False)
    left.merge(right)
    p = P.to_numpy()
    pairs = whole.moments_.pool().levels[0].pairs
    np.testing.assert_allclose(pairs, p.T @ p, rtol=1e-12)
    for other in (blocks, left):
        np.testing.assert_allclose(other.moments_.pool().levels[0].pairs, pairs, rtol=1e-12)
        np.testing.assert_allclose(other.predict(X), whole.predict(X), atol=1e-9)


def test_known_groups_and_probabilities_add_up():
    X, y, P, code = make()
    known = np.arange(len(X)) % 3 == 0
    both = pd.DataFrame(np.where(known[:, None], np.eye(3)[code], P), columns=P.columns)
    model = FairRidge(**FEW, sensitive_kind="probabilities")
    (few,) = model.fit(X, y, sensitive_features=P).certificate_.blocks
    (more,) = model.fit(X, y, sensitive_features=both).certificate_.blocks
    assert few.n_equivalent < more.n_equivalent < len(X)
    found = model.at(0.0)
    np.testing.assert_allclose(
        found.certificate_.blocks[0].score,
        true_correlation(found.predict(X), both.to_numpy(), np.ones(len(X))),
        rtol=1e-9,
    )


def test_rows_without_s_are_tested_as_those_of_categories():
    X, y, P, code = make(n=600)
    gone = np.random.default_rng(2).random(600) < 0.3
    S = pd.Series(GROUPS[code], dtype=object, name="race").mask(gone)
    options = {**FEW, "missing_sensitive": "omit"}
    (wanted,) = FairRidge(**options).fit(X, y, sensitive_features=S).certificate_.missing
    options["sensitive_kind"] = "probabilities"
    model = FairRidge(**options).fit(X, y, sensitive_features=one_hot(code, gone))
    (found,) = model.certificate_.missing
    assert (
        (found.n_known, found.n_rows) == (wanted.n_known, wanted.n_rows) == (600 - gone.sum(), 600)
    )
    np.testing.assert_allclose(
        [found.share, found.correlation, found.p_value],
        [wanted.share, wanted.correlation, wanted.p_value],
        rtol=1e-6,
    )
    full = FairRidge(**options).fit(X, y, sensitive_features=P)
    assert not full.certificate_.missing


def test_streams_take_probabilities_of_few_values():
    X, y, _, code = make()
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y, **one_hot(code))
    rows = {"target": "y", "sensitive_features": ["race_a", "race_b", "race_c"]}
    model = FairRidge(**FEW, sensitive_kind="probabilities")
    model.fit_stream([table[:300], table[300:]], **rows, features=["u", "v", "w"])
    known = table.assign(race=GROUPS[code])
    rows["sensitive_features"] = ["race"]
    other = FairRidge(**FEW).fit_stream(
        [known[:300], known[300:]], **rows, features=["u", "v", "w"]
    )
    X = table[["u", "v", "w"]]
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-9)
