"""Read CSV files as people have them: any common separator, encoding and decimal mark.

What is not given is guessed from the whole file. A guess that the content does not decide is an error
that names the option which decides.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from fairspan._system import MISSING_WORDS, exact_floats, first_line, inert
from fairspan.tables.numbers import Converted, Decimal, convert_texts

# Entry of `frame.attrs`: numeric columns of a CSV file -> a value that begins with 0, such as "0123".
LEADING_ZEROS = "fairspan.leading_zeros"

SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}
_SAMPLE_LINES, _SAMPLE_CHARACTERS = 200, 2**16
# Lines of one width that show that the first lines are no header.
_MANY_LINES = 10
# Rows that are searched for values that begin with 0.
_FIRST_ROWS = 10_000
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe\x00\x00": "utf-32-le",
    b"\x00\x00\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
# Bytes of a UTF-8 character beyond ASCII.
_UTF8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_NON_ASCII_WORD = re.compile(r"\w*[^\x00-\x7f]\w*")
_EXPECTED = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")


@dataclass(frozen=True, kw_only=True)
class Delimited:
    """The content of a CSV file, and how it is read.

    Attributes
    ----------
    content : the text as UTF-8, without byte order mark.
    encoding : encoding of the file.
    sep : separator of fields.
    decimal : the decimal mark that was given; None if columns decide.
    shown : a word beyond ASCII, which shows whether the encoding is right; "" if there is none.
    names : column names.
    """

    content: bytes
    encoding: str
    sep: str
    decimal: Decimal | None
    shown: str
    names: tuple[str, ...]

    def frame(self, text: Collection[str] = ()) -> tuple[Any, Converted]:
        """Return the table, and the columns that were converted.

        Parameters
        ----------
        text : columns to read as text, whatever their values look like.
        """
        import pandas as pd

        frame = self._read(
            dtype=dict.fromkeys(text, str), na_values=MISSING_WORDS, low_memory=False
        )
        # With low_memory, "01" could become 1 in one chunk and stay "01" in another.
        texts = {
            name: frame[name]
            for name in frame.columns
            if frame[name].dtype.kind == "O" and name not in text
        }
        numbers = [name for name in frame.columns if frame[name].dtype.kind in "iuf"]
        floats = [name for name in numbers if frame[name].dtype.kind == "f"]
        doubtful = [name for name in floats if self.sep != "," and _may_be_thousands(frame[name])]
        if doubtful or (self.decimal == "," and floats):
            again = doubtful if self.decimal is None else floats
            written = self._read(usecols=again, dtype=str, na_values=MISSING_WORDS)
            marked = [n for n in again if written[n].str.contains(".", regex=False).any()]
            texts |= {name: written[name] for name in marked}
        else:
            marked = []
        points = any(name not in doubtful and _has_fractions(frame[name]) for name in floats)
        converted = convert_texts(
            texts,
            decimal=self.decimal,
            usual="." if self.sep == "," else None,
            elsewhere={"."} if points and self.decimal is None else (),
        )
        frame = frame.assign(**converted.columns)
        numbers = [name for name in numbers if name not in marked]
        if numbers:
            first = self._read(usecols=numbers, nrows=_FIRST_ROWS, dtype=str)
            frame.attrs[LEADING_ZEROS] = {
                name: values.iloc[0]
                for name in numbers
                if len(values := first[name][first[name].str.fullmatch(r"\s*0\d+\s*")])
            }
        assert isinstance(frame, pd.DataFrame)
        return frame, converted

    def written(self, names: Collection[str]) -> Any:
        """Return columns as the file has them, as text; missing values are missing."""
        frame = self._read(usecols=list(names), dtype=str, na_values=MISSING_WORDS)
        return frame[list(names)]

    def _read(self, **options: Any) -> Any:
        import pandas as pd

        source = io.BytesIO(self.content)
        try:
            return pd.read_csv(
                source,
                sep=self.sep,
                keep_default_na=False,
                index_col=False,
                **exact_floats(),
                **options,
            )
        except pd.errors.EmptyDataError as error:
            raise ValueError("it is empty: it has no header and no rows.") from error
        except pd.errors.ParserError as error:
            raise ValueError(_ragged(str(error))) from error


def read_delimited(
    data: bytes,
    *,
    sep: str | None = None,
    decimal: Decimal | None = None,
    encoding: str | None = None,
    default_sep: str = ",",
) -> Delimited:
    """Decode a CSV file, and find its separator and header.

    Parameters
    ----------
    data : content of the file.
    sep, decimal, encoding : how to read it; guessed if None.
    default_sep : the separator that files of this name usually have.

    Raises
    ------
    ValueError
        The second half of a sentence about the file.
    """
    text, encoding = _decode(data, encoding)
    if not text.strip():
        raise ValueError("it is empty: it has no header and no rows.")
    text = text.lstrip("\r\n")
    declared = re.match(r"sep=(.)\r?\n", text)  # spreadsheets write this line for each other
    if declared:
        text = text[declared.end() :]
        sep = sep or declared[1]
    sep = sep or _guess_separator(text, default_sep)
    names = _check_fields(text, sep)
    non_ascii = _NON_ASCII_WORD.search(text)
    return Delimited(
        content=text.encode(),
        encoding=encoding,
        sep=sep,
        decimal=decimal,
        shown=inert(non_ascii[0], 30) if non_ascii else "",
        names=tuple(names),
    )


# ------------------------------------------------------------------ encoding


def _decode(data: bytes, encoding: str | None) -> tuple[str, str]:
    """Return the text and its encoding; raise if the bytes are not in it, or are no text."""
    mark = next((m for m in _BYTE_ORDER_MARKS if data.startswith(m)), b"")
    guessed = _BYTE_ORDER_MARKS.get(mark) or _encoding_of(data)
    if encoding is None:
        encoding = guessed
    try:
        text = data.decode(encoding)
    except LookupError as error:
        msg = f"encoding={encoding!r} is unknown; give utf-8, cp1252, latin-1, utf-16 or another of Python's."
        raise ValueError(msg) from error
    except UnicodeError as error:
        hint = _hint(data, encoding)
        raise ValueError(f"it is not in the encoding {encoding}{hint}") from error
    text = text.removeprefix("\ufeff")
    if "\0" in text[:_SAMPLE_CHARACTERS] or "\0" in text:
        raise ValueError(
            "it holds NUL characters, which text files do not have. If it is text in UTF-16, pass "
            "encoding='utf-16'; otherwise it is damaged or no text file."
        )
    return text, encoding


def _encoding_of(data: bytes) -> str:
    """Guess the encoding of bytes without byte order mark; raise if none is likely."""
    sample = data[:2000]
    if len(sample) > 3:
        half = len(sample) // 2
        for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            # Every second byte of western text in UTF-16 is NUL.
            if sample[offset::2].count(0) > 0.7 * half and not sample[1 - offset :: 2].count(0):
                return name
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        valid = sum(len(found[0]) for found in _UTF8.finditer(data))
        beyond_ascii = sum(byte >= 0x80 for byte in data) if len(data) < 2**20 else len(data)
        if len(data) >= 2**20:
            beyond_ascii = int((np.frombuffer(data, dtype=np.uint8) >= 0x80).sum())
        if valid > 0.5 * beyond_ascii:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"it is UTF-8 with damaged bytes, first in line {line}. Repair them, or pass "
                f"encoding='cp1252' if the file comes from an older Windows program."
            ) from error
        return "cp1252"
    return "utf-8"


def _hint(data: bytes, encoding: str) -> str:
    for other in ("utf-8", "cp1252", "latin-1"):
        if other == encoding.lower():
            continue
        try:
            data.decode(other)
        except UnicodeError:
            continue
        return f". Pass encoding='{other}', in which it can be read, or save the file as UTF-8."
    return ". Save the file as UTF-8."  # pragma: no cover - latin-1 has every byte


# ------------------------------------------------------------------ separator and fields


def _rows(text: str, sep: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=sep)


def _guess_separator(text: str, default: str) -> str:
    """Return the separator that splits every line into as many fields as the header."""
    sample = text[:_SAMPLE_CHARACTERS]
    if len(sample) < len(text) and "\n" in sample:
        sample = sample[: sample.rindex("\n")]
    fits: dict[str, int] = {}
    headers: dict[str, int] = {}
    for sep in SEPARATORS:
        try:
            widths = [len(row) for row in islice(_rows(sample, sep), _SAMPLE_LINES) if row]
        except csv.Error:
            continue
        headers[sep] = widths[0] if widths else 0
        if widths and widths[0] > 1 and len(set(widths)) == 1:
            fits[sep] = widths[0]
    if len(fits) == 1:
        return next(iter(fits))
    if len(fits) > 1:
        if default in fits:
            return default
        both = " or ".join(SEPARATORS[sep] for sep in fits)
        msg = f"its fields may be separated by {both}: every line has equally many. Pass sep= to decide."
        raise ValueError(msg)
    # Lines of several lengths: the header decides, and the error about the lines names the separator.
    best = max(headers, key=lambda sep: headers[sep], default=default)
    return best if headers.get(best, 0) > max(headers.get(default, 0), 1) else default


def _check_fields(text: str, sep: str) -> list[str]:
    """Return the header; raise for repeated names and for lines of another number of fields."""
    if len(sep) != 1:
        raise ValueError(f"sep={sep!r} is not allowed; give one character, such as ';' or '\\t'.")
    try:
        rows = _rows(text, sep)
        names: list[str] = next(row for row in rows if row)
        twice = [repr(name) for name, n in Counter(names).items() if n > 1 and name.strip()]
        if twice:
            shown = ", ".join(twice[:6])
            raise ValueError(f"it has two columns named {shown}; give each its own name.")
        widths = Counter(map(len, rows))
    except csv.Error:  # a field beyond the limit of the module; pandas reads the file
        return []
    del widths[0]  # empty lines
    if not widths or set(widths) == {len(names)}:
        return names
    if len(names) == 1 and not set(widths) - {0, 1}:
        return names
    raise ValueError(_uneven(text, sep, len(names), widths))


def _uneven(text: str, sep: str, n: int, widths: Counter[int]) -> str:
    """Describe the lines whose number of fields is not that of the header."""
    words = SEPARATORS.get(sep, repr(sep))
    most, count = widths.most_common(1)[0]
    is_title = n == 1 or len(widths) > 1  # otherwise the header lacks names
    if n < most and is_title and count >= _MANY_LINES and count > 0.9 * widths.total():
        rows = _rows(text, sep)
        first = next(rows.line_num for row in rows if len(row) == most)
        return (
            f"its first line has {n} field{'s' * (n > 1)}, and {count:,} lines have {most} (separated by "
            f"{words}), first line {first}. Remove the lines above the names of the columns, or pass sep= if "
            f"the file has another separator."
        )
    if set(widths) == {n + 1} or (n not in widths and min(widths) > n):
        return (
            f"its rows have more fields than the header, which has {n}. Name every column, remove the "
            f"additional fields, such as a comma at the end of the rows, or pass sep= if the file has "
            f"another separator than {words}."
        )
    rows = _rows(text, sep)
    header = next(row for row in rows if row)
    line, fields = next((rows.line_num, row) for row in rows if row and len(row) != len(header))
    n_other = sum(count for width, count in widths.items() if width != n)
    if "\n" in "".join(fields):
        return (
            f"the quotes of a field that ends in line {line} are not closed where the field ends: the line "
            f"has {len(fields)} fields, the header {n}. Correct the quotes."
        )
    return (
        f"line {line} has {len(fields)} field{'s' * (len(fields) != 1)} and the header {n} (separated by "
        f"{words}); this holds for {n_other:,} of {widths.total():,} rows. Put fields with a separator into "
        f"quotes, remove lines that are no rows, or pass sep= if the file has another one."
    )


def _ragged(text: str) -> str:
    """Describe an error of pandas' parser in our own words."""
    found = _EXPECTED.search(text)
    if found:
        return (
            f"line {found[2]} has {found[3]} fields and the header {found[1]}. Correct that line."
        )
    if "EOF inside string" in text:
        row = re.search(r"row (\d+)", text)
        where = f" in line {int(row[1]) + 1}" if row else ""
        return f"a quote that opens{where} is never closed. Close it, or remove it."
    return f"its lines cannot be split into fields ({first_line(ValueError(text))})."


