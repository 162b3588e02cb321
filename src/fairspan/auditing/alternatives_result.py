"""Result of ``alternatives``: numbers, sentences, and their files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairspan._system import atomic_write, inert, json_safe, printable_json
from fairspan.auditing.cross_fit import Estimate
from fairspan.auditing.documents import (
    LONGEST,
    Block,
    Bullets,
    Heading,
    Paragraph,
    Table,
    to_fragment,
    to_markdown,
)

# Dial values of a table in a notebook and in Markdown.
_SHOWN_POINTS = 11


@dataclass(frozen=True, kw_only=True)
class GapComparison:
    """Gap of the incumbent and of the alternative on the held-out rows.

    Attributes
    ----------
    attribute : str
        Protected attribute; "" for the largest gap of all of them.
    incumbent, alternative : Estimate
        Their gaps, with intervals for all comparisons of groups at once.
    change : Estimate
        Gap of the alternative minus that of the incumbent, with a paired interval.
    """

    attribute: str
    incumbent: Estimate
    alternative: Estimate
    change: Estimate


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One model of the frontier, chosen from training rows and compared on held-out rows.

    Attributes
    ----------
    at : {"error", "gap"}
        Which number of the incumbent it was chosen to keep.
    fairness : float
        Its dial value, as in ``model.at(fairness)``.
    reached : bool
        Whether a dial value kept that number on the training rows; if not, this is the nearest.
    error : Estimate
        Its error on the held-out rows.
    error_change : Estimate
        Its error minus that of the incumbent, with a paired interval.
    selected : float or None
        Share of the held-out rows that it decides in favour of; None for scores and numbers.
    gaps : tuple of GapComparison
        The largest gap, then each attribute.
    """

    at: str
    fairness: float
    reached: bool
    error: Estimate
    error_change: Estimate
    selected: float | None
    gaps: tuple[GapComparison, ...]

    @property
    def better(self) -> bool:
        """Whether gap or error is shown to be smaller, and no gap and no error is shown to be larger."""
        gap, error = self.gaps[0].change, self.error_change
        if error.low > 0.0 or any(g.change.low > 0.0 for g in self.gaps):
            return False
        return gap.high < 0.0 or error.high < 0.0

    @property
    def larger(self) -> tuple[GapComparison, ...]:
        """Attributes whose own gap is shown to be larger than that of the incumbent."""
        return tuple(g for g in self.gaps[1:] if g.change.low > 0.0)


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """The frontier at one dial value.

    Attributes
    ----------
    fairness : float
    training_error, training_gap : float
        Out of fold, on the training rows that the incumbent was not fitted on: the basis of the choice.
    error, gap : float
        On the held-out rows; for description, nothing is chosen by them.
    """

    fairness: float
    training_error: float
    training_gap: float
    error: float
    gap: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Alternatives:
    """An incumbent model beside models of fairspan; made by :func:`fairspan.auditing.alternatives`.

    Attributes
    ----------
    incumbent : str
        Name of the model, or "scores" or "decisions".
    compares : {"decisions", "scores", "numbers"}
        What is compared.
    criterion : str
        Rows within which groups are compared.
    error_name, gap_name : str
    error, gap : Estimate
        Of the incumbent on the held-out rows; the largest gap of all attributes.
    selected : float or None
        Share of the held-out rows that the incumbent decides in favour of.
    alternatives : tuple of Alternative
        At the incumbent's error, and at its gap.
    frontier : tuple of FrontierPoint
    n_rows, n_train, n_test : int
        All rows, those fairspan's model was fitted on, and those that the numbers are about.
    n_fitted : int
        Rows left out of the comparison because the incumbent was fitted on them, or because its file cannot
        show that it was not.
    level : float
        Confidence level.
    search : str
        Name of fairspan's model.
    notes : tuple of str
        What a reader must know about the rows and columns.
    model : estimator
        fairspan's fitted model; ``model.at(fairness)`` is an alternative. It is in no file that is written.
    """

    incumbent: str
    compares: str
    criterion: str
    error_name: str
    gap_name: str
    error: Estimate
    gap: Estimate
    selected: float | None
    alternatives: tuple[Alternative, ...]
    frontier: tuple[FrontierPoint, ...]
    n_rows: int
    n_train: int
    n_test: int
    n_fitted: int
    level: float
    search: str
    notes: tuple[str, ...]
    model: Any = None

    # ------------------------------------------------------------------ words

    @property
    def is_share(self) -> bool:
        """Whether the error is a share, which is shown in percent."""
        return self.compares == "decisions"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words: one sentence for each alternative, and what must not be concluded."""
        return (*map(self._sentence, self.alternatives), self._conclusion(), NO_PROOF)

    def _error(self, value: float) -> str:
        return f"{100.0 * value:.1f} %" if self.is_share else number(value)

    def _error_interval(self, e: Estimate) -> str:
        if not self.is_share:
            return interval(e)
        return f"{self._error(e.value)} ({100.0 * e.low:.1f} to {100.0 * e.high:.1f})"

    def _sizes(self, e: Estimate) -> str:
        """A change of the error with its interval."""
        if not self.is_share:
            return interval(e)
        value, low, high = (f"{100.0 * x:.1f}" for x in (e.value, e.low, e.high))
        return f"{value} points ({low} to {high})"

    def _sentence(self, found: Alternative) -> str:
        """One alternative in words."""
        gap = found.gaps[0]
        of = "error" if found.at == "error" else "gap"
        where = f"At your {of} (fairness {found.fairness:.3g}, chosen on training rows)"
        if not found.reached:
            where = (
                f"No dial value reaches your {of} on the training rows; at the nearest, fairness "
                f"{found.fairness:.3g}"
            )
        error = found.error_change
        texts = [
            _change(
                f"the {self.gap_name}",
                number(gap.incumbent.value),
                number(gap.alternative.value),
                gap.change,
                interval,
            ),
            _change(
                "the error",
                self._error(self.error.value),
                self._error(found.error.value),
                error,
                self._sizes,
            ),
        ]
        if found.at == "gap":
            texts.reverse()
        texts += [
            _change(
                f"the {self.gap_name} by {g.attribute}",
                number(g.incumbent.value),
                number(g.alternative.value),
                g.change,
                interval,
            )
            for g in found.larger
            if len(found.gaps) > 2
        ]
        return f"{where}: {'; '.join(texts)}."

    def _conclusion(self) -> str:
        if any(a.better for a in self.alternatives):
            return (
                "So on these rows there is a model with a smaller gap or error, of which no gap and no "
                "error is shown to be larger. What the intervals do not exclude may be there."
            )
        return "So on these rows no model was shown to be better in one of gap and error and worse in none."

    # ------------------------------------------------------------------ output

    def table(self) -> Any:
        """One row per model and attribute: a pandas DataFrame, or a list of dicts without pandas."""
        rows = list(self._rows())
        try:
            import pandas as pd
        except ImportError:
            return rows
        return pd.DataFrame(rows)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for a in self.alternatives:
            for g in a.gaps:
                row: dict[str, Any] = {"at": a.at, "fairness": a.fairness, "reached": a.reached}
                row["attribute"] = g.attribute
                for name, e in (
                    ("incumbent_gap", g.incumbent),
                    ("gap", g.alternative),
                    ("gap_change", g.change),
                    ("error", a.error),
                    ("error_change", a.error_change),
                ):
                    row |= {name: e.value, f"{name}_low": e.low, f"{name}_high": e.high}
                yield row

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; None for numbers that are not known."""
        from fairspan import __version__

        names = [name for name in self.__dataclass_fields__ if name != "model"]
        out: dict[str, Any] = {"fairspan": __version__}
        for name in names:
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = [v if isinstance(v, str) else asdict(v) for v in value]
            out[name] = asdict(value) if isinstance(value, Estimate) else value
        for alternative, record in zip(self.alternatives, out["alternatives"], strict=True):
            record["better"] = alternative.better
        plain: dict[str, Any] = json_safe(out | {"sentences": list(self.sentences)})
        return plain

    def to_json(self, path: Any = None, *, indent: int = 2) -> str:
        """JSON of :meth:`to_dict`; written to ``path`` too if given."""
        text = json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)
        return _write(printable_json(text) + "\n", path)

    def to_markdown(self, path: Any = None) -> str:
        """A section for a report; written to ``path`` too if given."""
        return _write(to_markdown(self._blocks()), path)

    def _head(self) -> str:
        left_out = (
            f", {self.n_fitted:,} rows of the incumbent's fit left out" if self.n_fitted else ""
        )
        return (
            f"Alternatives to {self.incumbent}: {self.search} fitted on {self.n_train:,} rows, both compared "
            f"on {self.n_test:,} held-out rows{left_out}. Intervals of {self.level:.0%}, each on its own."
        )

    def _incumbent(self) -> str:
        chosen = "" if self.selected is None else f", {100.0 * self.selected:.1f} % selected"
        return (
            f"{self.incumbent}: {self.error_name} {self._error_interval(self.error)}, {self.gap_name} "
            f"{interval(self.gap)}{chosen}"
        )

    def _blocks(self) -> Iterator[Block]:
        yield Heading(f"Alternatives to {self.incumbent}")
        yield Paragraph(self._head())
        yield Bullets(self.sentences)
        yield Table("Models on the held-out rows", *self._models_table())
        yield Table("Gaps by attribute on the held-out rows", *self._gaps_table())
        yield Table("Frontier", *self._frontier_table())
        yield Bullets(self.notes)

    def _models_table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        def line(
            name: str, error: Estimate, change: str, gap: Estimate, change_of: str, s: Any
        ) -> Any:
            chosen = "-" if s is None else f"{100.0 * s:.1f} %"
            return (name, self._error_interval(error), change, interval(gap), change_of, chosen)

        rows = [line(self.incumbent, self.error, "-", self.gap, "-", self.selected)]
        for a in self.alternatives:
            g, e = a.gaps[0], a.error_change
            change = self._sizes(e)
            name = f"fairness {a.fairness:.3g}, at your {a.at}"
            rows.append(line(name, a.error, change, g.alternative, interval(g.change), a.selected))
        head = (
            "model",
            self.error_name,
            "change",
            f"largest {self.gap_name}",
            "change",
            "selected",
        )
        return head, tuple(rows)

    def _gaps_table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = [
            (
                f"{g.attribute}, at your {a.at}",
                *(interval(e) for e in (g.incumbent, g.alternative, g.change)),
            )
            for a in self.alternatives
            for g in a.gaps[1:]
        ]
        return (self.gap_name, self.incumbent, "alternative", "change"), tuple(rows)

    def _frontier_table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        step = (len(self.frontier) - 1) / (_SHOWN_POINTS - 1)
        shown = sorted({round(i * step) for i in range(_SHOWN_POINTS)})
        rows = [
            (
                f"{p.fairness:.3g}",
                *(self._error(p.training_error), number(p.training_gap)),
                *(self._error(p.error), number(p.gap)),
            )
            for p in (self.frontier[i] for i in shown)
        ]
        names = [f"{self.error_name}, {{}}", f"{self.gap_name}, {{}}"]
        heads = [name.format(rows_) for rows_ in ("out of fold", "held-out") for name in names]
        return ("fairness", *heads), tuple(rows)

    def __repr__(self) -> str:
        lines = [self._head(), f"  {self._incumbent()}"]
        lines += [f"  {text}" for text in self.sentences[:-2]]
        for a in self.alternatives:
            lines += [
                f"    {g.attribute}, at your {a.at}: {interval(g.incumbent)} to {interval(g.alternative)}, "
                f"change {interval(g.change)}"
                for g in a.gaps[1:]
                if len(a.gaps) > 2
            ]
        lines += [f"  {text}" for text in (*self.sentences[-2:], *self.notes)]
        return "\n".join(inert(line, LONGEST) for line in lines)

    def _repr_html_(self) -> str:
        return to_fragment(self._blocks())


