"""Audits: what a model does to groups of people, ours or anybody's."""

from fairspan.auditing._attack import Attack, attack
from fairspan.auditing._audit import Audit, audit
from fairspan.auditing._bound import HeldOutBound, held_out_bound
from fairspan.auditing._dependence import (
    Independence,
    distance_correlation,
    holm,
    independence_test,
)
from fairspan.auditing._findings import SECTIONS, Finding
from fairspan.auditing._kernel_check import KernelCheck, kernel_check
from fairspan.auditing._plot import AuditDisplay
from fairspan.auditing._proxy import Proxy, proxy_component
from fairspan.auditing._rows import Protected

__all__ = [
    "SECTIONS",
    "Attack",
    "Audit",
    "AuditDisplay",
    "Finding",
    "HeldOutBound",
    "Independence",
    "KernelCheck",
    "Protected",
    "Proxy",
    "attack",
    "audit",
    "distance_correlation",
    "held_out_bound",
    "holm",
    "independence_test",
    "kernel_check",
    "proxy_component",
]
