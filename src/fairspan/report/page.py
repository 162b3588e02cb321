"""The study of a report as plain values, the page made of it, and the result of ``explore``.

The study has everything that the page shows. Parts that the slider does not move are built here; those
that it moves come from the views. A study that would be too large is stored with fewer digits and fewer
dial values. The page is one file of template, style, scripts, Plotly and study.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from fairspan._system import json_safe, printable_json
from fairspan.auditing import Audit
from fairspan.auditing.results import write_text
from fairspan.report.dial_points import FEWEST, DialPoint, HeldOut, count_groups, hide_few
from fairspan.report.likely import likely_words
from fairspan.report.packing import pack
from fairspan.report.people import shortened
from fairspan.report.provenance import saved_model
from fairspan.report.selected import number_words
from fairspan.report.views import error_of, own_metrics, own_parity, supremum_of
from fairspan.report.words import ReportContext, metric_words

_SLOTS = ("TITLE", "STYLE", "PLOTLY", "STUDY", "SCRIPT")
# HTML parsers interpret the first three in a script element; old JavaScript took the last two for
# line ends.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def script_json(study: dict[str, Any]) -> str:
    """JSON for a script element, escaped so that no name in it can end the element."""
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match[0]], to_text(study))


def page(study: dict[str, Any]) -> str:
    """The HTML of the whole page."""
    folder = resources.files("fairspan.report") / "page"
    scripts = sorted(file.name for file in folder.iterdir() if file.name.endswith(".js"))
    title = f"{study['about']['data']}: fairness explorer"
    return fill(
        (folder / "page.html").read_text(encoding="utf-8"),
        {
            "TITLE": html.escape(title),
            "STYLE": (folder / "style.css").read_text(encoding="utf-8"),
            "PLOTLY": _plotly(),
            "STUDY": script_json(for_page(study)),
            "SCRIPT": "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts),
        },
    )


def fill(template: str, parts: dict[str, str]) -> str:
    """Fill the slots of the template in one pass: texts that look like slots stay as they are."""
    for name in _SLOTS:
        if template.count(f"<!--{name}-->") != 1:
            raise ValueError(f"The template must have exactly one slot for {name}.")
    pattern = "<!--({})-->".format("|".join(_SLOTS))
    return re.sub(pattern, lambda match: parts[match[1]], template)


def _plotly() -> str:
    """Plotly's basic bundle: scatter, bar and pie charts."""
    file = resources.files("fairspan.report") / "page" / "vendor" / "plotly-basic.min.js"
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True, repr=False)
class Report:
    """A fitted model, and held-out numbers about it at every position of the slider.

    Attributes
    ----------
    study : dict
        All numbers and texts of the page, as plain values.
    model : estimator
        Fitted on the rows that were not held out, at the start of the slider; ``model.at(f)`` is the
        model at any other position.
    audit : Audit
        The full audit of ``model`` on the held-out rows.
    seconds : dict
        Time taken by "fit", "audit" and "all".
    """

    study: dict[str, Any]
    model: Any
    audit: Audit
    seconds: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The study: plain numbers, strings, lists and dicts; None for unknown numbers."""
        return self.study

    def to_json(self, path: Any = None, *, indent: int | None = None) -> str:
        """JSON of the study; written to ``path`` too if given."""
        text = json.dumps(self.study, indent=indent, ensure_ascii=False, allow_nan=False)
        return write_text(printable_json(text) + "\n", path)

    def to_html(self, path: Any = None) -> str:
        """One self-contained page that loads nothing else; written to ``path`` too if given."""
        return write_text(page(self.study), path)

    def with_model_file(self, path: Any) -> Report:
        """The same report, whose page names the file that the model was saved in, and its digest.

        Parameters
        ----------
        path : path
            File of :func:`fairspan.save_model`.
        """
        origin = self.study["provenance"] | saved_model(path)
        return replace(self, study=self.study | {"provenance": origin})

    @property
    def _lines(self) -> list[str]:
        about, first, last = self.study["about"], *(self.study["positions"][i] for i in (0, -1))
        name = self.study["tradeoff"]["error_name"]
        out = [
            f"{about['data']}: {about['model_words']} of {self.study['target']['name']}, "
            f"{about['n_train']:,} rows fitted, {about['n_test']:,} held out.",
            about["criterion_words"],
        ]
        target = self.study["target"]
        if target["positive"] is not None:
            out.append(f"Favourable class: {target['positive']} ({target['reason']}).")
        for words, position in (("without fairness", first), ("fairest", last)):
            numbers = [
                f"{number['attribute']}: {number_words(number)} {_rounded(number)}"
                for number in position["selected"]
            ]
            error = f"{name} {_rounded(position['headline']['error'])}"
            out.append("; ".join([f"{words}: {error}", *numbers]))
        start = self.study["positions"][self.study["start"]]
        out += [verdict["words"] for verdict in start["verdicts"]]
        out += [each["words"] for each in self.study["attributes"] if "words" in each]
        return [*out, *(f"! {text}" for text in about["warnings"])]

    def __repr__(self) -> str:
        return "\n".join(["Report of held-out numbers", *(f"  {line}" for line in self._lines)])

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines)
        tail = "to_html(path) writes the page with the slider."
        return f"<div><strong>Report of held-out numbers</strong><ul>{rows}</ul><p>{tail}</p></div>"


def _rounded(number: dict[str, Any]) -> str:
    if number["value"] is None:
        return "not known"
    if number["low"] is None:
        return f"{number['value']:.3g}"
    return f"{number['value']:.3g} [{number['low']:.3g}, {number['high']:.3g}]"


# Largest size of the study's JSON: with Plotly's basic bundle and the scripts, the page stays below 3 MB.
_MOST_BYTES = 1_400_000
_DIGITS, _FEWER_DIGITS = 6, 4
# Parts of a position whose keys are names of protected attributes.
_BY_NAME = ("scores", "rates", "calibration", "continuous")
_AUDIT_KEYS = (
    *("section", "metric", "attribute", "group", "where"),
    *("value", "low", "high", "p_adjusted", "note"),
)


def plain(value: Any, digits: int = _DIGITS) -> Any:
    """Return plain Python types for JSON: few digits, None for NaN, control characters escaped."""
    return json_safe(value, digits=digits, escape=True)


def to_text(study: Any) -> str:
    """Compact JSON."""
    return json.dumps(study, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# ------------------------------------------------------------------ parts that the slider does not move


def attributes_of(held_out: HeldOut) -> list[dict[str, Any]]:
    """Protected attributes, and their combinations, with the groups that are shown."""
    out: list[dict[str, Any]] = []
    for name, groups in held_out.shown.items():
        kind = "crossed" if name == held_out.crossed else groups.kind
        counts = zip(groups.labels, count_groups(groups), strict=True)
        labels = [{"label": label, "n": n} for label, n in counts]
        out.append({"name": name, "kind": kind, "groups": labels})
    for likely in held_out.likely:
        counts = zip(likely.labels, likely.counts, strict=True)
        out.append(
            {
                "name": likely.name,
                "kind": likely.kind,
                "groups": [{"label": label, "n": n} for label, n in counts],
                "n_equivalent": likely.n_equivalent,
                "words": likely_words(likely, held_out.data.n),
            }
        )
    return out


def tradeoff(
    points: Sequence[DialPoint], held_out: HeldOut, context: ReportContext
) -> dict[str, Any]:
    """Error and parity along the slider."""
    keys = ("value", "low", "high")
    errors = [error_of(point, held_out) for point in points]
    parity = {}
    for groups in held_out.attributes:
        findings = [own_parity(p, held_out, groups.name, context) for p in points]
        parity[groups.name] = {
            key: [float("nan") if f is None else getattr(f, key) for f in findings] for key in keys
        }
    words = metric_words(own_metrics(context.criterion, held_out.task)[context.decides])
    if context.latent and not context.decides:
        words += " (raw score)"
    if context.criterion == "conditional_statistical_parity":
        words += ", in the stratum where it is largest"
    numeric = held_out.task == "regression"
    return {
        "error_name": "RMSE" if numeric else "error rate",
        "error": {key: [error[key] for error in errors] for key in keys},
        "other_name": "R2" if numeric else "AUC",
        "other": [_r2_or_auc(point, held_out) for point in points],
        "parity_name": words,
        "parity": parity,
        "noise": float("nan") if context.decides else context.noise,
        "certificate_in_sample": [supremum_of(point, context) for point in points],
    }


def _r2_or_auc(point: DialPoint, held_out: HeldOut) -> float:
    """R^2 of a number; AUC of a class, averaged over several classes, each against the rest."""
    target, weight, outputs = held_out.data.target, held_out.data.weight, point.outputs
    assert target is not None
    if target.values is not None:
        if np.ptp(target.values) <= 0.0:
            return float("nan")
        return float(r2_score(target.values, outputs[:, 0], sample_weight=weight))
    classes = held_out.data.positive if outputs.shape[1] == 1 else range(outputs.shape[1])
    aucs = []
    for column, k in zip(outputs.T, classes, strict=True):
        is_k = target.codes == k
        if is_k.any() and not is_k.all():
            aucs.append(roc_auc_score(is_k, column, sample_weight=weight))
    return float(np.mean(aucs)) if aucs else float("nan")


def audit_lines(
    audit: Audit, fairness: float, too_few: Collection[tuple[str, str]]
) -> dict[str, Any]:
    """A full audit as a table, without numbers about the few people of a small group.

    Parameters
    ----------
    audit, fairness : the audit, and its dial value.
    too_few : attributes and their groups that are too small.
    """
    lines = []
    audit = replace(audit, findings=tuple(hide_few(f, too_few) for f in audit.findings))
    for f in audit.findings:
        line = {key: getattr(f, key) for key in _AUDIT_KEYS}
        if f.group and ((f.attribute, f.group) in too_few or (f.where and f.n_rows < FEWEST)):
            line |= dict.fromkeys(("value", "low", "high", "p_adjusted"), float("nan"))
            line["note"] = f"too few rows ({f.n_rows})"
        # Most lines have none of these.
        for key in ("group", "where", "note"):
            if not line[key]:
                del line[key]
        if not math.isfinite(line["p_adjusted"]):
            del line["p_adjusted"]
        lines.append(line)
    return {"at": fairness, "lines": lines, "summary": repr(audit)}


# ------------------------------------------------------------------ size


def fit_in(study: dict[str, Any], most: int = _MOST_BYTES) -> dict[str, Any]:
    """The plain study; if it is too large, with fewer digits, then with fewer dial values."""
    out: dict[str, Any] = plain(study)
    if _size(for_page(out)) <= most:
        return out
    exact = [_promised(side) for side in _sides(out)]
    out = plain(study, _FEWER_DIGITS)
    for side, promises in zip(_sides(out), exact, strict=True):
        for point, promise in zip(side["positions"], promises, strict=True):
            point |= promise  # limits are compared with these numbers
    notes = out["about"]["notes"]
    notes.append(f"Numbers have {_FEWER_DIGITS} digits, so that the file stays small.")
    n, size = len(out["fairness"]), _size(for_page(out))
    if size <= most or n < 3:
        return out
    notes.append("")  # takes its room, too
    fixed = {out["start"], *(i for i, f in enumerate(out["fairness"]) if f == 0.5)}
    room = min(int(n * most / size) + 1, n - 1)
    while True:
        chosen = _spread(room, n, fixed if room > 3 else {out["start"]})
        less = _with_positions(out, chosen)
        notes[-1] = (
            f"The slider has {len(chosen)} positions instead of {n}, so that the file stays small."
        )
        if room <= 3 or _size(for_page(less)) <= most:
            return less
        room -= 1


def _sides(study: dict[str, Any]) -> list[dict[str, Any]]:
    """Both sets of positions of a study, or the only one."""
    return [study, other] if (other := study.get("other")) else [study]


def _promised(side: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in point.items() if k == "promise"} for point in side["positions"]]


def _spread(room: int, n: int, fixed: Collection[int]) -> list[int]:
    """At most ``room`` of n dial values at equal distances, the fixed ones and both ends among them."""
    for count in (room, room - 1, room - 2):  # fewer, if a fixed one is none of them
        even = np.linspace(0, n - 1, min(max(count, 2), n - 1)).round().astype(int).tolist()
        chosen = sorted({*even, *fixed})
        if len(chosen) <= room:
            break
    return chosen


def _with_positions(study: dict[str, Any], chosen: list[int]) -> dict[str, Any]:
    """The study with some of its dial values."""

    def of(side: dict[str, Any]) -> dict[str, Any]:
        positions = [side["positions"][i] for i in chosen]
        return side | {"positions": positions, "tradeoff": _take(side["tradeoff"], chosen)}

    out = of(study) | {
        "fairness": [study["fairness"][i] for i in chosen],
        "start": chosen.index(study["start"]),
    }
    return out | {"other": of(out["other"])} if out.get("other") else out


def for_page(study: dict[str, Any]) -> dict[str, Any]:
    """The study as the page stores it: what repeats once, and names from the data never as keys.

    Every JavaScript object inherits keys such as "constructor" and "__proto__", which a column may be
    named. So a dict whose keys are names from the data is stored as a list of its items.
    """
    out = _stored(shortened(study)) | _items(study, ["scatter"])
    return out | {"other": _stored(out["other"])} if out.get("other") else out


def _stored(side: dict[str, Any]) -> dict[str, Any]:
    """A set of positions as the page stores it."""
    out = share_code(side)
    positions = [point | _items(point, _BY_NAME) for point in out["positions"]]
    tradeoff = out["tradeoff"] | _items(out["tradeoff"], ["parity"])
    return out | {"positions": pack(positions), "tradeoff": tradeoff}


def _items(part: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The dicts under these keys, as lists of their items."""
    return {key: [list(item) for item in part[key].items()] for key in keys if key in part}


def share_code(study: dict[str, Any]) -> dict[str, Any]:
    """Store the common beginning and end of all snippets once, as ``code``.

    A snippet names every column, so whole snippets would be most of the page of a wide table.
    """
    texts = [point["snippet"] for point in study["positions"]]
    before = _common_start(texts)
    rests = [text.removeprefix(before) for text in texts]
    after = _common_start([rest[::-1] for rest in rests])[::-1]
    positions = [
        point | {"snippet": rest.removesuffix(after)}
        for point, rest in zip(study["positions"], rests, strict=True)
    ]
    return study | {"code": [before, after], "positions": positions}


def _common_start(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)  # these two differ first
    differ = (i for i, c in enumerate(low) if high[i : i + 1] != c)
    return low[: next(differ, len(low))]


def _size(value: Any) -> int:
    return len(to_text(value).encode())


def _take(value: Any, chosen: list[int]) -> Any:
    """Some dial values of every list along the slider."""
    if isinstance(value, dict):
        return {key: _take(part, chosen) for key, part in value.items()}
    return [value[i] for i in chosen] if isinstance(value, list) else value
