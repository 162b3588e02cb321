from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, roc_auc_score

from fairspan.auditing.attackers import (
    ATTACKERS,
    Attack,
    _p_value,
    _reach_blind,
    attack,
    weighted_auc,
)
from fairspan.auditing.cross_fit import (
    Estimate,
    bins,
    deal,
    kernel_check,
    r_squared,
    ridge,
    summary,
    unit_range,
)
from fairspan.auditing.reading import Protected
from fairspan.metrics.groups import bootstrap_counts


def levels(codes: np.ndarray, labels: tuple[str, ...] | None = None) -> Protected:
    names = labels or tuple(f"level {h}" for h in range(int(codes.max()) + 1))
    return Protected("s", "categorical", codes.astype(np.intp), names)


def numbers(values: np.ndarray) -> Protected:
    slices = np.searchsorted(np.quantile(values, [0.25, 0.5, 0.75]), values)
    return Protected("s", "continuous", slices, ("a", "b", "c", "d"), values.astype(float))


def attacked(Z: np.ndarray, s: Protected, seed: int = 0, **options: object) -> dict[str, Attack]:
    weight = options.pop("weight", np.ones(len(Z)))
    found = attack(Z, s, weight=weight, rng=np.random.default_rng(seed), **options)
    return {a.attacker: a for a in found}


# --- the weighted AUC ---------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 8))
def test_auc_is_scikit_learns(seed, n, n_values):
    rng = np.random.default_rng(seed)
    positive = np.append(rng.random(n) < 0.5, [True, False])
    score = rng.integers(n_values, size=n + 2).astype(float)  # ties
    weight = rng.uniform(0.1, 5.0, n + 2)
    ours = weighted_auc(score, positive, weight[None], np.zeros(n + 2, dtype=int))
    theirs = roc_auc_score(positive, score, sample_weight=weight)
    assert ours[0] == pytest.approx(theirs, abs=1e-12)


@given(st.integers(0, 10**6))
def test_weight_k_is_k_copies_in_the_auc(seed):
    rng = np.random.default_rng(seed)
    n = 30
    positive, fold = rng.random(n) < 0.5, rng.integers(3, size=n)
    positive[:2], fold[:2] = [True, False], 0
    score, k = rng.integers(6, size=n).astype(float), rng.integers(1, 4, size=n)
    rows = np.repeat(np.arange(n), k)
    weighted = weighted_auc(score, positive, k[None].astype(float), fold)
    copied = weighted_auc(score[rows], positive[rows], np.ones((1, len(rows))), fold[rows])
    assert weighted == pytest.approx(copied, abs=1e-12)


def test_an_offset_of_a_fold_does_not_count():
    rng = np.random.default_rng(0)
    positive, fold = rng.random(300) < 0.5, np.arange(300) % 5
    score = positive + rng.normal(size=300)
    plain = weighted_auc(score, positive, np.ones((1, 300)), fold)
    moved = weighted_auc(score + 100.0 * fold, positive, np.ones((1, 300)), fold)
    assert moved == pytest.approx(plain, abs=1e-12)
    per_fold = [roc_auc_score(positive[fold == k], score[fold == k]) for k in range(5)]
    assert plain[0] == pytest.approx(np.mean(per_fold), abs=0.01)  # pairs differ a little by fold


def test_auc_without_a_pair_is_nan():
    found = weighted_auc(
        np.arange(4.0), np.array([1, 1, 0, 0]) > 0, np.ones((2, 4)), np.array([0, 0, 1, 1])
    )
    assert np.isnan(found).all()


@given(st.integers(0, 10**6))
def test_r_squared_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    y, found, weight = rng.normal(size=20), rng.normal(size=20), rng.uniform(0.1, 5.0, (3, 20))
    ours = r_squared((y - found) ** 2, y[:, None], weight)
    theirs = [r2_score(y, found, sample_weight=w) for w in weight]
    assert ours == pytest.approx(np.array(theirs), abs=1e-10)


# --- planted truths -----------------------------------------------------------------------------


def test_independent_groups_are_not_seen():
    rng = np.random.default_rng(1)
    found = attacked(rng.normal(size=(1500, 4)), levels(rng.integers(2, size=1500)))
    assert tuple(found) == ATTACKERS
    for a in found.values():
        assert a.measure == "auc"
        assert a.low < 0.5 < a.high
        assert not a.sees
        assert (a.n_rows, a.note) == (1500, "")


