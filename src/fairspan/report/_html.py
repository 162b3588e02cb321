"""The page: a template, its style and scripts, Plotly and the study in one file."""

from __future__ import annotations

import html
import re
from importlib import resources
from typing import Any

from fairspan.report._study import for_page, to_text

__all__ = ["page", "script_json"]

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
