"""Inputs of every kind that a user may hold, and then some.

Hypothesis draws a recipe (sizes, kinds, containers, parameters, a seed) and numpy the values, so that
a failure shrinks to the plainest recipe and its ``repr`` is enough to run it again. Most of a recipe is
ordinary: with one to three oddities at a time a case reaches the code behind the first check.
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
from hypothesis import strategies as st

HOSTILE = (
    "=cmd()", "<script>alert(1)</script>", "\x1b[31mred", "../../x", "na\u00efve \u5973\u6027",
    "\U0001f600", "", " ", "a\nb", "%s{0}", "nan", "None", "x" * 300, "\u202eright", "'; drop", "\ud800",
)  # fmt: skip

VALUES = (
    "scaled", "offset", "mixed", "duplicates", "constant", "constant column", "collinear", "nan",
    "inf", "integers", "outlier", "subnormal", "largest", "zeros", "two rows", "near duplicates",
)  # fmt: skip
BOXES = (
    "fortran", "strided", "reversed", "readonly", "float32", "float16", "int8", "uint8", "bool",
    "object", "longdouble", "complex", "list", "tuple", "masked", "masked gaps", "csr", "matrix",
    "pandas", "pandas index", "pandas hostile", "pandas int names", "pandas mixed names",
    "pandas twice", "pandas object", "pandas Float64", "pandas NA", "pandas category", "pandas text",
    "pandas date", "pandas bool", "pandas Sparse", "polars", "polars null", "polars text",
    "polars Decimal", "arrow", "1d", "3d", "none", "scalar", "str", "ragged", "datetime",
    "big endian", "series",
)  # fmt: skip
TARGETS = (
    "classes", "three", "text", "bool", "hostile", "float", "floatclasses", "constant", "nan", "inf",
    "none in", "many integers", "scaled", "offset", "longer", "shorter", "column", "two columns", "date",
    "category", "int8", "big", "masked", "list", "series", "polars", "mixed", "one each", "rare",
    "none", "complex", "bytes", "ragged", "set",
)  # fmt: skip
KINDS = (
    "text", "three", "continuous", "hostile", "one each", "constant", "gaps", "none gaps", "missing",
    "scaled", "offset", "date", "int8", "bool", "category", "unused", "proxy", "inf", "bytes", "mixed",
    "nested", "complex", "decimal", "many integers", "big", "longer", "skewed", "floats",
)  # fmt: skip
S_BOXES = (
    "list", "dict", "series", "frame", "polars", "masked", "fortran", "readonly", "names", "3d",
    "none", "empty", "str", "twice", "hostile dict", "list of lists", "int dict", "scalar",
)  # fmt: skip
WEIGHTS = (
    "ones", "positive", "zeros", "nothing", "negative", "nan", "inf", "longer", "scalar", "huge",
    "tiny", "wide", "text", "column", "series", "int8", "bool", "one row", "masked", "str", "empty",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """A recipe of rows: every field by name, values by the seed."""

    seed: int = 0
    n: int = 30
    p: int = 3
    values: str = "plain"
    exponent: int = 0
    box: str = "array"
    target: str = "classes"
    sensitive: tuple[str, ...] = ("binary",)
    s_box: str = "array"
    weight: str = "none"

    def make(self) -> Made:
        """The objects to pass."""
        rng = np.random.default_rng(self.seed)
        group = rng.permutation(np.arange(self.n) % 2)
        with np.errstate(all="ignore"):
            X = make_values(self.values, self.n, self.p, self.exponent, group, rng)
            y = make_target(self.target, self.n, self.exponent, X, rng)
            columns = [
                make_attribute(k, self.n, self.exponent, X, group, rng) for k in self.sensitive
            ]
            return Made(
                put_in_box(self.box, X, rng),
                y,
                box_attributes(self.s_box, columns, rng),
                make_weight(self.weight, self.n, rng),
                X,
            )


@dataclass(frozen=True)
class Made:
    """What a recipe makes; ``plain`` are the numbers that are in X."""

    X: Any
    y: Any
    s: Any
    weight: Any
    plain: np.ndarray

    @property
    def has_gaps(self) -> bool:
        """Masked entries, which no answer may be made from."""
        return any(np.ma.is_masked(one) for one in (self.X, self.y, self.weight))

    @property
    def all(self) -> tuple[Any, ...]:
        """For the check that a call changes none of it."""
        return (self.X, self.y, self.s, self.weight)


# --------------------------------------------------------------------------- numbers


def make_values(
    kind: str, n: int, p: int, exponent: int, group: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The numbers of X."""
    X = rng.normal(size=(n, p)) + 0.5 * group[:, None]
    if kind == "scaled":
        X = X * 10.0**exponent
    elif kind == "offset":
        X = X + 10.0 ** (abs(exponent) % 17)
    elif kind == "mixed":
        X = X * 10.0 ** np.linspace(-abs(exponent), abs(exponent), p)
    elif kind == "duplicates":
        X = X[rng.integers(0, 3, n) % max(n, 1)] if n else X
    elif kind == "near duplicates":
        X = X[rng.integers(0, 3, n) % max(n, 1)] + 1e-14 * X if n else X
    elif kind == "constant":
        X = np.full((n, p), 10.0 ** (exponent / 10))
    elif kind == "constant column":
        X[:, : max(1, p // 2)] = 0.1
    elif kind == "collinear" and p:
        X = np.outer(X[:, 0], np.arange(1, p + 1))
    elif kind in ("nan", "inf", "outlier", "largest") and X.size:
        value = {"nan": np.nan, "inf": -np.inf, "outlier": 10.0 ** abs(exponent)}.get(kind, 1.7e308)
        X.flat[rng.integers(X.size)] = value
    elif kind == "integers":
        X = rng.integers(-128, 128, (n, p)).astype(float)
    elif kind == "subnormal":
        X = X * 5e-324
    elif kind == "zeros":
        X = np.where(X > 0.5, X, -0.0)
    elif kind == "two rows" and n:
        X = X[group % n]
    return X


def _cast(X: np.ndarray, dtype: Any) -> np.ndarray:
    return np.nan_to_num(X, posinf=0, neginf=0).astype(dtype) if dtype != "O" else X.astype(object)


def _frame(X: np.ndarray, names: list[Any] | None = None) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])] if names is None else names)


