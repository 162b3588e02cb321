"""What the models compute, and the contract that every one of them keeps.

What only the classifier with a likelihood does is in `test_gp_classifier`.
"""

import inspect
import pickle
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler
from sklearn.utils import estimator_checks

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    FairspanWarning,
    NumericalWarning,
    load_model,
    save_model,
)
from fairspan.method.rate_codes import rate_blocks
from tests.golden import oracle
from tests.laws import raw
from tests.laws.test_dense_oracle import brute_force, everywhere, exact, gram
from tests.support.hashed import Hashed
from tests.support.small import FIXED, table
from tests.support.strategies import expected_warnings, gap, make_problem, no_small_cells
from tests.test_docstrings import documented, taken
from tests.test_errors import refused
from tests.test_estimator_checks import ELSEWHERE, EQUIVALENCE, TINY, run_checks

CLASSES = (FairRidge, FairRidgeClassifier, FairGPRegressor, FairGPClassifier)
MODELS = {cls.__name__: cls for cls in CLASSES}
MODELS["FairGPClassifier, gaussian"] = partial(FairGPClassifier, likelihood="gaussian")
REGRESSORS = ["FairRidge", "FairGPRegressor"]
CLASSIFIERS = [name for name in MODELS if name not in REGRESSORS]
SUBSPACES = ["model", "fair"]
FIVE = (0.0, 0.25, 0.5, 0.8, 1.0)
TOL = 1e-8

X, labels, s = table()
new = np.random.default_rng(1).normal(size=(15, 3))
numbers = X[:, 0] + np.sin(2.0 * X[:, 2]) + 0.3 * np.random.default_rng(2).normal(size=len(X))


def differences(function, theta, step=1e-5):
    """Gradient by central differences."""
    steps = step * np.eye(len(theta))
    return np.array([function(theta + h) - function(theta - h) for h in steps]) / (2.0 * step)


def target(name):
    return labels if name in CLASSIFIERS else numbers


def fitted(name, **params):
    return MODELS[name](**{**FIXED, **params}).fit(X, target(name), sensitive_features=s)


def outputs(est, rows):
    """Real-valued predictions."""
    return est.decision_function(rows) if is_classifier(est) else est.predict(rows)


def constant(est, mean):
    """Output of a model that knows no more than the mean of y, or the share of its larger label."""
    if is_regressor(est):
        return mean
    logistic = getattr(est, "likelihood", None) == "logistic"
    return np.log(mean / (1.0 - mean)) if logistic else 2.0 * mean - 1.0


def model_of(problem, **changes):
    """The predictor that goes with a problem's task."""
    cls = FairRidgeClassifier if problem.classes else FairRidge
    return on(problem, cls, **changes)


def on(problem, cls, **changes):
    with expected_warnings(), no_small_cells():
        est = cls(**{**problem.params, **changes})
        return est.fit(
            problem.X,
            problem.y,
            sensitive_features=problem.sensitive,
            control_features=problem.control,
            sample_weight=problem.weights,
        )


def one_hot_outputs(est, rows):
    return est._outputs(rows)


# --------------------------------------------------------------------------- both ends of the dial


@given(exact(fairness=(0.0,)), st.sampled_from(SUBSPACES))
def test_the_unfair_end_is_kernel_ridge_regression(problem, subspace):
    est, rows = model_of(problem, subspace=subspace, removal="training_rows"), everywhere(problem)
    expected = brute_force(raw.positive_weight(problem), rows, constrained=False)
    assert gap(one_hot_outputs(est, rows), expected) <= TOL


@given(exact(methods=("optimal",), missing=(False, True)), st.sampled_from(SUBSPACES))
def test_the_fair_end_is_constrained_kernel_ridge_regression(problem, subspace):
    est, rows = model_of(problem, subspace=subspace, removal="training_rows"), everywhere(problem)
    expected = brute_force(raw.positive_weight(problem), rows, constrained=True)
    assert gap(one_hot_outputs(est, rows), expected) <= TOL


@given(
    exact(tasks=("regression",), methods=("optimal",), fairness=(0.0, 1.0)),
    st.sampled_from(SUBSPACES),
)
def test_the_posterior_mean_at_both_ends(problem, subspace):
    est, rows = (
        on(problem, FairGPRegressor, subspace=subspace, removal="training_rows"),
        everywhere(problem),
    )
    fair = problem.params["fairness"] == 1.0
    expected = brute_force(raw.positive_weight(problem), rows, constrained=fair)
    assert gap(est.predict(rows), expected[:, 0]) <= TOL


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("subspace", SUBSPACES)
def test_twin_of_kernel_ridge(name, subspace):
    """scikit-learn's has no intercept: centre the kernel and y."""
    est = fitted(name, fairness=0.0, subspace=subspace, removal="training_rows")
    centre = KernelCenterer()
    K = centre.fit_transform(oracle.rbf(X, X, 0.5))
    twin = KernelRidge(alpha=1.0, kernel="precomputed").fit(K, numbers - numbers.mean())
    expected = numbers.mean() + twin.predict(centre.transform(oracle.rbf(new, X, 0.5)))
    np.testing.assert_allclose(est.predict(new), expected, atol=TOL)


# --------------------------------------------------------------------------- the line


@given(exact(tasks=("regression",), methods=("optimal",)), st.sampled_from(REGRESSORS))
def test_all_of_f_gives_the_line_between_the_ends(problem, name):
    """``P_F g + (1-t)(I - P_F) g``, ends and angle by the dense oracle."""
    est, rows = on(problem, MODELS[name], subspace="fair"), everywhere(problem)
    problem = raw.positive_weight(problem)
    plain = brute_force(problem, rows, constrained=False)[:, 0]
    fair = brute_force(problem, rows, constrained=True)[:, 0]
    blocks = [oracle.CodeBlock(block.used, block.codes()) for block in raw.blocks(problem)]
    theta = oracle.dense_optimal(
        gram(problem, problem.X),
        problem.y,
        blocks,
        eta_y=problem.params["alpha"] / problem.w.sum(),
        fairness=1.0,
        sample_weight=problem.weights,
    ).theta[0]
    for fairness in FIVE:
        keep = np.tan((1.0 - fairness) * theta) / np.tan(theta)
        found = est.at(fairness).predict(rows)
        assert gap(found, fair + keep * (plain - fair)) <= TOL


