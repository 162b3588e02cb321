"""Planted rows for decision rules, and linear programs that know nothing of the library's solver."""

import numpy as np
from scipy.optimize import linprog

from fairspan.method.decision_rule import DecisionProblem
from fairspan.method.rate_codes import rate_blocks


def planted(
    seed,
    n=400,
    sizes=(2,),
    criterion="statistical_parity",
    classes=2,
    noise=0.5,
    min_rows=30,
    **options,
):
    """Rows with calibrated probabilities and predicted codes, some attributes, weights that differ."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, classes))
    attributes, groups = {}, []
    for a, J in enumerate(sizes):
        odds = rng.normal(size=(n, J)) * noise + latent[:, -1:] * np.linspace(-1.0, 1.0, J)
        p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
        s = (p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1)
        attributes[f"a{a}"] = s, [f"g{j}" for j in range(J)]
        groups.append(p)
    p = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    y = np.minimum((p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1), classes - 1)
    weight = rng.uniform(0.5, 1.5, n)
    blocks = rate_blocks(attributes, y, weight, criterion=criterion, min_rows=min_rows)
    codes = []
    for block in blocks:
        q = groups[int(block.attribute[1:])]
        q = q[:, [int(name[1:]) for name in block.groups]]
        inside = np.ones(n) if block.cell is None else p[:, block.cell]
        codes.append(q * inside[:, None] / block.share - (inside / block.cell_share)[:, None])
    return DecisionProblem(
        probability=p[:, 1] if classes == 2 else p,
        codes=np.concatenate(codes, axis=1) if codes else np.zeros((n, 0)),
        blocks=blocks,
        y=y,
        weight=weight,
        **options,
    )


def best_value(problem, limit):
    """Largest mean utility of fractional decisions, by a linear program over rows, built by loops."""
    w = problem.weight / problem.weight.sum()
    n, K = len(w), problem.n_classes
    p = problem.probability
    p = np.stack([1.0 - p, p], axis=1) if p.ndim == 1 else p
    cost = np.zeros((K, K)) if problem.cost is None else problem.cost
    if problem.cost is None:
        cost = 1.0 - np.eye(K)
    utility = -(p @ cost)
    # Unknowns: decisions of n rows and K classes, then the smallest rate of every block and class.
    size = n * K + len(problem.blocks) * K
    gain = np.zeros(size)
    gain[: n * K] = (w[:, None] * utility).ravel()
    above, right, equal, equal_right = [], [], [], []
    for i in range(n):
        row = np.zeros(size)
        row[i * K : (i + 1) * K] = 1.0
        equal.append(row)
        equal_right.append(1.0)
    codes = problem.codes - w @ problem.codes
    start = 0
    for b, block in enumerate(problem.blocks):
        value = limit.value if isinstance(limit.value, float) else limit.value[block.attribute]
        base = np.ones(n) if block.cell is None else p[:, block.cell] / (w @ p[:, block.cell])
        for k in range(K):
            if K == 2 and k == 0:
                continue
            rates = []
            for j in range(block.n_groups):
                row = np.zeros(size)
                row[k : n * K : K] = w * (codes[:, start + j] + base)
                rates.append(row)
            least = np.zeros(size)
            least[n * K + b * K + k] = 1.0
            shift = np.zeros(size)  # gaps are about codes, whose base all groups share
            shift[k : n * K : K] = w * base
            if limit.kind == "gap":
                for row in rates:
                    above += [row - shift - least, least - row + shift]
                    right += [value, 0.0]
            else:
                for one in rates:
                    for other in rates:
                        above.append(value * other - one)
                        right.append(0.0)
        start += block.n_groups
    if problem.selection_rate is not None:
        row = np.zeros(size)
        row[1 : n * K : K] = w
        equal.append(row)
        equal_right.append(problem.selection_rate)
    bounds = [(0.0, 1.0)] * (n * K) + [(None, None)] * (size - n * K)
    found = linprog(
        -gain, np.array(above), np.array(right), np.array(equal), np.array(equal_right), bounds
    )
    # Two classes are compared with the decision 0 for everybody.
    return -found.fun - (float(w @ utility[:, 0]) if K == 2 else 0.0)
