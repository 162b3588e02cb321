"""National Longitudinal Survey of Youth 1979 (incomes)."""

from __future__ import annotations

import os
from typing import Any

from fairspan.datasets._files import DataFile, Parts, fetch, seeded_split

__all__ = ["fetch_nlsy79"]

_PROTECTED = ["gender", "age"]
# The column order of the paper's file; `job_k` is 1 where the industry is k.
_PAPER_FEATURES = [
    *("job_agri", "illegalact", "job_pro", "genhealth", "job_retail", "job_mining"),
    *("job_wholesale", "charged", "job_personal", "job_enter", "job_manuf", "job_busi", "grade90"),
    *("jobsnum90", "job_fin", "afqt89", "job_construction", "job_transp", "jobtrain90", "job_pub"),
]
_PAPER_TRAIN = 3622

_DESCR = """\
National Longitudinal Survey of Youth 1979 (incomes of 1990)

7244 people first interviewed in 1979. Target: `income`, USD in 1990, 0 to 74283. Protected:
`gender` ("Female" 3761, "Male" 3483) and `age` at the interview of 1979 (14 to 22).

Origin: US Bureau of Labor Statistics, NLSY79 public-use data; this extract is the paper's own,
repository `ZilongTan/fgp`, `nlsy_x.csv`, `nlsy_s.csv` and `nlsy_y.csv`, with its columns identified
again and 13 dummies folded into `industry`. Rows were kept where all of income, grade90, genhealth,
illegalact, charged, jobsnum90, afqt89 and jobtrain90 were recorded. Licence: the repository is
GPL-3.0 and states none for the data.

Protocol "raw": 8 features. `genhealth` 1 excellent to 5 poor; `illegalact` 0 to 6; `charged` and
`jobtrain90` 0 or 1; `grade90` highest grade completed (13 and more: years of college); `jobsnum90`
number of jobs ever reported; `afqt89` percentile of a test of aptitude; `industry` a name, with
"none" on 1031 rows: a category, not a missing value.

Protocol "paper": 20 features as they are, not scaled, `industry` as 13 dummies (none for "none").
S is `female` (0 or 1) and `age`, not among the features; target income / 10000. The paper's split is
unknown. `train` and `test` are ours: the halves of `numpy.random.default_rng(0).permutation(7244)`.

Known problems:

- The row order is not random: the mean of `afqt89` is 50.5 in the first tenth of the rows and 24.4
  in the seventh. Shuffle before any split by position.
- Income is 0 on 17.5 % of the rows and cut off at 74283 (123 rows).
- `afqt89` depends on schooling, and its use is a matter of dispute.
- Other extracts of this survey in public archives have other rows and a target made binary.
"""


def _raw(table: Any) -> Parts:
    data = table.drop(columns=[*_PROTECTED, "income"])
    return Parts(data, table["income"], table[_PROTECTED].copy())


def _paper(table: Any) -> Parts:
    for column in _PAPER_FEATURES:
        if column.startswith("job_"):
            table[column] = table["industry"] == column.removeprefix("job_")
    table["female"] = table["gender"] == "Female"
    data, sensitive = table[_PAPER_FEATURES], table[["female", "age"]]
    split = seeded_split(len(table), _PAPER_TRAIN)
    return Parts(data.astype(float), table["income"] / 10_000, sensitive.astype(float), split)


_FILE = DataFile(
    name="nlsy79.csv.gz",
    sha256="a89f25b63c4ded9267f8acc6871ac305c5834f6978bac177b51d7d2db474a63e",
    text_sha256="586892b88f5896710ccf8f6b13d11c4c5668f3366977440d1b830b4053e5d023",
    why_no_source="no public file is known, with a checksum, to reproduce this extract of the survey",
    description=_DESCR,
    protocols={"raw": _raw, "paper": _paper},
)


def fetch_nlsy79(
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
    return_X_y: bool = False,
    protocol: str = "raw",
) -> Any:
    """Load incomes of a cohort with gender and age (regression).

    The file `nlsy79.csv.gz` is searched in `data_home`, in the folder named by the environment
    variable `FAIRSPAN_DATA` and in the cache. There is no download: no public file is known to be
    the same.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder to search first.
    as_frame : bool, default=True
        Return pandas objects; otherwise NumPy arrays.
    return_X_y : bool, default=False
        Return only `(data, target)`.
    protocol : {"raw", "paper"}, default="raw"
        "raw": columns as they were recorded, protected attributes only in `sensitive_features`.
        "paper": the matrix of the paper, and a split of ours (the paper's is unknown).

    Returns
    -------
    data : sklearn.utils.Bunch
        With `data` (raw: 7244 x 8, paper: 7244 x 20), `target` (raw: USD, paper: USD / 10000),
        `sensitive_features` (raw: `gender`, `age`; paper: `female`, `age`; never in `data`),
        `frame` (raw: every column of the file), `feature_names`, `target_names`,
        `sensitive_names`, `DESCR` (origin, licence, known problems), `filename`, and for "paper"
        the row numbers `train` and `test`.

    Raises
    ------
    DatasetError
        The file is absent or damaged. A subclass of `OSError`; the message names the file and the
        folder for it.
    ImportError
        The extra `data` is not installed.
    """
    return fetch(_FILE, protocol, data_home=data_home, as_frame=as_frame, return_X_y=return_X_y)
