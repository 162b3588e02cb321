"""``fit_stream``: its arguments, its source, and its passes over the rows.

The passes take a sample, then the moments; a logistic likelihood reads the rows again.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from fairspan._system import kind_of_texts
from fairspan.device.passes import for_precision, start_pass
from fairspan.device.staging import Staging
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import as_frame
from fairspan.inputs.config import draw_seed
from fairspan.method.accumulate import RowPass
from fairspan.method.folds import move_to
from fairspan.method.linalg import accelerated, is_tensor
from fairspan.method.pilot import Pilot
from fairspan.method.torch_columns import choose_precision
from fairspan.streaming.arrow import ArrowSource, open_files
from fairspan.streaming.checkpoint import Checkpoint, SavedPass
from fairspan.streaming.csv_types import kept_types
from fairspan.streaming.dask import DaskEngine
from fairspan.streaming.engines import Engine
from fairspan.streaming.memory import ArraySource, IterableSource, refuse_sparse
from fairspan.streaming.rows import (
    PilotSample,
    Rows,
    StreamedEstimator,
    StreamedMoments,
    naming_rows,
)
from fairspan.streaming.sample import SAMPLE_ROWS, Sample, SamplePass, is_number, wants_encoder
from fairspan.streaming.sources import GivenRoles, Source, blocks, prefetch, read_blocks
from fairspan.streaming.spark import SparkEngine

# Another engine is one more module and one more entry. Dask is last: with a client it takes any source.
ENGINES: tuple[Engine, ...] = (SparkEngine(), DaskEngine())
FOLDS = ("auto", "position", "hash")
# Rows of the sample per landmark, if there are many landmarks.
_ROWS_PER_LANDMARK = 4
# Size of a block of X; its kernel columns are computed a part at a time.
_BLOCK_BYTES, _MIN_ROWS, _MAX_ROWS = 2**26, 2**12, 2**16
_DEVICE_FACTOR = 4  # blocks for a device are this many times as large
_NO_ROWS = "The source has no rows (or none with a weight); there is nothing to fit."


def open_source(
    source: Any,
    target: Any = None,
    sensitive: Any = None,
    control: Any = None,
    features: Any = None,
    weight: Any = None,
    *,
    groups: Any = None,
    soft: bool = False,
    text: Collection[str] = (),
    types: Mapping[str, str] | None = None,
) -> Source:
    """Open rows of any kind as a source, with the roles of their columns.

    Parameters
    ----------
    source : path, pattern or list of files; pyarrow dataset; iterable; array; Dask or Spark collection
        Parquet, CSV or Feather files; data frames or ``(X, y, S)`` blocks from a list, or from a
        function that starts anew; a ``numpy.memmap``; a Dask data frame or array; a Spark data frame.
    target, sensitive, control : str or list of str, optional
        Column names. Beside an array: arrays of as many rows, or numbers of its columns.
    features : list of str, optional
        Columns to learn from; all that have no other role if not given.
    weight : str, optional
        Column of weights.
    groups : str, optional
        Column of labels of rows that belong together.
    soft : bool, default=False
        Allow ``features`` to name columns although the blocks have no column names.
    text : collection of str
        Columns of CSV files to read as text, whatever their values are.
    types : mapping of str to str, optional
        Types of columns of CSV files: "number", "integer", "text", "boolean" or "date".

    Returns
    -------
    Source
    """
    given = GivenRoles(
        target=target,
        sensitive=sensitive,
        control=control,
        features=features,
        weight=weight,
        groups=groups,
    )
    return _open(source, given, soft=soft, text=text, types=types)


def _open(
    source: Any,
    given: GivenRoles,
    *,
    soft: bool = False,
    text: Collection[str] = (),
    types: Mapping[str, str] | None = None,
) -> Source:
    listed = source if isinstance(source, list | tuple) else [source]
    if listed and all(isinstance(item, str | os.PathLike) for item in listed):
        return ArrowSource(open_files(source), given, text=text, types=types, widen=True)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(source, pyarrow.Table):
        return ArrowSource(importlib.import_module("pyarrow.dataset").dataset(source), given)
    if pyarrow is not None and hasattr(source, "get_fragments"):
        return ArrowSource(source, given, text=text, types=types)
    if types:
        raise ValueError(
            "column_types is for CSV files; give other sources columns of these types."
        )
    for engine in ENGINES:
        if engine.recognises(source):
            return engine.open(source, given)
    refuse_sparse(source)
    if isinstance(source, np.ndarray) or is_tensor(source):
        return ArraySource(source, given)
    if not isinstance(source, list | tuple | dict) and as_frame(source, "source") is not None:
        return IterableSource([source], given, allow_unnamed=soft)
    if callable(source) or isinstance(source, Iterable):
        return IterableSource(source, given, allow_unnamed=soft)
    raise TypeError(
        f"A stream cannot come from {type(source).__name__}. Give a path, a pattern or a list of files "
        f"(Parquet, CSV), a pyarrow dataset, an iterable of frames or (X, y, S) blocks, a numpy.memmap, a "
        f"Dask collection, or a Spark data frame."
    )


def engine_of(source: Source, client: Any = None) -> Engine | None:
    """The engine that computes the passes over a source; None: the calling process does."""
    return next((engine for engine in ENGINES if engine.computes(source, client)), None)


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """Arguments of ``fit_stream``."""

    source: Any
    given: GivenRoles
    encoder: Any = "auto"
    checkpoint: Any = None
    device: Any = None
    precision: str = "auto"
    client: Any = None
    column_types: Any = None
    folds: str = "auto"

    def open(self) -> Source:
        """Open the source."""
        return _open(self.source, self.given, types=self.column_types)

    def by_content(self, source: Source) -> bool:
        """Whether rows are sampled and dealt into folds by their content, not by their position."""
        return self.folds == "hash" or not source.ordered

    @cached_property
    def move(self) -> Callable[[str, Any], Any] | None:
        """Moves arrays to the device; None if rows stay where they are."""
        if not Staging.suits(self.device):
            return None
        # An encoder reads the columns of a frame on the host.
        frames = self.encoder is None or (isinstance(self.encoder, str) and self.encoder == "auto")
        return Staging(self.device, frames=frames).move

    def check(self, est: StreamedEstimator) -> None:
        """Raise for arguments and parameters that cannot stream, before anything is read."""
        params, encoder, device = est.params, self.encoder, self.device
        if params["kernel"] == "precomputed" and params["feature_map"] is None:
            msg = "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its own."
            raise ValueError(msg)
        if isinstance(params["n_components"], str) and params["n_components"] == "all":
            raise ValueError(
                "n_components='all' keeps every row as a landmark, so it cannot stream. Give a number, or "
                "'auto'; `fit` takes 'all' for rows in memory."
            )
        if isinstance(encoder, str) and encoder not in ("auto", "table"):
            raise ValueError(
                f"encoder={encoder!r} is not allowed; give 'auto', 'table', a transformer or None."
            )
        if self.precision not in ("auto", "float64", "float32"):
            raise ValueError(
                f"precision={self.precision!r} is not allowed; give 'auto', 'float64' or 'float32'."
            )
        if self.precision != "auto" and device is None:
            msg = f"precision={self.precision!r} is that of moments on a device; pass device too."
            raise ValueError(msg)
        if self.folds not in FOLDS:
            raise ValueError(f"folds={self.folds!r} is not allowed; give one of {FOLDS}.")
        if self.folds == "position" and self.given.groups is not None:
            msg = "folds='position' would divide groups between folds; leave folds out, or give 'hash'."
            raise ValueError(msg)
        if self.client is not None and device is not None:
            msg = "client and device exclude each other: workers compute on their processors."
            raise ValueError(msg)
        if device is not None and importlib.util.find_spec("torch") is None:
            raise ImportError(f'device={device!r} needs torch: pip install "fairspan[torch]".')

    def check_source(self, est: StreamedEstimator, source: Source) -> None:
        """Raise if the source cannot be read as the arguments and the estimator need it."""
        if (engine := engine_of(source, self.client)) is not None:
            engine.check(source, device=self.device, checkpoint=self.checkpoint, client=self.client)
        if self.folds == "position" and not source.ordered:
            raise ValueError(
                f"folds='position' is not for {source.parts[0].name}, whose rows have no order; leave "
                f"folds out, or give 'hash'."
            )
        if source.single_pass and (est.reads_rows_again or est.chooses_rules):
            name, other = "likelihood='logistic'", "likelihood='gaussian'"
            if est.chooses_rules:
                name, other = "equalize='decisions'", "equalize='scores'"
            raise ValueError(
                f"{name} reads the rows again after the moments, but the source is an iterator, which can "
                f"be read only once. Pass a function that returns a new one, a list or files; or use "
                f"{other}."
            )


# --------------------------------------------------------------------------- the passes


def _check_device(device: Any, sensitive_kind: Any) -> None:
    """Raise if the machine does not have the device, or it cannot take this kind of S."""
    import torch

    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} needs a GPU and a build of torch with CUDA; this machine has no such GPU. "
            f"Leave device out to compute on the processor."
        )
    kinds = sensitive_kind.values() if isinstance(sensitive_kind, Mapping) else [sensitive_kind]
    if "probabilities" in kinds:
        raise ValueError(
            "sensitive_kind='probabilities' is computed on the processor; leave device out."
        )


def run_stream(est: StreamedEstimator, plan: StreamPlan) -> None:
    """Fit an estimator on a stream."""
    plan.check(est)
    file = None if plan.checkpoint is None else Checkpoint(plan.checkpoint)
    source = plan.open()
    if not source.parts:
        raise ValueError(_NO_ROWS)
    plan.check_source(est, source)
    if plan.device is not None:
        _check_device(plan.device, est.params["sensitive_kind"])
    with accelerated(plan.device):
        _run(est, plan, file, source)


def _run(est: StreamedEstimator, plan: StreamPlan, file: Checkpoint | None, source: Source) -> None:
    saved = None
    if file is not None:
        order = "blocks" if engine_of(source, plan.client) is None else "waves of parts"
        saved = SavedPass(file, est, source, plan.encoder, order)
    seed = draw_seed(est.params["random_state"])
    if saved is not None and saved.seed is not None:
        seed = saved.seed
    sample_pass = _take_sample(est, source, seed, plan)
    pilot = _prepare(est, source, sample_pass, seed, plan)
    if saved is None:
        start = StreamedMoments(pilot=pilot, moments=pilot.empty_moments(), position=0)
    else:
        sample = sample_pass.sample
        start = saved.restore(pilot, seed, f"{sample.digest:016x} of {sample.n_rows} rows")
    on_device = plan.device is not None or sample_pass.on_device
    size = block_rows(est.n_features, on_device=on_device)
    # With an encoder, a block without text may look like one of numbers.
    move = None if sample_pass.encodes else plan.move
    total = take_moments(est, source, size, plan, saved, start, move)
    one_block = total.position <= size and not source.single_pass
    est.finish(total, ArgumentBlocks(source, size), plan.device, one_block=one_block)


def block_rows(n_features: int, *, on_device: bool = False) -> int:
    """Rows of a block, a power of two: the same for any partition, and for a resumed pass."""
    factor = _DEVICE_FACTOR if on_device else 1
    rows = factor * _BLOCK_BYTES // (8 * max(n_features, 1))
    rows = min(max(rows, _MIN_ROWS), factor * _MAX_ROWS)
    return 1 << (rows.bit_length() - 1)


# --------------------------------------------------------------------------- the sample


def _take_sample(est: StreamedEstimator, source: Source, seed: int, plan: StreamPlan) -> SamplePass:
    """Sample all rows, or the first rows of an iterator."""
    wanted = est.params["n_components"]
    n_landmarks = 0 if isinstance(wanted, str) else int(wanted)
    size = max(SAMPLE_ROWS, _ROWS_PER_LANDMARK * n_landmarks)
    sample = Sample(
        size, seed, crossed=est.params["intersectional"], by_content=plan.by_content(source)
    )
    digest = plan.checkpoint is not None  # only a checkpoint compares the rows with earlier ones
    sample_pass = SamplePass(est, sample, plan.encoder, digest=digest)
    if source.single_pass:
        _sample_first_rows(source, sample_pass)
    elif (engine := engine_of(source, plan.client)) is not None:
        sample_pass.sample = engine.sample(
            est, source, sample, plan.client, encoder=plan.encoder, digest=digest
        )
    else:
        verbose, move = est.params["verbose"], plan.move
        with closing(
            read_blocks(source, _MAX_ROWS, "sample", verbose=verbose, move=move)
        ) as row_blocks:
            for offset, rows in row_blocks:
                sample_pass.add(offset, rows)
    return sample_pass


def _sample_first_rows(source: Source, sample_pass: SamplePass) -> None:
    """Sample the first rows of an iterator, and put them back in front of the others."""
    sample, part = sample_pass.sample, source.parts[0]
    reading = part.read()
    read_already: list[Rows] = []
    for rows in reading:
        # Cut at the size of the sample, which must not depend on how the rows are cut into blocks.
        n = min(len(rows), sample.size - sample.n_rows)
        sample_pass.add(sample.n_rows, rows.cut(0, n))
        read_already.append(rows)
        if sample.n_rows >= sample.size:
            break
    else:
        reading = iter(())

    def read_all() -> Iterator[Rows]:
        while read_already:
            yield read_already.pop(0)
        yield from reading

    part.read = read_all  # type: ignore[method-assign]
    if sample.n_rows >= sample.size:
        if sample.clusters is not None:
            raise ValueError(
                f"groups are counted over all rows before the fit, but the source is an iterator of more "
                f"than {sample.n_rows} rows, which can be read only once. Pass a function that returns a "
                f"new one, a list or files."
            )
        warn_user(
            f"The source can be read only once, so landmarks, bandwidth, slice edges and category lists are "
            f"frozen on its first {sample.n_rows} rows. If these are not like the rest, pass a function "
            f"that returns a new iterator.",
            DataWarning,
        )


def _prepare(
    est: StreamedEstimator, source: Source, sample_pass: SamplePass, seed: int, plan: StreamPlan
) -> Pilot:
    """Fit the encoder and freeze the pilot on the sample."""
    rows = sample_pass.sample.rows()
    if rows is None:
        raise ValueError(_NO_ROWS)
    encodes = sample_pass.encodes
    if encodes is None:  # workers took the sample
        encodes = wants_encoder(plan.encoder, rows.X)
    frame = as_frame(rows.X, "X")
    encoder, text_features = None, []
    if encodes:
        if frame is None:
            msg = f"encoder={plan.encoder!r} needs data frames, and the blocks are arrays."
            raise ValueError(msg)
        is_table = isinstance(plan.encoder, str)
        from fairspan.encoding import is_date, table_encoder  # late: much of scikit-learn

        encoder = table_encoder(rows.X) if is_table else clone(plan.encoder)
        encoder.fit(rows.X, rows.y)
        text_features = [
            name
            for name in frame.columns
            if not (is_number(frame.get_column(name)) or is_date(frame.get_column(name)))
        ]
    role_columns = None
    if (roles := source.roles) is not None:
        names = (*roles.sensitive, *roles.control, roles.target, roles.weight, roles.groups)
        role_columns = tuple(name for name in names if name is not None)
    pilot = est.prepare(
        PilotSample(
            rows=rows,
            seed=seed,
            encoder=encoder,
            text_features=text_features,
            role_columns=role_columns,
            clusters=sample_pass.sample.clusters,
            column_types=kept_types(source.types(), source.roles.features)
            if source.inferred and source.roles is not None
            else (),
            from_files=bool(source.files()),
            fold_rule="hash" if plan.by_content(source) else "position",
        )
    )
    if source.inferred:
        _warn_of_inferred_types(source, frame, text_features)
    precision = sample_pass.precision
    if plan.device is not None:
        precision = choose_precision(plan.device, plan.precision)
    return for_precision(pilot, precision)


def _warn_of_inferred_types(source: Source, frame: Any, text_features: list[str]) -> None:
    """Warn of columns of CSV files that are numbers or dates as text, or codes as numbers."""
    for name in text_features:
        texts = [str(value) for value in frame.get_column(name).drop_nulls().to_list()]
        if (kind := kind_of_texts(texts)) is not None:
            warn_user(
                f"Column {name!r} holds {kind} as text, such as {texts[0]!r}; each different text is a "
                f"category. Write plain numbers (as 32.5; of dates, an age or a month) into the files, or "
                f"leave the column out of `features`.",
                DataWarning,
            )
    assert source.roles is not None
    for name, value in source.leading_zeros().items():
        if name in source.roles.features:
            warn_user(
                f"Column {name!r} is read as numbers, although values begin with 0, such as {value!r}. If "
                f"they are codes, pass column_types={{{name!r}: 'text'}}.",
                DataWarning,
            )


# --------------------------------------------------------------------------- the moments


def take_moments(
    est: StreamedEstimator,
    source: Source,
    size: int,
    plan: StreamPlan,
    saved: SavedPass | None,
    start: StreamedMoments,
    move: Callable[[str, Any], Any] | None = None,
) -> StreamedMoments:
    """Moments of all rows, from where a checkpoint ends; ``move`` moves arrays to the device."""
    if (engine := engine_of(source, plan.client)) is not None:
        return engine.moments(est, source, size, plan.client, saved, start)
    pilot, counter = start.pilot, start.pilot.counter()
    row_pass: RowPass | None = None
    row_blocks = read_blocks(
        source,
        size,
        "moments",
        verbose=est.params["verbose"],
        start=start.position,
        move=move,
    )
    try:
        with closing(row_blocks):
            for offset, rows in row_blocks:
                # Coding the rows, too, finds categories that are not in the sample.
                with naming_rows(rows.as_given, offset, lambda some: pilot.encode(est.read(some))):
                    data = est.read(rows)
                    if row_pass is None:
                        row_pass = start_pass(pilot, start.moments, device=plan.device, X=data.X)
                        row_pass.position = start.position
                    move_to(counter, offset)
                    row_pass.add(data, counter)
                if saved is not None:
                    saved.save_if_due(row_pass.moments, row_pass.position)
    except BaseException:
        # After an interrupt inside a block, the sums have a part of that block.
        if saved is not None and row_pass is not None and row_pass.complete:
            saved.save(row_pass.moments, row_pass.position)
        raise
    if row_pass is None:  # the checkpoint is of all rows
        return start
    smallest, moments = row_pass.check(), row_pass.moments()
    if saved is not None:
        saved.save(lambda: moments, counter.position)
    return replace(start, moments=moments, position=counter.position, smallest_eigenvalue=smallest)


class ArgumentBlocks:
    """Blocks of a source as arguments of ``fit``, read anew by every ``iter()``."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._size = source, size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _, rows in prefetch(blocks(self._source.parts, self._size)):
            yield rows.by_argument
