"""Save and load fitted models without pickle: skops, a fixed list of trusted types, versions."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairspan._moved import rename_moved_classes
from fairspan._system import atomic_write, check_archive, first_line, inert
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.saved_state import restored_state, state_to_save
from fairspan.estimators.state import FittedState
from fairspan.method.erasure import Erasure
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.row_sketch import RowSketch
from fairspan.method.solution import Solution
from fairspan.method.spaces import Position

__all__ = ["load_model", "save_model"]

# Format 1 is that of version 0.1.0, with the fitted state as attributes of the estimator.
FORMAT = 2
_READABLE = (1, 2)

# Our own classes and what numpy needs; scikit-learn's estimators are on skops's own list.
TRUSTED = (
    "fairspan.method.row_sketch.RowSketch",
    "fairspan.method.attribute_parts.AttributeParts",
    "fairspan.method.calibration.Link",
    "fairspan.method.certificates.BlockCertificate",
    "fairspan.method.certificates.Certificate",
    "fairspan.method.certificates.Direction",
    "fairspan.method.certificates.ExpectedDependence",
    "fairspan.method.certificates.MissingSensitive",
    "fairspan.method.certificates.NewRowsCertificate",
    "fairspan.method.erasure.Erasure",
    "fairspan.method.erasure_left.ErasureBlock",
    "fairspan.method.codes.Cells",
    "fairspan.method.codes.Coder",
    "fairspan.method.codes.CrossedCoder",
    "fairspan.method.probabilities.ProbabilityCoder",
    "fairspan.encoding.CategoryEncoder",
    "fairspan.encoding.TableEncoder",
    "fairspan.encoding._as_float",
    "fairspan.encoding._as_numbers",
    "fairspan.encoding._as_text",
    "fairspan.encoding._category_name",
    "fairspan.encoding._feature_name",
    "fairspan.federated.agreement.AgreedColumns",
    "fairspan.method.fold_codes.FoldCodes",
    "fairspan.method.new_rows.CrossFit",
    "fairspan.method.new_rows.NewRowsBlock",
    "fairspan.method.new_rows_space.NewRowsEnds",
    "fairspan.method.refits.BlockFit",
    "fairspan.method.refits.Refit",
    "fairspan.method.refits.RefitBlock",
    "fairspan.method.refits.Refits",
    "fairspan.method.removal.BlockReport",
    "fairspan.method.spaces.Position",
    "fairspan.method.spaces.FairSpace",
    "fairspan.method.solution.HeldOut",
    "fairspan.estimators.conformal.Conformal",
    "fairspan.estimators.path_selection.Selection",
    "fairspan.method.pilot.Pilot",
    "fairspan.method.solution.FairGeometry",
    "fairspan.method.solution.Solution",
    "fairspan.estimators.likelihood_rows.TrainingRows",
    "fairspan.estimators.gp_classifier.LaplaceFit",
    "fairspan.estimators.gp_regressor.FairGPRegressor",
    "fairspan.estimators.gp_regressor.ProcessFit",
    "fairspan.estimators.gp_classifier.FairGPClassifier",
    # Models of learners are not here: their nodes are read without checks of bounds.
    "fairspan.estimators.learner_columns.CategoryColumns",
    "fairspan.estimators.learner_columns.FoldModels",
    "fairspan.estimators.learner_columns.KernelModels",
    "fairspan.estimators.learner_columns.LearnerColumns",
    "fairspan.estimators.sparse_linear.LinearModels",
    "fairspan.estimators.sparse_linear.Link",
    "fairspan.estimators.learners.FairClassifier",
    "fairspan.estimators.learners.FairRegressor",
    "fairspan.estimators.eraser.FairEraser",
    "fairspan.estimators.leaves.BoostedLeaves",
    "fairspan.estimators.frozen.FrozenScores",
    "fairspan.estimators.postprocessors.FairPostprocessor",
    "fairspan.estimators.postprocessors.FairPostprocessorRegressor",
    "fairspan.estimators.representation.FairRepresentation",
    "fairspan.estimators.ridge.FairRidge",
    "fairspan.estimators.state.FittedState",
    "fairspan.inputs.rows.ColumnSchema",
    "fairspan.estimators.ridge.FairRidgeClassifier",
    "fairspan.method.kernels.Kernel",
    "fairspan.method.features.LandmarkMap",
    "fairspan.method.features.TransformerMap",
    "fairspan.method.folded.FoldedMap",
    "fairspan.method.sparse_rows.SparseRows",
    "fairspan.method.gp.Posterior",
    "fairspan.estimators.decision_fit.DecisionFit",
    "fairspan.method.decision_certificate.DecisionCertificate",
    "fairspan.method.decision_certificate.GroupRate",
    "fairspan.method.rule_words.RuleDifference",
    "fairspan.method.decision_certificate.JudgedGroups",
    "fairspan.method.decision_rule.DecisionRule",
    "fairspan.method.decision_rule.RulePath",
    "fairspan.method.decision_rule.RulePoint",
    "fairspan.method.rate_codes.Limit",
    "fairspan.method.rate_codes.RateBlock",
    "fairspan.method.folds.FoldCounter",
    "fairspan.method.folds.HashFolds",
    "fairspan.method.folds.KeyFolds",
    "fairspan.method.folds.PositionFolds",
    "fairspan.method.subspaces.PathMoments",
    "fairspan.method.laplace.Laplace",
    "fairspan.method.moments.Moments",
    "fairspan.method.site_dependence.SiteSums",
    "fairspan.method.subspaces.PrincipalPair",
    "numpy.dtype",
    # A list of names inside the encoder, up to scikit-learn 1.8.
    "sklearn.compose._column_transformer._RemainderColsList",
)

_SCHEMA = "schema.json"
# Types that are named in an error; a file of learners has up to ten that are not trusted.
_MOST_NAMED = 20
# Genuine files need about 30 levels; each costs skops a few frames of Python.
_MAX_DEPTH = 120


def _version() -> str:
    from fairspan import __version__  # not at import time: the package imports this module

    return __version__


def require_skops() -> Any:
    """Import skops, or say which extra installs it."""
    try:
        import skops.io
    except ImportError as error:
        msg = 'Saving and loading models needs skops: pip install "fairspan[io]".'
        raise ImportError(msg) from error
    return skops.io


def save_model(
    model: Any, path: str | os.PathLike[str], *, keep_moments: bool = True, row_sketch: bool = True
) -> Path:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : fitted fairspan estimator
    path : path
        Written atomically: a killed process leaves the old file, or none. An existing file keeps its
        permissions, and a symbolic link its target.
    keep_moments : bool, default=True
        False makes the file smaller: without the moments, cells * folds * D^2 numbers, and for most models
        without the whitening of the landmarks, D^2 numbers. The loaded model predicts and moves along the
        dial; ``partial_fit``, ``merge`` and ``solve`` then refuse.
    row_sketch : bool, default=True
        False leaves out the sketch of the fitted rows, with which :func:`audit` finds out that it is
        given rows of the fit: 16 bits of a keyed hash of X for at most 4,096 rows.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the model is not fitted, or a parameter other than ``fairness``, ``dial`` and ``verbose`` was
        changed after the fit.
    """
    if not isinstance(model, FairKernelEstimator) or model._state is None:
        msg = f"save_model takes a fitted fairspan estimator; got {type(model).__name__}."
        raise ValueError(msg)
    model._check_unchanged()
    skops = require_skops()
    model = copy(model)
    if isinstance(model.random_state, np.random.RandomState):
        model.random_state = None  # a generator's state is no part of a fitted model
    model._state = state_to_save(
        model, model._fit_state, keep_moments=keep_moments, row_sketch=row_sketch
    )
    target = Path(path)
    payload = {"format": FORMAT, "fairspan": _version(), "model": model}
    with atomic_write(target) as part:
        # In a file, because the content is in memory once already, inside of skops.
        with tempfile.TemporaryFile(dir=part.parent) as written:
            skops.dump(payload, written)
            # Without spaces, which are four fifths of the schema.
            with zipfile.ZipFile(written) as archive, part.open("wb") as opened:
                _copy_archive(archive, opened, json.loads(archive.read(_SCHEMA)))
        # What cannot be loaded again is refused while the model is still at hand.
        with part.open("rb") as file:
            try:
                _check_content(file)
            except ValueError as error:
                msg = f"This {type(model).__name__} cannot be saved: in its file, {error}."
                raise ValueError(msg) from error
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
    skops = require_skops()
    with open(path, "rb") as opened, ExitStack() as stack:
        file, names = _checked(opened, path, stack)
        unknown = [name for name in names if name not in set(trusted)]
        if unknown:
            shown = [inert(name) for name in unknown[:_MOST_NAMED]]
            more = f" (and {len(unknown) - len(shown)} more)" if len(unknown) > len(shown) else ""
            raise ValueError(
                f"{path} contains {', '.join(map(repr, shown))}{more}, which fairspan does not trust. "
                f"If you wrote it and know the file's origin, pass trusted={shown!r}."
            )
        try:
            payload = skops.load(file, trusted=[*TRUSTED, *trusted])
        except MemoryError:
            raise
        except Exception as error:  # trusted types, put together as nothing of ours is
            raise _damaged(path, error) from error
    return _model_of(payload, path)


