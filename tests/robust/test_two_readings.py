"""Inputs that a person may read in two ways: one answer, an error or a warning, never a guess.

A probe is a small input with its outcome: the answer of a canonical form of the same input, an
error of ours, or a warning. Probes marked ``regression`` got a wrong answer without a word before.
"""

import copy
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairspan import (
    DataWarning,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    metrics,
)

pd = pytest.importorskip("pandas")

N = 120
_rng = np.random.default_rng(0)
SEX = _rng.integers(0, 2, N)
X = _rng.normal(size=(N, 3)) + SEX[:, None] * [1.0, 0.5, 0.0]
Y = (X[:, 0] + _rng.normal(size=N) > 0.5).astype(int)
AGE = 20.0 + 10.0 * _rng.normal(size=N)
PLACE = np.arange(N)
REGION = PLACE % 3
PARAMETERS = {"gamma": 1.0, "alpha": 0.1, "eta": 1e-3}
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
BIG = 2**53


def fit(model=FairRidgeClassifier, *, X=X, y=Y, S=SEX, control=None, weight=None, **parameters):
    """A small model with nothing automatic."""
    return model(**{**PARAMETERS, **parameters}).fit(
        X, y, sensitive_features=S, control_features=control, sample_weight=weight
    )


def scores(model, rows=X):
    """Real-valued output of any of the estimators."""
    for name in ("decision_function", "predict", "transform"):
        if hasattr(model, name):
            return getattr(model, name)(rows)
    raise AssertionError


