"""Docstrings say what the code takes and gives, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass

import pytest

import fairspan
from tests.small import fitted

PUBLIC = {
    name: thing
    for module in (fairspan, importlib.import_module("fairspan.metrics"))
    for name in module.__all__
    if callable(thing := getattr(module, name))
}
# Exceptions take a message, and nothing to document.
CLASSES = [n for n, c in PUBLIC.items() if inspect.isclass(c) and not issubclass(c, Exception)]
METHODS = [
    name
    for name, method in inspect.getmembers(fairspan.FairRepresentation, inspect.isfunction)
    if method.__module__.startswith("fairspan") and not name.startswith("_")
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
        assert documented(cls.__doc__, "Parameters") == taken(cls)


@pytest.mark.parametrize("name", [n for n, f in PUBLIC.items() if inspect.isfunction(f)])
def test_a_function_documents_exactly_its_arguments(name):
    assert sorted(documented(PUBLIC[name].__doc__, "Parameters")) == sorted(taken(PUBLIC[name]))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_documents_its_arguments_or_says_where(name):
    method = getattr(fairspan.FairRepresentation, name)
    names = documented(method.__doc__, "Parameters")
    assert names == taken(method) or not names


def test_fitted_attributes_are_documented_and_exist():
    est = fitted()
    names = set(documented(type(est).__doc__, "Attributes"))
    held = {name for name in vars(est) if name.endswith("_") and not name.startswith("_")}
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
