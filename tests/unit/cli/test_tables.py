"""Columns of a table: features."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

from tests.support.borrowers import people  # noqa: E402

from fairspan.cli import tables  # noqa: E402


def test_features_are_columns_that_can_be_learned_from():
    with pytest.raises(ValueError, match="No column is left for the features"):
        tables.check_features(people(), [])
    durations = people().assign(stay=pd.Timedelta(1, "D"))
    with pytest.raises(ValueError, match=r"'stay'.*--drop leaves a column out"):
        tables.check_features(durations, ["income", "stay"])
