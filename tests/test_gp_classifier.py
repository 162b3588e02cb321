"""FairGPClassifier: latents against oracles, fairness, probabilities, held-out scores, streaming.

What it shares with the other models (scikit-learn's checks, routing, frames, files) is in
`test_models`; Newton's method and the link by themselves are in `unit`.
"""

import pickle
import warnings
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidgeClassifier,
    NumericalWarning,
)
from fairspan.estimators import FairnessPath, fairness_path, likelihood_ends
from fairspan.estimators.dial_predictor import move
from fairspan.estimators.likelihood_rows import TrainingRows
from fairspan.method.folds import KeyFolds
from fairspan.method.laplace import class_curvature, softmax
from tests.laws import raw
from tests.support.small import FIXED, table
from tests.support.strategies import make_problem
from tests.test_errors import state
from tests.test_models import on
from tests.unit.method.test_laplace import design, logistic_oracle, symmetric_oracle

FIVE = (0.0, 0.25, 0.5, 0.8, 1.0)
SUBSPACES = ["model", "fair"]
LIKELIHOODS = ["logistic", "gaussian"]

X, labels, s = table()
new = np.random.default_rng(1).normal(size=(15, 3))
three = np.digitize(X[:, 0] + X[:, 2] + np.random.default_rng(3).normal(size=len(X)), [-0.3, 1.0])
TARGETS = {"two": labels, "three": three}
weights = np.random.default_rng(4).exponential(size=len(X)) + 0.2

both_likelihoods = pytest.mark.parametrize("likelihood", LIKELIHOODS)
both_subspaces = pytest.mark.parametrize("subspace", SUBSPACES)
both_targets = pytest.mark.parametrize("target", TARGETS)


def fitted(y=labels, *, rows=X, s=s, sample_weight=None, **params):
    est = FairGPClassifier(**{**FIXED, **params})
    return est.fit(rows, y, sensitive_features=s, sample_weight=sample_weight)


def columns(est, rows):
    """decision_function with one column per class, or one for two."""
    out = est.decision_function(rows)
    return out[:, None] if out.ndim == 1 else out


def indicators(y):
    return (y[:, None] == np.unique(y)).astype(float)


# --------------------------------------------------------------------------- the latent functions


def functions(y, subspace, fairness, sample_weight=None, **params):
    """Functions that span the model space, by other estimators: psi coordinates, and as callables.

    The model space of METHOD 7, or the functions of METHOD 9's line, one per class; softmax sees only
    their differences.
    """
    cls = FairRepresentation if subspace == "model" else FairRidgeClassifier
    est = cls(**{**FIXED, "subspace": subspace, "fairness": fairness, **params})
    est.fit(X, y, sensitive_features=s, sample_weight=sample_weight)
    if subspace == "model":
        E = est._position.directions
        return E, lambda rows: est._coordinates(rows) @ E, est.alpha_, E.T @ E
    return all_of_f(est, fairness)


def all_of_f(est, fairness):
    """METHOD 9's prior ``I + (1/eta_y)(t/(1-t)) N (N'R^-1N)^-1 N'`` on what the path spans."""
    solution = est._solution
    B, fair, eta_y = solution.basis, solution.fair, solution.eta_y
    R = fair.cov + eta_y * np.eye(len(fair.cov))
    N = fair.removed
    middle = np.linalg.inv(N.T @ np.linalg.solve(R, N))
    g = np.linalg.solve(R, fair.cross)
    outside = np.linalg.solve(R, N @ middle @ N.T @ g)
    lengths = [np.sqrt(np.trace(part.T @ R @ part)) for part in (outside, g - outside)]
    theta = np.arctan2(*lengths)
    t = 1.0 - np.tan((1.0 - fairness) * theta) / np.tan(theta)
    d = B.shape[1] // 2
    E = B[:, :d] if fairness == 1.0 else B[:, np.linalg.norm(B, axis=0) > 0.0]
    inner = E.T @ E
    if fairness < 1.0:
        inner = inner + t / (1.0 - t) / eta_y * (E.T @ N @ middle @ N.T @ E)
    return E, lambda rows: est._coordinates(rows) @ E, est.alpha_, inner


def oracle_rows(y, E, scores, alpha, w=None, prior_weight=None, inner=None):
    """What the oracles of `test_laplace` read: precision alpha * curvature * E'E."""
    codes = np.unique(y, return_inverse=True)[1]
    shares = np.average(indicators(y), axis=0, weights=prior_weight)
    K = len(shares)
    return SimpleNamespace(
        K=K,
        d=E.shape[1],
        scores=scores,
        codes=codes,
        onehot=np.eye(K)[codes],
        weight=np.ones(len(y)) if w is None else w,
        precision=alpha * class_curvature(shares) * (E.T @ E if inner is None else inner),
    )


def oracle_latents(rows, scores):
    B = symmetric_oracle(rows)
    out = design(scores) @ (B - B.mean(axis=1, keepdims=True))
    return out[:, 1:] - out[:, :1] if rows.K == 2 else out


@both_subspaces
@both_targets
@pytest.mark.parametrize("weighted", [False, True])
def test_latents_are_those_of_the_oracle_along_the_dial(target, subspace, weighted):
    y, w = TARGETS[target], weights if weighted else None
    est = fitted(
        y, subspace=subspace, sample_weight=w, curvature="constant", removal="training_rows"
    )
    for fairness in FIVE:
        E, scores, alpha, inner = functions(y, subspace, fairness, w, removal="training_rows")
        rows = oracle_rows(y, E, scores(X), alpha, w, w, inner)
        expected = oracle_latents(rows, scores(new))
        np.testing.assert_allclose(columns(est.at(fairness), new), expected, atol=1e-7)


@both_subspaces
@pytest.mark.parametrize("params", [{"method": "rkhs"}, {"criterion": "eo"}, {"alpha": "auto"}])
def test_latents_are_those_of_the_oracle_in_other_settings(subspace, params):
    est = fitted(
        three,
        subspace=subspace,
        fairness=0.6,
        curvature="constant",
        **params,
        removal="training_rows",
    )
    E, scores, alpha, inner = functions(three, subspace, 0.6, **params, removal="training_rows")
    assert est.alpha_ == pytest.approx(alpha, rel=1e-9)
    rows = oracle_rows(three, E, scores(X), alpha, inner=inner)
    expected = oracle_latents(rows, scores(new))
    np.testing.assert_allclose(columns(est, new), expected, atol=1e-7)