# ------------------------------------------------------------------ numbers with points


def _may_be_thousands(column: Any) -> bool:
    """Whether numbers with a point may be written with points between thousands, as 1.234."""
    values = column.dropna().to_numpy()
    if not len(values) or not np.isfinite(values).all():
        return False
    whole = np.round(values * 1000.0)
    three_digits = np.abs(values * 1000.0 - whole) <= 1e-6 * np.maximum(np.abs(whole), 1.0)
    fraction = (np.abs(values) < 1.0) & (values != 0.0)
    return bool(three_digits.all() and not fraction.any() and (np.abs(values) < 1e3).all())


def _has_fractions(column: Any) -> bool:
    values = column.dropna().to_numpy()
    values = values[np.isfinite(values)]
    return bool((np.mod(values, 1.0) != 0.0).any())


def describe(source: Delimited, converted: Converted, given: Collection[str]) -> list[str]:
    """Return what is unusual and was assumed, in words; nothing for what the caller has given."""
    out = []
    if source.sep != "," and "sep" not in given:
        words = {";": "semicolons", "\t": "tabs", "|": "'|'"}
        out.append(f"{words.get(source.sep, repr(source.sep))} between fields")
    if converted.decimal == "," and "decimal" not in given:
        out.append("decimal commas")
    elif converted.commas and "decimal" not in given:
        more = f" and {len(converted.commas) - 4} more" if len(converted.commas) > 4 else ""
        out.append(f"decimal commas in {', '.join(converted.commas[:4])}{more}")
    if source.encoding != "utf-8" and "encoding" not in given:
        shown = f" (as in {source.shown!r})" if source.shown else ""
        out.append(f"encoding {source.encoding}{shown}")
    return out


def as_given(source: Delimited, converted: Converted) -> dict[str, str]:
    """Return the options that read the file in the same way without a guess."""
    out = {"sep": source.sep} if source.sep != "," else {}
    if source.decimal is not None:
        out["decimal"] = source.decimal
    elif converted.decimal == ",":
        out["decimal"] = ","
    if source.encoding != "utf-8":
        out["encoding"] = source.encoding
    return out
