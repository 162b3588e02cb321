import numpy as np
import pytest

from fairspan import FairnessPath, FairRidge, FairRidgeClassifier, fairness_path, metrics
from fairspan.estimators.path_likely import likely_correlation, likely_rates, likely_ratio
from fairspan.method.decision_certificate import wilson
from fairspan.metrics.groups import standardize

pd = pytest.importorskip("pandas")
QUIET = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
GROUPS = np.array(["a", "b", "c"])
SHIFT = np.array([0.0, 0.6, 1.2])


def draw(rng, n):
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    return p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)


def table(p):
    return pd.DataFrame(p, columns=["race_a", "race_b", "race_c"])


def test_intervals_contain_what_is_true_of_the_groups():
    rng, z = np.random.default_rng(0), 1.959964
    _, many = draw(rng, 400_000)
    scores = rng.normal(size=len(many)) + SHIFT[many]
    wanted = np.corrcoef(scores, many == 1)[0, 1]
    chances = np.array([0.6, 0.1, 0.7])
    hits, repeats, n = {"correlation": 0, "rate": 0}, 150, 600
    for _ in range(repeats):
        p, code = draw(rng, n)
        weight = rng.uniform(0.5, 1.5, n)
        f = rng.normal(size=n) + SHIFT[code]
        r, influence = likely_correlation(standardize(f[:, None], weight), p, weight, 1)
        share = weight / weight.sum()
        hits["correlation"] += abs(r[0] - wanted) <= z * np.sqrt(share**2 @ influence**2)[0]
        decided = rng.random(n) < chances[code]
        rates, _ = likely_rates(decided[:, None].astype(float), p, weight, z)
        _, low, high = rates[1]
        hits["rate"] += low[0] <= chances[1] <= high[0]
    # 95 % of 150, with three standard errors. Wilson's interval alone has 85 % of the rate.
    assert 0.90 <= hits["correlation"] / repeats <= 0.995
    assert 0.90 <= hits["rate"] / repeats <= 0.995


def test_limits_of_rates_of_known_groups_are_wilsons():
    rng = np.random.default_rng(0)
    _, code = draw(rng, 80)
    decided, weight = rng.random((80, 2)) < 0.3, rng.uniform(0.5, 1.5, 80)
    decided[:, 1] = code == 2  # rates of 0 and 1
    found, correlation = likely_rates(decided.astype(float), np.eye(3)[code], weight, 1.6, 1.2)
    for j, (rate, low, high) in enumerate(found):
        w = weight[code == j]
        wanted = w @ decided[code == j] / w.sum()
        limits = wilson(wanted, w.sum() ** 2 / (w @ w) / 1.2, 1.6)
        np.testing.assert_allclose([rate, low, high], [wanted, *limits], atol=1e-9)
    np.testing.assert_array_equal(correlation[~np.eye(3, dtype=bool)], 0.0)


def test_correlations_of_rates_are_those_of_draws():
    rng = np.random.default_rng(0)
    p, _ = draw(rng, 1500)
    chances = np.array([0.6, 0.3, 0.5])
    # Many decisions of the same rows, given their probabilities.
    decided = (rng.random((1500, 2000)) < (p @ chances)[:, None]).astype(float)
    found, correlation = likely_rates(decided, p, np.ones(1500), 1.96)
    wanted = np.corrcoef([rate for rate, *_ in found])
    assert wanted[0, 1] < -0.3
    np.testing.assert_allclose(correlation.mean(axis=2), wanted, atol=0.08)


