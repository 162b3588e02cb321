"""Predictions on streams: columns to keep, and errors about them."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import pyarrow.parquet as pq  # noqa: E402
from tests.support.stream_data import FEATURES, NAMED, cut, ridge, table  # noqa: E402

from fairspan import RowError  # noqa: E402
from fairspan.streaming import predict as _stream_predict  # noqa: E402

ROWS = table(300)


def test_predictions_beside_columns_of_polars_are_those_of_pandas(tmp_path):
    model = ridge().fit_stream(ROWS, **NAMED)
    for name, source in (("pandas", ROWS), ("polars", pl.from_pandas(ROWS))):
        model.predict_stream(source, tmp_path / name, keep=["sex", "y"])
    a, b = (pq.read_table(tmp_path / name) for name in ("pandas", "polars"))
    assert a.equals(b)
    np.testing.assert_array_equal(a["prediction"], model.predict(ROWS[FEATURES]))


def test_a_column_to_keep_that_is_not_there_is_called_by_its_argument(tmp_path):
    model = ridge().fit_stream(ROWS, **NAMED)
    ROWS.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"^keep names the column 'nobody'"):
        model.predict_stream(tmp_path / "rows.parquet", tmp_path / "out", keep=["nobody"])
    assert not (tmp_path / "out").exists()


X = ROWS[FEATURES].to_numpy()


@pytest.fixture(scope="module")
def model():
    return ridge().fit_stream(ROWS, **NAMED)


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
