"""``export``: a fitted model as one file that predicts without fairspan."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan._system import atomic_write
from fairspan.deployment.checking import (
    Difference,
    check_npz,
    check_onnx,
    rows_to_check,
    tells_rows_apart,
)
from fairspan.deployment.models import labels_of, write_program
from fairspan.deployment.npz import reader_source, write_npz
from fairspan.deployment.onnx_graph import onnx_model, output_names, require_onnx
from fairspan.deployment.program import Program
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.checks import refuse

__all__ = ["Exported", "export"]

READER_NAME = "read_npz_model.py"
# Parameters of `at` that limit rates, by what they limit.
_LIMITS = {"gap": "max_gap", "ratio": "min_ratio"}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What :func:`export` has written.

    Attributes
    ----------
    path : Path
    format : {"onnx", "npz"}
    dtype : {"float32", "float64"}
        Type of the numbers that go in and come out.
    inputs : dict of str to str
        Names of the inputs, with "matrix", "number", "date" or "text".
    outputs : tuple of str
    size : int
        Bytes of the file.
    rows_checked : int
        0 if no rows were checked.
    unchecked : str or None
        Why no rows were checked.
    largest_difference : float or None
        Between numbers of the file and those of the model, on the rows as the file reads them.
    label_differences : int
        Rows with another label. It is always 0 if rows were checked.
    rounding_difference : float or None
        The same between the file and the model on rows that were not rounded to ``dtype``.
    """

    path: Path
    format: str
    dtype: str
    inputs: dict[str, str]
    outputs: tuple[str, ...]
    size: int
    rows_checked: int
    unchecked: str | None
    largest_difference: float | None
    label_differences: int
    rounding_difference: float | None

    def __str__(self) -> str:
        """What was written and checked, in words."""
        size = f"{self.size / 1e3:,.0f} kB" if self.size < 1e6 else f"{self.size / 1e6:,.1f} MB"
        text = f"{self.path}: {size}, inputs {self._shown(self.inputs)}, outputs {', '.join(self.outputs)}"
        if self.largest_difference is None:
            return f"{text}. Not checked: {self.unchecked}."
        return (
            f"{text}. Checked on {self.rows_checked:,} rows: the largest difference to the model is "
            f"{self.largest_difference:.2g}."
        )

    @staticmethod
    def _shown(names: dict[str, str]) -> str:
        some = list(names)[:5]
        return ", ".join(some) + (f", ... ({len(names)})" if len(names) > len(some) else "")