@both_subspaces
@pytest.mark.parametrize("removal", ["auto", "training_rows"])
@pytest.mark.parametrize("fairness", [0.0, 0.4, 1.0])
def test_classes_may_be_named_in_any_order(subspace, fairness, removal):
    params = {"subspace": subspace, "fairness": fairness, "removal": removal}
    est = fitted(three, **params)
    for order in ([1, 2, 0], [2, 1, 0]):
        other = fitted(np.array(order)[three], **params)
        found = other.decision_function(new)[:, order]
        np.testing.assert_allclose(found, est.decision_function(new), atol=1e-9)
        if (subspace, removal) == ("model", "auto"):
            continue  # no evidence
        assert other.log_marginal_likelihood_value_ == pytest.approx(
            est.log_marginal_likelihood_value_, abs=1e-4
        )


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_probabilities_before_calibration_are_moderated_log_odds(fairness):
    est = fitted(calibrate=False, fairness=fairness, curvature="constant", removal="training_rows")
    E, scores, alpha, _ = functions(labels, "model", fairness, removal="training_rows")
    b, cov = logistic_oracle(oracle_rows(labels, E, scores(X), alpha))
    A = design(scores(new))
    v = np.einsum("ni,ij,nj->n", A, cov, A)
    expected = 1.0 / (1.0 + np.exp(-(A @ b) / np.sqrt(1.0 + np.pi / 8.0 * v)))
    np.testing.assert_allclose(est.predict_proba(new)[:, 1], expected, atol=1e-5)


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_the_variance_on_all_of_f_is_that_of_the_regression(fairness):
    """In units of its noise, at the curvature p(1 - p) of the labels' shares."""
    est = fitted(calibrate=False, subspace="fair", fairness=fairness)
    twin = FairGPRegressor(**FIXED, subspace="fair", fairness=fairness)
    twin.fit(X, 2.0 * labels - 1.0, sensitive_features=s)
    p = labels.mean()
    v = (twin.predict(new, return_std=True)[1] ** 2 / twin.noise_ - 1.0) / (p * (1.0 - p))
    log_odds = est.decision_function(new) / np.sqrt(1.0 + np.pi / 8.0 * v)
    np.testing.assert_allclose(
        est.predict_proba(new)[:, 1], 1.0 / (1.0 + np.exp(-log_odds)), atol=1e-9
    )
    # Far from all rows nothing is known but the shares that went into the intercept.
    far = est.predict_proba(np.full((1, 3), 50.0))[0, 1]
    assert abs(far - 0.5) < abs(est.predict_proba(new)[:, 1] - 0.5).max()


def test_the_evidence_is_the_newton_fit_s():
    E, scores, alpha, _ = functions(labels, "model", 1.0, removal="training_rows")
    rows = oracle_rows(labels, E, scores(X), alpha)
    b, cov = logistic_oracle(rows)
    f, half = design(rows.scores) @ b, rows.precision / 2.0
    value = labels @ f - np.logaddexp(0.0, f).sum() - 0.5 * b[1:] @ half @ b[1:]
    value += 0.5 * (np.linalg.slogdet(half)[1] + np.linalg.slogdet(cov)[1] + np.log(2.0 * np.pi))
    for subspace in SUBSPACES:  # at the ends the two model spaces are one
        est = fitted(subspace=subspace, curvature="constant", removal="training_rows")
        assert est.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-5)


# --------------------------------------------------------------------------- fairness


@pytest.mark.parametrize("task", ["binary", "classes"])
@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@both_subspaces
@pytest.mark.parametrize(
    ("likelihood", "class_weight"),
    [("logistic", None), ("logistic", "balanced"), ("gaussian", None)],
)
def test_no_latent_covaries_with_a_code_at_full_fairness(
    task, criterion, subspace, likelihood, class_weight
):
    problem = make_problem(
        seed=5, n=130, task=task, criterion=criterion, kinds=("binary", "text"), weights="positive"
    )
    given = {"subspace": subspace, "likelihood": likelihood, "class_weight": class_weight}
    est = on(problem, FairGPClassifier, **given, removal="training_rows")
    f = columns(est, problem.X)
    assert f.shape[1] == (1 if task == "binary" else 3)
    checked = 0
    for block in raw.blocks(problem):
        for k in range(f.shape[1]):
            assert block.deviation(f[:, k]) > 1e-6
            assert block.correlation(f[:, k]) < 1e-9
            checked += 1
    assert checked >= 2
    # The constraint had something to do.
    free = columns(est.at(0.0), problem.X)
    assert max(block.correlation(free[:, 0]) for block in raw.blocks(problem)) > 0.05


@pytest.mark.parametrize("task", ["binary", "classes"])
@pytest.mark.parametrize("criterion", ["sp", "eo", "eop"])
@both_subspaces
def test_the_certificate_speaks_of_decision_function(task, criterion, subspace):
    problem = make_problem(
        seed=6, n=140, task=task, criterion=criterion, kinds=("binary", "text"), weights="positive"
    )
    est = on(problem, FairGPClassifier, subspace=subspace, fairness=0.4)
    f = columns(est, problem.X)
    blocks = list(raw.blocks(problem))
    claims = [claim for claim in est.certificate_.blocks if claim.constrained]
    assert [b.attribute for b in blocks] == [c.attribute for c in claims]
    # Functions of the model space: the scores, or on all of F the fitted functions themselves.
    space = est._scores(problem.X) if subspace == "model" else f
    rng = np.random.default_rng(0)
    for block, claim in zip(blocks, claims, strict=True):
        found = max(block.correlation(f[:, k]) for k in range(f.shape[1]))
        assert claim.score == pytest.approx(found, abs=1e-9)
        assert found <= claim.supremum + 1e-9
        drawn = rng.normal(size=(400, space.shape[1]))
        reached = max(block.correlation(space @ c) for c in drawn)
        assert reached <= claim.supremum + 1e-9
        assert reached > 0.95 * claim.supremum
    assert est.certificate_.score == pytest.approx(max(c.score for c in claims))


@both_targets
@both_subspaces
def test_the_correlation_dial_keeps_its_word(target, subspace):
    limit = 0.1
    est = fitted(TARGETS[target], removal="training_rows", subspace=subspace)
    asked = est.at(max_correlation=limit)
    direct = fitted(
        TARGETS[target],
        removal="training_rows",
        subspace=subspace,
        dial="correlation",
        fairness=1.0 - limit,
    )
    for one in (asked, direct):
        f = columns(one, X)
        worst = max(abs(np.corrcoef(f[:, k], s)[0, 1]) for k in range(f.shape[1]))
        assert worst <= limit + 1e-9
        assert worst == pytest.approx(one.certificate_.score, abs=1e-9)
        assert worst > 0.9 * limit  # and no fairer than asked: the plain model is far above
    np.testing.assert_allclose(columns(direct, new), columns(asked, new), atol=1e-9)
    f = columns(est.at(0.0), X)
    assert max(abs(np.corrcoef(f[:, k], s)[0, 1]) for k in range(f.shape[1])) > 0.25


# --------------------------------------------------------------------------- the dial


@both_likelihoods
@both_subspaces
def test_at_leaves_the_estimator_as_it_is(likelihood, subspace):
    est = fitted(three, likelihood=likelihood, subspace=subspace)
    before, proba = state(est), est.predict_proba(new)
    other = est.at(0.3)
    assert other.get_params()["fairness"] == 0.3
    assert state(est) == before
    np.testing.assert_array_equal(est.predict_proba(new), proba)
    direct = fitted(three, likelihood=likelihood, subspace=subspace, fairness=0.3)
    np.testing.assert_allclose(columns(other, new), columns(direct, new), atol=1e-10)
    np.testing.assert_allclose(other.predict_proba(new), direct.predict_proba(new), atol=1e-7)


