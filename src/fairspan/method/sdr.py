"""Sufficient dimension reduction from moments: directions, their number, their ridge (METHOD 4).

The paper solves the unsymmetric n x n problem ``Gamma K A = tau (Delta + n eta I) A`` (eq. rkhs-eig).
With w = Phi'A this is the symmetric D x D pencil ``Sig_T w = tau (Sig_W + eta I) w``, with the total and
the within-level covariance. The default pencil is kernel ridge regression of the whitened codes. Its
squared canonical correlations lambda lie in [0, 1); they equal 1 - 1/tau in the limit of no ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from fairspan.exceptions import NumericalError, NumericalWarning, warn_user
from fairspan.method.fold_systems import FoldSystems, Systems
from fairspan.method.linalg import Array, Tridiagonal, cholesky_factor
from fairspan.method.moments import ColumnStats, LevelStats, Moments, Pooled, kish
from fairspan.method.probabilities import expected_rows, group_codes
from fairspan.method.problem import MIN_ROWS

# Levels with a smaller share of the weight are left out. If the mean of a group with share p lies g
# standard deviations off, the correlation is g sqrt(p). Certificates show correlations down to 1e-10,
# so "<1e-10" means g < 1e-5 for all groups above this share, but nothing for a share of 1e-20. The
# rounding of g is about 2e-16 / sqrt(p), 2e-11 at this share.
MIN_SHARE = 1e-10
_GRID_DECADES = (-7.0, 0.0)
_GRID_STEP = 0.25
# Difference of a share from 1 that is rounding.
_WHOLE = 1e-12
TEST_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """Covariance of psi with the r whitened codes of one attribute in one cell.

    If the block uses only weight T_b of the cell's weight T_c, ``delta`` contains the factor
    ``sqrt(T_b / T_c)``: codes are 0 on the other rows. Multiple correlations then stay in [0, 1].
    """

    delta: Array  # (D, r)
    n_effective: float  # Kish size of the rows used
    n_rows: int
    share: float = 1.0  # T_b / T_c
    left_out: tuple[int, ...] = ()  # categories with too few rows or too little weight
    merged: int = 0  # number of slices merged with a neighbour
    # With probabilities: covariances with these codes times ``to_groups`` are those with the true groups,
    # and ``confused`` are groups that the probabilities do not tell apart.
    to_groups: Array | None = None
    confused: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Number of codes r."""
        return int(self.delta.shape[1])

    @property
    def n_regression(self) -> float:
        """Effective number of rows, those with the code 0 included, of a regression on ``delta``."""
        return self.n_effective if abs(self.share - 1.0) < _WHOLE else self.n_effective / self.share

    @property
    def n_equivalent(self) -> float | None:
        """Rows with a known group that tell as much as these; None if groups are known."""
        return (
            None if self.to_groups is None else self.n_effective / float(self.to_groups.max()) ** 2
        )

    @property
    def group_delta(self) -> Array:
        """Covariance of psi with the whitened codes of the true groups, (D, r)."""
        return self.delta if self.to_groups is None else self.delta * self.to_groups

    @property
    def delta_known(self) -> Array:
        """Covariance of psi with the codes of the true groups among the rows used, (D, r)."""
        if abs(self.share - 1.0) < _WHOLE:  # all rows are used: the same bits
            return self.group_delta
        return np.asarray(self.group_delta / np.sqrt(self.share))


def usable_levels(
    rows: Sequence[float], weight: Sequence[float] | None = None, *, ordered: bool, min_rows: int
) -> list[list[int]]:
    """Select the levels with enough data, as groups of level indices.

    A level needs ``min_rows`` rows and more than ``MIN_SHARE`` of the weight. A *category* with less is
    left out. A *slice* (``ordered``) with less is merged with its smaller neighbour: leaving slices out
    lost 34 % of the rows and left an in-cell correlation of .46.
    """
    weight = rows if weight is None else weight
    smallest = MIN_SHARE * sum(weight)

    def size(group: list[int]) -> float:
        return sum(rows[h] for h in group)

    def enough(group: list[int]) -> bool:
        return size(group) >= min_rows and sum(weight[h] for h in group) > smallest

    groups = [[h] for h, n in enumerate(rows) if n > 0]
    if not ordered:
        return [group for group in groups if enough(group)]
    while len(groups) > 1:
        small = min(range(len(groups)), key=lambda i: (enough(groups[i]), size(groups[i])))
        if enough(groups[small]):
            break
        neighbours = [i for i in (small - 1, small + 1) if 0 <= i < len(groups)]
        partner = min(neighbours, key=lambda i: size(groups[i]))
        low, high = sorted((small, partner))
        groups[low : high + 1] = [groups[low] + groups[high]]
    return groups


