"""The library against the golden numbers, as ``{quantity: (largest deviation, tolerance)}``.

* ``reference``: the authors' numbers of a synthetic case, by ``FairRepresentation.paper`` and least
  squares on its scores.
* ``variant``: the oracle's ``exact`` and ``conditional`` numbers, composed of the library's parts.
* ``leading_eigenvalues``: the oracle's six largest eigenvalues of every pencil.
* ``REAL``: the tables on real data, by label; each entry takes the shared folder.

Left out: variances and evidence of the authors' EM steps (``s2``, ``nlp``, ...); raw dual
coefficients (K is too ill conditioned for them to have digits); NLSY rows marked ``asis``, which
carry a slicing error of the authors' code, and with them the NLSY half of ``cv_bandwidth.csv``.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan import FairRepresentation
from fairspan.method.moments import Pooled
from fairspan.method.sdr import level_block, paper_directions, within_cov
from fairspan.method.subspaces import Metric, blend, dial_angles, principal_pair, removed_basis
from fairspan.metrics import by_attribute
from tests.golden.cases import Case

Array = NDArray[np.float64]
Transform = Callable[[Array], Array]
Removal = Literal["paper", "conditional", "exact"]
Deviations = dict[str, tuple[float, float]]

# Real tables: 1e-6 on every score; a share of misclassified rows is a count, equal or not; the
# coefficients on scores of norm 1 in the RKHS are of size 10 to 80.
ATOL = 1e-6
ATOL_COUNT = 1e-12
ATOL_ALPHA = 1e-5
# Small real cases: function values, as the synthetic ones.
ATOL_SMALL = 1e-8
# Exact removal promises zero in-sample correlation at eps = 1.
ATOL_ZERO = 1e-10

METRICS = {
    "sp": "statistical_parity_correlation",
    "eop": "equal_opportunity_correlation",
    "eo": "equalized_odds_correlation",
}
# Rows on which a criterion asks for independence, as the golden files name them; and as we do.
CELLS = {"sp": ("all",), "eop": ("y==1",), "eo": ("y==1", "y!=1")}
OUR_NAME = {"all": "all rows", "y==1": "y=1", "y!=1": "y=-1"}


# --------------------------------------------------------------------------------------------
# Deviations
# --------------------------------------------------------------------------------------------
def note(found: Deviations, name: str, actual: ArrayLike, expected: ArrayLike, atol: float) -> None:
    """Record a deviation if it is the largest of its name.

    An expected null (NaN) matches anything; an actual NaN becomes the deviation, and misses.
    """
    got, want = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if got.shape != want.shape:
        raise AssertionError(f"{name}: shape {got.shape} instead of {want.shape}")
    gap = np.abs(got - want)[~np.isnan(want)]
    found[name] = float(np.max(gap, initial=found.get(name, (0.0, 0.0))[0])), atol


def misses(found: Deviations) -> list[str]:
    """The quantities out of tolerance, in words."""
    return [
        f"{name}: {gap:.3g} > {atol:.3g}" for name, (gap, atol) in found.items() if not gap <= atol
    ]


def worst_ratio(found: Deviations) -> float:
    """Largest deviation in units of its tolerance: at most 1 if nothing misses."""
    return float(np.max([gap / atol for gap, atol in found.values()]))


def correlations(
    criterion: str, f: Array, S: Array, y: Array, kind: Literal["continuous", "categorical"]
) -> list[float]:
    """|corr(f, S)| per attribute, the largest over the criterion's cells (and levels, if asked)."""
    rows = (f,) if criterion == "sp" else (y, f)
    found = by_attribute(METRICS[criterion], *rows, sensitive_features=S, sensitive_kind=kind)
    return list(found.values())


# --------------------------------------------------------------------------------------------
# Models
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Model:
    """One eps of a path with the paper's head, least squares: ``f(x) = intercept + Pi(x) alpha``."""

    gamma: Array
    rho: Array
    transform: Transform
    Pi: Array
    intercept: float
    alpha: Array

    @property
    def fitted(self) -> Array:
        return np.asarray(self.intercept + self.Pi @ self.alpha)

    def predict(self, X: Array) -> Array:
        return np.asarray(self.intercept + self.transform(X) @ self.alpha)


