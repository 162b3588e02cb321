"""Tensors compute where they live, and to the numbers that arrays give."""

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from fairspan import (  # noqa: E402
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    IncompatibleMomentsError,
    NumericalError,
)
from fairspan.device import passes as _device_pass  # noqa: E402
from fairspan.device.passes import DevicePass, for_precision, start_pass  # noqa: E402
from fairspan.estimators import base as _base  # noqa: E402
from fairspan.estimators.prepare import build_pilot  # noqa: E402
from fairspan.method import torch_columns as _device  # noqa: E402
from fairspan.method.accumulate import MomentsPass  # noqa: E402
from fairspan.method.codes import Coder  # noqa: E402
from fairspan.method.features import LandmarkMap, TransformerMap  # noqa: E402
from fairspan.method.folds import FoldCounter, PositionFolds  # noqa: E402
from fairspan.method.kernels import Kernel  # noqa: E402
from fairspan.method.problem import Attribute  # noqa: E402
from fairspan.streaming import sample as _sample  # noqa: E402

N = 700


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Table:
    """Numbers, two and three classes, a category, a number with gaps, weights."""

    def __init__(self, n=N, seed=0):
        rng = np.random.default_rng(seed)
        self.group = rng.integers(0, 3, n)
        self.age = 1000.0 + 10.0 * rng.normal(size=n)
        self.gaps = np.where(rng.random(n) < 0.1, np.nan, self.age)
        self.X = rng.normal(size=(n, 4)) + 0.5 * self.group[:, None] * [1.0, 0.5, 0.0, 0.0] + 3.0
        self.y = 50.0 + self.X[:, 0] + np.sin(self.X[:, 1]) + 0.5 * rng.normal(size=n)
        self.two = (self.y > np.median(self.y)).astype(np.int64)
        self.three = np.digitize(self.y, np.quantile(self.y, [0.3, 0.6]))
        self.weight = rng.exponential(size=n) + 0.1

    @property
    def sensitive(self):
        return {"group": self.group, "age": self.age}


@pytest.fixture
def table():
    return Table()


def tensors(value):
    if isinstance(value, dict):
        return {name: tensors(one) for name, one in value.items()}
    return value if value is None else torch.tensor(value)


def assert_same_moments(found, expected, rtol=1e-12):
    for field in fields(expected):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(b, np.ndarray) and b.size:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(
                a, b, rtol=0.0, atol=rtol * np.abs(b).max(), err_msg=field.name
            )
        elif not isinstance(b, np.ndarray):
            assert a == (pytest.approx(b, rel=rtol) if isinstance(b, float) else b), field.name


# ------------------------------------------------------------------ the pass

CASES = {
    "parity": ({}, "y"),
    "wide, so that products know of symmetry": ({"n_components": 520}, "y"),
    "exact, whitened block by block": ({"n_components": "all"}, "y"),
    "linear": ({"kernel": "linear"}, "two"),
    "slices of y": ({"criterion": "equalized_odds", "n_components": 60}, "y"),
    "classes": ({"criterion": "equalized_odds", "n_components": 60}, "three"),
    "one class and the rest": ({"criterion": "equal_opportunity", "n_components": 60}, "two"),
    "no folds": ({"alpha": 1.0, "n_components": 60}, "y"),
    "crossed": ({"intersectional": True, "n_components": 60}, "y"),
    "a trend": ({"kernel": "rbf", "n_components": 60, "mean": "linear"}, "y"),
}


