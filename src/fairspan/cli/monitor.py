"""`fairspan monitor`: count a batch of decisions or scores, and raise an alarm if a limit is broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan._system import atomic_write
from fairspan.cli import common
from fairspan.cli.messages import collect_warnings

if TYPE_CHECKING:
    from fairspan.monitoring import FairnessMonitor

# Exit code while an alarm holds; 2 is for errors.
ALARM = 3
_LIMITS = ["gap=0.1"]


def monitor_command(
    state: Annotated[
        Path, typer.Argument(help="JSON file of the monitor; written on the first use.")
    ],
    *,
    new: Annotated[
        Path | None,
        typer.Option(help="Table with new people: CSV, Excel, Parquet or Feather, one row each."),
    ] = None,
    decisions: Annotated[str | None, typer.Option(help="Column of decisions.")] = None,
    scores: Annotated[str | None, typer.Option(help="Column of scores.")] = None,
    protected: common.Protected = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="gap=0.1, ratio=0.8, correlation=0.05, or change=0.05 with --reference-rows; repeat for "
            "several. gap=0.1 if not given. On the first use."
        ),
    ] = None,
    positive: common.Positive = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column with ids of people, so that protected attributes may come later."
        ),
    ] = None,
    late: Annotated[
        bool,
        typer.Option("--late", help="The table has --id and --protected of people who wait."),
    ] = False,
    alpha: Annotated[
        float | None,
        typer.Option(help="Probability of any false alarm; 0.05 if not given. On the first use."),
    ] = None,
    score_range: Annotated[
        str | None,
        typer.Option(help="Smallest and largest possible score, as 0,1. On the first use."),
    ] = None,
    min_rows: Annotated[
        int | None,
        typer.Option(help="People that a group needs for an alarm; 30. On the first use."),
    ] = None,
    reference_rows: Annotated[
        int | None,
        typer.Option(help="People of the reference period of a change. On the first use."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Last people whose rates are shown; 1000. On the first use."),
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(help="Reason to begin again; earlier alarms stay in the file."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the new state, instead of STATE.")
    ] = None,
    json_file: common.Json = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the monitor: a .png, .pdf or .svg file.")
    ] = None,
    sep: Annotated[str | None, typer.Option(help="Separator of the table's fields.")] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark, . or , ; guessed.", metavar="TEXT")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of the table.")] = None,
    sheet: Annotated[str | None, typer.Option(help="Sheet of an Excel file.")] = None,
) -> None:
    """Watch a model in use: count new people, and exit with code 3 while an alarm holds."""
    target = out or state
    files = common.AuditFiles(json_file, None, plot)
    files.check()
    common.check_output_file(target, "STATE" if out is None else "--out")
    common.check_kind(target, "STATE" if out is None else "--out", (".json",))
    outputs = {"--json": json_file, "--plot": plot}
    common.check_distinct({"--new": new, "STATE": state}, outputs)
    common.check_distinct({"--new": new}, {"STATE" if out is None else "--out": target, **outputs})
    given = {
        "limits": limit,
        "alpha": alpha,
        "window": window,
        "min_rows": min_rows,
        "reference_rows": reference_rows,
        "score_range": _read_range(score_range),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    with collect_warnings() as warnings_seen, _naming_options():
        monitor = _open(state, settings, new=new, reset=reset)
        if reset is not None:
            monitor.reset(reset)
        if new is not None:
            reading: dict[str, Any] = {
                "sep": sep,
                "decimal": decimal,
                "encoding": encoding,
                "sheet": sheet,
            }
            columns = _Columns(decisions, scores, person, common.split_commas(protected), late)
            _feed(monitor, new, columns, reading, positive)
    if new is not None or reset is not None:
        monitor.save(target)
    common.print_warnings(warnings_seen)
    if json_file is not None:
        common.write_json(json_file, monitor.to_dict())
    if not files.to_stdout:
        common.print_result(monitor.summary())
    if plot is not None:
        from fairspan.plotting import require_pyplot

        figure = monitor.plot().figure_
        with atomic_write(plot) as part:
            figure.savefig(part, format=plot.suffix[1:].lower(), dpi=150)
        require_pyplot().close(figure)
    if monitor.alarms_:
        raise typer.Exit(ALARM)


# Words of the Python interface in errors, and those of the command line.
_WORDS = {
    "alpha=": "--alpha ",
    "min_rows=": "--min-rows ",
    "window=": "--window ",
    "give score_range=(smallest, largest) to the monitor": "give --score-range SMALLEST,LARGEST",
    "score_range=": "--score-range ",
    "reference_rows= (": "--reference-rows (",
    "reference_rows=": "--reference-rows ",
    "pos_label=": "--positive ",
    "Give ids=, so that they wait until update_sensitive brings it": "Give --id COLUMN, so that they wait "
    "for --late",
    "needs scores=": "needs --scores COLUMN",
    "need decisions=": "need --decisions COLUMN",
    "sensitive feature ": "--protected ",
}


@contextmanager
def _naming_options() -> Iterator[None]:
    """Replace words of Python in an error by options."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for words, option in _WORDS.items():
            text = text.replace(words, option)
        raise ValueError(text) from error


