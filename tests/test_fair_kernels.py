"""A machine trained on the fair kernel stays within the certificate, whichever machine it is."""

import numpy as np
import pytest
from sklearn.svm import SVC

from tests.support.fair_kernels import multiple_correlation, rows, worst


@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@pytest.mark.parametrize("fairness", [0.0, 0.4, 0.8, 1.0])
def test_every_machine_keeps_to_the_certificate(fairness, criterion):
    found, supremum = worst(fairness, criterion=criterion)
    for name, correlation in found.items():
        assert correlation <= supremum + 1e-9, name


@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_at_the_fair_end_no_machine_finds_the_groups(subspace, criterion):
    found, supremum = worst(1.0, criterion=criterion, subspace=subspace)
    assert supremum <= 1e-9
    assert max(found.values()) <= 1e-7


def test_the_plain_kernel_would_have_found_them():
    X, y, s = rows()
    score = SVC(gamma=0.3, C=3.0).fit(X, y).decision_function(X)
    assert multiple_correlation(score, s, np.ones(len(y), dtype=bool)) > 0.3
