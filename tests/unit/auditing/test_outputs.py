"""Labels and scores of an audited model: checked, and turned to the positive class."""

import numpy as np
import pytest

from fairspan.auditing.outputs import Outputs, codes_of


def test_labels_that_are_not_among_the_classes_are_refused():
    with pytest.raises(ValueError, match="decisions holds labels that are not among"):
        codes_of(np.array(["a", "x"]), np.array(["a", "b"]), "decisions")


def test_of_a_score_for_each_class_the_positive_ones_is_taken(rng):
    scores, classes = rng.normal(size=(9, 3)), np.array(["a", "b", "c"])
    outputs = Outputs("m", scores, classes=classes)
    for k in range(3):
        np.testing.assert_array_equal(outputs.oriented(classes, (k,)), scores[:, [k]])
    np.testing.assert_array_equal(outputs.oriented(classes, (0, 1, 2)), scores)
    one = Outputs("m", scores[:, :1], classes=classes[:2])
    np.testing.assert_array_equal(one.oriented(classes[:2], (0,)), -scores[:, :1])
