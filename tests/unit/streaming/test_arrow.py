"""Streams speak in the words of the call: of files, columns to keep and settings, not of Arrow."""

import os
import sys

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import pyarrow.dataset as ds  # noqa: E402
import pyarrow.feather as feather  # noqa: E402
from tests.support.stream_data import FEATURES, NAMED, cut, ridge, table  # noqa: E402

from fairspan import FairspanWarning, RowError  # noqa: E402
from fairspan.streaming import arrow as _arrow  # noqa: E402
from fairspan.streaming import dask as _stream_dask  # noqa: E402
from fairspan.streaming import predict as _stream_predict  # noqa: E402

ROWS = table(300)
X = ROWS[FEATURES].to_numpy()


@pytest.fixture(scope="module")
def model():
    return ridge().fit_stream(ROWS, **NAMED)


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

FRAMES = {
    "frame": lambda path: ROWS,  # noqa: ARG005
    "blocks": lambda path: cut(ROWS, [100]),  # noqa: ARG005
    "function": lambda path: lambda: iter(cut(ROWS, [100])),  # noqa: ARG005
    "polars": lambda path: pl.from_pandas(ROWS),  # noqa: ARG005
    "table": lambda path: pa.Table.from_pandas(ROWS),  # noqa: ARG005
    "file": str,
}


@pytest.mark.parametrize("source", FRAMES)
@pytest.mark.parametrize(
    ("keep", "says"),
    [
        ("nobody", "keep names the column 'nobody', which is not there"),
        (3, "keep=3 is not allowed"),
        (["a", "a"], r"keep=\['a', 'a'\] is not allowed"),
        ("control_features", "keep names the column 'control_features', which is not there"),
    ],
)
def test_what_cannot_be_kept_is_said_of_keep(source, keep, says, model, tmp_path):
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)
    with pytest.raises(ValueError, match=rf"^{says}"):
        model.predict_stream(FRAMES[source](path), tmp_path / "p.parquet", keep=keep)
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.parametrize("block", [X, (X, None, None), {"X": X}])
def test_blocks_without_names_have_nothing_to_keep(block, model, tmp_path):
    says = "^block 0 has no column names, so keep cannot name one; leave keep out"
    with pytest.raises(ValueError, match=says):
        model.predict_stream([block], tmp_path / "p.parquet", keep="id")


def test_errors_of_rows_and_features_keep_their_words(model, tmp_path):
    gap = ROWS.copy()
    gap.loc[7, "a"] = np.nan
    with pytest.raises(RowError, match="row 7"):
        model.predict_stream(gap, tmp_path / "p.parquet", keep="sex")
    with pytest.raises(ValueError, match=r"^features names the column 'z'"):
        model.predict_stream([ROWS], tmp_path / "p.parquet", keep="sex", features=["z"])


@pytest.mark.parametrize("hand_over", [lambda frame: frame, pl.from_pandas])
@pytest.mark.parametrize("later", ["text", 1.5])
def test_a_kept_column_that_changes_its_type_is_named(
    hand_over, later, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(_stream_predict, "_BLOCK_ROWS", len(ROWS))
    blocks = [hand_over(ROWS.assign(k=1)), hand_over(ROWS.assign(k=later))]
    with pytest.raises(
        ValueError, match=r"^keep names 'k', whose values are not all of type int64"
    ) as e:
        model.predict_stream(blocks, tmp_path / "p.parquet", keep="k")
    assert type(e.value) is ValueError
    assert list(tmp_path.iterdir()) == []


def test_a_kept_column_of_mixed_types_is_named(model, tmp_path):
    mixed = ROWS.assign(k=pd.Series([1, "u"] * (len(ROWS) // 2), dtype=object))
    with pytest.raises(
        ValueError, match=r"^keep names 'k', whose values are not all of one type"
    ) as e:
        model.predict_stream(mixed, tmp_path / "p.parquet", keep="k")
    assert type(e.value) is ValueError


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("settings", "given", "says"),
    [
        ({}, {"sensitive_features": None}, "fit needs the protected attributes"),
        ({"criterion": "conditional_statistical_parity"}, {}, "criterion='conditional"),
        ({}, {"control_features": "c"}, "control_features was given, but"),
    ],
)
def test_no_row_is_blamed_for_a_setting(settings, given, says):
    with pytest.raises(ValueError, match=rf"^{says}") as caught:
        ridge(**settings).fit_stream(ROWS, **{**NAMED, **given})
    assert not isinstance(caught.value, RowError)


@pytest.mark.parametrize("bad", [[0], [0, 299], [41, 150], list(range(0, 300, 7))])
def test_a_row_is_named_also_where_others_are_bad_too(bad):
    gaps = ROWS.copy()
    gaps.loc[bad, "y"] = np.nan
    with pytest.raises(RowError) as caught:
        ridge().fit_stream(gaps, **NAMED)
    assert caught.value.row == bad[0]


# ------------------------------------------------------------------ far from 0


@pytest.mark.parametrize("offset", [0.0, 1e6, 3e8, 1e10])
def test_what_rounding_leaves_far_from_zero_is_said_with_its_amount(offset, recwarn):
    """Linear functions are right to about eps times the offset; beyond half the digits it is said."""
    frame = ROWS[FEATURES].to_numpy() + offset
    s = ROWS["sex"].to_numpy()
    model = ridge(kernel="linear", gamma="cv", n_components="auto").fit(
        frame, ROWS["y"], sensitive_features=s
    )
    left = abs(np.corrcoef(model.predict(frame), s)[0, 1])
    spread = frame.std(axis=0)
    about = float(np.max(np.abs(frame.mean(axis=0)) / spread)) * np.finfo(float).eps
    assert left <= max(2.0 * about, 1e-12)
    said = [str(w.message) for w in recwarn if issubclass(w.category, FairspanWarning)]
    amounts = [text for text in said if "standard deviations from 0" in text]
    if offset < 1e8:
        assert amounts == []
    else:
        assert len(amounts) == 1
        assert f"up to about {about:.0e}" in amounts[0]
        assert "Standardise first" in amounts[0]


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
