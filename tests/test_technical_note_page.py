"""The technical note: the numbers on its page are those of a fresh run, and what it names exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from tools.table import at_least, at_most
from tools.technical_note import __main__ as note
from tools.technical_note._page import PAGE, block, claim_rows, put

ROOT = Path(__file__).parents[1]
AGAIN = "stale: run `python -m tools.technical_note --write NAME` and read what changed"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def same(a, b):
    """Equal up to the last digit that is printed, and a half."""
    if a == b:
        return True
    digits = len(b.split("e")[0].partition(".")[2])
    scale = 10.0 ** (int(b.split("e")[1]) if "e" in b else 0)
    x, y = float(a.replace(",", "")), float(b.replace(",", ""))
    return "." in b and abs(x - y) <= 1.5 * scale * 10.0**-digits


def differences(found, printed):
    """Lines that are not the same but for the last digit."""
    pairs = zip(found.splitlines(), printed.splitlines(), strict=True)
    return [
        (a, b)
        for a, b in pairs
        if NUMBER.sub("#", a) != NUMBER.sub("#", b)
        or not all(map(same, NUMBER.findall(a), NUMBER.findall(b)))
    ]


def assert_on_the_page(name):
    found = note.text(name)
    assert "| MISS |" not in found
    assert differences(found, block(name, PAGE.read_text("utf-8"))) == [], AGAIN


@pytest.mark.parametrize("name", [n for n in note.CHEAP if n not in ("optimum", "bound")])
def test_cheap_numbers_are_those_of_the_page(name):
    assert_on_the_page(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optimum", "bound"])
def test_dearer_numbers_are_those_of_the_page(name):
    assert_on_the_page(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", note.REAL)
def test_numbers_of_real_data_are_those_of_the_page(name, shared):
    assert_on_the_page(name)


def test_a_stale_number_is_seen():
    page = block("leak", PAGE.read_text("utf-8"))
    assert differences(page, page) == []
    assert differences(page, page.replace("0.3069", "0.3169")) != []
    assert differences(page, page.replace("| pass |", "| MISS |", 1)) != []
    assert differences("| 7 |", "| 8 |") != []


def test_a_missed_claim_is_printed_and_fails(monkeypatch, capsys):
    class Broken:
        table = staticmethod(lambda: ["| a |", "|---|"])
        claims = staticmethod(lambda: [at_most("fine", 0.5, 1.0), at_least("wrong", 0.5, 1.0)])

    monkeypatch.setattr(note.importlib, "import_module", lambda _: Broken)
    assert note.main(["leak"]) == 1
    assert "| wrong | 0.500 | >= 1 | MISS |" in capsys.readouterr().out
    assert note.main(["nothing"]) == 2


def test_what_is_not_a_number_is_a_miss():
    assert "MISS" in claim_rows([at_most("x", float("nan"), 1e-6)])[-1]


def test_a_block_is_replaced_alone():
    page = PAGE.read_text("utf-8")
    changed = put("dial", "new", page)
    assert block("dial", changed) == "new"
    assert put("dial", block("dial", page), changed) == page
    with pytest.raises(ValueError, match="0 blocks"):
        block("nothing", page)


def test_every_block_has_its_command_and_its_table():
    page = PAGE.read_text("utf-8")
    marks = re.findall(r"<!-- technical_note (\w+) -->", page)
    assert sorted(marks) == sorted(note.CHEAP + note.REAL)
    captions = re.findall(
        r"\*\*Table (\d+)\.\*\* Measured by `python -m tools\.technical_note (\w+)`", page
    )
    assert [name for _, name in captions] == marks
    assert [int(n) for n, _ in captions] == list(range(1, len(marks) + 1))
    cited = {int(n) for n in re.findall(r"[Tt]ables? (\d+)", page)}
    assert cited <= set(range(1, len(marks) + 1))


def test_numbers_quoted_from_a_block_stand_in_it():
    """Prose of section 5 repeats numbers of the tables; ``table N: .307`` must be in table N."""
    page = PAGE.read_text("utf-8")
    names = re.findall(r"<!-- technical_note (\w+) -->", page)
    paragraphs = re.split(r"\n\n|\n(?=\d+\. )", page)
    lines = "\n".join(" ".join(text.split()) for text in paragraphs)  # sentences break across lines
    quoted = re.findall(r"table (\d+): ([^|;\n]*)", lines)
    assert len(quoted) >= 6
    for number, words in quoted:
        text = block(names[int(number) - 1], page)
        for value in re.findall(r"(?<![\d.])\d*\.\d+", words):
            assert value.removeprefix("0") in text, (number, value)


def test_what_the_page_names_exists():
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"(?:tests|benchmarks|tools|src/fairspan)/[\w/]+\.py", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    keys = " or ".join(re.findall(r'-k "([^"]+)"', text)).split(" or ")
    sources = (ROOT / "tests" / "test_technical_note.py").read_text("utf-8")
    tests = re.findall(r"^def (test_\w+)\(", sources, re.MULTILINE)
    assert len(keys) > 10
    assert [key for key in keys if not any(key in name for name in tests)] == []
    for name in set(re.findall(r"`(fairspan(?:\.\w+)+)`", text)):
        assert resolves(name), name


def resolves(name):
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for part in parts[i:]:
            found = getattr(found, part, None)
        return found is not None
    return False
