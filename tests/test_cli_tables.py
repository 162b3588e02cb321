"""Tables as people have them: what is refused, what is warned of, and which files are written."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

import pandas as pd

import fairspan
from fairspan.cli import column_kinds
from fairspan.cli import common as options
from fairspan.cli import common as output
from fairspan.cli.checks import doubtful_columns
from fairspan.report.recipe import source_lines
from fairspan.tables import read_table

EXPLORE = (
    "explore", "people.csv", "--target", "repaid", "--protected", "sex", "--model",
    "ridge-classifier", "--parts", "scores,decisions", "--points", "3",
)  # fmt: skip
FIT = ("fit", *EXPLORE[1:8])


def people(n=300):
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], n)
    income = (rng.normal(size=n) + (sex == "m")).round(2)
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "city": rng.choice(["Aachen", "Bonn"], n),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def never(*_):
    raise AssertionError


def refused(done, says):
    """One line that says it, and exit code 2."""
    assert (done.code, done.out) == (2, "")
    lines = done.err.strip().splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("Error: ")
    assert says in lines[0]


# ------------------------------------------------------------------ reading


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"a,b\n1,2,3\n4,5,6\n",
            "its rows have more fields than the header, which has 2. Name every",
        ),
        (b"a,b\n0,1,2\n1,1,2\n", "its rows have more fields than the header, which has 2"),
        (b"a,b\n1,2,3,4\n4,5,6,7\n", "its rows have more fields than the header, which has 2"),
        (b"a,b\n1,2,3\n4,5\n", "line 2 has 3 fields and the header 2"),
        (b'a,b\n"1\n', "the quotes of a field that ends in line 2 are not closed"),
        (b"a,b\n1,2\n4,5,6\n", "line 3 has 3 fields and the header 2 (separated by commas)"),
        (b"a,b\n1,2\n4\n", "line 3 has 1 field and the header 2"),
        (b"a,b\n1,2,\n4,5,\n", "such as a comma at the end of the rows"),
        (b"a,b,a,c,b\n1,2,3,4,5\n", "it has two columns named 'a', 'b'; give each its own name"),
        (b"a;b\n1.234;2\n5.678;3\n", "the column 'a' holds '1.234', where '.' may separate"),
        (b'a,b\n"1,234",2\n', "--decimal . if numbers have a decimal point, --decimal , if they"),
        (
            "a,b\n1,K\u00f6ln\n2,\u00e9\xe9\n".encode() + b"3,\xff\n",
            "UTF-8 with damaged bytes, first",
        ),
    ],
)
@pytest.mark.parametrize("command", ["explore", "fit"])
def test_a_file_that_would_be_misread_is_refused(call, folder, content, says, command):
    (folder / "t.csv").write_bytes(content)
    done = call(command, "t.csv", "--target", "a", "--protected", "b")
    refused(done, says)
    assert done.err.startswith("Error: t.csv ")


def test_a_packed_file_is_checked_like_another(folder):
    import gzip

    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,a\n1,2\n"))
    with pytest.raises(ValueError, match="two columns named 'a'"):
        read_table(folder / "t.csv.gz")
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa,b\n1,2\n"))
    assert read_table(folder / "t.csv.gz").columns.tolist() == ["a", "b"]


def test_none_is_a_category_and_the_snippet_reads_the_same(folder):
    text = 'a,n\nNone,1\nNA,NA\n"",2\nnan,NaN\nn/a,NULL\n'
    (folder / "t.csv").write_text(text, encoding="utf-8")
    found = read_table(folder / "t.csv")
    assert found["a"].fillna("missing").tolist() == ["None", "missing", "missing", "missing", "n/a"]
    np.testing.assert_array_equal(found["n"], [1.0, np.nan, 2.0, np.nan, np.nan])
    names = {}
    exec(source_lines("t.csv"), names)
    pd.testing.assert_frame_equal(names["table"], found)


def test_a_group_named_none_stays_in_the_report(call, folder):
    table = people().rename(columns={"sex": "belief"})
    table["belief"] = table["belief"].map({"f": "None", "m": "some"})
    table.to_csv("people.csv", index=False)
    done = call(*EXPLORE[:5], "belief", *EXPLORE[6:], "--json", "-")
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert [one["label"] for one in study["attributes"][0]["groups"]] == ["None", "some"]
    table.replace({"belief": {"None": "NA"}}).to_csv("people.csv", index=False)
    refused(
        call(*EXPLORE[:5], "belief"), "Empty fields, NA, NaN, nan, NULL, null of a CSV file count"
    )


# ------------------------------------------------------------------ rows and columns


def test_rows_that_are_left_out_are_in_the_report(call, folder):
    table = people().assign(weight=1.0, region=np.resize(["n", "s"], 300))
    for i, name in enumerate(("repaid", "sex", "weight", "region")):
        table.loc[10 * i : 10 * i + i, name] = None
    table.to_csv("people.csv", index=False)
    done = call(
        *EXPLORE, "--weight", "weight", "--control", "region", "--drop-missing", "--json", "-"
    )
    assert done.code == 0, done.err
    study = json.loads(done.out)
    says = "10 of 300 rows were left out, because values are missing in "
    says += "repaid (1), sex (2), region (4), weight (3)"
    assert any(says in note for note in study["about"]["notes"])
    assert study["about"]["n_rows"] == 290
    assert "290 rows" in done.err
    assert {c["name"]: c["missing"] for c in study["columns"]}["sex"] == 2


def test_a_kind_is_given_to_a_column_with_a_comma_in_its_name():
    frame = people(10).assign(**{"a,b": range(10), "code": range(10)})
    roles = {"protected": ["sex"], "target": ["repaid"]}
    given = ["a,b=categorical", "code=categorical,income=categorical"]
    found, _ = column_kinds.set_kinds(frame, column_kinds.read_kinds(frame, given), roles)
    for name in ("a,b", "code", "income"):
        assert isinstance(found[name].dtype, pd.CategoricalDtype)


def test_a_folder_does_not_hide_a_data_set(call, folder):
    (folder / "diabetes").mkdir()
    done = call("fit", "diabetes", "--model", "ridge")
    assert done.code == 0, done.err
    assert "FairRidge of target" in done.out


def test_columns_that_may_not_be_meant_are_named_once(call, folder):
    table = people()
    n = len(table)
    table["euro"] = [f"{v:.2f}".replace(".", ",") for v in np.arange(n) % 7 + 0.5]
    table["rate"] = [f"{i % 9},{i % 10}00.5 %" for i in range(n)]
    table["gross"] = np.where(np.arange(n) % 20 == 0, "unknown", table["euro"])
    table["when"] = [f"2020-01-{i % 28 + 1:02d}" for i in range(n)]
    table["since"] = [f"{i % 28 + 1}.3.21" for i in range(n)]
    table["id"] = np.random.default_rng(0).permutation(n)
    table["user name"] = [f"u{i}" for i in range(n)]
    table["code"] = [f"A{i % 5}" for i in range(n)]
    table["half"] = [f"{i % 5}" if i % 2 else f"x{i % 5}" for i in range(n)]
    table["flag"] = np.resize(["1", "2"], n)
    names = [name for name in table if name not in ("sex", "repaid")]
    told = list(doubtful_columns(table, names))
    assert [text.split(":")[0] for text in told] == [
        "'euro', 'rate', 'gross'",
        "'when', 'since'",
        "'id', 'user name'",
    ]
    assert told[0].endswith("--drop euro --drop rate --drop gross")
    assert told[2].endswith("--drop id --drop 'user name'")
    assert list(doubtful_columns(people(), ["income", "city"])) == []
    assert list(doubtful_columns(table.astype({"euro": "category"}), ["euro"])) == []
    table[["sex", "repaid", "income", "euro", "id"]].to_csv("people.csv", index=False)
    done = call(*FIT, "--model", "ridge-classifier")
    assert done.code == 0, done.err
    assert done.err.count("people.csv was read with: decimal commas in euro.\n") == 1
    assert (
        done.err.count("Left out, because they look like identifiers: 'id'. To use them: --keep")
        == 1
    )
    done = call(*FIT, "--model", "ridge-classifier", "--keep", "id")
    assert done.err.count("Warning: 'id': a different value in every row") == 1


def test_categories_that_training_did_not_have_are_counted(call, folder):
    assert call(*FIT, "--out", "m.skops").code == 0
    new = people(60).assign(city="Wien")
    new.to_csv("new.csv", index=False)
    predict = ("predict", "new.csv", "--model", "m.skops")
    says = "Warning: column 'city': 60 of 60 values were not in the training data, e.g. 'Wien'. "
    done = call(*predict, "--out", "p.csv")
    assert done.code == 0
    assert done.err.count(says) == 1
    audit = ("audit", "new.csv", "--model", "m.skops", "--protected", "sex", "--parts", "scores")
    assert call(*audit).err.count(says) == 1
    new.assign(city=np.resize(["Aachen", "Bonn", "Wien"], 60)).to_csv("new.csv", index=False)
    assert "Warning: column 'city': 20 of 60 values" in call(*predict).err
    new.assign(city=np.resize(["Wien", "Graz"], 60)).to_csv("new.csv", index=False)
    refused(call(*predict), "column 'city': none of its 60 values was in the training data")
    done = call(*audit)
    assert done.code == 2
    assert "Error: column 'city': none of its 60 values was in the training data" in done.err
    people(60).to_csv("new.csv", index=False)
    assert "Warning" not in call(*predict).err


# ------------------------------------------------------------------ files


COLLISIONS = [
    ((*EXPLORE, "--out", "people.csv"), "--out people.csv and DATA people.csv are one file"),
    ((*EXPLORE, "--out", "link.csv"), "--out link.csv and DATA people.csv are one file"),
    ((*EXPLORE, "--out", "a", "--json", "./a"), "--json a and --out a are one file"),
    ((*EXPLORE, "--out", "a", "--save-model", "a"), "--save-model a and --out a are one file"),
    ((*EXPLORE, "--json", "people.csv"), "--json people.csv and DATA people.csv are one file"),
    ((*FIT, "--out", "people.csv"), "--out people.csv and DATA people.csv are one file"),
    ((*FIT, "--out", "a", "--json", "a"), "--json a and --out a are one file"),
    ((*FIT, "--audit", "--json", "a", "--markdown", "a"), "--markdown a and --json a are one"),
    (
        ("predict", "people.csv", "--model", "m", "--out", "a", "--json", "a"),
        "--json a and --out a",
    ),
    (("predict", "people.csv", "--model", "m", "--out", "m"), "--out m and --model m are one file"),
    (
        ("audit", "people.csv", "--model", "m", "--protected", "sex", "--json", "m"),
        "--json m and --model m are one file",
    ),
]


@pytest.mark.parametrize(("arguments", "says"), COLLISIONS)
def test_no_file_is_written_over_another_of_the_same_command(call, folder, arguments, says):
    (folder / "m").write_bytes(b"a model")
    (folder / "link.csv").symlink_to("people.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(call(*arguments), says)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "arguments", [EXPLORE, FIT, ("predict", "people.csv", "--model", "m.skops")]
)
def test_a_folder_that_cannot_be_written_is_found_before_the_work(call, monkeypatch, arguments):
    def read_only(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(options.tempfile, "TemporaryFile", read_only)
    monkeypatch.setattr("fairspan.cli.tables.read_data", never)
    monkeypatch.setattr("fairspan.cli.read.read_data", never)
    refused(call(*arguments, "--out", "r"), "--out r cannot be written (Permission denied)")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_can_be_written_to_and_a_socket_cannot(call, folder):
    os.mkfifo(folder / "pipe")
    options.check_output_file(Path("pipe"), "--out")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        refused(call(*EXPLORE, "--out", "socket"), "--out socket is a socket, not a file")
    refused(call(*FIT, "--out", "-"), "--out - is not allowed")
    refused(call(*FIT, "--audit", "--plot", "-"), "--plot - is not allowed")


def test_a_reader_that_leaves_early_takes_no_file_away(folder):
    command = [sys.executable, "-m", "fairspan", *EXPLORE, "--save-model", "m.skops", "--json", "a"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"people.csv: 300 rows")
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 0, said
    assert b"Error" not in said
    assert b"Exception" not in said
    assert (folder / "report.html").stat().st_size > 1e5
    assert json.loads((folder / "a").read_bytes())["fairness"] == [0, 0.5, 1]
    assert fairspan.load_model(folder / "m.skops").predict(people(5)).shape == (5,)


def test_lines_for_a_reader_that_has_gone_are_no_error(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        for text in ("one", "two"):
            output.print_result(text)


def test_a_dash_in_the_table_is_explained(call, folder):
    table = people(120)
    table.loc[:9, "sex"] = "x"  # about 3 of them are held out
    table.to_csv("people.csv", index=False)
    says = "\n- : too few held-out rows in a group (a larger --test-share gives more)\n"
    assert says in call(*EXPLORE).out
    assert says not in call(*EXPLORE, "--test-share", "0.9").out
