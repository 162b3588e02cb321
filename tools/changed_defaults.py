"""Defaults that differ from those of a release: ``python -m tools.changed_defaults [--since COMMIT]``.

Reads the signatures of everything that public modules export, methods included, in this checkout and at a
commit, each in a process of its own. Prints a row per parameter with another default; the section "Changed
default numbers" of the changelog has to name it. A new parameter, and one that had no default, is not listed:
old code gives neither.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.regressions import BEFORE
from tools.table import ROOT

SECTION = re.compile(r"^### Changed default numbers$(.*?)^##", re.DOTALL | re.MULTILINE)
# Runs with the library of either version, so it imports nothing of ours but that.
_SIGNATURES = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
modules = "auditing datasets metrics persistence plotting report".split()
defaults = {}
def note(name, function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    defaults[name] = {p.name: repr(p.default) for p in parameters if p.default is not p.empty}
for module in (importlib.import_module(m) for m in ["fairspan", *("fairspan." + m for m in modules)]):
    for name in getattr(module, "__all__", ()):
        given = getattr(module, name, None)
        if inspect.isclass(given):
            note(name, given)
            for method, function in inspect.getmembers(given, callable):
                if method[0] != "_" and getattr(function, "__module__", "").startswith("fairspan"):
                    note(name + "." + method, function)
        elif callable(given):
            note(name, given)
json.dump(defaults, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A parameter of a public callable whose default is another one now."""

    owner: str
    parameter: str
    before: str
    now: str

    def is_named(self, text: str) -> bool:
        """Whether an entry of the changelog has owner, parameter and both values, each as code."""
        values = (value.replace("'", '"') for value in (self.before, self.now))
        wanted = {self.owner, self.parameter, *values}
        items = re.split(r"^- ", text, flags=re.MULTILINE)
        return any(wanted <= set(re.findall(r"`([^`]+)`", item)) for item in items)


def signatures(source: Path) -> dict[str, dict[str, str]]:
    """Defaults of public callables by name, of the library in a folder."""
    code = f"import sys; sys.path.insert(0, {str(source)!r})\n{_SIGNATURES}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def changes(commit: str = BEFORE) -> Iterator[Change]:
    """Defaults that are not those of a commit."""
    archive = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(archive, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as file:
            file.extractall(folder, filter="data")
        before = signatures(Path(folder, "src"))
    now = signatures(ROOT / "src")
    for owner in sorted(before.keys() & now.keys()):
        for parameter, value in before[owner].items():
            other = now[owner].get(parameter, value)
            if other != value and " at 0x" not in value:
                yield Change(owner=owner, parameter=parameter, before=value, now=other)


def section() -> str:
    """The section of the changelog about changed defaults."""
    found = SECTION.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    return found[1] if found else ""


def main() -> int:
    """Print the changes; exit code 1 if the changelog lacks one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default=BEFORE, help="commit to compare with")
    text, missing = section(), 0
    for change in changes(parser.parse_args().since):
        named = change.is_named(text)
        missing += not named
        verdict = "in the changelog" if named else "MISSING"
        print(f"{change.owner}({change.parameter}=): {change.before} -> {change.now}  {verdict}")
    return int(missing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
