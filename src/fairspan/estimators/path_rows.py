"""Rows, dial values and folds of a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples

from fairspan._system import track
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.dial_predictor import (
    DialHeads,
    DialOutputs,
    DialPredictor,
    RuleHeads,
    RuleOutputs,
)
from fairspan.estimators.learner_columns import LearnerColumns
from fairspan.estimators.path_selection import PathEvaluator
from fairspan.inputs.checks import is_number, refuse
from fairspan.inputs.columns import as_frame, named_columns_of
from fairspan.inputs.config import read_config, read_seed
from fairspan.inputs.rows import read_training_data
from fairspan.method.codes import Coder, infer_kind
from fairspan.method.features import TransformerMap
from fairspan.method.linalg import Array
from fairspan.method.probabilities import most_likely
from fairspan.method.problem import Attribute, Codes, Data, GroupProbabilities, Kind
from fairspan.streaming.rows import take_rows

# Slices of a number that are balanced between the rows of the fit and those set aside.
N_STRATA = 4


def read_grid(est: object, n_points: Any, max_fairness: Any) -> Array:
    """Check the options and return the dial values, from 0 to ``max_fairness``."""
    if not isinstance(est, FairKernelEstimator):
        raise TypeError(
            f"A path is made of a fairspan estimator; got {type(est).__name__}. For a pipeline, pass its "
            f"last step and the rows as the steps before transform them."
        )
    if not isinstance(n_points, int | np.integer) or n_points < 2:
        raise ValueError(f"n_points={n_points!r} is not allowed; give an integer of at least 2.")
    if not isinstance(max_fairness, int | float | np.number) or not 0.0 < max_fairness <= 2.0:
        msg = f"max_fairness={max_fairness!r} is not allowed; give a number above 0, at most 2."
        raise ValueError(msg)
    if max_fairness > 1.0 and est.subspace == "fair":
        msg = "subspace='fair' ends at fairness 1, where its prior is on F alone; use subspace='model'."
        raise ValueError(msg)
    return np.linspace(0.0, float(max_fairness), int(n_points))


def read_rows(
    est: FairKernelEstimator,
    X: Any,
    y: Any,
    sensitive: Any,
    control: Any,
    weight: Any,
    groups: Any = None,
) -> Data:
    """Read the rows to evaluate on, without those of weight zero."""
    if y is None or est.pilot_.target is None:
        msg = "A path needs y, both when the estimator is fitted and on the rows to evaluate on."
        raise ValueError(msg)
    config = est._config
    if config.kernel == "precomputed":  # only the matrix of the training rows is square
        config = replace(config, kernel="linear")
    data = read_training_data(
        est, config, X, y, sensitive, control, weight, reset=False, groups=groups
    )
    if data.n == 0:
        raise ValueError("sample_weight is zero for every row; nothing is left to evaluate on.")
    return data.on_host()


def split(est: FairKernelEstimator, data: Data, n_rows: int, cv: Any) -> list[tuple[Codes, Codes]]:
    """Training rows (of those given) and test rows (of those with positive weight) of each fold.

    A number of folds is balanced over y and S, as the estimator's own folds are.
    """
    positions = np.arange(n_rows) if data.index is None else data.index
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= data.n:
            msg = f"cv={cv} is not allowed for {data.n} rows; give 2 folds or more, at most one per row."
            raise ValueError(msg)
        pilot = est.pilot_
        fold = pilot.row_keys(data, pilot.encode(data)).folds(int(cv))
        folds = [(positions[fold != k], np.flatnonzero(fold == k)) for k in range(int(cv))]
    else:
        assert data.y is not None
        labels = np.zeros(n_rows, dtype=data.y.values.dtype)
        labels[positions] = data.y.values
        groups = None
        if data.clusters is not None:
            groups = np.zeros(n_rows, dtype=np.int64)
            groups[positions] = data.clusters
        given = list(check_cv(cv).split(np.zeros((n_rows, 1)), labels, groups))
        tested = np.sort(np.concatenate([test for _, test in given]))
        if not np.array_equal(tested, np.arange(n_rows)):
            raise ValueError("cv must put every row into exactly one test fold, as KFold does.")
        folds = [(train, np.flatnonzero(np.isin(positions, test))) for train, test in given]
    return [(train, test) for train, test in folds if len(test)]


def set_aside(
    estimator: FairKernelEstimator, given: Mapping[str, Any], share: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of ``fit`` for the training rows, and for a share of the rows that is not fitted on.

    Rows are taken at equal distances in a random order within the strata of y and S, so that every stratum
    has its share up to a row.
    """
    if not is_number(share) or not 0.0 < share < 1.0:
        refuse("holdout", share, "a share of the rows between 0 and 1, e.g. 0.3")
    reader = clone(estimator)
    config = read_config(reader)
    if given.get("groups") is not None:
        raise ValueError(
            "holdout draws single rows, which would divide groups. Set whole groups aside yourself."
        )
    roles = [values for role, values in given.items() if role != "groups"]
    data = read_training_data(
        reader, config, *roles, reset=True, make_schema=reader._encoded_schema
    ).on_host()
    if data.y is None:
        msg = "A path needs y, both when the estimator is fitted and on the rows to evaluate on."
        raise ValueError(msg)
    strata = [_strata(data.y, config.target_kind)]
    strata += [_strata(attribute, None) for attribute in data.sensitive.values()]
    seed = 0 if config.random_state is None else config.random_state
    held = balanced_share(strata, float(share), read_seed(seed).permutation(data.n))
    if not 0 < len(held) < data.n:
        msg = f"holdout={share!r} of {data.n} rows leaves no rows to fit or to evaluate on."
        raise ValueError(msg)
    positions = np.arange(_num_samples(given["X"])) if data.index is None else data.index
    train = np.setdiff1d(np.arange(_num_samples(given["X"])), positions[held])
    square = estimator.kernel == "precomputed" and estimator.feature_map is None
    rest = _take(given, positions[held], square=False)
    if square:
        rest["X"] = np.asarray(rest["X"])[:, train]
    return _take(given, train, square=square), rest


