"""
Three sites, one model, no row sent?
====================================

Banks or hospitals may not share rows, and people ask for training where the rows are (`xgboost 5430
<https://github.com/dmlc/xgboost/issues/5430>`__). Training in many rounds needs machines that wait for each
other. fairspan needs sums over rows, so each site sends one file, once. Here the files lie in a folder; any
way to send a file will do.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fairspan import FairRidge, load_pilot
from fairspan.plotting import COLOURS


def table(n, seed, more_income, more_debt):
    """Simulate the risk of a loan; income and debt of men differ from those of women, by site."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    income = rng.normal(40 + more_income * male, 12)
    debt = rng.gamma(2.0, 5.0, n) + more_debt * male
    risk = 60 - income + debt + rng.normal(0, 8, n)
    sex = np.where(male, "m", "f")
    return pd.DataFrame({"sex": sex, "income": income, "debt": debt, "risk": risk})


sites = {
    "north": table(3000, 1, 12, 0),
    "south": table(2000, 2, 8, 2),
    "west": table(1000, 3, 2, 6),
}
features = ["income", "debt"]
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)

# %%
# All sites agree on the ranges of the features. Landmarks are drawn from these ranges and are rows of
# nobody, and so are the rows that the estimator is prepared on.

rng = np.random.default_rng(0)
made_up = pd.DataFrame({"income": rng.uniform(0, 90, 500), "debt": rng.uniform(0, 40, 500)})
pilot = (
    FairRidge(landmarks=made_up.to_numpy()[:30], gamma=5e-3)
    .prepare(
        made_up,
        rng.uniform(0, 100, 500),
        sensitive_features=pd.Series(np.resize(["f", "m"], 500), name="sex"),
        folds="hash",
    )
    .export_pilot(folder / "pilot.npz", public=True)
)

# %%
# At each site: read the pilot, add the rows, write the sums as integers with masks. Each pair of sites
# shares a secret, and the masks cancel in the total.

secrets = {
    frozenset(pair): bytes(rng.bytes(32)) for pair in (("north", "south"), ("north", "west"))
}
secrets[frozenset(("south", "west"))] = bytes(rng.bytes(32))


def send(name, rows, **options):
    """What runs at a site."""
    model = load_pilot(pilot)
    model.partial_fit(rows[features], rows["risk"], sensitive_features=rows[["sex"]], solve=False)
    return model.export_moments(folder / f"{name}.npz", site=name, **options)


masked = [
    send(name, rows, mask_keys={o: secrets[frozenset((name, o))] for o in sites if o != name})
    for name, rows in sites.items()
]
bytes_sent = sum(path.stat().st_size for path in masked)
model = FairRidge.from_moments(masked, pilot=pilot)
print(f"{model.moments_.n_rows:,} rows, {bytes_sent / 1e6:.1f} MB sent in all")

# %%
# The same model as from all rows in one place.

everything = pd.concat(sites.values(), ignore_index=True)
pooled = load_pilot(pilot).partial_fit(
    everything[features], everything["risk"], sensitive_features=everything[["sex"]]
)
score = pooled.predict(everything[features])
difference = np.abs(model.predict(everything[features]) - score).max() / np.abs(score).max()
print(f"largest difference of a prediction: {difference:.1e}")

# %%
# Without masks the coordinator also learns the dependence at each site, from the sums it has anyway.
# Dependence is removed over all sites together. The west differs from the others: men have more debt there.
# So parity over all sites makes the dependence in the west larger.

plain = FairRidge.from_moments([send(name, rows) for name, rows in sites.items()], pilot=pilot)
corr = {f: {one.site: one.correlation for one in plain.at(f).site_dependence_} for f in (0.0, 1.0)}
noise = {one.site: one.by_chance for one in plain.site_dependence_}
temporary.cleanup()

_, ax = plt.subplots(figsize=(5.0, 3.0), layout="constrained")
for i, fairness in enumerate((0.0, 1.0)):
    ax.bar(
        np.arange(3) + 0.35 * i,
        list(corr[fairness].values()),
        0.35,
        color=COLOURS[i],
        label=f"fairness {fairness:g}",
    )
ax.set_xticks(np.arange(3) + 0.175, list(sites))
ax.set_ylabel("|corr| with sex at the site")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8)

# %%
# **Not promised.** Sums hide rows but are not differentially private. Masks need every site; if one drops
# out, the others export again. Parity over all sites is not parity at each site.
