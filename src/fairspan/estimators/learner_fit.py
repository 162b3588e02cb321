"""Cross-fitted removal on the predictions of any learners: from rows to a solution (METHOD 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.estimators.frozen import FrozenScores
from fairspan.estimators.learner_columns import (
    CategoryColumns,
    FoldModels,
    KernelModels,
    LearnerColumns,
    Task,
    boosting,
    fit_kernel,
    fit_models,
)
from fairspan.estimators.missing_s import describe_missing_s
from fairspan.estimators.prepare import build_pilot
from fairspan.estimators.sparse_linear import LinearModels, fit_linear
from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.accumulate import MomentsPass
from fairspan.method.calibration import one_slope
from fairspan.method.decision_codes import code_size
from fairspan.method.expected import SPREAD_ROWS, with_spread
from fairspan.method.features import TransformerMap
from fairspan.method.fold_codes import CodeSums, FoldCodes, Outputs, make_codes
from fairspan.method.fold_systems import Spectrum
from fairspan.method.folds import GivenFolds, centre_within
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled
from fairspan.method.new_rows import MIN_FOLD_ROWS, CrossFit, FoldMoments, remove_out_of_fold
from fairspan.method.new_rows_space import NewRowsEnds
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.problem import Attribute, Codes, Data, FitConfig
from fairspan.method.removal import BlockReport, build_blocks
from fairspan.method.sdr import column_block, level_block, target_covariance
from fairspan.method.solution import Solution
from fairspan.method.stacking import stack
from fairspan.method.subspaces import path_moments, principal_pair

__all__ = ["BOOSTING", "KERNEL", "LINEAR", "LearnerFit", "deal_folds", "fit_learners", "link_ends"]

# Names of learners in a list, beside scikit-learn's own.
BOOSTING, KERNEL, LINEAR = "boosting", "kernel", "linear"
# Of the order in which rows are drawn for the spread.
_SALT = 17


@dataclass(frozen=True, kw_only=True)
class LearnerFit:
    """A solution over the predictions of learners, with the rows that decision rules need."""

    pilot: Pilot
    solution: Solution
    weights: Array  # of the learners of y
    encoded: Encoded
    folds: Codes
    functions: Array  # (M, L + q): predictions of y and of the codes, averaged over the folds
    scores: Array  # (n, L + q): by models that did not see the row, centred
    of_average: Array  # (n, L + q): by the averages, centred
    on_basis: Array  # (n, m): out-of-fold values of the basis, centred


def deal_folds(pilot: Pilot, data: Data, encoded: Encoded, cv: Any) -> tuple[Codes, int]:
    """Fold of every row by the rule of the library (``cv`` a number), or by a splitter."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if not 2 <= cv <= data.n:
            msg = f"cv={cv!r} is not allowed; give a number of folds from 2 to the {data.n} rows."
            raise ValueError(msg)
        pilot = replace(pilot, n_folds=int(cv))
        return pilot.folds(data, encoded, pilot.counter()), int(cv)
    if isinstance(cv, str) or not hasattr(cv, "split"):
        msg = (
            f"cv={cv!r} is not allowed; give a number of folds, or a splitter such as GroupKFold()."
        )
        raise ValueError(msg)
    # A splitter counts the rows that were given; some of them may have weight 0.
    n = data.n if data.given is None else data.given
    given = np.arange(n) if data.index is None else data.index
    assert data.y is not None
    y, groups = np.zeros(n, dtype=data.y.values.dtype), None
    y[given] = data.y.values
    if data.clusters is not None:
        groups = np.full(n, -1, dtype=np.int64)
        groups[given] = data.clusters
    tests = [np.asarray(test) for _, test in cv.split(np.zeros((n, 1)), y, groups)]
    counts = np.bincount(np.concatenate(tests), minlength=n)
    if len(tests) < 2 or len(counts) > n or (counts != 1).any():
        msg = (
            f"cv={cv!r} must put every row into exactly one test fold, of two or more. KFold, "
            f"StratifiedKFold and GroupKFold do."
        )
        raise ValueError(msg)
    folds = np.empty(n, dtype=np.intp)
    for k, test in enumerate(tests):
        folds[test] = k
    found, of_rows = np.unique(
        folds[given], return_inverse=True
    )  # a fold may have only weights of 0
    return of_rows.astype(np.intp), len(found)


