"""Limits on the core: reference values, laws, scikit-learn's contract, speed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks import core
from tests import test_estimator_checks
from tests.golden import compare, oracle
from tests.golden.cases import CASES, load_case
from tests.statistical.null_rate import KINDS, null_rate

from fairspan import FairRepresentation
from tools.table import Measurement, at_least, at_most, between, suite

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("FAIRSPAN_SHARED", ROOT.parent / "shared"))


def measurements() -> Iterator[Measurement]:
    """All rows, cheap ones first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from golden_rows()
        yield from law_rows()
        yield from check_rows()
    yield from suite_rows()
    yield from statistical_rows()
    yield from core.measurements()


def golden_rows() -> Iterator[Measurement]:
    """Largest deviation relative to its tolerance; 1 is the limit."""
    for name, check in (
        ("golden reference: worst deviation / atol", compare.reference),
        ("golden exact oracle: worst deviation / atol", lambda c: compare.variant(c, "exact")),
    ):
        found = [check(load_case(case)) for case in CASES]
        yield at_most(name, max(gap / atol for f in found for gap, atol in f.values()), 1.0)
    conditional = [
        compare.variant(load_case(c), "conditional")
        for c in CASES
        if "conditional" in load_case(c).oracle
    ]
    worst = max(gap / atol for f in conditional for gap, atol in f.values())
    yield at_most("golden conditional oracle: worst deviation / atol", worst, 1.0)
    if not SHARED.exists():
        print("(real-data golden tables skipped: the shared folder is absent)")
        return
    for label, check in compare.REAL.items():
        found = check(SHARED)
        worst = max(gap / atol for gap, atol in found.values())
        yield at_most(f"golden real, {label}: worst deviation / atol", worst, 1.0)


def _problem(seed: int, n: int = 150) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + 0.6 * group[:, None] * (np.arange(4) < 2)
    sex = (X[:, 1] + rng.normal(size=n) > 0).astype(float)
    y = X[:, 0] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=n)
    return X, y, {"group": group.astype(float), "sex": sex}


def law_rows() -> Iterator[Measurement]:
    """Laws with a numeric tolerance, on twenty random problems each; the suite checks the others."""
    merge = dense = covariance = attained = 0.0
    fixed = {"alpha": 0.5, "eta": 1e-2, "gamma": 0.1, "n_sensitive_directions": "all"}
    for seed in range(20):
        X, y, s = _problem(seed)
        new = np.random.default_rng(seed + 100).normal(size=(40, 4))
        whole = FairRepresentation(**fixed, random_state=0, removal="training_rows").fit(
            X, y, sensitive_features=s
        )
        parts = []
        cuts = np.sort(np.random.default_rng(seed).integers(10, 140, 2))
        prepared = FairRepresentation(**fixed, random_state=0, removal="training_rows").prepare(
            X, y, sensitive_features=s
        )
        for rows in np.split(np.arange(len(X)), cuts):
            worker = _copy(prepared)
            block = {k: v[rows] for k, v in s.items()}
            parts.append(
                worker.partial_fit(X[rows], y[rows], sensitive_features=block, solve=False)
            )
        merged = parts[0].merge(parts[1], solve=False).merge(parts[2])
        a, b = whole.transform(new), merged.transform(new)
        merge = max(merge, np.abs(a - b).max() / np.abs(a).max())
        for t in (0.0, 0.4, 1.0):
            model = whole.at(t)
            ours = model.transform(new) @ model.score_coef_ + model.score_intercept_
            codes = [oracle.level_codes(v) for v in s.values()]
            fit = oracle.dense_optimal(
                oracle.rbf(X, X, 0.1),
                y,
                oracle.code_blocks(codes, [np.ones(len(X), bool)]),
                eta_y=0.5 / len(X),
                fairness=t,
            )
            theirs = fit.predict(oracle.rbf(new, X, 0.1))
            dense = max(dense, float(np.abs(ours[:, 0] - theirs.ravel()).max()))
        scores = whole.transform(X)
        for values in s.values():
            onehot = (values[:, None] == np.unique(values)).astype(float)
            cov = (scores - scores.mean(0)).T @ (onehot - onehot.mean(0)) / len(X)
            covariance = max(covariance, float(np.abs(cov).max() / scores.std()))
        half = whole.at(0.5)
        attained = max(attained, _certificate_gap(half, X, s))
    yield at_most("merge = batch, relative difference", merge, 1e-10)
    yield at_most("all rows as landmarks = dense oracle, predictions", dense, 1e-8)
    yield at_most("in-sample Cov(f, codes) at fairness 1, of its scale", covariance, 1e-9)
    yield at_most("certificate's supremum against raw rows", attained, 1e-10)


def _copy(estimator: FairRepresentation) -> FairRepresentation:
    import copy

    return copy.deepcopy(estimator)


def _certificate_gap(model: FairRepresentation, X: np.ndarray, s: dict[str, np.ndarray]) -> float:
    """Multiple correlation of one function on raw rows, against the certified supremum."""
    f = model.transform(X)[:, 0]
    gap = 0.0
    for block in model.certificate_.blocks:
        if block.coding == "value":
            continue  # a linear correlation, reported only
        values = s[block.attribute]
        means = np.array([f[values == v].mean() for v in np.unique(values)])
        share = np.array([(values == v).mean() for v in np.unique(values)])
        ratio = np.sqrt(share @ (means - f.mean()) ** 2 / f.var())
        gap = max(gap, abs(ratio - block.supremum))
    return gap


def check_rows() -> Iterator[Measurement]:
    """scikit-learn's own checks, on every variant of the test subclass; none is expected to fail."""
    variants = test_estimator_checks.VARIANTS.values()
    ran = [
        test_estimator_checks.run_checks(test_estimator_checks.HashedFairRepresentation(**params))
        for params in variants
    ]
    troubled = sum(error is not None for outcome in ran for error in outcome.values())
    yield at_most("scikit-learn checks failed or skipped", troubled, 0)
    yield at_least("scikit-learn checks passed", sum(map(len, ran)) - troubled, 50 * len(ran))


def suite_rows() -> Iterator[Measurement]:
    """Parts of the test suite: failures, and the number of tests that ran."""
    contract = ("routing", "frames", "persistence_pickle", "persistence", "kernels", "warnings")
    for name, paths, minimum in (
        ("laws (hypothesis)", ["tests/laws"], 30),
        ("tests of the estimator checks", ["tests/test_estimator_checks.py"], 30),
        ("rest of the contract", [f"tests/test_{part}.py" for part in contract], 30),
        ("bad input, each one clear error", ["tests/test_errors.py"], 30),
    ):
        yield from suite(name, paths, minimum)


def statistical_rows() -> Iterator[Measurement]:
    """Level of the test for the number of directions when S has no effect."""
    for kind in KINDS:
        rate = null_rate(kind)
        yield between(f"null S, zero directions found, %: {kind}", 100 * rate, 93.0, 98.0)
