"""Feature map from the leaves of boosted trees that did not see the row."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from fairspan.inputs.checks import is_number, refuse
from fairspan.inputs.columns import read_attribute, read_attributes
from fairspan.inputs.config import draw_seed
from fairspan.inputs.rows import one_column
from fairspan.method.codes import infer_kind
from fairspan.method.folds import hash_rows
from fairspan.method.linalg import Array
from fairspan.method.problem import Attribute, Codes

_KINDS = ("auto", "categorical", "continuous")
_WORDS = {
    "targets": ("auto", "y", "sensitive"),
    "target_kind": _KINDS,
    "sensitive_kind": _KINDS,
    "sparse_output": (True, False),
}


class BoostedLeaves(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Indicators of the leaves of boosted trees, as a feature map that is learnt from y and S.

    Small boosted models predict y and each protected attribute. A column is 1, up to a scale, for the rows
    in one leaf of one tree. The inner product of two rows is the share of trees in which they share a leaf,
    so a linear model on these columns is a kernel model with a kernel learnt from the data.

    *Out of fold* means: trees are grown ``cv`` times, each time without a fold of the rows. A row of the fit
    gets only the leaves of trees that did not see it. Every other row gets the leaves of all trees, with
    weights 1 / ``cv``: the average of the feature maps. So a model on the columns learns from rows that look
    like new ones, and its penalty and its fairness can be chosen on them.

    Parameters
    ----------
    targets : {"auto", "y", "sensitive"}, default="auto"
        What the trees predict. "auto" is y and S, as far as they are given.
    n_trees : int, default=40
        Trees of each model (for three or more classes: of each class).
    max_depth : int, default=3
        Depth of the trees; 3 gives at most 8 leaves.
    learning_rate : float, default=0.1
        Shrinkage of each tree.
    subsample : float, default=0.5
        Share of the rows that each tree is grown on.
    cv : int or None, default=2
        Number of folds. None grows one set of trees on all rows; a model on the columns then overfits, and
        its penalty must be chosen with new trees in each fold.
    target_kind : {"auto", "categorical", "continuous"}, default="auto"
        Whether y is a class or a number. With "auto", text, booleans, two values and integers with at most 20
        values are classes.
    sensitive_kind : {"auto", "categorical", "continuous"}, default="auto"
        The same for all protected attributes.
    sparse_output : bool, default=False
        Return a sparse matrix.
    random_state : int, RandomState or None
        Seed of the trees. None is 0: the same rows give the same trees, in any order.

    Attributes
    ----------
    models_ : list of lists of fitted models
        For each fold, the models that were fitted without it.
    n_features_in_ : int
        Columns of X.

    Notes
    -----
    The fitted transformer contains a hash of each row of X, to recognise rows of the fit.

    Examples
    --------
    >>> from fairspan import BoostedLeaves, FairRidgeClassifier, table_encoder
    >>> from fairspan.datasets import load_loans
    >>> loans = load_loans()
    >>> X = table_encoder(loans.data).fit_transform(loans.data)
    >>> model = FairRidgeClassifier(feature_map=BoostedLeaves(n_trees=5))
    >>> model = model.fit(X, loans.target, sensitive_features=loans.sensitive_features["race"])
    """

    __metadata_request__fit = {"sensitive_features": True}

    def __init__(
        self,
        *,
        targets: Any = "auto",
        n_trees: Any = 40,
        max_depth: Any = 3,
        learning_rate: Any = 0.1,
        subsample: Any = 0.5,
        cv: Any = 2,
        target_kind: Any = "auto",
        sensitive_kind: Any = "auto",
        sparse_output: Any = False,
        random_state: Any = None,
    ) -> None:
        self.targets = targets
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.subsample = subsample
        self.cv = cv
        self.target_kind = target_kind
        self.sensitive_kind = sensitive_kind
        self.sparse_output = sparse_output
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.targets != "sensitive"
        return tags

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers without gaps; see :func:`fairspan.table_encoder` for everything else.
        y : array-like of shape (n_samples,), optional
            Classes or numbers.
        sensitive_features : array-like, frame or dict, optional
            One or several protected attributes. Rows without a value are left out of its trees.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        targets = self._read_targets(len(X), y, sensitive_features)
        keys = hash_rows(X, None, draw_seed(self.random_state))
        self._keys = np.unique(keys)
        K = 1 if self.cv is None else int(self.cv)
        if len(self._keys) < 2 * K:
            raise ValueError(
                f"X has {len(self._keys)} distinct rows; {K} folds need at least {2 * K}. Lower cv."
            )
        # Keys are random numbers: rows are dealt in their order, and copies of a row share a fold.
        self._folds = np.arange(len(self._keys)) % K
        folds = self._folds[np.searchsorted(self._keys, keys)]
        used = [np.full(len(X), True)] if self.cv is None else [folds != k for k in range(K)]
        self.models_ = [
            [
                model
                for attribute, kind in targets
                if (model := self._grow(X, keys, rows, attribute, kind)) is not None
            ]
            for rows in used
        ]
        if not all(self.models_):
            msg = "No tree can be grown: in the rows of a fold, y and S have one value only."
            raise ValueError(msg)
        self._places, self._n_features_out = _number_leaves(self.models_)
        return self

    def transform(self, X: Any) -> Any:
        """Indicators of leaves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the fit, or others.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_leaves)
            The indicators of one set of trees are scaled to unit length.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        folds, K = self._fold_of(X), len(self.models_)
        columns, values = [], []
        for k, (models, places) in enumerate(zip(self.models_, self._places, strict=True)):
            weight = np.where(folds == k, 1.0, np.where(folds < 0, 1.0 / K, 0.0))
            leaves = np.concatenate([_leaves(model, X) for model in models], axis=1)
            columns.append(places[np.arange(leaves.shape[1]), leaves])
            values.append(np.repeat(weight[:, None] / np.sqrt(leaves.shape[1]), leaves.shape[1], 1))
        entries = np.concatenate(columns, axis=1)
        starts = np.arange(len(X) + 1) * entries.shape[1]
        out = scipy.sparse.csr_matrix(
            (np.concatenate(values, axis=1).ravel(), entries.ravel(), starts),
            shape=(len(X), self._n_features_out),
        )
        out.eliminate_zeros()
        return out if self.sparse_output else out.toarray()

    def _fold_of(self, X: Array) -> Codes:
        """Fold of rows of the fit; -1 for all others."""
        keys = hash_rows(X, None, draw_seed(self.random_state))
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._folds[place], -1)

    def _grow(
        self, X: Array, keys: Codes, used: NDArray[np.bool_], target: Attribute, kind: str
    ) -> Any:
        """Boosted trees of one target; None if it has one value only in these rows."""
        rows = np.flatnonzero(used & ~target.missing)
        # Trees depend on the order of the rows: copies of a row are ordered by their target.
        rows = rows[np.lexsort((target.values[rows], keys[rows]))]
        values = target.values[rows]
        if len(rows) == 0 or (values == values[0]).all():
            return None
        cls = GradientBoostingClassifier if kind == "categorical" else GradientBoostingRegressor
        model = cls(
            n_estimators=self.n_trees,
            max_depth=self.max_depth,
            learning_rate=self.learning_rate,
            subsample=self.subsample,
            random_state=draw_seed(self.random_state),
        )
        return model.fit(X[rows], values)

    def _read_targets(self, n: int, y: Any, S: Any) -> list[tuple[Attribute, str]]:
        found: dict[str, list[Attribute]] = {"target_kind": [], "sensitive_kind": []}
        if self.targets != "sensitive" and y is not None:
            attribute = read_attribute("y", one_column(y), "target")
            if len(attribute.values) != n:
                raise ValueError(f"y has {len(attribute.values)} rows, X has {n}.")
            if attribute.missing.any():
                raise ValueError(f"Input y contains NaN or None in {attribute.missing.sum()} rows.")
            found["target_kind"].append(attribute)
        if self.targets != "y" and S is not None:
            attributes = read_attributes(S, n, "sensitive_features", "sensitive_feature")
            found["sensitive_kind"] += attributes.values()
        out = []
        for name, group in found.items():
            given = getattr(self, name)
            out += [(a, infer_kind(a) if given == "auto" else given) for a in group]
        if not out:
            wanted = {
                "auto": "y or sensitive_features",
                "y": "y",
                "sensitive": "sensitive_features",
            }
            raise ValueError(
                f"BoostedLeaves(targets={self.targets!r}) requires {wanted[self.targets]} to be passed. "
                f"It requires y to be passed, but the target y is None."
            )
        return out

    def _check_parameters(self) -> None:
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                refuse(name, getattr(self, name), f"one of {', '.join(map(repr, words))}")
        for name, least in (("n_trees", 1), ("max_depth", 1), ("cv", 2)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (whole and value >= least) and not (name == "cv" and value is None):
                refuse(name, value, f"a whole number from {least} up")
        for name in ("learning_rate", "subsample"):
            value = getattr(self, name)
            if not is_number(value) or not 0.0 < value <= 1.0:
                refuse(name, value, "a number above 0, at most 1")


def _leaves(model: Any, X: Array) -> Codes:
    """Node of each row in each tree."""
    return np.asarray(model.apply(X), dtype=np.intp).reshape(len(X), -1)


def _number_leaves(models: list[list[Any]]) -> tuple[list[Codes], int]:
    """Column of each leaf by tree and node, for each fold, and the number of columns."""
    out, n_columns = [], 0
    for of_fold in models:
        trees = [tree.tree_ for model in of_fold for tree in model.estimators_.ravel()]
        places = np.full((len(trees), max(tree.node_count for tree in trees)), -1, dtype=np.intp)
        for row, tree in zip(places, trees, strict=True):
            leaf = np.flatnonzero(tree.children_left == -1)
            row[leaf] = n_columns + np.arange(len(leaf))
            n_columns += len(leaf)
        out.append(places)
    return out, n_columns
