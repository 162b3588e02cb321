"""Proxies inside a model: the component of a linear score most correlated with an attribute.

A score ``f = sum_i beta_i Z_i`` may be fair while components of it are not, because they cancel out.
Proxy nondiscrimination (Datta et al. 2017) considers every component ``sum_i c_i beta_i Z_i`` with c
in [0, 1]^d. A correlation does not depend on the scale of c, so components are the rays of a convex
cone, and the ray closest to S in angle is the projection of S on that cone: non-negative least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import nan

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from fairspan.auditing.reading import Protected
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import ALL, renumbered, resample, strata_of_clusters

_CONSTANT = 1e-12  # range of a column against its size
_ABSENT = 1e-8  # standard deviation in the rows searched against that in all rows
_NOTHING = 1e-100  # contribution of a coordinate against the largest
_BLOCK = 1000  # rows of a block; a block that stays in cache halves the time
_FEW = 10  # least rows, or clusters, of one half for a held-out correlation


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The component of a score that correlates most with a protected attribute.

    Attributes
    ----------
    attribute : str
    level : level that the component separates from the others; "" for numbers and for two levels,
        where a positive correlation is with the second label.
    output : column of ``beta``.
    correlation : of the component with S, signed; 0 if no component correlates.
    coefficients : (d,) c in [0, 1], the largest is 1.
    variance_share : Var(component) / Var(f), for the largest possible c.
    negligible : whether the share is below ``min_share``.
    names : coordinates used, largest contribution ``c |beta| sd(Z)`` first.
    held_out : correlation with S, on one half of the rows, of the component found on the other half;
        average over both halves, with the sign of ``correlation`` if confirmed.
    low, high : bootstrap interval of ``held_out``, for the two components as found.
    n_rows : int
    note : reason of a missing number; usually "".
    material : if this component is negligible, the most correlated one that is not, if known.
    """

    attribute: str
    level: str = ""
    output: int = 0
    correlation: float = nan
    coefficients: Array
    variance_share: float = nan
    negligible: bool = False
    names: tuple[str, ...] = ()
    held_out: float = nan
    low: float = nan
    high: float = nan
    n_rows: int
    note: str = ""
    material: Proxy | None = None


def proxy_component(
    Z: Array,
    beta: Array,
    protected: Protected,
    names: Sequence[str],
    *,
    weight: Array,
    min_share: float = 0.01,
    level: float = 0.95,
    n_boot: int = 200,
    rng: np.random.Generator,
    clusters: Codes | None = None,
) -> Proxy:
    """Find the component ``sum_i c_i beta_i Z_i``, c in [0, 1]^d, most correlated with S (exactly).

    Every output, every level of a categorical attribute and both signs are searched; the result is
    the worst of them.

    If the worst component is negligible, a second search is among those with at least ``min_share`` of
    the variance of f. That set is not convex, yet the problem is: a component larger than needed can
    be shrunk to exactly that variance at the same correlation. So the best one maximises the
    covariance with S under ``Var(component) <= min_share Var(f)``, a convex problem, whenever its
    solution has that variance. It has less only if all coordinates with a positive covariance with S
    together are a negligible component; ``note`` then reports a bound instead.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Coordinates of the representation.
    beta : ndarray of shape (d,) or (d, n_outputs)
        Coefficients of the score.
    protected : Protected
        The attribute.
    names : sequence of str
        Names of the coordinates.
    weight : ndarray of shape (n,)
        Weights of the rows.
    min_share : float, default=0.01
        Components with a smaller share of the variance of the score are negligible.
    level : float, default=0.95
        Level of the interval.
    n_boot : int, default=200
        Number of resamples.
    rng : Generator
        Source of the halves of the rows and of the resamples.
    clusters : ndarray of shape (n,), optional
        Rows that belong together; halves and resamples have whole clusters. Default: independent rows.

    Returns
    -------
    Proxy
        Numbers are NaN, with a note, where the score or the attribute is constant.
    """
    n, d = Z.shape
    beta = np.asarray(beta, dtype=np.float64).reshape(d, -1)
    if len(names) != d:
        raise ValueError(f"{len(names)} names were given for {d} coordinates")
    labels, targets = _targets(protected)
    columns, spread = _standardize(Z, weight)
    sizes = np.abs(beta) * spread[:, None]
    signs = np.sign(beta)
    score = _Score(
        columns=columns, targets=targets, weight=weight, signs=signs, sizes=sizes, clusters=clusters
    )
    halves = _halves(protected.codes, clusters, rng)
    triangles = [score.triangle(half) for half in halves]
    whole = _triangle(np.vstack(triangles))

    def proxy(best: _Component, least: float) -> Proxy:
        held_out = score.held_out(triangles, halves, least, level, n_boot, rng)
        ends = sorted(best.side * end for end in held_out[1:])
        order = np.argsort(-best.u, kind="stable")
        return Proxy(
            attribute=protected.name,
            level=labels[best.target],
            output=best.output,
            correlation=best.side * best.cosine,
            coefficients=_divide(best.u, sizes[:, best.output]),
            variance_share=best.share,
            negligible=best.share < min_share,
            names=tuple(names[i] for i in order if best.u[i] > 0.0),
            held_out=best.side * held_out[0],
            low=ends[0],
            high=ends[1],
            n_rows=n,
            note="too few rows for a held-out correlation" if np.isnan(held_out[0]) else "",
        )

    best, _ = score.search(whole, 0.0)
    if best is None:
        note = "the attribute has one value" if len(labels) == 0 else "the score is constant"
        c = np.full(d, nan)
        return Proxy(attribute=protected.name, coefficients=c, n_rows=n, note=note)
    worst = proxy(best, 0.0)
    if not worst.negligible:
        return worst
    larger, beyond = score.search(whole, min_share)
    if larger is not None:
        worst = replace(worst, material=proxy(larger, min_share))
    if beyond > (0.0 if larger is None else larger.cosine):
        bound = f"larger components not searched may correlate by up to {beyond:.3g}"
        worst = replace(worst, note="; ".join(filter(None, (worst.note, bound))))
    return worst


