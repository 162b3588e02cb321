"""The frontier: splits, measures, every method's curve, cells run once, the command."""

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

import pandas as pd

from fairspan_lab.baselines import FERM, FairPCA, HSICRidge, HSICRidgeClassifier
from fairspan_lab.frontier import (
    METHODS,
    FailedCellsError,
    _cells,
    _measures,
    _page,
    _problems,
    _run,
    _summary,
    frontier,
)
from fairspan_lab.frontier import _cells as frontier_cells
from fairspan_lab.frontier import _heads as heads
from fairspan_lab.frontier import _margins as margins
from fairspan_lab.frontier._cells import Cell, compute, finished, plan
from fairspan_lab.frontier._measures import measure
from fairspan_lab.frontier._price import LIMITS, PROMISED
from fairspan_lab.frontier._problems import PROBLEMS, Problem, find_problem, rows_of, split
from fairspan_lab.frontier._task import Task

HERE = [key for key in METHODS if METHODS[key].missing is None]
# Five folds of several learners, twice.
SLOW = ("fairspan-auto", "fairspan-rule", "fairspan-rule-boosting", "fairspan-promise",
        "fairspan-rule-promise", "penalised-network", "fairret", "linear-post")  # fmt: skip
CURVES = [pytest.param(key, marks=[pytest.mark.slow] * (key in SLOW)) for key in HERE]


def make_problem(name="Adult", n=240, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n).astype(float)
    age = rng.normal(size=n).round(1)  # the paper's preset takes a slice per value
    X = rng.normal(size=(n, 3)) + 0.7 * s[:, None] + 0.4 * age[:, None]
    signal = X[:, 0] + np.sin(X[:, 1]) + 0.5 * rng.normal(size=n)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["x", "y", "z"], n)
    if PROBLEMS[name].classifies:
        return Problem(name, frame, (signal > 0.8).astype(np.intp), {"sex": s}, True)
    return Problem(name, frame, signal.round(1), {"gender": s, "age": age}, False)


def fake_load(name, data_home):
    return make_problem(name)


def no_report(rows, out, quick):
    return []


@pytest.fixture
def few_rows(monkeypatch):
    monkeypatch.setattr(_problems, "load", fake_load)
    _cells._split.cache_clear()
    yield
    _cells._split.cache_clear()


@pytest.fixture
def small(few_rows, monkeypatch):
    """Data sets of a few rows, and no report."""
    monkeypatch.setattr(_run, "write_report", no_report)


# ------------------------------------------------------------------ splits


def test_parts_are_disjoint_balanced_and_those_of_their_seed():
    problem = make_problem(n=600)
    parts = rows_of(problem, 3, quick=False)
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows) == 600
    assert [len(p) for p in parts] == [266, 134, 200]
    shares = [problem.y[p].mean() for p in parts]
    assert np.ptp(shares) < 0.01
    again, other = rows_of(problem, 3, quick=False), rows_of(problem, 4, quick=False)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[2], other[2])


def test_large_tables_are_cut(monkeypatch):
    monkeypatch.setattr(_problems, "MAX_TRAINING", 90)
    monkeypatch.setattr(_problems, "MAX_TEST", 50)
    assert [len(p) for p in rows_of(make_problem(n=600), 0, quick=False)] == [60, 30, 50]
    monkeypatch.setattr(_problems, "QUICK_ROWS", 60)
    assert sum(map(len, rows_of(make_problem(n=600), 0, quick=True))) == 60


@pytest.mark.filterwarnings("ignore:column 'kind'")
def test_the_encoder_sees_fit_rows_alone():
    problem = make_problem()
    _, validation, test = rows_of(problem, 0, quick=False)
    changed = problem.X.copy()
    rows = np.concatenate([validation, test[:10]])
    changed.iloc[rows, :3] += 100.0
    changed.iloc[rows, 3] = "never seen"
    before, after = split(problem, 0), split(replace(problem, X=changed), 0)
    np.testing.assert_array_equal(before.fit.X, after.fit.X)
    np.testing.assert_array_equal(before.test.X[10:], after.test.X[10:])
    assert not np.array_equal(before.validation.X, after.validation.X)


