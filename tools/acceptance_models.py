"""Limits on the models: reference EM, evidence, equal formulations, paths, intervals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks import paths
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import KernelCenterer
from tests.golden import oracle, test_em
from tests.golden.cases import CASES, load_case
from tests.golden.compare import worst_ratio
from tests.statistical.coverage import coverage
from tests.support import fair_kernels

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from fairspan.estimators.gp_classifier import spread_shrinkage
from fairspan.exceptions import DatasetError
from tools import calibration
from tools.table import Measurement, at_most, between, suite

GAMMA, ALPHA = 0.2, 0.7
FIXED: dict[str, Any] = {"gamma": GAMMA, "eta": 1e-3, "alpha": ALPHA}
SUBSPACES = ("model", "fair")
DIAL = (0.0, 0.25, 0.5, 0.8, 1.0)


def measurements() -> Iterator[Measurement]:
    """All rows, cheap ones first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from golden_rows()
        yield from law_rows()
        yield from cost_rows()
        yield from calibration_rows()
    yield from suite_rows()
    yield from coverage_rows()


def golden_rows() -> Iterator[Measurement]:
    """Noise, variances and posteriors of the authors' EM, relative to their tolerance."""
    worst = max(worst_ratio(test_em.by_estimator(load_case(c))) for c in test_em.BY_ESTIMATOR)
    yield at_most("golden em-paper, estimator: worst deviation / atol", worst, 1.0)
    worst = max(worst_ratio(test_em.by_scores(load_case(c))) for c in CASES)
    yield at_most("golden em-paper, on scores (eop too): worst deviation / atol", worst, 1.0)


class _FairKernel(Kernel):  # type: ignore[misc]
    """A fair representation's kernel over the prior precision, for scikit-learn's GP."""

    hyperparameters = ()

    def __init__(self, kernel: Any, precision: float) -> None:
        self.kernel = kernel
        self.precision = precision

    def __call__(self, X: Any, Y: Any = None) -> Any:
        return self.kernel(X, Y) / self.precision

    def diag(self, X: Any) -> Any:
        return np.diag(self(X)).copy()

    def is_stationary(self) -> bool:
        return False


class _Problem:
    """Rows with features that S shifts, a numeric y and three classes."""

    def __init__(self, seed: int, n: int = 120) -> None:
        rng = np.random.default_rng(seed)
        self.s = rng.integers(0, 3, n)
        self.X = rng.normal(size=(n, 3)) + 0.6 * self.s[:, None] * [1.0, 0.5, 0.0]
        self.y = self.X[:, 0] + np.sin(2.0 * self.X[:, 2]) + 0.3 * rng.normal(size=n)
        self.labels = np.digitize(self.X[:, 0] + self.X[:, 2], [-0.3, 1.0])
        self.new = rng.normal(size=(40, 3))

    def fit(self, cls: Any, y: Any = None, **params: Any) -> Any:
        target = self.y if y is None else y
        return cls(**{**FIXED, **params}).fit(self.X, target, sensitive_features=self.s)

    def kkt(self, *, constrained: bool) -> Any:
        """(Constrained) kernel ridge by one dense linear system."""
        n = len(self.X)
        blocks = oracle.code_blocks([oracle.level_codes(self.s)], [np.ones(n, dtype=bool)])
        C = oracle.code_covectors(blocks if constrained else [], None, n)
        fit = oracle.constrained_kernel_ridge_kkt(
            oracle.rbf(self.X, self.X, GAMMA), self.y, C, ALPHA / n
        )
        return fit.predict(oracle.rbf(self.new, self.X, GAMMA))


