"""A random generator is not saved with a model."""

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import FairRidge


def test_a_generator_is_no_part_of_a_saved_model(tmp_path):
    pytest.importorskip("skops")
    from fairspan import load_model, save_model

    X, y, s = rows()
    generator = np.random.RandomState(0)
    model = FairRidge(**{**FEW, "random_state": generator}).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    assert model.random_state is generator
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
