"""Permutation importance of the columns of the table, at both ends of the slider."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

from fairspan._system import track
from fairspan.estimators.dial_predictor import DialPrediction, DialPredictor, score_rows
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.report.dial_points import HeldOut

__all__ = ["encoded_columns", "shuffled_errors"]

MOST_ROWS = 4_000
N_REPEATS = 5
MOST_SHOWN = 30
# Number of columns that are shuffled: those that correlate most with the scores.
MOST_COLUMNS = 40
# Rows whose kernel columns are computed in total, and the least number of rows at a time.
_MOST_WORK, _LEAST_ROWS = 120_000, 500


def encoded_columns(encoder: Any) -> dict[str, list[int]]:
    """Positions of the columns that :func:`fairspan.table_encoder` makes of each table column.

    They are derived from the structure of the encoder, not from names, which users choose.
    """
    out: dict[str, list[int]] = {}
    for branch, step, names in encoder.transformers_:
        if branch == "remainder":
            continue
        if branch == "numbers":
            widths = [1] * len(names)
        elif branch == "indicators":
            flagged = set(step.steps[1][1].features_.tolist())
            widths = [int(j in flagged) for j in range(len(names))]
        else:  # one-hot columns; infrequent categories share one
            pairs = zip(step.categories_, step.infrequent_categories_, strict=True)
            widths = [len(a) - (0 if rare is None else len(rare) - 1) for a, rare in pairs]
        start = encoder.output_indices_[branch].start
        for name, width in zip(names, widths, strict=True):
            out.setdefault(name, []).extend(range(start, start + width))
            start += width
    return out


def shuffled_errors(
    predictor: DialPredictor, held_out: HeldOut, rng: np.random.Generator, *, verbose: int = 0
) -> dict[str, Any]:
    """Extra held-out error at fairness 0 and 1 when one column of the table is shuffled.

    Parameters
    ----------
    predictor : the fit and the encoded held-out rows.
    held_out : their true outcomes.
    rng, verbose : source of the shuffles; progress.
    """
    columns = {k: v for k, v in encoded_columns(predictor.model.encoder_).items() if v}
    n, n_columns = held_out.data.n, len(columns)
    ends = [predictor.at(fairness) for fairness in (0.0, 1.0)]
    if n_columns > MOST_COLUMNS:
        correlation = _correlations(predictor.X, ends)
        strength = {name: correlation[encoded].max() for name, encoded in columns.items()}
        strongest = set(sorted(columns, key=lambda name: -strength[name])[:MOST_COLUMNS])
        columns = {name: encoded for name, encoded in columns.items() if name in strongest}
    most = min(MOST_ROWS, max(_MOST_WORK // (N_REPEATS * max(len(columns), 1)), _LEAST_ROWS))
    rows = np.sort(rng.permutation(n)[:most])
    X = predictor.X[rows]
    before = _errors(X, ends, held_out, rows)
    orders = [rng.permutation(len(rows)) for _ in range(N_REPEATS)]
    t = float(scipy.stats.t.isf((1.0 - held_out.settings.level) / 2.0, N_REPEATS - 1))
    features: list[dict[str, Any]] = []
    for name in track(list(columns), len(columns), "shuffled columns", verbose=verbose):
        extra = []
        for order in orders:
            shuffled = X.copy()
            # The encoder works row by row, so shuffling the encoded columns is the same.
            shuffled[:, columns[name]] = X[order][:, columns[name]]
            extra.append(_errors(shuffled, ends, held_out, rows) - before)
        at_0, at_1 = (_mean(values, t) for values in np.array(extra).T)
        features.append({"name": name, "at_0": at_0, "at_1": at_1})
    features.sort(key=lambda f: -abs(f["at_1"]["value"] - f["at_0"]["value"]))
    error = "RMSE" if held_out.task == "regression" else "error rate"
    return {
        "name": f"extra {error} when the column is shuffled",
        "features": features[:MOST_SHOWN],
        "note": _note(n, len(rows), n_columns, len(columns)),
    }


def _note(n: int, n_shuffled: int, n_columns: int, n_used: int) -> str:
    """Rows and columns that the numbers are about."""
    some = f"{n_shuffled:,} of " if n_shuffled < n else ""
    note = (
        f"Mean of {N_REPEATS} shuffles of the column among {some}the {n:,} held-out rows. Intervals show "
        f"the randomness of the shuffling, not of the rows."
    )
    if n_used < n_columns:
        note += (
            f" Of {n_columns} columns the {n_used} were shuffled that correlate most with the score at "
            f"either end; one that matters only together with others may be missing."
        )
    if n_used > MOST_SHOWN:
        note += f" The {MOST_SHOWN} columns that change most are shown, of {n_used}."
    return note


def _correlations(X: Array, ends: list[DialPrediction]) -> Array:
    """Largest absolute correlation of each encoded column with a score at either end."""

    def standard(values: Array) -> Array:
        values = values - values.mean(axis=0)
        size = np.linalg.norm(values, axis=0)
        return np.asarray(values / np.where(size > 0.0, size, 1.0))

    scores = np.concatenate([end.scores for end in ends], axis=1)
    return np.asarray(np.abs(standard(X).T @ standard(scores)).max(axis=1))


def _errors(X: Array, ends: list[DialPrediction], held_out: HeldOut, rows: Codes) -> Array:
    """Errors of the models at both ends on some held-out rows, with features X."""
    target, weight = held_out.data.target, held_out.data.weight[rows]
    assert target is not None
    scored = score_rows(ends[0].model, X)
    predictions = [DialPrediction(end.model, scored) for end in ends]
    share = weight / weight.sum()
    if target.values is not None:
        numbers = np.stack([p.predictions for p in predictions])
        return np.asarray(np.sqrt((numbers - target.values[rows]) ** 2 @ share))
    assert held_out.known_classes is not None
    classes = held_out.known_classes[np.stack([p.class_numbers for p in predictions])]
    return np.asarray((classes != target.codes[rows]) @ share)


def _mean(values: Array, t: float) -> dict[str, float]:
    mean = float(values.mean())
    reach = t * float(values.std(ddof=1)) / len(values) ** 0.5
    return {"value": mean, "low": mean - reach, "high": mean + reach}
