"""The favourable class: which one the command line and the page take, and that they say so."""

import json
import string
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

import fairspan  # noqa: E402
from fairspan.report import explore  # noqa: E402

SILENT = pytest.mark.regression("the favourable class is picked silently")
QUICK = ("--parts", "scores,decisions")
# Two classes, the name of the target, and the class that a reader would call favourable, where it is
# not the larger label.
PAIRS = [
    (("approved", "denied"), "decision", "approved"),
    (("Accepted ", " REJECTED"), "outcome", "Accepted "),
    (("fully paid", "charged_off"), "loan_status", "fully paid"),
    (("paid", "unpaid"), "status", "paid"),
    (("hired", "not hired"), "result", "hired"),
    (("no", "yes"), "default", "no"),
    ((0, 1), "loan_default", 0),
    ((False, True), "isFraud", False),
]


def people(labels, target, n=240):
    """A table whose target has these labels; the second is likelier for a large income."""
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    second = income + rng.normal(size=n) > 0.5
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "debt": rng.normal(size=n),
            "score": 1.0 / (1.0 + np.exp(income)),
            target: [labels[int(one)] for one in second],
        }
    )


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A CSV file with the classes "approved" and "denied" in the working folder."""
    monkeypatch.chdir(tmp_path)
    frame = people(("approved", "denied"), "decision")
    frame.to_csv("people.csv", index=False)
    return frame


def announced(err):
    (line,) = [line for line in err.splitlines() if line.startswith("Favourable class: ")]
    return line


# ------------------------------------------------------------------ commands


@SILENT
@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_explore_takes_the_favourable_class_and_says_so(call, table, tmp_path):
    done = call(
        "explore", "people.csv", "--target", "decision", "--protected", "sex", "--drop", "score",
        "--points", "3", *QUICK, "--json", "-", "--save-model", "m.skops",
    )  # fmt: skip
    assert done.code == 0, done.err
    target = json.loads(done.out)["target"]
    assert target["positive"] == "approved"
    assert (target["named"], target["reason"]) == (False, "'approved' reads as favourable")
    line = announced(done.err)
    assert "'approved'" in line
    assert "--positive" in line
    assert fairspan.load_model(tmp_path / "m.skops").pos_label == "approved"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"positive":"approved"' in page


@SILENT
@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity"])
@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_fit_takes_the_favourable_class_says_so_and_the_model_keeps_it(
    call, table, tmp_path, criterion
):
    done = call(
        "fit", "people.csv", "--target", "decision", "--protected", "sex", "--drop", "score",
        "--criterion", criterion, "--out", "m.skops", "--json", "fit.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "'approved'" in announced(done.err)
    assert fairspan.load_model(tmp_path / "m.skops").pos_label == "approved"
    found = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))["favourable"]
    assert found == {
        "label": "approved",
        "named": False,
        "reason": "'approved' reads as favourable",
    }
    # An audit of the model is about the class that it was fitted with.
    done = call(
        "audit", "people.csv", "--model", "m.skops", "--target", "decision", "--protected", "sex",
        *QUICK, "--json", "-",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads(done.out)["settings"]["positive"] == ["approved"]
    assert "as the model was fitted" in announced(done.err)


@SILENT
@pytest.mark.parametrize("given", [("--scores", "score"), ("--decisions", "decided")])
def test_an_audit_of_a_table_takes_the_favourable_class_and_says_so(call, table, given):
    table["decided"] = np.where(table["score"] > 0.5, "approved", "denied")
    table.to_csv("people.csv", index=False)
    done = call(
        "audit", "people.csv", *given, "--target", "decision", "--protected", "sex", *QUICK,
        "--json", "-", "--no-features",
    )  # fmt: skip
    assert done.code == 0, done.err
    settings = json.loads(done.out)["settings"]
    assert settings["positive"] == ["approved"]
    assert settings["favourable"]["label"] == "approved"
    assert "'approved'" in announced(done.err)
    assert "Warning" not in done.err  # the scores are larger for it


def test_scores_that_are_smaller_for_the_favourable_class_are_warned_of(call, table):
    table["risk"] = 1.0 - table["score"]
    table.to_csv("people.csv", index=False)
    command = ("audit", "people.csv", "--scores", "risk", "--target", "decision", "--protected",
               "sex", *QUICK, "--no-features")  # fmt: skip
    done = call(*command)
    assert done.code == 0, done.err
    assert "the scores 'risk' are smaller for the favourable class 'approved'" in done.err
    done = call(*command, "--positive", "denied")
    assert "smaller" not in done.err


@pytest.mark.parametrize("option", ["--positive", "--pos-label"])
@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_the_user_has_the_last_word(call, table, tmp_path, option):
    common = ("people.csv", "--target", "decision", "--protected", "sex", option, "denied")
    done = call("fit", *common, "--drop", "score", "--out", "m.skops", "--json", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["favourable"] == {
        "label": "denied",
        "named": True,
        "reason": "as you asked",
    }
    assert announced(done.err) == "Favourable class: 'denied' (as you asked)."
    done = call("explore", *common, "--drop", "score", "--points", "3", *QUICK, "--json", "-")
    assert json.loads(done.out)["target"] | {"classes": 0} == {
        "name": "decision",
        "classes": 0,
        "positive": "denied",
        "named": True,
        "reason": "as you asked",
    }
    done = call("audit", *common, "--model", "m.skops", *QUICK, "--json", "-")
    assert json.loads(done.out)["settings"]["positive"] == ["denied"]


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_number_has_no_favourable_class(call, table, tmp_path):
    for command in (("explore", "--points", "3"), ("fit", "--out", "m.skops", "--audit")):
        done = call(
            command[0], "people.csv", "--target", "debt", "--protected", "sex", "--drop",
            "decision", *command[1:], *QUICK, "--json", "-",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert "Favourable" not in done.err
    assert "favourable" not in json.loads(done.out)["settings"]
    done = call(
        "audit",
        "people.csv",
        "--target",
        "debt",
        "--protected",
        "sex",
        "--model",
        "m.skops",
        *QUICK,
    )
    assert done.code == 0, done.err
    assert "Favourable" not in done.err


@pytest.mark.parametrize("command", ["explore", "fit"])
def test_equal_opportunity_is_not_fitted_for_a_class_that_no_word_names(call, table, command):
    table["decision"] = table["decision"].map({"approved": "left", "denied": "right"})
    table.to_csv("people.csv", index=False)
    done = call(
        command, "people.csv", "--target", "decision", "--protected", "sex", "--criterion", "eop"
    )
    assert done.code == 2
    assert done.err.startswith(
        "Error: Equal opportunity needs the favourable class, and the labels"
    )
    assert "--positive" in done.err


# ------------------------------------------------------------------ the page


@SILENT
@pytest.mark.parametrize(("labels", "target", "favourable"), PAIRS)
@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_the_page_takes_the_class_that_a_reader_would(labels, target, favourable):
    report = explore(
        people(labels, target).drop(columns="score"),
        target=target,
        sensitive_features="sex",
        model=fairspan.FairRidgeClassifier(gamma=0.5, eta=0.1, alpha=1.0, random_state=0),
        n_points=2,
        n_boot=20,
        audit_parts=["decisions"],
    )
    assert report.study["target"]["positive"] == str(favourable)
    assert report.model.pos_label == favourable
    assert report.audit.settings["positive"] == [str(favourable)]
    assert any(note.startswith("Favourable class: ") for note in report.study["about"]["notes"])
    assert f"Favourable class: {favourable}" in repr(report)
    # The code on the page names the class, too.
    assert f"pos_label={favourable!r}" in report.study["positions"][-1]["snippet"]


@SILENT
def test_people_gain_or_lose_only_a_class_that_the_user_has_named():
    named = "if (study.target.named) return [`Gained ${outcome}`, `Lost ${outcome}`];"
    folder = resources.files("fairspan.report") / "page"
    for file in folder.iterdir():
        if file.name.endswith((".js", ".html")):
            text = file.read_text(encoding="utf-8").replace(named, "").lower()
            assert "gained" not in text, file.name
            assert " lost" not in text, file.name


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_of_three_classes_none_is_favourable_unless_it_is_named():
    frame = people(("approved", "denied"), "decision", n=400).drop(columns="score")
    frame.loc[frame["debt"] > 0.7, "decision"] = "pending"
    options = {
        "target": "decision",
        "sensitive_features": "sex",
        "n_points": 2,
        "n_boot": 20,
        "model": fairspan.FairRidgeClassifier(gamma=0.5, eta=0.1, alpha=1.0, random_state=0),
        "audit_parts": ["decisions"],
    }
    study = explore(frame, **options).study
    assert study["target"]["positive"] is None
    assert not any("Favourable" in note for note in study["about"]["notes"])
    options["model"].set_params(pos_label="pending")
    study = explore(frame, **options).study
    assert (study["target"]["positive"], study["target"]["named"]) == ("pending", True)


# ------------------------------------------------------------------ the guess


def guess(labels, target="outcome"):
    from fairspan.report.training import choose_favourable

    return choose_favourable(labels, target)


@pytest.mark.parametrize(
    ("labels", "target", "favourable", "reason"),
    [
        (("good", "bad"), "risk", "good", "'good' reads as favourable"),
        (("Yes", "No"), "approved", "Yes", "'Yes' reads as favourable"),
        (("y", "n"), "late_payment", "n", "the target's name, 'late_payment', reads as unfavourable"),
        (("t", "f"), "hired", "t", "'t' reads as favourable"),
        (("+", "-"), "class", "+", "'+' reads as favourable"),
        (("f", "m"), "sex", "m", "the larger of the two labels"),
        (("<=50K", ">50K"), "income", ">50K", "the larger of the two labels"),
        (("late", "default"), "status", "late",
         "the larger of the two labels; both read as unfavourable"),
        (("default", "no default"), "status", "no default", "'no default' reads as favourable"),
        (("active", "inactive"), "status", "active",
         "the other class, 'inactive', reads as unfavourable"),
        (("10", "9"), "grade", "10", "the larger of the two labels"),
        ((-1, 1), "charged off", -1, "the target's name, 'charged off', reads as unfavourable"),
        ((1.0, 2.0), "credit", 2.0, "the larger of the two labels"),
        ((0, 1), "no_default", 1, "the larger of the two labels"),
        ((0, 1), "never late", 1, "the larger of the two labels"),
        ((0, 1), "faultless", 1, "the larger of the two labels"),
        ((0, 1), "default.payment.next.month", 0,
         "the target's name, 'default.payment.next.month', reads as unfavourable"),
    ],
)  # fmt: skip
def test_words_decide(labels, target, favourable, reason):
    for order in (labels, labels[::-1]):
        found = guess(order, target)
        assert (found.label, found.reason, found.named) == (favourable, reason, False)


WORDS = st.text(string.ascii_letters + string.digits + " _-+<>=.", min_size=1, max_size=12)


@given(st.lists(WORDS, min_size=2, max_size=2, unique=True), WORDS)
def test_the_guess_is_a_label_whatever_the_order(labels, target):
    found = guess(labels, target)
    assert found.label in labels
    back = guess(labels[::-1], target)
    if len({*map(str.strip, labels)}) == 2:
        assert back == found or _same_number(labels)


def _same_number(labels):
    """Two texts of one number, as "1" and "1.0", have no larger one."""
    try:
        return float(labels[0]) == float(labels[1])
    except ValueError:
        return False


@given(st.lists(st.integers(-9, 9) | st.floats(-9, 9), min_size=2, max_size=2, unique=True))
def test_of_numbers_it_is_the_larger(labels):
    assert guess(labels, "grade").label == max(labels)
    assert guess(labels, "default").label == min(labels)
