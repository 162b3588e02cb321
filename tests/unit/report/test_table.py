"""Rows and columns of a report: which are used, held out, described, and given away."""

import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd
from tests.support import report_data

from fairspan.encoding import table_encoder
from fairspan.exceptions import DataWarning
from fairspan.report import complete_rows, held_out_rows
from fairspan.report import table as _table
from fairspan.report.dial_points import encoded_columns
from fairspan.report.table import describe_columns, find_roles, give_aways


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(20, 80, n),
            "income": rng.normal(size=n),
            "job": rng.choice(["cook", "nurse"], n),
            "y": rng.choice(["no", "yes"], n),
        }
    )


def roles_of(frame, **changed):
    given = {
        "target": "y",
        "sensitive_features": ["sex", "age"],
        "control_features": None,
        "features": None,
        "sample_weight": None,
    }
    return find_roles(frame, **(given | changed))


# ------------------------------------------------------------------ rows


def test_rows_without_a_role_go_and_columns_are_again_what_they_were():
    frame = people()
    frame["flag"] = frame["income"] > 0
    expected = frame.drop(index=[3, 7, 9])
    frame["flag"] = frame["flag"].astype(object)
    frame.loc[3, "age"], frame.loc[7, "flag"], frame.loc[9, "y"] = np.nan, None, None
    found = complete_rows(frame, ["y", "age", "flag"])
    pd.testing.assert_frame_equal(found, expected)
    assert found["age"].dtype.kind == "i"
    assert found["flag"].dtype.kind == "b"


def test_a_complete_frame_is_left_as_it_is():
    frame = people()
    assert complete_rows(frame, ["y", "sex", "y"]) is frame


def test_held_out_rows_are_a_share_of_every_group():
    frame = people(1000)
    out = held_out_rows(frame, ["y", "sex"], share=0.3, seed=1)
    for _, group in frame.groupby(["y", "sex"]):
        assert abs(out[group.index].mean() - 0.3) < 2.0 / len(group)
    np.testing.assert_array_equal(out, held_out_rows(frame, ["y", "sex"], share=0.3, seed=1))
    assert (out != held_out_rows(frame, ["y", "sex"], share=0.3, seed=2)).any()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1e-9])
def test_a_share_that_leaves_nothing_is_refused_in_the_words_of_the_caller(share):
    with pytest.raises(ValueError, match=r"--share "):
        held_out_rows(people(), ["y"], share=share, says="--share ")


# ------------------------------------------------------------------ roles


def test_all_other_columns_are_features_but_those_that_cannot_be():
    frame = people()
    frame["born"] = pd.Timestamp("2000-01-01")
    frame["list"] = [[1]] * len(frame)
    roles, refused = roles_of(frame)
    assert roles.features == ("income", "job", "born")
    assert list(refused) == ["list"]
    assert roles.needed == ["y", "sex", "age"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"target": "z"}, "target names the column 'z', which is not there"),
        ({"sensitive_features": []}, "sensitive_features names no column"),
        ({"sensitive_features": ["y"]}, "cannot be both target and sensitive_features"),
        ({"sample_weight": "sex"}, "cannot be both sensitive_features and sample_weight"),
        ({"features": ["income", "y"]}, "'y', which is the target"),
        ({"features": ["sex"]}, "'sex', which is the protected attribute"),
        ({"features": ["nothing"]}, "features names the column 'nothing'"),
        ({"control_features": "y"}, "cannot be both target and control_features"),
    ],
)
def test_what_cannot_be_is_one_clear_error(changed, says):
    with pytest.raises(ValueError, match=says):
        roles_of(people(), **changed)


def test_an_attribute_may_be_a_stratum_too():
    roles, _ = roles_of(people(), control_features=["sex"])
    assert (roles.sensitive, roles.control) == (("sex", "age"), ("sex",))
    assert roles.features == ("income", "job")


def test_nothing_left_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="No column is left"):
        roles_of(people()[["y", "sex", "age"]])


