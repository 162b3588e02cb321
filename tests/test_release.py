"""What an index of packages shows, what the distributions contain, and when a tag may be released."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools import changed_defaults, distributions, evidence_release

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {folder: distributions.project_table(ROOT / folder) for folder in (".", "lab")}
REPOSITORY = PROJECTS["."]["urls"]["Repository"]
PAGES = f"{REPOSITORY}/blob/main/"
PICTURES = REPOSITORY.replace("//github.com/", "//raw.githubusercontent.com/") + "/main/"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)[^)]*\)|<(?:img|a) [^>]*(?:src|href)=\"([^\"]+)\"")


def links(text: str) -> list[tuple[bool, str]]:
    """Addresses of a page, each with whether it is a picture; code is left out."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [(m[1] == "!" or m[0].startswith("<img"), m[2] or m[3]) for m in LINK.finditer(text)]
    return found + [(False, m) for m in re.findall(r"^\[[^\]]+\]: +(\S+)", text, re.MULTILINE)]


class TestReadme:
    @pytest.mark.parametrize("page", ["README.md", "lab/README.md"])
    def test_every_link_is_absolute_and_leads_to_a_file(self, page):
        found = links((ROOT / page).read_text("utf-8"))
        assert [address for _, address in found if not address.startswith("https://")] == []
        for is_picture, address in found:
            if address.startswith((f"{REPOSITORY}/", PICTURES)):
                assert address.startswith(PICTURES if is_picture else PAGES), address
                name = address.removeprefix(PICTURES).removeprefix(PAGES)
                # The source distribution has no pictures.
                assert (ROOT / name).is_file() or name.endswith(".png"), address

    def test_links_and_a_picture_are_found(self):
        found = links((ROOT / "README.md").read_text("utf-8"))
        assert sum(is_picture for is_picture, _ in found) >= 1
        assert len(found) > 15
        wrong = '[a](docs/x.md) ![b](p.png) <img src="q.png"> `[c](no)`\n[d]: docs/y.md\n'
        assert sorted(links(wrong)) == [
            (False, "docs/x.md"), (False, "docs/y.md"), (True, "p.png"), (True, "q.png"),
        ]  # fmt: skip


class TestMetadata:
    def test_both_distributions_have_one_address(self):
        assert PROJECTS["."]["urls"] == PROJECTS["lab"]["urls"]
        assert {"Documentation", "Repository", "Issues", "Changelog"} <= set(PROJECTS["."]["urls"])

    @pytest.mark.parametrize("folder", PROJECTS)
    def test_classifiers_are_those_of_the_tests(self, folder):
        table = PROJECTS[folder]
        named = [c.rpartition(" ")[2] for c in table["classifiers"] if " :: 3." in c]
        assert named == ["3.11", "3.12", "3.13", "3.14"]
        for workflow in ("tests.yml", "release.yml"):
            path = ROOT / ".github/workflows" / workflow
            if path.is_file():  # the source distribution has none
                matrices = re.findall(r"^ +python: \[(.*)\]", path.read_text("utf-8"), re.MULTILINE)
                assert ", ".join(f'"{version}"' for version in named) in matrices
        assert table["requires-python"] == f">={named[0]}"
        assert not any("Private" in c for c in table["classifiers"])
        assert "Typing :: Typed" in table["classifiers"]

    def test_the_lab_has_the_licence_and_goes_with_this_minor_version(self):
        assert (ROOT / "lab/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
        requirements = pytest.importorskip("packaging.requirements")
        (text,) = (d for d in PROJECTS["lab"]["dependencies"] if d.startswith("fairspan"))
        specifier = requirements.Requirement(text).specifier
        version = PROJECTS["."]["version"]
        major, minor = map(int, version.split(".")[:2])
        assert specifier.contains(version, prereleases=True)
        assert specifier.contains(f"{major}.{minor}.1")
        assert not specifier.contains(f"{major}.{minor + 1}.0")

    def test_the_licence_of_the_whole_is_that_of_its_parts(self):
        assert PROJECTS["."]["license"] == "BSD-3-Clause AND MIT AND Zlib"
        notice = (ROOT / "NOTICE").read_text("utf-8")
        vendor = ROOT / "src/fairspan/report/page/vendor"
        contains = json.loads((vendor / "plotly.json").read_text("utf-8"))["contains"]
        assert len(contains) > 10
        for library in contains:
            assert re.search(
                rf"^  {re.escape(library)}(?: \(styles\))? {{2,}}\S", notice, re.MULTILINE
            )
        for table in (ROOT / "src/fairspan/datasets/descr").glob("*.csv"):
            quotes = "In the source:" in table.read_text("utf-8")
            named = re.search(rf"^  {table.stem} +\S", notice, re.MULTILINE) is not None
            assert named == quotes, table.name


class TestContents:
    def archive(self, folder, name, files):
        path = folder / name
        if name.endswith(".whl"):
            with zipfile.ZipFile(path, "w") as file:
                for inside, text in files.items():
                    file.writestr(inside, text)
            return path
        with tarfile.open(path, "w:gz") as file:
            for inside, text in files.items():
                (folder / "one").write_text(text)
                file.add(folder / "one", f"root/{inside}")
        return path

    def wheel(self, folder, **more):
        info = "fairspan_lab-1.dist-info/"
        files = dict.fromkeys(("fairspan_lab/__init__.py", "fairspan_lab/py.typed"), "")
        files |= {f"{info}licenses/LICENSE": "", f"{info}METADATA": ""} | more
        return self.archive(folder, "fairspan_lab-1-py3-none-any.whl", files)

    def test_a_right_wheel_has_no_problem(self, tmp_path):
        assert list(distributions.wheel_problems(self.wheel(tmp_path))) == []

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("fairspan_lab/people.csv", ""),
            ("tests/test_x.py", ""),
            ("fairspan_lab/big.py", "x" * 300_001),
        ],
    )
    def test_a_wheel_with_something_else_has_one(self, tmp_path, name, text):
        (found,) = distributions.wheel_problems(self.wheel(tmp_path, **{name: text}))
        assert name in found

    def test_a_wheel_without_its_types_has_one(self, tmp_path):
        path = self.archive(
            tmp_path, "fairspan_lab-1-py3-none-any.whl",
            {"fairspan_lab/__init__.py": "", "fairspan_lab-1.dist-info/licenses/LICENSE": ""},
        )  # fmt: skip
        assert ["py.typed is missing" in line for line in distributions.wheel_problems(path)] == [
            True
        ]

    def test_source_distributions(self, tmp_path):
        files = dict.fromkeys(distributions.SOURCES["fairspan_lab"], "")
        path = self.archive(tmp_path, "fairspan_lab-1.tar.gz", files)
        assert list(distributions.source_problems(path)) == []
        files |= {"docs/figures/a.png": "", ".venv-x/lib.py": ""}
        path = self.archive(tmp_path, "fairspan_lab-1.tar.gz", files)
        assert len(list(distributions.source_problems(path))) == 2
        del files["LICENSE"]
        path = self.archive(tmp_path, "fairspan_lab-1.tar.gz", files)
        assert len(list(distributions.source_problems(path))) == 3

    def test_every_archive_must_be_there_once(self, tmp_path):
        assert len(distributions.problems(tmp_path)) == 4


