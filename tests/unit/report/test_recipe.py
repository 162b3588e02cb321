"""Python code of a report: literals, constructors, imports and calls that repeat the training."""

import ast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from tests.support.report_data import people, roles_of  # noqa: E402

import fairspan  # noqa: E402
from fairspan.report import explore  # noqa: E402
from fairspan.report import recipe as _recipe  # noqa: E402


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=12), max_size=40))
def test_names_are_the_same_in_code_however_long_the_list(names):
    text = _recipe._code(names)
    assert text.isascii()
    assert ast.literal_eval(text) == names
    if "\n" in text:
        rows = text.splitlines()[1:-1]
        assert all(
            len(row) <= _recipe._WIDTH or len(ast.literal_eval(f"[{row}]")) == 1 for row in rows
        )


def test_a_model_is_constructed_from_what_was_set():
    kinds = {"sex": "categorical"}
    model = fairspan.FairRidge(
        alpha=np.float64(0.5), sensitive_kind=kinds, fairness=0.25, verbose=1
    )
    again = eval(_recipe._constructed(model), vars(fairspan))
    changed = model.get_params() | {"fairness": 1.0, "verbose": 0}
    assert again.get_params() == changed


def test_what_does_not_compare_is_not_the_default():
    assert not _recipe._same(np.arange(3), np.zeros(3))
    assert _recipe._same(None, None)
    assert _recipe._same("cv", "cv")


def test_kinds_that_were_told_are_in_the_snippet():
    model = fairspan.FairRidge(sensitive_kind={"age": "categorical"})
    recipe = _recipe.Recipe(
        source="table = ...", roles=roles_of("amount"), model=model, share=0.25, seed=0
    )
    tree = ast.parse(recipe.snippet(0.5))
    calls = {ast.unparse(one.func): one for one in ast.walk(tree) if isinstance(one, ast.Call)}
    held_out = {k.arg: ast.literal_eval(k.value) for k in calls["held_out_rows"].keywords}
    assert held_out == {"kinds": {"age": "categorical"}, "share": 0.25, "seed": 0}


def test_learners_are_imported_from_public_modules():
    steps = make_pipeline(StandardScaler(), LogisticRegression(C=0.5))
    model = fairspan.FairClassifier([steps, "kernel"], cv=StratifiedKFold(3))
    lines = _recipe._imports(model)
    assert lines == [
        "from sklearn.linear_model import LogisticRegression",
        "from sklearn.model_selection import StratifiedKFold",
        "from sklearn.pipeline import Pipeline",
        "from sklearn.preprocessing import StandardScaler",
    ]
    names = dict(vars(fairspan))
    exec("\n".join(lines), names)
    again = eval(_recipe._constructed(model), names)
    assert repr(again) == repr(model)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
@pytest.mark.parametrize("numbers", [False, True])
def test_the_code_of_a_learner_gives_the_predictions_of_the_report(numbers):
    table = people().drop(columns="amount").assign(weight=1.0)
    if numbers:  # no encoder is fitted
        table["job"] = np.arange(len(table)) % 7
    model = fairspan.FairClassifier(LogisticRegression(max_iter=1000), criterion="eop")
    report = explore(
        table,
        target="repaid",
        sensitive_features=["sex"],
        sample_weight="weight",
        model=model,
        n_points=3,
        n_boot=20,
        audit_parts=["scores"],
        source="table = TABLE",
    )
    names = {"TABLE": table}
    exec(report.study["positions"][1]["snippet"], names)
    held_out = table.loc[names["held_out"], ["age", "income", "debt", "job"]]
    expected = report.model.at(0.5).predict(held_out)
    np.testing.assert_array_equal(names["predictions"], expected)
    assert hasattr(report.model, "encoder_") != numbers
    assert {f["name"] for f in report.study["importance"]["features"]} == {
        "age",
        "income",
        "debt",
        "job",
    }