def export(
    model: Any,
    path: str | os.PathLike[str],
    *,
    dtype: Any = "float32",
    check: Any = None,
    reader: Any = False,
) -> Exported:
    """Write a fitted model as an ONNX or npz file that predicts without fairspan.

    The file has everything from the columns of a table to labels and probabilities: the encoder, kernels
    with their landmarks, learners, the head at the model's dial value, calibration, and decision rules. It
    needs no protected attribute.

    Parameters
    ----------
    model : fitted estimator of fairspan
    path : str or path
        Its ending says what is written: ".onnx", for any runtime of ONNX, or ".npz", for a reader of 60
        lines that needs numpy alone.
    dtype : {"float32", "float64"}, default="float32"
        Type of numbers that go into an ONNX file and come out. Arithmetic inside is always in float64. An npz
        file reads and returns float64.
    check : array or frame, optional
        Rows on which the file is compared with the model. None: rows are generated from what the model knows
        of its training rows (landmarks, thresholds of trees, categories); a warning says if they all get the
        same output. An ONNX file is checked only if onnxruntime is installed.
    reader : bool, default=False
        Write the reader of npz files beside the file, as ``read_npz_model.py``.

    Returns
    -------
    Exported
        Names of inputs and outputs, and the largest difference to the model.

    Raises
    ------
    ExportError
        A part of the model cannot be written; the message names it. Or the file does not predict as the
        model does: a number differs by more than 1e-5 (float32) or 1e-6 (float64, with a warning from 1e-9),
        relative to the largest number, or a label differs. Then no file is written.
    ImportError
        onnx is not installed: ``pip install "fairspan[onnx]"``.

    Notes
    -----
    Inputs are one matrix "X" for a model that was fitted on an array, and one input of shape (rows, 1) for
    each column of a frame. A missing number is NaN, a missing text is "missing", a date is the number of
    days since 1970-01-01 in UTC (:func:`fairspan.tables.days_since_1970`). Outputs are "variable" of
    regressors and of :class:`FairRepresentation`, and "label", "probabilities" and "decision_function" of
    classifiers, as far as the model has them. An output with the name of a column gets ``output_`` before it.

    A file does not warn of unknown categories. Where the model was fitted on numbers without gaps,
    ``predict`` refuses missing and infinite numbers. So does the reader of npz files; an ONNX file returns
    NaN, and the first class as label.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fairspan
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 2)) + s[:, None] * [1, 0]
    >>> y = X.sum(axis=1) + rng.normal(size=200)
    >>> model = fairspan.FairRidge(kernel="linear").fit(X, y, sensitive_features=s)
    >>> path = Path(tempfile.mkdtemp()) / "model.npz"
    >>> written = fairspan.export(model, path, check=X)
    >>> written.largest_difference < 1e-12
    True
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("onnx", "npz"):
        msg = f"path={str(path)!r} ends neither in .onnx nor in .npz, so the kind of file is not known."
        raise ValueError(msg)
    if dtype not in ("float32", "float64"):
        refuse("dtype", dtype, "'float32' or 'float64'")
    if reader not in (True, False) or (reader and kind == "onnx"):
        msg = f"reader={reader!r} is not allowed; give False, or True for an .npz file."
        raise ValueError(msg)
    if kind == "onnx":
        require_onnx()
    if kind == "npz":
        dtype = "float64"
    program = write_program(model)
    facts = _facts(model, program, dtype)
    rows = rows_to_check(model, program, check)
    with atomic_write(target) as part:
        if kind == "onnx":
            text = {f"fairspan.{key}": _as_text(value) for key, value in facts.items()}
            onnx = onnx_model(program, dtype, text, facts["version"])
            part.write_bytes(onnx.SerializeToString(deterministic=True))
            names = output_names(program)
            found = check_onnx(model, program, part, names, rows, dtype)
        else:
            write_npz(part, program, facts)
            names = {name: name for name in program.outputs}
            found = check_npz(model, part, rows)
        size = part.stat().st_size
    if reader:
        beside = target.with_name(READER_NAME)
        with atomic_write(beside) as part:
            part.write_text(reader_source(), encoding="utf-8")
    unchecked = None
    if found is None:
        unchecked = "onnxruntime is not installed"
    elif check is None and not tells_rows_apart(model, rows):
        unchecked = "the generated rows all get the same output"
        warn_user(
            "The file is not checked, because the generated rows all get the same output of the model. "
            "Give rows of yours, as check=rows.",
            DataWarning,
        )
    if unchecked or found is None:
        found = Difference(rows=0, largest=None, labels=0, rounding=None)
    return Exported(
        path=target,
        format=kind,
        dtype=dtype,
        inputs={given.name: given.kind for given in program.inputs},
        outputs=tuple(names.values()),
        size=size,
        rows_checked=found.rows,
        unchecked=unchecked,
        largest_difference=found.largest,
        label_differences=found.labels,
        rounding_difference=found.rounding,
    )


def _facts(model: Any, program: Program, dtype: str) -> dict[str, Any]:
    """Metadata of the file. Protected attributes are not part of it."""
    from fairspan import __version__  # a cycle: the package imports this module on demand

    config = model._fit_state.config
    facts: dict[str, Any] = {
        "version": __version__,
        "model": type(model).__name__,
        "dtype": dtype,
        **_setting(model._position.certificate),
        "criterion": config.criterion_name,
        "equalize": config.equalize,
        "features": [
            {"name": given.name, "kind": given.kind, "complete": given.complete}
            for given in program.inputs
        ],
        "units": dict(model._schema.units or ()),
        "encoded_features": _encoded_names(model),
    }
    if getattr(model, "classes_", None) is not None:
        facts["classes"] = labels_of(model)
    return facts


def _setting(certificate: Any) -> dict[str, Any]:
    """Dial value and limit. A model within limits is that of no dial value, if these are not one number."""
    rates = certificate.decisions
    kind, on_dial = "max_correlation", certificate.limits is None
    asked: float | Mapping[str, float] | None = certificate.limits
    if rates is not None and rates.limit is not None:
        kind, asked, on_dial = _LIMITS[rates.kind], rates.limit, False
    elif on_dial and certificate.dial == "correlation":
        asked = round(1.0 - certificate.fairness, 12)
    limit = None
    if asked is not None:
        # Without the names of protected attributes.
        numbers = sorted(asked.values()) if isinstance(asked, Mapping) else [asked]
        limit = {"kind": kind, "numbers": [float(number) for number in numbers]}
    fairness = certificate.fairness if on_dial else None
    return {"fairness": fairness, "dial": certificate.dial if on_dial else None, "limit": limit}


def _encoded_names(model: Any) -> list[str] | None:
    encoder = model._schema.encoder
    return None if encoder is None else [str(name) for name in encoder.get_feature_names_out()]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
