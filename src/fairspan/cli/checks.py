"""Columns that are probably not meant as they are: notes and warnings before a model is fitted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairspan._system import kind_of_texts
from fairspan.cli.common import first_few, quoted
from fairspan.report.table import Roles, give_aways, is_continuous
from fairspan.tables.columns import DATES, NUMBERS
from fairspan.tables.delimited import LEADING_ZEROS

# Values of a text column that are looked at, and rows with fewer of which all may differ by chance.
_SAMPLE, _MIN_ROWS = 1000, 20
# How to write columns that are left out as they are.
_REWRITE = {DATES: "as 2024-05-31", NUMBERS: "as plain numbers or with one sign"}
# Names of columns whose numbers are usually codes.
_CODE_NAME = re.compile(
    r"(?:^|[_\W])(?:zip|zipcode|postcode|postal|plz|fips|tract|code|codes|race|ethnicity|ethnic|region|"
    r"county|district|state|country|religion|nationality)(?:$|[_\W])",
    re.I,
)


def left_out_note(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each reason to leave columns out, with the option that keeps them."""
    for reason in dict.fromkeys(left_out.values()):
        names = [name for name, why in left_out.items() if why == reason]
        text = f"Left out, because they look like {reason}: {quoted(names)}."
        if reason in _REWRITE:
            yield f"{text} To use them, write them {_REWRITE[reason]} into the file."
            continue
        options = first_few([f"--keep {shlex.quote(name)}" for name in names], " ")
        yield f"{text} To use them: {options}"


def constant_note(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence that names features with one value or none."""
    constant = [name for name in names if _levels(frame[name]) < 2]
    if constant:
        yield f"The same in every row, so without information: {quoted(constant)}."


def _levels(column: Any) -> int:
    try:
        return int(column.nunique())
    except TypeError:  # values that have no hash; the encoder refuses them
        return 2


def target_copies(frame: Any, roles: Roles) -> Iterator[str]:
    """Yield a warning for each feature that is the target or a protected attribute in another coding."""
    yield from give_aways(frame, roles)


def code_like(frame: Any, names: Sequence[str], kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for protected attributes that are read as amounts, and are named like codes."""
    for name in names:
        if name in kinds or _CODE_NAME.search(name) is None or not is_continuous(frame, name):
            continue
        example = frame[name].iloc[0]
        yield (
            f"The protected attribute {name!r} is read as an amount (such as {example}), and its name is "
            f"that of a code. If its numbers name groups: --kind {shlex.quote(f'{name}=categorical')}"
        )


def doubtful_columns(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield one warning for each problem that some of the columns have."""
    columns: dict[str, list[str]] = {"numbers": [], "dates": [], "identifiers": []}
    for name in names:
        problem = _problem(frame[name])
        if problem is not None:
            columns[problem].append(name)
    remedies = {
        "numbers": "Write plain numbers (as 32.5) into the file",
        "dates": "Write them as 2024-05-31",
    }
    for problem, remedy in remedies.items():
        if doubtful := columns[problem]:
            example = str(frame[doubtful[0]].dropna().iloc[0])
            yield (
                f"{quoted(doubtful)}: {problem} as text, as {example!r}; each different text is a category. "
                f"{remedy}, or leave them out: {_drop_options(doubtful)}"
            )
    zeros = {name: frame.attrs.get(LEADING_ZEROS, {}).get(name) for name in names}
    if doubtful := [name for name, value in zeros.items() if value is not None]:
        options = [f"--kind {shlex.quote(f'{name}=categorical')}" for name in doubtful]
        yield (
            f"{quoted(doubtful)}: read as numbers, although values begin with 0, as "
            f"{zeros[doubtful[0]]!r}. If they are codes, read them as text: {first_few(options, ' ')}"
        )
    if doubtful := columns["identifiers"]:
        yield (
            f"{quoted(doubtful)}: a different value in every row, as identifiers have. Leave identifiers "
            f"out: {_drop_options(doubtful)}"
        )


def _drop_options(names: Sequence[str]) -> str:
    return first_few([f"--drop {shlex.quote(name)}" for name in names], " ")


def _problem(column: Any) -> str | None:
    """Return why a column is probably not a feature: "numbers", "dates", "identifiers" or None."""
    import pandas as pd

    values = column.dropna()
    is_text = values.dtype.kind == "O" and not isinstance(values.dtype, pd.CategoricalDtype)
    if is_text:
        sample = values.iloc[:: max(len(values) // _SAMPLE, 1)].astype(str)
        if (kind := kind_of_texts(sample)) is not None:
            return kind
    if len(values) >= _MIN_ROWS and (is_text or values.dtype.kind in "iu") and values.is_unique:
        return "identifiers"
    return None
