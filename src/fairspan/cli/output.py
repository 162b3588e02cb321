"""What a command of the command line gives back: lines, files, warnings, an audit."""

from __future__ import annotations

import ast
import errno
import json
import math
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fairspan._system import atomic_write, is_stream, printable, printable_json
from fairspan.cli.tables import listed
from fairspan.exceptions import FairspanWarning, NumericalError
from fairspan.plotting import require_pyplot
from fairspan.report.favourable import Favourable

__all__ = [
    "STDOUT",
    "AuditFiles",
    "bring_audit",
    "bring_json",
    "check_apart",
    "check_audit",
    "check_fairness",
    "check_folder",
    "check_json",
    "check_model_file",
    "check_parts",
    "plain_errors",
    "say",
    "show",
    "write_out",
]

STDOUT = Path("-")
_errors = Console(stderr=True)


class AuditFiles(NamedTuple):
    """Where an audit is to be written; - is standard output."""

    json: Path | None
    markdown: Path | None
    plot: Path | None

    @property
    def to_stdout(self) -> bool:
        """Whether standard output belongs to a file, and so to nothing else."""
        return STDOUT in (self.json, self.markdown)

    @property
    def written(self) -> dict[str, Path | None]:
        """The files by their options."""
        return {f"--{option}": path for option, path in self._asdict().items()}

    def check(self) -> None:
        """What cannot be written is said before the work, not after it."""
        if self.json == STDOUT and self.markdown == STDOUT:
            raise ValueError("--json - and --markdown - cannot both have standard output.")
        for option, path in self.written.items():
            if path is not None and (path != STDOUT or option == "--plot"):
                check_folder(path, option)
        if self.plot is not None:
            pyplot = require_pyplot()
            pyplot.switch_backend("agg")  # a command has no window to draw in
            if self.plot.suffix[1:].lower() not in ("png", "pdf", "svg", "jpg", "jpeg"):
                msg = f"--plot {self.plot}: give a file that ends in .png, .pdf, .svg or .jpg."
                raise ValueError(msg)


def check_folder(path: Path, option: str) -> None:
    """Refuse a file that has no folder to be in, or that cannot be written there."""
    if path == STDOUT:
        raise ValueError(f"{option} - is not allowed; give the name of a file.")
    try:
        if is_stream(path):
            return  # the writer copies into it, so its folder need not be writable
    except OSError as error:
        raise ValueError(f"{option} {error}") from error
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        why = error.strerror or type(error).__name__
        msg = f"{option} {path} cannot be written ({why}); choose another folder."
        raise ValueError(msg) from error


def check_apart(read: Mapping[str, Path | None], written: Mapping[str, Path | None]) -> None:
    """Refuse to write over what is read, or twice to one file."""
    seen = {name: path for name, path in read.items() if path is not None and path.is_file()}
    for option, path in written.items():
        if path is None or path == STDOUT:
            continue
        for other, known in seen.items():
            if _one_file(path, known):
                msg = f"{option} {path} and {other} {known} are one file; give another name."
                raise ValueError(msg)
        seen[option] = path


def _one_file(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))


def check_model_file(path: Path, option: str = "--out") -> None:
    """Refuse a place where no model can be written."""
    from fairspan.persistence import require_skops

    check_folder(path, option)
    require_skops()  # absent, it would be missed after the fit


def check_fairness(value: float | None) -> None:
    """A place of the dial, if one is given."""
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"--fairness {value:g} is not allowed; give a number from 0 to 1.")


def check_audit(level: float, min_rows: int, attackers: list[str] | None) -> None:
    """Raise ValueError for options of an audit that are out of range, before any work."""
    from fairspan.auditing.attack import ATTACKERS
    from fairspan.auditing.results import check_settings

    check_settings(level, 500, 499, min_rows, 10_000, 5, listed(attackers) or ATTACKERS, None)


