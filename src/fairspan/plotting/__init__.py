"""Plots for papers and notebooks (extra: matplotlib).

Displays in scikit-learn's style: ``from_estimator``, ``from_path`` and the like compute and draw,
the constructor takes plain numbers, ``plot`` draws again. Sizes and fonts fit a column of a paper.
Colours are distinct for every kind of colour vision, and dashes and markers differ too. The display
of an audit is ``fairspan.auditing.AuditDisplay``.
"""

from fairspan.plotting.angles import SubspaceAngleDisplay
from fairspan.plotting.group_displays import GroupDistributionDisplay
from fairspan.plotting.path_displays import PriceDisplay, TradeoffDisplay
from fairspan.plotting.style import COLOURS, DASHES, MARKERS, plain_label, require_pyplot

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "GroupDistributionDisplay",
    "PriceDisplay",
    "SubspaceAngleDisplay",
    "TradeoffDisplay",
    "plain_label",
    "require_pyplot",
]
