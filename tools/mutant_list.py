"""Ways to break the core, each with the few quick tests that are to notice it.

``old`` occurs exactly once in its file (``tests/tools/test_mutant_list.py`` says so), and ``new`` is a
fault that a person could have written. What changes nothing is no mutant: tests cannot tell it apart.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTANTS", "SOURCE", "Mutant"]

SOURCE = "src/fairspan"


@dataclass(frozen=True)
class Mutant:
    """One fault: what it is, where, and who is to notice it."""

    name: str
    file: str  # inside SOURCE
    old: str
    new: str
    tests: tuple[str, ...]


def _tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{file}.py::test_{name}" for name in names)


POOLED = _tests("unit/method/test_moments", "pooled_moments_equal_sums_over_rows")
ADDED = _tests("unit/method/test_moments", "addition_is_that_of_the_rows")
TOGETHER = _tests("unit/method/test_moments", "bringing_groups_together_keeps_the_rows")
CUTS = _tests("unit/method/test_moments", "any_cut_into_blocks_gives_the_same_moments")
PAPER = _tests("golden/test_reference", "authors_numbers")
ORACLE = _tests("laws/test_dense_oracle", "predictions_equal_the_dense_oracle")
SUPREMUM = _tests("laws/test_certificate", "the_maximiser_attains_the_supremum")
NO_COVARIANCE = _tests("laws/test_zero_covariance", "all_directions_leave_no_covariance_at_any_eta")
GEOMETRY = _tests("laws/test_geometry", "gaps_equal_their_closed_forms")
COPIES = _tests("laws/test_invariance", "integer_weights_equal_repeated_rows")
LIMIT = _tests("laws/test_dial", "a_limit_on_the_correlation_is_kept_on_the_raw_rows_and_used_up")
HELD_OUT = _tests("test_gp_classifier", "held_out_scores_are_those_of_a_fit_without_the_fold")
SOFTMAX = _tests("unit/method/test_laplace", "more_classes_are_softmax_with_one_prior_each")
LOOPS = _tests("unit/metrics/test_scores", "decisions_equal_plain_loops")
SCORE_LOOPS = _tests("unit/metrics/test_scores", "scores_equal_plain_loops")
RESUMED = _tests("test_streams", "resumed_after_any_block_it_is_the_same_model")
REFITS = _tests("unit/method/test_refits", "the_estimate_is_that_of_models_refitted_on_rows")
CODES = _tests("unit/method/test_decision_codes", "codes_and_matrix_equal_a_brute_force")
NEW_ROWS = _tests("laws/test_new_rows", "moments_of_folds_equal_regressions_on_rows")

MUTANTS: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------ moments
    Mutant(
        "covariance by n - 1",
        "method/moments.py",
        "return self.scatter / self.weight",
        "return self.scatter / (self.weight - 1.0)",
        _tests("unit/method/test_moments", "pooled_moments_equal_sums_over_rows") + ORACLE,
    ),
    Mutant(
        "merged scatter without the gap of the means",
        "method/moments.py",
        "scatter[g] += factor[g] * np.outer(delta[g], delta[g])",
        "scatter[g] += 0.0 * np.outer(delta[g], delta[g])",
        ADDED,
    ),
    Mutant(
        "merged mean takes the other side's share",
        "method/moments.py",
        "share = (wb / safe).reshape(wb.shape + (1,) * extra)",
        "share = (wa / safe).reshape(wa.shape + (1,) * extra)",
        ADDED,
    ),
    Mutant(
        "merged cross product with the wrong sign",
        "method/moments.py",
        "+ (factor * v_gap)[..., None] * kappa_gap",
        "- (factor * v_gap)[..., None] * kappa_gap",
        ADDED,
    ),
    Mutant(
        "merged square without the gap of the means",
        "method/moments.py",
        "column_square=self.column_square + other.column_square + factor * v_gap**2,",
        "column_square=self.column_square + other.column_square,",
        ADDED,
    ),
    Mutant(
        "squared weights of levels not merged",
        "method/moments.py",
        "level_weight2=self.level_weight2 + other.level_weight2,",
        "level_weight2=self.level_weight2,",
        ADDED,
    ),
    Mutant(
        "pooled scatter without weights between groups",
        "method/moments.py",
        "spread = (self.mean[g] - mean) * np.sqrt(w)[:, None]",
        "spread = self.mean[g] - mean",
        POOLED,
    ),
    Mutant(
        "pooled level means without weights",
        "method/moments.py",
        "share = weight / np.where(total > 0.0, total, 1.0)",
        "share = (weight > 0.0) / np.maximum((weight > 0.0).sum(axis=0), 1)",
        POOLED,
    ),
    Mutant(
        "last cell dropped when cells are brought together",
        "method/moments.py",
        "for start in range(0, len(self.weight), self.n_folds)",
        "for start in range(0, max(len(self.weight) - self.n_folds, 1), self.n_folds)",
        TOGETHER,
    ),
    Mutant(
        "first row is always the left side's",
        "method/moments.py",
        "first = self if earlier else other",
        "first = self",
        _tests("unit/method/test_moments", "the_lower_first_row_wins_on_either_side"),
    ),
    Mutant(
        "effective size without the square",
        "method/moments.py",
        "return weight**2 / weight2 if weight2 > 0.0 else 0.0",
        "return weight / weight2 if weight2 > 0.0 else 0.0",
        _tests("unit/method/test_moments", "effective_size"),
    ),
    # ------------------------------------------------------------------ accumulator
    Mutant(
        "squared weights not squared",
        "method/accumulate.py",
        "squares = w**2 @ indicators",
        "squares = w @ indicators",
        POOLED,
    ),
    Mutant(
        "rows scaled by their weight, not its root",
        "method/accumulate.py",
        "Z *= np.sqrt(w)[:, None]",
        "Z *= w[:, None]",
        POOLED,
    ),
    Mutant(
        "border not cleared after settling",
        "method/accumulate.py",
        "gram[:, D:] = 0.0",
        "gram[D:, D:] = 0.0",
        CUTS,
    ),
    Mutant(
        "rank-one correction with the wrong sign",
        "method/accumulate.py",
        "blas.dsyr(-float(m.weight[g]), step",
        "blas.dsyr(float(m.weight[g]), step",
        CUTS,
    ),
    Mutant(
        "first row of the last block, not of the first",
        "method/accumulate.py",
        "keep = 0 <= m.first_index <= first_index",
        "keep = False",
        _tests("unit/estimators/test_stream_methods", "blocks_keep_the_first_row_of_the_first"),
    ),
    # ------------------------------------------------------------------ linear algebra
    Mutant(
        "eigenvalues ascending",
        "method/linalg.py",
        "return values[::-1].copy(), vectors[:, ::-1].copy()",
        "return values.copy(), vectors.copy()",
        _tests("unit/method/test_linalg", "eigenvalues_come_in_descending_order"),
    ),
    Mutant(
        "lower triangle written onto the upper one",
        "method/linalg.py",
        "tile[...] = np.triu(tile) + np.triu(tile, 1).T",
        "tile[...] = np.tril(tile) + np.tril(tile, -1).T",
        _tests("unit/method/test_linalg", "mirroring_copies_the_upper_triangle"),
    ),
    # ------------------------------------------------------------------ directions and ridges
    Mutant(
        "codes of part of a cell not scaled to it",
        "method/sdr.py",
        "codes * np.sqrt(total / cell_weight),",
        "codes,",
        _tests("unit/method/test_sdr", "a_block_on_part_of_the_cell_counts_for_that_part"),
    ),
    Mutant(
        "codes that are not centred",
        "method/sdr.py",
        "codes = scipy.linalg.null_space(root[None])",
        "codes = scipy.linalg.null_space(np.ones((1, len(root))))",
        _tests("unit/method/test_sdr", "a_level_block_is_the_covariance_with_whitened_indicators"),
    ),
    Mutant(
        "small slice joins its larger neighbour",
        "method/sdr.py",
        "partner = min(neighbours, key=lambda i: size(groups[i]))",
        "partner = max(neighbours, key=lambda i: size(groups[i]))",
        _tests("unit/method/test_sdr", "a_small_slice_joins_its_smaller_neighbour"),
    ),
    Mutant(
        "generalised cross-validation without its square",
        "method/sdr.py",
        "scores[i] = (block.rank - explained) / (1.0 - dof / n) ** 2",
        "scores[i] = (block.rank - explained) / (1.0 - dof / n)",
        _tests("unit/method/test_sdr", "gcv_equals_brute_force_over_rows"),
    ),
    Mutant(
        "training and test folds swapped",
        "method/sdr.py",
        "test, train = moments.pool(folds=mask), moments.pool(folds=~mask)",
        "train, test = moments.pool(folds=mask), moments.pool(folds=~mask)",
        _tests("unit/method/test_sdr", "kfold_errors_equal_brute_force_over_rows"),
    ),
    Mutant(
        "held-out error without the shift of the means",
        "method/sdr.py",
        "mse = np.tile(v_test, len(grid)) - 2.0 * lin + quad + shift**2",
        "mse = np.tile(v_test, len(grid)) - 2.0 * lin + quad",
        _tests("unit/method/test_sdr", "kfold_errors_equal_brute_force_over_rows"),
    ),
    Mutant(
        "grid of ridges without the unit of the features",
        "method/sdr.py",
        "return trace * 10.0 **",
        "return 10.0 **",
        _tests("unit/method/test_sdr", "the_grid_has_quarter_decades_of_the_trace"),
    ),
    Mutant(
        "paper's eigenvalues not sorted",
        "method/sdr.py",
        "return tau[::-1].copy(), W[:, ::-1].copy()",
        "return tau.copy(), W.copy()",
        _tests("unit/method/test_sdr", "paper_directions_solve_the_papers_pencil"),
    ),
    Mutant(
        "test of directions by n, not n - 1",
        "method/sdr.py",
        "free, p = n - 1.0 - k, r - k",
        "free, p = n - k, r - k",
        _tests("unit/method/test_sdr", "p_values_equal_the_dense_formulas"),
    ),
    Mutant(
        "within-level covariance adds the spread of the means",
        "method/sdr.py",
        "np.asarray(pooled.cov - spread.T @ spread)",
        "np.asarray(pooled.cov + spread.T @ spread)",
        _tests("unit/method/test_sdr", "within_covariance_is_that_around_the_group_means"),
    ),
    # ------------------------------------------------------------------ subspaces and the dial
    Mutant(
        "covectors in the coordinates of functions",
        "method/subspaces.py",
        "scipy.linalg.solve_triangular(self.factor, n, lower=True, check_finite=False)",
        'scipy.linalg.solve_triangular(self.factor, n, lower=True, trans="T")',
        _tests(
            "unit/method/test_subspaces", "the_metric_turns_the_geometry_into_the_euclidean_one"
        ),
    ),
    Mutant(
        "dial inverted",
        "method/subspaces.py",
        "return (1.0 - value) * pair.angles",
        "return value * pair.angles",
        _tests("unit/method/test_subspaces", "dials_read_their_own_scale"),
    ),
    Mutant(
        "cosine dial opens the angle",
        "method/subspaces.py",
        "return np.minimum(pair.angles, np.arccos(value))",
        "return np.maximum(pair.angles, np.arccos(value))",
        _tests("unit/method/test_subspaces", "dials_read_their_own_scale"),
    ),
    Mutant(
        "principal angles in the wrong order",
        "method/subspaces.py",
        'order = np.argsort(-cosines, kind="stable")',
        'order = np.argsort(cosines, kind="stable")',
        _tests("unit/method/test_subspaces", "angles_are_those_between_g_and_f"),
    ),
    Mutant(
        "model on the far side of the fair subspace",
        "method/subspaces.py",
        "C[d + np.arange(d), np.arange(d)] = np.sin(angles)",
        "C[d + np.arange(d), np.arange(d)] = -np.sin(angles)",
        ORACLE,
    ),
    Mutant(
        "accuracy gap is that of the fair end",
        "method/subspaces.py",
        "np.abs(np.sin(pair.angles - angles)).max(initial=0.0)",
        "np.abs(np.sin(pair.angles)).max(initial=0.0)",
        GEOMETRY,
    ),
    # ------------------------------------------------------------------ heads
    Mutant(
        "head penalised in the wrong norm",
        "method/subspaces.py",
        "normal = C.T @ (path.cov + eta_y * path.gram) @ C",
        "normal = C.T @ (path.cov + eta_y * np.eye(len(path.cov))) @ C",
        _tests("unit/method/test_subspaces", "the_head_minimises_the_penalised_loss"),
    ),
    Mutant(
        "multiple correlation squared",
        "method/subspaces.py",
        "return float(np.sqrt(np.clip(ratio, 0.0, 1.0).max(initial=0.0)))",
        "return float(np.clip(ratio, 0.0, 1.0).max(initial=0.0))",
        _tests(
            "unit/method/test_subspaces", "multiple_correlation_is_the_correlation_with_the_code"
        ),
    ),
    Mutant(
        "bisection returns the side that breaks the limit",
        "method/subspaces.py",
        "return good, worst(good)",
        "return bad, worst(bad)",
        _tests("unit/method/test_subspaces", "the_side_of_a_jump_that_keeps_the_limit_is_taken"),
    ),
    Mutant(
        "line to the fair end walked backwards",
        "method/subspaces.py",
        "np.tan((1.0 - fairness) * theta[wide])",
        "np.tan(fairness * theta[wide])",
        _tests("test_models", "all_of_f_gives_the_line_between_the_ends"),
    ),
    # ------------------------------------------------------------------ Gaussian process
    Mutant(
        "evidence by n, not n - 1",
        "method/gp.py",
        "(stats.n - 1) * np.log(2.0 * np.pi * noise)\n        + np.log(stats.weight)",
        "stats.n * np.log(2.0 * np.pi * noise)\n        + np.log(stats.weight)",
        _tests("unit/method/test_gp", "the_evidence_is_that_of_the_contrasts"),
    ),
    Mutant(
        "posterior variance without noise",
        "method/gp.py",
        "factor = scipy.linalg.cho_factor(stats.gram / noise + prior_precision, lower=True)",
        "factor = scipy.linalg.cho_factor(stats.gram + prior_precision, lower=True)",
        _tests("unit/method/test_gp", "the_posterior_is_that_of_a_dense_process"),
    ),
    Mutant(
        "slope of the evidence with the wrong sign",
        "method/gp.py",
        "d_precision = p * np.diag(inverse) - 1.0 + p * mean**2",
        "d_precision = p * np.diag(inverse) - 1.0 - p * mean**2",
        _tests("unit/method/test_gp", "gradients_are_finite_differences"),
    ),
    Mutant(
        "noise of the evidence ridge without weights",
        "method/gp.py",
        "noises[i] = weight * unexplained / (n - 1)",
        "noises[i] = unexplained / (n - 1)",
        _tests("unit/method/test_gp", "the_evidence_ridge_is_the_best_of_its_grid"),
    ),
    Mutant(
        "predictive deviation without noise",
        "estimators/gp_regressor.py",
        "return mean, np.sqrt(self._latent_variance(checked) + common + self.noise_)",
        "return mean, np.sqrt(self._latent_variance(checked) + common)",
        _tests("test_models", "the_posterior_is_that_of_scikit_learn"),
    ),
    Mutant(
        "shrinkage of the fair prior inverted",
        "method/fair_prior.py",
        "ridge = (1.0 - t) / t * eta_y",
        "ridge = t / (1.0 - t + 1e-300) * eta_y",
        _tests("laws/test_fair_subspace", "gaps_equal_their_closed_forms"),
    ),
    # ------------------------------------------------------------------ Laplace and calibration
    Mutant(
        "Laplace step without prior",
        "method/laplace.py",
        "slope.T.ravel() - prior @ flat,",
        "slope.T.ravel(),",
        SOFTMAX,
    ),
    Mutant(
        "Laplace curvature without prior",
        "method/laplace.py",
        "            curvature + prior,",
        "            curvature,",
        _tests("unit/method/test_laplace", "the_covariance_is_the_inverse_of_the_curvature"),
    ),
    Mutant(
        "weights of labels ignored",
        "method/laplace.py",
        "indicators = indicators if weight is None else indicators * weight",
        "indicators = indicators * 1.0",
        _tests("unit/method/test_laplace", "a_weight_is_a_number_of_copies"),
    ),
    Mutant(
        "evidence adds the curvature",
        "method/laplace.py",
        "np.log(2.0 * np.pi) - 0.5 * factor.log_det",
        "np.log(2.0 * np.pi) + 0.5 * factor.log_det",
        _tests("unit/method/test_laplace", "the_evidence_of_two_classes_by_its_formula"),
    ),
    Mutant(
        "moderation twice as strong",
        "method/laplace.py",
        "np.sqrt(1.0 + np.pi / 8.0 * variance)",
        "np.sqrt(1.0 + np.pi / 4.0 * variance)",
        _tests("unit/method/test_laplace", "moderation_averages_the_logistic_over_a_gaussian"),
    ),
    Mutant(
        "calibration link inverted",
        "method/calibration.py",
        "out = np.exp(-rise)",
        "out = np.exp(rise)",
        _tests("unit/method/test_calibration", "unit_slopes_are_softmax"),
    ),
    Mutant(
        "calibration ignores weights",
        "method/calibration.py",
        "w = np.ones(n) if weight is None else weight",
        "w = np.ones(n)",
        _tests("unit/method/test_calibration", "a_weight_is_a_number_of_copies"),
    ),
    Mutant(
        "slopes of the link pulled away from 1",
        "method/calibration.py",
        "slope += _PULL * (s - 1.0)",
        "slope -= _PULL * (s - 1.0)",
        _tests("unit/method/test_calibration", "the_fit_is_the_best_of_its_penalised_likelihood"),
    ),
    Mutant(
        "curvature of the likelihood ignores weights",
        "estimators/likelihood_rows.py",
        "v = v if weight is None else v * weight[rows]\n                root",
        "root",
        _tests("test_curvature", "a_copy_is_a_weight_of_two"),
    ),
    # ------------------------------------------------------------------ codes, cells, folds
    Mutant(
        "a value equal to an edge falls below it",
        "method/codes.py",
        'return np.searchsorted(edges, values, side="right").astype(np.intp)',
        'return np.searchsorted(edges, values, side="left").astype(np.intp)',
        _tests("unit/method/test_codes", "slices_equal_the_definition"),
    ),
    Mutant(
        "quantiles from the wrong side",
        "method/codes.py",
        "np.searchsorted(cdf, levels - 1e-12)",
        'np.searchsorted(cdf, levels + 1e-12, side="right")',
        _tests("unit/method/test_codes", "slices_equal_the_definition"),
    ),
    Mutant(
        "slices ignore weights",
        "method/codes.py",
        "mass = np.bincount(inverse, weights=weights, minlength=len(distinct))",
        "mass = np.bincount(inverse, minlength=len(distinct))",
        _tests("unit/method/test_codes", "edges_with_integer_weights_are_those_of_copies"),
    ),
    Mutant(
        "equal opportunity on the other class",
        "method/codes.py",
        "rest = to_home(target_codes, home) != self.positive",
        "rest = to_home(target_codes, home) == self.positive",
        _tests("unit/method/test_codes", "cells_of_each_criterion"),
    ),
    Mutant(
        "folds of strata not staggered",
        "method/folds.py",
        "start[s] = self.offset + rank + seen",
        "start[s] = self.offset + seen",
        _tests("unit/method/test_folds", "tiny_strata_do_not_share_a_fold"),
    ),
    Mutant(
        "fold counters begin anew in every block",
        "method/folds.py",
        "seen = self.counts.get(keys[s], 0)",
        "seen = 0",
        _tests("unit/method/test_folds", "blocks_get_the_folds_of_the_batch"),
    ),
    Mutant(
        "folds by place not rotated",
        "method/folds.py",
        "rotation = mix(positions // K) % K",
        "rotation = 0 * positions",
        _tests("unit/method/test_folds", "data_with_a_period_are_balanced"),
    ),
    Mutant(
        "rows dealt in the order they come",
        "method/folds.py",
        "order = np.lexsort((*self.ties, self.keys, self.stratum))",
        "order = np.lexsort((self.stratum,))",
        _tests("unit/method/test_folds", "shuffling_rows_changes_neither_folds_nor_samples"),
    ),
    Mutant(
        "strata ordered by their names",
        "method/folds.py",
        "stratum=_rank(_sums(keys, inverse))[inverse]",
        "stratum=inverse",
        _tests("unit/method/test_folds", "renaming_groups_does_not_change_folds"),
    ),
    Mutant(
        "all copies of a row drawn together",
        "method/folds.py",
        "mix(keys ^ mix(copy), salt)",
        "mix(keys, salt)",
        _tests("unit/method/test_folds", "a_sample_with_many_copies_is_a_sample_of_rows"),
    ),
    Mutant(
        "standard errors of grouped rows count rows",
        "method/new_rows.py",
        "n_effective=kish(weight, weight2) * pilot.cluster_share,",
        "n_effective=kish(weight, weight2),",
        _tests("laws/test_row_order", "standard_errors_count_groups"),
    ),
    # ------------------------------------------------------------------ features
    Mutant(
        "gamma doubled in one factor",
        "method/kernels.py",
        "np.multiply(centred.T, 2.0 * gamma, out=self._right[:-2, :m])",
        "np.multiply(centred.T, 4.0 * gamma, out=self._right[:-2, :m])",
        _tests("unit/method/test_kernels", "the_rbf_kernel_equals_its_definition"),
    ),
    Mutant(
        "width halved",
        "method/kernels.py",
        "1.0 / width**2",
        "1.0 / (2.0 * width**2)",
        _tests("unit/method/test_kernels", "widths"),
    ),
    Mutant(
        "cut of small eigenvalues dropped",
        "method/features.py",
        "if exact else NYSTROM_TOL",
        "if exact else 0.0",
        _tests("unit/method/test_features", "directions_below_the_cut_are_dropped_and_counted"),
    ),
    Mutant(
        "coordinates coloured, not whitened",
        "method/features.py",
        "np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep]))",
        "np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))",
        _tests("unit/method/test_features", "psi_reproduces_the_kernel_on_its_landmarks"),
    ),
    Mutant(
        "landmarks not dealt to strata in turn",
        "method/features.py",
        'return np.argsort(position, kind="stable")[:size]',
        "return np.arange(size)",
        _tests("unit/method/test_features", "every_stratum_gets_an_equal_share_of_landmarks"),
    ),
    # ------------------------------------------------------------------ limits
    Mutant(
        "limit does not grow with the standard deviation",
        "method/limits.py",
        "np.stack([code @ code.T - cov for",
        "np.stack([code @ code.T for",
        _tests("unit/method/test_limits", "one_limit_is_theorem_5"),
    ),
    Mutant(
        "limit of zero not projected out",
        "method/limits.py",
        "if limit <= _ZERO_LIMIT], len(g)",
        "if limit < 0.0], len(g)",
        _tests("unit/method/test_limits", "limits_of_zero_are_the_projection"),
    ),
    # ------------------------------------------------------------------ certificates
    Mutant(
        "certificate counts what is not constrained",
        "method/certificates.py",
        "max((b.supremum for b in self.blocks if b.constrained), default=0.0)",
        "max((b.supremum for b in self.blocks), default=0.0)",
        _tests("unit/method/test_certificates", "only_constrained_blocks_count"),
    ),
    Mutant(
        "maximiser is the least correlated function",
        "method/subspaces.py",
        "np.asarray(whiten @ left[:, 0])",
        "np.asarray(whiten @ left[:, -1])",
        _tests(
            "unit/method/test_certificates",
            "no_function_exceeds_the_supremum_and_its_own_attains_it",
        ),
    ),
    Mutant(
        "certificate on the wrong cell",
        "method/removal.py",
        "Block(report=report, cov=cell.cov, delta=code.delta",
        "Block(report=report, cov=total_cov, delta=code.delta",
        SUPREMUM,
    ),
    # ------------------------------------------------------------------ the solution
    Mutant(
        "covariance of all rows instead of the cell",
        "method/removal.py",
        "cov = total_cov if pooled is total or pooled.rows == 0 else pooled.cov",
        "cov = total_cov",
        SUPREMUM,
    ),
    Mutant(
        "paper's covectors by the cell's covariance",
        "method/removal.py",
        "covectors = total_cov @ W",
        "covectors = cov @ W",
        PAPER,
    ),
    Mutant(
        "a cell dropped",
        "method/removal.py",
        "for c, cell in enumerate(pilot.cells.names):",
        "for c, cell in enumerate(pilot.cells.names[: max(1, len(pilot.cells.names) - 1)]):",
        NO_COVARIANCE,
    ),
    Mutant(
        "weakest directions removed instead of the strongest",
        "method/removal.py",
        "covectors = code.delta @ directions.codes[:, :m]",
        "covectors = code.delta @ directions.codes[:, ::-1][:, :m]",
        _tests(
            "laws/test_zero_covariance",
            "fewer_directions_leave_no_covariance_with_the_kept_combinations",
        ),
    ),
    Mutant(
        "alpha not in the unit of the weights",
        "method/solution.py",
        "return float(config.alpha) / total.weight",
        "return float(config.alpha)",
        ORACLE,
    ),
    Mutant(
        "fair and removed halves swapped",
        "method/solution.py",
        "columns = [pair.fair, pair.removed]",
        "columns = [pair.removed, pair.fair]",
        ORACLE,
    ),
    Mutant(
        "geometries swapped",
        "method/solution.py",
        "metric = ridge if config.correlation_metric else Metric.rkhs()",
        "metric = Metric.rkhs() if config.correlation_metric else ridge",
        ORACLE,
    ),
    Mutant(
        "first row not centred",
        "method/solution.py",
        "moments.first_row - total.mean",
        "moments.first_row",
        PAPER,
    ),
    Mutant(
        "first-row sign rule dropped",
        "method/spaces.py",
        "reference = C.T @ path.first",
        "reference = np.ones(C.shape[1])",
        PAPER,
    ),
    Mutant(
        "scores turned away from y",
        "method/spaces.py",
        "return np.where(reference < 0.0, -1.0, 1.0)",
        "return np.where(reference > 0.0, -1.0, 1.0)",
        PAPER,
    ),
    Mutant(
        "limit of a correlation is the dial value",
        "method/spaces.py",
        "space.within(limit := 1.0 - value)",
        "space.within(limit := value)",
        LIMIT,
    ),
    Mutant(
        "certificate of the first block for all",
        "method/spaces.py",
        "score=multiple_correlation(cov, delta, C @ coef)",
        "score=multiple_correlation(path.block_cov[0], path.block_delta[0], C @ coef)",
        _tests(
            "laws/test_certificate",
            "the_score_of_the_certificate_is_the_correlation_of_the_fitted_score",
        ),
    ),
    Mutant(
        "pass ignores weights",
        "method/accumulate.py",
        "weights = None if data.weights is None else data.weights[rows]",
        "weights = None",
        COPIES,
    ),
    Mutant(
        "weights summed without logarithm",
        "method/accumulate.py",
        "float(np.log(data.weights).sum())",
        "float(data.weights.sum())",
        _tests("test_models", "weights_are_precisions_of_the_noise"),
    ),
    Mutant(
        "place counts rows kept, not rows given",
        "method/pilot.py",
        "encoded.strata, data.index, data.given, lambda: self.row_keys(data, encoded)",
        "encoded.strata, None, None, lambda: self.row_keys(data, encoded)",
        _tests("unit/estimators/test_stream_methods", "rows_without_weight_take_up_their_places"),
    ),
    Mutant(
        "held-out functions learnt from the fold itself",
        "method/solution.py",
        "others = moments.pool(folds=np.arange(moments.n_folds) != fold)",
        "others = moments.pool(folds=np.arange(moments.n_folds) == fold)",
        HELD_OUT,
    ),
    Mutant(
        "held-out scores about the mean of all rows",
        "method/solution.py",
        "centres.append(bases[-1].T @ others.mean)",
        "centres.append(bases[-1].T @ moments.pool().mean)",
        HELD_OUT,
    ),
    # ------------------------------------------------------------------ paths
    Mutant(
        "selection outside the bound",
        "method/promises.py",
        "inside = bounded <= (",
        "inside = bounded >= (",
        _tests("unit/estimators/test_path", "a_looser_bound_never_costs_more"),
    ),
    Mutant(
        "accuracy asked for is taken as an error",
        "method/promises.py",
        "1.0 - bound + 1e-12",
        "bound",
        _tests("unit/estimators/test_path", "a_larger_budget_is_never_less_fair"),
    ),
    Mutant(
        "the dearest place within the bound",
        "method/promises.py",
        "allowed[np.lexsort((bounded[inside], price[inside]))[0]]",
        "allowed[np.lexsort((bounded[inside], price[inside]))[-1]]",
        _tests("unit/estimators/test_path", "a_looser_bound_never_costs_more"),
    ),
    Mutant(
        "path trained on the fold it is tested on",
        "estimators/path_rows.py",
        "(positions[fold != k], np.flatnonzero(fold == k))",
        "(positions[fold == k], np.flatnonzero(fold == k))",
        _tests("unit/estimators/test_path", "folds_by_number_are_trained_on_all_other_rows"),
    ),
    Mutant(
        "path's resamples ignore weights",
        "estimators/path_selection.py",
        "np.stack(counts, axis=1) * self.weight[:, None]",
        "np.stack(counts, axis=1) * 1.0",
        _tests("unit/estimators/test_path", "resampled_rows_keep_their_weights"),
    ),
    Mutant(
        "positive class of a path is the last one",
        "estimators/path_selection.py",
        "return int(matches[0]) if len(matches) else None",
        "return len(self.classes) - 1 if len(matches) else None",
        _tests("unit/estimators/test_path", "the_positive_of_several_classes_is_the_one_named"),
    ),
    Mutant(
        "a promise behind a broken one",
        "method/promises.py",
        "return order[: broken[0]] if len(broken) else order",
        "return order[upper[order] <= limit]",
        _tests("unit/method/test_promises", "promised_stops_at_the_first_broken_value"),
    ),
    Mutant(
        "a budget begins where the bound is least",
        "method/promises.py",
        "allowed = promised(upper, 0, 1, limit)",
        "allowed = promised(upper, int(np.argmin(upper)), 1, limit)",
        _tests("unit/method/test_promises", "a_budget_is_tested_from_fairness_0"),
    ),
    Mutant(
        "one-sided bounds although the start is searched",
        "estimators/path_numbers.py",
        "independent and not searched",
        "independent",
        _tests("unit/estimators/test_path_selection", "beyond_fairness_1_both_limits_are_joint"),
    ),
    Mutant(
        "rows set aside are fitted on",
        "estimators/path_rows.py",
        'np.setdiff1d(np.arange(_num_samples(given["X"])), positions[held])',
        'np.arange(_num_samples(given["X"]))',
        _tests("unit/estimators/test_path", "a_share_set_aside_is_never_fitted_on"),
    ),
    # ------------------------------------------------------------------ streams
    Mutant(
        "offset of a block off by one",
        "streaming/sources.py",
        "begin, held = begin + room, held - room",
        "begin, held = begin + room + 1, held - room",
        _tests("unit/streaming/test_rows", "blocks_are_cut_at_multiples_of_their_size"),
    ),
    Mutant(
        "rows before the start not passed over",
        "streaming/sources.py",
        "skip = min(max(start - offset, 0), n)",
        "skip = 0",
        _tests("unit/streaming/test_rows", "blocks_are_cut_at_multiples_of_their_size"),
    ),
    Mutant(
        "damaged checkpoint believed",
        "streaming/checkpoint.py",
        "if stated != _digest(header, arrays):",
        "if stated is None:",
        _tests(
            "unit/streaming/test_checkpoint",
            "numbers_that_were_changed_in_a_whole_file_are_refused",
        ),
    ),
    Mutant(
        "checkpoint resumes late",
        "streaming/checkpoint.py",
        'moments=moments, position=header["place"])',
        'moments=moments, position=header["place"] + 64)',
        RESUMED,
    ),
    Mutant(
        "checkpoint resumes without its sums",
        "streaming/checkpoint.py",
        "**{name: arrays[name] for name in vars(empty) if name in arrays},",
        "",
        RESUMED,
    ),
    Mutant(
        "sample by the position in the block",
        "streaming/sample.py",
        "positions = offset + index.astype(np.int64)",
        "positions = index.astype(np.int64)",
        _tests("unit/streaming/test_sample", "cuts_do_not_matter"),
    ),
    Mutant(
        "sample of largest hashes of a level",
        "streaming/sample.py",
        "return np.sort(both)[:LEVEL_ROWS]",
        "return np.sort(both)[-LEVEL_ROWS:]",
        _tests("unit/streaming/test_sample", "cuts_do_not_matter"),
    ),
    Mutant(
        "cut rows named one too early",
        "streaming/rows.py",
        "spans.append(Span(span.name, span.first + a, b - a))",
        "spans.append(Span(span.name, span.first, b - a))",
        _tests("unit/streaming/test_rows", "rows_join_and_cut_with_their_places"),
    ),
    # ------------------------------------------------------------------ metrics
    Mutant(
        "correlation with a level by its share alone",
        "metrics/scores.py",
        "np.maximum(mass * (1.0 - mass), tiny)",
        "np.maximum(mass, tiny)",
        SCORE_LOOPS,
    ),
    Mutant(
        "correlation with a number ignores weights",
        "metrics/scores.py",
        "correlations = np.abs((share * s[:, 0]) @ f)",
        "correlations = np.abs(s[:, 0] @ f) / len(f)",
        _tests(
            "unit/metrics/test_scores",
            "continuous_attribute_equals_plain_loops_and_is_sliced_by_the_rule",
        ),
    ),
    Mutant(
        "equalized odds of the best class",
        "metrics/scores.py",
        "return max(\n        _worst_correlation(",
        "return min(\n        _worst_correlation(",
        SCORE_LOOPS,
    ),
    Mutant(
        "Kolmogorov distance one-sided",
        "metrics/groups.py",
        "spread = below.max(axis=0) - below.min(axis=0)",
        "spread = below.max(axis=0) - below[-1]",
        SCORE_LOOPS,
    ),
    Mutant(
        "false positive rate on all rows",
        "metrics/decisions.py",
        'inside = sums if cell == "all" else',
        'inside = sums if cell != "positive" else',
        LOOPS,
    ),
    Mutant(
        "equalized odds takes the smaller gap",
        "metrics/decisions.py",
        "return max(max(r.values()) - min(r.values()) for _, r in rates)",
        "return min(max(r.values()) - min(r.values()) for _, r in rates)",
        LOOPS,
    ),
    Mutant(
        "positive label of decisions ignored",
        "metrics/decisions.py",
        "is_positive(decided, pos_label)",
        "is_positive(decided, 1)",
        _tests("unit/metrics/test_scores", "pos_label_of_any_type"),
    ),
    Mutant(
        "weights ignored in the rows chosen",
        "metrics/decisions.py",
        "group_sums({name: codes, **outcomes}, {}, rows.weight)",
        "group_sums({name: codes, **outcomes}, {}, np.ones_like(rows.weight))",
        LOOPS,
    ),
    # ------------------------------------------------------------------ audit
    Mutant(
        "reach of a gap subtracted twice",
        "auditing/findings.py",
        "return value, max(value - reach, 0.0), min(value + reach, top)",
        "return value, max(value - 2.0 * reach, 0.0), min(value + reach, top)",
        _tests("unit/auditing/test_findings", "an_interval_reaches_as_far_down_as_up"),
    ),
    Mutant(
        "exact limit by both tails",
        "auditing/small_groups.py",
        "scipy.stats.beta.ppf(1.0 - tail, hits + 1.0, misses)",
        "scipy.stats.beta.ppf(1.0 - 2.0 * tail, hits + 1.0, misses)",
        _tests("unit/auditing/test_findings", "a_rate_of_nothing_or_all_gets_its_exact_limit"),
    ),
    Mutant(
        "limits of a difference added in one direction",
        "auditing/small_groups.py",
        "gap + np.hypot(up[:, None], down)",
        "gap + np.hypot(up[:, None], up)",
        _tests("unit/auditing/test_small_groups", "a_difference_of_two_rates_is_newcombes"),
    ),
    Mutant(
        "clusters drawn row by row",
        "metrics/groups.py",
        "return bootstrap_counts(n_clusters, n_boot, rng, by_cluster)[clusters]",
        "return bootstrap_counts(n, n_boot, rng, strata)",
        _tests("unit/metrics/test_groups", "a_resample_has_whole_clusters"),
    ),
    Mutant(
        "standard error of a bound by rows of a cluster",
        "auditing/model_space.py",
        "return np.bincount(self.clusters, by_row).astype(np.float64)",
        "return by_row",
        _tests("test_audit_clusters", "copies_in_one_cluster_are_one_row_for_the_bound"),
    ),
    Mutant(
        "folds that split clusters",
        "auditing/cross_fit.py",
        "return deal(joint, n_folds, rng)[clusters]",
        "return deal(strata, n_folds, rng)",
        _tests("test_audit_clusters", "folds_do_not_split_clusters"),
    ),
    Mutant(
        "weights ignored in resamples",
        "metrics/groups.py",
        'weighted = {"": weight, **',
        'weighted = {"": np.ones_like(weight), **',
        _tests("unit/metrics/test_groups", "sums_are_those_of_the_rows"),
    ),
    Mutant(
        "audit's false positive rate on all rows",
        "auditing/findings.py",
        "selected & ~positive, ~positive)",
        "selected & ~positive, everything)",
        _tests("unit/auditing/test_findings", "rates_of_a_table_counted_by_hand"),
    ),
    Mutant(
        "two ranges share no confidence",
        "auditing/findings.py",
        "part = 1.0 - (1.0 - self.level) / len(rates)",
        "part = self.level",
        _tests("unit/auditing/test_findings", "equalized_odds_pays_for_two_ranges"),
    ),
    Mutant(
        "calibration in the large with the wrong sign",
        "auditing/findings.py",
        'excess = self._by_level(sums, "p") - self._by_level(sums.where(y == k))',
        'excess = self._by_level(sums.where(y == k)) - self._by_level(sums, "p")',
        _tests(
            "unit/auditing/test_findings",
            "promises_too_high_in_one_group_are_found_with_their_sign",
        ),
    ),
    Mutant(
        "correlation ratio without the share of the level",
        "auditing/scores.py",
        "return _quotient(cov, share * variance)",
        "return _quotient(cov, variance)",
        _tests("unit/auditing/test_findings", "scores_are_those_of_the_metrics"),
    ),
    Mutant(
        "ties count in full in the area under the curve",
        "auditing/attackers.py",
        "below - down / 2.0",
        "below",
        _tests("unit/auditing/test_attackers", "auc_is_scikit_learns"),
    ),
    Mutant(
        "attackers learn from the rows they attack",
        "auditing/attackers.py",
        "attacker(task.take(~held), task.Z[held])",
        "attacker(task.take(held), task.Z[held])",
        _tests("unit/auditing/test_attackers", "independent_groups_are_not_seen"),
    ),
    Mutant(
        "attack's error without its second half",
        "auditing/attackers.py",
        "error = sqrt(2.0) * float(drawn.std())",
        "error = float(drawn.std())",
        _tests("unit/auditing/test_attackers", "the_p_value_of_an_attack_has_twice_the_variance"),
    ),
    Mutant(
        "R squared about 0",
        "auditing/cross_fit.py",
        "total = sums[:, 1] - (sums[:, 2:-1] ** 2).sum(axis=1) / sums[:, -1]",
        "total = sums[:, 1]",
        _tests("unit/auditing/test_attackers", "r_squared_is_scikit_learns"),
    ),
    Mutant(
        "U-centring by n - 1",
        "auditing/independence.py",
        "row = out.sum(axis=0) / (n - 2)",
        "row = out.sum(axis=0) / (n - 1)",
        _tests(
            "unit/auditing/test_independence",
            "a_u_centred_matrix_has_no_diagonal_and_no_row_sums",
        ),
    ),
    Mutant(
        "strata ignored by the permutations",
        "auditing/independence.py",
        "codes = np.zeros(len(rows)) if given is None else given[rows]",
        "codes = np.zeros(len(rows))",
        _tests(
            "unit/auditing/test_independence",
            "strata_are_permuted_separately_and_weighted_by_their_rows",
            "f_that_depends_on_s_through_y_only",
        ),
    ),
    Mutant(
        "Holm without the step-down maximum",
        "auditing/independence.py",
        "np.minimum(np.maximum.accumulate(steps), 1.0)",
        "np.minimum(steps, 1.0)",
        _tests("unit/auditing/test_independence", "holm_by_hand"),
    ),
    Mutant(
        "Holm without its steps",
        "auditing/independence.py",
        "steps = p[order] * np.arange(len(order), 0, -1)",
        "steps = p[order] * len(order)",
        _tests("unit/auditing/test_independence", "holm_by_hand"),
    ),
    Mutant(
        "interval of a distance not scaled to all rows",
        "auditing/scores.py",
        "q = float(np.quantile(reach, level)) * np.sqrt(m / n)",
        "q = float(np.quantile(reach, level))",
        _tests("unit/auditing/test_scores", "the_interval_of_a_distance_narrows_with_the_rows"),
    ),
    Mutant(
        "bound without Bonferroni",
        "auditing/model_space.py",
        "scipy.stats.norm.isf((1.0 - level) / max(known, 1))",
        "scipy.stats.norm.isf(1.0 - level)",
        _tests("unit/auditing/test_model_space", "every_block_costs_confidence"),
    ),
    Mutant(
        "sign of a coefficient ignored by proxies",
        "auditing/proxy.py",
        "signs = np.sign(beta)",
        "signs = np.abs(np.sign(beta))",
        _tests("unit/auditing/test_proxy", "equals_the_enumeration_of_all_faces"),
    ),
    Mutant(
        "proxies of one side only",
        "auditing/proxy.py",
        "for side in (1.0, -1.0):",
        "for side in (1.0,):",
        _tests("unit/auditing/test_proxy", "scales_do_not_matter_and_signs_mirror"),
    ),
    Mutant(
        "proxy held out on the half it was found on",
        "auditing/proxy.py",
        "zip(triangles, reversed(halves), strict=True)",
        "zip(triangles, halves, strict=True)",
        _tests("unit/auditing/test_proxy", "held_out_correlation_is_not_of_the_rows_searched"),
    ),
    # ------------------------------------------------------------------ tables and files
    Mutant(
        "missing numbers take the mean",
        "encoding.py",
        'SimpleImputer(strategy="median", keep_empty_features=True)',
        'SimpleImputer(strategy="mean", keep_empty_features=True)',
        _tests("unit/test_encoding", "missing_number_takes_the_median_and_an_indicator"),
    ),
    Mutant(
        "unseen categories lost instead of infrequent",
        "encoding.py",
        'handle_unknown="infrequent_if_exist"',
        'handle_unknown="ignore"',
        _tests("unit/test_encoding", "unseen_category_joins_the_infrequent_one"),
    ),
    Mutant(
        "encoder learns from the rows it is given",
        "encoding.py",
        "make_pipeline(to_numbers, impute, StandardScaler())",
        "make_pipeline(to_numbers, FunctionTransformer(lambda b: (b - np.nanmean(b, 0))), impute)",
        _tests("unit/test_encoding", "rows_are_encoded_one_by_one"),
    ),
    Mutant(
        "file of a newer format believed",
        "persistence.py",
        "if type(number) is not int or number not in _READABLE:",
        "if type(number) is not int or number < 1:",
        _tests("test_persistence", "a_newer_format_and_a_foreign_skops_file_are_refused"),
    ),
    Mutant(
        "moments saved though not wanted",
        "persistence.py",
        "moments = counter = None",
        "counter = None",
        _tests(
            "test_persistence",
            "without_moments_the_file_is_smaller_and_says_what_it_cannot_do",
        ),
    ),
    # ------------------------------------------------------------------ new rows
    Mutant(
        "regressions of y that saw the fold",
        "method/new_rows.py",
        "right = [target.cross(train), *(products / train.weight for products in on_train)]",
        "right = [target.cross(test), *(products / train.weight for products in on_train)]",
        NEW_ROWS,
    ),
    Mutant(
        "codes of the others compared instead of those of the fold",
        "method/new_rows.py",
        "test_codes=[codes.sums(sums.pool(codes.cell, k)) for codes in blocks],",
        "test_codes=[codes.sums(sums.pool(codes.cell, k, others=True)) for codes in blocks],",
        NEW_ROWS,
    ),
    Mutant(
        "what S explains is added",
        "method/new_rows.py",
        "difference = np.concatenate([np.eye(L), -np.eye(L)])",
        "difference = np.concatenate([np.eye(L), np.eye(L)])",
        _tests("laws/test_new_rows", "the_share_of_the_expected_dependence_is_gone"),
    ),
    Mutant(
        "folds of unequal weight averaged alike",
        "method/new_rows.py",
        'basis = np.einsum("k,kdm->dm", share, fold_bases)',
        "basis = fold_bases.mean(axis=0)",
        _tests("laws/test_new_rows", "the_model_is_the_average_of_the_models_of_the_folds"),
    ),
    Mutant(
        "directions removed that X does not predict",
        "method/directions.py",
        "weight[failed] = 0.0",
        "weight[failed] = 1.0",
        _tests(
            "unit/method/test_new_rows",
            "an_attribute_that_x_does_not_predict_is_kept_and_named",
        ),
    ),
    Mutant(
        "a limit with confidence that looks at the estimate",
        "method/new_rows_space.py",
        "return self._expected(C, confidence=confidence).high",
        "return self._expected(C, confidence=confidence).correlation",
        _tests("unit/method/test_new_rows", "a_limit_with_confidence_is_stricter"),
    ),
    Mutant(
        "codes of a cell spread over all rows",
        "method/new_rows.py",
        "cov=cross[i] @ mix * (total.weight / weight),",
        "cov=cross[i] @ mix,",
        NEW_ROWS,
    ),
    Mutant(
        "bias of a refit taken for that of all rows",
        "method/expected.py",
        "factor = share * (1.0 - share)",
        "factor = share",
        REFITS,
    ),
    Mutant(
        "refits on the left-out rows",
        "method/refits.py",
        "own_cross=own[i][0].T @ B / max(c.weight(others)[0], 1e-300),",
        "own_cross=c.sums(in_fold)[0].T @ B / max(c.weight(in_fold)[0], 1e-300),",
        _tests("unit/method/test_refits", "refits_from_moments_are_fits_of_the_other_rows"),
    ),
    Mutant(
        "bias of refits without the growth of P",
        "method/expected.py",
        "cov += factor * block.growth * ",
        "cov += factor * ",
        REFITS,
    ),
    Mutant(
        "conformal bound one row too low",
        "estimators/conformal.py",
        "k = math.ceil((len(scores) + 1) * coverage - 1e-9)",
        "k = math.ceil(len(scores) * coverage - 1e-9)",
        _tests("unit/estimators/test_conformal", "the_bound_is_the_order_statistic"),
    ),
    # ------------------------------------------------------------------ decisions
    Mutant(
        "rate codes without the rate of all",
        "method/rate_codes.py",
        "own - (inside / self.cell_share)[:, None]",
        "own",
        _tests(
            "unit/method/test_rate_codes", "mean_products_with_decisions_are_differences_of_rates"
        ),
    ),
    Mutant(
        "a box that is left at its boundary",
        "method/decision_dual.py",
        "if moved.max() < 1.0 - 1e-6:",
        "if moved.max() < 2.0:",
        _tests("unit/method/test_decision_dual", "the_value_is_that_of_a_linear_program"),
    ),
    Mutant(
        "rows outside a box that are never selected",
        "method/decision_dual.py",
        "return np.asarray(self._weighted.T @ decisions)",
        "return np.asarray(0.0 * self._weighted.T @ decisions)",
        _tests("unit/method/test_decision_dual", "the_value_is_that_of_a_linear_program"),
    ),
    Mutant(
        "the next break of the line",
        "method/decision_dual.py",
        "first = int(np.searchsorted(-self.after, -(limit + rounding)))",
        "first = 1 + int(np.searchsorted(-self.after, -(limit + rounding)))",
        _tests("unit/method/test_decision_dual", "the_sort_finds_the_optimum_of_any_line"),
    ),
    Mutant(
        "a ratio without its base",
        "method/decision_rule.py",
        "= -1.0, rho, rho - 1.0",
        "= -1.0, rho, 0.0",
        _tests("unit/method/test_decision_dual", "the_value_is_that_of_a_linear_program"),
    ),
    Mutant(
        "predicted rate codes that are not centred",
        "method/decision_rule.py",
        "code_mean=self.share @ self.codes,",
        "code_mean=0.0 * self.share @ self.codes,",
        _tests("laws/test_decisions", "names_of_groups_and_constants_of_codes_do_not_matter"),
    ),
    Mutant(
        "the scale of the most error",
        "method/decision_rule.py",
        "errors <= errors[near].min() + _ROUNDING",
        "errors >= errors[near].max() - _ROUNDING",
        _tests(
            "unit/method/test_decision_rule",
            "the_scale_has_the_least_error_of_all_that_keep_the_limit",
        ),
    ),
    Mutant(
        "a change of the decision one scale late",
        "method/rule_scale.py",
        "number = np.where(after < before, from_it, past_it)",
        "number = 1 + np.where(after < before, from_it, past_it)",
        _tests(
            "unit/method/test_decision_rule",
            "the_scale_has_the_least_error_of_all_that_keep_the_limit",
        ),
    ),
    Mutant(
        "a bound on rates without the bins that are crossed",
        "method/decision_histogram.py",
        "mass[crossed & side].sum(axis=0)",
        "0.0 * mass[crossed].sum(axis=0)",
        _tests(
            "unit/method/test_decision_histogram",
            "real_rates_are_within_the_bound_of_those_of_the_histogram",
        ),
    ),
    Mutant(
        "codes recalibrated on their own fold",
        "method/decision_codes.py",
        "(crosses.sum(axis=0) - crosses[k]) / (1.0 - pi[k]),",
        "crosses.sum(axis=0),",
        CODES,
    ),
    Mutant(
        "codes of pairs that X does not predict",
        "method/decision_codes.py",
        "(right * (used * rho))",
        "(right * rho)",
        CODES,
    ),
    Mutant(
        "intervals of rates that are not joint",
        "method/decision_certificate.py",
        "(1.0 - confidence) / max(n_pairs, 1) / 2.0",
        "(1.0 - confidence) / 2.0",
        _tests(
            "unit/method/test_decision_certificate",
            "bounds_are_joint_over_pairs_classes_and_attributes",
        ),
    ),
    Mutant(
        "bound of a ratio from the wrong limit",
        "method/decision_certificate.py",
        "min(high[b] + error, 1.0),",
        "min(low[b] + error, 1.0),",
        _tests(
            "unit/method/test_decision_certificate",
            "the_ratio_bound_is_the_ratio_at_which_the_difference_has_the_bound_0",
        ),
    ),
    Mutant(
        "rows decided by functions that saw them",
        "estimators/decision_fit.py",
        "scores[rows], of_average[rows] = values[:, :m] - of_fold.T @ mean, values[:, m:] - centre",
        "scores[rows], of_average[rows] = values[:, m:] - centre, values[:, m:] - centre",
        _tests(
            "unit/estimators/test_decision_fit",
            "errors_and_rates_are_counted_on_rows_that_the_functions_did_not_see",
        ),
    ),
    Mutant(
        "an error of histograms that counts one side",
        "method/decision_histogram.py",
        "for side in (selected, ~selected)",
        "for side in (selected, selected)",
        _tests(
            "unit/method/test_decision_histogram",
            "real_rates_are_within_the_bound_of_those_of_the_histogram",
        ),
    ),
    Mutant(
        "a sample of a stream that prefers its beginning",
        "estimators/rule_stream.py",
        'np.sort(np.argsort(hashes, kind="stable")[: self.size])',
        "np.arange(self.size)",
        _tests("unit/estimators/test_rule_stream", "a_sample_does_not_depend_on_blocks"),
    ),
    Mutant(
        "bounds that ignore the error of a histogram",
        "method/decision_certificate.py",
        "error = point.rate_error or 0.0",
        "error = 0.0",
        _tests(
            "unit/estimators/test_rule_stream",
            "histograms_count_the_rates_of_all_rows_within_the_printed_error",
        ),
    ),
    Mutant(
        "known rules that never replace another",
        "method/decision_rule.py",
        "others = [*points, *known]",
        "others = [*points]",
        _tests(
            "unit/method/test_decision_rule",
            "a_known_rule_replaces_one_that_does_not_keep_its_limit",
        ),
    ),
    Mutant(
        "a switch to decisions that keeps the ends of the likelihood",
        "estimators/gp_classifier.py",
        "out._state = replace(out._fit_state, head=None, ends=None)",
        "out._state = replace(out._fit_state, head=None)",
        _tests(
            "unit/estimators/test_decision_fit",
            "switching_to_decisions_is_a_fit_for_decisions",
        ),
    ),
    Mutant(
        "rows for rules in a pickle",
        "estimators/state.py",
        'return {**vars(self), "rule_rows": None}',
        "return {**vars(self)}",
        _tests(
            "unit/estimators/test_decision_fit",
            "models_without_rows_cannot_switch_to_decisions",
        ),
    ),
    Mutant(
        "a constant of a rule that is left out of its words",
        "method/rule_words.py",
        "rule.threshold + base_coef[0] - rule.code_mean @ code_coef",
        "base_coef[0] - rule.code_mean @ code_coef",
        _tests("unit/estimators/test_decision_fit", "the_words_of_a_rule_give_its_decisions"),
    ),
)
