"""The result of ``explore``, and its page: template, style, scripts, Plotly and study in one file."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fairspan._system import atomic_write, printable_json
from fairspan.auditing import Audit
from fairspan.report.study import for_page, to_text

__all__ = ["Report", "fill", "page", "script_json"]

_SLOTS = ("TITLE", "STYLE", "PLOTLY", "STUDY", "SCRIPT")
# HTML parsers interpret the first three in a script element; old JavaScript took the last two for
# line ends.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def script_json(study: dict[str, Any]) -> str:
    """JSON for a script element, escaped so that no name in it can end the element."""
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match[0]], to_text(study))


def page(study: dict[str, Any]) -> str:
    """The HTML of the whole page.

    Raises
    ------
    ImportError
        The extra ``report`` is not installed.
    """
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
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        msg = 'The page needs plotly: pip install "fairspan[report]".'
        raise ImportError(msg) from error
    return str(get_plotlyjs())


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
        return _written(printable_json(text) + "\n", path)

    def to_html(self, path: Any = None) -> str:
        """One self-contained page that loads nothing else; written to ``path`` too if given.

        Raises
        ------
        ImportError
            The extra ``report`` is not installed.
        """
        return _written(page(self.study), path)

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
            head = position["headline"]
            out.append(
                f"{words}: {name} {_rounded(head['error'])}; {head['gap_name']} {_rounded(head['gap'])}"
                + (f" ({head['gap_attribute']})" if head["gap_attribute"] else "")
            )
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


def _written(text: str, path: Any) -> str:
    if path is not None:
        with atomic_write(Path(path)) as part:
            part.write_text(text, encoding="utf-8")
    return text
