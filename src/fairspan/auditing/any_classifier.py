"""A limit for every classifier of the cells of a score: ``Audit.any_classifier``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import floor
from numbers import Integral
from typing import Any, Literal

import numpy as np

from fairspan._system import json_safe
from fairspan.auditing.cell_bounds import Cells, linearised_variance, upper_limit
from fairspan.auditing.findings import listed
from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.small_groups import exact_interval
from fairspan.inputs.checks import refuse
from fairspan.inputs.config import read_seed
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import group_sums, renumbered, unit_of
from fairspan.metrics.inputs import Mask

CellCriterion = Literal["statistical_parity", "equal_opportunity", "equalized_odds"]
CRITERIA = "statistical_parity", "equal_opportunity", "equalized_odds"
# What a gap compares, by criterion.
_RATES = {
    "statistical_parity": "selection rates",
    "equal_opportunity": "true positive rates",
    "equalized_odds": "true or false positive rates",
}
# Largest share of the rows that sets the edges, rows for each cell, and the least number of them.
_EDGE_SHARE, _EDGE_ROWS, _LEAST_EDGE_ROWS = 0.2, 100, 5


@dataclass(frozen=True, kw_only=True)
class CellShare:
    """Share of one cell in one group.

    Attributes
    ----------
    attribute, group : names.
    where : class of y, "" for all rows.
    cell : number of the cell, from 1, the lowest scores, to k.
    value, low, high : share, and its interval; all intervals of an attribute hold together.
    n_rows : rows of the group, over all cells.
    """

    attribute: str
    group: str
    where: str
    cell: int
    value: float
    low: float
    high: float
    n_rows: int


@dataclass(frozen=True, kw_only=True)
class CellGap:
    """Limits for one attribute.

    Attributes
    ----------
    attribute : its name.
    value : largest gap of any classifier of the cells in these rows. It is too large on average, because
        it is the largest of many.
    bound : upper confidence limit of the largest gap in the population; 1 if no two groups are compared.
    threshold_value, threshold_bound : the same for classifiers that select all cells above an edge, or
        all below it.
    groups : groups that are compared.
    n_rows : number of their rows.
    note : groups left out, or why the limits are approximate.
    """

    attribute: str
    value: float
    bound: float
    threshold_value: float
    threshold_bound: float
    groups: tuple[str, ...]
    n_rows: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class AnyClassifier:
    """Limits for the gaps of every classifier that reads only the cell of a score.

    Made by :meth:`Audit.any_classifier`. A classifier may select any set of cells, and may use chance.
    One that reads more than the cell is not covered.

    Attributes
    ----------
    k : int
        Number of cells; less than asked for where the score has ties.
    edges : tuple of float
        Upper ends of the cells 1 to k - 1; a cell contains its upper end. They are in the units of
        ``output``.
    output : str
        The output that is cut into cells, such as "decision_function of FairRidgeClassifier for class 1".
        It is never negated: a favourable class that is the first one has low decision values.
    criterion : str
        Which rates are compared: "statistical_parity", "equal_opportunity" or "equalized_odds".
    level : float
        Confidence of the bounds of all attributes together. The bounds for thresholds hold together too,
        apart from the others.
    n_rows : int
        Rows that count.
    n_edge_rows : int
        Other rows of the audit, drawn at random, that set the edges; 0 if edges were given.
    gaps : tuple of CellGap
        Limits, one for each attribute.
    shares : tuple of CellShare
        Share of every cell in every group that is compared.
    note : str
        What a reader must know about the rows; empty if nothing.
    """

    k: int
    edges: tuple[float, ...]
    output: str
    criterion: str
    level: float
    n_rows: int
    n_edge_rows: int
    gaps: tuple[CellGap, ...]
    shares: tuple[CellShare, ...]
    note: str = ""

    def bound(self, attribute: str | None = None, *, thresholds: bool = False) -> float:
        """Upper limit of the gap for one attribute; the largest of all attributes if None.

        Parameters
        ----------
        attribute : str, optional
            Name of the attribute.
        thresholds : bool, default=False
            The limit for classifiers that select all cells above an edge, or all below it.
        """
        found = [gap for gap in self.gaps if attribute in (None, gap.attribute)]
        if not found:
            known = ", ".join(gap.attribute for gap in self.gaps)
            raise ValueError(f"there is no attribute {attribute!r}. Known: {known}")
        return max(gap.threshold_bound if thresholds else gap.bound for gap in found)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; None for NaN."""
        plain: dict[str, Any] = json_safe(asdict(self))
        return plain

    def to_frame(self) -> Any:
        """One row per attribute: a pandas DataFrame, or a list of dicts if pandas is not installed."""
        return _frame(self.gaps)

    def shares_frame(self) -> Any:
        """One row per cell and group, as :meth:`to_frame`."""
        return _frame(self.shares)

    def __str__(self) -> str:
        sure = f"With {self.level:.0%} confidence"
        lines = [
            f"{sure}, no classifier that reads only which of {self.k} cells a score is in has a larger gap "
            f"in {_RATES[self.criterion]} than:"
        ]
        for gap in self.gaps:
            note = f" ({gap.note})" if gap.note else ""
            if len(gap.groups) < 2:
                lines.append(f"  {gap.attribute}: no limit{note}")
                continue
            lines.append(
                f"  {gap.attribute}: {gap.bound:.3f}, or {gap.threshold_bound:.3f} with a threshold at an "
                f"edge{note}"
            )
        edges = "Edges were given."
        if self.n_edge_rows:
            edges = f"{self.n_edge_rows:,} other rows set the edges."
        lines.append(
            f"Cells are cut from {self.output}. A threshold selects score > edge: a cell contains its "
            f"upper end."
        )
        lines.append(f"{self.n_rows:,} rows count. {edges}")
        return "\n".join([*lines, *([self.note] if self.note else [])])


