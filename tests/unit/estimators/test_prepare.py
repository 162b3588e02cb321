"""Targets that a fit refuses or has nothing to learn from."""

import numpy as np
import pytest
from tests.support.few import FEW, N, rows

from fairspan import DataWarning, FairRidge


def test_n_slices_of_distinct_values_need_values_that_repeat():
    X, y, s = rows()
    model = FairRidge(**FEW, criterion="eo", n_slices="distinct")
    with pytest.raises(ValueError, match=rf"{N} slices for {N} rows.*round y"):
        model.fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("wanted", ["auto", "test", 1])
def test_directions_of_a_target_that_does_not_vary_are_none(wanted):
    X, _, s = rows()
    model = FairRidge(**FEW, n_predictive_directions=wanted)
    with pytest.warns(DataWarning, match="y is constant") as said:
        model.fit(X, np.full(N, 7.0), sensitive_features=s)
    assert len(said) == 1
    np.testing.assert_allclose(model.predict(X), np.full(N, 7.0), rtol=1e-15)