@given(
    exact(tasks=("regression",), methods=("optimal",)),
    st.sampled_from(REGRESSORS),
    st.sampled_from(FIVE),
)
def test_the_two_subspaces_give_one_direction_in_two_lengths(problem, name, fairness):
    model, line = (
        on(problem, MODELS[name], subspace=subspace, fairness=fairness, removal="training_rows")
        for subspace in SUBSPACES
    )
    rows, theta = everywhere(problem), model.angles_[0]
    a = (1.0 - fairness) * theta
    factor = np.cos(theta - a) * np.cos(a) / np.cos(theta)
    centre = np.average(problem.y, weights=problem.weights)
    expected = centre + factor * (line.predict(rows) - centre)
    assert gap(model.predict(rows), expected) <= TOL


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("limit", [0.0, 0.1, 0.4])
def test_the_correlation_dial_keeps_its_word(name, subspace, limit):
    est = fitted(name, subspace=subspace, removal="training_rows").at(max_correlation=limit)
    assert est.certificate_.score <= limit + 1e-9
    score = outputs(est, X)
    assert abs(np.corrcoef(score, s)[0, 1]) <= limit + 1e-9


def test_a_correlation_out_of_reach_is_said_on_the_line_too():
    age = X[:, 0] + X[:, 1] ** 2
    est = FairRidge(subspace="fair", n_sensitive_directions=1, dial="correlation", **FIXED)
    with pytest.warns(NumericalWarning, match="A correlation of 0 cannot be reached"):
        est.fit(X, numbers, sensitive_features=age)


# --------------------------------------------------------------------------- the posterior


class FairKernel(Kernel):
    """A fair representation's kernel over the prior precision, for scikit-learn's GP."""

    hyperparameters = ()

    def __init__(self, kernel, precision):
        self.kernel = kernel
        self.precision = precision

    def __call__(self, X, Y=None):
        return self.kernel(X, Y) / self.precision

    def diag(self, X):
        return np.diag(self(X)).copy()

    def is_stationary(self):
        return False


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("fairness", FIVE)
@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_the_posterior_is_that_of_scikit_learn(subspace, fairness, alpha):
    """The same finite-rank kernel; y centred, which is what a flat intercept does to centred scores."""
    est = fitted(
        "FairGPRegressor",
        subspace=subspace,
        fairness=fairness,
        alpha=alpha,
        removal="training_rows",
    )
    rep = FairRepresentation(
        **{**FIXED, "alpha": est.alpha_},
        subspace=subspace,
        fairness=fairness,
        removal="training_rows",
    )
    rep.fit(X, numbers, sensitive_features=s)
    kernel = FairKernel(rep.kernel_, est.prior_precision_)
    twin = GaussianProcessRegressor(kernel, alpha=est.noise_, optimizer=None)
    twin.fit(X, numbers - numbers.mean())
    mean, cov = twin.predict(new, return_cov=True)
    intercept = est.noise_ / len(X)
    ours, ours_cov = est.predict(new, return_cov=True)
    np.testing.assert_allclose(ours, numbers.mean() + mean, atol=TOL)
    noise = est.noise_ * np.eye(len(new))
    np.testing.assert_allclose(ours_cov, cov + intercept + noise, atol=TOL)
    std = est.predict(new, return_std=True)[1]
    np.testing.assert_allclose(std, np.sqrt(np.diag(ours_cov)), rtol=1e-10)
    # Its evidence knows the mean of y to be zero; ours has it flat.
    known = -0.5 * np.log(2.0 * np.pi * intercept)
    theirs = twin.log_marginal_likelihood_value_
    assert est.log_marginal_likelihood() + known == pytest.approx(theirs, abs=1e-7)


@pytest.mark.parametrize("prior", ["isotropic", "ard"])
@pytest.mark.parametrize("fairness", [0.0, 0.6, 1.0])
def test_evidence_gradients_of_the_estimator_are_finite_differences(prior, fairness):
    est = fitted("FairGPRegressor", prior=prior, fairness=fairness, n_predictive_directions=2)
    value, slope = est.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(est.log_marginal_likelihood_value_, abs=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(3):
        theta = rng.normal(size=len(slope))
        _, slope = est.log_marginal_likelihood(theta, eval_gradient=True)
        numeric = differences(est.log_marginal_likelihood, theta)
        np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fairness", FIVE)
def test_the_noise_is_at_its_best_for_the_given_alpha(fairness):
    est = fitted("FairGPRegressor", fairness=fairness, removal="training_rows")
    _, (by_precision, by_noise) = est.log_marginal_likelihood(eval_gradient=True)
    assert by_noise - by_precision == pytest.approx(0.0, abs=1e-7)


def test_ard_has_at_least_the_evidence_of_isotropic_and_no_slope():
    plain = fitted("FairGPRegressor", n_predictive_directions=3)
    ard = fitted("FairGPRegressor", n_predictive_directions=3, prior="ard")
    assert ard.log_marginal_likelihood_value_ >= plain.log_marginal_likelihood_value_
    slope = ard.log_marginal_likelihood(eval_gradient=True)[1]
    assert np.abs(slope).max() < 1e-3


def test_a_given_prior_is_used_and_its_noise_learnt():
    ard = fitted("FairGPRegressor", n_predictive_directions=2, prior="ard")
    variances = 1.0 / np.diag(ard._prior)
    for prior in (variances, np.diag(variances).tolist()):
        given = fitted("FairGPRegressor", n_predictive_directions=2, prior=prior)
        assert given.noise_ == pytest.approx(ard.noise_, rel=1e-5)
        np.testing.assert_allclose(given.predict(new), ard.predict(new), rtol=1e-5)
        assert given.log_marginal_likelihood() == pytest.approx(ard.log_marginal_likelihood())


def test_the_automatic_ridge_is_where_the_evidence_peaks():
    auto = fitted("FairGPRegressor", fairness=0.0, subspace="fair", alpha="auto")
    best = auto.log_marginal_likelihood_value_
    for factor in (1 / 3, 3):
        other = fitted("FairGPRegressor", fairness=0.0, subspace="fair", alpha=factor * auto.alpha_)
        assert other.log_marginal_likelihood_value_ < best


def test_weights_are_precisions_of_the_noise():
    w = np.random.default_rng(3).exponential(size=len(X)) + 0.2
    est = FairGPRegressor(fairness=0.0, subspace="fair", **FIXED)
    est.fit(X, numbers, sensitive_features=s, sample_weight=w)
    T, lam, noise = w.sum(), est.prior_precision_, est.noise_
    psi, psi_new = (est.pilot_.features.coordinates(rows) for rows in (X, new))
    psi, psi_new = psi - w @ psi / T, psi_new - w @ psi / T
    V = psi @ psi.T / lam + noise * np.diag(1.0 / w)
    cross = psi_new @ psi.T / lam
    centre = w @ numbers / T
    mean = centre + cross @ np.linalg.solve(V, numbers - centre)
    cov = psi_new @ psi_new.T / lam - cross @ np.linalg.solve(V, cross.T)
    found, found_cov = est.predict(new, return_cov=True)
    np.testing.assert_allclose(found, mean, atol=TOL)
    np.testing.assert_allclose(found_cov, cov + noise / T + noise * np.eye(len(new)), atol=TOL)
    residual = numbers - centre
    log_det = np.linalg.slogdet(2.0 * np.pi * V)[1]
    # The weighted mean of y is one coordinate, its variance s2/T; a flat intercept takes it out.
    value = -0.5 * (log_det + residual @ np.linalg.solve(V, residual))
    value += 0.5 * np.log(2.0 * np.pi * noise / T)
    assert est.log_marginal_likelihood() == pytest.approx(value, abs=1e-7)


# --------------------------------------------------------------------------- sample paths


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(SUBSPACES),
    st.booleans(),
    st.sampled_from(["sp", "eo", "conditional_statistical_parity"]),
)
def test_every_path_is_fair_in_sample(seed, subspace, prior, criterion):
    problem = make_problem(
        seed=seed, n=110, p=2, criterion=criterion, kinds=("binary", "text"), weights="positive"
    )
    est = on(problem, FairGPRegressor, subspace=subspace, removal="training_rows")
    paths = est.sample_y(problem.X, 20, random_state=seed % 1000, prior=prior)
    assert paths.shape == (problem.n, 20)
    worst = max(block.correlation(f) for block in raw.blocks(problem) for f in paths.T)
    assert worst < 1e-9


