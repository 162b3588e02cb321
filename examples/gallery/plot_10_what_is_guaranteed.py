"""
What is guaranteed, and does it hold on new rows?
=================================================

A constraint that is nearly met on the training rows can be violated on test rows
(`fairlearn 460 <https://github.com/fairlearn/fairlearn/issues/460>`__), and what a method guarantees
is hard to learn from its documentation
(`fairlearn 444 <https://github.com/fairlearn/fairlearn/issues/444>`__). This page shows what the
certificate of a fit states, how the dial moves the model, and how much dependence there is on new
rows as the number of training rows grows.

The rows are simulated, so that enough new ones can be drawn to measure small numbers.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairspan import FairRidge
from fairspan.metrics import correlation_noise, statistical_parity_correlation
from fairspan.plotting import COLOURS, SubspaceAngleDisplay


def draw(n, seed):
    """Five features; the group shifts one of them and widens another."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += group
    X[:, 1] *= 1 + group
    y = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] + 0.5 * X[:, 3] ** 2 + rng.normal(size=n)
    return X, y, group


X, y, s = draw(800, seed=0)
model = FairRidge(random_state=0).fit(X, y, sensitive_features={"group": s})
print(model.certificate_)

# %%
# **The certificate** has two parts. For new rows it estimates the correlation of the score with the
# group, with an upper bound; the estimate uses each row with a function that was not fitted on it.
# For the training rows it is exact, and about every function of the model space at once.
#
# **The exact alternative.** ``removal="training_rows"`` makes the correlation zero on the training
# rows. F contains the functions without correlation there, G the predictive one; the dial turns the
# model M from G to F.

exact = FairRidge(removal="training_rows", random_state=0).fit(
    X, y, sensitive_features={"group": s}
)
half = exact.at(0.5)
SubspaceAngleDisplay.from_estimator(half)

# %%
# **New rows.** Both fits on more and more rows, twenty draws each, evaluated on 20,000 new rows. Zero on
# the training rows leaves a bias on new ones, which shrinks as the training rows grow. The default is at
# the level of chance; the unconstrained correlation does not change.

X_new, _, s_new = draw(20000, seed=99)
sizes = (200, 400, 800, 1600)
start, biased, remaining = {}, {}, {}
for n in sizes:
    start[n], biased[n], remaining[n] = [], [], []
    for seed in range(20):
        X, y, s = draw(n, seed=1000 + seed)
        for removal, ends in (("training_rows", biased), ("new_rows", remaining)):
            fit = FairRidge(removal=removal, gamma="median", n_components=200, random_state=0)
            score = fit.fit(X, y, sensitive_features=s).predict(X_new)
            ends[n].append(statistical_parity_correlation(score, sensitive_features=s_new))
        score = fit.at(0.0).predict(X_new)
        start[n].append(statistical_parity_correlation(score, sensitive_features=s_new))
    noise = correlation_noise(len(X_new), n)
    print(
        f"{n:5d} training rows: |corr| {np.mean(start[n]):.3f} at fairness 0; at fairness 1 "
        f"{np.mean(biased[n]):.3f} (training rows), {np.mean(remaining[n]):.3f} (new rows); "
        f"noise {noise:.3f}"
    )

_, ax = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
names = {"fairness 0": start, "1, training rows": biased, "1, new rows": remaining}
for i, (label, draws) in enumerate(names.items()):
    for n in sizes:
        ax.plot([n] * 20, draws[n], ".", color=COLOURS[i], ms=4)
    ax.plot(
        sizes, [np.mean(draws[n]) for n in sizes], color=COLOURS[i], label=f"{label}, mean of 20"
    )
noise = [correlation_noise(len(X_new), n) for n in sizes]
ax.plot(sizes, noise, "k:", label="1/sqrt(new rows) + 1/sqrt(training rows)")
ax.set(xscale="log", yscale="log", xlabel="training rows", ylabel="|corr| on new rows")
ax.set_ylim(bottom=0.004)
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, loc="lower left")

# %%
# **Not promised.** No dependence is expected, but every model has some by chance: the fewer rows, the
# more, and the bound of the certificate says how much. New rows must come from the same population. The
# certificate is about means of the score by group: a nonlinear model on top of the representation, or a
# person who looks at the features, may still recover S.
