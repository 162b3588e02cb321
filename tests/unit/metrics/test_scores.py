from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.cases import CASES, load_case

from fairspan import DataWarning
from fairspan.metrics import (
    by_attribute,
    correlation_noise,
    correlation_ratio,
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_correlation,
    equal_opportunity_difference,
    equalized_odds_correlation,
    equalized_odds_difference,
    ks_distance,
    selection_rates,
    statistical_parity_correlation,
)

ON_SCORES = [statistical_parity_correlation, correlation_ratio, ks_distance]
ON_SCORES_AND_TARGET = [equal_opportunity_correlation, equalized_odds_correlation]
ON_DECISIONS = [
    demographic_parity_difference,
    demographic_parity_ratio,
    equalized_odds_difference,
    equal_opportunity_difference,
]


def call(metric, y, f, **kwargs):
    """Any metric: decisions are scores above zero."""
    if metric in ON_SCORES:
        return metric(f, **kwargs)
    return metric(y, (np.asarray(f) > 0).astype(int) if metric in ON_DECISIONS else f, **kwargs)


# ---- drawn data: every (y, s) cell is filled, so that every metric is defined


@st.composite
def samples(draw, n_levels=None, max_weight=3):
    """y (two classes), f (few decimals, so ties occur), s (levels 0, 1, ..), integer weights."""
    n_levels = n_levels or draw(st.integers(2, 4))
    cells = [(y, s) for y in (0, 1) for s in range(n_levels)]
    cells += draw(st.lists(st.sampled_from(cells), max_size=25))
    n = len(cells)
    y, s = np.array(cells).T
    f = np.array(draw(st.lists(st.integers(-30, 30), min_size=n, max_size=n))) / 10.0
    w = np.array(draw(st.lists(st.integers(1, max_weight), min_size=n, max_size=n)))
    return y, f, s, w


all_metrics = pytest.mark.parametrize("metric", ON_SCORES + ON_SCORES_AND_TARGET + ON_DECISIONS)


# ---- oracles: plain loops over rows


def mean(values, weights):
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def plain_correlation(f, s, w):
    mf, ms = mean(f, w), mean(s, w)
    cov = mean([(a - mf) * (b - ms) for a, b in zip(f, s, strict=True)], w)
    vf, vs = mean([(a - mf) ** 2 for a in f], w), mean([(b - ms) ** 2 for b in s], w)
    return 0.0 if max(f) == min(f) else abs(cov) / np.sqrt(vf * vs)


def plain_level_correlation(f, s, w):
    return max(plain_correlation(f, [float(v == h) for v in s], w) for h in set(s))


def plain_ratio(f, s, w):
    if max(f) == min(f):
        return 0.0
    m, between = mean(f, w), 0.0
    for h in set(s):
        rows = [i for i in range(len(s)) if s[i] == h]
        group = mean([f[i] for i in rows], [w[i] for i in rows])
        between += sum(w[i] for i in rows) * (group - m) ** 2
    return np.sqrt(between / sum(w) / mean([(v - m) ** 2 for v in f], w))


def plain_ks(f, s, w):
    def cdf(h, x):
        rows = [i for i in range(len(s)) if s[i] == h]
        return sum(w[i] for i in rows if f[i] <= x) / sum(w[i] for i in rows)

    return max(abs(cdf(a, x) - cdf(b, x)) for a, b in combinations(set(s), 2) for x in f)


def plain_rates(d, s, w, inside):
    rates = {}
    for h in set(s):
        rows = [i for i in range(len(s)) if s[i] == h and inside[i]]
        rates[h] = sum(w[i] for i in rows if d[i] == 1) / sum(w[i] for i in rows)
    return rates


def gap(rates):
    return max(rates.values()) - min(rates.values())