@both_targets
@both_likelihoods
@both_subspaces
def test_a_path_predicts_what_the_estimator_does_there(target, likelihood, subspace):
    y = TARGETS[target]
    est = fitted(y, likelihood=likelihood, subspace=subspace)
    path = FairnessPath.from_estimator(est, X, y, sensitive_features=s, n_points=6)
    for i, fairness in enumerate(path.fairness):
        at = est.at(float(fairness))
        np.testing.assert_array_equal(path.predictions(i), at.predict(X))
        shown = path.outputs(i)
        if likelihood == "gaussian":
            shown = 2.0 * shown - 1.0
            shown = shown[:, 1:] if target == "two" else shown
        np.testing.assert_allclose(shown, columns(at, X), atol=1e-8)
        assert path.certificate[i] == pytest.approx(at.certificate_.supremum, abs=1e-8)
        assert path.error[i] == pytest.approx((at.predict(X) != y).mean(), abs=1e-12)
    chosen = path.select(at_most=0.15, confidence=None)
    assert chosen.certificate_.score <= 0.15 + 1e-6


@both_targets
def test_a_path_past_full_fairness(target):
    y = TARGETS[target]
    est = fitted(y)
    path = FairnessPath.from_estimator(
        est, X, y, sensitive_features=s, n_points=4, max_fairness=1.5
    )
    beyond = move(est, 1.5)
    np.testing.assert_array_equal(path.predictions(3), beyond.predict(X))
    np.testing.assert_array_equal(path.predictions(2), est.predict(X))


@both_likelihoods
@both_subspaces
@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_fold_that_never_saw_a_class(likelihood, subspace, rare):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], 40))
    y[X[:, 2] > np.quantile(X[:, 2], 0.85)] = 2
    y = np.array([rare, *({0, 1, 2} - {rare})])[(y + 1) % 3]  # the rare class by another name
    hidden = y == rare
    fold = np.where(hidden, 0, rng.integers(0, 3, len(y)))
    params = {**FIXED, "likelihood": likelihood, "subspace": subspace}
    path = fairness_path(
        FairGPClassifier(**params, removal="training_rows"),
        X,
        y,
        sensitive_features=s,
        cv=PredefinedSplit(fold),
        n_points=3,
    )
    tested = fold == 0
    alone = FairGPClassifier(**params, removal="training_rows").fit(
        X[~tested], y[~tested], sensitive_features=s[~tested]
    )
    for i, fairness in enumerate(path.fairness):
        predicted = path.predictions(i)
        assert rare not in predicted[tested]
        np.testing.assert_array_equal(
            predicted[tested], alone.at(float(fairness)).predict(X[tested])
        )
    assert np.isfinite(path.error).all()
    assert np.isfinite(path.curve()).all()
    assert rare in path.estimator.classes_


# --------------------------------------------------------------------------- probabilities


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["binary", "classes"]),
    st.sampled_from(LIKELIHOODS),
    st.sampled_from(SUBSPACES),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_all_ways_to_decide_agree(seed, task, likelihood, subspace, calibrate, fairness):
    problem = make_problem(seed=seed, n=70, task=task, weights="positive")
    given = {"likelihood": likelihood, "subspace": subspace, "calibrate": calibrate}
    est = on(problem, FairGPClassifier, fairness=fairness, **given)
    rows = np.concatenate([problem.X, problem.new, 10.0 * problem.new])
    p, f = est.predict_proba(rows), est.decision_function(rows)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p >= 0.0).all()
    decided = est.predict(rows)
    np.testing.assert_array_equal(decided, est.classes_[p.argmax(axis=1)])
    by_score = (f > 0.0).astype(int) if f.ndim == 1 else f.argmax(axis=1)
    np.testing.assert_array_equal(decided, est.classes_[by_score])
    np.testing.assert_allclose(est.predict_log_proba(rows), np.log(p))
    if likelihood == "logistic":
        other = on(
            problem, FairGPClassifier, fairness=fairness, **{**given, "calibrate": not calibrate}
        )
        np.testing.assert_array_equal(other.predict(rows), decided)
        np.testing.assert_allclose(other.decision_function(rows), f, atol=1e-9)


@both_targets
def test_scores_that_sum_to_zero_or_are_the_larger_labels(target):
    est = fitted(np.array(["no", "yes", "very"])[TARGETS[target]])
    f = est.decision_function(new)
    if target == "two":
        assert f.shape == (len(new),)
        assert np.corrcoef(est.decision_function(X), est.predict(X) == "yes")[0, 1] > 0.5
    else:
        assert est.classes_.tolist() == ["no", "very", "yes"]
        np.testing.assert_allclose(f.sum(axis=1), 0.0, atol=1e-12)


