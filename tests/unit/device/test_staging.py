"""Rows of host memory are moved to a device in every form of numbers, and fit as they do without."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pd = pytest.importorskip("pandas")

from fairspan import FairRidge, FairRidgeClassifier  # noqa: E402
from fairspan.device.staging import Staging  # noqa: E402
from fairspan.inputs.units import UNITS  # noqa: E402

N = 3000
FIT = {"n_components": 20, "gamma": 0.2, "random_state": 0}


@pytest.fixture
def rows(rng):
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + s[:, None]
    return X, (X[:, 0] + rng.normal(size=N) > 0.5).astype(int), s


def same(a, b, X):
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=0, atol=1e-9)
    assert str(a.certificate_) == str(b.certificate_)


FORMS = {
    "float32": lambda a: a.astype(np.float32),
    "integers": lambda a: np.round(10 * a).astype(np.int16),
    "unsigned": lambda a: np.abs(np.round(10 * a)).astype(np.uint8),
    "booleans": lambda a: a > 0.0,
    "columns first": np.asfortranarray,
    "every second row": lambda a: np.repeat(a, 2, axis=0)[::2],
}


@pytest.mark.parametrize("form", FORMS)
def test_any_array_of_numbers_fits_as_without_a_device(rows, form):
    X, y, s = rows
    X = FORMS[form](X)
    there = FairRidge(**FIT).fit_stream(X, target=y, sensitive_features=s, device="cpu")
    same(there, FairRidge(**FIT).fit_stream(X, target=y, sensitive_features=s), X)


LABELS = {
    "integers": lambda v: v,
    "text": lambda v: np.array(["no", "yes"])[v],
    "booleans": lambda v: v.astype(bool),
    "floats": lambda v: v.astype(float),
    "objects": lambda v: np.array(["no", "yes"], dtype=object)[v],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_and_groups_of_any_type(rows, kind):
    X, y, s = rows
    y, s = LABELS[kind](y), LABELS[kind](s)
    given = {"target": y, "sensitive_features": s}
    there = FairRidgeClassifier(**FIT).fit_stream(X, **given, device="cpu")
    here = FairRidgeClassifier(**FIT).fit_stream(X, **given)
    np.testing.assert_array_equal(there.classes_, here.classes_)
    assert there.classes_.dtype == here.classes_.dtype
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
    assert str(there.certificate_) == str(here.certificate_)


@pytest.mark.parametrize("text", [False, True])
def test_frames_and_their_names(rows, text):
    X, y, s = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, s=s, t=s[::-1], w=1.0 + (X[:, 0] > 0))
    if text:
        frame["s"] = np.array(["u", "v"])[s]
    roles = {"target": "y", "sensitive_features": ["s", "t"], "sample_weight": "w"}
    blocks = [frame[:1234], frame[1234:]]
    there = FairRidge(**FIT).fit_stream(blocks, **roles, device="cpu")
    here = FairRidge(**FIT).fit_stream(blocks, **roles)
    same(there, here, frame[list("abc")])
    assert there.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        there.predict(frame[list("cba")])


def test_a_column_of_text_leaves_the_frame_on_the_host(rows):
    X, y, s = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.array(["x", "y"])[y], y=y, s=s)
    roles = {"target": "y", "sensitive_features": "s"}
    there = FairRidge(**FIT).fit_stream(frame, **roles, device="cpu")
    same(there, FairRidge(**FIT).fit_stream(frame, **roles), frame.drop(columns=["y", "s"]))
    assert there.text_features_ == ["town"]


def test_what_is_moved():
    move = Staging("cpu", frames=True).move
    assert move("X", np.ones((2, 2), dtype=np.float32)).dtype == torch.float64
    assert move("y", np.ones(2, dtype=np.int8)).dtype == torch.int64
    assert move("y", np.ones(2, dtype=bool)).dtype == torch.bool
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    torch.testing.assert_close(
        move("X", frame),
        torch.tensor([[1.0, 0.5], [2.0, np.nan]], dtype=torch.float64),
        equal_nan=True,
    )
    assert sorted(move("sensitive_features", frame)) == ["a", "b"]
    for same_object in (
        *(np.array(["a"]), np.array([1j]), np.ones(2, dtype=np.uint64), np.ma.masked_all((2, 2))),
        *(None, 1.0, [1, 2], pd.DataFrame({"a": ["x"]}), pd.Series(["x"]).astype("category")),
    ):
        assert move("sensitive_features", same_object) is same_object
    assert Staging("cpu", frames=False).move("X", frame) is frame
    assert not Staging.suits(None)
    assert not Staging.suits("mps")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("as_frame", [False, True])
def test_a_bad_number_is_named_as_without_a_device(rows, bad, as_frame):
    X, y, s = rows
    X[1234, 1] = bad
    given = {"target": y, "sensitive_features": s}
    source = X
    if as_frame:
        source = pd.DataFrame(X, columns=list("abc")).assign(y=y, s=s)
        given = {"target": "y", "sensitive_features": "s"}
    texts = []
    for device in ({}, {"device": "cpu"}):
        with pytest.raises(ValueError, match="1234") as error:
            FairRidge(**FIT).fit_stream(source, **given, **device)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_rows_that_may_not_be_written_are_read(rows, tmp_path):
    X, y, s = rows
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    there = FairRidge(**FIT).fit_stream(mapped, target=y, sensitive_features=s, device="cpu")
    same(there, FairRidge(**FIT).fit_stream(X, target=y, sensitive_features=s), X)


def test_a_checkpoint_notices_other_rows_in_an_array(rows, tmp_path):
    """The rows are hashed as they were given, also if they were moved to a device."""
    X, y, s = rows
    file = tmp_path / "pass"
    given = {"target": y, "sensitive_features": s, "checkpoint": file, "device": "cpu"}
    FairRidge(**FIT).fit_stream(X, **given)
    other = X.copy()
    other[77, 1] += 0.5
    with pytest.raises(ValueError, match="checkpoint"):
        FairRidge(**FIT).fit_stream(other, **given)


@pytest.mark.parametrize("role", ["sensitive_features", "control_features"])
def test_a_series_keeps_its_name(rows, role):
    X, y, s = rows
    given = {"target": y, "sensitive_features": s, role: pd.Series(s, name="sex")}
    if role == "control_features":
        given["sensitive_features"] = (X[:, 1] > 0).astype(int)
    criterion = {"criterion": "conditional_statistical_parity"} if role[0] == "c" else {}
    there = FairRidge(**FIT, **criterion).fit_stream(X, **given, device="cpu")
    same(there, FairRidge(**FIT, **criterion).fit_stream(X, **given), X)


def test_weights_of_0(rows):
    X, y, s = rows
    given = {"target": y, "sensitive_features": s, "sample_weight": np.arange(N) % 7 > 0}
    given["sample_weight"] = given["sample_weight"].astype(float)
    there = FairRidge(**FIT).fit_stream(X, **given, device="cpu")
    same(there, FairRidge(**FIT).fit_stream(X, **given), X)


def test_a_block_whose_texts_are_all_missing(rows):
    X, y, s = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.array(["x", "y"])[y], y=y, s=s)
    last = frame[2000:].assign(town=np.nan)
    blocks = [frame[:2000], last]
    roles = {"target": "y", "sensitive_features": "s"}
    there = FairRidge(**FIT).fit_stream(blocks, **roles, device="cpu")
    same(there, FairRidge(**FIT).fit_stream(blocks, **roles), frame.drop(columns=["y", "s"]))


def test_columns_whose_names_are_numbers(rows):
    X, y, s = rows
    blocks = [(pd.DataFrame(X), y, s)]
    there = FairRidge(**FIT).fit_stream(blocks, device="cpu")
    same(there, FairRidge(**FIT).fit_stream([(X, y, s)]), X)


WRONG = {
    "groups that are equal as floats": ({"sensitive_features": "large"}, r"beyond 2\^53"),
    "a large y": ({"target": "y"}, "y holds 1e\\+200"),
    "a large S": ({"sensitive_features": "s"}, "holds 1e\\+200"),
    "large weights": ({"sample_weight": "w"}, "sample_weight is 1e\\+120"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("device", [{}, {"device": "cpu"}], ids=["host", "device"])
def test_numbers_beyond_what_is_taken_are_refused(rows, what, device):
    X, y, s = rows
    wrong, words = WRONG[what]
    values = {
        "large": np.array([5, 2**60, 2**60 + 1])[np.arange(N) % 3],
        "y": np.where(np.arange(N) == 7, 1e200, y.astype(float)),
        "s": np.where(np.arange(N) == 7, 1e200, X[:, 1]),
        "w": np.full(N, 1e120),
    }
    given = {"target": y, "sensitive_features": s}
    given |= {role: values[name] for role, name in wrong.items()}
    with pytest.raises(ValueError, match=words):
        FairRidge(**FIT).fit_stream(X, **given, **device)


def test_signs_of_columns_are_compared(rows):
    X, y, s = rows
    some = np.arange(2**16) % N  # as many rows as a block has, or signs would be joined away
    first = pd.DataFrame(X[some], columns=list("abc")).assign(y=y[some], s=s[some])
    second = first[:100].copy()
    first.attrs[UNITS], second.attrs[UNITS] = {"a": "%"}, {"a": "€"}
    for device in ({}, {"device": "cpu"}):
        with pytest.raises(ValueError, match="Column 'a'"):
            FairRidge(**FIT).fit_stream(
                [first, second], target="y", sensitive_features="s", **device
            )


def test_a_checkpoint_goes_on_with_and_without_a_device(rows, tmp_path):
    X, y, s = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, s=s)
    named = {"target": "y", "sensitive_features": "s"}
    arrays = {"target": y, "sensitive_features": s}
    for number, (source, roles) in enumerate([(frame, named), (X, arrays)]):
        file = tmp_path / f"pass{number}"
        FairRidge(**FIT).fit_stream(source, **roles, checkpoint=file)
        again = FairRidge(**FIT).fit_stream(source, **roles, checkpoint=file, device="cpu")
        assert again.n_samples_seen_ == N


def test_devices_and_kinds_that_cannot_be(rows):
    X, y, s = rows
    given = {"target": y, "sensitive_features": s}
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="has no such GPU"):
            FairRidge(**FIT).fit_stream(X, **given, device="cuda")
    p = np.column_stack([s, 1 - s]).astype(float)
    with pytest.raises(ValueError, match="computed on the processor"):
        FairRidge(**FIT, sensitive_kind="probabilities").fit_stream(
            X, target=y, sensitive_features=p, device="cpu"
        )
