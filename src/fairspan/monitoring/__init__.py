"""Watching a model in use: alarms about groups that hold at any time.

:class:`FairnessMonitor` counts batches of decisions and scores with the groups of the people, which may
come later. It tests stated limits after every person by betting, so that looking often raises no false
alarms.
"""

from fairspan.monitoring.display import FairnessMonitorDisplay
from fairspan.monitoring.groups import Comparison
from fairspan.monitoring.monitor import FairnessMonitor

__all__ = ["Comparison", "FairnessMonitor", "FairnessMonitorDisplay"]
