"""Print results and status lines, write files, and collect warnings."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from fairspan._system import atomic_write, json_safe, printable, printable_json
from fairspan.exceptions import FairspanWarning, NumericalError

__all__ = [
    *("STDOUT", "collect_warnings", "first_few", "print_result", "print_status", "print_warnings"),
    *("shortened", "write_json", "write_stdout", "write_text"),
]

STDOUT = Path("-")
_NAMES_SHOWN = 6
_stderr = Console(stderr=True)


def print_result(text: str) -> None:
    """Print a line on standard output."""
    write_stdout(printable(text) + "\n")


def print_status(text: str) -> None:
    """Print a line on standard error, for the user and not for the next program in a pipe."""
    _stderr.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def print_warnings(texts: Iterable[str]) -> None:
    """Print a line for each warning on standard error."""
    for text in texts:
        print_status(f"Warning: {text}")


def write_stdout(text: str) -> None:
    """Write to standard output; drop the text if the reader has closed it, as ``| head`` does."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Windows reports a closed pipe as an invalid argument.
        if error.errno not in (errno.EPIPE, errno.EINVAL):
            raise
        # The command may still have files to write. The buffered text goes to the null device.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def write_text(path: Path, text: str) -> None:
    """Write a text file, or to standard output for ``-``."""
    if path == STDOUT:
        write_stdout(text)
        return
    with atomic_write(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write a JSON file, or to standard output for ``-``."""
    text = json.dumps(json_safe(value), indent=indent, ensure_ascii=False)
    write_text(path, printable_json(text) + "\n")


def first_few(texts: Sequence[str], separator: str = ", ") -> str:
    """Join the first few texts; "..." stands for the others."""
    more = ["..."] if len(texts) > _NAMES_SHOWN else []
    return separator.join([*texts[:_NAMES_SHOWN], *more])


def shortened(name: str, longest: int = 24) -> str:
    """Cut a long name, so that a line has room for others."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Yield a list that receives the text of each warning once; turn NumericalError into ValueError."""
    texts: list[str] = []

    def collect(message: Warning | str, *_: Any) -> None:
        text = _with_options(str(message))
        if text not in texts:
            texts.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FairspanWarning)
        warnings.showwarning = collect  # type: ignore[assignment]
        try:
            yield texts
        except NumericalError as error:
            raise ValueError(str(error)) from error


def _with_options(text: str) -> str:
    """Replace the parameter ``sensitive_kind`` in a message by the option ``--kind``."""

    def option(match: re.Match[str]) -> str:
        try:
            kinds = ast.literal_eval(match[1])
        except (SyntaxError, ValueError):  # a column name with a brace
            return match[0]
        return " ".join(f"--kind {shlex.quote(f'{name}={kind}')}" for name, kind in kinds.items())

    return re.sub(r"sensitive_kind=(\{[^{}]*\})", option, text)
