"""Encode tables of mixed types as numeric features for a kernel."""

from __future__ import annotations

import datetime
import decimal
import heapq
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fairspan._system import refuse_bytes
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import LARGEST, as_frame, refuse_mixed
from fairspan.unseen import READ_AS_TEXT, SHOWN_VALUES, UnseenValues, listed, report_or_collect

__all__ = ["table_encoder"]

_MISSING = "missing"
_CATEGORY_DTYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9]\d*)\.0")


def table_encoder(
    frame: Any, *, min_frequency: int | float | None = 10, max_categories: int | None = 50
) -> TableEncoder:
    """Build the unfitted transformer that turns a table into features for a kernel.

    The types of the columns of `frame` decide how each column is encoded; nothing is learned before
    `fit`. Every column is encoded, so take protected attributes out first.

    Parameters
    ----------
    frame : pandas or polars DataFrame
        A table with the columns to encode; a few rows suffice.
    min_frequency : int or float, default=10
        Categories on fewer training rows (a float: on a smaller share of them) are merged into one
        infrequent category of their column. None keeps them all.
    max_categories : int, default=50
        Most output columns that one column may take, the infrequent one included; the rarest
        categories are merged first. None sets no limit.

    Returns
    -------
    encoder : sklearn.compose.ColumnTransformer
        Unfitted. Its output is dense float64 without missing values; it follows `set_output` and
        names its features `income`, `income=missing`, `race=black`, `race=(infrequent)`.

    Raises
    ------
    TypeError
        `frame` is not a pandas or polars DataFrame, or a column is neither a number, a boolean, a
        date nor a category.
    ValueError
        A column name is not a string, or there is no column.

    Notes
    -----
    *Numbers, booleans and dates.* Dates and timestamps are days since 1970-01-01 in UTC; replace them by
    an age, a month or a weekday if that is what matters. Missing values take the median of the training
    rows, then the column is standardised. A column with missing values in training gains an indicator.
    A constant column becomes zeros, and so does one that was never observed. So does a column whose
    spread is below the precision of float64 at its mean, such as 2**60, 2**60 + 1, ...; a warning
    names it.

    *Categories* (strings, categoricals, objects) are one-hot encoded by their text. A missing value
    is the category "missing". A whole number is one category however it is stored: 1, 1.0, "1" or
    "1.0" (pandas writes 1 as 1.0 if the column has a gap elsewhere); "01" is another category.

    *Scale.* Two rows differ by 2 in expected squared distance on a standardised column, by 2 in a
    category when they disagree, by 1 in an indicator: one bandwidth fits all. Indicators are not
    standardised, because the rows of a rare one would then be too far from all others for the
    kernel. A 0/1 column is a number: stored as boolean or integer, it is encoded alike.

    *Rows unlike the training data*:

    - An unseen category, or a missing value in a column that had none, joins the infrequent
      category. Where training had no infrequent category its columns are all zero, which is at
      distance 1 from every known category.
    - Unseen categories are counted in one warning per call. There is none for a column whose known
      categories are all infrequent: its unseen ones are encoded like them.
    - A column whose values are all unseen is an error if they are numbers or booleans and training
      had none, or if it has at least 10 rows and two different values: then the column is most
      likely written in another way than in training, such as 1 for "01".
    - A column without any value in at least 10 rows that was complete in training is named in a
      warning.
    - Bytes are an error: decode them. So are booleans in a column that held other numbers than 0
      and 1 in training.
    - A missing number in a column that was complete in training takes the median and is not marked:
      the indicator does not exist. Include rows with missing values in the training data if
      they will occur later.
    - Columns may come in another order and with others between them; a column that is absent is
      an error, as is an infinite number.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairspan.encoding import table_encoder
    >>> table = pd.DataFrame({"income": [1.0, None, 3.0], "home": ["own", "rent", None]})
    >>> encoder = table_encoder(table, min_frequency=1).fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['income', 'income=missing', 'home=missing', 'home=own', 'home=rent']
    >>> encoder.transform(pd.DataFrame({"home": ["own"], "income": [2.0]}))
    array([[0., 0., 0., 1., 0.]])
    """
    numbers, categories = column_kinds(frame)
    _warn_of_offsets(frame, numbers)
    table = nw.from_native(frame, eager_only=True)
    dates = [name for name in numbers if is_date(table[name])]
    to_numbers = FunctionTransformer(
        _as_numbers, kw_args={"dates": dates} if dates else None, feature_names_out="one-to-one"
    )
    to_float = FunctionTransformer(_as_float, feature_names_out="one-to-one")
    branches: list[tuple[str, Any, list[str]]] = []
    if numbers:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        indicate = MissingIndicator(features="missing-only", error_on_new=False)
        branches += [
            ("numbers", make_pipeline(to_numbers, impute, StandardScaler()), numbers),
            ("indicators", make_pipeline(to_numbers, indicate, to_float), numbers),
        ]
    if categories:
        one_hot = CategoryEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=min_frequency,
            max_categories=max_categories,
            sparse_output=False,
            feature_name_combiner=_category_name,
        )
        branches += [("categories", one_hot, categories)]
    return TableEncoder(branches, remainder="drop", verbose_feature_names_out=_feature_name)


