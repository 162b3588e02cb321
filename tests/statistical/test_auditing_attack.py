"""Attackers accuse nobody without reason, and their intervals hold what they promise."""

from __future__ import annotations

import pytest

from fairspan.auditing.attackers import ATTACKERS
from tests.statistical.auditing_attack import auc_coverage, blind_coverage, power

pytestmark = pytest.mark.slow


def test_intervals_hold_a_known_auc() -> None:
    assert auc_coverage() >= 0.90


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_attackers_of_an_independent_attribute_are_blind(attacker: str) -> None:
    assert blind_coverage(attacker, draws=100) >= 0.92


@pytest.mark.parametrize(
    ("attacker", "least", "most"),
    [
        ("linear", 0.0, 0.15),
        ("kernel", 0.95, 1.0),
        ("boosted", 0.95, 1.0),
    ],
)
def test_an_interaction_is_seen_by_those_who_can(attacker: str, least: float, most: float) -> None:
    assert least <= power(attacker) <= most


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_a_shift_is_seen_by_all(attacker: str) -> None:
    assert power(attacker, draws=25, planted="shift") >= 0.95
