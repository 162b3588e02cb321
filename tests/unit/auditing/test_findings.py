"""Numbers of an audit: what they equal, what they do not depend on, and what was planted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairspan import audit, metrics
from fairspan.auditing import distance_correlation
from fairspan.auditing.attackers import _p_value
from fairspan.auditing.findings import measure, rate_interval, summarise
from fairspan.auditing.small_groups import exact_interval

SEEDS = st.integers(0, 2**32 - 1)
# An audit of every kind of number takes some twenty milliseconds.
few = settings(max_examples=max(settings().max_examples // 6, 1))
PARTS = ["scores", "decisions"]
QUICK: dict[str, Any] = {"parts": PARTS, "n_boot": 20, "random_state": 0, "min_rows": 1}
CATEGORICAL = ("two", "text", "integers", "bool")
KINDS = (*CATEGORICAL, "number")


@dataclass(frozen=True, repr=False)
class Rows:
    """Scores, decisions and labels of some rows, and their protected attributes."""

    f: np.ndarray
    y: np.ndarray
    d: np.ndarray
    s: dict[str, np.ndarray]
    w: np.ndarray | None = None
    c: np.ndarray | None = None
    recipe: str = ""  # the call that made it

    def __repr__(self) -> str:
        return self.recipe or f"Rows of {self.n}"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def n(self) -> int:
        return len(self.f)

    def take(self, rows: np.ndarray) -> Rows:
        def some(part: Any) -> Any:
            return None if part is None else part[rows]

        s = {name: values[rows] for name, values in self.s.items()}
        return Rows(self.f[rows], self.y[rows], self.d[rows], s, some(self.w), some(self.c))

    def audit(self, **options: Any) -> Any:
        given = {
            "y": self.y,
            "decisions": self.d,
            "sensitive_features": self.s,
            "sample_weight": self.w,
            "control_features": self.c,
        }
        return audit(self.f, **{**QUICK, **given, **options})


def attribute(kind: str, latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "number":
        return latent.copy()
    rank = np.argsort(np.argsort(latent + rng.normal(size=len(latent))))
    share = rank / len(latent)
    if kind == "integers":  # uneven: 6, 30 and 64 percent of the rows
        share = share**0.4
    level = (share * (2 if kind in ("two", "bool") else 3)).astype(int)
    if kind == "bool":
        return level == 1
    return np.array(["north", "süd | ost", "west"])[level] if kind == "text" else level * 4 - 3


def make(
    seed: int,
    n: int = 150,
    kinds: tuple[str, ...] = ("two",),
    labels: tuple[Any, ...] = (0, 1),
    weights: str = "none",
    control: bool = False,
) -> Rows:
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, len(kinds)))
    s = {f"s{j}": attribute(kind, latent[:, j], rng) for j, kind in enumerate(kinds)}
    f = latent.sum(axis=1) * 0.4 + rng.normal(size=n)
    k = len(labels)
    noisy = f + rng.normal(size=n)
    cuts = np.arange(1, k) / k
    y = np.array(labels)[np.searchsorted(np.quantile(noisy, cuts), noisy)]
    d = np.array(labels)[np.searchsorted(np.quantile(f, cuts), f)]
    w = {
        "none": None,
        "counts": rng.integers(1, 4, n).astype(float),
        "any": rng.exponential(size=n),
    }
    c = rng.integers(0, 2, n) if control else None
    recipe = f"make({seed}, {n}, {kinds}, {labels}, {weights!r}, {control})"
    return Rows(f, y, d, s, w[weights], c, recipe)


@st.composite
def problems(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, **fixed: Any) -> Rows:
    options = {
        "n": draw(st.integers(90, 200)),
        "kinds": tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))),
        "labels": draw(
            st.sampled_from([(0, 1), ("no", "yes"), (False, True), ("a", "b", "c"), (1, 2)])
        ),
        "weights": draw(st.sampled_from(["none", "counts", "any"])),
    }
    return make(draw(SEEDS), **{**options, **fixed})


def key(f: Any) -> tuple[str, ...]:
    return f.section, f.metric, f.attribute, f.group, f.where


def values(found: Any, *sections: str) -> dict[tuple[str, ...], float]:
    wanted = sections or ("performance", "scores", "decisions")
    out = {key(f): f.value for f in found.findings if f.section in wanted}
    assert len(out) == len([f for f in found.findings if f.section in wanted]), "a name twice"
    return out


def assert_same(a: dict[Any, float], b: dict[Any, float], rtol: float = 1e-9) -> None:
    assert set(a) == set(b)
    for name, value in a.items():
        assert value == pytest.approx(b[name], rel=rtol, abs=1e-9, nan_ok=True), name


def labels_of(rows: Rows) -> list[Any]:
    return np.unique(rows.y).tolist()


def metric_or_none(function: Any, *arguments: Any, **options: Any) -> float | None:
    """The metrics refuse what the audit notes: a group without such rows, a constant attribute."""
    try:
        return float(function(*arguments, **options))
    except ValueError:
        return None


# ------------------------------------------------------------------ equality: scores


@few
@given(problems())
def test_scores_are_those_of_the_metrics(rows: Rows) -> None:
    found = rows.audit(pos_label=labels_of(rows)[-1])
    for name, s in rows.s.items():
        one = {"sensitive_features": s, "sample_weight": rows.w}
        expected = {
            "statistical_parity_correlation": metrics.statistical_parity_correlation(rows.f, **one),
            "correlation_ratio": metrics.correlation_ratio(rows.f, **one),
            "equal_opportunity_correlation": metric_or_none(
                metrics.equal_opportunity_correlation,
                rows.y,
                rows.f,
                pos_label=labels_of(rows)[-1],
                **one,
            ),
            "equalized_odds_correlation": metric_or_none(
                metrics.equalized_odds_correlation, rows.y, rows.f, **one
            ),
        }
        for metric, value in expected.items():
            if value is not None:
                assert found.value(metric, name) == pytest.approx(value, rel=1e-9, abs=1e-10)


@few
@given(problems(kinds=("number",)), st.integers(2, 8))
def test_slices_of_a_number_are_those_of_the_metrics(rows: Rows, n_bins: int) -> None:
    found = rows.audit(n_bins=n_bins, pos_label=labels_of(rows)[0])
    for name, s in rows.s.items():
        one = {"sensitive_features": s, "sample_weight": rows.w, "n_bins": n_bins}
        assert found.value("correlation_ratio", name) == pytest.approx(
            metrics.correlation_ratio(rows.f, **one)
        )
        assert found.value("demographic_parity_difference", name) == pytest.approx(
            metrics.demographic_parity_difference(
                rows.y, rows.d, pos_label=labels_of(rows)[0], **one
            )
        )


@few
@given(SEEDS, st.integers(2, 4), st.sampled_from(KINDS))
def test_several_outputs_count_by_the_worst(seed: int, k: int, kind: str) -> None:
    rows = make(seed, kinds=(kind,))
    scores = rows.f[:, None] + np.random.default_rng(seed).normal(size=(rows.n, k))
    found = audit(scores, y=rows.y, sensitive_features=rows.s, **QUICK)
    one = {"sensitive_features": rows.s["s0"]}
    for metric, expected in (
        ("statistical_parity_correlation", metrics.statistical_parity_correlation(scores, **one)),
        ("correlation_ratio", metrics.correlation_ratio(scores, **one)),
        ("equalized_odds_correlation", metrics.equalized_odds_correlation(rows.y, scores, **one)),
    ):
        assert found.value(metric, "s0") == pytest.approx(expected)


@few
@given(SEEDS, st.booleans())
def test_a_correlation_is_pearsons(seed: int, number: bool) -> None:
    rows = make(seed, kinds=("number" if number else "two",))
    s = rows.s["s0"].astype(float)
    found = rows.audit()
    assert found.value("statistical_parity_correlation", "s0") == pytest.approx(
        abs(scipy.stats.pearsonr(rows.f, s).statistic)
    )
    inside = [abs(scipy.stats.pearsonr(rows.f[rows.y == k], s[rows.y == k])[0]) for k in (0, 1)]
    assert found.value("equal_opportunity_correlation", "s0") == pytest.approx(inside[1])
    assert found.value("equalized_odds_correlation", "s0") == pytest.approx(max(inside))


@few
@given(SEEDS, st.sampled_from(["none", "any"]))
def test_a_distance_correlation_is_that_of_its_function(seed: int, weights: str) -> None:
    rows = make(seed, kinds=("number",), weights=weights)
    w = np.ones(rows.n) if rows.w is None else rows.w
    expected = distance_correlation(rows.f, rows.s["s0"], w)
    assert rows.audit().value("distance_correlation", "s0") == pytest.approx(expected)


@few
@given(SEEDS, st.floats(-8, 8), st.floats(-3, 3))
def test_scores_may_be_shifted_and_scaled(seed: int, shift: float, power: float) -> None:
    rows = make(seed, kinds=("text", "number"), weights="any")
    moved = replace(rows, f=10.0**shift + 10.0**power * rows.f)
    # a shift of 10^8 leaves eight digits of a score of size 1e-3, a little less of its square
    digits = 1e-16 * 10.0 ** (max(shift, 0.0) - power) + 1e-12
    assume(digits < 1e-6)
    assert_same(values(rows.audit(), "scores"), values(moved.audit(), "scores"), rtol=1e4 * digits)


# ------------------------------------------------------------------ equality: decisions


@few
@given(problems(kinds=CATEGORICAL), st.integers(0, 2))
def test_gaps_are_those_of_the_metrics(rows: Rows, which: int) -> None:
    classes = labels_of(rows)
    pos_label = classes[which % len(classes)]
    found = rows.audit(pos_label=pos_label)
    for name, s in rows.s.items():
        one = {"sensitive_features": s, "sample_weight": rows.w, "pos_label": pos_label}
        for metric in (
            "demographic_parity_difference",
            "demographic_parity_ratio",
            "equal_opportunity_difference",
            "equalized_odds_difference",
        ):
            expected = metric_or_none(getattr(metrics, metric), rows.y, rows.d, **one)
            if expected is not None:
                assert found.value(metric, name) == pytest.approx(expected), metric
        rates = metrics.selection_rates(rows.y, rows.d, **one)
        for group, rate in next(iter(rates.values())).items():
            assert found.value("selection_rate", name, group=group) == pytest.approx(rate)


@few
@given(SEEDS, st.sampled_from(["none", "any"]))
def test_of_many_classes_each_is_taken_in_turn(seed: int, weights: str) -> None:
    rows = make(seed, kinds=("text",), labels=("a", "b", "c"), weights=weights)
    found = rows.audit()
    for label in "abc":
        alone = rows.audit(pos_label=label)
        for metric in (
            "demographic_parity_difference",
            "demographic_parity_ratio",
            "equal_opportunity_difference",
            "equalized_odds_difference",
            "predictive_parity_difference",
            "equal_opportunity_correlation",
        ):
            assert found.value(f"{metric} ({label})", "s0") == pytest.approx(
                alone.value(metric, "s0")
            )


@few
@given(problems(kinds=CATEGORICAL, labels=("no", "yes")))
def test_rates_by_group_are_scikit_learns(rows: Rows) -> None:
    found = rows.audit()
    for name, s in rows.s.items():
        for group in np.unique(s):
            mine = rows.take(s == group)
            one: dict[str, Any] = {"sample_weight": mine.w}
            if len(np.unique(mine.y)) == 2 and len(np.unique(mine.d)) == 2:
                true = sklearn.metrics.recall_score(mine.y, mine.d, pos_label="yes", **one)
                false = 1 - sklearn.metrics.recall_score(mine.y, mine.d, pos_label="no", **one)
                right = sklearn.metrics.precision_score(mine.y, mine.d, pos_label="yes", **one)
                label = str(group)
                assert found.value("true_positive_rate", name, group=label) == pytest.approx(true)
                assert found.value("false_positive_rate", name, group=label) == pytest.approx(false)
                assert found.value("positive_predictive_value", name, group=label) == pytest.approx(
                    right
                )
            assert found.value("accuracy", name, group=str(group)) == pytest.approx(
                sklearn.metrics.accuracy_score(mine.y, mine.d, **one)
            )
    assert found.value("accuracy") == pytest.approx(
        sklearn.metrics.accuracy_score(rows.y, rows.d, sample_weight=rows.w)
    )


@few
@given(SEEDS, st.sampled_from(["none", "any"]), st.sampled_from(CATEGORICAL))
def test_errors_of_a_regression_are_scikit_learns(seed: int, weights: str, kind: str) -> None:
    rows = make(seed, kinds=(kind,), weights=weights)
    rng = np.random.default_rng(seed)
    y = rows.f + rng.normal(size=rows.n)
    found = audit(rows.f, y=y, sensitive_features=rows.s, sample_weight=rows.w, **QUICK)
    errors, means, sizes = [], [], []
    for group in np.unique(rows.s["s0"]):
        mine = rows.s["s0"] == group
        w = None if rows.w is None else rows.w[mine]
        sizes.append(
            sklearn.metrics.root_mean_squared_error(y[mine], rows.f[mine], sample_weight=w)
        )
        errors.append(np.average(rows.f[mine] - y[mine], weights=w))
        means.append(np.average(rows.f[mine], weights=w))
        of_group = {
            "root_mean_squared_error": sizes[-1],
            "mean_error": errors[-1],
            "mean_prediction": means[-1],
        }
        for metric, value in of_group.items():
            assert found.value(metric, "s0", group=str(group)) == pytest.approx(value, abs=1e-12)
    for metric, each in (
        ("root_mean_squared_error", sizes),
        ("mean_error", errors),
        ("mean_prediction", means),
    ):
        assert found.value(f"{metric}_difference", "s0") == pytest.approx(np.ptp(each))
    assert found.value("root_mean_squared_error") == pytest.approx(
        sklearn.metrics.root_mean_squared_error(y, rows.f, sample_weight=rows.w)
    )


# ------------------------------------------------------------------ weights


def with_probabilities(rows: Rows, **options: Any) -> Any:
    """The same rows, their scores as probabilities."""
    return replace(rows, f=1.0 / (1.0 + np.exp(-rows.f))).audit(**options)


@few
@given(SEEDS, st.sampled_from([("text", "number"), ("integers",), ("number", "two")]))
def test_weight_k_is_k_copies(seed: int, kinds: tuple[str, ...]) -> None:
    rows = make(seed, kinds=kinds, weights="counts", control=True)
    assert rows.w is not None
    copies = replace(rows.take(np.repeat(np.arange(rows.n), rows.w.astype(int))), w=None)
    assert_same(values(rows.audit()), values(copies.audit()))


@few
@given(SEEDS)
def test_weight_k_is_k_copies_of_a_probability(seed: int) -> None:
    rows = make(seed, weights="counts")
    assert rows.w is not None
    copies = replace(rows.take(np.repeat(np.arange(rows.n), rows.w.astype(int))), w=None)
    assert_same(values(with_probabilities(rows)), values(with_probabilities(copies)))


@few
@given(SEEDS)
def test_weight_k_is_k_copies_of_a_regression(seed: int) -> None:
    rows = make(seed, kinds=("text", "number"), weights="counts")
    rows = replace(rows, y=rows.f + np.random.default_rng(seed).normal(size=rows.n))
    assert rows.w is not None
    copies = replace(rows.take(np.repeat(np.arange(rows.n), rows.w.astype(int))), w=None)
    assert_same(values(rows.audit(decisions=None)), values(copies.audit(decisions=None)))


@few
@given(SEEDS, st.floats(0.01, 100.0))
def test_weights_may_be_scaled(seed: int, factor: float) -> None:
    rows = make(seed, kinds=("text", "number"), weights="any")
    assert rows.w is not None
    scaled = replace(rows, w=rows.w * factor)
    a, b = with_probabilities(rows), with_probabilities(scaled)
    assert_same(values(a), values(b))
    for one, other in zip(a.findings, b.findings, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9, nan_ok=True)
        assert one.small == other.small


@few
@given(SEEDS)
def test_rows_of_weight_zero_do_not_matter(seed: int) -> None:
    rows = make(seed, kinds=("text", "number"), weights="any", control=True)
    rng = np.random.default_rng(seed)
    assert rows.w is not None
    w = np.where(rng.random(rows.n) < 0.2, 0.0, rows.w)
    # what stands in those rows may be anything
    away = {
        "s0": np.where(w > 0, rows.s["s0"], "elsewhere"),
        "s1": np.where(w > 0, rows.s["s1"], 1e6),
    }
    full = replace(rows, w=w, s=away, f=np.where(w > 0, rows.f, 1e9))
    left = rows.take(w > 0)
    a, b = full.audit(), left.audit()
    assert a.n_rows == b.n_rows == int((w > 0).sum())
    assert a.group_sizes == b.group_sizes
    assert_same(values(a), values(b))


# ------------------------------------------------------------------ invariance


@few
@given(problems(control=True))
def test_the_order_of_rows_does_not_matter(rows: Rows) -> None:
    other = rows.take(np.random.default_rng(rows.n).permutation(rows.n))
    assert_same(values(with_probabilities(rows)), values(with_probabilities(other)))


@few
@given(SEEDS)
def test_the_order_of_attributes_does_not_matter(seed: int) -> None:
    rows = make(seed, kinds=("text", "two", "number"), weights="any")
    other = replace(rows, s=dict(reversed(rows.s.items())))
    a, b = values(rows.audit()), values(other.audit())
    alone = {name: value for name, value in a.items() if " x " not in name[2]}
    assert_same(alone, {name: b[name] for name in alone})
    crossed = {name[1]: v for name, v in a.items() if name[2] == "s0 x s1 x s2" and not name[3]}
    assert_same(
        crossed, {name[1]: v for name, v in b.items() if name[2] == "s2 x s1 x s0" and not name[3]}
    )


@few
@given(problems())
def test_the_positive_class_may_be_named_otherwise(rows: Rows) -> None:
    """Other labels in the same order: nothing but the names changes."""
    assume(len(labels_of(rows)) == 2)
    codes = dict(zip(labels_of(rows), ("bad", "good"), strict=True))
    y, d = (np.array([codes[v] for v in part.tolist()]) for part in (rows.y, rows.d))
    assert_same(values(rows.audit()), values(replace(rows, y=y, d=d).audit()))


@few
@given(problems(control=True))
def test_intervals_hold_their_estimate(rows: Rows) -> None:
    for f in with_probabilities(rows, n_boot=200).findings:
        bounded = f.metric.startswith(("calibration_in", "mean_"))
        if np.isfinite(f.low) and not bounded and not f.group:
            assert f.low - 1e-12 <= f.value <= f.high + 1e-12, f
        if not np.isfinite(f.value):
            assert f.note, f


# ------------------------------------------------------------------ strata and combinations


@few
@given(problems(kinds=CATEGORICAL, control=True))
def test_a_stratum_is_an_audit_of_its_rows(rows: Rows) -> None:
    assert rows.c is not None
    pos_label = labels_of(rows)[-1]
    whole = rows.audit(pos_label=pos_label)
    for code in (0, 1):
        some = replace(rows.take(rows.c == code), c=None)
        alone = values(some.audit(pos_label=pos_label), "scores", "decisions")
        where = f"control_feature_0 = {code}"
        inside = {
            (*name[:4], ""): value
            for name, value in values(whole, "scores", "decisions").items()
            if name[4] == where
        }
        assert set(alone) <= set(inside)
        assert_same(alone, {name: inside[name] for name in alone})


@few
@given(SEEDS, st.sampled_from(["none", "any"]))
def test_a_combination_is_an_audit_of_the_crossed_attribute(seed: int, weights: str) -> None:
    rows = make(seed, kinds=("text", "two", "bool"), weights=weights, n=300)
    whole = values(rows.audit(), "scores", "decisions")
    crossed = np.array([" & ".join(map(str, row)) for row in zip(*rows.s.values(), strict=True)])
    alone = values(replace(rows, s={"all": crossed}).audit(), "scores", "decisions")
    inside = {
        (*name[:2], "all", *name[3:]): value
        for name, value in whole.items()
        if name[2] == "s0 x s1 x s2"
    }
    assert_same(alone, inside)
    assert inside["scores", "correlation_ratio", "all", "", ""] == pytest.approx(
        metrics.correlation_ratio(
            rows.f, sensitive_features=rows.s, sample_weight=rows.w, intersectional=True
        )
    )


def test_combinations_are_made_of_several_attributes_and_only_if_wanted() -> None:
    rows = make(0, kinds=("two", "text"))
    assert list(rows.audit().group_sizes) == ["s0", "s1", "s0 x s1"]
    assert list(rows.audit(intersectional=False).group_sizes) == ["s0", "s1"]
    assert list(make(0).audit().group_sizes) == ["s0"]


def test_attributes_of_many_levels_are_summed_one_by_one_to_the_same_values() -> None:
    """Too many joint cells for one table of sums: each attribute gets its own."""
    from fairspan.auditing import parts as _parts

    rows = make(4, kinds=("text", "number", "integers"), weights="any", control=True)
    together = with_probabilities(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parts, "_MOST_SUMS", 1)
        apart = with_probabilities(rows)
    assert_same(values(together), values(apart))


@pytest.mark.parametrize("name", ["y", "yhat", "strata", "bin", "_", "f0", "p", "e", "s", ""])
def test_an_attribute_may_have_any_name(name: str) -> None:
    rows = make(3, kinds=("text",), control=True)
    usual = with_probabilities(rows)
    named = with_probabilities(replace(rows, s={name: rows.s["s0"]}))
    expected = {(*k[:2], name if k[2] else "", *k[3:]): v for k, v in values(usual).items()}
    assert_same(expected, values(named))


def test_an_attribute_and_a_control_feature_may_share_a_name() -> None:
    rows = make(3, kinds=("text",))
    found = rows.audit(control_features={"s0": rows.y})
    assert found.group_sizes["s0"] == rows.audit().group_sizes["s0"]


# ------------------------------------------------------------------ planted truths


def table(*cells: tuple[str, int, int, int]) -> Rows:
    """Rows counted out: (group, y, decision, how many)."""
    s, y, d = (
        np.concatenate([np.full(count, cell[i]) for *cell, count in cells]) for i in range(3)
    )
    return Rows(d.astype(float), y, d, {"s": s})


EXACT = table(
    ("a", 1, 1, 30), ("a", 1, 0, 10), ("a", 0, 1, 20), ("a", 0, 0, 40),
    ("b", 1, 1, 20), ("b", 1, 0, 20), ("b", 0, 1, 6), ("b", 0, 0, 54),
)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("demographic_parity_difference", 0.50 - 0.26),
        ("demographic_parity_ratio", 0.26 / 0.50),
        ("equal_opportunity_difference", 0.75 - 0.50),
        ("equalized_odds_difference", max(0.25, 20 / 60 - 0.1)),
        ("predictive_parity_difference", 20 / 26 - 0.6),
        ("accuracy_difference", 0.74 - 0.70),
    ],
)
def test_gaps_of_a_table_counted_by_hand(metric: str, expected: float) -> None:
    (found,) = EXACT.audit(n_boot=100).select(metric=metric, attribute="s")
    assert found.value == pytest.approx(expected)
    assert found.low <= expected <= found.high
    assert found.n_rows == {"predictive": 76, "equal": 80}.get(metric.split("_")[0], 200)


@pytest.mark.parametrize(
    ("metric", "group", "expected", "rows"),
    [
        ("selection_rate", "a", 0.50, 100),
        ("true_positive_rate", "a", 0.75, 40),
        ("false_positive_rate", "b", 0.10, 60),
        ("positive_predictive_value", "b", 20 / 26, 26),
        ("accuracy", "b", 0.74, 100),
    ],
)
def test_rates_of_a_table_counted_by_hand(
    metric: str, group: str, expected: float, rows: int
) -> None:
    (found,) = EXACT.audit(n_boot=100).select("decisions", metric=metric, group=group)
    assert found.value == pytest.approx(expected)
    assert found.low < expected < found.high
    assert found.n_rows == rows


def test_a_group_without_positives_is_said_to_have_none() -> None:
    rows = table(
        ("a", 1, 1, 40), ("a", 0, 0, 40), ("b", 0, 1, 20), ("b", 0, 0, 60),
        ("c", 1, 1, 20), ("c", 1, 0, 20), ("c", 0, 0, 40),
    )  # fmt: skip
    found = rows.audit(min_rows=30)
    (none,) = found.select(metric="true_positive_rate", group="b")
    assert np.isnan(none.value)
    assert (none.low, none.high) == (0.0, 1.0)
    assert none.n_rows == 0
    assert none.note == "no such rows"
    (gap,) = found.select(metric="equal_opportunity_difference")
    assert gap.value == pytest.approx(0.5)  # of the others
    assert "b" in gap.note  # and it says whom it leaves out


def test_a_small_group_is_marked_and_listed_but_not_compared() -> None:
    rows = table(
        ("a", 1, 1, 40), ("a", 0, 0, 60), ("b", 1, 1, 30), ("b", 1, 0, 30), ("b", 0, 1, 40),
        ("tiny", 1, 0, 4), ("tiny", 0, 0, 5),
    )  # fmt: skip
    found = rows.audit(min_rows=30)
    assert found.group_sizes["s"] == {"a": 100, "b": 100, "tiny": 9}
    (rate,) = found.select(metric="selection_rate", group="tiny")
    assert rate.small
    assert rate.value == 0.0
    assert rate.n_rows == 9
    assert "fewer than 30" in rate.note
    (gap,) = found.select(metric="demographic_parity_difference")
    assert gap.value == pytest.approx(0.7 - 0.4)
    assert "tiny" in gap.note
    assert any("tiny" in text for text in found.warnings)
    assert rows.audit(min_rows=5).value("demographic_parity_difference", "s") == pytest.approx(0.7)


def test_where_all_groups_but_one_are_small_gaps_have_wide_intervals() -> None:
    rows = table(("a", 1, 1, 40), ("a", 0, 0, 60), ("tiny", 1, 0, 4), ("tiny", 0, 0, 5))
    found = rows.audit(min_rows=30)
    for gap in found.select("decisions", group=""):
        assert gap.small
        assert gap.note == "few rows in tiny: wide interval"
        assert 0.0 <= gap.low < gap.high <= 1.0
    (odds,) = found.select(metric="equalized_odds_difference")
    assert odds.value == 1.0  # all 40 of a, none of 4
    assert odds.low < 0.5
    (precision,) = found.select(metric="predictive_parity_difference")
    assert np.isnan(precision.value)  # nobody of tiny is selected
    assert precision.high == 1.0
    for f in found.select("scores"):
        assert f.small
        assert 0.0 <= f.low <= f.value <= f.high <= 1.0
    assert any("tiny" in text and "wide interval" in text for text in found.warnings)


def test_one_group_alone_has_no_gap() -> None:
    rows = replace(EXACT, c=np.where(np.array(EXACT.s["s"]) == "a", "u", "v"))
    gaps = [f for f in rows.audit().select("decisions", group="") if f.where]
    assert gaps
    for gap in gaps:
        assert np.isnan(gap.low)
        assert "fewer than two groups" in gap.note


def test_weights_make_a_group_small() -> None:
    """Effective rows count: one heavy row among light ones is hardly more than one row."""
    rows = replace(EXACT, w=np.where(np.arange(200) == 0, 1e4, 1.0))
    (rate,) = rows.audit(min_rows=30).select(metric="selection_rate", group="a")
    assert rate.small
    assert rate.n_rows == 100


def test_nobody_selected_is_parity() -> None:
    rows = replace(EXACT, d=np.zeros(200, dtype=int))
    found = rows.audit()
    assert found.value("demographic_parity_difference", "s") == 0.0
    (ratio,) = found.select(metric="demographic_parity_ratio")
    # what the metric says, or no number and why
    assert ratio.value == metrics.demographic_parity_ratio(
        rows.y, rows.d, sensitive_features=rows.s
    ) or (np.isnan(ratio.value) and ratio.note)


def test_one_group_never_selected_is_a_ratio_of_zero() -> None:
    rows = table(("a", 1, 1, 30), ("a", 0, 0, 30), ("b", 1, 0, 30), ("b", 0, 0, 30))
    (ratio,) = rows.audit(n_boot=200).select(metric="demographic_parity_ratio")
    assert ratio.value == 0.0
    assert ratio.low == 0.0
    # none of 60 does not rule out one in 30 (the exact limit is 0.06): a ratio of 0.06 to 0.5
    assert ratio.high > 0.06


def test_a_rate_of_zero_is_not_known_exactly_in_a_gap_either() -> None:
    rows = table(("a", 1, 0, 20), ("a", 0, 0, 20), ("b", 1, 0, 20), ("b", 0, 0, 20))
    (gap,) = rows.audit(n_boot=200, pos_label=1).select(metric="demographic_parity_difference")
    assert gap.value == 0.0
    assert gap.high > 0.02  # none of 40, twice


def test_a_gap_without_usable_resamples_has_a_wide_interval() -> None:
    """Groups of two rows: no resample has them all."""
    rows = table(*((f"g{i}", i % 2, i % 2, 2) for i in range(40)))
    (gap,) = rows.audit(min_rows=1).select(metric="demographic_parity_difference")
    assert gap.value == 1.0
    assert (gap.low, gap.high) == (0.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_constant_scores_depend_on_nothing(kind: str) -> None:
    rows = make(0, kinds=(kind,))
    found = replace(rows, f=np.full(rows.n, 0.1)).audit()
    for f in found.select("scores"):
        assert f.value == 0.0
        assert (np.isfinite(f.low) and np.isfinite(f.high)) or f.note, f


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.7, 12345.678])
def test_scores_constant_in_a_class_depend_on_nothing_there(value: float) -> None:
    rows = make(1, kinds=("text", "number"), labels=(0, 1))
    found = replace(rows, f=np.where(rows.y == 1, value, rows.f)).audit()
    for name in rows.s:
        assert found.value("equal_opportunity_correlation", name) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.7, 2.123])
def test_a_number_constant_in_a_class_is_said_to_be(value: float) -> None:
    rows = make(2, kinds=("number",), labels=(0, 1))
    s = np.where(rows.y == 1, value, rows.s["s0"])
    both = replace(rows, s={"s": s}, f=np.where(rows.y == 1, -value, rows.f))
    for each in (replace(rows, s={"s": s}), both):
        (found,) = each.audit().select(metric="equal_opportunity_correlation")
        assert np.isnan(found.value)
        assert "constant" in found.note


def test_a_bend_is_seen_by_ratio_and_distance_not_by_correlation() -> None:
    rng = np.random.default_rng(0)
    s = rng.normal(size=400)
    s = np.concatenate([s, -s])
    f = s**2 + np.tile(0.1 * rng.normal(size=400), 2)
    found = audit(f, sensitive_features={"s": s}, **{**QUICK, "n_boot": 100})
    assert found.value("statistical_parity_correlation", "s") < 1e-12
    for metric in ("correlation_ratio", "distance_correlation"):
        (one,) = found.select(metric=metric)
        assert one.low > 0.3


def test_a_continuous_attribute_is_named_by_its_slices() -> None:
    rows = make(0, kinds=("number",))
    found = rows.audit(n_bins=4)
    sizes = found.group_sizes["s0"]
    assert len(sizes) == 4
    assert sum(sizes.values()) == rows.n
    assert {f.group for f in found.select(metric="selection_rate")} == set(sizes)


# ------------------------------------------------------------------ calibration


def promises(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities in tenths that come true exactly, for groups a and b alike."""
    p = np.tile(np.repeat(np.arange(1, 10) / 10, 10), n // 90)
    y = np.tile((np.tile(np.arange(10), 9) < np.repeat(np.arange(1, 10), 10)).astype(int), n // 90)
    return p, y, np.where(np.arange(len(p)) // 90 % 2 == 0, "a", "b")


def test_honest_probabilities_are_calibrated() -> None:
    p, y, s = promises()
    found = audit(p, y=y, sensitive_features={"s": s}, **QUICK)
    for f in found.findings:
        if f.metric.startswith("calibration"):
            assert f.value == pytest.approx(0.0, abs=1e-12), f
            assert f.low <= 0.0 <= f.high


@pytest.mark.parametrize("sign", [1, -1])
def test_promises_too_high_in_one_group_are_found_with_their_sign(sign: int) -> None:
    p, y, s = promises()
    told = p + np.where(s == "b", sign * 0.08, 0.0)
    found = audit(told, y=y, sensitive_features={"s": s}, **{**QUICK, "n_boot": 100})
    assert found.value("calibration_in_the_large", "s", group="a") == pytest.approx(0.0, abs=1e-12)
    (b,) = found.select(metric="calibration_in_the_large", group="b")
    assert b.value == pytest.approx(sign * 0.08)
    assert b.low * b.high > 0.0
    (gap,) = found.select(metric="calibration_difference")
    assert gap.value == pytest.approx(0.08)
    assert gap.low > 0.0
    assert found.value("calibration_error", "s", group="a") < 1e-9
    assert found.value("calibration_error", "s", group="b") == pytest.approx(0.08)


def test_over_confidence_is_no_error_in_the_large_but_in_its_tenths() -> None:
    p, y, s = promises()
    told = np.where(s == "b", 0.5 + 1.2 * (p - 0.5), p)
    found = audit(told, y=y, sensitive_features={"s": s}, **{**QUICK, "n_boot": 100})
    (large,) = found.select(metric="calibration_in_the_large", group="b")
    assert large.value == pytest.approx(0.0, abs=1e-12)
    errors = {f.group: f for f in found.select(metric="calibration_error")}
    assert errors["b"].value == pytest.approx(0.2 * np.abs(np.arange(1, 10) / 10 - 0.5).mean())
    assert errors["a"].value < errors["b"].low


def test_calibration_by_hand() -> None:
    rng = np.random.default_rng(1)
    p, s = rng.random(500), rng.integers(0, 2, 500)
    y = (rng.random(500) < p).astype(int)
    found = audit(p, y=y, sensitive_features={"s": s}, **QUICK)
    edges = np.quantile(p, np.arange(1, 10) / 10, method="inverted_cdf")
    tenth = np.searchsorted(edges, p, side="right")
    for group in (0, 1):
        mine = s == group
        each = [(p - y)[mine & (tenth == t)].sum() for t in range(10)]
        assert found.value("calibration_error", "s", group=str(group)) == pytest.approx(
            np.abs(each).sum() / mine.sum()
        )
        assert found.value("calibration_in_the_large", "s", group=str(group)) == pytest.approx(
            (p - y)[mine].mean()
        )


@pytest.mark.parametrize("scores", [[0.0, 1.0] * 100, [-0.1, 0.5] * 100, [0.5, 1.5] * 100])
def test_what_is_no_probability_has_no_calibration(scores: list[float]) -> None:
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, (2, 200))
    found = audit(scores, y=y, sensitive_features=s, **QUICK)
    assert not [f for f in found.findings if f.metric.startswith("calibration")]


# ------------------------------------------------------------------ sums and intervals themselves


@given(SEEDS, st.sampled_from(["largest", "range", "length", "sum"]))
def test_sizes_are_seminorms(seed: int, size: Any) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 5, 1))
    of_a, of_b = measure(a, size)[0], measure(b, size)[0]
    assert measure(a + b, size)[0] <= of_a + of_b + 1e-12
    assert abs(of_a - of_b) <= measure(a - b, size)[0] + 1e-12
    assert measure(-3.0 * a, size)[0] == pytest.approx(3.0 * of_a)


