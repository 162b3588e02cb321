"""What makes parity of labels cheap and what does not: the measurements behind decision 0011.

``python -m tools.price_choices [splits]`` prints, for each data set and choice, means over
splits: the unconstrained error; at SP <= .03 (the dial value chosen on validation rows) error and test
SP; the error when the value is chosen on test rows; the fair end; at a demographic parity difference
<= .02 error and test gap, on a line that goes on past the fair end (constrained logistic regression has 16
penalties instead, and no past).

All choices share the coordinates psi and the ridge of one default fit and differ in the direction that is
taken out of the unconstrained function g, or in g itself. Every function of every line gets the same
logistic slope and intercept, on the fit rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special
from sklearn.linear_model import LogisticRegression

from fairspan import FairGPClassifier
from fairspan.method.laplace import row_curvature
from fairspan_lab.frontier._measures import measure
from fairspan_lab.frontier._problems import Split, load, split

DATA = ("Adult", "COMPAS", "COMPAS (paper's columns)")
LINE = np.linspace(0.0, 2.0, 61)  # 1 is the fair end
MULTIPLIERS = np.concatenate([[0.0], np.geomspace(0.03, 1e3, 14), [1e7]])
FOLDS = 5


class Rows:
    """Coordinates and moments of one split."""

    def __init__(self, part: Split) -> None:
        self.split = part
        fit = part.fit
        model: Any = FairGPClassifier(random_state=0, curvature="constant", removal="training_rows")
        model.fit(fit.X, fit.y, sensitive_features=fit.S)
        self.psi, self.new = (
            model._coordinates(fit.X),
            [model._coordinates(one.X) for one in (part.validation, part.test)],
        )
        (s,) = fit.S.values()
        self.y, self.s = fit.y.astype(float), (s - s.mean()) / s.std()
        self.n, self.eta, self.prior = len(self.y), model._solution.eta_y, model._prior_scale()
        self.eye = np.eye(self.psi.shape[1])
        self.cov = self.psi.T @ self.psi / self.n
        self.N = self.psi.T @ self.s / self.n
        self.g = np.linalg.solve(
            self.cov + self.eta * self.eye, self.psi.T @ (self.y - self.y.mean()) / self.n
        )
        self.eta_s = float(model.blocks_[0].eta)

    def curved(self, power: float = 1.0) -> np.ndarray:
        """Covariance with rows weighted by the curvature of the likelihood."""
        p = self.y.mean() + self.psi @ self.g
        v = row_curvature(np.stack([1.0 - p, p], axis=1)) ** power
        v /= v.sum()
        mean = v @ self.psi
        return np.asarray((self.psi * v[:, None]).T @ self.psi - np.outer(mean, mean))

    def judge(self, functions: Iterator[np.ndarray]) -> list[tuple[dict, dict]]:
        """Validation and test measures of every function, with a logistic slope and intercept."""
        out = []
        for w in functions:
            f = self.psi @ w
            scale = f.std()
            head = LogisticRegression(C=1e6).fit(f[:, None] / scale, self.y)
            a, b = head.coef_[0, 0] / scale, head.intercept_[0]
            parts = (self.split.validation, self.split.test)
            out.append(
                tuple(
                    measure(a * (new @ w) + b, part.y, part.S, classifies=True)
                    for new, part in zip(self.new, parts, strict=True)
                )
            )
        return out


def along(rows: Rows, r: np.ndarray, g: np.ndarray | None = None, end: float | None = None):
    """The line from g through its fair point in the direction r."""
    g = rows.g if g is None else g
    amount = (rows.N @ g) / (rows.N @ r) if end is None else end
    return (g - t * amount * r for t in LINE)


def removal(rows: Rows, metric: np.ndarray, ridge: float) -> np.ndarray:
    """The direction that is taken out: S regressed on psi in some metric, with some ridge."""
    return scipy.linalg.solve(metric + ridge * rows.eye, rows.N, assume_a="pos")


def crossfit_end(rows: Rows) -> float:
    """Amount of r at which the covariance with S of rows that no function saw is zero."""
    of_g = of_r = 0.0
    for k in range(FOLDS):
        here = np.arange(rows.n) % FOLDS == k
        psi = rows.psi[~here] - rows.psi[~here].mean(axis=0)
        R = psi.T @ psi / len(psi) + rows.eta * rows.eye
        s, y = rows.s[~here], rows.y[~here]
        g, r = np.linalg.solve(R, psi.T @ np.stack([y - y.mean(), s - s.mean()], axis=1)).T / len(
            psi
        )
        held = (rows.psi[here] - rows.psi[here].mean(axis=0)).T @ (
            rows.s[here] - rows.s[here].mean()
        )
        of_g, of_r = of_g + held @ g, of_r + held @ r
    return float(of_g / of_r)


def newton(
    rows: Rows, w: np.ndarray, b: float, penalty: float, steps: int
) -> tuple[np.ndarray, float]:
    """Kernel logistic regression with a penalty on the squared covariance with S."""
    psi, n = rows.psi, rows.n

    def loss(w: np.ndarray, b: float) -> float:
        f = psi @ w + b
        fit = np.logaddexp(0.0, f).sum() - rows.y @ f
        return float(fit + 0.5 * rows.prior * w @ w + 0.5 * penalty * n * (rows.N @ w) ** 2)

    for _ in range(steps):
        p = scipy.special.expit(psi @ w + b)
        v = np.maximum(p * (1.0 - p), 1e-6)
        mean, total = psi.T @ v, v.sum()
        H = (psi * v[:, None]).T @ psi - np.outer(mean, mean) / total + rows.prior * rows.eye
        H += penalty * n * np.outer(rows.N, rows.N)
        slope, at_b = psi.T @ (p - rows.y) + rows.prior * w, (p - rows.y).sum()
        slope = slope + penalty * n * (rows.N @ w) * rows.N
        dw = scipy.linalg.solve(H, slope - mean * at_b / total, assume_a="pos")
        db, length = (at_b - mean @ dw) / total, 1.0
        while loss(w - length * dw, b - length * db) > loss(w, b) + 1e-9 and length > 1e-3:
            length /= 2.0
        w, b = w - length * dw, b - length * db
        if np.abs(dw).max() < 1e-4 * np.abs(w).max():
            break
    return w, b


def constrained_logistic(rows: Rows) -> Iterator[np.ndarray]:
    """The optimum itself, by Newton steps on all of psi, from no penalty to all but a constraint."""
    w, b = np.zeros(len(rows.g)), 0.0
    for penalty in MULTIPLIERS:
        w, b = newton(rows, w, b, penalty, 12)
        yield w


def one_newton_step(rows: Rows) -> np.ndarray:
    """From g towards kernel logistic regression."""
    f = rows.psi @ rows.g
    head = LogisticRegression(C=1e6).fit(f[:, None] / f.std(), rows.y)
    a = head.coef_[0, 0] / f.std()
    return newton(rows, a * rows.g, float(head.intercept_[0]), 0.0, 1)[0]


CHOICES: dict[str, Callable[[Rows], Iterator[np.ndarray]]] = {
    "constant curvature": lambda q: along(q, removal(q, q.cov, q.eta)),
    "likelihood's curvature (default)": lambda q: along(q, removal(q, q.curved(), q.eta)),
    "its square root": lambda q: along(q, removal(q, q.curved(0.5), q.eta)),
    "constant, removal ridge x 0.1": lambda q: along(q, removal(q, q.cov, 0.1 * q.eta)),
    "constant, removal ridge x 10": lambda q: along(q, removal(q, q.cov, 10.0 * q.eta)),
    "constant, removal ridge x 100": lambda q: along(q, removal(q, q.cov, 100.0 * q.eta)),
    "constant, ridge of S by GCV": lambda q: along(q, removal(q, q.cov, q.eta_s)),
    "constant, end by cross-fitting": lambda q: along(
        q, removal(q, q.cov, q.eta), end=crossfit_end(q)
    ),
    "likelihood's, g one Newton step on": lambda q: along(
        q, removal(q, q.curved(), q.eta), one_newton_step(q)
    ),
    "constrained logistic regression": constrained_logistic,
}


def chosen(curve: list[tuple[dict, dict]], name: str, limit: float, part: int) -> dict:
    """Test measures at the cheapest value within the limit on validation (0) or test rows (1)."""
    inside = [one for one in curve if one[part][name] <= limit]
    if not inside:
        return min(curve, key=lambda one: one[part][name])[1]
    return min(inside, key=lambda one: one[part]["error"])[1]


def numbers(curve: list[tuple[dict, dict]]) -> list[float]:
    """A line of the table, of one split."""
    on_line = len(curve) == len(LINE)
    end = len(LINE) // 2 if on_line else len(curve) - 1
    fair = curve[: end + 1]
    at, best = chosen(fair, "sp[sex]", 0.03, 0), chosen(fair, "sp[sex]", 0.03, 1)
    # Only a line goes on past the fair end.
    decided = chosen(curve, "dp", 0.02, 0) if on_line else {"error": np.nan, "dp": np.nan}
    return [
        curve[0][1]["error"],
        at["error"],
        at["sp[sex]"],
        best["error"],
        curve[end][1]["error"],
        curve[end][1]["sp[sex]"],
        decided["error"],
        decided["dp"],
    ]


def lines(name: str, seed: int) -> list[list[float]]:
    """Every choice on one split."""
    rows = Rows(split(load(name, os.environ.get("FAIRSPAN_DATA")), seed))
    return [numbers(rows.judge(functions(rows))) for functions in CHOICES.values()]


def main() -> None:
    """Print the tables."""
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    head = ("free", "SP<=.03", "its SP", "by test", "end", "its SP", "DP<=.02", "its DP")
    with ProcessPoolExecutor() as pool:
        for data in DATA:
            found = np.mean(list(pool.map(lines, [data] * splits, range(splits))), axis=0)
            print(f"\n{data}, {splits} splits\n{'':34}" + "".join(f"{name:>8}" for name in head))
            for choice, values in zip(CHOICES, found, strict=True):
                print(f"{choice:34}" + "".join(f"{value:8.3f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