class TableEncoder(ColumnTransformer):
    """ColumnTransformer that also accepts column names of type numpy.str_, as pandas may have them."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """As in ColumnTransformer."""
        return super().fit_transform(_with_plain_names(X), y, **params)

    def transform(self, X: Any, **params: Any) -> Any:
        """As in ColumnTransformer."""
        X = _with_plain_names(X)
        self._check_numbers(X)
        return super().transform(X, **params)

    def _check_numbers(self, X: Any) -> None:
        """Raise for booleans where training had other numbers; count columns that became empty."""
        table = as_frame(X, "X")
        numbers = getattr(self, "named_transformers_", {}).get("numbers")
        if table is None or numbers is None:
            return
        scaler = numbers.named_steps["standardscaler"]
        names = {name: columns for name, _, columns in self.transformers_}["numbers"]
        indicators = self.named_transformers_["indicators"].named_steps["missingindicator"]
        unseen = UnseenValues()
        for j, name in enumerate(names):
            if name not in table.columns:
                continue  # ColumnTransformer raises for it
            column = table[name]
            # Numbers 0 and 1 have a mean in [0, 1] and a variance of at most 1/4.
            mean, variance = scaler.mean_[j], scaler.var_[j]
            was_binary = -1e-9 <= mean <= 1.0 + 1e-9 and variance <= 0.25 + 1e-9
            if column.dtype == nw.Boolean and not was_binary:
                raise ValueError(
                    f"column {name!r} holds booleans, and held other numbers than 0 and 1 in training (mean "
                    f"{mean:.3g}). Give these numbers."
                )
            if j not in indicators.features_:
                n_missing = int(column.is_null().sum() if len(column) else 0)
                unseen.add_missing(name, len(column), n_missing)
        report_or_collect(unseen)


def _with_plain_names(X: Any) -> Any:
    """Return the frame with names of type str, the only texts that scikit-learn accepts as names."""
    names = list(getattr(X, "columns", ()))
    if all(type(name) is str or not isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(n) if isinstance(n, str) else n for n in names], axis=1)


class CategoryEncoder(OneHotEncoder):
    """One-hot encode the columns of a frame by their text; report values that `fit` has not seen.

    Parameters are those of :class:`sklearn.preprocessing.OneHotEncoder`.

    Attributes
    ----------
    columns_ : list of str
        Names of the columns.
    """

    def fit(self, X: Any, y: Any = None) -> CategoryEncoder:
        """Learn the categories of each column."""
        self.columns_ = list(nw.from_native(X, eager_only=True).columns)
        super().fit(_as_text(X), y)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode the columns of a frame."""
        text = _as_text(X)
        unseen = self._unseen_values(nw.from_native(X, eager_only=True), text)
        report_or_collect(unseen)
        # An array, so that the index and the names of an output frame are those of X.
        return np.asarray(super().transform(text))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the encoded columns."""
        names = self.columns_ if input_features is None else input_features
        return np.asarray(super().get_feature_names_out(names))

    def _unseen_values(self, table: nw.DataFrame[Any], text: NDArray[np.object_]) -> UnseenValues:
        """Count unseen values; raise for numbers in a column that held text in training."""
        out = UnseenValues()
        merged = getattr(self, "infrequent_categories_", [None] * len(self.columns_))
        for j, name in enumerate(self.columns_):
            known = [label for label in self.categories_[j] if label != _MISSING]
            if known and merged[j] is not None and set(known) <= set(merged[j]):
                continue  # known and unseen values are encoded alike
            counts = Counter(text[:, j])
            n_missing = counts.pop(_MISSING, 0)
            if _MISSING not in self.categories_[j]:
                out.add_missing(name, len(text), n_missing)
            unseen = Counter({v: counts[v] for v in counts.keys() - set(known)})
            some = heapq.nsmallest(SHOWN_VALUES + 1, unseen)
            out.add(name, counts.total(), unseen.total(), some, known)
            dtype = table.schema[table.columns[j]]
            all_unseen = bool(known and unseen) and len(unseen) == len(counts)
            numbers = dtype.is_numeric() or dtype == nw.Boolean
            if all_unseen and numbers and not any(map(is_number_label, known)):
                raise ValueError(
                    f"column {name!r} holds numbers or booleans ({dtype}), and held text in training, "
                    f"such as {listed(known)}. Give text ({READ_AS_TEXT.format(name)})."
                )
        return out


def encoded_columns(encoder: Any) -> dict[str, list[int]]:
    """Positions of the columns that :func:`table_encoder` makes of each table column.

    They are derived from the structure of the encoder, not from names, which users choose.
    """
    out: dict[str, list[int]] = {}
    for branch, step, names in encoder.transformers_:
        if branch == "remainder":
            continue
        if branch == "numbers":
            widths = [1] * len(names)
        elif branch == "indicators":
            flagged = set(step.steps[1][1].features_.tolist())
            widths = [int(j in flagged) for j in range(len(names))]
        else:  # one-hot columns; infrequent categories share one
            pairs = zip(step.categories_, step.infrequent_categories_, strict=True)
            widths = [len(a) - (0 if rare is None else len(rare) - 1) for a, rare in pairs]
        start = encoder.output_indices_[branch].start
        for name, width in zip(names, widths, strict=True):
            out.setdefault(name, []).extend(range(start, start + width))
            start += width
    return out


def is_number_label(text: str) -> bool:
    """Whether a category is a number as :func:`category_label` writes it: "1" and not "01"."""
    try:
        return category_label(float(text)) == text
    except (ValueError, OverflowError):
        return False


def column_kinds(frame: Any) -> tuple[list[str], list[str]]:
    """Return the names of the columns to treat as numbers and as categories."""
    table = as_frame(frame, "`frame`")
    if table is None:
        raise TypeError(f"`frame` must be a pandas or polars DataFrame, got {type(frame).__name__}")
    columns: list[Any] = table.columns
    if not columns:
        raise ValueError("`frame` has no columns to encode")
    unnamed = [name for name in columns if not isinstance(name, str)]
    if unnamed:
        raise ValueError(f"column names must be strings, got {unnamed}: rename these columns")
    numbers, categories, refused = [], [], []
    for name, dtype in table.schema.items():
        name = str(name)
        known = dtype.is_numeric() or dtype == nw.Boolean
        if known or is_date(table[name]) or is_decimal(table[name]):
            numbers.append(name)
        elif dtype in _CATEGORY_DTYPES and (other_type := _other_type(table[name])) is None:
            categories.append(name)
        else:
            kind = str(dtype if dtype not in _CATEGORY_DTYPES else other_type)
            decode = kind in ("bytes", "bytearray", "Binary")
            remedy = ', decode it: .str.decode("utf-8")' if decode else ""
            refused.append(f"{name!r} ({kind}{remedy})")
    if refused:
        raise TypeError(
            "table_encoder takes numbers, booleans, dates and categories; turn these columns into one "
            f"of them (for a duration: a number of days) or drop them: {', '.join(refused)}"
        )
    return numbers, categories


def number_columns(encoder: Any) -> list[str]:
    """Return the columns that a table encoder takes as numbers or dates; none for another encoder."""
    if not isinstance(encoder, TableEncoder):
        return []
    return [
        name for branch, _, names in encoder.transformers if branch == "numbers" for name in names
    ]


def date_columns(encoder: Any) -> list[str]:
    """Return the columns that a table encoder takes as dates; none for another encoder."""
    if not isinstance(encoder, TableEncoder):
        return []
    numbers = next((pipe for branch, pipe, _ in encoder.transformers if branch == "numbers"), None)
    arguments = None if numbers is None else numbers[0].kw_args
    return list((arguments or {}).get("dates", ()))


def fit_if_needed(X: Any) -> tuple[TableEncoder, list[str]] | None:
    """Encoder fitted to features, and their columns of text; None for arrays and frames of numbers alone."""
    table = as_frame(X, "X")
    if table is None:
        return None
    # Not table[name]: a name that is a number would be read as the number of a row.
    complete = [_is_complete(table.get_column(name), name) for name in table.columns]
    if all(complete):
        return None
    return table_encoder(X).fit(X), column_kinds(X)[1]


def _is_complete(column: nw.Series[Any], name: str) -> bool:
    """Whether a column has a number or a boolean in every row; raise if it mixes text and numbers."""
    if column.dtype == nw.Object:
        known = column.drop_nulls().to_list()
        refuse_mixed(known, f"column {name!r} of X")
        # Values of other types, such as Decimal, are left to the reader of numbers.
        text = any(isinstance(value, str | datetime.date) for value in known)
        return len(known) == len(column) and not text
    numbers = column.dtype.is_numeric() or column.dtype == nw.Boolean
    nan = column.dtype.is_float() and column.is_nan().any()
    return bool(numbers and not nan and not column.is_null().any())


def is_date(column: nw.Series[Any]) -> bool:
    """Whether a column holds dates or timestamps; pandas holds dates as objects."""
    if column.dtype == nw.Object:
        known = column.drop_nulls().to_list()
        return bool(known) and all(isinstance(value, datetime.date) for value in known)
    return column.dtype in (nw.Date, nw.Datetime)


def is_decimal(column: nw.Series[Any]) -> bool:
    """Whether an object column holds decimal.Decimal, as databases give it."""
    if column.dtype != nw.Object:
        return False
    known = column.drop_nulls().to_list()
    return bool(known) and all(isinstance(value, decimal.Decimal) for value in known)


def _warn_of_offsets(frame: Any, numbers: list[str]) -> None:
    """Warn of columns whose spread is below the precision of float64 at their mean."""
    table = nw.from_native(frame, eager_only=True)
    for name in numbers:
        column = table[name].drop_nulls()
        if len(column) < 2 or column.dtype == nw.Boolean or is_date(column):
            continue
        if column.min() == column.max():
            continue
        values = _as_floats(column)
        with np.errstate(over="ignore", invalid="ignore"):
            lost = values.std() <= len(values) * np.finfo(np.float64).eps * abs(values.mean())
        if lost:
            warn_user(
                f"The numbers in column {name!r} differ by less than the precision of float64 so far from "
                f"zero, so the column is treated as constant. Subtract its smallest value first, or leave it "
                f"out if it only names rows.",
                DataWarning,
            )


def _other_type(column: nw.Series[Any]) -> str | None:
    """Return the type of the first value of an object column that is no category label, or None."""
    if column.dtype != nw.Object:
        return None
    labels = (str, bool, int, float, np.bool_, np.integer, np.floating)
    values = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return next(
        (type(v).__name__ for v, null in values if not null and not isinstance(v, labels)), None
    )


def _as_numbers(block: Any, dates: Sequence[str] = ()) -> NDArray[np.float64]:
    """Return numeric columns as float64, and `dates` as days since 1970; NaN where missing."""
    table = nw.from_native(block, eager_only=True)
    out = np.empty(table.shape)
    for j, name in enumerate(table.columns):
        column = table[name]
        if name in dates:
            out[:, j] = column_days(column, name)
            continue
        why = (
            f"column {name!r} held numbers in training, and holds none now{_example(column)}: give numbers "
            f"there, or fit again with this table"
        )
        if column.dtype == nw.Object:
            refuse_bytes(column.to_numpy(), f"column {name!r}")
        if is_date(column):
            raise ValueError(why)  # a cast would give numbers of an unknown unit
        if column.dtype == nw.Unknown and column.to_numpy().dtype.kind == "c":
            raise ValueError(why)  # a cast would drop the imaginary part
        if column.dtype in _CATEGORY_DTYPES and any("_" in str(v) for v in column.to_list()):
            raise ValueError(why)  # Python reads "1_000" as a number
        try:
            out[:, j] = _as_floats(column)
        except Exception as error:  # each dataframe library has its own class
            raise ValueError(why) from error
        if np.isinf(out[:, j]).any():
            raise ValueError(f"column {name!r} holds infinite values: make them missing or finite")
        if (np.abs(out[:, j]) > LARGEST).any():
            raise ValueError(
                f"column {name!r} holds numbers beyond {LARGEST:g}, whose squares no float holds: rescale "
                "them, or make them missing"
            )
    return out


def _example(column: nw.Series[Any]) -> str:
    known = column.drop_nulls()
    return (
        f" ({column.dtype}, such as {known.to_list()[0]!r:.60})"
        if len(known)
        else f" ({column.dtype})"
    )


def _as_floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    """Return numbers, also of type decimal.Decimal, as float64."""
    if is_decimal(column):
        nulls = column.is_null().to_list()
        values = zip(column.to_list(), nulls, strict=True)
        return np.array([np.nan if null else float(value) for value, null in values])
    return np.asarray(column.cast(nw.Float64).to_numpy())


def column_days(column: nw.Series[Any], name: str) -> NDArray[np.float64]:
    """Return dates or timestamps as days since 1970-01-01 in UTC, NaN where missing."""
    if column.is_null().all():
        return np.full(len(column), np.nan)
    if not is_date(column):
        raise ValueError(
            f"column {name!r} held dates in training, and holds none now{_example(column)}: write dates as "
            f"2024-05-31 (in Python, pandas.to_datetime gives dates)"
        )
    if column.dtype == nw.Object:
        nulls = column.is_null().to_list()
        known = zip(column.to_list(), nulls, strict=True)
        values = np.array([None if null else _in_utc(value) for value, null in known])
    else:
        if getattr(column.dtype, "time_zone", None) is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        values = column.to_numpy()
    since = values.astype("datetime64[us]") - np.datetime64(0, "us")
    return np.asarray(since / np.timedelta64(1, "D"), dtype=np.float64)


def days_since_1970(dates: Any) -> Any:
    """Return a pandas column of dates or timestamps as days since 1970-01-01 in UTC; NaN where missing.

    Estimators read dates among the features in the same way.

    Parameters
    ----------
    dates : pandas.Series

    Examples
    --------
    >>> import pandas as pd
    >>> from fairspan.encoding import days_since_1970
    >>> days_since_1970(pd.Series(pd.to_datetime(["1970-01-02 12:00"]))).tolist()
    [1.5]
    """
    column = nw.from_native(dates, series_only=True)
    return type(dates)(column_days(column, str(column.name)), index=dates.index, name=dates.name)


def _in_utc(value: datetime.date) -> datetime.date:
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return value
    return value.astimezone(datetime.UTC).replace(tzinfo=None)


def _as_float(flags: ArrayLike) -> NDArray[np.float64]:
    """Return boolean indicators as 0.0 and 1.0."""
    return np.asarray(flags, dtype=np.float64)


def _as_text(block: Any) -> NDArray[np.object_]:
    """Return category columns as an object array of strings, the missing category filled in."""
    table = nw.from_native(block, eager_only=True)
    out = np.empty(table.shape, dtype=object)
    for j, name in enumerate(table.columns):
        if table[name].dtype not in (nw.String, nw.Categorical, nw.Enum):
            refuse_bytes(table[name].to_numpy(), f"column {name!r}")
        values = table[name].to_list()
        texts = {value: _category(value) for value in set(filter(_is_text, values))}
        nulls = table[name].is_null().to_list()
        out[:, j] = [
            _MISSING if null else texts[value] if _is_text(value) else _category(value)
            for value, null in zip(values, nulls, strict=True)
        ]
    return out


def _is_text(value: Any) -> bool:
    return type(value) is str


def _category(value: Any) -> str:
    """Return the text of a value's category: "1" also for the text "1.0", which a file may hold."""
    text = category_label(value)
    return text[:-2] if _WHOLE_NUMBER.fullmatch(text) else text


def category_label(value: Any) -> str:
    """Return a category as text: "1" also for 1.0, which a gap elsewhere in the column makes of 1."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _category_name(column: str, category: str) -> str:
    # scikit-learn's own name for the merged categories is "infrequent_sklearn".
    return f"{column}=(infrequent)" if category == "infrequent_sklearn" else f"{column}={category}"


def _feature_name(branch: str, feature: str) -> str:
    if branch == "indicators":
        return f"{feature.removeprefix('missingindicator_')}={_MISSING}"
    return feature
