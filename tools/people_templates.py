"""Documents about models of loans, COMPAS and Adult, and alternatives to the COMPAS score.

``python -m tools.people_templates FOLDER`` writes them as Markdown and HTML and prints the table of
:func:`measurements`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from fairspan import FairGPClassifier, audit, metrics
from fairspan.auditing import Alternatives, Audit, alternatives
from fairspan.auditing.documents import TO_FILL
from fairspan.auditing.templates import TEMPLATES
from fairspan.datasets import fetch_adult, fetch_compas, load_loans
from tools.table import ROOT, Measurement, at_least, at_most, show

# Set -> favourable class; age is left out, because a document compares named groups.
SETS: dict[str, Any] = {"loans": 1, "compas": 0, "adult": ">50K"}
# Conclusions about law, and values that were not filled in.
FORBIDDEN = re.compile(r"complian|complies|comply|legal|lawful|discriminat|violat|guilty", re.I)
UNFILLED = re.compile(r"\bnan\b|\bNone\b|\{\w*\}|Estimate\(|TODO")
# Columns of COMPAS that are known when people are scored.
BEFORE = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")


def _home() -> Path | None:
    local = ROOT.parent / "shared" / "data"
    return local if local.is_dir() and not os.environ.get("FAIRSPAN_DATA") else None


def _load(name: str) -> tuple[Any, Any, Any]:
    """Features, target, and the protected attributes sex and race."""
    loaders = {"compas": fetch_compas, "adult": fetch_adult}
    bunch = load_loans() if name == "loans" else loaders[name](data_home=_home())
    return bunch.data, bunch.target, bunch.sensitive_features[["race", "sex"]]


def audited(name: str) -> Audit:
    """A model halfway along its dial, audited on rows held out."""
    X, y, s = _load(name)
    X, X_new, y, y_new, s, s_new = train_test_split(X, y, s, random_state=0, test_size=0.3)
    model = FairGPClassifier(
        fairness=0.5, equalize="decisions", pos_label=SETS[name], random_state=0
    ).fit(X, y, sensitive_features=s)
    parts = ["scores", "decisions"]
    return audit(model, X_new, y_new, sensitive_features=s_new, parts=parts, random_state=0)


def compas_alternatives() -> Alternatives:
    """Models beside the decisions at five or more of the ten COMPAS scores."""
    frame = fetch_compas(data_home=_home()).filename
    people = pd.read_csv(frame)
    X = people[list(BEFORE)].assign(charge=people["c_charge_degree"] == "F")
    return alternatives(
        people["decile_score"],
        X,
        people["two_year_recid"],
        sensitive_features=people[["race", "sex"]],
        threshold=5,
        pos_label=1,
        random_state=0,
    )


class _Tags(HTMLParser):
    """Counts tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002 - of the parser
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.wrong += not self.open or self.open.pop() != tag


def _ratios_differ(result: Audit, text: str) -> int:
    """Impact ratios of the document that are not those of the metrics, among groups that are compared."""
    data = result.rows
    assert data is not None
    assert data.decided is not None
    wrong = 0
    for attribute in data.attributes:
        labels = np.array(attribute.labels, object)[attribute.codes]
        rates = metrics.selection_rates(
            data.decided, data.decided, sensitive_features=labels, pos_label=data.positive[0]
        )
        part = text.split(f"**Selection by {attribute.name}**")[1].split("\n\n")[1]
        for group, rate in next(iter(rates.values())).items():
            line = next(x for x in part.splitlines() if x.startswith(f"| {group} |"))
            wrong += f" {100.0 * rate:.1f} % (" not in line
    return wrong


def measurements(folder: Path | None = None) -> Iterator[Measurement]:
    """Rows about every document; written into ``folder`` if one is given."""
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = Path(temporary) if folder is None else folder
        out.mkdir(parents=True, exist_ok=True)
        unfilled = forbidden = wrong = 0
        for name in SETS:
            result = audited(name)
            for template in TEMPLATES:
                text = result.to_markdown(out / f"{name}-{template}.md", template=template)
                page = result.to_html(out / f"{name}-{template}.html", template=template)
                tags = _Tags()
                tags.feed(page)
                unfilled += len(UNFILLED.findall(text)) + len(UNFILLED.findall(page))
                forbidden += len(FORBIDDEN.findall(text)) + len(FORBIDDEN.findall(page))
                wrong += tags.wrong + len(tags.open)
                wrong += abs(text.count(TO_FILL) - page.count(TO_FILL))
                if template == "annex-iv":
                    sections = len(re.findall(r"^## \d\. ", text, re.M))
                    yield at_least(f"{name}: sections of Annex IV", sections, 9)
                if template == "adverse-impact":
                    differ = _ratios_differ(result, text)
                    yield at_most(f"{name}: rates that are not those of the metrics", differ, 0)
        yield at_most("templates: slots left unfilled, beside marked lines", unfilled, 0)
        yield at_most("templates: words of a conclusion about law", forbidden, 0)
        yield at_most("templates: pages that differ or have open tags", wrong, 0)
        found = compas_alternatives()
        found.to_markdown(out / "compas-alternatives.md")
        print(found)
        at_error, at_gap = found.alternatives
        change = at_error.gaps[0].change
        name = "COMPAS at its error: upper limit of the change of the gap"
        yield at_most(name, change.high, 0.0)
        yield at_most(
            "COMPAS at its gap: upper limit, change of error", at_gap.error_change.high, 0.0
        )
        forbidden = len(FORBIDDEN.findall(found.to_markdown()))
        yield at_most("alternatives: words of a conclusion about law", forbidden, 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.people_templates FOLDER")
    sys.exit(show(measurements(Path(sys.argv[1]))))
