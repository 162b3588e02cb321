"""Time of an audit relative to the fit it audits.

python -m benchmarks.audit_cost      (a minute; CPU time, one BLAS thread)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tools.table import Measurement, at_most, show

from benchmarks.core import cpu
from fairspan import FairGPClassifier, audit

N, P, D = 100_000, 20, 1000


def make_people(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Labels of a smooth function, and three attributes: two groups, three groups, a number."""
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    age = rng.normal(40.0, 10.0, n)
    X = rng.normal(size=(n, P))
    X[:, 0] += sex
    X[:, 1] += race == "b"
    X[:, 2] += age / 20.0
    y = X[:, :3].sum(axis=1) + X[:, 3] ** 2 + rng.normal(size=n) > 3.0
    return X, y.astype(int), {"sex": sex, "race": race, "age": age}


def measurements() -> Iterator[Measurement]:
    """Default audit over default fit with D landmarks, both on the same rows."""
    X, y, sensitive = make_people(N)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Exclude numba's compilation, which happens once per machine.
        audit(
            y[:500] + 0.0,
            X[:500],
            y[:500],
            sensitive_features={"age": sensitive["age"][:500]},
            parts=["scores"],
        )
        model = FairGPClassifier(n_components=D, random_state=0, removal="training_rows")
        fit, _ = cpu(lambda: model.fit(X, y, sensitive_features=sensitive))
        found, _ = cpu(
            lambda: audit(model, X, y, sensitive_features=sensitive, random_state=0, verbose=1)
        )
    name = f"audit / fit of FairGPClassifier (D={D}), {N:,} rows, 3 attributes"
    yield at_most(name, found / fit, 3.0)


if __name__ == "__main__":
    sys.exit(show(measurements()))