def level_block(
    stats: LevelStats, cell_weight: float, *, ordered: bool, min_rows: int = MIN_ROWS
) -> CodeBlock | None:
    """Compute the block of level indicators; None if fewer than two levels have enough rows and weight."""
    rows = expected_rows(stats)
    groups = usable_levels(rows, stats.weight.tolist(), ordered=ordered, min_rows=min_rows)
    occurring = [h for h, n in enumerate(rows) if n > 0]
    used = [h for group in groups for h in group]
    if len(groups) < 2:
        return None
    weight = np.array([stats.weight[group].sum() for group in groups])
    mean = np.stack([stats.weight[g] @ stats.mean[g] for g in groups]) / weight[:, None]
    total = float(weight.sum())
    p = weight / total
    if stats.pairs is not None:
        return _probability_block(stats, used, occurring, mean, cell_weight)
    # Cov(psi, 1[level h]) is (mean_h - mean) p_h. The covariance of the indicators is Q (I - qq') Q with
    # q = sqrt(p) and Q = diag(q). So Q^-1 B whitens them, for any orthonormal basis B of the complement
    # of q. This gives k - 1 codes for k levels, and no eigenvalue has to be declared zero.
    root = np.sqrt(p)
    codes = scipy.linalg.null_space(root[None])
    return CodeBlock(
        delta=((mean - p @ mean) * root[:, None]).T @ codes * np.sqrt(total / cell_weight),
        n_effective=kish(total, float(stats.weight2[used].sum())),
        n_rows=int(stats.rows[used].sum()),
        share=total / cell_weight,
        left_out=tuple(h for h in occurring if h not in used),
        merged=len(used) - len(groups),
    )


def _probability_block(
    stats: LevelStats, used: list[int], occurring: list[int], mean: Array, cell_weight: float
) -> CodeBlock | None:
    """Block of whitened probabilities; None if they tell no groups apart."""
    codes = group_codes(stats, used)
    if not len(codes.information):
        return None
    weight, root = stats.weight[used], np.sqrt(codes.information)
    total = float(weight.sum())
    cross = ((mean - weight @ mean / total) * weight[:, None]).T @ codes.true_codes / total
    return CodeBlock(
        delta=cross / root * np.sqrt(total / cell_weight),
        n_effective=kish(total, float(stats.weight2[used].sum())),
        n_rows=int(stats.rows.max()),
        share=total / cell_weight,
        left_out=tuple(h for h in occurring if h not in used),
        to_groups=1.0 / root,
        confused=codes.confused,
    )


def column_block(stats: ColumnStats, cell_weight: float) -> CodeBlock | None:
    """Compute the block of a numeric attribute itself; None if it is constant or has too few rows."""
    rounding = 1e-20 * stats.weight * max(stats.mean**2, 1e-300)
    if stats.rows < 2 * MIN_ROWS or stats.square <= rounding:
        return None
    delta = stats.cross / np.sqrt(stats.square * stats.weight)
    return CodeBlock(
        delta=(delta * np.sqrt(stats.weight / cell_weight))[:, None],
        n_effective=kish(stats.weight, stats.weight2),
        n_rows=stats.rows,
        share=stats.weight / cell_weight,
    )


@dataclass(frozen=True, kw_only=True)
class Directions:
    """Canonical directions of a block: ``(Sig+eta)^-1/2 Delta = U diag(lambda^1/2) A'``."""

    lam: Array  # (min(r, D),): lambda, descending, in [0, 1)
    codes: Array  # A, (r, min(r, D)): the combination of codes that each direction predicts
    functions: Array  # W = (Sig+eta)^-1/2 U, (D, min(r, D))
    eta: float


def canonical_directions(
    cov: Array, delta: Array, eta: float, factor: Array | None = None
) -> Directions:
    """Compute the canonical directions of a block: kernel ridge regression of its codes.

    With ``Sig + eta I = L L'`` the singular values and right vectors of ``L^-1 Delta`` are those of
    ``(Sig+eta)^-1/2 Delta``, and ``W = L^-T U``, so no matrix square root is needed. ``factor`` is L, if
    the caller has it.
    """
    factor = ridge_factor(cov, eta) if factor is None else factor
    white = scipy.linalg.solve_triangular(factor, delta, lower=True, check_finite=False)
    U, singular, At = scipy.linalg.svd(white, full_matrices=False, check_finite=False)
    W = scipy.linalg.solve_triangular(factor, U, lower=True, trans="T", check_finite=False)
    return Directions(lam=singular**2, codes=At.T, functions=W, eta=eta)


