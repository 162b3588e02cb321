"""Fairness metrics of scores and decisions, and scikit-learn scorers made of them.

On real-valued scores f (METHOD 10): correlations with the protected attribute S, which is how the
paper measures fairness, the correlation ratio, and the Kolmogorov distance between groups. On
decisions: fairlearn's gaps, which are different quantities and may be large at correlation 0; impact
ratios, shortfalls and tests of selection rates, as rules about employment and lending count them.
For misclassification and RMSE use scikit-learn.

Common to all: ``sensitive_features`` may hold several attributes of any type (list, array, mapping,
pandas or polars); the result is the worst over them, and :func:`by_attribute` gives each. Scores
may have several columns, one per class; the result is the worst over them. The correlations and
distances of a constant score are 0; a constant S is an error. Weight k is k copies of a row.
pandas objects are matched by their index: rows are put into the order of the scores or decisions.
"""

from fairspan.metrics.decisions import (
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
    selection_rates,
)
from fairspan.metrics.groups import correlation_noise
from fairspan.metrics.impact import (
    SelectionTest,
    adverse_impact_ratios,
    scoring_rate_ratios,
    scoring_rates,
    selection_shortfalls,
    selection_tests,
    standardized_mean_differences,
)
from fairspan.metrics.scorers import by_attribute, fairness_scorer
from fairspan.metrics.scores import (
    correlation_ratio,
    equal_opportunity_correlation,
    equalized_odds_correlation,
    ks_distance,
    statistical_parity_correlation,
)

__all__ = [
    "SelectionTest",
    "adverse_impact_ratios",
    "by_attribute",
    "correlation_noise",
    "correlation_ratio",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_correlation",
    "equal_opportunity_difference",
    "equalized_odds_correlation",
    "equalized_odds_difference",
    "fairness_scorer",
    "ks_distance",
    "scoring_rate_ratios",
    "scoring_rates",
    "selection_rates",
    "selection_shortfalls",
    "selection_tests",
    "standardized_mean_differences",
    "statistical_parity_correlation",
]
