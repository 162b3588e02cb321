"""Counts of the last people, which add new rows and subtract old ones; they describe and test nothing."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from fairspan.monitoring.fields import Fields, whole

# Scores are summed as integers, so that subtracting gives back what was added, without rounding.
_SCORE_UNIT = 2**40


class Window:
    """Counts by group of the last rows.

    Parameters
    ----------
    size : number of rows.
    attributes : names of the protected attributes.
    """

    def __init__(self, size: int, attributes: tuple[str, ...]) -> None:
        self.size, self.attributes = size, attributes
        self.rows: deque[tuple[tuple[str, ...], bool, int]] = deque()
        self.counts: dict[str, dict[str, list[int]]] = {name: {} for name in attributes}

    def add(self, labels: tuple[str, ...], favourable: bool, score: float) -> None:
        """Add a row, whose score is in [0, 1], and subtract the oldest one if there are too many."""
        self._append((labels, favourable, round(score * _SCORE_UNIT)))
        if len(self.rows) > self.size:
            self._count(self.rows.popleft(), -1)

    def _append(self, row: tuple[tuple[str, ...], bool, int]) -> None:
        self.rows.append(row)
        self._count(row, 1)

    def _count(self, row: tuple[tuple[str, ...], bool, int], sign: int) -> None:
        labels, favourable, score = row
        for name, label in zip(self.attributes, labels, strict=True):
            by_group = self.counts[name]
            counts = by_group.setdefault(label, [0, 0, 0])
            for i, value in enumerate((1, int(favourable), score)):
                counts[i] += sign * value
            if not counts[0]:
                del by_group[label]

    def rates(self) -> dict[str, dict[str, dict[str, float]]]:
        """Attribute -> group -> people, share of favourable decisions, mean score in [0, 1]."""
        return {
            name: {
                label: {
                    "people": n,
                    "rate": favourable / n if n else math.nan,
                    "score": score / _SCORE_UNIT / n if n else math.nan,
                }
                for label, (n, favourable, score) in sorted(by_group.items())
            }
            for name, by_group in self.counts.items()
        }

    def to_state(self) -> list[list[Any]]:
        """Rows for the file."""
        return [[list(labels), int(favourable), score] for labels, favourable, score in self.rows]

    def from_state(self, rows: list[Any]) -> None:
        """Take the rows of a file."""
        for row in rows:
            if not isinstance(row, list) or len(row) != 3:
                raise ValueError("'window' has an entry that is not a row")
            labels = Fields({"window": row[0]}).entries("window", len(self.attributes))
            if len(labels) != len(self.attributes) or not all(isinstance(v, str) for v in labels):
                raise ValueError("'window' has a row without one group for each attribute")
            favourable = whole(row[1], "window", 0, 1)
            score = whole(row[2], "window", 0, _SCORE_UNIT)
            self._append((tuple(labels), bool(favourable), score))
