"""Commands on a table in which protected attributes are missing for some rows."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from fairspan import audit, load_model
from fairspan.cli.entry import app
from fairspan.report import complete_rows, held_out_rows, join_small_groups

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 600
    region = rng.integers(1, 4, n)
    frame = pd.DataFrame(rng.normal(size=(n, 2)) + 0.4 * region[:, None], columns=["a", "b"])
    frame["repaid"] = np.where(frame["a"] + rng.normal(size=n) > 1.0, "yes", "no")
    frame["region"] = np.where(rng.random(n) < 0.5, region, np.nan)
    frame.to_csv("people.csv", index=False)
    return frame


def run(*arguments):
    return CliRunner().invoke(app, [*arguments, "--target", "repaid", "--protected", "region"])


@pytest.mark.usefixtures("people")
def test_the_error_names_the_option():
    done = run("fit", "people.csv")
    assert "--missing-protected omit" in str(done.exception)


def test_a_fit_learns_from_all_rows_and_audits_those_with_s(people):
    n, known = len(people), int(people["region"].notna().sum())
    model = ("--model", "ridge-classifier", "--equalize", "scores", "--missing-protected", "omit")
    done = run("fit", "people.csv", *model, "--json", "fit.json")
    assert done.exit_code == 0, done.output
    assert f"region is known for {known:,} of {n:,} rows" in done.output
    assert "1, 2, 3" in done.output  # groups, not numbers with decimals
    with open("fit.json") as file:
        (missing,) = json.load(file)["certificate"]["missing"]
    assert (missing["n_known"], missing["n_rows"]) == (known, n)
    options = ("--model", "model.skops", "--parts", "decisions", "--json", "audit.json")
    done = run("audit", "people.csv", *options, "--missing-protected", "omit")
    assert done.exit_code == 0, done.output
    with open("audit.json") as file:
        found = json.load(file)
    assert (found["n_rows"], found["n_without_sensitive"]) == (known, n - known)
    fitted = load_model("model.skops")
    rows = people[people["region"].notna()]
    plain = audit(
        fitted,
        rows[["a", "b"]],
        rows["repaid"],
        sensitive_features={"region": rows["region"].astype(int)},
        parts=["decisions"],
    )
    gap = [f["value"] for f in found["findings"] if f["metric"] == "demographic_parity_difference"]
    same = [f.value for f in plain.select(metric="demographic_parity_difference")]
    assert gap == pytest.approx(same)


def test_only_rows_with_all_attributes_are_held_out(people):
    table = complete_rows(people, ["repaid", "region"], optional=["region"])
    assert len(table) == len(people)
    assert str(table["region"].dtype) == "Int64"
    out = held_out_rows(table, ["repaid", "region"], share=0.25)
    known = table["region"].notna().to_numpy()
    assert not out[~known].any()
    assert out.sum() == pytest.approx(0.25 * known.sum(), abs=1)
    words = people.assign(region=people["region"].map({1.0: "n", 2.0: "s", 3.0: "w"}))
    words.loc[[0, 1], "region"] = ["alone", "single"]
    joined, _ = join_small_groups(words, ["region"], {})
    assert joined["region"].isna().equals(words["region"].isna())


@pytest.mark.usefixtures("people")
def test_an_unknown_value_is_refused():
    done = run("fit", "people.csv", "--missing-protected", "drop")
    assert "give raise or omit" in str(done.exception)