def untrusted_types(path: str | os.PathLike[str]) -> list[str]:
    """Names of the types and functions in a model file that :func:`load_model` takes only if named."""
    with open(path, "rb") as opened, ExitStack() as stack:
        return _checked(opened, path, stack)[1]


def _checked(
    opened: IO[bytes], path: str | os.PathLike[str], stack: ExitStack
) -> tuple[IO[bytes], list[str]]:
    """Check the content of a model file, and return it with the names that are not trusted."""
    try:
        schema = _check_content(opened)
        file = stack.enter_context(_with_new_names(opened, schema))
        return file, sorted(set(require_skops().get_untrusted_types(file=file)) - set(TRUSTED))
    except MemoryError:
        raise
    except Exception as error:  # a broken zip fails in many ways inside skops
        raise _damaged(path, error) from error


def _damaged(path: Any, error: Exception) -> ValueError:
    why = f"{type(error).__name__}: {first_line(error)}"
    return ValueError(f"{path} is not a fairspan model file, or it is damaged ({why}).")


def _model_of(payload: Any, path: Any) -> FairKernelEstimator:
    if not isinstance(payload, dict) or not {"format", "fairspan", "model"} <= set(payload):
        raise ValueError(f"{path} is a skops file, but not one written by fairspan.save_model.")
    number = payload["format"]
    if type(number) is not int or number not in _READABLE:
        written = inert(str(payload["fairspan"]))
        raise ValueError(
            f"{path} has format {inert(repr(number))} (written by fairspan {written}); this version, "
            f"{_version()}, reads formats 1 to {FORMAT}. Upgrade fairspan."
        )
    model = payload["model"]
    if not isinstance(model, FairKernelEstimator) or not _is_ours(model):
        msg = f"{path} holds a {inert(type(model).__name__)}, not a fitted fairspan estimator."
        raise ValueError(msg)
    try:
        model._state = restored_state(model._fit_state)
    except (ValueError, AttributeError) as error:
        raise _damaged(path, error) from error
    return model