def residual_share(paths, basis):
    """What of the paths lies outside the constant and the columns of ``basis``."""
    U, sizes, _ = np.linalg.svd(np.column_stack([np.ones(len(basis)), basis]), full_matrices=False)
    U = U[:, sizes > 1e-10 * sizes[0]]
    return np.abs(paths - U @ (U.T @ paths)).max() / np.abs(paths).max(), U.shape[1]


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("prior", [False, True])
def test_every_path_is_a_member_of_the_model_space(subspace, fairness, prior):
    """On other rows than those fitted, as a function in the span of the space's own functions."""
    few = {**FIXED, "landmarks": X[:12], "subspace": subspace, "fairness": fairness}
    est = FairGPRegressor(n_predictive_directions=2, **few).fit(X, numbers, sensitive_features=s)
    rep = FairRepresentation(n_predictive_directions=2, **few)
    rep.fit(X, numbers, sensitive_features=s)
    rows = np.concatenate([X, new])
    paths = est.sample_y(rows, 30, prior=prior)
    space = rep.transform(rows) if subspace == "model" else rep.kernel_(rows)
    outside, size = residual_share(paths, space)
    assert outside < 1e-9
    # The basis is a small one, so this says something.
    full = est.n_components_ - (est.n_removed_ if fairness == 1.0 else 0)
    assert size == 1 + (3 if subspace == "model" else full)
    assert size < len(rows) / 4


@pytest.mark.parametrize("subspace", SUBSPACES)
def test_paths_have_the_mean_and_covariance_that_predict_says(subspace):
    est = fitted("FairGPRegressor", subspace=subspace, fairness=0.7)
    paths = est.sample_y(new[:4], 40_000, random_state=0)
    mean, cov = est.predict(new[:4], return_cov=True)
    latent = cov - est.noise_ * np.eye(4)
    scale = np.sqrt(np.diag(latent))
    np.testing.assert_allclose(paths.mean(axis=1), mean, atol=0.03 * scale.max())
    np.testing.assert_allclose(np.cov(paths), latent, atol=0.05 * scale.max() ** 2)


@pytest.mark.parametrize("subspace", SUBSPACES)
def test_prior_paths_have_the_prior_covariance(subspace):
    est = fitted("FairGPRegressor", subspace=subspace, fairness=0.7, removal="training_rows")
    rep = FairRepresentation(**FIXED, subspace=subspace, fairness=0.7, removal="training_rows")
    K = rep.fit(X, numbers, sensitive_features=s).kernel_(new[:4]) / est.prior_precision_
    paths = est.sample_y(new[:4], 40_000, random_state=0, prior=True)
    np.testing.assert_allclose(np.cov(paths), K, atol=0.05 * np.abs(K).max())
    spread = np.sqrt(np.diag(K).max())
    np.testing.assert_allclose(paths.mean(axis=1), numbers.mean(), atol=0.05 * spread)


def test_paths_are_repeatable():
    est = fitted("FairGPRegressor")
    first = est.sample_y(new, 3, random_state=5)
    np.testing.assert_array_equal(first, est.sample_y(new, 3, random_state=5))
    assert not np.array_equal(first, est.sample_y(new, 3, random_state=6))


def test_the_paths_of_the_model_space_keep_to_the_certificate():
    est = fitted("FairGPRegressor", fairness=0.5, n_predictive_directions=2)
    supremum = est.certificate_.blocks[0].supremum
    for prior in (False, True):
        paths = est.sample_y(X, 50, prior=prior)
        assert max(abs(np.corrcoef(f, s)[0, 1]) for f in paths.T) <= supremum + 1e-9


# --------------------------------------------------------------------------- the classifier


def three_classes():
    return np.digitize(X[:, 0] + X[:, 2], [-0.5, 0.8])


