"""Agreements: what they say is what the pilot has, and what they cannot say is refused."""

import json

import numpy as np
import pytest

from fairspan.estimators import load_pilot
from fairspan.estimators.agreed import prepare_agreed
from fairspan.federated.agreement import AgreedColumns

pd = pytest.importorskip("pandas")

GOOD = {
    "features": {"income": [0, 100], "home": ["own", "rent", "free"]},
    "target": {"repaid": ["no", "yes"]},
    "protected": {"sex": ["f", "m"], "age": {"edges": [30, 45, 60.5]}},
    "landmarks": 50,
}


def test_the_pilot_has_what_was_agreed_on(tmp_path):
    est = prepare_agreed(GOOD)
    sex, age = est.pilot_.coders
    assert sex.labels == ("f", "m")
    assert (age.kind, age.table.tolist()) == ("continuous", [30.0, 45.0, 60.5])
    assert est.classes_.tolist() == ["no", "yes"]
    assert len(est.pilot_.features.landmarks) == 50
    again = load_pilot(est.export_pilot(tmp_path / "pilot.npz", public=True))
    assert again.encoder_ == est.encoder_
    assert again.pilot_.coders[1].table.tolist() == [30.0, 45.0, 60.5]
    assert list(again.feature_names_in_) == ["income", "home"]


def test_numbers_have_slices_of_equal_width():
    target = {"risk": {"range": [0, 50]}}
    est = prepare_agreed({**GOOD, "target": target, "model": "gp"})
    assert est.pilot_.target_is_numeric
    assert est.pilot_.target.table.tolist() == pytest.approx(np.linspace(5, 45, 9))


def test_two_numbers_of_a_target_are_classes():
    est = prepare_agreed({**GOOD, "target": {"repaid": [0, 1]}})
    assert est.classes_.tolist() == [0, 1]


def test_the_agreed_encoding():
    columns = prepare_agreed(GOOD).encoder_
    frame = pd.DataFrame({"home": ["rent", "own"], "income": [25, 110]})
    encoded = columns.transform(frame)
    np.testing.assert_allclose(encoded, [[-0.5, 0, 1, 0], [1.2, 1, 0, 0]])
    names = ["income", "home_own", "home_rent", "home_free"]
    assert columns.get_feature_names_out().tolist() == names
    assert AgreedColumns.checked(json.loads(json.dumps(columns.to_dict()))) == columns
    for change, match in (
        ({"home": ["rent", "tent"]}, "'tent', which was not agreed on"),
        ({"home": [1, 2]}, "which was not agreed on"),
        ({"home": ["rent", None]}, "missing values"),
        ({"income": [1.0, np.nan]}, "missing values"),
        ({"income": ["1", "2"]}, "should hold numbers"),
    ):
        with pytest.raises(ValueError, match=match):
            columns.transform(frame.assign(**change))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"features": {"income": [3, 3]}}, "give a range"),
        ({"features": {"income": [0, float("nan")]}}, "give a range"),
        ({"features": {"home": ["own"]}}, "list of different categories"),
        ({"features": {"home": ["own", "own"]}}, "list of different categories"),
        ({"features": {"home": ["own", 1]}}, "list of different categories"),
        ({"features": {}}, "it needs 'features'"),
        ({"target": {"a": ["x", "y"], "b": ["x", "y"]}}, "one column"),
        ({"target": {"income": ["x", "y"]}}, "another role"),
        ({"protected": {"age": {"edges": [3, 2]}}}, "increasing order"),
        ({"protected": {"age": {"edges": []}}}, "increasing order"),
        ({"protected": {"age": {"range": [2, 2]}}}, "range"),
        ({"landmarks": 10**9}, "landmarks"),
        ({"model": "boosting"}, "known are"),
        ({"model": "ridge"}, "does not predict classes"),
        ({"parameters": {"colour": 3}}, "parameters do not fit"),
        ({"parameters": {"criterion": "justice"}}, "is unknown"),
        ({"colour": 3}, "allowed are"),
    ],
)
def test_what_cannot_be_agreed_on(change, match):
    with pytest.raises(ValueError, match=match):
        prepare_agreed({**GOOD, **change})
