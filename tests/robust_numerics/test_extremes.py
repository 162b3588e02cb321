"""Tables at the edge of what numbers can hold: the laws hold there, or we refuse and say what to do.

Every case is fitted with every estimator and measured on the raw rows by code that shares nothing with
the library: equal group means at fairness 1, the certificate at both ends, plain kernel ridge
regression at fairness 0, all rows as Nystrom landmarks, and workers that merge. These are laws of removal
on the training rows. Removal on new rows must stay finite, keep to the size of y, follow other units of
X, y and the weights, and expect no dependence.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    FairspanWarning,
)

EPS = np.finfo(float).eps
MODELS = {
    "representation": (FairRepresentation, {}),
    "ridge": (FairRidge, {}),
    "fair ridge": (FairRidge, {"subspace": "fair"}),
    "ridge classifier": (FairRidgeClassifier, {}),
    "gp": (FairGPRegressor, {}),
    "gp classifier": (FairGPClassifier, {}),
}
NEW_ROWS = ("representation", "ridge", "ridge classifier", "gp", "gp classifier")
CLASSIFIERS = ("ridge classifier", "gp classifier")


@dataclass(frozen=True, eq=False)
class Case:
    X: np.ndarray
    y: np.ndarray
    s: dict[str, np.ndarray]
    control: np.ndarray | None = None
    w: np.ndarray | None = None
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def weights(self):
        return np.ones(len(self.y)) if self.w is None else self.w

    def target(self, model):
        return self.labels if model in CLASSIFIERS else self.y

    def spread(self, model):
        """Standard deviation of the target, in the units of the score."""
        y, share = self.target(model), self.weights / self.weights.sum()
        return (1 + (model in CLASSIFIERS)) * np.sqrt(share @ (y - share @ y) ** 2)

    def cell(self):
        return np.zeros(len(self.y), dtype=int) if self.control is None else self.control

    def arguments(self, model):
        return {
            "X": self.X,
            "y": self.target(model),
            "sensitive_features": self.s,
            "control_features": self.control,
            "sample_weight": self.w,
        }

    def estimator(self, model, **params):
        kind, own = MODELS[model]
        given = {"random_state": 0, "removal": "training_rows"}
        return kind(**{**given, **own, **self.params, **params})

    def take(self, rows):
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            s={k: v[rows] for k, v in self.s.items()},
            control=None if self.control is None else self.control[rows],
            w=None if self.w is None else self.w[rows],
            labels=self.labels[rows],
        )


def table(n=150, p=4, seed=0, **given):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, p))
    X[:, 0] += s
    X[:, -1] += 0.5 * s
    y = np.sin(X[:, 0]) + X[:, -1] + 0.3 * rng.normal(size=n)
    labels = (y > np.median(y)).astype(int)
    return Case(**{"X": X, "y": y, "s": {"s": s}, "labels": labels, **given})


def gamma_of(widths, X):
    """The width of so many median distances."""
    return 1.0 / (widths * np.median(pdist(X))) ** 2


def many_attributes(n, count=50, **given):
    case, rng = table(n, **given), np.random.default_rng(1)
    draws = (case.X[:, 0] + rng.normal(size=n) > 0.5 for _ in range(count))
    return replace(case, s={f"s{j}": draw.astype(int) for j, draw in enumerate(draws)})


def _cases():
    base = table()
    n, X = len(base.y), base.X
    rng = np.random.default_rng(2)
    linear = {"kernel": "linear"}
    for name, widths in (("narrow", 1e-3), ("wide", 1e3)):
        yield f"{name} kernel", replace(base, params={"gamma": gamma_of(widths, X)})
    for by in (1e6, 1e9):
        yield f"offset {by:g}", replace(base, X=X + by)
        yield f"offset {by:g}, laplacian", replace(base, X=X + by, params={"kernel": "laplacian"})
        yield f"offset {by:g} of y", replace(base, y=base.y + by)
    yield "offset 1e6, linear", replace(base, X=X + 1e6, params=linear)
    for by in (1e-8, 1e8):
        yield f"scale {by:g}", replace(base, X=X * by)
        yield f"scale {by:g}, linear", replace(base, X=X * by, params=linear)
        yield f"scale {by:g} of y", replace(base, y=base.y * by)
        yield f"scale {by:g} of weights", replace(base, w=np.full(n, by**1.5))
    yield "n = D", table(40, 40, params=linear)
    yield "n < D", table(40, 200, params=linear)
    yield "n < p", table(40, 200)
    yield "duplicated rows", table(40).take(np.repeat(np.arange(40), 5))
    yield "one feature", table(p=1)
    yield "one feature, linear", table(p=1, params=linear)
    yield "50 attributes", many_attributes(400)
    yield "50 attributes, 4 directions", many_attributes(150, params=linear)
    yield "weights of 24 decades", replace(base, w=10.0 ** rng.uniform(-12, 12, n))
    yield "weights of two kinds", replace(base, w=np.where(np.arange(n) % 2, 1e-12, 1e12))
    yield "a group of little weight", replace(base, w=np.where(base.s["s"] == 1, 1e-5, 1e4))
    near = np.c_[X, X[:, 0] + 1e-9 * rng.normal(size=n)]
    yield "nearly collinear", replace(base, X=near)
    yield "nearly collinear, linear", replace(base, X=near, params=linear)
    yield "nearly collinear, no ridge", replace(base, X=near, params={**linear, "alpha": 1e-10})
    yield "an outlier of y", replace(base, y=np.where(np.arange(n) == 3, 1e12, base.y))
    far = X.copy()
    far[3, 1] = 1e12
    yield "an outlier of X", replace(base, X=far)
    yield "three positives", replace(base, labels=(np.arange(n) < 3).astype(int))
    top = table(3000, params={"n_components": 60})
    rank = np.argsort(np.argsort(-top.y))
    yield "three positives of 3000", replace(top, labels=(rank < 3).astype(int))
    yield "next to no ridge", replace(base, params={"alpha": 1e-14})
    yield "nothing but ridge", replace(base, params={"alpha": 1e14})
    yield "five of a group", replace(base, s={"s": (np.arange(n) < 5).astype(int)})


CASES = dict(_cases())
# Too slow for every estimator.
THOUSANDS = ("ridge", "gp classifier")


@cache
def thousand(what):
    if what == "cells":
        case, n = table(12_000, 3, params={"n_components": 30}), 12_000
        cell = np.array([f"area {i}" for i in np.arange(n) % 1000])
        params = {**case.params, "criterion": "conditional_statistical_parity"}
        s = {"s": np.arange(n) // 1000 % 2}  # six rows of each group in each cell
        return replace(case, control=cell, s=s, params=params)
    case, n = table(6000, 3, params={"n_components": 60}), 6000
    return replace(case, s={"s": np.array([f"kind {i}" for i in np.arange(n) % 1000])})


# ------------------------------------------------------------------ measuring


def score(est, X):
    """The one number per row that decides."""
    if hasattr(est, "decision_function"):
        return est.decision_function(X)
    if hasattr(est, "predict"):
        return est.predict(X)
    return (est.transform(X) @ est.score_coef_ + est.score_intercept_)[:, -1]


def groups_of(case):
    """(rows, group of each) of every cell and attribute; groups of fewer than five rows are left out."""
    cells = case.cell()
    for cell in np.unique(cells):
        inside = np.flatnonzero(cells == cell)
        for values in case.s.values():
            _, group, size = np.unique(values[inside], return_inverse=True, return_counts=True)
            used = size[group] >= 5
            yield inside, np.where(used, group, -1)


def worst_gap(f, case, size):
    """Largest difference of group means in a cell, in units of the spread of f.

    ``size`` is that of the numbers f was added up from, whose rounding nobody can take out.
    """
    worst = 0.0
    for rows, group in groups_of(case):
        g, w = f[rows][group >= 0], case.weights[rows][group >= 0]
        label = group[group >= 0]
        if len(np.unique(label)) < 2:
            continue
        centred = g - np.median(g)
        means = [np.average(centred[label == h], weights=w[label == h]) for h in np.unique(label)]
        unit = np.sqrt(np.average((g - np.average(g, weights=w)) ** 2, weights=w))
        worst = max(worst, (np.ptp(means) - 16.0 * EPS * size) / max(unit, 1e-12 * size))
    return worst


def size_of(case, model):
    return max(np.abs(case.target(model)).max(), case.spread(model))


def worst_correlation(f, case):
    """Largest multiple correlation with the groups of an attribute, over cells."""
    worst = 0.0
    for rows, group in groups_of(case):
        g, w = f[rows], case.weights[rows]
        label, used = group[group >= 0], group >= 0
        if len(np.unique(label)) < 2:
            continue
        spread = w @ (g - np.average(g, weights=w)) ** 2
        g, w = g[used], w[used]
        mass = np.bincount(label, w)
        moved = np.bincount(label, w * (g - np.average(g, weights=w)))
        between = (moved[mass > 0] ** 2 / mass[mass > 0]).sum()
        worst = max(worst, np.sqrt(between / spread) if spread > 0 else 0.0)
    return worst


def gram(case, gamma):
    """Kernel minus one (centring takes it out): differences first, so no digits are lost."""
    if case.params.get("kernel") == "linear":
        centred = case.X - case.X.mean(axis=0)
        return centred @ centred.T
    return np.expm1(-gamma * cdist(case.X, case.X, "sqeuclidean"))


def kernel_ridge(K, y, w, alpha):
    """Fitted values of weighted kernel ridge regression with an intercept, by its normal equations."""
    share = w / w.sum()
    centre = np.eye(len(y)) - share
    K = centre @ K @ centre.T
    root = np.sqrt(share)
    dual = np.linalg.solve(
        root[:, None] * K * root + alpha / w.sum() * np.eye(len(y)), root * (y - share @ y)
    )
    return share @ y + K @ (root * dual)


def fit(case, model, **params):
    """Fit, and check that all that reaches the user is ours and said once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est = case.estimator(model, **params).fit(**case.arguments(model))
    foreign = [str(w.message) for w in caught if not issubclass(w.category, FairspanWarning)]
    assert not foreign
    said = Counter(str(w.message) for w in caught)
    assert max(said.values(), default=0) <= 1, said
    est.said = tuple(said)
    return est


