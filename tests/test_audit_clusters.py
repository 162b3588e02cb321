"""Audits of rows that belong together: every resample, fold and standard error is of whole clusters."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from fairspan import FairRidge, FairRidgeClassifier, audit
from fairspan.auditing import held_out_bound
from fairspan.auditing.cross_fit import deal
from fairspan.auditing.parts import _thin_by_weight
from fairspan.auditing.proxy import _halves
from fairspan.auditing.reading import Protected
from fairspan.auditing.scores import _some_rows
from fairspan.metrics.groups import clusters_of
from tests.support.expected import expected_warnings

SEEDS = st.integers(0, 2**32 - 1)
QUICK = {"n_boot": 20, "n_permutations": 19, "n_folds": 2, "attackers": ["linear", "boosted"]}
NUMBERS = ("value", "low", "high", "p_value")


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    age = rng.normal(size=n)
    X = rng.normal(size=(n, 3)) + 0.5 * s[:, None]
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.7).astype(int)
    return X, y, {"s": s, "age": age}, rng.uniform(0.5, 2.0, n)


def households(n, seed=1, most=4):
    return np.random.default_rng(seed).integers(0, max(n // most, 2), n)


def numbers(result, *sections):
    return {
        (f.section, f.metric, f.attribute, f.group, f.where): tuple(getattr(f, k) for k in NUMBERS)
        for f in result.findings
        if not sections or f.section in sections
    }


def assert_same(a, b, **tolerance):
    assert set(a) == set(b)
    for name, values in a.items():
        assert values == pytest.approx(b[name], nan_ok=True, **tolerance), name


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_of_one_row_change_nothing(weighted):
    X, y, s, w = people()
    model = LogisticRegression().fit(X, y)
    options = {**QUICK, "sensitive_features": s, "sample_weight": w if weighted else None}
    alone = audit(model, X, y, **options)
    one_each = audit(model, X, y, groups=[f"row {i}" for i in range(len(y))], **options)
    assert_same(numbers(one_each), numbers(alone), rel=1e-9 if weighted else 1e-14, abs=1e-15)
    assert (alone.n_clusters, one_each.n_clusters) == (None, len(y))
    assert one_each.group_clusters == one_each.group_sizes


def test_names_of_clusters_do_not_matter():
    X, y, s, _ = people()
    model, groups = LogisticRegression().fit(X, y), households(len(y))
    names = np.array([f"household {97 - g}" for g in groups], dtype=object)
    options = {**QUICK, "sensitive_features": s}
    a, b = (audit(model, X, y, groups=g, **options) for g in (groups, names))
    assert a.to_dict() == b.to_dict()


@given(SEEDS)
@settings(max_examples=5)
def test_copies_of_a_row_in_one_cluster_are_that_row(seed):
    """Rows three times over add nothing: values, intervals and bounds are those of the rows."""
    X, y, s, w = people(90, seed)
    copies = np.repeat(np.arange(90), 3)
    options = {
        **QUICK,
        "n_boot": 30,
        "min_rows": 10,
        "parts": ["scores", "decisions", "certificate"],
    }

    def of(rows, **more):
        some = {name: values[rows] for name, values in s.items()}
        Z, score = X[rows], X[rows] @ [1.0, -0.5, 0.2]
        given = {
            "decisions": (score > 0).astype(int),
            "representation": Z,
            "sample_weight": w[rows],
        }
        return audit(score, Z, y[rows], sensitive_features=some, **given, **options, **more)

    once, thrice = of(np.arange(90)), of(copies, groups=copies)
    assert_same(numbers(thrice), numbers(once), rel=1e-6, abs=1e-9)
    assert thrice.group_clusters == once.group_sizes
    assert thrice.n_rows == 3 * once.n_rows


def test_copies_in_one_cluster_are_one_row_for_the_bound():
    X, _, s, w = people(120)
    copies = np.repeat(np.arange(120), 4)
    attribute = Protected("s", "categorical", s["s"].astype(np.intp), ("a", "b"))
    (once,) = held_out_bound(X, [attribute], weight=w)
    (four,) = held_out_bound(X[copies], [attribute.take(copies)], weight=w[copies], clusters=copies)
    assert four.bound == pytest.approx(once.bound, rel=1e-6)
    assert four.supremum == pytest.approx(once.supremum)
    (rows,) = held_out_bound(X[copies], [attribute.take(copies)], weight=w[copies])
    assert rows.bound < once.bound - 0.01


def test_clusters_that_share_noise_widen_every_interval():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    s = rng.integers(0, 2, 60)[groups]
    score = rng.normal(size=60)[groups] + 0.3 * rng.normal(size=600)
    options = {**QUICK, "n_boot": 200, "min_rows": 10, "sensitive_features": {"s": s}}
    options |= {
        "y": (score + rng.normal(size=600) > 0).astype(int),
        "parts": ["scores", "decisions"],
    }
    decisions = (score > 0).astype(int)
    rows = numbers(audit(score, decisions=decisions, **options))
    clusters = numbers(audit(score, decisions=decisions, groups=groups, **options))
    for name, (value, low, high, _) in clusters.items():
        assert value == rows[name][0]
        before = rows[name][2] - rows[name][1]
        assert high - low > 1.2 * before or high - low > 0.9, name


@given(SEEDS, st.integers(2, 5))
def test_folds_do_not_split_clusters(seed, n_folds):
    rng = np.random.default_rng(seed)
    strata = rng.integers(0, 3, 120)
    clusters = clusters_of(rng.integers(0, 40, 120).tolist())
    fold = deal(strata, n_folds, rng, clusters)
    for c in np.unique(clusters):
        assert len(np.unique(fold[clusters == c])) == 1
    sizes = np.bincount(fold, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 120 // 2
    one_each = deal(strata, n_folds, np.random.default_rng(seed), np.arange(120))
    np.testing.assert_array_equal(one_each, deal(strata, n_folds, np.random.default_rng(seed)))


def test_an_attacker_does_not_recognise_the_clusters_it_learnt_from():
    """S and the score are constant in a cluster and independent: rows of a cluster reveal S."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(80), 10)
    s, score = rng.integers(0, 2, 80)[groups], rng.normal(size=80)[groups]
    options = {**QUICK, "n_folds": 5, "attackers": ["boosted"], "parts": ["attacks"]}
    options["sensitive_features"] = {"s": s}
    (rows,) = audit(score, **options).select("attacks")
    (clusters,) = audit(score, groups=groups, **options).select("attacks")
    assert rows.low > 0.8
    assert clusters.low < 0.5


