"""Model spaces and their models at a dial value (METHOD 6, 8 and 9).

A space turns a point of the angle scale into a model: the span between G and F (:class:`ModelSpace`),
the nearest function within separate limits (:class:`SeparateLimits`), the line between kernel ridge and
its fair projection (:class:`FairLine`), or principal components of F, in
:class:`fairspan.method.fair_prior.FairComponents`.
:func:`locate` reads the dial, computes the model of a space there, and its certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.certificates import BlockCertificate, Certificate, NewRowsCertificate
from fairspan.method.expected import expect_refitted
from fairspan.method.limits import Limited, keep_limits
from fairspan.method.linalg import Array
from fairspan.method.new_rows import MOST_EXTRA
from fairspan.method.problem import FitConfig
from fairspan.method.refits import Functions
from fairspan.method.removal import BlockReport
from fairspan.method.solution import Solution
from fairspan.method.subspaces import (
    PathMoments,
    PrincipalPair,
    accuracy_gap,
    alive_directions,
    blend,
    containment_gap,
    dial_angles,
    line_head,
    multiple_correlation,
    on_basis,
    ridge_head,
    smallest_fairness,
    supremum,
    warn_lost_directions,
)

# From functions, as columns of coefficients on the basis B, to coefficients on them and intercepts.
Head = Callable[[Array], tuple[Array, Array]]
# From a point of the angle scale to coefficients on the basis B and intercepts.
LineHead = Callable[[float], tuple[Array, Array]]


@dataclass(frozen=True)
class FairSpace:
    """Prior on all of F with METHOD 9's covariance ``C_t = I - N (S^-1 + I)^-1 N'``.

    Stored as its root ``C_t^1/2 = I - N half N'``, so that fair features are ``C_t^1/2 psi``.
    """

    removed: Array  # N, (D, q), RKHS-orthonormal
    half: Array  # (q, q)


@dataclass(frozen=True, kw_only=True)
class Position:
    """One model on the path."""

    fairness: float  # on the angle scale
    directions: Array  # E in psi coordinates, (D, d')
    offset: Array  # E'mu
    coef: Array  # head on the scores, (d', outputs)
    intercept: Array  # (outputs,)
    blend: Array  # C with E = B C, (2d, d')
    certificate: Certificate
    fair_space: FairSpace | None = None  # only for components of F

    @property
    def weights(self) -> Array:
        """The fitted functions in psi coordinates, (D, outputs)."""
        return self.directions @ self.coef


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of a space, before its certificate is put together."""

    fairness: float
    directions: Array
    offset: Array
    coef: Array
    intercept: Array
    blend: Array
    claims: tuple[BlockCertificate, ...]
    angles: Array
    containment_gap: float
    accuracy_gap: float
    n_functions: int
    limits: dict[str, float] | None = None
    fair_space: FairSpace | None = None
    new_rows: NewRowsCertificate | None = None


class Space(Protocol):
    """A family of models between the unconstrained one and the fairest."""

    @property
    def solution(self) -> Solution:
        """What does not depend on the dial."""

    def point(self, value: float, dial: str) -> tuple[float, Array]:
        """Point on the native scale that a dial value stands for, and the angles to F there."""

    def model(self, fairness: float, angles: Array) -> Model:
        """Model at a point of the native scale, given with its angles to F."""

    def within(self, limit: float) -> tuple[float, float]:
        """Smallest fairness whose score keeps a correlation, and the correlation it reaches."""


def native_dial(solution: Solution) -> str:
    """The dial on which models of this solution are computed, and on which a path is drawn."""
    return "angle" if solution.new_rows is None else "share"


