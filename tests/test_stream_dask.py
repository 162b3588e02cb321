"""Streams on Dask: threads or processes, and workers that die."""

import logging
import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from fairspan import CheckpointError, FairGPClassifier, FairRidgeClassifier, RowError
from fairspan.streaming import dask as _stream_dask
from fairspan.streaming import fit as _stream_fit
from fairspan.streaming.checkpoint import SavedPass
from tests.support.strategies import gap
from tests.support.stream_data import (
    FEATURES,
    FIXED,
    NAMED,
    N,
    arrays,
    in_memory,
    labelled,
    one_parquet,
    outputs,
    parquet_files,
    ridge,
    slow_down,
    small_blocks,
    speed_up,
    table,
)

pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

ROWS = table()
XA, YA, SA = arrays(ROWS)


@pytest.fixture(scope="module", autouse=True)
def small():
    with small_blocks() as patch:
        yield patch


@pytest.fixture(scope="module")
def whole(small):
    return {a: ridge(alpha=a).fit_stream(ROWS, **NAMED) for a in (1.0, "auto")}


@pytest.fixture(scope="module")
def client():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # workers are killed on purpose
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def same_model(model, whole):
    np.testing.assert_array_equal(model.landmarks_, whole.landmarks_)
    assert model.n_samples_seen_ == model.moments_.n_rows == whole.moments_.n_rows
    assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-9)
    X = ROWS[FEATURES] if hasattr(model, "feature_names_in_") else XA
    assert gap(model.predict(X), outputs(whole, ROWS)) < 1e-9


# --------------------------------------------------------------------------- threads


def frame():
    return dd.from_pandas(ROWS, npartitions=7, sort=False)


@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_a_dask_frame_in_threads(alpha, whole):
    same_model(ridge(alpha=alpha).fit_stream(frame(), **NAMED), whole[alpha])


@pytest.mark.parametrize("beside", ["dask", "numpy"])
def test_a_dask_array_in_chunks_that_do_not_fit(beside, whole):
    X = da.from_array(XA, chunks=(310, 2))
    y, S = YA, SA
    if beside == "dask":
        y, S = da.from_array(YA, chunks=400), da.from_array(SA, chunks=77)
    same_model(ridge().fit_stream(X, target=y, sensitive_features=S), whole[1.0])


def test_chunks_of_unknown_length(whole):
    X = da.from_array(XA, chunks=(300, 3))
    X = X[da.from_array(np.ones(N, dtype=bool), chunks=300)]
    assert np.isnan(X.shape[0])
    same_model(ridge().fit_stream(X, target=YA, sensitive_features=SA), whole[1.0])


def test_partitions_of_unknown_length_some_empty():
    ordered = ROWS.sort_values("a")
    some = dd.from_pandas(ordered, npartitions=6, sort=False)
    some = some[some["a"] > 0.5]
    assert min(len(part.compute()) for part in some.partitions) == 0
    expected = ridge().fit_stream(ordered[ordered["a"] > 0.5], **NAMED)
    same_model(ridge().fit_stream(some, **NAMED), expected)
    with pytest.raises(ValueError, match="no rows"):
        ridge().fit_stream(some[some["a"] > 99.0], **NAMED)


@pytest.mark.parametrize("wave", [1, 2, 3])
def test_waves_are_rounding(wave, whole, monkeypatch):
    monkeypatch.setattr(_stream_dask, "WAVE", wave)
    same_model(ridge(alpha="auto").fit_stream(frame(), **NAMED), whole["auto"])


