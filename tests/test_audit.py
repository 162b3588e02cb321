"""``audit`` from end to end: models of all kinds, what it refuses, and what people read of it."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    metrics,
    table_encoder,
)
from fairspan.auditing import SECTIONS, Finding
from tests.support.expected import expected_warnings

pd = pytest.importorskip("pandas")

N = 240
GAPS = {"parts": ["scores", "decisions"], "n_boot": 20, "random_state": 0}
# Every part, as little of each as is allowed.
WHOLE = {
    "n_boot": 20,
    "n_permutations": 19,
    "n_folds": 2,
    "attackers": ["linear"],
    "random_state": 0,
}
FIXED = {"gamma": 0.1, "eta": 1e-3, "random_state": 0, "n_components": 30}


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    age = rng.normal(4.0, 1.0, n)  # in decades
    debt = rng.normal(size=n) + 0.8 * (sex == "m")
    income = rng.normal(size=n) + 0.2 * age
    return pd.DataFrame(
        {
            "debt": debt,
            "income": income,
            "city": rng.choice(["x", "y", "z"], n),
            "sex": sex,
            "age": age,
        }
    )


DATA = frame()
NUMBERS = DATA[["debt", "income", "age"]]
X = NUMBERS.to_numpy()
S = DATA[["sex"]]
SIGNAL = DATA["debt"] + DATA["income"] + np.random.default_rng(9).normal(size=N)
LABELS = np.where(np.median(SIGNAL) < SIGNAL, "yes", "no")
TARGET = SIGNAL.to_numpy()
CLASSES = np.array(["a", "b", "c"])[np.searchsorted(np.quantile(SIGNAL, [0.3, 0.7]), SIGNAL)]


def values(found, *sections):
    wanted = sections or SECTIONS
    return {
        (f.section, f.metric, f.attribute, f.group, f.where): f.value
        for f in found.findings
        if f.section in wanted
    }


def assert_same(a, b):
    assert set(a) == set(b)
    for name, value in a.items():
        assert value == pytest.approx(b[name], rel=1e-9, abs=1e-9, nan_ok=True), name


def quietly(model, y, rows=X, **options):
    with expected_warnings():
        return model.fit(rows, y, sensitive_features=S, **options)


# ------------------------------------------------------------------ models


OURS = {
    "representation": lambda: quietly(FairRepresentation(**FIXED), TARGET),
    "ridge": lambda: quietly(FairRidge(**FIXED), TARGET),
    "ridge classifier": lambda: quietly(FairRidgeClassifier(**FIXED), LABELS),
    "GP": lambda: quietly(FairGPRegressor(**FIXED), TARGET),
    "GP classifier": lambda: quietly(FairGPClassifier(**FIXED), LABELS),
    "equalized odds": lambda: quietly(FairRidgeClassifier(criterion="eo", **FIXED), LABELS),
    "opportunity": lambda: quietly(
        FairRidgeClassifier(criterion="eop", pos_label="yes", **FIXED), LABELS
    ),
}


@pytest.mark.filterwarnings("ignore:The kernel space predicts:fairspan.DataWarning")
@pytest.mark.parametrize("kind", OURS)
@pytest.mark.filterwarnings("ignore:About 100% of these rows were used for fitting")
def test_our_own_models_are_audited_in_every_part(kind):
    model = OURS[kind]()
    classes = kind not in ("representation", "ridge", "GP")
    with expected_warnings():
        found = audit(model, X, LABELS if classes else TARGET, sensitive_features=S, **WHOLE)
    sections = {f.section for f in found.findings}
    absent = {"performance", "decisions"} if kind == "representation" else set()
    assert sections | absent >= set(SECTIONS) - {"proxies"}
    assert found.model == type(model).__name__
    assert found.n_rows == N
    assert found.kernel is not None
    assert found.bounds
    if kind in ("equalized odds", "opportunity"):
        cells = ["y = no", "y = yes"] if kind == "equalized odds" else ["y = yes"]
        assert [b.cell for b in found.bounds] == cells
    assert json.loads(found.to_json())["model"] == found.model
    assert "### Certificate" in found.to_markdown()


@pytest.mark.parametrize("kind", ["ridge classifier", "GP classifier"])
@pytest.mark.filterwarnings("ignore:About 100% of these rows were used for fitting")
def test_numbers_of_our_classifiers_are_those_of_their_outputs(kind):
    model = OURS[kind]()
    found = audit(model, X, LABELS, sensitive_features=S, **GAPS)
    decided, score = model.predict(X), model.decision_function(X)
    assert found.value("accuracy") == pytest.approx((decided == LABELS).mean())
    assert found.value("equalized_odds_difference", "sex") == pytest.approx(
        metrics.equalized_odds_difference(LABELS, decided, sensitive_features=S, pos_label="yes")
    )
    assert found.value("equal_opportunity_correlation", "sex") == pytest.approx(
        metrics.equal_opportunity_correlation(LABELS, score, sensitive_features=S, pos_label="yes")
    )


@pytest.mark.filterwarnings("ignore:The kernel space predicts:fairspan.DataWarning")
@pytest.mark.filterwarnings("ignore:About 100% of these rows were used for fitting")
def test_a_model_fitted_on_a_stream_of_text_and_numbers():
    pytest.importorskip("pyarrow")
    table = DATA.assign(y=TARGET)
    model = FairRidge(alpha=1.0, **FIXED)
    with expected_warnings():
        model.fit_stream(table, target="y", sensitive_features=["sex"])
        features = DATA.drop(columns="sex")
        found = audit(model, features, TARGET, sensitive_features=S, **WHOLE)
        by_name = audit(model, DATA, TARGET, sensitive_features=["sex"], **WHOLE)
    assert found.value("mean_error") == pytest.approx((model.predict(features) - TARGET).mean())
    assert_same(values(found), values(by_name))


@pytest.mark.filterwarnings("ignore:About 100% of these rows were used for fitting")
def test_a_kernel_too_narrow_for_the_data_is_warned_about():
    model = quietly(FairRidge(alpha=1.0, **{**FIXED, "gamma": 100.0}), TARGET)
    with pytest.warns(DataWarning, match="the kernel is too poor for these data"):
        found = audit(model, X, TARGET, sensitive_features=S, parts=["kernel"], n_folds=2)
    assert found.kernel.misspecified
    assert found.kernel.message in found.warnings
    assert "the kernel is too poor for these data" in found.to_markdown()


def test_proxies_of_a_linear_model_name_its_columns():
    model = LogisticRegression().fit(NUMBERS, LABELS)
    found = audit(model, NUMBERS, LABELS, sensitive_features=S, **WHOLE)
    (proxy,) = found.proxies
    assert set(proxy.names) <= {"debt", "income", "age"}
    assert "debt" in proxy.names  # the one that follows the sexes
    assert found.select("proxies")[0].attribute == "sex"


@pytest.mark.parametrize("y", [CLASSES, LABELS], ids=["as many classes as features", "two classes"])
def test_coefficients_of_a_linear_model_go_with_its_columns(y):
    from fairspan.auditing.reading import find_representation

    model = LogisticRegression(max_iter=1000).fit(X, y)
    found = find_representation(model, X, None)
    linear = found.Z @ found.coef + model.intercept_
    assert linear == pytest.approx(model.decision_function(X).reshape(N, -1))


def test_coefficients_of_a_regression_with_as_many_outputs_as_features():
    from fairspan.auditing.reading import find_representation

    Y = np.stack([TARGET, X[:, 0] ** 2, X[:, 1]], axis=1)
    model = Ridge().fit(X, Y)
    found = find_representation(model, X, None)
    assert found.Z @ found.coef + model.intercept_ == pytest.approx(model.predict(X))


def test_a_pipeline_with_an_encoder_on_text():
    features = DATA.drop(columns="sex")
    model = make_pipeline(table_encoder(features), LogisticRegression(max_iter=1000))
    model.fit(features, LABELS)
    found = audit(model, features, LABELS, sensitive_features=S, **WHOLE)
    assert found.model == "LogisticRegression"
    assert {f.section for f in found.findings} >= set(SECTIONS) - {"kernel"}
    # S among the columns of X, which the model was not fitted on
    named = audit(model, DATA, LABELS, sensitive_features="sex", **WHOLE)
    assert_same(values(found), values(named))


OTHERS = {
    "forest": (RandomForestClassifier(20, random_state=0), LABELS, {"attacks", "tests"}),
    "forest of a number": (RandomForestRegressor(20, random_state=0), TARGET, {"attacks"}),
    "ridge": (Ridge(), TARGET, {"proxies"}),
    "classes": (LogisticRegression(max_iter=1000), CLASSES, {"proxies", "decisions"}),
    "no probabilities": (SVC(), LABELS, {"tests"}),
    "kernel ridge": (KernelRidge(kernel="rbf", gamma=0.1), TARGET, {"attacks"}),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), LABELS, {"proxies"}),
    "transformer": (PCA(2), None, {"attacks", "certificate", "tests"}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_models_of_others(kind):
    model, y, expected = OTHERS[kind]
    model.fit(X, y)
    found = audit(model, X, y, sensitive_features=S, **WHOLE)
    assert {f.section for f in found.findings} >= expected
    assert found.kernel is None
    assert (found.value("accuracy") > 0.5) if y is not None and y.dtype.kind == "U" else True
    calibrated = bool([f for f in found.findings if f.metric.startswith("calibration")])
    assert calibrated == (kind in ("forest", "pipeline"))
    json.loads(found.to_json())
    assert_tables(found.to_markdown())


def test_a_model_need_not_be_scikit_learns():
    """Anything that predicts numbers, or labels beside its classes."""

    class Line:
        def predict(self, X):
            return np.asarray(X)[:, 0]

    class Signs:
        classes_ = np.array(["no", "yes"])

        def predict(self, X):
            return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]

    found = audit(Line(), X, TARGET, sensitive_features=S, **GAPS)
    assert found.value("mean_error") == pytest.approx((X[:, 0] - TARGET).mean())
    found = audit(Signs(), X, LABELS, sensitive_features=S, **GAPS)
    assert found.value("accuracy") == pytest.approx((Signs().predict(X) == LABELS).mean())


def test_the_positive_class_turns_scores_and_probabilities():
    model = LogisticRegression().fit(X, LABELS)
    yes, no = (
        audit(model, X, LABELS, sensitive_features=S, pos_label=label, **GAPS)
        for label in ("yes", "no")
    )
    for metric in ("statistical_parity_correlation", "demographic_parity_difference"):
        assert yes.value(metric, "sex") == pytest.approx(no.value(metric, "sex"))
    for group in ("f", "m"):
        one = {"attribute": "sex", "group": group}
        assert yes.value("selection_rate", **one) == pytest.approx(
            1.0 - no.value("selection_rate", **one)
        )
        assert yes.value("calibration_in_the_large", **one) == pytest.approx(
            -no.value("calibration_in_the_large", **one)
        )


def test_a_class_the_model_never_saw_does_not_shift_the_others():
    """Labels of y come before those of the model; its columns are still its own."""
    model = LogisticRegression().fit(X, LABELS)
    y = LABELS.copy()
    y[:5] = "a new one"
    with pytest.warns(DataWarning, match="labels that the model cannot predict"):
        found = audit(model, X, y, sensitive_features=S, pos_label="no", **GAPS)
    promised = model.predict_proba(X)[:, 0] - (y == "no")
    for group in ("f", "m"):
        mine = (DATA["sex"] == group).to_numpy()
        assert found.value("calibration_in_the_large", "sex", group=group) == pytest.approx(
            promised[mine].mean()
        )


def test_decisions_may_replace_the_models_own():
    model = LogisticRegression().fit(X, LABELS)
    fewer = np.where(model.decision_function(X) > 1.0, "yes", "no")
    found = audit(model, X, LABELS, sensitive_features=S, decisions=fewer, **GAPS)
    assert found.value("accuracy") == pytest.approx((fewer == LABELS).mean())


# ------------------------------------------------------------------ plain scores, names


HOLDERS = {
    "list": lambda v: v.tolist(),
    "array": lambda v: v,
    "column": lambda v: v[:, None],
    "series": lambda v: pd.Series(v),
    "frame": lambda v: pd.DataFrame({"score": v}),
    "polars": lambda v: pytest.importorskip("polars").Series("score", v),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_plain_scores_in_whatever_holds_them(holder):
    expected = audit(TARGET, y=LABELS, sensitive_features=S, **GAPS)
    found = audit(HOLDERS[holder](TARGET), y=LABELS, sensitive_features=S, **GAPS)
    assert_same(values(found), values(expected))
    assert found.model == "scores"


@pytest.mark.parametrize("holder", ["list", "array", "series", "polars"])
def test_plain_decisions_as_text(holder):
    decided = np.where(DATA["debt"] > 0, "yes", "no")
    found = audit(HOLDERS[holder](decided), y=LABELS, sensitive_features=S, **GAPS)
    assert found.model == "decisions"
    assert found.value("accuracy") == pytest.approx((decided == LABELS).mean())
    assert found.value("demographic_parity_difference", "sex") == pytest.approx(
        metrics.demographic_parity_difference(
            LABELS, decided, sensitive_features=S, pos_label="yes"
        )
    )


def test_attributes_and_strata_as_columns_of_x():
    by_name = audit(
        TARGET, DATA, LABELS, sensitive_features=["sex", "age"], control_features="city", **GAPS
    )
    by_value = audit(
        TARGET,
        y=LABELS,
        sensitive_features=DATA[["sex", "age"]],
        control_features=DATA[["city"]],
        **GAPS,
    )
    assert_same(values(by_name), values(by_value))
    assert list(by_name.group_sizes) == ["sex", "age", "sex x age", "strata of city"]


def test_protected_columns_of_x_are_no_features_to_attack_from():
    found = audit(
        TARGET,
        DATA[["debt", "income", "sex"]],
        sensitive_features="sex",
        parts=["attacks"],
        **{k: v for k, v in WHOLE.items() if k != "parts"},
    )
    assert found.value("linear auc from features", "sex") < 0.95


def test_features_that_are_text_in_an_array_are_encoded():
    features = DATA[["debt", "income", "city"]]
    options = {"sensitive_features": S, "parts": ["attacks"], **WHOLE}
    found = audit(TARGET, features.to_numpy(), **options)
    expected = audit(TARGET, features, **options)
    assert_same(values(found), values(expected))


def test_combinations_whose_names_read_alike_stay_apart():
    one = np.array(["a & b", "a"])[np.arange(N) % 2]
    two = np.array(["c", "b & c"])[np.arange(N) % 2]
    found = audit(TARGET, sensitive_features={"one": one, "two": two}, **GAPS)
    assert list(found.group_sizes["one x two"].values()) == [N // 2, N // 2]


def test_without_y_only_what_needs_none():
    found = audit(TARGET, sensitive_features=S, decisions=LABELS, **GAPS)
    names = {f.metric for f in found.findings}
    assert "demographic_parity_difference" in names
    assert "statistical_parity_correlation" in names
    assert not {"accuracy", "equalized_odds_difference", "true_positive_rate"} & names


# ------------------------------------------------------------------ refusals


MODEL = LogisticRegression().fit(X, LABELS)
GOOD = {"y": LABELS, "sensitive_features": S, "decisions": LABELS}


@pytest.mark.parametrize(
    ("scores", "changes", "message"),
    [
        (TARGET, {"sensitive_features": None}, "needs the protected attributes"),
        (MODEL, {}, "LogisticRegression needs X"),
        (TARGET, {"y": LABELS[:-1]}, "numbers of rows differ"),
        (TARGET[:-1], {}, "numbers of rows differ"),
        (TARGET, {"sensitive_features": S[:-1]}, "numbers of rows differ"),
        (TARGET, {"decisions": LABELS[:-1]}, "numbers of rows differ"),
        (TARGET, {"sample_weight": np.ones(N - 1)}, "numbers of rows differ"),
        (TARGET, {"control_features": DATA["city"][:-1]}, "control_features 'city' has 239 rows"),
        (TARGET, {"X": X[:-1]}, "numbers of rows differ"),
        (TARGET, {"pos_label": "maybe"}, "pos_label='maybe' is not among the labels 'no', 'yes'"),
        (TARGET, {"pos_label": 1}, "pos_label=1 is not among"),
        (TARGET, {"parts": ["gaps"]}, "parts has 'gaps'; known are scores, decisions"),
        (TARGET, {"parts": "scores"}, r"give a list, as \['scores'\]"),
        (TARGET, {"attackers": ["quantum"]}, "attackers has 'quantum'"),
        (TARGET, {"level": 95}, "level=95 is not allowed"),
        (TARGET, {"level": 0.0}, "level=0.0 is not allowed"),
        (TARGET, {"level": float("nan")}, "level=nan is not allowed"),
        (TARGET, {"n_boot": 0}, "n_boot=0 is not allowed"),
        (TARGET, {"n_boot": 99.5}, "n_boot=99.5 is not allowed"),
        (TARGET, {"min_rows": True}, "min_rows=True is not allowed"),
        (TARGET, {"n_folds": 1}, "n_folds=1 is not allowed"),
        (TARGET, {"n_bins": 1}, "n_bins must be at least 2"),
        (np.where(np.arange(N) == 3, np.nan, TARGET), {}, "model_or_scores has NaN"),
        (TARGET, {"sensitive_features": [None, *S["sex"][1:]]}, "missing .* in 1 rows"),
        (TARGET, {"control_features": {"c": [None, *S["sex"][1:]]}}, "'c' is missing in 1 rows"),
        (TARGET, {"sensitive_features": ["m"] * N}, "constant"),
        (TARGET, {"y": np.arange(N) % 2}, "labels of different types"),
        (TARGET, {"y": [None, *LABELS[1:]]}, "y is missing"),
        (TARGET, {"sample_weight": -np.ones(N)}, "sample_weight is negative"),
        (TARGET, {"sensitive_features": "sex"}, "X is not a data frame"),
        (TARGET, {"X": DATA, "sensitive_features": "race"}, "column 'race', which X does not have"),
        (TARGET, {"sensitive_kind": "ordinal"}, "sensitive_kind='ordinal' does not fit"),
        (
            TARGET,
            {"decisions": None, "parts": ["decisions"]},
            r"None of the requested parts \(decisions\) can be computed",
        ),
        (3.0, {}, "must be 1D or 2D"),
    ],
)
def test_what_is_refused(scores, changes, message):
    with pytest.raises(ValueError, match=message):
        audit(scores, **{**GAPS, **GOOD, **changes})


def test_labels_the_model_does_not_know_by_type():
    with pytest.raises(ValueError, match="do not compare"):
        audit(MODEL, X, np.arange(N) % 2, sensitive_features=S, **GAPS)


def test_questions_without_an_answer():
    found = audit(TARGET, sensitive_features=S, **GAPS)
    with pytest.raises(ValueError, match="section='gaps' is unknown"):
        found.select("gaps")
    with pytest.raises(ValueError, match=r"no 'accuracy' of 'sex'\. Known: correlation_ratio"):
        found.value("accuracy", "sex")


# ------------------------------------------------------------------ parts and seeds


def test_parts_left_out_change_nothing_of_the_others():
    """Neither gaps nor what is cross-fitted or drawn: each part has draws of its own."""
    model = LogisticRegression().fit(X, LABELS)
    rows = {"X": X, "y": LABELS, "sensitive_features": DATA[["sex", "age"]]}
    whole = audit(model, **rows, **WHOLE)
    for part in ("scores", "decisions", "tests", "attacks", "proxies", "certificate"):
        alone = audit(model, **rows, parts=[part], **WHOLE)
        assert {f.section for f in alone.findings} == {"performance", part}
        assert_same(values(alone, part), values(whole, part))


def test_the_same_seed_gives_the_same_text_and_another_other_intervals():
    given = {"y": LABELS, "decisions": LABELS, "sensitive_features": S}
    one, same, other = (
        audit(TARGET, **given, **{**WHOLE, "random_state": seed}) for seed in (1, 1, 2)
    )
    assert one.to_json() == same.to_json()
    assert one.to_markdown() == same.to_markdown()
    pairs = list(zip(one.select("scores"), other.select("scores"), strict=True))
    assert all(a.value == b.value for a, b in pairs)
    assert any((a.low, a.high) != (b.low, b.high) for a, b in pairs)


def test_findings_come_in_the_order_of_sections():
    found = audit(MODEL, X, LABELS, sensitive_features=S, **WHOLE)
    places = [SECTIONS.index(f.section) for f in found.findings]
    assert places == sorted(places)


# ------------------------------------------------------------------ what people read


AWFUL = {
    "pipe": "a|b",
    "lines": "two\nlines",
    "html": "<script>alert(1)</script>",
    "unicode": "Köln \U0001f600 `x`",
    "stars": "**",
    "backslash": "back\\|slash\\",
}


def awful(name, n=200):
    """Names of everything there is, as somebody's data may hold them."""
    rng = np.random.default_rng(0)
    s, y, d = (np.array([name, "plain", "p2"])[rng.integers(0, 3, n)] for _ in range(3))
    return audit(
        rng.normal(size=n),
        y=y,
        decisions=d,
        control_features={name: s == s[0]},
        sensitive_features={f"{name}!": s, "other": rng.integers(0, 2, n)},
        **WHOLE,
    )


