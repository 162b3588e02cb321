"""Communities and Crime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.datasets._files import DataFile, Parts, Source, as_csv, fetch, zscored

__all__ = ["fetch_communities_crime"]

# As in `communities.names`; the data file has no header.
_NAMES = """
state county community communityname fold population householdsize racepctblack racePctWhite
racePctAsian racePctHisp agePct12t21 agePct12t29 agePct16t24 agePct65up numbUrban pctUrban medIncome
pctWWage pctWFarmSelf pctWInvInc pctWSocSec pctWPubAsst pctWRetire medFamInc perCapInc whitePerCap
blackPerCap indianPerCap AsianPerCap OtherPerCap HispPerCap NumUnderPov PctPopUnderPov
PctLess9thGrade PctNotHSGrad PctBSorMore PctUnemployed PctEmploy PctEmplManu PctEmplProfServ
PctOccupManu PctOccupMgmtProf MalePctDivorce MalePctNevMarr FemalePctDiv TotalPctDiv PersPerFam
PctFam2Par PctKids2Par PctYoungKids2Par PctTeen2Par PctWorkMomYoungKids PctWorkMom NumIlleg PctIlleg
NumImmig PctImmigRecent PctImmigRec5 PctImmigRec8 PctImmigRec10 PctRecentImmig PctRecImmig5
PctRecImmig8 PctRecImmig10 PctSpeakEnglOnly PctNotSpeakEnglWell PctLargHouseFam PctLargHouseOccup
PersPerOccupHous PersPerOwnOccHous PersPerRentOccHous PctPersOwnOccup PctPersDenseHous
PctHousLess3BR MedNumBR HousVacant PctHousOccup PctHousOwnOcc PctVacantBoarded PctVacMore6Mos
MedYrHousBuilt PctHousNoPhone PctWOFullPlumb OwnOccLowQuart OwnOccMedVal OwnOccHiQuart RentLowQ
RentMedian RentHighQ MedRent MedRentPctHousInc MedOwnCostPctInc MedOwnCostPctIncNoMtg NumInShelters
NumStreet PctForeignBorn PctBornSameState PctSameHouse85 PctSameCity85 PctSameState85 LemasSwornFT
LemasSwFTPerPop LemasSwFTFieldOps LemasSwFTFieldPerPop LemasTotalReq LemasTotReqPerPop
PolicReqPerOffic PolicPerPop RacialMatchCommPol PctPolicWhite PctPolicBlack PctPolicHisp
PctPolicAsian PctPolicMinor OfficAssgnDrugUnits NumKindsDrugsSeiz PolicAveOTWorked LandArea PopDens
PctUsePubTrans PolicCars PolicOperBudg LemasPctPolicOnPatr LemasGangUnitDeploy LemasPctOfficDrugUn
PolicBudgPerPop ViolentCrimesPerPop
"""
_COLUMNS = _NAMES.split()
_TARGET = "ViolentCrimesPerPop"
_NAMES_AND_CODES = ["state", "county", "community", "communityname", "fold"]
_PAPER_PROTECTED = ["racepctblack", "PctForeignBorn"]
_PROTECTED = [*_PAPER_PROTECTED, "racePctWhite", "racePctAsian", "racePctHisp"]
_PAPER_TRAIN = 960

_DESCR = """\
Communities and Crime

1994 US communities: census of 1990, police survey (LEMAS) of 1990, FBI crime reports of 1995.
Target: `ViolentCrimesPerPop`, violent crimes per head, scaled to 0 to 1. Protected, all shares
scaled to 0 to 1: `racepctblack`, `PctForeignBorn`, `racePctWhite`, `racePctAsian`, `racePctHisp`.

Origin: M. Redmond (2009), Communities and Crime, UCI Machine Learning Repository;
`communities.data` with the names of `communities.names`, where "?" became a missing value. Licence:
none was stated with the copy that was checked; see the terms at UCI.

