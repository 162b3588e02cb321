"""Attacks that predict the protected attributes from our representations and those of others.

``python -m tools.leakage`` (in ``.venv-bench``, for fairlearn) prints a Markdown page; ``--out
docs/leakage.md`` writes it as well. Representations are learnt on training rows; held-out rows are
transformed, and attackers are cross-fitted on those.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fairspan import FairRepresentation
from fairspan.auditing.attackers import ATTACKERS, Attack, attack
from fairspan.auditing.reading import Protected
from fairspan.encoding import table_encoder
from fairspan_lab.frontier._problems import Part, Problem, load

SETS = ("Adult", "COMPAS", "Communities", "NLSY79", "Law school")
MAX_TRAINING, MAX_TEST = 10_000, 5_000
SEED = 0
COMMAND = "python -m tools.leakage --out docs/leakage.md"


@dataclass(frozen=True)
class Row:
    """One attribute attacked through one representation."""

    data: str
    attribute: str
    representation: str
    n_columns: int
    attacks: dict[str, Attack]

    @property
    def measure(self) -> str:
        """AUC or R^2, by the name that `Attack` has for it."""
        return next(iter(self.attacks.values())).measure

    @property
    def n_rows(self) -> int:
        """Held-out rows attacked."""
        return next(iter(self.attacks.values())).n_rows


# --- representations: held-out rows, by what was learnt from training rows -------------------------


def _raw(train: Part, test: Part) -> np.ndarray:
    return np.asarray(StandardScaler().fit(train.X).transform(test.X))


def _pca(train: Part, test: Part) -> np.ndarray:
    scaler = StandardScaler().fit(train.X)
    axes = PCA(n_components=0.9, svd_solver="full").fit(scaler.transform(train.X))
    return np.asarray(axes.transform(scaler.transform(test.X)))


def _correlation_remover(train: Part, test: Part) -> np.ndarray:
    from fairlearn.preprocessing import CorrelationRemover

    places = list(range(train.X.shape[1], train.X.shape[1] + len(train.S)))
    both, both_new = (np.column_stack([part.X, *part.S.values()]) for part in (train, test))
    remover = CorrelationRemover(sensitive_feature_ids=places).fit(both)
    return np.asarray(remover.transform(both_new))


def _fairspan(subspace: str) -> Callable[[Part, Part], np.ndarray]:
    def held_out(train: Part, test: Part) -> np.ndarray:
        model = FairRepresentation(subspace=subspace, removal="training_rows", random_state=SEED)
        model.fit(train.X, train.y, sensitive_features=train.S)
        return np.asarray(model.transform(test.X))

    return held_out


REPRESENTATIONS: dict[str, Callable[[Part, Part], np.ndarray]] = {
    "raw features": _raw,
    "PCA": _pca,
    "CorrelationRemover": _correlation_remover,
    "fairspan, fair": _fairspan("fair"),
    "fairspan, model": _fairspan("model"),
}


# --- rows ---------------------------------------------------------------------------------------


def parts(problem: Problem) -> tuple[Part, Part]:
    """Training and held-out rows as numbers, by an encoder that has seen the training rows alone."""
    classes = problem.y if problem.classifies else None
    everything = np.arange(len(problem.y))
    train, test = train_test_split(everything, test_size=1 / 3, random_state=SEED, stratify=classes)
    train, test = train[:MAX_TRAINING], test[:MAX_TEST]
    encoder = table_encoder(problem.X).fit(problem.X.iloc[train])

    def part(rows: np.ndarray) -> Part:
        X = np.asarray(encoder.transform(problem.X.iloc[rows]), dtype=np.float64)
        return Part(X, problem.y[rows], {name: s[rows] for name, s in problem.S.items()})

    return part(train), part(test)


def protected(name: str, values: np.ndarray) -> Protected:
    """Two values are levels, more are a number."""
    seen, codes = np.unique(values, return_inverse=True)
    if len(seen) == 2:
        return Protected(name, "categorical", codes, tuple(f"{v:g}" for v in seen))
    edges = np.unique(np.quantile(values, np.linspace(0.1, 0.9, 9)))
    slices = np.searchsorted(edges, values, side="right")
    labels = tuple(str(i) for i in range(len(edges) + 1))
    return Protected(name, "continuous", slices, labels, values)


def rows(
    sets: Sequence[str] = SETS, representations: Sequence[str] = tuple(REPRESENTATIONS)
) -> Iterator[Row]:
    """All attacks, with a line of progress on standard error for each representation."""
    for data in sets:
        train, test = parts(load(data))
        for name in representations:
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other people's code, and on tiny groups
                Z = REPRESENTATIONS[name](train, test)
            fitted = time.process_time()
            for attribute, values in test.S.items():
                found = attack(
                    Z,
                    protected(attribute, values),
                    weight=np.ones(len(Z)),
                    rng=np.random.default_rng(SEED),
                )
                yield Row(data, attribute, name, Z.shape[1], {a.attacker: a for a in found})
            print(
                f"{data}, {name}: {Z.shape[1]} columns, learnt from {len(train):,} rows in "
                f"{fitted - began:.1f} s, {len(Z):,} attacked in {time.process_time() - fitted:.1f} s",
                file=sys.stderr,
                flush=True,
            )


# --- the page -----------------------------------------------------------------------------------


def page(found: Sequence[Row], seconds: float) -> str:
    """The table, what it is, and what it shows."""
    head = ["data set", "attribute", "measure", "representation (columns)", *ATTACKERS]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    ordered = sorted(found, key=lambda row: (SETS.index(row.data), row.attribute))
    for row in ordered:
        measure = {"auc": "AUC", "r2": "R^2"}[row.measure]
        what = f"{row.representation} ({row.n_columns})"
        cells = [row.data, row.attribute, measure, what, *map(_cell, row.attacks.values())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n\n".join(
        [_ABOVE.format(command=COMMAND, seconds=seconds), "\n".join(lines), _below(found)]
    )


def _cell(found: Attack) -> str:
    text = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return f"{text} ({found.note})" if found.note else text


_ABOVE = """\
# What attackers recover

