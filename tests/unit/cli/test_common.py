"""Warnings are collected once, and JSON is valid and harmless to a terminal."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from fairspan.cli import common as output
from fairspan.exceptions import DataWarning, NumericalError, warn_user


def test_warnings_are_told_once_and_numerical_errors_are_errors_of_the_data():
    with output.collect_warnings() as texts:
        for text in ("one", "two", "one"):
            warn_user(text, DataWarning)
    assert texts == ["one", "two"]
    with pytest.raises(ValueError, match=r"^no digits left$"), output.collect_warnings():
        raise NumericalError("no digits left")


def test_sentences_about_parameters_without_an_option_are_left_out():
    with output.collect_warnings() as texts:
        warn_user("Few rows. Pass removal='training_rows' to silence this. Or `eta`.", DataWarning)
        warn_user("Few groups. Pass sensitive_kind={'a': 'categorical'}.", DataWarning)
        warn_user("Pass a larger `eta`.", DataWarning)
    kept = ["Few rows.", "Few groups. Pass --kind a=categorical.", "Pass a larger `eta`."]
    assert texts == kept


def test_json_has_null_for_what_is_not_known_and_steers_no_terminal(capsys):
    given = {"a": [float("nan"), 1.5, float("inf")], "b\x1b[31m": {"c": "\u202e"}}
    output.write_json(output.STDOUT, given)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(text) == {"a": [None, 1.5, None], "b\x1b[31m": {"c": "\u202e"}}
