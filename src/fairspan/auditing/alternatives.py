"""``alternatives``: an incumbent model beside models of fairspan on the same held-out rows.

A fairspan model is fitted on training rows along its whole dial, and evaluated there out of fold. Two dial
values are chosen from these training rows alone: the smallest gap among those with at most the incumbent's
error, and the smallest error among those with at most its gap. Only then are both models compared on rows
that neither was fitted on, with paired intervals. So no printed interval is about rows that chose what is
printed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fairspan._threads import count_rows, with_few_threads
from fairspan.auditing.alternatives_result import (
    Alternative,
    Alternatives,
    FrontierPoint,
    GapComparison,
)
from fairspan.auditing.alternatives_rows import (
    about_rows,
    at_rows,
    groups_compared,
    held_out,
    incumbent_rows,
    may_be_fitted,
    what_to_compare,
    without_outputs,
)
from fairspan.auditing.paired import (
    Measured,
    ModelRows,
    PairedRows,
    error_change,
    error_interval,
    gap_change,
    gap_interval,
)
from fairspan.auditing.parts import Settings
from fairspan.auditing.reading import Audited, read_audit
from fairspan.estimators.dial_predictor import DialPredictor
from fairspan.estimators.named import named_model, set_equalize
from fairspan.estimators.path import FairnessPath, fairness_path
from fairspan.estimators.predictors import FairPredictor
from fairspan.exceptions import DataWarning, DecisionRuleError, each_warning_once, warn_user
from fairspan.inputs.checks import is_number, refuse
from fairspan.inputs.config import read_seed
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes, canonical_criterion
from fairspan.method.promises import choose
from fairspan.metrics.inputs import SensitiveKind
from fairspan.streaming.rows import take_rows

SEARCHES = ("kernel", "auto", "boosting")
_COMPARES = ("auto", "decisions", "scores")
# With fewer rows on either side nothing can be chosen or shown.
_FEWEST = 60


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Options of :func:`alternatives`; invalid values raise ValueError."""

    search: Any = "kernel"
    criterion: str = "statistical_parity"
    compare: str = "auto"
    threshold: float | None = None
    test_share: float = 0.25
    level: float = 0.95
    n_boot: int = 1000
    n_points: int = 41
    min_rows: int = 30
    random_state: Any = 0

    def __post_init__(self) -> None:
        Settings(level=self.level, n_boot=self.n_boot, min_rows=self.min_rows)
        if not (isinstance(self.search, FairPredictor) or self.search in SEARCHES):
            known = "'kernel', 'auto', 'boosting' or an unfitted predictor of fairspan"
            refuse("search", self.search, known)
        if canonical_criterion(self.criterion) == "conditional_statistical_parity":
            known = "'statistical_parity', 'equalized_odds' or 'equal_opportunity'"
            refuse("criterion", self.criterion, known)
        if self.compare not in _COMPARES:
            refuse("compare", self.compare, "'auto', 'decisions' or 'scores'")
        if self.threshold is not None and not is_number(self.threshold):
            refuse("threshold", self.threshold, "a number")
        if not is_number(self.test_share) or not 0.0 < self.test_share < 1.0:
            refuse("test_share", self.test_share, "a share of the rows between 0 and 1, e.g. 0.25")
        points: Any = self.n_points
        if not isinstance(points, int | np.integer) or isinstance(points, bool) or points < 2:
            refuse("n_points", points, "an integer of at least 2")


