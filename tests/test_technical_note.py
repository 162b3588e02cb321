"""The technical note: its statements on random instances; its page has a file of its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from sklearn.utils.fixes import parse_version
from tools.technical_note._optimum_rows import instance
from tools.technical_note._rows import (
    Moments,
    centred,
    diabetes,
    fitted_ridge,
    norm,
    pair,
    projector,
    supremum,
    whitened,
    within,
    worst_in,
)
from tools.technical_note.leak import RIDGES, leak
from tools.technical_note.optimum import OPTIMA, ridge_optimum
from tools.technical_note.price import LIMITS, excesses, on_line

from fairspan.auditing.model_space import held_out_bound
from fairspan.method.sdr import canonical_directions
from fairspan.method.subspaces import blend, dial_angles, principal_pair
from tests.statistical.auditing_bounds import planted

SEEDS = range(5)
seeds = pytest.mark.parametrize("seed", SEEDS)
shares = pytest.mark.parametrize("share", [0.15, 0.6])


def rows(seed, n=40, d=6, levels=3):
    """Features shifted by the levels of s, as rows of psi; every level occurs twice."""
    rng = np.random.default_rng(seed)
    s = rng.permutation(
        np.concatenate([np.repeat(np.arange(levels), 2), np.arange(n - 2 * levels) % levels])
    )
    psi = rng.normal(size=(n, d)) + rng.normal(size=(levels, d))[s]
    return psi, s.astype(float), rng


# --------------------------------------------------------------------------------------------
# 1. The symmetric form
# --------------------------------------------------------------------------------------------
def pencils(psi, s, eta):
    n, K = len(s), psi @ psi.T
    gamma, B = np.eye(n) - 1.0 / n, within(s)
    dense = gamma @ K, B @ K + n * eta * np.eye(n)
    small = psi.T @ gamma @ psi / n, psi.T @ B @ psi / n + eta * np.eye(psi.shape[1])
    return dense, small


@seeds
@pytest.mark.parametrize("eta", [1e-3, 0.3])
def test_theorem_1_every_pair_of_the_small_pencil_is_one_of_the_large_and_back(seed, eta):
    psi, s, _ = rows(seed)
    n, d = psi.shape
    (left, right), (total, inside) = pencils(psi, s, eta)
    tau, W = scipy.linalg.eigh(total, inside)
    gamma, B = np.eye(n) - 1.0 / n, within(s)
    A = (gamma @ psi @ W / tau - B @ psi @ W) / (n * eta)
    np.testing.assert_allclose(psi.T @ A, W, atol=1e-9 * np.abs(W).max())
    np.testing.assert_allclose(left @ A, (right @ A) * tau, atol=1e-8 * np.abs(left @ A).max())
    values = scipy.linalg.eigvals(left, right)
    assert np.abs(values.imag).max() < 1e-8
    values = np.sort(values.real)
    np.testing.assert_allclose(values[-d:], tau, atol=1e-9)
    np.testing.assert_allclose(values[:-d], 0.0, atol=1e-9)


@seeds
@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0])
def test_proposition_1_how_many_eigenvalues_are_about_s_and_where_the_others_lie(seed, eta):
    psi, s, _ = rows(seed)
    _, (total, inside) = pencils(psi, s, eta)
    tau = scipy.linalg.eigh(total, inside, eigvals_only=True)[::-1]
    delta = centred(psi).T @ whitened(s) / len(s)
    between = total - (inside - eta * np.eye(len(total)))
    np.testing.assert_allclose(delta @ delta.T, between, atol=1e-12)
    r = delta.shape[1]
    strength = np.linalg.svd(delta, compute_uv=False) ** 2
    assert (tau > 1.0).sum() == (strength > eta).sum() <= r
    mu = np.linalg.eigvalsh(total)[::-1]
    limit = mu / (mu + eta)
    assert (tau >= limit - 1e-12).all()
    assert (tau[r:] <= limit[: len(mu) - r] + 1e-12).all()


@seeds
def test_the_two_pencils_agree_only_without_a_ridge(seed):
    psi, s, _ = rows(seed)
    codes = whitened(s)
    for eta in (1e-10, 0.5):
        _, (total, inside) = pencils(psi, s, eta)
        tau = scipy.linalg.eigh(total, inside, eigvals_only=True)[::-1][: codes.shape[1]]
        ridged = total + eta * np.eye(len(total))
        both = scipy.linalg.eigh(ridged, inside, eigvals_only=True)[::-1][: codes.shape[1]]
        lam = canonical_directions(total, centred(psi).T @ codes / len(s), eta).lam
        np.testing.assert_allclose(1.0 - 1.0 / both, lam, atol=1e-9)
        apart = np.abs(1.0 - 1.0 / tau - lam).max()
        assert apart < 1e-8 if eta < 1e-9 else apart > 1e-2


@seeds
def test_weights_change_averages_and_nothing_else(seed):
    """Equations 1 and 2 with ``diag(p) - pp'`` for the centring, also inside each slice."""
    psi, s, rng = rows(seed)
    (n, d), eta = psi.shape, 0.1
    p = rng.random(n)
    p /= p.sum()
    levels = (s[:, None] == np.unique(s)).astype(float)
    parts = p[:, None] * levels
    centring = np.diag(p) - np.outer(p, p)
    inside = np.diag(p) - (parts / parts.sum(axis=0)) @ parts.T
    total, within_ = psi.T @ centring @ psi, psi.T @ inside @ psi
    between = sum(
        q.sum() * np.outer(q @ psi / q.sum() - p @ psi, q @ psi / q.sum() - p @ psi)
        for q in parts.T
    )
    np.testing.assert_allclose(total - within_, between, atol=1e-12)
    K = psi @ psi.T
    large = scipy.linalg.eigvals(centring @ K, inside @ K + eta * np.eye(n))
    small = scipy.linalg.eigh(total, within_ + eta * np.eye(d), eigvals_only=True)
    np.testing.assert_allclose(np.sort(large.real)[-d:], small, atol=1e-9)