def test_an_independent_number_is_not_seen():
    rng = np.random.default_rng(2)
    found = attacked(rng.normal(size=(1500, 4)), numbers(rng.normal(size=1500)))
    for a in found.values():
        assert a.measure == "r2"
        assert a.value < 0.01
        assert not a.sees


def test_the_sign_of_a_coordinate_is_read_off():
    Z = np.random.default_rng(3).normal(size=(800, 3))
    for a in attacked(Z, levels(Z[:, 1] > 0)).values():
        assert a.value > 0.97
        assert a.sees
    for a in attacked(Z, numbers(3.0 * Z[:, 1] + 7.0)).values():
        assert a.value > 0.9
        assert a.low <= a.value <= a.high


def test_an_interaction_is_hidden_from_a_line_alone():
    Z = np.random.default_rng(4).normal(size=(1500, 2))
    found = attacked(Z, levels(Z[:, 0] * Z[:, 1] > 0))
    assert found["linear"].value < 0.6
    assert found["kernel"].value > 0.95
    assert found["boosted"].value > 0.95
    found = attacked(Z, numbers(Z[:, 0] ** 2))
    assert found["linear"].value < 0.1
    assert found["kernel"].value > 0.85
    assert found["boosted"].value > 0.85


def test_several_levels_are_the_mean_of_one_against_the_rest():
    rng = np.random.default_rng(5)
    s = rng.choice(3, p=[0.5, 0.3, 0.2], size=1200)
    Z = rng.normal(size=(1200, 2)) + 9.0 * (s == 2)[:, None]  # levels 0 and 1 look alike
    found = attacked(Z, levels(s))
    p = np.bincount(s) / len(s)
    # 2 is found always; of the rest, 0 and 1 are told from 2 always, from each other never.
    truth = p[2] + sum(p[h] * (p[2] + p[1 - h] / 2.0) / (1.0 - p[h]) for h in (0, 1))
    for a in found.values():
        assert a.value == pytest.approx(truth, abs=0.03)
        assert a.sees


def test_a_score_is_a_representation_of_one_column():
    rng = np.random.default_rng(6)
    s = rng.integers(2, size=600)
    score = s + rng.normal(size=600)
    flat, column = (attacked(z, levels(s)) for z in (score, score[:, None]))
    assert flat == column


def test_known_auc_of_two_normal_groups():
    rng = np.random.default_rng(7)
    s = rng.integers(2, size=4000)
    found = attacked((rng.normal(size=4000) + s)[:, None], levels(s))["linear"]
    assert found.low < 0.7602 < found.high  # Phi(1 / sqrt 2)
    # Hanley and McNeil's standard error at this AUC and these sizes is .0076.
    assert 0.024 < found.high - found.low < 0.036


def test_weights_move_the_measure_to_the_rows_that_have_them():
    rng = np.random.default_rng(8)
    s = rng.integers(2, size=2000)
    honest = np.arange(2000) % 2 == 0
    Z = (rng.normal(size=2000) + 2.0 * s * honest)[:, None]
    light, heavy = (
        attacked(Z, levels(s), weight=np.where(honest, w, 1.0))["linear"].value
        for w in (0.01, 100.0)
    )
    assert light < 0.56
    assert heavy > 0.9


def test_the_unit_of_weights_and_columns_does_not_matter():
    rng = np.random.default_rng(9)
    s = rng.integers(2, size=400)
    Z = rng.normal(size=(400, 3)) + s[:, None]
    weight = rng.uniform(0.5, 2.0, 400)
    plain = attacked(Z, levels(s), weight=weight)
    for other in (
        attacked(Z, levels(s), weight=1e-9 * weight),
        attacked(
            Z * np.array([1e200, 1e-200, -3.0]) + np.array([0.0, 0.0, 5.0]),
            levels(s),
            weight=weight,
        ),
    ):
        for name, a in other.items():
            assert a.value == pytest.approx(plain[name].value, abs=0.02)


