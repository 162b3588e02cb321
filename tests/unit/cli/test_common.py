"""JSON is valid and harmless to a terminal."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from fairspan.cli import common as output


def test_json_has_null_for_what_is_not_known_and_steers_no_terminal(capsys):
    given = {"a": [float("nan"), 1.5, float("inf")], "b\x1b[31m": {"c": "\u202e"}}
    output.write_json(output.STDOUT, given)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(text) == {"a": [None, 1.5, None], "b\x1b[31m": {"c": "\u202e"}}
