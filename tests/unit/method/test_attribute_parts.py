"""Parts of combinations of codes, by attribute."""

import numpy as np

from fairspan.method.attribute_parts import parts_of_codes, parts_of_covectors
from fairspan.method.subspaces import Metric


def metric(rng, D):
    root = rng.normal(size=(D, 2 * D))
    return Metric.correlation(root @ root.T / D, 0.1)


def functions(parts, basis):
    """Parts of the functions of the basis after the first d, (attributes, D, m - d)."""
    after = parts.mix.shape[1]
    return parts.split(basis, np.eye(basis.shape[1])[:, -after:])[1]


def test_codes_of_one_attribute_in_several_cells_are_one_part(rng):
    predictions, mix = rng.normal(size=(6, 5)), rng.normal(size=(5, 2))
    parts = parts_of_codes(predictions, mix, ["race", "sex", "race"], [2, 1, 2])
    assert parts.names == ("race", "sex")
    A = rng.normal(size=(6, 2))
    race, sex = functions(parts, np.concatenate([A, predictions @ mix], axis=1))
    np.testing.assert_allclose(sex, predictions[:, [2]] @ mix[[2]])
    np.testing.assert_allclose(race + sex, predictions @ mix)


def test_new_rows_split_along_the_fair_end(rng):
    predictions, mix = rng.normal(size=(6, 3)), rng.normal(size=(3, 2))
    parts = parts_of_codes(predictions, mix, ["race", "sex"], [2, 1])
    A, u = rng.normal(size=(6, 2)), predictions @ mix
    basis, coef = np.concatenate([A, u], axis=1), rng.normal(size=(4, 3))
    fair, own = parts.split(basis, coef)
    np.testing.assert_allclose(fair + own.sum(axis=0), basis @ coef, atol=1e-12)
    np.testing.assert_allclose(fair, (A - u) @ coef[:2])  # nothing but the fair end
    # A multiple of the fair end belongs to no attribute.
    fair, own = parts.split(basis, np.concatenate([coef[:2], -coef[:2]]))
    assert np.abs(own).max() < 1e-12


def test_removed_directions_are_sums_over_covectors(rng):
    D = 7
    R, codes = metric(rng, D), [rng.normal(size=(D, 2)), rng.normal(size=(D, 1))]
    N = np.concatenate(codes, axis=1)
    V, nu = R.covectors(N), rng.normal(size=(3, 2))
    Q = np.linalg.qr(V)[0]
    g = rng.normal(size=(D, 1))
    kept = g - Q @ (Q.T @ g)
    kept = kept / np.linalg.norm(kept)
    extra = V @ rng.normal(size=(3, 1))
    found = parts_of_covectors(R, V @ nu, codes, extra, codes, kept, ["race", "sex"])
    basis = np.concatenate([R.back(p) for p in (np.tile(kept, 2), V @ nu, extra)], axis=1)
    race, sex = functions(found, basis)
    of_race = np.linalg.solve(R.factor @ R.factor.T, codes[0]) @ nu[:2]
    np.testing.assert_allclose(race[:, :2], of_race, atol=1e-10)
    np.testing.assert_allclose((race + sex)[:, :2], R.back(V @ nu), atol=1e-10)
    np.testing.assert_allclose((race + sex)[:, 2:], R.back(extra), atol=1e-10)
    # With one kept direction, as for separate limits.
    one = parts_of_covectors(R, V @ nu[:, :1], codes, extra, codes, kept, ["race", "sex"])
    basis = np.concatenate([R.back(kept), R.back(V @ nu[:, :1]), R.back(extra)], axis=1)
    coef = rng.normal(size=(3, 2))
    fair, own = one.split(basis, coef)
    np.testing.assert_allclose(fair + own.sum(axis=0), basis @ coef, atol=1e-10)
    np.testing.assert_allclose(N.T @ fair, 0.0, atol=1e-9)  # no covariance with any code


def test_what_is_left_of_a_limit_is_along_what_is_kept(rng):
    """With fewer directions removed than there are codes, the kept one has covariance with the others."""
    D = 7
    R, codes = metric(rng, D), [rng.normal(size=(D, 2)), rng.normal(size=(D, 2))]
    covectors = [part[:, :1] for part in codes]
    N, every = (R.covectors(np.concatenate(parts, axis=1)) for parts in (covectors, codes))
    g = rng.normal(size=(D, 1))
    kept = g - N @ np.linalg.lstsq(N, g, rcond=None)[0]
    removed = g - kept
    line = np.linalg.qr(np.concatenate([kept, removed], axis=1))[0]
    extra = every - line @ (line.T @ every)
    kept = kept / np.linalg.norm(kept)
    found = parts_of_covectors(R, removed, covectors, extra, codes, kept, ["race", "sex"])
    basis = R.back(np.concatenate([kept, removed, extra], axis=1))
    fair, own = found.split(basis, np.eye(basis.shape[1]))
    np.testing.assert_allclose(fair + own.sum(axis=0), basis, atol=1e-10)
    along = R.functions(fair)
    np.testing.assert_allclose(along, kept @ (kept.T @ along), atol=1e-10)
    assert np.abs(along[:, 2:]).max() > 1e-3


def test_attributes_that_are_the_same_share_their_part(rng):
    R, N = metric(rng, 5), rng.normal(size=(5, 1))
    none = np.zeros((5, 0))
    removed = R.covectors(N)
    found = parts_of_covectors(R, removed, [N, N], none, [N, N], none, ["a", "b"])
    a, b = functions(found, R.back(removed))
    np.testing.assert_allclose(a, R.back(removed) / 2.0, atol=1e-10)
    np.testing.assert_allclose(a, b)


def test_a_covector_of_zeros_has_no_part(rng):
    R, N, none = metric(rng, 5), rng.normal(size=(5, 1)), np.zeros((5, 0))
    removed = R.covectors(N)
    found = parts_of_covectors(R, removed, [N, 0.0 * N], none, [N, N], none, ["a", "b"])
    a, b = functions(found, R.back(removed))
    np.testing.assert_allclose(a, R.back(removed), atol=1e-10)
    assert not b.any()
