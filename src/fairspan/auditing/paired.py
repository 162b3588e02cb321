"""Error and gap of two models on the same rows, and intervals of their differences.

Both models are summed by group in the same bootstrap resamples, so that what they share cancels.

A gap G is the largest of several contrasts c_p: differences of two rates, or signed correlations. It has no
derivative where two contrasts tie, and at parity all do, so percentiles of resampled gaps miss the truth
there. Let e_p be the error of an estimated contrast, and p0 the contrast that is truly the largest: fixed,
but unknown. Then for every p

    c_p - e_p  <=  G = c_p0 - e_p0  <=  (largest c) - e_p0.

The lower limit is the best of these bounds, which hold at once for all p with Bonferroni's correction. The
upper limit needs the quantile of one error, the largest over all p that may be p0. Of the change of the gap
from model a to model b, each limit takes the lower bound of one model and the upper bound of the other, with
the quantile of the difference e_p(b) - e_q(a) in the same resamples. Contrasts that are clearly smaller than
the largest are left out of all this: those further from it than the noise of the distance, at the confidence
level for all contrasts at once. If one contrast is clearly the largest in each model, the result is the usual
interval of a paired difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from fairspan.auditing.cross_fit import Estimate, summary
from fairspan.auditing.findings import summarise, unseen_rate
from fairspan.auditing.reading import Audited, Protected
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import TARGET, GroupSums, count_batches, group_sums, standardize
from fairspan.metrics.inputs import Mask

CRITERIA = ("statistical_parity", "equalized_odds", "equal_opportunity")


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """What one model gives on the rows: decisions, or one score or number per row."""

    decided: Codes | None = None  # (n,) class numbers
    scores: Array | None = None  # (n,) larger for the favourable class


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Error, share selected and contrasts of one model; column 0 is the data, the others resamples."""

    error: Array  # (1 + B,)
    selected: Array | None  # (1 + B,) share of favourable decisions; None without decisions
    contrasts: dict[str, Array]  # attribute -> (p, 1 + B)
    beyond: dict[
        str, float
    ]  # attribute -> possible error of rates that are 0 or 1 in all resamples

    def gap(self, attribute: str | None = None) -> float:
        """The largest contrast, of one attribute or of all."""
        return float(self.parts(attribute)[:, 0].max())

    def parts(self, attribute: str | None) -> Array:
        """Contrasts of one attribute or of all."""
        if attribute is not None:
            return self.contrasts[attribute]
        return np.concatenate(list(self.contrasts.values()))

    def wider(self, attribute: str | None) -> float:
        """What rates of 0 or 1 add to the limits of the gap."""
        return self.beyond[attribute] if attribute is not None else max(self.beyond.values())


