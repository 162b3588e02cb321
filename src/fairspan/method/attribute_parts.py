"""What the dial takes from a score, divided among the protected attributes (METHOD 16).

Every model of a path is a combination of a basis of functions: some that the fair end keeps, and some that
are predictions of the codes of S. The latter are sums over the codes, hence over the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.subspaces import Metric

__all__ = ["AttributeParts", "parts_of_codes", "parts_of_covectors"]

# Singular values below this share of the largest are regarded as 0, as for the removed directions.
_CUT = 1e-10


@dataclass(frozen=True, kw_only=True)
class AttributeParts:
    """Functions of the basis as combinations of predicted codes, each of which belongs to an attribute.

    The first d functions of the basis are those that the fair end keeps (removal on the training rows), or
    the predictions A of y from which the fair end subtracts the next d functions u (new rows).
    """

    names: tuple[str, ...]
    codes: Array  # predictions of the codes, (D, q)
    owner: Codes  # number of the attribute of each code, (q,)
    mix: Array  # combinations of the codes in the functions after the first d, (q, m - d)
    subtracts: bool  # whether the fair end is A - u

    def split(self, basis: Array, coef: Array) -> tuple[Array, Array]:
        """Divide combinations of the basis, given with their coefficients (m, k).

        Returns the part along what the fair end keeps, (D, k), and those of the attributes, (attributes,
        D, k). Their sum is ``basis @ coef``.
        """
        d = basis.shape[1] - self.mix.shape[1]
        kept, rest = coef[:d], coef[d:]
        if self.subtracts:
            # A a + u b = (A - u) a + u (a + b): the fair end is a multiple of A - u.
            rest = rest.copy()
            rest[:d] += kept
            fair = (basis[:, :d] - basis[:, d : 2 * d]) @ kept
        else:
            # A function for separate limits may have a part along the functions that are kept.
            fair = basis[:, :d] @ kept + (basis[:, d:] - self.codes @ self.mix) @ rest
        weights = self.mix @ rest
        owned = [self.owner == a for a in range(len(self.names))]
        return fair, np.stack([self.codes[:, own] @ weights[own] for own in owned])


def _owners(attributes: Sequence[str], ranks: Sequence[int]) -> tuple[tuple[str, ...], Codes]:
    """Names of the attributes of some blocks, and the number of the attribute of each code."""
    names = tuple(dict.fromkeys(attributes))
    return names, np.repeat([names.index(name) for name in attributes], ranks).astype(np.intp)


def parts_of_codes(
    predictions: Array, mix: Array, attributes: Sequence[str], ranks: Sequence[int]
) -> AttributeParts:
    """Parts of combinations of the predicted codes, by the attribute of each code.

    Parameters
    ----------
    predictions : (D, q) predictions of the codes of all blocks.
    mix : (q, m - d) the combinations.
    attributes, ranks : attribute and number of codes of each block.
    """
    names, owner = _owners(attributes, ranks)
    return AttributeParts(names=names, codes=predictions, owner=owner, mix=mix, subtracts=True)


def parts_of_covectors(
    metric: Metric,
    removed: Array,
    covectors: Sequence[Array],
    extra: Array,
    codes: Sequence[Array],
    kept: Array,
    attributes: Sequence[str],
) -> AttributeParts:
    """Parts of the directions that removal on the training rows takes out, by the attribute of the covectors.

    A removed direction is ``R^-1 N nu``, where R is the metric. If several nu give it, because covectors of
    two attributes depend on each other, the shortest is taken.

    Parameters
    ----------
    removed : (D, d) removed directions, in metric coordinates.
    covectors : N of each block, (D, m_b).
    extra : (D, e) directions for separate limits, in metric coordinates.
    codes : covariances of psi with all codes of each block, (D, r_b), of which these are made.
    kept : (D, d) directions that the fair end keeps, in metric coordinates.
    attributes : attribute of each block.
    """
    names, owner = _owners(attributes, [part.shape[1] for part in covectors])
    V = metric.covectors(np.concatenate(covectors, axis=1))
    mix = _combinations(V, removed)
    if extra.shape[1]:
        of_codes = metric.covectors(np.concatenate(codes, axis=1))
        # Directions for separate limits have no part along those that are kept.
        outside = of_codes - kept @ (kept.T @ of_codes)
        mix = scipy.linalg.block_diag(mix, _combinations(outside, extra))
        V = np.concatenate([V, of_codes], axis=1)
        more = _owners(attributes, [part.shape[1] for part in codes])[1]
        owner = np.concatenate([owner, more])
    return AttributeParts(names=names, codes=metric.back(V), owner=owner, mix=mix, subtracts=False)


def _combinations(V: Array, directions: Array) -> Array:
    """The shortest nu with ``V nu`` equal to the directions, (q, k)."""
    if 0 in (V.shape[1], directions.shape[1]) or not np.any(V):
        return np.zeros((V.shape[1], directions.shape[1]))
    return np.asarray(scipy.linalg.pinv(V, rtol=_CUT) @ directions)
