"""Correlations, ratios and rates by groups known as probabilities, with their errors (METHOD 14).

Means of the groups are ``M = (sum w p p')^-1 sum w p f``. A row changes them by its influence
``q_i (f_i - p_i' M)``, with ``q_i = (sum w p p')^-1 p_i``. If all probabilities are 0 or 1, the errors are
those of known groups.
"""

from __future__ import annotations

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.probabilities import inverse_products

__all__ = ["likely_correlation", "likely_rates", "likely_ratio"]


def likely_correlation(f: Array, p: Array, weight: Array, group: int) -> tuple[Array, Array]:
    """Correlation of f with being in a group, (points,), and the influence of each row, (n, points).

    NaN where the probabilities do not tell the groups apart.

    Parameters
    ----------
    f : (n, points), each with mean 0 and variance 1.
    p : (n, groups) probabilities.
    weight : (n,)
    group : column of ``p``.
    """
    share = weight / weight.sum()
    q = p @ inverse_products((p * share[:, None]).T @ p)
    means = q.T @ (share[:, None] * f)
    size = float(share @ p[:, group])
    scale = np.sqrt(size / max(1.0 - size, 1e-300))
    mean = means[group]
    # The influence on the mean of the group, on the mean and the variance of f, and on the group's share.
    influence = q[:, [group]] * (f - p @ means) - f - mean / 2.0 * (f**2 - 1.0)
    of_share = (p[:, group] - size) / max(2.0 * size * (1.0 - size), 1e-300)
    return scale * mean, scale * (influence + mean * of_share[:, None])


def likely_ratio(f: Array, p: Array, weight: Array) -> tuple[Array, Array]:
    """Correlation ratio of f, (points,), and the largest standard deviation of a row's influence on it.

    The ratio is the length of ``m``, with ``m_j = sqrt(share_j) M_j``. Its error is at most that of m, whose
    variance depends on the direction: a small group with a wide score has the largest. The influence on m
    is taken at right angles to ``sqrt(share)``, as m is: turning both together leaves the length as it is.

    Parameters
    ----------
    f : (n, points), each with mean 0 and variance 1.
    p : (n, groups) probabilities, or 0 and 1; each group has some row.
    weight : (n,)
    """
    share = weight / weight.sum()
    q = p @ inverse_products((p * share[:, None]).T @ p)
    means = q.T @ (share[:, None] * f)
    root = np.sqrt(share @ p)
    m = root[:, None] * means
    spread = np.full(f.shape[1], np.nan)
    for k in np.flatnonzero(np.isfinite(m).all(axis=0)):
        # The influence on the means, on the shares, and on the mean and the variance of f.
        influence = root * q * (f[:, [k]] - p @ means[:, [k]]) + p * (means[:, k] / (2.0 * root))
        influence -= np.outer(influence @ root, root) + np.outer(f[:, k] ** 2, m[:, k] / 2.0)
        variance = (influence * share[:, None]).T @ influence
        spread[k] = np.sqrt(max(float(np.linalg.eigvalsh(variance)[-1]), 0.0))
    return np.sqrt((m**2).sum(axis=0)), spread


def likely_rates(
    decided: Array, p: Array, weight: Array, z: float, spread: float = 1.0
) -> tuple[list[tuple[Array, Array, Array]], Array] | None:
    """Rates of decisions with limits, and correlations of their errors; None if p tells no groups apart.

    Wilson's interval takes the rate for the only unknown number. Here a row's chance of the decision is
    ``p'R``, of which only the part ``p_j R_j`` changes with the rate of group j. The rates are weighted sums
    over the same rows, with weights of opposite sign, so their errors are correlated.

    Parameters
    ----------
    decided : (n, points) 1 for the decision, else 0.
    p : (n, groups) probabilities.
    weight : (n,)
    z : normal quantile.
    spread : multiplies the variance.

    Returns
    -------
    rates : list of (rate, low, high), each (points,), one for each group
    correlation : (groups, groups, points)
    """
    products = (p * weight[:, None]).T @ p
    q = weight[:, None] * (p @ inverse_products(products))
    if np.isnan(q).any() or not np.diag(products).all():
        return None
    rates = np.clip(q.T @ decided, 0.0, 1.0)
    expected = p @ rates
    of_rows = expected * (1.0 - expected)
    covariance = np.stack([(q * own[:, None]).T @ of_rows for own in q.T])
    variance = np.einsum("jjk->jk", covariance)
    out = []
    for j, rate in enumerate(rates):
        # The variance at the rate R_j + d is v + b d - a d^2. The limits are where d^2 is z^2 times that.
        squares = z**2 * spread * q[:, j] ** 2
        a = 1.0 + squares @ p[:, j] ** 2
        b = (squares * p[:, j]) @ (1.0 - 2.0 * expected)
        root = np.sqrt(b**2 + 4.0 * a * z**2 * spread * variance[j])
        low, high = (rate + (b + sign * root) / (2.0 * a) for sign in (-1.0, 1.0))
        out.append((rate, np.maximum(low, 0.0), np.minimum(high, 1.0)))
    sd = np.sqrt(variance)
    sds = sd[:, None] * sd[None]
    # Without variance all rates are 0 or all are 1, and one of two half-widths is 0.
    correlation = np.divide(covariance, sds, out=np.zeros_like(sds), where=sds > 0.0)
    return out, np.clip(correlation, -1.0, 1.0)
