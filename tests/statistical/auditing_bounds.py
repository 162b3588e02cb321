"""How often the held-out bound, and the interval of a proxy, hold what was planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from fairspan.auditing.model_space import held_out_bound
from fairspan.auditing.proxy import proxy_component
from fairspan.auditing.reading import Protected

# (Z, attribute, cells, number of cells, weight) of one draw
Draw = tuple[np.ndarray, Protected, np.ndarray | None, int, np.ndarray]
CLUSTER_SIZE = 10


@dataclass(frozen=True)
class Coverage:
    """Share of draws in which every bound held, with the tightness of the first one."""

    kind: str
    rate: float
    truth: float
    supremum: float  # mean, in sample
    bound: float  # mean

    def __str__(self) -> str:
        return (
            f"{self.kind:<12} truth {self.truth:.3f}  mean supremum {self.supremum:.3f}  "
            f"mean bound {self.bound:.3f}  covered {self.rate:.3f}"
        )


def groups(codes: np.ndarray) -> Protected:
    labels = tuple("abcdefghij"[: codes.max() + 1])
    return Protected("s", "categorical", codes.astype(np.intp), labels)


def canonical(means: np.ndarray, mass: np.ndarray, within: np.ndarray) -> float:
    """Supremum of a mixture: group means, their probabilities, mean covariance within groups."""
    centred = means - mass @ means
    between = (centred.T * mass) @ centred
    squared = scipy.linalg.eigh(between, within + between, eigvals_only=True)[-1]
    return float(np.sqrt(max(squared, 0.0)))


def mixture(
    means: list[list[float]], mass: list[float], n: int, noise: str = "normal"
) -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """Groups that differ in mean only."""
    mu, p = np.array(means), np.array(mass)

    def draw(rng: np.random.Generator) -> Draw:
        s = rng.choice(len(p), n, p=p)
        return mu[s] + NOISES[noise](rng, (n, mu.shape[1])), groups(s), None, 1, np.ones(n)

    return draw, [canonical(mu, p, np.eye(mu.shape[1]))]


# Mean 0 and variance 1; the second has no fourth moment.
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t4": lambda rng, shape: rng.standard_t(4, size=shape) / np.sqrt(2.0),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1.0,
}


def uneven() -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """One rare group spreads widely along the one coordinate that tells it from the other.

    Correlations along that coordinate are three times as uncertain as along the others.
    """
    n, p, wide, shift = 1000, 0.1, 4.0, 0.5

    def draw(rng: np.random.Generator) -> Draw:
        s = (rng.random(n) < p).astype(int)
        Z = rng.normal(size=(n, 5))
        Z[:, 0] = np.where(s == 1, shift + wide * Z[:, 0], Z[:, 0])
        return Z, groups(s), None, 1, np.ones(n)

    within = np.eye(5)
    within[0, 0] = p * wide**2 + 1.0 - p
    return draw, [canonical(np.eye(5)[:1] * [[0.0], [shift]], np.array([1.0 - p, p]), within)]


def slices() -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """A normal attribute in five slices; one function follows it, one its square."""
    n, slopes = 600, np.array([0.2, 0.25])
    edges = scipy.stats.norm.ppf(np.arange(1, 5) / 5)

    def draw(rng: np.random.Generator) -> Draw:
        s = rng.normal(size=n)
        Z = np.column_stack([s, s**2]) * slopes + rng.normal(size=(n, 2))
        codes = np.searchsorted(edges, s).astype(np.intp)
        return Z, Protected("s", "continuous", codes, tuple("abcde"), s), None, 1, np.ones(n)

    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    density = scipy.stats.norm.pdf(ends)
    finite = np.where(np.isfinite(ends), ends, 0.0)
    first = -np.diff(density) * 5  # moments of a normal variable between two edges
    second = 1.0 - np.diff(finite * density) * 5
    mass, means = np.full(5, 0.2), np.column_stack([first, second]) * slopes
    total = np.eye(2) + np.diag(slopes**2 * [1.0, 2.0])
    centred = means - mass @ means
    return draw, [canonical(means, mass, total - (centred.T * mass) @ centred)]


def cells() -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """Two classes of y, in which two groups differ by different amounts; bounds hold jointly."""
    n, mass = 800, np.array([0.6, 0.4])
    means = np.array([[[0.0, 0.0], [0.6, 0.0]], [[0.0, 0.0], [0.0, 0.1]]])  # cell, group

    def draw(rng: np.random.Generator) -> Draw:
        y, s = rng.integers(0, 2, n), rng.choice(2, n, p=mass)
        Z = means[y, s] + rng.normal(size=(n, 2))
        return Z, groups(s), y.astype(np.intp), 2, np.ones(n)

    return draw, [canonical(m, mass, np.eye(2)) for m in means]


def weighted() -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """Rows are kept by chances that depend on S and Z, and weighted back."""
    n, mass = 800, np.array([0.5, 0.5])
    means = np.array([[0.0, 0.0], [0.4, 0.0]])

    def draw(rng: np.random.Generator) -> Draw:
        s = rng.choice(2, 4 * n, p=mass)
        Z = means[s] + rng.normal(size=(4 * n, 2))
        chance = 0.1 + 0.8 / (1.0 + np.exp(-Z[:, 0] - s))
        kept = np.flatnonzero(rng.random(4 * n) < chance)[:n]
        return Z[kept], groups(s[kept]), None, 1, 1.0 / chance[kept]

    return draw, [canonical(means, mass, np.eye(2))]


def planted(kind: str) -> tuple[Callable[[np.random.Generator], Draw], list[float]]:
    """How to draw rows, and the supremum of every cell."""
    if kind in ("uneven", "slices", "cells", "weighted"):
        return {"uneven": uneven, "slices": slices, "cells": cells, "weighted": weighted}[kind]()
    three = [[0.0, 0.0, 0.0], [0.5, 0.2, 0.0], [0.0, 0.4, -0.3]]
    forty = [[0.0] * 40, [0.3] + [0.0] * 39]
    return {
        "independent": lambda: mixture([[0.0], [0.0]], [0.7, 0.3], 400),
        "weak": lambda: mixture([[0.0], [0.2]], [0.7, 0.3], 400),
        "strong": lambda: mixture([[0.0], [3.0]], [0.7, 0.3], 400),
        "levels": lambda: mixture(three, [0.5, 0.3, 0.2], 600),
        "levels one": lambda: mixture([[0.0], [1.5], [3.0], [4.0]], [0.3, 0.3, 0.2, 0.2], 400),
        "none of 3": lambda: mixture([[0.0] * 3] * 3, [0.5, 0.3, 0.2], 600),
        "heavy": lambda: mixture([[0.0, 0.0], [0.5, 0.0]], [0.7, 0.3], 600, "t4"),
        "rare": lambda: mixture([[0.0], [0.5]], [0.95, 0.05], 1200, "exponential"),
        "many": lambda: mixture(forty, [0.5, 0.5], 1000),
    }[kind]()


KINDS = (
    "independent",
    "weak",
    "strong",
    "levels",
    "levels one",
    "none of 3",
    "heavy",
    "rare",
    "uneven",
    "many",
    "slices",
    "cells",
    "weighted",
)


def coverage(kind: str, draws: int = 500, seed: int = 0, level: float = 0.95) -> Coverage:
    """Share of draws in which no bound is below the supremum of the population."""
    draw, truths = planted(kind)
    held, suprema, bounds = [], [], []
    for i in range(draws):
        Z, attribute, codes, n_cells, weight = draw(np.random.default_rng([seed, i]))
        names = tuple("uvw"[:n_cells])
        found = held_out_bound(
            Z, [attribute], cells=codes, cell_names=names, weight=weight, level=level
        )
        held.append(all(b.bound >= truth for b, truth in zip(found, truths, strict=True)))
        suprema.append(found[0].supremum)
        bounds.append(found[0].bound)
    mean = float(np.mean(held)), float(np.mean(suprema)), float(np.mean(bounds))
    return Coverage(kind, mean[0], truths[0], mean[1], mean[2])


def proxy_coverage(n: int = 400, draws: int = 500, seed: int = 0) -> float:
    """How often the 95 % interval holds the correlation of the only component there is."""
    truth, held = 0.5 / np.sqrt(0.25 + 1.5**2), 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        s = rng.integers(0, 2, n)
        Z = (s + 1.5 * rng.normal(size=n))[:, None]
        found = proxy_component(Z, np.ones(1), groups(s), ["z"], weight=np.ones(n), rng=rng)
        held += found.low <= truth <= found.high
    return held / draws


@dataclass(frozen=True)
class ClusterCoverage:
    """Share of draws in which a bound or interval held, with independent rows assumed and by clusters."""

    rows: float
    clusters: float


def clustered_people(
    n: int, share: float, rng: np.random.Generator, features_share: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows (X, y, s, cluster) in clusters of ten that share s and half of the variance of the noise.

    ``features_share``: the features of a cluster share half of their variance within groups, too.
    """
    clusters = np.repeat(np.arange(n // CLUSTER_SIZE), CLUSTER_SIZE)
    n_clusters = len(clusters) // CLUSTER_SIZE

    def noise(*shape: int) -> np.ndarray:
        common = rng.normal(size=(n_clusters, *shape))[clusters]
        return np.sqrt(0.5) * (common + rng.normal(size=(n, *shape)))

    s = (rng.random(n_clusters) < share).astype(int)[clusters]
    X = (noise(5) if features_share else rng.normal(size=(n, 5))) + 0.5 * s[:, None]
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + noise(), s, clusters


def target_correlation(share: float) -> float:
    """Correlation of y and s in that population.

    With x = e + s/2, ``y = sum e + e0 e1 + (e0 + e1) s/2 + 11/4 s + noise``. The variance within a group is
    7 for s = 0, and ``3 + 2 (3/2)^2 + 2 = 9.5`` for s = 1.
    """
    difference = 5 * 0.5 + 0.25
    within = 7.0 + share * (2 * (1.5**2 - 1.0))
    spread = share * (1.0 - share)
    return float(difference * np.sqrt(spread) / np.sqrt(within + spread * difference**2))


def cluster_coverage(
    share: float, n: int = 1000, draws: int = 400, seed: int = 0, features_share: bool = False
) -> ClusterCoverage:
    """Coverage of the bound on the correlation of y and s, at 95 %."""
    truth, held = target_correlation(share), np.zeros(2)
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        _, y, s, clusters = clustered_people(n, share, rng, features_share)
        for j, together in enumerate((None, clusters)):
            (found,) = held_out_bound(
                y[:, None], [groups(s)], weight=np.ones(n), min_rows=5, clusters=together
            )
            held[j] += found.bound >= truth
    return ClusterCoverage(*(held / draws).tolist())


def lognormal_coverage(draws: int = 500, n: int = 4000, share: float = 0.01) -> tuple[float, float]:
    """Coverage with lognormal values in a 1 % group, and the share of draws with a caution."""
    scale, held, warned, known = np.sqrt((np.e - 1.0) * np.e), 0, 0, 0
    truth = canonical(np.array([[0.0], [0.5]]), np.array([1.0 - share, share]), np.eye(1))
    for i in range(draws):
        rng = np.random.default_rng([1, i])
        s = (rng.random(n) < share).astype(int)
        Z = (np.exp(rng.normal(size=n)) - np.exp(0.5)) / scale + 0.5 * s
        (found,) = held_out_bound(Z[:, None], [groups(s)], weight=np.ones(n))
        if np.isfinite(found.bound):
            known += 1
            held += found.bound >= truth
            warned += bool(found.caution)
    return held / known, warned / known


def main(draws: int = 400) -> None:
    """Print the coverage with clusters and with heavy tails."""
    for features_share in (False, True):
        for share in (0.5, 0.2):
            found = cluster_coverage(share, draws=draws, features_share=features_share)
            what = (
                "s, and half of the noise of x and y"
                if features_share
                else "s, and half of the noise of y"
            )
            print(
                f"clusters of ten share {what}; group of {share:.0%}: covered {found.rows:.3f} by rows, "
                f"{found.clusters:.3f} by clusters",
                flush=True,
            )
    covered, warned = lognormal_coverage(draws)
    print(f"lognormal values in a 1 % group: covered {covered:.3f}, caution in {warned:.0%}")


if __name__ == "__main__":
    main()