def fit_learners(
    config: FitConfig,
    data: Data,
    learners: Sequence[Any],
    sensitive_learners: Sequence[Any],
    categories: CategoryColumns | None,
    cv: Any,
    n_jobs: int | None,
    n_scores: int = 0,
    *,
    refit: bool = False,
) -> LearnerFit:
    """Fit learners of y and of S without each fold, join them, and remove the dependence on S.

    A learner is a scikit-learn estimator, ``BOOSTING``, ``KERNEL`` or ``LINEAR``. One learner of y may be
    ``FrozenScores``, whose scores are the last ``n_scores`` columns of X.
    """
    pilot = build_pilot(replace(config, kernel="linear"), data)
    encoded = pilot.encode(data)
    folds, K = deal_folds(pilot, data, encoded, cv)
    pilot = replace(pilot, n_folds=K)
    smallest = int(np.bincount(folds, minlength=K).min())
    if smallest < MIN_FOLD_ROWS:
        warn_user(
            f"The smallest of {K} folds has {smallest} rows; out-of-fold estimates from fewer than "
            f"{MIN_FOLD_ROWS} are noise. Add rows. Fewer folds (`cv`) have more rows each.",
            DataWarning,
        )
    weight = np.ones(data.n) if data.weights is None else np.asarray(data.weights, np.float64)
    share = np.bincount(folds, weight, minlength=K) / weight.sum()
    every, reports = _codes(pilot, config, data, folds)
    wanted = [codes for codes in every if codes is not None and codes.report.constrained]
    raw = [_of_rows(codes, encoded)[0] for codes in wanted]
    outputs = Outputs(pilot)
    y = _contrasts(pilot, encoded, outputs)
    features = replace(data, X=np.ascontiguousarray(data.X[:, : data.X.shape[1] - n_scores]))
    frozen = None
    if n_scores:
        (model,) = learners
        assert isinstance(model, FrozenScores)
        frozen = model.to_contrasts(n_scores, _labels(pilot, data), outputs.contrasts)
        learners = ()
    missing = describe_missing_s(pilot, features, folds)
    columns = _fit_all(
        config,
        features,
        folds,
        share,
        y,
        wanted,
        raw,
        learners,
        sensitive_learners,
        categories,
        n_jobs,
        refit=refit,
    )
    if frozen is not None:
        columns = columns.after_frozen(frozen)
    oof, averaged = columns.of_training_rows(data.X, folds)
    codes = np.concatenate([_centred(c, encoded, folds, weight) for c in wanted], axis=1)
    L = y.shape[1]
    n_y = len(learners) if frozen is None else 1
    ranks = [c.rank for c in wanted]
    blocks = np.repeat(np.arange(len(wanted)), ranks)
    n = np.repeat([_regression_rows(c, pilot, encoded, weight) for c in wanted], ranks)
    joined = stack(y, codes, oof[:, : n_y * L], oof[:, n_y * L :], folds, weight, n, blocks)
    of_columns = replace(pilot, features=TransformerMap(None, oof.shape[1]))
    moments = _moments(of_columns, data, oof, folds)
    fit = _remove(moments, of_columns, config, every, outputs, joined.functions)
    pilot = replace(pilot, features=TransformerMap(columns, oof.shape[1]))
    solution = _solution(
        fit,
        moments,
        _moments(of_columns, data, averaged, folds),
        of_columns,
        config,
        every,
        reports,
    )
    centred = oof - solution.mean
    on_basis, scores = (
        _by_fold(centred, folds, functions) for functions in (fit.fold_bases, joined.functions)
    )
    chosen = np.arange(data.n)
    if data.n > SPREAD_ROWS and data.clusters is None:
        chosen = np.sort(pilot.row_keys(data, encoded).shuffled(_SALT)[:SPREAD_ROWS])
    of_blocks = [_of_rows(block.codes, encoded) for block in fit.blocks]
    fit = with_spread(
        fit,
        on_basis[chosen],
        folds[chosen],
        weight[chosen],
        [(values[chosen], known[chosen]) for values, known in of_blocks],
        data.clusters,
    )
    functions = np.einsum("k,kmf->mf", fit.share, joined.functions)
    return LearnerFit(
        pilot=pilot,
        solution=replace(solution, new_rows=fit, missing=missing),
        weights=joined.weights,
        encoded=encoded,
        folds=folds,
        functions=functions,
        scores=scores,
        of_average=(averaged - solution.mean) @ functions,
        on_basis=on_basis,
    )


