"""Limits for every classifier of the cells of a score: `Audit.any_classifier`."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from fairspan import DataWarning, FairRidge, audit
from fairspan.auditing import AnyClassifier, CellGap, CellShare
from fairspan.auditing.cell_bounds import Cells, upper_limit
from fairspan.auditing.small_groups import exact_interval


def rows(n=3_000, shift=0.4, seed=0):
    """A score that differs between two groups, and classes that follow it."""
    rng = np.random.default_rng(seed)
    s = np.where(rng.random(n) < 0.3, "a", "b")
    score = rng.normal(size=n) + shift * (s == "a")
    return score, (score + rng.normal(size=n) > 0).astype(int), s


def audited(score, s, y=None, **options):
    """An audit with no other part than scores."""
    options = {"parts": ["scores"], "n_boot": 20, **options}
    return audit(score, y=y, sensitive_features=s, **options)


def test_numbers_are_those_of_loops_over_rows():
    score, y, s = rows()
    edges = [-0.5, 0.2, 1.0]
    found = audited(score, {"sex": s}, y).any_classifier(edges=edges)
    table = [
        [
            np.sum((s == h) & (score > low) & (score <= high))
            for low, high in zip([-np.inf, *edges], [*edges, np.inf], strict=True)
        ]
        for h in ("a", "b")
    ]
    shares = np.array(table) / np.sum(table, axis=1, keepdims=True)
    cells = Cells(shares=shares, n=tuple(np.sum(table, axis=1).tolist()))
    (gap,) = found.gaps
    assert gap.value == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)
    assert gap.bound == pytest.approx(upper_limit(cells.of_any_rule(0.05)))
    assert gap.threshold_bound == pytest.approx(upper_limit(cells.of_thresholds(0.05)))
    assert gap.threshold_value == pytest.approx(
        max(abs(np.mean(score[s == "a"] > e) - np.mean(score[s == "b"] > e)) for e in edges)
    )
    by_cell = [[f.value for f in found.shares if f.group == h] for h in ("a", "b")]
    np.testing.assert_allclose(by_cell, shares)
    assert all(f.low < f.value < f.high for f in found.shares)
    assert (found.k, found.n_rows, found.n_edge_rows) == (4, 3_000, 0)
    assert found.bound("sex") == found.bound() == gap.bound
    assert found.bound(thresholds=True) == gap.threshold_bound
    assert gap.groups == ("a", "b")
    assert gap.n_rows == 3_000


def test_no_classifier_of_the_cells_has_a_larger_gap():
    """On 200,000 new people, for every set of cells."""
    score, _, s = rows()
    found = audited(score, {"sex": s}).any_classifier(6)
    new, _, group = rows(200_000, seed=1)
    cell = np.searchsorted(found.edges, new)
    p, q = (np.bincount(cell[group == h], minlength=6) / np.sum(group == h) for h in ("a", "b"))
    assert np.abs(p - q).sum() / 2.0 <= found.bound("sex")
    assert np.abs(np.cumsum(p - q)).max() <= found.bound("sex", thresholds=True)


def test_rows_that_set_the_edges_do_not_count():
    score, _, s = rows()
    result = audited(score, {"sex": s})
    found = result.any_classifier(5)
    assert (found.n_edge_rows, found.n_rows) == (500, 2_500)
    assert found.k == len(found.edges) + 1 == 5
    assert found == result.any_classifier(5)
    assert found.edges != result.any_classifier(5, random_state=1).edges
    given = result.any_classifier(edges=found.edges)
    assert given.gaps[0].bound < found.gaps[0].bound + 0.02
    assert given.n_rows == 3_000


def test_ties_make_fewer_cells():
    score, _, s = rows()
    found = audited(np.round(score), {"sex": s}).any_classifier(20)
    assert found.k < 10
    assert set(found.edges) <= set(np.round(score))


def test_decisions_are_two_cells():
    _, y, s = rows()
    labels = np.array(["no", "yes"])[y]
    result = audit(labels, sensitive_features={"sex": s}, parts=["decisions"], n_boot=20)
    found = result.any_classifier(5)
    assert found.k == 2
    given = result.any_classifier(edges=[0.5]).gaps[0]
    assert given.value == pytest.approx(result.value("demographic_parity_difference", "sex"))


def test_true_positive_rates_are_those_of_the_favourable_class():
    score, y, s = rows()
    result = audited(score, {"sex": s}, y)
    edges = [-0.5, 0.5]
    opportunity = result.any_classifier(edges=edges, criterion="equal_opportunity")
    alone = audited(score[y == 1], {"sex": s[y == 1]}).any_classifier(edges=edges)
    assert opportunity.gaps[0].bound == pytest.approx(alone.gaps[0].bound)
    odds = result.any_classifier(edges=edges, criterion="equalized_odds")
    other = audited(score[y == 0], {"sex": s[y == 0]}).any_classifier(edges=edges)
    larger = max(alone.gaps[0].bound, other.gaps[0].bound)
    assert odds.gaps[0].bound == pytest.approx(larger, abs=2e-5)
    assert {f.where for f in odds.shares} == {"0", "1"}


def test_attributes_share_the_confidence():
    score, _, s = rows()
    rng = np.random.default_rng(5)
    other = rng.integers(0, 2, len(s)).astype(str)
    both = audited(score, {"sex": s, "b": other}).any_classifier(edges=[0.0])
    alone = audited(score, {"sex": s}, level=1 - 0.05 / 3).any_classifier(edges=[0.0])
    assert [gap.attribute for gap in both.gaps] == ["sex", "b", "sex x b"]
    assert both.bound("sex") == pytest.approx(alone.bound("sex"))
    assert both.bound() == max(gap.bound for gap in both.gaps)


def test_small_groups_are_named():
    score, _, s = rows()
    s = s.astype(object)
    s[:20] = "c"
    (gap,) = audited(score, {"sex": s}).any_classifier(edges=[0.0]).gaps
    assert gap.groups == ("a", "b")
    assert gap.note == "without c: too few rows"
    assert gap.n_rows == 2_980


def test_an_attribute_without_two_groups_has_no_limit():
    score, _, s = rows()
    few = np.where(np.arange(3_000) < 20, "x", "y")
    found = audited(score, {"sex": s, "few": few}, intersectional=False).any_classifier(edges=[0.0])
    sex, other = found.gaps
    assert other.bound == other.threshold_bound == 1.0
    assert np.isnan(other.value)
    assert not other.groups
    assert "few: no limit" in str(found)
    assert found.bound() == 1.0
    assert sex.bound < 0.5


def test_weights_and_clusters_count_effective_rows():
    score, _, s = rows(1_000)
    found = audited(score, {"sex": s}).any_classifier(edges=[0.0])
    equal = audited(score, {"sex": s}, sample_weight=np.full(1_000, 3.0))
    assert equal.any_classifier(edges=[0.0]).gaps == found.gaps
    weight = np.where(np.arange(1_000) % 2, 3.0, 1.0)
    weighted = audited(score, {"sex": s}, sample_weight=weight).any_classifier(edges=[0.0])
    assert "approximate: with weights" in weighted.gaps[0].note
    margins = [one.gaps[0].bound - one.gaps[0].value for one in (found, weighted)]
    assert margins[0] < margins[1]
    # Five copies of each row, known to belong together, show what one does.
    copies = np.repeat(np.arange(1_000), 5)
    clustered = audited(score[copies], {"sex": s[copies]}, groups=copies).any_classifier(
        edges=[0.0]
    )
    assert "approximate: with clusters" in clustered.gaps[0].note
    assert clustered.gaps[0].bound == pytest.approx(found.gaps[0].bound)
    edges = audited(score[copies], {"sex": s[copies]}, groups=copies).any_classifier(2)
    assert (edges.n_edge_rows, edges.n_rows) == (5 * 200, 5 * 800)


def test_the_text_says_what_is_limited_and_how_surely():
    score, y, s = rows()
    text = str(audited(score, {"sex": s}, y, level=0.9).any_classifier(5))
    assert text.startswith("With 90% confidence, no classifier that reads only which of 5 cells")
    assert re.search(r"sex: 0\.\d{3}, or 0\.\d{3} with a threshold at an edge", text)
    assert "500 other rows set the edges" in text
    odds = audited(score, {"sex": s}, y).any_classifier(edges=[0.0], criterion="equalized_odds")
    assert "true or false positive rates" in str(odds)
    assert "Edges were given." in str(odds)


def test_frames_and_dictionaries_have_all_numbers():
    pd = pytest.importorskip("pandas")
    score, _, s = rows()
    found = audited(score, {"sex": s}).any_classifier(edges=[0.0, 1.0])
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert list(found.to_frame()) == list(CellGap.__dataclass_fields__)
    assert found.to_frame()["bound"].tolist() == [found.bound()]
    assert list(found.shares_frame()) == list(CellShare.__dataclass_fields__)
    assert len(found.shares_frame()) == 6
    plain = json.loads(json.dumps(found.to_dict()))
    assert set(plain) == set(AnyClassifier.__dataclass_fields__)


def test_rows_of_the_fit_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    s = rng.integers(0, 2, 200)
    y = X[:, 0] + rng.normal(size=200)
    model = FairRidge(gamma="median", random_state=0).fit(X, y, sensitive_features={"s": s})
    with pytest.warns(DataWarning, match="used for fitting"):
        result = audit(model, X, sensitive_features={"s": s}, parts=["scores"], n_boot=20)
    found = result.any_classifier(edges=[0.0])
    assert found.note.startswith("About 100% of the audited rows were used for fitting")
    assert found.note in str(found)


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "3", None])
def test_a_number_of_cells_that_cannot_be_is_refused(k):
    score, _, s = rows(300)
    with pytest.raises(ValueError, match=re.escape(f"k={k!r} is not allowed; give a whole number")):
        audited(score, {"sex": s}).any_classifier(k)


@pytest.mark.parametrize(
    "edges", [[], [1.0, 0.0], [0.0, 0.0], [np.nan], [[0.0]], "x", [0.0, np.inf]]
)
def test_edges_that_cannot_be_are_refused(edges):
    score, _, s = rows(300)
    with pytest.raises(
        ValueError, match=r"edges=.* is not allowed; give one or more finite numbers"
    ):
        audited(score, {"sex": s}).any_classifier(edges=edges)


def test_what_cannot_be_limited_is_refused():
    score, y, s = rows(300)
    result = audited(score, {"sex": s})
    with pytest.raises(ValueError, match="k=4 and 1 edges do not agree"):
        result.any_classifier(4, edges=[0.0])
    with pytest.raises(
        ValueError, match="k=50 cells need at least 1,250 rows, and the audit has 300"
    ):
        result.any_classifier(50)
    with pytest.raises(ValueError, match="criterion='no' is not allowed"):
        result.any_classifier(2, criterion="no")
    with pytest.raises(ValueError, match="criterion='equalized_odds' needs y"):
        result.any_classifier(2, criterion="equalized_odds")
    numeric = audited(score, {"sex": s}, y=score + 1.0)
    with pytest.raises(ValueError, match="needs classes, and y is a number"):
        numeric.any_classifier(2, criterion="equal_opportunity")
    several = audited(np.stack([score, -score, score], 1), {"sex": s}, y % 3)
    with pytest.raises(ValueError, match="one score per row, and the audit has 3"):
        several.any_classifier(2)
    three = audited(score, {"sex": s}, y + (score > 1))
    with pytest.raises(ValueError, match="needs one favourable class of 3"):
        three.any_classifier(2, criterion="equal_opportunity")
    with pytest.raises(ValueError, match="need scores or decisions"):
        replace(result, rows=replace(result.rows, scores=None)).any_classifier(2)
    with pytest.raises(ValueError, match="all rows have the same"):
        audited(np.ones(300), {"sex": s}).any_classifier(2)
    with pytest.raises(ValueError, match="no attribute has two groups of 200 effective rows"):
        audited(score, {"sex": s}, min_rows=200).any_classifier(edges=[0.0])
    with pytest.raises(ValueError, match=r"there is no attribute 'age'\. Known: sex"):
        result.any_classifier(edges=[0.0]).bound("age")
    with pytest.raises(ValueError, match="needs the rows"):
        replace(result, rows=None).any_classifier(2)
    shares = {"sex_a": (s == "a") * 0.8 + 0.1, "sex_b": (s == "b") * 0.8 + 0.1}
    with pytest.warns(DataWarning, match="probabilities"):
        probable = audited(score, shares, sensitive_kind={"sex": "probabilities"})
    with pytest.raises(ValueError, match="need the group of each row"):
        probable.any_classifier(2)


def test_attributes_known_as_probabilities_are_named():
    score, _, s = rows(400)
    table = {"sex": s, "race_a": (s == "a") * 0.8 + 0.1, "race_b": (s == "b") * 0.8 + 0.1}
    kinds = {"sex": "categorical", "race": "probabilities"}
    with pytest.warns(DataWarning, match="probabilities"):
        result = audited(score, table, sensitive_kind=kinds)
    found = result.any_classifier(edges=[0.0])
    assert [gap.attribute for gap in found.gaps] == ["sex"]
    assert found.note == "No limit for race: the groups are known as probabilities."


def test_weights_that_go_with_the_score_count_by_set():
    """The number of rows is that at which a binomial share has the variance of the weighted share."""
    rng = np.random.default_rng(0)
    s = np.repeat(["a", "b"], [2_000, 20_000])
    score = (rng.random(22_000) < np.where(s == "a", 0.01, 0.02)).astype(float)
    weight = np.where((s == "a") & (score > 0.0), 20.0, 1.0)
    found = audited(score, {"sex": s}, sample_weight=weight).any_classifier(edges=[0.0])
    w, h = weight[s == "a"], score[s == "a"]
    p, q = w @ h / w.sum(), score[s == "b"].mean()
    number = int(p * (1.0 - p) / (w**2 @ (h - p) ** 2 / w.sum() ** 2))
    assert number < 0.4 * w.sum() ** 2 / (w @ w)
    cells = Cells(shares=np.array([[1.0 - p, p], [1.0 - q, q]]), n=(number, 20_000))
    assert found.bound() == pytest.approx(upper_limit(cells.of_any_rule(0.05)), abs=1e-4)
    assert found.bound(thresholds=True) == pytest.approx(found.bound(), abs=1e-4)
    heavy = next(one for one in found.shares if (one.group, one.cell) == ("a", 2))
    assert (heavy.low, heavy.high) == pytest.approx(exact_interval(p, number, 0.05 / 8))
    # Clusters of 20 rows count as rows of weight 20.
    copies = np.repeat(np.arange(22_000), weight.astype(int))
    clustered = audited(score[copies], {"sex": s[copies]}, groups=copies)
    assert clustered.any_classifier(edges=[0.0]).bound() == pytest.approx(found.bound(), abs=1e-4)


class Cut:
    """A classifier whose decision value is the first column of X."""

    classes_ = np.array([0, 1])

    def fit(self):
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]

    def predict(self, X):
        return (self.decision_function(X) > 0.0).astype(int)


@pytest.mark.parametrize("given", ["scores", "model", "probabilities"])
def test_edges_are_in_the_units_of_the_output_for_every_favourable_class(given):
    rng = np.random.default_rng(0)
    s = np.where(rng.random(2_000) < 0.5, "a", "b")
    score = np.round(np.clip(rng.beta(2, 2, 2_000) + 0.15 * (s == "a"), 0.0, 1.0), 1)
    y = (rng.random(2_000) < score).astype(int)
    what = {
        "scores": (score, None, "the given scores"),
        "model": (Cut(), score[:, None], "decision_function of Cut for class 1"),
        "probabilities": (np.stack([1.0 - score, score], 1), None, "the given scores for class 1"),
    }
    audited_as, X, name = what[given]
    edges = [0.3, 0.8]
    limits = []
    for favourable in (1, 0):
        result = audit(
            audited_as,
            X,
            y,
            sensitive_features={"sex": s},
            parts=["scores"],
            n_boot=20,
            pos_label=favourable,
        )
        found = result.any_classifier(edges=edges)
        assert found.output == name
        assert f"Cells are cut from {name}. A threshold selects score > edge" in str(found)
        shares = [one.value for one in found.shares if one.group == "a"]
        cell = np.searchsorted(edges, score[s == "a"], side="left")
        np.testing.assert_allclose(shares, np.bincount(cell) / len(cell))
        limits.append((found.edges, found.gaps, result.any_classifier(3).edges))
    assert limits[0] == limits[1]


def test_decisions_are_named_by_the_favourable_class():
    _, y, s = rows()
    labels = np.array(["no", "yes"])[y]
    for favourable in ("yes", "no"):
        result = audit(
            labels,
            y=labels[::-1],
            sensitive_features={"sex": s},
            parts=["decisions"],
            n_boot=20,
            pos_label=favourable,
        )
        found = result.any_classifier(edges=[0.0])
        assert found.output == f"1 for the decision {favourable} and 0 for others"
        high = next(one.value for one in found.shares if (one.group, one.cell) == ("a", 2))
        assert high == pytest.approx(np.mean(labels[s == "a"] == favourable))


@pytest.mark.parametrize(
    ("edges", "named"), [([0.5, 3.0], "0.5"), ([3.0, 5.0], "5"), ([0.0, 9.0], "0, 9")]
)
def test_edges_outside_the_range_of_the_scores_are_refused(edges, named):
    rng = np.random.default_rng(0)
    grade = rng.integers(1, 6, 400).astype(float)
    result = audited(grade, {"sex": np.where(rng.random(400) < 0.5, "a", "b")})
    with pytest.raises(
        ValueError,
        match=re.escape(
            f"edges={edges} is not allowed: {named} is outside the range of the given scores, 1 to 5 in the "
            f"audited rows. A threshold selects score > edge"
        ),
    ):
        result.any_classifier(edges=edges)
    assert result.any_classifier(edges=[1.0, 4.0]).k == 3


def test_classes_without_rows_are_refused():
    score, _, s = rows(400)
    none, every = np.zeros(400, dtype=int), np.ones(400, dtype=int)
    lacks = audited(score, {"sex": s}, none, pos_label=1)
    for criterion in ("equal_opportunity", "equalized_odds"):
        with pytest.raises(
            ValueError,
            match=re.escape(
                f"criterion={criterion!r} compares rows of y = 1, and no audited row has it"
            ),
        ):
            lacks.any_classifier(edges=[0.0], criterion=criterion)
    one_class = audited(score, {"sex": s}, every, pos_label=1)
    with pytest.raises(ValueError, match=r"compares rows of each class of y, and all .* y = 1"):
        one_class.any_classifier(edges=[0.0], criterion="equalized_odds")
    assert one_class.any_classifier(edges=[0.0], criterion="equal_opportunity").n_rows == 400


def test_a_class_of_too_few_rows_is_named():
    score, _, s = rows(400)
    y = (np.arange(400) < 12).astype(int)
    result = audited(score, {"sex": s}, y)
    for criterion in ("equal_opportunity", "equalized_odds"):
        with pytest.raises(
            ValueError,
            match="two groups of 30 effective rows among the 12 rows of y = 1 that count",
        ):
            result.any_classifier(edges=[0.0], criterion=criterion)
    # All clusters of the class set edges.
    clusters = np.where(y == 1, 0, np.arange(400))
    clustered = audited(score, {"sex": s}, y, groups=clusters)
    with pytest.raises(ValueError, match=r"30 effective clusters among the 0 rows of y = 1"):
        clustered.any_classifier(2, criterion="equal_opportunity", random_state=42)
    other = np.where((y == 1) & (np.arange(400) % 2 == 0), "x", np.where(s == "a", "y", "z"))
    few = audited(score, {"sex": s, "t": other}, (np.arange(400) < 150).astype(int), min_rows=20)
    notes = few.any_classifier(edges=[0.0], criterion="equalized_odds").gaps[1].note
    assert notes == "without x: too few rows of y = 0; without x: too few rows of y = 1"


def test_classes_that_different_attributes_lack_are_not_named():
    score, _, _ = rows(400)
    y = (np.arange(400) < 200).astype(int)
    half = np.arange(400) % 2 == 0
    of = {
        "first": np.where((y == 1) & half, "a", "b"),
        "second": np.where((y == 0) & half, "a", "b"),
    }
    result = audited(score, of, y, intersectional=False)
    with pytest.raises(ValueError, match="two groups of 30 effective rows in every class of y"):
        result.any_classifier(edges=[0.0], criterion="equalized_odds")