def test_the_same_rng_gives_the_same_attack():
    rng = np.random.default_rng(10)
    Z, s = rng.normal(size=(300, 2)), levels(rng.integers(2, size=300))
    first, again = (attacked(Z, s, seed=1) for _ in range(2))
    assert first == again
    few = {"attackers": ("linear", "kernel")}
    assert first["kernel"] != attacked(Z, s, seed=2, **few)["kernel"]


# --- edges --------------------------------------------------------------------------------------


def test_rows_beyond_the_limit_are_left_out():
    rng = np.random.default_rng(11)
    s = rng.integers(2, size=3000)
    found = attacked((rng.normal(size=3000) + 5.0 * s)[:, None], levels(s), max_rows=500)
    for a in found.values():
        assert a.n_rows == 500
        assert a.value > 0.98


def test_rare_levels_are_named_and_left_out():
    rng = np.random.default_rng(12)
    s = np.r_[rng.integers(2, size=300), np.full(9, 2)]
    found = attacked(rng.normal(size=(309, 2)), levels(s, ("a", "b", "rare", "absent")))
    for a in found.values():
        assert a.n_rows == 300
        assert a.note == "left out, fewer than 10 rows: rare"
        assert np.isfinite([a.value, a.low, a.high]).all()


@pytest.mark.parametrize(
    ("s", "why"),
    [
        (levels(np.zeros(100), ("all",)), "fewer than two levels"),
        (levels(np.r_[np.zeros(95), np.ones(5)]), "fewer than two levels"),
        (numbers(np.full(100, 3.3)), "constant"),
        (numbers(np.arange(9.0)), "too few"),
    ],
)
def test_nothing_to_recover_is_said(s, why):
    Z = np.random.default_rng(0).normal(size=(len(s.codes), 2))
    found = list(attacked(Z, s).values())
    assert [a.attacker for a in found] == list(ATTACKERS)
    for a in found:
        assert np.isnan([a.value, a.low, a.high]).all()
        assert why in a.note
        assert not a.sees


@pytest.mark.parametrize("Z", [np.zeros((200, 2)), np.full((200, 1), 1e300), np.zeros((200, 0))])
def test_a_constant_or_empty_representation_is_blind(Z):
    s = np.arange(200) % 2
    for a in attacked(Z, levels(s)).values():
        assert (a.value, a.low, a.high) == (0.5, 0.5, 0.5)
    for a in attacked(Z, numbers(np.arange(200.0))).values():
        assert a.value == pytest.approx(0.0, abs=0.02)


def test_a_perfect_split_converges_and_warns_of_nothing():
    s = np.arange(400) % 2
    found = attacked(np.c_[s, s, np.arange(400)].astype(float), levels(s))
    for a in found.values():
        assert (a.value, a.note) == (1.0, "")


def test_a_model_that_does_not_converge_is_noted(monkeypatch):
    monkeypatch.setattr(import_module("fairspan.auditing.attackers"), "_MAX_ITER", 1)
    rng = np.random.default_rng(13)
    s = rng.integers(2, size=200)
    found = attacked(rng.normal(size=(200, 3)) + s[:, None], levels(s), attackers=("linear",))
    assert found["linear"].note == "not converged in 5 of 5 folds"


def test_unknown_attackers_are_refused():
    with pytest.raises(ValueError, match=r"'psychic'.*Allowed: linear, kernel, boosted"):
        attacked(np.zeros((10, 1)), levels(np.arange(10) % 2), attackers=("psychic",))


def test_p_values_know_a_leak_and_noise():
    rng = np.random.default_rng(5)
    s = rng.integers(2, size=400)
    for a in attacked(s[:, None] * 1.0, levels(s)).values():
        assert a.p_value < 0.01  # though no resample differs from the sample
    assert all(a.p_value > 0.01 for a in attacked(rng.normal(size=(400, 1)), levels(s)).values())