# ------------------------------------------------------------------ codes and columns


def _codes(
    pilot: Pilot, config: FitConfig, data: Data, folds: Codes
) -> tuple[list[FoldCodes | None], list[BlockReport]]:
    """Codes of every block. They do not depend on the features, so a column of numbers stands for these."""
    numbers = np.linspace(-1.0, 1.0, data.n)[:, None]
    pilot = replace(pilot, features=TransformerMap(None, 1))
    moments = _moments(pilot, data, numbers, folds)
    total = moments.over_cells().pool()
    blocks = build_blocks(moments.over_folds(), pilot, config, total, Spectrum(total.cov))
    reports = [block.report for block in blocks]
    return make_codes(reports, pilot, CodeSums(moments, pilot), config.variant.min_rows), reports


def _moments(pilot: Pilot, data: Data, columns: Array, folds: Codes) -> Moments:
    row_pass = MomentsPass(pilot, pilot.empty_moments())
    row_pass.add(replace(data, X=np.ascontiguousarray(columns)), GivenFolds(pilot.n_folds, folds))
    return row_pass.moments()


def _of_rows(codes: FoldCodes, encoded: Encoded) -> tuple[Array, Any]:
    inside = np.ones(len(encoded.cells), dtype=bool)
    if codes.cell is not None:
        inside = encoded.cells == codes.cell
    known = codes.has_code(encoded.levels, encoded.values, inside)
    return codes.of_rows(encoded.levels, encoded.values, inside, encoded.probabilities), known


def _regression_rows(codes: FoldCodes, pilot: Pilot, encoded: Encoded, weight: Array) -> float:
    """Effective number of rows for a regression of codes."""
    inside = np.ones(len(weight), dtype=bool)
    if codes.cell is not None:
        inside = encoded.cells == codes.cell
    per_row = pilot.clusters_per_row(codes.report.attribute)
    return code_size(_of_rows(codes, encoded)[1], inside, weight, per_row).n_regression


def _centred(codes: FoldCodes, encoded: Encoded, folds: Codes, weight: Array) -> Array:
    values, known = _of_rows(codes, encoded)
    out = np.zeros_like(values)
    out[known] = centre_within(values[known], folds[known], weight[known])
    return out


def _labels(pilot: Pilot, data: Data) -> Any:
    """Labels of y in the order of their codes; None for numbers."""
    if pilot.target_is_numeric or data.classes is None or pilot.target is None:
        return None
    return data.classes.in_order_of(pilot.target)


def _contrasts(pilot: Pilot, encoded: Encoded, outputs: Outputs) -> Array:
    """Contrasts of y, (n, L)."""
    if pilot.target_is_numeric:
        return np.asarray(encoded.values[:, -1:] * outputs.contrasts[0, 0])
    return np.asarray(outputs.contrasts[encoded.levels[:, len(pilot.coders)]])


