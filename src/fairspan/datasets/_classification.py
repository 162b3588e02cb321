"""Data sets with a class as target: Adult (census income) and COMPAS (recidivism)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.datasets._files import DataFile, Parts, as_csv, make_loader, zscored

# ------------------------------------------------------------------ Adult

_ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
_ADULT_PROTECTED = ["sex", "race", "age"]
_ADULT_NOT_FEATURES = [*_ADULT_PROTECTED, "native_country", "fnlwgt", "income", "split"]
_ADULT_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
# Rows of the official training part: where the paper's code cuts, after it has dropped rows.
_ADULT_OFFICIAL_TRAIN = 32561

_ADULT_DESCR = """\
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


def _adult_from_uci(parts: Sequence[bytes]) -> bytes:
    rows: list[list[str]] = [[*_ADULT_COLUMNS, "split"]]
    for split, part in zip(("train", "test"), parts, strict=True):
        for line in part.decode("ascii").splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == len(_ADULT_COLUMNS):  # else a remark or an empty line
                fields = ["" if field == "?" else field for field in fields]
                rows.append([*fields[:-1], fields[-1].rstrip("."), split])
    return as_csv(rows)


def _adult_raw(table: Any) -> Parts:
    return Parts(
        table.drop(columns=_ADULT_NOT_FEATURES), table["income"], table[_ADULT_PROTECTED].copy()
    )


