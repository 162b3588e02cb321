"""The switch of the page: the same fit with scores or with decisions made equal, at every dial value.

:class:`SharedRows` has what both sides share, :class:`Side` the numbers of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan._system import track
from fairspan.auditing.parts import Settings
from fairspan.estimators.dial_predictor import DialPredictor
from fairspan.estimators.path_rows import read_rows
from fairspan.estimators.path_selection import PathEvaluator, sampling_noise
from fairspan.estimators.predictors import FairPredictor, RuleClassifier
from fairspan.exceptions import DecisionRuleError
from fairspan.inputs.checks import without_decisions_form
from fairspan.inputs.config import read_config
from fairspan.report.dial_points import DialPoint, HeldOut, dial_point, drawn_class, read_held_out
from fairspan.report.page import tradeoff
from fairspan.report.promises import Promises, path_of_rows, rule_promises, score_promises
from fairspan.report.recipe import Recipe
from fairspan.report.selected import selected_numbers
from fairspan.report.slopes import lines_of
from fairspan.report.table import Roles, is_continuous
from fairspan.report.training import Favourable, by_stratum
from fairspan.report.verdicts import Limits, how_to_read, verdicts
from fairspan.report.views import extra_errors, position
from fairspan.report.words import ReportContext, about
from fairspan.tables.dictionary import ColumnWords

__all__ = ["SharedRows", "Side", "measure_side", "other_side"]

# Parts of the description of a model that differ between equal scores and equal decisions.
_FOLLOWS_SWITCH = "criterion_words", "equalize", "score_words", "probable"
# Rows in the scatter plots of all continuous attributes together.
_MOST_DISPLAYED = 400


@dataclass(frozen=True, kw_only=True)
class SharedRows:
    """What both sides of the switch share: tables are pandas DataFrames."""

    train: Any
    fitted: Any  # rows of ``train`` with a weight
    held: Any
    familiar: Any  # rows of ``held`` of classes, groups and strata that the fit has seen
    roles: Roles
    given: Mapping[str, Any]  # arguments of an audit of the held-out rows
    settings: Settings
    seed: int
    grid: Sequence[float]  # dial values
    criterion: str
    words: Mapping[str, ColumnWords]
    recipe: Recipe
    limits: Limits
    favourable: Favourable | None
    verbose: int


@dataclass(frozen=True, kw_only=True)
class Side:
    """The model of one side of the switch at all dial values, on the held-out rows."""

    predictor: DialPredictor
    held_out: HeldOut
    points: Sequence[DialPoint]
    context: ReportContext
    promises: Promises
    positions: list[dict[str, Any]]  # all views at every dial value

    def study(self, rows: SharedRows) -> dict[str, Any]:
        """The parts of the study that follow the switch."""
        model, target = self.predictor.model, rows.roles.target
        words = about(self.held_out, self.context, rows.roles, model, self.points[0])
        return {
            "about": {key: words[key] for key in _FOLLOWS_SWITCH},
            "tradeoff": tradeoff(self.points, self.held_out, self.context),
            "positions": self.positions,
            "promise": self.promises.about,
            "reading": how_to_read(
                self.held_out, self.context, rows.limits, target, rows.favourable
            ),
        }


def measure_side(
    model: FairPredictor, rows: SharedRows, rng: np.random.Generator, first: Side | None = None
) -> Side:
    """Predict and audit the held-out rows at every dial value.

    Parameters
    ----------
    model : the fit, at fairness 1.
    rows : what both sides share.
    rng : of the rows that are drawn, and of resamples.
    first : the other side, if it was measured before.
    """
    predictor = DialPredictor(model, model._read_new(rows.held[list(rows.roles.features)]))
    held_out = read_held_out(predictor, rows.settings, rows.seed, **rows.given)
    title = f"positions of the {'other ' if first else ''}slider"
    dial = track(rows.grid, len(rows.grid), title, verbose=rows.verbose)
    points = [dial_point(predictor, held_out, f) for f in dial]
    own: dict[str, Any] = {
        "noise": _noise(model, rows.familiar, rows.roles),
        "end": points[-1].certificate,
        "latent": points[0].has_probabilities,
        "decides": points[-1].certificate.decisions is not None,
        "drawn_class": drawn_class(points[0], held_out),
    }
    if first is not None:
        context = replace(first.context, **own)
    else:
        context = ReportContext(
            criterion=rows.criterion,
            n_train=len(rows.fitted),
            n_test=held_out.data.n,
            unseen_groups=tuple(_unseen_groups(held_out, rows)),
            displayed=_displayed(held_out, rng),
            lines=lines_of(held_out, rows.criterion, rows.words),
            **own,
        )
    promises = _promises(model, points, context, rows)
    switched = None if first is None else model.equalize
    positions = _positions(points, held_out, context, promises, rows, rng, switched)
    return Side(
        predictor=predictor,
        held_out=held_out,
        points=points,
        context=context,
        promises=promises,
        positions=positions,
    )


def other_side(model: FairPredictor) -> FairPredictor | None:
    """The same fit at fairness 1 with decisions equal instead of scores, or the other way round.

    None if the fit has one of them only: numbers have no decisions, a fit of a stream for scores keeps no
    rows to choose rules from, and rows may be too few for rules.
    """
    if not isinstance(model, RuleClassifier):
        return None
    if model.equalize == "decisions":
        return model.at(1.0, equalize="scores")
    if without_decisions_form(read_config(model)) is not None:
        return None
    if model._fit_state.rule_rows is None:
        return None
    try:
        return model.at(1.0, dial="share", equalize="decisions")
    except DecisionRuleError:  # too few rows in a group
        return None


def _noise(estimator: FairPredictor, held: Any, roles: Roles) -> float:
    """Sampling noise of a held-out correlation in the smallest cell of the criterion."""
    if held.empty:
        return float("nan")
    features, sensitive = held[list(roles.features)], held[list(roles.sensitive)]
    control = held[list(roles.control)] if by_stratum(estimator) else None
    weight = None if roles.weight is None else held[roles.weight]
    rows = read_rows(estimator, features, held[roles.target], sensitive, control, weight)
    return sampling_noise(estimator, PathEvaluator(estimator, rows))


def _unseen_groups(held_out: HeldOut, rows: SharedRows) -> Iterator[str]:
    """Groups of held-out rows without training rows, within the cells of the criterion."""
    fitted, held, roles, criterion = rows.fitted, rows.held, rows.roles, rows.criterion
    cells = list(roles.control) if criterion == "conditional_statistical_parity" else []
    if held_out.task != "regression" and criterion in ("equalized_odds", "equal_opportunity"):
        cells = [roles.target]
    if any(is_continuous(fitted, name) for name in cells):  # the cells are slices of a number
        cells = []
    target = held_out.data.target
    for groups in held_out.data.attributes:
        if groups.values is not None:
            continue
        keys = list(dict.fromkeys([groups.name, *cells]))
        unseen = ~held.set_index(keys).index.isin(fitted.set_index(keys).index)
        if criterion == "equal_opportunity" and target is not None:
            unseen &= target.codes == held_out.data.positive[0]
        unseen_anywhere = ~held[groups.name].isin(fitted[groups.name].unique()).to_numpy()
        for row in np.flatnonzero(unseen | unseen_anywhere):
            where = " and ".join(f"{name} is {held[name].iloc[row]}" for name in keys[1:])
            group = f"{groups.name}: {groups.labels[groups.codes[row]]}"
            yield group if unseen_anywhere[row] or not where else f"{group} where {where}"


def _displayed(held_out: HeldOut, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows of the scatter plots."""
    n_continuous = sum(groups.values is not None for groups in held_out.data.attributes)
    return np.sort(rng.permutation(held_out.data.n)[: _MOST_DISPLAYED // max(n_continuous, 1)])


def _positions(
    points: Sequence[DialPoint],
    held_out: HeldOut,
    context: ReportContext,
    promises: Promises,
    rows: SharedRows,
    rng: np.random.Generator,
    equalize: str | None,
) -> list[dict[str, Any]]:
    """All views at every dial value; ``equalize`` if the fit was switched."""
    losses, settings = [point.loss for point in points], held_out.settings
    root = held_out.task == "regression"
    extra = extra_errors(
        losses, held_out.data.weight, settings.level, settings.n_boot, rng, root=root
    )
    out = []
    for point, more, promise in zip(points, extra, promises.positions, strict=True):
        snippet = rows.recipe.snippet(point.fairness, equalize)
        views = position(point, points[0], held_out, context, more, snippet)
        selected = selected_numbers(point, held_out, context)
        judged = verdicts(point, held_out, rows.limits, context)
        out.append(views | {"selected": selected, "promise": promise, "verdicts": judged})
    return out


def _promises(
    model: FairPredictor,
    points: Sequence[DialPoint],
    context: ReportContext,
    rows: SharedRows,
) -> Promises:
    """Bounds on new rows along the slider."""
    if points[-1].certificate.decisions is not None:
        return rule_promises(points, context.n_train, context.criterion)
    dial = [point.fairness for point in points]
    path = path_of_rows(model, rows.train, rows.familiar, rows.roles, dial)
    if path is None:
        return Promises.none(len(points))
    return score_promises(path, context.criterion, latent=context.latent)
