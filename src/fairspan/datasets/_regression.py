"""Data sets with a number as target: Communities and Crime, law school grades, NLSY79 incomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.datasets._files import DataFile, Parts, as_csv, make_loader, seeded_split, zscored

# ------------------------------------------------------------------ Communities and Crime

# As in `communities.names`; the data file has no header.
_COMMUNITIES_NAMES = """
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
_COMMUNITIES_COLUMNS = _COMMUNITIES_NAMES.split()
_COMMUNITIES_TARGET = "ViolentCrimesPerPop"
_COMMUNITIES_NAMES_AND_CODES = ["state", "county", "community", "communityname", "fold"]
_COMMUNITIES_PAPER_PROTECTED = ["racepctblack", "PctForeignBorn"]
_COMMUNITIES_PROTECTED = [
    *_COMMUNITIES_PAPER_PROTECTED,
    "racePctWhite",
    "racePctAsian",
    "racePctHisp",
]
_COMMUNITIES_PAPER_TRAIN = 960
_COMMUNITIES_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/communities"


def _communities_from_uci(parts: Sequence[bytes]) -> bytes:
    rows = [_COMMUNITIES_COLUMNS]
    codes = len(_COMMUNITIES_NAMES_AND_CODES)
    for line in parts[0].decode("ascii").splitlines():
        fields = ["" if field == "?" else field for field in line.split(",")]
        numbers = [field and str(float(field)) for field in fields[codes:]]
        rows.append(fields[:codes] + numbers)
    return as_csv(rows)


def _communities_raw(table: Any) -> Parts:
    data = table.drop(
        columns=[*_COMMUNITIES_NAMES_AND_CODES, *_COMMUNITIES_PROTECTED, _COMMUNITIES_TARGET]
    )
    return Parts(data, table[_COMMUNITIES_TARGET], table[_COMMUNITIES_PROTECTED].copy())


def _communities_paper(table: Any) -> Parts:
    complete = table.dropna(axis="columns")
    features = complete.drop(
        columns=["communityname", *_COMMUNITIES_PAPER_PROTECTED, _COMMUNITIES_TARGET]
    )
    data = zscored(features, ddof=1, order="C")
    split = np.arange(_COMMUNITIES_PAPER_TRAIN), np.arange(_COMMUNITIES_PAPER_TRAIN, len(table))
    return Parts(
        data, table[_COMMUNITIES_TARGET], table[_COMMUNITIES_PAPER_PROTECTED].copy(), split
    )


COMMUNITIES = DataFile(
    name="communities_crime.csv.gz",
    sha256="f176a7e899597c27a0e0150a08a143a5b36bab444aa2c4a908c28b264c5fb453",
    text_sha256="b6d3afc5285b8062ca3e861d13650d157f3042bf3c2d1e7a8962bfe008c4ab8b",
    sources={
        f"{_COMMUNITIES_HOME}/communities.data": (
            "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea"
        )
    },
    convert=_communities_from_uci,
    protocols={"raw": _communities_raw, "paper": _communities_paper},
    summary="Load crime rates of communities with shares by race and birth (regression).",
    made_from="from a file downloaded from UCI",
    protocols_doc='"raw": columns as they were recorded, nothing imputed or scaled, protected attributes '
    'only in `sensitive_features`. "paper": the matrix and the split of the paper.',
    contents_doc="`data` (raw: 1994 x 117, paper: 1994 x 99), `target` (0 to 1), `sensitive_features` "
    "(raw: `racepctblack`, `PctForeignBorn` and three more shares by race, not in `data`; "
    "paper: the first two, not in `data`, which has the other three)",
)
fetch_communities_crime = make_loader(COMMUNITIES)

# ------------------------------------------------------------------ law school

# `cluster` is `tier` under arbitrary codes.
_LAW_FEATURES = ["lsat", "fam_inc", "tier", "fulltime", "decile1", "decile1b", "decile3"]
_LAW_PAPER_FEATURES = [
    *("DOB_yr", "decile1", "decile1b", "decile3", "fam_inc", "lsat", "male"),
    *("cluster_2", "cluster_3", "cluster_4", "cluster_5", "cluster_6", "part_time"),
]
_LAW_PAPER_TRAIN = 4000
_LAW_ENTRY_YEAR = 91


