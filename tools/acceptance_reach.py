"""Spark, exported models, GPUs, embeddings and other tools: ``make acceptance-reach``.

Spark runs in an environment of its own. Rows about the GPU are in ``benchmarks/results/scale-h200.txt``;
``python -m benchmarks.scale_gpu`` writes them on such a machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools import reach_eraser, reach_export, reach_spark, reach_works
from tools.table import Measurement


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    yield from reach_works.measurements()
    yield from reach_export.measurements()
    yield from reach_spark.measurements()
    yield from reach_eraser.measurements()
