"""Score rows with a file that fairspan.export wrote; needs numpy: ``load("model.npz")(rows)``."""

import json
from typing import Any

import numpy as np


def load(path: Any) -> Any:
    """Return a function from rows (a frame, or a matrix for models of arrays) to a dict of arrays."""
    arrays = dict(np.load(path, allow_pickle=False))
    plan = json.loads(arrays.pop("plan").tobytes())

    def score(rows: Any, block: int = 1000) -> dict[str, Any]:
        given = {column["id"]: _read(rows, column) for column in plan["inputs"]}
        results = []
        for start in range(0, max(1, *map(len, given.values())), block):
            known = arrays | {name: v[start : start + block] for name, v in given.items()}
            for operation, result, *names in plan["steps"]:
                values = (known[a] if isinstance(a, str) else a for a in names)
                known[result] = OPS[operation](*values)
            results.append([known[name] for name in plan["outputs"].values()])
        return dict(zip(plan["outputs"], map(np.concatenate, zip(*results))))

    return score


def _read(rows: Any, column: dict[str, Any]) -> Any:
    if column["kind"] == "matrix":
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), column["width"])
    if column["kind"] == "text":
        return ["missing" if v is None or v != v else str(v) for v in rows[column["name"]]]
    return np.asarray(rows[column["name"]], dtype=np.float64)[:, None]  # dates: days since 1970


def _trees(X: Any, roots: Any, targets: Any, nodes: Any, sets: Any, depth: int, start: Any) -> Any:
    out, n = np.tile(start, (len(X), 1)), np.arange(len(X))
    for root, target in zip(roots, targets):
        at = nodes[np.full(len(X), root)]  # columns: feature, threshold, left, right, set or -1
        for _ in range(depth):
            value, number = X[n, at[:, 0].astype(int)], at[:, 4].astype(int)
            inside = sets[number, np.where(number >= 0, value, 0).astype(int)]
            left = np.where(number >= 0, inside, value <= at[:, 1])
            at = nodes[np.where(left, at[:, 2], at[:, 3]).astype(int)]
        out[:, target] += at[:, 1]
    return out


_NP = "add subtract multiply divide maximum minimum matmul greater where isnan exp log sqrt tanh"
OPS: dict[str, Any] = {name: getattr(np, name) for name in _NP.split()} | {
    "sum": lambda x: x.sum(axis=1, keepdims=True),
    "max": lambda x: x.max(axis=1, keepdims=True),
    "concat": lambda *parts: np.concatenate(parts, axis=1),
    "columns": lambda x, which: x[:, which],
    "label": lambda x, classes: np.array(classes)[x.argmax(axis=1)],
    "look_up": lambda texts, known, table: table[[known.get(t, -1) for t in texts]],
    "city": lambda X, Z: sum(abs(x - z) for x, z in map(np.ix_, X.T, Z.T)),
    "chi2": lambda X, Z: sum((x - z) ** 2 / (x + z + 1e-300) for x, z in map(np.ix_, X.T, Z.T)),
    "trees": _trees,
}
