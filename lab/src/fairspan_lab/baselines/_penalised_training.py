"""Training of networks with a penalty; needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan_lab.baselines._common import need

__all__ = ["Penalty", "Schedule", "covariance_penalty", "fairret_penalty", "train"]

# A term that is added to the loss of a batch: from scores, targets and columns of S.
Penalty = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Weight of the penalty, size of the network, and steps."""

    mu: float
    width: int
    batch_size: int
    rate: float
    max_epochs: int
    patience: int
    seed: int
    start: float  # added to the output
    classes: bool


def train(
    rows: Array,
    target: Array,
    S: Array,
    fit: Codes,
    held_out: Codes,
    plan: Schedule,
    penalty: Penalty,
) -> tuple[list[tuple[Array, Array]], int]:
    """Weights with the least penalised loss on rows held out, and the number of epochs until then."""
    # A generator of its own: neither this training nor another one moves torch's global state.
    source = torch.Generator().manual_seed(plan.seed)
    net = network(rows.shape[1], plan.width, source)
    X, Y, codes = (
        torch.from_numpy(np.asarray(part, dtype=np.float64)) for part in (rows, target, S)
    )

    def loss(index: torch.Tensor) -> torch.Tensor:
        scores = plan.start + net(X[index])[:, 0]
        if plan.classes:
            own = torch.nn.functional.binary_cross_entropy_with_logits(scores, Y[index])
        else:
            own = 0.5 * ((scores - Y[index]) ** 2).mean()
        if plan.mu == 0.0:
            return own
        return own + plan.mu * penalty(scores, Y[index], codes[index])

    optimiser = torch.optim.Adam(net.parameters(), lr=plan.rate)
    first, second = torch.from_numpy(fit), torch.from_numpy(held_out)
    best, kept, best_epoch = np.inf, state(net), 0
    for epoch in range(1, plan.max_epochs + 1):
        for batch in first[torch.randperm(len(first), generator=source)].split(plan.batch_size):
            if len(batch) < 2:
                continue  # one row has no covariance
            optimiser.zero_grad()
            loss(batch).backward()
            optimiser.step()
        with torch.no_grad():
            reached = float(loss(second))
        if reached < best:
            best, kept, best_epoch = reached, state(net), epoch
        elif epoch - best_epoch >= plan.patience:
            break
    if not np.isfinite(best):
        msg = "The training did not converge; give a smaller learning_rate or mu."
        raise ValueError(msg)
    return kept, best_epoch


def covariance_penalty(scores: torch.Tensor, _: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """``|Cov(f, C)|^2`` of a batch."""
    return (((scores - scores.mean())[:, None] * codes).mean(dim=0) ** 2).sum()


def fairret_penalty(criterion: str, *, second_is_good: bool) -> Penalty:
    """The package's norm of differences of rates; a group that a batch has not counts as equal."""
    statistics = need("fairret.statistic", 'penalty="fairret"', "fairret")
    losses = need("fairret.loss", 'penalty="fairret"', "fairret")
    if criterion == "equalized_odds":
        msg = (
            "penalty='fairret' has criterion='statistical_parity' and 'equal_opportunity'; "
            "for equalized odds give penalty='covariance'."
        )
        raise ValueError(msg)
    own = criterion == "equal_opportunity"
    norm = losses.NormLoss(statistics.TruePositiveRate() if own else statistics.PositiveRate())

    def penalty(scores: torch.Tensor, y: torch.Tensor, S: torch.Tensor) -> torch.Tensor:
        if not second_is_good:
            scores, y = -scores, 1.0 - y
        present = S[y == 1.0] if own else S
        some = present.sum(dim=0) > 0.0
        args = (scores[:, None], S[:, some])
        found: torch.Tensor = norm(*args, y[:, None]) if own else norm(*args)
        return found

    return penalty


def network(n_features: int, width: int, source: torch.Generator) -> torch.nn.Sequential:
    """Two hidden layers of rectified units, He-normal weights, a linear output."""
    sizes = (n_features, width, width, 1)
    layers: list[torch.nn.Module] = []
    for inside, outside in pairwise(sizes):
        # Without a first state, which would be drawn from torch's own generator.
        layer = torch.nn.utils.skip_init(torch.nn.Linear, inside, outside, dtype=torch.float64)
        with torch.no_grad():
            spread = (2.0 / inside) ** 0.5 if outside > 1 else inside**-0.5
            layer.weight.copy_(
                spread * torch.randn(outside, inside, generator=source, dtype=torch.float64)
            )
            layer.bias.zero_()
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def state(net: torch.nn.Sequential) -> list[tuple[Array, Array]]:
    """Matrices and constants of the layers, as copies."""
    linear = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    return [
        (layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy())
        for layer in linear
    ]
