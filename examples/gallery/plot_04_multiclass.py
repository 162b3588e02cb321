"""
Does it work with more than two classes?
========================================

Most mitigation methods are for two classes, and people with three ask for more
(`fairlearn 1201 <https://github.com/fairlearn/fairlearn/issues/1201>`__,
`AIF360 438 <https://github.com/Trusted-AI/AIF360/issues/438>`__,
`AIF360 430 <https://github.com/Trusted-AI/AIF360/issues/430>`__). Here a classifier of K classes has
K - 1 predictive directions, and the constraint is on every function of them, so on the score of
every class at once.

The rows are simulated patients who are seen at once, today, or later. Symptoms do not depend on
the clinic; it shifts a measurement on which the label depends in part.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from fairspan import FairGPClassifier
from fairspan.metrics import by_attribute, correlation_noise
from fairspan.plotting import COLOURS

LEVELS = ["1 at once", "2 today", "3 later"]


def patients(n, seed):
    """Two symptoms and one measurement; the clinic shifts the measurement."""
    rng = np.random.default_rng(seed)
    clinic = rng.choice(["north", "south"], n, p=[0.65, 0.35])
    X = rng.normal(size=(n, 3))
    X[:, 2] += 1.2 * (clinic == "south")
    urgency = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.7 * X[:, 2] + rng.normal(scale=0.5, size=n)
    return X, np.array(LEVELS)[np.digitize(-urgency, [-1.4, -0.2])], clinic


X, y, s = patients(1000, seed=0)
X_new, y_new, s_new = patients(4000, seed=1)

# %%
# ``fit`` is called as for two classes. ``predict_proba`` has one column per class.

model = FairGPClassifier(random_state=0).fit(X, y, sensitive_features=s)
noise = correlation_noise(len(X_new), len(X))
rates, worst, accuracy = {}, {}, {}
for fairness in (0.0, 0.5, 1.0):
    at = model.at(fairness)
    predicted, score = at.predict(X_new), at.decision_function(X_new)
    rates[fairness] = pd.crosstab(s_new, predicted, normalize="index").reindex(columns=LEVELS)
    worst[fairness] = by_attribute(
        "statistical_parity_correlation", score, sensitive_features={"clinic": s_new}
    )["clinic"]
    accuracy[fairness] = accuracy_score(y_new, predicted)
    gap = (rates[fairness].loc["south"] - rates[fairness].loc["north"]).abs().max()
    print(
        f"fairness {fairness}: accuracy {accuracy[fairness]:.3f}, "
        f"worst |corr| of a class score {worst[fairness]:.3f}, largest gap of a rate {gap:.3f}"
    )
print(f"On {len(X_new)} held-out rows chance alone gives a |corr| of about {noise:.3f}.")

# %%
# The mean scores of all three classes are equal up to chance. The shares of decisions become about a
# quarter less different: the largest score decides, not the means.

_, axes = plt.subplots(1, 2, figsize=(7.6, 3.0), layout="constrained", sharey=True)
for ax, fairness in zip(axes, (0.0, 1.0), strict=True):
    for i, clinic in enumerate(("north", "south")):
        n = np.sum(s_new == clinic)
        share = rates[fairness].loc[clinic]
        reach = 1.96 * np.sqrt(share * (1 - share) / n)
        ax.bar(
            np.arange(3) + 0.4 * i - 0.2,
            share,
            0.36,
            yerr=reach,
            capsize=2,
            color=COLOURS[i],
            label=f"{clinic} (n = {n:,})",
        )
    ax.set_xticks(range(3), LEVELS)
    ax.set_title(f"fairness {fairness:g}", loc="left", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of the clinic\n(held-out rows, 95% interval)")
axes[0].set_ylim(0, 0.58)
axes[0].legend(frameon=False, fontsize=8, loc="upper left", ncols=2)

# %%
# The certificate covers all classes: the largest correlation of a function of the model space with
# the clinic, expected on new rows, and its upper bound.

expected = model.certificate_.new_rows
print(
    f"{len(model.angles_)} directions, expected {expected.correlation:.3f}, "
    f"at most {expected.high:.3f} with 95 % confidence"
)

# %%
# **Not promised.** Scores of all classes have equal means by clinic; shares of decisions come
# closer, but need not be equal. Parity makes the shares equal even where patients of one clinic are truly
# more urgent; where that is the case, and the labels can be trusted, ``criterion="equalized_odds"``
# compares patients of the same level instead.
