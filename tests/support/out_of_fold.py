"""Cross-fitting on rows, by the definition: an oracle for the moments of folds."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OutOfFold:
    predictions: np.ndarray  # of y by ridge regression without the fold, centred within folds
    scores: np.ndarray  # of the basis of each fold, likewise
    target: np.ndarray  # contrasts of y, centred within folds
    codes: list  # centred within folds (and cells)
    known: list  # rows that have a code
    shifted: np.ndarray  # the basis of each fold about the mean of the other rows
    residual: np.ndarray  # y about the mean of the other rows

    def errors(self, C):
        """Squared error of every row."""
        return ((self.residual - self.shifted @ C) ** 2).sum(axis=1)


def out_of_fold(est, X, y, S, w):
    """Repeat the cross-fitting of an estimator on its training rows."""
    fitted, pilot = est._solution.new_rows, est.pilot_
    data = est._read(X, y, S, None, w, reset=False)
    encoded = pilot.encode(data)
    folds = pilot.folds(data, encoded, pilot.counter())
    psi = pilot.features.coordinates(data.X)
    if pilot.target_is_numeric:
        outputs = np.asarray(y, dtype=float)[:, None]
    else:
        outputs = np.eye(len(est.classes_))[np.searchsorted(est.classes_, y)]
    outputs = outputs @ fitted.contrasts
    n, m = len(X), fitted.basis.shape[1]
    out = OutOfFold(
        predictions=np.zeros_like(outputs),
        scores=np.zeros((n, m)),
        target=np.zeros_like(outputs),
        codes=[],
        known=[],
        shifted=np.zeros((n, m)),
        residual=np.zeros_like(outputs),
    )
    for block in fitted.blocks:
        inside = np.ones(n, dtype=bool)
        if block.codes.cell is not None:
            inside = encoded.cells == block.codes.cell
        values = block.codes.of_rows(encoded.levels, encoded.values, inside, encoded.probabilities)
        known = block.codes.has_code(encoded.levels, encoded.values, inside)
        centred = np.zeros_like(values)
        for fold in range(fitted.n_folds):
            rows = known & (folds == fold)
            if rows.any():
                centred[rows] = values[rows] - np.average(values[rows], axis=0, weights=w[rows])
        out.codes.append(centred)
        out.known.append(known)
    for fold in range(fitted.n_folds):
        test, train = folds == fold, folds != fold
        share = w[train] / w[train].sum()
        mean, level = share @ psi[train], share @ outputs[train]
        centred = psi[train] - mean
        cov = (centred * share[:, None]).T @ centred
        cross = (centred * share[:, None]).T @ (outputs[train] - level)
        g = np.linalg.solve(cov + est._solution.eta_y * np.eye(len(cov)), cross)
        here = psi[test] - np.average(psi[test], axis=0, weights=w[test])
        out.predictions[test] = here @ g
        out.scores[test] = here @ fitted.fold_bases[fold]
        out.target[test] = outputs[test] - np.average(outputs[test], axis=0, weights=w[test])
        out.shifted[test] = (psi[test] - mean) @ fitted.fold_bases[fold]
        out.residual[test] = outputs[test] - level
    return out