@given(samples())
def test_scores_equal_plain_loops(sample):
    y, f, s, w = sample
    kw = {"sensitive_features": s, "sample_weight": w}
    lists = f.tolist(), s.tolist(), w.tolist()
    tolerance = {"rel": 1e-9, "abs": 1e-9}
    expected = pytest.approx(plain_level_correlation(*lists), **tolerance)
    assert statistical_parity_correlation(f, **kw) == expected
    assert correlation_ratio(f, **kw) == pytest.approx(plain_ratio(*lists), **tolerance)
    assert ks_distance(f, **kw) == pytest.approx(plain_ks(*lists), **tolerance)
    by_class = [
        plain_level_correlation(f[y == c].tolist(), s[y == c].tolist(), w[y == c].tolist())
        for c in (0, 1)
    ]
    assert equal_opportunity_correlation(y, f, **kw) == pytest.approx(by_class[1], **tolerance)
    assert equal_opportunity_correlation(y, f, pos_label=0, **kw) == pytest.approx(
        by_class[0], **tolerance
    )
    assert equalized_odds_correlation(y, f, **kw) == pytest.approx(max(by_class), **tolerance)


@given(samples())
def test_decisions_equal_plain_loops(sample):
    y, f, s, w = sample
    d = (f > 0).astype(int)
    kw = {"sensitive_features": s, "sample_weight": w}
    rates = plain_rates(d, s.tolist(), w, np.ones(len(y), bool))
    tpr, fpr = (plain_rates(d, s.tolist(), w, y == c) for c in (1, 0))
    found = selection_rates(y, d, **kw)["sensitive_feature_0"]
    assert found == pytest.approx({str(h): rate for h, rate in rates.items()})
    assert demographic_parity_difference(y, d, **kw) == pytest.approx(gap(rates))
    ratio = min(rates.values()) / max(rates.values()) if any(rates.values()) else 1.0
    assert demographic_parity_ratio(y, d, **kw) == pytest.approx(ratio)
    assert equal_opportunity_difference(y, d, **kw) == pytest.approx(gap(tpr))
    assert equalized_odds_difference(y, d, **kw) == pytest.approx(max(gap(tpr), gap(fpr)))


@given(st.lists(st.integers(0, 300), min_size=3, max_size=60), st.integers(2, 12), st.data())
def test_continuous_attribute_equals_plain_loops_and_is_sliced_by_the_rule(values, n_bins, data):
    s = np.array(values) / 8.0
    if len(set(values)) < 3:
        s[:3] = [0.25, 0.5, 1.0]
    n = len(s)
    w = np.array(data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    f = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), dtype=float)
    copies = sorted(np.repeat(s, w))
    if len(set(s)) <= n_bins:
        edges = sorted(set(s))[1:]
    else:  # the smallest value with at least i/n_bins of the rows at or below it
        at = [-(-i * len(copies) // n_bins) - 1 for i in range(1, n_bins)]
        edges = sorted({copies[k] for k in at} - {copies[0]}) or sorted(set(s))[1:2]
    codes = [sum(v >= e for e in edges) for v in s]
    kw = {"sensitive_features": s, "sample_weight": w, "sensitive_kind": "continuous"}
    expected = plain_correlation(f.tolist(), s.tolist(), w.tolist())
    found = statistical_parity_correlation(f, **kw)
    kw["n_bins"] = n_bins
    assert found == pytest.approx(expected, abs=1e-9)
    expected = plain_ratio(f.tolist(), codes, w.tolist())
    assert correlation_ratio(f, **kw) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    expected = plain_ks(f.tolist(), codes, w.tolist())
    assert ks_distance(f, **kw) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_golden_correlations(name):
    case = load_case(name)
    metric = {
        "sp": statistical_parity_correlation,
        "eop": equal_opportunity_correlation,
        "eo": equalized_odds_correlation,
    }[case.settings["criterion"]]
    for row in case.reference["by_eps"]:
        f = row["mean_test"]
        args = (f,) if metric in ON_SCORES else (case.y_test, f)
        for definition, kind in (("code", "continuous"), ("level", "categorical")):
            kw = {"sensitive_features": case.S_test, "sensitive_kind": kind}
            each = list(by_attribute(metric, *args, **kw).values())
            expected = row["abs_corr_test"][definition]
            assert each == pytest.approx(expected, abs=case.atol["abs_corr"])
            assert metric(*args, **kw) == max(each)


# ---- laws


@all_metrics
@given(samples())
def test_range(metric, sample):
    y, f, s, w = sample
    assert 0.0 <= call(metric, y, f, sensitive_features=s, sample_weight=w) <= 1.0


@all_metrics
@given(samples(), st.permutations(["w", "b", "a", "z"]))
def test_names_of_groups_do_not_matter(metric, sample, names):
    y, f, s, w = sample
    renamed = np.array(names)[s]
    assert call(metric, y, f, sensitive_features=s, sample_weight=w) == pytest.approx(
        call(metric, y, f, sensitive_features=renamed, sample_weight=w), abs=1e-12
    )


@pytest.mark.parametrize("metric", ON_SCORES + ON_SCORES_AND_TARGET)
@given(samples(), st.integers(-50, 50), st.sampled_from([-3.0, -0.25, 0.5, 8.0]))
def test_affine_changes_of_the_score_do_not_matter(metric, sample, shift, scale):
    y, f, s, w = sample
    before = call(metric, y, f, sensitive_features=s, sample_weight=w)
    after = call(metric, y, shift + scale * f, sensitive_features=s, sample_weight=w)
    # rounding may split ties of f, which only the order-based distance could notice
    assert after == pytest.approx(before, abs=1e-9)


@all_metrics
@given(samples())
def test_weight_k_is_k_copies_and_weight_zero_is_no_row(metric, sample):
    y, f, s, w = sample
    y2, f2, s2 = (np.repeat(v, w) for v in (y, f, s))
    expected = call(metric, y2, f2, sensitive_features=s2)
    weighted = call(metric, y, f, sensitive_features=s, sample_weight=w / 7.0)
    assert weighted == pytest.approx(expected, abs=1e-12)
    # a row of weight zero, with a group and a score of its own
    y3, f3, s3 = np.append(y, 1), np.append(f, 99.0), np.append(s, 17)
    padded = call(metric, y3, f3, sensitive_features=s3, sample_weight=np.append(w, 0))
    assert padded == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=8), st.integers(2, 4))
