"""Parts that commands share: options, checks of their values, printed lines, files, and warnings."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from fairspan._system import atomic_write, is_stream, json_safe, printable, printable_json

POSITIVE = "--positive CLASS"  # how a message names the option
STDOUT = Path("-")
stderr = Console(stderr=True)
_NAMES_SHOWN = 6
PAGE_KINDS, TABLE_KINDS, MODEL_KINDS = (".html", ".htm"), (".csv",), (".skops",)
# Texts of the library that help needs; a command that only prints help imports nothing else of it.
PARTS = ("scores", "decisions", "tests", "attacks", "proxies", "certificate", "kernel")
SENTENCES = {
    "criterion": "Fairness criterion.",
    "equalize": "What is made equal between groups.",
    "fairness": "Fairness of the model, from 0 (unconstrained) to 1 (fairest).",
    "selection_rate": "Share of the rows to select, of two classes.",
}


def parameter_help(name: str, more: str) -> str:
    """Help of an option that sets a parameter of the model: the text of the parameter, and more."""
    return f"{SENTENCES[name]} {more}"


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
ProtectedProbability = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=PATTERN, as 'race=race_*': columns with the probability of each group of an attribute. "
        "Repeat for other attributes. They are used for equal scores, not for decisions.",
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
        help=parameter_help(
            "criterion",
            "One of statistical_parity (sp), equalized_odds (eo), equal_opportunity (eop) or "
            "conditional_statistical_parity (with --control).",
        )
    ),
]
Equalize = Annotated[
    str,
    typer.Option(
        help=parameter_help(
            "equalize",
            "scores: the mean score. decisions: the rates at which groups get each class. auto: decisions "
            "for two classes, scores otherwise.",
        )
    ),
]
SelectionRate = Annotated[
    float | None,
    typer.Option(help=parameter_help("selection_rate", "For decisions.")),
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
    typer.Option(help=f"Parts of the audit: {', '.join(PARTS)}; all if not given."),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        help="Types in the model file to trust, as `fairspan fit` printed them for boosted trees. Only for "
        "files whose origin you know."
    ),
]
WithMoments = Annotated[
    bool,
    typer.Option(
        "--with-moments",
        help="Save the moments, too, with which partial_fit and merge of Python go on; the file is about "
        "40 times as large.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a target, group or weight.")
]
MissingProtected = Annotated[
    str,
    typer.Option(
        "--missing-protected",
        help="What to do with rows without a protected attribute: raise (an error), or omit: learn from "
        "them, but compare groups on the other rows.",
    ),
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
TEMPLATES = ("adverse-impact", "ll144", "annex-iv", "model-card")
DOCUMENT_KINDS = (".md", ".markdown", ".html", ".htm")
Template = Annotated[
    str | None,
    typer.Option(help=f"Document for --out: {', '.join(TEMPLATES)}."),
]
Document = Annotated[
    Path | None,
    typer.Option("--out", help="File for the document of --template: .md or .html."),
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
    out: Path | None = None

    @property
    def to_stdout(self) -> bool:
        """Whether standard output is used for one of the files, so that it must hold nothing else."""
        return STDOUT in (self.json, self.markdown)

    @property
    def by_option(self) -> dict[str, Path | None]:
        """The files by option."""
        given = self._asdict()
        if self.out is None:  # elsewhere --out is the file of a model
            del given["out"]
        return {f"--{option}": path for option, path in given.items()}

    def check(self) -> None:
        """Raise if one of the files cannot be written."""
        from fairspan.plotting import require_pyplot

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


def check_template(template: str | None, out: Path | None) -> None:
    """Raise unless ``--template`` and ``--out`` go together."""
    if template is not None and template not in TEMPLATES:
        raise ValueError(f"--template {template} is not allowed; give {', '.join(TEMPLATES)}.")
    if (template is None) != (out is None):
        missing, given = (
            ("--out FILE", "--template") if out is None else ("--template NAME", "--out")
        )
        raise ValueError(f"{given} needs {missing}: the document, and the file to write it to.")
    check_kind(out, "--out", DOCUMENT_KINDS)


def check_kind(path: Path | None, option: str, kinds: Sequence[str]) -> None:
    """Raise if a name ends as that of another kind of file; a name without an ending is allowed."""
    ending = "" if path is None else path.suffix.lower()
    if ending and ending not in kinds:
        raise ValueError(
            f"{option} {path}: {ending} files are not written; give a name that ends in "
            f"{' or '.join(kinds)}."
        )


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


def read_limit(text: str | None, option: str) -> float | dict[str, float] | None:
    """Read a limit: a number for all attributes, or ``name=number,...``."""
    if text is None:
        return None
    named = [part.rpartition("=") for part in text.split(",")]
    try:
        values = [float(value) for _, _, value in named]
    except ValueError:
        values = []
    names = [name.strip() for name, _, _ in named]
    single = names == [""]
    if not values or not (single or (all(names) and len(set(names)) == len(names))):
        msg = (
            f"{option} {text} is not allowed; give a number from 0 to 1 for all protected attributes, or "
            f"NAME=NUMBER,NAME=NUMBER."
        )
        raise ValueError(msg)
    for value in values:
        check_fairness(value, option)
    return values[0] if single else dict(zip(names, values, strict=True))


def check_audit(level: float, min_rows: int, attackers: list[str] | None) -> None:
    """Raise if an option of ``fairspan audit`` is out of range."""
    from fairspan.auditing.attackers import ATTACKERS
    from fairspan.auditing.parts import Settings

    chosen = split_commas(attackers) or ATTACKERS
    Settings(level=level, min_rows=min_rows, attackers=chosen)  # checks its values


def read_parts(given: list[str] | None) -> list[str] | None:
    """Return the parts of an audit that ``--parts`` lists; raise if one is unknown."""
    parts, known = split_commas(given), PARTS
    for part in parts or []:
        if part not in known:
            raise ValueError(f"--parts has {part!r}; known are {', '.join(known)}.")
    return parts


# ------------------------------------------------------------------ printed lines and files


def print_result(text: str) -> None:
    """Print a line on standard output."""
    write_stdout(printable(text) + "\n")


def print_status(text: str) -> None:
    """Print a line on standard error, for the user and not for the next program in a pipe."""
    stderr.print(printable(text), markup=False, highlight=False, soft_wrap=True)


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


def quoted(values: Sequence[Any]) -> str:
    """List the first few values as Python writes them: texts in quotes."""
    return first_few([repr(value) for value in values])


def shortened(name: str, longest: int = 24) -> str:
    """Cut a long name, so that a line has room for others."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def check_missing(value: str) -> None:
    """Check ``--missing-protected``."""
    if value not in ("raise", "omit"):
        raise ValueError(f"--missing-protected {value} is not allowed; give raise or omit.")
