"""The model at each dial value on the held-out rows, with what an audit finds there.

:class:`HeldOut` has everything that the dial does not change: rows, groups, target, and the audit's
resamples, drawn once. :class:`DialPoint` has predictions and findings at one dial value. The permutation
importance of the table's columns is computed at both ends of the dial.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats

from fairspan._system import track
from fairspan.auditing import Finding, Protected
from fairspan.auditing.outputs import Outputs
from fairspan.auditing.parts import (
    Case,
    Settings,
    bounds,
    probable_sums,
    resample_source,
    resample_sources,
    sums,
)
from fairspan.auditing.reading import Audited, read_audit
from fairspan.encoding import encoded_columns
from fairspan.estimators.dial_predictor import DialPrediction, DialPredictor, score_rows
from fairspan.method.certificates import Certificate
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import bootstrap_counts, level_sums, standardize
from fairspan.metrics.probabilities import weights_of
from fairspan.report.likely import LikelyGroups

# Groups of an attribute that are shown, and combinations; the smallest beyond are shown as one.
_MOST_GROUPS, _MOST_COMBINATIONS = 12, 8
# For smaller groups only the number of rows is shown: other numbers would be about single people.
FEWEST = 5
# How often each row is drawn, kept for all resamples: 256 MiB.
_MOST_COUNTS = 2**25

Key = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Held-out rows: everything that is the same at all dial values."""

    data: Audited  # the rows as an audit reads them
    # Attribute -> groups as they are shown; of many groups the smallest are merged.
    shown: dict[str, Protected]
    known_classes: Codes | None  # positions of the model's classes among all classes
    settings: Settings  # options of the audit
    seed: int  # of the audit
    likely: tuple[LikelyGroups, ...]  # attributes whose groups are known as probabilities
    # (n, n_boot) how often the audit draws each row; None if they do not fit in memory.
    counts: Array | None

    @property
    def task(self) -> str:
        """The kind of target: "regression", "binary" or "multiclass"."""
        if self.data.classes is None:
            return "regression"
        return "binary" if len(self.data.classes) == 2 else "multiclass"

    @property
    def crossed(self) -> str | None:
        """Name of the combinations of attributes."""
        return None if self.data.crossed is None else self.data.crossed.name

    @property
    def merged(self) -> tuple[Protected, ...]:
        """Attributes of which the smallest groups are shown as one."""
        return tuple(groups for name, groups in self.shown.items() if groups.name != name)

    @property
    def too_few(self) -> set[tuple[str, str]]:
        """Attributes and their groups of which only the number of rows is shown."""
        everyone: list[Protected | LikelyGroups] = [*self.data.groupings, *self.shown.values()]
        return {
            (groups.name, label)
            for groups in (*everyone, *self.likely)
            for label, n in zip(groups.labels, count_groups(groups), strict=True)
            if n < FEWEST
        }

    @property
    def attributes(self) -> tuple[Protected | LikelyGroups, ...]:
        """All protected attributes, without their combinations."""
        return (*self.data.attributes, *self.likely)

    @property
    def compared(self) -> set[str]:
        """Attributes whose gaps are computed; combinations only if all of them are shown."""
        return {groups.name for groups in self.likely} | {
            name
            for name, groups in self.shown.items()
            if groups.name == name or name != self.crossed
        }


@dataclass(frozen=True, kw_only=True)
class DialPoint:
    """The model at one dial value, on the held-out rows."""

    fairness: float
    certificate: Certificate
    # (n, k) probabilities or scores of all classes; (n, 1) for two classes or a number.
    outputs: Array
    has_probabilities: bool  # whether the outputs are probabilities
    decided: Codes | None  # (n,) predicted class; None for a number
    loss: Array  # (n,) 1 for a wrong class; squared errors of a number
    findings: dict[Key, Finding]  # (metric, attribute, group, where) -> finding of the audit


def read_held_out(predictor: DialPredictor, settings: Settings, seed: int, **given: Any) -> HeldOut:
    """Read the rows once, as :func:`fairspan.audit` reads them."""
    model = predictor.model
    data = read_audit(model, **given)
    shown = {}
    for i, groups in enumerate(data.groupings):
        most = _MOST_GROUPS if groups is not data.crossed else _MOST_COMBINATIONS
        many = len(groups.labels) > most
        shown[groups.name] = merge_small(groups, f"\0shown {i}", most) if many else groups
    known, counts = None, None
    if data.classes is not None:
        known = np.searchsorted(data.classes, np.asarray(model.classes_))
    if data.n * settings.n_boot <= _MOST_COUNTS:
        counts = bootstrap_counts(data.n, settings.n_boot, resample_source(data.weight, seed))
    return HeldOut(
        data=data,
        shown=shown,
        known_classes=known,
        settings=replace(settings, parts=("scores", "decisions")),
        seed=seed,
        likely=tuple(LikelyGroups.of(attribute, data.weight) for attribute in data.probable),
        counts=counts,
    )


def hide_few(finding: Finding, too_few: Collection[tuple[str, str]]) -> Finding:
    """Drop the numbers of a gap that would show those of a group whose numbers are not shown.

    Gaps of small groups in a stratum are dropped as well, because a group may have fewer rows there.
    """
    gap = finding.small and not finding.group
    if gap and (finding.where or any(name == finding.attribute for name, _ in too_few)):
        return replace(finding, value=math.nan, low=math.nan, high=math.nan)
    return finding


