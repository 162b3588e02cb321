"""Every criterion with nothing but its name: what a newcomer writes first."""

import numpy as np
import pytest

from fairspan import FairRepresentation

CRITERIA = ("sp", "eo", "eop", "conditional_statistical_parity", "proxy_nondiscrimination")


@pytest.mark.filterwarnings("ignore::fairspan.NumericalWarning")
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("removal", ["auto", "training_rows"])
def test_defaults_fit_every_criterion(criterion, task, removal, rng):
    n = 300
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + group[:, None] * [0.8, 0.0, 0.0]
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    y = (y > 1).astype(int) if task == "classes" else y
    extra = {}
    if criterion == "conditional_statistical_parity":
        extra = {"control_features": rng.choice(["own", "rent"], n)}
    model = FairRepresentation(criterion=criterion, random_state=0, removal=removal)
    if (criterion, task) == ("eop", "numbers"):
        with pytest.raises(ValueError, match="equalized_odds"):
            model.fit(X, y, sensitive_features=group)
        return
    model.fit(X, y, sensitive_features=group, **extra)
    if removal == "training_rows":
        assert model.certificate_.supremum < 1e-9
    else:
        blocks = model.certificate_.new_rows.blocks
        assert all(np.isfinite([b.low, b.correlation, b.high]).all() for b in blocks)
        if len(blocks) == 1 and all(d.weight == 1.0 for d in blocks[0].directions):
            assert blocks[0].correlation < 1e-8
    assert len(model.certificate_.blocks) == len(model.cells_)