def draw(n, seed):
    """Labels with noise, in a space where an exact kernel can follow the noise."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + s[:, None] * [1.0, 0.5, 0.0]
    f = 1.5 * np.sin(X[:, 0]) + X[:, 2]
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(int), s


@both_subspaces
@pytest.mark.parametrize(("alpha", "least_gain"), [(0.1, 0.01), ("auto", -0.005)])
def test_calibration_helps_on_new_rows(subspace, alpha, least_gain):
    """Much where the directions overfit, and next to nothing is lost where they do not."""
    gain = []
    for seed in range(6):
        rows, y, group = draw(150, seed)
        new_rows, new_y, _ = draw(1000, 1000 + seed)
        params = {**FIXED, "alpha": alpha, "subspace": subspace, "removal": "training_rows"}
        losses = []
        for calibrate in (False, True):
            est = FairGPClassifier(calibrate=calibrate, **params)
            est.fit(rows, y, sensitive_features=group)
            losses.append(log_loss(new_y, est.predict_proba(new_rows)))
        gain.append(losses[0] - losses[1])
    assert np.mean(gain) > least_gain


def test_with_many_rows_and_few_functions_the_link_is_all_but_the_identity():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 2))
    group = rng.integers(0, 2, len(rows))
    y = (rng.random(len(rows)) < 1.0 / (1.0 + np.exp(-1.5 * rows[:, 0]))).astype(int)
    est = FairGPClassifier(kernel="linear", alpha=1.0, eta=1e-3, fairness=0.0)
    est.fit(rows, y, sensitive_features=group)
    assert est.calibration_ == "held-out"
    np.testing.assert_allclose(est._fit_state.head.link.slopes, 1.0, atol=0.2)
    truth = 1.0 / (1.0 + np.exp(-1.5 * rows[:500, 0]))
    np.testing.assert_allclose(est.predict_proba(rows[:500])[:, 1], truth, atol=0.04)


# --------------------------------------------------------------------------- held-out scores


@pytest.fixture
def fixed_folds(monkeypatch):
    """Folds by row and not by label, so that labels can change and folds stay."""
    folds = np.random.default_rng(7).permutation(np.arange(len(X)) % 5)
    monkeypatch.setattr(KeyFolds, "assign", lambda *_: folds)
    return folds


def without_fold(est, y, keep, rows):
    """P_F g and (I - P_F) g at ``rows``, g the ridge functions of the rows in ``keep``, all dense.

    F is that of all rows: functions without covariance with S. The ridge eta_y is the fit's own.
    """
    psi = est.pilot_.features.coordinates(X)
    eta = est.alpha_ / len(X)
    covector = (psi - psi.mean(axis=0)).T @ (s - s.mean()) / len(X)
    mu = psi[keep].mean(axis=0)
    centred, Y = psi[keep] - mu, indicators(y)[keep]
    cov = centred.T @ centred / keep.sum()
    g = np.linalg.solve(cov + eta * np.eye(len(cov)), centred.T @ (Y - Y.mean(axis=0)) / keep.sum())
    R = cov + eta * np.eye(len(cov)) if est.method == "optimal" else np.eye(len(cov))
    across = np.linalg.solve(R, covector)
    outside = np.outer(across, covector @ g) / (covector @ across)
    at = est.pilot_.features.coordinates(rows) - mu
    return at @ (g - outside), at @ outside


@both_targets
@pytest.mark.parametrize("method", ["optimal", "rkhs"])
def test_held_out_scores_are_those_of_a_fit_without_the_fold(target, method, fixed_folds):
    """In the scale of B: a matrix turns each half of B into the functions of all rows.

    S of one code leaves one removed direction; of K functions along it B holds the mix that all rows
    have, and a fold's own mix is projected onto that.
    """
    y = TARGETS[target]
    est = fitted(y, method=method, curvature="constant", removal="training_rows")
    d = len(np.unique(y)) - 1
    scores, held_out = est._fit_state.rows.scores, est._fit_state.rows.held_out
    assert held_out.shape == scores.shape == (len(X), 2 * d)
    everything = without_fold(est, y, np.ones(len(X), bool), X)
    for half, whole in zip((slice(0, d), slice(d, 2 * d)), everything, strict=True):
        mix, *_ = np.linalg.lstsq(scores[:, half], whole, rcond=1e-10)
        np.testing.assert_allclose(scores[:, half] @ mix, whole, atol=1e-9)
        for fold in range(5):
            here = fixed_folds == fold
            which = 0 if half.start == 0 else 1
            expected = without_fold(est, y, ~here, X[here])[which]
            if half.start == 0 or d == 1:
                np.testing.assert_allclose(held_out[here][:, half] @ mix, expected, atol=1e-8)
            expected = expected @ np.linalg.pinv(mix, rcond=1e-8) @ mix
            np.testing.assert_allclose(held_out[here][:, half] @ mix, expected, atol=1e-8)


@both_targets
@pytest.mark.parametrize("method", ["optimal", "rkhs"])
def test_the_labels_of_a_fold_do_not_move_its_functions(target, method, fixed_folds):
    y = TARGETS[target]
    other = y.copy()
    here = fixed_folds == 2
    other[here] = np.random.default_rng(1).permutation(other[here])
    assert (other != y).sum() > 2
    one, two = (
        fitted(labels_, method=method, curvature="constant")._solution.held_out
        for labels_ in (y, other)
    )
    d = len(np.unique(y)) - 1
    for fold in range(5):
        for half in (slice(0, d), slice(d, 2 * d)):
            a, b = one.bases[fold][:, half], two.bases[fold][:, half]
            a, b = (np.linalg.svd(m, full_matrices=False) for m in (a, b))
            rank = int((a[1] > 1e-8 * a[1][0]).sum())
            # The span of the functions; their scale is that of B, which all rows set.
            apart = a[0][:, :rank] - b[0][:, :rank] @ (b[0][:, :rank].T @ a[0][:, :rank])
            if fold == 2:
                assert np.abs(apart).max() < 1e-8
            elif half.start == 0:  # the other half spans what S does, whatever the labels
                assert np.abs(apart).max() > 1e-3


def test_training_scores_are_surer_of_themselves_than_held_out_ones():
    rows, y, group = draw(150, 0)
    est = fitted(y, rows=rows, s=group, alpha=0.1)
    inside = (
        est._fit_state.rows.scores
        @ est._fit_state.head.functions
        @ est._fit_state.head.laplace.coef
    )
    outside = (
        est._fit_state.rows.held_out
        @ est._fit_state.head.functions
        @ est._fit_state.head.laplace.coef
    )
    sign = 2.0 * y - 1.0
    assert (sign * inside[:, 0]).mean() > 1.5 * (sign * outside[:, 0]).mean() > 0.0
    # Each is a score of the same function in two fits, so they go together.
    assert np.corrcoef(inside[:, 0], outside[:, 0])[0, 1] > 0.3


def test_the_variance_of_a_training_row_is_that_without_it():
    """On all of F, at fairness 0: ``psi'(M - psi psi')^-1 psi`` with M = Psi'Psi + alpha I."""
    est = fitted(subspace="fair", fairness=0.0)
    psi = est._coordinates(X)
    M = psi.T @ psi + est.alpha_ * np.eye(psi.shape[1])
    own = [row @ np.linalg.solve(M, row) for row in psi]
    left_out = [row @ np.linalg.solve(M - np.outer(row, row), row) for row in psi]
    lengths = est._fit_state.rows.lengths
    np.testing.assert_allclose(est._spread(est._fit_state, lengths), own, rtol=1e-8)
    v = est._spread(est._fit_state, lengths)
    np.testing.assert_allclose(v / (1.0 - v), left_out, rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "held-out"),
        ({"method": "rkhs"}, "held-out"),
        ({"subspace": "fair"}, "held-out"),
        ({"alpha": "auto"}, "held-out"),
        ({"criterion": "eo"}, "held-out"),
        ({"n_predictive_directions": 1}, "training"),
        ({"calibrate": False}, None),
    ],
)
def test_which_rows_the_link_was_fitted_on(params, expected):
    est = fitted(three, **params)
    assert est.calibration_ == expected
    assert est.at(0.5).calibration_ == expected
    assert (est._fit_state.head.link is None) == (expected is None)
    assert not hasattr(fitted(three, likelihood="gaussian"), "calibration_")


@both_subspaces
def test_scores_in_small_pieces_are_the_same(monkeypatch, subspace):
    whole = fitted(three, subspace=subspace, sample_weight=weights)
    for name, size in (("_PASS_ROWS", 11), ("_NEWTON_ROWS", 7), ("_KEPT_ROWS", 0)):
        monkeypatch.setattr(f"fairspan.estimators.likelihood_rows.{name}", size)
    parts = fitted(three, subspace=subspace, sample_weight=weights)
    np.testing.assert_allclose(
        parts.decision_function(new), whole.decision_function(new), atol=1e-10
    )
    np.testing.assert_allclose(parts.predict_proba(new), whole.predict_proba(new), atol=1e-8)


