"""Groups that are known as probabilities: codes of the true groups from the moments of proxies (METHOD 14).

A row has the probabilities p of the J groups instead of its group s. If p is calibrated, ``E[1_s | p] = p``,
and the features depend on p only through s, then

    E[psi p'] = E[psi | s] E[p p'],    so    E[psi | s] = E[psi p'] E[p p']^-1.

With whitened codes z of the true groups, ``c = E[z | p]`` and ``V = E[c c']`` this is
``Cov(psi, z) = Cov(psi, c) V^-1``. So the codes ``V^-1 c`` have the covariances of the true groups with any
function of the features, and the variance V^-1 instead of I: a row tells as much as v rows with a known
group. If all probabilities are 0 or 1, then V = I, and the codes are those of categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.problem import Attribute, Codes, GroupProbabilities

if TYPE_CHECKING:
    from fairspan.method.moments import LevelStats

# Share of the rows that known groups would need, below which a difference of groups is not identified.
MIN_INFORMATION = 1e-8
# Digits that sums of probabilities keep; 5 rows are 5 rows, in whatever order they were added.
_DIGITS = 9


@dataclass(frozen=True)
class ProbabilityCoder:
    """Fixed rule for an attribute whose rows have a probability for each group."""

    name: str
    groups: tuple[str, ...]
    kind: Literal["probabilities"] = "probabilities"

    @property
    def n_levels(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the groups, for reports and warnings."""
        return self.groups

    def probabilities(self, attributes: Mapping[str, Attribute]) -> Array:
        """Return the probabilities of the rows, (n, J), NaN where missing; raise for other groups."""
        attribute = attributes[self.name]
        if not isinstance(attribute, GroupProbabilities):
            raise ValueError(
                f"Attribute {self.name!r} has no probabilities here, but the estimator was prepared with the "
                f"probabilities of {', '.join(self.groups)}. Known groups are probabilities of 0 and 1: see "
                f"fairspan.sensitive_probabilities."
            )
        if sorted(attribute.groups) != sorted(self.groups):
            raise ValueError(
                f"Attribute {self.name!r} has probabilities of the groups {', '.join(attribute.groups)}, but "
                f"the estimator was prepared with {', '.join(self.groups)}. Give the same columns."
            )
        order = [attribute.groups.index(group) for group in self.groups]
        out = np.array(attribute.values[:, order], dtype=np.float64)
        out[attribute.missing] = np.nan
        return out

    def codes(self, attributes: Mapping[str, Attribute]) -> Codes:
        """Return the most likely group of each row, -1 where missing.

        Only folds and landmarks use it, which are balanced between groups; no estimate does.
        """
        return most_likely(self.probabilities(attributes))


def most_likely(probabilities: Array) -> Codes:
    """Return the group of largest probability, the first of several; -1 where missing."""
    known = ~np.isnan(probabilities).any(axis=1)
    out = np.full(len(probabilities), -1, dtype=np.intp)
    out[known] = np.argmax(probabilities[known], axis=1)
    return out


def sizes_of(probabilities: Array, weight: Array | None) -> tuple[Array, Array]:
    """Expected number of rows of each group (a Kish size), and its weight, from rows; NaN is missing."""
    p = np.nan_to_num(probabilities)
    if weight is None:
        return np.round(p.sum(axis=0), _DIGITS), p.sum(axis=0)
    total, squares = weight @ p, weight**2 @ p
    return np.round(total**2 / np.where(squares > 0.0, squares, 1.0), _DIGITS), total


def expected_rows(stats: LevelStats) -> Sequence[float]:
    """Number of rows of each level; with probabilities, the Kish size of their sum."""
    if stats.pairs is None:
        return list(stats.rows.tolist())
    squares = np.where(stats.weight2 > 0.0, stats.weight2, 1.0)
    return list(np.round(stats.weight**2 / squares, _DIGITS).tolist())


@dataclass(frozen=True, kw_only=True)
class GroupCodes:
    """Codes of the true groups as combinations of probabilities."""

    whitening: Array  # (groups used, r): a row's codes are its probabilities times this
    information: Array  # (r,): v, rows with a known group that a row tells as much as, from 0 to 1
    true_codes: Array  # (groups used, r): the codes that rows of these groups would have
    confused: tuple[int, ...] = ()  # groups used that no probabilities tell apart