def test_independent_by_construction(values, n_levels):
    """Every group has the same scores and the same classes: f and s are independent given y."""
    f = np.tile(np.repeat(values, 2), n_levels) / 10.0
    y = np.tile([0, 1], n_levels * len(values))
    s = np.repeat(np.arange(n_levels), 2 * len(values))
    for metric in ON_SCORES + ON_SCORES_AND_TARGET + ON_DECISIONS:
        fair = 1.0 if metric is demographic_parity_ratio else 0.0
        # the square root in the correlation ratio halves the digits of a zero
        assert call(metric, y, f, sensitive_features=s) == pytest.approx(fair, abs=1e-7)


@given(samples())
def test_the_order_of_the_metrics(sample):
    y, f, s, w = sample
    kw = {"sensitive_features": s, "sample_weight": w}
    level, ratio = statistical_parity_correlation(f, **kw), correlation_ratio(f, **kw)
    assert level <= ratio + 1e-9
    if len(set(s)) == 2:
        assert level == pytest.approx(ratio, abs=1e-9)
    gaps = [demographic_parity_difference(y, (f > t).astype(int), **kw) for t in f if t < f.max()]
    assert ks_distance(f, **kw) == pytest.approx(max(gaps, default=0.0), abs=1e-12)
    assert equal_opportunity_correlation(y, f, **kw) <= equalized_odds_correlation(y, f, **kw)


@given(samples(), samples())
def test_several_attributes_give_the_worst_and_by_attribute_gives_each(one, two):
    n = min(len(one[0]), len(two[0]))
    f, s, t, y = one[1][:n], one[2][:n], two[2][:n], np.arange(n) % 2
    for metric in [*ON_SCORES, demographic_parity_difference, demographic_parity_ratio]:
        args = (f,) if metric in ON_SCORES else (y, (f > 0).astype(int))
        each = by_attribute(metric, *args, sensitive_features={"s": s, "t": t})
        assert each == {
            "s": metric(*args, sensitive_features=s),
            "t": metric(*args, sensitive_features=t),
        }
        worst = min if metric is demographic_parity_ratio else max
        assert metric(*args, sensitive_features=np.c_[s, t]) == worst(each.values())


