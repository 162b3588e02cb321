"""The audit itself: which parts can be made of what was given, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from fairspan.auditing import _parts
from fairspan.auditing._dependence import holm
from fairspan.auditing._findings import Finding
from fairspan.auditing._parts import Case, Evidence, Settings
from fairspan.auditing._read import Audited
from fairspan.method.linalg import Array

__all__ = ["finish", "gather", "not_made"]

Step = tuple[str, Callable[[], None]]


def gather(
    data: Audited, settings: Settings, rng: np.random.Generator
) -> tuple[Evidence, list[Step]]:
    """Steps, each with a name for a progress bar, that fill the evidence in."""
    views = list(_views(data))
    tested = [(one, what, Z) for one in data.attributes for what, Z in views if what != "features"]
    settings = _enough_permutations(settings, len(tested) * (2 if data.target is None else 4))
    case = Case(data, settings, Evidence([], [], []), _drawn(data.weight, rng))
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


def _drawn(weight: Array, rng: np.random.Generator) -> Any:
    """Rows that stand for the weighted population without weights: each kept with its chance."""
    chance = weight / weight.max()
    kept = rng.random(len(weight)) < chance
    return slice(None) if (chance == 1.0).all() else np.flatnonzero(kept)


def _enough_permutations(settings: Settings, n_tests: int) -> Settings:
    """So many that a test can reject even after the correction for all of them."""
    least = ceil(2.0 * n_tests / (1.0 - settings.level))
    return replace(settings, n_permutations=max(settings.n_permutations, least))
