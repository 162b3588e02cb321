"""Predicted rate codes against a brute force written from their definition, row by row."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

from fairspan.method.decision_codes import CodeBlock, CodeSize, predict_rate_codes
from fairspan.method.folds import centre_within

RANKS = (3, 1)


def planted(seed, n=400, strong=(True, True)):
    """Out-of-fold predictions of two blocks of codes and of y, with weights and unequal folds."""
    rng = np.random.default_rng(seed)
    folds = rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4])
    weight = rng.gamma(2.0, size=n)
    blocks, columns, Q = [], [], sum(RANKS) + 2
    start = 0
    for rank, is_strong, known in zip(RANKS, strong, (1.0, 0.6), strict=True):
        codes = rng.normal(size=(n, rank)) @ (np.eye(rank) + 0.4 * rng.normal(size=(rank, rank)))
        codes[rng.random(n) < 0.1] = 0.0  # rows without a code
        signal = np.array([1.0, 0.25, 0.05])[:rank] if is_strong else np.zeros(rank)
        columns.append(codes * signal + 0.7 * rng.normal(size=(n, rank)) + rng.normal(size=rank))
        to_rates = np.zeros((rank, Q))
        to_rates[:, start : start + rank + 1] = rng.normal(size=(rank, rank + 1))
        # S is known for fewer rows in the second block.
        size = CodeSize(n_rows=0.8 * n, n_known=0.8 * n * known, share=known, share_of_cell=known)
        codes = centre_within(codes, folds, weight)
        blocks.append(CodeBlock(codes=codes, to_rates=to_rates, size=size))
        start += rank + 1
    y = columns[0][:, :1] + rng.normal(size=(n, 1))
    return np.concatenate([*columns, y], axis=1), folds, weight, blocks


def brute_force(scores, folds, weight, blocks):
    """Out-of-fold rate codes and matrix for new rows, from loops over folds and rows."""
    q = sum(block.codes.shape[1] for block in blocks)
    C = np.concatenate([block.codes for block in blocks], axis=1)
    total, Z = weight.sum(), np.array(scores, dtype=float)
    for k in np.unique(folds):
        own = folds == k
        Z[own] = scores[own] - np.average(scores[own], axis=0, weights=weight[own])
    sd = np.sqrt(np.average(Z**2, axis=0, weights=weight))
    b, G = np.zeros((len(scores), q)), {}
    for k in np.unique(folds):
        other = folds != k
        gram, cross = np.zeros((Z.shape[1], Z.shape[1])), np.zeros((Z.shape[1], q))
        mass = weight[other].sum()
        for z, c, w in zip(Z[other] / sd, C[other], weight[other], strict=True):
            gram = gram + w * np.outer(z, z) / mass
            cross = cross + w * np.outer(z, c) / mass
        n = np.concatenate(
            [[b.size.n_rows * b.size.share_of_cell] * b.codes.shape[1] for b in blocks]
        )
        G[k] = np.column_stack(
            [
                np.linalg.solve(gram + 3.0 / np.sqrt(m) * np.eye(len(gram)), column)
                for m, column in zip(n, cross.T, strict=True)
            ]
        )
        b[folds == k] = (Z[folds == k] / sd) @ G[k]
    start, maps = 0, []
    for block in blocks:
        r = block.codes.shape[1]
        own = b[:, start : start + r]
        cov_c = (C[:, start : start + r].T * weight) @ C[:, start : start + r] / total
        cov_b = (own.T * weight) @ own / total
        cov_cb = (C[:, start : start + r].T * weight) @ own / total
        root_c, root_b = (np.linalg.inv(scipy.linalg.sqrtm(M).real) for M in (cov_c, cov_b))
        U, rho, Vt = np.linalg.svd(root_c @ cov_cb @ root_b)
        M = np.zeros((r, r))
        for i in range(r):
            t, low = np.sqrt(block.size.n_known / block.size.share) * rho[i], 2.0 * np.sqrt(r)
            used = np.clip((t**2 - low**2) / ((low + 2.0) ** 2 - low**2), 0.0, 1.0)
            p = root_c @ U[:, i]
            if p @ cov_cb @ p <= 0.0:
                used = 0.0
            # Regression of the codes on the canonical variate of b, which has variance 1.
            variate = root_b @ Vt[i]
            M += used * np.outer(variate, cov_cb @ variate)
        maps.append(M @ block.to_rates)
        start += r
    to_rates = np.concatenate(maps)
    codes = np.zeros((len(scores), to_rates.shape[1]))
    for i in range(len(scores)):
        codes[i] = (scores[i] / sd) @ G[folds[i]] @ to_rates
    matrix = sum(weight[folds == k].sum() / total * G[k] for k in G) @ to_rates / sd[:, None]
    return codes, matrix


@pytest.mark.parametrize("strong", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("seed", range(3))
def test_codes_and_matrix_equal_a_brute_force(seed, strong):
    given = planted(seed, strong=strong)
    found = predict_rate_codes(*given)
    codes, matrix = brute_force(*given)
    np.testing.assert_allclose(found.codes, codes, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.matrix, matrix, rtol=0, atol=1e-10)


def test_the_cases_have_all_kinds_of_pairs():
    weights = np.concatenate(
        [w for seed in range(3) for w in predict_rate_codes(*planted(seed)).weight]
    )
    assert (weights == 0.0).any()
    assert ((weights > 0.0) & (weights < 1.0)).any()
    assert (weights == 1.0).any()


def test_a_block_that_is_not_predicted_has_no_codes():
    scores, folds, weight, blocks = planted(5)
    scores[:, 0:3] = np.random.default_rng(6).normal(size=(len(scores), 3))
    scores[:, 4] = scores[:, 3]  # nor does y predict it
    found = predict_rate_codes(scores, folds, weight, blocks)
    assert not found.weight[0].any()
    assert not found.codes[:, :4].any()
    assert found.weight[1].all()
    assert found.codes[:, 4:].any()


def test_an_invertible_change_of_the_codes_gives_the_same_rates():
    scores, folds, weight, blocks = planted(0)
    before = predict_rate_codes(scores, folds, weight, blocks)
    T = np.random.default_rng(1).normal(size=(3, 3)) + 2.0 * np.eye(3)
    changed = replace(
        blocks[0], codes=blocks[0].codes @ T, to_rates=np.linalg.solve(T, blocks[0].to_rates)
    )
    after = predict_rate_codes(scores, folds, weight, [changed, blocks[1]])
    np.testing.assert_allclose(after.codes, before.codes, atol=1e-10)
    np.testing.assert_allclose(after.matrix, before.matrix, atol=1e-10)


def test_units_of_the_predictions_do_not_matter():
    scores, folds, weight, blocks = planted(1)
    unit = np.array([2.0, 0.1, 5.0, 30.0, 0.02])
    before = predict_rate_codes(scores, folds, weight, blocks)
    after = predict_rate_codes(scores * unit, folds, weight, blocks)
    np.testing.assert_allclose(after.codes, before.codes, atol=1e-10)
    np.testing.assert_allclose(unit[:, None] * after.matrix, before.matrix, atol=1e-10)


def test_constants_of_the_predictions_move_codes_by_constants_of_the_fold():
    """Predictions are centred at the means of the folds before; what is left moves a fold as a whole."""
    scores, folds, weight, blocks = planted(2)
    before = predict_rate_codes(scores, folds, weight, blocks)
    after = predict_rate_codes(scores + 3.0, folds, weight, blocks)
    np.testing.assert_allclose(after.matrix, before.matrix, atol=1e-10)
    moved = after.codes - before.codes
    for k in np.unique(folds):
        np.testing.assert_allclose(np.ptp(moved[folds == k], axis=0), 0.0, atol=1e-10)


def test_order_of_rows_and_unit_of_weights_do_not_matter():
    scores, folds, weight, blocks = planted(3)
    order = np.random.default_rng(4).permutation(len(folds))
    before = predict_rate_codes(scores, folds, weight, blocks)
    shuffled = [replace(block, codes=block.codes[order]) for block in blocks]
    after = predict_rate_codes(scores[order], folds[order], 7.0 * weight[order], shuffled)
    np.testing.assert_allclose(after.codes, before.codes[order], atol=1e-10)
    np.testing.assert_allclose(after.matrix, before.matrix, atol=1e-10)


def test_a_constant_prediction_is_ignored():
    scores, folds, weight, blocks = planted(4)
    scores[:, 4] = 0.25
    found = predict_rate_codes(scores, folds, weight, blocks)
    assert np.isfinite(found.codes).all()
    assert not found.matrix[4].any()
