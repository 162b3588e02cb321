"""Any kernel machine on the fair kernel: how much its score still says about S in sample."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from fairspan import FairRepresentation

FIXED = {"gamma": 0.3, "eta": 1e-3, "alpha": 1.0}


class FairKernel(Kernel):
    """A fair representation's kernel for scikit-learn's Gaussian process."""

    hyperparameters = ()

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, X, Y=None):
        return self.kernel(X, Y)

    def diag(self, X):
        return np.diag(self(X)).copy()

    def is_stationary(self):
        return False


def rows(seed=0, n=150):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + 0.7 * s[:, None] * [1.0, 0.5, 0.0]
    y = (X[:, 0] + np.sin(2.0 * X[:, 2]) + 0.4 * rng.normal(size=n) > 0.7).astype(int)
    return X, y, s


def scores(rep, X, y):
    """Decision functions of several machines trained on the representation's kernel."""
    gram = rep.kernel_(X)
    return {
        "SVC, callable": SVC(kernel=rep.kernel_, C=3.0).fit(X, y).decision_function(X),
        "SVC, precomputed": SVC(kernel="precomputed", C=3.0).fit(gram, y).decision_function(gram),
        "SVR": SVR(kernel=rep.kernel_).fit(X, y).predict(X),
        "KernelRidge": KernelRidge(kernel="precomputed", alpha=0.1).fit(gram, y).predict(gram),
        "GaussianProcessRegressor": GaussianProcessRegressor(
            FairKernel(rep.kernel_), alpha=0.1, optimizer=None
        )
        .fit(X, y - y.mean())
        .predict(X),
    }


def multiple_correlation(score, s, part):
    """Correlation ratio of a score with a category, on some of the rows."""
    score, s = score[part], s[part]
    means = np.array([score[s == level].mean() for level in np.unique(s)])
    share = np.array([np.mean(s == level) for level in np.unique(s)])
    spread = share @ (means - score.mean()) ** 2
    return float(np.sqrt(spread / score.var()))


def worst(fairness, *, criterion="sp", subspace="model", seed=0):
    """Per machine: largest multiple correlation in sample; and the certificate's supremum."""
    X, y, s = rows(seed)
    rep = FairRepresentation(
        **FIXED,
        fairness=fairness,
        criterion=criterion,
        subspace=subspace,
        pos_label=1,
        removal="training_rows",
    ).fit(X, y, sensitive_features=s)
    everybody = np.ones(len(y), dtype=bool)
    parts = {"sp": [everybody], "eop": [y == 1], "eo": [y == 0, y == 1]}[criterion]
    found = {
        name: max(multiple_correlation(score, s, part) for part in parts)
        for name, score in scores(rep, X, y).items()
    }
    return found, rep.certificate_.supremum
