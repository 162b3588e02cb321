"""Rows of X, y, S, control features and weights are matched by the index of pandas objects."""

import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import (
    DataWarning,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    baselines,
    fairness_path,
    metrics,
)
from tests.support.small import FIXED, table

pd = pytest.importorskip("pandas")

DEFECT = pytest.mark.regression("reordered index is ignored")
N = 80
BASE = table(N)
LABELS = pd.Index([f"person {i}" for i in range(N)])
X = pd.DataFrame(BASE.X, columns=BASE.names, index=LABELS)
Y = pd.Series(BASE.y, index=LABELS, name="repaid")
SEX = pd.Series(np.where(BASE.s, "f", "m"), index=LABELS, name="sex")
TOWN = pd.Series(np.where(np.arange(N) % 2, "a", "b"), index=LABELS, name="town")
WEIGHT = pd.Series(1.0 + np.arange(N) % 3, index=LABELS)
ORDER = np.random.default_rng(1).permutation(N)
COLUMNS = {
    "y": Y,
    "sensitive_features": SEX,
    "control_features": TOWN,
    "sample_weight": WEIGHT,
}
DIFFERENT = "have different row indexes"


def shuffled(columns, *names):
    """Some of the columns in another order, with their labels."""
    return {key: one.iloc[ORDER] if key in names else one for key, one in columns.items()}


def fitted(X=X, **columns):
    est = FairRepresentation(criterion="conditional_statistical_parity", random_state=0, **FIXED)
    return est.fit(X, columns.pop("y"), **columns)


# ------------------------------------------------------------------ the same labels, another order


@DEFECT
@pytest.mark.parametrize("name", COLUMNS)
def test_fit_puts_a_column_into_the_order_of_x(name):
    est = fitted(**shuffled(COLUMNS, name))
    np.testing.assert_array_equal(est.transform(X), fitted(**COLUMNS).transform(X))


@DEFECT
def test_a_table_of_attributes_is_put_into_the_order_of_x():
    both = pd.DataFrame({"sex": SEX, "town": TOWN})
    expected = FairRepresentation(random_state=0, **FIXED).fit(X, Y, sensitive_features=both)
    est = FairRepresentation(random_state=0, **FIXED).fit(X, Y, sensitive_features=both.iloc[ORDER])
    np.testing.assert_array_equal(est.transform(X), expected.transform(X))


@DEFECT
def test_the_columns_of_a_mapping_are_aligned_one_by_one():
    columns = {"sex": SEX.iloc[ORDER], "town": TOWN.iloc[ORDER[::-1]]}
    est = FairRepresentation(random_state=0, **FIXED).fit(X, Y, sensitive_features=columns)
    expected = FairRepresentation(random_state=0, **FIXED).fit(
        X, Y, sensitive_features={"sex": SEX, "town": TOWN}
    )
    np.testing.assert_array_equal(est.transform(X), expected.transform(X))


