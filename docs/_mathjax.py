"""MathJax for the site, from the npm registry: `python docs/_mathjax.py [FOLDER]`.

Only what a page loads is kept: one script, its TeX extensions and its fonts. A folder that already
has them is left alone, so a site can be built again without a network.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.2.2"
SHA256 = "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09"
FOLDER = Path(__file__).parent / "_build/mathjax/mathjax"
WANTED = ("tex-mml-chtml.js", "input/tex/extensions/", "output/chtml/fonts/woff-v2/")


def fetch(folder: Path) -> None:
    """Download the package with npm, check it, and unpack what is wanted."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(
            f"Mathematics on the site needs MathJax {VERSION}, which npm fetches; npm is absent. "
            f"Install Node.js, or unpack the folder es5 of mathjax-{VERSION}.tgz into {folder}."
        )
    with tempfile.TemporaryDirectory() as tmp:
        done = subprocess.run(
            [npm, "pack", "--silent", f"mathjax@{VERSION}"],
            cwd=tmp, capture_output=True, text=True, check=False,
        )  # fmt: skip
        package = Path(tmp, f"mathjax-{VERSION}.tgz")
        if done.returncode or not package.is_file():
            sys.exit(f"npm could not fetch mathjax@{VERSION}: {done.stderr.strip()}")
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"mathjax-{VERSION}.tgz has sha256 {found}, not {SHA256}: it is not used.")
        with tarfile.open(package) as packed:
            packed.extractall(tmp, filter="data")
        source = Path(tmp, "package/es5")
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            if path.is_file() and name.startswith(WANTED):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / name)
        shutil.copy(Path(tmp, "package/LICENSE"), folder / "LICENSE")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    # The licence is written last: where it is, the rest is.
    if not (target / "LICENSE").is_file():
        fetch(target)
