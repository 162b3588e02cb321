"""Files as people have them, counted: ``make acceptance-files``."""

from __future__ import annotations

from collections.abc import Iterator

from tools.table import Measurement, at_least, at_most
from tools.ugly_files import CASES, outcomes


def measurements() -> Iterator[Measurement]:
    """Files that give a page or one line with a remedy, and the slowest of them."""
    results = list(outcomes())
    for case, outcome in results:
        if not outcome.passed:
            print(f"{case.name}: {outcome.outcome}")
    yield at_least("files", len(CASES), 40)
    yield at_most(
        "files without a page or one line with a remedy", sum(not o.passed for _, o in results), 0
    )
    pages = sum(o.passed and case.page for case, o in results)
    yield at_least("files with a page", pages, sum(case.page for case in CASES))
    yield at_most("seconds of the slowest file", max(o.seconds for _, o in results), 120.0)