@with_few_threads(lambda _incumbent=None, X=None, y=None, **_: count_rows(X, y))
def alternatives(
    incumbent: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    decisions: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    pos_label: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    search: Any = "kernel",
    criterion: str = "statistical_parity",
    compare: str = "auto",
    threshold: float | None = None,
    test_share: float = 0.25,
    level: float = 0.95,
    n_boot: int = 1000,
    n_points: int = 41,
    min_rows: int = 30,
    random_state: Any = 0,
) -> Alternatives:
    """Compare an incumbent model with models of fairspan: at its error, and at its gap between groups.

    A model of fairspan is fitted on training rows and moved along its dial. Dial values are chosen on the
    training rows, out of fold; the printed numbers are about held-out rows, which neither model was fitted
    on and which chose nothing. Rows that a fairspan incumbent was fitted on are recognised, and are only
    trained on; of other incumbents it is not known which rows they were fitted on.

    Parameters
    ----------
    incumbent : fitted model, or array-like of shape (n_samples,)
        The model in use, its scores (larger for the favourable class) or its decisions, as in
        :func:`fairspan.audit`; a pandas Series gives its name to the result. A column of X that equals
        them is left out of the features.
    X : array-like or frame of shape (n_samples, n_features)
        Columns to learn from; those of a model that was given, too.
    y : array-like of shape (n_samples,)
        True labels or numbers.
    sensitive_features, sample_weight, groups, pos_label, sensitive_kind
        As in :func:`fairspan.audit`.
    decisions : array-like of shape (n_samples,), optional
        Decisions of a model that was given, to be compared instead of its own.
    search : {"kernel", "auto", "boosting"} or unfitted predictor of fairspan, default="kernel"
        The alternatives: "kernel" is a Gaussian process, "boosting" boosted trees; "auto" stacks both, which
        is often the most accurate, and slower.
    criterion : {"statistical_parity", "equalized_odds", "equal_opportunity"}, default="statistical_parity"
        Rows within which groups are compared: all, those of each class, or those of the favourable class.
    compare : {"auto", "decisions", "scores"}, default="auto"
        "decisions" compares errors and rates, "scores" the ranking error ``1 - AUC`` (of a numeric target,
        the RMSE) and correlations. "auto": decisions if there are any.
    threshold : float, optional
        The incumbent decides in favour where its score is at least this; decisions are compared.
    test_share : float, default=0.25
        Share of the rows that is held out; at most half of the rows that the incumbent was not fitted on.
    level : float, default=0.95
        Confidence level of the intervals.
    n_boot : int, default=1000
        Number of bootstrap resamples of the held-out rows.
    n_points : int, default=41
        Number of dial values.
    min_rows : int, default=30
        Groups with fewer effective rows are left out of gaps.
    random_state : int, RandomState or None, default=0
        Seed of the split, the fit and the resamples.

    Returns
    -------
    Alternatives

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.auditing import alternatives
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 600)
    >>> X = rng.normal(size=(600, 3)) + np.outer(s, [1, 0, 0])
    >>> y = (X.sum(axis=1) + rng.normal(size=600) > 0.5).astype(int)
    >>> incumbent = (X[:, 0] > 0.5).astype(int)
    >>> result = alternatives(incumbent, X, y, sensitive_features={"sex": s})
    >>> result.n_train, result.n_test
    (450, 150)
    >>> [found.at for found in result.alternatives]
    ['error', 'gap']
    """
    settings = SearchSettings(
        search=search,
        criterion=criterion,
        compare=compare,
        threshold=threshold,
        test_share=test_share,
        level=level,
        n_boot=n_boot,
        n_points=n_points,
        min_rows=min_rows,
        random_state=random_state,
    )
    if X is None or y is None:
        raise ValueError("alternatives needs X, the columns to learn from, and the true labels y.")
    with each_warning_once():
        data = read_audit(
            incumbent,
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=None,
            sample_weight=sample_weight,
            decisions=decisions,
            pos_label=pos_label,
            sensitive_kind=sensitive_kind,
            intersectional=False,
            groups=groups,
        )
        found = find_alternatives(data, settings)
    name = getattr(incumbent, "name", None)  # of a column
    return replace(found, incumbent=name) if isinstance(name, str) else found


