"""The model that commands train."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from tests.support.borrowers import people

from fairspan.cli import training


def test_the_chosen_model_is_of_the_kind_that_was_said():
    frame = people().assign(code=np.arange(240) % 5)
    for kind, name in (("continuous", "FairGPRegressor"), ("categorical", "FairGPClassifier")):
        assert type(training.make_estimator("kernel", frame, "code", kind)).__name__ == name


def test_numbers_get_a_model_of_numbers():
    numbers = training.make_estimator("boosting", people(), "debt")
    assert type(numbers).__name__ == "FairRegressor"
    assert numbers.estimator == "boosting"
    with pytest.raises(ValueError, match="are for classes, but auto predicts"):
        training.make_estimator("auto", people(), "debt", equalize="decisions")