def check_parts(given: list[str] | None) -> list[str] | None:
    """Parts of an audit, before a long fit finds out that there is no such part."""
    from fairspan.auditing.findings import SECTIONS

    parts, known = listed(given), SECTIONS[1:]
    for part in parts or []:
        if part not in known:
            raise ValueError(f"--parts has {part!r}; known are {', '.join(known)}.")
    return parts


def bring_audit(
    files: AuditFiles, given: Any, favourable: Favourable | None = None, **options: Any
) -> None:
    """Audit a model or scores, print the result and write the files that were asked for.

    Parameters
    ----------
    files : the files to write.
    given : fitted model, scores or decisions.
    favourable : the favourable class; its origin is part of the JSON.
    **options : arguments of :func:`fairspan.audit`.
    """
    from fairspan.auditing import audit

    label = None if favourable is None else favourable.label
    with plain_errors() as told:
        found = audit(given, verbose=int(sys.stderr.isatty()), pos_label=label, **options)
    if favourable is not None:
        found = replace(found, settings=found.settings | {"favourable": asdict(favourable)})
    for text in told:
        if text not in found.warnings:  # those are in all that is written
            say(f"Warning: {text}")
    if not files.to_stdout:
        show(repr(found))
    for path, text_of in ((files.json, found.to_json), (files.markdown, found.to_markdown)):
        if path == STDOUT:
            write_out(printable_json(text_of()))
        elif path is not None:
            text_of(path)
    if files.plot is not None:
        figure = found.plot().figure_
        with atomic_write(files.plot) as part:
            figure.savefig(part, format=files.plot.suffix[1:].lower(), dpi=150)
        require_pyplot().close(figure)
    written = [str(path) for path in files if path not in (None, STDOUT)]
    if written:
        line = f"Audit written to {', '.join(written)}"
        say(line) if files.to_stdout else show(f"\n{line}")


def bring_json(path: Path, value: Any) -> None:
    """A result for machines, in a file or on standard output."""
    text = printable_json(json.dumps(_known(value), indent=2, ensure_ascii=False)) + "\n"
    if path == STDOUT:
        write_out(text)
        return
    with atomic_write(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def _known(value: Any) -> Any:
    """The same with null for what is not known: JSON has no word for NaN."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_json(path: Path | None) -> None:
    """Refuse, before the work, a place where no JSON can be written."""
    if path is not None and path != STDOUT:
        check_folder(path, "--json")


@contextmanager
def plain_errors() -> Iterator[list[str]]:
    """Texts of the warnings inside, once each; what numbers cannot do is an error of the data."""
    told: list[str] = []

    def keep(message: Warning | str, *_: Any) -> None:
        text = _with_options(str(message))
        if text not in told:
            told.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FairspanWarning)
        warnings.showwarning = keep  # type: ignore[assignment]
        try:
            yield told
        except NumericalError as error:
            raise ValueError(str(error)) from error


def _with_options(text: str) -> str:
    """The text with the option ``--kind`` where a message names the parameter ``sensitive_kind``."""

    def option(match: re.Match[str]) -> str:
        try:
            kinds = ast.literal_eval(match[1])
        except (SyntaxError, ValueError):  # a column name with a brace
            return match[0]
        return " ".join(f"--kind {shlex.quote(f'{name}={kind}')}" for name, kind in kinds.items())

    return re.sub(r"sensitive_kind=(\{[^{}]*\})", option, text)


def show(text: str) -> None:
    """A result, on standard output."""
    write_out(printable(text) + "\n")


def write_out(text: str) -> None:
    """Text on standard output; nothing where its reader has gone, as after ``| head``."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Windows reports a closed pipe as an invalid argument.
        if error.errno not in (errno.EPIPE, errno.EINVAL):
            raise
        # The work goes on: there may be files to write. What is still buffered goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say(text: str) -> None:
    """To the person rather than to the next program."""
    _errors.print(printable(text), markup=False, highlight=False, soft_wrap=True)
