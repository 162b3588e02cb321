"""Rows with an attribute, a number, folds and weights: what dimension reduction is computed from."""

import numpy as np

from fairspan.method.accumulate import Accumulator
from fairspan.method.moments import Moments

FOLDS = 5


class Rows:
    """Rows with one attribute of three levels, one number, folds and weights."""

    def __init__(self, seed, n=60, D=6, weighted=True):
        rng = np.random.default_rng(seed)
        self.psi = rng.normal(size=(n, D)) * 0.5 ** np.arange(D)
        self.group = rng.permutation(np.arange(n) % 3)
        self.value = self.psi[:, 0] - self.psi[:, 1] + rng.normal(size=n)
        self.psi[:, 0] += 0.5 * self.group
        self.fold = rng.permutation(np.arange(n) % FOLDS)
        self.w = rng.exponential(size=n) + 0.1 if weighted else np.ones(n)

    def moments(self):
        order = np.argsort(self.fold, kind="stable")
        D = self.psi.shape[1]
        accumulator = Accumulator(
            Moments.empty(
                "pilot", n_cells=1, n_folds=FOLDS, level_sizes=(3,), n_numeric=1, n_columns=D
            )
        )
        accumulator.add(
            self.psi[order],
            self.fold[order],
            self.group[order, None],
            self.value[order, None],
            self.w[order],
        )
        accumulator.note(0.0, 0, self.psi[0])
        return accumulator.finish()

    def centred(self):
        share = self.w / self.w.sum()
        return share, self.psi - share @ self.psi

    def whitened_codes(self):
        share = self.w / self.w.sum()
        onehot = (self.group[:, None] == np.arange(3)).astype(float)
        onehot -= share @ onehot
        values, vectors = np.linalg.eigh(onehot.T @ (share[:, None] * onehot))
        return onehot @ vectors[:, 1:] / np.sqrt(values[1:])
