"""The parts of an audit: each computes findings of one section and adds them to the case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np

from fairspan.auditing.attackers import ATTACKERS, attack
from fairspan.auditing.cross_fit import KernelCheck, kernel_check
from fairspan.auditing.findings import (
    SECTIONS,
    Finding,
    decision_columns,
    decision_findings,
    listed,
    performance_findings,
    probability_bins,
)
from fairspan.auditing.independence import holm, independence_test
from fairspan.auditing.model_space import HeldOutBound, held_out_bound
from fairspan.auditing.probable import copies_of_groups
from fairspan.auditing.proxy import Proxy, proxy_component
from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.scores import distance_interval, score_columns, score_findings
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes, GroupProbabilities
from fairspan.metrics.groups import (
    BIN,
    DECIDED,
    STRATA,
    TARGET,
    count_cells,
    group_sums,
    renumbered,
    resample,
    standardize,
)

# Parts that a user can request.
PARTS = SECTIONS[1:]
# Rows on which the kernel check compares predictors: each row has D kernel coordinates.
_KERNEL_ROWS = 5_000
# Largest number of sums over joint cells in all resamples: half a GiB.
_MOST_SUMS = 2**26
# Resamples of attacks and proxies, each of which has its own bootstrap.
_FEW_DRAWS = 200
# Least value of each count among the options.
_LEAST = {"n_boot": 20, "n_permutations": 19, "min_rows": 1, "max_attack_rows": 100, "n_folds": 2}
# Tests given a numeric y compare rows within slices of about this many rows, at most so many slices.
_ROWS_AT_Y, _MOST_AT_Y = 100, 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Audit options, as in :func:`fairspan.audit`; invalid values raise ValueError."""

    level: float = 0.95
    n_boot: int = 500
    n_permutations: int = 499
    min_rows: int = 30
    max_attack_rows: int = 10_000
    n_folds: int = 5
    attackers: Sequence[str] = ATTACKERS
    parts: Sequence[str] = PARTS

    def __post_init__(self) -> None:
        level: Any = self.level
        if not isinstance(level, int | float | np.floating) or not 0.0 < level < 1.0:
            msg = f"level={level!r} is not allowed; give a number between 0 and 1, as 0.95."
            raise ValueError(msg)
        for name, least in _LEAST.items():
            number = getattr(self, name)
            if type(number) is bool or not isinstance(number, Integral) or number < least:
                msg = f"{name}={number!r} is not allowed; give a whole number from {least} up."
                raise ValueError(msg)
        for name, known in (("parts", PARTS), ("attackers", ATTACKERS)):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ValueError(f"{name}={given!r} is one text; give a list, as [{given!r}].")
            if not isinstance(given, Iterable):
                msg = f"{name}={given!r} is not allowed; give some of {', '.join(known)}."
                raise ValueError(msg)
            unknown = [entry for entry in given if entry not in known]
            if unknown:
                raise ValueError(f"{name} has {unknown[0]!r}; known are {', '.join(known)}.")
        if not list(self.parts):
            raise ValueError(f"parts is empty; give some of {', '.join(PARTS)}, or leave it out.")


@dataclass(kw_only=True)
class Case:
    """Rows to audit and options, with the results that the parts of the audit add.

    ``tested`` are the rows that tests of independence use, an index of the rows.
    """

    data: Audited
    settings: Settings
    tested: Any = None
    findings: list[Finding] = field(default_factory=list)
    proxies: list[Proxy] = field(default_factory=list)
    bounds: list[HeldOutBound] = field(default_factory=list)
    kernel: KernelCheck | None = None

    def add(self, section: str, metric: str, attribute: str, *notes: str, **numbers: Any) -> None:
        """Add a finding."""
        note = "; ".join(filter(None, notes))
        self.findings.append(Finding(section, metric, attribute, note=note, **numbers))

    def options(self, rng: np.random.Generator) -> dict[str, Any]:
        """Keyword arguments of everything that has its own bootstrap: weights, level, resamples."""
        n_boot, level = min(self.settings.n_boot, _FEW_DRAWS), self.settings.level
        common = {"weight": self.data.weight, "clusters": self.data.clusters}
        return {**common, "level": level, "n_boot": n_boot, "rng": rng}


# ------------------------------------------------------------------ scores and decisions