Written by `{command}` (in `.venv-bench`,
{seconds:.0f} s of CPU time); do not edit.

Every representation is learnt from training rows (two thirds, at most 10,000). Three attackers
then try to recover the protected attribute from held-out rows (at most 5,000) by 5-fold
cross-fitting: logistic or ridge regression, a Gaussian kernel method, boosted trees.

- An AUC of .5 or an R^2 of 0 means that nothing is recovered; an R^2 below 0 is worse than the
  mean.
- In brackets: 95 % bootstrap intervals over the held-out rows.
- PCA keeps 90 % of the variance.
- fairlearn's CorrelationRemover *reads S of every row that it transforms*; the others never do.
- Defaults everywhere, but for `removal="training_rows"` of fairspan, at `fairness=1`, statistical
  parity."""


def _below(found: Sequence[Row]) -> str:
    """What the table shows, counted."""

    def seen(representation: str, attackers: Sequence[str]) -> str:
        mine = [row for row in found if row.representation == representation]
        caught = sum(any(row.attacks[name].sees for name in attackers) for row in mine)
        return f"{caught} of {len(mine)}"

    names = list(dict.fromkeys(row.representation for row in found))
    lines = [
        "| attributes recovered (interval above chance) | linear | kernel or boosted |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {seen(name, ATTACKERS[:1])} | {seen(name, ATTACKERS[1:])} |" for name in names
    ]
    return "\n".join(lines) + "\n\n" + _READING


_READING = """\
**fairspan, model.** The one function of the model space has equal group means. A linear attacker
recovers nothing from it. Where groups differ in more than their means, a nonlinear attacker
recovers part of S from the shape of the distribution (Adult, COMPAS, the gender of NLSY79, the
origin of Communities).

**fairspan, fair.** The fair subspace keeps 25 to 375 such functions. Nonlinear attackers recover
from it much of what the raw features give (less on Communities), so give it to linear models
only. Linear attackers also recover something: zero covariance is promised for the training rows
only. On others some dependence remains, mostly as a bias, and adds up over many columns.

**CorrelationRemover** subtracts a multiple of S from every column. A column of few values then
has different values in each group, and trees recover S almost exactly, better than from the raw
features. Most rows of a rare indicator then have one value for each group; its mean hides S, but
its ranks do not (the linear attackers of Adult and COMPAS). A column that is constant among the
held-out rows becomes S itself (race on Communities).

An AUC a little below .5 also means that nothing is recovered: a class that is by chance more
frequent in the training folds is less frequent in the held-out fold."""


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the page to this file as well")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    given = parser.parse_args()
    began = time.process_time()
    text = page(list(rows(given.sets)), time.process_time() - began) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
