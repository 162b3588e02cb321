"""Documents about an audit in the form that readers of rules expect; see ``Audit.to_markdown``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fairspan.auditing.documents import Block
from fairspan.auditing.template_cards import annex_iv, model_card
from fairspan.auditing.template_impact import adverse_impact, local_law_144

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

TEMPLATES: dict[str, Callable[[Audit], Iterator[Block]]] = {
    "adverse-impact": adverse_impact,
    "ll144": local_law_144,
    "annex-iv": annex_iv,
    "model-card": model_card,
}


def document(audit: Audit, template: str) -> list[Block]:
    """The parts of a document; raise if no template has this name, or if the audit lacks what it needs."""
    if template not in TEMPLATES:
        known = ", ".join(map(repr, TEMPLATES))
        raise ValueError(f"template={template!r} is not allowed; give {known}, or None.")
    return list(TEMPLATES[template](audit))
