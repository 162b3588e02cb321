"""
Which trade-off do I choose?
============================

fairlearn's ``GridSearch`` gives many models, and its census example has to sort out by hand which of
them are worth a look (`fairlearn 1190 <https://github.com/fairlearn/fairlearn/issues/1190>`__,
`fairlearn 485 <https://github.com/fairlearn/fairlearn/pull/485>`__). Here one fit gives the whole
curve: ``fairness_path`` evaluates every dial value on held-out rows, and ``select`` takes the cheapest
value that keeps a limit on new rows with 95 % confidence, or the fairest within a budget.

Real data: mortgage applications, race protected. A quarter of the rows is kept apart from the fit
*and* from the choice.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

from fairspan import FairRidgeClassifier, audit, fairness_path, table_encoder
from fairspan.datasets import load_loans
from fairspan.plotting import PriceDisplay, TradeoffDisplay

loans = load_loans()
X, X_new, y, y_new, s, s_new = train_test_split(
    loans.data, loans.target, loans.sensitive_features["race"], random_state=0
)
encoder = table_encoder(X).fit(X)
X, X_new = encoder.transform(X), encoder.transform(X_new)

# %%
# One fit, 31 dial values. Each row is judged by functions that were not fitted on it.

path = fairness_path(
    FairRidgeClassifier(n_components=400, random_state=0),
    X,
    y,
    sensitive_features=s,
    n_points=31,
)
print(f"unconstrained: error {path.error[0]:.3f}, |corr| {path.curve()[0]:.3f}")
print(f"Chance alone gives a |corr| of about {path.noise:.3f}: no limit below it can be checked.")

# %%
# By a limit, or by a budget. Both return a model refitted on all rows of the path.

LIMIT = 0.2
by_limit = path.select("correlation", at_most=LIMIT)
by_budget = path.select("correlation", min_accuracy=0.9)
for name, model in ((f"|corr| <= {LIMIT}", by_limit), ("accuracy >= 0.9", by_budget)):
    chosen = model.selection_
    print(
        f"{name}: fairness {chosen.fairness:.2f}, error {chosen.error:.3f}, "
        f"|corr| {chosen.value:.3f} (expected on new rows)"
    )

# %%
# Left: error against parity, with the interval on new rows; right: the extra error along the dial, with
# 90 % intervals of a paired bootstrap. Dial values that keep the limit on new rows with 95 % confidence
# are shaded in green, and the diamond is the cheapest of them: the one that ``select`` took.

_, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
TradeoffDisplay.from_path(path, ax=axes[0])
axes[0].axvline(LIMIT, color="0.4", lw=0.8, ls=":")
price = PriceDisplay.from_path(path, at_most=LIMIT, random_state=0, ax=axes[1])

# %%
# The rows kept apart give an estimate of their own.

measured = {}
for name, model in (("unconstrained", path.estimator.at(0.0)), ("chosen by the limit", by_limit)):
    report = audit(
        model, X_new, y_new, sensitive_features={"race": s_new}, parts=["scores"], random_state=0
    )
    (measured[name],) = report.select(metric="statistical_parity_correlation")
    print(
        f"{name}: |corr| {measured[name].value:.2f} [{measured[name].low:.2f}, {measured[name].high:.2f}], "
        f"accuracy {model.score(X_new, y_new):.3f} on {len(X_new)} rows kept away"
    )

# %%
# **Not promised.** The limit is kept in the population, in 95 of 100 cases; a small sample of new rows
# can exceed it, and the interval shows by how much. The curve is about correlations of scores; for
# rates of decisions choose by ``path.select("demographic_parity_difference", ...)``. Which limit is
# right is not a question of statistics.
