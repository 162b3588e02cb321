"""Real data with protected attributes, in scikit-learn's `Bunch` form."""

from fairspan.datasets._adult import fetch_adult
from fairspan.datasets._communities import fetch_communities_crime
from fairspan.datasets._compas import fetch_compas
from fairspan.datasets._law_school import fetch_law_school
from fairspan.datasets._nlsy import fetch_nlsy79
from fairspan.datasets._offline import load_diabetes, load_loans

__all__ = [
    "fetch_adult",
    "fetch_communities_crime",
    "fetch_compas",
    "fetch_law_school",
    "fetch_nlsy79",
    "load_diabetes",
    "load_loans",
]
