"""Streams of odd rows and files: gaps, mixed types, changed rows and names that clash."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fairspan import CheckpointError, FairGPClassifier, RowError
from fairspan.streaming import fit as _stream_fit
from fairspan.streaming.checkpoint import SavedPass
from tests.support.stream_data import FEATURES, NAMED, N, parquet_files, ridge, small_blocks, table

pq = pytest.importorskip("pyarrow.parquet")
ROWS = table()
X, Y = ROWS[FEATURES].to_numpy(), ROWS["y"].to_numpy()
S01 = (ROWS["sex"] == ROWS["sex"].iloc[0]).to_numpy().astype(int)


@pytest.fixture(autouse=True)
def small():
    with small_blocks() as patch:
        yield patch


def test_a_list_of_values_is_not_a_list_of_columns():
    as_list = ridge().fit_stream(X, target=Y, sensitive_features=S01.tolist())
    as_array = ridge().fit_stream(X, target=Y, sensitive_features=S01)
    assert as_list.n_features_in_ == as_array.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(as_list.predict(X), as_array.predict(X))


def stop_after(patch, blocks):
    """Let the pass over the moments end after some blocks."""
    inner = SavedPass.save_if_due
    seen = []

    def save(self, moments, position):
        inner(self, moments, position)
        seen.append(position)
        if len(seen) == blocks:
            raise KeyboardInterrupt

    patch.setattr(SavedPass, "save_if_due", save)


def test_rows_that_changed_outside_the_sample_are_refused(small, tmp_path):
    frame, path = ROWS.copy(), tmp_path / "fit.ckpt"
    small.setattr(_stream_fit, "SAMPLE_ROWS", 200)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            ridge().fit_stream(frame, **NAMED, checkpoint=path)
    for row in (N - 1, 3):
        frame.loc[row, "y"] += 1e-9
        with pytest.raises(CheckpointError, match="rows"):
            ridge().fit_stream(frame, **NAMED, checkpoint=path)
        frame = ROWS.copy()
    assert ridge().fit_stream(frame, **NAMED, checkpoint=path).moments_.n_rows == N


def kernel(A, B, width=0.2):
    return np.exp(-width * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def test_a_kernel_that_changed_under_its_name_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.ckpt"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            ridge(kernel=kernel, gamma="cv").fit_stream(ROWS, **NAMED, checkpoint=path)
    monkeypatch.setattr(kernel, "__defaults__", (1.0,))
    with pytest.raises(CheckpointError, match="the kernel is another"):
        ridge(kernel=kernel, gamma="cv").fit_stream(ROWS, **NAMED, checkpoint=path)


def test_a_destination_among_the_sources_is_refused(tmp_path):
    source = parquet_files(ROWS, tmp_path)
    model = ridge().fit_stream(source, **NAMED)
    target = sorted(tmp_path.glob("*.parquet"))[0]
    before = target.read_bytes()
    with pytest.raises(ValueError, match="one of the files to predict from"):
        model.predict_stream(source, target)
    assert target.read_bytes() == before


def test_a_column_that_one_file_lacks_is_named(tmp_path):
    ROWS[:500].to_parquet(tmp_path / "a.parquet")
    ROWS[500:].drop(columns="b").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: the column 'b' is missing"):
        ridge().fit_stream(tmp_path, **NAMED)


def test_a_folder_is_read_as_arrow_reads_it_and_no_file_twice(tmp_path):
    for folder in (".", "_temporary", ".hidden"):
        (tmp_path / folder).mkdir(exist_ok=True)
        ROWS.to_parquet(tmp_path / folder / "part.parquet")
    assert ridge().fit_stream(tmp_path, **NAMED).n_samples_seen_ == N
    with pytest.raises(ValueError, match="given twice"):
        ridge().fit_stream([str(tmp_path / "*.parquet"), str(tmp_path / "part.parquet")], **NAMED)


def test_an_empty_field_of_a_csv_is_missing(tmp_path):
    ROWS.assign(sex=ROWS["sex"].where(ROWS.index != 700)).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(RowError, match="'sex' is missing") as caught:
        ridge().fit_stream(tmp_path / "a.csv", **NAMED)
    assert caught.value.row == 700


def test_categoricals_are_text_however_they_are_cut():
    levels = pd.Categorical(np.arange(N) // 50 % 30)
    frame = ROWS.assign(sex=levels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty groups
        kinds = [
            ridge().fit_stream(blocks, **NAMED).sensitive_kinds_
            for blocks in ([frame], [frame[:500], frame[500:]])
        ]
    assert kinds[0] == kinds[1] == {"sex": "categorical"}
    parts = []
    for at in range(0, N, 300):
        part = frame[at : at + 300].copy()
        part["sex"] = part["sex"].cat.remove_unused_categories()
        parts.append(part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ridge().fit_stream(parts, **NAMED).sensitive_kinds_ == {"sex": "categorical"}


@pytest.mark.parametrize("gap", [False, True])
def test_integers_with_a_gap_are_integers(gap, tmp_path):
    group = pd.array(np.arange(N) % 5, dtype="Int64")
    if gap:
        group[700] = pd.NA
    ROWS.assign(sex=group).to_parquet(tmp_path / "a.parquet")
    model = ridge(missing_sensitive="omit").fit_stream(tmp_path / "a.parquet", **NAMED)
    assert model.sensitive_kinds_ == {"sex": "categorical"}


def test_integers_in_one_file_and_floats_in_another(tmp_path):
    ROWS[:500].assign(b=1).to_parquet(tmp_path / "a.parquet")
    ROWS[500:].to_parquet(tmp_path / "b.parquet")
    assert ridge().fit_stream(tmp_path, **NAMED).n_samples_seen_ == N


def test_names_of_predictions_do_not_meet_those_of_the_source(tmp_path):
    frame = ROWS.assign(prediction=np.arange(N))
    frame.to_parquet(tmp_path / "a.parquet")
    model = ridge().fit_stream(tmp_path / "a.parquet", **NAMED, features=FEATURES)
    out = model.predict_stream(tmp_path / "a.parquet", tmp_path / "b.pq")
    np.testing.assert_array_equal(
        pd.read_parquet(out)["prediction"], model.predict(frame[FEATURES])
    )
    with pytest.raises(ValueError, match="rename that column"):
        model.predict_stream(tmp_path / "a.parquet", tmp_path / "c.pq", keep="prediction")


def test_missing_groups_do_not_hide_a_rare_one(small):
    small.setattr(_stream_fit, "SAMPLE_ROWS", 200)
    group = np.where(np.arange(N) % 2 == 0, 1.0, 2.0)
    group[::10] = np.nan
    group[[777, 888, 911, 955, 1001]] = 0.0
    model = ridge(missing_sensitive="omit", sensitive_kind="categorical")
    model.fit_stream(ROWS.assign(sex=group), **NAMED)
    assert model.pilot_.coders[0].labels == ("0", "1", "2")


def test_a_boolean_with_a_gap_is_named(tmp_path):
    flag = pd.array(np.arange(N) % 2 == 0, dtype="boolean")
    flag[900] = pd.NA
    ROWS.assign(flag=flag).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(RowError, match="'flag'") as caught:
        ridge().fit_stream(tmp_path / "a.parquet", **NAMED)
    assert caught.value.row == 900


def test_infinity_is_named_with_an_encoder_too():
    frame = ROWS.assign(text="t")
    frame.loc[1100, "b"] = np.inf
    with pytest.raises(RowError, match="'b' holds infinity"):
        ridge().fit_stream([frame[:600], frame[600:]], **NAMED)


def test_a_block_without_weight_keeps_its_places():
    weight = np.where(np.arange(N) < 600, 0.0, 1.0)
    frame = ROWS.assign(w=weight, label=np.where(ROWS["y"] > ROWS["y"].median(), "a", "b"))
    model = FairGPClassifier(n_components=30, gamma=0.2, alpha=1.0, eta=1e-3, random_state=0)
    model.fit_stream(
        frame, target="label", sensitive_features="sex", features=FEATURES, sample_weight="w"
    )
    assert model.calibration_ == "held-out"


def test_an_interrupt_right_after_a_block_counts_it_once(small, tmp_path):
    """The moments are saved with the place they end at, whenever the interrupt comes."""
    path = tmp_path / "fit.ckpt"
    from fairspan.method.accumulate import MomentsPass

    inner, seen = MomentsPass.add, []

    def add(self, data, counter, **kwargs):
        inner(self, data, counter, **kwargs)
        seen.append(counter.position)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MomentsPass, "add", add)
        with pytest.raises(KeyboardInterrupt):
            ridge().fit_stream(ROWS, **NAMED, checkpoint=path)
    model = ridge().fit_stream(ROWS, **NAMED, checkpoint=path)
    assert model.moments_.n_rows == N


def test_arrays_as_blocks_to_predict(tmp_path):
    model = ridge().fit_stream(ROWS, **NAMED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no names
        out = model.predict_stream([X[:500], X[500:]], tmp_path / "p.parquet")
        np.testing.assert_array_equal(pd.read_parquet(out)["prediction"], model.predict(X))
