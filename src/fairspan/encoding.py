"""From tables of mixed types to numeric features, by one stated policy."""

import narwhals as nw
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fairspan._columns import as_frame
from fairspan.exceptions import DataWarning, warn_user

__all__ = ["table_encoder"]

# Squares, and sums of squares, of numbers up to here are finite.
LARGEST = 1e150
_MISSING = "missing"
_CATEGORY_DTYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)


def table_encoder(frame, *, min_frequency=10, max_categories=50):
    """Build the unfitted transformer that turns a table into features for a kernel.

    The columns of `frame` only decide what is done to which column; nothing is learned before
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
        `frame` is not a pandas or polars DataFrame, or a column is neither a number, a boolean nor
        a category. Dates are refused by name: whether an age, a month or a weekday is meant is not
        for an encoder to guess.
    ValueError
        A column name is not a string, or there is no column.

    Notes
    -----
    *Numbers and booleans.* Missing values take the median of the training rows, then the column is
    standardised. A column with missing values in training gains an indicator. A constant column
    becomes zeros, and so does one that was never observed. So does one whose spread float64 cannot
    tell beside its mean, such as 2**60, 2**60 + 1, ...; a warning names it.

    *Categories* (strings, categoricals, objects) are one-hot encoded by their text. A missing value
    is the category "missing".

    *Scale.* Two rows differ by 2 in expected squared distance on a standardised column, by 2 in a
    category when they disagree, by 1 in an indicator: one bandwidth fits all. Indicators are not
    standardised, because one that is rare would then put its rows out of the kernel's sight. A 0/1
    column is a number: stored as boolean or integer, it is encoded alike.

    *Rows unlike the training data* never fail and never warn:

    - An unseen category, or a missing value in a column that had none, joins the infrequent
      category. Where training had no infrequent category its columns are all zero, which is at
      distance 1 from every known category.
    - A missing number in a column that was complete in training takes the median and leaves no
      trace: the indicator does not exist. Include rows with missing values in the training data if
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
    >>> encoder.transform(pd.DataFrame({"home": ["tent"], "income": [2.0]}))
    array([[0., 0., 0., 0., 0.]])
    """
    numbers, categories = column_kinds(frame)
    _warn_of_offsets(frame, numbers)
    to_numbers = FunctionTransformer(_as_numbers, feature_names_out="one-to-one")
    to_float = FunctionTransformer(_as_float, feature_names_out="one-to-one")
    to_text = FunctionTransformer(_as_text, feature_names_out="one-to-one")
    branches = []
    if numbers:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        indicate = MissingIndicator(features="missing-only", error_on_new=False)
        branches += [
            ("numbers", make_pipeline(to_numbers, impute, StandardScaler()), numbers),
            ("indicators", make_pipeline(to_numbers, indicate, to_float), numbers),
        ]
    if categories:
        one_hot = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=min_frequency,
            max_categories=max_categories,
            sparse_output=False,
            feature_name_combiner=_category_name,
        )
        branches += [("categories", make_pipeline(to_text, one_hot), categories)]
    return TableEncoder(branches, remainder="drop", verbose_feature_names_out=_feature_name)


class TableEncoder(ColumnTransformer):
    """ColumnTransformer that also accepts column names of type numpy.str_, as pandas may have them."""

    def fit_transform(self, X, y=None, **params):
        """As in ColumnTransformer."""
        return super().fit_transform(_with_plain_names(X), y, **params)

    def transform(self, X, **params):
        """As in ColumnTransformer."""
        return super().transform(_with_plain_names(X), **params)


def _with_plain_names(X):
    """The frame with names of type str, the only text that scikit-learn takes for a column name."""
    names = list(getattr(X, "columns", ()))
    if all(type(name) is str or not isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(n) if isinstance(n, str) else n for n in names], axis=1)


def column_kinds(frame):
    """Names of the columns to treat as numbers and as categories."""
    table = as_frame(frame, "`frame`")
    if table is None:
        raise TypeError(f"`frame` must be a pandas or polars DataFrame, got {type(frame).__name__}")
    columns: list = table.columns
    if not columns:
        raise ValueError("`frame` has no columns to encode")
    unnamed = [name for name in columns if not isinstance(name, str)]
    if unnamed:
        raise ValueError(f"column names must be strings, got {unnamed}: rename these columns")
    numbers, categories, refused = [], [], []
    for name, dtype in table.schema.items():
        name = str(name)
        if dtype.is_numeric() or dtype == nw.Boolean:
            numbers.append(name)
        elif dtype in _CATEGORY_DTYPES and (stranger := _stranger(table[name])) is None:
            categories.append(name)
        else:
            refused.append(f"{name!r} ({dtype if dtype not in _CATEGORY_DTYPES else stranger})")
    if refused:
        raise TypeError(
            "table_encoder takes numbers, booleans and categories; turn these columns into one of "
            f"them (for a date: an age, a month, a weekday) or drop them: {', '.join(refused)}"
        )
    return numbers, categories


def _warn_of_offsets(frame, numbers):
    """Warn of numbers so far from zero for their spread that standardising takes them for constant."""
    table = nw.from_native(frame, eager_only=True)
    for name in numbers:
        column = table[name].drop_nulls()
        if len(column) < 2 or column.dtype == nw.Boolean or column.min() == column.max():
            continue
        values = column.cast(nw.Float64).to_numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            lost = values.std() <= len(values) * np.finfo(np.float64).eps * abs(values.mean())
        if lost:
            warn_user(
                f"The numbers in column {name!r} differ by less than float64 can tell so far from zero: the "
                f"column is taken for constant. Subtract its smallest value first, or leave it out if it "
                f"only names rows.",
                DataWarning,
            )


def _stranger(column):
    """Type name of the first value of an object column that is no category label, or None."""
    if column.dtype != nw.Object:
        return None
    labels = (str, bool, int, float, np.bool_, np.integer, np.floating)
    values = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return next(
        (type(v).__name__ for v, null in values if not null and not isinstance(v, labels)), None
    )


def _as_numbers(block):
    """Numeric columns as float64, NaN where missing."""
    table = nw.from_native(block, eager_only=True)
    out = np.empty(table.shape)
    for j, name in enumerate(table.columns):
        column = table[name]
        why = (
            f"column {name!r} was numeric when the encoder was built and now is not ({column.dtype}): "
            f"give numbers there, or build the encoder with this table"
        )
        if column.dtype == nw.Unknown and column.to_numpy().dtype.kind == "c":
            raise ValueError(why)  # a cast would drop the imaginary part
        try:
            out[:, j] = column.cast(nw.Float64).to_numpy()
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


def _as_float(flags):
    """Boolean indicators as 0.0 and 1.0."""
    return np.asarray(flags, dtype=np.float64)


def _as_text(block):
    """Category columns as an object array of strings, the missing category filled in."""
    table = nw.from_native(block, eager_only=True)
    out = np.empty(table.shape, dtype=object)
    for j, name in enumerate(table.columns):
        values = zip(table[name].to_list(), table[name].is_null().to_list(), strict=True)
        out[:, j] = [_MISSING if null else category_label(value) for value, null in values]
    return out


def category_label(value):
    """A category as text; whole numbers alike, which a gap elsewhere in their column makes floats."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _category_name(column, category):
    # scikit-learn's own name for the merged categories is "infrequent_sklearn".
    return f"{column}=(infrequent)" if category == "infrequent_sklearn" else f"{column}={category}"


def _feature_name(branch, feature):
    if branch == "indicators":
        return f"{feature.removeprefix('missingindicator_')}={_MISSING}"
    return feature
