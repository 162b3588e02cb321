"""An agreement on columns, in JSON: what several sites must know of a table, without a row of it.

::

    {
        "model": "ridge-classifier",
        "features": {"income": [0, 120], "home": ["own", "rent"]},
        "target": {"repaid": ["no", "yes"]},
        "protected": {"sex": ["f", "m"], "age": {"edges": [30, 45, 60]}},
        "landmarks": 200,
        "parameters": {"criterion": "equalized_odds"},
    }

A list of two numbers is a range, any other list has categories, and edges cut a number into slices. From
this, rows are made up, on which an estimator is prepared: every site could make them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan._system import inert
from fairspan.inputs.columns import as_frame
from fairspan.method.linalg import Array

__all__ = ["AgreedColumns", "Agreement"]

_KEYS = ("model", "features", "target", "protected", "landmarks", "parameters")
_N_ROWS = 2000
_N_LANDMARKS, _MOST_LANDMARKS = 200, 10_000
_N_SLICES, _MOST_CATEGORIES = 10, 1000
_MOST_COLUMNS = 10_000


@dataclass(frozen=True, kw_only=True)
class AgreedColumns:
    """Transformer of tables into numbers, by agreed ranges and categories; nothing is fitted.

    Attributes
    ----------
    features : dict
        By the name of each feature its range, which is mapped to -1 and 1, or its categories, each of
        which becomes a column of 0 and 1.
    target : str
        Name of the column that is predicted.
    protected : list of str
        Names of the protected attributes.
    text : list of str
        Columns whose values are texts.
    """

    features: dict[str, list[Any]]
    target: str
    protected: list[str]
    text: list[str]

    def transform(self, X: Any) -> Array:
        """Encode a frame that has all the features."""
        frame = as_frame(X, "X")
        if frame is None:
            raise ValueError("The model needs a data frame with the columns that were agreed on.")
        blocks = [self._encode(name, spec, frame) for name, spec in self.features.items()]
        return np.concatenate(blocks, axis=1)

    def _encode(self, name: str, spec: list[Any], frame: nw.DataFrame[Any]) -> Array:
        column = frame.get_column(name)
        if column.null_count() or (column.dtype.is_float() and bool(column.is_nan().any())):
            raise ValueError(
                f"Column {name!r} has missing values, and no value was agreed on for them. Fill them in, or "
                f"agree on a category such as 'unknown'."
            )
        if is_range(spec):
            if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
                raise ValueError(f"Column {name!r} should hold numbers: {spec} was agreed on.")
            low, high = spec
            values = column.to_numpy().astype(np.float64)
            return np.asarray((2.0 * values - (low + high)) / (high - low))[:, None]
        found = column.to_numpy().astype(object)
        out = np.stack([found == category for category in spec], axis=1)
        unknown = np.flatnonzero(~out.any(axis=1))
        if len(unknown):
            value = inert(repr(found[unknown[0]]))
            raise ValueError(
                f"Column {name!r} has the category {value}, which was not agreed on; these were: "
                f"{', '.join(map(repr, spec[:5]))}{', ...' if len(spec) > 5 else ''}."
            )
        return out.astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Names of the numeric columns."""
        names: list[str] = []
        for name, spec in self.features.items():
            names += [name] if is_range(spec) else [f"{name}_{category}" for category in spec]
        return np.array(names, dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """Values that JSON has."""
        return {
            "features": self.features,
            "order": list(self.features),
            "target": self.target,
            "protected": self.protected,
            "text": self.text,
        }

    @classmethod
    def checked(cls, given: Any) -> AgreedColumns:
        """Build from the content of a file; raise ValueError if it is not valid."""
        if not isinstance(given, dict) or not isinstance(given.get("features"), dict):
            raise ValueError("its columns do not fit")
        features, order = given["features"], given.get("order")
        names = [given.get("target"), *_list(given.get("protected")), *_list(given.get("text"))]
        if not all(isinstance(name, str) for name in names) or not isinstance(order, list):
            raise ValueError("its columns do not fit")
        if not all(isinstance(n, str) for n in order) or sorted(order) != sorted(features):
            raise ValueError("its columns do not fit")
        for name in order:
            check_feature(name, features[name])
        return cls(
            features={name: features[name] for name in order},
            target=str(given["target"]),
            protected=_list(given["protected"]),
            text=_list(given["text"]),
        )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("its columns do not fit")
    return value


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and bool(abs(value) < 1e150)


def is_range(spec: Any) -> bool:
    """Whether a description of a column is a range: two numbers, the smaller one first."""
    return isinstance(spec, list) and len(spec) == 2 and all(map(is_number, spec))


def _are_categories(spec: Any) -> bool:
    if not isinstance(spec, list) or not 2 <= len(spec) <= _MOST_CATEGORIES:
        return False
    kinds = {type(value) for value in spec}
    return len(kinds) == 1 and kinds <= {str, int, bool} and len(set(spec)) == len(spec)


def check_feature(name: str, spec: Any) -> None:
    """Raise unless a feature has a range or categories."""
    if is_range(spec):
        if spec[0] < spec[1]:
            return
    elif _are_categories(spec):
        return
    raise ValueError(
        f"the feature {inert(repr(name))} is {inert(repr(spec))}; give a range [low, high], or a list of "
        f"different categories"
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A checked agreement."""

    model: str
    columns: AgreedColumns
    roles: dict[str, Any]  # description of the target and of each protected attribute
    n_landmarks: int
    parameters: dict[str, Any]

    @classmethod
    def of(cls, given: Any) -> Agreement:
        """Check an agreement; raise ValueError, with the second half of a sentence about it."""
        if not isinstance(given, dict):
            raise ValueError("it is no JSON object")
        if unknown := sorted(set(given) - set(_KEYS)):
            raise ValueError(f"it has {unknown[0]!r}; allowed are {', '.join(_KEYS)}")
        for key in ("features", "target", "protected"):
            if not isinstance(given.get(key), dict) or not given[key]:
                raise ValueError(f"it needs {key!r}, with a description of each column by its name")
        features, target, protected = given["features"], given["target"], given["protected"]
        if len(target) != 1:
            raise ValueError("'target' must have one column")
        if len(features) > _MOST_COLUMNS:
            raise ValueError(f"it has more than {_MOST_COLUMNS:,} features")
        for name, spec in features.items():
            check_feature(name, spec)
        roles = {**target, **protected}
        for name, spec in roles.items():
            _values(name, spec)
        if (name := next(iter(target))) in features or name in protected:
            raise ValueError(f"the target {name!r} has another role, too")
        n = given.get("landmarks", _N_LANDMARKS)
        if type(n) is not int or not 2 <= n <= _MOST_LANDMARKS:
            raise ValueError(f"'landmarks' is {n!r}; give a number from 2 to {_MOST_LANDMARKS:,}")
        parameters = given.get("parameters", {})
        if not isinstance(parameters, dict):
            raise ValueError("'parameters' must have values by name")
        texts = [
            column
            for column, spec in {**features, **roles}.items()
            if _are_categories(spec) and isinstance(spec[0], str)
        ]
        return cls(
            model=str(given.get("model", "")),
            columns=AgreedColumns(
                features=dict(features), target=name, protected=list(protected), text=texts
            ),
            roles=roles,
            n_landmarks=n,
            parameters=parameters,
        )

    @property
    def numeric_target(self) -> bool:
        """The target is a number."""
        return isinstance(self.roles[self.columns.target], dict)

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of each protected attribute."""
        return {
            name: "continuous" if isinstance(self.roles[name], dict) else "categorical"
            for name in self.columns.protected
        }

    @property
    def n_slices(self) -> int:
        """Slices that agreed edges need."""
        numeric = [name for name, spec in self.roles.items() if isinstance(spec, dict)]
        return max([_N_SLICES, *(len(_values(n, self.roles[n])) for n in numeric)])

    def rows(self) -> tuple[Array, NDArray[Any], dict[str, NDArray[Any]]]:
        """Make rows up: encoded features uniform in their ranges, and the levels of y and S in turn."""
        rng = np.random.default_rng(0)
        blocks = []
        for spec in self.columns.features.values():
            if is_range(spec):
                blocks.append(rng.uniform(-1.0, 1.0, (_N_ROWS, 1)))
            else:
                blocks.append(np.eye(len(spec))[rng.integers(0, len(spec), _N_ROWS)])
        drawn = {}
        for name, spec in self.roles.items():
            values = _values(name, spec)
            drawn[name] = values[rng.permutation(np.arange(_N_ROWS) % len(values))]
        y = drawn.pop(self.columns.target)
        return np.concatenate(blocks, axis=1), y, drawn


def _values(name: str, spec: Any) -> NDArray[Any]:
    """Values of made-up rows, whose slices have the agreed edges: every value begins a slice."""
    if isinstance(spec, dict) and set(spec) == {"edges"} and isinstance(spec["edges"], list):
        edges = spec["edges"]
        if 0 < len(edges) < _MOST_CATEGORIES and all(map(is_number, edges)):
            values = np.array(edges, dtype=np.float64)
            if (np.diff(values) > 0.0).all():
                below = values[0] - max(float(np.ptp(values)), 1.0)
                return np.concatenate([[below], values])
    elif isinstance(spec, dict) and set(spec) == {"range"} and is_range(spec["range"]):
        low, high = spec["range"]
        if low < high:
            return np.linspace(low, high, _N_SLICES, endpoint=False)
    elif _are_categories(spec):
        return np.array(spec)
    raise ValueError(
        f"{inert(repr(name))} is {inert(repr(spec))}; give a list of different categories, "
        f'{{"range": [low, high]}}, or {{"edges": [...]}} in increasing order'
    )