def cells(line):
    """Cells of a table's row as a reader of GitHub's Markdown splits them."""
    plain = re.sub(r"\\[^\n]", "..", line)  # a backslash takes the next character with it
    assert plain.startswith("| ")
    assert plain.endswith(" |")
    return plain.count("|") - 1


def assert_tables(text):
    blocks = [b.splitlines() for b in text.split("\n\n")]
    tables = [b for b in blocks if any(line.startswith("|") for line in b)]
    assert tables
    for lines in tables:
        assert set(lines[1]) <= set("| -"), lines[:2]
        assert {cells(line) for line in lines} == {cells(lines[1])}, lines


def test_markdown_of_an_ordinary_audit_is_made_of_tables():
    found = audit(MODEL, X, LABELS, sensitive_features=DATA[["sex", "city"]], **WHOLE)
    text = found.to_markdown()
    assert_tables(text)
    for title in ("Groups", "Performance", "Gaps between groups", "By group", "What this rests on"):
        assert f"### {title}\n" in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("kind", AWFUL)
def test_names_from_data_do_not_break_markdown(kind):
    text = awful(AWFUL[kind]).to_markdown()
    assert_tables(text)
    assert "<script" not in text
    assert "two\n" not in text
    assert ("Köln" in text) == (kind == "unicode")


