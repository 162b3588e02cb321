"""The loaders against the reference files and the authors' matrices, where these are present."""

import hashlib
import inspect
import json
import sys

import numpy as np
import pytest

from fairspan import datasets
from fairspan.datasets import _files
from fairspan.datasets._classification import ADULT, COMPAS
from fairspan.datasets._regression import COMMUNITIES, LAW_SCHOOL, NLSY79
from fairspan.exceptions import DatasetError

LOADERS = {
    "adult": datasets.fetch_adult,
    "compas": datasets.fetch_compas,
    "communities_crime": datasets.fetch_communities_crime,
    "nlsy79": datasets.fetch_nlsy79,
    "law_school": datasets.fetch_law_school,
}
DATA_FILES = (ADULT, COMPAS, COMMUNITIES, NLSY79, LAW_SCHOOL)
FILES = {file.name.removesuffix(".csv.gz"): file for file in DATA_FILES}
# Rows, features and protected attributes, by protocol.
SHAPES = {
    ("adult", "raw"): (48842, 9, ["sex", "race", "age"]),
    ("adult", "paper"): (45222, 13, ["sex"]),
    ("compas", "raw"): (7214, 7, ["sex", "race", "age"]),
    ("compas", "paper"): (5855, 14, ["sex_male"]),
    ("communities_crime", "raw"): (
        *(1994, 117),
        ["racepctblack", "PctForeignBorn", "racePctWhite", "racePctAsian", "racePctHisp"],
    ),
    ("communities_crime", "paper"): (1994, 99, ["racepctblack", "PctForeignBorn"]),
    ("nlsy79", "raw"): (7244, 8, ["gender", "age"]),
    ("nlsy79", "paper"): (7244, 20, ["female", "age"]),
    ("law_school", "raw"): (20798, 7, ["race1", "gender", "age_1991"]),
    ("law_school", "paper"): (20798, 13, ["black", "age"]),
}
SPLITS = {
    "adult": (1628, 12661),
    "compas": (2000, 3855),
    "communities_crime": (960, 1034),
    "nlsy79": (3622, 3622),
    "law_school": (4000, 16798),
}


@pytest.fixture(scope="module")
def load(shared):
    """A loader that reads each data set once; tests must not change what they get."""
    pytest.importorskip("pandas")
    known = {}

    def get(name, protocol="raw"):
        if (name, protocol) not in known:
            known[name, protocol] = LOADERS[name](data_home=shared / "data", protocol=protocol)
        return known[name, protocol]

    return get


@pytest.fixture(scope="module")
def reference(shared):
    pandas = pytest.importorskip("pandas")
    folder = shared / "data" / "reference"
    # By way of strings: older pandas reads 17 digits only nearly right.
    return lambda name: pandas.read_csv(folder / f"{name}.csv.gz", dtype=str).astype(float)


@pytest.fixture(scope="module")
def facts(shared):
    path = shared / "golden" / "real" / "data_facts.json"
    return json.loads(path.read_text(encoding="utf-8"))


def correlation(x, y):
    return np.corrcoef(np.asarray(x, float), np.asarray(y, float))[0, 1]


# ------------------------------------------------------------------ form


@pytest.mark.parametrize(("name", "protocol"), SHAPES)
def test_shapes_and_names(load, name, protocol):
    found = load(name, protocol)
    n_rows, n_features, protected = SHAPES[name, protocol]
    assert found.data.shape == (n_rows, n_features)
    assert found.data.columns.tolist() == found.feature_names
    assert found.sensitive_features.columns.tolist() == found.sensitive_names == protected
    assert [found.target.name] == found.target_names
    assert found.target.shape == (n_rows,)
    for part in (found.data, found.target, found.sensitive_features, found.frame):
        assert part.index.tolist() == list(range(n_rows))
    outside = {*found.target_names, *found.sensitive_names}
    assert outside.isdisjoint(found.feature_names)
    if protocol == "paper":
        columns = [*found.feature_names, *found.sensitive_names, *found.target_names]
        assert found.frame.columns.tolist() == columns
    assert not found.sensitive_features.isna().any(axis=None)
    assert not found.target.isna().any()