# --------------------------------------------------------------------------------------------
# 2. Exact removal
# --------------------------------------------------------------------------------------------
@seeds
def test_theorem_2_all_of_f_is_fair_exactly_when_the_codes_are_removed(seed):
    psi, s, rng = rows(seed)
    m = Moments(centred(psi), whitened(s), psi[:, 0], 0.0)
    extra = rng.normal(size=(psi.shape[1], 1))
    for removed, fair in (
        (m.delta, True),
        (np.hstack([m.delta, extra]), True),
        (m.delta @ rng.normal(size=(2, 2)), True),
        (m.delta[:, :1], False),
        (m.delta + 0.1 * rng.normal(size=m.delta.shape), False),
    ):
        worst = worst_in(m, removed)
        assert worst < 1e-10 if fair else worst > 1e-3
    assert np.linalg.matrix_rank(m.delta) == len(np.unique(s)) - 1


@seeds
@pytest.mark.parametrize("eta", [1e-3, 0.2])
def test_proposition_3_what_the_published_form_leaves(seed, eta):
    """``v'Delta Delta'w = eta v'w`` for every v of the published F, for every direction."""
    psi, s, rng = rows(seed)
    _, (total, inside) = pencils(psi, s, eta)
    delta = centred(psi).T @ whitened(s) / len(s)
    _, W = scipy.linalg.eigh(total, inside)
    W = W[:, ::-1][:, : delta.shape[1]]
    V = scipy.linalg.null_space((total @ W).T) @ rng.normal(size=(psi.shape[1] - delta.shape[1], 3))
    np.testing.assert_allclose(V.T @ total @ W, 0.0, atol=1e-10)
    np.testing.assert_allclose(V.T @ delta @ delta.T @ W, eta * V.T @ W, atol=1e-9)
    assert np.abs(V.T @ delta).max() > 1e-5