@cache
def fitted(name, model, removal="training_rows"):
    return fit(CASES[name], model, removal=removal)


everything = pytest.mark.parametrize(
    ("name", "model"), [(name, model) for name in CASES for model in MODELS]
)


# ------------------------------------------------------------------ laws


@everything
def test_at_the_fair_end_group_means_are_equal(name, model):
    case, est = CASES[name], fitted(name, model)
    f = score(est, case.X)
    assert np.isfinite(f).all()
    assert worst_gap(f, case, size_of(case, model)) <= 1e-8
    assert est.certificate_.supremum <= 1e-9
    assert est.certificate_.score <= est.certificate_.supremum + 1e-12


@everything
def test_the_certificate_of_the_unfair_end_is_what_the_rows_say(name, model):
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        est = fitted(name, model).at(0.0)
    f = score(est, case.X)
    rounding = 1e-9 + 16.0 * EPS * size_of(case, model) / f.std()
    found = worst_correlation(f, case)
    assert est.certificate_.score == pytest.approx(found, abs=rounding)
    assert est.certificate_.supremum >= found - rounding


# What rounding leaves of the ridge: (cases, share of the spread of y).
DENSE = {
    **dict.fromkeys(CASES, 1e-7),
    # eps * 1e9 in the sums themselves
    "offset 1e+09 of y": 1e-6,
    # 1e-18 is what tells the copy from the original, and the ridge is 1e-10
    "nearly collinear, no ridge": 1e-3,
    # Below the ridge the kernel has more directions than rounding leaves
    "wide kernel": None,
}