@dataclass(frozen=True)
class Fit:
    """A path of models. ``place`` gives, for an eps, the angles to F and the scores."""

    X: Array
    y: Array
    sigma: Array
    theta: Array
    n_removed: int
    place: Callable[[float], tuple[Array, Transform]]

    def at(self, eps: float) -> Model:
        angles, transform = self.place(eps)
        sine = np.sin(self.theta)
        rho = np.divide(np.sin(angles), sine, out=np.zeros_like(sine), where=sine > 1e-12)
        Pi = transform(self.X)
        design = np.column_stack([np.ones(len(Pi)), Pi])
        coef = np.linalg.lstsq(design, self.y, rcond=None)[0]
        return Model(np.cos(angles), rho, transform, Pi, float(coef[0]), coef[1:])


def public_fit(estimator: FairRepresentation, X: Array, y: Array) -> Fit:
    """The path of a fitted estimator, through what a user sees."""

    def place(eps: float) -> tuple[Array, Transform]:
        at = estimator.at(eps)
        return at.certificate_.angles, at.transform

    return Fit(X, y, estimator.cosines_, estimator.angles_, estimator.n_removed_, place)


@dataclass
class Parts:
    """The library's parts by hand, on the moments of an estimator that has seen X and y."""

    estimator: FairRepresentation
    X: Array
    y: Array
    m: int
    d: int
    eta: float
    _pencils: dict[tuple[str, int, int], tuple[Array, Array]] = field(default_factory=dict)

    def pooled(self, cell: str) -> Pooled:
        """Moments of a cell's rows; psi itself was accumulated, all rows being landmarks."""
        pilot, moments = self.estimator.pilot_, self.estimator.moments_
        assert pilot.features.pending is None
        if cell == "all":
            return moments.pool()
        return moments.pool(cell=pilot.cells.names.index(OUR_NAME[cell]))

    def pencil(self, cell: str, variable: int, size: int) -> tuple[Array, Array]:
        """The paper's pencil of a coded variable in a cell; -1 is y."""
        key = cell, variable, size
        if key not in self._pencils:
            rows = self.pooled(cell)
            within = within_cov(rows, rows.levels[variable])
            self._pencils[key] = paper_directions(rows.cov, within, self.eta, size)
        return self._pencils[key]

    def covectors(self, cell: str, attribute: int, removal: Removal) -> Array:
        """What F is orthogonal to on account of one cell and attribute."""
        rows = self.pooled(cell)
        if removal == "exact":
            block = level_block(rows.levels[attribute], rows.weight, ordered=False, min_rows=1)
            assert block is not None
            return block.delta
        W = self.pencil(cell, attribute, self.m)[1]
        return (rows if removal == "conditional" else self.pooled("all")).cov @ W

    def fit(self, criterion: str, removal: Removal) -> Fit:
        """RKHS geometry, cosine dial, first training row positive."""
        metric, moments = Metric.rkhs(), self.estimator.moments_
        attributes = range(len(self.estimator.pilot_.coders))
        covectors = [self.covectors(c, j, removal) for c in CELLS[criterion] for j in attributes]
        removed = removed_basis(metric, covectors)
        pair = principal_pair(removed, metric.functions(self.pencil("all", -1, self.d)[1]))
        basis = metric.back(np.concatenate([pair.fair, pair.removed], axis=1))
        mean = moments.pool().mean

        def place(eps: float) -> tuple[Array, Transform]:
            angles = dial_angles(pair, eps, "cosine")
            E = basis @ blend(pair, angles)
            E = E * np.where((moments.first_row - mean) @ E < 0.0, -1.0, 1.0)
            return angles, lambda rows: self.estimator.pilot_.features.scores(rows, E) - mean @ E

        return Fit(self.X, self.y, pair.cosines, pair.angles, removed.shape[1], place)


# --------------------------------------------------------------------------------------------
# Synthetic cases
# --------------------------------------------------------------------------------------------
def _estimator(case: Case, band_factor: float = 1.0, eta_factor: float = 1.0) -> FairRepresentation:
    settings = case.settings
    return FairRepresentation.paper(
        settings["band"] * band_factor,
        settings["m"],
        settings["d"],
        criterion=settings["criterion"],
        eta=settings["eta"] * eta_factor,
    ).fit(case.X_train, case.y_train, sensitive_features=case.S_train)


