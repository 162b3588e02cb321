"""How the pages become a site: `make docs`, without a network and with warnings as errors."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from pygments.lexers.shell import BashSessionLexer

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples/gallery"
HAS_GALLERY = any(EXAMPLES.glob("plot_*.py"))

project = "fairspan"
author = "The fairspan developers"
project_copyright = author
release = version = metadata.version("fairspan")
URLS = dict(
    entry.split(", ") for entry in metadata.metadata("fairspan").get_all("Project-URL") or ()
)
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
# `name` in a docstring is code, as it is in Markdown.
default_role = "literal"
highlight_language = "text"  # a plain block is what a command prints
smartquotes_action = "D"  # dashes alone: quotes in a docstring are Python's

# ------------------------------------------------------------------ Markdown

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# Prices and shell variables are written as such; mathematics has no space inside its dollars.
myst_dmath_allow_space = False
myst_dmath_allow_digits = False

# ------------------------------------------------------------------ API

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say it, in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
# No inventories of other projects: nothing is fetched. A broken name of our own is an error.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!fairspan\.)[\s\S]*")]
nitpick_ignore = [
    ("py:class", "fairspan.method.kernels.Kernel")
]  # a type, spelt out where it is used
suppress_warnings = ["config.cache"]  # functions for templates are not kept between builds
# On some disks Audit and audit are one file.
autosummary_filename_map = {
    "fairspan.audit": "fairspan.audit-function",
    "fairspan.auditing.attack": "fairspan.auditing.attack-function",
}


def _look_up(fullname: str) -> Any:
    module, _, name = fullname.rpartition(".")
    return getattr(import_module(module), name)


def own_members(fullname: str) -> list[str]:
    """Public methods and properties that fairspan itself defines, here or in a base class."""
    cls = _look_up(fullname)
    found = []
    for owner in cls.__mro__:
        if owner.__module__.split(".")[0] == "fairspan":
            found += [n for n in vars(owner) if not n.startswith("_") and n not in found]
    attributes = re.findall(r"^(\w+)(?: : |$)", inspect.cleandoc(cls.__doc__ or ""), re.MULTILINE)

    def shown(name: str) -> bool:
        what = inspect.getattr_static(cls, name)
        if isinstance(what, property):
            return bool(what.__doc__) and name not in attributes
        return isinstance(what, classmethod | staticmethod) or inspect.isfunction(what)

    return [name for name in found if shown(name)]


def other_methods(fullname: str) -> list[str]:
    """Public methods that come from a base class of scikit-learn."""
    cls, own = _look_up(fullname), own_members(fullname)
    return [
        name
        for name, what in inspect.getmembers(cls, callable)
        if not name.startswith("_")
        and name not in own
        and getattr(what, "__module__", "").startswith("sklearn")
        and not name.startswith("set_")
    ]


autosummary_context = {
    "own_members": own_members,
    "other_methods": other_methods,
    "has_gallery": HAS_GALLERY,
}

# ------------------------------------------------------------------ gallery

if HAS_GALLERY:
    import matplotlib

    matplotlib.use("agg")
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": os.path.relpath(EXAMPLES, HERE),
        "gallery_dirs": "gallery",
        "filename_pattern": r"plot_",
        "backreferences_dir": "gallery/backreferences",
        "doc_module": ("fairspan",),
        "reference_url": {"fairspan": None},
        "abort_on_example_error": False,
        "only_warn_on_example_error": False,
        "remove_config_comments": True,
        "show_memory": False,
        # Of the last line of a block only what is made for notebooks: no addresses of objects.
        "capture_repr": ("_repr_html_",),
        "show_signature": False,
        "download_all_examples": False,
        "write_computation_times": False,
        "min_reported_time": 1e9,
        "within_subsection_order": "FileNameSortKey",
        "nested_sections": False,
        "matplotlib_animations": False,
    }
    # An example's warning is for its reader only where the page talks about it.
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# ------------------------------------------------------------------ HTML

html_theme = "pydata_sphinx_theme"
html_title = "fairspan"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["versions.js"]
# Search engines show the newest release of a page, whichever version they find.
html_baseurl = URLS["Documentation"] + "stable/"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "text": "fairspan",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "navbar_end": ["version-switch.html", "theme-switcher"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "search_bar_text": "Search",
    "header_links_before_dropdown": 7,
}
html_context = {"default_mode": "light"}
html_sidebars = {"index": [], "changelog": [], "quickstart": []}

# Put there by `make docs` (`docs/_mathjax.py`): mathematics is drawn by a file of this site.
MATHJAX = HERE / "_build/mathjax"
html_static_path.append(str(MATHJAX))
mathjax_path = "mathjax/tex-mml-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}}

# ------------------------------------------------------------------ hooks

_TOCTREE = re.compile(r"```\{toctree\}\n(?::.*\n)*\n?((?:[^`:\n].*\n)*)```")


def _pages(text: str) -> list[str]:
    return [name for block in _TOCTREE.findall(text) for name in block.split()]


def _is_there(page: str) -> bool:
    return HAS_GALLERY if page == "gallery/index" else (HERE / f"{page}.md").is_file()


def _list_pages(_app: Any, docname: str, source: list[str]) -> None:
    """Lists of pages: the decisions by number, and at the guide's end what no list has.

    A name without a page is left out of its list. So a page can be written, and looked at, before
    or after it is listed; `tests/test_docs_pages.py` asks for the list.
    """
    if docname == "decisions/README":  # its own list is of links, which read well anywhere
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
    if docname == "guide":
        listed = {page for path in HERE.glob("*.md") for page in _pages(path.read_text("utf-8"))}
        others = sorted({path.stem for path in HERE.glob("*.md")} - listed - {"index"})
        if others:
            source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(others) + "\n```\n"
    if docname in ("index", "guide", "theory", "evidence", "reference"):
        for page in _pages(source[0]):
            if not _is_there(page):
                source[0] = re.sub(rf"^{re.escape(page)}\n", "", source[0], flags=re.MULTILINE)


_PICTURE = re.compile(r'(?<!">)<img (?![^>]*sphx-glr)[^>]*src="([^":]+)"[^>]*>')


def _link_pictures(
    _app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """A picture opens in its own size when it is clicked: on a phone its words are small."""
    if "body" in context:
        context["body"] = _PICTURE.sub(r'<a class="picture" href="\1">\g<0></a>', context["body"])


def setup(app: Any) -> None:
    """Connect the hooks."""
    if not (MATHJAX / "mathjax/tex-mml-chtml.js").is_file():
        sys.exit("MathJax is not there: run `make docs`, or `python docs/_mathjax.py` first.")
    app.add_lexer("sh", BashSessionLexer)  # what a command prints is not a program
    app.connect("source-read", _list_pages)
    app.connect("html-page-context", _link_pictures)
