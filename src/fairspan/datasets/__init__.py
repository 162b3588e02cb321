"""Real data with protected attributes, in scikit-learn's `Bunch` form."""

from fairspan.datasets._classification import fetch_adult, fetch_compas
from fairspan.datasets._offline import load_diabetes, load_loans
from fairspan.datasets._regression import fetch_communities_crime, fetch_law_school, fetch_nlsy79
from fairspan.datasets.dictionary import load_dictionary

__all__ = [
    "fetch_adult",
    "fetch_communities_crime",
    "fetch_compas",
    "fetch_law_school",
    "fetch_nlsy79",
    "load_diabetes",
    "load_dictionary",
    "load_loans",
]