def test_tests_use_one_row_of_each_cluster():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    s, score = rng.integers(0, 2, 60)[groups], rng.normal(size=60)[groups]
    options = {**QUICK, "parts": ["tests"], "sensitive_features": {"s": s}}
    rows = audit(score, **options).select("tests")
    clusters = audit(score, groups=groups, **options).select("tests")
    assert all(f.p_adjusted < 0.05 for f in rows)  # wrongly
    assert all(f.p_adjusted > 0.05 and f.n_rows == 60 for f in clusters)
    assert all("one of each cluster" in f.note for f in clusters)


def test_a_row_of_a_cluster_is_drawn_by_its_weight():
    """Of clusters with weights 3 and 1, all rows have the chance weight / 3."""
    weight, clusters = np.array([1.0, 2.0, 0.25, 0.75]), np.array([0, 0, 1, 1])
    rng, counts = np.random.default_rng(0), np.zeros(4)
    for _ in range(4000):
        counts[_thin_by_weight(weight, rng, clusters)] += 1
    assert counts / 4000 == pytest.approx(weight / 3.0, abs=0.03)
    np.testing.assert_array_equal(
        _thin_by_weight(weight, np.random.default_rng(5), np.arange(4)),
        _thin_by_weight(weight, np.random.default_rng(5)),
    )


@pytest.mark.parametrize("estimator", [FairRidge, FairRidgeClassifier, Ridge])
def test_every_part_takes_clusters(estimator):
    X, y, s, w = people(240)
    groups = households(240)
    fair = issubclass(estimator, (FairRidge, FairRidgeClassifier))
    with expected_warnings():
        model = estimator(gamma=0.1, random_state=0) if fair else estimator()
        model.fit(X[:120], y[:120], **({"sensitive_features": s["s"][:120]} if fair else {}))
        result = audit(
            model, X[120:], y[120:], groups=groups[120:], sample_weight=w[120:], min_rows=5, **QUICK,
            sensitive_features={name: values[120:] for name, values in s.items()},
        )  # fmt: skip
    assert result.n_clusters == len(np.unique(groups[120:]))
    assert {f.section for f in result.findings} >= {"scores", "decisions", "tests", "attacks"}
    for f in result.findings:
        assert math.isfinite(f.value) or f.note, f