def _frame(records: Sequence[Any]) -> Any:
    rows = [asdict(record) for record in records]
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows)


def bound_any_classifier(
    data: Audited,
    k: int | None,
    *,
    edges: Any = None,
    criterion: CellCriterion = "statistical_parity",
    level: float = 0.95,
    min_rows: int = 30,
    random_state: Any = 0,
) -> AnyClassifier:
    """Limits for every classifier of the cells of the score of an audit, as :meth:`Audit.any_classifier`."""
    if criterion not in CRITERIA:
        refuse(
            "criterion", criterion, "'statistical_parity', 'equal_opportunity' or 'equalized_odds'"
        )
    score, conditions = _score(data), _conditions(data, criterion)
    given = edges is not None
    counted = np.ones(data.n, dtype=bool)
    cuts = np.zeros(0)
    if given:
        cuts = _given_edges(edges, k)
        _check_range(cuts, score, data.score_text)
    else:
        n_cells = _number_of_cells(k)
        counted = ~_edge_rows(data, n_cells, random_state)
        cuts = _quantiles(score[~counted], n_cells)
    cell = np.searchsorted(cuts, score, side="left")
    tail = (1.0 - level) / len(data.groupings)
    gaps, shares = [], []
    lacking = dict(conditions)  # classes within which no attribute has two groups
    for attribute in data.groupings:
        gap, by_cell, few = _limits(
            data, attribute, cell, len(cuts) + 1, conditions, counted, min_rows, tail
        )
        gaps.append(gap)
        shares += by_cell
        lacking = {where: rows for where, rows in lacking.items() if where in few}
    if not any(len(gap.groups) > 1 for gap in gaps):
        of = f"{min_rows} effective {data.unit}"
        # Each attribute may lack another class.
        among = "in every class of y"
        if lacking:
            where, rows = next(iter(lacking.items()))
            among = f"among the {int((rows & counted).sum())} rows{_of_class(where)} that count"
        raise ValueError(
            f"There are too few rows: no attribute has two groups of {of} {among}. Audit more rows, or "
            f"lower min_rows={min_rows}."
        )
    return AnyClassifier(
        k=len(cuts) + 1,
        edges=tuple(cuts.tolist()),
        output=data.score_text,
        criterion=criterion,
        level=level,
        n_rows=int(counted.sum()),
        n_edge_rows=int((~counted).sum()),
        gaps=tuple(gaps),
        shares=tuple(shares),
        note=_rows_note(data),
    )


def _rows_note(data: Audited) -> str:
    notes = []
    if data.fitted_share is not None:
        notes.append(
            f"About {data.fitted_share:.0%} of the audited rows were used for fitting; the limits do not "
            f"hold for new people."
        )
    if data.probable:
        names = listed([attribute.name for attribute in data.probable])
        notes.append(f"No limit for {names}: the groups are known as probabilities.")
    return " ".join(notes)


def _score(data: Audited) -> Array:
    """The single score as the model gives it; raise if there is none, or if the groups are not known."""
    if not data.attributes:
        raise ValueError(
            "Limits for any classifier need the group of each row, and the audit was given probabilities."
        )
    if data.scores is None:
        raise ValueError(
            "Limits for any classifier need scores or decisions, and the audited model has none."
        )
    if data.scores.shape[1] != 1:
        raise ValueError(
            f"Limits for any classifier need one score per row, and the audit has {data.scores.shape[1]}. "
            f"Audit one column of scores (in Python, audit(scores[:, 0], ...))."
        )
    score = np.asarray(data.scores[:, 0])
    # Edges are in the units of the model, also where an audit turns the score to the favourable class.
    return -score if data.negated else score


