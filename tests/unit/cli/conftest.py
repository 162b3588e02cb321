"""Commands run in an empty folder."""

import pytest


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path):
    """`people.csv` in that folder."""
    from tests.support.borrowers import people

    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    return frame
