"""Messages of the library in the words of the command line: options in place of parameters."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairspan.exceptions import FairspanWarning, NumericalError


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Yield a list that receives the text of each warning once; turn NumericalError into ValueError."""
    texts: list[str] = []

    def collect(message: Warning | str, *_: Any) -> None:
        text = for_command(str(message))
        if text not in texts:
            texts.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FairspanWarning)
        warnings.showwarning = collect  # type: ignore[assignment]
        try:
            yield texts
        except NumericalError as error:
            raise ValueError(str(error)) from error


def for_command(text: str) -> str:
    """Return a warning of the Python interface in the words of the command line."""
    return _without_parameters(name_options(text))


# Parameters that messages of the Python interface name, and their options.
_OPTIONS = {
    **{
        name: name
        for name in ("criterion", "equalize", "fairness", "level", "confidence", "threshold")
    },
    **{name: name.replace("_", "-") for name in ("test_share", "min_rows", "selection_rate")},
    **{name: name.replace("_", "-") for name in ("max_gap", "min_ratio", "max_correlation")},
    "check": "check",
    "n_points": "points",
    "random_state": "seed",
}
_AT = re.compile(r"\bat\(((?:fairness|max_gap|min_ratio)=[^()]*)\)")
_LIMITS = re.compile(r"\b(max_gap|min_ratio)=(\{[^{}]*\})")
_PARAMETER = re.compile(rf"\b({'|'.join(_OPTIONS)})=(?:'([\w-]+)')?")
# These are no words of a sentence.
_BARE = re.compile(r"(?<![\w`.-])(max_gap|min_ratio|selection_rate)(?![\w`=])")
_COLUMNS = {
    "sensitive_features": "protected",
    "control_features": "control",
    "sample_weight": "weight",
    "pos_label": "positive",
}
_COLUMN = re.compile(rf"(?<![\w`.'-])({'|'.join(_COLUMNS)})(?![\w'`=\[])")
# "(in Python, ...)" and "(--kind a=categorical; in Python, ...)", with brackets inside.
_IN_PYTHON = re.compile(r"(?: \(|; )in Python, (?:[^()]|\((?:[^()]|\([^()]*\))*\))*(?=\))")


def name_options(text: str) -> str:
    """Replace parameters of the model in a message, as ``max_gap=0.1``, by options."""

    def limits(match: re.Match[str]) -> str:
        try:
            by_name = ast.literal_eval(match[2])
        except (SyntaxError, ValueError):  # a column name with a brace
            return match[0]
        return f"{match[1]}={','.join(f'{name}={limit}' for name, limit in by_name.items())}"

    text = _IN_PYTHON.sub(lambda match: "" if match[0][0] == ";" else "\0", text).replace("\0)", "")
    text = _LIMITS.sub(limits, _AT.sub(r"\1", _with_options(text)))
    text = _COLUMN.sub(lambda match: f"--{_COLUMNS[match[1]]}", text)
    text = _PARAMETER.sub(lambda match: f"--{_OPTIONS[match[1]]} {match[2] or ''}", text)
    return _BARE.sub(lambda match: f"--{match[1].replace('_', '-')}", text)


def _without_parameters(text: str) -> str:
    """Leave out sentences about parameters for which there is no option, unless nothing would remain."""
    from fairspan.inputs.config import PARAMETERS  # imported late: help needs none of it

    names = "|".join([*PARAMETERS, "cv", "folds"])
    sentences = re.split(r"(?<=\.) (?=[A-Z`])", text)
    kept = [s for s in sentences if not re.search(rf"\b(?:{names})=['\"{{\d]|`(?:{names})`", s)]
    # A value in a sentence that names no remedy, as "(alpha=0.1)", is better than no sentence.
    plain = [s for s in sentences if not re.search(rf"`(?:{names})`", s)]
    return " ".join(kept or plain or sentences)


def _with_options(text: str) -> str:
    """Replace parameters in a message by options: ``sensitive_kind`` by ``--kind``, for example."""
    text = text.replace("missing_sensitive='omit'", "--missing-protected omit")

    def option(match: re.Match[str]) -> str:
        try:
            kinds = ast.literal_eval(match[1])
        except (SyntaxError, ValueError):  # a column name with a brace
            return match[0]
        return " ".join(f"--kind {shlex.quote(f'{name}={kind}')}" for name, kind in kinds.items())

    return re.sub(r"sensitive_kind=(\{[^{}]*\})", option, text)
