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
