"""What a column is worth to the model at both ends of the slider: the error when it is shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

from fairspan._system import track
from fairspan.method.linalg import Array
from fairspan.report.dial_points import Ground
from fairspan.report.met import Met

__all__ = ["encoded_columns", "shuffled_errors"]

MOST_ROWS = 4_000
N_REPEATS = 5
MOST_SHOWN = 30
# Columns that are shuffled; of more, those that go most with the scores.
MOST_COLUMNS = 40
# Rows whose kernel columns are computed in all, and the fewest at a time.
_MOST_WORK, _LEAST_ROWS = 120_000, 500


def encoded_columns(encoder: Any) -> dict[str, list[int]]:
    """Columns that :func:`fairspan.table_encoder` makes of each column of the table.

    By its structure, not by names, which users choose.
    """
    out: dict[str, list[int]] = {}
    for branch, step, names in encoder.transformers_:
        if branch == "remainder":
            continue
        if branch == "numbers":
            widths = [1] * len(names)
        elif branch == "indicators":
            seen = set(step.steps[1][1].features_.tolist())
            widths = [int(j in seen) for j in range(len(names))]
        else:
            widths = _one_hot_widths(step)
        start = encoder.output_indices_[branch].start
        for name, width in zip(names, widths, strict=True):
            out.setdefault(name, []).extend(range(start, start + width))
            start += width
    return out


def _one_hot_widths(one_hot: Any) -> list[int]:
    """Known categories, those merged into one counted once."""
    return [
        len(known) - (0 if rare is None else len(rare) - 1)
        for known, rare in zip(one_hot.categories_, one_hot.infrequent_categories_, strict=True)
    ]


def shuffled_errors(
    met: Met, ground: Ground, rng: np.random.Generator, *, verbose: int = 0
) -> dict[str, Any]:
    """Extra held-out error at fairness 0 and 1 when one column of the table is shuffled.

    Parameters
    ----------
    met : the fit and the encoded held-out rows.
    ground : their truth.
    rng, verbose : source of the shuffles; progress.
    """
    columns = {k: v for k, v in encoded_columns(met.model.encoder_).items() if v}
    n, n_columns = ground.data.n, len(columns)
    if n_columns > MOST_COLUMNS:
        weight = _correlations(met)
        strength = {name: max(weight[j] for j in places) for name, places in columns.items()}
        ranked = sorted(columns, key=lambda name: -strength[name])[:MOST_COLUMNS]
        columns = {name: columns[name] for name in columns if name in set(ranked)}
    most = min(MOST_ROWS, max(_MOST_WORK // (N_REPEATS * max(len(columns), 1)), _LEAST_ROWS))
    rows = np.sort(rng.permutation(n)[:most])
    some = met.X[rows]
    errors = _Errors(met, ground, rows)
    before = errors(some)
    orders = [rng.permutation(len(rows)) for _ in range(N_REPEATS)]
    found: dict[str, Array] = {}
    for name in track(list(columns), len(columns), "shuffled columns", verbose=verbose):
        extra = []
        for order in orders:
            shuffled = some.copy()
            # Encoding goes row by row: a shuffled column is encoded as its encoding, shuffled.
            shuffled[:, columns[name]] = some[order][:, columns[name]]
            extra.append(errors(shuffled) - before)
        found[name] = np.array(extra)
    t = float(scipy.stats.t.isf((1.0 - ground.settings.level) / 2.0, N_REPEATS - 1))
    features = [
        {"name": name, "at_0": _mean(extra[:, 0], t), "at_1": _mean(extra[:, 1], t)}
        for name, extra in found.items()
    ]
    features.sort(key=lambda f: -abs(f["at_1"]["value"] - f["at_0"]["value"]))  # type: ignore[index]
    note = (
        f"Mean of {N_REPEATS} shuffles of the column among {f'{len(rows):,} of ' if len(rows) < n else ''}"
        f"the {n:,} held-out rows. Intervals speak of the shuffling, not of the rows."
    )
    if len(columns) < n_columns:
        note += (
            f" Of {n_columns} columns the {len(columns)} were shuffled that correlate most with the score "
            f"at either end; one that matters only together with others may be missing."
        )
    if len(features) > MOST_SHOWN:
        note += f" The {MOST_SHOWN} columns that change most are shown, of {len(features)}."
    error = "RMSE" if ground.task == "regression" else "error rate"
    return {
        "name": f"extra {error} when the column is shuffled", "features": features[:MOST_SHOWN],
        "note": note,
    }  # fmt: skip


def _correlations(met: Met) -> Array:
    """Largest correlation of each encoded column with a score at either end."""
    scores = np.concatenate(
        [np.reshape(met.at(f)._scores(None), (len(met.X), -1)) for f in (0.0, 1.0)], axis=1
    )

    def standard(values: Array) -> Array:
        values = values - values.mean(axis=0)
        size = np.linalg.norm(values, axis=0)
        return np.asarray(values / np.where(size > 0.0, size, 1.0))

    return np.asarray(np.abs(standard(met.X).T @ standard(scores)).max(axis=1))


class _Errors:
    """Errors of the models at both ends on some rows, whatever their features are made to be."""

    def __init__(self, met: Met, ground: Ground, rows: Any) -> None:
        target, weight = ground.data.target, ground.data.weight[rows]
        assert target is not None
        self._model = met.model
        self._ends = [met.at(f) for f in (0.0, 1.0)]
        self._numbers = target.values is not None
        self._truth = (target.codes if target.values is None else target.values)[rows]
        self._share = weight / weight.sum()
        if not self._numbers:
            for end in self._ends:
                end.classes_ = ground.known

    def __call__(self, X: Array) -> Array:
        met = Met(self._model, X)
        said = np.stack([met.meet(end).predict(None) for end in self._ends])
        if self._numbers:
            return np.asarray(np.sqrt((said - self._truth) ** 2 @ self._share))
        return np.asarray((said != self._truth) @ self._share)


def _mean(values: Array, t: float) -> dict[str, float]:
    mean = float(values.mean())
    reach = t * float(values.std(ddof=1)) / len(values) ** 0.5
    return {"value": mean, "low": mean - reach, "high": mean + reach}
