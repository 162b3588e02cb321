"""The evidence of the Gaussian process and its gradient."""

import warnings

import numpy as np
import pytest
from tests.support.few import FEW, N, rows

from fairspan import DataWarning, FairGPRegressor


@pytest.mark.parametrize("constant", [False, True])
def test_evidence_is_the_same_with_its_gradient(constant):
    X, y, s = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = FairGPRegressor(**FEW, removal="training_rows").fit(
            X, np.ones(N) if constant else y, sensitive_features=s
        )
    value, slope = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(), rel=1e-9)
    theta = np.log([model.prior_precision_, model.noise_])
    for k, step in enumerate(1e-5 * np.eye(2)):
        up, down = (model.log_marginal_likelihood(theta + side * step) for side in (1.0, -1.0))
        assert slope[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)