@DEFECT
def test_partial_fit_aligns_every_block():
    models = []
    for order in (np.arange(N // 2), ORDER[ORDER < N // 2]):
        est = FairRepresentation(random_state=0, **FIXED).prepare(X, Y, sensitive_features=SEX)
        est.partial_fit(X[: N // 2], Y[: N // 2], sensitive_features=SEX.iloc[order], solve=False)
        models.append(est.partial_fit(X[N // 2 :], Y[N // 2 :], sensitive_features=SEX[N // 2 :]))
    np.testing.assert_array_equal(models[0].transform(X), models[1].transform(X))


@DEFECT
def test_blocks_of_a_stream_are_aligned():
    def stream(order):
        block = {"X": X, "y": Y, "sensitive_features": SEX.iloc[order]}
        return FairRidge(n_components=20, random_state=0, **FIXED).fit_stream([block])

    found, expected = stream(ORDER), stream(np.arange(N))
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@DEFECT
@pytest.mark.parametrize("name", ["y", "sensitive_features", "sample_weight"])
def test_paths_align_before_rows_are_dealt_into_folds(name):
    columns = {key: one for key, one in COLUMNS.items() if key != "control_features"}
    est = FairRidgeClassifier(**FIXED, removal="training_rows")

    def curves(columns):
        y, rest = columns["y"], {k: v for k, v in columns.items() if k != "y"}
        out_of_fold = fairness_path(est, X, y, **rest, cv=3, n_points=3)
        path = FairnessPath.from_estimator(out_of_fold.estimator, X, y, **rest, n_points=3)
        return [*out_of_fold.curve(), *out_of_fold.error, *path.curve(), *path.error]

    assert curves(shuffled(columns, name)) == curves(columns)


@DEFECT
@pytest.mark.parametrize("name", [*COLUMNS, "decisions"])
def test_an_audit_aligns_everything_with_x(name):
    columns = COLUMNS | {"decisions": Y.where(X["debt"] > 0, 0)}
    options = {"parts": ["scores", "decisions"], "n_boot": 20, "random_state": 0}
    found = audit(X["income"], X, **shuffled(columns, name), **options)
    expected = audit(X["income"], X, **columns, **options)
    assert [one.value for one in found.findings] == pytest.approx(
        [one.value for one in expected.findings], nan_ok=True
    )


@DEFECT
@pytest.mark.parametrize("name", ["sensitive_features", "sample_weight"])
@pytest.mark.parametrize(
    "metric", ["statistical_parity_correlation", "correlation_ratio", "ks_distance"]
)
def test_metrics_of_scores_take_the_order_of_the_scores(metric, name):
    columns = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    function = getattr(metrics, metric)
    expected = function(X["income"], **columns)
    assert function(X["income"], **shuffled(columns, name)) == pytest.approx(expected)
    each = metrics.by_attribute(metric, X["income"], **shuffled(columns, name))
    assert each == {"sex": pytest.approx(expected)}


@DEFECT
@pytest.mark.parametrize(
    "metric",
    [
        "demographic_parity_difference",
        "demographic_parity_ratio",
        "equalized_odds_difference",
        "equal_opportunity_difference",
        "equal_opportunity_correlation",
        "equalized_odds_correlation",
        "selection_rates",
    ],
)
@pytest.mark.parametrize("name", ["y_true", "sensitive_features"])
def test_metrics_with_a_target_take_the_order_of_the_predictions(metric, name):
    if metric in ("demographic_parity_difference", "demographic_parity_ratio", "selection_rates"):
        name = "sensitive_features"  # the target is not used
    scores = X["income"] if metric.endswith("correlation") else Y.where(X["debt"] > 0, 0)
    columns = {"y_true": Y, "sensitive_features": SEX}

    def value(columns):
        S = columns["sensitive_features"]
        return getattr(metrics, metric)(columns["y_true"], scores, sensitive_features=S)

    assert value(shuffled(columns, name)) == value(columns)


@DEFECT
@pytest.mark.parametrize("method", ["LinearFERM", "HSICRidge", "NCFR", "FairPCA"])
def test_baselines_align_too(method):
    y = Y.astype(float)

    def outputs(order):
        model = getattr(baselines, method)().fit(X, y, sensitive_features=SEX.iloc[order])
        if method == "NCFR":
            return model.predict(X, sensitive_features=SEX.iloc[order])
        return (model.transform if method == "FairPCA" else model.predict)(X)

    np.testing.assert_array_equal(outputs(ORDER), outputs(np.arange(N)))


@DEFECT
def test_displays_align_with_x():
    pytest.importorskip("matplotlib").use("agg")
    from fairspan.plotting import GroupDistributionDisplay, TradeoffDisplay

    model = FairRidgeClassifier(**FIXED).fit(X, Y, sensitive_features=SEX)

    def numbers(order):
        S = {"sensitive_features": SEX.iloc[order], "rows": "in-sample"}
        groups = GroupDistributionDisplay.from_estimator(model.at(0.0), X, **S)
        tradeoff = TradeoffDisplay.from_estimator(model, X, Y.iloc[order], n_points=2, **S)
        return [groups.ks_, *tradeoff.error, *tradeoff.parity["sex"]]

    assert numbers(ORDER) == pytest.approx(numbers(np.arange(N)))


# ------------------------------------------------------------------ refused


def fit(X, y=Y, S=SEX, **columns):
    return FairRepresentation(random_state=0, **FIXED).fit(X, y, sensitive_features=S, **columns)


@DEFECT
def test_other_labels_are_refused_with_both_remedies():
    other = SEX.set_axis([f"applicant {i}" for i in range(N)])
    with pytest.raises(ValueError, match=DIFFERENT) as error:
        fit(X, S=other)
    assert "the label 'person 0' of X is not in sensitive_features" in str(error.value)
    assert "sensitive_features.to_numpy()" in str(error.value)
    assert "the same labels" in str(error.value)


@DEFECT
def test_a_fresh_index_beside_a_filtered_one_is_refused():
    counted = X.set_axis(np.arange(N) * 3 + 5)
    with pytest.raises(ValueError, match=DIFFERENT) as error:
        fit(counted, Y.set_axis(counted.index), SEX.reset_index(drop=True))
    assert "sensitive_features has the default index 0 to 79" in str(error.value)


@DEFECT
def test_labels_that_repeat_in_another_order_are_refused():
    twice = LABELS.where(np.arange(N) != 7, LABELS[3])
    with pytest.raises(ValueError, match="'person 3' occurs more than once in"):
        fit(X.set_axis(twice), Y.set_axis(twice), SEX.set_axis(twice).iloc[ORDER])


@DEFECT
@pytest.mark.parametrize("name", ["sensitive_features", "sample_weight"])
def test_two_orders_beside_an_array_are_refused(name):
    columns = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    with pytest.raises(ValueError, match=f"y and {name} {DIFFERENT}, and X has none"):
        FairRepresentation(random_state=0, **FIXED).fit(X.to_numpy(), Y, **shuffled(columns, name))


@DEFECT
def test_two_orders_inside_a_mapping_beside_an_array_are_refused():
    columns = {"sex": SEX, "town": TOWN.iloc[ORDER]}
    message = r"sensitive_features\['sex'\] and sensitive_features\['town'\] have different"
    with pytest.raises(ValueError, match=message):
        FairRepresentation(random_state=0, **FIXED).fit(
            X.to_numpy(), BASE.y, sensitive_features=columns
        )


def check_scorer(scorer):
    model = FairRidgeClassifier(**FIXED).fit(X, Y, sensitive_features=SEX)
    with sklearn.config_context(enable_metadata_routing=True):
        assert scorer(model, X, Y, sensitive_features=SEX) < 0.0
        with pytest.raises(ValueError, match=DIFFERENT):
            scorer(model, X, Y, sensitive_features=SEX.iloc[ORDER])


@DEFECT
@pytest.mark.parametrize("metric", ["statistical_parity_correlation", "equalized_odds_difference"])
def test_a_scorer_refuses_attributes_in_another_order_than_the_target(metric):
    check_scorer(metrics.fairness_scorer(metric))


@DEFECT
def test_a_scorer_of_another_library_is_checked_too():
    def gap(y_true, y_pred, *, sensitive_features):
        return float(abs(np.mean(y_pred[np.asarray(sensitive_features) == "f"])))

    check_scorer(metrics.fairness_scorer(gap))


@DEFECT
def test_columns_beside_an_array_on_disk_must_agree():
    est = FairRidge(n_components=20, random_state=0, **FIXED)
    with pytest.raises(ValueError, match=f"target and sensitive_features {DIFFERENT}"):
        est.fit_stream(X.to_numpy(), target=Y, sensitive_features=SEX.iloc[ORDER])


def test_a_list_of_series_is_refused():
    with pytest.raises(ValueError, match=r"is a list of Series\. Give a dict"):
        fit(X, S=[SEX, TOWN])


@pytest.mark.parametrize("columns", [{"S": SEX[:-1]}, {"y": Y[:-1]}, {"sample_weight": WEIGHT[1:]}])
def test_the_number_of_rows_is_checked_first(columns):
    with pytest.raises(ValueError, match=r"rows|shape") as error:
        fit(X, **({"S": SEX.iloc[ORDER]} | columns))
    assert "index" not in str(error.value)


# ------------------------------------------------------------------ by position, as in scikit-learn


def test_one_index_for_all_is_taken_as_it_is():
    expected = fit(BASE.X, BASE.y, SEX.to_numpy()).transform(BASE.X)
    for index in (LABELS, LABELS[ORDER], pd.Index([1] * N), pd.date_range("2020", periods=N)):
        rows = X.set_axis(index)
        est = fit(rows, Y.set_axis(index.copy()), SEX.set_axis(index))
        np.testing.assert_array_equal(est.transform(rows), expected)


def test_what_has_no_index_is_taken_by_position():
    pl = pytest.importorskip("polars")
    expected = fit(X).transform(X)
    column = pl.Series("sex", SEX.to_list())
    for S in (SEX.to_numpy(), SEX.to_list(), column, {"sex": SEX.to_numpy()}):
        np.testing.assert_array_equal(fit(X, S=S).transform(X), expected)
    frame = pl.DataFrame({name: X[name].to_numpy() for name in X})
    np.testing.assert_array_equal(fit(frame).transform(frame), expected)


def test_a_split_and_a_pipeline_that_makes_arrays_keep_working():
    X_train, _, y_train, _, s_train, _ = train_test_split(X, Y, SEX, random_state=0)
    pipe = make_pipeline(StandardScaler(), FairRidgeClassifier(**FIXED))
    pipe.fit(X_train, y_train, fairridgeclassifier__sensitive_features=s_train)
    expected = pipe.predict(X)
    X_train, y_train, s_train = (one.reset_index(drop=True) for one in (X_train, y_train, s_train))
    pipe.fit(X_train, y_train, fairridgeclassifier__sensitive_features=s_train)
    np.testing.assert_array_equal(pipe.predict(X), expected)


def test_searches_and_cross_validation_route_an_index():
    order = X.iloc[ORDER], Y.iloc[ORDER]
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), FairRidgeClassifier(**FIXED))
        scoring = metrics.fairness_scorer("statistical_parity_correlation")
        S = {"sensitive_features": SEX.iloc[ORDER]}
        found = cross_validate(pipe, *order, cv=3, scoring=scoring, params=S, error_score="raise")
        search = GridSearchCV(pipe, {"fairridgeclassifier__alpha": [0.1, 1.0]}, cv=3)
        search.fit(*order, **S)
    assert (found["test_score"] <= 0.0).all()
    assert search.best_params_


# ------------------------------------------------------------------ a default index may only count


def test_a_default_index_is_aligned_with_a_warning():
    counted = X.reset_index(drop=True)
    S = SEX.reset_index(drop=True)
    with pytest.warns(DataWarning, match=r"^sensitive_features: rows were put into") as caught:
        est = fit(counted, Y.to_numpy(), S.iloc[ORDER])
    assert len(caught) == 1
    assert "sensitive_features.to_numpy()" in str(caught[0].message)
    np.testing.assert_array_equal(est.transform(counted), fit(X).transform(X))


def test_one_warning_names_all_arguments_and_others_are_silent():
    counted = X.reset_index(drop=True)
    y, S = (one.reset_index(drop=True).iloc[ORDER] for one in (Y, SEX))
    with pytest.warns(DataWarning, match=r"^y, sensitive_features: ") as caught:
        fairness_path(
            FairRidgeClassifier(**FIXED, removal="training_rows"),
            counted,
            y,
            sensitive_features=S,
            cv=2,
            n_points=2,
        )
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(X, Y.iloc[ORDER], SEX.iloc[ORDER])


# ------------------------------------------------------------------ a law


@given(st.data())
def test_a_metric_does_not_depend_on_the_order_of_any_argument(data):
    n = data.draw(st.integers(4, 12))
    labels = data.draw(st.lists(st.text(max_size=3), min_size=n, max_size=n, unique=True))
    score = pd.Series(data.draw(st.permutations(np.arange(n, dtype=float).tolist())), labels)
    group = pd.Series(["a", "b"] * n, dtype=object)[:n].set_axis(labels)
    weight = pd.Series(data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)), labels)
    expected = metrics.statistical_parity_correlation(
        score, sensitive_features=group, sample_weight=weight
    )
    orders = [data.draw(st.permutations(range(n))) for _ in range(3)]
    score, group, weight = (
        one.iloc[order] for one, order in zip((score, group, weight), orders, strict=True)
    )
    found = metrics.statistical_parity_correlation(
        score, sensitive_features=group, sample_weight=weight
    )
    assert found == pytest.approx(expected, abs=1e-12)
