"""Theorem 1 and proposition 1: the n x n pencil of the paper and the symmetric D x D one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from tests.golden import oracle
from tests.golden.cases import load_case

from fairspan.method.sdr import paper_directions
from tools.table import Measurement, at_most
from tools.technical_note._rows import ETA, Array, coordinates, within

PENCILS = {
    "clf, s0": ("clf_sp", 0),
    "multi, s0": ("multi_sp", 0),
    "reg, s0": ("reg_sp_m2_d2", 0),
    "reg, s1": ("reg_sp_m2_d2", 1),
}


@dataclass(frozen=True)
class Pencil:
    """The paper's pencil of one attribute, both ways."""

    n: int
    levels: int
    spectrum: Array  # eigenvalues of Sigma, descending
    tau: Array  # symmetric, descending
    dense: NDArray[np.complex128]  # n x n, by modulus
    agreement: float  # least |cosine| between function values of the six leading pairs
    between: Array  # eigenvalues of Delta Delta'
    correlation: Array  # multiple correlation of the leading functions with the codes


@cache
def pencil(name: str, column: int, eta: float = ETA) -> Pencil:
    """``Gamma K A = tau (Delta + n eta I) A`` against ``Sig_T w = tau (Sig_W + eta I) w``."""
    case = load_case(name)
    s, K = case.S_train[:, column], oracle.rbf(case.X_train, case.X_train, case.gamma)
    n, psi, B = len(s), coordinates(K), within(s)
    gamma = np.eye(n) - 1.0 / n
    values, vectors = scipy.linalg.eig(gamma @ K, B @ K + n * eta * np.eye(n))
    order = np.argsort(-np.abs(values), kind="stable")
    total, inside = psi.T @ gamma @ psi / n, psi.T @ B @ psi / n
    tau, W = paper_directions(total, inside, eta, psi.shape[1])
    theirs = K @ np.real(vectors[:, order[:6]])
    ours = psi @ W[:, :6]
    cosine = (theirs * ours).sum(axis=0) / np.linalg.norm(theirs, axis=0)
    cosine /= np.linalg.norm(ours, axis=0)
    spread = np.einsum("ij,ij->j", W, (total - inside) @ W) / np.einsum("ij,ij->j", W, total @ W)
    return Pencil(
        n,
        len(np.unique(s)),
        np.linalg.eigvalsh(total)[::-1],
        tau,
        values[order],
        float(np.abs(cosine).min()),
        np.linalg.eigvalsh(total - inside)[::-1],
        np.sqrt(np.maximum(spread, 0.0)),
    )


def table() -> list[str]:
    """The two pencils, and how many eigenvalues are about S."""
    lines = [
        "| rows, attribute | n | levels | tau above 1 | tau of number r | tau of "
        "number r + 1 | its limits (4) | its correlation with S |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for label, (name, column) in PENCILS.items():
        p = pencil(name, column)
        r = p.levels - 1
        low, high = (p.spectrum[i] / (p.spectrum[i] + ETA) for i in (r, 0))
        lines.append(
            f"| {label} | {p.n} | {p.levels} | "
            f"{int((p.tau > 1.0).sum())} | {p.tau[r - 1]:.3f} | {p.tau[r]:.4f} | {low:.4f} to "
            f"{high:.4f} | {p.correlation[r]:.3f} |"
        )
    return lines


def claims() -> Iterator[Measurement]:
    """The pencils are one, and what the eigenvalues are about."""
    found = [pencil(*where) for where in PENCILS.values()]
    apart = max(float(np.abs(p.dense[:6] - p.tau[:6]).max()) for p in found)
    yield at_most("theorem 1: largest difference of six leading tau", apart, 1e-8)
    cosine = max(1.0 - p.agreement for p in found)
    yield at_most("theorem 1: 1 less the cosine of their functions", cosine, 1e-8)
    imaginary = max(float(np.abs(p.dense.imag).max()) for p in found)
    yield at_most("theorem 1: largest imaginary part of any tau", imaginary, 1e-6)
    count = max(abs(int((p.tau > 1).sum()) - int((p.between > ETA).sum())) for p in found)
    yield at_most("proposition 1: error of the number of tau above 1", count, 0)
    yield at_most("proposition 1: excess over the limits (4)", max(map(excess, found)), 1e-9)


def excess(p: Pencil) -> float:
    """How far any tau lies outside (4); not above zero where the proposition holds."""
    limit = p.spectrum / (p.spectrum + ETA)
    r, k = p.levels - 1, len(p.tau)
    return float(max((limit[:k] - p.tau).max(), (p.tau[r:] - limit[: k - r]).max()))
