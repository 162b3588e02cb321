"""Versions of the site on a static host: `python docs/_versions.py SITE BUILT VERSION`.

Copies a built site (`docs/_build/html`) to the folder VERSION of SITE, and writes the list of versions into
every one of them. VERSION is a release, as 0.2.0, or "dev". The newest release is also in the folder
"stable", to which the first page of SITE leads.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "_static/versions.js"
RELEASE = re.compile(r"\d+\.\d+\.\d+")
START = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>fairspan</title>
<meta http-equiv="refresh" content="0; url={folder}/">
<link rel="canonical" href="{folder}/">
<p><a href="{folder}/">Documentation of fairspan</a></p>
</html>
"""


def releases(site: Path) -> list[str]:
    """Releases of the site, the newest first."""
    found = [path.name for path in site.iterdir() if RELEASE.fullmatch(path.name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def entries(site: Path) -> list[dict[str, str]]:
    """What the list shows: the newest release as "stable", the others, and "dev" if it is there."""
    known = releases(site)
    shown = [{"folder": "stable", "title": f"{known[0]} (stable)"}] if known else []
    shown += [{"folder": name, "title": name} for name in known[1:]]
    if (site / "dev").is_dir():
        shown.append({"folder": "dev", "title": "dev"})
    return shown


def add(site: Path, built: Path, version: str) -> None:
    """Add a built site as one version; an older copy of the same version is replaced."""
    if version != "dev" and not RELEASE.fullmatch(version):
        sys.exit(f"The version is {version!r}; it must be a release such as 0.2.0, or dev.")
    if not (built / "index.html").is_file():
        sys.exit(f"There is no built site in {built}: run `make docs` first.")
    site.mkdir(parents=True, exist_ok=True)
    _replace(site / version, built)
    known = releases(site)
    if known and known[0] == version:
        _replace(site / "stable", built)
    shown = entries(site)
    script = SCRIPT.read_text(encoding="utf-8")
    listed = script.replace("const versions = [];", f"const versions = {json.dumps(shown)};")
    for name in {*known, *(entry["folder"] for entry in shown)}:
        (site / name / "_static/versions.js").write_text(listed, encoding="utf-8")
    (site / "index.html").write_text(START.format(folder=shown[0]["folder"]), encoding="utf-8")
    (site / ".nojekyll").touch()  # GitHub Pages leaves out folders with an underscore otherwise


def _replace(folder: Path, built: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(built, folder, ignore=shutil.ignore_patterns(".buildinfo", ".doctrees"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    add(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
