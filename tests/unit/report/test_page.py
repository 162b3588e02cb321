"""The file of a report: names from data stay text, whatever they look like."""

import hashlib
import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fairspan.auditing import Audit, Finding
from fairspan.report import page as _page
from fairspan.report.page import fill, fit_in, for_page, plain, script_json, share_code, to_text

NASTY = "</script><script>alert(1)</script><!--STUDY-->&amp;\u2028\u2029\u202e\x1b[31m=cmd()"


def study(name=NASTY, n=11, size=10):
    dials = [f"{f:.6g}" for f in np.linspace(0, 1, n)]

    def place(f):
        share = 1 + float(f)
        rows = [
            {"group": k, "value": share / (k + 3), "ends": [share / (k + j) for j in range(7, 27)]}
            for k in range(size)
        ]
        return {"rates": {name: rows}, "promise": {"error": (1 + float(f)) / 3}}

    return {
        "about": {"data": name, "notes": []},
        "fairness": np.linspace(0, 1, n).tolist(),
        "start": n - 1,
        "positions": [place(f) | {"snippet": f"{name * 3}.at({f})\n{name}"} for f in dials],
        "tradeoff": {"error": {"value": np.linspace(0, 1, n).tolist()}, "noise": 0.1},
    }


def test_json_in_a_script_is_the_same_json_and_ends_nothing():
    text = script_json(study())
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == study()


def test_the_template_is_filled_once_and_texts_are_not_templates():
    template = "<title><!--TITLE--></title><!--STYLE--><!--PLOTLY--><!--STUDY--><!--SCRIPT-->"
    parts = dict.fromkeys(("TITLE", "STYLE", "PLOTLY", "SCRIPT"), "<!--STUDY-->") | {"STUDY": r"\1"}
    whole = fill(template, parts)
    assert (
        whole == f"<title><!--STUDY--></title><!--STUDY--><!--STUDY-->{parts['STUDY']}<!--STUDY-->"
    )
    with pytest.raises(ValueError, match="STYLE"):
        fill(template.replace("<!--STYLE-->", ""), parts)
    with pytest.raises(ValueError, match="STUDY"):
        fill(template + "<!--STUDY-->", parts)


def test_the_page_holds_the_study_and_its_title_is_inert(monkeypatch):
    monkeypatch.setattr(_page, "_plotly", lambda: "/* plotly */")
    whole = _page.page(plain(study()))
    assert "<script>alert(1)" not in whole
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(1)" in whole
    assert whole.count("/* plotly */") == 1
    assert script_json(for_page(plain(study()))) in whole
    assert "\u202e" not in whole
    assert "\x1b" not in whole


def test_the_chart_library_is_the_recorded_one_and_ends_no_script():
    folder = resources.files("fairspan.report") / "page" / "vendor"
    record = json.loads((folder / "plotly.json").read_text(encoding="utf-8"))
    script = (folder / record["file"]).read_bytes()
    assert hashlib.sha256(script).hexdigest() == record["sha256"]
    assert f"plotly.js (basic - minified) v{record['version']}".encode() in script[:200]
    assert b"</script" not in script.lower()
    assert b"<!--" not in script
    assert _page._plotly().encode() == script
    licence = (folder / "plotly-LICENSE.txt").read_text(encoding="utf-8")
    notice = Path(__file__).parents[3] / "NOTICE"
    words = " ".join(notice.read_text(encoding="utf-8").split())
    assert " ".join(licence.split()) in words


def test_charts_use_only_what_the_basic_bundle_has():
    folder = resources.files("fairspan.report") / "page"
    scripts = [f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".js")]
    types = set(re.findall(r"""\btype: ["'](\w+)["']""", "\n".join(scripts)))
    others = (
        "box candlestick contour funnel heatmap histogram histogram2d image ohlc sankey scatter3d"
    )
    others += " scattergl scatterpolar splom sunburst surface table treemap violin waterfall"
    assert types
    assert not types & set(others.split())


# ------------------------------------------------------------------ plain numbers


def test_plain_numbers_have_six_digits_and_nothing_is_nan():
    found = plain(
        {"a": np.float64(1 / 3), "b": np.array([np.nan, np.inf, 2.0]), "c": (True, None, 3)}
    )
    assert found == {"a": 0.333333, "b": [None, None, 2], "c": [True, None, 3]}
    assert to_text(found) == '{"a":0.333333,"b":[null,null,2],"c":[true,null,3]}'
    assert found["c"][0] is True


def test_marks_that_steer_are_seen_and_names_stay_different():
    found = plain({"a\u202e": "x\x1b", "a\x07": "two\nlines", "é": "ß"})
    assert found == {"a\\u202e": "x\\u001b", "a\\u0007": "two\nlines", "é": "ß"}


# ------------------------------------------------------------------ size


@pytest.mark.parametrize(
    "middles", [["0", "0.1", "0.15", "1"], ["a"], ["x", "x"], ["", "aba", "a"]]
)
def test_code_is_stored_once_and_comes_back_whole(middles):
    texts = [f"import x\n{m}\nlast" for m in middles]
    found = share_code({"positions": [{"snippet": text, "n": 1} for text in texts]})
    before, after = found["code"]
    assert [before + place["snippet"] + after for place in found["positions"]] == texts
    assert [place["n"] for place in found["positions"]] == [1] * len(texts)


