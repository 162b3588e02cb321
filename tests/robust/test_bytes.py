"""A bounded slice of tools/fuzz_bytes.py: damaged bytes are refused in words, or read rightly."""

import numpy as np
import pytest

pytest.importorskip("skops")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from tools import fuzz_bytes

CASES = {
    "model": 120,
    "model, repacked": 120,
    "checkpoint": 150,
    "checkpoint, repacked": 60,
    "moments": 80,
    "moments, signed again": 120,
    "pilot": 60,
    "pilot, signed again": 80,
    "CSV, fit_stream": 80,
    "CSV, command line": 150,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", fuzz_bytes.READERS)
def test_no_bytes_bring_an_error_that_is_not_ours(name):
    tally = fuzz_bytes.fuzz(name, CASES[name], seed=1)
    assert tally.failures == []
    assert tally.refused + tally.read == tally.cases == CASES[name]
    assert tally.refused > tally.cases // 4  # the cases are not all harmless


def test_a_failure_is_counted_as_one(tmp_path):
    """What is neither read nor refused in our words: other errors, and errors without words."""
    errors = [KeyError("x"), ValueError(""), TypeError("bare"), np.linalg.LinAlgError("singular")]
    for error in errors:

        def read(path, error=error):
            raise error

        tally = fuzz_bytes.Tally()
        reader = fuzz_bytes.Reader(bytes, read, (ValueError,))
        fuzz_bytes.attempt(reader, b"x", tmp_path, tally)
        assert len(tally.failures) == 1, error


def test_mutations_are_repeatable_and_many():
    content = bytes(range(256)) * 4
    made = [fuzz_bytes.mutate(content, np.random.default_rng(k)) for k in range(200)]
    assert made == [fuzz_bytes.mutate(content, np.random.default_rng(k)) for k in range(200)]
    assert len(set(made)) > 180
    assert min(map(len, made)) < len(content) < max(map(len, made))


def test_the_table_has_a_line_for_each_reader(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fuzz_bytes", "--cases", "3", "--reader", "checkpoint"])
    assert fuzz_bytes.main() == 0
    head, line, *_ = capsys.readouterr().out.split("\n")
    assert head.split() == ["reader", "cases", "refused", "read", "failures"]
    assert line.split()[:2] == ["checkpoint", "3"]
    assert line.split()[-1] == "0"