@dataclass(frozen=True, kw_only=True)
class PairedRows:
    """Rows on which models are compared.

    Attributes
    ----------
    data : the rows, with their target, groups and weights.
    criterion : one of ``CRITERIA``.
    compared : attribute -> mask of its groups that have enough rows.
    level : confidence level, for the exact limits of rates that are 0 or 1.
    """

    data: Audited
    criterion: str
    compared: dict[str, Mask]
    level: float = 0.95

    def measure(
        self, models: Sequence[ModelRows], n_boot: int = 0, rng: np.random.Generator | None = None
    ) -> list[Measured]:
        """Measure several models on the rows, and in the same resamples.

        Parameters
        ----------
        models : what each gives on the rows; decisions for all of them or for none.
        n_boot, rng : number of resamples, and their source.
        """
        data = self.data
        assert data.target is not None
        factors = {
            a.name: a.codes for a in data.attributes if a.values is None or self._decides(models)
        }
        if data.target.values is None:
            factors[TARGET] = data.target.codes
        columns: dict[str, Array] = {}
        for m, model in enumerate(models):
            columns |= self._columns(model, str(m))
        batches = [] if rng is None else count_batches(data.n, n_boot, rng, data.clusters)
        ranking: list[list[float]] = [[] for _ in models]
        ranked = data.target.values is None and not self._decides(models)
        if ranked:
            batches = self._watched(batches, models, ranking)
        sums = group_sums(factors, columns, data.weight, batches, data.clusters)
        out = []
        for m, model in enumerate(models):
            name = str(m)
            if ranked:
                error = 1.0 - np.array(ranking[m])
            else:
                error = _total(sums, f"e{name}") / _total(sums)
                error = np.sqrt(error) if data.target.values is not None else error
            contrasts, beyond = {}, {}
            for attribute in data.attributes:
                if attribute.name in self.compared:
                    parts, more = self._contrasts(attribute, sums, name, model.decided is not None)
                    contrasts[attribute.name], beyond[attribute.name] = parts, more
            chosen = None
            if model.decided is not None:
                chosen = _total(sums, f"d{name}") / _total(sums)
            out.append(Measured(error=error, selected=chosen, contrasts=contrasts, beyond=beyond))
        return out

    @staticmethod
    def _decides(models: Sequence[ModelRows]) -> bool:
        return models[0].decided is not None

    def _columns(self, model: ModelRows, name: str) -> dict[str, Array]:
        """Columns to sum for one model."""
        data, target = self.data, self.data.target
        assert target is not None
        if model.decided is not None:
            (k,) = data.positive
            chosen = (model.decided == k).astype(np.float64)
            return {f"d{name}": chosen, f"e{name}": (model.decided != target.codes).astype(float)}
        assert model.scores is not None
        f = standardize(model.scores[:, None], data.weight)[:, 0]
        out = {f"f{name}": f, f"ff{name}": f**2}
        if target.values is not None:
            out[f"e{name}"] = (model.scores - target.values) ** 2
        for j, attribute in enumerate(data.attributes):
            if attribute.values is not None:
                s = standardize(attribute.values[:, None], data.weight)[:, 0]
                out |= {f"s{j}": s, f"ss{j}": s**2, f"fs{name}_{j}": f * s}
        return out

    def _watched(
        self, batches: Any, models: Sequence[ModelRows], ranking: list[list[float]]
    ) -> Iterator[Array]:
        """Pass the resamples on; add the AUC of every model in the data and in each of them."""
        data = self.data
        assert data.target is not None
        positive = data.target.codes == data.positive[0]
        areas = []
        for model in models:
            assert model.scores is not None
            areas.append(Ranking(model.scores, positive))
        for area, found in zip(areas, ranking, strict=True):
            found += area.auc(data.weight[:, None]).tolist()
        for counts in batches:
            for area, found in zip(areas, ranking, strict=True):
                found += area.auc(counts * data.weight[:, None]).tolist()
            yield counts

    def cells(self, sums: GroupSums) -> Iterator[GroupSums]:
        """Sums of the rows within which groups are compared."""
        if self.criterion == "statistical_parity":
            yield sums
            return
        (k,) = self.data.positive
        yield sums.where(sums.factors[TARGET] == k)
        if self.criterion == "equalized_odds":
            yield sums.where(sums.factors[TARGET] != k)

    def _contrasts(
        self, attribute: Protected, sums: GroupSums, name: str, decides: bool
    ) -> tuple[Array, float]:
        """Contrasts (p, 1 + B) of one attribute, and what rates of 0 or 1 add."""
        groups = np.flatnonzero(self.compared[attribute.name])
        parts, beyond = [], 0.0
        for cell in self.cells(sums):
            if decides:
                rates = _rates(attribute, cell, f"d{name}")[groups]
                h, low = np.nonzero(~np.eye(len(groups), dtype=bool))
                parts.append(rates[h] - rates[low])
                n = cell.effective(attribute.name, len(attribute.labels))[groups]
                still = (rates[:, 0] <= 0.0) | (rates[:, 0] >= 1.0)
                tail = (1.0 - self.level) / max(len(groups), 1)
                beyond = max([beyond, *(unseen_rate(float(m), tail) for m in n[still] if m > 0)])
            else:
                signed = self._correlations(attribute, cell, name)
                parts += [signed, -signed]
        out = np.concatenate(parts)
        return out[np.isfinite(out[:, 0])], beyond

    def _correlations(self, attribute: Protected, cell: GroupSums, name: str) -> Array:
        """Signed correlations of the score with the attribute, or with each of its groups."""
        mass = _total(cell)
        mean = _total(cell, f"f{name}") / mass
        spread = np.maximum(_total(cell, f"ff{name}") / mass - mean**2, 0.0)
        if attribute.values is not None:
            j = self.data.attributes.index(attribute)
            centre = _total(cell, f"s{j}") / mass
            of_s = np.maximum(_total(cell, f"ss{j}") / mass - centre**2, 0.0)
            together = _total(cell, f"fs{name}_{j}") / mass - mean * centre
            return _over(together, np.sqrt(spread * of_s))[None]
        groups = self.compared[attribute.name]
        k = len(attribute.labels)
        share = cell.by(attribute.name, k)[groups] / mass
        together = cell.by(attribute.name, k, f"f{name}")[groups] / mass - mean * share
        return _over(together, np.sqrt(spread * share * (1.0 - share)))


def comparable_groups(data: Audited, criterion: str, min_rows: int) -> dict[str, Mask]:
    """Groups with enough effective rows (in every class of the criterion), by attribute.

    Attributes with fewer than two such groups are left out; numbers that are compared as numbers are kept.
    """
    out = {}
    for attribute in data.attributes:
        factors = {attribute.name: attribute.codes}
        if criterion != "statistical_parity" and data.target is not None:
            factors[TARGET] = data.target.codes
        sums = group_sums(factors, {}, data.weight, (), data.clusters)
        enough = np.ones(len(attribute.labels), dtype=bool)
        rows = PairedRows(data=data, criterion=criterion, compared={})
        for cell in rows.cells(sums):
            enough &= cell.effective(attribute.name, len(attribute.labels)) >= min_rows
        if enough.sum() >= 2:
            out[attribute.name] = enough
    return out


