"""Slices of a continuous attribute that have too few rows in a cell: what is said about the merging."""

import json
import warnings

import numpy as np
import pytest

from fairspan import FairRidge, FairRidgeClassifier, load_model, save_model
from fairspan.exceptions import DataWarning

MERGED = pytest.mark.regression("merged slices are printed as removed")
FIXED = {
    "gamma": 0.5,
    "eta": 1e-3,
    "alpha": 1.0,
    "n_sensitive_directions": "all",
    "random_state": 0,
}


def people(n=400, seed=0):
    """The target depends so much on age that few of the oldest decile are in class 0."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n)
    X = rng.normal(size=(n, 4)) + (age[:, None] - 45) / 15 * [1.0, 0.5, 0.0, 0.0]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(age - 62) / 2.0))).astype(int)
    return X, y, age


def deciles(age):
    return np.searchsorted(np.quantile(age, np.arange(1, 10) / 10), age, side="right")


@pytest.fixture(scope="module", params=["auto", "training_rows"])
def fitted(request):
    X, y, age = people()
    model = FairRidgeClassifier(criterion="equalized_odds", removal=request.param, **FIXED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return model.fit(X, y, sensitive_features={"age": age})


@MERGED
def test_the_certificate_prints_what_it_does_not_cover(fitted):
    X, y, age = people()
    score, decile = fitted.decision_function(X), deciles(age)
    last = y == 0
    assert 0 < (decile[last] == 9).sum() < 5
    if fitted.removal == "training_rows":
        # The mean score of the merged decile differs from that of its neighbour.
        assert abs(np.corrcoef(score[last], decile[last] == 9)[0, 1]) > 1e-3
    text = str(fitted.certificate_)
    assert "Slices MERGED, too few rows: age in y=0 (1 of 10)" in text
    assert "means of 9 of 10 slices" in text


@MERGED
def test_the_fit_warns_once():
    X, y, age = people()
    model = FairRidgeClassifier(criterion="equalized_odds", **FIXED)
    with pytest.warns(DataWarning) as seen:
        model.fit(X, y, sensitive_features={"age": age})
    (text,) = [str(one.message) for one in seen if "merged" in str(one.message)]
    assert "'age'" in text
    assert "1 of 10 in y=0" in text
    assert "n_slices" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.at(0.5)  # said once


@MERGED
def test_html_and_json_have_it_too(fitted):
    blocks = json.loads(json.dumps(fitted.certificate_.to_dict()))["blocks"]
    found = {(b["cell"], b["coding"]): (b["n_merged"], b["n_slices"]) for b in blocks}
    assert found["y=0", "slices"] == (1, 10)
    assert found["y=0", "value"] == (0, 0)
    assert "means of 9 of 10 slices" in fitted.certificate_._repr_html_()
    assert "age in y=0 (1 of 10)" in fitted.certificate_._repr_html_()
    assert "age in y=0 (1 of 10)" in fitted._repr_html_()


@MERGED
def test_the_page_says_it_in_plain_words():
    pd = pytest.importorskip("pandas")
    from fairspan.report import explore

    X, y, age = people(600)
    table = pd.DataFrame(X, columns=list("abcd")).assign(age=age, repaid=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = explore(
            table,
            target="repaid",
            sensitive_features="age",
            n_points=2,
            n_boot=20,
            model=FairRidgeClassifier(criterion="equalized_odds", **FIXED),
            audit_parts=["scores"],
        )
    for place in report.study["positions"]:
        words = " ".join(place["certificate"]["words"])
        assert "were merged with a neighbour: age in y=" in words
    assert any("merged with a neighbour" in text for text in report.study["about"]["warnings"])


def test_slices_without_rows_are_counted_apart(fitted):
    _, y, age = people()
    rows = np.bincount(deciles(age)[y == 1], minlength=10)
    empty, few = (rows == 0).sum(), ((rows > 0) & (rows < 5)).sum()
    assert empty > 0
    assert few == 1
    assert f"age in y=1 (1 of 10; {empty} more without rows)" in str(fitted.certificate_)


def test_nothing_is_said_where_nothing_is_merged():
    X, y, age = people(4000)
    model = FairRidge(**FIXED | {"n_components": 50}, removal="training_rows").fit(
        X, y, sensitive_features={"age": age}
    )
    assert "MERGED" not in str(model.certificate_)
    assert "slice means" in model.certificate_.table()
    assert model.certificate_.merged_slices() == []
    assert "slices merged" not in model._repr_html_()


def test_a_saved_model_keeps_it(fitted, tmp_path):
    pytest.importorskip("skops")
    loaded = load_model(save_model(fitted, tmp_path / "m.skops"))
    assert str(loaded.certificate_) == str(fitted.certificate_)
