"""HTML representation of estimators, certificates, paths and audits in notebooks.

Tables contain no script and no colours: text and lines take those of the page, light or dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fairspan._system import inert

_MAX_CHARACTERS = 200
_PATH_ROWS = 11
_AUDIT_ROWS = 60
_LEFT_ROWS = 5
# Half-transparent grey is visible on white and on black.
_LINE = "1px solid rgba(128,128,128,0.45)"
_TABLE = "border-collapse:collapse;margin:0.5em 0;color:inherit;background:transparent"
_CAPTION = "caption-side:top;text-align:left;color:inherit;padding:0.3em 0;font-weight:bold"
_CELL = f"padding:0.2em 0.8em 0.2em 0;border-bottom:{_LINE};color:inherit;background:transparent"


def escaped(text: object, longest: int = _MAX_CHARACTERS) -> str:
    """Return text for HTML: one short line without control characters, markup escaped."""
    return html.escape(inert(str(text), longest))


def number(value: float) -> str:
    """Format a number with three digits; "<1e-10" if it is zero up to rounding."""
    if value != value:
        return "-"
    if 0.0 < abs(value) < 1e-10:
        return "<1e-10"
    if value != 0.0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table whose first column names its rows; escapes every text."""
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
        cells = (_cell(*cell) for cell in zip(tags, row, sides, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*lines, "</tbody></table>"])


def _side(column: Sequence[str]) -> str:
    """Right-align numeric columns."""
    return "right" if all(text[:1] in "0123456789-<?" for text in column) else "left"


def _cell(tag: str, text: str, side: str) -> str:
    weight = ";font-weight:normal" if "row" in tag else ""
    name = tag.partition(" ")[0]
    return f'<{tag} style="{_CELL};text-align:{side}{weight}">{escaped(text)}</{name}>'


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f'<p style="margin:0.2em 0">{escaped(text, 2000)}</p>' for text in texts)


def _box(*parts: str) -> str:
    # Wide tables scroll inside the notebook cell; tabindex makes them reachable by keyboard.
    return f'<div style="overflow-x:auto" tabindex="0">{"".join(parts)}</div>'


# ------------------------------------------------------------------ representations


def estimator_html(diagram: str, estimator: Any) -> str:
    """Return scikit-learn's diagram and, for a fitted model, a table of its certificate below."""
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return diagram
    attributes = {block.attribute: None for block in certificate.blocks}
    gaps = f"{number(certificate.containment_gap)}, {number(certificate.accuracy_gap)}"
    rows = [
        ("fairness", _dial(certificate)),
        ("criterion", certificate.criterion.replace("_", " ")),
        ("protected attributes", ", ".join(inert(name, 60) for name in attributes) or "none"),
        *_on_new_rows(certificate),
        *_on_training_rows(certificate),
        ("containment gap, accuracy gap", gaps),
    ]
    if merged := certificate.merged_slices():
        rows.append(("slices merged, too few rows", ", ".join(inert(text, 90) for text in merged)))
    moments = getattr(estimator, "moments_", None)
    if moments is not None:
        rows.append(("training rows", f"{moments.n_rows:,}"))
    caption = f"{type(estimator).__name__}, correlations with protected attributes"
    if not certificate.privacy:
        caption += " on training rows"
    return diagram + _box(table(caption, ("what", "value"), rows))


def _on_training_rows(certificate: Any) -> list[tuple[str, str]]:
    if certificate.privacy:
        return [("privacy", certificate.privacy)]
    return [
        ("worst case over the model space, training rows", number(certificate.supremum)),
        ("fitted score, training rows", number(certificate.score)),
    ]


def _on_new_rows(certificate: Any) -> list[tuple[str, str]]:
    found = certificate.new_rows
    if found is None:
        return []
    high = f"{number(found.correlation)}, at most {number(found.high)}"
    rows = [("expected on new rows", f"{high} ({100 * found.confidence:.0f} % confidence)")]
    if left := found.directions_left():
        more = [f"and {len(left) - _LEFT_ROWS} more"] if len(left) > _LEFT_ROWS else []
        rows += [("not removed whole", text) for text in left[:_LEFT_ROWS] + more]
    return rows