def _is_ours(model: FairKernelEstimator) -> bool:
    """Whether the parts of the fit have the types that they have in a fit."""
    state = model._state
    if not isinstance(state, FittedState):
        return False
    kinds: dict[str, Any] = {
        "pilot": Pilot,
        "moments": Moments | None,
        "solution": Solution | None,
        "position": Position | None,
        "erasure": Erasure | None,
        "row_sketch": RowSketch | None,
    }
    parts = vars(state)
    complete = all(isinstance(parts.get(name), kind) for name, kind in kinds.items())
    return complete and any(
        parts.get(name) is not None for name in ("moments", "solution", "erasure")
    )


def _check_content(file: IO[bytes]) -> Any:
    """Refuse what would grow in memory or in time, and return the schema: skops checks neither."""
    check_archive(file)
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if _SCHEMA not in names:
            raise ValueError(f"there is no {_SCHEMA} in it")
        other = [name for name in names if name != _SCHEMA and not name.endswith((".npy", ".bin"))]
        if other:  # a sparse matrix is a zip file of its own, and compressed
            raise ValueError(f"its part {inert(repr(other[0]))} is not an array")
        try:
            schema = json.loads(archive.read(_SCHEMA))
        except RecursionError as error:
            raise ValueError(f"{_SCHEMA} nests too deeply") from error
    protocol = schema.get("protocol") if isinstance(schema, dict) else None
    if type(protocol) is not int or protocol > _protocol():
        # Some versions of skops go on, with readers of an older protocol.
        raise ValueError(f"its protocol is {inert(repr(protocol))}; upgrade skops")
    _check_schema(schema)
    file.seek(0)
    return schema


