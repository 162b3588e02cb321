"""Functions on any input: the encoder, metrics and scorers, audits, and the rival methods."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from fairspan import FairRidge, FairRidgeClassifier, audit, baselines, metrics, table_encoder
from tests.fuzz.check import EntryPoint, Refused, attempt, finite, hold, insist, run, same
from tests.fuzz.inputs import FIXED, HOSTILE, INVALID, Problem, Rows, rows

# --------------------------------------------------------------------------- table_encoder

COLUMNS = (
    "number", "gaps", "constant", "empty", "text", "hostile", "category", "bool", "object", "date",
    "one each", "int8", "scaled", "inf", "NA", "mixed", "nested", "huge", "nullable bool", "complex",
)  # fmt: skip


def _column(kind: str, n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    number, codes = rng.normal(size=n), rng.integers(0, 3, n)
    makers: dict[str, Any] = {
        "number": lambda: number,
        "gaps": lambda: np.where(codes == 0, np.nan, number),
        "constant": lambda: np.ones(n),
        "empty": lambda: np.full(n, np.nan),
        "text": lambda: [("a", "b", None)[c] for c in codes],
        "hostile": lambda: [HOSTILE[int(c)] for c in rng.integers(0, len(HOSTILE) - 1, n)],
        "category": lambda: pd.Categorical([("a", "b", None)[c] for c in codes]),
        "bool": lambda: codes > 0,
        "object": lambda: pd.Series([(1, 2.5, None)[c] for c in codes], dtype=object),
        "date": lambda: pd.to_datetime(["2020-01-01"] * n),
        "one each": lambda: [f"c{i}" for i in range(n)],
        "int8": lambda: np.where(codes, 127, -128).astype(np.int8),
        "scaled": lambda: number * 10.0 ** rng.integers(-150, 150),
        "inf": lambda: np.where(codes == 0, np.inf, number),
        "NA": lambda: pd.array([(1, 2, None)[c] for c in codes], dtype="Int64"),
        "mixed": lambda: pd.Series([(1, "a", True)[c] for c in codes], dtype=object),
        "nested": lambda: pd.Series([([1], [2], {})[c] for c in codes], dtype=object),
        "huge": lambda: np.where(codes == 0, 1.7e308, -1.7e308),
        "nullable bool": lambda: pd.array([(True, False, None)[c] for c in codes], dtype="boolean"),
        "complex": lambda: number + 1j,
    }
    return makers[kind]()


def _table(columns: tuple[tuple[str, str], ...], n: int, seed: int, polars: bool) -> Any:
    held = {name: _column(kind, n, seed + j) for j, (name, kind) in enumerate(columns)}
    frame = pd.DataFrame(held, index=np.random.default_rng(seed).permutation(n))
    if not polars:
        return frame
    try:
        return pl.from_pandas(frame)
    except Exception:  # not everything fits into polars
        return frame


def case_encoder(problem: dict[str, Any]) -> bool:
    """Fit on one table, transform another."""
    n, seed = problem["n"], problem["seed"]
    frame = _table(problem["columns"], n, seed, problem["polars"])
    options = problem["options"]
    encoder = attempt("table_encoder", lambda: table_encoder(frame, **options), (frame,))
    if isinstance(encoder, Refused):
        return False
    out = attempt("table_encoder.fit_transform", lambda: encoder.fit_transform(frame), (frame,))
    if isinstance(out, Refused):
        return False
    finite(out, (n, None), "encoded rows")
    hold(out.dtype == np.float64, "float64 features")
    hold(len(encoder.get_feature_names_out()) == out.shape[1], "one name per feature")
    same(
        out, insist("transform", lambda: encoder.transform(frame), (frame,)), "fit_transform", 1e-12
    )
    kinds = [problem["later"].get(kind, kind) for _, kind in problem["columns"]]
    names = [name for name, _ in problem["columns"]]
    later = _table(tuple(zip(names, kinds, strict=True)), problem["m"], seed + 1, problem["polars"])
    new = attempt("transform of other rows", lambda: encoder.transform(later), (later,))
    if not isinstance(new, Refused):
        finite(new, (problem["m"], out.shape[1]), "other rows")
    return True


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(
        st.lists(st.sampled_from(("x", "y=missing", *HOSTILE[:-1])), max_size=4, unique=True)
    )
    ordinary = st.sampled_from(("number", "text", "gaps", "bool", "category"))
    kind = st.one_of(ordinary, ordinary, st.sampled_from(COLUMNS))
    options = st.sampled_from(
        [{}, {}, {"min_frequency": 1}, {"min_frequency": None}, {"max_categories": 2},
         {"min_frequency": 0.5}, {"min_frequency": -1}, {"max_categories": 0}, {"max_categories": "x"},
         {"max_categories": 1}, {"min_frequency": 2.5}, {"min_frequency": "x"}]
    )  # fmt: skip
    swaps = st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(COLUMNS), max_size=2)
    return {
        "columns": tuple((name, draw(kind)) for name in names),
        "n": draw(st.integers(0, 30)),
        "m": draw(st.sampled_from((0, 1, 5))),
        "seed": draw(st.integers(0, 2**20)),
        "polars": draw(st.booleans()),
        "options": draw(options),
        "later": draw(swaps),
    }


# --------------------------------------------------------------------------- metrics

ON_SCORES = ("statistical_parity_correlation", "correlation_ratio", "ks_distance")
WITH_TARGET = (
    "equal_opportunity_correlation",
    "equalized_odds_correlation",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
DECISIONS = WITH_TARGET[2:]
SCORES = ("normal", "constant", "two columns", "labels", "scaled", "nan", "longer", "text", "list",
          "none", "series", "int8", "bool", "float16", "huge", "empty", "masked", "3d", "offset")  # fmt: skip


def _scores(kind: str, n: int, seed: int, exponent: int) -> Any:
    rng = np.random.default_rng(seed)
    number = rng.normal(size=n)
    makers: dict[str, Any] = {
        "normal": lambda: number,
        "constant": lambda: np.full(n, 0.1),
        "two columns": lambda: np.c_[number, -number],
        "labels": lambda: (number > 0).astype(int),
        "scaled": lambda: number * 10.0**exponent,
        "offset": lambda: number + 10.0 ** (abs(exponent) % 17),
        "nan": lambda: np.where(np.arange(n) == 0, np.nan, number),
        "longer": lambda: np.zeros(n + 1),
        "text": lambda: np.where(number > 0, "yes", "no"),
        "list": number.tolist,
        "none": lambda: None,
        "series": lambda: pd.Series(number, index=np.arange(n) + 4),
        "int8": lambda: np.where(number > 0, 127, -128).astype(np.int8),
        "bool": lambda: number > 0,
        "float16": lambda: (number * 3e4).astype(np.float16),
        "huge": lambda: np.where(number > 0, 1.7e308, -1.7e308),
        "empty": list,
        "masked": lambda: np.ma.masked_array(number, np.arange(n) == 0),
        "3d": lambda: np.zeros((n, 1, 1)),
    }
    with np.errstate(all="ignore"):
        return makers[kind]()


def case_metric(problem: Problem) -> bool:
    """A metric: between 0 and 1, the same for copies of weights and in any order of rows."""
    use, made = problem.use, problem.rows.make()
    name = use["metric"]
    scores = _scores(use["scores"], problem.rows.n, problem.rows.seed, problem.rows.exponent)
    arguments = (scores,) if name in ON_SCORES else (made.y, scores)
    options = {"sensitive_features": made.s, "sample_weight": made.weight, **problem.params}
    function = getattr(metrics, name)
    found = attempt(name, lambda: function(*arguments, **options), (*arguments, *made.all))
    if isinstance(found, Refused):
        return False
    gaps = any(np.ma.is_masked(one) for one in (*arguments, made.weight, made.s))
    hold(not gaps, "what lies under a mask was used")
    hold(isinstance(found, float), f"{name} gives a {type(found).__name__}")
    hold(-1e-12 <= found <= 1.0 + 1e-9, f"{name} = {found}")
    hold(function(*arguments, **options) == found, f"{name} asked twice")
    each = insist("by_attribute", lambda: metrics.by_attribute(name, *arguments, **options))
    worst = min(each.values()) if name.endswith("ratio") and name[0] == "d" else max(each.values())
    if not problem.params.get("intersectional"):
        same(found, worst, "the worst attribute", 1e-9)
    if isinstance(made.weight, np.ndarray) and made.weight.dtype == np.float64:
        options["sample_weight"] = made.weight * 4.0
        again = attempt(name, lambda: function(*arguments, **options))
        if not isinstance(again, Refused):
            hold(
                abs(again - found) <= 1e-7, f"{name} of four times the weight: {again} for {found}"
            )
    return True


def case_rates(problem: Problem) -> bool:
    """Selection rates, the noise of a correlation, and scorers."""
    use, made = problem.use, problem.rows.make()
    decisions = _scores(use["scores"], problem.rows.n, problem.rows.seed, problem.rows.exponent)
    if use["what"] == "rates":
        more = {
            k: v
            for k, v in problem.params.items()
            if k in ("pos_label", "n_bins", "sensitive_kind")
        }
        found = attempt(
            "selection_rates",
            lambda: metrics.selection_rates(
                made.y, decisions, sensitive_features=made.s, sample_weight=made.weight, **more
            ),
            (decisions, *made.all),
        )
        return not isinstance(found, Refused)
    if use["what"] == "noise":
        found = attempt("correlation_noise", lambda: metrics.correlation_noise(*use["sizes"]))
        if not isinstance(found, Refused):
            hold(bool(found >= 0.0), "noise that is a number")
        return not isinstance(found, Refused)
    metric = use["metric"] if use["scores"] != "none" else use["wrong"]
    scorer = attempt("fairness_scorer", lambda: metrics.fairness_scorer(metric, **problem.params))
    if isinstance(scorer, Refused):
        return False
    clean = Rows(seed=problem.rows.seed, n=24).make()
    model = LogisticRegression().fit(clean.X, clean.y)
    found = attempt(
        "scorer", lambda: scorer(model, clean.X, clean.y, sensitive_features=made.s), made.all
    )
    if isinstance(found, Refused):
        return False
    hold(bool(np.isfinite(found)) and abs(found) <= 1.0 + 1e-9, f"a score of {found}")
    return True


METRIC_OPTIONS = st.sampled_from(
    [{}, {}, {}, {"sensitive_kind": "categorical"}, {"sensitive_kind": "continuous"},
     {"sensitive_kind": "x"}, {"sensitive_kind": {"s0": "categorical"}}, {"sensitive_kind": ["auto"]},
     {"sensitive_kind": None}, {"sensitive_kind": 3}]
)  # fmt: skip


@st.composite
def metric_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from((*ON_SCORES, *WITH_TARGET)))
    usual = "labels" if name in DECISIONS else "normal"
    scores = draw(st.one_of(st.just(usual), st.just(usual), st.sampled_from(SCORES)))
    params = dict(draw(METRIC_OPTIONS))
    extra = {
        "pos_label": (0, 1, "yes", "absent", None, np.nan, [1]),
        "n_bins": (2, 10, 1, 0, "x", 2.5, None, 10**6, True),
        "intersectional": (True,),
    }
    import inspect

    known = inspect.signature(getattr(metrics, name)).parameters
    for key, values in extra.items():
        if key in known and draw(st.integers(0, 3)) == 0:
            params[key] = draw(st.sampled_from(values))
    sizes = draw(
        st.tuples(*[st.sampled_from((1, 100, 0, -1, np.nan, 1e150, np.inf, "x", None))] * 2)
    )
    use = {
        "metric": name,
        "scores": scores,
        "sizes": sizes,
        "what": draw(st.sampled_from(("rates", "noise", "scorer", "scorer"))),
        "wrong": draw(st.sampled_from(INVALID)),
    }
    return Problem(draw(rows(("classes", "classes", "three", "float"))), params, use)


# --------------------------------------------------------------------------- audit

PARTS = ("scores", "decisions", "tests", "attacks", "proxies", "certificate")
QUICK = {
    "n_boot": 20,
    "n_permutations": 19,
    "n_folds": 2,
    "attackers": ["linear"],
    "random_state": 0,
}


def case_audit(problem: Problem) -> bool:
    """An audit of a model or of scores: intervals around values, and pages that can be written."""
    use, made = problem.use, problem.rows.make()
    n = problem.rows.n
    clean = Rows(seed=3, n=24, p=problem.rows.p, target=use["task"]).make()
    makers: dict[str, Any] = {
        "scores": lambda: (
            _scores(use["scores"], n, problem.rows.seed, problem.rows.exponent),
            None,
        ),
        "scores and X": lambda: (_scores("normal", n, 0, 0), made.X),
        "dummy": lambda: (DummyClassifier().fit(clean.X, clean.y), made.X),
        "dummy numbers": lambda: (DummyRegressor().fit(clean.X, np.arange(24.0)), made.X),
        "ridge": lambda: (Ridge().fit(clean.X, np.arange(24.0)), made.X),
        "fair": lambda: (
            (FairRidge if use["task"] == "float" else FairRidgeClassifier)(
                **FIXED, removal="training_rows"
            ).fit(clean.X, clean.y, sensitive_features=clean.s),
            made.X,
        ),
        "none": lambda: (None, made.X),
        "class": lambda: (Ridge, made.X),
        "unfitted": lambda: (Ridge(), made.X),
    }
    if problem.rows.p == 0:
        return False
    model, X = makers[use["model"]]()
    options = {**QUICK, **problem.params}
    y = made.y if use["with_y"] else None
    found = attempt(
        "audit",
        lambda: audit(model, X, y, sensitive_features=made.s, sample_weight=made.weight, **options),
        made.all,
    )
    if isinstance(found, Refused):
        return False
    hold(isinstance(found.n_rows, int), "a number of rows")
    for one in found.findings:
        if np.isfinite([one.low, one.value, one.high]).all():
            tolerance = 1e-9 * max(1.0, abs(one.value))
            hold(one.low - tolerance <= one.high, f"{one.metric}: {one.low} above {one.high}")
    json.loads(insist("to_json", found.to_json))
    insist("to_markdown", found.to_markdown)
    insist("repr", lambda: repr(found))
    insist("table", found.table)
    return True


@st.composite
def audits(draw: st.DrawFn) -> Problem:
    usual = st.lists(st.sampled_from(PARTS[:3]), min_size=1, unique=True)
    parts = draw(
        st.one_of(usual, usual, usual, usual, st.lists(st.sampled_from(PARTS), unique=True))
    )
    params: dict[str, Any] = {"parts": parts}
    odd: dict[str, tuple[Any, ...]] = {
        "level": (0.5, 0.999999, 1.0, np.nan, "x", None),
        "min_rows": (1, 5, 10**6, 0, True),
        "n_bins": (2, 3, 1, "x", None, 2.5),
        "pos_label": (0, 1, "absent", None, [1]),
        "intersectional": (True, False, None),
        "sensitive_kind": ("categorical", "continuous", "x", 3),
        "control_features": ("x0", ["x0"], {}, 3, np.zeros((3, 3, 3))),
        "decisions": (np.zeros(30, int), [], "x", np.arange(30) % 2),
        "representation": (np.zeros((30, 2)), "x", np.ones(30), np.full((30, 2), np.nan)),
        "n_boot": (20, 19, "x"),
        "parts": ("scores", ["x"], [], (1,), 3),
        "attackers": (["x"], [], "linear", 3),
        "random_state": ("x", None, 3, -1),
        "min_rows ": (1,),
    }
    for key in draw(st.lists(st.sampled_from(sorted(odd)), max_size=2, unique=True)):
        params[key.strip()] = draw(st.sampled_from(odd[key]))
    models = ("scores", "scores", "scores and X", "dummy", "dummy numbers", "ridge", "fair", "fair",
              "none", "class", "unfitted")  # fmt: skip
    task = draw(st.sampled_from(("classes", "float")))
    recipe = draw(rows((task,), odd=2))
    if {"decisions", "representation"} & set(params):
        recipe = replace(recipe, n=30)
    use = {
        "model": draw(st.sampled_from(models)),
        "task": task,
        "with_y": draw(st.booleans()),
        "scores": draw(st.one_of(st.just("normal"), st.just("labels"), st.sampled_from(SCORES))),
    }
    return Problem(recipe, params, use)


# --------------------------------------------------------------------------- baselines

RIVALS: dict[str, tuple[str, dict[str, tuple[Any, ...]]]] = {
    "FairPCA": ("classes", {"n_components": (1, 2, 50, "x", 0)}),
    "FERM": ("classes", {"C": (1.0, 1e-8, 1e8, -1.0, "x")}),
    "LinearFERM": ("classes", {"C": (1.0, 1e-8, 1e8, -1.0, "x")}),
    "HSICRidge": ("float", {"alpha": (1.0, 1e-8, 1e8, -1.0, "x")}),
    "HSICRidgeClassifier": ("classes", {"alpha": (1.0, 1e-8, 1e8, -1.0, "x")}),
    "NCFR": ("float", {"epsilon": (0.0, 0.5, 1.0, -1.0, "x")}),
    "StandardGP": ("float", {"mean": ("linear", "constant", "x")}),
    "StandardGPClassifier": ("classes", {"mean": ("linear", "constant", "x")}),
}


def case_rival(problem: Problem) -> bool:
    """Fit and predict."""
    cls = getattr(baselines, problem.use["model"])
    made = problem.rows.make()
    known = cls().get_params()
    model = cls(**{k: v for k, v in problem.params.items() if k in known})
    name = cls.__name__
    fit = attempt(
        f"{name}.fit", lambda: model.fit(made.X, made.y, sensitive_features=made.s), made.all
    )
    if isinstance(fit, Refused):
        return False
    again = {"sensitive_features": made.s} if cls.reads_sensitive_at_predict else {}
    for method in ("transform", "predict", "decision_function"):
        if hasattr(model, method):
            said = attempt(
                f"{name}.{method}", lambda m=method: getattr(model, m)(made.X, **again), made.all
            )
            if not isinstance(said, Refused):
                shape = (len(said), None) if np.ndim(said) == 2 else (len(said),)
                finite(said, shape, f"{name}.{method}")
    return True


@st.composite
def rival_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(sorted(RIVALS)))
    task, options = RIVALS[name]
    params: dict[str, Any] = {"random_state": 0}
    for key, values in {
        **options,
        "kernel": ("rbf", "linear", "x", None),
        "gamma": (0.5, "median", "x", -1),
    }.items():
        if draw(st.booleans()):
            params[key] = draw(st.sampled_from(values))
    return Problem(draw(rows((task,), odd=2)), params, {"model": name})


ENTRY_POINTS = [
    EntryPoint("table_encoder", tables(), case_encoder, share=2.0, slice=40),
    EntryPoint("metrics", metric_problems(), case_metric, share=3.0, slice=80),
    EntryPoint("selection_rates, fairness_scorer", metric_problems(), case_rates, slice=40),
    EntryPoint("audit", audits(), case_audit, slice=25),
    EntryPoint("baselines", rival_problems(), case_rival, share=0.5, slice=10),
]


@pytest.mark.parametrize("point", ENTRY_POINTS, ids=lambda point: point.name)
def test_every_input_is_answered_rightly_or_refused_in_words(point):
    run(point, point.slice, first=None, keep_going=False)
