"""
How sure is a gap between groups?
=================================

A gap between groups without an interval may be sampling error, the more so the smaller a group
(`fairlearn 999 <https://github.com/fairlearn/fairlearn/issues/999>`__, which led to the bootstrap of
``MetricFrame``). ``audit`` reports every metric with an interval and every group with its size, for
any model with ``predict``; here for gradient boosting of scikit-learn.

Percentiles of resampled gaps fail near parity: the largest of several differences is biased upwards,
and its resamples once more. ``audit`` takes the estimate plus and minus a quantile of the *size of
the change* under resampling, which holds for all groups at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from fairspan import audit
from fairspan.auditing import AuditDisplay
from fairspan.datasets import load_loans

loans = load_loans()
X, X_new, y, y_new, s, s_new = train_test_split(
    loans.data, loans.target, loans.sensitive_features, test_size=0.5, random_state=0
)
model = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X, y)
result = audit(
    model, X_new, y_new, sensitive_features=s_new, parts=["scores", "decisions"], random_state=0
)
gaps = result.select(metric="demographic_parity_difference")
for gap in gaps:
    print(f"{gap.attribute:10s} approval gap {gap.value:.2f} [{gap.low:.2f}, {gap.high:.2f}]")
rates = result.table("decisions", metric="selection_rate", attribute="race")
print(rates[["group", "value", "low", "high", "n_rows"]].round(2).to_string(index=False))

# %%
# The interval for race does not contain 0, that for sex does. Rates of a group have intervals too, wide
# where rows are few.

_, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
AuditDisplay.from_audit(result, attribute="race", ax=axes[0])
AuditDisplay.from_audit(result, attribute="race", kind="rates", ax=axes[1])

# %%
# **Do 95 % intervals contain the true value in 95 % of samples?** In simulated decisions it is known:
# three groups with the same rate, so the true gap is 0, and 250 samples of 300 rows.

rng = np.random.default_rng(0)
groups = rng.choice(["a", "b", "c"], 300, p=[0.6, 0.3, 0.1])
ours = naive = 0
for _ in range(250):
    decided = rng.random(300) < 0.4
    (gap,) = audit(
        decided,
        sensitive_features={"group": groups},
        parts=["decisions"],
        min_rows=1,
        random_state=0,
    ).select(metric="demographic_parity_difference")
    ours += gap.low <= 0.0 <= gap.high
    rows = rng.integers(0, 300, (200, 300))
    inside = groups[rows][:, None, :] == np.array([["a"], ["b"], ["c"]])
    rates = (inside & decided[rows][:, None, :]).sum(axis=2) / inside.sum(axis=2)
    low, _ = np.quantile(np.ptp(rates, axis=1), [0.025, 0.975])
    naive += low <= 0.0
print(f"the interval contains the true gap of 0 in {ours / 250:.0%} of the samples;")
print(f"percentiles of the resampled gap do in {naive / 250:.0%}")

# %%
# **Not promised.** The intervals are about sampling of these rows; not about labels that are wrong,
# nor about people who never applied. Where the true gap is 0 they contain it at about the nominal
# rate, a little less often with groups of 30 rows; elsewhere more often. A group of fewer than 30
# rows is marked and left out of the gaps. An interval that contains 0 does not prove parity, and no
# audit shows that a model is fair.