def _fit_all(
    config: FitConfig,
    data: Data,
    folds: Codes,
    share: Array,
    y: Array,
    wanted: list[FoldCodes],
    raw: list[Array],
    learners: Sequence[Any],
    sensitive_learners: Sequence[Any],
    categories: CategoryColumns | None,
    n_jobs: int | None,
    *,
    refit: bool,
) -> LearnerColumns:
    """Columns of all learners: of y learner by learner, then of the codes learner by learner."""
    tasks, places = _tasks(config, data, y, wanted, raw)
    L, q = y.shape[1], sum(codes.rank for codes in wanted)
    # Learner and task, and the first of the columns that the learner has in the result.
    jobs = [(learner, 0, i * L) for i, learner in enumerate(learners)]
    for i, learner in enumerate(sensitive_learners):
        start = len(learners) * L + i * q - L
        jobs += [(learner, t, start) for t in range(1, len(tasks))]
    seed = int(config.random_state) if isinstance(config.random_state, int | np.integer) else 0
    any_learners = iter(
        fit_models(
            [
                (_suited(learner, tasks[t], data.n), tasks[t])
                for learner, t, _ in jobs
                if not _is_own(learner)
            ],
            data.X,
            folds,
            data.weights,
            share,
            categories,
            n_jobs,
            seed,
            config.verbose,
            refit=refit,
        )
    )
    fitted: list[FoldModels | KernelModels | LinearModels] = []
    order = np.empty(len(learners) * L + len(sensitive_learners) * q, dtype=np.intp)
    first, first_of_kernel = 0, None
    for learner, t, start in jobs:
        task = tasks[t]
        if _is_own(learner) and learner == KERNEL:
            if first_of_kernel is None:  # one fit for y and all codes
                fitted.append(fit_kernel(config, data, folds, len(share)))
                first, first_of_kernel = first + L + q, first
            order[start + places[t]] = first_of_kernel + places[t]
            continue
        if _is_own(learner):
            labels, vectors = task.labels, task.vectors
            model = fit_linear(
                data.X, task.values, labels, vectors, task.known, folds, data.weights, share
            )
            fitted.append(model)
        else:
            fitted.append(next(any_learners))
        order[start + places[t]] = np.arange(first, first + len(places[t]))
        first += len(places[t])
    return LearnerColumns(learners=tuple(fitted), order=order)


def _tasks(
    config: FitConfig, data: Data, y: Array, wanted: list[FoldCodes], raw: list[Array]
) -> tuple[list[Task], list[Codes]]:
    """Tasks of y and of each attribute, with its codes in all cells, and their columns in (y, codes)."""
    tasks = [Task.of(y) if config.target_kind == "categorical" else Task.numbers(y)]
    places = [np.arange(y.shape[1])]
    owner = np.repeat([codes.report.attribute for codes in wanted], [c.rank for c in wanted])
    all_codes = np.concatenate(raw, axis=1)
    for attribute in dict.fromkeys(codes.report.attribute for codes in wanted):
        columns = np.flatnonzero(owner == attribute)
        tasks.append(_with_known(Task.of(all_codes[:, columns]), data.sensitive.get(attribute)))
        places.append(y.shape[1] + columns)
    return tasks, places


def _with_known(task: Task, attribute: Attribute | None) -> Task:
    """Leave rows without a value of the attribute out of the training rows."""
    if attribute is None or not attribute.missing.any():
        return task
    return replace(task, known=~attribute.missing)


def _is_own(learner: Any) -> bool:
    """Whether a closed form of the library fits the learner."""
    return isinstance(learner, str) and learner in (KERNEL, LINEAR)


def _suited(learner: Any, task: Task, n: int) -> Any:
    """A boosted classifier or regressor in place of the name."""
    if not isinstance(learner, str):
        return learner
    return boosting(n, classes=task.labels is not None)


# ------------------------------------------------------------------ removal


def _remove(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    every: list[FoldCodes | None],
    outputs: Outputs,
    functions: Array,
) -> CrossFit:
    """Remove the dependence on S from out-of-fold predictions, given their moments."""
    sums, by_fold = CodeSums(moments, pilot), moments.over_cells()
    total = by_fold.pool()
    blocks = [codes for codes in every if codes is not None]
    folds = []
    for k in range(moments.n_folds):
        test = by_fold.pool(folds=np.arange(moments.n_folds) == k)
        folds.append(
            FoldMoments(
                test=test,
                # The models of a fold predict y itself, so that all share the mean of all rows.
                train_mean=total.mean,
                shift=outputs.mean(test) - outputs.mean(total),
                leverage=None,
                test_codes=[codes.sums(sums.pool(codes.cell, k)) for codes in blocks],
                target=outputs.cross(test),
            )
        )
    etas = [float("nan")] * len(blocks)
    return remove_out_of_fold(functions, folds, every, etas, sums, outputs, total, pilot, config)