@pytest.mark.parametrize("y", [labels, three_classes()], ids=["two", "three"])
@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_twin_of_ridge_classifier(y, subspace, kernel):
    params = {"kernel": kernel, "eta": 1e-3, "alpha": 0.7, "fairness": 0.0, "subspace": subspace}
    if kernel == "rbf":
        params["gamma"] = 0.5
    est = FairRidgeClassifier(**params, removal="training_rows").fit(X, y, sensitive_features=s)
    psi = est.pilot_.features.coordinates
    twin = RidgeClassifier(alpha=0.7).fit(psi(X), y)
    found, expected = est.decision_function(new), twin.decision_function(psi(new))
    np.testing.assert_allclose(found, expected, atol=TOL)
    np.testing.assert_array_equal(est.predict(new), twin.predict(psi(new)))
    np.testing.assert_array_equal(est.classes_, twin.classes_)


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_predictions_are_the_largest_score(fairness):
    y = np.array(["low", "middle", "high"])[three_classes()]
    est = FairRidgeClassifier(fairness=fairness, **FIXED).fit(X, y, sensitive_features=s)
    scores = est.decision_function(new)
    assert scores.shape == (len(new), 3)
    np.testing.assert_array_equal(est.predict(new), est.classes_[scores.argmax(axis=1)])
    np.testing.assert_allclose(scores.sum(axis=1), -1.0, atol=1e-8)  # shares of one
    two = fitted("FairRidgeClassifier", fairness=fairness)
    np.testing.assert_array_equal(two.predict(new) == 1, two.decision_function(new) > 0)


LABELS = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "booleans": np.array([False, True]),
    "integers": np.array([-3, 7]),
    "floats": np.array([1.0, 2.0]),
    "small integers": np.array([0, 1], dtype=np.uint8),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_of_any_type(name, kind, criterion):
    plain = fitted(name, criterion=criterion)
    positive = LABELS[kind].tolist()[1] if criterion == "eop" else None
    est = MODELS[name](criterion=criterion, pos_label=positive, **FIXED)
    est.fit(X, LABELS[kind][labels], sensitive_features=s)
    assert est.classes_.tolist() == LABELS[kind].tolist()
    np.testing.assert_allclose(est.decision_function(new), plain.decision_function(new), atol=1e-12)
    found = est.predict(new)
    assert found.dtype == LABELS[kind].dtype
    assert found.tolist() == LABELS[kind][plain.predict(new)].tolist()
    assert 0.0 <= est.score(X, LABELS[kind][labels]) <= 1.0
    if hasattr(est, "predict_proba"):
        np.testing.assert_allclose(est.predict_proba(new), plain.predict_proba(new), atol=1e-12)


def test_the_classifier_is_the_regressor_on_minus_one_and_one():
    """The paper's classifier, and why decision_function is what it is."""
    est, twin = (
        kind(**FIXED).prepare(X, y, sensitive_features=s).partial_fit(X, y, sensitive_features=s)
        for kind, y in ((FairRidgeClassifier, labels), (FairRidge, 2.0 * labels - 1.0))
    )
    np.testing.assert_allclose(est.decision_function(new), twin.predict(new), atol=1e-10)


# --------------------------------------------------------------------------- hard cases


