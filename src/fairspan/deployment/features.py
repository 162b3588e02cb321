"""Feature maps as operations: kernels between rows and landmarks, and maps that were learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan.deployment.encoder import Rows
from fairspan.deployment.learners import learner_columns
from fairspan.deployment.program import Program, Value, refuse
from fairspan.deployment.trees import leaf_scores
from fairspan.estimators.learner_columns import LearnerColumns
from fairspan.estimators.leaves import BoostedLeaves
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.kernels import Kernel
from fairspan.method.linalg import Array
from fairspan.method.sparse_rows import as_matrix, dense, is_sparse

__all__ = ["coordinate_weights", "kernel_columns", "scores"]

_ADVICE = "Fit with kernel='rbf', 'laplacian', 'linear', 'poly', 'cosine' or 'chi2'"


def scores(program: Program, rows: Rows, features: Any, directions: Array) -> Value:
    """Values of functions of psi, with a column for each column of ``directions``."""
    if isinstance(features, LandmarkMap) and is_sparse(features.landmarks):  # of a linear kernel
        return rows.values @ np.asarray(
            as_matrix(features.landmarks).T @ (features.whitening @ directions)
        )
    if isinstance(features, LandmarkMap):
        columns = kernel_columns(program, rows, features.kernel, features.landmarks)
        return columns @ (features.whitening @ directions)
    assert isinstance(features, TransformerMap)
    transformer = features.transformer
    if transformer is None:
        return rows.values @ directions
    if isinstance(transformer, LearnerColumns):
        return learner_columns(program, rows, transformer, _member_scores) @ directions
    if isinstance(transformer, BoostedLeaves):
        return leaf_scores(program, rows.values, transformer, directions)
    refuse(
        f"feature_map {type(transformer).__name__}",
        "Kernels and BoostedLeaves can be written. Transform the rows before the model, or "
        + _ADVICE,
    )


def _member_scores(
    program: Program, rows: Rows, features: Any, directions: Array, centre: Array, scale: Array
) -> Value:
    """Functions of a kernel member, which reads columns that it has standardised."""
    moved = np.flatnonzero((centre != 0.0) | (scale != 1.0))
    values = rows.values
    if len(moved):
        values = (values - centre) / scale
    scaled = Rows(values, rows.binary - set(moved.tolist()))
    return scores(program, scaled, features, directions)


def coordinate_weights(features: Any) -> Array:
    """Matrix from kernel columns (or transformed columns) to coordinates of psi."""
    if isinstance(features, LandmarkMap):
        whole = features.whole() if hasattr(features, "whole") else features
        return np.asarray(whole.whitening)
    return np.eye(features.rank)


def kernel_columns(program: Program, rows: Rows, kernel: Kernel, Z: Array) -> Value:
    """The kernel between rows and landmarks."""
    if kernel.function is not None:
        refuse(f"the kernel {kernel.name!r}, a function of yours", _ADVICE)
    X, name = rows.values, kernel.name
    if name == "precomputed":
        return X.columns(Z[:, 0].astype(np.int64))
    write = _KERNELS.get(name)
    if write is None:
        refuse(f"the kernel {name!r}", _ADVICE)
    gram = write(program, rows, kernel.params, Z)
    if kernel.slope is None:
        return gram
    assert kernel.centre is not None
    trend = (X - kernel.centre) * kernel.slope
    of_landmarks = (Z - kernel.centre) * kernel.slope
    return gram + trend @ np.ascontiguousarray(of_landmarks.T)


def _rbf(program: Program, rows: Rows, params: dict[str, Any], Z: Array) -> Value:
    # As RbfColumns does: one matrix product for the exponent, and the median is subtracted, which keeps it
    # exact for columns with a large offset.
    gamma, origin = float(params["gamma"]), np.median(Z, axis=0)
    centred = Z - origin
    X = rows.values - origin
    lengths = (X * X).sum() * -gamma
    left = program.concat([X, lengths, lengths * 0.0 + 1.0])
    of_landmarks: Array = -gamma * (centred**2).sum(axis=1)
    right = np.concatenate([2.0 * gamma * centred.T, np.ones((1, len(Z))), of_landmarks[None]])
    return (left @ right).minimum(0.0).exp()


def _laplacian(program: Program, rows: Rows, params: dict[str, Any], Z: Array) -> Value:
    gamma, width = float(params["gamma"]), rows.values.width
    flags = np.array(sorted(rows.binary), dtype=np.int64)
    others = np.setdiff1d(np.arange(width), flags)
    distance = None
    if len(others):
        distance = program.distance(
            "city", rows.values.columns(others), np.ascontiguousarray(Z[:, others])
        )
    if len(flags):
        # |x - z| of x = 0 or 1 is |z| + x (|1 - z| - |z|): one matrix product for all of these columns.
        at_zero, at_one = np.abs(Z[:, flags]), np.abs(1.0 - Z[:, flags])
        part = rows.values.columns(flags) @ np.ascontiguousarray((at_one - at_zero).T)
        part = part + at_zero.sum(axis=1)
        distance = part if distance is None else distance + part
    assert distance is not None
    return (distance * -gamma).exp()


def _chi2(program: Program, rows: Rows, params: dict[str, Any], Z: Array) -> Value:
    return (program.distance("chi2", rows.values, Z) * -float(params["gamma"])).exp()


def _linear(_program: Program, rows: Rows, _params: dict[str, Any], Z: Array) -> Value:
    return rows.values @ np.ascontiguousarray(dense(Z).T)


def _polynomial(_program: Program, rows: Rows, params: dict[str, Any], Z: Array) -> Value:
    degree = params.get("degree", 3)
    if degree != int(degree) or not 1 <= degree <= 64:
        refuse(f"a polynomial kernel of degree {degree}", "Fit with a whole degree from 1 to 64")
    base = rows.values @ np.ascontiguousarray(_gamma(params, Z) * Z.T) + float(
        params.get("coef0", 1)
    )
    out = None
    for bit in bin(int(degree))[2:]:  # by squaring
        out = base if out is None else out * out
        if bit == "1" and out is not base:
            out = out * base
    assert out is not None
    return out


def _sigmoid(_program: Program, rows: Rows, params: dict[str, Any], Z: Array) -> Value:
    inner = rows.values @ np.ascontiguousarray(_gamma(params, Z) * Z.T)
    return (inner + float(params.get("coef0", 1))).tanh()


def _cosine(_program: Program, rows: Rows, _params: dict[str, Any], Z: Array) -> Value:
    # scikit-learn leaves shorter rows as they are.
    shortest = 10.0 * float(np.finfo(np.float64).eps)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    unit = Z / np.where(lengths < shortest, 1.0, lengths)
    X = rows.values
    length = (X * X).sum().sqrt()
    length = (length > float(np.nextafter(shortest, 0.0))).where(length, 1.0)
    return (X / length) @ np.ascontiguousarray(unit.T)


def _gamma(params: dict[str, Any], Z: Array) -> float:
    gamma = params.get("gamma")
    return 1.0 / Z.shape[1] if gamma is None else float(gamma)


_KERNELS: dict[str, Callable[[Program, Rows, dict[str, Any], Array], Value]] = {
    "rbf": _rbf,
    "laplacian": _laplacian,
    "chi2": _chi2,
    "linear": _linear,
    "poly": _polynomial,
    "polynomial": _polynomial,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}
