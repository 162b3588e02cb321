"""The parts of an audit: each asks one module, and says what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from fairspan.auditing import parts as _parts
from fairspan.auditing.attack import attack
from fairspan.auditing.bound import HeldOutBound, held_out_bound
from fairspan.auditing.cross_fit import KernelCheck, kernel_check
from fairspan.auditing.decisions import (
    decision_columns,
    decision_findings,
    performance_findings,
    probability_bins,
)
from fairspan.auditing.distances import distance_interval
from fairspan.auditing.findings import Finding
from fairspan.auditing.independence import holm, independence_test
from fairspan.auditing.proxy import Proxy, proxy_component
from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.scores import score_columns, score_findings
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.metrics.groups import BIN, DECIDED, STRATA, TARGET, count_cells, resample

__all__ = [
    "Case",
    "Evidence",
    "Settings",
    "finish",
    "gather",
    "not_made",
]

# Rows on which kernel coordinates, D numbers each, are compared with other predictors.
_KERNEL_ROWS = 5_000
# Sums of all columns over all cells in all resamples: half a GiB.
_MOST_SUMS = 2**26
# Resamples of what is bootstrapped by itself.
_FEW_DRAWS = 200
# A numeric y is held fixed within slices of about so many rows.
_ROWS_AT_Y, _MOST_AT_Y = 100, 100


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
    """What is audited, how, where findings go, and the rows that tests look at."""

    data: Audited
    settings: Settings
    out: Evidence
    tested: Any

    def say(
        self, section: str, metric: str, attribute: str, found: tuple[float, float, float],
        n_rows: int, *notes: str, **more: Any,
    ) -> None:  # fmt: skip
        """One finding: estimate, low and high."""
        note = "; ".join(note for note in notes if note)
        value, low, high = found
        self.out.findings.append(
            Finding(section, metric, attribute, value=value, low=low, high=high, n_rows=n_rows,
                    note=note, **more)
        )  # fmt: skip


# ------------------------------------------------------------------ scores and decisions


def sums(case: Case, rng: np.random.Generator) -> None:
    """Everything that is a function of sums over groups."""
    data, settings, out = case.data, case.settings, case.out
    scores = "scores" in settings.parts and data.scores is not None
    columns = (score_columns(data) if scores else {}) | decision_columns(data)
    factors = _factors(data)
    sets: list[tuple[tuple[Protected, ...], dict[str, Codes]]] = [(data.groupings, factors)]
    if count_cells(factors) * settings.n_boot * (1 + len(columns)) > _MOST_SUMS:
        # Attributes of many levels: their own cells, but not those that all make together.
        names = {one.name for one in data.groupings}
        sets = [
            ((one,), {k: v for k, v in factors.items() if k == one.name or k not in names})
            for one in data.groupings
        ]
    for i, (groupings, some) in enumerate(sets):
        found = resample(some, columns, data.weight, settings.n_boot, rng)
        if i == 0:
            out.findings += performance_findings(data, found, settings.level)
        if scores:
            out.findings += score_findings(
                data, groupings, found, settings.level, settings.min_rows
            )
        if "decisions" in settings.parts:
            out.findings += decision_findings(
                data, groupings, found, settings.level, settings.min_rows
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
        out[BIN] = probability_bins(data.probability, data.weight)
    return out


def distances(case: Case, one: Protected, rng: np.random.Generator) -> None:
    """Distance correlation of the score with a number."""
    data, settings = case.data, case.settings
    assert data.scores is not None
    assert one.values is not None
    n, value, low, high = distance_interval(
        data.scores, one.values, data.weight, settings.level, settings.n_boot, rng
    )
    case.say("scores", "distance_correlation", one.name, (value, low, high), n)


# ------------------------------------------------------------------ tests and attackers


def tests(case: Case, one: Protected, what: str, Z: Array, rng: np.random.Generator) -> None:
    """Independence, for all rows and at the same y."""
    data, nothing = case.data, float("nan")
    rows = case.tested
    some, seen = Z[rows], one.take(rows)
    weight = np.ones(len(some))
    few = ""
    if len(some) < data.n:
        few = f"{len(some):,} of {data.n:,} rows, drawn by their weights"
    for where, f, s, given, how in _conditions(data.target, rows, some, seen):
        for statistic in ("hsic", "dcor"):
            found = independence_test(
                f, s, statistic=statistic, given=given, weight=weight,
                n_permutations=case.settings.n_permutations, rng=rng,
            )  # fmt: skip
            method = f"{found.n_blocks} blocks" if found.method == "blocks" else "permutations"
            case.say(
                "tests", f"{statistic} of {what}", one.name, (found.statistic, nothing, nothing),
                found.n_rows, method, how, few, found.note, where=where, p_value=found.p_value,
            )  # fmt: skip


def _conditions(
    target: Protected | None, rows: Any, Z: Array, one: Protected
) -> Iterator[tuple[str, Array, Protected, Codes | None, str]]:
    yield "", Z, one, None, ""
    if target is None:
        return
    if target.values is None:
        yield "given y", Z, one, target.codes[rows], ""
        return
    # Slices leave y to vary inside, and with it whatever depends on y: they are narrow, and what is
    # linear in y inside each is taken out.
    y = target.values[rows]
    n_slices = int(np.clip(len(y) // _ROWS_AT_Y, 2, _MOST_AT_Y))
    slices = code_slices(y, slice_edges(y, n_slices))
    s = (
        one
        if one.values is None
        else replace(one, values=_within(one.values[:, None], y, slices)[:, 0])
    )
    how = f"y in {slices.max() + 1} slices, lines within them removed"
    yield "given y", _within(Z, y, slices), s, slices, how


def _within(columns: Array, y: Array, slices: Codes) -> Array:
    """Residuals of a line in y, slice by slice."""
    mass = np.bincount(slices).astype(np.float64)

    def centred(v: Array) -> Array:
        return np.asarray(v - (np.bincount(slices, v) / mass)[slices])

    x = centred(y)
    spread = np.bincount(slices, x**2)
    out = np.empty_like(columns, dtype=np.float64)
    for j, column in enumerate(columns.T):
        c = centred(column)
        slope = np.divide(np.bincount(slices, x * c), spread, out=np.zeros_like(spread),
                          where=spread > 0.0)  # fmt: skip
        out[:, j] = c - slope[slices] * x
    return out


def attacks(case: Case, one: Protected, what: str, Z: Array, rng: np.random.Generator) -> None:
    """How well models recover the attribute."""
    settings = case.settings
    for each in attack(
        Z, one, attackers=settings.attackers, n_folds=settings.n_folds,
        max_rows=settings.max_attack_rows, weight=case.data.weight, level=settings.level,
        n_boot=min(settings.n_boot, _FEW_DRAWS), rng=rng,
    ):  # fmt: skip
        # From the features S may be recovered: a reference, and no statement to be corrected for.
        p_value = float("nan") if what == "features" else each.p_value
        case.say(
            "attacks", f"{each.attacker} {each.measure} from {what}", one.name,
            (each.value, each.low, each.high), each.n_rows, each.note, p_value=p_value,
        )  # fmt: skip


# ------------------------------------------------------------------ the representation


def proxies(case: Case, one: Protected, rng: np.random.Generator) -> None:
    """The component of a linear score that is most correlated with the attribute."""
    data, settings, found = case.data, case.settings, case.data.representation
    assert found is not None
    assert found.coef is not None
    proxy = proxy_component(
        found.Z, found.coef, one, found.names, weight=data.weight, level=settings.level,
        n_boot=min(settings.n_boot, _FEW_DRAWS), rng=rng,
    )  # fmt: skip
    case.out.proxies.append(proxy)
    if proxy.material is not None:  # what matters is a component that is more than a trace
        proxy = proxy.material
    share = f"{proxy.variance_share:.2g} of the score's variance"
    uses = f"uses {', '.join(proxy.names[:5])}{', ...' if len(proxy.names) > 5 else ''}"
    case.say(
        "proxies", "most_correlated_component", one.name, (proxy.held_out, proxy.low, proxy.high),
        proxy.n_rows, f"negligible: {share}" if proxy.negligible else f"{share}; {uses}",
        proxy.note, group=proxy.level, small=proxy.negligible,
    )  # fmt: skip


def bounds(case: Case, rng: np.random.Generator) -> None:  # noqa: ARG001 - nothing is drawn
    """The certificate on these rows, in the cells that the model's criterion speaks of."""
    data, settings, found = case.data, case.settings, case.data.representation
    assert found is not None
    cells, names = _cells(data, found.cells)
    case.out.bounds += held_out_bound(
        found.Z, data.attributes, cells=cells, cell_names=names, weight=data.weight,
        level=settings.level, min_rows=settings.min_rows,
    )  # fmt: skip
    for b in case.out.bounds:
        case.say(
            "certificate", "largest_correlation_of_any_function", b.attribute,
            (b.supremum, 0.0, b.bound), b.n_rows, b.note, where="" if cells is None else b.cell,
        )  # fmt: skip


