"""Commands that fairspan-lab adds to the command line: `fairspan reproduce` and `fairspan bench`.

Imports from `fairspan.cli` are inside the functions: importing that package loads this module.
"""

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

__all__ = ["add_commands"]

METHOD_NAMES = ("fairspan", "fgp", "gp", "linear-ferm", "ferm", "laftr-gp", "ncfr")
FRONTIER_SETS = (
    *("adult", "compas", "compas-paper", "communities", "nlsy79", "law-school"),
    *("health", "happiness"),
)
FRONTIER_METHODS = (
    *("fairspan", "fairspan-correlation", "fairspan-limits", "fairspan-past"),
    *("fairspan-decisions", "fairspan-leaves", "fairspan-aware", "fairspan-aware-correlation"),
    *("fairspan-new-rows", "fairspan-auto", "fairspan-rule", "fairspan-rule-boosting"),
    *("fairspan-rule-logistic", "fairspan-promise", "fairspan-rule-promise"),
    *("fgp", "gp", "linear-ferm", "ferm", "hsic", "fair-pca", "boosting"),
    *("eg-logistic", "eg-psi", "eg-boosting", "linear-post", "linear-post-logistic"),
    *("penalised-boosting", "penalised-network", "fairret", "ktopt", "leace", "barycentre"),
    *("ncfr", "ncfr-rff", "laftr-gp", "threshold"),
    "correlation-remover",
)
_errors = Console(stderr=True)

DataHome = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets' files; $FAIRSPAN_DATA or the cache if absent."),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="JSON file for the result; - is standard output.")
]


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
    from fairspan.cli.common import check_json
    from fairspan_lab.reproduce import reproduce

    check_json(json_file)
    written = reproduce(
        figure,
        splits=splits,
        methods=methods,
        out=out,
        data_home=data_home,
        quick=quick,
        track=_track,
        say=_print_status,
    )
    _print_files(written, json_file)


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
    from fairspan.cli.common import check_json, split_commas
    from fairspan_lab.frontier import FailedCellsError, frontier

    check_json(json_file)
    try:
        written = frontier(
            split_commas(data),
            split_commas(methods),
            splits,
            out,
            data_home=data_home,
            quick=quick,
            jobs=jobs,
            criteria=split_commas(criteria),
            track=_track,
            say=_print_status,
        )
    except FailedCellsError as error:
        _print_files(error.written, json_file, error.failures)
        for line in error.failures:
            _print_status(f"Failed: {line}")
        raise typer.Exit(1) from error
    _print_files(written, json_file)


def _print_files(
    written: Iterable[Path], json_file: Path | None, failures: Iterable[str] = ()
) -> None:
    """Print the names of the files that a run wrote, one per line, and write them as JSON."""
    from fairspan.cli.common import STDOUT, print_result, write_json

    files = [str(path) for path in written]
    if json_file is not None:
        write_json(json_file, {"files": files, "failures": list(failures)})
    if json_file != STDOUT:
        for file in files:
            print_result(file)


def _track(cells: Sequence[Any]) -> Iterable[Any]:
    """Show a progress bar that names the current cell; nothing without a terminal."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=_errors, disable=not _errors.is_terminal) as progress:
        task = progress.add_task("", total=len(cells))
        for cell in cells:
            progress.update(task, description=cell.title)
            yield cell
            progress.advance(task)


def _print_status(text: str) -> None:
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