def quiet(est, y=numbers, s=s, X=X):
    """The fitted model and the messages it warned with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est.fit(X, y, sensitive_features=s)
    assert all(w.filename == __file__ for w in caught)
    return est, [str(w.message) for w in caught]


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
def test_a_target_that_is_s(name, subspace):
    est, messages = quiet(MODELS[name](subspace=subspace, removal="training_rows", **FIXED), s)
    assert len(messages) == 1
    assert "no fair part" in messages[0]
    assert "predicts the mean of y" in messages[0]
    out = outputs(est, new)
    np.testing.assert_allclose(out, constant(est, s.mean()), atol=1e-9)
    assert set(est.predict(X).tolist()) <= {s.mean(), 1}
    # At the other end it is the plain model, without a word.
    plain, messages = quiet(
        MODELS[name](subspace=subspace, fairness=0.0, removal="training_rows", **FIXED), s
    )
    assert messages == []
    assert np.corrcoef(outputs(plain, X), s)[0, 1] > 0.5


@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_a_target_that_is_s_leaves_nothing_for_new_rows(name, alpha):
    rows, _, group = table(400)
    est, messages = quiet(MODELS[name](**{**FIXED, "alpha": alpha}), group, group, rows)
    assert [m for m in messages if "Nothing that predicts y is left at fairness 1" in m]
    assert np.corrcoef(outputs(est.at(0.0), rows), group)[0, 1] > 0.5
    np.testing.assert_allclose(outputs(est, new), constant(est, group.mean()), atol=0.01)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("limit", [0.1, 0.2])
def test_the_correlation_dial_keeps_its_word_on_new_rows(name, limit):
    rows, y, group = table(400)
    y = y if name in CLASSIFIERS else rows[:, 0] + np.sin(2.0 * rows[:, 2])
    est = MODELS[name](**FIXED).fit(rows, y, sensitive_features=group).at(max_correlation=limit)
    assert est.certificate_.new_rows.correlation <= limit + 1e-8
    assert est.certificate_.new_rows.correlation > 0.99 * limit
    assert est.at(0.0).certificate_.new_rows.correlation > limit


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("subspace", SUBSPACES)
def test_the_process_goes_on_where_nothing_is_left(subspace, fairness):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        est = FairGPRegressor(
            subspace=subspace, fairness=fairness, **FIXED, removal="training_rows"
        )
        est.fit(X, s, sensitive_features=s)
    mean, std = est.predict(new, return_std=True)
    cov = est.predict(new, return_cov=True)[1]
    assert np.isfinite([mean, std]).all()
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std)
    assert np.isfinite(est.log_marginal_likelihood())
    for prior in (False, True):
        assert np.isfinite(est.sample_y(new, 2, prior=prior)).all()
    if fairness == 1.0 and subspace == "model":
        np.testing.assert_allclose(std, s.std(ddof=1) * np.sqrt(1.0 + 1.0 / len(s)))


@pytest.mark.filterwarnings(
    "ignore:.*the protected attribute 'sensitive_feature_0' itself:UserWarning"
)
@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
def test_features_that_are_s_alone(name, subspace):
    """The linear kernel has one direction, and S takes it."""
    rows = np.c_[s, 2.0 * s].astype(float)
    est = MODELS[name](kernel="linear", eta=1e-3, alpha=1.0, subspace=subspace)
    with pytest.warns(FairspanWarning, match="predicts the mean of y"):
        est.fit(rows, target(name), sensitive_features=s)
    assert np.ptp(outputs(est, rows)) < 1e-9


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
def test_s_without_any_part_in_x(name, subspace):
    """Every row twice, once in each group: removing S removes nothing that predicts y."""
    rows, y = np.concatenate([X, X]), np.concatenate([target(name)] * 2)
    group = np.repeat([0, 1], len(X))
    params = {**FIXED, "subspace": subspace}
    if name == "FairGPClassifier":  # the moments of one fold: Cov(psi, S) is 0 without rounding
        params["calibrate"] = False
    est, messages = quiet(MODELS[name](**params, removal="training_rows"), y, group, rows)
    assert messages == []
    plain = MODELS[name](**params, fairness=0.0, removal="training_rows").fit(
        rows, y, sensitive_features=group
    )
    np.testing.assert_allclose(outputs(est, new), outputs(plain, new), atol=1e-8)
    if name == "FairGPClassifier":
        probabilities = (e.predict_proba(new) for e in (est, plain))
        np.testing.assert_allclose(*probabilities, atol=1e-8)
        return
    twin = FairRidge(**FIXED, fairness=0.0, removal="training_rows").fit(
        rows, y, sensitive_features=group
    )
    scale = (lambda f: 2.0 * f - 1.0) if is_classifier(est) else (lambda f: f)
    np.testing.assert_allclose(outputs(est, new), scale(twin.predict(new)), atol=1e-8)
    if name == "FairGPRegressor" and subspace == "fair":
        # The constraint removes nothing, so the variance of the plain process is kept as well.
        std = plain.predict(new, return_std=True)[1]
        np.testing.assert_allclose(est.predict(new, return_std=True)[1], std, rtol=1e-6)


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_constant_target(name, subspace, value, alpha):
    params = {**FIXED, "subspace": subspace, "alpha": alpha}
    est, messages = quiet(MODELS[name](**params), np.full(len(X), value))
    assert len(messages) == 1
    assert messages[0].startswith("y is constant (")
    for fairness in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(est.at(fairness).predict(new), value, rtol=1e-12)
    if name == "FairGPRegressor":
        mean, std = est.predict(new, return_std=True)
        assert (std > 0).all()
        assert std.max() < 1e-9 * max(1.0, abs(value))
        assert np.isfinite(est.log_marginal_likelihood())
        assert np.isfinite(est.sample_y(new, 2, prior=True)).all()
        np.testing.assert_allclose(est.sample_y(new), value, atol=1e-9 * max(1.0, abs(value)))
        np.testing.assert_allclose(mean, value, rtol=1e-12)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_is_refused(name):
    refused(MODELS[name](**FIXED), "y holds one class only", y=np.ones(len(X)))


@pytest.mark.parametrize("subspace", SUBSPACES)
def test_fewer_directions_than_classes_after_fairness(subspace):
    """One of two directions is S itself: the other goes on."""
    y = np.where(s == 1, "b", np.where(X[:, 2] > 0, "a", "c"))
    est, messages = quiet(
        FairRidgeClassifier(subspace=subspace, **FIXED, removal="training_rows"), y
    )
    assert any("1 of 2 predictive directions have no fair part" in m for m in messages)
    scores = est.decision_function(X)
    assert np.ptp(scores[:, 1]) < 1e-8
    assert max(abs(np.corrcoef(scores[:, k], s)[0, 1]) for k in (0, 2)) < 1e-9
    assert (est.predict(X) == y).mean() > 0.5


@pytest.mark.parametrize("wanted", ["test", 3])
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_directions_is_nothing_to_all_of_f(name, wanted):
    est = fitted(name, subspace="fair", n_predictive_directions=wanted)
    np.testing.assert_allclose(outputs(est, new), outputs(fitted(name, subspace="fair"), new))


# --------------------------------------------------------------------------- blocks, weights


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
def test_blocks_and_merged_workers_give_the_fit(name, subspace):
    y = target(name)
    whole = fitted(name, subspace=subspace, removal="training_rows")
    first = MODELS[name](**FIXED, subspace=subspace, removal="training_rows").prepare(
        X, y, sensitive_features=s
    )
    second = pickle.loads(pickle.dumps(first))
    first.partial_fit(X[:30], y[:30], sensitive_features=s[:30], solve=False)
    second.partial_fit(X[30:], y[30:], sensitive_features=s[30:], solve=False)
    first.merge(second)
    if name == "FairGPClassifier":
        first.fit_head([(X[:30], y[:30], s[:30]), (X[30:], y[30:], s[30:])])
    np.testing.assert_allclose(outputs(first, new), outputs(whole, new), atol=1e-9)
    if name == "FairGPRegressor":
        for kind in ("return_std", "return_cov"):
            ours, theirs = (e.predict(new, **{kind: True})[1] for e in (first, whole))
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_classes_of_partial_fit():
    est = FairRidgeClassifier(**FIXED, removal="training_rows")
    says = ("classes=[0, 1, 2]", "show every class")
    refused(est, says, y=labels, method="partial_fit", classes=[0, 1, 2])
    est.prepare(X, labels, sensitive_features=s)
    est.partial_fit(X[:40], labels[:40], sensitive_features=s[:40], classes=[1, 0])
    refused(est, says, y=labels, method="partial_fit", classes=[0, 1, 2])
    est.partial_fit(X[40:], labels[40:], sensitive_features=s[40:])
    whole = fitted("FairRidgeClassifier", removal="training_rows")
    np.testing.assert_allclose(est.decision_function(new), whole.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("subspace", SUBSPACES)
@pytest.mark.parametrize("name", MODELS)
def test_weights_are_copies_for_the_mean(name, subspace):
    w = np.random.default_rng(4).integers(0, 4, len(X))
    y, params = target(name), {**FIXED, "subspace": subspace}
    weighted = MODELS[name](**params, removal="training_rows").fit(
        X, y, sensitive_features=s, sample_weight=w
    )
    copies = MODELS[name](**params, removal="training_rows")
    copies.fit(X.repeat(w, 0), y.repeat(w), sensitive_features=s.repeat(w))
    np.testing.assert_allclose(outputs(weighted, new), outputs(copies, new), atol=1e-8)


def test_nothing_of_an_earlier_fit_is_left():
    est = fitted("FairGPRegressor", n_predictive_directions=2)
    est.set_params(subspace="fair").fit(X, numbers, sensitive_features=s)
    assert set(vars(est)) == set(vars(fitted("FairGPRegressor", subspace="fair")))
    em = {"method": "paper", "inference": "em-paper", "subspace": "model", "alpha": "auto"}
    est.set_params(**em).fit(X, numbers, sensitive_features=s)
    assert not hasattr(est, "log_marginal_likelihood_value_")
    assert not hasattr(est, "prior_precision_")


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"inference": "mcmc"}, ("inference='mcmc'", "'evidence' or 'em-paper'")),
        ({"inference": None}, ("inference=None", "'evidence' or 'em-paper'")),
        ({"prior": "wide"}, ("prior='wide'", "'isotropic', 'ard' or an array")),
        ({"prior": ["a"]}, ("prior=['a']", "array of numbers")),
        ({"prior": [1.0, 2.0]}, ("prior has shape (2,)", "1 functions", "(1, 1)")),
        ({"prior": 3.0}, ("prior has shape ()", "1 functions")),
        ({"prior": [-1.0]}, ("prior is not a positive definite",)),
        ({"prior": [[np.nan]]}, ("prior is not a positive definite",)),
        ({"inference": "em-paper"}, ("inference='em-paper' with method='optimal'", "go together")),
        (
            {"method": "paper", "alpha": "auto"},
            ("inference='evidence' with method='paper'", "go together"),
        ),
        ({"subspace": "fair", "prior": "ard"}, ("subspace='fair'", "use prior='isotropic'")),
        ({"subspace": "fair", "prior": [1.0]}, ("subspace='fair'", "use prior='isotropic'")),
        (
            {"subspace": "fair", "method": "paper", "inference": "em-paper", "alpha": "auto"},
            ("method='paper'", "subspace='model'"),
        ),
    ],
)
def test_bad_parameters_of_the_process(params, says):
    refused(FairGPRegressor(**{**FIXED, **params}), says, y=numbers)
    refused(fitted("FairGPRegressor").set_params(**params), says, y=numbers)


@pytest.mark.parametrize("name", ["FairRidge", "FairRidgeClassifier", "FairGPClassifier, gaussian"])
def test_the_paper_has_no_prior_on_all_of_f(name):
    est = MODELS[name](subspace="fair", method="paper", gamma=0.5)
    refused(est, ("method='paper'", "subspace='model'"), y=target(name))


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize(
    "y", [np.where(labels, "yes", "no"), labels.astype(bool)], ids=["text", "bool"]
)
def test_regressors_need_numbers(name, y):
    says = ("y does not hold numbers", name, "FairRidgeClassifier")
    refused(MODELS[name](**FIXED), says, y=y)
    refused(fitted(name), says, y=y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_need_classes(name):
    est = MODELS[name](**FIXED)
    says = ("Unknown label type: continuous", type(est).__name__, "FairRidge,")
    refused(est, says, y=numbers)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("subspace", SUBSPACES)
def test_y_and_s_are_needed(name, subspace):
    est = MODELS[name](subspace=subspace, **FIXED)
    says = (f"{type(est).__name__} requires y to be passed", "target y is None")
    refused(est, says, y=None)
    refused(est, "`sensitive_features` was not given", y=target(name), sensitive_features=None)


def test_std_and_cov_together_are_refused():
    with pytest.raises(RuntimeError, match="At most one of return_std or return_cov"):
        fitted("FairGPRegressor").predict(new, return_std=True, return_cov=True)


@pytest.mark.parametrize("prior", ["isotropic", "ard"])
@pytest.mark.parametrize("theta", [[0.0], [0.0, 0.0, 0.0, 0.0, 0.0], 0.0, [[0.0, 0.0]]])
def test_theta_of_another_shape_is_refused(prior, theta):
    est = fitted("FairGPRegressor", prior=prior, n_predictive_directions=2)
    with pytest.raises(ValueError, match=r"theta has shape .* is needed: log precisions, then"):
        est.log_marginal_likelihood(theta)


@pytest.mark.parametrize("params", [{"subspace": "fair"}, {"prior": [2.0]}], ids=str)
def test_evidence_elsewhere_is_for_the_priors_that_have_parameters(params):
    est = fitted("FairGPRegressor", **params)
    assert est.log_marginal_likelihood() == est.log_marginal_likelihood_value_
    for asked in ({"theta": [0.0, 0.0]}, {"eval_gradient": True}):
        with pytest.raises(ValueError, match="subspace='model' with prior 'isotropic' or 'ard'"):
            est.log_marginal_likelihood(**asked)


def test_the_papers_inference_has_no_evidence_and_no_prior():
    est = FairGPRegressor(method="paper", inference="em-paper", gamma=0.5, n_slices=5)
    est.fit(X, numbers, sensitive_features=s)
    with pytest.raises(ValueError, match="'em-paper' has no evidence"):
        est.log_marginal_likelihood()
    with pytest.raises(ValueError, match="'em-paper' has no usable prior"):
        est.sample_y(new, prior=True)
    assert np.isfinite(est.sample_y(new)).all()


def test_nothing_works_before_fit():
    methods = ["predict", "sample_y", "decision_function", "predict_proba", "predict_log_proba"]
    for make in MODELS.values():
        for method in [*methods, "log_marginal_likelihood"]:
            if hasattr(make(), method):
                given = () if method == "log_marginal_likelihood" else (new,)
                with pytest.raises(sklearn.exceptions.NotFittedError):
                    getattr(make(), method)(*given)


# --------------------------------------------------------------------------- scikit-learn's checks


class HashedFairRidge(Hashed, FairRidge):
    pass


class HashedFairRidgeClassifier(Hashed, FairRidgeClassifier):
    pass


class HashedFairGPRegressor(Hashed, FairGPRegressor):
    pass


class HashedFairGPClassifier(Hashed, FairGPClassifier):
    pass


HASHED = {
    "FairRidge": HashedFairRidge,
    "FairRidgeClassifier": HashedFairRidgeClassifier,
    "FairGPRegressor": HashedFairGPRegressor,
    "FairGPClassifier": HashedFairGPClassifier,
    "FairGPClassifier, gaussian": partial(HashedFairGPClassifier, likelihood="gaussian"),
}
VARIANTS = {
    "default": {},
    "fixed": {**FIXED, "removal": "training_rows"},
    "fair": {**FIXED, "subspace": "fair"},
    "fair halfway": {**FIXED, "subspace": "fair", "fairness": 0.5},
}
CLASSIFIER_ROWS = "check_classifier_data_not_an_array"
# Six rows, and two groups of 5 need 10: below.
NOT_HERE = {name: {CLASSIFIER_ROWS} for name in CLASSIFIERS}
# Moments alone, so there is nothing that weights of classes could weigh: it refuses them.
NOT_HERE["FairGPClassifier, gaussian"] |= {"check_class_weight_classifiers"}
# A variance on all of F: far from the rows the log odds may be larger and the probability smaller.
WIDE = "check_decision_proba_consistency"
AT_LEAST = {"check_fit_score_takes_y", "check_methods_subset_invariance", "check_estimators_pickle"}


# The Gaussian likelihood is the ridge classifier but for its probabilities: two variants will do.
CHECKED = [
    pytest.param(name, variant, marks=[pytest.mark.slow] if variant != "default" else [])
    for name in HASHED
    for variant in VARIANTS
    if "gaussian" not in name or variant in ("default", "fair halfway")
]


@TINY
@pytest.mark.parametrize(("name", "variant"), CHECKED)
def test_every_check_passes(name, variant):
    outcome = run_checks(HASHED[name](**VARIANTS[variant]))
    for check in NOT_HERE.get(name, ()):
        assert outcome.pop(check) is not None
    if name.startswith("FairGPClassifier") and variant.startswith("fair"):
        outcome.pop(WIDE)
    troubled = {name: error for name, error in outcome.items() if error is not None}
    assert not troubled  # neither failed nor skipped
    assert len(outcome) >= 50, f"scikit-learn ran {len(outcome)} checks only"
    kind = "classifiers" if name in CLASSIFIERS else "regressors"
    assert AT_LEAST | {f"check_{kind}_train"} <= set(outcome)
    assert set(ELSEWHERE).isdisjoint(outcome)


@pytest.fixture
def single_rows(monkeypatch):
    """Groups of one row are allowed: some checks have nine rows or fewer."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("fairspan.estimators.", "fairspan.method.")) and hasattr(
            module, "MIN_ROWS"
        ):
            monkeypatch.setattr(module, "MIN_ROWS", 1)