def _cells(data: Audited, rule: str) -> tuple[Codes | None, tuple[str, ...]]:
    if rule == "strata" and data.strata is not None:
        return data.strata.codes, data.strata.labels
    if rule == "target" and data.target is not None:
        return data.target.codes, tuple(f"y = {label}" for label in data.target.labels)
    if rule == "positive" and data.target is not None and len(data.positive) == 1:
        (k,) = data.positive
        return np.where(data.target.codes == k, 0, -1), (f"y = {data.target.labels[k]}",)
    return None, ("all rows",)


def kernel(case: Case, rng: np.random.Generator) -> None:
    """Predictive R^2 of the kernel space and of two references."""
    data, settings, found = case.data, case.settings, case.data.representation
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
    case.out.kernel = check
    found_r2 = {"kernel": check.kernel_r2, "linear": check.linear_r2, "boosted": check.boosted_r2}
    for name, each in found_r2.items():
        note = check.message or check.note if name == "kernel" else ""
        case.say("kernel", f"{name}_r2", "", (each.value, each.low, each.high), check.n_rows, note)


Step = tuple[str, Callable[[], None]]


def gather(
    data: Audited, settings: Settings, rng: np.random.Generator
) -> tuple[Evidence, list[Step]]:
    """Steps, each with a name for a progress bar, that fill the evidence in."""
    views = list(_views(data))
    tested = [(one, what, Z) for one in data.attributes for what, Z in views if what != "features"]
    settings = _enough_permutations(settings, len(tested) * (2 if data.target is None else 4))
    case = Case(data, settings, Evidence([], [], []), draw_resamples(data.weight, rng))
    missing = not_made(data)
    steps: list[Step] = []

    def later(part: str, name: str, work: Callable[..., None], *arguments: Any) -> None:
        # A source of its own for each, so that one part's draws do not shift another's.
        own = np.random.default_rng(rng.integers(2**63))
        if part in settings.parts and part not in missing:
            steps.append((name, partial(work, case, *arguments, own)))

    sums = _parts.sums
    steps.append(
        ("scores and decisions", partial(sums, case, np.random.default_rng(rng.integers(2**63))))
    )
    for one in data.attributes:
        if one.values is not None:
            later("scores", f"distance correlation with {one.name}", _parts.distances, one)
        for what, Z in views:
            if what != "features":
                later("tests", f"tests of {one.name} and {what}", _parts.tests, one, what, Z)
            later("attacks", f"{one.name} from {what}", _parts.attacks, one, what, Z)
        later("proxies", f"proxies of {one.name}", _parts.proxies, one)
    later("certificate", "certificate", _parts.bounds)
    later("kernel", "kernel", _parts.kernel)
    return case.out, steps