def _solution(
    fit: CrossFit,
    out_of_fold: Moments,
    averaged: Moments,
    pilot: Pilot,
    config: FitConfig,
    every: list[FoldCodes | None],
    reports: list[BlockReport],
) -> Solution:
    """The solution, with moments of the averaged models on the training rows for exact statements."""
    total, unseen = averaged.over_cells().pool(), out_of_fold.over_cells().pool()
    own = [_cell(averaged, codes, i, reports, pilot) for i, codes in enumerate(every)]
    new = [_cell(out_of_fold, codes, i, reports, pilot) for i, codes in enumerate(every)]
    kind, index = pilot.target_position()
    stats = total.levels[index] if kind == "levels" else total.columns[index]
    cross, mean, variance = target_covariance(total, stats)
    deltas = tuple(_delta(pooled, codes, config) for pooled, codes in zip(own, every, strict=True))
    basis = fit.basis
    path = path_moments(
        basis,
        total.cov,
        cross,
        averaged.first_row - total.mean,
        tuple(pooled.cov for pooled in own),
        deltas,
    )
    on_new = (basis.T @ unseen.cov @ basis, tuple(basis.T @ p.cov @ basis for p in new))
    # Models vary more on rows that they were fitted on, and single models vary more than their
    # average: both are larger than the variance of the average on new rows, so take the smaller.
    spread = [fit.variance(C) for C in (fit.first, fit.last)]
    inside = [float(np.trace(C.T @ path.cov @ C)) for C in (fit.first, fit.last)]
    if sum(spread) < sum(inside):
        fit = replace(fit, averaged_cov=on_new)
    none = np.zeros((len(total.mean), 0))
    return Solution(
        basis=basis,
        mean=unseen.mean,
        centre=basis.T @ unseen.mean,
        pair=principal_pair(none, none),
        path=path,
        reports=tuple(reports),
        eta_y=0.0,
        target_mean=mean,
        target_var=variance,
        n_removed=0,
        n_rows=total.rows,
        weight=total.weight,
        sum_log_weight=averaged.sum_log_weight,
        fair=None,
        held_out=None,
        uses_likelihood_metric=False,
        outside=np.zeros((0, basis.shape[1])),
        new_rows=fit,
    )


def _cell(
    moments: Moments, codes: FoldCodes | None, i: int, reports: list[BlockReport], pilot: Pilot
) -> Pooled:
    """Rows of the cell of a block."""
    if pilot.cells.rule == "all":
        return moments.pool()
    cell = codes.cell if codes is not None else pilot.cells.names.index(reports[i].cell)
    return moments.pool(cell=cell)


def _delta(pooled: Pooled, codes: FoldCodes | None, config: FitConfig) -> Array:
    """Covariance of the columns with the codes of a block in its cell."""
    block = None
    if codes is not None and codes.column is not None:
        block = column_block(pooled.columns[codes.column], pooled.weight)
    elif codes is not None and codes.level is not None:
        block = level_block(
            pooled.levels[codes.level],
            pooled.weight,
            ordered=codes.report.coding == "slices",
            min_rows=config.variant.min_rows,
        )
    return np.zeros((len(pooled.mean), 0)) if block is None else block.delta_known


def _by_fold(centred: Array, folds: Codes, functions: Array) -> Array:
    out = np.empty((len(centred), functions.shape[2]))
    for k, of_fold in enumerate(functions):
        rows = folds == k
        out[rows] = centred[rows] @ of_fold
    return out


# ------------------------------------------------------------------ classes


def link_ends(found: LearnerFit, data: Data) -> NewRowsEnds:
    """Log odds at both ends of the dial: a slope of at least 0 and intercepts, fitted out of fold."""
    fit, pilot = found.solution.new_rows, found.pilot
    assert fit is not None
    y = found.encoded.levels[:, len(pilot.coders)]
    shares = found.solution.target_mean
    ends = []
    for C in (fit.first, fit.last):
        latents = found.on_basis @ C @ fit.contrasts.T
        slope, intercepts = 0.0, np.log(shares) - np.log(shares).mean()
        if np.any(C) and latents.std() > 0.0:
            slope, intercepts = one_slope(latents, y, data.weights, shares)
        ends.append((slope * C, intercepts))
    (first, first_intercept), (last, last_intercept) = ends
    contrasts = fit.contrasts
    if len(shares) == 2:
        gap = float(contrasts[1, 0] - contrasts[0, 0])
        contrasts, first, last = np.ones((1, 1)), gap * first, gap * last
        first_intercept, last_intercept = (
            np.array([b[1] - b[0]]) for b in (first_intercept, last_intercept)
        )
    return NewRowsEnds(
        contrasts=contrasts,
        first=first,
        last=last,
        first_intercept=first_intercept,
        last_intercept=last_intercept,
    )
