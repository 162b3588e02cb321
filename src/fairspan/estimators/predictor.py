"""Estimators that predict from the scores, and their parameter documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from fairspan.estimators.base import FairKernelEstimator
from fairspan.inputs.config import canonical_criterion
from fairspan.method.certificates import Certificate
from fairspan.method.heads import line_head, multiple_correlation, smallest_fairness
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.solution import Solution
from fairspan.method.spaces import Head, Position, certify, locate, warn_unreachable
from fairspan.method.subspaces import accuracy_gap, containment_gap, warn_lost_directions

Class = TypeVar("Class", bound=type)

_SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=\n\n\S[^\n]*\n-+$)", re.M | re.S)
_ENTRY = re.compile(r"^\S.*?(?=^\S|\Z)", re.M | re.S)


def complete_parameters(source: type) -> Callable[[Class], Class]:
    """Class decorator: take the parameters that a docstring leaves out from another class's.

    Entries end up in the order of the signature.
    """

    def decorate(cls: Class) -> Class:
        if not (cls.__doc__ and source.__doc__):  # python -OO
            return cls
        doc = inspect.cleandoc(cls.__doc__)
        entries = {**_entries(inspect.cleandoc(source.__doc__)), **_entries(doc)}
        section = "\n".join(entries[name] for name in inspect.signature(cls).parameters)
        cls.__doc__ = _SECTION.sub(lambda _: section, doc, count=1)
        return cls

    return decorate


def _entries(doc: str) -> dict[str, str]:
    """Each parameter's entry, by name."""
    section = _SECTION.search(doc)
    assert section is not None
    texts = [text.rstrip() for text in _ENTRY.findall(section[0])]
    return {text.partition(":")[0].strip(): text for text in texts}


# From a place on the angle scale to coefficients on the basis B and intercepts.
LineHead = Callable[[float], tuple[Array, Array]]


def locate_line(
    solution: Solution, est: Any, criterion: str, head: LineHead | None = None
) -> Position:
    """``subspace="fair"``: the fitted function between kernel ridge and its fair projection.

    Another likelihood than the Gaussian brings its own head. The model space of the certificate is
    the span of the fitted functions, one per output.
    """
    if est.method == "paper":
        msg = "method='paper' has no prior on all of F; use subspace='model', or another method."
        raise ValueError(msg)
    d = len(solution.pair.angles)
    path = solution.path
    constrained = [i for i, report in enumerate(solution.reports) if report.constrained]

    def fitted(fairness: float) -> tuple[Array, Array]:
        if head is not None:
            return head(fairness)
        return line_head(path, d, fairness), solution.target_mean

    def worst(fairness: float) -> float:
        w, _ = fitted(fairness)
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
    coef, intercept = fitted(fairness)
    angles = (1.0 - fairness) * solution.pair.angles
    warn_lost_directions(solution.pair, angles)
    certificate = Certificate(
        criterion, float(est.fairness), est.dial,
        certify(path, solution.reports, coef, np.eye(coef.shape[1])),
        solution.pair.cosines, angles, containment_gap(angles), accuracy_gap(solution.pair, angles),
        coef.shape[1],
    )  # fmt: skip
    return Position(
        fairness, solution.basis, solution.centre, coef, intercept, np.eye(2 * d), certificate
    )


class FairPredictor(FairKernelEstimator):
    """An estimator that predicts from the scores by its head."""

    def _find_position(self) -> Position:
        criterion = canonical_criterion(self.criterion)
        if self.subspace == "fair":
            return locate_line(self._solution, self, criterion, self._line_head())
        return locate(self._solution, self, criterion, self._head())

    def _path(self, X, y, *, control_features=None, **options):
        """``FairnessPath.from_estimator`` of this model, for displays, which cannot import it.

        Control features are ignored unless the criterion needs them.
        """
        from fairspan.estimators.path import FairnessPath  # it imports this module

        if canonical_criterion(self.criterion) != "conditional_statistical_parity":
            control_features = None
        options["control_features"] = control_features
        return FairnessPath.from_estimator(self, X, y, **options)

    def _head(self) -> Head | None:
        """None is the ridge head."""
        return None

    def _line_head(self) -> LineHead | None:
        """None is the posterior mean of the Gaussian likelihood on all of F."""
        return None


class FairClassifier(FairPredictor):
    """A predictor of labels."""

    _target_kind = "categorical"

    def partial_fit(
        self, X, y=None, *, classes=None, sensitive_features=None, control_features=None,
        sample_weight=None, solve=True, start=None,
    ) -> Self:  # fmt: skip
        """Add a block of rows.

        As in :class:`FairRepresentation`: an estimator that was not prepared is prepared on this
        first block, which must then show every class.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        classes : array-like, optional
            All labels, as in scikit-learn; refused where they are not those of the prepared rows.
        solve : bool, default=True
            Solve for the model after adding.
        start : int, optional
            Place of the block's first row in all the data.
        """
        if classes is not None:
            seen = getattr(self, "classes_", None)
            known = np.unique(to_numpy(y)) if seen is None else seen
            if not np.array_equal(np.unique(classes), known):
                msg = (
                    f"classes={list(classes)!r}, but the rows that the estimator is prepared on have "
                    f"{list(known)!r}. Call `prepare` on rows that show every class."
                )
                raise ValueError(msg)
        return super().partial_fit(
            X, y, sensitive_features=sensitive_features, control_features=control_features,
            sample_weight=sample_weight, solve=solve, start=start,
        )  # fmt: skip
