"""A pilot as plain numbers and text, so that every site takes its moments in the same coordinates.

The file holds the feature map, categories, edges, cells and the rule of folds. It holds no code: a kernel is
a name of scikit-learn's, and the one transformer that it may contain is an ``RBFSampler``, as its weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from fairspan._system import memory_bytes
from fairspan.method.codes import Cells, Coder, CrossedCoder
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.kernels import Kernel, kernel_names
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments
from fairspan.method.pilot import N_FOLDS, Pilot, fingerprint
from fairspan.method.probabilities import ProbabilityCoder
from fairspan.method.sparse_rows import dense

__all__ = ["agreed_pilot", "decode_pilot", "encode_pilot"]

_FOLD_RULES = ("hash", "position")
_MOST_LEVELS = 100_000
_LARGEST = 1e100  # squares of larger numbers overflow

Header = dict[str, Any]
Arrays = dict[str, Array]


def agreed_pilot(pilot: Pilot) -> Pilot:
    """Return the pilot as every site reads it from a file, with the fingerprint of its content."""
    return decode_pilot(*encode_pilot(pilot))


# --------------------------------------------------------------------------- writing


def encode_pilot(pilot: Pilot) -> tuple[Header, Arrays]:
    """Turn a pilot into a header and arrays; raise ValueError for one that a file cannot hold."""
    _check(pilot)
    features, arrays = _encode_features(pilot.features)
    header = {
        "features": features,
        "gamma": None if pilot.gamma is None else float(pilot.gamma),
        "coders": [_encode_coder(coder) for coder in pilot.coders],
        "target": None if pilot.target is None else _encode_coder(pilot.target),
        "code_target": bool(pilot.code_target),
        "cells": {
            "rule": pilot.cells.rule,
            "names": list(pilot.cells.names),
            "positive": int(pilot.cells.positive),
            "strata": None if pilot.cells.strata is None else _encode_coder(pilot.cells.strata),
        },
        "n_folds": int(pilot.n_folds),
        "fold_offset": int(pilot.fold_offset),
        "fold_rule": pilot.fold_rule if pilot.n_folds > 1 else "hash",
        "seed": int(pilot.seed),
    }
    return header, arrays


def _check(pilot: Pilot) -> None:
    if any(isinstance(coder, ProbabilityCoder) for coder in pilot.coders):
        msg = "Files of moments do not carry probabilities of groups. Give the groups of the rows."
        raise ValueError(msg)
    if pilot.n_folds > 1 and pilot.fold_rule not in _FOLD_RULES:
        msg = (
            "Folds of this estimator depend on which rows are together, so sites would deal them "
            "differently. Call prepare(..., folds='hash')."
        )
        raise ValueError(msg)
    if pilot.clustered:
        msg = "Files of moments do not carry groups of rows yet. Prepare without `groups`."
        raise ValueError(msg)
    if pilot.precision != "float64":
        msg = f"Files of moments are for float64, but this pilot computes in {pilot.precision}."
        raise ValueError(msg)


def _encode_features(features: LandmarkMap | TransformerMap) -> tuple[Header, Arrays]:
    if isinstance(features, LandmarkMap):
        kernel = features.kernel
        if kernel.function is not None or kernel.name == "precomputed":
            msg = f"The kernel {kernel.name!r} cannot be written to a file; use one by name, e.g. 'rbf'."
            raise ValueError(msg)
        for name, value in kernel.params.items():
            if value is not None and not isinstance(value, int | float | np.number):
                msg = f"kernel_params {name!r} is {value!r}; a file can hold numbers only."
                raise ValueError(msg)
        header: Header = {
            "map": "landmarks",
            "kernel": kernel.name,
            "params": {k: None if v is None else float(v) for k, v in kernel.params.items()},
            "whiten_first": bool(features.whiten_first),
            "exact": bool(features.exact),
            "dropped_mass": float(features.dropped_mass),
        }
        arrays = {"landmarks": dense(features.landmarks), "whitening": features.whitening}
        if kernel.slope is not None and kernel.centre is not None:
            arrays |= {"centre": kernel.centre, "slope": kernel.slope}
        return header, arrays
    if features.transformer is None:
        return {"map": "linear", "rank": int(features.rank)}, {}
    if type(features.transformer) is RBFSampler:
        sampler = features.transformer
        header = {"map": "rbf_sampler", "rank": int(features.rank)}
        return header, {"weights": sampler.random_weights_, "offsets": sampler.random_offset_}
    msg = (
        f"feature_map {type(features.transformer).__name__} cannot be written to a file without code. Use "
        f"landmarks=array, kernel='linear' or feature_map=RBFSampler(...)."
    )
    raise ValueError(msg)


def _encode_coder(coder: Coder | CrossedCoder | ProbabilityCoder) -> Header:
    assert not isinstance(coder, ProbabilityCoder)  # refused before
    if isinstance(coder, CrossedCoder):
        parts = [_encode_coder(part) for part in coder.parts]
        return {"parts": parts, "combinations": coder.combinations.tolist()}
    return {"name": str(coder.name), "kind": coder.kind, "table": coder.table.tolist()}


# --------------------------------------------------------------------------- reading


def decode_pilot(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Pilot:
    """Build the pilot of a file.

    Raises
    ------
    ValueError
        If parts are missing or do not fit together. The message is the second half of a sentence.
    """
    n_folds, rule = _integer(header, "n_folds"), header.get("fold_rule")
    _need(n_folds in (1, N_FOLDS) and rule in _FOLD_RULES, "rule of folds")
    _need(isinstance(header.get("coders"), list), "protected attributes")
    target = header.get("target")
    decoded = None if target is None else _decode_coder(target)
    _need(not isinstance(decoded, CrossedCoder), "target")
    code_target = header.get("code_target")
    _need(isinstance(code_target, bool) and not (code_target and target is None), "target")
    gamma = header.get("gamma")
    _need(gamma is None or (_is_number(gamma) and gamma > 0.0), "bandwidth")
    pilot = Pilot(
        features=_decode_features(header.get("features"), arrays),
        gamma=gamma,
        coders=tuple(_decode_coder(coder) for coder in header["coders"]),
        target=decoded,  # type: ignore[arg-type]  # not crossed, see above
        code_target=bool(code_target),
        cells=_decode_cells(header.get("cells"), decoded),
        n_folds=n_folds,
        fold_offset=_integer(header, "fold_offset"),
        residual={},
        fold_rule=str(rule),
        seed=_integer(header, "seed"),
    )
    _need(bool(pilot.coders), "protected attributes")
    needed = Moments.bytes_needed(
        n_cells=pilot.cells.n_groups,
        n_folds=n_folds,
        n_levels=sum(pilot.level_sizes),
        n_numeric=len(pilot.numeric),
        n_columns=pilot.features.n_columns,
    )
    ram = memory_bytes()
    if ram is not None and 2 * needed > ram / 4:
        raise ValueError(
            f"its moments would take {needed / 2**30:.1f} GiB, too much for this machine"
        )
    return replace(pilot, fingerprint=_fingerprint(pilot))


def _fingerprint(pilot: Pilot) -> str:
    """Hash of the pilot's content, the same at all sites; no row is part of it."""
    out = hashlib.sha256(fingerprint(pilot).encode())
    if isinstance(pilot.features, TransformerMap) and pilot.features.transformer is not None:
        sampler = pilot.features.transformer
        for values in (sampler.random_weights_, sampler.random_offset_):
            out.update(np.ascontiguousarray(values).tobytes())
    return out.hexdigest()


