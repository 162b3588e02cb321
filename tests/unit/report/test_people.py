"""Receipts of single rows in a report: the rows of the file, their order, and the size of the page."""

import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from tests.support.report_data import people  # noqa: E402

import fairspan  # noqa: E402
from fairspan.report import explore  # noqa: E402
from fairspan.report import people as _people  # noqa: E402
from fairspan.report.page import for_page  # noqa: E402
from fairspan.tables.dictionary import ColumnWords  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
OPTIONS = {"n_points": 2, "n_boot": 20, "audit_parts": ["scores"], "people": True}
FIXED = {"gamma": 0.3, "n_components": 15, "random_state": 0}


def report(table, target="repaid", **options):
    model = options.pop("model", None)
    if model is None:
        kind = fairspan.FairRidge if target == "amount" else fairspan.FairGPClassifier
        model = kind(**FIXED)
    return explore(
        table,
        target=target,
        sensitive_features=["sex"],
        features=["income", "debt", "job"],
        model=model,
        **OPTIONS | options,
    )


@pytest.mark.parametrize("target", ["repaid", "amount", "grade"])
def test_numbers_are_those_of_the_rows_of_the_file(target):
    table = people().assign(grade=np.tile(["a", "b", "c"], 80))
    table.loc[[3, 50], "sex"] = None  # rows left out keep the numbers of the others
    found = report(table, target, fairness=0.5)
    part = found.study["people"]
    n = found.study["about"]["n_test"]
    assert len(part["rows"]) == len(set(part["rows"])) == part["n_rows"] == n
    assert part["fairness"] == 0.5
    assert part["names"] == ["sex"]
    rows = table.iloc[np.array(part["rows"]) - 1]
    receipt = found.model.explain_fairness(rows[["income", "debt", "job"]])
    assert [output["class"] for output in part["outputs"]] == {
        "repaid": ["yes"],
        "amount": [None],
        "grade": ["a", "b", "c"],
    }[target]
    for k, output in enumerate(part["outputs"]):
        of = {name: np.asarray(getattr(receipt, name)) for name in ("before", "after", "rescaling")}
        of["parts"] = receipt.parts.swapaxes(0, 1)
        for name, expected in of.items():
            expected = expected[..., k] if target == "grade" else expected
            np.testing.assert_allclose(output[name], expected, rtol=6e-6)  # six digits
    change = np.abs(receipt.change).reshape(n, -1).max(axis=1)
    assert (np.diff(change) <= 1e-9).all()  # the largest change comes first


def test_there_is_no_column_of_the_rows_in_it():
    table = people().assign(income=lambda t: t["income"] * 1000.0)
    text = json.dumps(report(table).study["people"])
    assert "income" not in text
    assert "cook" not in text


def test_only_those_who_ask_get_it():
    found = report(people(), people=False)
    assert "people" not in found.study
    assert "people" not in for_page(found.study)


def test_the_page_has_the_largest_changes_and_the_file_the_rest(monkeypatch):
    monkeypatch.setattr(_people, "MOST_SHOWN", 10)
    study = report(people()).study
    shown = for_page(study)["people"]
    assert len(study["people"]["rows"]) == study["people"]["n_rows"] == shown["n_rows"] > 10
    assert shown["rows"] == study["people"]["rows"][:10]
    (output,), (whole,) = shown["outputs"], study["people"]["outputs"]
    assert output["before"] == whole["before"][:10]
    assert output["parts"] == [part[:10] for part in whole["parts"]]
    monkeypatch.setattr(_people, "_MOST_NUMBERS", 100)
    small = report(people()).study["people"]
    assert small["rows"] == shown["rows"]
    assert small["n_rows"] == shown["n_rows"]


def test_attributes_have_their_labels():
    words = {"sex": ColumnWords(label="Sex of the applicant")}
    assert report(people(), dictionary=words).study["people"]["names"] == ["Sex of the applicant"]


def test_a_model_without_a_form_is_an_error_before_the_fit(monkeypatch):
    model = fairspan.FairGPClassifier(**FIXED, method="rkhs")
    monkeypatch.setattr(type(model), "fit", None)
    with pytest.raises(ValueError, match="explain_fairness has no form for method='rkhs'"):
        report(people(), model=model)
