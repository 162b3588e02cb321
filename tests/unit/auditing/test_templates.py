"""Documents about audits: numbers, complete sections, marked lines, and words that they must not use."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from tests.unit.auditing.test_documents import Tags

from fairspan import FairGPClassifier, audit, metrics
from fairspan.auditing.documents import TO_FILL
from fairspan.auditing.model_facts import model_facts
from fairspan.auditing.templates import TEMPLATES
from fairspan.report.labels import label_audit
from fairspan.tables.dictionary import ColumnWords

# Conclusions about law, which no document may draw; "law" alone is part of a name.
FORBIDDEN = re.compile(
    r"complian|complies|comply|legal|lawful|illegal|discriminat|violat|guilty", re.I
)
PARTS = ["scores", "decisions"]


def people(n: int = 500):
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.385, 0.015])
    X = rng.normal(size=(n, 3))
    X[:, 0] += sex == "m"
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(int)
    return X, y, {"sex": sex, "race": race}


def audited(kind: str):
    X, y, s = people()
    options = {"sensitive_features": s, "parts": PARTS, "n_boot": 60}
    if kind == "ours":
        model = FairGPClassifier(random_state=0).fit(X[:250], y[:250], sensitive_features=_half(s))
        return audit(model, X[250:], y[250:], **options | {"sensitive_features": _half(s, 1)})
    if kind == "sklearn":
        return audit(LogisticRegression().fit(X, y), X, y, **options)
    if kind == "scores":
        return audit(X[:, 0], **options, pos_label=None)
    if kind == "decisions":
        return audit(np.where(X[:, 0] > 0, "yes", "no"), **options, pos_label="yes")
    if kind == "three classes":
        labels = np.digitize(X[:, 0], [-0.5, 0.5]).astype(str)
        return audit(np.array(labels, object), **options)
    return audit(LinearRegression().fit(X, X[:, 1]), X, X[:, 1], **options)


def _half(s, which: int = 0):
    return {name: values[250 * which :][:250] for name, values in s.items()}


KINDS = ("ours", "sklearn", "scores", "decisions", "three classes", "numbers")


@pytest.fixture(scope="module")
def audits():
    return {kind: audited(kind) for kind in KINDS}


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_complete_and_draw_no_conclusion_about_law(audits, template, kind):
    text = audits[kind].to_markdown(template=template)
    assert FORBIDDEN.findall(text) == []
    assert text.startswith("# ")
    assert text.count(f"**{TO_FILL}**") >= 5
    assert re.findall(r"\bnan\b|\bNone\b|[{}]|Estimate\(|\[\]|\(\)", text) == []
    # No heading is empty: another heading of the same or a higher level never follows at once.
    levels = [len(h[0]) for h in re.findall(r"^(#+) ", text, re.M)]
    assert levels[0] == 1
    parts = re.split(r"^#+ .*$", text, flags=re.M)[1:]
    headings = re.findall(r"^(#+) (.*)$", text, re.M)
    for (marks, title), body, after in zip(
        headings, parts, [*headings[1:], ("#", "")], strict=True
    ):
        assert body.strip() or len(after[0]) > len(marks), title
    page = audits[kind].to_html(template=template)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert page.count(TO_FILL) == text.count(TO_FILL)
    assert FORBIDDEN.findall(page) == []


def test_annex_iv_has_its_nine_sections(audits):
    text = audits["ours"].to_markdown(template="annex-iv")
    assert re.findall(r"^## (\d)\. ", text, re.M) == list("123456789")
    for letter in "abcdefgh":
        assert text.count(f"({letter})") >= 2  # in sections 1 and 2


def test_numbers_are_those_of_the_metrics(audits):
    X, y, s = people()
    result = audits["sklearn"]
    decided = LogisticRegression().fit(X, y).predict(X)
    text = result.to_markdown(template="adverse-impact")
    ratios = metrics.adverse_impact_ratios(decided, sensitive_features=s["sex"])
    shortfalls = metrics.selection_shortfalls(decided, sensitive_features=s["sex"])
    tests = metrics.selection_tests(decided, sensitive_features=s["sex"])
    (ratio, shortfall, test) = (
        each["sensitive_feature_0"]["f"] for each in (ratios, shortfalls, tests)
    )
    (line,) = re.findall(r"^\| f \| .*at least|^\| f \|.*$", text, re.M)[:1]
    assert f"| {ratio:.2f} (" in line
    assert f"| {shortfall:.1f} (" in line
    assert f"| f | {test.z:.2f} |" in text


def test_local_law_144_gives_scoring_rates_by_category_and_intersection(audits):
    X, _, s = people()
    text = audits["scores"].to_markdown(template="ll144")
    assert "Scoring rates by sex x race" in text
    rates = metrics.scoring_rates(X[:, 0], sensitive_features=s, intersectional=True)["sex x race"]
    for group, rate in rates.items():
        assert f"| {group.replace('&', '&amp;')} | " in text
        assert f"| {100 * rate:.1f} % |" in text
    share = np.mean(s["race"] == "c")
    assert share < 0.02
    assert f"left out: {100 * share:.1f} % of the people" in text
    ratios = metrics.scoring_rate_ratios(X[:, 0], sensitive_features=s["sex"])
    assert f"| {ratios['sensitive_feature_0']['f']:.2f} (" in text


def test_a_card_has_the_facts_of_a_fairspan_model(audits):
    text = audits["ours"].to_markdown(template="model-card")
    assert "Rows in training: 250." in text
    assert "statistical parity, equal scores between groups; fairness 1 of 1" in text
    assert "Certificate of the model" in text
    assert model_facts(None) is None


def test_rows_of_the_fit_are_said_first():
    X, y, s = people()
    model = FairGPClassifier(random_state=0).fit(X, y, sensitive_features=s)
    with pytest.warns(UserWarning, match="used for fitting"):
        result = audit(model, X, y, sensitive_features=s, parts=PARTS, n_boot=50)
    for template in TEMPLATES:
        assert "were used for fitting" in result.to_markdown(template=template)


def test_labels_of_a_dictionary_are_shown(audits):
    words = {"sex": ColumnWords(label="Sex of applicant")}
    text = label_audit(audits["sklearn"], words).to_markdown(template="ll144")
    assert "by Sex of applicant\\*" in text or "by Sex of applicant**" in text
    assert "Sex of applicant x race" in text


def test_the_template_none_is_the_audit_itself(audits, tmp_path):
    result = audits["sklearn"]
    assert result.to_markdown(template=None) == result.to_markdown()
    assert result.to_markdown().startswith("## Fairness audit")
    page = result.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page
    assert "<table" in page


def test_errors_name_what_is_missing(audits):
    with pytest.raises(ValueError, match="template='x' is not allowed; give 'adverse-impact'"):
        audits["sklearn"].to_markdown(template="x")
    with pytest.raises(ValueError, match="needs the rows"):
        replace(audits["sklearn"], rows=None).to_markdown(template="ll144")
    X, _, _ = people()
    p = np.column_stack([np.full(500, 0.3), np.full(500, 0.7)])
    p[:250] = p[:250, ::-1]
    with pytest.warns(UserWarning, match="known as probabilities"):
        result = audit(
            X[:, 0],
            sensitive_features={"r_a": p[:, 0], "r_b": p[:, 1]},
            sensitive_kind={"r": "probabilities"},
            parts=["scores"],
            n_boot=50,
        )
    with pytest.raises(ValueError, match="'r' is probabilities"):
        result.to_markdown(template="adverse-impact")
