"""Streams: blocks that do not fit, files that cannot be opened, libraries that are absent."""

import importlib.util
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from tests.support.stream_data import FEATURES, FIXED, NAMED, cut, ridge, table  # noqa: E402

from fairspan import CheckpointError, FairGPClassifier, RowError  # noqa: E402
from fairspan._system import row_progress  # noqa: E402
from fairspan.streaming import Rows, Sample  # noqa: E402
from fairspan.streaming import arrow as _arrow  # noqa: E402
from fairspan.streaming import dask as _stream_dask  # noqa: E402
from fairspan.streaming.checkpoint import Checkpoint  # noqa: E402
from fairspan.streaming.estimator import locate_error, naming_rows  # noqa: E402
from fairspan.streaming.rows import join  # noqa: E402

ROWS = table(300)
X, Y, S = ROWS[FEATURES], ROWS["y"], ROWS["sex"]


def absent(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


# ------------------------------------------------------------------ blocks, one after the other

HELD = {
    "array": lambda v: v,
    "masked": lambda v: np.ma.masked_array(v, mask=v > 1.0),
    "mapping": lambda v: {"s": v, "t": 2.0 * v},
    "pandas": lambda v: pd.DataFrame({"s": v}),
    "polars series": lambda v: pl.Series("s", v),
}


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
        (pl.DataFrame({"s": [1]}), pl.DataFrame({"t": [1]}), "differ in name or type"),
        (pl.DataFrame({"s": [1]}), pl.DataFrame({"s": ["a"]}), "numbers in one block and text"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(first, second, words):
    parts = [Rows(np.ones((3, 1)), None, one, None, None) for one in (first, second)]
    with pytest.raises(ValueError, match=words):
        join(parts)


def test_columns_that_a_block_names_are_taken_from_its_features():
    blocks = [{"X": part[[*FEATURES, "sex"]], "y": part["y"]} for part in cut(ROWS, [100])]
    named = [{**block, "sensitive_features": "sex"} for block in blocks]
    expected = ridge().fit_stream(ROWS, **NAMED)
    found = ridge().fit_stream(named)
    assert found.feature_names_in_.tolist() == FEATURES
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_a_row_beyond_what_is_known_has_no_file():
    assert Rows(np.ones((2, 1)), None, None, None, None).place(1) == ("", 1)


def test_combinations_that_became_too_many_are_looked_for_no_longer(rng):
    """Each attribute has few levels, their combinations have more than are kept apart."""
    sample = Sample(50, 0, crossed=True)
    from fairspan.streaming.first_pass import variables_of

    est = ridge(intersectional=True)
    for start in (0, 3000):
        a, b, c = rng.integers(0, 40, (3, 3000))
        data = est._read(rng.normal(size=(3000, 1)), rng.normal(size=3000), {"a": a, "b": b, "c": c},
                         None, None, reset=True)  # fmt: skip
        rows = Rows(data.X, data.y.values, {"a": a, "b": b, "c": c}, None, None)
        sample.add(start, rows, variables_of(data), data.index)
    assert sample._levels["sensitive crossed"] is None
    assert sample._levels["sensitive a"] is not None
    assert len(sample.rows()) >= 50


# ------------------------------------------------------------------ files


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


def test_a_checkpoint_that_may_not_be_read_is_the_systems_error(tmp_path, monkeypatch):
    """It may be whole: to call it damaged would invite to delete it."""
    file = Checkpoint(tmp_path / "pass.npz")
    file.save({"a": 1}, {"x": np.ones(3)})

    def locked(*_):
        raise PermissionError("not yours")

    monkeypatch.setattr("pathlib.Path.open", locked)
    with pytest.raises(PermissionError, match="not yours"):
        file.load()


@pytest.mark.parametrize("features", ["linear", "rbf"])
def test_a_pass_goes_on_with_and_without_landmarks(features, tmp_path):
    params = {"kernel": "linear", "gamma": "cv"} if features == "linear" else {}
    expected = ridge(**params).fit_stream(ROWS, **NAMED).predict(X)
    for _ in range(2):  # the second finds all rows there
        model = ridge(**params).fit_stream(ROWS, **NAMED, checkpoint=tmp_path / "pass.npz")
        np.testing.assert_array_equal(model.predict(X), expected)


# ------------------------------------------------------------------ rows that cannot be read


@pytest.mark.parametrize("bad", [[], [0], [2, 9], [17]])
def test_the_first_bad_row_is_the_one_that_is_named(bad):
    rows = Rows(np.arange(18.0)[:, None], None, None, None, None)

    def read(some):
        if np.isin(some.X, bad).any():
            raise ValueError("bad")

    error = ValueError("of the block")
    found = locate_error(rows, 100, read, error)
    if bad:
        assert found.row == bad[0]
        assert f"Row {100 + bad[0]} of all" in str(found)
    else:
        assert found is error


def test_a_block_that_fails_only_together_keeps_its_own_error():
    rows = Rows(np.arange(6.0)[:, None], None, None, None, None)
    error = ValueError("too many at once")

    def read(some):
        if len(some) > 1:
            raise error

    assert locate_error(rows, 0, read, error) is error


@pytest.mark.parametrize("curvature", ["likelihood", "constant"])
def test_a_second_reading_without_rows_is_refused(curvature):
    labels = np.where(Y > 0.3, "yes", "no")
    model = FairGPClassifier(**FIXED, curvature=curvature).prepare(X, labels, sensitive_features=S)
    model.partial_fit(X, labels, sensitive_features=S)
    with pytest.raises(ValueError, match=r"fit_head was given no rows"):
        model.fit_head([])


@pytest.mark.parametrize("start", [-1, 1.5, True, "0"])
def test_a_place_is_a_whole_number(start):
    model = ridge().prepare(X, Y, sensitive_features=S, folds="position")
    with pytest.raises(ValueError, match=r"start=.*0 or more"):
        model.partial_fit(X, Y, sensitive_features=S, start=start)


def test_a_place_needs_folds_by_place():
    model = ridge().prepare(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match="folds='position'"):
        model.partial_fit(X, Y, sensitive_features=S, start=0)
    with pytest.raises(ValueError, match="'strata' or 'position'"):
        ridge().prepare(X, Y, sensitive_features=S, folds="random")


def test_an_error_that_names_its_row_keeps_it():
    rows = Rows(np.ones((3, 1)), None, None, None, None)
    with (
        pytest.raises(RowError, match="there, row 7: why"),
        naming_rows(rows, 0, len),
    ):
        raise RowError("there", 7, "why")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"precision": "half", "device": "cpu"}, ValueError, "'auto', 'float64' or 'float32'"),
        ({"precision": "float32"}, ValueError, "pass device too"),
        ({"device": "cpu"}, ImportError, r"needs torch: pip install \"fairspan\[torch\]\""),
    ],
)
def test_what_a_device_needs_is_said_before_any_row_is_read(given, error, words, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find(name, *a)
    )
    with pytest.raises(error, match=words):
        ridge().fit_stream(iter([]), **NAMED, **given)


