"""The dense oracle reproduces the golden numbers, and its own default method by brute force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
import scipy.linalg
from sklearn.kernel_ridge import KernelRidge

from tests.golden import oracle
from tests.golden.cases import CASES, Case, load_case
from tests.golden.oracle import Array, CodeBlock, Geometry, PaperFit, Removal, Route

ROUTES: tuple[Route, ...] = get_args(Route)
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)
VARIANTS: list[tuple[str, Removal]] = [
    (name, removal)
    for name in CASES
    for removal in ("conditional", "exact")
    if removal in load_case(name).oracle
]


# --------------------------------------------------------------------------------------------
# Golden numbers
# --------------------------------------------------------------------------------------------
@cache
def kernels(name: str) -> tuple[Array, Array]:
    """Return the training kernel and the test rows against the training rows."""
    case = load_case(name)
    K = oracle.rbf(case.X_train, case.X_train, case.gamma)
    return K, oracle.rbf(case.X_test, case.X_train, case.gamma)


def fit_case(case: Case, expected: dict[str, Any], route: Route, removal: Removal) -> PaperFit:
    """Run the paper's algorithm with the settings of a case and the eps of a block."""
    return oracle.paper_model(
        kernels(case.name)[0],
        case.y_train,
        case.S_train,
        criterion=case.settings["criterion"],
        m=case.settings["m"],
        d=case.settings["d"],
        eta=case.settings["eta"],
        eps_list=[row["eps"] for row in expected["by_eps"]],
        route=route,
        removal=removal,
    )


def close(case: Case, quantity: str, actual: Any, expected: Any) -> None:
    """Compare within the stored absolute tolerance; a stored null matches anything."""
    want = np.array(expected, dtype=float)
    got = np.where(np.isnan(want), np.nan, np.asarray(actual))
    np.testing.assert_allclose(got, want, rtol=0, atol=case.atol[quantity], err_msg=quantity)


def check_models(case: Case, fit: PaperFit, expected: dict[str, Any]) -> None:
    """Compare everything a block stores except the EM quantities."""
    assert fit.n_removed == expected["n_removed"]
    close(case, "sigma", fit.sigma, expected["sigma"])
    K, Kz = kernels(case.name)
    for model, row in zip(fit.models, expected["by_eps"], strict=True):
        for quantity in ("gamma", "rho", "intercept", "alpha", "Pi"):
            if quantity in row:
                close(case, quantity, getattr(model, quantity), row[quantity])
        close(case, "mean_test", model.predict(Kz), row["mean_test"])
        for part, f, S, y in (
            ("abs_corr_train", model.predict(K), case.S_train, case.y_train),
            ("abs_corr_test", model.predict(Kz), case.S_test, case.y_test),
        ):
            cells = oracle.criterion_cells(case.settings["criterion"], y)
            for kind, values in oracle.abs_corr(f, S, cells).items():
                close(case, "abs_corr", values, row[part][kind])


@pytest.mark.parametrize("name", CASES)
def test_kernel(name: str) -> None:
    case, K = load_case(name), kernels(name)[0]
    np.testing.assert_allclose(K[0, :8], case.oracle["kernel_first_row"], rtol=0, atol=1e-14)
    largest = np.linalg.eigvalsh(K)[-1]
    np.testing.assert_allclose(largest, case.oracle["kernel_eig_max"], rtol=1e-13)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", CASES)
def test_reference(name: str, route: Route) -> None:
    case = load_case(name)
    fit = fit_case(case, case.reference, route, "paper")
    close(case, "tau", fit.tau_y, case.reference["tau_y"])
    for block, expected in zip(fit.blocks, case.reference["blocks"], strict=True):
        assert (f"s{block.attribute}", block.rows) == (expected["attribute"], expected["rows"])
        close(case, "tau", block.tau, expected["tau"])
    check_models(case, fit, case.reference)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("name", "removal"), VARIANTS)
