"""Gaussian or Laplacian kernel: ``python -m tools.kernel_choice``.

Prints out-of-fold squared errors on the training rows of one split of each table, at fairness 1 and 0, of the
member "kernel" of learners and of "auto"; test rows are not read. The kernel of ``FairClassifier("kernel")``
was chosen by it.
"""

from __future__ import annotations

import warnings

import numpy as np

from fairspan import FairClassifier, FairRegressor
from fairspan.estimators import learner_columns
from tools.boosting_settings import SEED
from tools.learners_tables import rows_of_fair


def main() -> None:
    """Print a line for each table, learner and kernel."""
    warnings.simplefilter("ignore")
    chosen = learner_columns.MEMBER_KERNEL
    for name, draw in rows_of_fair():
        rows = draw(SEED)
        kind = FairRegressor if np.asarray(rows.y).dtype.kind == "f" else FairClassifier
        for learner in ("kernel", "auto"):
            for kernel in ("rbf", "laplacian"):
                learner_columns.MEMBER_KERNEL = kernel
                model = kind(learner, random_state=0)
                model.fit(rows.X, rows.y, sensitive_features=rows.s)
                fair, free = (model._solution.new_rows.error(t) for t in (1.0, 0.0))
                print(f"{name:24s} {learner:8s} {kernel:10s} fair {fair:.5g}  free {free:.5g}")
    learner_columns.MEMBER_KERNEL = chosen


if __name__ == "__main__":
    main()
