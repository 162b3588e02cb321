"""scikit-learn's own estimator checks: no expected failure, and we count what ran.

The checks call ``fit(X, y)``, which fairspan refuses without S: `tests.support.hashed` fills S in.
"""

import os
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils import estimator_checks, get_tags

from fairspan import FairRepresentation
from tests.support.hashed import Hashed

ROOT = Path(__file__).resolve().parents[1]


class HashedFairRepresentation(Hashed, FairRepresentation):
    pass


FIXED = {"gamma": 0.5, "eta": 1e-3, "alpha": 1.0}
VARIANTS = {
    "default": {},
    "fixed": FIXED,
    "fair": {**FIXED, "subspace": "fair"},
    "rkhs": {**FIXED, "method": "rkhs"},
    "paper": {"gamma": 0.5, "eta": 1e-3, "method": "paper"},
    "correlation dial": {**FIXED, "dial": "correlation", "fairness": 0.9},
    "linear": {"kernel": "linear", "eta": 1e-3, "alpha": 1.0},
}
EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
SPARSE_EQUIVALENCE = "check_sample_weight_equivalence_on_sparse_data"
# Checks with a test of their own below, and why.
ELSEWHERE = {
    "check_array_api_input": "SciPy reads SCIPY_ARRAY_API once, when it is imported",
    EQUIVALENCE: "it leaves 9 rows of positive weight, and two groups of 5 need 10",
    SPARSE_EQUIVALENCE: "the same, for estimators that take sparse rows",
}
# The tables of the checks are tiny: groups of fewer than 5 rows, one feature that is S and y alike.
TINY = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


def run_checks(estimator, only=None):
    """Outcome of each check by name: None if it passed, else what it raised."""
    outcome = {}
    for instance, check in estimator_checks.estimator_checks_generator(estimator):
        name = check.func.__name__
        if name not in ELSEWHERE if only is None else name == only:
            try:
                check(instance)
            except (Exception, SkipTest) as error:
                outcome[name] = error
            else:
                outcome.setdefault(name, None)
    return outcome


@TINY
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_check_passes(variant):
    outcome = run_checks(HashedFairRepresentation(**VARIANTS[variant]))
    troubled = {name: error for name, error in outcome.items() if error is not None}
    assert not troubled  # neither failed nor skipped
    assert len(outcome) >= 50, f"scikit-learn ran {len(outcome)} checks only"
    assert {
        "check_fit_score_takes_y",
        "check_methods_subset_invariance",
        "check_n_features_in_after_fitting",
        "check_sample_weights_not_overwritten",
        "check_transformer_general",
    } <= set(outcome)
    tags = get_tags(HashedFairRepresentation(**VARIANTS[variant]))
    assert tags.input_tags.sparse == (variant == "linear")


# These checks fit on a frame and transform an array, and the other way round.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@TINY
@pytest.mark.parametrize("variant", ["default", "fair"])
@pytest.mark.parametrize(
    "check",
    [
        "check_dataframe_column_names_consistency",
        "check_global_output_transform_pandas",
        "check_global_set_output_transform_polars",
        "check_inplace_ensure_writeable",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
    ],
)
def test_checks_that_scikit_learn_keeps_for_its_own(check, variant):
    estimator = HashedFairRepresentation(**VARIANTS[variant])
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


# Without "default", whose automatic choices count rows and not copies, and without "paper", which
# turns its signs by the first row, while the check shuffles the rows.
@TINY
@pytest.mark.parametrize("variant", sorted(set(VARIANTS) - {"default", "paper"}))
def test_the_weight_equivalence_check_passes(variant, monkeypatch):
    # Groups of one row are allowed here: the check leaves 9 rows with a weight above zero.
    for name, module in list(sys.modules.items()):
        if name.startswith("fairspan.") and hasattr(module, "MIN_ROWS"):
            monkeypatch.setattr(module, "MIN_ROWS", 1)
    estimator = HashedFairRepresentation(**VARIANTS[variant])
    assert run_checks(estimator, only=EQUIVALENCE) == {EQUIVALENCE: None}
    sparse = {SPARSE_EQUIVALENCE: None} if variant == "linear" else {}
    assert run_checks(estimator, only=SPARSE_EQUIVALENCE) == sparse


@pytest.mark.parametrize("variant", sorted(set(VARIANTS) - {"default"}))
def test_weights_are_copies_on_a_table_of_usual_size(variant, rng):
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 60)
    weight = rng.integers(0, 4, 60)
    weight[0] = 1  # the first row stays the first
    params = {**VARIANTS[variant], "removal": "training_rows"}  # copies may fall into several folds
    weighted = HashedFairRepresentation(**params).fit(X, y, sample_weight=weight)
    copies = HashedFairRepresentation(**params).fit(X.repeat(weight, 0), y.repeat(weight))
    np.testing.assert_allclose(weighted.transform(X), copies.transform(X), rtol=1e-7, atol=1e-9)


def test_the_array_api_check_passes():
    code = (
        "from tests.test_estimator_checks import HashedFairRepresentation, run_checks;"
        "print(run_checks(HashedFairRepresentation(), only='check_array_api_input'))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Old versions of scikit-learn do not have the check: nothing ran, nothing failed.
    assert done.stdout.strip() in ("{'check_array_api_input': None}", "{}"), done.stderr
