"""Certificates: exact bounds, on the training rows, for all functions of the model space (METHOD 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairspan._html import certificate_html
from fairspan._system import printable
from fairspan.method.linalg import Array
from fairspan.method.subspaces import supremum

__all__ = ["BlockCertificate", "Certificate", "supremum"]


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


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """What holds for the model on the training rows, and the geometry behind it.

    The statements are exact for the training rows: no function of the model space has a larger multiple
    correlation with the codes than ``supremum``, in any constrained cell. On new rows some dependence
    remains. Most of it is a bias: the fit removes what X predicts of S on the training rows, which is
    partly noise, and removes less on new rows. The bias grows with the degrees of freedom per training
    row. Chance adds about ``1/sqrt(n_test) + 1/sqrt(n_train)``. Zero correlation with level indicators
    means equal group means, not equal distributions.

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
        out["cosines"], out["angles"] = self.cosines.tolist(), self.angles.tolist()
        return out

    def table(self) -> str:
        """Format a table with one line per cell, attribute and coding."""
        rows = [_HEADER, *(_line(block) for block in self.blocks)]
        widths = [max(len(r[i]) for r in rows) for i in range(len(_HEADER))]
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
        lines = [
            f"{self.criterion}, {setting}, training rows:",
            f"no function of the model space correlates with a constrained attribute by more than "
            f"{_shown(self.supremum).removeprefix('<')}.",
        ]
        if self.n_functions == 0:
            lines[1] = "the model space is empty: only the mean of y is left to predict."
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
        fewer = any(b.constrained and b.n_removed < b.n_codes for b in self.blocks)
        if fewer and self.limits is None:  # separate limits apply to all codes
            lines.append("Not all directions are removed; n_sensitive_directions='all' reaches 0.")
        return "\n".join([*(printable(line, keep="") for line in lines), self.table()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sentences = str(self).removesuffix(self.table()).splitlines()[1:]
        return certificate_html(
            self, [_HEADER, *(_line(block) for block in self.blocks)], sentences
        )


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