def test_rows_of_two_blocks():
    def some(n, *, weight=False, held_out=True):
        scores = np.arange(2.0 * n).reshape(n, 2)
        w = np.full(n, 2.0) if weight else None
        return TrainingRows(scores, scores if held_out else None, np.arange(n) % 2, w, None)

    both = some(3, weight=True) + some(2)
    assert both.weight.tolist() == [2.0, 2.0, 2.0, 1.0, 1.0]
    assert both.codes.tolist() == [0, 1, 0, 0, 1]
    assert both.scores.shape == both.held_out.shape == (5, 2)
    assert both.lengths is None
    assert (some(3) + some(2)).weight is None
    assert (some(3) + some(2, held_out=False)).held_out is None


# --------------------------------------------------------------------------- class weights


@both_subspaces
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0}, {0: 0.5, 1: 1.0, 2: 4.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_are_weights_of_the_likelihood(subspace, class_weight, weighted):
    """And of nothing else: directions, ridge and prior are those of the rows as they are."""
    w = weights if weighted else None
    params = {"subspace": subspace, "curvature": "constant", "sample_weight": w}
    est = fitted(three, class_weight=class_weight, **params, removal="training_rows")
    E, scores, alpha, _ = functions(three, subspace, 1.0, w, removal="training_rows")
    base = np.ones(len(X)) if w is None else w
    if class_weight == "balanced":
        each = base.sum() / (3 * np.bincount(three, base))
    else:
        each = np.array([class_weight.get(k, 1.0) for k in range(3)])
    heavy = base * each[three]
    heavy *= base.sum() / heavy.sum()
    rows = oracle_rows(three, E, scores(X), alpha, heavy, w)
    np.testing.assert_allclose(columns(est, new), oracle_latents(rows, scores(new)), atol=1e-7)


@both_targets
@both_subspaces
def test_class_weights_leave_the_certificate(target, subspace):
    y = TARGETS[target]
    plain, heavy = (
        fitted(y, subspace=subspace, class_weight=c, fairness=0.5, removal="training_rows")
        for c in (None, {0: 9.0})
    )
    np.testing.assert_allclose(heavy.angles_, plain.angles_, atol=1e-12)
    assert heavy.certificate_.containment_gap == pytest.approx(plain.certificate_.containment_gap)
    if subspace == "model":  # on all of F the likelihood moves the functions themselves
        assert heavy.certificate_.supremum == pytest.approx(plain.certificate_.supremum, abs=1e-9)
    assert heavy.at(1.0).certificate_.score < 1e-10


@both_targets
def test_a_heavy_class_is_predicted_more_often(target):
    y = TARGETS[target]
    shares = [np.mean(fitted(y, class_weight={0: w}).predict(X) == 0) for w in (0.1, 1.0, 10.0)]
    assert shares[0] < shares[1] < shares[2]
    rare = np.where(X[:, 0] + X[:, 2] > 2.0, 1, 0)
    free = [fitted(rare, class_weight=c, fairness=0.0) for c in (None, "balanced")]
    assert free[1].predict_proba(new)[:, 1].mean() > free[0].predict_proba(new)[:, 1].mean()


def test_weights_of_one_are_no_weights():
    plain, given = fitted(), fitted(class_weight={0: 1.0, 1: 1.0})
    for est in (given, fitted(class_weight={}), fitted(sample_weight=np.ones(len(X)))):
        np.testing.assert_allclose(est.predict_proba(new), plain.predict_proba(new), atol=1e-10)


# --------------------------------------------------------------------------- the Gaussian likelihood


@both_targets
@both_subspaces
@pytest.mark.parametrize("fairness", [0.0, 0.6, 1.0])
def test_the_gaussian_likelihood_is_the_ridge_classifier(target, subspace, fairness):
    y, params = TARGETS[target], {**FIXED, "subspace": subspace, "fairness": fairness}
    est = FairGPClassifier(likelihood="gaussian", **params).fit(X, y, sensitive_features=s)
    twin = FairRidgeClassifier(**params).fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(est.decision_function(new), twin.decision_function(new), atol=1e-12)
    np.testing.assert_array_equal(est.predict(new), twin.predict(new))
    assert str(est.certificate_) == str(twin.certificate_)


@both_subspaces
@pytest.mark.parametrize("fairness", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gaussian_likelihood_is_the_regression_on_signs(subspace, fairness, alpha, weighted):
    params = {**FIXED, "subspace": subspace, "fairness": fairness, "alpha": alpha}
    given = {"sensitive_features": s, "sample_weight": weights if weighted else None}
    est = FairGPClassifier(likelihood="gaussian", **params, removal="training_rows").fit(
        X, labels, **given
    )
    twin = FairGPRegressor(**params, removal="training_rows").fit(X, 2.0 * labels - 1.0, **given)
    assert est.alpha_ == pytest.approx(twin.alpha_, rel=1e-9)
    mean, std = twin.predict(new, return_std=True)
    np.testing.assert_allclose(est.decision_function(new), mean, atol=1e-9)
    expected = scipy.stats.norm.cdf(mean / std)
    np.testing.assert_allclose(est.predict_proba(new)[:, 1], expected, atol=1e-9)


def test_the_paper_s_classifier():
    params = {"gamma": 0.5, "eta": 1e-3, "method": "paper"}
    est = FairGPClassifier(likelihood="gaussian", **params).fit(X, labels, sensitive_features=s)
    twin = FairRidgeClassifier(**params).fit(X, labels, sensitive_features=s)
    np.testing.assert_allclose(est.decision_function(new), twin.decision_function(new), atol=1e-12)
    p = est.predict_proba(new)
    np.testing.assert_array_equal(p.argmax(axis=1), est.predict(new))
    assert np.isfinite(p).all()
    with pytest.raises(ValueError, match=r"method='paper' .* use likelihood='gaussian'"):
        FairGPClassifier(**params).fit(X, labels, sensitive_features=s)


def test_rows_that_belong_to_no_class_have_probabilities_too():
    """No mean is above zero, and the noise is next to nothing: 0/0, were it not for logarithms."""
    est = fitted(three, likelihood="gaussian", alpha=1e-8, fairness=0.0, removal="training_rows")
    far = np.random.default_rng(0).normal(size=(3000, 3))
    far = far[(est.decision_function(far) < 0.0).all(axis=1)]
    assert len(far) > 3
    p = est.predict_proba(far)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p.argmax(axis=1), est.predict(far))
    assert np.isfinite(p).all()


# --------------------------------------------------------------------------- blocks and workers


CUTS = (0, 30, 31, 55, 80)


def parts(y, w=None):
    for a, b in pairwise(CUTS):
        block = {"X": X[a:b], "y": y[a:b], "sensitive_features": s[a:b]}
        yield block if w is None else {**block, "sample_weight": w[a:b]}


def in_one_block(y=labels, *, rows=X, s=s, sample_weight=None, control_features=None, **params):
    """The model of one block of a stream, which has other folds than ``fit``."""
    given = {"X": rows, "y": y, "sensitive_features": s, "control_features": control_features}
    given["sample_weight"] = sample_weight
    est = FairGPClassifier(**{**FIXED, **params}).prepare(**given)
    return est.partial_fit(**given).fit_head([given])


@both_targets
@both_subspaces
@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_and_a_second_pass_give_the_fit(target, subspace, alpha, weighted):
    y, w = TARGETS[target], weights if weighted else None
    params = {**FIXED, "subspace": subspace, "alpha": alpha}
    whole = in_one_block(y, sample_weight=w, **params)
    est = FairGPClassifier(**params).prepare(X, y, sensitive_features=s, sample_weight=w)
    for block in parts(y, w):
        est.partial_fit(**block, solve=False)
    est.solve().fit_head(list(parts(y, w)))
    assert est.calibration_ == whole.calibration_ == "held-out"
    ours, theirs = (
        e._fit_state.rows.held_out @ e._fit_state.head.functions @ e._fit_state.head.laplace.coef
        for e in (est, whole)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for fairness in (1.0, 0.3):
        one, other = est.at(fairness), whole.at(fairness)
        np.testing.assert_allclose(columns(one, new), columns(other, new), atol=1e-10)
        np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), atol=1e-8)


