from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairspan.method.problem import GroupProbabilities
from fairspan.report.likely import LikelyGroups, equivalent_words, likely_words, promise_words


def likely(p: Any, weight: Any = None) -> LikelyGroups:
    p = np.asarray(p, dtype=float)
    attribute = GroupProbabilities("race", p, np.zeros(len(p), dtype=bool), "f", ("a", "b"))
    return LikelyGroups.of(attribute, np.ones(len(p)) if weight is None else weight)


def test_two_groups_are_worth_the_variance_of_their_probability() -> None:
    p = np.random.default_rng(0).uniform(size=300)
    found = likely(np.column_stack([p, 1 - p]))
    assert found.counts == (round(p.sum()), round(300 - p.sum()))
    np.testing.assert_allclose(found.n_equivalent, 300 * p.var() / (p.mean() * (1 - p.mean())))
    assert not found.certain
    words = likely_words(found, 300)
    assert (
        f"300 held-out rows tell as much as {found.n_equivalent:,.0f} with a known group" in words
    )
    assert "the share p is in it" in words
    assert "only through the group" in words
    assert equivalent_words(found).endswith(
        f"worth {found.n_equivalent:,.0f} rows with a known group"
    )


def test_weights_count_as_kish_does() -> None:
    p, weight = np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1)), np.repeat([1.0, 3.0], 50)
    found = likely(p, weight)
    np.testing.assert_allclose(found.n_equivalent, weight.sum() ** 2 / (weight @ weight))
    assert found.certain
    assert equivalent_words(found) == ""
    assert "the groups are known" in likely_words(found, 100)


@pytest.mark.parametrize(("worth", "says"), [(40.2, True), (100.0, False), (None, False)])
def test_the_promise_says_what_it_rests_on(worth: float | None, says: bool) -> None:
    block = SimpleNamespace(attribute="race", cell="all rows", n_rows=100, n_equivalent=worth)
    certificate: Any = SimpleNamespace(blocks=[block])
    found = list(promise_words(certificate))
    assert len(found) == says
    if says:
        assert "100 training rows tell as much as 40 with a known group" in found[0]
