"""`fairspan prepare`, `moments` and `merge`: one model of several sites, without a row leaving a site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli import common
from fairspan.cli.messages import collect_warnings
from fairspan.cli.read_options import InputOptions, expand_options

_MODEL_KINDS = (".npz",)
Pilot = Annotated[
    Path, typer.Option(help="Pilot file of `fairspan prepare`, the same at all sites.")
]


def prepare_command(
    agreement: Annotated[
        Path,
        typer.Argument(
            help="JSON file with the features, target and protected attributes that all sites have: ranges, "
            "categories and edges of slices. It needs no row."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File for the pilot.")] = Path("pilot.npz"),
) -> None:
    """Fix what several sites must share before they compute moments; reads no data."""
    from fairspan.estimators.agreed import prepare_agreed

    common.check_output_file(out, "--out")
    common.check_kind(out, "--out", _MODEL_KINDS)
    common.check_distinct({"AGREEMENT": agreement}, {"--out": out})
    try:
        given = json.loads(agreement.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{agreement} is no JSON file ({error}).") from error
    try:
        est = prepare_agreed(given)
    except ValueError as error:
        raise ValueError(
            f"The agreement {agreement} cannot be used: {str(error).rstrip('.')}."
        ) from error
    est.export_pilot(out, public=True)  # all of its rows are made up
    features = est.pilot_.features
    groups = ", ".join(f"{c.name} ({', '.join(c.labels)})" for c in est.pilot_.coders)
    common.print_result(
        f"{type(est).__name__}, {features.n_columns} feature columns; protected: {groups}"
    )
    size = out.stat().st_size / 1e6
    common.print_result(
        f"Pilot written to {out} ({size:.1f} MB). It holds no row; send it to every site."
    )


@expand_options
def moments_command(
    *,
    data: InputOptions,
    pilot: Pilot,
    site: Annotated[str, typer.Option(help="Name of this site.")],
    out: Annotated[Path, typer.Option(help="File for the moments.")] = Path("moments.npz"),
    fixed_point: Annotated[
        bool,
        typer.Option(
            "--fixed-point",
            help="Write sums as integers: their total is the same in any order, bit for bit.",
        ),
    ] = False,
    min_rows: Annotated[
        int, typer.Option(help="Smallest group in a cell and fold whose mean is sent.")
    ] = 5,
    weight: common.Weight = None,
) -> None:
    """Compute the moments of this site's table: sums over rows, to send to the coordinator."""
    from fairspan.cli.read import Input, read_data
    from fairspan.estimators import load_pilot
    from fairspan.federated.agreement import AgreedColumns
    from fairspan.inputs.columns import require_columns

    given = Input.of(data)
    common.check_output_file(out, "--out")
    common.check_kind(out, "--out", _MODEL_KINDS)
    common.check_distinct({**given.files, "--pilot": pilot}, {"--out": out})
    est = load_pilot(pilot)
    columns = getattr(est, "encoder_", None)
    if not isinstance(columns, AgreedColumns):
        msg = (
            f"--pilot {pilot} does not name its columns. Use one of `fairspan prepare`, or Python."
        )
        raise ValueError(msg)
    frame = read_data(given, columns.text).frame
    wanted = [*columns.features, columns.target, *columns.protected, *([weight] if weight else [])]
    require_columns(wanted, list(frame.columns), f"--pilot {pilot} names")
    with collect_warnings() as warnings_seen:
        est.partial_fit(
            frame[list(columns.features)],
            frame[columns.target],
            sensitive_features=frame[columns.protected],
            sample_weight=None if weight is None else frame[weight],
            solve=False,
        )
        est.export_moments(out, site=site, fixed_point=fixed_point, min_rows=min_rows)
    common.print_warnings(warnings_seen)
    common.print_result(f"{given.name}: {est.moments_.n_rows:,} rows of site {site}")
    size = out.stat().st_size / 1e6
    common.print_result(
        f"Moments written to {out} ({size:.1f} MB). The file holds sums and no row."
    )


def merge_command(
    files: Annotated[list[Path], typer.Argument(help="Moments files, one of each site.")],
    *,
    pilot: Pilot,
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.skops"),
    fairness: Annotated[
        float | None,
        typer.Option(help=common.parameter_help("fairness", "That of the pilot if not given.")),
    ] = None,
    with_moments: common.WithMoments = False,
    json_file: common.Json = None,
) -> None:
    """Build the model of all sites' rows together from their moments."""
    from fairspan.estimators import load_pilot
    from fairspan.persistence import save_model

    common.check_model_file(out)
    common.check_kind(out, "--out", common.MODEL_KINDS)
    common.check_json(json_file)
    common.check_fairness(fairness)
    inputs = {f"FILE {i}": path for i, path in enumerate(files, 1)}
    common.check_distinct({**inputs, "--pilot": pilot}, {"--out": out, "--json": json_file})
    with collect_warnings() as warnings_seen:
        est = type(load_pilot(pilot)).from_moments(files, pilot=pilot)
        if fairness is not None:
            est = est.at(fairness)
    save_model(est, out, keep_moments=with_moments)
    common.print_warnings(warnings_seen)
    print_line = common.print_status if json_file == common.STDOUT else common.print_result
    print_line(f"{type(est).__name__} of {est.moments_.n_rows:,} rows from {len(files)} sites")
    print_line(f"\n{est.certificate_}\n")
    sites = getattr(est, "site_dependence_", [])
    for line in _site_lines(sites):
        print_line(line)
    print_line(f"Model written to {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if json_file is not None:
        result = {
            "model": str(out),
            "rows": est.moments_.n_rows,
            "certificate": est.certificate_.to_dict(),
            "sites": [vars(one) for one in sites],
        }
        common.write_json(json_file, result)


def _site_lines(sites: list[Any]) -> list[str]:
    """Table of the correlation at each site."""
    if not sites:
        return []
    head = ("site", "cell", "attribute", "corr.", "by chance", "rows")
    rows = [
        (s.site, s.cell, s.attribute, f"{s.correlation:.3f}", f"{s.by_chance:.3f}", str(s.n_rows))
        for s in sites
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    table = [
        "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return ["At each site, the score's correlation with the groups on its own rows:", *table, ""]
