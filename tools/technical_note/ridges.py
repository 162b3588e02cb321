"""The ridges that cross-validation chooses for S and for y on the paper's five data sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np

from fairspan import FairRepresentation, datasets, table_encoder
from fairspan.exceptions import DatasetError
from tools.table import Measurement, at_least
from tools.technical_note._rows import ETA
from tools.technical_note.splits import SHARED

# With the paper's attributes.
FETCH = {
    "Adult": (datasets.fetch_adult, ["sex"]),
    "COMPAS": (datasets.fetch_compas, ["sex"]),
    "Communities": (datasets.fetch_communities_crime, ["racepctblack", "PctForeignBorn"]),
    "NLSY79": (datasets.fetch_nlsy79, ["gender", "age"]),
    "law school": (datasets.fetch_law_school, ["race1", "age_1991"]),
}
MOST_ROWS = 3000


@cache
def chosen(name: str) -> tuple[dict[str, float], float]:
    """For each attribute, and for y."""
    fetch, attributes = FETCH[name]
    home = SHARED / "data"
    try:
        data = fetch(data_home=str(home) if home.is_dir() else None)
    except DatasetError as error:
        raise SystemExit(f"{name} is not here: `fairspan data fetch` gets it") from error
    rows = np.random.default_rng(0).permutation(len(data.data))[:MOST_ROWS]
    X, S = data.data.iloc[rows], data.sensitive_features[attributes].iloc[rows]
    est = FairRepresentation(
        gamma="median", n_components=300, removal="training_rows", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.fit(table_encoder(X).fit_transform(X), data.target.iloc[rows], sensitive_features=S)
    blocks = {block.attribute: float(block.eta) for block in est.blocks_ if block.constrained}
    return blocks, float(est.alpha_) / len(rows)


def table() -> list[str]:
    """In units of the fixed ridge of the paper."""
    lines = [
        "| data | chosen for S (GCV), times 1e-4 | chosen for y (5 folds), times 1e-4 |",
        "|---|---|---|",
    ]
    for name in FETCH:
        blocks, ridge = chosen(name)
        words = ", ".join(f"{attribute} {eta / ETA:.2g}" for attribute, eta in blocks.items())
        lines.append(f"| {name} | {words} | {ridge / ETA:.2g} |")
    return lines


def claims() -> Iterator[Measurement]:
    """Two attributes of the same rows want different ridges."""
    for name in ("NLSY79", "law school"):
        blocks = chosen(name)[0].values()
        yield at_least(f"{name}: largest over smallest ridge", max(blocks) / min(blocks), 10.0)
