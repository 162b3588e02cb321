"""The list of faults fits the present source: each place is there once, each test exists."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tools.mutant_list import MUTANTS, SOURCE, Mutant
from tools.mutants import main, mutated, read_outcome

ROOT = Path(__file__).resolve().parents[2]
LEAST = 48


@cache
def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def functions_of(path):
    return {node.name for node in ast.parse(read(path)).body if isinstance(node, ast.FunctionDef)}


def test_there_are_enough_and_none_twice():
    assert len(MUTANTS) >= LEAST
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1
    faults = Counter((mutant.file, mutant.old, mutant.new) for mutant in MUTANTS)
    assert max(faults.values()) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_has_one_place_and_is_still_python(mutant):
    source = read(f"{SOURCE}/{mutant.file}")
    assert source.count(mutant.old) == 1
    broken = mutated(source, mutant)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))


def test_the_tests_that_are_to_notice_exist():
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert name in functions_of(path), (mutant.name, test)


@pytest.mark.parametrize("source", ["nothing of the kind", "x = 1\nx = 1\n"])
def test_a_fault_without_its_place_is_refused(source):
    with pytest.raises(ValueError, match="not 1"):
        mutated(source, Mutant("name", "file.py", "x = 1", "x = 2", ()))


@pytest.mark.parametrize(
    ("status", "said", "verdict"),
    [
        (0, "1 passed", "survived"),
        (1, "FAILED tests/a.py::test_b[1] - AssertionError", "killed"),
        (1, "ERROR tests/a.py::test_b - no fixture", "error"),
        (2, "ERROR tests/a.py - ImportError", "error"),
        (4, "ERROR: not found: tests/a.py::test_b", "error"),
        (5, "no tests ran", "error"),
        (70, "1 passed", "error"),
        (-9, "", "error"),
    ],
)
def test_only_a_failing_test_kills(status, said, verdict):
    assert read_outcome(status, said)[0] == verdict


def test_the_parts_are_all_mutants_each_once(capsys):
    listed = []
    for part in ("1/3", "2/3", "3/3"):
        assert main(["--list", "--part", part]) == 0
        listed += capsys.readouterr().out.splitlines()
    assert sorted(listed) == sorted(f"{mutant.file}: {mutant.name}" for mutant in MUTANTS)


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "1/0", "a/b"])
def test_a_part_is_checked(part, capsys):
    with pytest.raises(SystemExit):
        main(["--list", "--part", part])
    assert "give K/N" in capsys.readouterr().err
