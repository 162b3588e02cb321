"""How often the intervals of an audit hold the gaps and correlations that were planted."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from fairspan import audit

Draw = dict[str, np.ndarray]
# (metric, group or "") -> its value in the population
Truths = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Coverage:
    """One interval over many draws."""

    kind: str
    metric: str
    truth: float
    rate: float  # share of draws whose interval holds the truth
    known: float  # share of draws with an interval at all; the others do not count in ``rate``
    value: float  # mean estimate
    width: float  # mean

    def __str__(self) -> str:
        return (
            f"{self.kind:<24} {self.metric:<32} truth {self.truth:.3f}  mean {self.value:.3f}  "
            f"mean width {self.width:.3f}  covered {self.rate:.3f}"
        )


@dataclass(frozen=True)
class Planted:
    """A population of groups that differ in mean score, in decisions and in calibration.

    Attributes
    ----------
    mass : probability of each group.
    mean : mean score of each group; it is normal with variance 1 around it.
    rates : (2, groups) chance of a positive decision where y is 0, and where it is 1.
    honest : slope of the true probability in the promised one, 1 where it is calibrated.
    weighted : rows carry random weights that have nothing to do with the rest.
    """

    mass: tuple[float, ...]
    mean: tuple[float, ...]
    rates: tuple[tuple[float, ...], tuple[float, ...]]
    honest: tuple[float, ...]
    weighted: bool = False

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        s = rng.choice(len(self.mass), n, p=self.mass)
        promised = rng.random(n)
        y = rng.random(n) < 0.5 + np.array(self.honest)[s] * (promised - 0.5)
        decided = rng.random(n) < np.array(self.rates)[y.astype(int), s]
        weight = rng.exponential(size=n) + 0.2 if self.weighted else np.ones(n)
        score = np.array(self.mean)[s] + rng.normal(size=n)
        return {
            "s": np.array(list("abcdefghij"))[s],
            "promised": promised,
            "y": y.astype(int),
            "decided": decided.astype(int),
            "score": score,
            "weight": weight,
        }

    def truths(self) -> Truths:
        p, mu, q = np.array(self.mass), np.array(self.mean), np.array(self.rates)
        off = mu - p @ mu
        between = float(p @ off**2)
        corr = np.abs(off) * np.sqrt(p / (1.0 - p)) / np.sqrt(1.0 + between)
        # y is 1 with chance 1/2 in every group, whatever its slope
        selected = q.mean(axis=0)
        right = (q[1] + 1.0 - q[0]) / 2.0
        precision = q[1] / q.sum(axis=0)
        out = {
            "statistical_parity_correlation": corr.max(),
            "equal_opportunity_correlation": corr.max(),
            "equalized_odds_correlation": corr.max(),
            "correlation_ratio": np.sqrt(between / (1.0 + between)),
            "demographic_parity_difference": np.ptp(selected),
            "demographic_parity_ratio": selected.min() / selected.max(),
            "equal_opportunity_difference": np.ptp(q[1]),
            "equalized_odds_difference": np.ptp(q, axis=1).max(),
            "predictive_parity_difference": np.ptp(precision),
            "accuracy_difference": np.ptp(right),
        }
        found = {(name, ""): float(value) for name, value in out.items()}
        found["selection_rate", "a"] = float(selected[0])
        found["true_positive_rate", "a"] = float(q[1, 0])
        found["positive_predictive_value", "a"] = float(precision[0])
        # tenths of a uniform lie on one side of 1/2, where the distance is 1/4 on average
        found["calibration_error", "a"] = (1.0 - self.honest[0]) / 4.0
        found["calibration_difference", ""] = 0.0
        found["calibration_in_the_large", "a"] = 0.0
        return found


def _equal(k: int, **changes: object) -> Planted:
    fair = {
        "mass": (1.0 / k,) * k,
        "mean": (0.0,) * k,
        "rates": ((0.3,) * k, (0.7,) * k),
        "honest": (1.0,) * k,
    }
    return Planted(**{**fair, **changes})  # type: ignore[arg-type]


KINDS: dict[str, Planted] = {
    "parity, 2 groups": _equal(2),
    "parity, 5 groups": _equal(5),
    "parity, uneven": _equal(5, mass=(0.1, 0.15, 0.2, 0.25, 0.3)),
    "parity, weighted": _equal(2, weighted=True),
    "gap, 2 groups": _equal(
        2, mean=(0.0, 0.6), rates=((0.2, 0.35), (0.6, 0.8)), honest=(0.6, 1.0)
    ),
    "gap, 5 groups": _equal(
        5, mean=(0.0, 0.1, 0.2, 0.4, 0.6), rates=((0.2, 0.2, 0.25, 0.3, 0.35), (0.6, 0.6, 0.7, 0.7, 0.8)),
        honest=(0.6, 0.7, 0.8, 0.9, 1.0),
    ),
    "gap, weighted": _equal(
        5, mean=(0.0, 0.1, 0.2, 0.4, 0.6), rates=((0.2, 0.2, 0.25, 0.3, 0.35), (0.6, 0.6, 0.7, 0.7, 0.8)),
        honest=(0.6, 0.7, 0.8, 0.9, 1.0), weighted=True,
    ),
    # often nobody of a group is selected in the sample, and somebody is in the population
    "rare, 2 groups": _equal(2, mass=(0.15, 0.85), rates=((0.01, 0.05), (0.03, 0.15))),
}  # fmt: skip

# Correlations of a bivariate normal, and a dependence without correlation.
DISTANCES: dict[str, float | None] = {
    "independent": 0.0,
    "line": 0.3,
    "strong line": 0.7,
    "bend": None,
}


def coverage(
    kind: str,
    draws: int = 300,
    seed: int = 0,
    n: int = 600,
    level: float = 0.95,
    n_boot: int = 300,
) -> list[Coverage]:
    """Every interval of one population."""
    planted = KINDS[kind]

    def found(rng: np.random.Generator) -> dict[tuple[str, str], tuple[float, float, float]]:
        rows = planted.draw(n, rng)
        common = {
            "y": rows["y"],
            "sensitive_features": {"s": rows["s"]},
            "parts": ["scores", "decisions"],
            "sample_weight": rows["weight"] if planted.weighted else None,
            "level": level,
            "n_boot": n_boot,
            "min_rows": 10,
            "random_state": int(rng.integers(2**31)),
        }
        first = audit(rows["score"], decisions=rows["decided"], **common)
        second = audit(rows["promised"], **common)
        calibration = [f for f in second.findings if f.metric.startswith("calibration")]
        return {
            (f.metric, f.group): (f.value, f.low, f.high)
            for f in (*first.findings, *calibration)
            if f.attribute == "s"
        }

    return _measure(kind, planted.truths(), found, draws, seed)


def distance_coverage(
    kind: str,
    draws: int = 300,
    seed: int = 0,
    n: int = 600,
    level: float = 0.95,
    n_boot: int = 200,
) -> Coverage:
    """The interval of a distance correlation."""
    rho = DISTANCES[kind]
    truth = _bend_truth() if rho is None else _normal_distance_correlation(rho)

    def found(rng: np.random.Generator) -> dict[tuple[str, str], tuple[float, float, float]]:
        s, noise = rng.normal(size=(2, n))
        score = _bend(s, noise) if rho is None else rho * s + np.sqrt(1.0 - rho**2) * noise
        one = audit(
            score,
            sensitive_features={"s": s},
            parts=["scores"],
            level=level,
            n_boot=n_boot,
            random_state=int(rng.integers(2**31)),
        ).select(metric="distance_correlation")[0]
        return {("distance_correlation", ""): (one.value, one.low, one.high)}

    return _measure(kind, {("distance_correlation", ""): truth}, found, draws, seed)[0]


def _bend(s: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return s**2 + noise


@cache
def _bend_truth() -> float:
    """By a sample so large that its own error is below a tenth of an interval's width."""
    from fairspan.auditing import distance_correlation

    s, noise = np.random.default_rng(1).normal(size=(2, 400_000))
    return distance_correlation(_bend(s, noise), s, np.ones(len(s)))