@dataclass(frozen=True, kw_only=True)
class _Component:
    """A component ``sum_i u_i sign(beta_i) columns_i``, and the target and sign of its correlation."""

    cosine: float
    share: float
    u: Array
    output: int
    target: int
    side: float


@dataclass(frozen=True, kw_only=True)
class _Score:
    """Standardized columns of Z, targets, and for each output the box ``0 <= u <= sizes``."""

    columns: Array
    targets: Array
    weight: Array
    signs: Array
    sizes: Array
    clusters: Codes | None

    def triangle(self, rows: NDArray[np.intp]) -> Array:
        """R factor of the rows, a column of ones first: its rows below the first are centred."""
        root = np.sqrt(self.weight / self.weight.sum())
        factors = []
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            parts = [np.ones((len(block), 1)), self.columns[block], self.targets[block]]
            factors.append(_triangle(root[block, None] * np.hstack(parts)))
        return _triangle(np.vstack(factors))

    def search(self, triangle: Array, least: float) -> tuple[_Component | None, float]:
        """The best component of at least this share, and a bound on those not searched."""
        d = self.columns.shape[1]
        inner = triangle[1:, 1:]
        cases = []
        for target, output in product(range(self.targets.shape[1]), range(self.signs.shape[1])):
            s = inner[:, d + target]
            norm = float(np.linalg.norm(s))
            A = inner[:d, :d] * self.signs[:, output]
            size = self.sizes[:, output]
            used = (np.linalg.norm(A, axis=0) > _ABSENT) & (size > _NOTHING * size.max())
            if norm <= _ABSENT or not used.any():
                continue
            for side in (1.0, -1.0):
                case = _Case(A[:, used], side * s[:d] / norm, size[used])
                u = case.closest()
                cases.append((case.cosine(u), case, u, used, output, target, side))
        best: _Component | None = None
        beyond = 0.0
        # A required share never raises a cosine, so cases behind the best so far cannot pass it.
        for cosine, case, u, used, output, target, side in sorted(cases, key=lambda c: -c[0]):
            if best is not None and cosine <= best.cosine:
                break
            if case.share(u) < least:
                larger, bound = case.closest_of_share(least)
                beyond = max(beyond, bound)
                if larger is None:
                    continue
                u, cosine = larger, case.cosine(larger)
            if best is None or cosine > best.cosine:
                full = np.zeros(d)
                full[used] = u
                share = case.share(u)
                where = {"output": output, "target": target}
                best = _Component(cosine=cosine, share=share, u=full, side=side, **where)
        return best, beyond

    def held_out(
        self,
        triangles: Sequence[Array],
        halves: Sequence[NDArray[np.intp]],
        least: float,
        level: float,
        n_boot: int,
        rng: np.random.Generator,
    ) -> tuple[float, float, float]:
        """Correlation, on the other half, of the component found on one half; and its interval."""
        mean, draws = 0.0, np.zeros(n_boot)
        for triangle, rows in zip(triangles, reversed(halves), strict=True):
            together = renumbered(self.clusters, rows)
            n_drawn = len(rows) if together is None else len(np.unique(together))
            best = self.search(triangle, least)[0] if n_drawn >= _FEW else None
            if best is None:
                return nan, nan, nan
            g = self.columns[rows] @ (self.signs[:, best.output] * best.u)
            s = best.side * self.targets[rows, best.target]
            both = _resampled_correlations(g, s, self.weight[rows], n_boot, rng, together) / 2.0
            mean += float(both[0])
            draws += both[1:]
        low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        return mean, float(low), float(high)