@pytest.mark.parametrize("hand_over", [lambda frame: frame, pl.from_pandas])
def test_a_checkpoint_of_text_columns_knows_its_rows(hand_over, tmp_path):
    """Two rows exchange a word: counts, and mostly landmarks, are the same, the rows are not."""
    frame = ROWS.assign(town=np.where(ROWS["a"] > 0, "x", "z"))
    source, file = hand_over(frame), tmp_path / "pass.npz"
    first = ridge().fit_stream(source, **NAMED, checkpoint=file).predict(source)
    again = ridge().fit_stream(source, **NAMED, checkpoint=file)
    np.testing.assert_array_equal(again.predict(source), first)
    x, z = (np.flatnonzero(frame["town"] == name) for name in "xz")
    for k in range(3):
        other = frame.copy()
        other.loc[[x[k], z[k]], "town"] = ["z", "x"]
        with pytest.raises(CheckpointError, match="are others"):
            ridge().fit_stream(hand_over(other), **NAMED, checkpoint=file)


# ------------------------------------------------------------------ Dask


def test_dask_collections_that_cannot_be_streamed_are_refused():
    da = pytest.importorskip("dask.array")
    bag = pytest.importorskip("dask.bag")
    given = {"target": Y.to_numpy(), "sensitive_features": S.to_numpy()}
    for source in (bag.from_sequence([1, 2]), da.ones((3, 3, 3))):
        with pytest.raises(TypeError, match="a data frame, or a matrix"):
            ridge().fit_stream(source, **given)
    with pytest.raises(ValueError, match="rows, the features have 300"):
        ridge().fit_stream(da.from_array(X.to_numpy()), **{**given, "target": da.ones(299)})