def prepared(table, params, target, weight=None):
    mean = {"mean": params["mean"]} if "mean" in params else {}
    kind = FairGPRegressor if mean else FairRepresentation
    if params.get("kernel") != "linear":
        params = {"gamma": 0.1, "n_components": 80, **params}
    est = kind(missing_sensitive="omit", random_state=0, **params)
    S = {"group": table.group, "age": table.gaps}
    if params.get("intersectional"):
        S["age"] = (table.age > 1000.0).astype(float) + 0.0 * table.gaps
    rows = table.X, getattr(table, target), S, None, weight
    data, there = est._read(*rows, reset=True), est._read(*map(tensors, rows), reset=True)
    return build_pilot(est._config, data), data, there


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_pass_on_a_device_is_the_pass_on_the_processor(table, case, weighted, monkeypatch):
    weight = table.weight if weighted else None
    pilot, data, there = prepared(table, *CASES[case], weight)
    monkeypatch.setattr(_device_pass, "block_rows", lambda *_: 64)
    expected, found = (
        MomentsPass(pilot, pilot.empty_moments()),
        DevicePass(pilot, pilot.empty_moments(), "cpu"),
    )
    counters = [pilot.counter() for _ in range(3)]
    expected.add(data, counters[0])
    found.add(there, counters[1])
    # BLAS rounds as it likes, and whitening by the smallest eigenvalues shows it.
    rtol = 1e-9 if pilot.features.exact and pilot.features.rank > 4 else 1e-12
    assert_same_moments(found.moments(), expected.moments(), rtol)
    # Going on, after they were looked at and from earlier moments, with rows in arrays.
    again = DevicePass(pilot, found.moments(), "cpu")
    expected.add(data, counters[0])
    for one in (found, again):
        counter = counters[1].copy()
        one.add(data, counter)
        assert_same_moments(one.moments(), expected.moments(), rtol)
    assert again.check() >= -1e-7


def test_zero_weights_are_dropped_where_they_live(table):
    weight = np.where(np.arange(N) % 3 == 0, 0.0, table.weight)
    pilot, data, there = prepared(table, {}, "y", weight)
    position = replace(pilot, fold_rule="position")
    for one in (pilot, position):
        a, b = start_pass(one, one.empty_moments()), start_pass(one, one.empty_moments(), X=there.X)
        counters = one.counter(), one.counter()
        a.add(data, counters[0])
        b.add(there, counters[1])
        assert counters[0].position == counters[1].position == N
        assert_same_moments(b.moments(), a.moments())


def test_labels_of_rows_without_weight_are_no_classes(table):
    weight = np.where(table.three == 2, 0.0, 1.0)
    for send in (lambda v: v, tensors):
        model = FairRidgeClassifier(n_components=40, gamma=0.1, alpha=1.0, random_state=0).fit(
            send(table.X),
            send(table.three),
            sensitive_features=send(table.group),
            sample_weight=send(weight),
        )
        np.testing.assert_array_equal(model.classes_, [0, 1])


def test_an_empty_block_and_a_group_that_comes_late(table):
    pilot, data, there = prepared(table, {"criterion": "equalized_odds"}, "two")
    a, b = (
        MomentsPass(pilot, pilot.empty_moments()),
        DevicePass(pilot, pilot.empty_moments(), "cpu"),
    )
    counters = pilot.counter(), pilot.counter()
    order = np.argsort(table.two, kind="stable")
    for rows in (order[:0], order[:300], order[300:]):
        a.add(replace(data.take(rows), index=None), counters[0])
        b.add(replace(there.take(rows), index=None), counters[1])
    assert_same_moments(b.moments(), a.moments())


