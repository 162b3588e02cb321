"""One thread for small work: BLAS and OpenMP wait longer for their threads than these compute.

The matrices of a fit have up to a few thousand columns, and there are many of them. With two threads on
two processors that do other work, a fit of 2,000 rows took 23 times as long as with one thread; on an idle
machine one thread was as fast (``python -m benchmarks.threads``). Nothing here imports another module of
fairspan.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# Columns up to which factorizations are faster with one thread, or nearly so.
MOST_COLUMNS = 2048
# Multiplications (rows * columns^2) up to which threads save less than about a second.
MOST_WORK = 2**35
# Work on the moments alone, in factorizations of a matrix of their size.
_FACTORIZATIONS = 20
# Rows up to which trees are grown by one thread.
MOST_TREE_ROWS = 5000
# Columns of a kernel model that chooses their number, and of the kernel parts of an audit.
USUAL_COLUMNS = 1000

_lock = threading.Lock()
_blas_limited = False  # BLAS has one number of threads for the whole process
_own = threading.local()  # OpenMP has one for each calling thread


@contextmanager
def few_threads(rows: int, columns: int = USUAL_COLUMNS) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread if the work is small; otherwise do nothing.

    Parameters
    ----------
    rows : int
        Rows of the table; 0 for work on the moments alone.
    columns : int
        Columns of the feature map.
    """
    with ExitStack() as stack:
        work = (rows or _FACTORIZATIONS * columns) * columns**2
        if columns <= MOST_COLUMNS and work <= MOST_WORK:
            stack.enter_context(_one_blas_thread())
            if 0 < rows <= MOST_TREE_ROWS:
                stack.enter_context(_one_openmp_thread())
        yield


def with_few_threads(rows: Callable[..., int]) -> Callable[[F], F]:
    """Decorate a function to run in :func:`few_threads`; ``rows`` counts rows from its arguments."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            try:
                n = rows(*args, **kwargs)
            except TypeError:  # arguments are missing: the function itself names them
                return function(*args, **kwargs)
            with few_threads(n):
                return function(*args, **kwargs)

        return cast(F, limited)

    return decorate


def count_rows(*candidates: Any) -> int:
    """Rows of the first argument that has a length; without any, as many as are never limited."""
    for candidate in candidates:
        try:
            return len(candidate)
        except TypeError:  # None, a number, a sparse matrix
            if getattr(candidate, "shape", ()):
                return int(candidate.shape[0])
    return MOST_WORK


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS, unless a caller or another thread has done so; the thread that sets also restores."""
    global _blas_limited
    with _lock:
        mine = not _blas_limited
        _blas_limited = True
    if not mine:
        yield
        return
    limit = _limit("blas")
    try:
        yield
    finally:
        limit.restore_original_limits()
        _blas_limited = False


@contextmanager
def _one_openmp_thread() -> Iterator[None]:
    if getattr(_own, "limited", False):
        yield
        return
    limit = _limit("openmp")
    _own.limited = True
    try:
        yield
    finally:
        _own.limited = False
        limit.restore_original_limits()


def _limit(kind: str) -> Any:
    return _controller(len(sys.modules)).limit(limits=1, user_api=kind)


@functools.lru_cache(maxsize=1)
def _controller(_modules: int) -> Any:
    """Thread pools of the loaded libraries.

    The search for them takes several milliseconds, more than a small fit, so it is repeated only after
    an import, which may have loaded another library.
    """
    from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

    return ThreadpoolController()