def _with_column(frame: pd.DataFrame, column: Any) -> pd.DataFrame:
    return frame.assign(extra=column)


def put_in_box(box: str, X: np.ndarray, rng: np.random.Generator) -> Any:
    """X as the user holds it."""
    n, p = X.shape
    if box.startswith("polars") and p == 0:  # has no rows either
        return pl.DataFrame()
    if box.startswith("pandas"):
        return _pandas(box.removeprefix("pandas").strip(), X, rng)
    if box in ("polars", "polars null", "polars text", "polars Decimal", "arrow"):
        frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(p)})
        if box == "polars null" and p:
            frame = frame.with_columns(
                pl.when(pl.col("x0") > 1).then(None).otherwise(pl.col("x0")).alias("x0")
            )
        if box == "polars text":
            frame = frame.with_columns(
                pl.Series("extra", list(map(str, range(n))), dtype=pl.String)
            )
        if box == "polars Decimal":
            whole = [decimal.Decimal(i) for i in range(n)]
            frame = frame.with_columns(pl.Series("extra", whole, dtype=pl.Decimal(10, 2)))
        return frame.to_arrow() if box == "arrow" else frame
    gaps = rng.random(X.shape) < 0.1
    makers: dict[str, Any] = {
        "array": lambda: X,
        "fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
        "reversed": lambda: X[::-1, ::-1],
        "readonly": lambda: _readonly(X),
        "object": lambda: _cast(X, "O"),
        "complex": lambda: X.astype(complex),
        "list": X.tolist,
        "tuple": lambda: tuple(map(tuple, X.tolist())),
        "masked": lambda: np.ma.masked_array(X, np.zeros(X.shape, bool)),
        "masked gaps": lambda: np.ma.masked_array(X, gaps),
        "csr": lambda: scipy.sparse.csr_array(X),
        "matrix": lambda: np.matrix(X),
        "1d": lambda: X[:, 0] if p else np.zeros(n),
        "3d": lambda: X[:, :, None],
        "none": lambda: None,
        "scalar": lambda: 3.0,
        "str": lambda: "x0",
        "ragged": lambda: [[1.0] * (1 + i % 2) for i in range(n)],
        "datetime": lambda: np.full((n, p), np.datetime64("2020-01-01")),
        "big endian": lambda: X.astype(">f8"),
        "series": lambda: pd.Series(X[:, 0] if p else np.zeros(n)),
    }
    return makers[box]() if box in makers else _cast(X, box)


