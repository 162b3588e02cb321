"""Pages and figures of experiments: claims by the numbers, settings, and being stopped."""

import numpy as np
import pytest

for needed in ("matplotlib", "pandas"):
    pytest.importorskip(needed)

from fairspan_lab.frontier import _cells as frontier_cells  # noqa: E402
from fairspan_lab.frontier import _measures, _page, _run, _summary  # noqa: E402
from fairspan_lab.reproduce import _cells, _report, _reproduce  # noqa: E402


def curve(*points):
    return np.array(points, dtype=float)


GP = curve((0.50, 0.40))
# From epsilon 1 (strict) down to 0 (free).
FGP = curve((0.80, 0.01), (0.65, 0.20), (0.505, 0.39))
NCFR = curve((0.90, 0.05), (0.50, 0.15))


@pytest.mark.parametrize(
    ("fgp", "gp", "converges", "climbs", "steeper"),
    [
        (FGP, GP, True, True, True),
        (FGP, GP - [[0.1, 0.0]], False, True, True),
        (FGP[::-1], GP, False, False, None),
        (curve((0.9, 0.30), (0.7, 0.31), (0.5, 0.32)), GP, True, True, False),
    ],
)
def test_claims_about_numbers_follow_the_numbers(fgp, gp, converges, climbs, steeper):
    found = list(_report._regression({"SP gender": {"fgp": fgp, "gp": gp, "ncfr": NCFR}}, 100, {}))
    by = {claim: holds for claim, _, holds in found}
    assert by["FGP's accuracy converges to the GP's as epsilon falls"] is converges
    assert by["RMSE climbs as fairness is enforced"] is climbs
    (last,) = [holds for claim, holds in by.items() if "steeper" in claim]
    if steeper is not None:
        assert last is steeper


def test_nothing_is_claimed_of_methods_that_were_not_run():
    assert list(_report._regression({"SP gender": {"ncfr": NCFR}}, 100, {})) == []
    (only,) = _report._regression({"SP gender": {"fgp": FGP}}, 100, {})
    assert only[0] == "RMSE climbs as fairness is enforced"


def rows_of(method, points, protocol="paper"):
    for error, parity in points:
        for measure in ("SP gender", "SP age"):
            yield {
                "figure": "figure2", "data": "NLSY79", "protocol": protocol, "split": 0,
                "method": method, "criterion": "sp" if method == "fgp" else "none",
                "measure": measure, "error": error, "parity": parity, "n_test": 100,
                "n_train": 100, "noise": 0.2, "dial": 0.0, "dial_name": "",
            }  # fmt: skip


def test_claims_are_on_the_page_of_a_full_run_alone():
    rows = [*rows_of("fgp", FGP), *rows_of("gp", GP), *rows_of("ncfr", NCFR)]
    judged = _report.judge_claims(rows, "paper")
    assert judged
    pages = {
        claims: _report.markdown(rows, ["figure2"], ["paper", "random"], "", claims=claims)
        for claims in (True, False)
    }
    assert "## The paper's claims" in pages[True]
    assert "claims" not in pages[False].partition("standard error")[2]
    assert pages[True].count("| yes |") + pages[True].count("| **no** |") == len(list(judged))
    assert "random splits" not in pages[True].partition("\n## ")[2], "none was run"


def test_a_note_says_quick_only_if_it_was():
    assert "--quick" in _reproduce._note(True, [])
    assert "--quick" not in _reproduce._note(False, [])
    assert "LAFTR-GP was left out" in _reproduce._note(False, ["laftr-gp"])


@pytest.mark.parametrize(("seed", "where"), [(None, "fixed split"), (3, "random split 3")])
def test_a_cell_has_a_name_for_people(seed, where):
    cell = _cells.Cell("figure1", "Adult", "gp", "sp", seed, True)
    assert cell.title == f"Adult, GP, sp, {where}"


def test_full_and_quick_cells_do_not_pass_for_each_other():
    cells = {
        quick: frontier_cells.Cell("adult", 0, "fairspan", "sp", quick) for quick in (True, False)
    }
    assert cells[True].made_by() != cells[False].made_by()


def test_attributes_that_are_numbers_have_no_decisions_to_compare(rng):
    scores, y = rng.normal(size=50), rng.integers(0, 2, 50)
    ages = {"age": rng.normal(size=50)}
    found = _measures.measure(scores, y, ages, classifies=True)
    assert (found["dp"], found["eod"], found["ks"]) == (None, None, None)
    assert 0.0 < found["error"] < 1.0


def test_no_area_is_below_a_corner_that_is_not_there():
    points = curve((0.2, 0.2))
    assert _summary.hypervolume(points, (1.0, 1.0)) == pytest.approx(0.64)
    for corner in ((0.0, 1.0), (1.0, 0.0), (-1.0, -1.0)):
        assert _summary.hypervolume(points, corner) == 0.0


def test_a_run_that_is_stopped_starts_nothing_more(monkeypatch, tmp_path):
    """Ctrl-C while processes are busy: what waits is cancelled, and the interrupt goes on."""
    said = {}

    class Future:
        def result(self):
            raise KeyboardInterrupt

    class Pool:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def submit(self, *_):
            return Future()

        def shutdown(self, **how):
            said.update(how)

    monkeypatch.setattr(_run, "ProcessPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        _run._compute([1, 2], None, tmp_path, 2, None)
    assert said == {"wait": False, "cancel_futures": True}


def test_methods_that_read_s_have_a_table_without_ours_too(monkeypatch):
    shown = []
    monkeypatch.setattr(_page, "_price_table", lambda _, names: shown.append(names) or [])
    list(_page._price_tables([{"method": "ncfr"}]))
    list(_page._price_tables([{"method": "ncfr"}, {"method": "fairspan"}]))
    assert [[key for key, _ in names] for names in shown] == [
        [], ["ncfr"], ["fairspan"], ["fairspan", "ncfr"],
    ]  # fmt: skip
