"""Audit a fair classifier on a real data set, without a download.

    python examples/audit.py [folder]

Mortgage applications (approve; protected: race in three categories, and sex), a fair Gaussian process
audited on held-out rows. Writes audit.md, audit.json and audit.png into the folder
(audit-output if none is given).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from sklearn.model_selection import train_test_split

from fairspan import FairGPClassifier, audit, table_encoder
from fairspan.datasets import load_loans


def main(folder: Path) -> None:
    """Fit on half of the rows, audit on the other half."""
    loans = load_loans()
    X, X_new, y, y_new, s, s_new = train_test_split(
        loans.data, loans.target, loans.sensitive_features, test_size=0.5, random_state=0
    )
    encoder = table_encoder(X).fit(X)
    model = FairGPClassifier(random_state=0).fit(encoder.transform(X), y, sensitive_features=s)
    result = audit(
        model, encoder.transform(X_new), y_new, sensitive_features=s_new, random_state=0, verbose=1
    )
    folder.mkdir(parents=True, exist_ok=True)
    result.to_markdown(folder / "audit.md")
    result.to_json(folder / "audit.json")
    result.plot().figure_.savefig(folder / "audit.png", dpi=160)
    print(result)
    print(f"Written: audit.md, audit.json and audit.png in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("audit-output"))
