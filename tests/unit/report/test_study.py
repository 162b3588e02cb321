"""Numbers of a study: the second measure, and the lines of the audit."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pandas")

from fairspan.report import study as _study


def other(said, positive=(1,), **target):
    data = SimpleNamespace(target=SimpleNamespace(**target), weight=None, positive=positive)
    return _study._r2_or_auc(SimpleNamespace(outputs=said), SimpleNamespace(data=data))


def test_a_second_measure_is_unknown_where_the_truth_does_not_vary():
    rng = np.random.default_rng(0)
    said = rng.normal(size=(30, 1))
    assert np.isnan(other(said, values=np.full(30, 2.0), codes=None))
    assert np.isnan(other(said, values=None, codes=np.ones(30, dtype=int)))
    assert other(said, values=said[:, 0], codes=None) == 1.0


def test_classes_that_do_not_occur_have_no_part_in_the_mean():
    codes = np.array([0, 1] * 20)
    said = np.random.default_rng(0).random((40, 3))
    said[:, 0] = codes == 0  # perfect; the other is perfectly wrong
    said[:, 1] = codes == 0
    assert other(said, values=None, codes=codes) == pytest.approx(0.5)


def test_lines_of_an_audit_have_what_there_is():
    known = {
        "section": "scores", "metric": "m", "attribute": "sex", "group": "f", "where": "all", "value": 1.0,
        "low": 0.0, "high": 2.0, "p_adjusted": 0.5, "note": "few rows",
    }  # fmt: skip
    few = {("sex", "x")}
    bare = known | {"group": "", "where": "", "note": "", "p_adjusted": float("nan")}
    tiny, narrow = known | {"group": "x", "where": ""}, known
    rows = [(known, 40), (bare, 2), (tiny, 3), (narrow, 4)]
    audit = SimpleNamespace(findings=[SimpleNamespace(**one, n_rows=n) for one, n in rows])
    first, second, third, fourth = _study.audit_lines(audit, 0.5, few)["lines"]
    for line, n in ((third, 3), (fourth, 4)):
        assert all(np.isnan(line[what]) for what in ("value", "low", "high"))
        assert "p_adjusted" not in line
        assert line["note"] == f"too few rows ({n})"
    assert first == known
    assert second == {
        k: v for k, v in known.items() if k not in ("group", "where", "note", "p_adjusted")
    }
