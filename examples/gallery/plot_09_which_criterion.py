"""
Demographic parity or equalized odds, when base rates differ?
=============================================================

People often ask which criterion fits which case
(`fairlearn 1102 <https://github.com/fairlearn/fairlearn/issues/1102>`__,
`fairlearn 1126 <https://github.com/fairlearn/fairlearn/pull/1126>`__). Demographic (statistical)
parity compares all people of the groups; equalized odds compares people with the same outcome;
conditional parity compares people of the same stratum of a factor that is considered legitimate
(`fairlearn 631 <https://github.com/fairlearn/fairlearn/pull/631>`__).

Simulated loans: group b repays less often, since more of its members are in short employment; on top
of that a feature is shifted by the group for no reason that matters to repayment.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairspan import FairRidgeClassifier
from fairspan.metrics import (
    correlation_noise,
    equalized_odds_correlation,
    statistical_parity_correlation,
)
from fairspan.plotting import COLOURS


def loans(n, seed):
    """Two features, a stratum, the outcome, and the group."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    short = rng.random(n) < np.where(group == "b", 0.7, 0.2)  # employment
    means = rng.normal(size=n) - 1.2 * short
    repaid = means + rng.logistic(scale=0.5, size=n) > -0.5
    district = 0.8 * repaid + 1.5 * (group == "a") + rng.normal(size=n)
    X = np.column_stack([means, district])
    return X, repaid, group, np.where(short, "short", "long")


X, y, s, stratum = loans(3000, seed=0)
X_new, y_new, s_new, stratum_new = loans(6000, seed=1)
print({g: f"{y_new[s_new == g].mean():.2f} repaid" for g in ("a", "b")})

# %%
# One fit for each criterion, evaluated by all three.

models = {
    "none": FairRidgeClassifier(fairness=0.0, random_state=0).fit(X, y, sensitive_features=s),
    "statistical parity": FairRidgeClassifier(random_state=0).fit(X, y, sensitive_features=s),
    "equalized odds": FairRidgeClassifier(criterion="equalized_odds", random_state=0).fit(
        X, y, sensitive_features=s
    ),
    "conditional parity": FairRidgeClassifier(
        criterion="conditional_statistical_parity", random_state=0
    ).fit(X, y, sensitive_features=s, control_features=stratum),
}
left, accuracy = {}, {}
print(f"{'criterion of the fit':20s} accuracy  all rows  same outcome  same stratum")
for name, model in models.items():
    score = model.decision_function(X_new)
    left[name] = (
        statistical_parity_correlation(score, sensitive_features=s_new),
        equalized_odds_correlation(y_new, score, sensitive_features=s_new),
        # within the classes of its first argument, whatever they are
        equalized_odds_correlation(stratum_new, score, sensitive_features=s_new),
    )
    accuracy[name] = model.score(X_new, y_new)
    print(f"{name:20s} {accuracy[name]:8.3f}  " + "{:8.2f}  {:12.2f}  {:12.2f}".format(*left[name]))
share = min(
    np.mean(cell) for cell in (y_new, ~y_new, stratum_new == "short", stratum_new == "long")
)
noise = correlation_noise(share * len(X_new), share * len(X))
print(f"|corr| with the group, worst cell; chance alone gives at most about {noise:.2f}.")

# %%
# Each criterion is met by the model that was fitted for it, and by no other: they are different
# goals, not degrees of one.

_, ax = plt.subplots(figsize=(6.8, 3.2), layout="constrained")
ax.axhspan(0, noise, color="0.92", label="within sampling noise")
for i, (name, values) in enumerate(left.items()):
    label = f"{name} (accuracy {accuracy[name]:.2f})"
    ax.bar(np.arange(3) + 0.2 * (i - 1.5), values, 0.18, color=COLOURS[i], label=label)
ax.set_xticks(range(3), ["all rows", "same outcome", "same stratum"])
ax.set_ylabel("|corr(score, group)|, held-out rows")
ax.set_ylim(0, 0.6)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, ncols=2, title="fitted for", title_fontsize=8)

# %%
# **Not promised.** Data cannot show which criterion is right. Equalized odds takes the outcome as it was
# recorded: if the record is unfair, so is the comparison. Conditional parity trusts the stratum.
# Calibration by group excludes both if base rates differ.