def find_alternatives(data: Audited, settings: SearchSettings) -> Alternatives:
    """Fit, choose on training rows and compare on held-out rows; see :func:`alternatives`."""
    criterion = canonical_criterion(settings.criterion)
    data, compares = what_to_compare(data, criterion, settings.compare, settings.threshold)
    table, notes = without_outputs(data.table, data, compares)
    seed = read_seed(settings.random_state)
    fitted = may_be_fitted(data)
    test = held_out(data, fitted, settings.test_share, seed)
    chooses = ~fitted
    chooses[test] = False
    train = np.setdiff1d(np.arange(data.n), test)
    choosing = np.flatnonzero(chooses)
    for rows, what in ((test, "hold out"), (choosing, "choose dial values on")):
        if len(rows) < _FEWEST:
            raise ValueError(
                f"Only {len(rows):,} rows are left to {what} that the incumbent was not fitted on, of "
                f"{data.n:,}; at least {_FEWEST} are needed. Give more rows that it was not fitted on."
            )
    estimator = _estimator(data, settings, criterion, compares, int(seed.randint(2**31 - 1)))
    path = _path(estimator, table, data, train, settings.n_points)
    compared, left_out = groups_compared(data, criterion, (test, choosing), settings.min_rows)
    notes += left_out
    place = np.searchsorted(train, choosing)
    incumbent = incumbent_rows(data, compares)
    on_training = PairedRows(
        data=data.take(choosing), criterion=criterion, compared=compared, level=settings.level
    )
    ours = _ours_out_of_fold(path, data, compares, place)
    before, *along = on_training.measure([at_rows(incumbent, choosing), *ours])
    errors = np.array([m.error[0] for m in along])
    gaps = np.array([m.gap() for m in along])
    chosen = {
        "error": choose("error", gaps, errors, "error", float(before.error[0]) + 1e-12),
        "gap": choose("gap", gaps, errors, "metric", before.gap() + 1e-12),
    }
    # Everything is chosen; the held-out rows are read from here on.
    held = PairedRows(
        data=data.take(test), criterion=criterion, compared=compared, level=settings.level
    )
    predicted = _ours_on_new_rows(path, take_rows(table, test), data, compares)
    picked = [predicted[i] for i, _ in chosen.values()]
    rng = np.random.default_rng(int(seed.randint(2**31 - 1)))
    theirs, *found = held.measure([at_rows(incumbent, test), *picked], settings.n_boot, rng)
    described = held.measure(predicted)
    level = settings.level
    return Alternatives(
        incumbent=data.name,
        compares=compares,
        criterion=criterion,
        error_name=_ERRORS[compares],
        gap_name=_gap_name(compares, criterion),
        error=error_interval(theirs, level),
        gap=gap_interval(theirs, None, level),
        selected=None if theirs.selected is None else float(theirs.selected[0]),
        alternatives=tuple(
            _alternative(at, path.fairness[i], reached, theirs, ours_, level)
            for (at, (i, reached)), ours_ in zip(chosen.items(), found, strict=True)
        ),
        frontier=tuple(
            FrontierPoint(
                fairness=float(path.fairness[i]),
                training_error=float(errors[i]),
                training_gap=float(gaps[i]),
                error=float(m.error[0]),
                gap=m.gap(),
            )
            for i, m in enumerate(described)
        ),
        n_rows=data.n,
        n_train=len(train),
        n_test=len(test),
        n_fitted=int(fitted.sum()),
        level=level,
        search=type(path.estimator).__name__,
        notes=(*notes, *about_rows(data, fitted)),
        model=path.estimator,
    )


_ERRORS = {"decisions": "error", "scores": "ranking error (1 - AUC)", "numbers": "RMSE"}


def _gap_name(compares: str, criterion: str) -> str:
    within = {
        "statistical_parity": "",
        "equalized_odds": " at the same true class",
        "equal_opportunity": " in the favourable class",
    }[criterion]
    return ("selection-rate gap" if compares == "decisions" else "correlation") + within


def _alternative(
    at: str, fairness: float, reached: bool, before: Measured, after: Measured, level: float
) -> Alternative:
    names = [None, *before.contrasts]
    return Alternative(
        at=at,
        fairness=float(fairness),
        reached=reached,
        error=error_interval(after, level),
        error_change=error_change(before, after, level),
        selected=None if after.selected is None else float(after.selected[0]),
        gaps=tuple(
            GapComparison(
                attribute=name or "",
                incumbent=gap_interval(before, name, level),
                alternative=gap_interval(after, name, level),
                change=gap_change(before, after, name, level),
            )
            for name in names
        ),
    )


