import numpy as np
import pytest

from fairspan import metrics

pd = pytest.importorskip("pandas")

PROBABILITIES = {"sensitive_kind": "probabilities"}
DECISIONS = [
    metrics.selection_rates,
    metrics.demographic_parity_difference,
    metrics.demographic_parity_ratio,
    metrics.equalized_odds_difference,
    metrics.equal_opportunity_difference,
]


def make(n=300, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    code = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    score = rng.normal(size=n) + 0.8 * code
    y = (score + rng.normal(size=n) > 0.5).astype(int)
    return p, code, score, y, (score > 0.7).astype(int), rng.uniform(0.5, 2, n)


def table(p):
    return pd.DataFrame(p, columns=["race_a", "race_b", "race_c"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", DECISIONS)
def test_rates_of_0_and_1_are_those_of_groups(metric, weighted):
    _, code, _, y, d, w = make()
    weight = w if weighted else None
    known = pd.Series(np.array(["a", "b", "c"])[code], name="race")
    wanted = metric(y, d, sensitive_features=known, sample_weight=weight)
    hot = table(np.eye(3)[code])
    found = metric(y, d, sensitive_features=hot, sample_weight=weight, **PROBABILITIES)
    if metric is metrics.selection_rates:
        found, wanted = ([*r["race"].values()] for r in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "metric",
    [metrics.statistical_parity_correlation, metrics.correlation_ratio],
)
def test_correlations_of_0_and_1_are_those_of_groups(metric):
    _, code, score, _, _, w = make()
    wanted = metric(score, sensitive_features=code, sample_weight=w, sensitive_kind="categorical")
    hot = table(np.eye(3)[code])
    found = metric(score, sensitive_features=hot, sample_weight=w, **PROBABILITIES)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "metric", [metrics.equal_opportunity_correlation, metrics.equalized_odds_correlation]
)
def test_correlations_within_classes(metric):
    _, code, score, y, _, _ = make()
    wanted = metric(y, score, sensitive_features=code, sensitive_kind="categorical")
    found = metric(y, score, sensitive_features=table(np.eye(3)[code]), **PROBABILITIES)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_rates_are_a_regression_on_probabilities():
    p, _, _, y, d, w = make()
    found = metrics.selection_rates(
        y, d, sensitive_features=table(p), sample_weight=w, **PROBABILITIES
    )
    root = np.sqrt(w)[:, None]
    wanted = np.linalg.lstsq(p * root, d * root[:, 0], rcond=None)[0]
    assert list(found["race"]) == ["a", "b", "c"]
    np.testing.assert_allclose(list(found["race"].values()), wanted, rtol=1e-9)


def test_the_weighted_estimator_finds_the_true_gap_and_the_most_likely_group_does_not():
    p, code, _, y, d, _ = make(n=100_000)
    true = metrics.demographic_parity_difference(y, d, sensitive_features=code)
    found = metrics.demographic_parity_difference(
        y, d, sensitive_features=table(p), **PROBABILITIES
    )
    likely = metrics.demographic_parity_difference(y, d, sensitive_features=p.argmax(axis=1))
    assert abs(found - true) < 0.03
    assert likely < true - 0.1


def mean_difference(y_true, y_pred, *, sensitive_features):
    """A metric that is not one of the package."""
    return float(np.mean(y_true) - np.mean(y_pred)) * len(sensitive_features)


def test_by_attribute_and_scorer():
    p, _, score, y, d, _ = make()
    S = table(p).assign(sex=np.where(score + np.arange(300) % 7 > 3, "f", "m"))
    kinds = {"race": "probabilities"}
    each = metrics.by_attribute(
        "demographic_parity_difference", y, d, sensitive_features=S, sensitive_kind=kinds
    )
    assert list(each) == ["race", "sex"]
    wanted = metrics.demographic_parity_difference(
        y, d, sensitive_features=table(p), **PROBABILITIES
    )
    assert each["race"] == wanted
    options = {"sensitive_features": S, "sensitive_kind": kinds}
    with pytest.raises(ValueError, match="needs the group of each row"):
        metrics.by_attribute(mean_difference, y, d, **options)


@pytest.mark.parametrize(
    ("metric", "factor", "options", "says"),
    [
        (metrics.ks_distance, 1.0, {}, "needs the group of each row"),
        (metrics.correlation_ratio, 1.0, {"intersectional": True}, "intersectional=True needs"),
        (metrics.correlation_ratio, 0.0, {}, "do not tell its groups apart"),
        (metrics.correlation_ratio, 0.5, {}, "do not add up to 1"),
    ],
)
def test_refused(metric, factor, options, says):
    p, _, score, *_ = make()
    S = table(p * factor + (factor == 0.0) / 3)
    with pytest.raises(ValueError, match=says):
        metric(score, sensitive_features=S, **options, **PROBABILITIES)
