"""Build both distributions and look into them: ``python -m tools.distributions [--out FOLDER]``.

fairspan (the root of the repository) and fairspan-lab (``lab/``) become a wheel and a source distribution
each. ``twine check --strict`` and ``check-wheel-contents`` judge them, and so do the rules below: what must
be inside, what may be inside, and how large a file may be. Nothing is published.

``python -m tools.distributions --release v0.2.0 --repository OWNER/NAME`` asks instead whether the checkout
may be released under this tag: versions, changelog and address of the repository must agree with it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"fairspan": ROOT, "fairspan_lab": ROOT / "lab"}

# Besides Python modules, a wheel has files of these kinds only: texts and labels of data sets, and the page.
KINDS = {
    "fairspan": (
        "fairspan/py.typed",
        "fairspan/datasets/descr/*.rst",
        "fairspan/datasets/descr/*.csv",
        "fairspan/report/page/*.js",
        "fairspan/report/page/*.css",
        "fairspan/report/page/*.html",
        "fairspan/report/page/vendor/plotly*",
    ),
    "fairspan_lab": ("fairspan_lab/py.typed",),
}
REQUIRED = {
    "fairspan": (
        "fairspan/__init__.py",
        "fairspan/py.typed",
        "fairspan/datasets/descr/loans.rst",
        "fairspan/report/page/page.html",
        "fairspan/report/page/style.css",
        "fairspan/report/page/vendor/plotly-basic.min.js",
        "fairspan/report/page/vendor/plotly-LICENSE.txt",
        "licenses/LICENSE",
        "licenses/NOTICE",
    ),
    "fairspan_lab": ("fairspan_lab/__init__.py", "fairspan_lab/py.typed", "licenses/LICENSE"),
}
# The source distribution of fairspan has the tests of both; those of fairspan-lab need its helpers.
SOURCES = {
    "fairspan": (
        "CHANGELOG.md",
        "LICENSE",
        "NOTICE",
        "README.md",
        "conftest.py",
        "constraints.txt",
        "lab/pyproject.toml",
        "lab/tests/test_commands.py",
        "tests/test_no_extras.py",
        "tests/unit/method/test_gp.py",
    ),
    "fairspan_lab": ("LICENSE", "README.md", "pyproject.toml"),
}
UNWANTED = (
    ".ci/*", ".github/*", ".venv*", "build/*", "dist/*", "docs/_build/*", "docs/gallery/*", "*.pyc",
    "docs/figures/*.png", "docs/frontier/*.png", "shared/*", "*-output/*", "*.pem", ".env*",
)  # fmt: skip
# Bytes of an archive, and of one file inside it. The chart library is the one large file.
ARCHIVE_LIMIT = 4_000_000
FILE_LIMIT = 300_000
LARGE = ("*/vendor/plotly-basic.min.js",)


def size_problems(archive: Path, sizes: Mapping[str, int]) -> Iterator[str]:
    """Archives and files that are too large."""
    if archive.stat().st_size > ARCHIVE_LIMIT:
        yield f"{archive.name}: {archive.stat().st_size} bytes, more than {ARCHIVE_LIMIT}"
    for name, size in sizes.items():
        if size > FILE_LIMIT and not any(fnmatch(name, pattern) for pattern in LARGE):
            yield f"{archive.name}: {name} has {size} bytes, more than {FILE_LIMIT}"


def wheel_problems(archive: Path) -> Iterator[str]:
    """What is missing from a wheel, and what should not be there."""
    project = archive.name.split("-")[0]
    with zipfile.ZipFile(archive) as file:
        sizes = {info.filename: info.file_size for info in file.infolist()}
    yield from size_problems(archive, sizes)
    inside = {re.sub(r"^[^/]*\.dist-info/", "", name): name for name in sizes}
    for name in REQUIRED[project]:
        if name not in inside:
            yield f"{archive.name}: {name} is missing"
    for short, name in inside.items():
        allowed = name != short or any(fnmatch(name, kind) for kind in KINDS[project])
        if not allowed and not (name.startswith(f"{project}/") and name.endswith(".py")):
            yield f"{archive.name}: {name} is of no kind that a wheel may have"


def source_problems(archive: Path) -> Iterator[str]:
    """What is missing from a source distribution, and what should not be there."""
    project = archive.name.split("-")[0]
    with tarfile.open(archive) as file:
        sizes = {m.name.partition("/")[2]: m.size for m in file.getmembers() if m.isfile()}
    yield from size_problems(archive, sizes)
    for name in SOURCES[project]:
        if name not in sizes:
            yield f"{archive.name}: {name} is missing"
    for name in sizes:
        if any(fnmatch(name, pattern) for pattern in UNWANTED):
            yield f"{archive.name}: {name} is not wanted"


def problems(folder: Path) -> list[str]:
    """All problems of the archives in a folder; each project has one wheel and one source distribution."""
    found = []
    for project in PROJECTS:
        for pattern, look in (("whl", wheel_problems), ("tar.gz", source_problems)):
            archives = sorted(folder.glob(f"{project}-*.{pattern}"))
            if len(archives) != 1:
                found.append(f"{project}: {len(archives)} files *.{pattern} in {folder}, not one")
            for archive in archives:
                found += look(archive)
    return found


def build(folder: Path) -> list[str]:
    """Build both projects into an empty folder; return what is wrong with the result."""
    for old in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        old.unlink()
    for source in PROJECTS.values():
        command = [sys.executable, "-m", "build", "--outdir", str(folder), str(source)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    archives = sorted(map(str, [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]))
    wheels = [name for name in archives if name.endswith(".whl")]
    found = problems(folder)
    for command in (["twine", "check", "--strict", *archives], ["check_wheel_contents", *wheels]):
        done = subprocess.run([sys.executable, "-m", *command], check=False)
        if done.returncode:
            found.append(f"{command[0]} ended with {done.returncode}")
    return found


def project_table(folder: Path) -> dict[str, object]:
    """The table ``project`` of a pyproject.toml."""
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def release_problems(tag: str, repository: str, root: Path = ROOT) -> list[str]:
    """Why a checkout may not be released under a tag, from a repository ``OWNER/NAME``."""
    found = []
    version = tag.removeprefix("v")
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        found.append(f"the tag is {tag!r}; a release has a tag such as v0.2.0")
    for folder in (root, root / "lab"):
        table = project_table(folder)
        if table["version"] != version:
            found.append(f"{table['name']} has version {table['version']}, the tag {version}")
        urls = table["urls"]
        assert isinstance(urls, dict)
        address = f"https://github.com/{repository}"
        if urls["Repository"] != address:
            found.append(f"{table['name']} names {urls['Repository']}, but this is {address}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$"
    if not re.search(heading, changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section '## [{version}] - YEAR-MONTH-DAY'")
    return found


def main() -> int:
    """Print what is wrong; exit code 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the archives")
    parser.add_argument("--release", metavar="TAG", help="check the checkout against a tag")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="where the tag is")
    given = parser.parse_args()
    if given.release:
        found = release_problems(given.release, given.repository or "")
    else:
        given.out.mkdir(parents=True, exist_ok=True)
        found = build(given.out)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