@pytest.mark.parametrize("parts", [1, 16, 64])
@pytest.mark.parametrize(("wide", "width"), [(33, 40), (512, 512), (512, 520), (640, 641)])
def test_a_gram_matrix_by_parts(wide, width, parts, rng, monkeypatch):
    monkeypatch.setattr(_device, "_thin_parts", lambda _: parts)  # a GPU's are more than one
    Z = torch.tensor(rng.normal(size=(50, width)))
    out = torch.ones((2, width, width), dtype=torch.float64)
    _device.add_gram(Z, out[1], wide)
    torch.testing.assert_close(out[1].triu(), (1.0 + Z.T @ Z).triu(), rtol=0.0, atol=1e-12)
    assert (out[0] == 1.0).all()
    if wide >= 512:
        assert (out[1, wide // 2 :, : wide // 2] == 1.0).all(), "the mirror image costs nothing"


class Waiting(TorchDispatchMode):
    """Refuse what would make the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        assert name not in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"), (
            name
        )
        if name.startswith("aten::index"):
            by = [one for one in args[1] if one is not None] if isinstance(args[1], list) else []
            assert all(one.dtype != torch.bool for one in by), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loop_never_waits(table, weighted, monkeypatch):
    pilot, _, there = prepared(table, *CASES["slices of y"], table.weight if weighted else None)
    one, inner = DevicePass(pilot, pilot.empty_moments(), "cpu"), DevicePass._add_block
    seen = []

    def watched(self, g, *args):
        seen.append(g)
        with Waiting():
            inner(self, g, *args)

    monkeypatch.setattr(DevicePass, "_add_block", watched)
    one.add(there, pilot.counter())
    assert len(seen) >= pilot.cells.n_groups
    with pytest.raises(AssertionError, match="scalar"), Waiting():
        float(there.X.sum())


# ------------------------------------------------------------------ codes and folds


def column(values, kind):
    missing = np.isnan(values)
    return Attribute("a", np.where(missing, 0.0, values), missing, kind)


def sent(attribute):
    return Attribute(
        "a", torch.tensor(attribute.values), torch.tensor(attribute.missing), attribute.dtype_kind
    )


def test_codes_of_tensors_are_those_of_arrays(table):
    for values, kind in (
        (np.where(table.group == 1, np.nan, table.group), "categorical"),
        (table.gaps, "continuous"),
    ):
        here = column(values.astype(float), "f")
        coder = Coder.learn(here, kind, 7)
        codes = coder.codes({"a": sent(here)})
        np.testing.assert_array_equal(codes.numpy(), coder.codes({"a": here}))
        np.testing.assert_array_equal(coder.column({"a": sent(here)}), coder.column({"a": here}))


def test_booleans_are_the_categories_of_arrays(table):
    est = FairRepresentation()
    flag = table.group == 1
    here = est._read(table.X, table.y, flag, None, None, reset=True)
    there = est._read(tensors(table.X), tensors(table.y), tensors(flag), None, None, reset=True)
    a, b = here.sensitive["sensitive_feature_0"], there.sensitive["sensitive_feature_0"]
    assert torch.is_tensor(b.values)
    coder = Coder.learn(a, "categorical", None)
    np.testing.assert_array_equal(coder.codes({coder.name: b}), coder.codes({coder.name: a}))
    np.testing.assert_array_equal(b.on_host().values, a.values)


@pytest.mark.parametrize("kind", ["number", "boolean", "other type"])
def test_an_unseen_category_is_named_as_for_arrays(kind):
    coder = Coder("a", "categorical", np.array([1.0, 2.0]))
    here = column(np.array([1.0, np.nan, 3.0, 2.0]), "i")
    if kind == "boolean":
        coder = Coder("a", "categorical", np.array(["False", "Maybe"]))
        here = Attribute("a", np.array(["False", "True"]), np.zeros(2, dtype=bool), "b")
        there = Attribute(
            "a", torch.tensor([0.0, 1.0], dtype=torch.float64), torch.zeros(2, dtype=bool), "b"
        )
    elif kind == "other type":
        coder, there = Coder("a", "categorical", np.array(["x", "y"])), sent(here)
    else:
        there = sent(here)
    with pytest.raises(ValueError, match="never seen") as expected:
        coder.codes({"a": here})
    with pytest.raises(ValueError, match="never seen") as found:
        coder.codes({"a": there})
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("kind", [FoldCounter, PositionFolds])
def test_folds_of_tensors_are_those_of_arrays(kind, table):
    here, there = kind(5, 2), kind(5, 2)
    for rows in (slice(0, 333), slice(333, N)):
        strata = np.stack([table.group[rows], table.two[rows]], axis=1)
        index = np.flatnonzero(np.arange(len(strata)) % 4)
        expected = here.assign(strata[index], index, len(strata))
        found = there.assign(tensors(strata[index]), tensors(index), len(strata))
        assert torch.is_tensor(found)
        np.testing.assert_array_equal(found.numpy(), expected)
    assert here.position == there.position == N


# ------------------------------------------------------------------ features


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("rbf", {"gamma": 0.1}),
        Kernel("laplacian", {"gamma": 0.1}),
        Kernel("polynomial", {"gamma": 0.1, "degree": 2}),
        Kernel("cosine"),
        Kernel("rbf", {"gamma": 0.1}).with_trend(Table().X),
    ],
    ids=lambda kernel: kernel.name,
)
def test_columns_of_tensors_are_those_of_arrays(kernel, table):
    there = tensors(table.X)
    for exact in (False, True):
        features = LandmarkMap.build(kernel, table.X[:30], None, exact=exact)
        directions = np.linspace(-1.0, 1.0, 2 * features.rank).reshape(-1, 2)
        for name in ("raw", "columns", "coordinates"):
            expected = getattr(features, name)(table.X)
            found = getattr(features, name)(there).numpy()
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        for n in (1, N):
            expected = features.scores(table.X[:n], directions)
            found = features.scores(there[:n], directions)
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


def test_features_that_need_arrays_say_so(table):
    features = LandmarkMap.build(
        Kernel("chi2", {"gamma": 1.0}), np.abs(table.X[:9]), None, exact=False
    )
    with pytest.raises(ValueError, match=r"'chi2'.*X\.cpu\(\)\.numpy\(\)"):
        features.scores(tensors(np.abs(table.X)), np.eye(features.rank))
    with pytest.raises(ValueError, match="feature_map str"):
        TransformerMap("anything", 3).columns(tensors(table.X))
    for params in (
        {"kernel": "chi2"},
        {"kernel": lambda X, Z: X @ Z.T},
        {"feature_map": StandardScaler()},
    ):
        with pytest.raises(ValueError, match="cannot be computed on tensors"):
            FairRepresentation(**params)._read(
                tensors(table.X), None, tensors(table.group), None, None, reset=True
            )


# ------------------------------------------------------------------ estimators

MODELS = [
    (FairRidge, "y", ("predict",)),
    (FairGPRegressor, "y", ("predict",)),
    (FairRepresentation, "y", ("transform",)),
    (FairRidgeClassifier, "two", ("decision_function",)),
    (FairRidgeClassifier, "three", ("decision_function",)),
    (FairGPClassifier, "two", ("decision_function", "predict_proba")),
    (FairGPClassifier, "three", ("decision_function", "predict_proba")),
]


@pytest.mark.parametrize(
    "params", [{}, {"criterion": "equalized_odds"}, {"subspace": "fair"}], ids=str
)
@pytest.mark.parametrize(("kind", "target", "methods"), MODELS)
def test_a_fit_on_tensors_is_the_fit_on_arrays(table, kind, target, methods, params):
    params = {"n_components": 100, "gamma": 0.2, "alpha": 1.0, "random_state": 0, **params}
    # Single coordinates of the whole fair subspace: neighbours of close eigenvalues turn a little.
    near = 1e-8 if params.get("subspace") == "fair" else 1e-10
    y = getattr(table, target)
    S = {"group": table.group}
    expected = kind(**params).fit(table.X, y, sensitive_features=S)
    found = kind(**params).fit(tensors(table.X), tensors(y), sensitive_features=tensors(S))
    assert not hasattr(expected, "smallest_eigenvalue_")
    assert found.smallest_eigenvalue_ > -1e-7
    if target != "y":
        assert found.classes_.dtype == y.dtype
        np.testing.assert_array_equal(found.classes_, expected.classes_)
    for method in methods:
        for given in (table.X, tensors(table.X), torch.tensor(table.X, requires_grad=True)):
            a, b = getattr(expected, method)(table.X), getattr(found, method)(given)
            assert isinstance(b, np.ndarray)
            np.testing.assert_allclose(b, a, atol=near * np.abs(a).max())


def test_automatic_choices_are_the_same(table):
    fits = [
        FairGPClassifier(n_components=100, random_state=0).fit(
            send(table.X), send(table.two), sensitive_features=send(table.sensitive)
        )
        for send in (lambda v: v, tensors)
    ]
    a, b = fits
    assert (a.gamma_, a.pilot_.fingerprint) == (b.gamma_, b.pilot_.fingerprint)
    assert b.alpha_ == pytest.approx(a.alpha_, rel=1e-6)
    np.testing.assert_allclose(b.predict_proba(table.X), a.predict_proba(table.X), atol=1e-6)


def test_streamed_tensors_end_where_streamed_arrays_do(table):
    cut = [np.arange(0, 400), np.arange(400, N)]
    models = []
    for send in (lambda v: v, tensors):
        model = FairGPClassifier(n_components=60, gamma=0.2, alpha=1.0, random_state=0)
        model.prepare(send(table.X), send(table.two), sensitive_features=send(table.group))
        blocks = [
            {
                "X": send(table.X[r]),
                "y": send(table.two[r]),
                "sensitive_features": send(table.group[r]),
            }
            for r in cut
        ]
        for block in blocks:
            model.partial_fit(**block, solve=False)
        models.append(model.solve().fit_head(blocks))
        assert models[-1].calibration_ == "held-out"
    a, b = (model.predict_proba(table.X) for model in models)
    np.testing.assert_allclose(b, a, atol=1e-10)
    models[0].merge(models[1])  # the pilots are the same, wherever the rows were


def test_arrays_beside_tensors_and_tensors_beside_arrays(table):
    text = np.array(["a", "b", "c"])[table.group]
    params = {"n_components": 60, "random_state": 0, "gamma": 0.2, "alpha": 1.0}
    expected = FairRidge(**params).fit(
        table.X, table.y, sensitive_features={"s": text, "t": table.two}, sample_weight=table.weight
    )
    for X, y, S, w in (
        (tensors(table.X), table.y, {"s": text, "t": tensors(table.two)}, table.weight),
        (table.X, tensors(table.y), {"s": text, "t": tensors(table.two)}, tensors(table.weight)),
        (tensors(table.X), tensors(table.y), {"s": text, "t": table.two}, tensors(table.weight)),
    ):
        found = FairRidge(**params).fit(X, y, sensitive_features=S, sample_weight=w)
        np.testing.assert_allclose(found.predict(X), expected.predict(table.X), rtol=1e-10)
    both = FairRidge(**params).fit(
        tensors(table.X),
        tensors(table.y),
        sensitive_features=torch.tensor(np.stack([table.group, table.two], axis=1)),
    )
    assert list(both.sensitive_kinds_) == ["sensitive_feature_0", "sensitive_feature_1"]


def test_other_number_types(table):
    whole = np.round(10 * table.X).astype(np.int64)
    params = {"n_components": 60, "gamma": 0.002, "alpha": 1.0, "random_state": 0}
    expected = FairRidge(**params).fit(whole, table.y, sensitive_features=table.group)
    for dtype in (torch.int64, torch.int32, torch.float32):
        X = torch.tensor(whole).to(dtype)
        found = FairRidge(**params).fit(
            X, tensors(table.y), sensitive_features=tensors(table.group)
        )
        np.testing.assert_allclose(found.predict(X), expected.predict(whole), rtol=1e-10)


# ------------------------------------------------------------------ float32


def in_float32(monkeypatch):
    monkeypatch.setattr(_base, "precision_for", lambda _: "float32")


def test_float32_is_near_float64(table, monkeypatch):
    params = {"n_components": 200, "gamma": "median", "alpha": 1.0, "random_state": 0}
    fit = {"X": tensors(table.X), "y": tensors(table.y), "sensitive_features": tensors(table.group)}
    exact = FairRidge(**params).fit(**fit)
    in_float32(monkeypatch)
    narrow = FairRidge(**params).fit(**fit)
    assert narrow.pilot_.precision == "float32"
    assert narrow.pilot_.features.whiten_first
    a, b = exact.predict(table.X), narrow.predict(table.X)
    assert 0.0 < np.abs(a - b).max() < 1e-4 * a.std()
    assert narrow.smallest_eigenvalue_ > -1e-5
    with pytest.raises(IncompatibleMomentsError):
        exact.merge(narrow)
    for one in (exact, narrow):
        assert one.moments_.fingerprint == one.pilot_.fingerprint


def test_float32_whitened_too_late_is_found_out(table, monkeypatch):
    def late(pilot, precision):
        pilot = for_precision(pilot, precision)
        return replace(pilot, features=replace(pilot.features, whiten_first=False))

    in_float32(monkeypatch)
    monkeypatch.setattr(_base, "for_precision", late)
    model = FairRidge(n_components=200, gamma=0.05, alpha=1.0, random_state=0)
    with pytest.raises(NumericalError, match=r"eigenvalue of -.*precision='float64'"):
        model.fit(tensors(table.X), tensors(table.y), sensitive_features=tensors(table.group))
    assert not hasattr(model, "moments_")


def test_float32_goes_on_from_earlier_moments(table):
    pilot, data, there = prepared(table, {"n_components": 60}, "y", table.weight)
    pilot = for_precision(pilot, "float32")
    wide = MomentsPass(pilot, pilot.empty_moments())
    wide.add(data, pilot.counter())
    narrow = DevicePass(pilot, wide.moments(), "cpu")
    np.testing.assert_array_equal(narrow.moments().scatter.shape, wide.moments().scatter.shape)
    assert_same_moments(narrow.moments(), wide.moments(), rtol=1e-12)
    narrow.add(there, pilot.counter())
    wide.add(data, pilot.counter())
    assert_same_moments(narrow.moments(), wide.moments(), rtol=1e-3)
    pooled = narrow.moments().pool()
    np.testing.assert_allclose(pooled.mean, wide.moments().pool().mean, atol=1e-5)


def test_float32_leaves_out_what_is_below_its_rounding(table):
    exact, _, _ = prepared(table, *CASES["exact, whitened block by block"])
    narrow = for_precision(exact, "float32")
    kept = np.linalg.norm(narrow.features.whitening, axis=0) ** -2.0
    assert kept.min() > 1e-8 * kept.max()
    assert narrow.features.rank < exact.features.rank
    assert narrow.fingerprint != exact.fingerprint
    assert for_precision(exact, "float64") is exact


def test_which_precision(monkeypatch):
    assert _device.choose_precision("cpu") == "float64"
    assert _device.choose_precision("cpu", "float32") == "float32"
    for capability, fast in (((9, 0), True), ((8, 0), True), ((8, 9), False), ((12, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert _device.fast_float64("cuda") is fast
        assert _device.choose_precision("cuda") == ("float64" if fast else "float32")
    assert _device.choose_precision("mps") == "float32"
    with pytest.raises(ValueError, match="no float64"):
        _device.choose_precision("mps", "float64")
    with pytest.raises(ValueError, match="'half' is not allowed"):
        _device.choose_precision("cpu", "half")


def test_tf32_is_off_inside_and_as_before_outside():
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        with _device.exact_float32(torch.float32):
            assert not torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


# ------------------------------------------------------------------ large tensors


@pytest.fixture
def small_pilots(monkeypatch):
    monkeypatch.setattr(_sample, "RESIDENT_PILOT", 2000)
    monkeypatch.setattr(_sample, "SAMPLE_ROWS", 500)


def test_beyond_a_size_the_pilot_is_a_sample_that_sees_rare_levels(small_pilots):
    table = Table(5000)
    rare = np.where(np.arange(5000) % 700 == 3, 9, table.group)  # 8 rows
    three = np.where(np.arange(5000) % 180 == 7, 5, table.three)  # 28 rows
    model = FairRidgeClassifier(n_components=50, random_state=0)
    model.fit(tensors(table.X), tensors(three), sensitive_features=tensors(rare))
    assert model.pilot_.fold_rule == "position"
    assert model.moments_.n_rows == 5000
    assert model.pilot_.coders[0].table.tolist() == [0.0, 1.0, 2.0, 9.0]
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 5])
    sample, rule = _sample.pilot_rows(
        model._config,
        model._read(tensors(table.X), tensors(three), tensors(rare), None, None, reset=True),
    )
    assert rule == "position"
    assert 500 <= sample.n <= 520
    assert bool((sample.index.diff() > 0).all()), "in order of place"
    counts = {v: int((sample.y.values == v).sum()) for v in (0, 1, 2, 5)}
    assert min(counts.values()) >= 10
    assert int((sample.sensitive["sensitive_feature_0"].values == 9).sum()) == 8


def test_the_sample_sees_combinations_that_count(small_pilots):
    table = Table(5000)
    other = np.where((table.group == 1) & (np.arange(5000) % 90 == 0), 1, 0)
    other[table.group == 0] = table.two[table.group == 0]
    model = FairRidge(n_components=50, intersectional=True, random_state=0)
    S = tensors({"a": table.group, "b": other})
    model.fit(tensors(table.X), tensors(table.y), sensitive_features=S)
    assert model.pilot_.coders[0].n_levels == len(np.unique(3 * other + table.group))


def test_a_sampled_pilot_fits_as_well(small_pilots):
    table, new = Table(5000), Table(1000, seed=1)
    params = {"n_components": 100, "random_state": 0}
    full = FairRidge(**params).fit(table.X, table.y, sensitive_features=table.group)
    sampled = FairRidge(**params).fit(
        tensors(table.X), tensors(table.y), sensitive_features=tensors(table.group)
    )
    errors = [np.sqrt(np.mean((m.predict(new.X) - new.y) ** 2)) for m in (full, sampled)]
    assert errors[1] < 1.05 * errors[0]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_x_that_is_not_finite_is_named_as_in_arrays(table, bad):
    X = table.X.copy()
    X[[7, 9], 2] = bad
    with pytest.raises(ValueError, match="the first at row 7") as expected:
        FairRidge().fit(X, table.y, sensitive_features=table.group)
    with pytest.raises(ValueError, match="the first at row 7") as found:
        FairRidge().fit(tensors(X), tensors(table.y), sensitive_features=tensors(table.group))
    assert str(found.value) == str(expected.value)


def test_errors_are_those_of_arrays(table):
    S = table.group
    few = {"alpha": 1.0, "n_components": 40, "random_state": 0}
    for args, kwargs in (
        ((table.X[0], table.y), {"sensitive_features": S}),
        ((table.X, table.y[:-1]), {"sensitive_features": S}),
        ((table.X, table.y), {"sensitive_features": S[:-1]}),
        ((table.X, table.y), {"sensitive_features": table.gaps}),
        ((table.X, table.y), {"sensitive_features": S, "sample_weight": -table.weight}),
        ((table.X, table.y), {"sensitive_features": S, "sample_weight": 0.0 * table.weight}),
        ((table.X, table.y), {"sensitive_features": S, "sample_weight": table.weight[:-1]}),
        ((table.X, table.gaps), {"sensitive_features": S}),
    ):
        with pytest.raises(ValueError, match=r"[a-z]") as expected:
            FairRidge(**few).fit(*args, **kwargs)
        with pytest.raises(ValueError, match=r"[a-z]") as found:
            FairRidge(**few).fit(*map(tensors, args), **tensors(kwargs))
        # Not word by word: scikit-learn prints the values of an array.
        assert str(found.value)[:16] == str(expected.value)[:16]
    model = FairRidge(**few).fit(tensors(table.X), tensors(table.y), sensitive_features=tensors(S))
    with pytest.raises(ValueError, match="X has 3 features, but FairRidge is expecting 4"):
        model.predict(tensors(table.X[:, :3]))


def test_memory_that_is_short_is_counted(table, monkeypatch):
    pilot, _, there = prepared(table, {}, "y")

    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    one = DevicePass(pilot, pilot.empty_moments(), "cpu")
    monkeypatch.setattr(_device_pass, "add_gram", full)
    with pytest.raises(MemoryError, match=r"take 0\.\d\d GiB on cpu.*n_components.*X\.cpu\(\)"):
        one.add(there, pilot.counter())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 20)
    with (
        pytest.raises(MemoryError, match=r"which has 0\.00 GiB free"),
        _device.naming_memory(111, "Moments", "cuda", check=True),
    ):
        pass
    with _device.naming_memory(110, "Moments", "cuda", check=True):
        pass


def test_float32_is_decided_when_the_estimator_is_prepared(table):
    pilot, _, _ = prepared(table, {}, "y")
    with pytest.raises(ValueError, match="prepare it on tensors of that device"):
        DevicePass(pilot, pilot.empty_moments(), "cpu", "float32")
    assert isinstance(start_pass(pilot, pilot.empty_moments()), MomentsPass)
    assert isinstance(start_pass(pilot, pilot.empty_moments(), device="cpu"), DevicePass)
