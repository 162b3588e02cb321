"""`fairspan export`: a saved model as an ONNX or npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli import common
from fairspan.cli.messages import collect_warnings
from fairspan.cli.models import load_model_file

_KINDS = (".onnx", ".npz")
_DTYPES = ("float32", "float64")


def export_command(
    model: Annotated[
        Path, typer.Argument(help="Model file of `fairspan fit`, `fairspan explore` or save_model.")
    ],
    out: Annotated[
        Path, typer.Argument(help="File to write: .onnx, or .npz for the reader that needs numpy.")
    ],
    check: Annotated[
        str | None,
        typer.Option(
            help="Table whose rows are predicted by the file and by the model, to compare them: a file, or "
            "the name of a data set. Rows are generated if not given."
        ),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(help="Numbers that go into an ONNX file and come out: float32 or float64."),
    ] = "float32",
    fairness: Annotated[
        float | None,
        typer.Option(
            help=common.parameter_help("fairness", "That of the saved model if not given.")
        ),
    ] = None,
    reader: Annotated[
        bool,
        typer.Option(
            "--reader", help="Write the reader of .npz files beside OUT, as read_npz_model.py."
        ),
    ] = False,
    data_home: common.DataHome = None,
    json_file: common.Json = None,
    trust: common.Trust = None,
) -> None:
    """Write a saved model as a file that predicts without fairspan; needs no protected attribute."""
    from fairspan.deployment import export

    if out.suffix.lower() not in _KINDS:
        raise ValueError(f"OUT {out} must end in .onnx or .npz.")
    if dtype not in _DTYPES:
        raise ValueError(f"--dtype {dtype!r} is not allowed; give float32 or float64.")
    if reader and out.suffix.lower() != ".npz":
        raise ValueError("--reader is for .npz files; ONNX files are read by any runtime of ONNX.")
    common.check_output_file(out, "OUT")
    common.check_json(json_file)
    common.check_fairness(fairness)
    beside = out.with_name("read_npz_model.py") if reader else None
    tables = {"--check": Path(check)} if check is not None else {}
    written = {"OUT": out, "--json": json_file, "--reader": beside}
    common.check_distinct({"MODEL": model, **tables}, written)
    fitted, names = load_model_file(model, trust, "MODEL", of_table=False)
    rows = None if check is None else _rows(check, data_home, fitted, names, model)
    with collect_warnings() as warnings_seen:
        if fairness is not None:
            fitted = fitted.at(fairness)
        found = export(fitted, out, dtype=dtype, check=rows, reader=reader)
    common.print_warnings(warnings_seen)
    common.print_status(str(found))
    if beside is not None:
        common.print_status(f"Reader written to {beside}")
    if json_file is not None:
        common.write_json(json_file, _facts(found))


def _rows(check: str, data_home: Path | None, model: Any, names: list[str], path: Path) -> Any:
    """Rows of a table with the columns of the model."""
    from fairspan.cli import tables
    from fairspan.cli.read import Input, read_data, text_for
    from fairspan.inputs.columns import require_columns
    from fairspan.tables.columns import date_parts_of

    if not names:
        msg = f"--check: {path} was fitted on an array, whose columns have no names. Leave --check out."
        raise ValueError(msg)
    given = Input(data=check, data_home=data_home)
    frame = date_parts_of(read_data(given, text_for(model)).frame, names)
    require_columns(names, frame.columns, f"{path} was fitted with")
    tables.check_features(frame, names)
    return frame[names]


def _facts(found: Any) -> dict[str, Any]:
    return {
        "path": str(found.path),
        "format": found.format,
        "dtype": found.dtype,
        "inputs": found.inputs,
        "outputs": list(found.outputs),
        "bytes": found.size,
        "rows_checked": found.rows_checked,
        "largest_difference": found.largest_difference,
        "rounding_difference": found.rounding_difference,
    }