# --- rows, resamples, ridge ---------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(10, 80), st.integers(2, 6))
def test_folds_are_balanced_in_all_and_within_strata(seed, n, n_folds):
    rng = np.random.default_rng(seed)
    strata = rng.integers(3, size=n)
    fold = deal(strata, n_folds, rng)
    for mine in (np.ones(n, dtype=bool), *(strata == h for h in range(3))):
        sizes = np.bincount(fold[mine], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1


def test_resamples_keep_the_size_of_strata():
    strata = np.array([0, 1, 1, 0, 2, 1])
    drawn = bootstrap_counts(6, 50, np.random.default_rng(0), strata).T
    assert drawn.shape == (50, 6)
    for h in range(3):
        assert (drawn[:, strata == h].sum(axis=1) == (strata == h).sum()).all()
    assert drawn[:, 0].std() > 0.0


def test_the_unit_range_of_any_columns():
    columns = np.array([[1e308, 5.0, 1e-300], [-1e308, 5.0, 2e-300], [0.0, 5.0, 3e-300]])
    found = unit_range(columns)
    assert found == pytest.approx(np.array([[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))


def test_bins_keep_the_order_and_few_values_as_they_are():
    rng = np.random.default_rng(16)
    few = rng.integers(3, size=1000) * (rng.random(1000) < 0.01)  # rare values stay apart
    columns = np.c_[rng.normal(size=1000), few, np.zeros(1000)]
    found = bins(columns)
    assert 240 <= len(np.unique(found[:, 0])) <= 250
    assert (np.diff(found[np.argsort(columns[:, 0]), 0]) >= 0).all()
    assert np.array_equal(found[:, 1], few)
    assert not found[:, 2].any()


def test_ridge_is_the_best_of_scikit_learns_ridges():
    rng = np.random.default_rng(14)
    X, new = rng.normal(size=(120, 30)), rng.normal(size=(400, 30))
    beta = np.zeros((30, 2))
    beta[:4] = 1.0
    y, truth = X @ beta + rng.normal(size=(120, 2)), new @ beta
    weight = rng.integers(1, 4, 120).astype(float)
    found = ridge(X, y, weight, new)
    scales = np.logspace(-3, 4, 200)
    fits = [Ridge(alpha=a).fit(X, y, sample_weight=weight).predict(new) for a in scales]
    closest = min(np.abs(fit - found).max() for fit in fits)
    assert closest < 0.03  # it is one of them, up to the grid
    losses = [((fit - truth) ** 2).mean() for fit in fits]
    assert ((found - truth) ** 2).mean() < 1.15 * min(losses)


def test_ridge_with_more_columns_than_rows_and_with_none_that_vary():
    rng = np.random.default_rng(15)
    X = rng.normal(size=(40, 200))
    y = rng.normal(size=(40, 1))
    assert np.abs(ridge(X, y, np.ones(40), X)).max() < 5.0
    flat = ridge(np.ones((40, 3)), y, np.ones(40), np.ones((5, 3)))
    assert flat == pytest.approx(np.full((5, 1), y.mean()))


def test_ridge_is_not_misled_by_few_rows_of_great_leverage():
    """A direction that ten rows of a thousand have, and y not: no ridge at all would follow them."""
    rng = np.random.default_rng(18)
    X = rng.normal(size=(1000, 30))
    X[:, 0] = 0.0
    X[:10, 0] = 1e-3 * rng.normal(size=10)
    y = X[:, 1:2] + rng.normal(size=(1000, 1))
    new = X.copy()
    new[:, 0] = 3e-3
    error = np.mean((ridge(X, y, np.ones(1000), new) - X[:, 1:2]) ** 2)
    assert error < 0.1


def test_blind_is_in_the_interval_until_twice_the_variance_refutes_it():
    for low, reached in ((0.505, 0.5), (0.514, 0.5), (0.516, 0.516), (0.48, 0.48)):
        assert _reach_blind(Estimate(0.55, low, 0.6), 0.5) == Estimate(0.55, reached, 0.6)


def test_an_interval_without_resamples_is_nan():
    found = summary(np.array([0.7, np.nan]), 0.95)
    assert found.value == 0.7
    assert np.isnan([found.low, found.high]).all()


# --- the kernel check ---------------------------------------------------------------------------


def features(X: np.ndarray, gamma: float, size: int = 150) -> np.ndarray:
    from sklearn.kernel_approximation import Nystroem

    return Nystroem(gamma=gamma, n_components=size, random_state=0).fit_transform(X)


def checked(psi, X, y, *, classes=False, seed=0, **options):
    weight = options.pop("weight", np.ones(len(y)))
    rng = np.random.default_rng(seed)
    return kernel_check(psi, X, y, classes=classes, weight=weight, rng=rng, **options)


def smooth(n: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


def test_a_kernel_that_fits_is_not_accused():
    X, y = smooth()
    found = checked(features(X, 0.3), X, y)
    assert not found.misspecified
    assert found.message == ""
    assert found.kernel_r2.value > 0.8 > found.linear_r2.value
    assert found.gap.low <= found.gap.value <= found.gap.high
    assert found.n_rows == 1000


@pytest.mark.parametrize("gamma", [1e-5, 100.0])
def test_a_width_far_off_is_found(gamma):
    X, y = smooth()
    found = checked(features(X, gamma), X, y)
    assert found.misspecified
    assert found.best == "boosted"
    assert found.gap.value == pytest.approx(found.boosted_r2.value - found.kernel_r2.value)
    assert "R^2 = " in found.message
    assert "boosted trees" in found.message


def test_a_kernel_blind_to_the_line_is_found():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 8))
    y = X.sum(axis=1) + rng.normal(size=600)
    found = checked(features(X[:, :1], 1.0, 20), X, y)
    assert (found.misspecified, found.best) == (True, "linear")
    assert "a linear model" in found.message


def test_the_kernels_r_squared_is_that_of_the_best_function():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 2))
    y = X[:, 0] + rng.normal(size=4000)  # the truth is 1/2
    found = checked(X, X, y)
    assert found.kernel_r2.low < 0.5 < found.kernel_r2.high
    assert found.kernel_r2.value == pytest.approx(found.linear_r2.value, abs=1e-3)


