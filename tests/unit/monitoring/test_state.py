"""The file of a monitor: it goes on as before, and a file of another kind is refused in one line."""

import copy
import hashlib
import json
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from tests.unit.monitoring.test_monitor import LIMITS, people, some

from fairspan import FairnessMonitor

SETTINGS = {"limits": [*LIMITS, "change=0.1"], "reference_rows": 300, "window": 50}


def fed(n=600):
    monitor = FairnessMonitor(**SETTINGS)
    rows = people(n)
    ids = np.arange(n)
    s = rows["sensitive_features"]["sex"].astype(object)
    s[-5:] = None
    monitor.update(**{**rows, "sensitive_features": {"sex": s}}, ids=ids)
    return monitor


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return json.loads(fed().save(tmp_path_factory.mktemp("state") / "state.json").read_text())


def test_a_resumed_monitor_is_the_same_bit_for_bit(tmp_path):
    rows = people(2000, 0.25, groups=("F", "M", "X"))
    whole, parts = FairnessMonitor(**SETTINGS), FairnessMonitor(**SETTINGS)
    for start in range(0, 2000, 250):
        batch = some(rows, start, start + 250)
        whole.update(**batch)
        parts.update(**batch)
        parts = FairnessMonitor.load(parts.save(tmp_path / "parts.json"))
    assert parts.alarms_
    assert parts.comparisons_ == whole.comparisons_
    whole.save(tmp_path / "whole.json")
    assert (tmp_path / "whole.json").read_bytes() == (tmp_path / "parts.json").read_bytes()


def test_people_who_wait_and_resets_are_in_the_file(tmp_path):
    monitor = fed()
    monitor.reset("a test")
    loaded = FairnessMonitor.load(monitor.save(tmp_path / "state.json"))
    assert loaded.n_waiting_ == 5
    assert loaded.resets_ == monitor.resets_
    loaded.update_sensitive([597, 598], {"sex": ["F", "M"]})
    assert loaded.n_people_ == 2
    with pytest.raises(ValueError, match="an earlier batch had"):
        loaded.update(**people(1), ids=[3])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    fed(100).save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        fed(200).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


# ------------------------------------------------------------------ files that are refused


def write(path, state, *, digest=True):
    if digest and isinstance(state, dict) and "state" in state:
        content = json.dumps(state["state"], sort_keys=True, ensure_ascii=True)
        state["digest"] = hashlib.sha256(content.encode()).hexdigest()
    path.write_text(json.dumps(state))
    return path


def leaves(value, place=()):
    """Places of all numbers, texts, lists and objects; of long lists, the first few entries."""
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*place, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value[:2]):
            yield from leaves(inner, (*place, i))


def replaced(state, place, value):
    out = copy.deepcopy(state)
    inner = out
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return out


NONSENSE = [None, True, "x", -1, 1e308, 10**400, [], {}, [[]], {"a": 1}]
# Fields in which any text or number has a meaning, and what a plot shows.
FREE = {"fairspan", "digest", "history", "resets", "reason", "alarms", "finished"}


def test_nonsense_in_any_place_is_refused_or_harmless(state, tmp_path):
    """Whatever is loaded works; whatever is refused is refused in one line that names the file."""
    rng = np.random.default_rng(0)
    places = [place for place in leaves(state) if place]
    refused, messages = 0, set()
    for place in places:
        value = NONSENSE[rng.integers(len(NONSENSE))]
        path = write(tmp_path / "state.json", replaced(state, place, value))
        try:
            monitor = FairnessMonitor.load(path)
        except ValueError as error:
            refused += 1
            messages.add(str(error))
        else:
            # Other settings may refuse these people, in words.
            with suppress(ValueError) if "settings" in place else nullcontext():
                monitor.update(**people(20))
            repr(monitor)
            json.dumps(monitor.to_dict(), allow_nan=False)
    begin = f"{tmp_path / 'state.json'} is no state of a monitor, or is damaged: "
    assert all(text.startswith(begin) and text.isprintable() for text in messages)
    assert max(map(len, messages)) < 700
    assert refused > 0.6 * len(places)


def test_every_missing_field_is_refused(state, tmp_path):
    for place in leaves(state):
        if not place or not isinstance(place[-1], str) or FREE & set(place):
            continue
        out = copy.deepcopy(state)
        inner = out
        for key in place[:-1]:
            inner = inner[key]
        del inner[place[-1]]
        with pytest.raises(ValueError, match="is no state of a monitor"):
            FairnessMonitor.load(write(tmp_path / "state.json", out))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is no JSON"),
        (b"\x80\x04K\x01.", "it is no JSON"),
        (b"[" * 100_000, "recursion|nested|no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "no field 'format'"),
        (b'{"format": "other"}', "format is 'other'"),
        (b'{"format": "fairspan monitor", "version": 2}', "version is 2"),
        (b'{"a": NaN}', "holds the number NaN"),
        (b'{"a": 1, "a": 2}', "a field twice"),
        (b'{"format": "\\u001b[31m"}', "format is"),
    ],
)
def test_other_files_are_refused_in_one_line(content, why, tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why) as caught:
        FairnessMonitor.load(path)
    assert str(caught.value).isprintable()


def test_a_cut_or_changed_file_is_refused(state, tmp_path):
    path = write(tmp_path / "state.json", state)
    content = path.read_bytes()
    FairnessMonitor.load(path)
    for share in (0.1, 0.5, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match="no JSON"):
            FairnessMonitor.load(path)
    changed = replaced(state, ("state", "people"), 601)
    with pytest.raises(ValueError, match="digest"):
        FairnessMonitor.load(write(path, changed, digest=False))
    with pytest.raises(ValueError, match="number of people"):
        FairnessMonitor.load(write(path, changed))
    with pytest.raises(FileNotFoundError, match="is no file"):
        FairnessMonitor.load(tmp_path / "absent.json")
