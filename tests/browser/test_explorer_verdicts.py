"""The sheet that is signed: its numbers against the library, its words, and that it is one page."""

import re

import numpy as np
import pytest

import fairspan
from fairspan.metrics import demographic_parity_difference, demographic_parity_ratio
from fairspan.metrics.yardsticks import read_yardstick
from tests.browser.reports import Example, loans, several_classes, small_group
from tests.browser.test_explorer import move, shown
from tests.browser.test_explorer_numbers import NEAR, near, rows_of, trained

LIMITS = ["ratio=0.8", "gap=0.05", "correlation=0.2"]
# A4 without the margins of 11 mm, in pixels.
SHEET = (711, 1039)


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Example:
    path = tmp_path_factory.mktemp("judged") / "loans.html"
    return loans(path, limits=LIMITS, date="2024-05-31")


def findings(model, held, target, attributes, **options):
    """What an audit finds on the held-out rows, with the draws of the page."""
    found = fairspan.audit(
        model,
        held,
        held[target],
        sensitive_features=held[attributes],
        n_boot=40,
        random_state=0,
        parts=["scores", "decisions"],
        **options,
    )
    return {(f.metric, f.attribute, f.group, f.where): f for f in found.findings}


def written(text):
    """The ranges that are written in brackets."""
    return [[float(x) for x in r] for r in re.findall(r"\(([\d.]+) to ([\d.]+)%?\)", text)]


@pytest.mark.parametrize("i", [0, 5, 10])
def test_every_number_is_the_librarys(opened, judged, monkeypatch, i):
    page = opened("loans", path=judged.path)
    move(page, i)
    model, held, predictions = trained(page, judged.path.parent, monkeypatch)
    first = model.at(0.0).predict(held)
    assert shown(page, "#verdict-lead", "changed") == [np.sum(predictions != first)]
    audited = findings(model, held, "repaid", ["group", "sex"], pos_label="yes")
    verdicts = judged.study["positions"][i]["verdicts"]
    assert len(verdicts) == 6
    for j, attribute in enumerate(("group", "sex")):
        card, groups = f"#verdict-{j}", held[attribute].to_numpy()
        labels = sorted(set(groups))
        rows = rows_of(page, card)
        assert [name for name, _ in rows] == labels
        for (_, found), g in zip(rows, labels, strict=True):
            mine = groups == g
            yes, before = (p[mine] == "yes" for p in (predictions, first))
            gained, lost = np.sum(yes & ~before), np.sum(before & ~yes)
            assert found == near([mine.sum(), yes.mean(), gained, lost])
        given = {"sensitive_features": groups, "pos_label": "yes"}
        truth = held["repaid"].to_numpy()
        for metric, of in (
            ("demographic_parity_ratio", demographic_parity_ratio),
            ("demographic_parity_difference", demographic_parity_difference),
        ):
            assert shown(page, card, metric) == near([of(truth, predictions, **given)])
        mine = [v for v in verdicts if v["attribute"] == attribute]
        metrics = ("ratio", "difference", "correlation")
        names = [f"demographic_parity_{m}" for m in metrics[:2]] + [
            "statistical_parity_correlation"
        ]
        text = page.inner_text(card)
        for verdict, name, limit in zip(mine, names, LIMITS, strict=True):
            f = audited[name, attribute, "", ""]
            assert [verdict[k] for k in ("value", "low", "high")] == near([f.value, f.low, f.high])
            assert shown(page, card, name) == near([f.value])
            expected = read_yardstick(limit).judge(f.low, f.high)
            assert verdict["verdict"] == expected
            assert verdict["words"] in text
            scale, digits = (100, 1) if "difference" in name else (1, 3)
            ranges = [scale * x for x in (f.low, f.high)]
            assert any(r == pytest.approx(ranges, abs=0.51 / 10**digits) for r in written(text))
        shown_verdicts = page.locator(f"{card} .verdict").evaluate_all(
            "all => all.map(one => one.dataset.verdict)"
        )
        assert shown_verdicts == [v["verdict"] for v in mine]
        for g in labels:
            f = audited["selection_rate", attribute, g, ""]
            ranges = [100 * x for x in (f.low, f.high)]
            assert any(r == pytest.approx(ranges, abs=0.051) for r in written(text))


