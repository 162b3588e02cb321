"""The page: a template, its style and scripts, Plotly and the study in one file."""

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

__all__ = [
    "Report",
    "page",
    "script_json",
]

_PLACES = ("TITLE", "STYLE", "PLOTLY", "STUDY", "SCRIPT")
# In a script element the HTML reader looks for these; JavaScript took the last two for line ends.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def script_json(study: dict[str, Any]) -> str:
    """JSON that no name in it can end or leave, inside a script element."""
    return re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPES[found[0]], to_text(study))


def page(study: dict[str, Any]) -> str:
    """The whole file.

    Raises
    ------
    ImportError
        The extra ``report`` is not installed.
    """
    folder = resources.files("fairspan.report") / "page"
    scripts = sorted(
        (one for one in folder.iterdir() if one.name.endswith(".js")), key=lambda one: one.name
    )
    title = f"{study['about']['data']}: fairness explorer"
    return fill(
        (folder / "page.html").read_text(encoding="utf-8"),
        {
            "TITLE": html.escape(title),
            "STYLE": (folder / "style.css").read_text(encoding="utf-8"),
            "PLOTLY": _plotly(),
            "STUDY": script_json(for_page(study)),
            "SCRIPT": "\n".join(one.read_text(encoding="utf-8") for one in scripts),
        },
    )


def fill(template: str, parts: dict[str, str]) -> str:
    """The template with a text for each of its places; a text that looks like a place is none."""
    for name in _PLACES:
        if template.count(f"<!--{name}-->") != 1:
            raise ValueError(f"The template has no place, or several, for {name}.")
    pattern = "<!--({})-->".format("|".join(_PLACES))
    return re.sub(pattern, lambda found: parts[found[1]], template)


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        msg = 'The page needs plotly: pip install "fairspan[report]".'
        raise ImportError(msg) from error
    return str(get_plotlyjs())


@dataclass(frozen=True, repr=False)
class Report:
    """A fitted path of models, and held-out numbers about every place on it.

    Attributes
    ----------
    study : dict
        All numbers and texts, plain: what the page shows.
    model : estimator
        Fitted on the rows that were not held out, where the slider starts; ``model.at(f)`` is any
        other place.
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
        """Plain numbers, strings, lists and dicts; None for what is not known."""
        return self.study

    def to_json(self, path: Any = None, *, indent: int | None = None) -> str:
        """JSON of the study; written to ``path`` too if given."""
        text = json.dumps(self.study, indent=indent, ensure_ascii=False, allow_nan=False)
        return _written(printable_json(text) + "\n", path)

    def to_html(self, path: Any = None) -> str:
        """One page that needs nothing else and asks for nothing; written to ``path`` too if given.

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
        for words, place in (("without fairness", first), ("fairest", last)):
            head = place["headline"]
            out.append(
                f"{words}: {name} {_shown(head['error'])}; {head['gap_name']} {_shown(head['gap'])}"
                + (f" ({head['gap_attribute']})" if head["gap_attribute"] else "")
            )
        return [*out, *(f"! {text}" for text in about["warnings"])]

    def __repr__(self) -> str:
        return "\n".join(["Report of held-out numbers", *(f"  {line}" for line in self._lines)])

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines)
        tail = "to_html(path) writes the page with the slider."
        return f"<div><strong>Report of held-out numbers</strong><ul>{rows}</ul><p>{tail}</p></div>"


def _shown(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "not known"
    if found["low"] is None:
        return f"{found['value']:.3g}"
    return f"{found['value']:.3g} [{found['low']:.3g}, {found['high']:.3g}]"


def _written(text: str, path: Any) -> str:
    if path is not None:
        with atomic_write(Path(path)) as part:
            part.write_text(text, encoding="utf-8")
    return text