def locate(space: Space, config: FitConfig) -> Position:
    """Model at the dial value of ``config``, with its certificate."""
    if isinstance(config.fairness, Mapping):
        model = space.model(0.0, np.zeros(0))
        value, dial = model.fairness, native_dial(space.solution)
    else:
        value, dial = float(config.fairness), config.dial
        dial = native_dial(space.solution) if dial == "auto" else dial
        model = space.model(*space.point(value, dial))
    certificate = Certificate(
        criterion=config.criterion_name,
        fairness=value,
        dial=dial,
        blocks=model.claims,
        cosines=space.solution.cosines,
        angles=model.angles,
        containment_gap=model.containment_gap,
        accuracy_gap=model.accuracy_gap,
        n_functions=model.n_functions,
        limits=model.limits,
        new_rows=model.new_rows,
        no_estimate=space.solution.no_estimate,
        privacy=space.solution.privacy,
        missing=space.solution.missing,
    )
    return Position(
        fairness=model.fairness,
        directions=model.directions,
        offset=model.offset,
        coef=model.coef,
        intercept=model.intercept,
        blend=model.blend,
        certificate=certificate,
        fair_space=model.fair_space,
    )


@dataclass(frozen=True)
class AngleSpace(ABC):
    """A space whose native scale is that of the angles."""

    solution: Solution
    config: FitConfig

    @abstractmethod
    def within(self, limit: float) -> tuple[float, float]:
        """Smallest fairness whose score keeps a correlation, and the correlation it reaches."""

    def point(self, value: float, dial: str) -> tuple[float, Array]:
        """Point on the angle scale that a dial value stands for, and the angles to F there."""
        if dial == "share":
            raise ValueError(
                "dial='share' is the share of the dependence that is expected on new rows; this model "
                "removes it on the training rows. Use dial='angle', or removal='new_rows'."
            )
        pair = self.solution.pair
        if dial == "correlation":
            value, reached = self.within(limit := 1.0 - value)
            warn_unreachable(limit, reached)
            dial = "angle"
        angles = dial_angles(pair, value, dial)
        if dial == "cosine" and len(angles):
            widest = float(pair.angles.max())
            value = 1.0 - float(angles.max()) / widest if widest > 0.0 else 1.0
        return value, angles


def worst_correlation(solution: Solution, path: PathMoments, w: Array) -> float:
    """Largest correlation of the functions ``w`` with the codes of a constrained block."""
    blocks = [(path.block_cov[i], path.block_delta[i]) for i in solution.constrained]
    return max((multiple_correlation(cov, delta, w) for cov, delta in blocks), default=0.0)


