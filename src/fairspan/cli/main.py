"""The command line: `fairspan explore`, `fit`, `predict`, `audit`, `data`.

Other packages add commands through the entry point group ``fairspan.commands``: a function that
takes the application. fairspan-lab adds `reproduce` and `bench` that way.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
except ImportError as error:  # pragma: no cover - the message is all there is
    msg = 'The command line needs typer and rich: pip install "fairspan[cli]".'
    raise SystemExit(msg) from error

from fairspan._system import INSTALL_LAB, printable
from fairspan.cli.data import OFFLINE, SETS, load_set
from fairspan.cli.explore import explore_command, predict_command
from fairspan.cli.models import audit_command, fit_command
from fairspan.cli.output import STDOUT, bring_json, check_json, show

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Fair kernel models: explore a table, fit, predict, audit, reproduce the paper.",
)  # fmt: skip
app.command("explore")(explore_command)
app.command("fit")(fit_command)
app.command("predict")(predict_command)
app.command("audit")(audit_command)
data_app = typer.Typer(no_args_is_help=True, help="The data sets: list them, or fetch one.")
app.add_typer(data_app, name="data")
LAB_COMMANDS = ("reproduce", "bench")
_errors = Console(stderr=True)
# Parameters of the Python interface that messages name -> options.
_OPTIONS = {
    "n_points": "points", "random_state": "seed", "test_share": "test-share",
    "criterion": "criterion", "fairness": "fairness", "level": "level", "min_rows": "min-rows",
}  # fmt: skip
_PARAMETER = re.compile(rf"\b({'|'.join(_OPTIONS)})=")

DataHome = Annotated[
    Path | None,
    typer.Option(help="Folder of the data files; $FAIRSPAN_DATA or the cache if absent."),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="The same for machines; - is standard output.")
]


def main() -> None:
    """Entry point: one red line and exit code 2 where a user can act, never a traceback."""
    _write_any_character()
    try:
        code = app(standalone_mode=False)
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("FAIRSPAN_DEBUG"):
            raise
        _fail(str(error))
        raise SystemExit(2) from error
    except Exception as error:
        # What cannot be parsed; the class is click's or typer's own, by typer's version.
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        if not said():  # nothing was asked for: the help has been shown
            raise SystemExit(2) from error
        _fail(f"{said().rstrip('.')}. See {_help_of(error)}.")
        raise SystemExit(2) from error
    raise SystemExit(code or 0)


def _write_any_character() -> None:
    """Write redirected output as UTF-8; escape what a terminal's own encoding lacks.

    Windows encodes redirected output in an 8-bit code page, which fails for most scripts.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8")


def _fail(text: str) -> None:
    """One red line, without markup or control characters of its own, in the words of the options."""
    told = _PARAMETER.sub(lambda found: f"--{_OPTIONS[found[1]]} ", text)
    inert = printable(told, keep="").replace("[", "\\[")
    _errors.print(f"[bold red]Error:[/] {inert}", highlight=False, soft_wrap=True)


def _help_of(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"`{'fairspan' if context is None else context.command_path} --help`"


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fairspan {metadata.version('fairspan')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@data_app.command("list")
def list_data(json_file: Json = None) -> None:
    """Names of the data sets, with what they are."""
    from fairspan import datasets

    check_json(json_file)
    found = [
        {
            "name": name,
            "description": (getattr(datasets, loader).__doc__ or "").strip().splitlines()[0],
            "function": f"fairspan.datasets.{loader}",
            "offline": name in OFFLINE,
        }
        for name, loader in SETS.items()
    ]
    if json_file is not None:
        bring_json(json_file, found)
    if json_file != STDOUT:
        for one in found:
            show(f"{one['name']:<18} {one['description']}")


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(help="A name from `fairspan data list`.")],
    data_home: DataHome = None,
    json_file: Json = None,
) -> None:
    """Find a data set, download it if need be, and say where it is."""
    check_json(json_file)
    table = load_set(name, data_home)
    file = None if name in OFFLINE else str(table.filename)
    if json_file is not None:
        bring_json(
            json_file,
            {
                "name": name, "file": file, "rows": len(table.data), "features": list(table.data.columns),
                "target": str(table.target.name), "protected": list(table.sensitive_features.columns),
            },
        )  # fmt: skip
    if json_file != STDOUT:
        where = "comes with an installed package" if file is None else file
        show(f"{name}: {len(table.data)} rows, {where}")


def _add_commands() -> None:
    """Add the commands of other packages; name the package of those that are not installed."""
    for entry_point in metadata.entry_points(group="fairspan.commands"):
        entry_point.load()(app)
    known = {command.name for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    for name in LAB_COMMANDS:
        if name not in known:
            any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(name, hidden=True, context_settings=any_arguments)(_not_installed(name))


def _not_installed(name: str) -> Callable[[typer.Context], None]:
    def command(_context: typer.Context) -> None:
        raise ImportError(f"`fairspan {name}` is part of fairspan-lab. {INSTALL_LAB}")

    return command


_add_commands()