@pytest.mark.parametrize("kind", AWFUL)
def test_json_is_strict_and_complete(kind, tmp_path):
    found = awful(AWFUL[kind])

    def refuse(constant):
        raise AssertionError(constant)

    path = tmp_path / "audit.json"
    text = found.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    data = json.loads(text, parse_constant=refuse)
    assert data == found.to_dict()
    assert len(data["findings"]) == len(found.findings)
    assert list(data["findings"][0]) == [field.name for field in fields(Finding)]
    assert data["groups"] == found.group_sizes
    with pytest.warns(DeprecationWarning, match="group_sizes"):
        assert found.groups == found.group_sizes
    assert data["settings"]["n_boot"] == 20
    for read, f in zip(data["findings"], found.findings, strict=True):
        assert read["value"] == (f.value if np.isfinite(f.value) else None)


def test_a_file_of_markdown(tmp_path):
    found = audit(TARGET, sensitive_features=S, **GAPS)
    path = tmp_path / "card.md"
    assert path.write_text("old", encoding="utf-8")
    text = found.to_markdown(path)
    assert path.read_text(encoding="utf-8") == text


def test_the_table_has_a_row_for_every_finding():
    found = audit(MODEL, X, LABELS, sensitive_features=S, **GAPS)
    table = found.table()
    assert list(table.columns) == [field.name for field in fields(Finding)]
    assert len(table) == len(found.findings)
    assert (found.table("decisions", group="f")["attribute"] == "sex").all()
    assert len(found.table("tests")) == 0


