"""FairEraser on tensors: the numbers of arrays, on the device of the rows."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fairspan import FairEraser  # noqa: E402


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    s = rng.permutation(np.arange(600) % 2)
    X = rng.normal(size=(600, 6)) * (1.0 + 0.5 * s[:, None]) + s[:, None] * rng.normal(size=6)
    return X, s, X[:, 0] + rng.normal(size=600)


@pytest.mark.parametrize(
    "params", [{}, {"keep_target": True}, {"order": 2, "n_directions": 2}, {"fairness": 0.5}]
)
def test_tensors_give_the_numbers_of_arrays(rows, params):
    X, s, y = rows
    arrays = FairEraser(**params).fit(X, y, sensitive_features=s)
    tensors = FairEraser(**params).fit(
        torch.tensor(X), torch.tensor(y), sensitive_features=torch.tensor(s)
    )
    out = tensors.transform(torch.tensor(X))
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float64
    np.testing.assert_allclose(out.numpy(), arrays.transform(X), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(tensors.transform(X), arrays.transform(X), rtol=1e-9, atol=1e-11)


def test_single_precision_and_the_dial(rows):
    X, s, _ = rows
    single = torch.tensor(X, dtype=torch.float32)
    eraser = FairEraser().fit(single, sensitive_features=torch.tensor(s))
    out = eraser.transform(single)
    assert out.dtype == torch.float32
    gap = (out[torch.tensor(s) == 1].mean(0) - out[torch.tensor(s) == 0].mean(0)).abs().max()
    assert gap < 1e-5
    assert torch.equal(eraser.at(0.0).transform(single), single)


def test_streams_on_a_device(rows):
    X, s, _ = rows
    streamed = FairEraser().fit_stream(
        [(X[:200], None, s[:200]), (X[200:], None, s[200:])], device="cpu"
    )
    expected = FairEraser().fit(X, sensitive_features=s).transform(X)
    np.testing.assert_allclose(streamed.transform(X), expected, rtol=1e-9, atol=1e-11)


def test_rows_stay_on_their_device(rows):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    X, s, _ = rows
    on_device = torch.tensor(X, device="cuda")
    eraser = FairEraser().fit(on_device, sensitive_features=torch.tensor(s, device="cuda"))
    out = eraser.transform(on_device)
    assert out.device.type == "cuda"
    expected = FairEraser().fit(X, sensitive_features=s).transform(X)
    np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=1e-9, atol=1e-11)