def _parts(case: Case, estimator: FairRepresentation) -> Parts:
    settings = case.settings
    return Parts(estimator, case.X_train, case.y_train, settings["m"], settings["d"], estimator.eta)


def reference(case: Case, band_factor: float = 1.0, eta_factor: float = 1.0) -> Deviations:
    """The authors' numbers. The factors are for negative controls."""
    found: Deviations = {}
    estimator = _estimator(case, band_factor, eta_factor)
    atol = case.atol["tau"]
    # tau of y is no public attribute.
    tau_y = _parts(case, estimator).pencil("all", -1, case.settings["d"])[0]
    note(found, "tau_y", tau_y, case.reference["tau_y"], atol)
    for cell in CELLS[case.settings["criterion"]]:
        ours = [b for b in estimator.blocks_ if b.constrained and b.cell == OUR_NAME[cell]]
        theirs = [b for b in case.reference["blocks"] if b["rows"] == cell]
        for our, their in zip(ours, theirs, strict=True):
            note(found, "tau", our.eigenvalues, their["tau"], atol)
    fit = public_fit(estimator, case.X_train, case.y_train)
    return found | _path(case, fit, case.reference)


def variant(case: Case, removal: Removal, expected: dict[str, Any] | None = None) -> Deviations:
    """The oracle's block of that removal (or another block), by the library's parts."""
    fit = _parts(case, _estimator(case)).fit(case.settings["criterion"], removal)
    found = _path(case, fit, case.oracle[removal] if expected is None else expected)
    if removal == "exact":
        f = fit.at(1.0).fitted
        S, y = case.S_train, case.y_train
        left = correlations(case.settings["criterion"], f, S, y, "categorical")
        note(found, "abs_corr_train at eps=1", left, np.zeros(len(left)), ATOL_ZERO)
    return found


def leading_eigenvalues(case: Case) -> Deviations:
    """Six eigenvalues of every pencil, noise directions included."""
    found: Deviations = {}
    parts = _parts(case, _estimator(case))
    atol = case.atol["tau"]
    note(found, "tau_y", parts.pencil("all", -1, 6)[0], case.oracle["tau_y_leading"], atol)
    for block in case.oracle["blocks"]:
        attribute = [b["attribute"] for b in case.oracle["blocks"] if b["rows"] == block["rows"]]
        j = attribute.index(block["attribute"])
        note(found, "tau", parts.pencil(block["rows"], j, 6)[0], block["tau_leading"], atol)
    return found


def _path(case: Case, fit: Fit, expected: dict[str, Any]) -> Deviations:
    """Everything a block stores, less the EM quantities."""
    found: Deviations = {}
    note(found, "n_removed", fit.n_removed, expected["n_removed"], 0.5)
    note(found, "sigma", fit.sigma, expected["sigma"], case.atol["sigma"])
    for row in expected["by_eps"]:
        model = fit.at(row["eps"])
        for name in ("gamma", "rho", "intercept", "alpha", "Pi"):
            if name in row:
                note(found, name, getattr(model, name), row[name], case.atol[name])
        mean = model.predict(case.X_test)
        note(found, "mean_test", mean, row["mean_test"], case.atol["mean_test"])
        for part, f, S, y in (
            ("abs_corr_train", model.fitted, case.S_train, case.y_train),
            ("abs_corr_test", mean, case.S_test, case.y_test),
        ):
            for column, kind in (("code", "continuous"), ("level", "categorical")):
                values = correlations(case.settings["criterion"], f, S, y, kind)
                note(found, part, values, row[part][column], case.atol["abs_corr"])
    return found


# --------------------------------------------------------------------------------------------
# Real data
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Data:
    """Training and test rows; S has one column per attribute."""

    X: Array
    S: Array
    y: Array
    X_test: Array
    S_test: Array
    y_test: Array

    def head(self, n_train: int, n_test: int) -> Data:
        """The first rows of both parts."""
        a, b = slice(n_train), slice(n_test)
        return Data(self.X[a], self.S[a], self.y[a], self.X_test[b], self.S_test[b], self.y_test[b])

    def fit(self, band: float, m: int, d: int, criterion: str) -> FairRepresentation:
        """Algorithms 1 and 2."""
        estimator = FairRepresentation.paper(band, m, d, criterion=criterion)
        return estimator.fit(self.X, self.y, sensitive_features=self.S)