def test_columns_are_described_as_they_are_used():
    frame = people().assign(
        const=1, flag=lambda t: t["income"] > 0, id=[f"id{i}" for i in range(200)]
    )
    frame["born"], frame["stay"] = pd.Timestamp("2000-01-01"), pd.Timedelta(1, "D")
    frame.loc[:4, "income"], frame.loc[:1, "job"] = np.nan, None
    roles, refused = roles_of(frame, control_features="job")
    found = {one["name"]: one for one in describe_columns(frame, roles, {"age": True}, refused)}
    kinds = {name: (one["role"], one["kind"], one["missing"]) for name, one in found.items()}
    assert kinds == {
        "sex": ("protected", "yes/no", 0),
        "age": ("protected", "number", 0),
        "income": ("feature", "number", 5),
        "job": ("control", "yes/no", 2),
        "y": ("target", "yes/no", 0),
        "const": ("feature", "constant", 0),
        "flag": ("feature", "yes/no", 0),
        "id": ("left out", "text", 0),
        "born": ("feature", "date", 0),
        "stay": ("left out", "date", 0),
    }
    assert "median" in found["income"]["note"]
    assert found["born"]["note"] == "days since 1970, standardised"
    assert "left out" in found["stay"]["note"]
    assert found["id"]["note"] == "left out: identifiers"


def test_notes_on_yes_no_columns_are_those_of_the_encoder():
    rng = np.random.default_rng(0)
    gap = np.arange(200) % 7 == 0
    frame = people().assign(
        text=rng.choice(["p", "q"], 200),
        number=rng.choice([0, 1], 200),
        flag=rng.random(200) < 0.5,
        same=1.0,
        word="w",
    )
    for name in ("text", "number", "flag", "same", "word"):
        frame[f"{name}_gap"] = frame[name].astype(object if name != "number" else float)
        frame.loc[gap, f"{name}_gap"] = None
    frame["same_gap"] = frame["same_gap"].astype(float)
    roles, refused = roles_of(frame)
    found = {c["name"]: c["note"] for c in describe_columns(frame, roles, {}, refused)}
    assert found["number"] == found["flag"] == "standardised"
    assert found["text"] == "one column per category, rare ones merged"
    assert "median" in found["number_gap"]
    for name in ("text_gap", "flag_gap"):  # a flag with gaps is an object: a category
        assert found[name].endswith("; missing is a category")
    assert "only its missing values" in found["same_gap"]
    assert found["same"] == found["word"] == "constant: it carries no information"
    encoder = table_encoder(frame[list(roles.features)])
    numbers = {n for branch, _, names in encoder.transformers if branch == "numbers" for n in names}
    assert {n for n, note in found.items() if note.startswith("standardised")} == numbers - {
        "same",
        "same_gap",
    }


