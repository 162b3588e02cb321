"""Saved models on the page: the library's numbers, for every reader."""

import re
import warnings

import numpy as np
import pytest

from tests.browser.reports import Example, _people, read_study
from tests.browser.test_explorer import move, settle


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A report beside two models, one of which has a hostile name."""
    from fairspan.exceptions import FairspanWarning
    from fairspan.report import explore

    table, income, lift = _people(np.random.default_rng(4), 600)
    table["repaid"] = np.where(
        income + lift + np.random.default_rng(5).normal(size=600) > 0.5, "yes", "no"
    )
    options = {"target": "repaid", "sensitive_features": ["group", "sex"], "n_points": 5, "n_boot": 40,
               "pos_label": "yes", "audit_parts": ["scores"], "features": ["income", "debt"]}  # fmt: skip
    path = tmp_path_factory.mktemp("saved") / "saved.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        first = explore(table, **options)
        models = {"last year": first.model.at(0.0), "</script><img src=x>": first.model.at(0.5)}
        explore(table, **options, name="people.csv", compare=models).to_html(path)
    return Example(path, read_study(path))


def test_numbers_of_saved_models_are_those_of_the_study(opened, compared):
    page = opened("loans", path=compared.path)
    comparison = compared.study["comparison"]
    settle(page)
    page.locator("#view-saved summary").click()
    rows = page.locator("#view-saved details tbody tr")
    assert rows.count() == len(comparison["measures"]) == 5
    for k, one in enumerate(comparison["measures"]):
        read = (
            "all => all.map(td => td.dataset.value === undefined ? null : Number(td.dataset.value))"
        )
        cells = rows.nth(k).locator("td").evaluate_all(read)
        assert cells == [e["value"] for e in one["models"]]
        cells = page.locator("#view-saved-differences tbody tr").nth(k).locator("td")
        assert cells.evaluate_all(read) == [e["value"] for e in one["differences"][1:]]
        for text, e in zip(cells.all_inner_texts(), one["differences"][1:], strict=True):
            assert ("includes zero" in text) == (e["low"] <= 0 <= e["high"])
    heads = page.locator("#view-saved details thead th").all_inner_texts()
    assert heads[1:] == comparison["names"]
    drawn = page.evaluate("document.querySelector('#view-saved .plot').data.length")
    assert drawn == 15
    before = page.inner_text("#saved")
    move(page, 1)
    assert page.inner_text("#saved") == before


def test_the_section_is_in_the_contents_only_if_models_are_compared(opened, compared):
    page = opened("loans", path=compared.path)
    assert page.locator("#contents a[href='#saved']").count() == 1
    page = opened("loans")
    assert page.locator("#contents a[href='#saved']").count() == 0
    assert not page.is_visible("#saved")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_beside_saved_models(opened, axe, compared, width, scheme):
    page = opened("loans", path=compared.path, width=width, color_scheme=scheme,
                  reduced_motion="reduce")  # fmt: skip
    page.evaluate(axe)
    page.locator("#view-saved details").evaluate_all("all => all.forEach(d => d.open = true)")
    page.locator("#saved").scroll_into_view_if_needed()
    settle(page)
    found = page.evaluate(
        "axe.run(document.getElementById('saved'), { resultTypes: ['violations'] })"
        ".then(r => r.violations.map(v => [v.id, v.nodes.slice(0, 5).map(n => n.html)]))"
    )
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_saved_models_are_on_paper(opened, compared):
    page = opened("loans", path=compared.path)
    page.emulate_media(media="print")
    text = page.inner_text("#saved")
    assert re.search(r"Differences from last year, on \d+ held-out rows", text)
    assert "</script><img src=x>" in text
