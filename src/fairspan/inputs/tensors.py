"""Read user input in torch tensors on its device, with the messages of the readers of arrays.

Ten million rows are not copied to the host to be checked; only a few numbers of them are.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from fairspan.inputs.columns import LARGEST, read_attributes, refuse_large, refuse_merged
from fairspan.method.linalg import is_tensor, to_home, to_numpy
from fairspan.method.problem import Attribute, ClassLabels, FitConfig
from fairspan.method.torch_columns import DEVICE_KERNELS, refuse_on_device

# Labels that are brought to the host; numbers with more values than this are no classes.
_MOST_CLASSES = 2**16


def bring_home(attribute: Attribute, home: Any) -> Attribute:
    """Numbers as tensors; text stays where it can be compared."""
    if attribute.values.dtype.kind != "f":
        return attribute
    values, missing = to_home(attribute.values, home), to_home(attribute.missing, home)
    return Attribute(attribute.name, values, missing, attribute.dtype_kind)


def read_tensor(est: object, X: Any, config: FitConfig, *, reset: bool) -> Any:
    """A finite float tensor of two dimensions."""
    import torch

    X = X.detach()
    if X.layout != torch.strided:
        msg = f"X is a tensor of layout {X.layout}; a dense one is needed: X.to_dense()."
        raise ValueError(msg)
    if config.feature_map is not None:
        refuse_on_device(f"feature_map {type(config.feature_map).__name__}")
    if callable(config.kernel) or config.kernel not in DEVICE_KERNELS:
        refuse_on_device(f"kernel={config.kernel!r}")
    if X.dtype.is_complex:
        raise ValueError(f"Complex data not supported: X is a tensor of {X.dtype}.")
    # Shape, number and names of columns: scikit-learn's own checks, on no more than they need.
    validate_data(
        est, to_numpy(X[:1].float() if X.ndim else X), reset=reset, ensure_all_finite=False
    )
    if X.dtype not in (torch.float32, torch.float64):
        small = X.dtype in (torch.float16, torch.bfloat16) or X.device.type == "mps"
        X = X.to(torch.float32 if small else torch.float64)
    return X


def all_finite(X: Any, largest: float = sys.float_info.max) -> bool:
    """Whether all numbers of a tensor are at most so large: by its extremes, without a copy."""
    import torch

    if X.numel() == 0:
        return True
    low, high = torch.aminmax(X)
    return bool((low >= -largest) & (high <= largest))  # comparisons with NaN are false


def read_tensor_attributes(
    raw: Any, n: int, role: str, prefix: str, home: Any
) -> dict[str, Attribute]:
    """Clean columns of ``sensitive_features`` or ``control_features`` beside rows in a tensor."""
    columns: dict[str, Any]
    if is_tensor(raw) and raw.ndim in (1, 2):
        table = raw.detach() if raw.ndim == 2 else raw.detach()[:, None]
        columns = {f"{prefix}_{j}": table[:, j] for j in range(table.shape[1])}
    elif isinstance(raw, Mapping) and any(is_tensor(values) for values in raw.values()):
        columns = {str(name): values for name, values in raw.items()}
    else:
        attributes = read_attributes(raw, n, role, prefix)
        return {name: bring_home(attribute, home) for name, attribute in attributes.items()}
    out: dict[str, Attribute] = {}
    for name, values in columns.items():
        if not is_tensor(values):
            out |= read_tensor_attributes({name: values}, n, role, prefix, home)
            continue
        if values.shape != (n,):
            msg = f"{role} {name!r} has {len(values)} rows, X has {n}. Give one value per row of X."
            raise ValueError(msg)
        out[name] = _attribute(name, values, role, home)
    if not out:
        raise ValueError(f"{role} has no columns.")
    return out


def _attribute(name: str, values: Any, role: str, home: Any) -> Attribute:
    import torch

    values = values.detach().to(home)
    if values.dtype.is_complex:
        msg = f"{role} column {name!r} has dtype {values.dtype}; give text, booleans, integers or floats."
        raise ValueError(msg)
    kind = "b" if values.dtype == torch.bool else "f" if values.is_floating_point() else "i"
    whole, values = values, values.to(torch.float64)
    if kind != "f":
        if len(values) and float(values.abs().max()) >= 2.0**53:
            refuse_merged(name, to_numpy(whole), role)
        return Attribute(name, values, torch.zeros_like(values, dtype=torch.bool), kind)
    endless = int(values.isinf().sum())
    if endless:
        raise ValueError(f"{role} column {name!r} holds infinity in {endless} rows.")
    missing = values.isnan()
    values = values.masked_fill(missing, 0.0)
    if len(values) and (largest := float(values.abs().max())) > LARGEST:
        refuse_large("y" if role == "target" else f"{role} {name!r}", largest)
    return Attribute(name, values, missing, kind)


def read_tensor_target(y: Any, home: Any, *, numbers: bool) -> tuple[Attribute, ClassLabels | None]:
    """The target, and its labels as they were given unless ``numbers`` are wanted."""
    import torch

    y = y.detach()
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y "
            "to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    attribute = _attribute("y", y, "target", home)
    unknown = int(attribute.missing.sum())
    if unknown:
        raise ValueError(f"Input y contains NaN or None in {unknown} rows. Drop those rows first.")
    if numbers or len(y) == 0:
        return attribute, None
    labels = torch.unique(y)
    if len(labels) > _MOST_CLASSES:
        return attribute, None
    return attribute, ClassLabels.of(
        _attribute("y", labels, "target", home).on_host(), to_numpy(labels)
    )
