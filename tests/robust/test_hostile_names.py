"""Names from data (columns, groups, labels, files) are only names wherever we show or write them."""

import csv
import io
import json
import re
from functools import cache

import numpy as np
import pytest

pytest.importorskip("skops")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("typer")

import pandas as pd

from fairspan import FairRidge, FairRidgeClassifier, audit, load_model, save_model
from fairspan._system import inert
from fairspan.plotting import TradeoffDisplay, plain_label
from fairspan_lab.cells import write_table
from fairspan_lab.reproduce._cells import Cell, finished
from tests.support.small import FIXED, table

NAMES = {
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+cmd()",
    "minus": "-2+3+cmd()",
    "at": "@SUM(1+1)",
    "tab": "\t=1+1",
    "carriage return": "\r=1+1",
    "line break": "sex\n  ! FORGED: all is well",
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "red": "\x1b[31mred\x1b[0m",
    "window title": "\x1b]0;title\x07",
    "eight-bit escape": "\x9b31mred",
    "bell": "\x07",
    "NUL": "a\x00b",
    "path": "../../x",
    "absolute path": "/etc/passwd",
    "backslashes": "..\\..\\x",
    "right to left": "\u202egnp.exe",
    "isolates": "\u2066x\u2069",
    "nothing to see": "a\u200bb",
    "line separator": "a\u2028b",
    "bars": "a | b | c",
    "link": "[x](javascript:alert(1))",
    "picture": "![x](http://example.org/x.png)",
    "address": "https://example.org",
    "www": "www.example.org",
    "code": "`x`",
    "heading": "# x",
    "list": "1. x",
    "entity": "&lt;b&gt;",
    "formula of TeX": "$\\frac{1}{",
    "hidden": "_hidden",
    "markup": "[bold red]x[/bold red]",
    "format": "%s%n{0}{x!r}",
    "long": "x" * 40_000,  # more than a cell of a spreadsheet holds
    "emoji": "\U0001f469\u200d\U0001f52c",
    "JSON": '", "forged": "1',
}
PLAIN = "sex"
each_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")


@cache
def audited(name):
    """An audit in which everything that can have a name has this one."""
    X, y, s = table(300)
    labels = np.where(y == 1, name, "other")
    groups = np.where(s == 1, f"{name}", "rest")
    strata = np.where(X[:, 1] > 0, f"{name}", "low")
    return audit(
        X[:, 0], y=labels, decisions=np.where(X[:, 0] > 0.5, name, "other"), pos_label=name,
        sensitive_features={name: groups}, control_features={f"{name}2": strata},
        parts=["scores", "decisions"], n_boot=20, n_permutations=19, random_state=0,
    )  # fmt: skip


def unprintable(text):
    return {c for c in text if not c.isprintable()} - {"\n"}


# ------------------------------------------------------------------ audits


@pytest.fixture
def plain():
    return audited(PLAIN)


@each_name
def test_an_audit_in_words_has_the_lines_of_any_other(name, plain):
    found = audited(name)
    assert not unprintable(repr(found))
    assert len(repr(found).split("\n")) == len(repr(plain).split("\n"))
    assert max(map(len, repr(found).split("\n"))) < 2500
    assert not re.search(r"^\s*! FORGED", repr(found), re.M)


def cells(line):
    """Of a line of a Markdown table, as a reader of Markdown splits it."""
    return re.split(r"(?<!\\)\|", line)[1:-1]


@each_name
def test_an_audit_in_markdown_has_the_cells_of_any_other_and_nothing_active(name, plain):
    lines = audited(name).to_markdown().split("\n")
    expected = plain.to_markdown().split("\n")
    assert len(lines) == len(expected)
    for line, usual in zip(lines, expected, strict=True):
        assert not unprintable(line)
        assert len(cells(line)) == len(cells(usual))
        bare = re.sub(r"\\[\\`*_\[\]!|~#$:/.+-]", "", line)
        assert not set("<>`$") & set(bare), line
        assert "](" not in bare
        assert not re.search(r"https?://|(?i:www\.)", bare)
        assert not re.search(r"&(?!amp;|lt;|gt;)", bare)
        if usual.startswith("- "):
            assert not re.match(r"- (\d+[.)]|[-+*#])", line)