@dataclass(frozen=True)
class _Case:
    """One output, one target and one side: columns A, target s of length 1, the box of u."""

    A: Array
    s: Array
    size: Array

    def cosine(self, u: Array) -> float:
        part = self.A @ u
        norm = float(np.linalg.norm(part))
        return min(float(part @ self.s) / norm, 1.0) if norm > 0.0 else 0.0

    def share(self, u: Array) -> float:
        whole = float(np.sum((self.A @ self.size) ** 2))
        return float(np.sum((self.A @ u) ** 2)) / whole if whole > 0.0 else np.inf

    def closest(self) -> Array:
        """Projection of s on the cone, as long as the box allows; 0 if no column correlates with s."""
        try:
            u, _ = scipy.optimize.nnls(self.A, self.s, maxiter=30 * max(10, len(self.size)))
        except RuntimeError:  # rounding made it cycle among columns that are nearly equal
            u = scipy.optimize.lsq_linear(self.A, self.s, (0.0, np.inf), method="bvls").x
        top = float(np.max(u / self.size))
        return np.asarray(u / top if top > 0.0 else np.zeros_like(u))

    def closest_of_share(self, least: float) -> tuple[Array | None, float]:
        """The component of largest cosine among those of this share, or None and a bound on it.

        P projects on ``{A u: 0 <= u <= size}``. The length of ``P(t s)`` grows with t, and no shorter
        point of the set has a larger product with s.
        """
        unit = float(np.linalg.norm(self.A @ self.size))
        size = self.size / unit
        enough = float(np.sqrt(least)) * (1.0 + 1e-9)
        towards = self.A @ np.where(self.A.T @ self.s > 0.0, size, 0.0)
        nothing = None, min(float(towards @ self.s) / enough, 1.0)
        if np.linalg.norm(towards) < enough:
            return nothing

        def along(t: float) -> Array:
            box = (np.zeros_like(size), size)
            solution = scipy.optimize.lsq_linear(
                self.A, t * self.s, box, method="bvls", tol=1e-14, max_iter=20 * len(size)
            )
            return np.asarray(solution.x).clip(0.0, size)

        def excess(t: float) -> float:
            return float(np.linalg.norm(self.A @ along(t))) - enough

        high = 1.0
        while excess(high) < 0.0:
            high *= 4.0
            if high > 1e8:  # the columns left to add have no product with s
                return nothing
        t = scipy.optimize.brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-13)
        return along(t) * unit, 0.0


def _triangle(matrix: Array) -> Array:
    """R factor of the QR decomposition."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _standardize(Z: Array, weight: Array) -> tuple[Array, Array]:
    """Columns of weighted mean 0 and variance 1, and standard deviations; constant ones become 0."""
    share = weight / weight.sum()
    centred = Z - share @ Z
    spread = np.sqrt(share @ centred**2)
    constant = np.ptp(Z, axis=0) <= _CONSTANT * np.abs(Z).max(axis=0)
    spread = np.where(constant, 0.0, spread)
    return _divide(centred, np.broadcast_to(spread, Z.shape)), spread


def _targets(protected: Protected) -> tuple[tuple[str, ...], Array]:
    """Targets of the search: the number, or the indicator of each level that occurs."""
    seen = np.unique(protected.codes)
    columns = protected.columns()
    columns = columns - columns.mean(axis=0)
    columns = _divide(columns, np.broadcast_to(columns.std(axis=0), columns.shape))
    if not columns.any():
        return (), columns[:, :0]
    if protected.values is not None:
        return ("",), columns
    if len(seen) == 2:
        return ("",), columns[:, 1:]
    return tuple(protected.labels[code] for code in seen), columns


def _halves(
    strata: Codes, clusters: Codes | None, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Two random halves, balanced over the levels or slices; clusters are not split."""
    if clusters is None:
        shuffled = np.lexsort((rng.random(len(strata)), strata))
        return [shuffled[::2], shuffled[1::2]]
    parts = _halves(strata_of_clusters(strata, clusters), None, rng)
    place = np.empty(int(clusters.max()) + 1, dtype=np.intp)
    out = []
    for part in parts:
        place[:] = -1
        place[part] = np.arange(len(part))
        rows = np.flatnonzero(place[clusters] >= 0)
        out.append(rows[np.argsort(place[clusters[rows]], kind="stable")])
    return out


def _resampled_correlations(
    g: Array, s: Array, weight: Array, n_boot: int, rng: np.random.Generator, clusters: Codes | None
) -> Array:
    """Correlation of two columns in the rows and in resamples, (1 + B,)."""
    share = weight / weight.sum()
    g, s = g - share @ g, s - share @ s
    columns = {"g": g, "s": s, "gg": g**2, "ss": s**2, "gs": g * s}
    everyone = {ALL: np.zeros(len(g), dtype=np.intp)}
    sums = resample(everyone, columns, share, n_boot, rng, clusters).columns
    total, sum_g, sum_s, gg, ss, gs = (sums[name][0] for name in ("", *columns))
    variances = np.maximum(gg - sum_g**2 / total, 0.0) * np.maximum(ss - sum_s**2 / total, 0.0)
    return _divide(gs - sum_g * sum_s / total, np.sqrt(variances)).clip(-1.0, 1.0)


def _divide(above: Array, below: Array) -> Array:
    """Quotients, and 0 where the divisor is not positive."""
    out = np.zeros(np.shape(above))
    return np.divide(above, below, out=out, where=np.asarray(below) > 0.0)