@seeds
def test_without_a_ridge_the_cell_still_gets_the_wrong_covector(seed):
    """In a cell the published direction is ``Sig_c^-1 delta``; ``Sig`` does not bring it back."""
    psi, _, rng = rows(seed)
    s, cell = (rng.random(len(psi)) < 0.5).astype(float), rng.random(len(psi)) < 0.6
    s[:2], cell[:2] = (0.0, 1.0), True
    inner = centred(psi[cell])
    cov, delta = inner.T @ inner / cell.sum(), inner.T @ whitened(s[cell]) / cell.sum()
    w = scipy.linalg.eigh(cov, cov - delta @ delta.T)[1][:, -1]
    total = centred(psi).T @ centred(psi) / len(psi)

    def cosine(a, b):
        return abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(w, np.linalg.solve(cov, delta[:, 0])) == pytest.approx(1.0, abs=1e-9)
    assert cosine(cov @ w, delta[:, 0]) == pytest.approx(1.0, abs=1e-9)
    assert cosine(total @ w, delta[:, 0]) < 0.999


@seeds
@pytest.mark.parametrize("eta", [1e-3, 0.05, 0.5])
def test_proposition_3_its_denominator_is_not_zero_where_tau_is_at_least_one(seed, eta):
    psi, s, _ = rows(seed, levels=2)
    _, (total, inside) = pencils(psi, s, eta)
    delta = centred(psi).T @ whitened(s)[:, 0] / len(s)
    tau, W = scipy.linalg.eigh(total, inside)
    for value, w in zip(tau, W.T, strict=True):
        gain = (delta @ w) ** 2 - eta * w @ w
        assert np.sign(gain) == np.sign(value - 1.0)


@pytest.mark.parametrize("eta", RIDGES)
def test_the_leak_is_that_of_the_formula(eta):
    found = leak(eta)
    assert found.correlation == pytest.approx(found.formula, rel=1e-5)
    assert found.correlation <= found.supremum
    assert max(found.with_removed, found.exact) < 1e-9


@seeds
@pytest.mark.parametrize("eta", [1e-3, 0.2])
def test_proposition_2_fewer_directions_leave_no_more_than_the_next_eigenvalue(seed, eta):
    psi, s, rng = rows(seed, levels=5)
    m = Moments(centred(psi), whitened(s), psi[:, 0], 0.0)
    found = canonical_directions(m.cov, m.delta, eta)
    for kept in (1, 2, 3):
        Z = scipy.linalg.null_space((m.delta @ found.codes[:, :kept]).T)
        for w in (Z @ rng.normal(size=(Z.shape[1], 200))).T:
            most = found.lam[kept] * (1.0 + eta * (w @ w) / (w @ m.cov @ w))
            assert m.correlation(w) ** 2 <= most * (1.0 + 1e-9)


# --------------------------------------------------------------------------------------------
# 3. The correlation geometry
# --------------------------------------------------------------------------------------------
@seeds
@shares
@pytest.mark.parametrize("name", OPTIMA)
def test_theorems_3_to_5_no_optimiser_finds_better(name, seed, share):
    closed, found = OPTIMA[name][0](100 + seed, share)
    if not np.isfinite(found) and parse_version(scipy.__version__) < parse_version("1.16"):
        pytest.skip("the optimiser of this scipy finds nothing at all here")
    assert np.isfinite(found)
    assert closed - found <= 1e-6 * (1.0 + abs(found))


@pytest.mark.parametrize("name", OPTIMA)
def test_the_optimiser_is_an_opponent(name):
    """It reaches the closed form nearly always, so it would have found something better."""
    problem = OPTIMA[name][0]
    gaps = [np.subtract(*problem(100 + seed, 0.5)) for seed in SEEDS]
    assert np.median(np.abs(gaps)) < 1e-5


