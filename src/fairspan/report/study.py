"""The study: everything that the page shows, as plain numbers, texts, lists and dicts."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from fairspan._system import json_safe
from fairspan.auditing import Audit
from fairspan.report.dial_points import FEWEST, Ground, Place
from fairspan.report.views import Scene, error_of, own_correlation, own_metrics
from fairspan.report.words import metric_words

__all__ = ["MOST_BYTES", "attributes_of", "audit_lines", "fit_in", "for_page", "plain", "scatter",
           "to_text", "tradeoff"]  # fmt: skip

# Of the study's JSON, so that the page with its script stays below 6 MB.
MOST_BYTES = 1_000_000
_DIGITS, _FEWER_DIGITS = 6, 4
# Parts of a position whose keys are names of protected attributes.
_BY_NAME = ("scores", "rates", "calibration", "continuous")


def plain(value: Any, digits: int = _DIGITS) -> Any:
    """Return plain Python types for JSON: few digits, None for NaN, control characters escaped."""
    return json_safe(value, digits=digits, escape=True)


def to_text(study: Any) -> str:
    """Compact JSON."""
    return json.dumps(study, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# ------------------------------------------------------------------ what the slider does not move


def attributes_of(ground: Ground) -> list[dict[str, Any]]:
    """Protected attributes, and all of them as one, with the groups that are shown."""
    out = []
    for name, one in ground.shown.items():
        count = np.bincount(one.codes, minlength=len(one.labels))
        kind = "crossed" if name == ground.crossed else one.kind
        groups = [{"label": v, "n": int(n)} for v, n in zip(one.labels, count, strict=True)]
        out.append({"name": name, "kind": kind, "groups": groups})
    return out


def tradeoff(places: Sequence[Place], ground: Ground, scene: Scene) -> dict[str, Any]:
    """Error and parity along the slider."""
    error = [error_of(place, ground) for place in places]
    parity = {}
    for one in ground.data.attributes:
        found = [own_correlation(place, ground, one.name, scene.criterion) for place in places]
        parity[one.name] = {
            what: [float("nan") if f is None else getattr(f, what) for f in found]
            for what in ("value", "low", "high")
        }
    metric, _ = own_metrics(scene.criterion, ground.task)
    words = metric_words(metric)
    if scene.setting.latent:
        words += " (score before it is turned into a probability)"
    if scene.criterion == "conditional_statistical_parity":
        words += ", in the stratum where it is largest"
    numeric = ground.task == "regression"
    return {
        "error_name": "RMSE" if numeric else "error rate",
        "error": {what: [e[what] for e in error] for what in ("value", "low", "high")},
        "other_name": "R2" if numeric else "AUC",
        "other": [_other(place, ground) for place in places],
        "parity_name": words,
        "parity": parity,
        "noise": scene.setting.noise,
        "certificate_in_sample": [place.certificate.supremum for place in places],
    }


def _other(place: Place, ground: Ground) -> float:
    """R^2, or the AUC: of several classes each against the rest, the mean."""
    target, weight, said = ground.data.target, ground.data.weight, place.said
    assert target is not None
    if target.values is not None:
        if np.ptp(target.values) <= 0.0:
            return float("nan")
        return float(r2_score(target.values, said[:, 0], sample_weight=weight))
    which = ground.data.positive if said.shape[1] == 1 else range(said.shape[1])
    found = []
    for j, k in enumerate(which):
        is_k = target.codes == k
        if is_k.any() and not is_k.all():
            found.append(roc_auc_score(is_k, said[:, j], sample_weight=weight))
    return float(np.mean(found)) if found else float("nan")


def scatter(ground: Ground, scene: Scene) -> dict[str, list[float]]:
    """Values of continuous attributes of the rows displayed."""
    return {
        one.name: one.values[scene.displayed].tolist()
        for one in ground.data.attributes
        if one.values is not None
    }


def audit_lines(found: Audit, fairness: float, few: Collection[tuple[str, str]]) -> dict[str, Any]:
    """A full audit as a table, without numbers about the few people of a small group.

    Parameters
    ----------
    found, fairness : the audit, and where the slider stood.
    few : attributes and their groups that are too small.
    """
    keys = ("section", "metric", "attribute", "group", "where", "value", "low", "high",
            "p_adjusted", "note")  # fmt: skip
    lines = [{key: getattr(f, key) for key in keys} for f in found.findings]
    for line, f in zip(lines, found.findings, strict=True):
        if f.group and ((f.attribute, f.group) in few or (f.where and f.n_rows < FEWEST)):
            line |= dict.fromkeys(("value", "low", "high", "p_adjusted"), float("nan"))
            line["note"] = f"too few rows ({f.n_rows})"
        # Most of them have none of these.
        for key in ("group", "where", "note"):
            if not line[key]:
                del line[key]
        if not math.isfinite(line["p_adjusted"]):
            del line["p_adjusted"]
    return {"at": fairness, "lines": lines, "summary": repr(found)}


# ------------------------------------------------------------------ size


def fit_in(study: dict[str, Any], most: int = MOST_BYTES) -> dict[str, Any]:
    """The plain study with fewer digits, then with fewer places, where it would be too large."""
    out: dict[str, Any] = plain(study)
    if _size(for_page(out)) <= most:
        return out
    note = f"Numbers have {_FEWER_DIGITS} digits, so that the file stays small."
    out = _noted(plain(study, _FEWER_DIGITS), note)
    stored, n = for_page(out), len(out["fairness"])
    size = _size(stored)
    if size <= most or n < 3:
        return out
    moving = sum(map(_size, stored["positions"]))
    room = int((most - (size - moving) - 200) / (moving / n))
    fixed = {out["start"], *(i for i, f in enumerate(out["fairness"]) if f == 0.5 and room > 3)}
    for count in (room, room - 1, room - 2):  # fewer, if the start or the middle is none of them
        even = np.linspace(0, n - 1, min(max(count, 2), n - 1)).round().astype(int).tolist()
        kept = sorted({*even, *fixed})
        if len(kept) <= room:
            break
    for name in ("fairness", "positions"):
        out[name] = [out[name][i] for i in kept]
    out["start"], out["tradeoff"] = kept.index(out["start"]), _taken(out["tradeoff"], kept, n)
    return _noted(out, f"The slider has {len(kept)} places instead of {n}, likewise.")


def for_page(study: dict[str, Any]) -> dict[str, Any]:
    """The study as the page stores it: common code once, and names from the data never as keys.

    Every JavaScript object inherits keys such as "constructor" and "__proto__", which a column may be
    named. So a dict whose keys are names from the data is stored as a list of its items.
    """
    out = share_code(study)
    positions = [place | _listed(place, _BY_NAME) for place in out["positions"]]
    tradeoff = out["tradeoff"] | _listed(out["tradeoff"], ["parity"])
    return out | _listed(out, ["scatter"]) | {"positions": positions, "tradeoff": tradeoff}


def _listed(part: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The dicts under these keys, as lists of their items."""
    return {key: [list(item) for item in part[key].items()] for key in keys if key in part}


