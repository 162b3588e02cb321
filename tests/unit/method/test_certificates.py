"""The supremum over a space of functions, and what a certificate says."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.certificates import BlockCertificate, Certificate
from fairspan.method.subspaces import supremum

SEEDS = st.integers(0, 2**32 - 1)


def moments(seed, d=4, r=2):
    """Covariance of d functions and with r whitened codes, from rows (so that R stays in [0, 1])."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, d + r))
    rows[:, :d] += rows[:, d:] @ rng.normal(size=(r, d))
    rows -= rows.mean(axis=0)
    codes = np.linalg.qr(rows[:, d:])[0] * np.sqrt(60)
    return rows[:, :d].T @ rows[:, :d] / 60, rows[:, :d].T @ codes / 60


def correlation(cov, delta, h):
    return np.linalg.norm(delta.T @ h) / np.sqrt(h @ cov @ h)


@given(SEEDS, st.integers(1, 5), st.integers(1, 3))
def test_no_function_exceeds_the_supremum_and_its_own_attains_it(seed, d, r):
    cov, delta = moments(seed, d, r)
    found, h = supremum(cov, delta)
    rng = np.random.default_rng(seed)
    assert correlation(cov, delta, h) == pytest.approx(found, abs=1e-10)
    assert all(correlation(cov, delta, g) <= found + 1e-10 for g in rng.normal(size=(50, d)))


def test_a_function_that_is_constant_in_the_cell_is_left_out():
    cov, delta = moments(0, 3)
    wide = np.zeros((4, 4))
    wide[:3, :3] = cov
    found, h = supremum(wide, np.vstack([delta, np.ones(2)]))
    assert found == pytest.approx(supremum(cov, delta)[0], abs=1e-12)
    assert h[3] == 0.0


@pytest.mark.parametrize(
    ("cov", "delta"),
    [
        (np.zeros((0, 0)), np.zeros((0, 2))),
        (np.zeros((2, 2)), np.zeros((2, 1))),
        (np.zeros((1, 1)), np.zeros((1, 1))),
        (np.eye(2), np.zeros((2, 0))),
    ],
    ids=["no function", "constant functions", "one constant function", "no code"],
)
def test_nothing_to_correlate_is_zero(cov, delta):
    assert supremum(cov, delta)[0] == 0.0


def block(cell, attribute, coding, **changes):
    fields = {"supremum": 0.0, "score": 0.0, "n_rows": 90, "n_removed": 1, "n_codes": 1}
    fields |= {"constrained": True} | changes
    return BlockCertificate(cell=cell, attribute=attribute, coding=coding, **fields)


@pytest.fixture
def certificate():
    blocks = (
        block("all rows", "sex", "levels", supremum=2e-16, score=1e-16, n_rows=100),
        block("all rows", "age", "slices", supremum=0.125, score=0.1, n_removed=2, n_codes=9),
        block("all rows", "age", "value", constrained=False, supremum=0.5, score=0.4, n_removed=0),
    )
    angles = np.array([0.1])
    return Certificate(
        criterion="statistical_parity",
        fairness=0.7,
        dial="angle",
        blocks=blocks,
        cosines=np.cos(angles),
        angles=angles,
        containment_gap=0.1,
        accuracy_gap=0.2,
        n_functions=1,
    )


def test_only_constrained_blocks_count(certificate):
    assert (certificate.supremum, certificate.score) == (0.125, 0.1)


def test_the_certificate_prints_a_table_and_one_sentence(certificate):
    text = str(certificate)
    assert text.count("\n") == 6
    assert "statistical_parity, fairness 0.7 on the angle dial" in text
    assert "by more than 0.125." in text
    assert "n_sensitive_directions='all' reaches 0" in text
    assert "age        slice means        0.125       0.100   2 of 9   90" in text
    assert "linear (reported)" in text


def test_the_certificate_says_what_it_does_not_cover(certificate):
    blocks = (
        block("y=0", "race", "levels", left_out=("other",)),
        block("y=1", "race", "none", constrained=False, n_rows=7, n_removed=0, n_codes=0),
    )
    text = str(replace(certificate, blocks=blocks))
    assert "NOT constrained, too few rows or no variation: race in y=1." in text
    assert "NOT covered, too few rows or too little weight: race=other in y=0." in text
    assert "y=1   race       not constrained  ?" in text
    assert "only the mean of y is left" in str(replace(certificate, n_functions=0))


def test_the_certificate_is_plain_json(certificate):
    out = json.loads(json.dumps(certificate.to_dict()))
    assert out["blocks"][1]["supremum"] == 0.125
    assert out["angles"] == [0.1]


@pytest.mark.parametrize("d", [1, 3])
def test_without_codes_there_is_no_correlation(d):
    found, weights = supremum(np.eye(d), np.zeros((d, 0)))
    assert found == 0.0
    np.testing.assert_array_equal(weights, np.zeros(d))