@seeds
@shares
def test_theorem_3_by_a_convex_solver(seed, share):
    cvxpy = pytest.importorskip("cvxpy")
    m = instance(seed, ridge=0.05)
    p, factor = pair(m.g, m.delta, m.metric), np.linalg.cholesky(m.metric)
    limit = share * abs(float(m.delta[:, 0] @ m.g))
    w = cvxpy.Variable(len(m.g))
    loss = cvxpy.sum_squares(factor.T @ (w - m.g))
    cvxpy.Problem(cvxpy.Minimize(loss), [cvxpy.abs(m.delta[:, 0] @ w) <= limit]).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    line = p.length * (np.cos(p.theta) * p.u + share * np.sin(p.theta) * p.n)
    np.testing.assert_allclose(w.value, line, atol=1e-5 * np.abs(line).max())


@seeds
@shares
def test_theorem_5_the_multiplier_is_found(seed, share):
    """``w'Qw`` falls from above zero to far below as the multiplier grows, so it has one zero."""
    m = instance(seed, ridge=0.05)
    delta, limit = m.delta[:, 0], share * m.correlation(m.g)
    Q = np.outer(delta, delta) - limit**2 * m.cov
    last = -1.0 / scipy.linalg.eigh(Q, m.metric, eigvals_only=True)[0]
    path = [
        np.linalg.solve(m.metric + nu * Q, m.metric @ m.g)
        for nu in np.linspace(0.0, 0.9999 * last, 40)
    ]
    excess = np.array([w @ Q @ w for w in path])
    assert excess[0] > 0.0 > excess[-1]
    assert (np.diff(excess) < 0.0).all()
    assert m.correlation(ridge_optimum(m, limit)) == pytest.approx(limit, rel=1e-6)


@seeds
@pytest.mark.parametrize("n_codes", [1, 3])
def test_the_price_of_every_place_on_the_dial(seed, n_codes):
    m = instance(seed, n_codes=n_codes, ridge=0.05)
    p = pair(m.g, m.delta, m.metric)
    for a in np.linspace(0.0, p.theta, 5):
        price = m.loss(p.fitted(a)) - m.loss(m.g)
        assert price == pytest.approx(p.length**2 * np.sin(p.theta - a) ** 2, rel=1e-7, abs=1e-9)


@seeds
def test_the_correlation_is_rho_times_the_sine_without_a_ridge_and_between_limits_with_several_codes(
    seed,
):
    for n_codes in (1, 3):
        m = instance(seed, n_codes=n_codes)
        p = pair(m.g, m.delta, m.metric)
        rho = np.sqrt(np.linalg.eigvalsh(m.delta.T @ np.linalg.solve(m.cov, m.delta)))
        for a in (0.3 * p.theta, p.theta):
            r = m.correlation(p.at(a))
            assert rho[0] * np.sin(a) * (1 - 1e-9) <= r <= rho[-1] * np.sin(a) * (1 + 1e-9)


def test_the_library_fits_this_line():
    model, m = fitted_ridge()
    X, y, _ = diabetes()
    p = pair(m.g, m.delta, m.metric)
    for fairness in (0.0, 0.4, 1.0):
        at = model.at(fairness)
        expected = y.mean() + m.psi @ p.fitted((1.0 - fairness) * p.theta)
        np.testing.assert_allclose(at.predict(X), expected, atol=1e-6 * y.std())
    limited = model.at(max_correlation=0.05)
    by_hand = y.mean() + m.psi @ on_line(m, m.metric, 0.05)
    np.testing.assert_allclose(limited.predict(X), by_hand, atol=1e-6 * y.std())


def test_with_a_ridge_the_dial_is_within_a_hundredth_of_the_price_on_these_rows():
    _, m = fitted_ridge()
    for limit in LIMITS[1:]:
        found = excesses(m, limit)
        assert found["optimum"] - 1e-6 <= found["correlation"] <= 1.01 * found["optimum"]
        assert found["rkhs"] > 1.2 * found["optimum"]


