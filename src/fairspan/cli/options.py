"""Options that commands share, and checks of their values before any work is done."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from fairspan._system import is_stream
from fairspan.auditing import SECTIONS
from fairspan.auditing.attackers import ATTACKERS
from fairspan.auditing.parts import Settings
from fairspan.cli.output import STDOUT
from fairspan.plotting import require_pyplot

POSITIVE = "--positive CLASS"  # how a message names the option

Data = Annotated[
    str, typer.Argument(help="CSV or Parquet file, one row per person; or the name of a data set.")
]
Target = Annotated[
    str | None, typer.Option(help="Column to predict; a known data set has its own.")
]
Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--protected",
        "--sensitive",
        help="Protected attributes; repeat, or separate by commas. A known data set has its own.",
    ),
]
Control = Annotated[
    list[str] | None, typer.Option(help="Columns within whose strata groups are compared.")
]
Weight = Annotated[
    str | None, typer.Option(help="Column of weights; weight k counts as k copies of the row.")
]
Features = Annotated[
    list[str] | None, typer.Option(help="Columns to learn from; all others if not given.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, such as identifiers.")]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="NAME=continuous or NAME=categorical, where the guess is wrong."),
]
Criterion = Annotated[
    str,
    typer.Option(
        help="statistical_parity (sp), equalized_odds (eo), equal_opportunity (eop) or "
        "conditional_statistical_parity (with --control)."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        "--pos-label",
        help="The favourable class. Without it, one of two classes is guessed from their names, and "
        "the guess is printed.",
    ),
]
Parts = Annotated[
    list[str] | None,
    typer.Option(help=f"Parts of the audit: {', '.join(SECTIONS[1:])}; all if not given."),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a target, group or weight.")
]
DataHome = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets' files; $FAIRSPAN_DATA or the cache if absent."),
]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed repeats the run.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="JSON file for the result; - is standard output.")
]
Markdown = Annotated[
    Path | None,
    typer.Option(help="Markdown file for the audit, for a model card; - is standard output."),
]
Plot = Annotated[Path | None, typer.Option(help="Picture of the audit: a .png, .pdf or .svg file.")]


def split_commas(given: list[str] | None) -> list[str] | None:
    """Split the values of a repeated option, each of which may list several values."""
    if given is None:
        return None
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


class AuditFiles(NamedTuple):
    """Files to write an audit to; - is standard output."""

    json: Path | None
    markdown: Path | None
    plot: Path | None

    @property
    def to_stdout(self) -> bool:
        """Whether standard output is used for one of the files, so that it must hold nothing else."""
        return STDOUT in (self.json, self.markdown)

    @property
    def by_option(self) -> dict[str, Path | None]:
        """The files by option."""
        return {f"--{option}": path for option, path in self._asdict().items()}

    def check(self) -> None:
        """Raise if one of the files cannot be written."""
        if self.json == STDOUT and self.markdown == STDOUT:
            raise ValueError("--json - and --markdown - cannot both have standard output.")
        for option, path in self.by_option.items():
            if path is not None and (path != STDOUT or option == "--plot"):
                check_output_file(path, option)
        if self.plot is not None:
            require_pyplot().switch_backend("agg")  # a command has no window to draw in
            if self.plot.suffix[1:].lower() not in ("png", "pdf", "svg", "jpg", "jpeg"):
                msg = f"--plot {self.plot}: give a file that ends in .png, .pdf, .svg or .jpg."
                raise ValueError(msg)


def check_output_file(path: Path, option: str) -> None:
    """Raise if `path` cannot be created (missing folder, no permission)."""
    if path == STDOUT:
        raise ValueError(f"{option} - is not allowed; give the name of a file.")
    try:
        if is_stream(path):
            return  # the content is copied into it, so its folder need not be writable
    except OSError as error:
        raise ValueError(f"{option} {error}") from error
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        msg = f"{option} {path} cannot be written ({reason}); choose another folder."
        raise ValueError(msg) from error


def check_json(path: Path | None) -> None:
    """Raise if the file of ``--json`` cannot be created."""
    if path is not None and path != STDOUT:
        check_output_file(path, "--json")


def check_model_file(path: Path, option: str = "--out") -> None:
    """Raise if no model can be written to `path`."""
    from fairspan.persistence import require_skops

    check_output_file(path, option)
    require_skops()  # otherwise its absence would be noticed only after the fit


def check_distinct(inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]) -> None:
    """Raise if an output would replace an input or another output."""
    seen = {name: path for name, path in inputs.items() if path is not None and path.is_file()}
    for option, path in outputs.items():
        if path is None or path == STDOUT:
            continue
        for other, known in seen.items():
            if _is_same_file(path, known):
                msg = f"{option} {path} and {other} {known} are one file; give another name."
                raise ValueError(msg)
        seen[option] = path


def _is_same_file(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))


def check_fairness(value: float | None, option: str = "--fairness") -> None:
    """Raise unless `value` is None or from 0 to 1."""
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"{option} {value:g} is not allowed; give a number from 0 to 1.")


def check_audit(level: float, min_rows: int, attackers: list[str] | None) -> None:
    """Raise if an option of ``fairspan audit`` is out of range."""
    chosen = split_commas(attackers) or ATTACKERS
    Settings(level=level, min_rows=min_rows, attackers=chosen)  # checks its values


def read_parts(given: list[str] | None) -> list[str] | None:
    """Return the parts of an audit that ``--parts`` lists; raise if one is unknown."""
    parts, known = split_commas(given), SECTIONS[1:]
    for part in parts or []:
        if part not in known:
            raise ValueError(f"--parts has {part!r}; known are {', '.join(known)}.")
    return parts
