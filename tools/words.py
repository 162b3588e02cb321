"""Find phrases that readers must decode: ``python -m tools.words`` (part of ``make check``)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Files that still fail and are being rewritten: delete a line as soon as its file passes.
PENDING: list[str] = []

SEARCHED = ("*.md", *(f"{top}/**/*" for top in ("src", "docs", "lab/src", "tools", "examples")))
SUFFIXES = {".py", ".md", ".rst", ".js", ".html"}
SKIPPED = (
    *("tools/words.py", "docs/_build/", "docs/gallery/", "docs/api/generated/"),
    "src/fairspan/report/page/vendor/",
)

# Phrase, and what to write instead; a blank in a phrase also matches a line break.
PHRASES = {
    r"(speaks?|spoke|spoken) of": "is about, describes",
    r"(is|are|was|were|be) told\b": "name who does it, e.g. a warning states",
    r"told (apart|from)": "distinguished from",
    r"whoever": "anyone who, the caller",
    r"nobody (looked|knows|told)": "state what happened",
    r"by who has": "by the caller that has",
    r"(has|have|that) met (rows|it|them|users?)": "was given, was fitted on",
    r"meets? user input": "reads user input",
    r"knows? (no|nothing)\b": "does not have, does not use",
    r"a rest is left": "some dependence remains",
    r"(holds?|means?) what (it|they) says?": "is checked, is calibrated",
    r"whatever it says": "state the result",
    r"without a word": "without a warning",
    r"no room in memory": "does not fit in memory",
    r"cannot be had": "is not available",
    r"no telling": "unknown",
    r"or anybody's": "of any library",
    r"stands? (there|beside)": "is, appears",
    r"goes where it goes": "is not constrained",
    r"to be believed": "reliable",
    r"bars-|milestones?\b|reviewers?\b|second reading": "no mention of how the project is made",
}
BLANK = r"(?:\s+|\s*\n\s*#\s*)"  # a comment may break inside a phrase
PATTERNS = {re.compile(rf"\b({p})".replace(" ", BLANK), re.I): to for p, to in PHRASES.items()}


def find(text: str) -> Iterator[str]:
    """Yield ``line: phrase (advice)`` for every hit."""
    for pattern, advice in PATTERNS.items():
        for hit in pattern.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            yield f"{line}: {' '.join(hit[0].split())!r} (write: {advice})"


def report() -> list[str]:
    """Return the hits in all files but those of `PENDING` and `SKIPPED`."""
    paths = sorted(path for pattern in SEARCHED for path in ROOT.glob(pattern))
    names = {p.relative_to(ROOT).as_posix(): p for p in paths if p.suffix in SUFFIXES}
    checked = {n: p for n, p in names.items() if n not in PENDING and not n.startswith(SKIPPED)}
    return [f"{name}:{hit}" for name, p in checked.items() for hit in find(p.read_text("utf-8"))]


if __name__ == "__main__":
    hits = report()
    print(*hits, sep="\n", end="\n" if hits else "")
    sys.exit(bool(hits))
