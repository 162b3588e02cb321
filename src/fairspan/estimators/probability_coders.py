"""Learn the coder of a protected attribute that is given as probabilities."""

from __future__ import annotations

import numpy as np

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.linalg import Array
from fairspan.method.probabilities import ProbabilityCoder, sizes_of
from fairspan.method.problem import FitConfig, GroupProbabilities

__all__ = ["learn_probability_coder"]

# Where the assumptions about probabilities must hold, if not in all rows together.
_WITHIN = {
    "equalized_odds": ", both among the rows of each class of y",
    "equal_opportunity": ", both among the rows of the positive class of y",
    "conditional_statistical_parity": ", both among the rows of each stratum",
}


def learn_probability_coder(
    config: FitConfig, attribute: GroupProbabilities, weights: Array | None
) -> tuple[ProbabilityCoder, Array]:
    """Return the coder and the expected rows of its groups; warn of what is assumed."""
    known = attribute.values[~attribute.missing]
    if not len(known) or not (np.ptp(known, axis=0) > 1e-12).any():
        msg = (
            f"sensitive_features {attribute.name!r} has the same probabilities in every row, which tell "
            f"nothing about its groups. Leave it out."
        )
        raise ValueError(msg)
    # Sorted, so that the order of the columns does not matter.
    coder = ProbabilityCoder(attribute.name, tuple(sorted(attribute.groups)))
    known = coder.probabilities({attribute.name: attribute})[~attribute.missing]
    size, _ = sizes_of(known, None if weights is None else weights[~attribute.missing])
    if ((known > 0.0) & (known < 1.0)).any():
        warn_user(
            f"Attribute {attribute.name!r} is given as probabilities. What is said about its groups holds "
            f"if (1) the probabilities are calibrated: of the rows with probability p of a group, the "
            f"share p is in it; and (2) the features depend on the probabilities only through the group"
            f"{_WITHIN.get(config.criterion_name, '')}. The data cannot show this; check it on rows whose "
            f"group is known.",
            DataWarning,
            key=f"probabilities of {attribute.name!r}",
        )
    return coder, size
