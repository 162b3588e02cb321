"""Real data with protected attributes, in scikit-learn's `Bunch` form."""

from fairspan.datasets._offline import load_diabetes, load_loans

__all__ = ["load_diabetes", "load_loans"]