def _normal_distance_correlation(rho: float) -> float:
    """Szekely, Rizzo and Bakirov 2007, theorem 7."""
    top = (
        rho * np.arcsin(rho) + np.sqrt(1 - rho**2) - rho * np.arcsin(rho / 2)
        - np.sqrt(4 - rho**2) + 1
    )  # fmt: skip
    return float(np.sqrt(max(top, 0.0) / (1 + np.pi / 3 - np.sqrt(3))))


def _measure(
    kind: str,
    truths: Truths,
    found: Callable[[np.random.Generator], dict[tuple[str, str], tuple[float, float, float]]],
    draws: int,
    seed: int,
) -> list[Coverage]:
    each = [found(np.random.default_rng([seed, i])) for i in range(draws)]
    out = []
    for key, truth in truths.items():
        value, low, high = np.array([one[key] for one in each]).T
        known = np.isfinite(low) & np.isfinite(high)
        if not known.any():  # groups too small, always
            continue
        # truths at an end of the range are met up to rounding
        held = (low[known] <= truth + 1e-9) & (truth - 1e-9 <= high[known])
        metric = key[0] + (f" of {key[1]}" if key[1] else "")
        out.append(
            Coverage(
                kind,
                metric,
                truth,
                float(held.mean()),
                float(known.mean()),
                float(np.nanmean(value)),
                float((high - low)[known].mean()),
            )
        )
    return out


def main(kinds: Iterable[str] | None = None, draws: int = 300) -> None:
    """Print every rate."""
    for kind in kinds or KINDS:
        for one in coverage(kind, draws):
            print(one, flush=True)
    for kind in DISTANCES:
        print(distance_coverage(kind, draws), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    main(given.kinds, given.draws)