def _columns(path: Path) -> dict[str, Array]:
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        names = handle.readline().strip().split(",")
        values = np.loadtxt(handle, delimiter=",", ndmin=2)
    return dict(zip(names, values.T, strict=True))


def golden_rows(shared: Path, table: str, **where: Any) -> list[dict[str, str]]:
    """Rows of a golden table; ``where`` compares as numbers if the value is one."""

    def fits(row: dict[str, str]) -> bool:
        return all(
            row[key] == value if isinstance(value, str) else float(row[key]) == value
            for key, value in where.items()
        )

    path = shared / "golden" / "real" / f"{table}.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        chosen = [row for row in csv.DictReader(handle) if fits(row)]
    if not chosen:
        raise AssertionError(f"{table}.csv has no row where {where}")
    return chosen


def labelled(shared: Path, dataset: str) -> Data:
    """Adult or Compas as the authors split and scaled them; S is sex."""
    sensitive = {"adult": "sex", "compas": "sex_male"}[dataset]
    parts: list[Array] = []
    for part in ("train", "test"):
        table = _columns(shared / "data" / "reference" / f"{dataset}_{part}.csv.gz")
        S, y = table.pop(sensitive), table.pop("y")
        parts += [np.column_stack(list(table.values())), S[:, None], y]
    return Data(*parts)


def nlsy_data(shared: Path, n_train: int, n_test: int, n_scale: int) -> Data:
    """Income by 20 features, scaled on the first ``n_scale`` rows; S is gender and age."""
    table = _columns(shared / "data" / "reference" / "nlsy.csv.gz")
    X = np.column_stack([values for name, values in table.items() if name.startswith("x")])
    X = (X - X[:n_scale].mean(axis=0)) / X[:n_scale].std(axis=0, ddof=1)
    S = np.column_stack([table["s_gender"], table["s_age"]])
    y = table["y_income"]
    a, b = slice(n_train), slice(n_train, n_train + n_test)
    return Data(X[a], S[a], y[a], X[b], S[b], y[b])


def _error(f: Array, y: Array) -> float:
    return float(np.mean(np.sign(f) != y))


def _rmse(f: Array, y: Array) -> float:
    return float(np.sqrt(np.mean((f - y) ** 2)))


# The bands of the authors' scripts, and the cross-validated one.
BANDS = {
    **{("adult", c): b for c, b in (("sp", 8.4389), ("eop", 6.7535), ("eo", 8.7249))},
    **{("compas", c): 10.0 for c in CELLS},
}


def classification(shared: Path, dataset: str, criterion: str) -> Deviations:
    """``{adult,compas}_tradeoff.csv`` and ``conditional_covariance_variant.csv``, one criterion."""
    data = labelled(shared, dataset)
    estimator = data.fit(BANDS[dataset, criterion], 1, 1, criterion)
    fit = public_fit(estimator, data.X, data.y)
    found: Deviations = {}
    table = f"{dataset}_tradeoff"
    known: dict[float, dict[str, float]] = {}
    for row in golden_rows(shared, table, criterion=criterion):
        # Every eps below sigma is one model.
        key = max(float(row["eps"]), float(fit.sigma[0]))
        if key not in known:
            known[key] = _decision_scores(fit, float(row["eps"]), data)
        _note_row(found, table, row, known[key])
    table = "conditional_covariance_variant"
    parts = Parts(estimator, data.X, data.y, 1, 1, estimator.eta)
    for row in golden_rows(shared, table, dataset=dataset, criterion=criterion):
        conditional = row["conditional_cov"] == "True"
        path = parts.fit(criterion, "conditional") if conditional else fit
        _note_row(found, table, row, _decision_scores(path, float(row["eps"]), data))
    return found


def _decision_scores(fit: Fit, eps: float, data: Data) -> dict[str, float]:
    """Named as the columns of the tables."""
    model = fit.at(eps)
    out = {"sigma": fit.sigma[0], "gamma": model.gamma[0], "rho": model.rho[0]}
    out |= {"alpha0": model.intercept, "alpha1_abs": abs(model.alpha[0])}
    for part, f, S, y in (
        ("train", model.fitted, data.S, data.y),
        ("test", model.predict(data.X_test), data.S_test, data.y_test),
    ):
        out[f"err_{part}"] = _error(f, y)
        for criterion in METRICS:
            out[f"{criterion.upper()}_{part}"] = correlations(criterion, f, S, y, "continuous")[0]
    return out