def finish(out: Evidence) -> list[Finding]:
    """All findings, p-values corrected for each other: those of tests, and those of attacks."""
    for section in ("tests", "attacks"):
        mine = [i for i, one in enumerate(out.findings) if one.section == section]
        p_values = np.array([out.findings[i].p_value for i in mine])
        for i, p in zip(mine, holm(p_values), strict=True):
            out.findings[i] = replace(out.findings[i], p_adjusted=float(p))
    return out.findings


def not_made(data: Audited) -> dict[str, str]:
    """Parts that cannot be made of what was given, and what they need."""
    found = data.representation
    out = {}
    if data.scores is None:
        out["scores"] = "there are no scores"
    if data.decided is None and data.probability is None and not _has_errors(data):
        out["decisions"] = "there are neither decisions nor, beside y, probabilities or predictions"
    if not any(what != "features" for what, _ in _views(data)):
        out["tests"] = "there is neither a score nor a representation"
    if not any(True for _ in _views(data)):
        out["attacks"] = "there is nothing to recover an attribute from"
    if found is None or found.coef is None or found.Z.shape[1] < 2:
        out["proxies"] = "the score is not known to be linear in several coordinates"
    if found is None:
        out["certificate"] = "there is no representation"
    if found is None or found.psi is None or data.features is None or data.target is None:
        out["kernel"] = "it needs a fairspan model, X and y"
    return out


def _has_errors(data: Audited) -> bool:
    return data.classes is None and data.target is not None and data.scores is not None


def _views(data: Audited) -> Iterator[tuple[str, Array]]:
    """What S may be recovered from: the features as a reference, the score, the representation."""
    if data.features is not None:
        yield "features", data.features
    if data.scores is not None:
        yield "score", data.scores
    found = data.representation
    if found is None or (found.own and found.Z.shape[1] == 1 and data.scores is not None):
        return  # one coordinate is the score again
    if not found.given and data.features is not None and _same(found.Z, data.features):
        return  # a linear model on the features themselves
    yield "representation", found.Z


def _same(Z: Array, X: Array) -> bool:
    """Equal columns, up to their units."""
    if Z.shape != X.shape:
        return False
    rows = slice(0, 1000)
    spread = [np.where(M[rows].std(axis=0) > 0.0, M[rows].std(axis=0), 1.0) for M in (Z, X)]
    a, b = ((M[rows] - M[rows].mean(axis=0)) / s for M, s in zip((Z, X), spread, strict=True))
    return bool(np.allclose(a, b, atol=1e-6))


def draw_resamples(weight: Array, rng: np.random.Generator) -> Any:
    """Rows that stand for the weighted population without weights: each kept with its chance."""
    chance = weight / weight.max()
    kept = rng.random(len(weight)) < chance
    return slice(None) if (chance == 1.0).all() else np.flatnonzero(kept)


def _enough_permutations(settings: Settings, n_tests: int) -> Settings:
    """So many that a test can reject even after the correction for all of them."""
    least = ceil(2.0 * n_tests / (1.0 - settings.level))
    return replace(settings, n_permutations=max(settings.n_permutations, least))