NO_PROOF = (
    "That no better model is found does not prove that none exists: models of one kind were tried, on these "
    "columns and rows. Whether a model that is found can replace the other is for people to judge."
)


def number(value: float) -> str:
    """Three digits, "-" for unknown."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def interval(e: Estimate) -> str:
    """``value (low to high)``."""
    if not math.isfinite(e.low + e.high):
        return number(e.value)
    return f"{number(e.value)} ({number(e.low)} to {number(e.high)})"


def _change(
    name: str, before: str, after: str, change: Estimate, shown: Callable[[Estimate], str]
) -> str:
    """A change in words: "the gap falls from 0.210 to 0.080, by 0.130 (0.090 to 0.170)"."""
    ends = f"from {before} to {after}"
    if not math.isfinite(change.low + change.high):
        return f"{name} goes {ends}, without an interval"
    if change.high < 0.0:
        return (
            f"{name} falls {ends}, by {shown(Estimate(-change.value, -change.high, -change.low))}"
        )
    if change.low > 0.0:
        return f"{name} rises {ends}, by {shown(change)}"
    return f"{name} goes {ends}, not a clear change: {shown(change)}"


def _write(text: str, path: Any) -> str:
    if path is not None:
        with atomic_write(Path(path)) as part:
            part.write_text(text, encoding="utf-8")
    return text
