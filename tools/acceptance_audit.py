"""Limits on the audit: planted effects, level, power, coverage, agreement, leakage, cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from benchmarks import audit_cost
from tests.statistical import (
    auditing_attack,
    auditing_bounds,
    auditing_dependence,
    auditing_gaps,
)

from fairspan.exceptions import DatasetError
from tools import leakage
from tools.table import Measurement, at_least, at_most, between, suite

DRAWS = 300


def measurements() -> Iterator[Measurement]:
    """All rows; a few minutes, mostly for rates over many draws."""
    units = ["tests/unit/auditing"]
    yield from suite("planted truths and laws of every part", units, 100)
    yield from suite(
        "the audit as a whole, and its commands",
        ["tests/test_audit.py", "tests/test_cli_audit.py"],
        60,
    )
    proxy = ["tests/unit/auditing/test_proxy.py", "-k", "all_faces or fine_search or of_a_share"]
    yield from suite("proxy search equals brute force", proxy, 3)
    yield from suite("equal to fairlearn", ["tests/test_audit_fairlearn.py"], 5)
    dcor = ["-m", "", "tests/statistical/test_auditing_dependence.py", "-k", "package_dcor"]
    yield from suite("equal to dcor", dcor, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from test_rows()
        yield from attack_rows()
        yield from bound_rows()
        yield from gap_rows()
        yield from leak_rows()
    yield from audit_cost.measurements()


def test_rows() -> Iterator[Measurement]:
    """Level and power of the tests; 300 draws at 5 % are 2.6 to 7.5 % in 95 % of cases."""
    level, power = auditing_dependence.level, auditing_dependence.power
    for statistic in ("hsic", "dcor"):
        for kind in ("two levels", "continuous"):
            rate = level(statistic, False, 200, DRAWS, kind=kind, n_permutations=199)
            yield between(f"{statistic}, {kind}: level at 5 %, permutations", rate, 0.02, 0.085)
            rate = level(statistic, False, 3000, DRAWS, kind=kind)
            yield between(f"{statistic}, {kind}: level at 5 %, blocks", rate, 0.02, 0.085)
        rate = level(statistic, True, 300, DRAWS, n_permutations=199)
        yield between(f"{statistic} given y: level where S acts through y", rate, 0.02, 0.085)
        rate = level(statistic, True, 300, 50, test_given=False, n_permutations=199)
        yield at_least(f"{statistic} not given y: the same is found", rate, 0.95)
        for what in ("linear", "square", "spread"):
            rate = power(statistic, what, 400, 50, n_permutations=199)
            yield at_least(f"{statistic}, planted {what}: power", rate, 0.9)


def attack_rows() -> Iterator[Measurement]:
    """Attackers find nothing where S is absent, and find S where it is present."""
    yield at_least("attack: interval holds a known AUC", auditing_attack.auc_coverage(200), 0.9)
    for attacker in ("linear", "kernel", "boosted"):
        rate = auditing_attack.blind_coverage(attacker, 100)
        yield at_least(f"attack, {attacker}: interval holds 0.5 where S is noise", rate, 0.9)
        rate = auditing_attack.power(attacker, 25, planted="shift")
        yield at_least(f"attack, {attacker}: power on a shift of a deviation", rate, 0.9)
        rate = auditing_attack.power(attacker, 25)
        if attacker == "linear":
            yield at_most("attack, linear: an interaction, which no line can see", rate, 0.15)
        else:
            yield at_least(f"attack, {attacker}: power on an interaction", rate, 0.9)


def bound_rows() -> Iterator[Measurement]:
    """Coverage of the held-out bound over 500 simulated samples, and its distance from the truth."""
    for kind in auditing_bounds.KINDS:
        found = auditing_bounds.coverage(kind, 500)
        name = f"bound, {kind}: covers {found.truth:.3f} (mean {found.bound:.3f})"
        yield at_least(name, found.rate, 0.93)
    for share in (0.5, 0.2):
        for features_share in (False, True):
            found = auditing_bounds.cluster_coverage(share, features_share=features_share)
            shared = "s, x and y" if features_share else "s and y"
            name = f"bound, clusters share {shared}, group of {share:.0%}: covers (by rows {found.rows:.2f})"
            yield at_least(name, found.clusters, 0.93)
    yield at_least(
        "proxy: interval holds a known correlation", auditing_bounds.proxy_coverage(), 0.93
    )


def gap_rows() -> Iterator[Measurement]:
    """Coverage of intervals for gaps, correlations and rates: the worst per population."""
    for kind in auditing_gaps.KINDS:
        worst = min(auditing_gaps.coverage(kind, DRAWS), key=lambda one: one.rate)
        yield at_least(f"intervals, {kind}: {worst.metric}", worst.rate, 0.9)
    for kind in auditing_gaps.DISTANCES:
        found = auditing_gaps.distance_coverage(kind, DRAWS)
        yield at_least(f"distance correlation, {kind}: interval holds it", found.rate, 0.93)


def leak_rows() -> Iterator[Measurement]:
    """The table of attacks on our representations and those of others is complete."""
    try:
        found = list(leakage.rows())
    except DatasetError as error:
        print(f"  leakage table: {error}", flush=True)
        return
    for row in found:
        numbers = "  ".join(f"{a.attacker} {a.value:.3f}" for a in row.attacks.values())
        print(
            f"  {row.data}, {row.attribute}, {row.representation}: {row.measure}  {numbers}",
            flush=True,
        )
    yield at_least("leakage table: data sets", len({row.data for row in found}), 5)
    yield at_least("leakage table: representations", len({r.representation for r in found}), 5)
    attacks = [a for row in found for a in row.attacks.values()]
    without = sum(not a.low <= a.high for a in attacks)
    yield at_most(f"leakage table: of {len(attacks)} numbers, without an interval", without, 0)
    lines = [r.attacks["linear"] for r in found if r.representation == "fairspan, model"]
    yield at_most(
        "leakage table: lines that see S in our model space", sum(a.sees for a in lines), 0
    )