@given(samples(n_levels=2), st.data())
def test_intersectional_is_the_metric_of_the_crossed_column(sample, data):
    y, f, s, w = sample
    n = len(y)
    t = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    t[:2] = "a", "b"
    crossed = [f"{a}-{b}" for a, b in zip(s, t, strict=True)]
    both = {"s": s, "t": t}
    for metric in [correlation_ratio, ks_distance, demographic_parity_difference]:
        kw = {"sample_weight": w}
        found = call(metric, y, f, sensitive_features=both, intersectional=True, **kw)
        assert found == pytest.approx(call(metric, y, f, sensitive_features=crossed, **kw))
        assert found >= call(metric, y, f, sensitive_features=both, **kw) - 1e-12


def test_parity_can_hold_for_each_attribute_and_fail_for_the_intersection():
    s, t = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    kw = {"sensitive_features": np.c_[s, t]}
    assert demographic_parity_difference(s, s ^ t, **kw) == 0.0
    assert demographic_parity_difference(s, s ^ t, intersectional=True, **kw) == 1.0
    assert selection_rates(s, s ^ t, intersectional=True, **kw) == {
        "sensitive_feature_0 x sensitive_feature_1": {
            "0 & 0": 0.0,
            "0 & 1": 1.0,
            "1 & 0": 1.0,
            "1 & 1": 0.0,
        }
    }


# ---- definitions that a reader may get wrong


def test_continuous_attribute_uses_its_values_not_its_levels(rng):
    s = rng.normal(size=200)
    f = s + rng.normal(size=200)
    expected = abs(np.corrcoef(f, s)[0, 1])
    assert statistical_parity_correlation(f, sensitive_features=s) == pytest.approx(expected)
    bent = s**2 - np.mean(s**2)
    assert correlation_ratio(bent, sensitive_features=s) > 0.8
    assert statistical_parity_correlation(bent, sensitive_features=s) < 0.3


def test_kinds():
    f = np.arange(24.0) ** 2
    s = np.arange(24) % 3
    auto = statistical_parity_correlation(f, sensitive_features=s)
    with pytest.warns(DataWarning, match="read as continuous numbers"):
        as_numbers = statistical_parity_correlation(f, sensitive_features=s.astype(float))
    assert as_numbers == pytest.approx(abs(np.corrcoef(f, s)[0, 1]))
    assert auto == pytest.approx(plain_level_correlation(f, s, np.ones(24)))
    for kind in ("continuous", ["continuous"], {"a": "continuous"}):
        found = statistical_parity_correlation(f, sensitive_features={"a": s}, sensitive_kind=kind)
        assert found == as_numbers
    mixed = {"a": s, "age": f[::-1].copy(), "word": np.array(["x", "y"] * 12)}
    assert by_attribute(
        "statistical_parity_correlation",
        f,
        sensitive_features=mixed,
        sensitive_kind={"a": "categorical"},
    ) == {
        "a": auto,
        "age": pytest.approx(abs(np.corrcoef(f, f[::-1])[0, 1])),
        "word": pytest.approx(abs(np.corrcoef(f, np.arange(24) % 2)[0, 1])),
    }


def test_rows_of_weight_zero_do_not_decide_the_kind(rng):
    s, f = np.tile(np.arange(20), 5), rng.normal(size=100)  # 20 integers are categories, 21 are not
    expected = statistical_parity_correlation(f, sensitive_features=s)
    kw = {"sensitive_features": np.append(s, 20), "sample_weight": np.append(np.ones(100), 0.0)}
    f = np.append(f, 0.0)
    assert statistical_parity_correlation(f, **kw) == pytest.approx(expected)
    each = by_attribute("statistical_parity_correlation", f, **kw)
    assert each == {"sensitive_feature_0": pytest.approx(expected)}


