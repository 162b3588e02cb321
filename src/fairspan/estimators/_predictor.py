"""What the predicting estimators share: the posterior mean on all of F (METHOD 9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairspan._parameters import canonical_criterion
from fairspan.certificates import Certificate
from fairspan.estimators._base import FairKernelEstimator
from fairspan.estimators._dial import Position, certify, warn_unreachable
from fairspan.estimators._solve import Solution
from fairspan.heads import line_head, multiple_correlation, smallest_fairness
from fairspan.subspaces import accuracy_gap, containment_gap, warn_lost_directions


def locate_line(solution: Solution, est: Any, criterion: str) -> Position:
    """``subspace="fair"``: the fitted function between kernel ridge and its fair projection.

    The model space of the certificate is the span of the fitted functions, one per output.
    """
    if est.method == "paper":
        msg = "method='paper' has no prior on all of F; use subspace='model', or another method."
        raise ValueError(msg)
    d = len(solution.pair.angles)
    path = solution.path
    constrained = [i for i, report in enumerate(solution.reports) if report.constrained]

    def worst(fairness: float) -> float:
        w = line_head(path, d, fairness)
        return max(
            (multiple_correlation(path.block_cov[i], path.block_delta[i], w) for i in constrained),
            default=0.0,
        )

    fairness = float(est.fairness)
    if est.dial == "correlation":
        fairness, reached = smallest_fairness(worst, 1.0 - fairness)
        warn_unreachable(1.0 - est.fairness, reached)
    elif est.dial == "cosine" and d:
        theta = float(solution.pair.angles.max())
        fairness = 1.0 - min(theta, float(np.arccos(fairness))) / theta if theta > 0.0 else 1.0
    coef = line_head(path, d, fairness)
    angles = (1.0 - fairness) * solution.pair.angles
    warn_lost_directions(solution.pair, angles)
    certificate = Certificate(
        criterion, float(est.fairness), est.dial,
        certify(path, solution.reports, coef, np.eye(coef.shape[1])),
        solution.pair.cosines, angles, containment_gap(angles), accuracy_gap(solution.pair, angles),
        coef.shape[1],
    )  # fmt: skip
    return Position(fairness, solution.basis, solution.centre, coef, np.eye(2 * d), certificate)


class FairPredictor(FairKernelEstimator):
    """An estimator that predicts from the scores by its head."""

    def _find_position(self) -> Position:
        if self.subspace == "fair":
            return locate_line(self._solution, self, canonical_criterion(self.criterion))
        return super()._find_position()