def test_the_summary_says_the_most_important():
    rng = np.random.default_rng(0)
    s = np.where(rng.random(N) < 0.04, "few", DATA["sex"])
    score = TARGET + 3 * (DATA["sex"] == "m").to_numpy()
    found = audit(
        score,
        y=LABELS,
        decisions=LABELS,
        sensitive_features={"sex": s},
        parts=["scores", "decisions", "tests", "attacks"],
        **{**WHOLE, "n_permutations": 199},
    )
    text = repr(found)
    assert text.startswith("Audit of scores on 240 rows, intervals of 95%")
    assert "accuracy: 1.000" in text
    assert "too few rows for some or all rates of few" in text
    assert "sex can be recovered from the score" in text
    assert "The score depends on sex: a test of independence rejects." in text
    assert set(found.warnings) <= {line[4:] for line in text.splitlines()}


# ------------------------------------------------------------------ pictures


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    pyplot.close("all")  # matplotlib 3.9 warns of figures that another backend has open
    matplotlib.use("Agg")

    yield pyplot
    pyplot.close("all")


PLOTTED = {
    "classifier": lambda: (MODEL, X, LABELS, {}),
    "classes": lambda: (LogisticRegression(max_iter=1000).fit(X, CLASSES), X, CLASSES, {}),
    "regressor": lambda: (Ridge().fit(X, TARGET), X, TARGET, {}),
    "scores": lambda: (TARGET, None, None, {"parts": ["scores"]}),
    "errors": lambda: (TARGET, None, TARGET + X[:, 0], {"parts": ["decisions"]}),
}


