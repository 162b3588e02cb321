"""S in another order than X, where a meta-estimator passed X on without its index."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.support.sparse import words

from fairspan import FairClassifier, FairRidge
from fairspan.inputs.callers import check_order

pd = pytest.importorskip("pandas")
X, y, score, s = words(150, 5)
LABELS = [f"p{i}" for i in range(150)]
TABLE = pd.DataFrame(X, index=LABELS).add_prefix("word ")
GROUPS = pd.Series(s, index=LABELS, name="group")
SHUFFLED = GROUPS.sample(frac=1.0, random_state=0)


def pipeline(model):
    return make_pipeline(StandardScaler(), model)


@pytest.mark.parametrize("wrapped", [SHUFFLED, {"group": SHUFFLED}, SHUFFLED.to_frame()])
def test_a_pipeline_that_drops_the_index_refuses_another_order(wrapped):
    model = pipeline(FairRidge("linear"))
    message = r"Pipeline was given X and fairridge__sensitive_features with different row indexes"
    with pytest.raises(ValueError, match=message):
        model.fit(TABLE, score, fairridge__sensitive_features=wrapped)


def test_learners_refuse_it_too():
    model = pipeline(FairClassifier("linear"))
    with pytest.raises(ValueError, match=r"fairclassifier__sensitive_features\.loc\[X\.index\]"):
        model.fit(TABLE, y, fairclassifier__sensitive_features=SHUFFLED)


def test_the_same_order_and_values_without_an_index_are_taken():
    expected = pipeline(FairRidge("linear"))
    expected.fit(X, score, fairridge__sensitive_features=s)
    for groups in (GROUPS, s, SHUFFLED.loc[TABLE.index], {"group": GROUPS}):
        model = pipeline(FairRidge("linear")).fit(
            TABLE, score, fairridge__sensitive_features=groups
        )
        np.testing.assert_allclose(model.predict(TABLE), expected.predict(X))
    # A table without an index never had an order of its own.
    pipeline(FairRidge("linear")).fit(X, score, fairridge__sensitive_features=SHUFFLED)


def test_weights_in_another_order_are_refused():
    weight = pd.Series(np.arange(1.0, 151.0), index=LABELS)
    given = {"fairridge__sensitive_features": s, "fairridge__sample_weight": weight}
    pipeline(FairRidge("linear")).fit(TABLE, score, **given)
    given["fairridge__sample_weight"] = weight[::-1]
    with pytest.raises(ValueError, match="X and fairridge__sample_weight with different row"):
        pipeline(FairRidge("linear")).fit(TABLE, score, **given)


def test_equal_labels_of_other_types_are_in_order():
    days = pd.date_range("2026-01-01", periods=150, tz="UTC")
    for order, other in (
        (pd.RangeIndex(150), pd.Index(range(150), dtype="Int64")),
        (pd.RangeIndex(150), pd.Index(np.arange(150.0))),
        (days, days.tz_convert("Asia/Tokyo")),
    ):
        model = pipeline(FairRidge("linear"))
        groups = pd.Series(s, index=other)
        model.fit(TABLE.set_axis(order), score, fairridge__sensitive_features=groups)
        with pytest.raises(ValueError, match="different row indexes"):
            model.fit(TABLE.set_axis(order), score, fairridge__sensitive_features=groups[::-1])


class Caller(BaseEstimator):
    """Its `fit` is not one of scikit-learn, so nothing is known of the rows it was given."""

    def fit(self, X, sensitive_features=None):
        check_order(X.to_numpy(), sensitive_features)
        return self


def test_other_callers_are_left_alone():
    Caller().fit(TABLE, sensitive_features=SHUFFLED)
    check_order(X, SHUFFLED)
    check_order(TABLE, SHUFFLED)  # `fit` matches these by their index
