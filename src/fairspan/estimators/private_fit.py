"""Fits that are differentially private in S: the codes of S are set apart before anything else is done.

The rows that the fit works on have no S from then on, so landmarks, folds, bandwidths and ridges cannot
depend on it. Only :class:`fairspan.method.privacy.SensitiveRows` has the codes; it is dropped after the fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import read_attribute
from fairspan.method.codes import Coder, CrossedCoder
from fairspan.method.folds import hash_rows
from fairspan.method.linalg import is_tensor
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot, fingerprint
from fairspan.method.privacy import SensitiveRows, composed_epsilon, gaussian_mu
from fairspan.method.private_removal import PrivateRemoval
from fairspan.method.problem import Attribute, Codes, Data, FitConfig

__all__ = ["WithheldLevels", "refuse_private", "withhold"]


@dataclass(frozen=True)
class _Spent:
    """What private fits have spent on the same rows."""

    fits: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    mu_squared: float = 0.0

    def __add__(self, other: _Spent) -> _Spent:
        mine, others = vars(self), vars(other)
        return _Spent(**{name: mine[name] + others[name] for name in mine})


# Budgets that fits of this process have spent, by a digest of their rows of X.
_SPENT: dict[str, _Spent] = {}


@dataclass(frozen=True)
class WithheldLevels:
    """Levels of S of the rows of a fit, and the groups that the user named."""

    coders: tuple[Coder | CrossedCoder, ...]
    codes: Codes  # (n, attributes)

    def open(
        self, config: FitConfig, data: Data, pilot: Pilot, moments: Moments
    ) -> tuple[PrivateRemoval, Pilot, Moments]:
        """Spend the first shares of the budget: removal, and pilot and moments with the attributes.

        ``data``, ``pilot`` and ``moments`` have no protected attribute.
        """
        assert config.epsilon_sensitive is not None
        budget = (float(config.epsilon_sensitive), float(config.delta_sensitive))
        _note_budget(data, budget)
        encoded = pilot.encode(data)
        mu = gaussian_mu(*budget)
        rows = SensitiveRows(
            data.X,
            pilot.features,
            self.codes,
            sizes=[coder.n_levels for coder in self.coders],
            groups=encoded.cells * pilot.n_folds + pilot.folds(data, encoded, pilot.counter()),
            n_folds=pilot.n_folds,
            n_cells=pilot.cells.n_constrained,
            weights=data.weights,
            clusters=data.clusters,
            mu=mu,
            # Without a seed the noise is drawn from the system's entropy, not from random_state.
            rng=np.random.default_rng(config.noise_state),
        )
        removal, noisy = PrivateRemoval.open(rows, moments, pilot, self.coders, mu)
        named = replace(pilot, coders=self.coders)
        named = replace(named, fingerprint=fingerprint(named, data.X[:16]))
        return removal, named, replace(noisy, fingerprint=named.fingerprint)


def withhold(config: FitConfig, data: Data) -> tuple[Data, WithheldLevels]:
    """Take S out of the rows of a fit; raise for what a private fit has no form for."""
    if is_tensor(data.X):
        raise ValueError(
            "epsilon_sensitive needs arrays: a tensor's sums are taken on its device, where no noise is "
            "added. Pass X.cpu().numpy()."
        )
    if config.feature_map is not None and has_fit_parameter(
        config.feature_map, "sensitive_features"
    ):
        raise ValueError(
            f"feature_map {type(config.feature_map).__name__} is fitted on the protected attributes, which "
            f"epsilon_sensitive must not read. Use a feature map of X and y alone, or a kernel."
        )
    if config.delta_sensitive * data.n >= 1.0:
        raise ValueError(
            f"delta_sensitive={config.delta_sensitive:g} is not below 1/n for {data.n} rows: the protected "
            f"attributes of one of them could be published. Give e.g. {0.01 / data.n:.0e}."
        )
    if config.noise_state is not None:
        warn_user(
            f"noise_state={config.noise_state}: anyone who knows the seed can take the noise away, and the "
            f"model has it among its parameters. Leave noise_state=None outside tests.",
            DataWarning,
        )
    parts = _read_groups(config.sensitive_groups, data.sensitive)
    coders: tuple[Coder | CrossedCoder, ...] = parts
    if config.intersectional and len(parts) > 1:
        table = np.array(list(product(*(range(part.n_levels) for part in parts))), dtype=np.intp)
        coders = (CrossedCoder(parts, table),)
    try:
        codes = np.stack([coder.codes(data.sensitive) for coder in coders], axis=1)
    except ValueError:  # its message has the value
        raise ValueError(
            "sensitive_features has a value that sensitive_groups does not name (values must have the type "
            "of the names: text, numbers or booleans). Name every group that there can be, e.g. also "
            "'unknown'."
        ) from None
    return replace(data, sensitive={}), WithheldLevels(coders, codes)


def _read_groups(given: Any, sensitive: Mapping[str, Attribute]) -> tuple[Coder, ...]:
    """Coders of the groups that the user named, for every attribute."""
    named = given if isinstance(given, Mapping) else dict.fromkeys(sensitive, given)
    if set(named) != set(sensitive) or (len(sensitive) > 1 and not isinstance(given, Mapping)):
        example = {name: ["a", "b"] for name in sensitive}
        raise ValueError(
            f"sensitive_groups={given!r:.80} does not fit the attributes {list(sensitive)}. Name all groups "
            f"that there can be: in a list for one attribute, or in a dict such as {example}. They cannot be "
            f"taken from the rows, because that would reveal which groups occur."
        )
    coders = []
    for name, groups in named.items():
        listed = groups if isinstance(groups, list | tuple | np.ndarray) else []
        names = read_attribute(name, np.array(list(listed), dtype=object), "sensitive_groups")
        table = np.unique(names.values)
        if len(table) < 2 or len(table) < len(names.values) or names.missing.any():
            raise ValueError(
                f"sensitive_groups of {name!r} is {groups!r:.80}; give a list of two or more different names."
            )
        coders.append(Coder(name, "categorical", table))
    return tuple(coders)


def _note_budget(data: Data, budget: tuple[float, float]) -> None:
    """Warn if fits of this process have spent budget on the same rows, and record this one."""
    rows = np.sort(hash_rows(data.X, None, 0))
    key = hashlib.blake2b(rows.tobytes(), digest_size=16).hexdigest()
    epsilon, delta = budget
    spent = _SPENT.get(key, _Spent()) + _Spent(1, epsilon, delta, gaussian_mu(epsilon, delta) ** 2)
    _SPENT[key] = spent
    if spent.fits == 1:
        return
    together = composed_epsilon(np.sqrt(spent.mu_squared), delta)
    warn_user(
        f"This is private fit number {spent.fits} on these rows, and several fits reveal more than one: "
        f"together they are ({spent.epsilon:.3g}, {spent.delta:.2g})-private by the sum of their budgets, or "
        f"({together:.3g}, {delta:g})-private by the composition of Gaussian mechanisms. For other dial "
        f"values use `at`, which costs nothing.",
        DataWarning,
    )


def refuse_private(config: FitConfig, what: str, reason: str) -> None:
    """Raise the error for what a private fit does not allow."""
    if config.private:
        raise ValueError(
            f"{what} is not possible with epsilon_sensitive={config.epsilon_sensitive!r}: {reason}."
        )
