"""Predictive intervals hold what they promise where the model is the true one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.statistical.coverage import coverage, covered

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fairness", [0.0, 1.0])
@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_intervals_of_ninety_percent(subspace: str, fairness: float) -> None:
    assert 0.88 <= coverage(subspace, fairness) <= 0.92


@pytest.mark.parametrize("fairness", [0.0, 1.0])
def test_few_rows_show_what_the_model_space_leaves_out(fairness: float) -> None:
    """On 60 rows the d functions of the model space, taken for known, are too sure of themselves.

    All of F counts what is not known about the direction as well, and comes closer.
    """
    model, fair = (coverage(subspace, fairness, n=60) for subspace in ("model", "fair"))
    assert model < fair
    assert fair >= 0.86


def test_the_rate_is_of_new_rows() -> None:
    """One draw, so that the function itself is tested: shares of 50 rows."""
    rate = covered("fair", 1.0, 100, 50, np.random.default_rng(0))
    assert 0.7 <= rate <= 1.0
    assert rate * 50 == pytest.approx(round(rate * 50))
