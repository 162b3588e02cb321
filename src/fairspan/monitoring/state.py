"""The state of a monitor as a JSON file: format, version and digest are checked, then every field."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fairspan import __version__
from fairspan._system import first_line, inert
from fairspan.monitoring.fields import Fields, text, whole

if TYPE_CHECKING:
    from fairspan.monitoring.monitor import FairnessMonitor

    Monitor = TypeVar("Monitor", bound=FairnessMonitor)

FORMAT, VERSION = "fairspan monitor", 1
# A larger file is none of ours: 100,000 people wait in about 6 MB.
_MOST_BYTES = 256 * 2**20


def write_state(monitor: FairnessMonitor) -> dict[str, Any]:
    """Everything that is needed to go on."""
    state = {
        "settings": monitor.settings,
        "attributes": list(monitor._attributes),
        "fed": None if monitor._fed is None else [int(value) for value in monitor._fed],
        "people": monitor.n_people_,
        "batches": monitor.n_batches_,
        "dropped": monitor.n_dropped_,
        "waiting": [[key, int(f), score] for key, (f, score) in monitor._waiting.items()],
        "finished": list(monitor._finished),
        "monitors": [each.to_state() for each in monitor._monitors],
        "window": monitor._window.to_state(),
        "history": list(monitor._history),
        "resets": monitor.resets_,
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "fairspan": __version__,
        "digest": _digest(state),
        "state": state,
    }


def read_state(cls: type[Monitor], path: str | os.PathLike[str]) -> Monitor:
    """Make a monitor of a file; refuse anything else with one line that names the file."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"{inert(str(file))} is no file; give one that a monitor has saved."
        )
    try:
        return _read(cls, file)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{inert(str(file))} is no state of a monitor, or is damaged: {first_line(error).rstrip('.')}."
        ) from error


def _read(cls: type[Monitor], file: Path) -> Monitor:
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES // 2**20} MiB")
    try:
        content = json.loads(
            file.read_bytes(), parse_constant=_refuse_constant, object_pairs_hook=_once
        )
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("it is no JSON") from None
    top = Fields(content)
    if top.text("format") != FORMAT:
        raise ValueError(f"its format is {inert(repr(top.text('format')))}, not {FORMAT!r}")
    if top.whole("version") != VERSION:
        raise ValueError(
            f"its version is {top.whole('version')}, and this fairspan reads version {VERSION}"
        )
    state = top.inner("state")
    if top.text("digest") != _digest(state.value):
        raise ValueError("its digest is not that of its content")
    monitor = _new(cls, state.inner("settings"))
    _restore(monitor, state)
    return monitor


def _new(cls: type[Monitor], fields: Fields) -> Monitor:
    given = dict(fields.value)
    expected = set(cls().settings)
    if set(given) != expected:
        raise ValueError("'settings' does not have the settings of a monitor")
    if not all(isinstance(limit, str) for limit in fields.entries("limits", 100)):
        raise ValueError("'limits' holds something that is no text")
    given["score_range"] = tuple(fields.numbers("score_range", 2, low=-1e300, high=1e300))
    given["alpha"] = fields.number("alpha", 0.0, 1.0)
    if isinstance(given["pos_label"], int | float) and not isinstance(given["pos_label"], bool):
        fields.number("pos_label", -1e300, 1e300)
    return cls(**given)


def _restore(monitor: FairnessMonitor, state: Fields) -> None:
    attributes: tuple[str, ...] = tuple(state.texts("attributes", 100))
    if monitor.groups is not None and attributes != tuple(monitor.groups):
        raise ValueError("'attributes' are not those of the settings")
    monitor._attributes = attributes
    monitor._start()
    if state.get("fed") is not None:
        scores, decisions = state.numbers("fed", 2, low=0, high=1)
        monitor._check_columns(bool(scores), bool(decisions))
        monitor._fed = bool(scores), bool(decisions)
    monitor.n_people_ = state.whole("people")
    monitor.n_batches_ = state.whole("batches")
    monitor.n_dropped_ = state.whole("dropped")
    for entry in state.entries("waiting", monitor.max_waiting):
        if not isinstance(entry, list) or len(entry) != 3:
            raise ValueError("'waiting' has an entry that is no person")
        key = text(entry[0], "waiting")
        if key in monitor._waiting:
            raise ValueError("'waiting' has a person twice")
        score = Fields({"waiting": entry[2]}).number("waiting", 0.0, 1.0)
        monitor._waiting[key] = bool(whole(entry[1], "waiting", 0, 1)), score
    monitor._finished.extend(state.texts("finished", monitor._finished.maxlen or 0))
    entries = state.objects("monitors", len(attributes))
    if [entry.text("name") for entry in entries] != list(attributes):
        raise ValueError("'monitors' has not one entry for each attribute")
    for each, entry in zip(monitor._monitors, entries, strict=True):
        each.from_state(entry)
        if each.n_people != monitor.n_people_:
            raise ValueError("'people' is not the number of people in the groups")
    monitor._window.from_state(state.entries("window", monitor.window))
    monitor._history = deque(_history(monitor, state), maxlen=monitor._history.maxlen)
    monitor.resets_ = [_reset(entry) for entry in state.objects("resets")]


def _history(monitor: FairnessMonitor, state: Fields) -> list[dict[str, Any]]:
    out = []
    names = {each.name for each in monitor._monitors}
    for entry in state.objects("history", monitor._history.maxlen or 0):
        ends = entry.inner("ends")
        if set(ends.value) - names:
            raise ValueError("'ends' has an attribute that the monitor does not have")
        by_name = {}
        for name in ends.value:
            rows = ends.entries(name)
            by_name[name] = [
                _ends(Fields({"ends": row}).numbers("ends", 6, low=-100, high=100, gaps=True))
                for row in rows
            ]
        out.append({"people": entry.whole("people"), "ends": by_name})
    return out


def _ends(row: list[Any]) -> list[Any]:
    return [*(whole(int(place or 0), "ends", -1) for place in row[:3]), *row[3:]]


def _reset(entry: Fields) -> dict[str, Any]:
    if any(not isinstance(alarm, dict) for alarm in entry.entries("alarms")):
        raise ValueError("'alarms' has an entry that is no alarm")
    return {
        "reason": text(entry.get("reason"), "reason"),
        "people": entry.whole("people"),
        "batches": entry.whole("batches"),
        "alarms": entry.entries("alarms"),
    }


def _digest(state: Any) -> str:
    content = json.dumps(state, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds the number {name}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("it has a field twice")
    return out
