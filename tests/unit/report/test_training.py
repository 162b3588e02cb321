"""Training for a report: kinds, refused models, warnings, and the code to copy."""

import warnings

import pytest

pytest.importorskip("pandas")

from tests.support.report_data import people, roles_of

import fairspan
from fairspan.exceptions import DataWarning, FairspanWarning, warn_user
from fairspan.report import training as _training


def test_other_peoples_warnings_go_their_way_and_ours_are_passed_on_once():
    log = _training.WarningLog()

    def work():
        with log.record():
            warnings.warn("theirs", DeprecationWarning, stacklevel=1)
            for _ in range(2):
                warn_user("ours", DataWarning)

    with pytest.warns(DeprecationWarning, match="theirs") as seen:
        work()
    assert not [one for one in seen if issubclass(one.category, FairspanWarning)]
    assert log.texts == {"ours": DataWarning}
    with pytest.warns(DataWarning, match="^ours$") as seen:
        log.give()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ("auto", {}),
        ("continuous", {"sex": "continuous", "age": "continuous"}),
        ({"age": "categorical", "sex": "auto"}, {"age": "categorical"}),
        (["auto", "categorical"], {"age": "categorical"}),
    ],
)
def test_kinds_may_be_given_in_every_way_that_fit_takes(kinds, found):
    assert _training.read_kinds(kinds, ("sex", "age")) == found
    model = _training.choose_model(
        fairspan.FairRidge(),
        people(),
        roles_of("amount"),
        criterion="sp",
        pos_label=None,
        sensitive_kind=kinds,
        random_state=3,
    )
    assert model.sensitive_kind == (found or "auto")
    assert model.random_state == 3


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        ({"job": "categorical"}, "{'job': 'categorical'} does not fit the attributes"),
        ("often", "'often' does not fit the attributes"),
    ],
)
def test_kinds_that_cannot_be_are_refused(kinds, says):
    with pytest.raises(ValueError, match=says):
        _training.read_kinds(kinds, ("sex", "age"))


@pytest.mark.parametrize(
    ("model", "changed", "given", "says"),
    [
        ("auto", {"amount": 1.0}, {}, "'amount' is the same in every row"),
        (fairspan.FairRidge(pos_label=1), {}, {}, "pos_label is for classes"),
        (
            fairspan.FairRidgeClassifier(),
            {"amount": [f"text {i}" for i in range(240)]},
            {},
            "has 240 different values, such as 'text 0'; a class",
        ),
        (
            fairspan.FairRidgeClassifier(pos_label="maybe"),
            {"amount": ["yes", "no"] * 120},
            {},
            "pos_label='maybe' is no value of 'amount': 'yes', 'no'",
        ),
        (
            fairspan.FairRidge(criterion="eo"),
            {},
            {"criterion": "equal_opportunity"},
            "but the model was given criterion='equalized_odds'",
        ),
        (fairspan.FairRepresentation(), {}, {}, "model=FairRepresentation is not allowed"),
        (fairspan.FairRidge, {}, {}, "model=FairRidge is not allowed"),
    ],
)
def test_a_model_that_does_not_suit_the_target_is_refused(model, changed, given, says):
    asked = {"criterion": "sp", "pos_label": None, "sensitive_kind": "auto"} | given
    with pytest.raises(ValueError, match=says):
        _training.choose_model(
            model, people().assign(**changed), roles_of("amount"), random_state=0, **asked
        )


def test_strata_are_needed_where_the_criterion_is_about_them():
    model = fairspan.FairRidge(criterion="conditional_statistical_parity")
    with pytest.raises(ValueError, match="needs control_features"):
        _training.fit_model(model, people(), roles_of("amount"), "people.csv")


def test_a_row_that_cannot_be_used_is_named_as_the_table_counts_it():
    table = people().assign(weight=1.0)
    table.loc[9, "weight"] = -1.0
    train = table.drop(index=[1, 2])
    with pytest.raises(ValueError, match=r"^people\.csv, row 10: sample_weight holds 1 negative"):
        _training.fit_model(
            fairspan.FairRidge(), train, roles_of("amount", weight="weight"), "people.csv"
        )


@pytest.mark.parametrize(
    ("name", "target", "found"),
    [
        ("kernel", "repaid", "FairGPClassifier"),
        ("kernel", "amount", "FairGPRegressor"),
        ("auto", "repaid", "FairClassifier"),
        ("boosting", "amount", "FairRegressor"),
    ],
)
def test_models_have_names(name, target, found):
    given = {"criterion": "sp", "pos_label": None, "sensitive_kind": "auto", "random_state": 3}
    model = _training.choose_model(name, people(), roles_of(target), **given)
    assert (type(model).__name__, model.random_state) == (found, 3)
    assert getattr(model, "estimator", "kernel") == name


@pytest.mark.parametrize(
    ("given", "columns", "parameter"),
    [
        ("probabilities", {"sex_f": "continuous", "sex_m": "continuous"}, "probabilities"),
        (
            {"sex": "probabilities"},
            {"sex_f": "continuous", "sex_m": "continuous"},
            {"sex": "probabilities"},
        ),
        ("auto", {}, "auto"),
        ({"sex_f": "categorical"}, {"sex_f": "categorical"}, {"sex_f": "categorical"}),
    ],
)
def test_probabilities_are_numbers_in_the_table_and_one_attribute_of_the_model(
    given, columns, parameter
):
    names = ("sex_f", "sex_m")
    assert _training.read_kinds(given, names) == columns
    assert _training.kinds_parameter(given, names) == parameter


def test_other_attributes_keep_their_kind_beside_probabilities():
    given, names = {"sex": "probabilities", "age": "categorical"}, ("sex_f", "age", "sex_m", "job")
    kinds = {"age": "categorical", "sex_f": "continuous", "sex_m": "continuous"}
    assert _training.read_kinds(given, names) == kinds
    assert _training.kinds_parameter(given, names) == {"age": "categorical", "sex": "probabilities"}
    with pytest.raises(ValueError, match="does not fit"):
        _training.read_kinds(given | {"town": "categorical"}, names)
