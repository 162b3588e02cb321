"""Files of every version kept here load and answer as they did; what is deprecated names its end."""

from __future__ import annotations

import ast
import json
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.fixes import parse_version
from tools.versions import FIXTURES, answers, fixture_models, fixture_rows

import fairspan
from fairspan import load_model

SOURCES = Path(fairspan.__file__).parent
KEPT = sorted(path.stem for path in FIXTURES.glob("*.zip"))


def told(version):
    with zipfile.ZipFile(FIXTURES / f"{version}.zip") as archive:
        return json.loads(archive.read("answers.json"))


MODELS = [(version, name) for version in KEPT for name in told(version)["models"]]
# Files pass from machine to machine, and BLAS rounds differently there.
TOL = 1e-9


def in_words_of_today(certificate):
    """The text of a certificate of 0.1.0, which named the training rows in its first line."""
    return certificate.replace(", training rows:\nno function", ":\nTraining rows: no function")


def loaded(version, name, folder):
    pytest.importorskip("skops")
    with zipfile.ZipFile(FIXTURES / f"{version}.zip") as archive:
        return load_model(archive.extract(f"{name}.skops", folder))


def fitted_again(version, folder):
    """Models of this version with the landmarks of the kept ones."""
    names = told(version)["models"]
    return fixture_models({name: loaded(version, name, folder).landmarks_ for name in names})


def test_a_fixture_of_the_newest_minor_version_is_kept():
    version = parse_version(fairspan.__version__)
    # The files of a development version may still change; the release before it has a fixture.
    newest = (version.major, version.minor - version.is_devrelease)
    kept = [parse_version(name) for name in KEPT]
    assert newest in [(each.major, each.minor) for each in kept], (
        "python -m tools.versions --write-fixture"
    )
    assert sum(path.stat().st_size for path in FIXTURES.iterdir()) < 300_000


@pytest.mark.parametrize(("version", "name"), MODELS)
def test_a_kept_model_answers_as_it_did(version, name, tmp_path):
    kept, model = told(version), loaded(version, name, tmp_path)
    expected = kept["models"][name]
    found = answers(model, np.array(kept["X"]))
    assert found.keys() == expected["answers"].keys()
    for dial, value in expected["answers"].items():
        np.testing.assert_allclose(found[dial], value, rtol=TOL, atol=TOL)
    assert str(model.certificate_) == in_words_of_today(expected["certificate"])


@pytest.mark.parametrize(("version", "name"), MODELS)
def test_a_kept_model_removes_dependence_where_it_did(version, name, tmp_path):
    model = loaded(version, name, tmp_path)
    if version == "0.1.0":
        assert (model.removal, model.dial) == ("training_rows", "angle")
        assert model.certificate_.new_rows is None


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_model_goes_on_learning(version, tmp_path):
    model, more = loaded(version, "FairRidge", tmp_path), fixture_rows(seed=9)
    before = model.moments_.n_rows
    model.partial_fit(**more)
    assert model.moments_.n_rows == before + len(more["X"])
    again = fitted_again(version, tmp_path)["FairRidge"].partial_fit(**more)
    X = more["X"]
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for version, name in MODELS if version == KEPT[-1]])
def test_this_version_fits_the_newest_kept_model_again(name, tmp_path):
    """The fixture is what its script makes: neither has moved without the other."""
    kept = told(KEPT[-1])
    found = answers(fitted_again(KEPT[-1], tmp_path)[name], np.array(kept["X"]))
    for dial, value in kept["models"][name]["answers"].items():
        np.testing.assert_allclose(found[dial], value, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------ deprecations

DEPRECATIONS = {"DeprecationWarning", "FutureWarning", "PendingDeprecationWarning"}
VERSION = re.compile(r"\b\d+\.\d+\b")


def unversioned(source):
    """Lines of calls that raise a deprecation whose text names no version."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("filterwarnings", "simplefilter"):
            continue
        given = [*node.args, *(k.value for k in node.keywords)]
        names = {getattr(a, "id", getattr(a, "attr", "")) for a in given}
        text = " ".join(
            leaf.value
            for a in given
            for leaf in ast.walk(a)
            if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
        )
        if names & DEPRECATIONS and not VERSION.search(text):
            found.append(node.lineno)
    return found


def test_every_deprecation_names_a_version():
    troubled = {
        str(path.relative_to(SOURCES)): lines
        for path in SOURCES.rglob("*.py")
        if (lines := unversioned(path.read_text(encoding="utf-8")))
    }
    assert not troubled


def test_the_search_for_deprecations_finds_them():
    assert unversioned('warnings.warn("old", FutureWarning)') == [1]
    assert unversioned('warn("old", category=DeprecationWarning, stacklevel=2)') == [1]
    assert unversioned('warnings.warn(f"{x} goes in 0.3; use y", FutureWarning)') == []
    assert unversioned('warnings.filterwarnings("ignore", category=FutureWarning)') == []


def test_nothing_public_is_deprecated_on_import():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in fairspan.__all__:
            getattr(fairspan, name)
