"""Rows that do not fit into memory: where they are, a sample of them, and blocks in order.

Nothing here knows what is computed from the rows. A source has parts (files, row groups, partitions);
parts give rows with the place they came from; :func:`blocks` cuts them at multiples of the block size,
counted from the first row of all, so that blocks do not depend on how the rows are stored.
"""

from fairspan.streams._blocks import blocks, prefetch
from fairspan.streams._checkpoint import Checkpoint
from fairspan.streams._open import open_source
from fairspan.streams._rows import Rows, Span, join
from fairspan.streams._sample import Sample
from fairspan.streams._source import Part, Source

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
