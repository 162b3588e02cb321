"""Tensors are read, refused, sampled and passed through a device as arrays are."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

torch = pytest.importorskip("torch")

from fairspan import FairRepresentation, FairRidge, FairRidgeClassifier, NumericalError  # noqa: E402
from fairspan.device.passes import DevicePass, for_precision  # noqa: E402
from fairspan.estimators.prepare import build_pilot  # noqa: E402
from fairspan.method import torch_columns as _device  # noqa: E402
from fairspan.method.codes import Coder  # noqa: E402
from fairspan.method.features import LandmarkMap, TransformerMap  # noqa: E402
from fairspan.method.kernels import Kernel  # noqa: E402
from fairspan.method.problem import (  # noqa: E402
    Attribute,
    ClassLabels,
    Data,
)
from fairspan.streaming import Rows  # noqa: E402
from fairspan.streaming import sample as _sample  # noqa: E402
from fairspan.streaming.rows import join  # noqa: E402

FEW = {"gamma": 0.2, "alpha": 1.0, "n_components": 30, "random_state": 0}
N = 200


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rows(rng):
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + s[:, None]
    return X, X[:, 0] + 0.3 * rng.normal(size=N), s


# ------------------------------------------------------------------ what is refused

WRONG = {
    "y in two columns": ({"y": np.ones((N, 2))}, "1d array"),
    "y with a gap": ({"y": np.where(np.arange(N) == 3, np.nan, 1.0)}, "NaN"),
    "complex S": ({"sensitive_features": np.ones(N, dtype=complex)}, "complex"),
    "endless S": ({"sensitive_features": np.where(np.arange(N) < 2, np.inf, 1.0)}, "infinity"),
    "no S": ({"sensitive_features": np.ones((N, 0))}, "no columns"),
    "short S": ({"sensitive_features": {"a": np.ones(N - 1)}}, f"{N - 1} rows, X has {N}"),
    "square weights": ({"sample_weight": np.ones((N, 2))}, "Sample weights must be 1D"),
    "short weights": ({"sample_weight": np.ones(N - 1)}, "sample_weight"),
    "a weight that is no number": ({"sample_weight": np.r_[np.nan, np.ones(N - 1)]}, "NaN"),
    "an endless weight": ({"sample_weight": np.r_[np.inf, np.ones(N - 1)]}, "infinity"),
    "two negative weights": ({"sample_weight": np.r_[-1.0, -2.0, np.ones(N - 2)]}, "negative"),
    "no weight": ({"sample_weight": np.zeros(N)}, "nothing is left to fit"),
    "complex X": ({"X": np.ones((N, 3), dtype=complex)}, "Complex data not supported"),
    "X of three dimensions": ({"X": np.ones((N, 3, 2))}, "dim"),
}


def tensors(value):
    if isinstance(value, dict):
        return {name: tensors(one) for name, one in value.items()}
    return torch.tensor(value)


@pytest.mark.parametrize("what", WRONG)
def test_a_tensor_is_refused_where_an_array_is(rows, what):
    wrong, words = WRONG[what]
    X, y, s = rows
    given = {"X": X, "y": y, "sensitive_features": s, **wrong}
    with pytest.raises(ValueError, match=words) as expected:
        FairRidge(**FEW).fit(**given)
    with pytest.raises(ValueError, match=words) as found:
        FairRidge(**FEW).fit(**{name: tensors(value) for name, value in given.items()})
    assert type(found.value) is type(expected.value)


def test_a_sparse_tensor_is_refused_with_the_remedy(rows):
    X, y, s = rows
    with pytest.raises(ValueError, match=r"layout torch\.sparse.*X\.to_dense\(\)"):
        FairRidge(**FEW).fit(torch.tensor(X).to_sparse(), y, sensitive_features=s)


def test_a_block_may_have_no_weight_at_all(rows):
    X, y, s = map(torch.tensor, rows)
    model = FairRidge(**FEW).prepare(X, y, sensitive_features=s)
    model.partial_fit(X, y, sensitive_features=s)
    before = model.predict(X)
    nothing = torch.zeros(50, dtype=torch.float64)
    model.partial_fit(X[:50], y[:50], sensitive_features=s[:50], sample_weight=nothing)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_column_of_y_is_said_once_and_read_as_the_vector(rows):
    X, y, s = map(torch.tensor, rows)
    expected = FairRidge(**FEW).fit(X, y, sensitive_features=s).predict(X)
    with pytest.warns(DataConversionWarning, match="column-vector") as said:
        model = FairRidge(**FEW).fit(X, y[:, None], sensitive_features=s)
    assert len(said) == 1
    np.testing.assert_array_equal(model.predict(X), expected)


# ------------------------------------------------------------------ kernels and moments


def test_a_kernel_given_as_a_tensor_is_the_kernel_given_as_an_array(rows):
    X, y, s = rows
    K = np.exp(-0.2 * np.square(X[:, None] - X[None]).sum(axis=2))
    params = {"kernel": "precomputed", "alpha": 1.0, "random_state": 0}
    expected = FairRidge(**params).fit(K, y, sensitive_features=s)
    found = FairRidge(**params).fit(torch.tensor(K), y, sensitive_features=s)
    a, b = expected.predict(K[:20]), found.predict(torch.tensor(K[:20]))
    np.testing.assert_allclose(b, a, atol=1e-8 * np.abs(a).max())


@pytest.mark.parametrize("params", [{"gamma": 0.05, "coef0": 0.5}, {}])
def test_sigmoid_columns_of_tensors_are_those_of_arrays(rows, params):
    X = rows[0]
    features = LandmarkMap.build(Kernel("sigmoid", params), X[:20], np.eye(20), exact=False)
    np.testing.assert_allclose(
        features.raw(torch.tensor(X)).numpy(), features.raw(X), rtol=0.0, atol=1e-12
    )


@pytest.mark.parametrize("n", [48, 50])
def test_thin_products_take_every_row_once(n, rng, monkeypatch):
    """Whether or not the rows are a multiple of the parts that are summed side by side."""
    monkeypatch.setattr(_device, "_thin_parts", lambda _: 16)
    Z = torch.tensor(rng.normal(size=(n, 7)))
    out = torch.zeros((7, 7), dtype=torch.float64)
    _device._add_thin(Z, out, 5)
    torch.testing.assert_close(out[:, 5:], (Z.T @ Z)[:, 5:], rtol=0.0, atol=1e-12)
    assert not out[:, :5].any()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [("[enforce fail] not enough memory: 8 GB", MemoryError), ("mat1 is wrong", RuntimeError)],
)
def test_only_a_lack_of_memory_is_called_one(raised, expected):
    with pytest.raises(expected) as found, _device.naming_memory(2**30, "Moments", "cpu"):
        raise RuntimeError(raised)
    assert type(found.value) is expected
    assert ("Moments take 1.00 GiB on cpu" in str(found.value)) == (expected is MemoryError)


def pilot_of(rows, **params):
    X, y, s = rows
    est = FairRepresentation(alpha=1.0, random_state=0, **params)
    data = est._read(torch.tensor(X), y, s, None, None, reset=True)
    return build_pilot(est._config, data.on_host()), data


def test_rows_in_memory_that_may_not_be_written_to_are_sent_as_others_are(rows):
    """As mapped files are. Lent to torch, it would warn that writing to them is undefined."""
    pilot, data = pilot_of(rows, gamma=0.2, n_components=20)
    here = data.on_host()
    locked = here.X.copy()
    locked.flags.writeable = False
    found = []
    for X in (here.X, locked):
        one = DevicePass(pilot, pilot.empty_moments(), "cpu")
        one.add(replace(here, X=X), pilot.counter())
        found.append(one.moments())
    np.testing.assert_array_equal(found[1].scatter, found[0].scatter)


def test_columns_without_landmarks_are_the_same_in_float32(rows):
    pilot, _ = pilot_of(rows, kernel="linear")
    narrow = for_precision(pilot, "float32")
    assert narrow.features is pilot.features
    assert narrow.precision == "float32"
    assert narrow.fingerprint != pilot.fingerprint


def test_moments_that_overflow_are_refused(rows):
    X, y, s = rows
    pilot, _ = pilot_of(rows, kernel="linear")
    data = FairRepresentation()._read(torch.tensor(X), y, s, None, None, reset=True)
    data = replace(data, X=data.X * 1e200)  # readers refuse such numbers
    one = DevicePass(pilot, pilot.empty_moments(), "cpu")
    one.add(data, pilot.counter())
    with pytest.raises(NumericalError, match="nan"):
        one.check()


# ------------------------------------------------------------------ rows that stand for many


def attribute(name, values, missing=None):
    values = torch.tensor(values) if np.asarray(values).dtype.kind in "fi" else values
    missing = np.zeros(len(values), dtype=bool) if missing is None else missing
    if torch.is_tensor(values):
        values, missing = values.to(torch.float64), torch.tensor(missing)
    return Attribute(name, values, missing, "f" if torch.is_tensor(values) else "U")


@pytest.fixture
def small_pilots(monkeypatch):
    monkeypatch.setattr(_sample, "RESIDENT_PILOT", 500)
    monkeypatch.setattr(_sample, "SAMPLE_ROWS", 200)


def sample_of(n=3000, *, seed=0, **fields):
    X = torch.tensor(np.random.default_rng(seed).normal(size=(n, 2)))
    empty = {"y": None, "classes": None, "sensitive": {}, "control": {}, "weights": None}
    est = FairRepresentation(n_components=20, random_state=0)
    return _sample.pilot_rows(est._config, Data(X=X, **{**empty, **fields}))[0]


def test_rare_levels_are_kept_in_text_too(small_pilots):
    text = np.where(np.arange(3000) % 500 == 9, "rare", "common")  # 6 rows
    sample = sample_of(sensitive={"s": attribute("s", text)})
    assert int((sample.sensitive["s"].values == "rare").sum()) == 6
    assert sample.y is None
    assert sample.classes is None


def test_missing_values_are_no_rare_level(small_pilots):
    """They are what the sample has of them; nobody looks for more."""
    missing = np.arange(3000) % 500 == 9
    gaps = attribute("s", np.arange(3000) % 2, missing)
    assert sample_of(sensitive={"s": gaps}).n == 200


def test_numbers_are_no_levels(small_pilots):
    """Few in the sample, very many in all: none of them is looked for."""
    rare = np.where(np.arange(3000) % 10 == 0, np.arange(3000), 0)
    assert sample_of(sensitive={"s": attribute("s", rare)}).n == 200
    assert sample_of(sensitive={"s": attribute("s", np.arange(3000))}).n == 200


def test_the_sample_is_of_places_not_of_positions(small_pilots):
    """Rows that were left out before change nothing for those that are left."""
    whole = sample_of()
    left = np.flatnonzero(np.arange(3000) % 5)
    est = FairRepresentation(n_components=20, random_state=0)
    X = torch.tensor(np.random.default_rng(0).normal(size=(3000, 2)))
    empty = {"y": None, "classes": None, "sensitive": {}, "control": {}, "weights": None}
    part, _ = _sample.pilot_rows(est._config, Data(X=X, **empty).take(left))
    both = np.intersect1d(whole.index, left)
    assert len(both) > 100
    assert np.isin(both, part.index).all()


def test_classes_that_no_sampled_row_has_are_not_listed(small_pilots):
    """A label that only rows without a place in the sample have would be a class without rows."""
    y = np.where(np.arange(3000) % 2 == 0, 3, 7)
    labels = ClassLabels(np.array([3.0, 5.0, 7.0]), np.array([3, 5, 7]))
    sample = sample_of(y=attribute("y", y), classes=labels)
    coder = Coder.learn(sample.y.on_host(), "categorical", None)
    np.testing.assert_array_equal(sample.classes.in_order_of(coder), [3, 7])


def test_labels_beyond_counting_are_no_classes(monkeypatch, rows):
    from fairspan.inputs import tensors as _tensors

    X, _, s = map(torch.tensor, rows)
    y = torch.arange(N)
    monkeypatch.setattr(_tensors, "_MOST_CLASSES", 50)
    assert _tensors.read_tensor_target(y, "cpu", numbers=False)[1] is None
    np.testing.assert_array_equal(
        _tensors.read_tensor_target(y % 50, "cpu", numbers=False)[1].given, np.arange(50)
    )
    assert FairRidgeClassifier(**FEW).fit(X, y % 3, sensitive_features=s).classes_.tolist() == [
        0,
        1,
        2,
    ]


# ------------------------------------------------------------------ streams of tensors


def test_tensors_are_joined_and_cut_as_arrays_are(rows):
    X, y, s = rows
    whole = Rows(*map(torch.tensor, (X, y, s)), None, None)
    parts = [whole.cut(0, 30), whole.cut(30, 31), whole.cut(31, N)]
    for found, expected in zip(join(parts).arguments[:3], rows, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    some = np.array([5, 3, 3])
    np.testing.assert_array_equal(whole.take(some).X.numpy(), X[some])
    mixed = Rows(whole.X, whole.y, s, None, None)
    with pytest.raises(ValueError, match="differ in type between blocks"):
        join([whole, mixed])


def test_a_stream_through_a_device_is_the_stream_of_the_processor(rows, tmp_path):
    pd = pytest.importorskip("pandas")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, y, s = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        town=np.where(X[:, 2] > 0.5, "x", "z"), y=y, sex=s
    )
    given = {"target": "y", "sensitive_features": "sex"}
    here = FairRidge(**FEW).fit_stream(frame, **given)
    there = FairRidge(**FEW).fit_stream(frame, **given, device="cpu", precision="float64")
    assert there.smallest_eigenvalue_ > -1e-7
    assert not hasattr(here, "smallest_eigenvalue_")
    np.testing.assert_allclose(there.predict(frame), here.predict(frame), rtol=1e-9, atol=1e-9)
    here.predict_stream(frame, tmp_path / "out", device="cpu")
    found = parquet.read_table(tmp_path / "out")["prediction"]
    np.testing.assert_allclose(found, here.predict(frame), rtol=1e-9, atol=1e-9)


def test_missing_values_alone_fit_any_list_of_categories():
    """A column of gaps has no type that could disagree."""
    coder = Coder("s", "categorical", np.array(["a", "b"]))
    gone = torch.ones(4, dtype=torch.bool)
    nothing = Attribute("s", torch.zeros(4, dtype=torch.float64), gone, "f")
    assert coder.codes({"s": nothing}).tolist() == [-1] * 4
    with pytest.raises(ValueError, match="never seen"):
        coder.codes({"s": replace(nothing, missing=~gone)})


def test_functions_of_arrays_are_not_called_with_tensors(rows):
    X = rows[0]
    kernel = Kernel("mine", {}, function=lambda A, B: A @ B.T)
    features = LandmarkMap.build(kernel, X[:5], np.eye(5), exact=False)
    with pytest.raises(ValueError, match=r"a function of yours.*X\.cpu\(\)\.numpy\(\)"):
        features.columns_on("cpu", torch.float64)
    with pytest.raises(ValueError, match=r"feature_map.*X\.cpu\(\)\.numpy\(\)"):
        TransformerMap("anything", 3).scores(torch.tensor(X), np.eye(3))
