"""An independent dense oracle: n x n kernel matrices and dual coefficients, no feature map.

A function is ``f = sum_i a_i k(., x_i)``, given by its dual vector ``a``; ``<f, h>_H = a'Kb``;
its centred value at z is ``(k(z, X) - weighted column means of K) a``. Slow and plain on purpose:
nothing is shared with the library, which computes in feature coordinates.

* ``paper_model``: Algorithms 1 and 2 of "Learning Fair Representations for Kernel Models".
* ``dense_optimal``: the library's default method (exact removal, all directions, ridge head).
* ``constrained_kernel_ridge_kkt``: its fully fair end by brute force.

``P`` below is ``diag(w)/T``, ``p = w/T`` and ``Wt = P - pp'``, so that with training values
``Ka`` and ``Kb`` of two functions ``Cov(f, h) = a'K Wt K b``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Inner = Callable[[Array, Array], Array]
Criterion = Literal["sp", "eop", "eo"]
Route = Literal["literal", "residual"]
Removal = Literal["paper", "conditional", "exact"]
Geometry = Literal["optimal", "rkhs"]

# A Gram matrix knows a norm to about the root of machine epsilon, times the size of the rest.
RANK_TOL = 1e-7
SINE_TOL = 1e-12
COSINE_TOL = 1e-7


# --------------------------------------------------------------------------------------------
# Shared pieces
# --------------------------------------------------------------------------------------------
def rbf(X: ArrayLike, Z: ArrayLike, gamma: float) -> Array:
    """Return ``exp(-gamma |x - z|^2)`` from explicit differences (no cancellation)."""
    difference = np.asarray(X, float)[:, None, :] - np.asarray(Z, float)[None, :, :]
    return np.asarray(np.exp(-gamma * np.einsum("ijk,ijk->ij", difference, difference)))


def criterion_cells(criterion: Criterion, y: ArrayLike, positive: float = 1.0) -> list[Mask]:
    """Return the rows on which independence must hold (Algorithm 1's ``pos`` and ``neg``)."""
    pos: Mask = np.asarray(y) == positive
    if criterion == "sp":
        return [np.ones(len(pos), dtype=bool)]
    return [pos] if criterion == "eop" else [pos, ~pos]


def abs_corr(f: ArrayLike, S: ArrayLike, cells: Sequence[Mask]) -> dict[str, list[float]]:
    """Return the largest |corr| over cells per attribute: with the code, and with its levels."""
    values, table = np.asarray(f, float), np.asarray(S, float)
    code, level = [], []
    for s in table.T:
        code.append(max(_corr(values[c], s[c]) for c in cells))
        level.append(max(_corr(values[c], s[c] == h) for c in cells for h in np.unique(s[c])))
    return {"code": code, "level": level}


def _corr(f: Array, s: NDArray[np.generic]) -> float:
    return abs(float(np.corrcoef(f, s.astype(float))[0, 1]))


def _rkhs_inner(K: Array) -> Inner:
    """``<f, h>_H = a'Kb``."""
    return lambda A, B: A.T @ (K @ B)


def _optimal_inner(K: Array, p: Array, eta_y: float) -> Inner:
    """``<f, h>_R = Cov(f, h) + eta_y <f, h>_H = a'K(Wt K + eta_y I)b``."""
    return lambda A, B: (K @ A).T @ (_cov_weights(p, K @ B) + eta_y * B)


def _cov_weights(p: Array, V: Array) -> Array:
    """Return ``Wt V`` with ``Wt = diag(p) - pp'``."""
    return p[:, None] * (V - p @ V)


def _solve(A: Array, B: Array) -> Array:
    return np.asarray(np.linalg.solve(A, B), dtype=np.float64)


def _norms(B: Array, inner: Inner) -> Array:
    """Return the norm of every column."""
    squares = [inner(b[:, None], b[:, None])[0, 0] for b in B.T]
    return np.asarray(np.sqrt(np.maximum(np.array(squares, dtype=float), 0.0)))


def orthonormalise(B: Array, inner: Inner, tol: float = RANK_TOL) -> Array:
    """Pivoted Gram-Schmidt, every projection done twice; stops at ``tol`` of the largest norm."""
    rest, kept = B.copy(), np.empty((len(B), 0))
    first = 0.0
    while rest.shape[1]:
        norms = _norms(rest, inner)
        pivot = int(np.argmax(norms))
        first = first or float(norms[pivot])
        if norms[pivot] <= tol * first:
            break
        kept = np.column_stack([kept, rest[:, pivot] / norms[pivot]])
        rest = np.delete(rest, pivot, axis=1)
        for _ in range(2):
            rest = rest - kept @ inner(kept, rest)
    return kept


@dataclass(frozen=True)
class PrincipalVectors:
    """Principal angles between G and the fair space F, the complement of span N.

    By cosine, descending: ``g_i = cosine_i u_i + sine_i n_i``, u in F, n in span N.
    """

    cosine: Array
    sine: Array
    g: Array
    u: Array
    n: Array

    @property
    def theta(self) -> Array:
        """The angles, from both sine and cosine."""
        return np.asarray(np.arctan2(self.sine, self.cosine))


def principal_vectors(N: Array, G: Array, inner: Inner) -> PrincipalVectors:
    """Return principal vectors; N and G have columns orthonormal in ``inner``."""
    d, q = G.shape[1], N.shape[1]
    left, s, right = np.linalg.svd(inner(N, G), full_matrices=True)
    sine, n = np.zeros(d), np.zeros_like(G)
    sine[: len(s)], n[:, : len(s)] = s, N @ left[:, : min(q, d)]
    g = G @ right.T
    residual = g
    for _ in range(2):
        residual = residual - N @ inner(N, residual)
    cosine = _norms(residual, inner)
    u = residual / np.maximum(cosine, np.finfo(float).tiny)
    order = np.argsort(-cosine, kind="stable")
    return PrincipalVectors(cosine[order], sine[order], g[:, order], u[:, order], n[:, order])


# --------------------------------------------------------------------------------------------
# The paper
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PaperBlock:
    """Leading eigenvalues of one SDR problem."""

    attribute: int
    rows: str
    tau: Array


@dataclass(frozen=True)
class PaperModel:
    """The model of one eps: ``mean(z) = intercept + Pi(z) alpha``."""

    eps: float
    gamma: Array
    rho: Array
    E: Array
    Pi: Array
    alpha: Array
    intercept: float
    column_means: Array

    def scores(self, Kz: Array) -> Array:
        """Return ``Pi(z) = (k(z, X) - 1 1'K/n) E``."""
        return np.asarray((Kz - self.column_means) @ self.E)

    def predict(self, Kz: Array) -> Array:
        """Return the mean at the rows of ``Kz = k(z, X)``."""
        return np.asarray(self.intercept + self.scores(Kz) @ self.alpha)


@dataclass(frozen=True)
class PaperFit:
    """All that Algorithm 1 computes, and one model per eps."""

    tau_y: Array
    blocks: list[PaperBlock]
    n_removed: int
    sigma: Array
    models: list[PaperModel]


def paper_model(
    K: Array,
    y: ArrayLike,
    S: ArrayLike,
    *,
    criterion: Criterion,
    m: int,
    d: int,
    eta: float,
    eps_list: Sequence[float],
    route: Route = "literal",
    removal: Removal = "paper",
) -> PaperFit:
    """Run Algorithm 1 for every eps.

    ``route="literal"`` uses the printed formulas; ``"residual"`` a symmetric eigenproblem and no
    null space. ``removal`` decides which functions leave the fair space: ``"paper"`` covariances
    over all rows, ``"conditional"`` over the cell's rows, ``"exact"`` all slice-mean differences.
    """
    y, S = np.asarray(y, float), np.asarray(S, float)
    names = {"sp": ["all"], "eop": ["y==1"], "eo": ["y==1", "y!=1"]}[criterion]
    blocks, removed = [], []
    for name, cell in zip(names, criterion_cells(criterion, y), strict=True):
        for j, s in enumerate(S.T):
            tau, W = sdr(K[np.ix_(cell, cell)], s[cell], m, eta, route)
            blocks.append(PaperBlock(j, name, tau))
            removed.append(_removed_functions(K, W, s, cell, removal))
    tau_y, A = sdr(K, y, d, eta, route)
    C = np.column_stack(removed)
    sigma, basis = (_literal_basis if route == "literal" else _residual_basis)(K, C, A)
    models = [_paper_head(K, y, eps, *basis(eps)) for eps in eps_list]
    return PaperFit(tau_y, blocks, C.shape[1], sigma, models)


def sdr(K: Array, s: Array, m: int, eta: float, route: Route) -> tuple[Array, Array]:
    """Algorithm 2, eq. (rkhs-eig): m largest ``|tau|``, ``Gamma K A = tau (Delta + n eta I) A``."""
    n = len(s)
    gamma = np.eye(n) - 1.0 / n
    within = _slice_centring(s)
    if route == "literal":
        values, vectors = scipy.linalg.eig(gamma @ K, within @ K + n * eta * np.eye(n))
        order = np.argsort(-np.abs(values), kind="stable")[:m]
        return np.real(values[order]), np.real(vectors[:, order])
    return _symmetric_sdr(K, gamma, within, m, eta)


def _slice_centring(s: Array) -> Array:
    """``diag(Gamma_{n_i})`` for one slice per distinct value, rows in their own order."""
    same = (s[:, None] == s[None, :]).astype(float)
    return np.asarray(np.eye(len(s)) - same / same.sum(axis=1, keepdims=True))


def _symmetric_sdr(
    K: Array, gamma: Array, within: Array, m: int, eta: float
) -> tuple[Array, Array]:
    """The same pencil for ``v = K^1/2 A``, symmetric definite; no inverse of K or its root.

    ``H Gamma H v = tau (H within H + n eta I) v`` with H the symmetric root; the eigenproblem
    itself then gives ``A = (Gamma H v / tau - within H v) / (n eta)``.
    """
    n = len(K)
    values, vectors = np.linalg.eigh(K)
    H = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    tau, v = scipy.linalg.eigh(H @ gamma @ H, H @ within @ H + n * eta * np.eye(n))
    order = np.argsort(-np.abs(tau), kind="stable")[:m]
    Hv = H @ v[:, order]
    return tau[order], (gamma @ Hv / tau[order] - within @ Hv) / (n * eta)


def _removed_functions(K: Array, W: Array, s: Array, cell: Mask, removal: Removal) -> Array:
    """Dual vectors of the functions that F is orthogonal to, zero-padded to all rows."""
    n, rows = len(s), np.flatnonzero(cell)
    if removal == "paper":  # "Estimating the Fair Subspace": W'K Gamma K Q = 0, all rows
        padded = np.zeros((n, W.shape[1]))
        padded[rows] = W
        values = K @ padded
        return np.asarray(values - values.mean(axis=0))
    if removal == "conditional":  # the same covariance over the cell
        values = K[np.ix_(rows, rows)] @ W
        part = values - values.mean(axis=0)
    else:  # slice mean minus cell mean: H - 1 of them are independent
        levels = np.unique(s[rows])[:-1]
        member = (s[rows][:, None] == levels).astype(float)
        part = member / member.sum(axis=0) - 1.0 / len(rows)
    C = np.zeros((n, part.shape[1]))
    C[rows] = part
    return C


Basis = Callable[[float], tuple[Array, Array, Array]]


def _literal_basis(K: Array, C: Array, A: Array) -> tuple[Array, Basis]:
    """Null space of C'K by QR, then eqs. (ortho-bases) and (model-basis) as printed.

    Returns sigma and the map from eps to (gamma, rho, E).
    """
    k = C.shape[1]
    Q = np.linalg.qr(K @ C, mode="complete")[0][:, k:]
    QML = _inverse_root_basis(Q, K)  # Q M Lambda^-1/2
    ATO = _inverse_root_basis(A, K)  # A T Omega^-1/2
    U, sigma, Vt = np.linalg.svd(QML.T @ K @ ATO, full_matrices=False)
    fair, predictive = QML @ U, ATO @ Vt.T

    def basis(eps: float) -> tuple[Array, Array, Array]:
        gamma = np.maximum(sigma, eps)
        gap = 1.0 - sigma**2
        open_ = gap > SINE_TOL
        ratio = np.maximum(1.0 - gamma**2, 0.0) / np.where(open_, gap, 1.0)
        rho = np.where(open_, np.sqrt(ratio), 0.0)
        return gamma, rho, fair * (gamma - rho * sigma) + predictive * rho

    return sigma, basis


def _inverse_root_basis(B: Array, K: Array) -> Array:
    """RKHS-orthonormal basis of span phi B by the eigenpairs of B'KB above rounding."""
    values, vectors = np.linalg.eigh(B.T @ K @ B)
    keep = values > values[-1] * np.finfo(float).eps
    return np.asarray(B @ vectors[:, keep] / np.sqrt(values[keep]))


def _residual_basis(K: Array, C: Array, A: Array) -> tuple[Array, Basis]:
    """Eq. (model-basis) from the residual of G after the removed functions.

    Returns sigma and the map from eps to (gamma, rho, E): ``gamma - rho sigma`` times the fair
    vector plus rho times the predictive one is ``cos(a) u + sin(a) n`` with gamma = cos(a).
    """
    inner = _rkhs_inner(K)
    pv = principal_vectors(orthonormalise(C, inner), orthonormalise(A, inner), inner)

    def basis(eps: float) -> tuple[Array, Array, Array]:
        a = np.minimum(pv.theta, np.arccos(eps))
        open_ = pv.sine > SINE_TOL
        rho = np.where(open_, np.sin(a) / np.where(open_, pv.sine, 1.0), 0.0)
        gamma = np.maximum(pv.cosine, eps)
        return gamma, rho, pv.u * np.cos(a) + pv.n * np.sin(a)

    return pv.cosine, basis


def _paper_head(K: Array, y: Array, eps: float, gamma: Array, rho: Array, E: Array) -> PaperModel:
    """Scores of eq. (FGP), first row positive, and least squares of y on [1, Pi]."""
    means = K.mean(axis=0)
    Pi = (K - means) @ E
    Pi = Pi - Pi.mean(axis=0)  # zero but for rounding, which large duals amplify
    sign = np.where(Pi[0] < 0, -1.0, 1.0)
    E, Pi = E * sign, Pi * sign
    coef = np.linalg.lstsq(np.column_stack([np.ones(len(y)), Pi]), y, rcond=None)[0]
    return PaperModel(eps, gamma, rho, E, Pi, coef[1:], float(coef[0]), means)


# --------------------------------------------------------------------------------------------
# The default method, densely
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CodeBlock:
    """Codes of one attribute (n x levels, any values outside ``rows``) and the rows to use."""

    rows: Mask
    codes: Array


def level_codes(s: ArrayLike) -> Array:
    """Return the level indicators of a categorical attribute; rows of NaN where it is NaN."""
    values = np.asarray(s)
    missing = values != values
    codes = np.asarray(values[:, None] == np.unique(values[~missing]), dtype=float)
    codes[missing] = np.nan
    return codes


def column_codes(s: ArrayLike) -> Array:
    """Return a numeric attribute as one column."""
    return np.asarray(s, dtype=float).reshape(-1, 1)


def code_blocks(codes: Sequence[Array], cells: Sequence[Mask]) -> list[CodeBlock]:
    """Cross attributes and cells; rows whose code is not finite leave that block.

    No rule for small categories or slices is applied: merge or leave them out beforehand.
    """
    return [CodeBlock(cell & np.isfinite(c).all(axis=1), c) for cell in cells for c in codes]


def code_covectors(blocks: Sequence[CodeBlock], w: ArrayLike | None, n: int) -> Array:
    """Return C (n x q) with ``C'f(X)`` = covariances in the cells of f with whitened codes.

    Row i of a block is ``w_i (code_i - mean) / T_b``, whitened on its rows: columns of zero sum,
    zero outside the rows, as many as the codes have rank there.
    """
    weight = np.ones(n) if w is None else np.asarray(w, float)
    columns = [np.empty((n, 0))]
    for block in blocks:
        rows = np.flatnonzero(block.rows & (weight > 0))
        if len(rows):
            part = _whitened(block.codes[rows], weight[rows] / weight[rows].sum())
            padded = np.zeros((n, part.shape[1]))
            padded[rows] = part
            columns.append(padded)
    return np.column_stack(columns)


def _whitened(codes: Array, p: Array) -> Array:
    """Return ``p_i (code_i - mean) V diag(v)^-1/2``; a constant code gives no column."""
    centred = codes - p @ codes
    values, vectors = np.linalg.eigh(centred.T @ (p[:, None] * centred))
    rounding = 1e-14 * float(np.max(p @ codes**2))
    keep = values > max(1e-10 * float(values[-1]), rounding)
    return np.asarray(p[:, None] * (centred @ vectors[:, keep] / np.sqrt(values[keep])))


@dataclass(frozen=True)
class DenseModel:
    """A fitted dense model. Columns of E, Pi and entries of the angles go by cosine, descending.

    ``sigma``, ``sine``, ``theta`` belong to all d principal directions; ``angles`` a_i, E, Pi and
    beta to those in the model. ``rows`` are the rows of positive weight.
    """

    sigma: Array
    sine: Array
    theta: Array
    angles: Array
    n_removed: int
    E: Array
    Pi: Array
    beta: Array
    intercept: Array
    column_means: Array
    rows: NDArray[np.intp]

    def scores(self, Kz: Array) -> Array:
        """Return ``Pi(z) = (k(z, X) - p'K) E`` for ``Kz = k(z, X)``, X all rows given to fit."""
        return np.asarray((Kz[:, self.rows] - self.column_means) @ self.E)

    def predict(self, Kz: Array) -> Array:
        """Return ``b0 + Pi(z) beta``: one column per class, one dimension for regression."""
        return np.asarray(self.intercept + self.scores(Kz) @ self.beta)


def dense_optimal(
    K: Array,
    y: ArrayLike,
    blocks: Sequence[CodeBlock],
    *,
    eta_y: float,
    fairness: float,
    geometry: Geometry = "optimal",
    classes: bool = False,
    sample_weight: ArrayLike | None = None,
) -> DenseModel:
    """Fit with exact removal, all directions, ``dial="angle"`` and the ridge head.

    With ``classes`` the outputs are the indicator columns of ``np.unique(y)`` and the predictive
    space is that of their canonical directions, which is the span of their kernel ridge fits.
    """
    n = len(K)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    rows = np.flatnonzero(weight > 0)
    K, p = K[np.ix_(rows, rows)], weight[rows] / weight[rows].sum()
    target = np.asarray(y)[rows]
    Y = level_codes(target) if classes else column_codes(target)
    C = code_covectors(blocks, weight, n)[rows]

    # R^-1 of the covector Phi'c is Phi'(Wt K + eta_y I)^-1 c.
    operator = _cov_weights(p, K) + eta_y * np.eye(len(rows))
    ridge = _solve(operator, _cov_weights(p, Y))
    optimal = _optimal_inner(K, p, eta_y)
    inner = optimal if geometry == "optimal" else _rkhs_inner(K)
    N = orthonormalise(_solve(operator, C) if geometry == "optimal" else C, inner)
    G = orthonormalise(_unit(ridge, inner), inner)
    pv = principal_vectors(N, G, inner)
    a, E = _blend(pv, fairness)

    # beta = (E'(Sig + eta_y I)E)^-1 E'Cov(psi, y)
    cross = (K @ E).T @ _cov_weights(p, Y)
    E, cross = _positive_with_y(E, cross)
    beta = _solve(optimal(E, E), cross)
    means, intercept = p @ K, p @ Y
    if not classes:
        beta, intercept = beta[:, 0], intercept[0]
    Pi = (K - means) @ E
    return DenseModel(
        pv.cosine, pv.sine, pv.theta, a, N.shape[1], E, Pi, beta, intercept, means, rows
    )


def _unit(B: Array, inner: Inner) -> Array:
    norms = _norms(B, inner)
    return np.asarray(B[:, norms > 0] / norms[norms > 0])


def _blend(pv: PrincipalVectors, fairness: float) -> tuple[Array, Array]:
    """``e_i = cos(a_i) u_i + sin(a_i) n_i``, a_i = (1-fairness) theta_i; no partner: g or none."""
    a = (1.0 - fairness) * pv.theta
    E = np.where(pv.sine <= SINE_TOL, pv.g, pv.u * np.cos(a) + pv.n * np.sin(a))
    alone = pv.cosine <= COSINE_TOL
    E = np.where(alone, pv.g, E)
    keep = ~alone | (fairness == 0.0)
    return a[keep], E[:, keep]


def _positive_with_y(E: Array, cross: Array) -> tuple[Array, Array]:
    """Sign of each column: positive covariance with the output of largest |covariance|."""
    if not E.shape[1]:
        return E, cross
    largest = np.argmax(np.abs(cross), axis=1)
    sign = np.where(cross[np.arange(len(cross)), largest] < 0, -1.0, 1.0)
    return E * sign, cross * sign[:, None]


# --------------------------------------------------------------------------------------------
# Brute force
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RidgeFit:
    """A kernel expansion with an intercept: ``b0 + k(z, X) a`` (uncentred)."""

    a: Array
    b0: Array

    def predict(self, Kz: Array) -> Array:
        """Return the values at the rows of ``Kz = k(z, X)``."""
        return np.asarray(self.b0 + Kz @ self.a)


def constrained_kernel_ridge_kkt(
    K: Array, y: ArrayLike, C: Array, eta_y: float, w: ArrayLike | None = None
) -> RidgeFit:
    """Minimise ``sum w (y - b0 - f)^2/T + eta_y |f|_H^2`` subject to ``C'f(X) = 0``.

    C as from ``code_covectors`` (columns of zero sum; none: plain kernel ridge); positive
    weights. One linear system in (a, b0, multipliers), y a vector or columns::

        P(Ka + b0 1 - y) + eta_y a + C lam = 0
        p'(Ka + b0 1 - y)                  = 0
        C'Ka                               = 0
    """
    n = len(K)
    weight = np.ones(n) if w is None else np.asarray(w, float)
    p = weight / weight.sum()
    U, s, _ = np.linalg.svd(C, full_matrices=False)
    U = U[:, s > 1e-10 * s.max(initial=0.0)]
    q = U.shape[1]
    system = np.zeros((n + 1 + q, n + 1 + q))
    system[:n, :n] = p[:, None] * K + eta_y * np.eye(n)
    system[:n, n], system[:n, n + 1 :] = p, U
    system[n, :n], system[n, n] = p @ K, 1.0
    system[n + 1 :, :n] = U.T @ K
    Y = np.asarray(y, float)
    right = np.zeros((n + 1 + q, *Y.shape[1:]))
    right[:n], right[n] = (p * Y.T).T, p @ Y
    solution = _solve(system, right)
    return RidgeFit(solution[:n], solution[n])