def _gap(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def law_rows() -> Iterator[Measurement]:
    """Laws with a numeric tolerance, on ten random problems each; the suite checks the others."""
    worst: dict[str, float] = {}

    def note(name: str, value: float) -> None:
        worst[name] = max(worst.get(name, 0.0), value)

    for seed in range(10):
        problem = _Problem(seed)
        _gradients(problem, note)
        _posteriors(problem, note)
        _ends_and_line(problem, note)
        _paths(problem, note)
        _classifier(problem, note)
        _labels(problem, note)
        _machines(seed, note)
    limits = {"evidence gradient against differences, relative": 1e-6, "sampled path": 1e-9}
    for name, value in worst.items():
        limit = next((v for k, v in limits.items() if name.startswith(k)), 1e-8)
        yield at_most(name, value, limit)


def _gradients(problem: _Problem, note: Any) -> None:
    for prior in ("isotropic", "ard"):
        est = problem.fit(FairGPRegressor, prior=prior, n_predictive_directions=2)
        theta = np.random.default_rng(0).normal(size=2 if prior == "isotropic" else 4)
        _, slope = est.log_marginal_likelihood(theta, eval_gradient=True)
        steps, value = 1e-5 * np.eye(len(theta)), est.log_marginal_likelihood
        numeric = [(value(theta + step) - value(theta - step)) / 2e-5 for step in steps]
        scale = float(np.abs(slope).max())
        note(
            f"evidence gradient against differences, relative: {prior}",
            _gap(slope, numeric) / scale,
        )


def _posteriors(problem: _Problem, note: Any) -> None:
    centre = problem.y.mean()
    for subspace in SUBSPACES:
        for fairness in DIAL:
            params = {"subspace": subspace, "fairness": fairness}
            est = problem.fit(FairGPRegressor, **params)
            rep = problem.fit(FairRepresentation, **params)
            twin = GaussianProcessRegressor(
                _FairKernel(rep.kernel_, est.prior_precision_), alpha=est.noise_, optimizer=None
            ).fit(problem.X, problem.y - centre)
            mean, cov = twin.predict(problem.new, return_cov=True)
            found, found_cov = est.predict(problem.new, return_cov=True)
            cov = cov + est.noise_ / len(problem.X) + est.noise_ * np.eye(len(cov))
            gap = max(_gap(found, centre + mean), _gap(found_cov, cov))
            note(f'posterior = scikit-learn\'s GP, subspace="{subspace}"', gap)


def _ends_and_line(problem: _Problem, note: Any) -> None:
    plain, fair = problem.kkt(constrained=False), problem.kkt(constrained=True)
    centrer = KernelCenterer()
    K = centrer.fit_transform(oracle.rbf(problem.X, problem.X, GAMMA))
    centre = problem.y.mean()
    ridge = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(K, problem.y - centre)
    twin = centre + ridge.predict(centrer.transform(oracle.rbf(problem.new, problem.X, GAMMA)))
    for cls in (FairRidge, FairGPRegressor):
        for subspace in SUBSPACES:
            est = problem.fit(cls, subspace=subspace)
            note("fairness 0 = KernelRidge", _gap(est.at(0.0).predict(problem.new), twin))
            note("fairness 1 = constrained ridge by KKT", _gap(est.predict(problem.new), fair))
        line = problem.fit(cls, subspace="fair")
        model = problem.fit(cls, subspace="model")
        theta = float(line.angles_[0])
        for fairness in DIAL:
            a = (1.0 - fairness) * theta
            found = line.at(fairness).predict(problem.new)
            expected = fair + np.tan(a) / np.tan(theta) * (plain - fair)
            note('subspace="fair": mean on the line, five dial values', _gap(found, expected))
            factor = np.cos(theta - a) * np.cos(a) / np.cos(theta)
            scaled = centre + factor * (found - centre)
            note("scale to the model space", _gap(model.at(fairness).predict(problem.new), scaled))


def _paths(problem: _Problem, note: Any) -> None:
    levels = [problem.s == level for level in np.unique(problem.s)]
    for subspace in SUBSPACES:
        est = problem.fit(FairGPRegressor, subspace=subspace)
        for prior in (False, True):
            paths = est.sample_y(problem.X, 20, prior=prior)
            spread = sum(
                rows.mean() * (paths[rows].mean(0) - paths.mean(0)) ** 2 for rows in levels
            )
            name = f'sampled path, {"prior" if prior else "posterior"}, subspace="{subspace}"'
            note(f"{name}: correlation ratio", float(np.sqrt(spread / paths.var(axis=0)).max()))


def _classifier(problem: _Problem, note: Any) -> None:
    for n_classes, y in ((2, problem.labels > 0), (3, problem.labels)):
        for subspace in SUBSPACES:
            est = problem.fit(FairRidgeClassifier, y=y, fairness=0.0, subspace=subspace)
            psi = est.pilot_.features.coordinates
            twin = RidgeClassifier(alpha=ALPHA).fit(psi(problem.X), y)
            gap = _gap(est.decision_function(problem.new), twin.decision_function(psi(problem.new)))
            note(f"fairness 0 = RidgeClassifier on psi, {n_classes} classes", gap)


def _labels(problem: _Problem, note: Any) -> None:
    """Latent functions against a dense implementation of Newton's method."""
    for K, y in ((2, problem.labels > 0), (3, problem.labels)):
        for subspace in SUBSPACES:
            est = problem.fit(FairGPClassifier, y=y, subspace=subspace)
            for fairness in DIAL:
                moved = est.at(fairness)
                gap = _gap(moved.decision_function(problem.new), laplace_oracle(moved, problem.new))
                note(f"latents = dense Newton, {K} classes", gap)


def laplace_oracle(est: Any, new: Any) -> Any:
    """Mode of K class functions with independent priors on the estimator's scores."""
    rows, solution, functions = est._fit_state.rows, est._solution, est._fit_state.head.functions
    K, d = len(est.classes_), functions.shape[1]
    A = np.c_[np.ones(len(rows.codes)), rows.scores @ functions]
    hit = np.eye(K)[rows.codes]
    share = solution.target_mean
    inner = functions.T @ solution.path.gram @ functions
    if est.subspace == "fair" and est.fairness_ < 1.0:  # METHOD 9's prior
        N, E = solution.fair.removed, solution.basis @ functions
        t = spread_shrinkage(solution, est.fairness_)
        held_back = E.T @ N @ np.linalg.solve(solution.fair.inner, N.T @ E)
        inner = inner + t / (1.0 - t) / solution.eta_y * held_back
    precision = np.zeros((1 + d, 1 + d))
    precision[1:, 1:] = inner * (solution.weight * solution.eta_y * (1.0 - share @ share) / (K - 1))
    theta = np.zeros((1 + d, K))
    for _ in range(60):
        latent = A @ theta
        p = np.exp(latent - latent.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        slope = A.T @ (hit - p) - precision @ theta
        blocks = [
            [A.T @ ((p[:, k] * ((k == j) - p[:, j]))[:, None] * A) for j in range(K)]
            for k in range(K)
        ]
        curvature = np.block(blocks) + np.kron(np.eye(K), precision)
        # Adding one constant to every class changes nothing: the pseudo-inverse leaves it at zero.
        step = np.linalg.lstsq(curvature, slope.T.ravel(), rcond=1e-13)[0]
        theta += step.reshape(K, 1 + d).T
    scores = est.pilot_.features.scores(new, solution.basis) - solution.centre
    latent = np.c_[np.ones(len(new)), scores @ functions] @ theta
    return latent[:, 1] - latent[:, 0] if K == 2 else latent - latent.mean(axis=1, keepdims=True)


def _machines(seed: int, note: Any) -> None:
    for fairness in DIAL:
        found, supremum = fair_kernels.worst(fairness, seed=seed)
        note(
            "SVC and others on the fair kernel: above the certificate",
            max(found.values()) - supremum,
        )


def cost_rows() -> Iterator[Measurement]:
    """CPU time of a fit and 100 dial values on 5,000 rows, relative to the fit; n = 50k, D = 1000."""
    limits = {"two classes": 1.2, "three classes": 1.5}
    for name, ratio in paths.path_over_fit().items():
        limit = next((v for k, v in limits.items() if name.endswith(k)), 1.05)
        yield at_most(f"(fit + path) / fit, {name}", ratio, limit)
    for subspace, size in paths.bytes_per_row().items():
        yield at_most(f'predict with std, bytes a row, subspace="{subspace}"', size, 64)


def calibration_rows() -> Iterator[Measurement]:
    """Calibration error relative to LogisticRegression on the same columns, mean of 10 splits."""
    for name in calibration.SETS:
        try:
            found = calibration.compare(name)
        except DatasetError as error:
            print(f"{name}: not measured. {error}", flush=True)
            continue
        plain = found["LogisticRegression"]
        for fairness in ("fairness 0", "fairness 1"):
            gap = found[fairness] - plain
            yield at_most(
                f"calibration error above LogisticRegression, {name}, {fairness}", gap, 0.005
            )


def suite_rows() -> Iterator[Measurement]:
    """Test files of the models: failures, and the number of tests that ran."""
    for name, files, extra, minimum in (
        ("golden EM", ["tests/golden/test_em.py"], [], 30),
        ("evidence and posterior", ["tests/unit/method/test_gp.py"], [], 15),
        ("estimator checks", ["tests/test_models.py"], ["-k", "check"], 25),
        ("laws and contract of the models", ["tests/test_models.py"], ["-k", "not check"], 200),
        ("labels", ["tests/test_gp_classifier.py", "tests/unit/method/test_laplace.py"], [], 50),
        (
            "fair kernels, means and widths",
            ["tests/test_fair_kernels.py", "tests/test_gp_options.py"],
            [],
            30,
        ),
    ):
        yield from suite(name, [*files, *extra], minimum)


def coverage_rows() -> Iterator[Measurement]:
    """90 % predictive intervals on new rows, where the model is the true one (200 rows)."""
    for subspace in SUBSPACES:
        for fairness in (0.0, 1.0):
            rate = 100.0 * coverage(subspace, fairness)
            name = f'90 % intervals cover, %: subspace="{subspace}", fairness {fairness:g}'
            yield between(name, rate, 88.0, 92.0)