def objects(values):
    """A column of Python objects."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def mixed(one, other, base, third):
    """Objects: ``third`` where ``base`` is 0, elsewhere ``one`` and ``other`` in turn."""
    return objects([(one, other)[i % 2] if b else third for i, b in enumerate(base)])


def as_text(values):
    return objects([str(value) for value in values])


BASE = fit()
DECIDED = BASE.predict(X)
PROBABILITY = 1.0 / (1.0 + np.exp(-BASE.decision_function(X)))


def small_audit(given, **options):
    """Scores and decisions only, with few resamples."""
    options = {"sensitive_features": SEX, "parts": ["scores", "decisions"], "n_boot": 20, **options}
    if "decisions" not in options and "y" not in options:
        options["parts"] = ["scores"]
    return audit(given, min_rows=5, random_state=0, **options)


def gap(given, **options):
    """The difference of selection rates that an audit finds."""
    return small_audit(given, **options).value(
        "demographic_parity_difference", "sensitive_feature_0"
    )


def two_blocks(S, later_S, y=Y, later_y=Y):
    """Prepared and half fitted on one form of the data, half on another."""
    half = N // 2

    def part(columns, rows):
        if isinstance(columns, dict):
            return {name: column[rows] for name, column in columns.items()}
        return columns[rows]

    first, second = slice(None, half), slice(half, None)
    model = FairRidgeClassifier(**PARAMETERS).prepare(X, y, sensitive_features=S)
    model.partial_fit(X[first], y[first], sensitive_features=part(S, first))
    return model.partial_fit(X[second], later_y[second], sensitive_features=part(later_S, second))


def saved(model, folder):
    pytest.importorskip("skops")
    from fairspan import load_model, save_model

    return load_model(save_model(model, folder / "model.skops"))


# ------------------------------------------------------------------ the same answer

SAME_FIT = {
    "y: list": {"y": Y.tolist()},
    "y: booleans": {"y": Y.astype(bool)},
    "y: floats": {"y": Y.astype(float)},
    "y: float32": {"y": Y.astype(np.float32)},
    "y: int8": {"y": Y.astype(np.int8)},
    "y: objects": {"y": objects(Y.tolist())},
    "y: numpy scalars": {"y": [np.int32(v) for v in Y]},
    "y: True and 1": {"y": mixed(True, 1, Y, 0)},
    "y: text": {"y": Y.astype(str)},
    "y: negative zero": {"y": np.where(Y == 1, 1.0, np.where(PLACE % 2, 0.0, -0.0))},
    "y: Int64": {"y": pd.Series(Y, dtype="Int64")},
    "y: boolean": {"y": pd.Series(Y.astype(bool), dtype="boolean")},
    "y: string": {"y": pd.Series(Y.astype(str), dtype="string")},
    "y: category with an unused level": {
        "y": pd.Series(Y).astype(pd.CategoricalDtype([2, 0, 1], ordered=False))
    },
    "y: reversed ordered category": {
        "y": pd.Series(Y.astype(str)).astype(pd.CategoricalDtype(["1", "0"], ordered=True))
    },
    "y: pandas.Categorical": {"y": pd.Categorical(Y)},
    "S: list": {"S": SEX.tolist()},
    "S: one column": {"S": SEX[:, None]},
    "S: booleans": {"S": SEX.astype(bool)},
    "S: text": {"S": np.where(SEX == 1, "m", "f")},
    "S: nullable text": {"S": pd.Series(np.where(SEX == 1, "m", "f"), dtype="string")},
    "S: boolean": {"S": pd.Series(SEX.astype(bool), dtype="boolean")},
    "S: category with an unused level": {
        "S": pd.Series(SEX).astype(pd.CategoricalDtype([5, 1, 0], ordered=True))
    },
    "S: pandas.Categorical": {"S": pd.Categorical(SEX)},
    "S: dict of a list": {"S": {"sex": SEX.tolist()}},
    "S: column of X by name": {"X": FRAME.assign(sex=SEX), "S": "sex"},
    "S: names in an Index": {"X": FRAME.assign(sex=SEX), "S": pd.Index(["sex"])},
    "S: name of an attribute of frames": {"X": FRAME.assign(shape=SEX), "S": "shape"},
    "S: masked array without gaps": {"S": np.ma.array(SEX)},
    "X: lists": {"X": X.tolist()},
    "X: objects": {"X": X.astype(object)},
    "X: numbers as text": {"X": X.astype(str)},
    "weights: one number": {"weight": 1},
    "weights: booleans": {"weight": np.ones(N, dtype=bool)},
    "weights: Decimal": {"weight": [Decimal(1)] * N},
    "y: Decimal": {"y": objects([Decimal(int(v)) for v in Y])},
    "fairness: 1": {"fairness": 1},
    "fairness: Fraction": {"fairness": Fraction(1)},
    "gamma: Fraction": {"gamma": Fraction(1)},
    "criterion: alias": {"criterion": "demographic_parity"},
    "n_slices: numpy integer": {"n_slices": np.int16(10)},
    "random_state: numpy integer": {"random_state": np.int64(0)},
    "sensitive_kind: tuple": {"sensitive_kind": ("categorical",)},
    "sensitive_kind: dict": {"sensitive_kind": {"sensitive_feature_0": "categorical"}},
}


@pytest.mark.parametrize("probe", SAME_FIT)
def test_the_same_model(probe):
    given = SAME_FIT[probe]
    model = fit(**given)
    rows = given.get("X", X)
    np.testing.assert_allclose(scores(model, rows), scores(BASE), rtol=0, atol=1e-9)
    chosen = model.predict(rows)
    assert (chosen == model.classes_[1]).tolist() == (DECIDED == 1).tolist()


@pytest.mark.regression("two readings: categories without a Series are amounts")
@pytest.mark.parametrize("form", [pd.Categorical, pd.CategoricalIndex])
@pytest.mark.parametrize("in_dict", [False, True])
def test_declared_categories_are_groups(form, in_dict):
    town = PLACE % 24

    def kinds(S):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            model = fit(S={"town": S} if in_dict else S)
        return list(model.sensitive_kinds_.values()), scores(model)

    found, values = kinds(form(town))
    assert found == ["categorical"]
    np.testing.assert_allclose(values, kinds(town.astype(str))[1], rtol=0, atol=1e-9)


def test_declared_categories_stay_declared_in_folds():
    town = pd.Categorical(np.where(PLACE < 90, PLACE % 2, PLACE))  # two towns of 45 rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = FairRidgeClassifier(**PARAMETERS)
        path = fairness_path(model, X, Y, sensitive_features={"t": town}, cv=2, n_points=2)
        assert path.select(at_most=1.0).sensitive_kinds_ == {"t": "categorical"}


def test_dictionary_arrays_are_categories():
    arrow = pytest.importorskip("pyarrow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = fit(S=arrow.array(PLACE % 24).dictionary_encode())
    assert model.sensitive_kinds_ == {"sensitive_feature_0": "categorical"}


@pytest.mark.regression("two readings: categories of numbers as target are amounts")
@pytest.mark.parametrize("values", [PLACE % 3 * 1.0, PLACE % 24], ids=["floats", "many"])
def test_a_target_of_declared_categories_has_classes(values):
    model = fit(FairRepresentation, y=pd.Series(values, dtype="category"), removal="training_rows")
    assert model.target_kind_ == "classes"
    assert model.classes_.tolist() == sorted(set(values.tolist()))


@pytest.mark.parametrize("control", [REGION.tolist(), as_text(REGION), pd.Categorical(REGION)])
def test_the_same_strata(control):
    options = {"criterion": "conditional_statistical_parity"}
    expected = scores(fit(control=REGION, **options))
    np.testing.assert_allclose(scores(fit(control=control, **options)), expected, atol=1e-9)


SAME_TEXT = pytest.mark.regression("two readings: two cells or groups under one name")


@SAME_TEXT
def test_large_numbers_as_groups_and_classes_have_their_own_names():
    model = fit(y=10_000_001 + Y, S=10_000_001 + SEX, criterion="equalized_odds")
    assert model.cells_ == ["y=10000001", "y=10000002"]
    assert list(model.n_directions_) == model.cells_
    assert model.pilot_.coders[0].labels == ("10000001", "10000002")


@SAME_TEXT
def test_strata_whose_names_are_equal_when_joined_have_their_own_names():
    control = {"u": np.where(SEX, "a", "a & b"), "v": np.where(PLACE % 2, "b & c", "c")}
    S = {"region": REGION}
    model = fit(S=S, control=control, criterion="conditional_statistical_parity")
    assert len(set(model.cells_)) == len(model.n_directions_) == 4


def test_names_of_numbers_have_no_more_digits_than_they_need():
    assert fit(S=np.where(SEX, 1 / 3, 0.5)).pilot_.coders[0].labels == ("0.333333", "0.5")
    close = np.where(SEX, 1.0, np.nextafter(1.0, 2.0))
    rates = metrics.selection_rates(Y, Y, sensitive_features=close)
    assert list(rates["sensitive_feature_0"]) == ["1.0", "1.0000000000000002"]


# ------------------------------------------------------------------ errors

MIXED = pytest.mark.regression('two readings: 1 and "1" are merged')
LOST_NAN = pytest.mark.regression("two readings: NaN in a list of text is a label")
NUL = pytest.mark.regression("two readings: labels that differ in a NUL are merged")
BIG_INTEGERS = pytest.mark.regression("two readings: large integers are merged")
UNUSED_LABEL = pytest.mark.regression("two readings: a favourable class that y does not have")
DATES = pytest.mark.regression("two readings: dates as numbers of an unknown unit")

_SEX_GAPS = [("f" if b else "m") if i % 7 else float("nan") for i, b in enumerate(SEX)]
_Y_GAPS = [("a" if b else "b") if i % 7 else float("nan") for i, b in enumerate(Y)]
_NEAR = mixed(2**63, 2**63 + 1, SEX, -1)

REFUSED_FIT = [
    ("S list of 1 and '1'", {"S": mixed(1, "1", SEX, 0).tolist()}, "mixes text", MIXED),
    ("S objects 1 and '1'", {"S": mixed(1, "1", SEX, 0)}, "mixes text", MIXED),
    ("S frame with 1 and '1'", {"S": pd.DataFrame({"g": mixed(1, "1", SEX, 0)})}, "'g' mix", MIXED),
    ("S True and 'True'", {"S": mixed(True, "True", SEX, "False")}, "mixes text", MIXED),
    ("S dict of 1 and '1'", {"S": {"g": mixed(1, "1", SEX, 0).tolist()}}, "mixes text", MIXED),
    ("y list of 1 and '1'", {"y": mixed(1, "1", Y, 0).tolist()}, "mixes text", MIXED),
    ("y list of True and text", {"y": mixed(True, True, Y, "x").tolist()}, "mixes text", MIXED),
    ("y list of text and NaN", {"y": _Y_GAPS}, "NaN", LOST_NAN),
    ("S dict of text and NaN", {"S": {"sex": _SEX_GAPS}}, "'sex' is missing", LOST_NAN),
    ("S text with NUL", {"S": mixed("a", "a\0", SEX, "b")}, "NUL", NUL),
    ("y text with NUL", {"y": mixed("a", "a\0", Y, "b")}, "NUL", NUL),
    ("y list of text with NUL", {"y": mixed("a", "a\0", Y, "b").tolist()}, "NUL", NUL),
    ("S 2^63 and -1", {"S": _NEAR}, r"2\^53", BIG_INTEGERS),
    ("S 2^53 and decimals", {"S": mixed(BIG, BIG + 1, SEX, 0.5)}, r"2\^53", BIG_INTEGERS),
    ("X dates", {"X": (X * 1000).astype("M8[D]")}, "dates", DATES),
    ("X durations", {"X": (X * 1000).astype("m8[s]")}, "dates", DATES),
    ("weights durations", {"weight": (1 + PLACE).astype("m8[D]")}, "one number per row", DATES),
    ("S list of text and NaN", {"S": _SEX_GAPS}, "is missing", ()),
    ("y None among text", {"y": mixed("a", None, Y, "b")}, "NaN or None", ()),
    ("y pandas.NA", {"y": pd.Series(Y, dtype="Int64").mask(PLACE % 7 == 0)}, "NaN", ()),
    ("y masked", {"y": np.ma.array(Y, mask=PLACE % 7 == 0)}, "NaN or None", ()),
    ("S masked", {"S": np.ma.array(SEX, mask=PLACE % 7 == 0)}, "is missing", ()),
    ("weights masked", {"weight": np.ma.array(Y + 1.0, mask=PLACE % 7 == 0)}, "NaN", ()),
    ("y one-hot", {"y": np.stack([1 - Y, Y], axis=1)}, "1d", ()),
    ("S complex", {"S": SEX + 0j}, "complex", ()),
    ("S dates", {"S": (X[:, 0] * 1000).astype("M8[D]")}, "turn dates", ()),
    ("S durations", {"S": pd.Series((X[:, 0] * 1000).astype("m8[s]"))}, "turn dates", ()),
    ("S periods", {"S": pd.Series(pd.period_range("2000", periods=N, freq="M"))}, "dates", ()),
    ("S intervals", {"S": pd.cut(pd.Series(X[:, 0]), 3)}, "dtype object", ()),
    ("S 2^53 + 1", {"S": np.where(SEX == 1, BIG + 1, BIG)}, r"2\^53", ()),
    ("y 2^53 + 1", {"y": np.where(Y == 1, BIG + 1, BIG)}, r"2\^53", ()),
    ("S generator", {"S": (v for v in SEX)}, "one column", ()),
    ("S one row", {"S": SEX[None, :]}, "1 rows", ()),
    ("S dict of a table", {"S": {"sex": SEX[:, None]}}, "one value per row", ()),
    ("S dict of one number", {"S": {"sex": SEX, "k": 1}}, "one value per row", ()),
    ("S names 1 and '1'", {"S": {1: SEX, "1": REGION}}, "two columns", ()),
    ("S number of a column", {"X": pd.DataFrame(X), "S": [0]}, "has 1 rows", ()),
    ("S name twice", {"X": FRAME, "S": ["a", "a"]}, "twice", ()),
    ("fairness True", {"fairness": True}, "fairness=True", ()),
    ("fairness '0.5'", {"fairness": "0.5"}, "fairness='0.5'", ()),
    ("fairness 50", {"fairness": 50}, "fairness=50", ()),
    ("n_slices 10.0", {"n_slices": 10.0}, r"n_slices=10\.0", ()),
    ("random_state '0'", {"random_state": "0"}, "random_state='0'", ()),
    ("criterion 'SP'", {"criterion": "SP"}, "criterion='SP'", ()),
    ("kind of another name", {"sensitive_kind": {"sex": "categorical"}}, "does not fit", ()),
    ("kinds of two", {"sensitive_kind": ["categorical", "continuous"]}, "does not fit", ()),
    ("pos_label '1' of parity", {"pos_label": "1"}, "not in y", UNUSED_LABEL),
    ("pos_label '1'", {"criterion": "equal_opportunity", "pos_label": "1"}, "not in y", ()),
    (
        "pos_label 1 of text",
        {"criterion": "equal_opportunity", "pos_label": 1, "y": as_text(Y)},
        "not in y",
        (),
    ),
    (
        "two text classes without pos_label",
        {"criterion": "equal_opportunity", "y": as_text(Y)},
        "pos_label",
        (),
    ),
]


@pytest.mark.parametrize(
    ("given", "message"),
    [pytest.param(g, m, marks=marks, id=name) for name, g, m, marks in REFUSED_FIT],
)
def test_a_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fit(**given)


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
@BIG_INTEGERS
def test_large_integers_with_gaps_are_refused(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    town = pd.Series([*([BIG, BIG + 1] * 50), *([5] * (N - 101)), None], dtype=dtype)
    with pytest.raises(ValueError, match=r"2\^53"):
        fit(S=town, missing_sensitive="omit")


@pytest.mark.regression("two readings: columns with numbers as names in another order")
def test_columns_named_by_numbers_are_compared_with_the_fit():
    frame = pd.DataFrame(X)
    model = fit(X=frame)
    with pytest.raises(
        ValueError, match=r"columns \[2, 1, 0\].*fitted with the columns \[0, 1, 2\]"
    ):
        model.predict(frame[[2, 1, 0]])


def test_columns_named_by_numbers_survive_files_and_another_fit(tmp_path):
    frame = pd.DataFrame(X)
    model = saved(fit(X=frame), tmp_path)
    with pytest.raises(ValueError, match="fitted with the columns"):
        model.predict(frame[[1, 0, 2]])
    with pytest.raises(ValueError, match="fitted with the columns"):
        model.predict(frame.rename(columns={2: 7}))
    np.testing.assert_array_equal(model.predict(frame), DECIDED)
    np.testing.assert_array_equal(model.predict(X), DECIDED)
    again = model.fit(X, Y, sensitive_features=SEX)
    np.testing.assert_array_equal(again.predict(frame.rename(columns={2: 7})), DECIDED)


@pytest.mark.parametrize("order", [["c", "b", "a"], ["b", "a", "c"]])
def test_columns_in_another_order_are_refused(order):
    with pytest.raises(ValueError, match="order"):
        fit(X=FRAME).predict(FRAME[order])


# ------------------------------------------------------------------ warnings

SPELLING = pytest.mark.regression("two readings: labels in two Unicode forms")
TARGET_SPELLING = pytest.mark.regression("two readings: classes differ only in case or blanks")
MISSING_TEXT = pytest.mark.regression("two readings: a missing value written as text is a label")
FLOAT_STRATA = pytest.mark.regression("two readings: strata given as floats are merged")

WARNED_FIT = [
    ("composed and decomposed", {"S": mixed("é", "e\u0301", SEX, "b")}, r"'e\\u0301'", SPELLING),
    ("invisible blank", {"S": mixed("a", "a\u200b", SEX, "b")}, r"\\u200b", SPELLING),
    ("wide letters", {"S": mixed("A", "\uff21", SEX, "b")}, r"\\uff21", SPELLING),
    ("no-break space", {"S": mixed("a b", "a\xa0b", SEX, "b")}, r"xa0", ()),
    (
        "classes in two cases",
        {"y": mixed("yes", "Yes ", Y, "no")},
        "'Yes ', 'yes'",
        TARGET_SPELLING,
    ),
    ("class 'nan'", {"y": mixed("a", "nan", Y, "b")}, "'y' has the label 'nan'", MISSING_TEXT),
    ("group 'nan'", {"S": mixed("a", "nan", SEX, "b")}, "has the label 'nan'", MISSING_TEXT),
    ("group 'None'", {"S": mixed("a", "None", SEX, "b")}, "has the label 'None'", MISSING_TEXT),
    ("empty group", {"S": mixed("a", "", SEX, "b")}, "has the label ''", MISSING_TEXT),
    ("blank group", {"S": mixed("a", " ", SEX, "b")}, "has the label ' '", MISSING_TEXT),
    ("groups as floats", {"S": REGION * 1.0}, "read as continuous", ()),
    ("S among the features", {"X": FRAME.assign(sex=SEX)}, "holds the protected attribute", ()),
    ("y of one column", {"y": Y[:, None]}, "column-vector y", ()),
]


@pytest.mark.parametrize(
    ("given", "message"),
    [pytest.param(g, m, marks=marks, id=name) for name, g, m, marks in WARNED_FIT],
)
def test_a_fit_warns(given, message):
    with pytest.warns(UserWarning, match=message) as caught:
        fit(**given)
    assert len(caught) == 1


@pytest.mark.regression("two readings: float codes of classes are amounts")
def test_whole_floats_as_target_of_a_representation_are_named():
    with pytest.warns(DataWarning, match="3 distinct whole numbers as floats"):
        fit(FairRepresentation, y=REGION * 1.0, removal="training_rows")


@pytest.mark.parametrize("y", [REGION, REGION * 1.0 + 0.5, PLACE * 1.0])
def test_other_targets_of_a_representation_need_no_warning(y):
    fit(FairRepresentation, y=y, removal="training_rows")


@FLOAT_STRATA
def test_strata_that_share_a_slice_are_named():
    options = {"criterion": "conditional_statistical_parity", "n_slices": 2}
    with pytest.warns(DataWarning, match=r"merges some of its 3 distinct values.*astype\(str\)"):
        fit(control=REGION * 1.0, **options)
    assert len(fit(control=REGION, **options).cells_) == 3


@FLOAT_STRATA
def test_strata_of_an_audit_that_share_a_slice_are_named():
    with pytest.warns(DataWarning, match="merges some of its 5 distinct values"):
        small_audit(X[:, 0], control_features=PLACE % 5 * 1.0)


@pytest.mark.regression("two readings: float codes of classes share slices in a metric")
def test_classes_of_a_metric_that_share_a_slice_are_named():
    given = {"sensitive_features": SEX, "n_bins": 2}
    with pytest.warns(DataWarning, match="'y_true' is read as a number"):
        metrics.equalized_odds_correlation(REGION * 1.0, X[:, 0], **given)
    metrics.equalized_odds_correlation(REGION, X[:, 0], **given)


# ------------------------------------------------------------------ orders


def test_rows_in_another_order_give_the_same_model():
    order = np.random.default_rng(1).permutation(N)
    model = fit(X=X[order], y=Y[order], S=SEX[order], removal="training_rows")
    expected = fit(removal="training_rows")  # the place of a row decides its fold
    np.testing.assert_allclose(scores(model), scores(expected), rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Limits on correlations are not expected")
def test_attributes_in_another_order_give_the_same_model():
    one, other = {"sex": SEX, "age": AGE}, {"age": AGE, "sex": SEX}
    a, b = fit(S=one), fit(S=other)
    np.testing.assert_allclose(scores(a), scores(b), rtol=0, atol=1e-8)
    limits = {"sex": 0.05, "age": 0.2}
    turned = dict(reversed(limits.items()))
    a, b = a.at(max_correlation=limits), b.at(max_correlation=turned)
    np.testing.assert_allclose(scores(a), scores(b), rtol=0, atol=1e-6)


def test_rows_twice_are_rows_with_weight_two():
    twice = np.repeat(PLACE, 2)
    one = fit(X=X[twice], y=Y[twice], S=SEX[twice], n_components="all", removal="training_rows")
    other = fit(weight=np.full(N, 2.0), n_components="all", removal="training_rows")
    np.testing.assert_allclose(scores(one), scores(other), rtol=0, atol=1e-8)


@pytest.mark.parametrize("limits", [{"Sex": 0.1}, {0: 0.1}, {"sex": True}, {"sex": "0.1"}, {}])
def test_limits_of_other_names_or_types_are_refused(limits):
    model = fit(S={"sex": SEX, "age": AGE})
    with pytest.raises(ValueError, match=r"limit was given|not allowed"):
        model.at(max_correlation=limits)


@pytest.mark.parametrize("fairness", [True, "0.5", 50, np.bool_(True)])
def test_dial_values_of_other_types_are_refused(fairness):
    with pytest.raises(ValueError, match="fairness="):
        BASE.at(fairness)


# ------------------------------------------------------------------ blocks

SAME_BLOCKS = {
    "S as floats": (SEX, SEX * 1.0),
    "S in another order": ({"a": SEX, "b": REGION}, {"b": REGION, "a": SEX}),
}


@pytest.mark.parametrize("probe", SAME_BLOCKS)
def test_blocks_of_the_same_model(probe):
    first, later = SAME_BLOCKS[probe]
    expected = scores(two_blocks(first, first))
    np.testing.assert_allclose(scores(two_blocks(first, later)), expected, rtol=0, atol=1e-9)


REFUSED_BLOCKS = {
    "S as text": (SEX, SEX.astype(str), Y, Y),
    "S booleans, then numbers": (SEX.astype(bool), SEX, Y, Y),
    "S of another name": ({"a": SEX}, {"b": SEX}, Y, Y),
    "S without a name": ({"a": SEX}, SEX, Y, Y),
    "S with one more": ({"a": SEX}, {"a": SEX, "b": REGION}, Y, Y),
    "y as text": (SEX, SEX, Y, Y.astype(str)),
    "y booleans, then numbers": (SEX, SEX, Y.astype(bool), Y),
    "y shifted": (SEX, SEX, Y, Y + 1),
}


@pytest.mark.parametrize("probe", REFUSED_BLOCKS)
def test_blocks_are_refused(probe):
    with pytest.raises(ValueError, match=r"never seen|has the columns"):
        two_blocks(*REFUSED_BLOCKS[probe])


# ------------------------------------------------------------------ copies and files

LABELS = {
    "int8": Y.astype(np.int8),
    "booleans": Y.astype(bool),
    "float32": Y.astype(np.float32),
    "Python integers": objects(Y.tolist()),
    "text": np.where(Y == 1, "é", "日本"),
    "NUL inside": mixed("a\0b", "a\0b", Y, "c"),
}


@pytest.mark.parametrize("probe", LABELS)
@pytest.mark.parametrize("how", ["file", "pickle", "copy"])
def test_labels_and_groups_survive(probe, how, tmp_path):
    model = fit(y=LABELS[probe], S={"s\u00e9x\0 7": np.where(SEX == 1, "m\0\n", "f").tolist()})
    again = {
        "file": lambda: saved(model, tmp_path),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "copy": lambda: copy.deepcopy(model),
    }[how]()
    assert again.classes_.dtype == model.classes_.dtype
    assert list(map(type, again.classes_)) == list(map(type, model.classes_))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.sensitive_kinds_ == model.sensitive_kinds_
    assert [c.labels for c in again.pilot_.coders] == [c.labels for c in model.pilot_.coders]


# ------------------------------------------------------------------ metrics and audits

DECISION_METRICS = [
    metrics.demographic_parity_difference,
    metrics.demographic_parity_ratio,
    metrics.equal_opportunity_difference,
    metrics.equalized_odds_difference,
]
every_metric = pytest.mark.parametrize("metric", DECISION_METRICS)

SAME_DECISIONS = {
    "booleans": (Y, DECIDED.astype(bool), None),
    "floats": (Y * 1.0, DECIDED, None),
    "Int64": (pd.Series(Y, dtype="Int64"), DECIDED, None),
    "one column": (Y, DECIDED[:, None], None),
    "-1 and 1": (2 * Y - 1, 2 * DECIDED - 1, None),
    "text": (Y.astype(str), DECIDED.astype(str), "1"),
    "category": (Y.astype(str), pd.Categorical(DECIDED.astype(str), categories=["1", "0"]), "1"),
    "pos_label 1.0": (Y, DECIDED, 1.0),
    "pos_label True": (Y, DECIDED, True),
    "1 and 2 with pos_label": (Y + 1, DECIDED + 1, 2),
}


@every_metric
@pytest.mark.parametrize("probe", SAME_DECISIONS)
def test_the_same_gap(metric, probe):
    y, decided, pos_label = SAME_DECISIONS[probe]
    options = {} if pos_label is None else {"pos_label": pos_label}
    expected = metric(Y, DECIDED, sensitive_features=SEX)
    assert metric(y, decided, sensitive_features=SEX, **options) == pytest.approx(expected)


@every_metric
@pytest.mark.regression("two readings: decisions and labels of different types have no gap")
@pytest.mark.parametrize(
    "decided", [DECIDED.astype(str), as_text(DECIDED.astype(bool))], ids=["text", "True as text"]
)
def test_decisions_of_another_type_are_refused(metric, decided):
    with pytest.raises(ValueError, match="labels of different types"):
        metric(Y, decided, sensitive_features=SEX)


@every_metric
@pytest.mark.regression("two readings: scores given as decisions have no gap")
def test_scores_are_no_decisions(metric):
    with pytest.raises(ValueError, match="with decimals"):
        metric(Y, PROBABILITY, sensitive_features=SEX)


@every_metric
@pytest.mark.regression("two readings: decisions with other labels than the truth")
@pytest.mark.parametrize("decided", [DECIDED + 1, np.round(100 * PROBABILITY)])
def test_decisions_with_other_labels_are_named(metric, decided):
    with pytest.warns(DataWarning, match=r"y_pred has labels that y_true does not have.*0, 1\)"):
        metric(Y, decided, sensitive_features=SEX, pos_label=1)


@every_metric
@pytest.mark.regression("two readings: 1 is favourable among 1 and 2")
def test_of_1_and_2_the_favourable_label_must_be_named(metric):
    with pytest.raises(ValueError, match="pos_label must name the favourable label"):
        metric(Y + 1, DECIDED + 1, sensitive_features=SEX)


@pytest.mark.regression("two readings: 1 is favourable among 1 and 2")
def test_of_1_and_2_the_favourable_label_of_scores_must_be_named():
    with pytest.raises(ValueError, match="pos_label must name the favourable label"):
        metrics.equal_opportunity_correlation(Y + 1, PROBABILITY, sensitive_features=SEX)


def test_a_fold_without_one_class_is_no_reason_to_warn():
    rates = metrics.selection_rates(np.ones(N), DECIDED, sensitive_features=SEX)
    assert rates == metrics.selection_rates(Y, DECIDED, sensitive_features=SEX)


@every_metric
@pytest.mark.parametrize("pos_label", ["1", 2, None, "yes"])
def test_a_pos_label_of_another_type_is_refused(metric, pos_label):
    y, decided = (Y, DECIDED) if pos_label is not None else (Y.astype(str), DECIDED.astype(str))
    with pytest.raises(ValueError, match="pos_label"):
        metric(y, decided, sensitive_features=SEX, pos_label=pos_label)


SCORE_METRICS = [
    metrics.statistical_parity_correlation,
    metrics.correlation_ratio,
    metrics.ks_distance,
]


@pytest.mark.parametrize("metric", SCORE_METRICS)
@pytest.mark.parametrize(
    "form",
    [
        lambda p: p[:, None],
        lambda p: np.stack([1.0 - p, p], axis=1),
        lambda p: 100.0 * p,
        lambda p: p.tolist(),
        lambda p: pd.Series(p, dtype="Float64"),
    ],
    ids=["(n, 1)", "(n, 2)", "percent", "list", "Float64"],
)
def test_the_same_dependence(metric, form):
    expected = metric(PROBABILITY, sensitive_features=SEX)
    assert metric(form(PROBABILITY), sensitive_features=SEX) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", SCORE_METRICS)
@DATES
def test_dates_are_no_scores(metric):
    dates = (1e6 * PROBABILITY).astype("M8[s]")
    with pytest.raises(ValueError, match="dates or durations"):
        metric(dates, sensitive_features=SEX)
    with pytest.raises(ValueError, match="dates or durations"):
        metric(X[:, 0], sensitive_features=SEX, sample_weight=dates - dates.min())


@pytest.mark.parametrize("metric", SCORE_METRICS)
def test_complex_scores_are_refused(metric):
    with pytest.raises(ValueError, match="complex"):
        metric(PROBABILITY + 0j, sensitive_features=SEX)


@pytest.mark.parametrize("metric", SCORE_METRICS)
def test_a_group_of_weight_zero_is_no_group(metric):
    kept = REGION > 0
    expected = metric(X[kept, 0], sensitive_features=REGION[kept])
    found = metric(X[:, 0], sensitive_features=REGION, sample_weight=kept)
    assert found == pytest.approx(expected)
    with pytest.raises(ValueError, match="constant"):
        metric(X[:, 0], sensitive_features=SEX, sample_weight=SEX)


SAME_AUDITS = {
    "booleans": {"y": Y, "decisions": DECIDED.astype(bool)},
    "floats": {"y": Y * 1.0, "decisions": DECIDED},
    "text": {"y": Y.astype(str), "decisions": as_text(DECIDED)},
    "pos_label": {"y": Y, "decisions": DECIDED, "pos_label": True},
}


@pytest.mark.parametrize("probe", SAME_AUDITS)
def test_the_same_audit(probe):
    expected = gap(PROBABILITY, y=Y, decisions=DECIDED)
    assert gap(PROBABILITY, **SAME_AUDITS[probe]) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:.*used for fitting")
def test_an_audit_of_a_model_with_labels_of_another_type():
    expected = gap(BASE, X=X, y=Y)
    assert gap(BASE, X=X, y=Y * 1.0) == pytest.approx(expected)
    assert gap(fit(y=Y.astype(bool)), X=X, y=Y) == pytest.approx(expected)
    with pytest.raises(ValueError, match="do not compare"):
        gap(fit(y=Y.astype(str)), X=X, y=Y)


@pytest.mark.regression("two readings: scores given as decisions of an audit are classes")
@pytest.mark.parametrize("y", [Y, None], ids=["with y", "without y"])
def test_an_audit_takes_no_scores_for_decisions(y):
    with pytest.raises(ValueError, match="decisions holds numbers with decimals"):
        small_audit(X[:, 0], y=y, decisions=PROBABILITY)


@pytest.mark.regression("two readings: decisions of an audit with other labels than the truth")
def test_an_audit_names_labels_that_the_truth_does_not_have():
    with pytest.warns(DataWarning, match="decisions has labels that y does not have: 2"):
        small_audit(X[:, 0], y=Y, decisions=DECIDED + 1)


@pytest.mark.regression("two readings: an audit favours another class than its model")
@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.filterwarnings("ignore:.*used for fitting")
def test_an_audit_favours_the_class_that_its_model_favours(in_pipeline):
    model = fit(criterion="equal_opportunity", pos_label=0, removal="training_rows")
    model = make_pipeline(FunctionTransformer().fit(X), model) if in_pipeline else model
    found = small_audit(model, X=X, y=Y)
    assert found.settings["positive"] == ["0"]
    value = found.value("equal_opportunity_correlation", "sensitive_feature_0")
    assert value == pytest.approx(0.0, abs=1e-9)
    assert small_audit(model, X=X, y=Y, pos_label=1).settings["positive"] == ["1"]


@pytest.mark.parametrize("model", [FairRidge, FairRidgeClassifier])
def test_text_and_booleans_are_no_numbers(model):
    y = X[:, 0].astype(str) if model is FairRidge else X[:, 0]
    with pytest.raises(ValueError, match=r"does not hold numbers|numbers with decimals"):
        fit(model, y=y)
