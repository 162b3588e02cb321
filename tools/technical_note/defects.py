"""Other defects of the published algorithm and code, on synthetic rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg
from tests.golden import compare, oracle
from tests.golden.cases import load_case

from fairspan import FairGPRegressor, FairRepresentation
from fairspan.estimators.gp_regressor import _evidence
from fairspan.method.gp import paper_em
from fairspan.method.sdr import paper_directions
from tools.table import Measurement, at_least, at_most
from tools.technical_note._page import below
from tools.technical_note._rows import ETA, golden, within


def singleton_eigenvalues(seed: int = 0, n: int = 60) -> tuple[float, float]:
    """Largest |imaginary part| of tau, half of the slices holding one row: two ways to centre.

    By the mean of the row's own entries, as Matlab's ``mean`` of a 1 x n matrix gives it; and to zero.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    s = np.concatenate([np.arange(n // 2), np.arange(n // 2) % 5 + n]).astype(float)
    K = oracle.rbf(X, X, 0.25)
    sound = within(s) @ K
    broken = sound.copy()
    broken[: n // 2] = K[: n // 2] - K[: n // 2].mean(axis=1, keepdims=True)
    gamma = np.eye(n) - 1.0 / n
    found = [
        scipy.linalg.eigvals(gamma @ K, inside + n * ETA * np.eye(n)) for inside in (broken, sound)
    ]
    return tuple(float(np.abs(tau.imag).max()) for tau in found)


@dataclass(frozen=True)
class Extra:
    """The published form with m directions on a binary attribute."""

    tau: float  # of the last direction
    about_s: float  # correlation of its function with S
    components: float  # share of its variance along the m leading principal components
    error: float  # test RMSE at eps = 1


@cache
def extra_directions() -> dict[int, Extra]:
    """Golden regression rows: m = 1, 2, 4 directions of an attribute that has one."""
    case = load_case("reg_sp_m1_d1")
    s = case.S_train[:, 0]
    moments = golden(case, s)
    psi, cov = moments.psi, moments.cov
    W = paper_directions(cov, psi.T @ within(s) @ psi / len(s), ETA, 4)[1]
    values, vectors = np.linalg.eigh(cov)
    out = {}
    for m in (1, 2, 4):
        est = FairRepresentation.paper(case.settings["band"], m, 1)
        est.fit(case.X_train, case.y_train, sensitive_features=case.S_train[:, :1])
        model = compare.public_fit(est, case.X_train, case.y_train).at(1.0)
        error = float(np.sqrt(np.mean((model.predict(case.X_test) - case.y_test) ** 2)))
        w = W[:, m - 1]
        leading = values[-m:] * (vectors[:, -m:].T @ w) ** 2
        out[m] = Extra(
            float(est.blocks_[0].eigenvalues[-1]),
            moments.correlation(w),
            float(leading.sum() / (w @ cov @ w)),
            error,
        )
    return out


def printed_rho(sigma: float, eps: float = 1.0) -> float:
    """``sqrt((1 - gamma^2)/(1 - sigma^2))`` with no guard at sigma = 1."""
    gamma = max(sigma, eps)
    with np.errstate(invalid="ignore"):
        return float(np.sqrt(np.divide(1.0 - gamma**2, 1.0 - sigma**2)))


@cache
def em_variance() -> dict[int, float]:
    """Mean posterior variance of the authors' EM over test rows, by the step at which it stops."""
    case = load_case("reg_sp_m1_d2")
    settings = case.settings
    model = FairGPRegressor(
        method="paper",
        inference="em-paper",
        gamma=case.gamma,
        n_components="all",
        n_slices="distinct",
        n_sensitive_directions=settings["m"],
        n_predictive_directions=settings["d"],
        dial="cosine",
        eta=settings["eta"],
    ).fit(case.X_train, case.y_train, sensitive_features=case.S_train)
    Pi = model._scores(case.X_test)
    stats, mean = _evidence(model._solution, model._position), float(case.y_train.mean())
    out = {}
    for steps in (5, 20, 80):
        cov = paper_em(stats, mean, settings["eta"], n_steps=steps).cov
        out[steps] = float(np.mean(np.einsum("ij,jk,ik->i", Pi, cov, Pi)))
    return out


def table() -> list[str]:
    """Directions that do not exist; slices of one row, a division, the EM."""
    lines = [
        "| m, on a binary attribute | tau of direction m | its correlation with S | share of its variance "
        "on m leading components | test RMSE |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {m} | {x.tau:.3f} | {x.about_s:.3f} | {x.components:.2f} | {x.error:.3f} |"
        for m, x in extra_directions().items()
    ]
    broken, sound = singleton_eigenvalues()
    rho = [printed_rho(1.0 + step) for step in (-1e-14, 0.0, 1e-14)]
    lines += [
        "",
        "| what | measured |",
        "|---|---|",
        f"| slices of one row, centred by their own entries: largest imaginary part | {broken:.3f} |",
        f"| the same, centred to zero | {below(sound, 1e-6)} |",
        f"| printed rho, eps = 1, sigma = 1 - 1e-14 | {rho[0]:.0f} |",
        f"| the same, sigma = 1 | {rho[1]:.0f} |",
        f"| the same, sigma = 1 + 1e-14 | {rho[2]:.0f} |",
    ]
    return lines + [
        f"| EM, mean posterior variance of f after {steps} steps | {value:.1e} |"
        for steps, value in em_variance().items()
    ]


def claims() -> Iterator[Measurement]:
    """Each defect shows, and its remedy has none of it."""
    extra = extra_directions()
    yield at_most("second direction of a binary S: its tau", extra[2].tau, 1.0)
    yield at_most("second direction: correlation with S", extra[2].about_s, 0.01)
    yield at_least("second direction: share on 2 components", extra[2].components, 0.99)
    broken, sound = singleton_eigenvalues()
    yield at_least("slices of one row, own mean: imaginary part", broken, 1e-3)
    yield at_most("slices of one row, to zero: imaginary part", sound, 1e-6)
    variance = em_variance()
    yield at_least("EM: variance after 5 steps over that after 80", variance[5] / variance[80], 5.0)