def test_data_sets_are_found_by_name_and_by_key():
    assert find_problem("compas-paper") == find_problem("COMPAS (paper's columns)")
    assert [find_problem(source.key) for source in PROBLEMS.values()] == list(PROBLEMS)
    with pytest.raises(ValueError, match="Allowed: adult, compas"):
        find_problem("iris")


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_protected_attributes_are_numbers_and_not_among_the_columns(name, shared):
    if PROBLEMS[name].missing() is not None:
        pytest.skip(PROBLEMS[name].missing())
    problem = _problems.load(name, shared / "data")
    n = len(problem.X)
    assert {len(problem.y), *map(len, problem.S.values())} == {n}
    assert all(np.isfinite(s).all() and s.dtype == np.float64 for s in problem.S.values())
    hidden = {"female", "black", "age_65", "happy", "CharlsonIndexI_max", "sexMALE"}
    hidden |= {"sex", "sex_male", "gender", "race1", "racepctblack", "PctForeignBorn", "age_1991"}
    assert not hidden & set(problem.X.columns)
    if problem.classifies:
        assert set(np.unique(problem.y)) == {0, 1}
        two = {"Health": ("sex", "age"), "Happiness": ("female", "black")}
        assert problem.binary == two.get(name, ("sex",))


# ------------------------------------------------------------------ measures


def rows_to_measure(n=400):
    rng = np.random.default_rng(5)
    s = rng.integers(0, 2, n).astype(float)
    age = rng.normal(size=n)
    y = rng.integers(0, 2, n)
    return rng.normal(size=n) + 0.3 * s + 0.2 * age + 0.5 * y, y, s, age


def test_measures_of_classes_are_the_formulas():
    f, y, s, age = rows_to_measure()
    found = measure(f, y, {"sex": s, "age": age}, classifies=True)
    decided, one = f > 0, s == 1
    assert found["error"] == pytest.approx(np.mean(decided != (y == 1)))
    assert found["dp"] == pytest.approx(abs(decided[one].mean() - decided[~one].mean()))
    rates = decided[one].mean(), decided[~one].mean()
    assert found["ir"] == pytest.approx(1 - min(rates) / max(rates))
    gaps = [abs(decided[one & (y == k)].mean() - decided[~one & (y == k)].mean()) for k in (0, 1)]
    assert found["eod"] == pytest.approx(max(gaps))
    assert found["ks"] == pytest.approx(stats.ks_2samp(f[one], f[~one]).statistic)
    for name, values in (("sex", s), ("age", age)):
        each = [abs(np.corrcoef(f[y == k], values[y == k])[0, 1]) for k in (0, 1)]
        assert found[f"sp[{name}]"] == pytest.approx(abs(np.corrcoef(f, values)[0, 1]))
        assert found[f"eop[{name}]"] == pytest.approx(each[1])
        assert found[f"eo[{name}]"] == pytest.approx(max(each))
    slices = pd.qcut(age, 10, labels=False)
    means = pd.Series(f).groupby(slices).transform("mean")
    assert found["ratio[age]"] == pytest.approx(means.std(ddof=0) / f.std(), abs=0.01)
    assert found["ratio[sex]"] == pytest.approx(found["sp[sex]"])


def test_measures_of_decisions_are_fairlearns():
    metrics = pytest.importorskip("fairlearn.metrics")
    f, y, s, _ = rows_to_measure()
    found = measure(f, y, {"sex": s}, classifies=True)
    decided = (f > 0).astype(int)
    for key in ("dp", "eod"):
        name = {"dp": "demographic_parity_difference", "eod": "equalized_odds_difference"}[key]
        expected = getattr(metrics, name)(y, decided, sensitive_features=s)
        assert found[key] == pytest.approx(expected)


def test_random_decisions_are_taken_in_expectation():
    f, y, s, _ = rows_to_measure()
    p = 1 / (1 + np.exp(-f))
    found = measure(p, y, {"sex": s}, classifies=True, random=True)
    draws = np.random.default_rng(0).random((4000, len(p))) < p
    wrong = (draws != (y == 1)).mean()
    gap = draws[:, s == 1].mean() - draws[:, s == 0].mean()
    assert found["error"] == pytest.approx(wrong, abs=1e-3)
    assert found["dp"] == pytest.approx(abs(gap), abs=2e-3)
    sure = measure((f > 0).astype(float), y, {"sex": s}, classifies=True, random=True)
    plain = measure(f, y, {"sex": s}, classifies=True)
    assert [sure[k] for k in ("error", "dp", "eod")] == [plain[k] for k in ("error", "dp", "eod")]


