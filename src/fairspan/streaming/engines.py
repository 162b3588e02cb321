"""What an engine is: a cluster that takes samples and moments of parts of the rows on its workers.

An engine is one module, such as :mod:`fairspan.streaming.dask`, and one line in
``fairspan.streaming.fit.ENGINES``. Its workers call :func:`sample_of` and :func:`moments_of`; both results
have ``+``, so an engine only distributes the parts and adds up what comes back, in a tree on the workers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from fairspan.method.accumulate import MomentsPass
from fairspan.method.folds import move_to
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.streaming.checkpoint import SavedPass
from fairspan.streaming.rows import Rows, StreamedEstimator, StreamedMoments, naming_rows
from fairspan.streaming.sample import Sample, SamplePass
from fairspan.streaming.sources import GivenRoles, Part, Source, blocks
from fairspan.unseen import collect_unseen

_SAMPLE_BLOCK_ROWS = 2**16


class Engine(Protocol):
    """A cluster, as the passes of a stream use it; the methods are in the order of the calls.

    What reads rows again after the moments (rules for decisions, a likelihood, the spread of a single
    block) reads the parts of the source in the calling process, block by block: :meth:`Part.read`.
    """

    name: str  # in errors

    def recognises(self, source: Any) -> bool:
        """True for data of this engine; its package is not imported to find out."""

    def open(self, source: Any, given: GivenRoles) -> Source:
        """Open such data, and check the roles of their columns."""

    def computes(self, source: Source, client: Any) -> bool:
        """Whether the passes over an opened source are this engine's."""

    def check(self, source: Source, *, device: Any, checkpoint: Any, client: Any) -> None:
        """Raise for arguments of ``fit_stream`` that do not suit the engine."""

    def sample(
        self,
        est: StreamedEstimator,
        source: Source,
        empty: Sample,
        client: Any,
        *,
        encoder: Any,
        digest: bool,
    ) -> Sample:
        """The sample of all rows: the sum of :func:`sample_of` over parts."""

    def moments(
        self,
        est: StreamedEstimator,
        source: Source,
        size: int,
        client: Any,
        saved: SavedPass | None,
        start: StreamedMoments,
    ) -> StreamedMoments:
        """Moments of all rows after those of ``start``: the sum of :func:`moments_of` over parts."""


@runtime_checkable
class PredictingEngine(Engine, Protocol):
    """An engine that predicts into a collection; for others the calling process writes a file."""

    def predict(self, source: Source, outputs: Callable[[Rows, int], dict[str, Any]]) -> Any:
        """A collection of the columns to keep (control features) and of the outputs for the features.

        Parameters
        ----------
        source : Source
        outputs : callable
            Called on workers with rows and their offset, for errors; arrays by the names of columns.
        """


def sample_of(
    est: StreamedEstimator,
    empty: Sample,
    encoder: Any,
    digest: bool,
    part: Part,
    start: int,
    base: int = 0,
) -> Sample:
    """The sample of one part, on a worker.

    The first row of the part has the offset ``start``, which errors name, and the position
    ``base + start`` among all rows.
    """
    sample_pass = SamplePass(est, copy.deepcopy(empty), encoder, digest=digest)
    for offset, rows in blocks([part], _SAMPLE_BLOCK_ROWS, first=start):
        sample_pass.add(offset, rows, base)
    return sample_pass.sample


def moments_of(
    est: StreamedEstimator, pilot: Pilot, size: int, part: Part, start: int, base: int = 0
) -> Moments:
    """Moments of one part, on a worker; see :func:`sample_of` for its offset and position."""
    est = est.copy()  # threads may share it, and reading changes it
    moments_pass, counter = MomentsPass(pilot, pilot.empty_moments()), pilot.counter()
    for offset, rows in blocks([part], size, first=start):
        move_to(counter, base + offset)
        # Rows beyond the sample may have rare values that the encoder was not fitted on.
        with naming_rows(rows, offset, lambda some: pilot.encode(est.read(some))), collect_unseen():
            moments_pass.add(est.read(rows), counter)
    return moments_pass.moments()
