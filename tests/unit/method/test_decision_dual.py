"""The exact solver of the dual of decisions under limits on rates."""

import numpy as np
import pytest
from tests.support.decisions import best_value, planted

from fairspan.method import decision_dual
from fairspan.method.decision_rule import solve_dual
from fairspan.method.rate_codes import Limit

CASES = {
    "two groups": ({"sizes": (2,)}, [Limit(value=v) for v in (0.0, 0.02, 0.2)]),
    "three groups": ({"sizes": (3,)}, [Limit(value=v) for v in (0.0, 0.05)]),
    "two attributes": ({"sizes": (2, 3)}, [Limit(value=0.03), Limit(value={"a0": 0.0, "a1": 0.1})]),
    "odds": ({"criterion": "equalized_odds"}, [Limit(value=0.05)]),
    "opportunity": ({"criterion": "equal_opportunity", "sizes": (3,)}, [Limit(value=0.01)]),
    "ratio": ({"sizes": (3,)}, [Limit(kind="ratio", value=v) for v in (0.8, 1.0)]),
    "ratio of odds": ({"criterion": "equalized_odds"}, [Limit(kind="ratio", value=0.9)]),
    "selection": ({"sizes": (2,), "selection_rate": 0.2}, [Limit(value=0.02)]),
    "selection, ratio": (
        {"sizes": (3,), "selection_rate": 0.3},
        [Limit(kind="ratio", value=0.8)],
    ),
    "costs": ({"cost": np.array([[0.0, 3.0], [1.0, -0.5]])}, [Limit(value=0.03)]),
    "classes": ({"classes": 3, "sizes": (2,)}, [Limit(value=v) for v in (0.0, 0.05)]),
    "classes, ratio": ({"classes": 3, "sizes": (3,)}, [Limit(kind="ratio", value=0.7)]),
}


@pytest.mark.parametrize("boxes", [False, True], ids=["whole", "boxes"])
@pytest.mark.parametrize("case", CASES)
def test_the_value_is_that_of_a_linear_program(case, boxes, monkeypatch):
    options, limits = CASES[case]
    if boxes:  # as with many rows
        monkeypatch.setattr(decision_dual, "_PROGRAM_SIZE", 100)
        monkeypatch.setattr(decision_dual, "_BOX_SIZE", 60)
    for seed in range(3):
        problem, solution = planted(seed, n=300, min_rows=10, **options), None
        for limit in limits:
            solution = solve_dual(problem, limit, solution)
            assert solution.value == pytest.approx(best_value(problem, limit), rel=1e-6)


def test_the_sort_finds_the_optimum_of_any_line():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 8))
        # Few distinct numbers: ties, zero codes and limits that are reached exactly.
        utility, code = rng.integers(-2, 3, n) / 2.0, rng.integers(-2, 3, n) / 2.0
        weight = np.full(n, 1.0 / n)
        codes = np.stack([code, np.zeros(n)], axis=1)
        dual = decision_dual.Dual(
            utility=utility, codes=codes, weight=weight, block=np.zeros(2, dtype=np.intp)
        )
        for limit in (0.0, 0.1, 0.5):
            bounds = np.zeros(2), np.full(2, limit)
            found = dual.value(dual.solve(*bounds), *bounds)
            # The optimum is at a break, or at 0.
            breaks = [0.0, *(u / c for u, c in zip(utility, code, strict=True) if c)]
            least = min(dual.value(np.array([b, -b]), *bounds) for b in breaks)
            assert found == pytest.approx(least, abs=1e-12)


def test_a_program_that_cannot_be_solved_is_an_error():
    dual = decision_dual.Dual(
        utility=np.ones(4),
        codes=np.ones((4, 1)),
        weight=np.full(4, 0.25),
        block=np.array([-1]),
    )
    with pytest.raises(ValueError, match="linear program of the decision rule has no solution"):
        dual.solve(np.array([2.0]), np.array([3.0]))
