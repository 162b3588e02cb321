"""The audit itself: which parts can be made of what was given, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.stats

from fairspan._linalg import Array
from fairspan.auditing._attack import attack
from fairspan.auditing._bound import HeldOutBound, held_out_bound
from fairspan.auditing._decisions import (
    decision_columns,
    decision_findings,
    performance_findings,
    probability_bins,
)
from fairspan.auditing._dependence import holm, independence_test
from fairspan.auditing._distance import distance_interval
from fairspan.auditing._findings import Finding
from fairspan.auditing._kernel_check import KernelCheck, kernel_check
from fairspan.auditing._proxy import Proxy, proxy_component
from fairspan.auditing._read import Audited
from fairspan.auditing._resamples import BIN, DECIDED, STRATA, TARGET, count_cells, resample
from fairspan.auditing._rows import Protected
from fairspan.auditing._scores import score_columns, score_findings
from fairspan.codes import Codes

__all__ = ["Evidence", "Settings", "finish", "gather"]

# Rows on which kernel coordinates, D numbers each, are compared with other predictors.
_KERNEL_ROWS = 5_000
# Sums of all columns over all cells in all resamples: half a GiB.
_MOST_SUMS = 2**26


@dataclass(frozen=True)
class Settings:
    """How much to look, and how sure to be."""

    level: float
    n_boot: int
    n_permutations: int
    min_rows: int
    max_attack_rows: int
    n_folds: int
    attackers: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass
class Evidence:
    """What the parts found."""

    findings: list[Finding]
    proxies: list[Proxy]
    bounds: list[HeldOutBound]
    kernel: KernelCheck | None = None


@dataclass(frozen=True)
class Case:
    """What is audited, how, and where findings go."""

    data: Audited
    settings: Settings
    out: Evidence

    def has(self, part: str) -> bool:
        """Whether this part was asked for."""
        return part in self.settings.parts


Step = tuple[str, Callable[[], None]]


def gather(
    data: Audited, settings: Settings, rng: np.random.Generator
) -> tuple[Evidence, list[Step]]:
    """Steps, each with a name for a progress bar, that fill the evidence in."""
    case = Case(data, settings, Evidence([], [], []))
    steps: list[Step] = []

    def later(name: str, work: Callable[..., None], *arguments: Any) -> None:
        # A source of its own for each, so that one part's draws do not shift another's.
        own = np.random.default_rng(rng.integers(2**63))
        steps.append((name, partial(work, case, *arguments, own)))

    later("scores and decisions", _sums_part)
    for one in data.attributes:
        if case.has("scores") and data.scores is not None and one.values is not None:
            later(f"distance correlation with {one.name}", _distances, one)
        for what, Z in _views(data):
            if case.has("tests") and what != "features":
                later(f"tests of {one.name} and {what}", _tests, one, what, Z)
            if case.has("attacks"):
                later(f"{one.name} from {what}", _attacks, one, what, Z)
        if case.has("proxies") and _is_linear(data):
            later(f"proxies of {one.name}", _proxies, one)
    if case.has("certificate") and data.representation is not None:
        later("certificate", _bounds)
    if case.has("kernel") and _has_kernel(data):
        later("kernel", _kernel)
    return case.out, steps


def finish(out: Evidence, level: float) -> list[Finding]:
    """All findings, p-values corrected for each other: those of tests, and those of attacks."""
    out.findings[:] = [
        replace(one, p_value=_p_of_attack(one, level)) if one.section == "attacks" else one
        for one in out.findings
    ]
    for section in ("tests", "attacks"):
        mine = [i for i, one in enumerate(out.findings) if one.section == section]
        p_values = np.array([out.findings[i].p_value for i in mine])
        for i, p in zip(mine, holm(p_values), strict=True):
            out.findings[i] = replace(out.findings[i], p_adjusted=float(p))
    return out.findings


def _p_of_attack(one: Finding, level: float) -> float:
    """Chance that guessing does as well, by the normal approximation that the interval implies.

    From the features S may be recovered: they are a reference, and no statement to be corrected for.
    """
    if one.metric.endswith(" from features") or not one.high > one.low:
        return float("nan")
    error = (one.high - one.low) / (2.0 * scipy.stats.norm.isf((1.0 - level) / 2.0))
    blind = 0.5 if " auc " in one.metric else 0.0
    return float(scipy.stats.norm.sf((one.value - blind) / error))


# ------------------------------------------------------------------ what there is


def _views(data: Audited) -> Iterator[tuple[str, Array]]:
    """What S may be recovered from: the features as a reference, the score, the representation."""
    if data.features is not None:
        yield "features", data.features
    if data.scores is not None:
        yield "score", data.scores
    found = data.representation
    # One coordinate is the score again.
    if found is not None and (data.scores is None or found.Z.shape[1] > data.scores.shape[1]):
        yield "representation", found.Z


def _is_linear(data: Audited) -> bool:
    found = data.representation
    return found is not None and found.coef is not None and found.Z.shape[1] > 1


def _has_kernel(data: Audited) -> bool:
    found = data.representation
    return (
        found is not None and found.psi is not None and data.features is not None
        and data.target is not None
    )  # fmt: skip


# ------------------------------------------------------------------ parts


def _sums_part(case: Case, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    scores = case.has("scores") and data.scores is not None
    columns = (score_columns(data) if scores else {}) | decision_columns(data)
    factors = _factors(data)
    sets = [(data.groupings, factors)]
    if count_cells(factors) * settings.n_boot * (1 + len(columns)) > _MOST_SUMS:
        # Attributes of many levels: their own cells, but not those that all make together.
        names = {one.name for one in data.groupings}
        sets = [
            ((one,), {k: v for k, v in factors.items() if k == one.name or k not in names})
            for one in data.groupings
        ]
    for i, (groupings, some) in enumerate(sets):
        sums = resample(some, columns, data.weight, settings.n_boot, rng)
        if i == 0:
            out.findings += performance_findings(data, sums, settings.level)
        if scores:
            out.findings += score_findings(data, groupings, sums, settings.level)
        if case.has("decisions"):
            out.findings += decision_findings(
                data, groupings, sums, settings.level, settings.min_rows
            )


def _factors(data: Audited) -> dict[str, Codes]:
    out = {one.name: one.codes for one in data.groupings}
    if data.target is not None:
        out[TARGET] = data.target.codes
    if data.decided is not None:
        out[DECIDED] = data.decided
    if data.strata is not None:
        out[STRATA] = data.strata.codes
    if data.probability is not None and data.target is not None:
        out[BIN] = probability_bins(data.probability)
    return out


def _distances(case: Case, one: Protected, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    assert data.scores is not None
    assert one.values is not None
    try:
        value, low, high = distance_interval(
            data.scores, one.values, data.weight, settings.level, settings.n_boot, rng
        )
        note = ""
    except ImportError as error:  # an extra: the rest of the audit does without
        value = low = high = float("nan")
        note = str(error)
    out.findings.append(
        Finding(
            "scores",
            "distance_correlation",
            one.name,
            "",
            "",
            value,
            low,
            high,
            n_rows=data.n,
            note=note,
        )
    )


def _tests(case: Case, one: Protected, what: str, Z: Array, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    given: list[tuple[str, Codes | None]] = [("", None)]
    if data.target is not None:
        given.append(("given y", data.target.codes))
    for where, codes in given:
        for statistic in ("hsic", "dcor"):
            found = independence_test(
                Z, one, statistic=statistic, given=codes, weight=data.weight,
                n_permutations=settings.n_permutations, rng=rng,
            )  # fmt: skip
            how = f"{found.n_blocks} blocks" if found.method == "blocks" else "permutations"
            out.findings.append(
                Finding(
                    "tests",
                    f"{statistic} of {what}",
                    one.name,
                    "",
                    where,
                    found.statistic,
                    p_value=found.p_value,
                    n_rows=found.n_rows,
                    note="; ".join(part for part in (how, found.note) if part),
                )
            )


def _attacks(case: Case, one: Protected, what: str, Z: Array, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    found = attack(
        Z, one, attackers=settings.attackers, n_folds=settings.n_folds,
        max_rows=settings.max_attack_rows, weight=data.weight, level=settings.level,
        n_boot=min(settings.n_boot, 200), rng=rng,
    )  # fmt: skip
    out.findings += [
        Finding(
            "attacks",
            f"{each.attacker} {each.measure} from {what}",
            one.name,
            "",
            "",
            each.value,
            each.low,
            each.high,
            n_rows=each.n_rows,
            note=each.note,
        )
        for each in found
    ]


def _proxies(case: Case, one: Protected, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    found = data.representation
    assert found is not None
    assert found.coef is not None
    proxy = proxy_component(
        found.Z, found.coef, one, found.names, weight=data.weight, level=settings.level,
        n_boot=min(settings.n_boot, 200), rng=rng,
    )  # fmt: skip
    out.proxies.append(proxy)
    if proxy.material is not None:  # what matters is a component that is more than a trace
        proxy = proxy.material
    share = f"{proxy.variance_share:.2g} of the score's variance"
    uses = f"uses {', '.join(proxy.names[:5])}{', ...' if len(proxy.names) > 5 else ''}"
    note = f"negligible: {share}" if proxy.negligible else f"{share}; {uses}"
    out.findings.append(
        Finding(
            "proxies",
            "most_correlated_component",
            one.name,
            proxy.level,
            "",
            proxy.held_out,
            proxy.low,
            proxy.high,
            n_rows=proxy.n_rows,
            small=proxy.negligible,
            note="; ".join(part for part in (note, proxy.note) if part),
        )
    )


def _bounds(case: Case, rng: np.random.Generator) -> None:  # noqa: ARG001 - nothing is drawn
    data, settings, out = case.data, case.settings, case.out
    found = data.representation
    assert found is not None
    cells, names = _cells(data, found.cells)
    out.bounds += held_out_bound(
        found.Z, data.attributes, cells=cells, cell_names=names, weight=data.weight,
        level=settings.level, min_rows=settings.min_rows,
    )  # fmt: skip
    out.findings += [
        Finding(
            "certificate",
            "largest_correlation_of_any_function",
            b.attribute,
            "",
            "" if len(names) == 1 and cells is None else b.cell,
            b.supremum,
            0.0,
            b.bound,
            n_rows=b.n_rows,
            note=b.note,
        )
        for b in out.bounds
    ]


def _cells(data: Audited, rule: str) -> tuple[Codes | None, tuple[str, ...]]:
    """The cells that the model's criterion speaks of."""
    if rule == "strata" and data.strata is not None:
        return data.strata.codes, data.strata.labels
    if rule == "target" and data.target is not None:
        return data.target.codes, tuple(f"y = {label}" for label in data.target.labels)
    if rule == "positive" and data.target is not None and len(data.positive) == 1:
        (k,) = data.positive
        return np.where(data.target.codes == k, 0, -1), (f"y = {data.target.labels[k]}",)
    return None, ("all rows",)


def _kernel(case: Case, rng: np.random.Generator) -> None:
    data, settings, out = case.data, case.settings, case.out
    found = data.representation
    assert found is not None
    assert data.target is not None
    assert data.features is not None
    rows = np.sort(rng.permutation(data.n)[:_KERNEL_ROWS])
    classes = data.target.values is None
    y: Any = data.target.codes if classes else data.target.values
    check = kernel_check(
        found.psi[rows], data.features[rows], y[rows], classes=classes, weight=data.weight[rows],
        n_folds=settings.n_folds, level=settings.level, rng=rng,
    )  # fmt: skip
    out.kernel = check
    found_r2 = {"kernel": check.kernel_r2, "linear": check.linear_r2, "boosted": check.boosted_r2}
    for name, each in found_r2.items():
        note = check.message or check.note if name == "kernel" else ""
        out.findings.append(
            Finding(
                "kernel",
                f"{name}_r2",
                "",
                "",
                "",
                each.value,
                each.low,
                each.high,
                n_rows=check.n_rows,
                note=note,
            )
        )
