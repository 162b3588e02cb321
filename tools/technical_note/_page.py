"""Format numbers, and replace the blocks of docs/technical-note.md.

A block of the page begins with ``<!-- technical_note NAME -->`` and ends with ``<!-- end -->``. Between
them is the output of ``python -m tools.technical_note NAME``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tools.table import Measurement

PAGE = Path(__file__).parents[2] / "docs" / "technical-note.md"
ROUNDING = 1e-9  # what is smaller depends on the machine


def below(value: float, limit: float = ROUNDING) -> str:
    """Format a number; values at the level of rounding become ``< limit``."""
    return f"< {limit:.0e}" if value < limit else f"{value:.1e}"


def zero(value: float) -> str:
    """Three digits, or rounding."""
    return f"{value:.3f}" if value >= 5e-4 else below(value)


def claim_rows(claims: Iterable[Measurement]) -> list[str]:
    """Rows of ``claim | measured | limit | pass``."""
    return ["| claim | measured | limit | |", "|---|---|---|---|"] + [
        f"| {claim.name} | {shown(claim)} | {claim.limit} | {'pass' if claim.passed else 'MISS'} |"
        for claim in claims
    ]


def shown(claim: Measurement) -> str:
    """Three digits; of what is only rounding, that it is below the limit."""
    value = float(claim.measured)
    limit = float(claim.limit[3:]) if claim.limit.startswith("<= ") else 0.0
    if value <= limit <= 1e-5 and limit > 0.0:
        return f"< {limit:.0e}"
    if value.is_integer():
        return f"{value:.0f}"
    if abs(value) >= 100.0:
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 1e-3 else f"{value:.1e}"


def block(name: str, page: str) -> str:
    """Return the block of a name on the page."""
    found = re.findall(rf"<!-- technical_note {name} -->\n\n(.*?)\n\n<!-- end -->", page, re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"{PAGE.name} has {len(found)} blocks {name!r}")
    return str(found[0])


def put(name: str, text: str, page: str) -> str:
    """Return the page with that block replaced."""
    return page.replace(
        f"{name} -->\n\n{block(name, page)}\n\n<!--", f"{name} -->\n\n{text}\n\n<!--"
    )