@pytest.mark.parametrize("model", ["ridge", "fair ridge", "ridge classifier"])
@pytest.mark.parametrize("name", [n for n, tol in DENSE.items() if tol and len(CASES[n].y) <= 600])
def test_the_unfair_end_is_plain_kernel_ridge_regression(name, model):
    case, est = CASES[name], fitted(name, model)
    if case.params.get("kernel") == "laplacian":
        K = np.expm1(-est.gamma_ * cdist(case.X, case.X, "cityblock"))
    else:
        K = gram(case, est.gamma_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        f = score(est.at(0.0), case.X)
    y = case.target(model)
    y = 2.0 * y - 1.0 if model in CLASSIFIERS else y
    expected = kernel_ridge(K, y, case.weights, est.alpha_)
    assert np.abs(f - expected).max() <= DENSE[name] * case.spread(model)


@pytest.mark.parametrize("model", ["ridge", "fair ridge"])
@pytest.mark.parametrize("alpha", [1e-6, 1e-4])
def test_a_wide_kernel_is_right_where_the_ridge_is_above_rounding(model, alpha):
    case = CASES["wide kernel"]
    f = score(fit(case, model, alpha=alpha, fairness=0.0), case.X)
    expected = kernel_ridge(gram(case, case.params["gamma"]), case.y, case.weights, alpha)
    assert np.abs(f - expected).max() <= 1e-4 * case.y.std()


@pytest.mark.parametrize("widths", [1e3, 1e4, 1e6])
@pytest.mark.parametrize("alpha", ["auto", 1e-10])
def test_a_kernel_too_wide_for_its_ridge_is_right_or_says_so(widths, alpha):
    base = table()
    case = replace(base, params={"gamma": gamma_of(widths, base.X)})
    est = fit(case, "ridge", alpha=alpha, fairness=0.0)
    expected = kernel_ridge(gram(case, est.gamma_), case.y, case.weights, est.alpha_)
    wrong = np.abs(score(est, case.X) - expected).max() / case.y.std()
    assert wrong <= 1e-3 or any("alpha" in text or "gamma" in text for text in est.said)


# Their kernels have eigenvalues on both sides of the cuts (1e-8 for landmarks, rounding for all rows)
# that a ridge this small lets in.
BEYOND_THE_CUT = {"wide kernel"}


@pytest.mark.parametrize("model", ["ridge", "gp classifier"])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in CASES.items()
        if case.params.get("kernel") != "linear"
        and name not in BEYOND_THE_CUT
        and len(case.y) <= 600
    ],
)
@pytest.mark.parametrize("removal", ["auto", "training_rows"])
def test_all_rows_as_landmarks_are_the_exact_method(name, model, removal):
    case = CASES[name]
    given = {"alpha": case.weights.mean(), "eta": 1e-2, "removal": removal}
    gamma = fitted(name, model).gamma_
    exact = fit(case, model, gamma=gamma, **given)
    nystrom = fit(case, model, gamma=gamma, landmarks=np.unique(case.X, axis=0), **given)
    a, b = score(exact, case.X), score(nystrom, case.X)
    assert np.abs(a - b).max() <= 1e-4 * case.spread(model) + 16.0 * EPS * size_of(case, model)