def test_a_bad_row_of_a_partition_is_named():
    bad = ROWS.assign(b=ROWS["b"].where(np.arange(N) != 701))
    with pytest.raises(RowError, match=r"'b'.*Row 701 of all") as caught:
        ridge().fit_stream(dd.from_pandas(bad, npartitions=6, sort=False), **NAMED)
    assert (caught.value.name, caught.value.row) == ("partition 3", 101)


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_the_certificate_names_its_standard_error(n_blocks, monkeypatch):
    """The spread of code and score is measured on rows of one block, and otherwise said to be assumed."""
    monkeypatch.setattr(_stream_fit, "block_rows", lambda _n_features, **_: N // n_blocks)
    parts, stream = ridge().fit_stream(frame(), **NAMED), ridge().fit_stream(ROWS, **NAMED)
    for model in (parts, stream):
        assert ("Standard errors are homoscedastic" in str(model.certificate_)) == (n_blocks > 1)
    for found, expected in zip(
        parts.certificate_.new_rows.blocks, stream.certificate_.new_rows.blocks, strict=True
    ):
        assert found.independent_spread == (n_blocks > 1)
        assert found.correlation == pytest.approx(expected.correlation, abs=1e-9)
        assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


def test_a_stream_of_one_block_has_the_spread_of_rows_in_memory(monkeypatch):
    monkeypatch.setattr(_stream_fit, "block_rows", lambda _n_features, **_: N)
    stream, memory = ridge().fit_stream(frame(), **NAMED), in_memory(ridge(), XA, YA, SA)
    data = memory._read(XA, YA, SA, None, None, reset=False)
    expected = memory._with_spread(memory._fit_state, data).solution.new_rows
    for one, other in zip(stream._solution.new_rows.blocks, expected.blocks, strict=True):
        np.testing.assert_allclose(one.spread, other.spread, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::fairspan.exceptions.DataWarning")
def test_decision_rules_in_threads():
    frame, model = labelled(), FairRidgeClassifier(**FIXED, equalize="decisions")
    whole = clone(model).fit_stream(frame, **NAMED)
    parts = model.fit_stream(dd.from_pandas(frame, npartitions=3), **NAMED)
    X = ROWS[FEATURES]
    assert gap(parts.decision_function(X), whole.decision_function(X)) < 1e-9
    assert str(parts.decision_rule_) == str(whole.decision_rule_)


def test_a_likelihood_in_threads():
    frame = labelled()
    model = FairGPClassifier(**FIXED).fit_stream(dd.from_pandas(frame, npartitions=3), **NAMED)
    whole = FairGPClassifier(**FIXED).fit_stream(frame, **NAMED)
    assert model.calibration_ == whole.calibration_
    X = ROWS[FEATURES]
    assert gap(model.predict_proba(X), whole.predict_proba(X)) < 1e-6


def test_predictions_from_a_dask_frame(whole, tmp_path):
    import pandas as pd

    found = pd.read_parquet(whole[1.0].predict_stream(frame(), tmp_path / "p.parquet"))
    assert gap(found["prediction"].to_numpy(), outputs(whole[1.0], ROWS)) < 1e-12


@pytest.mark.parametrize("k", [1, 2, 3])
def test_waves_are_resumed_bit_for_bit(k, tmp_path, monkeypatch):
    monkeypatch.setattr(_stream_dask, "WAVE", 2)
    whole, path = ridge(alpha="auto").fit_stream(frame(), **NAMED), tmp_path / "fit.ckpt"
    stop_after(k, path, frame())
    resumed = ridge(alpha="auto").fit_stream(frame(), **NAMED, checkpoint=path)
    np.testing.assert_array_equal(outputs(resumed, ROWS), outputs(whole, ROWS))
    assert resumed.moments_.n_rows == N
    again = ridge(alpha="auto").fit_stream(frame(), **NAMED, checkpoint=path)
    np.testing.assert_array_equal(outputs(again, ROWS), outputs(whole, ROWS))


def stop_after(k, path, source, **given):
    """Interrupt a fit once its checkpoint has been saved k times."""
    saves, save_if_due = [], SavedPass.save_if_due

    def stops(self, moments, position):
        save_if_due(self, moments, position)
        self.save(moments, position)
        saves.append(position)
        if len(saves) == k:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SavedPass, "save_if_due", stops)
        with pytest.raises(KeyboardInterrupt):
            ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path, **given)


# --------------------------------------------------------------------------- processes


@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("kind", ["files", "frame"])
def test_workers_end_in_the_same_model(kind, alpha, whole, client, tmp_path):
    source = parquet_files(ROWS, tmp_path) if kind == "files" else frame()
    same_model(ridge(alpha=alpha).fit_stream(source, **NAMED, client=client), whole[alpha])


def test_csv_on_workers(whole, client, tmp_path):
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    model = ridge().fit_stream(tmp_path / "rows.csv", **NAMED, client=client)
    same_model(model, whole[1.0])


def test_a_bad_row_on_a_worker_arrives_with_file_and_number(client, tmp_path):
    bad = ROWS.assign(b=ROWS["b"].where(np.arange(N) != 701))
    source = one_parquet(bad, tmp_path, 200)
    with pytest.raises(RowError, match="'b'") as caught:
        ridge().fit_stream(source, **NAMED, client=client)
    assert (caught.value.name, caught.value.row) == (str(source), 701)


def test_a_fit_begun_here_is_not_gone_on_with_on_workers(client, tmp_path):
    """It ended within a wave, of which workers would leave out the rest."""
    source, path = one_parquet(ROWS, tmp_path, 200), tmp_path / "fit.ckpt"
    stop_after(2, path, source)
    with pytest.raises(CheckpointError, match=r"waves of parts.*blocks|blocks.*waves of parts"):
        ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path, client=client)


def test_a_fit_begun_on_workers_is_not_gone_on_with_here(whole, client, tmp_path, monkeypatch):
    monkeypatch.setattr(_stream_dask, "WAVE", 2)
    source, path = one_parquet(ROWS, tmp_path, 200), tmp_path / "fit.ckpt"
    stop_after(2, path, source, client=client)
    with pytest.raises(CheckpointError, match="waves of parts"):
        ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path)
    model = ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path, client=client)
    same_model(model, whole["auto"])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_killed_worker_costs_time_and_nothing_else(whole, client, tmp_path):
    source, marker = parquet_files(ROWS, tmp_path), tmp_path / "began"
    pids = list(client.run(os.getpid).values())
    client.run(slow_down, str(marker), 0.3)
    killed = []

    def kill():
        deadline = time.monotonic() + 60
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pids[0])

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        model = ridge(alpha="auto").fit_stream(source, **NAMED, client=client)
    finally:
        thread.join()
        client.run(speed_up)
    assert killed
    same_model(model, whole["auto"])
