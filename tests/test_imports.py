"""Imports point down one list, so that each module can be read without those after it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "fairspan"
ORDER = [
    *(
        "_system",
        "_text",
        "baselines",
        "exceptions",
        "_alignment",
        "_files",
        "_html",
        "_progress",
        "_linalg",
        "_arrays",
        "_row_sketch",
        "_device",
        "codes",
        "features",
    ),
    *(
        "folds",
        "moments",
        "accumulator",
        "sdr",
        "subspaces",
        "heads",
        "limits",
        "gp",
        "laplace",
        "calibration",
    ),
    *("certificates", "_parameters", "_columns", "encoding", "_tensors", "_validation", "streams"),
    *("_metric_inputs", "_decision_metrics", "_score_metrics", "metrics", "plotting"),
    *("estimators", "auditing", "datasets", "report", "persistence"),
    *("_cli_tables", "_cli_doubts", "_cli_read", "_cli_data", "_cli_output", "_cli_models"),
    *("_cli_explore", "cli"),
    "__main__",
]
# They judge or replace any model, so they may not know ours, though the list has it below them.
NO_ESTIMATORS = {name for name in ORDER if "metric" in name} | {"datasets"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(tree):
    """Top-level modules of fairspan that a file imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, _, rest in (name.partition(".") for name in names):
            if package == "fairspan" and rest != "__version__":
                # `import fairspan` alone gives what the package shows: the estimators.
                yield rest.partition(".")[0] or "estimators"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    module = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert module in ORDER, f"give {module} its place in ORDER"
    for other in imported(ast.parse(path.read_text(encoding="utf-8"))):
        assert other in ORDER, f"{module} imports {other!r} from fairspan: name its module"
        assert ORDER.index(other) <= ORDER.index(module), f"{module} imports {other}, above it"
        assert not (module in NO_ESTIMATORS and other == "estimators"), f"{module} uses estimators"
