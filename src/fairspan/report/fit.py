"""The one fit of a report: which model, on which rows, and what it warned of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from fairspan.estimators import FairGPClassifier, FairGPRegressor
from fairspan.estimators.predictor import FairPredictor
from fairspan.exceptions import FairspanWarning, RowError, warn_user
from fairspan.inputs.columns import read_attribute
from fairspan.inputs.config import canonical_criterion
from fairspan.report.roles import Roles
from fairspan.report.table import is_continuous

__all__ = ["Told", "by_stratum", "choose_model", "fit_model", "known_rows", "read_kinds"]

# A target of more different texts is a name or a remark rather than a class.
_MAX_CLASSES = 100


class Told:
    """Warnings of fairspan, once each: kept for the report, and passed on when it is made."""

    def __init__(self) -> None:
        self.texts: dict[str, type[FairspanWarning]] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is warned of inside; other people's warnings go their way."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", FairspanWarning)
            yield
        for one in seen:
            if issubclass(one.category, FairspanWarning):
                self.texts.setdefault(str(one.message), one.category)
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    def pass_on(self) -> None:
        """Warn of everything that was kept."""
        for text, category in self.texts.items():
            warn_user(text, category)


def read_kinds(given: Any, sensitive: Sequence[str]) -> dict[str, str]:
    """Kinds of protected attributes by name, of those that were given."""
    if isinstance(given, str):
        named: dict[str, str] = {} if given == "auto" else dict.fromkeys(sensitive, given)
    elif isinstance(given, Mapping):
        named = {str(name): kind for name, kind in given.items() if kind != "auto"}
    else:
        named = {n: k for n, k in zip(sensitive, given, strict=True) if k != "auto"}
    for name, kind in named.items():
        if name not in sensitive:
            msg = f"sensitive_kind names {name!r}, which is no protected attribute."
            raise ValueError(msg)
        if kind not in ("categorical", "continuous"):
            msg = f"sensitive_kind={kind!r} is not allowed; give 'categorical' or 'continuous'."
            raise ValueError(msg)
    return named


def choose_model(
    model: Any, table: Any, roles: Roles, *, criterion: str, pos_label: Any, sensitive_kind: Any,
    random_state: int, verbose: int,
) -> Any:  # fmt: skip
    """An unfitted predictor at fairness 1: the one given, or the one for such a target."""
    criterion = canonical_criterion(criterion)
    kinds = read_kinds(sensitive_kind, roles.sensitive)
    settings: dict[str, Any] = {"criterion": criterion, "pos_label": pos_label}
    if isinstance(model, str) and model == "auto":
        numeric = is_continuous(table, roles.target)
        cls = FairGPRegressor if numeric else FairGPClassifier
        out = cls(random_state=random_state, sensitive_kind=kinds or "auto", **settings)
    elif isinstance(model, FairPredictor):
        out = clone(model)
        default = {"criterion": "statistical_parity", "pos_label": None}
        for name, value in settings.items():
            own = getattr(out, name)
            own = canonical_criterion(own) if name == "criterion" else own
            if value not in (default[name], own):
                msg = (
                    f"{name}={value!r}, but the model was given {name}={own!r}. Leave {name} out, or give it "
                    f"to the model."
                )
                raise ValueError(msg)
        if kinds:
            out.set_params(sensitive_kind=kinds)
        if out.random_state is None:
            out.set_params(random_state=random_state)
        out.set_params(fairness=1.0, dial="angle")
    else:
        what = model.__name__ if isinstance(model, type) else type(model).__name__
        msg = (
            f"model={what} is not allowed; give 'auto' or an unfitted predictor of fairspan, such as "
            f"FairGPClassifier(), FairGPRegressor(), FairRidge() or FairRidgeClassifier()."
        )
        raise ValueError(msg)
    _check_target(out, table, roles)
    return out.set_params(verbose=max(verbose, out.verbose))


def _check_target(model: Any, table: Any, roles: Roles) -> None:
    column, name = table[roles.target], roles.target
    n = int(column.nunique())
    if n < 2:
        raise ValueError(f"The target {name!r} is the same in every row: nothing can be learned.")
    if not is_classifier(model):
        if model.pos_label is not None and column.dtype.kind == "f":
            raise ValueError(f"pos_label is for classes, and the target {name!r} holds numbers.")
        return
    if n > _MAX_CLASSES:
        msg = f"The target {name!r} holds {n:,} different values, as {str(column.iloc[0])!r}: no classes."
        raise ValueError(msg)
    if model.pos_label is not None and model.pos_label not in column.unique().tolist():
        shown = ", ".join(repr(v) for v in column.unique().tolist()[:6])
        raise ValueError(f"pos_label={model.pos_label!r} is no value of {name!r}: {shown}.")


def by_stratum(model: Any) -> bool:
    """Whether the model's criterion reads the control features."""
    return canonical_criterion(model.criterion) == "conditional_statistical_parity"


def known_rows(model: Any, fitted: Any, held: Any, roles: Roles) -> NDArray[np.bool_]:
    """Rows held out whose class, groups and stratum some row fitted on has, too."""
    kinds = read_kinds(model.sensitive_kind, roles.sensitive)
    names = [
        name
        for name in roles.sensitive
        if kinds.get(name, "") == "categorical"
        or (name not in kinds and not is_continuous(fitted, name))
    ]
    strata = model.pilot_.cells.strata if by_stratum(model) else None
    if strata is not None:
        names += [part.name for part in strata.parts if part.kind == "categorical"]
    if is_classifier(model):
        names.append(roles.target)
    out = np.ones(len(held), dtype=bool)
    for name in names:
        out &= held[name].isin(fitted[name].unique()).to_numpy()
    if strata is not None:
        some = {n.name: read_attribute(n.name, held[out][n.name], "table") for n in strata.parts}
        codes = np.stack([part.codes(some) for part in strata.parts], axis=1)
        seen = set(map(tuple, strata.combinations.tolist()))
        out[out] = [tuple(row) in seen for row in codes.tolist()]
    return out


def fit_model(model: Any, train: Any, roles: Roles, data: str) -> None:
    """Fit on a table; an error names the row as the table counts it, from 1."""
    if by_stratum(model) and not roles.control:
        msg = "criterion='conditional_statistical_parity' needs control_features: the strata."
        raise ValueError(msg)
    try:
        # Not encoder="auto": numbers have gaps and scales of their own, too.
        model.fit_stream(
            [train], target=roles.target, sensitive_features=list(roles.sensitive),
            control_features=list(roles.control) if by_stratum(model) else None,
            features=list(roles.features), sample_weight=roles.weight, encoder="table",
        )  # fmt: skip
    except RowError as error:
        raise ValueError(f"{data}, row {train.index[error.row] + 1}: {error.why}") from error