@pytest.mark.parametrize("kind", PLOTTED)
def test_an_audit_can_be_drawn(kind, plt):
    model, rows, y, options = PLOTTED[kind]()
    found = audit(model, rows, y, sensitive_features=DATA[["sex", "age"]], **{**WHOLE, **options})
    shown = found.plot()
    shown.figure_.canvas.draw()
    attacked = bool(found.select("attacks"))
    assert len(shown.axes_) == 1 + attacked
    drawn = {label.get_text().partition("\n")[0] for label in shown.axes_[0].get_yticklabels()}
    if kind != "errors":
        assert "statistical parity correlation" in drawn
        names = [text.get_text() for text in shown.axes_[0].get_legend().get_texts()]
        assert names == ["sex", "age", "sex x age"]
    if kind == "regressor":
        assert "mean prediction difference" in drawn or "distance correlation" in drawn


def test_on_given_axes_and_for_one_attribute(plt):
    found = audit(MODEL, X, LABELS, sensitive_features=DATA[["sex", "age"]], **GAPS)
    figure, ax = plt.subplots()
    shown = found.plot(ax, attribute="sex")
    assert shown.axes_ == (ax,)
    assert shown.figure_ is figure
    assert ax.get_legend() is None
    with pytest.raises(
        ValueError, match="attribute='race' is not in the audit; known are sex, age"
    ):
        found.plot(attribute="race")


def test_intervals_are_drawn_where_they_are(plt):
    found = audit(TARGET, sensitive_features=S, parts=["scores"], n_boot=50, random_state=0)
    (ax,) = found.plot().axes_
    (bars,) = ax.containers
    segments = bars.lines[2][0].get_segments()
    expected = [(f.low, f.high) for f in found.select("scores", attribute="sex")]
    assert [tuple(s[:, 0]) for s in segments] == [pytest.approx(e) for e in expected]
