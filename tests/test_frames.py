"""pandas and polars: frames in, names kept, S taken out by name, frames out."""

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from fairspan import DataWarning, FairRepresentation, table_encoder
from tests.support.small import FIXED, fitted, table

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

X, y, s = table()
N = len(X)
NAMES = ["income", "debt", "age"]
SEX = np.where(s, "man", "woman")
LIBRARIES = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])


def frame(library, **more):
    columns = dict(zip(NAMES, X.T, strict=True))
    return library.DataFrame({**columns, **more})


def expected(**params):
    return fitted(**params).transform(X)


def new(**params):
    return FairRepresentation(**{**FIXED, **params})


@LIBRARIES
@pytest.mark.parametrize(
    "held",
    ["array", "list", "Series", "text", "category", "boolean", "DataFrame", "mapping", "nullable"],
)
def test_s_in_every_container(library, held):
    groups = {
        "array": lambda: s,
        "list": lambda: SEX.tolist(),
        "Series": lambda: library.Series(s),
        "text": lambda: library.Series(SEX),
        "category": lambda: (
            pd.Series(SEX, dtype="category")
            if library is pd
            else pl.Series(SEX, dtype=pl.Enum(["woman", "man", "other"]))
        ),
        "boolean": lambda: library.Series(s.astype(bool)),
        "DataFrame": lambda: library.DataFrame({"sex": SEX}),
        "mapping": lambda: {"sex": SEX},
        "nullable": lambda: pd.Series(s, dtype="Int64") if library is pd else pl.Series(s.tolist()),
    }[held]()
    est = new().fit(frame(library), library.Series(y), sensitive_features=groups)
    np.testing.assert_allclose(est.transform(frame(library)), expected(), atol=1e-12)
    assert list(est.sensitive_kinds_.values()) == ["categorical"]
    assert est.feature_names_in_.tolist() == NAMES


@LIBRARIES
def test_attributes_keep_their_names(library):
    both = library.DataFrame({"sex": SEX, "year": X[:, 1] + s})
    est = new().fit(frame(library), y, sensitive_features=both)
    assert est.sensitive_kinds_ == {"sex": "categorical", "year": "continuous"}
    assert set(est.n_directions_["all rows"]) == {"sex", "year"}
    est = new().fit(
        frame(library),
        y,
        sensitive_features=library.Series(name="sex", data=SEX)
        if library is pd
        else library.Series("sex", SEX),
    )
    assert list(est.sensitive_kinds_) == ["sex"]


@LIBRARIES
@pytest.mark.parametrize("named", ["sex", ["sex"], ("sex",)])
def test_s_by_column_name_is_taken_out(library, named):
    whole = frame(library, sex=SEX)
    est = new().fit(whole, y, sensitive_features=named)
    assert est.feature_names_in_.tolist() == NAMES
    assert list(est.sensitive_kinds_) == ["sex"]
    # Not needed any more, dropped where it is, wherever it stands.
    for later in (frame(library), whole, whole[["sex", *NAMES]]):
        np.testing.assert_allclose(est.transform(later), expected(), atol=1e-12)


@LIBRARIES
def test_several_columns_by_name_and_control_features_too(library):
    whole = frame(library, sex=SEX, region=np.where(X[:, 0] > 0, "n", "s"), kind=np.arange(N) % 2)
    est = new(criterion="conditional_statistical_parity").fit(
        whole, y, sensitive_features=["sex", "kind"], control_features="region"
    )
    assert est.feature_names_in_.tolist() == NAMES
    assert est.cells_ == ["region=n", "region=s"]
    assert list(est.sensitive_kinds_) == ["sex", "kind"]
    assert est.transform(whole).shape == est.transform(frame(library)).shape


@LIBRARIES
def test_blocks_with_s_by_name(library):
    whole = frame(library, sex=SEX)
    est = new().prepare(whole, y, sensitive_features="sex")
    for rows in (slice(0, 50), slice(50, N)):
        est.partial_fit(whole[rows], y[rows], sensitive_features="sex", solve=rows.stop == N)
    alone = new().prepare(X, y, sensitive_features=SEX).partial_fit(X, y, sensitive_features=SEX)
    np.testing.assert_allclose(est.transform(whole), alone.transform(X), atol=1e-9)


@LIBRARIES
@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_frames_out(library, subspace):
    name = {pd: "pandas", pl: "polars"}[library]
    whole = frame(library)
    est = new(subspace=subspace).set_output(transform=name)
    out = est.fit(whole, y, sensitive_features=s).transform(whole)
    assert isinstance(out, library.DataFrame)
    assert list(out.columns) == est.get_feature_names_out().tolist()
    assert out.columns[0] == "fairrepresentation0"
    np.testing.assert_allclose(out.to_numpy(), expected(subspace=subspace), atol=1e-12)
    fresh = new(subspace=subspace).set_output(transform=name)
    assert isinstance(fresh.fit_transform(X, y, sensitive_features=s), library.DataFrame)


def test_pandas_index_is_kept():
    whole = frame(pd).set_index(np.arange(N) + 1000)
    est = new().set_output(transform="pandas").fit(whole, y, sensitive_features=s)
    assert est.transform(whole).index.equals(whole.index)


