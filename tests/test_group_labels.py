"""How protected attributes are read, and what a fit, a metric or an audit says about it."""

import warnings

import numpy as np
import pytest

from fairspan import (
    DataWarning,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    metrics,
)
from tests.support.small import FIXED, table

SPELLING = pytest.mark.regression("group labels differ only in case or blanks")
GAPS = pytest.mark.regression("a gap in S switches off the warning that X contains S")
KINDS = pytest.mark.regression("numeric S read as continuous without a word")

N = 200
X, y, s = table(N)
SCORES = X[:, 0]
TOWN = np.where(np.arange(N) % 2, "a", "b")


def messages(call):
    """Texts of the warnings of fairspan that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(one.category, DataWarning) for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def small_audit(sensitive_features, **options):
    options = {"parts": ["scores"], "n_boot": 20, "min_rows": 5, **options}
    return audit(SCORES, sensitive_features=sensitive_features, **options)


CALLS = {
    "fit": lambda S, **kind: FairRepresentation(**FIXED, **kind).fit(X, y, sensitive_features=S),
    "prepare": lambda S, **kind: FairRepresentation(**FIXED, **kind).prepare(
        X, y, sensitive_features=S
    ),
    "fit_stream": lambda S, **kind: FairRidge(n_components=20, **FIXED, **kind).fit_stream(
        [{"X": X, "y": y, "sensitive_features": S}]
    ),
    "fairness_path": lambda S, **kind: fairness_path(
        FairRidgeClassifier(**FIXED, **kind), X, y, sensitive_features=S, cv=2, n_points=2
    ),
    "metric": lambda S, **kind: metrics.statistical_parity_correlation(
        SCORES, sensitive_features=S, **kind
    ),
    "by_attribute": lambda S, **kind: metrics.by_attribute(
        "correlation_ratio", SCORES, sensitive_features=S, **kind
    ),
    "audit": lambda S, **kind: small_audit(S, **kind),
}
every_call = pytest.mark.parametrize("call", CALLS)


# ------------------------------------------------------------------ labels


def spelled(*labels):
    """Labels in turn."""
    return {"sex": np.array(labels)[np.arange(N) % len(labels)]}


@SPELLING
@every_call
@pytest.mark.parametrize(
    "labels", [(" M", "M", "f"), ("M", "m", "f"), ("Non-binary", "non- binary", "f")]
)
def test_labels_that_differ_only_in_case_or_blanks_are_named_once(call, labels):
    (message,) = messages(lambda: CALLS[call](spelled(*labels)))
    assert "sensitive_features 'sex'" in message
    assert f"{labels[0]!r}, {labels[1]!r}" in message
    assert "'f'" not in message
    assert ".str.strip().str.lower()" in message


@SPELLING
@pytest.mark.parametrize("use", ["fit", "audit"])
def test_strata_are_looked_at_too(use):
    strata = {"town": np.array(["Bonn", "bonn", "Rome"])[np.arange(N) % 3]}

    def call():
        if use == "audit":
            return small_audit({"sex": s}, control_features=strata)
        est = FairRepresentation(criterion="conditional_statistical_parity", **FIXED)
        return est.fit(X, y, sensitive_features={"sex": s}, control_features=strata)

    (message,) = messages(call)
    assert "control_features 'town'" in message
    assert "'Bonn', 'bonn'" in message


@every_call
@pytest.mark.parametrize("labels", [("M", "F"), ("a b", "a c"), (True, False), ("1", "01", "2")])
def test_other_labels_are_silent(call, labels):
    assert messages(lambda: CALLS[call](spelled(*labels))) == []


def test_blocks_after_the_first_do_not_warn_again():
    est = FairRepresentation(**FIXED)
    S = spelled("M", "m", "f")
    assert len(messages(lambda: est.prepare(X, y, sensitive_features=S))) == 1
    assert messages(lambda: est.partial_fit(X, y, sensitive_features=S)) == []


# ------------------------------------------------------------------ kinds

ZIP = 53000 + np.arange(N) % 30
RACE = (np.arange(N) % 4).astype(float)
AGE = 20 + np.arange(N) % 45


@KINDS
@every_call
def test_numbers_with_few_values_are_said_to_be_read_as_numbers(call):
    (message,) = messages(lambda: CALLS[call]({"zip": ZIP, "race": RACE, "age": AGE, "sex": s}))
    assert message.startswith(
        "Protected attributes read as continuous numbers: 'zip' (30 distinct values), 'race' (4 "
    )
    assert "'sex'" not in message
    assert (
        "sensitive_kind={'zip': 'categorical', 'race': 'categorical', 'age': 'categorical'}"
        in message
    )
    assert "'age': 'continuous'}" in message


@every_call
@pytest.mark.parametrize(
    "kind",
    [
        "continuous",
        ["continuous"] * 3,
        {"zip": "continuous", "race": "continuous", "age": "continuous"},
    ],
)
def test_a_kind_that_was_given_is_not_doubted(call, kind):
    columns = {"zip": ZIP, "race": RACE, "age": AGE}
    assert messages(lambda: CALLS[call](columns, sensitive_kind=kind)) == []


@KINDS
def test_only_the_kinds_that_were_not_given_are_doubted():
    S = {"race": RACE, "age": AGE}
    (message,) = messages(lambda: CALLS["fit"](S, sensitive_kind={"age": "continuous"}))
    assert "'race'" in message
    assert "'age'" not in message


@every_call
@pytest.mark.parametrize(
    "values",
    [
        np.arange(N) % 60,  # 50 distinct values or more
        np.random.default_rng(0).normal(size=N),
        np.arange(N) % 10,  # integers with at most 20 values are categories
        (np.arange(N) % 2).astype(float),
    ],
)
def test_measurements_and_categories_are_silent(call, values):
    assert messages(lambda: CALLS[call]({"age": values})) == []


def test_few_rows_with_a_number_each_are_silent():
    assert (
        messages(
            lambda: metrics.ks_distance(SCORES[:30], sensitive_features={"age": SCORES[30:60]})
        )
        == []
    )


def test_a_metric_of_a_path_gets_the_type_that_was_given():
    S = {"code": np.arange(N) % 3, "adult": s.astype(bool), "age": SCORES**2}
    path = fairness_path(FairRidgeClassifier(**FIXED), X, y, sensitive_features=S, cv=2, n_points=2)
    kinds = {}

    def look(y_true, predicted, sensitive_features):
        kinds.update({name: values.dtype.kind for name, values in sensitive_features.items()})
        return 0.0

    path.curve(look)
    assert kinds == {"code": "i", "adult": "b", "age": "f"}


@KINDS
def test_the_command_line_names_its_own_option(call, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["income", "debt", "wealth"])
    frame.assign(repaid=y, zip=ZIP).to_csv(tmp_path / "loans.csv", index=False)
    arguments = ("fit", tmp_path / "loans.csv", "--target", "repaid", "--protected", "zip")
    done = call(*arguments, "--out", tmp_path / "model.skops")
    assert "read as continuous numbers: 'zip' (30 distinct values)" in done.err
    assert "pass --kind zip=categorical" in done.err
    assert "sensitive_kind" not in done.err
    done = call(*arguments, "--kind", "zip=continuous", "--out", tmp_path / "model.skops")
    assert "read as continuous" not in done.err


# ------------------------------------------------------------------ S among the features


@GAPS
@pytest.mark.parametrize(
    "group", [np.where(s, "b", "a").astype(object), s.astype(float), X[:, 1].copy()]
)
def test_a_column_that_repeats_s_is_found_where_s_is_known(group):
    features = np.c_[X, s] if group.dtype == object or set(group) == {0.0, 1.0} else X
    group[5] = None if group.dtype == object else np.nan
    est = FairRepresentation(missing_sensitive="omit", **FIXED)
    (message,) = messages(lambda: est.fit(features, y, sensitive_features={"sex": group}))
    assert "X holds the protected attribute 'sex'" in message
    assert f"column {3 if features.shape[1] == 4 else 1}." in message


def test_gaps_alone_do_not_warn():
    group = s.astype(float)
    group[::3] = np.nan
    est = FairRepresentation(missing_sensitive="omit", **FIXED)
    assert messages(lambda: est.fit(X, y, sensitive_features={"sex": group})) == []


@pytest.mark.filterwarnings("ignore:.*used for fitting")
def test_an_audit_reads_numbers_as_its_model_did():
    age = 20 + np.arange(N) % 60
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features={"age": age})
    doubted, categories = age < 45, age < 35  # 25 and 15 distinct values
    assert len(messages(lambda: small_audit({"age": np.where(doubted, age, 20)}))) == 1
    for rows in (doubted, categories):
        found = audit(
            model,
            X[rows],
            y[rows],
            sensitive_features={"age": age[rows]},
            parts=["scores"],
            n_boot=20,
            min_rows=2,
            n_bins=3,
        )
        assert len(found.group_sizes["age"]) == 3


def test_a_column_name_with_a_brace_keeps_the_words_of_python():
    output = pytest.importorskip("fairspan.cli.messages")
    for name in ("a{b", "a}b"):
        text = f"pass sensitive_kind={ {name: 'categorical'} }."
        assert output.name_options(text) == text
    text = f"pass sensitive_kind={ {'a b': 'categorical', 'c': 'continuous'} }."
    assert output.name_options(text) == "pass --kind 'a b=categorical' --kind c=continuous."
