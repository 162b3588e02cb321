"""Fits on streams: named columns, bad rows, checkpoints, and refused settings."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tests.support.stream_data import FEATURES, FIXED, NAMED, cut, ridge, table  # noqa: E402

from fairspan import CheckpointError, FairGPClassifier, FairspanWarning, RowError  # noqa: E402
from fairspan.streaming import Rows, Sample  # noqa: E402
from fairspan.streaming.rows import locate_error, naming_rows  # noqa: E402

ROWS = table(300)
X, Y, S = ROWS[FEATURES], ROWS["y"], ROWS["sex"]


def test_columns_that_a_block_names_are_taken_from_its_features():
    blocks = [{"X": part[[*FEATURES, "sex"]], "y": part["y"]} for part in cut(ROWS, [100])]
    named = [{**block, "sensitive_features": "sex"} for block in blocks]
    expected = ridge().fit_stream(ROWS, **NAMED)
    found = ridge().fit_stream(named)
    assert found.feature_names_in_.tolist() == FEATURES
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_combinations_that_became_too_many_are_looked_for_no_longer(rng):
    """Each attribute has few levels, their combinations have more than are kept apart."""
    sample = Sample(50, 0, crossed=True)
    from fairspan.streaming.sample import variables_of

    est = ridge(intersectional=True)
    for start in (0, 3000):
        a, b, c = rng.integers(0, 40, (3, 3000))
        data = est._read(
            rng.normal(size=(3000, 1)),
            rng.normal(size=3000),
            {"a": a, "b": b, "c": c},
            None,
            None,
            reset=True,
        )
        rows = Rows(data.X, data.y.values, {"a": a, "b": b, "c": c}, None, None)
        sample.add(start, rows, variables_of(data), data.index)
    assert sample._levels["sensitive crossed"] is None
    assert sample._levels["sensitive a"] is not None
    assert len(sample.rows()) >= 50


@pytest.mark.parametrize("features", ["linear", "rbf"])
def test_a_pass_goes_on_with_and_without_landmarks(features, tmp_path):
    params = {"kernel": "linear", "gamma": "cv"} if features == "linear" else {}
    expected = ridge(**params, removal="training_rows").fit_stream(ROWS, **NAMED).predict(X)
    for _ in range(2):  # the second finds all rows there
        model = ridge(**params, removal="training_rows").fit_stream(
            ROWS, **NAMED, checkpoint=tmp_path / "pass.npz"
        )
        np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("bad", [[], [0], [2, 9], [17]])
def test_the_first_bad_row_is_the_one_that_is_named(bad):
    rows = Rows(np.arange(18.0)[:, None], None, None, None, None)

    def read(some):
        if np.isin(some.X, bad).any():
            raise ValueError("bad")

    error = ValueError("of the block")
    found = locate_error(rows, 100, read, error)
    if bad:
        assert found.row == bad[0]
        assert f"Row {100 + bad[0]} of all" in str(found)
    else:
        assert found is error


def test_a_block_that_fails_only_together_keeps_its_own_error():
    rows = Rows(np.arange(6.0)[:, None], None, None, None, None)
    error = ValueError("too many at once")

    def read(some):
        if len(some) > 1:
            raise error

    assert locate_error(rows, 0, read, error) is error


@pytest.mark.parametrize("curvature", ["likelihood", "constant"])
def test_a_second_reading_without_rows_is_refused(curvature):
    labels = np.where(Y > 0.3, "yes", "no")
    model = FairGPClassifier(**FIXED, curvature=curvature).prepare(X, labels, sensitive_features=S)
    model.partial_fit(X, labels, sensitive_features=S)
    with pytest.raises(ValueError, match=r"fit_head was given no rows"):
        model.fit_head([])


@pytest.mark.parametrize("start", [-1, 1.5, True, "0"])
def test_a_place_is_a_whole_number(start):
    model = ridge().prepare(X, Y, sensitive_features=S, folds="position")
    with pytest.raises(ValueError, match=r"start=.*0 or more"):
        model.partial_fit(X, Y, sensitive_features=S, start=start)


def test_a_place_needs_folds_by_place():
    model = ridge().prepare(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match="folds='position'"):
        model.partial_fit(X, Y, sensitive_features=S, start=0)
    with pytest.raises(ValueError, match="'strata', 'position' or 'hash'"):
        ridge().prepare(X, Y, sensitive_features=S, folds="random")


def test_an_error_that_names_its_row_keeps_it():
    rows = Rows(np.ones((3, 1)), None, None, None, None)
    with (
        pytest.raises(RowError, match="there, row 7: why"),
        naming_rows(rows, 0, len),
    ):
        raise RowError("there", 7, "why")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"precision": "half", "device": "cpu"}, ValueError, "'auto', 'float64' or 'float32'"),
        ({"precision": "float32"}, ValueError, "pass device too"),
        ({"device": "cpu"}, ImportError, r"needs torch: pip install \"fairspan\[torch\]\""),
    ],
)
def test_what_a_device_needs_is_said_before_any_row_is_read(given, error, words, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find(name, *a)
    )
    with pytest.raises(error, match=words):
        ridge().fit_stream(iter([]), **NAMED, **given)


@pytest.mark.parametrize("hand_over", [lambda frame: frame, pl.from_pandas])
def test_a_checkpoint_of_text_columns_knows_its_rows(hand_over, tmp_path):
    """Two rows exchange a word: counts, and mostly landmarks, are the same, the rows are not."""
    frame = ROWS.assign(town=np.where(ROWS["a"] > 0, "x", "z"))
    source, file = hand_over(frame), tmp_path / "pass.npz"
    first = ridge().fit_stream(source, **NAMED, checkpoint=file).predict(source)
    again = ridge().fit_stream(source, **NAMED, checkpoint=file)
    np.testing.assert_array_equal(again.predict(source), first)
    x, z = (np.flatnonzero(frame["town"] == name) for name in "xz")
    for k in range(3):
        other = frame.copy()
        other.loc[[x[k], z[k]], "town"] = ["z", "x"]
        with pytest.raises(CheckpointError, match="are others"):
            ridge().fit_stream(hand_over(other), **NAMED, checkpoint=file)


@pytest.fixture(scope="module")
def model():
    return ridge().fit_stream(ROWS, **NAMED)


@pytest.mark.parametrize(
    ("settings", "given", "says"),
    [
        ({}, {"sensitive_features": None}, "fit needs the protected attributes"),
        ({"criterion": "conditional_statistical_parity"}, {}, "criterion='conditional"),
        ({}, {"control_features": "c"}, "control_features was given, but"),
    ],
)
def test_no_row_is_blamed_for_a_setting(settings, given, says):
    with pytest.raises(ValueError, match=rf"^{says}") as caught:
        ridge(**settings).fit_stream(ROWS, **{**NAMED, **given})
    assert not isinstance(caught.value, RowError)


@pytest.mark.parametrize("bad", [[0], [0, 299], [41, 150], list(range(0, 300, 7))])
def test_a_row_is_named_also_where_others_are_bad_too(bad):
    gaps = ROWS.copy()
    gaps.loc[bad, "y"] = np.nan
    with pytest.raises(RowError) as caught:
        ridge().fit_stream(gaps, **NAMED)
    assert caught.value.row == bad[0]


@pytest.mark.parametrize("offset", [0.0, 1e6, 3e8, 1e10])
def test_what_rounding_leaves_far_from_zero_is_said_with_its_amount(offset, recwarn):
    """Linear functions are right to about eps times the offset; beyond half the digits it is said."""
    frame = ROWS[FEATURES].to_numpy() + offset
    s = ROWS["sex"].to_numpy()
    model = ridge(kernel="linear", gamma="cv", n_components="auto").fit(
        frame, ROWS["y"], sensitive_features=s
    )
    left = abs(np.corrcoef(model.predict(frame), s)[0, 1])
    spread = frame.std(axis=0)
    about = float(np.max(np.abs(frame.mean(axis=0)) / spread)) * np.finfo(float).eps
    assert left <= max(2.0 * about, 1e-12)
    said = [str(w.message) for w in recwarn if issubclass(w.category, FairspanWarning)]
    amounts = [text for text in said if "standard deviations from 0" in text]
    if offset < 1e8:
        assert amounts == []
    else:
        assert len(amounts) == 1
        assert f"up to about {about:.0e}" in amounts[0]
        assert "Standardise first" in amounts[0]
