"""Notes about columns that are probably not meant as they are."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

from fairspan.cli import checks  # noqa: E402

N = 60


def test_columns_without_information_are_named():
    table = pd.DataFrame({"a": ["x"] * N, "b": [np.nan] * N, "c": range(N), "d": [[1]] * N})
    assert list(checks.constant_note(table, list(table))) == [
        "The same in every row, so without information: 'a', 'b'."
    ]
    assert list(checks.constant_note(table, ["c"])) == []


def test_columns_that_are_left_out_are_named_by_reason():
    left_out = {"id": "identifiers", "my remark": "free text", "key": "identifiers"}
    assert list(checks.left_out_note(left_out)) == [
        "Left out, because they look like identifiers: 'id', 'key'. To use them: --keep id --keep key",
        "Left out, because they look like free text: 'my remark'. To use them: --keep 'my remark'",
    ]


def test_codes_that_are_read_as_amounts_are_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "zip_code": rng.integers(10_000, 99_999, N),
            "age": rng.integers(0, 10**4, N),
            "race": rng.integers(0, 3, N),
        }
    )
    (text,) = checks.code_like(table, list(table), {})
    assert text.startswith("The protected attribute 'zip_code' is read as an amount")
    assert text.endswith("--kind zip_code=categorical")
    assert list(checks.code_like(table, list(table), {"zip_code": "continuous"})) == []
