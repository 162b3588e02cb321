"""Learning adversarially fair and transferable representations (LAFTR), and a GP on them.

Madras, Creager, Pitassi and Zemel (2018), "Learning adversarially fair and transferable
representations", International Conference on Machine Learning 35.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy.special import expit
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import align_rows
from fairspan.method.linalg import Array
from fairspan.method.problem import canonical_criterion
from fairspan_lab.baselines._common import (
    BaselineClassifier,
    Labels,
    check_choice,
    check_count,
    check_number,
    positive_rows,
    read_rows,
    read_two_classes,
    refuse,
)
from fairspan_lab.baselines._laftr_networks import Networks, Schedule, Setting, fit_many
from fairspan_lab.baselines._sensitive import align, read_sensitive, read_two_groups
from fairspan_lab.baselines.standard_gp import StandardGP

__all__ = ["LAFTR", "LAFTRGP", "laftr_sweep"]

CRITERIA = ("statistical_parity", "equalized_odds", "equal_opportunity")
# A standard deviation below this share of a column's size is rounding: the column has collapsed.
_COLLAPSED = 1e-8

_Model = TypeVar("_Model", "LAFTR", "LAFTRGP")


class _ReadsSensitive(BaselineClassifier):
    """A classifier that may read S when it predicts, and then takes it in every method."""

    use_sensitive: bool

    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    @property
    def reads_sensitive_at_predict(self) -> bool:  # type: ignore[override]
        """Whether prediction needs ``sensitive_features``: iff ``use_sensitive``."""
        return bool(self.use_sensitive)

    @abstractmethod
    def decision_function(self, X: Any, sensitive_features: Any = None) -> Array:
        """The real-valued score; positive means ``classes_[1]``."""

    def predict(self, X: Any, sensitive_features: Any = None) -> Labels:
        """The class on whose side the score lies.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        sensitive_features : array-like, series or frame with one column, optional
            The attribute of `fit`; needed iff ``use_sensitive``, else ignored.
        """
        positive = self.decision_function(X, sensitive_features) > 0.0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Share of rows classified correctly."""
        predicted = self.predict(X, sensitive_features)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class LAFTR(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _ReadsSensitive):  # type: ignore[misc]
    """Representation learnt against an adversary that tries to read the protected attribute off it.

    An encoder maps rows to ``n_representation`` numbers, a classifier predicts the label from them,
    an adversary the protected attribute. Each has one hidden layer of ``n_hidden`` leaky ReLUs.
    With labels y and attribute a in {0, 1}, Adam steps on two losses alternate over each batch::

        encoder, classifier:  min  mean(l(y, classifier(z))) - fair_weight mean(w l(a, adversary(z)))
        adversary:            min  fair_weight mean(w l(a, adversary(z)))

    `transform` gives the representation; `predict` and its kin the network's own classifier.

    Limits: one binary protected attribute, two classes. Nothing is guaranteed: the adversary bounds
    what 8 units can read off z, not what another model can, so a model fitted on z may be less fair
    than the network's own classifier. Results vary between seeds and are not monotone in
    ``fair_weight``; report several seeds. The article's reconstruction term is left out: the
    published configuration for tables like Adult gives it weight 0. Standardise X first.

    Parameters
    ----------
    criterion : {"statistical_parity", "equalized_odds", "equal_opportunity"}
        Default "statistical_parity". The weights w are 1 over the share of the row's group, for the
        other two of its group and label together; they are not normalised (they average 2, 4 and 2),
        so one ``fair_weight`` means different things for different criteria. For the last two the
        adversary reads the label. Equal opportunity weighs only rows of the favourable class.
    fair_weight : float, default=1.0
        Weight of the adversary (gamma in the article, whose sweep goes from 0.1 to 4). With 0 the
        adversary is not trained.
    loss : {"l1", "cross_entropy"}, default="l1"
        The loss l of both classifier and adversary, after a sigmoid: ``|y - p|``, the published
        choice, which saturates, or the cross-entropy.
    n_hidden : int, default=8
        Units of every hidden layer.
    n_representation : int, default=8
        Numbers per row in the representation.
    epochs : int, default=1000
        Passes over the rows; no early stopping.
    batch_size : int, default=64
        Rows per step.
    learning_rate : float, default=1e-3
        Of both Adam optimisers.
    use_sensitive : bool, default=True
        Whether the encoder reads the protected attribute besides X, as published. Then `transform`
        and `predict` need ``sensitive_features``.
    pos_label : label, default=None
        The favourable class of equal opportunity; the second in sorted order if None. (The
        published code weighs the rows of label 0 instead.)
    reshuffle : bool, default=False
        Whether rows are put in a new order for every epoch. The published code resets its seed, so
        batches are the same in every epoch; that is the default.
    drop_last : bool, default=True
        Whether the rows after the last full batch are left out, as published. With the same batches
        in every epoch these rows (fewer than ``batch_size``) are never seen.
    random_state : int, RandomState or None, default=None
        Draws the initial weights. The order of rows has a fixed seed of its own, which lets models
        with several seeds train side by side (:func:`laftr_sweep`) and be what each is alone.
    verbose : int, default=0
        Print the losses ten times.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    groups_ : ndarray of shape (2,)
        Values of the protected attribute.
    networks_ : Networks
        Trained weights as arrays; PyTorch is not needed to predict.

    Examples
    --------
    >>> from fairspan_lab.baselines import LAFTR
    >>> LAFTR(fair_weight=0.5).reads_sensitive_at_predict
    True
    >>> LAFTR(fair_weight=0.5, use_sensitive=False).reads_sensitive_at_predict
    False
    """

    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        criterion: str = "statistical_parity",
        *,
        fair_weight: float = 1.0,
        loss: str = "l1",
        n_hidden: int = 8,
        n_representation: int = 8,
        epochs: int = 1000,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        use_sensitive: bool = True,
        pos_label: Any = None,
        reshuffle: bool = False,
        drop_last: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.criterion = criterion
        self.fair_weight = fair_weight
        self.loss = loss
        self.n_hidden = n_hidden
        self.n_representation = n_representation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.use_sensitive = use_sensitive
        self.pos_label = pos_label
        self.reshuffle = reshuffle
        self.drop_last = drop_last
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Train encoder, classifier and adversary.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps, standardised.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame with one column
            One binary attribute.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            The extra `torch` is not installed.
        """
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        _fit_together([self], X, y, sensitive_features)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Array:
        """Train, and give the representation of the same rows. Parameters as in `fit`."""
        self.fit(X, y, sensitive_features=sensitive_features)
        return np.asarray(self.transform(X, sensitive_features))

    def transform(self, X: Any, sensitive_features: Any = None) -> Array:
        """The representation, shape (n_samples, n_representation). Parameters as in `predict`."""
        return self._represent(X, sensitive_features, "transform")

    def decision_function(self, X: Any, sensitive_features: Any = None) -> Array:
        """Logit of ``classes_[1]`` by the network's own classifier. Parameters as in `predict`."""
        z = self._represent(X, sensitive_features, "decision_function")
        return np.asarray(self._sign * self.networks_.classifier(z)[:, 0])

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """Probabilities of both classes by the network's own classifier, not calibrated."""
        p = expit(self.decision_function(X, sensitive_features))
        return np.column_stack([1.0 - p, p])

    # ------------------------------------------------------------------ inside

    def _check(self) -> Schedule:
        criterion = canonical_criterion(self.criterion)
        check_choice("criterion", criterion, CRITERIA)
        check_choice("loss", self.loss, ("l1", "cross_entropy"))
        check_number("fair_weight", self.fair_weight)
        for name in ("use_sensitive", "reshuffle", "drop_last"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise refuse(name, getattr(self, name), "True or False")
        return Schedule(
            n_hidden=check_count("n_hidden", self.n_hidden),
            n_representation=check_count("n_representation", self.n_representation),
            epochs=check_count("epochs", self.epochs),
            batch_size=check_count("batch_size", self.batch_size),
            learning_rate=check_number("learning_rate", self.learning_rate, open_low=True),
            reshuffle=bool(self.reshuffle),
            drop_last=bool(self.drop_last),
            verbose=int(self.verbose),
        )

    def _setting(self) -> Setting:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        criterion = canonical_criterion(self.criterion)
        return Setting(self.loss, criterion, float(self.fair_weight), seed)

    def _represent(self, X: Any, sensitive_features: Any, method: str) -> Array:
        rows = self._read_new(X)
        if len(self.networks_.encoder.weight1) > rows.shape[1]:  # as it was fitted
            group = self._read_group(X, sensitive_features, len(rows), method)
            rows = np.column_stack([rows, group])
        return np.asarray(self.networks_.encoder(rows))

    def _read_group(self, X: Any, sensitive_features: Any, n: int, method: str) -> Array:
        if sensitive_features is None:
            msg = (
                f"{type(self).__name__} with use_sensitive=True reads the protected attribute when it "
                f"predicts: `sensitive_features` was not given. Call {method}(X, sensitive_features=s), "
                f"or fit with use_sensitive=False for a model that does without it."
            )
            raise ValueError(msg)
        found = read_sensitive(self, X, sensitive_features, n, method)
        values = align(found, (self._attribute,))[self._attribute].values
        unknown = values[~np.isin(values, self.groups_)]
        if len(unknown):
            msg = (
                f"sensitive_features {self._attribute!r} holds {unknown[0]!r}, which fit did not see; "
                f"it had {self.groups_[0]!r} and {self.groups_[1]!r}."
            )
            raise ValueError(msg)
        return np.asarray(values == self.groups_[1], dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return int(self.networks_.encoder.weight2.shape[1])


def _check_cells(criterion: str, favourable: Array, a: Array, groups: Labels) -> None:
    """Each cell the adversary's weights divide by needs a row."""
    if criterion == "statistical_parity":
        return
    for label in (1.0,) if criterion == "equal_opportunity" else (1.0, 0.0):
        for group in (0, 1):
            if not ((favourable == label) & (a == group)).any():
                which = "favourable" if label else "unfavourable"
                msg = (
                    f"criterion={criterion!r} needs rows of both groups in the {which} class; group "
                    f"{groups[group]!r} has none there."
                )
                raise ValueError(msg)


def _fit_together(models: Sequence[LAFTR], X: Any, y: Any, sensitive_features: Any) -> None:
    """Fit models that may differ in loss, criterion, weight and seed, all at once."""
    schedules = [model._check() for model in models]  # equal: a sweep does not vary them
    read = [read_rows(model, X) for model in models]
    first, rows, n = models[0], read[0], len(read[0])
    signs, classes = read_two_classes(first, y, n)
    attributes = read_sensitive(first, X, sensitive_features, n)
    members, groups = read_two_groups(first, attributes)
    favourable = positive_rows(signs, classes, first.pos_label).astype(np.float64)
    a = members.astype(np.float64)
    settings = [model._setting() for model in models]
    for setting in settings:
        _check_cells(setting.criterion, favourable, a, groups)
    inputs = np.column_stack([rows, a]) if first.use_sensitive else rows
    trained = fit_many(inputs, favourable, a, settings, schedules[0])
    for model, setting, networks in zip(models, settings, trained, strict=True):
        _check_finite(setting, networks)
        model.classes_, model.groups_ = classes, groups
        model.networks_ = networks
        model._attribute = next(iter(attributes))
        model._sign = 1.0 if bool(favourable[0]) == bool(signs[0] > 0.0) else -1.0


def _check_finite(setting: Setting, networks: Networks) -> None:
    if not all(
        np.isfinite(part).all()
        for layers in (networks.encoder, networks.classifier)
        for part in vars(layers).values()
    ):
        msg = f"Training diverged for {setting}. Lower learning_rate or fair_weight, or scale X."
        raise ValueError(msg)


class LAFTRGP(_ReadsSensitive):
    """Gaussian process with a linear mean on the representation of :class:`LAFTR`.

    The encoder is trained on the training rows; each column of their representation is
    standardised (columns that collapsed to a constant are left out, with a warning); the process
    regresses labels -1 and +1 on it, and its posterior mean is the score. This is the rival of the
    paper's Figure 1. The process is fitted without regard to fairness and can recover what the
    adversary's few units did not see; it is as a rule less fair than `encoder_` alone.

    Parameters
    ----------
    criterion, fair_weight, loss, n_hidden, n_representation, epochs, batch_size, learning_rate
        As in :class:`LAFTR`.
    use_sensitive, pos_label, reshuffle, drop_last, verbose
        As in :class:`LAFTR`.
    max_hyper_rows : int, default=1000
        At most so many rows choose the hyper-parameters of the process; all rows are conditioned on.
        A few hundred are too few: with 200 rows of Compas the likelihood's best length scale is at
        times near 0.
    n_restarts : int, default=2
        Random starts of the search for them, as in :class:`StandardGP`.
    random_state : int, RandomState or None, default=None
        Draws initial weights, and the rows for the hyper-parameters.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    encoder_ : LAFTR
        Fitted networks.
    gp_ : StandardGP or None
        The process; None if every column collapsed, and the score is the mean label.
    kept_ : ndarray of bool, shape (n_representation,)
        Columns of the representation that did not collapse.
    """

    def __init__(
        self,
        criterion: str = "statistical_parity",
        *,
        fair_weight: float = 1.0,
        loss: str = "l1",
        n_hidden: int = 8,
        n_representation: int = 8,
        epochs: int = 1000,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        use_sensitive: bool = True,
        pos_label: Any = None,
        reshuffle: bool = False,
        drop_last: bool = True,
        max_hyper_rows: int = 1000,
        n_restarts: int = 2,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.criterion = criterion
        self.fair_weight = fair_weight
        self.loss = loss
        self.n_hidden = n_hidden
        self.n_representation = n_representation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.use_sensitive = use_sensitive
        self.pos_label = pos_label
        self.reshuffle = reshuffle
        self.drop_last = drop_last
        self.max_hyper_rows = max_hyper_rows
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Train the encoder, then the process on its representation of the same rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps, standardised.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame with one column
            One binary attribute.

        Returns
        -------
        self
        """
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        encoder = self._new_encoder()
        encoder.fit(X, y, sensitive_features=sensitive_features)
        return self._fit_process(encoder, X, y, sensitive_features)

    def decision_function(self, X: Any, sensitive_features: Any = None) -> Array:
        """Posterior mean for labels -1 and +1. Parameters as in `predict`."""
        check_is_fitted(self)
        z = self.encoder_._represent(X, sensitive_features, "decision_function")
        if self.gp_ is None:
            return np.full(len(z), self._mean_label)
        return np.asarray(self.gp_.predict((z[:, self.kept_] - self._centre) / self._scale))

    # ------------------------------------------------------------------ inside

    def _new_encoder(self) -> LAFTR:
        check_count("max_hyper_rows", self.max_hyper_rows, low=2)
        check_count("n_restarts", self.n_restarts, low=0)
        params = self.get_params(deep=False)
        return LAFTR(**{name: params[name] for name in LAFTR().get_params(deep=False)})

    def _fit_process(self, encoder: LAFTR, X: Any, y: Any, sensitive_features: Any) -> Self:
        z = encoder._represent(X, sensitive_features, "fit")
        signs, _ = read_two_classes(self, y, len(z))
        scale = z.std(axis=0)
        kept = scale > _COLLAPSED * np.sqrt(np.mean(z**2, axis=0))
        if not kept.all():
            warn_user(
                f"{int((~kept).sum())} of {len(kept)} columns of the representation collapsed to a "
                f"constant and are left out of the Gaussian process. Another seed or a smaller "
                f"fair_weight may keep them.",
                DataWarning,
            )
        self.gp_: StandardGP | None = None
        self._centre, self._scale = z[:, kept].mean(axis=0), scale[kept]
        self._mean_label = float(signs.mean())
        if kept.any():
            self.gp_ = StandardGP(
                mean="linear",
                n_restarts=self.n_restarts,
                max_hyper_rows=self.max_hyper_rows,
                random_state=self.random_state,
            ).fit((z[:, kept] - self._centre) / self._scale, signs)
        self.encoder_, self.kept_ = encoder, kept
        self.classes_, self.groups_ = encoder.classes_, encoder.groups_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(encoder, name):
                setattr(self, name, getattr(encoder, name))
        return self


def laftr_sweep(
    estimator: _Model,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    fair_weights: Iterable[float] | None = None,
    random_states: Iterable[Any] | None = None,
    criteria: Iterable[str] | None = None,
    losses: Iterable[str] | None = None,
) -> Iterator[_Model]:
    """Fit one estimator for every combination of the given values, trained side by side.

    The models see the same batches, so that one training of all costs far less than one by one
    (thirty as much as two or three alone); each comes out as if it were fitted alone.

    Parameters
    ----------
    estimator : LAFTR or LAFTRGP
        Gives all other parameters; it is not changed.
    X, y, sensitive_features
        As in :meth:`LAFTR.fit`.
    fair_weights, random_states, criteria, losses : iterables, optional
        Values to try; the estimator's own value where not given.

    Returns
    -------
    iterator of LAFTR or LAFTRGP
        Fitted clones; losses vary slowest, then criteria, fair weights and seeds. Their
        ``get_params()`` tells them apart. All networks are trained when this returns; the Gaussian
        processes, each of which holds an n x n matrix, are fitted one by one as they are asked for.
    """
    given: dict[str, Iterable[Any] | None] = {
        "loss": losses,
        "criterion": criteria,
        "fair_weight": fair_weights,
        "random_state": random_states,
    }
    grid = {name: list(values) for name, values in given.items() if values is not None}
    models = [
        clone(estimator).set_params(**dict(zip(grid, values, strict=True)))
        for values in product(*grid.values())
    ]
    if not models:
        msg = "laftr_sweep was given an empty list of values; leave it out to keep the estimator's."
        raise ValueError(msg)
    X, y, sensitive_features = align_rows(X=X, y=y, sensitive_features=sensitive_features).values()
    encoders = [m._new_encoder() if isinstance(m, LAFTRGP) else m for m in models]
    _fit_together(encoders, X, y, sensitive_features)

    def finish(model: _Model, encoder: LAFTR) -> _Model:
        if isinstance(model, LAFTRGP):
            model._fit_process(encoder, X, y, sensitive_features)
        return model

    return map(finish, models, encoders)