@pytest.mark.parametrize("name", LOADERS)
def test_raw_frame_is_the_whole_file(load, shared, name):
    pandas = pytest.importorskip("pandas")
    found = load(name)
    path = shared / "data" / f"{name}.csv.gz"
    whole = pandas.read_csv(path, keep_default_na=False, na_values=[""])
    pandas.testing.assert_frame_equal(found.frame, whole)
    pandas.testing.assert_frame_equal(found.data, whole[found.feature_names])
    assert found.filename == str(path)
    assert "train" not in found


@pytest.mark.parametrize("name", SPLITS)
def test_the_papers_split(load, name):
    found = load(name, "paper")
    assert (len(found.train), len(found.test)) == SPLITS[name]
    assert set(found.train).isdisjoint(found.test)
    rows = np.arange(len(found.data))
    if name in ("nlsy79", "law_school"):  # not the paper's, which is unknown: as documented
        rows = np.random.default_rng(0).permutation(len(rows))
    last = rows[32561:] if name == "adult" else rows[len(found.train) :]
    np.testing.assert_array_equal(found.train, rows[: len(found.train)])
    np.testing.assert_array_equal(found.test, last)


@pytest.mark.parametrize("protocol", ["raw", "paper"])
@pytest.mark.parametrize("name", LOADERS)
def test_arrays_equal_frames(load, shared, name, protocol):
    pandas = pytest.importorskip("pandas")
    frames, home = load(name, protocol), shared / "data"
    arrays = LOADERS[name](data_home=home, protocol=protocol, as_frame=False)
    assert arrays.frame is None
    for part in ("data", "target", "sensitive_features"):
        assert type(arrays[part]) is np.ndarray
        given, wanted = arrays[part], frames[part].to_numpy(dtype=object)
        assert given.shape == wanted.shape
        assert ((given == wanted) | (pandas.isna(given) & pandas.isna(wanted))).all()
    numbers = protocol == "paper" or name in ("communities_crime", "law_school")
    assert arrays.data.dtype == (np.float64 if numbers else object)
    X, y = LOADERS[name](data_home=home, protocol=protocol, return_X_y=True)
    assert X.equals(frames.data)
    assert y.equals(frames.target)


@pytest.mark.parametrize("name", LOADERS)
def test_changing_a_part_leaves_the_frame(load, shared, name):
    found = LOADERS[name](data_home=shared / "data")
    found.target.iloc[:] = found.target.iloc[0]
    found.data.iloc[:, 0] = found.data.iloc[0, 0]
    assert found.frame.equals(load(name).frame)


# ------------------------------------------------------- the paper's own matrices


def test_adult_equals_the_authors_matrix(load, reference):
    found = load("adult", "paper")
    for part, rows in (("train", found.train), ("test", found.test)):
        expected = reference(f"adult_{part}")
        np.testing.assert_array_equal(found.target.iloc[rows], expected.pop("y"))
        X = found.frame.iloc[rows][expected.columns]
        np.testing.assert_allclose(X, expected, rtol=0, atol=2e-15)


def test_compas_equals_the_authors_matrix(load, reference):
    found = load("compas", "paper")
    for part, rows in (("train", found.train), ("test", found.test)):
        expected = reference(f"compas_{part}")
        np.testing.assert_array_equal(found.target.iloc[rows], expected.pop("y"))
        sex = found.sensitive_features.iloc[rows]["sex_male"]
        np.testing.assert_array_equal(sex, expected.pop("sex_male"))
        assert expected.columns.tolist() == found.feature_names
        np.testing.assert_allclose(found.data.iloc[rows], expected, rtol=0, atol=1.5e-12)


def test_nlsy_equals_the_authors_matrix(load, reference):
    found, expected = load("nlsy79", "paper"), reference("nlsy")
    np.testing.assert_array_equal(found.target, expected.pop("y_income"))
    S = expected[["s_gender", "s_age"]]
    np.testing.assert_array_equal(found.sensitive_features, S)
    np.testing.assert_array_equal(found.data, expected.drop(columns=S.columns))


@pytest.mark.parametrize(("name", "file"), [("communities_crime", "cc"), ("law_school", "lsac")])
def test_s_and_y_equal_the_authors_where_their_x_is_lost(load, reference, name, file):
    found, expected = load(name, "paper"), reference(f"{file}_sy")
    np.testing.assert_array_equal(found.sensitive_features, expected.iloc[:, :2])
    np.testing.assert_array_equal(found.target, expected.iloc[:, 2])