def test_the_dial_keeps_the_output_container():
    est = new().set_output(transform="pandas").fit(frame(pd), y, sensitive_features=s)
    assert isinstance(est.at(0.5).transform(frame(pd)), pd.DataFrame)
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(fitted().transform(X), pl.DataFrame)


@LIBRARIES
def test_columns_in_another_order_or_missing_are_errors(library):
    est = new().fit(frame(library), y, sensitive_features=s)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        est.transform(frame(library)[NAMES[::-1]])
    with pytest.raises(ValueError, match=r"(?s)missing.*debt"):
        est.transform(frame(library)[["income", "age"]])
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*sex"):
        est.transform(frame(library, sex=s))


def test_an_array_after_a_frame_warns_as_in_scikit_learn():
    est = new().fit(frame(pd), y, sensitive_features=s)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        est.transform(X)


@LIBRARIES
def test_a_column_that_equals_s_warns_by_name_and_stays(library):
    whole = frame(library, male=s)
    with pytest.warns(DataWarning, match="X holds the protected attribute .* column 'male'"):
        est = new().fit(whole, y, sensitive_features=SEX)
    assert est.feature_names_in_.tolist() == [*NAMES, "male"]


# --------------------------------------------------------------------------- bad frames


def refuses(whole, groups, *words, **params):
    est = new(**params)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are the match
        est.fit(whole, y, sensitive_features=groups)
    assert all(word in str(caught.value) for word in words), caught.value
    assert vars(est).keys() == est.get_params().keys()


@LIBRARIES
def test_text_in_a_column_is_named_with_its_remedy(library):
    refuses(frame(library, city=SEX), s, "'city'", "table_encoder", encoder=None)
    dates = np.full(N, np.datetime64("2020-01-01", "us"))
    refuses(frame(library, when=dates), s, "'when'", "table_encoder", encoder=None)
    with pytest.raises(ValueError, match=r"'city'.*let `fit` or `fit_stream` do it"):
        new().partial_fit(frame(library, city=SEX), y, sensitive_features=s)


def test_text_in_an_object_column_is_named():
    whole = frame(pd)
    whole["debt"] = whole["debt"].astype(object)
    whole.loc[3, "debt"] = "none"
    refuses(whole, s, "Column 'debt'", "'none'", "table_encoder", encoder=None)
    refuses(whole, s, "column 'debt' of X mixes text and other values", "'none'")


@LIBRARIES
def test_nan_in_a_column_is_named_with_its_remedy(library):
    holed = X[:, 1].copy()
    holed[7] = np.nan
    words = ("NaN", "'debt'", "row 7", "table_encoder")
    refuses(frame(library, debt=holed), s, *words, encoder=None)


def test_missing_in_nullable_columns():
    whole = frame(pd)
    whole["debt"] = whole["debt"].astype("Float64")
    whole.loc[7, "debt"] = pd.NA
    refuses(whole, s, "NaN", "'debt'", "row 7", encoder=None)
    whole = frame(pl).with_columns(debt=pl.Series([None, *X[1:, 1]]))
    refuses(whole, s, "NaN", "'debt'", "row 0", encoder=None)


@LIBRARIES
def test_missing_s_in_frames_is_named(library):
    holed = library.DataFrame({"sex": [None, *SEX[1:].tolist()]})
    refuses(frame(library), holed, "'sex'", "missing", "1 rows", "missing_sensitive='omit'")
    est = new(missing_sensitive="omit").fit(frame(library), y, sensitive_features=holed)
    assert est.blocks_[0].n_rows == N - 1


@LIBRARIES
def test_names_that_x_does_not_have(library):
    whole = frame(library, sex=SEX)
    refuses(whole, "gender", "'gender'", "X does not have", "'income'")
    refuses(whole, ["sex", "gender"], "'gender'", "X does not have")


@LIBRARIES
def test_names_given_twice(library):
    refuses(frame(library, sex=SEX), ["sex", "sex"], "sensitive_features", "'sex' twice")


def test_columns_with_one_name():
    twice = pd.DataFrame(np.c_[s, s], columns=["sex", "sex"])
    refuses(frame(pd), twice, "sensitive_features", "'sex' twice")
    refuses(pd.DataFrame(X, columns=["a", "a", "b"]), s, "X has", "'a' twice")


@LIBRARIES
def test_no_feature_left(library):
    only = frame(library)[["income", "debt"]]
    refuses(only, ["income", "debt"], "no column left", "'income', 'debt'")


@LIBRARIES
def test_wrong_length_of_a_named_series(library):
    refuses(frame(library), library.DataFrame({"sex": SEX[:-1]}), "'sex'", "79 rows", "X has 80")


@LIBRARIES
def test_a_mixed_table_goes_through_the_encoder(library):
    raw = frame(library, city=np.where(X[:, 0] > 0, "a", "b"))
    model = make_pipeline(table_encoder(raw), new(removal="training_rows"))
    scores = model.fit(raw, y, fairrepresentation__sensitive_features=s).transform(raw)
    assert abs(np.corrcoef(scores[:, 0], s)[0, 1]) < 1e-8