def sums(
    case: Case,
    rng: np.random.Generator,
    groupings: Sequence[Protected] | None = None,
    counts: Array | None = None,
) -> None:
    """Add all findings that are functions of sums by group: performance, scores and decisions.

    Parameters
    ----------
    case, rng : the audit, and the source of its resamples.
    groupings : attributes to compare; all of them by default.
    counts : (n, n_boot) how often each row is drawn, if that is known already.
    """
    data, settings = case.data, case.settings
    level, min_rows = settings.level, settings.min_rows
    groupings = data.groupings if groupings is None else groupings
    with_scores = "scores" in settings.parts and data.scores is not None
    of_scores, of_decisions = score_columns(data) if with_scores else {}, decision_columns(data)
    columns, factors = of_scores | of_decisions, _cell_factors(data)
    if not factors:  # groups known as probabilities are compared by `probable_sums`
        return
    sets: list[tuple[Sequence[Protected], Mapping[str, Codes]]] = [(groupings, factors)]
    if count_cells(factors) * settings.n_boot * (1 + len(columns)) > _MOST_SUMS:
        # Sum over the cells of one attribute at a time, not over those of all attributes together.
        names = {attribute.name for attribute in data.groupings}
        shared = {name: codes for name, codes in factors.items() if name not in names}
        sets = [((a,), {a.name: a.codes, **shared}) for a in groupings]
        counts = None
    for i, (some, cells) in enumerate(sets):
        if counts is None:
            joint = resample(cells, columns, data.weight, settings.n_boot, rng, data.clusters)
        else:
            joint = group_sums(cells, columns, data.weight, [counts], data.clusters)
        if data.copied_rows is not None:  # the expected number of rows in every cell
            mass = joint.columns[""][:, 0]
            joint = replace(joint, rows=mass * (data.copied_rows / mass.sum()))
        names_used = [attribute.name for attribute in some]
        # Scores and decisions use some of the factors and columns each; the rest is summed over once.
        if with_scores:
            part = joint.over(*names_used, TARGET, STRATA, columns=of_scores)
            case.findings += score_findings(data, some, part, level, min_rows)
        part = joint.over(*names_used, TARGET, DECIDED, BIN, STRATA, columns=of_decisions)
        if i == 0:
            case.findings += performance_findings(data, part, level)
        if "decisions" in settings.parts:
            case.findings += decision_findings(data, some, part, level, min_rows)


def probable_sums(case: Case, attribute: GroupProbabilities, rng: np.random.Generator) -> None:
    """The same findings for an attribute whose groups are known as probabilities.

    Findings that condition on y take the probabilities as calibrated given y, the others overall.
    """
    found: dict[tuple[str, str, str, str], Finding] = {}
    for within_y in (False, True) if case.data.target is not None else (False,):
        copies = copies_of_groups(case.data, attribute, within_y=within_y)
        part = Case(data=copies, settings=case.settings)
        sums(part, rng)
        for f in part.findings:
            if f.attribute:  # performance is that of all rows
                found.setdefault((f.section, f.metric, f.where, f.group), f)
    case.findings += found.values()


def _cell_factors(data: Audited) -> dict[str, Codes]:
    """Factors whose joint cells are summed over: attributes, y, decisions, strata, probabilities."""
    out = {attribute.name: attribute.codes for attribute in data.groupings}
    if data.target is not None:
        out[TARGET] = data.target.codes
    if data.decided is not None:
        out[DECIDED] = data.decided
    if data.strata is not None:
        out[STRATA] = data.strata.codes
    if data.probability is not None and data.target is not None:
        out[BIN] = probability_bins(data.probability, data.weight)
    return out


def _distances(case: Case, attribute: Protected, rng: np.random.Generator) -> None:
    """Distance correlation of the score with a numeric attribute."""
    data, settings = case.data, case.settings
    assert data.scores is not None
    assert attribute.values is not None
    options = settings.level, settings.n_boot, rng, data.clusters
    n, value, low, high = distance_interval(data.scores, attribute.values, data.weight, *options)
    metric = "distance_correlation"
    case.add("scores", metric, attribute.name, value=value, low=low, high=high, n_rows=n)


# ------------------------------------------------------------------ tests and attackers