# ------------------------------------------------------------------ our models


def _estimator(
    data: Audited, settings: SearchSettings, criterion: str, compares: str, seed: int
) -> FairPredictor:
    """The unfitted model, at fairness 1, for what is compared."""
    numeric = data.classes is None
    if isinstance(settings.search, FairPredictor):
        out: FairPredictor = clone(settings.search)
    else:
        out = named_model(settings.search, numeric=numeric)
    if numeric == hasattr(out, "predict_proba") or numeric == hasattr(out, "decision_function"):
        what = "numbers" if numeric else "classes"
        raise ValueError(f"search={type(out).__name__} does not suit a target of {what}.")
    kinds = {a.name: a.kind for a in data.attributes}
    out.set_params(
        criterion=criterion,
        fairness=1.0,
        dial="auto",
        sensitive_kind=kinds,
        missing_sensitive="raise",
    )
    if out.random_state is None:
        out.set_params(random_state=seed)
    if not numeric:
        assert data.classes is not None
        out.set_params(pos_label=data.classes[data.positive[0]].item())
        set_equalize(out, "auto" if compares == "decisions" else "scores", len(data.classes))
    return out


def _path(
    estimator: FairPredictor, table: Any, data: Audited, train: Codes, n_points: int
) -> FairnessPath:
    """Fit on the training rows, and predict them out of fold at every dial value."""
    assert data.target is not None
    y: Any = data.target.values
    if data.classes is not None:
        y = data.classes[data.target.codes]
    sensitive = {
        a.name: a.values[train]
        if a.values is not None
        else np.array(a.labels, object)[a.codes[train]]
        for a in data.attributes
    }
    given = {
        "X": take_rows(table, train),
        "y": y[train],
        "sensitive_features": sensitive,
        "sample_weight": None if np.ptp(data.weight) == 0.0 else data.weight[train],
        "groups": None if data.clusters is None else data.clusters[train],
        "n_points": n_points,
    }
    try:
        return fairness_path(estimator, **given)
    except DecisionRuleError as error:
        warn_user(f"Scores are made equal, not decisions. {error}", DataWarning)
        return fairness_path(clone(estimator).set_params(equalize="scores"), **given)


def _labels(data: Audited) -> Any:
    return np.zeros(0) if data.classes is None else data.classes


def _oriented(outputs: Array, classes: Any, data: Audited) -> Array:
    """The column of scores that grows towards the favourable class."""
    if data.classes is None:
        return outputs[:, 0]
    label = data.classes[data.positive[0]]
    k = int(np.flatnonzero(np.asarray(classes) == label)[0])
    if outputs.shape[1] == 1:
        return outputs[:, 0] if k == 1 else -outputs[:, 0]
    return outputs[:, k]


def _ours_out_of_fold(
    path: FairnessPath, data: Audited, compares: str, place: Codes
) -> list[ModelRows]:
    """Outputs at every dial value for some of the rows of the path."""
    out, classes, labels = [], getattr(path.estimator, "classes_", None), _labels(data)
    for i in range(len(path)):
        if compares == "decisions":
            decided = np.searchsorted(labels, path.predictions(i)[place])
            out.append(ModelRows(decided=decided))
        else:
            out.append(ModelRows(scores=_oriented(path.outputs(i), classes, data)[place]))
    return out


def _ours_on_new_rows(path: FairnessPath, X: Any, data: Audited, compares: str) -> list[ModelRows]:
    """Outputs at every dial value for rows that were held out."""
    model: Any = path.estimator
    predictor = DialPredictor(model, model._read_new(X))
    out = []
    for fairness in path.fairness:
        at = predictor.at(float(fairness))
        if compares == "decisions":
            decided = np.searchsorted(_labels(data), model.classes_[at.class_numbers])
            out.append(ModelRows(decided=decided))
        elif compares == "scores":
            out.append(ModelRows(scores=_oriented(at.decision_function, model.classes_, data)))
        else:
            out.append(ModelRows(scores=at.predictions))
    return out