# ------------------------------------------------------------------ intervals


def gap_interval(model: Measured, attribute: str | None, level: float) -> Estimate:
    """Gap of one model with its interval, for one attribute or the largest of all."""
    parts = model.parts(attribute)
    found = summarise(parts[:, 0], parts[:, 1:], "largest", level, 1.0, model.wider(attribute))
    return Estimate(*found)


def largest_interval(parts: Array, level: float) -> Estimate:
    """The largest of several numbers with its interval; ``parts`` (p, 1 + B) are data and resamples."""
    none = np.zeros((1, parts.shape[1]))
    return change_of_largest(none, parts, level)


def gap_change(before: Measured, after: Measured, attribute: str | None, level: float) -> Estimate:
    """Gap of the second model minus that of the first, with the paired interval of the module."""
    a, b = before.parts(attribute), after.parts(attribute)
    found = change_of_largest(a, b, level)
    if np.array_equal(a, b):
        return found
    wider = before.wider(attribute) + after.wider(attribute)
    return Estimate(found.value, found.low - wider, found.high + wider)


def change_of_largest(a: Array, b: Array, level: float) -> Estimate:
    """Largest of b minus largest of a, both (contrasts, 1 + B), with the interval of the module."""
    value = float(b[:, 0].max() - a[:, 0].max())
    a, b = _near_largest(a, level), _near_largest(b, level)
    usable: Mask = np.asarray(np.isfinite(a).all(axis=0) & np.isfinite(b).all(axis=0))
    if not usable[1:].any():
        return Estimate(value)
    tail = (1.0 - level) / 2.0
    low = _bound(a[:, usable], b[:, usable], tail)
    high = -_bound(b[:, usable], a[:, usable], tail)
    return Estimate(value, min(low, value), max(high, value))


def _bound(a: Array, b: Array, tail: float) -> float:
    """Lower limit of the largest of b minus the largest of a, with the error ``tail``."""
    errors_a, errors_b = (x[:, 1:] - x[:, :1] for x in (a, b))
    out = np.inf
    for error in errors_a:  # of the contrast of a that may truly be the largest
        reach = np.quantile(errors_b - error, 1.0 - tail / len(b), axis=1)
        out = min(out, float((b[:, 0] - reach).max()))
    return out - float(a[:, 0].max())


def _near_largest(parts: Array, level: float) -> Array:
    """Contrasts (p, 1 + B) that may be the largest."""
    largest = int(np.argmax(parts[:, 0]))
    distance = parts[largest] - parts
    usable = np.isfinite(distance).all(axis=0)
    noise = distance[:, usable].std(axis=1) if usable[1:].any() else np.zeros(len(parts))
    reach = scipy.stats.norm.isf((1.0 - level) / max(len(parts) - 1, 1)) * noise
    near: Mask = np.asarray(distance[:, 0] <= reach)
    return np.asarray(parts[near])


def error_interval(model: Measured, level: float) -> Estimate:
    """Error of one model, with percentiles of its resamples."""
    return summary(model.error, level)


def error_change(before: Measured, after: Measured, level: float) -> Estimate:
    """Error of the second model minus that of the first, with percentiles of the paired differences."""
    return summary(after.error - before.error, level)


# ------------------------------------------------------------------ sums


def _total(sums: GroupSums, column: str = "") -> Array:
    """Sum of a column over all cells, (1 + B,)."""
    return np.asarray(sums.columns[column].sum(axis=0))


def _rates(attribute: Protected, sums: GroupSums, column: str) -> Array:
    """Weighted mean of a column in every group, (groups, 1 + B); NaN without rows."""
    mass = sums.by(attribute.name, len(attribute.labels))
    return _over(sums.by(attribute.name, len(attribute.labels), column), mass)


def _over(a: Array, b: Array) -> Array:
    return np.asarray(np.divide(a, b, out=np.full(np.shape(a), np.nan), where=b > 0.0))


class Ranking:
    """Area under the ROC curve of one score under many weights; ties count half."""

    def __init__(self, scores: Array, positive: Mask) -> None:
        values, self._place = np.unique(scores, return_inverse=True)
        self._n, self._positive = len(values), positive

    def auc(self, weight: Array) -> Array:
        """Area for each column of weights (n, b)."""
        out = np.empty(weight.shape[1])
        for b, w in enumerate(weight.T):
            up = np.bincount(self._place, w * self._positive, minlength=self._n)
            down = np.bincount(self._place, w * ~self._positive, minlength=self._n)
            below = np.cumsum(down) - down
            total = up.sum() * down.sum()
            out[b] = up @ (below + down / 2.0) / total if total > 0.0 else np.nan
        return out
