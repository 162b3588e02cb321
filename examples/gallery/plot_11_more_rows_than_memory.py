"""
More rows than memory holds?
============================

Mitigation that needs the whole X at once runs out of memory on large data, and people ask for
minibatches (`fairlearn 923 <https://github.com/fairlearn/fairlearn/issues/923>`__). fairspan fits from sums
over rows. Sums can be added, so rows may come in blocks, files or from workers, and the model does
not depend on the partition.

The files here are small, so that the page builds in seconds; nothing in the code depends on it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fairspan import FairRidge
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS


def table(n, seed):
    """Simulate the risk of a loan; sex shifts the income, and only the fit reads it."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    income = rng.normal(40 + 8 * male, 12)
    debt = rng.gamma(2.0, 5.0, n)
    home = rng.choice(["own", "rent"], n)
    risk = 60 - income + debt + 5 * (home == "rent") + rng.normal(0, 8, n)
    sex = np.where(male, "m", "f")
    return pd.DataFrame({"sex": sex, "income": income, "debt": debt, "home": home, "risk": risk})


temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
for part in range(6):
    table(4000, seed=part).to_parquet(folder / f"part-{part}.parquet")
new = table(10000, seed=99)

# %%
# Two passes over the files: a sample that fixes categories, landmarks and bandwidth, then the sums.
# An interrupted fit continues from its checkpoint.

roles = {"target": "risk", "sensitive_features": "sex"}
model = FairRidge(n_components=300, alpha=1.0, random_state=0).fit_stream(
    str(folder / "*.parquet"), **roles, checkpoint=folder / "fit.npz"
)
print(f"{model.n_samples_seen_:,} rows; columns {model.encoder_.get_feature_names_out().tolist()}")

# %%
# The same rows, cut into other blocks: the same model.


def blocks(size):
    """A new iterator over all rows, in frames of another size."""
    rows = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])
    return (rows.iloc[i : i + size] for i in range(0, len(rows), size))


other = FairRidge(n_components=300, alpha=1.0, random_state=0)
other.fit_stream(lambda: blocks(1700), **roles)
X_new, s_new = new.drop(columns=["risk", "sex"]), new["sex"]
difference = np.abs(model.predict(X_new) - other.predict(X_new)).max()
print(f"largest difference of a prediction: {difference:.1e}")

# %%
# What do more rows improve? Error and parity on 10,000 new rows, after each file. Only the income
# depends on sex here, so parity costs all the accuracy that income adds.

seen, rmse, corr = [], {0.0: [], 1.0: []}, {0.0: [], 1.0: []}
for part in range(6):
    files = [str(folder / f"part-{i}.parquet") for i in range(part + 1)]
    so_far = FairRidge(n_components=300, random_state=0).fit_stream(files, **roles)
    seen.append(so_far.n_samples_seen_)
    for fairness in (0.0, 1.0):
        score = so_far.at(fairness).predict(X_new)
        rmse[fairness].append(np.sqrt(np.mean((score - new["risk"]) ** 2)))
        corr[fairness].append(statistical_parity_correlation(score, sensitive_features=s_new))
temporary.cleanup()
noise = [correlation_noise(len(new), n) for n in seen]
for fairness in (0.0, 1.0):
    values = f"RMSE {rmse[fairness][-1]:.2f}, |corr| {corr[fairness][-1]:.3f}"
    print(f"fairness {fairness:g}, all files: {values} (noise {noise[-1]:.3f})")

_, axes = plt.subplots(1, 2, figsize=(7.8, 3.0), layout="constrained")
for ax, curves in zip(axes, (rmse, corr), strict=True):
    for i, fairness in enumerate((0.0, 1.0)):
        look = {"marker": "os"[i], "color": COLOURS[i], "label": f"fairness {fairness:g}"}
        ax.plot(seen, curves[fairness], **look)
    ax.set(xlabel="training rows", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
axes[1].fill_between(seen, noise, color="0.92", label="within sampling noise")
axes[0].set_ylabel("RMSE, new rows")
axes[1].set_ylabel("|corr| with sex, new rows")
axes[1].legend(frameon=False, fontsize=8)

# %%
# **Not promised.** Sums weigh all rows alike, so a population that drifts is averaged. A classifier
# with a likelihood reads the rows once or twice more, and keeps the scores of every row. Sums of
# several workers are added in another order and differ by rounding.
