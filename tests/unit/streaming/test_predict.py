"""Predictions written beside columns of the source."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import pyarrow.parquet as pq  # noqa: E402
from tests.support.stream_data import FEATURES, NAMED, ridge, table  # noqa: E402

ROWS = table(300)
X, Y, S = ROWS[FEATURES], ROWS["y"], ROWS["sex"]


def test_predictions_beside_columns_of_polars_are_those_of_pandas(tmp_path):
    model = ridge().fit_stream(ROWS, **NAMED)
    for name, source in (("pandas", ROWS), ("polars", pl.from_pandas(ROWS))):
        model.predict_stream(source, tmp_path / name, keep=["sex", "y"])
    a, b = (pq.read_table(tmp_path / name) for name in ("pandas", "polars"))
    assert a.equals(b)
    np.testing.assert_array_equal(a["prediction"], model.predict(X))


def test_a_column_to_keep_that_is_not_there_is_called_by_its_argument(tmp_path):
    model = ridge().fit_stream(ROWS, **NAMED)
    ROWS.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"^keep names the column 'nobody'"):
        model.predict_stream(tmp_path / "rows.parquet", tmp_path / "out", keep=["nobody"])
    assert not (tmp_path / "out").exists()