def test_variant(name: str, removal: Removal, route: Route) -> None:
    case = load_case(name)
    expected = case.oracle[removal]
    fit = fit_case(case, expected, route, removal)
    check_models(case, fit, expected)
    if removal == "exact":
        cells = oracle.criterion_cells(case.settings["criterion"], case.y_train)
        fair = fit.models[-1].predict(kernels(name)[0])
        assert max(oracle.abs_corr(fair, case.S_train, cells)["level"]) < 1e-10


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", CASES)
def test_leading_eigenvalues(name: str, route: Route) -> None:
    case, K = load_case(name), kernels(name)[0]
    eta = case.settings["eta"]
    tau_y = oracle.sdr(K, case.y_train, 6, eta, route)[0]
    close(case, "tau", tau_y, case.oracle["tau_y_leading"])
    cells = oracle.criterion_cells(case.settings["criterion"], case.y_train)
    pairs = [(cell, s) for cell in cells for s in case.S_train.T]
    for (cell, s), expected in zip(pairs, case.oracle["blocks"], strict=True):
        tau = oracle.sdr(K[np.ix_(cell, cell)], s[cell], 6, eta, route)[0]
        close(case, "tau", tau, expected["tau_leading"])


def test_tolerances_notice_the_wrong_covariance() -> None:
    case = load_case("clf_eop")
    wrong = fit_case(case, case.reference, "residual", "conditional")
    with pytest.raises(AssertionError, match="sigma"):
        check_models(case, wrong, case.reference)


# --------------------------------------------------------------------------------------------
# The default method
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Problem:
    """Inputs of ``dense_optimal``; ``targets`` are its outputs."""

    K: Array
    Kz: Array
    y: Array
    blocks: Sequence[CodeBlock]
    eta_y: float
    w: Array
    classes: bool = False

    @property
    def targets(self) -> Array:
        return oracle.level_codes(self.y) if self.classes else self.y

    @property
    def covectors(self) -> Array:
        return oracle.code_covectors(self.blocks, self.w, len(self.y))

    def fit(self, fairness: float, geometry: Geometry = "optimal") -> oracle.DenseModel:
        return oracle.dense_optimal(
            self.K,
            self.y,
            self.blocks,
            eta_y=self.eta_y,
            fairness=fairness,
            geometry=geometry,
            classes=self.classes,
            sample_weight=self.w,
        )


def _weights(n: int) -> Array:
    return np.random.default_rng(7).integers(1, 4, size=n).astype(float)


def _regression() -> Problem:
    """One categorical and one numeric attribute, all rows."""
    case = load_case("reg_sp_m1_d1")
    codes = [oracle.level_codes(case.S_train[:, 0]), oracle.column_codes(case.S_train[:, 1])]
    blocks = oracle.code_blocks(codes, [np.ones(len(case.y_train), dtype=bool)])
    K, Kz = kernels(case.name)
    return Problem(K, Kz, case.y_train, blocks, 1e-3, np.ones(len(K)))


def _regression_levels() -> Problem:
    """Eight removed directions, weights."""
    case = load_case("reg_sp_m1_d1")
    codes = [oracle.level_codes(s) for s in case.S_train.T]
    blocks = oracle.code_blocks(codes, [np.ones(len(case.y_train), dtype=bool)])
    K, Kz = kernels(case.name)
    return Problem(K, Kz, case.y_train, blocks, 1e-2, _weights(len(K)))


def _binary(name: str) -> Problem:
    """Two classes, equalized odds, weights."""
    case = load_case(name)
    cells = oracle.criterion_cells("eo", case.y_train)
    blocks = oracle.code_blocks([oracle.level_codes(case.S_train[:, 0])], cells)
    K, Kz = kernels(name)
    return Problem(K, Kz, case.y_train, blocks, 1e-3, _weights(len(K)), True)


def _three_classes() -> Problem:
    """Three classes, one cell each, two attributes, one of them with missing values."""
    case = load_case("reg_sp_m1_d1")
    y = np.digitize(case.y_train, [0.75, 1.75]).astype(float)
    s = case.S_train[:, 1].copy()
    s[::9] = np.nan
    codes = [oracle.level_codes(case.S_train[:, 0]), oracle.column_codes(s)]
    blocks = oracle.code_blocks(codes, [y == k for k in range(3)])
    K, Kz = kernels(case.name)
    return Problem(K, Kz, y, blocks, 1e-3, _weights(len(K)), True)


PROBLEMS = {
    "regression": _regression,
    "regression_levels": _regression_levels,
    "binary": lambda: _binary("multi_eo"),
    "binary_singular_kernel": lambda: _binary("multi_wide_eo"),
    "three_classes": _three_classes,
}