def balanced_share(strata: Sequence[Codes], share: float, random_order: Codes) -> Codes:
    """Draw a share of the rows that is the same in every stratum, up to a row; sorted positions.

    Parameters
    ----------
    strata : (n,) codes, the most important first.
    share : share of the rows.
    random_order : a permutation of n, which decides within a stratum.
    """
    order = np.lexsort([random_order, *reversed(strata)])
    taken = np.diff(np.floor(np.arange(len(order) + 1) * share + 0.5)) > 0.0
    return np.asarray(np.sort(order[taken]), dtype=np.intp)


def _strata(attribute: Attribute, kind: Kind | None) -> Codes:
    """Level of each row: a category, the most likely group, or one of four slices of a number."""
    if isinstance(attribute, GroupProbabilities):
        return most_likely(np.where(attribute.missing[:, None], np.nan, attribute.values))
    coder = Coder.learn(attribute, kind or infer_kind(attribute), N_STRATA)
    return coder.codes({attribute.name: attribute})


def of_own_folds(model: FairKernelEstimator, data: Data, heads: DialHeads) -> list[DialOutputs]:
    """Fitted scores of the folds of a cross-fitted model, each by the functions without its fold."""
    pilot, folds = model.pilot_, model._fit_state.folds
    if folds is None:
        folds = pilot.folds(data, pilot.encode(data), pilot.counter())
    fold_rows = [np.flatnonzero(folds == k) for k in range(pilot.n_folds)]
    if isinstance(heads, RuleHeads):
        empty = np.empty((data.n, 0))
        return [RuleOutputs(rows=rows, scores=empty[rows], heads=heads) for rows in fold_rows]
    fit = model._solution.new_rows
    assert fit is not None
    out, columns, features = [], data.X, pilot.features
    learners = features.transformer if isinstance(features, TransformerMap) else None
    if isinstance(learners, LearnerColumns):  # their averages over the folds have seen the rows
        columns = learners.out_of_fold(data.X, folds)
        features = TransformerMap(None, columns.shape[1])
    for rows, basis, mean in zip(fold_rows, fit.fold_bases, fit.fold_means, strict=True):
        scores = features.scores(columns[rows], basis) - basis.T @ mean
        out.append(DialOutputs(rows=rows, scores=scores, heads=heads))
    return out


def out_of_fold(
    estimator: FairKernelEstimator,
    given: Mapping[str, Any],
    data: Data,
    folds: list[tuple[Codes, Codes]],
    grid: Array,
    evaluator: PathEvaluator,
) -> list[DialOutputs]:
    """Fit each fold and predict its test rows; ``evaluator.unseen`` collects classes a fold lacks."""
    square = estimator.kernel == "precomputed" and estimator.feature_map is None
    X, classes = given["X"], evaluator.classes
    positions = np.arange(_num_samples(X)) if data.index is None else data.index
    out = []
    for train, test in track(folds, len(folds), "folds of the path", verbose=estimator.verbose):
        fold = clone(estimator)
        fold.verbose = 0  # one progress bar shows all folds
        fold.fit(**_take(given, train, square=square))
        held_out = take_rows(X, positions[test])
        checked = fold._read_new(np.asarray(held_out)[:, train] if square else held_out)
        if classes is not None:  # the scores of an unseen class would differ by fold
            evaluator.unseen.update(np.flatnonzero(~np.isin(classes, fold.classes_)).tolist())
        heads = DialHeads.along(fold, grid)
        out.append(DialPredictor(fold, checked).along(heads, rows=test, classes=classes))
    if classes is not None and len(evaluator.unseen) == len(classes):
        raise ValueError(
            f"None of the {len(classes)} classes of y is in the training rows of every fold, so "
            f"no score can be compared across folds. Merge rare classes, or give fewer folds."
        )
    return out


def _take(given: Mapping[str, Any], rows: Codes, *, square: bool) -> dict[str, Any]:
    """Some rows of the arguments of ``fit``; names of columns of X stay as they are."""
    frame, out = as_frame(given["X"], "X"), {}
    for role, values in given.items():
        named = role in ("sensitive_features", "control_features", "groups") and named_columns_of(
            frame, values, "sensitive_features"
        )
        out[role] = values if named else take_rows(values, rows)
    if square:
        out["X"] = np.asarray(out["X"])[:, rows]
    return out
