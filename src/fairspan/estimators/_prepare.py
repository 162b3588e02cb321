"""Preparing: everything frozen on the pilot rows, its memory, its fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from fairspan._linalg import Array
from fairspan._validation import Data, read_seed
from fairspan.estimators._pilot import N_FOLDS, Pilot
from fairspan.estimators._prepare_codes import check_levels, learn_cells, learn_coders, learn_target
from fairspan.estimators._prepare_features import build_features, group_residual
from fairspan.features import TransformerMap


def build_pilot(est: Any, data: Data, fold_rule: str = "strata") -> Pilot:
    """Freeze everything on these rows; no moments are taken."""
    rng = np.random.default_rng(read_seed(est.random_state).randint(2**31 - 1))
    n_slices = None if est.n_slices == "distinct" else int(est.n_slices)
    coders = learn_coders(est, data, n_slices)
    target = learn_target(est, data, n_slices)
    cells = learn_cells(est, data, target, n_slices)
    # Classes are codes; a numeric y needs its slices only for SIR directions.
    code_target = target is not None and (
        target.kind == "categorical"
        or est.method == "paper"
        or (est.n_predictive_directions != "auto" and est.subspace == "model")
    )
    by_folds = est.alpha == "auto" and getattr(est, "_ridge_rule", "kfold") == "kfold"
    by_folds = by_folds or getattr(est, "_cross_fit", False)
    wants_folds = target is not None and by_folds and est.method != "paper"
    pilot = Pilot(
        TransformerMap(None, data.X.shape[1]), None, tuple(coders), target, code_target, cells,
        N_FOLDS if wants_folds else 1, int(rng.integers(N_FOLDS)), {},
    )  # fmt: skip
    check_levels(pilot, pilot.encode(data), est, data.weights)
    features, gamma, landmark_rows = build_features(est, data, pilot, rng)
    pilot = replace(pilot, features=features, gamma=gamma)
    pilot = replace(pilot, residual=group_residual(pilot, data, landmark_rows, rng))
    pilot = replace(pilot, fold_rule=fold_rule)
    return replace(pilot, fingerprint=fingerprint(pilot, data.X[:16]))


def fingerprint(pilot: Pilot, probe: Array | None = None) -> str:
    """Hash of everything that must agree before moments may be added.

    A user's transformer is known by what it makes of the rows of ``probe``.
    """
    digest = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(str((value.dtype.str, value.shape)).encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        elif is_dataclass(value) and not isinstance(value, type):
            for item in fields(value):
                if item.name not in ("fingerprint", "residual"):
                    digest.update(item.name.encode())
                    feed(getattr(value, item.name))
        elif isinstance(value, dict):
            for key in sorted(value):
                digest.update(str(key).encode())
                feed(value[key])
        elif isinstance(value, list | tuple):
            digest.update(str(len(value)).encode())
            for item in value:
                feed(item)
        elif callable(value):
            name = getattr(value, "__qualname__", type(value).__qualname__)
            digest.update(f"{getattr(value, '__module__', '')}.{name}".encode())
        elif value is None or isinstance(value, str | int | float | bool | np.generic):
            digest.update(repr(value).encode())
        else:  # a fitted transformer: what it does to a few rows is its identity
            digest.update(type(value).__qualname__.encode())

    if isinstance(pilot.features, TransformerMap) and probe is not None:
        feed(pilot.features.columns(probe))
    feed(pilot)
    return digest.hexdigest()
