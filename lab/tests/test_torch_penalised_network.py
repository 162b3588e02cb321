"""Penalised networks: the penalty by hand, the dial, prediction without torch, the package's terms."""

import sys

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")

from fairspan_lab.baselines import PenalisedNetwork, PenalisedNetworkClassifier  # noqa: E402
from fairspan_lab.baselines import _penalised_training as module  # noqa: E402

SHORT = {"max_epochs": 40, "patience": 40, "n_hidden": 16, "batch_size": 256, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def planted(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) + s[:, None] * [1.0, 0.0, 0.5, 0.0]
    signal = X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=n)
    return X, signal, (signal > 1.2).astype(int), s


X, SIGNAL, Y, S = planted()


def parity(f, s):
    return abs(np.corrcoef(f, s)[0, 1])


def test_the_penalty_is_the_squared_covariance():
    rng = np.random.default_rng(0)
    f, codes = rng.normal(size=50), rng.normal(size=(50, 3))
    found = module.covariance_penalty(torch.from_numpy(f), torch.zeros(50), torch.from_numpy(codes))
    expected = np.sum(((f - f.mean()) @ codes / 50) ** 2)
    assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize("model", [PenalisedNetwork, PenalisedNetworkClassifier])
def test_along_the_dial_dependence_on_new_rows_falls(model):
    new, _, _, s_new = planted(3000, 1)
    target = SIGNAL if model is PenalisedNetwork else Y
    found = []
    for mu in (0.0, 10.0):
        fitted = model(mu, **SHORT).fit(X, target, sensitive_features=S)
        scores = fitted.predict(new) if target is SIGNAL else fitted.decision_function(new)
        found.append(parity(scores, s_new))
    assert found[0] > 0.25
    assert found[1] < 0.5 * found[0]


def test_trainings_repeat_and_leave_the_global_state_alone():
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    model = PenalisedNetworkClassifier(1.0, **SHORT)
    first = clone(model).fit(X, Y, sensitive_features=S).decision_function(X)
    assert torch.equal(torch.rand(1), before)
    again = clone(model).fit(X, Y, sensitive_features=S).decision_function(X)
    np.testing.assert_array_equal(first, again)
    model.fit(X, Y, sensitive_features=S)
    assert np.mean(model.predict(X) == Y) > 0.8
    parts = np.concatenate([model.decision_function(X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(parts, first[:5])


def test_prediction_is_the_network_in_numpy():
    source = torch.Generator().manual_seed(3)
    net = module.network(4, 8, source)
    model = PenalisedNetwork(0.0, n_hidden=8, max_epochs=1, random_state=0)
    model.fit(X, SIGNAL, sensitive_features=S)
    model.weights_ = module.state(net)
    rows = (X - model.mean_) / model.scale_
    expected = net(torch.from_numpy(rows))[:, 0].detach().numpy()
    np.testing.assert_allclose(
        model.predict(X), model.start_ + SIGNAL[_fit_rows(model)].std() * expected
    )


def _fit_rows(model):
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state

    return train_test_split(
        np.arange(len(X)), test_size=model.validation, random_state=check_random_state(0)
    )[0]


@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity"])
def test_the_terms_of_fairret_equalise_rates(criterion):
    pytest.importorskip("fairret")
    cell = Y == 1 if criterion == "equal_opportunity" else Y >= 0
    gaps = []
    for mu in (0.0, 3.0):
        model = PenalisedNetworkClassifier(mu, penalty="fairret", criterion=criterion, **SHORT)
        p = 1 / (1 + np.exp(-model.fit(X, Y, sensitive_features=S).decision_function(X)))
        gaps.append(abs(p[cell & (S == 1)].mean() - p[cell & (S == 0)].mean()))
    assert gaps[0] > 0.1
    assert gaps[1] < 0.3 * gaps[0]


def test_what_cannot_be_is_refused():
    for name, value in (("mu", -1.0), ("n_hidden", 0), ("batch_size", 1), ("learning_rate", 0.0)):
        with pytest.raises(ValueError, match=rf"^{name}={value!r} is not allowed; give "):
            PenalisedNetwork(**{name: value}).fit(X, SIGNAL, sensitive_features=S)
    for name in ("criterion", "penalty"):
        with pytest.raises(ValueError, match=name):
            PenalisedNetworkClassifier(**{name: "odd"}).fit(X, Y, sensitive_features=S)
    pytest.importorskip("fairret")
    model = PenalisedNetworkClassifier(penalty="fairret", criterion="equalized_odds")
    with pytest.raises(ValueError, match="give penalty='covariance'"):
        model.fit(X, Y, sensitive_features=S)


def test_without_torch_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="needs torch: pip install torch"):
        PenalisedNetwork().fit(X, SIGNAL, sensitive_features=S)