# Columns that say what was run, and those of the EM stage; every other column must be compared.
SETTINGS = {"dataset", "criterion", "variant", "conditional_cov", "band", "m", "d"}
SETTINGS |= {"grid", "angle", "eps"}
EM = {"s2", "nlp", "nlp_last", "em_iters", "beta_abs", "beta_norm", "trace_SigBeta"}
# Of the authors' route: their Lambda, their rounding.
ROUTE = {"is_real", "isreal_E", "Lbd_min", "Lbd_max", "orthonormality_defect_max_abs_EtKE_minus_I"}


def _note_row(found: Deviations, table: str, row: dict[str, str], scores: dict[str, float]) -> None:
    if left := set(row) - set(scores) - SETTINGS - EM - ROUTE:
        raise AssertionError(f"{table}.csv: nothing to compare with {sorted(left)}")
    for name, value in scores.items():
        if name in row:
            kind = name.split("_")[0].rstrip("01")
            atol = {"err": ATOL_COUNT, "alpha": ATOL_ALPHA}.get(kind, ATOL)
            note(found, f"{table} {name}", value, float(row[name]), atol)


def income(shared: Path, band: float, m: int) -> Deviations:
    """``nlsy_tradeoff.csv`` (variant ``fixed``) and ``nlsy_effect_of_m.csv``, one fit."""
    data = nlsy_data(shared, 1500, 1500, n_scale=3000)
    estimator = data.fit(band, m, 4, "sp")
    fit = public_fit(estimator, data.X, data.y)
    found: Deviations = {}
    # 158 of the 261 values occur once: one slice each all the same.
    note(found, "slices of y", estimator.pilot_.target.n_levels, 261, 0.5)
    for table, where in (("nlsy_tradeoff", {"variant": "fixed"}), ("nlsy_effect_of_m", {})):
        if (table, band, m) in INCOME:
            for row in golden_rows(shared, table, band=band, m=m, **where):
                _note_row(found, table, row, _income_scores(fit, float(row["eps"]), data))
    return found


def _income_scores(fit: Fit, eps: float, data: Data) -> dict[str, float]:
    model = fit.at(eps)
    out = {f"sigma{i + 1}": float(value) for i, value in enumerate(fit.sigma)}
    out |= {"alpha0": model.intercept, "alpha_norm": float(np.linalg.norm(model.alpha))}
    for part, f, S, y in (
        ("train", model.fitted, data.S, data.y),
        ("test", model.predict(data.X_test), data.S_test, data.y_test),
    ):
        out[f"rmse_{part}"] = _rmse(f, y)
        gender, age = correlations("sp", f, S, y, "continuous")
        out |= {f"SP_gender_{part}": gender, f"SP_age_{part}": age}
    return out


def bandwidth(shared: Path, band: float) -> Deviations:
    """``cv_bandwidth.csv``, Compas: three folds, mean over folds.

    One pass per fold serves the three criteria: moments by cell pool to those of all rows.
    """
    data = labelled(shared, "compas")
    table = "cv_bandwidth"
    scores: dict[str, list[list[float]]] = {criterion: [] for criterion in CELLS}
    fold = np.arange(len(data.y)) % 3
    for k in range(3):
        train, test = fold != k, fold == k
        X, y = data.X[train], data.y[train]
        estimator = FairRepresentation.paper(band, criterion="eo")
        estimator.prepare(X, y, sensitive_features=data.S[train])
        estimator.partial_fit(X, y, sensitive_features=data.S[train], solve=False)
        parts = Parts(estimator, X, y, 1, 1, estimator.eta)
        for criterion, values in scores.items():
            fit = parts.fit(criterion, "paper")
            f0, f1 = (fit.at(eps).predict(data.X[test]) for eps in (0.0, 1.0))
            y_test = data.y[test]
            values.append(
                [_rmse(f0, y_test), _rmse(f1, y_test), _error(f0, y_test), _error(f1, y_test)]
            )
    found: Deviations = {}
    names = ("rmse_eps0", "rmse_eps1", "err_eps0", "err_eps1")
    for row in golden_rows(shared, table, dataset="compas", band=band):
        means = np.mean(scores[row["criterion"]], axis=0)
        _note_row(found, table, row, dict(zip(names, means, strict=True)))
    return found