def test_a_wide_table_does_not_multiply_its_names():
    wide = study()
    for place in wide["positions"]:
        place["snippet"] = "name" * 10_000 + place["snippet"]
    assert len(script_json(for_page(plain(wide)))) < 2 * 40_000
    assert len(fit_in(wide, 100_000)["fairness"]) == 11


def test_a_small_study_is_left_whole():
    found = fit_in(study())
    assert found["about"]["notes"] == []
    assert len(found["fairness"]) == 11
    assert found["positions"][0]["rates"][plain(NASTY)][0]["value"] == 0.333333


def test_digits_go_before_places():
    full = len(to_text(for_page(plain(study()))).encode())
    found = fit_in(study(), most=full - 50)
    assert len(found["fairness"]) == 11
    assert found["positions"][0]["promise"]["error"] == 0.333333  # limits are compared with it
    assert found["positions"][0]["rates"][plain(NASTY)][0]["value"] == 0.3333
    assert len(found["about"]["notes"]) == 1


@pytest.mark.parametrize("start", [10, 3])
def test_a_large_study_loses_places_evenly_and_says_so(start):
    given = study(size=100) | {"start": start}
    most = len(to_text(for_page(plain(given))).encode()) // 2
    found = fit_in(given, most)
    assert len(to_text(for_page(found)).encode()) <= most
    assert 3 <= len(found["fairness"]) < 11
    assert (found["fairness"][0], found["fairness"][-1]) == (0, 1)
    assert np.diff(found["fairness"]).max() <= 0.41
    assert 0.5 in found["fairness"]  # the places that people ask for
    assert found["fairness"][found["start"]] == pytest.approx(start / 10)
    assert found["tradeoff"]["error"]["value"] == found["fairness"]  # as in the study given
    assert len(found["positions"]) == len(found["fairness"])
    assert found["tradeoff"]["noise"] == 0.1
    assert "positions instead of 11" in found["about"]["notes"][-1]


def test_both_sets_of_positions_lose_the_same_places():
    def both(n):
        out = study(n=n, size=100)
        return out | {"other": {key: out[key] for key in ("positions", "tradeoff")}}

    given = both(11)
    full = len(to_text(for_page(plain(given))).encode())
    found = fit_in(given, full // 2)
    assert len(to_text(for_page(found)).encode()) <= full // 2
    assert 3 <= len(found["fairness"]) < 11
    assert found["other"]["tradeoff"]["error"]["value"] == found["fairness"]
    assert found["other"]["positions"] == found["positions"]
    assert len(found["positions"]) == len(found["fairness"])


def test_the_limit_leaves_room_for_the_script():
    # Plotly's basic bundle has 1.1 MB, the scripts 0.2 MB; a page may have 3 MB.
    assert _page._MOST_BYTES <= 1_500_000


def test_a_page_of_the_largest_study_is_smaller_than_3_mb():
    empty = _page.page(plain(study()))
    assert len(empty.encode()) + 1.1 * _page._MOST_BYTES <= 3_000_000  # escapes may add a little


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"value": None, "low": None, "high": None}, "not known"),
        ({"value": 0.123456, "low": None, "high": None}, "0.123"),
        ({"value": 0.5, "low": 0.25, "high": 0.75}, "0.5 [0.25, 0.75]"),
    ],
)
def test_a_number_is_shown_with_what_is_known_of_it(found, shown):
    assert _page._rounded(found) == shown


# --- numbers of a study: the second measure, and the lines of the audit


def other(said, positive=(1,), **target):
    data = SimpleNamespace(target=SimpleNamespace(**target), weight=None, positive=positive)
    return _page._r2_or_auc(SimpleNamespace(outputs=said), SimpleNamespace(data=data))


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
    findings = tuple(Finding(**one, n_rows=n) for one, n in rows)
    audit = Audit(model="m", n_rows=49, level=0.95, group_sizes={}, findings=findings)
    first, second, third, fourth = _page.audit_lines(audit, 0.5, few)["lines"]
    for line, n in ((third, 3), (fourth, 4)):
        assert all(np.isnan(line[what]) for what in ("value", "low", "high"))
        assert "p_adjusted" not in line
        assert line["note"] == f"too few rows ({n})"
    assert first == known
    # A gap in which a hidden group is compared is hidden, too.
    gap = replace(findings[1], small=True, value=0.25)
    hidden = _page.audit_lines(replace(audit, findings=(gap,)), 0.5, few)["lines"][0]
    assert np.isnan([hidden["value"], hidden["low"], hidden["high"]]).all()
    for shown in (replace(gap, attribute="age"), replace(gap, small=False)):
        (line,) = _page.audit_lines(replace(audit, findings=(shown,)), 0.5, few)["lines"]
        assert line["value"] == 0.25
    assert second == {
        k: v for k, v in known.items() if k not in ("group", "where", "note", "p_adjusted")
    }
