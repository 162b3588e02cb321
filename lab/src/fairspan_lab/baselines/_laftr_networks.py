"""The networks of LAFTR: many small ones trained side by side, kept as plain arrays.

PyTorch is needed to train and nothing else: a trained model is a handful of arrays, and prediction
is four matrix products in NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.method.linalg import Array

__all__ = ["Networks", "Schedule", "Setting", "TwoLayers", "cell_weights", "fit_many"]

SLOPE = 0.2  # of the leaky ReLU below zero: TensorFlow's default, not PyTorch's (0.01)
BATCH_SEED = 0  # one order of rows for every model, so that models with other seeds share batches


@dataclass(frozen=True)
class TwoLayers:
    """A hidden layer of leaky ReLUs and a linear output."""

    weight1: Array
    bias1: Array
    weight2: Array
    bias2: Array

    def __call__(self, rows: Array) -> Array:
        """Outputs, one line per row."""
        hidden = rows @ self.weight1 + self.bias1
        return np.asarray(
            np.where(hidden > 0.0, hidden, SLOPE * hidden) @ self.weight2 + self.bias2
        )


@dataclass(frozen=True)
class Networks:
    """One trained model. The adversary also reads the label where the criterion does."""

    encoder: TwoLayers
    classifier: TwoLayers
    adversary: TwoLayers


@dataclass(frozen=True)
class Setting:
    """What may differ between models that are trained side by side."""

    loss: str  # "l1" or "cross_entropy"
    criterion: str
    fair_weight: float
    seed: int


@dataclass(frozen=True)
class Schedule:
    """What models that are trained side by side have in common."""

    n_hidden: int
    n_representation: int
    epochs: int
    batch_size: int
    learning_rate: float
    reshuffle: bool
    drop_last: bool
    verbose: int


def require_torch() -> Any:
    """PyTorch, or an error that names the extra."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        msg = "LAFTR trains its networks with PyTorch: pip install 'fairspan[torch]'"
        raise ImportError(msg) from error


def cell_weights(criterion: str, y: Array, a: Array) -> Array:
    """Weight of each row in the adversary's loss: 1 / share of its cell, not normalised.

    Cells are the groups (statistical parity) or the groups within each label; equal opportunity
    gives no weight to label 0. The weights average 2, 4 and 2, so one ``fair_weight`` means
    different things for different criteria.
    """
    if criterion == "statistical_parity":
        return np.asarray(1.0 / np.where(a == 1.0, np.mean(a == 1.0), np.mean(a == 0.0)))
    weights = np.zeros(len(y))
    for label in (1.0,) if criterion == "equal_opportunity" else (0.0, 1.0):
        for group in (0.0, 1.0):
            cell = (y == label) & (a == group)
            weights[cell] = 1.0 / max(float(np.mean(cell)), 1.0 / len(y))
    return weights


def reads_label(criterion: str) -> bool:
    """Return True if the adversary reads the label in addition to the representation."""
    return criterion != "statistical_parity"


def initial_layers(rng: np.random.Generator, n_in: int, n_hidden: int, n_out: int) -> TwoLayers:
    """Glorot-uniform weights and biases; a bias of k units has k inputs and k outputs."""

    def glorot(fan_in: int, fan_out: int, *shape: int) -> Array:
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        return rng.uniform(-limit, limit, shape)

    return TwoLayers(
        glorot(n_in, n_hidden, n_in, n_hidden),
        glorot(n_hidden, n_hidden, n_hidden),
        glorot(n_hidden, n_out, n_hidden, n_out),
        glorot(n_out, n_out, n_out),
    )


def initial_networks(setting: Setting, n_inputs: int, schedule: Schedule) -> Networks:
    """Encoder and classifier depend on the seed alone, so that settings start from one place."""
    rng = np.random.default_rng(setting.seed)
    h, k = schedule.n_hidden, schedule.n_representation
    return Networks(
        initial_layers(rng, n_inputs, h, k),
        initial_layers(rng, k, h, 1),
        initial_layers(rng, k + reads_label(setting.criterion), h, 1),
    )


def batches(n: int, schedule: Schedule) -> Iterator[list[np.ndarray]]:
    """The batches of each epoch, as indices of rows; fewer rows than a batch are one batch."""
    rng = np.random.default_rng(BATCH_SEED)
    size = min(schedule.batch_size, n)
    stop = n - n % size if schedule.drop_last else n
    order = rng.permutation(n)
    for epoch in range(schedule.epochs):
        if schedule.reshuffle and epoch:
            order = rng.permutation(n)
        yield [order[i : i + size] for i in range(0, stop, size)]


# --------------------------------------------------------------------------- stacks of networks


def _pad(layers: TwoLayers, n_in: int) -> TwoLayers:
    """Rows of zeros for inputs this network does not have; those inputs are zero as well."""
    extra = np.zeros((n_in - len(layers.weight1), layers.weight1.shape[1]))
    return TwoLayers(
        np.concatenate([layers.weight1, extra]), layers.bias1, layers.weight2, layers.bias2
    )


def _flatten(networks: Sequence[Sequence[TwoLayers]]) -> Array:
    """One line of parameters per model."""
    return np.stack(
        [
            np.concatenate(
                [
                    part.ravel()
                    for layers in model
                    for part in (layers.weight1, layers.bias1, layers.weight2, layers.bias2)
                ]
            )
            for model in networks
        ]
    )