def dial_point(predictor: DialPredictor, held_out: HeldOut, fairness: float) -> DialPoint:
    """Predict and audit at one dial value."""
    prediction = predictor.at(fairness)
    data, outputs, has_probabilities = _audited(prediction, held_out)
    target = data.target
    assert target is not None
    if data.decided is not None:
        loss = np.asarray(data.decided != target.codes, dtype=np.float64)
    else:
        assert target.values is not None
        loss = (outputs[:, 0] - target.values) ** 2
    case = Case(data=data, settings=held_out.settings)
    # The gaps of ``audit(model, ..., random_state)``, from the same draws; merged groups come last.
    wide = replace(data, attributes=(*data.groupings, *held_out.merged), crossed=None)
    shown = [groups for groups in data.groupings if groups.name in held_out.compared]
    rng, *sources = resample_sources(data.weight, held_out.seed, len(data.probable))
    sums(replace(case, data=wide), rng, (*shown, *held_out.merged), held_out.counts)
    for attribute, source in zip(data.probable, sources, strict=True):
        probable_sums(case, attribute, source)
    if data.attributes and not (data.representation is not None and data.representation.decides):
        bounds(case, rng)
    return DialPoint(
        fairness=fairness,
        certificate=prediction.certificate,
        outputs=outputs,
        has_probabilities=has_probabilities,
        decided=data.decided,
        loss=loss,
        findings={
            (f.metric, f.attribute, f.group, f.where): hide_few(f, held_out.too_few)
            for f in case.findings
        },
    )


def _audited(prediction: DialPrediction, held_out: HeldOut) -> tuple[Audited, Array, bool]:
    """The rows with the model's outputs as an audit takes them, and as they are drawn."""
    before, known = held_out.data, held_out.known_classes
    assert before.representation is not None
    space = replace(before.representation, Z=prediction.scores)
    if before.classes is None or known is None:
        predicted = prediction.predictions[:, None]
        return replace(before, scores=predicted, representation=space), predicted, False
    # Class numbers in place of labels: comparing texts at every dial value would be slow.
    classes = np.arange(len(before.classes))
    outputs = Outputs(
        name="",
        scores=prediction.decision_function,
        decisions=known[prediction.class_numbers],
        probabilities=prediction.probabilities,
        classes=known,
    )
    data = replace(
        before,
        scores=outputs.oriented(classes, before.positive),
        decided=outputs.decisions,
        probability=outputs.probability(classes, before.positive),
        representation=space,
    )
    if data.probability is not None:
        return data, data.probability[:, None], True
    if outputs.probabilities is not None:
        drawn = np.zeros((data.n, len(classes)))
        drawn[:, known] = outputs.probabilities
        return data, drawn, True
    assert data.scores is not None
    return data, data.scores, False


def drawn_class(first: DialPoint, held_out: HeldOut) -> int | None:
    """The class whose scores are drawn: the one whose means differ most between groups.

    It is chosen at fairness 0 and kept, so that the slider moves one picture. None if the model has
    one score.
    """
    columns, weight = first.outputs.T, held_out.data.weight
    if len(columns) == 1:
        return None
    spread = np.zeros(len(columns))
    for groups in held_out.data.attributes:
        mass, sums = level_sums(first.outputs, groups.codes, weight)
        spread = np.maximum(spread, np.ptp(sums / mass, axis=1))
    for attribute in held_out.data.probable:
        means = first.outputs.T @ weights_of(attribute, weight)
        spread = np.maximum(spread, np.ptp(means, axis=1))
    return int(np.argmax(spread))


def count_groups(groups: Protected | LikelyGroups) -> list[int]:
    """Number of rows of each group; of probabilities, the expected number."""
    if isinstance(groups, LikelyGroups):
        return list(groups.counts)
    counts: list[int] = np.bincount(groups.codes, minlength=len(groups.labels)).tolist()
    return counts


def merge_small(groups: Protected, name: str, most: int) -> Protected:
    """Keep the largest groups and merge the others into one, under another attribute name."""
    largest = np.sort(np.argsort(-np.array(count_groups(groups)), kind="stable")[: most - 1])
    code = np.full(len(groups.labels), most - 1)
    code[largest] = np.arange(most - 1)
    rest = f"all {len(groups.labels) - most + 1} others"
    while rest in groups.labels:
        rest += " "
    labels = (*(groups.labels[h] for h in largest), rest)
    return Protected(name, "categorical", code[groups.codes].astype(np.intp), labels)


MOST_ROWS = 4_000
N_REPEATS = 5
MOST_SHOWN = 30
# Number of columns that are shuffled: those that correlate most with the scores.
MOST_COLUMNS = 40
# Rows whose kernel columns are computed in total, and the least number of rows at a time.
_MOST_WORK, _LEAST_ROWS = 120_000, 500


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
    model = predictor.model
    columns = {name: [j] for j, name in enumerate(model.feature_names_in_)}
    if hasattr(model, "encoder_"):  # learners read a table of numbers as it is
        columns = {k: v for k, v in encoded_columns(model.encoder_).items() if v}
    n, n_columns = held_out.data.n, len(columns)
    ends = [predictor.at(fairness) for fairness in (0.0, 1.0)]
    if n_columns > MOST_COLUMNS:
        scores, ones = np.concatenate([end.scores for end in ends], axis=1), np.ones(n)
        # Proportional to the correlations of the encoded columns with the scores at either end.
        products = standardize(predictor.X, ones).T @ standardize(scores, ones)
        correlation = np.abs(products).max(axis=1)
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
    features.sort(key=lambda f: -max(abs(f["at_0"]["value"]), abs(f["at_1"]["value"])))
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
        note += f" The {MOST_SHOWN} columns with the largest effects are shown, of {n_used}."
    return note


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
