"""Numbers that the switch selects, against the rows: rates, correlations, means and slopes."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from tests.support.report_data import people  # noqa: E402

from fairspan.report import explore, held_out_rows  # noqa: E402
from fairspan.report.selected import number_words  # noqa: E402
from fairspan.tables.dictionary import ColumnWords  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
OPTIONS = {
    "sensitive_features": ["sex", "age"],
    "features": ["income", "debt"],
    "n_points": 2,
    "n_boot": 30,
    "audit_parts": ["scores"],
    "sensitive_kind": {"age": "continuous"},
}


def held_out(table, target):
    kinds = {"age": "continuous"}
    rows = held_out_rows(table, [target, "sex", "age"], kinds=kinds, share=0.25, seed=0)
    return table[rows]


def per_decade(held, outcome):
    return 10 * np.polyfit(held["age"], outcome, 1)[0]


def by_sex(held, outcome):
    means = [outcome[held["sex"] == sex].mean() for sex in ("f", "m")]
    return abs(means[0] - means[1])


def test_decisions_have_rates_and_scores_have_correlations():
    table = people(400)
    report = explore(table, target="repaid", **OPTIONS)
    held = held_out(table, "repaid")
    yes = (report.model.predict(held) == "yes").astype(float)
    sex, age = report.study["positions"][-1]["selected"]
    assert (sex["attribute"], sex["what"], sex["kind"]) == ("sex", "gap", "points")
    assert sex["value"] == pytest.approx(by_sex(held, yes), abs=1e-6)
    assert (age["attribute"], age["what"], age["kind"]) == ("age", "slope", "points")
    assert number_words(age) == "age higher by 10: selection rate"
    assert age["value"] == pytest.approx(per_decade(held, yes), abs=1e-6)
    assert age["low"] < age["value"] < age["high"]

    scores = report.model.at(1.0, equalize="scores")
    of_yes = scores.predict_proba(held)[:, 1]
    sex, age = report.study["other"]["positions"][-1]["selected"]
    raw = scores.decision_function(held)
    assert (sex["what"], sex["kind"]) == ("correlation", "index")
    assert sex["value"] == pytest.approx(abs(np.corrcoef(raw, held["sex"] == "f")[0, 1]), abs=1e-6)
    assert "raw score" in sex["words"]
    assert number_words(age) == "age higher by 10: mean probability of yes"
    assert age["value"] == pytest.approx(per_decade(held, of_yes), abs=1e-6)


def test_numbers_have_means_and_a_dictionary_names_the_step():
    table = people(400)
    words = {"age": ColumnWords(label="Age (years)")}
    report = explore(table, target="amount", dictionary=words, **OPTIONS)
    held = held_out(table, "amount")
    predicted = report.model.predict(held)
    sex, age = report.study["positions"][-1]["selected"]
    assert (sex["what"], sex["kind"]) == ("gap", "unit")
    assert sex["value"] == pytest.approx(by_sex(held, predicted), abs=1e-5)
    assert age["attribute"] == "Age (years)"
    assert number_words(age) == "10 years older: mean prediction"
    assert age["value"] == pytest.approx(per_decade(held, predicted), abs=1e-5)
    assert "10 years older: mean prediction" in str(report)


def test_equal_opportunity_is_about_the_truly_positive():
    table = people(400)
    report = explore(table, target="repaid", criterion="equal_opportunity", **OPTIONS)
    held = held_out(table, "repaid")
    yes = (report.model.predict(held) == "yes").astype(float)
    right = (held["repaid"] == "yes").to_numpy()
    _, age = report.study["positions"][-1]["selected"]
    assert number_words(age) == "age higher by 10: selection rate, among the truly positive"
    assert age["value"] == pytest.approx(per_decade(held[right], yes[right]), abs=1e-6)


def test_one_of_several_classes_is_the_drawn_one():
    table = people(400)
    grade = np.select([table["income"] < 0, table["income"] < 1], ["low", "mid"], "top")
    report = explore(table.assign(grade=grade), target="grade", **OPTIONS)
    sex, age = report.study["positions"][0]["selected"]
    assert sex["what"] == "correlation"
    drawn = report.study["about"]["score_words"].rpartition(" = ")[2]
    assert age["words"] == f"mean probability of {drawn}"
