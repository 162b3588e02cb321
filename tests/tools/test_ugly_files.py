"""Files as people have them are read, or refused in one line; the tool makes the pages, too."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from tools import ugly_files

# Too long for the default suite; the tool runs it.
CASES = [case for case in ugly_files.CASES if not case.name.startswith("long.csv")]
NEEDED = {".xlsx": "openpyxl", ".duckdb": "duckdb", ".parquet": "pyarrow", ".feather": "pyarrow"}


def test_there_are_forty_files():
    assert len(ugly_files.CASES) >= 40
    assert len({case.name for case in ugly_files.CASES}) == len(ugly_files.CASES)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_is_read_or_refused_in_one_line(case, tmp_path, monkeypatch):
    for ending, package in NEEDED.items():
        if case.file.endswith(ending):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    outcome = ugly_files.run(case, light=True)
    assert outcome.passed, outcome