def _conditions(data: Audited, criterion: str) -> list[tuple[str, Mask]]:
    """Name and rows of the classes of y within which groups are compared; raise if one has no row."""
    if criterion == "statistical_parity":
        return [("", np.ones(data.n, dtype=bool))]
    if data.target is None:
        raise ValueError(f"criterion={criterion!r} needs y; the audit was made without.")
    if data.classes is None:
        raise ValueError(f"criterion={criterion!r} needs classes, and y is a number.")
    classes: Sequence[int] = range(len(data.classes))
    if criterion == "equal_opportunity":
        if len(data.positive) != 1:
            raise ValueError(
                f"criterion={criterion!r} needs one favourable class of {len(data.classes)}; name it: "
                f"audit(..., pos_label=)."
            )
        classes = data.positive
    elif len(data.classes) < 2:
        raise ValueError(
            f"criterion={criterion!r} compares rows of each class of y, and all audited rows have y = "
            f"{data.classes[0]}. Audit rows of all classes, or use criterion='statistical_parity'."
        )
    rows = [(str(data.classes[code]), data.target.codes == code) for code in classes]
    for name, mask in rows:
        if not mask.any():
            raise ValueError(
                f"criterion={criterion!r} compares rows of y = {name}, and no audited row has it. Audit "
                f"rows of that class, or use criterion='statistical_parity'."
            )
    return rows


def _of_class(where: str) -> str:
    """Words for rows of a class, "" for all rows."""
    return f" of y = {where}" if where else ""


def _number_of_cells(k: Any) -> int:
    if type(k) is bool or not isinstance(k, Integral) or k < 2:
        refuse("k", k, "a whole number from 2 up, or edges")
    return int(k)


def _given_edges(edges: Any, k: int | None) -> Array:
    """The edges as numbers; raise unless they are finite and increase."""
    try:
        cuts = np.asarray(edges, dtype=np.float64)
    except (TypeError, ValueError):
        cuts = np.zeros((0, 0))
    if cuts.ndim != 1 or not len(cuts) or not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        refuse("edges", edges, "one or more finite numbers in increasing order")
    if k is not None and k != len(cuts) + 1:
        raise ValueError(f"k={k!r} and {len(cuts)} edges do not agree; leave k out.")
    return cuts


def _check_range(cuts: Array, score: Array, output: str) -> None:
    """Raise if an edge leaves no row on one of its sides."""
    low, high = float(score.min()), float(score.max())
    outside = cuts[(cuts < low) | (cuts >= high)].tolist()
    if outside:
        raise ValueError(
            f"edges={cuts.tolist()} is not allowed: {', '.join(f'{edge:g}' for edge in outside)} is outside "
            f"the range of {output}, {low:g} to {high:g} in the audited rows. A threshold selects "
            f"score > edge, so give edges from {low:g} to less than {high:g}."
        )


def _edge_rows(data: Audited, k: int, random_state: Any) -> Mask:
    """Rows, or clusters, drawn at random to set the edges."""
    unit = np.arange(data.n) if data.clusters is None else data.clusters
    n = int(unit.max()) + 1
    n_drawn = min(floor(_EDGE_SHARE * n), _EDGE_ROWS * k)
    if n_drawn < _LEAST_EDGE_ROWS * k:
        raise ValueError(
            f"k={k} cells need at least {floor(_LEAST_EDGE_ROWS * k / _EDGE_SHARE):,} {data.unit}, and the "
            f"audit has {n:,}: a fifth of them sets the edges. Use fewer cells (in Python, or give edges)."
        )
    drawn = np.zeros(n, dtype=bool)
    drawn[read_seed(random_state).permutation(n)[:n_drawn]] = True
    return np.asarray(drawn[unit])


def _quantiles(score: Array, k: int) -> Array:
    """Edges of k cells with equal numbers of rows; a cell for each value if there are at most k."""
    values = np.unique(score)
    cuts = (
        values
        if len(values) <= k
        else np.unique(np.quantile(score, np.arange(1, k) / k, method="inverted_cdf"))
    )
    cuts = cuts[cuts < score.max()]
    if not len(cuts):
        raise ValueError(
            "Limits for any classifier need a score that varies, and all rows have the same."
        )
    return np.asarray(cuts, dtype=np.float64)