def _law_raw(table: Any) -> Parts:
    sensitive = table[["race1", "gender"]].copy()
    sensitive["age_1991"] = _LAW_ENTRY_YEAR - table["DOB_yr"]
    return Parts(table[_LAW_FEATURES].copy(), table["ugpa"], sensitive)


def _law_paper(table: Any) -> Parts:
    table["male"] = table["gender"] == "male"
    for code in range(2, 7):
        table[f"cluster_{code}"] = table["cluster"] == code
    table["part_time"] = table["fulltime"] == 2
    table["black"] = table["race1"] == "black"
    data, sensitive = table[_LAW_PAPER_FEATURES], table[["black", "age"]]
    split = seeded_split(len(table), _LAW_PAPER_TRAIN)
    return Parts(data.astype(float), table["ugpa"], sensitive.astype(float), split)


LAW_SCHOOL = DataFile(
    name="law_school.csv.gz",
    sha256="a3efeafdadd8f03bb0c7650c0af976ea877c66113460213d67d5ed41c0f32f30",
    text_sha256="5dd5e41c8f5e43ec4f12de3aeca4f8f1c2fbb734b3717b366d3a44fa64eca416",
    why_no_source="it was joined from three copies, and no public file is known to reproduce it",
    protocols={"raw": _law_raw, "paper": _law_paper},
    summary="Load grades of law students with race, gender and age (regression).",
    protocols_doc='"raw": what every comparison uses, the age put right, protected attributes only in '
    '`sensitive_features`. "paper": the matrix of the paper, rebuilt by rule, and a split '
    "of ours (the paper's is unknown).",
    contents_doc="`data` (raw: 20798 x 7, paper: 20798 x 13), `target` (1.5 to 4), `sensitive_features` "
    "(raw: `race1`, `gender`, `age_1991`, not in `data`; paper: `black` and the source's "
    "wrong `age`, not in `data`, which has gender and the year of birth)",
)
fetch_law_school = make_loader(LAW_SCHOOL)

# ------------------------------------------------------------------ NLSY79

_NLSY_PROTECTED = ["gender", "age"]
# The column order of the paper's file; `job_k` is 1 where the industry is k.
_NLSY_PAPER_FEATURES = [
    *("job_agri", "illegalact", "job_pro", "genhealth", "job_retail", "job_mining"),
    *("job_wholesale", "charged", "job_personal", "job_enter", "job_manuf", "job_busi", "grade90"),
    *("jobsnum90", "job_fin", "afqt89", "job_construction", "job_transp", "jobtrain90", "job_pub"),
]
_NLSY_PAPER_TRAIN = 3622


def _nlsy_raw(table: Any) -> Parts:
    data = table.drop(columns=[*_NLSY_PROTECTED, "income"])
    return Parts(data, table["income"], table[_NLSY_PROTECTED].copy())


def _nlsy_paper(table: Any) -> Parts:
    for column in _NLSY_PAPER_FEATURES:
        if column.startswith("job_"):
            table[column] = table["industry"] == column.removeprefix("job_")
    table["female"] = table["gender"] == "Female"
    data, sensitive = table[_NLSY_PAPER_FEATURES], table[["female", "age"]]
    split = seeded_split(len(table), _NLSY_PAPER_TRAIN)
    return Parts(data.astype(float), table["income"] / 10_000, sensitive.astype(float), split)


NLSY79 = DataFile(
    name="nlsy79.csv.gz",
    sha256="a89f25b63c4ded9267f8acc6871ac305c5834f6978bac177b51d7d2db474a63e",
    text_sha256="586892b88f5896710ccf8f6b13d11c4c5668f3366977440d1b830b4053e5d023",
    why_no_source="no public file is known, with a checksum, to reproduce this extract of the survey",
    protocols={"raw": _nlsy_raw, "paper": _nlsy_paper},
    summary="Load incomes of a cohort with gender and age (regression).",
    protocols_doc='"raw": columns as they were recorded, protected attributes only in '
    '`sensitive_features`. "paper": the matrix of the paper, and a split of ours (the '
    "paper's is unknown).",
    contents_doc="`data` (raw: 7244 x 8, paper: 7244 x 20), `target` (raw: USD, paper: USD / 10000), "
    "`sensitive_features` (raw: `gender`, `age`; paper: `female`, `age`; never in `data`)",
)
fetch_nlsy79 = make_loader(NLSY79)
