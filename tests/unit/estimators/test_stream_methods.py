"""partial_fit: first rows, places of rows without weight, and groups that come late."""

import numpy as np
import pytest
from tests.support.few import FEW, rows
from tests.support.small import FIXED, table

from fairspan import FairRepresentation, FairRidge


@pytest.mark.parametrize("cuts", [(), (30,), (1, 2), (20, 60)])
def test_blocks_keep_the_first_row_of_the_first(cuts):
    X, y, s = table()
    est = FairRepresentation(**FIXED, n_components=20, random_state=0)
    est.prepare(X, y, sensitive_features=s)
    for part in np.split(np.arange(len(X)), cuts):
        est.partial_fit(X[part], y[part], sensitive_features=s[part], solve=False)
    assert est.moments_.first_index == 0
    expected = est.pilot_.features.columns(X[:1])[0]
    np.testing.assert_allclose(est.moments_.first_row, expected, rtol=1e-12)


@pytest.mark.parametrize("cuts", [(1,), (33, 34, 70)])
def test_rows_without_weight_take_up_their_places(cuts):
    """Folds by place count every row given: wherever blocks are cut, a row's fold is the same."""
    X, y, s = table()
    weight = np.arange(len(X)) % 3.0

    def moments(cuts):
        # A fixed alpha would need no folds.
        est = FairRepresentation(gamma=0.5, eta=1e-3, n_components=20, random_state=0)
        est.prepare(X, y, sensitive_features=s, folds="position")
        for part in np.split(np.arange(len(X)), cuts):
            est.partial_fit(
                X[part],
                y[part],
                sensitive_features=s[part],
                sample_weight=weight[part],
                solve=False,
            )
        return est.moments_

    whole, parts = moments(()), moments(cuts)
    assert whole.n_folds > 1
    np.testing.assert_array_equal(parts.rows, whole.rows)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)


def test_a_stream_that_brought_one_group_alone_is_refused_until_the_other_comes():
    X, y, s = rows()
    model = FairRidge(**FEW, removal="training_rows").prepare(X, y, sensitive_features=s)
    first, rest = s == 0, s == 1
    model.partial_fit(X[first], y[first], sensitive_features=s[first], solve=False)
    with pytest.raises(ValueError, match="does not have two levels"):
        model.solve()
    model.partial_fit(X[rest], y[rest], sensitive_features=s[rest], solve=False)
    whole = FairRidge(**FEW, removal="training_rows").fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.solve().predict(X), whole.predict(X), rtol=1e-6, atol=1e-8)
