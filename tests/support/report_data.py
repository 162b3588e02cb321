"""A table of people and the roles of its columns, for tests of the report."""

import numpy as np
import pandas as pd

from fairspan.report.table import Roles


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    return pd.DataFrame(
        {
            "sex": sex,
            "age": rng.integers(20, 80, n),
            "income": income,
            "debt": rng.normal(size=n),
            "job": rng.choice(["cook", "nurse"], n),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
            "amount": income + rng.normal(size=n),
        }
    )


def roles_of(target="repaid", **changed):
    given = {
        "target": target,
        "sensitive": ("sex", "age"),
        "control": (),
        "features": ("income", "debt"),
        "weight": None,
    }
    return Roles(**(given | changed))
