"""Decision trees of scikit-learn as operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairspan.deployment.program import Program, Value
from fairspan.estimators.leaves import BoostedLeaves
from fairspan.method.linalg import Array

__all__ = ["Forest", "leaf_scores"]


@dataclass
class Forest:
    """Trees whose leaves add numbers to the columns of one matrix.

    A node has a feature, a threshold (rows at most as large go left) or the number of a set of codes (rows in
    it go left), and two successors. A leaf is its own successor, and its threshold is what it adds.
    """

    nodes: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    sets: list[np.ndarray] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    depth: int = 0

    def add_boosting(self, model: Any, n_codes: int) -> list[int]:
        """Add histogram gradient boosting; return the columns of its raw scores.

        ``n_codes`` is the number of codes that a column of categories can have.
        """
        baseline = np.ravel(model._baseline_prediction).astype(np.float64)
        first = len(self.start)
        self.start += baseline.tolist()
        codes = _Codes(model, n_codes)
        for trees in model._predictors:
            for k, tree in enumerate(trees):
                self._add_histogram_tree(tree, codes, first + k)
        return list(range(first, first + len(baseline)))

    def _add_histogram_tree(self, tree: Any, codes: _Codes, target: int) -> None:
        first = len(self.nodes)
        self.roots.append(first)
        self.targets.append(target)
        self.depth = max(self.depth, int(tree.nodes["depth"].max(initial=0)))
        for i, node in enumerate(tree.nodes):
            if node["is_leaf"]:
                self.add_leaf(float(node["value"]), first + i)
                continue
            number = -1
            if node["is_categorical"]:
                number = len(self.sets)
                self.sets.append(codes.to_left(tree, node))
            self.nodes.append(
                (
                    float(codes.column(int(node["feature_idx"]))),
                    float(node["num_threshold"]) if number < 0 else 0.0,
                    first + float(node["left"]),
                    first + float(node["right"]),
                    float(number),
                )
            )

    def add_leaf(self, value: float, number: int) -> None:
        """Add a leaf as the node of this number."""
        self.nodes.append((0.0, value, float(number), float(number), -1.0))

    def write(self, program: Program, X: Value) -> Value:
        """Sums of the leaves of every row, with a column for each target."""
        size = max((len(flags) for flags in self.sets), default=1)
        sets = np.zeros((max(len(self.sets), 1), size), dtype=np.bool_)
        for flags, row in zip(self.sets, sets, strict=False):
            row[: len(flags)] = flags
        return program.add(
            "trees",
            len(self.start),
            X.name,
            program.constant(self.roots, np.int64),
            program.constant(self.targets, np.int64),
            program.constant(np.array(self.nodes).reshape(-1, 5)),
            program.constant(sets, np.bool_),
            self.depth,
            program.constant(self.start),
        )


class _Codes:
    """How a boosted model reads its columns: their order inside, and codes of categories."""

    def __init__(self, model: Any, n_codes: int) -> None:
        self._n_codes, width = n_codes, int(model.n_features_in_)
        before = getattr(model, "_preprocessor", None)
        if before is not None:
            # Inside, categorical columns come first.
            given = np.zeros(width, dtype=bool)
            given[{name: columns for name, _, columns in before.transformers_}["encoder"]] = True
            self._order = np.concatenate([np.flatnonzero(given), np.flatnonzero(~given)])
            self._categories = [
                np.asarray(known, dtype=np.float64)
                for known in before.named_transformers_["encoder"].categories_
            ]
            self._known, self._places = model._bin_mapper.make_known_categories_bitsets()
        else:
            self._order, self._categories = np.arange(width), []

    def column(self, inside: int) -> int:
        """Column of X that a feature of the trees reads."""
        return int(self._order[inside])

    def to_left(self, tree: Any, node: Any) -> np.ndarray:
        """Whether each code goes left."""
        feature = int(node["feature_idx"])
        # Codes that the trees have not seen go where missing values go.
        out = np.full(self._n_codes, bool(node["missing_go_to_left"]))
        left = tree.raw_left_cat_bitsets[int(node["bitset_idx"])]
        known = self._known[int(self._places[feature])]
        for place, code in enumerate(self._categories[feature]):
            if _in_bitset(left, place):
                out[int(code)] = True
            elif _in_bitset(known, place):
                out[int(code)] = False
        return out


def _in_bitset(bits: Any, value: int) -> bool:
    return bool((int(bits[value // 32]) >> (value % 32)) & 1)


def leaf_scores(program: Program, X: Value, leaves: BoostedLeaves, directions: Array) -> Value:
    """Functions of the indicators of leaves, for rows that were not in the fit."""
    forest = Forest(start=[0.0] * directions.shape[1])
    for models, places in zip(leaves.models_, leaves._places, strict=True):
        trees = [tree.tree_ for model in models for tree in model.estimators_.ravel()]
        weight = 1.0 / len(leaves.models_) / np.sqrt(len(trees))
        for tree, column_of in zip(trees, places, strict=True):
            for target in range(directions.shape[1]):
                _add_tree(forest, tree, weight * directions[:, target], column_of, target)
    return forest.write(program, X)


def _add_tree(forest: Forest, tree: Any, values: Array, column_of: Any, target: int) -> None:
    first = len(forest.nodes)
    forest.roots.append(first)
    forest.targets.append(target)
    forest.depth = max(forest.depth, int(tree.max_depth))
    for i in range(tree.node_count):
        if tree.children_left[i] < 0:
            forest.add_leaf(float(values[column_of[i]]), first + i)
        else:
            successors = first + float(tree.children_left[i]), first + float(tree.children_right[i])
            threshold = exact_threshold(float(tree.threshold[i]))
            forest.nodes.append((float(tree.feature[i]), threshold, *successors, -1.0))


def exact_threshold(threshold: float) -> float:
    """Largest number that is at most the threshold after rounding to float32, as these trees do it."""
    below = np.float32(threshold)
    if float(below) > threshold:
        below = np.nextafter(below, np.float32(-np.inf))
    above = np.nextafter(below, np.float32(np.inf))
    middle = (float(below) + float(above)) / 2.0
    if float(np.float32(middle)) > float(below):  # the middle is rounded to the even one
        middle = float(np.nextafter(middle, -np.inf))
    return middle
