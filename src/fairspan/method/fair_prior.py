"""The prior on all of the fair subspace F: its principal components, and lengths under it (METHOD 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.linalg import Array, is_tensor, psd_eigh, to_float64
from fairspan.method.solution import FairGeometry, Solution
from fairspan.method.spaces import AngleSpace, FairSpace, Model, certify, worst_correlation
from fairspan.method.subspaces import (
    PathMoments,
    blend,
    path_moments,
    ridge_head,
    smallest_fairness,
    supremum,
)
from fairspan.method.torch_columns import compute_dtype, exact_float32, row_blocks

# Components of the fair subspace that "auto" keeps, as a share of its variance.
FAIR_VARIANCE = 0.99
# Dial values tried for dial="correlation" on components: each costs an eigendecomposition.
_N_SCAN = 41
# Rows whose coordinates are held at once: 16 MiB at D = 1000.
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class FairComponents(AngleSpace):
    """Leading principal components of psi under the fair prior: representations of F."""

    @property
    def _fair(self) -> FairGeometry:
        assert self.solution.fair is not None
        return self.solution.fair

    def within(self, limit: float) -> tuple[float, float]:
        """Smallest fairness whose score keeps a correlation, and the correlation it reaches."""
        if limit <= 0.0 or len(self.solution.pair.angles) == 0:
            return 1.0 - limit, limit

        def worst(fairness: float) -> float:
            # The head sees the components that are kept, so this path differs from that of FairLine.
            _, _, path, coef = self._components(fairness)
            return worst_correlation(self.solution, path, coef)

        return smallest_fairness(worst, limit, _N_SCAN, tol=1e-11)

    def model(self, fairness: float, angles: Array) -> Model:  # noqa: ARG002
        """Components and their ridge head at a point of the angle scale."""
        solution = self.solution
        space, E, path, coef = self._components(fairness)
        outside, lost = self._gaps(E, fairness)
        k = E.shape[1]
        return Model(
            fairness=fairness,
            directions=E,
            offset=E.T @ solution.mean,
            coef=coef,
            intercept=solution.target_mean,
            blend=np.eye(k),
            claims=certify(path, solution.reports, np.eye(k), coef),
            angles=(1.0 - fairness) * solution.pair.angles,
            containment_gap=outside,
            accuracy_gap=lost,
            n_functions=k,
            fair_space=space,
        )

    def _components(self, fairness: float) -> tuple[FairSpace, Array, PathMoments, Array]:
        """The prior, its components E, their moments and their ridge head."""
        fair, eta_y = self._fair, self.solution.eta_y
        cov, N = fair.cov, fair.removed
        t = self._shrinkage(fairness)
        space = FairSpace(N, fair_root(fair.inner, t, eta_y))

        def root(columns: Array) -> Array:
            return columns - N @ (space.half @ (N.T @ columns))

        whitened = root(root(cov).T)
        variances, components = psd_eigh((whitened + whitened.T) / 2.0)
        variances = np.maximum(variances, 0.0)
        # Below fairness 1 the removed directions are shrunk, not gone.
        k = self._n_components(variances, len(cov) - (N.shape[1] if t == 1.0 else 0))
        E = root(components[:, :k])
        E = E * np.where(E[np.argmax(np.abs(E), axis=0), np.arange(k)] < 0.0, -1.0, 1.0)
        path = path_moments(
            E, cov, fair.cross, np.zeros(len(cov)), fair.block_cov, fair.block_delta
        )
        # The prior's own norm is Euclidean in the coordinates of the components.
        path = replace(path, gram=np.eye(k))
        return space, E, path, ridge_head(path, np.eye(k), eta_y)

    def _gaps(self, E: Array, fairness: float) -> tuple[float, float]:
        """``|(I - P_F) P_M|`` and ``|(I - P_M) P_G|`` of the span of E, which is no blend of G and F."""
        fair, pair = self._fair, self.solution.pair

        def inner(a: Array, b: Array) -> Array:
            if not self.config.variant.exact:
                return a.T @ b
            return a.T @ (fair.cov @ b + self.solution.eta_y * b)

        gram = inner(E, E)
        outside = 0.0
        if fairness < 1.0 and fair.removed.shape[1]:
            # The part of h outside F has the squared length h'N (N'R^-1N)^-1 N'h.
            factor = scipy.linalg.cholesky(fair.inner, lower=True)
            covectors = scipy.linalg.solve_triangular(factor, fair.removed.T @ E, lower=True).T
            outside, _ = supremum(gram, covectors)
        G = self.solution.basis @ blend(pair, pair.angles)
        if G.shape[1] == 0:
            return outside, 0.0
        if E.shape[1]:
            G = G - E @ scipy.linalg.lstsq(gram, inner(E, G), cond=1e-14)[0]
        lost = psd_eigh(inner(G, G))[0][0]
        return outside, float(np.sqrt(np.clip(lost, 0.0, 1.0)))

    def _shrinkage(self, fairness: float) -> float:
        """Shrinkage t of the prior at a point of the angle scale."""
        given, angles = self.config.fairness, self.solution.pair.angles
        if fairness >= 1.0:
            return 1.0
        if not self.config.variant.exact:
            raise ValueError(
                f"fairness={given} with subspace='fair' and method='paper': the paper has all of F "
                f"only at the fair end. Use fairness=1, or method='optimal'."
            )
        if len(angles) == 0:
            raise ValueError(
                f"fairness={given} with subspace='fair' needs y: the dial is read on the angle "
                f"between the best predictor of y and the fair subspace. Pass y, or fairness=1."
            )
        # One prior for all outputs, so the widest angle decides.
        theta = float(angles.max())
        if theta < 1e-8:
            return fairness
        if np.cos(theta) <= 1e-7:
            return 1.0 if fairness > 0.0 else 0.0
        return 1.0 - float(np.tan((1.0 - fairness) * theta) / np.tan(theta))

    def _n_components(self, variances: Array, limit: int) -> int:
        limit = min(limit, int((variances > 1e-12 * variances[0]).sum()))
        wanted = self.config.n_predictive_directions
        if isinstance(wanted, str):
            if limit == 0:  # `solve` has warned that F is empty
                return 0
            share = np.cumsum(variances) / variances.sum()
            return min(limit, int(np.searchsorted(share, FAIR_VARIANCE)) + 1)
        if int(wanted) > limit:
            raise ValueError(
                f"n_predictive_directions={wanted} is more than the {limit} components the fair subspace "
                f"has. Give at most {limit}, or 'auto'."
            )
        return int(wanted)


def fair_root(inner: Array, t: float, eta_y: float) -> Array:
    """Compute the q x q middle of ``C_t^1/2 = I - N half N'``: ``half = I - (I - shrink)^1/2``."""
    q = len(inner)
    if t == 0.0:
        return np.zeros((q, q))
    ridge = (1.0 - t) / t * eta_y
    shrink = np.linalg.inv(np.eye(q) + ridge * inner)
    values, vectors = psd_eigh((shrink + shrink.T) / 2.0)
    return np.asarray((vectors * (1.0 - np.sqrt(np.clip(1.0 - values, 0.0, 1.0)))) @ vectors.T)


