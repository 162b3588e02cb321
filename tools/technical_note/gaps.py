"""Theorems 6 and 7: gaps of a space of several functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from fairspan import FairRepresentation
from tools.table import Measurement, at_least, at_most
from tools.technical_note._rows import (
    Array,
    Moments,
    centred,
    diabetes,
    norm,
    projector,
    whitened,
)

PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)
N_RIVALS = 400


@cache
def representation() -> tuple[FairRepresentation, Moments]:
    """Diabetes, sex protected: four predictive directions (three of sliced y, and g)."""
    X, y, S = diabetes()
    sex = np.unique(S["sex"], return_inverse=True)[1].astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = FairRepresentation(
            n_predictive_directions=3, n_components=60, gamma="median", alpha=1.0, random_state=0
        ).fit(X, y, sensitive_features={"sex": S["sex"]})
    psi = centred(est.pilot_.features.coordinates(X))
    return est, Moments(psi, whitened(sex), centred(y), 1.0 / len(y))


@dataclass(frozen=True)
class Place:
    """One dial value of a space of several functions, with projectors formed by brute force."""

    fairness: float
    containment: float
    accuracy: float
    brute_containment: float
    brute_accuracy: float
    two_sided: float  # |P_F - P_M|
    bound: float  # sin(theta_max - a_max): the least accuracy gap there is (theorem 7)
    outside: float  # |h(x) - (P_F h)(x)| over its limit, largest over rows and functions of M


@dataclass(frozen=True)
class Spaces:
    """F and G in coordinates in which the metric R is Euclidean."""

    root: Array
    fair: Array
    predictive: Array


@cache
def spaces() -> Spaces:
    """Projectors on F and G."""
    est, m = representation()
    values, vectors = np.linalg.eigh(m.metric)
    root, inverse = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    fair = np.eye(len(root)) - projector(inverse @ m.delta)
    return Spaces(root, fair, projector(root @ est.at(0.0)._position.directions))


@cache
def places() -> tuple[Place, ...]:
    """The library's gaps beside those of projectors."""
    (est, m), found, out = representation(), spaces(), []
    rows = np.linalg.solve(found.root, m.psi.T)  # R^-1/2 (psi - mu)
    for fairness in PLACES:
        at = est.at(fairness)
        certificate = at.certificate_
        E = np.linalg.qr(found.root @ at._position.directions)[0]
        model = E @ E.T
        h = E @ np.random.default_rng(0).normal(size=(E.shape[1], 200))
        limit = np.outer(np.linalg.norm(rows, axis=0), np.linalg.norm(h, axis=0))
        deviation = np.abs(rows.T @ (h - found.fair @ h)) / limit
        place = Place(
            fairness,
            certificate.containment_gap,
            certificate.accuracy_gap,
            norm(model - found.fair @ model),
            norm(found.predictive - model @ found.predictive),
            norm(found.fair - model),
            float(np.sin(est.angles_.max() - certificate.angles.max())),
            float(deviation.max() - certificate.containment_gap),
        )
        out.append(place)
    return tuple(out)


def rivals() -> float:
    """Least sum of the two angles less theta_max, over other spaces, near M and far from it."""
    (est, _), found, rng = representation(), spaces(), np.random.default_rng(0)
    least = np.inf
    for _ in range(N_RIVALS):
        near = found.root @ est.at(float(rng.uniform(0.05, 0.95)))._position.directions
        noise = 10.0 ** rng.uniform(-2, 1) * norm(near)
        other = projector(near + noise * rng.normal(size=near.shape) / np.sqrt(len(near)))
        sines = (
            norm(other - found.fair @ other),
            norm(found.predictive - other @ found.predictive),
        )
        least = min(least, float(np.arcsin(np.minimum(sines, 1.0)).sum() - est.angles_.max()))
    return least


def table() -> list[str]:
    """Gaps and the two-sided norm; the containment gap is what the paper's eq. 9 gives for it."""
    lines = [
        "| fairness | containment gap | accuracy gap | least accuracy gap (theorem 7) | norm of "
        "P_F - P_M |",
        "|---|---|---|---|---|",
    ]
    return lines + [
        f"| {x.fairness:g} | {x.containment:.3f} | {x.accuracy:.3f} | {x.bound:.3f} | "
        f"{x.two_sided:.3f} |"
        for x in places()
    ]


def claims() -> Iterator[Measurement]:
    """The gaps are the largest sines; no space is nearer to both; the two-sided norm is 1."""
    found = places()
    apart = max(abs(x.containment - x.brute_containment) for x in found)
    yield at_most("theorem 6: error of the containment gap", apart, 1e-7)
    apart = max(abs(x.accuracy - x.brute_accuracy) for x in found)
    yield at_most("theorem 6: error of the accuracy gap", apart, 1e-7)
    one = max(abs(x.two_sided - 1.0) for x in found)
    yield at_most("theorem 6: norm of P_F - P_M less 1", one, 1e-9)
    tight = max(abs(x.brute_accuracy - x.bound) for x in found)
    yield at_most("theorem 7: dial above the least accuracy gap by", tight, 1e-7)
    yield at_least(f"theorem 7: {N_RIVALS} rivals, angles less theta_max", rivals(), 0.0)
    yield at_most("single rows: excess over (8)", max(x.outside for x in found), 1e-9)
