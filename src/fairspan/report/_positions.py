"""One entry of the study per place of the slider: everything that moves with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairspan.auditing._rows import Protected
from fairspan.method.linalg import Array
from fairspan.report._parity import Scene, estimate, headline, parity_rows
from fairspan.report._places import Ground, Place
from fairspan.report._views import (
    FEWEST,
    binned_means,
    calibration_points,
    confusion,
    count_groups,
    distributions,
    rough,
)
from fairspan.report._words import certificate_words

__all__ = ["position"]

_RATES = (
    "selection_rate", "true_positive_rate", "false_positive_rate", "positive_predictive_value",
)  # fmt: skip
_NUMBERS = ("mean_prediction", "mean_error", "root_mean_squared_error")

# ------------------------------------------------------------------ rates by group


def _rates(place: Place, first: Place, ground: Ground, name: str) -> list[dict[str, Any]]:
    one, out = ground.shown[name], []
    for h, label in enumerate(one.labels):
        mine = one.codes == h

        def found(metric: str, label: str = label) -> dict[str, Any]:
            return estimate(place.findings.get((metric, one.name, label, "")))

        n = int(mine.sum())
        row: dict[str, Any] = {"group": label, "n": n, "small": n < ground.settings.min_rows}
        if n < FEWEST:
            out.append(row | {"few": True})
            continue
        if ground.task == "regression":
            row |= {metric: found(metric) for metric in _NUMBERS}
        elif len(ground.data.positive) == 1:
            row |= {metric: found(metric) for metric in _RATES}
            row |= _people(place, first, ground, ground.data.positive[0], mine)
        else:
            assert ground.data.classes is not None
            row["classes"] = [
                {"class": str(ground.data.classes[k]),
                 **{m: found(f"{m} ({ground.data.classes[k]})") for m in _RATES},
                 **_people(place, first, ground, k, mine)}
                for k in ground.data.positive
            ]  # fmt: skip
        if ground.task != "regression":
            row["accuracy"] = found("accuracy")
        out.append(row)
    return out


def _people(place: Place, first: Place, ground: Ground, k: int, mine: Any) -> dict[str, Any]:
    assert ground.data.target is not None
    return confusion(place.decided == k, ground.data.target.codes == k, first.decided == k, mine)


# ------------------------------------------------------------------ all of it


def drawn_score(place: Place, scene: Scene) -> Array:
    """The score whose distribution is drawn."""
    return np.asarray(place.said[:, 0 if scene.drawn is None else scene.drawn])


def _came(ground: Ground, scene: Scene) -> Array:
    """What the score speaks of: 1 for the class, or the number itself."""
    target = ground.data.target
    assert target is not None
    if target.values is not None:
        return target.values
    k = ground.data.positive[0] if scene.drawn is None else scene.drawn
    return np.asarray(target.codes == k, dtype=np.float64)


def _calibration(place: Place, ground: Ground, scene: Scene, name: str) -> list[dict[str, Any]]:
    one = ground.shown[name]
    points = calibration_points(
        drawn_score(place, scene), _came(ground, scene), one, ground.data.weight,
        ground.settings.min_rows,
    )  # fmt: skip
    return [
        {"group": label, "points": each,
         "error": None if n < FEWEST
         or (f := place.findings.get(("calibration_error", one.name, label, ""))) is None
         else estimate(f)}
        for label, each, n in zip(one.labels, points, count_groups(one), strict=True)
    ]  # fmt: skip


def _continuous(place: Place, ground: Ground, scene: Scene, one: Protected) -> dict[str, Any]:
    score = drawn_score(place, scene)
    binned = binned_means(score, one, ground.data.weight, ground.settings.level)
    if ground.task == "regression":  # the audit has the same means, by resamples
        seen = [label for h, label in enumerate(one.labels) if (one.codes == h).any()]
        for row, label in zip(binned, seen, strict=True):
            f = place.findings[("mean_prediction", one.name, label, "")]
            if row["n"] >= FEWEST:
                row |= {"mean": f.value, "low": f.low, "high": f.high}
    return {"said": rough(score[scene.displayed], 3), "binned": binned}


def position(
    place: Place, first: Place, ground: Ground, scene: Scene, extra: dict[str, Any], snippet: str
) -> dict[str, Any]:
    """One entry of the study's ``positions``."""
    data, score = ground.data, drawn_score(place, scene)
    bounds = [
        {"attribute": b.attribute, "where": "" if b.cell == "all rows" else b.cell,
         "value": b.supremum, "low": 0.0 if math.isfinite(b.supremum) else float("nan"),
         "high": b.bound, "n": b.n_rows,
         **({"note": b.note} if b.note else {})}
        for b in place.bounds
    ]  # fmt: skip
    alone = [name for name in ground.shown if name != ground.crossed]
    meant = place.probable or ground.task == "regression"  # the score promises something
    return {
        "headline": headline(place, first, ground, scene, extra),
        "scores": {
            name: distributions(score, ground.shown[name], data.weight, shares=place.probable,
                                min_rows=ground.settings.min_rows)
            for name in alone
        },
        "rates": {name: _rates(place, first, ground, name) for name in ground.shown},
        "parity": parity_rows(place, ground, scene.criterion),
        "calibration": {
            name: _calibration(place, ground, scene, name) for name in alone if meant
        },
        "continuous": {
            one.name: _continuous(place, ground, scene, one)
            for one in data.attributes if one.values is not None
        },
        "certificate": {
            "in_sample_supremum": place.certificate.supremum,
            "words": certificate_words(place.certificate, place.fairness, scene.setting),
            "held_out": bounds,
        },
        "snippet": snippet,
    }  # fmt: skip
