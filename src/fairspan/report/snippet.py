"""Python that trains the model of one place of the slider, as the report did."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fairspan import datasets
from fairspan._system import MISSING_WORDS
from fairspan.report.fit import by_stratum, read_kinds
from fairspan.report.roles import Roles

__all__ = ["Recipe", "source_lines"]

_WIDTH = 88
# Set by `at`, or of no effect on the model.
_NOT_SHOWN = ("fairness", "dial", "verbose")


@dataclass(frozen=True)
class Recipe:
    """Everything that the training rests on.

    Attributes
    ----------
    source : Python lines that make ``table``.
    roles : columns.
    model : the estimator.
    share, seed : of the rows held out.
    """

    source: str
    roles: Roles
    model: Any
    share: float
    seed: int

    def snippet(self, fairness: float) -> str:
        """Code that ends in predictions for the held-out rows."""
        roles = self.roles
        held_out = [_code([roles.target, *roles.sensitive])]
        if kinds := read_kinds(self.model.sensitive_kind, roles.sensitive):
            held_out.append(f"kinds={_code(kinds)}")
        held_out += [f"share={self.share!r}", f"seed={self.seed!r}"]
        fit = [
            "[table[~held_out]]",
            f"target={_code(roles.target)}",
            f"sensitive_features={_code(list(roles.sensitive))}",
        ]
        if by_stratum(self.model):
            fit.append(f"control_features={_code(list(roles.control))}")
        fit.append(f"features={_code(list(roles.features))}")
        if roles.weight is not None:
            fit.append(f"sample_weight={_code(roles.weight)}")
        fit.append('encoder="table"')
        lines = [
            "import fairspan",
            "from fairspan.report import complete_rows, held_out_rows",
            "",
            self.source,
            _call("table = complete_rows", ["table", _code(roles.needed)]),
            _call("held_out = held_out_rows", ["table", *held_out]),
            "# Fitted on the other rows alone, as in the report.",
            f"model = fairspan.{_constructed(self.model)}",
            _call("model.fit_stream", fit),
            f'model = model.at({fairness!r}, dial="angle")',
            "predictions = model.predict(table[held_out])",
        ]
        return "\n".join(lines) + "\n"


def _code(value: Any) -> str:
    """A literal in ASCII: names may hold marks that turn the direction of a line of code."""
    if isinstance(value, list) and len(ascii(value)) > _WIDTH:
        rows, row = [], ""
        for one in value:
            if row and len(row) + len(ascii(one)) > _WIDTH - 10:
                rows.append(row)
                row = ""
            row += f"{one!a}, "
        inner = "".join(f"        {line.rstrip()}\n" for line in (*rows, row))
        return f"[\n{inner}    ]"
    return ascii(value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value)


def _call(what: str, arguments: list[str]) -> str:
    line = f"{what}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{what}(\n" + "".join(f"    {one},\n" for one in arguments) + ")"


def _constructed(model: Any) -> str:
    """The constructor with what is not its default."""
    defaults = inspect.signature(type(model)).parameters
    given = [
        f"{name}={_code(value)}"
        for name, value in model.get_params(deep=False).items()
        if name not in _NOT_SHOWN and not _same(value, defaults[name].default)
    ]
    return _call(type(model).__name__, given)


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or value == default)
    except ValueError:  # arrays
        return False


def source_lines(name: str, text: Collection[str] = ()) -> str:
    """Python that reads a table of this name; ``text`` names CSV columns to read as text."""
    lower = name.lower()
    if lower.endswith((".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst")):
        given = [_code(name), "keep_default_na=False", f"na_values={_code(MISSING_WORDS)}"]
        given.append("low_memory=False")
        if text:
            given.append(f"dtype={{{', '.join(f'{_code(column)}: str' for column in text)}}}")
        return f"import pandas as pd\n\n{_call('table = pd.read_csv', given)}"
    if lower.endswith((".parquet", ".pq")):
        return f"import pandas as pd\n\ntable = pd.read_parquet({_code(name)})"
    for loader in (f"load_{name}", f"fetch_{name}"):
        if loader in datasets.__all__:
            return (
                f"import pandas as pd\n\ndata = fairspan.datasets.{loader}()\n"
                "table = pd.concat([data.data, data.sensitive_features, data.target], axis=1)\n"
                "table = table.loc[:, ~table.columns.duplicated()].reset_index(drop=True)"
            )
    return "table = ...  # the data frame that was studied"
