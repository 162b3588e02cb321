"""What the fuzzers found, one by one."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    metrics,
    table_encoder,
)
from fairspan_lab.baselines import HSICRidge
from tests.fuzz.check import Refused, attempt, same
from tests.fuzz.inputs import FIXED, Rows
from tests.support.small import table

X, y, s = table(40)


def refused(call, words):
    out = attempt("call", call)
    assert isinstance(out, Refused), "it was answered"
    assert words in out.message


def fit(cls=FairRidgeClassifier, X=X, y=y, s=s, **more):
    params = {**FIXED, "removal": "training_rows"}
    params |= {k: more.pop(k) for k in list(more) if k not in ("sample_weight",)}
    return cls(**params).fit(X, y, sensitive_features=s, **more)


def with_gap(values, fill=0):
    return np.ma.masked_array(values, np.arange(np.size(values)).reshape(np.shape(values)) == fill)


# A masked entry was read as the number under the mask, and in S as the group '999999' or '?'.
def test_what_lies_under_a_mask_is_missing():
    for dtype in (int, float, str, object):
        refused(lambda t=dtype: fit(s=with_gap(s.astype(t))), "is missing")
        refused(
            lambda t=dtype: metrics.ks_distance(X[:, 0], sensitive_features=with_gap(s.astype(t))),
            "is missing",
        )
    refused(lambda: fit(X=with_gap(X)), "contains NaN")
    refused(lambda: fit(y=with_gap(y)), "contains NaN")
    refused(lambda: fit(FairRidge, y=with_gap(X[:, 0])), "NaN")
    refused(lambda: fit(sample_weight=with_gap(np.ones(40))), "NaN")
    refused(lambda: metrics.ks_distance(with_gap(X[:, 0]), sensitive_features=s), "NaN")
    score = X[:, 0] > 0
    refused(
        lambda: metrics.demographic_parity_difference(with_gap(y), score, sensitive_features=s),
        "is missing",
    )
    refused(
        lambda: metrics.ks_distance(
            X[:, 0], sensitive_features=s, sample_weight=with_gap(np.ones(40))
        ),
        "NaN",
    )
    refused(lambda: HSICRidge().fit(X, with_gap(X[:, 0]), sensitive_features=s), "NaN")


def test_a_mask_that_hides_nothing_changes_nothing():
    masked = fit(X=np.ma.masked_array(X), y=np.ma.masked_array(y), s=np.ma.masked_array(s))
    same(masked.predict(X), fit().predict(X), "masked")


def test_a_masked_entry_of_s_can_be_omitted():
    gaps = fit(FairRidge, y=X[:, 0], s=with_gap(s.astype(float)), missing_sensitive="omit")
    text = np.where(np.arange(40) == 0, None, s.astype(str).astype(object))
    same(
        gaps.predict(X),
        fit(FairRidge, y=X[:, 0], s=text, missing_sensitive="omit").predict(X),
        "omitted",
    )


# Identifiers beyond 2^53 were rounded to one group, labels to one class.
def test_integers_that_floats_do_not_tell_apart_are_refused():
    refused(lambda: fit(s=s.astype(np.int64) + 2**60), "beyond 2^53")
    refused(lambda: fit(y=y.astype(np.uint64) + np.uint64(2**63)), "beyond 2^53")
    refused(
        lambda: metrics.ks_distance(X[:, 0], sensitive_features=(np.arange(40) % 3) + 2**60),
        "beyond 2^53",
    )
    same(fit(s=s * 2**60).predict(X), fit(s=s).predict(X), "integers that floats do tell apart")
    same(fit(s=(s + 2**60).astype(str)).predict(X), fit().predict(X), "as text")


# Squares beyond float64 gave numpy's warnings and predictions of NaN.
def test_numbers_whose_squares_overflow_are_refused():
    far = X.copy()
    far[3, 1] = 1.7e308
    refused(lambda: fit(X=far), "beyond the range of float64")
    refused(lambda: fit().predict(far), "Column 1 of X holds 1.7e+308")
    refused(lambda: fit(FairRidge, y=X[:, 0] * 1e200), "y holds")
    refused(lambda: fit(s=X[:, 0] * 1e200), "sensitive_features 'sensitive_feature_0' holds")
    refused(lambda: fit(sample_weight=np.full(40, 1e200)), "Rescale the weights")
    refused(lambda: fit(sample_weight=np.full(40, 1e-150)), "Rescale the weights")
    refused(lambda: fit(X=X * 5e-324), "squares of such numbers are 0")
    refused(lambda: fit(landmarks=10**400), "landmarks must be finite rows")
    frame = pd.DataFrame({"income": far[:, 1]})
    refused(lambda: table_encoder(frame).fit(frame), "column 'income' holds numbers beyond")


@pytest.mark.parametrize("removal", ["new_rows", "training_rows"])
@pytest.mark.parametrize("exponent", [-149, 149])
def test_scales_within_the_range_are_taken(exponent, removal):
    X, _, s = table(80)
    scaled = X * 10.0**exponent
    target = X[:, 0] + np.sin(7.0 * np.arange(80))
    ridge = FairRidge(random_state=0, removal=removal)
    model = clone(ridge).fit(scaled, target, sensitive_features=s)
    plain = ridge.fit(X, target, sensitive_features=s)
    same(plain.predict(X), model.predict(scaled), "in other units", 1e-6)


# numpy complained of the truth value of an array.
def test_a_likelihood_that_is_an_array_is_refused():
    refused(lambda: fit(FairGPClassifier, likelihood=np.array([1.0, 2.0])), "likelihood=")


# An unbounded kernel overflowed with a warning of numpy's, and predicted NaN.
def test_a_kernel_that_overflows_is_refused():
    params = {"kernel": "poly", "kernel_params": {"degree": 5}}
    refused(lambda: fit(X=X * 1e75, **params), "gave a kernel matrix")
    refused(lambda: fit(**params).predict(X * 1e75), "values that are not finite")


# The values of a pyarrow table were taken for its column names.
def test_a_pyarrow_table():
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table({f"x{j}": X[:, j] for j in range(3)})
    same(fit().predict(X), fit(X=arrow).predict(arrow), "pyarrow")


HELD_WRONGLY = {
    "rows of several lengths": (lambda: fit(X=[[1.0] * (1 + i % 2) for i in range(40)]), "several lengths"),
    "text for X": (lambda: fit(X="x0"), "X holds text"),
    "no columns": (lambda: fit(X=pd.DataFrame(index=range(40))), "minimum of 1 feature"),
    "labels of several lengths": (lambda: fit(y=[[1] * (1 + i % 2) for i in range(40)]), "several lengths"),
    "labels without an order": (lambda: fit(y=np.array([1, "a"] * 20, dtype=object)), "mixes text and other"),
    "weights that are text": (lambda: fit(sample_weight="balanced"), "sample_weight must be one number"),
    "a negative seed": (lambda: fit(random_state=-1), "random_state=-1 is not allowed"),
    "half a character": (lambda: fit(s=np.where(s, "\ud800", "a")), "no valid Unicode"),
    "half a character in a name": (lambda: fit(s={"\ud800": s}), "no valid Unicode"),
    "classes no fold shares": (
        lambda: fairness_path(
            FairRepresentation(**FIXED), X, [f"c{i}" for i in range(40)], sensitive_features=s, cv=2
        ),
        "classes of y is in the training rows of every fold",
    ),
    "kinds that are a number": (
        lambda: metrics.ks_distance(y, sensitive_features=s, sensitive_kind=3), "sensitive_kind=3"
    ),
    "bins that are no number": (
        lambda: metrics.correlation_ratio(y, sensitive_features=s, n_bins=None), "got None"
    ),
    "noise of nothing": (lambda: metrics.correlation_noise(None, 3), "must be positive"),
    "an audit of no parts": (lambda: audit(y, sensitive_features=s, parts=[]), "parts is empty"),
    "parts that are a number": (lambda: audit(y, sensitive_features=s, parts=3), "parts=3"),
    "an audit without a level": (lambda: audit(y, sensitive_features=s, level=None), "level=None"),
    "an audit of a class": (lambda: audit(FairRidge, X, sensitive_features=s), "FairRidge is a class"),
    "an audit in text bins": (lambda: audit(y, sensitive_features=s, n_bins="x"), "got 'x'"),
    "an audit with a negative seed": (
        lambda: audit(y, sensitive_features=s, random_state=-1), "random_state=-1"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), HELD_WRONGLY.values(), ids=HELD_WRONGLY)
def test_it_is_refused_in_our_own_words(call, words):
    refused(call, words)


@pytest.mark.parametrize("name", ["criterion", "kernel", "dial", "method", "alpha", "fairness"])
@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), 10**400], ids=["array", "huge"])
def test_a_parameter_of_a_strange_kind(name, value):
    refused(lambda: fit(**{name: value}), name)


def test_a_pencil_that_rounding_breaks():
    far = np.concatenate([table(39)[0]] * 6, axis=1)
    far[3, 1] = 1e18
    model = FairRepresentation(
        method="paper", eta=1e-150, gamma=0.5, n_predictive_directions=2, n_components="all"
    )
    out = attempt("fit", lambda: model.fit(far, table(39)[1], sensitive_features=table(39)[2]))
    assert not isinstance(out, Refused) or "Raise `eta`" in out.message


def test_a_rescue_is_said_once():
    recipe = Rows(
        seed=204,
        n=20,
        p=20,
        values="collinear",
        target="offset",
        exponent=-100,
        sensitive=("continuous",),
    )
    made = recipe.make()
    model = FairRidge(gamma=0.5, alpha=1e-150, eta=1e-150, method="rkhs", random_state=0)
    attempt("fit", lambda: model.fit(made.X, made.y, sensitive_features=made.s))


# --------------------------------------------------------------------------- many categories


def test_ten_thousand_categories():
    rng = np.random.default_rng(0)
    n = 20_000
    group = np.array([f"county {i % 10_000}" for i in range(n)])
    features = rng.normal(size=(n, 2))
    ridge = FairRidge(n_components=20, **FIXED)
    few = "does not have two levels of at least 5 rows"
    refused(lambda: ridge.fit(features, features[:, 0], sensitive_features=group), few)
    value = attempt(
        "ks", lambda: metrics.correlation_ratio(features[:, 0], sensitive_features=group)
    )
    assert 0.0 <= value <= 1.0
    frame = pd.DataFrame({"county": group, "x": features[:, 0]})
    encoded = table_encoder(frame).fit_transform(frame)
    assert encoded.shape[1] <= 51
    large = np.where(np.arange(n) < 10_000, "a", np.where(np.arange(n) < 19_000, "b", group))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FairGPRegressor(n_components=20, removal="training_rows", **FIXED).fit(
            features, features[:, 0], sensitive_features=large
        )
    assert all(issubclass(one.category, DataWarning) for one in caught)
    assert len({str(one.message) for one in caught}) == len(caught)
    assert all(len(str(one.message)) < 600 for one in caught)
    assert model.certificate_.supremum < 1e-8
