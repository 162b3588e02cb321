"""What does fairness cost? Two real data sets, no download.

    python examples/tradeoff.py

Mortgage applications (approve; protected: race in three categories, and sex) and diabetes
progression (protected: sex, and the continuous age). Every number is held out unless it says
"in sample". Writes tradeoff.png into the folder demo-output.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

from fairspan import FairRepresentation, NumericalWarning, table_encoder
from fairspan.datasets import load_diabetes, load_loans
from fairspan.metrics import by_attribute, correlation_noise
from fairspan.plotting import TradeoffDisplay

DIALS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
N_SPLITS = 5


@dataclass
class Table:
    """Means over splits, one row per dial value."""

    error: np.ndarray
    extra: np.ndarray
    parity: dict[str, np.ndarray]
    ratio: dict[str, np.ndarray]
    certificate: np.ndarray
    noise: float


def predictions(model: FairRepresentation, X: np.ndarray) -> np.ndarray:
    """The fitted score (for classes: of the last one)."""
    return (model.transform(X) @ model.score_coef_ + model.score_intercept_)[:, -1]


def run(data, *, classification: bool) -> Table:
    """Fit on random halves of the rows, evaluate on the others, at every dial value."""
    rows: list[list[dict]] = []
    for split in range(N_SPLITS):
        train, test = train_test_split(
            np.arange(len(data.target)), test_size=0.4, random_state=split,
            stratify=data.sensitive_features.iloc[:, 0] if classification else None,
        )  # fmt: skip
        encoder = table_encoder(data.data).fit(data.data.iloc[train])
        X_train, X_test = (encoder.transform(data.data.iloc[part]) for part in (train, test))
        y_train, y_test = data.target.iloc[train], data.target.iloc[test].to_numpy()
        s_train, s_test = (data.sensitive_features.iloc[part] for part in (train, test))
        model = FairRepresentation(random_state=split).fit(
            X_train, y_train, sensitive_features=s_train
        )
        rows.append([])
        for dial in DIALS:
            at = model.at(dial)  # no refit: one set of moments serves the whole path
            score = predictions(at, X_test)
            rows[-1].append(
                {
                    "error": float(((score > 0.5) != y_test).mean())
                    if classification
                    else root_mean_squared_error(y_test, score),
                    "extra": roc_auc_score(y_test, score)
                    if classification
                    else 1.0
                    - float(((y_test - score) ** 2).sum() / ((y_test - y_test.mean()) ** 2).sum()),
                    "parity": by_attribute(
                        "statistical_parity_correlation", score, sensitive_features=s_test
                    ),
                    "ratio": by_attribute("correlation_ratio", score, sensitive_features=s_test),
                    "certificate": at.certificate_.supremum,
                }
            )
        noise = correlation_noise(len(test), len(train))
    names = list(data.sensitive_features.columns)

    def mean(pick) -> np.ndarray:
        return np.array([[pick(cell) for cell in split] for split in rows]).mean(axis=0)

    return Table(
        mean(lambda c: c["error"]),
        mean(lambda c: c["extra"]),
        {name: mean(lambda c, name=name: c["parity"][name]) for name in names},
        {name: mean(lambda c, name=name: c["ratio"][name]) for name in names},
        mean(lambda c: c["certificate"]),
        noise,
    )


def show(title: str, table: Table, error: str, extra: str) -> None:
    """Print the trade-off table."""
    names = list(table.parity)
    # For two groups the ratio is the correlation: show it where it says more.
    ratios = [n for n in names if not np.allclose(table.ratio[n], table.parity[n])]
    print(
        f"\n{title}  (means of {N_SPLITS} splits; correlations below {table.noise:.3f} are noise)"
    )
    head = ["fairness", error, extra, *(f"corr({n})" for n in names)]
    head += [*(f"ratio({n})" for n in ratios), "certified"]
    print("  ".join(f"{h:>11}" for h in head))
    for i, dial in enumerate(DIALS):
        cells = [table.error[i], table.extra[i]]
        cells += [table.parity[n][i] for n in names] + [table.ratio[n][i] for n in ratios]
        cells.append(table.certificate[i])
        print("  ".join([f"{dial:>11.2f}", *(f"{c:>11.3f}" for c in cells)]))


def main(out: Path = Path("demo-output")) -> int:
    """Fit, print, plot."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Small data: ridges now and then land at an end of their grid. The library says so; a table
    # under twenty such lines would not be read.
    warnings.filterwarnings("ignore", category=NumericalWarning)
    print(f"fitting {2 * N_SPLITS} models, half a minute or so ...", flush=True)
    loans = run(load_loans(), classification=True)
    diabetes = run(load_diabetes(), classification=False)
    show("Mortgage applications: approve", loans, "error", "AUC")
    show("Diabetes progression", diabetes, "RMSE", "R2")
    print(
        "\ncorr: held-out |correlation| of the score with the attribute (largest over its levels).\n"
        "ratio: correlation ratio, which also sees differences in shape over age or among groups.\n"
        "certified: no function of the model space correlates more, on the training rows. Zero there is\n"
        "not zero on new rows: some dependence remains, most of it systematic. For age a test decides\n"
        "how many of nine directions to remove; n_sensitive_directions='all' certifies 0 and costs more."
    )
    figure, axes = plt.subplots(1, 2, figsize=(10.4, 4.2), layout="constrained")
    TradeoffDisplay(DIALS, loans.error, loans.parity, noise=loans.noise, error_name="error").plot(
        axes[0], title="Mortgage applications"
    )
    TradeoffDisplay(
        DIALS, diabetes.error, diabetes.parity, noise=diabetes.noise, error_name="RMSE"
    ).plot(axes[1], title="Diabetes progression")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "tradeoff.png", dpi=150)
    print(f"\nplot: {out / 'tradeoff.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