def test_a_constant_score_is_fair_and_numbers_have_no_decisions():
    _, y, s, age = rows_to_measure()
    flat = measure(np.full(len(y), 0.3), y, {"sex": s}, classifies=True)
    assert flat["error"] == pytest.approx(np.mean(y == 0))
    assert {flat[k] for k in ("dp", "eod", "ir", "ks", "sp[sex]", "ratio[sex]", "eo[sex]")} == {0.0}
    nobody = measure(np.full(len(y), -1.0), y, {"sex": s}, classifies=True)
    assert nobody["ir"] == 0.0
    numbers = measure(age + 1.0, age, {"age": age}, classifies=False)
    assert numbers["error"] == pytest.approx(1.0)
    assert numbers["dp"] is numbers["eod"] is numbers["ks"] is None
    assert "eop[age]" not in numbers
    with pytest.raises(ValueError, match="1 of 400 scores are not finite"):
        measure(np.where(np.arange(len(y)) == 7, np.nan, 0.0), y, {"sex": s}, classifies=True)


# ------------------------------------------------------------------ methods


def shuffled(part, seed):
    order = np.random.default_rng(seed).permutation(len(part))
    return replace(part, S={name: values[order] for name, values in part.S.items()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Adult", "NLSY79"])
@pytest.mark.parametrize("key", CURVES)
def test_a_curve_has_its_points_and_reads_s_only_if_it_says_so(key, name):
    problem, method = make_problem(name), METHODS[key]
    if not method.cells(classifies=problem.classifies, all_binary=len(problem.S) == 1):
        return
    rows = split(problem, 0)
    other = replace(rows, test=shuffled(rows.test, 1))
    points = list(method.run(Task(rows, "sp", quick=True)))
    expected = len(LIMITS) if key in PROMISED else 9 if method.parameter else 1
    assert len(points) == expected
    for point in points:
        assert point.seconds >= 0.0
        assert point.validation.shape == (len(rows.validation),)
        assert point.test.shape == (len(rows.test),)
        assert np.isfinite([*point.validation, *point.test]).all()
        if point.random:
            assert min(point.test) >= 0.0
            assert max(point.test) <= 1.0
    again = list(method.run(Task(other, "sp", quick=True)))
    same = [np.allclose(a.test, b.test, atol=1e-8) for a, b in zip(points, again, strict=True)]
    # Random trainings and draws have seeds, so that only S can make a difference.
    assert not all(same) if method.reads_sensitive else all(same)
    assert all(
        np.allclose(a.validation, b.validation, atol=1e-8)
        for a, b in zip(points, again, strict=True)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("key", "measure_key"),
    [
        *(("fairspan", "sp"), ("fgp", "sp"), ("hsic", "sp"), ("fair-pca", "sp"), ("ferm", "eop")),
        *(("ncfr", "sp"), ("fairspan-aware", "sp"), ("fairspan-leaves", "sp")),
    ],
)
def test_the_last_point_is_fairer_on_the_rows_learnt_from(key, measure_key):
    rows = split(make_problem(n=900), 0)
    rows = replace(rows, validation=rows.fit)
    points = list(METHODS[key].run(Task(rows, "sp", quick=True)))
    first, last = (
        measure(p.validation, rows.fit.y, rows.fit.S, classifies=True)[f"{measure_key}[sex]"]
        for p in (points[0], points[-1])
    )
    # The number of components is no measure of fairness: fair from the first on.
    assert last < (0.02 if key == "fair-pca" else 0.7 * first)


def test_the_ends_of_ferm_are_the_class(monkeypatch):
    rows = split(make_problem(n=300), 0)
    monkeypatch.setattr(margins, "_KERNEL_C", (1.0,))
    monkeypatch.setattr(margins, "_KERNEL_GAMMA", (0.1,))
    points = list(margins.ferm(Task(rows, "sp", quick=True)))
    for point, tolerance in ((points[0], 1e9), (points[-1], 0.0)):
        model = FERM(1.0, gamma=0.1, tolerance=tolerance)
        model.fit(rows.fit.X, rows.fit.y, sensitive_features=rows.fit.S)
        np.testing.assert_allclose(point.test, model.decision_function(rows.test.X), atol=1e-3)
        assert point.value == pytest.approx(abs(model.disparity_), abs=1e-4)


@pytest.mark.parametrize("name", ["Adult", "NLSY79"])
def test_hsic_on_coordinates_is_hsic_with_the_kernel(name):
    rows = split(make_problem(name), 0)
    task = Task(rows, "sp", quick=True)
    point = list(METHODS["hsic"].run(task))[4]
    cls = HSICRidgeClassifier if rows.classifies else HSICRidge
    gaps = []
    for k in range(-4, 3):
        model = cls(
            point.value, alpha=10.0**k, gamma=task.gamma, n_landmarks=task.landmarks, random_state=0
        )
        model.fit(rows.fit.X, rows.fit.y, sensitive_features=rows.fit.S)
        scores = (
            model.decision_function(rows.test.X) if rows.classifies else model.predict(rows.test.X)
        )
        gaps.append(np.abs(scores - point.test).max())
    assert min(gaps) < 1e-6


@pytest.mark.parametrize("name", ["Adult", "NLSY79"])
def test_fair_components_cut_from_one_fit_are_those_of_a_fit_of_their_own(name):
    rows = split(make_problem(name), 0)
    task = Task(rows, "sp", quick=True)
    point = list(METHODS["fair-pca"].run(task))[3]
    params = {"kernel": "rbf", "gamma": task.gamma, "n_landmarks": task.landmarks}
    pca = FairPCA(int(point.value), random_state=0, **params)
    Z = pca.fit_transform(rows.fit.X, rows.fit.y, sensitive_features=rows.fit.S)
    if rows.classifies:
        found = [heads.head(Z, rows.fit.y, C) for C in heads._CS]
    else:
        found = [heads.head(Z, rows.fit.y, None)]
    new = pca.transform(rows.test.X)
    assert min(np.abs(heads.head_scores(m, new) - point.test).max() for m in found) < 1e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("criterion", ["sp", "eop", "eo"])
def test_thresholds_have_the_probabilities_that_fairlearn_draws_by(criterion):
    post = pytest.importorskip("fairlearn.postprocessing")
    rows = split(make_problem(n=600), 0)
    (point,) = METHODS["threshold"].run(Task(rows, criterion))
    base = heads.logistic(heads.best_c(rows.fit.X, rows.fit.y))
    names = {"sp": "demographic_parity", "eop": "true_positive_rate_parity", "eo": "equalized_odds"}
    model = post.ThresholdOptimizer(
        estimator=base, constraints=names[criterion], predict_method="predict_proba"
    ).fit(rows.fit.X, rows.fit.y, sensitive_features=rows.fit.S["sex"])
    s = rows.test.S["sex"]
    draws = [model.predict(rows.test.X, sensitive_features=s, random_state=k) for k in range(400)]
    np.testing.assert_allclose(np.mean(draws, axis=0), point.test, atol=0.13)
    assert np.mean(draws) == pytest.approx(point.test.mean(), abs=0.01)


# ------------------------------------------------------------------ cells

START = ("data", "split", "method", "criterion", "index", "value", "fit_seconds")
COUNTS = ("n_fit", "n_validation", "n_test")


@pytest.mark.filterwarnings("ignore")
def test_rows_have_the_whole_schema():
    rows = compute(Cell("Adult", 0, "fairspan", "eo", True), split(make_problem(), 0))
    measures = ("error", "dp", "eod", "ir", "ks", "sp[sex]", "ratio[sex]", "eop[sex]", "eo[sex]")
    expected = {*START, *COUNTS, *(f"{p}_{m}" for p in ("validation", "test") for m in measures)}
    assert all(set(row) == expected for row in rows)
    assert [row["index"] for row in rows] == list(range(9))
    assert [row["value"] for row in rows] == pytest.approx(np.linspace(0, 1, 9))
    assert json.loads(json.dumps(rows)) == rows
    numbers = compute(Cell("NLSY79", 0, "gp", "none", True), split(make_problem("NLSY79"), 0))
    found = numbers[0]
    assert found["value"] is found["test_dp"] is found["validation_eod"] is None
    assert found["test_ks"] > 0
    assert {"test_sp[age]", "validation_ratio[gender]"} <= set(found)


def test_the_plan_asks_each_method_what_it_can_do():
    problems = [make_problem("Adult"), make_problem("NLSY79")]
    cells = list(plan(problems, [0, 1], list(METHODS), ["sp", "eo"], quick=False))
    assert len(set(cells)) == len(cells)
    asked = {key: set() for key in METHODS}
    for cell in cells:
        asked[cell.method].add((cell.data, cell.criterion))
    both = {("Adult", "sp"), ("Adult", "eo"), ("NLSY79", "sp")}
    assert asked["fairspan"] == asked["fgp"] == both
    assert asked["fairspan-correlation"] == {("NLSY79", "sp")}
    assert asked["fair-pca"] == {("Adult", "sp"), ("NLSY79", "sp")}
    assert asked["eg-psi"] == {("Adult", "sp"), ("Adult", "eo")}
    assert asked["ferm"] == {("Adult", "none")}
    assert asked["hsic"] == {("Adult", "none"), ("NLSY79", "none")}
    assert asked["fairret"] == {("Adult", "sp")}
    assert asked["barycentre"] == {("NLSY79", "none")}
    two = replace(problems[0], S={"sex": problems[0].S["sex"], "race": problems[0].S["sex"]})
    methods = {cell.method for cell in plan([two], [0], list(METHODS), ["sp"], quick=False)}
    assert not methods & {"ferm", "linear-ferm", "laftr-gp", "barycentre"}
    assert {"eg-psi", "linear-post", "fairspan-rule"} <= methods


def test_several_attributes_are_one_of_their_intersections():
    rows = split(make_problem(), 0)
    s = rows.fit.S["sex"]
    t = np.random.default_rng(0).permutation(s) + 3.0
    task = Task(replace(rows, fit=replace(rows.fit, S={"a": s, "b": t})), "sp")
    assert sorted(np.unique(task.s)) == [0, 1, 2, 3]
    np.testing.assert_array_equal(task.s, 2 * s + (t - 3.0))
    np.testing.assert_array_equal(Task(rows, "sp").s, s)


def count_runs(monkeypatch, key):
    calls, method = [], METHODS[key]

    def counted(task):
        calls.append(task.criterion)
        return method.run(task)

    monkeypatch.setitem(METHODS, key, replace(method, run=counted))
    return calls


def test_finished_cells_are_not_run_again_and_pieces_are_put_together(small, monkeypatch, tmp_path):
    calls = count_runs(monkeypatch, "ncfr")
    options = {"methods": ["ncfr"], "quick": True, "out": tmp_path}
    frontier(["adult"], splits=1, **options)
    frontier(["nlsy79"], splits="1:2", **options)
    assert len(calls) == 2
    (path,) = frontier(["adult", "nlsy79"], splits=2, **options)
    assert len(calls) == 4
    rows = finished(tmp_path / "cells", quick=True)
    assert [(r["data"], r["split"]) for r in rows[::9]] == [
        ("Adult", 0), ("Adult", 1), ("NLSY79", 0), ("NLSY79", 1)
    ]  # fmt: skip
    with path.open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    assert path.name == "frontier-quick.csv"
    assert len(table) == len(rows) == 36
    assert float(table[0]["test_error"]) == rows[0]["test_error"]
    assert table[0]["test_sp[age]"] == ""
    frontier(["adult", "nlsy79"], splits=2, **options)
    assert len(calls) == 4


def test_cells_of_another_version_or_broken_ones_are_run_again(small, monkeypatch, tmp_path):
    calls = count_runs(monkeypatch, "ncfr")
    options = {"methods": ["ncfr"], "quick": True, "splits": 1, "out": tmp_path}
    frontier(["adult"], **options)
    (cell,) = (tmp_path / "cells").glob("*.json")
    cell.write_text(cell.read_text()[:-20])
    frontier(["adult"], **options)
    assert len(calls) == 2
    monkeypatch.setattr(_cells, "VERSION", _cells.VERSION + 1)
    assert finished(tmp_path / "cells", quick=True) == []
    frontier(["adult"], **options)
    assert len(calls) == 3


def boom(task):
    raise ZeroDivisionError("no\nluck")


def test_a_cell_that_fails_does_not_lose_the_others(small, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "gp", replace(METHODS["gp"], run=boom))
    options = {"methods": ["gp", "ncfr"], "quick": True, "splits": 2, "out": tmp_path}
    with pytest.raises(FailedCellsError, match="2 of 4 cells failed") as caught:
        frontier(["adult"], **options)
    assert caught.value.failures[0] == "Adult, split 0, gp: ZeroDivisionError: no luck"
    assert [path.name for path in caught.value.written] == ["frontier-quick.csv"]
    assert {row["method"] for row in finished(tmp_path / "cells", quick=True)} == {"ncfr"}


def test_a_data_set_whose_file_is_absent_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRSPAN_EXTRA_DATA", str(tmp_path))
    said = []
    with pytest.raises(ValueError, match="Nothing to run"):
        frontier(["health"], ["gp"], quick=True, splits=1, out=tmp_path, say=said.append)
    assert said[0].startswith("Health is left out: it needs health.csv or health.csv.zip")
    with pytest.raises(FileNotFoundError, match="FAIRSPAN_EXTRA_DATA"):
        _problems.load("Health")
    rows = 25_000
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 2, rows) for name in ("sexMALE", "age_65", "pg1")})
    for name in ("age_75", "age_85", "MemberID_t", "trainset", "CharlsonIndexI_ave"):
        table[name] = 0
    table["CharlsonIndexI_max"] = rng.choice(["0", "1-2"], rows)
    table.to_csv(tmp_path / "health.csv", index=False)
    problem = _problems.load("Health")
    assert list(problem.X.columns) == ["pg1"]
    assert len(problem.y) == 20_000
    assert problem.binary == ("sex", "age")


