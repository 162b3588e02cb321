"""The reproduction: curves, cells that are run once, tables and figures that mark who reads S."""

import csv
import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")


from fairspan_lab.reproduce import METHODS, _cells, _problems, _report, _reproduce, reproduce
from fairspan_lab.reproduce._cells import Cell, judge, plan, run
from fairspan_lab.reproduce._figures import curves
from fairspan_lab.reproduce._methods import Task
from fairspan_lab.reproduce._problems import FIGURES, Problem, load, split


def labels_problem(n=160, name="Adult"):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, n).astype(float)
    X = rng.normal(size=(n, 3)) + 0.6 * s[:, None]
    y = np.where(X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=n) > 0.6, 1.0, -1.0)
    rows = np.arange(n)
    bands = dict.fromkeys(("sp", "eop", "eo"), 4.0)
    return Problem(name, X, y, {"gender": s}, rows[: n // 2], rows[n // 2 :], bands, 1)


def numbers_problem(n=160, name="NLSY79"):
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, n).astype(float)
    age = rng.integers(14, 23, n).astype(float)
    X = rng.normal(size=(n, 3)) + 0.6 * s[:, None] + 0.1 * age[:, None]
    y = np.round(2.0 * (X[:, 0] + X[:, 2] + 0.3 * rng.normal(size=n))) / 2.0
    rows = np.arange(n)
    return Problem(
        name, X, y, {"gender": s, "age": age}, rows[: n // 2], rows[n // 2 :], {"sp": 4.0}, 2
    )


def fake_load(name, data_home=None):
    return (labels_problem if name in FIGURES["figure1"] else numbers_problem)(name=name)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(_reproduce, "load", fake_load)


HERE = [m for m in METHODS if METHODS[m].missing is None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", HERE)
def test_every_method_gives_a_curve_of_scores(method):
    for figure, make in (("figure1", labels_problem), ("figure2", numbers_problem)):
        if METHODS[method].figure in (None, figure):
            problem = make()
            points = list(METHODS[method].run(Task(problem, "sp", 0, quick=True)))
            assert len(points) >= 1
            for _, scores in points:
                # One line, or one of each training.
                lines = np.atleast_2d(scores)
                assert lines.ndim == 2
                assert lines.shape[0] >= 1
                assert lines.shape[1] == len(problem.test)
                assert np.isfinite(lines).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["fairspan", "fgp", "ferm", "ncfr"])
def test_the_strict_end_constrains_what_the_method_is_about(method):
    problem = numbers_problem(600) if method == "ncfr" else labels_problem(1200)
    points = [scores for _, scores in METHODS[method].run(Task(problem, "sp", 0, quick=True))]
    strict, free = (
        (points[0], points[-1]) if METHODS[method].strict_first else (points[-1], points[0])
    )
    measure = {"ncfr": "SP gender", "ferm": "EOP"}.get(method, "SP")
    y = problem.y[problem.test]
    assert judge(problem, strict, y)[1][measure] < judge(problem, free, y)[1][measure]


def test_metrics_are_the_papers():
    problem = labels_problem()
    y = problem.y[problem.test]
    s = problem.S["gender"][problem.test]
    scores = y + 0.3 * s - 0.2
    error, found = judge(problem, scores, y)
    assert error == np.mean(np.sign(scores) != y)
    by_class = {c: abs(np.corrcoef(scores[y == c], s[y == c])[0, 1]) for c in (-1.0, 1.0)}
    assert found["SP"] == pytest.approx(abs(np.corrcoef(scores, s)[0, 1]))
    assert found["EOP"] == pytest.approx(by_class[1.0])
    assert found["EO"] == pytest.approx(max(by_class.values()))
    assert judge(problem, np.full(len(y), 0.1), y)[1] == {"SP": 0.0, "EOP": 0.0, "EO": 0.0}


def test_a_cell_is_run_once_and_read_afterwards(tmp_path, monkeypatch):
    cell = Cell("figure1", "Adult", "linear-ferm", "none", None, True)
    rows = run(cell, labels_problem(), tmp_path)
    assert {row["measure"] for row in rows} == {"SP", "EOP", "EO"}

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(_cells, "_compute", never)
    assert run(cell, labels_problem(), tmp_path) == rows
    with pytest.raises(AssertionError, match="computed again"):
        run(Cell("figure1", "Adult", "linear-ferm", "none", 3, True), labels_problem(), tmp_path)
    assert not list(tmp_path.glob(".part-*"))


def test_a_damaged_cell_is_run_again(tmp_path):
    cell = Cell("figure1", "Adult", "linear-ferm", "none", None, True)
    rows = run(cell, labels_problem(), tmp_path)
    for text in ("", "{", "[]", '{"rows": 1}'):
        cell.file(tmp_path).write_text(text)
        assert run(cell, labels_problem(), tmp_path) == rows


def test_a_cell_of_other_settings_is_another(tmp_path, monkeypatch):
    cell = Cell("figure1", "Adult", "linear-ferm", "none", None, True)
    run(cell, labels_problem(), tmp_path)
    monkeypatch.setattr(_cells, "settings_of", lambda _name: "others")
    assert not cell.file(tmp_path).exists()
    assert _cells.finished(tmp_path, quick=True) == []


@pytest.mark.usefixtures("small")
def test_a_later_run_adds_to_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_reproduce, "draw", lambda *_: [])
    reproduce("figure2", out=tmp_path, methods=["ncfr"], quick=True)
    reproduce("figure1", out=tmp_path, methods=["linear-ferm", "linear-ferm"], quick=True)
    page = (tmp_path / "reproduction-quick.md").read_text(encoding="utf-8")
    assert "## figure1" in page
    assert "## figure2" in page
    with (tmp_path / "results-quick.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"ncfr", "linear-ferm"}
    assert len([r for r in rows if r["method"] == "linear-ferm"]) == 2 * 3  # sets, measures
    assert not (tmp_path / "results.csv").exists()


@pytest.mark.usefixtures("small")
def test_nothing_to_run_is_said_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="none of the methods ncfr belongs to figure1"):
        reproduce("figure1", out=tmp_path / "x", methods=["ncfr"], quick=True)
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("small")
def test_all_draws_only_the_figures_that_have_something(tmp_path):
    written = reproduce("all", out=tmp_path, methods=["ncfr"], quick=True)
    assert not [path for path in written if "figure1" in path.name]
    assert [path for path in written if "figure2" in path.name]


def test_several_trainings_are_averaged(tmp_path, monkeypatch):
    problem = labels_problem()
    rng = np.random.default_rng(0)
    several = rng.normal(size=(3, len(problem.test)))
    monkeypatch.setitem(
        METHODS, "gp", replace(METHODS["gp"], run=lambda _task: iter([(0.0, several)]))
    )
    rows = run(Cell("figure1", "Adult", "gp", "none", None, True), problem, tmp_path)
    y = problem.y[problem.test]
    judged = [judge(problem, one, y) for one in several]
    assert rows[0]["error"] == pytest.approx(np.mean([error for error, _ in judged]))
    assert rows[0]["parity"] == pytest.approx(np.mean([found["SP"] for _, found in judged]))


def test_random_splits_are_standardised_with_their_own_training_rows():
    part = split(numbers_problem(), 0)
    assert part.X[part.train].mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert part.X[part.train].std(axis=0) == pytest.approx(1.0)
    fixed = split(numbers_problem(), None)
    assert np.array_equal(fixed.X, numbers_problem().X)


def test_an_interrupted_cell_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(*_):
        yield {"figure": "figure1"}
        raise KeyboardInterrupt

    monkeypatch.setattr(_cells, "_compute", interrupted)
    cell = Cell("figure1", "Adult", "gp", "none", None, True)
    with pytest.raises(KeyboardInterrupt):
        run(cell, labels_problem(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_methods_without_a_criterion_are_run_once_a_split():
    cells = list(plan(["figure1", "figure2"], ["gp", "fgp", "ncfr"], [None, 0], quick=True))
    count = {
        (m, f): sum(c.method == m and c.figure == f for c in cells)
        for m in METHODS
        for f in FIGURES
    }
    assert count["gp", "figure1"] == 2 * 2
    assert count["fgp", "figure1"] == 2 * 2 * 3
    assert count["ncfr", "figure1"] == 0
    assert count["ncfr", "figure2"] == 3 * 2


def test_random_splits_have_the_papers_sizes_and_differ():
    problem = labels_problem()
    parts = [split(problem, seed) for seed in (None, 0, 1)]
    assert {(len(p.train), len(p.test)) for p in parts} == {(80, 80)}
    for part in parts:
        assert not set(part.train) & set(part.test)
    assert set(parts[1].train) != set(parts[2].train)
    assert abs(problem.y[parts[1].train].mean() - problem.y.mean()) < 0.03


@pytest.mark.usefixtures("small")
def test_everything_is_written_and_the_second_run_is_free(tmp_path, monkeypatch):
    said = []
    params = {"splits": 2, "methods": ["ncfr", "linear-ferm"], "quick": True}
    written = reproduce("figure2", out=tmp_path, say=said.append, **params)
    names = {path.name for path in written}
    pictures = {
        f"figure2-{protocol}-quick.{kind}"
        for protocol in ("paper", "random")
        for kind in ("png", "svg")
    }
    assert names == {"results-quick.csv", "reproduction-quick.md", *pictures}
    assert all(path.stat().st_size > 500 for path in written)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    monkeypatch.setattr(_reproduce, "draw", lambda *_: [])  # drawing takes the longest
    reproduce("figure2", out=tmp_path, say=said.append, **params)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert said == []


@pytest.mark.usefixtures("small")
def test_who_reads_s_is_marked_everywhere(tmp_path):
    reproduce("figure2", out=tmp_path, methods=["ncfr", "fairspan"], quick=True)
    with (tmp_path / "results-quick.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    reads = {row["method"]: row["reads_sensitive"] for row in rows}
    assert reads == {"ncfr": "True", "fairspan": "False"}
    page = (tmp_path / "reproduction-quick.md").read_text(encoding="utf-8")
    assert "| NCFR † |" in page
    assert "NCFR" not in page.replace("NCFR †", "")
    assert "| fairspan |" in page
    assert "† reads the protected attribute at prediction time" in page
    picture = (tmp_path / "figure2-paper-quick.svg").read_text(encoding="utf-8")
    assert "<svg" in picture


@pytest.mark.usefixtures("small")
def test_a_method_whose_package_is_absent_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find(name, *a)
    )
    said = []
    params = {"methods": ["laftr-gp", "linear-ferm"], "quick": True}
    reproduce("figure1", out=tmp_path, say=said.append, **params)
    assert said == ["LAFTR-GP is left out: it needs torch."]
    assert (
        "LAFTR-GP was left out: torch is not installed"
        in (tmp_path / "reproduction-quick.md").read_text()
    )


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (
            {"figure": "figure3"},
            "figure='figure3' is unknown. Allowed: 'figure1', 'figure2', 'all'",
        ),
        ({"methods": ["svm"]}, "Method 'svm' is unknown. Allowed: fairspan, fgp"),
        ({"splits": -1}, "splits=-1 is not allowed"),
    ],
)
def test_what_cannot_be_reproduced(params, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        reproduce(**params, out=tmp_path)


def test_claims_are_judged_by_the_numbers():
    def rows(method, criterion, points):
        for error, parity in points:
            for measure in ("SP", "EOP", "EO"):
                yield {
                    "figure": "figure1", "data": "Adult", "protocol": "paper", "split": 0,
                    "method": method, "criterion": criterion, "measure": measure, "error": error,
                    "parity": parity, "n_test": 10_000, "noise": 0.03,
                }  # fmt: skip

    def verdicts(fgp_end, ferm_sp):
        table = [
            *(
                r
                for c in ("sp", "eop", "eo")
                for r in rows("fgp", c, [(0.2, 0.01), (fgp_end, 0.3)])
            ),
            *rows("gp", "none", [(0.16, 0.3)]),
            *rows("ferm", "none", [(0.17, ferm_sp), (0.16, 0.3)]),
        ]
        assert curves(table, "Adult", "SP", "paper")["fgp"].shape == (1, 2, 2)
        return [holds for *_, holds in _report.judge_claims(table, "paper")]

    assert verdicts(0.161, 0.2) == [True, True]
    assert verdicts(0.19, 0.001) == [False, False]


def test_the_lowest_eo_is_sought_among_all_of_the_papers_methods():
    found = {
        name: np.array([[error, parity]])
        for name, error, parity in (
            ("gp", 0.20, 0.30),
            ("fairspan", 0.20, 0.01),
            ("laftr-gp", 0.25, 0.10),
            ("linear-ferm", 0.28, 0.05),
        )
    }
    noise = dict.fromkeys(("SP", "EOP", "EO"), 0.03)
    for rival, holds in ((0.05, False), (0.20, True)):
        found["linear-ferm"][0, 1] = rival
        *_, (claim, _, verdict) = _report._classification({"SP": {}, "EO": found}, 1000, noise)
        assert "lowest EO" in claim
        assert verdict == holds


@pytest.mark.parametrize("name", [data for sets in FIGURES.values() for data in sets])
def test_the_real_problems_are_the_papers(shared, name):
    problem = load(name, shared / "data")
    sizes = {
        "Adult": (1628, 12661, 13), "COMPAS": (2000, 3855, 14), "Communities": (960, 1034, 99),
        "NLSY79": (3622, 3622, 20), "Law school": (4000, 16798, 13),
    }  # fmt: skip
    assert (len(problem.train), len(problem.test), problem.X.shape[1]) == sizes[name]
    assert np.isfinite(problem.X).all()
    assert set(problem.bands) == ({"sp", "eop", "eo"} if problem.classifies else {"sp"})
    assert len(problem.attributes) == (1 if problem.classifies else 2)
    if problem.classifies:
        assert set(np.unique(problem.y)) == {-1.0, 1.0}


def test_cells_are_plain_json(tmp_path):
    cell = Cell("figure2", "NLSY79", "ncfr", "none", 0, True)
    rows = run(cell, numbers_problem(), tmp_path)
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["rows"] == rows
    assert set(rows[0]) == set(_cells.COLUMNS)
    assert _problems.CRITERIA == ("sp", "eop", "eo")


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
