"""The fitted state as model files contain it: without rows, and small where nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairspan.estimators.learner_columns import KernelModels, LearnerColumns
from fairspan.estimators.representation import FairRepresentation
from fairspan.estimators.state import FittedEstimator, FittedState
from fairspan.method.attribute_parts import AttributeParts
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.folded import Folding, pack_triangle, unpack_triangle
from fairspan.method.linalg import Array
from fairspan.method.pilot import Pilot
from fairspan.method.solution import Solution
from fairspan.method.sparse_rows import check_sparse

__all__ = ["restored_state", "state_to_save"]


def state_to_save(
    model: FittedEstimator, state: FittedState, *, keep_moments: bool, row_sketch: bool
) -> FittedState:
    """State without the parameters, which the estimator itself has."""
    sketch = state.fitted_rows if row_sketch else None
    sketch = None if sketch is None else sketch.shortened()
    moments, counter = state.moments, state.counter
    if state.decisions is not None:  # the rows of the problem contain groups
        state = replace(state, decisions=state.decisions.without_rows())
    if state.solution is not None and (fit := state.solution.new_rows) is not None:
        # Only rows in memory can be predicted by the functions of the folds.
        solution = replace(
            state.solution, new_rows=replace(fit, code_functions=None, code_mix=None)
        )
        state = replace(state, solution=solution)
    if moments is not None:
        moments = replace(moments, row_sketch=sketch)
    if not keep_moments:
        moments = counter = None
    features = state.pilot.features
    if isinstance(features, TransformerMap) and isinstance(features.transformer, LearnerColumns):
        columns = _fold_learners(features.transformer.for_new_rows())
        state = replace(
            state, pilot=_with_features(state.pilot, replace(features, transformer=columns))
        )
        state = replace(state, folds=None)
    state = replace(state, moments=moments, counter=counter, row_sketch=sketch, rule_rows=None)
    if moments is None and not isinstance(model, FairRepresentation):
        # The kernel of a representation needs inner products of psi.
        state = _fold_functions(state)
    out = _pack_factor(state)
    for name in ("config", "given"):
        del vars(out)[name]
    return out


def restored_state(state: FittedState) -> FittedState:
    """The state of a model whose file was read; raise ValueError if its parts do not fit together."""
    if isinstance(state.pilot.features, LandmarkMap):
        check_sparse(state.pilot.features.landmarks)
    solution = state.solution
    if solution is None or solution.factor is None or solution.factor.ndim == 2:
        return state
    return replace(state, solution=replace(solution, factor=unpack_triangle(solution.factor)))


def _with_features(pilot: Pilot, features: Any) -> Pilot:
    return replace(pilot, features=features)


def _fold_functions(state: FittedState) -> FittedState:
    """Keep the functions that scores are made of, if the model uses no other coordinates of psi."""
    solution, position, features = state.solution, state.position, state.pilot.features
    if solution is None or position is None or not Folding.suits(features):
        return state
    if solution.fair is not None or solution.factor is not None or position.fair_space is not None:
        return state  # variances need all coordinates
    assert isinstance(features, LandmarkMap)
    # Removed directions and coordinates are compared where the dial moves.
    folding = Folding(features, _functions(state, solution), least=solution.n_removed + 1)
    if not folding.saves_memory:
        return state
    return replace(
        state,
        pilot=_with_features(state.pilot, folding.features(solution.mean)),
        solution=_fold_solution(solution, folding),
        position=replace(position, directions=folding.functions(position.directions)),
        decisions=None
        if state.decisions is None
        else replace(state.decisions, functions=folding.functions(state.decisions.functions)),
    )


def _functions(state: FittedState, solution: Solution) -> list[Array]:
    """All coefficients in coordinates of psi that a model without moments uses."""
    out = [solution.basis, state.located.directions]
    if state.decisions is not None:
        out.append(state.decisions.functions)
    if solution.held_out is not None:
        out.append(solution.held_out.bases)
    if solution.new_rows is not None:
        out += [solution.new_rows.basis, solution.new_rows.fold_bases]
    if solution.refits is not None:
        out += [fold.basis for fold in solution.refits.folds]
    if solution.parts is not None:
        out.append(solution.parts.codes)
    return out


def _fold_solution(solution: Solution, folding: Folding) -> Solution:
    functions = folding.functions
    held_out, fit, refits = solution.held_out, solution.new_rows, solution.refits
    if held_out is not None:
        held_out = replace(held_out, bases=functions(held_out.bases))
    if fit is not None:
        fit = replace(
            fit,
            basis=functions(fit.basis),
            fold_bases=functions(fit.fold_bases),
            fold_means=folding.points(fit.fold_means),
            parts=_fold_parts(fit.parts, folding),
        )
    if refits is not None:
        folds = tuple(replace(fold, basis=functions(fold.basis)) for fold in refits.folds)
        refits = replace(refits, folds=folds)
    pair = solution.pair  # its vectors are in metric coordinates, and the basis was made of them
    return replace(
        solution,
        basis=functions(solution.basis),
        mean=folding.points(solution.mean),
        pair=replace(pair, fair=pair.fair[:0], removed=pair.removed[:0]),
        held_out=held_out,
        new_rows=fit,
        refits=refits,
        own_parts=_fold_parts(solution.own_parts, folding),
    )


def _fold_parts(parts: AttributeParts | None, folding: Folding) -> AttributeParts | None:
    return parts and replace(parts, codes=folding.functions(parts.codes))


def _fold_learners(columns: LearnerColumns) -> LearnerColumns:
    """Keep the functions of kernel learners only."""
    learners = []
    for learner in columns.learners:
        if isinstance(learner, KernelModels) and Folding.suits(learner.features):
            assert isinstance(learner.features, LandmarkMap)
            folding = Folding(learner.features, [learner.functions])
            if folding.saves_memory:
                functions = folding.functions(learner.functions)
                learner = replace(learner, features=folding.features(), functions=functions)
        learners.append(learner)
    return replace(columns, learners=tuple(learners))


def _pack_factor(state: FittedState) -> FittedState:
    """Store the numbers of a triangular factor once."""
    solution = state.solution
    if solution is None or solution.factor is None:
        return replace(state)
    packed = pack_triangle(solution.factor)
    if packed is None:
        return replace(state)
    return replace(state, solution=replace(solution, factor=packed))
