"""Neither the order of the rows nor the names of groups change a model, whatever is chosen automatically."""

import numpy as np
import pytest

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)

N = 300
TOL = 1e-8


def people(n, seed, *, copies=False):
    """Rows of which two features predict S but not y, so that much of y can be predicted without S."""
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s[:, None]
    y = X[:, :3].sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    return (np.clip(np.round(X), -1.0, 1.0) if copies else X), y, s


def outputs(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return np.abs(model.transform(X)) if hasattr(model, "transform") else model.predict(X)


def two(y):
    return np.where(y > np.median(y), "yes", "no")


def three(y):
    return np.digitize(y, np.quantile(y, [0.3, 0.6]))


ESTIMATORS = {
    "ridge": (FairRidge, np.asarray),
    "representation": (FairRepresentation, np.asarray),
    "process": (FairGPRegressor, np.asarray),
    "classes": (FairRidgeClassifier, two),
    "three classes": (FairRidgeClassifier, three),
    "labels": (FairGPClassifier, two),
}
OPTIONS = {
    "defaults": {},
    "training rows": {"removal": "training_rows"},
    "landmarks": {"n_components": 60},
    "pivots": {"n_components": 60, "landmarks": "rpcholesky"},
    "validated width": {"gamma": "cv"},
}


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_shuffled_rows_and_renamed_groups_give_the_same_model(name, option, copies):
    if copies and option == "pivots":
        pytest.skip("rounding decides between pivots that are equally far from the others")
    check_shuffles(name, option, copies, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "classes"])
def test_many_shuffles_give_the_same_model(name):
    check_shuffles(name, "defaults", False, range(2, 20))


def check_shuffles(name, option, copies, seeds):
    kind, target = ESTIMATORS[name]
    X, y, s = people(N, 0, copies=copies)
    y, fresh = target(y), people(400, 1, copies=copies)[0]
    weights = np.random.default_rng(2).integers(1, 4, N) / 2.0
    names = np.array(["first", "second"])
    expected = outputs(
        kind(**OPTIONS[option]).fit(X, y, sensitive_features=names[s], sample_weight=weights), fresh
    )
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(N)
        other = names[::-1] if seed % 2 else names
        model = kind(**OPTIONS[option]).fit(
            X[order],
            y[order],
            sensitive_features=other[s[order]],
            sample_weight=weights[order],
        )
        np.testing.assert_allclose(outputs(model, fresh), expected, atol=TOL)


def test_six_groups_may_be_renamed():
    X, y, _ = people(900, 3)
    s = np.random.default_rng(4).choice(6, 900, p=[0.4, 0.3, 0.12, 0.08, 0.06, 0.04])
    X[:, 0] += 0.4 * s
    fresh = people(400, 1)[0]
    expected = FairRidge().fit(X, y, sensitive_features=s.astype(str)).predict(fresh)
    for seed in range(5):
        names = np.random.default_rng(seed).permutation(list("uvwxyz"))
        found = FairRidge().fit(X, y, sensitive_features=names[s]).predict(fresh)
        np.testing.assert_allclose(found, expected, atol=TOL)


def test_shuffling_the_rows_of_a_precomputed_kernel_shuffles_its_columns():
    X, y, s = people(N, 5)
    gram = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    expected = FairRidge(kernel="precomputed").fit(gram, y, sensitive_features=s).predict(gram)
    order = np.random.default_rng(6).permutation(N)
    model = FairRidge(kernel="precomputed").fit(
        gram[np.ix_(order, order)], y[order], sensitive_features=s[order]
    )
    np.testing.assert_allclose(model.predict(gram[:, order]), expected, atol=TOL)


def test_blocks_in_any_order_give_the_model_of_one_block_with_folds_by_hash():
    X, y, s = people(N, 7)
    fresh = people(400, 1)[0]
    whole = FairRidge().prepare(X, y, sensitive_features=s, folds="hash")
    whole.partial_fit(X, y, sensitive_features=s)
    order = np.random.default_rng(8).permutation(N)
    parts = FairRidge().prepare(X, y, sensitive_features=s, folds="hash")
    for rows in np.array_split(order, 4):
        parts.partial_fit(X[rows], y[rows], sensitive_features=s[rows])
    np.testing.assert_allclose(parts.predict(fresh), whole.predict(fresh), atol=TOL)


