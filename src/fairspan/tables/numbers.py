"""Numbers and dates that a file has as text: decimal commas, thousands, currency and percent signs.

"1,234" is a number in two conventions: 1234 with thousands separators, 1.234 with a decimal comma. A
column decides by all of its values, then by the other columns of its table. What is still unclear is an
error that names the option which decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Decimal = Literal[".", ","]

# Words that mean a missing value in a column of numbers or dates, although they are text elsewhere.
PLACEHOLDERS = frozenset(
    {"?", "-", "--", ".", "*", "n/a", "na", "#n/a", "#div/0!", "#value!", "#ref!", "#num!", "none"}
    | {"null", "nan", "unknown", "missing", "0000-00-00", "0000-00-00 00:00:00"}
)
_LARGEST_INTEGER = 2**63
# Values that are looked at before a whole column is.
_FIRST = 200

_CURRENCY = (
    r"[$€£¥₹₽₩₺₪₴₫₱¢]|R\$|zł|kr\.?|Fr\.|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|"
    r"HUF|RON|BGN|TRY|RUB|UAH|ILS|ZAR|BRL|MXN|KRW|SGD|HKD)"
)
_TOKEN = re.compile(
    rf"(?P<open>\()?\s*(?P<minus>[-+\u2212])?\s*(?:(?P<before>{_CURRENCY})\s*)?(?P<inner>[-+\u2212])?"
    rf"(?P<digits>\d[\d.,'\u2019\s]*|[.,]\d+)(?P<exponent>[eE][-+]?\d+)?"
    rf"\s*(?P<after>{_CURRENCY}|%)?\s*(?P<trailing>-)?\s*(?P<close>\))?"
)
# A group of thousands does not begin with 0: 0,123 is a decimal number.
_DIGITS: dict[Decimal, re.Pattern[str]] = {
    ".": re.compile(r"(?:\d+|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:[ '\u2019]\d{3})+)?(?:\.\d*)?"),
    ",": re.compile(r"(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+|[1-9]\d{0,2}(?:[ '\u2019]\d{3})+)?(?:,\d*)?"),
}
_CODE = re.compile(r"0\d+")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?\s?(Z|[-+]\d{2}:?\d{2})?)?"
)


@dataclass(frozen=True, kw_only=True)
class NumberTexts:
    """The different texts of a column, all of which are numbers in at least one convention.

    Attributes
    ----------
    digits : for each text, its digits and marks, without signs; None for a placeholder.
    sign : factor and exponent of each text, as "-" and "e5".
    unit : the currency or percent sign that every text has; "" if none has one.
    decimals : conventions in which every text is a number.
    marked : whether a text has a comma or a point.
    placeholders : words that are read as missing values.
    """

    digits: Mapping[str, str | None]
    sign: Mapping[str, tuple[str, str]]
    unit: str
    decimals: frozenset[Decimal]
    marked: bool
    placeholders: tuple[str, ...]

    @property
    def example(self) -> str:
        """A text with a comma or a point."""
        return next(t for t, d in self.digits.items() if d is not None and ("," in d or "." in d))

    def convert(self, column: Any, decimal: Decimal) -> Any:
        """Return a column of these texts as numbers; placeholders are missing."""
        import pandas as pd

        thousands = {".": ",", ",": "."}[decimal]
        numbers: dict[str, float | int | None] = {}
        for text, digits in self.digits.items():
            if digits is None:
                numbers[text] = None
                continue
            bare = re.sub(rf"[{re.escape(thousands)}\s'\u2019]", "", digits).replace(decimal, ".")
            minus, exponent = self.sign[text]
            is_whole = "." not in bare and not exponent
            numbers[text] = int(minus + bare) if is_whole else float(minus + bare + exponent)
        values = [numbers.get(text) for text in column.tolist()]
        whole = all(isinstance(value, int) and abs(value) < _LARGEST_INTEGER for value in values)
        dtype = np.int64 if whole else np.float64
        return pd.Series(np.array(values, dtype=dtype), column.index, name=column.name)


def number_texts(texts: Iterable[str]) -> NumberTexts | None:
    """Return how the different texts of a column are numbers; None if they are none.

    Texts are none if one has another currency than the others, or none where others have one: then
    amounts cannot be compared. Digits with a leading zero, such as "012", are codes.
    """
    digits: dict[str, str | None] = {}
    sign: dict[str, tuple[str, str]] = {}
    units: set[str] = set()
    decimals: set[Decimal] = {".", ","}
    marked = False
    placeholders = []
    for text in texts:
        found = _TOKEN.fullmatch(text.strip())
        if found is None:
            if text.strip().casefold() not in PLACEHOLDERS:
                return None
            digits[text] = None
            placeholders.append(text)
            continue
        number = " ".join(found["digits"].split())
        minus = [m for m in (found["minus"], found["inner"], found["trailing"], found["open"]) if m]
        if bool(found["open"]) != bool(found["close"]) or len(minus) > 1:
            return None
        if found["before"] and found["after"]:
            return None
        if _CODE.fullmatch(number):
            return None
        decimals = {d for d in decimals if _DIGITS[d].fullmatch(number)}
        if not decimals:
            return None
        digits[text] = number
        negative = bool(minus) and minus[0] != "+"
        sign[text] = ("-" if negative else "", found["exponent"] or "")
        units.add(found["before"] or found["after"] or "")
        marked = marked or "," in number or "." in number
    if not sign or len(units) > 1:
        return None
    return NumberTexts(
        digits=digits,
        sign=sign,
        unit=units.pop(),
        decimals=frozenset(decimals),
        marked=marked,
        placeholders=tuple(placeholders),
    )


def texts_of(column: Any) -> list[str] | None:
    """Return the different texts of a column; None if one of its first values is neither number nor date."""
    known = column.dropna()
    if not all(isinstance(text, str) for text in known.iloc[:_FIRST]):
        return None  # `unique` needs values with a hash, which lists have not
    for text in known.iloc[:_FIRST].unique().tolist():
        stripped = text.strip()
        if stripped.casefold() in PLACEHOLDERS:
            continue
        if _TOKEN.fullmatch(stripped) is None and _DATE.fullmatch(stripped) is None:
            return None
    if known.empty or not all(isinstance(text, str) for text in known):
        return None
    return list(known.unique())


def dates_of(column: Any, texts: Sequence[str]) -> Any:
    """Return a column of ISO dates or timestamps as datetimes in UTC; None if a text is none of these.

    Placeholders are missing. A column that mixes timestamps with and without an offset stays text.
    """
    import pandas as pd

    offsets, known = set(), []
    for text in texts:
        if text.strip().casefold() in PLACEHOLDERS:
            continue
        found = _DATE.fullmatch(text.strip())
        if found is None:
            return None
        known.append(text)
        if len(text.strip()) > len("2020-01-31"):
            offsets.add(found[1] is not None)
    if not known or len(offsets) > 1:
        return None
    dates: dict[str, Any] = {}
    for text in known:
        value = _date(text.strip())
        if value is None:
            return None
        dates[text] = value
    values = [dates.get(v, np.datetime64("NaT")) for v in column.tolist()]
    return pd.Series(np.array(values, dtype="datetime64[us]"), column.index, name=column.name)


def _date(text: str) -> Any:
    """Return an ISO date as datetime64 in UTC; None if there is no such day or time."""
    import datetime

    text = re.sub(r"\s(?=Z|[-+]\d{2}:?\d{2}$)", "", text).replace(",", ".")
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        value = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if value.tzinfo is not None:
        try:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError:
            return None
    return np.datetime64(value, "us")


@dataclass(frozen=True, kw_only=True)
class Converted:
    """Columns of text that became numbers or dates.

    Attributes
    ----------
    columns : the new columns by name.
    decimal : the one decimal mark of all columns with a mark; None without marks or with both.
    commas : columns with decimal commas.
    units : currency or percent sign that was taken off, by column.
    placeholders : words that became missing values, by column.
    """

    columns: dict[str, Any]
    decimal: Decimal | None
    commas: tuple[str, ...]
    units: dict[str, str]
    placeholders: dict[str, tuple[str, ...]]

    @property
    def words(self) -> list[str]:
        """Signs that were taken off, and words that became missing values, in words."""
        out = []
        if self.units:
            shown = [f"{name} ({unit})" for name, unit in self.units.items()]
            out.append(f"numbers without their signs in {_some(shown)}")
        if self.placeholders:
            shown = [f"{n} ({', '.join(map(repr, w[:3]))})" for n, w in self.placeholders.items()]
            out.append(f"missing values in {_some(shown)}")
        return out


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")


def convert_texts(
    columns: Mapping[str, Any],
    *,
    decimal: Decimal | None = None,
    usual: Decimal | None = None,
    elsewhere: Iterable[Decimal] = (),
    only_with_unit: bool = False,
) -> Converted:
    """Convert columns of text to numbers and dates, where every value is one.

    Parameters
    ----------
    columns : columns of text by name.
    decimal : the decimal mark, if it is given.
    usual : decimal mark of a column for which neither its own values nor other columns decide.
    elsewhere : decimal marks of the table's other columns.
    only_with_unit : convert numbers only if they have a currency or percent sign. For sources that
        have types, where digits as text are codes.

    Raises
    ------
    ValueError
        The decimal mark of a column is unclear, or it is not the one given.
    """
    out: dict[str, Any] = {}
    numbers: dict[str, NumberTexts] = {}
    placeholders: dict[str, tuple[str, ...]] = {}
    for name, column in columns.items():
        texts = texts_of(column)
        if texts is None:
            continue
        dates = dates_of(column, texts)
        if dates is not None:
            out[name] = dates
            words = tuple(text for text in texts if text.strip().casefold() in PLACEHOLDERS)
            placeholders |= {name: words} if words else {}
            continue
        as_numbers = number_texts(texts)
        if as_numbers is not None and (as_numbers.unit or not only_with_unit):
            numbers[name] = as_numbers
    seen: set[Decimal] = {*elsewhere}
    for found in numbers.values():
        if found.marked and len(found.decimals) == 1:
            seen |= found.decimals
    chosen: set[Decimal] = set(seen)
    commas = []
    for name, found in numbers.items():
        mark = _decimal_of(name, found, decimal, seen, usual)
        if found.marked:
            chosen.add(mark)
            commas += [name] * (mark == ",")
        out[name] = found.convert(columns[name], mark)
    return Converted(
        columns=out,
        decimal=chosen.pop() if len(chosen) == 1 else None,
        commas=tuple(commas),
        units={name: found.unit for name, found in numbers.items() if found.unit},
        placeholders=placeholders
        | {n: found.placeholders for n, found in numbers.items() if found.placeholders},
    )


def _decimal_of(
    name: str,
    found: NumberTexts,
    given: Decimal | None,
    seen: set[Decimal],
    usual: Decimal | None,
) -> Decimal:
    """Return the decimal mark of a column; raise if it is unclear or not the one given."""
    if not found.marked:
        return "."
    if given is not None:
        if given not in found.decimals:
            raise ValueError(
                f"the column {name!r} holds {found.example!r}, which is no number with decimal={given!r}. "
                f"Leave decimal= out, so that each column decides, or correct the column."
            )
        return given
    if len(found.decimals) == 1:
        return next(iter(found.decimals))
    if len(seen) == 1:
        return next(iter(seen))
    mark = "," if "," in (found.digits[found.example] or "") else "."
    if not seen and usual == mark:
        return mark
    raise ValueError(
        f"the column {name!r} holds {found.example!r}, where {mark!r} may separate thousands or decimals, "
        f"and the other values do not decide. Pass decimal='.' if numbers have a decimal point, decimal=',' "
        f"if they have a decimal comma."
    )