def test_any_partition_of_the_second_pass_will_do():
    est = in_one_block()
    expected = est.predict_proba(new)
    est.fit_head([(X, labels, s)])
    np.testing.assert_allclose(est.predict_proba(new), expected, atol=1e-8)
    assert est.calibration_ == "held-out"
    est.fit_head(list(zip(np.split(X, 20), np.split(labels, 20), np.split(s, 20), strict=True)))
    np.testing.assert_allclose(est.predict_proba(new), expected, atol=1e-8)


@both_targets
@both_subspaces
def test_merged_workers_give_the_latents_of_the_fit(target, subspace):
    y = TARGETS[target]
    whole = fitted(y, subspace=subspace, removal="training_rows")
    first = FairGPClassifier(**FIXED, subspace=subspace, removal="training_rows").prepare(
        X, y, sensitive_features=s
    )
    second = pickle.loads(pickle.dumps(first))
    blocks = list(parts(y))
    for worker, mine in ((first, blocks[:2]), (second, blocks[2:])):
        for block in mine:
            worker.partial_fit(**block, solve=False)
    first.merge(second).fit_head(blocks)
    np.testing.assert_allclose(columns(first, new), columns(whole, new), atol=1e-9)
    # No row knows which worker's fold it was in.
    assert first.calibration_ == "training"
    p = first.predict_proba(new)
    np.testing.assert_array_equal(first.classes_[p.argmax(axis=1)], first.predict(new))
    assert first.fit(X, y, sensitive_features=s).calibration_ == "held-out"


def test_control_features_and_weights_in_a_second_pass():
    region = np.arange(len(X)) % 2
    criterion = "conditional_statistical_parity"
    given = {"sensitive_features": s, "control_features": region, "sample_weight": weights}
    whole = in_one_block(criterion=criterion, control_features=region, sample_weight=weights)
    est = FairGPClassifier(criterion=criterion, **FIXED).prepare(X, labels, **given)
    given |= {"X": X, "y": labels}
    blocks = [{k: v[a:b] for k, v in given.items()} for a, b in pairwise(CUTS)]
    for block in blocks:
        est.partial_fit(**block, solve=False)
    est.solve().fit_head(blocks)
    np.testing.assert_allclose(est.predict_proba(new), whole.predict_proba(new), atol=1e-8)
    zero = np.where(np.arange(len(X)) < 5, 0.0, 1.0)
    dropped = fitted(sample_weight=zero)
    rest = zero > 0
    some = {"y": labels[rest], "rows": X[rest], "s": s[rest]}
    one, other = in_one_block(sample_weight=zero), in_one_block(**some)
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), atol=1e-8)
    alone = fitted(**some)
    np.testing.assert_allclose(columns(dropped, new), columns(alone, new), atol=1e-8)


METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function"]


@pytest.mark.parametrize("way", ["partial_fit", "merge", "more rows", "solve"])
def test_before_the_second_pass_the_remedy_is_said(way):
    est = FairGPClassifier(**FIXED).prepare(X, labels, sensitive_features=s)
    if way in ("more rows", "solve"):
        est = fitted()
    if way != "solve":
        est.partial_fit(X, labels, sensitive_features=s)
    if way == "merge":
        est.merge(pickle.loads(pickle.dumps(est)))
    if way == "solve":
        est.solve()
    for method in METHODS:
        with pytest.raises(
            NotFittedError, match=r"Call fit_head\(blocks\), or use likelihood='gau"
        ):
            getattr(est, method)(new)
    with pytest.raises(NotFittedError):
        est.at(0.5)
    # Nothing that was said of an earlier likelihood is left.
    assert not hasattr(est, "calibration_")
    assert not hasattr(est, "log_marginal_likelihood_value_")
    twice = 2 if way in ("merge", "more rows") else 1
    est.fit_head([(X, labels, s)] * twice)
    assert len(est.predict(new)) == len(new)


def test_the_gaussian_likelihood_streams_without_a_second_pass():
    est = FairGPClassifier(likelihood="gaussian", **FIXED, removal="training_rows").prepare(
        X, labels, sensitive_features=s
    )
    for block in parts(labels):
        est.partial_fit(**block)
    whole = fitted(likelihood="gaussian", removal="training_rows")
    np.testing.assert_allclose(est.predict_proba(new), whole.predict_proba(new), atol=1e-10)


def test_classes_of_partial_fit():
    est = FairGPClassifier(**FIXED)
    with pytest.warns(DataWarning, match="prepares on its first block"):
        est.partial_fit(X, labels, sensitive_features=s, classes=[0, 1])
    with pytest.raises(ValueError, match="show every class"):
        est.partial_fit(X, labels, sensitive_features=s, classes=[0, 1, 2])


def test_nothing_of_an_earlier_fit_is_left():
    est = fitted(three, subspace="fair")
    est.set_params(likelihood="gaussian", subspace="model").fit(X, labels, sensitive_features=s)
    assert set(vars(est)) == set(vars(fitted(likelihood="gaussian")))
    est.set_params(likelihood="logistic").fit(X, labels, sensitive_features=s)
    assert set(vars(est)) == set(vars(fitted()))


# --------------------------------------------------------------------------- hard cases


