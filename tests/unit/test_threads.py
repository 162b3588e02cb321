"""One thread for small work, and the number of before afterwards."""

import sys
import threading

import numpy as np
import pytest
from tests.support.few import FEW, rows
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from fairspan import FairRidge, _threads
from fairspan._threads import MOST_COLUMNS, MOST_WORK, count_rows, few_threads, with_few_threads


def threads(kind):
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == kind}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2):
        yield


@pytest.mark.parametrize(
    ("n", "columns", "one"),
    [
        (100, 10, True),
        (0, 1000, True),
        (0, MOST_COLUMNS, False),
        (100, MOST_COLUMNS + 1, False),
        (MOST_WORK, 2, False),
    ],
)
def test_small_work_has_one_thread_and_large_work_all(n, columns, one):
    before = threads("blas")
    with few_threads(n, columns):
        assert threads("blas") == ({1} if one else before)
        with few_threads(n, columns):
            assert threads("blas") == ({1} if one else before)
        assert threads("blas") == ({1} if one else before)
    assert threads("blas") == before


def test_the_thread_that_sets_the_limit_restores_it_while_another_goes_on():
    before, entered, leave = threads("blas"), threading.Event(), threading.Event()

    def other():
        with few_threads(10):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with few_threads(10):
        thread.start()
        entered.wait(10)
        assert threads("blas") == {1}
    assert threads("blas") == before
    leave.set()
    thread.join()
    assert threads("blas") == before
    assert not _threads._blas_limited


def test_libraries_are_searched_again_after_an_import_only(monkeypatch):
    searches = []

    class Counted(ThreadpoolController):
        def __init__(self):
            searches.append(1)
            super().__init__()

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Counted)
    _threads._controller.cache_clear()
    for _ in range(3):
        with few_threads(10):
            pass
    assert len(searches) == 1
    monkeypatch.setitem(sys.modules, "a_library_with_threads", _threads)
    with few_threads(10):
        pass
    assert len(searches) == 2
    _threads._controller.cache_clear()


def test_an_error_restores_the_number():
    before = threads("blas"), threads("openmp")
    with pytest.raises(ZeroDivisionError), few_threads(10):
        _ = 1 / 0
    assert (threads("blas"), threads("openmp")) == before


def test_a_decorated_function_keeps_its_errors_and_its_rows():
    seen = []

    @with_few_threads(lambda X, **_: count_rows(X))
    def function(X, *, y):
        seen.append(threads("blas"))
        return len(X) + y

    assert function([1, 2], y=3) == 5
    assert function(np.zeros((MOST_WORK // 10**6 + 1, 1)), y=0)
    assert seen[0] == {1}
    assert 2 in seen[1]  # a library that another test loaded has threads of its own
    with pytest.raises(TypeError, match="required"):
        function()


def test_rows_are_counted_where_there_are_any():
    from scipy.sparse import csr_matrix

    assert count_rows(None, [1, 2, 3]) == 3
    assert count_rows(csr_matrix((5, 2))) == 5
    assert count_rows(None, object()) == MOST_WORK


def test_a_small_fit_has_one_thread(monkeypatch):
    seen = []
    solve = FairRidge._solve
    monkeypatch.setattr(
        FairRidge,
        "_solve",
        lambda self, *data: (seen.append(threads("blas")), solve(self, *data)),
    )
    X, y, s = rows()
    FairRidge(**FEW).fit(X, y, sensitive_features=s)
    assert seen == [{1}]
    assert not _threads._blas_limited