def share_code(study: dict[str, Any]) -> dict[str, Any]:
    """The study as the page stores it: ``code`` is what all snippets begin and end with.

    A position's snippet is then only what is between. It names every column, so that a whole one for
    every place would be most of the page of a wide table.
    """
    texts = [place["snippet"] for place in study["positions"]]
    before = _beginning(texts)
    rests = [text.removeprefix(before) for text in texts]
    after = _beginning([rest[::-1] for rest in rests])[::-1]
    return study | {
        "code": [before, after],
        "positions": [
            place | {"snippet": rest.removesuffix(after)}
            for place, rest in zip(study["positions"], rests, strict=True)
        ],
    }


def _beginning(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    low, high = min(texts), max(texts)
    other = (i for i, c in enumerate(low) if high[i : i + 1] != c)
    return low[: next(other, len(low))]


def _size(value: Any) -> int:
    return len(to_text(value).encode())


def _noted(study: dict[str, Any], note: str) -> dict[str, Any]:
    study["about"]["notes"].append(note)
    return study


def _taken(value: Any, kept: list[int], n: int) -> Any:
    """Some places of every list along the slider."""
    if isinstance(value, dict):
        return {key: _taken(one, kept, n) for key, one in value.items()}
    return [value[i] for i in kept] if isinstance(value, list) else value
