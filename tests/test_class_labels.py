"""Labels, groups and features mean the same on every path: one order of classes, and no bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import FairRidgeClassifier, audit, metrics, table_encoder
from fairspan.inputs.rows import _read_target
from fairspan.method.codes import Coder

pd = pytest.importorskip("pandas")

FIXED = {"gamma": 0.3, "alpha": 1.0, "eta": 1e-3, "n_components": 30, "random_state": 0}
DECODE = r"holds bytes, such as b'.*Decode them first"
# As text, "b'no'" comes after "b'no answer'"; as bytes, b"no" comes first.
LABELS = np.array([b"no", b"no answer"])


def rows(n=400):
    """Two features, two groups, and a class that the first feature decides."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + s[:, None] * [0.2, 1.0]
    return X, (X[:, 0] > 0.0).astype(int), s


X, CODES, SEX = rows()
MODEL = FairRidgeClassifier(**FIXED)


def as_arrow(values):
    return pytest.importorskip("pyarrow").array(values)


CONTAINERS = {
    "list": lambda values: values.tolist(),
    "array": lambda values: values,
    "array of objects": lambda values: values.astype(object),
    "pandas": lambda values: pd.Series(values.astype(object)),
    "polars": lambda values: pytest.importorskip("polars").Series(values.tolist()),
    "Arrow": lambda values: as_arrow(values.tolist()),
}


@pytest.mark.regression("bytes labels are swapped")
@pytest.mark.parametrize("container", CONTAINERS)
def test_bytes_as_target_are_refused(container):
    y = CONTAINERS[container](LABELS[CODES])
    with pytest.raises(ValueError, match=DECODE):
        MODEL.fit(X, y, sensitive_features=SEX)


@pytest.mark.regression("bytes labels are swapped")
@pytest.mark.parametrize("container", CONTAINERS)
def test_bytes_as_groups_and_strata_are_refused(container):
    groups = CONTAINERS[container](np.array([b"f", b"m"])[SEX])
    with pytest.raises(ValueError, match=r"sensitive_features.*holds bytes"):
        MODEL.fit(X, CODES, sensitive_features={"sex": groups})
    strata = FairRidgeClassifier(**FIXED, criterion="conditional_statistical_parity")
    with pytest.raises(ValueError, match=r"control_features.*holds bytes"):
        strata.fit(X, CODES, sensitive_features=SEX, control_features={"sex": groups})


@pytest.mark.regression("bytes labels are swapped")
def test_bytes_among_text_are_refused():
    y = np.where(CODES == 1, "yes", "no").astype(object)
    y[3] = b"no"
    with pytest.raises(ValueError, match=r"sensitive_features.*holds bytes, such as b'no'"):
        MODEL.fit(X, CODES, sensitive_features=y)


@pytest.mark.regression("bytes labels are swapped")
def test_bytes_as_features_are_refused():
    numbers = X.astype("S")
    for features in (numbers, numbers.astype(object), pd.DataFrame(numbers.astype(object))):
        with pytest.raises(ValueError, match=DECODE):
            MODEL.fit(features, CODES, sensitive_features=SEX)


@pytest.mark.regression("bytes labels are swapped")
def test_an_encoder_refuses_bytes_in_new_rows():
    train = pd.DataFrame({"n": [1.0, 2.0] * 20, "job": ["cook", "nurse"] * 20})
    encoder = table_encoder(train).fit(train)
    for name, values in {"job": [b"cook", b"nurse"], "n": [b"1", b"2"]}.items():
        new = train[:2].assign(**{name: pd.Series(values, dtype=object)})
        with pytest.raises(ValueError, match=f"column '{name}' holds bytes"):
            encoder.transform(new)


def test_a_table_with_bytes_has_no_encoder():
    train = pd.DataFrame({"job": pd.Series([b"cook", b"nurse"], dtype=object)})
    with pytest.raises(TypeError, match=r"'job' \(bytes, decode it"):
        table_encoder(train)


@pytest.mark.regression("bytes labels are swapped")
def test_audits_and_metrics_refuse_bytes():
    y = LABELS[CODES]
    with pytest.raises(ValueError, match=DECODE):
        metrics.demographic_parity_difference(y, y, sensitive_features=SEX, pos_label=b"no")
    with pytest.raises(ValueError, match=DECODE):
        audit(X[:, 0], y=y, sensitive_features=SEX, parts=["scores"])


# --------------------------------------------------------------------------- streams

NAMED = {"target": "answer", "sensitive_features": "sex"}


def table(labels=("nö", "nö answer")):
    frame = pd.DataFrame(X, columns=["a", "b"])
    return frame.assign(answer=np.array(labels)[CODES], sex=SEX)


def latin_1(folder):
    table().to_csv(folder / "rows.csv", index=False, encoding="latin-1")
    return folder / "rows.csv"


def latin_1_dataset(folder):
    ds = pytest.importorskip("pyarrow.dataset")
    return ds.dataset([str(latin_1(folder))], format="csv")


@pytest.mark.regression("bytes labels are swapped")
@pytest.mark.parametrize("source", [latin_1, latin_1_dataset])
def test_a_csv_file_that_is_not_utf_8_is_refused_with_the_remedy(source, tmp_path):
    pytest.importorskip("pyarrow")
    says = r"rows\.csv: the column 'answer' is not UTF-8\. .*encoding=\"latin-1\""
    with pytest.raises(ValueError, match=says):
        MODEL.fit_stream(source(tmp_path), **NAMED)


def test_of_several_files_the_one_that_is_not_utf_8_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    table().to_csv(tmp_path / "a.csv", index=False)
    latin_1(tmp_path)
    with pytest.raises(ValueError, match=r"rows\.csv: the column 'answer' is not UTF-8"):
        MODEL.fit_stream(str(tmp_path / "*.csv"), **NAMED)