@pytest.fixture(params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()


def equal(actual: Array, expected: Array, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def sklearn_ridge(problem: Problem) -> Array:
    """Kernel ridge on centred data at the test points, public ``alpha`` = T eta_y."""
    K, w = problem.K, problem.w
    p = w / w.sum()
    centred = K - p @ K
    gram = centred - (centred @ p)[:, None]
    Kz = problem.Kz - p @ K
    ridge = KernelRidge(alpha=w.sum() * problem.eta_y, kernel="precomputed")
    ridge.fit(gram, problem.targets - p @ problem.targets, sample_weight=w)
    return np.asarray(p @ problem.targets + ridge.predict(Kz - (Kz @ p)[:, None]))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_fairness_zero_is_kernel_ridge(problem: Problem, geometry: Geometry) -> None:
    predicted = problem.fit(0.0, geometry).predict(problem.Kz)
    equal(predicted, sklearn_ridge(problem))
    free = oracle.constrained_kernel_ridge_kkt(
        problem.K, problem.targets, problem.covectors[:, :0], problem.eta_y, problem.w
    )
    equal(predicted, free.predict(problem.Kz))


def test_fairness_one_is_constrained_kernel_ridge(problem: Problem) -> None:
    constrained = oracle.constrained_kernel_ridge_kkt(
        problem.K, problem.targets, problem.covectors, problem.eta_y, problem.w
    )
    equal(problem.fit(1.0).predict(problem.Kz), constrained.predict(problem.Kz))
    equal(problem.covectors.T @ problem.K @ constrained.a, np.zeros(()), atol=1e-12)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_fairness_one_has_zero_covariances(problem: Problem, geometry: Geometry) -> None:
    model = problem.fit(1.0, geometry)
    equal(problem.covectors.T @ model.predict(problem.K), np.zeros(()), atol=1e-10)
    assert np.abs(problem.covectors.T @ problem.fit(0.0, geometry).predict(problem.K)).max() > 1e-3


def test_fairness_one_in_the_rkhs_geometry(problem: Problem) -> None:
    """``P_F g = g - Phi'C (C'KC)^-1 C'K a``, then the penalised loss over its span."""
    K, C, p = problem.K, problem.covectors, problem.w / problem.w.sum()
    free = oracle.constrained_kernel_ridge_kkt(
        K, problem.targets, C[:, :0], problem.eta_y, problem.w
    )
    outputs = len(np.unique(problem.y)) - 1 if problem.classes else 1
    g = free.a.reshape(len(K), -1)[:, :outputs]
    fair = g - C @ np.linalg.solve(C.T @ K @ C, C.T @ K @ g)
    Pi = (K - p @ K) @ fair
    loss = Pi.T @ (p[:, None] * Pi) + problem.eta_y * fair.T @ K @ fair
    beta = np.linalg.solve(loss, Pi.T @ (p * problem.targets.T).T)
    expected = p @ problem.targets + (problem.Kz - p @ K) @ fair @ beta
    equal(problem.fit(1.0, "rkhs").predict(problem.Kz), expected)


def coordinates(problem: Problem, A: Array, geometry: Geometry) -> Array:
    """Columns whose Euclidean geometry is that of the functions with dual vectors A."""
    values, vectors = np.linalg.eigh(problem.K)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    if geometry == "rkhs":
        return np.asarray(root @ A)
    p = problem.w / problem.w.sum()
    f = problem.K @ A
    top = np.sqrt(p)[:, None] * (f - p @ f)
    return np.vstack([top, np.sqrt(problem.eta_y) * (root @ A)])


@pytest.mark.parametrize("fairness", [0.3, 0.8, 1.4])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_angles_of_the_model(problem: Problem, geometry: Geometry, fairness: float) -> None:
    """The model is ``|1-fairness| theta`` away from F and ``fairness theta`` away from G."""
    n = len(problem.K)
    model, predictive = problem.fit(fairness, geometry), problem.fit(0.0, geometry)
    E, G = (coordinates(problem, m.E, geometry) for m in (model, predictive))
    equal(E.T @ E, np.eye(E.shape[1]), atol=1e-10)
    removed = problem.covectors
    if geometry == "optimal":
        p = problem.w / problem.w.sum()
        operator = np.diag(p) @ problem.K - np.outer(p, p @ problem.K) + problem.eta_y * np.eye(n)
        removed = np.asarray(np.linalg.solve(operator, removed), dtype=np.float64)
    N = scipy.linalg.orth(coordinates(problem, removed, geometry))
    assert N.shape[1] == model.n_removed

    def to_fair(B: Array) -> Array:
        sines = np.zeros(B.shape[1])
        found = np.linalg.svd(N.T @ B, compute_uv=False)
        sines[: len(found)] = found
        return np.arcsin(np.sort(sines))

    equal(to_fair(G), np.sort(model.theta), atol=1e-8)
    equal(to_fair(E), np.sort(np.abs(1 - fairness) * model.theta), atol=1e-8)
    between = np.sort(scipy.linalg.subspace_angles(E, G))
    turned = fairness * model.theta  # beyond a right angle, lines close up again
    equal(between, np.sort(np.minimum(turned, np.pi - turned)), atol=1e-8)


@pytest.mark.parametrize("fairness", [0.25, 0.7])
@pytest.mark.parametrize("make", [_regression, _regression_levels])
def test_line_between_the_two_ends(make: Callable[[], Problem], fairness: float) -> None:
    """With d = 1 the model is a rescaled point of the segment from kernel ridge to its fair end."""
    problem = make()
    model = problem.fit(fairness)
    p, start = problem.w / problem.w.sum(), sklearn_ridge(problem)
    end = oracle.constrained_kernel_ridge_kkt(
        problem.K, problem.targets, problem.covectors, problem.eta_y, problem.w
    ).predict(problem.Kz)
    theta, mean = model.theta[0], p @ problem.y
    a = (1 - fairness) * theta
    point = end - mean + np.tan(a) / np.tan(theta) * (start - end)
    scale = np.cos(theta - a) * np.cos(a) / np.cos(theta)
    equal(model.predict(problem.Kz), mean + scale * point)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("fairness", [0.4, 1.0])
def test_integer_weights_are_repeated_rows(
    problem: Problem, geometry: Geometry, fairness: float
) -> None:
    rng = np.random.default_rng(11)
    w = rng.integers(0, 4, size=len(problem.y))
    rows = np.repeat(np.arange(len(w)), w)
    weighted = replace(problem, w=w.astype(float))
    repeated = replace(
        problem,
        K=problem.K[np.ix_(rows, rows)],
        Kz=problem.Kz[:, rows],
        y=problem.y[rows],
        blocks=[CodeBlock(block.rows[rows], block.codes[rows]) for block in problem.blocks],
        w=np.ones(len(rows)),
    )
    models = weighted.fit(fairness, geometry), repeated.fit(fairness, geometry)
    equal(models[0].predict(weighted.Kz), models[1].predict(repeated.Kz))
    equal(np.abs(models[0].scores(weighted.Kz)), np.abs(models[1].scores(repeated.Kz)))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_nothing_to_remove(problem: Problem, geometry: Geometry) -> None:
    constant = [CodeBlock(np.ones(len(problem.y), dtype=bool), np.ones((len(problem.y), 1)))]
    for blocks in ([], constant):
        model = replace(problem, blocks=blocks).fit(1.0, geometry)
        assert model.n_removed == 0
        equal(model.predict(problem.Kz), sklearn_ridge(problem))


def test_a_target_without_fair_partner() -> None:
    """If y itself is removed, only the mean is left as soon as fairness is asked for."""
    base = _regression()
    codes = [oracle.column_codes(base.y)]
    blocks = oracle.code_blocks(codes, [np.ones(len(base.y), dtype=bool)])
    problem = replace(base, blocks=blocks)
    equal(problem.fit(0.0).predict(problem.Kz), sklearn_ridge(problem))
    equal(problem.fit(0.1).predict(problem.Kz), np.full(len(problem.Kz), base.y.mean()))


def test_repeated_attributes_are_removed_once(problem: Problem) -> None:
    twice = replace(problem, blocks=[*problem.blocks, *problem.blocks])
    assert twice.fit(1.0).n_removed == problem.fit(1.0).n_removed
    equal(twice.fit(0.6).predict(problem.Kz), problem.fit(0.6).predict(problem.Kz))