def test_folds_by_hash_warn_of_copies():
    X, y, s = people(N, 9, copies=True)
    with pytest.warns(UserWarning, match="copies of a row share a fold"):
        FairRidgeClassifier().prepare(X[:, :2], two(y), sensitive_features=s, folds="hash")


# ------------------------------------------------------------------ rows that belong together


def visits(n_people, seed, each=5):
    """Rows of people who share s and half of the noise of their features."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), each)
    s = (rng.random(n_people) < 0.4).astype(int)[person]
    shared = rng.normal(size=(n_people, 3))[person]
    X = np.sqrt(0.5) * (shared + rng.normal(size=(len(s), 3)))
    X[:, 0] += s
    return X, X.sum(axis=1) + rng.normal(size=len(s)), s, person


def test_groups_are_never_divided_and_their_names_do_not_matter():
    X, y, s, person = visits(80, 0)
    model = FairRidge().fit(X, y, sensitive_features=s, groups=person)
    pilot = model.pilot_
    data = model._read(X, y, s, None, None, reset=False, groups=person)
    folds = pilot.folds(data, pilot.encode(data), pilot.counter())
    assert all(len(np.unique(folds[person == k])) == 1 for k in range(80))
    assert len(np.unique(folds)) == 5
    order = np.random.default_rng(1).permutation(len(y))
    names = np.array([f"p{7919 * k % 1009}" for k in person])
    other = FairRidge().fit(X[order], y[order], sensitive_features=s[order], groups=names[order])
    np.testing.assert_allclose(other.predict(X), model.predict(X), atol=TOL)


def test_groups_of_one_row_are_rows():
    X, y, s = people(N, 11)
    groups = np.arange(N)
    for block in (
        FairRidge().fit(X, y, sensitive_features=s, groups=groups).certificate_.new_rows.blocks
    ):
        assert block.n_effective == pytest.approx(N)


def test_standard_errors_count_groups():
    """Rows of a person are copies, so the error with groups is that of one row per person."""
    X, y, s, _ = visits(N, 12, each=1)
    once = FairRidge(removal="new_rows", kernel="linear", alpha=0.1).fit(X, y, sensitive_features=s)
    twice = FairRidge(removal="new_rows", kernel="linear", alpha=0.1)
    two_each = np.repeat(np.arange(N), 2)
    twice.fit(X[two_each], y[two_each], sensitive_features=s[two_each], groups=two_each)
    (a,), (b,) = once.certificate_.new_rows.blocks, twice.certificate_.new_rows.blocks
    assert b.n_effective == pytest.approx(a.n_effective)
    assert b.standard_error == pytest.approx(a.standard_error, rel=0.15)  # other folds
    ignored = FairRidge(removal="new_rows", kernel="linear", alpha=0.1)
    ignored.fit(X[two_each], y[two_each], sensitive_features=s[two_each])
    (c,) = ignored.certificate_.new_rows.blocks
    assert c.standard_error < 0.85 * b.standard_error


def test_a_stream_keeps_groups_together():
    X, y, s, person = visits(80, 2)
    model = FairRidge()
    with pytest.raises(ValueError, match="folds='strata' would divide a group"):
        model.prepare(X, y, sensitive_features=s, groups=person)
    whole = model.prepare(X, y, sensitive_features=s, groups=person, folds="hash")
    whole.partial_fit(X, y, sensitive_features=s, groups=person)
    order = np.random.default_rng(3).permutation(len(y))
    parts = FairRidge().prepare(X, y, sensitive_features=s, groups=person, folds="hash")
    for rows in np.array_split(order, 3):
        parts.partial_fit(X[rows], y[rows], sensitive_features=s[rows], groups=person[rows])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=TOL)


def test_groups_may_be_a_column_of_x():
    pd = pytest.importorskip("pandas")
    X, y, s, person = visits(60, 4)
    frame = pd.DataFrame(X, columns=list("abc")).assign(s=s, person=person)
    named = FairRidge().fit(frame, y, sensitive_features="s", groups="person")
    apart = FairRidge().fit(frame[list("abc")], y, sensitive_features=s, groups=person)
    np.testing.assert_allclose(named.predict(frame), apart.predict(frame[list("abc")]))
    missing = pd.Series(person, dtype="float").where(person > 0)
    with pytest.raises(ValueError, match="groups is missing in 5 rows"):
        FairRidge().fit(X, y, sensitive_features=s, groups=missing)
    with pytest.raises(ValueError, match="groups has 2 columns"):
        FairRidge().fit(X, y, sensitive_features=s, groups=frame[["a", "person"]])
