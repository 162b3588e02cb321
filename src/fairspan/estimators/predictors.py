"""Base classes of predictors: of numbers, and of classes with decision rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.decision_fit import RuleRows, choose_rules, predict_rows
from fairspan.estimators.receipts import FairnessReceipt, explain
from fairspan.estimators.rows_again import FoldSums, check_starts_anew, read_block, refuse_rows
from fairspan.estimators.rule_stream import rule_sums, stream_rules
from fairspan.estimators.state import FittedAttribute, FittedState, ScoredRows
from fairspan.exceptions import DataWarning, DecisionRuleError, warn_user
from fairspan.inputs.checks import (
    check_confidence,
    check_decisions,
    check_probabilities,
    is_number,
    refuse,
    without_decisions_form,
)
from fairspan.method.decision_certificate import DecisionCertificate
from fairspan.method.decision_rule import RulePoint, decide
from fairspan.method.expected import OutOfFoldScores
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.problem import Data
from fairspan.method.rate_codes import Limit
from fairspan.method.rule_words import RuleWords

# Confidence of the intervals of a certificate.
_CONFIDENCE = 0.95
_NO_RULES = (
    "equalize='decisions' needs removal on new rows, which these rows do not allow: it takes at least 10 "
    "rows in each of 5 folds, and a y that X predicts. Add rows, or use equalize='scores'."
)


class FairPredictor(FairKernelEstimator):
    """An estimator that predicts from the scores of the model space."""

    @property
    def _score_scale(self) -> tuple[float, float]:
        """Factor and shift from the fitted outputs to predictions, or to scores of classes."""
        return 1.0, 0.0

    @property
    def _score_words(self) -> str:
        """What predictions or scores are."""
        return "prediction"

    def explain_fairness(self, X: Any, *, columns: bool = True) -> FairnessReceipt:
        """What fairness changed in the score of each row, divided among the protected attributes.

        The score of the unconstrained model (fairness 0) minus that of this model is the sum of one part
        for each attribute and of a rescaling. No protected attribute is read. A part is what the model
        subtracts because the columns of X predict the attribute. It is neither the effect of the
        attribute on the outcome nor the reason for a decision.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        columns : bool, default=True
            With ``kernel="linear"``, divide the parts among the columns of X as well: one more number per
            row, attribute and column.

        Returns
        -------
        FairnessReceipt

        Raises
        ------
        ValueError
            For ``method="paper"`` and "rkhs", ``subspace="fair"`` and precomputed kernels, which have no
            such form.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairRidge
        >>> rng = np.random.default_rng(0)
        >>> s = rng.integers(0, 2, 200)
        >>> X = rng.normal(size=(200, 2)) + s[:, None] * [1, 0]
        >>> y = X.sum(axis=1) + rng.normal(size=200)
        >>> model = FairRidge(kernel="linear").fit(X, y, sensitive_features=s)
        >>> receipt = model.explain_fairness(X)
        >>> total = receipt.parts.sum(axis=1) + receipt.rescaling
        >>> bool(np.allclose(total, receipt.before - receipt.after))
        True
        """
        return explain(self, X, columns=columns)

    def _path(self, X: Any, y: Any, *, control_features: Any = None, **options: Any) -> Any:
        """``FairnessPath.from_estimator`` of this model, for displays, which cannot import it.

        Control features are ignored unless the criterion needs them.
        """
        from fairspan.estimators.path import FairnessPath  # it imports this module

        if self._config.criterion_name != "conditional_statistical_parity":
            control_features = None
        options["control_features"] = control_features
        return FairnessPath.from_estimator(self, X, y, **options)


class RuleClassifier(FairPredictor):
    """An estimator that predicts classes, by scores or by decision rules."""

    _target_kind = "categorical"
    equalize: Any
    selection_rate: Any
    cost_matrix: Any

    decision_function: Any
    predict: Any

    decision_rule_ = FittedAttribute(lambda s: _rule_in_words(s), after="rule")

    @property
    def _score_words(self) -> str:
        if self._config.equalize == "decisions":
            return "margin of the rule"
        return "score" if self._score_scale[0] == 2.0 else "log odds"

    # ------------------------------------------------------------------ decision rules

    def _with_rows(self, state: FittedState, data: Data | None) -> FittedState:
        state, config = replace(state, decisions=None, rule=None, rule_rows=None), state.config
        if data is not None and without_decisions_form(config) is None:
            return self._with_rule_rows(state, predict_rows(state, data))
        if data is not None or config.equalize == "scores":
            return state
        # After partial_fit, solve and merge, the rules wait for the rows of `fit_head`.
        return state if self._stream is None else self._with_streamed_rules(state, self._stream)

    def _with_streamed_rules(
        self,
        state: FittedState,
        blocks: Callable[[], Iterable[Data]],
        sums: FoldSums | None = None,
    ) -> FittedState:
        """State with rules that are chosen from rows that are read again."""
        found = stream_rules(state, blocks, sums)
        if found is None:
            raise DecisionRuleError(_NO_RULES)
        rows, decisions = found
        whole = decisions.n_streamed is None
        return replace(state, rule_rows=rows if whole else None, decisions=decisions)

    def fit_head(self, blocks: Iterable[Any]) -> Self:
        """Choose the rules of ``equalize="decisions"`` after :meth:`partial_fit` or :meth:`merge`.

        The rates of groups are counted in the rows, on which every function is one that did not see
        them; moments do not have these rates. :meth:`fit` and :meth:`fit_stream` need no second call.

        Parameters
        ----------
        blocks : iterable
            The same rows again, as ``(X, y, sensitive_features)`` or as dicts of the arguments of
            :meth:`fit`: a list, or another object whose ``iter()`` starts anew, because more than 200,000
            rows are read twice. Folds must be those of the moments, so give the order of
            :meth:`partial_fit`, or the order of positions after ``prepare(..., folds="position")``; any
            order after ``prepare(..., folds="hash")``. Other rows or another order raise an error.

        Returns
        -------
        self
        """
        if self._state is None or self._state.solution is None:
            msg = "fit_head comes after partial_fit, merge or solve: there are no directions yet."
            raise NotFittedError(msg)
        self._check_unchanged()
        if self._config.equalize == "scores":
            msg = "equalize='scores' is fitted from moments alone; fit_head has nothing to do."
            raise ValueError(msg)
        self._need_moments("fit_head")
        check_starts_anew(blocks, "equalize='decisions'", "equalize='scores'")
        with self._step() as work:
            state = work._fit_state
            moments, pilot = state.moments, state.pilot
            assert moments is not None
            if state.solved.n_rows != moments.n_rows:
                msg = "Rows were added after the model was solved; call solve() before fit_head."
                raise ValueError(msg)
            sums = rule_sums(state)
            read = lambda: map(work._read_block, blocks)  # noqa: E731
            state = work._with_streamed_rules(state, read, sums)
            if sums is not None and not sums.agree_with(moments, pilot):
                refuse_rows(sums.n_rows, moments.n_rows)
            work._state = state
            work._locate()
        return self

    def _read_block(self, block: Any) -> Data:
        return read_block(self, block)

    def _check_fitted(self) -> None:
        state = self._state
        waits = state is not None and state.solution is not None and state.decisions is None
        if waits and self._config.equalize == "decisions":
            msg = (
                "The decision rules are not chosen yet: they need the rows once more after partial_fit or "
                "merge. Call fit_head(blocks), or use equalize='scores', which needs moments alone."
            )
            raise NotFittedError(msg)
        super()._check_fitted()

    def _scores_out_of_fold(self, state: FittedState) -> OutOfFoldScores | None:
        rows, fit = state.rule_rows, state.solved.new_rows
        if rows is None or fit is None or fit.code_mix is None:
            return None
        q = len(fit.code_mix)
        of_basis = np.concatenate([rows.scores[:, q:], rows.scores[:, :q] @ fit.code_mix], axis=1)
        return OutOfFoldScores(scores=of_basis, folds=rows.folds, encoded=rows.encoded)

    def _with_rule_rows(self, state: FittedState, rows: RuleRows | None) -> FittedState:
        """State with rules, or with rows from which ``at`` can choose them."""
        state = replace(state, rule_rows=rows)
        if state.config.equalize == "scores":
            return state
        if rows is None:
            raise DecisionRuleError(_NO_RULES)
        return replace(state, decisions=choose_rules(state, rows))

    def _positioned(self, state: FittedState) -> FittedState:
        if state.decisions is None:
            if state.config.equalize == "decisions":  # no model before its rules are chosen
                return replace(state, position=None, head=None)
            return super()._positioned(state)
        return self._ruled(state, state.decisions.at_share(_number(state.config.fairness)))

    def _ruled(
        self,
        state: FittedState,
        point: RulePoint,
        confidence: float = _CONFIDENCE,
        *,
        limited: bool = False,
    ) -> FittedState:
        """State with the score of the unconstrained model and a decision rule, of the dial or of a limit."""
        config, fit = state.config, state.decisions
        assert fit is not None
        free = replace(config, fairness=0.0, dial="share", equalize="scores")
        position = super()._positioned(replace(state, config=free)).located
        found = replace(fit.certify(point, confidence), difference=fit.difference(point))
        certificate = replace(
            position.certificate,
            fairness=_number(config.fairness),
            dial="share",
            decisions=found if limited else replace(found, limit=None),
        )
        position = replace(position, fairness=_number(config.fairness), certificate=certificate)
        return replace(state, position=position, rule=point)

    def at(
        self,
        fairness: Any = None,
        *,
        dial: Any = None,
        max_correlation: Any = None,
        max_gap: Any = None,
        min_ratio: Any = None,
        confidence: Any = None,
        equalize: Any = None,
    ) -> Self:
        """The same fit at another dial value: a new estimator, without the data.

        Parameters
        ----------
        fairness, dial, max_correlation
            As in :meth:`FairRepresentation.at`. With ``equalize="decisions"``, fairness is the share of the
            gap between the rates of groups that is gone; 1 is the smallest gap that is reached out of fold.
        max_gap : float in [0, 1], or dict of such, optional
            Instead of ``fairness``, for decisions: the largest difference between the rates
            of two groups, out of fold. A dict gives attributes limits of their own, e.g.
            ``{"sex": 0.02, "race": 0.05}``; the others have none.
        min_ratio : float in [0, 1], or dict of such, optional
            The smallest ratio of two rates instead, e.g. 0.8 (the four-fifths rule).
        confidence : float, optional
            Keep ``max_gap``, ``min_ratio`` or one ``max_correlation`` with this confidence on new rows, e.g.
            0.95. A warning says if the fairest model cannot promise it.
        equalize : {"scores", "decisions"}, optional
            Switch to equal scores or to equal decisions, without a new fit. ``max_gap`` and ``min_ratio``
            switch to decisions by themselves. A model that was loaded, copied, streamed or merged has no
            rows to choose rules from, so it cannot switch to decisions.

        Returns
        -------
        estimator
            Fitted, sharing the moments; ``get_params()`` shows the new dial.
        """
        self._check_fitted()
        self._check_unchanged()
        limited = max_gap is not None or min_ratio is not None
        if limited and equalize == "scores":
            msg = "max_gap and min_ratio limit rates of decisions, not equalize='scores'; leave equalize out."
            raise ValueError(msg)
        if (
            limited
            and sum(v is not None for v in (fairness, max_correlation, max_gap, min_ratio)) > 1
        ):
            msg = "at() takes one of `fairness`, `max_correlation`, `max_gap` and `min_ratio`."
            raise ValueError(msg)
        wanted = "decisions" if limited else equalize
        source = self if wanted is None else self._equalizing(wanted)
        if limited:
            return source._at_limit(max_gap, min_ratio, confidence)
        if source._fit_state.decisions is not None and confidence is not None:
            msg = "With equalize='decisions' confidence goes with max_gap or min_ratio."
            raise ValueError(msg)
        if equalize is not None and fairness is None and max_correlation is None:
            fairness = self.fairness
            rates = self._fit_state.located.certificate.decisions
            if source is not self and rates is not None and rates.limit is not None:
                # A limit on rates is no share of the dependence of scores: go back to the fit.
                fairness, dial = (self._fit_state.given[name] for name in ("fairness", "dial"))
        return super(RuleClassifier, source).at(
            fairness, dial=dial, max_correlation=max_correlation, confidence=confidence
        )

    def _equalizing(self, equalize: Any) -> Self:
        """The same fit with scores or with decisions made equal, not yet at a dial value."""
        if equalize not in ("scores", "decisions"):
            refuse("equalize", equalize, "'scores' or 'decisions'")
        state = self._fit_state
        if equalize == state.config.equalize:
            return self
        changes: dict[str, Any] = {"equalize": equalize}
        rows = state.rule_rows
        if equalize == "scores":
            if rows is not None:
                kept = {name: getattr(self, name) for name in ("selection_rate", "cost_matrix")}
                rows = replace(rows, options=kept)
            changes |= {"selection_rate": None, "cost_matrix": None}
        elif rows is not None:
            changes |= rows.options
        out = copy.copy(self)
        for name, value in changes.items():
            setattr(out, name, value)
        config = replace(state.config, **changes)
        decisions = None
        if equalize == "decisions":
            check_decisions(replace(config, fairness=1.0, dial="share"))
            check_probabilities(config)
            if rows is None:
                msg = (
                    "This model has equal scores, and decision rules need the training rows: files, copies, "
                    "long streams and merged moments do not have them. Fit with equalize='decisions' "
                    "(and save that model); it has fair scores too."
                )
                raise ValueError(msg)
            decisions = rows.rules(replace(state, config=config))
        given = {**state.given, **changes}
        out._state = replace(
            state, decisions=decisions, rule=None, config=config, given=given, rule_rows=rows
        )
        return out

    def _at_limit(self, max_gap: Any, min_ratio: Any, confidence: Any) -> Self:
        name, value = ("max_gap", max_gap) if min_ratio is None else ("min_ratio", min_ratio)
        values = value.values() if isinstance(value, dict) else [value]
        if not all(is_number(v) and 0.0 <= v <= 1.0 for v in values):
            refuse(name, value, "a number from 0 to 1, or a dict with one for each attribute")
        limit = Limit(kind="gap" if min_ratio is None else "ratio", value=value)
        fit = self._fit_state.decisions
        assert fit is not None
        if confidence is None:
            point = fit.within(limit)
        else:
            check_confidence(confidence)
            fit.within(limit)
            point = fit.promised(limit, confidence)
        out = copy.copy(self)
        out.fairness, out.dial = fit.share_of(point), "share"
        state = replace(out._current_state, conformal=None)
        out.__dict__.pop("selection_", None)
        out._state = out._ruled(state, point, confidence or _CONFIDENCE, limited=True)
        _warn_unmet(out._fit_state.located.certificate.decisions, name, confidence)
        return out

    def _decision_scores(self, X: Any) -> Array:
        """Values of the functions that decisions are made from, centred."""
        fit, checked = self._fit_state.decisions, self._read_new(X)
        assert fit is not None
        if isinstance(checked, ScoredRows) and checked.for_decisions is not None:
            return checked.for_decisions
        rows = checked.X if isinstance(checked, ScoredRows) else checked
        return np.asarray(to_numpy(self._pilot.features.scores(rows, fit.functions)) - fit.centre)

    def _decisive(self, X: Any) -> Array:
        """Outputs from which the class is decided: margins of the rule, or fitted scores."""
        state = self._fit_state
        if state.decisions is None:
            return self._outputs(X)
        assert state.rule is not None
        return state.decisions.margins(state.rule, self._decision_scores(X))

    def _labels_of(self, X: Any) -> np.ndarray:
        """The class that is decided for each row."""
        self._check_fitted()
        labels: np.ndarray = np.asarray(self.classes_)[decide(self._decisive(X))]
        return labels

    def _rule_probabilities(self, X: Any) -> Array:
        fit = self._fit_state.decisions
        assert fit is not None
        return fit.predictions(self._decision_scores(X))[0]

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        classes: Any = None,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        solve: Any = True,
        start: Any = None,
    ) -> Self:
        """Add a block of rows.

        As in :class:`FairRepresentation`: an estimator that was not prepared is prepared on this
        first block, which must then show every class. With ``equalize="decisions"``, :meth:`fit_head`
        chooses the rules after the last block.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            As in :meth:`fit`, after ``prepare(..., folds="hash")``.
        classes : array-like, optional
            All labels, as in scikit-learn; an error if they differ from those of the prepared rows.
        solve : bool, default=True
            Solve for the model after adding.
        start : int, optional
            Position of the block's first row in all the data.
        """
        if classes is not None:
            seen = None if self._state is None else self._state.classes
            known = np.unique(to_numpy(y)) if seen is None else seen
            if not np.array_equal(np.unique(classes), known):
                msg = (
                    f"classes={list(classes)!r}, but the rows that the estimator is prepared on have "
                    f"{list(known)!r}. Call `prepare` on rows that show every class."
                )
                raise ValueError(msg)
        return super().partial_fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            groups=groups,
            solve=solve,
            start=start,
        )


def _rule_in_words(state: FittedState) -> RuleWords | None:
    """Description of the rule at the dial value."""
    if state.decisions is None or state.rule is None:
        return None
    rates = state.located.certificate.decisions
    return state.decisions.in_words(state.rule, None if rates is None else rates.difference)


def _number(fairness: Any) -> float:
    """Dial value of a rule, which is one number."""
    return float(fairness)


def _warn_unmet(found: DecisionCertificate | None, name: str, confidence: float | None) -> None:
    """Warn if a limit is not kept out of fold, or not with the confidence."""
    assert found is not None
    reached = f"{found.gap:.3f}" if found.kind == "gap" else f"{found.ratio:.2f}"
    assert found.limit is not None
    limit = f"{found.limit:.3g}" if isinstance(found.limit, float) else dict(found.limit)
    if not found.met and confidence is None:
        warn_user(
            f"{name}={limit} is not reached: the nearest rule has a {found.kind} of {reached} out of fold. "
            f"X predicts the groups too weakly, or the limits contradict each other.",
            DataWarning,
        )
    elif confidence is None and not found.counted_met:
        warn_user(
            f"{name}={limit} is reached only up to the noise of small groups: the {found.kind} is {reached} "
            f"out of fold (smallest group: {found.smallest}, {found.smallest_rows} rows). "
            f"The certificate has the intervals (in Python, certificate_.decisions).",
            DataWarning,
        )
    elif confidence is not None and not found.kept:
        bound = f"{found.gap_high:.3f}" if found.kind == "gap" else f"{found.ratio_low:.2f}"
        warn_user(
            f"{name}={limit} cannot be promised with {100 * confidence:.4g} % confidence with these rows "
            f"(smallest group: {found.smallest}, {found.smallest_rows} rows). The fairest rule has a "
            f"{found.kind} of {reached} out of fold, and {bound} is what can be promised.",
            DataWarning,
        )
