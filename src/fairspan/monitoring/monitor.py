"""The monitor: batches of decisions, scores and groups in; alarms that hold at any time out."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fairspan._html import escaped, table
from fairspan._system import atomic_write, inert, json_safe
from fairspan.exceptions import DataWarning, warn_user
from fairspan.monitoring.groups import MOST_GROUPS, Comparison, GroupMonitor, Limit, listed
from fairspan.monitoring.rows import Batch, read_batch, read_groups, read_ids
from fairspan.monitoring.state import read_state, write_state
from fairspan.monitoring.windows import Window

if TYPE_CHECKING:
    from fairspan.monitoring.display import FairnessMonitorDisplay

# Batches whose intervals are kept for the plot.
MOST_BATCHES = 400
# Ids of people who were counted last, so that a batch that is fed twice is noticed.
REMEMBERED = 10_000


class FairnessMonitor:
    """Watch the decisions and scores of a model in use, and raise an alarm if groups drift apart.

    Every limit is tested after every person, and the probability that the monitor ever raises a false
    alarm is at most ``alpha``, over all groups, limits and times since the start or the last reset.
    An alarm says that a limit was broken at some time since then; it stays until :meth:`reset`.

    Parameters
    ----------
    limits : str or sequence of str, default="gap=0.1"
        "gap=0.1": the difference of two groups' rates of favourable decisions is at most this.
        "ratio=0.8": the lower rate is at least this share of the higher one.
        "correlation=0.05": the correlation of the score with the indicator of each group is at most this.
        "change=0.05": the difference of two groups' rates is within this margin of what it was among the
        first ``reference_rows`` people.
    alpha : float, default=0.05
        Probability of any false alarm.
    groups : mapping of str to sequence of str, optional
        Groups of each attribute. None: those of the first 100 people, among whom no alarm is raised. A
        tenth of alpha is kept for groups that come later.
    window : int, default=1000
        Number of last people whose rates :meth:`window_rates` describes.
    min_rows : int, default=30
        People that a group needs before an alarm can be raised about it.
    reference_rows : int, optional
        People of the reference period of a limit on the change.
    score_range : tuple of float, default=(0, 1)
        Smallest and largest possible score.
    pos_label : label, optional
        The favourable decision; None: decisions are 0 and 1, and 1 is favourable.
    max_waiting : int, default=100000
        People who may wait for their groups. If there are more, the oldest are dropped and counted.

    Attributes
    ----------
    comparisons_ : list of Comparison
        Every limit and every two groups: estimate, interval and the first alarm.
    alarms_ : list of Comparison
        Those with an alarm.
    n_people_ : int
        People counted since the start or the last reset.
    n_batches_ : int
        Batches since then.
    n_waiting_ : int
        People who wait for their groups.
    n_dropped_ : int
        People who were dropped because too many waited.
    resets_ : list of dict
        Earlier periods: reason of the reset, people, batches, alarms.

    Notes
    -----
    People count in the order in which their groups become known. Rows have no weights: bets need people.

    Examples
    --------
    >>> from fairspan.monitoring import FairnessMonitor
    >>> monitor = FairnessMonitor(limits="gap=0.1", groups={"sex": ["F", "M"]})
    >>> for day in range(10):
    ...     sex, favourable = ["F", "M"] * 50, [day % 2, 1] * 50
    ...     monitor = monitor.update(decisions=favourable, sensitive_features={"sex": sex})
    >>> [alarm] = monitor.alarms_
    >>> alarm.groups, alarm.estimate, alarm.batch
    (('M', 'F'), 0.5, 1)
    """

    def __init__(
        self,
        limits: Any = "gap=0.1",
        *,
        alpha: Any = 0.05,
        groups: Mapping[str, Sequence[Any]] | None = None,
        window: int = 1000,
        min_rows: int = 30,
        reference_rows: int | None = None,
        score_range: tuple[float, float] = (0.0, 1.0),
        pos_label: Any = None,
        max_waiting: int = 100_000,
    ) -> None:
        given = limits if isinstance(limits, list | tuple) else [limits]
        self.limits = tuple(Limit.read(text) for text in given)
        if not self.limits or len(set(self.limits)) < len(self.limits):
            raise ValueError("limits must hold at least one limit, and each once.")
        if not isinstance(alpha, int | float) or not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha={alpha!r} is not allowed; give a number between 0 and 1.")
        self.alpha = float(alpha)
        self.groups = _read_declared(groups)
        self.window = _whole("window", window, 1)
        self.min_rows = _whole("min_rows", min_rows, 1)
        self.max_waiting = _whole("max_waiting", max_waiting, 0)
        changes = [limit for limit in self.limits if limit.measure == "change"]
        if bool(changes) != (reference_rows is not None):
            raise ValueError(
                "A limit such as 'change=0.05' and reference_rows= (people of the reference period) go "
                "together; give both or neither."
            )
        self.reference_rows = (
            0 if reference_rows is None else _whole("reference_rows", reference_rows, 1)
        )
        self.score_range = _read_range(score_range)
        self.pos_label = pos_label.item() if hasattr(pos_label, "item") else pos_label
        if not isinstance(self.pos_label, str | int | float | None):
            raise ValueError(f"pos_label={pos_label!r} is no label; give text or a number.")
        self.resets_: list[dict[str, Any]] = []
        # What batches hold: set by the first one.
        self._attributes: tuple[str, ...] = tuple(self.groups or ())
        self._fed: tuple[bool, bool] | None = None
        # id -> (favourable, score)
        self._waiting: dict[str, tuple[bool, float]] = {}
        self._finished: deque[str] = deque(maxlen=REMEMBERED)
        self.n_dropped_ = 0
        self._start()

    def _start(self) -> None:
        """Begin a period: no person is counted."""
        self.n_people_ = self.n_batches_ = 0
        self._monitors = [self._new_monitor(name) for name in self._attributes]
        self._window = Window(self.window, self._attributes)
        self._history: deque[dict[str, Any]] = deque(maxlen=MOST_BATCHES)

    def _new_monitor(self, name: str) -> GroupMonitor:
        errors = self.alpha / (len(self.limits) * len(self._attributes))
        return GroupMonitor(
            name,
            self.limits,
            errors=errors,
            min_rows=self.min_rows,
            reference_rows=self.reference_rows,
            known=(self.groups or {}).get(name, ()),
        )

    # -------------------------------------------------------------- batches

    def update(
        self,
        *,
        scores: Any = None,
        decisions: Any = None,
        sensitive_features: Any = None,
        ids: Any = None,
    ) -> Self:
        """Count a batch of people.

        Parameters
        ----------
        scores : array-like of shape (n_samples,), optional
            Scores, within ``score_range``; limits on correlations need them.
        decisions : array-like of shape (n_samples,), optional
            Decisions; limits on gaps, ratios and changes need them.
        sensitive_features : array-like, frame or mapping, optional
            Protected attributes. People without one wait for :meth:`update_sensitive`, by their id.
        ids : array-like of shape (n_samples,), optional
            Ids of the people, numbers or text.

        Returns
        -------
        self
        """
        batch = read_batch(
            scores,
            decisions,
            sensitive_features,
            ids,
            pos_label=self.pos_label,
            score_range=self.score_range,
        )
        self._check_columns(scores is not None, decisions is not None)
        self._check_ids(batch)
        self._check_groups(batch.attributes, batch.labels)
        self._fed = scores is not None, decisions is not None
        self._set_attributes(batch.attributes)
        self.n_batches_ += 1
        ids_or_none: Sequence[str | None] = batch.ids or [None] * len(batch.labels)
        rows = zip(ids_or_none, batch.labels, batch.favourable, batch.scores, strict=True)
        for key, labels, favourable, score in rows:
            if labels is None:
                assert key is not None
                self._waiting[key] = favourable, score
            else:
                self._count(key, labels, favourable, score)
        self._drop_oldest()
        self._remember()
        return self

    def update_sensitive(self, ids: Any, sensitive_features: Any) -> Self:
        """Count people who waited for their groups, in the order given here.

        Parameters
        ----------
        ids : array-like of shape (n_samples,)
            Ids that an earlier batch had, without groups.
        sensitive_features : array-like, frame or mapping
            All protected attributes of these people. Rows that still lack one go on waiting.

        Returns
        -------
        self
        """
        from fairspan.inputs.columns import align_rows

        given = align_rows(ids=ids, sensitive_features=sensitive_features)
        keys = read_ids(given["ids"])
        unknown = [key for key in keys if key not in self._waiting]
        if unknown:
            counted = set(self._finished)
            why = (
                "its groups were counted already"
                if unknown[0] in counted
                else "no earlier batch had it without groups, or it was dropped"
            )
            raise ValueError(
                f"ids holds {unknown[0]!r}, which does not wait for its groups: {why}. Leave out such people "
                f"({len(unknown)} here)."
            )
        attributes, labels = read_groups(given["sensitive_features"], len(keys))
        self._check_groups(attributes, labels)
        self._set_attributes(attributes)
        self.n_batches_ += 1
        for key, row in zip(keys, labels, strict=True):
            if row is not None:
                favourable, score = self._waiting.pop(key)
                self._count(key, row, favourable, score)
        self._remember()
        return self

    def _check_columns(self, scores: bool, decisions: bool) -> None:
        measures = {limit.measure for limit in self.limits}
        if "correlation" in measures and not scores:
            raise ValueError("A limit on a correlation needs scores=.")
        if measures - {"correlation"} and not decisions:
            shown = ", ".join(str(limit) for limit in self.limits if limit.measure != "correlation")
            raise ValueError(f"The limits {shown} need decisions=.")
        if self._fed not in (None, (scores, decisions)):
            raise ValueError(
                "This batch does not have the columns of the earlier ones: give scores and decisions in all "
                "batches, or one of them in all."
            )

    def _check_ids(self, batch: Batch) -> None:
        if batch.ids is None:
            lacking = sum(labels is None for labels in batch.labels)
            if lacking:
                raise ValueError(
                    f"{lacking} people have no group. Give ids=, so that they wait until update_sensitive "
                    f"brings it, or leave them out."
                )
            return
        known = {*self._waiting, *self._finished}
        again = next((key for key in batch.ids if key in known), None)
        if again is not None:
            raise ValueError(
                f"ids holds {again!r}, which an earlier batch had. Each person counts once; was this batch "
                f"fed before?"
            )

    def _check_groups(
        self, attributes: tuple[str, ...], labels: Sequence[tuple[str, ...] | None]
    ) -> None:
        if not attributes:
            return
        if self._attributes and set(attributes) != set(self._attributes):
            raise ValueError(
                f"The protected attributes are {', '.join(attributes)}, and those of the monitor "
                f"{', '.join(self._attributes)}; give the same in all batches."
            )
        for i, name in enumerate(attributes):
            known = next((m.labels for m in self._monitors if m.name == name), [])
            seen = {row[i] for row in labels if row is not None}
            if len(seen.union(known)) > MOST_GROUPS:
                raise ValueError(
                    f"sensitive feature {name!r} has more than {MOST_GROUPS} groups, such as "
                    f"{listed(sorted(seen))}. Join groups, or cut numbers into slices, first."
                )

    def _set_attributes(self, attributes: tuple[str, ...]) -> None:
        if attributes and not self._attributes:
            self._attributes = attributes
            self._monitors = [self._new_monitor(name) for name in attributes]
            self._window = Window(self.window, attributes)
        self._places = [attributes.index(name) for name in self._attributes] if attributes else []

    def _count(
        self, key: str | None, labels: tuple[str, ...], favourable: bool, score: float
    ) -> None:
        labels = tuple(labels[place] for place in self._places)
        self.n_people_ += 1
        for monitor, label in zip(self._monitors, labels, strict=True):
            monitor.add(label, favourable, score, self.n_people_, self.n_batches_)
        self._window.add(labels, favourable, score)
        if key is not None:
            self._finished.append(key)

    def _drop_oldest(self) -> None:
        excess = len(self._waiting) - self.max_waiting
        if excess <= 0:
            return
        for key in list(islice(self._waiting, excess)):
            del self._waiting[key]
        self.n_dropped_ += excess
        warn_user(
            f"{excess} people were dropped, because more than {self.max_waiting} wait for their groups "
            f"(max_waiting). They are in no result.",
            DataWarning,
        )

    def _remember(self) -> None:
        ends = {m.name: m.snapshot() for m in self._monitors}
        self._history.append({"people": self.n_people_, "ends": ends})

    def reset(self, reason: Any) -> Self:
        """Begin a new period: alarms and counts are kept in ``resets_``, and all tests begin again.

        Parameters
        ----------
        reason : str
            Why, for example "new model"; it is kept with the alarms so far.

        Returns
        -------
        self
        """
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError("reason is empty; say in a few words why the monitor begins again.")
        self.resets_.append(
            {
                "reason": inert(reason),
                "people": self.n_people_,
                "batches": self.n_batches_,
                "alarms": [_as_dict(alarm) for alarm in self.alarms_],
            }
        )
        self._start()
        return self

    # -------------------------------------------------------------- results

    @property
    def comparisons_(self) -> list[Comparison]:
        """Every limit and every two groups."""
        found = [each for monitor in self._monitors for each in monitor.comparisons()]
        order = {(limit.measure, limit.value): i for i, limit in enumerate(self.limits)}
        return sorted(found, key=lambda each: order[each.metric, each.limit])

    @property
    def alarms_(self) -> list[Comparison]:
        """Comparisons whose limit is proven to be broken, in the order of their alarms."""
        found = [each for each in self.comparisons_ if each.row is not None]
        return sorted(found, key=lambda each: each.row or 0)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes; empty before a batch has had groups."""
        return self._attributes

    @property
    def n_waiting_(self) -> int:
        """People who wait for their groups."""
        return len(self._waiting)

    def window_rates(self) -> dict[str, dict[str, dict[str, float]]]:
        """Describe the last people, without any test.

        Returns
        -------
        dict
            Attribute -> group -> number of people, rate of favourable decisions, mean score.
        """
        low, high = self.score_range
        scores, decisions = self._fed or (False, False)
        return {
            name: {
                label: {"people": counts["people"]}
                | ({"rate": counts["rate"]} if decisions else {})
                | ({"score": low + (high - low) * counts["score"]} if scores else {})
                for label, counts in by_group.items()
            }
            for name, by_group in self._window.rates().items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return settings, comparisons and counts as plain Python types."""
        return {
            "settings": self.settings,
            "people": self.n_people_,
            "batches": self.n_batches_,
            "waiting": self.n_waiting_,
            "dropped": self.n_dropped_,
            "alarm": bool(self.alarms_),
            "comparisons": [_as_dict(each) for each in self.comparisons_],
            "small_groups": {m.name: m.small_groups() for m in self._monitors},
            "window": self.window_rates(),
            "resets": self.resets_,
        }

    def summary(self) -> str:
        """Return the result as text: a table of comparisons, and sentences about it."""
        head, *rows = self._table()
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (head, *rows)
        ]
        return "\n".join([self._headline(), *(lines if rows else []), *self._notes()])

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        notes = "".join(
            f'<p style="margin:0.2em 0">{escaped(text, 2000)}</p>' for text in self._notes()
        )
        shown = table(self._headline(), head, rows)
        return f'<div style="overflow-x:auto" tabindex="0">{shown}{notes}</div>'

    def _headline(self) -> str:
        alarms = _number_of_alarms(len(self.alarms_))
        batches = f"{self.n_batches_} batch{'es' if self.n_batches_ != 1 else ''}"
        return f"FairnessMonitor: {alarms}; {self.n_people_:,} people in {batches}"

    def _table(self) -> list[tuple[str, ...]]:
        out: list[tuple[str, ...]] = [
            ("limit", "groups", "estimate", "was above", "was below", "people", "first alarm")
        ]
        for each in self.comparisons_:
            labels = [inert(label, 30) for label in each.groups]
            names = f"{labels[0]} and all" if each.metric == "correlation" else " - ".join(labels)
            if each.metric == "ratio":
                names = f"{labels[1]} / {labels[0]}"
            alarm = f"batch {each.batch}, person {each.row:,}" if each.row else "none"
            if not each.tested and not each.row:
                alarm = "not tested yet"
            out.append(
                (
                    f"{each.metric}={each.limit:g}",
                    f"{inert(each.attribute, 30)}: {names}",
                    "-" if math.isnan(each.estimate) else f"{each.estimate:.3f}",
                    f"{each.low:.2f}",
                    f"{each.high:.2f}",
                    ", ".join(f"{n:,}" for n in each.n_people),
                    alarm,
                )
            )
        return out

    def _notes(self) -> list[str]:
        level = f"{100 * (1 - self.alpha):g} %"
        notes = []
        if self.comparisons_:
            notes.append(
                f"Estimates are of all people since the {'last reset' if self.resets_ else 'start'}. At some "
                f"time since then each number was above the one end and below the other: {level} confidence "
                f"for all ends together, at any time. A number that did not change is between them."
            )
        for monitor in self._monitors:
            if small := monitor.small_groups():
                notes.append(
                    f"Not tested, fewer than {self.min_rows} people: {inert(monitor.name, 30)} "
                    f"{listed(small)}."
                )
            if not monitor.n_known and monitor.codes:
                notes.append(
                    f"{inert(monitor.name, 30)}: alarms begin after 100 people, when the groups are known."
                )
        if self.n_waiting_ or self.n_dropped_:
            notes.append(
                f"{self.n_waiting_:,} people wait for their groups; {self.n_dropped_:,} were dropped."
            )
        for name, by_group in self.window_rates().items():
            shown = ", ".join(
                f"{inert(label, 30)} {counts['rate' if 'rate' in counts else 'score']:.2f}"
                for label, counts in by_group.items()
            )
            what = "rates" if self._fed and self._fed[1] else "mean scores"
            last = min(self.window, self.n_people_)
            if shown:
                notes.append(
                    f"Last {last:,} people, {what} by {inert(name, 30)} (a description, no test): {shown}."
                )
        notes.extend(
            f"Before a reset ({reset['reason']}): {reset['people']:,} people, "
            f"{_number_of_alarms(len(reset['alarms']))}."
            for reset in self.resets_
        )
        return notes

    def plot(self, ax: Any = None, **kwargs: Any) -> FairnessMonitorDisplay:
        """Draw estimates and intervals of each batch, with the limit and the first alarm.

        Parameters
        ----------
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`FairnessMonitorDisplay.from_monitor`.

        Returns
        -------
        FairnessMonitorDisplay
        """
        from fairspan.monitoring.display import FairnessMonitorDisplay

        return FairnessMonitorDisplay.from_monitor(self, ax=ax, **kwargs)

    # -------------------------------------------------------------- file

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the monitor, as plain Python types."""
        return {
            "limits": [str(limit) for limit in self.limits],
            "alpha": self.alpha,
            "groups": None if self.groups is None else {k: list(v) for k, v in self.groups.items()},
            "window": self.window,
            "min_rows": self.min_rows,
            "reference_rows": self.reference_rows or None,
            "score_range": list(self.score_range),
            "pos_label": self.pos_label,
            "max_waiting": self.max_waiting,
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything that is needed to go on to a JSON file, in one step.

        A process that is killed leaves the old file or the new one. The file has no row of a person who was
        counted, except the groups, decisions and scores of the last ``window`` people and the ids of the
        last 10,000; people who wait are in it with their ids.

        Parameters
        ----------
        path : str or path
            File to write.

        Returns
        -------
        Path
        """
        text = json.dumps(write_state(self), ensure_ascii=True, allow_nan=False)
        with atomic_write(path) as part:
            part.write_text(text + "\n", encoding="ascii")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of :meth:`save`; the monitor goes on as if it had not stopped.

        Parameters
        ----------
        path : str or path
            File to read. Its content is checked, and nothing in it is executed.

        Returns
        -------
        FairnessMonitor
        """
        return read_state(cls, path)


def _as_dict(comparison: Comparison) -> dict[str, Any]:
    out: dict[str, Any] = json_safe(asdict(comparison))
    return out | {"alarm": comparison.alarm}


def _number_of_alarms(n: int) -> str:
    return "no alarm" if n == 0 else f"{n} alarm{'s' if n > 1 else ''}"


def _whole(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name}={value!r} is not allowed; give a whole number from {least}.")
    return int(value)


def _read_range(score_range: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in score_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"score_range={score_range!r} is not allowed; give (smallest, largest), two numbers."
        )
    return low, high


def _read_declared(groups: Any) -> dict[str, tuple[str, ...]] | None:
    if groups is None:
        return None
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError('groups must name the groups of each attribute, e.g. {"sex": ["F", "M"]}.')
    out: dict[str, tuple[str, ...]] = {}
    for name, labels in groups.items():
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise ValueError(f"groups[{name!r}] must be a list of groups, such as ['F', 'M'].")
        (_, rows) = read_groups({str(name): list(labels)}, len(labels)) if labels else ((), [])
        texts = [row[0] for row in rows if row is not None]
        if len(set(texts)) < len(labels) or not 2 <= len(texts) <= MOST_GROUPS:
            raise ValueError(
                f"groups[{name!r}] must list 2 to {MOST_GROUPS} different groups; got {list(labels)!r:.80}."
            )
        out[str(name)] = tuple(texts)
    return out
