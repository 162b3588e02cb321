"""
I have a boosted model that works. Can I keep it, and make it fair?
===================================================================

People ask for fairness around the learner that they already use: random forests and XGBoost
(`fairlearn 1 <https://github.com/fairlearn/fairlearn/issues/1>`__), LightGBM
(`AIF360 180 <https://github.com/Trusted-AI/AIF360/issues/180>`__).

``FairClassifier(model)`` takes any classifier in the style of scikit-learn, and ``FairRegressor`` any
regressor. This page uses scikit-learn's histogram boosting, which is always installed. For LightGBM write
``FairClassifier(LGBMClassifier())``; the rest stays the same.

Real data: mortgage applications with categories and missing values; race is protected and not in X.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fairspan import FairClassifier, FairnessPath
from fairspan.datasets import load_loans
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS

loans = load_loans()
minority = (loans.sensitive_features["race"] != "white").rename("minority")
X, X_new, y, y_new, s, s_new = train_test_split(
    loans.data, loans.target, minority, test_size=0.4, random_state=1
)

# %%
# Three lines: import, wrap, fit. The frame goes in as it is. The model predicts y and race without each
# of five folds; what the predicted race explains of the score is subtracted.

boosting = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8)
model = FairClassifier(boosting, random_state=0).fit(X, y, sensitive_features=s)

noise = correlation_noise(len(X_new), len(X))
corr, accuracy = {}, {}
for fairness in (0.0, 1.0):
    at = model.at(fairness)
    score = at.decision_function(X_new)
    corr[fairness] = statistical_parity_correlation(score, sensitive_features=s_new)
    accuracy[fairness] = at.score(X_new, y_new)
    print(f"fairness {fairness}: |corr| {corr[fairness]:.2f}, accuracy {accuracy[fairness]:.3f}")
print(f"On {len(X_new)} held-out rows chance alone gives a |corr| of about {noise:.2f}.")

# %%
# The certificate says what is expected of new rows, with a confidence bound.

print(model.certificate_)

# %%
# All values between come from the same fit.

path = FairnessPath.from_estimator(model, X_new, y_new, sensitive_features=s_new, n_points=21)
table = path.table()
_, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
ax.axhspan(0, noise, color="0.92", label="within sampling noise")
ax.plot(table["fairness"], table["correlation"], color=COLOURS[0], label="|corr| with race")
ax.plot(table["fairness"], table["error"], color=COLOURS[1], ls="--", label="error")
ax.set(xlabel="fairness", ylabel="on held-out rows", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8)

# %%
# **One split says little.** It differs from the next by chance; the bound of the certificate is about new
# people in general, not about the one sample of them that is at hand.

signed = []
for seed in range(4):
    rows, held = train_test_split(np.arange(len(loans.data)), test_size=0.4, random_state=seed)
    fit = FairClassifier(boosting, random_state=0).fit(
        loans.data.iloc[rows], loans.target.iloc[rows], sensitive_features=minority.iloc[rows]
    )
    score = fit.decision_function(loans.data.iloc[held])
    signed.append(np.corrcoef(score, ~minority.iloc[held])[0, 1])
print(f"4 splits: corr {np.mean(signed):+.3f}, from {min(signed):+.3f} to {max(signed):+.3f}")

# %%
# **Several learners** are stacked. The better S is predicted, the less accuracy fairness costs, so a
# list is often cheaper than one learner. The weights show what each adds to the prediction of y.

both = FairClassifier([boosting, LogisticRegression(max_iter=1000)], random_state=0).fit(
    X, y, sensitive_features=s
)
stacked = both.score(X_new, y_new)
print(
    "boosting and logistic regression: weights",
    np.round(both.stack_weights_, 2),
    f"accuracy {stacked:.3f}",
)

# %%
# **Not promised.** Zero is what is expected of new rows on average. One sample of them differs by chance,
# and groups that X hardly predicts keep a part of their difference, which the certificate names. On the
# training rows the score can correlate with race, because four of five models have seen each of them.
