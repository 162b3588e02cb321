"""One model for one set of rows, however they are stored, cut and dealt out."""

import copy
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import FairGPClassifier
from fairspan.streaming import arrow as _arrow
from fairspan.streaming import memory as _memory
from tests.support.strategies import gap
from tests.support.stream_data import (
    FEATURES,
    FIXED,
    NAMED,
    NAMED_SOURCES,
    NAMELESS_SOURCES,
    N,
    arrays,
    cut,
    in_memory,
    labelled,
    moments_of_block,
    outputs,
    ridge,
    small_blocks,
    table,
)

for needed in ("pyarrow", "polars"):
    pytest.importorskip(needed)

ROWS = table()


@pytest.fixture(scope="module", autouse=True)
def small():
    with small_blocks() as patch:
        yield patch


@pytest.fixture(scope="module")
def one_frame(small):
    """The fit of one frame, with nothing and with everything chosen automatically."""
    return {a: ridge(alpha=a).fit_stream(ROWS, **NAMED) for a in (1.0, "auto")}


def assert_same(model, other, frame=ROWS):
    """Bit for bit: landmarks, choices and predictions."""
    np.testing.assert_array_equal(model.landmarks_, other.landmarks_)
    assert model.alpha_ == other.alpha_
    assert model.moments_.n_rows == other.moments_.n_rows
    X = frame[FEATURES].to_numpy()
    np.testing.assert_array_equal(*(without_names(one).predict(X) for one in (model, other)))


def without_names(model):
    """A copy that takes arrays silently: names are not part of the law."""
    out = copy.copy(model)
    out.__dict__.pop("feature_names_in_", None)
    return out


@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize(
    "kind",
    NAMED_SOURCES,
)
def test_named_sources_end_in_the_model_of_one_frame(kind, alpha, one_frame, tmp_path):
    model = ridge(alpha=alpha).fit_stream(NAMED_SOURCES[kind](ROWS, tmp_path), **NAMED)
    assert model.feature_names_in_.tolist() == FEATURES
    assert_same(model, one_frame[alpha])


@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("kind", NAMELESS_SOURCES)
def test_sources_without_names_end_in_the_same_model(kind, alpha, one_frame, tmp_path):
    source, roles = NAMELESS_SOURCES[kind](ROWS, tmp_path)
    assert_same(ridge(alpha=alpha).fit_stream(source, **roles), one_frame[alpha])


@given(st.sets(st.integers(0, N), max_size=8), st.sampled_from(["frames", "blocks", "function"]))
@settings(max_examples=25)
def test_any_cuts_end_in_the_same_model(one_frame, cuts, kind):
    pieces = cut(ROWS, cuts)
    if kind == "blocks":
        model = ridge().fit_stream([arrays(piece) for piece in pieces])
    else:
        model = ridge().fit_stream(pieces if kind == "frames" else lambda: iter(pieces), **NAMED)
    assert_same(model, one_frame[1.0])


@pytest.mark.parametrize("rows", [64, 101])
def test_how_many_rows_are_read_at_once_does_not_matter(rows, one_frame, tmp_path, monkeypatch):
    for module in (_arrow, _memory):
        monkeypatch.setattr(module, "_READ_ROWS", rows)
    for kind in ("Parquet file", "CSV", "Arrow table"):
        model = ridge().fit_stream(NAMED_SOURCES[kind](ROWS, tmp_path), **NAMED)
        assert_same(model, one_frame[1.0])
    source, roles = NAMELESS_SOURCES["memmap, columns"](ROWS, tmp_path)
    assert_same(ridge().fit_stream(source, **roles), one_frame[1.0])


@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_a_stream_is_a_sample_and_all_rows_in_memory(alpha, one_frame):
    model = in_memory(ridge(alpha=alpha), *arrays(ROWS))
    stream = one_frame[alpha]
    np.testing.assert_array_equal(stream.landmarks_, model.landmarks_)
    assert stream.alpha_ == pytest.approx(model.alpha_, rel=1e-9)
    assert gap(outputs(stream, ROWS), model.predict(arrays(ROWS)[0])) < 1e-9


def test_in_one_block_it_is_that_bit_for_bit():
    with small_blocks(block=2**16):
        stream = ridge().fit_stream(ROWS, **NAMED)
        assert_same(stream, in_memory(ridge(), *arrays(ROWS)))


