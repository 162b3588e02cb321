"""The geometry of the likelihood, against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan import FairGPClassifier
from fairspan.method.laplace import row_curvature
from tests.support.small import FIXED, table

X, labels, s = table()
new = np.random.default_rng(1).normal(size=(15, 3))
three = np.digitize(X[:, 0] + X[:, 2] + np.random.default_rng(3).normal(size=len(X)), [-0.3, 1.0])
weights = np.random.default_rng(4).exponential(size=len(X)) + 0.2


def fitted(y=labels, *, s=s, sample_weight=None, **params):
    est = FairGPClassifier(**{**FIXED, **params})
    return est.fit(X, y, sensitive_features=s, sample_weight=sample_weight)


def dense(est, y, w, covectors):
    """Spans of the unconstrained functions and of their nearest fair ones, at the rows of X."""
    psi = est._coordinates(X)
    w = w / w.sum()
    onehot = (y[:, None] == np.unique(y)).astype(float)
    shares = w @ onehot
    cov = psi.T @ (psi * w[:, None])
    eye = np.eye(len(cov)) * est._solution.eta_y
    g = np.linalg.solve(cov + eye, psi.T @ (w[:, None] * (onehot - shares)))
    p = shares + psi @ g
    v = w * np.maximum(1.0 - (p**2).sum(axis=1), 2 * 0.05 * 0.95)
    v /= v.sum()
    centred = psi - v @ psi
    R = centred.T @ (centred * v[:, None]) + eye
    N = psi.T @ covectors
    across = np.linalg.solve(R, N)
    return psi @ g, psi @ (g - across @ np.linalg.lstsq(N.T @ across, N.T @ g, rcond=None)[0])


def same_span(a, b):
    """No column of one is outside the span of the other."""
    for one, other in ((a, b), (b, a)):
        rest = one - other @ np.linalg.lstsq(other, one, rcond=1e-9)[0]
        np.testing.assert_allclose(rest, 0.0, atol=1e-7 * np.abs(one).max())


def codes_of_cells(y, w, criterion):
    """Covectors of S in each cell: rows times these are the covariances, up to a scale."""
    cells = [np.ones(len(y), bool)] if criterion == "sp" else [y == k for k in np.unique(y)]
    return np.stack([c * w * (s - np.average(s[c], weights=w[c])) for c in cells], axis=1)


@pytest.mark.parametrize("criterion", ["sp", "eo"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("y", [labels, three], ids=["two", "three"])
def test_the_fair_functions_are_the_nearest_in_the_likelihoods_measure(y, weighted, criterion):
    w = weights if weighted else np.ones(len(X))
    est = fitted(
        y, sample_weight=w if weighted else None, criterion=criterion, removal="training_rows"
    )
    assert est.curvature_ == "likelihood"
    plain, fair = dense(est, y, w, codes_of_cells(y, w, criterion))
    same_span(est.at(0.0)._scores(X), plain[:, 1:])
    same_span(est.at(1.0)._scores(X), fair[:, 1:])


@pytest.mark.parametrize("y", [labels, three], ids=["two", "three"])
def test_both_measures_agree_where_they_must(y):
    """Unconstrained they are one model, at the fair end both are free of S, and they differ."""
    bent, flat = (
        fitted(y, removal="training_rows"),
        fitted(y, curvature="constant", removal="training_rows"),
    )
    assert flat.curvature_ == "constant"
    np.testing.assert_allclose(
        bent.at(0.0).decision_function(new), flat.at(0.0).decision_function(new), atol=1e-6
    )
    for est in (bent, flat):
        f = est.decision_function(X).reshape(len(X), -1)
        assert np.abs((f - f.mean(axis=0)).T @ (s - s.mean())).max() < 1e-8 * np.abs(f).sum()
        assert est.certificate_.supremum < 1e-9
    apart = np.abs(bent.decision_function(new) - flat.decision_function(new)).max()
    assert apart > 1e-3


@pytest.mark.parametrize(
    "params", [{"likelihood": "gaussian"}, {"method": "rkhs"}, {"subspace": "fair"}]
)
def test_it_is_constant_where_the_likelihood_has_no_say(params):
    est, flat = fitted(**params), fitted(**params, curvature="constant")
    assert est.curvature_ == "constant"
    np.testing.assert_allclose(est.decision_function(new), flat.decision_function(new), atol=1e-12)


def test_a_copy_is_a_weight_of_two():
    twice = np.ones(len(X))
    twice[:20] = 2.0
    rows = np.r_[np.arange(len(X)), np.arange(20)]
    params = {**FIXED, "landmarks": X, "n_components": "auto", "alpha": 1.0, "calibrate": False}
    by_weight = FairGPClassifier(**params, removal="training_rows").fit(
        X, labels, sensitive_features=s, sample_weight=twice
    )
    by_copies = FairGPClassifier(**params, removal="training_rows").fit(
        X[rows], labels[rows], sensitive_features=s[rows]
    )
    np.testing.assert_allclose(
        by_weight.decision_function(new), by_copies.decision_function(new), atol=1e-6
    )


def test_an_iterator_cannot_be_read_twice():
    est = fitted(removal="training_rows")
    before = est.decision_function(new)
    with pytest.raises(ValueError, match=r"reads the blocks more than once.*Pass a list"):
        est.fit_head(iter([(X, labels, s)]))
    np.testing.assert_array_equal(est.decision_function(new), before)
    flat = fitted(curvature="constant", removal="training_rows")
    flat.fit_head(iter([(X, labels, s)]))
    np.testing.assert_allclose(
        flat.decision_function(new),
        fitted(curvature="constant", removal="training_rows").decision_function(new),
        atol=1e-8,
    )


def test_the_second_pass_publishes_the_new_geometry():
    est = FairGPClassifier(**FIXED, removal="training_rows").prepare(
        X, labels, sensitive_features=s
    )
    est.partial_fit(X, labels, sensitive_features=s)
    assert est.curvature_ == "constant"  # moments alone
    est.fit_head([(X[:30], labels[:30], s[:30]), (X[30:], labels[30:], s[30:])])
    whole = fitted(removal="training_rows")
    assert est.curvature_ == "likelihood"
    np.testing.assert_allclose(est.angles_, whole.angles_, rtol=1e-9)


def test_an_unknown_measure_is_refused():
    with pytest.raises(
        ValueError, match="curvature='flat' is not allowed; give one of 'auto', 'likelihood'"
    ):
        fitted(curvature="flat")


def test_curvature_of_rows():
    p = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0], [1.2, -0.2]])
    np.testing.assert_allclose(row_curvature(p), [0.5, 0.18, 0.095, 0.095])
    np.testing.assert_allclose(row_curvature(np.full((1, 4), 0.25)), 0.75)


# ------------------------------------------------------------------ removal on new rows


def people(n=400, classes=2, seed=5):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * (group == 1)
    X[:, 1] += 1.5 * (group == 2)
    latent = X.sum(axis=1) + rng.normal(size=n)
    y = np.digitize(latent, np.quantile(latent, np.arange(1, classes) / classes))
    return X, y, np.array(["a", "b", "c"])[group], rng.uniform(0.3, 2.0, n)


def cross_fitted(X, y, s, w, **params):
    options = {"gamma": 0.2, "n_components": 25, "random_state": 0, "curvature": "likelihood"}
    est = FairGPClassifier(**{**options, **params})
    return est.fit(X, y, sensitive_features=s, sample_weight=w)


CASES = [("statistical_parity", 2), ("equalized_odds", 2), ("statistical_parity", 3)]


@pytest.mark.parametrize(("criterion", "classes"), CASES)
def test_each_fold_has_the_metric_of_the_rows_outside_it(criterion, classes):
    """Expected covariances are 0 out of fold, by the definition on rows."""
    X, y, s, w = people(classes=classes)
    options = {
        "criterion": criterion,
        "n_sensitive_directions": "all",
    }  # also what X hardly predicts
    est = cross_fitted(X, y, s, w, **options)
    assert est.curvature_ == "likelihood"
    fit, pilot, eta_y = est._solution.new_rows, est.pilot_, est._solution.eta_y
    data = est._read(X, y, s, None, w, reset=False)
    encoded = pilot.encode(data)
    folds = pilot.folds(data, encoded, pilot.counter())
    psi, onehot = pilot.features.coordinates(X), np.eye(classes)[y]
    blocks = [block for block in fit.blocks if block.codes.report.constrained]
    n, L, scores = len(y), fit.n_functions, {}
    A, b = np.zeros((n, L)), np.zeros((n, sum(block.codes.rank for block in blocks)))
    codes = np.zeros_like(b)
    for fold in range(fit.n_folds):
        train, test = folds != fold, folds == fold
        share = w[train] / w[train].sum()
        centred = psi[train] - share @ psi[train]
        eye = np.eye(psi.shape[1])
        cov = centred.T @ (centred * share[:, None])
        level = share @ onehot[train]
        g = np.linalg.solve(
            cov + eta_y * eye, (centred * share[:, None]).T @ (onehot[train] - level)
        )
        v = share * row_curvature(level + centred @ g)
        v /= v.sum()
        off = psi[train] - v @ psi[train]
        weighted = off.T @ (off * v[:, None])
        here = psi[test] - np.average(psi[test], axis=0, weights=w[test])
        A[test] = here @ g @ fit.contrasts
        at = 0
        for block in blocks:
            inside = np.ones(n, dtype=bool)
            if block.codes.cell is not None:
                inside = encoded.cells == block.codes.cell
            c = block.codes.of_rows(encoded.levels, encoded.values, inside)
            part = slice(at, at + block.codes.rank)
            at = part.stop
            in_train = inside[train]
            own = np.zeros((train.sum(), c.shape[1]))
            own[in_train] = c[train][in_train] - np.average(
                c[train][in_train], axis=0, weights=w[train][in_train]
            )
            N = (centred * share[:, None]).T @ own
            b[test, part] = here @ np.linalg.solve(weighted + block.eta * eye, N)
            rows = np.flatnonzero(test & inside)
            codes[rows, part] = c[rows] - np.average(c[rows], axis=0, weights=w[rows])
        scores[fold] = here @ fit.fold_bases[fold]
    basis = np.concatenate([scores[fold] for fold in range(fit.n_folds)])
    order = np.concatenate([np.flatnonzero(folds == fold) for fold in range(fit.n_folds)])
    np.testing.assert_allclose(basis[:, :L], A[order], atol=1e-9)
    # u is a combination of the predictions b of the folds, and A - u has no covariance with the codes.
    u, weight = basis[:, L : 2 * L], w[order] / w.sum()
    mix = np.linalg.lstsq(b[order], u, rcond=1e-12)[0]
    np.testing.assert_allclose(b[order] @ mix, u, atol=1e-8 * np.abs(u).max())
    assert all(d.weight == 1.0 for block in blocks for d in block.directions)
    left = (codes[order] * weight[:, None]).T @ (A[order] - u)
    before = (codes[order] * weight[:, None]).T @ A[order]
    assert np.abs(left).max() < 1e-10 < 1e-3 < np.abs(before).max()
    share = est.certificate_.new_rows
    assert share.correlation < 1e-9
    assert all(block.high > 0.0 for block in share.blocks)
    plain = cross_fitted(X, y, s, w, **options, curvature="constant")
    assert np.abs(plain.decision_function(new) - est.decision_function(new)).max() > 1e-3


def test_the_default_is_constant_on_new_rows():
    X, y, s, w = people()
    flat, default = (cross_fitted(X, y, s, w, curvature=c) for c in ("constant", "auto"))
    assert default.curvature_ == "constant"
    np.testing.assert_array_equal(flat.decision_function(new), default.decision_function(new))
    assert fitted(removal="training_rows").curvature_ == "likelihood"


def test_decisions_do_not_depend_on_the_metric():
    X, y, s, w = people()
    bent, flat = (cross_fitted(X, y, s, w, curvature=c) for c in ("likelihood", "constant"))
    rules = cross_fitted(X, y, s, w, equalize="decisions")
    for one in (bent.at(equalize="decisions"), rules):
        np.testing.assert_allclose(
            one.decision_function(new),
            flat.at(equalize="decisions").decision_function(new),
            atol=1e-12,
        )
    np.testing.assert_allclose(
        rules.at(equalize="scores").decision_function(new), bent.decision_function(new), atol=1e-12
    )


@pytest.mark.parametrize("folds", ["position", "hash"])
def test_streams_have_the_metric_of_rows_in_memory(folds):
    X, y, s, _ = people(300)
    params = {"gamma": 0.2, "n_components": 25, "random_state": 0, "curvature": "likelihood"}
    whole = FairGPClassifier(**params).prepare(X, y, sensitive_features=s, folds=folds)
    whole.partial_fit(X, y, sensitive_features=s).fit_head([(X, y, s)])
    assert whole.curvature_ == "likelihood"
    parts = FairGPClassifier(**params).prepare(X, y, sensitive_features=s, folds=folds)
    order = np.arange(300) if folds == "position" else np.random.default_rng(1).permutation(300)
    blocks = [(X[i], y[i], s[i]) for i in np.array_split(order, 3)]
    for x_, y_, s_ in blocks:
        parts.partial_fit(x_, y_, sensitive_features=s_, solve=False)
    parts.solve().fit_head(blocks)
    np.testing.assert_allclose(
        parts.decision_function(new), whole.decision_function(new), atol=1e-8
    )
    if folds == "position":
        streamed = FairGPClassifier(**params).fit_stream(blocks)
        np.testing.assert_allclose(
            streamed.decision_function(new), whole.decision_function(new), atol=1e-8
        )
        with pytest.raises(ValueError, match="not known which functions did not see a row"):
            whole.fit_head([(X[::-1], y[::-1], s[::-1])])
