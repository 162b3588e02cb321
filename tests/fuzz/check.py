"""What counts as right: a sound answer, or a refusal in our own words or scikit-learn's.

``ValueError`` alone says little: numpy raises it too, and ``LinAlgError`` and ``UnicodeError`` are
subclasses of it. So a refusal must come from a ``raise`` statement of fairspan or scikit-learn, which
the traceback shows, and must not read like one of numpy's.
"""

from __future__ import annotations

import dis
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from sklearn.exceptions import DataConversionWarning, NotFittedError, UndefinedMetricWarning

from fairspan import (
    CheckpointError,
    FairspanWarning,
    IncompatibleMomentsError,
    NumericalError,
    RowError,
)

OUR_ERRORS = (NumericalError, IncompatibleMomentsError, CheckpointError, RowError)
REFUSALS = (ValueError, TypeError, NotFittedError, *OUR_ERRORS)
NOT_REFUSALS = (np.linalg.LinAlgError, UnicodeError)

# Words of numpy, scipy, Python or a data frame library, whoever raises them.
FOREIGN = re.compile(
    "list index out of range|could not be broadcast|[Ss]ingular matrix|infs or NaNs|divide by zero"
    "|invalid value encountered|truth value of|unhashable|not subscriptable|object is not iterable"
    "|setting an array element|zero-size array|cannot reshape|index \\d+ is out of bounds|has no len"
    "|unsupported operand|not supported between|leading minor|did not converge|only length-1"
    "|inhomogeneous|object has no attribute|cannot be interpreted as|ambiguous|scalar index"
    "|could not convert string to float: '|[Aa]xis \\d+ is out of bounds|must be 1-dimensional"
)
SKLEARN_WARNINGS = (DataConversionWarning, UndefinedMetricWarning)
SKLEARN_MESSAGES = re.compile(
    "X (has|does not have valid) feature names|A single label was found|y_pred contains classes"
    "|The number of unique classes is greater|Skipping features without any observed"
)


class BrokenError(AssertionError):
    """An input that was neither answered rightly nor refused properly."""


@dataclass
class Tally:
    """Cases per entry point; a case is one generated input."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)  # the first of each kind


TALLY = Tally()


# --------------------------------------------------------------------------- refusals


def _innermost(error: BaseException) -> tuple[str, bool]:
    """Package that an error comes from, and whether by a ``raise`` statement."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "", False
    code = trace.tb_frame.f_code.co_code
    package = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
    return package, code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def why_not_a_refusal(error: BaseException) -> str:
    """What is wrong with an error as an answer to a user; nothing is empty."""
    if not isinstance(error, REFUSALS) or isinstance(error, NOT_REFUSALS):
        return f"{type(error).__name__} is no error of ours"
    package, raised = _innermost(error)
    if package not in ("fairspan", "fairspan_lab", "sklearn") or not raised:
        return f"{type(error).__name__} comes from {package}, not from a check"
    if found := FOREIGN.search(str(error)):
        return f"{type(error).__name__} says {found.group()!r}"
    return "" if len(str(error)) >= 15 else f"{type(error).__name__} says next to nothing"


def why_not_a_warning(caught: list[warnings.WarningMessage]) -> str:
    """What is wrong with the warnings of one call; nothing is empty."""
    for one in caught:
        ours = issubclass(one.category, (FairspanWarning, *SKLEARN_WARNINGS))
        if not ours and not SKLEARN_MESSAGES.search(str(one.message)):
            return f"{one.category.__name__}: {one.message}"
    counts = Counter((one.category, str(one.message)) for one in caught)
    for (category, message), count in counts.items():
        if count > 1:
            return f"{count} times {category.__name__}: {message}"
    return ""


# --------------------------------------------------------------------------- calls


