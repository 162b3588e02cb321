"""Labels and scores given to metrics."""

import numpy as np
import pytest

from fairspan.metrics.inputs import read_labels, read_scores


@pytest.mark.parametrize("read", [read_labels, read_scores])
def test_ragged_lists_are_refused_by_name(read):
    with pytest.raises(ValueError, match=r"mine (holds|has).*several lengths"):
        read([[1.0], [1.0, 2.0]], "mine")


def test_a_column_of_labels_is_labels():
    np.testing.assert_array_equal(read_labels(np.array([["a"], ["b"]]), "y"), ["a", "b"])
