"""The command line: `fairspan explore`, `fit`, `predict`, `audit`, `monitor`, ...

Other packages add commands through the entry point group ``fairspan.commands``: a function that
takes the application. fairspan-lab adds `reproduce` and `bench` that way.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

try:
    import rich  # noqa: F401
    import typer
except ImportError as error:  # pragma: no cover - the message is all there is
    msg = 'The command line needs typer and rich: pip install "fairspan[cli]".'
    raise SystemExit(msg) from error

from fairspan import __version__
from fairspan._system import INSTALL_LAB, printable
from fairspan.cli.alternatives import alternatives_command
from fairspan.cli.common import (
    STDOUT,
    DataHome,
    Json,
    check_json,
    print_result,
    stderr,
    write_json,
)
from fairspan.cli.evaluation import audit_command, predict_command
from fairspan.cli.explore import explore_command
from fairspan.cli.export import export_command
from fairspan.cli.federated import merge_command, moments_command, prepare_command
from fairspan.cli.fit import fit_command
from fairspan.cli.help import add_help
from fairspan.cli.messages import name_options
from fairspan.cli.monitor import monitor_command

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fair kernel models: explore a table, fit, predict, audit, reproduce the paper.",
)
app.command("explore")(explore_command)
app.command("fit")(fit_command)
app.command("predict")(predict_command)
app.command("export")(export_command)
app.command("audit")(audit_command)
app.command("monitor")(monitor_command)
app.command("alternatives")(alternatives_command)
app.command("prepare")(prepare_command)
app.command("moments")(moments_command)
app.command("merge")(merge_command)
data_app = typer.Typer(no_args_is_help=True, help="The data sets: list them, or fetch one.")
app.add_typer(data_app, name="data")
LAB_COMMANDS = ("reproduce", "bench")


def main() -> None:
    """Run the command line; errors that a user can act on are one red line and exit code 2."""
    _write_any_character()
    try:
        code = app(standalone_mode=False)
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("FAIRSPAN_DEBUG"):
            raise
        _print_error(str(error))
        raise SystemExit(2) from error
    except Exception as error:
        # A parsing error is a class of click or of typer, depending on typer's version.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        if text := format_message():  # empty if there were no arguments: the help was printed
            context = getattr(error, "ctx", None)
            command = "fairspan" if context is None else context.command_path
            _print_error(f"{text.rstrip('.')}. See `{command} --help`.")
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


def _print_error(text: str) -> None:
    """Print one red line that names options, not parameters; without control characters."""
    escaped = printable(name_options(text), keep="").replace("[", "\\[")
    stderr.print(f"[bold red]Error:[/] {escaped}", highlight=False, soft_wrap=True)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fairspan {__version__}")
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
    """List the data sets, with a line about each."""
    from fairspan.cli.read import OFFLINE, SETS

    check_json(json_file)
    listed = [
        {
            "name": name,
            "description": (loader.__doc__ or "").strip().splitlines()[0],
            "function": f"fairspan.datasets.{loader.__name__}",
            "offline": name in OFFLINE,
        }
        for name, loader in SETS.items()
    ]
    if json_file is not None:
        write_json(json_file, listed)
    if json_file != STDOUT:
        for entry in listed:
            print_result(f"{entry['name']:<18} {entry['description']}")


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(help="A name from `fairspan data list`.")],
    data_home: DataHome = None,
    json_file: Json = None,
) -> None:
    """Find a data set, download it if need be, and print where it is."""
    from fairspan.cli.read import OFFLINE, load_set

    check_json(json_file)
    bunch = load_set(name, data_home)
    file = None if name in OFFLINE else str(bunch.filename)
    if json_file is not None:
        result = {
            "name": name,
            "file": file,
            "rows": len(bunch.data),
            "features": list(bunch.data.columns),
            "target": str(bunch.target.name),
            "protected": list(bunch.sensitive_features.columns),
        }
        write_json(json_file, result)
    if json_file != STDOUT:
        location = "part of an installed package" if file is None else file
        print_result(f"{name}: {len(bunch.data)} rows, {location}")


def _add_commands() -> None:
    """Add the commands of other packages; without fairspan-lab, its commands explain how to install it."""
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
add_help(app)