@dataclass(frozen=True)
class ModelSpace(AngleSpace):
    """Spans between G and F, with a head on their scores; the ridge head if none is given."""

    head: Head | None = None

    def fitted(self, C: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts on the functions in the columns of C."""
        if self.head is not None:
            return self.head(C)
        solution = self.solution
        return ridge_head(solution.path, C, solution.eta_y), solution.target_mean

    def within(self, limit: float) -> tuple[float, float]:
        """Smallest fairness whose score keeps a correlation, and the correlation it reaches.

        The closed form ``sin a = v/rho`` ignores the head: asked for .05, it gave .086.
        """
        solution = self.solution

        def worst(fairness: float) -> float:
            angles = (1.0 - fairness) * solution.pair.angles
            C = on_basis(solution.path, blend(solution.pair, angles))
            return worst_correlation(solution, solution.path, C @ self.fitted(C)[0])

        return smallest_fairness(worst, limit)

    def model(self, fairness: float, angles: Array) -> Model:
        """Model at a point of the angle scale, given with its angles to F."""
        solution = self.solution
        if solution.n_removed < len(solution.mean):  # otherwise `solve` has warned already
            warn_lost_directions(solution.pair, angles)
        C = on_basis(solution.path, blend(solution.pair, angles))
        C = C * _signs(solution.path, C, exact=self.config.variant.exact)
        # Refits are at the same angle, or at the same cosine; limits on correlations mean an angle here.
        point: tuple[float, str] = (fairness, "angle")
        if self.config.dial == "cosine" and not isinstance(self.config.fairness, Mapping):
            point = (float(self.config.fairness), "cosine")

        def functions(pair: PrincipalPair, path: PathMoments) -> Array:
            return on_basis(path, blend(pair, dial_angles(pair, *point)))

        kept = angles[alive_directions(solution.pair, angles)]
        return self.on_functions(
            C,
            fairness=fairness,
            angles=kept,
            containment_gap=containment_gap(kept),
            accuracy_gap=accuracy_gap(solution.pair, angles),
            new_rows=self._expected(functions),
        )

    def _expected(self, functions: Functions) -> NewRowsCertificate | None:
        """What is expected on new rows; ``functions`` are those of the model in any fit."""
        solution = self.solution
        if solution.refits is None:
            return None
        return expect_refitted(solution.refits, functions, solution.pair, solution.path)

    def on_functions(self, C: Array, **geometry: Any) -> Model:
        """Model with the head on the functions in the columns of C."""
        solution = self.solution
        coef, intercept = self.fitted(C)
        return Model(
            directions=solution.basis @ C,
            offset=C.T @ solution.centre,
            coef=coef,
            intercept=intercept,
            blend=C,
            claims=certify(solution.path, solution.reports, C, coef),
            n_functions=C.shape[1],
            **geometry,
        )


@dataclass(frozen=True)
class SeparateLimits(ModelSpace):
    """The function nearest to g that keeps a limit for each attribute (METHOD 6)."""

    def model(self, fairness: float, angles: Array) -> Model:  # noqa: ARG002
        """The one model; the dial is not read."""
        solution, given = self.solution, self.config.fairness
        assert isinstance(given, Mapping)
        pair, path = solution.pair, solution.path
        blocks = solution.constrained
        reports = [solution.reports[i] for i in blocks]
        check_limits(solution, given, reports, sum(report.rank for report in reports))
        limits = [1.0 - given.get(solution.reports[i].attribute, 0.0) for i in blocks]
        C = np.zeros((len(path.cov), 0))
        outside, lost, angle = 0.0, 0.0, 0.0
        if len(pair.angles):  # else y is constant
            g = on_basis(path, blend(pair, pair.angles))[:, 0]
            nearest = _within_limits(pair, path, blocks, limits)
            length, lost = float(np.linalg.norm(nearest.function)), 1.0
            if length:
                C = nearest.function[:, None] / length
                C = C * _signs(path, C, exact=True)
                outside = min(float(np.linalg.norm(solution.outside @ C)), 1.0)
                lost = float(np.sqrt(max(1.0 - float((C.T @ g).sum()) ** 2, 0.0)))
                angle = float(np.arcsin(outside))
            else:
                warn_lost_directions(pair, np.zeros(1), left=0)
        theta = float(pair.angles.max(initial=0.0))

        def functions(pair: PrincipalPair, path: PathMoments) -> Array:
            if not len(pair.angles):
                return np.zeros((len(path.cov), 0))
            return _within_limits(pair, path, blocks, limits).function[:, None]

        return self.on_functions(
            C,
            fairness=1.0 - angle / theta if theta > 0.0 else 1.0,
            angles=np.full(C.shape[1], angle),
            containment_gap=outside,
            accuracy_gap=lost,
            limits={name: 1.0 - float(value) for name, value in given.items()},
            new_rows=self._expected(functions),
        )


def _within_limits(
    pair: PrincipalPair, path: PathMoments, blocks: list[int], limits: list[float]
) -> Limited:
    """The function nearest to g, on the basis, that keeps a limit in each of the blocks."""
    return keep_limits(
        on_basis(path, blend(pair, pair.angles))[:, 0],
        [path.block_delta[i] for i in blocks],
        [path.block_cov[i] for i in blocks],
        limits,
    )


@dataclass(frozen=True)
class FairLine(AngleSpace):
    """The fitted function between kernel ridge and its fair projection: ``subspace="fair"``.

    A likelihood other than the Gaussian has a head of its own. The certificate is about the span of the
    fitted functions, one per output.
    """

    head: LineHead | None = None

    def __post_init__(self) -> None:
        if not self.config.variant.exact:
            raise ValueError(
                "method='paper' has no prior on all of F; use subspace='model', or another method."
            )

    def fitted(self, fairness: float) -> tuple[Array, Array]:
        """Coefficients on the basis and intercepts."""
        if self.head is not None:
            return self.head(fairness)
        solution = self.solution
        return line_head(solution.path, len(solution.pair.angles), fairness), solution.target_mean

    def within(self, limit: float) -> tuple[float, float]:
        """Smallest fairness whose score keeps a correlation, and the correlation it reaches."""
        solution = self.solution
        return smallest_fairness(
            lambda fairness: worst_correlation(solution, solution.path, self.fitted(fairness)[0]),
            limit,
        )

    def model(self, fairness: float, angles: Array) -> Model:
        """Model at a point of the angle scale; all functions keep the same share of their angle."""
        solution = self.solution
        coef, intercept = self.fitted(fairness)
        angles = (1.0 - fairness) * solution.pair.angles
        warn_lost_directions(solution.pair, angles)
        return Model(
            fairness=fairness,
            directions=solution.basis,
            offset=solution.centre,
            coef=coef,
            intercept=intercept,
            blend=np.eye(2 * len(angles)),
            claims=certify(solution.path, solution.reports, coef, np.eye(coef.shape[1])),
            angles=angles,
            containment_gap=containment_gap(angles),
            accuracy_gap=accuracy_gap(solution.pair, angles),
            n_functions=coef.shape[1],
        )


def check_limits(
    solution: Solution, limits: Mapping[str, float], reports: list[BlockReport], n_codes: int
) -> None:
    """Raise if separate limits do not fit the attributes, or the model has no form for them."""
    d, instead = len(solution.pair.angles), "Give one number for all attributes instead."
    known = list(dict.fromkeys(report.attribute for report in reports))
    if unknown := [name for name in limits if name not in known]:
        msg = f"A limit was given for {unknown[0]!r}, which is no attribute here. Attributes: {known}."
        raise ValueError(msg)
    if d > 1:
        raise ValueError(
            f"Separate limits for attributes are for one predictive direction (a numeric y, or two "
            f"classes); this model has {d}. {instead}"
        )
    if d == 1 and n_codes > 1 and len(solution.path.cov) == 2 and n_codes > MOST_EXTRA:
        raise ValueError(
            f"The attributes have {n_codes} codes in all cells, too many for separate limits, which keep "
            f"a score per row for each (at most {MOST_EXTRA}). Use fewer groups or n_slices, or "
            f"dependence='correlation'. {instead}"
        )


def warn_unreachable(limit: float, reached: float) -> None:
    """Warn if even the fairest model exceeds the correlation asked for."""
    if reached > limit + 1e-12:
        warn_user(
            f"A correlation of {limit:.3g} cannot be reached: the fairest model of the path has "
            f"{reached:.3g}, because fewer sensitive directions are removed than the codes have. "
            f"Using it; n_sensitive_directions='all' reaches 0.",
            NumericalWarning,
        )


def certify(
    path: PathMoments, reports: tuple[BlockReport, ...], C: Array, coef: Array
) -> tuple[BlockCertificate, ...]:
    """Supremum over the model space and value for the fitted score, block by block."""
    return tuple(
        BlockCertificate(
            cell=report.cell,
            attribute=report.attribute,
            coding=report.coding,
            constrained=report.constrained,
            supremum=supremum(C.T @ cov @ C, C.T @ delta)[0],
            score=multiple_correlation(cov, delta, C @ coef),
            n_rows=report.n_rows,
            n_removed=report.n_directions,
            n_codes=report.rank,
            left_out=report.left_out,
            n_slices=report.n_slices,
            n_merged=report.n_merged,
            n_equivalent=report.n_equivalent,
        )
        for report, cov, delta in zip(reports, path.block_cov, path.block_delta, strict=True)
    )


def _signs(path: PathMoments, C: Array, *, exact: bool) -> Array:
    """Signs that make the covariance with y positive (paper: the score of the first training row)."""
    if not exact:
        reference = C.T @ path.first
    else:
        cross = C.T @ path.cov_target
        if cross.shape[1] == 0:
            return np.ones(C.shape[1])
        if cross.shape[1] == 2:
            reference = cross[:, 1]  # two classes mirror each other: the larger label scores higher
        else:
            reference = cross[np.arange(len(cross)), np.argmax(np.abs(cross), axis=1)]
    return np.where(reference < 0.0, -1.0, 1.0)