class _Stack:
    """Networks of one shape for each of many models, all in one tensor of parameters."""

    def __init__(self, torch: Any, networks: Sequence[Sequence[TwoLayers]]) -> None:
        self._torch = torch
        self.flat = torch.tensor(_flatten(networks), requires_grad=True)
        self._shapes = [
            shape
            for layers in networks[0]
            for shape in (
                layers.weight1.shape,
                (1, *layers.bias1.shape),
                layers.weight2.shape,
                (1, *layers.bias2.shape),
            )
        ]
        self._sizes = [rows * columns for rows, columns in self._shapes]

    def views(self, flat: Any) -> list[Any]:
        """Weights and biases as stacks of matrices, in the order of the networks."""
        parts = flat.split(self._sizes, dim=1)
        return [p.view(len(flat), *shape) for p, shape in zip(parts, self._shapes, strict=True)]

    def apply(self, layer: Sequence[Any], rows: Any) -> Any:
        """Outputs of one network (four views) of every model."""
        weight1, bias1, weight2, bias2 = layer
        hidden = self._torch.baddbmm(bias1, rows, weight1)
        hidden = self._torch.nn.functional.leaky_relu(hidden, SLOPE)
        return self._torch.baddbmm(bias2, hidden, weight2)

    def arrays(self, model: int, which: int, n_in: int) -> TwoLayers:
        """Network ``which`` of one model, without the rows that :func:`_pad` added."""
        parts = [v[model].numpy().copy() for v in self.views(self.flat.detach())]
        weight1, bias1, weight2, bias2 = parts[4 * which : 4 * which + 4]
        return TwoLayers(weight1[:n_in].copy(), bias1[0], weight2, bias2[0])


def fit_many(
    X: Array, y: Array, a: Array, settings: Sequence[Setting], schedule: Schedule
) -> list[Networks]:
    """Train one model per setting, all at once, on the same batches.

    The models share nothing but the batches: a sum of their losses has for each of them the
    gradient it would have alone. A stack of a hundred costs a few times one of them.

    Parameters
    ----------
    X : array of shape (n, p)
        Encoder inputs, the protected attribute among them if it is to be read.
    y, a : arrays of shape (n,)
        Labels and protected attribute, 0 or 1.
    settings : sequence of Setting
        Loss, criterion, weight and seed of each model.
    schedule : Schedule
        Sizes and steps of all of them.

    Returns
    -------
    list of Networks
        In the order of ``settings``.
    """
    torch = require_torch()
    k = schedule.n_representation
    start = [initial_networks(setting, X.shape[1], schedule) for setting in settings]
    model = _Stack(torch, [(nets.encoder, nets.classifier) for nets in start])
    adversary = _Stack(torch, [(_pad(nets.adversary, k + 1),) for nets in start])
    model_step = torch.optim.Adam([model.flat], lr=schedule.learning_rate)
    adversary_step = torch.optim.Adam([adversary.flat], lr=schedule.learning_rate)

    def column(values: Sequence[float]) -> Any:
        return torch.tensor(np.asarray(values, dtype=np.float64))[:, None]

    fair_weight = column([s.fair_weight for s in settings])[:, 0]
    entropy = column([s.loss == "cross_entropy" for s in settings]) > 0
    told = column([reads_label(s.criterion) for s in settings])
    criteria = sorted({s.criterion for s in settings})
    which = torch.tensor([criteria.index(s.criterion) for s in settings])
    weights = torch.tensor(np.stack([cell_weights(c, y, a) for c in criteria]))
    rows, label, group = (torch.tensor(v) for v in (X, y, a))

    def losses(logits: Any, truth: Any) -> Any:
        """|truth - sigmoid| or the cross-entropy: both are functions of the logit's wrong side."""
        wrong = logits[:, :, 0] * (1.0 - 2.0 * truth)
        if entropy.all():
            return torch.nn.functional.softplus(wrong)
        if not entropy.any():
            return torch.sigmoid(wrong)
        return torch.where(entropy, torch.nn.functional.softplus(wrong), torch.sigmoid(wrong))

    def adversary_loss(parts: list[Any], z: Any, batch: Any) -> Any:
        known = (told * label[batch])[:, :, None]
        logits = adversary.apply(parts, torch.cat([z, known], dim=2))
        return (weights[:, batch][which] * losses(logits, group[batch])).mean(dim=1)

    def step(batch: Any) -> tuple[Any, Any]:
        inputs = rows[batch].expand(len(settings), -1, -1)
        # Encoder and classifier against the adversary as it stands ...
        parts = model.views(model.flat)
        z = model.apply(parts[:4], inputs)
        class_loss = losses(model.apply(parts[4:], z), label[batch]).mean(dim=1)
        fair_loss = adversary_loss(adversary.views(adversary.flat.detach()), z, batch)
        (class_loss - fair_weight * fair_loss).sum().backward()
        model_step.step()
        model_step.zero_grad()
        # ... then the adversary, on the same rows, against the encoder as it is now.
        with torch.no_grad():
            z = model.apply(model.views(model.flat)[:4], inputs)
        fair_loss = adversary_loss(adversary.views(adversary.flat), z, batch)
        (fair_weight * fair_loss).sum().backward()
        adversary_step.step()
        adversary_step.zero_grad()
        return class_loss, fair_loss

    for epoch, drawn in enumerate(batches(len(X), schedule), start=1):
        for batch in drawn:
            class_loss, fair_loss = step(torch.from_numpy(batch))
        if schedule.verbose and epoch % max(schedule.epochs // 10, 1) == 0:
            print(
                f"[LAFTR] epoch {epoch} of {schedule.epochs}, {len(settings)} models: mean loss "
                f"{class_loss.mean().item():.4f}, adversary {fair_loss.mean().item():.4f}"
            )

    return [
        Networks(
            model.arrays(i, 0, X.shape[1]),
            model.arrays(i, 1, k),
            adversary.arrays(i, 0, k + reads_label(s.criterion)),
        )
        for i, s in enumerate(settings)
    ]
