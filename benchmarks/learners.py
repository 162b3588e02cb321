"""A stack of learners on a million rows: ``python -m benchmarks.learners``.

Prints seconds and the largest memory of a fit of ``FairClassifier("auto", n_jobs=2)`` on 1,000,000 rows of 30
columns, and the dependence that is left on new rows. Once, on two cores; the output is in
benchmarks/results/learners-million.txt.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

from fairspan import FairClassifier


def rows(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Thirty columns, of which s shifts ten; y depends on half of them and on a product."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 30))
    X[:, :10] += 0.3 * s[:, None]
    score = X[:, ::2].sum(axis=1) + X[:, 0] * X[:, 1] + 2.0 * rng.normal(size=n)
    return X, (score > np.median(score)).astype(int), s


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    X, y, s = rows(n, 0)
    start = time.perf_counter()
    model = FairClassifier(n_jobs=2, random_state=0).fit(X, y, sensitive_features=s)
    seconds = time.perf_counter() - start
    used = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    Z, truth, group = rows(100_000, 1)
    print(f"rows {n}, columns {X.shape[1]}, n_jobs 2")
    print(f"seconds of the fit        {seconds:8.0f}   <= 900")
    print(f"memory, GB (own, largest child) {used[0] / 2**20:.1f}, {used[1] / 2**20:.1f}")
    for fairness in (0.0, 1.0):
        at = model.at(fairness)
        left = np.corrcoef(at.decision_function(Z), group)[0, 1]
        print(
            f"fairness {fairness:.0f}: error {np.mean(at.predict(Z) != truth):.4f}, correlation {left:+.4f}"
        )


if __name__ == "__main__":
    main()
