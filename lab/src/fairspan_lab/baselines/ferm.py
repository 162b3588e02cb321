"""Fair empirical risk minimisation: support vector machines with equal opportunity.

Donini, Oneto, Ben-David, Shawe-Taylor and Pontil (2018), "Empirical risk minimization under
fairness constraints", Advances in Neural Information Processing Systems 31.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.svm import SVC

from fairspan.inputs.columns import align_rows
from fairspan.method.linalg import Array
from fairspan_lab.baselines._common import (
    Baseline,
    BaselineClassifier,
    check_choice,
    check_number,
    generator,
    need,
    positive_rows,
    read_rows,
    read_two_classes,
)
from fairspan_lab.baselines._kernels import kernel_scores, make_kernel
from fairspan_lab.baselines._sensitive import read_sensitive, read_two_groups

__all__ = ["FERM", "LinearFERM"]

# Below these shares of the mean squared norm, |u|^2 is rounding: there is no disparity to remove.
# (u itself is summed for the linear machine; for the kernel |u|^2 is a difference of means.)
_LINEAR_EPS = 1e-24
_KERNEL_EPS = 1e-13


class LinearFERM(BaselineClassifier):
    """Linear support vector machine with equal mean scores of both groups among the positives.

    Solves (Donini et al. 2018, for a linear model and tolerance 0)::

        min_w,b  1/2 |w|^2 + C sum_i max(0, 1 - y_i (w.x_i + b))
        s.t.     w.u = 0,   u = mean(x | y = +, S = a) - mean(x | y = +, S = b)

    by training on rows from which the direction u is removed.

    Limits: one binary protected attribute, two classes, equal opportunity only; nothing lowers
    statistical parity or equalized odds. Equal are the means of the score on the training rows,
    not the rates of decisions. Its solver needs O(n^2) time.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge loss.
    reduction : {"projection", "authors"}, default="projection"
        "projection" takes ``x - u (u.x)/|u|^2`` and solves the problem above. "authors" takes
        ``x_j - u_j x_i/u_i`` without column i, the largest entry of ``|u|``, as the published code
        does: not orthogonal, so its penalty on w is another one.
    pos_label : label, default=None
        The favourable class, whose rows are constrained; the second in sorted order if None.
    tol : float, default=1e-5
        Stopping tolerance of :class:`sklearn.svm.SVC` (whose 1e-3 leaves the objective 1e-4 too large).

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    groups_ : ndarray of shape (2,)
        Values of the protected attribute.
    coef_ : ndarray of shape (1, n_features)
        Weights w for the original features.
    intercept_ : ndarray of shape (1,)
        Intercept b.
    mean_difference_ : ndarray of shape (n_features,)
        The direction u: second group minus first.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import LinearFERM
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + s[:, None]
    >>> y = np.where(X[:, 0] + rng.normal(size=200) > 0.5, "yes", "no")
    >>> model = LinearFERM().fit(X, y, sensitive_features=s)
    >>> score, hired = model.decision_function(X), y == "yes"
    >>> bool(abs(score[hired & (s == 0)].mean() - score[hired & (s == 1)].mean()) < 1e-9)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        reduction: str = "projection",
        pos_label: Any = None,
        tol: float = 1e-5,
    ) -> None:
        self.C = C
        self.reduction = reduction
        self.pos_label = pos_label
        self.tol = tol

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attribute.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame with one column
            One binary attribute. Not needed again.

        Returns
        -------
        self
        """
        C = check_number("C", self.C, open_low=True)
        check_choice("reduction", self.reduction, ("projection", "authors"))
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        if self.reduction == "authors" and rows.shape[1] == 1:
            msg = "reduction='authors' drops a column, and X has n_features=1. Use 'projection'."
            raise ValueError(msg)
        signs, classes = read_two_classes(self, y, len(rows))
        contrast, groups = _contrast(self, X, signs, classes, sensitive_features)
        u = rows.T @ contrast
        size = float(np.einsum("ij,ij->", rows, rows)) / len(rows)
        reduction = _reduction(u, self.reduction, tiny=_LINEAR_EPS * size)
        machine = SVC(kernel="linear", C=C, tol=self.tol).fit(rows @ reduction, signs)
        self.classes_, self.groups_, self.mean_difference_ = classes, groups, u
        self.coef_ = machine.coef_ @ reduction.T
        self.intercept_ = machine.intercept_
        return self

    def decision_function(self, X: Any) -> Array:
        """``w.x + b``; positive means ``classes_[1]``. No protected attribute is read."""
        return np.asarray(self._read_new(X) @ self.coef_[0] + self.intercept_[0])


class FERM(BaselineClassifier):
    """Kernel support vector machine with equal mean scores of both groups among the positives.

    Solves, for f in the space of the kernel k (Donini et al. 2018)::

        min_f,b  1/2 |f|^2 + C sum_i max(0, 1 - y_i (f(x_i) + b))
        s.t.     |<f, u>| <= tolerance,   u = mean k(., x | y = +, S = a) - mean k(., x | y = +, S = b)

    At tolerance 0 the solution is an ordinary machine with the deflated kernel
    ``k(x, z) - t(x) t(z) / |u|^2``, ``t(x) = u(x)``. For a positive tolerance it is one with
    ``k - theta t t / |u|^2``, theta in [0, 1): the bound in penalty form, theta found by a search
    in one dimension.

    Limits: one binary protected attribute, two classes, equal opportunity only; nothing lowers
    statistical parity or equalized odds. Equal are means of scores on the training rows: with a
    narrow kernel and large C the gap on new rows can be as large as without the constraint. It
    keeps an n x n matrix.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge loss.
    kernel : str or callable, default="rbf"
        Name of a kernel of :mod:`sklearn.metrics.pairwise`, or ``f(X, Z)`` or ``f(x, z)``.
    gamma : {"scale", "median"} or float, default="scale"
        Width of the kernel, ``exp(-gamma |x - z|^2)``; "scale" is scikit-learn's rule.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    tolerance : float, default=0.0
        Largest difference of mean scores allowed. Reached to four digits.
    solver : {"exact", "authors"}, default="exact"
        "authors" reproduces the published code: the dual of the plain machine with the further
        constraint ``sum_i alpha_i y_i t(x_i) = 0``, which is not the dual of the problem above (its
        optimum holds a multiple of u, too). As fair in sample, never a smaller objective. For
        tolerance 0 only; needs cvxpy.
    pos_label : label, default=None
        The favourable class, whose rows are constrained; the second in sorted order if None.
    tol : float, default=1e-5
        Stopping tolerance of :class:`sklearn.svm.SVC` (whose 1e-3 leaves the objective 1e-4 too large).

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    groups_ : ndarray of shape (2,)
        Values of the protected attribute.
    X_fit_ : ndarray of shape (m, n_features)
        Training rows with a coefficient.
    dual_coef_ : ndarray of shape (m,)
        Coefficients of ``f = sum_i dual_coef_i k(x_i, .)``.
    intercept_ : float
        Intercept b. With ``solver="authors"`` the mean of ``y_i - f(x_i)`` over ``0 < alpha_i < C``
        (the published code averages over all support vectors).
    kernel_ : fairspan.method.kernels.Kernel
        The kernel with its parameters.
    disparity_ : float
        ``<f, u>``: difference of mean scores, second group minus first, on the training positives.
    deflation_ : float
        Share theta of u taken out of the kernel: 1 at tolerance 0; 0 if there was nothing to do.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import FERM
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + s[:, None]
    >>> y = X[:, 0] + rng.normal(size=200) > 0.5
    >>> model = FERM(gamma=0.5).fit(X, y, sensitive_features=s)
    >>> bool(abs(model.disparity_) < 1e-9)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        kernel_params: Any = None,
        tolerance: float = 0.0,
        solver: str = "exact",
        pos_label: Any = None,
        tol: float = 1e-5,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.tolerance = tolerance
        self.solver = solver
        self.pos_label = pos_label
        self.tol = tol

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attribute.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame with one column
            One binary attribute. Not needed again.

        Returns
        -------
        self
        """
        C = check_number("C", self.C, open_low=True)
        tolerance = check_number("tolerance", self.tolerance)
        check_choice("solver", self.solver, ("exact", "authors"))
        if self.solver == "authors" and tolerance > 0.0:
            msg = f"solver='authors' has tolerance 0 only; tolerance={tolerance:g} needs solver='exact'."
            raise ValueError(msg)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        signs, classes = read_two_classes(self, y, len(rows))
        contrast, groups = _contrast(self, X, signs, classes, sensitive_features)
        kernel = make_kernel(self.kernel, self.gamma, self.kernel_params, rows, generator(0))
        gram = kernel(rows, rows)
        if self.solver == "authors":
            coef, intercept = _authors_dual(gram, signs, contrast, C)
            theta = 1.0
        else:
            coef, intercept, theta = _deflated(gram, signs, contrast, C, tolerance, self.tol)
        self.classes_, self.groups_, self.kernel_ = classes, groups, kernel
        support = coef != 0.0
        self.X_fit_, self.dual_coef_, self.intercept_ = rows[support], coef[support], intercept
        self.disparity_ = float(contrast @ gram @ coef)
        self.deflation_ = theta
        return self

    def decision_function(self, X: Any) -> Array:
        """``f(x) + b``; positive means ``classes_[1]``. No protected attribute is read."""
        rows = self._read_new(X)
        return kernel_scores(self.kernel_, rows, self.X_fit_, self.dual_coef_) + self.intercept_


# --------------------------------------------------------------------------- the problems


def _contrast(
    est: Baseline, X: Any, signs: Array, classes: NDArray[Any], sensitive_features: Any
) -> tuple[Array, NDArray[Any]]:
    """Weights c with ``u = sum_i c_i phi(x_i)``, and the two groups: 1/n_b in one, -1/n_a in the other."""
    attributes = read_sensitive(est, X, sensitive_features, len(signs))
    second, groups = read_two_groups(est, attributes)
    positive = positive_rows(signs, classes, getattr(est, "pos_label", None))
    counts = int((positive & ~second).sum()), int((positive & second).sum())
    if 0 in counts:
        empty = groups[counts.index(0)]
        msg = (
            f"No row of the favourable class has {next(iter(attributes))!r} = {empty!r}, so its mean "
            f"score is not defined. Equal opportunity needs both groups there; check pos_label."
        )
        raise ValueError(msg)
    contrast = np.where(second, 1.0 / counts[1], -1.0 / counts[0])
    return np.where(positive, contrast, 0.0), groups


def _reduction(u: Array, how: str, tiny: float) -> Array:
    """Matrix R such that ``R v`` is orthogonal to u for every v; the identity if u is rounding."""
    size, square = len(u), float(u @ u)
    if square <= tiny:
        return np.eye(size)
    if how == "projection":
        return np.eye(size) - np.outer(u, u) / square
    largest = int(np.argmax(np.abs(u)))
    others = np.delete(np.arange(size), largest)
    out = np.eye(size)[:, others]
    out[largest] = -u[others] / u[largest]
    return out


def _machine(gram: Array, signs: Array, C: float, tol: float) -> tuple[Array, float]:
    """``alpha_i y_i`` and the intercept of a support vector machine."""
    machine = SVC(kernel="precomputed", C=C, tol=tol).fit(gram, signs)
    coef = np.zeros(len(signs))
    coef[machine.support_] = machine.dual_coef_[0]
    return coef, float(machine.intercept_[0])


def _deflated(
    gram: Array, signs: Array, contrast: Array, C: float, tolerance: float, tol: float
) -> tuple[Array, float, float]:
    """Coefficients on ``k(x_i, .)``, intercept and theta of the machine within the tolerance.

    The Lagrangian with multiplier ``nu <f, u>^2 / 2`` has the inner product ``<f, f> + nu <f, u>^2``,
    whose kernel is ``k - theta t t / |u|^2`` with ``theta = nu |u|^2 / (1 + nu |u|^2)``; and |<f, u>|
    never grows with nu.
    """
    t = gram @ contrast
    square = float(contrast @ t)
    if square <= _KERNEL_EPS * float(np.trace(gram)) / len(gram):
        return *_machine(gram, signs, C, tol), 0.0

    def at(theta: float) -> tuple[Array, float]:
        coef, intercept = _machine(gram - theta / square * np.outer(t, t), signs, C, tol)
        return coef - theta * (coef @ t) / square * contrast, intercept

    def excess(theta: float) -> float:
        return float(abs(at(theta)[0] @ t)) - tolerance

    theta = 1.0
    if tolerance > 0.0:
        theta = (
            0.0 if excess(0.0) <= 0.0 else float(brentq(excess, 0.0, 1.0, xtol=1e-12, rtol=1e-5))
        )
    return *at(theta), theta


def _authors_dual(gram: Array, signs: Array, contrast: Array, C: float) -> tuple[Array, float]:
    """The published algorithm: the plain dual with one more equality constraint."""
    cp = need("cvxpy", "FERM(solver='authors')")
    alpha = cp.Variable(len(signs))
    curvature = cp.psd_wrap(gram * np.outer(signs, signs))
    fair = (signs * (gram @ contrast)) @ alpha == 0
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.quad_form(alpha, curvature) - cp.sum(alpha)),
        [alpha >= 0, alpha <= C, signs @ alpha == 0, fair],
    )
    problem.solve(solver=cp.CLARABEL)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        msg = (
            f"The quadratic program of FERM(solver='authors') ended with status {problem.status!r}."
        )
        raise RuntimeError(msg)
    # An interior point leaves 1e-8 where the solution has 0 or C.
    share = np.clip(alpha.value / C, 0.0, 1.0)
    share[share < 1e-6], share[share > 1.0 - 1e-6] = 0.0, 1.0
    coef = C * share * signs
    free = (share > 0.0) & (share < 1.0)
    if not free.any():
        free = share > 0.0
    return coef, float(np.mean(signs[free] - gram[free] @ coef))