def paper_directions(total: Array, within: Array, eta: float, m: int) -> tuple[Array, Array]:
    """Solve the paper's pencil (eq. rkhs-eig, Alg. 2 line 3): the m largest tau, and W of shape (D, m)."""
    size = len(total)
    m = min(m, size)
    try:
        tau, W = scipy.linalg.eigh(
            total, _shifted(within, eta), subset_by_index=(size - m, size - 1), check_finite=False
        )
    except np.linalg.LinAlgError as error:
        raise NumericalError(
            f"method='paper' needs a within-group covariance that is positive definite in floating point, "
            f"but with the ridge eta={eta:.3g} it is not. Raise `eta`."
        ) from error
    return tau[::-1].copy(), W[:, ::-1].copy()


def within_cov(pooled: Pooled, stats: LevelStats) -> Array:
    """Compute the within-level covariance ``Sig_T - Sig_B`` of the pooled rows."""
    used = stats.weight > 0.0
    share = stats.weight[used] / pooled.weight
    spread = (stats.mean[used] - pooled.mean) * np.sqrt(share)[:, None]
    return np.asarray(pooled.cov - spread.T @ spread)


def ridge_grid(trace: float, *, deeper: float = 0.0) -> Array:
    """Return the ridges ``tr(Sig) 10^-7 .. 10^0`` in quarter decades; ``deeper`` adds decades below."""
    low, high = _GRID_DECADES
    low -= np.ceil(deeper / _GRID_STEP) * _GRID_STEP
    return trace * 10.0 ** np.arange(low, high + _GRID_STEP / 2, _GRID_STEP)


def gcv_ridge(tri: Systems, spectrum: Array, block: CodeBlock) -> tuple[float, bool]:
    """Choose eta by generalised cross-validation of the codes' regression; True if at an end of the grid.

    It minimises ``[r - sum_i |v_i'Delta|^2 (mu_i+2eta)/(mu_i+eta)^2] / (1 - dof/n)^2`` with
    ``dof = 1 + sum_i mu_i/(mu_i+eta)``, where mu_i, v_i are the eigenpairs of Sig_c. Since
    ``(mu+2eta)/(mu+eta)^2 = 1/(mu+eta) + eta/(mu+eta)^2``, shifted systems suffice, without eigenvectors.
    """
    rotated = tri.rotate(block.delta)
    n = block.n_regression
    grid = ridge_grid(float(spectrum.sum()))
    scores = np.full(len(grid), np.inf)
    for i, eta in enumerate(grid):
        dof = 1.0 + float((spectrum / (spectrum + eta)).sum())
        if dof >= n * (1.0 - 1e-9):
            continue
        solved = tri.solve_rotated(rotated, eta)
        explained = float((rotated * solved).sum() + eta * (solved**2).sum())
        scores[i] = (block.rank - explained) / (1.0 - dof / n) ** 2
    best = int(np.argmin(scores))
    if not np.isfinite(scores[best]):
        best = len(grid) - 1
    usable = np.flatnonzero(np.isfinite(scores))
    edge = best == len(grid) - 1 or (len(usable) > 0 and best == usable[0])
    return float(grid[best]), bool(edge)


def target_covariance(
    pooled: Pooled, target: LevelStats | ColumnStats
) -> tuple[Array, Array, Array]:
    """Return Cov(psi, y) of shape (D, outputs), mean and variance of y; classes are one-hot columns."""
    if isinstance(target, ColumnStats):
        cross = target.cross[:, None] / target.weight
        return cross, np.array([target.mean]), np.array([target.square / target.weight])
    p = target.weight / pooled.weight
    gap = (target.mean - pooled.mean) * p[:, None]
    return gap.T.copy(), p, p * (1.0 - p)


def kfold_errors(
    moments: Moments,
    target: tuple[str, int],
    grid: Array,
    systems: FoldSystems | None = None,
) -> Array:
    """Compute the held-out squared error of kernel ridge for every eta of the grid, from moments alone.

    ``target`` is ("levels" or "columns", index). Errors are weighted by the rows' weights, and summed
    over the one-hot columns of classes. ``systems`` are those with the covariances without each fold, if the
    caller has them.
    """
    errors = np.zeros(len(grid))
    for fold in range(moments.n_folds):
        mask = np.arange(moments.n_folds) == fold
        test, train = moments.pool(folds=mask), moments.pool(folds=~mask)
        if test.rows == 0 or train.rows == 0:
            continue
        c_test, y_test, v_test = target_covariance(test, test.stats(target))
        c_train, y_train, _ = target_covariance(train, train.stats(target))
        tri = Tridiagonal.of(train.cov) if systems is None else systems.without(fold, train.cov)
        # All ridges at once: one product with (outputs * grid) columns for the quadratic form.
        W = tri.rotate_back(tri.solve_all(tri.rotate(c_train), grid))
        shift = np.tile(y_test - y_train, len(grid)) - (test.mean - train.mean) @ W
        quad = np.einsum("ij,ij->j", W, test.scatter @ W) / test.weight
        lin = np.einsum("ij,ij->j", W, np.tile(c_test, (1, len(grid))))
        mse = np.tile(v_test, len(grid)) - 2.0 * lin + quad + shift**2
        errors += test.weight * mse.reshape(len(grid), -1).sum(axis=1)
    return errors