@pytest.mark.parametrize("block", [64, 1000])
def test_the_size_of_blocks_is_rounding(block, one_frame):
    with small_blocks(block=block):
        model = ridge(alpha="auto").fit_stream(ROWS, **NAMED)
    np.testing.assert_array_equal(model.landmarks_, one_frame["auto"].landmarks_)
    assert model.alpha_ == pytest.approx(one_frame["auto"].alpha_, rel=1e-9)
    assert gap(outputs(model, ROWS), outputs(one_frame["auto"], ROWS)) < 1e-9


def test_roles_and_order_of_columns(one_frame, tmp_path):
    shuffled = ROWS[["y", "c", "sex", "a", "b"]].assign(note="x")
    model = ridge().fit_stream(shuffled, **NAMED, features=FEATURES)
    assert_same(model, one_frame[1.0])
    per_block = [ROWS[:500], ROWS[500:][["y", "c", "sex", "a", "b"]]]
    assert_same(ridge().fit_stream(per_block, **NAMED), one_frame[1.0])


def test_folders_that_are_named_by_a_column(tmp_path):
    """S in the names of folders, as Spark and Hive write it; other files beside are passed over."""
    import pyarrow
    import pyarrow.dataset

    ordered = ROWS.sort_values("sex", kind="stable")
    pyarrow.dataset.write_dataset(
        pyarrow.Table.from_pandas(ordered, preserve_index=False),
        tmp_path,
        format="parquet",
        partitioning=["sex"],
        partitioning_flavor="hive",
    )
    (tmp_path / "_SUCCESS").write_text("")
    assert_same(ridge().fit_stream(tmp_path, **NAMED), ridge().fit_stream(ordered, **NAMED))


# --------------------------------------------------------------------------- iterators


def test_an_iterator_is_frozen_on_its_first_rows():
    with pytest.warns(match=r"frozen on its first 400 rows"):
        model = ridge().fit_stream(iter(cut(ROWS, [400, 900])), **NAMED)
    landmarks = {tuple(row) for row in model.landmarks_}
    assert landmarks <= {tuple(row) for row in ROWS[FEATURES].to_numpy()[:400]}
    assert model.n_samples_seen_ == N


def test_a_short_iterator_is_a_list(one_frame):
    with small_blocks(sample=N + 1):
        whole = ridge().fit_stream(ROWS, **NAMED)
        assert_same(ridge().fit_stream(iter(cut(ROWS, [5, 700])), **NAMED), whole)


@pytest.mark.filterwarnings("ignore:The source can be read only once")
def test_cuts_of_an_iterator_do_not_matter():
    first = ridge().fit_stream(iter(cut(ROWS, [400])), **NAMED)
    assert_same(ridge().fit_stream(iter(cut(ROWS, [500])), **NAMED), first)


# --------------------------------------------------------------------------- workers


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def in_pool(pool, prepared, frame, cuts):
    """Workers on blocks of any sizes, added up in any order."""
    pieces, starts = cut(frame, cuts), [0, *sorted(cuts)]
    jobs = [
        pool.submit(moments_of_block, prepared, *job) for job in zip(pieces, starts, strict=True)
    ]
    workers = [job.result() for job in jobs][::-1]
    out = workers[0]
    for worker in workers[1:]:
        out.merge(worker, solve=False)
    return out.solve()


@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_workers_that_say_where_they_begin_end_in_the_model_of_one_pass(alpha, pool):
    X, y, S = arrays(ROWS)
    prepared = ridge(alpha=alpha).prepare(
        X[:300], y[:300], sensitive_features=S[:300], folds="position"
    )
    merged = in_pool(pool, prepared, ROWS, [123, 124, 800])
    one = prepared.partial_fit(X, y, sensitive_features=S)
    assert merged.moments_.n_rows == N
    assert merged.alpha_ == pytest.approx(one.alpha_, rel=1e-9)
    assert gap(merged.predict(X), one.predict(X)) < 1e-9


def test_a_second_pass_after_workers_is_held_out(pool):
    frame = labelled(800)
    X, y, S = arrays(frame)
    prepared = FairGPClassifier(**FIXED).prepare(
        X[:300], y[:300], sensitive_features=S[:300], folds="position"
    )
    merged = in_pool(pool, prepared, frame, [100, 500])
    blocks = [arrays(piece) for piece in cut(frame, [250, 251])]
    assert merged.fit_head(blocks).calibration_ == "held-out"
    one = prepared.partial_fit(X, y, sensitive_features=S).fit_head([(X, y, S)])
    assert gap(merged.predict_proba(X), one.predict_proba(X)) < 1e-6
