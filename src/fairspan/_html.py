"""Small tables for notebooks: self-contained, readable in light and dark, and inert.

No script, no colour of their own: text and lines take those of the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fairspan._system import inert

__all__ = [
    "audit_html",
    "certificate_html",
    "escaped",
    "estimator_html",
    "number",
    "path_html",
    "table",
]

_LONGEST = 200
_ROWS_OF_A_PATH = 11
_MOST_ROWS = 60
# Half-transparent grey is seen on white and on black.
_LINE = "1px solid rgba(128,128,128,0.45)"
_TABLE = "border-collapse:collapse;margin:0.5em 0;color:inherit;background:transparent"
_CAPTION = "caption-side:top;text-align:left;color:inherit;padding:0.3em 0;font-weight:bold"
_CELL = f"padding:0.2em 0.8em 0.2em 0;border-bottom:{_LINE};color:inherit;background:transparent"


def escaped(text: object, longest: int = _LONGEST) -> str:
    """Text from data inside HTML: on one line, printable, short, no markup."""
    return html.escape(inert(str(text), longest))


def number(value: float) -> str:
    """Three digits; what is zero up to rounding says so."""
    if value != value:
        return "-"
    if 0.0 < abs(value) < 1e-10:
        return "<1e-10"
    if value != 0.0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names its rows; every text is escaped here."""
    rows = list(rows)
    sides = [_side([row[j] for row in rows]) if j else "left" for j in range(len(head))]
    lines = [
        f'<table style="{_TABLE}"><caption style="{_CAPTION}">{escaped(caption, 400)}</caption>',
        "<thead><tr>",
        *(_cell('th scope="col"', t, side) for t, side in zip(head, sides, strict=True)),
        "</tr></thead><tbody>",
    ]
    for row in rows:
        tags = ('th scope="row"', *["td"] * (len(row) - 1))
        cells = (_cell(*one) for one in zip(tags, row, sides, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*lines, "</tbody></table>"])


def _side(column: Sequence[str]) -> str:
    """Numbers stand under each other."""
    return "right" if all(text[:1] in "0123456789-<?" for text in column) else "left"


def _cell(tag: str, text: str, side: str) -> str:
    weight = ";font-weight:normal" if "row" in tag else ""
    name = tag.partition(" ")[0]
    return f'<{tag} style="{_CELL};text-align:{side}{weight}">{escaped(text)}</{name}>'


def _said(words: Sequence[str]) -> str:
    return "".join(f'<p style="margin:0.2em 0">{escaped(text, 2000)}</p>' for text in words)


def _box(*parts: str) -> str:
    # Wide tables scroll inside the cell of a notebook, and the keyboard reaches them.
    return f'<div style="overflow-x:auto" tabindex="0">{"".join(parts)}</div>'


# ------------------------------------------------------------------ what notebooks show


def estimator_html(diagram: str, estimator: Any) -> str:
    """scikit-learn's diagram and, below it, what a fitted model is and promises."""
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return diagram
    attributes = {block.attribute: None for block in certificate.blocks}
    rows = [
        ("fairness", _dial(certificate)),
        ("criterion", certificate.criterion.replace("_", " ")),
        ("protected attributes", ", ".join(inert(name, 60) for name in attributes) or "none"),
        ("worst case over the model space", number(certificate.supremum)),
        ("fitted score", number(certificate.score)),
        ("containment gap, accuracy gap",
         f"{number(certificate.containment_gap)}, {number(certificate.accuracy_gap)}"),
    ]  # fmt: skip
    if merged := certificate.merged_slices():
        rows.append(("slices merged, too few rows", ", ".join(inert(one, 90) for one in merged)))
    moments = getattr(estimator, "moments_", None)
    if moments is not None:
        rows.append(("training rows", f"{moments.n_rows:,}"))
    caption = f"{type(estimator).__name__}, correlations with protected attributes on training rows"
    return diagram + _box(table(caption, ("what", "value"), rows))


def _dial(certificate: Any) -> str:
    if certificate.limits is None:
        return f"{certificate.fairness:g} ({certificate.dial} dial)"
    limits = ", ".join(f"{inert(name, 60)} {v:g}" for name, v in certificate.limits.items())
    return f"largest correlations: {limits}"


def certificate_html(certificate: Any, lines: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """A certificate: what is promised in ``words``, then its table; the first line is the head."""
    head, *rows = lines
    place = f"fairness {_dial(certificate)}" if certificate.limits is None else _dial(certificate)
    caption = f"Certificate: {certificate.criterion.replace('_', ' ')}, {place}, training rows"
    return _box(_said([text[:1].upper() + text[1:] for text in words]), table(caption, head, rows))


def path_html(path: Any) -> str:
    """A path at a few dial values, both ends included."""
    n = len(path)
    count = min(n, _ROWS_OF_A_PATH)
    places = sorted({round(i * (n - 1) / max(count - 1, 1)) for i in range(count)})
    curves = [path.curve("correlation", name) for name in path.attributes]
    head = (
        "fairness", path.error_name, *(f"correlation with {name}" for name in path.attributes),
        "certificate (training rows)",
    )  # fmt: skip
    rows = [
        (f"{path.fairness[i]:.3g}", number(path.error[i]), *(number(c[i]) for c in curves),
         number(path.certificate[i]))
        for i in places
    ]  # fmt: skip
    shown = f"{len(places)} of {n} dial values" if len(places) < n else f"{n} dial values"
    caption = f"FairnessPath of {type(path.estimator).__name__}, {shown}"
    noise = f"Sampling noise of a correlation on these rows: about {number(path.noise)}."
    return _box(table(caption, head, rows), _said([noise]))


def audit_html(audit: Any, words: Sequence[str]) -> str:
    """An audit's comparisons of groups with their intervals, and what must not be missed."""
    found = [
        f for f in audit.findings
        if f.section in ("performance", "scores", "decisions", "certificate") and not f.group
    ]  # fmt: skip
    rows = [
        (f.metric.replace("_", " "), f.attribute or "all rows", f.where or "all rows",
         number(f.value), _interval(f), f"{f.n_rows:,}")
        for f in found[:_MOST_ROWS]
    ]  # fmt: skip
    head = ("metric", "attribute", "rows looked at", "value", "interval", "rows")
    caption = (
        f"Audit of {inert(audit.model, 80)} on {audit.n_rows:,} rows, {audit.level:.0%} intervals"
    )
    more = len(audit.findings) - len(rows)
    rest = [f"{more:,} further findings are in table()."] if more else []
    return _box(_said(words), table(caption, head, rows), _said(rest))


def _interval(finding: Any) -> str:
    if not math.isfinite(finding.low + finding.high):
        return "-"
    return f"{number(finding.low)} to {number(finding.high)}"
