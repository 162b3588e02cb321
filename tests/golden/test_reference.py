"""The library reproduces the golden numbers on synthetic inputs, and the tolerances would notice."""

from __future__ import annotations

import pytest

from tests.golden import compare
from tests.golden.cases import CASES, load_case
from tests.golden.compare import Removal

VARIANTS: list[tuple[str, Removal]] = [
    (name, removal)
    for name in CASES
    for removal in ("conditional", "exact")
    if removal in load_case(name).oracle
]
CONDITIONAL = [name for name, removal in VARIANTS if removal == "conditional"]


@pytest.mark.parametrize("name", CASES)
def test_authors_numbers(name: str) -> None:
    assert compare.misses(compare.reference(load_case(name))) == []


@pytest.mark.parametrize(("name", "removal"), VARIANTS)
def test_oracle_variant(name: str, removal: Removal) -> None:
    assert compare.misses(compare.variant(load_case(name), removal)) == []


@pytest.mark.parametrize("name", CASES)
def test_leading_eigenvalues(name: str) -> None:
    assert compare.misses(compare.leading_eigenvalues(load_case(name))) == []


@pytest.mark.parametrize("name", CASES)
def test_parts_and_estimator_are_one_method(name: str) -> None:
    """The parts the variants are composed of, with the paper's removal, are the estimator."""
    case = load_case(name)
    assert compare.misses(compare.variant(case, "paper", case.reference)) == []


# --------------------------------------------------------------------------------------------
# Negative controls: a slip of this size must miss, and clearly
# --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_notices_another_ridge(name: str) -> None:
    assert compare.worst_ratio(compare.reference(load_case(name), eta_factor=1 + 1e-4)) > 10


@pytest.mark.parametrize("name", CASES)
def test_notices_another_band(name: str) -> None:
    assert compare.worst_ratio(compare.reference(load_case(name), band_factor=1 + 1e-6)) > 10


@pytest.mark.parametrize("name", CONDITIONAL)
def test_notices_the_covariance_of_the_cell(name: str) -> None:
    case = load_case(name)
    assert compare.worst_ratio(compare.variant(case, "conditional", case.reference)) > 10


def test_nan_misses() -> None:
    found: compare.Deviations = {}
    compare.note(found, "f", [1.0, float("nan")], [1.0, 2.0], 1e-6)
    compare.note(found, "f", [1.0, 2.0], [1.0, 2.0], 1e-6)
    assert len(compare.misses(found)) == 1


def test_a_stored_null_matches() -> None:
    found: compare.Deviations = {}
    compare.note(found, "rho", [0.0, 2.0], [float("nan"), 2.0], 1e-6)
    assert found == {"rho": (0.0, 1e-6)}
