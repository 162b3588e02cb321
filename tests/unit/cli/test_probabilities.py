import json

import numpy as np
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from fairspan.cli.entry import app
from fairspan.cli.probabilities import read_probability_columns

pd = pytest.importorskip("pandas")

COLUMNS = ["u", "race_a", "race_b", "sex", "y"]


def make(path, n=500, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.6, n).round(4)
    s = rng.random(n) < p
    u, v = rng.normal(size=(2, n)) + 0.6 * s
    y = np.where(u + v + rng.normal(size=n) > 0.5, "yes", "no")
    table = pd.DataFrame({"u": u, "v": v, "race_a": p, "race_b": (1 - p).round(4), "y": y})
    table.to_csv(path, index=False)
    return table


@pytest.mark.parametrize("text", ["race=race_*", "race=race_b,race_a", "race=race_?"])
def test_columns(text):
    found = read_probability_columns([text], COLUMNS)
    assert found.by_attribute == {"race": ("race_a", "race_b")}
    assert found.sensitive_kind({"race_a": "continuous", "sex": "categorical"}) == {
        "sex": "categorical",
        "race": "probabilities",
    }
    assert not read_probability_columns(None, COLUMNS).columns


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["race_*"], "write NAME=PATTERN"),
        (["race="], "write NAME=PATTERN"),
        (["race=rase_a"], "Did you mean 'race_a'"),
        (["race=race_a"], "list all of them"),
        (["race=race_*,sex"], "ATTRIBUTE_GROUP"),
        (["race=race_*", "race=race_a"], "twice"),
    ],
)
def test_refused(given, says):
    with pytest.raises(ValueError, match=says):
        read_probability_columns(given, COLUMNS)


def test_fit_and_audit(tmp_path):
    pytest.importorskip("skops")
    make(tmp_path / "train.csv")
    make(tmp_path / "test.csv", seed=1)
    run, model = CliRunner(), tmp_path / "model.skops"
    race = ["--protected-probability", "race=race_*"]
    out = ["--out", str(model), "--json", str(tmp_path / "fit.json")]
    done = run.invoke(app, ["fit", str(tmp_path / "train.csv"), "--target", "y", *race, *out])
    assert done.exit_code == 0, done.output
    assert "Protected: race (probabilities)" in done.output
    assert "tell as much as" in done.output
    assert "Made equal between groups: scores" in done.output
    found = json.loads((tmp_path / "fit.json").read_text())
    assert found["protected"] == {"race": "probabilities"}
    assert found["features"] == ["u", "v"]
    options = ["--target", "y", *race, "--parts", "scores,decisions"]
    source = [str(tmp_path / "test.csv"), "--model", str(model)]
    written = ["--json", str(tmp_path / "audit.json")]
    done = run.invoke(app, ["audit", *source, *options, *written])
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "audit.json").read_text())
    assert {f["attribute"] for f in numbers["findings"] if f["section"] == "scores"} == {"race"}
    limit = ["--max-gap", "0.1"]
    done = run.invoke(
        app, ["fit", str(tmp_path / "train.csv"), "--target", "y", *race, *limit, *out]
    )
    assert done.exit_code != 0
    assert "--protected-probability is for equal scores" in str(done.exception)


def test_explore(tmp_path):
    make(tmp_path / "train.csv")
    run, page = CliRunner(), tmp_path / "page.html"
    source = ["explore", str(tmp_path / "train.csv"), "--target", "y", "--points", "3"]
    race = ["--protected-probability", "race=race_*"]
    out = ["--out", str(page), "--json", str(tmp_path / "page.json"), "--parts", "scores"]
    done = run.invoke(app, [*source, *race, *out])
    assert done.exit_code == 0, done.output
    assert "decisions need the group of each row" in done.output
    assert "corr. race" in done.output
    study = json.loads((tmp_path / "page.json").read_text())
    (attribute,) = study["attributes"]
    worth = f"tell as much as {attribute['n_equivalent']:,.0f} with a known group"
    assert worth in done.output.split("Limits at")[0]
    assert study["provenance"]["options"]["equalize"] == "scores"
    assert page.stat().st_size > 1e6
    done = run.invoke(app, [*source, *race, *out, "--equalize", "decisions"])
    assert done.exit_code != 0
    assert "--protected-probability is for equal scores" in str(done.exception or done.output)
