"""Rows that do not fit into memory: sources, a sample of the rows, and blocks of rows in order.

A source has parts (files, row groups, partitions), and parts give rows with the file and row that each
is from. :func:`blocks` cuts them at multiples of the block size, counted from the first row of all, so
that blocks do not depend on how the rows are stored.
"""

from fairspan.streaming.checkpoint import Checkpoint
from fairspan.streaming.fit import open_source
from fairspan.streaming.rows import Rows, Span, join
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import Part, Source, blocks, prefetch

__all__ = [
    "Checkpoint",
    "Part",
    "Rows",
    "Sample",
    "Source",
    "Span",
    "blocks",
    "join",
    "open_source",
    "prefetch",
]
