"""Show columns of a study by the labels and descriptions of a dictionary.

Models, rows and code keep the names of the columns: only what readers see is changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from fairspan.auditing import Audit
from fairspan.tables.dictionary import ColumnWords

__all__ = ["label_audit", "relabel"]

# Parts of a position, and of the trade-off, whose keys are names of protected attributes.
_BY_NAME = ("scores", "rates", "calibration", "continuous")
_HEADLINE = ("gap_attribute", "correlation_attribute")
# Parts of a position that are lists of attributes.
_LISTED = ("parity", "selected", "verdicts")
# Keys of the study whose texts are sentences.
_SENTENCES = (
    "criterion_words",
    "score_words",
    "notes",
    "warnings",
    "words",
    "reading",
    "summary",
    "note",
)
# Combinations of attributes are named by this sign between their names.
_CROSS = " x "
# Words of the report's own sentences: a bare word of these is probably not the column.
_OWN_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a accuracy all and attribute audit average certificate chance class classes code column columns
        confidence control correlation count decision decisions difference error fairness feature features
        gap group groups held kind level mean model name new no not number numbers of or out people person
        predicted prediction probability rate rates ratio row rows score scores share slider smallest table
        target test the training true value values weight""",
    )
)


def relabel(study: dict[str, Any], words: Mapping[str, ColumnWords]) -> dict[str, Any]:
    """Return the study with labels in place of the names of columns.

    Every column keeps its name as ``column``, and has its ``description``. Sentences show the label
    where they quote a name, and where a name is no word of the report's own sentences.

    Parameters
    ----------
    study : the study of a report.
    words : labels and descriptions by column.
    """
    labels = {name: entry.label for name, entry in words.items() if entry.label}
    out = dict(study)
    out["columns"] = [
        column
        | {
            "name": _label(column["name"], labels),
            "column": column["name"],
            "description": words.get(column["name"], ColumnWords()).description,
        }
        for column in study["columns"]
    ]
    out["attributes"] = [a | {"name": _label(a["name"], labels)} for a in study["attributes"]]
    out["target"] = study["target"] | {"name": _label(study["target"]["name"], labels)}
    out["scatter"] = _keys(study["scatter"], labels)
    out |= _side(study, labels)
    if study.get("other"):
        out["other"] = study["other"] | _side(study["other"], labels)
    importance = study["importance"]
    if importance and importance.get("features"):
        features = [
            f
            | {
                "name": _label(f["name"], labels),
                "description": words.get(f["name"], ColumnWords()).description,
            }
            for f in importance["features"]
        ]
        out["importance"] = importance | {"features": features}
    if people := study.get("people"):
        out["people"] = people | {"names": [_label(name, labels) for name in people["names"]]}
    lines = [
        line | {"attribute": _label(line["attribute"], labels)} for line in study["audit"]["lines"]
    ]
    out["audit"] = study["audit"] | {"lines": lines}
    if "comparison" in study:
        measures = [
            m | {"attribute": _label(m["attribute"], labels)}
            for m in study["comparison"]["measures"]
        ]
        out["comparison"] = study["comparison"] | {"measures": measures}
    # Features are quoted in sentences; their bare names may be ordinary words.
    quoted = {column["name"] for column in study["columns"] if column.get("role") == "feature"}
    pattern = _pattern(labels, quoted)
    return out if pattern is None else {k: _texts(v, pattern, labels) for k, v in out.items()}


def label_audit(result: Audit, words: Mapping[str, ColumnWords]) -> Audit:
    """Return an audit whose findings name protected attributes by their labels."""
    labels = {name: entry.label for name, entry in words.items() if entry.label}
    if not labels:
        return result
    findings = [replace(f, attribute=_label(f.attribute, labels)) for f in result.findings]
    rows = result.rows
    if rows is not None:
        attributes = [replace(a, name=_label(a.name, labels)) for a in rows.attributes]
        crossed = rows.crossed and replace(rows.crossed, name=_label(rows.crossed.name, labels))
        rows = replace(rows, attributes=tuple(attributes), crossed=crossed)
    return replace(
        result,
        findings=tuple(findings),
        rows=rows,
        proxies=tuple(replace(p, attribute=_label(p.attribute, labels)) for p in result.proxies),
        group_sizes=_keys(result.group_sizes, labels),
        group_clusters=_keys(result.group_clusters, labels),
    )


def _label(name: Any, labels: Mapping[str, str]) -> Any:
    """Return the label of a name, or of a combination of names."""
    if not isinstance(name, str) or name in labels:
        return labels.get(name, name)
    parts = name.split(_CROSS)
    return _CROSS.join(labels.get(part, part) for part in parts) if len(parts) > 1 else name


def _keys(by_name: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    return {_label(name, labels): value for name, value in by_name.items()}


def _side(side: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Parts of a study that the switch changes."""
    tradeoff = side["tradeoff"] | {"parity": _keys(side["tradeoff"]["parity"], labels)}
    positions = [_position(point, labels) for point in side["positions"]]
    out = {"tradeoff": tradeoff, "positions": positions}
    if promise := side.get("promise"):
        out["promise"] = promise | {
            "attributes": [_label(name, labels) for name in promise["attributes"]],
            "left_out": [_group(text, labels) for text in promise["left_out"]],
        }
        if smallest := promise["smallest"]:
            out["promise"]["smallest"] = smallest | {"group": _group(smallest["group"], labels)}
    return out


def _group(text: str, labels: Mapping[str, str]) -> str:
    """A group such as "sex=f", by the label of its attribute."""
    name = next((name for name in labels if text.startswith(f"{name}=")), None)
    return text if name is None else labels[name] + text.removeprefix(name)


def _position(point: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    out = point | {key: _keys(point[key], labels) for key in _BY_NAME if key in point}
    headline = dict(point["headline"])
    for key in _HEADLINE:
        if headline.get(key):
            headline[key] = _label(headline[key], labels)
    out["headline"] = headline
    for key in _LISTED:
        if isinstance(point.get(key), list):
            out[key] = [p | {"attribute": _label(p["attribute"], labels)} for p in point[key]]
    return out


def _pattern(labels: Mapping[str, str], quoted: Collection[str]) -> re.Pattern[str] | None:
    """A pattern of all names in sentences: in quotes, or as a whole word unless always ``quoted``."""
    names = sorted(labels, key=len, reverse=True)
    bare = [n for n in names if n.lower() not in _OWN_WORDS and n not in quoted]
    alternatives = [f"'{re.escape(name)}'" for name in names]
    alternatives += [rf"(?<![\w'-]){re.escape(name)}(?![\w'-])" for name in bare]
    return re.compile("|".join(alternatives)) if alternatives else None


def _texts(value: Any, pattern: re.Pattern[str], labels: Mapping[str, str], key: str = "") -> Any:
    """Replace names in sentences; single words are names of groups or labels already."""
    if isinstance(value, dict):
        return {k: _texts(v, pattern, labels, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_texts(v, pattern, labels, key) for v in value]
    if isinstance(value, str) and key in _SENTENCES:
        return pattern.sub(lambda match: _in_text(match[0], labels), value)
    return value


def _in_text(found: str, labels: Mapping[str, str]) -> str:
    name = found[1:-1] if found.startswith("'") and found.endswith("'") else found
    quote = "'" if name != found else ""
    return f"{quote}{labels[name]}{quote}"
