"""Finding the representation of a model that is audited."""

import numpy as np
import pytest

from fairspan.auditing.reading import find_representation


@pytest.mark.parametrize(
    "X", [np.array([["a", "b"]] * 4), np.ones((4, 3)), np.full((4, 2), np.nan)]
)
def test_a_model_that_is_not_linear_in_what_it_gets_shows_nothing(X):
    class Encodes:
        coef_ = np.ones(2)

    assert find_representation(Encodes(), X, None) is None
    shown = find_representation(Encodes(), np.eye(2), None)
    np.testing.assert_array_equal(shown.Z, np.eye(2))
