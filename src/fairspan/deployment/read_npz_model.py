"""Score rows with a file that fairspan.export wrote; needs numpy: ``load("model.npz")(rows)``."""

import json
from typing import Any

import numpy as np


def load(path: Any) -> Any:
    """Return a function from rows (a frame, or a matrix for models of arrays) to a dict of arrays."""
    arrays = dict(np.load(path, allow_pickle=False))
    plan = json.loads(arrays.pop("plan").tobytes())
    if plan["format"] != 1:
        raise ValueError(f"The file has format {plan['format']}; use the reader of its fairspan.")

    def score(rows: Any, block: int = 1000) -> dict[str, Any]:
        given, out = {c["id"]: _read(rows, **c) for c in plan["inputs"]}, []
        for start in range(0, max(1, *map(len, given.values())), block):
            known = arrays | {name: v[start : start + block] for name, v in given.items()}
            for name, result, *of in plan["steps"]:
                known[result] = OPS[name](*(known[a] if isinstance(a, str) else a for a in of))
            out.append([known[name] for name in plan["outputs"].values()])
        return dict(zip(plan["outputs"], map(np.concatenate, zip(*out))))

    return score


def _read(rows: Any, name: str, kind: str, width: int, complete: bool, **_: Any) -> Any:
    x = np.asarray(rows if kind == "matrix" else rows[name], object if kind == "text" else None)
    if not x.shape or x.shape[1:] != (width,) * (kind == "matrix"):
        raise ValueError(f"{name!r} has the shape {x.shape}; give {width} value(s) per row.")
    if kind == "text":  # None, NaN and NA are missing; whole numbers have no .0 and no exponent
        texts = [str(int(v) if isinstance(v, float) and v % 1 == 0 else v) for v in x]
        return [t if str(None is not v == v) == "True" else "missing" for t, v in zip(texts, x)]
    x = (x - np.datetime64("1970")) / np.timedelta64(1, "D") if x.dtype.kind == "M" else x  # days
    if complete and not np.isfinite(x.astype(np.float64)).all():
        raise ValueError(f"{name!r} has missing or infinite numbers; the model takes none.")
    return x.astype(np.float64).reshape(len(x), width)


def _trees(X: Any, roots: Any, targets: Any, nodes: Any, sets: Any, depth: int, start: Any) -> Any:
    out, n = np.tile(start, (len(X), 1)), np.arange(len(X))
    for root, target in zip(roots, targets):
        at = nodes[np.full(len(X), root)]  # columns: feature, threshold, left, right, set or -1
        for _ in range(depth):
            x, k = X[n, at[:, 0].astype(int)], at[:, 4].astype(int)
            inside = sets[k, np.where(k < 0, 0, x).astype(int)]
            at = nodes[np.where(np.where(k < 0, x <= at[:, 1], inside), *at[:, 2:4].T).astype(int)]
        out[:, target] += at[:, 1]
    return out


_NP = "add subtract multiply divide maximum minimum matmul greater where isnan exp log sqrt tanh"
OPS: dict[str, Any] = {name: getattr(np, name) for name in _NP.split()}
OPS |= {"sum": lambda x: x.sum(axis=1)[:, None], "max": lambda x: x.max(axis=1)[:, None]}
OPS |= {"concat": lambda *x: np.concatenate(x, axis=1), "columns": lambda x, which: x[:, which]}
OPS |= {"trees": _trees, "label": lambda x, labels: np.array(labels)[x.argmax(axis=1)]}
OPS["look_up"] = lambda texts, known, table: table[[known.get(t, -1) for t in texts]]
OPS["city"] = lambda X, Z: sum(abs(x - z) for x, z in map(np.ix_, X.T, Z.T))
OPS["chi2"] = lambda X, Z: sum((x - z) ** 2 / (x + z + 1e-300) for x, z in map(np.ix_, X.T, Z.T))
