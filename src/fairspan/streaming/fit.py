"""The passes of ``fit_stream``: a sample, moments, and for labels their likelihood."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import clone

from fairspan._system import kind_of_texts, row_progress
from fairspan.device.passes import for_precision, precision_for
from fairspan.encoding import table_encoder
from fairspan.exceptions import DataWarning, RowError, warn_user
from fairspan.inputs.columns import as_frame, is_float
from fairspan.inputs.config import read_config as check_parameters
from fairspan.inputs.rows import read_features, read_seed
from fairspan.method.data import Data
from fairspan.method.linalg import is_tensor
from fairspan.method.torch_columns import choose_precision
from fairspan.streaming.blocks import blocks, prefetch
from fairspan.streaming.checkpoint import Checkpoint
from fairspan.streaming.moments import LazyBlocks, Saved, describe, naming_rows, take_moments
from fairspan.streaming.open import open_source
from fairspan.streaming.rows import Rows
from fairspan.streaming.sample import SAMPLE_ROWS, Sample
from fairspan.streaming.sources import Source

# Rows of the sample per landmark, where these are many.
_PER_LANDMARK = 4
_NO_ROWS = "The source has no rows (or none with a weight); there is nothing to fit."
# A block of X takes about this much; its kernel columns are made a part at a time.
_BLOCK_BYTES, _MIN_ROWS, _MAX_ROWS = 2**26, 2**12, 2**16
_ON_DEVICE = 4  # there so many times as much


@dataclass(frozen=True)
class StreamPlan:
    """What the user asked for."""

    source: Any
    target: Any
    sensitive: Any
    control: Any
    features: Any
    weight: Any
    encoder: Any
    checkpoint: Any
    device: Any
    precision: str
    client: Any

    def open(self) -> Source:
        """The rows."""
        return open_source(
            self.source, self.target, self.sensitive, self.control, self.features, self.weight
        )

    def on_workers(self, source: Source) -> bool:
        """Whether Dask takes the passes."""
        return self.client is not None or source.parts[0].pieces is not None


def run_stream(est: Any, plan: StreamPlan) -> None:
    """Everything ``fit_stream`` does."""
    check_parameters(est)
    _refuse_what_cannot_stream(est, plan)
    saved = None if plan.checkpoint is None else Saved(Checkpoint(plan.checkpoint), est)
    source = plan.open()
    if not source.parts:
        raise ValueError(_NO_ROWS)
    _check_passes(est, source, plan)
    if saved is not None:
        order = "waves of parts" if plan.on_workers(source) else "blocks"
        saved.find(source, describe(plan.encoder), order)
    seed = int(read_seed(est.random_state).randint(2**31 - 1))
    seed = seed if saved is None or saved.seed is None else saved.seed
    est._start_fit()
    with _seeded(est, seed):
        size = _sample_size(est)
        if source.once:
            looked = _first_rows(est, source, size, seed, plan)
        else:
            looked = _look_at_all(est, source, size, seed, plan)
        digest = _freeze(est, looked, plan)
    if source.inferred:
        _warn_of_inferred(est, source, looked)
    if source.roles is not None:
        others = (*source.roles.sensitive, *source.roles.control)
        names = (*others, source.roles.target, source.roles.weight)
        est._sensitive_columns = tuple(name for name in names if name is not None)
    if saved is not None:
        saved.restore(est, seed, digest)
    size = block_rows(est, on_device=plan.device is not None or looked.on_device)
    take_moments(est, source, size, plan, saved)
    est.n_samples_seen_ = est._counter.position
    est._solve()
    if _looks_again(est):
        est._device = plan.device
        est.fit_head(LazyBlocks(source, size))
        del est._device


def block_rows(est: Any, *, on_device: bool = False) -> int:
    """Rows of a block, a power of two: the same for any partition, and for a resumed pass."""
    width, larger = max(int(est.n_features_in_), 1), _ON_DEVICE if on_device else 1
    rows = min(max(larger * _BLOCK_BYTES // (8 * width), _MIN_ROWS), larger * _MAX_ROWS)
    return 1 << (rows.bit_length() - 1)


def _refuse_what_cannot_stream(est: Any, plan: StreamPlan) -> None:
    if est.kernel == "precomputed" and est.feature_map is None:
        msg = (
            "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its own."
        )
        raise ValueError(msg)
    if isinstance(est.n_components, str) and est.n_components == "all":
        msg = (
            "n_components='all' keeps every row as a landmark, so it cannot stream. Give a number, or "
            "'auto'; `fit` takes 'all' for rows in memory."
        )
        raise ValueError(msg)
    if isinstance(plan.encoder, str) and plan.encoder not in ("auto", "table"):
        msg = (
            f"encoder={plan.encoder!r} is not allowed; give 'auto', 'table', a transformer or None."
        )
        raise ValueError(msg)
    if plan.precision not in ("auto", "float64", "float32"):
        msg = f"precision={plan.precision!r} is not allowed; give 'auto', 'float64' or 'float32'."
        raise ValueError(msg)
    if plan.precision != "auto" and plan.device is None:
        msg = f"precision={plan.precision!r} is that of moments on a device; pass device too."
        raise ValueError(msg)
    if plan.client is not None and plan.device is not None:
        msg = "client and device exclude each other: workers compute on their processors."
        raise ValueError(msg)
    if plan.device is not None and importlib.util.find_spec("torch") is None:
        msg = f'device={plan.device!r} needs torch: pip install "fairspan[torch]".'
        raise ImportError(msg)


def _looks_again(est: Any) -> bool:
    return getattr(est, "likelihood", "gaussian") == "logistic"


def _check_passes(est: Any, source: Source, plan: StreamPlan) -> None:
    if plan.device is not None and source.parts[0].pieces is not None:
        msg = "device is not for Dask collections, whose workers compute on their processors."
        raise ValueError(msg)
    if plan.client is not None and not source.for_workers:
        msg = (
            "client needs a source that workers can read by themselves: files, a pyarrow dataset of files, "
            "or a Dask collection (dask.array.from_array for an array)."
        )
        raise ValueError(msg)
    if source.once and _looks_again(est):
        msg = (
            "likelihood='logistic' reads the rows again after the moments, but the source is an iterator, "
            "which ends after once. Pass a function that returns a new one, a list or files; or use "
            "likelihood='gaussian'."
        )
        raise ValueError(msg)


@contextmanager
def _seeded(est: Any, seed: int) -> Iterator[None]:
    """A resumed fit must draw what the first one drew, also without a random_state."""
    given = est.random_state
    if not isinstance(given, int | np.integer):
        est.random_state = seed
    try:
        yield
    finally:
        est.random_state = given


# ------------------------------------------------------------------ the sample


def _sample_size(est: Any) -> int:
    wanted = 0 if isinstance(est.n_components, str) else int(est.n_components)
    return max(SAMPLE_ROWS, _PER_LANDMARK * wanted)


def _look_at_all(est: Any, source: Source, size: int, seed: int, plan: StreamPlan) -> Looker:
    """One pass over everything; a row that cannot be used is named before the moments begin."""
    looker = Looker(est, Sample(size, seed, crossed=est.intersectional), plan)
    if plan.on_workers(source):
        from fairspan.streaming.workers import sample_parts

        looker.sample = sample_parts(est, source, looker.sample, plan)
        return looker
    found = prefetch(blocks(source.parts, _MAX_ROWS))
    shown = row_progress("sample", source.n_rows, verbose=est.verbose)
    with shown as progress, closing(found):
        for place, rows in found:
            looker.look(place, rows)
            progress.advance(len(rows))
    return looker


class Looker:
    """Reads blocks as the pass over the moments will, and adds them to a sample."""

    def __init__(self, est: Any, sample: Sample, plan: StreamPlan) -> None:
        self.sample = sample
        self.precision, self.on_device = "float64", False
        self._probe, self._encoder = copy.copy(est), plan.encoder
        self._hashes = plan.checkpoint is not None  # nobody else asks whether the rows are the same
        self.known = self.encodes = False

    def look(self, place: int, rows: Rows) -> None:
        """Look at rows, the first of them at this place."""
        whole = rows
        # Decided once: gaps may change what a column of a later block looks like.
        if not self.known:
            self.encodes = wants_encoder(self._encoder, rows.X)
        if self.encodes:
            _refuse_infinity(rows, place)
            # What the encoder will make of X is not known yet.
            rows = replace(rows, X=np.zeros((len(rows), 1)))
        with naming_rows(self._probe, rows, place, coded=False):
            if not self.known:
                read_features(self._probe, rows.X, reset=True)
                self.known = True
            data = self._probe._read(*rows.arguments, reset=False)
        self.precision, self.on_device = precision_for(data.X), is_tensor(data.X)
        if self._hashes:
            own = _digest(data, place, whole.X if self.encodes else None)
            self.sample.digest = (self.sample.digest + own) % 2**64
        self.sample.add(place, whole, variables_of(data), data.index)


def variables_of(data: Data) -> dict[str, Any]:
    """Columns whose levels a sample looks after."""
    y = {} if data.y is None else {"y": data.y}
    return {"y": y, "sensitive": data.sensitive, "control": data.control}


def _first_rows(est: Any, source: Source, size: int, seed: int, plan: StreamPlan) -> Looker:
    """The sample of an iterator: its first rows, which are then put back in front of the rest."""
    sample = Sample(size, seed, crossed=est.intersectional)
    looker = Looker(est, sample, plan)
    part = source.parts[0]
    reading = part.read()
    kept: list[Rows] = []
    for rows in reading:
        # Not a row more, or the sample would depend on how the rows are cut.
        looker.look(sample.n_rows, rows.cut(0, min(len(rows), size - sample.n_rows)))
        kept.append(rows)
        if sample.n_rows >= size:
            break
    else:
        reading = iter(())

    def again() -> Iterator[Rows]:
        while kept:
            yield kept.pop(0)
        yield from reading

    part.read = again  # type: ignore[method-assign]
    if sample.n_rows >= size:
        warn_user(
            f"The source can be read only once, so landmarks, bandwidth, slice edges and category lists are "
            f"frozen on its first {sample.n_rows} rows. If these are not like the rest, pass a function "
            f"that returns a new iterator.",
            DataWarning,
        )
    return looker


def _freeze(est: Any, looked: Looker, plan: StreamPlan) -> str:
    """Encoder and pilot, from the sample; what tells the sample from others."""
    rows = looked.sample.rows()
    if rows is None:
        raise ValueError(_NO_ROWS)
    # On workers nobody looked here.
    if looked.encodes if looked.known else wants_encoder(plan.encoder, rows.X):
        frame = as_frame(rows.X, "X")
        if frame is None:
            msg = f"encoder={plan.encoder!r} needs data frames, and the blocks are arrays."
            raise ValueError(msg)
        table = isinstance(plan.encoder, str)
        encoder = table_encoder(rows.X) if table else clone(plan.encoder)
        est.encoder_ = encoder.fit(rows.X, rows.y)
        est.text_features_ = [name for name in frame.columns if not _is_number(frame[name])]
    data = est._read(*rows.arguments, reset=True)
    est._prepare(data, "position")
    precision = looked.precision
    if plan.device is not None:
        precision = choose_precision(plan.device, plan.precision)
    est.pilot_ = for_precision(est.pilot_, precision)
    est.moments_ = est.pilot_.empty_moments()
    return f"{looked.sample.digest:016x} of {looked.sample.n_rows} rows"


def _warn_of_inferred(est: Any, source: Source, looked: Looker) -> None:
    """Warn of columns of CSV files that are numbers or dates as text, or codes as numbers."""
    rows = looked.sample.rows()
    frame: Any = None if rows is None else as_frame(rows.X, "X")
    for name in getattr(est, "text_features_", ()) if frame is not None else ():
        texts = [str(value) for value in frame[name].drop_nulls().to_list()]
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
                f"they are codes, give a pyarrow.dataset whose schema has the column as text.",
                DataWarning,
            )


def _digest(data: Data, place: int, table: Any) -> int:
    """Hash of a block: other rows, labels or groups are another fit. A tensor's features stay there."""
    out = hashlib.sha256(str(place).encode())
    data = replace(data.on_host(), X=data.X) if is_tensor(data.X) else data
    if table is None and not is_tensor(data.X):
        out.update(np.ascontiguousarray(data.X).tobytes())
    elif type(table).__module__.startswith("pandas"):
        from pandas.util import hash_pandas_object

        out.update(hash_pandas_object(table, index=False).to_numpy().tobytes())
    elif type(table).__module__.startswith("polars"):
        out.update(table.hash_rows().to_numpy().tobytes())
    for attributes in ({} if data.y is None else {"y": data.y}, data.sensitive, data.control):
        for name, one in attributes.items():
            out.update(name.encode())
            out.update(np.asarray(one.values).tobytes())
            out.update(np.asarray(one.missing).tobytes())
    if data.weights is not None:
        out.update(np.asarray(data.weights).tobytes())
    return int.from_bytes(out.digest()[:8], "little")


def _refuse_infinity(rows: Rows, place: int) -> None:
    """Gaps an encoder fills; infinity nothing can."""
    frame = as_frame(rows.X, "X")
    for name, kind in {} if frame is None else frame.schema.items():
        if not is_float(kind):
            continue
        assert frame is not None
        bad = np.flatnonzero(np.isinf(frame[name].to_numpy()))
        if len(bad):
            where = rows.place(int(bad[0]))
            raise RowError(*where, f"column {name!r} holds infinity (row {place + bad[0]} of all).")


def wants_encoder(encoder: Any, X: Any) -> bool:
    """Whether there is something to encode."""
    if encoder is None:
        return False
    if not isinstance(encoder, str) or encoder == "table":
        return True
    frame = as_frame(X, "X")
    if frame is None:
        return False
    return not all(_is_number(frame[name]) for name in frame.columns)


def _is_number(column: Any) -> bool:
    """Numbers and booleans; pandas holds booleans with gaps as objects."""
    if column.dtype == nw.Object:
        known = column.drop_nulls().to_list()
        return bool(known) and all(isinstance(value, bool | np.bool_) for value in known)
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)