SMALL = ("adult200_sp", "adult200_eop", "adult200_eo", "nlsy150_fixed")


def small(shared: Path, case: str) -> Deviations:
    """``small_{scalars,predictions,vectors,kernel_rows}.csv``, one case."""
    dataset, criterion = case.split("_")
    if dataset == "adult200":
        data = labelled(shared, "adult").head(200, 50)
        band, m = 8.4389, 1
    else:
        data, criterion = nlsy_data(shared, 150, 50, n_scale=7244), "sp"
        band, m = 10.0, 2
    estimator = data.fit(band, m, m, criterion)
    fit = public_fit(estimator, data.X, data.y)
    tau_y = Parts(estimator, data.X, data.y, m, m, estimator.eta).pencil("all", -1, m)[0]
    blocks = [
        block.eigenvalues
        for cell in CELLS[criterion]
        for block in estimator.blocks_
        if block.constrained and block.cell == OUR_NAME[cell]
    ]
    taus = {"y": tau_y} | {f"s_block{i + 1}": tau for i, tau in enumerate(blocks)}
    found: Deviations = {}
    models: dict[str, Model] = {}
    for row in golden_rows(shared, "small_scalars", case=case):
        if row["eps"] not in models:
            models[row["eps"]] = fit.at(float(row["eps"]))
        model = models[row["eps"]]
        ours: dict[str, ArrayLike] = {
            **{f"sdr_tau_{name}": tau for name, tau in taus.items()},
            **{f"sdr_eig_{name}": 1.0 - 1.0 / tau for name, tau in taus.items()},
            "sigma": fit.sigma,
            "gamma": model.gamma,
            "rho": model.rho,
            "alpha0": model.intercept,
            "alpha_abs": np.abs(model.alpha),
            "alpha_norm": np.linalg.norm(model.alpha),
            "rank_Q": len(data.y) - fit.n_removed,
        }
        if row["quantity"] not in EM | ROUTE:
            value = np.atleast_1d(ours[row["quantity"]])[int(row["index"]) - 1]
            name = row["quantity"].replace("_block1", "").replace("_block2", "")
            note(found, f"small_scalars {name}", value, float(row["value"]), ATOL_SMALL)
    values: dict[tuple[str, ...], Array] = {}
    for eps, model in models.items():
        values[eps, "train"] = model.fitted
        values[eps, "test"] = model.predict(data.X_test)
        for column, Pi in enumerate(model.Pi.T):
            values[eps, "Pi", str(column + 1)] = Pi
    for row in golden_rows(shared, "small_predictions", case=case):
        value = values[row["eps"], row["set"]][int(row["row"]) - 1]
        note(found, f"small_predictions {row['set']}", value, float(row["mean"]), ATOL_SMALL)
    for row in golden_rows(shared, "small_vectors", case=case, name="Pi"):
        value = values[row["eps"], "Pi", row["column"]][int(row["row"]) - 1]
        note(found, "small_vectors Pi", value, float(row["value"]), ATOL_SMALL)
    K = estimator.pilot_.features.kernel(data.X, data.X)
    for row in golden_rows(shared, "small_kernel_rows", case=dataset):
        value = K[int(row["row"]) - 1, int(row["column"]) - 1]
        note(found, "small_kernel_rows", value, float(row["value"]), 1e-13)
    return found


# Which table has which (band, m).
INCOME = {
    *(("nlsy_tradeoff", band, 4) for band in (18.0, 40.0)),
    *(("nlsy_effect_of_m", 18.0, m) for m in (1, 2, 4)),
}
CV_BANDS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 40.0)

REAL: dict[str, Callable[[Path], Deviations]] = {
    **{
        f"{dataset} {criterion}": partial(classification, dataset=dataset, criterion=criterion)
        for dataset, criterion in BANDS
    },
    **{
        f"nlsy band={band:g} m={m}": partial(income, band=band, m=m)
        for band, m in sorted({(band, m) for _, band, m in INCOME})
    },
    **{f"compas cv band={band:g}": partial(bandwidth, band=band) for band in CV_BANDS},
    **{case: partial(small, case=case) for case in SMALL},
}
