"""
S is not known for new people. Can the model still be fair?
===========================================================

fairlearn's ``ThresholdOptimizer`` needs the sensitive feature of every new person; its own example
calls that a key limitation
(`fairlearn 1008 <https://github.com/fairlearn/fairlearn/pull/1008>`__). Others ask how to train
without the attribute at all (`AIF360 224 <https://github.com/Trusted-AI/AIF360/issues/224>`__,
`AIF360 235 <https://github.com/Trusted-AI/AIF360/issues/235>`__).

fairspan reads S in ``fit`` only: ``predict`` takes X. This page shows that leaving S out of X is not
enough, what the fit needs S for, and what happens if it is known for some of the training rows only.
Real data: mortgage applications; race is protected and not in X.
"""

import inspect
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from fairspan import FairRidgeClassifier, table_encoder
from fairspan.datasets import load_loans
from fairspan.exceptions import DataWarning
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS, GroupDistributionDisplay

loans = load_loans()
X, X_new, y, y_new, s, s_new = train_test_split(
    loans.data, loans.target, loans.sensitive_features["race"], test_size=0.5, random_state=0
)
s, s_new = (race.where(race == "white", "black or hispanic") for race in (s, s_new))
encoder = table_encoder(X).fit(X)
X, X_new = encoder.transform(X), encoder.transform(X_new)


def correlation_with_race(score):
    """Correlation of a held-out score with race."""
    return statistical_parity_correlation(score, sensitive_features=s_new)


# %%
# At fairness 0 the model does not use race at all; at fairness 1 it uses race in ``fit``.

fair = FairRidgeClassifier(n_components=400, random_state=0).fit(X, y, sensitive_features=s)
unaware = fair.at(0.0)
print("predict" + str(inspect.signature(fair.predict)))
noise = correlation_noise(len(X_new), len(X))
without = correlation_with_race(unaware.decision_function(X_new))
with_it = correlation_with_race(fair.decision_function(X_new))
print(f"S left out of X: |corr| {without:.2f}, accuracy {unaware.score(X_new, y_new):.3f}")
print(f"S used in fit:   |corr| {with_it:.2f}, accuracy {fair.score(X_new, y_new):.3f}")
print(f"On {len(X_new)} held-out rows chance alone gives a |corr| of about {noise:.2f}.")

# %%
# Other columns predict race, so leaving it out does not help.

_, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
names = {"S left out of X": unaware, "S used in fit, not in predict": fair}
for ax, (name, model) in zip(axes, names.items(), strict=True):
    GroupDistributionDisplay.from_estimator(model, X_new, sensitive_features={"race": s_new}, ax=ax)
    ax.set_title(name, loc="left", fontsize=9)

# %%
# **S of some rows only.** With ``missing_sensitive="omit"``, rows without S are used to learn y, and
# are left out of the constraint. The rows with known race are drawn at random, three times. ``fit``
# tests whether X predicts which rows have S, and warns if it does, with a few false alarms. Here we know
# that it does not, so the warning is left out.

shares, left = (0.1, 0.25, 0.5), {}
for share in shares:
    left[share] = []
    for seed in range(3):
        known = np.random.default_rng(seed).random(len(s)) < share
        partly = clone(fair).set_params(gamma=fair.gamma_, missing_sensitive="omit")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            partly.fit(X, y, sensitive_features=s.where(known))
        left[share].append(correlation_with_race(partly.decision_function(X_new)))
    print(f"S known for {share:.0%}: |corr| {np.mean(left[share]):.2f} (mean of 3 draws)")

_, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
ax.axhspan(0, noise, color="0.92", label="within sampling noise")
ax.axhline(without, color=COLOURS[1], ls="--", label="S left out of X")
for seed, draws in enumerate(zip(*left.values(), strict=True)):
    ax.plot(shares, draws, "o", color=COLOURS[0], ms=4, label=None if seed else "one draw")
ax.plot([*shares, 1.0], [*map(np.mean, left.values()), with_it], color=COLOURS[0], label="mean")
ax.set(xlabel="share of training rows whose S is known", ylabel="held-out |corr| with race")
ax.set_ylim(0, 1.5 * without)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, ncols=2)

# %%
# **Not promised.** Without any S there is no parity to learn and none to check: an audit needs S too.
# Rows with known S must be like those without. If they are few, more dependence remains on new rows.