@TINY
@pytest.mark.usefixtures("single_rows")
@pytest.mark.parametrize("variant", ["fixed", "fair", "fair halfway"])
@pytest.mark.parametrize("name", [name for name in HASHED if "gaussian" not in name])
def test_the_weight_equivalence_check_passes(name, variant):
    """Not for the noise of a Gaussian likelihood: there a weight is a precision, not copies."""
    estimator = HASHED[name](**VARIANTS[variant])
    if name == "FairGPClassifier":
        estimator.calibrate = False  # copies of a row fall into folds of their own
    assert run_checks(estimator, only=EQUIVALENCE) == {EQUIVALENCE: None}


@TINY
@pytest.mark.usefixtures("single_rows")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_check_with_six_rows_passes(name, variant):
    estimator = HASHED[name](**VARIANTS[variant])
    assert run_checks(estimator, only=CLASSIFIER_ROWS) == {CLASSIFIER_ROWS: None}


class WithoutStreams:
    """Hides `partial_fit`, which decision rules refuse, and which the checks would call."""

    @property
    def partial_fit(self):
        raise AttributeError


class RuleFairRidgeClassifier(WithoutStreams, HashedFairRidgeClassifier):
    pass


class RuleFairGPClassifier(WithoutStreams, HashedFairGPClassifier):
    pass


