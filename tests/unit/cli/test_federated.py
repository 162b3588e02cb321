"""`fairspan prepare`, `moments` and `merge` on files of two sites."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

from typer.testing import CliRunner  # noqa: E402

from fairspan import load_model, load_pilot  # noqa: E402
from fairspan.cli import app  # noqa: E402

AGREEMENT = {
    "features": {"income": [0, 80], "debt": [0, 40], "home": ["own", "rent"]},
    "target": {"risk": {"range": [0, 100]}},
    "protected": {"sex": ["f", "m"]},
    "landmarks": 30,
}


def frame(seed, n=400):
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    income = rng.normal(40 + 8 * male, 12)
    home = rng.choice(["own", "rent"], n)
    debt = rng.uniform(0, 40, n)
    risk = 60 - income + debt + 5 * (home == "rent") + rng.normal(0, 8, n)
    sex = np.where(male, "m", "f")
    return pd.DataFrame({"sex": sex, "income": income, "debt": debt, "home": home, "risk": risk})


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def fails(*arguments):
    result = run(*arguments)
    assert result.exit_code != 0
    return str(result.exception) + result.output


@pytest.fixture
def pilot():
    Path("agreement.json").write_text(json.dumps(AGREEMENT))
    assert run("prepare", "agreement.json").exit_code == 0
    for seed, name in enumerate(("north", "south")):
        frame(seed).to_csv(f"{name}.csv", index=False)
    return "pilot.npz"


def test_three_commands_end_in_the_pooled_model(pilot):
    for name in ("north", "south"):
        done = run(
            "moments", f"{name}.csv", "--pilot", pilot, "--site", name, "--out", f"{name}.npz"
        )
        assert done.exit_code == 0, done.output
        assert "no row" in done.output
    done = run("merge", "north.npz", "south.npz", "--pilot", pilot, "--json", "merged.json")
    assert done.exit_code == 0, done.output
    merged = load_model("model.skops")
    rows = pd.concat([frame(0), frame(1)], ignore_index=True)
    X = rows[["income", "debt", "home"]]
    pooled = load_pilot(pilot).partial_fit(X, rows["risk"], sensitive_features=rows[["sex"]])
    # CSV files have all digits of the numbers.
    np.testing.assert_allclose(merged.predict(X), pooled.predict(X), rtol=1e-9)
    result = json.loads(Path("merged.json").read_text())
    assert [one["site"] for one in result["sites"]] == ["north", "south"]
    assert result["rows"] == 800
    assert "north" in done.output


def test_mistakes_are_named(pilot):
    give = ("--pilot", pilot, "--site", "north")
    assert "Column 'home' has the category 'tent'" in _with(give, home="tent")
    assert "names the column 'income'" in _with(give, drop="income")
    assert "--out" in fails("moments", "north.csv", *give, "--out", "absent/m.npz")
    assert "min_rows=0" in fails("moments", "north.csv", *give, "--min-rows", "0")
    assert "is refused" in fails("merge", "north.csv", "--pilot", pilot)
    assert "no JSON" in fails("prepare", "north.csv", "--out", "other.npz")
    Path("agreement.json").write_text(json.dumps({**AGREEMENT, "landmarks": 0}))
    assert "agreement.json cannot be used: 'landmarks'" in fails("prepare", "agreement.json")


def _with(give, drop=None, **values):
    table = frame(0).assign(**values)
    table.drop(columns=[] if drop is None else [drop]).to_csv("other.csv", index=False)
    return fails("moments", "other.csv", *give)
