import numpy as np
import pytest

from fairspan import DataWarning, FairRidgeClassifier, audit

pd = pytest.importorskip("pandas")

FAST = {"parts": ["scores", "decisions"], "n_boot": 60, "random_state": 0}
QUIET = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


def make(n=500, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    code = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    score = rng.normal(size=n) + 0.6 * code
    number = score + rng.normal(size=n)
    return p, code, score, number, rng.uniform(0.5, 2.0, n)


def table(p):
    return pd.DataFrame(p, columns=["race_a", "race_b", "race_c"])


def by_key(result):
    return {(f.section, f.metric, f.attribute, f.group, f.where): f for f in result.findings}


@pytest.mark.parametrize("kind", ["classes", "numbers", "weights", "strata", "groups"])
def test_probabilities_of_0_and_1_are_categories(kind):
    _, code, score, number, weight = make()
    given = {} if kind == "numbers" else {"decisions": (score > 0.5).astype(int)}
    y = number if kind == "numbers" else (number > 0.5).astype(int)
    if kind == "weights":
        given["sample_weight"] = weight
    if kind == "strata":
        given["control_features"] = pd.Series(np.where(score + number > 0, "s", "t"), name="place")
    if kind == "groups":
        given["groups"] = np.arange(500) // 3
    known = pd.Series(np.array(["a", "b", "c"])[code], name="race")
    wanted = by_key(audit(score, y=y, sensitive_features=known, **given, **FAST))
    hot = table(np.eye(3)[code])
    options = {"sensitive_features": hot, "sensitive_kind": "probabilities"}
    found = by_key(audit(score, y=y, **options, **given, **FAST))
    assert found.keys() == wanted.keys()
    assert len(found) > 8
    for key, a in wanted.items():
        b = found[key]
        np.testing.assert_allclose(b.value, a.value, rtol=1e-9, err_msg=str(key))
        assert (b.small, b.note) == (a.small, a.note)
        if kind != "weights":
            assert b.n_rows == a.n_rows
        assert np.isnan(b.value) or b.low <= b.value <= b.high


def test_the_true_gap_is_in_the_interval():
    p, code, score, number, _ = make(n=8000)
    decisions, y = (score > 0.5).astype(int), (number > 0.5).astype(int)
    with pytest.warns(DataWarning, match="known as probabilities: race") as seen:
        result = audit(
            score,
            y=y,
            decisions=decisions,
            sensitive_features=table(p),
            sensitive_kind={"race": "probabilities"},
            **FAST,
        )
    assert len(seen) == 1
    rates = [decisions[code == j].mean() for j in range(3)]
    found = by_key(result)[("decisions", "demographic_parity_difference", "race", "", "")]
    assert found.low <= max(rates) - min(rates) <= found.high
    for j, group in enumerate("abc"):
        rate = by_key(result)[("decisions", "selection_rate", "race", group, "")]
        assert rate.low <= rates[j] <= rate.high
        assert rate.n_rows == round(p[:, j].sum())
    assert result.group_sizes == {"race": {g: round(p[:, j].sum()) for j, g in enumerate("abc")}}


@QUIET
def test_other_attributes_and_parts():
    p, code, score, number, _ = make(300)
    y = (number > 0.5).astype(int)
    options = {"sensitive_kind": {"race": "probabilities"}, "n_boot": 30, "random_state": 0}
    S = table(p).assign(sex=np.where(code + score > 0.5, "f", "m"))
    result = audit(score, y=y, sensitive_features=S, **options)
    of_section = {s: {f.attribute for f in result.select(s)} for s in ("scores", "tests")}
    assert of_section == {"scores": {"race", "sex"}, "tests": {"sex"}}
    only = audit(score, y=y, sensitive_features=table(p), **options)
    assert not only.select("tests")
    assert "skipped, tests: needs the group of each row, not probabilities" in str(only)
    with pytest.raises(ValueError, match="needs the group of each row, not probabilities"):
        audit(score, y=y, sensitive_features=table(p), parts=["tests"], **options)


@QUIET
def test_the_kind_of_a_fitted_model_is_known():
    p, _, score, number, _ = make(300)
    X, y = np.column_stack([score, number**2]), np.where(number > 0.5, "yes", "no")
    model = FairRidgeClassifier(sensitive_kind="probabilities", n_components=20, gamma=0.1)
    model.fit(X, y, sensitive_features=table(p))
    result = audit(model, X, y, sensitive_features=table(p), **FAST)
    assert {f.attribute for f in result.select("scores")} == {"race"}
