"""Certificates: exact bounds, on the training rows, for all functions of the model space (METHOD 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairspan._html import certificate_html
from fairspan._system import printable
from fairspan.method.decision_certificate import DecisionCertificate
from fairspan.method.linalg import Array


@dataclass(frozen=True, kw_only=True)
class BlockCertificate:
    """Certificate for one attribute in one cell.

    Attributes
    ----------
    cell, attribute : str
        Names of the cell and of the attribute.
    coding : {"levels", "slices", "value", "none"}
        Codes of the attribute with which correlations are computed; "none" if the cell has too few
        rows of each level.
    constrained : bool
        Whether the criterion removes these codes; otherwise they are only reported.
    supremum : float
        Largest multiple correlation with the codes, over all functions of the model space.
    score : float
        Multiple correlation of the fitted score with the codes, the largest over outputs.
    n_rows : int
        Number of rows of the cell that the block uses.
    n_removed, n_codes : int
        Number of directions that are removed, and that the codes have.
    left_out : tuple of str
        Categories with too few rows or too little weight in the cell; the certificate does not
        cover them.
    n_slices : int
        Number of slices of a continuous attribute over all rows; 0 for other codings.
    n_merged : int
        Number of slices with too few rows in the cell. Each is merged with a neighbour, and differences
        between merged slices are neither removed nor part of ``supremum``.
    n_equivalent : float or None
        For groups that are known as probabilities: number of rows with a known group that would tell as much
        about the difference that is hardest to see. None if groups are known.
    """

    cell: str
    attribute: str
    coding: str
    constrained: bool
    supremum: float
    score: float
    n_rows: int
    n_removed: int
    n_codes: int
    left_out: tuple[str, ...] = ()
    n_slices: int = 0
    n_merged: int = 0
    n_equivalent: float | None = None


@dataclass(frozen=True, kw_only=True)
class MissingSensitive:
    """A protected attribute that some rows do not have.

    Attributes
    ----------
    attribute : str
    n_known, n_rows : int
        Rows with the attribute, and all rows.
    share : float
        Share of the weight of the rows with the attribute.
    correlation : float or None
        Out-of-fold correlation of having the attribute with what X predicts of it; None without folds.
    p_value : float or None
        Of the test that having the attribute does not depend on X, at least 0.0005; None without folds.
    """

    attribute: str
    n_known: int
    n_rows: int
    share: float
    correlation: float | None
    p_value: float | None

    @property
    def test(self) -> str:
        """Result of the test, in words; empty if there is none."""
        if self.p_value is None:
            return ""
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-3 else "p < 0.001"
        return f"{p}, out-of-fold correlation {self.correlation:.2f}"

    @property
    def depends_on_x(self) -> bool:
        """Whether the test rejects that having the attribute does not depend on X."""
        return self.p_value is not None and self.p_value < MISSING_LEVEL

    def __str__(self) -> str:
        """Describe how many rows have the attribute, and who they are."""
        text = f"{self.attribute} is known for {self.n_known:,} of {self.n_rows:,} rows"
        if self.p_value is None:
            return f"{text}; without folds, nothing tests whether X predicts which."
        if self.depends_on_x:
            return f"{text}, and X predicts which ({self.test}): all of this is about the people who gave it."
        return f"{text}; X does not predict which ({self.test})."


@dataclass(frozen=True, kw_only=True)
class Direction:
    """A direction of the codes of an attribute, and how much of it is removed.

    Attributes
    ----------
    name : str
        Groups that the direction separates most.
    correlation : float
        Out-of-fold correlation of the direction with what X predicts of it.
    strength : float
        That correlation times the root of the (effective) number of rows.
    weight : float
        Share that is removed at fairness 1, from 0 (kept) to 1.
    reason : str
        Why it is not removed whole; empty if it is.
    """

    name: str
    correlation: float
    strength: float
    weight: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ExpectedDependence:
    """What is expected of the fitted score on new rows, for one attribute in one cell.

    Attributes
    ----------
    cell, attribute, coding, constrained
        As in :class:`BlockCertificate`.
    correlation : float
        Expected multiple correlation of the score with the codes, estimated out of fold.
    signed : float or None
        For one code and one score: the correlation, positive in the direction of the unconstrained model.
    standard_error : float
        Of each component of the correlation.
    low, high : float
        Interval for the correlation; all constrained blocks together have the confidence.
    n_effective : float
        Kish size of the rows with a code.
    directions : tuple of Direction
        Directions of the codes, strongest first; empty for codes that are only reported, and for removal
        on the training rows.
    independent_spread : bool
        The standard error takes code and score as independent (homoscedastic). Their spread together
        was not measured: the fit was a stream or a merge without rows at hand, or the model has several
        scores.
    """

    cell: str
    attribute: str
    coding: str
    constrained: bool
    correlation: float
    signed: float | None
    standard_error: float
    low: float
    high: float
    n_effective: float
    directions: tuple[Direction, ...]
    independent_spread: bool


@dataclass(frozen=True, kw_only=True)
class NewRowsCertificate:
    """What is expected on new rows: rows from the same population that the model was not fitted on.

    Attributes
    ----------
    removal : {"new_rows", "training_rows"}
        Where the model has no dependence at fairness 1.
    blocks : tuple of ExpectedDependence
        One for every cell, attribute and coding.
    confidence : float
        Joint confidence of the intervals of the constrained blocks.
    n_folds : int
        Folds of the out-of-fold estimates.
    """

    removal: str
    blocks: tuple[ExpectedDependence, ...]
    confidence: float
    n_folds: int

    @property
    def correlation(self) -> float:
        """Largest expected correlation of the constrained blocks."""
        return max((b.correlation for b in self.blocks if b.constrained), default=0.0)

    @property
    def low(self) -> float:
        """Lower confidence bound on the largest correlation of the constrained blocks."""
        return max((b.low for b in self.blocks if b.constrained), default=0.0)

    @property
    def high(self) -> float:
        """Upper confidence bound on the correlation in every constrained block."""
        return max((b.high for b in self.blocks if b.constrained), default=0.0)

    def directions_left(self) -> list[str]:
        """Directions that are not removed whole at fairness 1, each with its reason."""
        out = []
        for b in self.blocks:
            where = "" if b.cell == "all rows" else f" in {b.cell}"
            for d in b.directions:
                if d.weight < 1.0:
                    percent = f"{100 * d.weight:.0f} % removed"
                    out.append(f"{b.attribute}{where}, {d.name}: {percent}, {d.reason}")
        return out


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """What is expected of the model on new rows, what holds on the training rows, and the geometry.

    ``new_rows`` estimates the correlation of the fitted score with the protected attributes on rows that
    the model has not seen, with an interval; with ``removal="training_rows"``, from fits without each fold.
    All other statements are exact for the training rows: no
    function of the model space has a larger multiple correlation with the codes than ``supremum``, in any
    constrained cell. A model that has no dependence on its training rows (``removal="training_rows"``)
    keeps some on new rows. Most of it is a bias: what X predicts of S on the training rows is partly noise,
    so less is removed on new rows; the bias grows with the degrees of freedom per training row. Zero
    correlation with level indicators means equal group means, not equal distributions.

    Attributes
    ----------
    criterion : str
        Full name of the criterion.
    fairness, dial : float, str
        Dial value, and the scale on which it was given.
    blocks : tuple of BlockCertificate
        One for every cell, attribute and coding of the attribute.
    cosines : ndarray of shape (d,)
        Principal cosines between F and G (the paper's sigma).
    angles : ndarray of shape (d,)
        Angles of the model space to F at this dial value.
    containment_gap : float
        How far the model space reaches out of F, ``max |sin a_i|``.
    accuracy_gap : float
        How much of G the model space lost, ``max |sin(theta_i - a_i)|``.
    n_functions : int
        Dimension of the model space.
    limits : dict or None
        Largest correlation that was requested, by attribute, if attributes have separate limits.
        ``fairness`` then expresses the angle of the model to F on the angle scale; the model itself is
        not that of any dial value.
    new_rows : NewRowsCertificate or None
        What is expected on new rows; None if it cannot be estimated.
    no_estimate : str
        Why ``new_rows`` is None.
    decisions : DecisionCertificate or None
        Rates of decisions by group, for ``equalize="decisions"``. The other statements are then about the
        score, which is not made fair.
    privacy : str
        For ``epsilon_sensitive``: what holds about the protected attributes. All numbers that use them,
        numbers of rows of groups included, then come from sums with noise, and none is exact.
    missing : tuple of MissingSensitive
        Protected attributes that some rows do not have; statements about them are about the rows that do.
    """

    criterion: str
    fairness: float
    dial: str
    blocks: tuple[BlockCertificate, ...]
    cosines: Array
    angles: Array
    containment_gap: float
    accuracy_gap: float
    n_functions: int
    limits: dict[str, float] | None = None
    new_rows: NewRowsCertificate | None = None
    no_estimate: str = ""
    decisions: DecisionCertificate | None = None
    privacy: str = ""
    missing: tuple[MissingSensitive, ...] = ()

    @property
    def supremum(self) -> float:
        """Largest supremum of the constrained blocks: the bound that holds for the whole model space."""
        return max((b.supremum for b in self.blocks if b.constrained), default=0.0)

    @property
    def score(self) -> float:
        """Largest multiple correlation of the fitted score in the constrained blocks."""
        return max((b.score for b in self.blocks if b.constrained), default=0.0)

    def merged_slices(self) -> list[str]:
        """List attributes and cells with merged slices, each with the number of merged slices."""
        out = []
        for b in self.blocks:
            if b.n_merged:
                empty = b.n_slices - b.n_merged - (b.n_codes + 1)
                rest = f"; {empty} more without rows" if empty else ""
                out.append(f"{b.attribute} in {b.cell} ({b.n_merged} of {b.n_slices}{rest})")
        return out

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers, strings and lists that can be written as JSON."""
        out = asdict(self)
        out["blocks"] = [{**asdict(b), "left_out": list(b.left_out)} for b in self.blocks]
        out["missing"] = [asdict(m) for m in self.missing]
        out["cosines"], out["angles"] = self.cosines.tolist(), self.angles.tolist()
        if self.new_rows is not None:
            for block in out["new_rows"]["blocks"]:
                block["directions"] = list(block["directions"])
            out["new_rows"]["blocks"] = list(out["new_rows"]["blocks"])
        if self.decisions is not None:
            out["decisions"] = self.decisions.to_dict()
        return out

    def _lines(self) -> list[tuple[str, ...]]:
        """Header and lines of the table."""
        if self.new_rows is None:
            return [_HEADER, *(_line(block) for block in self.blocks)]
        expected = {(b.cell, b.attribute, b.coding): b for b in self.new_rows.blocks}
        level = f"at most ({100 * self.new_rows.confidence:.0f} %)"
        lines: list[tuple[str, ...]] = [(*_HEADER[:3], "new rows", level, *_HEADER[3:])]
        for block in self.blocks:
            line, found = _line(block), expected.get((block.cell, block.attribute, block.coding))
            numbers = (
                ("?", "?") if found is None else (_shown(found.correlation), _shown(found.high))
            )
            lines.append((*line[:3], *numbers, *line[3:]))
        return lines

    def table(self) -> str:
        """Format a table with one line per cell, attribute and coding."""
        rows = self._lines()
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        # A line break in a name would add a line to the table.
        return "\n".join(printable(line, keep="").rstrip() for line in lines)

    def __str__(self) -> str:
        """Describe what holds, where nothing is guaranteed, and the table."""
        constrained = {(b.cell, b.attribute) for b in self.blocks if b.constrained}
        others = {(b.cell, b.attribute) for b in self.blocks} - constrained
        setting = f"fairness {self.fairness:g} on the {self.dial} dial"
        if self.limits is not None:
            limits = ", ".join(f"{name} {limit:g}" for name, limit in self.limits.items())
            setting = f"limits on correlations ({limits})"
        lines = [f"{self.criterion}, {setting}:"]
        if self.decisions is not None:
            lines += [*str(self.decisions).splitlines(), "The score itself, before the rule:"]
        lines += self._new_rows_sentences()
        if self.privacy:
            lines.append(
                f"{self.privacy} Every number about them, sizes of groups included, has noise; none is exact."
            )
        else:
            lines.append(
                f"Training rows: no function of the model space correlates with a constrained attribute by "
                f"more than {_shown(self.supremum).removeprefix('<')}."
            )
        if self.no_estimate:
            lines.append(f"New rows: no estimate, because {self.no_estimate}.")
        if self.n_functions == 0:
            lines[1:] = ["The model space is empty: only the mean of y is left to predict."]
        if others:
            lines.append(
                f"NOT constrained, too few rows or no variation: "
                f"{', '.join(f'{a} in {c}' for c, a in sorted(others))}."
            )
        left_out = sorted(
            {f"{b.attribute}={v} in {b.cell}" for b in self.blocks for v in b.left_out}
        )
        if left_out:
            lines.append(f"NOT covered, too few rows or too little weight: {', '.join(left_out)}.")
        if merged := self.merged_slices():
            lines.append(
                f"Slices MERGED, too few rows: {', '.join(merged)}. Differences between merged slices are "
                f"not removed and not counted above."
            )
        lines += [f"S is MISSING: {each}" for each in self.missing]
        lines += self._probability_sentences()
        fewer = any(b.constrained and b.n_removed < b.n_codes for b in self.blocks)
        on_training_rows = self.new_rows is None or self.new_rows.removal == "training_rows"
        if fewer and on_training_rows and self.limits is None:  # separate limits apply to all codes
            lines.append("Not all directions are removed; n_sensitive_directions='all' reaches 0.")
        return "\n".join([*(printable(line, keep="") for line in lines), self.table()])

    __repr__ = __str__

    def _probability_sentences(self) -> list[str]:
        """How much the probabilities of groups tell, and what has to hold for that."""
        given = [b for b in self.blocks if b.n_equivalent is not None]
        if not given:
            return []
        each = [
            f"{b.attribute}{'' if b.cell == 'all rows' else f' in {b.cell}'}: {b.n_rows:,} rows with "
            f"probabilities tell as much as {b.n_equivalent:,.0f} with a known group"
            for b in given
        ]
        return [
            f"Groups known as PROBABILITIES ({'; '.join(each)}). All numbers are about the true groups, if "
            f"the probabilities are calibrated and the features depend on them only through the group."
        ]

    def _new_rows_sentences(self) -> list[str]:
        """What is expected on new rows, and which directions are not removed."""
        found = self.new_rows
        if found is None:
            return []
        lines = [
            f"New rows, estimated out of fold: the score is expected to correlate with a constrained "
            f"attribute by {_shown(found.correlation)}, and by at most {_shown(found.high)} "
            f"({100 * found.confidence:.0f} % confidence)."
        ]
        if found.removal == "training_rows":
            lines.append(
                "This is an estimate for new people. The model removes the dependence that its training "
                "rows show, which leaves a bias on other rows."
            )
        if any(b.constrained and b.independent_spread for b in found.blocks):
            lines.append(
                "Standard errors are homoscedastic: they take the score and the attribute as independent, "
                "because no rows were at hand, or the model has several scores."
            )
        if left := found.directions_left():
            more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            lines.append(f"NOT removed whole: {'; '.join(left[:_NAMED])}{more}.")
        return lines

    def _repr_html_(self) -> str:
        sentences = str(self).removesuffix(self.table()).splitlines()[1:]
        return certificate_html(self, self._lines(), sentences)


# p-values below this one reject that S is missing at random.
MISSING_LEVEL = 0.01
# Directions listed in a sentence.
_NAMED = 5
_HEADER = ("cell", "attribute", "compared by", "worst case", "fitted", "removed", "rows")

_COMPARED = {"levels": "group means", "slices": "slice means", "value": "linear", "none": "-"}


def _line(block: BlockCertificate) -> tuple[str, ...]:
    name = _COMPARED[block.coding]
    if block.n_merged:
        name = f"means of {block.n_codes + 1} of {block.n_slices} slices"
    if not block.constrained:
        name = "not constrained" if block.coding == "none" else f"{name} (reported)"
    known = block.coding != "none"
    return (
        block.cell,
        block.attribute,
        name,
        _shown(block.supremum) if known else "?",
        _shown(block.score) if known else "?",
        f"{block.n_removed} of {block.n_codes}" if block.constrained else "-",
        str(block.n_rows),
    )


def _shown(correlation: float) -> str:
    """Format with three digits; values below rounding are shown as "<1e-10", not as noise."""
    if correlation < 1e-10:
        return "<1e-10"
    return f"{correlation:.3f}" if correlation >= 1e-3 else f"{correlation:.1e}"
