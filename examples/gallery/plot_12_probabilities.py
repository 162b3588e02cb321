"""
How do I get probabilities from a fair model?
=============================================

A randomised ensemble does not estimate the probability of a class; it returns the probability of its
own decision (`fairlearn 5 <https://github.com/fairlearn/fairlearn/issues/5>`__,
`fairlearn 65 <https://github.com/fairlearn/fairlearn/issues/65>`__), it may differ from call to call
(`fairlearn 1261 <https://github.com/fairlearn/fairlearn/issues/1261>`__), and calibrating it
afterwards is not obvious (`fairlearn 1318 <https://github.com/fairlearn/fairlearn/issues/1318>`__).
``FairGPClassifier`` is one function with a likelihood: the same row gets the same probability, and
its calibration can be checked. ``FairGPRegressor`` gives intervals.

Simulated rows: the group shifts one feature, and the true probability is known.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from fairspan import FairGPClassifier, FairGPRegressor
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS


def draw(n, seed):
    """Features, the latent risk, and the group."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    X = rng.normal(size=(n, 4))
    X[:, 0] += 1.2 * (group == "b")
    risk = X[:, 0] + 1.5 * np.sin(X[:, 1]) + 0.5 * X[:, 2] - 0.5
    return X, risk, rng.random(n) < expit(risk), risk + rng.normal(size=n), group


def calibration_error(label, predicted, bins=15):
    """Mean distance of probability and observed share, over bins of equally many rows."""
    parts = np.array_split(np.argsort(predicted), bins)
    return np.mean([abs(label[rows].mean() - predicted[rows].mean()) for rows in parts])


X, _, label, number, s = draw(4000, seed=0)
X_new, risk_new, label_new, number_new, s_new = draw(10000, seed=1)

# %%
# Two ends of the dial, on new rows.

model = FairGPClassifier(random_state=0).fit(X, label, sensitive_features=s)
noise = correlation_noise(len(X_new), len(X))
chance, brier, corr, error = {}, {}, {}, {}
for fairness in (0.0, 1.0):
    at = model.at(fairness)
    chance[fairness] = at.predict_proba(X_new)[:, 1]
    brier[fairness] = brier_score_loss(label_new, chance[fairness])
    score = at.decision_function(X_new)
    corr[fairness] = statistical_parity_correlation(score, sensitive_features=s_new)
    error[fairness] = calibration_error(label_new, chance[fairness])
    values = f"Brier {brier[fairness]:.3f}, calibration error {error[fairness]:.3f}"
    print(f"fairness {fairness:g}: {values}, |corr| {corr[fairness]:.3f} (noise {noise:.3f})")
best = calibration_error(label_new, expit(risk_new))
print(f"calibration error of the true probabilities, which is sampling noise: {best:.3f}")
same = np.array_equal(model.predict_proba(X_new)[:, 1], chance[1.0])
print("the same row gets the same probability:", same)

# %%
# Over all rows the fair probabilities are close to calibrated: of those with a probability of 70 %,
# about 70 % have the label. By group they are not, and cannot be: groups of different base rates get
# scores of the same mean.

_, axes = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained", sharey=True)
gap = {}
for ax, fairness in zip(axes, (0.0, 1.0), strict=True):
    ax.plot([0, 1], [0, 1], color="0.6", lw=0.8)
    for i, name in enumerate(("all", "a", "b")):
        rows = np.full(len(s_new), True) if name == "all" else s_new == name
        predicted = chance[fairness][rows]
        share, mean = calibration_curve(label_new[rows], predicted, n_bins=10, strategy="quantile")
        gap[fairness, name] = np.mean(label_new[rows]) - np.mean(predicted)
        ax.plot(
            mean,
            share,
            "o^s"[i] + "-",
            color=COLOURS[i],
            ms=4,
            label=f"{name}: share - mean {gap[fairness, name]:+.3f}",
        )
    ax.set(xlabel="predicted probability")
    ax.set_title(f"fairness {fairness:g}", loc="left", fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share that has the label\n(10,000 new rows)")

# %%
# **Numbers with intervals.** ``subspace="fair"`` puts the prior on all fair functions.

gp = FairGPRegressor(subspace="fair", random_state=0).fit(X, number, sensitive_features=s)
coverage = {}
for fairness in (0.0, 1.0):
    mean, std = gp.at(fairness).predict(X_new, return_std=True)
    coverage[fairness] = np.mean(np.abs(number_new - mean) <= 1.645 * std)
    print(
        f"fairness {fairness:g}: 90 % intervals contain {coverage[fairness]:.1%} of the new numbers"
    )

# %%
# **Not promised.** Calibration by group: calibrated probabilities have the base rate of a group as
# their mean, so they cannot have equal means where base rates differ. The intervals have their nominal
# coverage on average over all rows, not in each group.
