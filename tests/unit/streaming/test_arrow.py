"""Errors about files, in the words of the call and not of Arrow."""

import os
import sys

import pytest

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import pyarrow.dataset as ds  # noqa: E402
import pyarrow.feather as feather  # noqa: E402
from tests.support.stream_data import NAMED, ridge, table  # noqa: E402

from fairspan.streaming import arrow as _arrow  # noqa: E402
from fairspan.streaming import dask as _stream_dask  # noqa: E402

ROWS = table(300)


# ------------------------------------------------------------------ files


def truncate(path, n=600):
    path.write_bytes(path.read_bytes()[:n])


def plain_os_error(caught, *words):
    """Ours: no class of Arrow's, one line, with the file's name."""
    assert type(caught.value) is OSError
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
@pytest.mark.parametrize("opened", [True, False])
def test_a_damaged_second_file_is_named(kind, opened, tmp_path):
    first, second = (tmp_path / f"{name}.{kind}" for name in ("good", "bad"))
    for path in (first, second):
        if kind == "csv":
            ROWS.to_csv(path, index=False)
        else:
            (ROWS.to_parquet if kind == "parquet" else lambda p: feather.write_feather(ROWS, p))(
                path
            )
    files = [str(first), str(second)]
    source = ds.dataset(files, format=kind) if opened else files
    if kind == "csv":
        second.write_text("a,b\n1\n")
    else:
        truncate(second)
    with pytest.raises(OSError, match="cannot be") as caught:
        ridge().fit_stream(source, **NAMED)
    plain_os_error(caught, f"{second} cannot be opened: ")


def test_a_file_that_is_gone_since_it_was_opened_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)
    source = ds.dataset(str(path))
    os.remove(path)
    with pytest.raises(OSError, match="cannot be") as caught:
        ridge().fit_stream(source, **NAMED)
    plain_os_error(caught, f"{path} cannot be opened: ")


@pytest.mark.parametrize("kind", [pa.int8(), pa.struct([("q", pa.int64())])])
def test_a_type_that_the_file_cannot_have_is_said_with_its_rows(kind, tmp_path):
    """Arrow's errors of casts are a ValueError here and a NotImplementedError there."""
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)
    declared = ds.dataset(str(path)).schema
    place = declared.get_field_index("b")
    source = ds.dataset(str(path), schema=declared.set(place, pa.field("b", kind)))
    with pytest.raises(OSError, match="cannot be") as caught:
        ridge().fit_stream(source, **NAMED)
    plain_os_error(caught, f"{path}, row group 0: rows from 0 on cannot be read: ")


def test_a_column_that_a_file_lacks_is_still_an_error_of_the_columns(tmp_path):
    for name, frame in (("a", ROWS), ("b", ROWS.drop(columns="c"))):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    files = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    with pytest.raises(ValueError, match=r"b\.parquet: the column 'c' is missing"):
        ridge().fit_stream(files, **NAMED)


# ------------------------------------------------------------------ keep


# ------------------------------------------------------------------ settings


# ------------------------------------------------------------------ far from 0


def absent(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_a_feather_file_that_lost_its_end_is_named(tmp_path):
    path = tmp_path / "rows.feather"
    ROWS.to_feather(path)
    _arrow._check_batches(str(path))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(OSError, match=r"rows\.feather cannot be opened"):
        _arrow._check_batches(str(path))


def test_an_error_in_what_reads_rows_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)

    def broken(batch):
        raise ValueError("of my own")

    monkeypatch.setattr(_arrow, "frame_of", broken)
    with pytest.raises(ValueError, match=r"^of my own$"):
        ridge().fit_stream(path, **NAMED)


def test_without_pandas_rows_of_arrow_are_polars(monkeypatch):
    batch = pa.table({"a": [1, 2], "b": ["x", None]})
    assert isinstance(_arrow.frame_of(batch), pd.DataFrame)
    absent(monkeypatch, "pandas")
    found = _arrow.frame_of(batch)
    assert isinstance(found, pl.DataFrame)
    assert found.to_dict(as_series=False) == {"a": [1, 2], "b": ["x", None]}
    absent(monkeypatch, "polars")
    with pytest.raises(ImportError, match=r'pandas or polars: pip install "fairspan\[stream\]"'):
        _arrow.frame_of(batch)


def test_what_is_absent_is_named_with_the_remedy(monkeypatch):
    absent(monkeypatch, "pyarrow.dataset")
    with pytest.raises(ImportError, match=r'Reading needs pyarrow.*"fairspan\[stream\]"'):
        _arrow.require_pyarrow("Reading")
    absent(monkeypatch, "dask")
    with pytest.raises(ImportError, match=r'needs Dask: pip install "fairspan\[dask\]"'):
        _stream_dask._import_dask()