def test_a_class_that_the_user_named_is_gained_or_lost(opened, judged):
    text = opened("loans", path=judged.path).inner_text("#verdict-0").lower()
    assert "gained repaid = yes" in text
    assert "lost repaid = yes" in text
    assert "changed to" not in text


def test_other_classes_are_changed_to(opened, tmp_path):
    page = opened("loans", path=small_group(tmp_path / "small.html").path)
    text = page.inner_text("#verdict")
    assert "Changed to repaid = yes" in text
    assert "Changed to repaid = no" in text
    assert not re.search(r"gained|\blost\b", text.lower())
    assert "Rates are those of repaid = yes, a guess" in text
    assert "few (2 people)" in text or "few has only" in text


def test_without_a_favourable_class_every_class_has_its_shares(opened, tmp_path):
    example = several_classes(tmp_path / "classes.html", date="2024-05-31")
    page = opened("loans", path=example.path)
    move(page, 10)
    at = example.study["positions"][10]
    rows = [found for _, found in rows_of(page, "#verdict-0") if found]
    expected = [
        [row["n"], row["classes"][k]["selection_rate"]["value"], row["classes"][k]["now_chosen"]]
        for k in range(3)
        for row in at["rates"]["sex"]
    ]
    assert rows == expected
    assert example.study["limits"] == {"stated": False, "given": ["correlation=0.1"]}
    (row,) = [
        p
        for p in at["parity"]
        if p["metric"] == "statistical_parity_correlation" and not p["where"]
    ]
    assert shown(page, "#verdict-0", "statistical_parity_correlation") == [row["value"]]


def test_of_a_number_means_and_their_change_are_shown(opened, examples, monkeypatch):
    page = opened("numbers")
    move(page, 10)
    model, held, predictions = trained(page, examples["numbers"].path.parent, monkeypatch)
    first = model.at(0.0).predict(held)
    for (_, found), g in zip(rows_of(page, "#verdict-0"), ("f", "m"), strict=True):
        mine = held["sex"].to_numpy() == g
        change = predictions[mine].mean() - first[mine].mean()
        assert found[:2] == near([mine.sum(), predictions[mine].mean()])
        # A difference of two numbers of six digits.
        assert found[2] == pytest.approx(change, abs=2e-5 * abs(first[mine].mean()))
    correlation = abs(np.corrcoef(predictions, held["age"])[0, 1])
    found = shown(page, "#verdict-1", "statistical_parity_correlation")
    assert found == [pytest.approx(correlation, **NEAR)]
    assert "correlation of the prediction with age" in page.inner_text("#verdict-1")
    assert shown(page, "#verdict-1", "mean_prediction_difference") == []


def test_the_page_says_which_data_and_model(opened, judged):
    page = opened("loans", path=judged.path)
    text = page.inner_text("#view-origin")
    origin = judged.study["provenance"]
    for part in (
        "2024-05-31",
        origin["data_digest"],
        origin["model_digest"],
        "ratio=0.8, gap=0.05",
    ):
        assert part in text.replace("\n", " ")
    assert f"fairspan {fairspan.__version__}" in text
    assert re.search(r"Name\s+Date\s+Signature", text)
    sentences = page.locator("#view-reading li").all_inner_texts()
    assert sentences == judged.study["reading"]
    assert len(sentences) == 10
    assert "compl" not in page.inner_text("#verdict").lower()  # no word of compliance


def test_the_sheet_is_one_printed_page_and_the_rest_is_its_annex(opened, tmp_path):
    example = loans(tmp_path / "print.html", limits=LIMITS[:2], date="2024-05-31")
    page = opened("loans", path=example.path, width=SHEET[0])
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    bottom = page.evaluate(
        "document.querySelector('#verdict').getBoundingClientRect().bottom + scrollY"
    )
    assert bottom <= SHEET[1]
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#glance')).breakBefore") == "page"
    )
    assert page.is_visible("#view-origin .sign")
    assert page.is_visible("#view-reading")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
