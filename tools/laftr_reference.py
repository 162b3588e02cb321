"""LAFTR-GP against the seed means of its reference: ``python -m tools.laftr_reference`` (needs torch).

Prints ``name <tab> measured <tab> limit`` for `make acceptance-experiments`.
A quarter of an hour of one core.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.golden import laftr

SHARED = Path(os.environ.get("FAIRSPAN_SHARED") or Path(__file__).parents[2] / "shared")


def main() -> None:
    """Measure both data sets, with and without the attribute among the encoder's inputs."""
    for data in laftr.DATASETS:
        for use_sensitive in (True, False):
            label = f"LAFTR-GP {data}" + ("" if use_sensitive else ", blind")
            measured = laftr.measure(SHARED, data, use_sensitive)
            expected = laftr.golden(SHARED, data, use_sensitive)
            for row in laftr.summary(measured, expected, label):
                print(row.name, row.measured, row.limit, sep="\t", flush=True)


if __name__ == "__main__":
    main()