def test_the_remedy_for_a_csv_file_that_is_not_utf_8_works(tmp_path):
    ds, csv = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("pyarrow.csv")
    layout = ds.CsvFileFormat(read_options=csv.ReadOptions(encoding="latin-1"))
    rows = ds.dataset([str(latin_1(tmp_path))], format=layout)
    model = FairRidgeClassifier(**FIXED).fit_stream(rows, **NAMED)
    assert model.classes_.tolist() == ["nö", "nö answer"]
    assert np.mean(model.predict(table()[["a", "b"]]) == table()["answer"]) > 0.9


def test_a_later_block_that_is_not_utf_8_is_named_with_the_remedy(tmp_path):
    """Arrow infers types from the first megabyte."""
    pytest.importorskip("pyarrow")
    head = pd.concat([table(("no", "no answer"))] * 60)
    text = head.to_csv(index=False) + table().to_csv(index=False, header=False)
    assert len(text) > 2**20
    (tmp_path / "rows.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(OSError, match=r"rows\.csv: rows from .*encoding=\"latin-1\""):
        MODEL.fit_stream(tmp_path / "rows.csv", **NAMED)


@pytest.mark.regression("bytes labels are swapped")
@pytest.mark.parametrize("kind", ["Parquet", "table", "record batches"])
def test_binary_columns_of_arrow_are_refused(kind, tmp_path):
    pa = pytest.importorskip("pyarrow")
    frame = table().assign(answer=pd.Series(list(LABELS[CODES]), dtype=object))
    rows = pa.Table.from_pandas(frame)
    assert pa.types.is_binary(rows.schema.field("answer").type)
    if kind == "Parquet":
        frame.to_parquet(tmp_path / "rows.parquet")
        rows = tmp_path / "rows.parquet"
    with pytest.raises(ValueError, match=DECODE):
        MODEL.fit_stream(rows if kind != "record batches" else rows.to_batches(), **NAMED)


@pytest.mark.regression("bytes labels are swapped")
def test_binary_features_of_a_stream_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    train = table(("no", "yes")).assign(job=np.array(["cook", "nurse"])[CODES])
    model = FairRidgeClassifier(**FIXED).fit_stream(train, **NAMED)
    new = train.assign(job=pd.Series([job.encode() for job in train["job"]], dtype=object))
    with pytest.raises(ValueError, match="column 'job' holds bytes"):
        model.predict_stream(pa.Table.from_pandas(new), tmp_path / "out.parquet")


def test_a_binary_column_can_be_kept_beside_predictions(tmp_path):
    """It is copied, not read."""
    parquet = pytest.importorskip("pyarrow.parquet")
    train = table(("no", "yes"))
    model = FairRidgeClassifier(**FIXED).fit_stream(train, **NAMED)
    key = [b"%d\xff" % i for i in range(len(train))]
    train.assign(key=pd.Series(key, dtype=object)).to_parquet(tmp_path / "new.parquet")
    path = model.predict_stream(tmp_path / "new.parquet", tmp_path / "out.parquet", keep="key")
    assert parquet.read_table(path)["key"].to_pylist() == key


# --------------------------------------------------------------------------- one order

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
LABEL_TYPES = {
    "text": TEXT,
    "text of numpy": TEXT.map(np.str_),
    "integers": st.integers(-(2**40), 2**40),
    "integers of numpy": st.integers(-100, 100).map(np.int16),
    "booleans": st.booleans(),
    "whole floats": st.integers(-(10**6), 10**6).map(float),
    "numbers of several types": st.one_of(
        st.booleans(), st.integers(-3, 3), st.integers(-3, 3).map(np.float32)
    ),
}


@given(st.data(), st.sampled_from(sorted(LABEL_TYPES)), st.booleans())
def test_the_label_of_a_code_is_the_label_of_its_rows(data, kind, as_objects):
    values = data.draw(st.lists(LABEL_TYPES[kind], min_size=1, max_size=30))
    y = np.array(values, dtype=object) if as_objects else np.array(values)
    target, labels = _read_target(y, None, numbers=False)
    present = data.draw(st.lists(st.booleans(), min_size=len(y), max_size=len(y)).filter(any))
    coder = Coder.learn(target.take(np.array(present)), "categorical", None)
    classes = labels.in_order_of(coder)
    assert len(classes) == coder.n_levels
    kept = target.take(np.array(present))
    np.testing.assert_array_equal(classes[coder.codes({"y": kept})], y[np.array(present)])
    assert classes.dtype == y.dtype


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "no answer"], ["Z", "a"], [10, 9], [False, True], [np.int8(3), np.int8(-3)],
        ["10", "9"], [1.0, 0.0], ["é", "z"], pd.Categorical(["b", "a"], categories=["b", "a"]),
        pd.Categorical([10, 9], categories=[10, 9]),
    ],
    ids=str,
)  # fmt: skip
def test_predictions_are_the_labels_that_were_given(labels):
    y = pd.Series(labels).iloc[CODES].reset_index(drop=True)
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=SEX)
    assert np.mean(model.predict(X) == y.to_numpy()) > 0.9
    assert set(model.classes_.tolist()) == set(y.unique().tolist())


def test_labels_of_rows_without_weight_are_no_classes():
    y, weight = CODES.copy(), np.ones(len(CODES))
    y[:20], weight[:20] = 7, 0.0
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=SEX, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype == y.dtype


def test_text_and_numbers_in_one_target_are_refused():
    y = np.array([1, "1"], dtype=object)[CODES]
    with pytest.raises(ValueError, match="mixes text and other values"):
        MODEL.fit(X, y, sensitive_features=SEX)