@pytest.mark.parametrize("start", [2**60, 10**17])
def test_numbers_too_far_from_zero_for_their_spread_are_warned_of(start):
    frame = pd.DataFrame({"id": start + np.arange(600), "x": np.arange(600.0)})
    with pytest.warns(DataWarning, match="'id' differ by less than the precision of float64"):
        table_encoder(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = table_encoder(frame.assign(id=frame["id"] - start))
    coded = encoder.fit_transform(frame.assign(id=frame["id"] - start))
    np.testing.assert_allclose(coded.std(axis=0), 1.0)


# ------------------------------------------------------------------ give-aways


@pytest.mark.parametrize(
    ("column", "other"),
    [
        (lambda t: t["y"].map({"no": 7, "yes": 3}), "y"),
        (lambda t: t["y"] == "yes", "y"),
        (lambda t: t["y"] + t["income"].gt(0).map(str), "y"),  # finer than the target
        (lambda t: t["sex"].str.upper(), "sex"),
        (lambda t: 2026 - t["age"], "age"),
        (lambda t: 12.0 * t["age"] + 1.0, "age"),
        (lambda t: t["y"].where(t.index > 20), "y"),  # with gaps
    ],
)
def test_a_copy_under_another_name_or_coding_is_found(column, other):
    frame = people().assign(copy=column)
    found = list(give_aways(frame, roles_of(frame)[0]))
    assert len(found) == 1
    assert "'copy'" in found[0]
    assert repr(other) in found[0]


def test_part_of_an_attribute_is_found():
    frame = people().assign(race=np.random.default_rng(1).choice(["a", "b", "c"], 200))
    frame["is_a"] = frame["race"] == "a"
    (text,) = give_aways(frame, roles_of(frame, sensitive_features=["race"])[0])
    assert "'is_a' gives away the protected attribute 'race'" in text


def test_a_copy_that_differs_late_is_no_copy():
    frame = people(3000)
    frame["copy"] = frame["y"]
    frame.loc[2999, "copy"] = "yes" if frame.loc[2999, "y"] == "no" else "no"
    assert not list(give_aways(frame, roles_of(frame)[0]))


def test_columns_of_a_value_a_row_agree_by_chance_only():
    frame = people().assign(id=np.random.default_rng(0).permutation(200), z=np.arange(200.0))
    assert not list(give_aways(frame, roles_of(frame)[0]))
    assert not list(give_aways(frame, roles_of(frame, target="z")[0]))
    frame["w"] = -3.0 * frame["z"]
    assert len(list(give_aways(frame, roles_of(frame, target="z")[0]))) == 1


# ------------------------------------------------------------------ the encoder's columns


def test_a_shuffled_column_is_encoded_as_its_encoding_shuffled():
    rng = np.random.default_rng(0)
    frame = people(300)[["income", "job", "age"]].assign(
        gaps=np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300)),
        rare=rng.choice(["a", "b", "c", *"defghijk"], 300, p=[0.3, 0.3, 0.32, *[0.01] * 8]),
        none=np.nan,
        same="x",
    )
    frame["job=cook"] = rng.integers(0, 2, 300)  # names like those the encoder makes
    frame.loc[::7, "job"] = None
    encoder = table_encoder(frame).fit(frame)
    X, columns = encoder.transform(frame), encoded_columns(encoder)
    assert sorted(j for js in columns.values() for j in js) == list(range(X.shape[1]))
    order = rng.permutation(300)
    for name, places in columns.items():
        shuffled = frame.assign(**{name: frame[name].to_numpy()[order]})
        expected = X.copy()
        expected[:, places] = X[order][:, places]
        np.testing.assert_array_equal(encoder.transform(shuffled), expected)


def test_values_that_do_not_compare_are_described_as_text():
    table = report_data.people(20).assign(tags=[[1], [2]] * 10)
    found = _table.describe_columns(table, report_data.roles_of(), {}, {"tags": _table.NOT_ENCODED})
    tags = next(one for one in found if one["name"] == "tags")
    assert tags["kind"] == "text"
    assert tags["role"] != "feature"


def test_columns_that_are_mostly_unknown_together_give_nothing_away():
    """Half of the rows at least must speak for it."""
    table = report_data.people()
    copy = table["repaid"].map({"no": "a", "yes": "b"}).astype(object)
    roles = report_data.roles_of(features=("copy",))
    whole = list(_table.give_aways(table.assign(copy=copy), roles))
    assert len(whole) == 1
    assert "'copy' gives away the target 'repaid'" in whole[0]
    assert list(_table.give_aways(table.assign(copy=copy.where(table.index < 60)), roles)) == []


def test_a_text_for_nearly_every_row_agrees_by_chance_only():
    """Each of its values goes with one value of the target, and that says nothing."""
    table = report_data.people(60).assign(name=[f"n{i // 2 * 2}" for i in range(60)])
    table["repaid"] = np.repeat(np.random.default_rng(1).choice(["no", "yes"], 30), 2)
    assert list(_table.give_aways(table, report_data.roles_of(features=("name",)))) == []


def test_columns_of_probabilities_are_one_attribute():
    frame = report_data.people(40)
    p = np.linspace(0, 1, 40)
    frame["race_a"], frame["race_b"] = p, 1 - p
    roles = report_data.roles_of(
        sensitive=("race_a", "sex", "race_b"), probable={"race": ("race_a", "race_b")}
    )
    assert roles.attributes == ("race", "sex")
    described = describe_columns(frame, roles, {}, {})
    found = {c["name"]: (c["kind"], c["note"]) for c in described}
    assert found["race_a"] == ("probability", "the probability of a group of race")
    assert found["sex"][0] == "yes/no"
    assert report_data.roles_of().attributes == ("sex", "age")