def fingerprint(obj: Any) -> Any:
    """Everything in an input that a call might change."""
    if isinstance(obj, Mapping):
        return [(repr(key), fingerprint(value)) for key, value in obj.items()]
    if isinstance(obj, np.ma.MaskedArray):
        return [fingerprint(obj.data), fingerprint(np.ma.getmaskarray(obj))]
    if isinstance(obj, np.ndarray):
        held = repr(obj.tolist()) if obj.dtype.hasobject else obj.tobytes()
        return [str(obj.dtype), obj.shape, obj.flags.writeable, held]
    if scipy.sparse.issparse(obj):
        return fingerprint(obj.toarray())
    if hasattr(obj, "iloc"):  # pandas, which may hold a column name twice
        values = obj.to_numpy(dtype=object).tolist()
        return [
            repr(values),
            repr(list(obj.index)),
            repr(getattr(obj, "columns", obj.name if obj.ndim == 1 else "")),
        ]
    native = nw.from_native(obj, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return repr(native.to_dict(as_series=False))
    if isinstance(native, nw.Series):
        return repr(native.to_list())
    return repr(obj)


@dataclass(frozen=True)
class Refused:
    """A call that ended in a proper refusal."""

    message: str


def attempt(what: str, call: Callable[[], Any], inputs: tuple[Any, ...] = ()) -> Any:
    """The call's answer, or :class:`Refused`; :class:`BrokenError` for everything else.

    Warnings of a refused call are checked like those of an answered one.
    """
    TALLY.calls += 1
    before = [fingerprint(one) for one in inputs]
    answer: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call()
        except Exception as error:
            if why := why_not_a_refusal(error):
                raise BrokenError(f"{what}: {why}: {str(error)[:300]}") from error
            answer = Refused(str(error))
    if why := why_not_a_warning(caught):
        raise BrokenError(f"{what}: warned of {why}")
    if before != [fingerprint(one) for one in inputs]:
        raise BrokenError(f"{what}: changed its input")
    return answer


def insist(what: str, call: Callable[[], Any], inputs: tuple[Any, ...] = ()) -> Any:
    """The answer of a call that has no right to refuse."""
    answer = attempt(what, call, inputs)
    if isinstance(answer, Refused):
        raise BrokenError(f"{what}: refused what it must take: {answer.message[:300]}")
    return answer


def hold(law: bool | np.bool_, what: str) -> None:
    """A law of the answer."""
    if not law:
        raise BrokenError(what)


def same(first: Any, second: Any, what: str, tol: float = 0.0) -> None:
    """Equal answers, numbers up to a tolerance that is relative to the largest."""
    a, b = np.asarray(first), np.asarray(second)
    hold(a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}")
    if a.dtype.kind not in "fc" or tol == 0.0:
        hold(np.array_equal(a, b), f"{what}: differ")
        return
    apart = np.abs(a - b).max(initial=0.0)
    size = np.abs(a).max(initial=0.0)
    hold(apart <= tol * size, f"{what}: {apart:.2g} apart, of {size:.2g}")


def finite(values: Any, shape: tuple[int | None, ...], what: str) -> np.ndarray:
    """Finite numbers of a shape; None is any size."""
    out = np.asarray(values)
    fits = out.ndim == len(shape) and all(
        want is None or want == size for want, size in zip(shape, out.shape, strict=True)
    )
    hold(fits, f"{what}: shape {out.shape} instead of {shape}")
    if out.dtype.kind in "fc":
        hold(bool(np.isfinite(out).all()), f"{what}: {(~np.isfinite(out)).sum()} not finite")
    return out


# --------------------------------------------------------------------------- many cases


@dataclass(frozen=True)
class EntryPoint:
    """Inputs and what is done with one of them: ``case`` returns whether it was answered."""

    name: str
    inputs: SearchStrategy[Any]
    case: Callable[[Any], bool]
    share: float = 1.0  # of the cases of a long run
    slice: int = 20  # cases in the test suite


def run(point: EntryPoint, cases: int, *, first: int | None, keep_going: bool) -> None:
    """Try many inputs; the first failure is shrunk and raised unless told to keep going."""

    def one(given_input: Any) -> None:
        TALLY.cases[point.name] += 1
        try:
            answered = point.case(given_input)
        except Exception as error:
            TALLY.failed[point.name] += 1
            if not keep_going:
                raise
            kind = f"{point.name}: {re.sub('[0-9.e+-]+', '#', str(error))[:120]}"
            TALLY.failures.setdefault(kind, (f"{error}", f"{given_input!r}"))
            return
        (TALLY.answered if answered else TALLY.refused)[point.name] += 1

    wanted = settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=first is None,
        suppress_health_check=list(HealthCheck),
    )
    test = given(point.inputs)(wanted(one))
    if first is not None:
        test = seed(first)(test)
    test()
