"""How often the intervals of the attackers hold the truth, where the truth is known."""

from __future__ import annotations

import numpy as np
import scipy.stats

from fairspan.auditing.attackers import ATTACKERS, attack
from fairspan.auditing.reading import Protected

# Distance of the two groups' means; the best possible AUC is Phi(SHIFT / sqrt(2)).
SHIFT = 1.0
BEST_AUC = float(scipy.stats.norm.cdf(SHIFT / np.sqrt(2.0)))


def groups(codes: np.ndarray, n_levels: int = 2) -> Protected:
    """Levels as an attribute."""
    labels = tuple(str(h) for h in range(n_levels))
    return Protected("group", "categorical", codes.astype(np.intp), labels)


def shifted(n: int, shift: float, rng: np.random.Generator) -> tuple[np.ndarray, Protected]:
    """Two normal groups, 40 % and 60 %, whose means differ by ``shift`` along one of three axes."""
    s = (rng.random(n) < 0.6).astype(np.intp)
    Z = rng.normal(size=(n, 3))
    Z[:, 0] += shift * s
    return Z, groups(s)


def auc_coverage(draws: int = 200, seed: int = 0, n: int = 1500) -> float:
    """Share of draws whose 95 % interval of the linear attacker's AUC holds the best possible AUC.

    The linear attacker is the right model here, so what it loses by learning is small.
    """
    return _coverage("linear", SHIFT, BEST_AUC, draws, seed, n)


def blind_coverage(attacker: str, draws: int = 200, seed: int = 0, n: int = 600) -> float:
    """Share of draws whose interval reaches down to .5 where S is independent of Z.

    What matters is that nobody is accused: intervals wholly below .5 accuse nobody.
    """
    accused = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        Z, s = shifted(n, 0.0, rng)
        (found,) = attack(Z, s, attackers=(attacker,), weight=np.ones(n), rng=rng)
        accused += found.sees
    return 1.0 - accused / draws


def power(
    attacker: str, draws: int = 50, seed: int = 0, n: int = 600, planted: str = "interaction"
) -> float:
    """Share of draws in which the attacker sees a group.

    ``planted``: "shift" moves its mean by a standard deviation; only an "interaction" of two
    coordinates tells the other apart, which no line can see.
    """
    seen = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        Z, s = shifted(n, SHIFT, rng)
        if planted == "interaction":
            s = groups((Z[:, 1] * Z[:, 2] + rng.normal(size=n) > 0.0).astype(np.intp))
        (found,) = attack(Z, s, attackers=(attacker,), weight=np.ones(n), rng=rng)
        seen += found.sees
    return seen / draws


def _coverage(attacker: str, shift: float, truth: float, draws: int, seed: int, n: int) -> float:
    held = 0
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        Z, s = shifted(n, shift, rng)
        (found,) = attack(Z, s, attackers=(attacker,), weight=np.ones(n), rng=rng)
        held += found.low <= truth <= found.high
    return held / draws


__all__ = ["ATTACKERS", "BEST_AUC", "auc_coverage", "blind_coverage", "groups", "power", "shifted"]
