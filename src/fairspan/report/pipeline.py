"""``explore``: fit a fair model on a table, and report on every dial value of it.

The steps are: read the table and the roles of its columns, hold out rows, fit once, predict and audit
the held-out rows at every dial value, and collect the numbers and sentences of the page.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fairspan._threads import count_rows, with_few_threads
from fairspan.auditing import audit
from fairspan.auditing.parts import PARTS, Settings
from fairspan.datasets.dictionary import dictionary_of
from fairspan.encoding import category_label
from fairspan.estimators.receipts import check_has_form
from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.inputs.columns import as_frame
from fairspan.inputs.config import read_config, read_seed
from fairspan.inputs.probabilities import probability_columns
from fairspan.method.problem import canonical_criterion
from fairspan.report.comparison import (
    CompareRows,
    SavedModel,
    check_models,
    compare_models,
    read_models,
)
from fairspan.report.dial_points import (
    HeldOut,
    shuffled_errors,
)
from fairspan.report.labels import relabel
from fairspan.report.page import Report, attributes_of, audit_lines, fit_in
from fairspan.report.people import describe_people
from fairspan.report.provenance import data_origin, model_origin, read_date
from fairspan.report.recipe import Recipe, source_lines
from fairspan.report.switch import SharedRows, measure_side, other_side
from fairspan.report.table import (
    Roles,
    check_share,
    complete_rows,
    describe_columns,
    find_roles,
    give_aways,
    held_out_rows,
    is_continuous,
    join_small_groups,
)
from fairspan.report.training import (
    Favourable,
    WarningLog,
    by_stratum,
    choose_favourable,
    choose_model,
    fit_model,
    kinds_parameter,
    known_rows,
    read_kinds,
)
from fairspan.report.verdicts import choose_limits, read_limits
from fairspan.report.words import about, notes
from fairspan.tables.dictionary import ColumnWords, read_dictionary
from fairspan.unseen import collect_unseen


@with_few_threads(lambda frame, **_: count_rows(frame))
def explore(
    frame: Any,
    *,
    target: str,
    sensitive_features: Any,
    control_features: Any = None,
    features: Any = None,
    sample_weight: str | None = None,
    criterion: str = "statistical_parity",
    equalize: str | None = None,
    pos_label: Any = None,
    sensitive_kind: Any = "auto",
    model: Any = "kernel",
    fairness: float = 1.0,
    n_points: int = 41,
    test_share: float = 0.25,
    level: float = 0.95,
    n_boot: int = 200,
    audit_parts: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: int = 0,
    name: str = "table",
    source: str | None = None,
    command: str = "",
    dictionary: Any = None,
    missing_sensitive: str | None = None,
    limits: Any = None,
    date: Any = None,
    data_file: Any = None,
    people: bool = False,
    compare: Any = None,
) -> Report:
    """Fit a fair model on a table, and report what every dial value means for groups of people.

    The model is fitted once on some of the rows; all numbers are about the rows held out.

    Parameters
    ----------
    frame : pandas DataFrame, or another that narwhals turns into one
        One row per person. Rows with a missing target, protected attribute, control feature or weight
        are left out; the report states how many.
    target : str
        Column to predict: classes or a number, by the rule for protected attributes.
    sensitive_features : str or list of str
        Columns of protected attributes.
    control_features : str or list of str, optional
        Columns within whose strata groups are compared too; with
        ``criterion="conditional_statistical_parity"`` the model is made fair within them.
    features : list of str, optional
        Columns to learn from. If not given, all others that can be encoded, without identifiers and free
        text, which a note names.
    sample_weight : str, optional
        Column of weights; weight k is k copies of the row.
    criterion : str, default="statistical_parity"
        Fairness criterion of the model; a ``model`` of your own has its own criterion.
    equalize : {"auto", "scores", "decisions"}, optional
        What is made equal between groups. "auto", also if it is not given: decisions for two classes, if
        there are enough rows, and scores otherwise. If it is not given, a ``model`` of your own keeps its
        parameter.
    pos_label : label, optional
        The favourable class. If not given, one of two classes is guessed from the words of the labels
        and the target ("approved" rather than "denied"); the report names it, with the reason.
    sensitive_kind : str or dict, default="auto"
        "categorical" or "continuous", for all protected attributes or by name. "probabilities", or
        ``{"race": "probabilities"}`` for the columns race_*: the probability of each group in every row.
        Numbers are then about the true groups, under the assumptions that the page states; scores are made
        equal, because rates of decisions need the group of each row.
    model : {"kernel", "auto", "boosting"} or unfitted predictor of fairspan, default="kernel"
        "kernel" is :class:`FairGPClassifier` or :class:`FairGPRegressor`. The others are
        :class:`FairClassifier` or :class:`FairRegressor`: "auto" stacks boosted trees and a kernel,
        "boosting" is boosted trees alone.
    fairness : float, default=1.0
        Start of the slider, from 0 to 1: the model that is returned, and audited in full.
    n_points : int, default=41
        Number of equally spaced dial values; ``fairness`` is added if it is not among them.
    test_share : float, default=0.25
        Share of the rows that is held out.
    level : float, default=0.95
        Confidence level of the intervals.
    n_boot : int, default=200
        Number of bootstrap resamples of the held-out rows.
    audit_parts : sequence of str, optional
        Parts of the full audit, as in :func:`fairspan.audit`; all if not given.
    random_state : int, default=0
        The same number gives the same report, on the same ``date``.
    verbose : int, default=0
        1 shows progress.
    name : str, default="table"
        Name of the data in the report. Its Python code reads the file of this name, or the data set
        of :mod:`fairspan.datasets`.
    source : str, optional
        Python code that creates ``table``, for the report; guessed from ``name`` if not given.
    command : str, optional
        Command line of this run, for the report.
    dictionary : path or dict, optional
        Labels and descriptions of columns, which the report shows: a file for
        :func:`fairspan.tables.read_dictionary`, or its result. For a data set of
        :mod:`fairspan.datasets`, by ``name``, its own dictionary is the default.
    missing_sensitive : {"raise", "omit"}, optional
        "omit" fits also on rows without a protected attribute; the rows held out have all of them.
        Otherwise such rows are left out. If not given, a ``model`` of your own decides.
    limits : list of str or dict, optional
        Limits that the page judges by the intervals of the held-out rows, as
        ``["ratio=0.8", "gap=0.05", "correlation=0.1"]`` or ``{"gap": 0.05}``: the lowest selection rate over
        the highest, their difference, the correlation of the score. If not given, the four-fifths ratio
        (0.8); a correlation of 0.1 if the target is a number, or has several classes of which none is
        favourable.
    date : date or str, optional
        Date on the page, as "2024-05-31"; today if not given.
    data_file : path, optional
        File that the table was read from. The page shows its name and its SHA-256 digest, or else that of
        ``table.to_csv(index=False)``.
    people : bool, default=False
        Show a receipt of single held-out rows, by row number: scores without fairness and at the start of
        the slider, and the part of each protected attribute in the change. No columns of the rows are shown.
    compare : dict or list of fitted models, optional
        Models to show beside the report's own, by name: the same held-out rows, with paired intervals of
        differences from the first of them. Rows that one of them was fitted on are left out and counted.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fairspan.report import explore
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "pay": rng.normal(size=300)})
    >>> people["repaid"] = np.where(people["pay"] + rng.normal(size=300) > 0, "yes", "no")
    >>> options = {"n_points": 3, "audit_parts": ["scores", "decisions"]}
    >>> report = explore(people, target="repaid", sensitive_features="sex", **options)
    >>> report.study["fairness"]
    [0, 0.5, 1]
    """
    began = time.perf_counter()
    if equalize is None and isinstance(model, str):
        equalize = "auto"
    check_options(n_points, random_state, fairness, test_share)
    stated, day = read_limits(limits), read_date(date)
    parts = PARTS if audit_parts is None else audit_parts
    words, saved_models = _read_words(dictionary), read_models(compare)
    settings = Settings(level=level, n_boot=n_boot, parts=parts)
    log = WarningLog()
    # Rare values of a column may occur only among the held-out rows; that needs no warning.
    with log.record(), each_warning_once(), collect_unseen():
        whole = _as_pandas(frame)
        origin = data_origin(whole, data_file)
        if dictionary is None:
            words = dictionary_of(name, whole.columns)
        roles, refused = find_roles(
            whole,
            target=target,
            sensitive_features=sensitive_features,
            control_features=control_features,
            features=features,
            sample_weight=sample_weight,
        )
        may_miss = roles.optional(missing_sensitive or _missing_of(model))
        table = complete_rows(whole, roles.needed, may_miss)
        _check_rows(table, roles)
        leaks = list(give_aways(table, roles))
        for text in leaks:
            warn_user(text, DataWarning)
        numeric = is_continuous(table, roles.target)
        check_models(saved_models, table, roles.target, numeric=numeric)
        estimator = choose_model(
            model,
            table,
            roles,
            criterion=criterion,
            pos_label=pos_label,
            sensitive_kind=sensitive_kind,
            random_state=random_state,
            equalize=equalize,
        )
        estimator.set_params(
            verbose=max(verbose, estimator.verbose),
            missing_sensitive="omit" if may_miss else "raise",
        )
        sensitive_kind = kinds_parameter(estimator.sensitive_kind, roles.sensitive)
        roles = replace(roles, probable=probability_columns(sensitive_kind, roles.sensitive))
        kinds = read_kinds(sensitive_kind, roles.sensitive)
        complete = table
        table, joined = join_small_groups(complete, roles.sensitive, kinds)
        criterion, favourable, labels = canonical_criterion(estimator.criterion), None, None
        if is_classifier(estimator):
            labels = table[roles.target].unique().tolist()
            favourable = choose_favourable(labels, roles.target, estimator.pos_label, criterion)
        if favourable is not None:
            estimator.set_params(pos_label=favourable.label)
        judged = choose_limits(stated, roles.target, labels and len(labels), favourable)
        if people:
            check_has_form(read_config(estimator))
        columns, share = [roles.target, *roles.sensitive], test_share
        out = held_out_rows(
            table, columns, kinds=kinds, share=share, seed=random_state, says="test_share="
        )
        train, held = table[~out], table[out]
        fitted = train
        if roles.weight is not None:
            held, fitted = held[held[roles.weight] > 0.0], train[train[roles.weight] > 0.0]
        start = time.perf_counter()
        fit_model(estimator, train, roles, name, or_scores=equalize == "auto")
        seconds = {"fit": time.perf_counter() - start}
        given = _audit_arguments(held, roles, sensitive_kind, estimator.pos_label)
        seed = int(read_seed(random_state).randint(2**31 - 1))
        grid = sorted({float(f"{f:.6g}") for f in (*np.linspace(0.0, 1.0, n_points), fairness)})
        familiar = known_rows(estimator, fitted, held, roles)
        recipe = Recipe(
            source=source or source_lines(name),
            roles=roles,
            model=estimator,
            share=test_share,
            seed=random_state,
            joined=bool(joined),
        )
        shared = SharedRows(
            train=train,
            fitted=fitted,
            held=held,
            familiar=held[familiar],
            roles=roles,
            given=given,
            settings=settings,
            seed=seed,
            grid=grid,
            criterion=criterion,
            words=words,
            recipe=recipe,
            limits=judged,
            favourable=favourable,
            verbose=verbose,
        )
        rng = np.random.default_rng([seed, 1])
        side = measure_side(estimator, shared, rng)
        predictor, held_out, context = side.predictor, side.held_out, side.context
        switched = other_side(estimator)
        other = None
        if switched is not None:
            rng_other = np.random.default_rng([seed, 2])
            other = measure_side(switched, shared, rng_other, first=side).study(shared)
        importance = shuffled_errors(predictor, held_out, rng, verbose=verbose)
        start, at = time.perf_counter(), grid.index(float(f"{fairness:.6g}"))
        chosen = estimator if grid[at] == 1.0 else estimator.at(grid[at])
        options: dict[str, Any] = {"level": level, "n_boot": n_boot, "parts": parts}
        full = audit(chosen, **given, **options, random_state=random_state, verbose=verbose)
        seconds["audit"] = time.perf_counter() - start
        comparison = None
        if saved_models:
            own = SavedModel(name=f"this report, fairness {grid[at]:g}", model=chosen)
            comparison = compare_models(
                saved_models,
                own,
                CompareRows(
                    held=held,
                    roles=roles,
                    sensitive_kind=_known_kinds(held_out, sensitive_kind),
                    pos_label=estimator.pos_label,
                    settings=settings,
                    seed=seed,
                    criterion=criterion,
                    task=held_out.task,
                    by_stratum=by_stratum(estimator),
                ),
            )
    remarks = [
        *notes(whole, complete, roles, refused, held_out, context, favourable, may_miss),
        *map(str, chosen.certificate_.missing),
    ]
    chosen_options = {
        "target": roles.target,
        "sensitive_features": list(roles.sensitive),
        "criterion": criterion,
        "equalize": "decisions" if context.decides else "scores",
        "fairness": grid[at],
        "test_share": test_share,
        "level": level,
        "n_boot": n_boot,
        "random_state": random_state,
    }
    study = {
        "format": 2,
        "about": about(held_out, context, roles, estimator, side.points[0])
        | {
            "data": name,
            "command": command,
            "n_rows": len(table),
            "seed": random_state,
            "n_weightless": len(table) - len(fitted) - len(held),
            "notes": [*remarks, *joined, *_unfamiliar(familiar), *leaks],
            "warnings": list(log.texts),
        },
        "task": held_out.task,
        "target": _target(held_out, roles, favourable),
        "columns": describe_columns(
            whole, roles, _is_continuous(held_out, roles), refused, may_miss
        ),
        "attributes": attributes_of(held_out),
        "strata": [] if held_out.data.strata is None else list(held_out.data.strata.labels),
        "fairness": grid,
        "start": at,
        **{key: part for key, part in side.study(shared).items() if key != "about"},
        "other": other,
        "scatter": {
            groups.name: groups.values[context.displayed].tolist()
            for groups in held_out.data.attributes
            if groups.values is not None
        },
        "importance": importance,
        "limits": {"stated": judged.stated, "given": list(map(str, judged.yardsticks))},
        "provenance": {"date": day, **origin, **model_origin(chosen), "options": chosen_options},
        "audit": audit_lines(full, grid[at], held_out.too_few),
    }
    if people:
        study["people"] = describe_people(chosen, predictor.rows, (held.index + 1).tolist())
    if comparison is not None:
        study["comparison"] = comparison
    study = fit_in(relabel(study, words) if words else study)
    seconds["all"] = time.perf_counter() - began
    log.give()
    return Report(study, chosen, full, seconds)


def check_options(n_points: Any, random_state: Any, fairness: Any, test_share: Any) -> None:
    """Raise ValueError for values of the options that are out of range."""
    for name, value, least in (("n_points", n_points, 2), ("random_state", random_state, 0)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name}={value!r} is not allowed; give an integer from {least} up.")
    if not isinstance(fairness, int | float | np.number) or not 0.0 <= fairness <= 1.0:
        raise ValueError(f"fairness={fairness!r} is not allowed; give a number from 0 to 1.")
    check_share(test_share, "test_share=")


def _missing_of(model: Any) -> str:
    """What the caller's own model does with rows without S."""
    return str(getattr(model, "missing_sensitive", "raise"))


