"""Receipts of single rows on the page: their numbers, sorting, classes, and nothing if nobody asked."""

import numpy as np
import pytest

import fairspan
from fairspan.report import explore
from tests.support.report_data import people

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A page for two classes and one for three, with their studies."""
    table = people(400).assign(grade=np.tile(["a", "b", "c", "c"], 100))
    folder, out = tmp_path_factory.mktemp("people"), {}
    for target in ("repaid", "grade"):
        report = explore(
            table,
            target=target,
            sensitive_features=["sex"],
            features=["income", "debt"],
            model=fairspan.FairGPClassifier(gamma=0.3, n_components=15, random_state=0),
            n_points=2,
            n_boot=20,
            audit_parts=["scores"],
            people=True,
        )
        path = folder / f"{target}.html"
        report.to_html(path)
        out[target] = (path, report.study["people"])
    return out


def lines(page):
    """Row number and numbers of every line of the table."""
    return page.locator("#people tbody tr").evaluate_all(
        """rows => rows.map(row => [
          Number(row.querySelector("th").textContent),
          ...[...row.querySelectorAll("[data-value]")].map(c => Number(c.dataset.value)),
        ])"""
    )


def sort_by(page, head):
    page.get_by_role("button", name=head, exact=True).click()


def test_the_table_has_the_numbers_of_the_study(opened, reports):
    path, study = reports["repaid"]
    page = opened("repaid", path=path)
    found = np.array(lines(page))
    (output,) = study["outputs"]
    assert found[:, 0].tolist() == study["rows"]
    expected = np.array(
        [output["before"], output["after"], *output["parts"], output["rescaling"]]
    ).T
    np.testing.assert_array_equal(np.delete(found, [0, 3], axis=1), expected)
    np.testing.assert_allclose(found[:, 3], expected[:, 0] - expected[:, 1], atol=1e-12)
    np.testing.assert_allclose(found[:, 3], expected[:, 2:].sum(axis=1), atol=1e-4)  # six digits
    assert (np.diff(np.abs(found[:, 3])) <= 1e-4).all()
    assert 'above 0, the decision is "yes"' in page.inner_text("#people")
    assert "not the reason for a decision" in page.inner_text("#people")
    assert page.locator("#contents a[href='#people']").count() == 1


def test_columns_are_sorted_by_mouse_and_keyboard(opened, reports):
    path, study = reports["repaid"]
    page = opened("repaid", path=path)
    sort_by(page, "Row")
    assert [line[0] for line in lines(page)] == sorted(study["rows"])
    sort_by(page, "Part of sex")
    sizes = [abs(line[4]) for line in lines(page)]
    assert sizes == sorted(sizes, reverse=True)
    page.keyboard.press("Enter")  # the button kept its focus
    values = [line[4] for line in lines(page)]
    assert values == sorted(values)
    assert page.locator("#people th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert page.locator("#people th[aria-sort]").count() == 1


def test_every_class_has_its_own_split(opened, reports):
    path, study = reports["grade"]
    page = opened("grade", path=path)
    for k, output in enumerate(study["outputs"]):
        page.select_option("#people-class", index=k)
        by_row = {line[0]: line[1] for line in lines(page)}
        assert [by_row[row] for row in study["rows"]] == output["before"]
    assert page.locator("#people-class option").all_inner_texts() == ["a", "b", "c"]


def test_a_page_without_people_has_no_such_section(opened, examples):
    page = opened(sorted(examples)[0])
    assert page.locator("#people").is_hidden()
    assert page.locator("#contents a[href='#people']").count() == 0


@pytest.mark.parametrize("options", [{}, {"width": 390}, {"color_scheme": "dark"}], ids=str)
def test_the_section_is_accessible(opened, reports, axe, options):
    page = opened("repaid", path=reports["repaid"][0], bypass_csp=True, **options)
    page.evaluate(axe)
    found = page.evaluate("() => axe.run('#people')")
    assert [v["id"] for v in found["violations"]] == []
