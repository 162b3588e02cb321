"""Commands that fairspan-lab adds to the command line: `fairspan reproduce` and `fairspan bench`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from fairspan.cli.options import DataHome, Json, check_json, split_commas
from fairspan.cli.output import STDOUT, print_result, write_json

__all__ = ["add_commands"]

METHOD_NAMES = ("fairspan", "fgp", "gp", "linear-ferm", "ferm", "laftr-gp", "ncfr")
FRONTIER_SETS = ("adult", "compas", "compas-paper", "communities", "nlsy79", "law-school")
FRONTIER_METHODS = (
    *(
        "fairspan",
        "fairspan-correlation",
        "fairspan-limits",
        "fairspan-past",
        "fairspan-decisions",
        "fairspan-leaves",
        "fairspan-aware",
        "fairspan-aware-correlation",
    ),
    *("fgp", "gp", "linear-ferm", "ferm", "hsic", "fair-pca", "boosting"),
    *("eg-logistic", "eg-psi", "eg-boosting", "ncfr", "ncfr-rff", "laftr-gp", "threshold"),
    "correlation-remover",
)
_errors = Console(stderr=True)


def reproduce_command(
    figure: Annotated[str, typer.Argument(help="figure1, figure2 or all.")] = "all",
    splits: Annotated[int, typer.Option(help="Random splits beside the paper's own.")] = 0,
    methods: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(METHOD_NAMES)}; repeat for several."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for figures, tables and finished cells.")
    ] = Path("reproduction"),
    data_home: DataHome = None,
    quick: Annotated[bool, typer.Option("--quick", help="Under two minutes, and rough.")] = False,
    json_file: Json = None,
) -> None:
    """Reproduce the paper's figures; a stopped run goes on where it was."""
    check_json(json_file)
    from fairspan_lab.reproduce import reproduce

    written = reproduce(
        figure, splits=splits, methods=methods, out=out, data_home=data_home, quick=quick,
        track=_track,
        say=_say,
    )  # fmt: skip
    _bring_files(written, json_file)


def frontier_command(
    data: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(FRONTIER_SETS)}; repeat, or separate by commas."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(FRONTIER_METHODS)}; repeat, or separate by commas."),
    ] = None,
    splits: Annotated[
        str | None, typer.Option(help="Number of random splits (10), or their range, as 5:10.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, plots and finished cells.")] = Path(
        "frontier-output"
    ),
    data_home: DataHome = None,
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute, and rough.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes of one thread each.")] = 1,
    criteria: Annotated[
        list[str] | None, typer.Option(help="Of sp, eop, eo; repeat, or separate by commas.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Error against parity, for fairspan and its rivals; a stopped run goes on where it was."""
    check_json(json_file)
    from fairspan_lab.frontier import FailedCellsError, frontier

    try:
        written = frontier(
            split_commas(data), split_commas(methods), splits, out, data_home=data_home, quick=quick,
            jobs=jobs, criteria=split_commas(criteria), track=_track, say=_say,
        )  # fmt: skip
    except FailedCellsError as error:
        _bring_files(error.written, json_file, error.failures)
        for line in error.failures:
            _say(f"Failed: {line}")
        raise typer.Exit(1) from error
    _bring_files(written, json_file)


def _bring_files(
    written: Iterable[Path], json_file: Path | None, failures: Iterable[str] = ()
) -> None:
    """Files that a run has left, one to a line."""
    files = [str(path) for path in written]
    if json_file is not None:
        write_json(json_file, {"files": files, "failures": list(failures)})
    if json_file != STDOUT:
        for file in files:
            print_result(file)


def _track(cells: Sequence[Any]) -> Iterable[Any]:
    """A bar that names the cell at work; nothing where there is no terminal."""
    columns = (
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=_errors, disable=not _errors.is_terminal) as progress:
        task = progress.add_task("", total=len(cells))
        for cell in cells:
            progress.update(task, description=cell.title)
            yield cell
            progress.advance(task)


def _say(text: str) -> None:
    _errors.print(text, highlight=False, soft_wrap=True, markup=False)


def add_commands(app: typer.Typer) -> None:
    """Add this package's commands to fairspan's application."""
    app.command("reproduce")(reproduce_command)
    bench = typer.Typer(no_args_is_help=True, help="Comparisons with other methods.")
    bench.command("frontier")(frontier_command)

    @bench.callback()
    def _group() -> None:
        pass

    app.add_typer(bench, name="bench")
