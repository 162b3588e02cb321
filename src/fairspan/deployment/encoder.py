"""The encoder of a table as operations: numbers, indicators of gaps, and categories."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.deployment.program import Program, Value, refuse
from fairspan.encoding import TableEncoder, date_columns

__all__ = ["Rows", "read_inputs"]

# Text that is read as a whole number: "1" and "1.0" are one category.
_WHOLE = re.compile(r"0|-?[1-9]\d*")


@dataclass(frozen=True)
class Rows:
    """Numbers that the model computes with, and which columns are always 0 or 1."""

    values: Value
    binary: frozenset[int]


def read_inputs(program: Program, model: Any) -> Rows:
    """Inputs of a model: a matrix X, or the columns of the frame that it was fitted on."""
    encoder, names = model._schema.encoder, getattr(model, "feature_names_in_", None)
    if encoder is None:
        if names is None:
            width = int(model.n_features_in_)
            return _complete(program, program.input("X", "matrix", width, complete=True))
        columns = [
            program.input(_checked(name), "number", complete=True) for name in names.tolist()
        ]
        return _complete(program, program.concat(columns))
    if not isinstance(encoder, TableEncoder):
        refuse(
            f"the encoder {type(encoder).__name__}",
            "Only encoders of fairspan.table_encoder can be written. Encode the rows before the model, and "
            "fit it on numbers",
        )
    return _encoded(program, encoder)


def _complete(program: Program, X: Value) -> Rows:
    """Numbers without gaps: a model without an encoder refuses rows with missing or infinite ones."""
    program.refused = (X * 0.0).sum()
    return Rows(X, frozenset())


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name:
        refuse(f"the column name {name!r}", "Inputs need names. Rename the column and fit again")
    return str(name)


def _encoded(program: Program, encoder: TableEncoder) -> Rows:
    """Columns of the encoder in their order."""
    dates, inputs = set(date_columns(encoder)), {}
    branches = {name: columns for name, _, columns in encoder.transformers_ if name != "remainder"}
    kinds = dict.fromkeys(branches.get("categories", ()), "text")
    kinds |= {n: "date" if n in dates else "number" for n in branches.get("numbers", ())}
    for name in encoder.feature_names_in_.tolist():
        if name in kinds:  # the encoder leaves other columns out
            inputs[name] = program.input(_checked(name), kinds[name])
    parts: list[tuple[int, Value]] = []  # with the first column of each
    binary: set[int] = set()
    for branch, step, names in encoder.transformers_:
        if branch == "remainder":
            continue
        places = encoder.output_indices_[branch]
        if places.stop == places.start:
            continue
        if branch == "categories":
            values = _one_hot(program, step, [inputs[name] for name in names])
        else:
            numbers = program.concat([inputs[name] for name in names])
            if branch == "numbers":
                values = _standardised(numbers, step)
            else:
                values = numbers.columns(
                    step.named_steps["missingindicator"].features_
                ).is_missing()
        if branch != "numbers":
            binary |= set(range(places.start, places.stop))
        parts.append((places.start, values))
    return Rows(
        program.concat([v for _, v in sorted(parts, key=lambda p: p[0])]), frozenset(binary)
    )


def _standardised(numbers: Value, step: Any) -> Value:
    impute, scaler = step.named_steps["simpleimputer"], step.named_steps["standardscaler"]
    out: Value = (numbers.fill(impute.statistics_) - scaler.mean_) / scaler.scale_
    return out


def _one_hot(program: Program, step: Any, texts: list[Value]) -> Value:
    """One-hot columns of every category variable."""
    merged = getattr(step, "infrequent_categories_", [None] * len(texts))
    out = []
    for text, categories, rare in zip(texts, step.categories_, merged, strict=True):
        infrequent = set() if rare is None else set(rare.tolist())
        frequent = [label for label in categories.tolist() if label not in infrequent]
        width = len(frequent) + bool(infrequent)
        # Unknown categories join the infrequent ones; without these all columns are 0.
        table = np.concatenate(
            [np.eye(width), np.eye(width)[-1:] if infrequent else np.zeros((1, width))]
        )
        codes = {label: j for j, label in enumerate(frequent)}
        codes |= {f"{label}.0": j for label, j in codes.items() if _WHOLE.fullmatch(label)}
        out.append(program.look_up(text, codes, table))
    return program.concat(out)
