"""Save and load fitted models without pickle: skops, a fixed list of trusted types, versions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._files import whole_file
from fairspan.estimators._base import FairKernelEstimator

__all__ = ["load_model", "save_model"]

FORMAT = 1

# Our own classes and what numpy needs; scikit-learn's estimators are on skops's own list.
TRUSTED = (
    "fairspan.calibration.Link",
    "fairspan.certificates.BlockCertificate",
    "fairspan.certificates.Certificate",
    "fairspan.codes.Cells",
    "fairspan.codes.Coder",
    "fairspan.codes.CrossedCoder",
    "fairspan.encoding._as_float",
    "fairspan.encoding._as_numbers",
    "fairspan.encoding._as_text",
    "fairspan.encoding._category_name",
    "fairspan.encoding._feature_name",
    "fairspan.estimators._blocks.BlockReport",
    "fairspan.estimators._dial.Position",
    "fairspan.estimators._fair_space.FairSpace",
    "fairspan.estimators._held_out.HeldOut",
    "fairspan.estimators._path_select.Selection",
    "fairspan.estimators._pilot.Pilot",
    "fairspan.estimators._solve.FairGeometry",
    "fairspan.estimators._solve.Solution",
    "fairspan.estimators._training_rows.TrainingRows",
    "fairspan.estimators.gaussian_process.FairGPRegressor",
    "fairspan.estimators.gp_classifier.FairGPClassifier",
    "fairspan.estimators.representation.FairRepresentation",
    "fairspan.estimators.ridge.FairRidge",
    "fairspan.estimators.ridge.FairRidgeClassifier",
    "fairspan.features.Kernel",
    "fairspan.features.LandmarkMap",
    "fairspan.features.TransformerMap",
    "fairspan.gp.Posterior",
    "fairspan.folds.FoldCounter",
    "fairspan.folds.PositionFolds",
    "fairspan.heads.PathMoments",
    "fairspan.laplace.Laplace",
    "fairspan.moments.Moments",
    "fairspan.subspaces.PrincipalPair",
    "numpy.dtype",
)


def _version() -> str:
    from fairspan import __version__  # not at import time: the package imports this module

    return __version__


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        msg = 'Saving and loading models needs skops: pip install "fairspan[io]".'
        raise ImportError(msg) from error
    return skops.io


def save_model(model: Any, path: str | os.PathLike[str], *, keep_moments: bool = True) -> Path:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : fitted fairspan estimator
    path : path
        Written atomically: a killed process leaves the old file, or none.
    keep_moments : bool, default=True
        False makes the file smaller by the moments, cells * folds * D^2 numbers. The loaded model
        transforms and moves along the dial; ``partial_fit`` and ``merge`` then refuse.

    Returns
    -------
    Path
    """
    # A worker's moments are worth keeping before there is a model.
    has = any(hasattr(model, name) for name in ("_solution", "moments_"))
    if not isinstance(model, FairKernelEstimator) or not has:
        msg = f"save_model takes a fitted fairspan estimator; got {type(model).__name__}."
        raise ValueError(msg)
    io = _skops()
    model = copy(model)
    if isinstance(model.random_state, np.random.RandomState):
        model.random_state = None  # a generator's state is no part of a fitted model
    if not keep_moments:
        for name in ("moments_", "_counter"):
            model.__dict__.pop(name, None)
    target = Path(path)
    payload = {"format": FORMAT, "fairspan": _version(), "model": model}
    with whole_file(target) as part:
        io.dump(payload, part)
    return target


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> FairKernelEstimator:
    """Read a model written by :func:`save_model`.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Names of further types or functions the file may contain, e.g. your own kernel
        ``"mymodule.my_kernel"``. Whatever is not on the list is named and refused before anything is
        built.

    Returns
    -------
    fitted estimator
    """
    io = _skops()
    try:
        unknown = sorted(set(io.get_untrusted_types(file=path)) - set(TRUSTED) - set(trusted))
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # a broken zip fails in many ways inside skops
        msg = f"{path} is not a fairspan model file, or it is damaged ({type(error).__name__}: {error})."
        raise ValueError(msg) from error
    if unknown:
        msg = (
            f"{path} contains {', '.join(repr(u) for u in unknown[:5])}, which fairspan does not trust. "
            f"If you wrote it and know the file's origin, pass trusted={unknown[:5]!r}."
        )
        raise ValueError(msg)
    payload = io.load(path, trusted=[*TRUSTED, *trusted])
    if not isinstance(payload, dict) or not {"format", "fairspan", "model"} <= set(payload):
        msg = f"{path} is a skops file, but not one written by fairspan.save_model."
        raise ValueError(msg)
    if payload["format"] != FORMAT:
        msg = (
            f"{path} has format {payload['format']} (written by fairspan {payload['fairspan']}); this "
            f"version, {_version()}, reads format {FORMAT}. Upgrade fairspan."
        )
        raise ValueError(msg)
    model = payload["model"]
    if not isinstance(model, FairKernelEstimator):
        msg = f"{path} holds a {type(model).__name__}, not a fairspan estimator."
        raise ValueError(msg)
    return model
