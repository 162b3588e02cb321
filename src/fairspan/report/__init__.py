"""Reports: one page with a fairness slider for a table."""

from fairspan.report.page import Report
from fairspan.report.pipeline import explore
from fairspan.report.table import complete_rows, held_out_rows, join_small_groups

__all__ = ["Report", "complete_rows", "explore", "held_out_rows", "join_small_groups"]