@pytest.mark.parametrize("known", [False, True])
def test_the_error_of_a_ratio_is_that_of_its_vector(known):
    """By moving the weight of each row; with two groups it is that of the correlation."""
    rng = np.random.default_rng(2)
    p, code = draw(rng, 60)
    p = np.eye(3)[code] if known else p
    f = rng.normal(size=60) * (1.0 + 2.0 * (code == 2)) + SHIFT[code]
    share = rng.uniform(0.5, 1.5, 60)
    share /= share.sum()

    def vector(w):
        w = w / w.sum()
        means = np.linalg.solve(
            (p * w[:, None]).T @ p, p.T @ (w * standardize(f[:, None], w)[:, 0])
        )
        return np.sqrt(w @ p) * means

    root = np.sqrt(share @ p)
    moved = []
    for i in range(60):
        more = share * (1.0 - 1e-6)
        more[i] += 1e-6
        change = (vector(more) - vector(share)) / 1e-6
        moved.append(change - root * (root @ change))
    variance = (share[:, None] * np.array(moved)).T @ np.array(moved)
    ratio, spread = likely_ratio(standardize(f[:, None], share), p, share)
    np.testing.assert_allclose(ratio, np.linalg.norm(vector(share)))
    np.testing.assert_allclose(spread, np.sqrt(np.linalg.eigvalsh(variance)[-1]), rtol=1e-3)
    two = np.column_stack([p[:, 0] + p[:, 1], p[:, 2]])
    r, influence = likely_correlation(standardize(f[:, None], share), two, share, 0)
    ratio, spread = likely_ratio(standardize(f[:, None], share), two, share)
    np.testing.assert_allclose(ratio, np.abs(r))
    np.testing.assert_allclose(spread, np.sqrt(share @ influence**2))


def test_influences_are_derivatives():
    rng = np.random.default_rng(1)
    p, code = draw(rng, 200)
    F, weight = rng.normal(size=200) + SHIFT[code], rng.uniform(0.5, 1.5, 200)

    def correlation(w):
        return likely_correlation(standardize(F[:, None], w), p, w, 0)[0][0]

    _, influence = likely_correlation(standardize(F[:, None], weight), p, weight, 0)
    share = weight / weight.sum()
    for i in (0, 7, 150):
        more = share * (1.0 - 1e-6)
        more[i] += 1e-6
        np.testing.assert_allclose(
            (correlation(more) - correlation(share)) / 1e-6, influence[i, 0], atol=1e-4
        )


def test_groups_that_are_not_told_apart_are_not_judged():
    p = np.tile([0.5, 0.5], (50, 1))
    f = standardize(np.arange(50.0)[:, None], np.ones(50))
    assert np.isnan(likely_correlation(f, p, np.ones(50), 0)[0]).all()
    assert np.isnan(likely_ratio(f, p, np.ones(50))).all()
    assert likely_rates((f > 0).astype(float), p, np.ones(50), 1.96) is None


@QUIET
@pytest.mark.parametrize("criterion", ["sp", "eo"])
@pytest.mark.parametrize("missing", [False, True])
def test_a_path_of_probabilities_of_0_and_1_is_that_of_categories(criterion, missing):
    rng = np.random.default_rng(0)
    n = 400
    _, code = draw(rng, n)
    X = rng.normal(size=(n, 3)) + SHIFT[code][:, None]
    y, weight = (X.sum(axis=1) + rng.normal(size=n) > 2).astype(int), rng.uniform(0.5, 2.0, n)
    S, hot = pd.Series(GROUPS[code], dtype=object, name="race"), table(np.eye(3)[code])
    if missing:
        gone = rng.random(n) < 0.2
        S, hot = S.mask(gone), table(np.where(gone[:, None], np.nan, hot))
    options = {
        "n_components": 30,
        "gamma": 0.1,
        "criterion": criterion,
        "missing_sensitive": "omit",
    }
    given = {"sample_weight": weight, "n_points": 3}
    known = fairness_path(FairRidgeClassifier(**options), X, y, sensitive_features=S, **given)
    options["sensitive_kind"] = "probabilities"
    found = fairness_path(FairRidgeClassifier(**options), X, y, sensitive_features=hot, **given)
    wanted, got = known.table(), found.table()
    assert list(got.columns) == list(wanted.columns)
    np.testing.assert_allclose(got.to_numpy(), wanted.to_numpy(), atol=1e-9)
    boot = {"n_boot": 8, "random_state": 0}
    for metric in ("correlation", "equalized_odds_difference"):
        np.testing.assert_allclose(
            found.interval(metric, **boot), known.interval(metric, **boot), atol=1e-9
        )
        assert found.bounds(metric).group == known.bounds(metric).group


