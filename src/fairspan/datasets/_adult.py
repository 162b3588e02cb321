"""Adult (census income)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.datasets._files import DataFile, Parts, Source, as_csv, fetch, zscored

__all__ = ["fetch_adult"]

_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
_PROTECTED = ["sex", "race", "age"]
_NOT_FEATURES = [*_PROTECTED, "native_country", "fnlwgt", "income", "split"]
_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
# Rows of the official training part: where the paper's code cuts, after it has dropped rows.
_OFFICIAL_TRAIN = 32561

_DESCR = """\
Adult, or Census Income

48842 people in the US census of 1994. Target: `income`, ">50K" on 11687 rows and "<=50K" on 37155.
Protected: `sex` ("Male" 32650, "Female" 16192), `race` ("White" 41762, "Black" 4685,
"Asian-Pac-Islander" 1519, "Amer-Indian-Eskimo" 470, "Other" 406) and `age` (17 to 90).

Origin: B. Becker and R. Kohavi (1996), Adult, UCI Machine Learning Repository; `adult.data` and
`adult.test`, where hyphens in column names became underscores, "?" a missing value, and the full
stop after the labels of the test part was removed. Licence: none was stated with the copy that was
checked; see the terms at UCI.

Protocol "raw": 9 features. Left out, and found in `frame`: the three protected attributes;
`native_country`, which tells national origin and is protected itself, but is missing on 857 rows
and has 41 mostly tiny groups; `fnlwgt`, a sampling weight and no property of the person; `split`.
The first 32561 rows are the official training part. Missing: `workclass` 2799, `occupation` 2809.

Protocol "paper": rows with a missing value are dropped (45222 stay), each text column becomes the
rank of its value in sorted order, and all columns are z-scored over all rows (division by n).
13 features; S is `sex`, z-scored like the rest and not among the features; target -1 and +1.
Train is rows 0 to 1627, test rows 32561 to 45221: the authors' code cuts where the official
training part ended before rows were dropped, so 2399 official test rows are in neither part.

Known problems:

- `relationship` gives sex away: of 19716 "Husband" one is a woman, of 2331 "Wife" three are men.
- `education` and `education_num` are the same thing twice.
- `capital_gain` is 99999 on 244 rows and `age` 90 on 55: both are cut off there.
- In "paper", `race`, `age` and `native_country` are features, ranks of categories are used as
  numbers, and train and test rows were standardised together.
- Income above 50000 USD in 1994: rates by group say nothing about today.
"""


def _from_uci(parts: Sequence[bytes]) -> bytes:
    rows: list[list[str]] = [[*_COLUMNS, "split"]]
    for split, part in zip(("train", "test"), parts, strict=True):
        for line in part.decode("ascii").splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == len(_COLUMNS):  # else a remark or an empty line
                fields = ["" if field == "?" else field for field in fields]
                rows.append([*fields[:-1], fields[-1].rstrip("."), split])
    return as_csv(rows)


def _raw(table: Any) -> Parts:
    return Parts(table.drop(columns=_NOT_FEATURES), table["income"], table[_PROTECTED].copy())


def _paper(table: Any) -> Parts:
    table = table.drop(columns="split").dropna().reset_index(drop=True)
    target = table.pop("income").map({"<=50K": -1, ">50K": 1})
    for column in table.columns.difference(table.select_dtypes("number").columns):
        values = table[column].to_numpy(dtype=object)
        table[column] = np.unique(values, return_inverse=True)[1]
    scaled = zscored(table, ddof=0, order="F")
    sensitive = scaled[["sex"]].copy()
    split = np.arange(_OFFICIAL_TRAIN // 20), np.arange(_OFFICIAL_TRAIN, len(table))
    return Parts(scaled.drop(columns="sex"), target, sensitive, split)


_FILE = DataFile(
    name="adult.csv.gz",
    sha256="7cbc928f063e7dcf58990246873ed4e652a4fe233e7e0ab1378b3361d1314560",
    text_sha256="d6362d8cb6d5ececd0b8bffc9db874989768ec3d10f2e9fb0df602f598cafb3f",
    sources=(
        Source(
            f"{_HOME}/adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        Source(
            f"{_HOME}/adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ),
    ),
    convert=_from_uci,
    description=_DESCR,
    protocols={"raw": _raw, "paper": _paper},
)


def fetch_adult(
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
    return_X_y: bool = False,
    protocol: str = "raw",
) -> Any:
    """Load census incomes with sex, race and age (classification).

    The file `adult.csv.gz` is searched in `data_home`, in the folder named by the environment
    variable `FAIRSPAN_DATA` and in the cache; otherwise it is made from two files downloaded from
    UCI.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder to search first, and to keep a download in (default: the cache).
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`.
    protocol : {"raw", "paper"}, default="raw"
        "raw": columns as they were recorded, nothing imputed or scaled, protected attributes only
        in `sensitive_features`. "paper": the matrix and the split of the paper.

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (raw: 48842 x 9, paper: 45222 x 13), `target` (raw: "<=50K" and ">50K", paper:
        -1 and 1), `sensitive_features` (raw: `sex`, `race`, `age`; paper: `sex`, z-scored; never in
        `data`), `frame` (raw: every column of the file), `feature_names`, `target_names`,
        `sensitive_names`, `DESCR` (origin, licence, known problems), `filename`, and for "paper"
        the row numbers `train` and `test`.

    Raises
    ------
    DatasetError
        The file is damaged, or absent and cannot be downloaded. A subclass of `OSError`; the
        message names the file and the folder for it.
    ImportError
        The extra `data` is not installed.
    """
    return fetch(_FILE, protocol, data_home=data_home, as_frame=as_frame, return_X_y=return_X_y)