def test_classes_are_judged_by_their_indicators():
    X, score = smooth(800)
    for y in (score > 0, np.array(["low", "mid", "high"])[np.digitize(score, [-0.5, 0.7])]):
        good, bad = (checked(features(X, g), X, y, classes=True, n_folds=3) for g in (0.3, 1e-5))
        assert not good.misspecified
        assert bad.misspecified
        assert good.kernel_r2.value > 0.4


def test_the_missing_link_of_a_ridge_is_not_held_against_the_kernel():
    rng = np.random.default_rng(17)
    X = rng.normal(size=(1500, 3))
    y = 4.0 * X[:, 0] + 2.0 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=1500) > 0  # steep
    found = checked(features(X, 0.1), X, y, classes=True)
    assert not found.misspecified
    assert found.gap.value < 0.02


def test_a_class_of_one_row_breaks_nothing():
    X, score = smooth(200)
    y = np.digitize(score, [0.0])
    y[7] = 5
    found = checked(X, X, y, classes=True)
    assert np.isfinite([found.kernel_r2.value, found.boosted_r2.value, found.gap.low]).all()


def test_the_unit_of_y_does_not_matter():
    X, y = smooth(400)
    plain = checked(X, X, y, n_folds=3)
    for unit in (1e200, -1e-200):
        other = checked(X, X, unit * y, n_folds=3)
        assert other.kernel_r2.value == pytest.approx(plain.kernel_r2.value, abs=1e-9)


@pytest.mark.parametrize(
    ("y", "classes", "why"),
    [
        (np.full(50, 2.0), False, "constant"),
        (np.full(50, "a"), True, "constant"),
        (np.arange(50) < 4, True, "fewer than two classes"),
        (np.arange(9.0), False, "too few"),
    ],
)
def test_no_number_without_reason(y, classes, why):
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    found = checked(X, X, y, classes=classes)
    assert why in found.note
    assert np.isnan(found.gap.value)
    assert not found.misspecified
    assert found.message == ""


def test_rows_beyond_the_limit_are_left_out_of_the_check():
    X, y = smooth(900)
    assert checked(X, X, y, max_rows=300).n_rows == 300


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.floats(0.4, 0.8))
def test_the_p_value_of_an_attack_has_twice_the_variance(seed, value):
    """Rows attack each other: a bootstrap of fitted models shows half the variance of being blind."""
    drawn = np.random.default_rng(seed).normal(value, 0.05, 300)
    away = (value - 0.5) / (np.sqrt(2.0) * drawn.std())
    p_value = _p_value(np.append(value, drawn), 0.5)
    assert p_value == pytest.approx(scipy.stats.norm.sf(away))
