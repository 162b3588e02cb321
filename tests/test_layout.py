"""Unit tests lie where their modules lie: ``unit/method/test_gp.py`` tests ``method/gp.py``; one version."""

import re
from pathlib import Path

import pytest

import fairspan

UNIT = Path(__file__).resolve().parent / "unit"
SOURCE = UNIT.parents[1] / "src" / "fairspan"


@pytest.mark.parametrize(
    "file", sorted(str(path.relative_to(UNIT)) for path in UNIT.rglob("test_*.py"))
)
def test_a_unit_test_has_its_module(file):
    folder = SOURCE / Path(file).parent
    name = Path(file).stem.removeprefix("test_")
    assert any(
        (folder / module).exists()
        for module in (f"{name}.py", f"_{name}.py", f"{name}/__init__.py")
    )


@pytest.mark.parametrize("file", ["pyproject.toml", "lab/pyproject.toml", "CITATION.cff"])
def test_the_version_is_the_same_everywhere(file):
    text = (SOURCE.parents[1] / file).read_text(encoding="utf-8")
    assert re.findall(r'^version(?:: | = ")([^"\n]+)', text, re.M) == [fairspan.__version__]