def test_a_device_is_not_for_dask(monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())  # as if torch were there
    with pytest.raises(ValueError, match="device is not for Dask"):
        ridge().fit_stream(
            da.from_array(X.to_numpy()), target=Y.to_numpy(), sensitive_features=S.to_numpy(),
            device="cpu",
        )  # fmt: skip


def test_rows_of_parts_that_do_not_know_their_number_are_counted():
    class Part:
        def read(self):
            yield Rows(np.ones((3, 1)), None, None, None, None)
            yield Rows(np.ones((4, 1)), None, None, None, None)

    assert _stream_dask._n_rows(Part(), None) == 7
    assert _stream_dask._n_rows(Part(), {"frame": ROWS}) == 300


def a_source(counts):
    return SimpleNamespace(
        parts=[SimpleNamespace(n_rows=n) for n in counts],
        starts=lambda: np.r_[0, np.cumsum(counts)].tolist(),
    )


def test_a_checkpoint_inside_a_wave_is_of_other_parts(monkeypatch):
    source = a_source([10] * _stream_dask.WAVE)
    with pytest.raises(CheckpointError, match="ends at row 15, inside a wave"):
        list(_stream_dask._waves(source, 15, None, (), None))


@pytest.mark.parametrize(("n_lost", "survives"), [(1, True), (10**9, False)])
def test_a_wave_whose_workers_died_is_sent_again(monkeypatch, n_lost, survives):
    class CancelledError(Exception):
        pass

    calls = {"sent": 0, "computed": 0}

    def send(fixed, plan):
        calls["sent"] += 1
        return fixed

    def compute(*_):
        calls["computed"] += 1
        if calls["computed"] <= n_lost:
            raise CancelledError
        return "sum"

    monkeypatch.setattr(_stream_dask, "_share", send)
    monkeypatch.setattr(_stream_dask, "_compute", compute)
    waves = _stream_dask._waves(a_source([10]), 0, None, (), None)
    if survives:
        assert list(waves) == [(0, 10, "sum")]
        assert calls == {"sent": 2, "computed": 2}
    else:
        with pytest.raises(CancelledError):
            list(waves)
        assert calls["computed"] == _stream_dask._ATTEMPTS


# ------------------------------------------------------------------ progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rows_are_a_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with row_progress("moments [bold]b[/]", 1000, verbose=1, done=250) as progress:
        progress.advance(750)
    shown = terminal.getvalue()
    assert "[fairspan] moments [bold]b[/] " in shown  # brackets are no markup
    assert "1,000 rows" in shown
    assert "rows/s" in shown


def test_rows_are_lines_without_rich(monkeypatch, capsys):
    absent(monkeypatch, "rich", "rich.progress")
    with row_progress("moments", 10, verbose=1) as progress:
        progress.advance(10)
    assert capsys.readouterr().err.startswith("[fairspan] moments: 10 of 10 rows")
