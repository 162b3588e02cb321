"""The checks of the fuzzers see what they are there to see."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

from fairspan import DataWarning, FairRidge, NumericalError
from tests.fuzz.check import BrokenError, EntryPoint, Refused, attempt, fingerprint, run, same
from tests.fuzz.inputs import Rows


def ours(message="alpha=-1 is not allowed; give a positive number."):
    FairRidge(alpha=message).fit(np.eye(12), np.arange(12.0), sensitive_features=np.arange(12) % 2)


def test_our_own_refusal_passes():
    assert isinstance(attempt("fit", ours), Refused)


FOREIGN_ERRORS = {
    "numpy": lambda: np.ones(2) + np.ones(3),
    "LinAlgError": lambda: np.linalg.inv(np.zeros((2, 2))),
    "scipy": lambda: scipy.linalg.cholesky(np.array([[np.nan]])),
    "index": lambda: [][0],
    "key": lambda: {}["a"],
    "attribute": lambda: None.x,
    "unicode": lambda: "\ud800".encode(),
    "raised by others": lambda: pd.DataFrame({"a": [1]}).set_index("b"),
}


@pytest.mark.parametrize("call", FOREIGN_ERRORS.values(), ids=FOREIGN_ERRORS)
def test_an_error_that_no_check_of_ours_raised_fails(call):
    with pytest.raises(BrokenError):
        attempt("call", call)


def inside_fairspan(source):
    """Code that runs as if it were part of the library."""
    scope = {"__name__": "fairspan.made_up", "np": np, "NumericalError": NumericalError}
    exec(f"def call():\n    {source}", scope)
    return scope["call"]


def test_the_place_is_not_enough_it_must_be_a_raise_statement():
    with pytest.raises(BrokenError, match="not from a check"):
        attempt("call", inside_fairspan("np.ones(2) + np.ones(3)"))
    assert isinstance(
        attempt("call", inside_fairspan("raise ValueError('x must be positive')")), Refused
    )
    assert isinstance(
        attempt("call", inside_fairspan("raise NumericalError('rounding has eaten it')")), Refused
    )


@pytest.mark.parametrize(
    "words",
    [
        "list index out of range",
        "operands could not be broadcast",
        "Singular matrix",
        "array must not contain infs or NaNs",
        "divide by zero",
    ],
)
def test_words_of_numpy_fail_even_when_we_raise_them(words):
    with pytest.raises(BrokenError, match="says"):
        attempt("call", inside_fairspan(f"raise ValueError('in our code: {words}')"))


def test_numpy_warnings_and_repeated_ones_fail():
    def twice():
        for _ in range(2):
            warnings.warn("a group is small", DataWarning, stacklevel=1)

    with pytest.raises(BrokenError, match="RuntimeWarning"):
        attempt("call", lambda: np.array([1e308]) * 10)
    with pytest.raises(BrokenError, match="2 times DataWarning"):
        attempt("call", twice)
    attempt("call", lambda: warnings.warn("a group is small", DataWarning, stacklevel=1))


@pytest.mark.parametrize(
    "box", ["array", "pandas", "pandas twice", "list", "masked", "csr", "polars"]
)
def test_a_changed_input_is_seen(box):
    X = Rows(box=box, p=3).make().X
    assert fingerprint(X) == fingerprint(Rows(box=box, p=3).make().X)
    assert fingerprint(X) != fingerprint(Rows(box=box, p=3, seed=1).make().X)
    array = np.zeros(3)
    with pytest.raises(BrokenError, match="changed its input"):
        attempt("call", lambda: array.fill(1.0), (array,))


def test_answers_that_differ_are_seen():
    same([1.0, 2.0], [1.0, 2.0 + 1e-12], "close", 1e-9)
    for other in ([1.0, 2.1], [1.0], [1.0, np.nan]):
        with pytest.raises(BrokenError):
            same([1.0, 2.0], other, "apart", 1e-9)


def test_a_failure_is_raised_in_a_test_and_counted_in_a_long_run():
    from hypothesis import strategies as st

    def case(x):
        assert x != 3, "three"
        return x > 3

    point = EntryPoint("made up", st.integers(0, 9), case)
    with pytest.raises(AssertionError, match="three"):
        run(point, 50, first=None, keep_going=False)
    run(point, 50, first=0, keep_going=True)