def _adult_paper(table: Any) -> Parts:
    table = table.drop(columns="split").dropna().reset_index(drop=True)
    target = table.pop("income").map({"<=50K": -1, ">50K": 1})
    for column in table.columns.difference(table.select_dtypes("number").columns):
        values = table[column].to_numpy(dtype=object)
        table[column] = np.unique(values, return_inverse=True)[1]
    scaled = zscored(table, ddof=0, order="F")
    sensitive = scaled[["sex"]].copy()
    split = np.arange(_ADULT_OFFICIAL_TRAIN // 20), np.arange(_ADULT_OFFICIAL_TRAIN, len(table))
    return Parts(scaled.drop(columns="sex"), target, sensitive, split)


ADULT = DataFile(
    name="adult.csv.gz",
    sha256="7cbc928f063e7dcf58990246873ed4e652a4fe233e7e0ab1378b3361d1314560",
    text_sha256="d6362d8cb6d5ececd0b8bffc9db874989768ec3d10f2e9fb0df602f598cafb3f",
    sources={
        f"{_ADULT_HOME}/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        f"{_ADULT_HOME}/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    convert=_adult_from_uci,
    description=_ADULT_DESCR,
    protocols={"raw": _adult_raw, "paper": _adult_paper},
    summary="Load census incomes with sex, race and age (classification).",
    made_from="from two files downloaded from UCI",
    protocols_doc='"raw": columns as they were recorded, nothing imputed or scaled, protected attributes '
    'only in `sensitive_features`. "paper": the matrix and the split of the paper.',
    contents_doc='`data` (raw: 48842 x 9, paper: 45222 x 13), `target` (raw: "<=50K" and ">50K", paper: '
    "-1 and 1), `sensitive_features` (raw: `sex`, `race`, `age`; paper: `sex`, z-scored; "
    "never in `data`)",
)
fetch_adult = make_loader(ADULT)

# ------------------------------------------------------------------ COMPAS

_COMPAS_PROTECTED = ["sex", "race", "age"]
# What is known when the person is assessed. An inclusive list: most of the file is known later.
_COMPAS_FEATURES = [
    *("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_days_from_compas"),
    *("c_charge_degree", "c_charge_desc"),
]
_COMPAS_DATES = [
    *("c_jail_in", "c_jail_out", "c_offense_date", "screening_date", "in_custody", "out_custody")
]
_COMPAS_PAPER_FEATURES = [
    *("screening_date", "c_offense_date", "juv_other_count", "juv_misd_count", "c_jail_out"),
    *("c_jail_in", "age", "out_custody", "juv_fel_count", "african_american", "priors_count"),
    *("in_custody", "decile_score", "v_decile_score"),
]
_COMPAS_PAPER_TRAIN = 2000
_COMPAS_URL = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv"
)
# Direct identifiers and an empty column of the source. `decile_score` and `priors_count` occur
# twice; the first of each is kept.
_COMPAS_DROPPED = {
    *("name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"),
    "violent_recid",
}

_COMPAS_DESCR = """\
COMPAS (recidivism within two years)

7214 people assessed with the risk tool COMPAS in Broward County, Florida, in 2013 and 2014.
Target: `two_year_recid`, 1 (charged with a new crime within two years) on 3251 rows. Protected:
`sex` ("Male" 5819, "Female" 1395), `race` ("African-American" 3696, "Caucasian" 2454, "Hispanic"
637, "Other" 377, "Asian" 32, "Native American" 18) and `age` (18 to 96).

Origin: J. Larson, S. Mattu, L. Kirchner and J. Angwin (2016), ProPublica, repository
`propublica/compas-analysis`, `compas-scores-two-years.csv`, less the names, birth dates and case
numbers, an empty column and two that occur twice. Licence: the repository states none.

Protocol "raw": the 7 features that are known when a person is assessed and are not the answer of
the tool under study: counts of juvenile and prior offences, the days since the offence or arrest,
degree and description of the charge. Left out, and found in `frame`:

- `is_recid`, `is_violent_recid`, `event`, `start`, `end`, and all of `r_*` and `vr_*`: the outcome,
  or what was recorded about it. `is_recid` is 1 on every row with target 1.
- `in_custody`, `out_custody`: a custody that began later than the day after the assessment (3241
  rows) is often the new arrest: 72 % of these have target 1, 24 % of the others.
- `compas_screening_date`, `screening_date`, `v_screening_date`: the target is 1 on all 998 rows
  assessed after 1 April 2014, see below.
- `c_jail_in`, `c_jail_out`, `c_offense_date`, `c_arrest_date`: dates, which carry the date of the
  assessment; a stay in jail may also end after it.
- `days_b_screening_arrest`: the arrest may be one after the assessment. Of the 353 rows with a
  positive number 71 % have target 1, of the 307 without a number 18 %.
- `decile_score`, `score_text`, `v_decile_score`, `v_score_text`: the tool's own predictions. They
  are no leak, but a model to be compared with the tool must not be fed them.
- `age_cat` (made of `age`), `id`, and `type_of_assessment`, `v_type_of_assessment` (constant).

Protocol "paper": six dates (`c_jail_in`, `c_jail_out`, `c_offense_date`, `screening_date`,
`in_custody`, `out_custody`) are mapped to [0, 1] over all rows, rows that lack one are dropped
(5855 stay), and the 14 features are z-scored over all of them (division by n - 1). S is `sex_male`,
0 or 1 and not among the features; `age` and `african_american` are. Target -1 and +1. Train is the
first 2000 rows, test the other 3855.

Known problems:

- The dates leak the label, and "paper" has them among its features: errors there are too good.
- Nobody assessed after 1 April 2014 had been followed for two years, and yet those who had offended
  again were kept, and only those. Keep the rows with `frame["screening_date"] < "2014-04-02"` for a
  sample whose base rate is right (0.36 instead of 0.45).
- A new charge is not a new crime: policing differs between groups, and so does the label.
- In "paper" train and test rows were standardised together.
"""


def _compas_from_propublica(parts: Sequence[bytes]) -> bytes:
    rows = list(csv.reader(io.StringIO(parts[0].decode("utf-8"), newline="")))
    header = rows[0]
    columns = [
        i
        for i, name in enumerate(header)
        if name not in _COMPAS_DROPPED and header.index(name) == i
    ]
    return as_csv([row[i] for i in columns] for row in rows)


def _compas_raw(table: Any) -> Parts:
    return Parts(
        table[_COMPAS_FEATURES].copy(), table["two_year_recid"], table[_COMPAS_PROTECTED].copy()
    )


def _compas_paper(table: Any) -> Parts:
    for column in _COMPAS_DATES:
        days = table[column].astype("datetime64[ns]")
        table[column] = (days - days.min()) / (days.max() - days.min())
    table["african_american"] = (table["race"] == "African-American").astype(float)
    table["sex_male"] = (table["sex"] == "Male").astype(float)
    table = table.dropna(subset=_COMPAS_DATES).reset_index(drop=True)
    target = table["two_year_recid"] * 2 - 1
    data = zscored(table[_COMPAS_PAPER_FEATURES], ddof=1, order="C")
    split = np.arange(_COMPAS_PAPER_TRAIN), np.arange(_COMPAS_PAPER_TRAIN, len(table))
    return Parts(data, target, table[["sex_male"]].copy(), split)


COMPAS = DataFile(
    name="compas.csv.gz",
    sha256="aaae5a8f7b02241754cb03ef7a5420e4101b61528ba6bf7f49a1f36bf29b709e",
    text_sha256="33ac0dbedf60439ac6493efb896dfdb0c4a7a4bedbfb0ecef013e95eb9e1f084",
    sources={_COMPAS_URL: "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"},
    convert=_compas_from_propublica,
    description=_COMPAS_DESCR,
    protocols={"raw": _compas_raw, "paper": _compas_paper},
    summary="Load two-year recidivism with sex, race and age (classification).",
    made_from="from ProPublica's file, without its identifiers",
    protocols_doc='"raw": columns as they were recorded, less what leaks the label (`DESCR` has the '
    'list), and protected attributes only in `sensitive_features`. "paper": the matrix and '
    "the split of the paper, leaking dates included.",
    contents_doc="`data` (raw: 7214 x 7, paper: 5855 x 14), `target` (raw: 0 and 1, paper: -1 and 1), "
    "`sensitive_features` (raw: `sex`, `race`, `age`, not in `data`; paper: `sex_male`, not "
    "in `data`, which has age and race)",
)
fetch_compas = make_loader(COMPAS)