@pytest.mark.parametrize("model", ["ridge", "ridge classifier"])
@pytest.mark.parametrize("name", CASES)
def test_workers_that_merge_give_the_model_of_one_pass(name, model):
    case = CASES[name]
    given = {"alpha": case.weights.mean(), "eta": 1e-2, **case.params}
    if given.get("kernel") != "linear":
        given.setdefault("gamma", fitted(name, model).gamma_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        start = case.estimator(model, **given).prepare(**case.arguments(model))
        batch = copy.deepcopy(start).partial_fit(**case.arguments(model))
        parts = [case.take(np.arange(len(case.y)) % 3 == h) for h in range(3)]
        first, *others = (
            copy.deepcopy(start).partial_fit(**part.arguments(model), solve=False) for part in parts
        )
        for other in others:
            first.merge(other, solve=False)
        first.solve()
        for fairness in (0.0, 0.5, 1.0):
            a, b = (score(est.at(fairness), case.X) for est in (first, batch))
            rounding = 16.0 * EPS * size_of(case, model)
            assert np.abs(a - b).max() <= 1e-8 * case.spread(model) + rounding


# ------------------------------------------------------------------ new rows

# Too few rows for folds: the training rows are used, and a warning says so.
FEW = {"n = D", "n < D", "n < p"}
new_rows = pytest.mark.parametrize(
    ("name", "model"), [(name, model) for name in CASES if name not in FEW for model in NEW_ROWS]
)


def scores_at(est, X, values=(0.0, 0.5, 1.0)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return [score(est.at(value), X) for value in values]


@new_rows
def test_on_new_rows_predictions_are_finite_and_of_the_size_of_y(name, model):
    case, est = CASES[name], fitted(name, model, "auto")
    rng = np.random.default_rng(3)
    between = case.X[rng.permutation(len(case.X))] * 0.5 + case.X * 0.5
    most = 20.0 if model == "gp classifier" else 3.0 * case.spread(model)
    for X in (case.X, between):
        for f in scores_at(est, X):
            assert np.isfinite(f).all()
            assert f.std() <= most


@new_rows
def test_on_new_rows_what_is_removed_is_not_expected(name, model):
    expected = fitted(name, model, "auto").certificate_.new_rows
    assert expected is not None
    for block in expected.blocks:
        assert 0.0 <= block.low <= block.correlation <= block.high <= 1.0
        assert np.isfinite(block.standard_error)
        whole = block.constrained and all(d.weight == 1.0 for d in block.directions)
        if whole and len(CASES[name].s) == 1:
            assert block.correlation <= 1e-9


# Cases that are the first one in other units, and what rounding leaves of that, in spreads of y.
UNITS = {
    **{f"scale {by:g}{what}": 1e-8 for by in (1e-8, 1e8) for what in ("", " of y", " of weights")},
    "offset 1e+06": 1e-6,
    "offset 1e+06 of y": 1e-6,
    "offset 1e+09": 1e-3,
    "offset 1e+09 of y": 1e-3,
}


@cache
def usual(model):
    return fit(table(), model, removal="auto")


@pytest.mark.parametrize("model", NEW_ROWS)
@pytest.mark.parametrize("name", UNITS)
def test_on_new_rows_units_do_not_matter(name, model):
    base, case, est = table(), CASES[name], fitted(name, model, "auto")
    share = base.target(model).mean(), case.target(model).mean()
    for a, b in zip(scores_at(usual(model), base.X), scores_at(est, case.X), strict=True):
        if model not in CLASSIFIERS:
            a, b = a - share[0], b - share[1]
        a, b = a / base.spread(model), b / case.spread(model)
        assert np.abs(a - b).max() <= UNITS[name]


@pytest.mark.parametrize("by", [1e-20, 1e-8, 1e8, 1e20])
def test_on_new_rows_separate_limits_do_not_depend_on_units(by):
    """Directions of the codes have no units, while the functions of y have its."""
    base = table(300)
    case = replace(base, s={"age": base.X[:, 0] + base.X[:, 1], **base.s})
    limits = {"fairness": {"age": 0.9, "s": 0.5}, "dial": "correlation", "removal": "new_rows"}
    a = score(fit(case, "ridge", **limits), case.X)
    b = score(fit(replace(case, y=case.y * by), "ridge", **limits), case.X)
    assert np.abs(a - b / by).max() <= 1e-9 * base.spread("ridge")


@pytest.mark.parametrize("weight", [1e-20, 1e-6, 1e6, 1e20])
def test_on_new_rows_intervals_have_the_size_of_the_errors(weight):
    base = table()
    est = fit(replace(base, w=np.full(150, weight)), "gp", removal="new_rows")
    _, sd = est.predict(base.X, return_std=True)
    assert (0.1 * base.y.std() <= sd).all()
    assert (sd <= 3.0 * base.y.std()).all()


@pytest.mark.parametrize("model", NEW_ROWS)
@pytest.mark.parametrize("widths", [1e-4, 3e-3, 1e-2, 2e-2, 3e-2, 5e-2])
def test_a_kernel_that_reaches_no_other_row_predicts_nothing_absurd(widths, model):
    """The slope of y on values of a fold that are next to nothing was as large as they are small."""
    both = table(600)
    case, other = both.take(np.arange(300)), both.take(np.arange(300, 600))
    est = fit(case, model, gamma=gamma_of(widths, case.X), removal="new_rows")
    most = 20.0 if model == "gp classifier" else 3.0 * case.spread(model)
    for X in (case.X, other.X):
        assert max(f.std() for f in scores_at(est, X)) <= most


@pytest.mark.parametrize("n", [60, 3000])
def test_groups_that_some_folds_lack(n):
    case = replace(table(n), s={"s": np.where(np.arange(n) < 5, 2, table(n).s["s"])})
    for model in NEW_ROWS:
        est = fit(case, model, removal="new_rows")
        assert all(np.isfinite(f).all() for f in scores_at(est, case.X))


@pytest.mark.parametrize("model", ["ridge", "gp"])
def test_a_y_that_does_not_vary_is_predicted(model):
    case = replace(table(), y=np.full(150, 7.0))
    est = fit(case, model, removal="new_rows")
    assert all(np.abs(f - 7.0).max() <= 1e-12 for f in scores_at(est, case.X))


# ------------------------------------------------------------------ thousands


@pytest.mark.parametrize("model", THOUSANDS)
@pytest.mark.parametrize("what", [pytest.param("cells", marks=pytest.mark.slow), "categories"])
def test_a_thousand_constraints_leave_the_mean_and_say_so(what, model):
    case = thousand(what)
    est = fit(case, model)
    assert any("take up all" in text for text in est.said)
    f = score(est, case.X)
    assert np.ptp(f) <= 1e-9
    assert len(est.cells_) == (1000 if what == "cells" else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        plain = est.at(0.0)
    found = worst_correlation(score(plain, case.X), case)
    assert plain.certificate_.score == pytest.approx(found, abs=1e-6)


def test_a_thousand_cells_of_few_rows_are_refused_with_the_remedy():
    case = thousand("cells").take(np.arange(2000))  # two rows a cell
    with pytest.raises(ValueError, match=r"two levels of at least 5 rows.*Merge levels, add rows"):
        case.estimator("ridge").fit(**case.arguments("ridge"))


def test_more_memory_than_there_is_is_refused_before_it_is_taken():
    case = thousand("cells")
    est = case.estimator("ridge", n_components=8000)
    with pytest.raises(ValueError, match=r"8000 feature columns in 1000 cells.*Lower n_components"):
        est.fit(**case.arguments("ridge"))


# ------------------------------------------------------------------ what must be said


def test_three_positives_cannot_be_compared_and_the_certificate_says_so():
    case = replace(CASES["three positives"], params={"criterion": "eo"})
    with pytest.warns(FairspanWarning) as caught:
        est = case.estimator("gp classifier").fit(**case.arguments("gp classifier"))
    assert any("not constrained in 1 of 2 cells" in str(w.message) for w in caught)
    assert "NOT constrained, too few rows or no variation: s in y=1." in str(est.certificate_)
    proba = est.predict_proba(case.X)
    assert np.isfinite(proba).all()
    assert proba[:, 1].mean() == pytest.approx(3 / 150, abs=0.01)


@pytest.mark.parametrize("name", ["one feature, linear", "50 attributes, 4 directions"])
def test_nothing_left_of_the_features_is_said(name):
    for model in MODELS:
        assert any("take up all" in text for text in fitted(name, model).said)


def test_an_outlier_of_x_is_said_and_does_not_move_the_others():
    case = CASES["an outlier of X"]
    given = {"gamma": 0.1, "alpha": 1.0, "eta": 1e-2}
    est = fit(case, "ridge", **given)
    assert any("standard deviations" in text for text in est.said)
    rows = np.arange(len(case.y)) != 3
    alone = fit(case.take(rows), "ridge", **given)
    a, b = score(est, case.X[rows]), score(alone, case.X[rows])
    assert np.abs(a - b).max() <= 0.1 * b.std()


@pytest.mark.parametrize("offset", [1e6, 1e9])
@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
def test_a_kernel_that_sees_the_origin_is_right_far_from_it_or_says_so(kernel, offset):
    """A product of rows that far away may have no digit left for what tells them apart."""
    base = table(params={"kernel": kernel, "alpha": 1.0, "eta": 1e-2})
    near, far = fit(base, "ridge"), fit(replace(base, X=base.X + offset), "ridge")
    a, b = (est.at(0.0).predict(X) for est, X in ((near, base.X), (far, base.X + offset)))
    fair = far.predict(base.X + offset)
    # A polynomial is another one about another origin, but not one of fewer functions.
    right = far.n_components_ == near.n_components_ and worst_gap(fair, base, 1.0) <= 1e-6
    if kernel == "linear":
        right &= np.abs(a - b).max() <= 1e-6 * a.std()
    assert right or any("tandardise" in text for text in far.said)
