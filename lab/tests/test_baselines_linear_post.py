"""LinearPost: the linear program against brute force and its dual, rules, criteria."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from fairspan_lab.baselines import LinearPost
from fairspan_lab.baselines.linear_post import _divide, best_multipliers


def planted(n=1200, seed=0):
    """A label that leans on a proxy of the group, and the group itself as the last column."""
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.4).astype(int)
    x = rng.normal(size=(n, 2)) + s[:, None]
    y = (x[:, 0] + rng.normal(size=n) > 0.7).astype(int)
    return np.column_stack([x, s]), y, s


X, Y, S = planted()


def gap(d, s, cell=slice(None)):
    d, s = np.asarray(d, float)[cell], s[cell]
    return abs(d[s == 1].mean() - d[s == 0].mean())


def known_groups(n, seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    s[:2] = 0, 1
    utility = rng.uniform(-1, 1, n) + 0.5 * s
    codes = np.column_stack([(s == j) / np.mean(s == j) for j in (0, 1)])
    return s, utility, codes


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.3]))
def test_with_known_groups_it_is_a_threshold_per_group(seed, limit):
    """The hand check: the best pair of thresholds by brute force, and the program's bound on it."""
    s, utility, codes = known_groups(24, seed)
    n = len(s)
    psi = best_multipliers(utility, codes, np.zeros(2, int), np.full(n, 1 / n), limit)
    shares = np.array([np.mean(s == 0), np.mean(s == 1)])
    thresholds = psi / shares  # of the utility, by group
    margin = utility - codes @ psi
    np.testing.assert_allclose(margin, utility - thresholds[s], atol=1e-12)
    value = np.maximum(margin, 0.0).mean() + limit * np.abs(psi).sum() / 2
    ranked = [np.sort(utility[s == j])[::-1] for j in (0, 1)]
    sums = [np.concatenate([[0.0], np.cumsum(r)]) for r in ranked]
    pairs = [
        (abs(a / len(ranked[0]) - b / len(ranked[1])), (sums[0][a] + sums[1][b]) / n)
        for a, b in product(range(len(sums[0])), range(len(sums[1])))
    ]
    assert max(v for difference, v in pairs if difference <= limit + 1e-12) <= value + 1e-9
    # The best decisions are fractional on at most one row for each code.
    slack = limit + 2 / min(map(len, ranked))
    assert max(v for difference, v in pairs if difference <= slack) >= value - 2 * 1.5 / n
    assert abs(psi.sum()) < 1e-9


@given(st.integers(0, 10_000))
def test_the_multipliers_are_the_minimum_of_the_dual(seed):
    rng = np.random.default_rng(seed)
    n, limit = 40, float(rng.uniform(0.0, 0.2))
    utility = rng.uniform(-1, 1, n)
    p = rng.dirichlet([1.0, 1.0, 1.0], n)
    codes = p / p.mean(axis=0)
    weight = np.full(n, 1 / n)
    psi = best_multipliers(utility, codes, np.zeros(3, int), weight, limit)

    def dual(lam):
        return np.maximum(utility - codes @ lam, 0.0).mean() + limit * np.abs(lam).sum() / 2

    for _ in range(30):
        step = rng.normal(size=3) * rng.choice([1e-3, 0.1, 1.0])
        assert dual(psi) <= dual(psi + step - step.mean()) + 1e-9


def test_the_rule_keeps_the_limit_where_the_groups_are_known():
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    model = LinearPost(
        0.0, estimator=LogisticRegression(), group_estimator=tree, random_state=0
    ).fit(X, Y, sensitive_features=S)
    assert gap(model.predict(X), S) < 0.05
    free = model.at(1.0)
    assert np.array_equal(free.predict(X), (free.decision_function(X) > 0).astype(int))
    assert gap(free.predict(X), S) > 0.3
    np.testing.assert_allclose(free.multipliers_, 0.0, atol=1e-12)
    # One threshold per group on the probability.
    p = model._base.predict_proba(X)[:, 1]
    for j in (0, 1):
        mine = j == S
        chosen = model.predict(X)[mine] == 1
        assert p[mine][chosen].min() > p[mine][~chosen].max()