def _readonly(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.flags.writeable = False
    return out


def _pandas(kind: str, X: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    n, p = X.shape
    frame = _frame(X)
    if kind == "index":
        return frame.set_index(rng.permutation(n) + 7)
    if kind == "hostile":
        return _frame(
            X, [f"{HOSTILE[j % len(HOSTILE)]}{j // len(HOSTILE) or ''}" for j in range(p)]
        )
    if kind == "int names":
        return _frame(X, list(range(p)))
    if kind == "mixed names":
        return _frame(X, [j if j % 2 else f"x{j}" for j in range(p)])
    if kind == "twice":
        return _frame(X, ["x"] * p)
    if kind == "object":
        return frame.astype(object)
    if kind == "Float64":
        return frame.convert_dtypes()
    if kind == "NA":
        return frame.convert_dtypes().mask(rng.random(X.shape) < 0.1)
    if kind == "bool":
        return frame > 0
    if kind == "Sparse":
        return frame.astype(pd.SparseDtype(float, 0.0))
    extra: dict[str, Any] = {
        "category": lambda: pd.Categorical([str(i % 3) for i in range(n)]),
        "text": lambda: [str(i % 3) for i in range(n)],
        "date": lambda: pd.date_range("2020-01-01", periods=n) if n else pd.to_datetime([]),
    }
    return _with_column(frame, extra[kind]()) if kind in extra else frame


# --------------------------------------------------------------------------- y, S, weights


def _text(codes: np.ndarray, labels: tuple[Any, ...]) -> np.ndarray:
    out = np.empty(len(codes), dtype=object)
    out[:] = [labels[c % len(labels)] for c in codes]
    return out


def make_target(kind: str, n: int, exponent: int, X: np.ndarray, rng: np.random.Generator) -> Any:
    """y as the user holds it."""
    first = X[:, 0] if X.shape[1] else np.zeros(n)
    first = np.nan_to_num(first, posinf=0, neginf=0)
    size = float(np.abs(first).max(initial=0.0)) or 1.0
    number = first / size + 0.5 * rng.normal(size=n)
    codes = (number > np.median(number)).astype(int) if n else np.zeros(0, int)
    three = np.arange(n) % 3
    makers: dict[str, Any] = {
        "classes": lambda: codes,
        "three": lambda: three,
        "text": lambda: np.where(codes, "yes", "no"),
        "bool": lambda: codes.astype(bool),
        "hostile": lambda: _text(three, HOSTILE[:3]),
        "float": lambda: number,
        "floatclasses": lambda: codes.astype(float),
        "constant": lambda: np.ones(n, int),
        "nan": lambda: np.where(np.arange(n) == 0, np.nan, number),
        "inf": lambda: np.where(np.arange(n) == 0, np.inf, number),
        "none in": lambda: _text(three, ("a", "b", None)),
        "many integers": lambda: np.arange(n),
        "scaled": lambda: number * 10.0**exponent,
        "offset": lambda: number + 10.0 ** (abs(exponent) % 17),
        "longer": lambda: np.append(codes, 0),
        "shorter": lambda: codes[:-1],
        "column": lambda: codes[:, None],
        "two columns": lambda: np.c_[codes, codes],
        "date": lambda: np.datetime64("2020-01-01") + codes,
        "category": lambda: pd.Series(pd.Categorical(np.where(codes, "yes", "no"))),
        "int8": lambda: np.where(codes, 127, -128).astype(np.int8),
        "big": lambda: codes.astype(np.uint64) + np.uint64(2**63),
        "masked": lambda: np.ma.masked_array(number, np.arange(n) == 0),
        "list": codes.tolist,
        "series": lambda: pd.Series(number, index=rng.permutation(n) + 5),
        "polars": lambda: pl.Series("y", [None if i == 0 else float(i % 5) for i in range(n)]),
        "mixed": lambda: _text(codes, (1, "a")),
        "one each": lambda: np.array([f"c{i}" for i in range(n)]),
        "rare": lambda: (np.arange(n) == 0).astype(int),
        "none": lambda: None,
        "complex": lambda: number + 1j,
        "bytes": lambda: np.where(codes, b"yes", b"no"),
        "ragged": lambda: [[1] * (1 + i % 2) for i in range(n)],
        "set": lambda: {0, 1},
    }
    return makers[kind]()


def make_attribute(
    kind: str, n: int, exponent: int, X: np.ndarray, group: np.ndarray, rng: np.random.Generator
) -> Any:
    """One protected attribute."""
    number = rng.normal(size=n) + group
    three = np.arange(n) % 3
    some = rng.random(n) < 0.2
    makers: dict[str, Any] = {
        "binary": lambda: group,
        "text": lambda: np.where(group, "b", "a"),
        "three": lambda: three,
        "continuous": lambda: number,
        "hostile": lambda: _text(rng.integers(0, 16, n), HOSTILE),
        "one each": lambda: np.array([f"g{i}" for i in range(n)]),
        "constant": lambda: np.zeros(n, int),
        "gaps": lambda: np.where(some, np.nan, number),
        "none gaps": lambda: _text(three, ("a", "b", None)),
        "missing": lambda: _text(three, (None,)),
        "scaled": lambda: number * 10.0**exponent,
        "offset": lambda: number + 10.0 ** (abs(exponent) % 17),
        "date": lambda: np.datetime64("2020-01-01") + group,
        "int8": lambda: np.where(group, 127, -128).astype(np.int8),
        "bool": lambda: group.astype(bool),
        "category": lambda: pd.Series(pd.Categorical(np.where(group, "b", "a"))),
        "unused": lambda: pd.Series(pd.Categorical(np.where(group, "b", "a"), ["c", "b", "a"])),
        "proxy": lambda: X[:, 0].copy() if X.shape[1] else group,
        "inf": lambda: np.where(some, np.inf, number),
        "bytes": lambda: np.where(group, b"b", b"a"),
        "mixed": lambda: _text(group, (1, "a")),
        "nested": lambda: _text(group, ([1], [1, 2])),
        "complex": lambda: number + 1j,
        "decimal": lambda: _text(group, (decimal.Decimal(1), decimal.Decimal(2))),
        "many integers": lambda: np.arange(n) * 3,
        "big": lambda: three.astype(np.int64) + 2**60,
        "longer": lambda: np.append(group, 0),
        "skewed": lambda: (np.arange(n) == 0).astype(int),
        "floats": lambda: three / 10.0,
    }
    return makers[kind]()


def box_attributes(box: str, columns: list[Any], rng: np.random.Generator) -> Any:
    """S as the user holds it."""
    one = columns[0]
    n = len(one)
    named = {f"s{j}": column for j, column in enumerate(columns)}
    lengths = {len(column) for column in columns}
    index = rng.permutation(n) + 3
    if box in ("frame", "series", "polars", "twice") and len(lengths) > 1:
        return named
    makers: dict[str, Any] = {
        "array": lambda: one if len(columns) == 1 else named,
        "list": lambda: list(one),
        "dict": lambda: named,
        "series": lambda: pd.Series(
            np.asarray(one), index=rng.permutation(n) + 3, name="s", dtype=_pandas_dtype(one)
        ),
        "frame": lambda: pd.DataFrame(
            {
                k: pd.Series(np.asarray(v), index=index, dtype=_pandas_dtype(v))
                for k, v in named.items()
            },
            index=index,
        ),
        "polars": lambda: pl.DataFrame({k: _polars(v) for k, v in named.items()}),
        "masked": lambda: np.ma.masked_array(np.asarray(one), np.arange(n) % 7 == 0),
        "fortran": lambda: np.asfortranarray(np.stack([np.asarray(one)] * 2, axis=1)),
        "readonly": lambda: _readonly(np.asarray(one)),
        "names": lambda: ["x0"],
        "3d": lambda: np.zeros((n, 2, 2)),
        "none": lambda: None,
        "empty": dict,
        "str": lambda: "x0",
        "twice": lambda: pd.DataFrame(
            np.stack([np.asarray(one, dtype=object)] * 2, axis=1), columns=["s", "s"], dtype=object
        ),
        "hostile dict": lambda: {HOSTILE[j]: column for j, column in enumerate(columns)},
        "list of lists": lambda: [[v] for v in one],
        "int dict": lambda: {1: one, "1": one},
        "scalar": lambda: 1,
    }
    return makers[box]()


def _pandas_dtype(column: Any) -> Any:
    """Its own choice, but for half characters, which its strings cannot hold."""
    return object if any(isinstance(v, str) and "\ud800" in v for v in column) else None


def _polars(column: Any) -> pl.Series:
    listed = list(column)
    listed = [v.item() if isinstance(v, np.generic) else v for v in listed]
    if any(isinstance(v, str) and "\ud800" in v for v in listed):  # polars holds UTF-8
        listed = [v.replace("\ud800", "?") for v in listed]
    return pl.Series(listed, strict=False)


def make_weight(kind: str, n: int, rng: np.random.Generator) -> Any:
    """sample_weight as the user holds it."""
    positive = rng.uniform(0.5, 2.0, n)
    makers: dict[str, Any] = {
        "none": lambda: None,
        "ones": lambda: np.ones(n),
        "positive": lambda: positive,
        "zeros": lambda: positive * (np.arange(n) % 3 > 0),
        "nothing": lambda: np.zeros(n),
        "negative": lambda: positive - 1.0,
        "nan": lambda: np.where(np.arange(n) == 0, np.nan, positive),
        "inf": lambda: np.where(np.arange(n) == 0, np.inf, positive),
        "longer": lambda: np.ones(n + 1),
        "scalar": lambda: 2.0,
        "huge": lambda: positive * 1e150,
        "tiny": lambda: positive * 1e-150,
        "wide": lambda: 10.0 ** rng.integers(-12, 12, n),
        "text": lambda: np.full(n, "a"),
        "column": lambda: positive[:, None],
        "series": lambda: pd.Series(positive, index=np.arange(n) + 9),
        "int8": lambda: np.full(n, 100, np.int8),
        "bool": lambda: np.arange(n) % 2 == 0,
        "one row": lambda: (np.arange(n) == 0).astype(float),
        "masked": lambda: np.ma.masked_array(positive, np.arange(n) == 0),
        "str": lambda: "balanced",
        "empty": list,
    }
    return makers[kind]()


# --------------------------------------------------------------------------- recipes

SIZES = (0, 1, 2, 3, 5, 8, 11, 20, 40)
WIDTHS = (0, 1, 2, 7, 20)
ODD = {
    "n": st.sampled_from(SIZES),
    "p": st.sampled_from(WIDTHS),
    "values": st.sampled_from(VALUES),
    "box": st.sampled_from(BOXES),
    "target": st.sampled_from(TARGETS),
    "sensitive": st.lists(st.sampled_from(("binary", *KINDS)), min_size=1, max_size=3).map(tuple),
    "s_box": st.sampled_from(S_BOXES),
    "weight": st.sampled_from(WEIGHTS),
}
# Removal on new rows needs 10 rows in each of 5 folds.
N_ROWS = st.one_of(st.integers(10, 40), st.integers(60, 100))
EXPONENTS = st.one_of(st.integers(-12, 12), st.integers(-150, 150))


@st.composite
def rows(draw: st.DrawFn, targets: tuple[str, ...] = ("classes",), odd: int = 3) -> Rows:
    """Ordinary rows with up to ``odd`` oddities."""
    out = Rows(
        seed=draw(st.integers(0, 2**32 - 1)),
        n=draw(N_ROWS),
        p=draw(st.integers(1, 4)),
        target=draw(st.sampled_from(targets)),
    )
    chosen = draw(st.lists(st.sampled_from(sorted(ODD)), max_size=odd, unique=True))
    return replace(out, exponent=draw(EXPONENTS), **{name: draw(ODD[name]) for name in chosen})


# --------------------------------------------------------------------------- parameters

# Nothing automatic: most fits take a few milliseconds.
FIXED: dict[str, Any] = {"gamma": 0.5, "eta": 1e-3, "alpha": 1.0, "random_state": 0}


def matrix_kernel(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """A kernel of the user's own."""
    return (1.0 + np.tanh(X) @ np.tanh(Z).T) ** 2


def row_kernel(x: np.ndarray, z: np.ndarray) -> float:
    """One number for two rows."""
    return float(np.exp(-np.abs(np.tanh(x) - np.tanh(z)).sum()))


def nan_kernel(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """A kernel that gives up."""
    return np.full((len(X), len(Z)), np.nan)


VALID: dict[str, tuple[Any, ...]] = {
    "kernel": (
        "linear", "laplacian", "poly", "polynomial", "sigmoid", "cosine", "chi2", "additive_chi2",
        "precomputed", matrix_kernel, row_kernel, nan_kernel,
    ),
    "gamma": ("cv", "median", "scale", 1e-3, 100.0, 1e-150, 1e150, np.float32(0.3), 2),
    "criterion": (
        "sp", "eo", "eop", "equalized_odds", "equal_opportunity", "demographic_parity",
        "conditional_statistical_parity",
    ),
    "fairness": (0, 0.0, 0.5, 1, 0.999999, np.float32(0.3), {"sensitive_feature_0": 0.9}, {"s0": 1.0}),
    "dial": ("auto", "angle", "cosine", "correlation", "share"),
    "removal": ("auto", "new_rows", "training_rows"),
    "method": ("optimal", "rkhs", "paper"),
    "subspace": ("model", "fair"),
    "dependence": ("mean", "correlation"),
    "n_components": ("auto", "all", 1, 2, 5, 10**6),
    "landmarks": ("stratified", "rpcholesky"),
    "n_slices": (2, 3, 10, 1000, "distinct"),
    "sensitive_kind": ("auto", "categorical", "continuous", {"s0": "continuous"}, ["categorical"]),
    "intersectional": (True, False),
    "pos_label": (0, 1, "yes", "absent"),
    "n_sensitive_directions": ("all", "test", "auto", 1, 2, 50),
    "n_predictive_directions": ("auto", "test", 1, 2, 50),
    "alpha": ("auto", 1e-8, 1e-3, 1e6, 1e-150, 1e150),
    "eta": ("auto", 1e-12, 1e-8, 1.0, 1e6, 1e-150, 1e150),
    "missing_sensitive": ("omit", "raise"),
    "random_state": (0, 7, None),
}  # fmt: skip
INVALID: tuple[Any, ...] = (
    None, -1, 0, 1.5, float("nan"), float("inf"), "x", "", True, [], {}, (1, 2), np.array([1.0, 2.0]),
    b"rbf", 2.0 + 1j, np.nan, -0.0, 10**400, "1", datetime.date(2020, 1, 1), np.array("rbf"),
)  # fmt: skip


@st.composite
def parameters(draw: st.DrawFn, names: tuple[str, ...] = (), most: int = 3) -> dict[str, Any]:
    """Parameters of an estimator: a few valid ones off their default, one in eight invalid."""
    known = sorted({*VALID, *names})
    chosen = draw(st.lists(st.sampled_from(known), max_size=most, unique=True))
    out: dict[str, Any] = {}
    for name in chosen:
        valid = st.sampled_from(VALID.get(name, (None,)))
        wild = draw(st.integers(0, 7)) == 7
        out[name] = draw(st.sampled_from(INVALID) if wild else valid)
    kernel = out.get("kernel", "rbf")
    reads_gamma = isinstance(kernel, str) and kernel in (
        "rbf",
        "laplacian",
        "poly",
        "polynomial",
        "sigmoid",
        "chi2",
    )
    fixed = FIXED if reads_gamma else {k: v for k, v in FIXED.items() if k != "gamma"}
    if str(out.get("method")) == "paper" and "alpha" not in out:
        fixed = {k: v for k, v in fixed.items() if k != "alpha"}
    return {**fixed, **out}


@dataclass(frozen=True)
class Problem:
    """Rows, parameters and how to use them."""

    rows: Rows
    params: dict[str, Any] = field(default_factory=dict)
    use: dict[str, Any] = field(default_factory=dict)


NUMERIC = ("scaled", "offset", "mixed", "near duplicates", "collinear", "outlier", "subnormal", "zeros",
           "duplicates", "constant column", "two rows", "integers")  # fmt: skip
NUMERIC_PARAMS = ("kernel", "gamma", "alpha", "eta", "method", "subspace", "n_components", "landmarks",
                  "n_sensitive_directions", "n_predictive_directions", "dependence", "criterion", "dial",
                  "fairness", "n_slices", "removal")  # fmt: skip


@st.composite
def extremes(draw: st.DrawFn, targets: tuple[str, ...]) -> tuple[Rows, dict[str, Any]]:
    """Rows that are numbers throughout, at the ends of what floats hold, with valid parameters."""
    recipe = Rows(
        seed=draw(st.integers(0, 2**32 - 1)), n=draw(N_ROWS),
        p=draw(st.sampled_from((1, 2, 3, 20))), values=draw(st.sampled_from(NUMERIC)),
        exponent=draw(EXPONENTS), target=draw(st.sampled_from(targets)),
        sensitive=draw(st.sampled_from((
            ("binary",), ("continuous",), ("three",), ("scaled",), ("offset",), ("proxy",),
            ("binary", "text"), ("skewed", "binary"), ("binary", "continuous"),
        ))),
        weight=draw(st.sampled_from(("none", "none", "none", "positive", "huge", "tiny", "wide", "zeros"))),
    )  # fmt: skip
    names = draw(st.lists(st.sampled_from(NUMERIC_PARAMS), max_size=4, unique=True))
    params = {name: draw(st.sampled_from(VALID[name])) for name in names}
    fixed = {k: v for k, v in FIXED.items() if draw(st.booleans()) or k == "random_state"}
    if params.get("method") == "paper":
        fixed.pop("alpha", None)
    reads = (None, "rbf", "laplacian", "poly", "polynomial", "sigmoid", "chi2")
    if params.get("kernel") not in reads:
        fixed.pop("gamma", None)
        params.pop("gamma", None)
    return recipe, {**fixed, **params}


@st.composite
def one_wild(draw: st.DrawFn, own: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """One parameter that cannot be, or is odd, beside one that can; half of the time the model's own."""
    known = {**VALID, **own}
    names = st.sampled_from(sorted(known))
    names = st.one_of(names, st.sampled_from(sorted(own))) if own else names
    name, other = draw(names), draw(names)
    out = {**FIXED, other: draw(st.sampled_from(known[other]))}
    wild = draw(st.integers(0, 3)) > 0
    return {**out, name: draw(st.sampled_from(INVALID if wild else known[name]))}
