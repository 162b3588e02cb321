"""How often the independence tests of an audit reject: where nothing is planted, and where it is."""

from __future__ import annotations

import numpy as np

from fairspan.auditing.independence import independence_test
from fairspan.auditing.reading import Protected

LEVEL_KINDS = ("two levels", "five levels", "rare level", "continuous", "skewed")
PLANTED = ("linear", "groups", "square", "spread", "two columns")


def attribute(values: np.ndarray) -> Protected:
    """Floats are continuous, integers are levels."""
    if values.dtype.kind == "f":
        codes = (values > np.median(values)).astype(np.intp)
        return Protected("s", "continuous", codes, ("low", "high"), values)
    labels = tuple(str(level) for level in range(int(values.max()) + 1))
    return Protected("s", "categorical", values.astype(np.intp), labels)


def draw_attribute(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """An attribute that looks at nothing."""
    if kind == "continuous":
        return rng.normal(size=n)
    if kind == "skewed":
        return rng.lognormal(sigma=1.5, size=n)
    if kind == "rare level":
        return (rng.random(n) < 0.03).astype(np.intp)
    return rng.integers(0, {"two levels": 2, "five levels": 5}[kind], n)


def null_draw(kind: str, through_y: bool, n: int, rng: np.random.Generator):
    """f, s, y with f independent of s given y; ``through_y``: both depend on y."""
    y = rng.integers(0, 2, n)
    s = draw_attribute(kind, n, rng)
    f = rng.normal(size=n)
    if kind == "skewed":
        f = np.exp(1.5 * f)
    if through_y:
        f = f + 2.0 * y
        flipped = rng.random(n) < 0.3
        s = s + 1.0 * y if s.dtype.kind == "f" else np.where(flipped, s, y)
    return f[:, None], s, y


def planted_draw(what: str, n: int, strength: float, rng: np.random.Generator):
    """f and s that depend on each other: in the mean, or without any correlation."""
    noise = rng.normal(size=n)
    if what == "two columns":  # each column alone says nothing about s
        s = rng.integers(0, 2, n)
        sign = rng.choice([-1.0, 1.0], size=n)
        f = np.stack([sign, sign * np.where(s == 1, 1.0, -1.0)], axis=1)
        return strength * f + rng.normal(size=(n, 2)), s
    if what in ("linear", "square"):
        s = rng.normal(size=n)
        return (strength * (s if what == "linear" else s**2) + noise)[:, None], s
    s = rng.integers(0, 3, n)
    f = noise + strength * s if what == "groups" else noise * np.exp(strength * (s - 1.0))
    return f[:, None], s


def rejected(f, s, given, rng, statistic="hsic", alpha=0.05, **options) -> bool:
    """Does one test reject at this level?"""
    weight = options.pop("weight", np.ones(len(s)))
    found = independence_test(
        f, attribute(s), statistic=statistic, given=given, weight=weight, rng=rng, **options
    )
    return found.p_value <= alpha


def level(
    statistic: str,
    conditional: bool,
    n: int,
    draws: int,
    seed: int = 0,
    kind: str = "two levels",
    alpha: float = 0.05,
    test_given: bool = True,
    **options: object,
) -> float:
    """Share of null draws rejected, ``alpha`` if all is well.

    ``conditional``: f and s are independent given y only, and the test is told y, unless
    ``test_given`` is False, in which case it should reject (then this is a power).
    """
    wrong = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        f, s, y = null_draw(kind, conditional, n, rng)
        given = y if conditional and test_given else None
        wrong += rejected(f, s, given, rng, statistic, alpha, **options)
    return wrong / draws


def power(
    statistic: str,
    what: str,
    n: int,
    draws: int,
    seed: int = 0,
    strength: float = 0.5,
    conditional: bool = False,
    alpha: float = 0.05,
    **options: object,
) -> float:
    """Share of planted draws found; ``conditional``: with a coin for y as strata."""
    found = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        f, s = planted_draw(what, n, strength, rng)
        given = rng.integers(0, 2, n) if conditional else None
        found += rejected(f, s, given, rng, statistic, alpha, **options)
    return found / draws


def weighted_level(statistic: str, n: int, draws: int, seed: int = 0) -> tuple[float, float]:
    """Share rejected with weights that make f and s independent, and without them.

    Rows are drawn with f and s alike twice as often as apart; the weights undo it.
    """
    with_weight = without = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        s = rng.integers(0, 2, n)
        alike = rng.random(n) < 2 / 3
        f = np.where(alike, s, 1 - s) + 0.3 * rng.normal(size=n)
        weight = np.where(alike, 1.0, 2.0)
        with_weight += rejected(f[:, None], s, None, rng, statistic, weight=weight)
        without += rejected(f[:, None], s, None, rng, statistic)
    return with_weight / draws, without / draws