WITH_RULES = {
    "FairRidgeClassifier": RuleFairRidgeClassifier,
    "FairGPClassifier": RuleFairGPClassifier,
}
# ``class_weight`` is refused: decisions have a cost matrix.
DECISIONS_NOT_HERE = {"FairGPClassifier": {"check_class_weight_classifiers"}}
# Probabilities are those of y at every dial value, and a fair rule ranks rows otherwise.
FAIR_RULE_NOT_HERE = {WIDE}


@TINY
@pytest.mark.slow
@pytest.mark.usefixtures("single_rows")
@pytest.mark.parametrize("fairness", [0.0, 1.0])
@pytest.mark.parametrize("name", WITH_RULES)
def test_every_check_passes_for_decision_rules(name, fairness, monkeypatch):
    """Tables of the checks have fewer rows than decision rules need, so the least numbers are 1."""
    monkeypatch.setattr("fairspan.method.missingness.MIN_FOLD_ROWS", 1)
    monkeypatch.setattr(
        "fairspan.estimators.decision_fit.rate_blocks", partial(rate_blocks, min_rows=1)
    )
    outcome = run_checks(WITH_RULES[name](equalize="decisions", fairness=fairness))
    expected = DECISIONS_NOT_HERE.get(name, set()) | (FAIR_RULE_NOT_HERE if fairness else set())
    assert {check for check, error in outcome.items() if error is not None} == expected
    assert len(outcome) >= 50, f"scikit-learn ran {len(outcome)} checks only"
    assert AT_LEAST | {"check_classifiers_train", "check_estimators_unfitted"} <= set(outcome)


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@TINY
@pytest.mark.parametrize("name", HASHED)
@pytest.mark.parametrize(
    "check", ["check_dataframe_column_names_consistency", "check_inplace_ensure_writeable"]
)
def test_checks_that_scikit_learn_keeps_for_its_own(name, check):
    getattr(estimator_checks, check)(name, HASHED[name](**FIXED))


def test_scikit_learn_knows_what_they_are():
    assert all(is_classifier(MODELS[name]()) for name in CLASSIFIERS)
    assert not any(is_regressor(MODELS[name]()) for name in CLASSIFIERS)
    assert all(is_regressor(MODELS[name]()) for name in REGRESSORS)


# --------------------------------------------------------------------------- routing, frames, files


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("routing", [True, False])
def test_cross_validate_sends_s_to_every_fold(name, routing):
    rows, y, group = table(200)
    if name in REGRESSORS:
        y = rows[:, 0] + rows[:, 2]
    with sklearn.config_context(enable_metadata_routing=routing):
        result = cross_validate(
            MODELS[name](**FIXED),
            rows,
            y,
            params={"sensitive_features": group},
            cv=3,
            return_estimator=True,
            return_indices=True,
            error_score="raise",
        )
    assert (result["test_score"] > 0.3).all()
    for est, train in zip(result["estimator"], result["indices"]["train"], strict=True):
        alone = MODELS[name](**FIXED).fit(rows[train], y[train], sensitive_features=group[train])
        np.testing.assert_allclose(outputs(est, rows), outputs(alone, rows), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_grid_search_over_the_dial_in_a_pipeline(name):
    model = make_pipeline(StandardScaler(), MODELS[name](**FIXED, random_state=0))
    step = type(MODELS[name]()).__name__.lower()
    grid = {f"{step}__fairness": [0.0, 1.0], f"{step}__subspace": SUBSPACES}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, grid, cv=3, error_score="raise")
        with pytest.warns(FairspanWarning, match="does not measure fairness"):
            search.fit(X, target(name), sensitive_features=s)
    chosen = {key.partition("__")[2]: value for key, value in search.best_params_.items()}
    scaled = StandardScaler().fit_transform(X)
    alone = MODELS[name](**FIXED, random_state=0, **chosen).fit(
        scaled, target(name), sensitive_features=s
    )
    np.testing.assert_array_equal(search.predict(X), alone.predict(scaled))
    if name in REGRESSORS:
        assert chosen["fairness"] == 0.0  # S shifts what predicts y, and only accuracy was asked
    with pytest.raises(ValueError, match="Three ways"):
        make_pipeline(StandardScaler(), MODELS[name](**FIXED, random_state=0)).fit(X, target(name))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", MODELS)
