"""Write the synthetic golden inputs (own code, numpy only). Usage: python make_inputs.py [folder]

The committed CSV files are the reference; this script only documents where they came from.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], int]


def clf(seed: int = 20263) -> Table:
    """Binary label, binary attribute; the attribute depends on x0, x1^2 and x0*x2."""
    rng = np.random.default_rng(seed)
    n, p = 160, 5
    x = rng.normal(size=(n, p))
    t = x[:, 0] + 0.6 * (x[:, 1] ** 2 - 1) + 0.4 * x[:, 0] * x[:, 2] + 0.5 * rng.normal(size=n)
    s = (t > 0).astype(float)
    f = (
        x[:, 0]
        + 0.5 * (x[:, 1] ** 2 - 1)
        + 0.5 * np.sin(2 * x[:, 3])
        + 0.5 * (s - 0.5)
        + 0.5 * rng.normal(size=n)
    )
    y = np.where(f > 0, 1.0, -1.0)
    return x, y, s[:, None], 120


def multi(seed: int = 20268) -> Table:
    """Binary label, three-category attribute coded 0/1/2."""
    rng = np.random.default_rng(seed)
    n, p = 160, 5
    x = rng.normal(size=(n, p))
    a = 1.2 * x[:, 0] + 0.5 * rng.gumbel(size=n)
    b = 0.8 * (x[:, 1] ** 2 - 1) + 0.6 * x[:, 2] + 0.5 * rng.gumbel(size=n)
    c = 0.7 * np.sin(2 * x[:, 3]) + 0.5 * rng.gumbel(size=n)
    s = np.argmax(np.stack([a, b, c], axis=1), axis=1).astype(float)
    f = (
        0.8 * x[:, 0]
        - 0.6 * x[:, 2]
        + 0.6 * np.cos(2 * x[:, 4])
        + 0.4 * (s == 1)
        - 0.2
        + 0.7 * rng.normal(size=n)
    )
    y = np.where(f > 0, 1.0, -1.0)
    return x, y, s[:, None], 120


def reg(seed: int = 20272) -> Table:
    """Response rounded to a grid of 12 values, S = (binary, eight-valued)."""
    rng = np.random.default_rng(seed)
    n, p = 190, 4
    x = rng.normal(size=(n, p))
    s1 = (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + 0.6 * rng.normal(size=n) > 0).astype(float)
    s2 = np.clip(
        np.round(1.6 * (x[:, 1] + 0.5 * np.sin(2 * x[:, 3]) + 0.4 * rng.normal(size=n)) + 3.5), 0, 7
    )
    f = (
        x[:, 0]
        + 0.7 * x[:, 1] ** 2
        + 0.6 * np.sin(2 * x[:, 2])
        + 0.3 * s1
        + 0.1 * s2
        + 0.4 * rng.normal(size=n)
    )
    y = np.clip(np.round(2 * f) / 2, -1.5, 4.0)
    return x, y, np.stack([s1, s2], axis=1), 150


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for make in (clf, multi, reg):
        x, y, s, n_train = make()
        head = [f"x{j}" for j in range(x.shape[1])] + [f"s{j}" for j in range(s.shape[1])] + ["y"]
        table = np.column_stack([x, s, y])
        for part, rows in (("train", slice(0, n_train)), ("test", slice(n_train, None))):
            np.savetxt(
                folder / f"{make.__name__}_{part}.csv",
                table[rows],
                fmt="%.17g",
                delimiter=",",
                header=",".join(head),
                comments="",
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "inputs")
