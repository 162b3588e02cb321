"""A table of people and the roles of its columns, for tests of the report."""

import numpy as np
import pandas as pd

from fairspan.report.packing import unpack
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


def whole_study(stored):
    """The study of a page, from what the page stores."""
    out = stored | {"scatter": dict(stored["scatter"])}
    out |= _whole_side(out, len(out["fairness"]))
    if out["other"]:
        out["other"] |= _whole_side(out["other"], len(out["fairness"]))
        del out["other"]["code"]
    del out["code"]
    return out


def _whole_side(side, n):
    before, after = side["code"]  # stored once for all positions
    positions = unpack(side["positions"], n)
    for at in positions:
        at["snippet"] = before + at["snippet"] + after
        at |= {part: dict(at[part]) for part in ("scores", "rates", "calibration", "continuous")}
    tradeoff = side["tradeoff"] | {"parity": dict(side["tradeoff"]["parity"])}
    return {"positions": positions, "tradeoff": tradeoff}