def test_equalized_odds_correlation_takes_many_classes_and_slices_a_numeric_target(rng):
    s = rng.integers(0, 2, 300)
    f = rng.normal(size=300) + s
    classes = rng.choice(["a", "b", "c"], 300)
    expected = max(abs(np.corrcoef(f[classes == c], s[classes == c])[0, 1]) for c in "abc")
    found = equalized_odds_correlation(classes, f, sensitive_features=s)
    assert found == pytest.approx(expected)
    target = rng.permutation(np.linspace(0.0, 1.0, 300))
    half = target >= np.sort(target)[149]  # the inverted CDF at 1/2 opens the upper slice
    expected = max(abs(np.corrcoef(f[m], s[m])[0, 1]) for m in (half, ~half))
    found = equalized_odds_correlation(target, f, sensitive_features=s, n_bins=2)
    assert found == pytest.approx(expected)
    w = 1 + 3 * (target > 0.8)
    weighted = equalized_odds_correlation(target, f, sensitive_features=s, sample_weight=w)
    y2, f2, s2 = (np.repeat(v, w) for v in (target, f, s))
    copied = equalized_odds_correlation(y2, f2, sensitive_features=s2)
    assert weighted == pytest.approx(copied)


def test_scores_of_several_outputs_give_the_worst(rng):
    F, y, s = rng.normal(size=(50, 3)), np.arange(50) % 2, rng.integers(0, 3, 50)
    for metric in ON_SCORES + ON_SCORES_AND_TARGET:
        each = [call(metric, y, column, sensitive_features=s) for column in F.T]
        assert call(metric, y, F, sensitive_features=s) == pytest.approx(max(each))


def test_constant_score_is_fair_also_up_to_rounding():
    s, y = np.arange(20) % 2, np.arange(20) // 10
    for f in (np.full(20, 0.1), 0.1 + 1e-16 * s, np.zeros(20)):
        for metric in [statistical_parity_correlation, correlation_ratio, *ON_SCORES_AND_TARGET]:
            assert call(metric, y, f, sensitive_features=s) == 0.0
    assert ks_distance(np.full(20, 0.1), sensitive_features=s) == 0.0


def test_extreme_scales_neither_overflow_nor_vanish():
    s = np.array([0, 0, 1, 1])
    for scale in (1e-300, 1e300, 1.7e308):
        f = np.array([-1.0, -0.5, 0.5, 1.0]) * scale
        expected = pytest.approx(statistical_parity_correlation(f / scale, sensitive_features=s))
        assert statistical_parity_correlation(f, sensitive_features=s) == expected


def test_nobody_selected_is_parity():
    kw = {"sensitive_features": [0, 0, 1, 1]}
    assert demographic_parity_ratio([0, 1, 0, 1], [0, 0, 0, 0], **kw) == 1.0
    assert demographic_parity_difference([0, 1, 0, 1], [0, 0, 0, 0], **kw) == 0.0


def test_rates_of_slices_are_named_and_groups_are_never_lost():
    y, s = [1] * 12, np.linspace(0.0, 1.1, 12)
    rates = selection_rates(y, [0] * 6 + [1] * 6, sensitive_features={"age": s}, n_bins=3)
    assert rates == {"age": {"< 0.3": 0.0, "[0.3, 0.7)": 0.25, ">= 0.7": 1.0}}
    ids = [10_000_001, 10_000_002] * 6  # equal to six digits
    (rates,) = selection_rates(y, [0, 1] * 6, sensitive_features=ids).values()
    assert sorted(rates.values()) == [0.0, 1.0]


def test_pos_label_of_any_type():
    s = ["F", "F", "M", "M"]
    text = demographic_parity_difference(
        ["no", "yes"] * 2, ["no", "no", "yes", "yes"], sensitive_features=s, pos_label="yes"
    )
    flag = demographic_parity_difference(
        [False, True] * 2, [False, False, True, True], sensitive_features=s
    )
    assert text == flag == 1.0


def test_correlation_noise():
    assert correlation_noise(100, 400) == pytest.approx(0.15)
    with pytest.raises(ValueError, match="n_test"):
        correlation_noise(0, 4)


# ---- containers


