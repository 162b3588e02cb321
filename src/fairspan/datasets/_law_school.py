"""Law school (grades of students before and bar passage after)."""

from __future__ import annotations

import os
from typing import Any

from fairspan.datasets._files import DataFile, Parts, fetch, seeded_split

__all__ = ["fetch_law_school"]

# `cluster` is `tier` under arbitrary codes.
_FEATURES = ["lsat", "fam_inc", "tier", "fulltime", "decile1", "decile1b", "decile3"]
_PAPER_FEATURES = [
    *("DOB_yr", "decile1", "decile1b", "decile3", "fam_inc", "lsat", "male"),
    *("cluster_2", "cluster_3", "cluster_4", "cluster_5", "cluster_6", "part_time"),
]
_PAPER_TRAIN = 4000
_ENTRY_YEAR = 91

_DESCR = """\
Law school (LSAC bar passage study)

20798 students who entered US law schools in 1991, complete cases only. Target: `ugpa`, the
undergraduate grade average (1.5 to 4). Protected: `race1` ("white" 17491, "black" 1201, "hisp" 933,
"asian" 795, "other" 378), `gender` ("male" 11675, "female" 9123) and `age_1991`, 91 minus the year
of birth (20 to 81).

Origin: L. F. Wightman (1998), LSAC National Longitudinal Bar Passage Study; joined from three public
copies (R package `fairml` 0.8; repositories `tailequy/fairness_dataset` and
`GuilhermePelegrina/Datasets`). Licence: MIT for `fairml`; the other two state none.

Protocol "raw": 7 features. Known when a student enters: `lsat`, `fam_inc` (1 to 5), `tier` (of the
school, 1 to 6) and `fulltime` (1 full time, 2 part time). Years after the target, kept because every
published comparison has them: the class ranks `decile1`, `decile1b`, `decile3`; drop them to predict
at entry. Left out, and found in `frame`:

- `zfygpa`, `zgpa`, `bar`: grades in law school, which the ranks are made of, and the bar examination.
  `bar` is the usual target for classification.
- `cluster`: `tier` under arbitrary codes.
- `DOB_yr`: the age. `age`: wrong, see below. `race1` and `gender`: protected.

Protocol "paper": `DOB_yr`, the three deciles, `fam_inc`, `lsat`, `male`, five dummies of `cluster`
and `part_time`: 13 features as they are, not scaled. S is `black` (0 or 1) and the wrong `age`, not
among the features; but `DOB_yr`, which gives age away, is. The authors' S and y are equal to these;
their X is lost, so it was rebuilt by rule, in this order of columns. The paper's split is unknown:
`train` (4000 rows) and `test` (16798) are ours, from
`numpy.random.default_rng(0).permutation(20798)`.

Known problems:

- `age` in the source is 1, 2, 6 or 7 (seemingly a month) minus `DOB_yr`: negative, from -69 to -3.
  It is no age, but its correlation with `age_1991` is 0.95.
- A few years of birth are implausible: 26 students would be over 55.
- Complete cases of those who were admitted: no statement about applicants follows.
"""


def _raw(table: Any) -> Parts:
    sensitive = table[["race1", "gender"]].copy()
    sensitive["age_1991"] = _ENTRY_YEAR - table["DOB_yr"]
    return Parts(table[_FEATURES].copy(), table["ugpa"], sensitive)


def _paper(table: Any) -> Parts:
    table["male"] = table["gender"] == "male"
    for code in range(2, 7):
        table[f"cluster_{code}"] = table["cluster"] == code
    table["part_time"] = table["fulltime"] == 2
    table["black"] = table["race1"] == "black"
    data, sensitive = table[_PAPER_FEATURES], table[["black", "age"]]
    split = seeded_split(len(table), _PAPER_TRAIN)
    return Parts(data.astype(float), table["ugpa"], sensitive.astype(float), split)


_FILE = DataFile(
    name="law_school.csv.gz",
    sha256="a3efeafdadd8f03bb0c7650c0af976ea877c66113460213d67d5ed41c0f32f30",
    text_sha256="5dd5e41c8f5e43ec4f12de3aeca4f8f1c2fbb734b3717b366d3a44fa64eca416",
    why_no_source="it was joined from three copies, and no public file is known to reproduce it",
    description=_DESCR,
    protocols={"raw": _raw, "paper": _paper},
)


def fetch_law_school(
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
    return_X_y: bool = False,
    protocol: str = "raw",
) -> Any:
    """Load grades of law students with race, gender and age (regression).

    The file `law_school.csv.gz` is searched in `data_home`, in the folder named by the environment
    variable `FAIRSPAN_DATA` and in the cache. There is no download: no public file is the same.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder to search first.
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`.
    protocol : {"raw", "paper"}, default="raw"
        "raw": what every comparison uses, the age put right, protected attributes only
        in `sensitive_features`. "paper": the matrix of the paper, rebuilt by rule, and a split
        of ours (the paper's is unknown).

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (raw: 20798 x 7, paper: 20798 x 13), `target` (1.5 to 4), `sensitive_features`
        (raw: `race1`, `gender`, `age_1991`, not in `data`; paper: `black` and the source's wrong
        `age`, not in `data`, which has gender and the year of birth), `frame` (raw: every column of
        the file), `feature_names`, `target_names`, `sensitive_names`, `DESCR` (origin, licence,
        known problems), `filename`, and for "paper" the row numbers `train` and `test`.

    Raises
    ------
    DatasetError
        The file is absent or damaged. A subclass of `OSError`; the message names the file and the
        folder for it.
    ImportError
        The extra `data` is not installed.
    """
    return fetch(_FILE, protocol, data_home=data_home, as_frame=as_frame, return_X_y=return_X_y)
