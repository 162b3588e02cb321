"""Counts of the tree that `make acceptance-house` prints."""

import shutil
from pathlib import Path

import pytest
from tools import acceptance_house as house

import fairspan


def test_private_imports_of_other_packages_are_counted():
    text = "from fairspan.b._c import d\nfrom fairspan.b import _e, f\nimport fairspan.b._g\n"
    assert house.private_imports(Path("a/x.py"), text) == [
        "fairspan.b._c.d",
        "fairspan.b._e",
        "fairspan.b._g",
    ]
    assert house.private_imports(Path("b/x.py"), text) == []
    assert house.private_imports(Path("b.py"), text) == []
    assert house.private_imports(Path("a.py"), "from fairspan._system import f, __all__\n") == []


def test_lines_are_counted_after_formatting():
    pytest.importorskip("ruff")
    assert house.formatted_lines({Path("a.py"): "x = [1,\n  2]\n"}) == 1
    long = f"x = [{', '.join(['123456789'] * 12)}]"
    assert house.formatted_lines({Path("a.py"): f"{long}  # fmt: skip\n"}) == 14


def test_files_that_a_call_passes_through():
    files = house.files_called(lambda: fairspan.Certificate.__doc__)
    assert files == set()
    files = {Path(name).name for name in house.files_of_fit()}
    assert "moments.py" in files
    assert "__init__.py" not in files


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_help_of_make_is_read():
    assert any(line.startswith("test ") for line in house.make_help(house.ROOT))


def test_a_commit_that_git_does_not_have_has_no_counts():
    assert house.counts_at("no-such-commit") is None
