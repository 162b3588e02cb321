"""How often ``FairEraser(order=2)`` drops a direction without need: ``python -m tools.eraser_chance``.

Groups do not depend on the 3,000 vectors, so covariances are equal. The automatic number of directions is
that of normal vectors; heavy tails and rare flags show what happens to others. Three minutes on one core.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fairspan import FairEraser
from tools.table import Measurement, at_most, show

_ROWS, _FITS = 3000, 200
DRAWS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.12),
    "t with 5 degrees": (lambda rng, shape: rng.standard_t(5, size=shape), 1.0),
    "flags, 3 % of them 1": (lambda rng, shape: (rng.random(shape) < 0.03) * 1.0, 1.0),
}


def measurements() -> Iterator[Measurement]:
    """Share of fits that drop a direction because of covariances, which are equal."""
    for name, (draw, limit) in DRAWS.items():
        for groups, numbers in ((2, 5), (2, 20), (3, 5), (3, 20), (10, 20)):
            found = 0
            for seed in range(_FITS):
                X = draw(np.random.default_rng(seed), (_ROWS, numbers))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    eraser = FairEraser(2).fit(X, sensitive_features=np.arange(_ROWS) % groups)
                found += eraser.n_removed_ > groups - 1
            title = f"{name}, {groups} groups, {numbers} numbers: fits that drop one"
            yield at_most(title, found / _FITS, limit)


if __name__ == "__main__":
    sys.exit(show(measurements()))