def quiet(est, y, s=s, X=X):
    """The fitted model and the messages it warned with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est.fit(X, y, sensitive_features=s)
    assert all(w.filename == __file__ for w in caught)
    return est, [str(w.message) for w in caught]


@both_subspaces
def test_labels_that_are_s(subspace):
    est, messages = quiet(FairGPClassifier(**FIXED, subspace=subspace, removal="training_rows"), s)
    assert len(messages) == 1
    assert "no fair part" in messages[0]
    share = s.mean()
    np.testing.assert_allclose(est.decision_function(new), np.log(share / (1.0 - share)), atol=1e-9)
    p = est.predict_proba(new)
    assert np.isfinite(p).all()
    if subspace == "model":
        np.testing.assert_allclose(p[:, 1], share, atol=0.01)
    # The evidence of a model of intercepts alone, on the line as on the model space.
    value = len(s) * (share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    value += 0.5 * np.log(2.0 * np.pi / (len(s) * share * (1.0 - share)))
    assert est.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-6)
    for fairness in (0.0, 0.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            other = est.at(fairness)
        assert np.isfinite(other.predict_proba(new)).all()
        assert np.isfinite(other.log_marginal_likelihood_value_)
    assert np.corrcoef(est.at(0.0).decision_function(X), s)[0, 1] > 0.5


@both_likelihoods
@both_subspaces
def test_a_direction_that_fairness_removes(likelihood, subspace):
    """One of two directions is S itself: the other goes on."""
    y = np.where(s == 1, "b", np.where(X[:, 2] > 0, "a", "c"))
    est, messages = quiet(
        FairGPClassifier(
            **FIXED, likelihood=likelihood, subspace=subspace, removal="training_rows"
        ),
        y,
    )
    assert any("1 of 2 predictive directions have no fair part" in m for m in messages)
    f = est.decision_function(X)
    for k in range(3):
        assert np.ptp(f[:, k]) < 1e-8 or abs(np.corrcoef(f[:, k], s)[0, 1]) < 1e-9
    # Which of the two others it is can be told as before.
    others = s == 0
    assert ((f[:, 0] > f[:, 2]) == (y == "a"))[others].mean() > 0.85
    p = est.predict_proba(new)
    assert np.isfinite(p).all()
    np.testing.assert_array_equal(est.classes_[p.argmax(axis=1)], est.predict(new))
    if likelihood == "logistic":
        # At the fair end the two model spaces are one, and so is the evidence.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            model = fitted(y, curvature="constant", removal="training_rows")
        assert est.log_marginal_likelihood_value_ == pytest.approx(
            model.log_marginal_likelihood_value_, abs=1e-5
        )
        np.testing.assert_allclose(f, model.decision_function(X), atol=1e-8)


@both_likelihoods
@both_subspaces
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-10])
@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("removal", ["auto", "training_rows"])
def test_separated_classes_stay_finite(likelihood, subspace, n_classes, alpha, calibrate, removal):
    y = np.digitize(X[:, 0] + X[:, 2], [0.0] if n_classes == 2 else [-0.5, 0.8])
    params = {
        **FIXED,
        "likelihood": likelihood,
        "subspace": subspace,
        "alpha": alpha,
        "removal": removal,
    }
    est, messages = quiet(FairGPClassifier(**params, calibrate=calibrate, fairness=0.0), y)
    assert all("all but separated" in m for m in messages)
    for rows in (X, new, 100.0 * new):
        p = est.predict_proba(rows)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.isfinite(est.decision_function(rows)).all()
        assert not np.isnan(est.predict_log_proba(rows)).any()
    if likelihood == "logistic" and (subspace, removal) != ("model", "auto"):
        assert np.isfinite(est.log_marginal_likelihood_value_)
    if alpha < 1.0 and (subspace, removal) != ("model", "auto"):
        assert est.score(X, y) == 1.0


@both_likelihoods
def test_a_class_whose_rows_weigh_nothing_is_no_class(likelihood):
    w = np.where(three == 1, 0.0, 1.0)
    est = fitted(three, sample_weight=w, likelihood=likelihood)
    assert est.classes_.tolist() == [0, 2]
    some = three != 1
    alone = fitted(three[some], rows=X[some], s=s[some], likelihood=likelihood)
    np.testing.assert_allclose(columns(est, new), columns(alone, new), atol=1e-8)


def test_a_rare_class():
    """Fewer rows than folds: held-out functions are learnt without it."""
    y = labels.copy()
    y[:3] = 2
    est, _ = quiet(FairGPClassifier(**FIXED), y)
    p = est.predict_proba(new)
    assert np.isfinite(p).all()
    assert p.shape == (len(new), 3)
    assert p[:, 2].mean() < 0.15


# --------------------------------------------------------------------------- errors


BAD = [
    ({"likelihood": "probit"}, ("likelihood='probit'", "'logistic' or 'gaussian'")),
    ({"likelihood": None}, ("likelihood=None", "'logistic' or 'gaussian'")),
    ({"calibrate": "yes"}, ("calibrate='yes'", "True or False")),
    ({"calibrate": 1}, ("calibrate=1", "True or False")),
    ({"class_weight": "auto"}, ("class_weight='auto'", "a dict, 'balanced' or None")),
    ({"class_weight": 2.0}, ("class_weight=2.0", "a dict, 'balanced' or None")),
    ({"class_weight": [1, 2]}, ("class_weight=[1, 2]", "a dict, 'balanced' or None")),
    ({"class_weight": np.ones(2)}, ("class_weight=array", "a dict, 'balanced' or None")),
    ({"class_weight": {7: 1.0}}, ("class_weight names 7", "no class", "[0, 1]")),
    ({"class_weight": {"0": 1.0}}, ("class_weight names '0'", "no class")),
    ({"class_weight": {0: -1.0}}, ("class_weight[0]=-1.0", "0 or more")),
    ({"class_weight": {0: np.nan}}, ("class_weight[0]=nan", "0 or more")),
    ({"class_weight": {0: np.inf}}, ("class_weight[0]=inf", "0 or more")),
    ({"class_weight": {0: "much"}}, ("class_weight[0]='much'", "0 or more")),
    ({"class_weight": {0: None}}, ("class_weight[0]=None", "0 or more")),
    ({"class_weight": {1: 0.0}}, ("No row of class 1 has weight",)),
    (
        {"class_weight": "balanced", "likelihood": "gaussian"},
        ("class_weight is for likelihood='logistic'", "sample_weight"),
    ),
    ({"method": "paper", "alpha": "auto"}, ("method='paper'", "likelihood='gaussian'")),
    (
        {"method": "paper", "alpha": "auto", "likelihood": "gaussian", "subspace": "fair"},
        ("method='paper'", "subspace='model'"),
    ),
    ({"n_predictive_directions": 2}, ("n_predictive_directions=2", "2 classes have 1 directions")),
]


def refused(est, says, call, error=ValueError):
    before = state(est)
    with pytest.raises(error) as caught:
        call(est)
    for word in says:
        assert word in str(caught.value)
    assert state(est) == before


@pytest.mark.parametrize(("params", "says"), BAD)
def test_bad_parameters(params, says):
    def fit(est):
        est.fit(X, labels, sensitive_features=s)

    refused(FairGPClassifier(**{**FIXED, **params}), says, fit)
    refused(fitted().set_params(**params), says, fit)


def block_of(**changes):
    return {"X": X, "y": labels, "sensitive_features": s, **changes}


BAD_BLOCKS = {
    "nothing": ([], ("given no rows",)),
    "a pair": ([(X, labels)], ("(X, y, sensitive_features)", "a dict")),
    "an array": ([X], ("(X, y, sensitive_features)", "a dict")),
    "another key": ([block_of(rows=s)], ("'rows'", "sensitive_features, control_features")),
    "no y": ([block_of(y=None)], ("requires y to be passed",)),
    "no S": ([block_of(sensitive_features=None)], ("`sensitive_features` was not given",)),
    "too few columns": ([block_of(X=X[:, :2])], ("2 features", "3 features")),
    "lengths": ([block_of(y=labels[:-1])], ("inconsistent numbers of samples",)),
    "one class": ([(X[labels == 1], labels[labels == 1], s[labels == 1])], ("No row of class 0",)),
    "no weight": ([block_of(sample_weight=np.zeros(len(X)))], ()),
}


@pytest.mark.filterwarnings("ignore:fit_head was given")
@pytest.mark.parametrize("kind", BAD_BLOCKS)
def test_bad_blocks_of_a_second_pass(kind):
    blocks, says = BAD_BLOCKS[kind]
    refused(fitted(), says, lambda est: est.fit_head(blocks))


def test_a_second_pass_before_the_first():
    says = ("fit_head comes after partial_fit, merge or solve",)
    blocks = [(X, labels, s)]
    refused(FairGPClassifier(**FIXED), says, lambda est: est.fit_head(blocks), NotFittedError)
    est = FairGPClassifier(**FIXED).prepare(X, labels, sensitive_features=s)
    refused(est, says, lambda est: est.fit_head(blocks), NotFittedError)
    says = ("fitted from moments alone",)
    refused(fitted(likelihood="gaussian"), says, lambda est: est.fit_head(blocks))


def test_softmax_of_the_latents_is_near_the_probabilities():
    """A guard on units: the link and the variance move probabilities, not their meaning."""
    est = fitted(three, calibrate=False, removal="training_rows")
    gap = np.abs(softmax(est.decision_function(new)) - est.predict_proba(new)).max()
    assert 0.0 < gap < 0.2


# ------------------------------------------------------------------ rows of another pass


def streamed(alpha=1.0):
    est = FairGPClassifier(**{**FIXED, "alpha": alpha})
    est.prepare(X, labels, sensitive_features=s)
    return est.partial_fit(X, labels, sensitive_features=s)


@pytest.mark.parametrize("wrong", ["half", "shuffled", "other labels"])
def test_rows_of_another_pass_are_not_taken_for_held_out(wrong):
    order = np.random.default_rng(0).permutation(len(X))
    rows, y = order, labels[order]
    if wrong == "half":
        rows, y = np.arange(len(X) // 2), labels[: len(X) // 2]
    elif wrong == "other labels":
        rows, y = np.arange(len(X)), labels[::-1]
    est = streamed()
    with pytest.warns(DataWarning, match="not those of partial_fit, or in another order"):
        est.fit_head([(X[rows], y, s[rows])])
    assert est.calibration_ == "training"


def test_the_same_rows_in_other_blocks_are_held_out():
    est = streamed()
    est.fit_head([(X[:33], labels[:33], s[:33]), (X[33:], labels[33:], s[33:])])
    assert est.calibration_ == "held-out"


def test_the_dial_is_alive_where_a_direction_has_no_fair_part():
    """A class that is a group: its direction is held back more and more, not all or nothing."""
    y = np.where(s == 1, 2, (X[:, 2] > 0.0).astype(int))
    est = fitted(y, subspace="fair", fairness=0.0, calibrate=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = [est.at(f).certificate_.score for f in (0.0, 0.3, 0.6, 0.9, 0.99, 1.0)]
    assert np.all(np.diff(left) <= 1e-3)  # of a likelihood, not of least squares
    assert left[-1] < 1e-9
    assert 0.3 * left[0] < left[-2] < 0.95 * left[0]


def test_weighted_rows_are_left_out_with_their_weight():
    """``v / (1 - w v)``: the variance of a row of weight w without that row."""
    heavy = np.where(np.arange(len(X)) == 7, 5.0, 1.0)
    est = fitted(subspace="fair", fairness=0.0, sample_weight=heavy)
    psi = est._coordinates(X)
    M = (psi.T * heavy) @ psi + est.alpha_ * np.eye(psi.shape[1])
    row = psi[7]
    left_out = row @ np.linalg.solve(M - 5.0 * np.outer(row, row), row)
    v = est._spread(est._fit_state, est._fit_state.rows.lengths)[7]
    assert v / (1.0 - 5.0 * v) == pytest.approx(left_out, rel=1e-6)


@both_subspaces
def test_only_the_ratios_of_class_weights_count(subspace):
    plain, heavy = (fitted(subspace=subspace, class_weight=c) for c in (None, {0: 50.0, 1: 50.0}))
    np.testing.assert_allclose(heavy.predict_proba(new), plain.predict_proba(new), atol=1e-9)


def many_classes(n_classes, n=200):
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, n), np.arange(n) % n_classes
    X = rng.normal(size=(n, 4)) + rng.normal(size=(n_classes, 4))[y]
    return {"X": X, "y": y, "sensitive_features": s}


@pytest.mark.parametrize(
    "params",
    [{"likelihood": "gaussian"}, {"n_predictive_directions": 3}, {"kernel": "linear"}],
    ids=["gaussian", "few directions", "few coordinates"],
)
@pytest.mark.filterwarnings("ignore:1 of 4 predictive directions")
def test_many_classes_are_taken_where_the_approximation_is_small(params):
    rows = many_classes(100)
    est = FairGPClassifier(eta=1e-3, alpha=1.0, random_state=0, **params).fit(**rows)
    assert est.predict_proba(rows["X"]).shape == (200, 100)


def test_the_limit_holds_for_the_functions_that_are_used(monkeypatch):
    monkeypatch.setattr("fairspan.estimators.gp_classifier._MOST_COEFFICIENTS", 7)
    rows = many_classes(3)
    est = FairGPClassifier(subspace="fair", eta=1e-3, alpha=1.0, gamma=0.1).fit(**rows)
    with pytest.raises(ValueError, match=r"3 classes with 3 functions.*or subspace='model'"):
        est.at(0.5)  # one function more than at fairness 1
    chosen = FairGPClassifier(n_predictive_directions="test", gamma=0.1, random_state=0)
    monkeypatch.setattr("fairspan.estimators.gp_classifier._MOST_COEFFICIENTS", 1)
    with pytest.raises(ValueError, match="n_predictive_directions=1 or fewer"):
        chosen.fit(**rows)


def test_many_classes_have_one_slope_and_nearly_the_same_decisions(monkeypatch):
    """On new rows, the regression on all functions is replaced where it would be large."""
    rng = np.random.default_rng(3)
    s = rng.integers(0, 2, 900)
    X = rng.normal(size=(900, 3)) + 0.5 * s[:, None]
    y = np.digitize(X.sum(axis=1) + rng.normal(size=900), [-0.5, 1.5])
    params = {"gamma": 0.1, "alpha": 1.0, "n_components": 80, "removal": "new_rows"}
    whole = FairGPClassifier(**params).fit(X, y, sensitive_features=s)
    monkeypatch.setattr(likelihood_ends, "_MOST_COEFFICIENTS", 0)
    short = FairGPClassifier(**params).fit(X, y, sensitive_features=s)
    for fairness in (0.0, 1.0):
        one, other = whole.at(fairness), short.at(fairness)
        np.testing.assert_allclose(other.predict_proba(X).sum(axis=1), 1.0)
        assert np.mean(one.predict(X) == other.predict(X)) > 0.9
        assert abs(one.score(X, y) - other.score(X, y)) < 0.03
