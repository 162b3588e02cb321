"""Write the page of the frontier benchmark: tables in Markdown with explanations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fairspan_lab.frontier._methods import METHODS
from fairspan_lab.frontier._price import AWARE, BLIND, LIMITS, TABLES, Row
from fairspan_lab.frontier._tables import Tables

__all__ = ["markdown"]

_MEASURES = {
    "sp": "statistical parity, |corr(score, S)|",
    "eop": "equal opportunity, |corr(score, S)| within y = 1",
    "eo": "equalized odds, |corr(score, S)| within each class",
    "dp": "decisions, difference of selection rates (models fitted for statistical parity)",
    "eod": "decisions, difference of true or false positive rates (models fitted for equalized odds)",
    "ir": "decisions, one less the impact ratio (models fitted for statistical parity)",
}
_HOW_TO_READ = """\
*What does parity cost, for each method?* For a method and a limit on the correlation, we take the model
with the lowest error among the dial values that keep the limit in every protected attribute, both on
validation rows. If none does, we take the fairest. Error and parity are then measured on test rows.

- *Price*: the error above that of unconstrained fairspan on the same split. Differences of prices are
  therefore differences of errors.
- *A cell*: price ± standard error over the splits, which share rows (parity on test rows; splits that
  kept the limit on {kept} rows).
- *On test*: the price if the model is chosen on the test rows; optimistic, for comparison only.
- *Italics*: the limit was kept on validation rows on fewer than half of the splits.
- *Promised*: chosen on the training rows alone, so that the limit is kept with confidence .95 where it
  can be; the fair end otherwise.
- *Decisions come first.* A limit on the correlation of scores can be met by moving scores that decide
  nothing, far from the threshold, while the rates of decisions stay unequal.
- *Ours* removes dependence on the training rows (`removal="training_rows"`), as version 0.1.0 did. Rows
  named new rows, three learners, decision rule or promised are today's defaults."""
_LAW = """\
The next table is separate for a legal reason. A model that reads S at prediction treats two people who
differ only in S differently, which many laws on lending and hiring forbid."""


def markdown(tables: Tables, pictures: Iterable[str], quick: bool) -> str:
    """Text of `frontier.md`; `pictures` are the file names of the pictures next to it."""
    out = ["# What parity costs", "", "Written by `fairspan bench frontier`."]
    if quick:
        out[-1] += " With `--quick`: few rows, splits and dial values, so rough."
    # Tables of before the count on test rows was added have the one on validation rows.
    counted = any("kept" in row for row in tables.price)
    out += ["", _HOW_TO_READ.format(kept="test" if counted else "validation"), ""]
    for name in pictures:
        out += [f"![{name.removesuffix('.png')}]({name})", ""]
    out += ["## Where ours is worse", "", *_losses(tables.paired), ""]
    for data in tables.sets:
        out += [f"## {data}", ""]
        if free := tables.unconstrained(data):
            out += [f"Unconstrained error of fairspan: {free[0]:.3f} over {free[1]} splits.", ""]
        else:
            out += ["fairspan was not run, so there are no prices.", ""]
        price = [row for row in tables.price if row["data"] == data]
        present = {(row["criterion"], row["measure"]) for row in price}
        for key in (key for key in TABLES if key in present):
            rows = [row for row in price if (row["criterion"], row["measure"]) == key]
            out += [f"### {data}: {_MEASURES[key[1]]}", "", *_price_tables(rows)]
    out += ["## Dominated area", "", *_areas(tables), ""]
    out += ["## Limits not met", "", *_not_met(tables.price), ""]
    for title, lines in (
        ("Compared with chance", _over(tables.ends)),
        ("Time of a fit", _times(tables.times)),
    ):
        if lines:
            out += [f"## {title}", "", *lines, ""]
    return "\n".join(out)