def kfold_ridge(
    moments: Moments, target: tuple[str, int], systems: FoldSystems | None = None
) -> float:
    """Choose eta_y, the ridge of the smallest K-fold error over :func:`ridge_grid`; warn at its ends.

    ``systems`` as in :func:`kfold_errors`.
    """
    total = moments.pool()
    grid = ridge_grid(float(np.trace(total.cov)))
    errors = kfold_errors(moments, target, grid, systems)
    best = int(np.argmin(errors))
    if best in (0, len(grid) - 1):
        end = "smallest" if best == 0 else "largest"
        reason = "y looks noise-free" if best == 0 else "X seems to predict little of y"
        warn_user(
            f"Cross-validation chose the {end} ridge of its grid (alpha="
            f"{grid[best] * total.weight:.3g}): {reason}. Pass `alpha` to set it yourself.",
            NumericalWarning,
        )
    return float(grid[best])


def n_directions_by_test(
    directions: Directions,
    cov: Array,
    spectrum: Array,
    n: float,
    level: float = TEST_LEVEL,
    factor: Array | None = None,
) -> tuple[int, list[float]]:
    """Test the number of directions: raise k until ``T_k = n sum_{i>k} lambda_i`` is not rejected.

    The reference distribution is ``a chi2_nu`` with the mean and variance of METHOD 4. It is a test of
    the rank of Cov(psi, codes) only. Li's (1991) chi-square never rejects under regularisation.

    Parameters
    ----------
    directions : Directions
    cov : ndarray of shape (D, D)
        Sig_c.
    spectrum : ndarray of shape (D,)
        Eigenvalues of Sig_c.
    n : float
        Effective number of rows.
    level : float
        Level of each test.
    factor : ndarray of shape (D, D), optional
        Cholesky factor of Sig_c + eta I, if the caller has it.

    Returns
    -------
    k : int
        Number of directions.
    p_values : list of float
        One per test. If the last one is NaN, there is no reference distribution, and k is the largest.
    """
    lam, W, eta = directions.lam, directions.functions, directions.eta
    r = len(directions.codes)  # number of codes; there are fewer lambda if D < r
    ratio = spectrum / (spectrum + eta)
    tr_b, tr_b2 = float(ratio.sum()), float((ratio**2).sum())
    SW = cov @ W
    factor = ridge_factor(cov, eta) if factor is None else factor
    half = scipy.linalg.solve_triangular(factor, SW, lower=True, check_finite=False)
    WSW, WSSW = W.T @ SW, half.T @ half
    p_values: list[float] = []
    for k in range(len(lam)):
        d1 = tr_b - float(np.trace(WSW[:k, :k]))
        d2 = tr_b2 - 2.0 * float(np.trace(WSSW[:k, :k])) + float((WSW[:k, :k] ** 2).sum())
        free, p = n - 1.0 - k, r - k
        if d1 <= 1e-10 * tr_b:
            return k, p_values  # the k directions explain all variance
        if free - p <= 0.0 or d2 <= d1**2 / free:
            # More free directions than rows: there is no null distribution. Remove all, the safe side.
            return len(lam), [*p_values, float("nan")]
        mean = n * p * d1 / free
        var = 2.0 * n**2 * p * (free - p) / ((free - 1.0) * free * (free + 2.0))
        var *= d2 - d1**2 / free
        statistic = n * float(lam[k:].sum())
        scale, dof = var / (2.0 * mean), 2.0 * mean**2 / var
        p_values.append(float(scipy.stats.chi2.sf(statistic / scale, dof)))
        if p_values[-1] > level:
            return k, p_values
    return len(lam), p_values


def ridge_factor(cov: Array, eta: float) -> Array:
    """Compute the lower Cholesky factor of ``Sig + eta I``."""
    return cholesky_factor(_shifted(cov, eta), "the covariance of the features plus its ridge")[0]


def _shifted(matrix: Array, eta: float) -> Array:
    out = matrix.copy()
    out.flat[:: len(out) + 1] += eta
    return out
