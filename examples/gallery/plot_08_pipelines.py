"""
Pipelines, ColumnTransformer, sample weights and grid search?
=============================================================

``sensitive_features`` could not be passed through a ``Pipeline``, so mitigation and preprocessing did
not go together (`fairlearn 1041 <https://github.com/fairlearn/fairlearn/issues/1041>`__,
`fairlearn 665 <https://github.com/fairlearn/fairlearn/issues/665>`__), and a search by a fairness
metric has nowhere to put S (`AIF360 239 <https://github.com/Trusted-AI/AIF360/issues/239>`__).
scikit-learn's metadata routing solves it, and fairspan's estimators request S by default.

Real data: mortgage applications, categories and missing values included. S is never in X.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairspan import FairRepresentation
from fairspan.datasets import load_loans
from fairspan.metrics import correlation_noise, fairness_scorer
from fairspan.plotting import COLOURS

loans = load_loans()
minority = loans.sensitive_features["race"] != "white"
X, X_new, y, y_new, s, s_new = train_test_split(
    loans.data, loans.target, minority, test_size=0.4, random_state=0
)
codes = ["occ", "typur", "mortg", "cons", "prop"]  # categories that are stored as numbers
numbers = [column for column in X.columns if column not in codes]

# %%
# A transformer by columns, then the fair representation, then any linear learner.

pipe = Pipeline(
    [
        (
            "encode",
            make_column_transformer(
                (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
                (OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"), codes),
                sparse_threshold=0,
            ),
        ),
        ("fair", FairRepresentation(gamma="median", n_components=400, random_state=0)),
        ("classify", LogisticRegression()),
    ]
)

# %%
# **Without routing**, name the step: ``step__sensitive_features``, weights likewise.

weight = np.where(y == 0, 2.0, 1.0)  # refusals count twice
named = {"fair__sensitive_features": s, "fair__sample_weight": weight}
pipe.fit(X, y, **named, classify__sample_weight=weight)
print("accuracy", round(pipe.score(X_new, y_new), 3), "and predict took X alone")

# %%
# **With routing**, S is passed to every step, split and scorer that requests it.

metric = "statistical_parity_correlation"
with sklearn.config_context(enable_metadata_routing=True):
    parity = fairness_scorer(metric)  # higher is better, so minus |corr|
    search = GridSearchCV(
        pipe,
        {"fair__fairness": [0.0, 0.25, 0.5, 0.75, 1.0]},
        cv=3,
        refit="parity",
        scoring={"accuracy": "accuracy", "parity": parity},
    )
    search.fit(X, y, sensitive_features=s)
    fair = sklearn.clone(pipe).fit(X, y, sensitive_features=s)
    held_out = -parity(fair, X_new, y_new, sensitive_features=s_new)
    unconstrained = sklearn.clone(pipe).set_params(fair__fairness=0.0)
    unconstrained.fit(X, y, sensitive_features=s)
    before = -parity(unconstrained, X_new, y_new, sensitive_features=s_new)
print(f"held out: |corr| {before:.2f} at fairness 0, {held_out:.2f} at 1")
print(f"below {correlation_noise(len(X_new), len(X)):.2f} it would be sampling noise")

# %%
# The search fits again for each dial value, which other learners need; fairspan's own models move
# along the dial without a fit. Bars are standard deviations over the folds.

dial = search.cv_results_["param_fair__fairness"].astype(float)
scores = {"accuracy": ("accuracy", 1), "parity": ("|corr| with S", -1)}
_, axes = plt.subplots(1, 2, figsize=(7.6, 2.9), layout="constrained")
for i, (name, (label, sign)) in enumerate(scores.items()):
    mean, spread = (search.cv_results_[f"{what}_test_{name}"] for what in ("mean", "std"))
    axes[i].errorbar(dial, sign * mean, spread, fmt="o-", color=COLOURS[i], capsize=2)
    axes[i].set(xlabel="fairness", ylabel=f"{label}, mean of 3 folds")
    axes[i].spines[["top", "right"]].set_visible(False)

# %%
# **Not promised.** The certificate covers linear functions of the representation, so linear heads
# such as this one; a forest on top may recover S. Searching by accuracy alone chooses fairness 0.
