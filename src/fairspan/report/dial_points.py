"""The audit's resamples of the held-out rows, drawn once for all places of the slider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing import parts as _parts
from fairspan.auditing.bound import HeldOutBound
from fairspan.auditing.decisions import decision_columns, decision_findings, performance_findings
from fairspan.auditing.findings import Finding
from fairspan.auditing.outputs import Outputs
from fairspan.auditing.parts import Case, Evidence, Settings, resample_source
from fairspan.auditing.reading import Audited, Protected, find_representation, read_audit
from fairspan.auditing.scores import score_columns, score_findings
from fairspan.method.certificates import Certificate
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.metrics.groups import (
    BIN,
    DECIDED,
    STRATA,
    TARGET,
    GroupSums,
    bootstrap_counts,
    group_sums,
    resample,
)
from fairspan.report.met import Met

__all__ = [
    "FEWEST",
    "MOST_COMBINATIONS",
    "MOST_GROUPS",
    "Draws",
    "Ground",
    "Place",
    "count_groups",
    "drawn_class",
    "merge_small",
    "place_at",
    "read_ground",
]

# How often each row is drawn, kept for every resample: 256 MiB.
_MOST_COUNTS = 2**25


class Draws:
    """Resamples of n rows, the same as those of ``audit(..., random_state)``.

    Parameters
    ----------
    weight : (n,)
    n_boot : number of resamples.
    seed : of the audit.
    """

    def __init__(self, weight: Array, n_boot: int, seed: int) -> None:
        self._weight, self._n_boot, self._seed = weight, n_boot, seed
        self._counts: Array | None = None
        n = len(weight)
        if n * n_boot <= _MOST_COUNTS:
            self._counts = bootstrap_counts(n, n_boot, self.source())

    def source(self) -> np.random.Generator:
        """Where the audit draws from for scores and decisions."""
        return resample_source(self._weight, self._seed)

    def sums(self, factors: Mapping[str, Codes], columns: Mapping[str, Array]) -> GroupSums:
        """Sums over joint cells, in the rows and in every resample, as the audit takes them."""
        if self._counts is None:
            return resample(factors, columns, self._weight, self._n_boot, self.source())
        return group_sums(factors, columns, self._weight, [self._counts])


Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Ground:
    """What is the same everywhere: rows, groups, truth.

    Attributes
    ----------
    data : the rows as an audit reads them.
    shown : attribute -> its groups as they are shown, the smallest together where there are many.
    known : places of the model's classes among all that occur.
    settings : of the audit.
    draws : its resamples.
    """

    data: Audited
    shown: dict[str, Protected]
    known: Any
    settings: Settings
    draws: Draws

    @property
    def task(self) -> str:
        """What is predicted."""
        if self.data.classes is None:
            return "regression"
        return "binary" if len(self.data.classes) == 2 else "multiclass"

    @property
    def crossed(self) -> str | None:
        """Name of the combinations of attributes."""
        return None if self.data.crossed is None else self.data.crossed.name

    @property
    def few(self) -> set[tuple[str, str]]:
        """Attributes and their groups of so few rows that only their number is told."""
        return {
            (one.name, label)
            for one in (*self.data.groupings, *self.shown.values())
            for label, n in zip(one.labels, count_groups(one), strict=True)
            if n < FEWEST
        }

    @property
    def compared(self) -> set[str]:
        """Attributes whose gaps are looked at; combinations only where all of them are shown."""
        return {
            name for name, one in self.shown.items() if one.name == name or name != self.crossed
        }


@dataclass(frozen=True)
class Place:
    """The model at one place of the slider, on the held-out rows.

    Attributes
    ----------
    said : (n, k) probabilities or scores of all classes; (n, 1) of two, or of a number.
    probable : they are probabilities.
    decided : (n,) class decided on.
    loss : (n,) wrong or not; squared errors of a number.
    findings : (metric, attribute, group, where) -> what the audit finds.
    """

    fairness: float
    certificate: Certificate
    said: Array
    probable: bool
    decided: Any
    loss: Array
    findings: dict[Key, Finding]
    bounds: tuple[HeldOutBound, ...]


def read_ground(met: Met, settings: Settings, seed: int, **given: Any) -> Ground:
    """The rows, read once as :func:`fairspan.audit` reads them."""
    data = read_audit(
        met.at(1.0), **given, decisions=None, representation=None, n_bins=10,
        intersectional=True, with_features=False,
    )  # fmt: skip
    shown = {}
    for i, one in enumerate(data.groupings):
        most = MOST_GROUPS if one is not data.crossed else MOST_COMBINATIONS
        many = len(one.labels) > most
        shown[one.name] = merge_small(one, f"\0shown {i}", most) if many else one
    known = None
    if data.classes is not None:
        known = np.searchsorted(data.classes, np.asarray(met.model.classes_))
    return Ground(data, shown, known, settings, Draws(data.weight, settings.n_boot, seed))


def place_at(met: Met, ground: Ground, fairness: float) -> Place:
    """Everything about one place."""
    model = met.at(fairness)
    data, said, probable = _asked(model, ground)
    target = data.target
    assert target is not None
    if data.decided is not None:
        loss = np.asarray(data.decided != target.codes, dtype=np.float64)
    else:
        assert target.values is not None
        loss = (said[:, 0] - target.values) ** 2
    evidence = Evidence()
    case = Case(data, ground.settings, evidence, None)
    _sums(case, ground)
    if data.representation is not None:
        _parts.bounds(case, np.random.default_rng(0))
    found = {(f.metric, f.attribute, f.group, f.where): f for f in evidence.findings}
    return Place(
        fairness, model.certificate_, said, probable, data.decided, loss, found,
        tuple(evidence.bounds),
    )  # fmt: skip


def _asked(model: Any, ground: Ground) -> tuple[Audited, Array, bool]:
    """What the model says of the rows: as an audit takes it, and as it is drawn."""
    before = ground.data
    found = find_representation(model, None, None)
    if before.classes is None:
        said = model.predict(None)[:, None]
        return replace(before, scores=said, representation=found), said, False
    # Numbers for labels: text would be compared again at every place.
    model.classes_ = ground.known
    outputs = Outputs(
        "", _columns(model.decision_function(None)), model.predict(None),
        model.predict_proba(None) if hasattr(model, "predict_proba") else None, ground.known,
    )  # fmt: skip
    classes = np.arange(len(before.classes))
    data = replace(
        before, scores=outputs.oriented(classes, before.positive), decided=outputs.decisions,
        probability=outputs.probability(classes, before.positive), representation=found,
    )  # fmt: skip
    if data.probability is not None:
        return data, data.probability[:, None], True
    if outputs.probabilities is not None:
        said = np.zeros((data.n, len(classes)))
        said[:, ground.known] = outputs.probabilities
        return data, said, True
    assert data.scores is not None
    return data, data.scores, False


def _columns(scores: Array) -> Array:
    return scores[:, None] if scores.ndim == 1 else scores


# ------------------------------------------------------------------ the audit's sums


def _sums(case: Case, ground: Ground) -> None:
    """What ``audit(model, ..., random_state)`` finds in scores and decisions, from the same draws."""
    data, settings = case.data, case.settings
    factors = _parts.cell_factors(data)
    scores, decisions = score_columns(data), decision_columns(data)
    merged = tuple(one for name, one in ground.shown.items() if one.name != name)
    groupings = (*(one for one in data.groupings if one.name in ground.compared), *merged)
    if _parts.too_many_sums(factors, len(scores | decisions), settings.n_boot):
        # One attribute at a time, those that only are shown after all others.
        wide = replace(data, attributes=(*data.groupings, *merged), crossed=None)
        _parts.sums(replace(case, data=wide), ground.draws.source())
        return
    factors |= {one.name: one.codes for one in merged}
    found = ground.draws.sums(factors, scores | decisions)
    names = [one.name for one in groupings]
    out, level, min_rows = case.out.findings, settings.level, settings.min_rows
    # Fewer sums to begin with: scores ask for no decisions, rates for no scores.
    some = _only(found, scores).over(*names, TARGET, STRATA)
    out += score_findings(data, groupings, some, level, min_rows)
    some = _only(found, decisions).over(*names, TARGET, DECIDED, BIN, STRATA)
    out += performance_findings(data, some, level)
    out += decision_findings(data, groupings, some, level, min_rows)


def _only(found: GroupSums, names: Iterable[str]) -> GroupSums:
    return replace(found, columns={name: found.columns[name] for name in ("", *names)})


# ------------------------------------------------------------------ which class is drawn


def drawn_class(first: Place, ground: Ground) -> int | None:
    """Of several classes without a favourable one: that whose scores differ most between groups.

    Chosen where fairness is 0, and kept, so that the slider moves one and the same picture.
    """
    k = first.said.shape[1]
    if k == 1:
        return None
    spread = np.zeros(k)
    weight = ground.data.weight
    for one in ground.data.attributes:
        n_levels = len(one.labels)
        mass = np.bincount(one.codes, weight, minlength=n_levels)
        sums = np.stack(
            [
                np.bincount(one.codes, weight * first.said[:, j], minlength=n_levels)
                for j in range(k)
            ]
        )
        means = sums[:, mass > 0.0] / mass[mass > 0.0]
        spread = np.maximum(spread, means.max(axis=1) - means.min(axis=1))
    return int(np.argmax(spread))


# ------------------------------------------------------------------ rates by group


# ------------------------------------------------------------------ all of it


# Groups of an attribute that are shown, and combinations; beyond, the smallest are shown together.
MOST_GROUPS, MOST_COMBINATIONS = 12, 8


# Of groups with fewer rows only their number is told: anything else would be about single people.
FEWEST = 5


def count_groups(one: Protected) -> list[int]:
    """Rows of each group."""
    counts: list[int] = np.bincount(one.codes, minlength=len(one.labels)).tolist()
    return counts


def merge_small(one: Protected, name: str, most: int) -> Protected:
    """The largest groups under a name of their own, and the rest of them as one group."""
    count = np.bincount(one.codes, minlength=len(one.labels))
    largest = np.sort(np.argsort(-count, kind="stable")[: most - 1])
    place = np.full(len(one.labels), most - 1)
    place[largest] = np.arange(most - 1)
    rest = f"all {len(one.labels) - most + 1} others"
    while rest in one.labels:
        rest += " "
    labels = (*(one.labels[h] for h in largest), rest)
    return Protected(name, "categorical", place[one.codes].astype(np.intp), labels)