def test_a_method_whose_package_is_absent_is_named(small, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "gp", replace(METHODS["gp"], needs="no_such_package"))
    said = []
    options = {"quick": True, "splits": 1, "out": tmp_path, "say": said.append}
    frontier(["adult"], ["gp", "ncfr"], **options)
    assert said == ["gp is left out: it needs no_such_package."]
    with pytest.raises(ValueError, match="Nothing to run: none of gp is here"):
        frontier(["adult"], ["gp"], **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"methods": ["svm"]}, "Method 'svm' is unknown. Allowed: fairspan, "),
        ({"criteria": ["csp"]}, "Criterion 'csp' is unknown. Allowed: sp, eop, eo"),
        ({"splits": "5:5"}, "splits='5:5' is not allowed"),
        ({"splits": 0}, "splits=0 is not allowed"),
        ({"splits": "ten"}, "splits='ten' is not allowed"),
        ({"jobs": 0}, "jobs=0 is not allowed"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(options, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        frontier(out=tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()


def test_several_processes_give_the_same_rows(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "write_report", no_report)
    options = {"methods": ["ncfr", "correlation-remover", "boosting"], "quick": True, "splits": 1}
    options |= {"data_home": shared / "data", "say": [].append}
    found = []
    for jobs in (1, 2):
        frontier(["communities"], out=tmp_path / str(jobs), jobs=jobs, **options)
        rows = finished(tmp_path / str(jobs) / "cells", quick=True)
        found.append([{k: v for k, v in row.items() if k != "fit_seconds"} for row in rows])
    assert found[0] == found[1]
    assert len(found[0]) >= 10


# ------------------------------------------------------------------ the command


@pytest.fixture
def call(monkeypatch, capsys):
    pytest.importorskip("typer")
    from fairspan import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fairspan", "bench", "frontier", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return left.value.code or 0, out.splitlines(), err

    return run


@pytest.mark.filterwarnings("ignore")
def test_the_quick_command_writes_its_files(call, few_rows, tmp_path):
    code, out, err = call("--quick", "--out", str(tmp_path), "--data", "adult,nlsy79")
    assert code == 0, err
    assert out[0] == str(tmp_path / "frontier-quick.csv")
    assert len(out) >= 4
    assert all((tmp_path / line).exists() for line in out)
    with (tmp_path / "frontier-quick.csv").open(encoding="utf-8") as stream:
        methods = {row["method"] for row in csv.DictReader(stream)}
    assert methods == {"fairspan", "fgp", "hsic", "ncfr"}


def test_a_failure_is_a_line_and_exit_code_one(call, small, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "gp", replace(METHODS["gp"], run=boom))
    arguments = ["--quick", "--out", str(tmp_path), "--data", "adult", "--methods", "gp,ncfr"]
    code, out, err = call(*arguments, "--splits", "1")
    assert code == 1
    assert out == [str(tmp_path / "frontier-quick.csv")]
    # rich 13 leaves an empty line where a bar would be.
    assert err.lstrip() == "Failed: Adult, split 0, gp: ZeroDivisionError: no luck\n"


def test_a_wrong_name_is_a_line_and_exit_code_two(call):
    code, out, err = call("--data", "iris")
    assert (code, out) == (2, [])
    assert err.startswith("Error: Data set 'iris' is unknown.")


def curve(*points):
    return np.array(points, dtype=float)


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