def random_spaces(rng, D=12, q=3, d=2):
    removed = np.linalg.qr(rng.normal(size=(D, q)))[0]
    G = np.linalg.qr(rng.normal(size=(D, d)) + 0.5 * removed[:, :d])[0]
    return removed, G, np.eye(D) - removed @ removed.T


@seeds
def test_theorem_6_gaps_and_the_two_sided_norm(seed):
    rng = np.random.default_rng(seed)
    removed, G, fair = random_spaces(rng)
    spaces = principal_pair(removed, G)
    for fairness in (0.0, 0.3, 1.0):
        angles = dial_angles(spaces, fairness, "angle")
        E = np.hstack([spaces.fair, spaces.removed]) @ blend(spaces, angles)
        np.testing.assert_allclose(E.T @ E, np.eye(2), atol=1e-12)
        model, predictive = projector(E), G @ G.T
        outside = norm(model - fair @ model)
        lost = norm(predictive - model @ predictive)
        assert outside == pytest.approx(np.sin(angles.max()), abs=1e-10)
        assert lost == pytest.approx(np.sin((spaces.angles - angles).max()), abs=1e-10)
        assert norm(fair - model) == pytest.approx(1.0, abs=1e-10)
        # Theorem 1 of the paper in its own terms: the same functions.
        sine, cosine = np.sin(spaces.angles), spaces.cosines
        rho = np.sin(angles) / sine
        theirs = (np.cos(angles) - rho * cosine) * spaces.fair
        theirs += rho * (cosine * spaces.fair + sine * spaces.removed)
        np.testing.assert_allclose(theirs, E, atol=1e-12)


@seeds
def test_theorem_7_no_space_is_nearer_to_both(seed):
    rng = np.random.default_rng(seed)
    removed, G, fair = random_spaces(rng)
    spaces = principal_pair(removed, G)
    predictive, basis = G @ G.T, np.hstack([spaces.fair, spaces.removed])
    for noise in (0.0, 0.05, 0.5, 5.0):
        for fairness in (0.2, 0.7):
            E = basis @ blend(spaces, dial_angles(spaces, fairness, "angle"))
            other = projector(E + noise * rng.normal(size=E.shape))
            outside = np.arcsin(min(norm(other - fair @ other), 1.0))
            lost = np.arcsin(min(norm(predictive - other @ predictive), 1.0))
            assert outside + lost >= spaces.angles.max() - 1e-7
            if noise == 0.0:
                assert outside + lost == pytest.approx(spaces.angles.max(), abs=1e-7)