@pytest.mark.parametrize("criterion", ["equal_opportunity", "equalized_odds"])
def test_rates_within_classes(criterion):
    rows, y, s = planted(6000, 1)
    model = LinearPost(1.0, criterion=criterion, estimator=LogisticRegression(), random_state=0)
    free = model.fit(rows, y, sensitive_features=s)
    fair = free.at(0.0)
    assert len(fair.multipliers_) == (2 if criterion == "equal_opportunity" else 4)
    cells = [y == 1] if criterion == "equal_opportunity" else [y == 1, y == 0]
    before = max(gap(free.predict(rows), s, cell) for cell in cells)
    after = max(gap(fair.predict(rows), s, cell) for cell in cells)
    assert before > 0.2
    assert after < 0.3 * before


def test_the_favourable_class_can_be_the_first():
    options = {"criterion": "equal_opportunity", "estimator": LogisticRegression()}
    one = LinearPost(0.0, pos_label=1, random_state=0, **options)
    other = LinearPost(0.0, pos_label=0, random_state=0, **options)
    found = [m.fit(X, Y, sensitive_features=S).predict(X) for m in (one, other)]
    assert gap(found[0], S, Y == 1) < gap(found[1], S, Y == 1)
    assert gap(found[1], S, Y == 0) < gap(found[0], S, Y == 0)


def test_several_attributes_have_a_limit_each():
    rng = np.random.default_rng(2)
    age = np.digitize(X[:, 1] + rng.normal(size=len(X)), [0.0, 1.0])
    both = {"sex": S, "age": age}
    model = LinearPost(0.0, estimator=LogisticRegression(max_iter=1000), random_state=0)
    d = model.fit(X, Y, sensitive_features=both).predict(X)
    assert len(model.multipliers_) == 5
    assert gap(d, S) < 0.06
    rates = [d[age == j].mean() for j in range(3)]
    assert max(rates) - min(rates) < 0.08


def test_labels_and_groups_of_the_second_part_are_not_read():
    model = LinearPost(0.0, estimator=LogisticRegression(), random_state=0)
    model.fit(X, Y, sensitive_features=S)
    second = len(model._post[0])
    assert second == len(X) // 2
    utility, codes = model._post
    np.testing.assert_allclose(codes.mean(axis=0), 1.0)
    assert np.abs(utility).max() <= 1.0


def test_a_tolerance_that_cannot_be_is_refused_at_once():
    model = LinearPost(-0.1, estimator=LogisticRegression())
    with pytest.raises(ValueError, match=r"tolerance=-0.1 is not allowed"):
        model.fit(X, Y, sensitive_features=S)
    fitted = LinearPost(0.1, estimator=LogisticRegression(), random_state=0)
    fitted.fit(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match=r"tolerance=-1.0 is not allowed"):
        fitted.at(-1.0)
    one = np.zeros(len(Y), int)
    one[0] = 1
    few = LinearPost(0.1, estimator=LogisticRegression(), holdout=0.95, random_state=3)
    with pytest.raises(ValueError, match="a part with both classes"):
        few.fit(X, one, sensitive_features=S)


def test_every_group_is_in_both_parts():
    s = np.zeros(len(Y), int)
    s[:4] = 1  # two of each class
    y = Y.copy()
    y[:4] = 0, 1, 0, 1
    for seed in range(5):
        signs = np.where(y == 1, 1.0, -1.0)
        first, second = _divide(signs, [s], 0.5, seed)
        assert sorted([*first, *second]) == list(range(len(y)))
        assert len(second) == len(y) // 2
        for rows in (first, second):
            assert sorted(zip(s[rows][s[rows] == 1], y[rows][s[rows] == 1], strict=True)) == [
                (1, 0), (1, 1)
            ]  # fmt: skip
