"""Rates of groups, rate codes, and limits on rates."""

import numpy as np
import pytest

from fairspan.method.rate_codes import Limit, rate_blocks, ratio, spread


def rows(seed=0, n=400):
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.integers(-1, 3, n)
    attributes = {"sex": (sex, ["f", "m"]), "race": (race, ["a", "b", "c"])}
    return attributes, rng.integers(0, 2, n), rng.uniform(0.5, 2.0, n), rng.integers(0, 2, n)


@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity", "equalized_odds"])
def test_mean_products_with_decisions_are_differences_of_rates(criterion):
    attributes, y, weight, decisions = rows()
    blocks = rate_blocks(attributes, y, weight, criterion=criterion)
    cells = {"statistical_parity": 1, "equal_opportunity": 1, "equalized_odds": 2}[criterion]
    assert len(blocks) == 2 * cells
    for block in blocks:
        inside = np.ones(len(y), bool) if block.cell is None else y == block.cell
        overall = np.average(decisions[inside], weights=weight[inside])
        codes, labels = attributes[block.attribute]
        products = np.average(block.codes(y) * decisions[:, None], axis=0, weights=weight)
        for j, name in enumerate(block.groups):
            of_group = inside & (codes == labels.index(name))
            rate = np.average(decisions[of_group], weights=weight[of_group])
            assert products[j] == pytest.approx(rate - overall, abs=1e-12)
            assert block.rates(decisions, weight)[j] == pytest.approx(rate)


def test_small_groups_and_rows_without_weight_are_not_judged():
    attributes, y, weight, _ = rows()
    codes = attributes["race"][0]
    few = np.flatnonzero(codes == 2)
    weight[few[29:]] = 0.0
    block = rate_blocks({"race": attributes["race"]}, y, weight)[0]
    assert block.groups == ("a", "b")
    assert block.left_out == ("c",)
    assert (block.member[codes == 2] == -1).all()
    weight[few[29]] = 1.0
    assert rate_blocks({"race": attributes["race"]}, y, weight)[0].groups == ("a", "b", "c")
    assert rate_blocks({"race": attributes["race"]}, y, weight, min_rows=400) == ()


def test_limits_by_name_and_their_errors():
    attributes, y, weight, _ = rows()
    blocks = rate_blocks(attributes, y, weight)
    np.testing.assert_array_equal(Limit(value={"race": 0.1}).of(blocks), [1.0, 0.1])
    np.testing.assert_array_equal(Limit(kind="ratio", value={"sex": 0.8}).of(blocks), [0.8, 0.0])
    with pytest.raises(ValueError, match="'age'; attributes with rates are"):
        Limit(value={"age": 0.1}).of(blocks)
    with pytest.raises(ValueError, match="from 0 to 1"):
        Limit(value=1.5).of(blocks)


def test_spread_and_ratio_are_the_worst_over_classes():
    rates = np.array([[0.2, 0.8], [0.25, 0.4]])
    assert spread(rates) == pytest.approx(0.4)
    assert ratio(rates) == pytest.approx(0.5)
    assert ratio(np.zeros((2, 1))) == 1.0