def _as_pandas(frame: Any) -> Any:
    """A pandas DataFrame with rows counted from 0; raise unless all column names are text."""
    narwhal = as_frame(frame, "frame")
    if narwhal is None:
        msg = f"explore takes a data frame with named columns; got {type(frame).__name__}."
        raise TypeError(msg)
    try:
        table = narwhal.to_pandas().reset_index(drop=True)
    except ModuleNotFoundError as error:
        msg = f'explore needs pandas: pip install "fairspan[report]" ({error}).'
        raise ImportError(msg) from error
    unnamed = [name for name in table.columns if not isinstance(name, str)]
    if unnamed:
        raise ValueError(f"Column names must be text, got {unnamed[0]!r}: rename it.")
    return table


def _read_words(dictionary: Any) -> Mapping[str, ColumnWords]:
    if dictionary is None or isinstance(dictionary, Mapping):
        return dictionary or {}
    return read_dictionary(dictionary)


def _check_rows(table: Any, roles: Roles) -> None:
    """Raise if no row is complete, or if the weights are no numbers."""
    if table.empty:
        raise ValueError(f"No row has a value in all of {', '.join(map(repr, roles.needed))}.")
    if roles.weight is not None and table[roles.weight].dtype.kind not in "iufb":
        raise ValueError(f"sample_weight names {roles.weight!r}, which is not a numeric column.")


