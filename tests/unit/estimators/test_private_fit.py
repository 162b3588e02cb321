"""What a fit that is private in S refuses, and how groups are named."""

import numpy as np
import pytest

import fairspan
from fairspan import FairGPClassifier, FairnessPath, FairRidge, FairRidgeClassifier, fairness_path
from fairspan.estimators import private_fit
from fairspan.exceptions import DataWarning
from fairspan.report import explore

pd = pytest.importorskip("pandas")

PRIVATE = {"epsilon_sensitive": 8.0, "sensitive_groups": ["f", "m"], "gamma": 0.2}


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch):
    monkeypatch.setattr(private_fit, "_SPENT", {})


def make(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += s == "f"
    return X, X.sum(axis=1) + rng.normal(size=n), s


def new(kind=FairRidge, **options):
    return kind(**{"n_components": 20, "random_state": 0, **PRIVATE, **options})


BAD = {
    "no groups": ({"sensitive_groups": None}, "needs sensitive_groups"),
    "groups alone": ({"epsilon_sensitive": None}, "sensitive_groups is for epsilon_sensitive"),
    "seed alone": (
        {"epsilon_sensitive": None, "sensitive_groups": None, "noise_state": 1},
        "noise_state is for",
    ),
    "epsilon": ({"epsilon_sensitive": 0.0}, "epsilon_sensitive=0.0 is not allowed"),
    "epsilon text": ({"epsilon_sensitive": "1"}, "epsilon_sensitive='1' is not allowed"),
    "delta": ({"delta_sensitive": 0}, "delta_sensitive=0 is not allowed"),
    "delta per row": ({"delta_sensitive": 0.01}, "not below 1/n for 400 rows"),
    "seed": ({"noise_state": -1}, "noise_state=-1 is not allowed"),
    "training rows": ({"removal": "training_rows"}, "removal='training_rows' excludes"),
    "paper": ({"method": "rkhs"}, "method='rkhs' excludes"),
    "kind": ({"sensitive_kind": "continuous"}, "sensitive_kind='continuous'"),
    "missing": ({"missing_sensitive": "omit"}, "missing_sensitive='omit'"),
    "one group": ({"sensitive_groups": ["f"]}, "two or more different names"),
    "twice": ({"sensitive_groups": ["f", "m", "f"]}, "two or more different names"),
    "text": ({"sensitive_groups": "fm"}, "two or more different names"),
    "other name": ({"sensitive_groups": {"sex": ["f", "m"]}}, "does not fit the attributes"),
    "not named": ({"sensitive_groups": ["f", "x"]}, "does not name"),
    "numbers": ({"sensitive_groups": [0, 1]}, "does not name"),
    "decisions": ({"equalize": "decisions"}, "keeps epsilon_sensitive"),
    "likelihood": ({"curvature": "likelihood"}, "curvature='likelihood' has no form"),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals_of_a_fit(case):
    X, y, s = make()
    options, message = BAD[case]
    kind = {"decisions": FairRidgeClassifier, "likelihood": FairGPClassifier}.get(case, FairRidge)
    with pytest.raises(ValueError, match=message) as caught:
        new(kind, **options).fit(X, y > 0 if kind is not FairRidge else y, sensitive_features=s)
    assert "'m'" not in str(caught.value) or "m" in str(options.get("sensitive_groups"))


def test_an_unnamed_value_is_not_repeated():
    X, y, s = make()
    s[7] = "secret"
    with pytest.raises(ValueError, match="does not name") as caught:
        new().fit(X, y, sensitive_features=s)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_one_release_only():
    X, y, s = make()
    given = {"sensitive_features": s}
    for method in ("prepare", "partial_fit"):
        with pytest.raises(ValueError, match=f"{method} is not possible with epsilon_sensitive=8"):
            getattr(new(), method)(X, y, **given)
    with pytest.raises(ValueError, match="fit_stream is not possible"):
        new().fit_stream([(X, y, s)])
    model = new().fit(X, y, **given)
    with pytest.raises(ValueError, match="merge is not possible"):
        model.merge(model)
    with pytest.raises(ValueError, match="solve is not possible"):
        model.solve()
    with pytest.raises(ValueError, match="partial_fit is not possible"):
        model.partial_fit(X, y, **given)
    with pytest.raises(ValueError, match="forget is not possible"):
        model.forget(X[:1], y[:1], sensitive_features=s[:1])
    with pytest.raises(ValueError, match="A file of moments is not possible"):
        model.export_moments("moments.npz", site="north")


def test_the_rows_of_the_fit_are_not_counted_by_group():
    X, y, s = make()
    other = make(seed=1)
    model = new().fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="fairness_path is not possible"):
        fairness_path(new(), X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="A path over training rows is not possible"):
        FairnessPath.from_estimator(model, X, y, sensitive_features=s)
    assert len(FairnessPath.from_estimator(model, *other[:2], sensitive_features=other[2])) == 101
    with pytest.raises(ValueError, match="An audit of training rows is not possible"):
        fairspan.audit(model, X, y, sensitive_features=s, parts=["scores"])
    with pytest.raises(ValueError, match="conformalize by group is not possible"):
        model.conformalize(*other[:2], sensitive_features=other[2])
    assert model.conformalize(*other[:2]).predict_interval(X).shape == (400, 2)


def test_decisions_cannot_be_chosen_later():
    X, y, s = make()
    model = new(FairRidgeClassifier).fit(X, y > 0, sensitive_features=s)
    with pytest.raises(ValueError, match="keeps epsilon_sensitive"):
        model.at(max_gap=0.05)


def test_explore_is_refused():
    X, y, s = make()
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, s=s)
    with pytest.raises(ValueError, match="explore is not possible"):
        explore(table, target="y", sensitive_features="s", model=new())