def squared_lengths(solution: Solution, features: LandmarkMap | TransformerMap, X: Array) -> Array:
    """``|u|^2`` and ``|Q'u|^2`` of ``u = L^-1 (psi - mu)``, (n, 2); Q is ``outside``, empty on new rows.

    The posterior variance on all of F is ``(|u|^2 - t |Q'u|^2)/T`` in units of the noise.
    """
    fair = solution.fair
    factor = solution.factor if fair is None else fair.factor
    assert factor is not None
    outside = np.zeros((len(factor), 0)) if fair is None else fair.outside
    if is_tensor(X):
        return _tensor_lengths(solution.mean, factor, outside, features, X)
    out = np.empty((len(X), 2))
    for start in range(0, len(X), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        psi = features.coordinates(X[rows]) - solution.mean
        u = scipy.linalg.solve_triangular(factor, psi.T, lower=True).T
        out[rows, 0] = np.einsum("ij,ij->i", u, u)
        out[rows, 1] = ((u @ outside) ** 2).sum(axis=1)
    return out


def _tensor_lengths(
    mean: Array, L: Array, Q: Array, features: LandmarkMap | TransformerMap, X: Any
) -> Array:
    """The same on the device of the rows; only two numbers per row are copied to the host."""
    import torch

    dtype, device = compute_dtype(X), X.device
    psi_on = features.psi_on(device, dtype)
    factor, outside, centre = (torch.tensor(v, dtype=dtype, device=device) for v in (L, Q, mean))
    out = torch.empty((len(X), 2), dtype=dtype, device=device)
    with exact_float32(dtype):
        for rows in row_blocks(X, 2 * len(mean)):
            psi = psi_on(X[rows]).sub_(centre)
            u = torch.linalg.solve_triangular(factor, psi.T, upper=False)
            out[rows, 0] = u.square().sum(dim=0)
            out[rows, 1] = (outside.T @ u).square().sum(dim=0)
    lengths: Array = to_float64(out)
    return lengths
