"""Python code that repeats the training of a report."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import BaseCrossValidator

from fairspan import datasets
from fairspan.estimators.learners import FairLearner
from fairspan.estimators.predictors import FairPredictor
from fairspan.report.table import Roles
from fairspan.report.training import by_stratum, read_kinds
from fairspan.tables.files import COMPRESSED, ENDINGS

__all__ = ["Recipe", "query_lines", "source_lines"]

# Width of the lines of code in the report.
_WIDTH = 88
# Parameters that `at` sets, or that do not change the model.
_NOT_SHOWN = ("fairness", "dial", "verbose")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything needed to repeat the training.

    Attributes
    ----------
    source : Python lines that create ``table``.
    roles : roles of the columns.
    model : the estimator.
    share, seed : share of the rows held out, and seed of their choice.
    joined : whether groups of one row joined another one.
    """

    source: str
    roles: Roles
    model: FairPredictor
    share: float
    seed: int
    joined: bool = False

    def snippet(self, fairness: float, equalize: str | None = None) -> str:
        """Python code that trains the model at a dial value and predicts the held-out rows.

        ``equalize`` switches the fit to what it was not fitted for.
        """
        roles = self.roles
        held_out = [_code([roles.target, *roles.sensitive])]
        if kinds := read_kinds(self.model.sensitive_kind, roles.sensitive):
            held_out.append(f"kinds={_code(kinds)}")
        held_out += [f"share={self.share!r}", f"seed={self.seed!r}"]
        held = "[held_out]"
        if isinstance(self.model, FairLearner):  # it takes a table of numbers as it is
            held = ".loc[held_out, features]"
        helpers = [
            "complete_rows",
            "held_out_rows",
            *(["join_small_groups"] if self.joined else []),
        ]
        switch = "" if equalize is None else f", equalize={_code(equalize)}"
        lines = [
            "import fairspan",
            f"from fairspan.report import {', '.join(helpers)}",
            *_imports(self.model),
            "",
            self.source,
            _call("table = complete_rows", ["table", _code(roles.needed), *self._optional()]),
            *self._join_lines(),
            _call("held_out = held_out_rows", ["table", *held_out]),
            "# Fitted on the other rows alone, as in the report.",
            f"model = fairspan.{_constructed(self.model)}",
            *self._fit_lines(),
            f"model = model.at({fairness!r}{switch})",
            f"predictions = model.predict(table{held})",
        ]
        return "\n".join(lines) + "\n"

    def _optional(self) -> list[str]:
        """Protected attributes that may be missing, as a further argument."""
        names = self.roles.optional(self.model.missing_sensitive)
        return [f"optional={_code(names)}"] if names else []

    def _join_lines(self) -> list[str]:
        """Python code that joins groups of one row, if there are any."""
        if not self.joined:
            return []
        kinds = read_kinds(self.model.sensitive_kind, self.roles.sensitive)
        arguments = ["table", _code(list(self.roles.sensitive)), _code(kinds)]
        return [_call("table, _ = join_small_groups", arguments)]

    def _fit_lines(self) -> list[str]:
        """Python code that fits the model on ``table[~held_out]``."""
        roles, sensitive = self.roles, _code(list(self.roles.sensitive))
        control, features = _code(list(roles.control)), _code(list(roles.features))
        if isinstance(self.model, FairLearner):
            fit = ["train[features]", f"train[{_code(roles.target)}]"]
            fit.append(f"sensitive_features=train[{sensitive}]")
            if by_stratum(self.model):
                fit.append(f"control_features=train[{control}]")
            if roles.weight is not None:
                fit.append(f"sample_weight=train[{_code(roles.weight)}]")
            lines = [f"features = {features}", "train = table[~held_out]"]
            return [*lines, _call("model.fit", fit)]
        fit = [
            "[table[~held_out]]",
            f"target={_code(roles.target)}",
            f"sensitive_features={sensitive}",
        ]
        if by_stratum(self.model):
            fit.append(f"control_features={control}")
        fit.append(f"features={features}")
        if roles.weight is not None:
            fit.append(f"sample_weight={_code(roles.weight)}")
        fit.append('encoder="table"')
        return [_call("model.fit_stream", fit)]


def _code(value: Any) -> str:
    """A literal in ASCII, because names may contain marks that reverse the direction of text."""
    if isinstance(value, list) and len(ascii(value)) > _WIDTH:
        lines = [""]
        for item in value:
            if lines[-1] and len(lines[-1]) + len(ascii(item)) > _WIDTH - 10:
                lines.append("")
            lines[-1] += f"{item!a}, "
        inner = "".join(f"        {line.rstrip()}\n" for line in lines)
        return f"[\n{inner}    ]"
    return ascii(value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value)


def _call(function: str, arguments: list[str]) -> str:
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{function}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _constructed(model: FairPredictor) -> str:
    """The constructor call with all parameters that differ from their defaults."""
    defaults = inspect.signature(type(model)).parameters
    given = [
        f"{name}={_code(value)}"
        for name, value in model.get_params(deep=False).items()
        if name not in _NOT_SHOWN and not _same(value, defaults[name].default)
    ]
    return _call(type(model).__name__, given)


def _imports(model: FairPredictor) -> list[str]:
    """Imports of the learners and splitters among the parameters of a model, from public modules."""
    found, values = set(), list(model.get_params(deep=False).values())
    while values:
        value = values.pop()
        if isinstance(value, list | tuple):
            values += value
        elif hasattr(value, "get_params") or isinstance(value, BaseCrossValidator):
            module = type(value).__module__.partition("._")[0]
            found.add(f"from {module} import {type(value).__name__}")
            if hasattr(value, "get_params"):
                values += value.get_params(deep=False).values()
    return sorted(found)


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or value == default)
    except ValueError:  # arrays
        return False


def source_lines(
    name: str,
    text: Collection[str] = (),
    options: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """Python code that reads a table of this name.

    Parameters
    ----------
    name : path of a file, or name of a data set.
    text : columns to read as text.
    options : arguments of `read_table`.
    units : signs of columns.
    """
    for loader in (f"load_{name}", f"fetch_{name}"):
        if loader in datasets.__all__:
            return (
                f"import pandas as pd\n\ndata = fairspan.datasets.{loader}()\n"
                "table = pd.concat([data.data, data.sensitive_features, data.target], axis=1)\n"
                "table = table.loc[:, ~table.columns.duplicated()].reset_index(drop=True)"
            )
    if not name.lower().removesuffix(_ending(name, COMPRESSED)).endswith(ENDINGS):
        return "table = ...  # the data frame that was studied"
    given = [_code(name), *(f"{key}={_code(value)}" for key, value in (options or {}).items())]
    return _read("read_table", given, text, units)


def query_lines(
    database: str,
    query: str,
    text: Collection[str] = (),
    units: Mapping[str, str] | None = None,
) -> str:
    """Python code that reads the result of a query."""
    return _read("read_database", [_code(database), _code(query)], text, units)


def _read(
    function: str, given: list[str], text: Collection[str], units: Mapping[str, str] | None
) -> str:
    if text:
        given.append(f"text={_code(list(text))}")
    if units:
        given.append(f"units={_code(dict(units))}")
    call = _call(f"table = {function}", given)
    return f"import pandas as pd\nfrom fairspan.tables import {function}\n\n{call}"


def _ending(name: str, endings: Collection[str]) -> str:
    return next((end for end in endings if name.lower().endswith(end)), "")