def test_containers_agree():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    f = np.array([0.1, 0.9, 0.4, 0.5, 0.7, 0.2])
    columns = {"sex": ["F", "M", "F", "M", "M", "F"], "age": [20.5, 30.0, 41.0, 55.5, 60.0, 33.0]}
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    expected = by_attribute("statistical_parity_correlation", f, sensitive_features=columns)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        got = by_attribute("statistical_parity_correlation", f, sensitive_features=frame)
        assert got == expected
    for unnamed in (rows, np.array(rows, dtype=object)):
        got = by_attribute("statistical_parity_correlation", f, sensitive_features=unnamed)
        assert list(got.values()) == list(expected.values())
    for series in (
        pd.Series(columns["sex"], name="sex", index=range(6, 12)),
        pd.Series(columns["sex"], dtype="category", name="sex"),
        pl.Series("sex", columns["sex"]),
        pl.Series("sex", columns["sex"], dtype=pl.Categorical),
    ):
        got = by_attribute("statistical_parity_correlation", f, sensitive_features=series)
        assert got == {"sex": expected["sex"]}
    y = pd.Series([0, 1, 0, 1, 1, 0], index=list("uvwxyz"))
    polars_y = pl.Series([0, 1, 0, 1, 1, 0])
    assert demographic_parity_difference(y, polars_y, sensitive_features=columns["sex"]) == 1.0


def test_category_dtype_of_numbers_stays_categorical():
    pd = pytest.importorskip("pandas")
    values, f = [1.5, 2.5, 9.0, 1.5, 2.5, 9.0], [0.0, 2.0, 0.0, 0.5, 2.0, 1.0]
    expected = statistical_parity_correlation(f, sensitive_features=list(map(str, values)))
    frame = pd.DataFrame({"s": pd.Categorical(values)})
    assert statistical_parity_correlation(f, sensitive_features=frame) == expected
    each = by_attribute("statistical_parity_correlation", f, sensitive_features=frame)
    assert each == {"s": expected}


# ---- errors name the culprit


GOOD = {"y": [0, 1, 0, 1], "f": [0.1, 0.2, 0.3, 0.4], "s": ["a", "a", "b", "b"]}


@all_metrics
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": ["a", "b", "b"]}, "sensitive_features has 3"),
        ({"s": {"sex": ["a", "b", "b"]}}, "'sex' has 3 rows"),
        ({"s": {"sex": ["a", None, "b", "b"]}}, "'sex' is missing"),
        ({"s": [0.5, np.nan, 1.0, 2.0]}, "'sensitive_feature_0' is missing"),
        ({"s": {"sex": ["a"] * 4}}, "'sex' is constant"),
        ({"s": np.zeros((4, 1, 1))}, "sensitive_features"),
        ({"w": [1, 1, 1]}, "sample_weight has 3"),
        ({"w": [1, -1, 1, 1]}, "sample_weight is negative in 1 rows"),
        ({"w": [0, 0, 0, 0]}, "sample_weight is zero"),
        ({"w": np.ones((4, 2))}, "sample_weight must be one column"),
        ({"w": [1, np.nan, 1, 1]}, "sample_weight has NaN"),
        ({"kind": "nominal"}, "sensitive_kind='nominal'"),
        ({"kind": "continuous"}, "'sensitive_feature_0' holds text"),
        ({"kind": ["auto", "auto"]}, r"sensitive_kind=\['auto', 'auto'\] does not fit"),
        ({"kind": {"sex": "auto"}}, r"sensitive_kind=\{'sex': 'auto'\} does not fit"),
    ],
)
def test_bad_rows(metric, change, message):
    data = {**GOOD, "w": None, "kind": "auto", **change}
    kw = {"sensitive_features": data["s"], "sample_weight": data["w"]}
    with pytest.raises(ValueError, match=message):
        call(metric, data["y"], data["f"], sensitive_kind=data["kind"], **kw)


@pytest.mark.parametrize("metric", ON_SCORES + ON_SCORES_AND_TARGET)
@pytest.mark.parametrize(
    ("f", "message"),
    [
        ([0.1, np.nan, 0.3, 0.4], "scores has NaN"),
        ([0.1, np.inf, 0.3, 0.4], "scores has NaN or infinite"),
        ([0.1, 0.2], "scores has 2"),
        (["no", "yes", "no", "no"], "scores must be numbers, got .*no"),
        ([], "scores must be 1D or 2D and not empty"),
        (3.0, "scores must be 1D or 2D"),
    ],
)
def test_bad_scores(metric, f, message):
    args = (f,) if metric in ON_SCORES else (GOOD["y"], f)
    with pytest.raises(ValueError, match=message):
        metric(*args, sensitive_features=GOOD["s"], sample_weight=[1, 1, 1, 1])