def test_communities_x_follows_the_rule(load):
    found, whole = load("communities_crime", "paper"), load("communities_crime").frame
    missing = set(whole.columns[whole.isna().any()])
    assert len(missing) == 25
    left_out = {*missing, "communityname", *found.sensitive_names, *found.target_names}
    assert found.feature_names == [name for name in whole.columns if name not in left_out]
    assert {"state", "fold"} <= set(found.feature_names)
    np.testing.assert_allclose(found.data.mean(), 0, atol=1e-13)
    np.testing.assert_allclose(found.data.std(ddof=1), 1, rtol=1e-12)
    by_hand = (whole["medIncome"] - whole["medIncome"].mean()) / whole["medIncome"].std(ddof=1)
    np.testing.assert_allclose(found.data["medIncome"], by_hand, rtol=0, atol=1e-12)


def test_law_school_x_follows_the_rule(load):
    found, whole = load("law_school", "paper"), load("law_school").frame
    as_they_are = ["DOB_yr", "decile1", "decile1b", "decile3", "fam_inc", "lsat"]
    clusters = [f"cluster_{code}" for code in range(2, 7)]
    assert found.feature_names == [*as_they_are, "male", *clusters, "part_time"]
    np.testing.assert_array_equal(found.data[as_they_are], whole[as_they_are])
    np.testing.assert_array_equal(found.data["male"] == 1, whole["gender"] == "male")
    np.testing.assert_array_equal(found.data["part_time"] == 1, whole["fulltime"] == 2)
    cluster = 1 + found.data[clusters].to_numpy() @ np.arange(1, 6)
    np.testing.assert_array_equal(cluster, whole["cluster"])


# ---------------------------------------------------------------- recorded facts


def test_adult_facts(load, facts):
    found, whole = load("adult", "paper"), load("adult").frame.dropna().reset_index(drop=True)
    names = [column["name"] for column in facts["adult"]["columns"]]
    assert [name for name in names if name != "sex"] == found.feature_names
    for column in facts["adult"]["columns"]:
        raw = whole[column["name"]]
        if column["categories_alphabetical_code"]:
            raw = raw.map(column["categories_alphabetical_code"].index)
        mean, deviation = column["raw_mean"], column["raw_std_population"]
        scaled = (raw.to_numpy(float) - mean) / deviation
        np.testing.assert_allclose(found.frame[column["name"]], scaled, rtol=0, atol=1e-10)
    for part in ("train", "test"):
        _rates_agree(found, found[part], facts["adult"][part], "by_sex", "sex")


def test_compas_facts(load, facts):
    found = load("compas", "paper")
    for part in ("train", "test"):
        recorded = facts["compas"][part]
        _rates_agree(found, found[part], recorded, "by_sex_male", "sex_male")
        groups = "by_race_african_american_standardised"
        _rates_agree(found, found[part], recorded, groups, "african_american")


def _rates_agree(found, rows, recorded, groups, attribute):
    positive = found.target.to_numpy()[rows] == 1
    values = found.frame[attribute].to_numpy()[rows]
    assert len(rows) == recorded["n"]
    assert positive.mean() == pytest.approx(recorded["positive_rate"], abs=1e-15)
    for value, group in recorded[groups].items():
        inside = np.isclose(values, float(value), atol=1e-5)
        assert inside.sum() == group["n"]
        assert positive[inside].mean() == pytest.approx(group["positive_rate"], abs=1e-15)
    if attribute in found.sensitive_names:
        assert correlation(positive, values) == pytest.approx(recorded["corr_y_s"], abs=1e-12)


