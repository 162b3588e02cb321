"""Rows of learners without a protected attribute: whether the features predict which (METHOD 12)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairspan.method.accumulate import MomentsPass
from fairspan.method.certificates import MissingSensitive
from fairspan.method.features import TransformerMap
from fairspan.method.folds import GivenFolds
from fairspan.method.missingness import describe_missing, rows_with, warn_of_missing
from fairspan.method.new_rows import MIN_FOLD_ROWS
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.sdr import kfold_errors, ridge_grid

__all__ = ["describe_missing_s"]


def describe_missing_s(pilot: Pilot, data: Data, folds: Codes) -> tuple[MissingSensitive, ...]:
    """Test by linear regressions on the features whether X predicts which rows have S, and warn if so.

    Raises ValueError if a fold has too few rows with an attribute.
    """
    if not any(attribute.missing.any() for attribute in data.sensitive.values()):
        return ()
    sd = data.X.std(axis=0)
    X = (data.X - data.X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
    pilot = replace(pilot, features=TransformerMap(None, X.shape[1]))
    row_pass = MomentsPass(pilot, pilot.empty_moments())
    row_pass.add(replace(data, X=np.ascontiguousarray(X)), GivenFolds(pilot.n_folds, folds))
    by_fold = row_pass.moments().over_cells()
    for j, coder in enumerate(pilot.coders):
        known = rows_with(by_fold, j)
        if known.sum() < data.n and 2 * known.min() < MIN_FOLD_ROWS:
            raise ValueError(
                f"sensitive_features {coder.name!r} is known for {int(known.sum())} rows, "
                f"{int(known.min())} of them in the smallest of {len(known)} folds; removal on new rows "
                f"needs {MIN_FOLD_ROWS} in each. Use fewer folds (cv), or leave the attribute out."
            )
    grid = ridge_grid(float(np.trace(by_fold.pool().cov)))
    errors = kfold_errors(by_fold, pilot.target_position(), grid)
    found = describe_missing(by_fold, pilot, float(grid[int(np.argmin(errors))]))
    warn_of_missing(found)
    return found
