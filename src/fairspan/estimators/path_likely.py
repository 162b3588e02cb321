"""Correlations and rates by groups that are known as probabilities, with their errors (METHOD 14).

Means of the groups are ``M = (sum w p p')^-1 sum w p f``. A row changes them by its influence
``q_i (f_i - p_i' M)``, with ``q_i = (sum w p p')^-1 p_i``. If all probabilities are 0 or 1, the errors are
those of known groups.
"""

from __future__ import annotations

import numpy as np

from fairspan.method.decision_certificate import wilson
from fairspan.method.linalg import Array
from fairspan.method.probabilities import inverse_products

__all__ = ["likely_correlation", "likely_rates"]


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


def likely_rates(
    decided: Array, p: Array, weight: Array, z: float, spread: float = 1.0
) -> list[tuple[Array, Array, Array]] | None:
    """Rate of decisions in each group with its limits, each (points,); None if p does not tell them apart.

    Wilson's interval takes the rate for the only unknown number. Rows of other groups, which have some
    probability of this one, add the variance of their own decisions.

    Parameters
    ----------
    decided : (n, points) 1 for the decision, else 0.
    p : (n, groups) probabilities.
    weight : (n,)
    z : normal quantile.
    spread : multiplies the variance.
    """
    products = (p * weight[:, None]).T @ p
    q = weight[:, None] * (p @ inverse_products(products))
    if np.isnan(q).any() or not np.diag(products).all():
        return None
    rates = np.clip(q.T @ decided, 0.0, 1.0)
    expected = p @ rates
    variance = (q**2).T @ (expected * (1.0 - expected))
    out = []
    for rate, squares, of_rows in zip(rates, (q**2).sum(axis=0), variance, strict=True):
        n = 1.0 / (squares * spread)
        more = np.maximum(of_rows * spread - rate * (1.0 - rate) / n, 0.0)
        out.append((rate, *wilson(rate, n, z, more)))
    return out