def _price_tables(rows: list[Row]) -> Iterable[str]:
    """The methods that predict from X alone; then those that read S, with fairspan for comparison."""
    present = list(dict.fromkeys(row["method"] for row in rows))
    reads = [m for m in present if METHODS[m].reads_sensitive]
    yield from _price_table(rows, [(m, METHODS[m].name) for m in present if m not in reads])
    if reads:
        names = [(m, METHODS[m].name) for m in reads]
        if "fairspan" in present:
            names.insert(0, ("fairspan", f"{METHODS['fairspan'].label}: does not read S"))
        yield from (_LAW, "", *_price_table(rows, names))


def _price_table(rows: list[Row], methods: list[tuple[str, str]]) -> Iterable[str]:
    limits = list(dict.fromkeys(row["limit"] for row in rows))
    by_key = {(row["method"], row["limit"]): row for row in rows}
    yield (
        "| method | own unconstrained error | "
        + " | ".join(f"≤ {limit:g} | on test" for limit in limits)
        + " |"
    )
    yield "|---" * (2 + 2 * len(limits)) + "|"
    for method, name in methods:
        found = [by_key[method, limit] for limit in limits]
        free = found[0]["error"] - found[0]["own_price"]
        yield f"| {name} | {free:.3f} | " + " | ".join(map(_price_cell, found)) + " |"
    yield ""


def _price_cell(row: Row) -> str:
    text = _signed(row["price"], row["price_se"])
    if 2 * row["met"] < row["splits"]:
        text = f"*{text}*"
    # The price on the test rows is counted from the same number.
    peeked = row["price"] + row["test_chosen_error"] - row["error"]
    got = f"({row['test_measure']:.3f}; {row.get('kept', row['met'])}/{row['splits']})"
    return f"{text} {got} | {_signed(peeked, math.nan)}"


def _signed(mean: float, se: float) -> str:
    if math.isnan(mean):
        return "?"
    # Adding 0 after rounding makes -0.0000 a plain zero.
    text = f"{round(mean, 4) + 0.0:+.4f}"
    return text if math.isnan(se) else f"{text} ± {se:.4f}"


def _losses(paired: list[Row]) -> Iterable[str]:
    """Every comparison in which ours has the larger error by more than one standard error."""
    yield (
        "Error of fairspan minus that of another method, split by split. Each method is compared with the\n"
        "matching variant: boosting with boosted leaves, decisions with the model for decisions, methods\n"
        "that read S with fairspan that reads S, and methods that constrain only correlations with\n"
        "fairspan that does the same.\n\n"
        "- *At the limit*: over the splits on which the other method kept the limit on validation rows;\n"
        "  with fewer than three of them, it did not reach the limit.\n"
        "- *At equal parity*: over all splits, both at the limit, or at the value that the other method\n"
        "  reached if that is larger, on validation rows. For decisions both are a draw between two of\n"
        "  their models, which meets any limit exactly."
    )
    yield ""
    for title, rivals in (("From X alone", BLIND), ("Reading S", AWARE)):
        for _, measure in TABLES:
            rows = [r for r in paired if r["measure"] == measure and r["rival"] in rivals]
            if rows:
                yield from (f"**{title}: {_MEASURES[measure]}**", "", *_loss_list(rows), "")


def _loss_list(rows: list[Row]) -> Iterable[str]:
    away = sum(row["verdict"] == "not reached" for row in rows)
    short = sum(row["ours_met"] < row["met"] for row in rows)
    yield (
        f"- {len(rows)} comparisons; in {away} the other method did not reach the limit; in {short} ours\n"
        "  missed it on a split on which the other method kept it"
    )
    if all(row["reached_verdict"] == "too few splits" for row in rows):
        yield "- fewer than three splits: too few to compare"
        return
    for start, where in (
        ("", "at the limit"),
        ("both_", "at the limit, where both keep it"),
        ("reached_", "at equal parity"),
    ):
        worse = [row for row in rows if row[f"{start}verdict"].startswith("worse")]
        yield f"- {where}: worse by more than one standard error in {len(worse)} comparisons"
        # A rival without a dial gives the same numbers at several limits: one line for them.
        for r, limits in _merged(worse, start):
            gap = _signed(r[f"{start}mean"], r[f"{start}se"])
            n = {"": r["met"], "both_": r["ours_met"], "reached_": r["splits"]}[start]
            yield (
                f"    - {r['data']} ≤ {limits}: {METHODS[r['ours']].name} against "
                f"{METHODS[r['rival']].name} {gap}, {r[f'{start}z']:.1f} standard errors, {n} splits"
            )


