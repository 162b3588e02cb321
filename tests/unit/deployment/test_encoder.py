"""Frames: unknown categories, gaps, dates, booleans and hostile names are read as the model reads them."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import FairRidge, FairRidgeClassifier, export, table_encoder
from fairspan.deployment import read_npz_model
from fairspan.deployment.encoder import read_inputs
from fairspan.deployment.program import Program
from fairspan.exceptions import DataWarning, ExportError

pd = pytest.importorskip("pandas")
N = 200
HOSTILE = ["label", "variable", "fairspan/i0", 'a b\n"c"', "ünï 中", "v3", "plan", "rows", "c0"]


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    jobs = np.array(["cook", "clerk", "1.0", "01", "", "rare", None, "Σ"], dtype=object)
    days = pd.to_timedelta(rng.integers(0, 3000, n), "D")
    frame = pd.DataFrame(
        {
            "age": rng.normal(40.0, 10.0, n).round(1),
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.normal(5e4, 1e4, n).round()),
            "job": rng.choice(jobs, n, p=[0.3, 0.3, 0.1, 0.1, 0.08, 0.01, 0.1, 0.01]),
            "code": rng.choice(np.array([1.0, 2.0, np.nan, True], dtype=object), n),
            "own": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-02-01") + days,
        }
    )
    return frame


def fitted(frame, signal=0.0, **options):
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, len(frame))
    y = rng.normal(size=len(frame)) + s + signal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FairRidge(n_components=30, random_state=0, **options).fit(
            frame, y, sensitive_features=s
        )


@pytest.fixture(scope="module")
def model():
    frame = table()
    return fitted(frame, signal=frame["age"] / 10.0)


def files(model, tmp_path, check=None):
    """The largest differences of both kinds of file."""
    found = [export(model, tmp_path / "model.npz", check=check)]
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    found += [
        export(model, tmp_path / "model.onnx", check=check, dtype=dtype)
        for dtype in ("float64", "float32")
    ]
    assert [
        written.largest_difference <= limit
        for written, limit in zip(found, (1e-9, 1e-9, 1e-5), strict=True)
    ] == [True] * 3
    return found[-1]


def test_a_table_with_everything_that_people_have(model, tmp_path):
    new = table(seed=5, n=60)
    new.loc[:5, "job"] = "never seen"
    new.loc[3:9, "age"] = np.nan  # complete in training
    new.loc[:3, "since"] = pd.NaT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = files(model, tmp_path, new)
    assert written.inputs == {
        "age": "number",
        "income": "number",
        "job": "text",
        "code": "text",
        "own": "number",
        "since": "date",
    }
    files(model, tmp_path)  # on generated rows


def test_polars_frames(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.from_pandas(table().drop(columns="code"))
    model = fitted(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files(model, tmp_path, frame.head(40))


def test_a_frame_of_numbers_has_one_input_for_each_column(tmp_path):
    frame = table()[["age", "own"]].assign(z=np.arange(N))
    written = files(fitted(frame), tmp_path, frame.head(20))
    assert written.inputs == dict.fromkeys(["age", "own", "z"], "number")


def test_hostile_names(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(["a", "b", name], N) for name in HOSTILE})
    s = rng.integers(0, 2, N)
    y = np.where((frame["v3"] == "a") & (rng.random(N) < 0.9), "x", 'y"\n')
    model = FairRidgeClassifier(alpha=1.0, random_state=0).fit(frame, y, sensitive_features=s)
    written = files(model, tmp_path, frame.head(30))
    assert list(written.inputs) == HOSTILE
    assert written.outputs == ("output_label", "decision_function")


def test_an_empty_name_is_refused():
    frame = table()[["age", "job"]].rename(columns={"job": ""})
    with pytest.raises(ExportError, match=r"the column name ''. .*Rename the column"):
        read_inputs(Program(), fitted(frame))


def test_another_encoder_is_refused(model):
    import copy
    from dataclasses import replace

    other = copy.copy(model)
    other._schema = replace(model._schema, encoder=table_encoder(table()).transformers[0][1])
    with pytest.raises(ExportError, match="the encoder Pipeline"):
        read_inputs(Program(), other)


VALUES = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.sampled_from(
        ["missing", "nan", "None", "1", "1.0", "01", "-3.0", "2.00", "infrequent_sklearn", "0"]
    ),
    st.sampled_from(["100000000000000000", "1e+17", "-0.0"]),
    st.integers(-5, 5),
    st.sampled_from([1.0, -2.0, 0.5, float("nan"), True, False, 1e17, -0.0, 0.0, 10**17, pd.NA]),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    known=st.lists(VALUES, min_size=4, max_size=30),
    new=st.lists(VALUES, min_size=1, max_size=9),
    min_frequency=st.sampled_from([None, 1, 2, 5]),
    max_categories=st.sampled_from([None, 2, 3]),
)
def test_categories_are_those_of_the_encoder(known, new, min_frequency, max_categories):
    """Any text, number or gap, frequent, rare or never seen, gets the same columns."""
    text = list(known)
    if not any(isinstance(v, str) for v in text):
        text[0] = "a"  # otherwise the column is one of numbers
    frame = pd.DataFrame({"c": pd.Series(text, dtype=object)})
    encoder = table_encoder(frame, min_frequency=min_frequency, max_categories=max_categories)
    encoder.fit(frame)
    rows = pd.DataFrame({"c": pd.Series(new, dtype=object)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = encoder.transform(rows)
        except ValueError:  # a column of numbers where training had text is refused
            return

    class Model:
        class _schema:  # noqa: N801
            pass

    Model._schema.encoder = encoder
    program = Program()
    columns = read_inputs(program, Model)
    known_values = {"i0": read_npz_model._read({"c": new}, "c", "text", 1, False)}
    known_values |= program.constants
    for step in program.steps:
        values = [known_values[a] if isinstance(a, str) else a for a in step.arguments]
        known_values[step.result] = read_npz_model.OPS[step.operation](*values)
    np.testing.assert_array_equal(known_values[columns.values.name], wanted)
    assert columns.binary == set(range(wanted.shape[1]))


def test_large_whole_numbers_are_the_categories_of_their_text(tmp_path):
    """Numbers without an exponent, in the npz reader and in the feed of ONNX files."""
    rng = np.random.default_rng(0)
    known = ["100000000000000000", "200000000000000000", "0", "x"]
    frame = pd.DataFrame({"branch": rng.choice(known, N)})
    model = fitted(frame, signal=3.0 * pd.factorize(frame["branch"], sort=True)[0])
    new = pd.DataFrame({"branch": [1e17, 2e17, -0.0, 0.0]})
    assert len(set(model.predict(new).round(6))) == 3
    files(model, tmp_path, new)
    found = read_npz_model.load(tmp_path / "model.npz")(new)["variable"].ravel()
    np.testing.assert_allclose(found, model.predict(new), atol=1e-9)


def dated():
    frame = table()[["age", "job", "since"]]
    days = (frame["since"] - pd.Timestamp("2020-02-01")).dt.days
    return frame, fitted(frame, signal=days / 500.0)


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_the_reader_takes_dates_of_a_frame_as_days(unit, tmp_path):
    frame, model = dated()
    export(model, tmp_path / "model.npz", check=frame)
    score = read_npz_model.load(tmp_path / "model.npz")
    new = frame.assign(since=frame["since"].astype(f"datetime64[{unit}]"))
    new.loc[3, "since"] = pd.NaT
    np.testing.assert_allclose(score(new)["variable"].ravel(), model.predict(new), atol=1e-9)
    pl = pytest.importorskip("polars")
    polars = pl.from_pandas(new).with_columns(pl.col("since").cast(pl.Date))
    np.testing.assert_allclose(score(polars)["variable"].ravel(), model.predict(polars), atol=1e-9)


def test_a_frame_is_compared_as_it_is_given_too(tmp_path, monkeypatch):
    """A reader that takes dates as nanoseconds is noticed."""
    frame, model = dated()
    right = read_npz_model._read

    def wrong(rows, name, kind, width, complete, **more):
        if kind == "date" and isinstance(rows, pd.DataFrame):
            return rows[name].to_numpy().astype(np.float64)[:, None]
        return right(rows, name, kind, width, complete, **more)

    monkeypatch.setattr(read_npz_model, "_read", wrong)
    for rows in (frame, None):
        with pytest.raises(ExportError, match="was not written"):
            export(model, tmp_path / "model.npz", check=rows)


def test_what_the_reader_refuses_is_said(tmp_path):
    frame, model = dated()
    frame = frame.assign(since=frame["since"].dt.tz_localize("Europe/Berlin"))
    with pytest.warns(DataWarning, match="The reader of npz files refuses these rows as they are"):
        assert export(model, tmp_path / "model.npz", check=frame).rows_checked == N


def test_a_frame_with_columns_that_the_encoder_leaves_out(tmp_path):
    frame = table()[["age", "job", "own"]]
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    y = frame["age"].to_numpy() / 10.0 + s
    encoder = table_encoder(frame[["age", "job"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairRidge(random_state=0, n_components=30).fit_stream(
            lambda: [(frame[i : i + 50], y[i : i + 50], s[i : i + 50]) for i in range(0, N, 50)],
            encoder=encoder,
        )
        assert files(model, tmp_path, frame.head(40)).inputs == {"age": "number", "job": "text"}
        files(model, tmp_path)
