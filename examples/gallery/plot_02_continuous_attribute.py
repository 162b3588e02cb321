"""
Age is a number: must it be cut into groups?
============================================

Toolkits that compare groups need a cut, and the cut is arbitrary: two data sets of AIF360 split
age at 25 in different ways (`AIF360 197 <https://github.com/Trusted-AI/AIF360/issues/197>`__), and
for one of them the young *and* the old are the ones that differ
(`AIF360 265 <https://github.com/Trusted-AI/AIF360/issues/265>`__).

fairspan takes the number as it is. By default it flattens the mean of the score over ten quantile
slices of age; ``dependence="correlation"`` removes only the straight line. The rows below are
simulated so that the score depends on age by a curve, high at both ends.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairspan import FairRidge
from fairspan.metrics import (
    correlation_noise,
    correlation_ratio,
    statistical_parity_correlation,
)
from fairspan.plotting import GroupDistributionDisplay


def customers(n, seed):
    """Spending bends with age; thrift does not depend on it."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 78, n)
    thrift = rng.normal(size=n)
    bend = ((age - 48) / 30) ** 2 - 1 / 3
    X = np.column_stack(
        [
            thrift,
            2 * bend + rng.normal(scale=0.5, size=n),  # visits: more at both ends
            (age - 48) / 20 + rng.normal(scale=0.5, size=n),  # years of membership
        ]
    )
    y = thrift + X[:, 1] + 0.4 * X[:, 2] + rng.normal(scale=0.5, size=n)
    return X, y, age


X, y, age = customers(1000, seed=0)
X_new, y_new, age_new = customers(4000, seed=1)

# %%
# Four ways to treat age: not at all, as two groups, as a line, and as a number.

models = {
    "unconstrained": FairRidge(fairness=0.0, random_state=0).fit(X, y, sensitive_features=age),
    "two groups, cut at 25": FairRidge(random_state=0).fit(X, y, sensitive_features=age > 25),
    "correlation only": FairRidge(dependence="correlation", random_state=0).fit(
        X, y, sensitive_features=age
    ),
    "mean over slices (default)": FairRidge(random_state=0).fit(X, y, sensitive_features=age),
}
predicted = {name: model.predict(X_new) for name, model in models.items()}
corr = {
    name: statistical_parity_correlation(p, sensitive_features=age_new)
    for name, p in predicted.items()
}
ratio = {name: correlation_ratio(p, sensitive_features=age_new) for name, p in predicted.items()}
rmse = {name: np.sqrt(np.mean((p - y_new) ** 2)) for name, p in predicted.items()}
print(f"{'age as':27s} |corr|  correlation ratio  RMSE")
for name in models:
    print(f"{name:27s}  {corr[name]:.3f}  {ratio[name]:17.3f}  {rmse[name]:.2f}")

# %%
# The correlation ratio is the correlation of the prediction with its own means in ten slices of age,
# so it detects curves. Two groups leave both numbers high, and the line leaves the curve. Equal means
# cost the most, because here spending depends mostly on age. The level of noise:

noise = correlation_noise(len(X_new), len(X))
noise_of_ratio = np.sqrt(9 / len(X_new) + 9 / len(X))  # ten slices: nine free means
print(f"below about {noise:.3f} for a correlation, {noise_of_ratio:.3f} for a correlation ratio")

# %%
# Points are means of a slice with 95 % intervals. A fair prediction is flat.

_, axes = plt.subplots(2, 2, figsize=(8.4, 5.6), layout="constrained", sharex=True, sharey=True)
for ax, (name, values) in zip(axes.flat, predicted.items(), strict=True):
    GroupDistributionDisplay.from_predictions(
        values, sensitive_features={"age": age_new}, score_name="prediction", ax=ax
    )
    ax.set_title(name, loc="left", fontsize=9)
axes[0, 0].set_ylim(-1.2, 2.8)

# %%
# **Not promised.** Flat means over slices are not independence: the spread may still depend on age.
# Within a slice a slope remains, small where slices are narrow (``n_slices``). The default removes
# the directions of age that the features predict; ``n_sensitive_directions="all"`` removes all that it
# can, and the certificate shows the number.