def _merged(rows: list[Row], start: str) -> Iterable[tuple[Row, str]]:
    """Rows that differ by their limit only, as one and its limits."""
    same: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        key = (r["data"], r["rival"], r[f"{start}mean"], r[f"{start}se"], r["met"])
        same.setdefault(key, []).append(r)
    for found in same.values():
        yield found[0], ", ".join(f"{r['limit']:g}" for r in found)


def _areas(tables: Tables) -> Iterable[str]:
    yield (
        "Share of the rectangle of (largest |corr| with S, error) that a method's models dominate on test\n"
        "rows, ± standard error over the splits; larger is better. The rectangle extends from |corr| 0 and\n"
        "the lowest error of all to the largest unconstrained |corr| and the largest error chosen."
    )
    yield ""
    by_key = {(row["data"], row["method"]): row for row in tables.hypervolume}
    yield "| method | " + " | ".join(tables.sets) + " |"
    yield "|---" * (1 + len(tables.sets)) + "|"
    for method in (m for m in METHODS if any((data, m) in by_key for data in tables.sets)):
        cells = []
        for data in tables.sets:
            row = by_key.get((data, method))
            spread = "" if row is None or math.isnan(row["se"]) else f" ± {row['se']:.3f}"
            cells.append("" if row is None else f"{row['hypervolume']:.3f}{spread}")
        yield f"| {METHODS[method].name} | " + " | ".join(cells) + " |"


def _not_met(price: list[Row]) -> Iterable[str]:
    yield (
        "Splits of all data sets on which no dial value kept the limit on |corr(score, S)| on validation\n"
        "rows."
    )
    yield ""
    own = [row for row in price if row["measure"] == "sp"]
    yield "| method | " + " | ".join(f"≤ {limit:g}" for limit in LIMITS) + " |"
    yield "|---" * (1 + len(LIMITS)) + "|"
    for method in (m for m in METHODS if any(r["method"] == m for r in own)):
        cells = []
        for limit in LIMITS:
            found = [r for r in own if (r["method"], r["limit"]) == (method, limit)]
            total = sum(r["splits"] for r in found)
            cells.append(f"{total - sum(r['met'] for r in found)} of {total}")
        yield f"| {METHODS[method].name} | " + " | ".join(cells) + " |"


def _over(ends: list[Row]) -> list[str]:
    head = [
        "fairspan at fairness 1: |corr(score, S)| on test rows, mean over the splits, compared with twice\n"
        "the level of chance, 2/sqrt(test rows) + 2/sqrt(fit rows).",
        "",
        "| data | attribute | mean | twice chance | ratio |",
        "|---|---|---|---|---|",
    ]
    lines = [
        f"| {r['data']} | {r['attribute']} | {r['parity']:.3f} | {r['allowed']:.3f} | {r['ratio']:.2f} |"
        for r in ends
        if r["method"] == "fairspan"
    ]
    return [*head, *lines] if lines else []


def _times(times: list[Row]) -> list[str]:
    """One fit of ours, for all dial values, against the reductions, fitted for each value."""
    lines = [
        f"| {r['data']} | {METHODS[r['rival']].name} | {r['whole_dial']:.3f} | {r['one_value']:.2f} |"
        for r in times
    ]
    head = (
        "CPU seconds of fairspan's one fit, which gives all dial values, divided by those of EG: for all\n"
        "values, since one is chosen among them, and for one value."
    )
    table = ["| data | against | whole dial | one value |", "|---|---|---|---|"]
    return [head, "", *table, *lines] if lines else []