@pytest.mark.parametrize("metric", ON_SCORES_AND_TARGET + ON_DECISIONS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 0], "y_true has 3"),
        ([0.0, np.nan, 0.0, 1.0], "y_true is missing"),
        (["a", np.nan, "b", "b"], "y_true is missing"),
        ([0, None, 0, 1], "y_true is missing"),
        (np.zeros((4, 2)), "y_true must be one column"),
    ],
)
def test_bad_targets(metric, y, message):
    with pytest.raises(ValueError, match=message):
        call(metric, y, GOOD["f"], sensitive_features=GOOD["s"], sample_weight=[1, 1, 1, 1])


def test_cells_without_rows_are_named():
    s = {"sex": ["a", "a", "b", "b"]}
    with pytest.raises(ValueError, match=r"no rows with y_true = 1 and sex = 'b'"):
        equal_opportunity_difference([1, 0, 0, 0], [1, 0, 1, 0], sensitive_features=s)
    with pytest.raises(ValueError, match=r"no rows with y_true other than 1 and sex = 'a'"):
        equalized_odds_difference([1, 1, 1, 0], [1, 0, 1, 0], sensitive_features=s)
    with pytest.raises(ValueError, match=r"'sex' is constant where y_true = 1"):
        equal_opportunity_correlation([1, 1, 0, 0], GOOD["f"], sensitive_features=s)
    with pytest.raises(ValueError, match=r"'sex' is constant where y_true = '0'"):
        equalized_odds_correlation([1, 1, 0, 1], GOOD["f"], sensitive_features=s)
    with pytest.raises(ValueError, match="y_true has one class"):
        equalized_odds_correlation([1, 1, 1, 1], GOOD["f"], sensitive_features=s)


def test_pos_label_that_is_not_there():
    s, f = GOOD["s"], GOOD["f"]
    for metric in ON_DECISIONS:
        with pytest.raises(ValueError, match=r"pos_label=1 is not among the labels 'n', 'y'"):
            metric(["n", "y"] * 2, ["n", "n", "y", "y"], sensitive_features=s)
    with pytest.raises(ValueError, match=r"pos_label=2 is not among the labels 0, 1"):
        equal_opportunity_correlation([0, 1, 0, 1], f, sensitive_features=s, pos_label=2)
    with pytest.raises(ValueError, match="use equalized_odds_correlation"):
        equal_opportunity_correlation([0.5, 1.5, 2.5, 3.5], f, sensitive_features=s)


def test_bad_n_bins_and_missing_arguments():
    with pytest.raises(ValueError, match="n_bins must be at least 2"):
        correlation_ratio(GOOD["f"], sensitive_features=GOOD["s"], n_bins=1)
    with pytest.raises(ValueError, match="needs the arguments of the metric"):
        by_attribute("ks_distance", sensitive_features=GOOD["s"])


# ---- fairlearn


@given(samples(), st.data())
def test_decisions_equal_fairlearn(sample, data):
    theirs = pytest.importorskip("fairlearn.metrics")
    y, f, s, w = sample
    d = (f > 0).astype(int)
    for kw in ({}, {"sample_weight": w}):
        for metric in ON_DECISIONS:
            if metric is demographic_parity_ratio and not d.any():
                continue  # 0/0 there, 1 here
            expected = getattr(theirs, metric.__name__)(y, d, sensitive_features=s, **kw)
            found = metric(y, d, sensitive_features=s, **kw)
            assert found == pytest.approx(expected, abs=1e-12)
    n = len(y)
    t = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    t[:2] = 0, 1
    both = np.c_[s, t]
    expected = theirs.demographic_parity_difference(y, d, sensitive_features=both)
    found = demographic_parity_difference(y, d, sensitive_features=both, intersectional=True)
    assert found == pytest.approx(expected, abs=1e-12)


# ---- scorers
