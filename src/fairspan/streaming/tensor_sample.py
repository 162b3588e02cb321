"""Rows that stand for a large tensor where something is frozen: category lists, edges, landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairspan.inputs.rows import read_seed
from fairspan.method.data import Attribute, Data
from fairspan.method.linalg import home_of, is_tensor, mix, to_home, to_numpy
from fairspan.streaming.sample import LEVEL_ROWS, MAX_LEVELS, SAMPLE_ROWS

__all__ = ["RESIDENT_PILOT", "pilot_rows"]

# Up to so many rows everything is frozen on all of them, as for arrays.
RESIDENT_PILOT = 100_000
_SAMPLE_ROWS = SAMPLE_ROWS


def pilot_rows(est: Any, data: Data) -> tuple[Data, str]:
    """Rows to prepare on, and the rule that deals folds.

    Of a large tensor a sample by a hash of the rows' places, with rare levels of y, of S and of control
    features filled up: on the device, and the same for the same rows wherever they are.
    """
    everything = est.n_components == "all" or est.kernel == "precomputed"
    if not is_tensor(data.X) or data.n <= RESIDENT_PILOT or everything:
        return data, "strata"
    import torch

    places = data.index
    if places is None:
        places = torch.arange(data.n, device=home_of(data.X))
    hashes = mix(places, int(read_seed(est.random_state).randint(2**31 - 1)))
    wanted = _SAMPLE_ROWS if isinstance(est.n_components, str) else int(est.n_components)
    size = min(data.n, max(_SAMPLE_ROWS, wanted))
    rows = hashes.topk(size, largest=False).indices
    for codes in _level_codes(est, data, rows):
        rows = _filled_up(rows, codes, hashes)
    sample = data.take(torch.unique(rows))
    return sample, "position"


def _level_codes(est: Any, data: Data, rows: Any) -> list[Any]:
    """Levels of everything that has few of them; combinations where those are what counts."""
    sensitive = [_codes(one, rows, home_of(data.X)) for one in data.sensitive.values()]
    control = [_codes(one, rows, home_of(data.X)) for one in data.control.values()]
    found = [*sensitive, _crossed(control)]
    if est.intersectional:
        found.append(_crossed(sensitive))
    if data.y is not None:
        found.append(_codes(data.y, rows, home_of(data.X)))
    return [codes for codes in found if codes is not None]


def _codes(attribute: Attribute, rows: Any, home: Any) -> Any:
    """Number of each row's level, -1 where missing; None for more levels than are looked for."""
    import torch

    few = attribute.take(rows)
    if len(np.unique(to_numpy(few.values))) > MAX_LEVELS:
        return None
    if is_tensor(attribute.values):
        levels, codes = torch.unique(attribute.values, return_inverse=True)
    else:
        levels, codes = np.unique(attribute.values, return_inverse=True)
    if len(levels) > MAX_LEVELS:
        return None
    return to_home(codes, home).masked_fill(to_home(attribute.missing, home), -1)


def _crossed(parts: list[Any]) -> Any:
    """Combinations of levels as levels; None where they are not looked for."""
    import torch

    known = [part for part in parts if part is not None]
    if not known:
        return None
    key, complete = torch.zeros_like(known[0]), torch.ones_like(known[0], dtype=torch.bool)
    for part in known[:8]:  # 64^8 combinations still have numbers of their own
        key = key * MAX_LEVELS + part.clamp(min=0)
        complete &= part >= 0
    levels, codes = torch.unique(key, return_inverse=True)
    return None if len(levels) > MAX_LEVELS**2 else codes.masked_fill_(~complete, -1)


def _filled_up(rows: Any, codes: Any, hashes: Any) -> Any:
    """The rows, and those of smallest hash of every level that has too few among them."""
    import torch

    shift = codes + 1
    size = int(shift.max()) + 1
    total, have = torch.bincount(shift, minlength=size), torch.bincount(shift[rows], minlength=size)
    short = (have < total.clamp(max=LEVEL_ROWS)).nonzero()[:, 0].tolist()
    for level in short:
        if level == 0:  # missing
            continue
        members = (shift == level).nonzero()[:, 0]
        first = hashes[members].topk(min(LEVEL_ROWS, len(members)), largest=False).indices
        rows = torch.cat([rows, members[first]])
    return rows