def _limits(
    data: Audited,
    attribute: Protected,
    cell: Codes,
    k: int,
    conditions: Sequence[tuple[str, Mask]],
    counted: Mask,
    min_rows: int,
    tail: float,
) -> tuple[CellGap, list[CellShare], list[str]]:
    """Limits and shares for one attribute, with the error ``tail``; classes without two groups."""
    parts: list[tuple[str, Cells, list[str], list[int]]] = []
    few, notes = [], []
    for where, rows in conditions:
        cells, names, n_rows, small = _cells(data, attribute, cell, k, rows & counted, min_rows)
        if small:
            notes.append(f"without {listed(small)}: too few {data.unit}{_of_class(where)}")
        if len(names) > 1:
            parts.append((where, cells, names, n_rows))
        else:
            few.append(where)
    if few:
        # A criterion with several classes is judged only if all of them are.
        of = listed([f"{min_rows} effective {data.unit}{_of_class(where)}" for where in few])
        notes.append(f"fewer than two groups of {of}")
        nan = float("nan")
        numbers: dict[str, Any] = dict.fromkeys(("value", "threshold_value"), nan)
        numbers |= dict.fromkeys(("bound", "threshold_bound"), 1.0)
        numbers |= {"groups": (), "n_rows": 0}
        return CellGap(attribute=attribute.name, **numbers, note="; ".join(notes)), [], few
    if np.ptp(data.weight) > 0.0 or data.clusters is not None:
        of = "weights" if data.clusters is None else unit_of(data.clusters)
        notes.append(f"approximate: with {of}, effective numbers of rows are used")
    distances = np.array([cells.distances() for _, cells, _, _ in parts]).max(axis=0)
    any_rule = upper_limit(piece for _, cells, _, _ in parts for piece in cells.of_any_rule(tail))
    thresholds = upper_limit(
        piece for _, cells, _, _ in parts for piece in cells.of_thresholds(tail)
    )
    compared = dict.fromkeys(name for _, _, names, _ in parts for name in names)
    gap = CellGap(
        attribute=attribute.name,
        value=float(distances[0]),
        bound=any_rule,
        threshold_value=float(distances[1]),
        threshold_bound=thresholds,
        groups=tuple(name for name in attribute.labels if name in compared),
        n_rows=sum(sum(n_rows) for _, _, _, n_rows in parts),
        note="; ".join(notes),
    )
    return gap, _shares(attribute.name, k, parts, tail), few


def _cells(
    data: Audited, attribute: Protected, cell: Codes, k: int, rows: Mask, min_rows: int
) -> tuple[Cells, list[str], list[int], list[str]]:
    """Shares of the cells in groups of enough rows, their names and rows, and the groups left out."""
    codes, n_levels = attribute.codes[rows], len(attribute.labels)
    weight, clusters = data.weight[rows], renumbered(data.clusters, rows) if rows.any() else None
    joint = group_sums({"group": codes}, {}, weight, clusters=clusters)
    effective = np.floor(joint.effective("group", n_levels) + 1e-9).astype(int)
    count = np.bincount(codes, minlength=n_levels)
    mass = np.bincount(codes * k + cell[rows], weight, minlength=n_levels * k).reshape(-1, k)
    large = np.flatnonzero(effective >= max(min_rows, 1))
    small = np.flatnonzero(
        (np.bincount(attribute.codes, minlength=n_levels) > 0) & (effective < min_rows)
    )
    shares = mass[large] / mass[large].sum(axis=1, keepdims=True)
    variances = None
    if len(large) and (np.ptp(data.weight) > 0.0 or clusters is not None):
        variances = np.stack(
            [
                linearised_variance(
                    cell[rows][codes == h], k, weight[codes == h], renumbered(clusters, codes == h)
                )
                for h in large
            ]
        )
    cells = Cells(shares=shares, n=tuple(effective[large].tolist()), variances=variances)
    names = [attribute.labels[h] for h in large]
    return cells, names, count[large].tolist(), [attribute.labels[h] for h in small]


def _shares(
    name: str, k: int, parts: Sequence[tuple[str, Cells, list[str], list[int]]], tail: float
) -> list[CellShare]:
    """Shares with exact intervals that hold together."""
    each = tail / (2.0 * k * sum(len(names) for _, _, names, _ in parts))
    out = []
    for where, cells, names, n_rows in parts:
        numbers = cells.numbers(np.eye(k))
        for h, group in enumerate(names):
            for c, share in enumerate(cells.shares[h].tolist()):
                low, high = exact_interval(share, int(numbers[h, c]), each)
                limits = {"value": share, "low": low, "high": high, "n_rows": n_rows[h]}
                out.append(
                    CellShare(attribute=name, group=group, where=where, cell=c + 1, **limits)
                )
    return out
