"""Audits of models: gaps between groups, tests, attacks and bounds, for fairspan and other models."""

from fairspan.auditing.alternatives import alternatives
from fairspan.auditing.alternatives_result import (
    Alternative,
    Alternatives,
    FrontierPoint,
    GapComparison,
)
from fairspan.auditing.any_classifier import AnyClassifier, CellGap, CellShare
from fairspan.auditing.attackers import Attack, attack
from fairspan.auditing.cross_fit import KernelCheck, kernel_check
from fairspan.auditing.findings import SECTIONS, Finding
from fairspan.auditing.independence import Independence, holm, independence_test
from fairspan.auditing.model_space import HeldOutBound, held_out_bound
from fairspan.auditing.plot import AuditDisplay
from fairspan.auditing.proxy import Proxy, proxy_component
from fairspan.auditing.reading import Protected
from fairspan.auditing.results import Audit, audit
from fairspan.auditing.scores import distance_correlation

__all__ = [
    "SECTIONS",
    "Alternative",
    "Alternatives",
    "AnyClassifier",
    "Attack",
    "Audit",
    "AuditDisplay",
    "CellGap",
    "CellShare",
    "Finding",
    "FrontierPoint",
    "GapComparison",
    "HeldOutBound",
    "Independence",
    "KernelCheck",
    "Protected",
    "Proxy",
    "alternatives",
    "attack",
    "audit",
    "distance_correlation",
    "held_out_bound",
    "holm",
    "independence_test",
    "kernel_check",
    "proxy_component",
]