class TestTag:
    @pytest.fixture
    def checkout_of(self, tmp_path):
        """A checkout with version 1.2.3, whose changelog has a section."""
        for folder in (".", "lab"):
            (tmp_path / folder).mkdir(exist_ok=True)
            text = (ROOT / folder / "pyproject.toml").read_text("utf-8")
            version = tomllib.loads(text)["project"]["version"]
            text = text.replace(f'version = "{version}"', 'version = "1.2.3"')
            (tmp_path / folder / "pyproject.toml").write_text(text)
        (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] - 2026-01-31\n")
        return tmp_path

    OWN = REPOSITORY.removeprefix("https://github.com/")

    def test_what_agrees_may_be_released(self, checkout_of):
        assert distributions.release_problems("v1.2.3", self.OWN, checkout_of) == []

    def test_another_tag_repository_or_changelog_is_refused(self, checkout_of):
        assert len(distributions.release_problems("v1.2.4", self.OWN, checkout_of)) == 3
        assert len(distributions.release_problems("1.2.3", self.OWN, checkout_of)) == 1
        assert len(distributions.release_problems("v1.2.3", "someone/else", checkout_of)) == 2
        (checkout_of / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
        assert len(distributions.release_problems("v1.2.3", self.OWN, checkout_of)) == 1


class TestChangedDefaults:
    def change(self, **other):
        given = {"owner": "f", "parameter": "cv", "before": "5", "now": "'auto'"} | other
        return changed_defaults.Change(**given)

    def test_an_entry_names_owner_parameter_and_both_values(self):
        text = '- `cv` of `f`: `"auto"` instead of\n  `5`.\n- `g` and `h`\n'
        assert self.change().is_named(text)
        for other in ({"owner": "g"}, {"parameter": "h"}, {"before": "3"}, {"now": "'other'"}):
            assert not self.change(**other).is_named(text)

    @pytest.mark.slow
    def test_the_changelog_names_every_changed_default(self):
        known = ["git", "-C", str(ROOT), "cat-file", "-e", f"{changed_defaults.BEFORE}:src"]
        if shutil.which("git") is None or subprocess.run(known, capture_output=True).returncode:
            pytest.skip("the history with version 0.1.0 is not there")
        found = list(changed_defaults.changes())
        assert len(found) > 5
        text = changed_defaults.section()
        assert [change for change in found if not change.is_named(text)] == []


class TestCleanEnvironments:
    def test_the_example_is_the_first_of_the_readme(self):
        code, printed = evidence_release.example()
        assert "load_loans" in code
        assert printed[0].startswith("fairness 0.0: accuracy")

    def test_interpreters_start_and_are_new_enough(self):
        found = [evidence_release.version_of(python) for python in evidence_release.pythons()]
        assert len(found) == len(set(found))
        assert set(found) <= {"3.11", "3.12", "3.13", "3.14"}
        assert evidence_release.version_of(ROOT / "no-such-python") == ""


def test_the_installed_metadata_has_the_addresses():
    """The site's settings read them there."""
    given = importlib.metadata.metadata("fairspan").get_all("Project-URL") or []
    assert f"Repository, {REPOSITORY}" in given
