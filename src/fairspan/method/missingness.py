"""Rows without a protected attribute: how many have it, and whether X predicts which (METHOD 12).

Whether a row has S is one more 0/1 code. X predicts it as it predicts the codes of S: by ridge regressions
without each fold, compared with the fold, from the moments alone (a row with S is a row in any of its
levels). The ridge is that of y, which does not look at the code.

If having S does not depend on X, the covariances of psi and the code in the folds are independent and
normal, and the strength of the prediction has a distribution that depends on the spectrum of Sig and on
the weights of the folds only. It is drawn. The test of METHOD 4, which needs no folds, rejects far too
often where few rows have S or few lack it: a few rows of high leverage then decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.certificates import MissingSensitive
from fairspan.method.linalg import Array, Tridiagonal
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.new_rows import MIN_FOLD_ROWS
from fairspan.method.pilot import Pilot
from fairspan.method.sdr import ridge_factor

__all__ = ["describe_missing", "missing_rows", "rows_with", "warn_of_missing"]

# Draws of the strength under the null hypothesis, in parts of this many numbers.
_DRAWS, _PART = 2000, 2**21


def rows_with(moments: Moments, attribute: int) -> Array:
    """Number of rows with an attribute in every group of the moments, (G,)."""
    start = sum(moments.level_sizes[:attribute])
    part = slice(start, start + moments.level_sizes[attribute])
    rows = moments.level_rows[:, part]
    # A row with probabilities counts in each of its levels.
    return np.asarray(rows.max(axis=1) if attribute in moments.pair_variables else rows.sum(axis=1))


def missing_rows(moments: Moments, pilot: Pilot) -> str:
    """What out-of-fold estimates need, and what there is; "" if all folds have enough rows."""
    K, n = moments.n_folds, moments.n_rows
    counts: list[tuple[str, Array]] = [("", np.asarray(moments.rows, dtype=np.float64))]
    for j, coder in enumerate(pilot.coders):
        known = rows_with(moments, j)
        if known.sum() < n:
            counts.append((f" with {coder.name!r}", known))
    for having, rows in counts:
        # Folds that are balanced within groups differ by a few rows.
        least = int(rows.min()) if K > 1 else 0
        if rows.sum() < MIN_FOLD_ROWS * K or 2 * least < MIN_FOLD_ROWS:
            return (
                f"{MIN_FOLD_ROWS} rows{having} in each of {K} folds, and there are {int(rows.sum())} "
                f"rows{having} in all, {least} in the smallest fold"
            )
    return ""


def describe_missing(moments: Moments, pilot: Pilot, eta: float) -> tuple[MissingSensitive, ...]:
    """Describe every attribute that some rows do not have.

    Parameters
    ----------
    moments : per fold, in the coordinates of psi.
    eta : ridge of the regression of "the row has S" on psi.
    """
    n_rows = moments.n_rows
    known = [int(rows_with(moments, j).sum()) for j in range(len(pilot.coders))]
    missing = [j for j, rows in enumerate(known) if rows < n_rows]
    if not missing:
        return ()
    folds = moments.n_folds > 1 and bool((moments.rows > 0).all())
    total = moments.pool(scatter=folds)
    correlations: list[float | None] = [None] * len(missing)
    null = np.zeros(0)
    if folds:
        correlations = _out_of_fold(moments, missing, eta)
        null = _null_strengths(total.cov, moments.weight / total.weight, eta)
    n = kish(total.weight, total.weight2) * pilot.cluster_share
    out = []
    for j, correlation in zip(missing, correlations, strict=True):
        p_value = None
        if correlation is not None:
            larger = int((null >= np.sqrt(n) * correlation).sum())
            p_value = (1.0 + larger) / (1.0 + len(null))
        out.append(
            MissingSensitive(
                attribute=pilot.coders[j].name,
                n_known=known[j],
                n_rows=n_rows,
                share=_indicator(total, j)[0],
                correlation=correlation,
                p_value=p_value,
            )
        )
    return tuple(out)


def warn_of_missing(found: Sequence[MissingSensitive]) -> None:
    """Warn of attributes whose rows with a value differ from the others in X."""
    for each in found:
        if not each.depends_on_x:
            continue
        warn_user(
            f"{each.attribute!r} is known for {each.n_known:,} of {each.n_rows:,} rows, and X predicts for "
            f"which ({each.test}), so it is not missing at random. Covariances, intervals and limits of "
            f"{each.attribute!r} are about the people who gave it, and can be wrong for the others. Ask a "
            f"random sample of the others, or give rows that have it the weight 1 / P(known | X) "
            f"(sample_weight).",
            DataWarning,
            key=f"missing at random {each.attribute}",
        )


def _indicator(pooled: Pooled, attribute: int) -> tuple[float, Array]:
    """Share of the weight of the rows with an attribute, and the covariance of psi with having it."""
    levels = pooled.levels[attribute]
    weight = float(levels.weight.sum())
    if weight == 0.0 or pooled.weight == 0.0:
        return 0.0, np.zeros(len(pooled.mean))
    share = min(weight / pooled.weight, 1.0)
    return share, share * (levels.weight @ levels.mean / weight - pooled.mean)


def _out_of_fold(moments: Moments, attributes: list[int], eta: float) -> list[float | None]:
    """Correlation of having each attribute with its prediction by the other folds."""
    count = len(attributes)
    cov, predicted, spread = np.zeros(count), np.zeros(count), np.zeros(count)
    for k in range(moments.n_folds):
        mask = np.arange(moments.n_folds) == k
        test, train = moments.pool(folds=mask), moments.pool(folds=~mask)
        right = np.stack([_indicator(train, j)[1] for j in attributes], axis=1)
        H = scipy.linalg.cho_solve((ridge_factor(train.cov, eta), True), right)
        predicted += np.einsum("dj,dj->j", H, test.scatter @ H)
        for i, j in enumerate(attributes):
            share, cross = _indicator(test, j)
            cov[i] += test.weight * float(H[:, i] @ cross)
            spread[i] += test.weight * share * (1.0 - share)
    return [
        float(c / np.sqrt(p * s)) if p > 0.0 and s > 0.0 else None
        for c, p, s in zip(cov, predicted, spread, strict=True)
    ]


def _null_strengths(cov: Array, share: Array, eta: float) -> Array:
    """Draw the strength of the prediction of a code that does not depend on X.

    With scores z_k of the folds, normal with variance pi_k in the eigenvectors of Sig, and
    ``a = mu / (mu + eta)``, the covariance is ``sum_k z_k'a s_k`` and the variance of the prediction
    ``sum_k pi_k |a s_k|^2``, where s_k is the mean score of the other folds.
    """
    values = np.maximum(Tridiagonal.of(cov).eigenvalues(), 0.0)
    a = values / (values + eta)
    a = a[a > 1e-3 * float(a.max(initial=0.0))]
    rng, out = np.random.default_rng(0), []
    size = max(1, _PART // max(1, len(share) * len(a)))
    for start in range(0, _DRAWS, size):
        n = min(size, _DRAWS - start)
        z = rng.standard_normal((n, len(share), len(a))) * np.sqrt(share)[:, None]
        predicted = a * (z.sum(axis=1, keepdims=True) - z) / (1.0 - share)[:, None]
        cov_b = np.einsum("nkd,nkd->n", z, predicted)
        var_b = np.einsum("k,nkd,nkd->n", share, predicted, predicted)
        out.append(cov_b / np.sqrt(np.maximum(var_b, 1e-300)))
    return np.concatenate(out)
