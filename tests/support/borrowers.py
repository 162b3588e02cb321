"""A table of people who repaid or not, for tests of the command line."""

import numpy as np
import pandas as pd


def people(n=240):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    grade = np.select([income > 1.0, income > 0.0], ["high", "mid"], "low")
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "debt": rng.normal(size=n),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
            "grade": grade,
        }
    )