def group_codes(stats: LevelStats, used: Sequence[int]) -> GroupCodes:
    """Fix the codes of the groups that are used, from their shares and ``E[p p']``."""
    assert stats.pairs is not None
    used = list(used)
    weight = stats.weight[used]
    share = weight / weight.sum()
    root = np.sqrt(share)
    true, values, vectors = _spectrum(share, stats.pairs[np.ix_(used, used)] / weight.sum())
    kept = values > MIN_INFORMATION
    lost = true @ vectors[:, ~kept]
    # Groups whose code differs along a direction that the probabilities do not have.
    confused = np.flatnonzero((np.abs(lost) * root[:, None] > 0.1).any(axis=1))
    true, values = true @ vectors[:, kept], np.minimum(values[kept], 1.0)
    return GroupCodes(
        whitening=true / values,
        information=values,
        true_codes=true,
        confused=tuple(used[h] for h in confused),
    )


def _spectrum(share: Array, products: Array) -> tuple[Array, Array, Array]:
    """Whitened codes of the true groups, whose mean is 0, and the spectrum of V (METHOD 14)."""
    root = np.sqrt(share)
    true = scipy.linalg.null_space(root[None]) / root[:, None]
    return true, *psd_eigh(true.T @ products @ true)


def information(probabilities: Array, weight: Array) -> float:
    """Rows with a known group that a row tells as much as, from 0 to 1: the least over comparisons of groups.

    Comparisons that the probabilities do not tell at all are left out, as in `group_codes`.
    """
    share = weight @ probabilities / weight.sum()
    used = share > 0.0
    p = probabilities[:, used]
    _, values, _ = _spectrum(share[used], (p * weight[:, None]).T @ p / weight.sum())
    values = values[values > MIN_INFORMATION]
    return float(min(values.min(), 1.0)) if len(values) else 0.0


def code_products(whitening: Array, pairs: Array, share: Array) -> Array:
    """Sum of weighted products of the codes of rows, (r, r), about those of the mean group."""
    codes = whitening - share @ whitening
    return np.asarray(codes.T @ pairs @ codes)


def group_weights(probabilities: Array, weight: Array) -> Array:
    """Weights with which a mean over rows is the mean of a group, (n, J); some are negative.

    ``sum_i w_i q_ij f_i`` estimates ``E[f | s = j]`` and ``sum_i w_i q_ij = 1``, with
    ``q_i = (sum w p p')^-1 p_i``. If all probabilities are 0 or 1, this is the mean over the rows of a group.
    Raises LinAlgError if the probabilities do not tell all groups apart.
    """
    products = (probabilities * weight[:, None]).T @ probabilities
    inverse = inverse_products(products)
    if np.isnan(inverse).any() or not np.diag(products).all():
        raise np.linalg.LinAlgError("the probabilities do not tell all groups apart")
    return np.asarray(probabilities @ inverse)


def inverse_products(products: Array) -> Array:
    """Inverses of sums of p p', (..., J, J): NaN where the probabilities do not tell all groups apart.

    Groups that no row can belong to get the value 1 on the diagonal, so that the others are as without them.
    """
    size = np.diagonal(products, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(size > 0.0, size, 1.0))
    scaled = products / scale[..., None, :] / scale[..., :, None]
    scaled = scaled + np.where(size > 0.0, 0.0, 1.0)[..., None] * np.eye(size.shape[-1])
    values, vectors = np.linalg.eigh(scaled)
    known = values[..., 0] > MIN_INFORMATION
    inverse = (vectors / np.where(known[..., None], values, 1.0)[..., None, :]) @ np.swapaxes(
        vectors, -1, -2
    )
    inverse = inverse / scale[..., None, :] / scale[..., :, None]
    return np.asarray(np.where(known[..., None, None], inverse, np.nan))


def combine(known: NDArray[np.intp], probabilities: Array) -> Array:
    """Replace the probabilities of rows whose group is known (a code of at least 0) by 0 and 1."""
    out = probabilities.copy()
    rows = np.flatnonzero(known >= 0)
    out[rows] = 0.0
    out[rows, known[rows]] = 1.0
    return out