@given(SEEDS, st.floats(0.5, 0.99))
def test_an_interval_grows_with_its_level_and_stays_in_range(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.random(4)
    draws = parts[:, None] + 0.2 * rng.normal(size=(4, 100))
    value, low, high = summarise(parts, draws, "range", level)
    assert 0.0 <= low <= value <= high <= 1.0
    _, lower, higher = summarise(parts, draws, "range", min(level + 0.01, 0.999))
    assert lower <= low
    assert higher >= high


def test_resamples_without_a_group_are_left_out() -> None:
    draws = np.array([[0.1, np.nan, 0.3], [0.2, 0.2, 0.2]])
    assert np.isfinite(summarise(np.array([0.2, 0.2]), draws, "range", 0.9)).all()
    nothing = summarise(np.array([0.2, 0.5]), np.full((2, 3), np.nan), "range", 0.9)
    assert nothing[0] == pytest.approx(0.3)
    assert np.isnan(nothing[1:]).all()


@given(st.integers(1, 500), st.floats(0.5, 0.99))
def test_a_rate_of_nothing_or_all_gets_its_exact_limit(n: int, level: float) -> None:
    """Clopper and Pearson: the rate p at which none of n has the chance (1 - level) / 2."""
    low, high = rate_interval(0.0, np.zeros(10), n, level)
    assert low == 0.0
    assert (1.0 - high) ** n == pytest.approx((1.0 - level) / 2.0)
    assert rate_interval(1.0, np.ones(10), n, level) == pytest.approx((1.0 - high, 1.0))


@given(SEEDS, st.sampled_from(["largest", "range", "length", "sum"]))
def test_an_interval_reaches_as_far_down_as_up(seed, size):
    """The truth is as far off on either side: no end is drawn out beyond the quantile."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=4) + np.array([-9.0, 9.0, 9.0, 9.0])
    draws = parts[:, None] + rng.normal(size=(4, 200))
    value, low, high = summarise(parts, draws, size, 0.9, top=np.inf)
    reach = np.quantile(measure(draws - parts[:, None], size), 0.9)
    assert value - low == pytest.approx(reach)
    assert high - value == pytest.approx(reach)


def test_equalized_odds_pays_for_two_ranges():
    """Two ranges at once at level .9 are each held at .95."""
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 2000))
    decided = (rng.random(2000) < np.where(y == 1, 0.3 + 0.4 * s, 0.4)).astype(int)

    def found(level, metric):
        report = audit(
            decided.astype(float),
            decisions=decided,
            y=y,
            sensitive_features=s,
            parts=["decisions"],
            n_boot=200,
            random_state=0,
            level=level,
        )
        (one,) = [f for f in report.findings if f.metric == metric]
        return one.value, one.low, one.high

    both = found(0.9, "equalized_odds_difference")
    assert both == pytest.approx(found(0.95, "equal_opportunity_difference"))
    assert both != pytest.approx(found(0.9, "equal_opportunity_difference"))


def test_no_draws_are_the_exact_interval_and_no_p_value():
    nothing = np.full(5, np.nan)
    assert rate_interval(0.5, nothing, 40, 0.9) == pytest.approx(exact_interval(0.5, 40, 0.05))
    assert math.isnan(_p_value(np.append(0.7, nothing), 0.5))
    assert math.isnan(_p_value(np.append(np.nan, np.linspace(0.4, 0.6, 5)), 0.5))
