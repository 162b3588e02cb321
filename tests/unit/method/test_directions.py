"""Weights with which directions of the codes are removed."""

import numpy as np

from fairspan.method.directions import removal_weights


def test_the_weight_of_a_direction_rises_with_its_squared_strength():
    strength = np.array([1.0, 2.0, np.sqrt(10.0), 4.0, 9.0])
    np.testing.assert_allclose(removal_weights(strength, 1, "auto"), [0.0, 0.0, 0.5, 1.0, 1.0])
    assert removal_weights(np.array([4.0]), 4, "auto")[0] == 0.0  # 2 sqrt(4)
    np.testing.assert_array_equal(removal_weights(strength, 1, "all"), np.ones(5))
    np.testing.assert_array_equal(removal_weights(strength, 5, 2), [1, 1, 0, 0, 0])