def _audit_arguments(
    held: Any, roles: Roles, sensitive_kind: Any, pos_label: Any
) -> dict[str, Any]:
    """Arguments of an audit of the held-out rows."""
    columns = dict.fromkeys([*roles.features, *roles.sensitive, *roles.control])
    return {
        "X": held[list(columns)],
        "y": held[roles.target],
        "sensitive_features": list(roles.sensitive),
        "control_features": list(roles.control) or None,
        "sample_weight": None if roles.weight is None else held[roles.weight],
        "sensitive_kind": sensitive_kind,
        "pos_label": pos_label,
    }


def _known_kinds(held_out: HeldOut, sensitive_kind: Any) -> Any:
    """The parameter ``sensitive_kind`` with the kinds that were inferred, for other models."""
    if isinstance(sensitive_kind, str) and held_out.likely:
        return sensitive_kind
    return {groups.name: groups.kind for groups in held_out.attributes}


def _unfamiliar(familiar: NDArray[np.bool_]) -> list[str]:
    """A note about held-out rows of classes, groups or strata that are not in the training rows."""
    n = int(np.count_nonzero(~familiar))
    if not n:
        return []
    rows = f"{n:,} held-out rows are" if n > 1 else "1 held-out row is"
    return [
        f"{rows} of a class, a group or a stratum that no row fitted on has: nothing was learned about it, "
        f"and nothing is promised for it."
    ]


def _is_continuous(held_out: HeldOut, roles: Roles) -> dict[str, bool]:
    """Whether the target and the protected attributes were read as numbers."""
    out = {groups.name: groups.values is not None for groups in held_out.data.attributes}
    return out | {roles.target: held_out.task == "regression"}


def _target(held_out: HeldOut, roles: Roles, favourable: Favourable | None) -> dict[str, Any]:
    """Name and classes of the target, the favourable class, and the reason for this choice."""
    classes, positive = held_out.data.classes, held_out.data.positive
    out: dict[str, Any] = {"name": roles.target, "classes": None, "positive": None}
    if classes is not None:
        out["classes"] = [category_label(label) for label in classes.tolist()]
    if favourable is not None:
        out["positive"] = out["classes"][positive[0]]
        out |= {"named": favourable.named, "reason": favourable.reason}
    return out
