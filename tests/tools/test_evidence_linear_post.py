"""LinearPost's protocol: standard errors of overlapping splits, and the limits on its table."""

import csv
import runpy
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("fairspan_lab")
pytest.importorskip("pandas")

from tools import evidence_linear_post as protocol


def test_means_leave_out_splits_that_do_not_reach_the_gap():
    columns = {
        "ours": np.array([0.8, 0.9, 1.0]),
        "linear_post": np.array([0.7, np.nan, 0.9]),
        "linear_post_reached": np.array([1.0, 0.0, 1.0]),
        "difference": np.array([0.1, np.nan, 0.1]),
    }
    row = protocol.summary(columns)
    assert row["ours"] == pytest.approx(0.9)
    assert row["ours_se"] == pytest.approx(0.1 * np.sqrt(1 / 3 + 3 / 7))
    assert row["linear_post"] == pytest.approx(0.8)
    assert row["linear_post_reached"] == pytest.approx(2 / 3)
    assert row["difference_se"] == pytest.approx(0.0, abs=1e-12)


def test_one_split_has_both_methods_at_every_published_gap(monkeypatch):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 900)
    X = pd.DataFrame(rng.normal(size=(900, 2)) + 0.5 * s[:, None], columns=["a", "b"])
    y = (X.a + rng.normal(size=900) > 0.5).to_numpy()
    monkeypatch.setitem(protocol.SETS, "COMPAS race", lambda: (X, y, s.astype(str)))
    monkeypatch.setattr(protocol, "LIMITS", (1.0, 0.1, 0.0))
    key = ("COMPAS race", "logistic", "statistical_parity")
    rows = protocol.split_draw(key, 0)
    assert list(rows) == protocol.row_names(key)
    first = rows[protocol.row_names(key)[0]]
    assert first["ours_reached"] == first["linear_post_reached"] == 1.0
    assert min(first["ours"], first["linear_post"]) > 0.6
    assert first["difference"] == pytest.approx(first["ours"] - first["linear_post"])


def test_rows_are_compared_with_the_published_accuracy(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(protocol, "RESULTS", tmp_path)
    assert [row.passed for row in protocol.measurements()] == [False]
    key = ("COMPAS race", "logistic", "statistical_parity")
    names = protocol.row_names(key)
    rows = [
        {"name": name, "published": 0.6, "ours": ours, "ours_se": 0.01, "difference": difference,
         "difference_se": 0.01, "commit": "abc"}
        for name, ours, difference in zip(names, (0.1, 0.595, 0.58), (-9, 0.0, -0.02), strict=True)
    ]  # fmt: skip
    with (tmp_path / "evidence_protocol.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = list(protocol.measurements())
    # The unconstrained row is not judged.
    assert [row.passed for row in found] == [True, False, False]
    assert found[-1].measured == pytest.approx(1 / 9)  # the others were not run
    said = capsys.readouterr().out
    assert f"below the published accuracy: {names[2]}" in said
    assert "not run: Adult sex, boosting, statistical_parity, gap 0.061" in said


def test_a_run_ends_with_its_limits_and_fails_if_one_is_missed(monkeypatch, tmp_path, capsys):
    command = ["protocol", "--only", "no such row", "--out", str(tmp_path / "none.csv")]
    monkeypatch.setattr(sys, "argv", ["evidence_linear_post", *command])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the module was imported before
        with pytest.raises(SystemExit) as end:
            runpy.run_module("tools.evidence_linear_post", run_name="__main__")
    assert end.value.code == 1
    assert "MISS" in capsys.readouterr().out