class _Columns:
    """Names of the columns of a table."""

    def __init__(
        self,
        decisions: str | None,
        scores: str | None,
        person: str | None,
        protected: list[str] | None,
        late: bool,
    ) -> None:
        self.decisions, self.scores, self.person = decisions, scores, person
        self.protected, self.late = protected, late

    def check(self, attributes: tuple[str, ...]) -> None:
        """Raise if an option is missing; protected attributes are those of the state by default."""
        if self.late:
            if self.decisions or self.scores:
                raise ValueError(
                    "--late brings protected attributes alone; leave --decisions and --scores out."
                )
            if not self.person:
                raise ValueError("--late needs --id COLUMN, the people who wait.")
        elif not (self.decisions or self.scores):
            raise ValueError("Give --decisions COLUMN, --scores COLUMN or both.")
        if self.protected is None and attributes and not self.person:
            self.protected = list(attributes)
        if self.late and self.protected is None:
            self.protected = list(attributes) or None
        if self.protected is None and not self.person:
            raise ValueError("Give --protected COLUMN, or --id COLUMN if it comes later.")
        if self.late and not self.protected:
            raise ValueError("--late needs --protected COLUMN.")


def _open(
    state: Path, settings: dict[str, Any], *, new: Path | None, reset: str | None
) -> FairnessMonitor:
    """The monitor of the file, or a new one."""
    from fairspan.monitoring import FairnessMonitor

    if state.exists():
        monitor = FairnessMonitor.load(state)
        known = monitor.settings
        for name, value in settings.items():
            if _plain(known[name]) != _plain(FairnessMonitor(**_alone(name, value)).settings[name]):
                raise ValueError(
                    f"--{_OPTION[name]} differs from that of {state}, which has {_shown(known[name])}. A "
                    f"monitor keeps its settings: leave the option out, or begin a new file."
                )
        return monitor
    if new is None or reset is not None:
        raise ValueError(f"{state} is no file; the first use needs --new TABLE and no --reset.")
    settings.setdefault("limits", _LIMITS)
    return FairnessMonitor(**settings)


_OPTION = {
    "limits": "limit",
    "alpha": "alpha",
    "window": "window",
    "min_rows": "min-rows",
    "reference_rows": "reference-rows",
    "score_range": "score-range",
}


def _alone(name: str, value: Any) -> dict[str, Any]:
    """Arguments of a monitor that has this setting: a change and its rows go together."""
    if name == "reference_rows":
        return {"limits": "change=0.05", name: value}
    if name == "limits" and any(str(text).startswith("change") for text in value):
        return {"limits": value, "reference_rows": 1}
    return {name: value}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read_range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        msg = f"--score-range {text} is not allowed; give two numbers, as 0,1."
        raise ValueError(msg) from None
    return low, high


def _feed(
    monitor: FairnessMonitor,
    new: Path,
    columns: _Columns,
    reading: dict[str, Any],
    positive: str | None,
) -> None:
    """Read the table and count its people."""
    from fairspan.cli.read import Input, read_data
    from fairspan.inputs.columns import require_columns

    columns.check(monitor.attributes)
    protected = columns.protected or []
    # Groups and ids are text, so that 01 and 1 differ in every batch alike.
    text = [*protected, *([columns.person] if columns.person else [])]
    frame = read_data(Input(data=str(new), **reading), text).frame
    for option, names in (
        ("--protected", protected),
        ("--id", [columns.person]),
        ("--decisions", [columns.decisions]),
        ("--scores", [columns.scores]),
    ):
        require_columns([name for name in names if name], list(frame.columns), f"{option} names")
    ids = None if columns.person is None else frame[columns.person].to_numpy()
    groups = {name: frame[name].to_numpy() for name in protected} or None
    if columns.late:
        monitor.update_sensitive(ids, groups)
        return
    decided = None if columns.decisions is None else frame[columns.decisions].to_numpy()
    if decided is not None:
        _favourable(monitor, decided.tolist(), columns.decisions or "", positive)
    monitor.update(
        decisions=decided,
        scores=None if columns.scores is None else frame[columns.scores].to_numpy(),
        sensitive_features=groups,
        ids=ids,
    )


def _favourable(
    monitor: FairnessMonitor, labels: list[Any], column: str, positive: str | None
) -> None:
    """Set the favourable decision on the first use: that of the option, or guessed from the labels."""
    from fairspan.cli.column_kinds import match_label
    from fairspan.report.training import choose_favourable

    seen = list(dict.fromkeys(labels))
    if monitor.pos_label is not None:
        known = monitor.pos_label
        if positive is not None and str(known) != positive:
            raise ValueError(f"--positive {positive} differs from that of the state, {known}.")
        return
    if len(seen) == 1 and positive is not None and isinstance(seen[0], str):
        seen.append(positive)  # a batch may lack one of the two decisions
    elif len(seen) == 1 and seen[0] in (0, 1):
        seen = [type(seen[0])(0), type(seen[0])(1)]
    given = None if positive is None else match_label(positive, seen, repr(column))
    favourable = choose_favourable(seen, column, given)
    if favourable is None:
        raise ValueError(
            f"--decisions {column} holds {common.quoted(seen)}; name the favourable one with "
            f"{common.POSITIVE}."
        )
    common.print_status(favourable.sentence(common.POSITIVE))
    label = favourable.label
    monitor.pos_label = label.item() if hasattr(label, "item") else label
