"""Docstrings say what the code takes and gives, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import fairspan
from tests.support.small import fitted

ROOT = Path(__file__).parents[1]

# Where public names live; a name that several have is documented under the first.
MODULES_OF_NAMES = (
    "fairspan",
    "fairspan.metrics",
    "fairspan.auditing",
    "fairspan.monitoring",
    "fairspan.report",
    "fairspan.plotting",
    "fairspan.datasets",
    "fairspan_lab.baselines",
    "fairspan.streaming",
    "fairspan.persistence",
    "fairspan.encoding",
    "fairspan.tables",
)

# What modules of the library take from each other, and no user is offered.
OURS = {
    f"fairspan.plotting.{name}"
    for name in ("COLOURS", "DASHES", "MARKERS", "plain_label", "require_pyplot")
}


def _public() -> dict[str, object]:
    found: dict[str, object] = {}
    for module in map(importlib.import_module, MODULES_OF_NAMES):
        for name in module.__all__:
            thing = getattr(module, name)
            if (
                name == "__version__"
                or inspect.ismodule(thing)
                or f"{module.__name__}.{name}" in OURS
            ):
                continue
            if not any(thing is known for known in found.values()):
                found[f"{module.__name__}.{name}"] = thing
    return found


NAMES = _public()
PUBLIC = {name: thing for name, thing in NAMES.items() if callable(thing)}
FUNCTIONS = [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)]
# Exceptions take a message, and nothing to document.
CLASSES = [n for n, c in PUBLIC.items() if inspect.isclass(c) and not issubclass(c, Exception)]
METHODS = [
    (name, method)
    for name in CLASSES
    for method, what in inspect.getmembers(PUBLIC[name], inspect.isroutine)
    if (getattr(what, "__module__", None) or "").startswith("fairspan")
    and method[0] != "_"
    and hasattr(PUBLIC[name], method)  # a subclass may refuse a method
]


def documented(doc, section):
    """Names in a section of a numpydoc docstring, in order."""
    doc = inspect.cleandoc(doc or "")
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", doc + "\n", re.M | re.S)
    lines = found[1].splitlines() if found else []
    heads = [line.partition(":")[0] for line in lines if line and not line.startswith(" ")]
    return [name.strip() for head in heads for name in head.split(",")]


def taken(function):
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(function).parameters.values()
    return [kinds.get(p.kind, "") + p.name for p in parameters if p.name not in ("self", "cls")]


def fits(names, function):
    """All arguments are named, and those that may be given by position in their order."""
    named = inspect.Parameter.KEYWORD_ONLY
    by_place = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is not named and p.name in names
    ]
    return sorted(names) == sorted(taken(function)) and by_place == [
        name for name in names if name in by_place
    ]


def test_the_parser_reads_numpydoc():
    doc = """Title.

    Parameters
    ----------
    a, b : int
        Numbers.
    *args
        More.

    Returns
    -------
    c
    """
    assert documented(doc, "Parameters") == ["a", "b", "*args"]
    assert documented(doc, "Returns") == ["c"]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_a_docstring(name):
    assert inspect.getdoc(PUBLIC[name])


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_documents_exactly_its_constructor(name):
    cls = PUBLIC[name]
    if is_dataclass(cls):
        assert documented(cls.__doc__, "Attributes") == [field.name for field in fields(cls)]
    else:
        assert fits(documented(cls.__doc__, "Parameters"), cls)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_exactly_its_arguments(name):
    assert fits(documented(PUBLIC[name].__doc__, "Parameters"), PUBLIC[name])


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_method_documents_its_arguments_or_says_where(name, method):
    what = getattr(PUBLIC[name], method)
    assert inspect.getdoc(what)
    names = documented(inspect.getdoc(what), "Parameters")
    assert not names or fits(names, what)


def _on_api_pages() -> list[str]:
    """Names in the autosummary blocks of `docs/api`, with their modules."""
    found = []
    for page in sorted((ROOT / "docs/api").glob("*.md")):
        blocks = r"\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)"
        for module, names in re.findall(blocks, page.read_text("utf-8")):
            found += [f"{module}.{name}" for name in names.split()]
    return found


def test_every_public_name_is_documented_once():
    shown = _on_api_pages()
    assert len(shown) == len(set(shown))
    # Classes that users hold and never import.
    parts = {
        "certificates": (
            "BlockCertificate",
            "Direction",
            "ExpectedDependence",
            "NewRowsCertificate",
        ),
        "decision_certificate": ("DecisionCertificate", "GroupRate"),
        "erasure_left": ("ErasureBlock", "ErasureCertificate"),
        "rule_words": ("RuleDifference", "RuleMultiplier", "RuleWords"),
    }
    held = {f"fairspan.method.{module}.{name}" for module, names in parts.items() for name in names}
    assert set(shown) == {*NAMES, *held}


def test_fitted_attributes_are_documented_and_exist():
    est = fitted()
    names = set(documented(type(est).__doc__, "Attributes"))
    ends = (name for name in dir(est) if name.endswith("_") and not name.startswith("_"))
    held = {name for name in ends if hasattr(est, name) and not callable(getattr(est, name))}
    assert held <= names
    elsewhere = {"encoder_", "n_samples_seen_", "smallest_eigenvalue_"}  # of streams and devices
    assert names - held <= {"feature_names_in_", *elsewhere}  # for frames


MODULES = [
    module.name
    for module in pkgutil.walk_packages(fairspan.__path__, "fairspan.")
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    if "import pandas" in inspect.getsource(module):
        pytest.importorskip("pandas")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_the_main_class_and_the_encoder_have_examples():
    for thing in (fairspan.FairRepresentation, fairspan.table_encoder):
        assert doctest.DocTestFinder(recurse=False).find(thing)[0].examples
