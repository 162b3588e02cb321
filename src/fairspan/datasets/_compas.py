"""COMPAS (recidivism within two years)."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.datasets._files import DataFile, Parts, Source, as_csv, fetch, zscored

__all__ = ["fetch_compas"]

_PROTECTED = ["sex", "race", "age"]
# What is known when the person is assessed. An inclusive list: most of the file is known later.
_FEATURES = [
    *("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_days_from_compas"),
    *("c_charge_degree", "c_charge_desc"),
]
_DATES = [
    *("c_jail_in", "c_jail_out", "c_offense_date", "screening_date", "in_custody", "out_custody"),
]
_PAPER_FEATURES = [
    *("screening_date", "c_offense_date", "juv_other_count", "juv_misd_count", "c_jail_out"),
    *("c_jail_in", "age", "out_custody", "juv_fel_count", "african_american", "priors_count"),
    *("in_custody", "decile_score", "v_decile_score"),
]
_PAPER_TRAIN = 2000
# Direct identifiers and an empty column of the source. `decile_score` and `priors_count` occur
# twice; the first of each is kept.
_DROPPED = {
    *("name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"),
    "violent_recid",
}

_DESCR = """\
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


def _from_propublica(parts: Sequence[bytes]) -> bytes:
    rows = list(csv.reader(io.StringIO(parts[0].decode("utf-8"), newline="")))
    header = rows[0]
    columns = [
        i for i, name in enumerate(header) if name not in _DROPPED and header.index(name) == i
    ]
    return as_csv([row[i] for i in columns] for row in rows)


def _raw(table: Any) -> Parts:
    return Parts(table[_FEATURES].copy(), table["two_year_recid"], table[_PROTECTED].copy())


def _paper(table: Any) -> Parts:
    for column in _DATES:
        days = table[column].astype("datetime64[ns]")
        table[column] = (days - days.min()) / (days.max() - days.min())
    table["african_american"] = (table["race"] == "African-American").astype(float)
    table["sex_male"] = (table["sex"] == "Male").astype(float)
    table = table.dropna(subset=_DATES).reset_index(drop=True)
    target = table["two_year_recid"] * 2 - 1
    data = zscored(table[_PAPER_FEATURES], ddof=1, order="C")
    split = np.arange(_PAPER_TRAIN), np.arange(_PAPER_TRAIN, len(table))
    return Parts(data, target, table[["sex_male"]].copy(), split)


_FILE = DataFile(
    name="compas.csv.gz",
    sha256="aaae5a8f7b02241754cb03ef7a5420e4101b61528ba6bf7f49a1f36bf29b709e",
    text_sha256="33ac0dbedf60439ac6493efb896dfdb0c4a7a4bedbfb0ecef013e95eb9e1f084",
    sources=(
        Source(
            "https://raw.githubusercontent.com/propublica/compas-analysis/"
            "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        ),
    ),
    convert=_from_propublica,
    description=_DESCR,
    protocols={"raw": _raw, "paper": _paper},
)


def fetch_compas(
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
    return_X_y: bool = False,
    protocol: str = "raw",
) -> Any:
    """Load two-year recidivism with sex, race and age (classification).

    The file `compas.csv.gz` is searched in `data_home`, in the folder named by the environment
    variable `FAIRSPAN_DATA` and in the cache; otherwise it is made from ProPublica's file, without
    its identifiers.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder to search first, and to keep a download in (default: the cache).
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`.
    protocol : {"raw", "paper"}, default="raw"
        "raw": columns as they were recorded, less what leaks the label (`DESCR` has the list), and
        protected attributes only in `sensitive_features`. "paper": the matrix and the split of the
        paper, leaking dates included.

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (raw: 7214 x 7, paper: 5855 x 14), `target` (raw: 0 and 1, paper: -1 and 1),
        `sensitive_features` (raw: `sex`, `race`, `age`, not in `data`; paper: `sex_male`, not in
        `data`, which has age and race), `frame` (raw: every column of the file), `feature_names`,
        `target_names`, `sensitive_names`, `DESCR` (origin, licence, known problems), `filename`,
        and for "paper" the row numbers `train` and `test`.

    Raises
    ------
    DatasetError
        The file is damaged, or absent and cannot be downloaded. A subclass of `OSError`; the
        message names the file and the folder for it.
    ImportError
        The extra `data` is not installed.
    """
    return fetch(_FILE, protocol, data_home=data_home, as_frame=as_frame, return_X_y=return_X_y)
