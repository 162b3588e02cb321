"""Imports point down one list, and no package uses the private modules of another."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

from fairspan import _moved

SOURCE = Path(__file__).resolve().parents[1] / "src" / "fairspan"
# Each entry may import itself and the entries before it.
ORDER = [
    *(
        "_lazy",
        "_system",
        "_archives",
        "_threads",
        "_moved",
        "baselines",
        "exceptions",
        "_html",
        "method",
        "inputs",
        "unseen",
        "encoding",
        "tables",
    ),
    *(
        "metrics",
        "device",
        "streaming",
        "federated",
        "plotting",
        "monitoring",
        "estimators",
        "auditing",
        "datasets",
        "report",
    ),
    *("persistence", "deployment", "cli", "__main__"),
]
# They judge or replace any model, so they may not know ours.
NO_ESTIMATORS = {"metrics", "monitoring", "datasets"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(tree):
    """Modules of fairspan that a file imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("fairspan") and name != "fairspan.__version__":
                yield name.split(".")[1:]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    module = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert module in ORDER, f"give {module} its place in ORDER"
    for other, *_ in imported(ast.parse(path.read_text(encoding="utf-8"))):
        assert other in ORDER, f"{module} imports {other!r} from fairspan: name its module"
        assert ORDER.index(other) <= ORDER.index(module), f"{module} imports {other}, after it"
        assert not (module in NO_ESTIMATORS and other == "estimators"), f"{module} uses estimators"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_private_name_of_another_package(path):
    own = path.relative_to(SOURCE).parts[0]
    for package, *rest in imported(ast.parse(path.read_text(encoding="utf-8"))):
        private = [name for name in rest if name.startswith("_") and not name.startswith("__")]
        assert package == own or not private, f"imports {'.'.join([package, *rest])}"


@pytest.mark.parametrize("name", sorted(_moved.MODULES))
def test_old_import_paths_work_and_warn(name):
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"{name} is now {_moved.MODULES[name]};"):
        old = importlib.import_module(name)
    new = importlib.import_module(_moved.MODULES[name])
    public = [key for key in vars(new) if not key.startswith("_")]
    assert public
    assert all(getattr(old, key) is getattr(new, key) for key in public)
    sys.modules.pop(name, None)


@pytest.mark.parametrize(("old", "name"), sorted(_moved.CLASSES))
def test_moved_classes_are_where_the_table_says(old, name):
    new = importlib.import_module(_moved.CLASSES[old, name])
    assert getattr(new, name).__module__ == new.__name__