@seeds
@pytest.mark.parametrize("limit", [0.0, 0.1])
def test_the_best_decision_under_a_limit_on_rates_is_a_threshold_on_the_line(seed, limit):
    """A population of twelve values of x; the classifier may be randomised: a linear program."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(12))
    p, s = rng.random(12), rng.random(12)  # P(y = 1 | x), P(s = 1 | x)
    pi = share @ s
    gap = share * (s / pi - (1 - s) / (1 - pi))
    found = scipy.optimize.linprog(
        share * (1 - 2 * p), A_ub=np.stack([gap, -gap]), b_ub=[limit, limit], bounds=(0, 1)
    )
    up, down = found.ineqlin.marginals
    # g - c u > threshold, with g = E[y|x] - E[y] and u = E[s|x] - E[s].
    c = (down - up) / (2 * pi * (1 - pi))
    mean = share @ p
    score = (p - mean) - c * (s - pi) - (0.5 - mean)
    certain = np.abs(score) > 1e-9
    np.testing.assert_allclose(found.x[certain], score[certain] > 0, atol=1e-7)
    assert certain.sum() >= 11


# --------------------------------------------------------------------------------------------
# 4. The certificate
# --------------------------------------------------------------------------------------------
@seeds
def test_theorem_8_supremum_maximiser_and_functions_that_do_not_vary(seed):
    psi, s, rng = rows(seed)
    constant = np.zeros((len(psi), 1))  # a function without variance has no covariance either
    m = Moments(centred(np.hstack([psi[:, :3], constant])), whitened(s), s, 0.0)
    value = supremum(m.cov, m.delta)
    draws = rng.normal(size=(4, 2000))
    found = [m.correlation(w) for w in draws.T]
    assert max(found) <= value + 1e-12
    small = m.cov[:3, :3], m.delta[:3]
    top = scipy.linalg.eigh(small[1] @ small[1].T, small[0])[1][:, -1]
    assert m.correlation(np.append(top, 0.0)) == pytest.approx(value, abs=1e-12)


def test_codes_that_are_zero_on_rows_left_out_are_whitened_on_the_cell():
    psi, s, _ = rows(0)
    used = np.arange(len(s)) % 4 > 0
    share = used.mean()
    codes = np.zeros((len(s), 2))
    codes[used] = whitened(s[used])
    on_cell = codes / np.sqrt(share)
    np.testing.assert_allclose(on_cell.T @ on_cell / len(s), np.eye(2), atol=1e-12)
    inside = centred(psi[used]).T @ whitened(s[used]) / used.sum()
    np.testing.assert_allclose(
        centred(psi).T @ on_cell / len(s), np.sqrt(share) * inside, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_proposition_4_the_bound_of_the_space_is_above_that_of_the_pair_that_matters(seed):
    draw, _ = planted("many")
    Z, attribute, _, _, weight = draw(np.random.default_rng(seed))
    # In the population only the first function differs between the groups.
    alone = held_out_bound(Z[:, :1], [attribute], weight=weight)[0]
    together = held_out_bound(Z, [attribute], weight=weight)[0]
    assert together.bound >= alone.bound - 1e-9


# --------------------------------------------------------------------------------------------
# 6. What is not claimed
# --------------------------------------------------------------------------------------------
def people(n, rng, p=50):
    """Features of which five are shifted by the group, and a target that depends on the five."""
    s = rng.integers(0, 2, n)
    psi = rng.normal(size=(n, p))
    psi[:, :5] += 0.4 * s[:, None]
    return psi - psi.mean(axis=0), psi[:, :5].sum(axis=1) + 2.0 * rng.normal(size=n), s


def dependence_left(n, rng, eta=0.05):
    """Correlation with the group that a fair ridge regression leaves on new rows, and the formula's."""
    psi, y, s = people(n, rng)
    codes = (s - s.mean()) / s.std()
    cov = psi.T @ psi / n
    metric = cov + eta * np.eye(len(cov))
    N = psi.T @ codes / n
    g, h = scipy.linalg.solve(metric, np.column_stack([psi.T @ (y - y.mean()) / n, N])).T
    fair = g - h * (N @ g) / (N @ h)
    assert abs(np.corrcoef(psi @ fair, s)[0, 1]) < 1e-10
    per_row = np.trace(scipy.linalg.solve(metric, cov)) / n

    psi, y, s = people(20_000, rng)
    score, y, codes = psi @ fair, y - y.mean(), (s - s.mean()) / s.std()
    metric = psi.T @ psi / len(s) + eta * np.eye(len(cov))
    N = psi.T @ codes / len(s)
    g, h = scipy.linalg.solve(metric, np.column_stack([psi.T @ y / len(s), N])).T
    rho, v = N @ h, N @ g
    tau = np.mean((y - psi @ g) * (codes - psi @ h))
    expected = per_row * ((1 - rho) * v - tau * rho) / (rho + (1 - rho) * per_row) / score.std()
    return np.corrcoef(score, s)[0, 1], expected


@pytest.mark.parametrize("n", [300, 1000, 3000])
def test_the_dependence_left_on_new_rows_is_a_bias_of_known_size(n):
    rng = np.random.default_rng(n)
    left, expected = np.array([dependence_left(n, rng) for _ in range(20)]).T
    assert (left > 0.0).all()
    error = 3.0 * left.std() / np.sqrt(len(left))
    assert abs(left.mean() - expected.mean()) <= error + 0.1 * expected.mean()
