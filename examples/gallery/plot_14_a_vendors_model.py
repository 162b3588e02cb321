"""
The model is a vendor's and cannot be trained again. Can it be made fair?
=========================================================================

fairlearn's ``ThresholdOptimizer(prefit=True)`` corrects a fitted model
(`fairlearn 614 <https://github.com/fairlearn/fairlearn/pull/614>`__), but it reads the protected
attribute of everyone it decides on, which is often unknown or may not be used
(`fairlearn 1008 <https://github.com/fairlearn/fairlearn/pull/1008>`__).

``FairPostprocessor(model)`` learns a correction from rows with y and S that the model was not trained on.
It predicts S from X, and subtracts what that explains of the model's score. New people need X alone.

Simulated rows, where the truth is known: two groups, columns that differ between them, and outcomes that
favour one group beyond what the columns say. The vendor's model is a random forest behind a function.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from fairspan import FairPostprocessor
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS, GroupDistributionDisplay


def people(n, seed):
    """Rows, outcomes and groups."""
    rng = np.random.default_rng(seed)
    s = np.where(rng.random(n) < 0.4, "b", "a")
    X = rng.normal(size=(n, 5)) + 0.7 * (s == "b")[:, None] * [1, 1, 1, 0, 0]
    gain = X.sum(axis=1) + X[:, 0] * X[:, 1] + 1.0 * (s == "b") + rng.normal(size=n)
    return pd.DataFrame(X, columns=list("abcde")), np.where(gain > 1.4, "yes", "no"), s


X_vendor, y_vendor, s_vendor = people(2000, seed=0)
trees = RandomForestClassifier(30, random_state=0).fit(X_vendor, y_vendor)


def vendor(rows):
    """All that we can call: a score for each row of a table."""
    return trees.predict_proba(rows)[:, 1]


# %%
# We have 2,000 rows of our own with outcomes and groups. The function gets them as a frame, as the vendor
# expects them; a fitted scikit-learn model can be passed as it is. The predictor of S can be any learner.

X, y, s = people(2000, seed=1)
X_new, y_new, s_new = people(8_000, seed=2)
model = FairPostprocessor(vendor, sensitive_estimator=LogisticRegression(), random_state=0)
model.fit(X, y, sensitive_features={"group": s})
print("predict" + str(inspect.signature(model.predict)))

noise = correlation_noise(len(X_new), len(X))
corr = {"vendor": statistical_parity_correlation(vendor(X_new), sensitive_features=s_new)}
accuracy = {"vendor": trees.score(X_new, y_new)}
for fairness in (0.0, 1.0):
    at = model.at(fairness)
    score = at.decision_function(X_new)
    corr[fairness] = statistical_parity_correlation(score, sensitive_features=s_new)
    accuracy[fairness] = at.score(X_new, y_new)
for name, value in corr.items():
    print(f"{name}: |corr| {value:.3f}, accuracy {accuracy[name]:.3f}")
print(f"Chance alone, also that of the calibration rows, gives a |corr| of about {noise:.3f}.")

# %%
# The scores of the groups before and after the correction.

_, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
for ax, fairness in zip(axes, (0.0, 1.0), strict=True):
    at = model.at(fairness)
    GroupDistributionDisplay.from_estimator(at, X_new, sensitive_features={"group": s_new}, ax=ax)
    ax.set_title(f"fairness {fairness:.0f}", loc="left", fontsize=9)

# %%
# **Which rows?** Rows that the model was trained on are the wrong ones: it knows their outcomes, so its
# scores differ between groups as the outcomes do, and not as for new people. A correction that is learnt
# there is the wrong one. Five models of the vendor, with calibration rows of each kind:

left = {"rows of the training": [], "other rows": []}
for seed in range(5):
    X_old, y_old, s_old = people(2000, seed=100 + seed)
    trees = RandomForestClassifier(30, random_state=0).fit(X_old, y_old)
    kinds = (X_old, y_old, s_old), people(2000, seed=200 + seed)
    for name, (table, target, group) in zip(left, kinds, strict=True):
        post = FairPostprocessor(vendor, sensitive_estimator=LogisticRegression(), random_state=0)
        score = post.fit(table, target, sensitive_features=group).decision_function(X_new)
        left[name].append(np.corrcoef(score, s_new == "b")[0, 1])
for name, values in left.items():
    print(f"{name}: corr {np.mean(values):+.3f}, from {min(values):+.3f} to {max(values):+.3f}")

_, ax = plt.subplots(figsize=(5.2, 2.2), layout="constrained")
ax.axvspan(-noise, noise, color="0.92", label="within sampling noise")
for place, (values, colour) in enumerate(zip(left.values(), COLOURS, strict=False)):
    ax.plot(values, np.full(5, place), "o", color=colour, ms=5)
ax.set(yticks=range(2), yticklabels=list(left), ylim=(-0.6, 1.6), xlabel="corr on new rows")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8)

# %%
# **Not promised.** The correction cannot make the vendor's model more accurate than it is, and it costs
# accuracy where X predicts S weakly. It holds for people like the calibration rows: if the vendor changes
# the model, or the applicants change, fit again on new rows.
