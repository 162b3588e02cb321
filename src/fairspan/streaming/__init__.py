"""Rows that do not fit into memory: where they are, a sample of them, and blocks in order.

Nothing here knows what is computed from the rows. A source has parts (files, row groups, partitions);
parts give rows with the place they came from; :func:`blocks` cuts them at multiples of the block size,
counted from the first row of all, so that blocks do not depend on how the rows are stored.
"""

from fairspan.streaming.blocks import blocks, prefetch
from fairspan.streaming.checkpoint import Checkpoint
from fairspan.streaming.open import open_source
from fairspan.streaming.rows import Rows, Span, join
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import Part, Source

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
