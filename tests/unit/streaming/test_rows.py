"""Blocks are cut at multiples of their size, whatever the parts; readers end with their reader."""

import gc
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.streaming import Part, Rows, Span, blocks, join, prefetch


@dataclass
class Numbers(Part):
    """Rows whose X is their place among all."""

    first: int = 0
    pieces: tuple = ()

    def read(self):
        row = 0
        for n in self.pieces:
            X = np.arange(self.first + row, self.first + row + n, dtype=float)[:, None]
            yield Rows(X, X[:, 0], None, None, None, (Span(self.name, row, n),))
            row += n


def parts_of(sizes, *, known=True):
    out, first = [], 0
    for i, pieces in enumerate(sizes):
        n = sum(pieces)
        part = Numbers(f"part {i}", n if known else None, first=first, pieces=tuple(pieces))
        out.append(part)
        first += n
    return out, first


SIZES = st.lists(st.lists(st.integers(1, 30), max_size=4), max_size=6)


@given(SIZES, st.integers(1, 40), st.booleans(), st.data())
def test_blocks_are_cut_at_multiples_of_their_size(sizes, size, known, data):
    parts, n = parts_of(sizes, known=known)
    start = data.draw(st.integers(0, n))
    found = list(blocks(parts, size, start=start))
    assert [place for place, _ in found] == [start, *range(start - start % size + size, n, size)][
        : len(found)
    ]
    rows = np.concatenate([np.empty(0), *(block.y for _, block in found)])
    np.testing.assert_array_equal(rows, np.arange(start, n))
    assert all(len(block) and (place + len(block)) % size == 0 for place, block in found[:-1])
    edges = np.cumsum([0, *(sum(pieces) for pieces in sizes)])
    for _, block in found:
        for i, value in enumerate(block.y):
            name, row = block.place(i)
            assert edges[int(name.split()[1])] + row == value
    assert all(part.n_rows == sum(pieces) for part, pieces in zip(parts, sizes, strict=True))


def test_parts_before_the_start_are_not_read():
    parts, _ = parts_of([[10], [10], [10]])
    parts[0].read = parts[1].read = None
    assert [place for place, _ in blocks(parts, 8, start=20)] == [20, 24]


def test_a_part_that_changed_is_named():
    parts, _ = parts_of([[5], [7]])
    parts[1].n_rows = 9
    with pytest.raises(ValueError, match="part 1 had 9 rows and now has 7: it changed"):
        list(blocks(parts, 4))


def test_rows_join_and_cut_with_their_places():
    parts, n = parts_of([[3, 4], [5]])
    whole = join([rows for part in parts for rows in part.read()])
    assert len(whole) == n
    piece = whole.cut(2, 9)
    assert [piece.place(i) for i in (0, 1, 4, 5, 6)] == [
        ("part 0", 2), ("part 0", 3), ("part 0", 6), ("part 1", 0), ("part 1", 1),
    ]  # fmt: skip


def test_one_weight_for_a_block_is_not_that_of_the_next():
    X = np.zeros((2, 1))
    both = join([Rows(X, None, None, None, 1.0), Rows(X, None, None, None, 5.0)])
    np.testing.assert_array_equal(both.weight, [1.0, 1.0, 5.0, 5.0])


def readers():
    return [t for t in threading.enumerate() if t.name == "fairspan-reader"]


def no_reader_left():
    gc.collect()
    deadline = time.monotonic() + 5
    while readers() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not readers()


def test_items_arrive_in_order_and_the_thread_ends():
    assert list(prefetch(range(100))) == list(range(100))
    assert no_reader_left()


def test_an_error_while_reading_arrives_after_the_items_before_it():
    def items():
        yield 1
        raise OSError("no more")

    stream = prefetch(items())
    assert next(stream) == 1
    with pytest.raises(OSError, match="no more"):
        next(stream)
    assert no_reader_left()


def test_whoever_stops_early_ends_the_thread():
    stream = prefetch(iter(int, 1))
    next(stream)
    stream.close()
    assert no_reader_left()


def test_reading_is_no_more_than_the_depth_ahead():
    read = []

    def items():
        for i in range(100):
            read.append(i)
            yield i

    stream = prefetch(items(), depth=2)
    next(stream)
    time.sleep(0.3)
    assert len(read) <= 5
    stream.close()


HELD = {
    "array": lambda v: v,
    "masked": lambda v: np.ma.masked_array(v, mask=v > 1.0),
    "mapping": lambda v: {"s": v, "t": 2.0 * v},
    "pandas": lambda v: pytest.importorskip("pandas").DataFrame({"s": v}),
    "polars series": lambda v: pytest.importorskip("polars").Series("s", v),
}


def polars_frame(**columns):
    """A function that makes the frame, so that tests are collected without polars."""
    return lambda: pytest.importorskip("polars").DataFrame(columns)


def as_columns(held):
    if isinstance(held, dict):
        return {name: np.asarray(one).tolist() for name, one in held.items()}
    if isinstance(held, np.ma.MaskedArray):
        return held.tolist()  # None where masked
    return np.asarray(held).tolist()


@pytest.mark.parametrize("kind", HELD)
def test_blocks_that_are_joined_are_the_rows_in_one(kind, rng):
    values, hold = rng.normal(size=50), HELD[kind]
    parts = [Rows(v[:, None], v, hold(v), None, 2.0) for v in (values[:7], values[7:8], values[8:])]
    found = join(parts)
    assert type(found.sensitive) is type(hold(values))
    assert as_columns(found.sensitive) == as_columns(hold(values))
    np.testing.assert_array_equal(found.weight, np.full(50, 2.0))


def test_categories_of_polars_are_joined_as_text():
    pl = pytest.importorskip("polars")
    parts = [
        Rows(pl.DataFrame({"a": pl.Series(text, dtype=pl.Categorical)}), None, None, None, None)
        for text in (["x", "y"], ["z", "x"])
    ]
    assert join(parts).X["a"].to_list() == ["x", "y", "z", "x"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (np.ones(3), None, "others do not"),
        (np.ones(3), {"s": np.ones(3)}, "differ in type between blocks"),
        ({"s": np.ones(3)}, {"t": np.ones(3)}, r"\['s'\] and \['t'\]"),
        (polars_frame(s=[1]), polars_frame(t=[1]), "differ in name or type"),
        (polars_frame(s=[1]), polars_frame(s=["a"]), "numbers in one block and text"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(first, second, words):
    held = [one() if callable(one) else one for one in (first, second)]
    parts = [Rows(np.ones((3, 1)), None, one, None, None) for one in held]
    with pytest.raises(ValueError, match=words):
        join(parts)


def test_a_row_beyond_what_is_known_has_no_file():
    assert Rows(np.ones((2, 1)), None, None, None, None).place(1) == ("", 1)
