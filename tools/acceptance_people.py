"""Pages, documents, receipts and monitoring, beside their limits: ``make acceptance-people``.

Everything is measured anew, which takes about twenty minutes and a browser.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools import (
    people_monitoring,
    people_page,
    people_receipts,
    people_switch,
    people_templates,
    people_verdicts,
)
from tools.table import Measurement


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    yield from people_verdicts.measurements()
    yield from people_switch.measurements()
    yield from people_templates.measurements()
    yield from people_receipts.measurements()
    yield from people_monitoring.measurements()
    yield from people_page.measurements()
