"""Certificates: exact limits, on the training rows, for all functions of the model space (METHOD 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.linalg

from fairspan._html import certificate_html
from fairspan._system import printable
from fairspan.method.linalg import Array, psd_eigh

__all__ = ["BlockCertificate", "Certificate", "supremum"]


def supremum(cov: Array, delta: Array) -> tuple[float, Array]:
    """Largest multiple correlation with the codes over a space, and the function attaining it.

    ``sup_h R(h)^2 = lambda_max(E'Delta Delta'E, E'Sig E)`` on the eigenspace of ``E'Sig E`` above
    1e-12 of its largest eigenvalue. ``cov`` and ``delta`` are given in the coordinates of E.
    """
    d = len(cov)
    if d == 0 or delta.shape[1] == 0:
        return 0.0, np.zeros(d)
    if d == 1:  # the usual case: one function, its own multiple correlation
        variance = float(cov[0, 0])
        if variance <= 0.0:
            return 0.0, np.zeros(1)
        return float(min(np.linalg.norm(delta) / np.sqrt(variance), 1.0)), np.array(
            [variance**-0.5]
        )
    values, vectors = psd_eigh((cov + cov.T) / 2.0)
    keep = values > 1e-12 * values[0]
    if values[0] <= 0.0 or not keep.any():
        return 0.0, np.zeros(d)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    left, singular, _ = scipy.linalg.svd(whiten.T @ delta, full_matrices=False)
    return float(min(singular[0], 1.0)), np.asarray(whiten @ left[:, 0])


@dataclass(frozen=True)
class BlockCertificate:
    """One cell and one attribute.

    Attributes
    ----------
    cell, attribute : names.
    coding : "levels", "slices" or "value": which codes of the attribute the correlation is with;
        "none" where the cell has too few rows of each level to say anything.
    constrained : the criterion removes these codes (otherwise reported only).
    supremum : largest multiple correlation with the codes over every function of the model space.
    score : the same for the fitted score (largest over outputs).
    n_rows : rows of the cell that the block uses.
    n_removed, n_codes : directions removed, and directions the codes have.
    left_out : categories with too few rows or too little weight in the cell, about which nothing is
        promised.
    n_slices : slices of a continuous attribute over all rows; 0 for other codings.
    n_merged : slices with too few rows in the cell. Each is merged with a neighbour, and differences
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


@dataclass(frozen=True, repr=False)
class Certificate:
    """In-sample promises about the model space, with the geometry behind them.

    They are exact statements about the training rows: no function of the model space has a larger
    multiple correlation with the codes than ``supremum``, in any constrained cell. On new rows some
    dependence remains, mostly as a bias: the fit removes what X predicts of S on the training rows,
    noise included, which is less on new rows. It grows with the degrees of freedom per training row.
    Chance adds about ``1/sqrt(n_test) + 1/sqrt(n_train)``. Zero correlation with level indicators means
    equal group means, not equal distributions.

    Attributes
    ----------
    criterion : str
        Full name of the criterion.
    fairness, dial : float, str
        Dial value, and the scale it was read on.
    blocks : tuple of BlockCertificate
        One for every cell, attribute and coding of it.
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
        Largest correlation asked for, by attribute, where each has a limit of its own. ``fairness`` is
        then the angle of the model to F, as the angle scale would count it; no dial value gives it.
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
        """The largest constrained supremum: what the whole model space is certified to."""
        return max((b.supremum for b in self.blocks if b.constrained), default=0.0)

    @property
    def score(self) -> float:
        """The largest constrained multiple correlation of the fitted score."""
        return max((b.score for b in self.blocks if b.constrained), default=0.0)

    def merged_slices(self) -> list[str]:
        """Attributes and cells with merged slices, each with the number of slices merged."""
        out = []
        for b in self.blocks:
            if b.n_merged:
                empty = b.n_slices - b.n_merged - (b.n_codes + 1)
                rest = f"; {empty} more without rows" if empty else ""
                out.append(f"{b.attribute} in {b.cell} ({b.n_merged} of {b.n_slices}{rest})")
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON."""
        out = asdict(self)
        out["blocks"] = [{**asdict(b), "left_out": list(b.left_out)} for b in self.blocks]
        out["cosines"], out["angles"] = self.cosines.tolist(), self.angles.tolist()
        return out

    def table(self) -> str:
        """Readable table, one line per cell and attribute."""
        rows = [_HEAD, *(_line(block) for block in self.blocks)]
        widths = [max(len(r[i]) for r in rows) for i in range(len(_HEAD))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        # A line break in a name would forge a line.
        return "\n".join(printable(line, keep="").rstrip() for line in lines)

    def __str__(self) -> str:
        """What is promised, where it is not, and the table."""
        used = {(b.cell, b.attribute) for b in self.blocks if b.constrained}
        every = {(b.cell, b.attribute) for b in self.blocks}
        place = f"fairness {self.fairness:g} on the {self.dial} dial"
        if self.limits is not None:
            limits = ", ".join(f"{name} {limit:g}" for name, limit in self.limits.items())
            place = f"limits on correlations ({limits})"
        lines = [
            f"{self.criterion}, {place}, training rows:",
            f"no function of the model space correlates with a constrained attribute by more than "
            f"{_shown(self.supremum).removeprefix('<')}.",
        ]
        if self.n_functions == 0:
            lines[1] = "the model space is empty: only the mean of y is left to predict."
        if used != every:
            lines.append(
                f"NOT constrained, too few rows or no variation: "
                f"{', '.join(f'{a} in {c}' for c, a in sorted(every - used))}."
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
        if fewer and self.limits is None:  # limits know of all codes
            lines.append("Not all directions are removed; n_sensitive_directions='all' reaches 0.")
        return "\n".join([*(printable(line, keep="") for line in lines), self.table()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        words = str(self).removesuffix(self.table()).splitlines()[1:]
        return certificate_html(self, [_HEAD, *(_line(block) for block in self.blocks)], words)


_HEAD = ("cell", "attribute", "compared by", "worst case", "fitted", "removed", "rows")

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
    """Three digits; what is zero up to rounding says so instead of showing its noise."""
    if correlation < 1e-10:
        return "<1e-10"
    return f"{correlation:.3f}" if correlation >= 1e-3 else f"{correlation:.1e}"
