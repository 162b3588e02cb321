"""Refresh the chart library of the explorer's page: ``python -m tools.vendor_plotly [VERSION]``.

The page holds Plotly's basic bundle (scatter, bar and pie charts), which npm publishes as
``plotly.js-basic-dist-min``. This writes the script, its licence, and a record of version and checksum.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = "plotly.js-basic-dist-min"
SCRIPT = "plotly-basic.min.js"
FOLDER = Path(__file__).resolve().parents[1] / "src" / "fairspan" / "report" / "page" / "vendor"


def record_of(script: bytes, version: str) -> dict[str, str]:
    """Version, origin, licence and checksum of the script."""
    return {
        "name": PACKAGE,
        "version": version,
        "url": f"https://registry.npmjs.org/{PACKAGE}/-/{PACKAGE}-{version}.tgz",
        "file": SCRIPT,
        "license": "MIT",
        "sha256": hashlib.sha256(script).hexdigest(),
    }


def fetch(version: str, folder: Path = FOLDER) -> dict[str, str]:
    """Fetch a version with npm, and write it with its licence and its record."""
    with TemporaryDirectory() as temporary:
        run = subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{version}"],
            cwd=temporary,
            capture_output=True,
            text=True,
            check=True,
        )
        archive = Path(temporary, run.stdout.split()[-1])
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        package = Path(temporary, "package")
        script = (package / SCRIPT).read_bytes()
        if b"</script" in script.lower() or b"<!--" in script:
            raise SystemExit(f"{SCRIPT} cannot be part of a page: it would end its script element.")
        record = record_of(script, json.loads((package / "package.json").read_text())["version"])
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
