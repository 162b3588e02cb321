"""Models of cross-fitted removal, from the unconstrained one to the one fair on new rows (METHOD 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.certificates import BlockCertificate, NewRowsCertificate
from fairspan.method.expected import expect
from fairspan.method.linalg import Array
from fairspan.method.new_rows import CrossFit
from fairspan.method.problem import FitConfig
from fairspan.method.solution import Solution
from fairspan.method.spaces import (
    Head,
    Model,
    ModelSpace,
    SeparateLimits,
    Space,
    certify,
    check_limits,
)
from fairspan.method.subspaces import smallest_fairness

__all__ = ["NewRows", "NewRowsEnds", "model_space"]


@dataclass(frozen=True, kw_only=True)
class NewRowsEnds:
    """Both ends of the dial as fitted by a likelihood on out-of-fold scores."""

    contrasts: Array  # (outputs, L)
    first: Array  # (2L, L)
    last: Array
    first_intercept: Array  # (outputs,)
    last_intercept: Array

    def at(self, share: float) -> tuple[Array, Array]:
        """Coefficients and intercepts in between."""
        return (
            (1.0 - share) * self.first + share * self.last,
            (1.0 - share) * self.first_intercept + share * self.last_intercept,
        )


@dataclass(frozen=True)
class NewRows:
    """Models ``(1 - t) f_0 + t f_1`` of cross-fitted removal: the share t of the dependence is gone.

    ``ends`` are the coefficients and intercepts of both ends, if a likelihood has fitted its own.
    """

    solution: Solution
    config: FitConfig
    ends: NewRowsEnds | None = None

    @property
    def _fit(self) -> CrossFit:
        assert self.solution.new_rows is not None
        return self.solution.new_rows

    def point(self, value: float, dial: str) -> tuple[float, Array]:
        """Share that a dial value stands for; there are no angles to F."""
        return self.share(value, dial), np.zeros(0)

    def share(self, value: float, dial: str) -> float:
        """Share t that a dial value stands for."""
        if dial == "correlation":
            share, reached = self.within(limit := 1.0 - value)
            if reached > limit + 1e-12:
                left = self._fit.names_left()
                warn_user(
                    f"A correlation of {limit:.3g} is not expected at any dial value: at fairness 1 the "
                    f"estimate is {reached:.3g}"
                    + (f", because X predicts too little of {', '.join(left)}." if left else "."),
                    NumericalWarning,
                )
            return share
        if dial == "angle":
            return self._fit.share_of_angle(value)
        return self._fit.share_of_cosine(value) if dial == "cosine" else value

    def coefficients(self, share: float) -> tuple[Array, Array]:
        """Coefficients of the functions on the basis, (2L, L), and intercepts of the outputs."""
        if self.ends is not None:
            return self.ends.at(share)
        return self._fit.coefficients(share), self.solution.target_mean

    def _expected(self, C: Array, **options: Any) -> NewRowsCertificate:
        path = self.solution.path
        cov, block_cov = self._fit.averaged_cov or (path.cov, path.block_cov)
        return expect(self._fit, C, cov, block_cov, **options)

    @property
    def attributes(self) -> set[str]:
        """Names of the attributes with a constraint."""
        reports = (block.codes.report for block in self._fit.blocks)
        return {report.attribute for report in reports if report.constrained}

    def bound(
        self, share: float, confidence: float, attribute: str | None = None
    ) -> tuple[float, float, float]:
        """Expected correlation at a share, and its upper and lower confidence bounds on new rows."""
        C, _ = self.coefficients(share)
        found = self._expected(C, confidence=confidence, attribute=attribute)
        return found.correlation, found.high, found.low

    def within(self, limit: float, confidence: float | None = None) -> tuple[float, float]:
        """Smallest share whose expected correlation keeps a limit, and the correlation it reaches.

        With a confidence, the upper bounds keep the limit, from the fair end to this share.
        """

        def worst(share: float) -> float:
            if confidence is None:
                return self._expected(self.coefficients(share)[0]).correlation
            return self.expected(share, confidence).high

        return smallest_fairness(worst, limit, tol=1e-10)

    def expected(self, share: float, confidence: float) -> NewRowsCertificate:
        """What is expected on new rows at a share of the dependence."""
        return self._expected(self.coefficients(share)[0], confidence=confidence)

    def model(self, fairness: float, angles: Array) -> Model:  # noqa: ARG002
        """Model at a share of the dependence, or within separate limits for the attributes."""
        if isinstance(self.config.fairness, Mapping):
            return self._limited(self.config.fairness)
        return self._model(fairness, *self.coefficients(fairness))

    def _limited(self, given: Mapping[str, float]) -> Model:
        """The model nearest to the unconstrained one that keeps a limit for each attribute."""
        solution, fit = self.solution, self._fit
        reports = [solution.reports[i] for i in solution.constrained]
        check_limits(solution, given, reports, sum(b.removed.shape[1] for b in fit.blocks))
        limits = [1.0 - given.get(report.attribute, 0.0) for report in reports]
        cov = [solution.path.block_cov[i] for i in solution.constrained]
        C = fit.within_limits(limits, cov)
        intercept, share = solution.target_mean, fit.nearest_share(C)
        if self.ends is not None:  # likelihoods use the scale of their own unconstrained end
            ends = self.ends
            scale = np.sqrt(fit.variance(ends.first) / np.maximum(fit.variance(fit.first), 1e-300))
            C, intercept = C * float(scale), ends.first_intercept
        model = self._model(share, C, intercept)
        wanted = {name: 1.0 - float(value) for name, value in given.items()}
        assert model.new_rows is not None
        _warn_beyond(model.new_rows, wanted)
        return replace(model, limits=wanted)

    def _model(self, fairness: float, C: Array, intercept: Array) -> Model:
        solution, fit = self.solution, self._fit
        contrasts = fit.contrasts if self.ends is None else self.ends.contrasts
        # Functions of variance 1 on the training rows, as a representation; the head has their scale.
        spread = np.sqrt(np.maximum(np.einsum("ij,ij->j", C, solution.path.cov @ C), 0.0))
        spread[spread == 0.0] = 1.0
        C, coef = C / spread, spread[:, None] * contrasts.T
        theta = fit.angle()
        angle = float(np.arctan((1.0 - fairness) * np.tan(theta))) if theta < np.pi / 2 else theta
        directions = solution.basis @ C
        return Model(
            fairness=fairness,
            directions=directions,
            offset=C.T @ solution.centre,
            coef=coef,
            intercept=intercept,
            blend=C,
            claims=self._claims(C, coef),
            angles=np.full(C.shape[1], angle),
            containment_gap=float(np.sin(angle)),
            accuracy_gap=float(np.sin(theta - angle)),
            n_functions=C.shape[1] if np.any(C) else 0,
            new_rows=self._expected(C),
        )

    def _claims(self, C: Array, coef: Array) -> tuple[BlockCertificate, ...]:
        """Exact statements about the training rows, with the directions that are removed whole."""
        solution = self.solution
        claims = list(certify(solution.path, solution.reports, C, coef))
        for block in self._fit.blocks:
            if claims[block.index].constrained:
                whole = sum(direction.weight == 1.0 for direction in block.directions)
                claims[block.index] = replace(claims[block.index], n_removed=whole)
        return tuple(claims)


def _warn_beyond(expected: NewRowsCertificate, limits: Mapping[str, float]) -> None:
    """Warn about attributes whose expected correlation exceeds their limit.

    Limits apply to the directions that are removed; the others stay as they are.
    """
    beyond: dict[str, float] = {}
    for block in expected.blocks:
        limit = limits.get(block.attribute)
        if limit is not None and block.constrained and block.correlation > limit + 1e-6:
            beyond[block.attribute] = max(beyond.get(block.attribute, 0.0), block.correlation)
    if beyond:
        each = ", ".join(
            f"{name} (limit {limits[name]:.3g}, estimate {value:.3g})"
            for name, value in beyond.items()
        )
        warn_user(
            f"Limits on correlations are not expected to be kept on new rows: {each}. X predicts some "
            f"groups too weakly to remove the dependence on them; the certificate names them.",
            NumericalWarning,
        )


def model_space(solution: Solution, config: FitConfig, head: Head | None = None) -> Space:
    """The family of models for ``subspace="model"``; the head is for removal on the training rows."""
    if solution.new_rows is not None:
        return NewRows(solution, config)
    limits = isinstance(config.fairness, Mapping)
    return (SeparateLimits if limits else ModelSpace)(solution, config, head)
