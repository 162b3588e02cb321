"""Templates about a whole model: a model card, and the sections of Annex IV of the EU AI Act."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairspan.auditing.documents import Block, Bullets, Heading, Paragraph, Table, ToFill
from fairspan.auditing.impact import impacts
from fairspan.auditing.markdown import interval_text, n_rows, spaced
from fairspan.auditing.model_facts import ModelFacts, software
from fairspan.auditing.reading import Audited
from fairspan.auditing.template_impact import (
    NO_JUDGEMENT,
    needed_rows,
    rates_table,
    rows_sentences,
    selections,
)

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

# Columns that are named in a sentence.
_NAMED = 40


def _facts(data: Audited) -> ModelFacts:
    return ModelFacts(kind=data.name) if data.facts is None else data.facts


def _listed(names: tuple[str, ...]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# ------------------------------------------------------------------ parts of both


def _kind(facts: ModelFacts) -> list[str]:
    """What the model is."""
    out = [f"Model: {facts.kind}."]
    if facts.classes:
        out.append(f"It predicts one of: {', '.join(facts.classes)}.")
    if facts.criterion:
        out.append(
            f"Fairness: {facts.criterion}, equal {facts.equalizes} between groups; {facts.dial}."
        )
    if facts.protected:
        shown = ", ".join(f"{name} ({kind})" for name, kind in facts.protected)
        out.append(f"Protected attributes in training: {shown}. Predictions do not need them.")
    return out


def _training(facts: ModelFacts) -> list[str]:
    """What it was trained on."""
    out = []
    if facts.n_train is not None:
        out.append(f"Rows in training: {facts.n_train:,}.")
    if facts.features:
        out.append(f"Columns that it reads ({len(facts.features)}): {_listed(facts.features)}.")
    if facts.parameters:
        shown = ", ".join(f"{name}={value}" for name, value in facts.parameters)
        out.append(f"Parameters that are not at their default: {shown}.")
    return out


def _groups_table(audit: Audit) -> Table:
    rows = [
        (f"{name}: {group}", f"{n:,}", f"{n / audit.n_rows:.1%}")
        for name, sizes in audit.group_sizes.items()
        for group, n in sizes.items()
        if n
    ]
    return Table("People in each group", ("group", "rows", "share"), tuple(rows))


def _performance(audit: Audit) -> Table:
    rows = [
        (spaced(f.metric), interval_text(f), f"{f.n_rows:,}") for f in audit.select("performance")
    ]
    return Table("Performance over all people", ("metric", "value", "rows"), tuple(rows))


def _performance_by_group(audit: Audit) -> Table:
    wanted = ("accuracy", "true_positive_rate", "false_positive_rate", "root_mean_squared_error")
    found = [f for f in audit.select("decisions", where="") if f.group]
    rows = [
        (f"{f.attribute}: {f.group}", spaced(f.metric), interval_text(f), f"{f.n_rows:,}")
        for f in found
        if f.metric.startswith(wanted)
    ]
    return Table("Performance by group", ("group", "metric", "value", "rows"), tuple(rows))


def _gaps(audit: Audit) -> Table:
    rows = [
        (f.attribute, spaced(f.metric), interval_text(f), f"{f.n_rows:,}", f.note)
        for section in ("scores", "decisions")
        for f in audit.select(section, group="", where="")
    ]
    head = ("attribute", "gap", "value", "rows", "note")
    return Table("Differences between groups", head, tuple(rows))


def _selection(audit: Audit, data: Audited) -> Iterator[Block]:
    options = {"level": audit.level, "n_boot": audit.settings.get("n_boot", 500)}
    for text, mask in () if data.probable else selections(data):
        yield Paragraph(text)
        for found in impacts(data, mask, min_rows=audit.settings.get("min_rows", 30), **options):
            yield rates_table(found, "Selection")


def _software() -> Table:
    return Table("Versions of software", ("software", "version"), software())


def _metrics_used(audit: Audit) -> str:
    names = list(
        dict.fromkeys(
            spaced(f.metric)
            for f in audit.findings
            if f.section in ("performance", "scores", "decisions")
        )
    )
    return f"Measured here: {', '.join(names)}." if names else "No metric was computed."


def _stands_out(audit: Audit) -> Bullets:
    return Bullets(audit.warnings or ("Nothing beyond sampling noise was found in this audit.",))


def _not_computed(audit: Audit) -> Bullets:
    skipped: dict[str, str] = audit.settings.get("not_made", {})
    return Bullets(tuple(f"Not computed, {part}: {why}." for part, why in skipped.items()))


# ------------------------------------------------------------------ model card


def model_card(audit: Audit) -> Iterator[Block]:
    """A model card: details, uses, risks, training, evaluation, and what its certificate promises."""
    data = needed_rows(audit)
    facts = _facts(data)
    yield Heading(f"Model card of {audit.model}", 1)
    yield Heading("Model details")
    yield Bullets(tuple(_kind(facts)))
    yield ToFill(
        ("who made and who maintains the model, and whom to contact", "version, date, licence")
    )
    yield Heading("Uses")
    yield ToFill(
        (
            "intended use, and the people who use it and whom it is about",
            "uses that it is not made for",
        )
    )
    yield Heading("Bias, risks and limitations")
    yield Paragraph(NO_JUDGEMENT)
    yield _stands_out(audit)
    yield ToFill(("who can be harmed, how, and what users are advised to do",))
    yield Heading("Training details")
    yield Bullets(tuple(_training(facts)))
    yield ToFill(("training data: source, period, how the people in it were found, cleaning",))
    yield Heading("Evaluation")
    yield Heading("Testing data, factors and metrics", 3)
    yield Bullets((*rows_sentences(audit), _metrics_used(audit)))
    yield _groups_table(audit)
    yield ToFill(("testing data: source, period, and how it differs from the people in use",))
    yield Heading("Results", 3)
    if not audit.findings:
        yield Paragraph("Nothing was measured in this audit.")
    yield _performance(audit)
    yield _performance_by_group(audit)
    yield _gaps(audit)
    yield from _selection(audit, data)
    yield _not_computed(audit)
    if facts.promises:
        yield Heading("Certificate of the model")
        yield Bullets(facts.promises)
    yield Heading("Technical specifications")
    yield _software()
    yield ToFill(("computing infrastructure, and energy used for training",))
    yield Heading("What the intervals rest on")
    yield Paragraph(audit.assumptions)


# ------------------------------------------------------------------ Annex IV


def annex_iv(audit: Audit) -> Iterator[Block]:
    """The nine sections of Annex IV, with everything filled in that the audit and the model show."""
    data = needed_rows(audit)
    facts = _facts(data)
    yield Heading("Technical documentation, Annex IV", 1)
    yield Paragraph(
        "Sections of Annex IV to Regulation (EU) 2024/1689. Filled in is what the audit and the model show; "
        f"every other line is marked for the provider. {NO_JUDGEMENT}"
    )
    yield Heading("1. General description of the AI system")
    yield Bullets(tuple(_kind(facts)))
    yield ToFill(
        (
            "(a) intended purpose, name of the provider, version and its relation to earlier versions",
            "(b) how the system interacts with other hardware, software or AI systems",
            "(c) requirements about updates of the software below",
            "(d) forms in which it is placed on the market or put into service",
            "(e) hardware that it is meant to run on",
            "(f) if it is part of a product: photographs or illustrations of the product",
            "(g) the user interface for the deployer",
            "(h) instructions for use for the deployer",
        )
    )
    yield _software()
    yield Heading("2. Elements of the AI system and process of its development")
    yield Bullets((*_training(facts), *_design(facts)))
    yield ToFill(
        (
            "(a) steps of development, and systems or tools of third parties that were used",
            "(b) rationale of the key design choices, and the trade-offs that were decided",
            "(c) architecture of the whole system, and computing resources",
            "(d) data sheets: provenance, scope, selection, labelling and cleaning of the training data",
            "(e) assessment of the human oversight that is needed (Article 14)",
            "(f) changes that are planned in advance",
            "(g) test logs and reports, dated and signed by the people responsible",
            "(h) measures for cybersecurity",
        )
    )
    yield Heading("Validation and testing, (g)", 3)
    yield Bullets((*rows_sentences(audit), _metrics_used(audit)))
    yield _groups_table(audit)
    yield _gaps(audit)
    yield _not_computed(audit)
    yield Heading("3. Monitoring, functioning and control")
    yield Heading("Performance, overall and for groups of people", 3)
    if not audit.select("performance") and not audit.select("decisions"):
        yield Paragraph("Not measured: the audit was given neither true outcomes nor decisions.")
        yield ToFill(("accuracy, overall and for the groups of people it is used on",))
    yield _performance(audit)
    yield _performance_by_group(audit)
    yield from _selection(audit, data)
    yield Heading("Limitations, and outcomes to expect", 3)
    yield _stands_out(audit)
    yield Bullets(facts.promises)
    yield Paragraph(audit.assumptions)
    yield Heading("Input data", 3)
    named = f"Columns that the model reads: {_listed(facts.features)}."
    yield Bullets((named,) if facts.features else ())
    yield ToFill(
        (
            "sources of risk to health, safety and fundamental rights, and outcomes to expect that the tests "
            "above do not show",
            "measures for human oversight, and how outputs are explained to deployers",
            "specification of input data, where they are from and in which form",
        )
    )
    yield Heading("4. Appropriateness of the performance metrics")
    yield Bullets((_metrics_used(audit),))
    yield ToFill(("why these metrics suit this system and its purpose",))
    yield Heading("5. Risk management system (Article 9)")
    yield ToFill(("description of the risk management system",))
    yield Heading("6. Changes through the lifecycle")
    yield ToFill(("changes that the provider has made to the system",))
    yield Heading("7. Harmonised standards")
    yield ToFill(
        ("standards applied in full or in part; otherwise the solutions that were adopted",)
    )
    yield Heading("8. EU declaration of conformity (Article 47)")
    yield ToFill(("copy of the declaration",))
    yield Heading("9. Evaluation after placing on the market (Article 72)")
    yield Paragraph(
        f"The numbers above are about {n_rows(audit)} at one time. They hold for people who resemble them."
    )
    yield ToFill(("the system of evaluation in use, with the post-market monitoring plan",))


def _design(facts: ModelFacts) -> list[str]:
    """General logic of a fairspan model."""
    if not facts.criterion:
        return []
    what = "its scores" if facts.equalizes == "scores" else "its decisions"
    return [
        f"General logic: the model predicts the target as well as it can while {what} depend on the "
        f"protected attributes as little as the dial asks; {facts.dial}."
    ]
