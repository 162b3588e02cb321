"""Refresh the chart library of the explorer's page: ``python -m tools.vendor_plotly [VERSION]``.

The page holds Plotly's basic bundle (scatter, bar and pie charts), which npm publishes as
``plotly.js-basic-dist-min``. This writes the script, its licence, and a record of version, checksum and the
libraries inside, which only the readable script of ``plotly.js-basic-dist`` names. NOTICE must list them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = "plotly.js-basic-dist-min"
READABLE = "plotly.js-basic-dist"
SCRIPT = "plotly-basic.min.js"
FOLDER = Path(__file__).resolve().parents[1] / "src" / "fairspan" / "report" / "page" / "vendor"


def libraries(readable: str) -> list[str]:
    """Libraries whose code is in the readable script: its comments name the file of each part."""
    return sorted(
        set(re.findall(r"^ *// node_modules/((?:@[^/]+/)?[^/\s]+)/", readable, re.MULTILINE))
    )


def record_of(script: bytes, version: str, contains: list[str]) -> dict[str, object]:
    """Version, origin, licence and checksum of the script, and the libraries inside."""
    return {
        "name": PACKAGE,
        "version": version,
        "url": f"https://registry.npmjs.org/{PACKAGE}/-/{PACKAGE}-{version}.tgz",
        "file": SCRIPT,
        "license": "MIT",
        "sha256": hashlib.sha256(script).hexdigest(),
        "contains": contains,
    }


def unpack(package: str, version: str, folder: Path) -> Path:
    """Fetch a package with npm into a folder; where its files are."""
    folder.mkdir()
    run = subprocess.run(
        ["npm", "pack", "--silent", f"{package}@{version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    with tarfile.open(folder / run.stdout.split()[-1]) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def fetch(version: str, folder: Path = FOLDER) -> dict[str, object]:
    """Fetch a version with npm, and write it with its licence and its record."""
    with TemporaryDirectory() as temporary:
        package = unpack(PACKAGE, version, Path(temporary, "small"))
        script = (package / SCRIPT).read_bytes()
        if b"</script" in script.lower() or b"<!--" in script:
            raise SystemExit(f"{SCRIPT} cannot be part of a page: it would end its script element.")
        exact = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
        readable = unpack(READABLE, exact, Path(temporary, "readable")) / "plotly-basic.js"
        record = record_of(script, exact, libraries(readable.read_text(encoding="utf-8")))
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / SCRIPT, folder / SCRIPT)
        shutil.copyfile(package / "LICENSE", folder / "plotly-LICENSE.txt")
    (folder / "plotly.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def main(arguments: list[str]) -> int:
    """Fetch the version that is asked for; without one, that of the record again."""
    known = json.loads((FOLDER / "plotly.json").read_text(encoding="utf-8"))["version"]
    record = fetch(arguments[0] if arguments else known)
    print(f"{record['name']} {record['version']}, sha256 {record['sha256']}, in {FOLDER}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
