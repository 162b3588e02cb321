"""Error and parity along the whole dial, in and out of fold, and the choice of a dial value."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from fairspan._html import path_html
from fairspan._threads import count_rows, with_few_threads
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.dial_predictor import DialHeads, DialPredictor, move
from fairspan.estimators.path_numbers import IN_SAMPLE, Metric, PathNumbers
from fairspan.estimators.path_rows import (
    of_own_folds,
    out_of_fold,
    read_grid,
    read_rows,
    set_aside,
    split,
)
from fairspan.estimators.path_selection import (
    PathEvaluator,
    Selection,
    one_bound,
    sampling_noise,
    unmet,
)
from fairspan.estimators.private_fit import refuse_private
from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.inputs.checks import check_confidence, is_number
from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_config
from fairspan.method.pilot import N_FOLDS
from fairspan.method.promises import (
    choose,
    keep_budget,
    keep_limit,
    rows_needed,
)
from fairspan.plotting import TradeoffDisplay

# Why a private fit has no path over its own rows.
_COUNTS = (
    "parity would be counted in the groups of the rows of the fit, without noise. Read certificate_ at "
    "other dial values (`at`), or evaluate on other rows with FairnessPath.from_estimator"
)


class FairnessPath(PathNumbers):
    """Predictions, error and parity of one fit along the whole dial.

    Create one with :meth:`from_estimator` (any rows) or :func:`fairness_path` (out of fold). All dial
    values share one pass over the rows: 2d scores per row, then a small product per dial value.

    Parameters
    ----------
    estimator : fitted estimator
        The model that :meth:`select` moves along the dial.
    fairness : ndarray
        Dial values on the native scale of the model; beyond 1 the correlation changes sign.
    predictions : list of DialOutputs
        Fitted scores of the rows, one entry per fold.
    evaluator : PathEvaluator
        Error and parity of predictions on these rows.
    certificate : ndarray
        In-sample supremum of the estimator at each dial value.
    noise : float
        Sampling noise of a correlation, in the smallest cell of the criterion.
    in_sample : bool, default=False
        Some of the rows are training rows of the estimator, so that nothing can be promised from them.

    Attributes
    ----------
    estimator, fairness, certificate, noise, in_sample
        As given.
    error : ndarray
        RMSE, or share of wrong classes (``error_name``).
    attributes, cells : list of str
        Protected attributes; cells of the criterion.
    """

    @classmethod
    def from_estimator(
        cls,
        fitted: FairKernelEstimator,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        n_points: int = 101,
        max_fairness: float = 1.0,
    ) -> FairnessPath:
        """Evaluate a fitted estimator on any rows, at ``n_points`` dial values.

        Parameters
        ----------
        fitted : fairspan estimator
            Fitted with y; a FairRepresentation predicts by its ridge head.
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        n_points : int, default=101
            Number of dial values, equally spaced on the native scale of the model.
        max_fairness : float in (0, 2], default=1.0
            Values past 1 go beyond zero correlation, where gaps between *decisions* may close; 2
            mirrors the unconstrained model. Meant for one predictive direction of angle theta, and
            of use up to ``90 degrees / theta``, where the fitted slope changes its sign.
        """
        grid = read_grid(fitted, n_points, max_fairness)
        fitted._check_fitted()
        data = read_rows(fitted, X, y, sensitive_features, control_features, sample_weight)
        evaluator, heads = PathEvaluator(fitted, data), DialHeads.along(fitted, grid)
        outputs = DialPredictor(fitted, data.X).along(heads, classes=evaluator.classes)
        noise = sampling_noise(fitted, evaluator)
        in_sample = fitted._fitted_share(data.X) is not None
        if in_sample:
            refuse_private(fitted._config, "A path over training rows", _COUNTS)
        return cls(fitted, grid, [outputs], evaluator, heads.supremum, noise, in_sample)

    def plot(self, ax: Any = None, *, metric: str = "correlation") -> TradeoffDisplay:
        """Error against a parity metric on new rows, one curve per attribute (extra: matplotlib)."""
        return TradeoffDisplay.from_path(self, metric, ax=ax)

    # ------------------------------------------------------------------ choosing

    def select(
        self,
        metric: Metric = "correlation",
        *,
        at_most: float | None = None,
        attribute: str | None = None,
        min_accuracy: float | None = None,
        max_error: float | None = None,
        confidence: float | None = 0.95,
        holdout: Any = None,
        strict: bool = False,
    ) -> Any:
        """Take the most accurate dial value that is fair enough on new rows, or the fairest accurate enough.

        A dial value counts as fair enough if the upper confidence bound of the metric keeps the limit, at
        this value and at all values between it and the fair end; a budget is tested from fairness 0. The
        probability that a limit is promised and broken on new rows is then at most ``1 - confidence`` (out
        of fold this is approximate, and measured in the documentation; with ``holdout`` it is exact up to
        the approximation of the bound).

        Parameters
        ----------
        metric, attribute
            As in :meth:`curve`.
        at_most : float
            Bound on the metric: the dial value of lowest error that keeps it.
        min_accuracy, max_error : float
            Instead of ``at_most``, a budget: the dial value of lowest metric that keeps it. The confidence
            is then about the budget.
        confidence : float in (0.5, 1) or None, default=0.95
            Confidence with which the bound is kept on new rows. None compares the measured values
            themselves with the bound, which new rows then break about half of the time.
        holdout : tuple (X, y, sensitive_features), optional
            Rows that neither the model nor this path has seen, to judge the bound on instead of the rows of
            the path. To set aside a share of the rows, give it before the fit: ``fairness_path(...,
            holdout=0.3)``.
        strict : bool, default=False
            Raise ValueError if the bound cannot be kept, instead of a warning and the nearest model.

        Returns
        -------
        estimator
            Fitted, with ``selection_``: a :class:`Selection`. If no dial value keeps the bound, a
            warning is given and the nearest is returned (the fairest, or the most accurate). Beyond 1,
            ``get_params`` shows the fairness above 1; such a model predicts and moves by ``at``, but
            cannot be fitted again, because no constructor accepts that value.
        """
        if holdout is not None:
            return self._judged_on(holdout).select(
                metric,
                at_most=at_most,
                attribute=attribute,
                min_accuracy=min_accuracy,
                max_error=max_error,
                confidence=confidence,
                strict=strict,
            )
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))
        classes = self._evaluator.classes is not None
        on, bound = one_bound(at_most, min_accuracy, max_error, classes=classes)
        value = self.curve(metric, attribute)
        found: dict[str, Any] = {}
        group = None
        if confidence is None:
            i, met = choose(name, value, self.error, on, bound)
        else:
            check_confidence(confidence)
            if self.in_sample:
                warn_user(IN_SAMPLE, DataWarning)
            limit = 1.0 - bound + 1e-12 if on == "accuracy" else bound
            if on == "metric":
                bounds = self._bounds(metric, attribute, confidence)
                value, group = bounds.value, bounds.group
                i, promised = keep_limit(self.fairness, self.error, bounds.upper, limit)
            else:  # the order of a budget begins at fairness 0, also on a path beyond 1
                bounds = self._bounds("error", None, confidence, searched=False)
                i, promised = keep_budget(value, bounds.upper, limit)
            met, upper = len(promised) > 0, float(bounds.upper[i])
            found = {"upper": upper, "confidence": confidence}
            if not met:
                found["rows_needed"] = rows_needed(
                    self._evaluator.n,
                    float(bounds.value[i]),
                    upper,
                    limit,
                    may_be_noise=on == "metric",
                )
        selection = Selection(
            fairness=float(self.fairness[i]),
            error=float(self.error[i]),
            metric=name,
            value=float(value[i]),
            attribute=attribute,
            bound=bound,
            bound_on=on,
            met=met,
            noise=self.noise,
            **found,
        )
        if not met:
            named = [] if metric == "error" else self.attributes
            by = attribute or ", ".join(n for n in named if not n.startswith("sensitive_feature"))
            text = unmet(selection, by, self._evaluator.n, group)
            if strict:
                raise ValueError(text)
            warn_user(text, DataWarning)
        out = move(self.estimator, selection.fairness)
        out.selection_ = selection
        return out

    def _judged_on(self, holdout: Any) -> FairnessPath:
        """The path of the same model on rows that are given as (X, y, sensitive_features)."""
        if is_number(holdout):
            raise ValueError(
                f"holdout={holdout!r} is a share of rows, but this path was made with all of its rows, so "
                f"none of them can be set aside now. Use fairness_path(..., holdout={holdout!r}), which "
                f"sets rows aside before the fit, or give other rows: holdout=(X, y, sensitive_features)."
            )
        if not isinstance(holdout, tuple | list) or len(holdout) != 3:
            raise ValueError(
                "holdout takes rows that neither the model nor the path has seen, as a tuple (X, y, "
                "sensitive_features)."
            )
        if self.estimator._config.criterion_name == "conditional_statistical_parity":
            raise ValueError(
                "holdout=(X, y, sensitive_features) has no strata, which this criterion needs. Use "
                "FairnessPath.from_estimator(path.estimator, X, y, sensitive_features=..., "
                "control_features=...).select(...)."
            )
        X, y, sensitive = holdout
        return FairnessPath.from_estimator(
            self.estimator,
            X,
            y,
            sensitive_features=sensitive,
            n_points=len(self),
            max_fairness=float(self.fairness[-1]),
        )

    def __repr__(self) -> str:
        return (
            f"FairnessPath({type(self.estimator).__name__}, {len(self)} points, fairness 0 to "
            f"{self.fairness[-1]:g}, {self.error_name} {self.error[0]:.4g} to {self.error[-1]:.4g})"
        )

    def _repr_html_(self) -> str:
        return path_html(self)


@with_few_threads(lambda *args, **given: count_rows(*args[1:2], given.get("X")))
def fairness_path(
    estimator: FairKernelEstimator,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    cv: Any = "auto",
    n_points: int = 101,
    max_fairness: float = 1.0,
    holdout: float | None = None,
) -> FairnessPath:
    """Fit and evaluate out of fold along the whole dial.

    Every row is predicted by functions that were not fitted on it; error and parity are computed on all
    rows together. The certificate is that of the model of all rows, which :meth:`FairnessPath.select`
    returns.
    With ``holdout`` one model is fitted on a part of the rows, and the others are its new rows.

    Parameters
    ----------
    estimator : fairspan estimator
        Cloned for each fold and for the refit. ``verbose`` shows progress.
    X, y, sensitive_features, control_features, sample_weight
        As in ``fit``.
    groups : array-like of shape (n_samples,), optional
        Labels of rows that belong together, as in ``fit``; they are never divided between folds.
    cv : "auto", int, splitter or iterable, default="auto"
        "auto": a model whose removal is cross-fitted has functions for each of its folds that did not
        see it, and its average is judged by those; other models are fitted anew without each of five folds.
        Or a number of folds to fit anew, balanced over y and S, or splits that test every row once.
    n_points, max_fairness
        As in :meth:`FairnessPath.from_estimator`.
    holdout : float in (0, 1), optional
        Share of the rows that is set aside before anything is fitted: balanced over y and S, chosen by the
        ``random_state`` of the estimator (None counts as 0). The path is evaluated on them, without folds
        (``cv`` is not used). Its limits are promised for rows that are independent of the model, which needs
        no approximation for folds but costs rows: :meth:`FairnessPath.select` returns the model that was
        fitted on the other rows.

    Returns
    -------
    FairnessPath

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairRidge, fairness_path
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(s, [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=400)
    >>> model = FairRidge(gamma=0.1, random_state=0)
    >>> path = fairness_path(model, X, y, sensitive_features=s, n_points=11, holdout=0.3)
    >>> path.rows
    'held-out'
    >>> bool(path.select("correlation", at_most=0.4).selection_.met)
    True
    """
    grid = read_grid(estimator, n_points, max_fairness)
    refuse_private(read_config(estimator), "fairness_path", _COUNTS)
    # Aligned before the folds, which take rows by position.
    given = align_rows(
        X=X,
        y=y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        groups=groups,
    )
    if holdout is not None:
        train, held = set_aside(estimator, given, holdout)
        held.pop("groups")
        with each_warning_once():
            fitted = clone(estimator).fit(**train)
            return FairnessPath.from_estimator(
                fitted, **held, n_points=n_points, max_fairness=max_fairness
            )
    with each_warning_once():
        refit = clone(estimator).fit(**given)
        data = read_rows(refit, *given.values())
        evaluator = PathEvaluator(refit, data)
        heads = DialHeads.along(refit, grid)
        if isinstance(cv, str) and cv == "auto" and refit._solution.new_rows is not None:
            predictions = of_own_folds(refit, data, heads)
            share = 1.0 - 1.0 / refit.pilot_.n_folds
        else:
            n_rows = _num_samples(given["X"])
            folds = split(refit, data, n_rows, N_FOLDS if isinstance(cv, str) else cv)
            predictions = out_of_fold(estimator, given, data, folds, grid, evaluator)
            share = float(np.mean([len(train) for train, _ in folds])) / n_rows
    noise = sampling_noise(refit, evaluator, share)
    return FairnessPath(refit, grid, predictions, evaluator, heads.supremum, noise)
