"""What can be promised, in sample and exactly, about every function of the model space (METHOD 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.linalg

from fairspan._linalg import Array, psd_eigh

__all__ = ["BlockCertificate", "Certificate", "supremum"]


def supremum(cov: Array, delta: Array) -> tuple[float, Array]:
    """Largest multiple correlation with the codes over a space, and the function attaining it.

    ``sup_h R(h)^2 = lambda_max(E'Delta Delta'E, E'Sig E)`` on the eigenspace of ``E'Sig E`` above
    1e-12 of its largest eigenvalue. ``cov`` and ``delta`` are given in the coordinates of E.
    """
    d = len(cov)
    if d == 0:
        return 0.0, np.zeros(0)
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
    if len(singular) == 0:
        return 0.0, np.zeros(d)
    return float(min(singular[0], 1.0)), np.asarray(whiten @ left[:, 0])


@dataclass(frozen=True)
class BlockCertificate:
    """One cell and one attribute.

    Attributes
    ----------
    cell, attribute : names.
    coding : "levels", "slices" or "value": which codes of the attribute the correlation is with.
    constrained : the criterion removes these codes (otherwise reported only).
    supremum : largest multiple correlation with the codes over every function of the model space.
    score : the same for the fitted score (largest over outputs).
    n_rows : rows of the cell that the block uses.
    """

    cell: str
    attribute: str
    coding: str
    constrained: bool
    supremum: float
    score: float
    n_rows: int


@dataclass(frozen=True)
class Certificate:
    """In-sample promises about the model space, with the geometry behind them.

    They are exact statements about the training rows: no function of the model space has a larger
    multiple correlation with the codes than ``supremum``, in any cell. On new rows expect sampling
    noise of about ``1/sqrt(n_test) + 1/sqrt(n_train)`` on top. Zero correlation with level
    indicators means equal group means, not equal distributions.

    Attributes
    ----------
    criterion, fairness, dial
        What was asked for.
    blocks : tuple of BlockCertificate
        The promise for every cell and attribute.
    cosines : ndarray of shape (d,)
        Principal cosines between the fair subspace F and the predictive subspace G.
    angles : ndarray
        Angles between the directions of the model space and F; 0 is fair.
    containment_gap : float
        ``max |sin angle|``: how far the model space is from lying in F.
    accuracy_gap : float
        The same from the model space to G.
    """

    criterion: str
    fairness: float
    dial: str
    blocks: tuple[BlockCertificate, ...]
    cosines: Array
    angles: Array
    containment_gap: float
    accuracy_gap: float

    @property
    def supremum(self) -> float:
        """The largest constrained supremum: what the whole model space is certified to."""
        return max((b.supremum for b in self.blocks if b.constrained), default=0.0)

    @property
    def score(self) -> float:
        """The largest constrained multiple correlation of the fitted score."""
        return max((b.score for b in self.blocks if b.constrained), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON."""
        out = asdict(self)
        out["blocks"] = [asdict(block) for block in self.blocks]
        out["cosines"], out["angles"] = self.cosines.tolist(), self.angles.tolist()
        return out

    def table(self) -> str:
        """Readable table, one line per cell and attribute."""
        head = ("cell", "attribute", "codes", "supremum", "score", "rows")
        rows = [
            (
                b.cell,
                b.attribute,
                b.coding + ("" if b.constrained else " (reported)"),
                _shown(b.supremum),
                _shown(b.score),
                str(b.n_rows),
            )
            for b in self.blocks
        ]
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *rows]
        ]
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        """Table and one plain sentence."""
        worst = self.supremum
        return (
            f"{self.table()}\n"
            f"On the training rows no function of the model space correlates with a constrained "
            f"attribute by more than {_shown(worst).removeprefix('<')} in any cell of {self.criterion}."
        )


def _shown(correlation: float) -> str:
    """Three digits; what is zero up to rounding says so instead of showing its noise."""
    if correlation < 1e-10:
        return "<1e-10"
    return f"{correlation:.3f}" if correlation >= 1e-3 else f"{correlation:.1e}"