def test_feature_maps_of_s_and_tensors_are_refused():
    X, y, s = make()
    leaves = fairspan.BoostedLeaves()
    with pytest.raises(ValueError, match="BoostedLeaves is fitted on the protected attributes"):
        new(feature_map=leaves, gamma="cv").fit(X, y, sensitive_features=s)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="needs arrays"):
        new().fit(torch.as_tensor(X), torch.as_tensor(y), sensitive_features=torch.zeros(400))


@pytest.mark.parametrize("values", [[0, 1], [True, False], ["0", "1"], [0.0, 1.5]])
def test_names_of_any_type(values):
    X, y, s = make()
    S = pd.DataFrame({"s": np.where(s == "f", *values) if values[0] != "0" else (s == "f") * 1})
    S = S.astype(str) if values[0] == "0" else S
    model = new(sensitive_groups={"s": values}).fit(X, y, sensitive_features=S)
    assert model.sensitive_kinds_ == {"s": "categorical"}
    assert model.pilot_.coders[0].n_levels == 2


def test_a_group_that_may_exist_need_not():
    X, y, s = make(n=1000)
    with pytest.warns(DataWarning, match=r"'x' in all rows"):
        model = new(sensitive_groups=["f", "m", "x"]).fit(X, y, sensitive_features=s)
    assert model.certificate_.blocks[0].left_out == ("x",)
    assert "NOT covered" in str(model.certificate_)


def test_a_known_seed_is_not_private():
    X, y, s = make()
    with pytest.warns(DataWarning, match="noise_state=3: anyone who knows the seed"):
        model = new(noise_state=3).fit(X, y, sensitive_features=s)
    assert "so the model is not private" in str(model.certificate_)


def test_too_little_budget_for_any_group():
    X, y, s = make()
    with pytest.raises(ValueError, match="hides the groups of 'sensitive_feature_0'"):
        new(epsilon_sensitive=0.01).fit(X, y, sensitive_features=s)


def test_crossed_groups_are_all_combinations():
    X, y, s = make(n=2000)
    S = pd.DataFrame({"sex": s, "old": np.arange(2000) % 2})
    groups = {"sex": ["f", "m"], "old": [0, 1]}
    model = new(sensitive_groups=groups, intersectional=True).fit(X, y, sensitive_features=S)
    assert model.pilot_.coders[0].labels == ("f & 0", "f & 1", "m & 0", "m & 1")


def test_the_certificate_says_so_and_files_keep_it(tmp_path):
    pytest.importorskip("skops")
    X, y, s = make()
    model = new().fit(X, y, sensitive_features=s)
    text = str(model.certificate_)
    assert "(8, 1e-06)-differentially private in the protected attributes" in text
    assert "Training rows: no function" not in text
    assert "differentially private" in model._repr_html_inner()
    fairspan.save_model(model, tmp_path / "model.skops", keep_moments=True)
    loaded = fairspan.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.moments_.level_mean, model.moments_.level_mean)
    assert str(loaded.at(0.5).certificate_) == str(model.at(0.5).certificate_)