def test_the_report_gives_rows_and_clusters():
    X, y, s, _ = people()
    result = audit(X[:, 0], y=y, sensitive_features=s, groups=households(200), parts=["scores"])
    n = result.n_clusters
    assert f"on 200 rows in {n} clusters" in repr(result)
    assert f"audited on 200 rows in {n} clusters" in result.to_markdown()
    assert "| attribute | group | rows | share | clusters |" in result.to_markdown()
    assert f"200 rows in {n} clusters" in result._repr_html_()
    assert result.to_dict()["n_clusters"] == n
    assert all(result.group_clusters["s"][g] <= result.group_sizes["s"][g] for g in ("0", "1"))


def test_a_series_is_aligned_and_a_column_is_named():
    pd = pytest.importorskip("pandas")
    X, y, s, _ = people()
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {i}" for i in range(200)])
    frame = frame.assign(s=s["s"], household=households(200))
    model = LogisticRegression().fit(frame[list("abc")], y)
    options = {**QUICK, "sensitive_features": "s", "parts": ["scores", "attacks"]}
    named = audit(model, frame, y, groups="household", **options)
    shuffled = frame["household"].sample(frac=1.0, random_state=0)
    series = audit(model, frame.drop(columns="household"), y, groups=shuffled, **options)
    assert named.to_dict() == series.to_dict()  # attackers do not see the column of the clusters


def test_clusters_of_rows_without_weight_do_not_count():
    X, y, s, w = people()
    groups, w = households(200), np.where(np.arange(200) < 50, 0.0, w)
    options = {**QUICK, "parts": ["scores"]}
    a = audit(X[:, 0], y=y, sensitive_features=s, sample_weight=w, groups=groups, **options)
    some = {name: values[50:] for name, values in s.items()}
    b = audit(
        X[50:, 0],
        y=y[50:],
        sensitive_features=some,
        sample_weight=w[50:],
        groups=groups[50:],
        **options,
    )
    assert_same(numbers(a), numbers(b), rel=1e-9)
    assert a.n_clusters == b.n_clusters


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(200), "groups is .* in every row: one cluster"),
        (np.arange(150), "numbers of rows differ: .*groups has 150"),
        (np.where(np.arange(200) < 3, np.nan, 1.0), "groups is missing .* in 3 rows"),
        (np.ones((200, 2)), "groups must be one column"),
        ("household", "groups='household' names a column, but X is not a data frame"),
    ],
)
def test_bad_groups_have_a_clear_error(groups, message):
    X, y, s, _ = people()
    with pytest.raises(ValueError, match=message):
        audit(X[:, 0], y=y, sensitive_features=s, groups=groups, parts=["scores"])


@given(SEEDS)
def test_halves_of_proxies_do_not_split_clusters(seed):
    rng = np.random.default_rng(seed)
    strata, clusters = rng.integers(0, 3, 90), clusters_of(rng.integers(0, 30, 90).tolist())
    one, other = _halves(strata, clusters, rng)
    assert sorted([*one, *other]) == list(range(90))
    assert not set(clusters[one]) & set(clusters[other])
    assert abs(len(set(clusters[one])) - len(set(clusters[other]))) <= 1
    for a, b in zip(
        _halves(strata, np.arange(90), np.random.default_rng(seed)),
        _halves(strata, None, np.random.default_rng(seed)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("size", "n_clusters"), [(3, 700), (100, 30), (400, 20)])
def test_distances_are_between_rows_of_whole_clusters(size, n_clusters):
    """At most 1,000 rows; of clusters too large for that, some rows of at least 20 clusters."""
    clusters = np.repeat(np.arange(n_clusters), size)
    rows, drawn = _some_rows(len(clusters), clusters, np.random.default_rng(0))
    assert len(rows) == len(set(rows.tolist())) <= 1000
    counts = np.bincount(drawn)
    if size == 3:
        assert (counts == 3).all()
        assert len(counts) == 333
    else:
        assert len(counts) == n_clusters