def test_frames_with_s_by_name(name, library):
    library = pytest.importorskip(library)
    names = ["income", "debt", "age"]
    columns = dict(zip(names, X.T, strict=True))
    frame = library.DataFrame({**columns, "sex": np.where(s, "f", "m")})
    y = (
        library.Series(target(name))
        if library.__name__ == "pandas"
        else library.Series("y", target(name))
    )
    est = MODELS[name](**FIXED).fit(frame, y, sensitive_features="sex")
    assert est.feature_names_in_.tolist() == names
    expected = outputs(fitted(name), X)
    for rows in (frame, frame[names]):
        np.testing.assert_allclose(outputs(est, rows), expected, atol=1e-12)
    if name == "FairGPRegressor":
        std = fitted(name).predict(X, return_std=True)[1]
        np.testing.assert_allclose(est.predict(frame, return_std=True)[1], std, atol=1e-12)


KEPT = {
    "model": {},
    "training rows": {"removal": "training_rows"},
    "fair": {"subspace": "fair"},
    "ard": {"prior": "ard", "n_predictive_directions": 2},
    "given": {"prior": np.array([2.0])},
    "paper": {"method": "paper", "inference": "em-paper", "alpha": "auto", "n_slices": 5},
}
CASES = [
    (name, kind)
    for name in MODELS
    for kind in KEPT
    if name == "FairGPRegressor" or ("prior" not in KEPT[kind] and "inference" not in KEPT[kind])
]


def by_pickle(est, _):
    return pickle.loads(pickle.dumps(est))


def by_file(est, folder):
    pytest.importorskip("skops")
    return load_model(save_model(est, folder / "model.skops"))


def by_small_file(est, folder):
    pytest.importorskip("skops")
    return load_model(save_model(est, folder / "model.skops", keep_moments=False))


@pytest.mark.parametrize("way", [by_pickle, by_file, by_small_file])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_round_trip_keeps_the_model(name, kind, way, tmp_path):
    est = fitted(name, **KEPT[kind])
    loaded = way(est, tmp_path)
    for one, other in ((est, loaded), (est.at(0.4), loaded.at(0.4))):
        np.testing.assert_array_equal(outputs(other, new), outputs(one, new))
        np.testing.assert_array_equal(other.predict(new), one.predict(new))
        if hasattr(est, "predict_proba"):
            np.testing.assert_array_equal(other.predict_proba(new), one.predict_proba(new))
        if name == "FairGPRegressor":
            for given in ({"return_std": True}, {"return_cov": True}):
                np.testing.assert_array_equal(
                    other.predict(new, **given)[1], one.predict(new, **given)[1]
                )
            np.testing.assert_array_equal(other.sample_y(new, 2), one.sample_y(new, 2))
            if kind not in ("model", "paper"):  # these have no evidence
                assert other.log_marginal_likelihood() == one.log_marginal_likelihood()
    assert str(loaded.certificate_) == str(est.certificate_)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_clone_fits_alike_and_holds_nothing(name, kind):
    est = fitted(name, random_state=0, **KEPT[kind])
    copy = clone(est)
    assert not hasattr(copy, "pilot_")
    assert copy.get_params().keys() == est.get_params().keys()
    copy.fit(X, target(name), sensitive_features=s)
    if name == "FairGPClassifier":  # sums over rows, whose last digits are the machine's choice
        np.testing.assert_allclose(outputs(copy, new), outputs(est, new), atol=1e-12)
        np.testing.assert_allclose(copy.predict_proba(new), est.predict_proba(new), atol=1e-9)
    else:
        np.testing.assert_array_equal(outputs(copy, new), outputs(est, new))


def test_at_leaves_the_estimator_as_it_is():
    est = fitted("FairGPRegressor", n_predictive_directions=2)
    before = est.predict(new, return_std=True)
    other = est.at(0.3)
    assert other.get_params()["fairness"] == 0.3
    after = est.predict(new, return_std=True)
    np.testing.assert_array_equal(before, after)
    direct = fitted("FairGPRegressor", n_predictive_directions=2, fairness=0.3)
    np.testing.assert_allclose(other.predict(new), direct.predict(new), atol=1e-12)
    np.testing.assert_allclose(
        other.predict(new, return_std=True)[1], direct.predict(new, return_std=True)[1]
    )


# --------------------------------------------------------------------------- docstrings


@pytest.mark.parametrize("cls", CLASSES)
def test_docstrings_say_what_is_taken(cls):
    assert documented(cls.__doc__, "Parameters") == taken(cls)
    assert documented(cls.__doc__, "Attributes")
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if method.__module__.startswith("fairspan") and not name.startswith("_"):
            assert method.__doc__, name
            names = documented(method.__doc__, "Parameters")
            assert sorted(names) == sorted(taken(method)) or not names


@pytest.mark.parametrize("name", MODELS)
def test_every_fitted_attribute_is_documented(name):
    est = fitted(name)
    doc = documented(type(est).__doc__, "Attributes")
    doc += documented(FairRepresentation.__doc__, "Attributes")
    held = {name for name in vars(est) if name.endswith("_") and not name.startswith("_")}
    assert held <= set(doc)


def test_the_own_entries_win_over_the_shared_ones():
    assert "the ridge direction. An integer" in FairGPRegressor.__doc__
    assert "maximum evidence" in FairGPRegressor.__doc__
    assert "**params" not in FairGPRegressor.__doc__
    # The other class's docstring is as it was.
    assert "leading principal components" in " ".join(FairRepresentation.__doc__.split())


def test_a_warning_for_tiny_groups_is_ours_and_one():
    group = np.where(np.arange(len(X)) < 3, "few", np.where(s, "a", "b"))
    with pytest.warns(DataWarning, match="'few' \\(3 rows\\)"):
        FairRidge(**FIXED).fit(X, numbers, sensitive_features=group)