def test_nlsy_facts(load, facts):
    found, recorded = load("nlsy79", "paper"), facts["nlsy"]
    y, S = found.target, found.sensitive_features
    assert (y.min(), y.max()) == (recorded["y"]["min"], recorded["y"]["max"])
    assert y.mean() == pytest.approx(recorded["y"]["mean"], abs=1e-12)
    assert y.std(ddof=0) == pytest.approx(recorded["y"]["std"], abs=1e-12)
    assert (y == 0).mean() == pytest.approx(recorded["y"]["share_zero"], abs=1e-12)
    assert y.nunique() == recorded["y"]["distinct"]
    assert len(found.data.drop_duplicates()) == recorded["distinct_rows_x"]
    for name, value in zip(S, recorded["corr_y_s"], strict=True):
        assert correlation(y, S[name]) == pytest.approx(value, abs=1e-12)
    for first, slices in recorded["slicing"].items():
        n_rows = int(first.removeprefix("first "))
        for values, counts in ((y, slices["y"]), (S["age"], slices["s_age"])):
            _slices_agree(values[:n_rows], counts)


def _slices_agree(values, recorded):
    sizes = values.value_counts()
    assert len(sizes) == recorded["slices"]
    assert (sizes == 1).sum() == recorded["singleton_slices"]
    assert sizes.max() == recorded["largest_slice"]


@pytest.mark.parametrize(("name", "key"), [("communities_crime",) * 2, ("law_school", "lsac")])
def test_facts_where_the_authors_x_is_lost(load, facts, name, key):
    found, recorded = load(name, "paper"), facts[key]
    y, S = found.target, found.sensitive_features
    assert len(y) == recorded["n"]
    assert y.mean() == pytest.approx(recorded["y_mean"], abs=1e-12)
    for attribute, value in zip(S, recorded["corr_y_s"], strict=True):
        assert correlation(y, S[attribute]) == pytest.approx(value, abs=1e-12)
    if name == "communities_crime":
        sliced = recorded["slicing_first_960"]
        columns = {"y": y, "s1": S["racepctblack"], "s2": S["PctForeignBorn"]}
        for which, values in columns.items():
            _slices_agree(values[:960], sliced[which])
    else:
        assert y.std(ddof=0) == pytest.approx(recorded["y_std"], abs=1e-12)
        assert f"{S['black'].mean():.4f}" in recorded["s1"]


# ------------------------------------------------------------------ what "raw" keeps