def _need(valid: bool, what: str) -> None:
    if not valid:
        raise ValueError(f"its {what} cannot be used: parts are missing or do not fit together")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _integer(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    _need(type(value) is int and 0 <= value < 2**63, name)
    return int(value)  # type: ignore[arg-type]


def _matrix(arrays: Mapping[str, Any], name: str, ndim: int = 2) -> Array:
    array: Any = arrays.get(name)
    valid = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == ndim
    _need(valid and array.size > 0 and bool((np.abs(array) <= _LARGEST).all()), name)
    return np.ascontiguousarray(array)


def _decode_features(header: Any, arrays: Mapping[str, Any]) -> LandmarkMap | TransformerMap:
    _need(isinstance(header, dict), "feature map")
    kind = header.get("map")
    if kind == "linear":
        rank = _integer(header, "rank")
        _need(0 < rank < 10**6, "feature map")
        return TransformerMap(None, rank)
    if kind == "rbf_sampler":
        weights, offsets = _matrix(arrays, "weights"), _matrix(arrays, "offsets", 1)
        _need(len(offsets) == weights.shape[1] == _integer(header, "rank"), "feature map")
        return TransformerMap(_sampler(weights, offsets), len(offsets))
    _need(kind == "landmarks", "feature map")
    name, params = header.get("kernel"), header.get("params")
    _need(name in kernel_names() and name != "precomputed" and isinstance(params, dict), "kernel")
    _need(all(v is None or _is_number(v) for v in params.values()), "kernel")
    landmarks, whitening = _matrix(arrays, "landmarks"), _matrix(arrays, "whitening")
    _need(len(landmarks) == len(whitening) >= whitening.shape[1], "landmarks")
    kernel = Kernel(str(name), dict(params))
    if "slope" in arrays or "centre" in arrays:
        centre, slope = _matrix(arrays, "centre", 1), _matrix(arrays, "slope", 1)
        _need(len(centre) == len(slope) == landmarks.shape[1], "trend")
        kernel = replace(kernel, centre=centre, slope=slope)
    flags = [header.get(k) for k in ("whiten_first", "exact")]
    _need(all(isinstance(flag, bool) for flag in flags), "feature map")
    _need(_is_number(header.get("dropped_mass")), "feature map")
    features = LandmarkMap(
        kernel=kernel,
        landmarks=landmarks,
        whitening=whitening,
        whiten_first=bool(flags[0]),
        exact=bool(flags[1]),
        dropped_mass=float(header["dropped_mass"]),
    )
    try:
        some = kernel(landmarks[:256], landmarks) @ whitening[:, :16]
    except (ValueError, TypeError):
        raise ValueError("its kernel cannot be evaluated on its landmarks") from None
    # The whitening makes unit vectors of the landmarks' functions: |psi(z)|^2 <= kappa(z, z).
    _need(bool(np.isfinite(some).all()), "kernel")
    size = np.sqrt(np.abs(kernel.diagonal(landmarks[:256])))[:, None]
    _need(bool((np.abs(some) <= 1.01 * size + 1e-6).all()), "whitening")
    return features


def _sampler(weights: Array, offsets: Array) -> RBFSampler:
    sampler = RBFSampler(n_components=len(offsets))
    sampler.random_weights_, sampler.random_offset_ = weights, offsets
    sampler.n_features_in_ = len(weights)
    return sampler


def _decode_coder(header: Any) -> Coder | CrossedCoder:
    _need(isinstance(header, dict), "attribute")
    if "parts" in header:
        _need(isinstance(header["parts"], list) and len(header["parts"]) > 0, "attribute")
        parts = tuple(_decode_coder(part) for part in header["parts"])
        _need(all(isinstance(part, Coder) for part in parts), "attribute")
        rows = header.get("combinations")
        _need(isinstance(rows, list) and 0 < len(rows) <= _MOST_LEVELS, "attribute")
        _need(all(isinstance(r, list) and len(r) == len(parts) for r in rows), "attribute")
        _need(all(type(code) is int for row in rows for code in row), "attribute")
        codes = np.array(rows, dtype=np.intp)
        sizes = np.array([part.n_levels for part in parts])
        _need(bool(((codes >= 0) & (codes < sizes)).all()), "attribute")
        _need(np.array_equal(np.unique(codes, axis=0), codes), "attribute")
        return CrossedCoder(parts, codes)  # type: ignore[arg-type]  # all Coder, see above
    name, values = header.get("name"), header.get("table")
    kind: Any = header.get("kind")
    _need(isinstance(name, str) and kind in ("categorical", "continuous"), "attribute")
    _need(isinstance(values, list) and len(values) <= _MOST_LEVELS, "attribute")
    texts = kind == "categorical" and all(isinstance(v, str) for v in values)
    _need(texts or all(_is_number(v) for v in values), "attribute")
    _need(kind == "continuous" or len(values) > 0, "attribute")
    table = np.array(values, dtype=np.str_ if texts else np.float64)
    _need(np.array_equal(np.unique(table), table), "attribute")  # sorted, without copies
    return Coder(str(name), kind, table)


def _decode_cells(header: Any, target: Coder | CrossedCoder | None) -> Cells:
    _need(isinstance(header, dict), "cells")
    rule, names = header.get("rule"), header.get("names")
    _need(isinstance(names, list) and all(isinstance(n, str) for n in names), "cells")
    positive, strata = header.get("positive"), header.get("strata")
    _need(type(positive) is int and rule in ("all", "class", "target", "strata"), "cells")
    crossed = None if strata is None else _decode_coder(strata)
    _need(crossed is None or isinstance(crossed, CrossedCoder), "cells")
    levels = 0 if target is None else target.n_levels
    n_strata = 0 if crossed is None else crossed.n_levels
    sizes = {"all": 1, "class": 1, "target": levels, "strata": n_strata}
    _need(len(names) == sizes[rule] > 0, "cells")
    _need(rule != "class" or 0 <= positive < levels, "cells")
    return Cells(rule, tuple(names), positive=positive, strata=crossed)  # type: ignore[arg-type]
