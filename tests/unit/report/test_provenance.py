"""Digests and dates: what they are of, and that equal inputs have equal ones."""

from __future__ import annotations

import copy
import datetime
import hashlib
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from tests.support.report_data import people  # noqa: E402

import fairspan  # noqa: E402
from fairspan.report.provenance import (  # noqa: E402
    _parts,
    data_origin,
    model_digest,
    model_origin,
    read_date,
    saved_model,
    table_digest,
)


def fitted(**given: float) -> fairspan.FairRidge:
    table = people()
    model = fairspan.FairRidge(gamma=0.3, alpha=1.0, eta=0.1, n_components=10, random_state=0)
    model.set_params(**given)
    return model.fit(table[["income", "debt"]], table["amount"], sensitive_features=table["sex"])


def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    found = data_origin(people(), path)
    assert found["data_file"] == "people.csv"
    assert found["data_digest"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert saved_model(path) == {
        "model_file": "people.csv",
        "model_digest": found["data_digest"],
    }
    with pytest.raises(ValueError, match="is no file; name the file of the table"):
        data_origin(people(), tmp_path / "nothing.csv")


def test_a_table_has_the_digest_of_its_csv() -> None:
    table = people()
    text = table.to_csv(index=False, lineterminator="\n").encode()
    assert data_origin(table, None) == {
        "data_file": None,
        "data_digest": hashlib.sha256(text).hexdigest(),
    }
    changed = table.copy()
    changed.loc[7, "income"] += 1e-9
    assert table_digest(changed) != table_digest(table)
    assert table_digest(table[::-1]) != table_digest(table)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_equal_fits_have_equal_digests() -> None:
    first, again, other = fitted(), fitted(), fitted(alpha=2.0)
    assert model_digest(first) == model_digest(again)
    assert len(model_digest(first)) == 64
    assert model_digest(first) != model_digest(other)
    assert model_digest(first) != model_digest(first.at(0.5))
    assert model_origin(first) == {"model_file": None, "model_digest": model_digest(first)}


def test_dates_are_read() -> None:
    assert read_date("2024-05-31") == "2024-05-31"
    assert read_date(datetime.date(2024, 5, 31)) == "2024-05-31"
    assert read_date(datetime.datetime(2024, 5, 31, 23, 59)) == "2024-05-31"
    assert read_date(None) == datetime.date.today().isoformat()
    for wrong in ("tomorrow", "31.5.2024", 20240531):
        with pytest.raises(ValueError, match="is no date; give one such as 2024-05-31"):
            read_date(wrong)


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_equal_fits_of_trees_have_equal_digests() -> None:
    def fitted(shift: float) -> fairspan.FairClassifier:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 2))
        s = rng.choice(["a", "b"], 120)
        y = X[:, 0] + (s == "a") + shift > 0
        return fairspan.FairClassifier("boosting", random_state=0).fit(X, y, sensitive_features=s)

    assert model_digest(fitted(0.0)) == model_digest(fitted(0.0))
    assert model_digest(fitted(0.0)) != model_digest(fitted(0.5))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ("1", b"1"),
        ([[1], [2]], [[1, [2]]]),
        ({"a": 1}, {"b": 1}),
        (np.array([1, 2]), np.array([[1, 2]])),
        (np.array(["a", None], dtype=object), np.array(["a", "b"], dtype=object)),
        (int, float),
    ],
)
def test_different_contents_have_different_bytes(one: object, other: object) -> None:
    assert list(_parts(one, ())) != list(_parts(other, ()))
    assert list(_parts(one, ())) == list(_parts(copy.deepcopy(one), ()))


def test_sets_have_no_order_and_a_circle_ends() -> None:
    words, others = {"one", "two", "three", "four"}, {"four", "three", "two", "one"}
    assert list(_parts(words, ())) == list(_parts(others, ()))
    circle: list[object] = [1]
    circle.append(circle)
    assert list(_parts(circle, ()))[-1] == b"an object that contains this one"
