"""What notebooks show: tables that read aloud, hold the numbers, and no name can leave."""

import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from tests.support.small import FIXED, fitted
from tests.support.small import table as small_table

from fairspan import FairRepresentation, audit
from fairspan._html import escaped, number, table
from fairspan.auditing import Audit, Finding
from fairspan.estimators import FairRidge, FairRidgeClassifier
from fairspan.estimators.path import FairnessPath, fairness_path
from fairspan.exceptions import DataWarning

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><h1>forged",
    "&lt;b&gt;",
    "a\nb",
    "\x1b[31mred",
    "\u202egnp.exe",
    "x" * 5000,
)
ALLOWED = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Reader(HTMLParser):
    """Tags, attributes and the cells of a page; what is open must be closed in turn."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.rows, self.captions, self.words = [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag = self.open[-1][0] if self.open else None
        if tag in ("th", "td"):
            self.rows[-1].append(data)
        elif tag == "caption":
            self.captions.append(data)
        elif tag == "p":
            self.words.append(data)


def read(page):
    """A page of ours: well formed, nothing active, accessible."""
    found = Reader(page)
    assert set(found.tags) <= ALLOWED
    assert {name for name, _ in found.attributes} <= {"style", "scope", "tabindex"}
    assert not any("url" in value for _, value in found.attributes)
    assert found.tags.count("table") == found.tags.count("caption") == 1
    scopes = [value for name, value in found.attributes if name == "scope"]
    assert len(scopes) == found.tags.count("th")
    assert scopes.count("col") == len(found.rows[0])
    assert scopes.count("row") == len(found.rows) - 1
    assert all(c.isprintable() for c in page)
    # Colours are those of the page, light or dark.
    styles = " ".join(value for name, value in found.attributes if name == "style")
    assert "#" not in styles
    return found


def our_part(page):
    return page[page.rindex('<div style="overflow-x:auto"') :]


# ------------------------------------------------------------------ estimators


def test_a_fitted_estimator_shows_its_diagram_and_its_promise():
    est = fitted(fairness=0.7)
    bundle = est._repr_mimebundle_()
    assert bundle["text/plain"] == repr(est)
    for page in (bundle["text/html"], est._repr_html_()):
        assert "sk-top-container" in page
        rows = dict(read(our_part(page)).rows[1:])
        assert rows["fairness"] == "0.7 (share dial)"
        assert rows["criterion"] == "statistical parity"
        assert rows["worst case over the model space, training rows"] == number(
            est.certificate_.supremum
        )
        assert rows["fitted score, training rows"] == number(est.certificate_.score)
        assert rows["training rows"] == "80"
        expected = est.certificate_.new_rows
        found = rows["expected on new rows"]
        assert found.startswith(f"{number(expected.correlation)}, at most {number(expected.high)}")
        assert rows["protected attributes"] == est.certificate_.blocks[0].attribute


def test_the_display_option_of_scikit_learn_is_kept():
    est = fitted()
    with sklearn.config_context(display="text"):
        assert not hasattr(est, "_repr_html_")
        assert est._repr_mimebundle_() == {"text/plain": repr(est)}
    with sklearn.config_context(display="diagram"):
        assert hasattr(est, "_repr_html_")


def test_before_the_fit_there_is_the_diagram_alone():
    page = FairRidge()._repr_html_()
    assert "sk-top-container" in page
    assert "overflow-x:auto" not in page


def test_a_pipelines_diagram_is_scikit_learns():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, s = small_table()
    model = make_pipeline(StandardScaler(), FairRepresentation(**FIXED))
    model.fit(X, y, fairrepresentation__sensitive_features=s)
    assert "overflow-x:auto" not in model._repr_html_()


def test_limits_and_lost_moments_are_shown():
    X, y, s = small_table()
    model = FairRidge(**FIXED, dependence="correlation").fit(X, y, sensitive_features={"sex": s})
    at = model.at(max_correlation={"sex": 0.05})
    at._state = replace(at._state, moments=None)
    rows = dict(read(our_part(at._repr_html_())).rows[1:])
    assert rows["fairness"] == "largest correlations: sex 0.05"
    assert "training rows" not in rows
    assert "largest correlations: sex 0.05" in read(at.certificate_._repr_html_()).captions[0]


# ------------------------------------------------------------------ certificate, path, audit


def test_a_certificate_shows_its_table_and_its_words():
    X, y, s = small_table()
    est = FairRidgeClassifier(
        **FIXED, criterion="equalized_odds", n_sensitive_directions=1, removal="training_rows"
    )
    age = X[:, 2] + 0.1 * X[:, 0]
    with pytest.warns(DataWarning, match="4 of 10 in y=0, 4 of 10 in y=1"):
        est.fit(X, y, sensitive_features={"sex": s, "age": age})
    certificate = est.certificate_
    found = read(certificate._repr_html_())
    assert "equalized odds" in found.captions[0]
    assert len(found.rows) == 1 + len(certificate.blocks)
    for row, block in zip(found.rows[1:], certificate.blocks, strict=True):
        assert row[:2] == [block.cell, block.attribute]
        assert row[-1] == str(block.n_rows)
    assert found.words[0].startswith("Training rows: no function of the model space")
    said = str(certificate).removesuffix(certificate.table()).splitlines()[1:]
    assert [text.lower() for text in found.words] == [text.lower() for text in said]


@pytest.mark.parametrize("n_points", [2, 7, 101])
def test_a_path_shows_a_few_places(n_points):
    X, y, s = small_table()
    est = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features={"sex": s})
    path = FairnessPath.from_estimator(est, X, y, sensitive_features={"sex": s}, n_points=n_points)
    found = read(path._repr_html_())
    rows = found.rows[1:]
    assert len(rows) == min(n_points, 11)
    assert [float(row[0]) for row in rows] == pytest.approx(
        np.linspace(0, 1, min(n_points, 11)), abs=0.01
    )
    for i, row in ((0, rows[0]), (-1, rows[-1])):
        assert row[1] == number(path.error[i])
        assert row[2] == number(path.curve("correlation", "sex")[i])
        assert row[3] == number(path.certificate[i])
    assert "training rows" in found.words[0]
    assert number(path.noise) in found.words[1]


def test_a_path_on_new_rows_shows_its_intervals():
    X, y, s = small_table(300)
    est = FairRidgeClassifier(**FIXED)
    path = fairness_path(est, X, y, sensitive_features={"sex": s}, n_points=3, cv=2)
    found = read(path._repr_html_())
    for column, bounds in ((1, path.bounds("error")), (2, path.bounds("correlation", "sex"))):
        values = zip(bounds.value, bounds.lower, bounds.upper, strict=True)
        expected = [f"{number(v)} ({number(low)} to {number(high)})" for v, low, high in values]
        assert [row[column] for row in found.rows[1:]] == expected
    assert found.words[0] == "With intervals on new rows (out of fold), 95 %."


def test_an_audit_shows_its_gaps_and_what_stands_out():
    X, y, s = small_table(300)
    found = audit(
        X[:, 0],
        y=y,
        decisions=(X[:, 0] > 0.5).astype(int),
        sensitive_features={"sex": s},
        parts=["scores", "decisions"],
        n_boot=20,
        random_state=0,
    )
    page = read(found._repr_html_())
    assert "300 rows, 95% intervals" in page.captions[0]
    gap = found.select(metric="demographic_parity_difference")[0]
    row = next(row for row in page.rows if row[0] == "demographic parity difference")
    assert row[1:4] == ["sex", "all rows", number(gap.value)]
    assert row[4] == f"{number(gap.low)} to {number(gap.high)}"
    assert page.words[: len(found.warnings)] == list(found.warnings)
    assert len(page.rows) - 1 + int(page.words[-1].split()[0]) == len(found.findings)


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_data_are_inert(name):
    X, y, s = small_table(120)
    groups = np.array([name, "b"], dtype=object)[s]
    est = FairRidgeClassifier(**FIXED, criterion="equalized_odds")
    labels = np.array(["no", name], dtype=object)[y]
    est.fit(X, labels, sensitive_features={name: groups})
    path = FairnessPath.from_estimator(
        est, X, labels, sensitive_features={name: groups}, n_points=3
    )
    found = audit(
        X[:, 0],
        y=labels,
        sensitive_features={name: groups, "b": s},
        parts=["scores", "decisions"],
        decisions=labels,
        n_boot=20,
        random_state=0,
    )
    pages = [our_part(est._repr_html_())]
    pages += [one._repr_html_() for one in (est.certificate_, path, found)]
    for page in pages:
        read(page)
        assert len(page) < 100_000
        assert "<script" not in page
        assert "<img" not in page


def test_a_limit_on_a_hostile_name_is_inert_in_scikit_learns_part_too():
    X, y, s = small_table()
    name = HOSTILE[1]
    model = FairRidge(**FIXED, dependence="correlation").fit(X, y, sensitive_features={name: s})
    page = model.at(max_correlation={name: 0.05})._repr_html_()
    assert "<img" not in page
    read(our_part(page))


def test_small_parts():
    assert escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#x27;"
    assert len(escaped("y" * 999)) < 210
    assert [number(v) for v in (math.nan, 0.0, 1e-12, 5e-4, 0.1234, 123.456)] == [
        *("-", "0.000", "<1e-10", "5.0e-04", "0.123", "123.5")
    ]
    half = Finding("scores", "m", "s", value=math.nan, low=0.0, high=math.nan)
    audited = Audit("m", 1, 0.95, {"s": {"a": 1}}, (half,))
    assert read(audited._repr_html_()).rows[1][3:5] == ["-", "-"]
    assert read(table("c", ("a", "b"), [("x", "1"), ("y", "2")])).rows[1] == ["x", "1"]
