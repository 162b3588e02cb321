"""Compact storage of the positions of a slider, which have the same parts with other numbers.

A tree stands for the values at all positions: ``{"c": value}`` is the same at all of them, ``{"v": values}``
has one value for each, ``{"d": {key: tree}}`` is a dict and ``{"l": [tree, ...]}`` a list of one length. So
names of parts and numbers that stay are stored once. The page unpacks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["pack", "unpack"]


def pack(values: Sequence[Any]) -> dict[str, Any]:
    """One tree of several JSON values."""
    first, *others = values
    if isinstance(first, dict) and all(isinstance(v, dict) and [*v] == [*first] for v in others):
        parts = {key: pack([v[key] for v in values]) for key in first}
        if all("c" in part for part in parts.values()):
            return {"c": first}
        return {"d": parts}
    if isinstance(first, list) and all(
        isinstance(v, list) and len(v) == len(first) for v in others
    ):
        items = [pack(column) for column in zip(*values, strict=True)]
        return {"c": first} if all("c" in item for item in items) else {"l": items}
    # 1, 1.0 and True are equal, but not the same in JSON. Texts tell containers apart.
    same = all(type(v) is type(first) and repr(v) == repr(first) for v in others)
    return {"c": first} if same else {"v": list(values)}


def unpack(tree: dict[str, Any], n: int) -> list[Any]:
    """The n values that were packed."""
    ((kind, inside),) = tree.items()
    if kind == "c":
        return [inside] * n
    if kind == "v":
        return list(inside)
    if kind == "d":
        parts = {key: unpack(part, n) for key, part in inside.items()}
        return [{key: part[i] for key, part in parts.items()} for i in range(n)]
    items = [unpack(item, n) for item in inside]
    return [[item[i] for item in items] for i in range(n)]
