"""Metric of removal on new rows, on training rows alone: ``python -m tools.curvature_choice [splits]``.

For each table, the training rows of every split are cut into five folds; ``FairGPClassifier`` is fitted on
four of them and judged on the fifth. Test rows of the splits are not read. Printed are means over folds, with
the metric of least squares ("constant") and that of the likelihood, at fairness 1 and one half: error, log
loss, correlation of ``decision_function`` with S along its sign at fairness 0, and difference between the
selection rates of the two groups; then the paired differences, likelihood minus constant, in standard errors.
Rows of folds are shared between splits, so these standard errors are too small rather than too large.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from fairspan import FairGPClassifier, datasets
from tools.promise_populations import Draw, planted, splits, wide

METRICS = ("constant", "likelihood")
MEASURES = ("error", "log loss", "correlation", "rate gap")
LEVELS = (1.0, 0.5)


def tables() -> Iterator[tuple[str, Callable[[int], Draw]]]:
    """Five tables of two classes and two groups."""
    black = "African-American"
    yield "Adult sex", splits(datasets.fetch_adult, "sex")
    yield "COMPAS race", splits(datasets.fetch_compas, "race", black)
    yield "COMPAS sex", splits(datasets.fetch_compas, "sex")
    yield "loans race", splits(datasets.load_loans, "race", "black")
    yield "wide(1500, 20)", planted(lambda n, rng: wide(n, 20, rng), 1500)


def judge(draw: Draw, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Measures on the rows of a fold, (metrics, levels, measures)."""
    X, y, s = np.asarray(draw.X), np.asarray(draw.y), np.asarray(draw.s).ravel()
    group = np.unique(s, return_inverse=True)[1][test]
    out = np.zeros((len(METRICS), len(LEVELS), len(MEASURES)))
    for i, metric in enumerate(METRICS):
        model = FairGPClassifier(curvature=metric, random_state=0)
        model.fit(X[train], y[train], sensitive_features=s[train])
        free = model.at(0.0).decision_function(X[test])
        sign = np.sign(np.cov(free, group)[0, 1])
        for j, level in enumerate(LEVELS):
            at = model.at(level)
            score, decided = at.decision_function(X[test]), at.predict(X[test])
            selected = decided == at.classes_[1]
            rates = [selected[group == g].mean() for g in (0, 1)]
            out[i, j] = (
                np.mean(decided != y[test]),
                log_loss(y[test], at.predict_proba(X[test]), labels=at.classes_),
                sign * np.corrcoef(score, group)[0, 1] if np.ptp(score) > 0.0 else 0.0,
                sign * (rates[1] - rates[0]),
            )
    return out


def folds(draw: Draw, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Five folds of the training rows, balanced within groups and classes."""
    strata = [np.unique(v, return_inverse=True)[1] for v in (np.ravel(draw.y), np.ravel(draw.s))]
    yield from StratifiedKFold(5, shuffle=True, random_state=seed).split(
        draw.X, 2 * strata[0] + strata[1]
    )


def quiet(draw: Draw, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The same on one thread, without warnings."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judge(draw, train, test)


def main() -> None:
    """Print the table."""
    n_splits = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(f"{'':32}" + "".join(f"{name:>13}" for name in MEASURES))
    for name, draw in tables():
        tasks = []
        for seed in range(n_splits):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = draw(seed)
            tasks += [(rows, *fold) for fold in folds(rows, seed)]
        found = np.stack(Parallel(n_jobs=2)(delayed(quiet)(*task) for task in tasks))
        for j, level in enumerate(LEVELS):
            for i, metric in enumerate(METRICS):
                means = "".join(f"{v:13.4f}" for v in found[:, i, j].mean(axis=0))
                print(f"{name + ', ' + metric + f', {level:g}':32}{means}")
            paired = found[:, 1, j] - found[:, 0, j]
            error = paired.std(axis=0, ddof=1) / np.sqrt(len(paired))
            ratio = paired.mean(axis=0) / np.maximum(error, 1e-12)
            print(f"{'  difference, in SE':32}" + "".join(f"{v:13.1f}" for v in ratio), flush=True)


if __name__ == "__main__":
    main()
