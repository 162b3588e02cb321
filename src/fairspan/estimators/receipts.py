"""Receipts: what the dial took from the score of each row, divided among the protected attributes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan._html import receipt_html
from fairspan.estimators.decision_fit import DecisionFit
from fairspan.estimators.state import FittedState, ScoredRows
from fairspan.inputs.columns import as_frame
from fairspan.method.decision_rule import DecisionRule, RulePoint
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.linalg import Array, is_tensor, to_numpy
from fairspan.method.problem import FitConfig
from fairspan.method.sparse_rows import dense

if TYPE_CHECKING:
    from fairspan.estimators.predictors import FairPredictor

__all__ = ["FairnessReceipt", "check_has_form", "explain"]

# Rows in the printed form.
_SHOWN = 5
# Parts by column, names of the columns, and why there are none.
ByColumn = tuple[Array | None, tuple[str, ...], str]
_NO_COLUMNS: ByColumn = (None, (), "they were not asked for (columns=False)")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FairnessReceipt:
    """What fairness changed in the score of each row, divided among the protected attributes.

    ``before - after`` is the sum of the parts of all attributes and of ``rescaling``. With three or more
    classes, every array has one more axis, for the classes.

    A part is what the model subtracts because the *columns of X predict* an attribute; the attribute of the
    person is not read. It is not the effect of the attribute on the outcome, and it does not say why a person
    was refused.

    Attributes
    ----------
    names : tuple of str
        Protected attributes; crossed attributes are one, such as "sex x race".
    before : ndarray of shape (n_samples,)
        Score of the unconstrained model, fairness 0.
    after : ndarray of shape (n_samples,)
        Score of this model: ``predict`` of regressors, ``decision_function`` of classifiers.
    parts : ndarray of shape (n_samples, n_attributes)
        What was subtracted for each attribute.
    rescaling : ndarray of shape (n_samples,)
        The rest: what the fair part of the score loses or gains because it is fitted again.
    columns : ndarray of shape (n_samples, n_attributes, n_columns), or None
        The parts by column of X, if the kernel is additive.
    column_names : tuple of str
        Columns of ``columns``.
    columns_reason : str
        Why there are none; empty if there are.
    classes : tuple, or None
        Labels of the last axis, for three and more classes.
    scale : str
        What the numbers are: "prediction", "score", "log odds" or "margin of the rule".
    fairness : float
        Dial value of this model.
    index : sequence or None
        Row labels of X, if it was a pandas frame.
    """

    names: tuple[str, ...]
    before: Array
    after: Array
    parts: Array
    rescaling: Array
    columns: Array | None
    column_names: tuple[str, ...]
    columns_reason: str
    classes: tuple[Any, ...] | None
    scale: str
    fairness: float
    index: Any = None

    def __len__(self) -> int:
        return len(self.before)

    @property
    def change(self) -> Array:
        """Score before minus after, (n_samples,)."""
        return np.asarray(self.before - self.after)

    def to_dict(self) -> dict[str, Array]:
        """Columns by name: before, after, ``part_NAME`` of every attribute, rescaling.

        With three or more classes, each has one column per class, such as "before of LABEL".
        """
        of_parts = {f"part_{name}": self.parts[:, a] for a, name in enumerate(self.names)}
        found = {"before": self.before, "after": self.after, **of_parts}
        found["rescaling"] = self.rescaling
        if self.classes is None:
            return found
        return {
            f"{name} of {label}": values[:, k]
            for k, label in enumerate(self.classes)
            for name, values in found.items()
        }

    def to_frame(self) -> Any:
        """A pandas DataFrame of :meth:`to_dict`, one row per row of X."""
        import pandas as pd

        return pd.DataFrame(self.to_dict(), index=self.index)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and cells of the rows that change most, with their positions."""
        change = np.abs(self.change).reshape(len(self), -1).max(axis=1, initial=0.0)
        largest = np.argsort(-change, kind="stable")[:_SHOWN].tolist()
        found = self.to_dict()
        rows = [[str(i), *(f"{values[i]:.4g}" for values in found.values())] for i in largest]
        return ["row", *found], rows

    @property
    def _caption(self) -> str:
        shown = f", the {_SHOWN} that change most" if len(self) > _SHOWN else ""
        return f"FairnessReceipt of {len(self):,} rows at fairness {self.fairness:.4g}: {self.scale}{shown}"

    def __repr__(self) -> str:
        head, rows = self._table()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        text = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in (head, *rows)
        ]
        return "\n".join([self._caption, *text])

    def _repr_html_(self) -> str:
        return receipt_html(self._caption, *self._table())