def _copy_archive(old: zipfile.ZipFile, target: IO[bytes], schema: Any) -> None:
    """Copy a model file with another schema."""
    with zipfile.ZipFile(target, "w") as new:
        for part in old.infolist():
            if part.filename == _SCHEMA:
                new.writestr(_SCHEMA, json.dumps(schema, separators=(",", ":")))
                continue
            with old.open(part) as content, new.open(part.filename, "w", force_zip64=True) as to:
                shutil.copyfileobj(content, to)


@contextmanager
def _with_new_names(file: IO[bytes], schema: Any) -> Iterator[IO[bytes]]:
    """The file itself; or a temporary copy, if it names classes that have moved since."""
    if not rename_moved_classes(schema):
        yield file
        return
    with tempfile.TemporaryFile() as copied:
        with zipfile.ZipFile(file) as old:
            _copy_archive(old, copied, schema)
        copied.seek(0)
        yield copied


@functools.cache
def _protocol() -> int:
    """Protocol number of the installed skops."""
    with zipfile.ZipFile(io.BytesIO(require_skops().dumps(0))) as archive:
        return int(json.loads(archive.read(_SCHEMA))["protocol"])


def _check_schema(schema: Any) -> None:
    """Raise if the schema nests too deeply, or if nodes or arrays with one number differ."""
    sizes: dict[int, int] = {}
    owners: dict[str, int] = {}

    def size(node: Any, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise ValueError(f"{_SCHEMA} nests too deeply")
        if not isinstance(node, dict | list):
            return 1
        children = node.values() if isinstance(node, dict) else node
        total = 1 + sum(size(child, depth + 1) for child in children)
        if isinstance(node, dict) and _is_node(node):
            number = node.get("__id__")
            if type(number) is not int or number == 0:
                raise ValueError(f"{_SCHEMA} has a node without a number")
            if sizes.setdefault(number, total) != total:
                raise ValueError(f"{_SCHEMA} has two different nodes of one number")
            array = node.get("file")
            if array is not None and not _is_array_or_bytes(node, str(array)):
                raise ValueError(f"{_SCHEMA} has an array of a type that is not numpy's")
            if isinstance(array, str) and owners.setdefault(array, number) != number:
                raise ValueError(f"{_SCHEMA} has an array that stands for two")
        return total

    size(schema, 0)


def _is_array_or_bytes(node: dict[str, Any], part: str) -> bool:
    """Whether a node reads an array, whose header was checked, or raw bytes of another library.

    Of any other type, skops would call that with the array.
    """
    if node.get("__loader__") in ("BytesNode", "BytearrayNode"):
        return part.endswith(".bin")
    return part.endswith(".npy") and str(node.get("__module__")).partition(".")[0] == "numpy"


def _is_node(node: dict[str, Any]) -> bool:
    """Whether a dict is a node of skops; in a dict of the user, the same keys have nodes as values."""
    marks = [node[key] for key in ("__id__", "__loader__") if key in node]
    return any(not isinstance(mark, dict | list) for mark in marks)
