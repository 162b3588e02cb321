"""Clusters per row among the rows that have an attribute, in memory and in streams."""

import numpy as np
import pytest

from fairspan import FairRidge
from fairspan.method.known_rows import ClusterCounts, cluster_shares

pd = pytest.importorskip("pandas")


def rows(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    S = pd.DataFrame(
        {
            "sex": np.where(X[:, 0] > 0, "f", "m").astype(object),
            "race": rng.choice(["a", "b"], n).astype(object),
        }
    )
    S.loc[rng.random(n) < 0.6, "sex"] = None
    S.loc[np.arange(n) % 4 > 0, "race"] = None
    return X, X.sum(axis=1) + rng.normal(size=n), S, np.repeat(np.arange(n // 4), 4)


@pytest.mark.parametrize("crossed", [False, True])
def test_counts_of_blocks_are_those_of_all_rows(crossed):
    X, y, S, people = rows()
    est = FairRidge(
        missing_sensitive="omit", gamma="median", random_state=0, intersectional=crossed
    )
    est.fit(X, y, sensitive_features=S, groups=people)
    data = est._read(X, y, S, None, None, reset=False, groups=people)
    coders = est.pilot_.coders
    every, known = cluster_shares(data, coders)
    masks = [S["sex"].notna(), S["race"].notna()]
    masks = [(masks[0] & masks[1]).to_numpy()] if crossed else [m.to_numpy() for m in masks]
    assert every == pytest.approx(0.25)
    assert known == pytest.approx([len(np.unique(people[m])) / m.sum() for m in masks])
    counts = ClusterCounts()
    for part in np.split(np.arange(len(X)), [100, 350]):
        counts = counts.add(data.take(part))
    assert counts.shares(coders) == (pytest.approx(every), pytest.approx(known))


def test_without_missing_values_there_is_one_share():
    X, y, S, people = rows()
    S = S.fillna("other")
    est = FairRidge(gamma="median", random_state=0).fit(X, y, sensitive_features=S, groups=people)
    data = est._read(X, y, S, None, None, reset=False, groups=people)
    assert cluster_shares(data, est.pilot_.coders) == (0.25, ())
    assert ClusterCounts().add(data).shares(est.pilot_.coders) == (0.25, ())


def test_a_stream_counts_the_groups_of_the_rows_with_s():
    X, y, S, people = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, race=S["race"], person=people)
    names = {"target": "y", "sensitive_features": "race", "groups": "person"}
    options = {"missing_sensitive": "omit", "gamma": "median", "random_state": 0}
    parts = [frame.iloc[:250], frame.iloc[250:]]
    est = FairRidge(**options).fit_stream(parts, features=list("abc"), **names)
    (block,) = est._solution.new_rows.blocks
    assert block.n_effective == pytest.approx(150.0)  # one row of each person has it
    assert est.certificate_.missing[0].n_known == 150