def _tests(
    case: Case, attribute: Protected, source: str, Z: Array, rng: np.random.Generator
) -> None:
    """Tests of independence, for all rows and given y."""
    data, rows = case.data, case.tested
    some = Z[rows]
    n_permutations, weight = case.settings.n_permutations, np.ones(len(some))
    test = partial(independence_test, weight=weight, n_permutations=n_permutations, rng=rng)
    rule = "drawn by their weights" if data.clusters is None else "at most one of each cluster"
    drawn = f"{len(some):,} of {data.n:,} rows, {rule}" if len(some) < data.n else ""
    for where, f, s, given, how in _conditions(data.target, rows, some, attribute.take(rows)):
        for statistic in ("hsic", "dcor"):
            result = test(f, s, statistic=statistic, given=given)
            method = f"{result.n_blocks} blocks" if result.method == "blocks" else "permutations"
            notes, p_value = (method, how, drawn, result.note), result.p_value
            numbers = {"value": result.statistic, "p_value": p_value, "n_rows": result.n_rows}
            metric = f"{statistic} of {source}"
            case.add("tests", metric, attribute.name, *notes, where=where, **numbers)


def _conditions(
    target: Protected | None, rows: Any, Z: Array, attribute: Protected
) -> Iterator[tuple[str, Array, Protected, Codes | None, str]]:
    """Conditions of the tests, none and given y: name, f, S, strata and a note."""
    yield "", Z, attribute, None, ""
    if target is None:
        return
    if target.values is None:
        yield "given y", Z, attribute, target.codes[rows], ""
        return
    # y still varies inside a slice, and with it everything that depends on y. So slices are narrow,
    # and a line in y is removed inside each.
    y = target.values[rows]
    n_slices = int(np.clip(len(y) // _ROWS_AT_Y, 2, _MOST_AT_Y))
    slices = code_slices(y, slice_edges(y, n_slices))
    if attribute.values is not None:
        residuals = _residuals(attribute.values[:, None], y, slices)[:, 0]
        attribute = replace(attribute, values=residuals)
    note = f"y in {slices.max() + 1} slices, lines within them removed"
    yield "given y", _residuals(Z, y, slices), attribute, slices, note


def _residuals(columns: Array, y: Array, slices: Codes) -> Array:
    """Residuals of a line in y, slice by slice."""
    mass = np.bincount(slices).astype(np.float64)

    def centred(v: Array) -> Array:
        return np.asarray(v - (np.bincount(slices, v) / mass)[slices])

    x = centred(y)
    spread = np.bincount(slices, x**2)
    out = np.empty_like(columns, dtype=np.float64)
    for j, column in enumerate(columns.T):
        c = centred(column)
        product = np.bincount(slices, x * c)
        slope = np.divide(product, spread, out=np.zeros_like(spread), where=spread > 0.0)
        out[:, j] = c - slope[slices] * x
    return out


def _attacks(
    case: Case, attribute: Protected, source: str, Z: Array, rng: np.random.Generator
) -> None:
    """Models that recover the attribute."""
    settings, options = case.settings, case.options(rng)
    options |= {"n_folds": settings.n_folds, "max_rows": settings.max_attack_rows}
    for result in attack(Z, attribute, attackers=settings.attackers, **options):
        # Attacks on the features are a reference, not a hypothesis: they need no correction.
        p_value = float("nan") if source == "features" else result.p_value
        metric = f"{result.attacker} {result.measure} from {source}"
        numbers = {k: getattr(result, k) for k in ("value", "low", "high", "n_rows")}
        case.add("attacks", metric, attribute.name, result.note, p_value=p_value, **numbers)


# ------------------------------------------------------------------ the representation


def _proxies(case: Case, attribute: Protected, rng: np.random.Generator) -> None:
    """The component of a linear score that is most correlated with the attribute."""
    space = case.data.representation
    assert space is not None
    assert space.coef is not None
    proxy = proxy_component(space.Z, space.coef, attribute, space.names, **case.options(rng))
    case.proxies.append(proxy)
    if proxy.material is not None:  # report the component that is not negligible
        proxy = proxy.material
    share = f"{proxy.variance_share:.2g} of the score's variance"
    note = f"negligible: {share}" if proxy.negligible else f"{share}; uses {listed(proxy.names)}"
    numbers: dict[str, Any] = {"value": proxy.held_out, "low": proxy.low, "high": proxy.high}
    numbers |= {"n_rows": proxy.n_rows, "group": proxy.level, "small": proxy.negligible}
    case.add("proxies", "most_correlated_component", attribute.name, note, proxy.note, **numbers)


def bounds(case: Case, rng: np.random.Generator) -> None:  # noqa: ARG001 - parts have one signature
    """The certificate on these rows, in the cells of the model's criterion."""
    data, settings, space = case.data, case.settings, case.data.representation
    assert space is not None
    cells, names = _cells(data, space.cells)
    case.bounds += held_out_bound(
        space.Z,
        data.attributes,
        cells=cells,
        cell_names=names,
        weight=data.weight,
        level=settings.level,
        min_rows=settings.min_rows,
        clusters=data.clusters,
    )
    metric = "largest_correlation_of_any_function"
    for b in case.bounds:
        where = "" if cells is None else b.cell
        high = b.bound if np.isfinite(b.bound) else 1.0  # nothing is known
        numbers = {"value": b.supremum, "low": 0.0, "high": high, "n_rows": b.n_rows}
        case.add("certificate", metric, b.attribute, b.note, where=where, **numbers)


def _cells(data: Audited, rule: str) -> tuple[Codes | None, tuple[str, ...]]:
    """Cell of each row under the rule of the model's criterion (None: one cell), and cell names."""
    if rule == "strata" and data.strata is not None:
        return data.strata.codes, data.strata.labels
    if rule == "target" and data.target is not None:
        return data.target.codes, tuple(f"y = {label}" for label in data.target.labels)
    if rule == "positive" and data.target is not None and len(data.positive) == 1:
        (k,) = data.positive
        return np.where(data.target.codes == k, 0, -1), (f"y = {data.target.labels[k]}",)
    return None, ("all rows",)


def _kernel(case: Case, rng: np.random.Generator) -> None:
    """Predictive R^2 of the kernel space and of two references."""
    data, settings, space = case.data, case.settings, case.data.representation
    assert space is not None
    assert space.psi is not None
    assert data.target is not None
    assert data.features is not None
    rows = np.sort(rng.permutation(data.n)[:_KERNEL_ROWS])
    classes = data.target.values is None
    y: Any = data.target.codes if classes else data.target.values
    check = kernel_check(
        space.psi[rows],
        data.features[rows],
        y[rows],
        classes=classes,
        weight=data.weight[rows],
        n_folds=settings.n_folds,
        level=settings.level,
        rng=rng,
        clusters=renumbered(data.clusters, rows),
    )
    case.kernel = check
    r2s = {"kernel": check.kernel_r2, "linear": check.linear_r2, "boosted": check.boosted_r2}
    for name, r2 in r2s.items():
        note = check.message or check.note if name == "kernel" else ""
        case.add("kernel", f"{name}_r2", "", note, n_rows=check.n_rows, **asdict(r2))


# ------------------------------------------------------------------ all parts

Step = tuple[str, Callable[[], None]]


def gather(data: Audited, settings: Settings, rng: np.random.Generator) -> tuple[Case, list[Step]]:
    """The audit without results, and the steps that add them, each with a name for a progress bar."""
    sources = list(_sources(data))
    n_tests = len(data.attributes) * sum(source != "features" for source, _ in sources)
    n_tests *= 2 if data.target is None else 4
    # With this many permutations, a test can reject after the correction for all tests.
    least = ceil(2.0 * n_tests / (1.0 - settings.level))
    settings = replace(settings, n_permutations=max(settings.n_permutations, least))
    tested = _thin_by_weight(data.weight, rng, data.clusters)
    case = Case(data=data, settings=settings, tested=tested)
    unavailable = unavailable_parts(data)
    steps: list[Step] = []

    def add(part: str, name: str, work: Callable[..., None], *arguments: Any) -> None:
        # Each step has its own generator, so that the draws of one do not change those of another.
        step_rng = np.random.default_rng(rng.integers(2**63))
        if part == "all" or (part in settings.parts and part not in unavailable):
            steps.append((name, partial(work, case, *arguments, step_rng)))

    add("all", "scores and decisions", sums)  # the first generator: see resample_source
    for probable in data.probable:
        add("all", f"scores and decisions by {probable.name}", probable_sums, probable)
    for a in data.attributes:
        if a.values is not None:
            add("scores", f"distance correlation with {a.name}", _distances, a)
        for source, Z in sources:
            if source != "features":
                add("tests", f"tests of {a.name} and {source}", _tests, a, source, Z)
            add("attacks", f"{a.name} from {source}", _attacks, a, source, Z)
        add("proxies", f"proxies of {a.name}", _proxies, a)
    add("certificate", "certificate", bounds)
    add("kernel", "kernel", _kernel)
    return case, steps


def _thin_by_weight(weight: Array, rng: np.random.Generator, clusters: Codes | None = None) -> Any:
    """Draw a sample of the weighted population that needs no weights, of independent rows.

    Each row is kept with probability weight / largest weight; equal weights keep all rows. Clusters are
    kept in the same way by their total weight, and then one row of each, by the weights of its rows.
    """
    total = weight if clusters is None else np.bincount(clusters, weight)
    share = total / total.max()
    uniform = rng.random(len(total))
    if clusters is None or len(total) == len(weight):
        return slice(None) if (share == 1.0).all() else np.flatnonzero(uniform < share)
    order = np.argsort(clusters, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(total)])
    kept = np.flatnonzero(uniform < share)
    # Given that a cluster is kept, uniform / share is uniform again: it chooses the row.
    at = before[kept] + np.minimum(uniform[kept] / share[kept], 1.0 - 1e-9) * total[kept]
    chosen = np.searchsorted(np.cumsum(weight[order]), at, side="right")
    return np.sort(order[np.minimum(chosen, len(order) - 1)])


def resample_source(weight: Array, seed: int) -> np.random.Generator:
    """Generator of the resamples of scores and decisions in an audit with ``random_state=seed``.

    ``seed`` is the number drawn from the audit's ``random_state``.
    """
    return resample_sources(weight, seed, 0)[0]


def resample_sources(weight: Array, seed: int, n_probable: int) -> list[np.random.Generator]:
    """The same, followed by those of the attributes whose groups are known as probabilities."""
    rng = np.random.default_rng(seed)
    _thin_by_weight(weight, rng)
    return [np.random.default_rng(rng.integers(2**63)) for _ in range(1 + n_probable)]


def finish(case: Case) -> list[Finding]:
    """All findings, with p-values corrected for their number, those of tests and of attacks apart."""
    for section in ("tests", "attacks"):
        index = [i for i, finding in enumerate(case.findings) if finding.section == section]
        p_values = np.array([case.findings[i].p_value for i in index])
        for i, p in zip(index, holm(p_values), strict=True):
            case.findings[i] = replace(case.findings[i], p_adjusted=float(p))
    return case.findings


def unavailable_parts(data: Audited) -> dict[str, str]:
    """Parts that cannot be computed, with the reason."""
    space = data.representation
    sources = [source for source, _ in _sources(data)]
    out = {}
    if data.scores is None:
        out["scores"] = "needs scores"
    if not data.attributes:
        for part in ("tests", "attacks", "proxies", "certificate"):
            out[part] = "needs the group of each row, not probabilities"
    numeric = data.classes is None and data.target is not None and data.scores is not None
    if data.decided is None and data.probability is None and not numeric:
        out["decisions"] = "needs decisions, or y with probabilities or predictions"
    if not set(sources) - {"features"}:
        out["tests"] = "needs a score or a representation"
    if not sources:
        out["attacks"] = "needs features, a score or a representation"
    if space is None or space.coef is None or space.Z.shape[1] < 2:
        out["proxies"] = "needs a linear score of several coordinates"
    if space is None:
        out["certificate"] = "needs a representation"
    elif space.decides:
        out["certificate"] = "the model equalizes decisions, not functions"
    if space is None or space.psi is None or data.features is None or data.target is None:
        out["kernel"] = "needs a fairspan model, X and y"
    return out


def _sources(data: Audited) -> Iterator[tuple[str, Array]]:
    """Inputs of tests and attackers: features (a reference), score and representation."""
    if data.features is not None:
        yield "features", data.features
    if data.scores is not None:
        yield "score", data.scores
    space = data.representation
    if space is None or space.decides:  # the rule, whose margin is the score, uses other functions
        return
    if space.is_model_space and space.Z.shape[1] == 1 and data.scores is not None:
        return  # a single coordinate is the score again
    if not space.is_given and data.features is not None and _same(space.Z, data.features):
        return  # a linear model of the features themselves
    yield "representation", space.Z


def _same(Z: Array, X: Array) -> bool:
    """Whether the columns are equal up to location and scale."""
    if Z.shape != X.shape:
        return False
    a, b = (standardize(M, np.ones(len(M))) for M in (Z[:1000], X[:1000]))
    return bool(np.allclose(a, b, atol=1e-6))