@QUIET
def test_select_promises_a_limit_on_the_true_groups():
    rng = np.random.default_rng(3)
    n = 3000
    p, code = draw(rng, n)
    X = rng.normal(size=(n, 3)) + SHIFT[code][:, None]
    y = X.sum(axis=1) + rng.normal(size=n)
    model = FairRidge(n_components=30, gamma=0.05, sensitive_kind="probabilities")
    path = fairness_path(model, X, y, sensitive_features=table(p), n_points=11, holdout=0.5)
    assert path.rows == "held-out"
    assert path.attributes == ["race"]
    chosen = path.select("correlation_ratio", at_most=0.55)
    assert chosen.selection_.met
    assert 0.0 < chosen.fairness < 1.0
    # Other people, whose groups are known: their correlation keeps the limit.
    _, other = draw(rng, 20_000)
    score = chosen.predict(rng.normal(size=(20_000, 3)) + SHIFT[other][:, None])
    means = np.array([score[other == h].mean() for h in range(3)])
    share = np.bincount(other) / len(other)
    true = np.sqrt(share @ (means - share @ means) ** 2) / score.std()
    assert true <= 0.55
    again = FairnessPath.from_estimator(
        path.estimator, X, y, sensitive_features=table(p), n_points=3
    )
    assert again.in_sample
    # A metric of the user gets the table of probabilities.
    assert (path.curve(lambda *given: float(given[2].shape[1])) == 3.0).all()


@QUIET
def test_noise_is_that_of_rows_that_tell_as_much():
    rng = np.random.default_rng(4)
    n = 800
    p, code = draw(rng, n)
    X = rng.normal(size=(n, 3)) + SHIFT[code][:, None]
    model = FairRidge(n_components=20, gamma=0.1, sensitive_kind="probabilities")
    noise = []
    for S in (table(p), table(np.eye(3)[code])):
        path = fairness_path(model, X, X.sum(axis=1), sensitive_features=S, n_points=2)
        noise.append(path.noise)
    blurred = fairness_path(model, X, X.sum(axis=1), sensitive_features=table(p), n_points=2)
    (block,) = blurred.estimator.certificate_.blocks
    np.testing.assert_allclose(noise[0] / noise[1], np.sqrt(n / block.n_equivalent), rtol=1e-9)
    assert noise[0] > 1.3 * noise[1]


@QUIET
def test_curves_are_the_metrics_of_the_library():
    rng = np.random.default_rng(5)
    n = 700
    p, code = draw(rng, n)
    X = rng.normal(size=(n, 3)) + SHIFT[code][:, None]
    y = (X.sum(axis=1) + rng.normal(size=n) > 2).astype(int)
    weight = rng.uniform(0.5, 1.5, 400)
    model = FairRidgeClassifier(n_components=20, gamma=0.1, sensitive_kind="probabilities")
    model.fit(X[:300], y[:300], sensitive_features=table(p[:300]))
    given = {"sensitive_features": table(p[300:]), "sample_weight": weight}
    path = FairnessPath.from_estimator(model, X[300:], y[300:], **given, n_points=3)
    given["sensitive_kind"] = "probabilities"
    for i, fairness in enumerate(path.fairness):
        at = model.at(fairness)
        decided, score = at.predict(X[300:]), at.decision_function(X[300:])
        wanted = {
            "correlation": metrics.statistical_parity_correlation(score, **given),
            "correlation_ratio": metrics.correlation_ratio(score, **given),
            "demographic_parity_difference": metrics.demographic_parity_difference(
                y[300:], decided, **given
            ),
            "equalized_odds_difference": metrics.equalized_odds_difference(
                y[300:], decided, **given
            ),
        }
        for name, value in wanted.items():
            np.testing.assert_allclose(path.curve(name)[i], value, rtol=1e-8, err_msg=name)
        # Each is inside of its own bounds, where the metric is one number and not the largest.
        bounds = path.bounds("correlation_ratio")
        assert bounds.lower[i] <= bounds.value[i] <= bounds.upper[i]
