"""The estimators on any input: fit, predict, transform, the dial, blocks, paths, files."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.base import clone

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    fairness_path,
    load_model,
    save_model,
)
from tests.fuzz.check import EntryPoint, Refused, attempt, finite, hold, insist, run, same
from tests.fuzz.inputs import (
    FIXED,
    Made,
    Problem,
    Rows,
    extremes,
    one_wild,
    parameters,
    rows,
)

CLASSES = ("classes", "classes", "three", "text", "bool")
NUMBERS = ("float",)
MODELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "FairRepresentation": (FairRepresentation, (*CLASSES, *NUMBERS)),
    "FairRidge": (FairRidge, NUMBERS),
    "FairRidgeClassifier": (FairRidgeClassifier, CLASSES),
    "FairGPRegressor": (FairGPRegressor, NUMBERS),
    "FairGPClassifier": (FairGPClassifier, CLASSES),
}
# Parameters that one model alone has.
OWN: dict[str, dict[str, tuple[Any, ...]]] = {
    "FairGPRegressor": {
        "inference": ("evidence", "em-paper"),
        "mean": ("constant", "linear"),
        "prior": ("isotropic", "ard"),
        "gamma": ("evidence", "cv"),
    },
    "FairGPClassifier": {
        "likelihood": ("logistic", "gaussian"),
        "curvature": ("auto", "likelihood", "constant"),
        "class_weight": ("balanced", {0: 2.0}, {}, {"x": 1.0}),
        "calibrate": (True, False),
    },
}
# Boxes whose numbers are exactly those of the plain array.
EXACT = ("fortran", "strided", "readonly", "object", "list", "tuple", "masked", "pandas index",
         "pandas object", "pandas Float64", "polars", "arrow", "big endian", "pandas hostile")  # fmt: skip


def _fit(model: Any, made: Made, method: str = "fit", **more: Any) -> Any:
    extra = {} if made.weight is None else {"sample_weight": made.weight}
    if str(model.criterion) == "conditional_statistical_parity":
        extra["control_features"] = np.arange(len(made.plain)) % 2
    call = getattr(model, method)
    return call(made.X, made.y, sensitive_features=made.s, **extra, **more)


def _state(model: Any) -> dict[str, int]:
    return {name: id(value) for name, value in vars(model).items()}


def _fitted(problem: Problem, cls: Any, made: Made, method: str = "fit", **more: Any) -> Any:
    """A fitted model, or the refusal, which must leave the estimator as it was."""
    # Made from the class, not cloned: scikit-learn's clone has its own view of odd parameters.
    model = cls(**problem.params)
    before = _state(model)
    name = f"{cls.__name__}.{method}"
    out = attempt(name, lambda: _fit(model, made, method, **more), made.all)
    if isinstance(out, Refused):
        hold(_state(model) == before, f"{name} refused, but changed the estimator")
        return out
    hold(out is model, f"{name} did not return the estimator")
    return model


def _new_rows(problem: Problem, made: Made) -> Any:
    """Rows to predict: other numbers in the same kind of box."""
    if str(problem.params.get("kernel")) == "precomputed":
        return made.X
    return replace(problem.rows, seed=problem.rows.seed + 1, n=max(problem.rows.n, 1)).make().X


def _ask(model: Any, X: Any) -> tuple[dict[str, Any], bool]:
    """Everything the model says of some rows, and whether it took them."""
    name, out = type(model).__name__, {}
    methods = [
        m
        for m in ("transform", "predict", "decision_function", "predict_proba")
        if hasattr(model, m)
    ]
    for method in methods:
        found = attempt(f"{name}.{method}", lambda m=method: getattr(model, m)(X), (X,))
        if isinstance(found, Refused):
            return out, False
        out[method] = found
    return out, True


def _check_outputs(model: Any, said: dict[str, Any]) -> None:
    name = type(model).__name__
    for method, values in said.items():
        shape = (len(values), None) if np.ndim(values) == 2 else (len(values),)
        finite(values, shape, f"{name}.{method}")
    if "predict" in said and hasattr(model, "classes_"):
        hold(set(said["predict"].tolist()) <= set(model.classes_.tolist()), "an unknown class")
    if "predict_proba" in said:
        p = said["predict_proba"]
        hold(p.shape[1] == len(model.classes_), "one probability per class")
        hold((p >= 0.0).all() and np.allclose(p.sum(axis=1), 1.0), "probabilities that add up")


def _check_parity(problem: Problem, fairest: Any, made: Made) -> None:
    """Equal means of both groups on the training rows, by plain arithmetic."""
    recipe = problem.rows
    usual = recipe.sensitive == ("binary",) and recipe.s_box == "array" and recipe.weight == "none"
    method = "transform" if hasattr(fairest, "transform") else "predict"
    if not usual or hasattr(fairest, "predict_proba") or hasattr(fairest, "decision_function"):
        return
    if fairest.n_sensitive_directions == "test":  # it may find none
        return
    if fairest.method == "paper" or len(fairest.cells_) > 1 or fairest.cells_ != ["all rows"]:
        return
    scores = np.asarray(getattr(fairest, method)(made.X)).reshape(len(made.s), -1)
    gap = np.abs(scores[made.s == 1].mean(axis=0) - scores[made.s == 0].mean(axis=0))
    size = np.abs(scores).max(initial=0.0)
    hold(
        (gap <= 1e-6 * size).all(),
        f"group means are {gap.max(initial=0.0):.2g} apart, of {size:.2g}",
    )


def _check_dial(problem: Problem, model: Any, X: Any, made: Made) -> None:
    name = type(model).__name__
    fairest = attempt(f"{name}.at", lambda: model.at(1.0, dial="angle"))
    if isinstance(fairest, Refused):
        return
    certificate = fairest.certificate_
    hold(np.isfinite(certificate.supremum), "a certificate that is a number")
    insist("str(certificate)", lambda: str(certificate))
    on_training_rows = certificate.new_rows is None
    everything = str(problem.params.get("n_sensitive_directions")) == "all"
    if everything and on_training_rows and model.method != "paper":
        hold(certificate.supremum < 1e-6, f"at(1) is certified to {certificate.supremum:.2g}")
    if on_training_rows:
        _check_parity(problem, fairest, made)
    said, taken = _ask(fairest, X)
    hold(taken, "at(1) refuses rows that the model takes")
    _check_outputs(fairest, said)
    half = attempt(f"{name}.at", lambda: model.at(**problem.use["at"]))
    if not isinstance(half, Refused):
        _check_outputs(half, _ask(half, X)[0])


def case_fit(cls: Any, problem: Problem) -> bool:
    """Fit, predict twice, move along the dial, score."""
    made = problem.rows.make()
    model = _fitted(problem, cls, made)
    if isinstance(model, Refused):
        return False
    hold(not made.has_gaps, "what lies under a mask was used")
    X = _new_rows(problem, made)
    said, taken = _ask(model, X)
    if not taken:
        return True
    _check_outputs(model, said)
    again, _ = _ask(model, X)
    for method in said:
        same(said[method], again[method], f"{method} asked twice")
    _check_dial(problem, model, X, made)
    if hasattr(model, "score"):
        score = attempt("score", lambda: model.score(made.X, made.y), made.all)
        weighty = np.ndim(made.y) == 1 and len(made.y) > 1
        if not isinstance(score, Refused) and weighty:
            hold(np.isfinite(score), "a score that is a number")
    odd = problem.use["new"]
    other = replace(problem.rows, seed=1, **odd).make().X
    _check_outputs(model, _ask(model, other)[0])
    return True


def case_container(problem: Problem) -> bool:
    """What the rows come in does not matter, only what they are."""
    cls = MODELS[problem.use["model"]][0]
    boxed = problem.rows.make()
    plain = replace(problem.rows, box="array").make()
    first = _fitted(problem, cls, boxed)
    second = _fitted(problem, cls, plain)
    hold(isinstance(first, Refused) == isinstance(second, Refused), "a container that is refused")
    if isinstance(first, Refused):
        return False
    mine, theirs = _ask(first, boxed.X)[0], _ask(second, plain.X)[0]
    for method in theirs:
        same(theirs[method], mine[method], f"{method} in {problem.rows.box}")
    return True


def case_refit(problem: Problem) -> bool:
    """The same seed gives the same model, after other rows and in a clone as well."""
    cls = MODELS[problem.use["model"]][0]
    made = problem.rows.make()
    model = _fitted(problem, cls, made)
    if isinstance(model, Refused):
        return False
    said, _ = _ask(model, made.X)
    other = Rows(seed=5, target=problem.rows.target).make()
    for again in (model, clone(model)):
        attempt("refit", lambda est=again: _fit(est, other), other.all)
        insist("refit", lambda est=again: _fit(est, made), made.all)
        for method, values in _ask(again, made.X)[0].items():
            same(said[method], values, f"{method} after refitting")
    return True


def case_partial_fit(problem: Problem) -> bool:
    """Blocks, in one estimator or merged from two, are all the rows at once."""
    cls = MODELS[problem.use["model"]][0]
    made = problem.rows.make()
    whole = _fitted(problem, cls, made, "prepare")
    if isinstance(whole, Refused):
        # Without `prepare` the first block takes its place, with the same right to refuse.
        direct = _fitted(problem, cls, made, "partial_fit")
        hold(isinstance(direct, Refused), "partial_fit takes what prepare refuses")
        return False
    if isinstance(attempt("partial_fit", lambda: _fit(whole, made, "partial_fit")), Refused):
        return False
    n = len(made.plain)
    cut = min(n, problem.use["cut"])
    parts = _fitted(problem, cls, made, "prepare")
    if isinstance(parts, Refused) or not _sliceable(made, n):
        return True
    other = clone(parts)
    attempt("prepare", lambda: _fit(other, made, "prepare"))
    taken = []
    for model, block in ((parts, slice(0, cut)), (other, slice(cut, n))):
        part = Made(
            *(one if one is None else _slice(one, block) for one in made.all), made.plain[block]
        )
        out = attempt("block", lambda m=model, b=part: _fit(m, b, "partial_fit", solve=False))
        taken.append(not isinstance(out, Refused))
    merged = attempt("merge", lambda: parts.merge(other))
    if isinstance(merged, Refused):
        return True
    if all(taken):
        hold(merged.moments_.n_rows == whole.moments_.n_rows, "rows were lost in merging")
    if merged.moments_.n_rows == whole.moments_.n_rows and problem.params.get("alpha") == 1.0:
        said = _ask(merged, made.X)[0]
        _check_outputs(merged, said)
        if problem.rows.values == "plain" and set(problem.params) <= set(FIXED):
            for method in {"predict_proba", "decision_function"} & set(said):
                same(
                    getattr(whole, method)(made.X), said[method], f"{method} of merged blocks", 1e-6
                )
    return True


def _sliceable(made: Made, n: int) -> bool:
    arrays = (made.X, made.y, made.s)
    return all(isinstance(one, np.ndarray) and len(one) == n for one in arrays) and (
        made.weight is None or isinstance(made.weight, np.ndarray)
    )


def _slice(one: Any, block: slice) -> Any:
    return one[block]


def case_path(problem: Problem) -> bool:
    """The path of a fitted model, and out of fold."""
    cls = MODELS[problem.use["model"]][0]
    made = problem.rows.make()
    control = np.arange(len(made.plain)) % 2
    more: dict[str, Any] = {"sensitive_features": made.s, "sample_weight": made.weight}
    if str(problem.params.get("criterion")) == "conditional_statistical_parity":
        more["control_features"] = control
    if problem.use["out_of_fold"]:
        model = cls(**problem.params)
        path = attempt(
            "fairness_path",
            lambda: fairness_path(
                model, made.X, made.y, **more, **problem.use["path"], cv=problem.use["cv"]
            ),
            made.all,
        )
    else:
        model = _fitted(problem, cls, made)
        if isinstance(model, Refused):
            return False
        path = attempt(
            "from_estimator",
            lambda: FairnessPath.from_estimator(
                model, made.X, made.y, **more, **problem.use["path"]
            ),
            made.all,
        )
    if isinstance(path, Refused):
        return False
    finite(path.error, (len(path),), "error of the path")
    finite(path.certificate, (len(path),), "certificate of the path")
    correlation = finite(path.curve(), (len(path),), "correlation of the path")
    hold((correlation >= 0.0).all() and (correlation <= 1.0 + 1e-9).all(), "|correlation| <= 1")
    insist("table", path.table)
    insist("repr", lambda: repr(path))
    insist("predictions", lambda: path.predictions(0))
    attempt("select", lambda: path.select(**problem.use["select"]))
    return True


def case_file(problem: Problem) -> bool:
    """A model comes back from its file as it was."""
    cls = MODELS[problem.use["model"]][0]
    made = problem.rows.make()
    model = _fitted(problem, cls, made)
    if isinstance(model, Refused):
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        written = attempt(
            "save_model", lambda: save_model(model, path, keep_moments=problem.use["keep"])
        )
        if isinstance(written, Refused):
            hold(not list(Path(folder).iterdir()), "save_model refused, and left a file")
            return False
        trusted = ["tests.fuzz.inputs.matrix_kernel", "tests.fuzz.inputs.row_kernel"]
        again = insist("load_model", lambda: load_model(path, trusted=trusted))
    for method, values in _ask(model, made.X)[0].items():
        same(values, _ask(again, made.X)[0][method], f"{method} of a loaded model")
    hold(str(model.certificate_) == str(again.certificate_), "the certificate of a loaded model")
    return True


# --------------------------------------------------------------------------- inputs

AT = st.sampled_from(
    [{"fairness": 0.5}, {"fairness": 0.0}, {"max_correlation": 0.1}, {"fairness": 0.3, "dial": "cosine"},
     {"fairness": 1.0, "dial": "correlation"}, {"fairness": -1.0}, {"fairness": np.nan}, {},
     {"max_correlation": {"s0": 0.1}}, {"max_correlation": "x"}, {"fairness": 0.5, "dial": []},
     {"max_correlation": {}}, {"fairness": np.array([0.5, 0.6])}, {"fairness": True}]
)  # fmt: skip
NEW = st.sampled_from(
    [{"p": 1}, {"p": 9}, {"n": 0}, {"n": 1}, {"values": "nan"}, {"values": "scaled", "exponent": 150},
     {"values": "largest"}, {"box": "pandas text"}, {"box": "list"}, {"box": "polars null"}, {"box": "1d"},
     {"box": "none"}, {"box": "csr"}, {"box": "pandas index"}, {"values": "scaled", "exponent": -150},
     {"box": "float32"}, {"box": "pandas twice"}]
)  # fmt: skip
PATHS = st.sampled_from(
    [{"n_points": 3}, {"n_points": 2, "max_fairness": 2.0}, {"n_points": 1}, {"n_points": 0},
     {"n_points": "x"}, {"n_points": 3, "max_fairness": np.nan}, {"n_points": 5, "max_fairness": 1.5}]
)  # fmt: skip
SELECTIONS = st.sampled_from(
    [{"at_most": 0.1}, {"metric": "error", "at_most": 0.2}, {"max_error": 0.4}, {"min_accuracy": 0.6}, {},
     {"metric": "demographic_parity_difference", "at_most": 0.2}, {"metric": "x", "at_most": 0.1},
     {"metric": "correlation_ratio", "at_most": np.nan}, {"at_most": 0.1, "attribute": "x"},
     {"metric": "equalized_odds_difference", "at_most": 0.3}]
)  # fmt: skip
# Everything automatic too, which takes longer.
PARAMETERS = st.one_of(parameters(), parameters(), parameters(), st.just({"random_state": 0}))


@st.composite
def problems(draw: st.DrawFn, model: str | None = None, **use: Any) -> Problem:
    name = model or draw(st.sampled_from(sorted(MODELS)))
    drawn = {key: draw(value) for key, value in use.items()}
    targets = MODELS[name][1]
    recipe, params = draw(rows(targets)), draw(PARAMETERS)
    if isinstance(params.get("kernel"), str) and params["kernel"] == "precomputed" and recipe.n:
        # A Gram matrix as wide as the rows; the odd ones are not square.
        recipe = recipe if recipe.p == 9 else replace(recipe, p=recipe.n)
    return Problem(recipe, params, {"model": name, **drawn})


@st.composite
def containers(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(sorted(MODELS)))
    recipe = draw(rows(MODELS[name][1], odd=0))
    kinds = st.sampled_from(("plain", "offset", "duplicates", "integers", "mixed"))
    recipe = replace(
        recipe,
        box=draw(st.sampled_from(EXACT)),
        values=draw(kinds),
        exponent=draw(st.integers(0, 3)),
        s_box=draw(st.sampled_from(("array", "series", "frame", "polars", "dict", "list"))),
    )
    return Problem(recipe, draw(st.sampled_from([FIXED, {"random_state": 0}])), {"model": name})


@st.composite
def extreme_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(sorted(MODELS)))
    targets = (*MODELS[name][1], *(("scaled", "offset") if "float" in MODELS[name][1] else ()))
    recipe, params = draw(extremes(targets))
    if params.get("kernel") == "precomputed":
        recipe = replace(recipe, p=recipe.n)
    return Problem(recipe, params, {"model": name, "at": draw(AT), "new": draw(NEW)})


@st.composite
def wild_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(sorted(MODELS)))
    recipe = draw(rows(MODELS[name][1], odd=0))
    return Problem(
        recipe, draw(one_wild(OWN.get(name, {}))), {"model": name, "at": draw(AT), "new": draw(NEW)}
    )


def case_any(problem: Problem) -> bool:
    return case_fit(MODELS[problem.use["model"]][0], problem)


ENTRY_POINTS = [
    *(
        EntryPoint(
            name, problems(name, at=AT, new=NEW), lambda p, cls=cls: case_fit(cls, p), share=2.0, slice=40
        )
        for name, (cls, _) in MODELS.items()
    ),
    EntryPoint("extreme numbers", extreme_problems(), case_any, share=4.0, slice=40),
    EntryPoint("odd parameters", wild_problems(), case_any, share=2.0, slice=40),
    EntryPoint("containers", containers(), case_container),
    EntryPoint("refit", problems(), case_refit, share=0.5, slice=10),
    EntryPoint("partial_fit, merge", problems(cut=st.sampled_from((0, 1, 7, 15, 99))), case_partial_fit),
    EntryPoint(
        "FairnessPath, fairness_path",
        problems(
            path=PATHS, select=SELECTIONS, out_of_fold=st.booleans(),
            cv=st.sampled_from((2, 3, 2, 0, 1, 100, "x", None)),
        ),
        case_path,
    ),
    EntryPoint("save_model, load_model", problems(keep=st.booleans()), case_file, share=0.5, slice=10),
]  # fmt: skip


@pytest.mark.parametrize("point", ENTRY_POINTS, ids=lambda point: point.name)
def test_every_input_is_answered_rightly_or_refused_in_words(point):
    run(point, point.slice, first=None, keep_going=False)