# ------------------------------------------------------------------ computing


@dataclass(frozen=True, kw_only=True)
class _Split:
    """Scores of rows before and after, and the parts of the difference, with one column per output."""

    names: tuple[str, ...]
    before: Array  # (n, k)
    after: Array
    rescaling: Array
    parts: Array  # (n, attributes, k)
    functions: Array | None  # (attributes, D, k): the parts are these functions; None: not alone


def explain(model: FairPredictor, X: Any, *, columns: bool = True) -> FairnessReceipt:
    """Divide what the dial took from the score of each row."""
    model._check_fitted()
    model._check_unchanged()
    state = model._fit_state
    check_has_form(state.config)
    if state.solved.parts is None:
        raise ValueError(
            "This model was saved by a version of fairspan that did not keep what belongs to each attribute. "
            "Fit it again to explain it."
        )
    checked: Any = model._read_new(X)
    if isinstance(checked, ScoredRows):
        checked = checked.X
    fit = state.decisions
    split = _split_scores(model, checked) if fit is None else _split_margins(state, fit, checked)
    by_column, column_names, reason = _by_column(model, checked, split) if columns else _NO_COLUMNS
    one, K = split.before.shape[1] == 1, split.before.shape[1]
    classes = None if one else tuple(np.asarray(model._fit_state.classes).tolist()[:K])

    def outputs(values: Array) -> Array:
        return values[..., 0] if one else values

    frame = None if isinstance(X, ScoredRows) or is_tensor(X) else as_frame(X, "X")
    native = None if frame is None else frame.to_native()
    return FairnessReceipt(
        names=split.names,
        before=outputs(split.before),
        after=outputs(split.after),
        parts=outputs(split.parts),
        rescaling=outputs(split.rescaling),
        columns=None if by_column is None else outputs(by_column),
        column_names=column_names,
        columns_reason=reason,
        classes=classes,
        scale=model._score_words,
        fairness=float(state.located.certificate.fairness),
        index=getattr(native, "index", None),
    )


def check_has_form(config: FitConfig) -> None:
    """Raise for fits whose functions are not divided by attribute."""
    only = {"method": "optimal", "subspace": "model"}
    found = [f"{name}={v!r}" for name in only if (v := getattr(config, name)) != only[name]]
    if isinstance(config.kernel, str) and config.kernel == "precomputed":
        found.append("kernel='precomputed'")
    if found:
        raise ValueError(
            f"explain_fairness has no form for {' and '.join(found)}. Fit with method='optimal', "
            f"subspace='model' (the defaults) and a kernel that can be evaluated."
        )


def _split_scores(model: FairPredictor, X: Any) -> _Split:
    """Split for a model that equalizes scores."""
    state = model._fit_state
    solution, position, names = state.solved, state.located, state.pilot.coders
    parts = solution.parts
    assert parts is not None
    unconstrained = copy.copy(model)
    unconstrained.fairness, unconstrained.dial = 0.0, model._native_dial
    free, free_coef, free_intercept = unconstrained._path_head()
    basis = solution.basis
    of_free, of_model = free.blend @ free_coef, position.blend @ position.coef
    fair, own = parts.split(basis, of_free - of_model)
    k = of_free.shape[1]
    by_attribute = np.zeros((len(names), len(basis), k))
    for a, coder in enumerate(names):
        if coder.name in parts.names:
            by_attribute[a] = own[parts.names.index(coder.name)]
    functions = np.concatenate([basis @ of_free, basis @ of_model, fair, *by_attribute], axis=1)
    scores = to_numpy(state.pilot.features.scores(X, functions)) - functions.T @ solution.mean
    before, after, rescaling, *each = np.split(scores, 3 + len(names), axis=1)
    factor, shift = model._score_scale
    pick = slice(1, 2) if factor == 2.0 and k == 2 else slice(None)  # classes mirror each other
    return _Split(
        names=tuple(coder.name for coder in names),
        before=(factor * (before + free_intercept) + shift)[:, pick],
        after=(factor * (after + position.intercept) + shift)[:, pick],
        rescaling=(factor * (rescaling + (free_intercept - position.intercept)))[:, pick],
        parts=factor * np.stack(each, axis=1)[:, :, pick],
        functions=factor * by_attribute[:, :, pick],
    )