Protocol "raw": 117 features. Left out, and found in `frame`: the five protected attributes; `state`,
`county`, `community` and `communityname` (codes and a name) and `fold` (a number for
cross-validation), which the source calls not predictive. Missing: 22 columns of the police survey on
1675 rows, `OtherPerCap` on one.

Protocol "paper": X is every column without a missing value, less `communityname`, the target and S:
99 features, `state`, `fold` and the other shares by race among them, z-scored over all rows
(division by n - 1). S is `racepctblack` and `PctForeignBorn`, as they are and not among the
features. Train is the first 960 rows, test the other 1034. The authors' S and y are equal to these;
their X is lost, so it was rebuilt by rule and its column order is that of the file.

Known problems:

- Numbers were scaled to [0, 1] with two decimals and cut off at three standard deviations: 44
  communities have the largest target, so "1" means "1 or more".
- Many features are close to the protected shares: income per head by race, immigration, language,
  the make-up of the police.
- The unit is a community: no statement about persons follows.
- In "paper" train and test rows were standardised together, and codes of states are numbers.
"""


def _from_uci(parts: Sequence[bytes]) -> bytes:
    rows = [_COLUMNS]
    codes = len(_NAMES_AND_CODES)
    for line in parts[0].decode("ascii").splitlines():
        fields = ["" if field == "?" else field for field in line.split(",")]
        numbers = [field and str(float(field)) for field in fields[codes:]]
        rows.append(fields[:codes] + numbers)
    return as_csv(rows)


def _raw(table: Any) -> Parts:
    data = table.drop(columns=[*_NAMES_AND_CODES, *_PROTECTED, _TARGET])
    return Parts(data, table[_TARGET], table[_PROTECTED].copy())


def _paper(table: Any) -> Parts:
    complete = table.dropna(axis="columns")
    features = complete.drop(columns=["communityname", *_PAPER_PROTECTED, _TARGET])
    data = zscored(features, ddof=1, order="C")
    split = np.arange(_PAPER_TRAIN), np.arange(_PAPER_TRAIN, len(table))
    return Parts(data, table[_TARGET], table[_PAPER_PROTECTED].copy(), split)


_FILE = DataFile(
    name="communities_crime.csv.gz",
    sha256="f176a7e899597c27a0e0150a08a143a5b36bab444aa2c4a908c28b264c5fb453",
    text_sha256="b6d3afc5285b8062ca3e861d13650d157f3042bf3c2d1e7a8962bfe008c4ab8b",
    sources=(
        Source(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/communities/communities.data",
            "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea",
        ),
    ),
    convert=_from_uci,
    description=_DESCR,
    protocols={"raw": _raw, "paper": _paper},
)


def fetch_communities_crime(
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
    return_X_y: bool = False,
    protocol: str = "raw",
) -> Any:
    """Load crime rates of communities with shares by race and birth (regression).

    The file `communities_crime.csv.gz` is searched in `data_home`, in the folder named by the
    environment variable `FAIRSPAN_DATA` and in the cache; otherwise it is made from a file
    downloaded from UCI.

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
        With `data` (raw: 1994 x 117, paper: 1994 x 99), `target` (0 to 1), `sensitive_features`
        (raw: `racepctblack`, `PctForeignBorn` and three more shares by race, not in `data`; paper:
        the first two, not in `data`, which has the other three), `frame` (raw: every column of the
        file), `feature_names`, `target_names`, `sensitive_names`, `DESCR` (origin, licence, known
        problems), `filename`, and for "paper" the row numbers `train` and `test`.

    Raises
    ------
    DatasetError
        The file is damaged, or absent and cannot be downloaded. A subclass of `OSError`; the
        message names the file and the folder for it.
    ImportError
        The extra `data` is not installed.
    """
    return fetch(_FILE, protocol, data_home=data_home, as_frame=as_frame, return_X_y=return_X_y)