@each_name
def test_an_audit_in_json_is_the_same_names(name):
    found = audited(name)
    text = found.to_json()
    back = json.loads(text)
    assert set(back["groups"]) >= {name}
    assert set(back["groups"][name]) == {name, "rest"}
    assert "forged" not in back
    assert not {c for c in text if ord(c) < 32} - {"\n"}


def texts_of(figure):
    import matplotlib.text

    figure.canvas.draw()
    return [one.get_text() for one in figure.findobj(matplotlib.text.Text) if one.get_text()]


def check_labels(figure):
    for text in texts_of(figure):
        assert not unprintable(text)
        assert len(text) < 120
        assert text.count("$") == text.count(r"\$") or text.startswith("recovered")


@each_name
@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_label_of_a_plot_is_a_name(name):
    """No formula, no second line, never left out of the legend."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    shown = TradeoffDisplay([0.0, 1.0], [0.1, 0.2], {name: [0.3, 0.1], "b": [0.2, 0.1]}).plot()
    check_labels(shown.figure_)
    legend = [one.get_text() for one in shown.ax_.get_legend().get_texts()]
    assert legend == [plain_label(name), "b"]
    pyplot.close(shown.figure_)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_labels_of_an_audits_plot_are_names():
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    X, y, s = table(300)
    for name in NAMES.values():
        shown = audit(
            X[:, 0],
            y=y,
            decisions=(X[:, 0] > 0.5).astype(int),
            parts=["scores", "decisions"],
            sensitive_features={name: s, "b": X[:, 1] > 0},
            n_boot=20,
            random_state=0,
        ).plot()
        check_labels(shown.figure_)
        assert len(shown.axes_[0].get_legend().get_texts()) == 3
        pyplot.close(shown.figure_)


# ------------------------------------------------------------------ tables of ours


@each_name
def test_no_text_in_a_table_is_a_formula(name, tmp_path):
    rows = [{"data": name, "error": -0.5, name: 1}, {"data": "=1", "error": None, name: name}]
    path = write_table(tmp_path / "table.csv", ["data", "error", name], rows, "\n")
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file))
    assert len(found) == 3
    assert found[1][1] == "-0.5"
    for cell in (found[0][2], found[1][0], found[2][2]):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        assert cell.isprintable()
        assert cell.removeprefix("'") == inert(name).strip()
    assert found[2][0] == "'=1"


@each_name
def test_a_kept_cell_with_a_text_that_is_not_ours_is_not_used(name, tmp_path):
    cell = Cell("figure1", "Adult", "gp", "none", None, True)
    row = {"figure": "figure1", "data": "Adult", "method": "gp", "measure": "SP"}
    cell.store(tmp_path, [row])
    assert finished(tmp_path, quick=True) == [row]
    cell.store(tmp_path, [{**row, "measure": name}])
    used = finished(tmp_path, quick=True)
    harmless = re.fullmatch(r"[\w .,'()-]{0,200}", name)
    assert used == ([{**row, "measure": name}] if harmless else [])
    cell.store(tmp_path, [{**row, name: 1.0}])
    assert bool(finished(tmp_path, quick=True)) == bool(harmless)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 10**5, b"\xff\xfe", b"[]", b'{"made_by": 1, "cell": [], "rows": 3}',
     b'{"made_by": 1, "cell": {"method": "gp", "quick": true}, "rows": ["=1"]}',
     b'{"made_by": 1, "cell": {"method": "gp"}, "rows": [{"a": {"b": 1}}]}'],
)  # fmt: skip
def test_a_spoiled_kept_cell_is_computed_again(content, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    assert finished(tmp_path, quick=True) == []


# ------------------------------------------------------------------ the command line

IN_A_TABLE = {k: v for k, v in NAMES.items() if k not in ("long", "NUL", "carriage return")}


@pytest.fixture
def call(call):
    """As everywhere; and whatever it prints can be printed."""

    def run(*arguments):
        done = call(*arguments)
        assert not unprintable(done.out)
        assert not unprintable(done.err)
        return done

    return run


def people(folder, sensitive, level):
    """A table in which everything has a hostile name, the file too."""
    _, y, s = table(300)
    rng = np.random.default_rng(0)
    known = list(IN_A_TABLE.values())
    frame = pd.DataFrame({name: rng.normal(size=300) for name in known if name != sensitive})
    frame = frame.iloc[:, :6]
    frame["job"] = rng.choice(known, 300)
    frame[sensitive] = np.where(s, level, "rest")
    frame["label"] = np.where(y, level, "no")
    path = folder / "=cmd() \x1b[31m \u202e.csv"
    frame.to_csv(path, index=False)
    return path, len(frame)


@pytest.mark.parametrize("kind", ["red", "line break", "script", "link", "eight-bit escape"])
def test_the_command_line_shows_names_as_names(kind, call, tmp_path):
    name = NAMES[kind]
    path, n = people(tmp_path, name, name)
    model = tmp_path / "model <script>.skops"
    code, out, err = call(
        *("fit", path, "--target", "label", "--sensitive", name, "--out", model),
        *("--pos-label", name, "--model", "ridge-classifier"),
    )
    assert code == 0, err
    assert f"{n} rows" in out
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([path.name, model.name])
    files = {"--json": tmp_path / "a.json", "--markdown": tmp_path / "a.md"}
    named = ("audit", path, "--model", model, "--target", "label", "--sensitive", name)
    fast = ("--parts", "scores,decisions", "--pos-label", name)
    code, out, err = call(*named, *fast, *(x for pair in files.items() for x in pair))
    assert code == 0, err
    assert "\n  ! FORGED" not in out
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [path.name, model.name, "a.json", "a.md"]
    )
    code, out, err = call(*named, *fast, "--json", "-")
    assert name in json.loads(out)["groups"]
    code, out, err = call(*named, *fast, "--markdown", "-")
    assert "<script>" not in out
    code, out, err = call(*named, *fast, "--target", f"{name} absent")
    assert code == 2
    assert "Traceback" not in err


@each_name
def test_an_error_of_the_command_line_is_one_inert_line(name, call, tmp_path):
    if "\x00" in name or len(name) > 1000:
        pytest.skip("no argument of a process can be that")
    for arguments in (
        ("audit", tmp_path / name.replace("/", "_"), "--sensitive", name, "--scores", name),
        ("data", "fetch", name),
        ("reproduce", name),
        ("bench", "frontier", "--data", name),
    ):
        code, _, err = call(*arguments)
        assert code == 2
        assert err.startswith(("Error:", "Usage:") if name.startswith("-") else "Error:")
        assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ streams and files


@each_name
def test_a_stream_of_hostile_names_gives_the_model_of_plain_ones(name, tmp_path):
    X, y, s = table(200)
    plain = pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=np.where(s, "u", "v"), y=y)
    made = plain.rename(columns={"a": name, "s": f"{name} s"})
    made[f"{name} s"] = np.where(s, name, "v")
    path = tmp_path / f"{inert(name, 20).replace('/', '_').strip() or 'x'}.parquet"
    made.to_parquet(path)
    given = {**FIXED, "n_components": 10, "random_state": 0}
    model = FairRidgeClassifier(**given).fit_stream(
        path, target="y", sensitive_features=f"{name} s", features=[name, "b", "c"]
    )
    usual = FairRidgeClassifier(**given).fit_stream([plain], target="y", sensitive_features="s")
    target = model.predict_stream(
        path, tmp_path / f"to {path.name}", method="decision_function", keep=f"{name} s"
    )
    written = pd.read_parquet(target)
    assert written.columns.tolist() == [f"{name} s", "score"]
    np.testing.assert_allclose(
        written["score"], usual.decision_function(plain[["a", "b", "c"]]), atol=1e-10
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([path.name, target.name])


@each_name
def test_a_saved_model_keeps_names_and_runs_nothing(name, tmp_path):
    X, y, s = table()
    model = FairRidge(**FIXED, n_components=8)
    model.fit(X, y.astype(float), sensitive_features={name: np.where(s, name, "v")})
    path = save_model(model, tmp_path / "model.skops")
    loaded = load_model(path)
    assert list(loaded.sensitive_kinds_) == [name]
    assert str(loaded.certificate_) == str(model.certificate_)
    assert [one.name for one in tmp_path.iterdir()] == ["model.skops"]


@each_name
def test_inert_text_is_one_short_printable_line(name):
    text = inert(name)
    assert text.isprintable()
    assert len(text) <= 203
    assert "\n" not in text


def test_names_are_unlike_each_other():
    assert len(set(NAMES.values())) == len(NAMES) >= 35
    text = io.StringIO()
    csv.writer(text).writerows([[name] for name in NAMES.values()])
    assert any(line.startswith("=") for line in text.getvalue().split("\r\n"))  # the danger is real
