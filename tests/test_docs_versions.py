"""Versions of the site side by side: `docs/_versions.py`."""

import json
import re

import pytest

from tests.support.docs_scripts import DOCS, script

versions = script("_versions")


@pytest.fixture
def built(tmp_path):
    """A built site with two files; `text` is what its first page says."""

    def build(text):
        folder = tmp_path / "built"
        (folder / "_static").mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(text)
        (folder / "_static/versions.js").write_text((DOCS / "_static/versions.js").read_text())
        return folder

    return build


def listed(folder):
    """The list that a version of the site shows."""
    text = (folder / "_static/versions.js").read_text()
    return [entry["title"] for entry in json.loads(re.search(r"const versions = (.*);", text)[1])]


def test_the_newest_release_is_stable_and_every_version_lists_all(tmp_path, built):
    site = tmp_path / "site"
    for version in ("0.9.0", "dev", "0.10.0", "0.9.1"):
        versions.add(site, built(version), version)
    assert (site / "stable/index.html").read_text() == "0.10.0"
    assert (site / "0.9.1/index.html").read_text() == "0.9.1"
    assert 'url=stable/"' in (site / "index.html").read_text()
    for folder in ("stable", "0.10.0", "0.9.1", "0.9.0", "dev"):
        assert listed(site / folder) == ["0.10.0 (stable)", "0.9.1", "0.9.0", "dev"]
    assert (site / ".nojekyll").is_file()


def test_a_version_can_be_written_again(tmp_path, built):
    site = tmp_path / "site"
    versions.add(site, built("old"), "1.0.0")
    (site / "1.0.0/gone.html").touch()
    versions.add(site, built("new"), "1.0.0")
    assert (site / "stable/index.html").read_text() == "new"
    assert not (site / "1.0.0/gone.html").exists()


def test_without_a_release_the_first_page_leads_to_dev(tmp_path, built):
    versions.add(tmp_path / "site", built("x"), "dev")
    assert 'url=dev/"' in (tmp_path / "site/index.html").read_text()
    assert not (tmp_path / "site/stable").exists()


def test_what_is_no_version_or_no_site_is_refused(tmp_path, built):
    for wrong in ("v1.0.0", "1.0", "../x", "latest"):
        with pytest.raises(SystemExit, match="must be a release"):
            versions.add(tmp_path / "site", built("x"), wrong)
    with pytest.raises(SystemExit, match="make docs"):
        versions.add(tmp_path / "site", tmp_path, "1.0.0")
    assert not (tmp_path / "site").exists()


def test_a_site_that_is_built_alone_has_an_empty_list():
    assert "const versions = [];\n" in (DOCS / "_static/versions.js").read_text()