def _dial(certificate: Any) -> str:
    if certificate.limits is None:
        return f"{certificate.fairness:g} ({certificate.dial} dial)"
    limits = ", ".join(f"{inert(name, 60)} {v:g}" for name, v in certificate.limits.items())
    return f"largest correlations: {limits}"


def certificate_html(certificate: Any, lines: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """Return a certificate: the promises in ``words``, then a table whose head is the first line."""
    head, *rows = lines
    dial = f"fairness {_dial(certificate)}" if certificate.limits is None else _dial(certificate)
    caption = f"Certificate: {certificate.criterion.replace('_', ' ')}, {dial}"
    sentences = [text[:1].upper() + text[1:] for text in words]
    return _box(_paragraphs(sentences), table(caption, head, rows))


def path_html(path: Any) -> str:
    """Return a table of a path at a few dial values, both ends included."""
    n = len(path)
    count = min(n, _PATH_ROWS)
    points = sorted({round(i * (n - 1) / max(count - 1, 1)) for i in range(count)})
    about = [("error", None), *(("correlation", name) for name in path.attributes)]
    names = [f"correlation with {name}" for name in path.attributes]
    head = ("fairness", path.error_name, *names, "certificate (training rows)")
    if path.in_sample:
        notes = ["These are training rows, on which a model looks better than on new ones."]
        curves = [path.curve(*each) for each in about]
        cells = [[number(curve[i]) for i in points] for curve in curves]
    else:
        bounds = [path.bounds(*each) for each in about]
        notes = [f"With intervals on new rows ({path.rows}), {bounds[0].words}."]
        cells = [
            [f"{number(b.value[i])} ({number(b.lower[i])} to {number(b.upper[i])})" for i in points]
            for b in bounds
        ]
    dial = [f"{path.fairness[i]:.3g}" for i in points]
    rows = list(zip(dial, *cells, [number(path.certificate[i]) for i in points], strict=True))
    shown = f"{len(points)} of {n} dial values" if len(points) < n else f"{n} dial values"
    caption = f"FairnessPath of {type(path.estimator).__name__}, {shown}"
    notes.append(f"Sampling noise of a correlation on these rows: about {number(path.noise)}.")
    return _box(table(caption, head, rows), _paragraphs(notes))


def audit_html(audit: Any, words: Sequence[str]) -> str:
    """Return an audit's warnings and its comparisons of groups with intervals."""
    sections = ("performance", "scores", "decisions", "certificate")
    findings = [
        f
        for f in audit.findings
        if f.section in sections and (not f.group or f.metric == "interval_coverage")
    ]
    rows = [
        (
            f.metric.replace("_", " "),
            f"{f.attribute} = {f.group}" if f.group else f.attribute or "all rows",
            f.where or "all rows",
            number(f.value),
            _interval(f),
            f"{f.n_rows:,}",
        )
        for f in findings[:_AUDIT_ROWS]
    ]
    head = ("metric", "attribute", "rows looked at", "value", "interval", "rows")
    name = inert(audit.model, 80)
    clusters = "" if audit.n_clusters is None else f" in {audit.n_clusters:,} clusters"
    rows_read = f"{audit.n_rows:,} rows{clusters}"
    if audit.n_without_sensitive:
        rows_read += f" (without {audit.n_without_sensitive:,} that lack a protected attribute)"
    caption = f"Audit of {name} on {rows_read}, {audit.level:.0%} intervals"
    more = len(audit.findings) - len(rows)
    rest = [f"{more:,} further findings are in table()."] if more else []
    return _box(_paragraphs(words), table(caption, head, rows), _paragraphs(rest))


def _interval(finding: Any) -> str:
    if not math.isfinite(finding.low + finding.high):
        return "-"
    return f"{number(finding.low)} to {number(finding.high)}"


def receipt_html(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of what fairness changed in the scores of a few rows."""
    return _box(table(caption, head, rows))
