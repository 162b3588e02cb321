"""Signs of numbers: which differences are refused, and which give a warning."""

import warnings
from types import SimpleNamespace

import pytest

from fairspan.exceptions import DataWarning
from fairspan.inputs.units import UNITS, check_units, same_unit, units_of


@pytest.mark.parametrize("pair", [("%", ""), ("", "%"), ("%", "€"), ("$", "€"), ("USD", "EUR")])
def test_other_amounts_are_refused(pair):
    old, new = ({"x": unit} if unit else {} for unit in pair)
    with pytest.raises(ValueError, match="Column 'x' had"):
        check_units(old, new, ["x", "y"])


@pytest.mark.parametrize("pair", [("€", ""), ("", "USD")])
def test_a_currency_beside_none_is_a_warning(pair):
    old, new = ({"x": unit} if unit else {} for unit in pair)
    with pytest.warns(DataWarning, match="--unit '?x"):
        check_units(old, new, ["x"])


def test_equal_signs_and_other_columns_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_units({"x": "EUR", "z": "%"}, {"x": "€", "y": "$"}, ["x"])
    assert same_unit("kr", "kr.")
    assert not same_unit("$", "€")


def test_only_texts_are_signs():
    table = SimpleNamespace(attrs={UNITS: {"a": "%", "b": 3, 4: "€"}})
    assert units_of(table) == {"a": "%"}
    assert units_of([1.0]) is None
    assert units_of(SimpleNamespace(attrs={UNITS: "%"})) is None