def test_raw_features_know_nothing_of_the_outcome(load):
    compas = load("compas")
    assert compas.feature_names == [
        *("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
        *("c_days_from_compas", "c_charge_degree", "c_charge_desc"),
    ]
    assert load("law_school").feature_names == [
        *("lsat", "fam_inc", "tier", "fulltime", "decile1", "decile1b", "decile3")
    ]
    adult = load("adult")
    assert {"fnlwgt", "native_country", "split"} <= set(adult.frame) - set(adult.feature_names)
    codes = {"state", "county", "community", "communityname", "fold"}
    assert codes.isdisjoint(load("communities_crime").feature_names)


def test_every_column_that_raw_leaves_out_is_accounted_for(load):
    for name in LOADERS:
        found = load(name)
        out = set(found.frame) - set(found.feature_names)
        for column in out:
            family = column.split("_")[0] + "_*"
            assert f"`{column}`" in found.DESCR or f"`{family}`" in found.DESCR, (name, column)


def test_law_school_age_is_put_right(load):
    found = load("law_school")
    age = found.sensitive_features["age_1991"]
    np.testing.assert_array_equal(age, 91 - found.frame["DOB_yr"])
    assert age.between(20, 81).all()
    assert (found.frame["age"] < 0).all()


def test_nlsy_industry_none_is_a_category(load):
    found = load("nlsy79")
    assert (found.data["industry"] == "none").sum() == 1031
    jobs = [c for c in load("nlsy79", "paper").feature_names if c.startswith("job_")]
    assert len(jobs) == 13
    assert (load("nlsy79", "paper").data[jobs].sum(axis=1) == 0).sum() == 1031


# ---------------------------------------------------------------- descriptions


def _counts(series):
    return [f'"{value}" {count}' for value, count in series.value_counts().items()]


def _says(found, *texts):
    said = " ".join(found.DESCR.split())
    for text in texts:
        assert text in said, text


def test_adult_description_states_the_numbers_of_the_data(load):
    found = load("adult")
    whole, sensitive = found.frame, found.sensitive_features
    _says(found, *_counts(sensitive["sex"]), *_counts(sensitive["race"]))
    _says(found, '">50K" on 11687 rows', '"<=50K" on 37155')
    assert found.target.value_counts().to_dict() == {"<=50K": 37155, ">50K": 11687}
    for column in ("workclass", "occupation"):
        _says(found, f"`{column}` {whole[column].isna().sum()}")
    _says(found, f"missing on {whole['native_country'].isna().sum()} rows")
    _says(found, f"has {whole['native_country'].nunique()} mostly tiny groups")
    _says(found, f"`capital_gain` is 99999 on {(whole['capital_gain'] == 99999).sum()} rows")
    _says(found, f"`age` 90 on {(whole['age'] == 90).sum()}")
    _says(found, 'of 19716 "Husband" one is a woman, of 2331 "Wife" three are men')
    by_sex = whole.groupby(["relationship", "sex"]).size()
    assert by_sex["Husband"].to_dict() == {"Female": 1, "Male": 19715}
    assert by_sex["Wife"].to_dict() == {"Female": 2328, "Male": 3}
    complete = whole.dropna()
    assert ((complete["split"] == "train").sum(), len(complete)) == (32561 - 2399, 45222)
    assert (whole["split"][:32561] == "train").all()
    assert (whole["split"][32561:] == "test").all()


def test_compas_description_states_the_numbers_of_the_data(load):
    pandas = pytest.importorskip("pandas")
    found = load("compas")
    whole, target, sensitive = found.frame, found.target, found.sensitive_features
    _says(found, *_counts(sensitive["sex"]), *_counts(sensitive["race"]))
    _says(found, f"on {target.sum()} rows")
    assert (whole["is_recid"][target == 1] == 1).all()
    late = whole["screening_date"] > "2014-04-01"
    assert target[late].all()
    _says(found, f"all {late.sum()} rows assessed after 1 April 2014")
    _says(found, f"({target[~late].mean():.2f} instead of {target.mean():.2f})")
    gap = pandas.to_datetime(whole["in_custody"]) - pandas.to_datetime(whole["screening_date"])
    again, others = gap.dt.days > 1, gap.dt.days <= 1
    _says(found, f"({again.sum()} rows)", f"{target[again].mean():.0%}".replace("%", " %"))
    _says(found, f"{target[others].mean():.0%} of the others".replace("%", " %"))
    days = whole["days_b_screening_arrest"]
    for rows in (days > 0, days.isna()):
        _says(found, f"{rows.sum()} ", f"{target[rows].mean():.0%}".replace("%", " %"))
    assert (whole["c_days_from_compas"].dropna() >= 0).all()  # nothing after the assessment
    assert whole["type_of_assessment"].nunique() == whole["v_type_of_assessment"].nunique() == 1


def test_regression_descriptions_state_the_numbers_of_the_data(load):
    crime, nlsy, law = (load(name) for name in ("communities_crime", "nlsy79", "law_school"))
    assert (crime.data.isna().sum() == 1675).sum() == 22
    _says(crime, "22 columns of the police survey on 1675 rows, `OtherPerCap` on one")
    assert crime.data["OtherPerCap"].isna().sum() == 1
    _says(crime, f"{(crime.target == 1).sum()} communities have the largest target")
    _says(nlsy, *_counts(nlsy.sensitive_features["gender"]))
    tenths = [tenth.mean() for tenth in np.array_split(nlsy.data["afqt89"].to_numpy(), 10)]
    _says(
        nlsy, f"{tenths[0]:.1f} in the first tenth of the rows and {tenths[6]:.1f} in the seventh"
    )
    _says(nlsy, f"Income is 0 on {(nlsy.target == 0).mean() * 100:.1f} % of the rows")
    _says(nlsy, f"cut off at 74283 ({(nlsy.target == 74283).sum()} rows)")
    _says(law, *_counts(law.sensitive_features["race1"]))
    _says(law, *_counts(law.sensitive_features["gender"]))
    age = law.sensitive_features["age_1991"]
    _says(law, f"({age.min()} to {age.max()})", f"{(age > 55).sum()} students would be over 55")
    _says(law, f"correlation with `age_1991` is {correlation(law.frame['age'], age):.2f}")
    _says(law, f"from {law.frame['age'].min()} to {law.frame['age'].max()}")
    assert set(law.frame["age"] + law.frame["DOB_yr"]) == {1, 2, 6, 7}
    assert law.frame.groupby("cluster")["tier"].nunique().max() == 1


# ------------------------------------------------------------- sources and sums


@pytest.mark.parametrize("name", FILES)
def test_sums_are_those_of_the_reference_files(shared, name):
    path = shared / "data" / f"{name}.csv.gz"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == FILES[name].sha256
    text = _files.read(FILES[name], path)
    assert hashlib.sha256(text).hexdigest() == FILES[name].text_sha256


def _lines(shared, name):
    text = _files.read(FILES[name], shared / "data" / f"{name}.csv.gz").decode()
    return [line.split(",") for line in text.splitlines()[1:]]


def test_communities_source_is_the_reference_file_in_ucis_words(shared):
    """Written as UCI writes it, the file has the sum of UCI's; and it converts back."""

    def as_there(field):
        return field.removesuffix(".0") or "?"

    rows = [
        ",".join(map(as_there, fields)) + "\r\n" for fields in _lines(shared, "communities_crime")
    ]
    source = "".join(rows).encode()
    file = FILES["communities_crime"]
    assert hashlib.sha256(source).hexdigest() == next(iter(file.sources.values()))
    assert hashlib.sha256(file.convert([source])).hexdigest() == file.text_sha256


def test_adult_sources_are_the_reference_file_in_ucis_words(shared):
    parts = {"train": [], "test": ["|1x3 Cross validator"]}
    for *fields, split in _lines(shared, "adult"):
        line = ", ".join(field or "?" for field in fields)
        parts[split].append(line + "." if split == "test" else line)
    sources = [("\n".join(part) + "\n\n").encode() for part in parts.values()]
    file = FILES["adult"]
    sums = [hashlib.sha256(source).hexdigest() for source in sources]
    assert sums == list(file.sources.values())
    assert hashlib.sha256(file.convert(sources)).hexdigest() == file.text_sha256


def test_compas_conversion_drops_identifiers_and_second_columns():
    source = (
        b"id,name,first,last,dob,race,decile_score,c_case_number,priors_count,r_case_number,"
        b"violent_recid,vr_case_number,decile_score,priors_count,two_year_recid\n"
        b'1,a b,a,b,1990-01-01,"x, y",3,c1,0,r1,,v1,3,0,1\n'
    )
    expected = b'id,race,decile_score,priors_count,two_year_recid\n1,"x, y",3,0,1\n'
    assert FILES["compas"].convert([source]) == expected


@pytest.mark.parametrize("name", FILES)
def test_public_sources_are_pinned_or_their_absence_explained(name):
    file = FILES[name]
    assert bool(file.sources) == (file.convert is not None) == (not file.why_no_source)
    for url, checksum in file.sources.items():
        assert url.startswith("https://")
        assert len(bytes.fromhex(checksum)) == 32


# ---------------------------------------------------------------------- misuse


@pytest.mark.parametrize("load", LOADERS.values())
def test_unknown_protocol(load):
    with pytest.raises(ValueError, match=r"`protocol` must be one of \['raw', 'paper'\], got 'x'"):
        load(protocol="x")


@pytest.mark.parametrize("load", LOADERS.values())
def test_signatures(load):
    parameters = inspect.signature(load).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "data_home": None,
        "as_frame": True,
        "return_X_y": False,
        "protocol": "raw",
    }
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("load", LOADERS.values())
def test_missing_pandas_names_the_extra(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=rf'`{load.__name__}` needs `pandas`.*"fairspan\[data\]"'):
        load()


@pytest.mark.parametrize("name", LOADERS)
def test_a_file_that_is_not_the_known_one_is_refused(name, tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / f"{name}.csv.gz"
    path.write_bytes(b"not a data file")
    with pytest.raises(DatasetError) as caught:
        LOADERS[name](data_home=tmp_path)
    found = hashlib.sha256(b"not a data file").hexdigest()
    for part in (str(path), found, FILES[name].sha256):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["nlsy79", "law_school"])
def test_without_public_source_the_error_says_what_to_put_where(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("FAIRSPAN_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    with pytest.raises(DatasetError, match="no public file is known") as caught:
        LOADERS[name]()
    place = tmp_path / "fairspan" / f"{name}.csv.gz"
    for part in (str(place), FILES[name].sha256, "FAIRSPAN_DATA", "data_home"):
        assert part in str(caught.value)
    assert not place.parent.exists()
