"""Protected attributes that are missing, probable, private or spread: ``make acceptance-sensitive``.

The tables of ``tools.sensitive_missing``, ``tools.sensitive_probabilities`` and ``tools.sensitive_federated``
are read from benchmarks/results; private fits are measured anew, which takes about three minutes.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator

from tools import sensitive_missing, sensitive_privacy, sensitive_probabilities
from tools.promise_tables import RESULTS
from tools.table import Measurement

# Splits of Adult, and fits of each of two tables, for private fits.
_SPLITS, _FITS = 10, 2000


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    for table in sensitive_missing.DRAWS:
        path = RESULTS / f"sensitive_{table}.csv"
        yield from sensitive_missing.measurements(table, path)
    yield from sensitive_probabilities.check()
    yield from _federated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from sensitive_privacy.measure(_SPLITS, _FITS)


def _federated() -> Iterator[Measurement]:
    """Rows as they were measured and compared."""
    path = RESULTS / "sensitive_federated.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield Measurement(
                row["name"], float(row["measured"]), row["limit"], row["pass"] == "True"
            )