def _split_margins(state: FittedState, fit: DecisionFit, X: Any) -> _Split:
    """Split for a decision rule: the multipliers of each attribute times its predicted codes."""
    rule, free = state.rule, fit.path.points[0]
    assert rule is not None
    scores = to_numpy(state.pilot.features.scores(X, fit.functions)) - fit.centre
    change = _RuleChange.between(free, rule)
    # The favourable class of two may be the first; margins are those of the second.
    sign = -1.0 if len(fit.classes) == 2 and fit.favourable == 0 else 1.0
    p, codes = fit.predictions(scores)
    probability = p if len(fit.classes) > 2 else p[:, fit.favourable]
    base = rule.rule.features(probability, codes)[:, codes.shape[1] :]
    names = tuple(coder.name for coder in state.pilot.coders)
    k = change.code_coef.shape[1]
    parts = np.zeros((len(scores), len(names), k))
    functions = np.zeros((len(names), len(fit.functions), k))
    rest, start = change.base_coef.copy(), 0
    for block in (groups.block for groups in fit.judged):
        a, own = names.index(block.attribute), slice(start, start + block.n_groups)
        coef = fit.matrix[:, own] @ change.code_coef[own]
        parts[:, a] += scores @ coef
        functions[a] += fit.functions @ coef
        if np.any(change.base_coef):
            # Codes of a limit on ratios contain the constant as often as the codes themselves.
            at = 0 if block.cell is None else 1 + rule.rule.cells.index(block.cell)
            total = change.code_coef[own].sum(axis=0)
            parts[:, a] += base[:, [at]] * total
            rest[at] -= total
        start += block.n_groups
    constant = change.threshold - rule.rule.code_mean @ change.code_coef
    return _Split(
        names=names,
        before=fit.margins(free, scores),
        after=fit.margins(rule, scores),
        rescaling=sign * (base @ rest + constant),
        parts=sign * parts,
        functions=None if np.any(change.base_coef) else sign * functions,
    )


@dataclass(frozen=True, kw_only=True)
class _RuleChange:
    """Multipliers of a rule less those of another one, with one column per output."""

    code_coef: Array  # (Q, k)
    base_coef: Array
    threshold: float

    @classmethod
    def between(cls, free: RulePoint, point: RulePoint) -> _RuleChange:
        """What ``point`` subtracts beyond ``free``."""
        new, old = _columns(point.rule), _columns(free.rule)
        return cls(
            code_coef=new[0] - old[0],
            base_coef=new[1] - old[1],
            threshold=point.rule.threshold - free.rule.threshold,
        )


def _columns(rule: DecisionRule) -> tuple[Array, Array]:
    code, base = (c.reshape(len(c), -1) for c in (rule.code_coef, rule.base_coef))
    return code, base


# ------------------------------------------------------------------ columns of X


def _by_column(model: FairPredictor, X: Any, split: _Split) -> ByColumn:
    """Parts by column of X, (n, attributes, columns, k)."""
    state = model._fit_state
    features = state.pilot.features
    if not isinstance(features, TransformerMap) or features.transformer is not None:
        reason = "only kernel='linear' is a sum of functions of single columns"
        if isinstance(features, LandmarkMap) and features.kernel.name == "linear":
            reason = "X has so many columns that kernel='linear' uses landmarks"
        return None, (), reason
    if split.functions is None:
        return None, (), "a limit on ratios of rates changes the margin beyond a sum over columns"
    centred = dense(to_numpy(X)) - state.solved.mean
    groups = _table_columns(model, centred.shape[1])
    out = np.empty((len(centred), len(split.names), len(groups), split.functions.shape[2]))
    for j, columns in enumerate(groups.values()):
        out[:, :, j] = np.einsum("nc,ack->nak", centred[:, columns], split.functions[:, columns])
    return out, tuple(groups), ""


def _table_columns(model: FairPredictor, width: int) -> dict[str, list[int]]:
    """Positions in the encoded rows of each column of X."""
    encoder, schema = getattr(model, "encoder_", None), model._schema
    names: Sequence[Any] | None = getattr(model, "feature_names_in_", None)
    if encoder is not None:
        from fairspan.encoding import TableEncoder, encoded_columns  # late: it imports scikit-learn

        if isinstance(encoder, TableEncoder):
            return {name: at for name, at in encoded_columns(encoder).items() if at}
        names = encoder.get_feature_names_out()
    elif names is None:
        names = schema.column_numbers
    if names is None:
        names = [f"x{j}" for j in range(width)]
    return {str(name): [j] for j, name in enumerate(names)}
